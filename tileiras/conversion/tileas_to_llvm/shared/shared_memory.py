"""Place every buffer and every op's scratch in the block's shared memory, by liveness.

Ops are numbered in program order. A buffer lives from its alloc to its last use (a use inside a loop that doesn't hold
the alloc extends to the loop's end); scratch lives during its op. First fit by start: each piece gets the lowest offset
at which nothing that lives at the same time lies.

An op's scratch size comes from `SCRATCH`: op name -> function(op, target) -> bytes (0: none), filled by the lowerings.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Operation

from tileiras.dialects.element import element_bytes

SLOT_BYTES = 8
"""What hands a heap pointer to all threads (heap.py)."""
ALIGNMENT = 128
"""Every piece starts at a multiple of this many bytes: ldmatrix rows and 16-byte accesses stay aligned, swizzles whole."""

SCRATCH: dict[str, Callable[[Operation, Any], int]] = {}


def scratch(*names: str) -> Callable[[Callable[[Operation, Any], int]], Callable[[Operation, Any], int]]:
    """Register how many bytes of scratch ops of these names need: a function of (op, target)."""
    def register(size: Callable[[Operation, Any], int]) -> Callable[[Operation, Any], int]:
        for name in names:
            SCRATCH[name] = size
        return size
    return register


@dataclass(frozen=True)
class SharedPlan:
    """`offsets`: byte offset of each alloc_tensor's and alloca's memory and of each op's scratch. `size`: bytes in all.
    `alignment`: what the whole must be aligned to."""

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


def plan_shared_memory(func: Operation, target: Any) -> SharedPlan:
    """Offsets for all buffers and scratch of a function."""
    number: dict[Operation, int] = {}
    last_inside: dict[Operation, int] = {}
    _number(func, number, last_inside)
    pieces: list[_Piece] = []
    for op in number:
        if op.name == "nv_tileas.alloc_tensor":
            t = op.results[0].type
            size = 1 << len(t.layout.data.bases)  # type: ignore[attr-defined]
            size *= element_bytes(t.element_type)  # type: ignore[attr-defined]
            end = max((_reach(op, use.operation, number, last_inside) for use in op.results[0].uses), default=number[op])
            pieces.append(_Piece(op, number[op], end, size))
        elif op.name == "nv_tileas.alloca":
            pieces.append(_alloca(op, number[op], last_inside[func]))
        elif op.name in SCRATCH:
            size = SCRATCH[op.name](op, target)
            if size:
                pieces.append(_Piece(op, number[op], last_inside.get(op, number[op]), size))
    pieces.sort(key=lambda p: (p.start, -p.size))
    alive: list[_Piece] = []
    total = 0
    for piece in pieces:        # by start: what has ended by now is over for all that follow
        alive = [p for p in alive if p.end >= piece.start]
        busy = sorted((p.offset, p.offset + p.size) for p in alive)
        offset = 0
        for low, high in busy:
            if offset + piece.size <= low:
                break
            offset = max(offset, -(-high // piece.alignment) * piece.alignment)
        piece.offset = offset
        alive.append(piece)
        total = max(total, offset + piece.size)
    return SharedPlan({p.op: p.offset for p in pieces}, total, max((p.alignment for p in pieces), default=ALIGNMENT))


def _alloca(op: Operation, number: int, end: int) -> _Piece:
    """An alloca's memory is the function's: accesses through its pointers aren't among those that barriers for scratch know."""
    if "global" in op.properties:       # on the heap: what is here carries the pointer to all threads
        return _Piece(op, number, number, SLOT_BYTES)
    pointee: Any = op.results[0].type
    properties: dict[str, Any] = op.properties
    size = element_bytes(pointee.pointee) * properties["num_elem"].value.data
    alignment = properties["alignment"].value.data if "alignment" in properties else 1
    return _Piece(op, 0, end, max(size, 1), alignment=max(alignment, ALIGNMENT))


def _number(func: Operation, number: dict[Operation, int], last_inside: dict[Operation, int]) -> None:
    def visit(op: Operation) -> None:
        number[op] = len(number)
        for region in op.regions:
            for block in region.blocks:
                for inner in block.ops:
                    visit(inner)
        last_inside[op] = len(number) - 1
    visit(func)


def _reach(alloc: Operation, user: Operation, number: dict[Operation, int], last_inside: dict[Operation, int]) -> int:
    """The number until which a use keeps the buffer alive: the end of the outermost op around the user in the alloc's block."""
    while user.parent_block() is not alloc.parent_block():
        parent = user.parent_op()
        assert parent is not None
        user = parent
    return last_inside[user]
