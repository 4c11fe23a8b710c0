"""CUDA Tile C++ through the compiler: each kernel of kernels.cu computes what NumPy does, on SMs of each kind, at -O0 and -O3."""
from __future__ import annotations

import hashlib
import math
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tileiras
from tests.programs.programs import draw, wide
from tests.tilecpp import make

SMS = ("sm_80", "sm_90", "sm_100", "sm_120")
ORDERS = 5


@dataclass
class Launch:
    """symbol: a part of the kernel's name. expected: of arguments by their number."""

    symbol: str
    grid: tuple[int, ...]
    args: list[Any]
    expected: dict[int, np.ndarray]
    tolerance: float = 0.0
    orders: int = field(default=1)


LAUNCHES: dict[str, Callable[[], Launch]] = {}


def launch(make_launch: Callable[[], Launch]) -> Callable[[], Launch]:
    LAUNCHES[make_launch.__name__] = make_launch
    return make_launch


@launch
def add_vectors() -> Launch:
    """Of a length that nothing divides: two whole tiles, and one that ends in the middle of eight elements."""
    n = 2 * 1024 + 333
    a, b = draw(n), draw(n, seed=1)
    return Launch("add_vectors", (3,), [a, b, np.zeros_like(a), np.uint64(n)], {2: a + b})


@launch
def axpy() -> Launch:
    n = 3 * 512 - 7
    x, y = draw(n, dtype=np.float32), draw(n, dtype=np.float32, seed=1)
    return Launch("axpy", (3,), [np.float32(1.5), x, y, np.int32(n)], {2: wide(x) * 1.5 + y}, 1e-6)


@launch
def gelu() -> Launch:
    n = 2 * 2048 + 1029
    x = draw(n, dtype=ml_dtypes.bfloat16)
    v = wide(x)
    y = 0.5 * v * (1 + np.tanh(0.7978845608 * (v + 0.044715 * v**3)))
    return Launch("gelu", (3,), [x, np.zeros_like(x), np.int64(n)], {1: y}, 1e-2)


@launch
def turn() -> Launch:
    a = draw(70, 130, dtype=np.float32)
    return Launch("turn", (3, 3), [a, np.zeros((130, 70), np.float32), np.uint64(70), np.uint64(130)], {1: a.T})


@launch
def product() -> Launch:
    """More blocks than there are tiles: some return in the middle."""
    m, n, k = 50, 70, 75
    a, b = draw(m, k), draw(k, n, seed=1)
    return Launch("product", (3, 2), [np.zeros((m, n), np.float32), a, b, np.int32(m), np.int32(n), np.int32(k)],
                  {0: wide(a) @ wide(b)}, 1e-4)


@launch
def product_told() -> Launch:
    m, n, k = 128, 64, 320
    a, b = draw(m, k), draw(k, n, seed=1)
    return Launch("product_told", (2, 1), [np.zeros((m, n), np.float32), a, b, np.int32(m), np.int32(n), np.int32(k)],
                  {0: wide(a) @ wide(b)}, 1e-4, ORDERS)


@launch
def batched() -> Launch:
    a, b = draw(3, 96, 72), draw(3, 72, 128, seed=1)
    return Launch("batchedI6__halfLi64E", (4,), [a, b, np.zeros((3, 96, 128), np.float16)], {2: wide(a) @ wide(b)}, 5e-3, ORDERS)


@launch
def batched_by_two() -> Launch:
    """Two CTAs share each tile; a block goes through several."""
    a, b = draw(2, 256, 192), draw(2, 192, 512, seed=1)
    return Launch("batchedI6__halfLi256E", (2,), [a, b, np.zeros((2, 256, 512), np.float16)], {2: wide(a) @ wide(b)}, 2e-2, 2)


@launch
def norm() -> Launch:
    x, w = draw(30, 256), draw(256, seed=1)
    v = wide(x)
    mean = v.mean(1, keepdims=True)
    y = (v - mean) / np.sqrt((v * v).mean(1, keepdims=True) - mean * mean + 1e-5) * wide(w)
    return Launch("norm", (3,), [x, np.zeros_like(x), w, np.zeros(30, np.float32)], {1: y, 3: mean[:, 0]}, 5e-3, ORDERS)


@launch
def sliced() -> Launch:
    """A sparse matrix in slices of 16 rows, columns after columns, times a vector; the last slice has rows left over."""
    rng = np.random.default_rng(0)
    rows, length, slices = 42, 50, 3
    widths = np.array([8, 11, 3], np.int32)
    begins = np.concatenate([[0], np.cumsum(widths[:-1] * 16)]).astype(np.int32)
    columns = rng.integers(0, length, int(widths.sum()) * 16).astype(np.int32)
    values, x = draw(columns.size, dtype=np.float32), draw(length, dtype=np.float32, seed=1)
    places = rng.permutation(rows).astype(np.int32)
    y = np.zeros(rows)
    for s in range(slices):
        for r in range(16):
            if s * 16 + r < rows:
                at = begins[s] + np.arange(widths[s]) * 16 + r
                y[places[s * 16 + r]] = wide(values[at]) @ wide(x[columns[at]])
    return Launch("sliced", (slices,), [np.int32(rows), columns, values, begins, widths, places, x, np.zeros(rows, np.float32)],
                  {7: y}, 1e-5)


@launch
def softmax_rows() -> Launch:
    x = draw(7, 600, dtype=np.float32)
    e = np.exp(wide(x) - x.max(1, keepdims=True))
    return Launch("softmax_rows", (9,), [x, np.zeros_like(x), np.int32(7), np.int32(600)], {1: e / e.sum(1, keepdims=True)}, 1e-5)


@launch
def total() -> Launch:
    n = 4 * 1024 - 5
    x = draw(n, dtype=np.float32)
    return Launch("total", (4,), [x, np.zeros(1, np.float32), np.int32(n)], {1: wide(x).sum(keepdims=True)}, 1e-4)


def attention(symbol: str, tile: int, causal: bool) -> Launch:
    heads, s = 2, 150
    q, k, v = (draw(heads, s, 64, seed=i) for i in range(3))
    scores = wide(q) @ wide(k).transpose(0, 2, 1) / 8
    if causal:
        scores[:, np.triu(np.ones((s, s), bool), 1)] = -math.inf
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return Launch(symbol, (-(-s // tile), heads), [q, k, v, np.zeros_like(q), np.int32(heads), np.int32(s), np.float32(1 / 8)],
                  {3: p / p.sum(-1, keepdims=True) @ wide(v)}, 5e-3, ORDERS)


@launch
def attend_causal() -> Launch:
    return attention("attendILi64E", 64, True)


@launch
def attend() -> Launch:
    return attention("attendILi128E", 128, False)


@launch
def beyond() -> Launch:
    """Rows behind the third are neither read nor written, whatever the kernel promises."""
    x = draw(3, 64, dtype=np.float32)
    return Launch("beyond", (1,), [x, np.zeros_like(x)], {1: x * 2})


@lru_cache(maxsize=1)
def bytecode() -> bytes:
    return make.BYTECODE.read_bytes()


@lru_cache(maxsize=1)
def symbols() -> list[str]:
    return [e.name for e in tileiras.compile(bytecode(), "sm_90", 0, emit="ptx").entries]


@pytest.mark.parametrize("sm, level", [("sm_90", 0), *((sm, 3) for sm in SMS)])
@pytest.mark.parametrize("name", LAUNCHES)
def test_kernels_compute_what_they_say(name: str, sm: str, level: int) -> None:
    drawn = LAUNCHES[name]()
    symbol, = [s for s in symbols() if re.fullmatch(rf"{drawn.symbol}|_Z\d+{drawn.symbol}.*", s)]
    for seed in range(drawn.orders if level else 1):
        args = [a.copy() if isinstance(a, np.ndarray) else a for a in drawn.args]
        tileiras.launch(bytecode(), drawn.grid, args, gpu_name=sm, opt_level=level, name=symbol, seed=seed)
        for at, want in drawn.expected.items():
            np.testing.assert_allclose(wide(args[at]), wide(want), rtol=drawn.tolerance, atol=drawn.tolerance)


def test_the_bytecode_is_of_this_source() -> None:
    assert make.DIGEST.read_text().strip() == hashlib.sha256(make.SOURCE.read_bytes()).hexdigest(), \
        "kernels.cu changed: python -m tests.tilecpp.make"


def test_nvccs_command_line(tmp_path: pathlib.Path) -> None:
    """What `nvcc -tilecubin` calls, without and with -lineinfo and -G."""
    command = pathlib.Path(sys.executable).parent / "tileiras"
    for options in ([], ["--lineinfo"], ["--device-debug", "--opt-level=0", "--lineinfo"]):
        out = tmp_path / "out.cubin"
        done = subprocess.run([command, "--host-arch=x86_64", "--host-os=linux", "-arch=sm_90", *options, make.BYTECODE, "-o", out],
                              capture_output=True, text=True, env={**os.environ, "TILEIRAS_LINGER": "0"})
        assert done.returncode == 0, done.stderr
        assert out.read_bytes()[:4] == b"\x7fELF"
        out.unlink()
