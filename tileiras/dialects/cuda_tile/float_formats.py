"""What are the bits of a float of each type? Widths of exponent and mantissa, sign, and how specials are marked."""
from __future__ import annotations

from typing import NamedTuple

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatTF32Type,
)
from xdsl.ir import Attribute

from tileiras.dialects.cuda_tile.types import Float8E5M3FNUType


class FloatFormat(NamedTuple):
    """A binary float format: widths of exponent and stored mantissa, whether it has a sign, how it marks specials.

    `specials` is "ieee" (infinities and NaNs at the top exponent), "nan" (NaN is all ones), "top" (NaN at the top
    pattern, unsigned exponents only) or "" (none).
    """

    exponent: int
    mantissa: int
    signed: bool = True
    specials: str = "ieee"

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def width(self) -> int:
        return self.signed + self.exponent + self.mantissa

    @property
    def precision(self) -> int:
        return self.mantissa + 1

    @property
    def least_exponent(self) -> int:
        """The exponent of the smallest normal number."""
        return 1 - self.bias if self.mantissa else -self.bias

    @property
    def greatest_exponent(self) -> int:
        """The exponent of the largest number."""
        top_is_special = self.specials == "ieee" or (self.specials == "nan" and self.mantissa == 0)
        return (1 << self.exponent) - 1 - self.bias - top_is_special


FORMATS: dict[type[Attribute], FloatFormat] = {
    Float16Type: FloatFormat(5, 10), BFloat16Type: FloatFormat(8, 7), Float32Type: FloatFormat(8, 23),
    Float64Type: FloatFormat(11, 52), FloatTF32Type: FloatFormat(8, 10), Float8E5M2Type: FloatFormat(5, 2),
    Float8E4M3FNType: FloatFormat(4, 3, specials="nan"), Float4E2M1FNType: FloatFormat(2, 1, specials=""),
    Float8E8M0FNUType: FloatFormat(8, 0, False, "nan"), Float8E5M3FNUType: FloatFormat(5, 3, False, "nan"),
}


def float_format(type_: Attribute) -> FloatFormat:
    return FORMATS[type(type_)]
