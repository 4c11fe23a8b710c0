"""Floats on zeros, subnormals, infinities and NaN against NumPy; integers on all pairs of bytes against Python's."""
from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.interp.build import apply
from tileiras.dialects.cuda_tile import attrs, ops

SIGNED, UNSIGNED = attrs.SignednessAttr("signed"), attrs.SignednessAttr("unsigned")
NEAREST: dict[str, Any] = {"rounding_mode": attrs.RoundingAttr("nearest_even")}
FULL: dict[str, Any] = {"rounding_mode": attrs.RoundingAttr("full")}
WRAPS: dict[str, Any] = {"overflow": attrs.OverflowAttr("none")}

TYPES = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)


def specials(dtype: Any) -> np.ndarray:
    """Zeros, ones, the smallest and largest numbers, infinities, NaN and a few ordinary ones, in every sign."""
    info: Any = ml_dtypes.finfo(dtype)
    positive = [0.0, float(info.smallest_subnormal), float(info.smallest_normal), 0.5, 1.0, 1.5, 3.0, 7.25,
                float(info.max) / 2, float(info.max), np.inf]
    return np.array([*positive, *(-v for v in positive), np.nan], np.float64).astype(dtype)


def pairs(dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Every value with every other, padded to a power of two."""
    values = specials(dtype)
    a, b = (m.reshape(-1) for m in np.meshgrid(values, values))
    size = 1 << (len(a) - 1).bit_length()
    return np.resize(a, size), np.resize(b, size)


def same(got: np.ndarray, want: np.ndarray) -> bool:
    """Equal bits, any NaN equal to any other."""
    kind = f"u{got.dtype.itemsize}"
    nan = np.isnan(got.astype(float)) & np.isnan(want.astype(float))
    return bool((nan | (got.view(kind) == want.astype(got.dtype).view(kind))).all())


def exact_fma(a: float, b: float, c: float, dtype: Any) -> float:
    """a*b + c rounded once: in exact arithmetic where all are finite, else as the infinities and NaN have it."""
    if not all(map(math.isfinite, (a, b, c))):
        return a * b + c if not (math.isfinite(a) and math.isfinite(b)) else c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return math.copysign(0.0, a) * math.copysign(1.0, b) + c if a == 0 or b == 0 else 0.0
    return round_to(exact, dtype)


def round_to(value: Fraction, dtype: Any) -> float:
    """The nearest number of a format, ties to even, by integers alone."""
    info: Any = ml_dtypes.finfo(dtype)
    bits = info.nmant
    exponent = max(value.numerator.bit_length() - value.denominator.bit_length() - 1, info.minexp - 1)
    while abs(value) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    step = Fraction(2) ** (max(exponent, info.minexp) - bits)
    rounded = round(value / step) * step          # Fraction rounds half to even
    if abs(rounded) > Fraction(float(info.max)):
        return math.copysign(math.inf, rounded)
    return float(rounded) if rounded else math.copysign(0.0, value)


def numpy_maximum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The number where one is NaN; +0.0 above -0.0."""
    out = np.fmax(a, b)
    return np.where((a == 0) & (b == 0), np.where(np.signbit(a) & np.signbit(b), a, abs(a)), out).astype(a.dtype)


def numpy_minimum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return -numpy_maximum(-a, -b)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.filterwarnings("ignore")
def test_floats_on_special_values(dtype: Any) -> None:
    a, b = pairs(dtype)
    for op, function, attributes in (
            (ops.AddF, np.add, NEAREST), (ops.SubF, np.subtract, NEAREST), (ops.MulF, np.multiply, NEAREST),
            (ops.DivF, np.divide, NEAREST), (ops.MaxF, numpy_maximum, {}), (ops.MinF, numpy_minimum, {})):
        assert same(apply(op, [a, b], **attributes), function(a, b)), op.name
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    assert same(apply(ops.RemF, [a, b]), np.fmod(wide_a, wide_b).astype(dtype))
    for op, function, attributes in (
            (ops.AbsF, abs, {}), (ops.NegF, operator.neg, {}), (ops.Sqrt, np.sqrt, NEAREST)):
        assert same(apply(op, [a], **attributes), function(a)), op.name
    for op, function in ((ops.Ceil, np.ceil), (ops.Floor, np.floor)):
        assert same(apply(op, [a]), function(wide_a).astype(dtype)), op.name
    if dtype in (np.float16, np.float32):
        c = np.roll(a, 5)
        want = [exact_fma(float(x), float(y), float(z), dtype) for x, y, z in zip(a, b, c)]
        assert same(apply(ops.Fma, [a, b, c], **NEAREST), np.array(want).astype(dtype))
    comparisons: dict[str, Callable[..., Any]] = {
        "equal": np.equal, "not_equal": np.not_equal, "less_than": np.less, "less_than_or_equal": np.less_equal,
        "greater_than": np.greater, "greater_than_or_equal": np.greater_equal}
    nan = np.isnan(wide_a) | np.isnan(wide_b)
    for name, function in comparisons.items():
        for ordering, want in (("ordered", function(wide_a, wide_b) & ~nan), ("unordered", function(wide_a, wide_b) | nan)):
            got = apply(ops.CmpF, [a, b], ("i1", a.shape), comparison_predicate=attrs.ComparisonPredicateAttr(name),
                        comparison_ordering=attrs.ComparisonOrderingAttr(ordering))
            assert (got == want).all(), (name, ordering)


@pytest.mark.parametrize("op, function, attributes", [
    (ops.Exp, np.exp, FULL), (ops.Exp2, np.exp2, {}), (ops.Log, np.log, {}), (ops.Log2, np.log2, {}),
    (ops.Sin, np.sin, {}), (ops.Cos, np.cos, {}), (ops.Tan, np.tan, {}), (ops.SinH, np.sinh, {}),
    (ops.CosH, np.cosh, {}), (ops.TanH, np.tanh, FULL), (ops.Rsqrt, lambda v: 1 / np.sqrt(v), {}),
    (ops.Pow, np.power, {}), (ops.Atan2, np.arctan2, {})])
@pytest.mark.filterwarnings("ignore")
def test_maths_on_special_values(op: Any, function: Any, attributes: Any) -> None:
    """In f32, against long double rounded; angles small enough for NumPy's own reduction."""
    a, b = pairs(np.float32)
    keep = (abs(a) < 1e6) | ~np.isfinite(a)
    a = np.where(keep, a, np.float32(2.5))
    two = op in (ops.Pow, ops.Atan2)
    want = function(a.astype(np.longdouble), b.astype(np.longdouble)) if two else function(a.astype(np.longdouble))
    got = apply(op, [a, b] if two else [a], **attributes)
    assert same(got, want.astype(np.float32))


BYTES = np.arange(-128, 128).astype(np.int8)
LEFT, RIGHT = (m.reshape(-1) for m in np.meshgrid(BYTES, BYTES))


def _wrapped(values: list[int]) -> list[int]:
    return [(v + 128) % 256 - 128 for v in values]


def _truncated(a: int, b: int) -> int:
    return int(Fraction(a, b))


DIVISIONS: dict[str, Callable[[int, int], int]] = {
    "zero": _truncated, "negative_inf": lambda a, b: a // b, "positive_inf": lambda a, b: -(-a // b)}


def test_integers_on_all_bytes() -> None:
    a, b = LEFT.tolist(), RIGHT.tolist()
    ua, ub = LEFT.view(np.uint8).tolist(), RIGHT.view(np.uint8).tolist()
    for op, function in ((ops.AddI, operator.add), (ops.SubI, operator.sub), (ops.MulI, operator.mul)):
        assert apply(op, [LEFT, RIGHT], **WRAPS).tolist() == _wrapped(list(map(function, a, b))), op.name
    for op, function in ((ops.AndI, operator.and_), (ops.OrI, operator.or_), (ops.XOrI, operator.xor)):
        assert apply(op, [LEFT, RIGHT]).tolist() == list(map(function, a, b)), op.name
    assert apply(ops.MulhiI, [LEFT, RIGHT]).tolist() == _wrapped([x * y >> 8 for x, y in zip(ua, ub)])
    for sign, x, y in ((SIGNED, a, b), (UNSIGNED, ua, ub)):
        assert apply(ops.MaxI, [LEFT, RIGHT], signedness=sign).tolist() == _wrapped(list(map(max, x, y)))
        assert apply(ops.MinI, [LEFT, RIGHT], signedness=sign).tolist() == _wrapped(list(map(min, x, y)))
        for name, function in (("less_than", operator.lt), ("greater_than_or_equal", operator.ge), ("equal", operator.eq),
                               ("not_equal", operator.ne), ("less_than_or_equal", operator.le),
                               ("greater_than", operator.gt)):
            got = apply(ops.CmpI, [LEFT, RIGHT], ("i1", LEFT.shape), signedness=sign,
                        comparison_predicate=attrs.ComparisonPredicateAttr(name))
            assert got.tolist() == list(map(function, x, y)), name
    _divisions(a, b, ua, ub)
    counts = (RIGHT % 8).astype(np.int8)
    n = counts.tolist()
    assert apply(ops.ShLI, [LEFT, counts], **WRAPS).tolist() == _wrapped(list(map(operator.lshift, a, n)))
    assert apply(ops.ShRI, [LEFT, counts], signedness=SIGNED).tolist() == list(map(operator.rshift, a, n))
    assert apply(ops.ShRI, [LEFT, counts], signedness=UNSIGNED).tolist() == _wrapped(list(map(operator.rshift, ua, n)))


def _divisions(a: list[int], b: list[int], ua: list[int], ub: list[int]) -> None:
    """Where the divisor isn't zero and the quotient fits: elsewhere the language promises nothing."""
    fits = [y != 0 and not (x == -128 and y == -1) for x, y in zip(a, b)]
    left, right = (np.where(fits, m, 1).astype(np.int8) for m in (LEFT, RIGHT))
    for sign, x, y in ((SIGNED, left.tolist(), right.tolist()),
                       (UNSIGNED, left.view(np.uint8).tolist(), right.view(np.uint8).tolist())):
        for name, function in DIVISIONS.items():
            if sign is UNSIGNED and name == "negative_inf":
                continue
            got = apply(ops.DivI, [left, right], signedness=sign, rounding=attrs.RoundingAttr(name))
            assert got.tolist() == _wrapped(list(map(function, x, y))), name
        got = apply(ops.RemI, [left, right], signedness=sign)
        assert got.tolist() == _wrapped([p - q * _truncated(p, q) for p, q in zip(x, y)])


def test_single_integers_on_all_bytes() -> None:
    values = BYTES.tolist()
    assert apply(ops.NegI, [BYTES], **WRAPS).tolist() == _wrapped([-v for v in values])
    assert apply(ops.AbsI, [BYTES]).tolist() == _wrapped(list(map(abs, values)))
