"""What splats, views, broadcasts and permutations say twice; element-wise ops on splats; pointer identities."""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.nv_tileaa import int_array
from tileiras.transforms.rules import (
    RULES,
    attr_splat,
    build,
    constant_attr,
    element_type,
    int_constant,
    int_splat,
    int_width,
    rule,
    wrap,
)


@rule("nv_tileaa.splat")
def fold_splat(op: Operation) -> SSAValue | None:
    attr = constant_attr(op.operands[0])
    return None if attr is None else attr_splat(op, op.results[0].type, attr)


@rule("nv_tileaa.view", "nv_tileaa.broadcast", "nv_tileaa.permute", "nv_tileaa.extract")
def fold_mover(op: Operation) -> SSAValue | None:
    source, t = op.operands[0], op.results[0].type
    if source.type == t and not isinstance(op, aa.Permute):
        return source
    attr = constant_attr(source)
    if attr is not None:
        return attr_splat(op, t, attr)
    inner = source.owner
    if isinstance(inner, aa.Splat):
        return build(op, aa.Splat, inner.operands, t) if isinstance(t, TensorType) else inner.operands[0]
    if isinstance(op, (aa.View, aa.Broadcast)) and isinstance(inner, type(op)):
        return build(op, type(op), inner.operands, t)
    if isinstance(op, aa.Permute):
        return _fold_permute(op)
    return _fold_extract(op, inner) if isinstance(op, aa.Extract) else None


def _fold_extract(op: Operation, inner: Any) -> SSAValue | None:
    source, t = op.operands[0], op.results[0].type
    if isinstance(inner, arith.Elementwise) and source.has_one_use():
        return _extract_first(op, inner)
    if isinstance(inner, aa.Insert) and inner.operands[0].type == t:
        into, before = op.operands[1:], inner.operands[2:]
        if tuple(into) == tuple(before):
            return inner.operands[0]
        if any(None not in (pair := (int_constant(a), int_constant(b))) and pair[0] != pair[1] for a, b in zip(into, before)):
            return build(op, aa.Extract, (inner.operands[1], *into), t, op.properties)      # of another part
    if isinstance(inner, aa.View):
        return _extract_before_view(op, inner)
    return None


def _extract_before_view(op: Operation, view: Operation) -> SSAValue | None:
    """extract(view(x)) -> view(extract(x)) where the view only gives or takes extents of one."""
    source, t = view.operands[0], op.results[0].type
    if not isinstance(source.type, TensorType) or not isinstance(t, TensorType):
        return None
    shape, shown, part = source.type.get_shape(), view.results[0].type.get_shape(), t.get_shape()   # type: ignore[attr-defined]
    if [n for n in shape if n > 1] != [n for n in shown if n > 1]:
        return None
    kept = [(index, n) for index, n, whole in zip(op.operands[1:], part, shown) if whole > 1]
    rest = iter(kept)
    places = [next(rest) if n > 1 else (int_splat(op, op.operands[1].type, 0), 1) for n in shape]
    less = build(op, aa.Extract, (source, *(index for index, _ in places)), TensorType(t.element_type, [n for _, n in places]))
    taken, inner = less.owner, source.owner
    if isinstance(taken, aa.Extract) and isinstance(inner, arith.Elementwise) and view.results[0].has_one_use() and \
            all(use.operation in (view, taken) for use in source.uses):
        less = _extract_first(taken, inner) or less     # the view goes with the part that was taken of it
    return build(op, aa.View, (less,), t)


@rule("nv_tileaa.insert")
def fold_insert(op: Operation) -> SSAValue | None:
    """A part put where it was taken from."""
    part, whole = op.operands[0].owner, op.operands[1]
    if isinstance(part, aa.Extract) and part.operands[0] is whole and tuple(part.operands[1:]) == tuple(op.operands[2:]):
        return whole
    return None


def _extract_first(op: Operation, inner: Operation) -> SSAValue | None:
    """extract(f(x)) -> f(extract(x)), where the other operands are the same everywhere: only what is kept is computed."""
    spread = [v for v in inner.operands if isinstance(v.type, TensorType) and scalar_of(op, v) is None]
    t: Any = op.results[0].type
    if len(spread) != 1 or not isinstance(t, TensorType):
        return None

    def like(v: SSAValue) -> TensorType:
        return TensorType(element_type(v.type), t.get_shape())  # type: ignore[arg-type]

    def part(v: SSAValue) -> SSAValue:
        if v is spread[0]:
            return build(op, aa.Extract, (v, *op.operands[1:]), like(v), op.properties)
        scalar = scalar_of(op, v) if isinstance(v.type, TensorType) else None
        return v if scalar is None else build(op, aa.Splat, (scalar,), like(v))
    return build(op, type(inner), [part(v) for v in inner.operands], t, inner.properties)  # type: ignore[arg-type]


def _order(op: Operation) -> tuple[int, ...]:
    return tuple(p.data for p in op.properties["permutation"].data)  # type: ignore[attr-defined]


def _fold_permute(op: Operation) -> SSAValue | None:
    """Composition; the identity is its source."""
    order, source = _order(op), op.operands[0]
    if order == tuple(range(len(order))):
        return source
    inner = source.owner
    if isinstance(inner, aa.Permute):
        first = _order(inner)
        both = int_array(first[p] for p in order)
        return build(op, aa.Permute, inner.operands, op.results[0].type, {"permutation": both})
    return None


@rule("nv_tileaa.addptr")
def fold_addptr(op: Operation) -> SSAValue | None:
    """No way is nowhere; two known ways are one."""
    ptr, offset = op.operands
    way, inner = int_constant(offset), ptr.owner
    if way == 0:
        return ptr
    first = int_constant(inner.operands[1]) if isinstance(inner, aa.Addptr) else None
    if way is None or first is None or inner.operands[1].type != offset.type:  # type: ignore[union-attr]
        return None
    if wrap(way + first, int_width(offset.type)) != way + first:
        return None
    both = int_splat(op, offset.type, way + first)
    return build(op, aa.Addptr, (inner.operands[0], both), op.results[0].type)  # type: ignore[union-attr]


@rule("nv_tileaa.ptr_to_ptr", "nv_tileaa.int_to_ptr", "nv_tileaa.ptr_to_int")
def fold_pointer_cast(op: Operation) -> SSAValue | None:
    """A cast of a cast: addresses pass through unchanged."""
    source, t = op.operands[0], op.results[0].type
    if source.type == t:
        return source
    inner = source.owner
    if not isinstance(inner, (aa.PtrToPtr, aa.IntToPtr, aa.PtrToInt)):
        return None
    origin = inner.operands[0]
    if origin.type == t:
        return origin
    if isinstance(op, aa.PtrToInt):
        return build(op, aa.PtrToInt, (origin,), t) if isinstance(inner, aa.PtrToPtr) else None
    from_pointer = isinstance(inner, (aa.PtrToPtr, aa.PtrToInt))
    return build(op, aa.PtrToPtr if from_pointer else aa.IntToPtr, (origin,), t)


# --- element-wise ops on splats ------------------------------------------------------------------------------------

def scalar_of(op: Operation, value: SSAValue) -> SSAValue | None:
    """The scalar that a tensor is a splat of; a scalar is its own."""
    if not isinstance(value.type, TensorType):
        return value
    inner = value.owner
    if isinstance(inner, aa.Splat):
        return inner.operands[0]
    attr = constant_attr(value)
    return None if attr is None else attr_splat(op, element_type(value.type), attr)


FEWER_FIRST = ("arith.negf", "math.")
"""Ops of one operand that are done before a broadcast. (Conversions aren't: wider elements would be moved.)"""


def before_broadcast(op: Operation) -> SSAValue | None:
    """f(broadcast(x)) -> broadcast(f(x)): once for what is the same."""
    t, inner = op.results[0].type, op.operands[0].owner
    if len(op.operands) != 1 or not isinstance(inner, aa.Broadcast) or not op.name.startswith(FEWER_FIRST) or \
            not isinstance(t, TensorType):
        return None
    source: Any = inner.operands[0]
    fewer = build(op, type(op), (source,), TensorType(t.element_type, source.type.get_shape()),  # type: ignore[arg-type]
                  op.properties)
    return build(op, aa.Broadcast, (fewer,), t, inner.properties)


def hoist_splat(op: Operation) -> SSAValue | None:
    """f(splat(x), splat(y)) -> splat(f(x, y)): once instead of once an element."""
    t = op.results[0].type
    if not isinstance(t, TensorType):
        return None
    if (found := before_broadcast(op)) is not None:
        return found
    for v in op.operands:
        if isinstance(v.type, TensorType) and not (isinstance(v.owner, aa.Splat) or constant_attr(v) is not None):
            return None
    if not any(isinstance(v.owner, aa.Splat) for v in op.operands):
        return None
    scalars = [scalar_of(op, v) for v in op.operands]
    result = build(op, type(op), [v for v in scalars if v is not None], t.element_type,  # type: ignore[arg-type]
                   op.properties)
    return build(op, aa.Splat, (result,), t)


def install() -> None:
    """Let every element-wise op that no other rule simplifies be hoisted over splats."""
    for cls in (*arith.ARITH_OPS, *arith.MATH_OPS, aa.Addptr, aa.IntToPtr, aa.PtrToInt, aa.PtrToPtr):
        if cls is arith.Constant:
            continue
        first = RULES.get(cls.name)
        RULES[cls.name] = hoist_splat if first is None else _either(first)


def _either(first):  # type: ignore[no-untyped-def]
    def both(op: Operation) -> SSAValue | None:
        value = first(op)
        return hoist_splat(op) if value is None else value
    return both
