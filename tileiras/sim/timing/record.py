"""What did each execution do? An observer of the simulator that notes blocks executed and what instructions touched."""
from __future__ import annotations

import numpy as np

from tileiras.sim.timing.trace import PtxCode, Visits, WarpTrace, ptx_code, warp_traces


class BatchLog:
    """What is noted of one batch. `watched`: numbers of its CTAs within the batch."""

    def __init__(self, first: int, watched: list[int], padded: int, threads: int) -> None:
        self.first, self.watched, self.padded, self.threads = first, watched, padded, threads
        self.visits = Visits()
        self.pick = np.concatenate([np.arange(c * padded, (c + 1) * padded) for c in watched])
        self.contiguous = len(watched) == watched[-1] - watched[0] + 1
        self.slice = slice(watched[0] * padded, (watched[-1] + 1) * padded)


class Recorder:
    """Watches CTAs (their numbers in the grid; None: all) of one launch."""

    def __init__(self, ctas: set[int] | None = None) -> None:
        self.ctas = ctas
        self.code: PtxCode | None = None
        self.logs: dict[int, BatchLog | None] = {}       # by the batch's first CTA

    # ---- called by the simulator
    def built(self, program) -> None:
        """The kernel is decoded."""
        self.code = ptx_code(program)

    def visit(self, st, at: int) -> None:
        """A block is about to be executed by the active threads."""
        log = self.logs[st.first] if st.first in self.logs else self._begin(st)
        if log is None:
            return
        mask = st.live if st.mask is None else st.mask
        mine = mask[log.slice].copy() if log.contiguous else mask[log.pick]
        if mine.any():
            log.visits.blocks.append(at)
            log.visits.masks.append(mine)

    def instruction(self, decoder, ins, run):
        """An instruction was decoded: what is to run in its place."""
        return run

    def guarded(self, decoder, ins, run):
        """The same for an instruction with its guard."""
        return run

    def barrier(self, decoder, ins, block) -> None:
        """A barrier ends a block."""

    # ---- afterwards
    def _begin(self, st) -> BatchLog | None:
        watched = [c for c in range(st.ctas) if self.ctas is None or st.first + c in self.ctas]
        log = BatchLog(st.first, watched, st.padded, st.threads) if watched else None
        self.logs[st.first] = log
        return log

    def traces(self) -> dict[int, list[WarpTrace]]:
        """The traces of the watched CTAs' warps, by CTA."""
        assert self.code is not None
        out = {}
        for log in self.logs.values():
            if log is None:
                continue
            for k, cta in enumerate(log.watched):
                threads = slice(k * log.padded, (k + 1) * log.padded)
                out[log.first + cta] = warp_traces(self.code, log.visits, threads, (log.threads + 31) // 32)
        return out
