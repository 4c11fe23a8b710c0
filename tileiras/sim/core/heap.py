"""The device heap: what the runtime's `__cuda_syscall_aligned_malloc` and `free` hand out and take back.

One stretch of global memory, given out first fit. An address that was never handed out, or was freed before, is a Trap.
"""
from __future__ import annotations

from tileiras.sim.errors import Trap

ALLOCATE = "__cuda_syscall_aligned_malloc"
HEAP_BYTES = 8 << 20
"""What CUDA grants without being asked (`cudaLimitMallocHeapSize`)."""


class Heap:
    """`start`: the address of the stretch. A request that doesn't fit gives address 0."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.pieces: list[tuple[int, int]] = []         # (address, end), by address

    def allocate(self, size: int, alignment: int) -> int:
        at = self.start
        for i, (low, high) in enumerate([*self.pieces, (self.start + HEAP_BYTES, 0)]):
            at = -(-at // max(alignment, 1)) * max(alignment, 1)
            if size and at + size <= low:
                self.pieces.insert(i, (at, at + size))
                return at
            at = high
        return 0

    def free(self, address: int, thread: int) -> None:
        if address == 0:
            return
        for i, (low, _) in enumerate(self.pieces):
            if low == address:
                del self.pieces[i]
                return
        raise Trap(f"free of {address:#x}, which the heap didn't give out or has back already", thread=thread)
