"""Layouts that make shape ops free: where the parts of a tile lie when the whole lies where it does, and back.

A slice of a (8, 8) tile of shape (4, 8) is told by the top bit of the row: flat bit 5. `slice_bits` names it; `embed`
gives the slice's layout in the whole tile's index space (here the same bases; for (8, 4) slices the row bits move up).
"""
from __future__ import annotations

from collections.abc import Sequence

from tileiras.layout.linear import LinearLayout, dim_bits, log2


def slice_bits(whole: Sequence[int], part: Sequence[int]) -> tuple[int, ...]:
    """Index bits (as masks) of a tile that number its slices of shape `part`; bit i of the number is the i-th mask.

    The last dimension's bits come first, as in a row-major numbering of slices."""
    out: list[int] = []
    for (low, bits), (_, kept) in zip(reversed(dim_bits(whole)), reversed(dim_bits(part))):
        out += [1 << low + i for i in range(kept, bits)]
    return tuple(out)


def embed(part: LinearLayout, whole: Sequence[int]) -> LinearLayout:
    """A slice's layout as indices into the whole tile (slice number 0)."""
    source, target = dim_bits(part.shape), dim_bits(whole)

    def move(basis: int) -> int:
        out = 0
        for (low, bits), (to, _) in zip(source, target):
            out |= (basis >> low & (1 << bits) - 1) << to
        return out
    return LinearLayout(tuple(whole), *(tuple(map(move, bases)) for bases in (part.reg, part.lane, part.warp)))


def extract_layout(whole: LinearLayout, part: Sequence[int]) -> LinearLayout | None:
    """The layout of a statically numbered slice for which extraction only picks registers, or None: only if the bits
    that number the slices belong to registers alone."""
    numbering = 0
    for bit in slice_bits(whole.shape, part):
        numbering |= bit
    if any(b & numbering for b in (*whole.lane, *whole.warp)):
        return None
    if any(b & numbering and b & ~numbering for b in whole.reg):
        return None
    reg = tuple(b for b in whole.reg if not b & numbering)
    return restrict(LinearLayout(whole.shape, reg, whole.lane, whole.warp), part)


def restrict(layout: LinearLayout, part: Sequence[int]) -> LinearLayout:
    """Bases without the bits above the extents of a slice of shape `part`: the inverse of `embed`."""
    source, target = dim_bits(layout.shape), dim_bits(part)

    def move(basis: int) -> int:
        out = 0
        for (low, _), (to, bits) in zip(source, target):
            out |= (basis >> low & (1 << bits) - 1) << to
        return out
    return LinearLayout(tuple(part), *(tuple(map(move, bases)) for bases in (layout.reg, layout.lane, layout.warp)))


def without_bit(whole: LinearLayout, dim: int) -> LinearLayout:
    """The layout of either half along `dim` (cat's operands) that puts each element where the whole has it, register by
    register; places that differ in the half alone hold copies."""
    part = tuple(n // 2 if d == dim else n for d, n in enumerate(whole.shape))
    return restrict(whole, part)


def cat_layout(half: LinearLayout, dim: int) -> LinearLayout:
    """The layout of the concatenation of two tiles in layout `half` for which nothing moves: one more register bit."""
    whole = tuple(n * 2 if d == dim else n for d, n in enumerate(half.shape))
    moved = embed(half, whole)
    low, bits = dim_bits(whole)[dim]
    return LinearLayout(whole, (*moved.reg, 1 << low + bits - 1), moved.lane, moved.warp)


def bytes_of(elements: LinearLayout, factor: int) -> LinearLayout:
    """The layout of a rank-1 tile's bytes when each element stays where it is: `factor` bytes an element, in
    consecutive registers."""
    low = tuple(1 << i for i in range(log2(factor)))
    reg, lane, warp = (tuple(b * factor for b in bases) for bases in (elements.reg, elements.lane, elements.warp))
    return LinearLayout((elements.shape[0] * factor,), low + reg, lane, warp)


def elements_of(bytes_: LinearLayout, factor: int) -> LinearLayout | None:
    """The layout of elements of `factor` bytes for which the bytes are laid out so up to a permutation of registers;
    None if a thread doesn't hold whole elements."""
    low = [1 << i for i in range(log2(factor))]
    if any(b not in bytes_.reg for b in low):
        return None
    if any(b & factor - 1 for b in (*bytes_.lane, *bytes_.warp)):
        return None
    rest = tuple(b for b in bytes_.reg if b not in low)
    if any(b & factor - 1 for b in rest):
        return None
    reg, lane, warp = (tuple(b // factor for b in bases) for bases in (rest, bytes_.lane, bytes_.warp))
    return LinearLayout((bytes_.shape[0] // factor,), reg, lane, warp)
