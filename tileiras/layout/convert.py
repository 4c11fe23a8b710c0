"""How a tile changes its layout: by renaming registers, by shuffles inside warps, or through shared memory."""
from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tileiras.layout.f2 import annihilator, independent, solve
from tileiras.layout.linear import LinearLayout, log2
from tileiras.layout.shared import SharedLayout, between
from tileiras.layout.shuffle import WarpShuffle, plan_shuffle

FREE_SHUFFLES = 8
"""So many shuffles are always cheaper than two barriers."""


@dataclass(frozen=True)
class Noop:
    """The registers are the same."""


@dataclass(frozen=True)
class RegisterPermute:
    """Result register r is source register `mapping[r]`, in every thread."""

    mapping: tuple[int, ...]


@dataclass(frozen=True)
class ThroughShared:
    """Write to a scratch buffer, meet, read back; `num_rounds` times, each round with its part of the elements.

    rounds: masks over the flat index, whose parities number the rounds (see `shared.access`). bytes: size of the buffer."""

    shared: SharedLayout
    elem_bytes: int
    rounds: tuple[int, ...]

    @property
    def num_rounds(self) -> int:
        return 1 << len(self.rounds)

    @property
    def bytes(self) -> int:
        return self.shared.extent * self.elem_bytes


Plan = Noop | RegisterPermute | WarpShuffle | ThroughShared


def register_permutation(src: LinearLayout, dst: LinearLayout) -> tuple[int, ...] | None:
    """For each register of `dst` the register of `src`, same thread, with the same element; None if there isn't one."""
    if src.lane != dst.lane or src.warp != dst.warp:
        return None
    masks = solve(src.reg, dst.reg)
    out = [0]
    for mask in masks:
        if mask is None:
            return None
        out += [r ^ mask for r in out]
    return tuple(out)


@lru_cache(maxsize=4096)
def plan_conversion(src: LinearLayout, dst: LinearLayout, elem_bits: int, budget: int = 0) -> Plan:
    """The cheapest way from `src` to `dst` (layouts of one shape) for elements of that width.

    budget: bytes of scratch that a trip through shared memory may use at most (0: as many as it likes); it then goes
    in several rounds."""
    mapping = register_permutation(src, dst)
    if mapping is not None:
        return Noop() if mapping == tuple(range(src.num_regs)) else RegisterPermute(mapping)
    shuffle = plan_shuffle(src, dst, elem_bits)
    if shuffle is not None:
        words = max(1, elem_bits // 32)
        needed = max(1, shuffle.num_taken * elem_bits // 32)
        if shuffle.num_shuffles * words <= max(FREE_SHUFFLES, 2 * needed):
            return shuffle
    return through_shared(src, dst, elem_bits, budget)


def through_shared(src: LinearLayout, dst: LinearLayout, elem_bits: int, budget: int = 0) -> ThroughShared:
    """The trip through shared memory, in as few rounds as the budget allows."""
    elem_bytes = max(1, elem_bits // 8)
    bits = log2(src.size)
    rounds: tuple[int, ...] = ()
    if budget:
        count = 0
        while bits > count and elem_bytes << bits - count > budget:
            count += 1
        rounds = _round_masks(src, dst, bits, count)
    return ThroughShared(between(src, dst, elem_bytes, rounds), elem_bytes, rounds)


def _round_masks(src: LinearLayout, dst: LinearLayout, bits: int, count: int) -> tuple[int, ...]:
    """Masks whose parities number the rounds: best those that only registers decide on both sides, then on one."""
    threads_src, threads_dst = [*src.lane, *src.warp], [*dst.lane, *dst.warp]
    both = annihilator([*threads_src, *threads_dst], bits)
    candidates = both + annihilator(threads_dst, bits) + annihilator(threads_src, bits) + [1 << i for i in range(bits)]
    return tuple(independent(candidates))[:count]
