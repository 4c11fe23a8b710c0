"""Dividing layouts into tiles and repeating tiles: composition with a complement, and ways to sort the modes.

    logical_divide(A, T) = A o (T, rest of T)       mode 0 the tile, mode 1 which tile
    logical_product(A, B) = (A, rest of A o B)      mode 0 the tile, mode 1 which copy

A tuple of tilers works mode by mode. Each family then has the same answer in four orders:

    shapes (M, N, L), tiler <m, n>      logical ((m, M/m), (n, N/n), L)      zipped ((m, n), (M/m, N/n, L))
                                        tiled   ((m, n), M/m, N/n, L)        flat   (m, n, M/m, N/n, L)
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

from tileiras.layout.cute.algebra import (
    Layout,
    Tiler,
    coalesce,
    complement,
    composition,
    make_layout,
    make_ordered_layout,
)
from tileiras.layout.cute.tuples import IntTuple, LayoutError, ceil_div, crd2idx, modes, rank, size, text, weakly_congruent


def _check_rank(layout: Layout, tiler: Tiler) -> None:
    if isinstance(tiler, tuple) and len(tiler) > layout.rank:
        raise LayoutError(f"expects rank(tiler) <= rank(input), but got input={layout.rank} and tiler={len(tiler)}")


def logical_divide(layout: Layout, tiler: Tiler | None) -> Layout:
    """Each divided mode as (elements of the tile, tiles)."""
    if tiler is None:
        return layout
    if isinstance(tiler, tuple):
        _check_rank(layout, tiler)
        return make_layout(*map(logical_divide, layout.modes, tiler), *layout.modes[len(tiler):])
    if isinstance(tiler, int):
        tiler = Layout(tiler, 1)
    return composition(layout, make_layout(tiler, complement(tiler, layout.size)))


def _unzip(split: Callable[[Layout, Tiler], Layout], layout: Layout, tiler: Tiler) -> Layout:
    """((tiles' elements ...), (tiles ..., modes that the tiler leaves alone))."""
    if isinstance(tiler, tuple):
        _check_rank(layout, tiler)
        parts = [_unzip(split, mode, t) for mode, t in zip(layout.modes, tiler)]
        return make_layout(make_layout(*(p[0] for p in parts)),
                           make_layout(*(p[1] for p in parts), *layout.modes[len(tiler):]))
    return split(layout, tiler)


def zipped_divide(layout: Layout, tiler: Tiler) -> Layout:
    return _unzip(logical_divide, layout, tiler)


def tiled_divide(layout: Layout, tiler: Tiler) -> Layout:
    tile, rest = zipped_divide(layout, tiler).modes
    return make_layout(tile, *rest.modes)


def flat_divide(layout: Layout, tiler: Tiler) -> Layout:
    tile, rest = zipped_divide(layout, tiler).modes
    return make_layout(*tile.modes, *rest.modes)


def logical_product(layout: Layout, tiler: Tiler | None) -> Layout:
    """Mode 0 the tile `layout`, mode 1 its copies in the order of `tiler`; a tuple of tilers works mode by mode."""
    if tiler is None:
        return layout
    if isinstance(tiler, tuple):
        _check_rank(layout, tiler)
        return make_layout(*map(logical_product, layout.modes, tiler), *layout.modes[len(tiler):])
    if isinstance(tiler, int):
        tiler = Layout(tiler, 1)
    return make_layout(layout, composition(complement(layout, layout.size * tiler.cosize), tiler))


def zipped_product(layout: Layout, tiler: Tiler) -> Layout:
    return _unzip(logical_product, layout, tiler)


def tiled_product(layout: Layout, tiler: Tiler) -> Layout:
    tile, rest = zipped_product(layout, tiler).modes
    return make_layout(tile, *rest.modes)


def flat_product(layout: Layout, tiler: Tiler) -> Layout:
    tile, rest = zipped_product(layout, tiler).modes
    return make_layout(*tile.modes, *rest.modes)


def _padded(layout: Layout, count: int) -> list[Layout]:
    return [*layout.modes, *[Layout(1, 0)] * (count - layout.rank)]


def _like_modes(block: Layout, tiler: Layout, tiles_first: bool) -> Layout:
    count = max(block.rank, tiler.rank)
    inner, outer = logical_product(make_layout(*_padded(block, count)), make_layout(*_padded(tiler, count))).modes
    pairs = zip(outer.modes, inner.modes) if tiles_first else zip(inner.modes, outer.modes)
    return make_layout(*(coalesce(make_layout(*pair)) for pair in pairs))


def blocked_product(block: Layout, tiler: Layout) -> Layout:
    """`block` repeated: each mode runs through the block's mode, then through the tiles along it."""
    return _like_modes(block, tiler, tiles_first=False)


def raked_product(block: Layout, tiler: Layout) -> Layout:
    """`block` interleaved: each mode runs through the tiles along it, then through the block's mode."""
    return _like_modes(block, tiler, tiles_first=True)


def tile_to_shape(block: Layout, target: IntTuple, order: IntTuple | None = None) -> Layout:
    """`block` repeated until it covers `target`, tiles in the order of `order` (default: first mode fastest)."""
    if block.rank > rank(target):
        raise LayoutError(f"invalid input types for tile_to_shape, got {block} and {text(target)}")
    extents = [mode.size for mode in _padded(block, rank(target))]
    counts = tuple(ceil_div(size(n), e) for n, e in zip(modes(target), extents))
    order = tuple(range(len(counts))) if order is None else order
    return blocked_product(make_layout(*_padded(block, len(counts))), make_ordered_layout(counts, order))


# --- parts of a layout ------------------------------------------------------------------------------------------------


def group_modes(layout: Layout, begin: int, end: int) -> Layout:
    """Modes begin .. end - 1 as one; negative numbers count from the end. Raises LayoutError."""
    n = layout.rank
    first, last = (i + n if i < 0 else i for i in (begin, end))
    if not 0 <= first < n:
        raise LayoutError(f"expects begin in the range of [-rank , rank-1], but got begin [{begin}] and rank [{n}]")
    if not 0 <= last <= n:
        raise LayoutError(f"expects end in the range of [-rank+1 , rank], but got end [{end}] and rank [{n}]")
    if first >= last:
        raise LayoutError(f"expects begin < end, but got begin [{begin}] ([{first}]) and end [{end}] ([{last}])")
    return make_layout(*layout.modes[:first], make_layout(*layout.modes[first:last]), *layout.modes[last:])


def select(layout: Layout, chosen: Sequence[int]) -> Layout:
    """These modes, in this order. Raises LayoutError for a mode that doesn't exist or comes twice."""
    if len(set(chosen)) != len(chosen) or any(not 0 <= i < layout.rank for i in chosen):
        raise LayoutError(f"Invalid results for select(). Modes: [{', '.join(map(str, chosen))}]")
    return make_layout(*(layout[i] for i in chosen))


def _kept(coord: IntTuple | None, layout: Layout, where_none: bool) -> list[Layout]:
    """The modes for which the coordinate has (`where_none`) or hasn't an underscore."""
    if isinstance(coord, tuple):
        return [kept for c, mode in zip(coord, layout.modes) for kept in _kept(c, mode, where_none)]
    return [layout] if (coord is None) == where_none else []


def slice_layout(layout: Layout, coord: IntTuple | None) -> tuple[Layout, int]:
    """(the layout of the modes where `coord` has None, the index of where it begins).

    Raises LayoutError if `coord` doesn't fit the layout's profile."""
    if not weakly_congruent(coord, layout.shape):  # type: ignore[arg-type]
        raise LayoutError(f"failed to construct a valid coordinate from {text(coord)}")
    return make_layout(*_kept(coord, layout, True)), crd2idx(coord, layout.shape, layout.stride)


def dice_layout(layout: Layout, coord: IntTuple | None) -> Layout:
    """The layout of the modes where `coord` has a number. Raises LayoutError if `coord` doesn't fit."""
    if not weakly_congruent(coord, layout.shape):  # type: ignore[arg-type]
        raise LayoutError(f"Failed to dice {layout} with {text(coord)}")
    return make_layout(*_kept(coord, layout, False))


def local_tile(layout: Layout, tiler: Tiler, coord: IntTuple | None) -> tuple[Layout, int]:
    """(the tile at `coord` of the grid of tiles, the index of where it begins); None in `coord` keeps that mode."""
    divided = zipped_divide(layout, tiler)
    if not weakly_congruent(coord, divided[1].shape):  # type: ignore[arg-type]
        raise LayoutError(f"expected a coordinate of rank {divided[1].rank} but got {text(coord)}")
    if coord is not None and not _inside(coord, divided[1]):
        raise LayoutError(f"Failed to dice {divided[1]} with {text(coord)}")
    rest, start = slice_layout(divided[1], coord)
    return (make_layout(*divided[0].modes, *rest.modes) if rest.modes else divided[0]), start


def _inside(coord: IntTuple | None, layout: Layout) -> bool:
    if isinstance(coord, tuple):
        return all(map(_inside, coord, layout.modes))
    return coord is None or 0 <= coord < layout.size


def local_partition(layout: Layout, threads: Layout, index: int) -> tuple[Layout, int]:
    """(the elements that thread `index` of the grid `threads` has of each of its repetitions, where they begin)."""
    if not 0 <= index < threads.size:
        raise LayoutError("unable to construct a coordinate for local_partition")
    extents = tuple(mode.size for mode in threads.modes)
    divided = zipped_divide(layout, extents)
    place = _place_of(threads, index)
    return divided[1], divided[0](place)


def _place_of(threads: Layout, index: int) -> IntTuple:
    """The coordinate, one number a mode, at which a grid of threads has `index`."""
    for place in range(threads.size):
        if threads(place) == index:
            digits, rest = [], place
            for mode in threads.modes:
                digits.append(rest % mode.size)
                rest //= mode.size
            return tuple(digits)
    raise LayoutError("unable to construct a coordinate for local_partition")
