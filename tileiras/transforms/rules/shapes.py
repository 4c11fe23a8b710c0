"""What splats, views, broadcasts and permutations say twice; element-wise ops on splats; pointer identities."""
from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, IntAttr, TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.transforms.rules import (
    RULES,
    attr_splat,
    build,
    constant_attr,
    element_type,
    int_constant,
    rule,
)

MOVERS = (aa.View, aa.Broadcast, aa.Permute, aa.Extract)
"""Ops that only place elements: of a splat they make a splat."""


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
    return None


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
        both = ArrayAttr([IntAttr(first[p]) for p in order])
        return build(op, aa.Permute, inner.operands, op.results[0].type, {"permutation": both})
    return None


@rule("nv_tileaa.addptr")
def fold_addptr(op: Operation) -> SSAValue | None:
    ptr, offset = op.operands
    return ptr if int_constant(offset) == 0 else None


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


def hoist_splat(op: Operation) -> SSAValue | None:
    """f(splat(x), splat(y)) -> splat(f(x, y)): once instead of once an element."""
    t = op.results[0].type
    if not isinstance(t, TensorType):
        return None
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
