"""Which cases of the suite guard a commit: few, cheap, and touching every op on every element type that the suite has.

`python -m tests.kernels.cross_section` chooses anew and prints the list; `test_suite.py` checks that the one below is
complete and runs it.
"""
from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.kernels import runner

Feature = tuple[str, str]
"""An op's name, and the element type of one of its operands or results ("" for the op by itself)."""


def element_of(type_: Any) -> str | None:
    """The element type of a tile or view as text, "ptr" for pointers of any kind; None for tokens."""
    element = getattr(type_, "element_type", None)
    if element is None:
        return None
    return "ptr" if "ptr" in str(element) else str(element)


def features_of(name: str) -> Iterator[Feature]:
    """The features of a case's bytecode, as often as they occur."""
    from tileiras import bytecode
    for op in bytecode.read(runner.export_case(name)).walk():
        yield op.name, ""
        for value in (*op.operands, *op.results):
            if (element := element_of(value.type)) is not None:
                yield op.name, element


def cost_of(name: str) -> float:
    """Roughly how long a case takes: blocks to run and data to compare, over what every case pays."""
    blocks = math.prod(runner.case_of(name).grid)
    data = sum(v.nbytes for v in runner.launch_of(name).values if isinstance(v, np.ndarray))
    return 1 + blocks / 20 + data / 50_000


def choose() -> list[str]:
    """A cover of all features: again and again the case that adds the most for its cost. In the suite's order."""
    features = {name: frozenset(features_of(name)) for name in runner.cases()}
    costs = {name: cost_of(name) for name in features}
    todo = set().union(*features.values())
    chosen = set()
    while todo:
        best = max(features, key=lambda name: len(features[name] & todo) / costs[name])
        chosen.add(best)
        todo -= features[best]
    return [name for name in features if name in chosen]


THREE_KERNELS = ("vector_add_float32", "softmax_1x1024_f32_ragged", "matmul_float16_float32")
"""The kernels of `make demo`."""

CROSS_SECTION: tuple[str, ...] = tuple("""
swiglu_backward_in_place_f16 dropout_philox_f16_ragged atomic_add_float16 atomic_add_bfloat16 atomic_cas_float32
atomic_cas_uint64 atomic_cas_float64 atomic_raw_offsets atomic_view_add_float32 atomic_view_add_float16
atomic_view_add_bfloat16 atomic_view_add_float64 atomic_view_modes_int64 atomic_view_overlapping
binary_rounding_a_float16 binary_rounding_a_bfloat16 binary_rounding_a_float64 binary_fma_float64 binary_fma_float16
binary_fma_bfloat16 binary_float_floordiv_mod_float16 binary_float_floordiv_mod_bfloat16
binary_float_floordiv_mod_float32 binary_float_floordiv_mod_float64 binary_pow_float16 binary_pow_whole_float32
binary_pow_whole_float64 binary_pow_int8_exponent binary_atan2_float32 binary_atan2_float64 binary_minmax_float64
binary_integer_int16 binary_integer_int64 binary_integer_divide_int16 binary_integer_divide_uint8
binary_truncated_division binary_shift_int8 mxfp8_e5m2_weight_ragged mxfp8_e4m3_batched mxfp4_block16_64x64x64
cast_from_int16 cast_from_float16 cast_from_bool cast_signed_from_bfloat16 cast_unsigned_from_float64 cast_to_bool_uint8
cast_fp8_integers cast_e8m0 control_while control_while_tile_condition control_if_tiles control_loop_carried_0
conv2d_patches_5x5_f32 embedding_lookup_bf16_ragged cache_store_rows_indexed_bf16 gemm_f64_32x32x16
gemm_e5m2_f16acc_64x64x64 gemm_tf32_rounded_ragged histogram_32_private_f32 sum_min_max_by_key argmax_packed_in_64_bits
state_space_scan_f32_ragged running_totals_int64 binary_cross_entropy_atomic_mean memory_order_store_3d
memory_foreign_int64 memory_array_choice_0 memory_tiled_view_broadcast memory_scatter_int64 memory_advanced_load_float16
memory_advanced_columns memory_advanced_store misc_bitcast misc_pack_float32 misc_pack_int16 misc_pack_float64
misc_pack_int8 misc_unpack_int32 misc_unpack_float16 misc_unpack_uint64 misc_nibbles misc_print misc_print_types
misc_assert misc_grid_dependency misc_scalar_arguments moe_place_tokens gradient_unscale_norm_overflow
quantize_nvfp4_f32 dequant_gemm_int4_packed_bf16 dequant_gemm_codebook_f16 scaled_gemm_int8_bf16_ragged
scaled_gemm_fp8_128_blocks reduce_sum_uint16 reduce_prod_uint8 reduce_minmax_bfloat16 reduce_minmax_int8
reduce_minmax_nan_float16 reduce_any_all rope_neighbours_f32_ragged scan_cumsum_float64 scan_cumsum_float16
scan_cumsum_uint8 scan_cumsum_3d shape_reshape_float32 shape_permute_3d shape_extract_cat_uint8 shape_insert
shape_interleave shape_arange ell_times_vector_f64 laplace_7_point_f64 frame_energy_overlapping_view
life_on_a_torus_int8 unary_trigonometric_float32 unary_hyperbolic_float32 unary_powers_float64 unary_angles_float64
unary_integral_float64 unary_powers_float16 unary_angles_float16 unary_integral_float16 unary_powers_bfloat16
unary_angles_bfloat16 unary_integral_bfloat16 unary_special_logarithm unary_special_root unary_special_integral
unary_special_root_float64 unary_integer_int8 unary_integer_int16 unary_integer_int64
""".split())


def main() -> None:
    print(textwrap.fill(" ".join(choose()), 120, break_on_hyphens=False))


if __name__ == "__main__":
    main()
