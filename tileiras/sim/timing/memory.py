"""How long do accesses of one SM take? The shared-memory port, L1, and the SM's share of L2 and DRAM.

Shared resources are token buckets: a request may start once the ones before it have been paid for, at the resource's rate.
What the whole chip shares (L2, DRAM) is cut in equal shares; a share may be used up to a window late, since other SMs wait
while this one transfers. All times are cycles.
"""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tileiras.machine.latencies import QUEUE_PORT, Latencies
from tileiras.machine.machines import Machine
from tileiras.machine.units import REQUEST_GLOBAL, REQUEST_SHARED, generation
from tileiras.sim.timing.stream import SECTOR_BYTES

LINE_SECTORS = 4
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


@dataclass
class Sharing:
    """How the chip's resources are shared: `active` SMs, and the part of first touches that goes to DRAM because no other SM
    has brought, or brings, the same sector (`dram_share`). `resident`: everything lies in L2 before the kernel starts."""

    active: int
    dram_share: float = 1.0
    resident: bool = False


@dataclass
class SmMemory:
    """The memory side of one SM."""

    machine: Machine
    latency: Latencies
    sharing: Sharing
    shared_used: int
    """Bytes of shared memory that the resident CTAs hold; the rest is L1."""
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
    touched: set[int] = field(default_factory=set)
    l1_hits: int = 0
    sectors: int = 0

    def __post_init__(self) -> None:
        m, active = self.machine, max(self.sharing.active, 1)
        window = float(self.latency.dram)
        self.ingress = Bucket(m.ingress)
        self.egress = Bucket(m.ingress)
        self.l2 = Bucket(m.l2_per_cycle / active, window)
        self.dram = Bucket(m.dram_per_cycle / active, window)
        self.port_scale = 128 / generation(m.sm).smem_bytes
        self.l1_sectors = max(m.l1 - max(self.shared_used, L1_CARVEOUT), L1_CARVEOUT) // SECTOR_BYTES

    # ---- shared memory

    def shared(self, at: float, passes: float) -> float:
        """When an access to shared memory has gone through the port. A small one takes the unit for longer than its data need."""
        least = REQUEST_SHARED / self.port_scale
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

    def load(self, at: float, sectors: tuple[int, ...], shift: int, cached: bool) -> float:
        """When a load's sectors have arrived."""
        lines = len({s >> 2 for s in sectors})
        passes = max(lines, REQUEST_GLOBAL / self.port_scale)
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
            while len(l1) > self.l1_sectors:
                del l1[next(iter(l1))]
            if arrives > done:
                done = arrives
        return done

    def fetch(self, at: float, sectors: Iterable[int], extra: float = 0.0, single_rate: float = 0.0) -> float:
        """When sectors have come from L2 or DRAM. `extra` cycles of latency; `single_rate`: bytes a cycle of this request."""
        touched, total, new = self.touched, 0, 0
        for s in sectors:
            total += 1
            if s not in touched:
                new += 1
                touched.add(s)
        amount = total * SECTOR_BYTES
        end = max(self.ingress.take(at, amount), self.l2.take(at, amount))
        latency = float(self.latency.l2)
        transfer = 0.0
        if new and not self.sharing.resident:
            share = self.sharing.dram_share
            end = max(end, self.dram.take(at, new * SECTOR_BYTES * share))
            latency += (self.latency.dram - self.latency.l2) * share * new / total
            if single_rate:
                transfer = new * SECTOR_BYTES * share / single_rate
        if single_rate:
            transfer = max(transfer, amount / self.ingress.rate)
        return max(end + self.latency.l1, at + latency + extra + transfer)

    def store(self, at: float, sectors: tuple[int, ...], shift: int) -> float:
        """When a store no longer holds its warp's registers; the data goes its way later."""
        start = self.port(at, max(len({s >> 2 for s in sectors}), REQUEST_GLOBAL / self.port_scale))
        self.sectors += len(sectors)
        amount = len(sectors) * SECTOR_BYTES
        end = self.write(start, amount)
        for s in sectors:
            self.touched.add(s + shift)
        return max(start + self.latency.store_read, end - STORE_BACKLOG)

    def write(self, at: float, amount: float) -> float:
        """When bytes have left for L2 and DRAM."""
        end = max(self.egress.take(at, amount), self.l2.take(at, amount))
        if not self.sharing.resident:
            end = max(end, self.dram.take(at, amount))
        return end

    def atomic(self, at: float, sectors: tuple[int, ...], shift: int) -> float:
        """When an atomic's result is back. L2 does one a sector and cycle, at the cost of a read and a write."""
        start = self.port(at, max(len(sectors), 1))
        self.sectors += len(sectors)
        return self.reduced(start, sectors, shift, len(sectors) * SECTOR_BYTES) + self.latency.atomic_global

    def reduced(self, at: float, sectors: tuple[int, ...], shift: int, amount: float) -> float:
        """When L2 has taken in bytes and reduced them into its sectors, which come from DRAM where nobody has touched them yet."""
        end = max(self.egress.take(at, amount), self.l2.take(at, 2 * amount))
        new = [s + shift for s in sectors if s + shift not in self.touched]
        self.touched.update(new)
        if new and not self.sharing.resident:
            end = max(end, self.dram.take(at, len(new) * SECTOR_BYTES * self.sharing.dram_share))
        return end

    def drained(self) -> float:
        """When everything asked for has passed."""
        return max(self.ingress.free, self.egress.free, self.l2.free, self.dram.free, self.port_free)
