"""Orders of steps beside a tensor core, and beside copies to one place each: examples by hand, all orders of small random bodies,
and that needs are kept."""
from __future__ import annotations

import random
from itertools import permutations

import pytest

from tileiras.schedule.in_order import Copy, Need, Step, best_order, simulated

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


def takes_with_copies(steps: list[Step], copies: list[Copy], order: tuple[int, ...], iterations: int) -> int:
    """The same where threads do all, told by times of the copies: each begins when the one before it in their order is made and
    all have read its tile of the iteration before."""
    turns: list[list[int]] = []     # copies that begin together, in the order in which they are read
    for i in order:
        fresh = [c for c in steps[i].reads if not any(c in turn for turn in turns)]
        turns += [fresh] if fresh else []
    ends, made = [0], dict[tuple[int, int], int]()
    left, engine, time = dict[int, int](), 0, 0
    for n in range(iterations):
        for turn in turns:
            engine = max([engine, *(left.get(c, 0) for c in turn)])
            for c in turn:
                engine += copies[c].cycles
                made[n, c] = engine + copies[c].latency
        for i in order:
            time = max([time, *(made[n, c] for c in steps[i].reads)]) + steps[i].cost
            left |= dict.fromkeys(steps[i].reads, time)
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


def test_who_reads_a_tile_last_goes_in_front_of_what_reads_none() -> None:
    """The next iteration's tile is there 400 cycles after the second reader: those are waited for, or filled by the other 500."""
    steps, copies = [Step(100, reads=(0,)), Step(500), Step(50, (Need(0),), reads=(0,))], [Copy(300, 100)]
    assert simulated(steps, (0, 1, 2), copies).interval == 650 + 400
    assert best_order(steps, copies).interval == simulated(steps, (0, 2, 1), copies).interval == 650


@pytest.mark.parametrize("seed", SEEDS)
def test_simulations_count_copies(seed: int) -> None:
    dice = random.Random(seed)
    copies = [Copy(dice.randint(50, 400), dice.randint(0, 200)) for _ in range(3)]
    steps = [Step(dice.randint(10, 300), reads=tuple(c for c in range(3) if dice.random() < .4)) for _ in range(7)]
    order = tuple(dice.sample(range(7), 7))
    assert simulated(steps, order, copies).interval == takes_with_copies(steps, copies, order, 4)
    assert best_order(steps, copies).interval <= simulated(steps, range(7), copies).interval


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
