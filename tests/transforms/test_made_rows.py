"""Products whose rows threads make are begun by a warp of their own: right for every trip count and order, where it can be so; left
alone where the loop runs several times, or sums are wanted inside."""
from __future__ import annotations

import pathlib

import numpy as np
import pytest

import tileiras
from tests.transforms.test_gathered_rings import compiled
from tileiras.sim import simulate
from tileiras.tools.tileiras_translate import to_bytecode

PROGRAM = (pathlib.Path(__file__).parents[1] / "filecheck" / "passes" / "separate-made-rows.mlir").read_text()
STEP = "%a = mulf %x, %all : tile<64x64xf16>"
"""Which makes the rows."""


def inputs() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    x = rng.integers(-3, 4, (64, 4096)).astype(np.float16)
    return x, rng.integers(-2, 3, 4096).astype(np.float16), rng.integers(-1, 2, (4096, 128)).astype(np.float16)


@pytest.mark.parametrize("gpu", ["sm_100", "sm_103", "sm_110"])
def test_rows_are_right_for_every_trip_count(gpu: str) -> None:
    ptx, _ = compiled(PROGRAM, gpu)
    assert ".reqntid 192" in ptx and "tcgen05.mma" in ptx
    x, gain, w = inputs()
    for seed, trips in enumerate((0, 1, 2, 3, 7)):
        out = np.full((64, 128), np.nan, np.float16)
        report = simulate(ptx, args=[x, gain, w, out, np.int32(trips)], seed=seed)
        k = 64 * trips
        want = (x[:, :k] * gain[:k]).astype(np.float32) @ w[:k].astype(np.float32)
        assert not report.findings
        assert (out == want.astype(np.float16)).all()


@pytest.mark.parametrize("level", [1, 2])
def test_there_is_no_such_warp_below_o3(level: int) -> None:
    ptx = tileiras.compile(to_bytecode(PROGRAM), "sm_100", opt_level=level).ptx
    assert "tcgen05.mma" in ptx and ".reqntid 192" not in ptx


def test_sums_that_an_iteration_reads_keep_products_with_the_threads() -> None:
    """Half of the sums goes on, so that threads load them in each iteration."""
    half = STEP + "\n      %b = constant <f32: 0.5> : tile<64x128xf32>"
    text = PROGRAM.replace(STEP, half).replace("continue %d :", "%e = mulf %d, %b : tile<64x128xf32>\n      continue %e :")
    ptx, _ = compiled(text, "sm_100")
    assert "tcgen05.mma" in ptx and ".reqntid 192" not in ptx
    x, gain, w = inputs()
    out = np.full((64, 128), np.nan, np.float16)
    assert not simulate(ptx, args=[x, gain, w, out, np.int32(3)], seed=1).findings
    want = np.zeros((64, 128), np.float32)
    for k in range(0, 192, 64):
        want = (want + (x[:, k:k + 64] * gain[k:k + 64]).astype(np.float32) @ w[k:k + 64].astype(np.float32)) / 2
    assert (out == want.astype(np.float16)).all()
