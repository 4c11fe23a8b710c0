"""Which columns of tensor memory accumulators have: what doesn't live at the same time may share them.

As shared memory is planned (shared_memory.py): ops are numbered in program order, an accumulator lives from its alloc to its last
use, to the end of the loop around that if the alloc stands outside; each gets the first columns where nothing lives. What a product
reads from tensor memory it may still read in its loop's next iteration: no thread stores there as long as the loop runs, but other
products, which are done after it, may write there, also where nobody has waited for it yet.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Operation

from tileiras.analysis.program_slice import YIELD, loop_around
from tileiras.analysis.shared_memory import number_ops, reach
from tileiras.analysis.tensor_dots import is_rows
from tileiras.analysis.warpgroup_dots import is_zero
from tileiras.dialects.element import REGISTER_BYTES, element_bytes
from tileiras.dialects.nv_tileas import TmemType
from tileiras.layout.atoms.umma import COLUMNS

WAIT = "nv_tileas.consumer_wait"
STORES = ("nv_tileas.store_tmem", "nv_tileas.scale_tmem", "nv_tileas.add_tmem")
LEAST_COLUMNS = 32
"""Of an allocation, which is a power of two (PTX ISA, tcgen05.alloc)."""
MOST_TRIES = 4096
"""Places that are looked at where accumulators don't fit in the order in which they begin."""


def allocated(columns: int) -> int:
    """Columns that a block which needs so many asks for."""
    return max(LEAST_COLUMNS, 1 << (columns - 1).bit_length())


@dataclass(frozen=True)
class TensorPlan:
    """`offsets`: first column of each alloc_tensor's accumulator. `columns`: that the block needs."""

    offsets: dict[Operation, int]
    columns: int

    @property
    def allocation(self) -> int:
        """Columns to ask for."""
        return allocated(self.columns)

    @property
    def fits(self) -> bool:
        return self.columns <= COLUMNS


class ColumnsByLoop:
    """Columns of tensor memory that products take, by the loop that they stand in. Those of loops one behind the other are taken
    one after the other; what a loop leaves in its accumulators is loaded behind it."""

    def __init__(self) -> None:
        self._inside: dict[Operation | None, int] = {}
        self._taken: list[tuple[Operation, int]] = []
        self._needing: dict[Operation, set[Operation]] = {}

    def add(self, op: Operation, columns: int) -> None:
        loop = loop_around(op)
        self._inside[loop] = self._inside.get(loop, 0) + columns
        if columns:
            self._taken.append((op, columns))

    def fits_in_turn(self, op: Operation, columns: int) -> bool:
        """Whether one more product finds columns if those have theirs in turn of which one needs what the other computes (a
        recurrence's products)."""
        taken = [*self._taken, (op, columns)]
        for dot, _ in taken:
            if dot not in self._needing:
                self._needing[dot] = _needing(dot)
        needing = [self._needing[dot] for dot, _ in taken]
        loops = [_loops_around(loop_around(dot)) for dot, _ in taken]

        def meets(a: int, b: int) -> bool:
            apart = loops[a][0] not in loops[b] and loops[b][0] not in loops[a]
            return not (apart or taken[b][0] in needing[a] or taken[a][0] in needing[b])
        return _searched([n for _, n in taken], meets) is not None

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


def _needing(dot: Operation) -> set[Operation]:
    """The products that begin anew behind one, in its block, and need what it computes: threads have loaded that by then, and
    nothing of it stays. None of one in whose accumulator a loop or another product goes on."""
    if not _is_alone(dot):
        return set()
    block = dot.parent
    assert block is not None
    needing, pending = {dot}, list(dot.results)
    while pending:
        for use in pending.pop().uses:
            user = block.find_ancestor_op_in_block(use.operation)
            if user is not None and user not in needing:
                needing.add(user)
                pending += user.results
    return {op for op in needing if op is not dot and op.name == dot.name and _is_alone(op)}


def _is_alone(dot: Operation) -> bool:
    """Whether a product begins anew, and only threads want what it computes."""
    uses = dot.results[0].uses if dot.results else ()
    return is_zero(dot.operands[2]) and not any(
        use.operation.name == YIELD or (use.operation.name == dot.name and use.index == 2) for use in uses)


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
    lives = sorted((_Life.of(op, number, last_inside) for op in allocs), key=lambda life: (life.narrow[0], -life.columns))
    places = _in_order(lives)
    if max(at + life.columns for at, life in zip(places, lives)) > COLUMNS:
        places = _searched([life.columns for life in lives], lambda a, b: lives[a].meets(lives[b])) or places
    return TensorPlan({life.op: at for at, life in zip(places, lives)}, max(at + life.columns for at, life in zip(places, lives)))


def _in_order(lives: list[_Life]) -> list[int]:
    """Each at the first columns where nothing lives."""
    places: list[int] = []
    for life in lives:
        at = 0
        for low, high in sorted((first, first + other.columns) for first, other in zip(places, lives) if life.meets(other)):
            if at + life.columns <= low:
                break
            at = max(at, high)
        places.append(at)
    return places


def _searched(columns: Sequence[int], meets: Callable[[int, int], bool]) -> list[int] | None:
    """Places for so many columns each, those that meet apart, as far as all there are; None where none are found. Each begins at
    a multiple of its own columns, the widest first: of powers of two nothing is left between them."""
    order = sorted(range(len(columns)), key=lambda i: -columns[i])
    if any(_at_once(first, order, columns, meets) > COLUMNS for first in (order[0], len(columns) - 1)):
        return None
    places: dict[int, int] = {}
    tries = MOST_TRIES

    def place(rank: int) -> bool:
        nonlocal tries
        if rank == len(order):
            return True
        i = order[rank]
        taken = [(at, at + columns[j]) for j, at in places.items() if meets(i, j)]
        for at in range(0, COLUMNS - columns[i] + 1, columns[i]):
            if all(high <= at or at + columns[i] <= low for low, high in taken):
                tries -= 1
                places[i] = at
                if tries >= 0 and place(rank + 1):
                    return True
                del places[i]
        return False
    return [places[i] for i in range(len(columns))] if place(0) else None


def _at_once(first: int, order: Sequence[int], columns: Sequence[int], meets: Callable[[int, int], bool]) -> int:
    """Columns of some that all meet, `first` among them: how many there must be, at least; no more are counted than there are."""
    together, total = [first], columns[first]
    for i in order:
        if total > COLUMNS:
            break
        if i != first and all(meets(i, j) for j in together):
            together.append(i)
            total += columns[i]
    return total


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
        loop, is_read = loop_around(op), is_rows(op.results[0])
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
