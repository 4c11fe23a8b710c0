"""Rows that meet sums in pieces: each piece reads its part of them."""
from __future__ import annotations

from tests.programs import programs

ROWS = "products_scaled_by_rows_and_columns_0"
"""Of 256 columns, with a row of f32 and one of f16."""
MOST = 168
"""Registers of a thread with which two blocks of five warps fit an SM."""


def test_a_row_that_is_widened_is_read_for_each_piece() -> None:
    """By each thread, not by shuffles from those that have a part: whole, it would take 256 registers."""
    programs.load_all()
    _, module = programs.compiled(programs.PROGRAMS[ROWS].launch(), "sm_100", 3)
    [entry] = module.entries
    assert entry.registers <= MOST and not entry.spill_stores
    assert module.ptx.count("shfl.sync") < 8
