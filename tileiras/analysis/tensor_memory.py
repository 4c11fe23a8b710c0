"""Which columns of tensor memory accumulators have: what doesn't live at the same time may share them.

As shared memory is planned (shared_memory.py): ops are numbered in program order, an accumulator lives from its alloc to its last
use, to the end of the loop around that if the alloc stands outside; each gets the first columns where nothing lives.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.ir import Operation

from tileiras.analysis.shared_memory import number_ops, reach
from tileiras.dialects.nv_tileas import TmemType
from tileiras.layout.atoms.umma import COLUMNS

LEAST_COLUMNS = 32
"""Of an allocation, which is a power of two (PTX ISA, tcgen05.alloc)."""


@dataclass(frozen=True)
class TensorPlan:
    """`offsets`: first column of each alloc_tensor's accumulator. `columns`: that the block needs."""

    offsets: dict[Operation, int]
    columns: int

    @property
    def allocation(self) -> int:
        """Columns to ask for."""
        return max(LEAST_COLUMNS, 1 << (self.columns - 1).bit_length())

    @property
    def fits(self) -> bool:
        return self.columns <= COLUMNS


def plan_tensor_memory(func: Operation) -> TensorPlan | None:
    """Columns for all accumulators of a function; None where there are none."""
    allocs = [op for op in func.walk() if op.name == "nv_tileas.alloc_tensor" and isinstance(op.results[0].type, TmemType)]
    if not allocs:
        return None
    number, last_inside = number_ops(func)
    lives = []
    for op in allocs:
        t: Any = op.results[0].type
        end = max((reach(op, use.operation, last_inside) for use in op.results[0].uses), default=number[op])
        lives.append((number[op], end, t.columns, op))
    offsets: dict[Operation, int] = {}
    total = 0
    placed: list[tuple[int, int, int, int]] = []
    for start, end, columns, op in sorted(lives, key=lambda life: (life[0], -life[2])):
        at = 0
        for low, high in sorted((first, behind) for first, behind, _, until in placed if until >= start):
            if at + columns <= low:
                break
            at = max(at, high)
        placed.append((at, at + columns, start, end))
        offsets[op] = at
        total = max(total, at + columns)
    return TensorPlan(offsets, total)
