"""Nested tuples: coordinates and indices against counting, profiles, text."""
from __future__ import annotations

import random

import pytest

from tests.layout.cute.examples import nested
from tileiras.layout.cute.algebra import Layout, parse_layout
from tileiras.layout.cute.tuples import (
    LayoutError,
    compatible,
    congruent,
    coordinates,
    crd2idx,
    flatten,
    idx2crd,
    shape_div,
    size,
    text,
    weakly_congruent,
)


@pytest.mark.parametrize("seed", range(20))
def test_coordinates_count_with_the_first_leaf_fastest(seed: int) -> None:
    shape = nested(random.Random(seed)).shape
    counted = list(coordinates(shape))
    assert len(counted) == size(shape)
    assert [idx2crd(i, shape) for i in range(size(shape))] == counted
    digits = [tuple(reversed(flatten(c))) for c in counted]
    assert digits == sorted(digits)


@pytest.mark.parametrize("seed", range(20))
def test_all_names_of_a_place_give_one_index(seed: int) -> None:
    layout = nested(random.Random(seed))
    for i, place in enumerate(coordinates(layout.shape)):
        expected = sum(c * d for c, (_, d) in zip(flatten(place), layout.leaves))
        assert layout(place) == layout(i) == expected
        if isinstance(place, tuple):
            numbers, rest = [], i
            for mode in layout.modes:
                numbers.append(rest % mode.size)
                rest //= mode.size
            assert layout(tuple(numbers)) == expected


def test_a_coordinate_of_more_structure_than_the_shape_is_refused() -> None:
    with pytest.raises(LayoutError, match=r"expected a coordinate of rank 3 but got \(1,2\)"):
        crd2idx((1, 2), (4, 8, 16), (128, 16, 1))
    with pytest.raises(LayoutError, match="expected a coordinate of rank 1 but got"):
        crd2idx((1, 2), 4, 1)


def test_profiles() -> None:
    assert congruent((1, (2, 3)), (4, (5, 6))) and not congruent((1, 2, 3), (1, (2, 3)))
    assert weakly_congruent(5, (2, 3)) and weakly_congruent((1, 2), (4, (5, 6))) and not weakly_congruent((1, 2), 6)
    assert compatible((6, 4), ((2, 3), 4)) and not compatible((6, 4), ((2, 2), 4)) and compatible(24, (6, 4))


def test_dividing_a_shape_by_a_number_of_elements() -> None:
    # the public documentation's examples of "dividing out" the first elements
    for shape, divisor, expected in [((6, 2), 2, (3, 2)), ((6, 2), 3, (2, 2)), ((6, 2), 6, (1, 2)), ((6, 2), 12, (1, 1)),
                                     ((3, 6, 2, 8), 3, (1, 6, 2, 8)), ((3, 6, 2, 8), 6, (1, 3, 2, 8)),
                                     ((3, 6, 2, 8), 9, (1, 2, 2, 8)), ((3, 6, 2, 8), 72, (1, 1, 1, 4))]:
        assert shape_div(shape, divisor) == (expected, 1)
    with pytest.raises(LayoutError, match="failed to perform a valid division of 6 by 4"):
        shape_div((6, 2), 4)


@pytest.mark.parametrize("source", ["8:1", "((2,2),4):((1,8),2)", "(6,2):(8,2)", "((),3):((),1)"])
def test_text_is_read_as_it_is_printed(source: str) -> None:
    assert str(parse_layout(source)) == source
    assert parse_layout(source.replace(",", " , ")) == parse_layout(source)


def test_a_layout_without_strides_is_compact() -> None:
    assert parse_layout("((2,3),4)") == Layout(((2, 3), 4), ((1, 2), 6))
    assert text((1, None, (2, 3))) == "(1,_,(2,3))"


@pytest.mark.parametrize(("source", "why"), [
    ("", "expected a number"), ("(1", "expected ','"), ("(1,", "expected a number"), ("4:1)", "unexpected trailing"),
    ("(2,2):1", "must be congruent"), ("4x:1", "expected ':'"), ("-4:1", "expected a number"), ("0:1", "invalid values"),
    ("(" * 1000, "nested too deep"), ("9" * 100 + ":1", "expected a number")])
def test_malformed_text_says_what_is_wrong(source: str, why: str) -> None:
    with pytest.raises(LayoutError, match=why):
        parse_layout(source)
