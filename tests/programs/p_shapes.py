"""Tiles of three and four dimensions between products: heads turned about, batches folded into rows, extents of one, joins and
parts of what was multiplied, matrices of more rows than a box of the copy engine has; scans of pairs that don't commute, along
every axis, both ways; reductions of three operands."""
import cuda.tile as ct
import numpy as np

from tests.programs.programs import Launch, bf16, program, whole, wide

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def heads(x, wq, wk, wv, out, t: Const, h: Const, d: Const):
    """Queries, keys and values of all heads by three products, turned so that heads come first, multiplied, and turned back."""
    b = ct.bid(0)
    model = h * d
    tile = ct.load(x, (b, 0, 0), (1, t, model)).reshape((t, model))
    zero = ct.zeros((t, model), ct.float32)
    q = ct.mma(tile, ct.load(wq, (0, 0), (model, model)), zero).astype(x.dtype).reshape((t, h, d)).permute((1, 0, 2))
    k = ct.mma(tile, ct.load(wk, (0, 0), (model, model)), zero).astype(x.dtype).reshape((t, h, d)).permute((1, 2, 0))
    v = ct.mma(tile, ct.load(wv, (0, 0), (model, model)), zero).astype(x.dtype).reshape((t, h, d)).permute((1, 0, 2))
    s = ct.mma(q, k, ct.zeros((h, t, t), ct.float32))
    s = ct.where(ct.arange(t, dtype=ct.int32)[None, :, None] >= ct.arange(t, dtype=ct.int32)[None, None, :], s, 0.0)
    s = ct.minimum(ct.maximum(s, -2.0), 2.0)
    y = ct.mma(s.astype(x.dtype), v, ct.zeros((h, t, d), ct.float32))
    ct.store(out, (b, 0, 0), y.permute((1, 0, 2)).reshape((1, t, model)))


@program((np.float16, 32, 2, 32), (bf16, 64, 4, 16), (np.float32, 16, 2, 16), (np.float16, 64, 1, 64), quick=True)
def heads_turned_between_products(dtype, t, h, d):
    x = whole(2, t, h * d, dtype=dtype, low=-1, high=1)
    rng = np.random.default_rng(t)
    ws = [np.zeros((h * d, h * d), dtype) for _ in range(3)]
    for w in ws:
        w[np.arange(h * d), rng.permutation(h * d)] = rng.choice([-1, 1], h * d)
    q, k, v = ((wide(x) @ wide(w)).reshape(2, t, h, d).transpose(0, 2, 1, 3) for w in ws)
    s = np.clip(np.tril(q @ k.transpose(0, 1, 3, 2)), -2, 2)
    want = (s @ v).transpose(0, 2, 1, 3).reshape(2, t, h * d)
    return Launch(heads, (2,), (x, *ws, np.zeros((2, t, h * d), np.float32), t, h, d), {4: want})


@ct.kernel
def folded(x, w, out, a: Const, b: Const, c: Const, n: Const):
    """A tile of four dimensions, turned, folded into rows for a product in a loop, unfolded and turned back."""
    acc = ct.zeros((a * c, n), ct.float32)
    for k in range(x.shape[2] // b):
        tile = ct.load(x, (ct.bid(0), 0, k, 0), (1, a, b, c))
        rows = tile.permute((0, 1, 3, 2)).reshape((a * c, b))
        acc = ct.mma(rows, ct.load(w, (k, 0), (b, n)), acc)
    ct.store(out, (ct.bid(0), 0, 0, 0), acc.reshape((a, c, n)).permute((2, 0, 1)).reshape((1, n, a, c)))


@program((np.float16, 4, 32, 16, 64), (bf16, 1, 64, 64, 32), (np.float16, 64, 16, 1, 64), (np.float32, 2, 16, 8, 16))
def tiles_folded_into_rows(dtype, a, b, c, n):
    x, w = whole(2, a, 3 * b, c, dtype=dtype, low=-3, high=3), whole(3 * b, n, dtype=dtype, low=-3, high=3)
    return Launch(folded, (2,), (x, w, np.zeros((2, n, a, c), np.float32), a, b, c, n),
                  {2: np.einsum("zabc,bn->znac", wide(x), wide(w))})


@ct.kernel
def ones(x, y, z, out, m: Const, n: Const, k: Const):
    """Products of single rows, single columns and single elements of the sum."""
    acc = ct.zeros((m, n), ct.float32)
    for q in range(ct.cdiv(x.shape[1], k)):
        acc = ct.mma(ct.load(x, (0, q), (m, k), padding_mode=ZERO), ct.load(y, (q, 0), (k, n), padding_mode=ZERO), acc)
    row = ct.mma(ct.load(z, (0, 0), (1, m)), acc.astype(x.dtype), ct.zeros((1, n), ct.float32))
    one = ct.mma(row.astype(x.dtype), acc.astype(x.dtype).transpose(), ct.zeros((1, m), ct.float32)) if m == n else row
    ct.store(out, (0, 0), acc + row + ct.sum(one, axis=1, keepdims=True))


@program((np.float16, 1, 64, 32), (np.float16, 64, 1, 16), (bf16, 1, 1, 64), (np.float32, 1, 32, 1), (np.float16, 32, 32, 1),
         (bf16, 2, 4, 8), (np.float32, 4, 2, 2))
def products_with_extents_of_one(dtype, m, n, k):
    x, y, z = whole(m, 3 * k, dtype=dtype, low=-1, high=1), whole(3 * k, n, dtype=dtype, low=-1, high=1), whole(1, m, dtype=dtype,
                                                                                                       low=-1, high=1)
    acc = wide(x) @ wide(y)
    row = wide(z) @ acc
    one = wide(row.astype(dtype)) @ acc.T if m == n else row
    return Launch(ones, (1,), (x, y, z, np.zeros((m, n), np.float32), m, n, k), {3: acc + row + one.sum(1, keepdims=True)}, 1e-3)


def product_of_affine(a, b, c, d):
    """x -> a x + b, then x -> c x + d."""
    return c * a, c * b + d


def affine_scan(axis, reverse):
    @ct.kernel
    def scan(x, y, out, shape: ct.Constant[tuple]):
        a, b = ct.load(x, (0, 0, 0), shape), ct.load(y, (0, 0, 0), shape)
        p, q = ct.scan((a, b), axis, product_of_affine, (1, 0), reverse=reverse)
        ct.store(out, (0, 0, 0), p * 3 + q)
    return scan


AFFINE = {(axis, reverse): affine_scan(axis, reverse) for axis in range(3) for reverse in (False, True)}


@program(*[(axis, reverse, dtype, shape) for axis, dtype, shape in (
    (0, np.int32, (16, 4, 8)), (1, np.int64, (2, 64, 4)), (2, np.int32, (4, 2, 128)), (0, np.uint64, (64, 1, 2)),
    (1, np.int32, (1, 256, 1)), (2, np.int64, (8, 8, 16))) for reverse in (False, True)], quick=True)
def scans_of_affine_maps(axis, reverse, dtype, shape):
    """Maps compose in order: the one that comes first in the direction of the scan is applied first. Whole numbers wrap around."""
    low = 0 if dtype is np.uint64 else -9
    a, b = whole(*shape, dtype=dtype, low=low, high=9), whole(*shape, dtype=dtype, low=low, high=9, seed=1)
    p, q = (np.moveaxis(v, axis, 0) for v in (a, b))
    order = range(len(p) - 1, -1, -1) if reverse else range(len(p))
    out = np.zeros_like(p)
    with np.errstate(over="ignore"):
        m, c = np.ones_like(p[0]), np.zeros_like(q[0])
        for i in order:
            m, c = p[i] * m, p[i] * c + q[i]
            out[i] = m * dtype(3) + c
    return Launch(AFFINE[axis, reverse], (1,), (a, b, np.zeros_like(a), shape), {2: np.moveaxis(out, 0, axis)})


@ct.kernel
def best_of_rows(scores, weights, values, places, sums, t: Const, n: Const):
    """The greatest score, its place and its weight, by one reduction of three operands, carried over tiles; ties: the first."""
    best = ct.full((t, 1), -100, scores.dtype)
    at = ct.zeros((t, 1), ct.int32)
    weight = ct.zeros((t, 1), ct.float32)
    for j in range(ct.cdiv(scores.shape[1], n)):
        s = ct.load(scores, (ct.bid(0), j), (t, n))
        w = ct.load(weights, (ct.bid(0), j), (t, n)).astype(ct.float32)
        number = ct.broadcast_to(j * n + ct.arange(n, dtype=ct.int32)[None, :], (t, n))

        def better(s1, p1, w1, s2, p2, w2):
            first = (s1 > s2) | ((s1 == s2) & (p1 < p2))
            return ct.where(first, s1, s2), ct.where(first, p1, p2), ct.where(first, w1, w2)
        s, number, w = ct.reduce((s, number, w), 1, better, (-100, 1 << 30, 0.0), keepdims=True)
        first = s > best
        best, at, weight = ct.where(first, s, best), ct.where(first, number, at), ct.where(first, w, weight)
    ct.store(values, (ct.bid(0), 0), best)
    ct.store(places, (ct.bid(0), 0), at)
    ct.store(sums, (ct.bid(0), 0), weight)


@program((np.int32, np.float16, 16, 64), (np.int16, bf16, 64, 32), (np.float32, np.float32, 4, 256), (np.int8, np.float16, 1, 128))
def best_with_place_and_weight(dtype, weighed, t, n):
    s, w = whole(2 * t, 3 * n, dtype=dtype, low=-20, high=20), whole(2 * t, 3 * n, dtype=weighed)
    at = s.argmax(1)[:, None]
    out = np.zeros((2 * t, 1), dtype), np.zeros((2 * t, 1), np.int32), np.zeros((2 * t, 1), np.float32)
    return Launch(best_of_rows, (2,), (s, w, *out, t, n),
                  {2: np.take_along_axis(s, at, 1), 3: at, 4: wide(np.take_along_axis(w, at, 1))})


@ct.kernel
def joined(a, b, out, t: Const, tk: Const):
    """Operands joined of two loads, sums cut in quarters that change places, in a loop."""
    acc = ct.zeros((t, t), out.dtype)
    h = t // 2
    for k in range(ct.cdiv(a.shape[1], tk)):
        x = ct.cat((ct.load(a, (0, k), (h, tk)), ct.load(a, (1, k), (h, tk)) * 2), 0)
        y = ct.cat((ct.load(b, (k, 1), (tk, h)), ct.load(b, (k, 0), (tk, h))), 1)
        acc = ct.mma(x, y, acc)
        low = ct.cat((ct.extract(acc, (1, 1), (h, h)), ct.extract(acc, (1, 0), (h, h))), 1)
        high = ct.cat((ct.extract(acc, (0, 1), (h, h)), ct.extract(acc, (0, 0), (h, h))), 1)
        acc = ct.cat((low, high), 0)
    ct.store(out, (0, 0), acc)


@program((np.float16, 64, 32), (bf16, 128, 64), (np.float32, 32, 16), (np.int8, 64, 32))
def quarters_that_change_places(dtype, t, tk):
    a, b = whole(t, 3 * tk, dtype=dtype, low=-3, high=3), whole(3 * tk, t, dtype=dtype, low=-3, high=3)
    acc, h = np.zeros((t, t)), t // 2
    for k in range(3):
        x, y = wide(a)[:, k * tk:(k + 1) * tk], wide(b)[k * tk:(k + 1) * tk]
        acc = acc + np.concatenate([x[:h], 2 * x[h:]]) @ np.concatenate([y[:, h:], y[:, :h]], 1)
        acc = np.roll(acc, (h, h), (0, 1))
    return Launch(joined, (1,), (a, b, np.zeros((t, t), np.int32 if dtype is np.int8 else np.float32), t, tk),
                  {2: acc})


@ct.kernel
def doubled(x, out, z: Const, t: Const, c: Const):
    ct.store(out, (ct.bid(0), 0, 0), ct.load(x, (ct.bid(0), 0, 0), (z, t, c), padding_mode=ZERO) * 2)


@program((np.int64, 4, 512, 2), (np.float32, 2, 1024, 4), (np.float16, 2, 512, 8), (np.float32, 4, 512, 8), quick=True)
def several_matrices_of_more_rows_than_a_box_has(dtype, z, t, c):
    x = whole(2 * z, t - 3, c, dtype=dtype)
    return Launch(doubled, (2,), (x, np.zeros((2 * z, t - 3, c), dtype), z, t, c), {1: 2 * wide(x)})


@ct.kernel
def tall_products(x, y, out, z: Const, t: Const, n: Const, tk: Const):
    acc = ct.zeros((z, t, n), ct.float32)
    for k in range(ct.cdiv(x.shape[2], tk)):
        tile = ct.load(x, (0, 0, k), (z, t, tk), padding_mode=ZERO)
        acc = ct.mma(tile, ct.load(y, (0, k, 0), (z, tk, n), padding_mode=ZERO), acc)
    ct.store(out, (0, 0, 0), acc)


@program((np.float16, 2, 512, 16, 32), (bf16, 2, 512, 16, 64))
def products_of_matrices_of_more_rows_than_a_box_has(dtype, z, t, n, tk):
    x, y = whole(z, t, 3 * tk, dtype=dtype, low=-2, high=2), whole(z, 3 * tk, n, dtype=dtype, low=-2, high=2)
    return Launch(tall_products, (1,), (x, y, np.zeros((z, t, n), np.float32), z, t, n, tk), {2: wide(x) @ wide(y)})
