"""Iterative modulo scheduling (Rau): an interval, and in it a place for every op.

The interval starts at max(ResMII, RecMII) and grows; whether there is a schedule isn't monotone in it, so none is skipped by
bisection. At an interval ops are placed by height, the longest way that still follows them: at the first row of
[E, E + interval - 1] where their units are free, E being as early as what they wait for allows. An op that fits nowhere is
placed at E, or one behind where it was last, and what is in its way, or now too early, is taken out to be placed again. The
number of placements is bounded. In the end ops move towards their users where that shortens lives of values.
"""
from __future__ import annotations

from dataclasses import replace
from heapq import heapify, heappop, heappush

from tileiras.schedule.depth import registers_of
from tileiras.schedule.graph import VALUES, Graph, recurrence_bound, resource_bound
from tileiras.schedule.options import DEFAULT_THRESHOLD
from tileiras.schedule.schedule import NoSchedule, Schedule
from tileiras.schedule.table import Table

PLACEMENTS_AN_OP = 6
"""Placements that an interval may take, for each op (Rau's budget ratio)."""
MOST_INTERVALS = 48
"""Intervals that are tried."""
FREEING = 8
"""Cycles of height that an op gains for each register a thread that is free behind it."""
GROWTH = 32
"""An interval grows by this part (one n-th), one cycle at least."""


def bounds(graph: Graph) -> tuple[int, str]:
    """max(ResMII, RecMII), and what it is because of."""
    resources, unit = resource_bound(graph)
    try:
        recurrence = recurrence_bound(graph)
    except ValueError as error:
        raise NoSchedule(str(error)) from error
    return (recurrence, "recurrence") if recurrence > resources else (resources, unit)


def modulo_schedule(graph: Graph, threshold: int = DEFAULT_THRESHOLD, intervals: int = MOST_INTERVALS,
                    least: int = 1) -> Schedule:
    """The schedule of the least interval found, `least` or more. Raises NoSchedule."""
    interval, bound = bounds(graph)
    interval = max(interval, least)
    attempts = 0
    for _ in range(intervals):
        starts, tried = _place(graph, interval, threshold)
        attempts += tried
        if starts is not None:
            return tightened(Schedule(graph, starts[1], starts[0], "modulo", bound, attempts), threshold)
        interval += max(1, interval // GROWTH)
    raise NoSchedule(f"no schedule of an interval up to {interval} in {attempts} placements; bound by {bound}")


def heights(graph: Graph, interval: int) -> list[int]:
    """For each op the longest way from it to an end: what it delays."""
    found = [node.latency for node in graph.nodes]
    backwards = sorted(graph.edges, key=lambda e: -e.source)        # what an iteration needs in turn is found in one round
    for _ in graph.nodes:
        grown = False
        for e in backwards:
            reach = found[e.target] + e.latency - interval * e.distance
            if reach > found[e.source]:
                found[e.source] = reach
                grown = True
        if not grown:
            break
    return found


def made_registers(graph: Graph) -> list[int]:
    """Registers a thread that each op's results take; 1 where the graph knows no op."""
    return [sum(registers_of(r) for r in node.op.results) if node.op is not None else 1 for node in graph.nodes]


def freed(graph: Graph) -> list[int]:
    """For each op, how many registers more than it makes it is the only one to wait for, a share where several use a value."""
    made, before, behind = made_registers(graph), graph.predecessors(), graph.successors()
    users = [max(1, sum(e.kind in VALUES for e in out)) for out in behind]
    return [max(0, sum(made[e.source] // users[e.source] for e in before[i]
                       if e.kind in VALUES and e.source not in graph.in_flight) - made[i]) for i in range(len(graph.nodes))]


def tightened(schedule: Schedule, threshold: int = DEFAULT_THRESHOLD) -> Schedule:
    """The same schedule with each op as late as its users allow, if what it makes takes more registers (or a stage of a ring)
    than what it is the last to use. Users move first."""
    graph, interval = schedule.graph, schedule.interval
    nodes, starts = graph.nodes, list(schedule.starts)
    table = Table(interval, threshold)
    for node, start in zip(nodes, starts):
        table.place(node, start)
    before, behind = graph.predecessors(), graph.successors()
    made = made_registers(graph)
    for i in sorted(range(len(nodes)), key=lambda i: -starts[i]):
        node = nodes[i]
        if not behind[i] or node.group is not None:
            continue
        latest = min((starts[e.target] + interval * e.distance - e.latency for e in behind[i] if e.target != i), default=starts[i])
        if node.max_depth is not None:
            latest = min(latest, (node.max_depth + 1) * interval - 1)
        ended = sum(made[e.source] for e in before[i] if e.kind in VALUES and e.source not in graph.in_flight and all(
            starts[u.target] + interval * u.distance <= starts[i] + interval * e.distance for u in behind[e.source]))
        if latest <= starts[i] or (i not in graph.in_flight and ended >= made[i]):
            continue
        table.remove(i)
        found = table.last(node, starts[i], latest)
        starts[i] = starts[i] if found is None else found
        table.place(node, starts[i])
    first = min(starts, default=0) // interval * interval
    return replace(schedule, starts=tuple(s - first for s in starts))


def _place(graph: Graph, interval: int, threshold: int) -> tuple[tuple[tuple[int, ...], int] | None, int]:
    """(starts, interval rounded to the table's rows) or None, and how many placements it took."""
    nodes = graph.nodes
    table = Table(interval, threshold)
    if table.interval != interval:          # rows are whole quanta: no shorter than asked for
        table = Table(-(-interval // table.quantum) * table.quantum, threshold)
        interval = table.interval
    priority = [h + FREEING * f for h, f in zip(heights(graph, interval), freed(graph))]
    before, behind = graph.predecessors(), graph.successors()
    starts: dict[int, int] = {}
    last: dict[int, int] = {}
    groups: dict[int | None, list[int]] = {}
    for node in nodes:
        groups.setdefault(node.group, []).append(node.index)
    todo = [(-priority[i], i) for i in range(len(nodes))]
    heapify(todo)
    budget, tried = PLACEMENTS_AN_OP * len(nodes), 0
    while todo:
        if tried == budget:
            return None, tried
        tried += 1
        _, i = heappop(todo)
        node = nodes[i]
        earliest = max((starts[e.source] + e.latency - interval * e.distance for e in before[i]
                        if e.source in starts and e.source != i), default=0)
        earliest = max(0, earliest)
        peers = [j for j in groups.get(node.group, ()) if j != i and j in starts] if node.group is not None else []
        if peers:
            earliest = max(earliest, starts[peers[0]] // interval * interval)
        start = table.first(node, earliest)
        forced = start is None
        if start is None:
            if any(cycles > interval for _, cycles in node.uses):
                return None, tried
            start = -(-max(earliest, last.get(i, -1) + 1) // table.quantum) * table.quantum
        if node.max_depth is not None and start // interval > node.max_depth:
            return None, tried
        evicted = set(table.conflicts(node, start)) if forced else set()
        evicted.update(j for j in peers if starts[j] // interval != start // interval)
        for e in behind[i]:
            if e.target in starts and e.target != i and starts[e.target] + interval * e.distance < start + e.latency:
                evicted.add(e.target)
        for j in evicted:
            table.remove(j)
            del starts[j]
            heappush(todo, (-priority[j], j))
        table.place(node, start)
        starts[i] = last[i] = start
    return (tuple(starts[i] for i in range(len(nodes))), interval), tried
