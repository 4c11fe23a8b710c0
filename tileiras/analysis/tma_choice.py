"""Which tiles would the copy engine move for less than threads? What it may move (`movable_in`), and for how many issue slots.

The engine needs a trip through shared memory, a barrier's set-up and a wait; threads need an address, a comparison with bounds and
an instruction for as many bytes as are known to be aligned, and hold tiles as memory's rows lie. So the engine pays for tiles
whose rows aren't known to be whole chunks of 16 bytes, for those that are large, and for those that are wanted in other threads
than rows would put them. Its own pace counts too: between two boxes it takes a while, however small they are. What goes
to a product as the engine can bring it isn't asked for here.
"""
from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.axis import AxisAnalysis
from tileiras.analysis.dot_chains import SUMS
from tileiras.analysis.layout_cost import FETCH_SLOTS, SECTOR_BYTES, shared_access
from tileiras.analysis.layout_rules import DOTS, MOVES
from tileiras.analysis.program_slice import function_of, loaded_bytes, loop_around
from tileiras.analysis.tensor_dots import umma_of
from tileiras.analysis.tma import MapFacts, in_forms, is_brought, is_unwritten, map_facts, needs_fill, orders_itself
from tileiras.analysis.warpgroup_dots import wgmma_of
from tileiras.dialects import arith
from tileiras.dialects.element import tile_bytes
from tileiras.dialects.nv_tileas import LOOPS
from tileiras.layout.convert import BARRIER_SLOTS, PASS_SLOTS
from tileiras.layout.descriptors import boxes, part_of
from tileiras.layout.linear import LinearLayout
from tileiras.layout.operands import stmatrix_plan
from tileiras.layout.shared import CanonicalTile, access
from tileiras.layout.slices import part_in_registers

LOAD = "nv_tileas.tiled_load"
STORES = ("nv_tileas.tiled_store", "nv_tileas.tiled_atomic_rmw")
GATHERS = (LOAD, "nv_tileas.load")
MAX_FOLLOWED = 64
"""Tiles that come of a loaded one, at most, to find what it leads to."""
BOX_SLOTS = 200
"""An SM's slots while the engine takes one box: 50 cycles of four schedulers (machine/latencies.py)."""
START_SLOTS = BARRIER_SLOTS + 30
"""A pipe's set-up, the threads' meeting behind it, and the first wait."""
WAIT_SLOTS = 10
"""A wait and a release in a loop."""
STORE_SLOTS = 2 * BARRIER_SLOTS + 64
"""A fence, a meeting, the boxes' instructions, and a wait until they are read, for which the block stays longer."""
FILL_SLOTS = 2
"""A comparison with bounds and a select, of each register, where the view's padding isn't the engine's."""
STORE_FACTOR = 1.5
"""Threads' stores to memory run beside what follows; the engine's begin when all have written, and the block waits for them. Not
behind a loop of products by warpgroups: the next tile's sums, or another block's, want the registers, which threads' stores hold
until memory has taken them, and the engine's run beside it (a persistent product of 128x128x64 into f32, an H200: 219 us by
threads, the original's 196 by the engine; by a block a tile, 4096 cubed, predicted for an H100: 235.0 us, 230.9 by the engine)."""
LEAST_STREAMED = 2048
"""Bytes that an iteration of a loop loads for a pipe to be worth its waits."""
LEAST_BESIDE = LEAST_STREAMED
"""Bytes of a tile that comes beside a product's operands: less is carried in registers (`prefetch-to-registers`)."""
LEAST_SHARE = 0.02
"""Of the threads' slots, that the engine must save where there is no loop: threads begin with the first rows that arrive, behind a
pipe all wait for the last box."""
MOST_AT_ONCE, MOST_STAGED = 64 * 1024, 128 * 1024
"""Bytes of a tile that threads exchange at once beside operands' buffers, and that has room beside these whole."""
EXPOSED_SLOTS, MOST_EXPOSED = 600, 4096
"""What memory takes to answer, and bytes of a tile for which that counts: what sums are scaled by, or what is added to them.
Threads ask when the sums are there, the engine as soon as a ring's last stage is filled; larger tiles' buffers take stages from
the ring (bias and GELU of 64x64x64, 4096x4096 by 1024, H100: 131.9 us, 120.4 by the engine; 64 rows of it 13.6 and 12.9)."""
SLOTS = 2
"""For pieces of a tile: the engine reads one while threads write the other."""
PIECE_BYTES = 128
"""Of a row: the widest swizzle's."""
MATRICES = 4
"""That one stmatrix stores."""


@dataclass(frozen=True)
class Offer:
    """The form in which the engine would move a tile, and for how many slots a warp, without what a pipe takes."""

    facts: MapFacts
    slots: float


def movable_in(func: Operation, room: int) -> dict[Operation, MapFacts]:
    """The loads and stores of tiles between registers and views that the engine could make. Operands of products come to shared
    memory, which has so much `room`, anyway; of these, it can be asked what threads that use them, too, like best
    (`is_for_both`)."""
    found: dict[Operation, MapFacts] = {}
    large = _of_large_streams(func, room)
    axis: AxisAnalysis | None = None
    for op in func.walk():
        if op.name != LOAD and op.name not in STORES:
            continue
        tile = op.results[0] if op.name == LOAD else op.operands[0]
        if not isinstance(tile.type, TensorType):
            continue
        both = op.name == LOAD and is_for_both(op)
        if not both and (not _may_move(op, tile) or (op.name == LOAD and loop_around(op) in large)):
            continue
        axis = axis or AxisAnalysis(func)
        facts = map_facts(op, axis, filled=not both)
        if isinstance(facts, MapFacts):
            found[op] = facts
    return found


def _may_move(op: Operation, tile: SSAValue) -> bool:
    if op.name in STORES:
        return (not any(r.uses for r in op.results) and is_unwritten(op)) or orders_itself(op)
    return may_come(op) and not _begins_sums(tile) and (tile_bytes(tile.type) >= LEAST_BESIDE or not _beside_product(op))


def _begins_sums(tile: SSAValue) -> bool:
    """Whether a tile is only what products start their sums with, in registers. Beside a ring its buffer would keep another block
    from the SM (4096 cubed, f16 added to f32 in tiles of 128 x 128, H100: 257 us by the engine, 234 by threads)."""
    pending, begins = [tile], False
    while pending:
        for use in pending.pop().uses:
            op: Any = use.operation
            if op.name in DOTS and use.index == SUMS and umma_of(op) is None:
                begins = True
            elif op.name == "scf.for":
                pending.append(op.carried_args()[use.index - arith.BOUNDS])
            elif isinstance(op, arith.Convertf):
                pending.append(op.results[0])
            else:
                return False
    return begins


def may_come(load: Operation) -> bool:
    """Whether a loaded tile may be brought for threads alone, as far as its uses and the memory's writers go."""
    tile = load.results[0]
    return tile.first_use is not None and not _feeds_product(tile) and is_unwritten(load) and not _places_operands(tile)


def is_for_both(load: Operation) -> bool:
    """Whether products of its block read a loaded tile as it is, and threads use it, too (`read-operands`)."""
    pending = [load.results[0]]
    products = threads = False
    while pending:
        for use in pending.pop().uses:
            op = use.operation
            if op.name in MOVES:
                pending.append(op.results[0])
            elif op.name not in DOTS:
                threads = True
            elif op.parent is not load.parent or use.index > 1:
                return False
            else:
                products = True
    return products and threads and is_unwritten(load)


def is_small_stream(op: Operation, has_products: bool) -> bool:
    """Whether an access is a load in a loop whose iterations load so little that a wait and a release each would take longer than
    the tiles: threads ask for several iterations' at once (`unroll-streams`). Or one that is as small, outside of loops, in a
    function without products: a pipe's set-up and the engine's way take longer than the threads' own loads."""
    if op.name != LOAD:
        return False
    loop, tile = loop_around(op), op.results[0].type
    if loop is None:
        return isinstance(tile, TensorType) and tile_bytes(tile) < LEAST_STREAMED and not has_products
    return loaded_bytes(loop.walk(), LOAD) < LEAST_STREAMED


def _of_large_streams(func: Operation, room: int) -> set[Operation]:
    """The loops of a function without products whose iterations load more than half of shared memory: each would wait for its own
    tiles behind the one before. Threads ask for as much as their registers hold (sums of two arrays by tiles of 16x1024, 256 rows,
    four blocks, B200: 47.2 us by the engine, 19.5 by threads; H100 42.5 and 14.1)."""
    found: set[Operation] = set()
    for op in func.walk():
        if op.name in DOTS:
            return set()
        if op.name in LOOPS and 2 * loaded_bytes(op.regions[0].block.ops, LOAD) > room:
            found.add(op)
    return found


def _feeds_product(tile: SSAValue) -> bool:
    """Whether a tile goes to a product as it is, repeated, or rounded as the engine does: the product's ring brings it."""
    pending = [tile]
    while pending:
        for use in pending.pop().uses:
            op = use.operation
            if op.name in DOTS and use.index != SUMS:
                return True
            if is_brought(op):
                pending.append(op.results[0])
    return False


def _places_operands(tile: SSAValue) -> bool:
    """Whether a loop with products gathers tiles by what is loaded here: the agent that loads them computes their places, too, and
    can't wait for another agent's copy."""
    pending, seen = [tile], {tile}
    while pending and len(seen) <= MAX_FOLLOWED:
        for use in pending.pop().uses:
            op = use.operation
            if op.name in GATHERS and _beside_product(op):
                return True
            if getattr(op, "PURE", False):
                more = [v for v in op.results if isinstance(v.type, TensorType) and v not in seen]
                seen.update(more)
                pending += more
    return False


def _beside_product(op: Operation) -> bool:
    """Whether a product stands in the same loop."""
    loop = loop_around(op)
    return loop is not None and any(inner.name in DOTS for inner in loop.walk())


def _is_behind_warpgroups(op: Operation) -> bool:
    """Whether an access stands beside loops of products by warpgroups, in a loop or in the function."""
    loop = loop_around(op)
    scope = loop or function_of(op)
    return any(wgmma_of(inner) is not None and loop_around(inner) is not loop for inner in scope.walk())


def is_exchanged_in_rounds(op: Operation, facts: MapFacts, layout: LinearLayout) -> bool:
    """Whether threads would need several rounds to exchange a tile's elements, where the engine takes it whole, or in a loop in
    pieces of it."""
    size = tile_bytes((op.results[0] if op.name == LOAD else op.operands[0]).type)
    if size > MOST_STAGED:
        return op.name in STORES and loop_around(op) is not None and pieces(offer(op, facts, layout).facts.tile, layout) > SLOTS
    return size > MOST_AT_ONCE


def pieces(tile: CanonicalTile, layout: LinearLayout, fewest: int = SLOTS + 1) -> int:
    """Into how many pieces, of PIECE_BYTES of a row each and `fewest` at least, a tile can go to its buffers; 1: into none. A
    thread has to hold its elements of each piece in registers of their own."""
    count = tile.shape[tile.major] * tile.bits // 8 // PIECE_BYTES
    if count < fewest or part_of(tile, count) is None or tuple(layout.shape) != tile.shape:
        return 1
    return count if part_in_registers(layout, tile.major, tile.shape[tile.major] // count) else 1


def exposed(accesses: Collection[Operation]) -> set[Operation]:
    """Those that load small tiles behind a loop of products, in the same block."""
    found: set[Operation] = set()
    for block in {op.parent: None for op in accesses if op.name == LOAD}:
        behind = False
        for op in block.ops if block is not None else ():
            if op.name in LOOPS:
                behind = behind or any(inner.name in DOTS for inner in op.walk())
            elif behind and op.name == LOAD and op in accesses and tile_bytes(op.results[0].type) <= MOST_EXPOSED:
                found.add(op)
    return found


def offer(op: Operation, facts: MapFacts, layout: LinearLayout) -> Offer:
    """The best form for a tile that threads have in `layout` or want so."""
    waits = op.name in STORES and not _is_behind_warpgroups(op)
    found = _offer(op.name in STORES, STORE_FACTOR if waits else 1, facts, layout)
    if op.name == LOAD and needs_fill(op):
        return Offer(found.facts, found.slots + FILL_SLOTS * layout.num_regs)
    return found


@lru_cache(maxsize=2048)
def _offer(stores: bool, factor: float, facts: MapFacts, layout: LinearLayout) -> Offer:
    offers = [Offer(form, factor * (transfer(form.tile, layout) + _by_threads(form.tile, layout, stores)))
              for form in in_forms(facts)]
    return min(offers, key=lambda found: found.slots)


def transfer(tile: CanonicalTile, layout: LinearLayout) -> float:
    """A warp's share of what the engine and memory take, side by side."""
    plan = boxes(tile)
    row = min(tile.shape[tile.major] * tile.bits // 8, tile.num_bytes)
    sectors = tile.num_bytes // row * -(-row // SECTOR_BYTES)
    return max(FETCH_SLOTS * sectors, BOX_SLOTS * len(plan.copies)) / layout.num_warps


def _by_threads(tile: CanonicalTile, layout: LinearLayout, stores: bool) -> float:
    """What threads' own accesses to the buffer take."""
    size = tile.bits // 8
    plan = stmatrix_plan(layout, tile.layout, size) if stores else None
    if plan is None:
        return shared_access(access(layout, tile.layout, size), size)
    matrices = layout.num_regs >> plan.word_bits
    return matrices * PASS_SLOTS + -(-matrices // MATRICES)


def overhead(op: Operation) -> float:
    """Slots of an access by the engine whatever its tile: those of a load are shared by all that one pipe waits for."""
    if op.name in STORES:
        return STORE_SLOTS
    return START_SLOTS if loop_around(op) is None else WAIT_SLOTS


def gain(op: Operation, by_threads: float, by_engine: float) -> float:
    """Slots that the engine saves, those of its overhead not counted."""
    least = 0 if op.name in STORES or loop_around(op) is not None else LEAST_SHARE * by_threads
    return by_threads - by_engine - least


def paying(gains: dict[Operation, float]) -> set[Operation]:
    """Of accesses that would save these slots (each time; an overhead not counted), those that pay for the overhead: stores one
    by one, loads of a block together. In a loop for which the engine brings tiles, others come with them for no wait of their own,
    where threads' copies would be handed on behind a barrier each iteration (a matrix's rows times a vector, f16, 32x128, B200:
    10.2 us, 9.8)."""
    found = {op for op, gain in gains.items() if op.name in STORES and gain > overhead(op)}
    blocks: dict[Any, list[Operation]] = {}
    for op, gain in gains.items():
        if op.name == LOAD and gain > 0:
            blocks.setdefault(op.parent, []).append(op)
    for loads in blocks.values():
        if sum(gains[op] for op in loads) > overhead(loads[0]):
            found.update(loads)
    brought = {op.parent for op in found if op.name == LOAD and loop_around(op) is not None}
    return found | {op for op, gain in gains.items() if op.name == LOAD and op.parent in brought and gain > -BARRIER_SLOTS}
