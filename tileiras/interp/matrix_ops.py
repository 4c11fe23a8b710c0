"""What the matrix products mean: exact-as-float64 products and sums, rounded once to the accumulator's type.

The language leaves the order and the width of the sums open; f64 accumulation is close to the exact result.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from tileiras.interp import integers
from tileiras.interp.registry import Run, enum, float_format, int_format, meaning
from tileiras.interp.rounding import round_to


def _wide(x: Any) -> Any:
    return np.asarray(x).astype(np.float64)


@meaning("mmaf")
def mmaf(op: Any) -> Run:
    fmt = float_format(op.acc.type)
    return lambda lhs, rhs, acc: round_to(np.matmul(_wide(lhs), _wide(rhs)) + _wide(acc), fmt)


@meaning("mmaf_scaled")
def mmaf_scaled(op: Any) -> Run:
    """Each scale belongs to a block of consecutive elements along K."""
    fmt, left_scale, right_scale = (float_format(v.type) for v in (op.acc, op.lhs_scale, op.rhs_scale))

    def run(lhs: Any, rhs: Any, acc: Any, lhs_scale: Any, rhs_scale: Any) -> Any:
        left = _wide(lhs) * np.repeat(left_scale.numbers(lhs_scale), lhs.shape[-1] // lhs_scale.shape[-1], -1)
        right = _wide(rhs) * np.repeat(right_scale.numbers(rhs_scale), rhs.shape[-2] // rhs_scale.shape[-2], -2)
        return round_to(np.matmul(left, right) + _wide(acc), fmt)
    return run


@meaning("mmai")
def mmai(op: Any) -> Run:
    lhs_format, rhs_format, fmt = int_format(op.lhs.type), int_format(op.rhs.type), int_format(op.acc.type)
    left, right = enum(op.signedness_lhs), enum(op.signedness_rhs)

    def run(lhs: Any, rhs: Any, acc: Any) -> Any:
        # Products of 8-bit numbers: their sums stay far below 2**53, so float64 holds them exactly.
        a, b = integers.valued(lhs, lhs_format, left), integers.valued(rhs, rhs_format, right)
        product = np.matmul(_wide(a), _wide(b))
        return integers.wrap(product.astype(np.int64) + acc, fmt)
    return run
