"""`mask-runs`: a mask whose rows are runs of columns is made of words of bits.

    %c = broadcast (view (range + splat %j))                       %m = mask_runs %j, %rows, %j, %n {dim = 1,
    %m = andi (cmpi sle %c, (broadcast %rows)),          ->                                   predicates = [sle, slt]}
              (cmpi slt %c, (splat %n))

Comparing columns with what is the same for a whole row (attention's diagonal, its window, the end of the keys) takes an instruction
for each element and each comparison. Where a thread holds many columns of a row, a few instructions make 32 of them a word, words
are joined, and the machine takes seven truth values out of one at once (R2P).

Columns are what a tile's elements are along one dimension, and an offset; the rest of a sum is the same along it. Sums wrap
around, and so do those of `mask_runs`. A comparison that knows of no columns, in a conjunction with others, is a limit that all
columns keep or none.
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, TensorType, i32
from xdsl.ir import Operation, SSAValue

from tileiras.dialects import arith, nv_tileas
from tileiras.dialects.nv_tileas import layout_of
from tileiras.layout.convert import register_permutation
from tileiras.layout.runs import runs_of
from tileiras.transforms.rules import build, int_constant, int_splat, int_width, with_element
from tileiras.transforms.structure import erase_unused, is_movable

LEAST = 32
"""Columns of a row that a thread holds: a word."""
MOST_DEPTH = 16
"""Ops between a mask and a comparison, or a comparison and its columns."""
SWAPPED = {"slt": "sgt", "sgt": "slt", "sle": "sge", "sge": "sle"}
"""What b is to a where a is this to b; and what -a - 1 is to -b - 1."""
LARGEST = (1 << 31) - 1


def run(module: Operation, context: Any = None) -> None:
    """Replace the masks that selections ask, in place."""
    selects = [op for op in module.walk() if isinstance(op, arith.Select) and isinstance(op.operands[0].type, TensorType)]
    for mask in dict.fromkeys(op.operands[0] for op in selects):
        _replace(mask)


@dataclass(frozen=True)
class _Line:
    """A tile's elements: `sign` (1, -1 or, where they are the same along the dimension, 0) times the column, and the sum of
    `scalars` (each with its sign), `row` (a tile of extent 1 along the dimension) times `row_sign`, and `number`."""

    sign: int = 0
    scalars: tuple[tuple[SSAValue, int], ...] = ()
    row: SSAValue | None = None
    row_sign: int = 1
    number: int = 0

    def negated(self) -> _Line:
        return _Line(-self.sign, tuple((v, -s) for v, s in self.scalars), self.row, -self.row_sign, -self.number)

    def inverted(self) -> _Line:
        """-x - 1, which turns the order of numbers round, the smallest among them."""
        return replace(self.negated(), number=-self.number - 1)

    def plus(self, other: _Line) -> _Line | None:
        if abs(self.sign + other.sign) > 1 or (self.row is not None and other.row is not None):
            return None
        row, row_sign = (self.row, self.row_sign) if self.row is not None else (other.row, other.row_sign)
        return _Line(self.sign + other.sign, self.scalars + other.scalars, row, row_sign, self.number + other.number)


@dataclass(frozen=True)
class _Term:
    """The column and `offset` are `predicate` to `limit`."""

    offset: _Line
    limit: _Line
    predicate: str


def _replace(mask: SSAValue) -> None:
    op = mask.owner
    t: Any = mask.type
    dims = [dim for dim, extent in enumerate(t.get_shape())
            if extent >= LEAST and (runs := runs_of(layout_of(mask), dim)) is not None and runs.count >= LEAST]
    if not isinstance(op, Operation) or not dims:
        return
    dim = dims[0]
    known, rest = [], []
    for v in _conjuncts(mask, MOST_DEPTH):
        term = _term(v, mask, dim)
        (rest if term is None else known).append(v if term is None else term)
    if not any(isinstance(term, _Term) for term in known):
        return
    values: list[SSAValue] = []
    for term in known:
        values += [_value(term.offset, op), _value(term.limit, op)] if isinstance(term, _Term) else \
            [int_splat(op, i32, 0), _all_or_none(term, op)]
    predicates = [StringAttr(term.predicate if isinstance(term, _Term) else "slt") for term in known]
    made = nv_tileas.MaskRuns.make([values], [t], {"dim": IntegerAttr(dim, i32), "predicates": ArrayAttr(predicates)})
    made.location = op.location
    assert op.parent is not None
    op.parent.insert_op_before(made, op)
    result = made.results[0]
    for v in rest:
        wide = v if v.type == t else build(op, nv_tileas.Broadcast, (v,), t)
        result = build(op, arith.Andi, (result, wide), t)
    mask.replace_all_uses_with(result)
    erase_unused([op], is_movable)


def _conjuncts(v: SSAValue, depth: int) -> list[SSAValue]:
    """What must all be true for a mask to be."""
    op = v.owner
    if depth and isinstance(op, arith.Andi):
        return [w for operand in op.operands for w in _conjuncts(operand, depth - 1)]
    if depth and isinstance(op, nv_tileas.Broadcast) and len(inner := _conjuncts(op.operands[0], depth - 1)) > 1:
        return inner
    return [v]


def _term(v: SSAValue, mask: SSAValue, dim: int) -> _Term | SSAValue | None:
    """A comparison of columns, or bits that are the same along the dimension: a scalar, or a tile of extent 1."""
    op = v.owner
    while isinstance(op, nv_tileas.Broadcast):
        v = op.operands[0]
        op = v.owner
    if isinstance(op, nv_tileas.Splat):
        return op.operands[0]
    t: Any = v.type
    if t.get_shape()[dim] == 1:
        return v if _is_within_reach(v, mask) else None
    predicate = op.properties["predicate"].data if isinstance(op, arith.Cmpi) else ""   # type: ignore[attr-defined]
    if predicate not in SWAPPED or int_width(op.operands[0].type) != i32.width.data:    # type: ignore[union-attr]
        return None
    lhs, rhs = (_line(w, mask, dim, MOST_DEPTH) for w in op.operands)   # type: ignore[union-attr]
    if lhs is None or rhs is None or bool(lhs.sign) == bool(rhs.sign):
        return None
    if rhs.sign:
        lhs, rhs, predicate = rhs, lhs, SWAPPED[predicate]
    if lhs.sign < 0:
        lhs, rhs, predicate = lhs.inverted(), rhs.inverted(), SWAPPED[predicate]
    return _Term(lhs, rhs, predicate)


def _line(v: SSAValue, mask: SSAValue, dim: int, depth: int) -> _Line | None:
    """None where a tile's elements aren't known as such a sum. `dim`: which of the tile's dimensions goes along the mask's."""
    op = v.owner
    number = int_constant(v)
    if number is not None:
        return _Line(number=number)
    if depth == 0 or not isinstance(op, Operation):
        return None
    if isinstance(op, nv_tileas.Splat):
        return _Line(scalars=((op.operands[0], 1),))
    t: Any = v.type
    shape = t.get_shape()
    if shape[dim] == 1:
        return _Line(row=v) if _is_within_reach(v, mask) else None
    if isinstance(op, nv_tileas.MakeRange):
        return _Line(sign=1)
    if isinstance(op, nv_tileas.Broadcast):
        return _line(op.operands[0], mask, dim, depth - 1)
    if isinstance(op, nv_tileas.View):
        source: Any = op.operands[0].type
        along = [i for i, n in enumerate(source.get_shape()) if n != 1] if isinstance(source, TensorType) else []
        return _line(op.operands[0], mask, along[0], depth - 1) if len(along) == 1 else None
    if isinstance(op, (arith.Addi, arith.Subi)):
        lhs, rhs = (_line(w, mask, dim, depth - 1) for w in op.operands)
        if lhs is not None and rhs is not None:
            return lhs.plus(rhs if isinstance(op, arith.Addi) else rhs.negated())
    return None


def _is_within_reach(v: SSAValue, mask: SSAValue) -> bool:
    """Whether each thread holds what a broadcast to the mask would take from it."""
    t: Any = v.type
    return register_permutation(layout_of(v), layout_of(mask).project(t.get_shape())) is not None


def _value(line: _Line, before: Operation) -> SSAValue:
    """What is the same along the dimension, as a value."""
    total = int_splat(before, i32, line.number)
    for v, sign in line.scalars:
        total = build(before, arith.Addi if sign > 0 else arith.Subi, (total, v), i32)
    if line.row is None:
        return total
    t = line.row.type
    if int_constant(total) == 0 and line.row_sign > 0:
        return line.row
    spread = build(before, nv_tileas.Splat, (total,), t)
    return build(before, arith.Addi if line.row_sign > 0 else arith.Subi, (spread, line.row), t)


def _all_or_none(bits: SSAValue, before: Operation) -> SSAValue:
    """The limit below which all columns lie where a bit is set, and none where it isn't."""
    t = with_element(bits.type, i32)
    return build(before, arith.Select, (bits, int_splat(before, t, LARGEST), int_splat(before, t, 0)), t)
