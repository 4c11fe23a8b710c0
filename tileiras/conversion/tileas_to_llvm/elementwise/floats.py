"""Floating-point building blocks shared by arithmetic, maths and conversions.

Rounding. The modes of the tile level map to PTX's suffixes. An operation on f16 or bf16 that the machine lacks is done
in f32 and rounded again. Going through f32 is exact for + - * / and sqrt with rounding to nearest, since f32 has at
least 2p + 2 bits for p = 11 and p = 8 (Figueroa, "When is double rounding innocuous?", 1995), and in a directed mode
always, since rounding twice in one direction is rounding once.

Where two roundings to nearest would differ from one, the first is to odd: take the value rounded down and up; if they
differ, they are neighbours, and the one with the odd last bit keeps what the second rounding needs to know (Boldo and
Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from tileiras.conversion.tileas_to_llvm.builder import BF16, F16, F32, F64, I16, Builder, element_type, width_of
from tileiras.conversion.tileas_to_llvm.elementwise.common import is_type, like, map_registers
from tileiras.dialects.llvm import integer

PTX_ROUNDING = {"": "rn", "nearest_even": "rn", "zero": "rz", "negative_inf": "rm", "positive_inf": "rp"}
_LETTER = {F32: "f", F64: "d"}


def nvvm(b: Builder, name: str, *args: SSAValue) -> SSAValue:
    """Call `llvm.nvvm.<name>`, whose result has the operands' type, on scalars or on every register of vectors."""
    t = element_type(args[0].type)
    return map_registers(b, lambda *xs: b.call(f"llvm.nvvm.{name}", t, xs), *args)


def letter(x: SSAValue) -> str:
    """The type letter of NVVM's f32 and f64 intrinsics."""
    return _LETTER[element_type(x.type)]


def to_bits(b: Builder, x: SSAValue) -> SSAValue:
    """A float's (or vector's) bit pattern as an integer of its width."""
    return b.cast("bitcast", x, like(x, integer(width_of(x.type))))


def from_bits(b: Builder, x: SSAValue, t: Any) -> SSAValue:
    """An integer's (or vector's) bits as the float type `t`."""
    return b.cast("bitcast", x, like(x, t))


def is_nan(b: Builder, x: SSAValue) -> SSAValue:
    return b.fcmp("uno", x, x)


def odd_of(b: Builder, down: SSAValue, up: SSAValue) -> SSAValue:
    """Of one value rounded down and rounded up, the value rounded to odd."""
    bits = to_bits(b, down)
    odd = b.icmp("ne", b.and_(bits, b.bits(1, bits.type)), b.bits(0, bits.type))
    return b.select(odd, down, up)


def widen(b: Builder, x: SSAValue) -> SSAValue:
    """f16 or bf16 as f32; f32 and f64 as they are."""
    return b.cast("fpext", x, like(x, F32)) if is_type(x, F16) or is_type(x, BF16) else x


def narrow(low: Any, x: SSAValue, t: Any, mode: str = "rn") -> SSAValue:
    """f32 to f16 or bf16 with one rounding (rn, rz, rm, rp); f32 and f64 that have the type already as they are."""
    b: Builder = low.b
    if is_type(x, t):
        return x
    if mode == "rn":
        return b.cast("fptrunc", x, like(x, t))
    if t == F16 or low.target.has_cvt_bf16_directed:
        def convert(one: SSAValue) -> SSAValue:
            name = "f16" if t == F16 else "bf16"
            return b.nvvm(f"cvt.{mode}.{name}.f32", [one])[0]
        return map_registers(b, convert, x)
    return _bf16_directed(b, x, mode)


def _bf16_directed(b: Builder, x: SSAValue, mode: str) -> SSAValue:
    """f32 to bf16 by cutting off the low half of the bits, and one step up in magnitude where the mode asks for it."""
    bits = to_bits(b, x)
    zero = b.bits(0, bits.type)
    high = b.lshr(bits, 16)
    if mode != "rz":
        away = b.icmp("slt" if mode == "rm" else "sge", bits, zero)
        inexact = b.icmp("ne", b.and_(bits, b.bits(0xFFFF, bits.type)), zero)
        high = b.add(high, b.cast("zext", b.and_(away, inexact), bits.type))
    half = b.cast("trunc", high, like(x, I16))
    half = b.select(is_nan(b, x), b.bits(0x7FFF, half.type), half)
    return from_bits(b, half, BF16)


def narrow_exact(low: Any, x: SSAValue, t: Any) -> SSAValue:
    """f32 to f16 or bf16 where the value is known to be representable (NaN stays NaN)."""
    b: Builder = low.b
    if is_type(x, t):
        return x
    if t == BF16 and not low.target.has_cvt_bf16:
        return from_bits(b, b.cast("trunc", b.lshr(to_bits(b, x), 16), like(x, I16)), BF16)
    return b.cast("fptrunc", x, like(x, t))


def f64_to_f32_odd(b: Builder, x: SSAValue) -> SSAValue:
    """f64 to f32 rounded to odd."""
    def convert(one: SSAValue) -> SSAValue:
        return odd_of(b, b.call("llvm.nvvm.d2f.rm", F32, [one]), b.call("llvm.nvvm.d2f.rp", F32, [one]))
    return map_registers(b, convert, x)

