"""How many stages a loop's ring of loads has: as many as hide the loads' latency, no more than shared memory holds.

A stage is asked for when its slot is empty and is there `latency + bytes / rate` later; in that time a loop whose iteration
takes `interval` cycles reads `that / interval` other stages, and one more is being read:

    wanted = ceil((latency + bytes / rate) / interval) + 1          rate: the SM's share of L2's bandwidth

`interval` is the time of the iteration's own work, HANDOVER at least. A loop without products is as slow as its loads
(`interval` is `bytes / rate` at least). A hint `latency = n` on a load, which says how busy memory is, asks for n + 1 stages if
these are more: with fewer than hide a load's latency the loop would only wait (64x64x64 in f16, 64 blocks, B200, by hints of 1 and
2: 38.7 and 26.2 us, 14.8 without; many blocks 61.1 and 61.5, 63.6 without). They are fewer where an SM's tensor memory has room for
more blocks than the program asks for, or where products would have the SM to themselves by such a ring alone (attention of 64 rows
and keys and 128 columns, hints of 2 and 4, H100: 58.0 us by a block of five stages, 36.7 by two).

Where registers let several blocks share an SM, each has their number times the interval, and rings that kept the others
out would be a loss: the ring gets what is wanted for a block alone only as far as the others' rings still fit. A kernel that shares
out its tiles over the blocks there are (`strides_by_blocks`) is launched with few: as many an SM as its hint `occupancy` says, one
where it has none. So is one that walks down rows without a product, or along many rows at once
(`has_few_blocks`): its rings hide more than a latency.
"""
from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import ceil, prod
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.access import contiguous_of
from tileiras.analysis.dot_chains import only_multiplies
from tileiras.analysis.entry_hints import hint
from tileiras.analysis.layout_rules import DOTS, layout_or_none, unmoved
from tileiras.analysis.program_slice import function_of, loop_around, strides_by_blocks
from tileiras.analysis.tensor_dots import adds_up, described_of, umma_of
from tileiras.dialects.element import REGISTER_BYTES, element_bytes
from tileiras.dialects.nv_tileas import LayoutAttr
from tileiras.layout.atoms.umma import COLUMNS, columns_of, place_of
from tileiras.machine.machines import machine_of
from tileiras.schedule.names import DEPTH, LEAST_STAGES, told
from tileiras.schedule.resources import HANDOVER, model_of

MOST_STAGES = 16
"""Of a ring: what hides 1,600 cycles at the shortest interval."""
MOST_BLOCKS = 4
"""Blocks on an SM that are counted with: more are worth a short ring, not a ring of one stage."""
MOST_BLOCKS_OF_STREAMS = 3
"""The same where an iteration's loads take longer than its work: a grid may have fewer blocks than SMs hold, and one alone lives on
its ring."""
MOST_BLOCKS_OF_FEW, LONGER_ALONE = 2, 2.5
"""The same where a launch has few blocks, and how many times the latency their rings hide then: where all that is on its way comes
from rings of blocks on a part of the SMs, memory answers late (sums of 2048 rows by 64 blocks, an H100: 40.8 us with 48 KiB
a ring, 36.5 with 72, 34.9 with 105, 34.7 with 130)."""
MANY_ROWS = 64
"""Of a tile: a block that walks along so many has few others beside it."""
MOST_WORK_OF_FEW = 2
"""Times as long as its loads take, up to which a loop of such a block has its time from memory."""
LEAST_OF_PRODUCTS = 4
"""Stages of a ring, where two blocks have room for so many, for products that take less time than their operands: those that the
tensor core reads itself, and those of few rows. A launch may have few blocks, and one alone is as slow as what is on its way.
(64 rows by 4096x4096, bf16, tiles of 64x128x64, 32 blocks: H100 42.9 us by two stages, 23.8 by three, 17.6 by four; B200 28.0,
19.4, 14.7. 16 rows, tiles of 16x64x128: H100 17.1 by two, 11.6 by four, A100 28.8 and 20.0. One block of more stages is slower
where a launch fills the machine: an H200 took 192 us for a product of 4096 in tiles of 128 rows by two blocks of three stages, 225
and 211 by one of four and six.)"""
FEW_ROWS, FEWEST_ROWS, ENOUGH_OF_FEW_ROWS = 64, 16, 6
"""Rows of a product, at most, that launches of few blocks have, such as a batch that is decoded: an SM has one of them, whose ring
is all that is on its way. It has so many stages at least if two blocks have room for them. Else it has what hides the latency,
where the tensor core reads its operands itself or it has the fewest rows, and otherwise, with rows that are NARROW, as many as two
have room for: warps fill each other's pauses. (64 rows by 4096x4096, bf16: tiles of 64x64x64, H100 14.5 us by four stages, 12.0 by
six, of 64x128x64 16.6 by four, 12.9 and 12.0 by six and eight; B200 12.0 and 8.5, 14.6 and 11.5. Where launches fill the machine
that costs 4 % on an H100, 2 on a B200; with bias and GELU behind it 14 and none, where a launch of 64 rows takes 26 % less. By
warps, 32x64x128, two stages and four: H100 17.6 and 11.8, A100 33.1 and 24.0, B200 16.1 and 9.3; 4096x4096 by 1024 so H100 160 and
168, by one block 211.)"""
NARROW, TIMES_AS_WIDE = 32, 4
"""Rows or columns of a product, at most, of which it has so many times more columns or rows."""
MOST_WORK_BESIDE_SUMS = 1.5
"""Times as long as its loads take, up to which a loop lives on its ring, too, whose products the tensor core adds up by itself, and
threads work beside (B200, 64x128x64, with its squares summed: rows normed and scaled, 32 blocks 14.5 us by two stages, 8.8 by four,
1,024 blocks 57.0 by four blocks of two stages, 54.7 by two of four; as they are, 15.9 and 9.7, 52.0 and 54.3)."""
LONGER_BESIDE_PRODUCTS = 1.5
"""How many times the latency a block hides that has products and the SM to itself as long as the launch takes: what it waits for
once it waits for in all its tiles (a persistent masked product of 128x128x64, H100: 467 us by four stages, 442 by five, 445 by 7;
in clusters of four 512 by five, 503 by six)."""
BESIDE_CARRIED = 48
"""Registers a thread that a loop needs besides what it carries, and a quarter of that: addresses, indices."""
FRAGMENTS = 2
"""Where warps multiply, one more for so many that it carries: fragments of this step and the next."""
LANES = 32
ASKED = "what was asked for"
MOST_BLOCKS_OF_CLUSTERS = 2
"""The same in clusters: CTAs that load for each other wait for the slowest, and deeper rings make up for it."""
ENOUGH_BESIDE_OTHERS = 3
"""Stages with which a block whose products the tensor core does by itself rather shares the SM with others than have more: one
block's last sums then leave while the tensor core multiplies for another."""
SHARED_KEPT_BACK = 256
"""Bytes of shared memory that barriers and small exchanges may take beside rings and buffers."""


@dataclass(frozen=True)
class RingFacts:
    """`stage_bytes`: of all buffers that one stage fills. `work`: cycles that the loop's iteration takes besides loading.
    `has_product`: whether tensor cores work in it. `other_bytes`: of shared memory that is needed while the ring lives.
    `occupancy`: blocks that an SM is to hold, by the hint. `blocks`: that an SM can hold by their registers. `latency`: the
    hint, the largest of the loads'. `warps`: of the block. `asked`: stages that `generate-schedule`, or an option, decided on.
    `rather_shares`: the tensor core multiplies by itself, into its own memory, or what warps gather that do nothing else.
    `alone`: as many blocks are launched as there are SMs. `few`: a launch has few blocks, whose loops are long. `narrow`: its
    products have few rows or columns. `described`: the tensor core reads their operands itself. `few_rows`: of its product, as
    `few_rows_of` says. `adds_up`: the tensor core adds all its products up by itself: threads want no sum before the loop's end."""

    stage_bytes: int
    work: float
    has_product: bool = True
    other_bytes: int = 0
    occupancy: int = 1
    blocks: int = 1
    latency: int | None = None
    warps: int = 4
    asked: int | None = None
    rather_shares: bool = False
    alone: bool = False
    few: bool = False
    narrow: bool = False
    described: bool = False
    few_rows: int = 0
    adds_up: bool = False


@dataclass(frozen=True)
class Depth:
    """`stages`: of the ring, 1 where no second one fits. `wanted`: without the bound of shared memory. `bound`: what decided:
    "latency", "hint", "shared memory", "other blocks on the SM" or ASKED. `latency`: cycles until a stage is there. `interval`:
    cycles of an iteration."""

    stages: int
    wanted: int
    bound: str
    latency: int
    interval: int

    def __str__(self) -> str:
        return f"{self.stages} stages (a stage is there after {self.latency} cycles, an iteration takes {self.interval}; " \
               f"bound by {self.bound})"


def shared_budget(target: Any, occupancy: int = 1) -> int:
    """Bytes of shared memory that each of `occupancy` blocks on an SM may have."""
    share = target.smem_per_sm // max(1, occupancy) - machine_of(target.cc).smem_reserved
    return max(0, min(target.most_static_smem, share) - SHARED_KEPT_BACK)


def ring_depth(facts: RingFacts, target: Any) -> Depth:
    """The stages of a ring of loads in a loop: those that a hint asks for, if they are more than without it."""
    by_figures = _depth(facts, None, target)
    if facts.latency is None or facts.latency <= 0:
        return by_figures
    by_hint = _depth(facts, facts.latency + 1, target)
    return by_hint if by_hint.stages > by_figures.stages else by_figures


def _depth(facts: RingFacts, hinted: int | None, target: Any) -> Depth:
    """By the figures, or by a hint that asks for so many stages."""
    model = model_of(target, facts.warps)
    transfer = facts.stage_bytes / model.ingress
    latency = model.latencies.loaded + transfer
    streams_alone = facts.few and not facts.has_product and facts.work < MOST_WORK_OF_FEW * transfer
    if streams_alone:
        latency *= LONGER_ALONE
    elif facts.alone and facts.has_product:
        latency *= LONGER_BESIDE_PRODUCTS
    interval = max(facts.work, HANDOVER, 0 if facts.has_product else transfer)
    wanted, bound = min(MOST_STAGES, ceil(latency / interval) + 1), "latency"
    if hinted is not None:
        wanted, bound = min(MOST_STAGES, hinted), "hint"
    if facts.asked is not None and facts.asked > 0:
        wanted, bound = min(MOST_STAGES, facts.asked), ASKED

    def fit(blocks: int) -> int:
        return max(1, (shared_budget(target, blocks) - facts.other_bytes) // max(1, facts.stage_bytes))

    occupancy = max(1, facts.occupancy)
    lives_on_loads = not facts.has_product and facts.work < transfer
    while occupancy > 1 and (shared_budget(target, occupancy) < facts.other_bytes + facts.stage_bytes or
                             (lives_on_loads and fit(occupancy) < LEAST_STAGES)):
        occupancy -= 1      # so many have no room, however short their rings are; or none for rings that are all they live on
    blocks = max(occupancy, facts.blocks)
    if lives_on_loads or streams_alone:
        blocks = max(occupancy, min(blocks, MOST_BLOCKS_OF_FEW if streams_alone else MOST_BLOCKS_OF_STREAMS))
    while facts.rather_shares and blocks > occupancy and fit(blocks) < LEAST_STAGES:
        blocks -= 1         # nor so many beside one another
    stages = min(wanted, fit(occupancy))
    if stages < wanted:
        bound = "shared memory"
    beside_others = fit(blocks)
    most_work = MOST_WORK_BESIDE_SUMS if facts.adds_up else 1
    lives_on_memory = facts.narrow or (facts.work < most_work * transfer if facts.described else facts.few_rows > 0)
    beside_one = fit(max(occupancy, MOST_BLOCKS_OF_FEW))
    least = min(LEAST_OF_PRODUCTS, beside_one) if lives_on_memory else 1
    if facts.few_rows and lives_on_memory:
        least = min(ENOUGH_OF_FEW_ROWS, beside_one)
        if least < ENOUGH_OF_FEW_ROWS and (facts.described or facts.few_rows <= FEWEST_ROWS):
            least = min(wanted, fit(occupancy))
    if not facts.rather_shares or beside_others < max(least, ENOUGH_BESIDE_OTHERS):
        needed = max(min(MOST_STAGES, ceil(latency / (interval * blocks)) + 1), least)
        while blocks > occupancy and fit(blocks) < needed:
            blocks -= 1         # with rings that hide the latency so many aren't there: what they leave is for these
        beside_others = max(fit(blocks), needed)
    most = beside_others
    if bound == "hint" and not (facts.rather_shares and 1 < occupancy < blocks):
        most = beside_one if facts.has_product and occupancy < blocks else stages
    if bound != ASKED and most < stages:
        stages, bound = most, "other blocks on the SM"
    return Depth(stages, wanted, bound, round(latency), round(interval))


def ring_facts(loop: Operation, loads: Collection[Operation], stage_bytes: int, target: Any, other_bytes: int = 0,
               blocks: int | None = None) -> RingFacts:
    """What `ring_depth` asks of a loop whose `loads` (and the `store_shared` of what they load) are to go through a ring.
    `blocks`: how many an SM can hold, where that is known; else it is estimated from what the loop carries."""
    func = function_of(loop)
    num_warps: Any = func.properties.get("num_warps")
    warps = num_warps.data if num_warps is not None else 4
    model = model_of(target, warps)
    occupancy = hint(func, "occupancy")
    shares_out = target.has_tma and strides_by_blocks(loop_around(loop))
    if blocks is None:
        blocks = blocks_by_registers(loop, target, warps)
        if "cluster" in func.properties:
            blocks = min(blocks, MOST_BLOCKS_OF_CLUSTERS)
        if shares_out:
            blocks = min(blocks, occupancy or 1)
    copied = {r for op in loads for r in op.results}
    products = [op for op in loop.walk() if op.name in DOTS]
    work, rather_shares = 0.0, False
    for_places = ops_for_places(loop, loads)
    for op in loop.regions[0].block.ops:
        if op in loads or (op.name == "nv_tileas.store_shared" and unmoved(op.operands[0]) in copied):
            continue
        work += model.footprint(op).cycles / (side_by_side(op) if op in for_places else 1)
        rather_shares = rather_shares or umma_of(op) is not None
    return RingFacts(stage_bytes, work, bool(products), other_bytes, occupancy or 1,
                     blocks, latency_hint(loads), warps,
                     max((n for op in loads if (n := told(op, DEPTH)) is not None), default=None), rather_shares,
                     shares_out and occupancy in (None, 1), shares_out or has_few_blocks(loop, loads),
                     is_narrow(products), any(described_of(op) is not None for op in products),
                     few_rows_of(loop, loads), bool(products) and all(map(adds_up, products)))


def ops_for_places(loop: Operation, loads: Collection[Operation]) -> set[Operation]:
    """Ops of a loop's body that say where its loads lie, and nothing else."""
    found: set[Operation] = set()
    for op in reversed(list(loop.regions[0].block.ops)):
        users = {use.operation for r in op.results for use in r.uses}
        if op not in loads and users and all(user in found or user in loads for user in users):
            found.add(op)
    return found


def side_by_side(op: Operation) -> int:
    """How many elements of an op's tile one instruction is for, where the op says where they lie: those of a machine access."""
    layout = layout_or_none(op.results[0]) if op.results else None
    return layout.contiguous() if layout is not None else 1


def is_narrow(products: Sequence[Operation]) -> bool:
    """Whether all have few rows or columns, and many more of the other."""
    shapes = [sorted(op.results[0].type.get_shape()[-2:]) for op in products]       # type: ignore[attr-defined]
    return bool(shapes) and all(short <= NARROW and long >= TIMES_AS_WIDE * short for short, long in shapes)


def few_rows_of(loop: Operation, loads: Collection[Operation]) -> int:
    """The rows of a loop's product, if they are so few that launches have few blocks, and the product is all that is done with what
    `loads` bring; else 0. Batches have more blocks, and where rows are gathered they are many."""
    body = loop.regions[0].block
    dots: list[Any] = [op for op in body.ops if op.name in DOTS]
    coords: list[Any] = [op.coords for op in loads if hasattr(op, "coords")]      # type: ignore[attr-defined]
    if len(dots) != 1 or not only_multiplies(body, loads) or any(len(place) != 2 for place in coords) or \
            any(op.name == "nv_tileas.load" for op in loads):
        return 0
    rows: int = dots[0].results[0].type.get_shape()[-2]
    return rows if rows <= (FEW_ROWS if described_of(dots[0]) is not None else NARROW) else 0


def has_few_blocks(loop: Operation, loads: Collection[Operation]) -> bool:
    """Whether a loop goes from row to row of what it loads, when blocks are as many as a row has tiles, or along many rows. Where
    it goes along a few rows, blocks are many, and a row ends soon."""
    index = loop.regions[0].block.args[0]
    found = False
    for op in loads:
        coords = list(getattr(op, "coords", ()))
        if index in coords:
            along, tile = coords.index(index), op.results[0].type.get_shape()      # type: ignore[attr-defined]
            if contiguous_of(op) is None or (contiguous_of(op) == along and prod(tile) < MANY_ROWS * tile[along]):
                return False
            found = True
    return found


def blocks_by_registers(loop: Operation, target: Any, warps: int) -> int:
    """How many blocks of so many warps an SM can hold, as far as the values that a loop carries say, and the columns of tensor
    memory that its products want."""
    each = min(target.max_registers_per_thread, registers_wanted(loop))
    blocks = min(MOST_BLOCKS, target.registers_per_sm // (each * warps * LANES))
    if any(umma_of(op) is not None for op in loop.walk()):
        blocks = min(blocks, COLUMNS // _columns(loop))
    return max(1, blocks)


def _columns(loop: Operation) -> int:
    """Of tensor memory, that a block of such a loop allocates."""
    from tileiras.analysis.tensor_columns import DOT, columns_at_once
    from tileiras.analysis.tensor_memory import allocated
    scaled = sum(columns_of(*place_of(atom, op.results[0].type.get_shape()))      # type: ignore[attr-defined]
                 for op in loop.walk() if (atom := umma_of(op)) is not None and op.name != DOT)
    return allocated(columns_at_once(loop) + scaled)


def registers_wanted(loop: Operation) -> int:
    """Registers of a thread for a loop, as far as the values that it carries say, and the largest product that it works on (scores
    of attention); where sums are in tensor memory, the largest of those that it carries, of which threads have one after another
    behind it."""
    carried = [registers_of(v) for v in loop.results]
    if any(umma_of(op) is not None for op in loop.walk()):
        held = max([0, *carried])
    else:
        body: Any = loop.regions[0].block
        held = sum(carried) + max((registers_of(op.results[0]) for op in body.ops
                                   if op.name in DOTS and op.results[0] not in body.last_op.operands), default=0)
    by_warps = any(op.name in DOTS and described_of(op) is None for op in loop.walk())
    return BESIDE_CARRIED + held + held // 4 + (held // FRAGMENTS if by_warps else 0)


def registers_of(value: SSAValue) -> int:
    """Registers a thread that hold a value."""
    t = value.type
    if isinstance(t, TensorType) and isinstance(t.encoding, LayoutAttr):
        return max(1, t.encoding.data.num_regs * element_bytes(t.element_type) // REGISTER_BYTES)
    return 1


def latency_hint(loads: Iterable[Operation]) -> int | None:
    """The largest hint `latency` of some loads."""
    hints: list[Any] = [op.properties["latency"] for op in loads if "latency" in op.properties]
    return max((h.value.data for h in hints), default=None)
