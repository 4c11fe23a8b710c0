"""Ops that compute element by element: floats, integers, bits, comparisons, conversions.

An op's fields carry the public dialect's names; what each op means is said in public `Ops.td`.
"""
from __future__ import annotations

from tileiras.dialects.cuda_tile.op import CudaTileOp


class _Unary(CudaTileOp):
    OPERANDS = "source"
    RESULTS = "result"
    PURE = True


class _Binary(CudaTileOp):
    OPERANDS = "lhs rhs"
    RESULTS = "result"
    PURE = True


class _RoundedBinary(_Binary):
    ATTRS = "rounding_mode flush_to_zero?"


class _MinMaxF(_Binary):
    ATTRS = "propagate_nan? flush_to_zero?"


class _WrappingBinary(_Binary):
    ATTRS = "overflow"


class _SignedBinary(_Binary):
    ATTRS = "signedness"


class _Conversion(CudaTileOp):
    OPERANDS = "from"
    RESULTS = "to"
    PURE = True


class AbsF(_Unary):
    name = "cuda_tile.absf"


class AddF(_RoundedBinary):
    name = "cuda_tile.addf"


class Atan2(CudaTileOp):
    """Since 13.2."""

    name = "cuda_tile.atan2"
    OPERANDS = "x y"
    RESULTS = "result"
    PURE = True


class Ceil(_Unary):
    name = "cuda_tile.ceil"


class CmpF(_Binary):
    name = "cuda_tile.cmpf"
    ATTRS = "comparison_predicate comparison_ordering"


class Cos(_Unary):
    name = "cuda_tile.cos"


class CosH(_Unary):
    name = "cuda_tile.cosh"


class DivF(_RoundedBinary):
    name = "cuda_tile.divf"


class Exp(_Unary):
    """The rounding mode is since 13.3; before that it is `full`."""

    name = "cuda_tile.exp"
    ATTRS = "rounding_mode"


class Exp2(_Unary):
    name = "cuda_tile.exp2"
    ATTRS = "flush_to_zero?"


class Floor(_Unary):
    name = "cuda_tile.floor"


class Fma(CudaTileOp):
    name = "cuda_tile.fma"
    OPERANDS = "lhs rhs acc"
    RESULTS = "result"
    ATTRS = "rounding_mode flush_to_zero?"
    PURE = True


class FPowI(CudaTileOp):
    """A float to an integer power, since 13.4."""

    name = "cuda_tile.fpowi"
    OPERANDS = "source exponent"
    RESULTS = "result"
    PURE = True


class Log(_Unary):
    name = "cuda_tile.log"


class Log2(_Unary):
    name = "cuda_tile.log2"


class MaxF(_MinMaxF):
    name = "cuda_tile.maxf"


class MinF(_MinMaxF):
    name = "cuda_tile.minf"


class MmaF(CudaTileOp):
    """`fast_acc` is since 13.3."""

    name = "cuda_tile.mmaf"
    OPERANDS = "lhs rhs acc"
    RESULTS = "result"
    ATTRS = "fast_acc?"
    PURE = True


class MmaFScaled(CudaTileOp):
    """Block-scaled matrix product, since 13.3."""

    name = "cuda_tile.mmaf_scaled"
    OPERANDS = "lhs rhs acc lhs_scale rhs_scale"
    RESULTS = "result"
    PURE = True


class MulF(_RoundedBinary):
    name = "cuda_tile.mulf"


class NegF(_Unary):
    name = "cuda_tile.negf"


class Pow(CudaTileOp):
    """Public 13.1 name; 13.4's frontend calls the same opcode FPowF."""

    name = "cuda_tile.pow"
    OPERANDS = "source exponent"
    RESULTS = "result"
    PURE = True


class RemF(_Binary):
    name = "cuda_tile.remf"


class Rsqrt(_Unary):
    name = "cuda_tile.rsqrt"
    ATTRS = "flush_to_zero?"


class Sin(_Unary):
    name = "cuda_tile.sin"


class SinH(_Unary):
    name = "cuda_tile.sinh"


class Sqrt(_Unary):
    name = "cuda_tile.sqrt"
    ATTRS = "rounding_mode flush_to_zero?"


class SubF(_RoundedBinary):
    name = "cuda_tile.subf"


class Tan(_Unary):
    name = "cuda_tile.tan"


class TanH(_Unary):
    """The rounding mode is since 13.2; before that it is `full`."""

    name = "cuda_tile.tanh"
    ATTRS = "rounding_mode"


class AbsI(_Unary):
    name = "cuda_tile.absi"


class AddI(_WrappingBinary):
    name = "cuda_tile.addi"


class CmpI(_Binary):
    name = "cuda_tile.cmpi"
    ATTRS = "comparison_predicate signedness"


class DivI(_Binary):
    """Dividing by zero is undefined, so the op is free of effects but not speculatable."""

    name = "cuda_tile.divi"
    ATTRS = "signedness rounding"


class MaxI(_SignedBinary):
    name = "cuda_tile.maxi"


class MinI(_SignedBinary):
    name = "cuda_tile.mini"


class MmaI(CudaTileOp):
    name = "cuda_tile.mmai"
    OPERANDS = "lhs rhs acc"
    RESULTS = "result"
    ATTRS = "signedness_lhs signedness_rhs"
    PURE = True


class MulI(_WrappingBinary):
    name = "cuda_tile.muli"


class MulhiI(CudaTileOp):
    name = "cuda_tile.mulhii"
    OPERANDS = "x y"
    RESULTS = "result"
    PURE = True


class NegI(_Unary):
    """The overflow attribute is since 13.2; before that it is `none`."""

    name = "cuda_tile.negi"
    ATTRS = "overflow"


class RemI(_SignedBinary):
    name = "cuda_tile.remi"


class ShLI(_WrappingBinary):
    name = "cuda_tile.shli"


class ShRI(_SignedBinary):
    name = "cuda_tile.shri"


class SubI(_WrappingBinary):
    name = "cuda_tile.subi"


class AndI(_Binary):
    name = "cuda_tile.andi"


class OrI(_Binary):
    name = "cuda_tile.ori"


class XOrI(_Binary):
    name = "cuda_tile.xori"


class Bitcast(_Unary):
    name = "cuda_tile.bitcast"


class ExtI(_Conversion):
    name = "cuda_tile.exti"
    ATTRS = "signedness"


class FToF(_Conversion):
    name = "cuda_tile.ftof"
    ATTRS = "rounding_mode"


class FToI(_Conversion):
    """`saturating` is since 13.4."""

    name = "cuda_tile.ftoi"
    ATTRS = "signedness rounding_mode saturating?"


class IToF(_Conversion):
    name = "cuda_tile.itof"
    ATTRS = "signedness rounding_mode"


class TruncI(_Conversion):
    name = "cuda_tile.trunci"
    ATTRS = "overflow"


class IntToPtr(_Unary):
    name = "cuda_tile.int_to_ptr"


class PtrToInt(_Unary):
    name = "cuda_tile.ptr_to_int"


class PtrToPtr(_Unary):
    name = "cuda_tile.ptr_to_ptr"


class Select(CudaTileOp):
    name = "cuda_tile.select"
    OPERANDS = "cond val_if_true val_if_false"
    RESULTS = "result"
    PURE = True


OPS: tuple[type[CudaTileOp], ...] = (
    AbsF, AddF, Atan2, Ceil, CmpF, Cos, CosH, DivF, Exp, Exp2, Floor, Fma, FPowI, Log, Log2, MaxF, MinF, MmaF,
    MmaFScaled, MulF, NegF, Pow, RemF, Rsqrt, Sin, SinH, Sqrt, SubF, Tan, TanH,
    AbsI, AddI, CmpI, DivI, MaxI, MinI, MmaI, MulI, MulhiI, NegI, RemI, ShLI, ShRI, SubI, AndI, OrI, XOrI,
    Bitcast, ExtI, FToF, FToI, IToF, TruncI, IntToPtr, PtrToInt, PtrToPtr, Select,
)
