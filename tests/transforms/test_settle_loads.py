"""What loops carry that was loaded: ahead of its iteration, once for all, by other accesses in the first iteration."""
from __future__ import annotations

from typing import Any

import cuda.tile as ct
import numpy as np
import pytest

import tileiras
from tests.fuzz.levels import lowered
from tests.kernels import runner
from tileiras.bytecode import read


@ct.kernel
def ahead(a, w, out):       # type: ignore[no-untyped-def]
    """Each iteration multiplies twice by a tile that the one before has loaded."""
    x = ct.load(a, (0, 0), (16, 16))
    acc = ct.zeros((16, 16), ct.float32)
    for i in range(1, ct.num_tiles(a, 0, (16, 16))):
        following = ct.load(a, (i, 0), (16, 16))
        first = ct.mma(x, ct.load(w, (0, 0), (16, 16)), ct.zeros((16, 16), ct.float32))
        acc = ct.mma(first.astype(ct.float16), x, acc)
        x = following
    ct.store(out, (0, 0), ct.mma(x, x, acc))


@ct.kernel
def once(a, w, out):        # type: ignore[no-untyped-def]
    """The second iteration's tile, which is all others', too, is loaded before the loop."""
    x, y = ct.load(a, (0, 0), (16, 16)), ct.load(a, (1, 0), (16, 16))
    acc = ct.zeros((16, 16), ct.float32)
    for _ in range(1, ct.num_tiles(a, 0, (16, 16))):
        acc = ct.mma(x, ct.load(w, (0, 0), (16, 16)), acc)
        x = y
    ct.store(out, (0, 0), acc + x.astype(ct.float32))


def product(kernel: Any, a: np.ndarray, w: np.ndarray) -> np.ndarray:
    tiles = a.astype(np.float64).reshape(-1, 16, 16)
    wide = w.astype(np.float64)
    if kernel is ahead:
        return sum(((t @ wide) @ t for t in tiles[:-1]), tiles[-1] @ tiles[-1])      # type: ignore[no-any-return]
    return tiles[0] @ wide + (len(tiles) - 2) * tiles[1] @ wide + tiles[1]           # type: ignore[no-any-return]


@pytest.mark.parametrize("rows", [64, 16 * 5])
@pytest.mark.parametrize("kernel", [ahead, once])
@pytest.mark.parametrize("gpu", ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"])
def test_carried_tiles_are_what_was_loaded(kernel: Any, rows: int, gpu: str) -> None:
    rng = np.random.default_rng(rows)
    a = rng.integers(-2, 3, (rows, 16)).astype(np.float16)
    w, out = rng.integers(-1, 2, (16, 16)).astype(np.float16), np.zeros((16, 16), np.float32)
    tileiras.launch(kernel, 1, (a, w, out), gpu_name=gpu)
    assert np.array_equal(out, product(kernel, a, w))


def test_products_by_fma_are_left_alone() -> None:
    """ptxas chooses the order in which they read shared memory; the filecheck test has products of tensor cores."""
    text = lowered(read(runner.export_case("retention_chunked_f32_ragged")), "nv_tileas", "sm_90", 3)
    assert '"nv_tileas.dot"' in text and "as_loaded" in text and "nv_tileas.settle" not in text
