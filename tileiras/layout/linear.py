"""Linear layouts: who holds which element of a tile, as a matrix over F2.

Every extent of a tile is a power of two, so an element is named by the bits of its row-major index ("flat
index": the last dimension's bits are the lowest). A distributed layout says, for each bit of (register, lane,
warp), which flat index that bit stands for; the element held by a register r of lane l in warp w is the XOR
of the bases of the set bits:

    shape (4, 8), reg = (1, 2), lane = (4, 8, 16, 0, 0), warp = ()
    register bit 0 steps one column (flat 1), bit 1 two columns (2); lane bit 0 steps four columns (4), lane
    bits 1 and 2 step rows (8, 16). Lane bits 3 and 4 have base 0: they don't move, so lanes 8..31 hold copies.

Because the index is flat, `reshape` keeps every basis; `permute` moves bit fields; what a broadcast's operand
must look like is the result's layout with the bits of the broadcast dimensions cleared; a reduction's result
is the layout with the bits of its dimension taken out. Composition and inversion are Gaussian elimination on
at most 24 + log2(copies) bits, in plain Python integers.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from tileiras.layout.f2 import apply, kernel, solve

__all__ = ["LANE_BITS", "LinearLayout", "apply", "blocked", "dim_bits", "log2", "solve"]

LANE_BITS = 5


def log2(n: int) -> int:
    """The exponent of a power of two. Raises ValueError for anything else."""
    if n <= 0 or n & (n - 1):
        raise ValueError(f"{n} is not a power of two")
    return n.bit_length() - 1


def dim_bits(shape: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """For each dimension, (lowest bit, number of bits) of its field in the flat index."""
    fields, low = [], 0
    for extent in reversed(shape):
        fields.append((low, log2(extent)))
        low += fields[-1][1]
    return tuple(reversed(fields))


@dataclass(frozen=True)
class LinearLayout:
    """A distributed layout of a tile of `shape`: one basis (a flat index) per register, lane and warp bit.

    `lane` has always five bases, `warp` log2(warps), `reg` log2(registers a thread). A zero basis or one that
    depends on others means copies: several (register, lane, warp) hold the same element. Every element is held
    by someone: the bases together span all bits."""

    shape: tuple[int, ...]
    reg: tuple[int, ...]
    lane: tuple[int, ...]
    warp: tuple[int, ...]

    @cached_property
    def _hash(self) -> int:
        return hash((self.shape, self.reg, self.lane, self.warp))

    def __hash__(self) -> int:
        return self._hash

    @property
    def num_regs(self) -> int:
        return 1 << len(self.reg)

    @property
    def num_warps(self) -> int:
        return 1 << len(self.warp)

    @cached_property
    def size(self) -> int:
        """Elements of the tile."""
        n = 1
        for extent in self.shape:
            n *= extent
        return n

    @cached_property
    def bases(self) -> tuple[int, ...]:
        """All bases in the order register, lane, warp: bit i of a "place" number stands for bases[i]."""
        return self.reg + self.lane + self.warp

    def index(self, reg: int, lane: int = 0, warp: int = 0) -> int:
        """The flat index of the element in register `reg` of that lane and warp."""
        return apply(self.reg, reg) ^ apply(self.lane, lane) ^ apply(self.warp, warp)

    @cached_property
    def reg_indices(self) -> tuple[int, ...]:
        """For each register, its flat index relative to the thread's first register."""
        out = [0]
        for basis in self.reg:
            out += [x ^ basis for x in out]
        return tuple(out)

    def coords(self, flat: int) -> tuple[int, ...]:
        """A flat index as coordinates, one a dimension."""
        return tuple(flat >> low & (1 << bits) - 1 for low, bits in dim_bits(self.shape))

    # --- shape changes ---------------------------------------------------------------------------------------

    def reshape(self, shape: Sequence[int]) -> LinearLayout:
        """The same placement of the same row-major elements under another shape of equal size."""
        return LinearLayout(tuple(shape), self.reg, self.lane, self.warp)

    def permute(self, permutation: Sequence[int]) -> LinearLayout:
        """The layout of the transposed tile (result dimension i = source dimension permutation[i]), nothing moved."""
        source = dim_bits(self.shape)
        shape = tuple(self.shape[p] for p in permutation)
        target = dim_bits(shape)

        def move(basis: int) -> int:
            out = 0
            for i, p in enumerate(permutation):
                low, bits = source[p]
                out |= (basis >> low & (1 << bits) - 1) << target[i][0]
            return out
        return self._map(shape, move)

    def project(self, shape: Sequence[int]) -> LinearLayout:
        """The layout for a broadcast's operand of `shape` (extents 1 where it grows), so that this is its result's.

        A thread's register r then holds the element that register r of the result needs (see `compact_regs`)."""
        source, target = dim_bits(self.shape), dim_bits(shape)

        def move(basis: int) -> int:
            out = 0
            for (low, bits), (to, kept) in zip(source, target):
                if kept == bits:
                    out |= (basis >> low & (1 << bits) - 1) << to
            return out
        return self._map(tuple(shape), move)

    def drop(self, dim: int) -> LinearLayout:
        """The layout with dimension `dim` removed: where a reduction over it leaves its results (with copies)."""
        ones = tuple(1 if i == dim else n for i, n in enumerate(self.shape))
        return self.project(ones).reshape(self.shape[:dim] + self.shape[dim + 1:])

    def _map(self, shape: tuple[int, ...], move) -> LinearLayout:
        return LinearLayout(shape, tuple(map(move, self.reg)), tuple(map(move, self.lane)), tuple(map(move, self.warp)))

    def compact_regs(self) -> LinearLayout:
        """Without register bits of base zero: each thread keeps one copy. Register numbers are renumbered."""
        return LinearLayout(self.shape, tuple(b for b in self.reg if b), self.lane, self.warp)

    # --- questions --------------------------------------------------------------------------------------------

    @cached_property
    def copies(self) -> tuple[int, ...]:
        """A basis of the "place" bits combinations that lead to flat index 0, as masks over `bases` (the kernel)."""
        return tuple(kernel(self.bases))

    @property
    def is_exclusive(self) -> bool:
        """Whether every element is held exactly once."""
        return not self.copies

    @cached_property
    def is_complete(self) -> bool:
        """Whether every element is held by someone."""
        return len(self.bases) - len(self.copies) == log2(self.size)

    def contiguous(self, dim: int | None = None) -> int:
        """How many consecutive registers (a power of two) run along `dim` (default: the last) in unit steps."""
        if not self.shape:
            return 1
        low, bits = dim_bits(self.shape)[len(self.shape) - 1 if dim is None else dim]
        n = 0
        while n < len(self.reg) and n < bits and self.reg[n] == 1 << low + n:
            n += 1
        return 1 << n

    def find(self, flat: int) -> tuple[int, int, int] | None:
        """A (register, lane, warp) that holds the element, lowest registers first, then lanes; None if no one does."""
        place = solve(self.bases, [flat])[0]
        return None if place is None else self.split(place)

    def split(self, place: int) -> tuple[int, int, int]:
        """A mask over `bases` as (register, lane, warp) numbers."""
        r = len(self.reg)
        return place & (1 << r) - 1, place >> r & (1 << LANE_BITS) - 1, place >> r + LANE_BITS

    def __str__(self) -> str:
        def rows(bases: tuple[int, ...]) -> str:
            return "[" + ", ".join("[" + ", ".join(map(str, self.coords(b))) + "]" for b in bases) + "]"
        return f"reg = {rows(self.reg)}, lane = {rows(self.lane)}, warp = {rows(self.warp)}"


@lru_cache(maxsize=4096)
def blocked(shape: tuple[int, ...], num_warps: int, per_thread: int = 1,
            order: tuple[int, ...] | None = None, rows: int = 1) -> LinearLayout:
    """A coalesced layout: `per_thread` consecutive elements along the fastest dimension in a thread's first registers,
    then lanes, then warps over the dimensions fastest first, then the remaining elements in registers.

    order: dimensions, fastest first (default: last dimension first). rows: how many neighbours along the second
    dimension of the order a thread holds too, next to its first registers. Lane and warp bits that find no element to
    step to have base zero (copies)."""
    rank = len(shape)
    order = tuple(range(rank - 1, -1, -1)) if order is None else order
    fields = dim_bits(shape)
    steps = [1 << fields[d][0] + i for d in order for i in range(fields[d][1])]
    first = 0
    if order:
        first = min(log2(per_thread), fields[order[0]][1])
    reg = steps[:first]
    rest = steps[first:]
    if rows > 1 and rank > 1:
        low, bits = fields[order[1]]
        beside = [1 << low + i for i in range(min(log2(rows), bits))]
        reg = reg + beside
        rest = [b for b in rest if b not in beside]
    lane = rest[:LANE_BITS]
    rest = rest[LANE_BITS:]
    warp_bits = log2(num_warps)
    warp = rest[:warp_bits]
    reg = reg + rest[warp_bits:]
    lane = lane + [0] * (LANE_BITS - len(lane))
    warp = warp + [0] * (warp_bits - len(warp))
    return LinearLayout(shape, tuple(reg), tuple(lane), tuple(warp))
