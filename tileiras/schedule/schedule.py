"""A schedule: when each op of a loop's body starts, in an iteration's own time, and how often iterations start.

    start    cycles from the iteration's first op
    stage    start / interval: in the steady state the op works on an iteration that began so many intervals ago
    order    where it stands among all ops in one interval of the steady state

Legal is a schedule that keeps every edge, in which no unit is taken twice, and whose order follows its starts.
"""
from __future__ import annotations

from dataclasses import dataclass

from tileiras.schedule.graph import Graph, Node
from tileiras.schedule.table import Table


class NoSchedule(Exception):
    """There is none, and the message says why. What asked goes on with the program's order."""


@dataclass(frozen=True)
class Schedule:
    """`starts`: by node. `generator`: "serial", "ahead" or "modulo". `bound`: what the interval can't fall below because of: a
    unit, "recurrence", "latencies" or "". `attempts`: placements that were tried."""

    graph: Graph
    interval: int
    starts: tuple[int, ...]
    generator: str = "modulo"
    bound: str = ""
    attempts: int = 0
    order: tuple[int, ...] = ()
    """By node; where empty, the order of starts within the interval."""

    @property
    def is_serial(self) -> bool:
        return self.generator == "serial"

    def stage(self, node: int) -> int:
        return 0 if self.is_serial else self.starts[node] // self.interval

    @property
    def stages(self) -> int:
        return max((self.stage(i) for i in range(len(self.starts))), default=0) + 1

    def orders(self) -> tuple[int, ...]:
        """Each node's place in the steady state, 0 to n - 1. At equal times an op that another waits for at once comes first."""
        if self.order:
            return self.order
        ranked = sorted(range(len(self.starts)), key=lambda i: (self.starts[i] % self.interval, -self.stage(i), i))
        out = [0] * len(ranked)
        for place, i in enumerate(ranked):
            out[i] = place
        return tuple(out)

    def depth(self, source: int, users: tuple[int, ...]) -> int:
        """Copies of what `source` makes that are needed at once: floor((last use's end - definition) / interval) + 1."""
        nodes = self.graph.nodes
        end = max((self.starts[u] + max(1, nodes[u].cycles) for u in users), default=self.starts[source] + 1)
        return max(0, end - self.starts[source] - 1) // self.interval + 1


def check(schedule: Schedule, threshold: int = 0) -> None:
    """Raise NoSchedule, with the edge or the unit, unless the schedule is legal."""
    starts, nodes = schedule.starts, schedule.graph.nodes
    if len(starts) != len(nodes) or schedule.interval < 1:
        raise NoSchedule("not every op has its start")
    orders = schedule.orders()
    if sorted(orders) != list(range(len(nodes))):
        raise NoSchedule("two ops have the same place in the order")
    for e in schedule.graph.edges:
        if schedule.is_serial:
            if e.distance == 0 and orders[e.source] > orders[e.target]:
                raise NoSchedule(f"{nodes[e.target].name} comes before {nodes[e.source].name}, which it needs")
            continue
        if starts[e.target] + schedule.interval * e.distance < starts[e.source] + e.latency:
            raise NoSchedule(f"{nodes[e.target].name} at {starts[e.target]} is too early behind {nodes[e.source].name} at "
                             f"{starts[e.source]}: latency {e.latency}, distance {e.distance}, interval {schedule.interval}")
        ahead = schedule.stage(e.target) + e.distance - schedule.stage(e.source)
        if ahead < 0 or (ahead == 0 and orders[e.source] > orders[e.target]):
            raise NoSchedule(f"the order puts {nodes[e.target].name} before {nodes[e.source].name}, which it needs")
    grouped: dict[int, Node] = {}
    for node in nodes:
        if node.max_depth is not None and schedule.stage(node.index) > node.max_depth and not schedule.is_serial:
            raise NoSchedule(f"{node.name} is in stage {schedule.stage(node.index)}, and may be in {node.max_depth} at most")
        if node.group is not None and not schedule.is_serial:
            other = grouped.setdefault(node.group, node)
            if schedule.stage(node.index) != schedule.stage(other.index):
                raise NoSchedule(f"{other.name} and {node.name} are of one group and in different stages")
    if not schedule.is_serial:
        table = Table(schedule.interval, threshold)
        for node, start in zip(nodes, starts):
            if table.conflicts(node, start):
                raise NoSchedule(f"{node.name} at {start} needs a unit that is taken")
            table.place(node, start)
