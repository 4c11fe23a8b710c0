"""Tile blocks whose accumulators no block's registers hold: one part after the other. In several orders, against NumPy."""
from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.kernels import runner
from tests.kernels.suite import Array, Case, Const

M, N, K = 260, 304, 160
FP8 = ("float8_e4m3fn",)


def product(dtype: str, out: str, tile: tuple[int, int, int], persistent: bool) -> Case:
    """Small integers, so that every sum is exact in f32; what is stored of it is rounded once."""
    def inputs(rng: np.random.Generator) -> dict[int, np.ndarray]:
        return {0: rng.integers(-3, 4, (M, K)), 1: rng.integers(-3, 4, (K, N))}

    def expected(a: np.ndarray, b: np.ndarray, *_: object) -> dict[int, np.ndarray]:
        return {2: (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)}
    name = "gemm_e4m3_fast_accumulate" if dtype in FP8 else "matmul_float16_float32"
    name = "gemm_persistent_bf16_ragged" if persistent else name
    args = [Array(dtype, (M, K), True), Array(dtype, (K, N), True), Array(out, (M, N), True), *map(Const, tile)]
    return dataclasses.replace(runner.case_of(name), name="product", args=args, grid=(2, 1 if persistent else 2, 1),
                               inputs=inputs, reference=expected, rtol=0 if out == "float32" else 2 ** -8, atol=0)


@pytest.mark.parametrize("sm, dtype, out, tile, persistent", [
    ("sm_90", "bfloat16", "bfloat16", (256, 256, 64), True), ("sm_90", "float16", "float32", (256, 256, 64), False),
    ("sm_90", "float8_e4m3fn", "float32", (256, 256, 128), False), ("sm_120", "bfloat16", "bfloat16", (256, 256, 64), True),
    ("sm_80", "float16", "float32", (256, 256, 32), False)])
def test_parts_are_computed_in_turn(sm: str, dtype: str, out: str, tile: tuple[int, int, int], persistent: bool) -> None:
    case = product(dtype, out, tile, persistent)
    made = runner.compile_case(case, sm, 3, verify_each=True)
    assert made.entries[0].stack_bytes == 0
    assert runner.simulate_case(case, made, orders=range(5 if sm == "sm_90" else 2)).ok
