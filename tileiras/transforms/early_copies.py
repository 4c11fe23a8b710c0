"""`early-copies`: a tile that the copy engine brings once is asked for before what threads compute until they need it.

    %s = ... (signs, computed)                      %n = producer_acquire %pipe
    store_shared %s, %b                             tma_load ..., %ring[%n], %pipe[%n]
    %n = producer_acquire %pipe                     producer_commit %pipe
    tma_load ..., %ring[%n], %pipe[%n]      ->      %s = ... (signs, computed)
    producer_commit %pipe                           store_shared %s, %b
    %m = consumer_wait %pipe                        %m = consumer_wait %pipe
    ... dot %ring[%m], %b ...                       ... dot %ring[%m], %b ...

Programs compute in their order, and ptxas moves no copy over what threads wait for. No write to memory comes before such a load in
its token's order (`lower-tma-load-store-to-async`), so that it may stand wherever its coordinates are known: behind what decides
whether the block goes on at all, behind loops that do more than load and multiply, and behind the copies that were asked for
before it. Its ring lives longer then: where that would cost an SM a block, it stays. In agents who loads has nothing else to do.
(int8 with scales, 64x64x128 of rows that aren't aligned, H100: 2.49 us with the scales' copies behind the loop, 2.03 before it.)
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xdsl.ir import Block, Operation

from tileiras.analysis.shared_lives import SharedLives
from tileiras.dialects import arith
from tileiras.dialects.nv_tileas import LOADS
from tileiras.schedule.depth import shared_budget
from tileiras.transforms.structure import is_movable

PIPE, ACQUIRE, COMMIT, COPY, ALLOC = ("nv_tileas." + m for m in (
    "create_pipeline", "producer_acquire", "producer_commit", "tma_load", "alloc_tensor"))
PASSED = LOADS | {"nv_tileas." + m for m in (
    "alloc_tensor", "create_pipeline", "store_shared", "load_shared", "reduce", "scan", "dot", "dot_scaled", "async_dot",
    "dot_wait", "tensor_dot", "consumer_wait", "consumer_release", "prefetch_tma_desc")}
"""Ops besides values that a copy may come to stand in front of: none writes memory, leaves the kernel or is a piece of code of its
own."""
WORK = {"nv_tileas." + m for m in ("store_shared", "load_shared", "reduce", "scan", "dot", "dot_scaled", "dot_wait",
                                   "consumer_wait", "convert_layout")}
"""Of what a copy passes, what takes threads long; so do element-wise ops on tiles, of which `FEW` hardly count. Loads by threads
don't: they are on their way at once, and what waits for them would begin later behind a copy."""
INSIDE = {"scf.yield", *("nv_tileas." + m for m in ("begin_flight", "barrier", "warp_barrier", "fence_async"))}
"""What else may be in loops and branches that a copy passes."""
FEW = 4
MOST_BLOCKS = 16
"""Blocks of an SM beyond which more bring nothing."""


def run(module: Operation, context: Any) -> None:
    """Move the copies, in place."""
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            lives: SharedLives | None = None
            for pipe in [op for op in func.walk() if op.name == PIPE and "once" in op.properties]:
                copies = _copies(pipe)
                if copies is None:
                    continue
                front, moved = _way_up(copies)
                if front is not None:
                    lives = lives or SharedLives(func)
                    _move(front, moved, lives, context.target)


def _copies(pipe: Operation) -> list[Operation] | None:
    """What fills a pipe: its one acquisition, its copies and its one commit, in their order in one block that is no agent's."""
    users = [use.operation for use in pipe.results[0].uses]
    first, last = ([op for op in users if op.name == name] for name in (ACQUIRE, COMMIT))
    copies = [op for op in users if op.name == COPY]
    block = pipe.parent
    if len(first) != 1 or len(last) != 1 or not copies or any(op.parent is not block for op in (*first, *last, *copies)):
        return None
    assert block is not None
    holder = block.parent_op()
    if holder is None or holder.name not in ("nv_tileas.func", "scf.if"):
        return None
    between = _from(first[0], last[0])
    return [op for op in between if op is first[0] or op is last[0] or op in copies]


def _from(first: Operation, last: Operation) -> Iterator[Operation]:
    op: Operation | None = first
    while op is not None:
        yield op
        if op is last:
            return
        op = op.next_op


def _way_up(copies: list[Operation]) -> tuple[Operation | None, list[Operation]]:
    """The op in front of which copies can stand, None where that gains nothing, and the ops that move there, in their order."""
    moved: list[Operation] = []
    wanted = {v.owner for op in copies for v in op.operands}
    work, front, gains = 0, None, False
    own = set(copies)
    op: Operation | None = copies[-1]
    while op is not None:
        if op in own or op in wanted:
            if op not in own and not (is_movable(op) or op.name in (ALLOC, PIPE)):
                break
            moved.append(op)
            wanted |= {v.owner for v in op.operands}
        elif not _is_passed(op):
            break
        else:
            work += isinstance(op, arith.Elementwise) and bool(_tile(op))
            gains = gains or work > FEW or any(inner.name in WORK for inner in op.walk())
            front = op
        op = op.prev_op
    return (front if gains else None), moved[::-1]


def _tile(op: Operation) -> bool:
    return hasattr(op.results[0].type, "get_shape") and bool(op.operands)


def _is_passed(op: Operation) -> bool:
    if op.name in ("scf.for", "scf.if"):
        inside = [inner for region in op.regions for block in region.blocks for inner in block.ops]
        return all(inner.name in INSIDE or _is_passed(inner) for inner in inside)
    return op.name in PASSED or is_movable(op)


def _move(front: Operation, moved: list[Operation], lives: SharedLives, target: Any) -> None:
    """Put ops in front of another, unless the block needs so much shared memory then that an SM holds fewer."""
    block = front.parent
    assert isinstance(block, Block)
    before, places = lives.size, [op.next_op for op in moved]
    for op in moved:
        op.detach()
        block.insert_op_before(op, front)
    buffers = [op for op in moved if op.name in (ALLOC, PIPE)]
    lives.update(buffers, moved)
    if _blocks(lives.size, target) < _blocks(before, target):
        for op, place in reversed(list(zip(moved, places))):
            op.detach()
            assert place is not None
            block.insert_op_before(op, place)
        lives.update(buffers, moved)


def _blocks(size: int, target: Any) -> int:
    """How many blocks of so many bytes an SM has shared memory for."""
    blocks = 0
    while blocks < MOST_BLOCKS and size <= shared_budget(target, blocks + 1):
        blocks += 1
    return blocks
