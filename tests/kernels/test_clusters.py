"""Cases of the suite on clusters: tile blocks shared by two and four CTAs give what the references say, under every seed."""
from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kernels import runner
from tests.kernels.cluster_cases import any_parts, compile_on, ctas
from tileiras.analysis import cta_plan
from tileiras.sim import SimulationError, simulate

QUICK = (("softmax_16x256_f16", 4), ("attention_causal_d64_bf16", 2), ("permute_heads_first_bf16", 2),
         ("moe_route_top6_of_64", 2), ("vector_add_float16", 4), ("memory_scatter_masked", 2))
"""Of each kind one: case, CTAs."""
MORE = """
atomic_add_uint32 atomic_min_int32 atomic_view_add_float16 atomic_xor_int32 attention_causal_d64_bf16
binary_compare_float64 binary_fma_float32 binary_integer_uint64 binary_rounding_a_bfloat16
box_blur_sliced_views_uint8 cast_from_float8_e4m3fn cast_signed_from_float64 control_loop_in_branch
dequant_gemm_codebook_f16 ell_times_vector_f64 gated_delta_rule_bf16 gemm_bf16_f32_256x128x64 gemm_e5m2_f16acc_64x64x64
gemm_scaled_residual_bf16 histogram_32_private_f32 jacobi_5_point_f32 layer_norm_f16_ragged matmul_float16_float32
memory_3d_ragged memory_gather_rows memory_padding_int8 misc_constant_arguments_False misc_hint_worker_warps
mxfp8_e4m3_128x128x128 reduce_rounding scaled_gemm_int8_bf16_ragged scan_recurrence_reverse shape_interleave
softmax_16x256_f16 vector_add_float16""".split()


@pytest.fixture
def small_parts() -> Iterator[None]:
    """Small tiles are split, too."""
    with any_parts():
        yield


def agrees(name: str, count: int, sm: str = "sm_90") -> None:
    made = compile_on(name, count, sm, verify_each=True)
    assert ctas(made.ptx) == count
    verdict = runner.simulate_case(name, made)
    assert verdict.ok, verdict.detail


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("name, count", QUICK)
def test_a_case_of_each_kind(name: str, count: int) -> None:
    agrees(name, count)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("name", MORE)
def test_more_cases(name: str, count: int) -> None:
    agrees(name, count)


SHARED = (("matmul_float16_float32", 2), ("matmul_float16_float32", 4),
          pytest.param("gemm_bf16_f32_256x128x64", 4, marks=pytest.mark.slow),
          pytest.param("gemm_both_transposed_bf16", 2, marks=pytest.mark.slow))
"""Operands that several CTAs want: each loads a part for all, in two directions with four CTAs of 64 rows and columns each."""


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("name, count", SHARED)
def test_ctas_load_for_each_other(name: str, count: int) -> None:
    made = compile_on(name, count, verify_each=True)
    assert ctas(made.ptx) == count and ".multicast::cluster" in made.ptx and "mapa" in made.ptx
    verdict = runner.simulate_case(name, made)
    assert verdict.ok, verdict.detail


def test_parts_that_multiply_as_fast_as_whole_tiles() -> None:
    """Of 256 x 128 each of two CTAs has 128 x 128; smaller parts would be slower, and the hint has no effect."""
    assert ctas(compile_on("gemm_bf16_f32_256x128x64", 2, emit="ptx").ptx) == 2
    for name, count in (("gemm_bf16_f32_256x128x64", 4), ("matmul_float16_float32", 2)):
        told: list[Any] = []
        assert ctas(compile_on(name, count, emit="ptx", remarks=told).ptx) == 1
        [remark] = [r for r in told if "num_cta_in_cga" in r.text]
        assert remark.name == "RemarkHintIgnored"
        assert remark.reasons == ("products of the parts would be slower than those of whole tiles",)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("name, count", [
    ("matmul_float16_float32", 4), pytest.param("gemm_both_transposed_bf16", 2, marks=pytest.mark.slow)])
def test_tensor_cores_give_stages_of_several_ctas_back(name: str, count: int) -> None:
    """By commits that arrive at all CTAs which fill them."""
    made = compile_on(name, count, "sm_100", verify_each=True)
    assert ctas(made.ptx) == count and re.search(r"cp\.async\.bulk\.tensor.*multicast::cluster", made.ptx)
    assert re.search(r"tcgen05\.commit\.cta_group::1.*multicast::cluster", made.ptx)
    verdict = runner.simulate_case(name, made)
    assert verdict.ok, verdict.detail


@pytest.mark.usefixtures("small_parts")
def test_clusters_without_multicast() -> None:
    made = compile_on("matmul_float16_float32", 2, "sm_120")
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


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("broken, sm", [(broken, sm) for broken in ("begins", "tells", "releases") for sm in ("sm_90", "sm_100")])
def test_a_cta_that_goes_its_own_way_is_caught(broken: str, sm: str) -> None:
    """It begins before others' barriers are set up; doesn't tell them that its own are; doesn't tell them that a stage of its own
    is empty. (That none leaves while others may still arrive at its barriers, loaders see to: they wait for all of that.)"""
    name = "matmul_float16_float32"
    text = compile_on(name, 2, sm).ptx
    first = text.index("barrier.cluster.wait")
    if broken == "begins":
        other = re.sub(BARRIER, "bar.sync 0;\n", text, count=2)
    elif broken == "tells":
        assert "barrier.cluster.arrive.relaxed" in text[:first]
        other = re.sub(r".*fence\.mbarrier_init.*\n", "", text)
    else:
        other = re.sub(r".*mbarrier\.arrive\.shared::cluster.*\n", "", text)
        other = re.sub(r"(tcgen05\.commit\S+)\.multicast::cluster\.b64\s+(\[.*\]), %rs\d+;", r"\1.b64 \2;", other)
    assert other != text
    assert any(fails(name, other, seed) for seed in range(5))


REDUCED = ("reduce_argminmax_float32", "reduce_sum_3d", *(pytest.param(name, marks=pytest.mark.slow) for name in (
    "reduce_minmax_bfloat16", "reduce_tuple_payload", "layer_norm_f16_ragged", "control_while_tile_condition")))


@pytest.mark.parametrize("name", REDUCED)
def test_reductions_across_ctas(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if an exchange were free: small tiles are split along what they reduce, too."""
    monkeypatch.setattr(cta_plan, "EXCHANGE", 0)
    agrees(name, 4)
