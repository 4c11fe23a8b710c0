"""A thread's columns against their enumeration: which registers hold a row's, in which order, and how many come before a column."""
from __future__ import annotations

import itertools
import random

import pytest

from tileiras.layout.linear import LinearLayout
from tileiras.layout.runs import runs_of


def layouts(seed: int, count: int = 200) -> list[LinearLayout]:
    """Tiles of 8 x 64 whose index bits are dealt out to registers, lanes and warps."""
    draw = random.Random(seed)
    out = []
    for _ in range(count):
        bits = [1 << n for n in range(9)]
        draw.shuffle(bits)
        lanes, warps = draw.randrange(2, 6), draw.randrange(2)
        dealt = bits[lanes + warps:], (bits[:lanes] + [0] * 5)[:5], bits[lanes:lanes + warps]
        out.append(LinearLayout((8, 64), *map(tuple, dealt)))
    return out


def columns_of(layout: LinearLayout, dim: int, lane: int, warp: int) -> dict[int, list[tuple[int, int]]]:
    """For the index of the other dimension: columns and registers of a thread, by column."""
    rows: dict[int, list[tuple[int, int]]] = {}
    for register in range(layout.num_regs):
        at = layout.coords(layout.index(register, lane, warp))
        rows.setdefault(at[1 - dim], []).append((at[dim], register))
    return {row: sorted(found) for row, found in rows.items()}


@pytest.mark.parametrize("dim", [0, 1])
def test_rows_and_columns_are_what_enumeration_finds(dim: int) -> None:
    known = 0
    for layout in layouts(dim):
        runs = runs_of(layout, dim)
        if runs is None:
            continue
        known += runs.gap > runs.low
        for lane, warp in itertools.product((0, 1, 6, 31), range(layout.num_warps)):
            first = sum(basis for n, basis in enumerate(runs.lanes) if lane >> n & 1) + \
                sum(basis for n, basis in enumerate(runs.warps) if warp >> n & 1)
            found = columns_of(layout, dim, lane, warp)
            assert sorted(map(list, runs.rows)) == sorted([r for _, r in row] for row in found.values())
            assert first <= runs.most_to_the_right
            columns = [column - first for column, _ in next(iter(found.values()))]
            assert len(columns) == runs.count and all(0 <= c < 1 << runs.bits for c in columns)
            for end in range((1 << runs.bits) + 1):
                before = end if runs.gap == runs.low else (end >> runs.gap << runs.low) + min(end % (1 << runs.gap), 1 << runs.low)
                assert before == sum(c < end for c in columns)
    assert known > 20


def test_columns_that_registers_do_not_tell_alone_are_none() -> None:
    lanes = (64, 128, 256, 0, 0)
    assert runs_of(LinearLayout((8, 64), (1, 2, 4, 8, 16, 32), lanes, ()), 1) is not None
    assert runs_of(LinearLayout((8, 64), (1, 2, 4, 8, 16, 32 | 64), lanes, ()), 1) is None          # a row and a column at once
    assert runs_of(LinearLayout((8, 64), (1, 2, 4, 8, 16, 48), (64, 128, 256, 32, 0), ()), 1) is None    # two bits of a column
    assert runs_of(LinearLayout((8, 64), (1, 2, 4), (64, 128, 256, 8, 2), (16, 32)), 1) is None     # a lane's, too
    assert runs_of(LinearLayout((8, 64), (1, 4, 16), (64, 128, 256, 8, 2), (32,)), 1) is None       # two gaps
