"""What the floating-point ops mean: arithmetic with rounding modes and flush-to-zero, maths, comparisons."""
from __future__ import annotations

from typing import Any

import numpy as np

from tileiras.interp import floats
from tileiras.interp.convert import bits_of, from_bits
from tileiras.interp.integer_ops import COMPARISONS
from tileiras.interp.registry import Run, enum, first_operand_type, flag, float_format, meaning

_ARITHMETIC = {"addf": "add", "subf": "subtract", "mulf": "multiply", "divf": "divide", "sqrt": "sqrt"}


def _kind(op: Any) -> str:
    return op.name.removeprefix("cuda_tile.")


@meaning("addf", "subf", "mulf", "divf", "sqrt", elementwise=True)
def arithmetic(op: Any) -> Run:
    return floats.arithmetic(_ARITHMETIC[_kind(op)], float_format(first_operand_type(op)),
                             enum(op.rounding_mode, "nearest_even"), flag(op.flush_to_zero))


@meaning("fma", elementwise=True)
def fma(op: Any) -> Run:
    return floats.fused_multiply_add(float_format(first_operand_type(op)), enum(op.rounding_mode, "nearest_even"),
                                     flag(op.flush_to_zero))


@meaning("maxf", "minf", elementwise=True)
def extremum(op: Any) -> Run:
    name = "maximum" if _kind(op) == "maxf" else "minimum"
    return floats.extremum(name, flag(op.propagate_nan), flag(op.flush_to_zero))


@meaning("exp", "log", "log2", "sin", "cos", "tan", "sinh", "cosh", "tanh", "atan2", elementwise=True)
def maths(op: Any) -> Run:
    return floats.maths(_kind(op), float_format(first_operand_type(op)))


@meaning("exp2", "rsqrt", elementwise=True)
def flushable(op: Any) -> Run:
    return floats.maths(_kind(op), float_format(first_operand_type(op)), flag(op.flush_to_zero))


@meaning("pow", "fpowf", elementwise=True)
def power(op: Any) -> Run:
    return floats.maths("pow", float_format(first_operand_type(op)))


@meaning("fpowi", elementwise=True)
def integral_power(op: Any) -> Run:
    return floats.integral_power(float_format(first_operand_type(op)))


@meaning("remf", elementwise=True)
def remf(op: Any) -> Run:
    return floats.remainder(float_format(first_operand_type(op)))


@meaning("floor", "ceil", elementwise=True)
def to_integral(op: Any) -> Run:
    fmt, function = float_format(first_operand_type(op)), np.floor if _kind(op) == "floor" else np.ceil
    return lambda x: function(np.asarray(x).astype(np.float64)).astype(fmt.dtype)


@meaning("negf", "absf", elementwise=True)
def sign_bit(op: Any) -> Run:
    """The sign bit inverted or cleared, of NaN too."""
    fmt = float_format(first_operand_type(op))
    sign = 1 << (fmt.bits - 1)
    negate = _kind(op) == "negf"

    def run(x: Any) -> Any:
        bits = bits_of(x, fmt)
        return from_bits(bits ^ bits.dtype.type(sign) if negate else bits & ~bits.dtype.type(sign), fmt)
    return run


@meaning("cmpf", elementwise=True)
def cmpf(op: Any) -> Run:
    compare = COMPARISONS[enum(op.comparison_predicate)]
    unordered = enum(op.comparison_ordering) == "unordered"

    def run(x: Any, y: Any) -> Any:
        nan = np.isnan(x) | np.isnan(y)
        return (compare(x, y) | nan) if unordered else (compare(x, y) & ~nan)
    return run
