"""Loads that run an iteration ahead through registers: right for every trip count, start and step, for carried addresses, for tiles
that are converted on their way and rows that aren't aligned; what the loop itself stores, or an option keeps, stays where it is."""
from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileiras
from tests.transforms.test_rings import CARRIED, COUNTED, NESTED, operands
from tests.transforms.test_rings import run as run_product
from tests.transforms.test_stage_streams import ELEMENTWISE, IN_PLACE, LENGTH, SUM, gives_sums, gives_tiles
from tileiras import pipeline
from tileiras.bytecode import write
from tileiras.codegen import compile_llvm_to_ptx
from tileiras.codegen.llvm_text import print_module
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target
from tileiras.schedule.options import ScheduleOptions
from tileiras.sim import simulate

RANGES = [(0, 0, 1), (0, 1, 1), (0, 2, 1), (0, 5, 1), (3, 12, 2), (0, 16, 3)]
UNALIGNED = SUM.replace("assume div_by<16>", "assume div_by<4>").replace(f"shape = [{LENGTH}]", f"shape = [{LENGTH - 1}]").replace(
    f"tensor_view<{LENGTH}xf32", f"tensor_view<{LENGTH - 1}xf32")
INTEGERS = "partition_view<tile=(64x64), tensor_view<64x512xi8, strides=[512,1]>>"
RIGHT = "partition_view<tile=(64x64), tensor_view<512x64xf16, strides=[64,1]>>"
OUT = "partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>"
DEQUANTIZED = f"""cuda_tile.module @m {{
  entry @product(%pa: tile<ptr<i8>>, %pb: tile<ptr<f16>>, %pc: tile<ptr<f32>>, %from: tile<i32>, %to: tile<i32>, %by: tile<i32>) {{
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %start = constant <f32: 0.0> : tile<64x64xf32>
    %qa = assume div_by<16>, %pa : tile<ptr<i8>>
    %qb = assume div_by<16>, %pb : tile<ptr<f16>>
    %wa = make_tensor_view %qa, shape = [64, 512], strides = [512, 1] : tensor_view<64x512xi8, strides=[512,1]>
    %wb = make_tensor_view %qb, shape = [512, 64], strides = [64, 1] : tensor_view<512x64xf16, strides=[64,1]>
    %wc = make_tensor_view %pc, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
    %va = make_partition_view %wa : {INTEGERS}
    %vb = make_partition_view %wb : {RIGHT}
    %vc = make_partition_view %wc : {OUT}
    %sum = for %k in (%from to %to, step %by) : tile<i32> iter_values(%acc = %start) -> (tile<64x64xf32>) {{
      %i, %ti = load_view_tko weak %va[%zero, %k] token = %t : {INTEGERS}, tile<i32> -> tile<64x64xi8>, token
      %b, %tb = load_view_tko weak %vb[%k, %zero] token = %t : {RIGHT}, tile<i32> -> tile<64x64xf16>, token
      %a = itof %i signed : tile<64x64xi8> -> tile<64x64xf16>
      %more = mmaf %a, %b, %acc : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      continue %more : tile<64x64xf32>
    }}
    %e = store_view_tko weak %sum, %vc[%zero, %zero] token = %t : tile<64x64xf32>, {OUT}, tile<i32> -> token
    return
  }}
}}
"""
ASKED = ScheduleOptions(stages=2)


def compiled(program: str, gpu: str, **wishes: Any) -> tuple[str, bool]:
    """The PTX, every pass verified, and whether a loop loads ahead into registers."""
    options = replace(CompileOptions(find_target(gpu), schedule=ASKED), **wishes)
    ir: Any = parse_module(program)
    for entry in pipeline.selected(3, "cuda_tile", "llvm"):
        ir = entry.apply(ir, options)
        pipeline.verify_after(ir, entry.name)
    return compile_llvm_to_ptx(print_module(ir), options.target, 3), options.prefetched


def sum_of_products(pairs: list[tuple[int, int]]) -> np.ndarray:
    """Of tiles of A and B at these places along k."""
    a, b = (x.astype(np.float32) for x in operands())
    return sum((a[:, 32 * i:32 * i + 32] @ b[32 * j:32 * j + 32] for i, j in pairs), np.zeros((32, 32), np.float32))


@pytest.mark.parametrize("seed", range(5))
def test_products_on_sm_75(seed: int) -> None:
    ptx, ahead = compiled(COUNTED, "sm_75")
    assert ahead
    for first, last, step in RANGES:
        assert (run_product(ptx, first, last, step, seed)[:32] == sum_of_products([(k, k) for k in range(first, last, step)])).all()


def test_carried_addresses_run_ahead_too() -> None:
    ptx, ahead = compiled(CARRIED, "sm_75")
    assert ahead
    for seed, (first, last, step) in enumerate(RANGES):
        trips = range(first, last, step)
        places = [2 * n % last for n in range(len(trips))] if last else []
        assert (run_product(ptx, first, last, step, seed)[:32] == sum_of_products(list(zip(trips, places)))).all()


def test_a_loop_in_a_loop_starts_anew() -> None:
    ptx, ahead = compiled(NESTED, "sm_75")
    assert ahead
    for seed in range(5):
        want = sum_of_products([(k, k) for k in range(7)])
        out = run_product(ptx, 0, 7, 1, seed)
        assert (out[:32] == want).all() and (out[32:] == want).all()


@pytest.mark.parametrize("gpu", ["sm_75", "sm_80", "sm_89"])
def test_integers_become_floats_on_their_way(gpu: str) -> None:
    ptx, ahead = compiled(DEQUANTIZED, gpu)
    assert ahead and ("cp.async" in ptx) == (gpu != "sm_75"), "the other operand goes by cp.async where there is that"
    rng = np.random.default_rng(3)
    a, b = rng.integers(-100, 100, (64, 512)).astype(np.int8), rng.integers(-4, 5, (512, 64)).astype(np.float16)
    for seed, (first, last, step) in enumerate([(0, 0, 1), (0, 1, 1), (0, 2, 1), (0, 8, 1), (1, 8, 3)]):
        out = np.full((64, 64), np.nan, np.float32)
        report = simulate(ptx, args=[a, b, out, np.int32(first), np.int32(last), np.int32(step)], seed=seed)
        columns = [c for k in range(first, last, step) for c in range(64 * k, 64 * k + 64)]
        assert not report.findings
        assert (out == a[:, columns].astype(np.float32) @ b[columns].astype(np.float32)).all()


@pytest.mark.parametrize("gpu", ("sm_90", "sm_100"))
def test_rows_beside_products_that_run_by_themselves(gpu: str) -> None:
    """Each iteration's sums are weighted by its own row."""
    program = (Path(__file__).parents[1] / "filecheck" / "passes" / "prefetch-beside-products.mlir").read_text()
    ptx, ahead = compiled(program, gpu)
    assert ahead and ("wgmma" if gpu == "sm_90" else "tcgen05.mma") in ptx
    rng = np.random.default_rng(5)
    a, weights = rng.integers(-4, 5, (64, 4096)).astype(np.float16), rng.integers(-8, 9, 4096).astype(np.float32)
    products = (a[:, :64].astype(np.float32) @ a.astype(np.float32)) * weights
    for seed, count in enumerate((0, 1, 2, 5)):
        out = np.full((64, 32), np.nan, np.float32)
        report = simulate(ptx, args=[a, weights, out, np.int32(count)], seed=seed)
        assert not report.findings
        assert (out == sum((products[:, 32 * i:32 * i + 32] for i in range(count)), np.zeros((64, 32), np.float32))).all()


@pytest.mark.parametrize("level", (0, 3))
def test_operands_that_threads_turn_beside_products_of_a_warpgroup(level: int) -> None:
    program = (Path(__file__).parents[1] / "filecheck" / "passes" / "prefetch-stored-at-once.mlir").read_text()
    if level:
        ptx, ahead = compiled(program, "sm_90", schedule=None)
        assert ahead and "wgmma" in ptx and "cp.async.bulk" in ptx
    else:
        ptx = tileiras.compile(write(parse_module(program)), gpu_name="sm_90", opt_level=0).ptx
    rng = np.random.default_rng(7)
    a, b = rng.integers(-9, 9, (64, 4096)).astype(np.int8), rng.integers(-9, 9, (4096, 64)).astype(np.int8)
    for seed, count in enumerate((0, 1, 2, 3, 7)):
        for order in range(5) if count == 7 else (seed,):
            out = np.full((64, 64), 99, np.int32)
            report = simulate(ptx, args=[a, b, out, np.int32(count)], seed=order)
            assert not report.findings
            assert (out == a[:, :64 * count].astype(np.int32) @ b[:64 * count].astype(np.int32)).all()


@pytest.mark.parametrize(("program", "gpu", "length"), [
    (SUM, "sm_75", LENGTH), (UNALIGNED, "sm_80", LENGTH - 1), (UNALIGNED, "sm_89", LENGTH - 1)])
def test_sums_over_tiles(program: str, gpu: str, length: int) -> None:
    ptx, ahead = compiled(program, gpu)
    assert ahead
    gives_sums(ptx, length)


def test_tiles_that_are_stored_elsewhere() -> None:
    ptx, ahead = compiled(ELEMENTWISE, "sm_75")
    assert ahead
    gives_tiles(ptx)


@pytest.mark.parametrize(("program", "wishes"), [
    (IN_PLACE, {}), (COUNTED, {"schedule": ScheduleOptions(stages=1)}), (COUNTED, {"without": frozenset({"pipelines"})}),
    (COUNTED, {"prefetch": False})])
def test_what_stays_in_its_iteration(program: str, wishes: dict[str, Any]) -> None:
    options = replace(CompileOptions(find_target("sm_75"), schedule=ASKED), **wishes)
    ir: Any = parse_module(program)
    for entry in pipeline.selected(3, "cuda_tile", "llvm"):
        ir = entry.apply(ir, options)
    assert not options.prefetched


def test_warps_that_only_load_have_their_ring() -> None:
    program = (Path(__file__).parents[1] / "filecheck" / "passes" / "register-streams.mlir").read_text()
    ptx, ahead = compiled(program, "sm_90")
    assert "wgmma" in ptx and not ahead
