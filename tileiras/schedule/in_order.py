"""An order for steps of which some run by themselves: threads that execute in order, beside a tensor core that has their products.

A step keeps the threads for `cost` cycles; a product then runs on the tensor core, one behind the other, and `latency` behind its
end its result is there. Threads that need what isn't there yet wait, and whatever stands behind them does, too. Where shared memory
has one place for each tile that is copied there, the copy for an iteration begins when all who read the one before are done. Orders
are judged by simulation of some iterations. The search begins with the given order and those of a list scheduler, and lets steps
from behind move in front of those that wait, and who reads a tile last in front of others, as long as that helps.
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
class Copy:
    """Of a tile to its one place. `cycles`: that it keeps others waiting; `latency`: until it is there, behind these."""

    cycles: int
    latency: int = 0


@dataclass(frozen=True)
class Step:
    """`cost`: cycles of the threads. `tensor`: cycles of the tensor core for a product, 0 for others; `latency`: from its end to
    threads that have its result. Needs within an iteration are of steps in front of it in the given order. `reads`: copies."""

    cost: int
    needs: tuple[Need, ...] = ()
    tensor: int = 0
    latency: int = 0
    reads: tuple[int, ...] = ()

    @property
    def length(self) -> int:
        """From its start until its result is there, where nothing else runs."""
        return self.cost + self.tensor + self.latency


@dataclass(frozen=True)
class Found:
    """`interval`: cycles of an iteration in the steady state. `waits`: of the last iteration, which steps wait how long. `there`:
    when the last but one's results are there, from the begin of the last one on; `copied`: when its copies are."""

    order: tuple[int, ...]
    interval: int
    waits: dict[int, int]
    there: dict[int, int]
    copied: dict[int, int]


class _Copies:
    """The copies of some iterations: those that one step is the first to read go together, in the order in which they are read."""

    def __init__(self, steps: Sequence[Step], copies: Sequence[Copy], order: Sequence[int]) -> None:
        self.copies = copies
        self.first: dict[int, list[int]] = {}       # a step -> what it is the first to read
        self.last: dict[int, list[int]] = {}        # a step -> what it is the last to read
        seen = set[int]()
        for read, found in ((order, self.first), (order[::-1], self.last)):
            seen.clear()
            for i in read:
                for c in steps[i].reads:
                    if c not in seen:
                        seen.add(c)
                        found.setdefault(i, []).append(c)
        self.engine = 0
        self.free = dict.fromkeys(range(len(copies)), 0)
        self.there = dict.fromkeys(range(len(copies)), 0)

    def wanted(self, step: int) -> None:
        """A step is about to be the first that reads some copies: when they are there follows from who read the ones before."""
        together = self.first.get(step, ())
        self.engine = max([self.engine, *(self.free[c] for c in together)])
        for c in together:
            self.engine += self.copies[c].cycles
            self.there[c] = self.engine + self.copies[c].latency

    def read(self, step: int, done: int) -> None:
        """A step has read what it reads."""
        for c in self.last.get(step, ()):
            self.free[c] = done


def simulated(steps: Sequence[Step], order: Sequence[int], copies: Sequence[Copy] = ()) -> Found:
    """What iterations in an order take."""
    now = engine = begin = interval = 0
    there: list[dict[int, int]] = []
    waits: dict[int, int] = {}
    copied = _Copies(steps, copies, order)
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
            if step.reads:
                copied.wanted(i)
                at = max([at, *(copied.there[c] for c in step.reads)])
            if at > now:
                waits[i] = at - now
            now = at + step.cost
            if step.tensor:
                engine = max(engine, now) + step.tensor
                mine[i] = engine + step.latency
            else:
                mine[i] = now
            if step.reads:
                copied.read(i, mine[i])
        begin, interval = now, now - begin
    before = now - interval
    return Found(tuple(order), interval, waits, {i: at - before for i, at in there[-2].items()},
                 {c: at - before for c, at in copied.there.items()})


def best_order(steps: Sequence[Step], copies: Sequence[Copy] = ()) -> Found:
    """The best order found; the given one where none is better."""
    tried = 0

    def judged(order: Sequence[int]) -> Found:
        nonlocal tried
        tried += 1
        return simulated(steps, order, copies)
    heights = _heights(steps)
    best = judged(range(len(steps)))
    begun = lambda i: (not steps[i].tensor or steps[i].cost > LONG_WAIT, -heights[i])      # noqa: E731
    read = lambda i: (not steps[i].reads, -heights[i])      # noqa: E731
    for first in (lambda i: -heights[i], begun, lambda i: i, *([read] if copies else [])):
        carried: dict[int, int] = {}
        copied = dict.fromkeys(range(len(copies)), 0)
        for _ in range(ROUNDS):
            one = judged(_listed(steps, first, carried, copied))
            carried, copied = one.there, one.copied
            best = min(best, one, key=lambda found: found.interval)
    while (better := _improved(steps, best, judged, lambda: tried < MOST_TRIED)) is not None:
        best = better
    return best


def _improved(steps: Sequence[Step], found: Found, judged: Callable[[Sequence[int]], Found],
              goes_on: Callable[[], bool]) -> Found | None:
    """The best order with one step, and what it needs, in front of one that waits; or, where that waits for a copy, with who reads
    it last, and what that needs, in front of another."""
    best: Found | None = None
    for i, cycles in sorted(found.waits.items(), key=lambda item: -item[1]):
        if cycles < LONG_WAIT:
            break
        at = found.order.index(i)
        moves = [(at, q) for q in found.order[at + 1:]]
        for c in steps[i].reads:
            readers = [n for n, q in enumerate(found.order) if c in steps[q].reads]
            moves += [(n, found.order[readers[-1]]) for n in range(readers[-1])]
        for n, q in moves:
            if not goes_on():
                return best
            moved = _in_front(steps, found.order, n, q)
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


def _listed(steps: Sequence[Step], first: Callable[[int], object], carried: dict[int, int], copied: dict[int, int]) -> list[int]:
    """One iteration, `carried` telling when results of the one before are there, `copied` when tiles are. Of the steps that needn't
    wait the `first` one is next; else the one that waits least."""
    there: dict[int, int] = {}
    left = list(range(len(steps)))
    order: list[int] = []
    now = engine = 0
    while left:
        choices = []
        for i in left:
            if all(need.distance or need.step in there for need in steps[i].needs):
                ready = [carried.get(need.step, 0) if need.distance else there[need.step] for need in steps[i].needs if need.waits]
                ready += [copied[c] for c in steps[i].reads]
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
