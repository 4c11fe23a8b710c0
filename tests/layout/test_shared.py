"""Buffers: swizzles and the layouts chosen between a writer and a reader, conflicts counted bank by bank."""
from __future__ import annotations

import random

import numpy as np
import pytest

from tests.conversion.test_moves import any_layout
from tileiras.layout.atoms import choose_atom, dot_layouts
from tileiras.layout.f2 import apply
from tileiras.layout.linear import LinearLayout, blocked
from tileiras.layout.operands import ldmatrix_plan, operand_buffer
from tileiras.layout.shared import SharedLayout, access, bank_conflicts, between, vector_width
from tileiras.machine.targets import find_target


def counted_conflicts(layout: LinearLayout, shared: SharedLayout, elem_bytes: int) -> int:
    """Wavefronts beyond one, at worst, of any access of any warp: 32 banks of 4 bytes, a bank's words served in turn."""
    plan = access(layout, shared, elem_bytes)
    size = plan.vec * elem_bytes
    together = min(32, max(1, 128 // max(size, 4)))
    worst = 0
    for registers, _, _ in plan.groups:
        for warp in range(layout.num_warps):
            for first in range(0, 32, together):
                words: dict[int, set[int]] = {}
                for lane in range(first, first + together):
                    start = shared.offset(layout.index(registers[0], lane, warp)) * elem_bytes
                    assert start % size == 0
                    for byte in range(start, start + size):
                        words.setdefault(byte // 4 % 32, set()).add(byte // 4)
                worst = max(worst, *(len(w) - 1 for w in words.values()))
    return worst


@pytest.mark.parametrize("shape", [(64, 8), (64, 16), (64, 32), (64, 64), (64, 128), (16, 256)])
@pytest.mark.parametrize("elem_bytes", [1, 2, 4, 8])
def test_swizzled_rows_read_without_conflicts_along_both_dimensions(shape: tuple[int, int], elem_bytes: int) -> None:
    shared = SharedLayout.swizzled(shape, elem_bytes)
    offsets = [shared.offset(i) for i in range(shape[0] * shape[1])]
    assert sorted(offsets) == list(range(len(offsets)))
    piece = 16 // elem_bytes
    if shape[1] < piece:
        return
    for row in range(0, shape[0], 8):
        for column in range(0, shape[1], piece):
            starts = [shared.offset((row + i) * shape[1] + column) * elem_bytes for i in range(8)]
            assert all(s % 16 == 0 for s in starts)
            assert len({s // 16 % 8 for s in starts}) == 8
            for i in range(piece):
                assert shared.offset(row * shape[1] + column + i) == starts[0] // elem_bytes + i


def test_row_major_columns_conflict() -> None:
    column = LinearLayout((32, 64), (1, 2, 4, 8, 16, 32), (64, 128, 256, 512, 1024), ())
    assert bank_conflicts(column, SharedLayout.row_major((32, 64)), 2) == 7
    assert counted_conflicts(column, SharedLayout.row_major((32, 64)), 2) == 7
    assert bank_conflicts(column, SharedLayout.swizzled((32, 64), 2), 2) == 0


@pytest.mark.parametrize("seed", range(30))
def test_accesses_cover_each_element_once_at_its_offset(seed: int) -> None:
    rng = random.Random(seed)
    shape = rng.choice([(64, 32), (512,), (8, 8, 16)])
    writer, reader = (any_layout(rng, shape, rng.choice([1, 4]), rng.randrange(3)) for _ in range(2))
    elem_bytes = rng.choice([1, 2, 4, 8])
    shared = between(writer, reader, elem_bytes)
    assert sorted(shared.offset(i) for i in range(writer.size)) == list(range(writer.size))
    for side in (writer, reader):
        plan = access(side, shared, elem_bytes)
        seen = set()
        for n, (registers, offset, _) in enumerate(plan.groups):
            for i, r in enumerate(registers):
                assert shared.offset(side.index(r)) == offset + i
                assert plan.slots[r] == n * plan.vec + i
                assert side.index(r) not in seen
                seen.add(side.index(r))
        for r, s in enumerate(plan.slots):
            assert shared.offset(side.index(r)) == plan.groups[s // plan.vec][1] + s % plan.vec
        assert counted_conflicts(side, shared, elem_bytes) == bank_conflicts(side, shared, elem_bytes)


F16 = choose_atom(find_target("sm_80"), "f16", "f16", "f32", 128, 128, 64)
TRANSPOSES = [((64, 64), size, 16 // size) for size in (1, 2, 4, 8)]


@pytest.mark.parametrize("shape,elem_bytes,per_thread", TRANSPOSES)
def test_a_transposition_is_free_of_conflicts_and_wide_on_one_side(shape: tuple[int, int], elem_bytes: int,
                                                                   per_thread: int) -> None:
    rows, columns = blocked(shape, 4, per_thread), blocked(shape, 4, per_thread, (0, 1))
    shared = between(rows, columns, elem_bytes)
    assert counted_conflicts(rows, shared, elem_bytes) == counted_conflicts(columns, shared, elem_bytes) == 0
    assert max(vector_width(rows, shared, elem_bytes), vector_width(columns, shared, elem_bytes)) == 16 // elem_bytes


def test_accumulators_leave_through_shared_memory_without_conflicts() -> None:
    assert F16 is not None
    *_, c = dot_layouts(F16, 128, 128, 64, 4)
    for elem_bytes in (2, 4):
        out = blocked((128, 128), 4, 16 // elem_bytes)
        shared = between(c, out, elem_bytes)
        assert counted_conflicts(c, shared, elem_bytes) == counted_conflicts(out, shared, elem_bytes) == 0
        assert vector_width(c, shared, elem_bytes) == vector_width(out, shared, elem_bytes) == 16 // elem_bytes


@pytest.mark.parametrize("names", ["f16 f16 f32", "tf32 tf32 f32", "i8 i8 i32", "f64 f64 f64", "f8E4M3FN f8E4M3FN f32"])
@pytest.mark.parametrize("transposed", [False, True])
def test_operand_buffers_suit_writer_and_fragment(names: str, transposed: bool) -> None:
    a_type, b_type, acc = names.split()
    atom = choose_atom(find_target("sm_90"), a_type, b_type, acc, 64, 64, 64)
    assert atom is not None
    a, b, _ = dot_layouts(atom, 64, 64, 64, 4)
    elem_bytes = {"f16": 2, "tf32": 4, "i8": 1, "f64": 8, "f8E4M3FN": 1}[names.split()[0]]
    order = (0, 1) if transposed else (1, 0)
    writer = blocked((64, 64), 4, 16 // elem_bytes, order)
    for fragment, k_dim in ((a, 1), (b, 0)):
        shared = operand_buffer((64, 64), elem_bytes, k_dim, writer, fragment, atom.k)
        plan = ldmatrix_plan(fragment, shared, elem_bytes)
        assert counted_conflicts(writer, shared, elem_bytes) == 0
        if plan is None:
            assert counted_conflicts(fragment, shared, elem_bytes) == 0
            assert elem_bytes != 2
        if elem_bytes == 2 or (k_dim == order[0] and elem_bytes < 8):
            assert plan is not None and vector_width(writer, shared, elem_bytes) == 16 // elem_bytes


@pytest.mark.parametrize("shape,warps", [((64, 32, 64), 4), ((128, 128, 128), 8), ((16, 16, 32), 1), ((32, 256, 32), 4)])
def test_bytes_turned_by_ldmatrix_come_to_the_threads_that_multiply_them(shape: tuple[int, int, int], warps: int) -> None:
    """PTX ISA: lane i gives the address of row i % 16 of matrix i / 16; of each, lane i receives rows 4 * (i % 4) to
    4 * (i % 4) + 3 of column i / 4, and in a second register of column i / 4 + 8."""
    m, n, k = shape
    atom = choose_atom(find_target("sm_120"), "f8E4M3FN", "f8E4M3FN", "f32", m, n, k)
    assert atom is not None
    a, b, _ = dot_layouts(atom, m, n, k, warps)
    for fragment, k_dim, writer in ((a, 1, blocked((m, k), warps, 16, (0, 1))), (b, 0, blocked((k, n), warps, 16))):
        shared = operand_buffer(fragment.shape, 1, k_dim, writer, fragment, atom.k, turns_bytes=True)
        assert ldmatrix_plan(fragment, shared, 1) is None
        plan = ldmatrix_plan(fragment, shared, 1, turns_bytes=True)
        assert plan is not None and vector_width(writer, shared, 1) == 16
        element_at = {shared.offset(i): i for i in range(fragment.shape[0] * fragment.shape[1])}
        for register in range(0, fragment.num_regs, 4):
            second, first = register & plan.beside, register & ~plan.beside
            for warp in range(warps):
                start = apply(plan.reg, first) ^ apply(plan.warp, warp)
                rows = [start ^ apply(plan.rows, row) for row in range(16)]
                assert all(row % 16 == 0 for row in rows)
                assert all(len({row // 16 % 8 for row in half}) == 8 for half in (rows[:8], rows[8:])), "banks"
                for lane in range(32):
                    column = lane // 4 + (8 if second else 0)
                    received = [element_at[rows[4 * (lane % 4) + i] + column] for i in range(4)]
                    assert received == [fragment.index(register + i, lane, warp) for i in range(4)]


def test_offsets_are_numbers_below_the_extent() -> None:
    shared = SharedLayout.swizzled((16, 64), 2)
    assert shared.extent == 1024
    assert np.unique([shared.offset(i) for i in range(1024)]).size == 1024
