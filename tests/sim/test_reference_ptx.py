"""The simulator runs code that others wrote: PTX that the original embeds in cubins of the kernel suite.

Needs the original: the environment that `make bench` makes, or the command named by TILEIRAS_ORIGINAL. Its PTX is made
here and nowhere kept; tensor maps come from the host code in its cubins. Expected values are the suite's reference
results; there may be no findings.
"""
from __future__ import annotations

import re
import subprocess

import pytest

from tests.kernels import runner
from tests.seldom import seldom
from tests.sim import reference
from tileiras.sim import simulate

SMS = ("sm_90", "sm_100", "sm_120")
PLAIN = """atomic_add_float16 atomic_max_int64 atomic_tickets atomic_view_add_float64 attention_backward_delta_bf16
attention_causal_d64_bf16 attention_causal_ragged_bf16 attention_decode_paged_bf16 attention_dkdv_ragged_d64_bf16
attention_packed_sequences_f16 attention_window_softcap_bf16 binary_atan2_float64 binary_divide_approximate
binary_integer_divide_int64 binary_pow_whole_float32 binary_rounding_a_float64 block_sparse_times_matrix_bf16
cast_fp8_integers cast_rounding_float64_float32 cast_special control_break_continue control_nested_break
control_persistent cross_entropy_smoothed_gradient_bfloat16 csr_times_matrix_f16 dequant_gemm_int4_packed_bf16
embedding_backward_atomic_f16 gemm_batched_shared_weight_f16 gemm_split_k_atomics gemm_u8_i32_ragged
gradient_clip_by_norm_f16_ragged histogram_32_private_f32 ifft_128_butterflies_f32 memory_4d_padding
memory_column_major_store memory_order_load_ragged memory_scatter_masked memory_strided_store
memory_tiled_view_broadcast misc_helper_functions misc_many_arguments misc_unpack_int32 moe_place_tokens
permute_heads_first_bf16 quantize_rows_fp8_bf16_ragged reduce_sum_long_rows retention_chunked_bf16_ragged
rope_halves_in_place_bf16 scan_compact scan_cumsum_float32 scan_recurrence_reverse shape_interleave
shape_reshape_float16 softmax_backward_f32_ragged swiglu_bf16_ragged_rows transpose_by_store_float64
unary_integral_float64 unary_special_exponential unary_sqrt_rounding_float32 vector_add_float16""".split()
"""Kernels without tensor maps; each is run for one of the SMs, in turn."""

MAPPED = ("matmul_float16_float32", "attention_d64_f16", "gemm_i8_i32_128x64x64")
"""Kernels with tensor maps in hidden parameters that run for every SM; `make test-all` runs all of the suite."""
MAPPED_ONCE = ("gemm_e5m2_f32_64x128x128", "gemm_a_permuted_f16", "moe_expert_gemm_bf16", "layer_norm_f16_ragged",
               "reduce_tuple_logsumexp", "conv2d_patches_5x5_f32")
BLACKWELL = ("mxfp8_e4m3_128x128x128", "mxfp8_e4m3_interleaved_scales", "nvfp4_128x64x128", "mxfp4_128x128x128",
             "gemm_tf32_exact_inputs", "gemm_f16_f16acc_64x64x32", "gemm_bf16_f32_256x128x64", "gemm_f16_f32_128x256x64",
             "attention_packed_sequences_f16", "gemm_both_transposed_bf16", "attention_causal_d128_grouped_f16",
             "attention_dkdv_causal_d64_f16")
"""Kernels that use the tensor cores of sm_100 in various ways: kinds, shapes, block scales, operands in tensor memory."""

needs_original = pytest.mark.skipif(reference.original() is None, reason="the original isn't installed")


def run(name: str, sm: str, seed: int = 0) -> str:
    """Simulate the original's code for a case; returns its PTX."""
    pytest.importorskip("cuda.tile")
    ptx = reference.original_ptx(name, sm)
    launch = runner.launch_of(name)
    report = simulate(ptx, grid=runner.case_of(name).grid,
                      args=reference.arguments(name, sm, launch.flat), seed=seed)
    verdict = runner.judge(name, launch)
    assert verdict.ok, verdict.detail
    assert not report.findings, report.findings[0]
    return ptx


@needs_original
@pytest.mark.parametrize("name,sm", [(n, SMS[i % 3]) for i, n in enumerate(PLAIN)])
def test_the_original_s_code_gives_the_reference_s_numbers(name, sm):
    run(name, sm)


@needs_original
@pytest.mark.parametrize("name,sm", [(n, sm) for n in MAPPED for sm in SMS] +
                         [(n, SMS[i % 3]) for i, n in enumerate(MAPPED_ONCE)])
def test_with_the_tensor_maps_that_its_host_code_makes(name, sm):
    ptx = run(name, sm)
    assert reference.has_maps(ptx) and "cp.async.bulk.tensor" in ptx


@needs_original
def test_two_blocks_a_cluster():
    """It hands initialized mbarriers on by a fence for just these and a relaxed arrival; no finding."""
    ptx = run("misc_hint_num_ctas", "sm_90")
    assert ".reqnctapercluster 2" in ptx and "barrier.cluster.arrive.relaxed" in ptx and "fence.mbarrier_init" in ptx


@pytest.mark.slow
@needs_original
@pytest.mark.parametrize("sm", SMS)
@pytest.mark.parametrize("name", sorted(runner.cases()))
def test_every_kernel_with_tensor_maps(name, sm):
    try:
        if not reference.has_maps(reference.original_ptx(name, sm)):
            pytest.skip("the original uses no tensor map here")
    except subprocess.CalledProcessError:
        pytest.skip("the original has no such types here")
    run(name, sm)


@needs_original
@pytest.mark.parametrize("name", seldom(BLACKWELL, 9))
def test_tensor_memory(name):
    assert "tcgen05.mma" in run(name, "sm_100")


@needs_original
@pytest.mark.parametrize("name,sm", [("matmul_float16_float32", "sm_80"), ("gemm_bf16_f32_256x128x64", "sm_80"),
                                     ("gemm_f64_32x32x16", "sm_80"), ("attention_d64_f16", "sm_80"),
                                     ("matmul_float16_float32", "sm_89")])
def test_ampere_and_ada(name, sm):
    run(name, sm)


@needs_original
@pytest.mark.parametrize("sm,products", [("sm_90", r"wgmma\.mma_async"), ("sm_100", r"tcgen05\.mma"), ("sm_120", r"mma\.sync")])
def test_no_seed_changes_a_result(sm, products):
    for seed in (1, 2):
        assert re.search(products, run("matmul_float16_float32", sm, seed))
