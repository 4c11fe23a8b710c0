"""Does a reduction of pairs look for the place of an extreme, as argmax and argmin do?

    (%a, %b, %i, %j) {
      %p = %a > %b, or they are equal (or both no number) and %i < %j
      yield (%p ? %a : %b), (%p ? %i : %j) }

It isn't read off a body's ops but tried: a body that does nothing but compare its arguments and select between them is told by
what it takes in each of the 18 ways in which two values (less, equal, greater; one, the other or both no number) and two places
can stand to each other. Which of equal values comes out (zeros of either sign) is left open: for reductions whose value nobody
uses.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, IntegerType, i1
from xdsl.ir import Block, Operation, SSAValue

PLACE_ONLY = "nv_tile.place_only"
"""On a part of a reduction: nobody uses the value that the whole gives."""
PAIRS = 2
ORDERS = ("lt", "eq", "gt")
UNORDERED = ("first", "second", "both")
"""Which of two values is no number."""


@dataclass(frozen=True)
class Places:
    """`largest`: whether the largest value is looked for. `first`: whether the smallest place of equal values counts. `signed`,
    `signed_places`: how integers compare. `nan`: "loses" or "wins" against numbers; "" for integers."""

    largest: bool
    first: bool
    signed: bool
    signed_places: bool
    nan: str


def places_of(op: Operation) -> Places | None:
    """What a reduction of values with their places looks for; None where it is another one, or its value is used."""
    if len(op.operands) != PAIRS or not (op.results[0].first_use is None or PLACE_ONLY in op.attributes):
        return None
    block = op.regions[0].block
    a, _, i, _ = block.args
    if not isinstance(i.type, IntegerType) or i.type == i1 or a.type == i1:
        return None
    is_float = not isinstance(a.type, IntegerType)
    signs: dict[SSAValue, set[str]] = {a: set(), i: set()}
    taken: dict[tuple[str, str], bool] = {}
    for values, places in product((*ORDERS, *UNORDERED) if is_float else ORDERS, ORDERS):
        picked = _try(block, values, places, signs)
        if picked is None:
            return None
        if values not in ("eq", "both") or places != "eq":
            taken[values, places] = picked
    for values in (v for v, _ in taken if v not in ("eq", "both")):
        if len({taken[values, places] for places in ORDERS}) > 1:
            return None
    largest, first = taken["gt", "eq"], taken["eq", "lt"]
    ties = ("eq", "both") if is_float else ("eq",)
    wins = is_float and taken["first", "eq"]
    if taken["lt", "eq"] == largest or any(taken[t, "lt"] != first or taken[t, "gt"] == first for t in ties) or \
            (is_float and taken["second", "eq"] == wins) or any(len(found) > 1 for found in signs.values()):
        return None
    return Places(largest, first, signs[a] != {"u"}, signs[i] != {"u"}, ("wins" if wins else "loses") if is_float else "")


def _try(block: Block, values: str, places: str, signs: dict[SSAValue, set[str]]) -> bool | None:
    """Whether the body takes the first pair where values and places stand so to each other; None where that isn't all it does."""
    a, b, i, j = block.args
    known: dict[SSAValue, Any] = {v: v for v in block.args}
    for op in block.ops:
        operands = [known.get(v) for v in op.operands]
        if any(v is None for v in operands):
            return None
        if op.name == "scf.yield":
            return {(a, i): True, (b, j): False}.get(tuple(operands))      # type: ignore[arg-type]
        result = _evaluate(op, operands, block, values, places, signs)
        if result is None:
            return None
        known[op.results[0]] = result
    return None


def _evaluate(op: Operation, operands: list[Any], block: Block, values: str, places: str, signs: dict[SSAValue, set[str]]) -> Any:
    """A truth or one of the arguments; None for what isn't known."""
    if op.name in ("arith.cmpf", "arith.cmpi"):
        x, y = operands
        sides = next((pair for pair in (block.args[:2], block.args[2:]) if x in pair and y in pair), None)
        if sides is None:
            return None
        order = values if sides[0] is block.args[0] else places
        predicate: Any = op.properties["predicate"]
        return _compare(op.name, predicate.data, order, sides.index(x), sides.index(y), signs[sides[0]])
    if op.name == "arith.select" and isinstance(operands[0], bool):
        return operands[1] if operands[0] else operands[2]
    if op.name == "arith.constant":
        value: Any = op.properties["value"]
        return bool(value.value.data) if isinstance(value, IntegerAttr) and value.type == i1 else None
    logic = _LOGIC.get(op.name)
    return logic(*operands) if logic is not None and all(isinstance(v, bool) for v in operands) else None


_LOGIC: dict[str, Callable[[bool, bool], bool]] = {
    "arith.andi": lambda x, y: x and y, "arith.ori": lambda x, y: x or y, "arith.xori": lambda x, y: x != y}


def _compare(name: str, predicate: str, order: str, x: int, y: int, signs: set[str]) -> bool:
    """A comparison of side x (0 or 1) with side y. `signs` collects how sides compare as integers."""
    no_number = {"first": (0,), "second": (1,), "both": (0, 1)}.get(order, ())
    if x in no_number or y in no_number:
        return predicate[0] == "u"
    relation = predicate[-2:]
    if name == "arith.cmpi" and relation not in ("eq", "ne"):
        signs.add(predicate[0])
    actual = "eq" if x == y else order if x == 0 else _TURNED[order]
    return actual in _HOLDS[relation]


_TURNED = {"lt": "gt", "eq": "eq", "gt": "lt"}
_HOLDS = {"lt": ("lt",), "le": ("lt", "eq"), "gt": ("gt",), "ge": ("gt", "eq"), "eq": ("eq",), "ne": ("lt", "gt")}
