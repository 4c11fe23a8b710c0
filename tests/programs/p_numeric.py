"""Numerical kernels of every trade: sampling, sorting and ranking, transforms, decompositions of small tiles, stencils in time,
particles, transport, clustering, sparse rows, random bits, segments."""
import cuda.tile as ct
import numpy as np

from tests.programs.programs import Launch, bf16, bitonic_network, blocks, draw, program, whole, wide

Const = ct.Constant[int]
ZERO, LEAST = ct.PaddingMode.ZERO, ct.PaddingMode.NEG_INF


def exchanged(tile, other, n, gap, size):
    """A step of a bitonic sort of pairs, greatest first and first place first: partners stand in halves of a reshaped tile."""
    shape, half = (n // (2 * gap), 2, gap), (n // (2 * gap), 1, gap)
    a, b = ct.extract(tile.reshape(shape), (0, 0, 0), half), ct.extract(tile.reshape(shape), (0, 1, 0), half)
    p, q = ct.extract(other.reshape(shape), (0, 0, 0), half), ct.extract(other.reshape(shape), (0, 1, 0), half)
    up = ((ct.arange(n // (2 * gap), dtype=ct.int32) * (2 * gap)) & size).reshape((n // (2 * gap), 1, 1)) == 0
    swap = ((a < b) | ((a == b) & (p > q))) == up
    return (ct.cat((ct.where(swap, b, a), ct.where(swap, a, b)), 1).reshape((n,)),
            ct.cat((ct.where(swap, q, p), ct.where(swap, p, q)), 1).reshape((n,)))


@ct.kernel
def sampled(logits, uniform, chosen, kept, temperature: float, top: float, n: Const, steps: ct.Constant[tuple]):
    """The least set of tokens with a share of the weight, and one drawn from it: a sort of pairs, running sums, a choice."""
    r = ct.bid(0)
    tile = ct.load(logits, (r, 0), (1, n), padding_mode=LEAST).reshape((n,)).astype(ct.float32) / temperature
    place = ct.arange(n, dtype=ct.int32)
    for size, gap in ct.static_iter(steps):
        tile, place = exchanged(tile, place, n, gap, size)
    p = ct.exp(tile - ct.max(tile))
    p = p / ct.sum(p)
    before = ct.cumsum(p) - p
    p = ct.where(before < top, p, 0.0)
    count = ct.sum((p > 0).astype(ct.int32))
    mark = ct.load(uniform, (r,), ()) * ct.sum(p)
    at = ct.sum((ct.cumsum(p) < mark).astype(ct.int32))
    ct.store(chosen, (r,), ct.sum(ct.where(ct.arange(n, dtype=ct.int32) == at, place, 0)))
    ct.store(kept, (r,), count)


@program((np.float32, 64, 60), (np.float16, 256, 256), (bf16, 128, 100))
def sampling_of_the_likeliest(dtype, n, m):
    logits, uniform = draw(4, m, dtype=dtype, scale=2), np.array([.1, .5, .9, .37], np.float32)
    tile = wide(logits) / .7
    order = np.argsort(-tile, 1, kind="stable")
    p = np.take_along_axis(tile, order, 1)
    p = np.exp(p - p.max(1, keepdims=True))
    p = p / p.sum(1, keepdims=True)
    p = np.where(p.cumsum(1) - p < .8, p, 0)
    at = (p.cumsum(1) < uniform[:, None] * p.sum(1, keepdims=True)).sum(1)
    return Launch(sampled, (4,), (logits, uniform, np.zeros(4, np.int32), np.zeros(4, np.int32), .7, .8, n, bitonic_network(n)),
                  {2: np.take_along_axis(order, at[:, None], 1)[:, 0], 3: (p > 0).sum(1)})


@ct.kernel
def radix_sorted(keys, values, t: Const, bits: Const):
    """A stable sort by four bits at a time, in place: digits' places by running sums over a table, what is moved by scatters."""
    at = ct.arange(t, dtype=ct.int32)
    for shift in range(0, bits, 4):
        k, v = ct.gather(keys, at), ct.gather(values, at)
        digit = (k.astype(ct.int64) >> shift).astype(ct.int32) & 15
        hit = (digit[:, None] == ct.arange(16, dtype=ct.int32)[None, :]).astype(ct.int32)
        sums = ct.cumsum(hit, axis=0)
        totals = ct.sum(hit, axis=0)
        starts = ct.cumsum(totals) - totals
        place = ct.sum(ct.where(hit == 1, sums - 1 + starts[None, :], 0), axis=1)
        ct.scatter(keys, place, k)
        ct.scatter(values, place, v)


@program((np.uint32, 64, 16), (np.uint64, 128, 40), (np.uint16, 256, 16), quick=True)
def sorting_by_digits(dtype, t, bits):
    keys = whole(t, dtype=dtype, low=0, high=2**bits - 1)
    keys[::5] = keys[1]
    order = np.argsort(keys, kind="stable")
    return Launch(radix_sorted, (1,), (keys, np.arange(t, dtype=np.int32), t, bits), {0: keys[order], 1: order})


@ct.kernel
def beams(scores, logits, best, beam, token, b: Const, n: Const):
    """Beam search: the best of beams times tokens, one after the other, with what they come from."""
    r = ct.bid(0)
    total = ct.load(scores, (r, 0), (1, b)).reshape((1, b, 1)) + ct.load(logits, (r, 0, 0), (1, b, n), padding_mode=LEAST)
    flat = total.reshape((b * n,))
    at = ct.arange(b * n, dtype=ct.int32)
    for q in range(b):
        where = ct.argmax(flat)
        ct.store(best, (r, q), ct.max(flat))
        ct.store(beam, (r, q), where // n)
        ct.store(token, (r, q), where % n)
        flat = ct.where(at == where, float("-inf"), flat)


@program((4, 64, 50), (8, 256, 256), (2, 16, 11))
def beams_searched(b, n, m):
    """Whole numbers: with ties, of which the first counts."""
    scores, logits = whole(3, b, dtype=np.float32), whole(3, b, m, dtype=np.float32)
    total = (scores[..., None] + logits).reshape(3, -1)
    order = np.argsort(-total, 1, kind="stable")[:, :b]
    out = [np.zeros((3, b), d) for d in (np.float32, np.int32, np.int32)]
    return Launch(beams, (3,), (scores, logits, *out, b, n),
                  {2: np.take_along_axis(total, order, 1), 3: order // m, 4: order % m})


@ct.kernel
def transformed(re, im, cos, sin, tre, tim, out_re, out_im, n1: Const, n2: Const):
    """A Fourier transform in two steps: products with two small matrices, factors between, a transpose."""
    r = ct.bid(0)
    a = ct.load(re, (r, 0, 0), (1, n1, n2)).reshape((n1, n2))
    b = ct.load(im, (r, 0, 0), (1, n1, n2)).reshape((n1, n2))
    c, s = ct.load(cos, (0, 0), (n1, n1)), ct.load(sin, (0, 0), (n1, n1))
    zero = ct.zeros((n1, n2), ct.float32)
    x = ct.mma(c, a, zero) - ct.mma(s, b, zero)
    y = ct.mma(c, b, ct.mma(s, a, zero))
    p, q = ct.load(tre, (0, 0), (n1, n2)), ct.load(tim, (0, 0), (n1, n2))
    x, y = x * p - y * q, x * q + y * p
    c2, s2 = ct.load(cos, (1, 0), (n2, n2)), ct.load(sin, (1, 0), (n2, n2))
    x, y = x.astype(re.dtype), y.astype(re.dtype)
    u = ct.mma(x, c2, zero) - ct.mma(y, s2, zero)
    v = ct.mma(x, s2, ct.mma(y, c2, zero))
    ct.store(out_re, (r, 0, 0), u.transpose().reshape((1, n2, n1)))
    ct.store(out_im, (r, 0, 0), v.transpose().reshape((1, n2, n1)))


@program((np.float64, 16), (np.float16, 16), (np.float32, 32), (np.float16, 64))
def fourier_transform(dtype, n):
    re, im = draw(2, n, n, dtype=dtype), draw(2, n, n, dtype=dtype, seed=1)
    i = np.arange(n)
    f = np.exp(-2j * np.pi * np.outer(i, i) / n)
    twiddle = np.exp(-2j * np.pi * np.outer(i, i) / n**2)
    acc = np.float64 if dtype is np.float64 else np.float32
    cos, sin = (np.concatenate([g, g]).astype(dtype) for g in (f.real, f.imag))
    want = np.fft.fft((wide(re) + 1j * wide(im)).reshape(2, n * n)).reshape(2, n, n)
    out = [np.zeros((2, n, n), acc) for _ in range(2)]
    if dtype is np.float64:
        return Launch(transformed_in_double, (2,), (re, im, cos, sin, twiddle.real.copy(), twiddle.imag.copy(), *out, n, n),
                      {6: want.real, 7: want.imag}, 1e-11)
    return Launch(transformed, (2,), (re, im, cos, sin, twiddle.real.astype(acc), twiddle.imag.astype(acc), *out, n, n),
                  {6: want.real, 7: want.imag}, {np.float16: .25 if n == 64 else .08, np.float32: .12}[dtype])


@ct.kernel
def transformed_in_double(re, im, cos, sin, tre, tim, out_re, out_im, n1: Const, n2: Const):
    r = ct.bid(0)
    a, b = ct.load(re, (r, 0, 0), (1, n1, n2)).reshape((n1, n2)), ct.load(im, (r, 0, 0), (1, n1, n2)).reshape((n1, n2))
    c, s = ct.load(cos, (0, 0), (n1, n1)), ct.load(sin, (0, 0), (n1, n1))
    p, q = ct.load(tre, (0, 0), (n1, n2)), ct.load(tim, (0, 0), (n1, n2))
    zero = ct.zeros((n1, n2), ct.float64)
    x, y = ct.mma(c, a, ct.mma(-s, b, zero)), ct.mma(c, b, ct.mma(s, a, zero))
    x, y = x * p - y * q, x * q + y * p
    u, v = ct.mma(x, c, ct.mma(-y, s, zero)), ct.mma(x, s, ct.mma(y, c, zero))
    ct.store(out_re, (r, 0, 0), u.transpose().reshape((1, n2, n1)))
    ct.store(out_im, (r, 0, 0), v.transpose().reshape((1, n2, n1)))


@ct.kernel
def cholesky(a, out, n: Const):
    """A column at a time, in registers."""
    tile, at = ct.load(a, (ct.bid(0), 0, 0), (1, n, n)).reshape((n, n)), ct.arange(n, dtype=ct.int32)
    for k in range(n):
        here = (at == k)[None, :]
        column = ct.sum(ct.where(here, tile, 0.0), axis=1)
        p = ct.rsqrt(ct.sum(ct.where(at == k, column, 0.0)))
        column = ct.where(at >= k, column * p, 0.0)
        rest = tile - column[:, None] * column[None, :]
        tile = ct.where(here, column[:, None], ct.where((at > k)[None, :] & (at > k)[:, None], rest, tile))
    ct.store(out, (ct.bid(0), 0, 0), ct.where(at[:, None] >= at[None, :], tile, 0.0).reshape((1, n, n)))


@program((np.float32, 16), (np.float64, 32), (np.float32, 64))
def decomposition_by_columns(dtype, n):
    a = wide(draw(2, n, n))
    a = (a @ a.transpose(0, 2, 1) / n + 2 * np.eye(n)).astype(dtype)
    return Launch(cholesky, (2,), (a, np.zeros_like(a), n), {1: np.linalg.cholesky(wide(a))},
                  1e-10 if dtype is np.float64 else 2e-4)


@ct.kernel
def gram_schmidt(a, q, r, m: Const, n: Const):
    """Orthogonal columns, and the triangle: reductions along both axes, rows inserted at moving places."""
    tile, at = ct.load(a, (0, 0), (m, n)), ct.arange(n, dtype=ct.int32)
    upper = ct.zeros((n, n), ct.float32)
    for k in range(n):
        column = ct.extract(tile, (0, k), (m, 1))
        column = column * ct.rsqrt(ct.sum(column * column))
        row = ct.sum(column * tile, axis=0, keepdims=True)
        row = ct.where((at >= k)[None, :], row, 0.0)
        upper = ct.insert(upper, (k, 0), row)
        tile = ct.where((at > k)[None, :], tile - column * row, ct.where((at == k)[None, :], column, tile))
    ct.store(q, (0, 0), tile)
    ct.store(r, (0, 0), upper)


@program((16, 8), (64, 16), (128, 4))
def decomposition_by_projections(m, n):
    a = draw(m, n, dtype=np.float32)
    q, r = np.linalg.qr(wide(a))
    signs = np.sign(np.diag(r))
    return Launch(gram_schmidt, (1,), (a, np.zeros((m, n), np.float32), np.zeros((n, n), np.float32), m, n),
                  {1: q * signs, 2: r * signs[:, None]}, 2e-4)


@ct.kernel
def transport(cost, u, v, iterations: int, m: Const, n: Const):
    """Optimal transport: sums along one axis and the other, by turns, until the number of turns is reached or they stand still."""
    c = ct.load(cost, (ct.bid(0), 0, 0), (1, m, n)).reshape((m, n))
    f, g = ct.zeros((m, 1), ct.float32), ct.zeros((1, n), ct.float32)
    for _ in range(iterations):
        x = g - c
        top = ct.max(x, axis=1, keepdims=True)
        f = -(top + ct.log(ct.sum(ct.exp(x - top), axis=1, keepdims=True)))
        x = f - c
        top = ct.max(x, axis=0, keepdims=True)
        new = -(top + ct.log(ct.sum(ct.exp(x - top), axis=0, keepdims=True)))
        change = ct.max(ct.abs(new - g))
        g = new
        if change < 1e-9:
            break
    ct.store(u, (ct.bid(0), 0), f.reshape((1, m)))
    ct.store(v, (ct.bid(0), 0), g.reshape((1, n)))


@program((16, 64, 4), (64, 32, 3), (128, 128, 2))
def sums_along_axes_by_turns(m, n, iterations):
    cost = draw(2, m, n, dtype=np.float32)
    f, g = np.zeros((2, m, 1)), np.zeros((2, 1, n))
    for _ in range(iterations):
        f = -np.log(np.exp(g - wide(cost)).sum(2, keepdims=True))
        g = -np.log(np.exp(f - wide(cost)).sum(1, keepdims=True))
    return Launch(transport, (2,), (cost, np.zeros((2, m), np.float32), np.zeros((2, n), np.float32), iterations, m, n),
                  {1: f[..., 0], 2: g[:, 0]}, 2e-5)


@ct.kernel
def clusters(x, centers, label, sums, counts, t: Const, c: Const, d: Const):
    """The nearest centre of each point by a product, and the centres' sums by a product of a mask with the points."""
    y = ct.load(centers, (0, 0), (c, d), padding_mode=ZERO)
    norm = ct.sum(y.astype(ct.float32) * y.astype(ct.float32), axis=1)
    acc, count = ct.zeros((c, d), ct.float32), ct.zeros((c,), ct.int32)
    for i in range(ct.bid(0), ct.cdiv(x.shape[0], t), ct.num_blocks(0)):
        points = ct.load(x, (i, 0), (t, d), padding_mode=ZERO)
        distance = norm[None, :] - 2.0 * ct.mma(points, y.transpose(), ct.zeros((t, c), ct.float32))
        distance = ct.where(ct.arange(c, dtype=ct.int32)[None, :] < centers.shape[0], distance, float("inf"))
        near = ct.argmin(distance, axis=1)
        ct.store(label, (i,), near)
        there = i * t + ct.arange(t, dtype=ct.int32) < x.shape[0]
        mask = (near[:, None] == ct.arange(c, dtype=ct.int32)[None, :]) & there[:, None]
        acc = ct.mma(mask.astype(x.dtype).transpose(), points, acc)
        count = count + ct.sum(mask.astype(ct.int32), axis=0)
    at = ct.arange(c, dtype=ct.int32)
    ct.atomic_add(sums, (at[:, None], ct.arange(d, dtype=ct.int32)[None, :]), acc)
    ct.atomic_add(counts, at, count)


@program((np.float16, 64, 16, 64, 200), (bf16, 128, 64, 128, 300), (np.float32, 32, 8, 16, 100), (np.float16, 128, 128, 64, 390))
def clustering(dtype, t, c, d, n):
    """Whole numbers: distances are exact, the first of the nearest counts."""
    x, centers = whole(n, d, dtype=dtype, low=-3, high=3), whole(c - 1, d, dtype=dtype, low=-3, high=3, seed=2)
    distance = (wide(centers)**2).sum(1) - 2 * wide(x) @ wide(centers).T
    near = distance.argmin(1)
    sums = np.zeros((c - 1, d))
    np.add.at(sums, near, wide(x))
    out = np.zeros(n, np.int32), np.zeros(sums.shape, np.float32), np.zeros(c - 1, np.int32)
    return Launch(clusters, (2,), (x, centers, *out, t, c, d), {2: near, 3: sums, 4: np.bincount(near, minlength=c - 1)})


@ct.kernel
def sparse_rows(starts, columns, values, x, out, e: Const, d: Const):
    """A row of a sparse matrix times a dense one, `e` elements at a time, the last ones masked."""
    r = ct.bid(0)
    lo, hi = ct.load(starts, (r,), ()), ct.load(starts, (r + 1,), ())
    acc = ct.zeros((d,), ct.float32)
    at = ct.arange(e, dtype=ct.int32)
    for q in range(lo, hi, e):
        there = q + at < hi
        c = ct.gather(columns, q + at, mask=there, padding_value=0)
        v = ct.gather(values, q + at, mask=there, padding_value=0)
        rows = ct.gather(x, (c[:, None], ct.arange(d, dtype=ct.int32)[None, :]), mask=there[:, None], padding_value=0)
        acc = acc + ct.sum(rows.astype(ct.float32) * v[:, None].astype(ct.float32), axis=0)
    ct.store(out, (r, 0), acc.reshape((1, d)))


@program((np.float32, 8, 64), (np.float16, 16, 32), (bf16, 4, 256))
def sparse_rows_times_dense(dtype, e, d):
    lengths = [0, 5, 1, 17, 33, 0]
    starts = np.cumsum([0, *lengths]).astype(np.int32)
    columns = whole(int(starts[-1]), low=0, high=39)
    values, x = draw(len(columns), dtype=dtype), draw(40, d - 3, dtype=dtype)
    want = np.stack([(wide(values)[lo:hi, None] * wide(x)[columns[lo:hi]]).sum(0) for lo, hi in zip(starts, starts[1:])])
    return Launch(sparse_rows, (6,), (starts, columns, values, x, np.zeros((6, d - 3), np.float32), e, d), {4: want}, 1e-4)


def mixed(counter, key, rounds):
    """Philox of two words."""
    low, high = counter, ct.zeros(counter.shape, ct.uint32)
    for _ in ct.static_iter(range(rounds)):
        product = low.astype(ct.uint64) * 0xD256D193
        low, high = (product >> 32).astype(ct.uint32) ^ key ^ high, product.astype(ct.uint32)
        key = key + 0x9E3779B9
    return low, high


@ct.kernel
def dropped(x, out, bits, seed: int, chance: float, t: Const):
    i = ct.bid(0)
    counter = (i * t + ct.arange(t, dtype=ct.int32)).astype(ct.uint32)
    low, high = mixed(counter, ct.full((t,), seed, ct.int32).astype(ct.uint32), 10)
    u = (low >> 8).astype(ct.float32) * (1.0 / 16777216.0)
    tile = ct.load(x, (i,), (t,), padding_mode=ZERO)
    ct.store(out, (i,), ct.where(u >= chance, tile * (1.0 / (1.0 - chance)), 0.0).astype(out.dtype))
    ct.store(bits, (i,), low ^ high)


@program((np.float32, 64), (np.float16, 256), quick=True)
def elements_dropped_at_random(dtype, t):
    n, seed, mask = 3 * t - 5, 12345, 2**32 - 1
    x, low, high, key = draw(n, dtype=dtype), [int(i) for i in range(n)], [0] * n, seed
    for _ in range(10):
        both = [a * 0xD256D193 for a in low]
        low, high = [(p >> 32) ^ key ^ h for p, h in zip(both, high)], [p & mask for p in both]
        key = (key + 0x9E3779B9) & mask
    u = (np.array(low, np.uint32) >> 8).astype(np.float32) / 2**24
    want = np.where(u >= np.float32(.25), wide(x) / .75, 0)
    return Launch(dropped, (3,), (x, np.zeros_like(x), np.zeros(n, np.uint32), seed, .25, t),
                  {1: want, 2: np.array(low, np.uint32) ^ np.array(high, np.uint32)}, 1e-3)


def joined(v1, f1, v2, f2):
    return ct.where(f2 != 0, v2, v1 + v2), f1 | f2


@ct.kernel
def segments(ids, values, out, t: Const, d: Const):
    """Sums of rows with one id, which stand together: a scan of pairs that begins anew at flags; ends are scattered."""
    at = ct.arange(t, dtype=ct.int32)
    mine = ct.load(ids, (0,), (t,))
    before = ct.gather(ids, at - 1, padding_value=-1)
    after = ct.gather(ids, at + 1, padding_value=-1)
    tile = ct.load(values, (0, 0), (t, d))
    flags = ct.broadcast_to((mine != before).astype(ct.int32)[:, None], (t, d))
    sums, _ = ct.scan((tile, flags), 0, joined, (0.0, 0))
    row = ct.where(mine != after, mine, -1)
    ct.scatter(out, (row[:, None], ct.arange(d, dtype=ct.int32)[None, :]), sums)


@program((32, 8), (128, 4), (512, 1), (64, 64))
def segments_summed(t, d):
    ids = np.sort(whole(t, low=0, high=t // 4))
    values, out = whole(t, d, dtype=np.float32), np.full((t // 4 + 1, d), -9, np.float32)
    want = out.copy()
    for i in set(ids):
        want[i] = values[ids == i].sum(0)
    return Launch(segments, (1,), (ids, values, out, t, d), {2: want})


@ct.kernel
def bodies(position, mass, velocity, out, dt: float, steps: int, t: Const):
    """Particles that all pull one another: a step of time reads what the one before has stored; pairs in three dimensions."""
    for s in range(steps):
        for i in range(ct.cdiv(position.shape[1], t)):
            x = ct.load(position, (s, i, 0), (1, t, 4), padding_mode=ZERO).reshape((t, 1, 4))
            pull = ct.zeros((t, 4), ct.float32)
            for j in range(ct.cdiv(position.shape[1], t)):
                y = ct.load(position, (s, j, 0), (1, t, 4), padding_mode=ZERO).reshape((1, t, 4))
                m = ct.load(mass, (j,), (t,), padding_mode=ZERO)
                off = y - x
                r = ct.sum(off * off, axis=2) + 0.1
                pull = pull + ct.sum((m[None, :] / (r * ct.sqrt(r))).reshape((t, t, 1)) * off, axis=1)
            v = ct.load(velocity, (i, 0), (t, 4), padding_mode=ZERO) + pull * dt
            ct.store(velocity, (i, 0), v)
            ct.store(position, (s + 1, i, 0), (x.reshape((t, 4)) + v * dt).reshape((1, t, 4)))
    ct.store(out, (0,), steps)


@program((8, 20, 2), (32, 40, 2), (16, 16, 0))
def particles_in_time(t, n, steps):
    position = np.zeros((steps + 1, n, 4), np.float32)
    position[0, :, :3] = draw(n, 3, dtype=np.float32)
    mass, velocity = np.abs(draw(n, dtype=np.float32)), np.zeros((n, 4), np.float32)
    x, v = wide(position), wide(velocity)
    for s in range(steps):
        off = x[s][None] - x[s][:, None]
        r = (off * off).sum(2) + .1
        v = v + .05 * ((wide(mass)[None] / r**1.5)[..., None] * off).sum(1)
        x[s + 1] = x[s] + .05 * v
    return Launch(bodies, (1,), (position, mass, velocity, np.zeros(1, np.int32), .05, steps, t), {0: x, 2: v, 3: steps}, 1e-4)


@ct.kernel
def pooled(x, out, places, a: Const, c: Const):
    """Maxima over windows of a volume, and which element was the first of the best, by reductions of pairs."""
    view = x.tiled_view((1, 2, 4, 4, c), traversal_steps=(1, 2, 2, 2, c), padding_mode=LEAST)
    n, z, y = ct.bid(0), ct.bid(1), ct.bid(2)
    for q in range(out.shape[3]):
        tile = view.load((n, z, y, q, 0)).reshape((32, c))
        ct.store(out, (n, z, y, q, 0), ct.max(tile, axis=0).reshape((1, 1, 1, 1, c)))
        ct.store(places, (n, z, y, q, 0), ct.argmax(tile, axis=0).reshape((1, 1, 1, 1, c)))


@program((np.float32, 8), (np.float16, 32), (np.float64, 2))
def volume_pooled(dtype, c):
    x = whole(2, 4, 6, 7, c, dtype=dtype)
    full = np.full((2, 4, 8, 10, c), -np.inf)
    full[:, :, :6, :7] = wide(x)
    out = np.zeros((2, 2, 3, 4, c), dtype)
    want, at = np.zeros(out.shape), np.zeros(out.shape, np.int32)
    for z, y, q in np.ndindex(2, 3, 4):
        window = full[:, 2 * z:2 * z + 2, 2 * y:2 * y + 4, 2 * q:2 * q + 4].reshape(2, 32, c)
        want[:, z, y, q], at[:, z, y, q] = window.max(1), window.argmax(1)
    return Launch(pooled, (2, 2, 3), (x, out, np.zeros(out.shape, np.int32), 4, c), {1: want, 2: at})


@ct.kernel
def divided(x, y, out, t: Const):
    """Quotients and remainders of every sign, floored, in a loop over arrays' rows, and shifts of negative numbers."""
    for r in range(x.shape[0]):
        a, b = ct.load(x, (r, 0), (1, t), padding_mode=ZERO), ct.load(y, (r, 0), (1, t), padding_mode=ZERO)
        b = ct.where(b == 0, 3, b)
        q, m = a // b, a % b
        ct.store(out, (r, 0), q * 1000 + m + (a >> 2) * (a // 8) + a % 4 - (-a) // 4)


@program((np.int32, 64), (np.int64, 128), (np.int16, 32))
def quotients_of_every_sign(dtype, t):
    x, y = whole(3, t - 1, dtype=dtype, low=-90, high=90), whole(3, t - 1, dtype=dtype, low=-7, high=7, seed=3)
    b = np.where(y == 0, 3, y).astype(dtype)
    with np.errstate(over="ignore"):
        want = (x // b) * dtype(1000) + x % b + (x >> dtype(2)) * (x // dtype(8)) + x % dtype(4) - (-x) // dtype(4)
    return Launch(divided, (1,), (x, y, np.zeros_like(x), t), {2: want})


@ct.kernel
def ranked(x, out, t: Const):
    """Every element's rank by comparisons with all, NaN last; a table of places by scatters, a gather back."""
    at = ct.arange(t, dtype=ct.int32)
    tile = ct.load(x, (ct.bid(0), 0), (1, t)).reshape((t,))
    key = ct.where(ct.isnan(tile), float("inf"), tile)
    odd = ct.isnan(tile).astype(ct.int32)
    less = (key[None, :] < key[:, None]) | ((key[None, :] == key[:, None]) & (
        (odd[None, :] < odd[:, None]) | ((odd[None, :] == odd[:, None]) & (at[None, :] < at[:, None]))))
    rank = ct.sum(less.astype(ct.int32), axis=1)
    ct.scatter(out, (ct.bid(0), rank), tile)


@program((np.float32, 32), (np.float64, 64), (np.float16, 128))
def ranks_with_nan_last(dtype, t):
    x = whole(3, t, dtype=dtype, low=-20, high=20)
    x[:, ::9], x[:, 4] = np.nan, np.inf
    return Launch(ranked, (3,), (x, np.zeros_like(x), t), {1: np.sort(x, 1)})


@ct.kernel
def of_small(x, out, more, t: Const, low: Const, bits: Const):
    """Integers of 32 bits that are known to be small become f16 without a conversion, those of a wider range by one."""
    a = ct.load(x, (ct.bid(0),), (t,))
    ct.store(out, (ct.bid(0),), ((a & ((1 << bits) - 1)) + low).astype(ct.float16))
    ct.store(more, (ct.bid(0),), (((a >> 3) & ((1 << bits) - 1)).astype(ct.uint32)).astype(ct.float16))


@program(*((t, low, bits) for t in (64, 1024) for low, bits in ((-8, 4), (0, 4), (-1024, 10), (1024, 10), (-512, 10), (1025, 10),
                                                                (-1025, 10), (-1024, 11), (0, 1), (-3, 3))), quick=True)
def small_integers_as_halves(t, low, bits):
    x = np.random.default_rng(t + bits).integers(-2**31, 2**31, 4 * t).astype(np.int32)
    x[:2048] = np.resize(np.arange(2048), len(x[:2048]))
    mask = (1 << bits) - 1
    return Launch(of_small, (4,), (x, np.zeros(4 * t, np.float16), np.zeros(4 * t, np.float16), t, low, bits),
                  {1: ((x & mask) + low).astype(np.float16), 2: ((x >> 3) & mask).astype(np.float16)})


@ct.kernel
def of_nine(x, out, tm: Const, tn: Const):
    """A stencil of nine points by gathers: three tiles begin where rows of tiles do, six a column beside."""
    r = ct.bid(0) * tm + ct.arange(tm, dtype=ct.int32)[:, None]
    c = ct.bid(1) * tn + ct.arange(tn, dtype=ct.int32)[None, :]
    total = ct.zeros((tm, tn), ct.float32)
    for dy in ct.static_iter(range(3)):
        for dx in ct.static_iter(range(3)):
            total = total + ct.gather(x, (r + (dy - 1), c + (dx - 1))).astype(ct.float32) * (1 + 3 * dy + dx)
    ct.scatter(out, (r, c), total.astype(out.dtype))


@program((np.float32, 16, 128, 64, 512), (np.float32, 16, 128, 50, 301), (np.float16, 16, 256, 40, 512), (np.int32, 8, 256, 9, 500),
         (np.float64, 8, 128, 20, 256), quick=True)
def nine_points_gathered(dtype, tm, tn, rows, columns):
    x = whole(rows, columns, dtype=dtype, low=-9, high=10)
    around = np.pad(wide(x), 1)
    want = sum(around[dy:dy + rows, dx:dx + columns] * (1 + 3 * dy + dx) for dy in range(3) for dx in range(3))
    return Launch(of_nine, (blocks(rows, tm), blocks(columns, tn)), (x, np.zeros_like(x), tm, tn), {1: want.astype(dtype)})
