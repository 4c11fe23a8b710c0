"""Epilogues of products whose warps turn their own parts: each meets alone, the values are right under both levels, and the
simulator sees it where the warps don't meet."""
from __future__ import annotations

import re

import pytest

from tests.kernels import runner
from tileiras.sim import simulate

MEETING = re.compile(r"^\s*bar\.warp\.sync.*\n", re.MULTILINE)
BLOCK = re.compile(r"^\s*(?:bar|barrier\.cta|barrier)\.sync.*\n", re.MULTILINE)


def run(case: str, ptx: str) -> tuple[bool, list[str]]:
    c, launch = runner.case_of(case), runner.launch_of(case)
    report = simulate(ptx, kernel=c.name, grid=c.grid, args=launch.flat)
    return runner.judge(c, launch).ok, [str(f) for f in report.findings]


@pytest.mark.parametrize("case", ["gemm_batched_f16", "gemm_f16_f32_ragged_k"])
def test_a_warp_that_turns_its_own_part_meets_alone(case: str) -> None:
    ptx = runner.compile_case(case, "sm_80").ptx
    assert MEETING.search(ptx)
    assert run(case, ptx) == (True, [])
    _, found = run(case, MEETING.sub("", ptx))
    assert found and all("of its warp" in text and "with no bar.warp.sync between" in text for text in found)


def test_the_products_before_ask_for_the_block() -> None:
    """Without its barriers other warps' operands are overwritten."""
    case = "gemm_batched_bf16_ragged"
    ptx = runner.compile_case(case, "sm_80").ptx
    _, found = run(case, BLOCK.sub("", ptx))
    assert any("with no barrier between" in text for text in found)


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("sm", [75, 80, 90, 120])
def test_values(sm: int, level: int) -> None:
    case = "gemm_f16_f32_ragged_k"
    assert run(case, runner.compile_case(case, f"sm_{sm}", opt_level=level).ptx) == (True, [])


def test_what_little_scratch_makes_shuffles_of_is_lowered_as_shuffles() -> None:
    """On sm_75 a tile of 128 KB would go through shared memory in rounds, dearer than shuffles; with all of it in one, cheaper."""
    case = "gemm_f16_f32_128x256x64"
    ptx = runner.compile_case(case, "sm_75").ptx
    assert ptx.count("shfl.sync") == 64        # of 128 words a thread the half that other lanes want
    assert run(case, ptx) == (True, [])
