"""Swizzles, and layouts followed by one.

    Swizzle(3, 4, 3)      address bits 7, 8, 9 are XORed into bits 4, 5, 6: the 128-byte pattern of TMA and of matrix
                          descriptors; (2, 4, 3) is the 64-byte and (1, 4, 3) the 32-byte one

Swizzle(B, M, S) XORs B bits from M + S upwards into those from M upwards (S negative: from M into M - S). It is its
own inverse. `ComposedLayout` is c -> swizzle(offset + layout(c)); in elements instead of bytes M is smaller.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Union

from tileiras.layout.cute.algebra import Layout, parse_layout, recast_layout
from tileiras.layout.cute.tuples import LayoutError
from tileiras.layout.linear import log2


@dataclass(frozen=True)
class Swizzle:
    """`bits` bits from `base + shift` upwards into those from `base` upwards."""

    bits: int
    base: int
    shift: int

    def __post_init__(self) -> None:
        if self.bits < 0 or self.base < 0 or abs(self.shift) < self.bits:
            raise LayoutError(f"input type [{self}] has invalid values.")

    def __call__(self, index: int) -> int:
        mask = (1 << self.bits) - 1
        low, high = sorted((self.base, self.base + self.shift)) if self.shift >= 0 else (self.base, self.base - self.shift)
        if self.shift >= 0:
            return index ^ (index >> high & mask) << low
        return index ^ (index >> low & mask) << high

    @property
    def is_identity(self) -> bool:
        return self.bits == 0

    def recast(self, old_bits: int, new_bits: int) -> Swizzle:
        """The same permutation of bytes, counted in elements of another width. Raises LayoutError if it would take one
        element apart."""
        base = self.base + log2(old_bits) - log2(new_bits)
        if base < 0:
            raise LayoutError(f"unable to recast layout {self}")
        return Swizzle(self.bits, base, self.shift)

    def __str__(self) -> str:
        return f"S<{self.bits},{self.base},{self.shift}>"


@dataclass(frozen=True)
class ComposedLayout:
    """c -> swizzle(offset + layout(c))."""

    swizzle: Swizzle
    offset: int
    layout: Layout

    def __call__(self, *coord: Any) -> int:
        return self.swizzle(self.offset + self.layout(*coord))

    @property
    def shape(self) -> Any:
        return self.layout.shape

    @property
    def size(self) -> int:
        return self.layout.size

    def image(self) -> list[int]:
        """The function's values at 0 .. size - 1."""
        return [self(i) for i in range(self.size)]

    @property
    def cosize(self) -> int:
        return 1 + max(self.image())

    def recast(self, old_bits: int, new_bits: int) -> ComposedLayout:
        """The same bytes as elements of another width."""
        if self.offset * old_bits % new_bits:
            raise LayoutError(f"unable to recast layout {self}")
        return ComposedLayout(self.swizzle.recast(old_bits, new_bits), self.offset * old_bits // new_bits,
                              recast_layout(self.layout, old_bits, new_bits))

    def __str__(self) -> str:
        return f"{self.swizzle} o {self.offset} o {self.layout}"


AnyLayout = Union[Layout, ComposedLayout]


def parse_any(source: str) -> AnyLayout:
    """A layout as it prints, with or without a swizzle: `S<3,4,3> o 0 o (8,64):(64,1)`. Raises LayoutError."""
    parts = [p.strip() for p in source.split(" o ")]
    if len(parts) == 1:
        return parse_layout(source)
    numbers = parts[0][2:-1].split(",") if parts[0].startswith("S<") and parts[0].endswith(">") else []
    if len(parts) != 3 or len(numbers) != 3 or not all(_is_number(n) for n in (*numbers, parts[1])):
        raise LayoutError(f"failed to parse layout descriptor: '{source[:80]}' is no swizzle, offset and layout")
    return ComposedLayout(Swizzle(*map(int, numbers)), int(parts[1]), parse_layout(parts[2]))


def _is_number(text: str) -> bool:
    digits = text.strip().removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 10
