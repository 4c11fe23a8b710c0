"""Sequences and groups of any length behind each other in one array: slices whose bounds are loaded, loops that begin and end
anywhere, tiles that belong to nobody; paddings of every kind in loops of loads and products."""
import cuda.tile as ct
import numpy as np

from tests.programs.programs import Launch, bf16, blocks, draw, e4m3, e5m2, program, whole, wide

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.function
def multiply_tile(mine, w, to, g, i, j, tm, tn, tk):
    """A tile of a group's rows times its weights."""
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(mine.shape[1], tk)):
        y = ct.load(w, (g, k, j), (1, tk, tn), padding_mode=ZERO).reshape((tk, tn))
        acc = ct.mma(ct.load(mine, (i, k), (tm, tk), padding_mode=ZERO), y, acc)
    ct.store(to, (i, j), acc.astype(to.dtype))


@ct.kernel
def by_slices(x, w, offsets, out, tm: Const, tn: Const, tk: Const):
    """Each group's rows are a slice of its own, times its own weights; blocks go through the tiles of all groups in turn."""
    groups, columns = w.shape[0], ct.cdiv(w.shape[2], tn)
    first = 0
    for g in range(groups):
        low, high = ct.load(offsets, (g,), ()), ct.load(offsets, (g + 1,), ())
        mine, to = x.slice(0, low, high), out.slice(0, low, high)
        tiles = ct.cdiv(high - low, tm) * columns
        for p in range((ct.bid(0) - first) % ct.num_blocks(0), tiles, ct.num_blocks(0)):
            i, j = p // columns, p % columns
            multiply_tile(mine, w, to, g, i, j, tm, tn, tk)
        first += tiles


@program((np.float16, 64, 64, 32), (bf16, 128, 64, 64), (np.float32, 16, 32, 16), (np.float16, 64, 128, 64), quick=True)
def groups_by_slices(dtype, tm, tn, tk):
    offsets = np.array([0, tm + 3, tm + 3, tm + 4, 3 * tm - 1, 3 * tm + 7], np.int32)
    m, k, n = int(offsets[-1]) + 2, 2 * tk + 8, tn + 16
    x, w = whole(m, k, dtype=dtype, low=-2, high=2), whole(5, k, n, dtype=dtype, low=-2, high=2)
    out = np.full((m, n), 7, np.float32)
    want = wide(out)
    for g in range(5):
        want[offsets[g]:offsets[g + 1]] = wide(x)[offsets[g]:offsets[g + 1]] @ wide(w)[g]
    return Launch(by_slices, (3,), (x, w, offsets, out, tm, tn, tk), {3: want})


@ct.kernel
def tiles_by_slices(x, w, offsets, most, out, tm: Const, tn: Const, tk: Const):
    """The same, all tiles of all groups counted as if each were as long as the longest: a slice serves one tile."""
    columns = ct.cdiv(w.shape[2], tn)
    rows = ct.cdiv(ct.load(most, (0,), (1,)).item(), tm)
    for p in range(ct.bid(0), w.shape[0] * rows * columns, ct.num_blocks(0)):
        g, i, j = p // (rows * columns), p // columns % rows, p % columns
        low, high = ct.load(offsets, (g,), (1,)).item(), ct.load(offsets, (g + 1,), (1,)).item()
        if i * tm < high - low:
            mine, to = x.slice(0, low, high), out.slice(0, low, high)
            multiply_tile(mine, w, to, g, i, j, tm, tn, tk)


@program((np.float16, 64, 64, 32), (bf16, 128, 64, 64), (np.float32, 16, 32, 16), (np.float16, 64, 128, 64), (bf16, 256, 128, 64),
         quick=True)
def groups_by_slices_of_a_tile(dtype, tm, tn, tk):
    launch = groups_by_slices(dtype, tm, tn, tk)
    x, w, offsets, out = launch.args[:4]
    most = np.array([max(np.diff(offsets))], np.int32)
    return Launch(tiles_by_slices, (3,), (x, w, offsets, most, out, tm, tn, tk), {4: launch.expected[3]})


@ct.kernel
def scaled_by_slices(x, sx, w, sw, offsets, out, tm: Const, tn: Const, tk: Const):
    """The same of 8 bits, as its users scale it: the product of each step along k begins anew and counts by a factor of its row
    and one of its block of weights. No two steps add up in the tensor cores."""
    groups, columns = w.shape[0], ct.cdiv(w.shape[1], tn)
    first, low, tile = 0, ct.load(offsets, (0,), (1,)).item(), ct.bid(0)
    for g in range(groups):
        high = ct.load(offsets, (g + 1,), (1,)).item()
        mine, factors, to = x.slice(0, low, high), sx.slice(0, low, high), out.slice(0, low, high)
        count = ct.cdiv(high - low, tm) * columns
        while tile >= first and tile < first + count:
            i, j = (tile - first) // columns, (tile - first) % columns
            acc = ct.zeros((tm, tn), ct.float32)
            for k in range(ct.cdiv(x.shape[1], tk)):
                y = ct.load(w, (g, j, k), (1, tn, tk), padding_mode=ZERO).reshape((tn, tk)).transpose()
                step = ct.mma(ct.load(mine, (i, k), (tm, tk), padding_mode=ZERO), y, ct.zeros((tm, tn), ct.float32))
                rows = ct.load(factors, (i, k), (tm, 1), padding_mode=ZERO)
                acc = acc + step * (rows * ct.load(sw, (g, j, k), (1, 1, 1), padding_mode=ZERO).reshape((1, 1)))
            ct.store(to, (i, j), acc.astype(out.dtype))
            tile += ct.num_blocks(0)
        first, low = first + count, high


@program((e4m3, 128, 128, 128, 3), (e5m2, 64, 128, 64, 5), (np.float16, 128, 64, 64, 1), (bf16, 32, 16, 32, 2), quick=True,
         since=90)
def groups_by_slices_scaled(dtype, tm, tn, tk, steps):
    offsets = np.array([0, tm + 3, tm + 3, tm + 16, 3 * tm - 1, 3 * tm + 16], np.int32)
    m, k, n = int(offsets[-1]), steps * tk - 16, tn + 16
    x, w = whole(m, k, dtype=dtype, low=-2, high=2), whole(5, n, k, dtype=dtype, low=-2, high=2)
    sx, sw = (np.exp2(draw(*shape, seed=seed).round() % 3) for seed, shape in enumerate(((m, steps), (5, 2, steps))))
    sx, sw = sx.astype(np.float32), sw.astype(np.float32)
    out = np.full((m, n), 7, np.float32)
    want = wide(out)
    for g in range(5):
        rows = slice(offsets[g], offsets[g + 1])
        want[rows] = sum(
            (wide(x)[rows, at:at + tk] @ wide(w)[g, :, at:at + tk].T) * wide(sx)[rows, at // tk, None] *
            np.repeat(wide(sw)[g, :, at // tk], tn)[None, :n] for at in range(0, k, tk))
    return Launch(scaled_by_slices, (3,), (x, sx, w, sw, offsets, out, tm, tn, tk), {5: want})


@ct.kernel
def along_k(a, b, bounds, out, tm: Const, tn: Const, tk: Const):
    """The gradient of grouped weights: each group sums over its own rows, from wherever they begin; some have none."""
    g, i = ct.bid(0), ct.bid(1)
    low, high = ct.load(bounds, (g, 0), ()), ct.load(bounds, (g, 1), ())
    x, y = a.slice(0, low, high), b.slice(0, low, high)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(high - low, tk)):
        left = ct.load(x, (k, i), (tk, tm), padding_mode=ZERO)
        acc = ct.mma(left.transpose(), ct.load(y, (k, 0), (tk, tn), padding_mode=ZERO), acc)
    ct.store(out, (g, i, 0), acc.reshape((1, tm, tn)))


@program((np.float16, 64, 64, 32), (bf16, 64, 128, 64), (np.float32, 32, 16, 16), (np.float16, 128, 128, 64))
def groups_along_k(dtype, tm, tn, tk):
    bounds = np.array([[0, 2 * tk + 3], [2 * tk + 3, 2 * tk + 3], [5, 5 + tk], [tk - 1, 3 * tk + 5]], np.int32)
    m, rows = 2 * tm, 3 * tk + 5
    a, b = whole(rows, m, dtype=dtype, low=-2, high=2), whole(rows, tn, dtype=dtype, low=-2, high=2)
    want = np.stack([wide(a)[lo:hi].T @ wide(b)[lo:hi] for lo, hi in bounds])
    return Launch(along_k, (4, 2), (a, b, bounds, np.ones((4, m, tn), np.float32), tm, tn, tk), {3: want})


@ct.kernel
def packed(q, k, v, starts, out, scale: float, window: int, tm: Const, tn: Const, d: Const):
    """Attention of packed sequences, causal, within a window: the loop begins where the window does."""
    b, h = ct.bid(0), ct.bid(1)
    low, high = ct.load(starts, (b,), ()), ct.load(starts, (b + 1,), ())
    x, y, z, to = q.slice(1, low, high), k.slice(1, low, high), v.slice(1, low, high), out.slice(1, low, high)
    n = high - low
    for i in range(ct.cdiv(n, tm)):
        rows = ct.load(x, (h, i, 0), (1, tm, d), padding_mode=ZERO).reshape((tm, d))
        m, s = ct.full((tm, 1), -1e30, ct.float32), ct.zeros((tm, 1), ct.float32)
        acc = ct.zeros((tm, d), ct.float32)
        at = i * tm + ct.arange(tm, dtype=ct.int32)[:, None]
        for j in range(max(i * tm - window, 0) // tn, ct.cdiv(min((i + 1) * tm, n), tn)):
            keys = ct.load(y, (h, j, 0), (1, tn, d), padding_mode=ZERO).reshape((tn, d))
            w = ct.mma(rows, keys.transpose(), ct.zeros((tm, tn), ct.float32)) * scale
            other = j * tn + ct.arange(tn, dtype=ct.int32)[None, :]
            w = ct.where((other <= at) & (other >= at - window), w, -1e30)
            top = ct.maximum(m, ct.max(w, axis=1, keepdims=True))
            p, r = ct.where(w > -1e29, ct.exp(w - top), 0.0), ct.exp(m - top)
            s, m = s * r + ct.sum(p, axis=1, keepdims=True), top
            values = ct.load(z, (h, j, 0), (1, tn, d), padding_mode=ZERO).reshape((tn, d))
            acc = ct.mma(p.astype(v.dtype), values, acc * r)
        ct.store(to, (h, i, 0), (acc / s).astype(out.dtype).reshape((1, tm, d)))


@program((np.float16, 64, 32, 64, 40), (bf16, 64, 64, 64, 1000), (np.float16, 128, 64, 128, 100), (np.float32, 16, 16, 32, 7))
def attention_of_packed_sequences(dtype, tm, tn, d, window):
    starts = np.array([0, tm + 9, tm + 9, tm + 10, 3 * tm], np.int32)
    n = int(starts[-1])
    q, k, v = (draw(2, n, d, dtype=dtype, seed=s) for s in range(3))
    want = np.zeros(q.shape)
    for low, high in zip(starts[:-1], starts[1:]):
        if high > low:
            at = np.arange(high - low)
            s = wide(q)[:, low:high] @ wide(k)[:, low:high].transpose(0, 2, 1) * d ** -.5
            s = np.where((at[None, :] <= at[:, None]) & (at[None, :] >= at[:, None] - window), s, -np.inf)
            p = np.exp(s - s.max(-1, keepdims=True))
            want[:, low:high] = p / p.sum(-1, keepdims=True) @ wide(v)[:, low:high]
    return Launch(packed, (4, 2), (q, k, v, starts, np.zeros(q.shape, np.float32), d ** -.5, window, tm, tn, d), {4: want},
                  3e-2 if dtype is bf16 else 5e-3)


def padded_with(mode):
    @ct.kernel
    def kernel(x, w, whole_out, least, product, t: Const, n: Const):
        """Padding is stored, takes part in extremes, and is multiplied once it is cleared."""
        acc = ct.zeros((t, t), ct.float32)
        low = ct.full((t, 1), 1000.0, ct.float32)
        for j in range(ct.cdiv(x.shape[1], n)):
            tile = ct.load(x, (ct.bid(0), j), (t, n), padding_mode=mode)
            ct.store(whole_out, (ct.bid(0), j), tile)
            f = tile.astype(ct.float32)
            clean = ct.where((f > -100.0) & (f < 100.0), f, 0.0)
            low = ct.minimum(low, ct.min(ct.where(ct.isnan(f), -50.0, f), axis=1, keepdims=True))
            acc = ct.mma(clean.astype(x.dtype), ct.load(w, (j, 0), (n, t), padding_mode=ZERO), acc)
        ct.store(least, (ct.bid(0), 0), low)
        ct.store(product, (ct.bid(0), 0), acc)
    return kernel


PADDED = {"zero": (padded_with(ct.PaddingMode.ZERO), 0.0), "negative zero": (padded_with(ct.PaddingMode.NEG_ZERO), -0.0),
          "nan": (padded_with(ct.PaddingMode.NAN), np.nan), "inf": (padded_with(ct.PaddingMode.POS_INF), np.inf),
          "-inf": (padded_with(ct.PaddingMode.NEG_INF), -np.inf)}


@program(*[(mode, dtype, t, n) for mode in PADDED for dtype, t, n in ((np.float16, 64, 64), (bf16, 32, 128), (np.float32, 16, 32))],
         quick=True)
def paddings_in_loops(mode, dtype, t, n):
    kernel, value = PADDED[mode]
    x, w = whole(2 * t - 3, 3 * n - 8, dtype=dtype, low=-3, high=3), whole(3 * n - 8, t, dtype=dtype, low=-3, high=3)
    full = np.full((2 * t, 3 * n), value).astype(dtype)
    full[:2 * t - 3, :3 * n - 8] = x
    f = wide(full)
    least = np.minimum(np.where(np.isnan(f), -50, f).min(1, keepdims=True), 1000)
    clean = np.where(np.abs(f) < 100, f, 0)
    product = clean[:, :3 * n - 8] @ wide(w)
    out = np.ones((2 * t, 3 * n), dtype), np.zeros((2 * t, 1), np.float32), np.zeros((2 * t, t), np.float32)
    return Launch(kernel, (2,), (x, w, *out, t, n), {2: full, 3: least, 4: product})


@program(*[(mode, e5m2, 64, 64) for mode in PADDED], since=90)
def paddings_of_8_bits_in_loops(mode, dtype, t, n):
    return paddings_in_loops(mode, dtype, t, n)


@ct.kernel
def experts(x, w1, w2, order, expert, scale, out, tm: Const, tn: Const, tk: Const):
    """Two layers of the experts that rows were sent to: rows by index, a gate between, results added by atomics with weights."""
    i = ct.bid(0)
    e = ct.load(expert, (i,), ())
    if e < 0:
        return
    rows = ct.load(order, (i,), (tm,))
    hidden = w1.shape[2] // 2
    for j in range(ct.cdiv(hidden, tn)):
        gate = up = ct.zeros((tm, tn), ct.float32)
        for k in range(ct.cdiv(x.shape[1], tk)):
            tile = ct.gather(x, (rows[:, None], (k * tk + ct.arange(tk, dtype=ct.int32))[None, :]), padding_value=0)
            gate = ct.mma(tile, ct.load(w1, (e, k, j), (1, tk, tn)).reshape((tk, tn)), gate)
            up = ct.mma(tile, ct.load(w1, (e, k, j + hidden // tn), (1, tk, tn)).reshape((tk, tn)), up)
        mid = (ct.maximum(ct.minimum(gate, 3.0), 0.0) * ct.minimum(ct.maximum(up, -1.0), 1.0)).astype(x.dtype)
        for c in range(ct.cdiv(w2.shape[2], tk)):
            y = ct.mma(mid, ct.load(w2, (e, j, c), (1, tn, tk)).reshape((tn, tk)), ct.zeros((tm, tk), ct.float32))
            weights = ct.gather(scale, rows, padding_value=0)
            ct.atomic_add(out, (rows[:, None], (c * tk + ct.arange(tk, dtype=ct.int32))[None, :]), y * weights[:, None])


@program((np.float16, 32, 64, 32), (bf16, 64, 64, 64), (np.float32, 16, 16, 16), (np.float16, 128, 64, 64), quick=True)
def experts_of_two_layers(dtype, tm, tn, tk):
    tokens, d, hidden = 2 * tm + 5, 2 * tk, 2 * tn
    rng = np.random.default_rng(tm)
    x, w1 = whole(tokens, d, dtype=dtype, low=-1, high=1), whole(3, d, 2 * hidden, dtype=dtype, low=-1, high=1)
    w2 = whole(3, hidden, d, dtype=dtype, low=-1, high=1)
    sent = np.where(rng.random(tokens) < .5, 2, 0)
    order, expert = [], []
    for e in (0, 2):
        mine = np.flatnonzero(sent == e)
        mine = np.concatenate([mine, np.full(blocks(len(mine), tm) * tm - len(mine), tokens + 7)])
        order.append(mine)
        expert += [e] * (len(mine) // tm)
    order = np.concatenate([*order, np.full(tm, tokens)]).astype(np.int32)
    expert = np.array([*expert, -1], np.int32)
    scale = whole(tokens, dtype=np.float32, low=1, high=3)
    want = np.zeros((tokens, d))
    for r in range(tokens):
        y = wide(x)[r] @ wide(w1)[sent[r]]
        mid = np.clip(y[:hidden], 0, 3) * np.clip(y[hidden:], -1, 1)
        want[r] = mid @ wide(w2)[sent[r]] * scale[r]
    return Launch(experts, (len(expert),), (x, w1, w2, order, expert, scale, np.zeros((tokens, d), np.float32), tm, tn, tk),
                  {6: want})
