"""The warps that compute together: what a lowering asks for its thread's number, its warp's, and a barrier.

A team is a run of the block's warps with a barrier of its own. No lowering asks for the block's first thread or barrier 0:
it asks its team.
"""
from __future__ import annotations

from dataclasses import dataclass

from tileiras.analysis.agents import WARP_THREADS
from tileiras.conversion.tileas_to_llvm.builder import Builder


@dataclass(frozen=True)
class Team:
    """`num_warps` warps from `first_warp` on, of a block of `block_warps`; they meet at the block's barrier `barrier`."""

    num_warps: int
    first_warp: int = 0
    barrier: int = 0
    block_warps: int = 0

    @property
    def is_block(self) -> bool:
        """Whether the team is all of its block."""
        return self.num_warps == (self.block_warps or self.num_warps)

    def meet(self, b: Builder) -> None:
        """All threads of the team meet, and see each other's writes to shared memory."""
        if self.num_warps == 1:
            b.nvvm("bar.warp.sync", [b.i32(-1)])
        elif self.is_block:
            b.nvvm("barrier.cta.sync.aligned.all", [b.i32(self.barrier)])
        else:
            b.nvvm("barrier.cta.sync.aligned.count", [b.i32(self.barrier), b.i32(WARP_THREADS * self.num_warps)])

    def thread(self, b: Builder):
        """This thread's number in the team (i32)."""
        tid = b.nvvm("read.ptx.sreg.tid.x")[0]
        return b.sub(tid, b.i32(WARP_THREADS * self.first_warp)) if self.first_warp else tid

    def is_first(self, b: Builder):
        """Whether this is the team's first thread. ptxas knows by a comparison of the block's number that one thread is left: else
        it writes a loop over lanes around each copy by the engine."""
        return b.icmp("eq", b.nvvm("read.ptx.sreg.tid.x")[0], b.i32(WARP_THREADS * self.first_warp))
