"""Fragments against the PTX ISA's formulas, and how a tile product spreads over warps."""
from __future__ import annotations

import pytest

from tests.conversion.mma import a_place, b_place, c_place
from tileiras.layout.atoms import ATOMS, BITS, MmaAtom, choose_atom, dot_layouts, split_warps


@pytest.mark.parametrize("atom", ATOMS, ids=[a.intrinsic for a in ATOMS])
def test_fragments_are_those_of_the_ptx_isa(atom: MmaAtom) -> None:
    a, b, c = dot_layouts(atom, atom.m, atom.n, atom.k, 1)
    for lane in range(32):
        for i in range(a.num_regs):
            assert a.coords(a.index(i, lane)) == a_place(atom.a, atom.m, atom.k, lane, i)
        for i in range(b.num_regs):
            assert b.coords(b.index(i, lane)) == b_place(atom.b, atom.k, lane, i)
        for i in range(c.num_regs):
            assert c.coords(c.index(i, lane)) == c_place(lane, i)
    assert [x.num_regs * 32 for x in (a, b, c)] == [atom.m * atom.k, atom.k * atom.n, atom.m * atom.n]
    assert (a.num_regs * BITS[atom.a]) % 32 == 0


@pytest.mark.parametrize("warps", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("batch", [0, 1, 4])
def test_every_result_has_one_owner_whose_operands_it_holds(warps: int, batch: int) -> None:
    atom = choose_atom(80, "f16", "f16", "f32", 64, 64, 32)
    assert atom is not None
    layouts = dot_layouts(atom, 64, 64, 32, warps, batch)
    a, _, c = layouts
    assert all(x.is_complete for x in layouts) and c.is_exclusive
    for lane_warp in ((0, 0), (31, warps - 1), (13, warps // 2)):
        rows = {a.coords(a.index(r, 0, lane_warp[1]))[:-1] for r in range(a.num_regs)}
        for r in range(c.num_regs):
            *lead, row, _ = c.coords(c.index(r, 0, lane_warp[1]))
            assert (*lead, row) in rows


def test_accumulators_come_atom_by_atom() -> None:
    atom = choose_atom(80, "f16", "f16", "f32", 64, 64, 32)
    assert atom is not None
    _, _, c = dot_layouts(atom, 64, 64, 32, 1)
    for first in range(0, c.num_regs, 4):
        rows, columns = zip(*(c.coords(c.index(first + i)) for i in range(4)))
        assert len({r // 16 for r in rows}) == len({n // 8 for n in columns}) == 1


def test_warps_split_a_tile_near_square() -> None:
    assert split_warps(128, 128, 16, 8, 2) == (1, 1)
    assert split_warps(256, 64, 16, 8, 2) == (2, 0)
    assert split_warps(16, 256, 16, 8, 3) == (0, 3)
    assert split_warps(16, 8, 16, 8, 2) == (0, 0)       # nothing to split: all warps do the same
