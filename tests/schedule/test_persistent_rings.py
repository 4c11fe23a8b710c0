"""A product that goes through its tiles with as many blocks as there are: the hint `occupancy` says how many an SM has, so that a
block alone has a deeper ring than one beside as many as registers allow; right with any ring, in every order of its copies."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileiras
from tests.ptx import ORDERS
from tileiras import pipeline
from tileiras.bytecode import write
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target
from tileiras.sim import simulate

ROWS, DEPTH, COLUMNS, TILE = 192, 512, 64, 64
HINTS = {"none": "", **{name: f" optimization_hints=<default = {{occupancy = {n}}}>" for name, n in (("one", 1), ("two", 2))}}


def view(name: str, rows: int, columns: int, element: str) -> str:
    array = f"tensor_view<{rows}x{columns}x{element}, strides=[{columns},1]>"
    return f"""%w{name} = make_tensor_view %{name}, shape = [{rows}, {columns}], strides = [{columns}, 1] : {array}
    %v{name} = make_partition_view %w{name} : {partition(rows, columns, element)}
"""


def partition(rows: int, columns: int, element: str) -> str:
    return f"partition_view<tile=({TILE}x{TILE}), tensor_view<{rows}x{columns}x{element}, strides=[{columns},1]>>"


def load(name: str, array: str, at: str, rows: int, columns: int, latency: int) -> str:
    asked = f" optimization_hints = <default = {{latency = {latency}}}>" if latency else ""
    return f"%{name}, %t{name} = load_view_tko weak %v{array}[{at}] token = %t{asked} : " \
           f"{partition(rows, columns, 'f16')}, tile<i32> -> tile<{TILE}x{TILE}xf16>, token"


def program(hint: str, latency: int = 0) -> Any:
    out = partition(ROWS, COLUMNS, "f32")
    return parse_module(f"""cuda_tile.module @m {{
  entry @product(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %pc: tile<ptr<f32>>){HINTS[hint]} {{
    %t = make_token : token
    %a = assume div_by<16>, %pa : tile<ptr<f16>>
    %b = assume div_by<16>, %pb : tile<ptr<f16>>
    %c = assume div_by<16>, %pc : tile<ptr<f32>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %steps = constant <i32: {DEPTH // TILE}> : tile<i32>
    %tiles = constant <i32: {ROWS // TILE}> : tile<i32>
    %none = constant <f32: 0.0> : tile<{TILE}x{TILE}xf32>
    %block, %by, %bz = get_tile_block_id : tile<i32>
    %blocks, %gy, %gz = get_num_tile_blocks : tile<i32>
    {view("a", ROWS, DEPTH, "f16")}    {view("b", DEPTH, COLUMNS, "f16")}    {view("c", ROWS, COLUMNS, "f32")}
    for %tile in (%block to %tiles, step %blocks) : tile<i32> {{
      %sum = for %k in (%zero to %steps, step %one) : tile<i32> iter_values(%acc = %none) -> (tile<{TILE}x{TILE}xf32>) {{
        {load("x", "a", "%tile, %k", ROWS, DEPTH, latency)}
        {load("y", "b", "%k, %zero", DEPTH, COLUMNS, latency)}
        %d = mmaf %x, %y, %acc : tile<{TILE}x{TILE}xf16>, tile<{TILE}x{TILE}xf16>, tile<{TILE}x{TILE}xf32>
        continue %d : tile<{TILE}x{TILE}xf32>
      }}
      %e = store_view_tko weak %sum, %vc[%tile, %zero] token = %t : tile<{TILE}x{TILE}xf32>, {out}, tile<i32> -> token
    }}
    return
  }}
}}
""")


def stages(hint: str, gpu: str, latency: int = 0) -> int:
    options = CompileOptions(find_target(gpu), opt_level=3)
    ir = pipeline.run(program(hint, latency), options, stop_at="nv_tileas")
    return max(op.results[0].type.stages.data for op in ir.walk() if op.name == "nv_tileas.create_pipeline")


@pytest.mark.parametrize("gpu", ["sm_90", "sm_100"])
def test_a_block_alone_has_a_deeper_ring(gpu: str) -> None:
    assert stages("one", gpu) == stages("none", gpu) > stages("two", gpu)


@pytest.mark.parametrize("gpu", ["sm_90", "sm_100"])
def test_a_hint_of_latency_makes_it_no_shorter(gpu: str) -> None:
    assert stages("one", gpu, 1) == stages("one", gpu)
    assert stages("two", gpu, 1) == stages("two", gpu)


def test_the_engine_stores_a_tile_while_the_next_one_is_multiplied() -> None:
    """Threads would hold its sums in their registers until memory has taken them."""
    ptx = tileiras.compile(write(program("one")), gpu_name="sm_90", opt_level=3).ptx
    assert "cp.async.bulk.tensor.2d.global.shared" in ptx and "st.global" not in ptx


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_100"])
def test_its_values(gpu: str, level: int) -> None:
    ptx = tileiras.compile(write(program("one")), gpu_name=gpu, opt_level=level).ptx
    rng = np.random.default_rng(11)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((ROWS, DEPTH), (DEPTH, COLUMNS)))
    for seed in ORDERS if level else (0,):
        c = np.full((ROWS, COLUMNS), 7, np.float32)
        report = simulate(ptx, grid=(2, 1, 1), args=[a, b, c], seed=seed)
        assert not report.findings and (c == a.astype(np.float32) @ b.astype(np.float32)).all()
