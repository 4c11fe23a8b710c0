"""Exact rounding: float64 arithmetic that keeps what was lost, and rounding of it into every floating format.

An intermediate result is carried as a float64 *rounded to odd*: when it isn't exact its last bit is set. Rounding such
a value again to any format of at most 51 bits gives what one rounding of the exact result gives, in every mode
(Boldo and Melquiond, "Emulation of FMA and correctly rounded sums").
"""
from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

NAN32 = np.uint32(0x7FFFFFFF)
NAN16 = np.uint16(0x7FFF)


@dataclass(frozen=True)
class Format:
    """A binary floating format: `precision` bits with the hidden one, least normal exponent, greatest finite value."""
    name: str
    precision: int
    least: int
    greatest: float
    infinity: bool = True


F16 = Format("f16", 11, -14, 65504.0)
BF16 = Format("bf16", 8, -126, float.fromhex("0x1.fep127"))
TF32 = Format("tf32", 11, -126, float.fromhex("0x1.ffcp127"))
F32 = Format("f32", 24, -126, float.fromhex("0x1.fffffep127"))
E4M3 = Format("e4m3", 4, -6, 448.0, False)
E5M2 = Format("e5m2", 3, -14, 57344.0)
E5M3 = Format("ue5m3", 4, -14, 114688.0, False)
E2M1 = Format("e2m1", 2, 0, 6.0, False)
E2M3 = Format("e2m3", 4, 0, 7.5, False)
E3M2 = Format("e3m2", 3, -2, 28.0, False)


def two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a + b in float64 and the exact error of it."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def to_odd(s: np.ndarray, error: np.ndarray) -> np.ndarray:
    """A float64 sum and its error as one value rounded to odd."""
    inexact = (error != 0) & np.isfinite(s) & (error == error)
    if not inexact.any():
        return s
    bits = s.view(np.int64)
    even = inexact & ((bits & 1) == 0)
    # towards the error: away from zero when the signs agree, else towards it
    step = np.where((error > 0) == (s > 0), 1, -1)
    return np.where(even, bits + step, bits).view(np.float64)


def add_odd(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a + b of float64 rounded to odd."""
    a, b = np.broadcast_arrays(a, b)
    s, e = two_sum(a, b)
    return to_odd(s, np.where(np.isfinite(s), e, 0.0))


def fma_odd(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c rounded to odd; a * b must be exact in float64 (operands of 24 bits or fewer)."""
    return add_odd(a * b, c)


def integral(x: np.ndarray, mode: str) -> np.ndarray:
    """Round to an integer. `mode`: rn (ties to even), rna (ties away), rz, rm, rp."""
    if mode == "rn":
        return np.rint(x)
    if mode == "rz":
        return np.trunc(x)
    if mode == "rm":
        return np.floor(x)
    if mode == "rp":
        return np.ceil(x)
    t = np.trunc(x)
    return np.where(np.abs(x - t) >= 0.5, t + np.copysign(1.0, x), t)


def to_format(x: np.ndarray, f: Format, mode: str = "rn", saturate: bool = False) -> np.ndarray:
    """Round float64 (exact or rounded to odd) to a format, as float64 values. Overflow follows the mode, or is clamped
    to the greatest finite value with `saturate`."""
    _, e = np.frexp(x)
    quantum = np.maximum(e - 1, f.least) - (f.precision - 1)
    y = np.ldexp(integral(np.ldexp(x, -quantum), mode), quantum)
    y = np.copysign(np.where(np.isfinite(x), y, x), x)
    over = np.abs(y) > f.greatest
    if over.any():
        if saturate or mode == "rz":
            limit = np.full(y.shape, f.greatest)
        elif mode == "rm":
            limit = np.where(y > 0, f.greatest, np.inf)
        elif mode == "rp":
            limit = np.where(y > 0, np.inf, f.greatest)
        else:
            limit = np.full(y.shape, np.inf)
        if not saturate:
            limit = np.where(np.isinf(x), np.inf, limit)
        y = np.where(over, np.copysign(limit, y), y)
    return y


def to_f32(x: np.ndarray, mode: str = "rn") -> np.ndarray:
    """Round float64 (exact or rounded to odd) to float32."""
    y = x.astype(np.float32)
    if mode == "rn":
        return y
    if mode == "rna":
        return to_format(x, F32, mode).astype(np.float32)
    back = y.astype(np.float64)
    if mode == "rm":
        return np.where(back > x, np.nextafter(y, np.float32(-np.inf)), y)
    if mode == "rp":
        return np.where(back < x, np.nextafter(y, np.float32(np.inf)), y)
    return np.where(np.abs(back) > np.abs(x), np.nextafter(y, np.float32(0)), y)


def bf16_to_f32(x: np.ndarray) -> np.ndarray:
    """bf16 bits (uint16) to float32."""
    return (x.astype(np.uint32) << np.uint32(16)).view(np.float32)


def f32_to_bf16(x: np.ndarray) -> np.ndarray:
    """float32 to bf16 bits, to nearest even; NaN becomes 0x7FFF."""
    b = x.view(np.uint32)
    rounded = (b + np.uint32(0x7FFF) + ((b >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(x != x, NAN16, rounded.astype(np.uint16))


def to_bf16(x: np.ndarray, mode: str = "rn") -> np.ndarray:
    """Round float64 (exact or rounded to odd) to bf16 bits."""
    y = to_format(x, BF16, mode).astype(np.float32)
    return np.where(x != x, NAN16, (y.view(np.uint32) >> np.uint32(16)).astype(np.uint16))


def to_f16(x: np.ndarray, mode: str = "rn") -> np.ndarray:
    """Round float64 (exact or rounded to odd) to float16."""
    if mode == "rn":
        return x.astype(np.float16)
    return to_format(x, F16, mode).astype(np.float16)


# ---- float64 results in directed modes, and its fused multiply-add

_SAFE_LOW, _SAFE_HIGH = 2.0 ** -400, 2.0 ** 400


def _two_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a * b and its error (Dekker), for magnitudes well inside the range."""
    split = 134217729.0
    t = a * split
    ah = t - (t - a)
    al = a - ah
    t = b * split
    bh = t - (t - b)
    bl = b - bh
    p = a * b
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def _safe(*values: np.ndarray) -> np.ndarray:
    ok = np.ones(np.broadcast_shapes(*(v.shape for v in values)), bool)
    for v in values:
        m = np.abs(v)
        ok &= ((m > _SAFE_LOW) & (m < _SAFE_HIGH)) | (m == 0)
    return ok


def fraction_to_f64(x: Fraction, mode: str) -> float:
    """Round a rational number to float64."""
    if x == 0:
        return 0.0
    n, d = abs(x.numerator), x.denominator
    e = n.bit_length() - d.bit_length()
    if Fraction(n, d) < Fraction(2) ** e:
        e -= 1
    q = max(e, -1022) - 52
    scaled = Fraction(n, d) / Fraction(2) ** q
    k, rest = divmod(scaled.numerator, scaled.denominator)
    up = {"rz": False, "rm": x < 0 and rest > 0, "rp": x > 0 and rest > 0}.get(mode)
    if up is None:
        twice = 2 * rest
        up = twice > scaled.denominator or (twice == scaled.denominator and k & 1 == 1)
    k += up
    if k.bit_length() + q > 1024:
        inside = mode == "rz" or (mode == "rm" and x > 0) or (mode == "rp" and x < 0)
        value = float.fromhex("0x1.fffffffffffffp1023") if inside else float("inf")
    else:
        value = float(np.ldexp(float(k), q)) if q > -1074 + 60 else float(Fraction(k) * Fraction(2) ** q)
    return -value if x < 0 else value


def _exact_each(out: np.ndarray, where: np.ndarray, f, mode: str, *values: np.ndarray) -> np.ndarray:
    """Recompute the elements of `where` with rational arithmetic."""
    if where.any():
        values = tuple(np.broadcast_to(v, out.shape) for v in values)
        out = np.array(out)
        for i in np.flatnonzero(where):
            exact = f(*(Fraction(float(v[i])) for v in values))
            if exact is not None and exact != 0:
                out[i] = fraction_to_f64(exact, mode)
    return out


def fma_f64(a: np.ndarray, b: np.ndarray, c: np.ndarray, mode: str = "rn") -> np.ndarray:
    """a * b + c of float64 with one rounding."""
    a, b, c = np.broadcast_arrays(a, b, c)
    plain = a * b + c
    safe = _safe(a, b, c) & (mode == "rn")
    uh, ul = _two_product(a, b)
    th, tl = two_sum(c, ul)
    vh, vl = two_sum(uh, th)
    z = to_odd(*two_sum(tl, vl))
    out = np.where(safe, vh + z, plain)
    finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    zero = finite & (a * b == 0) & ((a == 0) | (b == 0))
    out = np.where(zero, plain, out)
    out = _exact_each(out, finite & ~safe & ~zero, lambda x, y, z: x * y + z, mode, a, b, c)
    exact_zero = np.where(c == 0, zero, a * b == -c)
    return np.where(exact_zero, _zero_sum_sign(out, a * b, c, mode), out)


def _zero_sum_sign(out: np.ndarray, a: np.ndarray, b: np.ndarray, mode: str) -> np.ndarray:
    """In round-down mode an exact zero sum of opposite signs is -0."""
    if mode != "rm":
        return out
    return np.where((out == 0) & (np.signbit(a) | np.signbit(b)), -0.0, out)


def directed_f64(rounded: np.ndarray, error_sign: np.ndarray, mode: str) -> np.ndarray:
    """Move a nearest-even float64 result to a directed mode; `error_sign`: sign of exact minus rounded."""
    if mode == "rm":
        step = np.where(error_sign < 0, -np.inf, rounded)
    elif mode == "rp":
        step = np.where(error_sign > 0, np.inf, rounded)
    else:
        step = np.where(error_sign * np.sign(rounded) < 0, 0.0, rounded)
    return np.nextafter(rounded, step)


def add_f64(a: np.ndarray, b: np.ndarray, mode: str) -> np.ndarray:
    """a + b of float64 in any mode."""
    if mode == "rn":
        return a + b
    a, b = np.broadcast_arrays(a, b)
    s, e = two_sum(a, b)
    finite = np.isfinite(a) & np.isfinite(b)
    out = np.where(np.isfinite(s), directed_f64(s, np.sign(e), mode), s)
    out = _exact_each(out, finite & ~np.isfinite(s), lambda x, y: x + y, mode, a, b)
    return _zero_sum_sign(out, a, b, mode)


def mul_f64(a: np.ndarray, b: np.ndarray, mode: str) -> np.ndarray:
    """a * b of float64 in any mode."""
    if mode == "rn":
        return a * b
    a, b = np.broadcast_arrays(a, b)
    safe = _safe(a, b)
    p, e = _two_product(a, b)
    out = np.where(safe, directed_f64(p, np.sign(e), mode), p)
    return _exact_each(out, np.isfinite(a) & np.isfinite(b) & ~safe, lambda x, y: x * y, mode, a, b)


def div_f64(a: np.ndarray, b: np.ndarray, mode: str) -> np.ndarray:
    """a / b of float64 in any mode."""
    q = a / b
    if mode == "rn":
        return q
    a, b = np.broadcast_arrays(a, b)
    safe = _safe(a, b, q) & (a != 0) & (b != 0)
    p, e = _two_product(q, b)
    residual = (a - p) - e
    out = np.where(safe, directed_f64(q, np.sign(residual) * np.sign(b), mode), q)
    usable = np.isfinite(a) & np.isfinite(b) & (b != 0) & (a != 0) & ~safe
    return _exact_each(out, usable, lambda x, y: x / y, mode, a, b)


def sqrt_f64(a: np.ndarray, mode: str) -> np.ndarray:
    """The square root of float64 in any mode."""
    q = np.sqrt(a)
    if mode == "rn":
        return q
    out = np.array(q)
    for i in np.flatnonzero(np.isfinite(a) & (a > 0)):
        x, y = Fraction(float(a[i])), Fraction(float(q[i]))
        sign = (x > y * y) - (x < y * y)
        out[i] = directed_f64(q[i:i + 1], np.array([float(sign)]), mode)[0]
    return out
