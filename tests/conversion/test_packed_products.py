"""Block-scaled products of 4-bit elements by mma.sync: two of them stay in a byte from memory to the instruction."""
from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.conversion.scaled_products import ScaledProduct
from tests.seldom import seldom

MXFP4, NVFP4 = ScaledProduct("e2m1", "ue8m0", 32, (128, 128, 128)), ScaledProduct("e2m1", "ue4m3", 16, (128, 64, 128))
KINDS = {"mxf4.block_scale.scale_vec::2X": MXFP4, "mxf4nvf4.block_scale.scale_vec::4X": NVFP4}
MMA = "mma.sync.aligned.m16n8k64.row.col.kind::"
SERIAL = "pipelines,tma,agents"


def compiled(p: ScaledProduct, gpu: str = "sm_120", **options: Any) -> str:
    return p.compiled(gpu, verify_each=True, **options).ptx


def multiplies(p: ScaledProduct, seeds: int = 1, **options: Any) -> str:
    """The PTX, which multiplies 4-bit elements and gives what NumPy does."""
    ptx = compiled(p, **options)
    assert MMA in ptx and ptx.count("mma.sync") == ptx.count(MMA)
    for seed in range(seeds):
        np.testing.assert_array_equal(p.simulated(ptx, seed), p.expected())
    return ptx


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("without", seldom(["", "agents", "tma", SERIAL], 2))
def test_bytes_are_never_parted(kind: str, without: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEIRAS_WITHOUT", without)
    ptx = multiplies(replace(KINDS[kind], steps=5), seeds=5)
    assert kind in ptx and "ldmatrix.sync.aligned.m8n8.x4" in ptx
    assert ("cp.async.bulk.tensor" in ptx) == ("tma" not in without)
    assert not any(f".shared.{width}" in ptx for width in ("b8", "u8"))


@pytest.mark.parametrize("p", KINDS.values(), ids=str)
@pytest.mark.parametrize("steps", seldom([0, 7, 1, 2], 2))
def test_the_load_agent_copies_scales_too(p: ScaledProduct, steps: int) -> None:
    """So that no barrier of all warps stands between two steps' products."""
    p = replace(p, tile=(128, 128, 256), steps=steps)
    ptx = multiplies(p, seeds=5)
    assert ".reqntid 288" in ptx and "cp.async.mbarrier.arrive.noinc" in ptx
    behind = ptx[ptx.index(MMA):].splitlines()
    assert not any(line.lstrip().startswith(("bar.sync", "barrier.sync", "cp.async.wait_group")) for line in behind)


@pytest.mark.parametrize("tile", [(128, 128, 128), (128, 8, 128), (16, 64, 128), (64, 128, 256)], ids=str)
@pytest.mark.parametrize("aligned", [True, False])
def test_it_copies_words_of_scales_for_elements_of_bytes(tile: tuple[int, int, int], aligned: bool) -> None:
    """Of 128 rows, fewer words than there are threads that compute; of few rows a thread loads what it multiplies."""
    p = ScaledProduct("e4m3", "ue8m0", 32, tile, steps=7, aligned=aligned)
    ptx = compiled(p)
    copied = aligned and min(tile[:2]) >= 64
    assert ("cp.async.mbarrier.arrive.noinc" in ptx) == copied and "kind::mxf8f6f4" in ptx
    for seed in range(5):
        np.testing.assert_array_equal(p.simulated(ptx, seed), p.expected())


WIDE = [replace(MXFP4, tile=(256, 128, 256), steps=5), ScaledProduct("e4m3", "ue8m0", 32, (256, 128, 128), steps=5)]


@pytest.mark.parametrize("p", WIDE, ids=str)
def test_the_load_agent_lends_registers_for_wide_tiles(p: ScaledProduct) -> None:
    """Eight warps have 128 sums a thread; the one that loads is padded to four."""
    made = p.compiled("sm_120", verify_each=True)
    assert ".reqntid 384" in made.ptx and "setmaxnreg.inc" in made.ptx and "setmaxnreg.dec" in made.ptx
    assert "cp.async.mbarrier.arrive.noinc" in made.ptx
    for seed in range(5):
        np.testing.assert_array_equal(p.simulated(made.ptx, seed), p.expected())


@pytest.mark.parametrize("p", KINDS.values(), ids=str)
def test_unoptimized_code_parts_them(p: ScaledProduct) -> None:
    ptx = multiplies(p, opt_level=0)
    assert "ldmatrix" not in ptx


SIZES = [(128, 8, 64), (64, 128, 64), (16, 8, 64), (256, 128, 64), (128, 256, 64), (32, 32, 256), (16, 256, 128), (256, 256, 128)]


@pytest.mark.parametrize("size", seldom(SIZES, 4, of_one=True), ids=str)
@pytest.mark.parametrize("p", KINDS.values(), ids=str)
def test_every_size(p: ScaledProduct, size: tuple[int, int, int]) -> None:
    multiplies(replace(p, tile=size))


@pytest.mark.parametrize("change", [{"aligned": False}, {"start": 3}, {"steps": 0, "start": 5}, {"steps": 1}, {"steps": 7},
                                    {"from_registers": True}, {"from_registers": True, "b_order": "kn"},
                                    {"batch": 2, "tile": (32, 64, 64)}, {"scales_along_n": True}], ids=str)
@pytest.mark.parametrize("p", KINDS.values(), ids=str)
def test_variations(p: ScaledProduct, change: dict[str, Any]) -> None:
    multiplies(replace(p, **change), seeds=2)


@pytest.mark.parametrize("tile", [(128, 64, 64), (64, 64, 128), (16, 256, 64)], ids=str)
@pytest.mark.parametrize("without", seldom(["", SERIAL]))
def test_scales_may_be_negative(tile: tuple[int, int, int], without: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEIRAS_WITHOUT", without)
    multiplies(replace(NVFP4, tile=tile, signed=True))


@pytest.mark.parametrize("p", KINDS.values(), ids=str)
def test_its_kin(p: ScaledProduct) -> None:
    multiplies(p, gpu="sm_121")


def test_other_blocks_and_eight_bits_do_without() -> None:
    for p in (replace(NVFP4, scale="ue8m0"), ScaledProduct("e4m3", "ue8m0", 32, (64, 64, 64))):
        ptx = compiled(p)
        assert MMA not in ptx
        np.testing.assert_array_equal(p.simulated(ptx), p.expected())
