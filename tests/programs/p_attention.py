"""Attention of many kinds: soft caps and slopes, grouped heads, lengths, latent keys, decoding, its backward pass, and the chunked
linear form."""
import cuda.tile as ct
import numpy as np

from tests.programs.programs import Launch, bf16, blocks, draw, program, wide

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


def softmax(s):
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


@ct.kernel
def capped(q, k, v, out, lengths, slope, scale, tm: Const, tn: Const, d: Const, group: Const):
    """Causal, scores softly capped and lowered with distance, heads in groups, each of the batch with its length."""
    b, h, i = ct.bid(0), ct.bid(1), ct.bid(2)
    n = ct.load(lengths, (b,), (1,)).item()
    x = ct.load(q, (b, h, i, 0), (1, 1, tm, d), padding_mode=ZERO).reshape((tm, d))
    m, s = ct.full((tm, 1), -1e30, ct.float32), ct.zeros((tm, 1), ct.float32)
    acc = ct.zeros((tm, d), ct.float32)
    row = i * tm + ct.arange(tm, dtype=ct.int32)[:, None]
    for j in range(min(ct.cdiv(n, tn), ct.cdiv((i + 1) * tm, tn))):
        y = ct.load(k, (b, h // group, j, 0), (1, 1, tn, d), padding_mode=ZERO).reshape((tn, d))
        w = ct.mma(x, y.permute((1, 0)), ct.zeros((tm, tn), ct.float32)) * scale
        w = 30.0 * ct.tanh(w / 30.0)
        column = j * tn + ct.arange(tn, dtype=ct.int32)[None, :]
        w = w + slope * (column - row).astype(ct.float32)
        w = ct.where((column <= row) & (column < n), w * 1.44269504, -1e30)
        top = ct.maximum(m, ct.max(w, axis=1, keepdims=True))
        p, r = ct.exp2(w - top), ct.exp2(m - top)
        s = s * r + ct.sum(p, axis=1, keepdims=True)
        z = ct.load(v, (b, h // group, j, 0), (1, 1, tn, d), padding_mode=ZERO).reshape((tn, d))
        acc = ct.mma(p.astype(v.dtype), z, acc * r)
        m = top
    ct.store(out, (b, h, i, 0), (acc / s).astype(out.dtype).reshape((1, 1, tm, d)))


@program((np.float16, 128, 128, 64, 300), (bf16, 128, 64, 128, 256), (np.float16, 64, 64, 64, 130), (bf16, 256, 128, 64, 384),
         (np.float16, 128, 64, 64, 200), (bf16, 64, 64, 256, 130), (np.float16, 64, 32, 256, 100))
def attention_capped(dtype, tm, tn, d, n):
    q = draw(2, 2, n, d, dtype=dtype)
    k, v = draw(2, 1, n, d, dtype=dtype, seed=1), draw(2, 1, n, d, dtype=dtype, seed=2)
    lengths = np.array([n, n - 77], np.int32)
    s = 30 * np.tanh(np.einsum("bhmd,bgnd->bhmn", wide(q), wide(k)) * d ** -.5 / 30)
    row, column = np.arange(n)[:, None], np.arange(n)[None]
    seen = (column <= row) & (column[None, None] < lengths[:, None, None, None])
    want = softmax(np.where(seen, s + .05 * (column - row), -np.inf)) @ wide(v)
    return Launch(capped, (2, 2, blocks(n, tm)), (q, k, v, np.zeros_like(q), lengths, 0.05, d ** -.5, tm, tn, d, 2), {3: want},
                  2e-2 if dtype is bf16 else 4e-3)


@ct.kernel
def far_below(scores, before, p, sums, tm: Const, tn: Const):
    """Exponentials of what rows have below a maximum of before, and their sums times 2^120; also below the row's own maximum."""
    s, old = ct.load(scores, (0, 0), (tm, tn)), ct.load(before, (0, 0), (tm, 1))
    own = ct.max(s, axis=1, keepdims=True)
    x = ct.exp2(s - ct.maximum(old, own))
    ct.store(p, (0, 0), x.astype(p.dtype))
    ct.store(sums, (0, 0), ct.sum(x, axis=1, keepdims=True) * 2.0 ** 120)
    y = ct.exp2(s - own)
    ct.store(p, (1, 0), y.astype(p.dtype))
    ct.store(sums, (1, 0), ct.sum(y, axis=1, keepdims=True))


@program(*((seed, np.float16, 32) for seed in range(5)), (5, np.float16, 256), (6, bf16, 32), quick=True)
def softmax_far_below(seed, dtype, tn):
    """Maxima of before up to 149 above a row's: exponentials that are subnormal, whole ones, so that sums of these are exact."""
    draws = np.random.default_rng(seed)
    far = np.array([0, 1, 63, 64, 65, 66, 80, 94, 96, 120, 125, 126, 127, 140, 148, 149, 160, 400, *draws.integers(0, 149, 14)])
    old = draws.integers(-400, 400, (32, 1)) / 4
    below = draws.integers(0, np.clip(150 - far, 1, 12)[:, None], (32, tn))
    below[:, draws.integers(tn)] = 0
    s = (old - far[:, None] - below).astype(np.float32)
    s[20], s[21, 3], s[22, 5], s[23, ::2] = -np.inf, np.nan, np.inf, -np.inf
    old[24], old[25], s[25] = np.inf, -np.inf, -np.inf
    old = old.astype(np.float32)
    with np.errstate(invalid="ignore"):
        own = np.fmax.reduce(s, axis=1, keepdims=True)
        x, y = (np.exp2(s - m).astype(np.float64) for m in (np.fmax(own, old), own))
    p, sums = np.zeros((64, tn), dtype), np.zeros((64, 1), np.float32)
    return Launch(far_below, (1,), (s, old, p, sums, 32, tn), {
        2: np.concatenate([x, y]).astype(dtype), 3: np.concatenate([x.sum(1) * 2.0**120, y.sum(1)])[:, None]}, 1e-30)


@ct.kernel
def chunked(q, k, v, out, c: Const, d: Const):
    """Linear attention: a state that is carried is an operand, and grows by a product."""
    h = ct.bid(0)
    state = ct.zeros((d, d), ct.float32)
    at = ct.arange(c, dtype=ct.int32)
    for t in range(ct.cdiv(q.shape[1], c)):
        x = ct.load(q, (h, t, 0), (1, c, d), padding_mode=ZERO).reshape((c, d))
        y = ct.load(k, (h, t, 0), (1, c, d), padding_mode=ZERO).reshape((c, d))
        z = ct.load(v, (h, t, 0), (1, c, d), padding_mode=ZERO).reshape((c, d))
        a = ct.where(at[:, None] >= at[None, :], ct.mma(x, y.permute((1, 0)), ct.zeros((c, c), ct.float32)), 0.0)
        o = ct.mma(x, state.astype(q.dtype), ct.zeros((c, d), ct.float32))
        o = ct.mma(a.astype(q.dtype), z, o)
        state = ct.mma(y.permute((1, 0)), z, state)
        ct.store(out, (h, t, 0), o.reshape((1, c, d)))


@program((np.float16, 64, 64), (bf16, 128, 64), (np.float16, 128, 128))
def attention_linear(dtype, c, d):
    q, k, v = (draw(2, 3 * c + 8, d, dtype=dtype, scale=.3, seed=s) for s in range(3))
    want = np.tril(np.einsum("hmd,hnd->hmn", wide(q), wide(k))) @ wide(v)
    return Launch(chunked, (2,), (q, k, v, np.zeros(q.shape, np.float32), c, d), {3: want}, .12 if dtype is bf16 else 2e-2)


@ct.kernel
def backward(q, k, v, grad, lse, delta, dk, dv, scale, tm: Const, tn: Const, d: Const):
    """The gradients of keys and values, causal: four products a step."""
    h, j = ct.bid(0), ct.bid(1)
    y = ct.load(k, (h, j, 0), (1, tn, d), padding_mode=ZERO).reshape((tn, d))
    z = ct.load(v, (h, j, 0), (1, tn, d), padding_mode=ZERO).reshape((tn, d))
    gk, gv = ct.zeros((tn, d), ct.float32), ct.zeros((tn, d), ct.float32)
    column = j * tn + ct.arange(tn, dtype=ct.int32)
    for i in range((j * tn) // tm, ct.cdiv(q.shape[1], tm)):
        x = ct.load(q, (h, i, 0), (1, tm, d), padding_mode=ZERO).reshape((tm, d))
        g = ct.load(grad, (h, i, 0), (1, tm, d), padding_mode=ZERO).reshape((tm, d))
        l, e = ct.load(lse, (h, i), (1, tm), padding_mode=ZERO), ct.load(delta, (h, i), (1, tm), padding_mode=ZERO)
        row = i * tm + ct.arange(tm, dtype=ct.int32)
        s = ct.mma(y, x.permute((1, 0)), ct.zeros((tn, tm), ct.float32)) * scale
        p = ct.where((row[None, :] >= column[:, None]) & (row[None, :] < q.shape[1]), ct.exp(s - l), 0.0)
        gv = ct.mma(p.astype(q.dtype), g, gv)
        dp = ct.mma(z, g.permute((1, 0)), ct.zeros((tn, tm), ct.float32))
        gk = ct.mma((p * (dp - e)).astype(q.dtype), x, gk)
    ct.store(dk, (h, j, 0), (gk * scale).reshape((1, tn, d)))
    ct.store(dv, (h, j, 0), gv.reshape((1, tn, d)))


@program((np.float16, 64, 64, 64), (bf16, 64, 128, 64), (np.float16, 128, 128, 128), (bf16, 128, 128, 64),
         (bf16, 64, 128, 128, 500))
def attention_backward(dtype, tm, tn, d, n=200):
    scale = d ** -.5
    q, k, v, grad = (draw(2, n, d, dtype=dtype, scale=.5, seed=s) for s in range(4))
    s = np.where(np.tril(np.ones((n, n), bool)), np.einsum("hmd,hnd->hmn", wide(q), wide(k)) * scale, -np.inf)
    lse = np.log(np.exp(s).sum(-1))
    p = np.exp(s - lse[..., None])
    delta = (p @ wide(v) * wide(grad)).sum(-1)
    ds = p * (np.einsum("hmd,hnd->hmn", wide(grad), wide(v)) - delta[..., None])
    out = np.zeros((2, n, d), np.float32)
    return Launch(backward, (2, blocks(n, tn)), (q, k, v, grad, lse.astype(np.float32), delta.astype(np.float32), out, out.copy(),
                                                 scale, tm, tn, d),
                  {6: np.einsum("hmn,hmd->hnd", ds, wide(q)) * scale, 7: np.einsum("hmn,hmd->hnd", p, wide(grad))},
                  4e-2 if dtype is bf16 else 6e-3)


@ct.kernel
def decoding(q, k, v, out, n, scale, g: Const, tn: Const, d: Const):
    """A few queries that share keys."""
    b, h = ct.bid(0), ct.bid(1)
    x = ct.load(q, (b, h, 0, 0), (1, 1, g, d), padding_mode=ZERO).reshape((g, d))
    m, s = ct.full((g, 1), -1e30, ct.float32), ct.zeros((g, 1), ct.float32)
    acc = ct.zeros((g, d), ct.float32)
    for j in range(ct.cdiv(n, tn)):
        y = ct.load(k, (b, h, j, 0), (1, 1, tn, d), padding_mode=ZERO).reshape((tn, d))
        w = ct.mma(x, ct.transpose(y), ct.zeros((g, tn), ct.float32)) * scale
        w = ct.where(j * tn + ct.arange(tn, dtype=ct.int32)[None, :] < n, w, -1e30)
        top = ct.maximum(m, ct.max(w, axis=1, keepdims=True))
        p, r = ct.exp(w - top), ct.exp(m - top)
        s, m = s * r + ct.sum(p, axis=1, keepdims=True), top
        z = ct.load(v, (b, h, j, 0), (1, 1, tn, d), padding_mode=ZERO).reshape((tn, d))
        acc = ct.mma(p.astype(v.dtype), z, acc * r)
    ct.store(out, (b, h, 0, 0), (acc / s).astype(out.dtype).reshape((1, 1, g, d)))


@program((np.float16, 16, 64, 64, 200), (bf16, 8, 128, 128, 300), (np.float16, 4, 32, 64, 100), (bf16, 1, 64, 64, 130), quick=True)
def attention_of_few_queries(dtype, g, tn, d, n):
    q, k, v = draw(2, 2, g, d, dtype=dtype), draw(2, 2, n, d, dtype=dtype, seed=1), draw(2, 2, n, d, dtype=dtype, seed=2)
    want = softmax(np.einsum("bhgd,bhnd->bhgn", wide(q), wide(k)) * d ** -.5) @ wide(v)
    return Launch(decoding, (2, 2), (q, k, v, np.zeros_like(q), n, d ** -.5, g, tn, d), {3: want}, 2e-2 if dtype is bf16 else 4e-3)


@ct.kernel
def latent(qn, qr, kv, kr, out, scale, tm: Const, tn: Const, dn: Const, dr: Const):
    """Keys are values and a part beside them: two products make the scores."""
    h, i = ct.bid(0), ct.bid(1)
    x = ct.load(qn, (h, i, 0), (1, tm, dn), padding_mode=ZERO).reshape((tm, dn))
    turned = ct.load(qr, (h, i, 0), (1, tm, dr), padding_mode=ZERO).reshape((tm, dr))
    m, s = ct.full((tm, 1), -1e30, ct.float32), ct.zeros((tm, 1), ct.float32)
    acc = ct.zeros((tm, dn), ct.float32)
    for j in range(ct.cdiv(kv.shape[0], tn)):
        c = ct.load(kv, (j, 0), (tn, dn), padding_mode=ZERO)
        w = ct.mma(x, ct.transpose(c), ct.zeros((tm, tn), ct.float32))
        w = ct.mma(turned, ct.transpose(ct.load(kr, (j, 0), (tn, dr), padding_mode=ZERO)), w) * scale
        w = ct.where(j * tn + ct.arange(tn, dtype=ct.int32)[None, :] < kv.shape[0], w, -1e30)
        top = ct.maximum(m, ct.max(w, axis=1, keepdims=True))
        p, r = ct.exp(w - top), ct.exp(m - top)
        s, m = s * r + ct.sum(p, axis=1, keepdims=True), top
        acc = ct.mma(p.astype(kv.dtype), c, acc * r)
    ct.store(out, (h, i, 0), (acc / s).astype(out.dtype).reshape((1, tm, dn)))


@program((bf16, 64, 64, 128, 64), (np.float16, 128, 64, 128, 32), (np.float16, 16, 64, 256, 64), (bf16, 128, 128, 64, 64))
def attention_latent(dtype, tm, tn, dn, dr):
    m, n, scale = 140, 200, (dn + dr) ** -.5
    qn, qr = draw(2, m, dn, dtype=dtype), draw(2, m, dr, dtype=dtype, seed=3)
    kv, kr = draw(n, dn, dtype=dtype), draw(n, dr, dtype=dtype, seed=4)
    want = softmax((wide(qn) @ wide(kv).T + wide(qr) @ wide(kr).T) * scale) @ wide(kv)
    return Launch(latent, (2, blocks(m, tm)), (qn, qr, kv, kr, np.zeros((2, m, dn), dtype), scale, tm, tn, dn, dr), {4: want},
                  2e-2 if dtype is bf16 else 4e-3)


@ct.kernel
def expanded(qn, qr, k, kr, v, out, scale, tm: Const, tn: Const, d: Const, dr: Const):
    """Causal, keys of two parts, values apart: tiles that nearly fill an SM's shared memory."""
    h, i = ct.bid(0), ct.bid(1)
    x = ct.load(qn, (h, i, 0), (1, tm, d), padding_mode=ZERO).reshape((tm, d))
    turned = ct.load(qr, (h, i, 0), (1, tm, dr), padding_mode=ZERO).reshape((tm, dr))
    m, s = ct.full((tm, 1), -1e30, ct.float32), ct.zeros((tm, 1), ct.float32)
    acc = ct.zeros((tm, d), ct.float32)
    row = i * tm + ct.arange(tm, dtype=ct.int32)[:, None]
    for j in range(ct.cdiv((i + 1) * tm, tn)):
        y = ct.load(k, (h, j, 0), (1, tn, d), padding_mode=ZERO).reshape((tn, d))
        w = ct.mma(x, ct.transpose(y), ct.zeros((tm, tn), ct.float32))
        w = ct.mma(turned, ct.transpose(ct.load(kr, (j, 0), (tn, dr), padding_mode=ZERO)), w) * scale
        if (j + 1) * tn > i * tm:
            w = ct.where(j * tn + ct.arange(tn, dtype=ct.int32)[None, :] <= row, w, -1e30)
        top = ct.maximum(m, ct.max(w, axis=1, keepdims=True))
        p, r = ct.exp(w - top), ct.exp(m - top)
        s, m = s * r + ct.sum(p, axis=1, keepdims=True), top
        z = ct.load(v, (h, j, 0), (1, tn, d), padding_mode=ZERO).reshape((tn, d))
        acc = ct.mma(p.astype(v.dtype), z, acc * r)
    ct.store(out, (h, i, 0), (acc / s).astype(out.dtype).reshape((1, tm, d)))


@program((bf16, 128, 128, 128, 64), (np.float16, 128, 64, 256, 64), (np.float16, 64, 64, 256, 32))
def attention_expanded(dtype, tm, tn, d, dr):
    n, scale = 320, (d + dr) ** -.5
    qn, qr, kr = draw(1, n, d, dtype=dtype), draw(1, n, dr, dtype=dtype, seed=3), draw(n, dr, dtype=dtype, seed=4)
    k, v = draw(1, n, d, dtype=dtype, seed=1), draw(1, n, d, dtype=dtype, seed=2)
    s = (np.einsum("hmd,hnd->hmn", wide(qn), wide(k)) + wide(qr) @ wide(kr).T) * scale
    want = softmax(np.where(np.tril(np.ones((n, n), bool)), s, -np.inf)) @ wide(v)
    return Launch(expanded, (1, blocks(n, tm)), (qn, qr, k, kr, v, np.zeros_like(qn), scale, tm, tn, d, dr), {5: want},
                  2e-2 if dtype is bf16 else 4e-3)
