"""Tensor memory: 128 lanes x 512 columns of 32-bit cells in each CTA, its allocations, and who may touch which cells when.

An address is lane << 16 | column. A cell is written or not; it counts as written from the moment that an operation
which writes it is issued, so that a product may be issued behind the copy that brings its scale factors.

Order. Every access to cells belongs to an agent: the loads, the stores or the asynchronous operations of one warp; the
agent counts them. Every warp knows, of every agent, up to which count its accesses are finished and visible (`KNOWN`):
of its own loads and stores what `tcgen05.wait` waited for, of other agents what came to it through barriers. An access
to cells that somebody used beyond that is a finding. `HAPPENED` is the same without regard to tcgen05.fence, to tell a
missing fence from missing synchronization.

A barrier (`bar`, `barrier`) carries what the arriving warp had before its last `tcgen05.fence::before_thread_sync`, and
that counts for the waiting warp from its next `tcgen05.fence::after_thread_sync` on. An mbarrier carries everything:
compilers rely on it, so fences around mbarriers aren't asked for, except in a strict launch. `tcgen05.commit` carries the
issuing thread's asynchronous operations.
"""
from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tileiras.sim.errors import InFlight, SimulationError, TensorMemoryError
from tileiras.sim.tcgen05.layout import COLUMNS, LANES

GROUP = 16                                   # lanes that share their order marks
LOAD, STORE, ENGINE, ISSUED = range(4)       # a warp's agents; ISSUED: asynchronous operations issued, finished or not
AGENTS = 4
HAPPENED, KNOWN, AWAITED, FENCED = range(4)  # what a warp knows: see the module's text
_WORDS = {LOAD: "tcgen05.ld", STORE: "tcgen05.st", ENGINE: "an asynchronous tcgen05 operation"}
_WAITS = {LOAD: "tcgen05.wait::ld", STORE: "tcgen05.wait::st", ENGINE: "a tcgen05.commit that is waited for"}


@dataclass
class Allocation:
    """Columns [start, start + count) of one CTA. `line` and `lane`: the PTX line and the thread that allocated."""
    start: int
    count: int
    line: int
    lane: int


@dataclass
class Request:
    """An allocation (or a pair's half of it) that waits. `granted`: the address, when there is one."""
    count: int
    line: int
    lane: int
    granted: int | None = None


@dataclass
class Places:
    """Cells that an operation touches in one CTA: lanes and columns, arrays that broadcast."""
    cta: int
    lanes: np.ndarray
    columns: np.ndarray


@dataclass
class _Marks:
    """Who used each group of lanes x column last: agent number and its count, for one kind of use."""
    agent: np.ndarray
    count: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.count = np.zeros(self.agent.shape, np.int64)


class TensorMemory:
    """Tensor memory of all CTAs of a batch."""

    def __init__(self, st) -> None:
        self.st = st
        self.cluster = st.cluster_size
        self.warps = self.cluster * st.padded // 32                  # of a cluster
        shape = (st.ctas, LANES, COLUMNS)
        self.data, self.written = np.zeros(shape, np.uint32), np.zeros(shape, bool)
        self.owner = np.zeros((st.ctas, COLUMNS), bool)
        self.allocations: list[list[Allocation]] = [[] for _ in range(st.ctas)]
        self.requests: dict[tuple[int, int], Request] = {}           # by CTA and warp
        self.relinquished = np.zeros(st.ctas, bool)
        self.least = np.full(st.ctas, COLUMNS)                       # columns of the smallest allocation so far
        groups = (st.ctas, LANES // GROUP, COLUMNS)
        self.marks = {use: _Marks(np.full(groups, -1, np.int32)) for use in ("written", "loaded", "read")}
        agents = AGENTS * self.warps
        self.knowledge = np.zeros((st.ctas // self.cluster, self.warps, 4, agents), np.int64)
        self.flat = self.knowledge.reshape(-1, 4, agents)            # the same by the batch's warps
        self.counts = np.zeros((st.ctas // self.cluster, agents), np.int64)
        self.pipelines: dict = {}                                    # thread -> (its last operation, the agent's count of it)
        self.lines: dict[tuple[int, int], tuple[int, int]] = {}      # (cluster, agent) -> thread and line of its last access
        self.strict = st.launch.strict
        self.changes = 0                                             # of knowledge, to see whether a release is news
        self.told: tuple | None = None                               # the last release of a single thread
        self.carried: dict = {}                                      # key of a barrier -> (HAPPENED, KNOWN, AWAITED) rows

    # ---- who is who
    def warp_of(self, lane: int) -> tuple[int, int]:
        """(cluster of the batch, warp of that cluster) of a thread."""
        each = self.cluster * self.st.padded
        return lane // each, lane % each // 32

    # ---- order
    def release(self, lanes: np.ndarray, key) -> None:
        """The threads' warps make what they know available at a barrier."""
        if len(lanes) == 1:                                          # the threads of a warp one by one: once is enough
            told = key, int(lanes[0]) // 32, self.changes
            if told == self.told:
                return
            self.told = told
        for cluster, rows in self._rows(lanes):
            agents = AGENTS * (rows % self.warps)
            know = self.flat[rows]
            at = np.arange(len(rows))
            issued = self.counts[cluster, agents + ENGINE]
            for level in (HAPPENED, KNOWN):
                know[at, level, agents + ISSUED] = issued
            self.flat[rows] = know
            awaited = np.maximum(know[:, FENCED], know[:, AWAITED]).max(axis=0)
            known = np.zeros_like(awaited)
            if key[0] == "mbar" and not self.strict:
                known = np.maximum(know[:, KNOWN].max(axis=0), awaited)
            self._carry(cluster, key, know[:, HAPPENED].max(axis=0), known, awaited)

    def acquire(self, lanes: np.ndarray, key) -> None:
        """The threads' warps take over what was made available at a barrier."""
        for cluster, rows in self._rows(lanes):
            found = self.carried.get((cluster, key))
            if found is not None:
                self.changes += 1
                self.flat[rows, :3] = np.maximum(self.flat[rows, :3], found)

    def complete(self, cluster: int, key, agent: int, count: int) -> None:
        """An agent's accesses up to `count` are finished, which a barrier makes available."""
        row = np.zeros(AGENTS * self.warps, np.int64)
        row[agent] = count
        self._carry(cluster, key, row, np.zeros_like(row) if self.strict else row, row)

    def _carry(self, cluster: int, key, happened, known, awaited) -> None:
        rows = np.stack([happened, known, awaited])
        found = self.carried.get((cluster, key))
        if found is not None:
            np.maximum(found, rows, out=found)
        else:
            self.carried[cluster, key] = rows
            if key[0] == "mbar":                          # nobody can wait for phases that old
                self.carried.pop((cluster, ("mbar", key[1], key[2] - 3)), None)

    def _rows(self, lanes: np.ndarray) -> list[tuple[int, np.ndarray]]:
        """(cluster, warps of the batch) of some threads, cluster by cluster."""
        rows = np.unique(np.asarray(lanes) // 32)
        clusters = rows // self.warps
        if not len(rows) or clusters[0] == clusters[-1]:
            return [(int(clusters[0]), rows)] if len(rows) else []
        return [(int(c), rows[clusters == c]) for c in np.unique(clusters)]

    def fence(self, lanes: np.ndarray, before: bool) -> None:
        """tcgen05.fence::before_thread_sync or after_thread_sync."""
        rows = np.unique(lanes // 32)
        know = self.flat[rows]
        self.changes += 1
        if before:
            agents = AGENTS * (rows % self.warps)
            know[np.arange(len(rows)), KNOWN, agents + ISSUED] = self.counts[rows // self.warps, agents + ENGINE]
            know[:, FENCED] = np.maximum(know[:, FENCED], know[:, KNOWN])
        else:
            know[:, KNOWN] = np.maximum(know[:, KNOWN], know[:, AWAITED])
        self.flat[rows] = know

    def wait(self, lanes: np.ndarray, kind: int) -> None:
        """tcgen05.wait::ld or wait::st: the warp's own loads or stores are finished."""
        rows = np.unique(lanes // 32)
        agents = AGENTS * (rows % self.warps) + kind
        self.changes += 1
        for level in (HAPPENED, KNOWN):
            self.flat[rows, level, agents] = self.counts[rows // self.warps, agents]

    def use(self, lane: int, kind: int, reads: list[Places], writes: list[Places], what: str, level: int = KNOWN) -> int:
        """An access by a thread's warp: check that it is ordered behind those before it, and remember it.

        `level`: what of the warp's knowledge counts. Returns the agent's count of it. Use out of order is a finding."""
        cluster, warp = self.warp_of(lane)
        agent = AGENTS * warp + kind
        self.changes += 1
        self.counts[cluster, agent] += 1
        count = int(self.counts[cluster, agent])
        self.lines[cluster, agent] = lane, self.st.where()
        found = False
        for writing, places in ((False, reads), (True, writes)):
            for place in places:
                at = np.broadcast_arrays(np.asarray(place.lanes) // GROUP, place.columns)
                if level == KNOWN:
                    self.st.launch.statistics.move("tensor", writing, 4 * at[0].size)
                where = np.unique(at[0].astype(np.int64) * COLUMNS + at[1])
                found = found or self._check(lane, cluster, warp, agent, place.cta, where, writing, what, level)
                uses = ("written",) if writing else ("loaded",) if kind == LOAD else ("read",)
                for use in uses:
                    self.marks[use].agent[place.cta].reshape(-1)[where] = agent
                    self.marks[use].count[place.cta].reshape(-1)[where] = count
        return count

    def _check(self, lane, cluster, warp, agent, cta, where, writing, what, level) -> bool:
        if self.st.order is None:
            return False
        know = self.knowledge[cluster, warp, level]
        for use in ("written", "loaded", "read") if writing else ("written",):
            marks = self.marks[use]
            other, count = marks.agent[cta].reshape(-1)[where], marks.count[cta].reshape(-1)[where]
            late = (other >= 0) & (count > know[other])
            if agent % AGENTS == ENGINE:                  # the operations of one thread, or of fenced ones, are in order
                late &= (other != agent) & ((other % AGENTS != ENGINE) | (count > know[other - ENGINE + ISSUED]))
            elif writing:                                 # stores of one warp, and behind its loads
                late &= (other != agent) & (self.strict | (other != agent - STORE + LOAD))
            if late.any():
                i = int(np.argmax(late))
                self._report(lane, cluster, warp, int(other[i]), int(count[i]), int(where[i]), use, writing, what)
                return True
        return False

    def _report(self, lane, cluster, warp, other, count, where, use, writing, what) -> None:
        kind, whose = other % AGENTS, other // AGENTS
        place = f"lane {where // COLUMNS * GROUP}, column {where % COLUMNS} of tensor memory"
        did = "wrote" if use == "written" else "read"
        verb = "writes" if writing else "reads"
        who = "the same warp" if whose == warp else f"warp {whose}"
        if self.knowledge[cluster, warp, HAPPENED, other] >= count:
            why = "the barrier between needs tcgen05.fence::before_thread_sync and tcgen05.fence::after_thread_sync"
        elif kind != ENGINE and self.knowledge[cluster, whose, KNOWN, other] < count:
            why = f"without {_WAITS[kind]}"
        elif kind == ENGINE:
            why = f"which may be under way still: it needs {_WAITS[kind]}"
        else:
            why = "with no synchronization between"
        self.found(InFlight(f"{what} {verb} {place}, which {_WORDS[kind]} of {who} {did}: {why}", thread=lane))

    def found(self, error: SimulationError, line: int | None = None) -> None:
        """Keep a finding at the current line, or at `line`."""
        self.st.found(error, line or 0)

    # ---- cells
    def check_cells(self, places: Places, lane: int, what: str, reading: bool) -> bool:
        """Find fault with cells outside the allocations, or read before they were written; whether all is well."""
        cta = places.cta
        lanes, columns = np.broadcast_arrays(places.lanes, places.columns)
        if lanes.size == 0:
            return True
        if lanes.min() < 0 or lanes.max() >= LANES or columns.min() < 0 or columns.max() >= COLUMNS:
            raise TensorMemoryError(f"{what}: lane {int(lanes.max())}, column {int(columns.max())} is outside tensor memory",
                                    thread=lane)
        owned = self.owner[cta][columns]
        if not owned.all():
            column = int(columns[~owned].min())
            self.found(TensorMemoryError(f"{what}: column {column} of tensor memory isn't allocated", thread=lane))
            return False
        if reading and not self.written[cta, lanes, columns].all():
            bad = np.argwhere(~self.written[cta, lanes, columns])[0]
            self.found(TensorMemoryError(f"{what}: lane {int(lanes[tuple(bad)])}, column {int(columns[tuple(bad)])} of tensor "
                                         "memory is read before it is written", thread=lane))
            return False
        return True

    # ---- allocation
    def request(self, cta: int, lane: int, count: int, group: int, line: int) -> int | None:
        """tcgen05.alloc by a warp: the address, or None while there is no room (or the pair's other warp is missing)."""
        warp = self.warp_of(lane)[1]
        if count not in (32, 64, 128, 256, 512):
            raise TensorMemoryError(f"tcgen05.alloc of {count} columns; a power of two from 32 to 512 is needed", thread=lane)
        waiting = self.requests.get((cta, warp))
        if waiting is None:
            if self.relinquished[cta]:
                self.found(TensorMemoryError("tcgen05.alloc after tcgen05.relinquish_alloc_permit", thread=lane))
            if count > self.least[cta]:
                self.found(TensorMemoryError(f"tcgen05.alloc of {count} columns after one of {int(self.least[cta])}: "
                                             "allocations mustn't grow", thread=lane))
            self.least[cta] = min(count, self.least[cta])
            waiting = self.requests[cta, warp] = Request(count, line, lane)
        if waiting.granted is None:
            self._grant(cta, group, waiting)
        if waiting.granted is None:
            return None
        del self.requests[cta, warp]
        return waiting.granted

    def _grant(self, cta: int, group: int, waiting: Request) -> None:
        members = {cta: waiting}
        if group == 2:
            peer = cta ^ 1
            found = next((r for (c, _), r in self.requests.items() if c == peer and r.granted is None), None)
            if found is None:
                return
            if found.count != waiting.count:
                raise TensorMemoryError(f"the CTAs of a pair allocate {waiting.count} and {found.count} columns",
                                        thread=waiting.lane)
            members[peer] = found
        start = self._room(sorted(members), waiting.count)
        if start is None:
            return
        for c, request in members.items():
            self.owner[c, start:start + request.count] = True
            self.written[c, :, start:start + request.count] = False
            self.allocations[c].append(Allocation(start, request.count, request.line, request.lane))
            request.granted = start
            held = sum(allocation.count for allocation in self.allocations[c])
            self.st.launch.tensor_columns = max(self.st.launch.tensor_columns, held)

    def _room(self, ctas: list[int], count: int) -> int | None:
        """Where `count` columns are free in all of `ctas`; under a seed any such place, else the first."""
        taken = np.asarray(self.owner[ctas].any(axis=0))
        free = [s for s in range(0, COLUMNS, count) if not taken[s:s + count].any()]
        if not free:
            return None
        chance = self.st.agents.random
        return free[0] if chance is None else chance.choice(free)

    def free(self, cta: int, lane: int, address: int, count: int, what: str = "tcgen05.dealloc") -> None:
        """tcgen05.dealloc: the CTA's columns are free again."""
        start = address & 0xFFFF
        for allocation in self.allocations[cta]:
            if allocation.start == start and address >> 16 == 0:
                if allocation.count != count:
                    self.found(TensorMemoryError(f"{what} of {count} columns of an allocation of {allocation.count}", thread=lane))
                break
        else:
            again = " (freed already, or never allocated)"
            self.found(TensorMemoryError(f"{what}: {address:#x} isn't an allocation's address{again}", thread=lane))
            return
        columns = np.arange(allocation.start, allocation.start + allocation.count)
        place = Places(cta, np.arange(0, LANES, GROUP)[:, None], columns)
        self.use(lane, STORE, [], [place], what, HAPPENED)
        self.wait(np.array([lane]), STORE)
        for marks in self.marks.values():
            marks.agent[cta, :, columns] = -1
        self.allocations[cta].remove(allocation)
        self.owner[cta, columns] = False
        self.st.moved = True

    def describe_waits(self) -> list[str]:
        """Who waits for columns, for the message of a deadlock."""
        return [f"warp {warp % (self.st.padded // 32)} waits for {r.count} columns of tensor memory (line {r.line}), "
                f"{int((~self.owner[cta]).sum())} are free" for (cta, warp), r in self.requests.items()]

    def at_exit(self) -> None:
        """The kernel is over: every allocation that is left is a finding, and every load that nobody waited for."""
        for (cluster, agent), (lane, line) in self.lines.items():
            if agent % AGENTS == LOAD and self.counts[cluster, agent] > self.knowledge[cluster, agent // AGENTS, KNOWN, agent]:
                self.found(InFlight("tcgen05.ld is never waited for: its registers are valid after tcgen05.wait::ld",
                                    thread=lane), line)
        for allocations in self.allocations:
            for allocation in allocations:
                self.found(TensorMemoryError(f"{allocation.count} columns of tensor memory are never deallocated",
                                             thread=allocation.lane), allocation.line)


def tensor_memory(st) -> TensorMemory:
    """The batch's tensor memory, made on first use."""
    if st.tensor is None:
        st.tensor = TensorMemory(st)
    return st.tensor
