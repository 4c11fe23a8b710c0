"""Attention of 256 rows on sm_100 and its kin: two agents have the rows between them, each with products of its own."""
from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import numpy as np
import pytest

from tests.conversion.attentions import Attention
from tests.conversion.test_tcgen05_attention import SCORES, VALUES, agrees
from tests.kernels import runner
from tests.kernels.suite import Array, Case, Const, Scalar
from tests.seldom import seldom
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target
from tileiras.pipeline import run

SHAPES = [(64, 64), (128, 64), (64, 128), (128, 128)]
"""Keys of a tile, features."""
APART = [(128, 64), (64, 128)]
"""Those whose scores, weights and sums tensor memory holds beside one another, with registers for a warp that begins products."""
ROWS = 256


def is_in_chains(ptx: str) -> bool:
    """Whether two agents of the block have accumulators: each its own columns, or, where warps of their own begin products, which
    they and these know, a barrier of its own beside that of the block."""
    return len(re.findall(r"tcgen05\.alloc", ptx)) == 2 or set(re.findall(r"bar\.sync \t?(\d), 128", ptx)) == {"1", "2"}


@pytest.mark.parametrize("kind", seldom(["f16", "bf16"]))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_two_agents_multiply_what_one_warp_loads(kind: str, shape: tuple[int, int]) -> None:
    keys, features = shape
    a = Attention(kind, ROWS, keys, features)
    made = a.compiled(verify_each=True)
    assert is_in_chains(made.ptx)
    times = 2 if shape in APART else 1      # the first tile's by themselves
    assert len(re.findall(SCORES, made.ptx)) == times * 2 * features // 16
    assert len(re.findall(VALUES, made.ptx)) == 2 * keys // 16
    assert made.entries[0].spill_stores <= 64
    agrees(a, made.ptx)


def test_the_right_to_ask_for_columns_is_given_up_behind_the_last() -> None:
    """Another block may then ask for its own."""
    ptx = Attention("f16", ROWS, 64, 64).compiled().ptx
    assert re.findall(r"tcgen05\.(alloc|relinquish|dealloc)", ptx) == ["alloc", "alloc", "relinquish", "dealloc", "dealloc"]


@pytest.mark.parametrize("rise", [True, False])
@pytest.mark.parametrize("seed", seldom(range(1, 5)))
def test_any_order_of_what_runs_by_itself(seed: int, rise: bool) -> None:
    a = Attention("f16", ROWS, 64, 64, steps=5, rise=rise)
    agrees(a, a.compiled().ptx, seed)


@pytest.mark.parametrize("steps", [1, 2])
def test_few_tiles(steps: int) -> None:
    a = Attention("f16", ROWS, 64, 64, steps=steps)
    agrees(a, a.compiled(verify_each=True).ptx)


@pytest.mark.parametrize("seed", seldom(range(5), 2))
def test_two_loops(seed: int) -> None:
    a = Attention("bf16", ROWS, 64, 64, first=1)
    ptx = a.compiled().ptx
    assert is_in_chains(ptx)
    agrees(a, ptx, seed)


@pytest.mark.parametrize("gpu", ["sm_103", "sm_110"])
def test_its_kin(gpu: str) -> None:
    a = Attention("bf16", ROWS, 64, 128)
    ptx = a.compiled(gpu).ptx
    assert is_in_chains(ptx)
    agrees(a, ptx)


def test_as_without_optimization() -> None:
    a = Attention("f16", ROWS, 64, 64)
    agrees(a, a.compiled(opt_level=0).ptx)


@pytest.mark.parametrize("without", ["agents", "tma", "pipelines", "tcgen05"])
def test_with_parts_switched_off_the_rows_stay_together(without: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEIRAS_WITHOUT", without)
    assert not is_in_chains(Attention("f16", ROWS, 64, 64).compiled().ptx)


@pytest.mark.parametrize("shape", [(ROWS, 64, 256), (512, 64, 64), (128, 64, 64)], ids=str)
def test_what_has_no_room_or_other_rows_stays_together(shape: tuple[int, int, int]) -> None:
    """Scores and sums of 256 features for two chains are more columns than an SM has."""
    assert not is_in_chains(Attention("f16", *shape).compiled().ptx)


@pytest.mark.parametrize("seed", seldom(range(1, 5), 2))
def test_results_that_take_the_queries_place(seed: int) -> None:
    """Of f32, 128 features: half of the first agent's lie where its queries were, else shared memory would be too small."""
    a = Attention("bf16", ROWS, 128, 128, steps=4, rise=seed % 2 == 0)
    made = a.compiled()
    assert is_in_chains(made.ptx)
    assert made.entries[0].spill_stores == 0
    agrees(a, made.ptx, seed)


@pytest.mark.parametrize(("shape", "asked", "said"), [
    ((128, 128), 2, "Hint occupancy = 2 is more than an SM holds"), ((64, 64), 2, None),
    ((64, 64), 4, "Hint occupancy = 4 is more than an SM holds")], ids=str)
def test_blocks_that_tensor_memory_does_not_hold_are_not_asked_for(shape: tuple[int, int], asked: int, said: str | None) -> None:
    """Of 128 keys and features two blocks would want 1,024 columns, of 64 all 512: two blocks of two chains each."""
    a = Attention("f16", ROWS, *shape, steps=3)
    made = a.compiled(hints={"occupancy": asked})
    assert is_in_chains(made.ptx) and made.entries[0].spill_stores <= 64
    options = CompileOptions(find_target("sm_100"), 3, remarks=[])
    run(parse_module(a.text.replace(") {", f") optimization_hints=<default = {{occupancy = {asked}}}> {{", 1)), options)
    assert [r.text for r in options.remarks or [] if "more than an SM" in r.text] == ([said] if said else [])
    agrees(a, made.ptx)


def test_two_loops_of_such_stay_together() -> None:
    assert not is_in_chains(Attention("f16", ROWS, 128, 128, first=1).compiled().ptx)


def case(name: str, dtype: str, heads: int, rows: int, keys: int, features: int, tile: tuple[int, int], group: int = 1,
         causal: bool = False) -> Case:
    """The suite's attention with such sizes, aligned."""
    queries, key_heads = (heads, rows, features), (heads // group, keys, features)
    args: list[Any] = [Array(dtype, queries), Array(dtype, key_heads), Array(dtype, key_heads), Array(dtype, queries),
                       Array("float32", (heads, rows)), Scalar("float32", 1 / math.sqrt(features)), Const(tile[0]), Const(tile[1]),
                       Const(features), Const(group), Const(causal)]
    tolerance = 2e-3 if dtype == "float16" else 2e-2
    return dataclasses.replace(
        runner.case_of("attention_d64_f16"), name=name, args=args, grid=(heads, -(-rows // tile[0]), 1), rtol=tolerance,
        atol=tolerance, inputs=lambda rng: {0: rng.standard_normal(queries), 1: rng.standard_normal(key_heads),
                                            2: rng.standard_normal(key_heads)})


CASES = [
    case("chains_causal_f16", "float16", 1, 512, 512, 64, (256, 64), causal=True),
    case("chains_causal_ragged_bf16", "bfloat16", 1, 304, 304, 64, (256, 128), causal=True),
    case("chains_ragged_f16", "float16", 1, 264, 200, 64, (256, 64)),
    case("chains_grouped_f16", "float16", 4, 256, 128, 64, (256, 64), group=4),
    case("chains_d128_causal_f16", "float16", 1, 256, 256, 128, (256, 128), causal=True),
]


@pytest.mark.parametrize("of", CASES, ids=lambda c: c.name)
def test_masks_groups_and_sizes_that_tiles_do_not_divide(of: Case) -> None:
    made = runner.compile_case(of, "sm_100")
    assert is_in_chains(made.ptx)
    assert (verdict := runner.simulate_case(of, made)).ok, verdict.detail


def test_two_blocks_share_an_sm_where_scores_are_few() -> None:
    """Of 64 keys a thread has a row of 64 scores, which a half of what one block's threads may have holds."""
    made = runner.compile_case(case("chains_small", "float16", 1, 256, 4096, 64, (256, 64)), "sm_100")
    assert is_in_chains(made.ptx)
    entry, sm = made.entries[0], find_target("sm_100")
    assert 2 * entry.threads * entry.registers <= sm.registers_per_sm
    assert 2 * (entry.shared_bytes + 1024) <= 228 * 1024
    assert entry.spill_stores <= 64
    assert re.findall(r"setmaxnreg\.\w+\S+ \t?(\d+)", made.ptx) == ["104", "104", "32"]


def test_a_window_with_capped_scores() -> None:
    shape = (1, 512, 64)
    args: list[Any] = [Array("bfloat16", shape)] * 4 + [Scalar("float32", 0.125), Scalar("float32", 2.0), Const(100), Const(256),
                                                       Const(64), Const(64)]
    of = dataclasses.replace(runner.case_of("attention_window_softcap_bf16"), name="chains_window", args=args, grid=(1, 2, 1),
                             inputs=lambda rng: {i: rng.standard_normal(shape) for i in range(3)})
    made = runner.compile_case(of, "sm_100")
    assert is_in_chains(made.ptx)
    verdict = runner.simulate_case(of, made, orders=(0, 1))
    assert verdict.ok, verdict.detail


def test_queries_of_two_blocks_lie_where_they_should() -> None:
    """Each chain loads and stores its own rows: equal queries give equal rows wherever they stand."""
    of = case("chains_equal", "float16", 1, 512, 64, 64, (256, 64))
    launch = runner.launch_of(of)
    queries: np.ndarray = launch.values[0]
    queries[:] = queries[0, 0]
    from tileiras.sim import simulate
    simulate(runner.compile_case(of, "sm_100").ptx, kernel=of.name, grid=of.grid, args=launch.flat)
    out: np.ndarray = launch.values[3]
    assert (out == out[0, 0]).all()


@pytest.mark.parametrize("seed", seldom(range(5), 2))
def test_without_an_agent_for_each_the_block_goes_through_both(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the rings turn out not to fit, say."""
    from tileiras.transforms import materialize_schedule
    monkeypatch.setattr(materialize_schedule, "_is_filled_in_loop", lambda _: False)
    a = Attention("f16", ROWS, 64, 64)
    ptx = a.compiled(verify_each=True).ptx
    assert ".reqntid 128" in ptx and "cp.async.bulk" in ptx
    agrees(a, ptx, seed)
