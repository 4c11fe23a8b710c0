"""Aligned twins: what they promise, and a sample of them compiled, simulated in several orders and compared with NumPy.
`make coverage` runs them all."""
from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.kernels import runner, suite, twins
from tests.kernels.coverage import LEVELS
from tests.kernels.suite import COPY_BYTES, Array

SAMPLE = tuple(name + twins.SUFFIX for name in """
matmul_float16_float32 gemm_f16_f32_16x16x16 gemm_tf32_rounded_ragged gemm_u8_i32_ragged gemm_persistent_bf16_ragged
gemm_both_transposed_bf16 gemm_batched_bf16_ragged attention_d64_f16 softmax_streamed_bf16_ragged control_for_dynamic
state_space_scan_f32_ragged dequant_gemm_int8_f16_ragged layer_norm_backward_sum_parts vector_add_float32
gemm_grouped_by_table fft_256_two_factors_f32
""".split())
SIMULATED = (80, 90, 120)
BORNE = {"softmax_streamed_bf16_ragged": "deep", "reduce_sum_3d": "long", "misc_hint_occupancy": "even",
         "dequant_gemm_codebook_f16": "scaled", "control_persistent": "cut", "memory_num_tiles": "none"}


@pytest.mark.parametrize("name", SAMPLE)
def test_interpreted(name: str) -> None:
    verdict = runner.interpret_case(name)
    assert verdict.ok, verdict.detail


@pytest.mark.parametrize("name", SAMPLE)
@pytest.mark.parametrize("sm", SIMULATED)
@pytest.mark.parametrize("level", LEVELS)
def test_compiled_and_simulated(level: int, sm: int, name: str) -> None:
    verdict = runner.simulate_case(name, runner.compile_case(name, f"sm_{sm}", level, verify_each=True))
    assert verdict.ok, verdict.detail


def test_nearly_every_case_has_a_twin() -> None:
    assert len(twins.names()) >= len(runner.cases()) - 5
    assert len(set(twins.names())) == len(twins.names())


@pytest.mark.parametrize("name", SAMPLE)
def test_every_row_of_a_twin_lies_where_asynchronous_copies_want_it(name: str) -> None:
    for a, value in zip(runner.case_of(name).args, runner.launch_of(name).values):
        if isinstance(a, Array):
            assert all(stride % COPY_BYTES == 0 for stride in value.strides[:-1])
            assert value.strides[-1] == value.itemsize
            assert value.base.shape[-1] > value.shape[-1]


def test_loops_of_a_twin_run_through_several_rings() -> None:
    case = runner.cases()["gemm_f16_f32_128x256x64"]
    assert [a.shape for a in case.args if isinstance(a, Array)] == [(256, 128), (128, 256), (256, 256)]
    rest = 3 if twins.is_odd(case) else 16
    grown, cut = 5 * 64 + rest, 256 - rest              # tiles of 64 along K
    assert [a.shape for a in runner.case_of(case.name + twins.SUFFIX).args if isinstance(a, Array)] == \
        [(cut, grown), (grown, cut), (cut, cut)]


def test_some_twins_are_odd_and_some_not() -> None:
    products = [case for name, case in runner.cases().items() if name.startswith("gemm")]
    assert {twins.is_odd(case) for case in products} == {True, False}


def test_the_grid_follows_the_extents() -> None:
    name = "gemm_e4m3_fast_accumulate"                  # 128 by 128 by 128 in tiles of 64 by 128 by 64: a grid of 2 by 1
    assert runner.case_of(name).grid == (2, 1, 1)
    assert runner.case_of(name + twins.SUFFIX).grid == (6, 3, 1)        # 336 by 336, or 323


@pytest.mark.parametrize("name", BORNE)
def test_the_kind_of_a_twin_is_the_strongest_that_its_kernel_bears(name: str) -> None:
    kind, wide, _ = twins.choose(name)
    assert kind == twins.kind_of(name) == BORNE[name]
    assert wide == (name in twins.WIDE.split())


def test_inputs_are_those_of_the_case_side_by_side() -> None:
    def case(*shape: int) -> suite.Case:
        def draw(rng: np.random.Generator) -> dict[int, np.ndarray]:
            return {0: np.full(shape, rng.integers(100))}
        return dataclasses.replace(runner.cases()["vector_add_float32"], args=[Array("int32", shape)], inputs=draw)

    drawn = twins._inputs(case(2, 3), [Array("int32", (2, 7))])(np.random.default_rng(1))[0]
    first, second, third = (int(n) for n in np.random.default_rng(1).integers(100, size=3))
    assert drawn.tolist() == [[first] * 3 + [second] * 3 + [third]] * 2


def test_a_write_behind_the_end_of_a_row_fails() -> None:
    name = "vector_add_float32" + twins.SUFFIX
    launch = runner.launch_of(name)
    for i, want in launch.expected.items():
        launch.values[i][...] = want
    assert runner.judge(name, launch).ok
    output, = launch.expected
    launch.values[output].base[..., -1] = 0
    verdict = runner.judge(name, launch)
    assert not verdict.ok and "behind the end of a row" in verdict.detail
