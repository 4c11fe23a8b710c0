"""Which kernels is speed compared on? Kernels of the suite at sizes that fill a machine, aligned as users have them, and not.

A row: name, the suite's case whose kernel it is, the grid, the arguments. An argument is an array ("f16[4096,4096]", with "!"
behind it where nothing is promised of its alignment), a scalar ("f32=0.5") or a constant ("64", "False"). Arrays are zeros; those
that hold places ("i32[4096]<1000") get numbers below a bound.
"""
from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np

from tests.kernels import runner, suite
from tests.kernels.suite import Array, Case, Const, Scalar

DTYPES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "i8": "int8", "i16": "int16", "i32": "int32",
          "i64": "int64", "u8": "uint8", "u32": "uint32", "u64": "uint64", "e4m3": "float8_e4m3fn", "e8m0": "float8_e8m0fnu"}
_ARRAY = re.compile(r"^(\w+)\[([\d,]+)\](!?)(?:<(\d+))?$")
_SCALAR = re.compile(r"^(\w+)=(\S+)$")


@dataclasses.dataclass(frozen=True)
class Kernel:
    """`flops`, `bytes`: of a launch, for figures that people know; 0: none."""

    name: str
    family: str
    case: str
    grid: tuple[int, int, int]
    arguments: str
    flops: float = 0
    bytes: float = 0


def _k(family: str, name: str, case: str, grid: tuple[int, ...], arguments: str, flops: float = 0, bytes: float = 0) -> Kernel:
    x, y, z = (*grid, 1, 1)[:3]
    return Kernel(name, family, case, (x, y, z), arguments, flops, bytes)


def _product(n: int) -> float:
    return 2.0 * n ** 3


_N = 4096
KERNELS: tuple[Kernel, ...] = (
    # products
    _k("product", "matmul_f16_4096", "matmul_float16_float16", (32, 32),
       "f16[4096,4096] f16[4096,4096] f16[4096,4096] 128 128 64", _product(_N)),
    _k("product", "matmul_f16_4096_unaligned", "matmul_float16_float16", (32, 32),
       "f16[4096,4096]! f16[4096,4096]! f16[4096,4096]! 128 128 64", _product(_N)),
    _k("product", "matmul_f16_2048", "matmul_float16_float16", (16, 16),
       "f16[2048,2048] f16[2048,2048] f16[2048,2048] 128 128 64", _product(2048)),
    _k("product", "matmul_bf16_4096_wide", "matmul_bfloat16_bfloat16", (32, 16),
       "bf16[4096,4096] bf16[4096,4096] bf16[4096,4096] 128 256 64", _product(_N)),
    _k("product", "matmul_f16_8192", "matmul_float16_float16", (64, 32),
       "f16[8192,8192] f16[8192,8192] f16[8192,8192] 128 256 64", _product(8192)),
    _k("product", "matmul_bf16_8192", "matmul_bfloat16_bfloat16", (64, 32),
       "bf16[8192,8192] bf16[8192,8192] bf16[8192,8192] 128 256 64", _product(8192)),
    _k("product", "gemm_e4m3_8192", "gemm_e4m3_fast_accumulate", (64, 64),
       "e4m3[8192,8192] e4m3[8192,8192] f32[8192,8192] 128 128 128", _product(8192)),
    _k("product", "matmul_bf16_4096_small", "matmul_bfloat16_bfloat16", (64, 64),
       "bf16[4096,4096] bf16[4096,4096] bf16[4096,4096] 64 64 64", _product(_N)),
    # few blocks, each of which lives on its own ring: rows of a batch that is decoded, a gradient of weights
    _k("product", "matmul_bf16_64_rows", "matmul_bfloat16_bfloat16", (1, 32),
       "bf16[64,4096] bf16[4096,4096] bf16[64,4096] 64 128 64", 2.0 * 64 * 4096 * 4096, bytes=2.0 * 4096 * 4096),
    _k("product", "matmul_bf16_16_rows", "matmul_bfloat16_bfloat16", (1, 64),
       "bf16[16,4096] bf16[4096,4096] bf16[16,4096] 16 64 128", 2.0 * 16 * 4096 * 4096, bytes=2.0 * 4096 * 4096),
    _k("product", "matmul_bf16_long_k", "matmul_bfloat16_bfloat16", (8, 8),
       "bf16[1024,8192] bf16[8192,1024] bf16[1024,1024] 128 128 64", 2.0 * 1024 * 1024 * 8192),
    _k("product", "matmul_f16_f32_4096", "matmul_float16_float32", (32, 32),
       "f16[4096,4096] f16[4096,4096] f32[4096,4096] 128 128 64", _product(_N)),
    _k("product", "gemm_tf32_2048", "gemm_tf32_exact_inputs", (32, 32),
       "f32[2048,2048] f32[2048,2048] f32[2048,2048] 64 64 32", _product(2048)),
    _k("product", "gemm_u8_i8_4096", "gemm_u8_i8_i32", (64, 64),
       "u8[4096,4096] i8[4096,4096] i32[4096,4096] 64 64 64", _product(_N)),
    _k("product", "gemm_e4m3_4096", "gemm_e4m3_fast_accumulate", (64, 32),
       "e4m3[4096,4096] e4m3[4096,4096] f32[4096,4096] 64 128 64", _product(_N)),
    _k("product", "mxfp8_e4m3_4096", "mxfp8_e4m3_128x128x128", (32, 32),
       "e4m3[4096,4096] e8m0[4096,128] e4m3[4096,4096] e8m0[128,4096] f32[4096,4096] 128 128 128 32", _product(_N)),
    _k("product", "mxfp8_weight_4096", "mxfp8_e5m2_weight_ragged", (32, 32),
       "e4m3[4096,4096] e8m0[4096,128] e4m3[4096,4096] e8m0[4096,128] bf16[4096,4096] 128 128 128 32", _product(_N)),
    _k("product", "mxfp8_interleaved_4096", "mxfp8_e4m3_interleaved_scales", (32, 32),
       "e4m3[4096,4096] e8m0[32,32,32,16] e4m3[4096,4096] e8m0[32,32,32,16] f32[4096,4096]", _product(_N)),
    _k("product", "mxfp4_4096", "mxfp4_128x128x128", (32, 32),
       "u8[4096,2048] e8m0[4096,128] u8[4096,2048] e8m0[4096,128] f32[4096,4096] f32=0.125 128 128 256 32", _product(_N)),
    _k("product", "nvfp4_4096", "nvfp4_128x64x128", (32, 32),
       "u8[4096,2048] e4m3[4096,256] u8[4096,2048] e4m3[4096,256] f32[4096,4096] f32=0.125 128 128 256 16", _product(_N)),
    _k("product", "gemm_batched_f16", "gemm_batched_f16", (16, 8, 8),
       "f16[32,512,512] f16[32,512,512] f16[32,512,512] 2 64 64 32"),
    _k("product", "gemm_bias_gelu_f16", "gemm_bias_gelu_f16_ragged", (64, 32),
       "f16[4096,1024] f16[1024,4096] f16[4096] f16[4096,4096] 64 128 32", 2.0 * 4096 * 4096 * 1024),
    _k("product", "gemm_gated_pair_f16", "gemm_gated_pair_f16", (128, 64),
       "f16[4096,1024] f16[1024,4096] f16[1024,4096] f16[4096,4096] 32 64 32", 4.0 * 4096 * 4096 * 1024),
    _k("product", "gemm_swizzled_f16", "gemm_swizzled_blocks_f16", (4096,),
       "f16[4096,4096] f16[4096,4096] f16[4096,4096] 64 64 32 8", _product(_N)),
    _k("product", "gemm_persistent_bf16", "gemm_persistent_bf16_ragged", (132,),
       "bf16[4096,4096] bf16[4096,4096] f32[4096,4096] 64 64 32", _product(_N)),
    _k("product", "gemm_split_k_atomics", "gemm_split_k_atomics", (16, 16, 4),
       "f16[1024,8192] f16[8192,1024] f32[1024,1024] 64 64 64 32", 2.0 * 1024 * 1024 * 8192),
    _k("product", "gemm_int8_dequant", "dequant_gemm_int8_f16_ragged", (32, 64),
       "f16[1024,4096] i8[4096,4096] f32[4096] f16[1024,4096] 32 64 64", 2.0 * 1024 * 4096 * 4096),
    _k("product", "scaled_gemm_fp8_blocks", "scaled_gemm_fp8_128_blocks", (32, 64),
       "e4m3[2048,2048] e4m3[4096,2048] f32[2048,16] f32[32,16] bf16[2048,4096] 64 64", 2.0 * 2048 * 4096 * 2048),
    # attention
    _k("attention", "attention_d64_f16", "attention_d64_f16", (32, 64),
       "f16[32,4096,64] f16[32,4096,64] f16[32,4096,64] f16[32,4096,64] f32[32,4096] f32=0.125 64 64 64 1 False",
       4.0 * 32 * 4096 * 4096 * 64),
    _k("attention", "attention_d64_causal_f16", "attention_d64_f16", (32, 64),
       "f16[32,4096,64] f16[32,4096,64] f16[32,4096,64] f16[32,4096,64] f32[32,4096] f32=0.125 64 64 64 1 True",
       2.0 * 32 * 4096 * 4096 * 64),
    _k("attention", "attention_d128_f16", "attention_d64_f16", (16, 32),
       "f16[16,4096,128] f16[16,4096,128] f16[16,4096,128] f16[16,4096,128] f32[16,4096] f32=0.08838 128 64 128 1 False",
       4.0 * 16 * 4096 * 4096 * 128),
    _k("attention", "attention_window_softcap_bf16", "attention_window_softcap_bf16", (32, 32),
       "bf16[32,2048,64] bf16[32,2048,64] bf16[32,2048,64] bf16[32,2048,64] f32=0.125 f32=2.0 256 64 32 64"),
    # softmax and norms
    _k("softmax", "softmax_4096x4096_f32", "softmax_1x1024_f32_ragged", (4096,),
       "f32[4096,4096] f32[4096,4096] 1 4096", bytes=2.0 * 4 * 4096 * 4096),
    _k("softmax", "softmax_4096x1000_f32_unaligned", "softmax_1x1024_f32_ragged", (4096,),
       "f32[4096,1000]! f32[4096,1000]! 1 1024", bytes=2.0 * 4 * 4096 * 1000),
    _k("softmax", "softmax_streamed_bf16", "softmax_streamed_bf16_ragged", (512,),
       "bf16[4096,8192] bf16[4096,8192] 8 256", bytes=3.0 * 2 * 4096 * 8192),
    _k("softmax", "log_softmax_f32", "log_softmax_f32_ragged", (1024,),
       "f32[4096,4096] f32[4096,4096] 4 4096", bytes=2.0 * 4 * 4096 * 4096),
    _k("softmax", "softmax_backward_f32", "softmax_backward_f32_ragged", (2048,),
       "f32[8192,2048] f32[8192,2048] f32[8192,2048] 4 2048", bytes=3.0 * 4 * 8192 * 2048),
    _k("norm", "layer_norm_f16", "layer_norm_f16_ragged", (2048,),
       "f16[8192,1024] f16[1024] f16[1024] f16[8192,1024] f32[8192] f32[8192] f32=1e-5 4 1024", bytes=2.0 * 2 * 8192 * 1024),
    _k("norm", "layer_norm_f16_unaligned", "layer_norm_f16_ragged", (2048,),
       "f16[8192,1000]! f16[1000]! f16[1000]! f16[8192,1000]! f32[8192]! f32[8192]! f32=1e-5 4 1024",
       bytes=2.0 * 2 * 8192 * 1000),
    _k("norm", "layer_norm_streamed_bf16", "layer_norm_streamed_bf16_ragged", (4096,),
       "bf16[4096,8192] f32[8192] f32[8192] bf16[4096,8192] f32[4096] f32[4096] f32=1e-5 512"),
    _k("norm", "add_rms_norm_f16", "add_rms_norm_in_place_f16", (1024,),
       "f16[8192,2048] f16[8192,2048] f16[2048] f16[8192,2048] f32=1e-6 8 2048", bytes=4.0 * 2 * 8192 * 2048),
    _k("norm", "rms_norm_persistent_bf16", "rms_norm_persistent_bf16_ragged", (264,),
       "bf16[16384,1024] bf16[1024] bf16[16384,1024] f32=1e-5 4 1024", bytes=2.0 * 2 * 16384 * 1024),
    _k("norm", "group_norm_silu_f16", "group_norm_silu_f16_ragged", (64, 4),
       "f16[64,32,4096] f32[32] f32[32] f16[64,32,4096] f32=1e-5 8 64"),
    # elementwise
    _k("elementwise", "vector_add_f32", "vector_add_float32", (16384,),
       "f32[16777216] f32[16777216] f32[16777216] 1024", bytes=3.0 * 4 * 16777216),
    _k("elementwise", "saxpy_2d", "saxpy_2d", (128, 64),
       "f32[4096,4096] f32[4096,4096] f32[4096,4096] f32=0.5 32 64", bytes=3.0 * 4 * 4096 * 4096),
    _k("elementwise", "gelu_tanh_f16", "gelu_tanh_f16", (32768,),
       "f16[33554432] f16[33554432] 1024", bytes=2.0 * 2 * 33554432),
    _k("elementwise", "gelu_exact_f32_unaligned", "gelu_exact_f32_ragged", (16384,),
       "f32[16777000]! f32[16777000]! 1024", bytes=2.0 * 4 * 16777000),
    _k("elementwise", "silu_bf16_unaligned", "silu_bf16_ragged", (32768,),
       "bf16[33554001]! bf16[33554001]! 1024", bytes=2.0 * 2 * 33554001),
    _k("elementwise", "swiglu_bf16", "swiglu_bf16_ragged_rows", (512, 16),
       "bf16[8192,4096] bf16[8192,2048] 16 128", bytes=2.0 * 8192 * 6144),
    _k("elementwise", "dropout_hash_f32", "dropout_hash_f32_ragged", (16384,),
       "f32[16777216] f32[16777216] u8[16777216] u32=123456789 u32=1288490188 f32=1.43 1024", bytes=9.0 * 16777216),
    _k("elementwise", "adamw_step_f32", "adamw_step_float32", (16384,),
       "f32[8388608] f32[8388608] f32[8388608] f32[8388608] f32[8388608] f32=0.01 f32=0.9 f32=0.999 f32=1e-8 f32=0.1 "
       "f32=0.271 f32=0.003 512", bytes=7.0 * 4 * 8388608),
    _k("elementwise", "binary_pow_f32", "binary_pow_float32", (16384,),
       "f32[8388608] f32[8388608] f32[8388608] f32[8388608] 512"),
    # reductions
    _k("reduction", "reduce_sum_long_rows", "reduce_sum_long_rows", (32768,),
       "f32[32768,1000]! f32[32768] 1024", bytes=4.0 * 32768 * 1000),
    _k("reduction", "cross_entropy_f16", "cross_entropy_f16_ragged", (4096,),
       "f16[16384,2048] i32[16384]<2048 f32[16384] f32[16384] 4 2048", bytes=2.0 * 16384 * 2048),
    _k("reduction", "kl_divergence_f32", "kl_divergence_f32_ragged", (1024,),
       "f32[8192,1024] f32[8192,1024] f32[8192] 8 128", bytes=2.0 * 4 * 8192 * 1024),
    _k("reduction", "quantize_rows_int8_f16", "quantize_rows_int8_f16", (1024,),
       "f16[8192,2048] i8[8192,2048] f32[8192] 8 2048", bytes=3.0 * 8192 * 2048),
    _k("reduction", "layer_norm_backward_sum_parts", "layer_norm_backward_sum_parts", (64,),
       "f32[2048,8192] f32[8192] 16 128", bytes=4.0 * 2048 * 8192),
    _k("reduction", "moe_route_top6_f32", "moe_route_top6_of_64", (2048,),
       "f32[32768,64] i32[32768,6] f32[32768,6] 16 64 6"),
    # scans
    _k("scan", "scan_cumsum_long_rows", "scan_cumsum_long_rows", (16384,),
       "f32[16384,1000]! f32[16384,1000]! 1024", bytes=2.0 * 4 * 16384 * 1000),
    _k("scan", "running_totals_i64", "running_totals_int64", (4096,),
       "i32[4096,4096]! i64[4096,4096]! 128", bytes=12.0 * 4096 * 4096),
    _k("scan", "state_space_scan_f32", "state_space_scan_f32_ragged", (512,),
       "f32[4096,2048] f32[4096,2048] f32[4096] f32[4096,2048] 8 128"),
    # gathers, scatters, transposes
    _k("gather", "memory_gather_f32", "memory_gather_float32_int32", (16384,),
       "f32[4194304]! i32[4194304]!<4194304 f32[4194304]! 256"),
    _k("gather", "embedding_lookup_bf16", "embedding_lookup_bf16_ragged", (1024, 8),
       "bf16[32000,1024] i64[16384]<32000 bf16[16384,1024] 16 128", bytes=2.0 * 2 * 16384 * 1024),
    _k("gather", "embedding_lookup_indexed_f16", "embedding_lookup_indexed_load_f16", (512, 16),
       "f16[32000,1024] i32[16384]<32000 f32[16384] f16[16384,1024] 32 64", bytes=2.0 * 2 * 16384 * 1024),
    _k("gather", "rope_backward_f16", "rope_backward_f16", (256, 16),
       "f16[4096,16,128]! f16[4096,16,128]! f32[4096,64]! f32[4096,64]! 16 64", bytes=2.0 * 2 * 4096 * 16 * 128),
    _k("gather", "transpose_f16", "transpose_tile_float16", (64, 128),
       "f16[4096,8192] f16[8192,4096] 64 64", bytes=2.0 * 2 * 4096 * 8192),
    _k("gather", "transpose_by_store_f32_unaligned", "transpose_by_store_float32", (128, 64),
       "f32[4090,4090]! f32[4090,4090]! 32 64", bytes=2.0 * 4 * 4090 * 4090),
    # atomics
    _k("atomic", "atomic_add_f32", "atomic_add_float32", (8192,),
       "f32[8192,128]! f32[48] 128"),
    _k("atomic", "histogram_direct_u8", "histogram_256_direct_uint8", (16384,),
       "u8[16777216]!<256 i32[256]! 1024"),
    _k("atomic", "histogram_private_f32", "histogram_32_private_f32", (1056,),
       "f32[4194304]! i32[32]! f32=-2.0 f32=0.125 256 32"),
    _k("atomic", "embedding_backward_atomic_f32", "embedding_backward_atomic_f32", (1024, 16),
       "f32[16384,1024]! i32[16384]!<32000 f32[32000,1024]! i32=3 16 64"),
    # convolution, stencil
    _k("stencil", "conv2d_3x3_relu_f16", "conv2d_3x3_relu_f16", (784, 4),
       "f16[16,56,56,128] f16[3,3,128,256] f32[256] f16[16,56,56,256] 64 64 32 1 1 True", 2.0 * 16 * 56 * 56 * 256 * 9 * 128),
    _k("stencil", "jacobi_5_point_f32", "jacobi_5_point_f32", (128, 64),
       "f32[4096,4096]! f32[4096,4096]! f32[4096,4096]! f32=0.01 32 64",
       bytes=3.0 * 4 * 4096 * 4096),
)
SHORT = ("vector_add_f32", "matmul_f16_4096", "softmax_4096x4096_f32", "attention_d64_f16", "layer_norm_f16", "gelu_tanh_f16",
         "matmul_f16_4096_unaligned", "layer_norm_f16_unaligned", "reduce_sum_long_rows", "scan_cumsum_long_rows", "transpose_f16",
         "memory_gather_f32", "histogram_direct_u8", "attention_d64_causal_f16", "matmul_bf16_4096_wide", "gemm_e4m3_4096")
"""What `ARGS=--short` takes: one or two of each family."""


def by_name() -> dict[str, Kernel]:
    return {k.name: k for k in KERNELS}


def case_of(kernel: Kernel) -> tuple[Case, dict[int, int]]:
    """The suite's case with these sizes, and the bounds of arrays that hold places, by argument."""
    original = runner.case_of(kernel.case)
    arguments: list[Array | Scalar | Const] = []
    bounds: dict[int, int] = {}
    for i, word in enumerate(kernel.arguments.split()):
        if m := _ARRAY.match(word):
            arguments.append(Array(DTYPES[m[1]], tuple(int(n) for n in m[2].split(",")), not m[3]))
            if m[4]:
                bounds[i] = int(m[4])
        elif m := _SCALAR.match(word):
            arguments.append(Scalar(DTYPES[m[1]], int(m[2]) if m[1][0] in "iu" else float(m[2])))
        else:
            arguments.append(Const({"True": True, "False": False}[word] if word in ("True", "False") else int(word)))
    return dataclasses.replace(original, name=kernel.name, args=arguments, grid=kernel.grid), bounds


def launch(case: Case, bounds: dict[int, int]) -> list[Any]:
    """The flat launch parameters."""
    rng = np.random.default_rng(0)
    flat: list[Any] = []
    for i, a in enumerate(case.args):
        if isinstance(a, Array):
            dtype = np.dtype(suite.NUMPY[a.dtype])
            values = rng.integers(0, bounds[i], a.shape).astype(dtype) if i in bounds else np.zeros(a.shape, dtype)
            flat += [values, *(np.int32(n) for n in a.shape), *(np.int32(s) for s in suite.strides_of(a))]
        elif isinstance(a, Scalar):
            flat.append(suite.NUMPY[a.dtype](a.value))
    return flat
