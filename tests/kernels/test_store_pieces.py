"""Blocks that loop over tiles: the copy engine stores in pieces while the next tile is computed. In five orders, against NumPy."""
from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest

from tests.kernels import runner
from tests.kernels.suite import Array, Case, Const
from tests.seldom import seldom
from tileiras.sim import SimulationError

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


@pytest.mark.parametrize("sm, rows, columns, out", seldom([
    ("sm_90", 128, 256, "bfloat16"), ("sm_100", 128, 128, "float32"), ("sm_100", 256, 128, "float32"),
    ("sm_100", 128, 256, "bfloat16"), ("sm_100", 256, 256, "float32")], 3))
def test_tiles_are_stored_in_pieces(sm: str, rows: int, columns: int, out: str) -> None:
    case = persistent(rows, columns, out)
    made = runner.compile_case(case, sm, 3, verify_each=True)
    reads, all_written = (made.ptx.count(f"cp.async.bulk.wait_group{read} \t{n};") for read, n in ((".read", 1), ("", 0)))
    panels = columns * (4 if out == "float32" else 2) // 128
    assert (reads, all_written) == (panels - 2, 1)
    assert made.entries[0].spill_stores == 0
    verdict = runner.simulate_case(case, made)
    assert verdict.ok, verdict.detail


@pytest.mark.parametrize("sm", ["sm_90", "sm_100"])
def test_without_optimization_the_answer_is_the_same(sm: str) -> None:
    case = persistent(128, 128, "float32")
    verdict = runner.simulate_case(case, runner.compile_case(case, sm, 0))
    assert verdict.ok, verdict.detail


@pytest.mark.parametrize("warps", seldom([8, 4, 16]))
def test_rows_beyond_a_warpgroups_are_another_ones(warps: int) -> None:
    """Of 256 rows the second 128 are the second warpgroup's, where there is one, whatever pieces are loaded."""
    case = persistent(256, 128, "float32")
    made = runner.compile_case(case, "sm_100", 3, verify_each=True, hints={"num_worker_warps_per_cta": warps})
    assert "tcgen05.mma" in made.ptx
    verdict = runner.simulate_case(case, made)
    assert verdict.ok, verdict.detail


@pytest.mark.parametrize("rows, columns, ctas", seldom([(256, 128, 2), (512, 256, 4), (256, 256, 2), (512, 256, 2)], 2))
def test_pairs_of_ctas_go_on_from_tile_to_tile(rows: int, columns: int, ctas: int) -> None:
    """The thread that begins both CTAs' products waits until the threads of both have read an accumulator's last sums."""
    case = persistent(rows, columns, "float32")
    made = runner.compile_case(case, "sm_100", 3, verify_each=True, hints={"num_cta_in_cga": ctas})
    assert "tcgen05.mma.cta_group::2" in made.ptx and "tcgen05.mma.cta_group::1" not in made.ptx
    assert ".reqntid 192" in made.ptx       # four warps that read sums, one that loads, one that begins products
    verdict = runner.simulate_case(case, made, orders=range(5))
    assert verdict.ok, verdict.detail


@pytest.mark.parametrize("rows, columns, ctas, out", [(256, 128, 2, "float32"), (256, 256, 4, "bfloat16")])
def test_clusters_go_on_from_tile_to_tile_without_meeting(rows: int, columns: int, ctas: int, out: str) -> None:
    """Each CTA's load agent is ahead of its products, across tiles too, and loads parts for the others."""
    case = persistent(rows, columns, out)
    made = runner.compile_case(case, "sm_90", 3, verify_each=True, hints={"num_cta_in_cga": ctas})
    assert ".reqntid 288" in made.ptx and ".multicast::cluster" in made.ptx and "wgmma.mma_async" in made.ptx
    assert made.entries[0].stack_bytes == 0
    verdict = runner.simulate_case(case, made, orders=range(5))
    assert verdict.ok, verdict.detail


@pytest.mark.parametrize("rows, columns, out", seldom([(128, 256, "float32"), (128, 128, "float32"), (128, 256, "bfloat16")]))
def test_blocks_that_go_on_by_the_number_of_programs_are_shared_also_in_small_parts(rows: int, columns: int, out: str) -> None:
    """They are launched by half as many clusters as there are SMs: where a cluster doesn't share, half of the SMs are idle. Of 256
    columns its CTAs multiply together."""
    case = persistent(rows, columns, out)
    made = runner.compile_case(case, "sm_100", 3, verify_each=True, hints={"num_cta_in_cga": 2})
    assert ".reqnctapercluster 2" in made.ptx and f"tcgen05.mma.cta_group::{2 if columns == 256 else 1}" in made.ptx
    verdict = runner.simulate_case(case, made, orders=range(5))
    assert verdict.ok, verdict.detail
    verdict = runner.simulate_case(case, runner.compile_case(case, "sm_100", 0, hints={"num_cta_in_cga": 2}))
    assert verdict.ok, verdict.detail


def test_ctas_that_load_for_each_other_have_a_warp_for_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEIRAS_WITHOUT", "pairs")
    case = persistent(256, 256, "float32")
    made = runner.compile_case(case, "sm_100", 3, verify_each=True, hints={"num_cta_in_cga": 2})
    assert "tcgen05.mma.cta_group::1" in made.ptx and ".multicast::cluster" in made.ptx and ".reqntid 192" in made.ptx
    verdict = runner.simulate_case(case, made, orders=range(5))
    assert verdict.ok, verdict.detail


@pytest.mark.parametrize("old, new", [
    (r"(mov\.b32\s+%r\d+), 8;(\s+mbarrier\.init)", r"\1, 4;\2"), (r"@%p\d+ mbarrier\.arrive\.shared::cluster\.b64 _, .*", "")],
    ids=["waits for the readers of one CTA", "nobody says that sums are read"])
def test_pairs_whose_readers_are_not_waited_for_are_caught(old: str, new: str) -> None:
    case = persistent(256, 128, "float32")
    made = runner.compile_case(case, "sm_100", 3, hints={"num_cta_in_cga": 2})
    broken, found = re.subn(old, new, made.ptx)
    assert found == 1
    try:
        verdict = runner.simulate_case(case, dataclasses.replace(made, ptx=broken), orders=range(3))
    except SimulationError:
        return
    assert not verdict.ok
