"""sin, cos and tan of large arguments: one slow path for all registers of a thread, with libdevice's bits on both ways."""
from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.conversion.harness import Case, build, evaluate
from tileiras.codegen import compile_llvm_to_ptx
from tileiras.codegen.guards import GUARDS

FUNCTIONS = ("sin", "cos", "tan")
# Errors in ulp: CUDA C++ Programming Guide, "Mathematical Functions".
ULP = {"f32": {"sin": 2, "cos": 2, "tan": 4}, "f64": {"sin": 2, "cos": 2, "tan": 2}}


def arguments(t: str) -> np.ndarray:
    """Groups of four, the registers of a thread: none large, one large, all large; around the bounds; infinities and NaN."""
    rng = np.random.default_rng(3)
    dtype: Any = np.float32 if t == "f32" else np.float64
    bound = dtype(GUARDS["__nv_sinf" if t == "f32" else "__nv_sin"].bound)
    small = rng.uniform(-100, 100, 64).astype(dtype)
    mixed = rng.uniform(-100, 100, 64).astype(dtype)
    mixed[::4] = rng.uniform(1e6, 1e30, 16).astype(dtype)
    large = (10.0 ** rng.uniform(10, 37, 64)).astype(dtype) * rng.choice([-1, 1], 64)
    around = np.array([np.nextafter(bound, dtype(0)), bound, -bound, np.nextafter(bound, dtype(np.inf))])
    special = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-40, np.finfo(dtype).max, -np.finfo(dtype).tiny], dtype)
    return np.concatenate([small, mixed, large, around, special]).astype(dtype)


def exact(name: str, x: np.ndarray) -> np.ndarray:
    """The function in double precision; NumPy's own is good to an ulp of double for any argument."""
    with np.errstate(all="ignore"):
        return getattr(np, name)(x.astype(np.float64))


@pytest.mark.parametrize("opt_level", [0, 3])
@pytest.mark.parametrize("t", ["f32", "f64"])
def test_any_argument(t: str, opt_level: int) -> None:
    x = arguments(t)
    cases = [Case(f"math.{name}", (t,), t) for name in FUNCTIONS]
    shared = evaluate(cases, {(t, 0): x}, "sm_80", registers=4, level=opt_level)
    alone = evaluate(cases, {(t, 0): x}, "sm_80", registers=1, level=opt_level)
    for name, got, plain in zip(FUNCTIONS, shared, alone):
        bits = np.uint32 if t == "f32" else np.uint64
        finite = np.isfinite(x)
        assert got[finite].view(bits).tolist() == plain[finite].view(bits).tolist()
        assert np.isnan(got[~finite]).all()
        want = exact(name, x[finite])
        unit = np.spacing(np.abs(want).astype(x.dtype)).astype(np.float64)
        assert (np.abs(got[finite].astype(np.float64) - want) <= ULP[t][name] * unit).all()


@pytest.mark.parametrize("t", ["f16", "bf16"])
def test_narrow_types_go_through_f32(t: str) -> None:
    x = np.linspace(-300, 300, 128).astype(np.float16)
    if t == "bf16":
        import ml_dtypes
        x = np.concatenate([x[:124].astype(ml_dtypes.bfloat16), np.array([1e6, 3e20, -7e35, 2e5], ml_dtypes.bfloat16)])
    got, = evaluate([Case("math.sin", (t,), t)], {(t, 0): x}, "sm_90")
    want = np.sin(x.astype(np.float64))
    error = np.abs(got.astype(np.float64) - want)
    assert (error <= np.maximum(np.abs(want), 1e-3) * (2.0**-8 if t == "bf16" else 2.0**-10)).all()


def test_the_long_way_stands_once_however_many_registers() -> None:
    def long_ways(registers: int) -> int:
        ptx = compile_llvm_to_ptx(build([Case("math.sin", ("f32",), "f32")], "sm_90", registers), "sm_90")
        return ptx.count("mad.lo.cc.u32")
    assert 0 < long_ways(32) == long_ways(1)


def test_both_functions_of_a_guard_are_found() -> None:
    """libdevice has the comparison that a guard's pattern names, once: otherwise the quick function would be the whole one."""
    from llvmlite import binding

    from tileiras.codegen.libdevice import Libdevice
    from tileiras.codegen.toolchain import find_libdevice
    binding.initialize_all_targets()
    library = Libdevice(binding, str(find_libdevice()))
    for guard in GUARDS.values():
        whole, quick = (library.complete(f"declare float @{name}(float)\n", 90) for name in (guard.function, guard.quick))
        assert len(re.findall(guard.pattern, whole, re.MULTILINE)) >= 1
        assert not re.findall(guard.pattern, quick, re.MULTILINE)
