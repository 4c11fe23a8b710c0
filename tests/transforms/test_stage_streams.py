"""Loops without products that read ahead through rings: right for every trip count and in every order of threads and copies, also
where they store into what no later iteration reads, and out of bounds; a loop whose tiles depend on what it stores stays serial."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tileiras
from tileiras.bytecode import write
from tileiras.compiler import compile_module
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target
from tileiras.sim import simulate

TILE, LENGTH = 256, 2000
VIEW = f"partition_view<tile=({TILE}), tensor_view<{LENGTH}xf32, strides=[1]>>"
PADDED = f"partition_view<tile=({TILE}), padding_value = zero, tensor_view<{LENGTH}xf32, strides=[1]>>"
HEAD = f"""cuda_tile.module @m {{
  entry @kernel(%p: tile<ptr<f32>>, %q: tile<ptr<f32>>, %o: tile<ptr<f32>>, %from: tile<i32>, %to: tile<i32>, %by: tile<i32>) {{
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %start = constant <f32: 0.0> : tile<{TILE}xf32>
    %pa = assume div_by<16>, %p : tile<ptr<f32>>
    %qa = assume div_by<16>, %q : tile<ptr<f32>>
    %wp = make_tensor_view %pa, shape = [{LENGTH}], strides = [1] : tensor_view<{LENGTH}xf32, strides=[1]>
    %wq = make_tensor_view %qa, shape = [{LENGTH}], strides = [1] : tensor_view<{LENGTH}xf32, strides=[1]>
    %wo = make_tensor_view %o, shape = [{LENGTH}], strides = [1] : tensor_view<{LENGTH}xf32, strides=[1]>
    %vp = make_partition_view %wp : {PADDED}
    %vq = make_partition_view %wq : {PADDED}
    %vo = make_partition_view %wo : {VIEW}
"""


def load(name: str, view: str, token: str = "%t") -> str:
    return f"%{name}, %t{name} = load_view_tko weak {view}[%k] token = {token} : {PADDED}, tile<i32> -> tile<{TILE}xf32>, token\n"


def store(value: str, view: str, at: str, name: str, token: str = "%t", kind: str = VIEW) -> str:
    types = f"tile<{TILE}xf32>, {kind}, tile<i32> -> token"
    return f"%{name} = store_view_tko weak {value}, {view}[{at}] token = {token} : {types}\n"


SUM = f"""{HEAD}
    %sum = for %k in (%from to %to, step %by) : tile<i32> iter_values(%acc = %start) -> (tile<{TILE}xf32>) {{
      {load("x", "%vp")}{load("y", "%vq")}
      %xy = mulf %x, %y : tile<{TILE}xf32>
      %more = addf %acc, %xy : tile<{TILE}xf32>
      continue %more : tile<{TILE}xf32>
    }}
    {store("%sum", "%vo", "%zero", "e")}
    return
  }}
}}
"""
ELEMENTWISE = f"""{HEAD}
    for %k in (%from to %to, step %by) : tile<i32> {{
      {load("x", "%vp")}{load("y", "%vq")}
      %xy = addf %x, %y : tile<{TILE}xf32>
      {store("%xy", "%vo", "%k", "e")}
      continue
    }}
    return
  }}
}}
"""
IN_PLACE = f"""{HEAD}
    %last = for %k in (%from to %to, step %by) : tile<i32> iter_values(%u = %t) -> (token) {{
      {load("x", "%vp", "%u")}
      %xy = addf %x, %x : tile<{TILE}xf32>
      {store("%xy", "%vp", "%k", "e", "%tx", PADDED)}
      continue %e : token
    }}
    return
  }}
}}
"""
TRIPS = [(0, 8, 1), (0, 0, 1), (3, 4, 1), (0, 2, 1), (1, 8, 3), (0, 5, 2)]


def compiled(text: str, gpu: str) -> Any:
    return tileiras.compile(write(parse_module(text), "13.3"), gpu_name=gpu, opt_level=3)


def tiles(x: np.ndarray) -> np.ndarray:
    return np.pad(x, (0, -len(x) % TILE)).reshape(-1, TILE)


def runs(ptx: str, length: int, drawn: int) -> Iterator[tuple[slice, np.ndarray, np.ndarray, np.ndarray]]:
    """A run for each of TRIPS, each in another order of asynchronous operations, without findings: its tiles, x, y and the result
    over sevens."""
    rng = np.random.default_rng(drawn)
    for seed, (first, last, step) in enumerate(TRIPS):
        x, y = rng.integers(-8, 8, (2, length)).astype(np.float32)
        out = np.full(LENGTH, 7, np.float32)
        report = simulate(ptx, args=[x, y, out, np.int32(first), np.int32(last), np.int32(step)], seed=seed)
        assert not report.findings
        yield slice(first, last, step), x, y, out


def gives_sums(ptx: str, length: int = LENGTH) -> None:
    """SUM's result: the sum of products of tiles."""
    for trip, x, y, out in runs(ptx, length, 1):
        assert out[:TILE].tolist() == (tiles(x) * tiles(y))[trip].sum(0).tolist() and (out[TILE:] == 7).all()


def gives_tiles(ptx: str) -> None:
    """ELEMENTWISE's result: sums of elements, where the trip's tiles are."""
    for trip, x, y, out in runs(ptx, LENGTH, 2):
        want = tiles(np.full(LENGTH, 7, np.float32)).copy()
        want[trip] = (tiles(x) + tiles(y))[trip]
        assert out.tolist() == want.reshape(-1)[:LENGTH].tolist()


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_120"])
def test_sums_over_tiles(gpu: str) -> None:
    ptx = compiled(SUM, gpu).ptx
    assert "cp.async.c" in ptx or "cp.async.bulk.tensor" in ptx
    gives_sums(ptx)


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
def test_tiles_that_are_stored_elsewhere(gpu: str) -> None:
    ptx = compiled(ELEMENTWISE, gpu).ptx
    assert "cp.async.c" in ptx or "cp.async.bulk.tensor" in ptx
    gives_tiles(ptx)


def test_what_a_loop_stores_and_loads_stays_in_order() -> None:
    ptx = compiled(IN_PLACE, "sm_90").ptx
    assert "cp.async" not in ptx
    x = np.arange(LENGTH, dtype=np.float32)
    simulate(ptx, args=[x, x.copy(), x.copy(), np.int32(0), np.int32(8), np.int32(1)])
    assert x.tolist() == (2 * np.arange(LENGTH, dtype=np.float32)).tolist()


def test_no_pipelines_no_rings() -> None:
    options = CompileOptions(target=find_target("sm_90"), opt_level=3, without=frozenset({"pipelines"}))
    assert "cp.async" not in compile_module(write(parse_module(SUM), "13.3"), options).ptx


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_120"])
@pytest.mark.parametrize("padding, identity", [("neg_inf", -np.inf), ("nan", np.nan)])
def test_padding_that_is_not_zero(gpu: str, padding: str, identity: float) -> None:
    """The largest elements of tiles, the last of which reaches beyond the array; sums, where that makes them no numbers."""
    text = SUM.replace("padding_value = zero", f"padding_value = {padding}")
    if padding == "neg_inf":
        text = text.replace("%xy = mulf %x, %y", "%xy = maxf %x, %y").replace("%more = addf", "%more = maxf").replace(
            "%start = constant <f32: 0.0>", "%start = constant <f32: 0xFF800000>")
    ptx = compiled(text, gpu).ptx
    assert "cp.async" in ptx
    for seed, (first, last, step) in enumerate(TRIPS):
        x, y = np.random.default_rng(seed).integers(-8, 0, (2, LENGTH)).astype(np.float32)
        out = np.full(LENGTH, 7, np.float32)
        report = simulate(ptx, args=[x, y, out, np.int32(first), np.int32(last), np.int32(step)], seed=seed)
        assert not report.findings
        a, b = (np.pad(v, (0, -LENGTH % TILE), constant_values=identity).reshape(-1, TILE)[first:last:step] for v in (x, y))
        want = np.maximum(a, b).max(0, initial=-np.inf) if padding == "neg_inf" else (a * b).sum(0)
        np.testing.assert_array_equal(out[:TILE], want.astype(np.float32))


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_120"])
def test_large_tiles_are_asked_for_one_iteration_ahead_at_least(gpu: str) -> None:
    """Sums of products of tiles of sixteen kilobytes, the last of which reaches beyond the array."""
    tile, length = 4096, 32000
    text = SUM.replace(str(LENGTH), str(length))
    text = text.replace(f"tile=({TILE})", f"tile=({tile})").replace(f"tile<{TILE}x", f"tile<{tile}x")
    ptx = compiled(text, gpu).ptx
    assert "cp.async.c" in ptx or "cp.async.bulk.tensor" in ptx
    x, y = np.random.default_rng(6).integers(-8, 8, (2, length)).astype(np.float32)
    for seed, (first, last, step) in enumerate(TRIPS):
        out = np.full(length, 7, np.float32)
        report = simulate(ptx, args=[x, y, out, np.int32(first), np.int32(last), np.int32(step)], seed=seed)
        assert not report.findings
        products = np.pad(x * y, (0, -length % tile)).reshape(-1, tile)
        assert out[:tile].tolist() == products[first:last:step].sum(0).tolist() and (out[tile:] == 7).all()
