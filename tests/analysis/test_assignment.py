"""The cheapest assignment is that of trying all of them, on trees and on small graphs; never dearer than the start."""
from __future__ import annotations

import random
import time
from itertools import product

import pytest

from tileiras.analysis import assignment
from tileiras.analysis.assignment import Problem


def random_problem(rng: random.Random, variables: int, edges: int) -> Problem:
    problem = Problem([rng.randint(1, 4) for _ in range(variables)])
    for v, n in enumerate(problem.sizes):
        problem.alone(v, [rng.randint(0, 20) for _ in range(n)])
    for _ in range(edges):
        a, b = rng.randrange(variables), rng.randrange(variables)
        problem.together(a, b, [[rng.randint(0, 20) for _ in range(problem.sizes[b])] for _ in range(problem.sizes[a])])
    return problem


@pytest.mark.parametrize("seed", range(60))
def test_nothing_is_cheaper(seed: int) -> None:
    rng = random.Random(seed)
    problem = random_problem(rng, rng.randint(1, 6), rng.randint(0, 9))
    best = min(problem.cost(choice) for choice in product(*(range(n) for n in problem.sizes)))
    assert problem.cost(problem.solve([0] * len(problem.sizes))) == best


@pytest.mark.parametrize("seed", range(20))
def test_a_bound_on_tables_costs_exactness_only(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assignment, "MAX_TABLE", 8)
    rng = random.Random(seed)
    problem = random_problem(rng, 12, 30)
    start = [rng.randrange(n) for n in problem.sizes]
    found = problem.solve(start)
    assert all(0 <= i < n for i, n in zip(found, problem.sizes))
    assert problem.cost(found) <= problem.cost(start)


def test_costs_given_twice_add_up() -> None:
    problem = Problem([2, 2])
    for _ in range(2):
        problem.alone(0, [1, 0])
        problem.together(1, 0, [[0, 5], [0, 0]])        # variable 1's candidate 0 beside variable 0's candidate 1
    assert problem.cost([0, 0]) == 2 and problem.cost([1, 0]) == 10 and problem.cost([1, 1]) == 0
    assert problem.solve([0, 0]) == [1, 1]


SECONDS = 6.0
"""Of processor time: a search through all variables for each took minutes."""


def test_long_chains_and_wide_stars_take_time_by_their_size() -> None:
    many = 20_000
    problem = Problem([2] * many)
    for v in range(1, many):
        problem.alone(v, [1, 0])
        problem.together(v - 1, v, [[0, 3], [3, 0]])      # neighbours like to be the same
        problem.together(0, v, [[0, 1], [0, 0]])          # and all cost less beside a 1 in the middle
    start = time.process_time()
    assert problem.solve([0] * many) == [1] * many
    assert time.process_time() - start < SECONDS
