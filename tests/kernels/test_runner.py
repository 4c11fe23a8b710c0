"""The tools of the kernel suite judge rightly: what passes, what fails, and what survives a case that hangs."""
from __future__ import annotations

import os
import time

import numpy as np
import pytest

from tests.kernels import coverage, runner
from tests.kernels.coverage import Step

NAMES = ("vector_add_float32", "vector_add_int32", "matmul_float16_float16")


def filled_with(launch: runner.Launch, change: float) -> runner.Launch:
    """The launch as if a kernel had written the expected values, the first one changed."""
    for i, want in launch.expected.items():
        launch.values[i][...] = np.asarray(want).astype(launch.values[i].dtype)
        first = launch.values[i].flat[0]
        launch.values[i].flat[0] = first + np.asarray(change).astype(launch.values[i].dtype)
    return launch


@pytest.mark.parametrize("name", NAMES)
def test_expected_values_pass_and_others_do_not(name: str) -> None:
    assert runner.judge(name, filled_with(runner.launch_of(name), 0)).ok
    verdict = runner.judge(name, filled_with(runner.launch_of(name), 64))
    assert not verdict.ok and "1 of " in verdict.detail and verdict.max_abs == pytest.approx(64, rel=0.01)


@pytest.mark.parametrize("name", NAMES)
def test_an_output_left_alone_fails(name: str) -> None:
    verdict = runner.judge(name, runner.launch_of(name))
    assert not verdict.ok and "never written" in verdict.detail


def test_launches_do_not_share_arrays() -> None:
    first, second = runner.launch_of(NAMES[0]), runner.launch_of(NAMES[0])
    first.values[0][...] = 0
    assert second.values[0].any()
    assert first.flat[0] is first.values[0]


def test_every_case_exports_in_every_version_it_names() -> None:
    for case in runner.cases().values():
        for version in case.versions:
            major, minor = map(int, version.split("."))
            data = runner.export_case(case, version)
            assert data[:10] == b"\x7fTileIR\x00" + bytes((major, minor)), case.name


@pytest.mark.parametrize("first, second, same", [
    ("bad layout for %12 of tile<4x8xf32>", "bad layout for %acc of tile<128x64xf32>", True),
    ("cannot lower 'cuda_tile.addf'", "cannot lower 'cuda_tile.subf'", False),
    ("wrong result: argument 2: 3 of 4096 elements differ, first at [1]: got 1.0, expected 2.0",
     "wrong result: argument 0: 9 of 10 elements differ, first at [0, 3]: got -1e9, expected 0.5", True),
    ("tile<4xf16> isn't taken", "tile<4xbf16> isn't taken", False),
    ("ptxas failed:\nline 12; error: bad operand", "ptxas failed:\nline 99; error: bad operand", True),
])
def test_failures_are_grouped_by_cause(first: str, second: str, same: bool) -> None:
    assert (coverage.group_key("sim", first) == coverage.group_key("sim", second)) is same


def body_with_accidents(pipe) -> None:
    """Stands in for the work: steps for sm_1 hang, for sm_2 kill the process, others pass."""
    while (steps := pipe.recv()) is not None:
        for index, step in enumerate(steps):
            if step.sm == 1:
                time.sleep(60)
            if step.sm == 2:
                os._exit(9)
            pipe.send((index, {"status": coverage.PASS}))
        pipe.send(None)


def test_a_step_that_hangs_or_dies_costs_only_itself() -> None:
    plan = [[Step("a", "compile", 3, sm) for sm in (80, 1, 90)], [Step("b", "compile", 3, sm) for sm in (2, 100)],
            [Step("c", "compile", 3, 75)]]
    results = {step.key: result for step, result in
               coverage.execute(plan, jobs=2, timeout=2.0, warm_up=2.0, body=body_with_accidents)}
    assert {key for key, result in results.items() if result["status"] == coverage.PASS} == {
        "a/compile/O3/sm_80", "a/compile/O3/sm_90", "b/compile/O3/sm_100", "c/compile/O3/sm_75"}
    assert "timeout" in results["a/compile/O3/sm_1"]["error"]
    assert "died (exit code 9)" in results["b/compile/O3/sm_2"]["error"]
