"""Products in loops of every kind: while loops, breaks, skipped steps, branches, several accumulators, operands from slices,
lists of arrays, overlapping views and gathers."""
from typing import Annotated

import cuda.tile as ct
import numpy as np

from tests.programs.programs import Launch, bf16, blocks, draw, e4m3, e5m2, program, whole, wide

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def while_product(a, b, out, tm: Const, tn: Const, tk: Const):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((tm, tn), ct.float32)
    k = 0
    while k < ct.cdiv(a.shape[1], tk):
        acc = ct.mma(ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), ct.load(b, (k, j), (tk, tn), padding_mode=ZERO), acc)
        k += 1
    ct.store(out, (i, j), acc)


@program((np.float16, 128, 64, 32, 150, 72, 200), (bf16, 64, 64, 64, 64, 64, 256), (np.float16, 64, 64, 64, 64, 64, 0),
         quick=True)
def product_in_while(dtype, tm, tn, tk, m, n, k):
    a, b, out = draw(m, k, dtype=dtype), draw(k, n, dtype=dtype), np.ones((m, n), np.float32)
    return Launch(while_product, (blocks(m, tm), blocks(n, tn)), (a, b, out, tm, tn, tk), {2: wide(a) @ wide(b)}, 2e-3)


@ct.kernel
def product_until(a, b, stop, out, tm: Const, tn: Const, tk: Const):
    i = ct.bid(0)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        if ct.load(stop, (i, k), (1, 1)).item() > 0:
            break
        acc = ct.mma(ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), ct.load(b, (k, 0), (tk, tn), padding_mode=ZERO), acc)
    ct.store(out, (i, 0), acc)


@program((np.float16, 64, 64, 32), (bf16, 128, 128, 64))
def product_with_break(dtype, tm, tn, tk):
    m, k = 3 * tm, 5 * tk
    a, b, out = draw(m, k, dtype=dtype), draw(k, tn, dtype=dtype), np.ones((m, tn), np.float32)
    stop = np.zeros((3, 5), np.int32)
    stop[0, 2] = stop[1, 0] = 1
    want = np.concatenate([wide(a)[:tm, :2 * tk] @ wide(b)[:2 * tk], np.zeros((tm, tn)), wide(a)[2 * tm:] @ wide(b)])
    return Launch(product_until, (3,), (a, b, stop, out, tm, tn, tk), {3: want}, 2e-3)


@ct.kernel
def product_of_marked(a, b, mark, out, tm: Const, tn: Const, tk: Const):
    i = ct.bid(0)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        if ct.load(mark, (i, k), ()) == 0:
            continue
        acc = ct.mma(ct.load(a, (i, k), (tm, tk)), ct.load(b, (k, 0), (tk, tn)), acc)
    ct.store(out, (i, 0), acc.astype(out.dtype))


@program((np.float16, 64, 128, 64), (np.float32, 32, 32, 16))
def product_with_continue(dtype, tm, tn, tk):
    a, b, out = draw(2 * tm, 4 * tk, dtype=dtype), draw(4 * tk, tn, dtype=dtype), np.ones((2 * tm, tn), dtype)
    mark = np.array([[1, 0, 0, 1], [0, 1, 1, 1]], np.int8)
    want = (wide(a) * np.kron(mark, np.ones((tm, tk)))) @ wide(b)
    return Launch(product_of_marked, (2,), (a, b, mark, out, tm, tn, tk), {3: want}, 2e-2)


@ct.kernel
def four_accumulators(a, b, out, t: Const, tk: Const):
    i, j = ct.bid(0), ct.bid(1)
    p = q = r = s = ct.zeros((t, t), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        a0 = ct.load(a, (2 * i, k), (t, tk), padding_mode=ZERO)
        a1 = ct.load(a, (2 * i + 1, k), (t, tk), padding_mode=ZERO)
        b0 = ct.load(b, (k, 2 * j), (tk, t), padding_mode=ZERO)
        b1 = ct.load(b, (k, 2 * j + 1), (tk, t), padding_mode=ZERO)
        p, q, r, s = ct.mma(a0, b0, p), ct.mma(a0, b1, q), ct.mma(a1, b0, r), ct.mma(a1, b1, s)
    ct.store(out, (2 * i, 2 * j), p)
    ct.store(out, (2 * i, 2 * j + 1), q)
    ct.store(out, (2 * i + 1, 2 * j), r)
    ct.store(out, (2 * i + 1, 2 * j + 1), s)


@program((np.float16, 64, 64), (bf16, 128, 32), (np.float32, 32, 16))
def product_of_four(dtype, t, tk):
    m = n = 2 * t
    k = 3 * tk + 8
    a, b, out = draw(m, k, dtype=dtype), draw(k, n, dtype=dtype, seed=1), np.zeros((m, n), np.float32)
    return Launch(four_accumulators, (1, 1), (a, b, out, t, tk), {2: wide(a) @ wide(b)}, 2e-2)


@ct.kernel
def narrow_sums(a, b, out, tm: Const, tn: Const, tk: Const):
    i = ct.bid(0)
    acc = ct.zeros((tm, tn), ct.float16)
    for k in range(ct.cdiv(a.shape[1], tk)):
        acc = ct.mma(ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), ct.load(b, (k, 0), (tk, tn), padding_mode=ZERO), acc)
    ct.store(out, (i, 0), acc)


@program((np.float16, 128, 64, 32), (np.float16, 16, 16, 16))
def product_summed_in_f16(dtype, tm, tn, tk):
    """Small whole numbers: all sums are exact in f16."""
    a, b = whole(2 * tm, 5 * tk, dtype=dtype, low=-2, high=2), whole(5 * tk, tn, dtype=dtype, low=-2, high=2)
    out = np.zeros((2 * tm, tn), np.float16)
    return Launch(narrow_sums, (2,), (a, b, out, tm, tn, tk), {2: wide(a) @ wide(b)})


@program((e4m3, 64, 64, 32), (e5m2, 128, 128, 64), since=90)
def product_of_f8_summed_in_f16(dtype, tm, tn, tk):
    a, b = whole(2 * tm, 5 * tk, dtype=dtype, low=-2, high=2), whole(5 * tk, tn, dtype=dtype, low=-2, high=2)
    out = np.zeros((2 * tm, tn), np.float16)
    return Launch(narrow_sums, (2,), (a, b, out, tm, tn, tk), {2: wide(a) @ wide(b)})


@ct.kernel
def fast_f8(a, b, out, tm: Const, tn: Const, tk: Const):
    i = ct.bid(0)
    acc = ct.full((tm, tn), 3, ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
        y = ct.load(b, (0, k), (tn, tk), padding_mode=ZERO)
        acc = ct.mma(x, y.transpose(), acc, use_fast_acc=True)
    ct.store(out, (i, 0), acc)


@program((e4m3, 128, 64, 128), (e5m2, 64, 128, 64), since=90)
def product_of_f8_fast(dtype, tm, tn, tk):
    a, b = whole(150, 3 * tk + 16, dtype=dtype, low=-3, high=3), whole(tn, 3 * tk + 16, dtype=dtype, low=-3, high=3)
    out = np.zeros((150, tn), np.float32)
    return Launch(fast_f8, (blocks(150, tm),), (a, b, out, tm, tn, tk), {2: wide(a) @ wide(b).T + 3})


@ct.kernel
def tiny_product(a, b, c, out, m: Const, n: Const, k: Const):
    ct.store(out, (0, 0), ct.mma(ct.load(a, (0, 0), (m, k)), ct.load(b, (0, 0), (k, n)), ct.load(c, (0, 0), (m, n))))


@program(*[(dtype, m, n, k) for dtype in (np.float16, np.float32, np.int8)
           for m, n, k in ((1, 1, 1), (2, 4, 8), (1, 16, 64), (128, 1, 16), (4, 128, 2))])
def product_of_any_extent(dtype, m, n, k):
    a, b = whole(m, k, dtype=dtype, low=-3, high=3), whole(k, n, dtype=dtype, low=-3, high=3, seed=2)
    c = whole(m, n, dtype=np.int32 if dtype is np.int8 else np.float32)
    return Launch(tiny_product, (1,), (a, b, c, np.zeros_like(c), m, n, k), {3: wide(a) @ wide(b) + c})


@ct.kernel
def list_product(many, b, out, tm: Const, tn: Const, tk: Const):
    z, i = ct.bid(0), ct.bid(1)
    a = many[z]
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        acc = ct.mma(ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), ct.load(b, (k, 0), (tk, tn), padding_mode=ZERO), acc)
    ct.store(out[z], (i, 0), acc.astype(out[z].dtype))


@program((np.float16, 64, 64, 32), (bf16, 128, 64, 64), quick=True)
def product_of_lists(dtype, tm, tn, tk):
    sizes = [(100, 72), (130, 160), (8, 200)]
    many = [draw(m, k, dtype=dtype) for m, k in sizes]
    b = draw(200, tn, dtype=dtype)
    out = [np.zeros((m, tn), np.float32) for m, _ in sizes]
    want = {(2, z): wide(a) @ wide(b)[:a.shape[1]] for z, a in enumerate(many)}
    # Beyond a's columns b holds numbers, a is padded with zeros.
    return Launch(list_product, (3, blocks(130, tm)), (many, b, out, tm, tn, tk), want, 2e-3)


@ct.kernel
def slices(a, b, bounds, out, tm: Const, tn: Const, tk: Const):
    z, i = ct.bid(0), ct.bid(1)
    lo, hi = ct.load(bounds, (z,), ()), ct.load(bounds, (z + 1,), ())
    rows = a.slice(0, lo, hi)
    into = out.slice(0, lo, hi)
    if i * tm < hi - lo:
        acc = ct.zeros((tm, tn), ct.float32)
        for k in range(ct.cdiv(a.shape[1], tk)):
            acc = ct.mma(ct.load(rows, (i, k), (tm, tk), padding_mode=ZERO),
                         ct.load(b, (z, k, 0), (1, tk, tn), padding_mode=ZERO).reshape((tk, tn)), acc)
        ct.store(into, (i, 0), acc.astype(out.dtype))


@program((np.float16, 64, 64, 64), (bf16, 128, 128, 32), (e4m3, 64, 64, 64), since=90)
def product_of_slices(dtype, tm, tn, tk):
    bounds = np.array([0, 30, 30, 161, 300], np.int32)
    a, b, out = draw(300, 96, dtype=dtype), draw(4, 96, tn, dtype=dtype, scale=.3), np.zeros((300, tn), np.float32)
    want = np.concatenate([wide(a)[lo:hi] @ wide(b)[z] for z, (lo, hi) in enumerate(zip(bounds, bounds[1:]))])
    return Launch(slices, (4, blocks(131, tm)), (a, b, bounds, out, tm, tn, tk), {3: want}, 2e-3)


@ct.kernel
def windows(x, w, out, t: Const, width: Const, n: Const):
    """Convolution along a row as a product: windows of `width` that begin at every element."""
    i = ct.bid(0)
    view = x.tiled_view((1, width), traversal_steps=(1, 1), padding_mode=ZERO)
    acc = ct.zeros((t, n), ct.float32)
    for r in range(x.shape[0]):
        tile = ct.zeros((t, width), x.dtype)
        for q in range(t):
            tile = ct.where(ct.arange(t, dtype=ct.int32)[:, None] == q, view.load((r, i * t + q)), tile)
        acc = ct.mma(tile, ct.load(w, (r, 0, 0), (1, width, n)).reshape((width, n)), acc)
    ct.store(out, (i, 0), acc)


@program((np.float16, 16, 16, 16), (bf16, 32, 32, 8))
def product_of_overlapping_windows(dtype, t, width, n):
    x, w = draw(3, 2 * t + width - 1, dtype=dtype), draw(3, width, n, dtype=dtype)
    seen = np.lib.stride_tricks.sliding_window_view(wide(x), width, 1)
    out = np.zeros((2 * t, n), np.float32)
    return Launch(windows, (2,), (x, w, out, t, width, n), {2: np.einsum("rtw,rwn->tn", seen, wide(w))}, 2e-3)


@ct.kernel
def picked_rows(x, rows, w, out, tm: Const, tn: Const, tk: Const):
    i, j = ct.bid(0), ct.bid(1)
    at = ct.load(rows, (i,), (tm,), padding_mode=ZERO)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(x.shape[1], tk)):
        a = ct.load_advanced_indexing(x, (at, ct.Slice(k * tk, tk)), padding_mode=ZERO)
        acc = ct.mma(a, ct.load(w, (k, j), (tk, tn), padding_mode=ZERO), acc)
    ct.store_advanced_indexing(out, (i * tm + ct.arange(tm, dtype=ct.int32), ct.Slice(j * tn, tn)), acc.astype(out.dtype))


@program((np.float16, 64, 64, 64), (bf16, 128, 64, 32), (np.float32, 16, 32, 32), quick=True)
def product_of_picked_rows(dtype, tm, tn, tk):
    x, w = draw(90, 136, dtype=dtype), draw(136, 2 * tn, dtype=dtype, scale=.2)
    rows = np.random.default_rng(1).integers(0, 90, 2 * tm).astype(np.int32)
    out = np.zeros((2 * tm, 2 * tn), np.float32)
    return Launch(picked_rows, (2, 2), (x, rows, w, out, tm, tn, tk), {3: wide(x)[rows] @ wide(w)}, 2e-3)


@ct.kernel
def backwards_by_two(a, b, out, tm: Const, tn: Const, tk: Const):
    """Odd steps of k, last first; then the even ones, first first."""
    i = ct.bid(0)
    n = ct.cdiv(a.shape[1], tk)
    acc = ct.zeros((tm, tn), ct.float32)
    for q in range(n // 2):
        k = 2 * (n // 2 - 1 - q) + 1
        acc = ct.mma(ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), ct.load(b, (k, 0), (tk, tn), padding_mode=ZERO), acc)
    acc = acc * 2.0
    for k in range(0, n, 2):
        acc = ct.mma(ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), ct.load(b, (k, 0), (tk, tn), padding_mode=ZERO), acc)
    ct.store(out, (i, 0), acc)


@program((np.float16, 128, 64, 32, 7), (bf16, 64, 128, 64, 4), (np.float16, 64, 64, 64, 1))
def product_in_two_loops(dtype, tm, tn, tk, steps):
    a, b = draw(tm + 5, steps * tk, dtype=dtype), draw(steps * tk, tn, dtype=dtype)
    factor = np.repeat(np.where(np.arange(steps) % 2, 2.0, 1.0), tk)
    out = np.zeros((tm + 5, tn), np.float32)
    return Launch(backwards_by_two, (2,), (a, b, out, tm, tn, tk), {2: (wide(a) * factor) @ wide(b)}, 3e-3)


@ct.kernel
def either_product(a, b, c, kind, out, t: Const, tk: Const):
    """Each step multiplies by b or, turned and scaled, by c; its kind is loaded."""
    i = ct.bid(0)
    acc = ct.zeros((t, t), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        x = ct.load(a, (i, k), (t, tk), padding_mode=ZERO)
        if ct.load(kind, (k,), ()) == 1:
            acc = ct.mma(x, ct.load(b, (k, 0), (tk, t), padding_mode=ZERO), acc)
        else:
            acc = ct.mma(x * 0.5, ct.load(c, (0, k), (t, tk), padding_mode=ZERO).transpose(), acc * 2.0)
    ct.store(out, (i, 0), acc)


@program((np.float16, 64, 32), (bf16, 128, 64))
def product_in_either_branch(dtype, t, tk):
    n = 5
    a, b, c = draw(t + 3, n * tk, dtype=dtype), draw(n * tk, t, dtype=dtype), draw(t, n * tk, dtype=dtype)
    kind = np.array([1, 0, 0, 1, 0], np.int32)
    want = np.zeros((t + 3, t))
    for k in range(n):
        part = slice(k * tk, (k + 1) * tk)
        want = want + wide(a)[:, part] @ wide(b)[part] if kind[k] else 2 * want + .5 * wide(a)[:, part] @ wide(c)[:, part].T
    return Launch(either_product, (2,), (a, b, c, kind, np.zeros((t + 3, t), np.float32), t, tk), {4: want}, 5e-3)


@ct.kernel
def over_two_axes(a, b, out, tm: Const, tn: Const, tk: Const):
    """The sum runs through two nested loops: the inner one's trips hang on the outer one's number."""
    i = ct.bid(0)
    acc = ct.zeros((tm, tn), ct.float32)
    for z in range(a.shape[0]):
        for k in range(z % 3):
            x = ct.load(a, (z, i, k), (1, tm, tk), padding_mode=ZERO).reshape((tm, tk))
            acc = ct.mma(x, ct.load(b, (z, k, 0), (1, tk, tn), padding_mode=ZERO).reshape((tk, tn)), acc)
    ct.store(out, (i, 0), acc)


@program((np.float16, 64, 64, 32), (bf16, 128, 128, 64), (np.float32, 32, 32, 32), quick=True)
def product_over_two_axes(dtype, tm, tn, tk):
    a, b = draw(6, tm, 2 * tk, dtype=dtype), draw(6, 2 * tk, tn, dtype=dtype)
    want = sum(wide(a)[z, :, :(z % 3) * tk] @ wide(b)[z, :(z % 3) * tk] for z in range(6))
    return Launch(over_two_axes, (1,), (a, b, np.zeros((tm, tn), np.float32), tm, tn, tk), {2: want}, 5e-3)


@ct.kernel
def gram(x, out, t: Const, tk: Const):
    acc = ct.zeros((t, t), out.dtype)
    for k in range(ct.cdiv(x.shape[1], tk)):
        tile = ct.load(x, (ct.bid(0), k), (t, tk), padding_mode=ZERO)
        acc = ct.mma(tile, tile.transpose(), acc)
    ct.store(out, (ct.bid(0), 0, 0), acc.reshape((1, t, t)))


@program((np.float16, 64, 64), (bf16, 128, 64), (np.float32, 64, 32), (np.float64, 16, 16))
def product_with_itself(dtype, t, tk):
    x = draw(2 * t, 3 * tk - 8, dtype=dtype)
    y = wide(x).reshape(2, t, -1)
    out = np.zeros((2, t, t), np.float64 if dtype is np.float64 else np.float32)
    return Launch(gram, (2,), (x, out, t, tk), {1: y @ y.transpose(0, 2, 1)}, 2e-2)


@ct.kernel
def triangular(a, b, out, t: Const):
    """A lower triangular matrix's tiles only: trips hang on the block."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((t, t), ct.float32)
    for k in range(j, i + 1):
        x = ct.load(a, (i, k), (t, t), padding_mode=ZERO)
        if k == i:
            r = ct.arange(t, dtype=ct.int32)
            x = ct.where(r[:, None] >= r[None, :], x, 0)
        acc = ct.mma(x, ct.load(b, (k, j), (t, t), padding_mode=ZERO), acc)
    ct.store(out, (i, j), acc)


@program((np.float16, 64), (bf16, 128), (np.float32, 32))
def product_of_triangles(dtype, t):
    n = 3 * t - 16
    a, b = draw(n, n, dtype=dtype), np.tril(draw(n, n, dtype=np.float32, seed=2)).astype(dtype)
    full = np.zeros((3 * t, 3 * t))
    full[:n, :n] = wide(b)
    mask = np.kron(np.tril(np.ones((3, 3))), np.ones((t, t)))[:n, :n]
    want = np.tril(wide(a)) @ (wide(b) * mask)
    want = want * mask
    return Launch(triangular, (3, 3), (a, b, np.zeros((n, n), np.float32), t), {2: want}, 1e-2)


@ct.kernel
def recurrent(x, w, u, out, t: Const, d: Const):
    """h = tanh(x[s] w + h u) for each step s: one product hangs on the step before."""
    weights, back = ct.load(w, (0, 0), (d, d)), ct.load(u, (0, 0), (d, d))
    h = ct.zeros((t, d), ct.float32)
    for s in range(x.shape[0]):
        tile = ct.load(x, (s, ct.bid(0), 0), (1, t, d), padding_mode=ZERO).reshape((t, d))
        h = ct.tanh(ct.mma(h.astype(u.dtype), back, ct.mma(tile, weights, ct.zeros((t, d), ct.float32))))
        ct.store(out, (s, ct.bid(0), 0), h.reshape((1, t, d)).astype(out.dtype))


@program((np.float16, 64, 64), (bf16, 16, 128), (np.float16, 128, 32), (np.float16, 64, 128), (bf16, 128, 128), quick=True)
def product_recurrent(dtype, t, d):
    x, w, u = draw(5, t + 8, d, dtype=dtype), draw(d, d, dtype=dtype, scale=.1), draw(d, d, dtype=dtype, scale=.1, seed=3)
    h, want = np.zeros((t + 8, d)), []
    for s in range(5):
        h = np.tanh(wide(x)[s] @ wide(w) + wide(h.astype(dtype)) @ wide(u))
        want.append(h)
    return Launch(recurrent, (2,), (x, w, u, np.zeros(x.shape, np.float32), t, d), {3: np.stack(want)},
                  2e-2 if dtype is bf16 else 4e-3)


@ct.kernel
def newton_schulz(x, out, n: Const, steps: Const):
    """x <- 1.5 x - 0.5 x x' x, a static number of times: chains of products without loads."""
    y = ct.load(x, (ct.bid(0), 0, 0), (1, n, n)).reshape((n, n))
    for _ in ct.static_iter(range(steps)):
        g = ct.mma(y, y.transpose(), ct.zeros((n, n), ct.float32)).astype(x.dtype)
        y = (1.5 * y.astype(ct.float32) - 0.5 * ct.mma(g, y, ct.zeros((n, n), ct.float32))).astype(x.dtype)
    ct.store(out, (ct.bid(0), 0, 0), y.reshape((1, n, n)))


@program((np.float16, 64, 3), (np.float32, 32, 4), (bf16, 128, 2))
def product_newton_schulz(dtype, n, steps):
    x = draw(2, n, n, dtype=np.float32)
    x = (x / np.linalg.norm(x, 2, axis=(1, 2), keepdims=True)).astype(dtype)
    y = wide(x)
    for _ in range(steps):
        g = wide((y @ y.transpose(0, 2, 1)).astype(dtype))
        y = wide((1.5 * y - .5 * g @ y).astype(dtype))
    return Launch(newton_schulz, (2,), (x, np.zeros_like(x), n, steps), {1: y}, 3e-2 if dtype is bf16 else 5e-3)


@ct.kernel
def nearest(x, codes, index, distance, t: Const, tc: Const, d: Const):
    """The nearest code of each row: products, then a minimum with its place carried over tiles of codes."""
    rows = ct.load(x, (ct.bid(0), 0), (t, d), padding_mode=ZERO)
    best = ct.full((t,), 1e30, ct.float32)
    at = ct.zeros((t,), ct.int32)
    for j in range(ct.cdiv(codes.shape[0], tc)):
        c = ct.load(codes, (j, 0), (tc, d), padding_mode=ZERO)
        norm = ct.sum(c.astype(ct.float32) * c.astype(ct.float32), axis=1)
        s = norm[None, :] - 2.0 * ct.mma(rows, c.transpose(), ct.zeros((t, tc), ct.float32))
        number = j * tc + ct.arange(tc, dtype=ct.int32)
        s = ct.where(number[None, :] < codes.shape[0], s, 1e30)
        least, place = ct.min(s, axis=1), ct.argmin(s, axis=1)
        at = ct.where(least < best, place + j * tc, at)
        best = ct.minimum(best, least)
    ct.store(index, (ct.bid(0),), at)
    ct.store(distance, (ct.bid(0),), best)


@program((np.float16, 64, 64, 64), (bf16, 128, 128, 32), (np.float16, 16, 32, 128), quick=True)
def product_then_nearest(dtype, t, tc, d):
    x, codes = whole(t + 9, d, dtype=dtype, low=-4, high=4), whole(3 * tc - 5, d, dtype=dtype, low=-4, high=4, seed=1)
    s = (wide(codes) ** 2).sum(1)[None] - 2 * wide(x) @ wide(codes).T
    return Launch(nearest, (2,), (x, codes, np.zeros(t + 9, np.int32), np.zeros(t + 9, np.float32), t, tc, d),
                  {2: s.argmin(1), 3: s.min(1)})


@ct.kernel
def one_hot_product(keys, values, out, t: Const, bins: Const, d: Const):
    """Sums by key as a product with rows of a unit matrix."""
    acc = ct.zeros((bins, d), out.dtype)
    for i in range(ct.bid(0), ct.cdiv(keys.shape[0], t), ct.num_blocks(0)):
        k = ct.load(keys, (i,), (t,), padding_mode=ZERO)
        valid = i * t + ct.arange(t, dtype=ct.int32) < keys.shape[0]
        hot = ((ct.arange(bins, dtype=ct.int32)[:, None] == k[None, :]) & valid[None, :]).astype(values.dtype)
        acc = ct.mma(hot, ct.load(values, (i, 0), (t, d), padding_mode=ZERO), acc)
    out.tiled_view((bins, d)).atomic_store_add((0, 0), acc)


@program((np.float16, 64, 16, 64), (bf16, 128, 64, 32), (np.int8, 64, 64, 64))
def product_of_one_hot(dtype, t, bins, d):
    keys, values = whole(5 * t - 3, low=0, high=bins - 1), whole(5 * t - 3, d, dtype=dtype)
    want = np.zeros((bins, d))
    np.add.at(want, keys, wide(values))
    out = np.zeros((bins, d), np.int32 if dtype is np.int8 else np.float32)
    return Launch(one_hot_product, (3,), (keys, values, out, t, bins, d), {2: want})


@ct.kernel
def ordered_both_ways(a, b, out, tm: Const, tn: Const, tk: Const):
    """Operands of column-major arrays by `order`, the result stored turned."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[0], tk)):
        x = ct.load(a, (i, k), (tm, tk), order="F", padding_mode=ZERO)
        y = ct.load(b, (k, j), (tk, tn), order=(1, 0), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
    ct.store(out, (i, j), acc.astype(out.dtype), order="F")


@program((np.float16, 128, 64, 32), (bf16, 64, 128, 64), (e4m3, 64, 64, 64), (np.float32, 32, 64, 32), since=90)
def product_by_order(dtype, tm, tn, tk):
    m, n, k = 136, 200, 96
    a, b, out = draw(k, m, dtype=dtype), draw(n, k, dtype=dtype), np.zeros((n, m), np.float32)
    return Launch(ordered_both_ways, (blocks(m, tm), blocks(n, tn)), (a, b, out, tm, tn, tk),
                  {2: (wide(a).T @ wide(b).T).T}, 2e-2)


@ct.kernel
def accumulated(a, b, c, alpha: float, beta: float, tm: Const, tn: Const, tk: Const):
    """c <- alpha a b + beta c, in place, sums begun with c."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.load(c, (i, j), (tm, tn), padding_mode=ZERO).astype(ct.float32) * (beta / alpha)
    for k in range(ct.cdiv(a.shape[1], tk)):
        acc = ct.mma(ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), ct.load(b, (k, j), (tk, tn), padding_mode=ZERO), acc)
    ct.store(c, (i, j), (acc * alpha).astype(c.dtype))


@program((np.float16, 128, 64, 64), (bf16, 64, 64, 32))
def product_in_place(dtype, tm, tn, tk):
    a, b, c = draw(200, 130, dtype=dtype), draw(130, 136, dtype=dtype, scale=.2), draw(200, 136, dtype=np.float32)
    return Launch(accumulated, (blocks(200, tm), blocks(136, tn)), (a, b, c, 0.5, 2.0, tm, tn, tk),
                  {2: .5 * wide(a) @ wide(b) + 2 * wide(c)}, 3e-3)


@ct.kernel
def far_product(a: ct.IndexedWithInt64, b: ct.IndexedWithInt64, out: ct.IndexedWithInt64, tm: Const, tn: Const, tk: Const):
    i = ct.bid(0)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        acc = ct.mma(ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), ct.load(b, (k, 0), (tk, tn), padding_mode=ZERO), acc)
    ct.store(out, (i, 0), acc)


@program((np.float16, 64, 64, 32), (bf16, 128, 64, 64))
def product_indexed_with_int64(dtype, tm, tn, tk):
    a, b = draw(tm + 9, 3 * tk + 5, dtype=dtype), draw(3 * tk + 5, tn, dtype=dtype)
    return Launch(far_product, (2,), (a, b, np.zeros((tm + 9, tn), np.float32), tm, tn, tk), {2: wide(a) @ wide(b)}, 3e-3)


@ct.kernel
def fixed_shapes(a: Annotated[ct.Array, ct.ArrayAnnotation(static_shape_dims=(0, 1), static_stride_dims=(0, 1))], b, out,
                 tm: Const, tn: Const, tk: Const):
    i = ct.bid(0)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        acc = ct.mma(ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), ct.load(b, (k, 0), (tk, tn), padding_mode=ZERO), acc)
    ct.store(out, (i, 0), acc)


@program((np.float16, 64, 64, 32, 100), (bf16, 128, 64, 64, 64), (np.float16, 64, 64, 32, 8))
def product_of_static_shape(dtype, tm, tn, tk, k):
    a, b = draw(tm + 9, k, dtype=dtype), draw(k, tn, dtype=dtype)
    return Launch(fixed_shapes, (2,), (a, b, np.zeros((tm + 9, tn), np.float32), tm, tn, tk), {2: wide(a) @ wide(b)}, 3e-3)


@ct.kernel
def hinted(a, b, out, tm: Const, tn: Const, tk: Const, latency: Const, tma: ct.Constant[bool]):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO, latency=latency, allow_tma=tma)
        y = ct.load(b, (k, j), (tk, tn), padding_mode=ZERO, latency=11 - latency, allow_tma=not tma)
        acc = ct.mma(x, y, acc)
    ct.store(out, (i, j), acc, allow_tma=tma, latency=latency)


@program((np.float16, 128, 64, 64, 1, False), (bf16, 64, 64, 32, 10, True), (np.float16, 128, 128, 64, 4, True))
def product_with_hints(dtype, tm, tn, tk, latency, tma):
    a, b, out = draw(160, 256, dtype=dtype), draw(256, 144, dtype=dtype), np.zeros((160, 144), np.float32)
    return Launch(hinted, (blocks(160, tm), blocks(144, tn)), (a, b, out, tm, tn, tk, latency, tma), {2: wide(a) @ wide(b)}, 3e-3)


@ct.kernel
def counted_tiles(a, b, out, tm: Const, tn: Const, tk: Const, n: Const):
    """As many steps as the program says, and results that find room where its operands lay."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(n):
        acc = ct.mma(ct.load(a, (i, k), (tm, tk), latency=1), ct.load(b, (k, j), (tk, tn), latency=1), acc)
    ct.store(out, (i, j), acc.astype(out.dtype))


@program((np.float16, 128, 256, 64, 7), (bf16, 128, 128, 64, 9), (e4m3, 64, 128, 128, 1), since=90)
def product_of_counted_tiles(dtype, tm, tn, tk, n):
    a, b = whole(2 * tm, n * tk, dtype=dtype, low=-3, high=3), whole(n * tk, 2 * tn, dtype=dtype, low=-3, high=3)
    return Launch(counted_tiles, (2, 2), (a, b, np.zeros((2 * tm, 2 * tn), bf16), tm, tn, tk, n),
                  {2: (wide(a) @ wide(b)).astype(np.float32).astype(bf16)})


@ct.kernel
def user_pipelined(a, b, out, tm: Const, tn: Const, tk: Const):
    """The next step's tiles are loaded before this step's product: the loop carries loaded tiles."""
    i = ct.bid(0)
    acc = ct.zeros((tm, tn), ct.float32)
    x, y = ct.load(a, (i, 0), (tm, tk), padding_mode=ZERO), ct.load(b, (0, 0), (tk, tn), padding_mode=ZERO)
    n = ct.cdiv(a.shape[1], tk)
    for k in range(1, n):
        following = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), ct.load(b, (k, 0), (tk, tn), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
        x, y = following
    ct.store(out, (i, 0), ct.mma(x, y, acc))


@program((np.float16, 128, 64, 32), (bf16, 64, 64, 64), (np.float32, 32, 32, 16))
def product_with_tiles_carried(dtype, tm, tn, tk):
    a, b = draw(tm + 9, 4 * tk + 8, dtype=dtype), draw(4 * tk + 8, tn, dtype=dtype)
    return Launch(user_pipelined, (2,), (a, b, np.zeros((tm + 9, tn), np.float32), tm, tn, tk), {2: wide(a) @ wide(b)}, 2e-2)


@ct.kernel
def in_pieces(a, b, bias, out, tm: Const, tn: Const, tk: Const, pieces: Const):
    """The epilogue goes through the result in pieces, each with its part of the bias."""
    i = ct.bid(0)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        acc = ct.mma(ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), ct.load(b, (k, 0), (tk, tn), padding_mode=ZERO), acc)
    for p in ct.static_iter(range(pieces)):
        part = ct.extract(acc, (0, p), (tm, tn // pieces))
        ct.store(out, (i, p), (part + ct.load(bias, (p,), (tn // pieces,))[None, :]).astype(out.dtype))


@program((np.float16, 128, 128, 64, 4), (bf16, 128, 256, 64, 2), (np.float16, 64, 64, 32, 8))
def product_stored_in_pieces(dtype, tm, tn, tk, pieces):
    a, b, bias = draw(tm + 16, 3 * tk, dtype=dtype), draw(3 * tk, tn, dtype=dtype), draw(tn, dtype=np.float32)
    out = np.zeros((tm + 16, tn), dtype)
    return Launch(in_pieces, (2,), (a, b, bias, out, tm, tn, tk, pieces), {3: wide(a) @ wide(b) + bias},
                  2e-2 if dtype is bf16 else 4e-3)


@ct.kernel
def pieces_in_a_loop(a, b, out, tm: Const, tn: Const, tk: Const, pieces: Const):
    i = ct.bid(0)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        acc = ct.mma(ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), ct.load(b, (k, 0), (tk, tn), padding_mode=ZERO), acc)
    for p in range(pieces):
        ct.store(out, (i, p), ct.extract(acc, (0, p), (tm, tn // pieces)).astype(out.dtype))


@program((np.float16, 128, 128, 64, 4), (bf16, 64, 64, 64, 2))
def product_stored_by_a_loop(dtype, tm, tn, tk, pieces):
    a, b = draw(tm + 16, 3 * tk, dtype=dtype), draw(3 * tk, tn, dtype=dtype)
    return Launch(pieces_in_a_loop, (2,), (a, b, np.zeros((tm + 16, tn), np.float32), tm, tn, tk, pieces), {2: wide(a) @ wide(b)},
                  4e-3)


@ct.kernel
def shared_weight(a, b, out, z: Const, tm: Const, tn: Const, tk: Const):
    """One left operand for all products of a batch."""
    i = ct.bid(0)
    acc = ct.zeros((z, tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        acc = ct.mma(ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), ct.load(b, (0, k, 0), (z, tk, tn), padding_mode=ZERO), acc)
    ct.store(out, (0, i, 0), acc)


@program((np.float16, 2, 64, 64, 32), (bf16, 4, 16, 32, 32), (np.float16, 2, 128, 32, 64))
def product_of_a_batch_by_one(dtype, z, tm, tn, tk):
    a, b = draw(tm + 8, 2 * tk + 8, dtype=dtype), draw(z, 2 * tk + 8, tn, dtype=dtype)
    return Launch(shared_weight, (2,), (a, b, np.zeros((z, tm + 8, tn), np.float32), z, tm, tn, tk), {2: wide(a) @ wide(b)}, 4e-3)


@ct.kernel
def weight_of_all(a, b, out, z: Const, tm: Const, tn: Const, tk: Const):
    """One right operand for all products of a batch, as it lies or turned."""
    i = ct.bid(0)
    acc = ct.zeros((z, tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[2], tk)):
        right = ct.load(b, (0, k), (tn, tk), padding_mode=ZERO).transpose()
        acc = ct.mma(ct.load(a, (0, i, k), (z, tm, tk), padding_mode=ZERO), right, acc)
    ct.store(out, (0, i, 0), acc)


@program((np.float16, 2, 64, 64, 32), (np.float32, 2, 16, 32, 32), (e4m3, 4, 64, 32, 64), since=90)
def product_of_a_batch_with_one(dtype, z, tm, tn, tk):
    a, b = whole(z, tm + 8, 2 * tk, dtype=dtype, low=-4, high=4), whole(tn, 2 * tk, dtype=dtype, low=-4, high=4)
    return Launch(weight_of_all, (2,), (a, b, np.zeros((z, tm + 8, tn), np.float32), z, tm, tn, tk), {2: wide(a) @ wide(b).T})


@ct.kernel
def mixed_f8(a, b, out, tm: Const, tn: Const, tk: Const):
    i = ct.bid(0)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO).astype(ct.float8_e4m3fn)
        y = ct.load(b, (k, 0), (tk, tn), padding_mode=ZERO)
        acc = ct.mma(x, y.astype(ct.float16).astype(ct.float8_e4m3fn), acc)
    ct.store(out, (i, 0), acc)


@program((np.float32, e5m2, 64, 64, 32), (np.float16, e4m3, 128, 64, 64), (bf16, e4m3, 64, 32, 128), since=90)
def product_of_operands_narrowed(left, right, tm, tn, tk):
    a, b = whole(tm + 8, 3 * tk, dtype=left, low=-4, high=4), whole(3 * tk, tn, dtype=right, low=-4, high=4)
    return Launch(mixed_f8, (2,), (a, b, np.zeros((tm + 8, tn), np.float32), tm, tn, tk), {2: wide(a) @ wide(b)})


@ct.kernel
def mixed_signs(a, b, c, out, tm: Const, tn: Const, tk: Const):
    i = ct.bid(0)
    acc = ct.load(c, (i, 0), (tm, tn), padding_mode=ZERO)
    for k in range(ct.cdiv(a.shape[1], tk)):
        acc = ct.mma(ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), ct.load(b, (k, 0), (tk, tn), padding_mode=ZERO), acc)
        acc = acc ^ (acc >> 3)
    ct.store(out, (i, 0), acc)


@program((np.uint8, np.uint8, 64, 64, 64), (np.int8, np.int8, 128, 32, 32), (np.int8, np.int8, 16, 16, 16))
def product_of_bytes_mixed_up(left, right, tm, tn, tk):
    a, b = whole(tm + 8, 3 * tk, dtype=left, low=0, high=120), whole(3 * tk, tn, dtype=right, low=0, high=120)
    c = whole(tm + 8, tn)
    want = c.astype(np.int64)
    for k in range(3):
        want = want + a[:, k * tk:(k + 1) * tk].astype(np.int64) @ b[k * tk:(k + 1) * tk].astype(np.int64)
        want = want ^ (want >> 3)
    return Launch(mixed_signs, (2,), (a, b, c, np.zeros_like(c), tm, tn, tk), {3: want})


@ct.kernel
def tiles_of_a_batch(a, b, out, tm: Const, tn: Const, tk: Const):
    z, i, j = ct.bid(0), ct.bid(1), ct.bid(2)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[2], tk)):
        x = ct.load(a, (z, i, k), (1, tm, tk), padding_mode=ZERO).reshape((tm, tk))
        acc = ct.mma(x, ct.load(b, (z, k, j), (1, tk, tn), padding_mode=ZERO).reshape((tk, tn)), acc)
    ct.store(out, (z, i, j), acc.astype(out.dtype).reshape((1, tm, tn)))


@ct.kernel
def large_tile(a, b, out, tm: Const, tn: Const, tk: Const):
    i, j = ct.bid(1), ct.bid(2)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        acc = ct.mma(ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), ct.load(b, (k, j), (tk, tn), padding_mode=ZERO), acc)
    ct.store(out, (i, j), acc)


@program((large_tile, np.float16, np.float32, 256, 256, 64), (tiles_of_a_batch, e4m3, np.float32, 256, 256, 128),
         (tiles_of_a_batch, np.float16, np.float16, 256, 256, 64), (tiles_of_a_batch, bf16, np.float32, 128, 256, 64),
         (tiles_of_a_batch, e4m3, np.float16, 128, 256, 64))
def product_of_large_tiles(kernel, dtype, kind, tm, tn, tk):
    """Tiles that shared memory hasn't room for, or that threads would exchange in rounds; the last ones are ragged."""
    flat = kernel is large_tile
    z, m, n, k = 1 if flat else 2, tm + 40, tn - 16, 2 * tk - 16
    a, b, out = draw(z, m, k, dtype=dtype), draw(z, k, n, dtype=dtype), np.zeros((z, m, n), kind)
    want = wide(a) @ wide(b)
    if flat:
        a, b, out, want = a[0], b[0], out[0], want[0]
    return Launch(kernel, (z, 2, 1), (a, b, out, tm, tn, tk), {2: want}, 2e-2 if dtype is e4m3 or kind is np.float16 else 2e-3)


@ct.kernel
def both_gradients(x, g, w, dx, dw, rows: Const, n: Const, m: Const):
    """Of a layer x times w, a stripe of rows a block and step: the weights' is a sum over steps, the input's isn't."""
    acc = ct.zeros((n, m), ct.float32)
    weights = ct.load(w, (0, 0), (n, m), padding_mode=ZERO)
    for i in range(ct.bid(0), ct.cdiv(x.shape[0], rows), ct.num_blocks(0)):
        a, d = ct.load(x, (i, 0), (rows, n), padding_mode=ZERO), ct.load(g, (i, 0), (rows, m), padding_mode=ZERO)
        acc = ct.mma(a.transpose(), d, acc)
        ct.store(dx, (i, 0), ct.mma(d, weights.transpose(), ct.zeros((rows, n), ct.float32)).astype(dx.dtype))
    ct.store(dw, (ct.bid(0), 0, 0), acc.reshape((1, n, m)))


@program((np.float16, 128, 64, 64), (bf16, 64, 64, 128), (np.float16, 64, 128, 64), (np.float32, 64, 32, 32), quick=True)
def gradients_of_a_layer(dtype, rows, n, m):
    count = 7 * rows - 8
    x, g, w = (whole(*shape, dtype=dtype, low=-2, high=2) for shape in ((count, n), (count, m), (n, m)))
    dx, dw = np.zeros((count, n), np.float32), np.zeros((2, n, m), np.float32)
    mine = [np.concatenate([np.arange(rows * i, min(rows * (i + 1), count)) for i in range(b, 7, 2)]) for b in range(2)]
    return Launch(both_gradients, (2,), (x, g, w, dx, dw, rows, n, m),
                  {3: wide(g) @ wide(w).T, 4: np.stack([wide(x)[r].T @ wide(g)[r] for r in mine])})


@ct.kernel
def twice_with_one(a, b, out, tm: Const, tn: Const, tk: Const):
    """Two products a step into one accumulator: what their second operands are differs by what threads do, and rows of the first
    have a pitch that the copy engine doesn't take."""
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        x, y = ct.load(a, (0, k), (tm, tk), padding_mode=ZERO), ct.load(b, (k, 0), (tk, tn), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
        acc = ct.mma(x, y * 2, acc)
    ct.store(out, (0, 0), acc)


@program((np.float16, 64, 64, 32, 94), (bf16, 128, 64, 64, 190), (np.float16, 128, 128, 32, 30), (np.float16, 64, 64, 32, 96),
         quick=True)
def products_with_one_operand_doubled(dtype, tm, tn, tk, k):
    a, b = whole(tm, k, dtype=dtype, low=-2, high=2), whole(k, tn, dtype=dtype, low=-2, high=2)
    return Launch(twice_with_one, (1,), (a, b, np.zeros((tm, tn), np.float32), tm, tn, tk), {2: 3 * wide(a) @ wide(b)})


@ct.kernel
def products_in_turn(a, out, t: Const, count: Const):
    """Many products, each of what the one before gives, the second one in the first one's sums."""
    x, zeros = ct.load(a, (0, 0), (t, t)), ct.zeros((t, t), ct.float32)
    p = ct.mma(x, x, ct.mma(x, x, zeros))
    for _ in ct.static_iter(range(count)):
        p = ct.mma(ct.minimum(p, 1.0).astype(a.dtype), x, zeros)
    ct.store(out, (0, 0), p)


@program((np.float16, 64, 8), (bf16, 128, 6), quick=True)
def many_products_in_turn(dtype, t, count):
    a = whole(t, t, dtype=dtype, low=-1, high=0)
    want = 2 * wide(a) @ wide(a)
    for _ in range(count):
        want = np.minimum(want, 1) @ wide(a)
    return Launch(products_in_turn, (1,), (a, np.zeros((t, t), np.float32), t, count), {1: want})


@ct.kernel
def product_behind_a_choice(a, b, out, other, t: Const, n: Const, count: Const):
    """A product whose rows are what it gave before, behind another one that only some iterations have."""
    x, p, q = ct.load(a, (0, 0), (t, t)), ct.full((2 * t, t), 1, ct.float32), ct.zeros((t, n), ct.float32)
    for k in range(count):
        if k % 2 == 0:
            q = ct.mma(x.transpose(), ct.load(b, (k, 0), (t, n)), ct.floor(q * 0.5))
        rows = ct.minimum(ct.maximum(p, -2.0), 2.0).astype(a.dtype)
        p = ct.mma(rows, x, ct.minimum(ct.maximum(p, -64.0), 64.0))
    ct.store(out, (0, 0), p)
    ct.store(other, (0, 0), q)


@program((bf16, 64, 128, 5), (np.float16, 64, 256, 4), (np.float16, 128, 64, 3), quick=True)
def product_behind_another_one_at_times(dtype, t, n, count):
    a, b = whole(t, t, dtype=dtype, low=-1, high=1), whole(count * t, n, dtype=dtype, low=-1, high=1)
    p, q = np.ones((2 * t, t)), np.zeros((t, n))
    for k in range(count):
        q = wide(a).T @ wide(b[k * t:(k + 1) * t]) + np.floor(q * .5) if k % 2 == 0 else q
        p = np.clip(p, -2, 2) @ wide(a) + np.clip(p, -64, 64)
    made = np.zeros((2 * t, t), np.float32), np.zeros((t, n), np.float32)
    return Launch(product_behind_a_choice, (1,), (a, b, *made, t, n, count), {2: p, 3: q}, 1e-3)


@ct.kernel(num_worker_warps=8)
def sums_in_columns_of_others(a, b, out, t: Const, n: Const):
    """A product of fewer rows, whose sums threads have read, makes room for those of more rows, which threads store to add to."""
    x, y = ct.load(a, (0, 0), (t, 64)), ct.load(b, (0, 0), (64, n))
    p = -ct.mma(x, y, ct.zeros((t, n), ct.float32))
    for k in range(3):
        q = ct.mma(ct.load(a, (k, 0), (64, 64)), y, ct.zeros((64, n), ct.float32))
        p = ct.mma(x, ct.minimum(ct.maximum(q, -2.0), 2.0).astype(b.dtype), ct.floor(p * 0.5))
        p = p if k == 1 else -p
    ct.store(out, (0, 0), p)


@program((np.float16, 128, 128), (bf16, 128, 64), (np.float16, 128, 256), quick=True)
def sums_of_more_rows_behind_those_of_fewer(dtype, t, n):
    a, b = whole(192, 64, dtype=dtype, low=-1, high=1), whole(64, n, dtype=dtype, low=-1, high=1)
    x, p = wide(a)[:t], -(wide(a)[:t] @ wide(b))
    for k in range(3):
        q = np.clip(wide(a)[64 * k:64 * k + 64] @ wide(b), -2, 2)
        p = (1 if k == 1 else -1) * (x @ q + np.floor(p * .5))
    return Launch(sums_in_columns_of_others, (1,), (a, b, np.zeros((t, n), np.float32), t, n), {2: p}, 1e-3)


@ct.kernel
def carried_twice(a, b, out, other, t: Const, n: Const, count: int):
    """What one product gives is the next iteration's under two names, which begin with different tiles."""
    p, q = ct.ones((t, n), ct.float32), ct.zeros((t, n), ct.float32)
    for k in range(count):
        x = ct.load(a, (0, k), (t, t))
        ct.store(other, (k, 0), q)
        new = ct.mma(x, ct.load(b, (k, 0), (t, n)), ct.minimum(p, 8.0))
        p = new
        q = new
    ct.store(out, (0, 0), p - ct.minimum(q, 4.0))


@program((np.float16, 64, 64, 3), (bf16, 128, 64, 2), (np.float16, 128, 128, 0), quick=True)
def product_carried_under_two_names(dtype, t, n, count):
    a, b = whole(t, 4 * t, dtype=dtype, low=-1, high=1), whole(4 * t, n, dtype=dtype, low=-1, high=1)
    p, q, other = np.ones((t, n)), np.zeros((t, n)), np.zeros((4 * t, n))
    for k in range(count):
        s = slice(k * t, k * t + t)
        other[s] = q
        p = q = wide(a)[:, s] @ wide(b)[s] + np.minimum(p, 8)
    made = np.zeros((t, n), np.float32), np.zeros((4 * t, n), np.float32)
    return Launch(carried_twice, (1,), (a, b, *made, t, n, count), {2: p - np.minimum(q, 4), 3: other})


@ct.kernel
def begun_with_one(a, flags, out, t: Const, count: int):
    """One tile is where two carried ones begin, whose layouts differ: one is turned, the other one is made of sums."""
    x = ct.load(a, (0, 0), (t, t))
    turned, kept = x, x.astype(ct.float32)
    p = ct.zeros((t, t), ct.float32)
    for k in range(count):
        p = ct.mma(turned, x, p)
        if ct.load(flags, (k,), ()) < 2:
            turned = x.transpose()
            kept = ct.minimum(ct.maximum(p, -2.0), 2.0)
    ct.store(out, (0, 0), kept)


@program((np.float32, 32, (3, 0, 2)), (np.float32, 32, (2, 2, 3)), (np.float16, 64, (0, 0, 0)), (np.float32, 64, ()), quick=True)
def carried_tiles_that_begin_alike(dtype, t, flags):
    a = whole(t, t, dtype=dtype, low=-1, high=1)
    x = turned = kept = wide(a)
    p = np.zeros((t, t))
    for flag in flags:
        p = p + turned @ x
        if flag < 2:
            turned, kept = x.T, np.clip(p, -2, 2)
    given = np.array([*flags, 0], np.int32)
    return Launch(begun_with_one, (1,), (a, given, np.zeros((t, t), np.float32), t, len(flags)), {2: kept})


@ct.kernel
def behind_an_inner_loop(p, q, b, c, first, second, n: int, m: int, t: Const, k: Const, e: Const):
    """What threads make is the operand of an inner loop's products, and of one behind it; both sums go on over all steps."""
    x, y = ct.zeros((t, e), ct.float32), ct.zeros((t, e), ct.float32)
    for i in range(n):
        u = ct.maximum(ct.load(p, (i, 0), (k, e)), 0)
        for j in range(m):
            x = ct.mma(ct.load(b, (j, 0), (t, k)), u, x)
        y = ct.mma(ct.load(c, (i, 0), (t, k)), ct.maximum(ct.load(q, (i, 0), (k, e)), 0), y)
    ct.store(first, (0, 0), x)
    ct.store(second, (0, 0), y)


@program((np.float16, 128, 64, 64, 3, 3), (np.float16, 64, 64, 32, 4, 0), (bf16, 128, 128, 64, 3, 1), quick=True)
def product_behind_an_inner_loop(dtype, t, k, e, n, m):
    p, q = whole(n * k, e, dtype=dtype, low=-2, high=2), whole(n * k, e, dtype=dtype, low=-2, high=2, seed=1)
    b, c = whole(m * t + t, k, dtype=dtype, low=-2, high=2), whole(n * t, k, dtype=dtype, low=-2, high=2, seed=1)
    u, w = (np.maximum(wide(v), 0).reshape(n, k, e) for v in (p, q))
    made = np.zeros((t, e), np.float32), np.zeros((t, e), np.float32)
    return Launch(behind_an_inner_loop, (1,), (p, q, b, c, *made, n, m, t, k, e), {
        4: wide(b[:m * t]).reshape(m, t, k).sum(0) @ u.sum(0), 5: (wide(c).reshape(n, t, k) @ w).sum(0)})


@ct.kernel
def two_inputs(x, h, wx, wh, out, gate, n: int, m: int, tm: Const, tn: Const, tk: Const):
    """Gates of a recurrent layer: two sums, each of a loop over the input's columns and of one over the state's."""
    i, j = ct.bid(0), ct.bid(1)
    a, b = ct.zeros((tm, tn), ct.float32), ct.zeros((tm, tn), ct.float32)
    for k in range(n):
        tile = ct.load(x, (i, k), (tm, tk))
        a = ct.mma(tile, ct.load(wx, (k, j), (tk, tn)), a)
        b = ct.mma(tile, ct.load(wx, (k, 2 + j), (tk, tn)), b)
    for k in range(m):
        tile = ct.load(h, (i, k), (tm, tk))
        a = ct.mma(tile, ct.load(wh, (k, j), (tk, tn)), a)
        b = ct.mma(tile, ct.load(wh, (k, 2 + j), (tk, tn)), b)
    ct.store(out, (i, j), ct.tanh(a))
    ct.store(gate, (i, j), b)


@program((bf16, 64, 32, 64, 2, 3), (np.float16, 128, 64, 64, 5, 3), (np.float16, 64, 64, 64, 3, 5), (bf16, 128, 128, 64, 0, 2),
         (np.float16, 128, 64, 64, 2, 0), (np.float16, 64, 32, 64, 0, 0), (bf16, 64, 32, 64, 1, 1), quick=True)
def gates_of_two_inputs(dtype, tm, tn, tk, n, m):
    """Either loop may run never: what it would add to is there all the same."""
    x, h = (whole(2 * tm, 5 * tk, dtype=dtype, low=-2, high=2, seed=s) for s in (0, 1))
    wx, wh = (whole(5 * tk, 4 * tn, dtype=dtype, low=-2, high=2, seed=s) for s in (2, 3))
    sums = wide(x)[:, :n * tk] @ wide(wx)[:n * tk] + wide(h)[:, :m * tk] @ wide(wh)[:m * tk]
    return Launch(two_inputs, (2, 2), (x, h, wx, wh, np.ones((2 * tm, 2 * tn), np.float32), np.ones((2 * tm, 2 * tn), np.float32),
                                       n, m, tm, tn, tk), {4: np.tanh(sums[:, :2 * tn]), 5: sums[:, 2 * tn:]}, 1e-6)
