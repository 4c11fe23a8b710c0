"""Products that begin the next tile while threads read the last one's sums: right values in five orders of what is asynchronous,
for every number of tiles and steps; blocks that go on with others' tiles; a protocol that is broken on purpose is found."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import IntAttr, IntegerAttr, i32

from tests.kernels import runner
from tileiras import pipeline
from tileiras.analysis.pipes import RIGHT, WRONG, check_pipes
from tileiras.bytecode import read, write
from tileiras.bytecode.version import CURRENT_VERSION
from tileiras.compiler import CompiledModule, compile_module
from tileiras.dialects import arith
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target
from tileiras.schedule.options import ScheduleOptions
from tileiras.sim import simulate

SEEDS = range(5)
TILES, STEPS, M, N, K = 5, 3, 128, 64, 32
AGENTS = 192
"""Threads of a block: four warps that read sums, one that loads, one that begins products."""


def program(products: int = 1, groups: bool = False) -> bytes:
    """Tiles of (sums over k of A B), or those times (sums of A C), one after the other; `groups`: in two loops."""
    views = []
    for name, rows, columns, tile, t in (("a", TILES * M, STEPS * K, (M, K), "f16"), ("b", STEPS * K, N, (K, N), "f16"),
                                         ("c", STEPS * K, N, (K, N), "f16"), ("d", TILES * M, N, (M, N), "f32")):
        tensor = f"tensor_view<{rows}x{columns}x{t}, strides=[{columns},1]>"
        views.append(f"""    %{name} = assume div_by<16>, %{name}p : tile<ptr<{t}>>
    %{name}t = make_tensor_view %{name}, shape = [{rows}, {columns}], strides = [{columns}, 1] : {tensor}
    %{name}v = make_partition_view %{name}t : partition_view<tile=({tile[0]}x{tile[1]}), {tensor}>
""")
    view = {line.split()[0]: line.rpartition(" : ")[2] for part in views for line in part.splitlines() if "partition" in line}
    kinds = ", ".join([f"tile<{M}x{N}xf32>"] * products)
    names = "bc"[:products]
    inits = ", ".join(f"%x{n} = %zeros" for n in names)
    body = "".join(f"""        %{n}l, %{n}u = load_view_tko weak %{n}v[%k, %zero] token = %t :
          {view[f'%{n}v']}, tile<i32> -> tile<{K}x{N}xf16>, token
        %{n}d = mmaf %al, %{n}l, %x{n} : tile<{M}x{K}xf16>, tile<{K}x{N}xf16>, tile<{M}x{N}xf32>
""" for n in names)
    sums = ", ".join(f"%{n}s" for n in names) if products == 1 else "%s"
    result = "%bs" if products == 1 else "%both"
    times = "" if products == 1 else f"      %both = mulf %s#0, %s#1 rounding<nearest_even> : tile<{M}x{N}xf32>\n"
    first = "%s:2" if products == 2 else sums
    tile = f"""      {first} = for %k in (%zero to %steps, step %one) : tile<i32> iter_values({inits}) -> ({kinds}) {{
        %al, %au = load_view_tko weak %av[%i, %k] token = %t : {view['%av']}, tile<i32> -> tile<{M}x{K}xf16>, token
{body}        continue {', '.join(f'%{n}d' for n in names)} : {kinds}
      }}
{times}      %st = store_view_tko weak {result}, %dv[%i, %zero] token = %t : tile<{M}x{N}xf32>, {view['%dv']}, tile<i32> -> token
"""
    loops = f"    for %i in (%zero to %tiles, step %one) : tile<i32> {{\n{tile}    }}\n"
    if groups:
        inner = f"    for %i in (%g to %tiles, step %two) : tile<i32> {{\n{tile}    }}\n"
        loops = f"    for %g in (%zero to %two, step %one) : tile<i32> {{\n{inner}    }}\n"
    return write(parse_module(f"""cuda_tile.module @m {{
  entry @k(%ap: tile<ptr<f16>>, %bp: tile<ptr<f16>>, %cp: tile<ptr<f16>>, %dp: tile<ptr<f32>>, %tiles: tile<i32>,
           %steps: tile<i32>) {{
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %zeros = constant <f32: 0.0> : tile<{M}x{N}xf32>
{''.join(views)}{loops}    return
  }}
}}
"""), CURRENT_VERSION)


def made(bytecode: bytes, gpu: str = "sm_100", **options: Any) -> CompiledModule:
    return compile_module(bytecode, CompileOptions(find_target(gpu), verify_each=True, **options))


def runs_right(code: CompiledModule, tiles: int, steps: int, products: int = 1, seeds: Any = SEEDS) -> None:
    rng = np.random.default_rng(tiles + steps)
    a, b, c = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((TILES * M, STEPS * K), (STEPS * K, N), (STEPS * K, N)))
    of_a, of_b, of_c = (x.astype(np.float32) for x in (a[:, :steps * K], b[:steps * K], c[:steps * K]))
    expected = np.full((TILES * M, N), 7, np.float32)
    expected[:tiles * M] = (of_a @ of_b * (of_a @ of_c if products == 2 else 1))[:tiles * M]
    for seed in seeds:
        d = np.full((TILES * M, N), 7, np.float32)
        report = simulate(code.ptx, "k", 1, [a, b, c, d, tiles, steps], seed=seed)
        assert not report.findings, str(report.findings[0])
        np.testing.assert_array_equal(d, expected)


@pytest.mark.parametrize("products, groups, gpu", [(1, False, "sm_100"), (2, False, "sm_103"), (1, True, "sm_110")])
def test_sums_are_right(products: int, groups: bool, gpu: str) -> None:
    code = made(program(products, groups), gpu)
    assert code.entries[0].threads == AGENTS
    runs_right(code, TILES, STEPS, products)


@pytest.mark.parametrize("tiles, steps", [(0, STEPS), (1, STEPS), (2, 1), (3, 0), (TILES, 2)])
def test_any_number_of_tiles_and_steps(tiles: int, steps: int) -> None:
    runs_right(made(program()), tiles, steps, seeds=range(2))


def test_blocks_that_take_others_tiles() -> None:
    name = "matmul_float16_float16_twin"
    code = made(runner.export_case(name), schedule=ScheduleOptions(persistent=True))
    assert code.entries[0].threads == AGENTS and "clusterlaunchcontrol.try_cancel" in code.ptx
    verdict = runner.simulate_case(name, code, orders=SEEDS)
    assert verdict.ok, verdict.detail


def agents() -> Any:
    """The function in three agents, as `order-memory` leaves it."""
    options = CompileOptions(find_target("sm_100"))
    ir: Any = pipeline.run(read(program()), options, stop_at="nv_tileas")
    return next(op for op in ir.walk() if op.name == "nv_tileas.func")


def test_the_pipe_of_sums_is_kept() -> None:
    assert check_pipes(agents()).kind == RIGHT


@pytest.mark.parametrize("name", ["producer_commit", "consumer_wait", "consumer_release"])
def test_who_leaves_something_out_is_found(name: str) -> None:
    func = agents()
    done = next(op for op in func.walk() if op.name == "nv_tileas.create_pipeline" and op.results[0].type.kind.data == "umma")
    op = next(use.operation for use in done.results[0].uses if use.operation.name == f"nv_tileas.{name}")
    if op.results:
        zero = arith.Constant.make([], [i32], {"value": IntegerAttr(0, i32)})
        op.parent.insert_op_before(zero, op)    # type: ignore[union-attr]
        op.results[0].replace_all_uses_with(zero.results[0])
    op.detach()
    op.erase()
    assert check_pipes(func).kind == WRONG


def test_a_wrong_number_of_readers_is_found() -> None:
    func = agents()
    done: Any = next(op for op in func.walk() if op.name == "nv_tileas.create_pipeline" and op.results[0].type.kind.data == "umma")
    done.properties["consumers"] = IntAttr(done.properties["consumers"].data + 1)
    assert check_pipes(func).kind == WRONG
