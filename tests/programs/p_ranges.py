"""Loops whose iterations do something in a range of the counter only, and attention over a window of blocks that begins before the
first one."""
import cuda.tile as ct
import numpy as np

from tests.programs.p_attention_more import LOG2E, attend, near
from tests.programs.programs import Launch, bf16, draw, program, wide

Const = ct.Constant[int]


@ct.kernel
def by_range(x, out, lo: int, hi: int, n: int, form: Const, t: Const):
    """Sums of rows whose number lies in a range, as authors say that; form 4 and 5: by numbers that a block's own begins."""
    b = ct.bid(0)
    total = ct.zeros((t,), ct.float32)
    for i in range(n):
        if form == 0:
            if (i >= lo) & (i <= hi):
                total = total + ct.load(x, (i, 0), (1, t)).reshape((t,))
        elif form == 1:
            if i * 4 + 1 < hi and hi > 3:
                total = total + ct.load(x, (i, 0), (1, t)).reshape((t,))
        elif form == 2:
            if (lo < i) & (2 * i <= 2 * hi) & (x.shape[0] > i):
                total = total + ct.load(x, (i, 0), (1, t)).reshape((t,))
        elif form == 3:
            if (i == lo) & (i >= 0):
                total = total + ct.load(x, (i, 0), (1, t)).reshape((t,))
    for i in range(4):
        k = b - 3 + i
        if form == 4:
            if k >= 0:
                total = total + ct.load(x, (k, 0), (1, t)).reshape((t,))
        elif form == 5:
            if not (k < 1):
                total = total + (k + 1) * ct.load(x, (k, 0), (1, t)).reshape((t,))
    ct.store(out, (b, 0), total.reshape((1, t)))


@program((0, 2, 5, 9), (0, 5, 2, 9), (0, -2**31, 2**31 - 1, 4), (1, 0, 17, 9), (1, 0, 2**31 - 1, 6), (1, 0, -2**31, 6),
         (2, 2**31 - 1, 8, 9), (2, -1, 4, 9), (3, 4, 0, 9), (3, 9, 0, 9), (4, 0, 0, 0), (5, 0, 0, 0), quick=True)
def iterations_in_a_range(form, lo, hi, n, t=64, rows=12, grid=5):
    x = draw(rows, t, dtype=np.float32)

    def holds(i):
        return {0: lo <= i <= hi, 1: i * 4 + 1 < hi and hi > 3, 2: lo < i <= hi, 3: i == lo}.get(form, False)
    wanted = np.zeros((grid, t)) + sum((wide(x[i]) for i in range(n) if holds(i)), np.zeros(t))
    for b in range(grid):
        for k in range(b - 3, b + 1):
            if form == 4 and k >= 0:
                wanted[b] += wide(x[k])
            if form == 5 and k >= 1:
                wanted[b] += (k + 1) * wide(x[k])
    return Launch(by_range, (grid,), (x, np.zeros((grid, t), np.float32), lo, hi, n, form, t), {1: wanted}, 1e-5)


@ct.kernel
def by_multiples(x, out, lo: int, hi: int, n: int, form: Const, t: Const):
    """The same by multiples of a counter that stays small."""
    total = ct.zeros((t,), ct.float32)
    for i in range(min(n, 1000)):
        if form == 0:
            if (i * 4 + 1 < hi) & (3 * i >= lo):
                total = total + ct.load(x, (i, 0), (1, t)).reshape((t,))
        elif form == 1:
            if (7 - 3 * i <= lo) & (hi > 2 * i - 5):
                total = total + ct.load(x, (i, 0), (1, t)).reshape((t,))
        elif form == 2:
            if (i * 5 == hi) & (i >= 0):
                total = total + ct.load(x, (i, 0), (1, t)).reshape((t,))
    ct.store(out, (0, 0), total.reshape((1, t)))


@program((0, -4, 32, 9), (0, 7, 45, 12), (0, -2**31, 2**31 - 1, 5), (0, 2**31 - 1, 25, 4), (1, -1, 9, 8), (1, -2**31, -2**31, 9),
         (1, 2**31 - 1, 2**31 - 1, 8), (1, -27, 45, 12), (2, 0, 25, 12), (2, 0, 26, 12), (2, 0, -2**31, 11), quick=True)
def iterations_in_a_range_of_multiples(form, lo, hi, n, t=64):
    x = draw(12, t, dtype=np.float32)
    holds = [lambda i: i * 4 + 1 < hi and 3 * i >= lo, lambda i: 7 - 3 * i <= lo and hi > 2 * i - 5, lambda i: i * 5 == hi][form]
    wanted = sum((wide(x[i]) for i in range(n) if holds(i)), np.zeros(t))
    return Launch(by_multiples, (1,), (x, np.zeros((1, t), np.float32), lo, hi, n, form, t), {1: wanted[None]}, 1e-5)


@ct.kernel(occupancy=2)
def windowed(q, k, v, out, scale, before: Const, t: Const, d: Const):
    """Queries of block i meet the keys of blocks i - before to i, all those behind their own left out."""
    h, i = ct.bid(0), ct.bid(1)
    x = ct.load(q, (h, i, 0), (1, t, d)).reshape((t, d))
    rows, columns = ct.arange(t, dtype=ct.int32)[:, None], ct.arange(t, dtype=ct.int32)[None, :]
    m, s, acc = ct.full((t, 1), -1e9, ct.float32), ct.zeros((t, 1), ct.float32), ct.zeros((t, d), ct.float32)
    for n in range(before + 1):
        j = i - before + n
        if j >= 0:
            y = ct.load(k, (h, j, 0), (1, t, d)).reshape((t, d))
            w = ct.mma(x, ct.transpose(y), ct.zeros((t, t), ct.float32)) * (scale * LOG2E)
            if n == 0:
                w = ct.where(columns > rows, w, -1e38)
            if n == before:
                w = ct.where(columns <= rows, w, -1e38)
            top = ct.maximum(m, ct.max(w, axis=1, keepdims=True))
            r, p = ct.exp2(m - top), ct.exp2(w - top)
            s = r * s + ct.sum(p, axis=1, keepdims=True)
            z = ct.load(v, (h, j, 0), (1, t, d)).reshape((t, d))
            acc = r * acc + ct.mma(p.astype(q.dtype), z, ct.zeros((t, d), ct.float32))
            m = top
    ct.store(out, (h, i, 0), (acc / s).reshape((1, t, d)))


@program((bf16, 2, 64, 128), (np.float16, 1, 64, 64), (bf16, 3, 128, 64), (np.float16, 9, 64, 128), quick=True)
def attention_in_a_window_of_blocks(dtype, before, t, d, heads=1, count=4):
    q, k, v = (draw(heads, count * t, d, dtype=dtype, seed=s) for s in range(3))
    i, j = np.arange(count * t)[:, None], np.arange(count * t)[None, :]
    wanted, _ = attend(q, k, v, (j <= i) & (j > i - before * t), scale=d ** -.5)
    return Launch(windowed, (heads, count), (q, k, v, np.zeros((heads, count * t, d), np.float32), d ** -.5, before, t, d),
                  {3: wanted}, near(dtype))
