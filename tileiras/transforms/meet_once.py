"""`meet-once`: tiles that go to other threads one after the other go together, so that the threads meet once for all of them.

    store_shared %x, %a                     store_shared %x, %a
    %s = load_shared %a                     store_shared %y, %b
    store_shared %y, %b              ->     %s = load_shared %a
    %t = load_shared %b                     %t = load_shared %b

Between a tile's writes and its reads stands a barrier. What reads it, and what follows from that, moves behind the writes of the
next tile, as long as nothing but computing stands in between: a load from global memory, a loop or a product is no reason to wait
longer for what is there. Nor does a larger tile that is computed from what is read wait: the others that go into it would have to
stay in registers meanwhile (attention's scores, less their rows' maxima). Buffers then live at the same time. That may cost no
block of an SM its room: a function's shared memory grows only as far as blocks of its threads fit an SM as before, or as many as
an SM has threads for.

It runs in front of `allocate-buffers` and `order-memory`, which see what lives together and put the barriers.
"""
from __future__ import annotations

from functools import cached_property
from typing import Any

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Block, Operation, SSAValue

from tileiras.analysis.agents import WARP_THREADS
from tileiras.analysis.shared_lives import SharedLives
from tileiras.analysis.shared_memory import blocks_of, buffer_bytes
from tileiras.dialects import nv_tileas
from tileiras.dialects.element import elements_in
from tileiras.dialects.nv_tileas import BufferType, PipeType, RingType, TmemType
from tileiras.transforms.structure import is_movable

PLACES = (BufferType, RingType, PipeType, TmemType)


def run(module: Operation, context: Any) -> None:
    """Move the reads, in place."""
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            room = _Room(func, context.target)
            for block in [block for op in func.walk() for region in op.regions for block in region.blocks]:
                _Exchanges(block, room).run()


class _Room:
    """How much shared memory a function may come to need."""

    def __init__(self, func: Operation, target: Any) -> None:
        self.func, self.target, self.lives = func, target, SharedLives(func)

    @cached_property
    def blocks(self) -> int:
        """How many blocks an SM must have room for: as many as it had before this pass, or as it has threads for."""
        blocks, warps = blocks_of(self.lives.size, self.target), self.func.properties.get("num_warps")
        if isinstance(warps, IntAttr):
            blocks = min(blocks, self.target.max_threads_per_sm // (WARP_THREADS * warps.data))
        return blocks

    def has(self, nbytes: int) -> bool:
        """Whether there is room for so many bytes a block."""
        return blocks_of(nbytes, self.target) >= self.blocks


class _Exchanges:
    """A block's exchanges: reads, and what follows from them, that may wait for another tile's writes."""

    def __init__(self, block: Block, room: _Room) -> None:
        self.block, self.room = block, room
        self._begin()

    def _begin(self) -> None:
        self.waiting: list[Operation] = []          # reads and what follows from them, in their order
        self.results: set[SSAValue] = set()         # theirs
        self.largest = 0                            # elements of the largest tile read
        self.read: set[SSAValue] = set()            # the buffers that they read,
        self.buffers: dict[SSAValue, None] = {}     # and these with those that are written meanwhile
        self.last: Operation | None = None          # the last write that they may stand behind,
        self.behind = 0                             # and how many of them stand in front of it

    def run(self) -> None:
        """Collect what may wait, until something comes that it mustn't wait for."""
        for op in list(self.block.ops):
            if isinstance(op, nv_tileas.StoreShared) and _is_alone(op.operands[1]):
                self._write(op, op.operands[1])
            elif isinstance(op, nv_tileas.LoadShared) and "peer" not in op.properties and _is_alone(op.operands[0]):
                self._wait(op)
                self.largest = max(self.largest, elements_in(op.results[0].type))
                self.read.add(op.operands[0])
                self.buffers[op.operands[0]] = None
            elif not _only_computes(op):
                self._move()
            elif not self.results.isdisjoint(op.operands):
                if max((elements_in(r.type) for r in op.results), default=0) > self.largest:
                    self._move()
                else:
                    self._wait(op)
        self._move()

    def _wait(self, op: Operation) -> None:
        self.waiting.append(op)
        self.results.update(op.results)

    def _write(self, store: Operation, buffer: SSAValue) -> None:
        """A write goes in front of the reads that wait, unless it needs one of them, writes what they read, or has no room."""
        together = sum(buffer_bytes(b.type) for b in {**self.buffers, buffer: None})
        if not self.results.isdisjoint(store.operands) or buffer in self.read or not self.room.has(together):
            self._move()
        if self.waiting:
            self.buffers[buffer] = None
            self.last, self.behind = store, len(self.waiting)

    def _move(self) -> None:
        """Put what waits behind the last write, if there is room for all that then lives at the same time."""
        moved, last, buffers = self.waiting[:self.behind], self.last, [buffer.owner for buffer in self.buffers]
        self._begin()
        if last is None:
            return
        lives, allocs = self.room.lives, [op for op in buffers if isinstance(op, Operation)]
        assert self.room.blocks
        places = [(op, op.next_op) for op in moved]
        _put_behind(last, moved)
        lives.update(allocs, moved)
        if not self.room.has(lives.size):
            for op, following in reversed(places):
                op.detach()
                assert following is not None
                self.block.insert_op_before(op, following)
            lives.update(allocs, moved)


def _put_behind(last: Operation, ops: list[Operation]) -> None:
    block = last.parent
    assert block is not None
    for op in reversed(ops):
        op.detach()
        block.insert_op_after(op, last)


def _is_alone(buffer: SSAValue) -> bool:
    """Whether a buffer is known to share no bytes with another value: stages of one ring, and parts of a buffer, may."""
    return isinstance(buffer.owner, nv_tileas.AllocTensor)


def _only_computes(op: Operation) -> bool:
    """Whether others may move past an op, and it past them: it makes values of values, or is a buffer's name."""
    return isinstance(op, nv_tileas.AllocTensor) or (is_movable(op) and not any(isinstance(v.type, PLACES) for v in op.operands))
