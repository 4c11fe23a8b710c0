"""`meet-in-clusters`: CTAs meet before one of them stores what another one may still read.

    %x, %t = tiled_load %v[%i, %j]                     %x, %t = tiled_load %v[%i, %j]
    ...                                      ->        ...
    tiled_store %y, %w[%i, %j], %t                     cluster_barrier
                                                       tiled_store %y, %w[%i, %j], %t

A token says that the store comes behind the load. Where the copy engine makes one of the two, or threads copy to a ring, a CTA's
own accesses are in order because it waits for its data; the others' aren't. Where load and store go by the same parts of an array
no CTA reads what another one stores, and none meet. Behind what is written `order-memory` lets them meet.
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Operation

from tileiras.analysis.effects import BY_TOKENS
from tileiras.dialects import nv_tileas
from tileiras.dialects.nv_tileaa import MemTokenType

LOAD, STORE = "nv_tileas.tiled_load", "nv_tileas.tiled_store"
GATHER, MEETING = "nv_tileas.load", "nv_tileas.cluster_barrier"


def run(module: Operation, context: Any = None) -> None:
    """Put the barriers in, in place."""
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func" and "cluster" in func.properties:
            _function(func)


def _function(func: Operation) -> None:
    from tileiras.analysis.agent_parts import Written, with_following
    accesses = [op for op in func.walk() if op.name in BY_TOKENS]
    stores = [op for op in accesses if BY_TOKENS[op.name].token_write]
    written = Written(func)
    for load in accesses:
        if BY_TOKENS[load.name].token_write:
            continue
        behind = with_following(r for r in load.results if isinstance(r.type, MemTokenType))
        for store in [op for op in stores if not behind.isdisjoint(op.operands)]:
            if written.waits_for_one(store) or _by_same_parts(load, store) or _have_met(load, store):
                continue
            stores.remove(store)
            assert store.parent is not None
            store.parent.insert_op_before(nv_tileas.ClusterBarrier.create(location=store.location), store)


def _by_same_parts(load: Any, store: Any) -> bool:
    """Whether each CTA reads and stores a part of its own of the same tile: parts of a partition's tiles are apart."""
    return load.name == LOAD and store.name == STORE and _are_one_partition(load.view, store.view) and \
        tuple(load.coords) == tuple(store.coords) and not {"cta_copies"} & (load.properties.keys() | store.properties.keys())


def _are_one_partition(a: Any, b: Any) -> bool:
    """Whether two views have the same tiles of one array; what a load gets beyond its end doesn't matter."""
    if {a.type.kind.data, b.type.kind.data} != {"partition"}:
        return False
    return a is b or (isinstance(a.owner, nv_tileas.BlockTile) and isinstance(b.owner, nv_tileas.BlockTile) and
                      a.owner.memref is b.owner.memref and
                      (a.type.tile_shape, a.type.dim_map) == (b.type.tile_shape, b.type.dim_map))


def _have_met(load: Operation, store: Operation) -> bool:
    """Whether CTAs meet between what threads load and the store, to exchange something."""
    block = store.parent
    if load.name != GATHER or block is None or load.parent is not block:
        return False
    return any(op.name == MEETING and load.is_before_in_block(op) and op.is_before_in_block(store) for op in block.ops)
