"""`stage-tiles`: tiles that the copy engine is to move between memory and registers go by way of buffers.

    %x = tiled_load %v[%i] {engine}            %x = tiled_load %v[%i] {engine}
    %y = tiled_load %w[%i] {engine}            %y = tiled_load %w[%i] {engine}
    ... %x ...                                 %b = alloc_tensor ; store_shared %x, %b       as boxes lie
    ... %y ...                          ->     %x2 = load_shared %b
                                               ... %x2 ...
    tiled_store %z, %u[%i] {engine}            %c = alloc_tensor ; store_shared %z, %c
                                               tiled_store (load_shared %c), %u[%i]

Padding that the engine doesn't bring is put in behind the load from the buffer (`fill_outside`).
`assign-load-store-layouts` has decided which; `lower-tma-load-store-to-async` then takes the threads' part away. A block's loads
move up to the first of them, where what their addresses are computed from allows it, so that all are on their way together; what
they bring is read where it is first wanted. A tile for which shared memory has no room stays in registers.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import TensorType, UnitAttr
from xdsl.ir import Block, Operation, SSAValue

from tileiras.analysis.entry_hints import hint
from tileiras.analysis.layout_rules import DOTS, unmoved
from tileiras.analysis.shared_lives import SharedLives
from tileiras.analysis.shared_memory import buffer_bytes
from tileiras.dialects import nv_tileas
from tileiras.dialects.element import tile_bytes
from tileiras.dialects.nv_tileas import EXITS, LOOPS, BufferType, SharedLayoutAttr, layout_of
from tileiras.schedule.names import LEAST_STAGES
from tileiras.transforms.structure import holder_in, is_movable, needed_of, only_store

LOAD = "nv_tileas.tiled_load"
ENGINE = "engine"
MAX_MOVED = 64
"""Ops that move up with a load, at most."""


def run(module: Operation, context: Any) -> None:
    """Put the tiles into buffers, in place."""
    for func in module.regions[0].block.ops:
        if func.name != "nv_tileas.func":
            continue
        if context.target.has_tma and context.uses("tma") and context.uses("pipelines"):
            _choose_small(func)
        chosen = [op for op in func.walk() if ENGINE in op.properties]
        if chosen:
            _function(func, chosen, context.target)


def _choose_small(func: Operation) -> None:
    """Beside products that run by themselves, let the engine bring the small tiles that can't be loaded an iteration ahead to
    registers (`prefetch-to-registers`): each iteration would wait as long as memory takes. And where threads multiply what the
    engine brings without tensor cores: an iteration of so little isn't as long as memory takes, and there is a wait anyway (a
    recurrence of rank-1 updates of 64x64 in f32, B200: 285 us with the queries an iteration ahead, 174 with them in the ring)."""
    if not any(op.name in DOTS for op in func.walk()):
        return
    from tileiras.analysis.ahead import runs_ahead
    from tileiras.analysis.tma_choice import LEAST_BESIDE, may_come
    from tileiras.transforms.prefetch_to_registers import runs_by_itself, tiles_loaded, uses_at_once
    for loop in func.walk():
        if not runs_ahead(loop):
            continue
        ops = list(loop.regions[0].block.ops)
        tiles = [op for op in tiles_loaded(ops) if ENGINE not in op.properties]
        loads = [op for op in tiles if not _has_a_buffer(op.results[0])]
        if not loads:
            continue
        dots = [op for op in ops if op.name in DOTS]
        by_threads = dots and all("atom" not in op.properties for op in dots) and any(
            op.name == LOAD and op not in loads for op in tiles)
        if by_threads or (any(map(runs_by_itself, ops)) and uses_at_once(loop, loads) is None):
            for op in loads:
                if op.name == LOAD and tile_bytes(op.results[0].type) < LEAST_BESIDE and may_come(op):
                    op.properties[ENGINE] = UnitAttr()


def _has_a_buffer(tile: SSAValue) -> bool:
    """Whether a tile is only stored to buffers, or to one that a product reads, as the engine can bring it."""
    from tileiras.analysis.tma import is_brought
    from tileiras.schedule.graph import goes_to_buffers
    pending = [tile]
    while pending:
        for use in pending.pop().uses:
            op = use.operation
            if op.name == "nv_tileas.store_shared" and any(reader.operation.name in DOTS for reader in op.operands[1].uses):
                return True
            if is_brought(op):
                pending.append(op.results[0])
    return goes_to_buffers(tile)


def _function(func: Operation, chosen: list[Operation], target: Any) -> None:
    from tileiras.analysis.axis import AxisAnalysis
    from tileiras.analysis.tma import MapFacts, map_facts
    from tileiras.analysis.tma_choice import offer
    from tileiras.transforms.tma_stores import lower_in_pieces

    axis = AxisAnalysis(func)
    lives = SharedLives(func)
    last: dict[Block | None, Operation] = {}
    for op in chosen:
        facts = map_facts(op, axis, filled=True)
        tile = op.results[0] if op.name == LOAD else op.operands[0]
        if not isinstance(facts, MapFacts) or tile.first_use is None or "owners" in op.properties:
            del op.properties[ENGINE]
            continue
        layout = offer(op, facts, layout_of(tile)).facts.tile.layout
        t: Any = tile.type
        buffer = BufferType(t.element_type, SharedLayoutAttr(layout))
        staged = _stage_load(op, buffer) if op.name == LOAD else _stage_store(op, buffer)
        lives.update(staged)
        if lives.size > target.most_static_smem or (op.name == LOAD and _keeps_a_block_out(func, op, target)):
            if op.name == LOAD or not lower_in_pieces(op, axis, target, lives):
                unstage(op, staged)
                lives.update(staged)
        elif op.name == LOAD:
            if op.parent in last:
                _move_up(op, last[op.parent])
            last[op.parent] = op


def _keeps_a_block_out(func: Operation, load: Operation, target: Any) -> bool:
    """Whether a tile's buffer in front of a loop with products leaves no room for as many blocks as the program asks for, with the
    loop's rings: what the copy engine brings once lives beside them, since the load agent runs ahead. What threads write lies where
    that was, but for what they write while they read it."""
    blocks = hint(func, "occupancy") or 1
    if blocks == 1:
        return False
    from tileiras.schedule.depth import shared_budget  # few kernels need the machine's tables

    loop = next((op for op in func.walk() if op.name in LOOPS and any(inner.name in DOTS for inner in op.walk())), None)
    if loop is None or loop.parent is not load.parent or not load.is_before_in_block(loop):
        return False
    allocs = [op for op in func.walk() if isinstance(op, nv_tileas.AllocTensor)]
    in_front = [op for op in allocs if op.parent is loop.parent and op.is_before_in_block(loop)]
    once = sum(buffer_bytes(op.results[0].type) for op in in_front if _is_loaded(op))
    ringed = sum(buffer_bytes(op.results[0].type) for op in allocs if op.parent_op() is loop and _is_loaded(op))
    other = max((buffer_bytes(op.results[0].type) for op in in_front if not _is_loaded(op)), default=0)
    return once + LEAST_STAGES * ringed + other > shared_budget(target, blocks)


def _is_loaded(alloc: Operation) -> bool:
    """Whether a buffer is to hold a tile as memory has it, so that a ring may be made of it."""
    store = only_store(alloc)
    v = store.operands[0] if store is not None else None
    maker = unmoved(v).owner if v is not None else None
    return isinstance(maker, Operation) and maker.name == LOAD


def _stage_load(load: Operation, buffer: BufferType) -> list[Operation]:
    block = load.parent
    assert block is not None
    tile = load.results[0]
    users = {holder_in(block, use.operation) for use in tile.uses}
    alloc = nv_tileas.AllocTensor.make([], [buffer])
    store = nv_tileas.StoreShared.make([tile, alloc.results[0], None], [])
    again = nv_tileas.LoadShared.make([alloc.results[0], None, None], [tile.type])
    first = load.next_op
    while first not in users:
        assert first is not None
        first = first.next_op
    for use in list(tile.uses):
        if use.operation is not store:
            use.operation.operands[use.index] = again.results[0]
    following = load.next_op
    assert following is not None and first is not None
    for op, where in ((alloc, following), (store, following), (again, first)):
        op.location = load.location
        block.insert_op_before(op, where)
    fill(load, again, by_engine=True)
    return [alloc, store, again]


def fill(load: Any, again: Operation, by_engine: bool) -> None:
    """Where copies don't bring a load's padding, it is put into what is read from the buffer."""
    from tileiras.analysis.tma import needs_fill
    if not needs_fill(load, by_engine):
        return
    load.properties["filled"] = UnitAttr()
    tile = again.results[0]
    users = list(tile.uses)
    filled = nv_tileas.FillOutside.make([tile, load.view, load.coords], [tile.type], {
        name: load.properties.get(name) for name in ("check", "outside")})
    filled.location = load.location
    assert again.parent is not None
    again.parent.insert_op_after(filled, again)
    for use in users:
        use.operation.operands[use.index] = filled.results[0]


def _stage_store(access: Operation, buffer: BufferType) -> list[Operation]:
    block = access.parent
    assert block is not None
    tile = access.operands[0]
    alloc = nv_tileas.AllocTensor.make([], [buffer])
    store = nv_tileas.StoreShared.make([tile, alloc.results[0], None], [])
    again = nv_tileas.LoadShared.make([alloc.results[0], None, None], [tile.type])
    for op in (alloc, store, again):
        op.location = access.location
        block.insert_op_before(op, access)
    access.operands[0] = again.results[0]
    return [alloc, store, again]


def unstage(access: Operation, staged: list[Operation]) -> None:
    """The tile goes by registers after all. `staged`: the buffer, the store to it, the load from it."""
    alloc, store, again = staged
    del access.properties[ENGINE]
    if "filled" in access.properties:
        del access.properties["filled"]
        filled = next(use.operation for use in again.results[0].uses)
        filled.results[0].replace_all_uses_with(again.results[0])
        filled.detach()
        filled.erase()
    again.results[0].replace_all_uses_with(store.operands[0])
    for op in (again, store, alloc):
        op.detach()
        op.erase()


def staged_ops(access: Operation) -> list[Operation] | None:
    """What `stage-tiles` put beside an access, None if that isn't there any more as it was."""
    if access.name == LOAD:
        stores = [use.operation for use in access.results[0].uses]
        if len(stores) != 1 or stores[0].name != "nv_tileas.store_shared":
            return None
        store = stores[0]
        reads = [use.operation for use in store.operands[1].uses if use.operation is not store]
    else:
        reads = [owner] if isinstance(owner := access.operands[0].owner, Operation) else []
        store = None
        if reads and reads[0].name == "nv_tileas.load_shared":
            store = next((use.operation for use in reads[0].operands[0].uses if use.operation is not reads[0]), None)
    alloc = store.operands[1].owner if store is not None and store.name == "nv_tileas.store_shared" else None
    if len(reads) != 1 or reads[0].name != "nv_tileas.load_shared" or not isinstance(alloc, nv_tileas.AllocTensor):
        return None
    assert store is not None
    return [alloc, store, reads[0]]


def _move_up(load: Operation, before: Operation) -> None:
    """Let a load, its store to the buffer, and what its address is computed from stand behind an earlier load of the block."""
    between: list[Operation] = []
    op = before.next_op
    while op is not load:
        assert op is not None
        if any(inner.name in EXITS for inner in op.walk()):
            return
        between.append(op)
        op = op.next_op
    needed = needed_of(load, set(between), _moves)
    if needed is None or len(needed) > MAX_MOVED:
        return
    store = next(use.operation for use in load.results[0].uses)
    alloc: Any = store.operands[1].owner
    where = before.next_op
    while where is not None and where.name in ("nv_tileas.alloc_tensor", "nv_tileas.store_shared"):
        where = where.next_op
    block = load.parent
    assert block is not None and where is not None
    for op in (*[op for op in between if op in needed], load, alloc, store):
        if op is where:
            where = where.next_op
            assert where is not None
            continue
        op.detach()
        block.insert_op_before(op, where)


def _moves(op: Operation) -> bool:
    """Whether an op is a part of an address that may move: tiles stay where they are."""
    return is_movable(op) and not any(isinstance(v.type, TensorType) for v in (*op.operands, *op.results))


def is_staged(access: Operation) -> bool:
    """Whether the tile is the copy engine's by `assign-load-store-layouts`."""
    return ENGINE in access.properties


