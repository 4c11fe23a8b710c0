"""What is known of an integer or pointer value: the lattice of the axis analysis.

A tile of rank r has, along each dimension d, groups of consecutive elements (aligned to their size, a power of two):

    contiguity[d] = c   in every group of c, each element is its left neighbour plus one (pointers: plus one pointee)
    start[d]      = s   the first element of every such group is divisible by s (pointers: bytes)
    constancy[d]  = k   in every group of k, all elements are equal

    make_range 0..127 + splat(%x), 16 divides %x:   contiguity 128, start 16, constancy 1, divisor 1
    the same divided by 8:                          contiguity 1, start = divisor 1, constancy 8

`divisor` divides every element; `lo` and `hi` bound every element as a signed integer (i1: 0 and 1). Divisors are
powers of two up to MAX_DIVISOR, which is what zero has: they survive wrap-around. Contiguity is meant without it.
"""
from __future__ import annotations

from typing import NamedTuple

from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import Attribute

from tileiras.dialects.nv_tileaa import PtrType

MAX_DIVISOR = 1 << 62


class Info(NamedTuple):
    """The facts of one value; see the module's docstring."""

    divisor: int
    contiguity: tuple[int, ...]
    start: tuple[int, ...]
    constancy: tuple[int, ...]
    lo: int | None = None
    hi: int | None = None

    @property
    def const(self) -> int | None:
        """The one value that all elements have."""
        return self.lo if self.lo is not None and self.lo == self.hi else None

    def start_of(self, dim: int, group: int) -> int:
        """What divides the first elements of groups of `group` (a power of two) along `dim`."""
        c = self.contiguity[dim]
        s = self.start[dim]
        if group < c:
            s = min(s, group)
        return max(s, self.divisor)


def power_of_two(value: int) -> int:
    """The largest power of two, up to MAX_DIVISOR, that divides `value`."""
    return min(value & -value, MAX_DIVISOR) if value else MAX_DIVISOR


def group_of(size: int) -> int:
    """The largest power of two whose groups fit groups of `size`: the one that divides it."""
    return size & -size if size > 0 else 1


def longest(contiguity: tuple[int, ...]) -> int | None:
    """The dimension along which neighbours come in the longest groups, None where no two do."""
    best = max(range(len(contiguity)), key=lambda d: (contiguity[d], d), default=None)
    return best if best is not None and contiguity[best] > 1 else None


def is_tracked(t: Attribute) -> bool:
    """Whether values of this type have facts: integers, pointers, and tensors of them."""
    if isinstance(t, TensorType):
        t = t.element_type
    return isinstance(t, (IntegerType, PtrType))


def shape_of(t: Attribute) -> tuple[int, ...]:
    return t.get_shape() if isinstance(t, TensorType) else ()


def width_of(t: Attribute) -> int:
    """Bits of an integer type or of a tensor's element; 64 for pointers."""
    if isinstance(t, TensorType):
        t = t.element_type
    return t.width.data if isinstance(t, IntegerType) else 64


def limits(width: int) -> tuple[int, int]:
    """The least and the greatest value of an integer type (i1: 0 and 1)."""
    return (0, 1) if width == 1 else (-(1 << width - 1), (1 << width - 1) - 1)


def unknown(shape: tuple[int, ...]) -> Info:
    ones = (1,) * len(shape)
    return Info(1, ones, ones, ones)


def uniform(shape: tuple[int, ...], divisor: int, lo: int | None, hi: int | None) -> Info:
    """A value whose elements are all equal."""
    if lo is not None and lo == hi:
        divisor = power_of_two(lo)
    rank = len(shape)
    return Info(divisor, (1,) * rank, (divisor,) * rank, shape, lo, hi)


def constant(shape: tuple[int, ...], value: int) -> Info:
    return uniform(shape, power_of_two(value), value, value)


def make(shape: tuple[int, ...], divisor: int, contiguity: tuple[int, ...], start: tuple[int, ...],
         constancy: tuple[int, ...], lo: int | None, hi: int | None) -> Info:
    """The facts in normal form: groups no longer than the extents, what follows from bounds and constancy drawn."""
    if lo is not None and lo == hi:
        return constant(shape, lo)
    if not shape:
        return Info(divisor, (), (), (), lo, hi)
    groups = tuple(min(c, n) for c, n in zip(contiguity, shape))
    starts = tuple(divisor if c == 1 else max(min(s, c) if c < old else s, divisor)
                   for c, old, s in zip(groups, contiguity, start))
    return Info(divisor, groups, starts, tuple(min(k, n) for k, n in zip(constancy, shape)), lo, hi)


def join(a: Info, b: Info) -> Info:
    """What holds of a value that is one or the other."""
    if a == b:
        return a
    divisor = min(a.divisor, b.divisor)
    lo = None if a.lo is None or b.lo is None else min(a.lo, b.lo)
    hi = None if a.hi is None or b.hi is None else max(a.hi, b.hi)
    contiguity = tuple(map(min, a.contiguity, b.contiguity))
    start = tuple(min(a.start_of(d, c), b.start_of(d, c)) for d, c in enumerate(contiguity))
    return Info(divisor, contiguity, start, tuple(map(min, a.constancy, b.constancy)), lo, hi)
