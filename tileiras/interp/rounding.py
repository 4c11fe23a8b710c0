"""Rounding to an element type: from a float64, or from a float64 with the side on which the exact value lies.

The modes are those of cuda_tile's RoundingMode: nearest_even, zero, negative_inf, positive_inf, nearest_away
(since 13.4), and approx and full, for which an implementation may err by some ulp; here they are nearest_even.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tileiras.interp.errors import InterpreterError
from tileiras.interp.exact import F64Array, to_odd
from tileiras.interp.formats import F16, F32, F64, FloatFormat


def _nearest_away(y: F64Array) -> F64Array:
    whole = np.trunc(y)
    return np.copysign(whole + np.where(np.abs(y - whole) >= 0.5, np.copysign(1.0, y), 0.0), y)


_TO_INTEGER: dict[str, Callable[[Any], Any]] = {
    "nearest_even": np.rint,
    "approx": np.rint,
    "full": np.rint,
    "zero": np.trunc,
    "negative_inf": np.floor,
    "positive_inf": np.ceil,
    "nearest_away": _nearest_away,
}
NEAREST = ("nearest_even", "approx", "full")


def round_to(exact: F64Array, to: FloatFormat, mode: str = "nearest_even", error: F64Array | None = None) -> Any:
    """Round real numbers to a format; returns an array of `to.dtype`.

    exact: float64, shape any. error: as exact.py gives it, or None where `exact` is the real number itself.
    Beyond the range stand infinities or, by mode and for saturating formats, the greatest finite numbers.
    Raises InterpreterError for a mode that no float op has."""
    if mode not in _TO_INTEGER:
        raise InterpreterError(f"rounding mode {mode} doesn't apply to a floating-point result")
    exact = np.asarray(exact, np.float64)
    if to is F64:
        return _step(exact, mode, error)
    if error is not None:
        exact = to_odd(exact, error)
    if mode in NEAREST and (to is F32 or to is F16):        # NumPy rounds once and to even
        return exact.astype(to.dtype)
    return to.held(_on_grid(exact, to, mode))


def _step(nearest: F64Array, mode: str, error: F64Array | None) -> F64Array:
    """From the nearest float64 to the one that a directed mode asks for."""
    if error is None or mode in NEAREST:
        return nearest
    below, above = np.nextafter(nearest, -np.inf), np.nextafter(nearest, np.inf)
    if mode == "negative_inf":
        return np.where(error < 0, below, nearest)
    if mode == "positive_inf":
        return np.where(error > 0, above, nearest)
    positive = (nearest > 0) | ((nearest == 0) & (error > 0))
    return np.where(positive & (error < 0), below, np.where(~positive & (error > 0), above, nearest))


def _on_grid(exact: F64Array, to: FloatFormat, mode: str) -> F64Array:
    """float64 values that `to` can hold."""
    if not to.signed:
        exact = np.abs(exact)
    exponent = np.maximum(np.frexp(exact)[1] - 1, to.emin)
    spacing = exponent - (to.precision - 1)
    rounded = np.ldexp(_TO_INTEGER[mode](np.ldexp(exact, -spacing)), spacing)
    if not to.zero:                                         # the least power of two stands for it
        rounded = np.maximum(rounded, 2.0 ** to.emin)       # NaN passes
    finite_beyond = np.copysign(to.largest, rounded)
    over = np.abs(rounded) > to.largest
    if to.saturates:
        rounded = np.where(over, finite_beyond, rounded)
        return np.where(np.isnan(rounded), to.largest, rounded) if to.bits == 4 else rounded    # f4 has no NaN
    inward = {"zero": over, "negative_inf": over & (rounded > 0), "positive_inf": over & (rounded < 0)}.get(mode)
    infinite = np.where(over, np.copysign(np.inf, rounded), rounded)
    if inward is None:
        return infinite
    return np.where(inward & np.isfinite(exact), finite_beyond, infinite)
