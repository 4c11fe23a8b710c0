"""Small layouts for enumeration: all flat ones of few elements, and random nested ones."""
from __future__ import annotations

import itertools
import random

from tileiras.layout.cute.algebra import Layout
from tileiras.layout.cute.tuples import IntTuple


def small(strides: tuple[int, ...] = (0, 1, 2, 3, 4, 6, 8), extents: tuple[int, ...] = (1, 2, 3, 4)) -> list[Layout]:
    """Every layout of one or two modes of these extents and strides."""
    out = [Layout(n, d) for n in (*extents, 6, 8, 12) for d in strides]
    for shape in itertools.product(extents, repeat=2):
        out += [Layout(shape, stride) for stride in itertools.product(strides, repeat=2)]
    return out


def nested(rng: random.Random, depth: int = 2, extents: tuple[int, ...] = (1, 2, 3, 4), strides: tuple[int, ...] = (0, 1, 2, 4, 12)
           ) -> Layout:
    """A random layout of nested modes."""
    def tree(level: int) -> tuple[IntTuple, IntTuple]:
        if level == 0 or rng.random() < 0.3:
            return rng.choice(extents), rng.choice(strides)
        parts = [tree(level - 1) for _ in range(rng.randrange(1, 4))]
        return tuple(s for s, _ in parts), tuple(d for _, d in parts)
    return Layout(*tree(depth))


def compact(rng: random.Random, extents: tuple[int, ...] = (2, 3, 4)) -> Layout:
    """A random bijection onto 0 .. size - 1: modes of compact strides in any order."""
    shape = tuple(rng.choice(extents) for _ in range(rng.randrange(1, 4)))
    strides = [0] * len(shape)
    step = 1
    for i in rng.sample(range(len(shape)), len(shape)):
        strides[i] = step
        step *= shape[i]
    return Layout(shape, tuple(strides))
