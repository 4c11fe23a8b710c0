"""`lower-tma-load-store-to-async`: tiles of views that go to shared memory anyway are brought there by the copy engine.

                                                    %ring = alloc_tensor : ring<buffer, 1>
                                                    %pipe = create_pipeline {bytes = 16384} : pipe<"tma", 1>
    for {                                           for {
      %x = tiled_load %view[%i, %j]                   %n = producer_acquire %pipe
      %b = alloc_tensor                       ->      tma_load %map[%i * 64, %j * 128], extract_slice %ring[%n], %pipe[%n]
      store_shared %x, %b                             producer_commit %pipe
      ... dot %b, ...                                 %m = consumer_wait %pipe
    }                                                 ... dot (extract_slice %ring[%m]), ...
                                                      consumer_release %pipe
                                                    }

The serial form: a ring of one stage, filled and read in turn, right in any loop. Who deepens the ring (or gives the filling to
an agent of its own) changes the types and moves ops. What one op reads first is filled together, by one pipe. The view must allow
a map (analysis/tma.py), the tile must lie in its buffer as boxes lie (the buffer's layout is changed if its readers take that),
and nothing written may be what is read: the engine doesn't see a thread's stores without fences of its own. What rounds f32 to
tf32 on the way the engine does, too.

Loads of a loop that have one number `in_turn` (`split-operands`) fill one ring in the order in which they are read.

A tile that goes to several buffers, as it is and transposed (attention's gradients multiply Q, K and dO in both roles), comes once:
its ring's stage is each of these buffers, by other names of the same elements. So does one operand of all products of a batch: bits
of the batch have offset 0 in what its products read.
"""
from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from xdsl.dialects.builtin import IntAttr, StringAttr, TensorType, UnitAttr, i32
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tileiras.analysis.axis import AxisAnalysis
from tileiras.analysis.dot_chains import SUMS
from tileiras.analysis.layout_rules import DOTS, RENAMES, multiply_add_reader, operand_fragments
from tileiras.analysis.program_slice import loop_around
from tileiras.analysis.reshapes import index_bits
from tileiras.analysis.shared_lives import SharedLives
from tileiras.analysis.tensor_dots import changes_operands, described_of, is_paired
from tileiras.analysis.tma import (
    REPEATS,
    MapFacts,
    Refusal,
    for_products,
    in_forms,
    is_brought,
    is_unwritten,
    map_facts,
    rounded_by,
)
from tileiras.dialects import nv_tileas
from tileiras.dialects.element import element_bytes
from tileiras.dialects.location_text import location_text
from tileiras.dialects.nv_tileaa import MemTokenType, int_array
from tileiras.dialects.nv_tileas import EXITS, BufferType, PipeType, RingType, SharedLayoutAttr, TensorMapType, layout_of
from tileiras.errors import CompileError
from tileiras.layout.descriptors import part_of
from tileiras.layout.linear import LinearLayout, dim_bits
from tileiras.layout.operands import is_described, ldmatrix_plan, multiply_add_passes
from tileiras.layout.shared import CanonicalTile, SharedLayout, bank_conflicts, vector_width
from tileiras.schedule.names import DEPTH, told
from tileiras.transforms.stage_tiles import is_staged, staged_ops, unstage
from tileiras.transforms.structure import ends_in, holder_in, is_movable, move_up, needed_of, only_store
from tileiras.transforms.tma_common import (
    Refused,
    after,
    before,
    coordinates,
    erase,
    view_of_parts,
    wavefronts,
)
from tileiras.transforms.tma_stores import lower_stores

LOAD, STORE = "nv_tileas.tiled_load", "nv_tileas.tiled_store"
STORE_SHARED, LOAD_SHARED = "nv_tileas.store_shared", "nv_tileas.load_shared"
BETWEEN = frozenset({LOAD, STORE_SHARED, "nv_tileas.alloc_tensor", *RENAMES})
"""What stands between products that the tensor core does one behind the other, besides arithmetic with scalars."""


@dataclass
class Way:
    """What lies between a load and a buffer (`moves`, the last one first), the buffer, and who reads it. `rounded`: to which kind
    of number the elements are rounded on the way."""

    moves: list[Operation]
    store: Operation
    alloc: Operation
    rounded: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        t: Any = self.alloc.results[0].type
        shape: tuple[int, ...] = t.layout.data.shape
        return shape

    @property
    def is_repeated(self) -> bool:
        return any(op.name == REPEATS for op in self.moves)

    @property
    def readers(self) -> list[Operation]:
        return [use.operation for use in self.alloc.results[0].uses if use.operation is not self.store]


@dataclass
class Site:
    """A tile on its way: the load, the buffers that it goes to, how the engine puts it there, and who reads it; `slices`: of the
    ring, in the place of each buffer."""

    load: Operation
    ways: list[Way]
    facts: MapFacts
    readers: list[Operation] = field(default_factory=list)
    slices: list[Operation] = field(default_factory=list)

    @property
    def allocs(self) -> list[Operation]:
        return [way.alloc for way in self.ways]


@dataclass
class Fill:
    """Tiles that fill a stage together, and the op that reads it first."""

    first: Operation
    sites: list[Site]

    @property
    def num_bytes(self) -> int:
        return sum(site.facts.tile.num_bytes for site in self.sites)


def run(module: Operation, context: Any) -> None:
    """Replace loads and stores, in place. Remarks tell of all accesses."""
    for func in module.regions[0].block.ops:
        if func.name != "nv_tileas.func":
            continue
        refused: list[Refused] = []
        asked: list[tuple[Operation, bool]] = []
        if context.remarks is not None:
            from tileiras.transforms.hint_remarks import asked_of_tma, ignore_latency, report_tma
            from tileiras.transforms.layout_remarks import NOT_STORES, UNSCHEDULED, report_accesses
            asked = asked_of_tma(func)
            accesses = [op for op in func.walk() if op.name in (LOAD, STORE)]
        engine = context.uses("tma") and context.target.has_tma
        if engine:
            function = _Function(func, context, context.target.fast_multicast)
            refused = function.run()
            if context.remarks is not None:
                refused += function.without_map(accesses, {op for op, _ in refused})
        if context.remarks is not None:
            report_accesses(func, context.remarks, refused)
            for op in accesses:         # those that the copy engine makes and no schedule has looked at
                if op.parent is None and told(op, DEPTH) is None:
                    ignore_latency(func, op, UNSCHEDULED if op.name == LOAD else NOT_STORES, context.remarks)
            report_tma(func, asked, dict(refused), "" if engine else f"{context.target.name} has no copy engine", context.remarks)


class _Function:
    def __init__(self, func: Operation, context: Any, shares: bool) -> None:
        self.func, self.target, self.shares = func, context.target, shares
        self._axis: AxisAnalysis | None = None

    @property
    def axis(self) -> AxisAnalysis:
        if self._axis is None:
            self._axis = AxisAnalysis(self.func)
        return self._axis

    @cached_property
    def written(self) -> Any:
        from tileiras.analysis.agent_parts import Written  # few kernels write before they load

        return Written(self.func)

    def run(self) -> list[Refused]:
        """Replace what can be; the accesses that stay, and why."""
        refused: list[Refused] = []
        together: dict[tuple[Block, Operation], list[Site]] = {}
        lives = SharedLives(self.func)
        for op in [op for op in self.func.walk() if op.name == "nv_tileas.alloc_tensor"]:
            site = self.site(op)
            if isinstance(site, Site):
                block = site.load.parent
                assert block is not None
                first = ends_in(block, site.readers)[0]
                together.setdefault((block, first), []).append(site)
            elif site is not None:
                refused.append(site)
        for block, fills in _in_turn(_joined(together)):
            if not _lower(self.func, block, fills, self.target, self.shares, lives):
                refused += [(site.load, [Refusal("shared memory has no room for the pipe's barriers")])
                            for fill in fills for site in fill.sites]
        refused += lower_stores(self.func, lambda: self.axis, self.target, lives, self._is_behind_told)
        for op, _ in refused:
            if is_staged(op) and (staged := staged_ops(op)) is not None:
                unstage(op, staged)
        if "cluster" in self.func.properties:
            _check_pairs(self.func)
        return refused

    def _is_behind_told(self, access: Operation) -> bool:
        """Whether what writes comes before an access by way of something that all agents are told, outside of its loop
        (`tell-agents`): who waits for the pipe waits for that."""
        loop = loop_around(access)
        inside = loop is not None and any(map(loop.is_ancestor, self.written.told))
        return bool(self.written.told) and not inside and not self.written.waits_for_untold(access)

    def without_map(self, accesses: list[Operation], known: set[Operation]) -> list[Refused]:
        """Of the accesses that threads make, those whose views allow no map, and why; not those of `known`."""
        found: list[Refused] = []
        for op in accesses:
            tile = None if op.parent is None else op.results[0] if op.name == LOAD else op.operands[0]
            if tile is not None and op not in known and isinstance(tile.type, TensorType):
                facts = map_facts(op, self.axis)
                if not isinstance(facts, MapFacts):
                    found.append((op, facts))
        return found

    # --- which -----------------------------------------------------------------------------------------------------

    def site(self, alloc: Operation) -> Site | Refused | None:
        """The tile that is loaded into a buffer, if the engine can bring it; why it can't; None for buffers of other things."""
        way = way_to(alloc)
        if way is None:
            return None
        load = (way.moves[-1] if way.moves else way.store).operands[0].owner
        if not isinstance(load, Operation) or load.name != LOAD:
            return None
        if {"slice", "rounds", "owners"} & way.store.properties.keys() or "owners" in load.properties:
            return load, [Refusal("only a part of the tile goes to shared memory at a time")]
        ways = _ways(load)
        if ways is None or any(other.rounded != way.rounded for other in ways):
            return load, [Refusal("the tile is used from registers too")]
        if ways[0].alloc is not alloc:
            return None         # comes with the first
        if any(load.parent is not op.parent for way in ways for op in (way.store, way.alloc)):
            return load, [Refusal("the load stands outside of the loop that uses it")]
        facts = map_facts(load, self.axis)
        if not isinstance(facts, MapFacts):
            return load, facts
        if not is_unwritten(load) and not self._is_behind_told(load):
            return load, [Refusal("a store to global memory comes before the load in its token's order")]
        if way.rounded:
            facts = replace(facts, element=way.rounded)
        readers = [reader for way in ways for reader in way.readers]
        t: Any = alloc.results[0].type
        if is_staged(load):
            found = next((f for f in in_forms(facts) if f.tile.layout == t.layout.data), None)
        else:
            found = next((f for f in for_products(facts)
                          if all(takes(r, way.alloc, buffer_layout(f, way.moves, way.shape), self.target.has_ldmatrix_bytes)
                                 for way in ways for r in way.readers)), None)
        if any(way.is_repeated and r.name not in DOTS for way in ways for r in way.readers):
            return load, [Refusal("threads read the tile from shared memory several times over")]
        several = len(ways) > 1 or ways[0].is_repeated
        if any(changes_operands(r) and (several or r.parent is not load.parent) for r in readers):
            return load, [Refusal("a product in a loop may give its elements the signs of their scales, each time anew")]
        if not all(way.readers for way in ways) or found is None:
            return load, [Refusal("what reads the tile from shared memory wants it in another order than the copy engine's")]
        block = load.parent
        assert block is not None
        last = ends_in(block, readers)[1]
        if _leaves_between(load, last):
            return load, [Refusal("a break, continue or return may stand between the load and its use")]
        return Site(load, ways, found, readers)


def _check_pairs(func: Operation) -> None:
    """Threads of two CTAs don't meet: what a pair multiplies must be the copy engine's. Raises CompileError."""
    for op in func.walk():
        if is_paired(op) and not all(isinstance(v.owner, Operation) and v.owner.name == "nv_tileas.extract_slice"
                                     for v in op.operands if isinstance(v.type, BufferType)):
            raise CompileError("the copy engine can't bring what a pair of CTAs multiplies: leave out the hint num_cta_in_cga",
                               location_text(op))


def way_to(alloc: Operation) -> Way | None:
    """How a tile comes to a buffer that is written once."""
    store = only_store(alloc)
    if store is None or not isinstance(alloc.results[0].type, BufferType):
        return None
    moves: list[Operation] = []
    value = store.operands[0]
    rounded = ""
    while isinstance(value.owner, Operation) and is_brought(value.owner):
        rounded = rounded_by(value.owner) or rounded
        moves.append(value.owner)
        value = value.owner.operands[0]
    return Way(moves, store, alloc, rounded)


def _ways(load: Operation) -> list[Way] | None:
    """All buffers that a tile goes to, in the order in which they are written; None where it goes elsewhere, too."""
    found: list[Way] = []
    pending = [load.results[0]]
    while pending:
        for use in pending.pop().uses:
            op = use.operation
            if is_brought(op):
                pending.append(op.results[0])
                continue
            alloc = op.operands[1].owner if op.name == STORE_SHARED and use.index == 0 else None
            way = way_to(alloc) if isinstance(alloc, Operation) else None
            if way is None or way.store is not op or op.parent is not load.parent or \
                    {"slice", "rounds", "owners"} & op.properties.keys():
                return None
            found.append(way)
    block = load.parent
    assert block is not None
    return sorted(found, key=lambda way: block.get_operation_index(way.store)) if len(found) > 1 else found


def _joined(together: dict[tuple[Block, Operation], list[Site]]) -> dict[tuple[Block, Operation], list[Site]]:
    """Tiles for registers that are on their way at the same time come by one pipe, whoever reads them first. So do those of sums
    that the tensor core adds to one behind the other, and the operands of one of which threads read the one right before."""
    found: dict[tuple[Block, Operation], list[Site]] = {}
    last: dict[Block, Operation] = {}
    place = {op: i for block in {block for block, _ in together} for i, op in enumerate(block.ops)}
    for (block, first), sites in sorted(together.items(), key=lambda item: place[item[0][1]]):
        into = last.get(block)
        if all(is_staged(site.load) for site in sites):
            if into is not None and max(place[site.load] for site in sites) < place[into]:
                found[block, into] += sites
                continue
            last[block] = first
        elif (into := _read_before(block, first)) is not None and (block, into) in found and \
                (into.name != LOAD_SHARED or any(first in site.readers for site in found[block, into])) and \
                not any("in_turn" in site.load.properties for site in (*sites, *found[block, into])) and _load_before(into, sites):
            found[block, into] += sites
            continue
        found[block, first] = sites
    return found


def _read_before(block: Block, product: Operation) -> Operation | None:
    """The first of a loop's products in front of this one, where they are sums that the tensor core does by itself, one behind the
    other, or of the reads by threads there: each by its own pipe they would take as many waits an iteration."""
    if not _is_sum_by_itself(product):
        return None
    found, op = None, product.prev_op
    while op is not None:
        if _is_sum_by_itself(op) or op.name == LOAD_SHARED:
            found = op
        elif not _is_between(op):
            break
        op = op.prev_op
    return found


def _load_before(product: Operation, sites: list[Site]) -> bool:
    """Have tiles loaded in front of a product, where what lies between allows it: a stage is whole when it is waited for."""
    block = product.parent
    assert block is not None
    place = {op: i for i, op in enumerate(block.ops)}
    late = [site.load for site in sites if place[site.load] > place[product]]
    between = {op for op, i in place.items() if i >= place[product]}
    needed = [needed_of(load, between, is_movable) for load in late]
    if any(ops is None for ops in needed):
        return False
    moved: set[Operation] = set()
    for load, ops in zip(late, needed):
        moved.update(move_up(load, (ops or set()) - moved, place, product))
    return True


def _is_between(op: Operation) -> bool:
    return op.name in BETWEEN or (op.name.startswith("arith.") and not any(isinstance(r.type, TensorType) for r in op.results))


def _is_sum_by_itself(op: Operation) -> bool:
    """Whether an op is a product that a loop carries, of operands that the tensor core reads."""
    return op.name in DOTS and described_of(op) is not None and isinstance(op.operands[SUMS], BlockArgument)


def _in_turn(together: dict[tuple[Block, Operation], list[Site]]) -> list[tuple[Block, list[Fill]]]:
    """What each pipe is filled with in an iteration: once, or in turn with what loads of one number bring, as long as each is read
    before the next one is (`split-operands`). These are then loaded where they are read."""
    found: list[tuple[Block, list[Fill]]] = []
    turns: dict[tuple[Block, int], list[Fill]] = {}
    for (block, first), sites in together.items():
        numbers = {site.load.properties.get("in_turn") for site in sites}
        number: Any = numbers.pop() if len(numbers) == 1 else None
        if number is None or any(r.uses for site in sites for r in site.load.results[1:]):
            found.append((block, [Fill(first, sites)]))
        else:
            turns.setdefault((block, number.data), []).append(Fill(first, sites))
    for (block, _), fills in turns.items():
        place = block.get_operation_index
        fills.sort(key=lambda fill: place(fill.first))
        turn: list[Fill] = []
        for fill in fills:
            last = max((place(holder_in(block, r)) for site in turn[-1].sites for r in site.readers), default=-1) if turn else -1
            if not turn or (fill.num_bytes == turn[0].num_bytes and last < place(fill.first)):
                turn.append(fill)
            else:
                found.append((block, [fill]))
        found.append((block, turn))
    return found


def takes(reader: Operation, alloc: Operation, layout: SharedLayout, turns_bytes: bool) -> bool:
    """Whether an op reads a buffer in this layout as well as in the one it has. `turns_bytes`: as of `ldmatrix_plan`."""
    t: Any = alloc.results[0].type
    old, size = t.layout.data, element_bytes(t.element_type)
    if layout == old:
        return True
    if reader.name == LOAD_SHARED:
        result = reader.results[0]
        if "rounds" in reader.properties or not isinstance(result.type, TensorType) or result.type.get_shape() != layout.shape:
            return False
        wanted, write = layout_of(result), only_store(alloc)
        assert write is not None
        now = wavefronts(wanted, old, size) + wavefronts(layout_of(write.operands[0]), old, size)
        return wavefronts(wanted, layout, size) <= now
    if reader.name not in DOTS:
        return False
    if "atom" not in reader.properties:
        acc, rank = layout_of(reader.results[0]), len(layout.shape)
        return alloc.results[0] in reader.operands[:2] and all(
            _is_read_as_fast(multiply_add_reader(reader, layout.shape, rank - 1 - number, acc)[0], old, layout, size)
            for number, v in enumerate(reader.operands[:2]) if v is alloc.results[0])
    described = described_of(reader)
    fragments = operand_fragments(reader, layout_of(reader.results[0]).num_warps)
    for number, (v, fragment) in enumerate(zip(reader.operands, fragments)):
        if v is not alloc.results[0]:
            continue
        if described is not None:
            k_dim = len(layout.shape) - 1 - number
            if number == 0 and described.run:
                return False
            if not is_described(layout, size, k_dim, described.contiguous(number == 0)):
                return False
        elif fragment is None or not (_reads_as_well(fragment, old, layout, size, turns_bytes) or
                                      _costs_no_more(fragment, alloc, old, layout, size)):
            return False
    return alloc.results[0] in reader.operands[:2]


def _is_read_as_fast(side: LinearLayout, old: SharedLayout, new: SharedLayout, size: int) -> bool:
    return multiply_add_passes(side, new, size) <= multiply_add_passes(side, old, size)


def _costs_no_more(fragment: LinearLayout, alloc: Operation, old: SharedLayout, new: SharedLayout, size: int) -> bool:
    """Whether a product's reads of what the engine brings take the port of shared memory no longer than all that threads do
    otherwise: their loads, which go by the same port, stores of as many bytes, and reads."""
    write = only_store(alloc)
    assert write is not None
    brought = 2 * wavefronts(layout_of(write.operands[0]), old, size)
    return wavefronts(fragment, new, size) <= wavefronts(fragment, old, size) + brought


def _reads_as_well(fragment: Any, old: SharedLayout, new: SharedLayout, size: int, turns_bytes: bool) -> bool:
    before, after = (ldmatrix_plan(fragment, layout, size, turns_bytes) is not None for layout in (old, new))
    return after if before != after else after or (
        vector_width(fragment, new, size) >= vector_width(fragment, old, size)
        and bank_conflicts(fragment, new, size) <= bank_conflicts(fragment, old, size))


def _leaves_between(first: Operation, last: Operation) -> bool:
    """Whether control may leave the block between two of its ops (the first before the last)."""
    op: Operation | None = first
    while op is not None:
        if op.regions and any(inner.name in EXITS and _in_block_of(inner, op) for inner in op.walk()):
            return True
        if op is last:
            return False
        op = op.next_op
    return False


def _in_block_of(leaving: Operation, op: Operation) -> bool:
    """Whether a break, continue or return inside of `op` leads out of it: not if it is of a loop inside."""
    if leaving.name == "nv_tileas.return":
        return True
    parent = leaving.parent_op()
    while parent is not None:
        if parent.name in ("scf.for", "nv_tileas.loop"):
            return False
        if parent is op:
            return True
        parent = parent.parent_op()
    return True


def buffer_layout(facts: MapFacts, moves: list[Operation], shape: tuple[int, ...]) -> SharedLayout:
    """Where the elements of a tile, behind moves (the last one first), lie when the engine has put the view's tile there."""
    bases = facts.tile.layout.bases
    count = sum(bits for _, bits in dim_bits(shape))
    return SharedLayout(shape, tuple(0 if b is None else bases[b] for b in index_bits(moves, count)))


# --- what becomes of them --------------------------------------------------------------------------------------------


def _lower(func: Operation, block: Block, fills: list[Fill], target: Any, shares: bool, lives: SharedLives) -> bool:
    """Replace what is read by a pipe of one stage, filled once or in turn. False, and nothing is done, if the rings don't fit.
    `shares`: CTAs that load the same load parts of it for each other."""
    sites = [site for fill in fills for site in fill.sites]
    first = fills[0].first
    in_turn = len(fills) > 1
    last_load = ends_in(block, [site.load for site in sites])[1]
    outer = holder_in(func.regions[0].block, first if in_turn else last_load)
    pipe = before(outer, nv_tileas.CreatePipeline.make([], [PipeType(StringAttr("tma"), IntAttr(1))], {
        "bytes": IntAttr(fills[0].num_bytes), "consumers": func.properties["num_warps"],
        "once": UnitAttr() if loop_around(last_load) is None else None,
        "pair": UnitAttr() if any(is_paired(reader) for site in sites for reader in site.readers) else None}), first).results[0]
    rings = [_ring(site, outer) for site in fills[0].sites]
    waits = []
    for fill in fills:
        ordered = any(r.uses for site in fill.sites for r in site.load.results[1:])
        waits.append(before(after(last_load) if ordered else fill.first, nv_tileas.ConsumerWait.make([pipe], [i32]), fill.first))
        for site, ring in zip(fill.sites, rings):
            _read_stage(site, ring, waits[-1])
    made_and_left = [pipe.owner, *(ring.owner for ring in rings), *(alloc for site in sites for alloc in site.allocs)]
    lives.update(made_and_left)     # type: ignore[arg-type]
    if lives.size_without(alloc for site in sites for alloc in site.allocs) > target.most_static_smem:
        for site in sites:
            for way, slice_ in zip(site.ways, site.slices):
                slice_.results[0].replace_all_uses_with(way.alloc.results[0])
                erase(slice_)
        erase(*(ring.owner for ring in rings), *waits, pipe.owner)  # type: ignore[arg-type]
        lives.update(made_and_left)     # type: ignore[arg-type]
        return False
    peers = {0}
    for fill, start in zip(fills, waits if in_turn else [last_load]):
        index = before(start, nv_tileas.ProducerAcquire.make([pipe], [i32]), fill.sites[0].load).results[0]
        for site, ring in zip(fill.sites, rings):
            peers |= _load_stage(site, ring, pipe, index, start, shares)
        before(start, nv_tileas.ProducerCommit.make([pipe], []), fill.sites[-1].load)
        last = ends_in(block, [r for site in fill.sites for r in site.readers])[1]
        before(after(last), nv_tileas.ConsumerRelease.make([pipe], []), last)
    if len(peers) > 1:
        pipe.owner.properties["peers"] = int_array(sorted(peers))    # type: ignore[union-attr]
    for site in sites:
        _remove(site)
    lives.update(made_and_left)     # type: ignore[arg-type]
    return True


def _load_stage(site: Site, ring: SSAValue, pipe: SSAValue, index: SSAValue, start: Operation, shares: bool) -> set[int]:
    """The copy of a tile to a stage of its ring, before `start`. What the ranks of CTAs that it is for differ in."""
    buffer, view = _buffers(site)[0], site.load.view  # type: ignore[attr-defined]
    slot = before(start, nv_tileas.ExtractSlice.make([ring, index], [buffer]), site.load)
    part = shared_part(site.load, site.facts.tile) if shares else None
    if part is not None:
        view = before(start, view_of_parts(view, part[1]), site.load).results[0]
    made = nv_tileas.MakeTiledTmaDesc.make([view], [TensorMapType.of(site.facts.element, part[1] if part else site.facts.tile)],
                                           {"nan": UnitAttr() if site.facts.nan else None})
    before(start, made, site.load)
    coords = coordinates(site.load, start)
    copy = nv_tileas.TmaLoad.make([made.results[0], coords, slot.results[0], pipe, index], [])
    copy.attributes.update(site.load.attributes)        # what the schedule says of the load
    before(start, copy, site.load)
    if part is None:
        return set()
    copies: Any = site.load.properties["cta_copies"]
    copy.properties.update({"cta_copies": copies, "shared": int_array(part[0])})
    return set(subsets(copies.data))


def shared_part(load: Operation, tile: CanonicalTile) -> tuple[tuple[int, ...], CanonicalTile] | None:
    """What a CTA loads of a tile that others load too: how the tile is cut, and a part. None: all of it."""
    copies: Any = load.properties.get("cta_copies")
    if copies is None or copies.data & copies.data + (copies.data & -copies.data):
        return None         # bits of a rank that aren't neighbours don't number parts
    return part_of(tile, 1 << copies.data.bit_count())


def subsets(mask: int) -> list[int]:
    """All numbers whose bits are among a mask's."""
    return [n for n in range(mask + 1) if not n & ~mask]


def _buffers(site: Site) -> list[BufferType]:
    """What a tile's stage is to each of its ways' readers."""
    t: Any = site.allocs[0].results[0].type
    return [BufferType(t.element_type, SharedLayoutAttr(buffer_layout(site.facts, way.moves, way.shape))) for way in site.ways]


def _ring(site: Site, outer: Operation) -> SSAValue:
    """A ring of one stage before `outer`."""
    return before(outer, nv_tileas.AllocTensor.make([], [RingType(_buffers(site)[0], IntAttr(1))]), site.load).results[0]


def _read_stage(site: Site, ring: SSAValue, full: Operation) -> None:
    """Who used a buffer uses the stage that `full` waits for."""
    place = after(full)
    for way, buffer in zip(site.ways, _buffers(site)):
        slot = before(place, nv_tileas.ExtractSlice.make([ring, full.results[0]], [buffer]), site.load)
        site.slices.append(slot)
        for use in [use for use in way.alloc.results[0].uses if use.operation is not way.store]:
            use.operation.operands[use.index] = slot.results[0]


def _remove(site: Site) -> None:
    """The load goes, and what led from it to the buffer. What its token ordered is behind the wait."""
    token = next((v for v in site.load.operands if isinstance(v.type, MemTokenType)), None)
    for result in site.load.results[1:]:
        if result.uses:
            if token is None:
                token = before(site.load, nv_tileas.CreateMemToken.make([], [MemTokenType()]), site.load).results[0]
            result.replace_all_uses_with(token)
    for way in site.ways:
        erase(way.store, way.alloc)
    for op in [op for way in site.ways for op in way.moves]:
        if op.parent is not None and op.results[0].first_use is None:
            erase(op)
    erase(site.load)
