"""Conversions to and from the 8- and 4-bit floats, which live in registers as i8.

Where the SM converts pairs (e4m3, e5m2 from sm_89, e2m1 from sm_100, e5m3 on sm_107), its instructions are used;
elsewhere the same is done with integer arithmetic on vectors. All of these formats saturate: what is beyond the greatest
finite number, infinity too, becomes that number; NaN stays NaN (f4 has none: +6). f8E8M0FNU has neither sign nor zero: it takes the
magnitude, and 2^-127 for anything smaller. f8E5M3FNU has no sign and takes the magnitude too. Sources: OCP 8-bit
floating point 1.0; OCP microscaling formats 1.0; PTX ISA, `cvt`; cuTile Python `_bytecode/float.py` (f8E5M3FNU).
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import Float4E2M1FNType, Float8E4M3FNType, Float8E5M2Type, Float8E8M0FNUType, VectorType
from xdsl.ir import Attribute, SSAValue

from tileiras.conversion.tileas_to_llvm.builder import F16, F32, I1, I8, I16, I32, Builder
from tileiras.conversion.tileas_to_llvm.elementwise.common import is_type, like, overloaded
from tileiras.conversion.tileas_to_llvm.elementwise.floats import from_bits, is_nan, nvvm, to_bits, widen
from tileiras.dialects.cuda_tile.types import Float8E5M3FNUType
from tileiras.dialects.llvm import vec

F32_MANTISSA, F32_BIAS, F32_INFINITY = 23, 127, 0x7F800000
F16_BIAS, F16_MANTISSA = 15, 10


@dataclass(frozen=True)
class Narrow:
    """A narrow format: mantissa bits, exponent bias, codes (without sign) of the greatest finite number and of
    NaN, the sign's bit (above the byte where there is none), and the name of its pair in PTX, if any."""

    mantissa: int
    bias: int
    largest: int
    nan: int
    sign: int
    pair: str


FORMATS: dict[type, Narrow] = {
    Float8E4M3FNType: Narrow(3, 7, 0x7E, 0x7F, 7, "e4m3x2"),
    Float8E5M2Type: Narrow(2, 15, 0x7B, 0x7F, 7, "e5m2x2"),
    Float4E2M1FNType: Narrow(1, 1, 0x7, 0x7, 3, "e2m1x2"),
    Float8E5M3FNUType: Narrow(3, 15, 0xFE, 0xFF, 8, "ue5m3x2"),
}


def is_narrow(t: Attribute) -> bool:
    """Whether an nv_tileas element type is one of the formats here."""
    return type(t) in FORMATS or isinstance(t, Float8E8M0FNUType)


def _converts_pairs(low: Any, form: Narrow) -> bool:
    return getattr(low.target, {3: "has_cvt_fp4_fp6", 7: "has_cvt_fp8", 8: "has_cvt_e5m3"}[form.sign])


# ---------------------------------------------------------------------------------------------------------------------
# From narrow


def from_narrow(low: Any, x: SSAValue, t: Attribute) -> SSAValue:
    """Exactly, as f16; f8E8M0FNU and f8E5M3FNU as f32."""
    b: Builder = low.b
    if isinstance(t, Float8E8M0FNUType):
        return _from_e8m0(b, x)
    if isinstance(t, Float8E5M3FNUType):
        return _pairs_to_f32(b, x) if low.target.has_cvt_e5m3 else _from_e5m3(b, x)
    form = FORMATS[type(t)]
    if form.bias == F16_BIAS:
        return _upper_bytes(b, x)
    if _converts_pairs(low, form):
        return _pairs_to_f16(b, x, form)
    z = b.cast("zext", x, like(x, I16))
    magnitude = b.and_(z, b.bits((1 << form.sign) - 1, z.type))
    sign = b.shl(b.and_(z, b.bits(1 << form.sign, z.type)), 15 - form.sign)
    # The exponent field read with f16's bias is too small by a power of two, for subnormals too: one multiplication.
    value = from_bits(b, b.or_(b.shl(magnitude, F16_MANTISSA - form.mantissa), sign), F16)
    value = b.binary("fmul", value, b.const(2.0 ** (F16_BIAS - form.bias), value.type))
    if form.nan == form.largest:
        return value
    nan = b.icmp("eq", magnitude, b.bits(form.nan, z.type))
    return b.select(nan, b.bits(0x7FFF, value.type), value)


def _upper_bytes(b: Builder, x: SSAValue) -> SSAValue:
    """e5m2 is the upper byte of an f16."""
    if not isinstance(x.type, VectorType):
        return b.cast("bitcast", b.shl(b.cast("zext", x, I16), 8), F16)
    n = x.type.get_shape()[0]
    mask = [place for i in range(n) for place in (n, i)]
    return b.cast("bitcast", b.shuffle(x, b.bits(0, x.type), mask), vec(n, F16))


def _from_e5m3(b: Builder, x: SSAValue) -> SSAValue:
    """The code as f32's exponent and mantissa is too small by a power of two, for subnormals too."""
    z = b.cast("zext", x, like(x, I32))
    value = from_bits(b, b.shl(z, F32_MANTISSA - 3), F32)
    value = b.binary("fmul", value, b.const(2.0 ** (F32_BIAS - F16_BIAS), value.type))
    return b.select(b.icmp("eq", z, b.bits(0xFF, z.type)), from_bits(b, b.bits(0x7FFFFFFF, z.type), F32), value)


def _pairs_to_f32(b: Builder, x: SSAValue) -> SSAValue:
    """e5m3, by the SM's conversion to bf16, which holds all of its numbers."""
    def convert(pair: SSAValue) -> SSAValue:
        return b.cast("fpext", b.nvvm("cvt.rn.bf16x2.ue5m3x2", [pair])[0], vec(2, F32))
    return _by_pairs(b, x, convert)


def _from_e8m0(b: Builder, x: SSAValue) -> SSAValue:
    z = b.cast("zext", x, like(x, I32))
    bits = b.shl(z, F32_MANTISSA)
    bits = b.select(b.icmp("eq", z, b.bits(0, z.type)), b.bits(1 << F32_MANTISSA - 1, z.type), bits)
    bits = b.select(b.icmp("eq", z, b.bits(0xFF, z.type)), b.bits(0x7FFFFFFF, z.type), bits)
    return from_bits(b, bits, F32)


def _pairs_to_f16(b: Builder, x: SSAValue, form: Narrow) -> SSAValue:
    def convert(pair: SSAValue) -> SSAValue:
        if form.sign == 3:          # a pair of f4 is one byte
            pair = b.or_(b.and_(pair, b.bits(0x0F, I16)), b.and_(b.lshr(pair, 4), b.bits(0xF0, I16)))
        return b.call(f"llvm.nvvm.{form.pair}.to.f16x2.rn", vec(2, F16), [pair])
    return _by_pairs(b, x, convert)


def _by_pairs(b: Builder, x: SSAValue, convert: Callable[[SSAValue], SSAValue]) -> SSAValue:
    """Bytes to numbers, by what converts the two bytes of an i16 to a vector of two."""
    if not isinstance(x.type, VectorType) or x.type.get_shape()[0] % 2:
        def single(one: SSAValue) -> SSAValue:
            return b.extract(convert(b.cast("zext", one, I16)), 0)
        return b.pack([single(one) for one in b.unpack(x)]) if isinstance(x.type, VectorType) else single(x)
    n = x.type.get_shape()[0]
    return b.concat([convert(pair) for pair in b.unpack(b.cast("bitcast", x, vec(n // 2, I16)))])


# ---------------------------------------------------------------------------------------------------------------------
# To narrow


def to_narrow(low: Any, x: SSAValue, t: Attribute, mode: str = "rn") -> SSAValue:
    """From f16 or f32 (of a longer format: rounded to odd), rounded once, saturated."""
    b: Builder = low.b
    if isinstance(t, Float8E8M0FNUType):
        return _to_e8m0(b, widen(b, x), mode)
    form = FORMATS[type(t)]
    if mode == "rn" and _converts_pairs(low, form):
        return _pairs_from(b, x, form)
    x = widen(b, x)
    bits = to_bits(b, x)
    kind = bits.type

    def c(value: int) -> SSAValue:
        return b.bits(value, kind)
    magnitude = b.and_(bits, c(0x7FFFFFFF))
    absolute = from_bits(b, magnitude, F32)
    shift = F32_MANTISSA - form.mantissa
    # Subnormals of the format: adding 2^k, whose last place is the format's spacing, rounds to it.
    anchor = b.const(2.0 ** (F32_MANTISSA + 1 - form.bias - form.mantissa), x.type)
    if mode == "rn":
        step = b.add(b.and_(b.lshr(magnitude, shift), c(1)), c((1 << shift - 1) - 1))
        sum_ = b.binary("fadd", absolute, anchor)
    else:
        away = b.bits(0, like(x, I1)) if mode == "rz" else b.icmp("slt" if mode == "rm" else "sge", bits, c(0))
        step = b.select(away, c((1 << shift) - 1), c(0))
        sum_ = b.select(away, nvvm(b, "add.rp.f", absolute, anchor), nvvm(b, "add.rz.f", absolute, anchor))
    normal = b.sub(b.lshr(b.add(magnitude, step), shift), c(F32_BIAS - form.bias << form.mantissa))
    subnormal = b.sub(to_bits(b, sum_), to_bits(b, anchor))
    small = b.icmp("ult", magnitude, c(F32_BIAS + 1 - form.bias << F32_MANTISSA))
    code = overloaded(b, "llvm.umin", [b.select(small, subnormal, normal), c(form.largest)])
    sign = b.and_(b.lshr(bits, 31 - form.sign), c(1 << form.sign))
    code = b.select(b.icmp("ugt", magnitude, c(F32_INFINITY)), c(form.nan), b.or_(code, sign))
    return b.cast("trunc", code, like(x, I8))


def _to_e8m0(b: Builder, x: SSAValue, mode: str) -> SSAValue:
    bits = to_bits(b, x)
    magnitude = b.and_(bits, b.bits(0x7FFFFFFF, bits.type))
    exponent = b.lshr(magnitude, F32_MANTISSA)
    rest = b.and_(magnitude, b.bits(0x7FFFFF, bits.type))
    zero = b.bits(0, bits.type)
    if mode != "rz":
        # A subnormal is below 2^-126: code 0 is 2^-127, half of the mantissa's range.
        limit, low_limit = (0, 1 << 22) if mode == "rp" else ((1 << 22) - 1, 3 << 21)
        least = b.bits(low_limit if mode == "rp" else low_limit - 1, bits.type)
        up = b.icmp("ugt", rest, b.select(b.icmp("eq", exponent, zero), least, b.bits(limit, bits.type)))
        exponent = b.add(exponent, b.cast("zext", up, bits.type))
    code = overloaded(b, "llvm.umin", [exponent, b.bits(0xFE, bits.type)])
    code = b.select(is_nan(b, x), b.bits(0xFF, bits.type), code)
    return b.cast("trunc", code, like(x, I8))


def _pairs_from(b: Builder, x: SSAValue, form: Narrow) -> SSAValue:
    """The lower byte of a pair comes from the second operand, or from the vector's first element."""
    if form.sign == 3:
        x = widen(b, x)
    half = is_type(x, F16)

    def convert(first: SSAValue, second: SSAValue) -> SSAValue:
        if form.sign == 3:
            pair = b.call(f"llvm.nvvm.ff.to.{form.pair}.rn.satfinite", I16, [second, first])
            return b.or_(b.and_(pair, b.bits(0x0F, I16)), b.shl(b.and_(pair, b.bits(0xF0, I16)), 4))
        if form.sign == 8:
            return (b.nvvm("cvt.rn.satfinite.ue5m3x2.f16x2", [b.pack([first, second])]) if half else
                    b.nvvm("cvt.rn.satfinite.ue5m3x2.f32", [second, first]))[0]
        if half:
            return b.call(f"llvm.nvvm.f16x2.to.{form.pair}.rn", I16, [b.pack([first, second])])
        return b.call(f"llvm.nvvm.ff.to.{form.pair}.rn", I16, [second, first])
    if not isinstance(x.type, VectorType):
        return b.cast("trunc", convert(x, b.bits(0, x.type)), I8)
    xs = b.unpack(x)
    if len(xs) % 2:
        return b.pack([b.cast("trunc", convert(one, b.bits(0, one.type)), I8) for one in xs])
    words = b.pack([convert(*pair) for pair in zip(xs[::2], xs[1::2])])
    return b.cast("bitcast", words, vec(len(xs), I8))
