"""What layouts cost: sectors are counted as the machine moves them."""
from __future__ import annotations

from tileiras.analysis.layout_cost import FETCH_SLOTS, global_access
from tileiras.layout.convert import PASS_SLOTS
from tileiras.layout.placement import default_layout


def cost(per_thread: int, writes: bool) -> float:
    """Of 1024 f32 of four warps in accesses of 16 bytes, `per_thread` elements side by side."""
    return global_access(default_layout((1024,), 4, per_thread), 4, 0, 4, writes, False)


def test_accesses_that_write_half_sectors_write_each_sector_twice() -> None:
    """Eight elements a thread: both accesses of a warp touch each of its 32 sectors; four: 16 sectors each."""
    assert cost(8, True) - cost(4, True) >= 32 * FETCH_SLOTS


def test_half_sectors_are_read_once() -> None:
    """The second half comes from the L1 cache: what is dearer is only the lines that an access touches."""
    assert 0 < cost(8, False) - cost(4, False) < 32 * FETCH_SLOTS


def single(per_thread: int) -> float:
    """Of reading 1024 f32 of four warps one at a time, eight a thread, `per_thread` side by side."""
    return global_access(default_layout((1024,), 4, per_thread), 1, 0, 4, False, False)


def test_a_line_takes_the_port_as_long_as_a_pass_of_shared_memory() -> None:
    """Eight side by side: each of the eight accesses touches eight lines of 128 bytes; four side by side: four lines."""
    assert single(8) - single(4) == 8 * (8 - 4) * PASS_SLOTS


def test_an_access_to_one_line_takes_no_less_than_one_to_two() -> None:
    assert single(1) == single(2) < single(4)
