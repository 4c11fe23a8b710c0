"""Attention by tcgen05: both products, the weights in tensor memory between them, under five orders of what runs by itself."""
from __future__ import annotations

import re

import numpy as np
import pytest

from tests.conversion.attentions import Attention
from tileiras.machine.targets import find_target

SPLIT = [(128, 64, 64, 1), (128, 64, 64, 3), (256, 128, 64, 2), (128, 128, 128, 2)]
"""Queries, keys, features; tiles of the first of two loops. The second may have none."""
SHAPES = [(128, 128, 64), (128, 128, 128), (64, 64, 64), (64, 32, 64), (256, 64, 64), (256, 128, 64)]
AHEAD = [(128, 64, 256), (64, 64, 256), (128, 32, 256), (128, 64, 128)]
"""Queries, keys, features of blocks that have an SM each, or whose products take long."""
APART = [(128, 128, 64), (64, 32, 64), (256, 128, 64), (128, 64, 128)]
"""Queries, keys, features of blocks whose tensor memory has room for scores, weights and sums beside one another."""
SCORES = r"tcgen05\.mma\.\S+ \[%r\d+\], %rd\d+, %rd\d+"
"""A product whose first operand a matrix descriptor names."""
VALUES = r"tcgen05\.mma\.\S+ \[%r\d+\], \[%r\d+\], %rd\d+"
"""One whose first operand lies in tensor memory."""
SERIAL = "pipelines,tma,agents"


def agrees(a: Attention, ptx: str, seed: int = 0) -> None:
    np.testing.assert_allclose(a.simulated(ptx, seed), a.expected(), rtol=0, atol=a.tolerance)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_weights_go_from_product_to_product_in_tensor_memory(kind: str, shape: tuple[int, int, int]) -> None:
    a = Attention(kind, *shape)
    ptx = a.compiled(verify_each=True).ptx
    steps = a.features // 16 * (a.queries // min(a.queries, 128)), a.keys // 16 * (a.queries // min(a.queries, 128))
    times = 2 if shape in APART else 1      # those of the first tile by themselves
    assert (len(re.findall(SCORES, ptx)), len(re.findall(VALUES, ptx))) == (times * steps[0], steps[1])
    assert "mma.sync" not in ptx
    agrees(a, ptx)


@pytest.mark.parametrize("rise", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_what_runs_by_itself_changes_nothing(seed: int, rise: bool) -> None:
    a = Attention("f16", 128, 64, 64, steps=5, rise=rise)
    ptx = a.compiled().ptx
    assert "vote.sync.any" in ptx       # whether anything is rescaled
    agrees(a, ptx, seed)


@pytest.mark.parametrize("seed", range(5))
def test_threads_with_few_registers_rescale_few_columns_at_a_time(seed: int) -> None:
    """Two warpgroups of 64 columns, two blocks an SM: there is no room for 32 columns beside a row's weights."""
    a = Attention("bf16", 256, 64, 64, steps=5, rise=True)
    made = a.compiled()
    assert "setmaxnreg.inc" in made.ptx and "vote.sync.any" in made.ptx
    assert re.search(r"tcgen05\.ld\S+x16\.", made.ptx) and re.search(r"tcgen05\.st\S+x16\.", made.ptx)
    assert made.entries[0].spill_stores <= 64
    agrees(a, made.ptx, seed)


@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("shape", [(128, 64, 64), (64, 64, 64)], ids=str)
def test_few_tiles(shape: tuple[int, int, int], steps: int) -> None:
    a = Attention("f16", *shape, steps=steps)
    agrees(a, a.compiled(verify_each=True).ptx)


@pytest.mark.parametrize("without", ["agents", "tma", "pipelines", SERIAL, "tcgen05"])
def test_with_parts_switched_off(without: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEIRAS_WITHOUT", without)
    a = Attention("f16", 128, 64, 64)
    ptx = a.compiled(verify_each=True).ptx
    assert bool(re.search(VALUES, ptx)) == (without != "tcgen05")
    agrees(a, ptx)


@pytest.mark.parametrize("gpu", ["sm_103", "sm_110"])
def test_its_kin(gpu: str) -> None:
    a = Attention("bf16", 128, 128, 64)
    ptx = a.compiled(gpu).ptx
    assert re.search(VALUES, ptx)
    agrees(a, ptx)


def test_rows_need_no_exchange_between_threads() -> None:
    """A thread holds whole rows: the one shuffle is that of the warp's number."""
    assert Attention("f16", 128, 128, 64).compiled().ptx.count("shfl.sync") == 1


def test_two_blocks_share_an_sm() -> None:
    """While one's threads have the scores between them, the other's products run; agents' registers make room for both."""
    ptx = Attention("f16", 128, 128, 64).compiled().ptx
    assert ".maxnreg 128" in ptx and "setmaxnreg.inc" in ptx
    assert ".maxnreg" not in Attention("f16", 64, 64, 64).compiled().ptx


@pytest.mark.parametrize("case", SPLIT, ids=str)
def test_two_loops_have_tensor_memory_and_rings_in_turn(case: tuple[int, int, int, int]) -> None:
    """Those that an attention kernel has whose source parts masked tiles from the others: one ring of keys, one of values."""
    queries, keys, features, first = case
    a = Attention("bf16", queries, keys, features, first=first)
    module = a.compiled(verify_each=True)
    ptx = module.ptx
    each, found = a.keys // 16 * (a.queries // 128), len(re.findall(VALUES, ptx))
    assert found >= 2 * each and found % each == 0      # LLVM repeats one of them, maybe
    assert "mma.sync" not in ptx
    pipes = re.findall(r'"nv_tileas.create_pipeline"\(\) <\{([^}]*)\}> : \(\) -> !nv_tileas.pipe<"tma"', module.ir("nv_tileas"))
    assert len([pipe for pipe in pipes if "once" not in pipe]) == 2
    agrees(a, ptx)


@pytest.mark.parametrize("seed", range(1, 5))
def test_two_loops_in_any_order_of_what_runs_by_itself(seed: int) -> None:
    a = Attention("f16", 128, 64, 64, first=1)
    agrees(a, a.compiled().ptx, seed)


def test_two_warpgroups_take_the_load_agents_registers() -> None:
    """A thread has a row of 128 scores: with the registers of the launch it would spill."""
    ptx = Attention("f16", 256, 128, 64).compiled().ptx
    assert ".maxnreg 168" in ptx
    assert re.search(r"setmaxnreg\.inc\S* \t?232", ptx) and re.search(r"setmaxnreg\.dec\S* \t?40", ptx)     # descriptors' room


@pytest.mark.parametrize("shape", AHEAD, ids=str)
@pytest.mark.parametrize("seed", range(5))
def test_scores_run_ahead_in_any_order(shape: tuple[int, int, int], seed: int) -> None:
    a = Attention("f16", *shape, steps=4, rise=seed % 2 == 0)
    ptx = compiled_ahead(a)
    steps = a.features // 16
    assert len(re.findall(SCORES, ptx)) == 2 * steps      # in front of the loop and in it
    assert len(re.findall(VALUES, ptx)) == a.keys // 16 and "mma.sync" not in ptx
    agrees(a, ptx, seed)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_scores_of_few_tiles_run_ahead(steps: int) -> None:
    a = Attention("bf16", 128, 64, 256, steps=steps)
    agrees(a, compiled_ahead(a), steps)


@pytest.mark.parametrize("steps", [1, 3])
def test_scores_of_two_loops_run_ahead(steps: int) -> None:
    """The first loop has one tile, so that nothing comes behind its product, the second none or two."""
    a = Attention("f16", 128, 64, 256, steps=steps, first=1)
    ptx = compiled_ahead(a)
    assert len(re.findall(SCORES, ptx)) == 3 * (a.features // 16)
    agrees(a, ptx, steps)


def test_no_tiles_at_all() -> None:
    """Nothing is waited for that nothing has begun: zeros over zeros."""
    a = Attention("f16", 128, 64, 256, steps=0)
    assert np.isnan(a.simulated(compiled_ahead(a))).all()


def test_several_blocks_do_without() -> None:
    a = Attention("f16", 128, 64, 64)
    assert len(re.findall(SCORES, a.compiled().ptx)) == a.features // 16


def test_products_that_take_long_run_ahead_beside_another_block() -> None:
    a = Attention("bf16", 128, 64, 128)
    module = a.compiled(verify_each=True)
    assert len(re.findall(SCORES, module.ptx)) == 2 * a.features // 16
    assert 2 * module.entries[0].shared_bytes < find_target("sm_100").smem_per_sm
    agrees(a, module.ptx)


def compiled_ahead(a: Attention) -> str:
    return str(a.compiled(verify_each=True).ptx)


@pytest.mark.parametrize("first", [None, 1])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("shape", APART, ids=str)
def test_a_warp_of_its_own_begins_both_products(shape: tuple[int, int, int], seed: int, first: int | None) -> None:
    """Of one loop, and of two, unless these need their rings in turn."""
    a = Attention("bf16", *shape, steps=4, rise=seed % 2 == 0, first=first)
    module = a.compiled()
    assert first is not None or "told" in module.ir("nv_tileas")
    agrees(a, module.ptx, seed)
