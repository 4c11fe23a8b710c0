"""cvt between all types, against exact rounding, ml_dtypes, and the ISA's special cases."""
from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tests.sim.ptxkit import evaluate, rounded
from tests.sim.test_floating import BITS, DTYPE, MODES, compare, numbers
from tests.sim.test_integer import as_type, values

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("given,to", [("f64", "f32"), ("f64", "f16"), ("f32", "f16"), ("f32", "bf16"), ("f64", "bf16")])
@pytest.mark.parametrize("mode", MODES)
def test_narrowing_floats(given, to, mode):
    if to == "bf16" and mode in ("rm", "rp"):
        pytest.skip("no such form")
    a = numbers(given)
    a[: len(a) // 2] = numbers(to)[: len(a) // 2].astype(np.float64) * (1 + RNG.standard_normal(len(a) // 2) * 1e-4)
    a[~np.isfinite(a)] = 1
    got = evaluate(f"cvt.{mode}.{to}.{given} %y0, %x0;", [(given, a.view(BITS[given]))], [(to, BITS[to])])
    compare(got, [rounded(Fraction(float(x)), to, mode) for x in a], to)


@pytest.mark.parametrize("given,to", [("f16", "f32"), ("bf16", "f32"), ("f32", "f64"), ("f16", "f64")])
def test_widening_floats_is_exact(given, to):
    a = numbers(given)
    got = evaluate(f"cvt.{to}.{given} %y0, %x0;", [(given, a.view(BITS[given]))], [(to, BITS[to])])
    np.testing.assert_array_equal(got.view(DTYPE[to]), a.astype(DTYPE[to]))


@pytest.mark.parametrize("to", ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("given", ["f32", "f64", "f16"])
def test_floats_to_integers_round_and_clamp(given, to):
    a = np.concatenate([numbers(given, 96), (RNG.standard_normal(96) * 300).astype(DTYPE[given])])
    bits = int(to[1:])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if to[0] == "s" else (0, (1 << bits) - 1)
    out = f"{to[0]}{max(bits, 16)}"
    for mode, f in (("rzi", lambda x: int(x)), ("rni", lambda x: round(x)), ("rmi", lambda x: x.__floor__()),
                    ("rpi", lambda x: x.__ceil__())):
        got = evaluate(f"cvt.{mode}.{to}.{given} %y0, %x0;", [(given, a.view(BITS[given]))],
                       [(out, np.dtype(f"{'i' if to[0] == 's' else 'u'}{max(bits, 16) // 8}"))])
        assert got.tolist() == [min(max(f(Fraction(float(x))), low), high) for x in a], mode


def test_nan_to_integer():
    nan = np.array([np.nan], np.float32)
    assert evaluate("cvt.rzi.s32.f32 %y0, %x0;", [("f32", nan)], [("s32", np.int32)])[0] == 0
    assert evaluate("cvt.rzi.u64.f32 %y0, %x0;", [("f32", nan)], [("u64", np.uint64)])[0] == 1 << 63
    assert evaluate("cvt.rzi.s32.f64 %y0, %x0;", [("f64", nan.astype(np.float64))], [("s32", np.int32)])[0] == -2**31


@pytest.mark.parametrize("to", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("given", ["s32", "u32", "s64", "u64", "s16", "u8"])
def test_integers_to_floats(given, to):
    bits = int(given[1:])
    a = values(bits)
    width = max(bits, 16)
    for mode in ("rn",) if to == "bf16" else MODES:
        got = evaluate(f"cvt.{mode}.{to}.{given} %y0, %x0;",
                       [(f"u{width}", a.astype(np.dtype(f"u{width // 8}")))], [(to, BITS[to])])
        compare(got, [rounded(Fraction(as_type(int(x), given)), to, mode) for x in a], to)


def test_integer_to_integer_truncates_extends_and_saturates():
    a = values(32)
    got = evaluate("cvt.s64.s32 %y0, %x0;", [("s32", a)], [("s64", np.int64)])
    assert got.tolist() == a.view(np.int32).tolist()
    got = evaluate("cvt.u32.u8 %y0, %x0;", [("u32", a)], [("u32", np.uint32)])
    assert got.tolist() == [int(x) & 255 for x in a]
    got = evaluate("cvt.s32.s8 %y0, %x0;", [("u32", a)], [("s32", np.int32)])
    assert got.tolist() == [as_type(int(x), "s8") for x in a]
    got = evaluate("cvt.sat.u8.s32 %y0, %x0;", [("s32", a)], [("u16", np.uint16)])
    assert got.tolist() == [min(max(as_type(int(x), "s32"), 0), 255) for x in a]


def test_rounding_to_integral_values():
    a = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 2.49, -2.51, 1e30, np.inf], np.float32)
    for mode, f in (("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil)):
        got = evaluate(f"cvt.{mode}.f32.f32 %y0, %x0;", [("f32", a)], [("f32", np.float32)])
        np.testing.assert_array_equal(got, f(a))


def test_packed_halves_take_the_first_operand_high():
    a, b = numbers("f32", 64), numbers("f32", 64)
    got = evaluate("cvt.rn.f16x2.f32 %y0, %x0, %x1;", [("f32", a), ("f32", b)], [("b32", np.uint32)]).view(np.uint16)
    compare(got[0::2], [rounded(Fraction(float(x)), "f16", "rn") for x in b], "f16")
    compare(got[1::2], [rounded(Fraction(float(x)), "f16", "rn") for x in a], "f16")
    got = evaluate("cvt.rn.relu.bf16x2.f32 %y0, %x0, %x1;", [("f32", a), ("f32", b)], [("b32", np.uint32)])
    compare(got.view(np.uint16)[1::2], [max(rounded(Fraction(float(x)), "bf16", "rn"), 0.0) for x in a], "bf16")


SMALL = {"e4m3": (ml_dtypes.float8_e4m3fn, 448), "e5m2": (ml_dtypes.float8_e5m2, 57344),
         "e2m3": (ml_dtypes.float6_e2m3fn, 7.5), "e3m2": (ml_dtypes.float6_e3m2fn, 28), "e2m1": (ml_dtypes.float4_e2m1fn, 6)}


@pytest.mark.parametrize("name", SMALL)
def test_small_formats_round_to_nearest_and_saturate(name):
    dtype, top = SMALL[name]
    a = np.concatenate([np.linspace(-1.2 * top, 1.2 * top, 97), RNG.standard_normal(95)]).astype(np.float32)
    b = np.roll(a, 5)
    want = [np.clip(v, -top, top).astype(dtype).view(np.uint8) for v in (a, b)]
    if name == "e2m1":
        got = evaluate("{ .reg .b8 t; cvt.rn.satfinite.e2m1x2.f32 t, %x0, %x1; cvt.u16.u8 %y0, t; }",
                       [("f32", a), ("f32", b)], [("u16", np.uint16)])
        np.testing.assert_array_equal(got, want[0] * 16 + want[1])
        return
    got = evaluate(f"cvt.rn.satfinite.{name}x2.f32 %y0, %x0, %x1;", [("f32", a), ("f32", b)], [("b16", np.uint16)])
    np.testing.assert_array_equal(got, want[0].astype(np.uint16) * 256 + want[1])


@pytest.mark.parametrize("name", ["e4m3", "e5m2", "e2m3", "e3m2"])
def test_small_formats_decode_every_code(name):
    dtype, _ = SMALL[name]
    code = np.arange(256, dtype=np.uint16) & np.uint16(255 if name[0] in "e" and name in ("e4m3", "e5m2") else 63)
    got = evaluate(f"cvt.rn.f16x2.{name}x2 %y0, %x0;", [("b16", code | (code << np.uint16(8)))], [("b32", np.uint32)])
    want = code.astype(np.uint8).view(dtype).astype(np.float16)
    np.testing.assert_array_equal(got.view(np.float16)[0::2], want)
    np.testing.assert_array_equal(got.view(np.float16)[1::2], want)


def test_tf32_rounds_ties_away():
    bits = RNG.integers(0, 1 << 31, 256).astype(np.uint32)
    a = bits.view(np.float32)
    a[~np.isfinite(a)] = 1
    a[:32] = (a[:32].view(np.uint32) & np.uint32(0xFFFFE000) | np.uint32(0x1000)).view(np.float32)      # ties
    got = evaluate("cvt.rna.tf32.f32 %y0, %x0;", [("f32", a)], [("b32", np.uint32)])
    want = (a.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    np.testing.assert_array_equal(got, want)


def test_power_of_two_scales():
    a = np.array([1.0, 1.5, 2.0, 3.0, 2.0**-127, np.nan, 6e38], np.float64).astype(np.float32)
    for mode, codes in (("rz", [127, 127, 128, 128, 0, 255, 254]), ("rp", [127, 128, 128, 129, 0, 255, 254])):
        got = evaluate(f"cvt.{mode}.satfinite.ue8m0x2.f32 %y0, %x0, %x0;", [("f32", a)], [("b16", np.uint16)])
        assert (got & 255).tolist() == codes and (got >> 8).tolist() == codes


def test_pack_saturates_two_integers():
    a, b = values(32), values(32)
    got = evaluate("cvt.pack.sat.s16.s32 %y0, %x0, %x1;", [("s32", a), ("s32", b)], [("b32", np.uint32)])
    clamp = [[max(-32768, min(32767, as_type(int(x), "s32"))) & 0xFFFF for x in v] for v in (a, b)]
    assert got.tolist() == [x << 16 | y for x, y in zip(*clamp)]
    c = values(32)
    got = evaluate("cvt.pack.sat.u8.s32.b32 %y0, %x0, %x1, %x2;", [("s32", a), ("s32", b), ("b32", c)],
                   [("b32", np.uint32)])
    clamp = [[max(0, min(255, as_type(int(x), "s32"))) for x in v] for v in (a, b)]
    assert got.tolist() == [(int(z) << 16 | x << 8 | y) & 0xFFFFFFFF for x, y, z in zip(*clamp, c)]
