"""Several products in one kernel as fused kernels have them: a layer after another through memory, adapters, complex numbers,
floats taken apart, losses of a product's rows, work shared out along k, 8-bit attention, pages of keys, lists of blocks."""
import cuda.tile as ct
import numpy as np

from tests.programs.programs import Launch, bf16, blocks, draw, e4m3, program, whole, wide

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


def rough(dtype, fine, coarse):
    """A tolerance: bf16's is coarse."""
    return coarse if dtype is bf16 else fine


def softmax(s):
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


@ct.kernel
def two_layers(x, w1, w2, hidden, out, tm: Const, tn: Const, tk: Const):
    """A block computes its rows of a hidden layer, leaves them in memory, and reads them as the next product's operand; it goes on
    with further rows."""
    for i in range(ct.bid(0), ct.cdiv(x.shape[0], tm), ct.num_blocks(0)):
        for j in range(ct.cdiv(w1.shape[1], tn)):
            acc = ct.zeros((tm, tn), ct.float32)
            for k in range(ct.cdiv(x.shape[1], tk)):
                acc = ct.mma(ct.load(x, (i, k), (tm, tk), padding_mode=ZERO), ct.load(w1, (k, j), (tk, tn), padding_mode=ZERO), acc)
            ct.store(hidden, (i, j), ct.maximum(acc, 0.0).astype(hidden.dtype))
        for j in range(ct.cdiv(w2.shape[1], tn)):
            acc = ct.zeros((tm, tn), ct.float32)
            for k in range(ct.cdiv(hidden.shape[1], tk)):
                y = ct.load(w2, (k, j), (tk, tn), padding_mode=ZERO)
                acc = ct.mma(ct.load(hidden, (i, k), (tm, tk), padding_mode=ZERO), y, acc)
            ct.store(out, (i, j), acc.astype(out.dtype))


@program((np.float16, 64, 64, 64), (bf16, 128, 64, 32), (np.float16, 128, 128, 64), (np.float32, 32, 32, 32))
def layers_through_memory(dtype, tm, tn, tk):
    m, k, n, p = 3 * tm - 5, 2 * tk + 8, 2 * tn - 8, tn + 8
    x, w1, w2 = draw(m, k, dtype=dtype), draw(k, n, dtype=dtype, scale=.1), draw(n, p, dtype=dtype, scale=.1)
    hidden = np.maximum(wide(x) @ wide(w1), 0)
    want = wide(hidden.astype(dtype)) @ wide(w2)
    return Launch(two_layers, (2,), (x, w1, w2, np.ones((m, n), dtype), np.zeros((m, p), np.float32), tm, tn, tk),
                  {3: hidden, 4: want}, rough(dtype, 5e-3, 3e-2))


@ct.kernel
def adapted(x, w, a, b, out, scale: float, tm: Const, tn: Const, tk: Const, r: Const):
    """A product and a narrow one beside it in one loop; the narrow one's result is multiplied once more."""
    i, j = ct.bid(0), ct.bid(1)
    acc, low = ct.zeros((tm, tn), ct.float32), ct.zeros((tm, r), ct.float32)
    for k in range(ct.cdiv(x.shape[1], tk)):
        tile = ct.load(x, (i, k), (tm, tk), padding_mode=ZERO)
        acc = ct.mma(tile, ct.load(w, (j, k), (tn, tk), padding_mode=ZERO).transpose(), acc)
        low = ct.mma(tile, ct.load(a, (k, 0), (tk, r), padding_mode=ZERO), low)
    acc = ct.mma((low * scale).astype(x.dtype), ct.load(b, (0, j), (r, tn), padding_mode=ZERO), acc)
    ct.store(out, (i, j), acc.astype(out.dtype))


@program((np.float16, 128, 128, 64, 16), (bf16, 64, 64, 64, 8), (np.float16, 64, 128, 32, 64), (np.float32, 32, 32, 16, 16))
def product_with_an_adapter(dtype, tm, tn, tk, r):
    m, n, k = tm + 9, 2 * tn - 8, 3 * tk - 8
    x, w = draw(m, k, dtype=dtype), draw(n, k, dtype=dtype, scale=.1)
    a, b = draw(k, r, dtype=dtype, scale=.1), draw(r, n, dtype=dtype)
    want = wide(x) @ wide(w).T + wide((wide(x) @ wide(a) * .5).astype(dtype)) @ wide(b)
    return Launch(adapted, (2, 2), (x, w, a, b, np.zeros((m, n), np.float32), .5, tm, tn, tk, r), {4: want},
                  rough(dtype, 1e-2, 6e-2))


@ct.kernel
def complex_product(ar, ai, br, bi, cr, ci, tm: Const, tn: Const, tk: Const):
    """Four products of four operands, one of them with its sign turned, into two accumulators."""
    i, j = ct.bid(0), ct.bid(1)
    re = im = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(ar.shape[1], tk)):
        a, b = ct.load(ar, (i, k), (tm, tk), padding_mode=ZERO), ct.load(ai, (i, k), (tm, tk), padding_mode=ZERO)
        c, d = ct.load(br, (k, j), (tk, tn), padding_mode=ZERO), ct.load(bi, (k, j), (tk, tn), padding_mode=ZERO)
        re = ct.mma(a, c, re)
        im = ct.mma(a, d, im)
        re = ct.mma(-b, d, re)
        im = ct.mma(b, c, im)
    ct.store(cr, (i, j), re)
    ct.store(ci, (i, j), im)


@program((np.float16, 64, 64, 32), (bf16, 128, 64, 64), (np.float32, 32, 32, 16), (np.float16, 128, 128, 32))
def product_of_complex_numbers(dtype, tm, tn, tk):
    m, n, k = tm + 3, tn, 2 * tk + 8
    a = [draw(m, k, dtype=dtype, seed=s) for s in range(2)]
    b = [draw(k, n, dtype=dtype, seed=s) for s in range(2)]
    want = (wide(a[0]) + 1j * wide(a[1])) @ (wide(b[0]) + 1j * wide(b[1]))
    out = [np.zeros((m, n), np.float32) for _ in range(2)]
    return Launch(complex_product, (2, 1), (*a, *b, *out, tm, tn, tk), {4: want.real, 5: want.imag}, 1e-2)


@ct.kernel
def subtracted(a, b, c, out, tm: Const, tn: Const, tk: Const, way: Const):
    """An array less a product: of the first operand with its sign turned, of the second one, turned as a tile, too, of both."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.load(c, (i, j), (tm, tn), padding_mode=ZERO)
    for k in range(ct.cdiv(a.shape[1], tk)):
        x, y = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), ct.load(b, (j, k), (tn, tk), padding_mode=ZERO)
        if way == 0:
            acc = ct.mma(-x, y.transpose(), acc)
        elif way == 1:
            acc = ct.mma(x, (-y).transpose(), acc)
        else:
            acc = ct.mma(-x, -y.transpose(), acc)
    ct.store(out, (i, j), acc)


@program((np.float16, 128, 128, 64, 0), (bf16, 128, 64, 64, 1), (np.float16, 64, 64, 32, 1), (np.float32, 32, 32, 16, 0),
         (bf16, 256, 128, 64, 2), (np.float16, 16, 64, 32, 1), (np.float16, 64, 256, 64, 0), quick=True)
def products_subtracted(dtype, tm, tn, tk, way):
    m, n, k = tm + 5, 2 * tn, 3 * tk
    a, b, c = draw(m, k, dtype=dtype), draw(n, k, dtype=dtype), draw(m, n, dtype=np.float32)
    want = wide(c) + (wide(a) @ wide(b).T) * (1 if way == 2 else -1)
    return Launch(subtracted, (2, 2), (a, b, c, np.zeros((m, n), np.float32), tm, tn, tk, way), {3: want}, 1e-2)


@ct.kernel
def taken_apart(a, b, out, tm: Const, tn: Const, tk: Const):
    """f32 as a sum of two bf16: three products of what is computed from two tiles."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        x, y = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), ct.load(b, (k, j), (tk, tn), padding_mode=ZERO)
        x1, y1 = x.astype(ct.bfloat16), y.astype(ct.bfloat16)
        x2, y2 = (x - x1.astype(ct.float32)).astype(ct.bfloat16), (y - y1.astype(ct.float32)).astype(ct.bfloat16)
        acc = ct.mma(x2, y1, acc)
        acc = ct.mma(x1, y2, acc)
        acc = ct.mma(x1, y1, acc)
    ct.store(out, (i, j), acc)


@program((64, 64, 32), (128, 128, 32), (16, 32, 64), quick=True)
def product_of_floats_taken_apart(tm, tn, tk):
    a, b = draw(tm + 3, 3 * tk - 4, dtype=np.float32), draw(3 * tk - 4, tn, dtype=np.float32)
    return Launch(taken_apart, (2, 1), (a, b, np.zeros((tm + 3, tn), np.float32), tm, tn, tk), {2: wide(a) @ wide(b)}, 1e-3)


@ct.kernel
def linear_loss(x, w, target, loss, tm: Const, tn: Const, tk: Const):
    """Cross entropy of a product's rows, which never reaches memory: an online softmax over tiles of columns around its loop."""
    i = ct.bid(0)
    m, s = ct.full((tm,), -1e30, ct.float32), ct.zeros((tm,), ct.float32)
    hit = ct.zeros((tm,), ct.float32)
    want = ct.load(target, (i,), (tm,), padding_mode=ZERO)
    for j in range(ct.cdiv(w.shape[0], tn)):
        acc = ct.zeros((tm, tn), ct.float32)
        for k in range(ct.cdiv(x.shape[1], tk)):
            acc = ct.mma(ct.load(x, (i, k), (tm, tk), padding_mode=ZERO),
                         ct.load(w, (j, k), (tn, tk), padding_mode=ZERO).transpose(), acc)
        column = j * tn + ct.arange(tn, dtype=ct.int32)
        hit = hit + ct.sum(ct.where(column[None, :] == want[:, None], acc, 0.0), axis=1)
        acc = ct.where(column[None, :] < w.shape[0], acc, -1e30)
        top = ct.maximum(m, ct.max(acc, axis=1))
        s = s * ct.exp(m - top) + ct.sum(ct.exp(acc - top[:, None]), axis=1)
        m = top
    ct.store(loss, (i,), m + ct.log(s) - hit)


@program((np.float16, 64, 64, 64), (bf16, 128, 128, 64), (np.float32, 32, 32, 32), (np.float16, 16, 128, 32))
def product_and_its_rows_loss(dtype, tm, tn, tk):
    m, n, k = tm + 5, 3 * tn - 7, 2 * tk - 8
    x, w, target = draw(m, k, dtype=dtype, scale=.3), draw(n, k, dtype=dtype, scale=.3), whole(m, low=0, high=n - 1)
    y = wide(x) @ wide(w).T
    want = np.log(np.exp(y - y.max(1, keepdims=True)).sum(1)) + y.max(1) - y[np.arange(m), target]
    return Launch(linear_loss, (2,), (x, w, target, np.zeros(m, np.float32), tm, tn, tk), {3: want}, 2e-3)


@ct.kernel
def stream_k(a, b, out, per_block: int, tm: Const, tn: Const, tk: Const):
    """Steps of all tiles in one loop, as many for each block: where a tile ends, its sum is added to memory and begins anew."""
    steps, columns = ct.cdiv(a.shape[1], tk), ct.cdiv(b.shape[1], tn)
    total = ct.cdiv(a.shape[0], tm) * columns * steps
    first = ct.bid(0) * per_block
    last = min(first + per_block, total)
    acc = ct.zeros((tm, tn), ct.float32)
    for q in range(first, last):
        t, k = q // steps, q % steps
        i, j = t // columns, t % columns
        acc = ct.mma(ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), ct.load(b, (k, j), (tk, tn), padding_mode=ZERO), acc)
        if k == steps - 1 or q == last - 1:
            rows, cols = i * tm + ct.arange(tm, dtype=ct.int32), j * tn + ct.arange(tn, dtype=ct.int32)
            ct.atomic_add(out, (rows[:, None], cols[None, :]), acc)
            acc = ct.zeros((tm, tn), ct.float32)


@program((np.float16, 64, 64, 32, 5), (bf16, 128, 64, 64, 3), (np.float32, 32, 32, 16, 4), (np.float16, 64, 128, 64, 40))
def product_in_equal_shares(dtype, tm, tn, tk, per_block):
    m, n, k = 2 * tm - 8, tn + 8, 3 * tk - 8
    a, b = draw(m, k, dtype=dtype), draw(k, n, dtype=dtype)
    return Launch(stream_k, (blocks(12, per_block) + 1,), (a, b, np.zeros((m, n), np.float32), per_block, tm, tn, tk),
                  {2: wide(a) @ wide(b)}, 1e-2)


@ct.kernel
def split_with_tickets(a, b, parts, arrived, out, tm: Const, tn: Const, tk: Const):
    """Each block leaves its part of k; the last to arrive at a tile adds them up, in order."""
    i, z = ct.bid(0), ct.bid(1)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(z, ct.cdiv(a.shape[1], tk), ct.num_blocks(1)):
        acc = ct.mma(ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), ct.load(b, (k, 0), (tk, tn), padding_mode=ZERO), acc)
    ct.store(parts, (z, i, 0), acc.reshape((1, tm, tn)))
    if ct.atomic_add(arrived, i, 1, memory_order=ct.MemoryOrder.ACQ_REL) == ct.num_blocks(1) - 1:
        total = ct.zeros((tm, tn), ct.float32)
        for q in range(ct.num_blocks(1)):
            total = total + ct.load(parts, (q, i, 0), (1, tm, tn)).reshape((tm, tn))
        ct.store(out, (i, 0), total.astype(out.dtype))
        ct.store(arrived, (i,), 0)


@program((np.float16, 64, 64, 32, 3), (bf16, 128, 128, 64, 2), (np.float32, 16, 32, 16, 4))
def product_added_by_the_last_block(dtype, tm, tn, tk, parts):
    a, b = draw(2 * tm, 5 * tk, dtype=dtype), draw(5 * tk, tn, dtype=dtype)
    each = [sum(wide(a)[:, k * tk:(k + 1) * tk] @ wide(b)[k * tk:(k + 1) * tk] for k in range(z, 5, parts)) for z in range(parts)]
    left, out = np.zeros((parts, 2 * tm, tn), np.float32), np.zeros((2 * tm, tn), np.float32)
    return Launch(split_with_tickets, (2, parts), (a, b, left, np.zeros(2, np.int32), out, tm, tn, tk),
                  {2: np.stack(each), 3: 0, 4: wide(a) @ wide(b)}, 1e-2)


@ct.kernel
def quantized_attention(q, k, v, qs, ks, vs, out, tm: Const, tn: Const, d: Const):
    """8-bit floats: scores by one product with scales a tile of keys, weights narrowed for the other."""
    h, i = ct.bid(0), ct.bid(1)
    x = ct.load(q, (h, i, 0), (1, tm, d), padding_mode=ZERO).reshape((tm, d))
    m, s = ct.full((tm, 1), -1e30, ct.float32), ct.zeros((tm, 1), ct.float32)
    acc = ct.zeros((tm, d), ct.float32)
    scale = ct.load(qs, (h,), ())
    for j in range(ct.cdiv(k.shape[1], tn)):
        y = ct.load(k, (h, j, 0), (1, tn, d), padding_mode=ZERO).reshape((tn, d))
        w = ct.mma(x, y.transpose(), ct.zeros((tm, tn), ct.float32)) * (scale * ct.load(ks, (h, j), ()))
        w = ct.where(j * tn + ct.arange(tn, dtype=ct.int32)[None, :] < k.shape[1], w, -1e30)
        top = ct.maximum(m, ct.max(w, axis=1, keepdims=True))
        p, r = ct.exp2(w - top), ct.exp2(m - top)
        s, m = s * r + ct.sum(p, axis=1, keepdims=True), top
        z = ct.load(v, (h, 0, j), (1, d, tn), padding_mode=ZERO).reshape((d, tn))
        acc = ct.mma((p * 256.0).astype(v.dtype), z.transpose(), acc * r)
    ct.store(out, (h, i, 0), (acc / s * (ct.load(vs, (h,), ()) / 256.0)).astype(out.dtype).reshape((1, tm, d)))


@program((64, 64, 64), (128, 128, 128), (128, 64, 64), (16, 64, 128), since=90)
def attention_of_8_bit_floats(tm, tn, d):
    m, n = tm + 10, 2 * tn + 30
    q, k, v = draw(2, m, d, dtype=e4m3), draw(2, n, d, dtype=e4m3, seed=1), draw(2, d, n, dtype=e4m3, seed=2)
    qs, ks = np.array([.1, .05], np.float32), (np.abs(draw(2, blocks(n, tn), dtype=np.float32)) + .5)
    vs = np.array([1.5, .3], np.float32)
    scores = np.einsum("hmd,hnd->hmn", wide(q), wide(k)) * qs[:, None, None] * np.repeat(ks, tn, 1)[:, None, :n]
    want = softmax(scores * np.log(2)) @ wide(v).transpose(0, 2, 1) * vs[:, None, None]
    return Launch(quantized_attention, (2, 2), (q, k, v, qs, ks, vs, np.zeros((2, m, d), np.float32), tm, tn, d), {6: want}, 4e-2)


@ct.kernel
def int8_attention(q, k, v, out, scale: float, tm: Const, tn: Const, d: Const):
    """Scores of whole numbers, weights in halves: products of two kinds in one loop."""
    i = ct.bid(0)
    x = ct.load(q, (i, 0), (tm, d), padding_mode=ZERO)
    m, s = ct.full((tm, 1), -1e30, ct.float32), ct.zeros((tm, 1), ct.float32)
    acc = ct.zeros((tm, d), ct.float32)
    for j in range(ct.cdiv(k.shape[0], tn)):
        w = ct.mma(x, ct.load(k, (j, 0), (tn, d), padding_mode=ZERO).transpose(), ct.zeros((tm, tn), ct.int32))
        w = ct.where(j * tn + ct.arange(tn, dtype=ct.int32)[None, :] < k.shape[0], w.astype(ct.float32) * scale, -1e30)
        top = ct.maximum(m, ct.max(w, axis=1, keepdims=True))
        p, r = ct.exp(w - top), ct.exp(m - top)
        s, m = s * r + ct.sum(p, axis=1, keepdims=True), top
        acc = ct.mma(p.astype(v.dtype), ct.load(v, (j, 0), (tn, d), padding_mode=ZERO), acc * r)
    ct.store(out, (i, 0), acc / s)


@program((np.float16, 64, 64, 64), (bf16, 128, 64, 128), (np.float16, 16, 32, 32))
def attention_of_whole_numbers(dtype, tm, tn, d):
    m, n = tm + 10, 2 * tn + 30
    q, k = (whole(r, d, dtype=np.int8, low=-127, high=127, seed=s) for s, r in enumerate((m, n)))
    v = draw(n, d, dtype=dtype)
    want = softmax(wide(q) @ wide(k).T * 2e-4) @ wide(v)
    return Launch(int8_attention, (2,), (q, k, v, np.zeros((m, d), np.float32), 2e-4, tm, tn, d), {3: want},
                  rough(dtype, 3e-3, 2e-2))


@ct.kernel
def paged(q, keys, values, table, lengths, out, scale: float, g: Const, page: Const, d: Const):
    """Keys and values in pages whose numbers stand in a table; sequences of any length, none too."""
    b, h = ct.bid(0), ct.bid(1)
    n = ct.load(lengths, (b,), ())
    x = ct.load(q, (b, h, 0, 0), (1, 1, g, d), padding_mode=ZERO).reshape((g, d))
    m, s = ct.full((g, 1), -1e30, ct.float32), ct.zeros((g, 1), ct.float32)
    acc = ct.zeros((g, d), ct.float32)
    for j in range(ct.cdiv(n, page)):
        at = ct.load(table, (b, j), ())
        y = ct.load(keys, (at, h, 0, 0), (1, 1, page, d)).reshape((page, d))
        w = ct.mma(x, y.transpose(), ct.zeros((g, page), ct.float32)) * scale
        w = ct.where(j * page + ct.arange(page, dtype=ct.int32)[None, :] < n, w, -1e30)
        top = ct.maximum(m, ct.max(w, axis=1, keepdims=True))
        p, r = ct.exp(w - top), ct.exp(m - top)
        s, m = s * r + ct.sum(p, axis=1, keepdims=True), top
        z = ct.load(values, (at, h, 0, 0), (1, 1, page, d)).reshape((page, d))
        acc = ct.mma(p.astype(values.dtype), z, acc * r)
    ct.store(out, (b, h, 0, 0), ct.where(n > 0, acc / ct.maximum(s, 1e-30), 0.0).astype(out.dtype).reshape((1, 1, g, d)))


@program((np.float16, 16, 32, 64), (bf16, 64, 64, 128), (np.float16, 128, 64, 64), (np.float16, 8, 16, 128), quick=True)
def attention_by_a_page_table(dtype, g, page, d):
    lengths = np.array([3 * page - 5, 0, page, 1], np.int32)
    table = np.random.default_rng(3).permutation(20)[:12].reshape(4, 3).astype(np.int32)
    q = draw(4, 2, g, d, dtype=dtype)
    keys, values = draw(20, 2, page, d, dtype=dtype, seed=1), draw(20, 2, page, d, dtype=dtype, seed=2)
    want = np.zeros(q.shape)
    for b, n in enumerate(lengths):
        if n:
            k, v = (np.concatenate(list(wide(x)[table[b]]), 1)[:, :n] for x in (keys, values))
            want[b] = softmax(np.einsum("hgd,hnd->hgn", wide(q)[b], k) * d ** -.5) @ v
    return Launch(paged, (4, 2), (q, keys, values, table, lengths, np.zeros(q.shape, np.float32), d ** -.5, g, page, d), {5: want},
                  rough(dtype, 4e-3, 2e-2))


@ct.kernel
def chained_pages(q, keys, values, following, heads, out, scale: float, g: Const, page: Const, d: Const):
    """Pages in a linked list: the loop carries the place of the next one, until there is none."""
    b = ct.bid(0)
    at = ct.load(heads, (b,), ())
    x = ct.load(q, (b, 0, 0), (1, g, d)).reshape((g, d))
    m, s = ct.full((g, 1), -1e30, ct.float32), ct.zeros((g, 1), ct.float32)
    acc = ct.zeros((g, d), ct.float32)
    while at >= 0:
        y = ct.load(keys, (at, 0, 0), (1, page, d)).reshape((page, d))
        w = ct.mma(x, y.transpose(), ct.zeros((g, page), ct.float32)) * scale
        top = ct.maximum(m, ct.max(w, axis=1, keepdims=True))
        p, r = ct.exp(w - top), ct.exp(m - top)
        s, m = s * r + ct.sum(p, axis=1, keepdims=True), top
        acc = ct.mma(p.astype(values.dtype), ct.load(values, (at, 0, 0), (1, page, d)).reshape((page, d)), acc * r)
        at = ct.load(following, (at,), ())
    ct.store(out, (b, 0, 0), (acc / s).reshape((1, g, d)))


@program((np.float16, 64, 64, 64), (bf16, 16, 32, 64), (np.float16, 128, 128, 64))
def attention_by_linked_pages(dtype, g, page, d):
    following = np.array([4, -1, 1, 0, 2, -1], np.int32)
    heads = np.array([3, 5, 4], np.int32)
    q, keys, values = draw(3, g, d, dtype=dtype), draw(6, page, d, dtype=dtype, seed=1), draw(6, page, d, dtype=dtype, seed=2)
    want = np.zeros(q.shape)
    for b, at in enumerate(heads):
        pages = []
        while at >= 0:
            pages.append(at)
            at = following[at]
        k, v = (np.concatenate(list(wide(x)[pages])) for x in (keys, values))
        want[b] = softmax(wide(q)[b] @ k.T * d ** -.5) @ v
    return Launch(chained_pages, (3,), (q, keys, values, following, heads, np.zeros(q.shape, np.float32), d ** -.5, g, page, d),
                  {5: want}, rough(dtype, 4e-3, 2e-2))


@ct.kernel
def listed_blocks(q, k, v, starts, columns, segments, out, scale: float, t: Const, d: Const):
    """Blocks of keys by a list a row of blocks; documents, told apart by loaded numbers, don't see one another; two loops: blocks
    that need no mask, then those on the diagonal."""
    i = ct.bid(0)
    x = ct.load(q, (i, 0), (t, d))
    mine = ct.load(segments, (i,), (t,))
    m, s = ct.full((t, 1), -1e30, ct.float32), ct.zeros((t, 1), ct.float32)
    acc = ct.zeros((t, d), ct.float32)
    for e in range(ct.load(starts, (i,), ()), ct.load(starts, (i + 1,), ())):
        j = ct.load(columns, (e,), ())
        w = ct.mma(x, ct.load(k, (j, 0), (t, d)).transpose(), ct.zeros((t, t), ct.float32)) * scale
        w = ct.where(mine[:, None] == ct.load(segments, (j,), (t,))[None, :], w, -1e30)
        top = ct.maximum(m, ct.max(w, axis=1, keepdims=True))
        p, r = ct.where(w > -1e29, ct.exp(w - top), 0.0), ct.exp(m - top)
        s, m = s * r + ct.sum(p, axis=1, keepdims=True), top
        acc = ct.mma(p.astype(v.dtype), ct.load(v, (j, 0), (t, d)), acc * r)
    at = ct.arange(t, dtype=ct.int32)
    for j in range(i, i + 1):
        w = ct.mma(x, ct.load(k, (j, 0), (t, d)).transpose(), ct.zeros((t, t), ct.float32)) * scale
        w = ct.where((mine[:, None] == mine[None, :]) & (at[:, None] >= at[None, :]), w, -1e30)
        top = ct.maximum(m, ct.max(w, axis=1, keepdims=True))
        p, r = ct.where(w > -1e29, ct.exp(w - top), 0.0), ct.exp(m - top)
        s, m = s * r + ct.sum(p, axis=1, keepdims=True), top
        acc = ct.mma(p.astype(v.dtype), ct.load(v, (j, 0), (t, d)), acc * r)
    ct.store(out, (i, 0), acc / s)


@program((np.float16, 64, 64), (bf16, 128, 64), (np.float16, 32, 128), (np.float16, 128, 128))
def attention_by_lists_of_blocks(dtype, t, d):
    n = 4 * t
    q, k, v = (draw(n, d, dtype=dtype, seed=s) for s in range(3))
    lists = [[], [0], [0, 1], [2, 0]]
    segments = (np.arange(n) // (t + t // 2)).astype(np.int32)
    starts = np.cumsum([0, *map(len, lists)]).astype(np.int32)
    columns = np.array([c for cs in lists for c in cs], np.int32)
    block = np.kron(np.array([[c in lists[r] for c in range(4)] for r in range(4)]), np.ones((t, t))).astype(bool)
    diagonal = np.kron(np.eye(4), np.tril(np.ones((t, t)))).astype(bool)
    seen = (block | diagonal) & (segments[:, None] == segments[None])
    want = softmax(np.where(seen, wide(q) @ wide(k).T * d ** -.5, -np.inf)) @ wide(v)
    return Launch(listed_blocks, (4,), (q, k, v, starts, columns, segments, np.zeros((n, d), np.float32), d ** -.5, t, d),
                  {6: want}, rough(dtype, 4e-3, 2e-2))


@ct.kernel
def experts(x, w, gate, token, expert, out, tm: Const, tn: Const, tk: Const):
    """Tokens sorted by expert, in blocks of one expert each; places of none are beyond the tokens. Results are weighted, added."""
    p, j = ct.bid(0), ct.bid(1)
    e = ct.load(expert, (p,), ())
    rows = ct.load(token, (p,), (tm,))
    if e < 0:
        return
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(x.shape[1], tk)):
        a = ct.gather(x, (rows[:, None], (k * tk + ct.arange(tk, dtype=ct.int32))[None, :]), padding_value=0)
        acc = ct.mma(a, ct.load(w, (e, j, k), (1, tn, tk), padding_mode=ZERO).reshape((tn, tk)).transpose(), acc)
    acc = acc * ct.gather(gate, (rows, e), padding_value=0.0)[:, None]
    ct.atomic_add(out, (rows[:, None], (j * tn + ct.arange(tn, dtype=ct.int32))[None, :]), acc)


@program((np.float16, 32, 64, 32), (bf16, 64, 64, 64), (np.float16, 128, 128, 64), (np.float32, 16, 32, 16), quick=True)
def product_by_experts(dtype, tm, tn, tk):
    tokens, k, n = 50, 2 * tk + 8, tn + 16
    x, w, gate = draw(tokens, k, dtype=dtype), draw(3, n, k, dtype=dtype, scale=.2), np.abs(draw(tokens, 3, dtype=np.float32))
    chosen = np.stack([np.arange(tokens) % 3, (np.arange(tokens) // 5 + 1) % 3], 1)
    token, expert, want = [], [], np.zeros((tokens, n))
    for e in range(3):
        mine = np.flatnonzero((chosen == e).any(1))
        want[mine] += wide(x)[mine] @ wide(w)[e].T * gate[mine, e, None]
        full = np.full(blocks(len(mine), tm) * tm, tokens)
        full[:len(mine)] = mine
        token += list(full)
        expert += [e] * (len(full) // tm)
    token += [tokens] * tm
    expert.append(-1)
    lists = np.array(token, np.int32), np.array(expert, np.int32)
    return Launch(experts, (len(expert), 2), (x, w, gate, *lists, np.zeros((tokens, n), np.float32), tm, tn, tk), {5: want}, 1e-2)


@ct.kernel
def scaled_rows(x, gain, w, out, norm: ct.Constant[bool], tm: Const, tn: Const, tk: Const, blocks: Const):
    """Rows that threads make for the product: columns scaled, and the rows' squares summed for their norm; a block takes each
    `blocks`-th of the tiles."""
    across = ct.cdiv(w.shape[1], tn)
    for tile in range(ct.bid(0), ct.cdiv(x.shape[0], tm) * across, blocks):
        i, j = tile // across, tile % across
        acc, squares = ct.zeros((tm, tn), ct.float32), ct.zeros((tm, 1), ct.float32)
        for k in range(ct.cdiv(x.shape[1], tk)):
            t = ct.load(x, (i, k), (tm, tk), padding_mode=ZERO)
            if norm:
                f = t.astype(ct.float32)
                squares = squares + ct.sum(f * f, axis=1, keepdims=True)
            t = t * ct.load(gain, (k,), (tk,), padding_mode=ZERO)[None, :]
            acc = ct.mma(t, ct.load(w, (k, j), (tk, tn), padding_mode=ZERO), acc)
        if norm:
            acc = acc * ct.rsqrt(squares / x.shape[1] + 1e-6)
        ct.store(out, (i, j), acc.astype(out.dtype))


@ct.kernel
def scaled_row_tiles(x, gain, w, out, steps: int, tm: Const, tn: Const, tk: Const):
    """The same of a number of steps that is known when it is launched, perhaps none."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(steps):
        t = ct.load(x, (i, k), (tm, tk), padding_mode=ZERO) * ct.load(gain, (k,), (tk,), padding_mode=ZERO)[None, :]
        acc = ct.mma(t, ct.load(w, (k, j), (tk, tn), padding_mode=ZERO), acc)
    ct.store(out, (i, j), acc.astype(out.dtype))


def _scaled(dtype, k):
    x, gain, w = draw(100, k, dtype=dtype), draw(k, dtype=dtype), draw(k, 200, dtype=dtype)
    return x, gain, w, wide((x * gain).astype(dtype)) @ wide(w)


@program((np.float16, True, 64, 128, 64, 4), (bf16, False, 128, 128, 64, 1), (np.float16, True, 128, 64, 32, 3),
         (bf16, True, 16, 64, 64, 8), (np.float16, False, 64, 64, 64, 2))
def product_of_normed_rows(dtype, norm, tm, tn, tk, grid):
    x, gain, w, want = _scaled(dtype, 333)
    if norm:
        want = want / np.sqrt(np.mean(wide(x) ** 2, axis=1, keepdims=True) + 1e-6)
    out = np.zeros((100, 200), np.float32)
    return Launch(scaled_rows, (grid,), (x, gain, w, out, norm, tm, tn, tk, grid), {3: want}, rough(dtype, 2e-2, 1e-1))


@program((np.float16, 5, 64, 128, 64), (bf16, 1, 128, 64, 64), (np.float16, 0, 64, 128, 64), (bf16, 2, 128, 128, 128), quick=True)
def product_of_scaled_rows(dtype, steps, tm, tn, tk):
    x, gain, w, want = _scaled(dtype, steps * tk or 64)
    out = np.zeros((100, 200), np.float32)
    return Launch(scaled_row_tiles, (blocks(100, tm), blocks(200, tn)), (x, gain, w, out, steps, tm, tn, tk),
                  {3: want if steps else np.zeros((100, 200), np.float32)}, rough(dtype, 2e-2, 1e-1))


@ct.kernel
def cosines(x, w, out, tm: Const, tn: Const, tk: Const, blocks: Const):
    """Rows and columns are multiplied as they are, and their squares summed meanwhile; a block takes each `blocks`-th of the
    tiles."""
    across = ct.cdiv(w.shape[1], tn)
    for tile in range(ct.bid(0), ct.cdiv(x.shape[0], tm) * across, blocks):
        i, j = tile // across, tile % across
        acc, rows, columns = ct.zeros((tm, tn), ct.float32), ct.zeros((tm, 1), ct.float32), ct.zeros((1, tn), ct.float32)
        for k in range(ct.cdiv(x.shape[1], tk)):
            a, b = ct.load(x, (i, k), (tm, tk), padding_mode=ZERO), ct.load(w, (k, j), (tk, tn), padding_mode=ZERO)
            f, g = a.astype(ct.float32), b.astype(ct.float32)
            rows = rows + ct.sum(f * f, axis=1, keepdims=True)
            columns = columns + ct.sum(g * g, axis=0, keepdims=True)
            acc = ct.mma(a, b, acc)
        ct.store(out, (i, j), (acc * ct.rsqrt(rows + 1e-6) * ct.rsqrt(columns + 1e-6)).astype(out.dtype))


@ct.kernel
def normed_products(x, w, out, steps: int, tm: Const, tn: Const, tk: Const):
    """Rows alone, of a number of steps that is known when it is launched, perhaps none."""
    i, j = ct.bid(0), ct.bid(1)
    acc, rows = ct.zeros((tm, tn), ct.float32), ct.zeros((tm, 1), ct.float32)
    for k in range(steps):
        t = ct.load(x, (i, k), (tm, tk), padding_mode=ZERO)
        f = t.astype(ct.float32)
        rows = rows + ct.sum(f * f, axis=1, keepdims=True)
        acc = ct.mma(t, ct.load(w, (k, j), (tk, tn), padding_mode=ZERO), acc)
    ct.store(out, (i, j), (acc * ct.rsqrt(rows + 1e-6)).astype(out.dtype))


@program((np.float16, 64, 128, 64, 4), (bf16, 128, 128, 64, 1), (np.float16, 128, 64, 32, 3), (bf16, 16, 64, 64, 8),
         (np.float16, 64, 64, 64, 100))
def product_beside_cosines(dtype, tm, tn, tk, grid):
    x, w = draw(100, 333, dtype=dtype), draw(333, 200, dtype=dtype)
    a, b = wide(x), wide(w)
    want = a @ b / np.sqrt((a * a).sum(axis=1, keepdims=True) + 1e-6) / np.sqrt((b * b).sum(axis=0, keepdims=True) + 1e-6)
    return Launch(cosines, (grid,), (x, w, np.zeros((100, 200), np.float32), tm, tn, tk, grid), {2: want}, 1e-3)


@program((np.float16, 7, 64, 128, 64), (bf16, 1, 128, 64, 64), (np.float16, 0, 64, 128, 64), (bf16, 2, 128, 128, 128), quick=True)
def product_beside_norms(dtype, steps, tm, tn, tk):
    x, w = draw(100, steps * tk or 64, dtype=dtype), draw(steps * tk or 64, 200, dtype=dtype)
    a = wide(x)
    want = a @ wide(w) / np.sqrt((a * a).sum(axis=1, keepdims=True) + 1e-6) if steps else np.zeros((100, 200), np.float32)
    return Launch(normed_products, (blocks(100, tm), blocks(200, tn)), (x, w, np.zeros((100, 200), np.float32), steps, tm, tn, tk),
                  {2: want}, 1e-3)
