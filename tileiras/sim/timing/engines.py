"""How long do the asynchronous engines of one SM take? The TMA unit, and tensor cores that work through a queue."""
from __future__ import annotations

from dataclasses import dataclass, field

from tileiras.machine import tensor
from tileiras.machine.latencies import QUEUE_TCGEN05, QUEUE_WGMMA
from tileiras.machine.units import PARTITIONS
from tileiras.sim.timing.memory import SmMemory
from tileiras.sim.timing.stream import SECTOR_BYTES, BulkCopy, Mma

MIN_ROW_BYTES = 16


@dataclass
class Tma:
    """Copies start in order, one box each `issue` cycles."""

    memory: SmMemory
    free: float = 0.0
    busy: float = 0.0

    def copy(self, at: float, work: BulkCopy, shift: int) -> tuple[float, float]:
        """(when its source has been read, when it is complete)."""
        latency = self.memory.latency
        start = max(at, self.free)
        self.free = start + latency.tma_issue * max(work.boxes, 1)
        self.busy += latency.tma_issue * max(work.boxes, 1)
        if work.direction == "load":
            end = self.memory.fetch(start, [s + shift for s in work.sectors], latency.tma, latency.tma_rate)
            return start, end
        if work.direction in ("store", "reduce"):
            read = self.memory.port(start + latency.shared, work.bytes / tensor.SMEM_PORT)
            amount = max(work.bytes, len(work.sectors) * SECTOR_BYTES)
            if work.direction == "reduce":
                end = self.memory.reduced(read, work.sectors, shift, amount)
            else:
                self.memory.touched.put({s + shift for s in work.sectors})
                end = max(read, self.memory.write(start + latency.shared, amount))
            return max(read, end - latency.l2), end + latency.bulk_store
        if work.direction == "shared":
            end = self.memory.port(start, work.bytes / tensor.SMEM_PORT) + latency.distributed_shared
            return end, end
        end = self.memory.fetch(start, [s + shift for s in work.sectors], latency.tma)
        return start, end


@dataclass
class WarpgroupTensor:
    """wgmma: each sub-partition's tensor core works its warps' quarters in order; a few wait in front of it."""

    memory: SmMemory
    free: list[float] = field(default_factory=lambda: [0.0] * PARTITIONS)
    queue: list[list[float]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    busy: float = 0.0

    def issue(self, at: float, partition: int, work: Mma) -> tuple[float, float]:
        """(when the command is taken, when the product is complete)."""
        n = work.shape[1]
        in_shared = work.a_from == "shared"
        interval = tensor.wgmma_interval(n, in_shared, work.sparse)
        waiting = self.queue[partition]
        taken = at
        if len(waiting) >= QUEUE_WGMMA:
            taken = max(at, waiting[-QUEUE_WGMMA])
            del waiting[:-QUEUE_WGMMA]
        start = max(taken, self.free[partition])
        waiting.append(start)
        end = self.free[partition] = start + interval
        self.busy += interval / PARTITIONS
        if partition == 0:
            self.memory.tensor_operands(start, end, tensor.wgmma_fetch(n, in_shared))
        return taken, end


@dataclass
class TensorMemoryEngine:
    """tcgen05: one queue an SM for products and copies into tensor memory, a path a sub-partition for loads and stores."""

    memory: SmMemory
    free: float = 0.0
    last: float = 0.0
    queue: list[float] = field(default_factory=list)
    path: list[float] = field(default_factory=lambda: [0.0] * PARTITIONS)
    busy: float = 0.0

    def issue(self, at: float, work: Mma, pair: TensorMemoryEngine | None = None) -> tuple[float, float]:
        """(when the command is taken, when the product is complete, before its commit). `pair`: the engine of the other CTA of a
        pair, which works on the product at the same time; the command stands in this one's queue."""
        m, n = work.shape[0], work.shape[1]
        in_shared = work.a_from == "shared"
        interval = tensor.tcgen05_interval(m, n, in_shared, work.ctas)
        both = (self,) if pair is None else (self, pair)
        taken = self._take(at)
        start = max(taken, *(engine.free for engine in both))
        self.queue.append(start)
        last = start + interval + tensor.tcgen05_latency(m, n, in_shared, work.ctas) - n / 2
        for engine in both:
            engine.free = start + interval
            engine.busy += interval
            engine.memory.tensor_operands(start, engine.free, tensor.tcgen05_fetch(m, n, in_shared, work.ctas))
            engine.last = max(engine.last, last)
        return taken, self.last

    def copy(self, at: float, amount: int, pair: TensorMemoryEngine | None = None) -> float:
        """tcgen05.cp of some bytes (into each of a pair), in the products' order."""
        both = (self,) if pair is None else (self, pair)
        start = max(self._take(at), *(engine.free for engine in both))
        self.queue.append(start)
        for engine in both:
            engine.free = start + amount / tensor.TENSOR_COPY_BYTES
            engine.memory.tensor_operands(start, engine.free, amount / tensor.SMEM_PORT)
            engine.last = max(engine.last, engine.free)
        return self.free

    def move(self, at: float, partition: int, columns: int, store: bool) -> float:
        """When a tcgen05.ld or .st is complete."""
        start = max(at, self.path[partition])
        self.path[partition] = start + tensor.tensor_move_cycles(columns, store)
        return self.path[partition] + tensor.TENSOR_LOAD_LATENCY

    def _take(self, at: float) -> float:
        deep = QUEUE_TCGEN05 * PARTITIONS
        if len(self.queue) < deep:
            return at
        at = max(at, self.queue[-deep])
        del self.queue[:-deep]
        return at
