"""Where buffers lie in the block's shared memory: what doesn't live at the same time may share its place.

Ops are numbered in program order. A buffer lives from its alloc to its last use (a use inside a loop that doesn't hold
the alloc extends to the loop's end). First fit by start: each piece gets the lowest offset at which nothing that lives
at the same time lies.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Operation, SSAValue

from tileiras.analysis.agents import SWITCH, agent_of
from tileiras.dialects.element import element_bytes
from tileiras.dialects.nv_tileas import PipeType, RingType, TmemType
from tileiras.layout.shared import described_tile

ALIGNMENT = 128
"""A piece starts at a multiple of this many bytes, or of its size: ldmatrix rows and 16-byte accesses stay aligned, swizzles
whole."""
LEAST_ALIGNMENT = 16
SWIZZLE_ALIGNMENT = 1024
"""Bytes after which the widest swizzle of the copy engine repeats."""
BARRIERS_A_STAGE = 2
"""Of a pipe: full and empty."""
MBARRIER_BYTES = 8


@dataclass(frozen=True)
class SharedPlan:
    """`offsets`: byte offset of each alloc_tensor's and alloca's memory. `size`: bytes in all. `alignment`: what the whole
    must be aligned to."""

    offsets: dict[Operation, int]
    size: int
    alignment: int = ALIGNMENT


@dataclass
class _Piece:
    op: Operation
    start: int
    end: int
    size: int
    offset: int = 0
    alignment: int = ALIGNMENT


def buffer_bytes(t: Any) -> int:
    """Bytes of a buffer, a ring, or a pipe's barriers."""
    if isinstance(t, RingType):
        return t.stages.data * stage_bytes(t)
    if isinstance(t, PipeType):
        return 0 if t.kind.data == "group" else BARRIERS_A_STAGE * MBARRIER_BYTES * t.stages.data
    return t.layout.data.extent * element_bytes(t.element_type)


def stage_bytes(t: RingType) -> int:
    """From a stage of a ring to the next: as much as its buffer, aligned as that is."""
    alignment = alignment_of(t)
    return -(-buffer_bytes(t.buffer) // alignment) * alignment


def alignment_of(t: Any) -> int:
    """Of what a buffer's (a ring's stages') place is a multiple: a form that the copy engine and the matrix descriptors know
    starts where its swizzle does. A ring's stages may have such a form even where the order of dimensions hides it."""
    smallest, whole = LEAST_ALIGNMENT, ALIGNMENT
    if isinstance(t, RingType):
        t, smallest, whole = t.buffer, ALIGNMENT, SWIZZLE_ALIGNMENT     # the engine fills nothing that starts elsewhere
    least = min(whole, max(smallest, 1 << (buffer_bytes(t) - 1).bit_length()))
    tile = described_tile(t.layout.data, 8 * element_bytes(t.element_type))
    return max(least, tile.alignment) if tile is not None and tile.swizzle else least


def plan_shared_memory(func: Operation) -> SharedPlan:
    """Offsets for all buffers of a function."""
    return _placed(_pieces(func)[0])


def idle_bytes(func: Operation, ops: list[Operation]) -> dict[Operation, int]:
    """For each op, how much shared memory the function has anyway: all that it needs, if nothing lives there while the op runs,
    else 0."""
    pieces, number = _pieces(func)
    size = _placed(pieces).size
    return {op: 0 if any(p.start <= number[op] <= p.end for p in pieces) else size for op in ops}


def bytes_beside(func: Operation, loop: Operation, without: list[Operation]) -> int:
    """At most how much shared memory other buffers than `without` need while a loop runs, each for itself."""
    pieces, number = _pieces(func)
    first, last = number[loop], max(number[op] for op in loop.walk())
    return sum(-(-p.size // p.alignment) * p.alignment for p in pieces
               if p.op not in without and p.start <= last and p.end >= first)


def _pieces(func: Operation) -> tuple[list[_Piece], dict[Operation, int]]:
    """What needs a place, and the numbers of all ops."""
    number, last_inside = number_ops(func)
    pieces: list[_Piece] = []
    for op in number:
        if op.name == "nv_tileas.alloc_tensor" and not isinstance(op.results[0].type, TmemType):
            t: Any = op.results[0].type
            size = buffer_bytes(t)
            end = max((reach(op, user, last_inside) for user in _last_users(op.results[0])), default=number[op])
            alignment = max(alignment_of(t), *(_alignment_for(user) for user in _users(op.results[0])), 0)
            start = 0 if any(_is_shared_copy(user) for user in _users(op.results[0])) else number[op]
            pieces.append(_Piece(op, start, end, size, alignment=alignment))
        elif op.name == "nv_tileas.create_pipeline" and buffer_bytes(op.results[0].type):
            # its barriers are set up at the start, and hold until the end
            pieces.append(_Piece(op, 0, last_inside[func], buffer_bytes(op.results[0].type), alignment=LEAST_ALIGNMENT))
        elif op.name == "nv_tileas.tmem_alloc":
            pieces.append(_Piece(op, 0, last_inside[func], LEAST_ALIGNMENT, alignment=LEAST_ALIGNMENT))
        elif op.name == "nv_tileas.alloca" and "global" not in op.properties:
            pieces.append(_alloca(op, last_inside[func]))
    for piece in pieces:
        switch = _beside(piece.op)
        if switch is not None:
            piece.start, piece.end = min(piece.start, number[switch]), max(piece.end, last_inside[switch])
    return pieces, number


def _beside(op: Operation) -> Operation | None:
    """The switch of which an op's agent isn't the first. Agents run at the same time: what the others have keeps its place for
    as long as any runs, and only the first uses a place again."""
    found = agent_of(op)
    return found[0] if found is not None and found[1] else None


def _is_shared_copy(user: Operation) -> bool:
    """Whether other CTAs fill what an op fills, maybe before this one comes to it."""
    return user.name == "nv_tileas.tma_load" and "cta_copies" in user.properties


def _alignment_for(user: Operation) -> int:
    """Of what a buffer's place must be a multiple because of this op: the engine's swizzle looks at addresses."""
    return user.map.type.tile.alignment if user.name == "nv_tileas.tma_store" else 0  # type: ignore[attr-defined]


def _users(buffer: SSAValue) -> Iterator[Operation]:
    """The ops that touch a buffer, or a ring by way of its stages."""
    for use in buffer.uses:
        yield use.operation
        if use.operation.name == "nv_tileas.extract_slice":
            yield from (inner.operation for inner in use.operation.results[0].uses)


def _last_users(buffer: SSAValue) -> list[Operation]:
    """The users that say how long a buffer lives. A ring of several agents lives as long as the first reads it: it has waited for
    everything that another put there, or is still putting there."""
    users = list(_users(buffer))
    first = [user for user in users if (found := agent_of(user)) is not None and found[1] == 0]
    return first or users


def _placed(pieces: list[_Piece]) -> SharedPlan:
    pieces.sort(key=lambda p: (p.start, -p.size))
    alive: list[_Piece] = []
    total = 0
    for piece in pieces:        # by start: what has ended by now is over for all that follow
        alive = [p for p in alive if p.end >= piece.start]
        offset = 0
        for low, high in sorted((p.offset, p.offset + p.size) for p in alive):
            if offset + piece.size <= low:
                break
            offset = max(offset, -(-high // piece.alignment) * piece.alignment)
        piece.offset = offset
        alive.append(piece)
        total = max(total, offset + piece.size)
    return SharedPlan({p.op: p.offset for p in pieces}, total, max((p.alignment for p in pieces), default=ALIGNMENT))


def alloca_bytes(op: Operation) -> int:
    """Bytes of an alloca's memory in shared memory."""
    pointee: Any = op.results[0].type
    properties: dict[str, Any] = op.properties
    return max(element_bytes(pointee.pointee) * properties["num_elem"].value.data, 1)


def _alloca(op: Operation, end: int) -> _Piece:
    """An alloca's memory is the function's: nothing knows how long its pointers are used."""
    properties: dict[str, Any] = op.properties
    alignment = properties["alignment"].value.data if "alignment" in properties else 1
    return _Piece(op, 0, end, alloca_bytes(op), alignment=max(alignment, ALIGNMENT))


def number_ops(func: Operation) -> tuple[dict[Operation, int], dict[Operation, int]]:
    """The numbers of all ops in program order, and of the last op inside of each."""
    number: dict[Operation, int] = {}
    last_inside: dict[Operation, int] = {}
    open_ops: list[tuple[Operation, Any]] = []

    def enter(op: Operation) -> None:
        number[op] = len(number)
        open_ops.append((op, (inner for region in op.regions for block in region.blocks for inner in block.ops)))
    enter(func)
    while open_ops:
        op, rest = open_ops[-1]
        inner = next(rest, None)
        if inner is None:
            last_inside[op] = len(number) - 1
            open_ops.pop()
        else:
            enter(inner)
    return number, last_inside


def reach(alloc: Operation, user: Operation, last_inside: dict[Operation, int]) -> int:
    """The number until which a use keeps the buffer alive: the end of the outermost op around the user in the alloc's block."""
    while user.parent_block() is not alloc.parent_block():
        parent = user.parent_op()
        assert parent is not None
        if parent.name == SWITCH and user.parent_region() is parent.regions[0]:
            break       # the first agent uses places again that it is done with
        user = parent
    return last_inside[user]
