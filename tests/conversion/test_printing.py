"""Prints of many blocks: each whole, whatever the others print at the time."""
from __future__ import annotations

import cuda.tile as ct
import numpy as np
import pytest

import tileiras
from tileiras.sim import simulate
from tileiras.sim.cutile import export

BLOCKS, MANY = 6, 36


@ct.kernel
def tiles(x, n: ct.Constant[int]):
    ct.printf("tile[%d]:%d, %d%%\n", ct.bid(0), ct.load(x, (ct.bid(0),), (n,)), n)


@ct.kernel
def scalars(x, n: ct.Constant[int]):
    ct.printf("block %d of %d, %d%%\n", ct.bid(0), n, ct.num_blocks(0))


@ct.kernel
def many(x):
    a, b, c, d = ct.bid(0), ct.bid(0) + 1, ct.bid(0) + 2, ct.bid(0) + 3
    ct.printf("%d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d %d\n",
              a, b, c, d, a, b, c, d, a, b, c, d, a, b, c, d, a, b, c, d, a, b, c, d, a, b, c, d, a, b, c, d, a, b, c, d)


@pytest.mark.parametrize("opt_level", [0, 3])
@pytest.mark.parametrize("count", [8, 512])
def test_tiles_of_blocks_do_not_interleave(count: int, opt_level: int) -> None:
    """An H100 prints the pieces of several blocks by turns where nothing keeps them apart; so do the simulator's blocks."""
    x = np.arange(BLOCKS * count, dtype=np.int32)
    made = export(tiles, (x, count), "sm_90")
    ptx = tileiras.compile(made.bytecode, "sm_90", opt_level=opt_level).ptx
    report = simulate(ptx, kernel=made.symbol, grid=(BLOCKS, 1, 1), args=list(made.flat))
    rows = x.reshape(BLOCKS, count)
    assert sorted(report.output.splitlines()) == sorted(
        f"tile[{i}]:[{', '.join(map(str, row))}], {count}%" for i, row in enumerate(rows.tolist()))
    assert not report.findings and "exch.b32" in ptx


def test_a_print_of_scalars_is_one_call() -> None:
    made = export(scalars, (np.zeros(8, np.int32), 7), "sm_90")
    ptx = tileiras.compile(made.bytecode, "sm_90").ptx
    assert ptx.count("vprintf, ") == 1 and "exch.b32" not in ptx
    report = simulate(ptx, kernel=made.symbol, grid=(3, 1, 1), args=list(made.flat))
    assert sorted(report.output.splitlines()) == [f"block {i} of 7, 3%" for i in range(3)]


def test_prints_of_more_scalars_than_a_call_takes() -> None:
    """`vprintf` takes 32 arguments, and prints what the format says of others as it is."""
    made = export(many, (np.zeros(8, np.int32),), "sm_90")
    report = simulate(tileiras.compile(made.bytecode, "sm_90").ptx, kernel=made.symbol, grid=(3, 1, 1), args=list(made.flat))
    assert sorted(report.output.splitlines()) == [" ".join(str(i + n % 4) for n in range(MANY)) for i in range(3)]
    assert not report.findings
