"""More attention as users write it: paged keys, packed sequences, windows with sinks and grouped queries in one tile, biases,
masks that are loaded, odd head sizes, latent decoding in parts, lists of blocks, eight-bit keys, gradients of queries."""
import cuda.tile as ct
import numpy as np

from tests.programs.programs import Launch, bf16, blocks, draw, e4m3, e5m2, program, wide

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO
LOG2E = 1.4426950408889634
f32 = np.float32


def attend(q, k, v, seen=True, bias=0.0, scale=1.0, sinks=None):
    """softmax(q k' scale + bias) v where `seen`, over arrays of (..., rows, d); rows that see nothing give zeros. Also the
    logarithms of the sums."""
    s = np.where(seen, np.einsum("...md,...nd->...mn", wide(q), wide(k)) * scale + bias, -np.inf)
    if sinks is not None:
        s = np.concatenate([s, np.broadcast_to(sinks, (*s.shape[:-1], 1))], -1)
    top = s.max(-1, keepdims=True, initial=-1e30)
    p = np.exp(s - top)
    total = p.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = np.log(total[..., 0]) + top[..., 0]
    return (p[..., :k.shape[-2]] / np.where(total > 0, total, 1)) @ wide(v), lse


def near(dtype):
    return 4e-3 if dtype is np.float16 else 2e-2


@ct.function
def softmax_step(w, m, s):
    """The running maximum, the weights, what older sums are multiplied by, and the running sum; scores are of base 2."""
    top = ct.maximum(m, ct.max(w, axis=1, keepdims=True))
    p, r = ct.exp2(w - top), ct.exp2(m - top)
    return top, p, r, s * r + ct.sum(p, axis=1, keepdims=True)


@ct.function
def scores(x, y, j, n, scale):
    """Of all queries with tile j of n keys, of base 2; behind the last key as good as none."""
    w = ct.mma(x, ct.transpose(y), ct.zeros((x.shape[0], y.shape[0]), ct.float32)) * (scale * LOG2E)
    return ct.where(j * y.shape[0] + ct.arange(y.shape[0], dtype=ct.int32)[None, :] < n, w, -1e30)


# ---- pages

@ct.kernel
def paged(q, keys, values, table, lengths, out, scale, tm: Const, page: Const, d: Const, group: Const):
    """Queries at the end of sequences whose keys lie in pages; a tile has the rows of one head."""
    b, h, i = ct.bid(0), ct.bid(1), ct.bid(2)
    n = ct.load(lengths, (b,), ()).astype(ct.int32)
    x = ct.load(q, (b, h, i, 0), (1, 1, tm, d), padding_mode=ZERO).reshape((tm, d))
    m, s = ct.full((tm, 1), -1e30, ct.float32), ct.zeros((tm, 1), ct.float32)
    acc = ct.zeros((tm, d), ct.float32)
    row = n - q.shape[2] + i * tm + ct.arange(tm, dtype=ct.int32)[:, None]
    for j in range(min(ct.cdiv(n, page), ct.cdiv(n - q.shape[2] + (i + 1) * tm, page))):
        at = ct.load(table, (b, j), ())
        y = ct.load(keys, (at, 0, h // group, 0), (1, page, 1, d)).reshape((page, d))
        w = ct.mma(x, ct.transpose(y), ct.zeros((tm, page), ct.float32)) * (scale * LOG2E)
        w = ct.where(j * page + ct.arange(page, dtype=ct.int32)[None, :] <= row, w, -1e30)
        m, p, r, s = softmax_step(w, m, s)
        z = ct.load(values, (at, 0, h // group, 0), (1, page, 1, d)).reshape((page, d))
        acc = ct.mma(p.astype(q.dtype), z, acc * r)
    ct.store(out, (b, h, i, 0), (acc / s).astype(out.dtype).reshape((1, 1, tm, d)))


@program((np.float16, 64, 64, 128, 1, 80, 210), (bf16, 128, 128, 64, 1, 150, 280), (bf16, 64, 16, 128, 1, 64, 100))
def attention_paged(dtype, tm, page, d, heads, m, n, batch=2, group=2):
    lengths = np.array([n - (b % 2) * 30 for b in range(batch)], np.int32)
    each = blocks(n, page)
    table = np.random.default_rng(0).permutation(batch * each).reshape(batch, each).astype(np.int32)
    q = draw(batch, heads * group, m, d, dtype=dtype)
    keys, values = (draw(batch * each, page, heads, d, dtype=dtype, seed=s) for s in (1, 2))
    want = np.zeros(q.shape)
    for b in range(batch):
        k, v = (np.repeat(x[table[b]].reshape(-1, heads, d)[:lengths[b]].swapaxes(0, 1), group, 0) for x in (keys, values))
        seen = np.arange(lengths[b]) <= lengths[b] - m + np.arange(m)[:, None]
        want[b] = attend(q[b], k, v, seen, scale=d ** -.5)[0]
    return Launch(paged, (batch, heads * group, blocks(m, tm)),
                  (q, keys, values, table, lengths, np.zeros_like(q), d ** -.5, tm, page, d, group), {5: want}, near(dtype))


# ---- sequences behind each other

@ct.kernel
def packed(q, k, v, starts, out, scale, tm: Const, tn: Const, d: Const, group: Const):
    """Sequences lie behind each other: each is a slice, whose bounds are loaded; causal, the last tile of keys masked."""
    h, b, i = ct.bid(0), ct.bid(1), ct.bid(2)
    low, high = ct.load(starts, (b,), ()), ct.load(starts, (b + 1,), ())
    n = high - low
    if i * tm < n:
        mine, keys, values = q.slice(0, low, high), k.slice(0, low, high), v.slice(0, low, high)
        x = ct.load(mine, (i, h, 0), (tm, 1, d), padding_mode=ZERO).reshape((tm, d))
        m, s = ct.full((tm, 1), -1e30, ct.float32), ct.zeros((tm, 1), ct.float32)
        acc = ct.zeros((tm, d), ct.float32)
        row = i * tm + ct.arange(tm, dtype=ct.int32)[:, None]
        for j in range(ct.cdiv(min(n, (i + 1) * tm), tn)):
            y = ct.load(keys, (j, h // group, 0), (tn, 1, d), padding_mode=ZERO).reshape((tn, d))
            w = ct.mma(x, ct.transpose(y), ct.zeros((tm, tn), ct.float32)) * (scale * LOG2E)
            w = ct.where(j * tn + ct.arange(tn, dtype=ct.int32)[None, :] <= row, w, -1e30)
            m, p, r, s = softmax_step(w, m, s)
            z = ct.load(values, (j, h // group, 0), (tn, 1, d), padding_mode=ZERO).reshape((tn, d))
            acc = ct.mma(p.astype(q.dtype), z, acc * r)
        ct.store(out.slice(0, low, high), (i, h, 0), (acc / s).astype(out.dtype).reshape((tm, 1, d)))


@program((np.float16, 64, 64, 64, 1, (70, 3, 130)), (bf16, 128, 128, 128, 1, (150, 0, 200)), (bf16, 128, 64, 128, 1, (129, 63)))
def attention_packed(dtype, tm, tn, d, heads, lengths, group=2):
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    n = int(starts[-1])
    q = draw(n, heads * group, d, dtype=dtype)
    k, v = draw(n, heads, d, dtype=dtype, seed=1), draw(n, heads, d, dtype=dtype, seed=2)
    want = np.zeros(q.shape)
    for low, high in zip(starts[:-1], starts[1:], strict=True):
        part = [x[low:high].swapaxes(0, 1) for x in (q, np.repeat(k, group, 1), np.repeat(v, group, 1))]
        want[low:high] = attend(*part, np.tri(high - low, dtype=bool), scale=d ** -.5)[0].swapaxes(0, 1)
    return Launch(packed, (heads * group, len(lengths), blocks(max(lengths), tm)),
                  (q, k, v, starts, np.zeros_like(q), d ** -.5, tm, tn, d, group), {4: want}, near(dtype))


# ---- a window, sinks, the heads of a group in one tile

@ct.kernel
def windowed(q, k, v, sinks, out, scale, window: int, rows: Const, tn: Const, d: Const, group: Const):
    """A tile's rows are `rows` places of the `group` heads that share keys; each sees the last `window` keys, and a sink."""
    b, h, i = ct.bid(0), ct.bid(1), ct.bid(2)
    tm = rows * group
    x = ct.load(q, (b, i, h, 0, 0), (1, rows, 1, group, d), padding_mode=ZERO).reshape((tm, d))
    m = ct.load(sinks, (h, 0), (1, group)).astype(ct.float32) * LOG2E
    m = ct.broadcast_to(m, (rows, group)).reshape((tm, 1))
    s, acc = ct.ones((tm, 1), ct.float32), ct.zeros((tm, d), ct.float32)
    row = i * rows + ct.arange(tm, dtype=ct.int32)[:, None] // group
    for j in range(max(i * rows - window + 1, 0) // tn, ct.cdiv((i + 1) * rows, tn)):
        y = ct.load(k, (b, j, h, 0), (1, tn, 1, d), padding_mode=ZERO).reshape((tn, d))
        w = ct.mma(x, ct.transpose(y), ct.zeros((tm, tn), ct.float32)) * (scale * LOG2E)
        column = j * tn + ct.arange(tn, dtype=ct.int32)[None, :]
        w = ct.where((column <= row) & (column > row - window), w, -1e30)
        m, p, r, s = softmax_step(w, m, s)
        z = ct.load(v, (b, j, h, 0), (1, tn, 1, d), padding_mode=ZERO).reshape((tn, d))
        acc = ct.mma(p.astype(q.dtype), z, acc * r)
    ct.store(out, (b, i, h, 0, 0), (acc / s).astype(out.dtype).reshape((1, rows, 1, group, d)))


@program((bf16, 16, 64, 64, 8, 1, 70, 100), (np.float16, 32, 64, 128, 4, 1, 90, 64), (bf16, 8, 128, 64, 8, 2, 40, 128))
def attention_windowed(dtype, rows, tn, d, group, heads, n, window, batch=1):
    q = draw(batch, n, heads, group, d, dtype=dtype)
    k, v = (draw(batch, n, heads, d, dtype=dtype, seed=s) for s in (1, 2))
    sinks = draw(heads, group, dtype=np.float32)
    row, column = np.arange(n)[:, None], np.arange(n)
    k_, v_ = (x.transpose(0, 2, 1, 3)[:, :, None] for x in (k, v))
    want = attend(q.transpose(0, 2, 3, 1, 4), k_, v_, (column <= row) & (column > row - window), scale=d ** -.5,
                  sinks=sinks[..., None, None])[0].transpose(0, 3, 1, 2, 4)
    return Launch(windowed, (batch, heads, blocks(n, rows)),
                  (q, k, v, sinks, np.zeros_like(q), d ** -.5, window, rows, tn, d, group), {4: want}, near(dtype))


# ---- a bias and a mask that are loaded

@ct.kernel
def biased(q, k, v, bias, mask, out, lse, scale, tm: Const, tn: Const, d: Const):
    """Scores have a tile of biases and a mask of keys, both loaded, as in models of proteins; sums are stored as well."""
    b, h, i = ct.bid(0), ct.bid(1), ct.bid(2)
    x = ct.load(q, (b, h, i, 0), (1, 1, tm, d), padding_mode=ZERO).reshape((tm, d))
    m, s = ct.full((tm, 1), -1e30, ct.float32), ct.zeros((tm, 1), ct.float32)
    acc = ct.zeros((tm, d), ct.float32)
    for j in range(ct.cdiv(k.shape[2], tn)):
        y = ct.load(k, (b, h, j, 0), (1, 1, tn, d), padding_mode=ZERO).reshape((tn, d))
        w = ct.mma(x, ct.transpose(y), ct.zeros((tm, tn), ct.float32)) * (scale * LOG2E)
        w = w + ct.load(bias, (h, i, j), (1, tm, tn), padding_mode=ZERO).reshape((tm, tn)).astype(ct.float32) * LOG2E
        seen = ct.load(mask, (b, j), (1, tn), padding_mode=ZERO)
        w = ct.where(seen != 0, w, -1e30)
        m, p, r, s = softmax_step(w, m, s)
        z = ct.load(v, (b, h, j, 0), (1, 1, tn, d), padding_mode=ZERO).reshape((tn, d))
        acc = ct.mma(p.astype(q.dtype), z, acc * r)
    ct.store(out, (b, h, i, 0), (acc / s).astype(out.dtype).reshape((1, 1, tm, d)))
    ct.store(lse, (b, h, i), (ct.log2(s) + m).reshape((1, 1, tm)))


@program((np.float16, 64, 64, 32, 1, 136), (bf16, 128, 64, 64, 1, 200), (bf16, 128, 128, 128, 1, 160))
def attention_biased(dtype, tm, tn, d, heads, n, batch=1):
    q, k, v = (draw(batch, heads, n, d, dtype=dtype, seed=s) for s in range(3))
    bias = draw(heads, n, n, dtype=dtype, seed=4)
    mask = (np.random.default_rng(0).random((batch, n)) < .8).astype(np.uint8)
    want, lse = attend(q, k, v, mask[:, None, None] != 0, wide(bias), d ** -.5)
    return Launch(biased, (batch, heads, blocks(n, tm)), (q, k, v, bias, mask, np.zeros_like(q), np.zeros(q.shape[:3], np.float32),
                                                          d ** -.5, tm, tn, d), {5: want, 6: lse * LOG2E}, near(dtype))


# ---- two loops: whole tiles, then those on the diagonal; heads of other sizes than powers of two

@ct.kernel
def in_phases(q, k, v, out, scale, tm: Const, tn: Const, d: Const, group: Const):
    """Causal, with a loop without masks and one with; a head's size is padded to the tile's."""
    b, h, i = ct.bid(0) // q.shape[1], ct.bid(0) % q.shape[1], ct.num_blocks(1) - 1 - ct.bid(1)
    x = ct.load(q, (b, h, i, 0), (1, 1, tm, d), padding_mode=ZERO).reshape((tm, d))
    m, s = ct.full((tm, 1), -1e30, ct.float32), ct.zeros((tm, 1), ct.float32)
    acc = ct.zeros((tm, d), ct.float32)
    whole = i * tm // tn
    for j in range(whole):
        y = ct.load(k, (b, h // group, 0, j), (1, 1, d, tn), order=(0, 1, 3, 2), padding_mode=ZERO, latency=2).reshape((d, tn))
        w = ct.mma(x, y, ct.zeros((tm, tn), ct.float32)) * (scale * LOG2E)
        m, p, r, s = softmax_step(w, m, s)
        z = ct.load(v, (b, h // group, j, 0), (1, 1, tn, d), padding_mode=ZERO, latency=4).reshape((tn, d))
        acc = ct.mma(p.astype(q.dtype), z, acc * r)
    row = i * tm + ct.arange(tm, dtype=ct.int32)[:, None]
    for j in range(whole, ct.cdiv(min((i + 1) * tm, k.shape[2]), tn)):
        y = ct.load(k, (b, h // group, 0, j), (1, 1, d, tn), order=(0, 1, 3, 2), padding_mode=ZERO, latency=2).reshape((d, tn))
        w = ct.mma(x, y, ct.zeros((tm, tn), ct.float32)) * (scale * LOG2E)
        w = ct.where(j * tn + ct.arange(tn, dtype=ct.int32)[None, :] <= row, w, -1e30)
        m, p, r, s = softmax_step(w, m, s)
        z = ct.load(v, (b, h // group, j, 0), (1, 1, tn, d), padding_mode=ZERO, latency=4).reshape((tn, d))
        acc = ct.mma(p.astype(q.dtype), z, acc * r)
    ct.store(out, (b, h, i, 0), (acc / s).astype(out.dtype).reshape((1, 1, tm, d)))


@program((np.float16, 128, 128, 128, 96, 1, 300), (bf16, 64, 64, 256, 256, 1, 200), (bf16, 128, 64, 128, 80, 1, 260),
         (np.float16, 128, 128, 64, 64, 1, 400), (np.float16, 256, 128, 128, 128, 1, 520))
def attention_in_phases(dtype, tm, tn, d, size, heads, n, batch=1, group=2):
    q = draw(batch, heads * group, n, size, dtype=dtype)
    k, v = (draw(batch, heads, n, size, dtype=dtype, seed=s) for s in (1, 2))
    want = attend(q, np.repeat(k, group, 1), np.repeat(v, group, 1), np.tri(n, dtype=bool), scale=size ** -.5)[0]
    return Launch(in_phases, (batch * heads * group, blocks(n, tm)), (q, k, v, np.zeros_like(q), size ** -.5, tm, tn, d, group),
                  {3: want}, near(dtype))


@program((np.float16, 256, 128, 64, 64, 1, 600), (bf16, 256, 128, 128, 96, 1, 300), quick=True)
def attention_by_turns(dtype, tm, tn, d, size, heads, n):
    """Of so many rows and keys that two chains of a block take turns, in two loops one behind the other."""
    return attention_in_phases(dtype, tm, tn, d, size, heads, n, group=1)


# ---- latent keys, decoded in parts

@ct.kernel
def latent_parts(qn, qr, kv, kr, lengths, parts, lse, scale, share: Const, th: Const, tn: Const, dn: Const, dr: Const):
    """One query a sequence, of many heads, all with the same latent keys, which are also the values; a block takes a share."""
    b, h, part = ct.bid(0), ct.bid(1), ct.bid(2)
    n = ct.load(lengths, (b,), ())
    x = ct.load(qn, (b, h, 0), (1, th, dn)).reshape((th, dn))
    turned = ct.load(qr, (b, h, 0), (1, th, dr)).reshape((th, dr))
    m, s = ct.full((th, 1), -1e30, ct.float32), ct.zeros((th, 1), ct.float32)
    acc = ct.zeros((th, dn), ct.float32)
    for j in range(part * share, min((part + 1) * share, ct.cdiv(n, tn))):
        c = ct.load(kv, (b, j, 0), (1, tn, dn), padding_mode=ZERO).reshape((tn, dn))
        e = ct.load(kr, (b, j, 0), (1, tn, dr), padding_mode=ZERO).reshape((tn, dr))
        w = ct.mma(x, ct.transpose(c), ct.zeros((th, tn), ct.float32))
        w = ct.mma(turned, ct.transpose(e), w) * (scale * LOG2E)
        w = ct.where(j * tn + ct.arange(tn, dtype=ct.int32)[None, :] < n, w, -1e30)
        m, p, r, s = softmax_step(w, m, s)
        acc = ct.mma(p.astype(kv.dtype), c, acc * r)
    ct.store(parts, (b, part, h, 0), ct.where(s > 0.0, acc / s, 0.0).reshape((1, 1, th, dn)))
    ct.store(lse, (b, part, h), (m + ct.log2(s)).reshape((1, 1, th)))


@program((bf16, 16, 64, 512, 64, 16, 180, 2), (np.float16, 64, 32, 256, 64, 64, 90, 2), (bf16, 64, 64, 512, 64, 64, 130, 2),
         (bf16, 128, 64, 512, 64, 128, 100, 1), (bf16, 32, 128, 256, 64, 32, 300, 2))
def attention_latent_in_parts(dtype, th, tn, dn, dr, heads, n, share, batch=1):
    lengths = np.array([n - 7 * b for b in range(batch)], np.int32)
    qn, qr = draw(batch, heads, dn, dtype=dtype), draw(batch, heads, dr, dtype=dtype, seed=3)
    kv, kr = draw(batch, n, dn, dtype=dtype), draw(batch, n, dr, dtype=dtype, seed=4)
    count = blocks(blocks(n, tn), share)
    want, lse = np.zeros((batch, count, heads, dn)), np.zeros((batch, count, heads))
    for b, part in np.ndindex(batch, count):
        mine = slice(part * share * tn, min((part + 1) * share * tn, lengths[b]))
        want[b, part], lse[b, part] = attend(np.concatenate([qn[b], qr[b]], -1), np.concatenate([kv[b], kr[b]], -1)[mine],
                                             kv[b, mine], scale=(dn + dr) ** -.5)
    return Launch(latent_parts, (batch, heads // th, count),
                  (qn, qr, kv, kr, lengths, np.zeros(want.shape, np.float32), np.zeros(lse.shape, np.float32), (dn + dr) ** -.5,
                   share, th, tn, dn, dr), {5: want, 6: lse * LOG2E}, near(dtype))


# ---- latent keys, decoded with few heads: the keys' rows are the product's

@ct.kernel
def latent_turned(qn, qr, kv, kr, out, lse, scale, th: Const, tn: Const, dn: Const, dr: Const):
    """Scores stand in columns, a head each, so that tensor cores multiply tiles of many rows; keys, read again, are values."""
    b, h = ct.bid(1), ct.bid(0)
    x = ct.load(qn, (b, 0, h), (1, dn, th), order=(0, 2, 1)).reshape((dn, th))
    turned = ct.load(qr, (b, 0, h), (1, dr, th), order=(0, 2, 1)).reshape((dr, th))
    m, s = ct.full((th,), -1e30, ct.float32), ct.zeros((tn, th), ct.float32)
    acc = ct.zeros((dn, th), ct.float32)
    n = kv.shape[1]
    for j in range(ct.cdiv(n, tn)):
        w = ct.mma(ct.load(kv, (b, j, 0), (1, tn, dn)).reshape((tn, dn)), x, ct.zeros((tn, th), ct.float32))
        w = ct.mma(ct.load(kr, (b, j, 0), (1, tn, dr)).reshape((tn, dr)), turned, w)
        if (j + 1) * tn > n:
            w = ct.where(j * tn + ct.arange(tn, dtype=ct.int32)[:, None] < n, w, -1e30)
        top = ct.maximum(m, ct.max(w, 0) * (scale * LOG2E))
        p, r = ct.exp2(w * (scale * LOG2E) - top[None, :]), ct.exp2(m - top)
        s = s * r[None, :] + p
        c = ct.load(kv, (j, b, 0), (tn, 1, dn), order=(1, 0, 2)).reshape((tn, dn))
        acc = ct.mma(ct.transpose(c), p.astype(kv.dtype), acc * r[None, :])
        m = top
    total = ct.sum(s, 0)
    ct.store(lse, (b, h), (m + ct.log2(total)).reshape((1, th)))
    ct.store(out, (b, h, 0), ct.transpose((acc / total[None, :]).astype(out.dtype)).reshape((1, th, dn)))


@program((np.float16, 16, 128, 512, 64, 16, 300), (bf16, 16, 64, 512, 64, 32, 170), (np.float16, 32, 64, 256, 64, 32, 200),
         (bf16, 16, 128, 512, 64, 16, 1024), (np.float16, 8, 128, 128, 64, 8, 520))
def attention_latent_turned(dtype, th, tn, dn, dr, heads, n, batch=2):
    qn, qr = draw(batch, heads, dn, dtype=dtype), draw(batch, heads, dr, dtype=dtype, seed=3)
    kv, kr = draw(batch, n, dn, dtype=dtype), draw(batch, n, dr, dtype=dtype, seed=4)
    want, lse = attend(np.concatenate([qn, qr], -1), np.concatenate([kv, kr], -1), kv, scale=(dn + dr) ** -.5)
    return Launch(latent_turned, (blocks(heads, th), batch),
                  (qn, qr, kv, kr, np.zeros_like(qn), np.zeros((batch, heads), np.float32), (dn + dr) ** -.5, th, tn, dn, dr),
                  {4: want, 5: lse * LOG2E}, near(dtype))


# ---- keys and values that an SM doesn't hold at once

@ct.kernel
def wide_heads(q, k, v, out, scale, tm: Const, tn: Const, d: Const):
    """Blocks go on to other rows; sums are rescaled, and stored, in branches. Odd tiles of rows come out negative."""
    n = k.shape[0]
    for i in range(ct.bid(0), ct.cdiv(q.shape[0], tm), ct.num_blocks(0)):
        x = ct.load(q, (i, 0), (tm, d), padding_mode=ZERO)
        m, s = ct.full((tm, 1), -1e30, ct.float32), ct.zeros((tm, 1), ct.float32)
        acc = ct.zeros((tm, d), ct.float32)
        for j in range(ct.cdiv(n, tn)):
            w = ct.mma(x, ct.transpose(ct.load(k, (j, 0), (tn, d), padding_mode=ZERO)), ct.zeros((tm, tn), ct.float32))
            w = ct.where(j * tn + ct.arange(tn, dtype=ct.int32)[None, :] < n, w * (scale * LOG2E), -1e30)
            m, p, r, s = softmax_step(w, m, s)
            if j > 0:
                acc = acc * r
            acc = ct.mma(p.astype(v.dtype), ct.load(v, (j, 0), (tn, d), padding_mode=ZERO), acc)
        if i % 2 == 0:
            ct.store(out, (i, 0), (acc / s).astype(out.dtype))
        else:
            ct.store(out, (i, 0), (-acc / s).astype(out.dtype))


@program((np.float16, 64, 128, 512, 200, 300), (bf16, 128, 128, 512, 150, 200), (np.float16, 64, 64, 256, 130, 200),
         (bf16, 16, 128, 256, 40, 300))
def attention_of_wide_heads(dtype, tm, tn, d, m, n):
    q, k, v = draw(m, d, dtype=dtype), draw(n, d, dtype=dtype, seed=1), draw(n, d, dtype=dtype, seed=2)
    want = attend(q, k, v, scale=d ** -.5)[0] * np.where(np.arange(m)[:, None] // tm % 2, -1, 1)
    return Launch(wide_heads, (2,), (q, k, v, np.zeros_like(q), d ** -.5, tm, tn, d), {3: want}, near(dtype))


# ---- decoding without products by the tensor core

@ct.kernel
def one_query(q, k, v, lengths, out, lse, scale, share: Const, tn: Const, d: Const):
    """One row of queries: scores are sums of products of elements; a block takes a share of the keys."""
    b, h, part = ct.bid(0), ct.bid(1), ct.bid(2)
    n = ct.load(lengths, (b,), ())
    x = ct.load(q, (b, h, 0), (1, 1, d)).reshape((1, d)).astype(ct.float32) * (scale * LOG2E)
    m, s = ct.full((1, 1), -1e30, ct.float32), ct.zeros((1, 1), ct.float32)
    acc = ct.zeros((1, d), ct.float32)
    for j in range(part * share, min((part + 1) * share, ct.cdiv(n, tn))):
        y = ct.load(k, (b, j, h, 0), (1, tn, 1, d), padding_mode=ZERO).reshape((tn, d)).astype(ct.float32)
        w = ct.sum(y * x, axis=1, keepdims=True)
        w = ct.where(j * tn + ct.arange(tn, dtype=ct.int32)[:, None] < n, w, -1e30)
        top = ct.maximum(m, ct.max(w, axis=0, keepdims=True))
        p, r = ct.exp2(w - top), ct.exp2(m - top)
        z = ct.load(v, (b, j, h, 0), (1, tn, 1, d), padding_mode=ZERO).reshape((tn, d)).astype(ct.float32)
        acc = acc * r + ct.sum(p * z, axis=0, keepdims=True)
        s, m = s * r + ct.sum(p, axis=0, keepdims=True), top
    ct.store(out, (b, part, h, 0), ct.where(s > 0.0, acc / s, 0.0).reshape((1, 1, 1, d)))
    ct.store(lse, (b, part, h), (m + ct.log2(s)).reshape((1, 1, 1)))


@program((np.float16, 64, 128, 1, 200, 2), (bf16, 32, 64, 2, 150, 4), (np.float16, 128, 128, 1, 300, 8))
def attention_of_one_query(dtype, tn, d, heads, n, share, batch=1):
    lengths = np.array([n - 7 * b for b in range(batch)], np.int32)
    q, k, v = draw(batch, heads, d, dtype=dtype), *(draw(batch, n, heads, d, dtype=dtype, seed=s) for s in (1, 2))
    count = blocks(blocks(n, tn), share)
    want, lse = np.zeros((batch, count, heads, d)), np.zeros((batch, count, heads))
    for b, part in np.ndindex(batch, count):
        mine = slice(part * share * tn, min((part + 1) * share * tn, lengths[b]))
        got = attend(q[b, :, None], *(x[b, mine].swapaxes(0, 1) for x in (k, v)), scale=d ** -.5)
        want[b, part], lse[b, part] = got[0][:, 0], got[1][:, 0]
    return Launch(one_query, (batch, heads, count), (q, k, v, lengths, np.zeros(want.shape, np.float32),
                                                     np.zeros(lse.shape, np.float32), d ** -.5, share, tn, d),
                  {4: want, 5: lse * LOG2E}, near(dtype))


# ---- lists of blocks

@ct.kernel
def listed(q, k, v, counts, lists, out, scale, tm: Const, tn: Const, d: Const):
    """Block-sparse: a list says which tiles of keys a tile of queries sees."""
    h, i = ct.bid(0), ct.bid(1)
    x = ct.load(q, (h, i, 0), (1, tm, d), padding_mode=ZERO).reshape((tm, d))
    m, s = ct.full((tm, 1), -1e30, ct.float32), ct.zeros((tm, 1), ct.float32)
    acc = ct.zeros((tm, d), ct.float32)
    for at in range(ct.load(counts, (h, i), ())):
        j = ct.load(lists, (h, i, at), ())
        y = ct.load(k, (h, j, 0), (1, tn, d), padding_mode=ZERO).reshape((tn, d))
        w = ct.mma(x, ct.transpose(y), ct.zeros((tm, tn), ct.float32)) * (scale * LOG2E)
        m, p, r, s = softmax_step(w, m, s)
        z = ct.load(v, (h, j, 0), (1, tn, d), padding_mode=ZERO).reshape((tn, d))
        acc = ct.mma(p.astype(q.dtype), z, acc * r)
    ct.store(out, (h, i, 0), ct.where(s > 0.0, acc / s, 0.0).astype(out.dtype).reshape((1, tm, d)))


@program((np.float16, 64, 64, 64, 1, 256), (bf16, 128, 64, 128, 1, 256), (np.float16, 128, 128, 128, 1, 384))
def attention_listed(dtype, tm, tn, d, heads, n, most=3):
    q, k, v = (draw(heads, n, d, dtype=dtype, seed=s) for s in range(3))
    rng = np.random.default_rng(0)
    counts = rng.integers(0, most + 1, (heads, n // tm)).astype(np.int32)
    lists = np.stack([rng.permutation(n // tn)[:most] for _ in range(heads * (n // tm))]).astype(np.int32)
    lists = lists.reshape(heads, n // tm, -1)
    counts = np.minimum(counts, lists.shape[-1]).astype(np.int32)
    seen = np.zeros((heads, n // tm, n // tn), bool)
    for h, i in np.ndindex(heads, n // tm):
        seen[h, i, lists[h, i, :counts[h, i]]] = True
    want = attend(q, k, v, np.repeat(np.repeat(seen, tm, 1), tn, 2), scale=d ** -.5)[0]
    return Launch(listed, (heads, n // tm), (q, k, v, counts, lists, np.zeros_like(q), d ** -.5, tm, tn, d), {5: want}, near(dtype))


# ---- eight-bit keys

@ct.kernel
def small_types(q, k, v, out, scale, deep, tm: Const, tn: Const, d: Const):
    """Queries, keys, values and weights of eight bits."""
    h, i = ct.bid(0), ct.bid(1)
    x = ct.load(q, (h, i, 0), (1, tm, d), padding_mode=ZERO).reshape((tm, d))
    m, s = ct.full((tm, 1), -1e30, ct.float32), ct.zeros((tm, 1), ct.float32)
    acc = ct.zeros((tm, d), ct.float32)
    for j in range(ct.cdiv(k.shape[1], tn)):
        y = ct.load(k, (h, j, 0), (1, tn, d), padding_mode=ZERO).reshape((tn, d))
        m, p, r, s = softmax_step(scores(x, y, j, k.shape[1], scale), m, s)
        z = ct.load(v, (h, 0, j), (1, d, tn), padding_mode=ZERO).reshape((d, tn))
        acc = ct.mma((p * 256.0).astype(q.dtype), ct.transpose(z), acc * r)
    ct.store(out, (h, i, 0), (acc / s * deep).astype(out.dtype).reshape((1, tm, d)))


@program((64, 64, 64, 1, 144), (128, 128, 128, 1, 272), (128, 64, 128, 1, 208), (256, 128, 128, 1, 400),
         (256, 64, 64, 1, 304, e5m2), (64, 64, 128, 1, 208, e5m2), since=90)
def attention_of_eight_bits(tm, tn, d, heads, n, dtype=e4m3):
    q, k = (draw(heads, n, d, dtype=np.float32, seed=s).astype(dtype) for s in range(2))
    v = draw(heads, d, n, dtype=np.float32, seed=2).astype(dtype)
    want = attend(q, k, wide(v).swapaxes(1, 2), scale=d ** -.5)[0]
    return Launch(small_types, (heads, blocks(n, tm)), (q, k, v, np.zeros((heads, n, d), np.float16), d ** -.5, 1 / 256, tm, tn, d),
                  {3: want}, 4e-2 if dtype is e4m3 else 8e-2)


@ct.kernel
def other_types(q, k, v, out, scale, deep, tm: Const, tn: Const, d: Const, by_parts: ct.Constant[bool]):
    """Weights of eight bits, or of tf32, by values whose features lie side by side; `by_parts`: products that begin at zero."""
    h, i = ct.bid(0), ct.bid(1)
    of = ct.tfloat32 if q.dtype == ct.float32 else q.dtype
    x = ct.load(q, (h, i, 0), (1, tm, d), padding_mode=ZERO).reshape((tm, d)).astype(of)
    m, s = ct.full((tm, 1), -1e30, ct.float32), ct.zeros((tm, 1), ct.float32)
    acc = ct.zeros((tm, d), ct.float32)
    for j in range(ct.cdiv(k.shape[1], tn)):
        y = ct.load(k, (h, j, 0), (1, tn, d), padding_mode=ZERO).reshape((tn, d)).astype(of)
        m, p, r, s = softmax_step(scores(x, y, j, k.shape[1], scale), m, s)
        z = ct.load(v, (h, j, 0), (1, tn, d), padding_mode=ZERO).reshape((tn, d)).astype(of)
        w = (p / deep).astype(of)
        if by_parts:
            acc = acc * r + ct.mma(w, z, ct.zeros((tm, d), ct.float32))
        else:
            acc = ct.mma(w, z, acc * r)
    ct.store(out, (h, i, 0), (acc / s * deep).astype(out.dtype).reshape((1, tm, d)))


@program((64, 64, 64, 1, 144, e5m2), (64, 64, 64, 2, 200, e4m3, True), (128, 64, 128, 1, 272, e4m3), (64, 32, 64, 1, 144, f32),
         (128, 64, 64, 1, 272, f32, True), (64, 64, 64, 2, 208, np.float16, True), (64, 64, 128, 1, 300, np.float16), since=90)
def attention_of_other_types(tm, tn, d, heads, n, dtype, by_parts=False):
    q, k, v = (draw(heads, n, d, dtype=np.float32, seed=s).astype(dtype) for s in range(3))
    want, eight = attend(q, k, v, scale=d ** -.5)[0], dtype in (e4m3, e5m2)
    out = np.zeros((heads, n, d), np.float16 if eight else dtype)
    return Launch(other_types, (heads, blocks(n, tm)),
                  (q, k, v, out, d ** -.5, 1 / 256 if eight else 1.0, tm, tn, d, by_parts), {3: want},
                  8e-2 if dtype is e5m2 else 4e-2 if eight else 4e-3)


# ---- gradients

@ct.kernel
def of_queries(q, k, v, grad, lse, delta, dq, scale, tm: Const, tn: Const, d: Const, group: Const):
    """The gradient of queries, causal."""
    b, h, i = ct.bid(0), ct.bid(1), ct.bid(2)
    x = ct.load(q, (b, h, i, 0), (1, 1, tm, d), padding_mode=ZERO).reshape((tm, d))
    g = ct.load(grad, (b, h, i, 0), (1, 1, tm, d), padding_mode=ZERO).reshape((tm, d))
    l = ct.load(lse, (b, h, i), (1, 1, tm), padding_mode=ZERO).reshape((tm, 1))
    e = ct.load(delta, (b, h, i), (1, 1, tm), padding_mode=ZERO).reshape((tm, 1))
    acc = ct.zeros((tm, d), ct.float32)
    row = i * tm + ct.arange(tm, dtype=ct.int32)[:, None]
    for j in range(ct.cdiv(min((i + 1) * tm, k.shape[2]), tn)):
        y = ct.load(k, (b, h // group, j, 0), (1, 1, tn, d), padding_mode=ZERO).reshape((tn, d))
        w = ct.mma(x, ct.transpose(y), ct.zeros((tm, tn), ct.float32)) * (scale * LOG2E)
        p = ct.where(j * tn + ct.arange(tn, dtype=ct.int32)[None, :] <= row, ct.exp2(w - l), 0.0)
        z = ct.load(v, (b, h // group, j, 0), (1, 1, tn, d), padding_mode=ZERO).reshape((tn, d))
        dp = ct.mma(g, ct.transpose(z), ct.zeros((tm, tn), ct.float32))
        acc = ct.mma((p * (dp - e)).astype(q.dtype), y, acc)
    ct.store(dq, (b, h, i, 0), (acc * scale).astype(dq.dtype).reshape((1, 1, tm, d)))


@ct.kernel
def of_keys(q, k, v, grad, lse, delta, dk, dv, scale, tm: Const, tn: Const, d: Const, group: Const):
    """The gradients of keys and values, causal, over the heads of a group."""
    b, h, j = ct.bid(0), ct.bid(1), ct.bid(2)
    y = ct.load(k, (b, h, j, 0), (1, 1, tn, d), padding_mode=ZERO).reshape((tn, d))
    z = ct.load(v, (b, h, j, 0), (1, 1, tn, d), padding_mode=ZERO).reshape((tn, d))
    gk, gv = ct.zeros((tn, d), ct.float32), ct.zeros((tn, d), ct.float32)
    column = j * tn + ct.arange(tn, dtype=ct.int32)[None, :]
    for o in range(h * group, (h + 1) * group):
        for i in range(j * tn // tm, ct.cdiv(q.shape[2], tm)):
            x = ct.load(q, (b, o, i, 0), (1, 1, tm, d), padding_mode=ZERO).reshape((tm, d))
            g = ct.load(grad, (b, o, i, 0), (1, 1, tm, d), padding_mode=ZERO).reshape((tm, d))
            l = ct.load(lse, (b, o, i), (1, 1, tm), padding_mode=ZERO).reshape((tm, 1))
            e = ct.load(delta, (b, o, i), (1, 1, tm), padding_mode=ZERO).reshape((tm, 1))
            row = i * tm + ct.arange(tm, dtype=ct.int32)[:, None]
            w = ct.mma(x, ct.transpose(y), ct.zeros((tm, tn), ct.float32)) * (scale * LOG2E)
            p = ct.where((column <= row) & (row < q.shape[2]), ct.exp2(w - l), 0.0)
            gv = ct.mma(ct.transpose(p.astype(q.dtype)), g, gv)
            dp = ct.mma(g, ct.transpose(z), ct.zeros((tm, tn), ct.float32))
            gk = ct.mma(ct.transpose((p * (dp - e)).astype(q.dtype)), x, gk)
    ct.store(dk, (b, h, j, 0), (gk * scale).astype(dk.dtype).reshape((1, 1, tn, d)))
    ct.store(dv, (b, h, j, 0), gv.astype(dv.dtype).reshape((1, 1, tn, d)))


def gradients(q, k, v, grad, scale, seen=None):
    """Sums of rows (base 2), delta, and the gradients of q, k and v, of the keys that are `seen`: causal without that. The sum of a
    row that sees none counts as 1."""
    seen = np.tri(q.shape[-2], dtype=bool) if seen is None else seen
    s = np.where(seen, np.einsum("...md,...nd->...mn", wide(q), wide(k)) * scale, -np.inf)
    total = np.exp(s).sum(-1)
    lse = np.log(np.where(total > 0, total, 1))
    p = np.exp(s - lse[..., None])
    delta = (p @ wide(v) * wide(grad)).sum(-1)
    ds = p * (np.einsum("...md,...nd->...mn", wide(grad), wide(v)) - delta[..., None]) * scale
    return lse * LOG2E, delta, ds @ wide(k), np.swapaxes(ds, -1, -2) @ wide(q), np.swapaxes(p, -1, -2) @ wide(grad)


def drawn_gradients(dtype, d, heads, n, batch, group):
    q, grad = (draw(batch, heads * group, n, d, dtype=dtype, scale=.5, seed=s) for s in (0, 3))
    k, v = (draw(batch, heads, n, d, dtype=dtype, scale=.5, seed=s) for s in (1, 2))
    lse, delta, dq, dk, dv = gradients(q, np.repeat(k, group, 1), np.repeat(v, group, 1), grad, d ** -.5)
    dk, dv = (x.reshape(batch, heads, group, n, d).sum(2) for x in (dk, dv))
    return (q, k, v, grad, lse.astype(np.float32), delta.astype(np.float32)), dq, dk, dv


@program((np.float16, 64, 64, 64, 1, 200), (bf16, 128, 128, 64, 1, 200), (bf16, 128, 64, 128, 1, 200), (bf16, 64, 64, 128, 1, 150))
def attention_gradient_of_queries(dtype, tm, tn, d, heads, n, batch=1, group=2):
    arrays, dq, _, _ = drawn_gradients(dtype, d, heads, n, batch, group)
    return Launch(of_queries, (batch, heads * group, blocks(n, tm)),
                  (*arrays, np.zeros_like(arrays[0]), d ** -.5, tm, tn, d, group), {6: dq}, near(dtype) * 2)


@ct.kernel
def of_queries_by_length(q, k, v, grad, lse, delta, lengths, dq, scale, tm: Const, tn: Const, d: Const):
    """The gradient of queries that meet as many keys as a list says, none of them, maybe."""
    h, i = ct.bid(0), ct.bid(1)
    n = ct.load(lengths, (h,), (1,)).item()
    x = ct.load(q, (h, i, 0), (1, tm, d), padding_mode=ZERO).reshape((tm, d))
    g = ct.load(grad, (h, i, 0), (1, tm, d), padding_mode=ZERO).reshape((tm, d))
    l, e = ct.load(lse, (h, i), (1, tm)).reshape((tm, 1)), ct.load(delta, (h, i), (1, tm)).reshape((tm, 1))
    acc = ct.zeros((tm, d), ct.float32)
    for j in range(ct.cdiv(n, tn)):
        y = ct.load(k, (h, j, 0), (1, tn, d), padding_mode=ZERO).reshape((tn, d))
        w = ct.mma(x, ct.transpose(y), ct.zeros((tm, tn), ct.float32)) * (scale * LOG2E)
        p = ct.exp2(w - l)
        z = ct.load(v, (h, j, 0), (1, tn, d), padding_mode=ZERO).reshape((tn, d))
        dp = ct.mma(g, ct.transpose(z), ct.zeros((tm, tn), ct.float32))
        acc = ct.mma((p * (dp - e)).astype(q.dtype), y, acc)
    ct.store(dq, (h, i, 0), (acc * scale).astype(dq.dtype).reshape((1, tm, d)))


@program((bf16, 128, 64, 128), (np.float16, 128, 128, 64), (bf16, 128, 64, 64), (np.float16, 64, 64, 128), quick=True)
def attention_gradient_by_length(dtype, tm, tn, d):
    lengths = np.array([0, tn, 2 * tn, 3 * tn, 5 * tn], np.int32)
    heads, most = len(lengths), int(lengths.max())
    q, grad = (draw(heads, tm, d, dtype=dtype, scale=.5, seed=s) for s in (0, 3))
    k, v = (draw(heads, most, d, dtype=dtype, scale=.5, seed=s) for s in (1, 2))
    lse, delta, dq, _, _ = gradients(q, k, v, grad, d ** -.5, np.arange(most) < lengths[:, None, None])
    return Launch(of_queries_by_length, (heads, 1), (q, k, v, grad, lse.astype(np.float32), delta.astype(np.float32), lengths,
                                                     np.zeros_like(q), d ** -.5, tm, tn, d), {7: dq}, near(dtype) * 2)


@program((np.float16, 64, 64, 64, 1, 200), (bf16, 64, 128, 64, 1, 200), (np.float16, 64, 64, 128, 1, 140),
         (bf16, 128, 128, 128, 1, 200))
def attention_gradients_of_keys(dtype, tm, tn, d, heads, n, batch=1, group=2):
    arrays, _, dk, dv = drawn_gradients(dtype, d, heads, n, batch, group)
    return Launch(of_keys, (batch, heads, blocks(n, tn)),
                  (*arrays, np.zeros_like(arrays[1]), np.zeros_like(arrays[1]), d ** -.5, tm, tn, d, group),
                  {6: dk, 7: dv}, near(dtype) * 2)


def of_keys_gathered(q, k, v, grad, lse, delta, dk, dv, scale, tm: Const, tn: Const, d: Const, tf32: Const):
    """The gradients of keys and values, causal, of scores that are turned: each of their columns meets numbers that pointers
    gather from one list."""
    h, j, n = ct.bid(0), ct.bid(1), q.shape[1]
    y = ct.load(k, (h, j, 0), (1, tn, d), padding_mode=ZERO).reshape((tn, d))
    z = ct.load(v, (h, j, 0), (1, tn, d), padding_mode=ZERO).reshape((tn, d))
    if tf32:
        y, z = y.astype(ct.tfloat32), z.astype(ct.tfloat32)
    gk, gv = ct.zeros((tn, d), ct.float32), ct.zeros((tn, d), ct.float32)
    column = j * tn + ct.arange(tn, dtype=ct.int32)[:, None]
    for i in range(j * tn // tm, ct.cdiv(n, tm)):
        row = i * tm + ct.arange(tm, dtype=ct.int32)
        x = ct.load(q, (h, i, 0), (1, tm, d), padding_mode=ZERO).reshape((tm, d))
        g = ct.load(grad, (h, i, 0), (1, tm, d), padding_mode=ZERO).reshape((tm, d))
        if tf32:
            x, g = x.astype(ct.tfloat32), g.astype(ct.tfloat32)
        l, e = ct.gather(lse, h * n + row), ct.gather(delta, h * n + row)
        w = ct.mma(y, ct.transpose(x), ct.zeros((tn, tm), ct.float32)) * (scale * LOG2E)
        p = ct.where((column <= row[None, :]) & (row[None, :] < n), ct.exp2(w - l[None, :]), 0.0)
        gv = ct.mma(p.astype(x.dtype), g, gv)
        dp = ct.mma(z, ct.transpose(g), ct.zeros((tn, tm), ct.float32))
        gk = ct.mma((p * (dp - e[None, :])).astype(x.dtype), x, gk)
    ct.store(dk, (h, j, 0), (gk * scale).astype(dk.dtype).reshape((1, tn, d)))
    ct.store(dv, (h, j, 0), gv.astype(dv.dtype).reshape((1, tn, d)))


GATHERED = {n: ct.kernel(of_keys_gathered, occupancy=n) for n in (1, 2)}


@program((bf16, 64, 64, 64), (np.float16, 32, 64, 64), (bf16, 64, 64, 128, 1), (bf16, 16, 32, 128), (np.float32, 64, 64, 32, 1),
         (np.float16, 128, 64, 64), (bf16, 64, 128, 64), quick=True)
def attention_gradients_gathered(dtype, tm, tn, d, occupancy=2, heads=2, n=200):
    (q, k, v, grad, lse, delta), _, dk, dv = drawn_gradients(dtype, d, heads, n, 1, 1)
    arrays = (*(x[0] for x in (q, k, v, grad)), lse.reshape(-1), delta.reshape(-1))
    return Launch(GATHERED[occupancy], (heads, blocks(n, tn)),
                  (*arrays, np.zeros_like(arrays[1]), np.zeros_like(arrays[1]), d ** -.5, tm, tn, d, dtype is np.float32),
                  {6: dk[0], 7: dv[0]}, 1e-2 if dtype is np.float32 else near(dtype) * 2)


# ---- two blocks an SM

@ct.kernel(occupancy=2)
def shared_out(q, k, v, out, scale, tm: Const, tn: Const, d: Const):
    """Two blocks are asked for, whose threads hold many rows: registers of the load agent are theirs."""
    h, i = ct.bid(0), ct.bid(1)
    x = ct.load(q, (h, i, 0), (1, tm, d), padding_mode=ZERO).reshape((tm, d))
    m, s = ct.full((tm, 1), -1e30, ct.float32), ct.zeros((tm, 1), ct.float32)
    acc = ct.zeros((tm, d), ct.float32)
    for j in range(ct.cdiv(k.shape[1], tn)):
        y = ct.load(k, (h, j, 0), (1, tn, d), padding_mode=ZERO).reshape((tn, d))
        m, p, r, s = softmax_step(scores(x, y, j, k.shape[1], scale), m, s)
        z = ct.load(v, (h, j, 0), (1, tn, d), padding_mode=ZERO).reshape((tn, d))
        acc = ct.mma(p.astype(q.dtype), z, acc * r)
    ct.store(out, (h, i, 0), (acc / s).astype(out.dtype).reshape((1, tm, d)))


@program((np.float16, 64, 64, 128, 200), (bf16, 128, 32, 64, 130), (bf16, 128, 64, 64, 256))
def attention_of_two_blocks(dtype, tm, tn, d, n):
    q, k, v = (draw(2, n, d, dtype=dtype, seed=s) for s in range(3))
    want, _ = attend(q, k, v, scale=d ** -.5)
    return Launch(shared_out, (2, blocks(n, tm)), (q, k, v, np.zeros_like(q), d ** -.5, tm, tn, d), {3: want}, near(dtype))


# ---- keys that threads rotate, two heads in one block

@ct.function
def turned(x, c, s, h: Const):
    """Rows of which halves are turned by an angle a column, rounded."""
    low = ct.extract(x, (0, 0), (x.shape[0], h)).astype(ct.float32)
    high = ct.extract(x, (0, 1), (x.shape[0], h)).astype(ct.float32)
    return ct.cat((low * c - high * s, high * c + low * s), 1).astype(x.dtype)


@ct.kernel(occupancy=2)
def rotated(q, k, v, cos, sin, out, scale, t: Const, d: Const):
    """Queries and keys are turned by their places where they are used; causal, the diagonal's tile alone masked."""
    i, h, half = ct.bid(0), ct.bid(1), d // 2
    x = turned(ct.load(q, (i, h), (t, d)), ct.load(cos, (i, 0), (t, half)), ct.load(sin, (i, 0), (t, half)), half)
    m, s = ct.full((t, 1), -1e30, ct.float32), ct.zeros((t, 1), ct.float32)
    acc = ct.zeros((t, d), ct.float32)
    past = ct.arange(t, dtype=ct.int32)[:, None] >= ct.arange(t, dtype=ct.int32)[None, :]
    for j in range(i + 1):
        y = turned(ct.load(k, (j, h), (t, d)), ct.load(cos, (j, 0), (t, half)), ct.load(sin, (j, 0), (t, half)), half)
        w = ct.mma(x, ct.transpose(y), ct.zeros((t, t), ct.float32)) * (scale * LOG2E)
        if j == i:
            w = ct.where(past, w, -1e30)
        m, p, r, s = softmax_step(w, m, s)
        acc = acc * r + ct.mma(p.astype(q.dtype), ct.load(v, (j, h), (t, d)), ct.zeros((t, d), ct.float32))
    ct.store(out, (i, h), (acc / s).astype(out.dtype))


@program((bf16, 64, 128, 2, 256), (np.float16, 64, 64, 2, 192), (bf16, 128, 128, 1, 256))
def attention_of_rotated_keys(dtype, t, d, heads, n):
    q, k, v = (draw(n, heads * d, dtype=dtype, seed=i) for i in range(3))
    angle = np.random.default_rng(3).uniform(-np.pi, np.pi, (n, d // 2)).astype(np.float32)
    cos, sin = np.cos(angle), np.sin(angle)

    def by_head(x):
        return x.reshape(n, heads, d).swapaxes(0, 1)

    def turn(x):
        low, high = np.split(wide(by_head(x)), 2, -1)
        return np.concatenate([low * cos - high * sin, high * cos + low * sin], -1).astype(dtype)
    want = attend(turn(q), turn(k), by_head(v), np.tri(n, dtype=bool), scale=d ** -.5)[0]
    return Launch(rotated, (n // t, heads), (q, k, v, cos, sin, np.zeros_like(q), d ** -.5, t, d),
                  {5: want.swapaxes(0, 1).reshape(n, heads * d)}, near(dtype))


@ct.kernel(occupancy=2)
def two_heads(q, k, v, out, scale, at: int, window: Const, tm: Const, tn: Const, d: Const):
    """Two heads have one pair of keys and values; of these a window of tiles, those before the first one left out."""
    b = ct.bid(0)
    x0, x1 = ct.load(q, (2 * b, 0), (tm, d)), ct.load(q, (2 * b + 1, 0), (tm, d))
    m0, s0, acc0 = ct.full((tm, 1), -1e30, ct.float32), ct.zeros((tm, 1), ct.float32), ct.zeros((tm, d), ct.float32)
    m1, s1, acc1 = m0, s0, acc0
    past = ct.arange(tm, dtype=ct.int32)[:, None] >= ct.arange(tn, dtype=ct.int32)[None, :]
    for i in range(window + 1):
        j = at - window + i
        if j >= 0:
            y, z = ct.load(k, (b, j, 0), (1, tn, d)).reshape((tn, d)), ct.load(v, (b, j, 0), (1, tn, d)).reshape((tn, d))
            w0 = ct.mma(x0, ct.transpose(y), ct.zeros((tm, tn), ct.float32)) * (scale * LOG2E)
            w1 = ct.mma(x1, ct.transpose(y), ct.zeros((tm, tn), ct.float32)) * (scale * LOG2E)
            if j == at:
                w0, w1 = ct.where(past, w0, -1e30), ct.where(past, w1, -1e30)
            m0, p0, r0, s0 = softmax_step(w0, m0, s0)
            acc0 = acc0 * r0 + ct.mma(p0.astype(q.dtype), z, ct.zeros((tm, d), ct.float32))
            m1, p1, r1, s1 = softmax_step(w1, m1, s1)
            acc1 = acc1 * r1 + ct.mma(p1.astype(q.dtype), z, ct.zeros((tm, d), ct.float32))
    ct.store(out, (2 * b, 0), (acc0 / s0).astype(out.dtype))
    ct.store(out, (2 * b + 1, 0), (acc1 / s1).astype(out.dtype))


@program((bf16, 64, 64, 128, 3, 2), (np.float16, 64, 64, 64, 1, 4), (bf16, 128, 64, 64, 2, 2))
def attention_of_two_heads(dtype, tm, tn, d, at, window, pairs=2, tiles=5):
    q = draw(2 * pairs * tm, d, dtype=dtype)
    k, v = (draw(pairs, tiles * tn, d, dtype=dtype, seed=i) for i in (1, 2))
    key = np.arange(tiles * tn)
    seen = (key >= (at - window) * tn) & ((key < at * tn) | ((key < (at + 1) * tn) & (np.arange(tm)[:, None] >= key - at * tn)))
    want = attend(q.reshape(pairs, 2 * tm, d), k, v, np.concatenate([seen, seen]), scale=d ** -.5)[0]
    return Launch(two_heads, (pairs,), (q, k, v, np.zeros(q.shape, np.float32), d ** -.5, at, window, tm, tn, d),
                  {3: want.reshape(q.shape)}, near(dtype))
