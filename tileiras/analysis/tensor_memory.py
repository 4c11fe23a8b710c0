"""Which columns of tensor memory accumulators have: what doesn't live at the same time may share them.

As shared memory is planned (shared_memory.py): ops are numbered in program order, an accumulator lives from its alloc to its last
use, to the end of the loop around that if the alloc stands outside; each gets the first columns where nothing lives. What a product
reads from tensor memory it may still read in its loop's next iteration: no thread stores there as long as the loop runs, but other
products, which are done after it, may write there, also where nobody has waited for it yet.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.ir import Operation

from tileiras.analysis.program_slice import loop_around
from tileiras.analysis.shared_memory import number_ops, reach
from tileiras.dialects.element import REGISTER_BYTES, element_bytes
from tileiras.dialects.nv_tileas import TmemType
from tileiras.layout.atoms.umma import COLUMNS

WAIT = "nv_tileas.consumer_wait"
STORES = ("nv_tileas.store_tmem", "nv_tileas.scale_tmem")
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


class ColumnsByLoop:
    """Columns of tensor memory that products take, by the loop that they stand in. Those of loops one behind the other are taken
    one after the other; what a loop leaves in its accumulators is loaded behind it."""

    def __init__(self) -> None:
        self._inside: dict[Operation | None, int] = {}

    def add(self, op: Operation, columns: int) -> None:
        loop = loop_around(op)
        self._inside[loop] = self._inside.get(loop, 0) + columns

    def beside(self, op: Operation) -> int:
        """Columns that are taken where an op stands: in loops around it and in those inside the same one."""
        mine = _loops_around(loop_around(op))
        return sum(n for loop, n in self._inside.items() if loop in mine or mine[0] in _loops_around(loop))

    def most(self) -> int:
        """Columns that are taken at a time."""
        in_turn = [n for loop, n in self._inside.items() if loop is not None]
        return self._inside.get(None, 0) + max(in_turn, default=0)


def _loops_around(loop: Operation | None) -> list[Operation | None]:
    """A loop and those around it, None for the function last."""
    out = [loop]
    while out[-1] is not None:
        out.append(loop_around(out[-1]))
    return out


def rows_columns(dot: Any) -> int:
    """Of a product's first operand, where the tensor core reads it from its own memory."""
    t = dot.operands[0].type
    return t.get_shape()[-1] * element_bytes(t.element_type) // REGISTER_BYTES      # type: ignore[no-any-return]


def plan_tensor_memory(func: Any) -> TensorPlan | None:
    """Columns for all accumulators of a function, or of an agent's region; None where there are none."""
    allocs = [op for op in func.walk() if op.name == "nv_tileas.alloc_tensor" and isinstance(op.results[0].type, TmemType)]
    if not allocs:
        return None
    number, last_inside = number_ops(func if isinstance(func, Operation) else func.parent)
    lives = [_Life.of(op, number, last_inside) for op in allocs]
    offsets: dict[Operation, int] = {}
    total = 0
    placed: list[tuple[int, int, _Life]] = []
    for life in sorted(lives, key=lambda life: (life.narrow[0], -life.columns)):
        at = 0
        for low, high in sorted((first, behind) for first, behind, other in placed if life.meets(other)):
            if at + life.columns <= low:
                break
            at = max(at, high)
        placed.append((at, at + life.columns, life))
        offsets[life.op] = at
        total = max(total, at + life.columns)
    return TensorPlan(offsets, total)


@dataclass(frozen=True)
class _Life:
    """Of one accumulator or operand: first and last op, for products (`narrow`) and for what threads store (`wide`); whether
    threads store to it."""

    op: Operation
    columns: int
    narrow: tuple[int, int]
    wide: tuple[int, int]
    stored: bool

    @staticmethod
    def of(op: Operation, number: dict[Operation, int], last_inside: dict[Operation, int]) -> _Life:
        t: Any = op.results[0].type
        loop, is_read = loop_around(op), t.packed.data > 1
        uses = [use.operation for use in op.results[0].uses]
        lasting = [user for user in uses if not (is_read and loop is not None and user.name == WAIT and loop_around(user) is loop)]
        narrow = number[op], int(max((reach(op, user, last_inside) for user in lasting), default=number[op]))
        wide = narrow
        if is_read and loop is not None:
            wide = min(number[loop], narrow[0]), int(max(last_inside[loop], narrow[1]))
        return _Life(op, t.columns, narrow, wide, any(user.name in STORES for user in uses))

    def meets(self, other: _Life) -> bool:
        """Whether the two must not share columns."""
        mine = self.wide if other.stored else self.narrow
        yours = other.wide if self.stored else other.narrow
        return mine[0] <= yours[1] and yours[0] <= mine[1]
