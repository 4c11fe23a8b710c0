"""Which columns does a thread hold of each of its rows? A few words of bits say of all of them what a run of columns selects.

Of a wgmma's sums, 64 x 128:     columns 0 1 8 9 16 17 ... 120 121, and of lane l all of them 2 (l mod 4) to the right
Of an accumulator's rows:        columns 0 1 2 ... 127

A thread's columns, from its first one on, are the low `low` bits of a number and those from `gap` on: how many of them come before
a column is a shift and a minimum.
"""
from __future__ import annotations

from dataclasses import dataclass

from tileiras.layout.linear import LinearLayout, dim_bits


@dataclass(frozen=True)
class Runs:
    """`low`, `gap`: of a column's bits (of its distance from the thread's first one), those below `low` and those from `gap` to
    `bits` are told by the register. `rows`: the registers of each row of the thread, by column. `lanes`, `warps`: what their bits
    add to the first column."""

    low: int
    gap: int
    bits: int
    rows: tuple[tuple[int, ...], ...]
    lanes: tuple[int, ...]
    warps: tuple[int, ...]

    @property
    def count(self) -> int:
        """Columns of a row that a thread holds."""
        return len(self.rows[0])

    @property
    def most_to_the_right(self) -> int:
        """How far a thread's first column may lie behind the tile's first one."""
        return sum(set(self.lanes) | set(self.warps))


def runs_of(layout: LinearLayout, dim: int) -> Runs | None:
    """None where registers don't tell columns (indices along `dim`) so."""
    first, bits = dim_bits(layout.shape)[dim]
    mask = (1 << bits) - 1 << first
    along = [i for i, basis in enumerate(layout.reg) if basis & mask]
    told = sorted(layout.reg[i] >> first for i in along)
    others = [basis & mask for basis in (*layout.lane, *layout.warp)]
    if any(basis & ~mask or basis & basis - 1 for basis in (layout.reg[i] for i in along)) or len(set(told)) < len(told) or \
            any(basis & basis - 1 or basis >> first in told for basis in others):
        return None
    low = next((n for n in range(len(told)) if told[n] != 1 << n), len(told))
    gap = told[low].bit_length() - 1 if low < len(told) else low
    if told[low:] != [1 << gap + n for n in range(len(told) - low)]:
        return None
    rows: dict[int, list[int]] = {}
    chosen = sum(1 << i for i in along)
    for register in range(layout.num_regs):
        rows.setdefault(register & ~chosen, []).append(register)
    column = layout.reg_indices
    shift = len(others) - len(layout.warp)
    parts = [basis >> first for basis in others]
    return Runs(low, gap, gap + len(told) - low, tuple(tuple(sorted(row, key=lambda r: column[r] & mask)) for row in rows.values()),
                tuple(parts[:shift]), tuple(parts[shift:]))
