"""The long version of the single-op tests: every 16-bit value, many random operands, every SM (`pytest -m slow`)."""
from __future__ import annotations

import numpy as np
import pytest

from tests.conversion import reference as ref
from tests.conversion.harness import Case
from tests.conversion.test_casts import NARROW, WIDE, verify
from tests.conversion.test_float_ops import BINARY, FLOATS, OPERANDS, check, draw, exact
from tileiras.machine.targets import target_names

pytestmark = pytest.mark.slow
COUNT = 4000


def every(kind: str) -> np.ndarray:
    return np.arange(1 << 16, dtype=np.uint16).view(ref.special_values(kind).dtype)


@pytest.mark.parametrize("gpu", ("sm_75", "sm_90"))
@pytest.mark.parametrize("kind", ("f16", "bf16"))
def test_every_short_float_converts(kind: str, gpu: str) -> None:
    cases = [Case("arith.convertf", (kind,), t, {"rounding": "nearest_even"})
             for t in (*WIDE, *NARROW, "e8m0") if t != kind]
    verify(cases, {kind: every(kind)}, gpu)


@pytest.mark.parametrize("gpu", ("sm_75", "sm_90"))
@pytest.mark.parametrize("kind", ("f16", "bf16"))
def test_every_short_root(kind: str, gpu: str) -> None:
    check([Case("math.sqrt", (kind,), kind, {"rounding": m}) for m in ref.MODES], [every(kind)], exact, gpu)


@pytest.mark.parametrize("gpu", tuple(target_names()))
@pytest.mark.parametrize("kind", FLOATS)
def test_rounding_on_every_sm(kind: str, gpu: str) -> None:
    cases = [Case(op, (kind,) * OPERANDS.get(op, 2), kind, {"rounding": mode}) for op in BINARY for mode in ref.MODES]
    check(cases, draw(kind, 3, 100), exact, gpu)


@pytest.mark.parametrize("kind", FLOATS)
def test_rounding_of_many(kind: str) -> None:
    """Operands of like magnitude, whose sums cancel and whose quotients lie near ties."""
    rng = np.random.default_rng(101)
    dtype = ref.special_values(kind).dtype
    signs, scales = (rng.choice([-1.0, 1.0], (3, COUNT)), 2.0 ** -rng.integers(0, 8, (3, COUNT)))
    inputs = list((signs * scales * rng.integers(128, 256, (3, COUNT))).astype(dtype))
    cases = [Case(op, (kind,) * OPERANDS.get(op, 2), kind, {"rounding": mode}) for op in BINARY for mode in ref.MODES]
    for gpu in ("sm_75", "sm_80", "sm_90"):
        check(cases, inputs, exact, gpu)


@pytest.mark.parametrize("kind", ("f32", "f64"))
def test_many_conversions(kind: str) -> None:
    rng = np.random.default_rng(102)
    cases = [Case("arith.convertf", (kind,), t, {"rounding": m}) for t in (*WIDE, *NARROW) if t != kind
             for m in ref.MODES]
    verify(cases, {kind: ref.random_bits(kind, COUNT, rng)}, "sm_75")
    near = (rng.standard_normal(COUNT) * 2.0 ** rng.integers(-20, 20, COUNT)).astype(ref.special_values(kind).dtype)
    for gpu in ("sm_75", "sm_90"):
        verify(cases, {kind: near}, gpu)
