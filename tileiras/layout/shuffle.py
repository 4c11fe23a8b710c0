"""Moving elements between the lanes of a warp by shuffles: when two layouts differ only inside warps.

For each place (register r, lane l) of the target, linear algebra gives a place (r', l') of the source with the same
element: (r', l') = A(r, l, warp). A shuffle hands one register of every lane over; in step s lane l must receive
from lane l' while lane l' decides, by its own number, which register it gives. That works if no lane is asked for
two different registers in one step. Where A asks for that (a lane bit of the target that is a register bit of the
source), lanes take their registers in different orders: in step s lane l receives its register s ^ F(l).

So every conversion inside warps is: reorder registers by the lane's number, one shuffle a register, reorder again.
    source: register bit = column, lane bit 0 = row      target: register bit = row, lane bit 0 = column
    step 0: each lane receives what stays with it (lane 0: row 0 column 0; lane 1: row 1 column 1)
    step 1: lanes 0 and 1 exchange the other element
"""
from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tileiras.layout.f2 import Span, apply, complement, coordinates, independent, kernel, parity, solve
from tileiras.layout.linear import LANE_BITS, LinearLayout

LANES = [1 << i for i in range(LANE_BITS)]


@dataclass(frozen=True)
class Stage:
    """Registers permuted by x -> x ^ `flip`, in the threads where the parity of the masked lane and warp is odd."""

    lane_mask: int
    warp_mask: int
    flip: int


@dataclass(frozen=True)
class Step:
    """One shuffle: give source registers `given` (packed into one word), receive as step-order registers `taken`.

    The lane asked is the plan's lane map XOR `lane`."""

    given: tuple[int, ...]
    taken: tuple[int, ...]
    lane: int


@dataclass(frozen=True)
class WarpShuffle:
    """A conversion inside warps. Start with the source's registers; apply `before`; do the steps, which fill
    `num_taken` registers; apply `after`; result register r is then number `result[r]`.

    lane, warp: bases of the lane that a lane asks (XORed with the step's own). `moves` is false when every lane asks
    itself: then steps copy."""

    before: tuple[Stage, ...]
    steps: tuple[Step, ...]
    after: tuple[Stage, ...]
    num_taken: int
    result: tuple[int, ...]
    lane: tuple[int, ...]
    warp: tuple[int, ...]

    @property
    def is_butterfly(self) -> bool:
        """Whether the lane asked is the own lane XOR a constant."""
        return list(self.lane) == LANES and not any(self.warp)

    @property
    def num_shuffles(self) -> int:
        """Steps that really cross lanes."""
        return sum(1 for s in self.steps if s.lane or not self.is_butterfly)


def _stages(lane: list[int], warp: list[int]) -> tuple[Stage, ...]:
    """A linear map from (lane, warp) to register numbers as conditional flips, one a dimension of its image."""
    columns = lane + warp
    flips = independent(columns)
    parts = [part or 0 for part in solve(flips, columns)]
    out = []
    for j, flip in enumerate(flips):
        mask = sum((part >> j & 1) << i for i, part in enumerate(parts))
        out.append(Stage(mask & (1 << LANE_BITS) - 1, mask >> LANE_BITS, flip))
    return tuple(out)


@lru_cache(maxsize=1024)
def plan_shuffle(src: LinearLayout, dst: LinearLayout, elem_bits: int) -> WarpShuffle | None:
    """The shuffles that turn `src` into `dst`, or None if elements must change warps."""
    regs = len(src.reg)
    reg_mask = (1 << regs) - 1
    sources = [*src.reg, *src.lane]
    span = Span(sources)
    reg_span = Span(src.reg)

    def solve_one(flat: int) -> int | None:
        rest, mask = span.reduce(flat)
        return None if rest else mask

    # A's columns, as masks over (source register bits, source lane bits)
    lane_columns: list[int] = []
    for i, basis in enumerate(dst.lane):
        rest, mask = reg_span.reduce(basis ^ src.lane[i])
        found = mask | 1 << regs + i if not rest else solve_one(basis)
        if found is None:
            return None
        lane_columns.append(found)
    warp_columns: list[int] = []
    for have, want in zip(src.warp, dst.warp):
        found = solve_one(have ^ want)
        if found is None:
            return None
        warp_columns.append(found)
    kept: list[int] = []                    # target register bits that are not copies of others
    step_columns: list[int] = []
    for bit, basis in enumerate(dst.reg):
        if independent([basis], [dst.reg[k] for k in kept]):
            found = solve_one(basis)
            if found is None:
                return None
            kept.append(bit)
            step_columns.append(found)

    # Lanes that ask one lane for different registers: give each such direction a partner that tells them apart.
    asked = Span(c >> regs for c in lane_columns)
    clashes: list[int] = []
    agreeing: list[int] = []                # lane directions that ask for the very same: nothing to tell apart
    images = Span()
    for mask in kernel([c >> regs for c in lane_columns]):
        rest, mask = images.reduce(apply(lane_columns, mask) & reg_mask, mask)
        if rest:
            images.add(rest, mask)
            clashes.append(mask)
        else:
            agreeing.append(mask)
    partners: list[tuple[int, int]] = []    # (column to add, flips of the step number)
    free = [(c, 0) for c in kernel(sources) if c >> regs]
    free += [(c, 1 << j) for j, c in enumerate(step_columns)]
    for column, flip in free:
        if len(partners) < len(clashes) and asked.add(column >> regs):
            partners.append((column, flip))
    if len(partners) < len(clashes):
        return None
    basis = clashes + agreeing
    basis += complement(basis, LANE_BITS)
    order = [0] * LANE_BITS                 # F: the step number's flips by lane
    for i, part in enumerate(coordinates(basis, LANE_BITS)):
        for j, (column, flip) in enumerate(partners):
            if part >> j & 1:
                lane_columns[i] ^= column
                order[i] ^= flip

    # What a lane gives, told from its own number: G = registers asked for, after undoing the lane map.
    asks = [c >> regs for c in lane_columns]
    wants = [c & reg_mask for c in lane_columns]
    image = independent(asks)
    preimage = [m or 0 for m in solve(asks, image)]
    give = []
    for part in coordinates(image + complement(image, LANE_BITS), LANE_BITS):
        give.append(apply(wants, apply(preimage, part & (1 << len(image)) - 1)))
    give_warp = [apply(give, c >> regs) ^ c & reg_mask for c in warp_columns]

    # Elements narrower than a word travel together where the same step bit is a register bit on both sides.
    packed: list[tuple[int, int]] = []
    flipped = 0
    for mask in order:
        flipped |= mask
    others = give + give_warp
    for j, column in enumerate(step_columns):
        if elem_bits << len(packed) >= 32:
            break
        alone = column and not column & column - 1 and column <= reg_mask
        if alone and not flipped >> j & 1 and not any(c & column for c in others) and not any(
                c & column for i, c in enumerate(step_columns) if i != j) and not any(
                apply(give, c >> regs) & column for c in step_columns):
            packed.append((1 << j, column))
    free_bits = [1 << j for j in range(len(step_columns)) if all(1 << j != p for p, _ in packed)]
    steps = []
    together = [(apply([p for p, _ in packed], i), apply([c for _, c in packed], i)) for i in range(1 << len(packed))]
    for i in range(1 << len(free_bits)):
        number = apply(free_bits, i)
        column = apply(step_columns, number)
        lane = column >> regs
        given = column & reg_mask ^ apply(give, lane)
        steps.append(Step(tuple(given ^ g for _, g in together), tuple(number ^ t for t, _ in together), lane))

    kept_bases = [dst.reg[k] for k in kept]
    by_bit = [mask or 0 for mask in solve(kept_bases, dst.reg)]
    result = tuple(apply(by_bit, r) for r in range(dst.num_regs))
    return WarpShuffle(_stages(give, give_warp), tuple(steps), _stages(order, [0] * len(src.warp)),
                       1 << len(kept), result, tuple(asks), tuple(c >> regs for c in warp_columns))


@dataclass(frozen=True)
class InWords:
    """A plan whose steps hand over several narrow elements at a time, on words of `size` elements: source registers `gathered` make
    up the words, one behind the other; `plan` moves words; result register r is element `spread[r]` of what comes out."""

    size: int
    gathered: tuple[int, ...]
    plan: WarpShuffle
    spread: tuple[int, ...]


def are_neighbours(plan: WarpShuffle) -> bool:
    """Whether what travels together lies side by side in the registers before and behind, so that no word needs packing."""
    first = plan.steps[0]
    together = tuple(range(len(first.given)))
    return all(tuple(r ^ side[0] for r in side) == together for side in (first.given, first.taken)) and \
        plan.result == tuple(range(len(plan.result)))


def in_words(plan: WarpShuffle, num_regs: int) -> InWords | None:
    """A plan for `num_regs` source registers on words, so that selects move them whole; None where elements travel alone. What
    travels together does so in every step: no flip parts it (see `packed` above)."""
    first = plan.steps[0]
    size = len(first.given)
    if size == 1:
        return None
    given, taken = ([r ^ side[0] for r in side] for side in (first.given, first.taken))
    inside = [0, 0]
    for i, offsets in enumerate((given, taken)):
        for offset in offsets:
            inside[i] |= offset
    sources = [r for r in range(num_regs) if not r & inside[0]]
    targets = [r for r in range(plan.num_taken) if not r & inside[1]]
    source, target = ({r: i for i, r in enumerate(words)} for words in (sources, targets))

    def among(stages: tuple[Stage, ...], numbers: dict[int, int]) -> tuple[Stage, ...]:
        return tuple(Stage(s.lane_mask, s.warp_mask, numbers[s.flip]) for s in stages)
    steps = tuple(Step((source[s.given[0]],), (target[s.taken[0]],), s.lane) for s in plan.steps)
    words = WarpShuffle(among(plan.before, source), steps, among(plan.after, target), len(targets), tuple(range(len(targets))),
                        plan.lane, plan.warp)
    spread = tuple(target[r & ~inside[1]] * size + taken.index(r & inside[1]) for r in plan.result)
    return InWords(size, tuple(r ^ offset for r in sources for offset in given), words, spread)


def apply_shuffle(plan: WarpShuffle, registers: list[list[int]], warp: int) -> list[list[int]]:
    """What the plan does to one warp's registers[lane][register]: the meaning that code generated from it must have."""
    def run(stages: tuple[Stage, ...], lane: int, values: list[int]) -> list[int]:
        for stage in stages:
            if parity(lane & stage.lane_mask) ^ parity(warp & stage.warp_mask):
                values = [values[i ^ stage.flip] for i in range(len(values))]
        return values
    given = [run(plan.before, lane, values) for lane, values in enumerate(registers)]
    out = []
    for lane in range(1 << LANE_BITS):
        taken = [0] * plan.num_taken
        for step in plan.steps:
            other = given[apply(plan.lane, lane) ^ apply(plan.warp, warp) ^ step.lane]
            for source, target in zip(step.given, step.taken):
                taken[target] = other[source]
        taken = run(plan.after, lane, taken)
        out.append([taken[i] for i in plan.result])
    return out
