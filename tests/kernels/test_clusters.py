"""Cases of the suite on clusters: tile blocks shared by two and four CTAs give what the references say, under every seed."""
from __future__ import annotations

import re

import pytest

from tests.kernels import runner
from tests.kernels.cluster_cases import compile_on, ctas
from tileiras.analysis import cta_plan
from tileiras.sim import SimulationError, simulate

QUICK = (("matmul_float16_float32", 2), ("gemm_bf16_f32_256x128x64", 4), ("softmax_16x256_f16", 4),
         ("attention_causal_d64_bf16", 2), ("permute_heads_first_bf16", 2), ("scan_recurrence_reverse", 4),
         ("moe_route_top6_of_64", 2), ("vector_add_float16", 4))
"""Of each kind one: case, CTAs."""
MORE = """vector_add_float16 matmul_float16_float32 gemm_bf16_f32_256x128x64 softmax_16x256_f16 layer_norm_f16_ragged
reduce_any_all reduce_rounding histogram_32_private_f32 ell_times_vector_f64 attention_causal_d64_bf16 atomic_view_add_float16
shape_interleave""".split()


def agrees(name: str, count: int, sm: str = "sm_90") -> None:
    made = compile_on(name, count, sm, verify_each=True)
    assert ctas(made.ptx) == count
    verdict = runner.simulate_case(name, made)
    assert verdict.ok, verdict.detail


@pytest.mark.parametrize("name, count", QUICK)
def test_a_case_of_each_kind(name: str, count: int) -> None:
    agrees(name, count)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("name", MORE)
def test_more_cases(name: str, count: int) -> None:
    agrees(name, count)


SHARED = (("matmul_float16_float32", 2), ("matmul_float16_float32", 4), ("gemm_bf16_f32_256x128x64", 4),
          ("gemm_both_transposed_bf16", 2))
"""Operands that several CTAs want: each loads a part for all, in two directions with four CTAs of 64 rows and columns each."""


@pytest.mark.parametrize("name, count", SHARED)
def test_ctas_load_for_each_other(name: str, count: int) -> None:
    made = compile_on(name, count, verify_each=True)
    assert ctas(made.ptx) == count and ".multicast::cluster" in made.ptx and "mapa" in made.ptx
    verdict = runner.simulate_case(name, made)
    assert verdict.ok, verdict.detail


@pytest.mark.parametrize("sm", ["sm_100", "sm_120"])
def test_clusters_without_multicast(sm: str) -> None:
    made = compile_on("matmul_float16_float32", 2, sm)
    assert ctas(made.ptx) == 2 and "multicast" not in made.ptx
    verdict = runner.simulate_case("matmul_float16_float32", made)
    assert verdict.ok, verdict.detail


def fails(name: str, ptx: str, seed: int) -> bool:
    """Whether the simulator finds fault."""
    launch = runner.launch_of(name)
    try:
        return bool(simulate(ptx, name, runner.case_of(name).grid, launch.flat, seed=seed).findings)
    except SimulationError:
        return True


BARRIER = r".*barrier\.cluster\.(arrive|wait).*\n"


@pytest.mark.parametrize("broken", ["leaves", "begins", "releases"])
def test_a_cta_that_goes_its_own_way_is_caught(broken: str) -> None:
    """It leaves while others may still arrive at its barriers; begins before theirs are set up; doesn't tell them that a stage of
    its own is empty."""
    name = "matmul_float16_float32"
    text = compile_on(name, 2).ptx
    first = text.index("barrier.cluster.wait")
    if broken == "leaves":
        other = text[:first + 30] + re.sub(BARRIER, "", text[first + 30:])
    elif broken == "begins":
        other = re.sub(BARRIER, "bar.sync 0;\n", text, count=2)
    else:
        other = re.sub(r".*mbarrier\.arrive\.release\.cluster\.shared::cluster.*\n", "", text)
    assert other != text
    assert all(fails(name, other, seed) for seed in range(3))


@pytest.mark.parametrize("name", ["reduce_argminmax_float32", "reduce_minmax_bfloat16", "reduce_tuple_payload", "reduce_sum_3d",
                                  "layer_norm_f16_ragged", "control_while_tile_condition"])
def test_reductions_across_ctas(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if an exchange were free: small tiles are split along what they reduce, too."""
    monkeypatch.setattr(cta_plan, "EXCHANGE", 0)
    agrees(name, 4)
