"""Masks that are true everywhere are left out: which loops' tiles have a branch, and values on both sides of it."""
from __future__ import annotations

from typing import Any

import pytest

from tests.kernels import runner
from tileiras.compiler import read_module
from tileiras.dialects import arith
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target
from tileiras.pipeline import PIPELINE, verify_after

CAUSAL = "attention_causal_d64_bf16"
"""128 queries on 64 keys a block: the second block has tiles of keys that all its queries see, and tiles that some do."""


def behind_the_pass(case: str, opt_level: int = 3, gpu: str = "sm_90") -> Any:
    options = CompileOptions(find_target(gpu), opt_level=opt_level)
    ir: Any = read_module(runner.export_case(case), options)
    for entry in PIPELINE:
        if entry.min_opt <= opt_level:
            ir = entry.apply(ir, options)
        if entry.name == "skip-masks":
            verify_after(ir, entry.name)
            return ir


def branches(case: str, opt_level: int = 3, gpu: str = "sm_90") -> list[Any]:
    return [op for op in behind_the_pass(case, opt_level, gpu).walk() if isinstance(op, arith.If)]


@pytest.mark.parametrize("case", [CAUSAL, "attention_d64_f16", "attention_window_softcap_bf16", "attention_dkdv_causal_d64_f16",
                                  "attention_dq_ragged_d64_bf16"])
def test_scores_have_one_branch(case: str) -> None:
    [branch] = branches(case)
    then, masked = (region.block for region in branch.regions)
    assert [op.name for op in then.ops] == ["scf.yield"]
    assert {"arith.cmpi", "arith.select"} <= {op.name for op in masked.ops}


def test_small_tiles_and_lower_levels_have_none() -> None:
    assert not branches("attention_decode_paged_bf16")
    assert not branches(CAUSAL, opt_level=0)


@pytest.mark.parametrize("gpu", ["sm_75", "sm_80", "sm_89"])
def test_loops_whose_warps_copy_between_products_have_none(gpu: str) -> None:
    assert not branches(CAUSAL, gpu=gpu)


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_values_are_right_whichever_way_is_taken(gpu: str) -> None:
    assert runner.simulate_case(CAUSAL, runner.compile_case(CAUSAL, gpu)).ok
