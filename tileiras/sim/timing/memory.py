"""How long do accesses of one SM take? The shared-memory port, L1, and the SM's share of L2 and DRAM.

Shared resources are token buckets: a request may start once the ones before it have been paid for, at the resource's rate.
What the whole chip shares (L2, DRAM) is cut in equal shares; one of DRAM may be used up to a window late, since other SMs wait
while this one transfers (of L2 it can't: SMs that run alike ask at the same time). All times are cycles.
"""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import sqrt

from tileiras.machine.latencies import QUEUE_PORT, Latencies
from tileiras.machine.machines import Machine
from tileiras.machine.units import REQUEST_GLOBAL, REQUEST_SHARED, generation
from tileiras.sim.timing.stream import SECTOR_BYTES

LINES_A_PASS = 3
"""Lines of L1 that an access looks up in a cycle. H100 2026-11-27: 10.9 cycles for 32 lines anywhere, 3.9 for 8."""
REQUESTS_A_CYCLE = 1.0
"""Lines that one SM can ask L2 for. H100 2026-11-27: 32 cycles for 32 sectors anywhere."""
MOST_LOAD, SETTLING = 0.75, 4000.0
"""From which load on the queue in front of L2 or DRAM is no longer, and the cycles until a kernel has one."""
ATOMIC_REQUESTS = 1.3
"""What a sector of an atomic costs L2, in requests. H100 2026-11-27: 52 a cycle where gathers of sectors get 66."""
ATOMIC_LANE = 3.3
"""Cycles that L2 takes for another lane's atomic at one place. H100 2026-11-27: 106 for 32 lanes."""
LINE_SECTORS = 4
LINE_BYTES = LINE_SECTORS * SECTOR_BYTES
L2_USABLE = 0.7
"""Of the capacity of L2, with what hashing and other data take."""
LOCAL = 1 << 60
"""Numbers of sectors of local memory begin here: a warp has LOCAL_SPAN of them."""
LOCAL_SPAN = 1 << 16
L1_CARVEOUT = 8 * 1024
"""Bytes of L1 that shared memory never takes."""
STORE_BACKLOG = 600
"""Cycles of stores that may wait before the next one stops its warp."""
MOST_TENSOR_SHARE = 0.95


@dataclass
class Bucket:
    """`rate` in bytes a cycle. `window`: how late unused rate may still be used."""

    rate: float
    window: float = 0.0
    free: float = 0.0
    busy: float = 0.0
    moved: float = 0.0

    def take(self, at: float, amount: float) -> float:
        """When `amount` bytes asked for at a time have passed."""
        start = self.free
        if start < at - self.window:
            start = at - self.window
        cycles = amount / self.rate
        self.busy += cycles
        self.moved += amount
        self.free = end = start + cycles
        return end if end > at else at


class Recent:
    """Sectors that L2 still has of those that an SM has touched: the last `most`, to a half."""

    __slots__ = ("most", "new", "old")

    def __init__(self, most: int) -> None:
        self.most = max(most // 2, 1)
        self.new: set[int] = set()
        self.old: set[int] = set()

    def put(self, sectors: set[int]) -> int:
        """They were touched; how many of them weren't there."""
        fresh = len(sectors - self.new - self.old)
        self.new |= sectors
        if len(self.new) > self.most:
            self.old, self.new = self.new, set()
        return fresh


@dataclass
class Sharing:
    """How the chip's resources are shared: `active` SMs, and the part of first touches that goes to DRAM because no other SM
    has brought, or brings, the same sector (`dram_share`). `resident`: everything lies in L2 before the kernel starts.
    `atomic_places`: slices of L2 that work on the launch's atomics at a time, one sector a cycle each."""

    active: int
    dram_share: float = 1.0
    resident: bool = False
    atomic_places: float = 1e9


@dataclass
class SmMemory:
    """The memory side of one SM."""

    machine: Machine
    latency: Latencies
    sharing: Sharing
    shared_used: int
    """Bytes of shared memory that the resident CTAs hold; the rest is L1."""
    least_shared: float = field(init=False)
    port_free: float = 0.0
    port_busy: float = 0.0
    queue: float = 0.0
    """Cycles of work that may stand in front of the port: requests like the last one."""
    tensor_until: float = 0.0
    tensor_share: float = 0.0
    ingress: Bucket = field(init=False)
    egress: Bucket = field(init=False)
    l2: Bucket = field(init=False)
    dram: Bucket = field(init=False)
    l1: dict[int, float] = field(default_factory=dict)
    requests: Bucket = field(init=False)
    asked: Bucket = field(init=False)
    atomics: Bucket = field(init=False)
    write_cost: float = field(init=False)
    """Of a byte written to L2, in bytes read from it."""
    touched: Recent = field(init=False)
    l1_hits: int = 0
    sectors: int = 0

    def __post_init__(self) -> None:
        m, active = self.machine, max(self.sharing.active, 1)
        window = float(self.latency.dram)
        self.ingress = Bucket(m.ingress)
        self.egress = Bucket(m.egress)
        self.requests = Bucket(m.l2_requests_per_cycle / active)
        self.asked = Bucket(REQUESTS_A_CYCLE)
        self.atomics = Bucket(min(m.l2_requests_per_cycle / ATOMIC_REQUESTS, self.sharing.atomic_places) / active, window)
        self.touched = Recent(int(L2_USABLE * m.l2 / SECTOR_BYTES / active / max(self.sharing.dram_share, 1 / active)))
        share = self.sharing.dram_share
        self.l2 = Bucket(1 / active / (share / m.l2_per_cycle + (1 - share) * m.sustained_clock / m.l2_shared))
        self.write_cost = m.l2_rate / m.l2_write
        self.dram = Bucket(m.dram_per_cycle / active, window)
        self.port_scale = 128 / generation(m.sm).smem_bytes
        self.least_shared = REQUEST_SHARED[max(n for n in REQUEST_SHARED if n <= max(m.sm, 75))] / self.port_scale
        self.l1_sectors = max(m.l1 - max(self.shared_used, L1_CARVEOUT), L1_CARVEOUT) // SECTOR_BYTES

    # ---- shared memory

    def shared(self, at: float, passes: float) -> float:
        """When an access to shared memory has gone through the port. A small one takes the unit for longer than its data need."""
        least = self.least_shared
        if passes >= least:
            return self.port(at, passes)
        return self.port(at, least) - (least - passes) * self.port_scale

    def port(self, at: float, passes: float) -> float:
        """When an access of this many 128-byte passes has gone through the port. Operands of wgmma and tcgen05 go first."""
        passes *= self.port_scale
        self.queue = QUEUE_PORT * (passes if passes > 1 else 1)
        start = at if at > self.port_free else self.port_free
        self.port_busy += passes
        if start < self.tensor_until:
            passes /= 1.0 - self.tensor_share
        self.port_free = start + passes
        return self.port_free

    def tensor_operands(self, start: float, end: float, cycles: float) -> None:
        """A matrix product reads operands for `cycles` of the port between two times."""
        if end > start and cycles:
            self.port_busy += cycles
            self.tensor_share = min(cycles / (end - start), MOST_TENSOR_SHARE)
            if end > self.tensor_until:
                self.tensor_until = end

    # ---- global memory

    def load(self, at: float, sectors: tuple[int, ...], shift: int, cached: bool, waves: int = 0) -> float:
        """When a load's sectors have arrived. `waves`: passes through the banks, where they are known."""
        lines = len({s >> 2 for s in sectors})
        passes = max(waves or lines, lines / LINES_A_PASS, REQUEST_GLOBAL / self.port_scale)
        start = self.port(at, passes)
        begin = start - passes * self.port_scale - 1
        self.sectors += len(sectors)
        if not sectors:
            return begin + self.latency.l1
        if not cached:
            return self.fetch(start, [s + shift for s in sectors])
        l1, done = self.l1, begin + self.latency.l1
        missing = []
        for s in sectors:
            s += shift
            arrives = l1.get(s)
            if arrives is None:
                missing.append(s)
            elif arrives > done:
                done = arrives
        self.l1_hits += len(sectors) - len(missing)
        if missing:
            arrives = self.fetch(start, missing)
            for s in missing:
                l1[s] = arrives
            self._evict()
            if arrives > done:
                done = arrives
        return done

    def local(self, at: float, warp: int, offset: int, words: int, is_store: bool) -> float:
        """When a warp's access to local memory, of some words a lane, has its data, or has left its registers. L1 holds what fits
        beside shared memory; stores go on to L2, and what has left L1 comes back from there."""
        first = LOCAL + warp * LOCAL_SPAN + offset % LOCAL_SPAN
        sectors = range(first, first + LINE_SECTORS * words)
        start = self.port(at, words)
        l1 = self.l1
        if is_store:
            amount = len(sectors) * SECTOR_BYTES
            cost = self.write_cost
            end = max(self.egress.take(start, amount), self.l2.take(start, amount * cost), self.requests.take(start, words * cost))
            for s in sectors:
                l1.pop(s, None)
                l1[s] = start
            self.touched.put(set(sectors))
            self._evict()
            return max(start + self.latency.store_read, end - STORE_BACKLOG)
        done = start + self.latency.l1
        missing = [s for s in sectors if s not in l1]
        if missing:
            done = max(done, self.fetch(start, missing))
        for s in sectors:
            l1.pop(s, None)     # the last use, as spills are read
        return done

    def _evict(self) -> None:
        l1 = self.l1
        while len(l1) > self.l1_sectors:
            del l1[next(iter(l1))]

    def fetch(self, at: float, sectors: Iterable[int], extra: float = 0.0, single_rate: float = 0.0) -> float:
        """When sectors have come from L2 or DRAM. `extra` cycles of latency; `single_rate`: bytes a cycle of this request."""
        asked = set(sectors)
        total, new = len(asked), self.touched.put(asked)
        lines = len({s >> 2 for s in asked})
        amount = total * SECTOR_BYTES
        end = max(self.ingress.take(at, amount), self.l2.take(at, amount), self.requests.take(at, lines),
                  self.asked.take(at, lines))
        latency = self.latency.l2 + self._queue(self.l2 if self.l2.busy > self.requests.busy else self.requests, at)
        transfer = 0.0
        if new and not self.sharing.resident:
            share = self.sharing.dram_share
            end = max(end, self.dram.take(at, new * SECTOR_BYTES * share))
            # Who asks for what others have asked for waits as they do, unless it was long ago.
            latency += (self.latency.dram - self.latency.l2 + self._queue(self.dram, at)) * sqrt(share) * new / total
            if single_rate:
                transfer = new * SECTOR_BYTES * share / single_rate
        if single_rate:
            transfer = max(transfer, amount / self.ingress.rate)
        return max(end + self.latency.l1, at + latency + extra + transfer)

    def _queue(self, bucket: Bucket, at: float) -> float:
        """Cycles that a request waits behind those of other SMs, by how busy they keep what they share."""
        load = min(bucket.busy / (at + SETTLING), MOST_LOAD)
        return self.latency.queue * load / (1 - load)

    def store(self, at: float, sectors: tuple[int, ...], shift: int, waves: int = 0) -> float:
        """When a store no longer holds its warp's registers; the data goes its way later."""
        lines = len({s >> 2 for s in sectors})
        start = self.port(at, max(waves or lines, lines / LINES_A_PASS, REQUEST_GLOBAL / self.port_scale))
        self.sectors += len(sectors)
        amount = len(sectors) * SECTOR_BYTES
        end = self.write(start, amount, lines)
        self.touched.put({s + shift for s in sectors})
        return max(start + self.latency.store_read, end - STORE_BACKLOG)

    def write(self, at: float, amount: float, lines: float = 0) -> float:
        """When bytes have left for L2 and DRAM. `lines`: in so many requests, of whole lines where it isn't said."""
        cost = self.write_cost
        end = max(self.egress.take(at, amount), self.l2.take(at, amount * cost),
                  self.requests.take(at, (lines or amount / LINE_BYTES) * cost))
        if not self.sharing.resident:
            end = max(end, self.dram.take(at, amount))
        return end

    def atomic(self, at: float, sectors: tuple[int, ...], shift: int, most: int = 1) -> float:
        """When an atomic's result is back. `most`: lanes at one place, which L2 works one after the other."""
        start = self.port(at, max(len(sectors), 1))
        self.sectors += len(sectors)
        end = self.atomics.take(start, len(sectors) + ATOMIC_LANE * max(most - 1, 0))
        return max(end, self.reduced(start, sectors, shift, len(sectors) * SECTOR_BYTES)) + self.latency.atomic_global

    def reduced(self, at: float, sectors: tuple[int, ...], shift: int, amount: float) -> float:
        """When L2 has taken in bytes and reduced them into its sectors, which come from DRAM where nobody has touched them yet."""
        end = max(self.egress.take(at, amount), self.l2.take(at, 2 * amount))
        new = self.touched.put({s + shift for s in sectors})
        if new and not self.sharing.resident:
            end = max(end, self.dram.take(at, new * SECTOR_BYTES * self.sharing.dram_share))
        return end

    def drained(self) -> float:
        """When everything asked for has passed."""
        return max(self.ingress.free, self.egress.free, self.l2.free, self.requests.free, self.asked.free,
                   self.atomics.free, self.dram.free, self.port_free)
