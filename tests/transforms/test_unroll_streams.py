"""Loops that ask for several iterations' tiles at once: right for every number of iterations, start and step, also where addresses
are carried, a tile is used in the iteration behind its own, and what a round loads lies beyond the array; loops that store what
they load, or are told to keep their loads, stay as they are."""
from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.kernels import runner
from tests.transforms.test_prefetch_to_registers import UNALIGNED
from tests.transforms.test_stage_streams import ELEMENTWISE, HEAD, IN_PLACE, LENGTH, TILE, load, store, tiles
from tileiras import pipeline
from tileiras.codegen import compile_llvm_to_ptx
from tileiras.codegen.llvm_text import print_module
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target
from tileiras.schedule.options import ScheduleOptions
from tileiras.sim import simulate

TRIPS = [(0, 0, 1), (5, 2, 1), (0, 1, 1), (0, 4, 1), (0, 7, 1), (0, 8, 1), (1, 8, 3), (0, 21, 1), (2, 40, 3)]
"""From no iteration at all to several rounds; tiles from the eighth on lie beyond the array."""
GPUS, ROUNDS = ["sm_90", "sm_100"], 4
"""Iterations at once, of two tiles each: with two blocks they keep an SM of sm_90 busy, and take 32 registers of a thread."""
CARRIED = f"""{HEAD}
    %one = constant <i32: 1> : tile<i32>
    %sum, %last, %at = for %i in (%from to %to, step %by) : tile<i32>
        iter_values(%acc = %start, %before = %start, %k = %from) -> (tile<{TILE}xf32>, tile<{TILE}xf32>, tile<i32>) {{
      {load("x", "%vp")}
      %both = mulf %x, %before : tile<{TILE}xf32>
      %more = addf %acc, %both : tile<{TILE}xf32>
      %following = addi %k, %by : tile<i32>
      continue %more, %x, %following : tile<{TILE}xf32>, tile<{TILE}xf32>, tile<i32>
    }}
    {store("%sum", "%vo", "%zero", "e")}
    return
  }}
}}
"""
LINKS = 50
"""Steps of four ops each that lead to an address: two addresses' are more than one slice may have (analysis/ahead.py)."""


def far_away(loop: str) -> str:
    """A program of two loads, whose addresses take chains of ops of their own: each step adds what the loop begins with."""
    start = "%x, %tx = load_view_tko"
    assert loop.count(start) == 1
    chains = []
    for n in range(LINKS):
        for name, first, second in (("x", f"muli %x{n}, %by", "%from"), ("y", f"xori %y{n}, %from", f"%y{n}")):
            last = f"xori %c{name}{n}, %b{name}{n}" if name == "x" else f"muli %c{name}{n}, %by"
            chains += [f"%b{name}{n} = {first} : tile<i32>", f"%c{name}{n} = xori %b{name}{n}, {second} : tile<i32>",
                       f"%d{name}{n} = {last} : tile<i32>", f"%{name}{n + 1} = addi %{name}{n}, %d{name}{n} : tile<i32>"]
    text = "\n".join(chains).replace("%x0", "%k").replace("%y0", "%k")
    return loop.replace(start, f"{text}\n{start}").replace("%vp[%k]", f"%vp[%x{LINKS}]").replace("%vq[%k]", f"%vq[%y{LINKS}]")


def unaligned(text: str) -> str:
    """A program whose loads no ring can take."""
    return text.replace("assume div_by<16>", "assume div_by<4>").replace(f"shape = [{LENGTH}]", f"shape = [{LENGTH - 1}]").replace(
        f"tensor_view<{LENGTH}xf32", f"tensor_view<{LENGTH - 1}xf32")


def compiled(text: str, gpu: str, level: int = 3, **wishes: Any) -> tuple[str, int]:
    """The PTX, every pass verified, and how many tiles the first of the loops loads in a round."""
    options = replace(CompileOptions(find_target(gpu), opt_level=level), **wishes)
    ir: Any = parse_module(text)
    loads = 0
    for entry in pipeline.selected(level, "cuda_tile", "llvm"):
        if entry.name == "prefetch-to-registers":
            loop = next(op for op in ir.walk() if op.name == "scf.for")
            loads = sum(op.name == "nv_tileas.tiled_load" for op in loop.walk())
        ir = entry.apply(ir, options)
        pipeline.verify_after(ir, entry.name)
    return compile_llvm_to_ptx(print_module(ir), options.target, level), loads


@pytest.mark.parametrize("gpu", GPUS)
def test_sums_of_products(gpu: str) -> None:
    ptx, loads = compiled(UNALIGNED, gpu)
    assert loads == 2 * ROUNDS
    rng = np.random.default_rng(5)
    for first, last, step in TRIPS:
        x, y = rng.integers(-8, 8, (2, LENGTH - 1)).astype(np.float32)
        out = np.full(LENGTH, 7, np.float32)
        simulate(ptx, args=[x, y, out, np.int32(first), np.int32(last), np.int32(step)])
        assert out[:TILE].tolist() == (tiles(x) * tiles(y))[first:last:step].sum(0).tolist() and (out[TILE:] == 7).all()


@pytest.mark.parametrize("gpu", GPUS)
def test_tiles_that_are_stored_elsewhere(gpu: str) -> None:
    ptx, loads = compiled(unaligned(ELEMENTWISE), gpu)
    assert loads == 2 * ROUNDS
    for first, last, step in TRIPS:
        x, y = np.random.default_rng(last).integers(-8, 8, (2, LENGTH - 1)).astype(np.float32)
        out = np.full(LENGTH, 7, np.float32)
        simulate(ptx, args=[x, y, out, np.int32(first), np.int32(last), np.int32(step)])
        want = tiles(np.full(LENGTH - 1, 7, np.float32)).copy()
        want[first:last:step] = (tiles(x) + tiles(y))[first:last:step]
        assert out[:LENGTH - 1].tolist() == want.reshape(-1)[:LENGTH - 1].tolist() and out[LENGTH - 1] == 7


@pytest.mark.parametrize("gpu", ["sm_75", *GPUS])
def test_carried_addresses_and_the_tile_of_the_iteration_before(gpu: str) -> None:
    ptx, loads = compiled(unaligned(CARRIED), gpu)
    assert loads > 1
    for first, last, step in TRIPS:
        x = np.random.default_rng(last).integers(-8, 8, LENGTH - 1).astype(np.float32)
        out = np.full(LENGTH, 7, np.float32)
        simulate(ptx, args=[x, x, out, np.int32(first), np.int32(last), np.int32(step)])
        taken = tiles(x)[first:last:step]
        want = (taken[1:] * taken[:-1]).sum(0) if len(taken) else np.zeros(TILE)
        assert out[:TILE].tolist() == want.tolist()


def test_addresses_that_are_long_only_together() -> None:
    """The loops begin with 0: the chains lead to the counter."""
    ptx, loads = compiled(far_away(UNALIGNED), "sm_90")
    assert loads == 2 * ROUNDS
    for last in (0, 3, 4, 7, 9):
        x, y = np.random.default_rng(last).integers(-8, 8, (2, LENGTH - 1)).astype(np.float32)
        out = np.full(LENGTH, 7, np.float32)
        simulate(ptx, args=[x, y, out, np.int32(0), np.int32(last), np.int32(1)])
        assert out[:TILE].tolist() == (tiles(x) * tiles(y))[:last].sum(0).tolist()


def test_loops_that_load_what_they_store_stay() -> None:
    _, loads = compiled(unaligned(IN_PLACE), "sm_100")
    assert loads == 1


@pytest.mark.parametrize("wishes", [
    {"schedule": ScheduleOptions(stages=1)}, {"without": frozenset({"pipelines"})}, {"prefetch": False}])
def test_loads_that_are_to_stay_in_their_iteration_keep_the_loop(wishes: dict[str, Any]) -> None:
    assert compiled(unaligned(CARRIED), "sm_100")[1] == 8
    assert compiled(unaligned(CARRIED), "sm_100", **wishes)[1] == 1


def test_code_isnt_repeated_below_the_highest_level() -> None:
    assert compiled(UNALIGNED, "sm_100", level=2)[1] == 2


def test_a_load_agent_that_turns_large_tiles_goes_one_iteration_at_a_time() -> None:
    """4 KiB of bytes that it turns on their way: one copy by the engine beside them stands in its loop, not four."""
    assert runner.compile_case("gemm_u8_i8_i32", "sm_90").ptx.count("complete_tx::bytes [") == 1
