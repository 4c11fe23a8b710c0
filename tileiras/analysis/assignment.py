"""The cheapest choice of one candidate for each of some variables, when costs are of one variable or of two.

    problem = Problem([3, 2])                   two variables, with 3 and 2 candidates
    problem.alone(0, [5.0, 1.0, 2.0])           what each candidate of variable 0 costs
    problem.together(0, 1, table)               table[i][j]: what candidate i of 0 beside j of 1 costs
    problem.solve(start=[0, 0])                 [1, 0]: for each variable the number of its candidate

Variables are eliminated one after another, each with the fewest neighbours: of what its neighbours may be, a table keeps
the variable's best. That is exact on trees and wherever tables stay small; a variable whose table would have more than
`MAX_TABLE` entries keeps the candidate of `start`, the bound that the answer never exceeds.
"""
from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from itertools import product

MAX_TABLE = 4096
"""Entries of a table, at most."""


class Problem:
    """Costs by variable and by pair of variables; added up where several are given."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = list(sizes)
        self.unary: list[list[float]] = [[0.0] * n for n in sizes]
        self.pairs: dict[tuple[int, int], list[list[float]]] = {}

    def alone(self, variable: int, costs: Sequence[float]) -> None:
        own = self.unary[variable]
        for i, cost in enumerate(costs):
            own[i] += cost

    def together(self, a: int, b: int, table: Sequence[Sequence[float]]) -> None:
        """Costs of candidate i of `a` beside candidate j of `b`."""
        if a == b:
            self.alone(a, [table[i][i] for i in range(self.sizes[a])])
            return
        if a > b:
            a, b, table = b, a, list(zip(*table))
        own = self.pairs.setdefault((a, b), [[0.0] * self.sizes[b] for _ in range(self.sizes[a])])
        for mine, given in zip(own, table):
            for j, cost in enumerate(given):
                mine[j] += cost

    def cost(self, choice: Sequence[int]) -> float:
        """What a choice costs."""
        return (sum(costs[i] for costs, i in zip(self.unary, choice))
                + sum(table[choice[a]][choice[b]] for (a, b), table in self.pairs.items()))

    def solve(self, start: Sequence[int]) -> list[int]:
        """The cheapest choice, or one that is no dearer than `start` where it isn't exact."""
        found = _Elimination(self, start).run()
        return found if self.cost(found) <= self.cost(start) else list(start)


_Factor = tuple[tuple[int, ...], dict[tuple[int, ...], float]]
"""Variables, and what their candidates cost together."""


class _Elimination:
    """`factors`: of each variable, in the order in which they came, by their identity. `waiting`: variables by how many
    neighbours they had at some time, as a heap; what it says of one is true if that is still its number."""

    def __init__(self, problem: Problem, start: Sequence[int]) -> None:
        self.problem, self.start = problem, start
        self.factors: dict[int, dict[int, _Factor]] = {v: {} for v in range(len(problem.sizes))}
        self.neighbours: list[set[int]] = [set() for _ in problem.sizes]
        self.waiting: list[tuple[int, int]] = []
        for v, costs in enumerate(problem.unary):
            self._add(((v,), {(i,): cost for i, cost in enumerate(costs)}))
        for (a, b), table in problem.pairs.items():
            self._add(((a, b), {(i, j): table[i][j] for i in range(problem.sizes[a]) for j in range(problem.sizes[b])}))
            self.neighbours[a].add(b)
            self.neighbours[b].add(a)

    def _add(self, factor: _Factor) -> None:
        for v in factor[0]:
            self.factors[v][id(factor)] = factor

    def run(self) -> list[int]:
        """Eliminate all, then read the choices backwards."""
        sizes = self.problem.sizes
        order: list[tuple[int, tuple[int, ...], dict[tuple[int, ...], int]]] = []
        for v, n in enumerate(sizes):
            if n == 1:
                order.append((v, (), {(): 0}))
                self._fix(v, 0)
        left = {v for v, n in enumerate(sizes) if n > 1}
        self.waiting = [(len(self.neighbours[v]), v) for v in left]
        heapify(self.waiting)
        while left:
            count, v = heappop(self.waiting)
            if v not in left or count != len(self.neighbours[v]):
                continue
            around = tuple(sorted(self.neighbours[v]))
            entries = sizes[v]
            for u in around:
                entries *= sizes[u]
            if entries > MAX_TABLE:
                order.append((v, (), {(): self.start[v]}))
                self._fix(v, self.start[v])
            else:
                order.append((v, around, self._eliminate(v, around)))
            left.discard(v)
        choice = [0] * len(sizes)
        for v, around, best in reversed(order):
            choice[v] = best[tuple(choice[u] for u in around)]
        return choice

    def _drop(self, v: int) -> list[_Factor]:
        """Take a variable's factors away."""
        factors = self.factors.pop(v)
        for name, factor in factors.items():
            for u in factor[0]:
                if u != v:
                    del self.factors[u][name]
        for u in self.neighbours[v]:
            self.neighbours[u].discard(v)
            self._wait(u)
        return list(factors.values())

    def _wait(self, v: int) -> None:
        """A variable's neighbours have changed."""
        heappush(self.waiting, (len(self.neighbours[v]), v))

    def _eliminate(self, v: int, around: tuple[int, ...]) -> dict[tuple[int, ...], int]:
        factors = self._drop(v)
        position = {u: k for k, u in enumerate((*around, v))}
        places = [(tuple(position[u] for u in scope), table) for scope, table in factors]
        costs: dict[tuple[int, ...], float] = {}
        best: dict[tuple[int, ...], int] = {}
        for beside in product(*(range(self.problem.sizes[u]) for u in around)):
            lowest = None
            for i in range(self.problem.sizes[v]):
                whole = (*beside, i)
                cost = sum(table[tuple(whole[k] for k in where)] for where, table in places)
                if lowest is None or cost < lowest:
                    lowest, best[beside] = cost, i
            assert lowest is not None
            costs[beside] = lowest
        if around:
            self._add((around, costs))
            for u in around:
                self.neighbours[u] |= set(around) - {u}
                self._wait(u)
        return best

    def _fix(self, v: int, at: int) -> None:
        """A variable has candidate `at`; its factors shrink to what is left of their scopes."""
        for scope, table in self._drop(v):
            k = scope.index(v)
            rest = scope[:k] + scope[k + 1:]
            if rest:
                self._add((rest, {key[:k] + key[k + 1:]: cost for key, cost in table.items() if key[k] == at}))
