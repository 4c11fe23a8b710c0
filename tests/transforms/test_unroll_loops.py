"""Loops of a few iterations that become these: right at every optimization level, for any start and step, where they end beyond the
array, carry addresses, change rows where they lie, write over one place again and again, or hold loops whose ends they say."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.transforms.test_stage_streams import HEAD, LENGTH, PADDED, TILE, VIEW, load, store, tiles
from tileiras import pipeline
from tileiras.codegen import compile_llvm_to_ptx
from tileiras.codegen.llvm_text import print_module
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target
from tileiras.sim import simulate
from tileiras.transforms.unroll_loops import MOST_TRIPS

COUNTS = [(0, 2, 1), (3, 9, 2), (5, 7, 1), (-3, 6, 3), (1, 3, 2), (4, 4, 1), (-4, 8, 2)]
"""First, end and step: two and three iterations, from a negative counter on, one, none, six. The eighth tile is a partial one."""
SUMS = f"""{HEAD}
    %first = constant <i32: FIRST> : tile<i32>
    %last = constant <i32: LAST> : tile<i32>
    %step = constant <i32: STEP> : tile<i32>
    %three = constant <i32: 3> : tile<i32>
    %seven = constant <i32: 7> : tile<i32>
    %end = for %k in (%first to %last, step %step) : tile<i32> iter_values(%e = %t) -> (token) {{
      {load("x", "%vp")}{load("y", "%vq")}
      %xy = mulf %x, %y : tile<{TILE}xf32>
      %at = subi %seven, %k : tile<i32>
      {store("%xy", "%vo", "%at", "s", "%e")}
      continue %s : token
    }}
    %sum, %far = for %k in (%first to %last, step %step) : tile<i32>
        iter_values(%acc = %start, %n = %three) -> (tile<{TILE}xf32>, tile<i32>) {{
      {load("x", "%vp")}
      %f = itof %n signed : tile<i32> -> tile<f32>
      %f1 = reshape %f : tile<f32> -> tile<1xf32>
      %fs = broadcast %f1 : tile<1xf32> -> tile<{TILE}xf32>
      %scaled = mulf %x, %fs : tile<{TILE}xf32>
      %more = addf %acc, %scaled : tile<{TILE}xf32>
      %next = addi %n, %k : tile<i32>
      continue %more, %next : tile<{TILE}xf32>, tile<i32>
    }}
    {store("%sum", "%vo", "%zero", "w", "%end")}
    return
  }}
}}
"""
IN_PLACE = f"""{HEAD}
    %two = constant <i32: 2> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %end = for %i in (%zero to %two, step %one) : tile<i32> iter_values(%e = %t) -> (token) {{
      %x, %tx = load_view_tko weak %vo[%zero] token = %e : {VIEW}, tile<i32> -> tile<{TILE}xf32>, token
      %y, %ty = load_view_tko weak %vo[%one] token = %tx : {VIEW}, tile<i32> -> tile<{TILE}xf32>, token
      %xy = addf %x, %y : tile<{TILE}xf32>
      {store("%xy", "%vo", "%zero", "s", "%ty")}{store("%x", "%vo", "%one", "u", "%s")}
      continue %u : token
    }}
    return
  }}
}}
"""
NESTED = f"""{HEAD}
    %first = constant <i32: FIRST> : tile<i32>
    %last = constant <i32: LAST> : tile<i32>
    %step = constant <i32: STEP> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %five = constant <i32: 5> : tile<i32>
    %seven = constant <i32: 7> : tile<i32>
    %end, %all = for %k in (%first to %last, step %step) : tile<i32>
        iter_values(%e = %t, %acc = %start) -> (token, tile<{TILE}xf32>) {{
      {load("x", "%vp")}
      %double = muli %k, %two : tile<i32>
      %begin = subi %double, %one : tile<i32>
      %stop = subi %five, %k : tile<i32>
      %sum = for %j in (%begin to %stop, step %two) : tile<i32> iter_values(%c = %x) -> (tile<{TILE}xf32>) {{
        %y, %ty = load_view_tko weak %vq[%j] token = %t : {PADDED}, tile<i32> -> tile<{TILE}xf32>, token
        %d = subf %y, %c : tile<{TILE}xf32>
        continue %d : tile<{TILE}xf32>
      }}
      %more = addf %acc, %sum : tile<{TILE}xf32>
      %at = subi %seven, %k : tile<i32>
      {store("%more", "%vo", "%at", "s", "%e")}
      continue %s, %more : token, tile<{TILE}xf32>
    }}
    return
  }}
}}
"""


def compiled(text: str, counts: tuple[int, ...], gpu: str, level: int) -> tuple[str, int]:
    """The PTX, every pass verified, and how many loops are left."""
    options = CompileOptions(find_target(gpu), opt_level=level)
    for name, value in zip(("FIRST", "LAST", "STEP"), counts):
        text = text.replace(name, str(value))
    ir: Any = parse_module(text)
    for entry in pipeline.selected(level, "cuda_tile", "nv_tileas"):
        ir = entry.apply(ir, options)
        pipeline.verify_after(ir, entry.name)
    loops = sum(op.name == "scf.for" for op in ir.walk())
    for entry in pipeline.selected(level, "nv_tileas", "llvm"):
        if entry.level == "llvm":
            ir = entry.apply(ir, options)
    return compile_llvm_to_ptx(print_module(ir), options.target, level), loops


@pytest.mark.parametrize("counts", COUNTS, ids=str)
@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
def test_products_are_stored_and_read_again(gpu: str, level: int, counts: tuple[int, int, int]) -> None:
    """Each iteration stores a tile of its own; the second loop reads what the first read, and carries a number."""
    ptx, loops = compiled(SUMS, counts, gpu, level)
    assert loops == (0 if level else 2)
    x, y = np.random.default_rng(3).integers(-8, 8, (2, LENGTH)).astype(np.float32)
    out = np.full(LENGTH, 7, np.float32)
    expected, total, factor = tiles(out.copy()), np.zeros(TILE, np.float32), 3
    for k in range(*counts):
        a, b = (tiles(v)[k] if 0 <= k < len(tiles(v)) else np.zeros(TILE, np.float32) for v in (x, y))
        if 0 <= 7 - k < len(expected):
            expected[7 - k] = a * b
        total += a * factor
        factor += k
    expected[0] = total
    report = simulate(ptx, args=[x, y, out, *(np.int32(0),) * 3])
    assert not report.findings and out.tolist() == expected.reshape(-1)[:LENGTH].tolist()


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
def test_a_tile_is_changed_where_it_lies(gpu: str, level: int) -> None:
    """Each iteration reads and writes the same two tiles, behind the one before: a Fibonacci step."""
    ptx, loops = compiled(IN_PLACE, (), gpu, level)
    assert loops == (0 if level else 1)
    out = np.arange(LENGTH, dtype=np.float32)
    x, y = tiles(out)[:2]
    report = simulate(ptx, args=[out.copy(), out.copy(), out, *(np.int32(0),) * 3])
    assert not report.findings and out[:2 * TILE].tolist() == [*(x + y + x), *(x + y)]


@pytest.mark.parametrize("counts", COUNTS, ids=str)
@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
def test_inner_loops_end_where_the_outer_counter_says(gpu: str, level: int, counts: tuple[int, int, int]) -> None:
    """Every second tile from one before twice the counter up to five less it: several, one, none; eighteen in all are too many."""
    ptx, loops = compiled(NESTED, counts, gpu, level)
    often = sum(len(range(2 * k - 1, 5 - k, 2)) for k in range(*counts)) > MOST_TRIPS
    assert loops == (0 if level and not often else 2)
    x, y = np.random.default_rng(4).integers(-8, 8, (2, LENGTH)).astype(np.float32)
    out = np.full(LENGTH, 7, np.float32)
    expected, total = tiles(out.copy()), np.zeros(TILE, np.float32)

    def tile(v: np.ndarray, k: int) -> np.ndarray:
        return tiles(v)[k] if 0 <= k < len(tiles(v)) else np.zeros(TILE, np.float32)
    for k in range(*counts):
        part = tile(x, k)
        for j in range(2 * k - 1, 5 - k, 2):
            part = tile(y, j) - part
        total = total + part
        if 0 <= 7 - k < len(expected):
            expected[7 - k] = total
    report = simulate(ptx, args=[x, y, out, *(np.int32(0),) * 3])
    assert not report.findings and out.tolist() == expected.reshape(-1)[:LENGTH].tolist()
