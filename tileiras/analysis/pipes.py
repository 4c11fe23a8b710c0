"""Model checker of pipes: whether agents can hang, overwrite what isn't read, or read what isn't there.

`check_pipes(func)` plays the function's agents against each other, on many ways through its control flow (analysis/pipe_paths.py:
trip counts 0 to 2 * depth + 2, branches both ways) and with several orders of the agents' steps each. Barriers count arrivals
and bytes and go through phases as the hardware's do; waits look at a phase's parity. An agent is two warps, the first and one
that stands for all others, so that what only a barrier of the threads orders shows.

Whether two accesses of a stage are ordered doesn't depend on luck: every step carries a vector clock, and a fill, a read and
the next fill must follow each other by arrivals, waits and barriers. So one order of steps shows a missing release or wait that
another order would have shown as wrong data. The verdict is "right", "wrong" (with what happens, and at which op) or "not
decided" where a way is longer than the bounds.
"""
from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from xdsl.ir import Operation, SSAValue

from tileiras.analysis.pipe_paths import AgentWay, Event, TooLong, Way, rings_and_pipes
from tileiras.analysis.pipe_slice import executed
from tileiras.analysis.tensor_dots import is_told_by_dots

RIGHT, WRONG, NOT_DECIDED = "right", "wrong", "not decided"
MOST_WAYS = 48
ORDERS = 3
"""Ways through the control flow, and orders of steps on each."""
QUICK_WAYS, QUICK_ORDERS = 8, 2
"""The same behind a pass, where passes are verified."""
LANES = 32
MORE_TRIPS = 2
"""Iterations beyond twice a ring's depth: as many as let a wrong phase come round."""
MOST_TRIPS = 24


@dataclass(frozen=True)
class Verdict:
    """`kind`: RIGHT, WRONG or NOT_DECIDED. `message`, `op`: what went wrong, where. `ways`: that were played to their end."""

    kind: str
    message: str = ""
    op: Operation | None = None
    ways: int = 0


class Fault(Exception):
    """What an agent does wrong, at an op."""

    def __init__(self, message: str, op: Operation | None) -> None:
        super().__init__(message)
        self.message, self.op = message, op


def check_pipes(func: Operation, most_ways: int = MOST_WAYS, orders: int = ORDERS, placed: bool = True) -> Verdict:
    """The verdict on a function of nv_tileas. One without pipes is right. `placed`: `order-memory` has run, so that the barrier
    behind the setting up of a pipe is there."""
    pipes = list(rings_and_pipes(func))
    if not pipes:
        return Verdict(RIGHT)
    types: list[Any] = [op.results[0].type for op in pipes]
    trips = min(MOST_TRIPS, 2 * max(t.stages.data for t in types) + MORE_TRIPS)
    ops, played, undecided = executed(func), 0, ""
    for choose in _choices(trips, most_ways):
        way = Way(choose, trips)
        try:
            agents = way.function(func, ops)
        except (TooLong, RecursionError):
            undecided = "a way through the function is too long"
            continue
        for order in range(orders):
            try:
                _Machine(agents, way, order, placed).run()
            except Fault as fault:
                return Verdict(WRONG, fault.message, fault.op, played)
        played += 1
    return Verdict(NOT_DECIDED, undecided, None, played) if not played else Verdict(RIGHT, undecided, None, played)


def _choices(trips: int, count: int) -> Iterator[Any]:
    """Sources of choices: numbers of trips for all loops (each, as far as `count` allows) with branches taken, then not taken,
    then mixtures by seed."""
    for n in sorted({trips * i // max(1, min(trips, count - 4)) for i in range(min(trips, count - 4) + 1)} | {0, 1, 2}):
        yield lambda kind, below, n=n: min(n, below - 1) if kind == "trips" else 1
    for n in (2, trips):
        yield lambda kind, below, n=n: min(n, below - 1) if kind == "trips" else 0
    for seed in range(max(1, count - trips - 3)):
        dice = random.Random(seed)
        yield lambda kind, below, dice=dice: dice.randrange(below)


# --- the machine ----------------------------------------------------------------------------------------------------------


Clock = tuple[int, ...]


def _join(a: Clock, b: Clock) -> Clock:
    return tuple(map(max, a, b))


@dataclass
class _Barrier:
    """An mbarrier. `clock`: of the arrivals of the phase under way; `done`: of the last one that was completed."""

    count: int
    clock: Clock
    done: Clock
    phase: int = 0
    missing: int = 0
    bytes: int = 0

    def arrive(self, weight: int, clock: Clock, op: Operation) -> None:
        if weight > self.missing:
            raise Fault("more arrivals at a barrier than it counts", op)
        self.missing -= weight
        self.clock = _join(self.clock, clock)
        self.settle()

    def settle(self) -> None:
        if self.missing == 0 and self.bytes == 0:
            self.phase += 1
            self.missing, self.done = self.count, _join(self.done, self.clock)

    def passes(self, parity: int) -> bool:
        return self.phase & 1 != parity


@dataclass
class _Pipe:
    kind: str
    stages: int
    bytes: int
    full: list[_Barrier]
    empty: list[_Barrier]
    waited: int = 0
    """Stages that somebody has waited for."""
    filled: int = 0
    made: int = 0
    """How often the pipe was created: contents of an earlier time aren't taken for this one's."""
    born: tuple[int, int] = (0, 0)
    """The clock's entry (whose, when) from which on the barriers are set up."""


@dataclass
class _Slot:
    """A stage of a ring. `version`: (pipe's time, number of the fill) of what it holds. `parts`: by who wrote it: the clock's
    entry (whose, when) from which on that is there, None while it is on its way. `readers`: of the content, when."""

    version: tuple[int, int] | None = None
    parts: dict[int, tuple[int, int] | None] = field(default_factory=dict)
    readers: dict[int, int] = field(default_factory=dict)
    before: dict[int, int] = field(default_factory=dict)
    """Readers of the content before."""
    busy: int = 0
    """Products on their way that read it."""


@dataclass
class _Warp:
    """An actor. `weight`: warps it stands for; `first`: whether it does what one thread does for its agent."""

    agent: int
    number: int
    weight: int
    first: bool
    clock: Clock
    at: int = 0
    made: dict[SSAValue, int] = field(default_factory=dict)
    acquired: dict[SSAValue, int] = field(default_factory=dict)
    waits: dict[SSAValue, int] = field(default_factory=dict)
    released: dict[SSAValue, int] = field(default_factory=dict)
    open_copies: list[tuple[_Slot, int]] = field(default_factory=list)
    groups: list[list[tuple[_Slot, int]]] = field(default_factory=list)
    products: list[_Slot] = field(default_factory=list)
    """Stages that products read for which nothing has been committed."""


@dataclass
class _Flight:
    """Something an engine finishes later: bytes, or copies with an arrival behind them. `products`: stages that products read which
    are done then, after all earlier ones of the tensor core (None: this isn't its)."""

    barrier: _Barrier
    clock: Clock
    slots: list[tuple[_Slot, int]]
    bytes: int
    weight: int
    op: Operation
    products: list[_Slot] | None = None


class _Machine:
    """All agents on one way, with one order of steps (0: producers first and engines late, 1: the other way round, others by
    seed)."""

    def __init__(self, agents: list[AgentWay], way: Way, order: int, placed: bool) -> None:
        self.agents, self.way, self.order, self.placed = agents, way, order, placed
        self.dice = random.Random(order)
        self.pipes: dict[SSAValue, _Pipe] = {}
        self.slots: dict[tuple[SSAValue, int], _Slot] = {}
        self.flights: list[_Flight] = []
        self.warps: list[_Warp] = []
        for n, agent in enumerate(agents):
            weights = [1, agent.warps - 1] if agent.warps > 1 else [1]
            for i, weight in enumerate(weights):
                self.warps.append(_Warp(n, len(self.warps), weight, i == 0, ()))
        self.engine = len(self.warps)
        zero = (0,) * (self.engine + 1)
        for warp in self.warps:
            warp.clock = zero
        self.engine_time = 0
        self.meeting: dict[int, list[_Warp]] = {}
        self.guards: dict[int, bool] = {}

    # --- order of steps

    def run(self) -> None:
        block = [w for w in self.warps if w.agent == 0]
        agents = [w for w in self.warps if w.agent != 0]
        self.play(block)
        for n, w in enumerate(agents):      # the block's first warp is the first agent's; all others are among the others
            was = block[0] if n == 0 else block[-1]
            w.clock = was.clock
            w.made, w.acquired, w.waits, w.released = dict(was.made), dict(was.acquired), dict(was.waits), dict(was.released)
        self.play(agents)
        while self.flights:
            self.land()
        self.end()

    def play(self, warps: list[_Warp]) -> None:
        """Steps until all are through. Raises Fault where nobody can go on."""
        waiting = [w for w in warps if w.at < len(self.agents[w.agent].events)]
        while waiting:
            if self.flights and self.order and self.dice.random() < (1.0 if self.order == 1 else 0.3):
                self.land()
            candidates = list(waiting)
            if self.order == 0:
                candidates.sort(key=lambda w: -w.agent)
            elif self.order > 1:
                self.dice.shuffle(candidates)
            for w in candidates:
                if self.step(w):
                    break
            else:
                if not self.flights:
                    stuck = waiting[0]
                    event = self.agents[stuck.agent].events[stuck.at]
                    raise Fault(f"nobody goes on: an agent waits at '{event.op.name}' for what never comes", event.op)
                self.land()
            waiting = [w for w in waiting if w.at < len(self.agents[w.agent].events)]

    def land(self) -> None:
        """An engine finishes something."""
        flight = self.flights[0 if self.order < 2 else self.dice.randrange(len(self.flights))]
        if flight.products is not None:
            flight = next(f for f in self.flights if f.products is not None)
        self.flights.remove(flight)
        self.engine_time += 1
        for slot in flight.products or ():
            slot.busy -= 1
            slot.readers[self.engine] = self.engine_time
        clock = list(flight.clock)
        clock[self.engine] = self.engine_time
        for slot, who in flight.slots:
            if who in slot.parts:
                slot.parts[who] = (self.engine, self.engine_time)
        barrier = flight.barrier
        if flight.bytes:
            barrier.bytes -= flight.bytes
            barrier.clock = _join(barrier.clock, tuple(clock))
            barrier.settle()
        if flight.weight:
            barrier.arrive(flight.weight, tuple(clock), flight.op)

    # --- steps

    def tick(self, w: _Warp) -> int:
        clock = list(w.clock)
        clock[w.number] += 1
        w.clock = tuple(clock)
        return clock[w.number]

    def step(self, w: _Warp) -> bool:
        """Let a warp do its next event. False: it has to wait."""
        event = self.agents[w.agent].events[w.at]
        if not getattr(self, event.what)(w, event):
            return False
        w.at += 1
        return True

    def create(self, w: _Warp, event: Event) -> bool:
        assert event.pipe is not None
        pipe = event.pipe
        made = w.made.get(pipe, -1) + 1
        if not w.first and (pipe not in self.pipes or self.pipes[pipe].made < made):
            return False
        w.made[pipe] = made
        for cursor in (w.acquired, w.waits, w.released):
            cursor[pipe] = 0
        if not w.first:
            return True
        t: Any = pipe.type
        properties: dict[str, Any] = event.op.properties
        numbers = {name: properties[name].data if name in properties else 1 for name in ("bytes", "producers", "consumers")}
        stages = t.stages.data

        def barriers(count: int) -> list[_Barrier]:
            return [_Barrier(count, w.clock, w.clock, missing=count) for _ in range(stages)]
        self.pipes[pipe] = _Pipe(t.kind.data, stages, numbers["bytes"], barriers(numbers["producers"]),
                                 barriers(numbers["consumers"]), made=made, born=(w.number, self.tick(w)))
        return True

    def pipe(self, w: _Warp, event: Event) -> _Pipe:
        found = self.pipes.get(event.pipe) if event.pipe is not None else None
        if found is None or (self.placed and found.kind != "group" and w.clock[found.born[0]] < found.born[1]):
            raise Fault("a pipe's barriers are used, and nothing says that they are set up", event.op)
        return found

    def acquire(self, w: _Warp, event: Event) -> bool:
        pipe = self.pipe(w, event)
        count = w.acquired.get(event.pipe, 0)       # type: ignore[arg-type]
        if pipe.kind == "group" or (pipe.kind == "tma" and not w.first):
            return True
        empty = pipe.empty[count % pipe.stages]
        if not empty.passes((count // pipe.stages + 1) & 1):
            return False
        w.clock = _join(w.clock, empty.done)
        if pipe.kind == "tma" and w.first:
            self.tick(w)
            full = pipe.full[count % pipe.stages]
            full.bytes += pipe.bytes
            full.arrive(1, w.clock, event.op)
        return True

    def commit(self, w: _Warp, event: Event) -> bool:
        pipe = self.pipe(w, event)
        assert event.pipe is not None
        count = w.acquired.get(event.pipe, 0)
        full = pipe.full[count % pipe.stages]
        if pipe.kind == "group":
            w.groups.append(w.open_copies)
            w.open_copies = []
        elif pipe.kind == "cp_async":
            self.tick(w)
            self.flights.append(_Flight(full, w.clock, w.open_copies, 0, LANES * w.weight, event.op))
            w.open_copies = []
        elif pipe.kind == "mbarrier":
            self.tick(w)
            full.arrive(w.weight, w.clock, event.op)
        elif pipe.kind == "umma":
            self.done(w, full, event)
        w.acquired[event.pipe] = count + 1
        pipe.filled = max(pipe.filled, count + 1)
        return True

    def done(self, w: _Warp, barrier: _Barrier, event: Event) -> None:
        """The tensor core will arrive when the products begun so far are done."""
        if w.first:
            self.tick(w)
            self.flights.append(_Flight(barrier, w.clock, [], 0, 1, event.op, w.products))
            w.products = []

    def wait(self, w: _Warp, event: Event) -> bool:
        pipe = self.pipe(w, event)
        assert event.pipe is not None
        count = w.waits.get(event.pipe, 0)
        if "by_dots" in event.op.properties and not w.first:
            pass
        elif pipe.kind == "group":
            now = self.tick(w)
            while len(w.groups) > event.number:
                for slot, who in w.groups.pop(0):
                    if who in slot.parts:
                        slot.parts[who] = (w.number, now)
        else:
            full = pipe.full[count % pipe.stages]
            if not full.passes(count // pipe.stages & 1):
                return False
            w.clock = _join(w.clock, full.done)
        w.waits[event.pipe] = count + 1
        pipe.waited = max(pipe.waited, count + 1)
        return True

    def release(self, w: _Warp, event: Event) -> bool:
        pipe = self.pipe(w, event)
        assert event.pipe is not None
        count = w.released.get(event.pipe, 0)
        if pipe.kind != "group":
            if count >= w.waits.get(event.pipe, 0):
                raise Fault("a stage is given back that nobody waited for", event.op)
            if is_told_by_dots(event.op):
                self.done(w, pipe.empty[count % pipe.stages], event)
            if "by_dots" not in event.op.properties:
                self.tick(w)
                pipe.empty[count % pipe.stages].arrive(w.weight, w.clock, event.op)
        w.released[event.pipe] = count + 1
        return True

    def barrier(self, w: _Warp, event: Event) -> bool:
        team = [other for other in self.warps if other.agent == w.agent]
        here = self.meeting.setdefault(w.agent, [])
        if w not in here:
            here.append(w)
        if len(here) < len(team):
            # the last one to come lets all pass: those that are here look on as if blocked
            return False
        clock = w.clock
        for other in team:
            clock = _join(clock, other.clock)
        for other in team:
            other.clock = clock
            if other is not w:
                other.at += 1
        self.meeting[w.agent] = []
        return True

    # --- data

    def slot(self, event: Event) -> _Slot:
        assert event.ring is not None
        t: Any = event.ring.type
        if not 0 <= event.slot < t.stages.data:
            raise Fault(f"stage {event.slot} of a ring that has {t.stages.data}", event.op)
        return self.slots.setdefault((event.ring, event.slot), _Slot())

    def begin(self, w: _Warp, event: Event, slot: _Slot, version: tuple[int, int]) -> int:
        """A write of a warp's part to a stage begins; when."""
        now = self.tick(w)
        if slot.version != version:
            for who, part in slot.parts.items():
                if part is None:
                    raise Fault("a stage is filled again while its copies are still on their way", event.op)
                if w.clock[part[0]] < part[1] and who != w.number:
                    raise Fault("a stage is filled again, and nothing says that its copies have come", event.op)
            slot.before = {**slot.before, **slot.readers}
            slot.version, slot.parts, slot.readers = version, {}, {}
        if slot.busy:
            raise Fault("a stage is overwritten while products still read it", event.op)
        for who, when in (*slot.before.items(), *slot.readers.items()):
            if w.clock[who] < when:
                raise Fault("a stage is overwritten, and nothing says that it has been read", event.op)
        return now

    def version(self, w: _Warp, pipe: SSAValue) -> tuple[int, int]:
        """What a fill for this pipe makes of a stage now."""
        return w.made.get(pipe, 0), w.acquired.get(pipe, 0)

    def fill(self, w: _Warp, event: Event) -> bool:
        pipe = self.pipe(w, event)
        assert event.pipe is not None
        if pipe.kind in ("group", "cp_async"):
            if not self.holds(event):
                return True
            slot = self.slot(event)
            self.begin(w, event, slot, self.version(w, event.pipe))
            slot.parts[w.number] = None
            w.open_copies.append((slot, w.number))
            return True
        if not w.first or not self.holds(event):
            return True
        slot = self.slot(event)
        self.begin(w, event, slot, self.version(w, event.pipe))
        slot.parts[w.number] = None
        full = pipe.full[w.acquired.get(event.pipe, 0) % pipe.stages]
        self.flights.append(_Flight(full, w.clock, [(slot, w.number)], event.number, 0, event.op))
        return True

    def holds(self, event: Event) -> bool:
        """Whether the guard of a fill does."""
        if isinstance(event.guard, int):
            return bool(event.guard)
        key = id(event.guard)
        if key not in self.guards:
            self.guards[key] = bool(self.way.number(event.guard, 1))
        return self.guards[key]

    def store(self, w: _Warp, event: Event) -> bool:
        slot = self.slot(event)
        version = (-1, -1) if event.pipe is None else (w.made.get(event.pipe, 0), event.number)
        now = self.begin(w, event, slot, version)
        slot.parts[w.number] = (w.number, now)
        return True

    def read(self, w: _Warp, event: Event) -> bool:
        slot = self.slot(event)
        now = self.tick(w)
        pipe = event.pipe if event.pipe in self.pipes else None
        if slot.version is None or (pipe is not None and slot.version != (w.made.get(pipe, 0), event.number)):
            raise Fault("a stage is read that holds something else than what was waited for", event.op)
        for part in slot.parts.values():
            if part is None:
                raise Fault("a stage is read while its copies are still on their way", event.op)
            if w.clock[part[0]] < part[1]:
                raise Fault("a stage is read, and nothing says that its copies have come", event.op)
        if pipe is not None and self.pipes[pipe].kind != "group" and event.number < w.released.get(pipe, 0):
            raise Fault("a stage is read after it was given back", event.op)
        slot.readers[w.number] = now
        return True

    def product(self, w: _Warp, event: Event) -> bool:
        """The first warp begins it, and the tensor core reads."""
        if w.first:
            self.read(w, event)
            slot = self.slot(event)
            slot.busy += 1
            w.products.append(slot)
        return True

    # --- the end

    def end(self) -> None:
        """What must be so when all agents are through."""
        for v, pipe in self.pipes.items():
            made = v.owner if isinstance(v.owner, Operation) else None
            if pipe.kind == "group":
                continue
            for barrier in (*pipe.full, *pipe.empty):
                if barrier.bytes:
                    raise Fault("bytes are expected that never come, or come that nobody expected", made)
            if pipe.filled > pipe.waited:
                raise Fault("stages are filled that nobody waits for: copies may still be on their way at the end", made)
            for w in self.warps if pipe.kind != "umma" else ():
                if w.waits.get(v, 0) != w.released.get(v, 0):
                    raise Fault("not every stage that was waited for is given back", made)
        for w in self.warps:
            if any(w.groups) or w.open_copies:
                raise Fault("copies are still on their way at the end", self.agents[w.agent].events[-1].op)
            if w.products:
                raise Fault("products are still on their way at the end", self.agents[w.agent].events[-1].op)
