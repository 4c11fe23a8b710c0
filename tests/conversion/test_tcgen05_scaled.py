"""Block-scaled products into tensor memory: every kind and size, from the program to results; where they aren't used."""
from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.conversion.scaled_products import ScaledProduct
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target

MMA, COPY = "tcgen05.mma.cta_group::1.kind::", "tcgen05.cp.cta_group::1.32x128b.warpx4"
SERIAL = "pipelines,tma,agents"
MXFP8, MXFP4 = ScaledProduct("e4m3", "ue8m0", 32, (128, 64, 64)), ScaledProduct("e2m1", "ue8m0", 32, (128, 64, 128))
NVFP4 = ScaledProduct("e2m1", "ue4m3", 16, (128, 64, 128))
KINDS = {"mxf8f6f4.block_scale.block32": (MXFP8, replace(MXFP8, element="e5m2")), "mxf4.block_scale.block32": (MXFP4,),
         "mxf4nvf4.block_scale.block16": (NVFP4, replace(NVFP4, scale="ue8m0"))}
ALL = [(p, kind) for kind, products in KINDS.items() for p in products]


def compiled(p: ScaledProduct, gpu: str = "sm_100", **options: Any) -> str:
    return p.compiled(gpu, verify_each=True, **options).ptx


def multiplies(p: ScaledProduct, count: int | None = None, seed: int = 0) -> str:
    """The PTX at -O3, which multiplies by tcgen05 and gives what NumPy does."""
    ptx = compiled(p)
    assert MMA in ptx and "mma.sync" not in ptx
    assert count is None or ptx.count(MMA) == count
    np.testing.assert_array_equal(p.simulated(ptx, seed), p.expected())
    return ptx


@pytest.mark.parametrize("p, kind", ALL, ids=str)
@pytest.mark.parametrize("without", ["", "agents", SERIAL])
def test_every_kind(p: ScaledProduct, kind: str, without: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEIRAS_WITHOUT", without)
    ptx = multiplies(p)
    assert ptx.count(MMA + kind) == ptx.count(MMA) and COPY in ptx
    for seed in (1, 2, 3, 4):
        np.testing.assert_array_equal(p.simulated(ptx, seed), p.expected())


@pytest.mark.parametrize("p, kind", ALL[::2], ids=str)
def test_unoptimized_code_multiplies_widened_elements(p: ScaledProduct, kind: str) -> None:
    ptx = compiled(p, opt_level=0)
    assert "tcgen05" not in ptx
    np.testing.assert_array_equal(p.simulated(ptx), p.expected())


SIZES = [(128, 8, 64), (64, 128, 64), (64, 64, 64), (256, 128, 128), (128, 256, 64), (32, 128, 64), (64, 16, 128), (32, 64, 64),
         (16, 256, 64), (128, 32, 256)]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("p", [MXFP8, NVFP4], ids=str)
def test_every_size(p: ScaledProduct, size: tuple[int, int, int]) -> None:
    """Less than 128 rows are columns where that is more, or else padded."""
    m, n, k = size
    rows, columns = (n, m) if m < 128 and n > m else (m, n)
    each = 64 if p.element == "e2m1" else 32
    multiplies(replace(p, tile=size), count=k // each * max(1, rows // 128) * max(1, columns // 256))


@pytest.mark.parametrize("k", [32, 64, 128, 512])
def test_scales_of_a_step_in_part_of_a_word_and_in_several(k: int) -> None:
    multiplies(replace(MXFP8, tile=(128, 16, k)))


@pytest.mark.parametrize("order", ["mk kn", "km kn", "km nk"])
@pytest.mark.parametrize("m, n", [(128, 64), (64, 64), (128, 8)])
def test_bytes_may_lie_along_rows_or_columns(order: str, m: int, n: int) -> None:
    a, b = order.split()
    multiplies(replace(MXFP8, a_order=a, b_order=b, tile=(m, n, 64)))


@pytest.mark.parametrize("tile", [(128, 64, 64), (64, 64, 64), (32, 64, 64)], ids=str)
@pytest.mark.parametrize("p", [MXFP8, NVFP4], ids=str)
def test_batches(p: ScaledProduct, tile: tuple[int, int, int]) -> None:
    multiplies(replace(p, batch=2, tile=tile))


@pytest.mark.parametrize("change", [{"aligned": False}, {"start": 3}, {"steps": 0, "start": 5}, {"steps": 1}, {"steps": 7},
                                    {"warps": 8}, {"warps": 8, "tile": (64, 64, 128)}], ids=str)
@pytest.mark.parametrize("p", [MXFP8, MXFP4, NVFP4], ids=str)
def test_variations(p: ScaledProduct, change: dict[str, Any]) -> None:
    multiplies(replace(p, **change))


@pytest.mark.parametrize("steps", [1, 8, 19])
def test_scales_that_lie_along_n_are_asked_for_iterations_ahead_and_stored_by_words(steps: int) -> None:
    p = replace(MXFP8, tile=(128, 128, 128), steps=steps, scales_along_n=True)
    ptx = compiled(p)
    loaded, stored = ptx.count("ld.global.b32"), ptx.count("st.shared.b32")
    # a lane has four rows' words; eight iterations', and what they leave
    if steps % 4:
        assert loaded == stored == 4 * (8 + 1)
    else:       # rows of A's scales begin at 16 bytes: four iterations', the next four's, and what they leave, of both
        assert ptx.count("ld.global.v4.b32") == 4 * 2
        assert loaded == 4 * (4 + 4 + 2) and stored == 4 * (4 + 1)
    assert ".reqntid 192" in ptx                # of six warps one tells the copy engine, one brings scales
    for seed in range(5):
        np.testing.assert_array_equal(p.simulated(ptx, seed), p.expected())


def test_larger_tiles_of_scales_are_brought_by_as_many_warps_as_compute() -> None:
    p = replace(MXFP8, tile=(128, 256, 256), scales_along_n=True)
    ptx = compiled(p)
    assert ".reqntid 512" in ptx                # 2 KiB of them a step, and two warpgroups for 256 columns of sums
    np.testing.assert_array_equal(p.simulated(ptx), p.expected())


def remarks_of(p: ScaledProduct) -> list[Any]:
    from tileiras.bytecode import write
    from tileiras.bytecode.version import CURRENT_VERSION
    from tileiras.compiler import lower
    from tileiras.dialects.cuda_tile.asm_parse import parse_module
    options = CompileOptions(target=find_target("sm_100"), remarks=[])
    lower(write(parse_module(p.text), CURRENT_VERSION), options)
    return list(options.remarks or ())


def test_an_operand_that_is_turned_is_loaded_ahead_as_one_that_is_not() -> None:
    [found] = [dict(r.notes) for r in remarks_of(replace(MXFP8, tile=(128, 256, 128), steps=8)) if r.name == "RemarkSchedule"]
    assert found["ring"] == 4       # stages of 128 x 128 and 256 x 128 bytes, with 1.5 KiB of factors, in 227 KiB


@pytest.mark.parametrize("warps", [4, 8, 16])
def test_rows_beyond_a_warpgroups_are_another_ones(warps: int) -> None:
    multiplies(replace(MXFP8, tile=(256, 128, 128), warps=warps))


def test_sums_of_256_columns_are_two_warpgroups() -> None:
    p = replace(NVFP4, tile=(128, 256, 128), steps=3)
    ptx = compiled(p)
    assert ".reqntid 320" in ptx                # eight warps, one for the copy engine, and what is left of a warpgroup
    for seed in range(5):
        np.testing.assert_array_equal(p.simulated(ptx, seed), p.expected())


@pytest.mark.parametrize("p, warps", [(MXFP8, 16), (NVFP4, 8)], ids=str)
def test_256_rows_of_8_bit_elements_are_four_warpgroups(p: ScaledProduct, warps: int) -> None:
    from tileiras import pipeline
    from tileiras.bytecode import read, write
    from tileiras.bytecode.version import CURRENT_VERSION
    from tileiras.dialects.cuda_tile.asm_parse import parse_module
    module = read(write(parse_module(replace(p, tile=(256, 128, 128)).text), CURRENT_VERSION))
    ir: Any = pipeline.run(module, CompileOptions(find_target("sm_100")), stop_at="nv_tileas")
    [func] = [op for op in ir.walk() if op.name == "nv_tileas.func"]
    assert func.properties["num_warps"].data == warps


def test_elements_that_registers_hold_are_packed() -> None:
    ptx = multiplies(replace(NVFP4, from_registers=True))
    assert "e2m1x2" in ptx


@pytest.mark.parametrize("tile", [(128, 64, 64), (64, 64, 128), (128, 16, 256), (64, 128, 64), (128, 256, 64), (128, 8, 128)],
                         ids=str)
@pytest.mark.parametrize("without", ["", SERIAL])
@pytest.mark.parametrize("batch", [0, 2])
def test_scales_may_be_negative(tile: tuple[int, int, int], without: str, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEIRAS_WITHOUT", without)
    p = replace(NVFP4, tile=tile, signed=True, batch=batch)
    ptx = multiplies(p)
    np.testing.assert_array_equal(p.simulated(ptx, 1), p.expected())


@pytest.mark.parametrize("gpu", ["sm_103", "sm_110"])
@pytest.mark.parametrize("p, kind", ALL[::2], ids=str)
def test_its_kin(gpu: str, p: ScaledProduct, kind: str) -> None:
    ptx = compiled(p, gpu)
    assert MMA + kind in ptx
    np.testing.assert_array_equal(p.simulated(ptx), p.expected())


@pytest.mark.parametrize("tile", [(128, 64, 128), (64, 64, 64)], ids=str)
def test_scales_of_five_exponent_bits(tile: tuple[int, int, int]) -> None:
    p = replace(NVFP4, scale="ue5m3", tile=tile)
    ptx = compiled(p, "sm_107")
    assert MMA + "mxf4nvf4.block_scale.block16" in ptx
    np.testing.assert_array_equal(p.simulated(ptx), p.expected())
    assert "block_scale" not in compiled(p, "sm_100") and "block_scale" not in compiled(replace(p, block=32), "sm_107")


@pytest.mark.parametrize("p", [replace(MXFP8, tile=(32, 32, 64)), replace(NVFP4, tile=(128, 64, 32)),
                               replace(MXFP8, tile=(128, 4, 64)), replace(MXFP8, warps=2)], ids=str)
def test_small_tiles_and_few_warps_do_without(p: ScaledProduct) -> None:
    ptx = compiled(p)
    assert "block_scale" not in ptx
    np.testing.assert_array_equal(p.simulated(ptx), p.expected())


def test_the_remark_names_the_instruction() -> None:
    from tileiras.bytecode import write
    from tileiras.bytecode.version import CURRENT_VERSION
    from tileiras.compiler import lower
    from tileiras.dialects.cuda_tile.asm_parse import parse_module
    options = CompileOptions(target=find_target("sm_100"), remarks=[])
    lower(write(parse_module(replace(NVFP4, tile=(64, 64, 64)).text), CURRENT_VERSION), options)
    said = [r for r in options.remarks or () if r.name.endswith("TensorCoreMMA")]
    assert [dict(r.notes) for r in said] == [{
        "Instruction": "Tensor-core SM100", "Shape": "[64, 64, 64]",
        "Atom": "sm100.mma_bs.mxf4nvf4.m128n64k64.f32.e2m1.e2m1.4x.ue4m3.cg1.ss.r64"}]


@pytest.mark.parametrize("k, warps", [(128, 1), (256, 2)])
def test_few_warps_load_what_goes_by_copies(k: int, warps: int) -> None:
    """Scale factors of whole pieces go by cp.async to stages that the tensor core gives back: 16 copies a thread, at most."""
    p = replace(NVFP4, tile=(128, 128, k), steps=5)
    ptx = multiplies(p)
    assert f".reqntid {128 + 32 * warps}" in ptx and "cp.async.mbarrier.arrive.noinc" in ptx
    for seed in (1, 2, 3, 4):
        np.testing.assert_array_equal(p.simulated(ptx, seed), p.expected())
