"""Products whose operands are gathered: tokens of experts, rows of a vocabulary, tokens of pages, both sides of a product, ends of
ragged rows under masks, rows that begin anywhere."""
import cuda.tile as ct
import numpy as np

from tests.programs.programs import Launch, bf16, blocks, draw, e4m3, program, whole, wide

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.function
def product_of_tokens(x, at, w, e, j, tm, tn, tk):
    """Rows of `x` that a list names by columns of expert `e`."""
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(x.shape[1], tk)):
        a = ct.gather(x, (at[:, None], (k * tk + ct.arange(tk, dtype=ct.int32))[None, :]))
        b = ct.load(w, (e, k, j), (1, tk, tn), padding_mode=ZERO).reshape((tk, tn))
        acc = ct.mma(a, b, acc)
    return acc


@ct.kernel
def of_experts(x, token, expert, w, out, tm: Const, tn: Const, tk: Const):
    """Tiles of tokens sorted by expert, as a list says; places that no token fills are -1, and their rows zero."""
    i, j = ct.bid(0), ct.bid(1)
    at = ct.gather(token, i * tm + ct.arange(tm, dtype=ct.int32), padding_value=-1)
    acc = product_of_tokens(x, at, w, ct.load(expert, (i,), ()), j, tm, tn, tk)
    ct.store(out, (i, j), acc.astype(out.dtype))


def experts_of(tiles, tm, tokens):
    token = np.random.default_rng(tm).integers(0, tokens, tiles * tm).astype(np.int32)
    token[::11] = -1
    return token


@program((np.float16, 64, 64, 32, 96, 104, 72), (bf16, 128, 128, 64, 256, 512, 128), (np.float16, 128, 64, 64, 300, 250, 64),
         (np.float32, 64, 64, 32, 128, 128, 64), quick=True)
def experts_gathered(dtype, tm, tn, tk, tokens, k, n):
    tiles, experts = blocks(tokens, tm), 3
    token = experts_of(tiles, tm, tokens)
    x, w = (whole(*shape, dtype=dtype, low=-2, high=2) for shape in ((tokens, k), (experts, k, n)))
    expert = (np.arange(tiles) % experts).astype(np.int32)
    rows = np.where(token[:, None] >= 0, wide(x)[token], 0).reshape(tiles, tm, k)
    want = np.stack([rows[i] @ wide(w)[expert[i]] for i in range(tiles)]).reshape(tiles * tm, n)
    out = np.zeros(want.shape, np.float32)
    return Launch(of_experts, (tiles, blocks(n, tn)), (x, token, expert, w, out, tm, tn, tk), {4: want})


@ct.kernel
def back_from_experts(x, token, expert, weight, w, out, tm: Const, tn: Const, tk: Const):
    """The same, each row by a factor of its own, and scattered to where the list says: rows of nobody go nowhere."""
    i, j = ct.bid(0), ct.bid(1)
    at = ct.gather(token, i * tm + ct.arange(tm, dtype=ct.int32), padding_value=-1)
    acc = product_of_tokens(x, at, w, ct.load(expert, (i,), ()), j, tm, tn, tk)
    factor = ct.gather(weight, at).astype(ct.float32)[:, None]
    ct.scatter(out, (at[:, None], (j * tn + ct.arange(tn, dtype=ct.int32))[None, :]), (acc * factor).astype(out.dtype))


@program((np.float16, 128, 128, 64, 256, 200, 256), (bf16, 128, 128, 64, 384, 256, 130), (np.float16, 128, 256, 64, 256, 128, 256),
         (np.float16, 64, 128, 32, 192, 96, 128), quick=True)
def experts_scattered(dtype, tm, tn, tk, tokens, k, n):
    tiles, experts = blocks(tokens, tm), 3
    token = np.random.default_rng(tm).permutation(tokens).astype(np.int32)
    token[::11] = -1
    x, w = (whole(*shape, dtype=dtype, low=-1, high=1) for shape in ((tokens, k), (experts, k, n)))
    weight = np.random.default_rng(n).choice([0.5, 1, 2], tokens).astype(dtype)
    expert = (np.arange(tiles) % experts).astype(np.int32)
    out = np.zeros((tokens, n), dtype)
    want = np.zeros(out.shape)
    for place, t in enumerate(token):
        if t >= 0:
            want[t] = wide(x)[t] @ wide(w)[expert[place // tm]] * wide(weight)[t]
    return Launch(back_from_experts, (tiles, blocks(n, tn)), (x, token, expert, weight, w, out, tm, tn, tk), {5: want})


@ct.kernel
def of_vocabulary(x, table, ids, out, tm: Const, tn: Const, tk: Const):
    """Scores of some rows of a table: the second operand is gathered, and transposed."""
    i, j = ct.bid(0), ct.bid(1)
    at = ct.gather(ids, j * tn + ct.arange(tn, dtype=ct.int32), padding_value=-1)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(x.shape[1], tk)):
        b = ct.gather(table, (at[:, None], (k * tk + ct.arange(tk, dtype=ct.int32))[None, :]))
        acc = ct.mma(ct.load(x, (i, k), (tm, tk), padding_mode=ZERO), b.transpose(), acc)
    ct.store(out, (i, j), acc.astype(out.dtype))


@program((np.float16, 64, 64, 32, 80, 104, 70), (bf16, 128, 128, 64, 256, 512, 256),
         (np.float16, 128, 128, 64, 256, 512, 128))
def vocabulary_gathered(dtype, tm, tn, tk, m, k, n):
    x, table = (whole(*shape, dtype=dtype, low=-2, high=2) for shape in ((m, k), (500, k)))
    ids = np.random.default_rng(n).integers(0, 500, n).astype(np.int32)
    want = wide(x) @ wide(table)[ids].T
    out = np.zeros((m, n), np.float32)
    return Launch(of_vocabulary, (blocks(m, tm), blocks(n, tn)), (x, table, ids, out, tm, tn, tk), {3: want})


@program((e4m3, 128, 128, 128, 256, 512, 128), (e4m3, 64, 64, 64, 128, 192, 64), since=90)
def experts_of_8_bits(dtype, tm, tn, tk, tokens, k, n):
    return experts_gathered(dtype, tm, tn, tk, tokens, k, n)


@program((e4m3, 128, 128, 128, 128, 256, 128), since=90)
def vocabulary_of_8_bits(dtype, tm, tn, tk, m, k, n):
    return vocabulary_gathered(dtype, tm, tn, tk, m, k, n)


@ct.kernel
def of_both(x, y, rows, columns, out, tm: Const, tn: Const, tk: Const):
    """Both operands are gathered by rows: blocks of a similarity matrix."""
    i, j = ct.bid(0), ct.bid(1)
    a = ct.gather(rows, i * tm + ct.arange(tm, dtype=ct.int32))
    b = ct.gather(columns, j * tn + ct.arange(tn, dtype=ct.int32))
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(x.shape[1], tk)):
        at = (k * tk + ct.arange(tk, dtype=ct.int32))[None, :]
        acc = ct.mma(ct.gather(x, (a[:, None], at)), ct.gather(y, (b[:, None], at)).transpose(), acc)
    ct.store(out, (i, j), acc.astype(out.dtype))


@program((np.float16, 64, 64, 32, 70, 96), (np.float32, 64, 64, 32, 64, 128), (bf16, 128, 128, 64, 256, 512))
def both_gathered(dtype, tm, tn, tk, m, k):
    x, y = (whole(300, k, dtype=dtype, low=-2, high=2, seed=s) for s in range(2))
    rows, columns = (np.random.default_rng(s).integers(0, 300, m).astype(np.int32) for s in range(2))
    want = wide(x)[rows] @ wide(y)[columns].T
    out = np.zeros((m, m), np.float32)
    return Launch(of_both, (blocks(m, tm), blocks(m, tn)), (x, y, rows, columns, out, tm, tn, tk), {4: want})


@ct.kernel
def along_tokens(x, g, token, offsets, out, tm: Const, tn: Const, tk: Const):
    """The gradient of experts' weights: each sums over its own tokens, gathered on both sides, the last tile under a mask."""
    e, i, j = ct.bid(0), ct.bid(1), ct.bid(2)
    low, high = ct.load(offsets, (e,), ()), ct.load(offsets, (e + 1,), ())
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(high - low, tk)):
        place = low + k * tk + ct.arange(tk, dtype=ct.int32)
        there = (place < high)[:, None]
        t = ct.gather(token, place)[:, None]
        a = ct.gather(x, (t, (i * tm + ct.arange(tm, dtype=ct.int32))[None, :]), mask=there)
        b = ct.gather(g, (t, (j * tn + ct.arange(tn, dtype=ct.int32))[None, :]), mask=there)
        acc = ct.mma(a.transpose(), b, acc)
    ct.store(out, (e, i, j), acc.reshape((1, tm, tn)).astype(out.dtype))


@program((np.float16, 64, 64, 32, 100, 64, 72), (bf16, 128, 128, 64, 512, 256, 128))
def tokens_gathered_along_k(dtype, tm, tn, tk, tokens, m, n):
    offsets = np.array([0, tokens // 3 + 1, tokens // 3 + 1, tokens], np.int32)
    x, g = (whole(tokens, c, dtype=dtype, low=-2, high=2, seed=c) for c in (m, n))
    token = np.random.default_rng(m).permutation(tokens).astype(np.int32)
    parts = [token[low:high] for low, high in zip(offsets[:-1], offsets[1:])]
    want = np.stack([wide(x)[p].T @ wide(g)[p] for p in parts])
    out = np.zeros((3, m, n), np.float32)
    return Launch(along_tokens, (3, blocks(m, tm), blocks(n, tn)), (x, g, token, offsets, out, tm, tn, tk), {4: want})


@program((np.float16, 128, 128, 64, 128, 250, 128), (np.float32, 64, 64, 32, 64, 131, 64), (bf16, 128, 128, 64, 256, 509, 128))
def experts_of_unaligned_rows(dtype, tm, tn, tk, tokens, k, n):
    return experts_gathered(dtype, tm, tn, tk, tokens, k, n)


@ct.kernel
def of_pages(q, keys, values, place, lengths, out, tm: Const, tn: Const, d: Const, scale: float):
    """Queries of a sequence; keys and values lie where a list says for each token."""
    b, h = ct.bid(0), ct.bid(1)
    n = ct.load(lengths, (b,), ())
    x = ct.load(q, (b, h, 0, 0), (1, 1, tm, d)).reshape((tm, d))
    column = ct.arange(d, dtype=ct.int32)[None, :]
    top, total = ct.full((tm, 1), -1e30, ct.float32), ct.zeros((tm, 1), ct.float32)
    acc = ct.zeros((tm, d), ct.float32)
    for j in range(ct.cdiv(n, tn)):
        at = j * tn + ct.arange(tn, dtype=ct.int32)
        where = ct.gather(place, (b, at), mask=at < n, padding_value=-1)[:, None]
        k = ct.gather(keys, (where, h, column))
        s = ct.mma(x, k.transpose(), ct.zeros((tm, tn), ct.float32)) * scale
        s = ct.where((at < n)[None, :], s, -1e30)
        new = ct.maximum(top, ct.max(s, axis=1, keepdims=True))
        p, old = ct.exp(s - new), ct.exp(top - new)
        total, top = total * old + ct.sum(p, axis=1, keepdims=True), new
        acc = ct.mma(p.astype(x.dtype), ct.gather(values, (where, h, column)), acc * old)
    ct.store(out, (b, h, 0, 0), (acc / total).reshape((1, 1, tm, d)))


@program((np.float16, 64, 32, 64, 90), (np.float16, 16, 64, 128, 300), (bf16, 128, 64, 128, 500))
def attention_of_gathered_tokens(dtype, tm, tn, d, longest):
    sequences, heads, kept = 2, 2, 2 * longest + 7
    lengths = np.array([longest, longest // 2], np.int32)
    q = draw(sequences, heads, tm, d, dtype=dtype)
    keys, values = (draw(kept, heads, d, dtype=dtype, seed=s) for s in (1, 2))
    place = np.random.default_rng(0).permutation(kept)[:sequences * longest].reshape(sequences, longest).astype(np.int32)
    want = np.zeros(q.shape)
    for b, h in np.ndindex(sequences, heads):
        mine = place[b, :lengths[b]]
        s = wide(q)[b, h] @ wide(keys)[mine, h].T * d ** -.5
        p = np.exp(s - s.max(-1, keepdims=True))
        want[b, h] = p / p.sum(-1, keepdims=True) @ wide(values)[mine, h]
    out = np.zeros(q.shape, np.float32)
    return Launch(of_pages, (sequences, heads), (q, keys, values, place, lengths, out, tm, tn, d, d ** -.5), {5: want},
                  3e-2 if dtype is bf16 else 5e-3)


@ct.kernel
def of_taps(x, w, out, tt: Const, tn: Const, tc: Const, taps: Const):
    """A convolution along one dimension: rows at and beside a place, with nothing behind either end."""
    i, j = ct.bid(0), ct.bid(1)
    rows = i * tt + ct.arange(tt, dtype=ct.int32)
    acc = ct.zeros((tt, tn), ct.float32)
    for tap in range(taps):
        for c in range(ct.cdiv(x.shape[1], tc)):
            a = ct.gather(x, ((rows + tap - taps // 2)[:, None], (c * tc + ct.arange(tc, dtype=ct.int32))[None, :]))
            acc = ct.mma(a, ct.load(w, (tap, c, j), (1, tc, tn), padding_mode=ct.PaddingMode.ZERO).reshape((tc, tn)), acc)
    ct.store(out, (i, j), acc)


@program((np.float16, 128, 128, 32, 200, 96, 128, 3), (bf16, 128, 128, 64, 256, 128, 256, 5),
         (np.float16, 64, 128, 64, 130, 72, 136, 3))
def taps_gathered(dtype, tt, tn, tc, t, c, n, taps):
    x, w = whole(t, c, dtype=dtype, low=-2, high=2), whole(taps, c, n, dtype=dtype, low=-2, high=2, seed=1)
    padded = np.pad(wide(x), ((taps // 2, taps // 2), (0, 0)))
    want = sum(padded[k:k + t] @ wide(w)[k] for k in range(taps))
    return Launch(of_taps, (blocks(t, tt), blocks(n, tn)), (x, w, np.zeros((t, n), np.float32), tt, tn, tc, taps), {2: want})


@ct.kernel
def of_shifts(x, at, out, back, t: Const):
    """Elements at an index and shifts of it, and sums there: indices that wrap around, from either end, are outside, or inside."""
    places = ct.load(at, (ct.bid(0),), (t,))
    for d in ct.static_iter(range(7)):
        ct.store(out, (d, ct.bid(0)), ct.gather(x, places + (d - 3), padding_value=-1).reshape((1, t)))
    for d in ct.static_iter(range(3)):
        ct.atomic_add(back, places + (d * 5 - 7), d + 1)


@ct.kernel
def of_shifted_rows(x, at, out, t: Const, n: Const):
    """The same of rows and columns, in a loop: columns begin where a number says, too."""
    rows = ct.load(at, (ct.bid(0),), (t,))[:, None]
    acc = ct.zeros((t, n), x.dtype)
    for dy in range(-1, 2):
        for dx in ct.static_iter(range(-2, 3)):
            acc = acc + ct.gather(x, (rows + dy, ct.arange(n, dtype=ct.int32)[None, :] + dx)) * (dx + 4)
    ct.store(out, (ct.bid(0), 0), acc)


def places_at_both_ends(count, n):
    """Indices of 32 bits: about zero, about the array's end, about the least and the greatest, and anywhere."""
    rng = np.random.default_rng(count + n)
    ends = np.concatenate([np.arange(-9, 10) + middle for middle in (0, n, -2**31, 2**31 - 1, 2**31 - n, -2**31 + n)])
    some = np.concatenate([ends, rng.integers(-2**31, 2**31, count // 4), rng.permutation(n)[:count]])
    return rng.permutation(np.resize(some, count)).astype(np.int64).astype(np.uint32).view(np.int32)


def picked(x, at):
    """Elements at indices of 32 bits, zero where there is none."""
    at = wrapped(at)
    inside = (at >= 0) & (at < len(x))
    return np.where(inside.reshape(-1, *[1] * (x.ndim - 1)), x[np.where(inside, at, 0)], 0), inside


def wrapped(at):
    return at.astype(np.int64).astype(np.uint32).view(np.int32)


@program((128, 512, 100), (256, 1024, 1000), (32, 96, 17), quick=True)
def shifts_gathered(t, count, n):
    x, at = whole(n, low=1, high=100), places_at_both_ends(count, n)
    out, back, wide_at = np.zeros((7, count), np.int32), np.full(n, -5, np.int32), at.astype(np.int64)
    want = np.stack([np.where((found := picked(x, wide_at + d - 3))[1], found[0], -1) for d in range(7)])
    after = back.copy()
    for d in range(3):
        to = wrapped(wide_at + d * 5 - 7)
        inside = (to >= 0) & (to < n)
        np.add.at(after, to[inside], d + 1)
    return Launch(of_shifts, (count // t,), (x, at, out, back, t), {2: want, 3: after})


@program((8, 64, 48, 40, np.float32), (16, 32, 64, 33, np.int32), (1, 128, 6, 128, np.int32), quick=True)
def shifted_rows_gathered(t, n, count, width, dtype):
    x, at = whole(50, width, dtype=dtype), places_at_both_ends(count, 50)
    padded = np.zeros((50, n + 4), dtype)
    padded[:, 2:2 + width] = x[:, :n + 2]
    want = np.zeros((count, n), dtype)
    for dy in range(-1, 2):
        for dx in range(-2, 3):
            want += picked(padded[:, 2 + dx:2 + dx + n], at.astype(np.int64) + dy)[0].astype(dtype) * dtype(dx + 4)
    return Launch(of_shifted_rows, (count // t,), (x, at, np.zeros((count, n), dtype), t, n), {2: want})


@ct.kernel
def by_doubles(index, a, out, t: Const):
    """Indices, and twice as much, which wraps into the array: where one isn't in it the other one may be."""
    at = ct.load(index, (0,), (t,))
    ct.store(out, (0,), ct.gather(a, at, padding_value=3) + ct.gather(a, at * 2, padding_value=5))


@program((np.int8, 64), (np.int16, 256), (np.int32, 256), quick=True)
def gathers_at_indices_that_wrap(dtype, t):
    least = np.iinfo(dtype).min
    index = np.concatenate([np.arange(t // 2) + least, np.arange(t // 2) - t // 4]).astype(dtype)
    a = whole(100, dtype=np.int32)

    def at(places, padding):
        return np.where((places >= 0) & (places < len(a)), a[np.clip(places, 0, len(a) - 1)], padding)
    return Launch(by_doubles, (1,), (index, a, np.zeros(t, np.int32), t), {2: at(index, 3) + at(index * dtype(2), 5)})


@ct.kernel
def by_sums(index, step, a, out):
    """The same of single indices, and of sums that aren't constants apart."""
    i, by = ct.load(index, (ct.bid(0),), ()), ct.load(step, (ct.bid(0),), ())
    for n, at in ct.static_iter([(0, i), (1, i * 2), (2, i + by), (3, i * 4), (4, i + 1)]):
        ct.store(out, (ct.bid(0), n), ct.gather(a, at, padding_value=n - 9).reshape((1, 1)))


@program((np.int8,), (np.int16,), (np.int32,), quick=True)
def gathers_at_one_index_that_wraps(dtype):
    bits = np.iinfo(dtype).bits
    index = np.array([7 - 2**(bits - 1), 2**(bits - 2) + 3, 9 - 2**(bits - 2), 5, -1], dtype)
    step = np.array([1 - 2**(bits - 1), 2**(bits - 2), 2**(bits - 2) - 3, 9, 1], dtype)
    a, out = whole(100, dtype=np.int32), np.zeros((5, 5), np.int32)
    with np.errstate(over="ignore"):
        places = np.stack([index, index * dtype(2), index + step, index * dtype(4), index + dtype(1)], 1)
    want = np.where((places >= 0) & (places < len(a)), a[np.clip(places, 0, len(a) - 1)], np.arange(5) - 9)
    return Launch(by_sums, (5,), (index, step, a, out), {3: want})
