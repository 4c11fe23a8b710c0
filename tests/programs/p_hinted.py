"""Hints that ask for more blocks on an SM than rings leave room for: sums of rows that are streamed, products added to an array."""
import cuda.tile as ct
import numpy as np

from tests.programs.programs import Launch, bf16, draw, program, wide

Const = ct.Constant[int]


def sums_of(occupancy):
    @ct.kernel(occupancy=occupancy)
    def kernel(x, out, steps: int, rows: Const, columns: Const):
        """Logarithms of the sums of exponentials, a block has all columns of its rows."""
        i = ct.bid(0)
        m, s = ct.full((rows, 1), -1e38, ct.float32), ct.zeros((rows, 1), ct.float32)
        for j in range(steps):
            a = ct.load(x, (i, j), (rows, columns))
            top = ct.maximum(m, ct.max(a, axis=1, keepdims=True))
            s = s * ct.exp(m - top) + ct.sum(ct.exp(a - top), axis=1, keepdims=True)
            m = top
        ct.store(out, (i, 0), m + ct.log(s))
    return kernel


@program((2, 32, 256, 5), (3, 64, 256, 3), (2, 64, 128, 1), (4, 16, 512, 4), quick=True)
def sums_of_rows_with_hints(occupancy, rows, columns, steps, grid=3):
    x = draw(rows * grid, columns * steps, dtype=np.float32, scale=3)
    return Launch(sums_of(occupancy), (grid,), (x, np.zeros((rows * grid, 1), np.float32), steps, rows, columns),
                  {1: np.log(np.exp(wide(x)).sum(1, keepdims=True))}, 1e-5)


def products_of(occupancy):
    @ct.kernel(occupancy=occupancy)
    def kernel(x, dy, dw, steps: int, tk: Const, tn: Const, tm: Const):
        """dw += x' dy"""
        k, n = ct.bid(0), ct.bid(1)
        acc = ct.zeros((tk, tn), ct.float32)
        for m in range(steps):
            acc = ct.mma(ct.transpose(ct.load(x, (m, k), (tm, tk), latency=10)), ct.load(dy, (m, n), (tm, tn), latency=10), acc)
        ct.store(dw, (k, n), ct.load(dw, (k, n), (tk, tn)) + acc)
    return kernel


@program((np.float16, 4, 128, 128, 64, 5), (bf16, 3, 128, 64, 64, 4), (np.float16, 2, 128, 256, 64, 3), (bf16, 4, 64, 64, 128, 1))
def products_with_hints(dtype, occupancy, tk, tn, tm, steps):
    x, dy, dw = draw(tm * steps, 2 * tk, dtype=dtype), draw(tm * steps, tn, dtype=dtype, seed=1), draw(2 * tk, tn, dtype=np.float32)
    return Launch(products_of(occupancy), (2, 1), (x, dy, dw, steps, tk, tn, tm), {2: wide(dw) + wide(x).T @ wide(dy)}, 2e-3)
