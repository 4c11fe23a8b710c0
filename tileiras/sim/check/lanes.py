"""Whether threads of one warp touch a place of shared memory in order: between two of them, one writing, their warp must have met.

A warp's threads run together here, but not on every machine: what one of them wrote the others see behind `bar.warp.sync`, behind a
barrier of the block or the cluster, or behind a wait for an mbarrier. For each granule the watch remembers the last thread that
wrote it and the last that read it, and when; a warp's meetings are counted in the same steps. `ldmatrix` and `stmatrix` touch a row
for the whole warp, whichever thread names it. Threads of different warps are `shadow`'s business.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tileiras.sim.errors import DataRace

SEVERAL, WHOLE = 1, 2       # flags of who touched a granule: several threads (writers: one value), or a warp's together
FLAGS = 2                   # bits of them
WARP_BITS = 5 + FLAGS


class LaneWatch:
    """The watch over one batch's shared memory, in granules of `granule` bytes."""

    def __init__(self, st, granule: int) -> None:
        self.st, self.granule = st, granule
        n = len(st.shared) // granule
        self.step, self.floor = 1, 0                        # now; when every warp has met at least
        self.met = np.zeros(st.ctas * st.padded // 32, np.int32)
        self.wtime, self.writer = np.zeros(n, np.int32), np.zeros(n, np.int32)
        self.rtime, self.reader = np.zeros(n, np.int32), np.zeros(n, np.int32)

    def meet(self, rows: np.ndarray) -> None:
        """The threads of these warps have met."""
        self.met[rows] = self.step
        self.step += 1
        self.floor = int(self.met.min())

    def _pending(self, times: np.ndarray, who: np.ndarray, mine: np.ndarray, met: np.ndarray) -> np.ndarray:
        """Which granules another thread of the same warp touched since the warp has met."""
        return (times > met) & (who >> WARP_BITS == mine >> WARP_BITS) & (who != mine)

    def _mine(self, lanes: np.ndarray, count: int, whole: bool) -> tuple[np.ndarray, np.ndarray]:
        mine = lanes.astype(np.int32) << FLAGS | (WHOLE if whole else 0)
        met = self.met[lanes >> 5]
        return (mine[:, None], met[:, None]) if count > 1 else (mine, met)

    def read(self, at: np.ndarray, count: int, lanes: np.ndarray, whole: bool) -> None:
        """Threads read runs `at` of `count` granules; `whole`: for their warp."""
        wtime, writer, rtime, reader = (_runs(a, count) for a in (self.wtime, self.writer, self.rtime, self.reader))
        mine, met = self._mine(lanes, count, whole)
        times = wtime[at]
        if int(times.max(initial=0)) > self.floor:
            who = writer[at]
            clash = self._pending(times, who, mine, met) & (who & SEVERAL == 0)
            if clash.any():
                self._found(clash, at, count, lanes, "reads", who, "wrote")
        before = rtime[at]
        old = self._pending(before, reader[at], mine, met) if int(before.max(initial=0)) > self.floor else None
        reader[at] = mine
        rtime[at] = self.step
        several = reader[at] != mine
        _flag(reader, at, several if old is None else several | old, count)

    def write(self, at: np.ndarray, count: int, lanes: np.ndarray, whole: bool, changes: Callable[[], Any]) -> None:
        """Threads are about to write runs of granules; `changes()`: which of their accesses replace another value."""
        wtime, writer, rtime, reader = (_runs(a, count) for a in (self.wtime, self.writer, self.rtime, self.reader))
        mine, met = self._mine(lanes, count, whole)
        again = None
        for times, people, did in ((wtime[at], writer, "wrote"), (rtime[at], reader, "read")):
            if int(times.max(initial=0)) <= self.floor:
                continue
            who = people[at]
            clash = self._pending(times, who, mine, met)
            if clash.any():
                changed = changes()
                if people is writer:
                    again = clash
                if changed is not None:
                    clash = clash & (changed[:, None] if count > 1 else changed)
                if clash.any():
                    self._found(clash, at, count, lanes, "writes", who, did)
        writer[at] = mine
        wtime[at] = self.step
        several = writer[at] != mine
        _flag(writer, at, several if again is None else several | again, count)

    def _found(self, clash: np.ndarray, at: np.ndarray, count: int, lanes: np.ndarray, verb: str, who: np.ndarray,
               did: str) -> None:
        i = int(np.argmax(clash.any(axis=1) if count > 1 else clash))
        j = int(np.argmax(clash[i])) if count > 1 else 0
        lane, other = int(lanes[i]), int(who[i, j] if count > 1 else who[i])
        byte = (int(at[i]) * count + j) * self.granule % self.st.shared_stride
        names = "its warp" if other & WHOLE else f"thread {other >> FLAGS & 31} of its warp"
        self.st.found(DataRace(f"thread {lane & 31} of warp {lane % self.st.padded // 32} {verb} byte {byte} of shared memory, "
                               f"which {names} {did} with no bar.warp.sync between", thread=lane))


def _runs(array: np.ndarray, count: int) -> np.ndarray:
    return array if count == 1 else array.reshape(-1, count)


def _flag(people: np.ndarray, at: np.ndarray, several: np.ndarray, count: int) -> None:
    """Note that several threads touched these granules."""
    if several.any():
        if count > 1:
            i, j = np.nonzero(several)
            people[at[i], j] |= SEVERAL
        else:
            people[at[several]] |= SEVERAL
