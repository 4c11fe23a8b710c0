"""Modulo schedules: bounds by hand and by enumeration, legality of every schedule, the specification's examples."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from math import ceil

import pytest

from tests.schedule.graphs import four_op_body, graph_of, random_graph
from tileiras.schedule.graph import Edge, Graph, positive_cycle, recurrence_bound, resource_bound
from tileiras.schedule.modulo import MOST_INTERVALS, PLACEMENTS_AN_OP, bounds, heights, modulo_schedule
from tileiras.schedule.schedule import NoSchedule, Schedule, check
from tileiras.schedule.serial import ahead_schedule, serial_schedule
from tileiras.schedule.table import Table

SEEDS = range(60)


def brute_force_recurrence(graph: Graph) -> int:
    """The largest ceil(latency / distance) of any simple cycle."""
    best = 1
    cost: dict[tuple[int, int], list[Edge]] = {}
    for e in graph.edges:
        cost.setdefault((e.source, e.target), []).append(e)
    for size in range(1, len(graph.nodes) + 1):
        for cycle in permutations(range(len(graph.nodes)), size):
            if cycle[0] != min(cycle):
                continue
            steps = [cost.get((a, b), []) for a, b in zip(cycle, (*cycle[1:], cycle[0]))]
            if not all(steps):
                continue
            combos = [(0, 0)]
            for step in steps:
                combos = [(lat + e.latency, dist + e.distance) for lat, dist in combos for e in step]
            best = max(best, *(ceil(lat / dist) for lat, dist in combos if dist))
    return best


def test_the_specifications_loop_needs_fifteen_cycles() -> None:
    """A load that keeps tp_smem_wr for 8 cycles and a store that keeps it for 7 don't fit 8 cycles, in whatever stage."""
    assert resource_bound(four_op_body()) == (15, "tp_smem_wr")


def test_the_specifications_schedule_of_eight_cycles_is_refused() -> None:
    candidate = Schedule(four_op_body(), 8, (0, 8, 0, 8))       # the store at cycle 8, in stage 1
    table = Table(8)
    table.place(replace(four_op_body().nodes[0], uses=(("tp_smem_wr", 8),)), 0)
    assert table.first(four_op_body().nodes[1], 0) is None
    with pytest.raises(NoSchedule, match=r"smem_write at 8 needs a unit that is taken|too early"):
        check(replace(candidate, graph=Graph([replace(n, uses=n.uses[-1:]) for n in candidate.graph.nodes])))


@pytest.mark.parametrize("ops", [50, 100])
def test_rows_are_found_once_an_op_however_many_are_placed(ops: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that unpacks the weights of 128 products took 12.5 s to LLVM IR, most of it in comparing each op with all others."""
    schedule = modulo_schedule(graph_of([("stream", 1, 1)] * ops, []))
    found, find = [0], Table._run

    def counted(self: Table, start: int, cycles: int) -> int:
        found[0] += 1
        return find(self, start, cycles)
    monkeypatch.setattr(Table, "_run", counted)
    check(schedule)
    assert ops <= found[0] <= 2 * ops


class Counted(list[Edge]):
    """Edges that know how often they are gone through."""
    rounds = 0

    def __iter__(self) -> Iterator[Edge]:
        self.rounds += 1
        return super().__iter__()

    def __reversed__(self) -> Iterator[Edge]:
        self.rounds += 1
        return super().__reversed__()


def test_heights_of_a_chain_are_found_at_once_whatever_the_edges_order() -> None:
    """192 softmaxes that follow one another in a loop, sm_100: 20.2 s to LLVM IR, a sixth of it in going through edges again."""
    n = 50
    graph = graph_of([("stream", 1, 1)] * n, [(i, i + 1, 0) for i in range(n - 1)])
    graph.edges = Counted(reversed(graph.edges))
    assert heights(graph, 10) == list(range(n, 0, -1))
    assert graph.edges.rounds <= 3


def test_a_ring_that_takes_too_long_is_found_before_as_many_rounds_as_it_has_ops() -> None:
    n = 200
    for interval, wanted in ((n - 1, True), (n, False)):
        edges = Counted(Edge(i, (i + 1) % n, 1, int(i == n - 1)) for i in range(n))
        assert positive_cycle(range(n), edges, interval) is wanted
        assert edges.rounds <= 4


def test_conflicts_are_the_ops_in_the_way() -> None:
    nodes = graph_of([("stream", 3, 3), ("stream", 2, 2), ("tensor", 8, 8), ("stream", 3, 3)], []).nodes
    table = Table(8)
    for node, start in zip(nodes[:3], (0, 4, 0)):
        table.place(node, start)
    assert [sorted(table.conflicts(nodes[3], at)) for at in (3, 2, 1, 6)] == [[1], [0, 1], [0], [0]]
    table.remove(0)
    assert table.conflicts(nodes[3], 1) == [] and table.conflicts(nodes[3], 6) == []


def test_a_schedule_of_the_specifications_loop() -> None:
    found = modulo_schedule(four_op_body())
    check(found)
    assert (found.interval, found.bound) == (15, "tp_smem_wr")


def test_a_recurrence_bounds_the_interval() -> None:
    # 10 + 20 cycles round a loop that closes one iteration later; over two iterations, half
    chain = [("stream", 2, 10), ("tensor", 3, 20)]
    assert bounds(graph_of(chain, [(0, 1, 0), (1, 0, 1)])) == (30, "recurrence")
    assert bounds(graph_of(chain, [(0, 1, 0), (1, 0, 2)])) == (15, "recurrence")
    assert bounds(graph_of(chain, [(0, 1, 0)])) == (3, "tensor")


def test_ops_of_one_iteration_that_wait_for_each_other_have_no_schedule() -> None:
    graph = graph_of([("stream", 1, 1), ("stream", 1, 1)], [(0, 1, 0), (1, 0, 0)])
    for generator in (modulo_schedule, serial_schedule):
        with pytest.raises(NoSchedule, match="wait for each other"):
            generator(graph)


@pytest.mark.parametrize("seed", range(25))
def test_the_recurrence_bound_is_that_of_the_worst_cycle(seed: int) -> None:
    graph = random_graph(seed, 6)
    assert recurrence_bound(graph) == brute_force_recurrence(graph)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_schedule_found_is_legal_and_no_shorter_than_its_bounds(seed: int) -> None:
    graph = random_graph(seed)
    found = modulo_schedule(graph)
    check(found)
    assert found.interval >= max(resource_bound(graph)[0], recurrence_bound(graph))
    assert min(found.starts) >= 0
    assert sorted(found.orders()) == list(range(len(graph.nodes)))


@pytest.mark.parametrize("seed", SEEDS)
def test_starts_of_iterations_keep_all_edges_when_played_out(seed: int) -> None:
    """Five iterations laid out in time: no unit does two things at once, nothing starts before what it needs is there."""
    graph = random_graph(seed)
    found = modulo_schedule(graph)
    busy: set[tuple[str, int]] = set()
    for iteration in range(5):
        for node in graph.nodes:
            start = found.starts[node.index] + iteration * found.interval
            for unit, cycles in node.kept:
                rows = {(unit, start + c) for c in range(cycles)}
                assert not rows & busy
                busy |= rows
    for e in graph.edges:
        assert found.starts[e.target] + e.distance * found.interval >= found.starts[e.source] + e.latency


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_of_several_cycles_give_legal_schedules(seed: int) -> None:
    graph = random_graph(seed)
    found = modulo_schedule(graph, threshold=16)
    check(found)
    assert found.interval >= resource_bound(graph)[0]


@pytest.mark.parametrize("seed", range(10))
def test_placements_are_bounded(seed: int) -> None:
    graph = random_graph(seed, 20)
    assert modulo_schedule(graph).attempts <= MOST_INTERVALS * PLACEMENTS_AN_OP * len(graph.nodes)


def test_an_op_that_fits_at_no_interval_tried_is_given_up() -> None:
    graph = graph_of([("stream", 1, 10**6), ("stream", 1, 1)], [(0, 1, 0)])
    graph.nodes[1] = replace(graph.nodes[1], max_depth=0)
    with pytest.raises(NoSchedule, match=r"no schedule of an interval up to .* placements"):
        modulo_schedule(graph)


def test_the_same_loop_has_the_same_schedule() -> None:
    once, again = ([modulo_schedule(random_graph(seed)).starts for seed in range(20)] for _ in range(2))
    assert once == again


def test_a_product_hides_behind_the_arithmetic_of_the_iteration_before() -> None:
    """A load, a product on the tensor cores (400), arithmetic on its result (400), a second product (200): the chain of 1,000
    cycles and 800 of latency becomes an interval of 600, the arithmetic of one iteration beside the products of others."""
    graph = graph_of([("ingress", 100, 900), ("tensor", 400, 440), ("stream", 400, 420), ("tensor", 200, 240)],
                     [(0, 1, 0), (1, 2, 0), (2, 3, 0), (3, 3, 1)])
    found = modulo_schedule(graph)
    check(found)
    assert (found.interval, found.bound) == (600, "tensor")
    assert found.stage(2) > found.stage(1) or found.starts[2] % 600 + 400 > 400
    assert found.depth(0, (1,)) == 2 + (found.starts[1] - found.starts[0] + 399) // 600 - 1


@pytest.mark.parametrize("seed", SEEDS)
def test_the_serial_order_keeps_what_an_iteration_needs(seed: int) -> None:
    graph = random_graph(seed)
    found = serial_schedule(graph)
    check(found)
    orders = found.orders()
    assert {found.stage(i) for i in range(len(graph.nodes))} == {0}
    assert all(orders[e.source] < orders[e.target] for e in graph.edges if e.distance == 0)


@pytest.mark.parametrize("seed", SEEDS)
def test_loads_ahead_leave_the_rest_in_order_and_in_one_stage(seed: int) -> None:
    """Or there is none, since a load needs what comes behind it."""
    graph = random_graph(seed)
    graph.nodes = [replace(n, uses=tuple((u if u == "ingress" else "stream", c) for u, c in n.uses)) for n in graph.nodes]
    graph.in_flight = {n.index for n in graph.nodes if n.uses and n.uses[0][0] == "ingress"}
    try:
        found = ahead_schedule(graph)
    except NoSchedule:
        return
    check(found)
    later = {i for i in range(len(graph.nodes)) if found.stage(i)}
    assert len({found.stage(i) for i in later}) <= 1
    assert not later & graph.in_flight or not graph.in_flight


def test_a_load_is_ahead_by_its_latency() -> None:
    """900 cycles until it is there, 700 an iteration (400, and 20 more until 300 may start): two iterations ahead."""
    graph = graph_of([("ingress", 100, 900), ("stream", 400, 420), ("stream", 300, 300)], [(0, 1, 0), (1, 2, 0)])
    graph.in_flight = {0}
    found = ahead_schedule(graph)
    assert (found.interval, found.starts) == (720, (0, 1440, 1860))
    assert [found.stage(i) for i in range(3)] == [0, 2, 2]
    assert found.depth(0, (1,)) == 3


def test_without_edges_the_serial_order_is_the_programs() -> None:
    assert serial_schedule(graph_of([("stream", 1, 1)] * 5, [])).orders() == (0, 1, 2, 3, 4)


BAD = [
    (lambda s: replace(s, starts=(*s.starts[:3], s.starts[0])), "too early"),
    (lambda s: replace(s, starts=(s.starts[0], s.starts[3], *s.starts[2:])), "unit that is taken|too early"),
    (lambda s: replace(s, starts=s.starts[:3]), "start"),
    (lambda s: replace(s, order=(0, 0, 1, 2)), "same place"),
    (lambda s: replace(s, interval=0), "start"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_an_illegal_schedule_is_refused(number: int) -> None:
    graph = graph_of([("ingress", 100, 900), ("tensor", 400, 440), ("stream", 400, 420), ("tensor", 200, 240)],
                     [(0, 1, 0), (1, 2, 0), (2, 3, 0), (3, 3, 1)])
    change, message = BAD[number]
    with pytest.raises(NoSchedule, match=message):
        check(change(modulo_schedule(graph)))
