"""`stage-streams`: what a loop without products reads tile by tile goes by way of buffers, so that it can be read ahead.

    scf.for %i ... {                                     scf.for %i ... {
      %x = tiled_load %v[%i]                               %x = tiled_load %v[%i]
      ... %x ...                            ->             %b = alloc_tensor ; store_shared %x, %b ; %y = load_shared %b
    }                                                      ... %y ...
                                                         }

Left in registers, a tile is asked for when it is needed: an iteration takes a whole latency of memory, which only other blocks
of the SM fill, and a grid of persistent blocks or of few columns has few of them. `materialize-async` turns buffers into rings
whose copies run ahead; the trip through shared memory costs less of the port than the bytes cost of memory. Where padding isn't
zero, what lies outside is filled in behind the load from the buffer (`fill_outside`). What stays:

    a tile that another place reads too, from the L1 cache, which copies pass by
    tiles one of which has rows not known to be aligned: chunks of less than 8 bytes cost as many instructions as elements
    a loop for whose tiles there isn't room twice ahead
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntAttr, TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.ahead import places_are_tiles, runs_ahead
from tileiras.analysis.async_copies import thread_copy
from tileiras.analysis.layout_rules import DOTS
from tileiras.analysis.shared_lives import SharedLives
from tileiras.analysis.shared_memory import stage_bytes
from tileiras.dialects import nv_tileas
from tileiras.dialects.nv_tileas import LOADS, BufferType, RingType, SharedLayoutAttr
from tileiras.layout.shared import SharedLayout
from tileiras.transforms.materialize_async import obstacle
from tileiras.transforms.stage_tiles import fill

LEAST_CHUNK = 8
"""Bytes."""
LEAST_STAGES, LEAST_OF_LARGE = 3, 2
"""One that is read and two on their way; one on its way where that is as many bytes as keep an SM's share of memory busy."""


def run(module: Operation, context: Any) -> None:
    """Put the tiles into buffers, in place."""
    if not context.target.has_cp_async or not context.uses("pipelines"):
        return
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            lives = SharedLives(func)
            for loop in [op for op in func.walk() if runs_ahead(op)]:
                _loop(func, loop, context.target, lives)


def _loop(func: Operation, loop: Operation, target: Any, lives: SharedLives) -> None:
    ops = list(loop.walk())
    if any(op.name in DOTS or (isinstance(op, nv_tileas.AllocTensor) and isinstance(op.results[0].type, RingType)) for op in ops):
        return
    num_warps: Any = func.properties["num_warps"]
    loads = [op for op in ops if op.name in LOADS and isinstance(op.results[0].type, TensorType)]
    if not loads or not all(_is_stream(loop, op, num_warps.data) for op in loads) or \
            _are_read_elsewhere(func, loads):
        return
    each: int = sum(stage_bytes(RingType(_buffer(op), IntAttr(1))) for op in loads)      # type: ignore[arg-type]
    least = LEAST_STAGES if each < streaming_bytes(target) else LEAST_OF_LARGE
    from tileiras.schedule.depth import ring_depth, ring_facts, shared_budget  # few kernels need the machine's tables

    beside = lives.beside(loop, [])
    stages = ring_depth(ring_facts(loop, loads, each, target, beside), target).stages
    if stages < least or beside + least * each > shared_budget(target):
        return
    lives.update([_stage(op) for op in loads])


def streaming_bytes(target: Any) -> float:
    """Bytes in flight that keep an SM's share of memory busy (Little)."""
    from tileiras.machine.latencies import latencies
    from tileiras.machine.machines import machine_of

    machine = machine_of(target.cc)
    return machine.dram_per_cycle / machine.sms * latencies(machine.sm).loaded


def _are_read_elsewhere(func: Operation, loads: list[Operation]) -> bool:
    """Whether an access that is none of these reads the same array as one of them."""
    known = set(loads)
    arrays = {_array(op.view) for op in loads}                     # type: ignore[attr-defined]
    return any(isinstance(op, nv_tileas.TiledLoad) and op not in known and _array(op.view) in arrays for op in func.walk())


def _array(view: SSAValue) -> SSAValue:
    """What a view is a view of."""
    owner = view.owner
    return owner.operands[0] if isinstance(owner, Operation) and owner.operands else view


def _is_stream(loop: Operation, load: Any, num_warps: int) -> bool:
    """Whether threads can copy a load's tile to a buffer in iterations ahead."""
    if load.parent is not loop.regions[0].block or not isinstance(load, nv_tileas.TiledLoad) or \
            load.results[0].first_use is None or places_are_tiles(load) or obstacle(loop, load):
        return False
    copy = thread_copy(load, _buffer(load), num_warps, filled=True)
    return copy is not None and copy.chunk >= LEAST_CHUNK


def _buffer(load: Operation) -> BufferType:
    t: Any = load.results[0].type
    return BufferType(t.element_type, SharedLayoutAttr(SharedLayout.row_major(t.get_shape())))


def _stage(load: Operation) -> Operation:
    """The buffer that a load's tile goes through now."""
    tile = load.results[0]
    users = list(tile.uses)
    alloc = nv_tileas.AllocTensor.make([], [_buffer(load)])
    store = nv_tileas.StoreShared.make([tile, alloc.results[0], None], [])
    again = nv_tileas.LoadShared.make([alloc.results[0], None, None], [tile.type])
    after = load
    for op in (alloc, store, again):
        op.location = load.location
        assert after.parent is not None
        after.parent.insert_op_after(op, after)
        after = op
    for use in users:
        use.operation.operands[use.index] = again.results[0]
    fill(load, again, by_engine=False)
    return alloc
