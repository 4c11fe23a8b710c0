"""Memory of an alloca lies in shared memory, which copies to a ring don't read: a loop's loads of it stay in their iteration."""
from __future__ import annotations

import numpy as np
import pytest

import tileiras
from tileiras.bytecode import write
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.sim import simulate

STEPS, TILE = 4, 32
T, VIEW = f"tile<{TILE}x{TILE}xf16>", f"tensor_view<{STEPS * TILE}x{TILE}xf16, strides=[{TILE},1]>"
TILES = f"partition_view<tile=({TILE}x{TILE}), {VIEW}>"
OUT = f"partition_view<tile=({TILE}x{TILE}), tensor_view<{TILE}x{TILE}xf32, strides=[{TILE},1]>>"
TEXT = f"""cuda_tile.module @m {{
  entry @product(%pa: tile<ptr<f16>>, %pc: tile<ptr<f32>>, %n: tile<i32>) {{
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %start = constant <f32: 0.0> : tile<{TILE}x{TILE}xf32>
    %qa = assume div_by<16>, %pa : tile<ptr<f16>>
    %own = alloca num_elem = {STEPS * TILE * TILE}, alignment = 16 : tile<ptr<f16>>
    %wa = make_tensor_view %qa, shape = [{STEPS * TILE}, {TILE}], strides = [{TILE}, 1] : {VIEW}
    %qo = assume div_by<16>, %own : tile<ptr<f16>>
    %wo = make_tensor_view %qo, shape = [{STEPS * TILE}, {TILE}], strides = [{TILE}, 1] : {VIEW}
    %wc = make_tensor_view %pc, shape = [{TILE}, {TILE}], strides = [{TILE}, 1] : tensor_view<{TILE}x{TILE}xf32, strides=[{TILE},1]>
    %va = make_partition_view %wa : {TILES}
    %vo = make_partition_view %wo : {TILES}
    %vc = make_partition_view %wc : {OUT}
    %stored = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%u = %t) -> (token) {{
      %x, %ux = load_view_tko weak %va[%i, %zero] token = %t : {TILES}, tile<i32> -> {T}, token
      %ut = store_view_tko weak %x, %vo[%i, %zero] token = %u : {T}, {TILES}, tile<i32> -> token
      continue %ut : token
    }}
    %sum = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<{TILE}x{TILE}xf32>) {{
      %x, %ux = load_view_tko weak %va[%i, %zero] token = %t : {TILES}, tile<i32> -> {T}, token
      %y, %uy = load_view_tko weak %vo[%i, %zero] token = %stored : {TILES}, tile<i32> -> {T}, token
      %d = mmaf %x, %y, %acc : {T}, {T}, tile<{TILE}x{TILE}xf32>
      continue %d : tile<{TILE}x{TILE}xf32>
    }}
    %z = store_view_tko weak %sum, %vc[%zero, %zero] token = %t : tile<{TILE}x{TILE}xf32>, {OUT}, tile<i32> -> token
    return
  }}
}}
"""


@pytest.mark.parametrize("gpu", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
def test_products_of_what_a_block_keeps_for_itself(gpu: str) -> None:
    a = np.random.default_rng(3).integers(-3, 4, (STEPS * TILE, TILE)).astype(np.float16)
    out = np.zeros((TILE, TILE), np.float32)
    compiled = tileiras.compile(write(parse_module(TEXT), "13.4"), gpu_name=gpu)
    simulate(compiled.ptx, args=[a, out, np.int32(STEPS)])
    parts = a.astype(np.float32).reshape(STEPS, TILE, TILE)
    np.testing.assert_array_equal(out, (parts @ parts).sum(axis=0))
