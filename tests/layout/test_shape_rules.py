"""Layouts for which taking a tile apart or putting it together only renames registers."""
from __future__ import annotations

import itertools

import numpy as np

from tileiras.layout.linear import LinearLayout, blocked
from tileiras.layout.shape_rules import bytes_of, cat_layout, elements_of, embed, extract_layout, slice_bits, without_bit


def held(layout: LinearLayout, tile: np.ndarray) -> dict[tuple[int, int], set[int]]:
    """What each (lane, warp) holds."""
    places = itertools.product(range(32), range(layout.num_warps))
    return {p: {int(tile.reshape(-1)[layout.index(r, *p)]) for r in range(layout.num_regs)} for p in places}


def test_slices_are_numbered_row_major() -> None:
    bits = slice_bits((8, 16), (2, 4))
    tile = np.arange(128).reshape(8, 16)
    for number in range(16):
        start = sum(bit for i, bit in enumerate(bits) if number >> i & 1)
        row, column = divmod(number, 4)
        assert tile.reshape(-1)[start] == tile[2 * row, 4 * column]
    part = blocked((2, 4), 1)
    inside = embed(part, (8, 16))
    assert [tile.reshape(-1)[inside.index(0, lane)] for lane in range(8)] == tile[:2, :4].reshape(-1).tolist()


def test_a_slice_by_register_bits_stays_where_it_is() -> None:
    whole = blocked((64, 64), 4, 4)
    tile = np.arange(4096).reshape(64, 64)
    part = extract_layout(whole, (16, 64))
    assert part is not None
    before = held(whole, tile)
    for number in range(4):
        after = held(part, tile[16 * number:16 * number + 16])
        assert all(after[p] <= before[p] for p in before)
    assert extract_layout(whole, (64, 32)) is None      # half a row is half the lanes


def test_concatenation_adds_a_register_bit() -> None:
    half = blocked((8, 32), 2, 2)
    tile = np.arange(512).reshape(8, 64)
    whole = cat_layout(half, 1)
    parts = [held(half, tile[:, :32]), held(half, tile[:, 32:])]
    assert all(v == parts[0][p] | parts[1][p] for p, v in held(whole, tile).items())
    assert without_bit(whole, 1).compact_regs() == half


def test_bytes_stay_with_their_element() -> None:
    elements = blocked((64,), 1, 2)
    data = np.arange(64, dtype=np.uint32)
    as_bytes = bytes_of(elements, 4)
    for lane in range(32):
        assert [data.view(np.uint8)[as_bytes.index(r, lane)] for r in range(8)] == \
            data[[elements.index(r, lane) for r in range(2)]].view(np.uint8).tolist()
    assert elements_of(as_bytes, 4) == elements
    assert elements_of(blocked((256,), 1, 1), 4) is None
