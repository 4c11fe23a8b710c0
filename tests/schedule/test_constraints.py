"""What attributes ask of a schedule: groups, depths, the program's order; and refinement under shared memory."""
from __future__ import annotations

from dataclasses import replace

import pytest
from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i32
from xdsl.ir import Operation

from tests.schedule.graphs import graph_of, random_graph
from tileiras.dialects import nv_tileas
from tileiras.errors import UsageError
from tileiras.schedule.constraints import FORCE_SERIAL, GID, LEADER, MAX_DEPTH, constraints_of
from tileiras.schedule.graph import Graph
from tileiras.schedule.modulo import modulo_schedule
from tileiras.schedule.options import ScheduleOptions, parse_options
from tileiras.schedule.refine import Room, choose, refine
from tileiras.schedule.schedule import NoSchedule, check

PIPELINE = graph_of([("ingress", 100, 900), ("tensor", 400, 440), ("stream", 400, 420), ("tensor", 200, 240)],
                    [(0, 1, 0), (1, 2, 0), (2, 3, 0), (3, 3, 1)])
"""Load, product, arithmetic, product: six hundred cycles of tensor cores, three stages and more."""


def op(**attributes: int | None) -> Operation:
    names = {"gid": GID, "leader": LEADER, "depth": MAX_DEPTH, "serial": FORCE_SERIAL}
    made = nv_tileas.Barrier.make()
    for name, value in attributes.items():
        made.attributes[names[name]] = UnitAttr() if value is None else IntegerAttr(value, i32)
    return made


def test_ops_without_attributes_ask_for_nothing() -> None:
    assert not constraints_of([op(), op()])


def test_a_group_that_names_no_leader_leads_itself() -> None:
    """Group 7 isn't joined with group 0 because it says nothing of a leader."""
    groups = constraints_of([op(gid=0), op(gid=7), op(gid=7), op()]).group
    assert groups[1] == groups[2] != groups[0]
    assert 3 not in groups


def test_leaders_join_groups_in_either_direction() -> None:
    groups = constraints_of([op(gid=3, leader=7), op(gid=7, leader=3), op(gid=7), op(gid=9, leader=3), op(gid=1)]).group
    assert len({groups[i] for i in range(4)}) == 1
    assert groups[4] != groups[0]


def test_an_inherent_attribute_counts_before_a_discardable_one() -> None:
    both = op(depth=5)
    both.properties[MAX_DEPTH] = IntegerAttr(2, i32)
    assert constraints_of([both]).max_depth == {0: 2}


def test_a_depth_of_zero_is_not_a_missing_one() -> None:
    found = constraints_of([op(depth=0), op(serial=None)])
    assert (found.max_depth, found.serial) == ({0: 0}, True)


def with_nodes(graph: Graph, **changes: dict[int, int]) -> Graph:
    nodes = [replace(n, **{name: by[n.index] for name, by in changes.items() if n.index in by}) for n in graph.nodes]
    return Graph(nodes, list(graph.edges))


def test_ops_of_one_group_share_a_stage() -> None:
    free = modulo_schedule(PIPELINE)
    assert free.stage(1) != free.stage(3)
    tied = modulo_schedule(with_nodes(PIPELINE, group={1: 0, 3: 0}))
    check(tied)
    assert tied.stage(1) == tied.stage(3)


def test_a_largest_depth_lengthens_the_interval_until_it_holds() -> None:
    free = modulo_schedule(PIPELINE)
    capped = modulo_schedule(with_nodes(PIPELINE, max_depth={3: 1}))
    check(capped)
    assert free.stage(3) > 1 >= capped.stage(3)
    assert capped.interval > free.interval


@pytest.mark.parametrize("seed", range(30))
def test_random_groups_and_depths_give_legal_schedules_or_none(seed: int) -> None:
    graph = with_nodes(random_graph(seed), group={2: 1, 5: 1, 7: 2, 8: 2}, max_depth={9: 1, 4: 0})
    try:
        found = modulo_schedule(graph)
    except NoSchedule:
        return
    check(found)
    assert found.stage(2) == found.stage(5)
    assert found.stage(4) == 0


def test_who_asks_for_the_programs_order_gets_it() -> None:
    graph = with_nodes(PIPELINE)
    graph.serial = True
    assert choose(graph, Room(1 << 20, 255), {}, True).why == "forced"
    assert choose(PIPELINE, Room(1 << 20, 255), {}, False).why == "nothing is asynchronous"
    assert choose(PIPELINE, Room(1 << 20, 255), {}, True).schedule.generator == "modulo"
    assert choose(PIPELINE, Room(1 << 20, 255), {}, True, iterations=0).schedule.is_serial


RING = nv_tileas.Barrier.make()          # stands for a buffer: the scheduler asks nothing of it


def ringed() -> Graph:
    graph = with_nodes(PIPELINE)
    graph.rings = {RING: (0, (1,))}      # type: ignore[dict-item]
    return graph


@pytest.mark.parametrize("stages", [1, 2, 3, 8])
def test_refinement_keeps_a_ring_within_shared_memory(stages: int) -> None:
    free = refine(ringed(), Room(1 << 20, 255), {RING: 1000})        # type: ignore[dict-item]
    wanted = free.depths[RING]                                       # type: ignore[index]
    capped = refine(ringed(), Room(1000 * stages, 255), {RING: 1000})        # type: ignore[dict-item]
    check(capped.schedule)
    assert wanted == 3                       # (900 until it is there + 400 being read) / 600
    assert capped.depths[RING] == min(stages, wanted)                # type: ignore[index]
    assert capped.schedule.interval >= free.schedule.interval


def test_a_ring_that_doesnt_fit_at_all_keeps_the_programs_order() -> None:
    found = refine(ringed(), Room(999, 255), {RING: 1000})           # type: ignore[dict-item]
    assert found.schedule.is_serial
    assert "shared memory" in found.why


def test_rounds_of_refinement_are_bounded() -> None:
    found = refine(ringed(), Room(1000, 255), {RING: 1000}, iterations=1)    # type: ignore[dict-item]
    assert found.schedule.is_serial
    assert found.why == "1 rounds of refinement didn't suffice"


def test_options_are_read_from_text() -> None:
    found, off = parse_options({"num-stages": "3", "max-constraint-iterations": "0", "rrt-size-threshold": "128",
                                "enable-random-delay": "7", "pipeline-strategy": "unspecialize"})
    assert found == ScheduleOptions(3, 0, 128, "", 7)
    assert off == {"agents"}
    assert parse_options({"pipeline-strategy": "none"})[1] == {"pipelines", "agents"}
    assert parse_options({"enable-random-delay": "true"})[0].seed == 0


@pytest.mark.parametrize("given", [{"num-stages": "x"}, {"num-stages": "-1"}, {"num-stages": "65"}, {"num-stages": "9" * 5000},
                                   {"pipeline-strategy": "fast"}, {"rrt-size-threshold": "1e9"}, {"enable-random-delay": "yes"},
                                   {"max-constraint-iterations": "²"}])
def test_malformed_options_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        parse_options(given)
