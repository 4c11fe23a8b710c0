"""Floating-point arithmetic on arrays of one format: exactly rounded, with flush-to-zero where asked.

Arrays are in the representation of formats.py; results have the operands' format and the broadcast shape.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tileiras.interp import exact
from tileiras.interp.formats import BF16, F16, F32, F64, FloatFormat
from tileiras.interp.rounding import NEAREST, round_to

_NATIVE: dict[str, Callable[..., Any]] = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply,
                                          "divide": np.divide, "sqrt": np.sqrt}
# In these, NumPy's own operators give the exact result rounded once to nearest: f32 and f64 by the processor; the
# 16-bit types through f32, whose 24 bits exceed twice theirs plus two.
_RIGHT_NATIVELY = (F16, BF16, F32, F64)


def _wide(x: Any) -> Any:
    return np.asarray(x).astype(np.float64)


def flush(x: Any) -> Any:
    """float32 with subnormal numbers replaced by zeros of their sign."""
    return np.where(np.abs(x) < np.float32(2.0 ** -126), np.copysign(np.float32(0), x), x)


def arithmetic(name: str, fmt: FloatFormat, mode: str, ftz: bool) -> Callable[..., Any]:
    """The function that adds, subtracts, multiplies, divides or takes the square root (`name` as NumPy's)."""
    if mode in NEAREST and fmt in _RIGHT_NATIVELY:
        compute = _NATIVE[name]
    else:
        def compute(*operands: Any) -> Any:
            wide = [_wide(x) for x in operands]
            if name == "add":
                nearest, error = exact.add(*wide)
            elif name == "subtract":
                nearest, error = exact.add(wide[0], -wide[1])
            elif name == "multiply":
                nearest, error = exact.multiply(*wide) if fmt is F64 else (wide[0] * wide[1], None)
            elif name == "divide":
                nearest, error = exact.divide(*wide)
            else:
                nearest, error = exact.square_root(*wide)
            result = round_to(nearest, fmt, mode, error)
            if mode == "negative_inf" and name in ("add", "subtract"):
                # IEEE 754, 6.3: an exact zero sum of unlike signs is -0 in this mode only.
                other = wide[1] if name == "add" else -wide[1]
                result = np.where((result == 0) & (np.signbit(wide[0]) != np.signbit(other)), -np.zeros_like(result),
                                  result)
            return result
    return flushing(compute) if ftz else compute


def fused_multiply_add(fmt: FloatFormat, mode: str, ftz: bool) -> Callable[..., Any]:
    """The function (x, y, z) -> x * y + z, rounded once."""
    def compute(x: Any, y: Any, z: Any) -> Any:
        a, b, c = _wide(x), _wide(y), _wide(z)
        nearest, error = exact.fused_multiply_add(a, b, c, product_exact=fmt is not F64)
        result = round_to(nearest, fmt, mode, error)
        if mode == "negative_inf":
            cancelled = (nearest == 0) & (error == 0) & (np.signbit(a) ^ np.signbit(b) ^ np.signbit(c))
            result = np.where(cancelled, -np.zeros_like(result), result)
        return result
    return flushing(compute) if ftz else compute


def extremum(name: str, propagate_nan: bool, ftz: bool) -> Callable[[Any, Any], Any]:
    """The function maximum or minimum (`name`): +0 above -0, NaN as asked, subnormals flushed if asked."""
    greatest = name == "maximum"

    def compute(x: Any, y: Any) -> Any:
        x, y = np.asarray(x), np.asarray(y)
        picked = np.where((x > y) if greatest else (x < y), x, y)
        prefer_x = np.signbit(y) if greatest else np.signbit(x)
        picked = np.where((x == 0) & (y == 0), np.where(prefer_x, x, y), picked)
        nan_x, nan_y = np.isnan(x), np.isnan(y)
        nan = picked.dtype.type(np.nan)
        if propagate_nan:
            return np.where(nan_x | nan_y, nan, picked)
        return np.where(nan_x & nan_y, nan, np.where(nan_x, y, np.where(nan_y, x, picked)))
    return flushing(compute) if ftz else compute


def flushing(compute: Callable[..., Any]) -> Callable[..., Any]:
    """The same function on flushed operands, with its result flushed; float32 only."""
    return lambda *operands: flush(compute(*(flush(x) for x in operands)))


def _rsqrt(x: Any) -> Any:
    return 1 / np.sqrt(x)


def _power(x: Any, y: Any) -> Any:
    """Anything to the power of 0, and 1 to that of anything, is 1: of signaling NaNs NumPy gives what its library does."""
    return np.where((y == 0) | (x == 1), np.ones_like(x), np.power(x, y))


_MATHS: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "rsqrt": _rsqrt, "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "atan2": np.arctan2, "pow": _power,
}


def maths(name: str, fmt: FloatFormat, ftz: bool = False) -> Callable[..., Any]:
    """A function of the maths library (`name` as the op's): computed in a longer format, then rounded to nearest.

    That is the correctly rounded result but for the rare argument whose value lies within the longer format's
    error of a rounding boundary. f64 uses the longest format that NumPy has on the machine."""
    function = _MATHS[name]
    if fmt is F64:
        def compute(*operands: Any) -> Any:
            return function(*(np.asarray(x).astype(np.longdouble) for x in operands)).astype(np.float64)
    else:
        def compute(*operands: Any) -> Any:
            return round_to(function(*(_wide(x) for x in operands)), fmt)
    return flushing(compute) if ftz else compute


def integral_power(fmt: FloatFormat) -> Callable[[Any, Any], Any]:
    """The function (x, n) -> x ** n for integers n, which count as signed: the one of i1 is -1."""
    raised = maths("pow", fmt)

    def power(x: Any, n: Any) -> Any:
        n = np.asarray(n)
        return raised(x, (-n.astype(np.int8) if n.dtype == np.bool_ else n).astype(np.int64 if fmt is F64 else np.float64))
    return power


def remainder(fmt: FloatFormat) -> Callable[[Any, Any], Any]:
    """x - trunc(x / y) * y, which every format holds exactly; NaN for infinite x or zero y."""
    return lambda x, y: np.fmod(_wide(x), _wide(y)).astype(fmt.dtype)
