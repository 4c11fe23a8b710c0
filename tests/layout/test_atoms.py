"""Fragments against the PTX ISA's formulas, and how a tile product spreads over warps."""
from __future__ import annotations

import pytest

from tests.conversion.mma import a_place, b_place, c_place
from tileiras.codegen.compile import compile_llvm
from tileiras.layout.atoms import ATOMS, BITS, MmaAtom, choose_atom, dot_layouts, has_atom, split_warps
from tileiras.machine.targets import find_target


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
    atom = choose_atom(find_target("sm_80"), "f16", "f16", "f32", 64, 64, 32)
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
    atom = choose_atom(find_target("sm_80"), "f16", "f16", "f32", 64, 64, 32)
    assert atom is not None
    _, _, c = dot_layouts(atom, 64, 64, 32, 1)
    for first in range(0, c.num_regs, 4):
        rows, columns = zip(*(c.coords(c.index(first + i)) for i in range(4)))
        assert len({r // 16 for r in rows}) == len({n // 8 for n in columns}) == 1


@pytest.mark.parametrize("first, following", [("f16", "e4m3"), ("e5m2", "e4m3"), ("f16", "tf32"), ("tf32", "tf32"), ("f16", "f16")])
@pytest.mark.parametrize("warps", [1, 4])
def test_threads_have_of_weights_what_they_multiply_next(first: str, following: str, warps: int) -> None:
    first_atom, next_atom = (next(a for a in ATOMS if (a.a, a.acc, a.widen) == (name, "f32", "")) for name in (first, following))
    _, b, c = dot_layouts(first_atom, 64, 64, 64, warps, along="rows", next_elements=next_atom.elements_per_reg)
    a, _, _ = dot_layouts(next_atom, 64, 32, 64, warps, along="rows")
    assert b.is_complete and c.is_complete and c.is_exclusive
    for lane, warp in ((0, 0), (1, 0), (7, warps - 1), (30, warps // 2)):
        assert {c.index(r, lane, warp) for r in range(c.num_regs)} == {a.index(r, lane, warp) for r in range(a.num_regs)}
    # the columns that an atom multiplies are those that it adds to: k's registers of B come first, then its atoms along n
    k_registers = b.num_regs // (64 // first_atom.n)
    for atom in range(64 // first_atom.n):
        multiplied = {b.coords(b.index(atom * k_registers, lane))[1] for lane in range(32)}
        added = {c.coords(c.index(atom * 4 + i, lane))[1] for lane in range(32) for i in range(4)}
        assert multiplied == added and len(added) == first_atom.n


def test_warps_split_a_tile_near_square() -> None:
    assert split_warps(128, 128, 16, 8, 2) == (1, 1)
    assert split_warps(256, 64, 16, 8, 2) == (2, 0)
    assert split_warps(16, 256, 16, 8, 3) == (0, 3)
    assert split_warps(16, 8, 16, 8, 2) == (0, 0)       # nothing to split: all warps do the same


def one_kernel_an_atom(atoms: list[MmaAtom]) -> str:
    """LLVM IR: each kernel loads operands, executes its atom once and stores the result."""
    out, declarations = [], []
    for number, atom in enumerate(atoms):
        per = atom.elements_per_reg
        a, b = atom.m * atom.k // 32 // per, atom.k * atom.n // 32 // per
        c = atom.m * atom.n // 32 // (2 if atom.acc == "f16" else 1)
        types = [atom.a_type] * (a + b) + [atom.c_type] * c
        result = "{" + ", ".join([atom.c_type] * c) + "}"
        lines = []
        for i, t in enumerate(types):
            lines += [f"%p{i} = getelementptr i8, ptr addrspace(1) %p, i64 {16 * i}",
                      f"%x{i} = load {t}, ptr addrspace(1) %p{i}, align 16"]
        args = ", ".join(f"{t} %x{i}" for i, t in enumerate(types))
        lines.append(f"%r = call {result} @llvm.nvvm.{atom.intrinsic}({args})")
        for i in range(c):
            lines += [f"%y{i} = extractvalue {result} %r, {i}",
                      f"store {atom.c_type} %y{i}, ptr addrspace(1) %p{i}, align 16"]
        body = "\n".join(lines)
        out.append(f'define ptx_kernel void @k{number}(ptr addrspace(1) %p) "nvvm.reqntid"="32" {{\n{body}\nret void\n}}')
        declarations.append(f"declare {result} @llvm.nvvm.{atom.intrinsic}({', '.join(types)}) convergent nounwind")
    return "\n".join(out + declarations)


@pytest.mark.parametrize("gpu", ["sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_120"])
def test_llvm_and_ptxas_take_every_atom_that_a_target_has(gpu: str) -> None:
    target = find_target(gpu)
    atoms = [atom for atom in ATOMS if has_atom(target, atom)]
    result = compile_llvm(one_kernel_an_atom(atoms), target)
    assert result.ptx.count("mma.sync") == len(atoms) == len(result.entries)
