"""Kernels that the original compiler crashed on or refused, as its users reported them, written anew from the descriptions.

They aren't part of the suite's fixed 568 cases. Each is a `Regression`: a kernel, the arguments of a launch drawn at random,
and what NumPy says the outputs are. The numbers in `reported` are issues of cuTile Python (cutile) and of the public
definition (cuda-tile).
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cuda.tile as ct
import ml_dtypes
import numpy as np

ConstInt = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@dataclass(frozen=True)
class Regression:
    """`draw(rng)`: the arguments of a launch. `expected(*arguments)`: {argument: what it must hold}. `printed`: what the
    kernel prints."""
    name: str
    reported: str
    kernel: Any
    grid: tuple[int, ...]
    draw: Callable[[np.random.Generator], tuple]
    expected: Callable[..., dict[int, np.ndarray]]
    rtol: float = 1e-5
    atol: float = 1e-5
    printed: str = ""


REGRESSIONS: list[Regression] = []


def regression(name: str, reported: str, kernel: Any, grid: tuple[int, ...], draw: Any, expected: Any, **options: Any) -> None:
    REGRESSIONS.append(Regression(name, reported, kernel, grid, draw, expected, **options))


# ---- raw and tiled accesses to one array, mixed in nested reductions

ROWS, COLUMNS, PANELS, PER_PANEL = 64, 16, 2, 2


@ct.kernel
def orthogonalize(matrix, vectors):
    """Columns are read through raw memory and kept as unit vectors; tiles of the same array lose their parts along them."""
    memory = matrix.get_raw_memory()
    rows = ct.arange(ROWS, dtype=ct.int32)
    for panel in range(PANELS):
        for j in range(PER_PANEL):
            column = panel * PER_PANEL + j
            values = memory.load_offset(rows * COLUMNS + column)
            ct.store(vectors, index=(column, 0), tile=(values / ct.sqrt(ct.sum(values * values)))[None, :])
        for j in range(PER_PANEL):
            v = ct.load(vectors, index=(panel * PER_PANEL + j, 0), shape=(1, ROWS)).reshape((ROWS, 1))
            for part in range(COLUMNS // 8):
                tile = ct.load(matrix, index=(0, part), shape=(ROWS, 8))
                ct.store(matrix, index=(0, part), tile=tile - v * ct.sum(v * tile, axis=0, keepdims=True))


def orthogonalized(matrix, vectors):
    a, v = matrix.astype(np.float64), np.zeros((PANELS * PER_PANEL, ROWS))
    for panel in range(PANELS):
        columns = range(panel * PER_PANEL, (panel + 1) * PER_PANEL)
        for c in columns:
            v[c] = a[:, c] / np.linalg.norm(a[:, c])
        for c in columns:
            a -= np.outer(v[c], v[c] @ a)
    return {0: a, 1: v}


regression("raw_and_tiled_in_nested_reductions", "cutile 95", orthogonalize, (1,),
           lambda rng: (rng.standard_normal((ROWS, COLUMNS), np.float32) + 3 * np.eye(ROWS, COLUMNS, dtype=np.float32),
                        np.zeros((PANELS * PER_PANEL, ROWS), np.float32)), orthogonalized, rtol=1e-3, atol=1e-4)


# ---- loads and stores through aliased advanced indices, round a reduction and round a product

@ct.kernel
def row_sums_in_place(x):
    row = ct.arange(4, dtype=ct.int32)
    tile = ct.load_advanced_indexing(x, (row, ct.Slice(0, 32)))
    total = ct.sum(tile, axis=1, keepdims=True)
    ct.store_advanced_indexing(x, (row, ct.Slice(0, 32)), tile - total)


regression("aliased_indices_round_a_reduction", "cutile 94", row_sums_in_place, (1,),
           lambda rng: (rng.integers(-9, 9, (6, 32)).astype(np.float32),),
           lambda x: {0: np.concatenate([x[:4] - x[:4].sum(1, keepdims=True), x[4:]])}, rtol=0, atol=0)


@ct.kernel
def row_product_in_place(x):
    row = ct.arange(1, dtype=ct.int32)
    tile = ct.load_advanced_indexing(x, (row, ct.Slice(0, 32))).reshape((1, 32))
    ct.store_advanced_indexing(x, (row, ct.Slice(0, 32)), ct.matmul(ct.full((1, 1), 3.0, ct.float32), tile))


regression("aliased_indices_round_a_product", "cutile 94", row_product_in_place, (1,),
           lambda rng: (rng.integers(-9, 9, (2, 32)).astype(np.float32),),
           lambda x: {0: np.stack([3 * x[0], x[1]])}, rtol=0, atol=0)


# ---- occupancy hints that can't be met

def left_panel(a, below, out, BLOCK: ConstInt, WIDE: ConstInt):
    """A Cholesky factor of a BLOCK x BLOCK tile, column by column in registers, then a product with it."""
    i = ct.bid(0)
    tile = ct.load(a, index=(i, 0), shape=(BLOCK, BLOCK), padding_mode=ZERO)
    columns = ct.arange(BLOCK, dtype=ct.int32)[None, :]
    rows = ct.arange(BLOCK, dtype=ct.int32)[:, None]
    factor = ct.zeros((BLOCK, BLOCK), ct.float32)
    for p in range(BLOCK):
        pivot = ct.sqrt(ct.extract(tile, (p, p), shape=(1, 1)))
        column = ct.where(rows >= p, ct.extract(tile, (0, p), shape=(BLOCK, 1)) / pivot, 0.0)
        factor = ct.where(columns == p, column, factor)
        tile = tile - column * column.transpose(0, 1)
    ct.store(a, index=(i, 0), tile=factor)
    wide = ct.load(below, index=(i, 0), shape=(BLOCK, WIDE))
    ct.store(out, index=(i, 0), tile=ct.mma(factor, wide, ct.zeros((BLOCK, WIDE), ct.float32)))


BLOCK = 16


def positive(rng):
    m = rng.standard_normal((BLOCK, BLOCK))
    return (m @ m.T + BLOCK * np.eye(BLOCK)).astype(np.float32), rng.standard_normal((BLOCK, 2 * BLOCK), np.float32)


def factored(a, below, out, block, wide):
    factor = np.linalg.cholesky(a.astype(np.float64))
    return {0: factor, 2: factor @ below.astype(np.float64)}


for hint in (2, 32):
    regression(f"occupancy_of_{hint}", "cutile 96", ct.kernel(occupancy=hint)(left_panel), (1,),
               lambda rng: (*positive(rng), np.zeros((BLOCK, 2 * BLOCK), np.float32), BLOCK, 2 * BLOCK), factored,
               rtol=1e-2, atol=2e-2)          # f32 products go through tf32


# ---- loops of products, of a length that only the launch knows, round a 128 x 64 panel

@ct.kernel
def update_panel(left, top, panel, steps: int):
    """panel -= left[:, k] @ top[k, :], twice: over all steps, then over those before each."""
    acc = ct.load(panel, index=(0, 0), shape=(128, 64))
    for p in range(steps):
        for k in range(p):
            acc = acc - ct.mma(ct.load(left, index=(0, k), shape=(128, 32)), ct.load(top, index=(k, 0), shape=(32, 64)),
                               ct.zeros((128, 64), ct.float32))
        acc = ct.mma(ct.load(left, index=(0, p), shape=(128, 32)), ct.load(top, index=(p, 0), shape=(32, 64)), acc)
        ct.store(panel, index=(p % 2, 0), tile=acc)


def updated(left, top, panel, steps):
    a, b, out = left.astype(np.float64), top.astype(np.float64), panel.astype(np.float64)
    acc = out[:128].copy()
    for p in range(steps):
        for k in range(p):
            acc -= a[:, 32 * k:32 * k + 32] @ b[32 * k:32 * k + 32]
        acc += a[:, 32 * p:32 * p + 32] @ b[32 * p:32 * p + 32]
        out[128 * (p % 2):128 * (p % 2) + 128] = acc
    return {2: out}


regression("products_round_a_panel", "cutile 97", update_panel, (1,),
           lambda rng: (rng.integers(-2, 3, (128, 96)).astype(np.float16), rng.integers(-2, 3, (96, 64)).astype(np.float16),
                        rng.integers(-9, 9, (256, 64)).astype(np.float32), 3), updated, rtol=0, atol=0)


# ---- a mixture of experts: rows gathered by an index that is loaded, products in a loop, rows scattered back

TM, TN, TK = 32, 32, 16


@ct.kernel
def expert_product(a, b, c, tokens):
    rows = ct.gather(tokens, ct.arange(TM, dtype=ct.int32))
    columns = ct.bid(0) * TN + ct.arange(TN, dtype=ct.int32)
    acc = ct.zeros((TM, TN), ct.float32)
    k = 0
    while k < ct.cdiv(a.shape[1], TK):
        inner = k * TK + ct.arange(TK, dtype=ct.int32)
        part = ct.gather(a, (rows[:, None], inner[None, :]))
        acc = ct.mma(part, ct.load(b, index=(k, ct.bid(0)), shape=(TK, TN), padding_mode=ZERO), acc)
        k += 1
    ct.scatter(c, (rows[:, None], columns[None, :]), acc.astype(ct.float16))


def expert_drawn(rng):
    tokens = np.full(TM, 99, np.int32)              # slots without a token point past the end
    tokens[:20] = rng.permutation(40)[:20]
    return (rng.integers(-3, 4, (40, 40)).astype(np.float16), rng.integers(-3, 4, (40, 64)).astype(np.float16),
            np.zeros((40, 64), np.float16), tokens)


def expert_expected(a, b, c, tokens):
    out, used = c.copy(), tokens[tokens < len(a)]
    out[used] = (a.astype(np.float64) @ b.astype(np.float64))[used].astype(np.float16)
    return {2: out}


regression("experts_gather_and_scatter", "cuda-tile 17", expert_product, (2,), expert_drawn, expert_expected, rtol=0, atol=0)


@ct.kernel
def scatter_by_token(out, tokens, used: int, stride: int):
    """A two-dimensional scatter by raw offsets, whose rows come from memory under a mask."""
    slot = ct.arange(64, dtype=ct.int32)
    live = slot < used
    row = tokens.get_raw_memory().load_offset(slot, mask=live, padding_value=0)
    column = ct.bid(0) * 16 + ct.arange(16, dtype=ct.int32)
    value = (row[:, None] + column[None, :]).astype(ct.float16)
    out.get_raw_memory().store_offset(row[:, None] * stride + column[None, :], value,
                                      mask=live[:, None] & (column[None, :] < stride))


def scattered(out, tokens, used, stride):
    want = out.copy()
    for row in tokens[:used]:
        want[row] = (row + np.arange(stride)).astype(np.float16)
    return {0: want}


regression("scatter_by_rows_from_memory", "cuda-tile 19", scatter_by_token, (2,),
           lambda rng: (np.full((70, 24), -1, np.float16), rng.permutation(70)[:64].astype(np.int32), 50, 24), scattered,
           rtol=0, atol=0)


# ---- a printed f16 constant beside fp8

@ct.kernel
def print_constant(x, out):
    one = ct.full((), 1.5, ct.float16)
    ct.printf("constant %f\n", one)
    tile = ct.load(x, index=(0,), shape=(32,)).astype(ct.float32) * one.astype(ct.float32)
    ct.store(out, index=(0,), tile=tile.astype(ct.float8_e4m3fn))


def drawn_fp8(rng):
    return rng.integers(-8, 9, 32).astype(ml_dtypes.float8_e4m3fn), np.zeros(32, ml_dtypes.float8_e4m3fn)


regression("a_printed_f16_constant_with_fp8", "cutile 54", print_constant, (1,), drawn_fp8,
           lambda x, out: {1: (x.astype(np.float32) * 1.5).astype(ml_dtypes.float8_e4m3fn)}, rtol=0, atol=0,
           printed="constant 1.500000\n")


# ---- first programs that ended in "return code 5" without a place: a sum in tiles of 16, with f64, and one by gathers

@ct.kernel
def add_tiles(a, b, out):
    i = ct.bid(0)
    ct.store(out, index=(i,), tile=ct.load(a, index=(i,), shape=(16,)) + ct.load(b, index=(i,), shape=(16,)))


@ct.kernel
def add_gathered(a, b, out, TILE: ConstInt):
    at = ct.bid(0) * TILE + ct.arange(TILE, dtype=ct.int32)
    ct.scatter(out, at, ct.gather(a, at) + ct.gather(b, at))


for dtype in ("float64", "float32"):
    regression(f"sum_of_{dtype}", "cutile 6, 53, 72", add_tiles, (2,),
               lambda rng, dtype=dtype: (np.ones(32, dtype), rng.integers(-9, 9, 32).astype(dtype), np.zeros(32, dtype)),
               lambda a, b, out: {2: a + b}, rtol=0, atol=0)
regression("sum_by_gathers", "cutile 72", add_gathered, (4,),
           lambda rng: (np.ones(1000, np.float32), rng.integers(-9, 9, 1000).astype(np.float32), np.zeros(1000, np.float32), 256),
           lambda a, b, out, tile: {2: a + b}, rtol=0, atol=0)
