"""A float's bit pattern in any of the dialect's formats, from its value or its decimal text, ties to even.

Source: IEEE 754; OCP 8-bit and microscaling formats.
"""
from __future__ import annotations

import math
from fractions import Fraction

from xdsl.ir import Attribute

from tileiras.dialects.cuda_tile.float_formats import FloatFormat, float_format

MAX_EXPONENT = 2000
"""A power of ten beyond every format's range."""

MAX_EXPONENT_DIGITS = 10


def bits_of_float(type_: Attribute, value: float) -> int:
    """The pattern of a Python float in a format; a NaN gives the format's quiet one."""
    form = float_format(type_)
    sign = int(form.signed and math.copysign(1.0, value) < 0) << (form.width - 1)
    if math.isnan(value):
        return sign | _nan(form)
    if math.isinf(value):
        return sign | _overflow(form)
    return sign | _magnitude_bits(form, Fraction(abs(value)))


def bits_of_text(type_: Attribute, text: str) -> int:
    """The pattern of a decimal literal such as `-1.5e+3`."""
    form = float_format(type_)
    sign = int(form.signed and text.startswith("-")) << (form.width - 1)
    digits, _, exponent = text.lstrip("+-").lower().partition("e")
    if exponent and abs(int(exponent[:MAX_EXPONENT_DIGITS])) > len(digits) + MAX_EXPONENT:  # not worth a big number
        if exponent.startswith("-") or not digits.strip("0."):
            return sign
        return sign | _overflow(form)
    return sign | _magnitude_bits(form, Fraction(text.lstrip("+-")))


def _nan(form: FloatFormat) -> int:
    exponent = ((1 << form.exponent) - 1) << form.mantissa
    if form.specials == "ieee":
        return exponent | 1 << (form.mantissa - 1)
    return exponent | (1 << form.mantissa) - 1


def _overflow(form: FloatFormat) -> int:
    """What a magnitude too large becomes: infinity, else NaN, else the largest number."""
    if form.specials == "ieee":
        return ((1 << form.exponent) - 1) << form.mantissa
    return (1 << (form.exponent + form.mantissa)) - 1


def _magnitude_bits(form: FloatFormat, value: Fraction) -> int:
    if value == 0:
        return 0
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    if value < Fraction(2) ** exponent:
        exponent -= 1
    if form.mantissa == 0:
        if value / Fraction(2) ** exponent >= Fraction(3, 2):
            exponent += 1
        return min(max(exponent + form.bias, 0), (1 << form.exponent) - 1)
    exponent = max(exponent, form.least_exponent)
    significand = round(value / Fraction(2) ** (exponent - form.mantissa))
    if significand < 1 << form.mantissa:  # subnormal
        return significand
    bits = significand + ((exponent + form.bias - 1) << form.mantissa)
    return min(bits, _overflow(form))
