"""What reducing a tile over a dimension takes, told from its layout: register steps, lane steps, exchanges between warps.

Each register, lane and warp bit that steps along the dimension halves the problem; bits whose basis depends on those
before only lead to copies and are skipped, so nothing is counted twice. The result stays where the halves met.
"""
from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tileiras.layout.f2 import Span
from tileiras.layout.linear import LinearLayout, blocked, dim_bits


@dataclass(frozen=True)
class Steps:
    """What reducing a layout over a dimension takes.

    layout: the layout the source must be in. regs: register bits (masks) that step along the dimension. kept: register
    bits that hold different results. lanes, warps: lane and warp bits that step along it. parts, gathered: the layouts
    of the warps' partial results, (warps' parts, result elements), as they are and with all parts in each thread.
    result: the layout of the result before register copies are added."""

    layout: LinearLayout
    regs: tuple[int, ...]
    kept: tuple[int, ...]
    lanes: tuple[int, ...]
    warps: tuple[int, ...]
    parts: LinearLayout
    gathered: LinearLayout
    result: LinearLayout


@lru_cache(maxsize=512)
def steps_of(layout: LinearLayout, dim: int) -> Steps:
    """The steps for a layout; one whose bits mix the dimension with others is replaced by a blocked one."""
    low, bits = dim_bits(layout.shape)[dim]
    along = (1 << bits) - 1 << low
    if any(b & along and b & ~along for b in layout.bases):
        return steps_of(blocked(layout.shape, layout.num_warps), dim)
    seen, others = Span(), Span()
    regs, kept = [], []
    for i, b in enumerate(layout.reg):
        if b & along:
            if seen.add(b):
                regs.append(1 << i)
        elif others.add(b):
            kept.append(1 << i)
    lanes = [i for i, b in enumerate(layout.lane) if b & along and seen.add(b)]
    warps = [i for i, b in enumerate(layout.warp) if b & along and seen.add(b)]
    if len(lanes) + len(warps) < sum(1 for b in (*layout.lane, *layout.warp) if b & along):
        # the same elements once more in other threads, whose order of combining might differ
        return steps_of(blocked(layout.shape, layout.num_warps), dim)
    rest = layout.drop(dim)
    kept_bases = tuple(b for i, b in enumerate(rest.reg) if 1 << i in kept)
    size = rest.size
    steps = {w: size << i for i, w in enumerate(warps)}
    shape = (1 << len(warps), size)
    parts = LinearLayout(shape, kept_bases, rest.lane, tuple(steps.get(i, b) for i, b in enumerate(rest.warp)))
    gathered = LinearLayout(shape, kept_bases + tuple(size << i for i in range(len(warps))), rest.lane, rest.warp)
    return Steps(layout, tuple(regs), tuple(kept), tuple(lanes), tuple(warps), parts, gathered,
                 LinearLayout(rest.shape, kept_bases, rest.lane, rest.warp))
