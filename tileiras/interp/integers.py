"""Integer arithmetic on arrays of one width: wrap-around, and signedness as the op says.

i1 is bool in memory; read as a signed number, its one is -1. Division by zero is undefined in the language;
here a quotient is all ones and a remainder the dividend, as the processors have it. Shifts by the width or
more give what shifting bit by bit would.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from tileiras.interp.formats import I1, I4, IntFormat

_UNSIGNED = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def unsigned(x: Any, fmt: IntFormat) -> Any:
    """The numbers that the bits mean without sign, in an unsigned NumPy type."""
    x = np.asarray(x)
    if fmt is I1:
        return x.astype(np.uint8)
    if fmt is I4:
        return x.astype(np.uint8) & np.uint8(15)
    return x.view(_UNSIGNED[fmt.bits])


def signed(x: Any, fmt: IntFormat) -> Any:
    """The numbers that the bits mean in two's complement, in a signed NumPy type."""
    x = np.asarray(x)
    return -(x.astype(np.int8)) if fmt is I1 else x


def valued(x: Any, fmt: IntFormat, signedness: str) -> Any:
    return signed(x, fmt) if signedness == "signed" else unsigned(x, fmt)


def wrap(x: Any, fmt: IntFormat) -> Any:
    """Integers of any NumPy type, reduced to the format's width."""
    x = np.asarray(x)
    if fmt is I1:
        return (x & x.dtype.type(1)).astype(np.bool_) if x.dtype != np.bool_ else x
    if fmt is I4:
        return (((x.astype(np.int64) & 15) ^ 8) - 8).astype(np.int8)
    return x.astype(fmt.dtype)


def divide(x: Any, y: Any, fmt: IntFormat, signedness: str, rounding: str) -> Any:
    """x / y, rounded to zero, negative_inf or positive_inf; the least number by -1 wraps."""
    a, b = np.broadcast_arrays(valued(x, fmt, signedness), valued(y, fmt, signedness))
    zero = b == 0
    safe = np.where(zero, b.dtype.type(1), b)
    overflow = np.zeros_like(zero)
    if signedness == "signed":
        overflow = (safe == -1) & (a == np.iinfo(a.dtype).min)
        safe = np.where(overflow, a.dtype.type(1), safe)
    floor = a // safe
    inexact = floor * safe != a
    if rounding == "negative_inf":
        quotient = floor
    elif rounding == "positive_inf":
        quotient = floor + inexact.astype(a.dtype)
    else:
        quotient = floor + (inexact & ((a < 0) != (safe < 0))).astype(a.dtype)
    quotient = np.where(overflow, a, quotient)
    return wrap(np.where(zero, ~np.zeros_like(quotient), quotient), fmt)


def remainder(x: Any, y: Any, fmt: IntFormat, signedness: str) -> Any:
    """x - trunc(x / y) * y: the dividend's sign."""
    a, b = np.broadcast_arrays(valued(x, fmt, signedness), valued(y, fmt, signedness))
    zero = b == 0
    if signedness == "signed":
        b = np.where(b == -1, b.dtype.type(1), b)           # the same remainder, without the overflow
    return wrap(np.where(zero, a, np.fmod(a, np.where(zero, b.dtype.type(1), b))), fmt)


def multiply_high(x: Any, y: Any, fmt: IntFormat) -> Any:
    """The upper half of the product of unsigned numbers."""
    a, b = unsigned(x, fmt), unsigned(y, fmt)
    if fmt.bits < 64:
        return wrap((a.astype(np.uint64) * b.astype(np.uint64)) >> np.uint64(fmt.bits), fmt)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    ah, al, bh, bl = a >> half, a & low, b >> half, b & low
    middle = ah * bl + ((al * bl) >> half)
    carry = al * bh + (middle & low)
    return wrap(ah * bh + (middle >> half) + (carry >> half), fmt)


def shift_left(x: Any, y: Any, fmt: IntFormat) -> Any:
    a, n = np.broadcast_arrays(unsigned(x, fmt), unsigned(y, fmt))
    inside = n < fmt.bits
    return wrap(np.where(inside, a << np.where(inside, n, n.dtype.type(0)), a.dtype.type(0)), fmt)


def shift_right(x: Any, y: Any, fmt: IntFormat, signedness: str) -> Any:
    a, n = np.broadcast_arrays(valued(x, fmt, signedness), unsigned(y, fmt))
    most = fmt.bits - 1
    step = np.minimum(n, n.dtype.type(most)).astype(a.dtype)
    result = a >> step
    return wrap(np.where(n > most, result >> a.dtype.type(1), result), fmt)
