"""Orders of steps beside a tensor core: an example by hand, all orders of small random bodies, and that needs are kept."""
from __future__ import annotations

import random
from itertools import permutations

import pytest

from tileiras.schedule.in_order import Need, Step, best_order, simulated

SEEDS = range(40)
MEAN_EXCESS = 0.01


def takes(steps: list[Step], order: list[int] | tuple[int, ...], iterations: int = 12) -> int:
    """Cycles of a late iteration, told by a queue of events rather than by `simulated`."""
    time, core, ends, done = 0, 0, [0], dict[tuple[int, int], int]()
    for n in range(iterations):
        for i in order:
            ready = [done[n - need.distance, need.step] for need in steps[i].needs if need.waits and n >= need.distance]
            time = max([time, *ready]) + steps[i].cost
            core = max(core, time) + steps[i].tensor if steps[i].tensor else core
            done[n, i] = core + steps[i].latency if steps[i].tensor else time
        ends.append(time)
    return ends[-1] - ends[-2]


def legal(steps: list[Step], order: tuple[int, ...]) -> bool:
    place = {i: n for n, i in enumerate(order)}
    return all(place[need.step] < place[i] for i, step in enumerate(steps) for need in step.needs if not need.distance)


def body(seed: int, count: int) -> list[Step]:
    dice = random.Random(seed)
    steps = []
    for i in range(count):
        needs = {(dice.randrange(i), 0) for _ in range(dice.randint(0, 2)) if i}
        needs |= {(dice.randrange(count), 1)} if dice.random() < .3 else set()
        product = dice.random() < .4
        steps.append(Step(dice.randint(1, 90), tuple(Need(s, d, dice.random() < .9) for s, d in sorted(needs)),
                          dice.randint(50, 300) if product else 0, 150 if product else 0))
    return steps


def test_what_waits_for_nothing_goes_where_threads_would_wait() -> None:
    """A product, 100 + 50 cycles; who needs it; 120 cycles of something else, which fit in front of that."""
    steps = [Step(10, (), 100, 50), Step(20, (Need(0),)), Step(120)]
    assert takes(steps, (0, 1, 2)) == 10 + 150 + 20 + 120
    found = best_order(steps)
    assert found.order == (0, 2, 1)
    assert found.interval == 10 + 150 + 20


def test_a_carried_result_is_waited_for_as_late_as_may_be() -> None:
    """The state of one iteration is the next one's first operand, and what is stored follows from another product."""
    steps = [Step(40, (Need(4, 1),)), Step(10, (Need(0),), 200, 100), Step(300), Step(60), Step(10, (Need(1), Need(3)), 200, 100)]
    found = best_order(steps)
    chain = 40 + 10 + 300 + 10 + 300
    assert found.interval == takes(steps, found.order) == chain < takes(steps, (0, 1, 2, 3, 4))


def test_orders_are_legal_and_near_the_best() -> None:
    """Of all orders of six steps; a third more at most, and one in a hundred on the whole."""
    excess = 0.0
    for seed in SEEDS:
        steps = body(seed, 6)
        found = best_order(steps)
        assert sorted(found.order) == list(range(6)) and legal(steps, found.order)
        least = min(simulated(steps, order).interval for order in permutations(range(6)) if legal(steps, order))
        assert least <= found.interval <= 4 / 3 * least
        assert found.interval <= simulated(steps, range(6)).interval
        excess += found.interval / least - 1
    assert excess < MEAN_EXCESS * len(SEEDS)


@pytest.mark.parametrize("seed", SEEDS)
def test_simulations_count_what_threads_and_the_tensor_core_do(seed: int) -> None:
    steps = body(seed, 9)
    assert simulated(steps, range(9)).interval == pytest.approx(takes(steps, tuple(range(9)), 4))


def test_large_bodies_are_searched_in_bounds() -> None:
    steps = body(1, 160)
    found = best_order(steps)
    assert legal(steps, found.order) and found.interval <= simulated(steps, range(160)).interval
