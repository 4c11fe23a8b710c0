"""Exact arithmetic for the expected values: rationals rounded once to a format, by the text of IEEE 754.

Numbers are Python floats (every element type's values are exact in float64); `Fraction` holds what is not yet rounded.
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class Format:
    """precision: significant bits with the leading one; emin: exponent of the least normal number; largest: greatest
    finite number; saturates: no infinities, the greatest number stands for what is beyond."""

    precision: int
    emin: int
    largest: float
    saturates: bool = False


FORMATS = {
    "f16": Format(11, -14, 65504.0), "bf16": Format(8, -126, (2 - 2 ** -7) * 2.0 ** 127),
    "f32": Format(24, -126, (2 - 2 ** -23) * 2.0 ** 127), "tf32": Format(11, -126, (2 - 2 ** -10) * 2.0 ** 127),
    "f64": Format(53, -1022, (2 - 2 ** -52) * 2.0 ** 1023), "e4m3": Format(4, -6, 448.0, True),
    "e5m2": Format(3, -14, 57344.0, True), "e2m1": Format(2, 0, 6.0, True)}
UP, DOWN = "positive_inf", "negative_inf"
MODES = ("nearest_even", "zero", DOWN, UP)


def exponent(q: Fraction) -> int:
    """floor(log2(q)) of a positive rational."""
    e = q.numerator.bit_length() - q.denominator.bit_length()
    return e if Fraction(2) ** e <= q else e - 1


def rounded(q: Fraction, form: Format, mode: str = "nearest_even", zero: float = 0.0) -> float:
    """q in the format. `zero` is what an exact zero becomes."""
    if q == 0:
        return zero
    negative, q = q < 0, abs(q)
    spacing = Fraction(2) ** (max(exponent(q), form.emin) - form.precision + 1)
    steps, rest = divmod(q, spacing)
    away = {"zero": False, UP: not negative, DOWN: negative}.get(mode)
    if away is None:
        half = rest * 2 - spacing
        away = half > 0 or (half == 0 and (mode == "nearest_away" or steps % 2 == 1))
    elif rest == 0:
        away = False
    value = (steps + (1 if away else 0)) * spacing
    if value > Fraction(form.largest):
        inward = {"zero": True, UP: negative, DOWN: not negative}.get(mode, False)
        out = form.largest if inward or form.saturates else math.inf
    else:
        out = float(value)
    return -out if negative else out


def _sign(x: float) -> float:
    return math.copysign(1.0, x)


def _zero_sum(x: float, y: float, mode: str) -> float:
    """x + y where that is zero: of equal signs theirs, else + (- when rounding down)."""
    if _sign(x) == _sign(y):
        return math.copysign(0.0, x)
    return -0.0 if mode == DOWN else 0.0


def add(x: float, y: float, form: Format, mode: str) -> float:
    if not (math.isfinite(x) and math.isfinite(y)):
        return x + y
    return rounded(Fraction(x) + Fraction(y), form, mode, _zero_sum(x, y, mode))


def sub(x: float, y: float, form: Format, mode: str) -> float:
    return add(x, -y, form, mode)


def mul(x: float, y: float, form: Format, mode: str) -> float:
    if not (math.isfinite(x) and math.isfinite(y)):
        return x * y
    return rounded(Fraction(x) * Fraction(y), form, mode, 0.0 * _sign(x) * _sign(y))


def div(x: float, y: float, form: Format, mode: str) -> float:
    if math.isnan(x) or math.isnan(y) or (math.isinf(x) and math.isinf(y)) or (x == 0 and y == 0):
        return math.nan
    sign = _sign(x) * _sign(y)
    if math.isinf(x) or y == 0:
        return math.inf * sign
    if math.isinf(y):
        return 0.0 * sign
    return rounded(Fraction(x) / Fraction(y), form, mode, 0.0 * sign)


def fma(x: float, y: float, z: float, form: Format, mode: str) -> float:
    if not (math.isfinite(x) and math.isfinite(y)):
        return x * y + z
    if not math.isfinite(z):
        return z
    product = Fraction(x) * Fraction(y)
    sign = _sign(x) * _sign(y)
    return rounded(product + Fraction(z), form, mode, _zero_sum(sign * 0.0, z, mode))


def sqrt(x: float, form: Format, mode: str) -> float:
    """A root to more bits than any format, with one more that says that something remains, rounds like the root."""
    if math.isnan(x) or x == 0 or x == math.inf:
        return x
    if x < 0:
        return math.nan
    q = Fraction(x)
    shift = 2 * (70 - exponent(q) // 2)
    scaled = q * Fraction(2) ** shift
    root = math.isqrt(scaled.numerator // scaled.denominator)
    exact = root * root == scaled
    return rounded((Fraction(2 * root) + (0 if exact else 1)) / 2 / Fraction(2) ** (shift // 2), form, mode)


def flush(x: float, form: Format) -> float:
    """Subnormal numbers as zeros of their sign."""
    return math.copysign(0.0, x) if abs(x) < 2.0 ** form.emin else x


# ---------------------------------------------------------------------------------------------------------------------
# Values of a type

_VIEWS = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "e8m0": ml_dtypes.float8_e8m0fnu,
          "e2m1": ml_dtypes.float4_e2m1fn}
_BITS = {"f16": np.uint16, "bf16": np.uint16, "f32": np.uint32, "tf32": np.uint32, "f64": np.uint64}
_DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "tf32": np.float32, "f64": np.float64}


def numbers(x: np.ndarray, kind: str) -> np.ndarray:
    """The values of an array of a float type, as float64."""
    with np.errstate(invalid="ignore"):
        return (x.view(_VIEWS[kind]) if kind in _VIEWS else x).astype(np.float64)


def all_values(kind: str) -> np.ndarray:
    """Every bit pattern of an 8- or 4-bit type."""
    return np.arange(16 if kind == "e2m1" else 256, dtype=np.uint8)


def special_values(kind: str) -> np.ndarray:
    """Zeros, ones, the ends of the normal and subnormal range, ties of shorter formats, infinities and NaN."""
    if kind in _VIEWS:
        return all_values(kind)
    form = FORMATS[kind]
    tiny, unit = 2.0 ** form.emin, 2.0 ** (1 - form.precision)
    values = [0.0, tiny * unit, tiny * (1 - unit), tiny, tiny * (1 + unit), 1.0, 1 + unit, 1 - unit / 2, 1.5, 2.0, 3.0,
              7.0, 1 / 3, 0.1, form.largest, form.largest / 2, 127.5, 100.25]
    for other in FORMATS.values():
        if other.precision < form.precision and other.emin >= form.emin and other.largest <= form.largest:
            step, low = 2.0 ** (1 - other.precision), 2.0 ** other.emin
            values += [1 + step / 2, 1 + step * 1.5, 1 + step / 2 + unit, 1 + step * 1.5 - 2 * unit,
                       low * step * 0.5, low * step * 1.5, low * step * 0.5 * (1 + unit), low * (1 - step / 2),
                       other.largest * (1 + unit), other.largest * (1 + step / 2 / (2 - step))]
    values = [v for v in values if abs(v) <= form.largest]
    out = np.array([*values, *(-v for v in values), math.inf, -math.inf, math.nan])
    with np.errstate(all="ignore"):
        return _on_tf32(out.astype(_DTYPES[kind]), kind)


def _on_tf32(x: np.ndarray, kind: str) -> np.ndarray:
    return (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) if kind == "tf32" else x


def random_bits(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Random bit patterns: every exponent alike."""
    if kind in _VIEWS:
        return rng.choice(all_values(kind), n)
    bits = _BITS[kind]
    return _on_tf32(rng.integers(0, np.iinfo(bits).max, n, bits, endpoint=True).view(_DTYPES[kind]), kind)


def same(got: np.ndarray, want: np.ndarray, kind: str) -> np.ndarray:
    """Which elements agree: equal numbers with equal signs of zero, or both NaN. `want` is float64."""
    g = numbers(got, kind)
    return (np.isnan(g) & np.isnan(want)) | ((g == want) & (np.signbit(g) == np.signbit(want)))
