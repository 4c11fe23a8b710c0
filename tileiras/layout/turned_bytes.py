"""Bytes that lie contiguous along another dimension than k go to rows of k by words: which thread stores which of its words when.

A thread loads 16 bytes (or 8) of each of four rows of memory and makes of these words of four bytes along k, one for each of its
columns, by `prmt`. Threads that stand beside each other along memory's rows store to rows of k that lie 16 apart: in the same
banks. Where each begins with another column, they store to different banks. That takes no instruction more: which bytes `prmt`
takes is a register, which depends on the lane.

    lanes 0 and 1 have columns 0..15 and 16..31:    store 0: columns 0 and 17, store 1: 1 and 16, store 2: 2 and 19, ...
"""
from __future__ import annotations

from functools import lru_cache

from tileiras.layout.linear import LANE_BITS, LinearLayout, dim_bits
from tileiras.layout.shared import MATRIX_DIMS, SharedLayout, access

WORD_BYTES = 4
NO_LANE = LANE_BITS
"""In the place of a lane bit, where none changes a thread's order."""


@lru_cache(maxsize=1024)
def turns(writer: LinearLayout, shared: SharedLayout, elem_bytes: int, k_dim: int) -> tuple[int, int] | None:
    """Which lane bits have a thread begin with another column, its neighbour's (the first) or that of the second next, so that
    stores take the fewest passes; NO_LANE where none does. None: these aren't such stores."""
    if not is_turned(writer, shared, elem_bytes, k_dim):
        return None
    lanes = (NO_LANE, *range(LANE_BITS))
    ways = [(a, b) for a in lanes for b in lanes if a != b or a == NO_LANE]
    return min(ways, key=lambda way: access(stored(writer, k_dim, way), shared, elem_bytes).passes(elem_bytes))


def is_turned(writer: LinearLayout, shared: SharedLayout, elem_bytes: int, k_dim: int) -> bool:
    """Whether threads have four by four bytes, side by side along the other dimension, and store words along k."""
    if elem_bytes != 1 or writer.shape != shared.shape or len(writer.shape) < MATRIX_DIMS or 0 in writer.reg:
        return False
    words, columns = _bases(writer, k_dim)
    return writer.reg[:2] == columns and set(words) <= set(writer.reg) and tuple(shared.offset(b) for b in words) == (1, 2) and \
        access(writer, shared, elem_bytes).vec == WORD_BYTES


def stored(writer: LinearLayout, k_dim: int, way: tuple[int, ...]) -> LinearLayout:
    """Which element each register is stored to as, when a thread's bytes were turned: words along k, column by column."""
    words, columns = _bases(writer, k_dim)
    lane = list(writer.lane)
    for bit, column in zip(way, columns):
        if bit != NO_LANE:
            lane[bit] ^= column
    rest = [b for b in writer.reg if b not in words and b not in columns]
    return LinearLayout(writer.shape, (*words, *columns, *rest), tuple(lane), writer.warp)


def _bases(writer: LinearLayout, k_dim: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """One and two steps along k, and along the other dimension."""
    fields = dim_bits(writer.shape)
    k, other = fields[k_dim][0], fields[2 * len(fields) - 3 - k_dim][0]
    return (1 << k, 2 << k), (1 << other, 2 << other)
