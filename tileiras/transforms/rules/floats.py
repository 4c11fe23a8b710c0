"""Float identities. Each holds for every operand: rounding can't matter, -0.0 keeps its sign and NaN stays NaN.

    x + -0.0, x - +0.0, x * 1.0, x / 1.0  ->  x      rounding to nearest, no flush to zero
    x + +0.0                              stays      -0.0 + +0.0 is +0.0
    x * 0.0, 0.0 / x, x - x               stay       NaN and infinity
    f32 -> f64 -> f32                     ->  x      the wider type holds every value of the narrower
    f16 -> f32 -> tf32              ->  f16 -> tf32  both wider types do
"""
from __future__ import annotations

import math

from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import Operation, SSAValue

from tileiras.dialects import arith
from tileiras.transforms.rules import attr_splat, build, constant_attr, element_type, float_constant, rule

EXACT = {
    "f8E4M3FN": ("f16", "bf16", "tf32", "f32", "f64"), "f8E5M2": ("f16", "bf16", "tf32", "f32", "f64"),
    "f4E2M1FN": ("f8E4M3FN", "f8E5M2", "f16", "bf16", "tf32", "f32", "f64"),
    "f16": ("tf32", "f32", "f64"), "bf16": ("tf32", "f32", "f64"), "tf32": ("f32", "f64"), "f32": ("f64",),
}
"""For each float type, those that hold all its values, infinities and NaN."""

LOSES_INFINITY = ("f8E5M2",)
"""Types with infinities that conversions saturate to, so that there and back isn't the identity."""


def exact(narrow: object, wide: object) -> bool:
    """Whether every value of the first type is one of the second."""
    return getattr(wide, "name", "") in EXACT.get(getattr(narrow, "name", ""), ())


def plain(op: Operation) -> bool:
    """Rounds to nearest even and flushes nothing."""
    rounding = op.properties.get("rounding")
    return "ftz" not in op.properties and (rounding is None or rounding.data == "nearest_even")  # type: ignore[attr-defined]


def is_zero(value: float | None, sign: float) -> bool:
    return value is not None and value == 0.0 and math.copysign(1.0, value) == sign


@rule("arith.addf", "arith.subf")
def fold_sum(op: Operation) -> SSAValue | None:
    lhs, rhs = op.operands
    if not plain(op):
        return None
    if isinstance(op, arith.Subf):
        return lhs if is_zero(float_constant(rhs), 1.0) else None
    if is_zero(float_constant(rhs), -1.0):
        return lhs
    return rhs if is_zero(float_constant(lhs), -1.0) else None


@rule("arith.mulf", "arith.divf")
def fold_product(op: Operation) -> SSAValue | None:
    lhs, rhs = op.operands
    if not plain(op):
        return None
    if float_constant(rhs) == 1.0:
        return lhs
    return rhs if isinstance(op, arith.Mulf) and float_constant(lhs) == 1.0 else None


@rule("arith.negf")
def fold_negate(op: Operation) -> SSAValue | None:
    inner = op.operands[0].owner
    if isinstance(inner, arith.Negf):
        return inner.operands[0]
    attr = constant_attr(op.operands[0])
    if isinstance(attr, FloatAttr) and not math.isnan(attr.value.data):
        return attr_splat(op, op.results[0].type, FloatAttr(-attr.value.data, attr.type))
    return None


@rule("math.absf")
def fold_absolute(op: Operation) -> SSAValue | None:
    source = op.operands[0]
    inner = source.owner
    if isinstance(inner, arith.Absf):
        return source
    return build(op, arith.Absf, (inner.operands[0],), op.results[0].type) if isinstance(inner, arith.Negf) else None


@rule("arith.convertf")
def fold_convert(op: Operation) -> SSAValue | None:
    """There and back through a wider type; two steps to a type that holds all; constants that fit exactly."""
    source = op.operands[0]
    t = op.results[0].type
    to, middle = element_type(t), element_type(source.type)
    if to == middle:
        return source
    attr = constant_attr(source)
    if isinstance(attr, FloatAttr) and exact(middle, to) and math.isfinite(attr.value.data):
        return attr_splat(op, t, FloatAttr(attr.value.data, to))  # type: ignore[arg-type]
    inner = source.owner
    if not isinstance(inner, arith.Convertf):
        return None
    origin = inner.operands[0]
    first = element_type(origin.type)
    if exact(first, middle):
        if first == to and first.name not in LOSES_INFINITY:
            return origin
        if exact(first, to):
            return build(op, arith.Convertf, (origin,), t, op.properties)
    return None


@rule("arith.bitcast")
def fold_bitcast(op: Operation) -> SSAValue | None:
    source = op.operands[0]
    t = op.results[0].type
    if source.type == t:
        return source
    inner = source.owner
    return build(op, arith.Bitcast, (inner.operands[0],), t) if isinstance(inner, arith.Bitcast) else None
