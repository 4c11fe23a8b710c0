"""What the integer ops mean: arithmetic, bits, shifts, comparisons, extrema."""
from __future__ import annotations

from typing import Any

import numpy as np

from tileiras.interp import integers
from tileiras.interp.errors import InterpreterError
from tileiras.interp.formats import I1
from tileiras.interp.registry import Run, enum, first_operand_type, int_format, meaning

_WRAPPING = {"addi": np.add, "subi": np.subtract, "muli": np.multiply}
_BITWISE = {"andi": np.bitwise_and, "ori": np.bitwise_or, "xori": np.bitwise_xor}
COMPARISONS = {"equal": np.equal, "not_equal": np.not_equal, "less_than": np.less, "less_than_or_equal": np.less_equal,
               "greater_than": np.greater, "greater_than_or_equal": np.greater_equal}


def _kind(op: Any) -> str:
    return op.name.removeprefix("cuda_tile.")


@meaning("addi", "subi", "muli", elementwise=True)
def wrapping(op: Any) -> Run:
    fmt, function = int_format(first_operand_type(op)), _WRAPPING[_kind(op)]
    if fmt is I1:
        return lambda x, y: integers.wrap(function(integers.unsigned(x, fmt), integers.unsigned(y, fmt)), fmt)
    return lambda x, y: function(x, y)


@meaning("andi", "ori", "xori", elementwise=True)
def bitwise(op: Any) -> Run:
    function = _BITWISE[_kind(op)]
    return lambda x, y: function(x, y)


@meaning("negi", elementwise=True)
def negi(op: Any) -> Run:
    return lambda x: x if x.dtype == np.bool_ else np.negative(x)


@meaning("absi", elementwise=True)
def absi(op: Any) -> Run:
    return lambda x: x if x.dtype == np.bool_ else np.abs(x)


@meaning("mulhii", elementwise=True)
def mulhii(op: Any) -> Run:
    fmt = int_format(first_operand_type(op))
    return lambda x, y: integers.multiply_high(x, y, fmt)


@meaning("divi", elementwise=True)
def divi(op: Any) -> Run:
    fmt, signedness, rounding = int_format(first_operand_type(op)), enum(op.signedness), enum(op.rounding, "zero")
    allowed = ("zero", "positive_inf", "negative_inf") if signedness == "signed" else ("zero", "positive_inf")
    if rounding not in allowed:
        raise InterpreterError(f"rounding mode {rounding} doesn't apply to {signedness} division")
    return lambda x, y: integers.divide(x, y, fmt, signedness, rounding)


@meaning("remi", elementwise=True)
def remi(op: Any) -> Run:
    fmt, signedness = int_format(first_operand_type(op)), enum(op.signedness)
    return lambda x, y: integers.remainder(x, y, fmt, signedness)


@meaning("shli", elementwise=True)
def shli(op: Any) -> Run:
    fmt = int_format(first_operand_type(op))
    return lambda x, y: integers.shift_left(x, y, fmt)


@meaning("shri", elementwise=True)
def shri(op: Any) -> Run:
    fmt, signedness = int_format(first_operand_type(op)), enum(op.signedness)
    return lambda x, y: integers.shift_right(x, y, fmt, signedness)


@meaning("cmpi", elementwise=True)
def cmpi(op: Any) -> Run:
    fmt, signedness = int_format(first_operand_type(op)), enum(op.signedness)
    compare = COMPARISONS[enum(op.comparison_predicate)]
    return lambda x, y: compare(integers.valued(x, fmt, signedness), integers.valued(y, fmt, signedness))


@meaning("maxi", "mini", elementwise=True)
def extremum(op: Any) -> Run:
    fmt, signedness = int_format(first_operand_type(op)), enum(op.signedness)
    pick = np.maximum if _kind(op) == "maxi" else np.minimum
    return lambda x, y: integers.wrap(pick(integers.valued(x, fmt, signedness),
                                           integers.valued(y, fmt, signedness)), fmt)
