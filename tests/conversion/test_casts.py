"""Every conversion between element types, with every rounding mode, against exact arithmetic."""
from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.conversion import reference as ref
from tests.conversion.harness import NUMPY, Case, evaluate, inputs_of
from tests.conversion.test_int_ops import array, signed, unsigned, values

WIDE = ("f16", "bf16", "f32", "tf32", "f64")
NARROW = ("e4m3", "e5m2", "e2m1")
SMS = ("sm_75", "sm_80", "sm_89", "sm_90", "sm_100")


def samples(kind: str) -> np.ndarray:
    if kind in ("e4m3", "e5m2", "e8m0", "e2m1"):
        return ref.all_values(kind)
    rng = np.random.default_rng(3)
    near = (rng.integers(-4096, 4096, 100) / 256).astype(ref.special_values(kind).dtype)
    return np.concatenate([ref.special_values(kind), ref.random_bits(kind, 150, rng), near])


def converted(x: float, to: str, mode: str) -> float:
    """One number in another format. Formats without infinities saturate; f4 has no NaN either."""
    if to == "e8m0":
        return _power(abs(x), mode)
    form = ref.FORMATS[to]
    if math.isnan(x):
        return form.largest if to == "e2m1" else x
    if math.isinf(x):
        return math.copysign(form.largest, x) if form.saturates else x
    return ref.rounded(Fraction(x), form, mode, x)


def _power(x: float, mode: str) -> float:
    """f8E8M0FNU: a power of two, not below 2^-127 nor above 2^127."""
    if math.isnan(x):
        return x
    if x <= 2.0 ** -127:
        return 2.0 ** -127
    if math.isinf(x):
        return 2.0 ** 127
    e = ref.exponent(Fraction(x))
    up = {"zero": False, "positive_inf": x > 2.0 ** e}.get(mode, x >= 1.5 * 2.0 ** e)
    return 2.0 ** min(e + up, 127)


def verify(cases: list[Case], columns: dict[str, np.ndarray], gpu: str, registers: int = 4,
           level: int = 3) -> None:
    length = max(len(x) for x in columns.values())
    arrays = {s: np.resize(columns[s[0]], length) for s in inputs_of(cases)}
    for case, got in zip(cases, evaluate(cases, arrays, gpu, registers, level)):
        source = ref.numbers(arrays[case.operands[0], 0], case.operands[0])
        want = np.array([converted(x, case.result, case.attrs["rounding"]) for x in source.tolist()])
        bad = np.flatnonzero(~ref.same(got, want, case.result))
        shown = [(source[i].item(), ref.numbers(got[i:i + 1], case.result)[0].item(), want[i].item()) for i in bad[:5]]
        assert not len(bad), f"{gpu} {case}: {len(bad)} differ: (from, got, expected) {shown}"


@pytest.mark.parametrize("gpu", SMS)
def test_between_floats_to_nearest(gpu: str) -> None:
    kinds = (*WIDE, *NARROW)
    cases = [Case("arith.convertf", (a,), b, {"rounding": "nearest_even"})
             for a in (*kinds, "e8m0") for b in kinds if a != b]
    verify(cases, {a: samples(a) for a in (*kinds, "e8m0")}, gpu)


@pytest.mark.parametrize("gpu", ("sm_75", "sm_90"))
@pytest.mark.parametrize("mode", ("zero", "negative_inf", "positive_inf", "nearest_away"))
def test_between_floats_directed(gpu: str, mode: str) -> None:
    sources = (*WIDE, *NARROW)
    targets = ("f16", "tf32", "bf16") if mode == "nearest_away" else ("f16", "bf16", "f32", "tf32", *NARROW)
    cases = [Case("arith.convertf", (a,), b, {"rounding": mode}) for a in sources for b in targets
             if a != b and not (mode == "nearest_away" and a == "f64")]
    verify(cases, {a: samples(a) for a in sources}, gpu)


@pytest.mark.parametrize("gpu", ("sm_75", "sm_100"))
def test_to_e8m0(gpu: str) -> None:
    sources = (*WIDE, *NARROW)
    cases = [Case("arith.convertf", (a,), "e8m0", {"rounding": mode}) for a in sources
             for mode in ("zero", "positive_inf", "nearest_even")]
    verify(cases, {a: samples(a) for a in sources}, gpu)


def test_without_optimization() -> None:
    cases = [Case("arith.convertf", (a,), b, {"rounding": "nearest_even"})
             for a in (*WIDE, *NARROW) for b in ("bf16", "f16", *NARROW) if a != b]
    verify(cases, {a: samples(a) for a in (*WIDE, *NARROW)}, "sm_90", level=0)


def test_scalar_and_odd_counts() -> None:
    cases = [Case("arith.convertf", (a,), b, {"rounding": "nearest_even"})
             for a in ("f32", "f16", "e4m3", "e5m2") for b in ("e4m3", "e5m2", "f16", "f32") if a != b]
    for registers in (0, 1):
        verify(cases, {a: samples(a)[:64] for a in ("f32", "f16", "e4m3", "e5m2")}, "sm_90", registers)


# ---------------------------------------------------------------------------------------------------------------------
# Integers


def _integers(w: int) -> list[int]:
    """Corners, and numbers at and around the ties of every float format."""
    out = values(w, 0)[:60]
    for p in (3, 4, 8, 11, 24, 53):
        for shift in (0, 1, 7, max(31 - p, 0), max(40 - p, 0), 62 - p):
            for tie in ((2 ** p + 1) << shift, (2 ** p + 3) << shift):
                out += [unsigned(s * (tie + d), w) for d in (-1, 0, 1) for s in (1, -1)]
    return out


@pytest.mark.parametrize("gpu", ("sm_75", "sm_80", "sm_90"))
@pytest.mark.parametrize("w", (1, 8, 16, 32, 64))
def test_from_integers(w: int, gpu: str) -> None:
    xs = _integers(w)
    targets = ("f16", "bf16", "f32", "f64", "tf32", "e4m3", "e5m2")
    cases = [Case(f"arith.{s}itofp", (f"i{w}",), t, {"rounding": mode}) for s in "su" for t in targets
             for mode in (ref.MODES if t in ("f16", "bf16", "f32", "f64") else ref.MODES[:1])]
    for case, got in zip(cases, evaluate(cases, {(f"i{w}", 0): array(xs, w)}, gpu)):
        read = signed if case.op == "arith.sitofp" else unsigned
        form, mode = ref.FORMATS[case.result], case.attrs["rounding"]
        want = np.array([ref.rounded(Fraction(read(x, w)), form, mode) for x in xs])
        bad = np.flatnonzero(~ref.same(got, want, case.result))
        shown = [(read(xs[i], w), ref.numbers(got[i:i + 1], case.result)[0].item(), want[i].item()) for i in bad[:5]]
        assert not len(bad), f"{gpu} {case}: {len(bad)} differ: (from, got, expected) {shown}"


@pytest.mark.parametrize("gpu", ("sm_75", "sm_90"))
@pytest.mark.parametrize("kind", (*WIDE, "e4m3", "e5m2"))
def test_to_integers(kind: str, gpu: str) -> None:
    """Towards zero; out of range the nearest end, and 0 for NaN, though only the saturating form promises it."""
    x = samples(kind)
    numbers = ref.numbers(x, kind).tolist()
    cases = [Case(f"arith.fpto{s}i", (kind,), f"i{w}", flags) for s in "su" for w in (8, 16, 32, 64)
             for flags in ({}, {"saturating": True})]
    for case, got in zip(cases, evaluate(cases, {(kind, 0): x}, gpu)):
        w = int(case.result[1:])
        low, high = (-(1 << w - 1), (1 << w - 1) - 1) if case.op == "arith.fptosi" else (0, (1 << w) - 1)
        for v, g in zip(numbers, got.tolist()):
            saturated = 0 if math.isnan(v) else low if v <= low else high if v >= high else int(v)
            assert unsigned(g, w) == unsigned(saturated, w), f"{gpu} {case}: {v} gave {g}"


def test_to_booleans() -> None:
    x = np.array([0.0, 1.0, 1.0, -0.0] * 16, np.float32)
    (got,) = evaluate([Case("arith.fptoui", ("f32",), "i1")], {("f32", 0): x}, "sm_90")
    assert got.tolist() == [0, 1, 1, 0] * 16


@pytest.mark.parametrize(("kind", "as_integer"), [("f16", "i16"), ("bf16", "i16"), ("f32", "i32"), ("f64", "i64"),
                                                  ("e4m3", "i8"), ("e5m2", "i8")])
def test_bitcast(kind: str, as_integer: str) -> None:
    x = samples(kind)
    bits = x.view(NUMPY[as_integer])
    there, back = evaluate([Case("arith.bitcast", (kind,), as_integer), Case("arith.bitcast", (as_integer,), kind)],
                           {(kind, 0): x, (as_integer, 0): bits}, "sm_90")
    assert np.array_equal(there, bits)
    assert np.array_equal(back.view(bits.dtype), bits)
