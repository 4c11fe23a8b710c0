"""Layouts for tiles that no instruction prescribes: spread over a block's threads, and the accumulators of multiply-add."""
from __future__ import annotations

from functools import lru_cache

from tileiras.layout.f2 import Span
from tileiras.layout.linear import LANE_BITS, LinearLayout, blocked, dim_bits, log2


def default_layout(shape: tuple[int, ...], num_warps: int, per_thread: int = 4,
                   order: tuple[int, ...] | None = None, rows: int = 1) -> LinearLayout:
    """Blocked, with at most `per_thread` elements side by side (and `rows` such runs along the next dimension, if there
    are that many) and no thread idle as long as there are elements."""
    size = 1
    for n in shape:
        size *= n
    share = max(1, size // (32 * num_warps))
    return blocked(shape, num_warps, min(per_thread, share), order, rows if per_thread * rows <= share else 1)


def within_warps(layout: LinearLayout, dim: int, per_thread: int) -> LinearLayout | None:
    """Each warp's part of a tile dealt out anew to its threads: `per_thread` neighbours along `dim` to each, neighbouring lanes
    along `dim`, then along the other dimensions, the last first. None where a warp's part is no block, or holds less than its
    threads could."""
    part = Span([*layout.reg, *layout.lane])
    fields = dim_bits(layout.shape)
    order = (dim, *[d for d in range(len(fields) - 1, -1, -1) if d != dim])
    bits = [1 << fields[d][0] + i for d in order for i in range(fields[d][1])]
    own = [b for b in bits if b in part]
    vector = log2(min(per_thread, 1 << max(0, len(own) - LANE_BITS)))
    if len(own) != len(part) or len(own) < LANE_BITS or own[:vector] != bits[:vector] or vector > fields[dim][1]:
        return None
    lanes = own[vector:vector + LANE_BITS]
    return LinearLayout(layout.shape, tuple(own[:vector] + own[vector + LANE_BITS:]), tuple(lanes), layout.warp)


@lru_cache(maxsize=256)
def fma_layout(shape: tuple[int, ...], num_warps: int) -> LinearLayout:
    """The accumulators of a multiply-add dot: a thread owns a block of up to 4 x 4 neighbouring elements (then more, far
    apart), a warp 4 x 8 threads, so that each value read from shared memory serves several products."""
    rank = len(shape)
    fields = dim_bits(shape)
    n_bits = [1 << fields[rank - 1][0] + i for i in range(fields[rank - 1][1])]
    m_bits = [1 << fields[rank - 2][0] + i for i in range(fields[rank - 2][1])]
    outer = [1 << fields[d][0] + i for d in range(rank - 3, -1, -1) for i in range(fields[d][1])]
    total = len(n_bits) + len(m_bits) + len(outer)
    spare = max(0, total - 5 - log2(num_warps))         # bits that registers must hold
    reg_n = min(2, spare, len(n_bits))
    reg_m = min(2, spare - reg_n, len(m_bits))
    reg = n_bits[:reg_n] + m_bits[:reg_m]
    n_rest, m_rest = n_bits[reg_n:], m_bits[reg_m:]
    lane = n_rest[:3]
    n_rest = n_rest[3:]
    take = min(5 - len(lane), len(m_rest))
    lane += m_rest[:take]
    m_rest = m_rest[take:]
    rest = m_rest + n_rest + outer
    while len(lane) < 5 and rest:
        lane.append(rest.pop(0))
    warps = log2(num_warps)
    warp = rest[::-1][:warps]
    rest = [b for b in rest if b not in warp]
    reg += rest
    return LinearLayout(shape, tuple(reg), tuple(lane + [0] * (5 - len(lane))), tuple(warp + [0] * (warps - len(warp))))
