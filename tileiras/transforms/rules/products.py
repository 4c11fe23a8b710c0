"""Identities of products.

    dot (f16 -> tf32), (f16 -> tf32)    ->  dot f16, f16      the products of two elements are the same, and exact in f32

Operands of 16 bits take half the room in shared memory and half the tensor core's time, and the copy engine brings them as they
are. Programs widen what they load to f32 before all else, and multiply some of it as it was.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import BFloat16Type, Float16Type
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.dialects import arith
from tileiras.transforms.rules import build, element_type, with_element
from tileiras.transforms.rules.floats import exact

NAMES = frozenset({"nv_tileaa.permute", "nv_tileaa.view"})
"""Ops that give elements other names only."""
HALVES: tuple[Attribute, ...] = (Float16Type(), BFloat16Type())


def multiply_as_loaded(op: Operation) -> SSAValue | None:
    """Operands of tf32 whose elements all are numbers of one type of 16 bits."""
    if any(getattr(element_type(v.type), "name", "") != "tf32" for v in op.operands[:2]):
        return None
    ways = [_way(v) for v in op.operands[:2]]
    sources = [element_type(way[-1].operands[0].type) for way in ways if way]
    half = next((t for t in HALVES if all(s == t or exact(s, t) for s in sources)), None)
    if half is None or len(sources) < len(ways):
        return None
    narrow = [_narrowed(op, way, half) for way in ways]
    cls: Any = type(op)
    return build(op, cls, (*narrow, *op.operands[2:]), op.results[0].type, op.properties)


def _way(v: SSAValue) -> list[Operation]:
    """The ops, last first, that widen a tile of 16 or 8 bits an element and give its elements other names, so that `v` has the
    elements that the last one of them takes; none where it has others."""
    way: list[Operation] = []
    wider: list[Attribute] = []
    while isinstance(owner := v.owner, arith.Convertf) or (isinstance(owner, Operation) and owner.name in NAMES):
        wider.append(element_type(v.type))
        way.append(owner)
        v = owner.operands[0]
        t = element_type(v.type)
        if t in HALVES or any(exact(t, half) for half in HALVES):
            return way if all(exact(t, one) for one in wider) else []
    return []


def _narrowed(op: Operation, way: list[Operation], half: Attribute) -> SSAValue:
    """The elements at the end of a way as numbers of `half`, by the names that they have at its begin."""
    v = way[-1].operands[0]
    if element_type(v.type) != half:
        v = build(op, arith.Convertf, (v,), with_element(v.type, half), way[-1].properties)
    for move in reversed(way):
        if move.name in NAMES:
            cls: Any = type(move)
            v = build(op, cls, (v,), with_element(move.results[0].type, half), move.properties)
    return v
