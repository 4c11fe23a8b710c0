"""Races in shared memory: accesses of different warps of a block with no barrier of the block between them.

Every granule of shared memory (the kernel's smallest access) remembers the last warp that wrote it, the last that read
it, and in which barrier interval. A read of what another warp wrote in the same interval, or a write over what another
warp read in it, is a finding. Two warps that write one
place are one too unless they write the same value, since kernels store one value many times.
Blocks that synchronize by other means (mbarriers, barriers of some of their threads) aren't watched.
"""
from __future__ import annotations

import numpy as np

WARPS = 64              # more than a block can have
NEVER = -WARPS


class Watch:
    """What is remembered of one batch's shared memory. Codes are interval * WARPS + warp."""

    def __init__(self, st, granule: int) -> None:
        self.granule = granule
        size = len(st.shared) // granule
        self.writer = np.full(size, NEVER, np.int64)
        self.reader = np.full(size, NEVER, np.int64)
        self.crowd = np.full(size, -1, np.int64)        # interval in which several warps read it
        self.interval = np.zeros(st.ctas, np.int64)
        self.warp = st.everyone % st.padded // 32

    def _places(self, st, off: np.ndarray, size: int, lanes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Granules accessed and the code of who does it, both [accesses, granules of one]."""
        count = max(size // self.granule, 1)
        where = (off // self.granule)[:, None] + np.arange(count)
        code = self.interval[st.cta_of[lanes]] * WARPS + self.warp[lanes]
        return where, np.broadcast_to(code[:, None], where.shape)

    def read(self, st, off: np.ndarray, size: int, lanes: np.ndarray) -> None:
        """Accesses of `size` bytes at buffer offsets `off` by threads `lanes`."""
        where, me = self._places(st, off, size, lanes)
        writer = self.writer[where]
        clash = (writer // WARPS == me // WARPS) & (writer != me)
        if clash.any():
            self._found(st, clash, lanes, where, "reads", writer, "wrote")
        before = self.reader[where]
        self.reader[where] = me
        several = ((before // WARPS == me // WARPS) & (before != me)) | (self.reader[where] != me)
        if several.any():
            self.crowd[where[several]] = me[several] // WARPS

    def write(self, st, off: np.ndarray, size: int, lanes: np.ndarray, changed: np.ndarray | None = None,
              lost: np.ndarray | None = None) -> None:
        """As `read`, for stores. `changed`: which accesses replace another value; `lost`: which were overwritten by
        another thread of the same instruction."""
        where, me = self._places(st, off, size, lanes)
        if changed is not None and changed.any():
            writer = self.writer[where]
            clash = (writer // WARPS == me // WARPS) & (writer != me) & changed[:, None]
            if clash.any():
                self._found(st, clash, lanes, where, "overwrites", writer, "wrote")
        reader = self.reader[where]
        now = me // WARPS
        clash = ((reader // WARPS == now) & (reader != me)) | (self.crowd[where] == now)
        if clash.any():
            self._found(st, clash, lanes, where, "writes", reader, "read")
        self.writer[where] = me
        if lost is not None and lost.any():
            writer = self.writer[where]
            clash = (writer != me) & lost[:, None]
            if clash.any():
                self._found(st, clash, lanes, where, "writes", writer, "also writes")

    def _found(self, st, clash, lanes, where, verb: str, other: np.ndarray, did: str) -> None:
        i = int(np.argmax(clash.any(axis=1)))
        j = int(np.argmax(clash[i]))
        lane = int(lanes[i])
        place = int(where[i, j]) * self.granule - lane // st.padded * st.shared_stride
        st.race_found(lane, f"warp {int(self.warp[lane])} {verb} byte {place} of shared memory, which warp "
                            f"{int(other[i, j] % WARPS)} {did} with no barrier between")

    def passed(self, ctas: np.ndarray) -> None:
        """The blocks of the mask passed a barrier of all their threads."""
        self.interval[ctas] += 1
