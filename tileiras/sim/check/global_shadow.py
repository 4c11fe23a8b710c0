"""Races in global memory: accesses of different warps, of one block or of several, that nothing orders.

Each granule remembers who wrote it last, and who read it last; blocks of different clusters are ordered only by releases
and acquires through memory (`order.through`). Reads by several clusters are remembered as just that. Storing the value
that is there already isn't a race; nor is, in a kernel with atom.cas, an ordinary load of what others change by atomics.
What `ld.global.nc` reads nobody may write in the whole launch, before or after, in whatever order.
Launches with more memory than LIMIT aren't watched.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tileiras.sim.check.order import HAPPENED, PROXY_GLOBAL
from tileiras.sim.errors import DataRace, InFlight, MissingProxyFence

LIMIT = 256 << 20           # bytes of global memory that are watched at most
SEVERAL = 2**31 - 1         # as a writer: several that wrote the same value; as a reader: several clusters


class GlobalWatch:
    """The watch over a launch's global memory. An agent's number is cluster * agents of a cluster + agent, plus 1;
    negative: it wrote by an atomic or the like."""

    def __init__(self, st) -> None:
        launch = st.launch
        self.granule = g = st.program.global_granule
        self.launch = launch
        n = self.count = (launch.memory.size + 256) // g // 32 * 32
        self.agents = st.order.agents
        self.cas = st.program.cas       # such kernels read what others change by atomics, and compare it then
        self.writer, self.wtime = np.zeros(n, np.int32), np.zeros(n, np.int32)
        self.batch, self.everyone = None, None              # the numbers of all threads of the last batch that asked
        self.reader, self.rtime = np.zeros(n, np.int32), np.zeros(n, np.int32)
        self.constant: np.ndarray | None = None             # what `ld.global.nc` has read, once it has read anything

    @staticmethod
    def of(st) -> GlobalWatch | None:
        """The launch's watch, made by its first batch; None when it has none."""
        launch = st.launch
        agents = (launch.ctas // st.cluster_size + 1) * st.order.agents
        small = launch.memory.size <= LIMIT and agents < SEVERAL
        several = launch.ctas * st.padded > 32 or st.program.engines > 0        # one warp races with its own copies
        if launch.world is None and small and st.program.global_granule and several:
            launch.world = GlobalWatch(st)
        return launch.world

    def _shape(self, off: np.ndarray, size: int) -> tuple[np.ndarray, int]:
        count = max(size // self.granule, 1)
        return off // (self.granule * count), count

    def _numbers(self, st, lanes: np.ndarray) -> np.ndarray:
        if lanes is st.everyone:
            if self.batch is not st or self.everyone is None:
                self.batch, self.everyone = st, self._compute(st, lanes)
            return self.everyone
        return self._compute(st, lanes)

    def _compute(self, st, lanes: np.ndarray) -> np.ndarray:
        order = st.order
        row = lanes >> 5
        return ((order.first + row // order.warps) * self.agents + order.agent[row] + 1).astype(np.int32)

    def read(self, st, off: np.ndarray, size: int, lanes: np.ndarray, strong: bool) -> None:
        """Threads read."""
        at, count = self._shape(off, size)
        writers = self.writer if count == 1 else self.writer.reshape(-1, count)
        seen = writers[at]
        me = self._numbers(st, lanes)
        mine = me[:, None] if count > 1 else me
        if self.cas:
            seen = np.maximum(seen, 0)
        if seen.any():
            times = (self.wtime if count == 1 else self.wtime.reshape(-1, count))[at]
            self._check(st, seen, times, mine, at, count, lanes, "reads", "wrote", strong, None)
        if strong:
            return
        readers = self.reader if count == 1 else self.reader.reshape(-1, count)
        before = readers[at]
        if before.any():
            foreign = (before != 0) & ((before - 1) // self.agents != (mine - 1) // self.agents)
            mine = np.where(foreign | (before == SEVERAL), np.int32(SEVERAL), mine)
        readers[at] = mine
        (self.rtime if count == 1 else self.rtime.reshape(-1, count))[at] = st.order.now

    def read_constant(self, st, off: np.ndarray, size: int, lanes: np.ndarray) -> None:
        """Threads read by `ld.global.nc`, which is for what nobody writes while the kernel runs."""
        constant = self.constant if self.constant is not None else np.zeros(self.count, bool)
        self.constant = constant
        at, count = self._shape(off, size)
        written = self.writer if count == 1 else self.writer.reshape(-1, count)
        if written[at].any():
            self._found(st, DataRace, written[at] != 0, at, count, lanes, "reads by ld.nc", written[at], "wrote")
        (constant if count == 1 else constant.reshape(-1, count))[at] = True

    def _keeps(self, st, at: np.ndarray, count: int, lanes: np.ndarray) -> None:
        """Threads write: not what `ld.global.nc` has read."""
        constant = self.constant
        assert constant is not None
        found = (constant if count == 1 else constant.reshape(-1, count))[at]
        if found.any():
            i = int(np.argmax(found.any(axis=1) if count > 1 else found))
            granule = int(at[i]) * count + (int(np.argmax(found[i])) if count > 1 else 0)
            st.found(DataRace(f"writes {self._place(st, granule)}, which ld.nc has read, and that is for what no one writes",
                              thread=int(lanes[i])), 0)

    def write(self, st, off: np.ndarray, size: int, lanes: np.ndarray, changed: Any, lost: Any, strong: bool,
              store: Callable | None) -> None:
        """Threads write; see `Shadow.write`."""
        at, count = self._shape(off, size)
        writers, wtimes = self.writer, self.wtime
        readers, rtimes = self.reader, self.rtime
        if count > 1:
            writers, wtimes = writers.reshape(-1, count), wtimes.reshape(-1, count)
            readers, rtimes = readers.reshape(-1, count), rtimes.reshape(-1, count)
        if self.constant is not None:
            self._keeps(st, at, count, lanes)
        me = self._numbers(st, lanes)
        mine = me[:, None] if count > 1 else me
        seen, read = writers[at], readers[at]
        late = None
        if callable(changed):
            changed = changed() if seen.any() or read.any() else None
        if seen.any():
            late = self._check(st, seen, wtimes[at], mine, at, count, lanes, "overwrites", "wrote", strong, changed)
        if read.any() and not (strong and self.cas):
            self._check(st, read, rtimes[at], mine, at, count, lanes, "writes", "read", False, changed)
        if store is not None:
            store()
        number = -mine if strong else mine
        writers[at] = number
        wtimes[at] = st.order.now
        after = writers[at]
        several = after != number
        if late is not None:
            several |= late
        if several.any():
            if callable(lost):
                lost = None if strong else lost()
            if lost is not None and not strong and lost.any():
                clash = several & (after != number) & (lost[:, None] if count > 1 else lost)
                if clash.any():
                    self._found(st, DataRace, clash, at, count, lanes, "writes", after, "also writes")
            if not strong:
                if count > 1:
                    i, j = np.nonzero(several)
                    writers[at[i], j] = SEVERAL
                else:
                    writers[at[several]] = SEVERAL

    def operation(self, st, op, place: tuple, slot: int, time: int, writing: bool) -> None:
        """An asynchronous operation that thread `op.lane` issues reads or writes global memory."""
        g = self.granule
        if len(place) == 3 and np.ndim(place[1]):               # many places of one size, as rows of a box
            if place[2] <= 0 or not len(place[1]):
                return
            first, last = place[1] // g, (place[1] + place[2] - 1) // g
            at = np.minimum(first[:, None] + np.arange(int((last - first).max()) + 1), last[:, None]).reshape(-1)
        elif len(place) == 3:
            if place[2] <= 0:
                return
            at = np.arange(place[1] // g, (place[1] + place[2] - 1) // g + 1)
        else:
            at = np.unique(np.asarray(place[1], np.int64).reshape(-1)[:, None] // g + np.arange(max(16 // g, 1)))
            at = at[at < self.count]
        order = st.order
        lanes = np.full(len(at), op.lane)
        number = (order.first + (op.lane >> 5) // order.warps) * self.agents + order.warps + slot + 1
        me = np.full(len(at), number, np.int32)
        atomic = bool(getattr(op, "atomic", False))
        row = op.lane >> 5
        known = order.know[HAPPENED, row, order.warps:]
        saved = known.copy()
        np.maximum(known, op.clock[2][order.warps:], out=known)               # what the operation itself comes after
        try:
            if self.writer[at].any():
                self._check(st, self.writer[at], self.wtime[at], me, at, 1, lanes, "overwrites" if writing else "reads",
                            "wrote", atomic, None, op)
            if writing and self.reader[at].any():
                self._check(st, self.reader[at], self.rtime[at], me, at, 1, lanes, "writes", "read", False, None, op)
        finally:
            known[:] = saved
        number = self.writer[at] - 1
        mine = order.first + row // order.warps
        if order.agents and not atomic:
            agent = number % self.agents
            own = (number >= 0) & (number < SEVERAL - 1) & (number // self.agents == mine) & (agent < order.warps)
            late = own & (self.wtime[at] > order.know[PROXY_GLOBAL, row, np.where(own, agent, 0)])
            if late.any():
                self._found(st, MissingProxyFence, late, at, 1, lanes, "writes" if writing else "reads", self.writer[at],
                            "wrote", op)
        if writing:
            if self.constant is not None:
                self._keeps(st, at, 1, lanes)
            self.writer[at], self.wtime[at] = -me if atomic else me, time
        else:
            before = self.reader[at]
            foreign = (before != 0) & ((before - 1) // self.agents != (me - 1) // self.agents)
            self.reader[at], self.rtime[at] = np.where(foreign, np.int32(SEVERAL), me), time

    def _check(self, st, seen, times, mine, at, count: int, lanes, verb: str, did: str, strong: bool, changed, op=None):
        """Accesses of agents `mine` against what agents `seen` did at `times`; returns which aren't ordered behind it."""
        order = st.order
        if did == "read":
            # many readers of other clusters: a fault unless clusters synchronize through memory
            many = seen == SEVERAL
            other = (seen != mine) & (seen != 0) & ~many
            if many.any() and (self.launch.messages or self.launch.lenient):
                many[...] = False
        else:
            many = None
            other = (seen != mine) & (seen != 0) & (seen != SEVERAL) & (seen != -mine)
            if strong:
                other &= seen > 0
        if not other.any() and (many is None or not many.any()):
            return None
        number = np.abs(seen.astype(np.int64)) - 1
        cluster, agent = number // self.agents, number % self.agents
        rows = np.broadcast_to((lanes >> 5)[:, None] if count > 1 else lanes >> 5, seen.shape)
        home = order.first + rows // order.warps
        inside = other & (cluster == home)
        late = np.zeros(seen.shape, bool)
        late[inside] = times[inside] > order.know[HAPPENED][rows[inside], agent[inside]]
        outside = other & (cluster != home)
        if outside.any():
            if not self.launch.messages:
                late |= outside & (not self.launch.lenient)
            else:
                picks = np.nonzero(outside)
                asked = np.stack([rows[picks], cluster[picks], agent[picks], times[picks]], axis=1)
                kinds, back = np.unique(asked, axis=0, return_inverse=True)
                answers = np.array([not order.foreign_knows(*(int(x) for x in kind)) for kind in kinds])
                late[picks] = answers[back.reshape(-1)]
        if many is not None:
            late |= many
        clash = late if changed is None else late & (changed[:, None] if count > 1 else changed)
        if clash.any():
            busy = clash & inside & (agent >= order.warps)
            if busy.any():
                self._found(st, InFlight, busy, at, count, lanes, verb, seen, did, op)
            if (clash & ~busy).any():
                self._found(st, DataRace, clash & ~busy, at, count, lanes, verb, seen, did, op)
        return late

    def _found(self, st, kind, clash, at, count: int, lanes, verb: str, other, did: str, op=None) -> None:
        if count > 1:
            i = int(np.argmax(clash.any(axis=1)))
            j = int(np.argmax(clash[i]))
            who, granule = int(other[i, j]), int(at[i]) * count + j
        else:
            i = int(np.argmax(clash))
            who, granule = int(other[i]), int(at[i])
        lane = int(lanes[i])
        doer = op.name if op is not None else f"warp {lane % st.padded // 32}"
        text = f"{doer} {verb} {self._place(st, granule)}, which {self.who(st, who)} {did}, "
        text += {InFlight: "and nothing waited for that", MissingProxyFence: "with no fence.proxy.async between"}.get(
            kind, "and nothing orders the two")
        st.found(kind(text, thread=lane), op.line if op is not None else 0)

    def _place(self, st, granule: int) -> str:
        """A granule in words."""
        memory = st.memory
        byte = granule * self.granule
        k = memory.allocation(byte)
        return f"byte {byte - memory.starts[k]} of {memory.names[k]}" if k >= 0 else f"global byte {byte}"

    def who(self, st, number: int) -> str:
        """An agent in words."""
        order = st.order
        if number == SEVERAL:
            return "several blocks"
        cluster, agent = divmod(abs(number) - 1, self.agents)
        if agent >= order.warps:
            return "an asynchronous operation"
        position = cluster * st.cluster_size + agent // order.each
        return f"warp {agent % order.each} of block {st.launch.ctaid(position)}"
