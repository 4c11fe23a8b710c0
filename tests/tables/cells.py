"""Which cells the table of numerics has: every elementwise op with every type, rounding and flag that is legal.

    cells()     all of them, in order

Candidates are all combinations of types and attribute values; the dialect's verifier says which of them are programs.
"""
from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute, Block

from tests.interp.build import ELEMENTS, pointer, tile
from tileiras.dialects.cuda_tile import attrs, ops
from tileiras.dialects.cuda_tile.verify import verify_one
from tileiras.dialects.cuda_tile.verify_error import InvalidOp

FLOATS = ("f16", "bf16", "f32", "f64")
LOW_FLOATS = ("tf32", "f8E4M3FN", "f8E5M2", "f8E8M0FNU", "f4E2M1FN")
INTS = ("i1", "i4", "i8", "i16", "i32", "i64")
TYPES = FLOATS + LOW_FLOATS + INTS
MODES = ("nearest_even", "zero", "negative_inf", "positive_inf", "nearest_away", "approx", "full")

_BY_NAME = {op.name.removeprefix("cuda_tile."): op for op in ops.OPS}
_ENUMS: dict[str, type[attrs.EnumAttr]] = {
    "rounding_mode": attrs.RoundingAttr, "rounding": attrs.RoundingAttr, "signedness": attrs.SignednessAttr,
    "overflow": attrs.OverflowAttr, "comparison_predicate": attrs.ComparisonPredicateAttr,
    "comparison_ordering": attrs.ComparisonOrderingAttr}
_UNITS = ("flush_to_zero", "propagate_nan", "saturating")

SAME_TYPE: dict[str, int] = {
    **dict.fromkeys(("absf", "negf", "ceil", "floor", "sqrt", "exp", "exp2", "log", "log2", "rsqrt", "sin", "cos", "tan",
                     "sinh", "cosh", "tanh", "absi", "negi"), 1),
    **dict.fromkeys(("addf", "subf", "mulf", "divf", "remf", "maxf", "minf", "pow", "atan2", "addi", "subi", "muli", "divi",
                     "remi", "mulhii", "maxi", "mini", "andi", "ori", "xori", "shli", "shri"), 2), "fma": 3}
"""Ops of one type, and how many operands they have."""
COMPARISONS = ("cmpf", "cmpi")
CONVERSIONS = ("ftof", "ftoi", "itof", "exti", "trunci", "bitcast")


@dataclass(frozen=True)
class Cell:
    """An op on operands of these element types, with these attributes."""

    op: str
    operands: tuple[str, ...]
    result: str
    attributes: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.op} {','.join(self.operands)} -> {self.result}" + "".join(f" {v}" for _, v in self.attributes)

    def get(self, name: str, default: str = "") -> str:
        return dict(self.attributes).get(name, default)

    @property
    def ftz(self) -> bool:
        return bool(self.get("flush_to_zero"))

    @property
    def mode(self) -> str:
        return self.get("rounding_mode", "nearest_even")

    def properties(self) -> dict[str, Attribute]:
        return {name: UnitAttr() if name in _UNITS else _ENUMS[name](value) for name, value in self.attributes}

    def operation(self) -> type[ops.CudaTileOp]:
        return _BY_NAME[self.op]


def legal(cell: Cell) -> bool:
    """Whether the dialect's verifier takes the op."""
    block = Block(arg_types=[tile(t, 2) for t in cell.operands])
    op = cell.operation().make(list(block.args), [tile(cell.result, 2)], cell.properties())
    try:
        verify_one(op)
    except InvalidOp:
        return False
    return True


def _types(name: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Candidate (operand types, result type) of an op."""
    if name in SAME_TYPE:
        yield from (((t,) * SAME_TYPE[name], t) for t in TYPES)
    elif name in COMPARISONS:
        yield from (((t, t), "i1") for t in TYPES)
    elif name == "fpowi":
        yield from (((t, n), t) for t in TYPES for n in TYPES)
    elif name == "select":
        yield from ((("i1", t, t), t) for t in TYPES)
    else:
        yield from (((a,), b) for a, b in itertools.product(TYPES, TYPES))


def _attributes(name: str) -> Iterator[tuple[tuple[str, str], ...]]:
    """Candidate attributes of an op."""
    choices: list[Sequence[str]] = []
    fields = [f.name for f in _BY_NAME[name].attr_fields]
    for field in fields:
        choices.append(("", field) if field in _UNITS else _ENUMS[field].CASES)
    for picked in itertools.product(*choices):
        yield tuple((f, v) for f, v in zip(fields, picked) if v)


@functools.cache
def cells() -> tuple[Cell, ...]:
    """Every legal cell, ops in the order above. Pointer casts, which have pointers for types, come last."""
    names = (*SAME_TYPE, *COMPARISONS, "fpowi", "select", *CONVERSIONS)
    found = []
    for name in names:
        for operands, result in _types(name):
            variants = (Cell(name, operands, result, a) for a in _attributes(name))
            found += [c for c in variants if legal(c)]
    return (*found, *(Cell(name, ("i64",), "i64") for name in POINTER_CASTS))


POINTER_CASTS = ("int_to_ptr", "ptr_to_ptr")
"""Casts of pointers, between casts from and to integers."""


def pointer_types(cell: Cell) -> list[Attribute]:
    """The types that a number goes through on its way from integer to integer."""
    return [pointer(e) for e in ("i8", *ELEMENTS)[:1 if cell.op == "int_to_ptr" else 4]]
