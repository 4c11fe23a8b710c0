"""Loops whose loads follow from what others in the same iteration give (rows of sparse matrices, pages of pages), and loops that
programs write as `while`, which count or don't."""
import cuda.tile as ct
import numpy as np

from tests.programs.programs import Launch, bf16, program, whole, wide

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def sparse_rows(start, column, value, x, out, tn: Const, form: Const):
    """A row of a sparse matrix times a matrix, a number after the other: by `for`, or by `while` in the forms that count."""
    r, j = ct.bid(0), ct.bid(1)
    first, last = ct.load(start, (r,), (1,)).item(), ct.load(start, (r + 1,), (1,)).item()
    acc = ct.zeros((1, tn), ct.float32)
    if form == 0:
        for e in range(first, last):
            c, w = ct.load(column, (e,), (1,)).item(), ct.load(value, (e,), (1,)).item()
            acc = acc + w * ct.load(x, (c, j), (1, tn), padding_mode=ZERO).astype(ct.float32)
    elif form == 1:
        e = first
        while last > e:
            c, w = ct.load(column, (e,), (1,)).item(), ct.load(value, (e,), (1,)).item()
            acc = acc + w * ct.load(x, (c, j), (1, tn), padding_mode=ZERO).astype(ct.float32)
            e += 1
        acc = acc + (e - last)
    else:
        e = first
        while True:
            if e >= last:
                break
            c, w = ct.gather(column, e), ct.gather(value, e)
            acc = acc + w * ct.gather(x, (c, j * tn + ct.arange(tn, dtype=ct.int32)), padding_value=0)[None, :].astype(ct.float32)
            e = e + 1
        acc = acc + ct.maximum(first - e, 0)
    ct.store(out, (r, j), acc)


WIDTHS = ((np.float16, 64), (np.float32, 32), (bf16, 128))


@program(*((form, *width) for form in range(3) for width in WIDTHS), quick=True)
def rows_of_a_sparse_matrix(form, dtype, tn):
    rng = np.random.default_rng(tn)
    rows, columns = 9, tn + 10
    counts = np.array([0, 1, 2, 3, 4, 5, 8, 13, 27])
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    column, value = rng.integers(0, 20, start[-1]).astype(np.int32), whole(start[-1], dtype=np.float32, low=-3, high=3)
    x = whole(20, columns, dtype=dtype, low=-4, high=4)
    want = np.zeros((rows, columns))
    for r in range(rows):
        for e in range(start[r], start[r + 1]):
            want[r] += wide(value)[e] * wide(x)[column[e]]
    out = np.zeros((rows, columns), np.float32)
    return Launch(sparse_rows, (rows, -(-columns // tn)), (start, column, value, x, out, tn, form), {4: want})


@ct.kernel
def pages_of_pages(outer, inner, x, out, count: int, tm: Const, tn: Const):
    """Three loads, each by the one before; and a number that goes from iteration to iteration by what is loaded."""
    acc, at = ct.zeros((tm, tn), ct.float32), ct.bid(0)
    hops = ct.bid(0)
    for n in range(count):
        page = ct.load(outer, (at,), (1,)).item()
        block = ct.load(inner, (page,), (1,)).item()
        acc = acc + ct.load(x, (block, 0), (tm, tn), padding_mode=ZERO).astype(ct.float32)
        at = at + ct.num_blocks(0)
        hops = ct.load(inner, (hops,), (1,)).item()
    ct.store(out, (ct.bid(0), 0), acc + hops)


@program((np.float16, 8, 64, 7), (np.float32, 4, 32, 1), (bf16, 16, 128, 12), (np.float16, 1, 256, 0), quick=True)
def rows_by_pages_of_pages(dtype, tm, tn, count):
    rng = np.random.default_rng(tn)
    blocks = 3
    outer, inner = rng.integers(0, 16, max(1, blocks * count)).astype(np.int32), rng.integers(0, 5, 16).astype(np.int32)
    x = whole(5 * tm, tn, dtype=dtype, low=-4, high=4)
    want = np.zeros((blocks * tm, tn))
    for b in range(blocks):
        hops = b
        for n in range(count):
            block = inner[outer[b + n * blocks]]
            want[b * tm:(b + 1) * tm] += wide(x)[block * tm:(block + 1) * tm]
            hops = inner[hops]
        want[b * tm:(b + 1) * tm] += hops
    return Launch(pages_of_pages, (blocks,), (outer, inner, x, np.zeros((blocks * tm, tn), np.float32), count, tm, tn), {3: want})


@ct.kernel
def counted_otherwise(x, out, limits, tn: Const):
    """Loops by `while` that don't count by ones below a limit, or do more besides."""
    n, top = ct.load(limits, (0,), (1,)).item(), ct.load(limits, (1,), (1,)).item()
    acc, i = ct.zeros((1, tn), ct.float32), 0
    while i <= n:
        acc = acc + ct.load(x, (i, 0), (1, tn)).astype(ct.float32)
        i += 1
    j = 1
    while j < n:
        acc = acc + 2 * ct.load(x, (j, 0), (1, tn)).astype(ct.float32)
        j += 3
    k = 0
    while k < n:
        if k == 2:
            break
        acc = acc + 4 * ct.load(x, (k, 0), (1, tn)).astype(ct.float32)
        k += 1
    m = n
    while m > 0:
        acc = acc + 8 * ct.load(x, (m, 0), (1, tn)).astype(ct.float32)
        m -= 1
    seen = top - 2
    while seen < top:
        seen += 1
        acc = acc + 16 * ct.load(x, (top - seen, 0), (1, tn)).astype(ct.float32)
    a, b = 0, n
    while a < b:
        acc = acc + 32 * ct.load(x, (a, 0), (1, tn)).astype(ct.float32)
        a += 1
        b -= 1
    ct.store(out, (0, 0), acc + i + 2 * j + 3 * k + 5 * m + 7 * (top - seen) + 11 * (a - b))


@program((np.float16, 64, 7), (np.float32, 32, 0), (bf16, 128, 1), quick=True)
def loops_that_count_otherwise(dtype, tn, n):
    x, top = whole(n + 3, tn, dtype=dtype, low=-4, high=4), 2**31 - 1
    rows = wide(x)
    js = list(range(1, n, 3))
    ks = list(range(min(n, 2)))
    a, b, pairs = 0, n, []
    while a < b:
        pairs.append(a)
        a, b = a + 1, b - 1
    want = rows[:n + 1].sum(0) + 2 * rows[js].sum(0) + 4 * rows[ks].sum(0) + 8 * rows[1:n + 1].sum(0) + 16 * rows[:2].sum(0) + \
        32 * rows[pairs].sum(0) + (n + 1) + 2 * (1 + 3 * len(js)) + 3 * len(ks) + 11 * (a - b)
    return Launch(counted_otherwise, (1,), (x, np.zeros((1, tn), np.float32), np.array([n, top], np.int32), tn), {1: want[None, :]})
