"""Loops of products that read what they have written: substitution by blocks, sweeps, updates of rank k, rows gathered and
scattered, where the copy engine must not run ahead of stores; in views of other tiles, and turned."""
import cuda.tile as ct
import numpy as np

from tests.programs.programs import Launch, bf16, e4m3, program, whole, wide

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def substitution(low, x, t: Const, n: Const):
    """x[k] -= sum of low[k, j] x[j] over j < k: the inner loop loads what the outer one has stored."""
    c = ct.bid(0)
    for k in range(low.shape[0] // t):
        acc = ct.load(x, (k, c), (t, n)).astype(ct.float32)
        for j in range(k):
            acc = ct.mma(-ct.load(low, (k, j), (t, t)), ct.load(x, (j, c), (t, n)), acc)
        ct.store(x, (k, c), acc.astype(x.dtype))


@program((np.float16, 64, 64, 4), (bf16, 64, 128, 3), (np.float16, 128, 128, 3), (np.float32, 32, 16, 4), (np.float16, 16, 32, 5),
         quick=True)
def substitution_by_blocks(dtype, t, n, steps):
    low, x = whole(steps * t, steps * t, dtype=dtype, low=0, high=0), whole(steps * t, 2 * n, dtype=dtype, low=-2, high=2)
    rng = np.random.default_rng(t)
    for i in range(steps):
        for j in range(i):
            low[i * t + np.arange(t), j * t + rng.permutation(t)] = rng.choice([-1, 1], t)
    want = wide(x)
    for i in range(steps):
        want[i * t:(i + 1) * t] -= wide(low)[i * t:(i + 1) * t, :i * t] @ want[:i * t]
    return Launch(substitution, (2,), (low, x, t, n), {1: want})


@ct.kernel
def sweeps(x, w, t: Const, rounds: int):
    """Each tile takes its neighbours' products, those on its left as this sweep has left them."""
    n = x.shape[1] // t
    for _ in range(rounds):
        for k in range(n):
            acc = ct.load(x, (ct.bid(0), k), (t, t)).astype(ct.float32)
            if k > 0:
                acc = ct.mma(ct.load(x, (ct.bid(0), k - 1), (t, t)), ct.load(w, (0, 0), (t, t)), acc)
            if k < n - 1:
                acc = ct.mma(ct.load(x, (ct.bid(0), k + 1), (t, t)), ct.load(w, (1, 0), (t, t)), acc)
            acc = ct.where(acc > 4, acc - 8, ct.where(acc < -4, acc + 8, acc))
            ct.store(x, (ct.bid(0), k), acc.astype(x.dtype))


@program((np.float16, 64, 3, 2), (bf16, 16, 4, 2), (np.float16, 128, 2, 2), (np.float32, 32, 3, 0))
def sweeps_in_place(dtype, t, n, rounds):
    rng = np.random.default_rng(n + t)
    w = np.zeros((2 * t, t), dtype)
    for i in range(2):
        w[i * t + np.arange(t), rng.permutation(t)] = rng.choice([-1, 1], t)
    x = whole(2 * t, n * t, dtype=dtype, low=-4, high=4)
    want = wide(x)
    for _ in range(rounds):
        for k in range(n):
            acc = want[:, k * t:(k + 1) * t].copy()
            if k > 0:
                acc += want[:, (k - 1) * t:k * t] @ wide(w)[:t]
            if k < n - 1:
                acc += want[:, (k + 1) * t:(k + 2) * t] @ wide(w)[t:]
            want[:, k * t:(k + 1) * t] = np.where(acc > 4, acc - 8, np.where(acc < -4, acc + 8, acc))
    return Launch(sweeps, (2,), (x, w, t, rounds), {0: want})


@ct.kernel
def symmetric_update(c, a, t: Const, tk: Const):
    """The lower tiles of c + a a', each stored to its own place and, turned, to the other; in a loop over tiles with sums in c."""
    tiles = c.shape[0] // t
    for p in range(ct.bid(0), tiles * (tiles + 1) // 2, ct.num_blocks(0)):
        i = 0
        while (i + 1) * (i + 2) // 2 <= p:
            i += 1
        j = p - i * (i + 1) // 2
        acc = ct.load(c, (i, j), (t, t)).astype(ct.float32)
        for k in range(ct.cdiv(a.shape[1], tk)):
            x = ct.load(a, (i, k), (t, tk), padding_mode=ZERO)
            y = ct.load(a, (j, k), (t, tk), padding_mode=ZERO)
            acc = ct.mma(x, y.transpose(), acc)
        ct.store(c, (i, j), acc.astype(c.dtype))
        if i != j:
            ct.store(c, (j, i), acc.transpose().astype(c.dtype))


@program((np.float16, 64, 64, 3), (bf16, 128, 32, 2), (np.float32, 32, 16, 3), (np.float16, 128, 64, 2))
def symmetric_update_of_rank_k(dtype, t, tk, tiles):
    n, k = tiles * t, 3 * tk - 8
    a, c = whole(n, k, dtype=dtype, low=-2, high=2), whole(n, n, dtype=np.float32)
    c = c + c.T
    return Launch(symmetric_update, (2,), (c, a, t, tk), {0: wide(c) + wide(a) @ wide(a).T})


@ct.kernel
def halves(x, w, t: Const, steps: int):
    """Whole tiles are written, halves of them read, by rows and by columns, each step from the other half."""
    for s in range(steps):
        top = ct.load(x, (s % 2, 0), (t // 2, t))
        left = ct.load(x, (0, (s + 1) % 2), (t, t // 2))
        y = ct.mma(left, ct.mma(top, ct.load(w, (0, 0), (t, t)), ct.zeros((t // 2, t), ct.float32)).astype(x.dtype),
                   ct.zeros((t, t), ct.float32))
        y = y - ct.floor(y * 0.125 + 0.5) * 8
        ct.store(x, (0, 0), y.astype(x.dtype))


@program((np.float16, 128, 3), (bf16, 64, 4), (np.float32, 32, 2), (np.float16, 64, 0))
def halves_of_what_was_written(dtype, t, steps):
    rng = np.random.default_rng(t)
    w = np.zeros((t, t), dtype)
    w[np.arange(t), rng.permutation(t)] = 1
    x = whole(t, t, dtype=dtype, low=-4, high=3)
    want = wide(x)
    for s in range(steps):
        h = t // 2
        top, left = want[(s % 2) * h:(s % 2 + 1) * h], want[:, (s + 1) % 2 * h:((s + 1) % 2 + 1) * h]
        y = left @ (top @ wide(w))
        want = y - np.floor(y * .125 + .5) * 8
    return Launch(halves, (1,), (x, w, t, steps), {0: want})


@ct.kernel
def delayed(x, w, out, t: Const, delay: Const, steps: int):
    """What is stored in one iteration is loaded `delay` iterations later: x[k + delay] = x[k] w[k]."""
    for k in range(ct.bid(0), steps, ct.num_blocks(0)):
        y = ct.mma(ct.load(x, (k, 0), (t, t)), ct.load(w, (k, 0), (t, t)), ct.zeros((t, t), ct.float32))
        ct.store(x, (k + delay, 0), y.astype(x.dtype))
        ct.store(out, (k, 0), ct.sum(y, axis=1, keepdims=True))


@program((np.float16, 64, 1, 6), (np.float16, 64, 2, 7), (bf16, 128, 3, 5), (np.float32, 32, 4, 6), (np.float16, 16, 5, 9),
         quick=True)
def stores_read_some_iterations_later(dtype, t, delay, steps):
    rng = np.random.default_rng(t + delay)
    w = np.zeros((steps * t, t), dtype)
    for k in range(steps):
        w[k * t + np.arange(t), rng.permutation(t)] = rng.choice([-1, 1], t)
    x = whole((steps + delay) * t, t, dtype=dtype)
    want, sums = wide(x), np.zeros((steps * t, 1))
    for k in range(steps):
        y = want[k * t:(k + 1) * t] @ wide(w)[k * t:(k + 1) * t]
        want[(k + delay) * t:(k + delay + 1) * t], sums[k * t:(k + 1) * t] = y, y.sum(1, keepdims=True)
    return Launch(delayed, (1,), (x, w, np.zeros((steps * t, 1), np.float32), t, delay, steps), {0: want, 2: sums})


@ct.kernel
def rings_of_sums(x, w, sums, t: Const, slots: Const, steps: int):
    """Sums live in a few places of memory that the loop goes around: load, product, store, each a few iterations apart."""
    for k in range(steps):
        at = (k * 2) % slots
        acc = ct.load(sums, (at, 0), (t, t))
        acc = ct.mma(ct.load(x, (k, 0), (t, t)), ct.load(w, (k % 2, 0), (t, t)), acc)
        ct.store(sums, (at, 0), acc)


@program((np.float16, 64, 3, 7), (bf16, 128, 2, 4), (np.float32, 16, 1, 5), (np.float16, 128, 5, 6))
def sums_in_memory(dtype, t, slots, steps):
    x, w = whole(steps * t, t, dtype=dtype, low=-2, high=2), whole(2 * t, t, dtype=dtype, low=-2, high=2)
    sums = whole(slots * t, t, dtype=np.float32)
    want = wide(sums)
    for k in range(steps):
        at = 2 * k % slots
        want[at * t:(at + 1) * t] += wide(x)[k * t:(k + 1) * t] @ wide(w)[k % 2 * t:(k % 2 + 1) * t]
    return Launch(rings_of_sums, (1,), (x, w, sums, t, slots, steps), {2: want})


@ct.kernel
def gathered_and_stored(x, index, w, t: Const, n: Const, steps: int):
    """Rows by index are multiplied and scattered back by another index: with the loads of the next iteration not before."""
    columns = ct.arange(n, dtype=ct.int32)
    for s in range(steps):
        i = ct.load(index, (s, 0), (1, t)).reshape((t,))
        rows = ct.gather(x, (i[:, None], columns[None, :]))
        y = ct.mma(rows, ct.load(w, (0, 0), (n, n)), ct.zeros((t, n), ct.float32))
        j = ct.load(index, (s + 1, 0), (1, t)).reshape((t,))
        ct.scatter(x, (j[:, None], columns[None, :]), y.astype(x.dtype), mask=(j % 3 != 0)[:, None])


@program((np.float16, 32, 64, 4), (bf16, 64, 128, 3), (np.float32, 16, 32, 5), (np.float16, 128, 64, 2), quick=True)
def rows_gathered_and_scattered(dtype, t, n, steps):
    rng = np.random.default_rng(n)
    index = np.stack([rng.permutation(2 * t)[:t] for _ in range(steps + 1)]).astype(np.int32)
    w = np.zeros((n, n), dtype)
    w[np.arange(n), rng.permutation(n)] = rng.choice([-1, 1], n)
    x = whole(2 * t, n, dtype=dtype)
    want = wide(x)
    for s in range(steps):
        y, mask = want[index[s]] @ wide(w), index[s + 1] % 3 != 0
        want[index[s + 1][mask]] = y[mask]
    return Launch(gathered_and_stored, (1,), (x, index, w, t, n, steps), {0: want})


@ct.kernel
def factors_of_rows(x, factor, tr: Const, tc: Const):
    """Rows are changed where they lie, by numbers a row that come an iteration ahead: as the words of their loads."""
    for i in range(ct.cdiv(x.shape[0], tr)):
        f = ct.load(factor, (i,), (tr,), padding_mode=ZERO).astype(ct.float32)
        x_ = ct.load(x, (i, ct.bid(0)), (tr, tc), padding_mode=ZERO)
        ct.store(x, (i, ct.bid(0)), x_ * f[:, None])


@program(*((dtype, *sizes) for dtype in (np.float16, bf16, np.float32, np.uint8, np.float64)
           for sizes in ((1, 1024, 5), (4, 256, 18), (8, 128, 48))), (np.int32, 4, 256, 3), quick=True)
def rows_by_factors(dtype, tr, tc, rows):
    x, factor = whole(rows, 2 * tc - 8, dtype=np.float32), whole(rows, dtype=dtype, low=0, high=7)
    return Launch(factors_of_rows, (2,), (x, factor, tr, tc), {0: wide(x) * wide(factor)[:, None]})


@program((e4m3, 4, 256, 16), (e4m3, 1, 512, 5), since=90)
def rows_by_factors_of_8_bits(dtype, tr, tc, rows):
    return rows_by_factors(dtype, tr, tc, rows)
