"""Lower conversions between element types, pointers and integers. Every conversion rounds once.

LLVM's own conversions serve where they map to one PTX `cvt`. What they would round twice (f64 or 64-bit integers to
bf16) goes through f32 rounded to odd (floats.py); directed modes round twice in the same direction.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import Float8E8M0FNUType, FloatTF32Type, VectorType
from xdsl.ir import Attribute, SSAValue

from tileiras.conversion.tileas_to_llvm.builder import BF16, F16, F32, F64, I32, I64, Builder, width_of
from tileiras.conversion.tileas_to_llvm.elementwise.casts_narrow import from_narrow, is_narrow, to_narrow
from tileiras.conversion.tileas_to_llvm.elementwise.common import is_type, like, map_registers, overloaded, text, whole
from tileiras.conversion.tileas_to_llvm.elementwise.floats import (
    f64_to_f32_odd,
    from_bits,
    is_nan,
    narrow,
    narrow_exact,
    odd_of,
    to_bits,
    widen,
)
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, lowers, storage_type
from tileiras.dialects import llvm
from tileiras.dialects.cuda_tile.types import Float8E5M3FNUType
from tileiras.dialects.nv_tileaa import int_values

MODES = {"zero": "rz", "negative_inf": "rm", "positive_inf": "rp", "nearest_away": "rna"}
TF32_CUT = 13
"""Low mantissa bits of f32 that tf32 lacks."""


def _mode(op: Any) -> str:
    return MODES.get(text(op, "rounding"), "rn")


# ---------------------------------------------------------------------------------------------------------------------
# Float to float


@whole("arith.convertf")
def float_to_float(low: Lowering, op: Any, x: SSAValue) -> SSAValue:
    return convert_float(low, x, low.element(op.operands[0]), low.element(op.results[0]), _mode(op))


def convert_float(low: Lowering, x: SSAValue, source: Attribute, to: Attribute, mode: str = "rn") -> SSAValue:
    """`x` of the nv_tileas element type `source` in the type `to`; mode: rn, rz, rm, rp, rna (ties away from zero)."""
    b = low.b
    if source == to:
        return x
    if is_narrow(source):
        x = from_narrow(low, x, source)
    if to == F64:
        return x if is_type(x, F64) else b.cast("fpext", x, like(x, F64))
    if is_type(x, to) and to == F16:
        return x
    if isinstance(to, Float8E8M0FNUType | Float8E5M3FNUType):       # the magnitude is what rounds, up or down
        x = overloaded(b, "llvm.fabs", [x if is_type(x, F16) else widen(b, x)])
    if is_type(x, F64):
        if mode in ("rn", "rna"):
            if to in (F16, F32) and mode == "rn":
                return b.cast("fptrunc", x, like(x, to))
            x = f64_to_f32_odd(b, x)
        else:
            x = nvvm_to_f32(low, f"d2f.{mode}", x)
    if is_narrow(to):
        return to_narrow(low, x if is_type(x, F16) else widen(b, x), to, mode)
    x = widen(b, x)
    if to == F32:
        return x
    if mode == "rna":
        x, mode = _ties_away(low, x), "rn"
    if isinstance(to, FloatTF32Type):
        if mode == "rn" and low.target.has_cvt_tf32_rn:
            bits = map_registers(b, lambda one: b.call("llvm.nvvm.f2tf32.rn", I32, [one]), x)
            return from_bits(b, bits, F32)
        return _to_tf32(low, x, mode)
    return narrow(low, x, to, mode)


def nvvm_to_f32(low: Lowering, name: str, x: SSAValue) -> SSAValue:
    """Call a conversion intrinsic that gives f32 on every register."""
    return map_registers(low.b, lambda one: low.b.call(f"llvm.nvvm.{name}", F32, [one]), x)


def _ties_away(low: Lowering, x: SSAValue) -> SSAValue:
    """f32 values whose rounding to nearest even in a shorter format is that of `x` with ties away from zero.

    A tie, and only a tie or a number of the format, has a last bit of 0 where 1 leads to the other side."""
    b = low.b
    bits = to_bits(b, x)
    finite = b.icmp("ult", b.and_(bits, b.bits(0x7FFFFFFF, bits.type)), b.bits(0x7F800000, bits.type))
    return from_bits(b, b.or_(bits, b.cast("zext", finite, bits.type)), F32)


def _to_tf32(low: Lowering, x: SSAValue, mode: str) -> SSAValue:
    """f32 with the low 13 mantissa bits rounded away."""
    b = low.b
    bits = to_bits(b, x)
    last = (1 << TF32_CUT) - 1

    def c(value: int) -> SSAValue:
        return b.bits(value, bits.type)
    if mode == "rn":
        step = b.add(b.and_(b.lshr(bits, TF32_CUT), c(1)), c((1 << TF32_CUT - 1) - 1))
    elif mode == "rz":
        step = c(0)
    else:
        step = b.select(b.icmp("slt" if mode == "rm" else "sge", bits, c(0)), c(last), c(0))
    rounded = b.and_(b.add(bits, step), c(~last))
    special = b.icmp("uge", b.and_(bits, c(0x7FFFFFFF)), c(0x7F800000))
    rounded = b.select(special, bits, rounded)
    return from_bits(b, b.select(is_nan(b, x), c(0x7FFFE000), rounded), F32)


# ---------------------------------------------------------------------------------------------------------------------
# Integer to integer, bits


@whole("arith.extsi", "arith.extui")
def extend(low: Lowering, op: Any, x: SSAValue) -> SSAValue:
    b = low.b
    signed = op.name == "arith.extsi"
    to = storage_type(low.element(op.results[0]))
    if getattr(low.element(op.operands[0]), "width", None) is not None and low.element(op.operands[0]).width.data == 4:  # type: ignore[attr-defined]
        x = b.ashr(b.shl(x, 4), 4) if signed else b.and_(x, b.bits(15, x.type))
    return b.cast("sext" if signed else "zext", x, like(x, to))


@whole("arith.trunci")
def truncate(low: Lowering, op: Any, x: SSAValue) -> SSAValue:
    b = low.b
    to = storage_type(low.element(op.results[0]))
    x = b.cast("trunc", x, like(x, to))
    if low.element(op.results[0]).width.data == 4:  # type: ignore[attr-defined]
        x = b.ashr(b.shl(x, 4), 4)
    return x


@whole("arith.bitcast")
def bitcast(low: Lowering, op: Any, x: SSAValue) -> SSAValue:
    return low.b.cast("bitcast", x, like(x, storage_type(low.element(op.results[0]))))


# ---------------------------------------------------------------------------------------------------------------------
# Integer to float


@whole("arith.sitofp", "arith.uitofp")
def int_to_float(low: Lowering, op: Any, x: SSAValue) -> SSAValue:
    b = low.b
    signed, mode = op.name == "arith.sitofp", _mode(op)
    to = low.element(op.results[0])
    cast = "sitofp" if signed else "uitofp"
    w = width_of(x.type)
    if w == 1:          # LLVM takes signed booleans for 0 and 1 where it has conversions to bf16
        kind = to if to in (F16, BF16, F32, F64) else F32
        number = b.select(x, b.const(-1.0 if signed else 1.0, like(x, kind)), b.const(0.0, like(x, kind)))
        return number if kind == to else convert_float(low, number, F32, to, mode)
    if to == F64:
        if w < 64 or mode in ("rn", "rna"):
            return b.cast(cast, x, like(x, F64))
        return map_registers(b, lambda one: b.call(f"llvm.nvvm.{'ll' if signed else 'ull'}2d.{mode}", F64, [one]), x)
    if to in (F16, BF16, F32) and w == 8:
        from tileiras.conversion.tileas_to_llvm.elementwise.bytes import bytes_to_floats, in_words
        if in_words(x.type):
            return bytes_to_floats(b, x, signed, to)
    if "bounds" in op.properties and isinstance(x.type, VectorType) and x.type.get_shape()[0] % 2 == 0:
        from tileiras.conversion.tileas_to_llvm.elementwise.bytes import words_to_halves
        return words_to_halves(b, x, int_values(op.bounds)[0])
    if mode == "rn" and (to in (F32, F16) or (to == BF16 and low.target.has_cvt_int_bf16)):
        return b.cast(cast, x, like(x, to))
    if w < 32:
        single = b.cast(cast, x, like(x, F32))
    else:
        letters = ("" if signed else "u") + ("i" if w == 32 else "ll")

        def convert(m: str) -> SSAValue:
            return nvvm_to_f32(low, f"{letters}2f.{m}", x)
        single = odd_of(b, convert("rm"), convert("rp")) if mode in ("rn", "rna") else convert(mode)
    if to == F32:
        return single
    if w == 8 and to in (BF16, F16):
        return narrow_exact(low, single, to)
    return convert_float(low, single, F32, to, mode)


# ---------------------------------------------------------------------------------------------------------------------
# Float to integer


@whole("arith.fptosi", "arith.fptoui")
def float_to_int(low: Lowering, op: Any, x: SSAValue) -> SSAValue:
    b = low.b
    source = low.element(op.operands[0])
    to = low.element(op.results[0])
    if is_narrow(source):
        x = from_narrow(low, x, source)
    if is_type(x, BF16):
        x = widen(b, x)
    w = width_of(storage_type(to))
    if w == 1:
        return b.fcmp("une", x, b.bits(0, x.type))
    signed = op.name == "arith.fptosi"
    narrow = storage_type(to)
    return map_registers(b, lambda v: _saturated(b, v, narrow, signed), x)


def _saturated(b: Builder, x: SSAValue, to: Attribute, signed: bool) -> SSAValue:
    """A scalar rounded towards zero, the nearest end of the range where it lies beyond, zero for NaN.

    The definition leaves what is beyond the range open unless the op says saturating; the hardware's conversion saturates by
    itself. It gives no zero for NaN where either side has 64 bits (PTX ISA, "cvt")."""
    width = width_of(to)
    if x.type == F16:
        x = b.cast("fpext", x, F32)
    t = I64 if width == 64 else I32
    wide = "ll" if width == 64 else "i"
    name = f"{'d' if x.type == F64 else 'f'}2{wide if signed else 'u' + wide}"
    out = b.call(f"llvm.nvvm.{name}.rz", t, [x])
    if x.type == F64 or width == 64:
        out = b.select(b.fcmp("uno", x, x), b.bits(0, t), out)
    if width >= 32:
        return out
    if signed:
        out = b.call("llvm.smin.i32", I32, [out, b.i32((1 << width - 1) - 1)])
        out = b.call("llvm.smax.i32", I32, [out, b.i32(-(1 << width - 1))])
    else:
        out = b.call("llvm.umin.i32", I32, [out, b.i32((1 << width) - 1)])
    return b.cast("trunc", out, to)


# ---------------------------------------------------------------------------------------------------------------------
# Pointers


@whole("nv_tileas.int_to_ptr")
def int_to_ptr(low: Lowering, op: Any, x: SSAValue) -> SSAValue:
    return low.b.cast("inttoptr", x, like(x, llvm.ptr(llvm.GLOBAL)))


@whole("nv_tileas.ptr_to_int")
def ptr_to_int(low: Lowering, op: Any, x: SSAValue) -> SSAValue:
    return low.b.cast("ptrtoint", x, like(x, I64))


@lowers("nv_tileas.ptr_to_ptr")
def ptr_to_ptr(low: Lowering, op: Any) -> None:
    low.set(op.results[0], low.vec(op.operands[0]))
