"""Under which condition on scalars has every element of a mask the same value?

    %cols = splat(%j * 64) + range 0..63        %cols < splat(%n):    all true where   %n - %j * 64 - 64 >= 0
    %rows = splat(%i) + range 0..127            %cols <= %rows:       all true where   %i - %j * 64 - 63 >= 0 and %i + 127 < 2^31

An integer tile is taken as a sum of scalars, each times a number, and an interval: what its elements would be if nothing wrapped
around. Arithmetic that wraps gives the same where the result is in its type's range, whatever happened on the way. So a comparison
is decided by the ends of two intervals, as long as the lower end of the smaller side and the upper end of the greater one are in
range; what lies between them then is, too.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, IntegerType, TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.axis_info import limits, width_of
from tileiras.dialects import arith

WIDEST = 32
"""Bits of the scalars and tiles that are looked at."""
MOST_TERMS, MOST_FACTOR, MOST_NUMBER = 8, 1 << 24, 1 << 40
"""Of a tile's sum: the difference of two such sums doesn't overflow 64 bits."""
MOST_DEPTH = 32
"""Ops between a mask and what it is made of."""
SAME = ("nv_tileaa.view", "nv_tileaa.broadcast", "nv_tileaa.permute", "nv_tileaa.splat", "nv_tileaa.assume")
"""Ops whose results have the elements of their operand."""
OPPOSITE = {"slt": "sge", "sle": "sgt", "sgt": "sle", "sge": "slt"}


@dataclass(frozen=True)
class Sum:
    """Every element is the sum of `terms` (scalars with factors) and a number from `lo` to `hi`."""

    terms: tuple[tuple[SSAValue, int], ...]
    lo: int
    hi: int

    def plus(self, other: Sum) -> Sum:
        found = dict(self.terms)
        for v, factor in other.terms:
            found[v] = found.get(v, 0) + factor
        return Sum(tuple((v, n) for v, n in found.items() if n), self.lo + other.lo, self.hi + other.hi)

    def times(self, n: int) -> Sum:
        ends = self.lo * n, self.hi * n
        return Sum(tuple((v, factor * n) for v, factor in self.terms if n), min(ends), max(ends))

    @property
    def is_scalar(self) -> bool:
        """A scalar as it is, and a number that may be added to it."""
        return len(self.terms) == 1 and self.terms[0][1] == 1


@dataclass(frozen=True)
class Least:
    """What must not be negative: a sum of scalars and a number."""

    terms: tuple[tuple[SSAValue, int], ...]
    number: int


Condition = Least | SSAValue
"""An i1 scalar stands for itself."""


def sum_of(v: SSAValue, depth: int = MOST_DEPTH) -> Sum | None:
    """None where the elements are no such sum."""
    op = v.owner
    is_tile = isinstance(v.type, TensorType)
    if depth == 0 or not isinstance(v.type.element_type if isinstance(v.type, TensorType) else v.type, IntegerType) or \
            not 1 < width_of(v.type) <= WIDEST:
        return None
    if isinstance(op, arith.Constant):
        return _constant(op)
    if not is_tile:
        return Sum(((v, 1),), 0, 0)
    if not isinstance(op, Operation):
        return None
    if op.name in SAME:
        return sum_of(op.operands[0], depth - 1)
    if op.name == "nv_tileaa.make_range":
        return Sum((), 0, v.type.get_shape()[0] - 1)     # type: ignore[attr-defined]
    if isinstance(op, (arith.Addi, arith.Subi, arith.Muli)):
        a, b = (sum_of(x, depth - 1) for x in op.operands)
        if a is None or b is None:
            return None
        found: Sum | None
        if isinstance(op, arith.Muli):
            a, b = (b, a) if not a.terms and a.lo == a.hi else (a, b)
            found = a.times(b.lo) if not b.terms and b.lo == b.hi else None
        else:
            found = a.plus(b if isinstance(op, arith.Addi) else b.times(-1))
        return found if found is not None and _is_small(found) else None
    return None


def _is_small(found: Sum) -> bool:
    return len(found.terms) <= MOST_TERMS and all(abs(n) <= MOST_FACTOR for _, n in found.terms) and \
        -MOST_NUMBER <= found.lo and found.hi <= MOST_NUMBER


def _constant(op: Any) -> Sum | None:
    value = op.properties["value"]
    if not isinstance(value, IntegerAttr):
        return None
    number, (least, greatest) = value.value.data, limits(width_of(op.results[0].type))
    return Sum((), number, number) if least <= number <= greatest else None


def conditions(mask: SSAValue, value: bool, depth: int = MOST_DEPTH) -> list[Condition] | None:
    """Conditions under which, all together, every element of a mask is `value`; None where nothing is known."""
    op = mask.owner
    if depth == 0 or not isinstance(op, Operation):
        return None
    if isinstance(op, arith.Constant):
        attr = op.properties["value"]
        return [] if isinstance(attr, IntegerAttr) and bool(attr.value.data) == value else None
    if op.name == "nv_tileaa.splat" and value:
        return [op.operands[0]]
    if op.name in SAME:
        return conditions(op.operands[0], value, depth - 1)
    if isinstance(op, arith.Andi if value else arith.Ori):
        a, b = (conditions(x, value, depth - 1) for x in op.operands)
        return None if a is None or b is None else [*a, *b]
    if isinstance(op, arith.Cmpi):
        found = _comparison(op, value)
        return None if found is None else [*found]
    return None


def _comparison(op: Any, value: bool) -> list[Least] | None:
    predicate = op.properties["predicate"].data
    if predicate not in OPPOSITE:
        return None
    if not value:
        predicate = OPPOSITE[predicate]
    a, b = (sum_of(x) for x in op.operands)
    if a is None or b is None:
        return None
    if predicate in ("sgt", "sge"):
        a, b = b, a
    least, greatest = limits(width_of(op.operands[0].type))
    between = b.plus(a.times(-1))       # its lower end: of the greater side's least element and the smaller side's greatest one
    out = [Least(between.terms, between.lo - (predicate in ("slt", "sgt")))]
    if not (a.is_scalar and a.lo >= 0):
        out.append(Least(a.terms, a.lo - least))
    if not (b.is_scalar and b.hi <= 0):
        out.append(Least(b.times(-1).terms, greatest - b.hi))
    if any(not c.terms and c.number < 0 for c in out):
        return None
    return [c for c in out if c.terms]
