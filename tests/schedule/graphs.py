"""Graphs of loops for tests of the scheduler alone: by hand, the specification's worked example, and drawn by seed."""
from __future__ import annotations

import random

from tileiras.schedule.graph import Edge, Graph, Node

UNITS = ("tensor", "stream", "ingress")


def graph_of(ops: list[tuple[str, int, int]], edges: list[tuple[int, int, int]]) -> Graph:
    """ops: (unit, cycles, latency); edges: (source, target, distance), with the source's latency."""
    nodes = [Node(i, f"op{i}", ((unit, cycles),) if cycles else (), latency) for i, (unit, cycles, latency) in enumerate(ops)]
    return Graph(nodes, [Edge(s, t, nodes[s].latency, d) for s, t, d in edges])


def four_op_body() -> Graph:
    """The loop of the specification's slot model: a TMA load and a store that both keep tp_smem_wr, a product, a read."""
    nodes = [Node(0, "tiled_tma_load", (("tma", 8), ("tp_smem_wr", 8)), 8), Node(1, "smem_write", (("tp_smem_wr", 7),), 7),
             Node(2, "wgmma", (("tc_and_mma", 8), ("tp_mma", 8)), 16), Node(3, "smem_read", (("tp_smem_rd", 7),), 7)]
    return Graph(nodes, [Edge(0, 3, 8)])


def random_graph(seed: int, size: int = 12) -> Graph:
    """Edges within an iteration go from lower numbers to higher ones; some lead back, one or two iterations on."""
    rng = random.Random(seed)
    ops = [(rng.choice(UNITS), rng.choice((0, 1, 3, 10, 40)), rng.choice((0, 1, 5, 60))) for _ in range(size)]
    edges = [(i, j, 0) for i in range(size) for j in range(i + 1, size) if rng.random() < 0.25]
    edges += [(j, i, rng.choice((1, 2))) for i in range(size) for j in range(i, size) if rng.random() < 0.08]
    return graph_of([(unit, cycles, max(cycles, latency)) for unit, cycles, latency in ops], edges)
