"""How constants are written: decimal floats that read back to the same bits, nested element lists, quoted strings.

Source: MLIR's printer of float and dense attributes, LLVM's `APFloat::toString`.
"""
from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from xdsl.dialects.builtin import (
    IntegerType,
)
from xdsl.ir import Attribute

from tileiras.dialects.cuda_tile.asm_types import bare_type_text
from tileiras.dialects.cuda_tile.attrs import DenseElementsAttr
from tileiras.dialects.cuda_tile.dense import element_patterns, is_splat
from tileiras.dialects.cuda_tile.float_formats import FloatFormat, float_format

HEX_ABOVE = 100
"""Constants of more elements than this are written as one hexadecimal string."""


class Decoded(NamedTuple):
    """A finite float: sign, and magnitude as significand * 2**exponent."""

    negative: bool
    significand: int
    exponent: int


def decode(type_: Attribute, bits: int) -> Decoded | str:
    """The number that `bits` mean, or "inf" or "nan"."""
    form = float_format(type_)
    mantissa = bits & ((1 << form.mantissa) - 1)
    exponent = bits >> form.mantissa & ((1 << form.exponent) - 1)
    negative = form.signed and bits >> (form.width - 1) & 1 == 1
    top = exponent == (1 << form.exponent) - 1
    if form.specials == "ieee" and top:
        return "nan" if mantissa else "inf"
    if form.specials == "nan" and top and mantissa == (1 << form.mantissa) - 1:
        return "nan"
    if form.mantissa == 0:  # an exponent alone: no zero, no subnormals
        return Decoded(negative, 1, exponent - form.bias)
    if exponent == 0:
        return Decoded(negative, mantissa, form.least_exponent - form.mantissa)
    return Decoded(negative, mantissa | 1 << form.mantissa, exponent - form.bias - form.mantissa)


@lru_cache(maxsize=4096)
def float_text(type_: Attribute, bits: int) -> str:
    """The float as text: six digits if they read back to it, else enough digits with a point, else hexadecimal."""
    number = decode(type_, bits)
    if not isinstance(number, str):
        form = float_format(type_)
        text, value = _decimal(number, 6, 0, False)
        if _nearest(value, form) == _value(number):
            return text
        digits = 2 + form.precision * 59 // 196
        text, _ = _decimal(number, digits, 3, True)
        if "." in text:
            return text
    return f"0x{bits:X}"


def _value(number: Decoded) -> Fraction:
    return Fraction(number.significand) * Fraction(2) ** number.exponent


def _nearest(value: Fraction, form: FloatFormat) -> Fraction:
    """A magnitude rounded to the format's precision, ties to even, without an upper limit."""
    if value == 0:
        return value
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    if value < Fraction(2) ** exponent:
        exponent -= 1
    quantum = Fraction(2) ** (max(exponent, form.least_exponent) - form.mantissa)
    return round(value / quantum) * quantum


def _decimal(number: Decoded, precision: int, padding: int, short: bool) -> tuple[str, Fraction]:
    """LLVM's decimal text of a number with at most `precision` digits, and the magnitude that it says.

    `padding` is how many zeros may stand in for an exponent (0: always scientific); `short` drops trailing zeros.
    """
    sign = "-" if number.negative else ""
    if number.significand == 0:
        if padding:
            return sign + "0", Fraction(0)
        return sign + ("0.0E+0" if short else "0.0" + "0" * (precision - 1) + "e+00"), Fraction(0)
    digits, exponent = _digits(number, precision)
    value = Fraction(int(digits)) * Fraction(10) ** exponent
    count = len(digits)
    if not padding:
        scientific = True
    elif exponent >= 0:
        scientific = exponent > padding or count + exponent > precision
    else:
        leading = exponent + count - 1
        scientific = leading < 0 and -leading > padding
    if scientific:
        power = exponent + count - 1
        fraction = digits[1:] or ("0" if short else "")
        if not short:
            fraction += "0" * (precision - count + 1)
        power_text = str(abs(power)) if short else f"{abs(power):02d}"
        return f"{sign}{digits[0]}.{fraction}{'E' if short else 'e'}{'+' if power >= 0 else '-'}{power_text}", value
    if exponent >= 0:
        return sign + digits + "0" * exponent, value
    whole = exponent + count
    if whole > 0:
        return f"{sign}{digits[:whole]}.{digits[whole:]}", value
    return f"{sign}0.{'0' * -whole}{digits}", value


def _digits(number: Decoded, precision: int) -> tuple[str, int]:
    """At most `precision` decimal digits without trailing zeros, and the power of ten of the last one."""
    significand, exponent = number.significand, number.exponent
    zeros = (significand & -significand).bit_length() - 1
    significand >>= zeros
    exponent += zeros
    if exponent > 0:
        significand <<= exponent
        exponent = 0
    elif exponent < 0:
        significand *= 5 ** -exponent
    needed = (precision * 196 + 58) // 59
    surplus = (significand.bit_length() - needed) * 59 // 196 if significand.bit_length() > needed else 0
    if surplus > 0:
        significand //= 10 ** surplus
        exponent += surplus
    text = str(significand)
    stripped = text.rstrip("0")
    exponent += len(text) - len(stripped)
    if len(stripped) <= precision:
        return stripped, exponent
    kept, following = stripped[:precision], stripped[precision]
    exponent += len(stripped) - precision
    rounded = str(int(kept) + (following >= "5"))
    text = rounded.rstrip("0")
    return text, exponent + len(rounded) - len(text)


def integer_value(pattern: int, width: int) -> int:
    """A bit pattern as a signed integer."""
    return pattern - (1 << width) if width > 1 and pattern >> (width - 1) else pattern


def element_text(type_: Attribute, pattern: int) -> str:
    """One element of a constant from its bit pattern."""
    if isinstance(type_, IntegerType):
        width = type_.width.data
        return ("true" if pattern else "false") if width == 1 else str(integer_value(pattern, width))
    return float_text(type_, pattern)


def dense_text(constant: DenseElementsAttr) -> str:
    """The elements alone: `1`, `[[1, 2], [3, 4]]`, or `"0x..."` for many."""
    type_ = constant.type.element_type
    patterns = element_patterns(constant)
    if is_splat(constant):
        return element_text(type_, patterns[0])
    if constant.type.num_elements > HEX_ABOVE:
        return f'"0x{constant.raw.hex().upper()}"'
    if len(set(patterns)) == 1:
        return element_text(type_, patterns[0])
    level = [element_text(type_, pattern) for pattern in patterns]
    for extent in reversed(constant.type.shape):
        level = [f"[{', '.join(level[i:i + extent])}]" for i in range(0, len(level), extent)]
    return level[0]


def constant_hint(constant: DenseElementsAttr) -> str:
    """The name that a constant's value suggests: `cst_42_i32`, `true`, `cst_f32`."""
    type_ = constant.type.element_type
    patterns = element_patterns(constant)
    if isinstance(type_, IntegerType) and type_.width.data == 1:
        return "true" if all(patterns) else "cst_i1" if any(patterns) else "false"
    value = ""
    if is_splat(constant) or len(set(patterns)) == 1:
        if isinstance(type_, IntegerType):
            value = f"_{integer_value(patterns[0], type_.width.data)}"
        else:
            value = _float_hint(type_, patterns[0])
    return f"cst{value}_{bare_type_text(type_)}"


def _float_hint(type_: Attribute, bits: int) -> str:
    """`_2` for a float that is a natural number below 2**64, `_NaN` for NaN, else nothing."""
    number = decode(type_, bits)
    if isinstance(number, str):
        return "_NaN" if number == "nan" else ""
    value = _value(number)
    if number.negative or value.denominator != 1 or value >= 1 << 64:
        return ""
    return f"_{value.numerator}"


def quoted(text: str) -> str:
    """A string in quotes as MLIR escapes it: `\\0A` for a newline."""
    out = []
    for byte in text.encode("utf-8", "surrogateescape"):
        if byte == 0x5C:
            out.append("\\\\")
        elif byte == 0x22 or not 0x20 <= byte < 0x7F:
            out.append(f"\\{byte:02X}")
        else:
            out.append(chr(byte))
    return '"' + "".join(out) + '"'
