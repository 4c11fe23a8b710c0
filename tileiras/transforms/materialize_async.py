"""`materialize-async`: what a loop loads for its buffers goes straight to a ring of them, whose stages a pipe hands on.

    scf.for ... {                                  %ring = alloc_tensor : ring<..., 3> ; %pipe = create_pipeline : pipe<group, 3>
      %x = tiled_load %v[%i]                       scf.for ... {
      %b = alloc_tensor                              %p = producer_acquire %pipe ; %to = extract_slice %ring[%p]
      store_shared %x, %b                            tiled_copy %v[%i] -> %to, %pipe[%p] ; producer_commit %pipe
      ... dot %b ...                        ->       %c = consumer_wait %pipe {pending = 0} ; barrier
    }                                                %b = extract_slice %ring[%c]
                                                     ... dot %b ...
                                                     consumer_release %pipe
                                                   }
                                                   barrier

All loads of a loop's body that go to a buffer and nowhere else fill one stage together, at the head of the body; what their
addresses are computed from moves there. Behind the loop all threads have read: the ring's place, and in an outer loop the ring
itself, may be written again. The loop is still serial: `unspecialized-pipeline` lets the copies run ahead. As many
stages as `generate-schedule` says; a loop stays as it was where that is one, and where it can be left early.

What only products into tensor memory read is copied by other warps (`materialize-schedule`), so that no barrier of theirs stands
between the products: the pipe counts the copies' arrivals (`cp_async`), and the ring has one stage until then. So are tiles that
products by warpgroups read, where pointers or indices gather one of them, and what products by warps read beside what the copy
engine brings: scales, and tiles that pointers or indices gather.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import IntAttr, StringAttr, i32
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.access import sure_runs_of
from tileiras.analysis.agents import WARP_THREADS, WARPGROUP
from tileiras.analysis.ahead import (
    address_of,
    carries_tensors,
    is_cheap_and_pure,
    places_are_tiles,
    runs_ahead,
    slice_of,
    tokens_before,
)
from tileiras.analysis.async_copies import READERS, ThreadCopy, as_source, renames_of, thread_copy, why_not
from tileiras.analysis.program_slice import function_of
from tileiras.analysis.shared_lives import SharedLives
from tileiras.analysis.shared_memory import ALIGNMENT, stage_bytes
from tileiras.analysis.tensor_dots import described_of, umma_of
from tileiras.analysis.warpgroup_dots import wgmma_of
from tileiras.dialects import arith, nv_tileaa, nv_tileas
from tileiras.dialects.element import tile_bytes
from tileiras.dialects.nv_tileas import LOADS, LOOPS, BufferType, LayoutAttr, PipeType, RingType, SharedLayoutAttr
from tileiras.remarks import MEMORY, MISSED, PASSED, remark, tile_text
from tileiras.schedule.names import DEPTH, LEAST_STAGES, told
from tileiras.transforms.iterations import WIDE
from tileiras.transforms.rules import int_constant
from tileiras.transforms.structure import holder_in, only_store

LEAST_CHUNKS = 2
"""Of a thread of one warpgroup, for a stage: each lane's arrival at a barrier takes a pass through shared memory, and a warp's
chunk takes four (a convolution with two a thread, a measured H100: 116 us, by way of a load agent's registers 135, of the other
warps' 127). Where more warps compute, fewer gather (`gathering_warps.py`)."""
LOOKED_UP = "its address depends on what the loop loads or computes"
BY_OTHERS = "only warps that do nothing else could copy it, and not all products of the loop let them"
BY_REGISTERS = "a load agent brings several iterations' tiles at once, by way of registers"
WAYS = frozenset({"nv_tileas.block_tile", "nv_tileas.make_memref", "nv_tileas.assume", "nv_tileas.addptr",
                  "nv_tileas.ptr_to_ptr"})
"""What leads from memory that a pointer names to a view of it, by the first operand."""


@dataclass(frozen=True)
class Move:
    """A load that only feeds a buffer, by way of `renames` (last first): its ops, how threads copy it there, and the buffer by the
    load's names of the elements. `looked_up`: whether the loop loads where the tile lies."""

    load: Operation
    renames: list[Operation]
    store: Operation
    alloc: Operation
    copy: ThreadCopy
    buffer: BufferType
    looked_up: bool = False


@dataclass(frozen=True)
class Refusal:
    """A load that feeds a buffer and stays as it is, and why."""

    load: Operation
    reason: str


def run(module: Operation, context: Any) -> None:
    """Make the rings, in place."""
    if not context.target.has_cp_async or not context.uses("pipelines"):
        return
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            lives = SharedLives(func)
            own = any(op.name == "nv_tileas.alloca" and "global" not in op.properties for op in func.walk())
            for loop in [op for op in func.walk() if runs_ahead(op)]:
                _loop(func, loop, context, lives, own)
            if context.remarks is not None:
                _report_others(func, context.remarks)


def _loop(func: Operation, loop: Operation, context: Any, lives: SharedLives, own: bool) -> None:
    """One loop. `own`: whether the kernel has memory of its own in shared memory."""
    num_warps: Any = func.properties["num_warps"]
    beside_engine = context.uses("agents") and _is_beside_engine(loop)
    found = [move for op in loop.regions[0].block.ops
             if (move := _move(loop, op, num_warps.data, not own, beside_engine, context.uses("agents"))) is not None]
    if own:
        found = [move if isinstance(move, Refusal) or _is_of_parameters(func, move.load) else
                 Refusal(move.load, "it may read what the kernel allocates, in shared memory; copies read global memory")
                 for move in found]
    moves = [move for move in found if isinstance(move, Move)]
    refused = [move for move in found if isinstance(move, Refusal)]
    stages = 0
    by_agents = bool(moves) and (beside_engine or (context.uses("agents") and _are_for_agents(loop, moves, num_warps.data)))
    if not by_agents:
        refused += [Refusal(move.load, BY_OTHERS) for move in moves if _is_for_others(move)]
        moves = [move for move in moves if not _is_for_others(move)]
    if by_agents:
        moves, joined = _of_one_iteration(func, loop, moves, context)
        refused += [Refusal(move.load, BY_REGISTERS) for move in joined]
        moves, large = _that_fit(moves, lives, context.target)
        refused += [Refusal(move.load, f"shared memory has no room for its {stage_bytes(_ring(move, 1))} bytes; use smaller tiles")
                    for move in large]
        if context.remarks is not None:
            for refusal in refused:
                _report(func, refusal, context.remarks)
        if moves:
            lives.update(_materialize(loop, moves, 1, num_warps.data))
        return
    if moves:
        from tileiras.schedule.depth import ring_depth, ring_facts, shared_budget  # few kernels need the machine's tables

        bytes_a_stage = sum(stage_bytes(_ring(move, 1)) for move in moves)
        beside = lives.beside(loop, [move.alloc for move in moves])
        stages = _told_depth(moves) or ring_depth(
            ring_facts(loop, [move.load for move in moves], bytes_a_stage, context.target, beside), context.target).stages
        while stages >= LEAST_STAGES and beside + stages * bytes_a_stage > shared_budget(context.target):
            stages -= 1
        if stages < LEAST_STAGES:
            refused += [Refusal(move.load, f"shared memory has no room for two stages of {bytes_a_stage} bytes; use smaller tiles")
                        for move in moves]
        elif context.remarks is not None:
            notes: dict[str, str | int] = {"Loads": len(moves), "Stages": stages, "StageBytes": bytes_a_stage,
                                           "Instruction": ", ".join(dict.fromkeys(move.copy.atom for move in moves))}
            text = f"Loads run {stages - 1} iteration{'s' if stages > LEAST_STAGES else ''} ahead"
            context.remarks.append(remark(func, loop, PASSED, MEMORY, "LoopLoadsAhead", text, notes))
            from tileiras.transforms.hint_remarks import apply_latency
            for move in moves:
                if told(move.load, DEPTH) != stages:
                    apply_latency(func, move.load, stages, "its loads share a ring, as deep as fits", context.remarks)
    if context.remarks is not None:
        for refusal in refused:
            _report(func, refusal, context.remarks)
    if stages >= LEAST_STAGES:
        lives.update(_materialize(loop, moves, stages))


def _is_beside_engine(loop: Operation) -> bool:
    """Whether the copy engine brings what block-scaled products of a loop multiply that warps compute."""
    ops = list(loop.regions[0].block.ops)
    return any(op.name == "nv_tileas.dot_scaled" and umma_of(op) is None for op in ops) and \
        any(op.name == "nv_tileas.tma_load" for op in ops)


def _are_for_agents(loop: Operation, moves: list[Move], num_warps: int) -> bool:
    """Whether other warps are to copy: for products into tensor memory, and what pointers or indices gather for those of
    warpgroups, if it is looked up or each thread of one has enough of it."""
    readers = [op for move in moves for op in _readers(move)]
    if all(umma_of(op) is not None for op in readers):
        return True
    if _are_gathered_beside_engine(loop, moves, readers) or _are_read_beside_products(loop, readers):
        return True
    chunks = [stage_bytes(_ring(move, 1)) // move.copy.chunk for move in moves]
    return any(map(_is_gathered_for_warpgroups, moves)) and all(wgmma_of(op) is not None for op in readers) and (
        any(move.looked_up for move in moves) or sum(chunks) >= LEAST_CHUNKS * WARP_THREADS * min(num_warps, WARPGROUP))


def _are_gathered_beside_engine(loop: Operation, moves: list[Move], readers: list[Operation]) -> bool:
    """Whether pointers or indices say where all tiles lie that products by warps read, but for those that the copy engine brings:
    the load agent that tells it is there anyway, runs ahead through the loops around, and spares the products a barrier."""
    return all(places_are_tiles(move.load) and not move.looked_up for move in moves) and \
        all(op.name == "nv_tileas.dot" and wgmma_of(op) is None and umma_of(op) is None for op in readers) and \
        any(op.name == "nv_tileas.tma_load" for op in loop.regions[0].block.ops)


def _are_read_beside_products(loop: Operation, readers: list[Operation]) -> bool:
    """Whether threads read all of it to registers, or products do into tensor memory, where products run by themselves that the
    copy engine brings operands of: the load agent is there anyway."""
    ops = list(loop.regions[0].block.ops)
    return all(op.name == "nv_tileas.load_shared" or umma_of(op) is not None for op in readers) and \
        any(described_of(op) is not None for op in ops) and any(op.name == "nv_tileas.tma_load" for op in ops)


def _is_for_others(move: Move) -> bool:
    """Whether only warps that do nothing else are to copy a tile."""
    return move.looked_up or _is_gathered_for_warpgroups(move)


def _is_gathered_for_warpgroups(move: Move) -> bool:
    """Whether pointers or indices say where a tile lies that wgmma reads: the threads that multiply don't gather beside that."""
    return places_are_tiles(move.load) and any(wgmma_of(op) is not None for op in _readers(move))


def _of_one_iteration(func: Operation, loop: Operation, moves: list[Move], context: Any) -> tuple[list[Move], list[Move]]:
    """The moves, and those whose rows of several iterations a load agent asks for at once (`unroll-streams`), since each takes a
    line of memory to itself."""
    if not any("stretch" in move.load.properties for move in moves) or context.opt_level < 3 or not context.prefetch or \
            "cluster" in func.properties or context.in_turn:
        return moves, []
    from tileiras.analysis.few_loaders import MOST_BYTES  # few kernels have such tiles
    from tileiras.transforms.following_tiles import tiles_at_once
    from tileiras.transforms.register_streams import is_streamed

    joined = [move for move in moves if tiles_at_once(loop, move.load) > 1 and is_streamed(loop, move.store) and
              all(umma_of(op) is not None for op in _readers(move))]
    streamed = [op for op in loop.regions[0].block.ops if is_streamed(loop, op) and all(op is not move.store for move in moves)]
    nbytes = sum(tile_bytes(op.operands[0].type) for op in (*streamed, *(move.store for move in joined)))
    if not joined or nbytes > MOST_BYTES:
        return moves, []
    return [move for move in moves if move not in joined], joined


def _that_fit(moves: list[Move], lives: SharedLives, target: Any) -> tuple[list[Move], list[Move]]:
    """The moves for whose tiles shared memory has places that they share with nothing else, smallest first, and the others."""
    kept = sorted(moves, key=lambda move: stage_bytes(_ring(move, 1)))
    while kept and lives.size_without(move.alloc for move in kept) + sum(stage_bytes(_ring(move, 1)) for move in kept) > \
            target.most_static_smem - ALIGNMENT:
        kept.pop()
    return [move for move in moves if move in kept], [move for move in moves if move not in kept]


def _is_of_parameters(func: Operation, load: Any) -> bool:
    """Whether a view's memory begins where a parameter of the kernel says."""
    at: SSAValue = load.operands[0]
    while isinstance(at.owner, Operation) and at.owner.name in WAYS:
        at = at.owner.operands[0]
    return at.owner is func.regions[0].block


def _readers(move: Move) -> list[Operation]:
    """Who reads the buffer that a tile is moved to."""
    return [use.operation for use in move.alloc.results[0].uses if use.operation is not move.store]


def _report(func: Operation, refusal: Refusal, remarks: list[Any]) -> None:
    from tileiras.transforms.hint_remarks import ignore_latency
    ignore_latency(func, refusal.load, refusal.reason, remarks, instead=True)
    tile: Any = refusal.load.results[0].type
    remarks.append(remark(func, refusal.load, MISSED, MEMORY, "LoopLoadNotAhead",
                          f"Load of {tile_text(tile)} isn't made ahead of its iteration", reasons=[refusal.reason]))


def _report_others(func: Operation, remarks: list[Any]) -> None:
    """Loads for buffers in loops that can't run ahead."""
    for loop in func.walk():
        if loop.name not in LOOPS or runs_ahead(loop):
            continue
        loads = [op.operands[0].owner for op in loop.regions[0].block.ops if isinstance(op, nv_tileas.StoreShared)]
        reason = "the loop has another one inside" if any(op is not loop and op.name in LOOPS for op in loop.walk()) else \
            "the loop can be left early, or goes on for as long as a condition holds; count its iterations"
        for load in loads:
            if isinstance(load, nv_tileas.TiledLoad):
                _report(func, Refusal(load, reason), remarks)


def _told_depth(moves: list[Move]) -> int:
    """The stages that `generate-schedule` has written on the loads, 0 where it has looked at none of them."""
    return max(told(move.load, DEPTH) or 0 for move in moves)


def _ring(move: Move, stages: int) -> RingType:
    t: Any = move.alloc.results[0].type
    return RingType(t, IntAttr(stages))


def _move(loop: Operation, store: Operation, num_warps: int, gathers: bool, few: bool, agents: bool) -> Move | Refusal | None:
    """The move that ends in this store of the loop's body, or why a load stays where it is; None where no load of a tile ends
    there. `gathers`: whether what is copied may lie wherever pointers, or an index for each row, lead. `few`: whether there may be
    fewer chunks than threads. `agents`: whether other warps may copy, that look up in the loop where a tile lies."""
    body = loop.regions[0].block
    if not isinstance(store, nv_tileas.StoreShared) or any(name in store.properties for name in ("rounds", "owners")):
        return None
    renames = renames_of(store.operands[0])
    tile = renames[-1].operands[0] if renames else store.operands[0]
    load, alloc = tile.owner, store.operands[1].owner
    if not isinstance(load, (nv_tileas.TiledLoad, nv_tileas.Load)) or load.parent is not body or \
            not isinstance(alloc, nv_tileas.AllocTensor):
        return None
    t: Any = alloc.results[0].type
    if only_store(alloc) is not store or alloc.parent is not body or not isinstance(t, BufferType) or \
            any(use.operation is not store and use.operation.name not in READERS for use in alloc.results[0].uses):
        return None
    reason, looked_up = obstacle(loop, load, tile), False
    if reason == LOOKED_UP and agents and gathers and all(
            wgmma_of(use.operation) or umma_of(use.operation) for use in alloc.results[0].uses if use.operation is not store):
        reason, looked_up = obstacle(loop, load, tile, _may_look_up(loop)), True
    if reason or "slice" in store.properties:
        return Refusal(load, reason or "the tile goes through shared memory in parts; use a smaller one")
    if places_are_tiles(load) and not gathers:
        return Refusal(load, "its places are a tile")
    buffer = BufferType(t.element_type, SharedLayoutAttr(as_source(t.layout.data, renames)))
    copy = thread_copy(load, buffer, num_warps, few=few)
    return Refusal(load, why_not(load)) if copy is None else Move(load, renames, store, alloc, copy, buffer, looked_up)


def _may_look_up(loop: Operation) -> Callable[[Operation], bool]:
    """What may say where a tile lies if other warps copy it: also loads that wait for nothing that the loop writes."""
    def moves(op: Any) -> bool:
        if op.name not in LOADS:
            return is_cheap_and_pure(op)
        return "owners" not in op.properties and op.mem_semantic.data == "weak" and tokens_before(loop, op.token) is not None
    return moves


def obstacle(loop: Operation, load: Any, tile: SSAValue | None = None,
             moves: Callable[[Operation], bool] = is_cheap_and_pure) -> str:
    """What keeps a load in its iteration, as far as the loop is concerned; "" if nothing does. `tile`: what goes to the buffer and
    may go nowhere else, where there is a buffer already. `moves`: which ops may be run ahead with it."""
    if "owners" in load.properties or load.mem_semantic.data != "weak":
        return "it is ordered: only weak loads may be made earlier"
    if tile is not None and not tile.has_one_use():
        return "the tile is used in registers, too"
    if tokens_before(loop, load.token) is None:
        return "it waits for what the loop stores; give loads and stores of different arrays tokens of their own"
    found = slice_of(loop, address_of(load), moves)
    if found.obstacle is not None or carries_tensors(loop, found):
        return LOOKED_UP
    if not is_short_of_overflow(loop):
        return "how far the loop's counter moves in a few iterations may not fit its 64 bits; count in 32, or by a constant"
    return ""


def is_short_of_overflow(loop: Operation) -> bool:
    """Whether some iterations' steps fit 64 bits: those of narrower counters do, known ones that are small, and what was
    narrower (steps are above 0)."""
    step = loop.operands[2]
    counter: Any = step.type
    known = int_constant(step)
    if known is not None:
        return 0 < known < 1 << WIDE // 2
    if isinstance(step.owner, arith.Extsi | arith.Extui):
        counter = step.owner.operands[0].type
        return counter.width.data <= WIDE // 2
    return counter.width.data < WIDE


def _materialize(loop: Operation, moves: list[Move], stages: int, counted: int = 0) -> list[Any]:
    """Make the ring; what needs shared memory or did. counted: warps whose copies' arrivals its pipe counts (0: whoever copied
    waits for groups)."""
    outside, body = loop.parent, loop.regions[0].block
    assert outside is not None and body.first_op is not None and body.last_op is not None
    where = loop.location

    def before_loop(op: Any) -> SSAValue:
        op.location = where
        outside.insert_op_before(op, loop)
        return op.results[0]
    rings = [before_loop(nv_tileas.AllocTensor.make([], [_ring(move, stages)])) for move in moves]
    kind = PipeType(StringAttr("cp_async" if counted else "group"), IntAttr(stages))
    made = nv_tileas.CreatePipeline.make([], [kind], {
        "producers": IntAttr(WARP_THREADS * counted), "consumers": IntAttr(counted)} if counted else {})
    pipe = before_loop(made)
    if counted:
        _hoist(made)
    addresses = slice_of(loop, [v for move in moves for v in address_of(move.load)],
                         _may_look_up(loop) if counted else is_cheap_and_pure, len(moves)).roots
    head = next(op for op in body.ops if op not in set(addresses))
    for op in addresses:
        if op.name in LOADS and (waited := op.token) is not None:   # type: ignore[attr-defined]
            token = _token_before(loop, op, before_loop) or \
                before_loop(nv_tileas.CreateMemToken.make([], [nv_tileaa.MemTokenType()]))
            op.operands = [token if v is waited else v for v in op.operands]
        op.detach()
        body.insert_op_before(op, head)

    def at_head(op: Any, location: Any = where) -> Any:
        op.location = location
        body.insert_op_before(op, head)
        return op
    filled = at_head(nv_tileas.ProducerAcquire.make([pipe], [i32])).results[0]
    for move, ring in zip(moves, rings):
        load: Any = move.load
        slot = at_head(nv_tileas.ExtractSlice.make([ring, filled], [move.buffer])).results[0]
        kept = {name: value for name in ("inbounds", "latency", "check", "runs", "contiguous", "filled")
                if (value := load.properties.get(name)) is not None}
        if "narrow" in load.properties:
            kept["runs"] = nv_tileaa.int_array(sure_runs_of(load))
        token = _token_before(loop, load, before_loop)
        kept |= {"atom": StringAttr(move.copy.atom), "threads": LayoutAttr.of(move.copy.threads)}
        copy = at_head(nv_tileas.TiledCopy.make([load.view, load.coords, slot, pipe, filled, None, token], [], kept)
                       if isinstance(load, nv_tileas.TiledLoad) else
                       nv_tileas.AsyncCopy.make([load.ptr, load.mask, slot, pipe, filled, None, token], [], kept), load.location)
        if counted:
            copy.attributes.update(load.attributes)     # what the schedule says of the load
    at_head(nv_tileas.ProducerCommit.make([pipe]))
    if counted:
        head = min((op for move in moves for op in _readers(move)), key=body.get_operation_index)
    read = at_head(nv_tileas.ConsumerWait.make([pipe, []], [i32], {} if counted else {"pending": IntAttr(0)})).results[0]
    if not counted:
        at_head(nv_tileas.Barrier.make())
    slots = [at_head(nv_tileas.ExtractSlice.make([ring, read], [move.alloc.results[0].type])).results[0]
             for move, ring in zip(moves, rings)]
    for move, slot in zip(moves, slots):
        move.store.detach()
        move.store.erase()
        move.alloc.results[0].replace_all_uses_with(slot)
        for op in (move.alloc, *move.renames):
            op.detach()
            op.erase()
        _drop_load(move.load)
    release, barrier = nv_tileas.ConsumerRelease.make([pipe]), nv_tileas.Barrier.make()
    release.location = barrier.location = where
    body.insert_op_before(release, body.last_op)
    if not counted:
        outside.insert_op_after(barrier, loop)
    return [pipe.owner, *(ring.owner for ring in rings), *(move.alloc for move in moves)]


def _token_before(loop: Operation, load: Any, before_loop: Callable[[Any], SSAValue]) -> SSAValue | None:
    """What a load that is made earlier waits for: what stood before the loop."""
    tokens = tokens_before(loop, load.token) or []
    return before_loop(nv_tileas.JoinMemToken.make([tokens], [nv_tileaa.MemTokenType()])) if len(tokens) > 1 else \
        next(iter(tokens), None)


def _hoist(pipe: Operation) -> None:
    """Barriers are set up once, whatever loops stand around."""
    block = function_of(pipe).regions[0].block
    outer = holder_in(block, pipe)
    if outer is not pipe:
        pipe.detach()
        block.insert_op_before(pipe, outer)


def _drop_load(load: Any) -> None:
    """What waited for the load waits for what the load waited for: the wait at the body's head has seen to the read."""
    token = load.results[1]
    if token.first_use is not None:
        before = load.token
        if before is None:
            fresh = nv_tileas.CreateMemToken.create(result_types=(nv_tileaa.MemTokenType(),), location=load.location)
            load.parent.insert_op_before(fresh, load)
            before = fresh.results[0]
        token.replace_all_uses_with(before)
    load.detach()
    load.erase()
