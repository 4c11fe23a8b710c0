"""float64 arithmetic that also knows on which side of its result the exact result lies.

Every function returns `(nearest, error)`: the exact result rounded to the nearest float64, and a float64
array whose *sign* is that of (exact - nearest); zero where the result is exact. With that sign any directed
rounding to float64, and any rounding at all to a format of at most 24 bits, follows without double rounding
(rounding.py). Where the result is NaN or exactly infinite the error is zero; where it overflowed, the error points back
to the finite side.

Sources: Handbook of Floating-Point Arithmetic, 2nd ed., sections 4.3 (2Sum), 4.4 (2Prod), 5.3 (correctly
rounded FMA by rounding to odd, after Boldo and Melquiond).
"""
from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

F64Array = NDArray[np.float64]
_SPLITTER = 2.0 ** 27 + 1


def add(a: F64Array, b: F64Array) -> tuple[F64Array, F64Array]:
    """a + b."""
    s, e = _two_sum(a, b)
    return s, _tidy(s, e, np.isfinite(a) & np.isfinite(b))


def multiply(a: F64Array, b: F64Array) -> tuple[F64Array, F64Array]:
    """a * b, right at both ends of the exponent range."""
    product = a * b
    ma, ea = np.frexp(a)
    mb, eb = np.frexp(b)
    high, low = _two_product(ma, mb)
    scaled = np.ldexp(product, -np.maximum(ea + eb, -1100))
    return product, _tidy(product, (high - scaled) + low, np.isfinite(a) & np.isfinite(b))


def divide(a: F64Array, b: F64Array) -> tuple[F64Array, F64Array]:
    """a / b."""
    quotient = a / b
    ma, ea = np.frexp(a)
    mb, eb = np.frexp(b)
    high, low = _two_product(np.ldexp(quotient, np.minimum(eb - ea, 1100)), mb)
    remainder = (ma - high) - low
    return quotient, _tidy(quotient, remainder * np.sign(mb), np.isfinite(a) & np.isfinite(b) & (b != 0))


def square_root(a: F64Array) -> tuple[F64Array, F64Array]:
    """The square root of a."""
    root = np.sqrt(a)
    mantissa, exponent = np.frexp(a)
    odd = exponent % 2
    mantissa, half = np.ldexp(mantissa, odd), (exponent - odd) // 2
    scaled = np.ldexp(root, -half)
    high, low = _two_product(scaled, scaled)
    return root, _tidy(root, (mantissa - high) - low, np.isfinite(a))


def fused_multiply_add(a: F64Array, b: F64Array, c: F64Array, product_exact: bool) -> tuple[F64Array, F64Array]:
    """a * b + c with one rounding.

    product_exact: the operands come from a format of at most 24 bits, so that a * b needs no rounding."""
    if product_exact:
        return add(a * b, c)
    a, b, c = np.broadcast_arrays(a, b, c)
    finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    product, product_low = _two_product(a, b)
    high, low = _two_sum(c, product_low)
    top, rest = _two_sum(product, high)
    tail, tail_error = _two_sum(rest, low)
    result, error = _two_sum(top, to_odd(tail, tail_error))
    error = np.where(error != 0, error, tail_error)
    exponents = np.frexp(a)[1] + np.frexp(b)[1]
    inner = (_moderate(c, np.frexp(c)[1])
             & (((a == 0) | (b == 0)) | ((exponents > -900) & (exponents < 1000) & _moderate(a, np.frexp(a)[1])
                                         & _moderate(b, np.frexp(b)[1]))))
    result = np.array(np.where(finite, result, a * b + c))
    result = np.where(finite & ((a == 0) | (b == 0) | (result == 0)), a * b + c, result)    # keeps the signs of zeros
    error = np.array(np.where(finite, error, 0.0))
    outer = finite & ~inner
    if outer.any():
        result = np.array(result)
        for i in zip(*np.nonzero(np.atleast_1d(outer))):
            at = i if outer.ndim else ()
            exact = Fraction(float(a[at])) * Fraction(float(b[at])) + Fraction(float(c[at]))
            result[at], error[at] = from_fraction(exact, float(a[at] * b[at] + c[at]))
    return result, error


def from_fraction(exact: Fraction, zero: float = 0.0) -> tuple[float, float]:
    """The float64 nearest to a fraction and the sign of what is missing; `zero` gives the sign of an exact zero."""
    if exact == 0:
        return (zero if zero == 0 else 0.0), 0.0
    try:
        nearest = exact.numerator / exact.denominator
    except OverflowError:
        return (float("inf"), -1.0) if exact > 0 else (float("-inf"), 1.0)
    if nearest == 0 and exact < 0:
        nearest = -0.0
    back = Fraction(nearest)
    return nearest, float((exact > back) - (exact < back))


def to_odd(nearest: F64Array, error: F64Array) -> F64Array:
    """The exact value rounded to odd: towards zero, with the last bit set if anything was lost.

    A second rounding, to a format with at least two bits fewer, then gives what one rounding would have."""
    lost = error != 0
    beyond = (error > 0) == (nearest > 0)
    truncated = np.where(lost & ~beyond & (nearest != 0), np.nextafter(nearest, 0.0), nearest)
    truncated = np.where(lost & (nearest == 0), np.copysign(0.0, error), truncated)
    bits = np.asarray(truncated, np.float64).view(np.uint64) | (lost & np.isfinite(nearest)).astype(np.uint64)
    return bits.view(np.float64)


def _two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    s = a + b
    virtual = s - a
    return s, (a - (s - virtual)) + (b - virtual)


def _two_product(a: Any, b: Any) -> tuple[Any, Any]:
    """Dekker's product; exact while nothing overflows or underflows."""
    p = a * b
    ah, al = _split(a)
    bh, bl = _split(b)
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def _split(a: Any) -> tuple[Any, Any]:
    c = _SPLITTER * a
    high = c - (c - a)
    return high, a - high


def _moderate(a: F64Array, exponent: NDArray[Any]) -> NDArray[np.bool_]:
    return (a == 0) | ((exponent > -900) & (exponent < 960))


def _tidy(result: Any, error: Any, finite_operands: Any) -> F64Array:
    error = np.where(np.isfinite(result) & finite_operands, error, 0.0)
    return np.where(np.isinf(result) & finite_operands, -np.sign(result), error)
