"""Kernels that end or leave loops early around products: returns before, between and behind them, in loops too; breaks that hang on
sums; checks and prints among products; tiles that wait for another block's flag one by one."""
import cuda.tile as ct
import numpy as np

from tests.programs.programs import Launch, bf16, program, whole, wide

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def returns_between(a, b, kind, out, t: Const, tk: Const):
    """By a loaded number a block returns at once, behind its first product, behind its loop, or at the end."""
    i = ct.bid(0)
    what = ct.load(kind, (i,), ())
    if what == 0:
        return
    first = ct.mma(ct.load(a, (i, 0), (t, tk)), ct.load(b, (0, 0), (tk, t)), ct.zeros((t, t), ct.float32))
    if what == 1:
        ct.store(out, (i, 0), first * 2)
        return
    acc = first
    for k in range(1, a.shape[1] // tk):
        acc = ct.mma(ct.load(a, (i, k), (t, tk)), ct.load(b, (k, 0), (tk, t)), acc)
    if what == 2:
        ct.store(out, (i, 0), acc)
        return
    last = ct.mma(acc.astype(a.dtype), ct.load(b, (0, 0), (t, t)), first)
    ct.store(out, (i, 0), last)


@program((np.float16, 64, 64), (bf16, 128, 128), (np.float32, 16, 16), (np.float16, 128, 128), quick=True)
def returns_between_products(dtype, t, tk):
    kind = np.array([3, 0, 2, 1], np.int32)
    a, b = whole(4 * t, 3 * tk, dtype=dtype, low=-1, high=1), np.zeros((3 * tk, t), dtype)
    rng = np.random.default_rng(t)
    for k in range(3):
        b[k * tk + np.arange(tk), rng.permutation(t)] = rng.choice([-1, 1], t)
    out = np.full((4 * t, t), 5, np.float32)
    want = wide(out)
    for i, what in enumerate(kind):
        rows = slice(i * t, (i + 1) * t)
        first = wide(a)[rows, :tk] @ wide(b)[:tk]
        acc = wide(a)[rows] @ wide(b)
        want[rows] = (want[rows], 2 * first, acc, first + acc @ wide(b)[:t])[what]
    return Launch(returns_between, (4,), (a, b, kind, out, t, tk), {3: want})


@ct.kernel
def returns_in_loops(a, b, stop, out, t: Const, tk: Const):
    """A block ends in the middle of a loop in a loop, with what it has stored till then."""
    i = ct.bid(0)
    total = ct.zeros((t, t), ct.float32)
    for j in range(b.shape[1] // t):
        acc = ct.zeros((t, t), ct.float32)
        for k in range(a.shape[1] // tk):
            if ct.load(stop, (i, j, k), ()) > 0:
                ct.store(out, (i, j), total - acc)
                return
            acc = ct.mma(ct.load(a, (i, k), (t, tk)), ct.load(b, (k, j), (tk, t)), acc)
        total = total + acc
        ct.store(out, (i, j), acc)


@program((np.float16, 64, 32), (bf16, 128, 64), (np.float32, 16, 16), (np.float16, 64, 128))
def returns_in_the_middle_of_loops(dtype, t, tk):
    a, b = whole(3 * t, 3 * tk, dtype=dtype, low=-2, high=2), whole(3 * tk, 3 * t, dtype=dtype, low=-2, high=2)
    stop = np.zeros((3, 3, 3), np.int8)
    stop[0, 1, 2] = stop[2, 0, 0] = 1
    out = np.ones((3 * t, 3 * t), np.float32)
    want = wide(out)
    for i in range(3):
        rows, total = slice(i * t, (i + 1) * t), np.zeros((t, t))
        for j in range(3):
            columns = slice(j * t, (j + 1) * t)
            ends = np.flatnonzero(stop[i, j])
            steps = int(ends[0]) if len(ends) else 3
            acc = wide(a)[rows, :steps * tk] @ wide(b)[:steps * tk, columns]
            want[rows, columns] = total - acc if len(ends) else acc
            if len(ends):
                break
            total = total + acc
    return Launch(returns_in_loops, (3,), (a, b, stop, out, t, tk), {3: want})


@ct.kernel
def until_large(a, b, out, count, bound: float, t: Const, tk: Const):
    """The loop ends when its own sum has an element above a bound; the last product isn't added."""
    acc = ct.zeros((t, t), ct.float32)
    k = 0
    while k < a.shape[1] // tk:
        more = ct.mma(ct.load(a, (ct.bid(0), k), (t, tk)), ct.load(b, (k, 0), (tk, t)), acc)
        if ct.max(more) > bound:
            break
        acc = more
        k += 1
    ct.store(out, (ct.bid(0), 0), acc)
    ct.store(count, (ct.bid(0),), k)


@program((np.float16, 64, 32, 60.0), (bf16, 128, 64, 90.0), (np.float32, 16, 16, 1e9), (np.float16, 128, 64, -1.0), quick=True)
def product_until_its_sum_is_large(dtype, t, tk, bound):
    a, b = whole(2 * t, 5 * tk, dtype=dtype, low=-3, high=3), whole(5 * tk, t, dtype=dtype, low=-3, high=3)
    want, counts = np.zeros((2 * t, t)), np.zeros(2, np.int32)
    for i in range(2):
        acc = np.zeros((t, t))
        while counts[i] < 5:
            part = slice(counts[i] * tk, (counts[i] + 1) * tk)
            more = acc + wide(a)[i * t:(i + 1) * t, part] @ wide(b)[part]
            if more.max() > bound:
                break
            acc = more
            counts[i] += 1
        want[i * t:(i + 1) * t] = acc
    return Launch(until_large, (2,), (a, b, np.ones((2 * t, t), np.float32), np.zeros(2, np.int32), bound, t, tk),
                  {2: want, 3: counts})


@ct.kernel
def checked(a, b, out, t: Const, tk: Const):
    """Prints and checks of places and of sums, in and behind the loop."""
    acc = ct.zeros((t, t), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        x = ct.load(a, (ct.bid(0), k), (t, tk), padding_mode=ZERO)
        ct.assert_(ct.max(x.astype(ct.float32)) < 100.0, "an operand is too large")
        acc = ct.mma(x, ct.load(b, (k, 0), (tk, t), padding_mode=ZERO), acc)
        if k == 1 and ct.bid(0) == 0:
            ct.printf("step %d\n", k)
    ct.assert_(ct.max(ct.abs(acc)) < 1e6, "a sum is too large")
    ct.store(out, (ct.bid(0), 0), acc)


@program((np.float16, 64, 32), (bf16, 128, 64), (np.float32, 16, 16))
def product_checked_and_printed(dtype, t, tk):
    a, b = whole(2 * t, 4 * tk - 8, dtype=dtype, low=-2, high=2), whole(4 * tk - 8, t, dtype=dtype, low=-2, high=2)
    return Launch(checked, (2,), (a, b, np.zeros((2 * t, t), np.float32), t, tk), {2: wide(a) @ wide(b)})


@ct.kernel
def step_by_step(x, w, flags, order, out, t: Const, n: Const):
    """One block makes tiles, each with a flag of its own, in an order from memory (by its loop's counter the frontend would take
    stores for independent of flags); the other takes each as soon as it is there, in a loop of products."""
    if ct.bid(0) == 0:
        for q in range(n):
            k = ct.load(order, (q,), ())
            y = ct.mma(ct.load(w, (0, 0), (t, t)), ct.load(w, (k, 0), (t, t)), ct.zeros((t, t), ct.float32))
            ct.store(x, (k, 0), y.astype(x.dtype))
            ct.store(flags, (k,), 1, memory_order=ct.MemoryOrder.RELEASE, memory_scope=ct.MemoryScope.DEVICE)
        return
    acc = ct.zeros((t, t), ct.float32)
    for k in range(n):
        while ct.load(flags, (k,), (), memory_order=ct.MemoryOrder.ACQUIRE, memory_scope=ct.MemoryScope.DEVICE) == 0:
            pass
        acc = ct.mma(ct.load(w, (k, 0), (t, t)), ct.load(x, (k, 0), (t, t)), acc)
    ct.store(out, (0, 0), acc)


@program((np.float16, 64, 4), (bf16, 128, 3), (np.float32, 16, 5), (np.float16, 128, 2), quick=True)
def tiles_taken_as_they_come(dtype, t, n):
    rng = np.random.default_rng(t)
    w = np.zeros((n * t, t), dtype)
    for k in range(n):
        w[k * t + np.arange(t), rng.permutation(t)] = rng.choice([-1, 1], t)
    parts = wide(w).reshape(n, t, t)
    x = parts[0] @ parts
    order = rng.permutation(n).astype(np.int32)
    return Launch(step_by_step, (2,), (np.zeros((n * t, t), dtype), w, np.zeros(n, np.int32), order, np.zeros((t, t), np.float32),
                                       t, n), {0: x.reshape(n * t, t), 2: 1, 4: (parts @ x).sum(0)})
