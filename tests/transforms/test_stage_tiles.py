"""Tiles between registers and views that the copy engine moves: right in every order of threads and engine, beyond an array's end,
in place, in branches, in front of early returns, and where there is nothing at all; what waits for a store is left to threads."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tileiras
from tileiras.analysis import tma_choice
from tileiras.bytecode import write
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.driver.options import WITHOUT
from tileiras.sim import simulate

GPUS = ("sm_90", "sm_120")
SEEDS = range(5)
LOADS, STORES = "cp.async.bulk.tensor.2d.shared", "cp.async.bulk.tensor.2d.global"
PITCH = 136
MEMREF = "tensor_view<?x?xf16, strides=[?,1]>"
VIEW = f"partition_view<tile=(64x64), {MEMREF}>"
ZEROS = f"partition_view<tile=(64x64), padding_value = zero, {MEMREF}>"
NANS = f"partition_view<tile=(64x64), padding_value = nan, {MEMREF}>"


def program(body: str, padded: str = ZEROS) -> str:
    """Arrays p, q and o of %m rows and %n columns; views of tiles %vp, %vq (padded) and %vo."""
    arrays = "".join(f"""
    %{a}a = assume div_by<16>, %{a} : tile<ptr<f16>>
    %w{a} = make_tensor_view %{a}a, shape = [%m, %n], strides = [%sa, 1] : tile<i32> -> {MEMREF}
    %v{a} = make_partition_view %w{a} : {VIEW if a == "o" else padded}""" for a in "pqo")
    return f"""cuda_tile.module @m {{
  entry @kernel(%p: tile<ptr<f16>>, %q: tile<ptr<f16>>, %o: tile<ptr<f16>>, %m: tile<i32>, %n: tile<i32>, %s: tile<i32>) {{
    %x, %y, %z = get_tile_block_id : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %t = make_token : token
    %sa = assume div_by<8>, %s : tile<i32>{arrays}
{body}
    return
  }}
}}
"""


def load(name: str, view: str, at: str, token: str = "%t", kind: str = ZEROS) -> str:
    return f"    %{name}, %t{name} = load_view_tko weak {view}[{at}] token = {token} : {kind}, tile<i32>, tile<i32> -> " \
           "tile<64x64xf16>, token\n"


def store(value: str, view: str, at: str, name: str, token: str = "%t", kind: str = VIEW) -> str:
    return f"    %{name} = store_view_tko weak {value}, {view}[{at}] token = {token} : tile<64x64xf16>, {kind}, tile<i32>, " \
           "tile<i32> -> token\n"


@pytest.fixture(autouse=True)
def by_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `wide-inside`, by which threads are as quick as the engine where rows begin at multiples of 16 bytes."""
    monkeypatch.setenv(WITHOUT, "wide")


def compiled(text: str, gpu: str, level: int = 3) -> str:
    ptx = tileiras.compile(write(parse_module(text), "13.3"), gpu_name=gpu, opt_level=level).ptx
    assert ptx is not None
    return ptx


def array(shape: tuple[int, int], seed: int) -> np.ndarray:
    """Rows with gaps behind them."""
    whole = np.random.default_rng(seed).integers(-8, 9, (shape[0], PITCH)).astype(np.float16)
    return whole[:, :shape[1]]


def run(ptx: str, shape: tuple[int, int], seed: int, grid: tuple[int, int, int] = (2, 2, 1)) -> tuple[Any, Any, np.ndarray]:
    p, q = array(shape, 2 * seed), array(shape, 2 * seed + 1)
    o = np.full((shape[0], PITCH), 7, np.float16)
    report = simulate(ptx, args=[p, q, o[:, :shape[1]], np.int32(shape[0]), np.int32(shape[1]), np.int32(PITCH)], grid=grid,
                      seed=seed)
    assert not report.findings
    assert (o[:, shape[1]:] == 7).all()
    return p, q, o[:, :shape[1]]


SUM = program(load("a", "%vp", "%x, %y") + "    %c = negf %a : tile<64x64xf16>\n" + load("b", "%vq", "%x, %y")
              + "    %d = subf %b, %c : tile<64x64xf16>\n" + store("%d", "%vo", "%x, %y", "e"))


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("shape", [(128, 128), (100, 125), (65, 3), (1, 127)])
def test_two_tiles_added(gpu: str, shape: tuple[int, int]) -> None:
    ptx = compiled(SUM, gpu)
    assert LOADS in ptx and STORES in ptx
    assert LOADS not in compiled(SUM, gpu, 0)
    for seed in SEEDS:
        p, q, o = run(ptx, shape, seed)
        assert o.tolist() == (p + q).tolist()


@pytest.mark.parametrize("gpu", GPUS)
def test_an_array_without_rows_gives_padding_and_takes_nothing(gpu: str) -> None:
    _, _, o = run(compiled(SUM, gpu), (0, 128), 0)
    assert o.shape == (0, 128)


@pytest.mark.parametrize("gpu", GPUS)
def test_a_tile_turned(gpu: str) -> None:
    text = program(load("a", "%vp", "%x, %y") + "    %c = permute %a [1, 0] : tile<64x64xf16> -> tile<64x64xf16>\n"
                   + store("%c", "%vo", "%y, %x", "e"))
    ptx = compiled(text, gpu)
    assert LOADS in ptx or STORES in ptx
    for seed in SEEDS:
        p, _, o = run(ptx, (125, 125), seed)
        assert o.tolist() == p.T.tolist()


@pytest.mark.parametrize("gpu", GPUS)
def test_in_place(gpu: str) -> None:
    text = program(load("a", "%vp", "%x, %y") + "    %c = addf %a, %a : tile<64x64xf16>\n"
                   + store("%c", "%vp", "%x, %y", "e", "%ta", ZEROS))
    ptx = compiled(text, gpu)
    assert LOADS in ptx
    for seed in SEEDS:
        p, _, _ = run(ptx, (100, 125), seed)
        assert p.tolist() == (2 * array((100, 125), 2 * seed)).tolist()


@pytest.mark.parametrize("gpu", GPUS)
def test_what_waits_for_a_store_is_loaded_by_threads(gpu: str) -> None:
    text = program(load("a", "%vp", "%x, %y") + store("%a", "%vo", "%x, %y", "e")
                   + load("b", "%vo", "%x, %y", "%e", VIEW) + "    %c = addf %b, %b : tile<64x64xf16>\n"
                   + store("%c", "%vq", "%x, %y", "f", "%tb", ZEROS))
    ptx = compiled(text, gpu)
    assert ptx.count(LOADS) <= 1
    for seed in SEEDS:
        p, q, o = run(ptx, (100, 125), seed)
        assert o.tolist() == p.tolist() and q.tolist() == (p + p).tolist()


@pytest.mark.parametrize("gpu", GPUS)
def test_padding_that_is_no_number(gpu: str) -> None:
    text = program(load("a", "%vp", "%x, %y", kind=NANS) + "    %c = cmpf not_equal unordered %a, %a : tile<64x64xf16> -> "
                   "tile<64x64xi1>\n    %u = constant <f16: 1.0> : tile<64x64xf16>\n"
                   "    %d = select %c, %u, %a : tile<64x64xi1>, tile<64x64xf16>\n"
                   + store("%d", "%vo", "%zero, %zero", "e"), NANS)
    text = text.replace("%vo = make_partition_view %wo", "%r = constant <i32: 64> : tile<i32>\n    %wr = make_tensor_view %oa, "
                        f"shape = [%r, %r], strides = [%sa, 1] : tile<i32> -> {MEMREF}\n    %vo = make_partition_view %wr")
    ptx = compiled(text, gpu)
    assert LOADS in ptx
    for seed in SEEDS:
        p = array((40, 61), seed)
        o = np.zeros((64, PITCH), np.float16)
        report = simulate(ptx, args=[p, p, o, np.int32(40), np.int32(61), np.int32(PITCH)], seed=seed)
        assert not report.findings
        assert o[:, :64].tolist() == np.pad(p, ((0, 24), (0, 3)), constant_values=1).tolist()


@pytest.mark.parametrize("gpu", GPUS)
def test_in_one_branch_only(gpu: str) -> None:
    text = program("    %first = cmpi equal %x, %zero, signed : tile<i32> -> tile<i1>\n    if %first {\n"
                   + load("a", "%vp", "%x, %y") + load("b", "%vq", "%x, %y") + "    %c = addf %a, %b : tile<64x64xf16>\n"
                   + store("%c", "%vo", "%x, %y", "e") + "    }")
    ptx = compiled(text, gpu)
    assert LOADS in ptx
    for seed in SEEDS:
        p, q, o = run(ptx, (100, 125), seed)
        assert o[:64].tolist() == (p + q)[:64].tolist() and (o[64:] == 7).all()


@pytest.mark.parametrize("gpu", GPUS)
def test_no_load_moves_over_an_early_return(gpu: str) -> None:
    text = program(load("a", "%vp", "%x, %y") + store("%a", "%vo", "%x, %y", "e")
                   + "    %first = cmpi equal %x, %zero, signed : tile<i32> -> tile<i1>\n    if %first {\n      return\n    }\n"
                   + load("b", "%vq", "%x, %y") + store("%b", "%vp", "%x, %y", "f", "%ta", ZEROS))
    ptx = compiled(text, gpu)
    for seed in SEEDS:
        p, q, o = run(ptx, (100, 125), seed)
        assert o.tolist() == array((100, 125), 2 * seed).tolist()
        assert p[:64].tolist() == o[:64].tolist() and p[64:].tolist() == q[64:].tolist()


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("rows", [0, 1, 64, 500])
def test_sums_over_tiles_of_a_loop(gpu: str, rows: int) -> None:
    body = ("    %start = constant <f16: 0.0> : tile<64x64xf16>\n    %c63 = constant <i32: 63> : tile<i32>\n"
            "    %c64 = constant <i32: 64> : tile<i32>\n    %m63 = addi %m, %c63 : tile<i32>\n"
            "    %tiles = divi %m63, %c64 signed : tile<i32>\n"
            "    %sum = for %k in (%zero to %tiles, step %one) : tile<i32> iter_values(%acc = %start) -> (tile<64x64xf16>) {\n"
            + load("a", "%vp", "%k, %y") + load("b", "%vq", "%k, %y") + "    %c = addf %a, %b : tile<64x64xf16>\n"
            "    %more = addf %acc, %c : tile<64x64xf16>\n    continue %more : tile<64x64xf16>\n    }\n"
            + store("%sum", "%vo", "%zero, %y", "e"))
    ptx = compiled(program(body), gpu)
    assert LOADS in ptx
    for seed in SEEDS:
        p, q, o = run(ptx, (rows, 125), seed, (1, 2, 1))
        tiles = np.pad(p + q, ((0, -rows % 64), (0, 0))).reshape(-1, 64, 125)
        assert o[:64].tolist() == tiles.sum(0)[:min(rows, 64)].tolist()


@pytest.mark.parametrize("gpu", GPUS)
def test_padding_that_only_threads_can_fill(gpu: str) -> None:
    """The largest element of each row of a tile, all of which are negative."""
    kind = ZEROS.replace("zero", "neg_inf")
    text = program(load("a", "%vp", "%x, %y", kind=kind)
                   + "    %r = reduce %a dim=1 identities=[0xFC00 : f16] : tile<64x64xf16> -> tile<64xf16>\n"
                   "    (%l: tile<f16>, %k: tile<f16>) {\n      %g = maxf %l, %k : tile<f16>\n      yield %g : tile<f16>\n    }\n"
                   "    %c = reshape %r : tile<64xf16> -> tile<64x1xf16>\n"
                   "    %d = broadcast %c : tile<64x1xf16> -> tile<64x64xf16>\n"
                   + store("%d", "%vo", "%x, %y", "e"), kind)
    ptx = compiled(text, gpu)
    assert LOADS in ptx
    for seed in SEEDS:
        p = array((100, 125), seed) - np.float16(9)
        o = np.zeros((100, PITCH), np.float16)
        rows = np.zeros((100, PITCH), np.float16)
        rows[:, :125] = p
        args = [rows[:, :125], rows, o[:, :125], np.int32(100), np.int32(125), np.int32(PITCH)]
        report = simulate(ptx, args=args, grid=(2, 2, 1), seed=seed)
        assert not report.findings
        assert o[:, :64].tolist() == np.repeat(p[:, :64].max(1, keepdims=True), 64, 1).tolist()
        assert o[:, 64:125].tolist() == np.repeat(p[:, 64:].max(1, keepdims=True), 61, 1).tolist()


REDUCED = "tensor_view<?x?xi32, strides=[?,1]>"
MODES = {"add": np.add, "and": np.bitwise_and, "xor": np.bitwise_xor, "max": np.maximum, "umin": np.minimum}


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("mode", MODES)
def test_reductions_into_an_array(gpu: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two blocks reduce a tile each into one place, wider than the array. The engine does it as if that cost nothing."""
    monkeypatch.setattr(tma_choice, "STORE_FACTOR", 0)
    tma_choice._offer.cache_clear()
    view = f"partition_view<tile=(64x128), {REDUCED}>"
    text = f"""cuda_tile.module @m {{
  entry @kernel(%p: tile<ptr<i32>>, %o: tile<ptr<i32>>, %m: tile<i32>, %n: tile<i32>, %s: tile<i32>) {{
    %x, %y, %z = get_tile_block_id : tile<i32>
    %zero = constant <i32: 0> : tile<i32>
    %t = make_token : token
    %sa = assume div_by<4>, %s : tile<i32>
    %pa = assume div_by<16>, %p : tile<ptr<i32>>
    %oa = assume div_by<16>, %o : tile<ptr<i32>>
    %wp = make_tensor_view %pa, shape = [%m, %n], strides = [%sa, 1] : tile<i32> -> {REDUCED}
    %vp = make_partition_view %wp : {view}
    %wo = make_tensor_view %oa, shape = [%m, %n], strides = [%sa, 1] : tile<i32> -> {REDUCED}
    %vo = make_partition_view %wo : {view}
    %a, %ta = load_view_tko weak %vp[%x, %zero] token = %t : {view}, tile<i32>, tile<i32> -> tile<64x128xi32>, token
    %e = atomic_red_view_tko relaxed device %vo[%zero, %zero], {mode}, %a token = %t : tile<64x128xi32>, {view}, tile<i32>, tile<i32> -> token
    return
  }}
}}
"""     # noqa: E501
    ptx = compiled(text, gpu)
    tma_choice._offer.cache_clear()
    assert f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.{mode.removeprefix('u')}" in ptx
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        p, o = rng.integers(0, 1 << 31, (2, 128, PITCH)).astype(np.int32)
        before = o.copy()
        args = [p[:, :125], o[:, :125], np.int32(128), np.int32(125), np.int32(PITCH)]
        report = simulate(ptx, args=args, grid=(2, 1, 1), seed=seed)
        assert not report.findings
        want = MODES[mode](MODES[mode](before[:64, :125], p[:64, :125]), p[64:, :125])
        assert o[:64, :125].tolist() == want.tolist() and (o[64:] == before[64:]).all() and (o[:, 125:] == before[:, 125:]).all()


@pytest.mark.parametrize(("elements", "expected"), [(256, False), (1024, True)])
def test_what_is_small_is_loaded_by_threads(elements: int, expected: bool) -> None:
    """Rows that may end at any number: a kilobyte of them is there sooner by the threads' own loads."""
    view = f"partition_view<tile=({elements}), padding_value = zero, tensor_view<?xf32, strides=[1]>>"
    tile = f"tile<{elements}xf32>"
    text = f"""cuda_tile.module @m {{
  entry @kernel(%p: tile<ptr<f32>>, %o: tile<ptr<f32>>, %n: tile<i32>) {{
    %x, %y, %z = get_tile_block_id : tile<i32>
    %pa = assume div_by<16>, %p : tile<ptr<f32>>
    %wp = make_tensor_view %pa, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %wo = make_tensor_view %o, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
    %vp = make_partition_view %wp : {view}
    %vo = make_partition_view %wo : {view}
    %a, %t = load_view_tko weak %vp[%x] : {view}, tile<i32> -> {tile}, token
    %b = addf %a, %a : {tile}
    %s = store_view_tko weak %b, %vo[%x] : {tile}, {view}, tile<i32> -> token
    return
  }}
}}
"""
    assert ("cp.async.bulk.tensor.1d.shared" in compiled(text, "sm_90")) == expected
