"""Tiles that the copy engine moves: whatever element type, rank, order of dimensions, padding and ragged extent, they are the
array's tiles, and nothing lies outside of it. Products that use it are NumPy's products."""
from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tileiras.codegen import compile_llvm_to_ptx
from tileiras.codegen.llvm_text import print_module
from tileiras.codegen.ptx_fixup import RECIPE
from tileiras.dialects import nv_tileas
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.dialects.nv_tileas import BufferType, SharedLayoutAttr
from tileiras.driver.options import CompileOptions
from tileiras.layout.shared import SharedLayout
from tileiras.machine.targets import find_target
from tileiras.pipeline import PIPELINE, verify_after
from tileiras.sim import simulate

SEEDS = range(5)


def compiled(program: str, gpu: str, through_shared: str = "") -> str:
    """A program's PTX. `through_shared`: what this op loads or stores goes to a buffer and comes back from it, once."""
    options = CompileOptions(find_target(gpu))
    ir: Any = parse_module(program)
    for entry in PIPELINE:
        if entry.name == "lower-tma-load-store-to-async":
            for op in [op for op in ir.walk() if op.name == f"nv_tileas.{through_shared}" and "engine" not in op.properties]:
                _through_shared(op)
        ir = entry.apply(ir, options)
        verify_after(ir, entry.name)
    return compile_llvm_to_ptx(print_module(ir), options.target, 3)


def _through_shared(op: Any) -> None:
    loads = op.name == "nv_tileas.tiled_load"
    value, block = op.results[0] if loads else op.source, op.parent
    buffer = BufferType(value.type.element_type, SharedLayoutAttr(SharedLayout.row_major(value.type.get_shape())))
    alloc = nv_tileas.AllocTensor.make([], [buffer])
    again = nv_tileas.LoadShared.make([alloc.results[0], None, None], [value.type])
    made = [alloc, nv_tileas.StoreShared.make([value, alloc.results[0]]), again]
    if loads:
        value.replace_uses_with_if(again.results[0], lambda use: use.operation is not made[1])
        block.insert_ops_after(made, op)
    else:
        op.operands[0] = again.results[0]
        block.insert_ops_before(made, op)


def launch(ptx: str, grid: tuple[int, int, int], arguments: list[Any], seed: int) -> None:
    """Run a kernel, whose maps are made from its arguments."""
    assert not simulate(ptx, None, grid, arguments, seed=seed).findings


# --- a tile there and back -------------------------------------------------------------------------------------------


def copy_program(element: str, tile: tuple[int, ...], padded: tuple[int, ...], bits: int, padding: str = "zero",
                 order: tuple[int, ...] | None = None, aligned: bool = True, back: bool = False) -> str:
    """Tiles of an array of dynamic sizes, whose last dimension is contiguous, to a dense array of as many whole tiles, in blocks;
    `back`: the other way. `order`: which dimension of the array each of the tile's runs along."""
    rank = len(tile)
    order = order or tuple(range(rank))
    sizes, strides = [f"%n{d}" for d in range(rank)], [f"%s{d}" for d in range(rank - 1)]
    dense = [math.prod(padded[d + 1:]) for d in range(rank)]
    source = f"tensor_view<{'?x' * rank}{element}, strides=[{'?,' * (rank - 1)}1]>"
    target = f"tensor_view<{'x'.join(map(str, padded))}x{element}, strides=[{','.join(map(str, dense))}]>"
    mapped = "" if order == tuple(range(rank)) else f", dim_map=[{', '.join(map(str, order))}]"
    extents = "x".join(map(str, tile))
    from_view = f"partition_view<tile=({extents}){'' if back else f', padding_value = {padding}'}, {source}{mapped}>"
    to_view = f"partition_view<tile=({extents}), {target}>"
    at = ", ".join(["%x", "%y", "%z", "%zero", "%zero"][:rank])
    types = ", ".join(["tile<i32>"] * rank)
    step = 16 * 8 // bits
    known = [f"%a{d} = assume div_by<{step}>, {s} : tile<i32>" for d, s in enumerate(strides)] if aligned else []
    used = [f"%a{d}" for d in range(rank - 1)] if aligned else strides
    parameters = [*(f"{v}: tile<i32>" for v in sizes + strides)]
    (load, loaded), (store, stored) = [("%v", from_view), ("%r", to_view)][::-1 if back else 1]
    return f"""cuda_tile.module @m {{
  entry @copy(%from: tile<ptr<{element}>>, %to: tile<ptr<{element}>>, {", ".join(parameters)}) {{
    %zero = constant <i32: 0> : tile<i32>
    %x, %y, %z = get_tile_block_id : tile<i32>
    %t = make_token : token
    %base = assume div_by<16>, %from : tile<ptr<{element}>>
    {chr(10).join(known)}
    %w = make_tensor_view %base, shape = [{", ".join(sizes)}], strides = [{", ".join([*used, "1"])}] : tile<i32> -> {source}
    %u = make_tensor_view %to, shape = [{", ".join(map(str, padded))}], strides = [{", ".join(map(str, dense))}] : {target}
    %v = make_partition_view %w : {from_view}
    %r = make_partition_view %u : {to_view}
    %d, %l = load_view_tko weak {load}[{at}] token = %t : {loaded}, {types} -> tile<{extents}x{element}>, token
    %e = store_view_tko weak %d, {store}[{at}] token = %t : tile<{extents}x{element}>, {stored}, {types} -> token
    return
  }}
}}
"""


DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64, "i8": np.int8, "i16": np.int16,
          "i32": np.int32, "i64": np.int64, "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2,
          "tf32": np.float32}


def run_copy(element: str, tile: tuple[int, ...], sizes: tuple[int, ...], gpu: str, *, padding: str = "zero",
             order: tuple[int, ...] | None = None, seeds: Any = SEEDS) -> None:
    """Copy the tiles of a random array of these sizes, rows padded to what maps need, and compare."""
    dtype, rank = np.dtype(DTYPES[element]), len(tile)
    order = order or tuple(range(rank))
    blocks = tuple(max(1, -(-sizes[order[d]] // tile[d])) if d < 3 else 1 for d in range(rank))
    padded = tuple(b * n for b, n in zip(blocks, tile))
    ptx = compiled(copy_program(element, tile, padded, 8 * dtype.itemsize, padding, order), gpu, "tiled_load")
    assert ptx.count(RECIPE) == 1 and f"cp.async.bulk.tensor.{rank}d" in ptx
    row = 16 // dtype.itemsize
    held = tuple(-(-n // row) * row if d == rank - 1 else max(n, 1) for d, n in enumerate(sizes))
    rng = np.random.default_rng(1)
    whole = rng.integers(0, 256, (*held, dtype.itemsize), np.uint8).view(dtype).reshape(held)
    array = whole[tuple(slice(0, n) for n in sizes)].transpose(order)
    fill = {"nan": np.nan, "neg_inf": -np.inf}.get(padding, 0)
    expected = np.full(padded, fill).astype(dtype)
    expected[tuple(slice(0, min(n, m)) for n, m in zip(array.shape, padded))] = array[tuple(slice(0, m) for m in padded)]
    strides = [s // dtype.itemsize for s in whole.strides[:-1]]
    for seed in seeds:
        target = np.full(padded, 77).astype(dtype)
        launch(ptx, (*blocks, 1, 1)[:3], [whole, target, *map(np.int32, sizes), *map(np.int32, strides)], seed)  # type: ignore[arg-type]
        same = target.view(f"u{dtype.itemsize}") == expected.view(f"u{dtype.itemsize}")
        if padding == "nan":
            with np.errstate(invalid="ignore"):         # signalling NaNs among the random bytes
                same |= np.isnan(target) & np.isnan(expected)
        assert same.all(), (seed, np.argwhere(~same)[:3])


def run_back(element: str, tile: tuple[int, ...], sizes: tuple[int, ...], gpu: str, *, seeds: Any = SEEDS) -> None:
    """Store whole tiles to an array of these sizes in rows with gaps: what lies outside of it stays as it was."""
    dtype, rank = np.dtype(DTYPES[element]), len(tile)
    blocks = tuple(max(1, -(-sizes[d] // tile[d])) if d < 3 else 1 for d in range(rank))
    padded = tuple(b * n for b, n in zip(blocks, tile))
    ptx = compiled(copy_program(element, tile, padded, 8 * dtype.itemsize, back=True), gpu, "tiled_store")
    assert ptx.count(RECIPE) == 1 and f"cp.async.bulk.tensor.{rank}d.global.shared::cta" in ptx
    row = 16 // dtype.itemsize
    held = tuple(-(-n // row) * row + row if d == rank - 1 else max(n, 1) for d, n in enumerate(sizes))
    source = np.random.default_rng(2).integers(0, 256, (*padded, dtype.itemsize), np.uint8).view(dtype).reshape(padded)
    expected = np.full(held, 77).astype(dtype)
    inside = tuple(slice(0, min(n, m)) for n, m in zip(sizes, padded))
    expected[inside] = source[inside]
    strides = [s // dtype.itemsize for s in expected.strides[:-1]]
    for seed in seeds:
        target = np.full(held, 77).astype(dtype)
        launch(ptx, (*blocks, 1, 1)[:3], [target, source, *map(np.int32, sizes), *map(np.int32, strides)], seed)  # type: ignore[arg-type]
        assert target.tobytes() == expected.tobytes(), seed


@pytest.mark.parametrize("element", DTYPES)
def test_every_element_type(element: str) -> None:
    run_copy(element, (32, 64), (50, 100), "sm_90")


@pytest.mark.parametrize("element", DTYPES)
def test_every_element_type_is_stored(element: str) -> None:
    run_back(element, (32, 64), (50, 100), "sm_90", seeds=range(2))


@pytest.mark.parametrize("gpu, tile, sizes", [
    ("sm_90", (64, 32), (64, 32)), ("sm_90", (8, 16, 32), (20, 10, 40)), ("sm_100", (2, 4, 8, 16), (3, 5, 9, 16)),
    ("sm_120", (2, 2, 4, 4, 16), (3, 3, 5, 3, 12)), ("sm_90", (1, 64, 64), (3, 70, 64)), ("sm_90", (32, 64), (0, 64)),
    ("sm_90", (32, 64), (40, 0))])
def test_stores_leave_alone_what_lies_outside(gpu: str, tile: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    run_back("f16", tile, sizes, gpu)


@pytest.mark.parametrize("gpu", ["sm_100", "sm_120"])
def test_other_targets(gpu: str) -> None:
    run_copy("f16", (64, 128), (100, 200), gpu)


@pytest.mark.parametrize("tile, sizes", [((256,), (600,)), ((64, 32), (64, 32)), ((8, 16, 32), (20, 10, 40)),
                                         ((2, 4, 8, 16), (3, 5, 9, 16)), ((2, 2, 4, 4, 16), (3, 3, 5, 3, 12)),
                                         ((1, 64, 64), (3, 70, 64)), ((512, 16), (600, 20)), ((16, 8), (17, 8))])
def test_every_rank_and_ragged_extents(tile: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    run_copy("f16", tile, sizes, "sm_90")


@pytest.mark.parametrize("order", [(1, 0), (0, 2, 1), (2, 0, 1)])
def test_a_tile_may_order_the_array_s_dimensions_otherwise(order: tuple[int, ...]) -> None:
    tile = tuple((64, 32, 8)[order[d] - len(order)] for d in range(len(order)))
    run_copy("f16", tile, (70, 90, 100)[:len(order)], "sm_90", order=order, seeds=range(2))


@pytest.mark.parametrize("padding", ["nan", "neg_inf"])
def test_a_view_may_pad_with_other_values(padding: str) -> None:
    """With what the engine fills in, or threads behind it."""
    for element in ("f16", "bf16", "f32"):
        run_copy(element, (32, 64), (40, 70), "sm_90", padding=padding, seeds=range(2))


@pytest.mark.parametrize("sizes", [(0, 64), (64, 0), (0, 0)])
def test_an_array_without_elements_is_padding_only(sizes: tuple[int, int]) -> None:
    run_copy("f32", (32, 64), sizes, "sm_90", seeds=range(2))


def test_what_maps_cannot_say_is_loaded_by_threads() -> None:
    ptx = compiled(copy_program("f16", (32, 64), (32, 64), 16, aligned=False), "sm_90", "tiled_load")
    assert RECIPE not in ptx and "cp.async.bulk" not in ptx, "strides"


# --- products --------------------------------------------------------------------------------------------------------


def product_program(element: str, m: int, n: int, k: int, nested: bool) -> str:
    """A product of matrices of dynamic sizes by tiles of m x k and k x n; `nested`: one block walks all tiles of the result."""
    a, b = (f"partition_view<tile=({x}x{y}), padding_value = zero, tensor_view<?x?x{element}, strides=[?,1]>>"
            for x, y in ((m, k), (k, n)))
    c = f"partition_view<tile=({m}x{n}), tensor_view<?x?xf32, strides=[?,1]>>"
    body = f"""
      %acc = for %i in (%zero to %kk, step %one) : tile<i32> iter_values(%s = %start) -> (tile<{m}x{n}xf32>) {{
        %l, %t1 = load_view_tko weak %a[%x, %i] token = %t : {a}, tile<i32>, tile<i32> -> tile<{m}x{k}x{element}>, token
        %r, %t2 = load_view_tko weak %b[%i, %y] token = %t : {b}, tile<i32>, tile<i32> -> tile<{k}x{n}x{element}>, token
        %d = mmaf %l, %r, %s : tile<{m}x{k}x{element}>, tile<{k}x{n}x{element}>, tile<{m}x{n}xf32>
        continue %d : tile<{m}x{n}xf32>
      }}
      %e = store_view_tko weak %acc, %c[%x, %y] token = %t : tile<{m}x{n}xf32>, {c}, tile<i32>, tile<i32> -> token
"""
    walk = f"""
    for %x in (%zero to %mm, step %one) : tile<i32> {{
      for %y in (%zero to %nn, step %one) : tile<i32> {{
        {body}
        continue
      }}
      continue
    }}""" if nested else f"%x, %y, %z = get_tile_block_id : tile<i32>\n{body}"
    view = f"tensor_view<?x?x{element}, strides=[?,1]>"
    return f"""cuda_tile.module @m {{
  entry @product(%pa: tile<ptr<{element}>>, %pb: tile<ptr<{element}>>, %pc: tile<ptr<f32>>,
                 %m: tile<i32>, %n: tile<i32>, %k: tile<i32>,
                 %sa: tile<i32>, %sb: tile<i32>, %sc: tile<i32>, %mm: tile<i32>, %nn: tile<i32>, %kk: tile<i32>) {{
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 0.0> : tile<{m}x{n}xf32>
    %t = make_token : token
    %pa1 = assume div_by<16>, %pa : tile<ptr<{element}>>
    %pb1 = assume div_by<16>, %pb : tile<ptr<{element}>>
    %sa1 = assume div_by<16>, %sa : tile<i32>
    %sb1 = assume div_by<16>, %sb : tile<i32>
    %wa = make_tensor_view %pa1, shape = [%m, %k], strides = [%sa1, 1] : tile<i32> -> {view}
    %wb = make_tensor_view %pb1, shape = [%k, %n], strides = [%sb1, 1] : tile<i32> -> {view}
    %wc = make_tensor_view %pc, shape = [%m, %n], strides = [%sc, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
    %a = make_partition_view %wa : {a}
    %b = make_partition_view %wb : {b}
    %c = make_partition_view %wc : {c}
    {walk}
    return
  }}
}}
"""


@pytest.mark.parametrize("gpu, element, tiles, sizes, nested", [
    ("sm_90", "f16", (64, 64, 32), (100, 90, 70), False), ("sm_90", "bf16", (128, 64, 64), (128, 128, 200), True),
    ("sm_90", "f16", (32, 128, 64), (40, 130, 0), False), ("sm_100", "f16", (64, 128, 64), (64, 128, 130), True),
    ("sm_120", "bf16", (64, 64, 64), (65, 64, 129), True), ("sm_120", "f8E4M3FN", (64, 64, 64), (70, 80, 100), False)])
def test_a_product_of_what_the_engine_brings(gpu: str, element: str, tiles: tuple[int, int, int], sizes: tuple[int, int, int],
                                             nested: bool) -> None:
    dtype, (m, n, k) = np.dtype(DTYPES[element]), sizes
    ptx = compiled(product_program(element, *tiles, nested), gpu)
    assert 1 <= ptx.count(RECIPE) <= 2 and "mbarrier.try_wait" in ptx
    rng = np.random.default_rng(3)
    rows = [-(-k // 16) * 16 or 16, -(-n // 16) * 16]
    a, b = (rng.integers(-3, 4, (max(x, 1), y)).astype(dtype) for x, y in ((m, rows[0]), (k, rows[1])))
    expected = a[:m, :k].astype(np.float32) @ b[:k, :n].astype(np.float32)
    counts = [-(-size // tile) for size, tile in zip(sizes, tiles)]
    for seed in SEEDS:
        c = np.full((m, n), np.nan, np.float32)
        numbers = [m, n, k, *rows, n, *counts]
        grid = (1, 1, 1) if nested else (counts[0], counts[1], 1)
        launch(ptx, grid, [a, b, c, *map(np.int32, numbers)], seed)
        assert np.array_equal(c, expected), seed


# --- results ---------------------------------------------------------------------------------------------------------

RESULT = """cuda_tile.module @m {
  entry @result(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %pc: tile<ptr<f16>>) {
    %zero = constant <i32: 0> : tile<i32>
    %t = make_token : token
    %start = constant <f32: 0.0> : tile<64x128xf32>
    %p = assume div_by<16>, %pc : tile<ptr<f16>>
    %wa = make_tensor_view %pa, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf16, strides=[64,1]>
    %wb = make_tensor_view %pb, shape = [64, 128], strides = [128, 1] : tensor_view<64x128xf16, strides=[128,1]>
    %wc = make_tensor_view %p, shape = [MN], strides = [STRIDE, 1] : VIEW
    %a = make_partition_view %wa : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>
    %b = make_partition_view %wb : partition_view<tile=(64x128), tensor_view<64x128xf16, strides=[128,1]>>
    %c = make_partition_view %wc : partition_view<tile=(TILE), VIEW>
    %l, %t1 = load_view_tko weak %a[%zero, %zero] token = %t : partition_view<tile=(64x64), tensor_view<64x64xf16, strides=[64,1]>>, tile<i32> -> tile<64x64xf16>, token
    %r, %t2 = load_view_tko weak %b[%zero, %zero] token = %t : partition_view<tile=(64x128), tensor_view<64x128xf16, strides=[128,1]>>, tile<i32> -> tile<64x128xf16>, token
    %d = mmaf %l, %r, %start : tile<64x64xf16>, tile<64x128xf16>, tile<64x128xf32>
    %h = ftof %d : tile<64x128xf32> -> tile<64x128xf16>
    MOVE
    %e = store_view_tko weak %x, %c[%zero, %zero] token = %t : tile<TILExf16>, partition_view<tile=(TILE), VIEW>, tile<i32> -> token
    return
  }
}
"""  # noqa: E501


@pytest.mark.parametrize("gpu", ["sm_90", "sm_120"])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_product_s_result_goes_by_matrices_and_by_the_engine(gpu: str, transposed: bool) -> None:
    extents = (128, 64) if transposed else (64, 128)
    move = "%x = permute %h [1, 0] : tile<64x128xf16> -> tile<128x64xf16>" if transposed else \
        "%x = ftof %d : tile<64x128xf32> -> tile<64x128xf16>"
    program = RESULT.replace("MOVE", move).replace("MN", f"{extents[0]}, {extents[1]}").replace("STRIDE", str(extents[1]))
    program = program.replace("VIEW", f"tensor_view<{extents[0]}x{extents[1]}xf16, strides=[{extents[1]},1]>")
    ptx = compiled(program.replace("TILE", f"{extents[0]}x{extents[1]}"), gpu)
    assert f"stmatrix.sync.aligned.m8n8.x4{'.trans' if transposed else ''}" in ptx and "global.shared::cta" in ptx
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((64, 64), (64, 128)))
    for seed in SEEDS:
        c = np.full(extents, np.nan, np.float16)
        launch(ptx, (1, 1, 1), [a, b, c], seed)
        product = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float16)
        assert np.array_equal(c, product.T if transposed else product), seed
