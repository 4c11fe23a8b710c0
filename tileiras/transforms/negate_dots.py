"""`negate-dots`: instructions change the sign of what they multiply, not threads.

    %n = negf %y                             ->     %d = dot %y, %b, %c {negated = "lhs"}
    %d = dot %n, %b, %c

`wgmma` and `tcgen05.mma` take a sign for each operand, which costs nothing: a tile that only changes its sign on its way from
memory to the product comes by the copy engine, and no thread touches it (products of complex numbers, updates that subtract a
product). Signs of both operands cancel. `choose-atoms` gives a product that takes another instruction its `negf` back.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.layout_rules import RENAMES, unmoved
from tileiras.dialects import arith
from tileiras.dialects.element import element_name
from tileiras.transforms.structure import erase_unused, insert_in_front, is_movable

SIDES = ("lhs", "rhs")
SIGNED = frozenset({"f16", "bf16"})
"""Types of operands that threads may change the sign of, and whose instructions take one."""


def run(module: Operation, context: Any) -> None:
    """Take the signs, in place."""
    if not context.multiplies_apart:
        return
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            for op in [op for op in func.walk() if op.name == "nv_tileas.dot"]:
                _take_signs(op)


def _take_signs(dot: Any) -> None:
    sides = []
    for i, side in enumerate(SIDES):
        v = dot.operands[i]
        sign: Any = unmoved(v, RENAMES).owner
        if isinstance(sign, arith.Negf) and element_name(v.type.element_type) in SIGNED:
            dot.operands[i] = _without(v, sign)
            erase_unused([v.owner], is_movable)
            sides.append(side)
    if len(sides) == 1:
        dot.properties["negated"] = StringAttr(sides[0])


def _without(v: SSAValue, sign: Operation) -> SSAValue:
    """What `v` is without the sign that stands behind its moves."""
    move = v.owner
    assert isinstance(move, Operation)
    if move is sign:
        return sign.operands[0]
    source = move.operands[0]
    new = move.clone({source: _without(source, sign)})
    insert_in_front(move, new)
    return new.results[0]


def give_back(dot: Any) -> None:
    """Change the sign by an op of its own, for an instruction that doesn't."""
    side: Any = dot.properties.pop("negated", None)
    if side is not None:
        i = SIDES.index(side.data)
        sign = arith.Negf.create(operands=[dot.operands[i]], result_types=[dot.operands[i].type], location=dot.location)
        insert_in_front(dot, sign)
        dot.operands[i] = sign.results[0]
