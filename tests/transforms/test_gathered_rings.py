"""Rows that pointers gather go to rings by cp.async: right for every trip count, with rows and columns masked away. Pointers that
lead elsewhere by what the loop loads are looked up by a load agent, or stay in their iteration."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileiras import pipeline
from tileiras.codegen import compile_llvm_to_ptx
from tileiras.codegen.llvm_text import print_module
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target
from tileiras.pipeline import verify_after
from tileiras.schedule.depth import ops_for_places, side_by_side
from tileiras.sim import simulate

ROWS, K, TILE = 100, 480, 32
SIGNATURE = "%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %pi: tile<ptr<i32>>, %pc: tile<ptr<f32>>, %from: tile<i32>, %to: tile<i32>"


def gathered(in_loop: bool = False, tile: int = TILE) -> str:
    """A's rows are those that an array names; negative ones are zero, and so are columns from 464 on. `in_loop`: the array is read
    anew in each iteration. `tile`: rows and columns of all tiles."""
    right = f"partition_view<tile=({tile}x{tile}), padding_value = zero, tensor_view<{K}x{tile}xf16, strides=[{tile},1]>>"
    out = f"partition_view<tile=({tile}x{tile}), tensor_view<{tile}x{tile}xf32, strides=[{tile},1]>>"
    idx, m, p, f = (f"tile<{tile}x{tile}x{t}>" for t in ("i32", "i1", "ptr<f16>", "f16"))
    index = f"""
      %ip = reshape %pi : tile<ptr<i32>> -> tile<1xptr<i32>>
      %ib = broadcast %ip : tile<1xptr<i32>> -> tile<{tile}xptr<i32>>
      %io = offset %ib, %n : tile<{tile}xptr<i32>>, tile<{tile}xi32> -> tile<{tile}xptr<i32>>
      %index, %ti = load_ptr_tko weak %io token=%t : tile<{tile}xptr<i32>> -> tile<{tile}xi32>, token
      %column = reshape %index : tile<{tile}xi32> -> tile<{tile}x1xi32>
      %rows = broadcast %column : tile<{tile}x1xi32> -> {idx}
      %some = cmpi greater_than_or_equal %rows, %none, signed : {idx} -> {m}
      %starts = muli %rows, %pitch : {idx}
"""
    return f"""cuda_tile.module @m {{
  entry @product({SIGNATURE}) {{
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %size = constant <i32: {tile}> : tile<i32>
    %none = constant <i32: 0> : {idx}
    %pitch = constant <i32: {K}> : {idx}
    %end = constant <i32: {K - 16}> : {idx}
    %outside = constant <f16: 0.0> : {f}
    %start = constant <f32: 0.0> : tile<{tile}x{tile}xf32>
    %qa = assume div_by<16>, %pa : tile<ptr<f16>>
    %qb = assume div_by<16>, %pb : tile<ptr<f16>>
    %wb = make_tensor_view %qb, shape = [{K}, {tile}], strides = [{tile}, 1] : tensor_view<{K}x{tile}xf16, strides=[{tile},1]>
    %wc = make_tensor_view %pc, shape = [{tile}, {tile}], strides = [{tile}, 1] : tensor_view<{tile}x{tile}xf32, strides=[{tile},1]>
    %vb = make_partition_view %wb : {right}
    %vc = make_partition_view %wc : {out}
    %n = iota : tile<{tile}xi32>
    %p1 = reshape %qa : tile<ptr<f16>> -> tile<1x1xptr<f16>>
    %base = broadcast %p1 : tile<1x1xptr<f16>> -> {p}
    {"" if in_loop else index}
    %sum = for %k in (%from to %to, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<{tile}x{tile}xf32>) {{
      {index if in_loop else ""}
      %first = muli %k, %size : tile<i32>
      %f1 = reshape %first : tile<i32> -> tile<1xi32>
      %fb = broadcast %f1 : tile<1xi32> -> tile<{tile}xi32>
      %line = addi %fb, %n : tile<{tile}xi32>
      %row = reshape %line : tile<{tile}xi32> -> tile<1x{tile}xi32>
      %cols = broadcast %row : tile<1x{tile}xi32> -> {idx}
      %inside = cmpi less_than %cols, %end, signed : {idx} -> {m}
      %mask = andi %inside, %some : {m}
      %far = addi %starts, %cols : {idx}
      %at = offset %base, %far : {p}, {idx} -> {p}
      %a, %ta = load_ptr_tko weak %at, %mask, %outside token=%t : {p}, {m}, {f} -> {f}, token
      %b, %tb = load_view_tko weak %vb[%k, %zero] token = %t : {right}, tile<i32> -> {f}, token
      %more = mmaf %a, %b, %acc : {f}, {f}, tile<{tile}x{tile}xf32>
      continue %more : tile<{tile}x{tile}xf32>
    }}
    %e = store_view_tko weak %sum, %vc[%zero, %zero] token = %t : tile<{tile}x{tile}xf32>, {out}, tile<i32> -> token
    return
  }}
}}
"""


def compiled(program: str, gpu: str, **wishes: Any) -> tuple[str, int]:
    """The PTX, every pass verified, and how many copies by pointers the body has."""
    options = CompileOptions(find_target(gpu), **wishes)
    ir: Any = parse_module(program)
    copies = 0
    for entry in pipeline.selected(3, "cuda_tile", "llvm"):
        ir = entry.apply(ir, options)
        verify_after(ir, entry.name)
        if entry.name == "materialize-async":
            copies = sum(op.name == "nv_tileas.async_copy" for op in ir.walk())
    return compile_llvm_to_ptx(print_module(ir), options.target, 3), copies


def assert_right(ptx: str, tile: int = TILE) -> None:
    """For every count of iterations, each in another order of what is asynchronous."""
    rng = np.random.default_rng(5)
    a, b = rng.integers(-4, 5, (ROWS, K)).astype(np.float16), rng.integers(-4, 5, (K, tile)).astype(np.float16)
    index = rng.integers(-20, ROWS, tile).astype(np.int32)
    rows = np.where(index[:, None] < 0, 0, a[np.maximum(index, 0)]).astype(np.float32)
    rows[:, K - 16:] = 0
    for seed, (first, last) in enumerate([(0, 0), (0, 1), (0, 2), (3, 7), (0, -(-K // tile))]):
        out = np.full((tile, tile), np.nan, np.float32)
        report = simulate(ptx, args=[a, b, index, out, np.int32(first), np.int32(last)], seed=seed)
        part = slice(tile * first, tile * last)
        assert not report.findings
        assert (out == rows[:, part] @ b[part].astype(np.float32)).all()


@pytest.mark.parametrize(("gpu", "in_loop", "copies"), [
    ("sm_80", False, 1), ("sm_89", False, 1), ("sm_120", False, 1), ("sm_80", True, 0), ("sm_90", False, 1), ("sm_75", False, 0)])
def test_gathered_rows(gpu: str, in_loop: bool, copies: int) -> None:
    ptx, found = compiled(gathered(in_loop), gpu, without=frozenset({"tma"}))
    assert found == copies
    assert_right(ptx)


@pytest.mark.parametrize(("gpu", "copies"), [("sm_90", 1), ("sm_120", 1)])
def test_gathered_rows_beside_those_of_the_copy_engine(gpu: str, copies: int) -> None:
    """B comes by tensor map, in an agent of its own."""
    ptx, found = compiled(gathered(), gpu)
    assert found == copies and "cp.async.bulk.tensor" in ptx and "mma.sync" in ptx
    assert_right(ptx)


@pytest.mark.parametrize("in_loop", [False, True])
@pytest.mark.parametrize(("gpu", "product", "threads"), [
    ("sm_90", "wgmma.mma_async", 288), ("sm_100", "tcgen05.mma", 288), ("sm_103", "tcgen05.mma", 288)])
def test_the_load_agent_gathers_for_asynchronous_products(gpu: str, product: str, threads: int, in_loop: bool) -> None:
    """Arrivals of its copies are counted, so that no barrier stands between products; it looks up itself where they come from. A
    ninth warp tells the copy engine."""
    ptx, found = compiled(gathered(in_loop, tile=64), gpu)
    assert found == 1 and "cp.async.mbarrier.arrive.noinc" in ptx and product in ptx and f".reqntid {threads}" in ptx
    assert_right(ptx, 64)


def test_what_says_where_rows_lie_is_counted_once_for_each_access() -> None:
    """Columns and masks of 64x64 elements by 128 threads are 32 a thread, four accesses of eight elements; rows are one each."""
    options, ir = CompileOptions(find_target("sm_100")), parse_module(gathered(tile=64))
    for entry in pipeline.selected(3, "cuda_tile", "llvm"):
        if entry.name == "generate-schedule":
            break
        ir = entry.apply(ir, options)       # type: ignore[assignment]
    loop = next(op for op in ir.walk() if op.name == "scf.for")
    load = next(op for op in loop.walk() if op.name == "nv_tileas.load")
    ops = ops_for_places(loop, [load])
    assert load.operands[0].owner in ops and not any(op.name in ("nv_tileas.dot", "nv_tileas.tiled_load") for op in ops)
    assert {side_by_side(op) for op in ops if op.name in ("arith.andi", "nv_tileas.addptr")} == {8}
    assert ops_for_places(loop, []) == set()


def test_gathers_for_warpgroups_need_a_load_agent() -> None:
    ptx, found = compiled(gathered(tile=64), "sm_90", without=frozenset({"agents"}))
    assert found == 0 and "wgmma" in ptx
    assert_right(ptx, 64)
