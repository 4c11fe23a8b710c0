"""Parts of a canonical tile that CTAs load for each other lie one behind the other, and are canonical tiles themselves."""
from __future__ import annotations

from itertools import product
from math import prod

import pytest

from tileiras.layout.descriptors import byte_offset, part_of
from tileiras.layout.shared import canonical


@pytest.mark.parametrize("shape, major, swizzle, count, cuts", [
    ((64, 128), 1, 128, 2, (1, 2)), ((64, 128), 1, 128, 4, (2, 2)), ((64, 64), 1, 128, 2, (2, 1)), ((64, 64), 0, 128, 4, (1, 4)),
    ((256, 32), 1, 64, 8, (8, 1)), ((2, 64, 64), 2, 128, 2, (2, 1, 1)), ((32, 256), 1, 64, 16, (2, 8))])
def test_every_element_of_every_part(shape: tuple[int, ...], major: int, swizzle: int, count: int, cuts: tuple[int, ...]) -> None:
    tile = canonical(shape, 16, major, swizzle)
    found = part_of(tile, count)
    assert found is not None and found[0] == cuts and prod(cuts) == count
    part = found[1]
    assert part.num_bytes * count == tile.num_bytes and part.num_bytes % tile.alignment == 0
    numbers = sorted(product(*(range(n) for n in cuts)), key=lambda at: (at[major], *at))       # panels, then rows
    for number, at in enumerate(numbers):
        for inside in product(*(range(0, n, max(n // 4, 1)) for n in part.shape)):
            whole = tuple(a * n + i for a, n, i in zip(at, part.shape, inside))
            assert byte_offset(tile, whole) == number * part.num_bytes + byte_offset(part, inside)


@pytest.mark.parametrize("shape, major, swizzle, count", [((8, 64), 1, 128, 2), ((64, 128), 1, 128, 256), ((4, 128), 1, 128, 4)])
def test_rows_of_a_swizzle_stay_together(shape: tuple[int, ...], major: int, swizzle: int, count: int) -> None:
    assert part_of(canonical(shape, 16, major, swizzle), count) is None
