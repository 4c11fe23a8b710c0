"""Blocks that loop over tiles: the copy engine stores in pieces while the next tile is computed. In five orders, against NumPy."""
from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.kernels import runner
from tests.kernels.suite import Array, Case, Const

M, N, K = 260, 384, 192
PERSISTENT = "gemm_persistent_bf16_ragged"


def persistent(rows: int, columns: int, out: str) -> Case:
    """Small integers, so that every sum is exact in f32; what is stored of it is rounded once."""
    args = [Array("bfloat16", (M, K), True), Array("bfloat16", (K, N), True), Array(out, (M, N), True),
            Const(rows), Const(columns), Const(64)]

    def inputs(rng: np.random.Generator) -> dict[int, np.ndarray]:
        return {0: rng.integers(-3, 4, (M, K)), 1: rng.integers(-3, 4, (K, N))}

    def expected(a: np.ndarray, b: np.ndarray, *_: object) -> dict[int, np.ndarray]:
        return {2: (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)}
    return dataclasses.replace(runner.case_of(PERSISTENT), name="persistent", args=args, grid=(2, 1, 1), inputs=inputs,
                               reference=expected, rtol=0 if out == "float32" else 2 ** -8, atol=0)


@pytest.mark.parametrize("sm, rows, columns, out", [
    ("sm_100", 128, 128, "float32"), ("sm_100", 256, 128, "float32"), ("sm_100", 128, 256, "bfloat16"),
    ("sm_90", 128, 256, "bfloat16")])
def test_tiles_are_stored_in_pieces(sm: str, rows: int, columns: int, out: str) -> None:
    case = persistent(rows, columns, out)
    made = runner.compile_case(case, sm, 3, verify_each=True)
    reads, all_written = (made.ptx.count(f"cp.async.bulk.wait_group{read} \t{n};") for read, n in ((".read", 1), ("", 0)))
    panels = columns * (4 if out == "float32" else 2) // 128
    assert (reads, all_written) == (panels - 2, 1)
    verdict = runner.simulate_case(case, made)
    assert verdict.ok, verdict.detail


@pytest.mark.parametrize("sm", ["sm_90", "sm_100"])
def test_without_optimization_the_answer_is_the_same(sm: str) -> None:
    case = persistent(128, 128, "float32")
    verdict = runner.simulate_case(case, runner.compile_case(case, sm, 0))
    assert verdict.ok, verdict.detail


@pytest.mark.parametrize("warps", [4, 8, 16])
def test_rows_beyond_a_warpgroups_are_another_ones(warps: int) -> None:
    """Of 256 rows the second 128 are the second warpgroup's, where there is one, whatever pieces are loaded."""
    case = persistent(256, 128, "float32")
    made = runner.compile_case(case, "sm_100", 3, verify_each=True, hints={"num_worker_warps_per_cta": warps})
    assert "tcgen05.mma" in made.ptx
    verdict = runner.simulate_case(case, made)
    assert verdict.ok, verdict.detail
