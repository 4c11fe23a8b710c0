"""How a scan walks a dimension of a tile, told from its layout: which index bit is a register's, a lane's, or needs an
exchange of totals between warps."""
from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tileiras.layout.f2 import Span
from tileiras.layout.linear import LinearLayout, blocked, dim_bits


@dataclass(frozen=True)
class Exchange:
    """Totals meet across warps. warps: the warp bits, in the order of the index. parts, gathered: the totals' layouts
    (parts, everything else), as each warp has its own, and with all parts in each thread."""

    warps: tuple[int, ...]
    parts: LinearLayout
    gathered: LinearLayout


@dataclass(frozen=True)
class Steps:
    """How a layout's dimension is walked.

    layout: the layout the elements must be in; its register bits are first those of other dimensions (`kept` many),
    then those of the dimension, lowest first. walk: for each index bit, lowest first, "reg", a lane bit's number, or an
    Exchange (for several bits at once)."""

    layout: LinearLayout
    kept: int
    walk: tuple[str | int | Exchange, ...]


@lru_cache(maxsize=512)
def steps_of(layout: LinearLayout, dim: int) -> Steps:
    """The walk for a layout; one in which an index bit of the dimension belongs to no single place bit is replaced."""
    low, bits = dim_bits(layout.shape)[dim]
    along = (1 << bits) - 1 << low
    units = [1 << low + i for i in range(bits)]
    threads = [b for b in (*layout.lane, *layout.warp) if b & along]
    if (any(b & along and b not in units for b in layout.bases) or any(u not in layout.bases for u in units)
            or any(threads.count(b) > 1 or b in layout.reg for b in threads)):
        return steps_of(blocked(layout.shape, layout.num_warps), dim)
    seen = Span()
    kept = [b for b in layout.reg if b and not b & along and seen.add(b)]
    owner: dict[int, tuple[str, int]] = {}
    for kind, bases in (("reg", layout.reg), ("lane", layout.lane), ("warp", layout.warp)):
        for i, b in enumerate(bases):
            if b in units and b not in owner:
                owner[b] = (kind, i)
    placed = LinearLayout(layout.shape, (*kept, *(u for u in units if owner[u][0] == "reg")), layout.lane, layout.warp)
    walk: list[str | int | Exchange] = []
    at = 0
    while at < bits:
        kind, number = owner[units[at]]
        if kind == "reg":
            walk.append("reg")
        elif kind == "lane":
            walk.append(number)
        else:
            end = at
            while end < bits and owner[units[end]][0] == "warp":
                end += 1
            warps = tuple(owner[u][1] for u in units[at:end])
            walk.append(_exchange(placed, warps, (1 << end) - 1 << low))
            at = end
            continue
        at += 1
    return Steps(placed, len(kept), tuple(walk))


def _exchange(layout: LinearLayout, warps: tuple[int, ...], done: int) -> Exchange:
    """Totals depend on all index bits but those in `done`; these are squeezed out and the parts put above the rest."""
    size_bits = layout.size.bit_length() - 1
    left = [i for i in range(size_bits) if not done >> i & 1]

    def squeeze(basis: int) -> int:
        return sum((basis >> bit & 1) << i for i, bit in enumerate(left))
    reg = tuple(b for b in map(squeeze, layout.reg) if b)
    lane, warp = tuple(map(squeeze, layout.lane)), tuple(map(squeeze, layout.warp))
    steps = [1 << len(left) + i for i in range(len(warps))]
    shape = (1 << len(warps), 1 << len(left))
    own = tuple(steps[warps.index(i)] if i in warps else b for i, b in enumerate(warp))
    return Exchange(warps, LinearLayout(shape, reg, lane, own), LinearLayout(shape, (*reg, *steps), lane, warp))
