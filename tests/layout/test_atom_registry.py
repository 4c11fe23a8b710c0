"""Every row's fragments against the PTX ISA's formulas, written out; shapes and costs against its tables."""
from __future__ import annotations

import random

import numpy as np
import pytest

from tests.conversion.mma import a_place, b_place, c_place
from tileiras.layout.atoms import ATOMS
from tileiras.layout.atoms.atom import KINDS, REGISTERS, Atom, available
from tileiras.layout.atoms.block_scaled import BLOCK_SCALED, choose_block_scaled, scale_layouts
from tileiras.layout.atoms.mma_sync import dot_layouts
from tileiras.layout.atoms.registry import atoms, find, of_mma_sync
from tileiras.machine.targets import TARGETS, find_target
from tileiras.machine.tensor import tcgen05_fetch, wgmma_fetch
from tileiras.sim.tcgen05.descriptor import decode_instruction
from tileiras.sim.tcgen05.move import register_cells

ALL = atoms()


def place(atom: Atom, operand: str, thread: int, value: int) -> tuple[int, int]:
    """(row, column) of what a thread holds as its `value`-th."""
    o = atom.operand(operand)
    assert o.fragment is not None
    index = o.fragment(thread, value)
    return index % o.shape[0], index // o.shape[0]


def values(atom: Atom, operand: str) -> int:
    fragment = atom.operand(operand).fragment
    assert fragment is not None
    return fragment.size // atom.threads


def test_names_are_unique_and_found() -> None:
    assert len({a.name for a in ALL}) == len(ALL)
    for atom in random.Random(1).sample(ALL, 200):
        assert find(atom.name) == atom
    for name in ("sm70.mma", "sm100.mma", "sm100.mma.f17.m64", "atom.ldsm.m8n8.x3"):
        with pytest.raises(KeyError):
            find(name)


def test_every_row_is_well_formed() -> None:
    fields = vars(find_target("sm_90"))
    for atom in ALL:
        assert atom.kind in KINDS and atom.instruction and atom.threads in (1, 32, 128)
        assert not atom.feature or atom.feature in fields
        for o in atom.operands:
            assert (o.fragment is not None) <= (o.residency == REGISTERS)
            assert atom.kind not in ("mma", "tmem") or (o.fragment is None) <= (o.residency != REGISTERS)


@pytest.mark.parametrize("sm", [t.name for t in TARGETS])
def test_families_of_a_target(sm: str) -> None:
    names = {a.name.split(".")[0] if a.kind == "mma" else a.kind for a in ALL if available(find_target(sm), a)}
    expected = {"atom", "copy", "sm80"}
    number = int(sm[3:])
    expected |= {"sm89"} if number >= 89 else set()
    expected |= {"sm90"} if number == 90 else set()
    expected |= {"tma"} if number >= 90 else set()
    expected |= {"sm100", "tmem"} if number in (100, 103, 107, 110) else set()
    expected |= {"SM120"} if number >= 120 else set()
    assert names == expected


@pytest.mark.parametrize("atom", [a for a in ALL if a.name.startswith(("sm80.", "sm89.", "SM120."))], ids=lambda a: a.name)
def test_fragments_of_a_warps_products(atom: Atom) -> None:
    assert atom.shape is not None
    m, _, k = atom.shape
    if atom.name.startswith("SM120."):
        e = 8 if k == 64 else 4
        # PTX ISA, m16n8k32 and m16n8k64: as those of 8-bit and 4-bit integers
        for thread in range(32):
            group, t = thread // 4, thread % 4
            for i in range(values(atom, "A")):
                r, j = divmod(i, e)
                assert place(atom, "A", thread, i) == (group + 8 * (r % 2), t * e + j + 4 * e * (r // 2))
            for i in range(values(atom, "B")):
                r, j = divmod(i, e)
                assert place(atom, "B", thread, i) == (t * e + j + 4 * e * r, group)
            for i in range(values(atom, "D")):
                assert place(atom, "D", thread, i) == c_place(thread, i)
        return
    kind = atom.operand("A").element
    for thread in range(32):
        assert [place(atom, "A", thread, i) for i in range(values(atom, "A"))] == \
            [a_place(kind, m, k, thread, i) for i in range(m * k // 32)]
        assert [place(atom, "B", thread, i) for i in range(values(atom, "B"))] == \
            [b_place(kind, k, thread, i) for i in range(k * 8 // 32)]
        assert [place(atom, "D", thread, i) for i in range(values(atom, "D"))] == [c_place(thread, i) for i in range(m * 8 // 32)]


@pytest.mark.parametrize("atom", [a for a in ALL if a.name.startswith("SM120.")], ids=lambda a: a.name)
def test_scale_factors_of_a_warps_products(atom: Atom) -> None:
    # PTX ISA, block scaling for mma.sync, selector thread 0: A's from the quad's first two threads, B's from its first
    vectors = atom.operand("SFA").shape[1]
    for group in range(8):
        for v in range(vectors):
            for half in (0, 1):
                assert place(atom, "SFA", 4 * group + half, v) == (group + 8 * half, v)
            assert place(atom, "SFB", 4 * group, v) == (v, group)


@pytest.mark.parametrize("acc", ["f32", "f16", "s32"])
@pytest.mark.parametrize("n", [8, 24, 128, 256])
def test_accumulators_of_a_warpgroup(acc: str, n: int) -> None:
    a = {"f32": "bf16", "f16": "f16", "s32": "s8"}[acc]
    atom = find(f"sm90.mma.m64n{n}k{256 // (8 if a == 's8' else 16)}.{acc}.{a}.{a}.rs")
    assert values(atom, "D") == n // 2
    for thread in range(128):
        for i in range(n // 2):
            # PTX ISA, wgmma D fragment: row and column of d(i)
            row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (i // 2 % 2)
            column = 8 * (i // 4) + thread % 4 * 2 + i % 2
            assert place(atom, "D", thread, i) == (row, column)


@pytest.mark.parametrize(("a", "e"), [("f16", 2), ("bf16", 2), ("tf32", 1), ("e4m3", 4), ("s8", 4)])
def test_registers_of_a_warpgroups_a(a: str, e: int) -> None:
    acc = "s32" if a == "s8" else "f32"
    atom = find(f"sm90.mma.m64n64k{8 * e}.{acc}.{a}.{a}.rs")
    assert values(atom, "A") == 4 * e
    for thread in range(128):
        for i in range(4 * e):
            row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (i // e % 2)
            column = thread % 4 * e + i % e + (4 * e if i >= 2 * e else 0)
            assert place(atom, "A", thread, i) == (row, column)


@pytest.mark.parametrize("atom", [a for a in ALL if a.kind == "tmem" and not a.name.startswith("atom.s2t")], ids=lambda a: a.name)
def test_cells_of_tensor_memory(atom: Atom) -> None:
    shape, count = atom.name.split(".")[-2:]
    lanes, columns = register_cells(shape, int(count[1:]))
    assert values(atom, "registers") == lanes.shape[1]
    for thread in range(32):
        for r in range(lanes.shape[1]):
            assert place(atom, "registers", thread, r) == (lanes[thread, r, 0], columns[thread, r, 0])
    covered = {place(atom, "registers", t, r) for t in range(32) for r in range(lanes.shape[1])}
    rows, width = atom.operand("cells").shape
    assert covered == {(i, j) for i in range(rows) for j in range(width)}
    assert atom.cost.columns == width


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_matrices_of_eight_rows(count: int, trans: bool) -> None:
    for kind in ("ldsm", "stsm"):
        fragment = find(f"atom.{kind}.m8n8.x{count}{'.trans' if trans else ''}").operand("registers").fragment
        assert fragment is not None
        for thread in range(32):
            for i in range(2 * count):
                row, column, matrix = thread // 4, 2 * (thread % 4) + i % 2, i // 2
                if trans:
                    row, column = column, row
                assert fragment(thread, i) == row + 8 * column + 64 * matrix


def test_shapes_of_tensor_memory_products_have_instruction_descriptors() -> None:
    from tileiras.layout.descriptors import instruction_descriptor
    seen = 0
    for atom in ALL:
        if not atom.name.startswith("sm100.mma") or not atom.name.endswith(".ss"):
            continue
        assert atom.shape is not None
        a, b, d = (atom.operand(x).element for x in "ABD")
        kind, group = atom.name.split(".")[2], int(atom.name.split(".cg")[1][0])
        if (a, b) not in (("f16", "f16"), ("e4m3", "e2m1"), ("s8", "u8"), ("e2m1", "e2m1"), ("tf32", "tf32")):
            continue
        scaled = "_bs" in atom.name
        scale = atom.operand("SFA") if scaled else None
        word = instruction_descriptor(kind, atom.shape[0], atom.shape[1], a, b, d, scale=scale.element if scale else "")
        found = decode_instruction(word, kind, group=group, vectors=f"{scale.shape[1]}X" if scale else "")
        assert (found.m, found.n, found.k) == atom.shape
        seen += 1
    assert seen > 300


def test_costs_give_the_published_intervals() -> None:
    for n in (64, 128, 256):
        for where in ("ss", "rs"):
            cost = find(f"sm90.mma.m64n{n}k16.f32.f16.f16.{where}").cost
            assert cost.macs / 2048 == n / 2                        # H100: 2048 multiply-adds of f16 a cycle and SM
            assert cost.shared_bytes / 128 == wgmma_fetch(n, where == "ss")
            cost = find(f"sm100.mma.f16.m128n{n}k16.f32.f16.f16.cg1.{'ss' if where == 'ss' else 'ts'}").cost
            assert cost.macs / 4096 == n / 2
            assert cost.shared_bytes / 128 == tcgen05_fetch(128, n, where == "ss")


@pytest.mark.parametrize(("types", "k"), [
    (("f8E4M3FN", "f8E5M2", "f8E8M0FNU", 32), 32), (("f4E2M1FN", "f4E2M1FN", "f8E8M0FNU", 32), 64),
    (("f4E2M1FN", "f4E2M1FN", "f8E4M3FN", 16), 64)])
def test_block_scaled_products_of_a_tile(types: tuple[str, str, str, int], k: int) -> None:
    atom = choose_block_scaled(find_target("sm_120"), *types, 64, 64, 128)
    assert atom is not None and atom.k == k
    assert choose_block_scaled(find_target("sm_100"), *types, 64, 64, 128) is None
    for warps in (1, 4):
        a, b, _ = dot_layouts(atom, 64, 64, 128, warps)
        sfa, sfb = scale_layouts(atom, 64, 64, 128, warps)
        assert sfa.is_complete and sfb.is_complete
        inside = len(atom.a_bases[0])
        for warp in range(warps):
            for lane in range(0, 32, 4):
                # register bits above an instruction's name the instruction: the same rows, the same blocks of K
                for step in range(1 << len(a.reg) - inside):
                    rows = {a.coords(a.index(step << inside | r, lane, warp))[0] for r in range(1 << inside)}
                    blocks = {a.coords(a.index(step << inside | r, q, warp))[1] // atom.block
                              for r in range(1 << inside) for q in range(lane, lane + 4)}
                    held = {sfa.coords(sfa.index(step * atom.vectors + v, lane + half, warp))
                            for v in range(atom.vectors) for half in (0, 1)}
                    assert held == {(r, c) for r in rows for c in blocks}
                inside_b = len(atom.b_bases[0])
                for step in range(1 << len(b.reg) - inside_b):
                    column = b.coords(b.index(step << inside_b, lane, warp))[1]
                    blocks = {b.coords(b.index(step << inside_b | r, q, warp))[0] // atom.block
                              for r in range(1 << inside_b) for q in range(lane, lane + 4)}
                    held = {sfb.coords(sfb.index(step * atom.vectors + v, lane, warp)) for v in range(atom.vectors)}
                    assert held == {(c, column) for c in blocks}


def test_rows_of_mma_sync_are_all_there() -> None:
    names = {a.instruction for a in ALL}
    assert {a.intrinsic for a in (*ATOMS, *BLOCK_SCALED)} <= names
    assert np.prod(of_mma_sync(ATOMS[0]).shape or ()) == of_mma_sync(ATOMS[0]).cost.macs
