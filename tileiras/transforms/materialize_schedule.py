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

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from xdsl.dialects.builtin import IntAttr, IntegerAttr, ModuleOp, TensorType, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tileiras.analysis.agent_parts import (
    BOTH,
    CONSUMES,
    KINDS,
    PLACES,
    Refusal,
    Written,
    beside,
    check_load,
    is_drawn,
    is_placed,
    is_pure,
    is_told_to_all,
    is_weak,
    kind_of,
    pipe_at,
    produces,
    stored_by_loads,
)
from tileiras.analysis.agents import SWITCH, WARP_THREADS, WARPGROUP, agent_of, agents_of
from tileiras.analysis.chains import CHAIN, chains_of
from tileiras.analysis.effects import effects_of
from tileiras.analysis.entry_hints import hint
from tileiras.analysis.few_loaders import narrowed, of_warps
from tileiras.analysis.layout_rules import DOTS
from tileiras.analysis.program_slice import CONTROL, YIELD, Slice, loop_around
from tileiras.analysis.shared_lives import SharedLives
from tileiras.analysis.shared_memory import blocks_of, bytes_unshared, plan_shared_memory, stage_bytes
from tileiras.analysis.stage_numbers import pipe_of
from tileiras.analysis.tensor_columns import columns_at_once
from tileiras.analysis.tensor_dots import umma_of
from tileiras.analysis.warpgroup_dots import wgmma_of
from tileiras.dialects import arith, nv_tileas
from tileiras.dialects.element import tile_bytes
from tileiras.dialects.nv_tileaa import int_array
from tileiras.dialects.nv_tileas import (
    COPIES_BY_THREADS,
    EXITS,
    LOADS,
    LOOPS,
    LayoutAttr,
    PipeType,
    RingType,
    layout_of,
    with_layout,
)
from tileiras.layout.atoms.umma import COLUMNS, LANES
from tileiras.remarks import MEMORY, MISSED, PASSED, remark
from tileiras.schedule.depth import (
    MOST_BLOCKS_OF_FEW,
    MOST_BLOCKS_OF_STREAMS,
    SHARED_KEPT_BACK,
    few_rows_of,
    ring_depth,
    ring_facts,
    shared_budget,
)
from tileiras.schedule.names import DEPTH, LEAST_IN_TURN, LEAST_LENT, LEAST_STAGES, told
from tileiras.transforms.agent_registers import (
    MANY_REGISTERS,
    MOST_BLOCKS,
    SHORT_OF_REGISTERS,
    blocks_in_agents,
    instruction_registers,
    is_too_full_for_two,
    joined_registers,
    most_registers,
    registers_in_agents,
)
from tileiras.transforms.load_agents import copies_by_threads, copy_warps, is_by_engine, load_agents, load_warps
from tileiras.transforms.register_streams import has_streams, stream
from tileiras.transforms.structure import holder_in, put_in_place

FEWER, LONG_RING = 2, 6
"""Stages that a ring may lose for a block more on the SM, and how many it must keep."""
LARGE_STREAMS = 8192
"""Bytes of a stage by way of registers that are worth as many warps that load as compute."""
WARPS_ALONE = 16
"""Of a block whose agents both have accumulators or copies to hold: 128 registers a thread are all that an SM has."""


def run(module: ModuleOp, context: Any) -> None:
    """Cut the functions that can be cut, in place."""
    context.in_agents = 0
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
        context.in_agents += 1
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
        if kind_of(pipe.results[0]) == "mbarrier" and not is_drawn(pipe.results[0]):
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
        _cut(trial, _pipes(trial), context, by_registers=True)
    except Refusal:
        return None
    return trial


def _pipes(func: Operation) -> list[Operation]:
    """The pipes that agents may share."""
    return [op for op in func.walk() if op.name == "nv_tileas.create_pipeline" and kind_of(op.results[0]) in KINDS]


def _shared_in_turn(pipes: list[Operation]) -> list[Operation]:
    """Let loops one behind the other that load tiles of the same kinds have the same rings: an attention kernel whose source parts
    the tiles of keys that are masked from those that aren't, products of two inputs into one sum. The pipes that are left."""
    kept: dict[Operation, Operation] = {}       # the last loop that each serves
    out = []
    for pipe in pipes:
        loop, rings = _served(pipe), _rings(pipe.results[0])
        if loop is None or not rings or kind_of(pipe.results[0]) != "tma":
            out.append(pipe)
            continue
        other = next((p for p, served in kept.items() if _is_alike(p, pipe) and _are_alike(_rings(p.results[0]), rings) and
                      served is not loop and served.parent is loop.parent and served.is_before_in_block(loop)), None)
        if other is None:
            out.append(pipe)
            kept[pipe] = loop
            continue
        for ring, same in zip(rings, _rings(other.results[0])):
            ring.results[0].replace_all_uses_with(same.results[0])
        pipe.results[0].replace_all_uses_with(other.results[0])
        for op in (*rings, pipe):
            op.detach()
            op.erase()
        kept[other] = loop
    return out


def _is_alike(a: Operation, b: Operation) -> bool:
    return a.results[0].type == b.results[0].type and a.properties == b.properties


def _are_alike(a: list[Operation], b: list[Operation]) -> bool:
    return len(a) == len(b) and all(map(_is_alike, a, b))


def _served(pipe: Operation) -> Operation | None:
    """The loop of a pipe's block that all its uses are in, None where there is none."""
    block = pipe.parent
    assert block is not None
    found = {holder_in(block, use.operation) for use in pipe.results[0].uses}
    loop = found.pop() if len(found) == 1 else None
    return loop if loop is not None and loop.name in LOOPS else None


def _is_filled_in_loop(pipe: Operation) -> bool:
    """Whether there is something to load ahead: without, more warps would only keep other blocks from the SM."""
    return not is_told_to_all(pipe.results[0]) and any(
        use.operation.name not in CONSUMES and loop_around(use.operation) is not None for use in pipe.results[0].uses)


def _switch(func: Operation) -> Operation:
    return next(op for op in func.walk() if op.name == SWITCH)


@dataclass
class Division:
    """Which operations each agent of a function has.

    `own`: the pipes and rings that each chain has for itself; `shared`: all pipes and rings that agents meet at; `loads`: what the
    load agent is there for; `loader`: with all that it needs for that; `compute`: the same of the others."""
    chains: int
    own: list[Operation]
    shared: list[Operation]
    loads: list[Operation]
    loader: Slice
    compute: Slice


def _cut(func: Operation, pipes: list[Operation], context: Any, by_registers: bool = False) -> None:
    """Make agents of a function. `by_registers`: the load agent is to bring tiles by way of registers. Raises Refusal before it has
    changed anything, but for one: that rings which would have to keep their places don't fit."""
    if "cluster" in func.properties and (waiting := _ordered(func)) is not None:
        raise Refusal(waiting, "it waits for what other CTAs of the cluster do, and all warps meet for that")
    parts = _divided(func, pipes)
    properties: dict[str, Any] = func.properties
    warps = properties["num_warps"].data
    loading = load_warps(func, parts.loader, warps, context.target)
    layouts = narrowed(parts.loader, parts.compute) if loading > 1 and copy_warps(parts.loader, warps) == 1 else None
    loading = 1 if layouts is not None else loading
    if by_registers and layouts is None and context.target.has_wgmma:
        _check_streams(func, parts.loader, warps)
    _check_instructions(func, warps + loading, context.target)
    crowded = max((joined_registers(dot, warps) for dot in func.walk() if "joined" in dot.properties), default=0)
    for v, layout in (layouts or {}).items():
        v._type = with_layout(v.type, layout)       # type: ignore[arg-type]
        for use in v.uses:
            use.operation.properties.pop("turned", None)
    if parts.chains > 1:
        _check_chains(func, parts, pipes, loading)
        blocks = _blocks_of_chains(func, parts.chains, context.target)
    else:
        blocks = _blocks(func, parts.loader, [warps, loading], crowded, layouts is not None, context)
    loaders = load_agents(func, parts, warps, loading, blocks, layouts is not None, context.target)
    held = _blocks_held(func, parts.loader, warps, sum(agent.warps for agent in loaders), context)
    _hoist(func, parts.shared)
    regions = [_chain(parts.compute.copy(), n, parts.own) for n in range(parts.chains)]
    regions += [agent.part.copy() for agent in loaders]
    for region, agent in zip(regions[parts.chains:], loaders):
        _narrow(region, agent.warps)
    scarce = parts.chains > 1 or context.lend_registers if is_by_engine(parts.loader) else blocks == MOST_BLOCKS
    _replace(func, regions, [warps] * parts.chains, [agent.warps for agent in loaders], blocks, context.target, scarce)
    for pipe in _pipes(func):
        readers = len({agent_of(use.operation) for use in pipe.results[0].uses})
        _count(pipe, loading, warps if parts.chains == 1 or readers == 1 else parts.chains * warps)
    is_asked = context.schedule is not None and bool(context.schedule.stages)
    _deepen(func, [pipe for pipe in pipes if _stages(pipe) == 1], max(blocks, 1), context.target, held, is_asked)


def _divided(func: Operation, pipes: list[Operation]) -> Division:
    """Raises Refusal where what fills the stages can't run ahead of what empties them."""
    chains = chains_of(func)
    own = _of_one_chain(func, pipes) if chains > 1 else []
    loads, computes = [], []
    for op in func.walk():
        if op is func or op.name in CONTROL or op.name in EXITS or op.name == YIELD or op.name in PLACES:
            continue
        if produces(op) and _maker(pipe_at(op)) not in own:
            loads.append(op)
        elif op.name in BOTH or (op.name in CONSUMES and is_told_to_all(op.operands[0])):
            loads.append(op)
            computes.append(op)
        elif op.name == "nv_tileas.fence_async":
            loads.append(op)
        elif not is_pure(op) and not (op.name in LOADS and is_weak(op)):
            computes.append(op)
    shared = [op for op in func.walk() if _is_shared(op)]
    loader = Slice(func, loads, above=shared, keep_tokens=False)
    written, stored = Written(func), stored_by_loads(loads)
    for op in func.walk():
        if op in loader.ops:
            check_load(op, loader, loads, written, stored)
    return Division(chains, own, shared, loads, loader, Slice(func, computes, above=shared, keep_tokens=True))


def _check_streams(func: Operation, loader: Slice, warps: int) -> None:
    """Raises Refusal where warps that compute rather bring tiles by way of registers themselves. What others store they fence,
    which waits for all that they have asked for, too: they never have more than one stage's loads on their way, and blocks of one
    warpgroup do better with more blocks on the SM (tf32, 64x64x32, a measured H100: 188 us with a load agent, 156 without; e4m3,
    64x128x64: 348, 324). Of two warpgroups an SM has one block, whose products go on beside large tiles' loads (e4m3, 128x128x128:
    1744 us, without 2024; unaligned f16: 775, 917); for small ones alone they take too many registers (scales of mxfp4: 1490,
    890). Warps that have more to do than one product's, as attention's, leave loads to others."""
    if sum(op.name in DOTS for op in func.walk()) > 1:
        return
    stores = [op for op in loader.ops if op.name == "nv_tileas.store_shared"]
    nbytes = sum(tile_bytes(op.operands[0].type) for op in stores if isinstance(op.operands[0].type, TensorType))
    if nbytes and (warps == WARPGROUP or nbytes < LARGE_STREAMS):
        raise Refusal(stores[0], "the warps that compute bring what goes through registers themselves")


def _check_instructions(func: Operation, warps: int, target: Any) -> None:
    """Raises Refusal where a warpgroup's instruction needs more registers than a thread of so many warps is launched with."""
    widest = max((dot for dot in func.walk() if wgmma_of(dot) is not None), key=instruction_registers, default=None)
    if widest is not None and instruction_registers(widest) > target.registers_per_sm // (WARP_THREADS * warps):
        raise Refusal(widest, "its instruction needs more registers than as many threads are launched with; use narrower tiles")


def _check_chains(func: Operation, parts: Division, pipes: list[Operation], load_warps: int) -> None:
    """Raises Refusal where there is nothing that the copy engine brings for all chains."""
    if load_warps > 1 or not is_by_engine(parts.loader) or not any(
            _is_filled_in_loop(pipe) for pipe in pipes if pipe not in parts.own):
        raise Refusal(func, "two chains share what the copy engine loads")


def _blocks_of_chains(func: Operation, chains: int, target: Any) -> int:
    """How many blocks an SM is to have: of short rows two have room, two more chains to wait for something else."""
    few = most_registers(func) < MANY_REGISTERS and chains * columns_at_once(func) <= COLUMNS // MOST_BLOCKS
    return MOST_BLOCKS if few and chains * plan_shared_memory(func).size <= shared_budget(target, MOST_BLOCKS) else 1


def _blocks(func: Operation, loader: Slice, warps: list[int], crowded: int, is_narrowed: bool, context: Any) -> int:
    """How many blocks an SM is to have; 0 where registers aren't shared out among agents. `crowded`: registers a thread that sums
    joined in one agent take."""
    target, by_engine = context.target, is_by_engine(loader)
    copies = not by_engine and copies_by_threads(loader)
    if copies and warps[0] == WARPGROUP and is_too_full_for_two(func, WARPGROUP, target):
        return MOST_BLOCKS
    few = copies and warps[1] == 1 and hint(func, "occupancy") is None      # a warp's copies take few registers
    blocks = blocks_in_agents(func, warps, target) if by_engine or few else 0
    if blocks or not (by_engine or (not is_narrowed and not any(is_placed(op, loader) for op in loader.ops))):
        return blocks
    if warps == SHORT_OF_REGISTERS and target.has_setmaxnreg:
        may_lend = not _streams_in_blocks(func)
        context.may_lend |= may_lend
        blocks = int((may_lend and context.lend_registers) or crowded > target.registers_for(sum(warps)))
    if not blocks and warps == [WARPGROUP, 1] and is_too_full_for_two(func, WARPGROUP, target):
        blocks = MOST_BLOCKS
    return blocks


def _streams_in_blocks(func: Operation) -> bool:
    """Whether a kernel that multiplies nothing asks for several blocks an SM: they hide memory's latency, and one of twelve warps
    without a spill is no match for three of nine with some (a row's distances, B200: 198 us beside 147)."""
    return (hint(func, "occupancy") or 1) > 1 and not any(op.name in DOTS for op in func.walk())


def _blocks_held(func: Operation, loader: Slice, warps: int, load_warps: int, context: Any) -> int:
    """How many blocks an SM's registers hold beside warps that copy; 0 where none do, or that isn't known."""
    if context.schedule is not None and context.schedule.stages:
        return 0
    if context.held_blocks:
        return context.held_blocks      # type: ignore[no-any-return]
    if not copies_by_threads(loader):
        return 0
    from tileiras.transforms.gathering_warps import blocks_held

    return blocks_held(func, loader, warps, load_warps, context.target) or int(warps + load_warps >= WARPS_ALONE)


def _narrow(agent: Region, warps: int) -> None:
    """Copies by threads and tiles, what is gathered and all else that it takes, are those of so many warps."""
    for op in agent.walk():
        for v in (*op.results, *(arg for region in op.regions for block in region.blocks for arg in block.args)):
            if isinstance(v.type, TensorType) and layout_of(v).num_warps > warps:
                v._type = with_layout(v.type, of_warps(layout_of(v), warps))
        threads: Any = op.properties.get("threads") if op.name in COPIES_BY_THREADS else None
        if threads is not None and threads.data.num_warps > warps:
            op.properties["threads"] = LayoutAttr.of(of_warps(threads.data, warps))


# --- what may stand in two agents ---------------------------------------------------------------------------------------


def _ordered(func: Operation) -> Operation | None:
    """An access to global memory that another one comes before, by its token; of the two one writes."""
    written, touched = Written(func), Written(func, reads=True)
    meeting = next((op for op in func.walk() if op.name == "nv_tileas.cluster_barrier"), None)
    return meeting or next((op for op in func.walk() if ((effects := effects_of(op)).token_read or effects.token_write) and (
        written.waits_for_one(op) or (effects.token_write and touched.waits_for_one(op)))), None)


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


def _replace(func: Any, regions: list[Region], compute: list[int], loads: list[int], blocks: int, target: Any,
             scarce: bool) -> None:
    """Put the switch in the place of everything behind the shared objects. `compute`, `loads`: warps of each agent that computes,
    and that loads."""
    block: Block = func.regions[0].block
    keep = [op for op in block.ops if _is_shared(op)]
    properties: dict[str, Attribute] = {"warps": int_array((*compute, *loads))}
    parts = [regions[:len(compute)], regions[len(compute):]]
    shares = registers_in_agents([sum(compute), sum(loads)], blocks, parts, target, scarce)
    if shares is not None:
        properties["registers"] = int_array((*[shares[0]] * len(compute), *[shares[1]] * len(loads)))
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


def _deepen(func: Operation, pipes: list[Operation], blocks: int, target: Any, held: int, is_asked: bool) -> None:
    """Give the rings of each loop as many stages as the schedule says, or else as hide the loads, and as shared memory holds: of as
    many blocks as the program asks for, if that leaves a ring (tiles that the copy engine brings once have their buffers beside it
    now, which the schedule didn't know). `held`: the blocks that an SM's registers hold beside warps that copy, 0 where that isn't
    known; nor that. `is_asked`: an option says how many stages."""
    together: dict[tuple[Operation, int], list[Operation]] = {}
    wanted = hint(func, "occupancy") or blocks
    for pipe in pipes:
        wait = next((use.operation for use in pipe.results[0].uses if use.operation.name == CONSUMES[0]), None)
        loop = loop_around(wait) if wait is not None else None
        if loop is not None and wait is not None:
            together.setdefault((loop, len(beside(wait, CONSUMES[0]))), []).append(pipe)     # so many stages an iteration
    lives = SharedLives(func)
    if lives.size > target.most_static_smem:
        raise Refusal(func, "the rings of all its loops, which keep their places, don't fit shared memory")
    for (_, fills), found in together.items():
        if fills > 1:
            _fitting(lives, found, {ring for pipe in found for ring in _rings(pipe.results[0])}, LEAST_IN_TURN,
                     shared_budget(target, blocks))
    for (loop, fills), found in sorted(together.items(), key=lambda item: item[0][1]):      # what is filled in turn gets the rest
        rings = {ring for pipe in found for ring in _rings(pipe.results[0])}
        nbytes = sum(stage_bytes(ring.results[0].type) for ring in rings)       # type: ignore[arg-type]
        copies = [use.operation for pipe in found for use in pipe.results[0].uses if use.operation.name not in CONSUMES]
        copies += [op for at in {op.parent: None for op in copies} if at is not None for op in at.ops if op.name in LOADS]
        other = lives.size - nbytes
        asked = [depth for op in copies if (depth := told(op, DEPTH)) is not None]
        facts = ring_facts(loop, copies, nbytes, target, max(0, other), held or None)
        facts = replace(facts, rather_shares=facts.rather_shares or held > 1)
        unasked = replace(facts, asked=None)
        if not asked or held:
            stages = ring_depth(unasked, target).stages
        else:
            stages = max(asked)
            if not is_asked and not facts.few_rows and \
                    few_rows_of(loop, [op for op in loop.walk() if op.name in LOADS or op in copies]):
                stages = min(stages, ring_depth(unasked, target).stages)    # threads bring some, it turns out
        room = max(1, blocks_of(lives.size, target))
        while stages < LEAST_STAGES and not is_asked and 0 < room < facts.occupancy:    # other buffers keep so many blocks out
            stages = ring_depth(replace(unasked, occupancy=room), target).stages
            room -= 1
        stages = max(stages, fills) if fills > 1 else stages        # products that read them stand close together
        stages = _fitting(lives, found, rings, stages, shared_budget(target, blocks))
        if stages < LEAST_LENT and not is_asked and facts.latency is None:
            lent, scores = _lent(loop)
            if any(pipe.results[0] in lent for pipe in found) and (
                    min(facts.blocks, blocks_of(lives.size, target)) == 1 or
                    (stages < LEAST_STAGES and scores > 1 and hint(func, "occupancy") is None)):
                stages = _fitting(lives, found, rings, LEAST_LENT, shared_budget(target))
        if not facts.has_product or (facts.latency is None and not is_asked):
            most = MOST_BLOCKS_OF_FEW if facts.has_product else MOST_BLOCKS_OF_STREAMS
            _leave_room(lives, found, rings, stages, min(facts.blocks, most), target)
        if wanted > blocks and stages > LEAST_STAGES and \
                _fitting(lives, found, rings, stages, shared_budget(target, wanted) + SHARED_KEPT_BACK) < LEAST_STAGES:
            _set_stages(lives, found, rings, stages)


def _lent(loop: Any) -> tuple[set[SSAValue], int]:
    """The pipes of stages that are read by products into tensor memory on whose results threads work, and again by those that add
    to sums, as the keys are in attention's gradient of queries; how many of the former kind a loop has. None where these have
    fewer rows than there are lanes: they don't run ahead (`advance-dots`)."""
    body = loop.regions[0].block
    dots: list[Any] = [op for op in body.ops if op.name in DOTS and umma_of(op) is not None]
    scores = [op for op in dots if op.results[0] not in body.last_op.operands]
    if any(op.results[0].type.get_shape()[-2] < LANES for op in scores):
        return set(), 0

    def read(by: Iterable[Any]) -> set[SSAValue]:
        return {pipe for op in by for v in op.operands[:2] if (pipe := pipe_of(v)) is not None}
    return read(scores) & read(op for op in dots if op not in scores), len(scores)


def _fitting(lives: SharedLives, pipes: list[Operation], rings: Iterable[Operation], stages: int, budget: int) -> int:
    """Set the stages, so many at most, with which a function's buffers take no more than a budget."""
    while True:
        _set_stages(lives, pipes, rings, stages)
        if stages <= 1 or lives.size <= budget:
            return stages
        stages -= 1


def _leave_room(lives: SharedLives, pipes: list[Operation], rings: Iterable[Operation], stages: int, most: int,
                target: Any) -> None:
    """Take stages off a long ring if that leaves room for one block more on an SM, of `most` at most: barriers and other buffers
    take more beside it than its depth was reckoned with."""
    fit = blocks_of(lives.size, target)
    if fit >= most:
        return
    for fewer in range(stages - 1, max(stages - FEWER, LONG_RING) - 1, -1):
        _set_stages(lives, pipes, rings, fewer)
        if blocks_of(lives.size, target) > fit:
            return
    _set_stages(lives, pipes, rings, stages)


def _rings(pipe: SSAValue) -> list[Operation]:
    """The rings whose stages a pipe numbers."""
    numbers = [r for use in pipe.uses for r in use.operation.results]
    slices = [use.operation for n in numbers for use in n.uses if use.operation.name == "nv_tileas.extract_slice"]
    return list(dict.fromkeys(op.operands[0].owner for op in slices))      # type: ignore[misc]


def _set_stages(lives: SharedLives, pipes: list[Operation], rings: Iterable[Operation], stages: int) -> None:
    for op in (*pipes, *rings):
        t: Any = op.results[0].type
        op.results[0]._type = PipeType(t.kind, IntAttr(stages)) if isinstance(t, PipeType) else RingType(t.buffer, IntAttr(stages))
    lives.update((*pipes, *rings))


def _count(pipe: Operation, loading: int, computing: int) -> None:
    """Who arrives at a pipe's barriers."""
    kind = kind_of(pipe.results[0])
    if kind == "cp_async":
        pipe.properties["producers"] = IntAttr(WARP_THREADS * loading)
    elif kind == "mbarrier":
        pipe.properties["producers"] = IntAttr(computing if is_drawn(pipe.results[0]) else loading)
    pipe.properties["consumers"] = IntAttr(computing + (loading if is_told_to_all(pipe.results[0]) else 0))
