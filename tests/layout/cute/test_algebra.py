"""The algebra's operations against the functions that they are defined by, enumerated, and the public documentation's
worked examples."""
from __future__ import annotations

import random
from itertools import pairwise

import pytest

from tests.layout.cute.examples import compact, nested, small
from tileiras.layout.cute.algebra import (
    Layout,
    coalesce,
    complement,
    composition,
    filter_zeros,
    left_inverse,
    make_layout,
    make_ordered_layout,
    max_common_vector,
    parse_layout,
    recast_layout,
    right_inverse,
)
from tileiras.layout.cute.tuples import LayoutError, compatible, depth, size


def L(source: str) -> Layout:
    return parse_layout(source)


@pytest.mark.parametrize(("layout", "coalesced"), [
    ("(2,(1,6)):(1,(6,2))", "12:1"), ("(2,4):(1,2)", "8:1"), ("(2,4):(4,1)", "(2,4):(4,1)"), ("(1,1):(7,9)", "1:0"),
    ("(4,3):(1,0)", "(4,3):(1,0)"), ("((2,2),2):((1,2),4)", "8:1")])
def test_coalesce(layout: str, coalesced: str) -> None:
    assert str(coalesce(L(layout))) == coalesced


def test_coalesce_by_mode() -> None:
    assert coalesce(L("(2,(1,6)):(1,(6,2))"), (1, 1)) == L("(2,6):(1,2)")


@pytest.mark.parametrize("seed", range(40))
def test_coalescing_keeps_the_function_in_fewest_modes(seed: int) -> None:
    layout = nested(random.Random(seed))
    found = coalesce(layout)
    assert found.image() == layout.image() and depth(found.shape) <= 1
    leaves = found.leaves
    assert all(b[1] != a[0] * a[1] for a, b in pairwise(leaves))
    assert len(leaves) == 1 or all(n > 1 for n, _ in leaves)


@pytest.mark.parametrize(("a", "b", "result"), [
    ("(6,2):(8,2)", "(4,3):(3,1)", "((2,2),3):((24,2),8)"),
    ("20:2", "(5,4):(4,1)", "(5,4):(8,2)"),
    ("(10,2):(16,4)", "(5,4):(1,5)", "(5,(2,2)):(16,(80,4))"),
    ("8:2", "4:1", "4:2"), ("(4,2):(1,4)", "(2,2):(1,2)", "(2,2):(1,2)"),
    ("(3,6,2,8):(1000,100,10,1)", "16:9", "(2,2,4):(300,10,1)"),
    ("(4,6,8,10):(2,3,5,7)", "6:12", "(2,3):(9,5)")])
def test_composition(a: str, b: str, result: str) -> None:
    assert str(composition(L(a), L(b))) == result


def test_composition_by_mode() -> None:
    a = L("(12,(4,8)):(59,(13,1))")
    assert composition(a, (L("3:4"), L("8:2"))) == L("(3,(2,4)):(236,(26,1))")
    assert composition(a, (3, 8)) == L("(3,(4,2)):(59,(13,1))")
    assert composition(a, (None, 8)) == L("(12,(4,2)):(59,(13,1))")
    with pytest.raises(LayoutError, match=r"expects rank\(tiler\) <= rank\(input\), but got input=2 and tiler=3"):
        composition(a, (3, 8, 1))


def test_composition_is_functions_composed() -> None:
    done = refused = 0
    inner = small(extents=(2, 3, 4))
    for a in small(strides=(1, 5, 6, 12), extents=(2, 3, 4, 6)):
        for b in inner[::5]:
            if b.cosize > a.size:
                continue
            try:
                found = composition(a, b)
            except LayoutError as error:
                refused += 1
                assert "failed to perform a valid division" in str(error)
                continue
            done += 1
            assert found.image() == [a(i) for i in b.image()]
            assert compatible(b.shape, found.shape)
    assert done > 2000 and refused > 100


def test_composition_of_powers_of_two_always_exists() -> None:
    for a in small(strides=(0, 1, 2, 8), extents=(2, 4)):
        for b in small(strides=(0, 1, 2, 4), extents=(1, 2, 4)):
            if b.cosize <= a.size and _is_linear(b) and all(not n & n - 1 for n, _ in a.leaves):
                assert composition(a, b).image() == [a(i) for i in b.image()]


def _is_linear(layout: Layout) -> bool:
    """Powers of two whose modes move different bits."""
    steps = [d << i for n, d in layout.leaves for i in range(n.bit_length() - 1)]
    return all(not n & n - 1 for n, _ in layout.leaves) and sum(steps) < 2 * max(steps, default=1) and \
        len(set(steps) - {0}) == len([x for x in steps if x])


def test_composition_goes_on_in_the_last_mode_beyond_the_size() -> None:
    assert composition(L("(4,2):(1,10)"), L("4:4")) == L("4:10")


@pytest.mark.parametrize(("layout", "cotarget", "result"), [
    ("4:1", 24, "6:4"), ("6:4", 24, "4:1"), ("(4,6):(1,4)", 24, "1:0"), ("4:2", 24, "(2,3):(1,8)"),
    ("(2,4):(1,6)", 24, "3:2"), ("(2,2):(1,6)", 24, "(3,2):(2,12)"), ("4:32", 256, "(32,2):(1,128)")])
def test_complement(layout: str, cotarget: int, result: str) -> None:
    assert str(complement(L(layout), cotarget)) == result


@pytest.mark.parametrize("cotarget", [1, 7, 24, (4, 8)])
def test_a_layout_and_its_complement_give_each_index_once(cotarget: int) -> None:
    found = 0
    for layout in small():
        moving = filter_zeros(layout)
        injective = len(set(moving.image())) == moving.size
        try:
            rest = complement(layout, cotarget)
        except LayoutError as error:
            assert "isn't injective" in str(error)
            continue
        assert injective
        found += 1
        ordered = rest.image()
        assert ordered == sorted(set(ordered))
        sums = [i + j for i in set(layout.image()) for j in ordered]
        assert len(set(sums)) == len(sums)
        by_stride = sorted((d, n) for n, d in moving.leaves if n > 1)
        if all(b[0] % (a[0] * a[1]) == 0 for a, b in pairwise(by_stride)):
            assert sorted(sums) == list(range(len(sums))) and len(sums) >= size(cotarget)
    assert found > 200


@pytest.mark.parametrize("seed", range(60))
def test_inverses_undo(seed: int) -> None:
    layout = compact(random.Random(seed))
    right, left = right_inverse(layout), left_inverse(layout)
    assert right.size == layout.size
    assert [layout(right(i)) for i in range(layout.size)] == list(range(layout.size))
    assert [left(layout(i)) for i in range(layout.size)] == list(range(layout.size))


def test_the_right_inverse_ends_where_the_image_has_a_hole() -> None:
    assert right_inverse(L("(4,8):(8,1)")) == L("(8,4):(4,1)")
    assert right_inverse(L("(4,8):(1,5)")) == L("4:1")
    for layout in small():
        found = right_inverse(layout)
        assert [layout(found(i)) for i in range(found.size)] == list(range(found.size))


def test_the_left_inverse_of_an_injective_layout() -> None:
    done = 0
    for layout in small(strides=(1, 2, 3, 4, 6, 8)):
        try:
            found = left_inverse(layout)
        except LayoutError:
            continue
        done += 1
        assert [found(i) for i in layout.image()] == list(range(layout.size))
    assert done > 100
    with pytest.raises(LayoutError, match="isn't injective"):
        left_inverse(L("(2,2):(1,1)"))


@pytest.mark.parametrize(("a", "b", "width"), [
    ("(8,8):(1,8)", "(8,8):(1,8)", 64), ("(8,8):(1,16)", "(8,8):(1,8)", 8), ("(8,8):(8,1)", "(8,8):(1,8)", 1),
    ("(8,8):(8,1)", "(8,8):(16,1)", 8), ("(4,8):(1,4)", "((2,2),8):((1,16),2)", 2)])
def test_how_wide_a_copy_may_be(a: str, b: str, width: int) -> None:
    assert max_common_vector(L(a), L(b)) == width
    source, target = L(a), L(b)
    place = right_inverse(target)
    assert [source(place(i)) for i in range(width)] == [target(place(i)) for i in range(width)] == list(range(width))


def test_filtering_keeps_the_profile() -> None:
    assert filter_zeros(L("(4,(3,2)):(1,(0,4))")) == L("(4,(1,2)):(1,(0,4))")


def test_recasting_names_the_same_bytes() -> None:
    assert recast_layout(L("(8,8):(1,8)"), 16, 32) == L("(4,8):(1,4)")
    assert recast_layout(L("(4,8):(1,4)"), 32, 8) == L("(16,8):(1,16)")
    assert recast_layout(L("(8,8):(8,1)"), 16, 128) == L("(8,1):(1,1)")
    for source in ("(8,8):(1,8)", "(8,4):(16,1)", "(16,(2,2)):(1,(32,64))"):
        layout = L(source)
        wide = recast_layout(layout, 16, 64)
        bytes_of = {2 * i + k for i in layout.image() for k in range(2)}
        assert {8 * i + k for i in wide.image() for k in range(8)} == bytes_of
        assert recast_layout(wide, 64, 16).size == layout.size
    with pytest.raises(LayoutError, match="unable to recast layout"):
        recast_layout(L("3:1"), 16, 32)
    with pytest.raises(LayoutError, match="unable to recast layout"):
        recast_layout(L("4:2"), 32, 16)


def test_ordered_layouts() -> None:
    assert make_ordered_layout((2, 3, 4), (2, 0, 1)) == L("(2,3,4):(12,1,3)")
    assert make_ordered_layout(((2, 3), 4), (1, 0)) == L("((2,3),4):((4,8),1)")
    with pytest.raises(LayoutError, match="same rank"):
        make_ordered_layout((2, 3), (0, 1, 2))


def test_a_layout_is_its_modes() -> None:
    layout = L("((2,2),4):((1,8),2)")
    assert make_layout(*layout.modes) == layout
    assert (layout.size, layout.cosize, layout.rank) == (16, 16, 2)
    assert layout((1, 0), 3) == 7
