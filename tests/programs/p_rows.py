"""Rows and streams as users write them: moments, best elements, losses, norms' gradients, scales, rotations, scans, convolutions,
bags, histograms, iterations, locks."""
import cuda.tile as ct
import numpy as np

from tests.programs.programs import Launch, bf16, blocks, draw, e4m3, program, whole, wide

Const = ct.Constant[int]
ZERO, LEAST = ct.PaddingMode.ZERO, ct.PaddingMode.NEG_INF


@ct.kernel
def welford(x, mean, spread, tr: Const, tc: Const):
    i, n = ct.bid(0), x.shape[1]
    m, m2, count = ct.zeros((tr, 1), ct.float32), ct.zeros((tr, 1), ct.float32), ct.float32(0)
    for j in range(ct.cdiv(n, tc)):
        tile = ct.load(x, (i, j), (tr, tc), padding_mode=ZERO).astype(ct.float32)
        there = (j * tc + ct.arange(tc, dtype=ct.int32)) < n
        w = ct.sum(there.astype(ct.float32))
        mu = ct.sum(tile, axis=1, keepdims=True) / w
        off = ct.where(there[None, :], tile - mu, 0.0)
        delta, total = mu - m, count + w
        m = m + delta * (w / total)
        m2 = m2 + ct.sum(off * off, axis=1, keepdims=True) + delta * delta * (count * w / total)
        count = total
    ct.store(mean, (i, 0), m)
    ct.store(spread, (i, 0), m2 / count)


@program((np.float16, 4, 256, 10, 1000), (bf16, 1, 1024, 3, 5000), (np.float32, 16, 128, 33, 777))
def rows_moments(dtype, tr, tc, rows, n):
    x, out = draw(rows, n, dtype=dtype), np.zeros((rows, 1), np.float32)
    return Launch(welford, (blocks(rows, tr),), (x, out, out.copy(), tr, tc),
                  {1: wide(x).mean(1, keepdims=True), 2: wide(x).var(1, keepdims=True)}, 1e-4)


@ct.kernel
def softmax_of_slices(x, out, t: Const, n: int):
    """Rows begin at multiples of 16 bytes, and end anywhere."""
    i = ct.bid(0)
    rows, kept = x.slice(axis=1, start=0, stop=n), out.slice(axis=1, start=0, stop=n)
    tile = ct.load(rows, (i, 0), (1, t), padding_mode=LEAST).astype(ct.float32)
    e = ct.exp(tile - ct.max(tile, axis=1, keepdims=True))
    ct.store(kept, (i, 0), (e / ct.sum(e, axis=1, keepdims=True)).astype(out.dtype))


@program((np.float32, 4096, 3420), (np.float32, 2048, 1023), (np.float16, 2048, 1001), (bf16, 4096, 4096), (bf16, 1024, 5))
def rows_that_end_anywhere(dtype, t, n):
    """What lies behind a row stays as it was."""
    x, out = draw(3, t, dtype=dtype), np.full((3, t), 7, dtype)
    expected = wide(out)
    e = np.exp(wide(x)[:, :n] - wide(x)[:, :n].max(1, keepdims=True))
    expected[:, :n] = e / e.sum(1, keepdims=True)
    return Launch(softmax_of_slices, (3,), (x, out, t, n), {1: expected}, 1e-2 if dtype == bf16 else 1e-3)


@ct.kernel
def scaled_by_norms(x, weight, out, tr: Const, tc: Const, n: Const):
    w = ct.load(weight, (0,), (n,), padding_mode=ZERO)
    for i in range(ct.bid(0), ct.cdiv(x.shape[0], tr), ct.num_blocks(0)):
        squares = ct.zeros((tr, 1), ct.float32)
        for j in range(ct.cdiv(n, tc)):
            tile = ct.load(x, (i, j), (tr, tc), padding_mode=ZERO, latency=10).astype(ct.float32)
            squares += ct.sum(tile * tile, axis=1, keepdims=True)
        scale = ct.rsqrt(squares / n + 1e-5)
        for j in range(ct.cdiv(n, tc)):
            tile = ct.load(x, (i, j), (tr, tc), padding_mode=ZERO, latency=10).astype(ct.float32)
            ct.store(out, (i, j), (tile * scale * w.extract((j,), (tc,))).astype(out.dtype))


@program((np.float32, 16, 1024, 1024), (np.float32, 4, 2048, 4096), (np.float16, 8, 512, 1024))
def rows_scaled_by_norms(dtype, tr, tc, n):
    """Rows that two loops read, of one tile or two: a large tile is read once."""
    x, w = draw(70, n, dtype=dtype), draw(n, dtype=dtype)
    norms = np.sqrt((wide(x) ** 2).mean(1, keepdims=True) + 1e-5)
    return Launch(scaled_by_norms, (2,), (x, w, np.zeros_like(x), tr, tc, n), {2: wide(x) / norms * wide(w)},
                  1e-2 if dtype == np.float16 else 1e-4)


@ct.kernel
def best(x, values, places, n: Const, k: Const):
    r = ct.bid(0)
    tile = ct.load(x, (r, 0), (1, n), padding_mode=LEAST).reshape((n,))
    for q in range(k):
        at = ct.argmax(tile)
        ct.store(values, (r, q), ct.max(tile))
        ct.store(places, (r, q), at)
        tile = ct.where(ct.arange(n, dtype=ct.int32) == at, float("-inf"), tile)


@program((256, 200), (2048, 1777))
def rows_best_eight(n, m):
    x = draw(5, m, dtype=np.float32)
    order = np.argsort(-x, axis=1, kind="stable")[:, :8]
    return Launch(best, (5,), (x, np.zeros((5, 8), np.float32), np.zeros((5, 8), np.int32), n, 8),
                  {1: np.take_along_axis(x, order, 1), 2: order})


@ct.kernel
def cross_entropy(x, target, loss, grad, t: Const):
    r, n = ct.bid(0), x.shape[1]
    m, s = ct.float32(-1e30), ct.float32(0.0)
    at = ct.load(target, (r,), (1,)).item()
    for j in range(ct.cdiv(n, t)):
        tile = ct.load(x, (r, j), (1, t), padding_mode=LEAST).astype(ct.float32)
        top = ct.maximum(m, ct.max(tile))
        s, m = s * ct.exp(m - top) + ct.sum(ct.exp(tile - top)), top
    lse = m + ct.log(s)
    ct.store(loss, (r,), lse - ct.gather(x, (r, at)).astype(ct.float32))
    for j in range(ct.cdiv(n, t)):
        p = ct.exp(ct.load(x, (r, j), (1, t), padding_mode=LEAST).astype(ct.float32) - lse)
        hit = (j * t + ct.arange(t, dtype=ct.int32))[None, :] == at
        ct.store(grad, (r, j), (p - ct.where(hit, 1.0, 0.0)).astype(grad.dtype))


@program((np.float16, 1024, 5, 5000), (bf16, 256, 3, 1000), (np.float32, 512, 2, 512))
def rows_cross_entropy(dtype, t, rows, n):
    x, target = draw(rows, n, dtype=dtype, scale=2), whole(rows, dtype=np.int64, low=0, high=n - 1)
    lse = np.log(np.exp(wide(x)).sum(1))
    p = np.exp(wide(x) - lse[:, None])
    p[np.arange(rows), target] -= 1
    return Launch(cross_entropy, (rows,), (x, target, np.zeros(rows, np.float32), np.zeros(x.shape, dtype), t),
                  {2: lse - wide(x)[np.arange(rows), target], 3: p}, 1e-2 if dtype is bf16 else 2e-3)


@ct.kernel
def norm_backward(dy, x, w, mean, rstd, dx, dw, n: Const):
    """Gradients of a layer's norm: rows in a loop over blocks, the weights' gradient by atomics at the end."""
    weight = ct.load(w, (0,), (n,), padding_mode=ZERO).reshape((1, n))
    acc = ct.zeros((1, n), ct.float32)
    there = (ct.arange(n, dtype=ct.int32) < x.shape[1]).reshape((1, n))
    for r in range(ct.bid(0), x.shape[0], ct.num_blocks(0)):
        tile = ct.load(x, (r, 0), (1, n), padding_mode=ZERO).astype(ct.float32)
        g = ct.load(dy, (r, 0), (1, n), padding_mode=ZERO).astype(ct.float32)
        mu, rs = ct.load(mean, (r,), (1,)), ct.load(rstd, (r,), (1,))
        xh, wg = ct.where(there, (tile - mu) * rs, 0.0), g * weight
        a, b = ct.sum(xh * wg) / x.shape[1], ct.sum(wg) / x.shape[1]
        ct.store(dx, (r, 0), ((wg - (xh * a + b)) * rs).astype(dx.dtype))
        acc = acc + g * xh
    ct.atomic_add(dw, (ct.arange(n, dtype=ct.int32),), acc.reshape((n,)))


@program((np.float16, 1024, 1000, 21), (np.float32, 256, 200, 9))
def rows_norm_backward(dtype, n, columns, rows):
    x, dy = draw(rows, columns, dtype=dtype), draw(rows, columns, dtype=dtype, seed=1)
    w = draw(columns, dtype=np.float32)
    mean, rstd = wide(x).mean(1).astype(np.float32), (1 / np.sqrt(wide(x).var(1) + 1e-5)).astype(np.float32)
    xh = (wide(x) - mean[:, None]) * rstd[:, None]
    g = wide(dy) * w
    dx = (g - xh * (xh * g).mean(1, keepdims=True) - g.mean(1, keepdims=True)) * rstd[:, None]
    return Launch(norm_backward, (4,), (dy, x, w, mean, rstd, np.zeros_like(x), np.zeros(columns, np.float32), n),
                  {5: dx, 6: (wide(dy) * xh).sum(0)}, 5e-3)


@ct.kernel
def norm_backward_of_rows(x, dy, w, mean, rstd, dx, dw, db, tr: Const, n: Const):
    """The same of rows that a block goes on to: what the copy engine brings, and a row's two numbers beside it."""
    weight = ct.load(w, (0,), (n,)).astype(ct.float32)
    total, biases = ct.zeros((tr, n), ct.float32), ct.zeros((tr, n), ct.float32)
    for i in range(ct.bid(0), ct.cdiv(x.shape[0], tr), ct.num_blocks(0)):
        mu = ct.load(mean, (i,), (tr,), padding_mode=ZERO).reshape((tr, 1))
        r = ct.load(rstd, (i,), (tr,), padding_mode=ZERO).reshape((tr, 1))
        v = ct.load(x, (i, 0), (tr, n), padding_mode=ZERO).astype(ct.float32)
        g = ct.load(dy, (i, 0), (tr, n), padding_mode=ZERO).astype(ct.float32)
        xh, wg = (v - mu) * r, g * weight
        c1, c2 = ct.sum(xh * wg, axis=1, keepdims=True) / n, ct.sum(wg, axis=1, keepdims=True) / n
        ct.store(dx, (i, 0), ((wg - (xh * c1 + c2)) * r).astype(dx.dtype))
        total, biases = total + g * xh, biases + g
    ct.store(dw, (ct.bid(0), 0), ct.sum(total, axis=0).reshape((1, n)))
    ct.store(db, (ct.bid(0), 0), ct.sum(biases, axis=0).reshape((1, n)))


@program((np.float16, 4, 128, 301), (bf16, 8, 64, 70), (np.float32, 4, 128, 3))
def rows_gradients_beside_a_ring(dtype, tr, n, rows):
    x, dy, w = draw(rows, n, dtype=dtype), draw(rows, n, dtype=dtype, seed=1), draw(n, dtype=dtype, seed=2)
    mean = wide(x).mean(1).astype(np.float32)
    rstd = (1 / np.sqrt(wide(x).var(1) + 1e-5)).astype(np.float32)
    xh, wg = (wide(x) - mean[:, None]) * rstd[:, None], wide(dy) * wide(w)
    dx = (wg - xh * (xh * wg).mean(1, keepdims=True) - wg.mean(1, keepdims=True)) * rstd[:, None]
    of_block = [np.arange(rows) // tr % 2 == b for b in range(2)]
    sums = np.zeros((2, n), np.float32)
    return Launch(norm_backward_of_rows, (2,), (x, dy, w, mean, rstd, np.zeros_like(x), sums, sums.copy(), tr, n),
                  {5: dx, 6: np.stack([(wide(dy) * xh)[mine].sum(0) for mine in of_block]),
                   7: np.stack([wide(dy)[mine].sum(0) for mine in of_block])}, 2e-2 if dtype == bf16 else 5e-3)


@ct.kernel
def quantized(x, out, scales, t: Const, g: Const):
    i, j = ct.bid(0), ct.bid(1)
    tile = ct.load(x, (i, j), (t, g), padding_mode=ZERO).astype(ct.float32)
    s = ct.maximum(ct.max(ct.abs(tile), axis=1, keepdims=True), 1e-4) / 448.0
    ct.store(out, (i, j), (tile / s).astype(out.dtype))
    ct.store(scales, (j, i), s.reshape((1, t)))


@program((bf16,), (np.float32,), since=90)
def rows_quantized(dtype):
    x = draw(70, 512, dtype=dtype)
    s = (np.maximum(np.abs(wide(x)).reshape(70, 4, 128).max(2), 1e-4) / 448).astype(np.float32)
    small = (x.astype(np.float32).reshape(70, 4, 128) / s[..., None]).astype(e4m3).reshape(70, 512)
    return Launch(quantized, (5, 4), (x, np.zeros(x.shape, e4m3), np.zeros((4, 70), np.float32), 16, 128), {1: small, 2: s.T}, 1e-6)


@ct.kernel
def rotated(x, cosines, sines, out, t: Const, d: Const):
    """Neighbours are turned: by a reshape, parts of it, and a join."""
    i, h = ct.bid(0), ct.bid(1)
    tile = ct.load(x, (h, i, 0), (1, t, d), padding_mode=ZERO).reshape((t, d // 2, 2)).astype(ct.float32)
    a, b = (ct.extract(tile, (0, 0, 0), (t, d // 2, 1)).reshape((t, d // 2)),
            ct.extract(tile, (0, 0, 1), (t, d // 2, 1)).reshape((t, d // 2)))
    c, s = ct.load(cosines, (i, 0), (t, d // 2), padding_mode=ZERO), ct.load(sines, (i, 0), (t, d // 2), padding_mode=ZERO)
    both = ct.cat(((a * c - b * s).reshape((t, d // 2, 1)), (a * s + b * c).reshape((t, d // 2, 1))), 2)
    ct.store(out, (h, i, 0), both.reshape((1, t, d)).astype(out.dtype))


@program((np.float16, 32, 64), (bf16, 16, 128), (np.float32, 64, 32))
def rows_rotated(dtype, t, d):
    x, angle = draw(3, 75, d, dtype=dtype), np.arange(75)[:, None] / 10 ** (np.arange(d // 2) / d)
    c, s = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    a, b = wide(x)[..., ::2], wide(x)[..., 1::2]
    return Launch(rotated, (blocks(75, t), 3), (x, c, s, np.zeros_like(x), t, d),
                  {3: np.stack([a * c - b * s, a * s + b * c], -1).reshape(x.shape)}, 2e-2 if dtype is bf16 else 2e-3)


@ct.kernel
def scanned(x, out, t: Const, back: ct.Constant[bool]):
    """A scan over tiles in either direction."""
    r, n = ct.bid(0), ct.cdiv(x.shape[1], t)
    carry = ct.zeros((1, 1), ct.float32)
    for q in range(n):
        j = n - 1 - q if back else q
        tile = ct.load(x, (r, j), (1, t), padding_mode=ZERO)
        ct.store(out, (r, j), ct.cumsum(tile, axis=1, reverse=back) + carry)
        carry = carry + ct.sum(tile, axis=1, keepdims=True)


@program((False,), (True,))
def rows_scanned(back):
    x = draw(3, 1500, dtype=np.float32)
    want = np.cumsum(wide(x)[:, ::-1], 1)[:, ::-1] if back else np.cumsum(wide(x), 1)
    return Launch(scanned, (3,), (x, np.zeros_like(x), 256, back), {1: want}, 1e-4)


@ct.kernel
def walked(x, places, kept, out, t: Const, steps: int, stride: int):
    """Tiles by a view, numbers by places of which a mask leaves out some, and numbers of their own, in an order that shows."""
    columns = ct.arange(t, dtype=ct.int32)
    acc = ct.zeros((t,), ct.float32)
    for k in range(0, steps * stride, stride):
        tile = ct.load(x, (k,), (t,), padding_mode=ZERO)
        at = ct.load(places, (k,), ())
        picked = ct.gather(x, (3 * k + columns,), mask=columns % 5 != k % 5, padding_value=0)
        if at % 3 != 1:
            acc = acc * 0.5 + tile
        acc = acc + picked - ct.sum(tile)
        ct.store(kept, (k,), ct.cumsum(acc))
    ct.store(out, (0,), acc)


@program(*((64, steps, stride) for steps, stride in ((18, 2), (1, 1), (3, 2), (7, 1), (8, 3), (9, 1), (15, 1), (0, 1))), quick=True)
def rounds_and_what_they_leave(t, steps, stride):
    x = whole((steps * stride + 1) * t - 9, low=-3, high=3)
    x, places = x.astype(np.float32), whole(steps * stride + 1, low=0, high=t, dtype=np.int32)
    acc, kept = np.zeros(t), np.zeros(((steps * stride + 1) * t,))
    padded = np.pad(wide(x), (0, 2 * t))
    for k in range(0, steps * stride, stride):
        tile, at = padded[k * t:(k + 1) * t], int(places[k])
        if at % 3 != 1:
            acc = acc * .5 + tile
        acc = acc + np.where(np.arange(t) % 5 != k % 5, padded[3 * k:3 * k + t], 0) - tile.sum()
        kept[k * t:(k + 1) * t] = np.cumsum(acc)
    return Launch(walked, (1,), (x, places, np.zeros(kept.size, np.float32), np.zeros(t, np.float32), t, steps, stride),
                  {2: kept, 3: acc}, 1e-4)


@ct.kernel
def convolved(x, w, out, p: Const, co: Const, ci: Const, width: Const):
    """A convolution as products of gathered pixels."""
    b, rows, columns = ct.bid(0), out.shape[1], out.shape[2]
    at = ct.bid(1) * p + ct.arange(p, dtype=ct.int32)
    y, z = at // columns, at % columns
    acc = ct.zeros((p, co), ct.float32)
    for q in range(width * width):
        a = ct.gather(x, (b, (y + q // width)[:, None], (z + q % width)[:, None], ct.arange(ci, dtype=ct.int32)[None, :]))
        acc = ct.mma(a, ct.load(w, (q, 0, 0), (1, ci, co)).reshape((ci, co)), acc)
    ct.scatter(out, (b, ct.where(y < rows, y, -1)[:, None], z[:, None], ct.arange(co, dtype=ct.int32)[None, :]), acc)


@program((np.float16, 64, 64, 32), (bf16, 128, 32, 64), (np.float16, 128, 128, 64))
def pixels_convolved(dtype, p, co, ci):
    x, w = draw(2, 15, 15, ci, dtype=dtype), draw(9, ci, co, dtype=dtype, scale=.2)
    want = sum(wide(x)[:, q // 3:q // 3 + 13, q % 3:q % 3 + 13] @ wide(w)[q] for q in range(9))
    return Launch(convolved, (2, blocks(13 * 13, p)), (x, w, np.zeros((2, 13, 13, co), np.float32), p, co, ci, 3), {2: want}, 1e-2)


@ct.kernel
def windowed(x, w, out, t: Const, c: Const, n: Const):
    """A window of an image: a product and its columns' means, channels first."""
    b, i, j = ct.bid(0), ct.bid(1), ct.bid(2)
    tile = ct.load(x, (b, i, j, 0), (1, t, t, c), padding_mode=ZERO).reshape((t * t, c))
    r = ct.mma(tile, ct.load(w, (0, 0), (c, n)), ct.zeros((t * t, n), ct.float32))
    r = r - ct.sum(r, axis=0, keepdims=True) / (t * t)
    ct.store(out, (b, 0, i, j), ct.permute(r.reshape((1, t, t, n)), (0, 3, 1, 2)))


@program((np.float16, 8, 64, 32), (bf16, 16, 32, 64), (np.float16, 4, 16, 16))
def pixels_in_windows(dtype, t, c, n):
    x, w = draw(2, 2 * t, 2 * t, c, dtype=dtype), draw(c, n, dtype=dtype)
    r = wide(x).reshape(2, 2, t, 2, t, c) @ wide(w)
    want = (r - r.mean((2, 4), keepdims=True)).reshape(2, 2 * t, 2 * t, n).transpose(0, 3, 1, 2)
    return Launch(windowed, (2, 2, 2), (x, w, np.zeros((2, n, 2 * t, 2 * t), np.float32), t, c, n), {2: want}, 5e-3)


@ct.kernel
def bags(table, ids, offsets, weights, out, d: Const):
    b, column = ct.bid(0), ct.arange(d, dtype=ct.int32)
    acc = ct.zeros((d,), ct.float32)
    for q in range(ct.load(offsets, (b,), (1,)).item(), ct.load(offsets, (b + 1,), (1,)).item()):
        row = ct.gather(table, (ct.load(ids, (q,), (1,)).item(), column)).astype(ct.float32)
        acc = acc + row * ct.load(weights, (q,), (1,)).item()
    ct.scatter(out, (b, column), acc)


@program()
def rows_in_bags():
    table, offsets = draw(50, 100, dtype=bf16), np.array([0, 3, 3, 10, 17], np.int32)
    ids, weights = whole(17, dtype=np.int64, low=0, high=49), draw(17, dtype=np.float32)
    rows = wide(table)[ids] * weights[:, None]
    want = np.stack([rows[lo:hi].sum(0) for lo, hi in zip(offsets, offsets[1:])])
    return Launch(bags, (4,), (table, ids, offsets, weights, np.zeros((4, 100), np.float32), 128), {4: want}, 1e-5)


@ct.kernel
def power_iteration(a, x, out, t: Const):
    """Products in a while loop that ends when their norm stands still."""
    v, m = ct.load(x, (0, 0), (t, 16)), ct.load(a, (0, 0), (t, t))
    i, norm = 0, ct.float32(0.0)
    while i < 20:
        y = ct.mma(m, v.astype(m.dtype), ct.zeros((t, 16), ct.float32))
        s = ct.sum(y * y)
        v = y * ct.rsqrt(s)
        i += 1
        if ct.abs(s - norm) < 1e-4:
            break
        norm = s
    ct.store(out, (0, 0), v)


@program((32,), (64,), (128,))
def iteration_until_still(t):
    a = wide(draw(t, t, scale=.05))
    a, x = ((a + a.T) / 2 + np.eye(t)).astype(np.float16), draw(t, 16, dtype=np.float32)
    v, norm = wide(x), 0.
    for _ in range(20):
        y = wide(a) @ wide(v.astype(np.float16))
        s = (y * y).sum()
        v = y / np.sqrt(s)
        if abs(s - norm) < 1e-4:
            break
        norm = s
    return Launch(power_iteration, (1,), (a, x, np.zeros((t, 16), np.float32), t), {2: v}, 2e-3)


@ct.kernel
def triangular(a, b, out, n: Const, m: Const):
    """Substitution: each step picks a row of what the steps before have made."""
    tile, x, r = ct.load(a, (0, 0), (n, n)), ct.load(b, (0, 0), (n, m)), ct.arange(n, dtype=ct.int32)
    for q in range(n):
        mine = (r == q)[:, None]
        d = ct.sum(ct.where(mine & (r == q)[None, :], tile, 0.0))
        row = ct.sum(ct.where(mine, x, 0.0), axis=0, keepdims=True) / d
        column = ct.sum(ct.where((r == q)[None, :], tile, 0.0), axis=1, keepdims=True)
        x = ct.where(mine, row, ct.where((r > q)[:, None], x - column * row, x))
    ct.store(out, (0, 0), x)


@program()
def iteration_over_rows_of_a_tile():
    a, b = np.tril(draw(16, 16, dtype=np.float32)) + 4 * np.eye(16, dtype=np.float32), draw(16, 32, dtype=np.float32)
    return Launch(triangular, (1,), (a, b, np.zeros_like(b), 16, 32), {2: np.linalg.solve(wide(a), wide(b))}, 1e-4)


@ct.kernel
def tickets(x, y, counter, t: Const):
    """Blocks draw numbers for the tile that they do next."""
    n = ct.cdiv(x.shape[0], t)
    i = ct.atomic_add(counter, 0, 1)
    while i < n:
        tile = ct.load(x, (i,), (t,), padding_mode=ZERO)
        ct.store(y, (i,), tile * tile + 1.0)
        i = ct.atomic_add(counter, 0, 1)


@program()
def blocks_that_draw_tickets():
    x = whole(1000, dtype=np.float32)
    return Launch(tickets, (3,), (x, np.zeros_like(x), np.zeros(1, np.int32), 128), {1: x * x + 1, 2: 8 + 3})


@ct.kernel
def locked(x, out, lock, t: Const):
    tile = ct.load(x, (ct.bid(0), 0), (1, t))
    while ct.atomic_cas(lock, 0, 0, 1, memory_order=ct.MemoryOrder.ACQUIRE) != 0:
        pass
    ct.store(out, (0, 0), ct.load(out, (0, 0), (1, t)) + tile)
    ct.atomic_xchg(lock, 0, 0, memory_order=ct.MemoryOrder.RELEASE)


@program()
def blocks_behind_a_lock():
    x = np.arange(6 * 64, dtype=np.float32).reshape(6, 64)
    return Launch(locked, (6,), (x, np.zeros((1, 64), np.float32), np.zeros(1, np.int32), 64), {1: x.sum(0, keepdims=True)})


@ct.kernel
def columns_by_steps(x, y, sums, dots, least, first: int, last: int, step: int, tm: Const, tn: Const):
    """Each block goes down some columns by every `step`th small tile of two arrays; the order of the sums can be seen."""
    j = ct.bid(0)
    total, both = ct.zeros((tm, tn), ct.float32), ct.zeros((tm, tn), ct.float32)
    low = ct.full((tm, tn), 1000, ct.int32)
    for k in range(first, last, step):
        a, b = ct.load(x, (k, j), (tm, tn)).astype(ct.float32), ct.load(y, (k, j), (tm, tn)).astype(ct.float32)
        total = total * .5 + a
        both = both + a * b
        low = ct.minimum(low, b.astype(ct.int32) + k)
    ct.store(sums, (0, j), total)
    ct.store(dots, (j,), ct.sum(both, axis=0))
    ct.store(least, (j,), ct.min(low, axis=0))


@program((np.float16, 16, 64, 0, 23, 1), (np.float32, 8, 64, 1, 22, 2), (np.int8, 16, 128, 3, 4, 1), (bf16, 16, 128, 2, 2, 1),
         (np.float16, 32, 64, 0, 21, 5), quick=True)
def columns_by_steps_of_small_tiles(dtype, tm, tn, first, last, step):
    n = 23
    x, y = (whole(n * tm, 2 * tn, dtype=dtype, low=-4, high=4, seed=s) for s in range(2))
    a, b = (wide(v).reshape(n, tm, 2 * tn) for v in (x, y))
    total, both, low = np.zeros((tm, 2 * tn)), np.zeros((tm, 2 * tn)), np.full((tm, 2 * tn), 1000)
    for k in range(first, last, step):
        total, both, low = total * .5 + a[k], both + a[k] * b[k], np.minimum(low, b[k].astype(np.int32) + k)
    return Launch(columns_by_steps, (2,), (x, y, np.ones((tm, 2 * tn), np.float32), np.ones(2 * tn, np.float32),
                                           np.ones(2 * tn, np.int32), first, last, step, tm, tn),
                  {2: total, 3: both.sum(0), 4: low.min(0)}, 1e-6)


@ct.kernel
def groups_normalized(x, gain, out, tc: Const, tn: Const, n: Const):
    """Some channels' elements, twice: for their moments, and to be normalized."""
    i = ct.bid(0)
    total, squares = ct.zeros((tc, tn), ct.float32), ct.zeros((tc, tn), ct.float32)
    for k in range(ct.cdiv(n, tn)):
        tile = ct.load(x, (i, k), (tc, tn), padding_mode=ZERO).astype(ct.float32)
        total, squares = total + tile, squares + tile * tile
    mean = ct.sum(total) / (tc * n)
    factor = ct.rsqrt(ct.sum(squares) / (tc * n) - mean * mean + 1e-5)
    for k in range(ct.cdiv(n, tn)):
        tile = ct.load(x, (i, k), (tc, tn), padding_mode=ZERO).astype(ct.float32)
        ct.store(out, (i, k), ((tile - mean) * factor * ct.load(gain, (i, 0), (tc, 1))).astype(out.dtype))


@program((np.float32, 16, 128, 1000), (np.float32, 4, 512, 4096), (np.float16, 8, 256, 2000), quick=True)
def groups_normalized_that_are_read_once(dtype, tc, tn, n):
    x, gain = draw(2 * tc, n, dtype=dtype), draw(2 * tc, 1, dtype=np.float32)
    groups = wide(x).reshape(2, tc * n)
    normal = (groups - groups.mean(1, keepdims=True)) / np.sqrt(groups.var(1, keepdims=True) + 1e-5)
    return Launch(groups_normalized, (2,), (x, gain, np.ones_like(x), tc, tn, n),
                  {2: normal.reshape(2 * tc, n) * wide(gain)}, 2e-3 if dtype is np.float16 else 1e-4)
