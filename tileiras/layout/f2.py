"""Vectors over F2 as Python integers: spans, intersections, complements, and solving for combinations.

A vector is an int (bit i = coordinate i), addition is XOR, a matrix is the sequence of its columns.

    apply((1, 6), 0b11) == 7                    column 0 xor column 1
    solve((1, 6), [7, 2]) == [0b11, None]       7 is both columns together; 2 is not in the span
    intersection((1, 2), (3, 4)) == [3]
    complement((3,), 2) == [1]                  unit vectors that, with 3, span both coordinates
    annihilator((3,), 3) == [3, 4]              masks m for which x & m has even parity for x in the span
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence


def apply(bases: Sequence[int], value: int) -> int:
    """The XOR of the bases of the set bits of `value`: the matrix of columns `bases` times the vector `value`."""
    out = 0
    for i, basis in enumerate(bases):
        if value >> i & 1:
            out ^= basis
    return out


def parity(value: int) -> int:
    """1 if an odd number of bits is set."""
    return bin(value).count("1") & 1


class Span:
    """A subspace that grows: each vector added under a tag (a mask), so members can be told as combinations of tags."""

    __slots__ = ("_pivots",)

    def __init__(self, vectors: Iterable[int] = ()) -> None:
        self._pivots: dict[int, tuple[int, int]] = {}
        for i, v in enumerate(vectors):
            self.add(v, 1 << i)

    def reduce(self, value: int, tag: int = 0) -> tuple[int, int]:
        """(what is left of `value` outside the span, `tag` plus the tags of what was taken away)."""
        pivots = self._pivots
        rest = 0
        while value:
            top = value.bit_length() - 1
            pivot = pivots.get(top)
            if pivot is None:
                rest |= 1 << top
                value ^= 1 << top
            else:
                value ^= pivot[0]
                tag ^= pivot[1]
        return rest, tag

    def add(self, value: int, tag: int = 0) -> bool:
        """Add a vector; False if it was in the span already."""
        rest, tag = self.reduce(value, tag)
        if not rest:
            return False
        self._pivots[rest.bit_length() - 1] = (rest, tag)
        return True

    def __contains__(self, value: int) -> bool:
        return not self.reduce(value)[0]

    def __len__(self) -> int:
        """The dimension."""
        return len(self._pivots)


def solve(bases: Sequence[int], targets: Sequence[int]) -> list[int | None]:
    """For each target, a mask of bases whose XOR is the target, preferring low-numbered bases; None if none is."""
    span = Span(bases)
    out: list[int | None] = []
    for value in targets:
        rest, tag = span.reduce(value)
        out.append(None if rest else tag)
    return out


def kernel(bases: Sequence[int]) -> list[int]:
    """A basis of the combinations (masks over `bases`) that give zero."""
    span = Span()
    out = []
    for i, b in enumerate(bases):
        rest, tag = span.reduce(b, 1 << i)
        if rest:
            span.add(b, 1 << i)
        else:
            out.append(tag)
    return out


def independent(vectors: Iterable[int], modulo: Iterable[int] = ()) -> list[int]:
    """Those vectors, in order, that are outside the span of `modulo` and the vectors before them."""
    span = Span(modulo)
    return [v for v in vectors if span.add(v)]


def intersection(a: Sequence[int], b: Sequence[int]) -> list[int]:
    """A basis of the vectors in both spans."""
    a, b = independent(a), independent(b)
    low = (1 << len(a)) - 1
    return [apply(a, mask & low) for mask in kernel([*a, *b])]


def complement(vectors: Iterable[int], dimension: int) -> list[int]:
    """Unit vectors, lowest first, that together with `vectors` span all `dimension` coordinates."""
    return independent((1 << i for i in range(dimension)), vectors)


def annihilator(vectors: Sequence[int], dimension: int) -> list[int]:
    """A basis of the masks m with parity(v & m) == 0 for every vector."""
    rows = [sum((v >> i & 1) << j for j, v in enumerate(vectors)) for i in range(dimension)]
    return kernel(rows)


def coordinates(basis: Sequence[int], dimension: int) -> list[int]:
    """For each unit vector, its coordinates in a full `basis` of the space: the inverse of the matrix.

    Raises ValueError if `basis` is not one."""
    found = solve(basis, [1 << i for i in range(dimension)])
    if len(basis) != dimension or None in found:
        raise ValueError(f"{list(basis)} is not a basis of {dimension} coordinates")
    return [mask for mask in found if mask is not None]
