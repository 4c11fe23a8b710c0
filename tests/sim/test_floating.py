"""Floating-point instructions against exact rational arithmetic, in every rounding mode."""
from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tests.sim.ptxkit import evaluate, rounded

RNG = np.random.default_rng(2)
DTYPE = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
BITS = {"f16": np.uint16, "bf16": np.uint16, "f32": np.uint32, "f64": np.uint64}
MODES = ("rn", "rz", "rm", "rp")


def numbers(t: str, n: int = 192) -> np.ndarray:
    """Random bit patterns, numbers of like size, and the edges; finite and as DTYPE[t]."""
    bits = BITS[t]
    wild = RNG.integers(0, np.iinfo(bits).max, n, bits, endpoint=True).view(DTYPE[t])
    near = (RNG.standard_normal(n) * 2.0 ** RNG.integers(-3, 4, n)).astype(DTYPE[t])
    info = ml_dtypes.finfo(DTYPE[t])
    edges = np.array([0.0, -0.0, 1.0, -1.0, 3.0, info.max, -info.max, info.tiny, -info.tiny, info.smallest_subnormal,
                      float(info.tiny) / 2], np.float64).astype(DTYPE[t])
    x = np.concatenate([edges, near, wild])
    x = np.where(np.isfinite(x.astype(np.float64)), x, np.array(1.5).astype(DTYPE[t]))
    return RNG.permutation(x)[:n].astype(DTYPE[t])


def compare(got: np.ndarray, want: list, t: str) -> None:
    g = got.view(DTYPE[t]).astype(np.float64)
    w = np.array(want, np.float64)
    bad = ~((g == w) | (np.isnan(g) & np.isnan(w)))
    assert not bad.any(), [(i, g[i], w[i]) for i in np.flatnonzero(bad)[:5]]


OPS = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("t", ["f32", "f64"])
def test_arithmetic_is_rounded_once(t, op, mode):
    a, b = numbers(t), numbers(t)
    got = evaluate(f"{op}.{mode}.{t} %y0, %x0, %x1;", [(t, a.view(BITS[t])), (t, b.view(BITS[t]))], [(t, BITS[t])])
    compare(got, [rounded(OPS[op](Fraction(float(x)), Fraction(float(y))), t, mode) for x, y in zip(a, b)], t)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("t", ["f16", "bf16"])
def test_16_bit_arithmetic_is_rounded_once(t, op):
    a, b = numbers(t), numbers(t)
    got = evaluate(f"{op}.rn.{t} %y0, %x0, %x1;", [(t, a.view(BITS[t])), (t, b.view(BITS[t]))], [(t, BITS[t])])
    compare(got, [rounded(OPS[op](Fraction(float(x)), Fraction(float(y))), t, "rn") for x, y in zip(a, b)], t)


@pytest.mark.parametrize("t,modes", [("f16", ("rn",)), ("bf16", ("rn",)), ("f32", MODES), ("f64", MODES)])
def test_fused_multiply_add_is_rounded_once(t, modes):
    a, b, c = numbers(t), numbers(t), numbers(t)
    half = len(a) // 2          # sums that cancel: c close to -a*b
    with np.errstate(all="ignore"):
        c[:half] = np.nan_to_num(-(a[:half].astype(np.float64) * b[:half].astype(np.float64)), posinf=1,
                                 neginf=1).astype(DTYPE[t])
        c[~np.isfinite(c.astype(np.float64))] = np.array(2.0).astype(DTYPE[t])
    for mode in modes:
        got = evaluate(f"fma.{mode}.{t} %y0, %x0, %x1, %x2;", [(t, v.view(BITS[t])) for v in (a, b, c)], [(t, BITS[t])])
        compare(got, [rounded(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)), t, mode)
                      for x, y, z in zip(a, b, c)], t)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("t", ["f32", "f64"])
def test_division_and_roots_are_rounded_once(t, mode):
    a, b = numbers(t), numbers(t)
    b[b == 0] = 3
    got = evaluate(f"div.{mode}.{t} %y0, %x0, %x1;", [(t, a.view(BITS[t])), (t, b.view(BITS[t]))], [(t, BITS[t])])
    compare(got, [rounded(Fraction(float(x)) / Fraction(float(y)), t, mode) for x, y in zip(a, b)], t)
    got = evaluate(f"rcp.{mode}.{t} %y0, %x0;", [(t, b.view(BITS[t]))], [(t, BITS[t])])
    compare(got, [rounded(1 / Fraction(float(y)), t, mode) for y in b], t)
    got = evaluate(f"sqrt.{mode}.{t} %y0, %x0;", [(t, np.abs(a).view(BITS[t]))], [(t, BITS[t])])
    for x, y in zip(np.abs(a), got.view(DTYPE[t])):
        exact, r = Fraction(float(x)), Fraction(float(y))
        below, above = (Fraction(float(np.nextafter(y, DTYPE[t](s * np.inf)))) for s in (-1, 1))
        if exact == r * r:
            continue
        if mode == "rn":
            assert ((r + below) / 2) ** 2 <= exact <= ((r + above) / 2) ** 2
        elif mode == "rp":
            assert r * r >= exact and max(below, 0) ** 2 < exact
        else:
            assert r * r <= exact < above * above


def test_flushing_and_saturation():
    tiny = np.array([1e-40, -1e-40, 1e-38, 2.0, -3.0, np.nan, 0.25, 1e-20], np.float32)
    other = np.array([1.0, 1.0, 1e-3, 1.0, 1.0, 1.0, 1.0, 1e-20], np.float32)
    got = evaluate("mul.ftz.f32 %y0, %x0, %x1;", [("f32", tiny), ("f32", other)], [("f32", np.float32)])
    np.testing.assert_array_equal(got, np.array([0, -0.0, 0, 2, -3, np.nan, 0.25, 0], np.float32))
    assert np.signbit(got[1])
    got = evaluate("add.sat.f32 %y0, %x0, %x1;", [("f32", tiny), ("f32", other)], [("f32", np.float32)])
    np.testing.assert_array_equal(got[3:7], np.array([1, 0, 0, 1], np.float32))


def test_packed_pairs():
    a, b = numbers("f16", 64), numbers("f16", 64)
    got = evaluate("add.rn.f16x2 %y0, %x0, %x1;", [("f16x2", a.view(np.uint32)), ("f16x2", b.view(np.uint32))],
                   [("f16x2", np.uint32)])
    compare(got.view(np.uint16), [rounded(Fraction(float(x)) + Fraction(float(y)), "f16", "rn") for x, y in zip(a, b)],
            "f16")
    x, y, z = numbers("f32", 64), numbers("f32", 64), numbers("f32", 64)
    got = evaluate("fma.rn.f32x2 %y0, %x0, %x1, %x2;", [("f32x2", v.view(np.uint64)) for v in (x, y, z)],
                   [("f32x2", np.uint64)])
    compare(got.view(np.uint32), [rounded(Fraction(float(p)) * Fraction(float(q)) + Fraction(float(r)), "f32", "rn")
                                  for p, q, r in zip(x, y, z)], "f32")


SPECIAL = np.array([0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan, 5.0], np.float32)


def test_minimum_and_maximum_treat_nan_and_zeros_as_the_isa_says():
    a, b = (v.reshape(-1).copy() for v in np.meshgrid(SPECIAL, SPECIAL))
    pairs = list(zip(a.tolist(), b.tolist()))

    def smaller(x, y):
        if math.isnan(x) or math.isnan(y):
            return y if math.isnan(x) else x
        if x == y == 0:
            return -0.0 if math.copysign(1, x) < 0 or math.copysign(1, y) < 0 else 0.0
        return min(x, y)
    for op, f in (("min", smaller), ("max", lambda x, y: -smaller(-x, -y))):
        got = evaluate(f"{op}.f32 %y0, %x0, %x1;", [("f32", a), ("f32", b)], [("f32", np.float32)])
        want = np.array([f(x, y) for x, y in pairs], np.float32)
        np.testing.assert_array_equal(got, want)
        number = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(want[number]))
        got = evaluate(f"{op}.NaN.f32 %y0, %x0, %x1;", [("f32", a), ("f32", b)], [("f32", np.float32)])
        want = np.where(np.isnan(a) | np.isnan(b), np.nan, want)
        np.testing.assert_array_equal(got, want)
        assert (got.view(np.uint32)[np.isnan(want)] == 0x7FFFFFFF).all()
    got = evaluate("min.xorsign.abs.f32 %y0, %x0, %x1;", [("f32", np.array([-3.0, -1.0], np.float32)),
                                                           ("f32", np.array([2.0, -5.0], np.float32))],
                   [("f32", np.float32)])
    assert got.tolist() == [-2.0, 1.0]
    got = evaluate("max.f32 %y0, %x0, %x1, %x2;", [("f32", np.array([1.0, 7.0], np.float32)),
                                                    ("f32", np.array([4.0, np.nan], np.float32)),
                                                    ("f32", np.array([2.0, 2.0], np.float32))], [("f32", np.float32)])
    assert got.tolist() == [4.0, 7.0]


def test_every_comparison_with_and_without_nan():
    a, b = (v.reshape(-1).copy() for v in np.meshgrid(SPECIAL, SPECIAL))
    base = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
            "ge": np.greater_equal}
    nan = np.isnan(a) | np.isnan(b)
    for name, f in base.items():
        for suffix, value in (("", False), ("u", True)):
            got = evaluate(f"setp.{name}{suffix}.f32 %p1, %x0, %x1;\nselp.u32 %y0, 1, 0, %p1;",
                           [("f32", a), ("f32", b)], [("u32", np.uint32)])
            np.testing.assert_array_equal(got, np.where(nan, value, f(a, b)), name + suffix)
    for name, want in (("num", ~nan), ("nan", nan)):
        got = evaluate(f"set.{name}.u32.f32 %y0, %x0, %x1;", [("f32", a), ("f32", b)], [("u32", np.uint32)])
        np.testing.assert_array_equal(got, np.where(want, 0xFFFFFFFF, 0))


def test_setp_of_a_packed_pair_gives_both_halves():
    a = np.array([1.0, 5.0, np.nan, 2.0], np.float16).view(np.uint32)
    b = np.array([2.0, 4.0, 1.0, 2.0], np.float16).view(np.uint32)
    got = evaluate("setp.lt.f16x2 %p0|%p1, %x0, %x1;\nselp.u32 %y0, 1, 0, %p0;\nselp.u32 %y1, 1, 0, %p1;",
                   [("f16x2", a), ("f16x2", b)], [("u32", np.uint32), ("u32", np.uint32)])
    assert got[0].tolist() == [1, 0] and got[1].tolist() == [0, 0]


@pytest.mark.parametrize("op,f,domain", [
    ("ex2", np.exp2, (-140, 140)), ("lg2", np.log2, (1e-30, 1e30)), ("sin", np.sin, (-6, 6)), ("cos", np.cos, (-6, 6)),
    ("tanh", np.tanh, (-9, 9)), ("rcp", lambda x: 1 / x, (0.1, 1e5)), ("rsqrt", lambda x: 1 / np.sqrt(x), (1e-5, 1e9)),
    ("sqrt", np.sqrt, (0, 1e9))])
def test_approximations_are_the_function_rounded(op, f, domain):
    low, high = domain
    x = RNG.uniform(low, high, 128).astype(np.float32)
    got = evaluate(f"{op}.approx.f32 %y0, %x0;", [("f32", x)], [("f32", np.float32)])
    np.testing.assert_array_equal(got, f(x.astype(np.float64)).astype(np.float32))


def test_approximation_special_values():
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)
    expected = {"ex2": [1, 1, np.inf, 0, np.nan], "lg2": [-np.inf, -np.inf, np.inf, np.nan, np.nan],
                "rcp": [np.inf, -np.inf, 0, -0.0, np.nan], "rsqrt": [np.inf, -np.inf, 0, np.nan, np.nan],
                "sin": [0, -0.0, np.nan, np.nan, np.nan], "tanh": [0, -0.0, 1, -1, np.nan]}
    for op, want in expected.items():
        got = evaluate(f"{op}.approx.f32 %y0, %x0;", [("f32", x)], [("f32", np.float32)])
        np.testing.assert_array_equal(got, np.array(want, np.float32), op)


def test_signs_and_properties():
    x = np.array([1.5, -2.0, 0.0, -0.0, np.inf, 1e-40], np.float32)
    y = np.array([-1.0, 1.0, -1.0, 1.0, -1.0, -1.0], np.float32)
    got = evaluate("copysign.f32 %y0, %x1, %x0;", [("f32", x), ("f32", y)], [("f32", np.float32)])
    np.testing.assert_array_equal(got, np.copysign(x, y))
    got = evaluate("neg.f32 %y0, %x0;", [("f32", x)], [("f32", np.float32)])
    np.testing.assert_array_equal(got.view(np.uint32), (-x).view(np.uint32))
    for kind, want in (("finite", [1, 1, 1, 1, 0, 1]), ("subnormal", [0, 0, 0, 0, 0, 1]), ("normal", [1, 1, 0, 0, 0, 0])):
        got = evaluate(f"testp.{kind}.f32 %p1, %x0;\nselp.u32 %y0, 1, 0, %p1;", [("f32", x)], [("u32", np.uint32)])
        assert got.tolist() == want, kind


def test_selections_by_sign():
    c = np.array([1.0, -1.0, -0.0, np.nan], np.float32)
    got = evaluate("slct.u32.f32 %y0, 10, 20, %x0;", [("f32", c)], [("u32", np.uint32)])
    assert got.tolist() == [10, 20, 10, 20]
