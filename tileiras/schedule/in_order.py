"""An order for steps of which some run by themselves: threads that execute in order, beside a tensor core that has their products.

A step keeps the threads for `cost` cycles; a product then runs on the tensor core, one behind the other, and `latency` behind its
end its result is there. Threads that need what isn't there yet wait, and whatever stands behind them does, too. Orders are judged
by simulation of some iterations. The search begins with the given order and those of a list scheduler, and lets steps from behind
move in front of those that wait, as long as that helps.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

ITERATIONS = 4
"""That a simulation runs; the last one counts."""
AHEAD = 3
"""Iterations that a way's length is looked at over: one through values that a loop carries outgrows others."""
ROUNDS = 2
"""Of listing with what the simulation of the order before tells about carried values."""
LONG_WAIT = 40
"""Cycles of a wait in front of which other steps are tried."""
MOST_TRIED = 400
"""Simulations of a search."""


@dataclass(frozen=True)
class Need:
    """Of a step, as many iterations before. `waits`: until its result is there; else it only stands in front."""

    step: int
    distance: int = 0
    waits: bool = True


@dataclass(frozen=True)
class Step:
    """`cost`: cycles of the threads. `tensor`: cycles of the tensor core for a product, 0 for others; `latency`: from its end to
    threads that have its result. Needs within an iteration are of steps in front of it in the given order."""

    cost: int
    needs: tuple[Need, ...] = ()
    tensor: int = 0
    latency: int = 0

    @property
    def length(self) -> int:
        """From its start until its result is there, where nothing else runs."""
        return self.cost + self.tensor + self.latency


@dataclass(frozen=True)
class Found:
    """`interval`: cycles of an iteration in the steady state. `waits`: of the last iteration, which steps wait how long. `there`:
    when the last but one's results are there, from the begin of the last one on."""

    order: tuple[int, ...]
    interval: int
    waits: dict[int, int]
    there: dict[int, int]


def simulated(steps: Sequence[Step], order: Sequence[int]) -> Found:
    """What iterations in an order take."""
    now = engine = begin = interval = 0
    there: list[dict[int, int]] = []
    waits: dict[int, int] = {}
    for iteration in range(ITERATIONS):
        waits = {}
        mine: dict[int, int] = {}
        there.append(mine)
        for i in order:
            step = steps[i]
            at = now
            for need in step.needs:
                if need.waits and iteration >= need.distance:
                    ready = there[iteration - need.distance][need.step]
                    if ready > at:
                        at = ready
            if at > now:
                waits[i] = at - now
            now = at + step.cost
            if step.tensor:
                engine = max(engine, now) + step.tensor
                mine[i] = engine + step.latency
            else:
                mine[i] = now
        begin, interval = now, now - begin
    return Found(tuple(order), interval, waits, {i: at - (now - interval) for i, at in there[-2].items()})


def best_order(steps: Sequence[Step]) -> Found:
    """The best order found; the given one where none is better."""
    tried = 0

    def judged(order: Sequence[int]) -> Found:
        nonlocal tried
        tried += 1
        return simulated(steps, order)
    heights = _heights(steps)
    best = judged(range(len(steps)))
    begun = lambda i: (not steps[i].tensor or steps[i].cost > LONG_WAIT, -heights[i])      # noqa: E731
    for first in (lambda i: -heights[i], begun, lambda i: i):
        carried: dict[int, int] = {}
        for _ in range(ROUNDS):
            one = judged(_listed(steps, first, carried))
            carried = one.there
            best = min(best, one, key=lambda found: found.interval)
    while (better := _improved(steps, best, judged, lambda: tried < MOST_TRIED)) is not None:
        best = better
    return best


def _improved(steps: Sequence[Step], found: Found, judged: Callable[[Sequence[int]], Found],
              goes_on: Callable[[], bool]) -> Found | None:
    """The best order with one step, and what it needs, in front of one that waits."""
    best: Found | None = None
    for i, cycles in sorted(found.waits.items(), key=lambda item: -item[1]):
        if cycles < LONG_WAIT:
            break
        at = found.order.index(i)
        for q in found.order[at + 1:]:
            if not goes_on():
                return best
            moved = _in_front(steps, found.order, at, q)
            if moved is None:
                continue
            one = judged(moved)
            if one.interval < (best or found).interval:
                best = one
    return best


def _in_front(steps: Sequence[Step], order: Sequence[int], at: int, step: int) -> list[int] | None:
    """The order with a step, behind what it needs, moved to a place; None where it needs the step that stands there."""
    place = {i: n for n, i in enumerate(order)}
    moved, pending = set[int](), [step]
    while pending:
        one = pending.pop()
        if one in moved or place[one] < at:
            continue
        if place[one] == at:
            return None
        moved.add(one)
        pending += [need.step for need in steps[one].needs if not need.distance]
    return [*order[:at], *(i for i in order[at:] if i in moved), *(i for i in order[at:] if i not in moved)]


def _heights(steps: Sequence[Step]) -> list[int]:
    """The longest way from each step's start on, through this and some more iterations."""
    users: list[list[tuple[int, Need]]] = [[] for _ in steps]
    for i, step in enumerate(steps):
        for need in step.needs:
            users[need.step].append((i, need))
    following = [0] * len(steps)
    for _ in range(AHEAD):
        mine = [0] * len(steps)
        for i in reversed(range(len(steps))):
            step = steps[i]
            mine[i] = step.length
            for user, need in users[i]:
                behind = following[user] if need.distance else mine[user]
                mine[i] = max(mine[i], behind + (step.length if need.waits else step.cost))
        following = mine
    return following


def _listed(steps: Sequence[Step], first: Callable[[int], object], carried: dict[int, int]) -> list[int]:
    """One iteration, `carried` telling when results of the one before are there. Of the steps that needn't wait the `first` one is
    next; else the one that waits least."""
    there: dict[int, int] = {}
    left = list(range(len(steps)))
    order: list[int] = []
    now = engine = 0
    while left:
        choices = []
        for i in left:
            if all(need.distance or need.step in there for need in steps[i].needs):
                ready = [carried.get(need.step, 0) if need.distance else there[need.step] for need in steps[i].needs if need.waits]
                choices.append((max([now, *ready]), first(i), i))
        at, _, i = min(choices)     # type: ignore[type-var]
        left.remove(i)
        order.append(i)
        now = at + steps[i].cost
        if steps[i].tensor:
            engine = max(engine, now) + steps[i].tensor
            there[i] = engine + steps[i].latency
        else:
            there[i] = now
    return order
