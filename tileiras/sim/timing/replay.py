"""How many cycles do some CTAs take on one SM? Their streams, replayed with control fields, units, barriers and engines.

Four schedulers an SM issue one instruction a cycle each. A warp's next instruction may issue when the stall count of the one
before has passed and the scoreboards in its wait mask are free; then it takes the next free slot of its scheduler and port of
its pipe. What an execution did comes with it as a payload: that decides when its scoreboards are released. Everything stands
on one heap of (time, warp); each entry is an issue, so that a replay costs the same whatever the latencies are. CTAs of a
cluster run on neighbouring SMs, replayed together.
"""
from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tileiras.machine import tensor, units
from tileiras.machine.latencies import Latencies, latencies
from tileiras.machine.machines import Machine
from tileiras.sim.timing.barriers import Groups, Mbarrier, NamedBarrier
from tileiras.sim.timing.decoded import Decoded, Reason
from tileiras.sim.timing.engines import TensorMemoryEngine, Tma, WarpgroupTensor
from tileiras.sim.timing.memory import Sharing, SmMemory
from tileiras.sim.timing.stream import (
    CLUSTER_BARRIER,
    Arrivals,
    AsyncGroup,
    BarrierOp,
    BulkCopy,
    CtaStreams,
    GlobalAccess,
    Instruction,
    MbarrierOp,
    Mma,
    SharedAccess,
    Skipped,
    TensorAccess,
)

WARP = 32
PAIR = 2
"""CTAs that multiply together under cta_group::2: ranks 2i and 2i + 1."""
MOST_STEPS = 20_000_000
"""Warp instructions that a replay may take; beyond it, it ends with ReplayLimit."""
PRUNE = 1 << 14
COPY_STRIDE = 1 << 36
"""Sectors between the addresses of two copies of one CTA's stream: copies stand for CTAs that touch other memory."""
MOST_EVENTS = 200_000
MOST_PENDING = 64
"""A scoreboard counts to 63."""
READ_LATENCY = 12
"""Until an access has read its registers and its address."""
SLEEP = 40
"""A NANOSLEEP between two tries of a barrier."""


class ReplayDeadlock(Exception):
    """Warps wait for what never comes. The text says who waits where, and for what."""


class ReplayLimit(Exception):
    """More steps than a replay may take."""


@dataclass(slots=True, eq=False)
class Event:
    """Something for the timeline: `track` who, `name` what, from when to when."""

    track: str
    name: str
    start: float
    end: float


class Warp:
    """A resident warp."""

    __slots__ = ("steps", "length", "at", "cta", "partition", "taken", "pipes", "turns", "boards", "causes", "lists", "ready",
                 "why", "last", "groups", "order", "name", "blocked", "phases")

    def __init__(self, steps: list, cta: Cta, partition: int, order: int, name: str) -> None:
        self.steps, self.length, self.at = steps, len(steps), 0
        self.cta, self.partition, self.order, self.name = cta, partition, order, name
        self.taken, self.pipes, self.turns = cta.sm.taken[partition], cta.sm.pipes[partition], cta.sm.turns[partition]
        self.boards = [0.0] * 6
        self.causes: list[int] = [int(Reason.OTHER)] * 6
        self.lists: list[list[float]] = [[], [], [], [], [], []]
        self.ready = self.last = 0.0
        self.why = int(Reason.FIXED)
        self.groups: dict[str, Groups] = {}
        self.blocked = ""
        self.phases = 0

    def group(self, family: str) -> Groups:
        found = self.groups.get(family)
        if found is None:
            found = self.groups[family] = Groups()
        return found


class Sm:
    """One SM: slots and pipes a sub-partition, memory, engines."""

    def __init__(self, machine: Machine, latency: Latencies, sharing: Sharing, shared_used: int) -> None:
        ports = units.ports(machine.sm)
        self.taken: list[set[int]] = [set() for _ in range(units.PARTITIONS)]
        self.pipes = [[[0.0] * n for n in ports] for _ in range(units.PARTITIONS)]
        self.turns = [[0] * len(ports) for _ in range(units.PARTITIONS)]
        self.pipe_busy = [0.0] * len(ports)
        self.issued = 0
        self.memory = SmMemory(machine, latency, sharing, shared_used)
        self.tma = Tma(self.memory)
        self.wgmma = WarpgroupTensor(self.memory)
        self.tcgen05 = TensorMemoryEngine(self.memory)

    def drained(self) -> float:
        """When its engines and memory have nothing left to do."""
        return max(self.memory.drained(), self.tcgen05.free, *self.tcgen05.path, *self.wgmma.free)


class Cta:
    """A resident CTA. `cluster`: all CTAs of its cluster, itself included, by rank."""

    __slots__ = ("streams", "sm", "barriers", "mbarriers", "alive", "shift", "cluster", "unit", "threads", "name")

    def __init__(self, streams: CtaStreams, sm: Sm, shift: int, unit: Unit, name: str) -> None:
        self.streams, self.sm, self.shift, self.unit, self.name = streams, sm, shift, unit, name
        self.barriers: dict[int, NamedBarrier] = {}
        self.mbarriers: dict[int, Mbarrier] = {}
        self.alive = len(streams.warps)
        self.threads = streams.threads
        self.cluster: list[Cta] = [self]

    def mbarrier(self, offset: int) -> Mbarrier:
        found = self.mbarriers.get(offset)
        if found is None:
            found = self.mbarriers[offset] = Mbarrier()
        return found


@dataclass(slots=True, eq=False)
class Unit:
    """What is launched and ends together: a CTA or a cluster."""

    number: int
    slot: int
    alive: int
    start: float
    barrier: Mbarrier = field(default_factory=Mbarrier)


@dataclass
class Replayed:
    """`cycles` from the first instruction to the last byte; `ends`: when each unit (CTA or cluster) ended, in that order;
    `starts`: when each was launched. Busy cycles are of one SM (of several, the mean)."""

    cycles: float
    ends: list[float]
    starts: list[float]
    instructions: int
    pipe_busy: list[float]
    port_busy: float
    tensor_busy: float
    engine_busy: float
    """Of it, what wgmma and tcgen05 make: at the full rate."""
    ingress_busy: float
    l2_busy: float
    requests_busy: float
    """Of requests to L2, and of its atomics, whichever is more."""
    dram_busy: float
    ingress_bytes: float
    dram_bytes: float
    sectors: int
    l1_hits: int
    decoded: list[Decoded]
    events: list[Event]
    ports: tuple[int, ...]
    """How many each pipe has."""
    width: int
    """SMs that were replayed together."""


class Replay:
    """Replays units one SM (or one cluster's SMs) gets. `resident`: how many at a time."""

    def __init__(self, machine: Machine, sharing: Sharing, resident: int, shared_used: int = 0, *, timeline: bool = False,
                 most_steps: int = MOST_STEPS, latency: Latencies | None = None) -> None:
        self.machine, self.sharing, self.resident, self.shared_used = machine, sharing, max(resident, 1), shared_used
        self.latency = latency or latencies(machine.sm)
        self.most_steps = most_steps
        self.decoded: dict[int, Decoded] = {}
        self.prepared: dict[int, list] = {}
        self.heap: list[tuple[float, int, Warp]] = []
        self.waiting: set[Warp] = set()
        self.sms: list[Sm] = []
        self.queue: list[CtaStreams] = []
        self.next = self.orders = self.steps = 0
        self.ends: list[float] = []
        self.starts: list[float] = []
        self.finish = 0.0
        self.timeline = timeline
        self.events: list[Event] = []
        self.handlers: dict[type, Callable[[Warp, Decoded, Any, float], float | None]] = {
            GlobalAccess: self._global, SharedAccess: self._shared, BarrierOp: self._barrier, MbarrierOp: self._mbarrier,
            BulkCopy: self._bulk, AsyncGroup: self._group, Mma: self._mma, TensorAccess: self._tensor, Arrivals: self._arrivals}

    # ---- the run

    def run(self, units_to_run: Iterable[CtaStreams]) -> Replayed:
        """Replay CTAs (of clusters: any member, its peers come along) in the order given. Raises ReplayDeadlock, ReplayLimit."""
        self.queue = list(units_to_run)
        if not self.queue:
            raise ValueError("nothing to replay")
        width = max(len(self.queue[0].peers), 1)
        self.sms = [Sm(self.machine, self.latency, self.sharing, self.shared_used) for _ in range(width)]
        for slot in range(min(self.resident, len(self.queue))):
            self._launch(slot, 0.0)
        self._loop()
        if self.waiting:
            raise ReplayDeadlock(self._who_waits())
        return self._result()

    def _result(self) -> Replayed:
        n, memories = len(self.sms), [sm.memory for sm in self.sms]

        def mean(values: Iterable[float]) -> float:
            return sum(values) / n

        pipes = [mean(sm.pipe_busy[p] for sm in self.sms) for p in range(len(units.PIPE_NAMES))]
        engines = mean(sm.wgmma.busy + sm.tcgen05.busy for sm in self.sms)
        return Replayed(
            max([self.finish, *(sm.drained() for sm in self.sms)]), self.ends, self.starts, self.steps, pipes,
            port_busy=mean(m.port_busy for m in memories), tensor_busy=pipes[units.TENSOR] / units.PARTITIONS + engines,
            engine_busy=engines, ingress_busy=mean(m.ingress.busy for m in memories), l2_busy=mean(m.l2.busy for m in memories),
            requests_busy=mean(max(m.requests.busy, m.atomics.busy) for m in memories),
            dram_busy=mean(m.dram.busy for m in memories), ingress_bytes=mean(m.ingress.moved for m in memories),
            dram_bytes=mean(m.dram.moved for m in memories), sectors=sum(m.sectors for m in memories),
            l1_hits=sum(m.l1_hits for m in memories), decoded=list(self.decoded.values()), events=self.events,
            ports=units.ports(self.machine.sm), width=n)

    def _launch(self, slot: int, at: float) -> None:
        if self.next >= len(self.queue):
            return
        first = self.queue[self.next]
        members = first.peers or (first,)
        unit = Unit(self.next, slot, len(members), at)
        copy = self.next
        self.next += 1
        self.starts.append(at)
        ctas = [Cta(streams, self.sms[rank], copy * COPY_STRIDE, unit, f"CTA {copy}" + (f".{rank}" if len(members) > 1 else ""))
                for rank, streams in enumerate(members)]
        unit.barrier.expected = sum(len(cta.streams.warps) for cta in ctas)
        for cta in ctas:
            cta.cluster = ctas
            alive = 0
            for stream in cta.streams.warps:
                steps = self._prepare(stream.steps)
                if not steps:
                    cta.alive -= 1
                    continue
                alive += 1
                self.orders += 1
                place = (slot * len(cta.streams.warps) + stream.warp) % units.PARTITIONS
                warp = Warp(steps, cta, place, self.orders, f"{cta.name} warp {stream.warp}")
                warp.ready = warp.last = at
                heapq.heappush(self.heap, (at, warp.order, warp))
            if not alive:
                unit.alive -= 1
        if not unit.alive:
            self._end_unit(unit, at)

    def _prepare(self, steps: list) -> list[tuple[Decoded, Any]]:
        """The same steps with decoded instructions."""
        found = self.prepared.get(id(steps))
        if found is None:
            known, machine, latency = self.decoded, self.machine, self.latency
            found = []
            for instruction, payload in steps:
                d = known.get(id(instruction))
                if d is None:
                    d = known[id(instruction)] = Decoded(instruction, machine, latency)
                found.append((d, d.default if payload is None else payload))
            self.prepared[id(steps)] = found
        return found

    def _loop(self) -> None:
        heap, push, pop = self.heap, heapq.heappush, heapq.heappop
        handlers, most = self.handlers, self.most_steps
        slot_reason, pipe_reason = int(Reason.SLOT), int(Reason.PIPE)
        steps = 0
        while heap:
            at, order, warp = pop(heap)
            program, boards, taken, pipes, sm = warp.steps, warp.boards, warp.taken, warp.pipes, warp.cta.sm
            turns, busy, partition = warp.turns, sm.wgmma.free, warp.partition
            if len(taken) > PRUNE:
                taken.difference_update([t for t in taken if t < at - 64])
            while True:
                d, payload = program[warp.at]
                warp.at += 1
                steps += 1
                # which cycle
                free = at
                ports = None
                port = 0
                if d.pipe >= 0:
                    ports = pipes[d.pipe]
                    port = d.port
                    if port < 0:
                        if d.turns:
                            port = turns[d.pipe]
                            turns[d.pipe] = 1 - port
                        else:
                            port = 1 if len(ports) == 2 and ports[1] < ports[0] else 0
                    free = ports[port] - d.slack
                    if free < at:
                        free = at
                when = int(free)
                if when < free:
                    when += 1
                while when in taken:
                    when += 1
                taken.add(when)
                start = when
                if d.reads and busy[partition] > when:      # the tensor core's accumulators need the registers' ports, too
                    taken.add(when + 1)
                if ports is not None:
                    if ports[port] > start:
                        start = ports[port]
                    ports[port] = start + d.interval
                    sm.pipe_busy[d.pipe] += d.interval
                # what was lost since the last issue
                d.issued += 1
                if warp.ready - warp.last > 1:
                    d.lose(0, warp.ready - warp.last - 1)
                if at > warp.ready:
                    d.lose(warp.why, at - warp.ready)
                if free > at:
                    d.lose(pipe_reason, free - at)
                if when > free:
                    d.lose(slot_reason, when - free)
                warp.last = when
                ready = when + d.stall
                if d.reads and busy[partition] > when:
                    ready += 1
                # what it does
                if d.kind:
                    resume: float | None = ready
                    if payload is not None:
                        kind = type(payload)
                        if kind is not Skipped:
                            resume = handlers[kind](warp, d, payload, start)
                    elif d.kind == 1:
                        end = start + d.latency
                        if d.write is not None:
                            i = d.write
                            if end > boards[i]:
                                boards[i] = end
                                warp.causes[i] = d.why
                        if d.read is not None and start + READ_LATENCY > boards[d.read]:
                            boards[d.read] = start + READ_LATENCY
                            warp.causes[d.read] = d.why
                        resume = ready
                    else:
                        resume = self._event(warp, d, start)
                    if resume is None:
                        break
                    if resume > ready:
                        ready = resume
                elif payload is not None and type(payload) is not Skipped:
                    resume = handlers[type(payload)](warp, d, payload, start)
                    if resume is None:
                        break
                    if resume > ready:
                        ready = resume
                # when the next one may issue
                if warp.at >= warp.length:
                    self._exit(warp, ready)
                    break
                following = program[warp.at][0]
                at = warp.ready = ready
                for i in following.waits:
                    if boards[i] > at:
                        at = boards[i]
                        warp.why = warp.causes[i]
                if heap and heap[0][0] <= at:
                    push(heap, (at, order, warp))
                    break
            if steps > most:
                raise ReplayLimit(f"more than {most} warp instructions")
        self.steps = steps
        for sm in self.sms:
            sm.issued = steps

    # ---- waking and ending

    def _block(self, warp: Warp, what: str) -> None:
        warp.blocked = what
        self.waiting.add(warp)

    def _wake(self, warp: Warp, at: float, reason: int) -> None:
        """A blocked warp goes on at a time."""
        self.waiting.discard(warp)
        d = warp.steps[warp.at - 1][0]
        at = max(at, warp.last + d.stall)
        lost = at - warp.last - d.stall
        if lost > 0:
            d.lose(reason, lost)
        if self.timeline and lost > 20 and len(self.events) < MOST_EVENTS:
            self.events.append(Event(warp.name, warp.blocked, warp.last, at))
        # The wait is paid for at the instruction that blocked: what follows starts from here.
        warp.last = warp.ready = at
        if warp.at >= warp.length:
            self._exit(warp, at)
            return
        for i in warp.steps[warp.at][0].waits:
            if warp.boards[i] > at:
                at = warp.boards[i]
                warp.why = warp.causes[i]
        heapq.heappush(self.heap, (at, warp.order, warp))

    def _exit(self, warp: Warp, at: float) -> None:
        if at > self.finish:
            self.finish = at
        cta = warp.cta
        cta.alive -= 1
        if cta.alive == 0:
            cta.unit.alive -= 1
            if cta.unit.alive == 0:
                self._end_unit(cta.unit, at)

    def _end_unit(self, unit: Unit, at: float) -> None:
        self.ends.append(at)
        if self.timeline and len(self.events) < MOST_EVENTS:
            self.events.append(Event(f"slot {unit.slot}", f"CTA {unit.number}", unit.start, at))
        self._launch(unit.slot, at + self.latency.cta_launch)

    def _who_waits(self) -> str:
        found: dict[str, int] = {}
        for warp in self.waiting:
            line = warp.steps[warp.at - 1][0].instruction.ptx_line
            text = f"{warp.blocked} (PTX line {line})"
            found[text] = found.get(text, 0) + 1
        return "; ".join(f"{n} warps wait at {text}" for text, n in sorted(found.items())[:8])

    # ---- what instructions do: each gives the time at which its warp may go on, or None when it is blocked

    def _hold(self, warp: Warp, d: Decoded, written: float, read: float, why: int) -> float:
        """Set the instruction's scoreboards."""
        boards, causes = warp.boards, warp.causes
        if d.write is not None:
            pending = warp.lists[d.write]
            pending.append(written)
            if len(pending) > 2 * MOST_PENDING:
                del pending[:MOST_PENDING]
            if written > boards[d.write]:
                boards[d.write] = written
                causes[d.write] = why
        if d.read is not None and read > boards[d.read]:
            boards[d.read] = read
            causes[d.read] = why
        return 0.0

    def _global(self, warp: Warp, d: Decoded, payload: GlobalAccess, at: float) -> float:
        memory, shift = warp.cta.sm.memory, warp.cta.shift
        if payload.atomic:
            end = memory.atomic(at, payload.sectors, shift, payload.waves)
            return self._hold(warp, d, end, at + READ_LATENCY, Reason.GLOBAL)
        if payload.is_store:
            read = memory.store(at, payload.sectors, shift, payload.waves)
            if d.read is None and read > at + READ_LATENCY + self.latency.l2:
                d.lose(Reason.PIPE, read - at)          # the queue in front of the unit is full
                warp.last = read
                return read + d.stall
            return self._hold(warp, d, read, read, Reason.GLOBAL)
        end = memory.load(at, payload.sectors, shift, d.cached, payload.waves)
        resume = self._behind_port(warp, d, at, memory)
        if payload.to_shared:
            # Written when it arrives; the port is paid for now, since requests come to it in the order of their times.
            memory.port(at, payload.passes)
            end += payload.passes
            warp.group("cp.async").add(end)
            self._hold(warp, d, at + READ_LATENCY, at + READ_LATENCY, Reason.GLOBAL)
        else:
            self._hold(warp, d, end, at + READ_LATENCY, Reason.GLOBAL)
        return resume

    def _behind_port(self, warp: Warp, d: Decoded, at: float, memory: SmMemory) -> float:
        """The queue in front of the port is so deep; beyond it the pipe stands still."""
        room = memory.port_free - memory.queue
        if room <= at:
            return 0.0
        ports = warp.pipes[units.LSU]
        if room > ports[0]:
            ports[0] = room
        d.lose(Reason.PIPE, room - at)
        warp.last = room
        return room + d.stall

    def _shared(self, warp: Warp, d: Decoded, payload: SharedAccess, at: float) -> float:
        cta = warp.cta
        if payload.cta is not None and payload.cta < len(cta.cluster) and cta.cluster[payload.cta] is not cta:
            cta.sm.memory.port(at, 1)
            far = cta.cluster[payload.cta].sm.memory.port(at + READ_LATENCY, payload.passes)
            end = max(cta.sm.memory.egress.take(at, payload.bytes), far) + self.latency.distributed_shared
        else:
            end = cta.sm.memory.shared(at, payload.passes)
            end += self.latency.atomic_shared if payload.atomic else self.latency.shared - 1
        resume = self._behind_port(warp, d, at, cta.sm.memory)
        self._hold(warp, d, end, max(at + READ_LATENCY, end - self.latency.shared), Reason.SHARED)
        return resume

    def _barrier(self, warp: Warp, d: Decoded, payload: BarrierOp, at: float) -> float | None:
        cta = warp.cta
        if payload.id == CLUSTER_BARRIER:
            return self._cluster(warp, payload, at)
        found = cta.barriers.get(payload.id)
        if found is None:
            found = cta.barriers[payload.id] = NamedBarrier()
        complete = found.arrive(at, WARP, payload.threads)
        if not payload.arrive_only:
            self._block(warp, f"barrier {payload.id}")
            found.waiting.append(warp)
        if complete:
            latest, waiting = found.reset()
            warps = max(payload.threads // WARP, 1)
            end = latest + self.latency.barrier + self.latency.barrier_warp * warps
            for other in waiting:
                self._wake(other, end - warps // units.PARTITIONS, Reason.BARRIER)
            if d.write is not None:
                self._hold(warp, d, end, end, Reason.BARRIER)
        return 0.0 if payload.arrive_only else None

    def _cluster(self, warp: Warp, payload: BarrierOp, at: float) -> float | None:
        """A phase is complete when every warp of the cluster has arrived; a wait is for the phase of the warp's last arrival."""
        barrier = warp.cta.unit.barrier
        if not payload.wait_only:
            freed = barrier.event(at, warp.phases, 1, 0)
            warp.phases += 1
            for end, other in freed:
                self._wake(other, end + self.latency.cluster_barrier, Reason.CLUSTER)
        if payload.arrive_only:
            return 0.0
        self._block(warp, "cluster barrier")
        done = barrier.done(warp.phases)
        if done is None:
            barrier.waiting.append((warp.phases, warp))
        else:
            self._wake(warp, done + self.latency.cluster_barrier, Reason.CLUSTER)
        return None

    def _mbarrier(self, warp: Warp, d: Decoded, payload: MbarrierOp, at: float) -> float | None:
        cta = warp.cta
        owner = cta.cluster[payload.cta] if payload.cta < len(cta.cluster) else cta
        barrier = owner.mbarrier(payload.offset)
        latency = self.latency
        if payload.kind == "wait":
            done = barrier.done(payload.phase)
            if done is None:
                self._block(warp, f"mbarrier {payload.offset:#x} phase {payload.phase}")
                barrier.waiting.append((payload.phase, warp))
                return None
            end = max(at + latency.mbarrier_try, done + latency.mbarrier_wake)
            if end > at + latency.mbarrier_try:
                d.lose(Reason.MBARRIER, end - at - d.stall)
                warp.last = end - d.stall
            self._hold(warp, d, end, end, Reason.MBARRIER)
            return end
        if payload.kind == "init":
            barrier.expected = payload.count
            self._free(barrier.advance())
        elif payload.kind in ("arrive", "expect"):
            far = latency.distributed_shared if owner is not cta else 0
            self._free(barrier.event(at + latency.mbarrier_arrive + far, payload.phase, payload.count, payload.bytes))
        return self._hold(warp, d, at + latency.mbarrier_arrive, at + READ_LATENCY, Reason.MBARRIER)

    def _arrivals(self, warp: Warp, d: Decoded, payload: Arrivals, at: float) -> float:
        """Lanes arrive at an mbarrier each. None of it waits."""
        return max(self.handlers[type(op)](warp, d, op, at) or 0.0 for op in payload.each)

    def _free(self, freed: list[tuple[float, Warp]]) -> None:
        for end, warp in freed:
            end = max(end + self.latency.mbarrier_wake, warp.last + self.latency.mbarrier_try)
            d = warp.steps[warp.at - 1][0]
            self._hold(warp, d, end, end, Reason.MBARRIER)
            self._wake(warp, end, Reason.MBARRIER)

    def _bulk(self, warp: Warp, d: Decoded, payload: BulkCopy, at: float) -> float:
        cta = warp.cta
        if payload.direction == "answer":
            read = end = at + self.latency.launch_control
        else:
            read, end = cta.sm.tma.copy(at, payload, cta.shift)
        if self.timeline and len(self.events) < MOST_EVENTS:
            self.events.append(Event(f"TMA of {cta.name}", f"{payload.direction} {payload.bytes} B", at, end))
        if payload.offset is not None:
            told = payload.ctas or (cta.streams.rank,)
            landed = self._landed(cta, payload, at, end)
            for rank in told:
                owner = cta.cluster[rank] if rank < len(cta.cluster) else cta
                arrives = landed.get(rank, end)
                if payload.to:                              # a pair's mbarrier hears of the data of both
                    arrives = max((t + (self.latency.distributed_shared if r != rank else 0)
                                   for r, t in landed.items() if r // PAIR == rank // PAIR), default=arrives)
                self._free(owner.mbarrier(payload.offset).event(arrives, payload.phase, 0, -payload.bytes))
        else:
            warp.group("bulk").add(end)
            warp.group("bulk.read").add(read)
        return self._hold(warp, d, at + READ_LATENCY, at + READ_LATENCY, Reason.OTHER)

    def _landed(self, cta: Cta, payload: BulkCopy, at: float, end: float) -> dict[int, float]:
        """When the data of a copy, which its own SM has at `end`, are in the shared memory of each CTA that gets them."""
        told = payload.ctas or (cta.streams.rank,)
        to = payload.to or told
        if payload.direction == "answer":
            return dict.fromkeys(to, end)
        found = {}
        for rank in to:
            found[rank] = end
            if rank < len(cta.cluster) and cta.cluster[rank] is not cta:
                ingress = cta.cluster[rank].sm.memory.ingress
                found[rank] = max(end, ingress.take(at, payload.bytes * len(told) / len(to)) + self.latency.l2)
        return found

    def _group(self, warp: Warp, d: Decoded, payload: AsyncGroup, at: float) -> float:
        family = payload.family
        if payload.kind == "commit":
            if payload.offset is not None:
                cta = warp.cta
                copies = family == "cp.async"
                end = warp.group("cp.async").all() if copies else cta.sm.tcgen05.last - self.latency.mbarrier_wake
                for rank in payload.ctas or (cta.streams.rank,):
                    owner = cta.cluster[rank] if rank < len(cta.cluster) else cta
                    arrivals = payload.n if copies else 1       # a thread each that has copied
                    self._free(owner.mbarrier(payload.offset).event(max(at, end), payload.phase, arrivals, 0))
            else:
                warp.group(family).commit()
                if family == "bulk":
                    warp.group("bulk.read").commit()
            return self._hold(warp, d, at + READ_LATENCY, at + READ_LATENCY, Reason.OTHER)
        if family == "tcgen05":
            end = warp.cta.sm.tcgen05.path[warp.partition] + tensor.TENSOR_LOAD_LATENCY
        else:
            end = warp.group("bulk.read" if family == "bulk" and payload.read else family).wait(payload.n)
        if family == "wgmma" and end:
            end += tensor.WGMMA_LATENCY_EXTRA
        why = Reason.TENSOR if family in ("wgmma", "tcgen05") else Reason.GROUP
        return self._until(warp, d, at, end, why)

    def _until(self, warp: Warp, d: Decoded, at: float, end: float, why: int) -> float:
        """The warp waits at this instruction."""
        lost = end - at - d.stall
        if lost > 0:
            d.lose(why, lost)
            warp.last = end - d.stall
            if self.timeline and lost > 20 and len(self.events) < MOST_EVENTS:
                self.events.append(Event(warp.name, d.instruction.opcode, at, end))
        self._hold(warp, d, max(at, end), max(at, end), why)
        return end

    def _mma(self, warp: Warp, d: Decoded, payload: Mma, at: float) -> float:
        sm = warp.cta.sm
        if payload.family == "wgmma":
            taken, end = sm.wgmma.issue(at, warp.partition, payload)
            groups = warp.group("wgmma")
            groups.add(end)
            if d.commits:
                groups.commit()
            self._hold(warp, d, end, taken + READ_LATENCY, Reason.TENSOR)
        else:
            taken, end = sm.tcgen05.issue(at, payload, self._pair(warp.cta) if payload.ctas == PAIR else None)
            self._hold(warp, d, taken + READ_LATENCY, taken + READ_LATENCY, Reason.TENSOR)
        if self.timeline and len(self.events) < MOST_EVENTS and warp.partition == 0:
            self.events.append(Event(f"tensor core of {warp.cta.name}", "x".join(map(str, payload.shape)), taken, end))
        if taken > at:
            d.lose(Reason.PIPE, taken - at)
            warp.last = taken
        return taken + d.stall

    def _pair(self, cta: Cta) -> TensorMemoryEngine | None:
        """The tensor core of the other CTA of a pair: the one whose rank differs in the last bit."""
        other = cta.streams.rank ^ 1
        return cta.cluster[other].sm.tcgen05 if other < len(cta.cluster) else None

    def _tensor(self, warp: Warp, d: Decoded, payload: TensorAccess, at: float) -> float:
        engine = warp.cta.sm.tcgen05
        if payload.kind in ("cp", "shift"):
            engine.copy(at, payload.bytes, self._pair(warp.cta) if payload.ctas == PAIR else None)
            return self._hold(warp, d, at + READ_LATENCY, at + READ_LATENCY, Reason.TENSOR)
        end = engine.move(at, warp.partition, payload.columns, payload.kind == "st")
        return self._hold(warp, d, end, end, Reason.TENSOR)

    def _event(self, warp: Warp, d: Decoded, at: float) -> float | None:
        """Instructions that do something, with no payload."""
        base, latency, memory = d.base, self.latency, warp.cta.sm.memory
        if base in ("LDL", "STL"):
            end = memory.local(at, warp.order, d.offset, d.count, base == "STL")
            resume = self._behind_port(warp, d, at, memory)
            self._hold(warp, d, end, end if base == "STL" else at + READ_LATENCY, Reason.GLOBAL)
            return resume
        if base == "SHFL":
            end = memory.port(at, 1 / memory.port_scale) + latency.shuffle - 1
            return self._hold(warp, d, end, at + READ_LATENCY, Reason.SHARED)
        if base in ("MEMBAR", "FENCE", "ERRBAR"):
            far = "GPU" in d.instruction.opcode or "SYS" in d.instruction.opcode
            end = at + (latency.fence_view if base != "MEMBAR" else latency.fence_gpu if far else latency.fence_cta)
            if d.write is not None and not far:         # who waits for it stands still, not the fence
                return self._hold(warp, d, end, end, Reason.OTHER)
            return self._until(warp, d, at, end, Reason.OTHER)
        if base == "USETMAXREG":
            return self._until(warp, d, at, at + latency.register_change, Reason.OTHER)
        if base == "NANOSLEEP":
            return self._until(warp, d, at, at + SLEEP, Reason.OTHER)
        if base == "UTMACMDFLUSH":
            warp.group("bulk").commit()
            warp.group("bulk.read").commit()
            return 0.0
        if base == "WARPGROUP" and "DEPBAR" in d.instruction.opcode:
            end = warp.group("wgmma").wait(d.left)
            return self._until(warp, d, at, end + tensor.WGMMA_LATENCY_EXTRA if end else 0.0, Reason.TENSOR)
        if d.scoreboard >= 0:
            pending = sorted(warp.lists[d.scoreboard])
            index = len(pending) - d.left - 1
            return self._until(warp, d, at, pending[index], warp.causes[d.scoreboard]) if index >= 0 else 0.0
        return self._hold(warp, d, at + d.latency, at + READ_LATENCY, d.why)


def instruction_from(opcode: str, operands: tuple[str, ...], stall: int, write: int | None, read: int | None, wait: int,
                     index: int = 0) -> Instruction:
    """An instruction of no place in particular."""
    return Instruction(
        index, 16 * index, opcode, opcode.split(".")[0], None, (), (), operands, stall=stall, yield_flag=1, write_sb=write,
        read_sb=read, wait_mask=wait, reuse=0, ptx_line=index, function="")
