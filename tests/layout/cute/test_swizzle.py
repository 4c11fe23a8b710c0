"""Swizzles: which bits move, bank by bank; and that matrices over F2 and CuTe's layouts are the same functions."""
from __future__ import annotations

import random

import pytest

from tileiras.layout.atoms import ATOMS
from tileiras.layout.cute.algebra import Layout, parse_layout
from tileiras.layout.cute.f2 import bases, from_linear, from_shared, to_linear, to_shared
from tileiras.layout.cute.swizzle import ComposedLayout, Swizzle
from tileiras.layout.cute.tuples import LayoutError
from tileiras.layout.linear import LinearLayout, blocked
from tileiras.layout.shared import SharedLayout


@pytest.mark.parametrize("bits", [1, 2, 3])
def test_address_patterns_of_the_hardware(bits: int) -> None:
    # 16-byte pieces: bits 7.. of the address into bits 4..
    swizzle = Swizzle(bits, 4, 3)
    for address in range(4096):
        piece = address >> 4 & (1 << bits) - 1
        row = address >> 7 & (1 << bits) - 1
        assert swizzle(address) == (address & ~((1 << bits) - 1 << 4)) | (piece ^ row) << 4
        assert swizzle(swizzle(address)) == address


def test_a_negative_shift_goes_up() -> None:
    swizzle = Swizzle(2, 4, -3)
    assert swizzle(0b01_0000) == 0b1001_0000
    assert all(swizzle(swizzle(i)) == i for i in range(1 << 10))


@pytest.mark.parametrize("numbers", [(3, 4, 2), (-1, 4, 3), (1, -1, 3)])
def test_swizzles_that_do_not_exist(numbers: tuple[int, int, int]) -> None:
    with pytest.raises(LayoutError, match="invalid values"):
        Swizzle(*numbers)


def test_recast_counts_other_elements() -> None:
    assert Swizzle(3, 4, 3).recast(8, 16) == Swizzle(3, 3, 3)
    layout = ComposedLayout(Swizzle(3, 3, 3), 0, parse_layout("(8,64):(64,1)"))
    wide = layout.recast(16, 32)
    assert str(wide) == "S<3,2,3> o 0 o (8,32):(32,1)"
    for row in range(8):
        for column in range(32):
            assert 2 * wide(row, column) == layout(row, 2 * column)
    with pytest.raises(LayoutError, match="unable to recast"):
        Swizzle(3, 0, 3).recast(8, 16)


def test_a_composed_layout_swizzles_after_the_offset() -> None:
    layout = ComposedLayout(Swizzle(1, 0, 3), 8, Layout(8, 1))
    assert layout.image() == [9, 8, 11, 10, 13, 12, 15, 14]
    assert layout.cosize == 16


@pytest.mark.parametrize("shape", [(8, 64), (64, 32), (4, 8, 16), (16, 128)])
@pytest.mark.parametrize("elem_bytes", [1, 2, 4])
@pytest.mark.parametrize("first", [False, True])
def test_buffers_there_and_back(shape: tuple[int, ...], elem_bytes: int, first: bool) -> None:
    order = tuple(range(len(shape))) if first else None
    shared = SharedLayout.swizzled(shape, elem_bytes, order)
    cute = from_shared(shared)
    assert to_shared(cute) == shared
    strides = [1]
    for n in reversed(shape[1:]):
        strides.insert(0, strides[0] * n)
    for flat in range(0, shared.extent, 7):
        coordinate = tuple(flat // d % n for d, n in zip(strides, shape))
        assert cute(coordinate) == shared.offset(flat)


def test_the_swizzle_of_eight_rows() -> None:
    assert str(from_shared(SharedLayout.swizzled((8, 64), 2))) == "S<3,3,3> o 0 o (8,64):(64,1)"


def test_matrices_that_are_no_swizzled_layout_are_refused() -> None:
    with pytest.raises(LayoutError, match="no layout followed by a swizzle"):
        from_shared(SharedLayout((8,), (1, 3, 7)))


@pytest.mark.parametrize(("source", "why"), [
    ("3:1", "not a power of two"), ("(4,4):(1,2)", "carry"), ("4:3", "carry"), ("(2,2):(1,1)", "carry")])
def test_layouts_that_carry_have_no_matrix(source: str, why: str) -> None:
    layout = parse_layout(source)
    with pytest.raises(LayoutError, match=why):
        bases(layout)


def test_a_matrix_is_its_layout_wherever_there_is_one() -> None:
    rng = random.Random(1)
    linear = 0
    for _ in range(400):
        shape = tuple(rng.choice([2, 4]) for _ in range(2))
        layout = Layout(shape, tuple(rng.choice([0, 1, 2, 3, 4, 5, 8, 16]) for _ in range(2)))
        values = layout.image()
        is_linear = all(values[i ^ j] == values[i] ^ values[j] for i in range(len(values)) for j in range(len(values)))
        try:
            columns = bases(layout)
        except LayoutError:
            assert not is_linear
            continue
        linear += 1
        assert is_linear
        assert columns == tuple(values[1 << i] for i in range(len(columns)))
    assert linear > 100


def test_thread_and_value_layouts_there_and_back() -> None:
    layout = blocked((64, 32), 4, 8)
    owners = from_linear(layout)
    assert to_linear(owners, (64, 32), 4) == layout
    for thread in range(0, 128, 5):
        for value in range(layout.num_regs):
            row, column = layout.coords(layout.index(value, thread % 32, thread // 32))
            assert owners(thread, value) == row + 64 * column
    with pytest.raises(LayoutError, match="for 128 threads, not 32"):
        to_linear(owners, (64, 32), 1)
    with pytest.raises(LayoutError, match="overlap"):
        from_linear(LinearLayout((4,), (3,), (1, 2, 0, 0, 0), ()))


CUTE_TRAITS = {
    # (m, n, k, type of A): (thread, value) layouts of A, B and C in the public MMA traits, column-major in the fragment
    (16, 8, 16, "f16"): ("((4,8),(2,2,2)):((32,1),(16,8,128))", "((4,8),(2,2)):((16,1),(8,64))", "((4,8),(2,2)):((32,1),(16,8))"),
    (16, 8, 16, "bf16"): ("((4,8),(2,2,2)):((32,1),(16,8,128))", "((4,8),(2,2)):((16,1),(8,64))",
                          "((4,8),(2,2)):((32,1),(16,8))"),
    (16, 8, 32, "s8"): ("((4,8),(4,2,2)):((64,1),(16,8,256))", "((4,8),(4,2)):((32,1),(8,128))", "((4,8),(2,2)):((32,1),(16,8))"),
    (16, 8, 32, "e4m3"): ("((4,8),(4,2,2)):((64,1),(16,8,256))", "((4,8),(4,2)):((32,1),(8,128))",
                          "((4,8),(2,2)):((32,1),(16,8))"),
}


@pytest.mark.parametrize("key", CUTE_TRAITS)
def test_fragments_are_those_of_the_public_traits(key: tuple[int, int, int, str]) -> None:
    atom = next(a for a in ATOMS if (a.m, a.n, a.k, a.a) == key)
    # B is described as n x k there
    for source, shape, bases_of, swap in zip(CUTE_TRAITS[key], ((atom.m, atom.k), (atom.n, atom.k), (atom.m, atom.n)),
                                             (atom.a_bases, atom.b_bases, atom.c_bases), (False, True, False)):
        found = to_linear(parse_layout(source), shape, 1)
        expected = []
        for group in bases_of:
            expected.append(tuple((c if swap else r) * shape[1] + (r if swap else c) for r, c in group))
        assert (found.reg, found.lane) == tuple(expected)
