"""Kernels that ask for several CTAs a tile block: products with epilogues that mix rows and columns, attention, reductions and
scans along what is split, atomics, and what can't be split at all."""
import cuda.tile as ct
import numpy as np

from tests.programs.programs import Launch, bf16, draw, e4m3, program, whole, wide

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


def normalized_product(a, b, gain, out, tm: Const, tn: Const, tk: Const):
    """Rows of a product, normalized, scaled by a row and with their greatest element beside them."""
    i = ct.bid(0)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        acc = ct.mma(ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), ct.load(b, (k, 0), (tk, tn), padding_mode=ZERO), acc)
    acc = acc * ct.rsqrt(ct.sum(acc * acc, axis=1, keepdims=True) + 1.0) * ct.load(gain, (0, 0), (1, tn))
    ct.store(out, (i, 0), (acc + ct.max(acc, axis=1, keepdims=True)).astype(out.dtype))


NORMALIZED = {n: ct.kernel(normalized_product, num_ctas=n) for n in (1, 2, 4, 8)}


@program((1, np.float16, 128, 128, 64), (2, np.float16, 128, 128, 64), (4, bf16, 256, 128, 64), (2, bf16, 256, 256, 32),
         (8, np.float16, 256, 64, 64), (2, np.float32, 64, 64, 32), quick=True)
def cluster_product_normalized(ctas, dtype, tm, tn, tk):
    m, k = 2 * tm - 24, 3 * tk + 8
    a, b, gain = draw(m, k, dtype=dtype), draw(k, tn, dtype=dtype, scale=.2), draw(1, tn, dtype=np.float32)
    y = wide(a) @ wide(b)
    y = y / np.sqrt((y * y).sum(1, keepdims=True) + 1) * gain
    return Launch(NORMALIZED[ctas], (2,), (a, b, gain, np.zeros((m, tn), np.float32), tm, tn, tk),
                  {3: y + y.max(1, keepdims=True)}, 5e-3)


def turned_product(a, b, out, tm: Const, tn: Const, tk: Const):
    """An f8 product whose right operand is turned, between a loop and a residual from the output itself."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        acc = ct.mma(ct.load(a, (i, k), (tm, tk), padding_mode=ZERO),
                     ct.load(b, (j, k), (tn, tk), padding_mode=ZERO).transpose(), acc)
    ct.store(out, (j, i), acc.transpose() + ct.load(out, (j, i), (tn, tm), padding_mode=ZERO))


TURNED = {n: ct.kernel(turned_product, num_ctas=n) for n in (2, 4)}


@program((2, e4m3, 128, 128, 64), (4, e4m3, 256, 256, 128), (2, np.float16, 256, 128, 64), since=90)
def cluster_product_turned(ctas, dtype, tm, tn, tk):
    m, n, k = tm + 16, tn, 3 * tk
    a, b, out = draw(m, k, dtype=dtype), draw(n, k, dtype=dtype), draw(n, m, dtype=np.float32)
    return Launch(TURNED[ctas], (2, 1), (a, b, out, tm, tn, tk), {2: out + (wide(a) @ wide(b).T).T}, 2e-2)


def batched_pair(a, b, c, out, z: Const, t: Const, tk: Const):
    """Two products a step that share an operand, over a batch in the tile."""
    acc = ct.zeros((z, t, t), ct.float32)
    other = ct.zeros((z, t, t), ct.float32)
    for k in range(ct.cdiv(a.shape[2], tk)):
        x = ct.load(a, (ct.bid(0), 0, k), (z, t, tk), padding_mode=ZERO)
        acc = ct.mma(x, ct.load(b, (ct.bid(0), k, 0), (z, tk, t), padding_mode=ZERO), acc)
        other = ct.mma(x, ct.load(c, (ct.bid(0), k, 0), (z, tk, t), padding_mode=ZERO), other)
    ct.store(out, (ct.bid(0), 0, 0), acc * other)


PAIRED = {n: ct.kernel(batched_pair, num_ctas=n) for n in (2, 4)}


@program((2, np.float16, 2, 64, 32), (4, bf16, 4, 64, 32), (2, np.float16, 1, 128, 64))
def cluster_products_in_a_batch(ctas, dtype, z, t, tk):
    a, b, c = draw(2 * z, t, 72, dtype=dtype), draw(2 * z, 72, t, dtype=dtype), draw(2 * z, 72, t, dtype=dtype, seed=1)
    return Launch(PAIRED[ctas], (2,), (a, b, c, np.zeros((2 * z, t, t), np.float32), z, t, tk),
                  {3: (wide(a) @ wide(b)) * (wide(a) @ wide(c))}, 5e-3)


def attention(q, k, v, out, lse, scale: float, tm: Const, tn: Const, d: Const):
    h, i = ct.bid(0), ct.bid(1)
    x = ct.load(q, (h, i, 0), (1, tm, d), padding_mode=ZERO).reshape((tm, d))
    m, s = ct.full((tm, 1), -1e30, ct.float32), ct.zeros((tm, 1), ct.float32)
    acc = ct.zeros((tm, d), ct.float32)
    for j in range(ct.cdiv(k.shape[1], tn)):
        y = ct.load(k, (h, j, 0), (1, tn, d), padding_mode=ZERO).reshape((tn, d))
        w = ct.mma(x, y.transpose(), ct.zeros((tm, tn), ct.float32)) * scale
        w = ct.where(j * tn + ct.arange(tn, dtype=ct.int32)[None, :] < k.shape[1], w, -1e30)
        top = ct.maximum(m, ct.max(w, axis=1, keepdims=True))
        p, r = ct.exp(w - top), ct.exp(m - top)
        s, m = s * r + ct.sum(p, axis=1, keepdims=True), top
        z = ct.load(v, (h, j, 0), (1, tn, d), padding_mode=ZERO).reshape((tn, d))
        acc = ct.mma(p.astype(v.dtype), z, acc * r)
    ct.store(out, (h, i, 0), (acc / s).astype(out.dtype).reshape((1, tm, d)))
    ct.store(lse, (h, i), (m + ct.log(s)).reshape((1, tm)))


ATTENTION = {n: ct.kernel(attention, num_ctas=n) for n in (1, 2, 4)}


@program((1, np.float16, 64, 64, 64), (2, np.float16, 128, 64, 64), (2, bf16, 256, 128, 64), (4, np.float16, 256, 64, 128))
def cluster_attention(ctas, dtype, tm, tn, d):
    n = 2 * tn + 40
    q, k, v = draw(2, tm + 24, d, dtype=dtype), draw(2, n, d, dtype=dtype, seed=1), draw(2, n, d, dtype=dtype, seed=2)
    w = wide(q) @ wide(k).transpose(0, 2, 1) * .125
    p = np.exp(w)
    return Launch(ATTENTION[ctas], (2, 2), (q, k, v, np.zeros_like(q), np.zeros(q.shape[:2], np.float32), .125, tm, tn, d),
                  {3: p @ wide(v) / p.sum(2, keepdims=True), 4: np.log(p.sum(2))}, 2e-2 if dtype is bf16 else 4e-3)


def along_both(x, rows, columns, total, tm: Const, tn: Const):
    """Sums, extremes and places along either axis and both, of tiles that a loop reads."""
    i = ct.bid(0)
    best, place = ct.full((tm,), -1e30, ct.float32), ct.zeros((tm,), ct.int32)
    for j in range(ct.cdiv(x.shape[1], tn)):
        tile = ct.load(x, (i, j), (tm, tn), padding_mode=ZERO).astype(ct.float32)
        top, at = ct.max(tile, axis=1), ct.argmax(tile, axis=1)
        place = ct.where(top > best, at + j * tn, place)
        best = ct.maximum(best, top)
        columns.tiled_view((tn,)).atomic_store_add((j,), ct.sum(tile, axis=0))
        ct.atomic_add(total, 0, ct.sum(tile))
    ct.store(rows, (i,), place)


ALONG = {n: ct.kernel(along_both, num_ctas=n) for n in (2, 4, 16)}


@program((2, np.float32, 64, 64), (4, np.float16, 16, 256), (16, np.float32, 128, 128), (2, bf16, 1, 1024), quick=True)
def cluster_reductions(ctas, dtype, tm, tn):
    x = whole(2 * tm - (tm > 1), 3 * tn - 5, dtype=dtype, low=-100, high=100)
    sums = np.zeros(x.shape[1], np.float32)
    return Launch(ALONG[ctas], (2,), (x, np.zeros(len(x), np.int32), sums, np.zeros(1, np.float32), tm, tn),
                  {1: wide(x).argmax(1), 2: wide(x).sum(0), 3: wide(x).sum()})


def scans_and_histogram(x, scanned, counts, order, t: Const, n: Const):
    tile = ct.load(x, (ct.bid(0), 0), (t, n), padding_mode=ZERO)
    ct.store(scanned, (ct.bid(0), 0), ct.cumsum(tile, axis=1) + ct.cumsum(tile, axis=0, reverse=True))
    old = ct.atomic_add(counts, (tile & 15,), 1)
    ct.atomic_max(order, (tile & 15,), ct.where(old >= 0, tile, 0))


SCANS = {n: ct.kernel(scans_and_histogram, num_ctas=n) for n in (2, 4)}


@program((2, 32, 64), (4, 128, 16), (2, 1, 256))
def cluster_scans_and_atomics(ctas, t, n):
    x = whole(2 * t, n, low=0, high=1000)
    parts = x.reshape(2, t, n)
    want = parts.cumsum(2) + parts[:, ::-1].cumsum(1)[:, ::-1]
    top = np.zeros(16, np.int32)
    np.maximum.at(top, x & 15, x)
    return Launch(SCANS[ctas], (2,), (x, np.zeros_like(x), np.zeros(16, np.int32), np.zeros(16, np.int32), t, n),
                  {1: want.reshape(2 * t, n), 2: np.bincount((x & 15).ravel(), minlength=16), 3: top})


def streamed_rows(x, weight, out, t: Const, n: Const):
    """Rows in a loop over blocks (persistent), each normalized, with a carried moving mean of them."""
    w = ct.load(weight, (0,), (n,), padding_mode=ZERO)[None, :].astype(ct.float32)
    for i in range(ct.bid(0), ct.cdiv(x.shape[0], t), ct.num_blocks(0)):
        tile = ct.load(x, (i, 0), (t, n), padding_mode=ZERO).astype(ct.float32)
        mean = ct.sum(tile, axis=1, keepdims=True) / x.shape[1]
        tile = ct.where((ct.arange(n, dtype=ct.int32) < x.shape[1])[None, :], tile - mean, 0)
        spread = ct.rsqrt(ct.sum(tile * tile, axis=1, keepdims=True) / x.shape[1] + 1e-5)
        ct.store(out, (i, 0), (tile * spread * w).astype(out.dtype))


STREAMED = {n: ct.kernel(streamed_rows, num_ctas=n) for n in (2, 4, 8)}


@program((2, np.float16, 4, 1024), (4, bf16, 1, 4096), (8, np.float32, 16, 512), quick=True)
def cluster_persistent_rows(ctas, dtype, t, n):
    x, w = draw(7 * t - 1, n - 24, dtype=dtype), draw(n - 24, dtype=dtype)
    y = wide(x) - wide(x).mean(1, keepdims=True)
    y = y / np.sqrt((y * y).mean(1, keepdims=True) + 1e-5) * wide(w)
    return Launch(STREAMED[ctas], (3,), (x, w, np.zeros_like(x), t, n), {2: y}, 3e-2 if dtype is bf16 else 4e-3)


def reshuffled(x, out, t: Const, n: Const):
    """What no split survives unharmed: reshapes, turns and joins of halves of a tile."""
    tile = ct.load(x, (ct.bid(0), 0), (t, n), padding_mode=ZERO)
    a, b = ct.extract(tile, (0, 0), (t // 2, n)), ct.extract(tile, (1, 0), (t // 2, n))
    tile = ct.cat((b, a), 1).reshape((n, t)).transpose().reshape((t // 2, 2, n)).permute((1, 0, 2)).reshape((t, n))
    ct.store(out, (ct.bid(0), 0), tile)


SHUFFLED = {n: ct.kernel(reshuffled, num_ctas=n) for n in (2, 4)}


@program((2, np.int32, 64, 64), (4, np.float16, 32, 128), (2, np.int8, 128, 32))
def cluster_reshapes(ctas, dtype, t, n):
    x = whole(2 * t, n, dtype=dtype, low=-100, high=100)
    want = []
    for part in x.reshape(2, t, n):
        y = np.concatenate([part[t // 2:], part[:t // 2]], 1).reshape(n, t).T.reshape(t // 2, 2, n)
        want.append(y.transpose(1, 0, 2).reshape(t, n))
    return Launch(SHUFFLED[ctas], (2,), (x, np.zeros_like(x), t, n), {1: np.concatenate(want)})


def grouped(x, w, offsets, out, tm: Const, tn: Const, tk: Const):
    """Groups of rows, each with its weights, in a loop with loaded bounds."""
    e = ct.bid(0)
    lo, hi = ct.load(offsets, (e,), ()), ct.load(offsets, (e + 1,), ())
    rows, into = x.slice(0, lo, hi), out.slice(0, lo, hi)
    for i in range(ct.cdiv(hi - lo, tm)):
        acc = ct.zeros((tm, tn), ct.float32)
        for k in range(ct.cdiv(x.shape[1], tk)):
            acc = ct.mma(ct.load(rows, (i, k), (tm, tk), padding_mode=ZERO),
                         ct.load(w, (e, k, 0), (1, tk, tn), padding_mode=ZERO).reshape((tk, tn)), acc)
        ct.store(into, (i, 0), acc)


GROUPED = {n: ct.kernel(grouped, num_ctas=n) for n in (2, 4)}


@program((2, np.float16, 128, 128, 64), (4, bf16, 128, 256, 32))
def cluster_grouped_product(ctas, dtype, tm, tn, tk):
    offsets = np.array([0, 150, 150, 470], np.int32)
    x, w = draw(470, 2 * tk + 8, dtype=dtype), draw(3, 2 * tk + 8, tn, dtype=dtype, scale=.3)
    want = np.concatenate([wide(x)[lo:hi] @ wide(w)[e] for e, (lo, hi) in enumerate(zip(offsets, offsets[1:]))])
    return Launch(GROUPED[ctas], (3,), (x, w, offsets, np.zeros((470, tn), np.float32), tm, tn, tk), {3: want}, 5e-3)


def persistent_product(a, b, out, tm: Const, tn: Const, tk: Const):
    n = blocks_along(b.shape[1], tn)
    for t in range(ct.bid(0), blocks_along(a.shape[0], tm) * n, ct.num_blocks(0)):
        acc = ct.zeros((tm, tn), ct.float32)
        for k in range(ct.cdiv(a.shape[1], tk)):
            x = ct.load(a, (t // n, k), (tm, tk), padding_mode=ZERO)
            acc = ct.mma(x, ct.load(b, (k, t % n), (tk, tn), padding_mode=ZERO), acc)
        ct.store(out, (t // n, t % n), acc.astype(out.dtype))


def blocks_along(extent, tile):
    return ct.cdiv(extent, tile)


PERSISTENT = {n: ct.kernel(persistent_product, num_ctas=n) for n in (2, 4)}


@program((2, np.float16, 256, 128, 64), (4, bf16, 256, 256, 64), (2, np.float16, 128, 64, 32), (2, np.float16, 128, 256, 64),
         (4, bf16, 128, 512, 32))
def cluster_persistent_product(ctas, dtype, tm, tn, tk):
    m, n, k = 2 * tm + 8, 2 * tn - 8, 3 * tk
    a, b = draw(m, k, dtype=dtype), draw(k, n, dtype=dtype)
    return Launch(PERSISTENT[ctas], (2,), (a, b, np.zeros((m, n), np.float32), tm, tn, tk), {2: wide(a) @ wide(b)}, 5e-3)


def persistent_batch(a, b, out, z, tm: Const, tn: Const, tk: Const, turn: Const):
    """Each tile of a batch of products, from matrices of three dimensions; B as it lies, turned as a matrix or before it is one."""
    rows, n = ct.cdiv(a.shape[1], tm), ct.cdiv(out.shape[2], tn)
    for t in range(ct.bid(0), rows * n * z, ct.num_blocks(0)):
        q, i, j = t // (rows * n), t // n % rows, t % n
        acc = ct.zeros((tm, tn), ct.float32)
        for k in range(ct.cdiv(a.shape[2], tk)):
            x = ct.load(a, (q, i, k), (1, tm, tk), padding_mode=ZERO).reshape((tm, tk))
            if turn == 0:
                y = ct.load(b, (q, k, j), (1, tk, tn), padding_mode=ZERO).reshape((tk, tn))
            elif turn == 1:
                y = ct.load(b, (q, j, k), (1, tn, tk), padding_mode=ZERO).reshape((tn, tk)).transpose()
            else:
                y = ct.load(b, (j, q, k), (tn, 1, tk), padding_mode=ZERO).permute((1, 2, 0)).reshape((tk, tn))
            acc = ct.mma(x, y, acc)
        ct.store(out, (q, i, j), acc.astype(out.dtype).reshape((1, tm, tn)))


BATCHES = {n: ct.kernel(persistent_batch, num_ctas=n) for n in (1, 2, 4)}


@program((2, np.float16, 256, 128, 64, 0), (2, bf16, 256, 256, 64, 1), (4, np.float16, 512, 128, 64, 2),
         (1, np.float16, 128, 256, 64, 0), since=90)
def cluster_persistent_batch(ctas, dtype, tm, tn, tk, turn):
    m, n, k = tm + 8, 2 * tn - 8, 3 * tk - 8
    a, b = draw(2, m, k, dtype=dtype), draw(2, k, n, dtype=dtype)
    given = np.ascontiguousarray(b.transpose([(0, 1, 2), (0, 2, 1), (2, 0, 1)][turn]))
    return Launch(BATCHES[ctas], (2,), (a, given, np.zeros((2, m, n), dtype), 2, tm, tn, tk, turn),
                  {2: wide(a) @ wide(b)}, 3e-2 if dtype is bf16 else 5e-3)


def product_in_place(a, w, t: Const, n: Const, way: Const):
    """The product goes where its second operand was, which all CTAs read: as tiles, gathered, by the copy engine or not."""
    b = ct.bid(0)
    x, rows = ct.load(a, (b, 0), (t, t)), b * t + ct.arange(t, dtype=ct.int32)
    if way == 0:
        y = ct.load(w, (b, 0), (t, n), allow_tma=False)
    elif way == 1:
        y = ct.gather(w, (rows[:, None], ct.arange(n, dtype=ct.int32)[None, :]))
    else:
        y = ct.load(w, (b, 0), (t, n))
    ct.store(w, (b, 0), ct.mma(x, y, ct.zeros((t, n), ct.float32)).astype(w.dtype))


IN_PLACE = {n: ct.kernel(product_in_place, num_ctas=n) for n in (2, 4)}


@program((2, np.float16, 128, 64, 0), (2, bf16, 128, 64, 1), (4, np.float16, 128, 64, 1), (4, np.float16, 64, 32, 2),
         (2, np.float16, 128, 128, 2), quick=True)
def cluster_product_in_place(ctas, dtype, t, n, way):
    a, w = (whole(2 * t, m, dtype=dtype, low=-1, high=1) for m in (t, n))
    want = np.concatenate([wide(a[i:i + t]) @ wide(w[i:i + t]) for i in (0, t)])
    return Launch(IN_PLACE[ctas], (2,), (a, w, t, n, way), {1: want})


def states_both_ways(q, k, states, out, t: Const, d: Const, p: Const):
    """One loop stores the states that another one loads and multiplies."""
    h, n = ct.bid(0), ct.cdiv(q.shape[1], t)
    s = ct.zeros((d, p), ct.float32)
    for c in range(n):
        ct.store(states, (h, c, 0, 0), s.astype(q.dtype).reshape((1, 1, d, p)))
        y = ct.load(k, (h, c, 0), (1, t, d), padding_mode=ZERO).reshape((t, d))
        s = ct.mma(y.transpose(), ct.load(q, (h, c, 0), (1, t, p), padding_mode=ZERO).reshape((t, p)), s)
    for c in range(n):
        s16 = ct.load(states, (h, c, 0, 0), (1, 1, d, p)).reshape((d, p))
        x = ct.load(k, (h, c, 0), (1, t, d), padding_mode=ZERO).reshape((t, d))
        ct.store(out, (h, c, 0), ct.mma(x, s16, ct.zeros((t, p), ct.float32)).reshape((1, t, p)))


BOTH_WAYS = {n: ct.kernel(states_both_ways, num_ctas=n) for n in (2, 4)}


@program((4, np.float16, 128, 64, 64, 2), (4, bf16, 64, 64, 64, 3), (2, np.float16, 128, 64, 128, 2), quick=True)
def cluster_states_both_ways(ctas, dtype, t, d, p, chunks):
    n = chunks * t - 3
    q, k = (whole(2, n, m, dtype=dtype, low=-1, high=1) * (draw(2, n, m, dtype=np.float32) > 1) for m in (p, d))
    q, k = q.astype(dtype), k.astype(dtype)
    parts = [[(wide(x[h, c * t:(c + 1) * t])) for c in range(chunks)] for x in (k, q) for h in range(2)]
    states, out = np.zeros((2, chunks, d, p)), np.zeros((2, n, p))
    for h in range(2):
        for c, (y, z) in enumerate(zip(parts[h], parts[2 + h])):
            states[h, c + 1:] += y.T @ z
            out[h, c * t:(c + 1) * t] = y @ states[h, c]
    return Launch(BOTH_WAYS[ctas], (2,), (q, k, np.zeros(states.shape, dtype), np.zeros((2, n, p), np.float32), t, d, p),
                  {2: states, 3: out}, 1e-3)


def turned_tile(x, out, order: ct.Constant[tuple[int, ...]], tile: ct.Constant[tuple[int, ...]]):
    n = ct.cdiv(x.shape[1], tile[1])
    at = ct.bid(2) // n, ct.bid(2) % n, ct.bid(1), ct.bid(0)
    ct.store(out, (at[order[0]], at[order[1]], at[order[2]], at[order[3]]), ct.load(x, at, tile, padding_mode=ZERO).permute(order))


TURNED_TILES = {n: ct.kernel(turned_tile, num_ctas=n) for n in (1, 2)}


@program(*((ctas, dtype, order) for order, dtype in (((3, 2, 1, 0), bf16), ((1, 2, 3, 0), np.float32), ((3, 0, 2, 1), np.uint8))
           for ctas in (1, 2)), quick=True)
def cluster_turns_four_dimensions(ctas, dtype, order):
    """Tiles of one element along what is innermost before or behind."""
    shape, tile = (2, 24, 10, 40), (1, 16, 8, 32)
    x = draw(*shape, dtype=dtype) if dtype != np.uint8 else np.arange(np.prod(shape)).astype(np.uint8).reshape(shape)
    grid = tuple(-(-n // t) for n, t in zip(shape, tile))
    return Launch(TURNED_TILES[ctas], (grid[3], grid[2], grid[1] * grid[0]),
                  (x, np.zeros([shape[d] for d in order], dtype), order, tile), {1: x.transpose(order)}, 0)
