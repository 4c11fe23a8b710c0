"""Lower masks whose rows are runs of columns: words of bits, one a column that the thread holds, and a test of each bit.

    column + offset < limit:      the limit's distance from the thread's first column: so many columns come before it
    as words:                     bmsk 0, (columns before it - 32 n)
    of several:                   and
    of a bit:                     and 1 << n, != 0: ptxas takes seven at once (R2P)

Where column + offset may wrap around, sums that go up from the first column's meet the limit first, or the turn to the smallest
number. They are less than the limit before they meet it or behind the turn in the one case, before they meet it and behind the
turn in the other: what two of three say: before the limit, behind the turn, the first sum isn't above the limit.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from tileiras.conversion.tileas_to_llvm.builder import F32, I32, Builder
from tileiras.conversion.tileas_to_llvm.elementwise.common import text
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, lowers
from tileiras.dialects import arith, nv_tileas
from tileiras.layout.convert import register_permutation
from tileiras.layout.runs import Runs, runs_of

Bit = tuple[SSAValue, int]
"""A word, and which of its bits."""
WORD = 32
MOST = (1 << WORD - 1) - 1
"""The largest number."""


@lowers("nv_tileas.mask_runs")
def mask_runs(low: Lowering, op: Any) -> None:
    b = low.b
    layout = low.layout(op.result)
    runs = runs_of(layout, op.dim.value.data)
    assert runs is not None, "mask-runs looks at layouts first"
    first = low.place(runs.lanes, runs.warps)
    terms = list(zip(op.terms[::2], op.terms[1::2], (p.data for p in op.predicates.data)))
    columns: dict[SSAValue, _Columns] = {}
    bits: dict[int, Bit] = {}
    for row in runs.rows:
        words: list[SSAValue] = []
        for offset, limit, predicate in terms:
            at = _of_row(low, offset, layout, row[0])
            if at not in columns:
                columns[at] = _Columns(low, runs, b.add(at, first), _known(low, offset))
            more = columns[at].words(_of_row(low, limit, layout, row[0]), predicate)
            words = [b.and_(x, y) for x, y in zip(words, more)] if words else more
        for place, register in enumerate(row):
            bits[register] = words[place // WORD], place % WORD
    low.bits[op.result] = [bits[r] for r in range(layout.num_regs)]
    low.set(op.result, [b.icmp("ne", b.and_(word, b.i32(1 << n)), b.i32(0)) for word, n in low.bits[op.result]])


def choose(low: Lowering, op: Any, bits: Sequence[Bit]) -> None:
    """A selection by words' bits; what is selected of two constants to be added to a tile waits for that, since it would take as
    many registers as the tile."""
    result, use = op.results[0], op.results[0].first_use
    user = use.operation if use is not None and result.has_one_use() else None
    if isinstance(user, arith.Addf) and user.parent is op.parent and "ftz" not in user.properties and \
            text(user, "rounding") == "nearest_even" and result.type.element_type == F32 and \
            all(isinstance(v.owner, (arith.Constant, nv_tileas.Splat)) for v in op.operands[1:]) and \
            not any(v in low.late_choices for v in user.operands):
        low.late_choices[result] = op
        return
    low.set(result, [_chosen(low.b, bit, x, y) for bit, x, y in zip(bits, *(low.regs(v) for v in op.operands[1:]))])


def add_chosen(low: Lowering, op: Any) -> None:
    """A sum of a tile and what bits choose: choice and sum of each two elements stand together."""
    b = low.b
    lhs, rhs = op.operands
    select, other = (low.late_choices[lhs], rhs) if lhs in low.late_choices else (low.late_choices[rhs], lhs)
    bits, values = low.bits[select.operands[0]], low.regs(other)
    x, y = (low.regs(v) for v in select.operands[1:])
    out: list[SSAValue] = []
    for n in range(0, len(values), 2):
        pair = [_chosen(b, bits[i], x[i], y[i]) for i in (n, n + 1)]
        out += b.unpack(b.binary("fadd", b.pack(values[n:n + 2]), b.pack(pair)))
    low.set(op.results[0], out)


def _chosen(b: Builder, bit: Bit, x: SSAValue, y: SSAValue) -> SSAValue:
    """x where a bit is set, else y. Each bit's test stands before its choice, in a form that ptxas knows: LLVM would shift a word
    for each bit, and of all tests before all choices there aren't predicates enough."""
    word, n = bit
    return b.select(b.nvvm("test.bit", [word, b.i32(1 << n)])[0], x, y)


def _of_row(low: Lowering, v: SSAValue, layout: Any, register: int) -> SSAValue:
    """The number, or the row's element of a tile, that a register of the mask is compared by."""
    if v.type == I32:
        return low.scalar(v)
    mapping = register_permutation(low.layout(v), layout.project(low.layout(v).shape))
    assert mapping is not None
    return low.regs(v)[mapping[register]]


def _known(low: Lowering, v: SSAValue) -> int | None:
    """The signed number that a scalar is known to be."""
    found = low.b.known(low.scalar(v)) if v.type == I32 else None
    return None if found is None else found - (found >> WORD - 1 << WORD)


class _Columns:
    """A row's columns in a thread, from `first` on, which its offset is part of; `offset`: what is known of that."""

    def __init__(self, low: Lowering, runs: Runs, first: SSAValue, offset: int | None) -> None:
        self.b, self.runs, self.first = low.b, runs, first
        self.extent = 1 << runs.bits
        wraps = offset is None or offset + runs.most_to_the_right + self.extent - 1 > MOST
        self.turned = self._others(self._ones(self._to(low.b.sub(low.b.i32(MOST), first)))) if wraps else None

    def words(self, limit: SSAValue, predicate: str) -> list[SSAValue]:
        """Bits of the columns for which the sum is so to the limit."""
        b = self.b
        excluded = predicate in ("slt", "sge")
        distance = b.sub(limit, self.first)
        run = self._at_most(distance, self.extent) if excluded else self._to(distance)
        begins = b.icmp("sge", limit, self.first)
        if self.turned is None:
            words = self._ones(b.select(begins, run, b.i32(0)))
        else:
            first = b.cast("sext", begins, I32)
            words = [self._majority(w, t, first) for w, t in zip(self._ones(run), self.turned)]
        return words if predicate in ("slt", "sle") else self._others(words)

    def _majority(self, x: SSAValue, y: SSAValue, z: SSAValue) -> SSAValue:
        """Bits that two of three have set, at least."""
        b = self.b
        return b.or_(b.and_(x, b.or_(y, z)), b.and_(y, z))

    def _others(self, words: list[SSAValue]) -> list[SSAValue]:
        return [self.b.xor(w, self.b.i32(-1)) for w in words]

    def _to(self, last: SSAValue) -> SSAValue:
        """How many columns there are up to one, which may lie behind the row's end."""
        return self.b.add(self._at_most(last, self.extent - 1), self.b.i32(1))

    def _at_most(self, n: SSAValue, most: int) -> SSAValue:
        return self.b.call("llvm.umin.i32", I32, [n, self.b.i32(most)])

    def _ones(self, end: SSAValue) -> list[SSAValue]:
        """Bits of the columns before `end`, which is 0 to the row's extent."""
        b, runs = self.b, self.runs
        if runs.gap > runs.low:
            groups = b.shl(b.lshr(end, runs.gap), runs.low)
            end = b.add(groups, self._at_most(b.and_(end, b.i32((1 << runs.gap) - 1)), 1 << runs.low))
        words = []
        for start in range(0, runs.count, WORD):
            left = b.call("llvm.smax.i32", I32, [b.sub(end, b.i32(start)), b.i32(0)]) if start else end
            words.append(b.nvvm("bmsk.clamp", [left])[0])
        return words
