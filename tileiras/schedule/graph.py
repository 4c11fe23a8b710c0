"""Which op of a loop's body waits for which: the dependence graph, and the least interval that its cycles allow.

A node is an op of the loop's block; what an op holds in regions belongs to it. An edge says that its target may start
`latency` cycles after its source's start, counted `distance` iterations later:

    start(target) + interval * distance >= start(source) + latency

Edges come from values (also those that the loop carries, forwarded arguments followed through), from memory tokens (values,
too), from buffers by `analysis/effects.py` (written then read; read or written, then written), and from pipes, whose ops keep
their order. A buffer that is to become a ring has no edge from its readers to the next iteration's writer: how far the
schedule lets them part is the ring's depth.
"""
from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from math import ceil

from xdsl.ir import BlockArgument, Operation, SSAValue

from tileiras.analysis.dot_chains import SUMS
from tileiras.analysis.effects import effects_of
from tileiras.analysis.layout_rules import DOTS, RENAMES
from tileiras.schedule.constraints import constraints_of
from tileiras.schedule.names import ASYNC_LOADS
from tileiras.schedule.resources import Model

PIPE_OPS = ("nv_tileas.producer_acquire", "nv_tileas.producer_commit", "nv_tileas.consumer_wait", "nv_tileas.consumer_release")
IN_ORDER = ("nv_tileas.print", "nv_tileas.assert", "nv_tileas.barrier", "nv_tileas.cluster_barrier",
            "nv_tileas.dealloc", "nv_tileas.alloca")
"""Ops that keep the program's order among themselves, whatever tokens say."""


VALUES = ("value", "accumulator")
"""Edges along which registers pass."""


@dataclass(frozen=True)
class Edge:
    source: int
    target: int
    latency: int
    distance: int = 0
    kind: str = "value"
    """value, accumulator (a value that a dot adds to), buffer, order, or depth (added to cap a ring)."""


@dataclass(frozen=True)
class Node:
    """`uses`: (unit, cycles), whole cycles, one at least. `latency`: until a user may start. `op`: None in tests of the
    scheduler alone. `group`: ops of one group share a stage (SameDepth). `max_depth`: the last stage that the op may have
    (MaxDepth)."""

    index: int
    name: str
    uses: tuple[tuple[str, int], ...] = ()
    latency: int = 0
    op: Operation | None = None
    group: int | None = None
    max_depth: int | None = None

    @property
    def cycles(self) -> int:
        return max((c for _, c in self.uses), default=0)

    @cached_property
    def kept(self) -> tuple[tuple[str, int], ...]:
        """The unit that is busy longest, which no other op may use meanwhile."""
        return (max(self.uses, key=lambda use: use[1]),) if self.uses else ()


@dataclass
class Graph:
    """`rings`: buffer -> (the node that fills it, those that read it), for buffers that may become rings."""

    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    rings: dict[SSAValue, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    in_flight: set[int] = field(default_factory=set)
    """Loads that go straight to a ring: their results take no registers."""
    serial: bool = False
    """Some op asks for the program's order (ForceSerial)."""

    def successors(self) -> list[list[Edge]]:
        out: list[list[Edge]] = [[] for _ in self.nodes]
        for e in self.edges:
            out[e.source].append(e)
        return out

    def predecessors(self) -> list[list[Edge]]:
        out: list[list[Edge]] = [[] for _ in self.nodes]
        for e in self.edges:
            out[e.target].append(e)
        return out


# ---- from IR

def loop_graph(loop: Operation, model: Model, rings: Collection[SSAValue] = ()) -> Graph:
    """The graph of a loop's body. `rings`: buffers that are filled by one op of the body and may become rings."""
    return _Builder(loop, model, rings).graph


class _Builder:
    def __init__(self, loop: Operation, model: Model, rings: Collection[SSAValue]) -> None:
        self.block = loop.regions[0].block
        self.rings = rings
        self.graph = Graph()
        self.number: dict[Operation, int] = {}
        self.seen: set[tuple[int, int, int]] = set()
        terminator = self.block.last_op
        for op in self.block.ops:
            if op is not terminator:
                self.number[op] = len(self.graph.nodes)
                self.graph.nodes.append(node_of(len(self.graph.nodes), op, model))
        constraints = constraints_of(list(self.number))
        if constraints:
            self.graph.serial = constraints.serial
            self.graph.nodes = [replace(n, group=constraints.group.get(n.index), max_depth=constraints.max_depth.get(n.index))
                                for n in self.graph.nodes]
        self.carried: dict[SSAValue, SSAValue] = {}
        if terminator is not None and len(terminator.operands) + 1 == len(self.block.args):
            self.carried = dict(zip(self.block.args[1:], terminator.operands))
        self._buffers()
        for op, i in self.number.items():
            for inner in op.walk():
                for operand, v in enumerate(inner.operands):
                    self._value(v, i, inner is op and operand == SUMS and op.name in DOTS)
        self._in_order()

    def _add(self, source: int, target: int, latency: int, distance: int, kind: str) -> None:
        if source == target and distance == 0:
            return
        key = (source, target, distance)
        if key not in self.seen:
            self.seen.add(key)
            self.graph.edges.append(Edge(source, target, latency, distance, kind))

    def _value(self, v: SSAValue, user: int, accumulates: bool = False) -> None:
        distance = 0
        while isinstance(v, BlockArgument):
            if v not in self.carried or distance > len(self.carried):
                return              # from above, the induction variable, or an argument that never changes
            v = self.carried[v]
            distance += 1
        assert isinstance(v.owner, Operation)
        source = self.number.get(v.owner)
        if source is not None:
            node = self.graph.nodes[source]
            # one product's first instruction needs but the last one's first sums of another
            latency = node.cycles if accumulates and node.name in DOTS else node.latency
            self._add(source, user, latency, distance, "accumulator" if accumulates else "value")

    def _buffers(self) -> None:
        """Accesses of the same buffer, one of the two writing, keep their order; from the last of an iteration to the first of
        the next."""
        touched: dict[SSAValue, list[tuple[int, bool, bool]]] = {}
        for op, i in self.number.items():
            reads: set[SSAValue] = set()
            writes: set[SSAValue] = set()
            for inner in op.walk():
                effects = effects_of(inner)
                reads.update(effects.reads)
                writes.update(effects.writes)
            for v in reads | writes:
                touched.setdefault(v, []).append((i, v in reads, v in writes))
        nodes = self.graph.nodes
        rings = {v for v, accesses in touched.items()
                 if v in self.rings and [w for _, _, w in accesses].count(True) == 1 and accesses[0][2]}
        for v in rings:
            self._ring(v, touched[v][0][0], tuple(i for i, r, _ in touched[v][1:] if r))
        for v, accesses in touched.items():
            ring = v in rings
            for a, (i, _, i_writes) in enumerate(accesses):
                for b, (j, _, j_writes) in enumerate(accesses):
                    if not (i_writes or j_writes):
                        continue
                    if a < b:
                        self._add(i, j, nodes[i].latency if i_writes else nodes[i].cycles, 0, "buffer")
                    elif not ring:
                        self._add(i, j, nodes[i].latency if i_writes else nodes[i].cycles, 1, "buffer")

    def _ring(self, v: SSAValue, writer: int, readers: tuple[int, ...]) -> None:
        """A buffer that becomes a ring. If what is stored comes from a load that serves nothing else, the two are one copy:
        the stage is taken from the load's start on, and the store takes no time of its own."""
        nodes = self.graph.nodes
        store = nodes[writer].op
        load = load_behind(store, True) if store is not None else None
        number = self.number.get(load) if load is not None else None
        if number is not None:
            nodes[writer] = replace(nodes[writer], uses=(), latency=0)
            nodes[number] = replace(nodes[number], uses=tuple(u for u in nodes[number].uses if u[0] == "ingress"))
            self.graph.in_flight.add(number)
            writer = number
        self.graph.rings[v] = (writer, readers)

    def _in_order(self) -> None:
        """Ops that meet other threads, and those of one pipe, stay in the program's order."""
        chains: dict[object, list[int]] = {}
        for op, i in self.number.items():
            for inner in op.walk():
                if inner.name in IN_ORDER:
                    chains.setdefault("order", []).append(i)
                elif inner.name in PIPE_OPS:
                    chains.setdefault(inner.operands[0], []).append(i)
        for chain in chains.values():
            for i, j in pairwise(chain):
                self._add(i, j, 0, 0, "order")
            self._add(chain[-1], chain[0], 0, 1, "order")


def load_behind(store: Operation, several: bool = False) -> Operation | None:
    """The load whose tile a `store_shared` puts into its buffer, as it is or seen in another shape, if nothing else uses it.
    `several`: other buffers may get it, too."""
    if store.name != "nv_tileas.store_shared":
        return None
    v = store.operands[0]
    while isinstance(v.owner, Operation) and (v.has_one_use() or (several and goes_to_buffers(v))):
        if v.owner.name in ASYNC_LOADS:
            return v.owner
        if v.owner.name not in RENAMES:
            return None
        v = v.owner.operands[0]
    return None


def goes_to_buffers(v: SSAValue) -> bool:
    """Whether a tile is only stored to shared memory, as it is or seen in another shape."""
    return all(use.index == 0 if use.operation.name == "nv_tileas.store_shared" else
               use.operation.name in RENAMES and goes_to_buffers(use.operation.results[0]) for use in v.uses)


def node_of(index: int, op: Operation, model: Model) -> Node:
    """An op's node: its footprint in whole cycles."""
    footprint = model.beside_another_iteration(op)
    uses = tuple((unit, max(1, ceil(cycles))) for unit, cycles in footprint.uses)
    return Node(index, op.name, uses, ceil(footprint.latency), op)


# ---- the bounds

def resource_bound(graph: Graph) -> tuple[int, str]:
    """ResMII: the interval in which the busiest unit has time for all, and that unit ("" where nothing takes time)."""
    total: dict[str, int] = {}
    for node in graph.nodes:
        for unit, cycles in node.uses:
            total[unit] = total.get(unit, 0) + cycles
    unit = max(total, key=lambda u: total[u], default="")
    return (total[unit] if unit else 1), unit


def recurrence_bound(graph: Graph) -> int:
    """RecMII: the least interval for which no cycle of the graph takes longer than its distance in iterations allows. Feasibility
    grows with the interval, so bisection finds it. Raises ValueError for a cycle within one iteration."""
    inside = [e for e in graph.edges if e.source == e.target]
    least = max((ceil(e.latency / e.distance) for e in inside if e.distance), default=1)
    for members in components(graph):
        edges = sorted((e for e in graph.edges if e.source in members and e.target in members), key=lambda e: e.source)
        low, high = least, max(least, sum(e.latency for e in edges) + 1)
        if positive_cycle(members, edges, high):
            raise ValueError("ops of one iteration wait for each other")
        while low < high:
            middle = (low + high) // 2
            if positive_cycle(members, edges, middle):
                low = middle + 1
            else:
                high = middle
        least = low
    return max(1, least)


def positive_cycle(members: Collection[int], edges: list[Edge], interval: int) -> bool:
    """Whether some cycle's latencies exceed `interval` times its distance: longest paths that still grow after as many rounds
    as there are nodes, or of which each step comes from one before it."""
    longest = dict.fromkeys(members, 0)
    came_from: dict[int, int] = {}
    for rounds in range(1, len(longest) + 1):
        grown = False
        for e in edges:
            reach = longest[e.source] + e.latency - interval * e.distance
            if reach > longest[e.target]:
                longest[e.target] = reach
                came_from[e.target] = e.source
                grown = True
        if not grown:
            return False
        if rounds & rounds - 1 == 0 and _runs_in_circles(came_from):
            return True
    return True


def _runs_in_circles(came_from: dict[int, int]) -> bool:
    """Whether some way back ends nowhere."""
    ends: set[int] = set()
    for node in came_from:
        way: set[int] = set()
        while node in came_from and node not in ends and node not in way:
            way.add(node)
            node = came_from[node]
        if node in way:
            return True
        ends |= way
    return False


def components(graph: Graph) -> Iterator[frozenset[int]]:
    """The strongly connected components of more than one node (Tarjan, without recursion)."""
    out = graph.successors()
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    for root in range(len(graph.nodes)):
        if root in index:
            continue
        work = [(root, iter(out[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            v, rest = work[-1]
            for e in rest:
                w = e.target
                if w not in index:
                    index[w] = low[w] = len(index)
                    stack.append(w)
                    on_stack.add(w)
                    work.append((w, iter(out[w])))
                    break
                if w in on_stack:
                    low[v] = min(low[v], index[w])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[v])
                if low[v] == index[v]:
                    members = set()
                    while True:
                        w = stack.pop()
                        on_stack.discard(w)
                        members.add(w)
                        if w == v:
                            break
                    if len(members) > 1:
                        yield frozenset(members)
