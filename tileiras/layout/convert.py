"""How a tile changes its layout: by renaming registers, by shuffles inside warps, or through shared memory."""
from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tileiras.layout.f2 import Span, annihilator, independent, intersection, solve
from tileiras.layout.linear import LinearLayout, log2
from tileiras.layout.shared import VECTOR_BYTES, SharedLayout, access, between
from tileiras.layout.shuffle import WarpShuffle, are_neighbours, plan_shuffle

SHUFFLE_SLOTS = 4
"""Issue slots of a shuffle: an SM makes one warp's a cycle for its four schedulers."""
PASS_SLOTS = 4
"""Issue slots of a pass of shared memory, likewise."""
SELECT_SLOTS = 2
"""Issue slots of a select or a byte permutation: half the rate of additions (notes of the CUDA guide's throughput table)."""
BARRIER_SLOTS = 48
"""What a warp loses at a barrier and waiting for what it then reads, where other blocks of the SM fill part of the wait."""
WARP_SLOTS = 16
"""The same where each warp exchanges with itself alone."""
WORD_BYTES = 4
ROUND_BYTES = 16 << 10
"""What an estimate takes for the scratch of one round: a third of the 48 KiB that every SM has."""


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
    inside = plan_in_warps(src, dst, elem_bits)
    if inside is None:
        return through_shared(src, dst, elem_bits, budget)
    if not isinstance(inside, WarpShuffle):
        return inside
    shuffle, slots = inside, shuffle_slots(inside, elem_bits)
    if slots <= 2 * BARRIER_SLOTS:
        return shuffle
    shared = through_shared(src, dst, elem_bits, budget)
    return shuffle if slots <= shared_slots(shared, src, dst) else shared


def plan_in_warps(src: LinearLayout, dst: LinearLayout, elem_bits: int) -> Noop | RegisterPermute | WarpShuffle | None:
    """The way from `src` to `dst` without shared memory; None where there is none."""
    mapping = register_permutation(src, dst)
    if mapping is not None:
        return Noop() if mapping == tuple(range(src.num_regs)) else RegisterPermute(mapping)
    return plan_shuffle(src, dst, elem_bits)


def stays_in_warps(src: LinearLayout, dst: LinearLayout) -> bool:
    """Whether each warp has the same elements in both, and no other one has them."""
    inside = Span([*src.reg, *src.lane])
    same = len(inside) == len(Span([*dst.reg, *dst.lane])) and all(b in inside for b in (*dst.reg, *dst.lane))
    return same and all(have ^ want in inside for have, want in zip(src.warp, dst.warp)) and all(map(inside.add, src.warp))


def shuffle_slots(plan: WarpShuffle, elem_bits: int) -> float:
    """Issue slots of one warp's shuffles, of the selects around them and of packing narrow elements."""
    words = max(1, elem_bits // 32)
    together = len(plan.steps[0].given)
    selects = (len(plan.before) * len(plan.steps) + len(plan.after) * plan.num_taken // together) * words
    packs = 2 * len(plan.steps) if elem_bits < 32 and not are_neighbours(plan) else 0
    return plan.num_shuffles * words * SHUFFLE_SLOTS + (selects + packs) * SELECT_SLOTS


def shared_slots(plan: ThroughShared, src: LinearLayout, dst: LinearLayout) -> float:
    """Issue slots of one warp's trip through shared memory."""
    slots = 2.0 * BARRIER_SLOTS * plan.num_rounds
    for side in (src, dst):
        how = access(side, plan.shared, plan.elem_bytes, plan.rounds)
        slots += len(how.groups) * (PASS_SLOTS * how.passes(plan.elem_bytes) + 1)
    return slots


def estimate(src: LinearLayout, dst: LinearLayout, elem_bits: int) -> float:
    """About the issue slots of the plan from `src` to `dst`, without making one that goes through shared memory."""
    mapping = register_permutation(src, dst)
    if mapping is not None:
        moves = elem_bits < 32 and mapping != tuple(range(src.num_regs))
        return SELECT_SLOTS * max(1, dst.num_regs * elem_bits // 32) if moves else 0
    elem_bits = max(8, elem_bits)
    shared = _shared_estimate(src, dst, elem_bits // 8)
    inside = Span([*src.reg, *src.lane])
    if all(have ^ want in inside for have, want in zip(src.warp, dst.warp)):
        shuffle = plan_shuffle(src, dst, elem_bits)
        if shuffle is not None:
            return min(shared, shuffle_slots(shuffle, elem_bits))
    return shared


def _shared_estimate(src: LinearLayout, dst: LinearLayout, elem_bytes: int) -> float:
    """One side by 16-byte accesses, the other by what both hold side by side; no conflicts."""
    source, target = independent(src.reg), independent(dst.reg)
    common = min(elem_bytes << len(intersection(source, target)), VECTOR_BYTES)
    wide, narrow = sorted((elem_bytes << len(source), elem_bytes << len(target)))

    def side(amount: int, width: int) -> float:
        width = min(width, amount)
        return amount / width * (PASS_SLOTS * max(1, width // WORD_BYTES) + 1)
    rounds = -(-src.size * elem_bytes // ROUND_BYTES)
    meeting = WARP_SLOTS if stays_in_warps(src, dst) else BARRIER_SLOTS
    return 2 * meeting * rounds + side(narrow, common) + side(wide, VECTOR_BYTES)


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
