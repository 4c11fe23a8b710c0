"""Every floating-point op of arith and math, in every type, rounding mode and flush setting, against exact numbers."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.conversion import reference as ref
from tests.conversion.harness import Case, evaluate, inputs_of

FLOATS = ("f16", "bf16", "f32", "f64")
BINARY: dict[str, Callable[..., float]] = {"arith.addf": ref.add, "arith.subf": ref.sub, "arith.mulf": ref.mul,
                                           "arith.divf": ref.div, "math.fma": ref.fma, "math.sqrt": ref.sqrt}
OPERANDS = {"math.fma": 3, "math.sqrt": 1}
SMS = ("sm_75", "sm_80", "sm_90")
RANDOM = 120


def draw(kind: str, count: int, seed: int) -> list[np.ndarray]:
    """`count` operand arrays: special values against each other, random bits, and pairs of like magnitude."""
    rng = np.random.default_rng(seed)
    special = ref.special_values(kind)
    out = []
    for i in range(count):
        mixed = rng.choice(special, 3 * len(special))
        near = np.float64(1) + rng.integers(-40, 40, RANDOM) / 16.0
        parts = [mixed, special if i == 0 else rng.permutation(special), ref.random_bits(kind, RANDOM, rng),
                 near.astype(special.dtype)]
        out.append(np.concatenate(parts))
    return out


def check(cases: list[Case], inputs: list[np.ndarray], wanted: Callable[[Case, list[np.ndarray]], np.ndarray], gpu: str,
          registers: int = 4, level: int = 3) -> None:
    """Evaluate all cases in one kernel; every element must agree with `wanted` (float64; NaN in any: not compared)."""
    arrays = {s: inputs[s[1]] for s in inputs_of(cases)}
    for case, got in zip(cases, evaluate(cases, arrays, gpu, registers, level)):
        want = wanted(case, inputs[:len(case.operands)])
        bad = np.flatnonzero(~ref.same(got, want, case.result))
        if len(bad):
            rows = [f"{[float(x[i]) for x in inputs[:len(case.operands)]]}: {float(got[i])!r}, expected {want[i]!r}"
                    for i in bad[:5]]
            raise AssertionError(f"{gpu} {case}: {len(bad)} of {len(want)} differ\n" + "\n".join(rows))


def exact(case: Case, operands: list[np.ndarray]) -> np.ndarray:
    """The op in rationals, rounded once; flushed before and after where the case says so."""
    kind = case.result
    form, mode = ref.FORMATS[kind], case.attrs.get("rounding", "nearest_even")
    function = BINARY[case.op]
    ftz = "ftz" in case.attrs
    out = []
    for row in zip(*(ref.numbers(x, kind).tolist() for x in operands)):
        y = function(*([ref.flush(x, form) for x in row] if ftz else row), form, mode)
        out.append(ref.flush(y, form) if ftz else y)
    return np.array(out)


@pytest.mark.parametrize("gpu", SMS)
@pytest.mark.parametrize("kind", FLOATS)
def test_rounding(kind: str, gpu: str) -> None:
    cases = [Case(op, (kind,) * OPERANDS.get(op, 2), kind, {"rounding": mode}) for op in BINARY for mode in ref.MODES]
    check(cases, draw(kind, 3, 1), exact, gpu)


def test_flush_to_zero() -> None:
    cases = [Case(op, ("f32",) * OPERANDS.get(op, 2), "f32", {"rounding": mode, "ftz": True})
             for op in BINARY for mode in ref.MODES]
    inputs = draw("f32", 3, 2)
    # Whether a result that rounds up to the least normal number counts as subnormal is the machine's choice.
    edge = np.zeros(len(inputs[0]), bool)
    for case in cases:
        edge |= np.abs(exact(case, inputs[:len(case.operands)])) == 2.0 ** -126
    check(cases, [x[~edge] for x in inputs], exact, "sm_90")


@pytest.mark.parametrize("kind", ("bf16", "f32"))
def test_rounding_without_optimization(kind: str) -> None:
    cases = [Case(op, (kind,) * OPERANDS.get(op, 2), kind, {"rounding": mode}) for op in BINARY for mode in ref.MODES]
    check(cases, draw(kind, 3, 10), exact, "sm_80", level=0)


def test_scalar() -> None:
    cases = [Case(op, (kind,) * OPERANDS.get(op, 2), kind) for op in BINARY for kind in ("f16", "f32")]
    for kind in ("f16", "f32"):
        check([c for c in cases if c.result == kind], draw(kind, 3, 3), exact, "sm_90", registers=0)


# ---------------------------------------------------------------------------------------------------------------------
# Exact functions


def _extreme(case: Case, operands: list[np.ndarray]) -> np.ndarray:
    kind = case.result
    form = ref.FORMATS[kind]
    largest = case.op == "arith.maxf"
    out = []
    for x, y in zip(*(ref.numbers(v, kind).tolist() for v in operands)):
        if "ftz" in case.attrs:
            x, y = ref.flush(x, form), ref.flush(y, form)
        if math.isnan(x) or math.isnan(y):
            other = y if math.isnan(x) else x
            out.append(math.nan if "nan" in case.attrs else other)
        else:
            first = (x, math.copysign(1, x)) > (y, math.copysign(1, y))
            out.append(x if first == largest else y)
    return np.array(out)


@pytest.mark.parametrize("gpu", SMS)
@pytest.mark.parametrize("kind", FLOATS)
def test_min_max(kind: str, gpu: str) -> None:
    flags: list[dict[str, Any]] = [{}, {"nan": True}]
    if kind == "f32":
        flags += [{"ftz": True}, {"nan": True, "ftz": True}]
    check([Case(op, (kind, kind), kind, f) for op in ("arith.maxf", "arith.minf") for f in flags], draw(kind, 2, 4),
          _extreme, gpu)


UNARY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "arith.negf": np.negative, "math.absf": np.abs, "math.ceil": np.ceil, "math.floor": np.floor}


def _unary(case: Case, operands: list[np.ndarray]) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return UNARY[case.op](ref.numbers(operands[0], case.result))


def _remainder(case: Case, operands: list[np.ndarray]) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return np.fmod(*(ref.numbers(x, case.result) for x in operands))


@pytest.mark.parametrize("gpu", SMS)
@pytest.mark.parametrize("kind", FLOATS)
def test_exact_functions(kind: str, gpu: str) -> None:
    check([Case(op, (kind,), kind) for op in UNARY], draw(kind, 1, 5), _unary, gpu)


@pytest.mark.parametrize("kind", FLOATS)
def test_remainder(kind: str) -> None:
    check([Case("arith.remf", (kind, kind), kind)], [x[-2 * RANDOM:] for x in draw(kind, 2, 6)], _remainder, "sm_90")


PREDICATES: dict[str, Callable[..., np.ndarray]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}


@pytest.mark.parametrize("gpu", ("sm_75", "sm_90"))
@pytest.mark.parametrize("kind", FLOATS)
def test_comparison(kind: str, gpu: str) -> None:
    cases = [Case("arith.cmpf", (kind, kind), "i1", {"predicate": o + p}) for o in "ou" for p in PREDICATES]
    inputs = draw(kind, 2, 7)
    arrays = {s: inputs[s[1]] for s in inputs_of(cases)}
    x, y = (ref.numbers(v, kind) for v in inputs)
    nan = np.isnan(x) | np.isnan(y)
    for case, got in zip(cases, evaluate(cases, arrays, gpu)):
        order, predicate = case.attrs["predicate"][0], case.attrs["predicate"][1:]
        want = np.where(nan, order == "u", PREDICATES[predicate](x, y))
        assert np.array_equal(got.astype(bool), want), f"{gpu} {case}"


# ---------------------------------------------------------------------------------------------------------------------
# Transcendental functions: the errors in ulp that the CUDA programming guide documents; one for f16's last rounding

FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[float, float], float]] = {
    "math.exp": (np.exp, (-10, 10), 2), "math.exp2": (np.exp2, (-10, 10), 2), "math.log": (np.log, (0.01, 50), 2),
    "math.log2": (np.log2, (0.01, 50), 2), "math.rsqrt": (lambda x: 1 / np.sqrt(x), (0.01, 50), 2),
    "math.sin": (np.sin, (-9, 9), 2), "math.cos": (np.cos, (-9, 9), 2), "math.tan": (np.tan, (-1.5, 1.5), 4),
    "math.sinh": (np.sinh, (-9, 9), 3), "math.cosh": (np.cosh, (-9, 9), 2), "math.tanh": (np.tanh, (-9, 9), 2)}
PAIRS: dict[str, tuple[Callable[..., Any], tuple[float, float], float]] = {
    "math.powf": (np.power, (0.1, 4), 4), "math.atan2": (np.arctan2, (-9, 9), 3)}


def test_exponentials_without_branches() -> None:
    """Subnormal results, what becomes zero, what overflows, and everything between."""
    rng = np.random.default_rng(9)
    x = np.concatenate([rng.uniform(-152, -124, 160), rng.uniform(-126.5, 130, 80), np.arange(-151, -120),
                        [-1e30, -160, -np.inf, 0, 128, 1e30, np.inf, np.nan]]).astype(np.float32)
    x = np.resize(x, len(x) + -len(x) % 128)
    (got,) = evaluate([Case("math.exp2", ("f32",), "f32", {"branchless": True})], {("f32", 0): x}, "sm_100")
    with np.errstate(over="ignore"):
        want = np.exp2(x.astype(np.float64))
    normal = np.isfinite(want) & (want < 2.0**128)
    assert (np.isnan(got) == np.isnan(x)).all() and np.isposinf(got[want >= 2.0**128]).all()
    off = np.abs(got[normal].astype(np.float64) - want[normal])
    assert (off <= 2 * np.maximum(want[normal] * 2.0**-23, 2.0**-149 / 2)).all()
    assert (got[(want > 2.0**-149) & normal] > 0).all()


@pytest.mark.parametrize("kind", FLOATS)
def test_transcendental(kind: str) -> None:
    rng = np.random.default_rng(8)
    form = ref.FORMATS[kind]
    wide = np.longdouble if kind == "f64" else np.float64
    dtype = ref.special_values(kind).dtype
    for table, count in ((FUNCTIONS, 1), (PAIRS, 2)):
        for op, (function, (low, high), ulps) in table.items():
            case = Case(op, (kind,) * count, kind)
            operands = [rng.uniform(low, high, 64).astype(dtype) for _ in range(count)]
            (got,) = evaluate([case], {(kind, i): x for i, x in enumerate(operands)}, "sm_90")
            want = function(*(x.astype(wide) for x in operands))
            # Near a zero of the function, the argument's reduction leaves an absolute error.
            spacing = np.maximum(np.abs(want), 0.125) * 2.0 ** (1 - form.precision)
            error = np.abs(got.astype(wide) - want) / spacing
            assert error.max() <= (ulps if kind in ("f32", "f64") else 1), f"{case}: {float(error.max())} ulp"


@pytest.mark.parametrize("flags", [{"rounding": "approx"}, {"rounding": "full"}, {"rounding": "approx", "ftz": True}])
def test_approximate(flags: dict[str, Any]) -> None:
    rng = np.random.default_rng(9)
    x, y = (rng.uniform(0.1, 8, 64).astype(np.float32) for _ in range(2))
    table = {"arith.divf": np.divide, "math.sqrt": np.sqrt, "math.exp": np.exp, "math.tanh": np.tanh}
    if flags["rounding"] == "full":
        table = {"arith.divf": np.divide}
    cases = [Case(op, ("f32",) * (2 if op == "arith.divf" else 1), "f32", flags) for op in table]
    for case, got in zip(cases, evaluate(cases, {s: (x, y)[s[1]] for s in inputs_of(cases)}, "sm_90")):
        want = table[case.op](*(v.astype(np.float64) for v in (x, y)[:len(case.operands)]))
        assert np.allclose(got, want, rtol=2.0 ** (-10 if case.op == "math.tanh" else -19), atol=0), str(case)


def test_integer_power() -> None:
    x = np.linspace(-2, 2, 64).astype(np.float32)
    for kind, dtype in (("i8", np.int8), ("i32", np.int32)):
        n = (np.arange(64) % 7 - 3).astype(dtype)
        (got,) = evaluate([Case("math.fpowi", ("f32", kind), "f32")], {("f32", 0): x, (kind, 1): n}, "sm_90")
        assert np.allclose(got, x.astype(np.float64) ** n, rtol=1e-6, atol=0)
