"""Rounding, arithmetic and conversions of every float format are exact: checked against fractions."""
from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tileiras.interp import convert, exact, floats, formats, integers
from tileiras.interp.formats import BF16, F16, F32, F64, TF32, FloatFormat
from tileiras.interp.rounding import round_to

MODES = ("nearest_even", "zero", "negative_inf", "positive_inf")
NARROW = (F16, BF16, TF32, formats.F8E4M3FN, formats.F8E5M2, formats.F4E2M1FN)


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def grid(fmt: FloatFormat, x: Fraction) -> tuple[Fraction, Fraction]:
    """The two neighbours of x among the format's numbers, its range unbounded above."""
    step = spacing(fmt, x)
    low = (x // step) * step
    return low, low if low == x else low + step


def spacing(fmt: FloatFormat, x: Fraction) -> Fraction:
    n, d = abs(x.numerator), x.denominator
    e = n.bit_length() - d.bit_length()
    if Fraction(n, d) < Fraction(2) ** e:
        e -= 1
    return Fraction(2) ** (max(e, fmt.emin) - fmt.precision + 1)


def expected(fmt: FloatFormat, x: Fraction, mode: str) -> float:
    low, high = grid(fmt, x)
    if mode == "negative_inf":
        picked = low
    elif mode == "positive_inf":
        picked = high
    elif mode == "zero":
        picked = low if x > 0 else high
    elif x - low != high - x:
        picked = low if x - low < high - x else high
    elif mode == "nearest_away":
        picked = high if x > 0 else low
    else:
        picked = low if (low / spacing(fmt, x)) % 2 == 0 else high
    if abs(picked) > fmt.largest:
        to_limit = fmt.saturates or mode == "zero" or (mode == "negative_inf" and picked > 0) or (
            mode == "positive_inf" and picked < 0)
        return float(np.copysign(fmt.largest if to_limit else np.inf, 1 if picked > 0 else -1))
    return float(picked)


def spread(fmt: FloatFormat, seed: int, count: int) -> np.ndarray:
    """float64 numbers from below the least subnormal to beyond the range, ties among them."""
    rng = np.random.default_rng(seed)
    top = int(np.log2(fmt.largest)) + 2
    low = fmt.emin - fmt.precision - 1
    exponents = rng.integers(low, top, count)
    whole = rng.integers(-(2 ** (fmt.precision + 1)), 2 ** (fmt.precision + 1), count)
    x = whole * 2.0 ** (exponents.astype(float) - fmt.precision)
    x[::3] *= 1 + 2.0 ** -40
    return x


@pytest.mark.parametrize("fmt", NARROW + (F32,), ids=lambda f: f.name)
@pytest.mark.parametrize("mode", MODES + ("nearest_away",))
def test_round_to_is_exact(fmt: FloatFormat, mode: str) -> None:
    x = spread(fmt, 1, 400)
    got = round_to(x, fmt, mode).astype(np.float64)
    assert got.tolist() == [expected(fmt, Fraction(float(v)), mode) for v in x]


@pytest.mark.parametrize("mode", ("zero", "positive_inf", "nearest_even"))
def test_e8m0_holds_powers_of_two_only(mode: str) -> None:
    x = np.array([1.0, 1.25, 1.5, 1.75, 3.0, 2.0 ** 127 * 1.5, 2.0 ** -140, 0.0, -2.5])
    down = [1, 1, 1, 1, 2, 2.0 ** 127, 2.0 ** -127, 2.0 ** -127, 2]
    up = [1, 2, 2, 2, 4, 2.0 ** 127, 2.0 ** -127, 2.0 ** -127, 4]
    nearest = [1, 1, 2, 2, 4, 2.0 ** 127, 2.0 ** -127, 2.0 ** -127, 2]
    want = {"zero": down, "positive_inf": up, "nearest_even": nearest}[mode]
    assert round_to(x, formats.F8E8M0FNU, mode).astype(np.float64).tolist() == want
    assert np.isnan(round_to(np.array(np.nan), formats.F8E8M0FNU, mode).astype(np.float64))


def test_small_floats_saturate_and_keep_nan_where_they_have_one() -> None:
    x = np.array([np.inf, -np.inf, 1e30, np.nan])
    assert round_to(x[:3], formats.F8E4M3FN).astype(float).tolist() == [448, -448, 448]
    assert round_to(x[:3], formats.F8E5M2).astype(float).tolist() == [57344, -57344, 57344]
    assert round_to(x, formats.F4E2M1FN).astype(float).tolist() == [6, -6, 6, 6]
    assert np.isnan(round_to(x[3:], formats.F8E4M3FN).astype(float)).all()


def operands(fmt: FloatFormat, seed: int, count: int = 300) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    high = {11: 15, 8: 100, 24: 100, 53: 900}[fmt.precision]
    out = []
    for _ in range(3):
        whole = rng.integers(-(2 ** fmt.precision), 2 ** fmt.precision, count)
        out.append((whole * 2.0 ** (rng.integers(-high, high // 2, count) / 2.0).round() / 2.0 ** fmt.precision
                    ).astype(fmt.dtype))
    out[1][::5] = -out[0][::5]
    return out


OPERATIONS = {"add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b,
              "divide": lambda a, b: a / b}


@pytest.mark.parametrize("fmt", (F16, BF16, F32, F64), ids=lambda f: f.name)
@pytest.mark.parametrize("mode", MODES)
def test_arithmetic_rounds_the_exact_result_once(fmt: FloatFormat, mode: str) -> None:
    a, b, c = operands(fmt, 7)
    b[b == 0] = 1
    for name, function in OPERATIONS.items():
        got = floats.arithmetic(name, fmt, mode, False)(a, b).astype(np.float64)
        want = [expected(fmt, function(Fraction(float(x)), Fraction(float(y))), mode) for x, y in zip(a, b)]
        assert got.tolist() == want, name
    got = floats.fused_multiply_add(fmt, mode, False)(a, b, c).astype(np.float64)
    assert got.tolist() == [expected(fmt, Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)), mode)
                            for x, y, z in zip(a, b, c)]


@pytest.mark.parametrize("fmt", (F16, BF16, F32, F64), ids=lambda f: f.name)
@pytest.mark.parametrize("mode", MODES)
def test_square_root_rounds_once(fmt: FloatFormat, mode: str) -> None:
    x = np.abs(operands(fmt, 3)[0])
    got = floats.arithmetic("sqrt", fmt, mode, False)(x)
    down, up = np.nextafter(got, fmt.dtype.type(-1)), np.nextafter(got, fmt.dtype.type(np.inf))
    for root, below, above, value in zip(got.astype(float), down.astype(float), up.astype(float), x.astype(float)):
        r, v = Fraction(root), Fraction(value)
        if mode in ("zero", "negative_inf"):
            assert r * r <= v and (v == 0 or Fraction(above) ** 2 > v)
        elif mode == "positive_inf":
            assert r * r >= v and (v == 0 or Fraction(below) ** 2 < v)
        elif v:
            assert ((r + Fraction(below)) / 2) ** 2 <= v <= ((r + Fraction(above)) / 2) ** 2


EXTREMES = [0.0, -0.0, 5e-324, -5e-324, 2.3e-308, 1e-160, -1e160, 1.7976931348623157e308, -1.7976931348623157e308, 1.0,
            0.1, np.inf, -np.inf, np.nan, 1e300, 1e-300]


@pytest.mark.parametrize("mode", MODES)
def test_f64_at_the_ends_of_the_range(mode: str) -> None:
    a, b = (g.ravel() for g in np.meshgrid(EXTREMES, EXTREMES))
    with np.errstate(all="ignore"):
        results = {name: floats.arithmetic(name, F64, mode, False)(a, b) for name in OPERATIONS}
        fused = floats.fused_multiply_add(F64, mode, False)(a, b, np.full_like(a, -1e-310))
        native = {"add": a + b, "subtract": a - b, "multiply": a * b, "divide": a / b}
    for i, (x, y) in enumerate(zip(a.tolist(), b.tolist())):
        finite = np.isfinite(x) and np.isfinite(y)
        for name, function in OPERATIONS.items():
            if finite and not (name == "divide" and y == 0):
                want = expected(F64, function(Fraction(x), Fraction(y)), mode)
            else:
                want = float(native[name][i])
            assert results[name][i] == want or (np.isnan(want) and np.isnan(results[name][i])), (name, x, y)
        if finite:
            assert fused[i] == expected(F64, Fraction(x) * Fraction(y) + Fraction(-1e-310), mode), (x, y)


def test_exact_zero_sums_are_negative_only_when_rounding_down() -> None:
    one = np.array([1.0, 0.0, -0.0], np.float32)
    for mode in MODES:
        got = floats.arithmetic("subtract", F32, mode, False)(one, one)
        assert np.signbit(got).tolist() == [mode == "negative_inf"] * 3, mode
        fused = floats.fused_multiply_add(F32, mode, False)(one[:1], one[:1], -one[:1])
        assert np.signbit(fused).tolist() == [mode == "negative_inf"], mode


def test_flush_to_zero_flushes_operands_and_results() -> None:
    tiny = np.array([2.0 ** -140, -2.0 ** -127, 2.0 ** -126], np.float32)
    half = np.full(3, 0.5, np.float32)
    assert floats.arithmetic("add", F32, "nearest_even", True)(tiny, tiny).tolist() == [0, 0, 2.0 ** -125]
    got = floats.arithmetic("multiply", F32, "zero", True)(tiny, half)
    assert got.tolist() == [0, 0, 0] and np.signbit(got).tolist() == [False, True, False]


def test_extrema_know_signed_zeros_and_nan() -> None:
    x = np.array([0.0, -0.0, np.nan, 1.0, np.nan], np.float16)
    y = np.array([-0.0, 0.0, 2.0, np.nan, np.nan], np.float16)
    most, least = floats.extremum("maximum", False, False)(x, y), floats.extremum("minimum", False, False)(x, y)
    assert np.signbit(most[:2]).tolist() == [False, False] and np.signbit(least[:2]).tolist() == [True, True]
    assert most[2:4].tolist() == [2, 1] and least[2:4].tolist() == [2, 1] and np.isnan(most[4])
    assert np.isnan(floats.extremum("maximum", True, False)(x, y)[2:]).all()


@pytest.mark.parametrize("signedness", ("signed", "unsigned"))
@pytest.mark.parametrize("to", (F16, BF16, F32, F64, TF32), ids=lambda f: f.name)
def test_integers_become_floats_with_one_rounding(signedness: str, to: FloatFormat) -> None:
    rng = np.random.default_rng(5)
    x = rng.integers(-2 ** 63, 2 ** 63, 200, np.int64)
    x[::4] = [2 ** 63 - 1, -2 ** 63, -1, 0, 2 ** 53 + 1] * 10
    x[1::4] >>= 40
    numbers = [int(v) if signedness == "signed" else int(v) % 2 ** 64 for v in x]
    for mode in MODES:
        got = convert.int_to_float(x, formats.I64, signedness, to, mode).astype(np.float64)
        assert got.tolist() == [expected(to, Fraction(n), mode) for n in numbers]


def test_floats_become_integers_towards_zero_and_saturate() -> None:
    x = np.array([1.9, -1.9, 300.0, -300.0, np.nan, np.inf, -np.inf, 127.5])
    assert convert.float_to_int(x, formats.I8, "signed").tolist() == [1, -1, 127, -128, 0, 127, -128, 127]
    assert convert.float_to_int(x, formats.I8, "unsigned").view(np.uint8).tolist() == [1, 0, 255, 0, 0, 255, 0, 127]
    big = np.array([2.0 ** 63, -2.0 ** 63, 2.0 ** 64, 2.0 ** 62])
    assert convert.float_to_int(big, formats.I64, "signed").tolist() == [2 ** 63 - 1, -2 ** 63, 2 ** 63 - 1, 2 ** 62]
    got = convert.float_to_int(big, formats.I64, "unsigned").view(np.uint64)
    assert got.tolist() == [2 ** 63, 0, 2 ** 64 - 1, 2 ** 62]
    assert convert.float_to_int(np.array([0.0, 1.0, 0.25]), formats.I1, "unsigned").tolist() == [False, True, True]


def test_one_bit_integers() -> None:
    t = np.array([False, True])
    assert integers.signed(t, formats.I1).tolist() == [0, -1]
    assert convert.int_to_int(t, formats.I1, "signed", formats.I16).tolist() == [0, -1]
    assert convert.int_to_int(t, formats.I1, "unsigned", formats.I16).tolist() == [0, 1]
    assert convert.int_to_int(np.array([2, 3], np.int32), formats.I32, "unsigned", formats.I1).tolist() == [False, True]


@pytest.mark.parametrize("fmt", (formats.I8, formats.I16, formats.I32, formats.I64), ids=lambda f: f.name)
def test_integer_arithmetic_against_python(fmt: formats.IntFormat) -> None:
    rng = np.random.default_rng(2)
    info = np.iinfo(fmt.dtype)
    x = rng.integers(info.min, info.max, 300, fmt.dtype, endpoint=True)
    y = rng.integers(info.min, info.max, 300, fmt.dtype, endpoint=True)
    y[::2] >>= fmt.bits - 4
    x[0], y[0] = info.min, -1
    y[y == 0] = 3
    size = 1 << fmt.bits

    def signed(n: int) -> int:
        return (n + size // 2) % size - size // 2

    for signedness in ("signed", "unsigned"):
        a = [int(v) % size if signedness == "unsigned" else int(v) for v in x]
        b = [int(v) % size if signedness == "unsigned" else int(v) for v in y]
        for rounding in ("zero", "positive_inf", "negative_inf"):
            want = []
            for p, q in zip(a, b):
                f = Fraction(p, q)
                n = {"zero": int(f), "positive_inf": -((-p) // q), "negative_inf": p // q}[rounding]
                want.append(signed(n))
            assert integers.divide(x, y, fmt, signedness, rounding).tolist() == want
        assert integers.remainder(x, y, fmt, signedness).tolist() == [signed(p - int(Fraction(p, q)) * q)
                                                                      for p, q in zip(a, b)]
        n = (y % np.array(fmt.bits + 3, fmt.dtype))
        assert integers.shift_right(x, n, fmt, signedness).tolist() == [signed(p >> int(k)) for p, k in zip(a, n)]
        assert integers.shift_left(x, n, fmt).tolist() == [signed(p << int(k)) for p, k in zip(a, n)]
    assert integers.multiply_high(x, y, fmt).tolist() == [
        signed((int(p) % size) * (int(q) % size) >> fmt.bits) for p, q in zip(x, y)]


def test_pack_and_unpack_are_little_endian_and_low_nibble_first() -> None:
    import ml_dtypes
    f4 = np.array([0.5, -6.0, 1.0, 3.0], ml_dtypes.float4_e2m1fn)       # codes 1, 15, 2, 5
    packed = convert.pack(f4, formats.F4E2M1FN)
    assert packed.view(np.uint8).tolist() == [0xF1, 0x52]
    assert convert.unpack(packed, formats.F4E2M1FN).astype(float).tolist() == [0.5, -6, 1, 3]
    i4 = np.array([-1, 7], np.int8)
    assert convert.pack(i4, formats.I4).view(np.uint8).tolist() == [0x7F]
    assert convert.unpack(np.array([0x7F], np.int8), formats.I4).tolist() == [-1, 7]
    assert convert.pack(np.array([0x1234], np.int16), formats.I16).tolist() == [0x34, 0x12]
    assert convert.unpack(np.array([0, 0, -128, 63], np.int8), F32).tolist() == [1.0]


def test_two_products_keep_every_bit() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal(200), rng.standard_normal(200)
    for function, operation in ((exact.add, lambda p, q: p + q), (exact.multiply, lambda p, q: p * q)):
        nearest, error = function(a, b)
        for p, q, n, e in zip(a, b, nearest, error):
            missing = operation(Fraction(p), Fraction(q)) - Fraction(n)
            assert (missing > 0) - (missing < 0) == np.sign(e)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fmt", (F16, BF16, F32, F64), ids=lambda f: f.name)
def test_a_number_by_infinity_is_exactly_zero(fmt: FloatFormat, mode: str) -> None:
    a, b = np.array([3, -3, 3], fmt.dtype), np.array([np.inf, np.inf, -np.inf], fmt.dtype)
    got = floats.arithmetic("divide", fmt, mode, False)(a, b).astype(np.float64)
    assert got.tolist() == [0, 0, 0] and np.signbit(got).tolist() == [False, True, True]
