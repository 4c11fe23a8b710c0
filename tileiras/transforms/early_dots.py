"""`early-dots`: products that the tensor cores compute beside the warps are begun before their neighbours are waited for.

    %s = dot %q, %k                           %s = dot %q, %k
    %p = exp %s                               %d = dot %v, %g
    %o = dot %p, %g, %o0               ->     %p = exp %s
    %d = dot %v, %g                           %o = dot %p, %g, %o0
    %e = subf %d, %x                          %e = subf %d, %x

A product by `wgmma` or `tcgen05` is waited for where its result is needed (overlap-dots, commit-dots). One that needs none of the
results on their way moves up to the first place where somebody would wait, with what its operands follow from: so the tensor
cores have work while the warps wait, and stages of rings that it reads last are given back earlier. Only ops that compute values
move. What it adds to is changed in place: who else reads that must have read it before.

A loop's product into tensor memory, of tiles that threads read, too, and whose sums are for behind the loop, begins before threads
do anything with them, its loads before it (rows of 64x64 that are multiplied as they are by 64x128, and squared and summed, B200:
9.7 us, 8.1 so).

Outside loops, where no ring does it, loads move too (of memory that nobody writes before them, as far as shared memory surely has
room): the copy engine brings a second product's operands while the first one is computed.

By `wgmma` an accumulator takes registers from its product on; it moves where the block's accumulators leave a thread enough.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, SSAValue

from tileiras.analysis.agents import warps_of, words_of
from tileiras.analysis.entry_hints import hint
from tileiras.analysis.layout_rules import unmoved
from tileiras.analysis.program_slice import loop_around
from tileiras.analysis.tensor_dots import adds_up, described_of, umma_of
from tileiras.analysis.tensor_memory import allocated, rows_columns
from tileiras.analysis.warpgroup_dots import is_zero, wgmma_of
from tileiras.dialects.element import tile_bytes
from tileiras.dialects.nv_tileas import EXITS, LOADS
from tileiras.layout.atoms.umma import COLUMNS
from tileiras.schedule.names import LEAST_STAGES
from tileiras.transforms.structure import holder_in, is_movable, move_up, needed_of

DOT = "nv_tileas.dot"
MOST_ACCUMULATORS = 128
"""Registers of a thread that the accumulators of a block's products may take where one by wgmma moves."""
BLOCKS = 2
"""On an SM, that have their turns at its tensor cores."""
TWO_RESULTS, BESIDE_RESULTS = 2, 32
"""What threads hold at a time between two products of a block that shares an SM with three, and their registers for addresses and
statistics beside."""
MOST_WAITS = 8
"""Of a block, in front of which products are moved."""
MOST_BYTES = 48 << 10
"""Of shared memory for tiles whose loads move."""
ASSERTIONS = frozenset({"nv_tileas.assert"})


def run(module: Operation, context: Any = None) -> None:
    """Move the products, in place."""
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            asked = hint(func, "occupancy") == BLOCKS
            for block in dict.fromkeys(op.parent for op in func.walk() if op.name == DOT):
                assert block is not None
                for dot in [op for op in block.ops if op.name == DOT and _is_for_behind(op)]:
                    _begin_before_work(dot)
                ops = list(block.ops)
                room = MOST_BYTES if context.target.has_tma and loop_around(ops[0]) is None else 0
                for wait in range(MOST_WAITS):
                    ops = _begin(block, ops, 0 if wait else room, asked, context.target)


def _is_for_behind(dot: Operation) -> bool:
    """Whether a product of loaded tiles adds to a sum that threads don't want before the loop's end."""
    umma = umma_of(dot)
    return umma is not None and umma.a_in_shared and adds_up(dot) and all(
        isinstance(v.owner, Operation) and v.owner.name in LOADS and v.owner.parent is dot.parent
        for v in map(unmoved, dot.operands[:2]))


def _begin_before_work(dot: Operation) -> None:
    """Move a product, and loads that nobody's writing may change, in front of the first op that reads one of its tiles."""
    block = dot.parent
    assert block is not None
    tiles = {unmoved(v) for v in dot.operands[:2]}
    place = {op: i for i, op in enumerate(block.ops)}
    first = next(op for op in place if op is dot or any(v in tiles for v in op.operands))
    behind = {op for op, i in place.items() if place[first] <= i < place[dot]}
    if any(inner.name in EXITS or inner.name in ASSERTIONS for op in behind for inner in op.walk()):
        return
    needed = needed_of(dot, behind, lambda op: is_movable(op) or (op.name in LOADS and "invariant" in op.properties))
    if behind and needed is not None and first not in needed:
        move_up(dot, needed, place, first)


def _begin(block: Block, ops: list[Operation], room: int, asked: bool, target: Any) -> list[Operation]:
    """Of a block's ops from some place on, move products in front of the first that waits for one, and loads, of as many bytes as
    there is room for, in front of all. What stands behind the next product that waits. `asked`: for two blocks an SM."""
    place = {op: i for i, op in enumerate(ops)}
    dots = {op for op in ops if op.name == DOT}
    if len(dots) < 2:
        return []
    begin = _may_be_early(dots, asked, target)
    first: Operation | None = None      # product
    results: set[SSAValue] = set()      # of products on their way, and what follows from those
    waiter: Operation | None = None     # the first op that waits
    started: dict[Operation, int] = {}  # what stands behind the first product
    behind: dict[Operation, int] = {}   # the first op that waits and what stands behind it, up to where we are
    late: set[Operation] = set()        # of these, what waits

    def move(op: Operation, needed: set[Operation], front: Operation) -> None:
        for moved in move_up(op, needed, place, front):
            behind.pop(moved, None)
            started.pop(moved, None)

    for op in ops:
        if first is not None and op.name in LOADS and _may_be_read(op, room):
            needed = needed_of(op, started, is_movable)
            if needed is not None and not needed & (late | dots):
                move(op, needed, first)
                room -= tile_bytes(op.results[0].type)
                continue
        if op in begin and waiter is not None:
            needed = needed_of(op, behind, is_movable)
            if needed is not None and not needed & (late | dots) and _was_read(op, needed, behind):
                move(op, needed, waiter)
                results.update(op.results)
                continue
        if op.name in ASSERTIONS:
            room = 0    # it may be about an address
        if _waits(op, results, dots):
            waiter = waiter or op
            late.add(op)
            results.update(op.results)
        elif waiter is None and op in dots:
            results.update(op.results)
        first = first or (op if op in dots else None)
        if first is not None:
            started[op] = place[op]
        if waiter is not None:
            behind[op] = place[op]
    following = [op for op in ops if op in behind]
    return following[next((i for i, op in enumerate(following) if op in dots), len(following)):]


def _may_be_read(load: Operation, room: int) -> bool:
    """Whether a tile may be loaded earlier, and there is room for it."""
    return isinstance(load.results[0].type, TensorType) and tile_bytes(load.results[0].type) <= room and \
        ("invariant" in load.properties or "first" in load.properties)


def _waits(op: Operation, results: set[SSAValue], dots: set[Operation]) -> bool:
    """Whether an op needs more of products on their way than to add to one."""
    if op in dots:
        return any(v in results for v in op.operands if v is not op.operands[2])
    return any(v in results for inner in op.walk() for v in inner.operands)


def _may_be_early(dots: set[Operation], asked: bool, target: Any) -> set[Operation]:
    """The products for whose accumulators there is room if they begin before others are waited for."""
    if any(described_of(op) is None for op in dots):
        return set()        # products by warps take the registers
    into_tensor_memory = {op for op in dots if umma_of(op) is not None}
    early = into_tensor_memory
    if early and asked and _takes_columns_from_many(dots, target):
        early = set()
    elif early and (_keeps_another_block_out(dots, asked) if asked else takes_columns_from_blocks(early, target, False)):
        early = _beside_another_block(dots) if asked else set()
    by_groups = dots - into_tensor_memory
    if by_groups and sum(map(_registers, dots)) <= MOST_ACCUMULATORS:
        early |= by_groups - _read_in_two_forms(by_groups)
    return early


def takes_columns_from_blocks(dots: set[Operation], target: Any, asked: bool) -> bool:
    """Whether products that all run at the same time leave another block on the SM no tensor memory, which had some otherwise.
    `asked`: the program asks for two blocks, and may have four."""
    return (_keeps_another_block_out(dots, False) and _shares_an_sm(dots, target)) or \
        (asked and _takes_columns_from_many(dots, target))


def _takes_columns_from_many(dots: set[Operation], target: Any) -> bool:
    """Whether more blocks than a program asks for share an SM if products that begin anew have their columns in turn, but not if
    they run at the same time: what threads do between them is short, and four blocks' products keep the tensor core busy
    (attention's dQ, 64x64 tiles of 64, B200: 50.0 us by two blocks, 39.5 by four)."""
    from tileiras.schedule.depth import MOST_BLOCKS
    together, in_turn = _columns_at_once(dots, False)
    blocks = COLUMNS // allocated(in_turn)
    if not BLOCKS < blocks <= MOST_BLOCKS or COLUMNS // allocated(together) >= blocks:
        return False
    warps = warps_of(next(iter(dots)))
    held = TWO_RESULTS * max(words_of(dot.results[0].type, warps) for dot in dots) + BESIDE_RESULTS       # type: ignore[arg-type]
    return held <= target.registers_for(blocks * (warps + 1)) and _shares_an_sm(dots, target, blocks)


def _was_read(dot: Operation, needed: set[Operation], behind: dict[Operation, int]) -> bool:
    """Whether who else reads what a product adds to does so in front of what waits, `behind` which it stands now."""
    acc, block = dot.operands[2], dot.parent
    assert block is not None
    readers = {holder_in(block, use.operation) for use in acc.uses if block.is_ancestor(use.operation)} - {dot}
    return is_zero(acc) or not any(op in behind and op not in needed for op in readers)


def _keeps_another_block_out(dots: set[Operation], asked: bool) -> bool:
    """Whether two blocks' products find columns of tensor memory on an SM if those that begin anew have theirs in turn, but not if
    they run at the same time: the other block's products run meanwhile (attention's dK and dV, 128x128 tiles of 64, B200: 29.9 us
    by one block, 21.7 by two). Where the program asks for two, rows that products take from tensor memory count, too."""
    together, in_turn = _columns_at_once(dots, asked)
    return together > COLUMNS // BLOCKS >= in_turn


def _columns_at_once(dots: set[Operation], with_rows: bool) -> tuple[int, int]:
    """Columns that a block's products take if all run at the same time, and if those that begin anew have theirs in turn."""
    columns = {dot: _columns(dot) if with_rows else dot.results[0].type.get_shape()[-1] for dot in dots}  # type: ignore[attr-defined]
    anew = [columns[dot] for dot in dots if is_zero(dot.operands[2])]
    kept = sum(columns.values()) - sum(anew)
    return kept + sum(anew), kept + max(anew, default=0)


def _shares_an_sm(dots: set[Operation], target: Any, blocks: int = BLOCKS) -> bool:
    """Whether shared memory surely has room for what so many blocks' products read there: tiles that a loop loads for them, in
    rings, and others."""
    from tileiras.schedule.depth import shared_budget
    tiles: set[SSAValue] = set()
    for dot in dots:
        umma = umma_of(dot)
        assert umma is not None
        tiles.update(map(unmoved, dot.operands[0 if umma.a_in_shared else 1:2]))
    loaded = [v for v in tiles if isinstance(v.owner, Operation) and v.owner.name in LOADS and loop_around(v.owner) is not None]
    nbytes = sum(tile_bytes(v.type) for v in tiles) + (LEAST_STAGES - 1) * sum(tile_bytes(v.type) for v in loaded)
    return nbytes <= shared_budget(target, blocks)


def _beside_another_block(dots: set[Operation]) -> set[Operation]:
    """Of products that keep another block out if all run at the same time, those that don't: in the order of the program, as many
    as find columns beside the largest of the others and what stays."""
    block = next(iter(dots)).parent
    assert block is not None
    anew = [op for op in block.ops if op in dots and is_zero(op.operands[2])]
    room = COLUMNS // BLOCKS - sum(_columns(dot) for dot in dots if dot not in anew)
    early: set[Operation] = set()
    for i, dot in enumerate(anew[1:], 1):
        largest = max(map(_columns, anew[:i] + anew[i + 1:]))
        if _columns(dot) + largest > room:
            break
        room -= _columns(dot)
        early.add(dot)
    return early


def _columns(dot: Operation) -> int:
    """Of tensor memory, for a product and for rows of its first operand that it takes from there."""
    umma = umma_of(dot)
    acc: int = dot.results[0].type.get_shape()[-1]       # type: ignore[attr-defined]
    if umma is None or umma.a_in_shared:
        return acc
    return acc + rows_columns(dot)


def _read_in_two_forms(dots: set[Operation]) -> set[Operation]:
    """The products by wgmma whose tile others read in another form: it goes to shared memory by threads then, which wait for it."""
    made_of = {dot: _made_of(dot.operands[1]) for dot in dots}
    forms: dict[Operation | Block, set[int]] = {}
    for dot, maker in made_of.items():
        forms.setdefault(maker, set()).add(wgmma_of(dot).n)     # type: ignore[union-attr]
    return {dot for dot, maker in made_of.items() if len(forms[maker]) > 1}


def _made_of(v: SSAValue) -> Operation | Block:
    """What makes the tile that an operand is another view of."""
    while isinstance(v.owner, Operation) and is_movable(v.owner) and len(v.owner.operands) == 1:
        v = v.owner.operands[0]
    return v.owner


def _registers(dot: Operation) -> int:
    """Of a thread for a product's accumulator, where it isn't another's."""
    before = dot.operands[2].owner
    if isinstance(before, Operation) and before.name == DOT and before.parent is dot.parent:
        return 0
    return words_of(dot.results[0].type, warps_of(dot))     # type: ignore[arg-type]
