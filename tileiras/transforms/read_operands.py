"""`read-operands`: what threads want of a tile that products read from shared memory, they read from there, too.

    %x = tiled_load %v[%i]                   %x = tiled_load %v[%i]
    %b = alloc_tensor ; store_shared %x, %b  %b = alloc_tensor ; store_shared %x, %b
    ... dot %b, ...                     ->   ... dot %b, ...
    ... negf %x ...                          %c = alloc_tensor ; store_shared %x, %c      as boxes lie for the product
                                             ... negf (load_shared %c) ...

So the tile only goes to buffers, and the copy engine can bring it, once for all (`lower-tma-load-store-to-async`: the buffers are
other names of one ring's stage). It brings rows that aren't known to be whole chunks of 16 bytes as fast as others, without
threads' registers, and ahead. Layouts between the load and the buffers are for threads; the stores then do without.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.axis import AxisAnalysis
from tileiras.analysis.layout_rules import DOTS, MOVES, permutation_of
from tileiras.analysis.tensor_dots import changes_operands, umma_of
from tileiras.analysis.tma import MapFacts, for_products, is_unwritten, map_facts, rounded_by
from tileiras.dialects import nv_tileas
from tileiras.dialects.nv_tileas import BufferType, SharedLayoutAttr, layout_of, with_layout
from tileiras.transforms.lower_tma_load_store_to_async import LOAD, STORE_SHARED, Way, buffer_layout, takes, way_to
from tileiras.transforms.stage_tiles import ENGINE
from tileiras.transforms.structure import holder_in
from tileiras.transforms.tma_common import erase

CONVERT, VIEW = "nv_tileas.convert_layout", "nv_tileas.view"
PARTS = frozenset({"slice", "rounds", "owners"})


@dataclass
class _Uses:
    """Of a loaded tile: buffers that products read, and tiles with its elements that threads use, with the moves that make these
    (the last one first); whether somebody uses it as the copy engine couldn't bring it."""

    ways: list[Way]
    tiles: dict[SSAValue, list[Operation]]
    otherwise: bool = False


def run(module: Operation, context: Any) -> None:
    """Let threads read such tiles from buffers, in place."""
    if not (context.target.has_tma and context.uses("tma")):
        return
    for func in module.regions[0].block.ops:
        if func.name != "nv_tileas.func":
            continue
        axis: AxisAnalysis | None = None
        for load in [op for op in func.walk() if op.name == LOAD]:
            uses = _uses(load)
            if not uses.ways or load.properties.pop(ENGINE, None) is None:      # threads load it for as little
                continue
            if not uses.tiles or uses.otherwise or not is_unwritten(load):
                continue
            axis = axis or AxisAnalysis(func)
            facts = map_facts(load, axis)
            if not isinstance(facts, MapFacts):
                continue
            form = next((f for f in for_products(facts)
                         if all(takes(r, way.alloc, buffer_layout(f, way.moves, way.shape), context.target.has_ldmatrix_bytes)
                                for way in uses.ways for r in way.readers)), None)
            if form is not None:
                _read_back(load, uses, form)


def _uses(load: Operation) -> _Uses:
    """Who uses a tile."""
    found = _Uses([], {}, bool(PARTS & load.properties.keys()))
    pending: list[tuple[SSAValue, list[Operation]]] = [(load.results[0], [])]
    while pending:
        tile, moves = pending.pop()
        for use in tile.uses:
            op = use.operation
            alloc = op.operands[1].owner if op.name == STORE_SHARED and use.index == 0 else None
            if op.name in MOVES:
                pending.append((op.results[0], [op, *moves]))
            elif isinstance(alloc, Operation) and (way := way_to(alloc)) is not None:
                found.ways.append(way)
                found.otherwise |= op.parent is not load.parent or bool(PARTS & op.properties.keys()) or not all(
                    r.name in DOTS and r.parent is load.parent and not changes_operands(r) for r in way.readers)
            else:
                found.tiles[tile] = moves
                found.otherwise |= op.name == STORE_SHARED or bool(rounded_by(op))
    return found


def _read_back(load: Operation, uses: _Uses, form: MapFacts) -> None:
    """Let threads' uses of a tile read it from buffers, and stores to products' buffers need no other layout before."""
    block = load.parent
    assert block is not None
    for way in uses.ways:
        way.store.operands[0] = _as_loaded(load, way.moves, way.store)
    for tile, moves in uses.tiles.items():
        others = [use for use in tile.uses if use.operation.name not in MOVES and use.operation.name != STORE_SHARED]
        first = _before_product(min((holder_in(block, use.operation) for use in others), key=block.get_operation_index))
        t: Any = tile.type
        layout = buffer_layout(form, moves, t.get_shape())
        alloc = nv_tileas.AllocTensor.make([], [BufferType(t.element_type, SharedLayoutAttr(layout))])
        store = nv_tileas.StoreShared.make([_as_loaded(load, moves, first), alloc.results[0], None], [])
        again = nv_tileas.LoadShared.make([alloc.results[0], None, None], [t])
        for op in (alloc, store, again):
            op.location = load.location
            block.insert_op_before(op, first)
        for use in others:
            use.operation.operands[use.index] = again.results[0]
    for moves in (*[way.moves for way in uses.ways], *uses.tiles.values()):
        for op in moves:
            if op.parent is not None and op.results[0].first_use is None:
                erase(op)


def _before_product(reader: Operation) -> Operation:
    """In front of the product into tensor memory that begins right before threads read a tile: the tile is on its way meanwhile."""
    first, op = reader, reader.prev_op
    while op is not None and (umma_of(op) is not None or op.name == STORE_SHARED or isinstance(op, nv_tileas.AllocTensor)):
        first = op if umma_of(op) is not None else first
        op = op.prev_op
    return first


def _as_loaded(load: Operation, moves: list[Operation], before: Operation) -> SSAValue:
    """What moves (the last one first) make of a loaded tile, in the threads that load it."""
    if not any(op.name == CONVERT for op in moves):
        return moves[0].results[0] if moves else load.results[0]
    tile: SSAValue = load.results[0]
    for op in reversed(moves):
        if op.name == CONVERT:
            continue
        t, layout = op.results[0].type, layout_of(tile)
        assert isinstance(t, TensorType)
        layout = layout.reshape(t.get_shape()) if op.name == VIEW else layout.permute(permutation_of(op))
        new = type(op).create(operands=[tile], result_types=[with_layout(t, layout)], properties=dict(op.properties))
        new.location = op.location
        assert before.parent is not None
        before.parent.insert_op_before(new, before)
        tile = new.results[0]
    return tile
