"""Attention whose author masks by branches: the diagonal's tile alone, an iteration left out whole; also sums that are kept beside
each product instead of in it, and arrays of bf16 as their bits."""
import cuda.tile as ct
import numpy as np

from tests.programs.p_attention_more import LOG2E, Const, attend, drawn_gradients, near
from tests.programs.programs import Launch, bf16, blocks, draw, program, wide


@ct.function
def of_bits(tile):
    return ct.bitcast(tile, ct.bfloat16) if tile.dtype == ct.uint16 else tile


@ct.function
def diagonal(t: Const):
    return ct.arange(t, dtype=ct.int32)[:, None] >= ct.arange(t, dtype=ct.int32)[None, :]


@ct.kernel
def forward(q, k, v, out, lse, scale, t: Const, d: Const, group: Const, beside: Const):
    """Square tiles; the mask is made once and used where rows and columns are the same. `beside`: products' sums start at zero."""
    h, i = ct.bid(0), ct.bid(1)
    x = of_bits(ct.load(q, (h, i, 0), (1, t, d)).reshape((t, d)))
    below = diagonal(t)
    m, s, acc = ct.full((t, 1), -1e38, ct.float32), ct.zeros((t, 1), ct.float32), ct.zeros((t, d), ct.float32)
    for j in range(i + 1):
        y = of_bits(ct.load(k, (h // group, j, 0), (1, t, d), latency=10).reshape((t, d)))
        z = of_bits(ct.load(v, (h // group, j, 0), (1, t, d), latency=10).reshape((t, d)))
        w = ct.mma(x, ct.transpose(y), ct.zeros((t, t), ct.float32)) * (scale * LOG2E)
        if j == i:
            w = ct.where(below, w, -1e38)
        top = ct.maximum(m, ct.max(w, axis=1, keepdims=True))
        r, p = ct.exp2(m - top), ct.exp2(w - top)
        s = r * s + ct.sum(p, axis=1, keepdims=True)
        if beside:
            acc = r * acc + ct.mma(p.astype(y.dtype), z, ct.zeros((t, d), ct.float32))
        else:
            acc = ct.mma(p.astype(y.dtype), z, acc * r)
        m = top
    ct.store(out, (h, i, 0), (acc / s).reshape((1, t, d)))
    ct.store(lse, (h, i), (m + ct.log2(s)).reshape((1, t)))


@program((np.float16, 64, 128, True), (bf16, 128, 64, True), (bf16, 64, 64, False), (np.float16, 128, 128, False),
         (np.uint16, 64, 128, True), (np.uint16, 64, 64, False), quick=True)
def attention_masked_by_a_branch(dtype, t, d, beside, heads=2, group=2):
    kind = bf16 if dtype is np.uint16 else dtype
    n = 3 * t
    q = draw(heads, n, d, dtype=kind, seed=0)
    k, v = (draw(heads // group, n, d, dtype=kind, seed=s) for s in (1, 2))
    wanted, lse = attend(q, np.repeat(k, group, 0), np.repeat(v, group, 0), np.tri(n, dtype=bool), scale=d ** -.5)
    arrays = [x.view(dtype) if dtype is np.uint16 else x for x in (q, k, v)]
    return Launch(forward, (heads, n // t),
                  (*arrays, np.zeros((heads, n, d), np.float32), np.zeros((heads, n), np.float32), d ** -.5, t, d, group, beside),
                  {3: wanted, 4: lse * LOG2E}, near(kind))


@ct.kernel
def of_keys(q, k, v, grad, lse, delta, dk, dv, scale, t: Const, d: Const, group: Const):
    """Gradients of keys and values; iterations of queries before the keys do nothing."""
    b, h, j = ct.bid(0), ct.bid(1), ct.bid(2)
    y = of_bits(ct.load(k, (b, h, j, 0), (1, 1, t, d)).reshape((t, d)))
    z = of_bits(ct.load(v, (b, h, j, 0), (1, 1, t, d)).reshape((t, d)))
    below = diagonal(t)
    gk, gv = ct.zeros((t, d), ct.float32), ct.zeros((t, d), ct.float32)
    for o in range(group):
        for i in range(ct.num_tiles(q, 2, (1, 1, t, d))):
            if i >= j:
                at = (b, h * group + o, i, 0)
                x = of_bits(ct.load(q, at, (1, 1, t, d)).reshape((t, d)))
                g = of_bits(ct.load(grad, at, (1, 1, t, d)).reshape((t, d)))
                l = ct.load(lse, at[:3], (1, 1, t)).reshape((t, 1))
                e = ct.load(delta, at[:3], (1, 1, t)).reshape((t, 1))
                w = ct.mma(x, ct.transpose(y), ct.zeros((t, t), ct.float32)) * (scale * LOG2E)
                if i == j:
                    w = ct.where(below, w, -1e38)
                p = ct.exp2(w - l)
                gv = ct.mma(ct.transpose(p.astype(y.dtype)), g, gv)
                dp = ct.mma(g, ct.transpose(z), ct.zeros((t, t), ct.float32))
                gk = ct.mma(ct.transpose((p * (dp - e)).astype(y.dtype)), x, gk)
    ct.store(dk, (b, h, j, 0), (gk * scale).reshape((1, 1, t, d)))
    ct.store(dv, (b, h, j, 0), gv.reshape((1, 1, t, d)))


@program((np.float16, 64, 64), (bf16, 64, 128), (np.uint16, 64, 128), quick=True)
def attention_gradient_of_keys_by_branches(dtype, t, d, heads=1, group=2):
    kind = bf16 if dtype is np.uint16 else dtype
    n = 3 * t
    arrays, _, dk, dv = drawn_gradients(kind, d, heads, n, 1, group)
    arrays = [x.view(dtype) if dtype is np.uint16 and x.dtype == bf16 else x for x in arrays]
    return Launch(of_keys, (1, heads, blocks(n, t)),
                  (*arrays, np.zeros(dk.shape, np.float32), np.zeros(dv.shape, np.float32), d ** -.5, t, d, group),
                  {6: dk, 7: dv}, near(kind) * 2)


@ct.kernel
def by_length(q, k, v, lengths, out, sums, t: Const, n: Const, d: Const, form: Const):
    """Weighted sums of as many keys as a list says, none of them, maybe; older ones are halved as often as a maximum grows."""
    h = ct.bid(0)
    x = ct.load(q, (h, 0, 0), (1, t, d)).reshape((t, d))
    m, s, acc = ct.zeros((t, 1), ct.float32), ct.zeros((t, 1), ct.float32), ct.zeros((t, d), ct.float32)
    for j in range(ct.load(lengths, (h,), (1,)).item()):
        y = ct.load(k, (h, j, 0), (1, n, d)).reshape((n, d))
        z = ct.load(v, (h, j, 0), (1, n, d)).reshape((n, d))
        w = ct.mma(x, ct.transpose(y), ct.zeros((t, n), ct.float32))
        top = ct.maximum(m, ct.max(w, axis=1, keepdims=True))
        r, p = ct.exp2(m - top), ct.exp2(w - top)
        s = s * r + ct.sum(p, axis=1, keepdims=True)
        product = ct.mma(p.astype(q.dtype), z, ct.zeros((t, d), ct.float32))
        if form == 0:
            acc = acc * r + product
        elif form == 1:
            acc = product + acc
        else:
            acc = acc * 0.5 + product
        m = top
    ct.store(out, (h, 0, 0), acc.reshape((1, t, d)))
    ct.store(sums, (h, 0), s.reshape((1, t)))


@program((np.float16, 64, 64, 128, 0), (bf16, 128, 64, 64, 0), (np.float16, 128, 128, 64, 1), (bf16, 64, 64, 64, 1),
         (np.float16, 128, 64, 128, 2), (bf16, 128, 128, 128, 0), (np.float16, 256, 64, 64, 0),
         (bf16, 256, 64, 128, 0), quick=True)
def sums_beside_products_by_length(dtype, t, n, d, form):
    lengths = np.array([0, 1, 2, 4], np.int32)
    heads, most = len(lengths), int(lengths.max())
    q = draw(heads, t, d, dtype=dtype, scale=.5)
    k, v = (draw(heads, most * n, d, dtype=dtype, scale=.5, seed=s) for s in (1, 2))
    out, sums = np.zeros((heads, t, d)), np.zeros((heads, t))
    for h in range(heads):
        m = np.zeros((t, 1))
        for j in range(lengths[h]):
            w = wide(q[h]) @ wide(k[h, j * n:(j + 1) * n]).T
            top = np.maximum(m, w.max(1, keepdims=True))
            r, p = np.exp2(m - top), np.exp2(w - top)
            sums[h] = sums[h] * r[:, 0] + p.sum(1)
            out[h] = out[h] * (r, 1, 0.5)[form] + p @ wide(v[h, j * n:(j + 1) * n])
            m = top
    return Launch(by_length, (heads,), (q, k, v, lengths, np.zeros((heads, t, d), np.float32), np.zeros((heads, t), np.float32),
                                        t, n, d, form), {4: out, 5: sums}, near(dtype))


@ct.kernel
def by_two_lengths(q, k, v, lengths, out, t: Const, n: Const, d: Const):
    """As many keys as a list says, then as many of which only those before each row's own count; none of either, maybe."""
    h = ct.bid(0)
    x = ct.load(q, (h, 0, 0), (1, t, d)).reshape((t, d))
    m, acc = ct.zeros((t, 1), ct.float32), ct.zeros((t, d), ct.float32)
    first = ct.load(lengths, (h, 0), (1, 1)).item()
    below = ct.arange(t, dtype=ct.int32)[:, None] >= ct.arange(n, dtype=ct.int32)[None, :]
    for j in range(first):
        y = ct.load(k, (h, j, 0), (1, n, d)).reshape((n, d))
        z = ct.load(v, (h, j, 0), (1, n, d)).reshape((n, d))
        w = ct.mma(x, ct.transpose(y), ct.zeros((t, n), ct.float32))
        top = ct.maximum(m, ct.max(w, axis=1, keepdims=True))
        r, p = ct.exp2(m - top), ct.exp2(w - top)
        acc = acc * r + ct.mma(p.astype(q.dtype), z, ct.zeros((t, d), ct.float32))
        m = top
    for j in range(first, first + ct.load(lengths, (h, 1), (1, 1)).item()):
        y = ct.load(k, (h, j, 0), (1, n, d)).reshape((n, d))
        z = ct.load(v, (h, j, 0), (1, n, d)).reshape((n, d))
        w = ct.where(below, ct.mma(x, ct.transpose(y), ct.zeros((t, n), ct.float32)), -1e38)
        top = ct.maximum(m, ct.max(w, axis=1, keepdims=True))
        r, p = ct.exp2(m - top), ct.exp2(w - top)
        acc = acc * r + ct.mma(p.astype(q.dtype), z, ct.zeros((t, d), ct.float32))
        m = top
    ct.store(out, (h, 0, 0), acc.reshape((1, t, d)))


@program((np.float16, 128, 64, 64), (bf16, 128, 128, 128), (np.float16, 64, 64, 64), quick=True)
def sums_beside_products_of_two_loops(dtype, t, n, d):
    lengths = np.array([[0, 0], [0, 2], [2, 0], [2, 1]], np.int32)
    heads, most = len(lengths), int(lengths.sum(1).max())
    q = draw(heads, t, d, dtype=dtype, scale=.5)
    k, v = (draw(heads, most * n, d, dtype=dtype, scale=.5, seed=s) for s in (1, 2))
    out = np.zeros((heads, t, d))
    below = np.arange(t)[:, None] >= np.arange(n)
    for h, (first, second) in enumerate(lengths):
        m = np.zeros((t, 1))
        for j in range(first + second):
            w = wide(q[h]) @ wide(k[h, j * n:(j + 1) * n]).T
            w = w if j < first else np.where(below, w, -1e38)
            top = np.maximum(m, w.max(1, keepdims=True))
            out[h] = out[h] * np.exp2(m - top) + np.exp2(w - top) @ wide(v[h, j * n:(j + 1) * n])
            m = top
    return Launch(by_two_lengths, (heads,), (q, k, v, lengths, np.zeros((heads, t, d), np.float32), t, n, d), {4: out}, near(dtype))
