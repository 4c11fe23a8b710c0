"""argmax and argmin in few instructions: the extreme first, then the place that counts among the values that are it.

    m = max of the values ; k = min of (value == m, or m is no number) ? place : the farthest place

The body of such a reduction (`analysis/places.py` knows them) has some ten instructions for each pair; a maximum, a comparison, a
selection and a minimum are four, and places of 32 bits meet in a warp by one.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import IntegerType, StringAttr, UnitAttr, i1
from xdsl.ir import Block, Operation, Region, SSAValue

from tileiras.analysis.places import Places
from tileiras.dialects import arith


def extreme_of(found: Places, op: Operation) -> Operation:
    """A reduction, standing nowhere, to the extreme of the values."""
    t = op.regions[0].block.args[0].type
    if isinstance(t, IntegerType):
        return _alike(op, [t, t], lambda block: [_integers(found.largest, found.signed).make(block.args, [t])])
    cls = arith.Maxf if found.largest else arith.Minf
    return _alike(op, [t, t], lambda block: [cls.make(block.args, [t], {"nan": UnitAttr() if found.nan == "wins" else None})])


def nearest_of(found: Places, op: Operation) -> Operation:
    """A reduction, standing nowhere, to the place that counts."""
    t = op.regions[0].block.args[2].type
    return _alike(op, [t, t], lambda block: [_integers(not found.first, found.signed_places).make(block.args, [t])])


def candidate_of(found: Places, op: Operation) -> Operation:
    """(value, extreme, place, the farthest place) -> its place where the value is the extreme: a body, standing nowhere."""
    args = op.regions[0].block.args
    value, place = args[0].type, args[2].type

    def compare(x: SSAValue, y: SSAValue, predicate: str) -> Any:
        cls = arith.Cmpi if isinstance(value, IntegerType) else arith.Cmpf
        return cls.make([x, y], [i1], {"predicate": StringAttr(predicate)})

    def body(block: Block) -> list[Any]:
        v, m, i, far = block.args
        if isinstance(value, IntegerType):
            ops = [compare(v, m, "eq")]
        else:
            odd = m if found.nan == "loses" else v
            ops = [compare(v, m, "oeq"), compare(odd, odd, "une")]
            ops.append(arith.Ori.make([ops[0].results[0], ops[1].results[0]], [i1]))
        return [*ops, arith.Select.make([ops[-1].results[0], i, far], [place])]
    return _alike(op, [value, value, place, place], body)


def farthest(found: Places, t: IntegerType) -> int:
    """The bits of the place that any other comes before."""
    width = t.width.data
    largest = (1 << width - 1) - 1 if found.signed_places else (1 << width) - 1
    return largest if found.first else ((1 << width) - 1) ^ largest


def _integers(largest: bool, signed: bool) -> Any:
    return {(True, True): arith.Maxsi, (True, False): arith.Maxui, (False, True): arith.Minsi, (False, False): arith.Minui}[
        largest, signed]


def _alike(op: Operation, types: list[Any], body: Callable[[Block], list[Any]]) -> Operation:
    """An op with a body of such arguments, whose last op's result it yields."""
    block = Block(arg_types=types)
    ops = body(block)
    for inner in (*ops, arith.Yield.make([[ops[-1].results[0]]])):
        inner.location = op.location
        block.add_op(inner)
    return type(op).create(regions=[Region(block)], location=op.location)
