"""Kernels give the same numbers whatever order their blocks run in: backward, and at random with atomics interleaved.

Forward is what `tests/kernels/test_suite.py` runs.
"""
from __future__ import annotations

import pytest

pytest.importorskip("cuda.tile")

from tests.kernels import runner
from tests.kernels.cross_section import CROSS_SECTION
from tileiras import interp

MEETING = tuple(name for name, case in runner.cases().items() if {"atomic", "memory-order"} & set(case.tags))


def run_in(order: str | int, name: str) -> runner.Verdict:
    case, launch = runner.case_of(name), runner.launch_of(name)
    interp.run(runner.export_case(name), name, case.grid, launch.flat, order=order, output=lambda text: None)
    return runner.judge(name, launch)


@pytest.mark.parametrize("name", CROSS_SECTION)
def test_backward(name: str) -> None:
    verdict = run_in("backward", name)
    assert verdict.ok, verdict.detail


@pytest.mark.parametrize("seed", (1, 2))
@pytest.mark.parametrize("name", MEETING)
def test_interleaved(name: str, seed: int) -> None:
    verdict = run_in(seed, name)
    assert verdict.ok, verdict.detail
