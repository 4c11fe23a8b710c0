"""Mixtures: loops that carry tiles of many types through nested branches, combiners over tuples, atomics under masks, gathers of
several axes with paddings, chains of joins and turns, conversions of every kind on the way, products of rare types and extents."""
import cuda.tile as ct
import numpy as np

from tests.programs.programs import Launch, bf16, program, whole, wide

Const = ct.Constant[int]
ZERO, LEAST, MOST = ct.PaddingMode.ZERO, ct.PaddingMode.NEG_INF, ct.PaddingMode.POS_INF


@ct.kernel
def many_carried(x, out, count, flags, longest, t: Const, steps: int):
    """Five tiles of different types in one loop, changed in nested branches."""
    total = ct.zeros((t, t), ct.float32)
    seen = ct.zeros((t,), ct.bool_)
    runs, best = ct.zeros((t,), ct.int16), ct.zeros((t,), ct.uint8)
    wide_sum = ct.zeros((t, 1), ct.int64)
    for s in range(steps):
        tile = ct.load(x, (s, 0, 0), (1, t, t), padding_mode=ZERO).reshape((t, t))
        positive = ct.sum(tile, axis=1) > 0
        if s % 3 == 0:
            total = total + tile.astype(ct.float32)
            if ct.sum(tile) > 0:
                seen = seen | positive
            else:
                seen = seen ^ positive
                wide_sum = wide_sum - 1
        elif s % 3 == 1:
            total = total - tile.transpose().astype(ct.float32)
        else:
            wide_sum = wide_sum + ct.sum(tile.astype(ct.int64), axis=1, keepdims=True) * 4294967296
        runs = ct.where(positive, runs + 1, ct.zeros((t,), ct.int16))
        best = ct.maximum(best, runs.astype(ct.uint8))
    ct.store(out, (0, 0), total)
    ct.store(count, (0, 0), wide_sum)
    ct.store(flags, (0,), seen)
    ct.store(longest, (0,), best)


@program((np.int8, 16, 7), (np.int32, 64, 5), (np.float16, 32, 9), (bf16, 128, 2), quick=True)
def mixture_of_carried_tiles(dtype, t, steps):
    x = whole(steps, t, t, dtype=dtype, low=-3, high=3)
    total, seen, sums = np.zeros((t, t)), np.zeros(t, bool), np.zeros((t, 1), np.int64)
    runs, best = np.zeros(t, int), np.zeros(t, int)
    kept = np.int8 if dtype == np.int8 else np.float64          # sums of bytes are bytes
    for s, tile in enumerate(x):
        positive = tile.sum(1, dtype=kept) > 0
        if s % 3 == 0:
            total += wide(tile)
            if tile.sum(dtype=kept) > 0:
                seen |= positive
            else:
                seen ^= positive
                sums -= 1
        elif s % 3 == 1:
            total -= wide(tile).T
        else:
            sums += wide(tile).sum(1, keepdims=True).astype(np.int64) * 2**32
        runs = np.where(positive, runs + 1, 0)
        best = np.maximum(best, runs)
    arrays = np.zeros((t, t), np.float32), np.zeros((t, 1), np.int64), np.zeros(t, bool), np.zeros(t, np.uint8)
    return Launch(many_carried, (1,), (x, *arrays, t, steps), {1: total, 2: sums, 3: seen, 4: best.astype(np.uint8)})


def moments_of_two(n1, m1, s1, n2, m2, s2):
    n = n1 + n2
    d = m2 - m1
    f = ct.where(n > 0, n2 / ct.maximum(n, 1.0), 0.0)
    return n, m1 + d * f, s1 + s2 + d * d * n1 * f


@ct.kernel
def moments(x, mean, spread, running, a: Const, b: Const, c: Const):
    """Counts, means and squares joined by a reduction along the middle axis, and by a scan along the last, of masked elements."""
    tile = ct.load(x, (ct.bid(0), 0, 0), (a, b, c), padding_mode=LEAST)
    there = tile > -1000.0
    n = there.astype(ct.float32)
    m = ct.where(there, tile, 0.0)
    z = ct.zeros((a, b, c), ct.float32)
    count, middle, squares = ct.reduce((n, m, z), 1, moments_of_two, (0.0, 0.0, 0.0))
    ct.store(mean, (ct.bid(0), 0), middle)
    ct.store(spread, (ct.bid(0), 0), squares / ct.maximum(count, 1.0))
    ct.store(running, (ct.bid(0), 0, 0), ct.scan((n, m, z), 2, moments_of_two, (0.0, 0.0, 0.0))[1])


@program((4, 8, 16), (1, 64, 32), (16, 2, 128), (2, 32, 1))
def mixture_of_moments(a, b, c):
    x = whole(2 * a - a // 4, b - b // 4, c, dtype=np.float32, low=-4, high=4)
    n = np.arange(1, c + 1)
    running = np.zeros((2 * a - a // 4, b, c))
    running[:, :b - b // 4] = wide(x).cumsum(2) / n
    return Launch(moments, (2,), (x, np.zeros((len(x), c), np.float32), np.zeros((len(x), c), np.float32),
                                  np.zeros((len(x), b - b // 4, c), np.float32), a, b, c),
                  {1: wide(x).mean(1), 2: wide(x).var(1), 3: running[:, :b - b // 4]}, 1e-4)


@ct.kernel
def three_ways(x, lo, hi, at, n: Const, m: Const):
    """Smallest, largest and the place of the largest, in one reduction of three types, ties to the last."""
    tile = ct.load(x, (ct.bid(0), 0), (n, m))
    place = ct.broadcast_to(ct.arange(m, dtype=ct.int32)[None, :], (n, m))

    def combine(l1, h1, p1, l2, h2, p2):
        later = (h2 > h1) | ((h2 == h1) & (p2 > p1))
        return ct.minimum(l1, l2), ct.where(later, h2, h1), ct.where(later, p2, p1)
    small, large, where = ct.reduce((tile.astype(ct.int16), tile, place), 1, combine, (32767, -100, -1), keepdims=True)
    ct.store(lo, (ct.bid(0), 0), small)
    ct.store(hi, (ct.bid(0), 0), large)
    ct.store(at, (ct.bid(0), 0), where)


@program((np.int8, 32, 32), (np.int16, 8, 256), (np.int64, 64, 16), (np.int32, 1, 1024), quick=True)
def mixture_of_extremes(dtype, n, m):
    x = whole(2 * n, m, dtype=dtype, low=-9, high=9)
    where = m - 1 - np.argmax(x[:, ::-1], 1)
    return Launch(three_ways, (2,), (x, np.zeros((2 * n, 1), np.int16), np.zeros((2 * n, 1), dtype), np.zeros((2 * n, 1), np.int32),
                                     n, m), {1: x.min(1, keepdims=True), 2: x.max(1, keepdims=True), 3: where[:, None]})


@ct.kernel
def in_four(x, i, j, out, a: Const, b: Const, c: Const):
    """A gather of an array of three axes by tiles of three, masked, with what is outside and what is masked told apart; scattered
    back turned about."""
    u = ct.load(i, (0, 0), (a, b), padding_mode=ZERO)
    v = ct.load(j, (0,), (c,), padding_mode=ZERO)
    even = (u[:, :, None] + v[None, None, :]) % 2 == 0
    got = ct.gather(x, (u[:, :, None], v[None, None, :], ct.bid(0)), mask=even, padding_value=-5)
    p, q, r = (ct.arange(c, dtype=ct.int32), ct.arange(b, dtype=ct.int32), ct.arange(a, dtype=ct.int32))
    ct.scatter(out, (ct.bid(0), p[:, None, None], q[None, :, None], r[None, None, :]), got.permute((2, 1, 0)),
               mask=(got != 0).permute((2, 1, 0)))


@program((np.float32, 4, 8, 16), (np.int8, 16, 2, 32), (np.float64, 2, 2, 2), (np.int16, 8, 16, 8), (bf16, 32, 1, 4))
def mixture_of_gathers(dtype, a, b, c):
    x = whole(11, 7, 3, dtype=dtype, low=-3, high=3)
    i, j = whole(a, b, low=-2, high=12), whole(c, low=-1, high=8)
    u, v = i[:, :, None], j[None, None, :]
    inside = (u >= 0) & (u < 11) & (v >= 0) & (v < 7) & ((u + v) % 2 == 0)
    out = np.full((3, c, b, a), 9, dtype)
    want = wide(out)
    for k in range(3):
        got = np.where(inside, wide(x)[np.clip(u, 0, 10), np.clip(v, 0, 6), k], -5)
        want[k] = np.where(got.transpose(2, 1, 0) != 0, got.transpose(2, 1, 0), 9)
    return Launch(in_four, (3,), (x, i, j, out, a, b, c), {3: want})


@ct.kernel
def under_masks(counts, slots, bits, x, keys, before, t: Const):
    """Atomics whose places are outside for some, equal for many, in a branch and in a loop that ends by what they return."""
    k = ct.load(keys, (ct.bid(0),), (t,))
    v = ct.load(x, (ct.bid(0),), (t,))
    ct.atomic_add(counts, ct.where(v > 0, k, -1), v, memory_order=ct.MemoryOrder.RELAXED)
    if ct.sum(v) > 0:
        ct.atomic_max(slots, k, v, memory_order=ct.MemoryOrder.RELEASE, memory_scope=ct.MemoryScope.DEVICE)
    else:
        ct.atomic_min(slots, k, v, memory_order=ct.MemoryOrder.ACQUIRE)
    at = ct.arange(2, dtype=ct.int32)[None, :]
    ct.atomic_xor(bits, (k[:, None], at), v[:, None] << at.astype(x.dtype))
    got = 0
    while got < 3:
        got = ct.atomic_add(before, ct.bid(0), 1)


@program((np.int32, 32), (np.int64, 64), (np.uint32, 128), (np.int32, 1))
def mixture_of_atomics(dtype, t):
    low = 0 if np.dtype(dtype).kind == "u" else -5
    x, keys = whole(3 * t, dtype=dtype, low=low, high=6), whole(3 * t, low=0, high=9, seed=4)
    counts, slots, bits = np.zeros(10, dtype), np.full(10, 2, dtype), np.zeros((10, 2), dtype)
    wc, ws, wb = counts.copy(), slots.copy(), bits.copy()
    np.add.at(wc, keys[x > 0], x[x > 0])
    signs = [int(x[p * t:(p + 1) * t].astype(np.int64).sum()) > 0 for p in range(3)]
    if not all(signs):                                   # the two do not commute: one kind only
        x = np.abs(x.astype(np.int64)).astype(dtype) + dtype(1)
        wc = counts.copy()
        np.add.at(wc, keys, x)
    np.maximum.at(ws, keys, x)
    for b in range(2):
        np.bitwise_xor.at(wb[:, b], keys, x << dtype(b))
    return Launch(under_masks, (3,), (counts, slots, bits, x, keys, np.zeros(3, np.int32), t),
                  {0: wc, 1: ws, 2: wb, 5: 4})


@ct.kernel
def chain_of_turns(x, out, a: Const, b: Const, c: Const):
    """Joins, parts, turns and broadcasts one behind the other, of four axes."""
    tile = ct.load(x, (0, ct.bid(0), 0), (a, b, c), padding_mode=ZERO)
    four = tile.reshape((a, b, 2, c // 2)).permute((2, 0, 3, 1))
    both = ct.cat((four, ct.broadcast_to(ct.extract(four, (1, 0, 0, 0), (1, a, c // 2, b)) + 1, (2, a, c // 2, b))), 0)
    turned = both.permute((3, 1, 0, 2)).reshape((b, a, 2 * c))
    first, second = ct.extract(turned, (0, 0, 0), (b, a, c)), ct.extract(turned, (0, 0, 1), (b, a, c))
    ct.store(out, (ct.bid(0), 0, 0), ct.cat((second, first), 2).permute((1, 0, 2)).reshape((b, a, 2 * c)))


@program((np.float32, 4, 8, 16), (np.int8, 16, 16, 4), (np.float16, 2, 64, 32), (np.bool_, 8, 4, 8), (np.int64, 32, 2, 2))
def mixture_of_turns(dtype, a, b, c):
    if dtype == np.bool_:
        return turns_of_bools(a, b, c)
    x = whole(a, 2 * b - b // 2, c, dtype=dtype, low=-3, high=3)
    full = np.zeros((a, 2 * b, c))
    full[:, :x.shape[1]] = wide(x)
    return Launch(chain_of_turns, (2,), (x, np.zeros((2 * b, a, 2 * c), dtype), a, b, c),
                  {1: turned_about(full, a, b, c, lambda p: p + 1)})


def turned_about(full, a, b, c, change):
    out = []
    for tile in (full[:, :b], full[:, b:]):
        four = tile.reshape(a, b, 2, c // 2).transpose(2, 0, 3, 1)
        both = np.concatenate([four, np.broadcast_to(change(four[1:]), (2, a, c // 2, b))])
        turned = both.transpose(3, 1, 0, 2).reshape(b, a, 2 * c)
        out.append(np.concatenate([turned[..., c:], turned[..., :c]], 2).transpose(1, 0, 2).reshape(b, a, 2 * c))
    return np.concatenate(out)


@ct.kernel
def chain_of_bools(x, out, a: Const, b: Const, c: Const):
    tile = ct.load(x, (0, ct.bid(0), 0), (a, b, c), padding_mode=ZERO)
    four = tile.reshape((a, b, 2, c // 2)).permute((2, 0, 3, 1))
    both = ct.cat((four, ct.broadcast_to(~ct.extract(four, (1, 0, 0, 0), (1, a, c // 2, b)), (2, a, c // 2, b))), 0)
    turned = both.permute((3, 1, 0, 2)).reshape((b, a, 2 * c))
    first, second = ct.extract(turned, (0, 0, 0), (b, a, c)), ct.extract(turned, (0, 0, 1), (b, a, c))
    ct.store(out, (ct.bid(0), 0, 0), ct.cat((second, first), 2).permute((1, 0, 2)).reshape((b, a, 2 * c)))


def turns_of_bools(a, b, c):
    x = whole(a, 2 * b - b // 2, c, low=0, high=1) > 0
    full = np.zeros((a, 2 * b, c), bool)
    full[:, :x.shape[1]] = x
    return Launch(chain_of_bools, (2,), (x, np.zeros((2 * b, a, 2 * c), bool), a, b, c),
                  {1: turned_about(full, a, b, c, np.logical_not)})


@ct.kernel
def products_between(a, b, scale, out, other, m: Const, n: Const, k: Const):
    """Operands converted on the way in, sums converted on the way out, both ways of what a product gave."""
    acc = ct.zeros((m, n), ct.float32)
    for s in range(ct.cdiv(a.shape[1], k)):
        x = ct.load(a, (ct.bid(0), s), (m, k), padding_mode=ZERO).astype(ct.float16)
        y = ct.load(b, (s, 0), (k, n), padding_mode=ZERO)
        y = (y.astype(ct.float32) * ct.load(scale, (s, 0), (1, n), padding_mode=ZERO)).astype(ct.float16)
        acc = ct.mma(x, y, acc)
    ct.store(out, (ct.bid(0), 0), acc.astype(ct.int32))
    ct.store(other, (0, ct.bid(0)), ct.where(acc > 0, acc, acc * 0.5).astype(other.dtype).transpose())


@program((np.int8, np.uint8, np.float64, 16, 8, 16), (np.uint8, np.int8, np.float16, 64, 64, 64),
         (np.int16, np.int64, bf16, 32, 16, 8), (np.bool_, np.int32, np.float32, 128, 32, 32),
         (np.float64, np.float64, np.int64, 8, 4, 2), (np.int32, np.float32, np.int8, 1, 8, 8))
def mixture_of_products_converted(one, two, three, m, n, k):
    low = [0 if np.dtype(t).kind in "ub" else -1 for t in (one, two)]
    steps = 3
    a = whole(2 * m, steps * k - k // 2, dtype=one, low=low[0], high=1)
    b = whole(steps * k - k // 2, n, dtype=two, low=low[1], high=1, seed=1)
    scale = whole(steps, n, dtype=np.float32, low=1, high=2)
    acc = wide(a) @ (wide(b) * np.repeat(scale, k, 0)[:len(b)])
    second = np.where(acc > 0, acc, acc / 2).T
    if np.dtype(three).kind == "i":
        second = np.trunc(second)
    return Launch(products_between, (2,), (a, b, scale, np.zeros((2 * m, n), np.int32), np.zeros((n, 2 * m), three), m, n, k),
                  {3: acc.astype(np.int64), 4: second})


@ct.kernel
def reduced_precision(a, b, out, z: Const, m: Const, n: Const, k: Const):
    """Batched products of tf32, begun with what was there, in a loop whose bounds are loaded, the batch's order reversed."""
    acc = ct.load(out, (0, 0, 0), (z, m, n))
    steps = ct.cdiv(a.shape[2], k)
    for i in range(steps):
        s = steps - 1 - i
        x = ct.load(a, (0, 0, s), (z, m, k), padding_mode=ZERO).astype(ct.tfloat32)
        y = ct.load(b, (0, 0, s), (z, n, k), padding_mode=ZERO).permute((0, 2, 1)).astype(ct.tfloat32)
        acc = ct.mma(x, y, acc)
    ct.store(out, (0, 0, 0), acc)


@program((1, 16, 8, 8), (4, 16, 16, 16), (2, 64, 32, 32), (8, 8, 8, 4), (1, 128, 128, 16), since=80)
def mixture_of_reduced_precision(z, m, n, k):
    a, b = (whole(z, e, 3 * k - 1, dtype=np.float32, low=-3, high=3, seed=e) for e in (m, n))
    out = whole(z, m, n, dtype=np.float32)
    return Launch(reduced_precision, (1,), (a, b, out, z, m, n, k), {2: wide(out) + wide(a) @ wide(b).transpose(0, 2, 1)})


@ct.kernel
def returned(x, y, out, kind, t: Const):
    """Blocks that leave early from within branches and loops, with stores before and after."""
    i = ct.bid(0)
    what = ct.load(kind, (i,), ())
    tile = ct.load(x, (i, 0), (1, t))
    if what == 0:
        ct.store(out, (i, 0), tile)
        return
    for s in range(8):
        tile = tile + ct.load(y, (s, 0), (1, t))
        if what == 1 and s == 5:
            ct.store(out, (i, 0), tile * 3)
            return
        if what == 2 and ct.sum(tile) > 20:
            break
        if what == 3 and s % 2 == 0:
            continue
        tile = tile - 1
    ct.store(out, (i, 0), -tile)


@program((np.int32, 32), (np.float32, 128), (np.int8, 16), (np.float64, 4))
def mixture_of_returns(dtype, t):
    x, y = whole(10, t, dtype=dtype, low=0, high=2), whole(8, t, dtype=dtype, low=0, high=1)
    kind = np.arange(10, dtype=np.int32) % 5
    want = []
    for i in range(10):
        tile, done = x[i].copy(), False
        if kind[i] == 0:
            want.append(tile)
            continue
        for s in range(8):
            tile = (tile + y[s]).astype(dtype)
            if kind[i] == 1 and s == 5:
                want.append((tile * 3).astype(dtype))
                done = True
                break
            if kind[i] == 2 and tile.sum(dtype=dtype) > 20:
                break
            if kind[i] == 3 and s % 2 == 0:
                continue
            tile = (tile - 1).astype(dtype)
        if not done:
            want.append((-tile).astype(dtype))
    return Launch(returned, (10,), (x, y, np.zeros((10, t), dtype), kind, t), {2: np.stack(want)})


@ct.kernel
def digits(x, out, counts, t: Const):
    """While loops inside while loops; the inner one's tile decides how the outer one goes on."""
    n = ct.load(x, (ct.bid(0),), (t,), padding_mode=ZERO)
    total, rounds = ct.zeros((t,), ct.int32), 0
    while ct.max(n) > 9:
        total = ct.zeros((t,), ct.int32)
        rest = n
        while ct.max(rest) > 0:
            total = total + rest % 10
            rest = rest // 10
            rounds += 1
        n = total
    ct.store(out, (ct.bid(0),), n.astype(ct.uint16))
    ct.store(counts, (ct.bid(0),), rounds)


@program((np.int32, 32), (np.int32, 256))
def mixture_of_digit_sums(dtype, t):
    x = whole(2 * t - 5, dtype=dtype, low=0, high=1000000)
    n, counts = x.copy(), []
    for i in range(2):
        part, rounds = x[i * t:(i + 1) * t].copy(), 0
        while part.max() > 9:
            total, rest = np.zeros_like(part), part
            while rest.max() > 0:
                total, rest, rounds = total + rest % 10, rest // 10, rounds + 1
            part = total
        n[i * t:(i + 1) * t] = part
        counts.append(rounds)
    return Launch(digits, (2,), (x, np.zeros(len(x), np.uint16), np.zeros(2, np.int32), t), {1: n.astype(np.uint16), 2: counts})


@ct.kernel
def segments_scanned(x, heads, out, back, a: Const, b: Const):
    """A scan that begins anew at marks, forwards and backwards, of bools and bytes, along the first axis."""
    v = ct.load(x, (0, ct.bid(0)), (a, b))
    h = ct.load(heads, (0, ct.bid(0)), (a, b))

    def join(v1, h1, v2, h2):
        return ct.where(h2, v2, v1 + v2), h1 | h2
    ct.store(out, (0, ct.bid(0)), ct.scan((v, h), 0, join, (0, False))[0])
    ct.store(back, (0, ct.bid(0)), ct.scan((v, h), 0, join, (0, False), reverse=True)[0])


@program((np.int8, 16, 32), (np.int64, 128, 4), (np.float16, 64, 64), (np.int32, 256, 1), (np.uint16, 8, 8), quick=True)
def mixture_of_scanned_segments(dtype, a, b):
    x, heads = whole(a, 2 * b, dtype=dtype, low=0, high=2), whole(a, 2 * b, low=0, high=4) == 0
    out, back = np.zeros_like(x), np.zeros_like(x)
    for i in range(a):
        out[i] = np.where(heads[i], x[i], x[i] + out[i - 1]) if i else x[i]
    for i in reversed(range(a)):
        back[i] = np.where(heads[i], x[i], x[i] + back[i + 1]) if i + 1 < a else x[i]
    return Launch(segments_scanned, (2,), (x, heads, np.zeros_like(x), np.zeros_like(x), a, b), {2: out, 3: back})


@ct.kernel(num_ctas=ct.ByTarget(default=1, sm_90=2, sm_100=2), occupancy=4, opt_level=3)
def hinted_everywhere(x, w, out, sums, t: Const, n: Const):
    """Hints of all kinds; loads and stores of several latencies, some that the copy engine may not make."""
    acc = ct.zeros((t, t), ct.float32)
    for s in range(ct.cdiv(x.shape[1], n)):
        a = ct.load(x, (ct.bid(0), s), (t, n), padding_mode=ZERO, latency=2, allow_tma=False)
        b = ct.load(w, (s, 0), (n, t), padding_mode=ZERO, latency=8)
        acc = ct.mma(a, b, acc)
    ct.store(out, (ct.bid(0), 0), acc.astype(out.dtype), latency=3, allow_tma=False)
    ct.store(sums, (ct.bid(0),), ct.max(acc, axis=1))


@program((np.float16, 64, 32), (bf16, 128, 64), (np.float32, 32, 16))
def mixture_of_hints(dtype, t, n):
    x, w = whole(3 * t, 3 * n - 8, dtype=dtype, low=-2, high=2), whole(3 * n - 8, t, dtype=dtype, low=-2, high=2, seed=1)
    want = wide(x) @ wide(w)
    return Launch(hinted_everywhere, (3,), (x, w, np.zeros((3 * t, t), np.float32), np.zeros(3 * t, np.float32), t, n),
                  {2: want, 3: want.max(1)})


@ct.kernel
def told_and_checked(x, out, t: Const):
    """Assertions that hold and lines printed, inside branches and loops, around ordered memory."""
    tile = ct.load(x, (ct.bid(0), 0), (1, t))
    for s in range(3):
        ct.assert_(tile > -100 * (s + 1), "too small")
        if s == 1:
            ct.printf("block %d, sum %d\n", ct.bid(0), ct.sum(tile).astype(ct.int32))
            ct.store(out, (ct.bid(0), 0), tile)
        tile = tile + ct.load(out, (ct.bid(0), 0), (1, t))
    ct.store(out, (ct.bid(0), 0), tile)


@program((np.int32, 32), (np.float32, 64), (np.int16, 128))
def mixture_of_prints_and_checks(dtype, t):
    x, out = whole(2, t, dtype=dtype, low=-3, high=3), whole(2, t, dtype=dtype, low=-3, high=3, seed=1)
    first = x + out
    second = first + first
    return Launch(told_and_checked, (2,), (x, out, t), {1: second + first})


@ct.kernel
def strided(x, out, mixed, t: Const):
    """Arrays whose strides are odd, turned or large, as views of tiles that overlap, by views and by gathers."""
    view = x.tiled_view((t, t), traversal_steps=(t // 2, t // 4), padding_mode=MOST)
    i, j = ct.bid(0), ct.bid(1)
    tile = view.load((i, j))
    at = ct.arange(t, dtype=ct.int32)
    same = ct.gather(x, ((i * (t // 2) + at)[:, None], (j * (t // 4) + at)[None, :]), padding_value=0)
    ct.store(out, (i, j), ct.where(tile > 100, 0, tile) - same)
    ct.store(mixed, (i, j), ct.min(tile, axis=1, keepdims=True))


@program((np.float32, 8, 3, 1), (np.float32, 16, 1, 37), (np.float16, 32, 2, 101), (np.float64, 4, 5, 3), (np.float32, 64, 1, 100))
def mixture_of_strides(dtype, t, first, second):
    rows, columns = t + t // 2, t
    low, high = (second, first * second * columns) if second >= first else (second, columns * second + first)
    memory = np.zeros(rows * high + columns * low, dtype)
    x = np.lib.stride_tricks.as_strided(memory, (rows, columns), (high * memory.itemsize, low * memory.itemsize))
    np.copyto(x, whole(rows, columns, dtype=dtype, low=-3, high=3))
    least = np.zeros((3 * t, 4))
    padded = np.full((4 * t, 4 * t), np.inf)
    padded[:rows, :columns] = x
    for i in range(3):
        for j in range(4):
            tile = padded[i * t // 2:i * t // 2 + t, j * t // 4:j * t // 4 + t]
            least[i * t:(i + 1) * t, j] = tile.min(1)
    return Launch(strided, (3, 4), (x, np.ones((3 * t, 4 * t), dtype), np.zeros((3 * t, 4), dtype), t), {1: 0, 2: least})


@ct.kernel
def totals_before_a_copy(a, sums, out, m: Const, n: Const):
    """A scan between warps, whose buffer the copy engine fills anew with what is loaded behind it."""
    v = ct.load(a, (0, 0), (m, n), padding_mode=ZERO).transpose().astype(ct.float32)
    ct.store(out, (0, 0), ct.cumsum(v, axis=0))
    s = ct.load(sums, (0, 0), (n, m))
    ct.store(sums, (0, 0), s * 2 + v)


@program((16, 128), (32, 256), quick=True)
def scan_in_front_of_a_copy(m, n):
    a, sums = whole(m, n - 4, dtype=np.float16), whole(n, m, dtype=np.float32)
    v = np.zeros((n, m))
    v[:n - 4] = wide(a).T
    return Launch(totals_before_a_copy, (1,), (a, sums, np.zeros((n, m), np.float32), m, n),
                  {1: wide(sums) * 2 + v, 2: v.cumsum(0)})
