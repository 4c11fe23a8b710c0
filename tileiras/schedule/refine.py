"""Schedules again and again until what is in flight fits: rings in shared memory, copies of values in registers.

After a schedule every ring's depth and every value's copies are known. If the rings need more shared memory than there is, the
costliest ring is capped: an edge from its readers to the write that comes `depth - 1` iterations later. If values need more
registers, the value with the most is capped in the same way. Each round caps one; after `iterations` rounds, or where no ring
is left to cap, the loop keeps the program's order.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from xdsl.ir import SSAValue

from tileiras.schedule.depth import registers_of
from tileiras.schedule.graph import VALUES, Edge, Graph, Node, resource_bound
from tileiras.schedule.modulo import modulo_schedule
from tileiras.schedule.options import DEFAULT_ITERATIONS, DEFAULT_THRESHOLD
from tileiras.schedule.schedule import NoSchedule, Schedule, check
from tileiras.schedule.serial import ahead_schedule, serial_schedule

LATE = 1
"""The stage of what is computed beside the next iteration."""
MOST_VIEWS = 8
"""Views of views of a value that are followed."""


@dataclass(frozen=True)
class Room:
    """`shared`: bytes that rings may take. `registers`: a thread's, for values that are alive in a cycle."""

    shared: int
    registers: int


@dataclass
class Outcome:
    """`depths`: of rings. `why`: what made it serial, "" where it isn't. `rounds`: of refinement."""

    schedule: Schedule
    depths: dict[SSAValue, int] = field(default_factory=dict)
    why: str = ""
    rounds: int = 0


def choose(graph: Graph, room: Room, ring_bytes: Mapping[SSAValue, int], asynchronous: bool,
           iterations: int = DEFAULT_ITERATIONS, threshold: int = DEFAULT_THRESHOLD) -> Outcome:
    """The schedule of a loop: the program's order if the loop asks for it or does nothing asynchronous; with the loads ahead
    where nothing else is; else by refined modulo scheduling. Raises NoSchedule only where ops of one iteration wait for each
    other."""
    if graph.serial:
        return Outcome(serial_schedule(graph), why="forced")
    if not asynchronous:
        return Outcome(serial_schedule(graph), why="nothing is asynchronous")
    if iterations and graph.in_flight and all(_is_in_order(n) for n in graph.nodes if n.uses and n.index not in graph.in_flight):
        try:
            schedule = ahead_schedule(graph)
            depths = {v: schedule.depth(writer, readers) for v, (writer, readers) in graph.rings.items()}
            if _cap_ring(graph, depths, ring_bytes, room.shared) is None:
                return Outcome(schedule, depths)
        except NoSchedule:
            pass
    return refine(loads_ahead(graph), room, ring_bytes, iterations, threshold)


def _is_in_order(node: Node) -> bool:
    """Whether nothing else can be begun while an op's busiest unit works."""
    uses = dict(node.uses)
    return uses.get("stream", 0) >= max(uses.values())


def loads_ahead(graph: Graph) -> Graph:
    """The graph with loads that are there in time, by as many whole iterations as their ring is deep (`depth.py`), and the rest
    in two stages at most: one iteration's early part beside the late part of the one before. More stages would only hold more
    values in registers: products and arithmetic of two iterations fill both units."""
    if not graph.in_flight:
        return graph
    edges = [replace(e, latency=0) if e.source in graph.in_flight else e for e in graph.edges]
    nodes = [replace(n, max_depth=LATE if n.max_depth is None else min(n.max_depth, LATE)) for n in graph.nodes]
    return replace(graph, nodes=nodes, edges=edges)


def refine(graph: Graph, room: Room, ring_bytes: Mapping[SSAValue, int], iterations: int = DEFAULT_ITERATIONS,
           threshold: int = DEFAULT_THRESHOLD) -> Outcome:
    """The schedule of a loop, within `room`. `ring_bytes`: of a stage of each ring."""
    graph = replace(graph, edges=list(graph.edges))
    why, least = "no rounds of refinement", 1
    for attempt in range(iterations):
        try:
            schedule = modulo_schedule(graph, threshold, least=least)
            check(schedule)
        except NoSchedule as error:
            why = str(error)
            break
        least = schedule.interval       # a cap never makes a shorter one possible
        depths = {v: schedule.depth(writer, readers) for v, (writer, readers) in graph.rings.items()}
        capped = _cap_ring(graph, depths, ring_bytes, room.shared)
        rings_fit = capped is None
        if capped is None:
            capped = _cap_value(graph, schedule, room.registers)
        if capped is None:
            return Outcome(schedule, depths, rounds=attempt + 1)
        if not capped:
            if rings_fit:       # the pass that expands the loop counts what is alive in the code's order, and may refuse
                return Outcome(schedule, depths, rounds=attempt + 1)
            why = "shared memory doesn't hold one more iteration"
            break
        graph.edges.extend(capped)
        why = f"{iterations} rounds of refinement didn't suffice"
    return Outcome(serial_schedule(graph, resource_bound(graph)[1]), why=why, rounds=iterations)


def _cap_ring(graph: Graph, depths: Mapping[SSAValue, int], ring_bytes: Mapping[SSAValue, int], shared: int) -> list[Edge] | None:
    """Edges that make the ring with the most bytes one stage shallower; none where all have one; None if all fit."""
    if sum(depth * ring_bytes.get(v, 0) for v, depth in depths.items()) <= shared:
        return None
    deep = [v for v, depth in depths.items() if depth > 1]
    if not deep:
        return []
    v = max(deep, key=lambda v: depths[v] * ring_bytes.get(v, 0))
    writer, readers = graph.rings[v]
    return [Edge(r, writer, max(1, graph.nodes[r].cycles), depths[v] - 1, "depth") for r in readers]


@dataclass(frozen=True)
class Lifetime:
    """A value in registers: the node that makes it, the cycle after its last use, counted from its start; its registers."""

    node: int
    end: int
    registers: int
    users: tuple[int, ...]


def lifetimes(schedule: Schedule) -> list[Lifetime]:
    """Of all values of the iteration that are used later in it, or by the next one. What an op takes no time for (another view
    of a value, say) is its operand's registers, but for broadcasts, whose users read the operand. Elementwise ops and
    accumulators write where they read."""
    nodes, behind = schedule.graph.nodes, schedule.graph.successors()
    known: dict[int, int] = {}

    def end_of(i: int, depth: int = 0) -> int:
        if i in known:
            return known[i]
        end = schedule.starts[i]
        for e in behind[i]:
            if e.kind not in VALUES:
                continue
            user, later = nodes[e.target], schedule.interval * e.distance
            if user.uses:
                in_place = e.kind == "accumulator" or user.name.startswith(("arith.", "math."))
                end = max(end, schedule.starts[e.target] + later + (1 if in_place else user.cycles))
            elif depth < MOST_VIEWS:
                end = max(end, end_of(e.target, depth + 1) + later)
        known[i] = end
        return end
    out = []
    for node in nodes:
        if node.op is None or not node.uses or node.index in schedule.graph.in_flight:
            continue
        users = tuple(e.target for e in behind[node.index] if e.kind in VALUES)
        registers = sum(registers_of(r) for r in node.op.results if r.uses)
        if users and registers:
            out.append(Lifetime(node.index, end_of(node.index), registers, users))
    return out


def pressure(schedule: Schedule, alive: list[Lifetime]) -> int:
    """Registers a thread that values take in the fullest cycle of the steady state; an iteration ahead counts once more."""
    changes: dict[int, int] = {}
    base = 0
    for life in alive:
        start = schedule.starts[life.node]
        whole, rest = divmod(max(1, life.end - start), schedule.interval)
        base += whole * life.registers
        if rest:
            at = start % schedule.interval
            until = at + rest
            changes[at] = changes.get(at, 0) + life.registers
            if until > schedule.interval:       # alive from the interval's start on, as that of the iteration before
                base += life.registers
            if until != schedule.interval:
                until %= schedule.interval
                changes[until] = changes.get(until, 0) - life.registers
    now = most = base
    for at in sorted(changes):
        now += changes[at]
        most = max(most, now)
    return most


def _cap_value(graph: Graph, schedule: Schedule, registers: int) -> list[Edge] | None:
    """Edges that let the value with the most copies in registers have one less; none where all have one; None if all fit."""
    alive = lifetimes(schedule)
    if pressure(schedule, alive) <= registers:
        return None

    def copies(life: Lifetime) -> int:
        return max(0, life.end - schedule.starts[life.node] - 1) // schedule.interval + 1
    for life in sorted((life for life in alive if copies(life) > 1), key=lambda life: -copies(life) * life.registers):
        caps = [Edge(u, life.node, max(1, graph.nodes[u].cycles), copies(life) - 1, "depth")
                for u in dict.fromkeys(life.users) if u != life.node]
        if any(cap not in graph.edges for cap in caps):
            return caps
    return []
