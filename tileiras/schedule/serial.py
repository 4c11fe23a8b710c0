"""Schedules in the program's order: one op after another, or the same with the loads some iterations ahead.

Where nothing but loads is asynchronous, warps that execute in order gain nothing from another order: `ahead_schedule` lets the
loads, and what their addresses need, run as early as their latency asks, and keeps the rest together, in one stage.
"""
from __future__ import annotations

from heapq import heapify, heappop, heappush
from math import ceil

from tileiras.schedule.graph import Graph, resource_bound
from tileiras.schedule.schedule import NoSchedule, Schedule, check


def serial_schedule(graph: Graph, bound: str = "") -> Schedule:
    """All ops in stage 0. Raises NoSchedule where ops of one iteration wait for each other."""
    waiting = [0] * len(graph.nodes)
    for e in graph.edges:
        waiting[e.target] += e.distance == 0
    ready = [i for i, n in enumerate(waiting) if n == 0]
    heapify(ready)
    out = graph.successors()
    order, starts, now = [0] * len(waiting), [0] * len(waiting), 0
    place = 0
    while ready:
        i = heappop(ready)
        order[i], starts[i] = place, now
        place += 1
        now += max(1, graph.nodes[i].latency)
        for e in out[i]:
            if e.distance == 0:
                waiting[e.target] -= 1
                if waiting[e.target] == 0:
                    heappush(ready, e.target)
    if place < len(waiting):
        raise NoSchedule("ops of one iteration wait for each other")
    return Schedule(graph, max(1, now), tuple(starts), "serial", bound, len(order), tuple(order))


def ahead_schedule(graph: Graph) -> Schedule:
    """Loads ahead, the rest in order. Raises NoSchedule where loads need what the rest computes, or an op asks for a stage."""
    order = serial_schedule(graph).orders()
    before, nodes = graph.predecessors(), graph.nodes
    early = set(graph.in_flight)
    todo = list(early)
    while todo:                                 # what loads need, in the same iteration
        for e in before[todo.pop()]:
            if e.distance == 0 and e.source not in early:
                early.add(e.source)
                todo.append(e.source)
    starts = [0] * len(nodes)
    free: dict[str, int] = {}
    walk = sorted(range(len(nodes)), key=lambda i: (i not in early, order[i]))
    for i in walk:
        node = nodes[i]
        at = max((starts[e.source] + e.latency for e in before[i] if e.distance == 0 and (e.source in early) == (i in early)),
                 default=0)
        at = max([at, *(free.get(unit, 0) for unit, _ in node.kept)])
        if i not in graph.in_flight:
            at = max(at, free.get("order", 0))
            free["order"] = at
        starts[i] = at
        for unit, cycles in node.kept:
            free[unit] = at + cycles
    length = max([free.get("order", 0) + 1, *(t for unit, t in free.items() if unit != "order")])
    bound = resource_bound(graph)
    interval = max(1, length, bound[0])
    for e in graph.edges:
        if e.distance and (e.source in early) == (e.target in early):
            interval = max(interval, ceil((starts[e.source] + e.latency - starts[e.target]) / e.distance))
    late = max((starts[e.source] + e.latency - starts[e.target] - interval * e.distance for e in graph.edges
                if e.source in early and e.target not in early), default=0)
    behind = -(-max(0, late) // interval) * interval
    starts = [at if i in early else at + behind for i, at in enumerate(starts)]
    found = Schedule(graph, interval, tuple(starts), "ahead", bound[1] if interval == bound[0] else "latencies", len(nodes))
    check(found)
    return found
