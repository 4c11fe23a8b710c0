"""`materialize-schedule`: a function whose rings are filled by copies that run by themselves is cut into agents.

    %pipe = create_pipeline                       %pipe = create_pipeline
    for {                                         agent_switch {warps = [4, 1]} {
      %i = producer_acquire %pipe                   for {
      tiled_copy ... -> %ring[%i], %pipe              %j = consumer_wait %pipe
      producer_commit %pipe                           dot %ring[%j]
      %j = consumer_wait %pipe              ->        consumer_release %pipe
      dot %ring[%j]                                 }
      consumer_release %pipe                        tiled_store ...
    }                                             } {
    tiled_store ...                                 for {
                                                      %i = producer_acquire %pipe
                                                      tiled_copy ... -> %ring[%i], %pipe
                                                      producer_commit %pipe
                                                    } }

Each agent has the slice of the function that its effects need (analysis/program_slice.py): the load agent those on the
producers' side of pipes, the compute agents all others. Control flow, arithmetic and loads that nothing in the kernel writes
to stand in both. The loader runs ahead as far as stages are empty, through whatever loops stand around. Kernels that load in no
loop stay whole. What can't be cut stays in one agent, with a remark that says why: it is right as it stands, for a pipe's ops
need no second agent.

The program of a chain (`plan-chains`) becomes an agent for each: they read the same stages, and each loads for itself what the
other hasn't. Where no cut is made, the block goes through its chains one after the other.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import Any

from xdsl.dialects.builtin import IntAttr, IntegerAttr, ModuleOp, TensorType, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tileiras.analysis.agents import REGISTER_STEP, SWITCH, WARP_THREADS, WARPGROUP, agent_of, agents_of, words_of
from tileiras.analysis.chains import CHAIN, chains_of
from tileiras.analysis.effects import BY_TOKENS
from tileiras.analysis.entry_hints import hint
from tileiras.analysis.exits import receivers
from tileiras.analysis.few_loaders import narrowed
from tileiras.analysis.program_slice import CONTROL, YIELD, Slice, loop_around
from tileiras.analysis.shared_lives import SharedLives
from tileiras.analysis.shared_memory import bytes_unshared, plan_shared_memory, stage_bytes
from tileiras.analysis.tensor_dots import goes_on_from, umma_of
from tileiras.analysis.tensor_memory import ColumnsByLoop
from tileiras.analysis.warpgroup_dots import wgmma_of
from tileiras.dialects import arith, nv_tileas
from tileiras.dialects.element import REGISTER_BYTES, element_bytes
from tileiras.dialects.nv_tileaa import MemTokenType, int_array
from tileiras.dialects.nv_tileas import (
    COPIES_BY_THREADS,
    EXITS,
    LOADS,
    LOOPS,
    LayoutAttr,
    PipeType,
    RingType,
    TmemType,
    layout_of,
    with_layout,
)
from tileiras.layout.atoms.umma import COLUMNS, UmmaAtom
from tileiras.layout.linear import LinearLayout
from tileiras.remarks import MEMORY, MISSED, PASSED, remark
from tileiras.schedule.depth import SHARED_KEPT_BACK, registers_of, ring_depth, ring_facts, shared_budget
from tileiras.schedule.names import DEPTH, told
from tileiras.transforms.register_streams import has_streams, stream
from tileiras.transforms.structure import holder_in, put_in_place

CONSUMES = ("nv_tileas.consumer_wait", "nv_tileas.consumer_release")
"""What compute agents do with a pipe; all other ops on one are the load agent's."""
BOTH = ("nv_tileas.gdc_wait", "nv_tileas.is_valid_program_id")
"""What every agent does that touches memory."""
PLACES = ("nv_tileas.alloc_tensor", "nv_tileas.create_pipeline")
"""Shared memory's objects: they have no effect of their own."""
KINDS = ("tma", "cp_async", "mbarrier")
"""Pipes whose consumers learn from a barrier that a stage is full: who fills it may be somebody else."""
COSTLY = ("nv_tileas.dot", "nv_tileas.dot_scaled", "nv_tileas.scan", "nv_tileas.reduce")
"""What the load agent doesn't compute a second time."""
ENOUGH_REGISTERS = 168
"""Of a thread that computes: half for accumulators. What a block of 16 warps has for each of its threads is less."""
LOAD_REGISTERS = 88
"""Of a thread that loads by way of registers, where the others need more."""
SHORT_OF_REGISTERS = [2 * WARPGROUP, 1]
"""Warps of agents on the four parts of an SM: with the ninth one part holds three, which share its registers, 168 a thread. A load
agent padded to a warpgroup can give up most of its own."""
COPY = "nv_tileas.tiled_copy"
MOST_CHUNKS = 16
"""Copies that a thread of the load agent makes for a stage: then one warp keeps up with the tensor cores, and leaves registers for
another block on the SM."""
WARPS_ALONE = 16
"""Of a block whose agents both have accumulators or copies to hold: 128 registers a thread are all that an SM has."""
BESIDE_PRODUCTS = 48
"""Registers of a thread for addresses and operands, beside what a loop's products give."""
COPY_REGISTERS = 40
"""Of the thread that tells the copy engine what to load."""
FEW_COPY_REGISTERS = 32
"""The same, where eight more for each thread that computes save spilling."""
BESIDE_ACCUMULATORS = 26
"""Registers that an instruction of a warpgroup takes beside those of its accumulators, as ptxas says where it refuses one."""
MANY_REGISTERS = 96
"""Of an accumulator in registers: with fewer several blocks find room without being asked."""
MOST_BLOCKS = 2
"""On an SM, of a kernel whose threads have a product's rows between them."""
DOT = "nv_tileas.dot"
MOST_ELEMENTS = 1024
"""Of a tile that the load agent may compute for an address."""


class Refusal(Exception):
    """Why a function stays in one agent, and at which op that shows."""

    def __init__(self, op: Operation, reason: str) -> None:
        super().__init__(reason)
        self.op, self.reason = op, reason


def run(module: ModuleOp, context: Any) -> None:
    """Cut the functions that can be cut, in place."""
    if not context.uses("agents"):
        if context.remarks is not None:
            for func in module.body.block.ops:
                _withdraw_hints(func, "agents are switched off", context.remarks)
        return
    for func in [op for op in module.body.block.ops if op.name == "nv_tileas.func"]:
        if any(op.name == SWITCH for op in func.walk()):
            continue
        streamed = None
        if (context.target.has_wgmma or context.target.has_tcgen05) and chains_of(func) == 1:
            streamed = _streamed(func, context)
        if streamed is not None:
            func = put_in_place(streamed, func)
        else:
            pipes = _shared_in_turn(_pipes(func))
            if not any(map(_is_filled_in_loop, pipes)):
                in_turn(func)
                continue
            trial = func.clone() if chains_of(func) > 1 or bytes_unshared(func) > context.target.most_static_smem else func
            try:
                _cut(trial, pipes if trial is func else _pipes(trial), context)
            except Refusal as refusal:
                if context.remarks is not None:
                    context.remarks.append(remark(func, refusal.op, MISSED, MEMORY, "AgentsRefused",
                                                  "The kernel stays in one agent", reasons=[refusal.reason]))
                    _withdraw_hints(func, f"the kernel stays in one agent: {refusal.reason}", context.remarks)
                in_turn(func)
                continue
            func = put_in_place(trial, func)
        if context.remarks is not None:
            agents = agents_of(_switch(func))
            notes: dict[str, str | int] = {"Agents": len(agents), "Warps": " + ".join(str(agent.span) for agent in agents)}
            context.remarks.append(remark(func, func, PASSED, MEMORY, "AgentsChosen", "Loads run ahead in an agent of their own",
                                          notes))
            _apply_hints(func, context.remarks)


def _withdraw_hints(func: Operation, reason: str, remarks: list[Any]) -> None:
    """The copy engine's rings keep one stage, whatever their loads ask for."""
    from tileiras.transforms.hint_remarks import withdraw_latency
    for op in func.walk():
        if op.name == "nv_tileas.tma_load":
            withdraw_latency(func, op, reason, remarks)


def _apply_hints(func: Operation, remarks: list[Any]) -> None:
    """Loads by way of registers got a ring after all."""
    from tileiras.transforms.hint_remarks import apply_latency
    for pipe in _pipes(func):
        if kind_of(pipe.results[0]) == "mbarrier":
            filling = {use.operation.parent for use in pipe.results[0].uses if use.operation.name not in CONSUMES}
            for load in [op for block in filling if block is not None for op in block.ops if op.name in LOADS]:
                apply_latency(func, load, _stages(pipe), "the load agent fills the ring by way of registers", remarks)


def _streamed(func: Operation, context: Any) -> Operation | None:
    """The function in agents, tiles that go through registers loaded by the load agent; None if there are none or that can't be."""
    if not has_streams(func):
        return None
    trial = func.clone()
    if not stream(trial):
        return None
    try:
        _cut(trial, _pipes(trial), context)
    except Refusal:
        return None
    return trial


def _pipes(func: Operation) -> list[Operation]:
    """The pipes that agents may share."""
    return [op for op in func.walk() if op.name == "nv_tileas.create_pipeline" and kind_of(op.results[0]) in KINDS]


def _shared_in_turn(pipes: list[Operation]) -> list[Operation]:
    """Let loops one behind the other that load tiles of one kind have one ring: an attention kernel whose source parts the tiles of
    keys that are masked from those that aren't. The pipes that are left."""
    kept: dict[Operation, Operation] = {}       # the last loop that each serves
    out = []
    for pipe in pipes:
        loop, rings = _served(pipe), _rings(pipe.results[0])
        ring = rings[0] if len(rings) == 1 else None
        if loop is None or ring is None or kind_of(pipe.results[0]) != "tma":
            out.append(pipe)
            continue
        other = next((p for p, served in kept.items() if _is_alike(p, pipe) and _is_alike(_rings(p.results[0])[0], ring) and
                      served is not loop and served.parent is loop.parent and served.is_before_in_block(loop)), None)
        if other is None:
            out.append(pipe)
            kept[pipe] = loop
            continue
        ring.results[0].replace_all_uses_with(_rings(other.results[0])[0].results[0])
        pipe.results[0].replace_all_uses_with(other.results[0])
        for op in (ring, pipe):
            op.detach()
            op.erase()
        kept[other] = loop
    return out


def _is_alike(a: Operation, b: Operation) -> bool:
    return a.results[0].type == b.results[0].type and a.properties == b.properties


def _served(pipe: Operation) -> Operation | None:
    """The loop of a pipe's block that all its uses are in, None where there is none."""
    block = pipe.parent
    assert block is not None
    found = {holder_in(block, use.operation) for use in pipe.results[0].uses}
    loop = found.pop() if len(found) == 1 else None
    return loop if loop is not None and loop.name in LOOPS else None


def _is_filled_in_loop(pipe: Operation) -> bool:
    """Whether there is something to load ahead: without, more warps would only keep other blocks from the SM."""
    return not gives_ids(pipe.results[0]) and any(
        use.operation.name not in CONSUMES and loop_around(use.operation) is not None for use in pipe.results[0].uses)


def gives_ids(pipe: SSAValue) -> bool:
    """Whether it hands on the ids of further tile blocks, which all agents are told."""
    return any(use.operation.name == "nv_tileas.cancel_next_program_id" for use in pipe.uses)


def kind_of(pipe: SSAValue) -> str:
    t: Any = pipe.type
    return t.kind.data


def _switch(func: Operation) -> Operation:
    return next(op for op in func.walk() if op.name == SWITCH)


def _cut(func: Operation, pipes: list[Operation], context: Any) -> None:
    """Make two agents of a function. Raises Refusal before it has changed anything, but for one: that rings which would have to
    keep their places don't fit."""
    if "cluster" in func.properties and (waiting := _ordered(func)) is not None:
        raise Refusal(waiting, "it waits for what other CTAs of the cluster do, and all warps meet for that")
    target, chains = context.target, chains_of(func)
    own = _of_one_chain(func, pipes) if chains > 1 else []
    loads, computes = [], []
    for op in func.walk():
        if op is func or op.name in CONTROL or op.name in EXITS or op.name == YIELD or op.name in PLACES:
            continue
        if _produces(op) and _maker(_pipe_of(op)) not in own:
            loads.append(op)
        elif op.name in BOTH or (op.name in CONSUMES and gives_ids(op.operands[0])):
            loads.append(op)
            computes.append(op)
        elif not is_pure(op) and not (op.name in LOADS and is_weak(op)):
            computes.append(op)
    shared = [op for op in func.walk() if _is_shared(op)]
    loader = Slice(func, loads, above=shared, keep_tokens=False)
    written, stored = Written(func), _stored(loads)
    for op in func.walk():
        if op in loader.ops:
            check(op, loader, loads, written, stored)
    compute = Slice(func, computes, above=shared, keep_tokens=True)
    properties: dict[str, Any] = func.properties
    warps = properties["num_warps"].data
    load_warps = _load_warps(loader, warps)
    layouts = narrowed(loader, compute) if load_warps > 1 and _copy_warps(loader, warps) == 1 else None
    load_warps = 1 if layouts is not None else load_warps
    widest = max((dot for dot in func.walk() if wgmma_of(dot) is not None), key=_instruction_registers, default=None)
    if widest is not None and _instruction_registers(widest) > target.registers_per_sm // (WARP_THREADS * (warps + load_warps)):
        raise Refusal(widest, "its instruction needs more registers than as many threads are launched with; use narrower tiles")
    crowded = max((_joined_registers(dot, warps) for dot in func.walk() if "joined" in dot.properties), default=0)
    loaders = [loader]
    if layouts is not None:
        for v, layout in layouts.items():
            v._type = with_layout(v.type, layout)       # type: ignore[arg-type]
        if "cluster" not in func.properties and not any(gives_ids(pipe.results[0]) for pipe in pipes):
            loaders = [Slice(func, part, above=shared, keep_tokens=False) for part in _by_engine_and_threads(loads)]
    by_engine = not any(op.name == COPY or is_placed(op, loader) for op in loader.ops)
    if chains > 1 and (not by_engine or load_warps > 1 or not any(_is_filled_in_loop(pipe) for pipe in pipes if pipe not in own)):
        raise Refusal(func, "two chains share what the copy engine loads")
    if chains > 1:
        # of short rows two blocks have room: two more chains to wait for something else
        few = _most_registers(func) < MANY_REGISTERS and chains * _columns(func) <= COLUMNS // MOST_BLOCKS
        blocks = MOST_BLOCKS if few and chains * plan_shared_memory(func).size <= shared_budget(target, MOST_BLOCKS) else 1
    else:
        blocks = _blocks(func, [warps, load_warps], target) if by_engine else 0
    may_lend = by_engine or (layouts is None and not any(is_placed(op, loader) for op in loader.ops))
    if may_lend and not blocks and [warps, load_warps] == SHORT_OF_REGISTERS and target.has_setmaxnreg:
        context.may_lend = True
        blocks = int(context.lend_registers or crowded > target.registers_for(warps + load_warps))
    if may_lend and not blocks and [warps, load_warps] == [WARPGROUP, 1] and _is_too_full_for_two(func, warps, target):
        blocks = MOST_BLOCKS
    _hoist(func, shared)
    regions = [*(_chain(compute.copy(), n, own) for n in range(chains)), *(part.copy() for part in loaders)]
    for region in regions[chains:]:
        _narrow(region, load_warps)
    _replace(func, regions, chains, [warps, load_warps], blocks, target)
    for pipe in _pipes(func):
        _count(pipe, load_warps, warps if chains == 1 or len({agent_of(use.operation) for use in pipe.results[0].uses}) == 1 else
               chains * warps)
    asked = context.schedule is not None and context.schedule.stages
    alone = not asked and warps + load_warps >= WARPS_ALONE and any(kind_of(pipe.results[0]) == "cp_async" for pipe in pipes)
    _deepen(func, [pipe for pipe in pipes if _stages(pipe) == 1], max(blocks, 1), target, alone)


def _instruction_registers(dot: Operation) -> int:
    """Of a thread, for one instruction of a warpgroup's product: ptxas wants them from the launch on, whatever changes hands."""
    atom = wgmma_of(dot)
    assert atom is not None
    return atom.m * atom.n * element_bytes(dot.results[0].type.element_type) // (        # type: ignore[attr-defined]
        REGISTER_BYTES * WARPGROUP * WARP_THREADS) + BESIDE_ACCUMULATORS


def _joined_registers(dot: Operation, warps: int) -> int:
    """Of a thread, for a product that is added to its sums in parts: the sums and a part."""
    return words_of(dot.results[0].type, warps) + _instruction_registers(dot)       # type: ignore[arg-type]


def _by_engine_and_threads(loads: list[Operation]) -> list[list[Operation]]:
    """What the copy engine is told and what threads bring, where there is both: their stores to shared memory wait for the tensor
    core's reads, and the copy engine shouldn't."""
    parts: dict[bool, list[Operation]] = {}
    for op in loads:
        pipe = _pipe_of(op)
        for by_engine in (True, False) if pipe is None else (kind_of(pipe) == "tma",):
            parts.setdefault(by_engine, []).append(op)
    return [parts[by_engine] for by_engine in (True, False) if by_engine in parts]


def _blocks(func: Operation, warps: list[int], target: Any) -> int:
    """How many blocks are to share an SM's registers among their agents; 0 where threads keep what they are launched with. Where
    threads work on a loop's products into tensor memory between one product and the next (attention), the tensor core waits for the
    threads and they for it: a second block's turn, if there is room for it. Two warpgroups have a block's rows between them, and
    would have too few registers for that if the load agent kept its own."""
    dots = [op for op in func.walk() if isinstance(umma_of(op), UmmaAtom)]
    between = any(loop_around(op) is not None and any(use.operation.name not in (YIELD, DOT) for use in op.results[0].uses)
                  for op in dots)
    most = _most_registers(func)
    if not between or most < MANY_REGISTERS:
        return 0
    if warps == SHORT_OF_REGISTERS:
        return 1
    if warps != [WARPGROUP, 1] or hint(func, "occupancy") not in (None, MOST_BLOCKS):
        return 0
    fits = _columns(func) <= COLUMNS // MOST_BLOCKS and plan_shared_memory(func).size <= shared_budget(target, MOST_BLOCKS)
    return MOST_BLOCKS if fits else 0


def _is_too_full_for_two(func: Operation, warps: int, target: Any) -> bool:
    """Whether a kernel that asks for two blocks an SM has them only if its load agent lends registers: of two times five warps one
    part of the SM holds three, 168 registers each, and a loop's products leave too few of these (attention by 128 rows)."""
    if not target.has_setmaxnreg or hint(func, "occupancy") != MOST_BLOCKS:
        return False
    held: dict[Operation, int] = {}
    for op in func.walk():
        if op.name == DOT and umma_of(op) is None and (loop := loop_around(op)) is not None:
            held[loop] = held.get(loop, BESIDE_PRODUCTS) + words_of(op.results[0].type, warps)       # type: ignore[arg-type]
    return max(held.values(), default=0) > target.registers_for(MOST_BLOCKS * (warps + 1)) and \
        plan_shared_memory(func).size <= shared_budget(target, MOST_BLOCKS) + SHARED_KEPT_BACK


def _columns(func: Operation) -> int:
    """Of tensor memory, that a function's products take at a time. Products of one block whose results threads load before the next
    one begins have their columns in turn (attention's gradients), and there is room for what becomes of their rows."""
    columns = ColumnsByLoop()
    blocks: dict[Block | None, list[Operation]] = {}
    for op in [op for op in func.walk() if isinstance(umma_of(op), UmmaAtom)]:
        if goes_on_from(op) is None:
            blocks.setdefault(op.parent, []).append(op)
    for block, dots in blocks.items():
        between = [op for op in dots if any(use.operation.name not in (YIELD, DOT) for use in op.results[0].uses)]
        assert block is not None
        place = {op: i for i, op in enumerate(block.ops)}
        in_turn = all(_is_loaded_before(op, following, place) for op, following in pairwise(between))
        most = max(map(_accumulator, between), default=0)
        for op in dots:
            if not in_turn or op not in between:
                columns.add(op, _accumulator(op))
        if in_turn and between:
            rows = [op for op in block.ops if op.name == DOT and isinstance(op.operands[0].type, TensorType)]
            columns.add(between[0], max(most, sum(map(_rows_columns, rows))))
    return columns.most()


def _accumulator(dot: Operation) -> int:
    return TmemType.of(dot.results[0].type, umma_of(dot).rows).columns      # type: ignore


def _rows_columns(dot: Any) -> int:
    """Of the first operand, where the tensor core reads it from its own memory."""
    t = dot.operands[0].type
    return t.get_shape()[-1] * element_bytes(t.element_type) // REGISTER_BYTES


def _is_loaded_before(dot: Operation, following: Operation, place: Mapping[Operation, int]) -> bool:
    """Whether all that threads do with a product's result itself stands in front of another op of the block, by their places."""
    block = dot.parent
    assert block is not None
    return all(place[holder_in(block, use.operation)] < place[following] for use in dot.results[0].uses)


def _most_registers(func: Operation) -> int:
    """Of a thread that holds what a product into tensor memory gives."""
    return max((registers_of(op.results[0]) for op in func.walk() if isinstance(umma_of(op), UmmaAtom)), default=0)


def _pipe_of(op: Operation) -> SSAValue | None:
    """The pipe that an op works on, or whose stage it fills."""
    for v in op.operands:
        if isinstance(v.type, PipeType):
            return v
    if op.name == "nv_tileas.store_shared":
        slot = op.operands[1].owner
        index = slot.operands[1].owner if isinstance(slot, Operation) and slot.name == "nv_tileas.extract_slice" else None
        if isinstance(index, Operation) and index.name == "nv_tileas.producer_acquire":
            return index.operands[0]
    return None


def _produces(op: Operation) -> bool:
    """Whether an op fills stages that others may read."""
    pipe = _pipe_of(op)
    return op.name not in CONSUMES and op.name not in PLACES and pipe is not None and kind_of(pipe) in KINDS


def is_pure(op: Any) -> bool:
    """Ops that an agent has where it needs their results."""
    return bool(getattr(op, "PURE", False)) or op.parent_op().name in ("nv_tileas.reduce", "nv_tileas.scan")


def is_weak(op: Operation) -> bool:
    properties: dict[str, Any] = op.properties
    return properties["mem_semantic"].data == "weak"


def _load_warps(loader: Slice, warps: int) -> int:
    """How many warps the load agent has: as many as the compute agents where it repeats what is spread over their threads; else as
    copies by threads need, or one."""
    return warps if any(is_placed(op, loader) for op in loader.ops) else _copy_warps(loader, warps)


def _copy_warps(loader: Slice, warps: int) -> int:
    """How many warps the load agent's copies by threads need, or one."""
    chunks: dict[SSAValue, int] = {}
    for op in loader.ops:
        if op.name == COPY and (pipe := _pipe_of(op)) is not None and kind_of(pipe) != "tma":
            chunks[pipe] = chunks.get(pipe, 0) + _chunks(op)
    count = 1
    while count < warps and max(chunks.values(), default=0) > count * WARP_THREADS * MOST_CHUNKS:
        count *= 2
    return count


def is_placed(op: Operation, part: Slice) -> bool:
    """Whether an op's values are spread over the warps of the compute agents: who repeats it must be as many. What each warp has
    for itself, lies in shared memory, or is copied there by one thread or by whichever, isn't."""
    return any(_is_spread(v) for v in (*op.operands, *op.results) if v in part.values) or _stored_by_threads(op)


def _is_spread(v: SSAValue) -> bool:
    """Whether a tile's elements are in different warps."""
    return isinstance(v.type, TensorType) and any(layout_of(v).warp)


def _stored_by_threads(op: Operation) -> bool:
    pipe = _pipe_of(op)
    return pipe is not None and op.name not in PLACES and kind_of(pipe) not in ("tma", "cp_async")


def _chunks(copy: Any) -> int:
    """Instructions of a copy by threads, over all of them."""
    t, atom = copy.buffer.type, copy.properties["atom"].data
    return prod(t.layout.data.shape) * element_bytes(t.element_type) // int(atom.rpartition(".")[2])


def _narrow(agent: Region, warps: int) -> None:
    """Copies by threads are those of so many warps, each thread with what others would have had; tiles that every warp has are
    those of so many warps."""
    keep = warps.bit_length() - 1
    for op in agent.walk():
        for v in (*op.results, *(arg for region in op.regions for block in region.blocks for arg in block.args)):
            if isinstance(v.type, TensorType) and len((have := layout_of(v)).warp) > keep and not any(have.warp):
                v._type = with_layout(v.type, LinearLayout(have.shape, have.reg, have.lane, have.warp[:keep]))
        threads: Any = op.properties.get("threads") if op.name == COPY else None
        if threads is not None and threads.data.num_warps > warps:
            have = threads.data
            layout = LinearLayout(have.shape, (*have.reg, *have.warp[keep:]), have.lane, have.warp[:keep])
            op.properties["threads"] = LayoutAttr.of(layout.compact_regs())


# --- what may stand in two agents ---------------------------------------------------------------------------------------


def _ordered(func: Operation) -> Operation | None:
    """An access to global memory that another one comes before, by its token; of the two one writes."""
    written, touched = Written(func), Written(func, reads=True)
    meeting = next((op for op in func.walk() if op.name == "nv_tileas.cluster_barrier"), None)
    return meeting or next((op for op in func.walk() if (effects := BY_TOKENS.get(op.name)) is not None and (
        written.waits_for_one(op) or (effects.token_write and touched.waits_for_one(op)))), None)


class Written:
    """Which tokens stand for a write of the kernel, or for one of another thread that a load has waited for; with `reads`, for any
    access."""

    def __init__(self, func: Operation, reads: bool = False) -> None:
        self._tokens: set[SSAValue] = set()
        work: list[SSAValue] = []
        self.sources: dict[SSAValue, bool] = {}
        for op in func.walk():
            effects = BY_TOKENS.get(op.name)
            writes = effects is None or effects.token_write or reads or (op.name in LOADS and not is_weak(op))
            if writes and op.name not in CONTROL and not _produces(op) and not getattr(op, "PURE", False):
                work += [r for r in op.results if isinstance(r.type, MemTokenType)]
        while work:
            v = work.pop()
            if v in self._tokens:
                continue
            self._tokens.add(v)
            for use in v.uses:
                work += _tokens_behind(use.operation, use.index)

    def waits_for_one(self, op: Operation) -> bool:
        """Whether an op comes behind a write, by its token."""
        return any(v in self._tokens for v in op.operands)


def _tokens_behind(op: Any, index: int) -> list[SSAValue]:
    """The tokens that come behind operand `index` of an op."""
    if op.name in CONTROL:
        if op.name == "scf.if":
            return []
        carried = index - (len(op.operands) - len(op.carried_inits()))
        found = [op.carried_args()[carried]]
        return [*found, op.results[carried]] if op.name == "scf.for" else found
    if op.name == YIELD or op.name in EXITS:
        return [ends[index] for ends in receivers(op)]
    return [r for r in op.results if isinstance(r.type, MemTokenType)]


def _stored(loads: list[Operation]) -> set[Operation]:
    """The ops that make what the load agent itself stores to a ring, or where its threads copy from."""
    pending = [op.operands[0] for op in loads if op.name == "nv_tileas.store_shared"]
    pending += [v for op in loads if op.name in COPIES_BY_THREADS for v in op.operands if isinstance(v.type, TensorType)]
    found: set[Operation] = set()
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, Operation) and owner not in found and owner.name not in CONTROL:
            found.add(owner)
            pending += owner.operands
    return found


def check(op: Operation, loader: Slice, loads: list[Operation], written: Written, stored: set[Operation]) -> None:
    """Whether the load agent may have an op of its slice. Raises Refusal."""
    if op in loads:
        if _produces(op) and written.waits_for_one(op):
            raise Refusal(op, "the copy reads what the kernel has written")
        return
    if op.name in LOADS:
        if not is_weak(op):
            raise Refusal(op, "where a copy goes depends on a load that is ordered with other threads")
        if written.waits_for_one(op):
            raise Refusal(op, "where a copy goes depends on a load of what the kernel has written")
    elif op.name in COSTLY:
        raise Refusal(op, f"where a copy goes depends on '{op.name.removeprefix('nv_tileas.')}', which the compute agents do")
    elif not (getattr(op, "PURE", False) or op.name in CONTROL or op.name in EXITS or op.name == YIELD or op.name in PLACES
              or op.name in ("nv_tileas.store_shared", "nv_tileas.load_shared")):
        raise Refusal(op, f"where a copy goes depends on '{op.name.removeprefix('nv_tileas.')}'")
    for v in op.results if op not in stored else ():
        if v in loader.values and isinstance(v.type, TensorType) and op.name not in LOADS and \
                (count := prod(v.type.get_shape())) > MOST_ELEMENTS:
            raise Refusal(op, f"where a copy goes depends on a tile of {count} elements")


# --- chains -------------------------------------------------------------------------------------------------------------


def _maker(v: SSAValue | None) -> Operation | None:
    return v.owner if v is not None and isinstance(v.owner, Operation) else None


def _of_one_chain(func: Operation, pipes: list[Operation]) -> list[Operation]:
    """The pipes whose stages are filled with what only one chain reads, and their rings."""
    shared = [op for op in func.walk() if _is_shared(op)]
    own = []
    for pipe in pipes:
        filling = [use.operation for use in pipe.results[0].uses if use.operation.name not in CONSUMES]
        if any(op.name == CHAIN for op in Slice(func, filling, above=shared, keep_tokens=False).ops):
            own += [pipe, *_rings(pipe.results[0])]
    return own


def _chain(region: Region, number: int, own: list[Operation]) -> Region:
    """The agent of a chain, with pipes and rings of its own. The first has those that there are."""
    for op in list(region.walk()):
        if op.name == CHAIN:
            constant = arith.Constant.make([], [i32], {"value": IntegerAttr(number, i32)})
            constant.location = op.location
            assert op.parent is not None
            op.parent.insert_op_before(constant, op)
            op.results[0].replace_all_uses_with(constant.results[0])
            op.detach()
            op.erase()
    others: dict[SSAValue, SSAValue] = {}
    for op in own if number else ():
        copy = op.clone()
        assert op.parent is not None
        op.parent.insert_op_after(copy, op)
        others[op.results[0]] = copy.results[0]
    for op in region.walk() if others else ():
        for i, v in enumerate(op.operands):
            if v in others:
                op.operands[i] = others[v]
    return region


def in_turn(func: Operation) -> None:
    """A function that is the program of one chain goes through all of them."""
    chains = chains_of(func)
    if chains == 1:
        return
    block = func.regions[0].block
    last = block.last_op
    assert last is not None
    shared = [op for op in func.walk() if _is_shared(op)]
    _hoist(func, shared)
    for op in shared:
        op.properties.pop("once", None)     # a stage is filled again
    inside = Block(arg_types=[i32])
    bounds = [arith.Constant.make([], [i32], {"value": IntegerAttr(n, i32)}) for n in (0, chains, 1)]
    for op in [op for op in block.ops if op is not last and not _is_shared(op)]:
        op.detach()
        inside.add_op(op)
    inside.add_op(arith.Yield.make([[]]))
    loop = arith.For.make([*(op.results[0] for op in bounds), []], [[]], regions=[Region(inside)])
    for op in (*bounds, loop):
        op.location = func.location
        block.insert_op_before(op, last)
    for op in [op for op in inside.walk() if op.name == CHAIN]:
        op.results[0].replace_all_uses_with(inside.args[0])
        op.detach()
        op.erase()


# --- the cut ------------------------------------------------------------------------------------------------------------


def _is_shared(op: Operation) -> bool:
    """Rings and pipes: what agents have in common. Groups are one agent's own, and their pipe stays where it is: made anew in each
    iteration of a loop, it starts at its first stage."""
    if op.name not in PLACES:
        return False
    kind = op.results[0].type
    return isinstance(kind, RingType) or (isinstance(kind, PipeType) and kind_of(op.results[0]) in KINDS)


def _hoist(func: Operation, shared: list[Operation]) -> None:
    """Rings and pipes stand first: all agents know them."""
    block = func.regions[0].block
    for op in sorted(shared, key=lambda op: isinstance(op.results[0].type, RingType)):
        op.detach()
        assert block.first_op is not None
        block.insert_op_before(op, block.first_op)


def _registers(warps: list[int], blocks: int, target: Any) -> tuple[int, int] | None:
    """Registers a thread of the compute agents and of the load agent, where the launch's are too few for the former; None where
    they aren't, or can't change hands."""
    compute, load = warps
    if blocks:          # the load agent is padded to a warpgroup, which gives up what it has
        each = target.registers_per_sm // (blocks * WARP_THREADS * (compute + WARPGROUP)) // REGISTER_STEP * REGISTER_STEP
        copies = COPY_REGISTERS if compute == WARPGROUP or blocks == 1 else FEW_COPY_REGISTERS
        rest = each * (compute + WARPGROUP) - copies * WARPGROUP
        return rest // compute // REGISTER_STEP * REGISTER_STEP, copies
    each = target.registers_per_sm // (WARP_THREADS * (compute + load)) // REGISTER_STEP * REGISTER_STEP
    if not target.has_setmaxnreg or load % WARPGROUP or compute % WARPGROUP or each >= ENOUGH_REGISTERS or each <= LOAD_REGISTERS:
        return None
    rest = each * (compute + load) - LOAD_REGISTERS * load
    return rest // compute // REGISTER_STEP * REGISTER_STEP, LOAD_REGISTERS


def _replace(func: Any, regions: list[Region], chains: int, warps: list[int], blocks: int, target: Any) -> None:
    """Put the switch in the place of everything behind the shared objects. `chains`: how many of the regions compute."""
    block: Block = func.regions[0].block
    keep = [op for op in block.ops if _is_shared(op)]
    compute, load = warps
    properties: dict[str, Attribute] = {"warps": int_array((
        *[compute] * chains, *[load] * (len(regions) - chains)))}
    shares = _registers([chains * compute, load], blocks, target)
    if shares is not None:
        properties["registers"] = int_array((*[shares[0]] * chains, shares[1]))
    switch = nv_tileas.AgentSwitch.create(regions=regions, properties=properties, location=func.location)
    last = block.last_op
    assert last is not None
    for op in reversed([op for op in block.ops if op not in keep and op is not last]):
        op.detach()
        op.erase(safe_erase=False)
    block.insert_op_before(switch, last)


def _stages(op: Operation) -> int:
    """Of a pipe or a ring."""
    t: Any = op.results[0].type
    return t.stages.data


def _deepen(func: Operation, pipes: list[Operation], blocks: int, target: Any, alone: bool) -> None:
    """Give the rings of each loop as many stages as the schedule says, or else as hide the loads, and as shared memory holds.
    `alone`: warps that copy leave no room for another block, which the schedule didn't know."""
    together: dict[Operation, list[Operation]] = {}
    for pipe in pipes:
        wait = next((use.operation for use in pipe.results[0].uses if use.operation.name == CONSUMES[0]), None)
        loop = loop_around(wait) if wait is not None else None
        if loop is not None:
            together.setdefault(loop, []).append(pipe)
    lives = SharedLives(func)
    if lives.size > target.most_static_smem:
        raise Refusal(func, "the rings of all its loops, which keep their places, don't fit shared memory")
    for loop, found in together.items():
        rings = {ring for pipe in found for ring in _rings(pipe.results[0])}
        nbytes = sum(stage_bytes(ring.results[0].type) for ring in rings)       # type: ignore[arg-type]
        copies = [use.operation for pipe in found for use in pipe.results[0].uses if use.operation.name not in CONSUMES]
        copies += [op for at in {op.parent: None for op in copies} if at is not None for op in at.ops if op.name in LOADS]
        other = lives.size - nbytes
        asked = [depth for op in copies if (depth := told(op, DEPTH)) is not None]
        facts = ring_facts(loop, copies, nbytes, target, max(0, other), 1 if alone else None)
        stages = max(asked) if asked and not alone else ring_depth(replace(facts, asked=None), target).stages
        while stages > 1:
            _set_stages(found, rings, stages)
            lives.update((*found, *rings))
            if lives.size <= shared_budget(target, blocks):
                break
            stages -= 1
        _set_stages(found, rings, stages)
        lives.update((*found, *rings))


def _rings(pipe: SSAValue) -> list[Operation]:
    """The rings whose stages a pipe numbers."""
    numbers = [r for use in pipe.uses for r in use.operation.results]
    slices = [use.operation for n in numbers for use in n.uses if use.operation.name == "nv_tileas.extract_slice"]
    return list(dict.fromkeys(op.operands[0].owner for op in slices))      # type: ignore[misc]


def _set_stages(pipes: list[Operation], rings: Iterable[Operation], stages: int) -> None:
    for op in (*pipes, *rings):
        t: Any = op.results[0].type
        op.results[0]._type = PipeType(t.kind, IntAttr(stages)) if isinstance(t, PipeType) else RingType(t.buffer, IntAttr(stages))


def _count(pipe: Operation, load_warps: int, compute_warps: int) -> None:
    """Who arrives at a pipe's barriers."""
    kind = kind_of(pipe.results[0])
    if kind == "cp_async":
        pipe.properties["producers"] = IntAttr(WARP_THREADS * load_warps)
    elif kind == "mbarrier":
        pipe.properties["producers"] = IntAttr(load_warps)
    pipe.properties["consumers"] = IntAttr(compute_warps + (load_warps if gives_ids(pipe.results[0]) else 0))
