"""Cases of the suite on clusters: tile blocks shared by two and four CTAs give what the references say, under every seed."""
from __future__ import annotations

import pytest

from tests.kernels import runner
from tests.kernels.cluster_cases import compile_on, ctas

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
