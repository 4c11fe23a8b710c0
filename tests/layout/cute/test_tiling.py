"""Divides and products: the public documentation's worked examples, and by enumeration that nothing is lost."""
from __future__ import annotations

import random

import pytest

from tests.layout.cute.examples import compact
from tileiras.layout.cute.algebra import Layout, composition, parse_layout
from tileiras.layout.cute.tiling import (
    blocked_product,
    dice_layout,
    flat_divide,
    flat_product,
    group_modes,
    local_partition,
    local_tile,
    logical_divide,
    logical_product,
    raked_product,
    select,
    slice_layout,
    tile_to_shape,
    tiled_divide,
    tiled_product,
    zipped_divide,
    zipped_product,
)
from tileiras.layout.cute.tuples import LayoutError


def L(source: str) -> Layout:
    return parse_layout(source)


A2 = L("(9,(4,8)):(59,(13,1))")
T2 = (L("3:3"), L("(2,4):(1,8)"))


def test_divides() -> None:
    assert logical_divide(L("(4,2,3):(2,1,8)"), L("4:2")) == L("((2,2),(2,3)):((4,1),(2,8))")
    assert logical_divide(L("128:1"), 32) == L("(32,4):(1,32)")
    assert logical_divide(A2, T2) == L("((3,3),((2,4),(2,2))):((177,59),((13,2),(26,1)))")
    assert zipped_divide(A2, T2) == L("((3,(2,4)),(3,(2,2))):((177,(13,2)),(59,(26,1)))")
    assert tiled_divide(A2, T2) == L("((3,(2,4)),3,(2,2)):((177,(13,2)),59,(26,1))")
    assert flat_divide(A2, T2) == L("(3,(2,4),3,(2,2)):(177,(13,2),59,(26,1))")
    assert tiled_divide(L("(128,128):(1,128)"), (64, 64)) == L("((64,64),2,2):((1,128),64,8192)")
    assert logical_divide(L("(128,128):(1,128)"), (32, 16)) == L("((32,4),(16,8)):((1,32),(128,2048))")
    assert zipped_divide(L("(8,8,3):(1,8,64)"), (4, 2)) == L("((4,2),(2,4,3)):((1,8),(4,16,64))")


def test_the_tile_is_the_composition() -> None:
    assert zipped_divide(A2, T2)[0] == composition(A2, T2)


@pytest.mark.parametrize("seed", range(40))
def test_a_divided_layout_has_the_same_elements(seed: int) -> None:
    rng = random.Random(seed)
    layout = compact(rng, (2, 4, 8))
    tiler = tuple(rng.choice([t for t in (1, 2, 4) if mode.size % t == 0]) for mode in layout.modes)
    for divide in (logical_divide, zipped_divide, tiled_divide, flat_divide):
        assert sorted(divide(layout, tiler).image()) == sorted(layout.image())
    zipped = zipped_divide(layout, tiler)
    tile = [layout(c) for c in Layout(tiler).image()] if len(tiler) == 1 else None
    assert zipped[0].size == Layout(tiler).size
    if tile is not None:
        assert zipped[0].image() == tile


def test_products() -> None:
    assert logical_product(L("(2,2):(4,1)"), 6) == L("((2,2),(2,3)):((4,1),(2,8))")
    assert logical_product(L("(2,2):(4,1)"), L("(4,2):(2,1)")) == L("((2,2),(4,2)):((4,1),(8,2))")
    assert logical_product(L("128:1"), L("4:32")) == L("(128,4):(1,4096)")
    assert logical_product(L("128:1"), L("4:1")) == L("(128,4):(1,128)")
    block, tiles = L("(2,5):(5,1)"), L("(3,4):(1,3)")
    assert blocked_product(block, tiles) == L("(6,(5,4)):(5,(1,30))")
    assert raked_product(block, tiles) == L("((3,2),(4,5)):((10,5),(30,1))")
    a, t = L("(4,8):(1,4)"), (2, 3)
    assert logical_product(a, t) == L("((4,2),(8,3)):((1,4),(4,1))")
    assert zipped_product(a, t) == L("((4,8),(2,3)):((1,4),(4,1))")
    assert tiled_product(a, t) == L("((4,8),2,3):((1,4),4,1)")
    assert flat_product(a, t) == L("(4,8,2,3):(1,4,4,1)")


@pytest.mark.parametrize("seed", range(40))
def test_a_product_repeats_its_block_disjointly(seed: int) -> None:
    rng = random.Random(seed)
    block, tiles = compact(rng), compact(rng)
    product = logical_product(block, tiles)
    assert product[0].image() == block.image()
    assert sorted(product.image()) == list(range(block.size * tiles.size))
    for combine in (blocked_product, raked_product):
        assert sorted(combine(block, tiles).image()) == sorted(product.image())


def test_tiles_until_a_shape_is_covered() -> None:
    atom = L("(8,64):(64,1)")
    assert tile_to_shape(atom, (128, 128)) == L("(128,(64,2)):(64,(1,8192))")
    assert tile_to_shape(atom, (128, 128), (1, 0)) == L("((8,16),(64,2)):((64,1024),(1,512))")
    with pytest.raises(LayoutError, match="invalid input types for tile_to_shape"):
        tile_to_shape(atom, 128)


def test_tiles_and_partitions_by_coordinate() -> None:
    layout = L("(8,16):(16,1)")
    tile, start = local_tile(layout, (4, 8), (1, 1))
    assert start == 4 * 16 + 8 and tile == L("(4,8):(16,1)")
    rows, start = local_tile(layout, (4, 8), (1, None))
    assert start == 4 * 16 and rows == L("(4,8,2):(16,1,8)")
    part, start = local_partition(layout, L("(2,4):(4,1)"), 6)
    # thread 6 of a row-major 2 x 4 grid is at (1, 2)
    assert start == 16 + 2 and part == L("(4,4):(32,4)")
    with pytest.raises(LayoutError, match="Failed to dice"):
        local_tile(layout, (4, 8), (2, 0))
    with pytest.raises(LayoutError, match=r"expected a coordinate of rank 2 but got \(0,0,0\)"):
        local_tile(layout, (4, 8), (0, 0, 0))
    with pytest.raises(LayoutError, match="unable to construct a coordinate for local_partition"):
        local_partition(layout, L("(2,4):(4,1)"), 8)


def test_slices_keep_underscores_and_dices_numbers() -> None:
    layout = L("((2,3),(4,5)):((1,2),(6,24))")
    assert slice_layout(layout, ((None, 1), (2, None))) == (L("(2,5):(1,24)"), 2 + 12)
    assert dice_layout(layout, ((None, 1), (2, None))) == L("(3,4):(2,6)")
    assert slice_layout(layout, (3, None)) == (L("((4,5)):((6,24))"), 1 + 2)
    with pytest.raises(LayoutError, match=r"failed to construct a valid coordinate from \(1,2,3\)"):
        slice_layout(layout, (1, 2, 3))


def test_modes_are_grouped_and_selected() -> None:
    layout = L("(2,3,4):(1,2,6)")
    assert group_modes(layout, 0, 2) == L("((2,3),4):((1,2),6)")
    assert group_modes(layout, -2, 3) == L("(2,(3,4)):(1,(2,6))")
    assert select(layout, (2, 0)) == L("(4,2):(6,1)")
    for begin, end, why in [(3, 3, r"but got begin \[3\] and rank \[3\]"), (0, 4, r"but got end \[4\] and rank \[3\]"),
                            (2, 1, r"expects begin < end, but got begin \[2\] \(\[2\]\) and end \[1\] \(\[1\]\)")]:
        with pytest.raises(LayoutError, match=why):
            group_modes(layout, begin, end)
    for chosen in ((0, 0), (3,)):
        with pytest.raises(LayoutError, match=r"Invalid results for select\(\). Modes: \["):
            select(layout, chosen)
