"""A schedule to look at: units over the cycles of the interval as text, or iterations over time as a trace for Chrome.

    interval 1024 (bound by tensor), 2 stages, 12 ops
    tensor  |0000000011111111|      a letter or digit an op; a column 64 cycles
    xu      |....2222........|
    0 nv_tileas.dot  stage 0 order 0 start 0 cycles 512 latency 540
"""
from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tileiras.schedule.schedule import Schedule

COLUMNS = 64
_MARKS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
FREE, OTHER = ".", "#"
TRACED_ITERATIONS = 8
"""How many iterations a trace shows: enough to see the steady state of any ring."""


def chart(schedule: Schedule, title: str = "") -> str:
    """The schedule as lines of text."""
    nodes, interval = schedule.graph.nodes, schedule.interval
    bound = f" (bound by {schedule.bound})" if schedule.bound else ""
    stages = f"{schedule.stages} stage{'s' * (schedule.stages > 1)}"
    head = f"interval {interval}{bound}, {stages}, {len(nodes)} ops, {schedule.generator}"
    lines = [f"{title}: {head}" if title else head]
    width = -(-interval // COLUMNS)
    columns = -(-interval // width)
    marks = {node.index: _MARKS[node.index] if node.index < len(_MARKS) else OTHER for node in nodes}
    rows: dict[str, list[str]] = {}
    for node in nodes:
        for unit, cycles in node.uses:
            row = rows.setdefault(unit, [FREE] * columns)
            first = schedule.starts[node.index]
            for column in range(first // width, (first + cycles - 1) // width + 1):
                place = column % columns
                row[place] = marks[node.index] if row[place] == FREE else OTHER if width > 1 else row[place]
    wide = max((len(unit) for unit in rows), default=0)
    lines += [f"  {unit:<{wide}} |{''.join(row)}|" for unit, row in rows.items()]
    orders = schedule.orders()
    for node in sorted(nodes, key=lambda n: orders[n.index]):
        lines.append(f"  {marks[node.index]} {node.name}  stage {schedule.stage(node.index)} order {orders[node.index]} "
                     f"start {schedule.starts[node.index]} cycles {node.cycles} latency {node.latency}")
    return "\n".join(lines) + "\n"


def trace_events(schedule: Schedule, process: int = 0, name: str = "loop") -> list[dict[str, Any]]:
    """Events of the Trace Event Format: a thread a unit, a slice an op's use, an arrow an edge within an iteration."""
    units = sorted({unit for node in schedule.graph.nodes for unit, _ in node.uses})
    events: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "pid": process, "args": {"name": name}}]
    events += [{"ph": "M", "name": "thread_name", "pid": process, "tid": t, "args": {"name": u}} for t, u in enumerate(units)]
    orders = schedule.orders()
    for iteration in range(TRACED_ITERATIONS):
        for node in schedule.graph.nodes:
            start = schedule.starts[node.index] + iteration * schedule.interval
            for unit, cycles in node.uses:
                events.append({"ph": "X", "name": node.name, "pid": process, "tid": units.index(unit), "ts": start, "dur": cycles,
                               "args": {"op": node.index, "iteration": iteration, "stage": schedule.stage(node.index),
                                        "order": orders[node.index], "latency": node.latency}})
        for number, e in enumerate(schedule.graph.edges):
            source, target = schedule.graph.nodes[e.source], schedule.graph.nodes[e.target]
            if source.uses and target.uses and iteration + e.distance < TRACED_ITERATIONS:
                arrow = {"pid": process, "cat": e.kind, "name": "edge", "id": iteration * len(schedule.graph.edges) + number}
                start = schedule.starts[e.source] + iteration * schedule.interval
                end = schedule.starts[e.target] + (iteration + e.distance) * schedule.interval
                actual = {"minimal": e.latency, "actual": end - start}
                events.append({**arrow, "ph": "s", "tid": units.index(source.uses[0][0]), "ts": start, "args": actual})
                events.append({**arrow, "ph": "f", "bp": "e", "tid": units.index(target.uses[0][0]), "ts": end})
    return events


def trace(loops: Sequence[tuple[str, Schedule]]) -> str:
    """The JSON of a trace file: a process a loop."""
    events = [event for i, (name, schedule) in enumerate(loops) for event in trace_events(schedule, i, name)]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}, indent=None, separators=(",", ":")) + "\n"
