"""Tiles that go through shared memory on their way to a view are stored from there by the copy engine.

    store_shared %x, %b                          %b = alloc_tensor      (as boxes lie)
    %y = load_shared %b                    ->    store_shared %x, %b
    tiled_store %y, %view[%i, %j]                tma_store %b, %map[%i * 64, %j * 128]

The threads had exchanged elements so that each stores whole runs of a row; the engine stores rows whoever wrote them. Nothing in
the kernel may wait for the store by its token, or the store for another one: that would take fences between the engine and the
threads. But a store in a loop may wait for itself: one thread begins all of them, and waits until the last ones are there.

In a loop nobody waits for a store before its buffer is wanted again. A wide tile goes in pieces by way of two buffers in turn,
which leaves room for the rings that load, or by halves from one, where blocks that a hint asks for have no more room beside their
rings; where that can't be, and its buffer takes the rings' second stage, threads store it.
Outside of loops what comes from tensor memory goes in pieces, too, each by its own buffer, or by as many in turn as there is room
for. Threads then hold a piece of the tile at a time (`tmem_pieces.py`).

    for {                                        %b0 = alloc_tensor ; %b1 = alloc_tensor
      store_shared %x, %b                        for {
      %y = load_shared %b                          store_wait %b0 {pending = 1}
      tiled_store %y, %view[%i, %j]      ->        store_shared (extract %x[0, 0]), %b0
    }                                              tma_store %b0, %map[%i * 128, %j * 128] {in_flight}
                                                   store_wait %b1 {pending = 1} ; ...
                                                 }
                                                 store_wait %b0, %b1 {pending = 0}
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from xdsl.dialects.builtin import IntAttr, IntegerAttr, TensorType, UnitAttr, i32
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.access import accesses
from tileiras.analysis.axis import AxisAnalysis
from tileiras.analysis.entry_hints import hint
from tileiras.analysis.layout_rules import MOVES
from tileiras.analysis.program_slice import function_of, loop_around
from tileiras.analysis.reshapes import index_bits, kept
from tileiras.analysis.shared_lives import SharedLives
from tileiras.analysis.shared_memory import buffer_bytes
from tileiras.analysis.tma import MapFacts, Refusal, in_forms, is_unwritten, map_facts, orders_itself
from tileiras.analysis.tma_choice import SLOTS, pieces, transfer
from tileiras.dialects import arith, nv_tileas
from tileiras.dialects.element import element_bytes
from tileiras.dialects.nv_tileaa import MemTokenType
from tileiras.dialects.nv_tileas import BufferType, SharedLayoutAttr, TensorMapType, layout_of, with_layout
from tileiras.layout.convert import PASS_SLOTS
from tileiras.layout.descriptors import part_of
from tileiras.layout.linear import LinearLayout
from tileiras.layout.shared import CanonicalTile, SharedLayout
from tileiras.layout.slices import part_in_registers
from tileiras.schedule.names import DEPTH, LEAST_STAGES, told
from tileiras.transforms.tma_common import (
    Refused,
    after,
    before,
    coordinates,
    erase,
    store_wavefronts,
    view_of_parts,
    wavefronts,
)

STORES = ("nv_tileas.tiled_store", "nv_tileas.tiled_atomic_rmw")
MANY_REGISTERS = 128
"""Of a thread, for a tile."""
OF_INTEGERS = frozenset({"arith.sitofp", "arith.uitofp"})
STORE_SHARED, LOAD_SHARED = "nv_tileas.store_shared", "nv_tileas.load_shared"


def lower_stores(func: Operation, axis: Callable[[], AxisAnalysis], target: Any, lives: SharedLives,
                 is_behind_told: Callable[[Operation], bool]) -> list[Refused]:
    """Replace the stores of a function that can be, in place; those that go through shared memory and can't, and why.
    `is_behind_told`: whether who waits for a number that all agents are told waits for all writes that come before."""
    refused: list[Refused] = []
    for op in [op for op in func.walk() if op.name in STORES]:
        facts = store_facts(op, axis, is_behind_told)
        if isinstance(facts, MapFacts):
            if not _lower(op, facts, target, lives):
                refused.append((op, [Refusal("shared memory has no room for the tile as the copy engine wants it")]))
        elif facts:
            refused.append((op, facts))
    return refused


def lower_in_pieces(store: Operation, axis: AxisAnalysis, target: Any, lives: SharedLives) -> bool:
    """Replace a store whose tile as a whole shared memory has no room for, if pieces of it fit; whether they do."""
    facts = store_facts(store, lambda: axis)
    repeated = _outermost_loop(store) is not None
    if not isinstance(facts, MapFacts) or not (repeated or target.has_tcgen05):
        return False
    path = _path(store)
    assert path is not None
    moves, _, write, _ = path
    return _pieces(facts, moves, write, repeated) > SLOTS and _lower(store, facts, target, lives, target.most_static_smem // 2)


def _is_free(store: Operation) -> bool:
    """Whether nothing waits for a store by its token, nor it for another one."""
    return not any(r.uses for r in store.results) and is_unwritten(store)


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


def _never(store: Operation) -> bool:
    return False


def store_facts(store: Any, axis: Callable[[], AxisAnalysis],
                is_behind_told: Callable[[Operation], bool] = _never) -> MapFacts | list[Refusal]:
    """The facts of a store's map, or why it doesn't go by the copy engine; nothing to say where each thread's elements are runs of
    the tile's rows already."""
    path = _path(store)
    if path is None:
        return []
    if not _is_free(store) and not orders_itself(store) and (any(r.uses for r in store.results) or not is_behind_told(store)):
        return [Refusal("other accesses wait for the store by its token, or it for a store")]
    facts = map_facts(store, axis())
    if not isinstance(facts, MapFacts):
        return facts
    moves, read, write, _ = path
    t: Any = read.operands[0].type
    size = element_bytes(t.element_type)
    had = layout_of(write.operands[0])
    ways = [(store_wavefronts(had, _layout(form, moves, t.layout.data), size), form) for form in in_forms(facts)]
    here, facts = min(ways, key=lambda way: PASS_SLOTS * way[0] + transfer(way[1].tile, had))
    there = sum(wavefronts(layout_of(v), t.layout.data, size) for v in (write.operands[0], read.results[0]))
    there += accesses(store, layout_of(store.source))
    return facts if here <= there else [Refusal("the threads would write rows of the tile with bank conflicts")]


def _layout(facts: MapFacts, moves: list[Operation], old: SharedLayout) -> SharedLayout:
    """Where the buffer's elements lie so that the engine finds the view's tile."""
    bases = facts.tile.layout.bases
    mine = [0] * len(bases)
    for behind, where in enumerate(index_bits(moves, len(bases))):
        assert where is not None, "nothing is repeated on the way to memory"
        mine[where] = bases[behind]
    return SharedLayout(old.shape, tuple(mine))


def _outermost_loop(store: Operation) -> Operation | None:
    """The loop around all loops around a store, if control leaves it only at its end; None where there is none."""
    found, loop = None, loop_around(store)
    while loop is not None:
        found, loop = loop, loop_around(loop)
    if found is None or any(op.name == "nv_tileas.return" for op in found.walk()):
        return None
    return found


def _lower(store: Any, facts: MapFacts, target: Any, lives: SharedLives, room: int = 0) -> bool:
    """Whether there is room for the store's buffers; it is replaced then. `room`: bytes that they may take where others are still
    to come (0: all there are)."""
    path = _path(store)
    assert path is not None
    moves, read, write, alloc = path
    t: Any = alloc.results[0].type
    loop = _outermost_loop(store)
    count = _pieces(facts, moves, write, loop is not None) if loop is not None or target.has_tcgen05 else 1
    crowded = count == 1 and loop is not None and target.has_tcgen05 and _is_crowded(loop, facts, alloc, target, lives)
    if crowded:
        count = _pieces(facts, moves, write, True, crowded)
    cut = part_of(facts.tile, count)
    assert cut is not None
    piece = replace(facts, tile=cut[1])
    layout = piece.tile.layout if count > 1 else _layout(facts, moves, t.layout.data)
    made = BufferType(t.element_type, SharedLayoutAttr(layout))
    flies = loop is not None or count > 1
    most = count if loop is None else 1 if crowded else min(count, SLOTS)
    if room:
        most = min(most, max(SLOTS, room // piece.tile.num_bytes))
    to_come = 0 if loop is None else _stages_to_come(loop, LEAST_STAGES)
    for number in range(most, min(most, SLOTS) - 1, -1):
        slots: list[SSAValue] = [before(loop or write, nv_tileas.AllocTensor.make([], [made]), write).results[0]
                                 for _ in range(number)]
        end = before(after(loop or store), nv_tileas.StoreWait.make([slots], [], {"pending": IntAttr(0)}), store) if flies else None
        places: list[Any] = [*(v.owner for v in slots), alloc]
        for op in (write, read):
            op.operands[list(op.operands).index(alloc.results[0])] = slots[0]
        lives.update(places)
        if lives.size_without([alloc]) + to_come <= target.most_static_smem:
            break
        for op in (write, read):
            op.operands[list(op.operands).index(slots[0])] = alloc.results[0]
        erase(*([] if end is None else [end]), *places[:-1])
        lives.update(places)
    else:
        return False
    view = store.view if count == 1 else before(store, view_of_parts(store.view, piece.tile), store).results[0]
    tensor_map = before(store, nv_tileas.MakeTiledTmaDesc.make([view], [TensorMapType.of(facts.element, piece.tile)]), store)
    coords = coordinates(store, store)
    if not flies:
        before(store, nv_tileas.TmaStore.make([tensor_map.results[0], coords, slots[0]], [], _properties(store)), store)
    else:
        _in_pieces(store, write.operands[0], tensor_map.results[0], coords, piece.tile, count, slots, loop is not None)
        erase(write)
    taken = next((v for v in store.operands if isinstance(v.type, MemTokenType)), None)
    for result in store.results:
        if result.first_use is not None:
            assert isinstance(result.type, MemTokenType)
            if taken is None:
                taken = before(store, nv_tileas.CreateMemToken.make([], [result.type]), store).results[0]
            result.replace_all_uses_with(taken)
    erase(store, *moves, read, alloc)
    lives.update(places)
    return True


def _is_crowded(loop: Operation, facts: MapFacts, alloc: Operation, target: Any, lives: SharedLives) -> bool:
    """Whether a tile's buffer takes a stage from the rings of as many blocks as a hint wants on an SM, and half of it doesn't (a
    batched product of 128x128x64, two blocks, B200: 261 us with two stages, 193 with three and the tile by halves)."""
    blocks = hint(function_of(loop), "occupancy") or 1
    if blocks == 1:
        return False
    from tileiras.schedule.depth import SHARED_KEPT_BACK, shared_budget  # few kernels need the machine's tables

    room = shared_budget(target, blocks) + SHARED_KEPT_BACK - lives.size_without([alloc]) - _stages_to_come(loop)
    return facts.tile.num_bytes // SLOTS <= room < facts.tile.num_bytes


def _stages_to_come(loop: Operation, most: int | None = None) -> int:
    """Bytes that the rings of a loop's loads want for more stages than the first, as the schedule says, or for `most` stages. With
    one they wait for each load; threads' own stores cost a tile block, those waits an iteration."""
    total = 0
    for op in loop.walk():
        if isinstance(op, nv_tileas.TmaLoad):
            depth = told(op, DEPTH) or 1
            total += ((depth if most is None else min(depth, most)) - 1) * buffer_bytes(op.slot.type)   # type: ignore[attr-defined]
    return total


def _properties(store: Operation) -> dict[str, Any]:
    return {name: store.properties.get(name) for name in ("cta_copies", "rmw_mode")}


def _in_pieces(store: Any, tile: SSAValue, tensor_map: SSAValue, coords: list[SSAValue], form: CanonicalTile, count: int,
               slots: list[SSAValue], repeated: bool) -> None:
    """The tile's pieces take turns in the slots. Where tokens ask for it, the first one waits until all before is there."""
    ordered = not _is_free(store)
    for number in range(count):
        again = number >= len(slots)
        if again or (repeated and not ordered):
            slot = slots[number % len(slots)]
            before(store, nv_tileas.StoreWait.make([[slot]], [], {"pending": IntAttr(len(slots) - 1)}), store)
        elif repeated and number == 0:
            before(store, nv_tileas.StoreWait.make([slots], [], {"pending": IntAttr(0), "written": UnitAttr()}), store)
        slot = slots[number % len(slots)]
        part = tile if count == 1 else _part(store, tile, form, number)
        before(store, nv_tileas.StoreShared.make([part, slot, None], []), store)
        at = list(coords)
        if number:
            along = _number(store, number * form.shape[form.major])
            at[form.major] = before(store, arith.Addi.make([coords[form.major], along], [i32]), store).results[0]
        properties = {**_properties(store), "in_flight": UnitAttr()}
        before(store, nv_tileas.TmaStore.make([tensor_map, at, slot], [], properties), store)


def _pieces(facts: MapFacts, moves: list[Operation], write: Operation, repeated: bool, crowded: bool = False) -> int:
    """Into how many pieces a tile is cut, each of so many bytes a row; 1: it isn't. A thread has to hold its elements of each piece
    in registers of their own. Outside of loops only tiles that take many registers are worth the meetings. `crowded`: halves are
    worth it, too."""
    layout = layout_of(write.operands[0])
    if any(op.name != "nv_tileas.convert_layout" for op in moves) or not (repeated or layout.num_regs >= MANY_REGISTERS):
        return 1
    by_halves = crowded or (not repeated and _meets_long_row(write))
    return pieces(facts.tile, layout, SLOTS if by_halves else SLOTS + 1)


def _meets_long_row(write: Operation) -> bool:
    """Whether a tile is made with a row from memory of which each thread has all numbers, as many registers as of the tile itself:
    half of both at a time leaves room for another block (scales of an 8-bit product, 128x128x128, B200: 11.4 us, 9.0 in halves).
    A row that is given its second dimension later leaves ptxas registers enough for that, where a thread has 128 sums of f32 (e4m3,
    128x128x64, 1,024 blocks: 19.7 us, 20.8 in halves); not where sums are integers (10.7, 8.8), nor where they are more (e4m3,
    256x128x64: 21.3, 17.9)."""
    from tileiras.transforms.tmem_pieces import is_long_row, may_be_read_again  # few tiles are so large

    many = layout_of(write.operands[0]).num_regs > MANY_REGISTERS
    pending, seen = [write.operands[0]], set[SSAValue]()
    meets = False
    while pending:
        op = pending.pop().owner
        if isinstance(op, nv_tileas.Broadcast):
            row, turned = op.operands[0], False
            while isinstance(row.owner, nv_tileas.View):
                row, turned = row.owner.operands[0], True
            if is_long_row(row, MANY_REGISTERS) and isinstance(row.owner, Operation) and (
                    row.owner.name == LOAD_SHARED or may_be_read_again(row.owner)):
                meets = True
                many |= not turned
        elif isinstance(op, arith.Elementwise):
            many |= op.name in OF_INTEGERS
            new = [v for v in op.operands if isinstance(v.type, TensorType) and v not in seen]
            seen.update(new)
            pending += new
    return meets and many


def _part(store: Any, tile: SSAValue, form: CanonicalTile, number: int) -> SSAValue:
    """The elements of a tile's piece. A reshape that keeps the tile's rows and columns comes behind, where the tile is still in
    tensor memory in front of it."""
    layout = part_in_registers(layout_of(tile), form.major, form.shape[form.major])
    assert layout is not None
    indices = [number * (d == form.major) for d in range(len(form.shape))]
    moved = kept(tile.owner)
    if not moved:
        return _piece(store, tile, layout, indices)
    source = tile.owner.operands[0]     # type: ignore[union-attr]
    shape, at = [1] * len(layout_of(source).shape), [0] * len(layout_of(source).shape)
    for old, new in moved:
        shape[old], at[old] = layout.shape[new], indices[new]
    part = _piece(store, source, layout.reshape(tuple(shape)), at)
    t: Any = tile.type
    made = with_layout(TensorType(t.element_type, layout.shape), layout)
    return before(store, nv_tileas.View.make([part], [made]), store).results[0]


def _piece(store: Any, tile: SSAValue, layout: LinearLayout, indices: list[int]) -> SSAValue:
    t: Any = tile.type
    made = with_layout(TensorType(t.element_type, layout.shape), layout)
    return before(store, nv_tileas.Extract.make([tile, [_number(store, n) for n in indices]], [made]), store).results[0]


def _number(store: Operation, value: int) -> SSAValue:
    return before(store, arith.Constant.make([], [i32], {"value": IntegerAttr(value, i32)}), store).results[0]
