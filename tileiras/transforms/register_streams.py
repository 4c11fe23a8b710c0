"""Tiles that reach shared memory by way of registers go through rings too, for a load agent to fill.

    scf.for ... {                                  %ring = alloc_tensor : ring<..., 1> ; %pipe = create_pipeline : pipe<mbarrier, 1>
      %x = tiled_load %v[%i]                       scf.for ... {
      %y = extsi %x                                  %x = tiled_load %v[%i] ; %y = extsi %x
      %b = alloc_tensor                              %p = producer_acquire %pipe
      store_shared %y, %b                  ->        store_shared %y, extract_slice %ring[%p]
      ... dot %b ...                                 producer_commit %pipe
    }                                                %c = consumer_wait %pipe
                                                     ... dot (extract_slice %ring[%c]) ...
                                                     consumer_release %pipe
                                                   }

For loops whose products warpgroups do: what neither the copy engine nor threads can copy straight to a buffer (tiles that are
converted, transposed or not aligned) is loaded, converted and stored by warps that do nothing else, while the others multiply.
`materialize-schedule` makes two agents of that; alone it would be no gain.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xdsl.dialects.builtin import IntAttr, StringAttr, TensorType, i32
from xdsl.ir import Block, Operation

from tileiras.analysis.ahead import NOT_TWICE, runs_ahead, tokens_before
from tileiras.analysis.async_copies import READERS
from tileiras.analysis.program_slice import function_of
from tileiras.analysis.tensor_dots import described_of
from tileiras.dialects import nv_tileas
from tileiras.dialects.base import TileOp
from tileiras.dialects.nv_tileaa import MemTokenType
from tileiras.dialects.nv_tileas import LOADS, BufferType, PipeType, RingType
from tileiras.transforms.structure import only_store

MAX_CHAIN = 64
"""Ops between the loads and the buffer, at most."""


def stream(func: Operation) -> bool:
    """Put such tiles of a function through rings of one stage, in place. Whether there were any."""
    found = False
    for loop, stores in _streamed(func):
        groups: dict[Operation, list[Operation]] = {}
        for op in stores:
            groups.setdefault(_readers(op)[0], []).append(op)
        for together in groups.values():
            found |= _materialize(loop, together)
    return found


def has_streams(func: Operation) -> bool:
    """Whether a function has such tiles."""
    return any(True for _ in _streamed(func))


def _streamed(func: Operation) -> Iterator[tuple[Operation, list[Operation]]]:
    """Loops with products from shared memory, and their stores of such tiles."""
    for loop in [op for op in func.walk() if runs_ahead(op)]:
        body = loop.regions[0].block
        if any(described_of(op) is not None for op in body.ops):
            stores = [op for op in body.ops if is_streamed(loop, op)]
            if stores:
                yield loop, stores


def is_streamed(loop: Operation, store: Operation) -> bool:
    """Whether a store to a buffer ends what a load agent can do."""
    body = loop.regions[0].block
    if not isinstance(store, nv_tileas.StoreShared) or any(name in store.properties for name in ("slice", "rounds", "owners")):
        return False
    alloc = store.operands[1].owner
    if not isinstance(alloc, nv_tileas.AllocTensor) or alloc.parent is not body or only_store(alloc) is not store or \
            not isinstance(alloc.results[0].type, BufferType) or not store.operands[0].has_one_use():
        return False
    readers = [use.operation for use in alloc.results[0].uses if use.operation is not store]
    if not readers or any(op.name not in READERS or op.parent is not body for op in readers):
        return False
    return _is_loaded(loop, store)


def _is_loaded(loop: Operation, store: Operation) -> bool:
    """Whether what is stored comes from loads that nothing else wants, by nothing but arithmetic."""
    body = loop.regions[0].block
    pending, chain = [store.operands[0]], {store}
    loads = []
    while pending:
        v = pending.pop()
        owner = v.owner
        if isinstance(owner, Block):
            if isinstance(v.type, TensorType) and owner is body:
                return False
            continue
        if owner.parent is not body or owner in chain or isinstance(v.type, MemTokenType):
            continue
        chain.add(owner)
        if owner.name in LOADS:
            properties: dict[str, Any] = owner.properties
            if properties["mem_semantic"].data != "weak" or "owners" in properties or \
                    tokens_before(loop, owner.token) is None:     # type: ignore[attr-defined]
                return False
            loads.append(owner)
        elif not isinstance(owner, TileOp) or not owner.PURE or owner.regions or owner.name in NOT_TWICE:
            return False
        if len(chain) > MAX_CHAIN:
            return False
        pending += owner.operands
    return any(isinstance(op.results[0].type, TensorType) for op in loads) and all(
        use.operation in chain for op in loads if isinstance(op.results[0].type, TensorType) for use in op.results[0].uses)


def _readers(store: Operation) -> list[Operation]:
    """Who reads the buffer of a store, in order."""
    block = store.parent
    assert block is not None
    readers = {use.operation for use in store.operands[1].uses if use.operation is not store}
    return [op for op in block.ops if op in readers]


def _materialize(loop: Operation, stores: list[Operation]) -> bool:
    """One pipe for stores that are read from the same op on."""
    body, outside = loop.regions[0].block, loop.parent
    assert outside is not None
    order = {op: n for n, op in enumerate(body.ops)}
    readers = sorted({op for store in stores for op in _readers(store)}, key=order.__getitem__)
    stores = sorted(stores, key=order.__getitem__)
    if order[stores[-1]] > order[readers[0]]:
        return False

    def before(op: Operation, new: Any) -> Any:
        new.location = op.location
        block = op.parent
        assert block is not None
        block.insert_op_before(new, op)
        return new.results[0] if new.results else None
    warps: Any = function_of(loop).properties["num_warps"]
    pipe = before(loop, nv_tileas.CreatePipeline.make([], [PipeType(StringAttr("mbarrier"), IntAttr(1))],
                                                      {"producers": warps, "consumers": warps}))
    allocs: list[Any] = [store.operands[1].owner for store in stores]
    rings = [before(loop, nv_tileas.AllocTensor.make([], [RingType(alloc.results[0].type, IntAttr(1))])) for alloc in allocs]
    index = before(stores[0], nv_tileas.ProducerAcquire.make([pipe], [i32]))
    first = readers[0]
    before(first, nv_tileas.ProducerCommit.make([pipe], []))
    full = before(first, nv_tileas.ConsumerWait.make([pipe], [i32], {}))
    for store, alloc, ring in zip(stores, allocs, rings):
        t = alloc.results[0].type
        slot = before(stores[0], nv_tileas.ExtractSlice.make([ring, index], [t]))
        filled = before(first, nv_tileas.ExtractSlice.make([ring, full], [t]))
        alloc.results[0].replace_uses_with_if(filled, lambda use, store=store: use.operation is not store)
        store.operands[1] = slot
        alloc.detach()
        alloc.erase()
    following = readers[-1].next_op
    assert following is not None, "a terminator follows"
    before(following, nv_tileas.ConsumerRelease.make([pipe], []))
    return True
