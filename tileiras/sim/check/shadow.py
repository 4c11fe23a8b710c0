"""Who touched a place of shared memory last, and whether an access to it is ordered behind that.

For each granule (the kernel's smallest access) the shadow remembers when it was last written and by which agent of the
cluster (a warp, or the slot of an asynchronous operation: see `order`), when it was last read at all and when by each
warp, and when by asynchronous operations. An access that isn't ordered behind an earlier one by another agent, one of
them writing, is a finding:

- between warps `DataRace`; two writers of one value aren't one, since kernels store one value many times (between threads of one
  warp: see `lanes`);
- with an operation of an engine `InFlight`: it is under way from its issue until somebody who waited for it says so;
- written by a warp and then used by an engine, or read by a warp and then written by an engine, in order but without the fence
  between their proxies: `MissingProxyFence` (an H100's copy engine does overtake `ldmatrix` whose warp has given the stage back).

The usual access is found innocent by one comparison: everything it meets is older than what every warp knows.
`Shadow` also takes accesses to global memory, which `globalshadow` judges.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tileiras.sim.check.global_shadow import GlobalWatch
from tileiras.sim.check.lanes import LaneWatch
from tileiras.sim.check.order import HAPPENED, PROXY
from tileiras.sim.errors import DataRace, InFlight, MissingProxyFence

STRONG, SAME = 0x4000, 0x2000           # flags of a writer: an atomic or the like; several wrote the same value
AGENT = 0x1FFF
CHUNK = 16                              # bytes of each place that an operation gives as an array
GENERIC = ("st.async", "red.async")      # operations that go through the proxy of ordinary accesses
ASYNC_READERS = 4                       # of a granule remembered, by the warpgroup that issued them


class Shadow:
    """The watch over one batch's memories. `track` is whether ordinary accesses to shared memory are watched."""

    def __init__(self, st) -> None:
        self.st, self.order = st, st.order
        program = st.program
        self.engines = program.engines
        self.granule = g = program.granule or 4
        several = self.order.warps > 1 or program.engines > 0
        self.track = several and program.shared_size > 1024 and program.granule > 0
        self.inits: dict[int, tuple[int, int, set]] = {}        # mbarrier -> (warp, time, warps known to know)
        self.fenced: dict[int, list[set]] = {}      # warp -> those of its inits that the next cluster barrier tells of
        self.world = GlobalWatch.of(st)
        self.lanes = LaneWatch(st, g) if program.granule > 0 else None
        if self.track:
            n = self.count = len(st.shared) // g
            self.wtime, self.writer = np.zeros(n, np.int32), np.zeros(n, np.int16)
            self.rlast = np.zeros(n, np.int32)
            self.rtime = np.zeros(self.order.warps * n, np.int32)       # [warp, granule]
            if self.engines:
                self.etime, self.ereader = np.zeros(ASYNC_READERS * n, np.int32), np.zeros(ASYNC_READERS * n, np.int16)

    # ---- ordinary accesses
    def _shape(self, off: np.ndarray, size: int) -> tuple[np.ndarray, int]:
        """(index, granules of an access): the index counts runs of that many granules."""
        count = max(size // self.granule, 1)
        return off // (self.granule * count), count

    @staticmethod
    def _runs(array: np.ndarray, count: int) -> np.ndarray:
        return array if count == 1 else array.reshape(-1, count)

    def read(self, space: str, off: np.ndarray, size: int, lanes: np.ndarray, strong: bool = False, whole: bool = False) -> None:
        """Threads `lanes` read `size` bytes at byte offsets `off` of a space; `strong`: not by an ordinary load; `whole`: each
        for its warp."""
        if space == "global":
            if self.world is not None:
                self.order.news[lanes >> 5] = True
                self.world.read(self.st, off, size, lanes, strong)
            return
        if space != "shared" or self.lanes is None:
            return
        at, count = self._shape(off, size)
        if self.track:
            self._read(at, count, lanes, strong)
        if not strong:
            self.lanes.read(at, count, lanes, whole)

    def _read(self, at: np.ndarray, count: int, lanes: np.ndarray, strong: bool) -> None:
        order = self.order
        times = self._runs(self.wtime, count)[at]
        if times.size and int(times.max()) > order.floor:
            self._check(times, self._runs(self.writer, count)[at], at, count, lanes, "reads", "wrote", strong)
        if strong:
            return                          # stores that could race with it are strong as well, or remembered as ordinary
        now = order.now
        self._runs(self.rlast, count)[at] = now
        agents = order.agent[lanes >> 5]
        self._runs(self.rtime, count)[agents * (self.count // count) + at] = now

    def write(self, space: str, off: np.ndarray, size: int, lanes: np.ndarray, changed: Any = None, lost: Any = None,
              strong: bool = False, store: Callable | None = None, whole: bool = False) -> None:
        """As `read`, for stores. `changed`: which accesses replace another value (None: take it that all do); `lost`: which
        were overwritten by another thread of the same instruction. Both are arrays, or functions that make them when
        they are needed: `changed` before `store` is called, which carries out the store, `lost` after it."""
        if space == "global" and self.world is not None:
            self.order.news[lanes >> 5] = True
            self.world.write(self.st, off, size, lanes, changed, lost, strong, store)
            return
        at, count = self._shape(off, size)
        within = self.lanes if space == "shared" and not strong else None

        def replaced(changed=changed) -> Any:
            return changed() if callable(changed) else changed
        if not self.track or space != "shared":
            if within is not None:
                within.write(at, count, lanes, whole, replaced)
            if store is not None:
                store()
            return
        order = self.order
        floor = order.floor
        writers, wtimes = self._runs(self.writer, count), self._runs(self.wtime, count)
        before = wtimes[at]
        foreign = None
        read = int(self._runs(self.rlast, count)[at].max(initial=0)) > floor
        wrote = int(before.max(initial=0)) > floor
        if callable(changed):
            changed = changed() if read or wrote else None
        if wrote:
            foreign = self._check(before, writers[at], at, count, lanes, "overwrites", "wrote", strong, changed)
        if read:
            self._check_readers(at, count, lanes, changed)
        if within is not None:
            within.write(at, count, lanes, whole, replaced)
        if store is not None:
            store()
        me = (order.agent[lanes >> 5] | (STRONG if strong else 0)).astype(np.int16)
        wtimes[at] = order.now
        if count > 1:
            me = me[:, None]
        writers[at] = me
        after = writers[at]
        several = after != me
        if foreign is not None:
            several = several | foreign
        if several.any():
            if callable(lost):
                lost = lost()
            if lost is not None and lost.any():
                clash = several & (lost[:, None] if count > 1 else lost)
                if clash.any():
                    self._found(DataRace, clash, at, count, lanes, "writes", after, "also writes")
            if not strong:
                if count > 1:
                    i, j = np.nonzero(several)
                    writers[at[i], j] |= SAME
                else:
                    writers[at[several]] |= SAME

    def atomic(self, space: str, off: np.ndarray, size: int, lanes: np.ndarray) -> None:
        """Atomics: writes that don't race among themselves."""
        if space == "global":
            self.order.atomics(lanes, off)
            if self.world is not None:
                self.world.read(self.st, off, size, lanes, True)
                self.world.write(self.st, off, size, lanes, None, None, True, None)
            return
        self.read(space, off, size, lanes, True)
        self.write(space, off, size, lanes, strong=True)

    def _check(self, times, writers, at, count, lanes, verb: str, did: str, strong: bool = False, changed=None):
        """Accesses against what was written at `times` by `writers`; returns which are unordered, whether or not that
        is a fault."""
        order = self.order
        rows = (lanes >> 5) * order.agents
        known = order.know[HAPPENED].reshape(-1)
        agents = (writers & AGENT).astype(np.int64)
        late = times > known[(rows[:, None] if count > 1 else rows) + agents]
        if not late.any():
            return None
        clash = late & ((writers & SAME) == 0)
        if strong:
            clash &= (writers & STRONG) == 0
        if changed is not None:
            clash &= changed[:, None] if count > 1 else changed
        if clash.any():
            busy = clash & (agents >= order.warps)
            if busy.any():
                self._found(InFlight, busy, at, count, lanes, verb, writers, "writes" if did == "wrote" else did)
            if (clash & ~busy).any():
                self._found(DataRace, clash & ~busy, at, count, lanes, verb, writers, did)
        return late

    def _check_readers(self, at, count, lanes, changed) -> None:
        """Stores against the reads of all agents before."""
        order = self.order
        floor = order.floor
        hot = self._runs(self.rlast, count)[at] > floor
        if changed is not None:
            hot &= changed[:, None] if count > 1 else changed
        if not hot.any():
            return
        if count > 1:
            i, j = np.nonzero(hot)
            where, rows = at[i] * count + j, lanes[i] >> 5
        else:
            i = np.flatnonzero(hot)
            where, rows = at[i], lanes[i] >> 5
        known = order.know[HAPPENED]
        for agent in range(order.warps):
            bad = self.rtime[agent * self.count + where] > known[rows, agent]
            if bad.any():
                k = int(np.argmax(bad))
                self._report(DataRace, int(lanes[i[k]]), int(where[k]), "writes", agent, "read")
                return
        for part in range(ASYNC_READERS if self.engines else 0):
            time, slot = self.etime[part * self.count + where], self.ereader[part * self.count + where]
            bad = time > known[rows, slot]
            if bad.any():
                k = int(np.argmax(bad))
                self._report(InFlight, int(lanes[i[k]]), int(where[k]), "writes", int(slot[k]), "reads")
                return

    def _found(self, kind, clash, at, count, lanes, verb: str, other: np.ndarray, did: str) -> None:
        if count > 1:
            i = int(np.argmax(clash.any(axis=1)))
            j = int(np.argmax(clash[i]))
            self._report(kind, int(lanes[i]), int(at[i]) * count + j, verb, int(other[i, j]) & AGENT, did)
        else:
            i = int(np.argmax(clash))
            self._report(kind, int(lanes[i]), int(at[i]), verb, int(other[i]) & AGENT, did)

    def place(self, granule: int, lane: int) -> str:
        """A granule in words, for a thread."""
        st = self.st
        byte = granule * self.granule
        cta = byte // st.shared_stride
        text = f"byte {byte % st.shared_stride} of shared memory"
        return text if cta == st.cta_of[lane] else f"{text} of CTA {cta % st.cluster_size} of the cluster"

    def who(self, agent: int, lane: int) -> str:
        """An agent in words, for a thread."""
        order = self.order
        if agent >= order.warps:
            return "an asynchronous operation"
        rank = agent // order.each
        words = f"warp {agent % order.each}"
        return words if rank == self.st.rank_of[lane] else f"{words} of CTA {rank} of the cluster"

    def _report(self, kind, lane: int, granule: int, verb: str, other: int, did: str) -> None:
        warp = lane % self.st.padded // 32
        if kind is InFlight:
            why = "is under way: nothing waited for it"
            text = f"warp {warp} {verb} {self.place(granule, lane)}, which {self.who(other, lane)} {did} that {why}"
        else:
            text = f"warp {warp} {verb} {self.place(granule, lane)}, which {self.who(other, lane)} {did} with no barrier between"
        self.st.found(kind(text, thread=lane))

    # ---- mbarriers
    def init_barrier(self, off: np.ndarray, lanes: np.ndarray) -> None:
        """mbarrier.init by threads."""
        time = self.order.now
        for o, lane in zip(off.tolist(), lanes.tolist()):
            self.inits[o] = lane >> 5, time, {lane >> 5}

    def fence_inits(self, lanes: np.ndarray) -> None:
        """fence.mbarrier_init by threads: it releases their initialisations, and nothing else, through what follows it."""
        rows = set(self.order.rows_of(lanes).tolist())
        for row in rows:
            self.fenced.pop(row, None)
        for warp, _, known in self.inits.values():
            if warp in rows:
                self.fenced.setdefault(warp, []).append(known)

    def hand_inits(self, warps: np.ndarray, told: dict[int, list[set]], groups: int) -> None:
        """Warps of a mask arrive at the barrier of their cluster: what they have fenced goes to `told`, by cluster."""
        if self.fenced:
            for row in np.flatnonzero(warps).tolist():
                told.setdefault(row * groups // len(warps), []).extend(self.fenced.pop(row, ()))

    def check_barrier(self, off: int, lanes: np.ndarray) -> None:
        """Threads use the mbarrier at an offset: its initialisation must have happened before."""
        found = self.inits.get(off)
        if found is None:
            return
        warp, time, known = found
        for row in self.order.rows_of(lanes).tolist():
            if row in known:
                continue
            known.add(row)
            if self.order.know[HAPPENED, row, self.order.agent[warp]] < time:
                lane = int(lanes[np.argmax(lanes >> 5 == row)])
                self.st.found(DataRace(f"warp {lane % self.st.padded // 32} uses an mbarrier that "
                                       f"{self.who(int(self.order.agent[warp]), lane)} initialized with no barrier between",
                                       thread=lane))

    # ---- asynchronous operations
    def _granules(self, place: tuple) -> np.ndarray:
        """The granules of a place of shared memory: (space, start, size), or (space, offsets of 16 bytes each)."""
        g = self.granule
        if len(place) == 3:
            return np.arange(place[1] // g, (place[1] + place[2] - 1) // g + 1)
        chunks = np.asarray(place[1], np.int64).reshape(-1)
        if g >= CHUNK:
            return chunks // g
        return (chunks[:, None] // g + np.arange(CHUNK // g)).reshape(-1)

    def begin(self, op) -> None:
        """An asynchronous operation is issued by thread `op.lane`: check what was there, and mark it."""
        order = self.order
        slot, time = order.begin(op)
        row = op.lane >> 5
        known = order.know[HAPPENED, row].copy()
        np.maximum(known[order.warps:], op.clock[2][order.warps:], out=known[order.warps:])
        fenced = known if getattr(op, "generic", False) else order.know[PROXY, row]
        fault = None
        for place in op.reads:
            if place[0] == "shared" and self.track:
                where = self._granules(place)
                fault = fault or self._judge(op, where, known, fenced, "reads")
                part = (op.lane // 128) % ASYNC_READERS * self.count
                self.etime[part + where] = time
                self.ereader[part + where] = order.warps + slot
                self.rlast[where] = time
            elif place[0] == "global" and self.world is not None:
                self.world.operation(self.st, op, place, slot, time, False)
        atomic = bool(getattr(op, "atomic", False))
        for place in op.writes:
            if place[0] == "shared" and self.track:
                where = self._granules(place)
                fault = fault or self._judge(op, where, known, fenced, "adds to" if atomic else "writes")
                self.wtime[where] = time
                self.writer[where] = order.warps + slot | (STRONG if atomic else 0)
            elif place[0] == "global" and self.world is not None:
                self.world.operation(self.st, op, place, slot, time, True)
        self.remote(op.lane, [p for p in (*op.reads, *op.writes) if p[0] == "shared"], order.warps + slot, time)
        if fault is not None:
            self.st.found(fault, op.line)

    def _judge(self, op, where: np.ndarray, known: np.ndarray, fenced: np.ndarray, verb: str):
        """The fault of an operation that touches granules, or None."""
        order = self.order
        times, writers = self.wtime[where], self.writer[where]
        agents = writers & AGENT
        late = times > known[agents]
        if verb == "adds to":
            late &= (writers & STRONG) == 0
        lane = op.lane
        if late.any():
            i = int(np.argmax(late))
            place, who = self.place(int(where[i]), lane), self.who(int(agents[i]), lane)
            if agents[i] >= order.warps:
                return InFlight(f"{op.name} {verb} {place}, which {who} writes that is under way: nothing waited for it",
                                thread=lane)
            return DataRace(f"{op.name} {verb} {place}, which {who} wrote with no barrier between", thread=lane)
        late = (times > fenced[agents]) & (agents < order.warps)
        if late.any() and op.name not in GENERIC:
            i = int(np.argmax(late))
            return MissingProxyFence(f"{op.name} {verb} {self.place(int(where[i]), lane)}, which "
                                     f"{self.who(int(agents[i]), lane)} wrote, with no fence.proxy.async between", thread=lane)
        last = int(self.rlast[where].max(initial=0))
        if verb == "reads" or (last <= order.floor and last <= int(known.min()) and last <= int(fenced[:order.warps].min())):
            return None
        for agent in range(order.warps):
            read = self.rtime[agent * self.count + where]
            bad = read > known[agent]
            if bad.any():
                return DataRace(f"{op.name} {verb} {self.place(int(where[np.argmax(bad)]), lane)}, which "
                                f"{self.who(agent, lane)} read with no barrier between", thread=lane)
            bad = read > fenced[agent]
            if bad.any() and op.name not in GENERIC:
                return MissingProxyFence(f"{op.name} {verb} {self.place(int(where[np.argmax(bad)]), lane)}, which "
                                         f"{self.who(agent, lane)} read, with no fence.proxy.async between", thread=lane)
        for part in range(ASYNC_READERS):
            slots = self.ereader[part * self.count + where]
            bad = self.etime[part * self.count + where] > known[slots]
            if bad.any():
                return InFlight(f"{op.name} {verb} {self.place(int(where[np.argmax(bad)]), lane)}, which "
                                "an asynchronous operation reads that is under way: nothing waited for it", thread=lane)
        return None

    def remote(self, lane: int, places: list, agent: int, time: int) -> None:
        """Shared memory of other CTAs of the cluster is used: they mustn't exit before."""
        st = self.st
        if st.cluster_size == 1:
            return
        own = int(st.cta_of[lane])
        for place in places:
            first = int(place[1]) if len(place) == 3 else int(np.asarray(place[1]).reshape(-1)[0])
            cta = first // st.shared_stride
            if cta != own:
                st.visits[cta, agent] = max(int(st.visits[cta, agent]), time)
