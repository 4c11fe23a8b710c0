"""A map over F2 as shifts, masks and multiplications of a number: what computes a thread's place in few instructions.

    bases (0x90, 0x120, 0x240) of bits 3, 4, 5 of x      ->      (x & 0x38) * 0x12

Bits that go as far up (or down) as others go with them, by one mask and one shift; what goes to several places at once, by a
multiplication, where no two products meet in a bit.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class Term:
    """`((x & mask) >> down) * factor`."""

    mask: int
    down: int
    factor: int


@lru_cache(maxsize=4096)
def terms_of(bases: Sequence[int]) -> tuple[Term, ...]:
    """Terms whose XOR is the XOR of `bases` over the set bits of x."""
    diagonals: dict[int, int] = {}      # how far up -> the bits of x that go there
    for i, basis in enumerate(bases):
        for j in range(basis.bit_length()):
            if basis >> j & 1:
                diagonals[j - i] = diagonals.get(j - i, 0) | 1 << i
    by_mask: dict[int, list[int]] = {}
    for up in sorted(diagonals):
        by_mask.setdefault(diagonals[up], []).append(up)
    out: list[Term] = []
    for mask, ups in by_mask.items():
        while ups:
            down = max(0, -ups[0])
            here, taken, later = mask >> down, 0, []
            factor = 0
            for up in ups:
                target = here << up + down
                if taken & target:
                    later.append(up)
                else:
                    taken |= target
                    factor |= 1 << up + down
            out.append(Term(mask, down, factor))
            ups = later
    return tuple(out)
