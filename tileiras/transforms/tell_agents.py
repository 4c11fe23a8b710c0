"""`tell-agents`: a number that one thread draws for all goes to every agent by a pipe.

    for {                                        %ring = alloc_tensor : ring<i32, 2> ; %pipe = create_pipeline {told}
      %o = atomic_rmw add %next, 1 {owners}      for {
      store_shared %o, %b {owners}                 %o = atomic_rmw add %next, 1 {owners, told}
      %n = load_shared %b                          %i = producer_acquire %pipe
      if %n < %tiles {                    ->       store_shared %o, %ring[%i] {owners} ; producer_commit %pipe
        for %k {                                   %j = consumer_wait %pipe
          %a = tiled_load %x[%n, %k]               %n = load_shared %ring[%j] ; fence_async {global}
          ...                                      consumer_release %pipe
                                                   if %n < %tiles { ...

So blocks share out tiles, or wait for each other's, by an atomic counter. What is loaded comes behind the atomic, by its address or
by its token, and stays there: the copy engine is told behind the wait, and a fence, since what others wrote before the atomic they
didn't write by it. `lower-tma-load-store-to-async` takes such loads (attribute `told`) for unwritten; `materialize-schedule` lets
the compute agents draw, behind their stores as the program says, and the load agent wait for the number. In one agent the pipe is
as good as the buffer and the barrier that it stands for.

So is what an ordered load waits for. Only around loops that load what products read, where agents are made.
"""
from __future__ import annotations

from math import prod
from typing import Any

from xdsl.dialects.builtin import IntAttr, StringAttr, UnitAttr, i32
from xdsl.ir import Operation

from tileiras.analysis.chains import chains_of
from tileiras.analysis.layout_rules import DOTS
from tileiras.analysis.program_slice import FOR, Slice, loop_around
from tileiras.dialects import nv_tileas
from tileiras.dialects.nv_tileas import PipeType, RingType
from tileiras.transforms.structure import holder_in
from tileiras.transforms.tma_common import after, before, erase

LOAD, STORE_SHARED, LOAD_SHARED = "nv_tileas.tiled_load", "nv_tileas.store_shared", "nv_tileas.load_shared"
ONCE = ("nv_tileas.atomic_rmw", "nv_tileas.atomic_cas", "nv_tileas.load", LOAD)
STAGES = 2
"""Numbers under way: who computes may draw while the load agent still loads by the last one."""


def run(module: Operation, context: Any) -> None:
    """Put pipes in the buffers' place."""
    if not (context.uses("tma") and context.target.has_tma and context.uses("agents")):
        return
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func" and "cluster" not in func.properties and chains_of(func) == 1:
            drawn = {op: buffer for op in func.walk() if op.name in ONCE and (buffer := _buffer_of(op)) is not None}
            if drawn:
                _tell(func, drawn)


def _tell(func: Operation, drawn: dict[Operation, Operation]) -> None:
    """`drawn`: atomics, and the buffers that hand on what they give."""
    loads = [op for op in func.walk() if op.name == LOAD and _is_for_products(op)]
    needed = Slice(func, loads, keep_tokens=True).ops
    for atomic, buffer in drawn.items():
        if atomic in needed and not any(loop.is_ancestor(atomic) for op in loads if (loop := loop_around(op)) is not None):
            _by_pipe(func, atomic, buffer)


def _is_for_products(load: Operation) -> bool:
    loop = loop_around(load)
    return loop is not None and loop.name == FOR and any(op.name in DOTS for op in loop.walk())


def _buffer_of(atomic: Operation) -> Operation | None:
    """The buffer by which an atomic's one element goes to all threads, where it is such."""
    use = atomic.results[0].first_use
    if "owners" not in atomic.properties or use is None or not atomic.results[0].has_one_use() or \
            use.operation.name != STORE_SHARED:
        return None
    buffer = use.operation.operands[1]
    t: Any = buffer.type
    if not isinstance(buffer.owner, Operation) or prod(t.layout.data.shape) != 1:
        return None
    users = [other.operation for other in buffer.uses if other.operation is not use.operation]
    is_read = len(users) == 1 and users[0].name == LOAD_SHARED and users[0].parent is atomic.parent
    return buffer.owner if is_read and use.operation.parent is atomic.parent else None


def _by_pipe(func: Any, atomic: Operation, buffer: Operation) -> None:
    t: Any = buffer.results[0].type
    store, load = (next(use.operation for use in buffer.results[0].uses if use.operation.name == name)
                   for name in (STORE_SHARED, LOAD_SHARED))
    outer = holder_in(func.regions[0].block, atomic)
    warps = func.properties["num_warps"]

    def put(at: Operation, made: Operation) -> Any:
        return before(at, made, atomic)
    ring = put(outer, nv_tileas.AllocTensor.make([], [RingType(t, IntAttr(STAGES))])).results[0]
    pipe = put(outer, nv_tileas.CreatePipeline.make([], [PipeType(StringAttr("mbarrier"), IntAttr(STAGES))], {
        "producers": warps, "consumers": warps, "told": UnitAttr()})).results[0]
    atomic.properties["told"] = UnitAttr()
    number = put(store, nv_tileas.ProducerAcquire.make([pipe, None], [i32])).results[0]
    store.operands[1] = put(store, nv_tileas.ExtractSlice.make([ring, number], [t])).results[0]
    put(load, nv_tileas.ProducerCommit.make([pipe], []))
    told = put(load, nv_tileas.ConsumerWait.make([pipe], [i32])).results[0]
    load.operands[0] = put(load, nv_tileas.ExtractSlice.make([ring, told], [t])).results[0]
    behind = after(load)
    put(behind, nv_tileas.FenceAsync.make([], [], {"global": UnitAttr()}))
    put(behind, nv_tileas.ConsumerRelease.make([pipe], []))
    erase(buffer)
