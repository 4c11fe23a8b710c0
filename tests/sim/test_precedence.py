"""Which block goes first: behind those that lead to it, wherever the text has it."""
from __future__ import annotations

import random

import pytest

from tileiras.sim.run.precedence import ranks


def order(*successors: tuple[int, ...]) -> list[int]:
    """Blocks by rank."""
    rank = ranks(successors)
    assert sorted(rank) == list(range(len(successors)))
    return sorted(range(len(successors)), key=rank.__getitem__)


@pytest.mark.parametrize(("successors", "expected"), [
    (((),), [0]),
    (((1, 2), (3,), (3,), ()), [0, 1, 2, 3]),                                   # both sides of a branch before what follows
    (((1, 3), (2,), (), (1,)), [0, 3, 1, 2]),                                   # one lane's block behind the end
    (((1,), (2, 4), (1, 3), (), (2,)), [0, 1, 4, 2, 3]),                        # the same of a loop, behind what follows the loop
    (((2,), (2,), (3, 1), ()), [0, 2, 1, 3]),                                   # a loop entered in its middle
    (((1,), (2,), (3, 1), (4, 1), ()), [0, 1, 2, 3, 4]),
    (((3,), (4,), (1, 2), (2,), ()), [0, 3, 2, 1, 4]),                          # what follows a loop stands before it
    (((1,), (), (1,)), [0, 1, 2]),                                              # nothing leads to the last
    (((1, 2), (2, 3), (1, 3), ()), [0, 1, 2, 3]),                               # a loop with two entries
], ids=str)
def test_the_order_of_a_graph(successors, expected):
    assert order(*successors) == expected


def test_without_loops_every_way_leads_forward():
    draw = random.Random(7)
    for _ in range(300):
        blocks = draw.randint(2, 12)
        names = [0, *draw.sample(range(1, blocks), blocks - 1)]                 # the text's order isn't the graph's
        successors: list[tuple[int, ...]] = [()] * blocks
        for k, name in enumerate(names):
            forward = [names[draw.randrange(k + 1, blocks)] for _ in range(2)] if k + 1 < blocks else []
            successors[name] = tuple(forward)
        rank = ranks(successors)
        reached = {0}
        for name in names:
            if name in reached:
                reached.update(successors[name])
        assert all(rank[b] < rank[to] for b in reached for to in successors[b])
        assert max(rank[b] for b in reached) == len(reached) - 1


def test_a_loop_stands_together():
    """Nothing that isn't of the loop has a rank between its blocks'."""
    assert order((1, 5), (2,), (3, 4), (1,), (6,), (6,), ()) == [0, 1, 2, 3, 4, 5, 6]
    assert order((4, 5), (6,), (1,), (4,), (2, 3), (1,), ()) == [0, 4, 3, 2, 5, 1, 6]
