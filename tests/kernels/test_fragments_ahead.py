"""Loops over the tiles of few blocks whose products read their fragments an iteration ahead. In five orders, against NumPy."""
from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

from tests.kernels import runner
from tests.kernels.suite import Array, Case, Const
from tileiras.sim import SimulationError

M, N = 96, 160


def persistent(dtype: str, tile: tuple[int, int, int], depth: int, blocks: int = 3) -> Case:
    """Small integers, so that every sum is exact in f32."""
    def inputs(rng: np.random.Generator) -> dict[int, np.ndarray]:
        return {0: rng.integers(-3, 4, (M, depth)), 1: rng.integers(-3, 4, (depth, N))}

    def expected(a: np.ndarray, b: np.ndarray, *_: object) -> dict[int, np.ndarray]:
        return {2: (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)}
    args = [Array(dtype, (M, depth), True), Array(dtype, (depth, N), True), Array("float32", (M, N), True), *map(Const, tile)]
    return dataclasses.replace(runner.case_of("gemm_persistent_bf16_ragged"), name="persistent", args=args, grid=(blocks, 1, 1),
                               inputs=inputs, reference=expected, rtol=0, atol=0)


@pytest.mark.parametrize("dtype, tile, depth", [
    ("float16", (64, 64, 32), 160), ("bfloat16", (64, 64, 32), 32), ("bfloat16", (32, 64, 64), 144),
    ("float8_e4m3fn", (64, 64, 64), 208), ("bfloat16", (16, 64, 32), 64)])
def test_a_product_reads_ahead(dtype: str, tile: tuple[int, int, int], depth: int) -> None:
    case = persistent(dtype, tile, depth)
    made = runner.compile_case(case, "sm_120", 3, verify_each=True)
    assert made.entries[0].spill_stores == 0
    assert len(re.findall(r"mbarrier\.try_wait", made.ptx)) >= 3, "the first stage's, the loop's, the loader's"
    assert runner.simulate_case(case, made, orders=range(5)).ok


def test_without_optimization_the_answer_is_the_same() -> None:
    case = persistent("float16", (64, 64, 32), 160)
    assert runner.simulate_case(case, runner.compile_case(case, "sm_120", 0)).ok


def test_a_stage_given_back_before_it_is_read_is_caught() -> None:
    """The arrival that gives a stage back stands behind the products, which need what was read."""
    case = persistent("float16", (64, 64, 32), 320)
    made = runner.compile_case(case, "sm_120", 3)
    waits = [m.start() for m in re.finditer(r"mbarrier\.try_wait", made.ptx)]
    first = made.ptx.index("ldmatrix", waits[1])
    arrivals = list(re.finditer(r"[^\n]*mbarrier\.arrive\.[^\n]*\n", made.ptx[first:]))
    moved = arrivals[0].group(0)
    broken = made.ptx[:first] + made.ptx[first:].replace(moved, "", 1)
    line = broken.rindex("\n", 0, first) + 1
    broken = broken[:line] + moved + broken[line:]
    try:
        verdict = runner.simulate_case(case, dataclasses.replace(made, ptx=broken), orders=range(3))
    except SimulationError:
        return
    assert not verdict.ok
