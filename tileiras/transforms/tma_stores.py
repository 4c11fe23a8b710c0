"""Tiles that go through shared memory on their way to a view are stored from there by the copy engine.

    store_shared %x, %b                          %b = alloc_tensor      (as boxes lie)
    %y = load_shared %b                    ->    store_shared %x, %b
    tiled_store %y, %view[%i, %j]                tma_store %b, %map[%i * 64, %j * 128]

The threads had exchanged elements so that each stores whole runs of a row; the engine stores rows whoever wrote them. Nothing in
the kernel may wait for the store by its token, or the store for another one: that would take fences between the engine and the
threads.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.ir import Operation, SSAValue

from tileiras.analysis.access import access_width
from tileiras.analysis.axis import AxisAnalysis
from tileiras.analysis.shared_lives import SharedLives
from tileiras.analysis.tma import MapFacts, Refusal, in_forms, is_unwritten, map_facts
from tileiras.dialects import nv_tileas
from tileiras.dialects.element import element_bytes
from tileiras.dialects.nv_tileaa import MemTokenType
from tileiras.dialects.nv_tileas import BufferType, SharedLayoutAttr, TensorMapType, layout_of
from tileiras.layout.shared import SharedLayout
from tileiras.transforms.tma_common import (
    MOVES,
    Refused,
    before,
    coordinates,
    erase,
    index_bits,
    store_wavefronts,
    wavefronts,
)

STORES = ("nv_tileas.tiled_store", "nv_tileas.tiled_atomic_rmw")
STORE_SHARED, LOAD_SHARED = "nv_tileas.store_shared", "nv_tileas.load_shared"


def lower_stores(func: Operation, axis: Callable[[], AxisAnalysis], target: Any, lives: SharedLives) -> list[Refused]:
    """Replace the stores of a function that can be, in place; those that go through shared memory and can't, and why."""
    refused: list[Refused] = []
    for op in [op for op in func.walk() if op.name in STORES]:
        facts = store_facts(op, axis)
        if isinstance(facts, MapFacts):
            if not _lower(op, facts, target, lives):
                refused.append((op, [Refusal("shared memory has no room for the tile as the copy engine wants it")]))
        elif facts:
            refused.append((op, facts))
    return refused


def _path(store: Any) -> tuple[list[Operation], Operation, Operation, Operation] | None:
    """What lies between a buffer and the store, the last one first; the load from the buffer, the store to it, its alloc."""
    moves: list[Operation] = []
    value: SSAValue = store.source
    while isinstance(value.owner, Operation) and value.owner.name in MOVES and value.has_one_use():
        moves.append(value.owner)
        value = value.owner.operands[0]
    read = value.owner
    if not isinstance(read, Operation) or read.name != LOAD_SHARED or not value.has_one_use() or "rounds" in read.properties:
        return None
    alloc = read.operands[0].owner
    users = [use.operation for use in read.operands[0].uses]
    writes = [op for op in users if op is not read]
    if not isinstance(alloc, Operation) or alloc.name != "nv_tileas.alloc_tensor" or len(writes) != 1:
        return None
    write = writes[0]
    if write.name != STORE_SHARED or {"slice", "rounds", "owners"} & write.properties.keys() or write.parent is not store.parent:
        return None
    return moves, read, write, alloc


def store_facts(store: Any, axis: Callable[[], AxisAnalysis]) -> MapFacts | list[Refusal]:
    """The facts of a store's map, or why it doesn't go by the copy engine; nothing to say where each thread's elements are runs of
    the tile's rows already."""
    path = _path(store)
    if path is None:
        return []
    if any(r.uses for r in store.results) or not is_unwritten(store):
        return [Refusal("other accesses wait for the store by its token, or it for a store")]
    facts = map_facts(store, axis())
    if not isinstance(facts, MapFacts):
        return facts
    moves, read, write, _ = path
    t: Any = read.operands[0].type
    size = element_bytes(t.element_type)
    ways = [(store_wavefronts(layout_of(write.operands[0]), _layout(form, moves, t.layout.data), size), form)
            for form in in_forms(facts)]
    here, facts = min(ways, key=lambda way: way[0])
    there = sum(wavefronts(layout_of(v), t.layout.data, size) for v in (write.operands[0], read.results[0]))
    there += layout_of(store.source).num_regs // access_width(store, layout_of(store.source))
    return facts if here <= there else [Refusal("the threads would write rows of the tile with bank conflicts")]


def _layout(facts: MapFacts, moves: list[Operation], old: SharedLayout) -> SharedLayout:
    """Where the buffer's elements lie so that the engine finds the view's tile."""
    bases = facts.tile.layout.bases
    mine = [0] * len(bases)
    for behind, where in enumerate(index_bits(moves, len(bases))):
        mine[where] = bases[behind]
    return SharedLayout(old.shape, tuple(mine))


def _lower(store: Any, facts: MapFacts, target: Any, lives: SharedLives) -> bool:
    path = _path(store)
    assert path is not None
    moves, read, write, alloc = path
    t: Any = alloc.results[0].type
    made = BufferType(t.element_type, SharedLayoutAttr(_layout(facts, moves, t.layout.data)))
    buffer = before(write, nv_tileas.AllocTensor.make([], [made]), write).results[0]
    alloc.results[0].replace_all_uses_with(buffer)
    both: list[Any] = [buffer.owner, alloc]
    lives.update(both)
    if lives.size_without([alloc]) > target.most_static_smem:
        buffer.replace_all_uses_with(alloc.results[0])
        erase(buffer.owner)  # type: ignore[arg-type]
        lives.update(both)
        return False
    tensor_map = before(store, nv_tileas.MakeTiledTmaDesc.make([store.view], [TensorMapType.of(facts.element, facts.tile)]), store)
    made = nv_tileas.TmaStore.make([tensor_map.results[0], coordinates(store, store), buffer], [],
                                   {name: store.properties.get(name) for name in ("cta_copies", "rmw_mode")})
    before(store, made, store)
    for result in store.results:
        if isinstance(result.type, MemTokenType):
            assert not result.uses
    erase(store, *moves, read, alloc)
    lives.update(both)
    return True
