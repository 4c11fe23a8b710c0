"""Kernels that the original crashed on or refused compile here and compute what NumPy says: in the interpreter, and in the
simulator at -O0 and -O3 on an SM of each kind."""
from __future__ import annotations

import numpy as np
import pytest

import tileiras
from tests.kernels.regression_kernels import REGRESSIONS, Regression
from tileiras import interp
from tileiras.sim import cutile

SMS = ("sm_80", "sm_90", "sm_120")
every = pytest.mark.parametrize("case", REGRESSIONS, ids=lambda c: c.name)


def drawn(case: Regression):
    """The arguments of a launch and what its outputs must be."""
    arguments = case.draw(np.random.default_rng(0))
    expected = case.expected(*(a.copy() if isinstance(a, np.ndarray) else a for a in arguments))
    return arguments, expected


def check(case: Regression, arguments, expected, printed: str) -> None:
    for i, want in expected.items():
        got, want = arguments[i].astype(np.float64), np.asarray(want).astype(np.float64)
        assert np.isfinite(want).all() and want.any()
        np.testing.assert_allclose(got, want, rtol=case.rtol, atol=case.atol, err_msg=f"argument {i}")
    assert printed == case.printed


@every
@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("gpu_name", SMS)
def test_in_the_simulator(case: Regression, gpu_name: str, level: int, capsys) -> None:
    """The frontend writes fp8 for no SM below 9.0; this compiler computes it on all."""
    arguments, expected = drawn(case)
    made = cutile.export(case.kernel, arguments, "sm_90")
    tileiras.launch(made.bytecode, case.grid, made.flat, name=made.symbol, gpu_name=gpu_name, opt_level=level)
    check(case, arguments, expected, capsys.readouterr().out)


@every
def test_in_the_interpreter(case: Regression) -> None:
    arguments, expected = drawn(case)
    made = cutile.export(case.kernel, arguments, "sm_90")
    printed: list[str] = []
    interp.run(made.bytecode, made.symbol, (*case.grid, 1, 1)[:3], made.flat, output=printed.append)
    check(case, arguments, expected, "".join(printed))


@every
def test_a_cubin_comes_out(case: Regression) -> None:
    """ptxas takes the code, at the levels that crashed."""
    arguments, _ = drawn(case)
    made = cutile.export(case.kernel, arguments, "sm_90")
    for level in (1, 2):
        assert tileiras.compile(made.bytecode, "sm_90", level).cubin.startswith(b"\x7fELF")


def test_every_report_has_a_kernel() -> None:
    reported = " ".join(c.reported for c in REGRESSIONS)
    for number in ("6", "53", "54", "72", "95", "96", "97", "cuda-tile 17", "cuda-tile 19"):
        assert number in reported
    assert len({c.name for c in REGRESSIONS}) == len(REGRESSIONS)
