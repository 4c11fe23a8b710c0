"""Kernels of servers of language models: keys and values quantized into pages, decoding from those pages in parts with sinks,
joined parts, rotations by position, norms that quantize, routing to experts and back, adapters by token, an indexer's choice."""
import cuda.tile as ct
import numpy as np

from tests.programs.programs import Launch, bf16, blocks, draw, e4m3, e5m2, program, whole, wide

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO
LARGEST = {np.int8: 127.0, e4m3: 448.0, e5m2: 57344.0}
"""What the largest element of a quantized row becomes."""


def quantized(x, dtype):
    """Rows of x by f32 arithmetic, as elements of a type and a scale a row."""
    x = x.astype(np.float32)
    scale = np.maximum(np.abs(x).max(-1), np.float32(1e-6)) / np.float32(LARGEST[dtype])
    q = x / scale[..., None]
    return (np.floor(q + np.float32(.5)) if dtype is np.int8 else q).astype(dtype), scale


def narrowed(x, largest, dtype):
    """A tile's rows as elements of `dtype` and a scale a row."""
    scale = ct.maximum(ct.max(ct.abs(x), axis=1), 1e-6) / largest
    q = x / scale[:, None]
    if dtype == ct.int8:
        q = ct.floor(q + 0.5)
    return q.astype(dtype), scale


@ct.kernel
def into_pages(key, slots, cache, scales, largest: ct.Constant[float], page: Const, t: Const, d: Const):
    """Each token's row goes to the slot of its page; tokens of slot -1 aren't kept."""
    i, h = ct.bid(0), ct.bid(1)
    slot = ct.gather(slots, i * t + ct.arange(t, dtype=ct.int32), padding_value=-1)
    x = ct.load(key, (i, h, 0), (t, 1, d), padding_mode=ZERO).reshape((t, d)).astype(ct.float32)
    q, scale = narrowed(x, largest, cache.dtype)
    there = slot >= 0
    number, at = slot // page, slot % page
    ct.scatter(cache, (number[:, None], at[:, None], h, ct.arange(d, dtype=ct.int32)[None, :]), q, mask=there[:, None])
    ct.scatter(scales, (number, at, h), scale, mask=there)


@program((e4m3, bf16, 16, 64, 16), (np.int8, np.float16, 32, 128, 8), (e5m2, np.float32, 8, 32, 3), (e4m3, np.float16, 64, 256, 64),
         since=90)
def rows_quantized_into_pages(dtype, source, t, d, page):
    tokens, heads, pages = t + 5, 3, 40
    key = draw(tokens, heads, d - 2, dtype=source, scale=3)
    slots = np.random.default_rng(t).permutation(pages * page)[:tokens].astype(np.int32)
    slots[::7] = -1
    cache, scales = np.zeros((pages, page, heads, d - 2), dtype), np.zeros((pages, page, heads), np.float32)
    q, s = quantized(key, dtype)
    want, want_scales = cache.copy(), scales.copy()
    for token, slot in enumerate(slots):
        if slot >= 0:
            want[slot // page, slot % page], want_scales[slot // page, slot % page] = q[token], s[token]
    return Launch(into_pages, (blocks(tokens, t), heads), (key, slots, cache, scales, LARGEST[dtype], page, t, d),
                  {2: want, 3: want_scales})


def from_pages(q, keys, values, scales, table, lengths, sinks, out, lse, share: Const, page: Const, g: Const, d: Const):
    """One query a sequence and a head; `g` heads share keys; a block takes `share` pages, the first one the sink as well."""
    b, h, part = ct.bid(0), ct.bid(1), ct.bid(2)
    n = ct.load(lengths, (b,), ())
    x = ct.load(q, (b, h, 0), (1, g, d)).reshape((g, d))
    top = ct.full((g, 1), -1e30, ct.float32)
    total, acc = ct.zeros((g, 1), ct.float32), ct.zeros((g, d), ct.float32)
    if part == 0:
        top = ct.load(sinks, (h,), (g,)).reshape((g, 1)).astype(ct.float32)
        total = ct.ones((g, 1), ct.float32)
    for j in range(part * share, min((part + 1) * share, ct.cdiv(n, page))):
        number = ct.load(table, (b, j), ())
        k = ct.load(keys, (number, 0, h, 0), (1, page, 1, d)).reshape((page, d)).astype(x.dtype)
        v = ct.load(values, (number, 0, h, 0), (1, page, 1, d)).reshape((page, d)).astype(x.dtype)
        ks = ct.load(scales, (number, 0, h, 0), (1, page, 1, 1)).reshape((1, page))
        vs = ct.load(scales, (number, 0, h, 1), (1, page, 1, 1)).reshape((1, page))
        s = ct.mma(x, k.transpose(), ct.zeros((g, page), ct.float32)) * ks
        s = ct.where((j * page + ct.arange(page, dtype=ct.int32) < n)[None, :], s, -1e30)
        new = ct.maximum(top, ct.max(s, axis=1, keepdims=True))
        p, old = ct.exp(s - new), ct.exp(top - new)
        total = total * old + ct.sum(p, axis=1, keepdims=True)
        acc = ct.mma((p * vs).astype(x.dtype), v, acc * old)
        top = new
    ct.store(out, (b, h, part, 0), ct.where(total > 0.0, acc / total, 0.0).reshape((1, g, 1, d)))
    ct.store(lse, (b, h, part), (ct.log(total) + top).reshape((1, g, 1)))


DECODING = ct.kernel(from_pages)


@program((np.float16, e4m3, 16, 16, 64, 2), (bf16, np.int8, 8, 32, 128, 3), (np.float16, e5m2, 4, 64, 64, 1),
         (bf16, e4m3, 1, 16, 32, 2), since=90, quick=True)
def decoding_from_quantized_pages(dtype, kept, g, page, d, share):
    sequences, heads, pages = 3, 2, 24
    lengths = np.array([5 * page - 3, 1, 2 * page], np.int32)
    q, sinks = draw(sequences, heads * g, d, dtype=dtype, scale=d**-.5), draw(heads * g, dtype=np.float32)
    keys, values = (quantized(draw(pages, page, heads, d, dtype=np.float32, seed=s), kept) for s in (1, 2))
    scales = np.stack([keys[1], values[1]], -1)
    table = np.random.default_rng(0).permutation(pages)[:sequences * 5].reshape(sequences, 5).astype(np.int32)
    parts = blocks(5, share)
    want, lse = np.zeros((sequences, heads * g, parts, d)), np.full((sequences, heads * g, parts), -1e30)
    for b, h, part in np.ndindex(sequences, heads * g, parts):
        mine = table[b, part * share:(part + 1) * share]
        count = max(0, min(len(mine) * page, lengths[b] - part * share * page))
        k, v = ((wide(x) * s[..., None])[mine, :, h // g].reshape(-1, d)[:count] for x, s in (keys, values))
        s = k @ wide(q[b, h])
        weights, total = np.exp(s), np.exp(s).sum() + (np.exp(sinks[h]) if part == 0 else 0)
        if total > 0:
            want[b, h, part], lse[b, h, part] = weights @ v / total, np.log(total)
    lse[lse == -1e30] = -np.inf
    return Launch(DECODING, (sequences, heads, parts), (q, keys[0], values[0], scales, table, lengths, sinks,
                  np.zeros(want.shape, np.float32), np.zeros(lse.shape, np.float32), share, page, g, d), {7: want, 8: lse}, 2e-2)


@ct.kernel
def join_parts(parts, lse, counts, out, total, n: Const, d: Const):
    """Parts of a row by their weights; only so many parts are there as a row's count says."""
    b, h = ct.bid(0), ct.bid(1)
    there = ct.arange(n, dtype=ct.int32) < ct.load(counts, (b,), ())
    w = ct.where(there, ct.load(lse, (b, h, 0), (1, 1, n), padding_mode=ct.PaddingMode.NEG_INF).reshape((n,)), -float("inf"))
    top = ct.max(w)
    safe = ct.where(top == -float("inf"), 0.0, top)
    e = ct.exp(w - safe)
    s = ct.sum(e)
    x = ct.load(parts, (b, h, 0, 0), (1, 1, n, d), padding_mode=ct.PaddingMode.NAN).reshape((n, d)).astype(ct.float32)
    x = ct.where(e[:, None] > 0.0, x * e[:, None], 0.0)
    ct.store(out, (b, h, 0), (ct.sum(x, axis=0) / ct.where(s > 0.0, s, 1.0)).astype(out.dtype).reshape((1, 1, d)))
    ct.store(total, (b, h), ct.log(s) + safe)


@program((np.float32, np.float16, 4, 64), (bf16, bf16, 16, 128), (np.float16, np.float32, 8, 512), (np.float32, np.float32, 1, 32))
def parts_of_attention_joined(dtype, result, n, d):
    b, h, there = 4, 2, max(n - 1, 1)
    parts, lse = draw(b, h, there, d, dtype=dtype), draw(b, h, there, dtype=np.float32, scale=4)
    counts = np.array([0, 1, there, min(2, there)], np.int32)
    parts[0], lse[1, 0, 0] = np.nan, -np.inf
    w = np.where(np.arange(there) < counts[:, None, None], np.exp(wide(lse)), 0)
    s = w.sum(2)
    want = np.where(w[..., None] > 0, wide(parts) * w[..., None], 0).sum(2) / np.where(s > 0, s, 1)[..., None]
    with np.errstate(divide="ignore"):
        return Launch(join_parts, (b, h), (parts, lse, counts, np.zeros((b, h, d), result), np.zeros((b, h), np.float32), n, d),
                      {3: want, 4: np.log(s)}, 2e-2 if result is bf16 else 2e-3)


@ct.kernel
def rotate_pairs(qkv, positions, table, t: Const, heads: Const, half: Const, rest: Const):
    """Neighbours are pairs; only the first 2 half elements of a head turn; in place, where queries, keys and values are packed."""
    i = ct.bid(0)
    at = ct.load(positions, (i,), (t,), padding_mode=ZERO)
    part = ct.arange(half, dtype=ct.int32)[None, :]
    c = ct.gather(table, (at[:, None], part)).reshape((t, 1, half))
    s = ct.gather(table, (at[:, None], part + half)).reshape((t, 1, half))
    x = ct.load(qkv, (i, 0, 0), (t, heads, 2 * half), padding_mode=ZERO).reshape((t, heads, half, 2)).astype(ct.float32)
    a, b = ct.extract(x, (0, 0, 0, 0), (t, heads, half, 1)), ct.extract(x, (0, 0, 0, 1), (t, heads, half, 1))
    c, s = c.reshape((t, 1, half, 1)), s.reshape((t, 1, half, 1))
    y = ct.cat((a * c - b * s, b * c + a * s), 3).reshape((t, heads, 2 * half))
    ct.store(qkv, (i, 0, 0), y.astype(qkv.dtype))


@ct.kernel
def rotate_halves(qkv, positions, table, t: Const, heads: Const, half: Const, rest: Const):
    """The first half turns with the second; heads one by one in a loop, by slices of the packed array."""
    i = ct.bid(0)
    at = ct.load(positions, (i,), (t,), padding_mode=ZERO)
    part = ct.arange(half, dtype=ct.int32)[None, :]
    c, s = ct.gather(table, (at[:, None], part)), ct.gather(table, (at[:, None], part + half))
    for h in range(heads):
        a = ct.load(qkv, (i, h, 0), (t, 1, half), padding_mode=ZERO).reshape((t, half)).astype(ct.float32)
        b = ct.load(qkv, (i, h, 1), (t, 1, half), padding_mode=ZERO).reshape((t, half)).astype(ct.float32)
        ct.store(qkv, (i, h, 0), (a * c - b * s).astype(qkv.dtype).reshape((t, 1, half)))
        ct.store(qkv, (i, h, 1), (b * c + a * s).astype(qkv.dtype).reshape((t, 1, half)))


@program((rotate_pairs, np.float16, 8, 4, 32, 0), (rotate_pairs, bf16, 4, 8, 16, 8), (rotate_pairs, np.float32, 16, 1, 64, 3),
         (rotate_halves, np.float16, 16, 3, 32, 0), (rotate_halves, bf16, 64, 5, 16, 24), quick=True)
def heads_rotated_in_place(kernel, dtype, t, heads, half, rest):
    tokens = 2 * t - 3
    qkv = draw(tokens, heads + 2, 2 * half + rest, dtype=dtype)
    positions = whole(tokens, dtype=np.int64, low=0, high=99)
    angle = np.arange(100)[:, None] * 100.0 ** (-np.arange(half) / half)
    table = np.concatenate([np.cos(angle), np.sin(angle)], 1).astype(np.float32)
    c, s = (wide(x)[positions][:, None] for x in np.split(table, 2, 1))
    want, x = wide(qkv), wide(qkv)[:, :heads, :2 * half]
    if kernel is rotate_pairs:
        a, b = x[..., ::2], x[..., 1::2]
        turned = np.stack([a * c - b * s, b * c + a * s], -1).reshape(x.shape)
    else:
        a, b = np.split(x, 2, 2)
        turned = np.concatenate([a * c - b * s, b * c + a * s], 2)
    want[:, :heads, :2 * half] = turned
    return Launch(kernel, (2,), (qkv, positions, table, t, heads, half, rest), {0: want}, 1e-2)


@ct.kernel
def add_norm_quantize(x, residual, gain, out, scales, largest: ct.Constant[float], t: Const, d: Const):
    """The residual takes the sum in place; the norm of what was stored is quantized by row."""
    i = ct.bid(0)
    y = ct.load(x, (i, 0), (t, d), padding_mode=ZERO).astype(ct.float32)
    y = (y + ct.load(residual, (i, 0), (t, d), padding_mode=ZERO).astype(ct.float32)).astype(residual.dtype)
    ct.store(residual, (i, 0), y)
    y = y.astype(ct.float32)
    y = y * ct.rsqrt(ct.sum(y * y, axis=1, keepdims=True) / x.shape[1] + 1e-5)
    q, scale = narrowed(y * ct.load(gain, (0,), (d,), padding_mode=ZERO)[None, :], largest, out.dtype)
    ct.store(out, (i, 0), q)
    ct.store(scales, (i,), scale)


@program((bf16, e4m3, 4, 512), (np.float16, e4m3, 1, 4096), (np.float32, e5m2, 16, 128), (bf16, e5m2, 2, 2048), since=90)
def sum_normalized_and_quantized(dtype, small, t, d):
    """Quantized numbers may be one step off where the norm's last bit differs: they are compared by what they stand for."""
    rows, columns = 2 * t + 1, d - 5
    x, residual = draw(rows, columns, dtype=dtype), draw(rows, columns, dtype=dtype, seed=1)
    gain = draw(columns, dtype=np.float32, seed=2)
    total = (x.astype(np.float32) + residual.astype(np.float32)).astype(dtype)
    y = wide(total)
    y = y / np.sqrt((y * y).mean(1, keepdims=True) + 1e-5) * wide(gain)
    q, scale = quantized(y, small)
    return Launch(add_norm_quantize, (blocks(rows, t),), (x, residual, gain, np.zeros(x.shape, small), np.zeros(rows, np.float32),
                  LARGEST[small], t, d), {1: total, 3: q, 4: scale}, .13 if small is e4m3 else .26)


@ct.kernel
def route(logits, bias, ids, weights, k: Const, e: Const, group: Const):
    """The best groups by the sum of their two best, then the best `k` experts among them; weights are sigmoids whose sum is 1."""
    i = ct.bid(0)
    score = 1.0 / (1.0 + ct.exp(-ct.load(logits, (i, 0), (1, e)).reshape((e,)).astype(ct.float32)))
    choice = score + ct.load(bias, (0,), (e,))
    groups = choice.reshape((group, e // group))
    first = ct.argmax(groups, axis=1)
    rest = ct.where(ct.arange(e // group, dtype=ct.int32)[None, :] == first[:, None], -float("inf"), groups)
    best = ct.max(groups, axis=1) + ct.max(rest, axis=1)
    at = ct.arange(group, dtype=ct.int32)
    better = ((best[None, :] > best[:, None]) | ((best[None, :] == best[:, None]) & (at[None, :] < at[:, None]))).astype(ct.int32)
    kept = ct.sum(better, axis=1) < group // 2
    choice = ct.where(kept[:, None], groups, -float("inf")).reshape((e,))
    total = 0.0
    experts = ct.arange(e, dtype=ct.int32)
    chosen, taken = ct.zeros((k,), ct.int32), ct.zeros((k,), ct.float32)
    for n in range(k):
        one = ct.argmax(choice)
        w = ct.sum(ct.where(experts == one, score, 0.0))
        chosen = ct.where(ct.arange(k, dtype=ct.int32) == n, one, chosen)
        taken = ct.where(ct.arange(k, dtype=ct.int32) == n, w, taken)
        total = total + w
        choice = ct.where(experts == one, -float("inf"), choice)
    ct.store(ids, (i, 0), chosen.reshape((1, k)))
    ct.store(weights, (i, 0), (taken / total).reshape((1, k)))


@program((np.float32, 4, 32, 4), (bf16, 8, 256, 8), (np.float16, 2, 8, 2), (np.float32, 1, 128, 16))
def tokens_routed_to_experts(dtype, k, e, group):
    tokens = 5
    logits, bias = whole(tokens, e, dtype=dtype, low=-40, high=40) / dtype(8), np.zeros(e, np.float32)
    bias[1::3] = .25
    score = 1 / (1 + np.exp(-wide(logits)))
    choice = (score + bias).astype(np.float32)
    ids, weights = np.zeros((tokens, k), np.int32), np.zeros((tokens, k))
    for i in range(tokens):
        groups = choice[i].reshape(group, -1)
        best = np.sort(groups, 1)[:, -2:].sum(1)
        kept = np.argsort(-best, kind="stable")[:group // 2]
        masked = np.full(groups.shape, -np.inf)
        masked[kept] = groups[kept]
        ids[i] = np.argsort(-masked.ravel(), kind="stable")[:k]
        weights[i] = score[i, ids[i]] / score[i, ids[i]].sum()
    return Launch(route, (tokens,), (logits.astype(dtype), bias, np.zeros_like(ids), np.zeros(ids.shape, np.float32), k, e, group),
                  {2: ids, 3: weights}, 1e-5)


@ct.kernel
def align(ids, order, experts, total, t: Const, e: Const, block: Const, most: Const):
    """Where each (token, expert) goes, experts one after another, each from a multiple of a block on: counts, scans, ranks by a
    scan along the tokens in pieces of `t`, and which expert each block is of."""
    each = ct.arange(e, dtype=ct.int32)
    count = ct.zeros((e,), ct.int32)
    for i in range(ct.cdiv(ids.shape[0], t)):
        one = ct.gather(ids, i * t + ct.arange(t, dtype=ct.int32), padding_value=-1)
        count = count + ct.sum((one[:, None] == each[None, :]).astype(ct.int32), axis=0)
    room = (count + block - 1) // block * block
    ends = ct.cumsum(room, axis=0)
    starts = ends - room
    ct.store(total, (0,), ct.max(ends))
    at = ct.arange(most, dtype=ct.int32) * block
    ct.scatter(experts, ct.arange(most, dtype=ct.int32), ct.sum((at[:, None] >= ends[None, :]).astype(ct.int32), axis=1))
    seen = starts
    for i in range(ct.cdiv(ids.shape[0], t)):
        place = i * t + ct.arange(t, dtype=ct.int32)
        one = ct.gather(ids, place, padding_value=-1)
        mine = (one[:, None] == each[None, :]).astype(ct.int32)
        rank = ct.cumsum(mine, axis=0) - mine + seen[None, :]
        goes = ct.sum(mine * rank, axis=1)
        ct.scatter(order, goes, place, mask=one >= 0)
        seen = seen + ct.sum(mine, axis=0)


@program((64, 8, 16, 300), (256, 64, 4, 700), (32, 16, 64, 90), (128, 128, 8, 128), quick=True)
def slots_aligned_by_expert(t, e, block, n):
    ids = whole(n, low=0, high=e - 2)
    count = np.bincount(ids, minlength=e)
    room = -(-count // block) * block
    ends = np.cumsum(room)
    most = 1 << int(max(ends[-1] // block, 1) - 1).bit_length()
    order, seen = np.full(int(ends[-1]), n, np.int32), ends - room
    want = order.copy()
    for place, one in enumerate(ids):
        want[seen[one]] = place
        seen[one] += 1
    experts = (np.arange(most)[:, None] * block >= ends).sum(1)
    return Launch(align, (1,), (ids, order, np.zeros(most, np.int32), np.zeros(1, np.int32), t, e, block, most),
                  {1: want, 2: experts, 3: ends[-1]})


@ct.kernel
def experts_by_slots(x, w, order, experts, weights, out, k: Const, tm: Const, tn: Const, tk: Const):
    """Rows by their slots, each token `k` times; slots that nobody has are past the array's end; rows scattered back, weighted."""
    i, j = ct.bid(0), ct.bid(1)
    e = ct.load(experts, (i,), ())
    slot = ct.load(order, (i,), (tm,))
    row = slot // k
    acc = ct.zeros((tm, tn), ct.float32)
    for q in range(ct.cdiv(x.shape[1], tk)):
        a = ct.gather(x, (row[:, None], q * tk + ct.arange(tk, dtype=ct.int32)[None, :]))
        b = ct.load(w, (e, q, j), (1, tk, tn), padding_mode=ZERO).reshape((tk, tn))
        acc = ct.mma(a, b, acc)
    acc = acc * ct.gather(weights, slot)[:, None]
    ct.scatter(out, (slot[:, None], j * tn + ct.arange(tn, dtype=ct.int32)[None, :]), acc.astype(out.dtype))


@ct.kernel
def experts_by_rows(x, w, order, experts, weights, out, k: Const, tm: Const, tn: Const, tk: Const):
    """The same by loads of picked rows (padding where the rows end), and stores of rows."""
    i, j = ct.bid(0), ct.bid(1)
    e = ct.load(experts, (i,), ())
    slot = ct.load(order, (i,), (tm,))
    acc = ct.zeros((tm, tn), ct.float32)
    for q in range(ct.cdiv(x.shape[1], tk)):
        a = ct.load_advanced_indexing(x, (slot // k, ct.Slice(q * tk, tk)), padding_mode=ZERO)
        b = ct.load(w, (e, q, j), (1, tk, tn), padding_mode=ZERO).reshape((tk, tn))
        acc = ct.mma(a, b, acc)
    acc = acc * ct.gather(weights, slot)[:, None]
    ct.store_advanced_indexing(out, (slot, ct.Slice(j * tn, tn)), acc.astype(out.dtype))


@program((experts_by_slots, np.float16, 16, 64, 32, 2), (experts_by_slots, bf16, 64, 128, 64, 3),
         (experts_by_rows, np.float16, 64, 64, 64, 4), (experts_by_rows, bf16, 128, 128, 32, 1),
         (experts_by_slots, e4m3, 128, 64, 128, 2), (experts_by_rows, e4m3, 32, 32, 64, 2), since=90)
def experts_of_aligned_slots(kernel, dtype, tm, tn, tk, k):
    tokens, e, kk, n = 37, 3, 2 * tk + 16, tn + 16
    x, w = whole(tokens, kk, dtype=dtype, low=-2, high=2), whole(e, kk, n, dtype=dtype, low=-2, high=2, seed=1)
    ids = whole(tokens * k, low=0, high=e - 1)
    weights = whole(tokens * k, dtype=np.float32, low=1, high=4) / np.float32(4)
    order, experts = [], []
    for one in range(e):
        mine = np.flatnonzero(ids == one)
        room = blocks(len(mine), tm) * tm
        order += [*mine, *[tokens * k] * (room - len(mine))]
        experts += [one] * (room // tm)
    want = np.einsum("rk,rkn->rn", wide(x)[np.arange(tokens * k) // k], wide(w)[ids]) * wide(weights)[:, None]
    return Launch(kernel, (len(experts), 2), (x, w, np.array(order, np.int32), np.array(experts, np.int32), weights,
                  np.zeros((tokens * k, n), np.float32), k, tm, tn, tk), {5: want}, 1e-3)


@ct.kernel
def shrink(x, a, starts, ids, out, tm: Const, r: Const, tk: Const, splits: Const):
    """Runs of tokens with one adapter each, rows to a rank, split along k and added by atomics; adapter -1: none."""
    run, part = ct.bid(0), ct.bid(1)
    adapter = ct.load(ids, (run,), ())
    if adapter < 0:
        return
    lo, hi = ct.load(starts, (run,), ()), ct.load(starts, (run + 1,), ())
    for i in range(lo, hi, tm):
        row = i + ct.arange(tm, dtype=ct.int32)
        row = ct.where(row < hi, row, x.shape[0])
        acc = ct.zeros((tm, r), ct.float32)
        for q in range(part, ct.cdiv(x.shape[1], tk), splits):
            u = ct.gather(x, (row[:, None], q * tk + ct.arange(tk, dtype=ct.int32)[None, :]))
            v = ct.load(a, (adapter, 0, q), (1, r, tk), padding_mode=ZERO).reshape((r, tk))
            acc = ct.mma(u, v.transpose(), acc)
        ct.atomic_add(out, (row[:, None], ct.arange(r, dtype=ct.int32)[None, :]), acc)


@ct.kernel
def expand(x, b, starts, ids, out, tm: Const, r: Const, tn: Const):
    """Back from the rank, added to what is there."""
    run, j = ct.bid(0), ct.bid(1)
    adapter = ct.load(ids, (run,), ())
    if adapter < 0:
        return
    lo, hi = ct.load(starts, (run,), ()), ct.load(starts, (run + 1,), ())
    mine = x.slice(0, lo, hi)
    into = out.slice(0, lo, hi)
    w = ct.load(b, (adapter, j, 0), (1, tn, r), padding_mode=ZERO).reshape((tn, r))
    for i in range(ct.cdiv(hi - lo, tm)):
        u = ct.load(mine, (i, 0), (tm, r), padding_mode=ZERO).astype(b.dtype)
        old = ct.load(into, (i, j), (tm, tn), padding_mode=ZERO)
        ct.store(into, (i, j), ct.mma(u, w.transpose(), old.astype(ct.float32)).astype(out.dtype))


RUNS = np.array([0, 7, 7, 40, 41, 75], np.int32)
ADAPTERS = np.array([2, 0, -1, 1, 0], np.int32)


@program((np.float16, 16, 16, 64, 2), (bf16, 64, 64, 32, 1), (np.float16, 32, 8, 128, 4), (bf16, 16, 128, 64, 2))
def adapters_shrink(dtype, tm, r, tk, splits):
    n = 5 * tk - 8
    x, a = whole(75, n, dtype=dtype, low=-2, high=2), whole(3, r - 3, n, dtype=dtype, low=-2, high=2, seed=1)
    want = np.ones((75, r - 3))
    for run, adapter in enumerate(ADAPTERS):
        if adapter >= 0:
            mine = slice(RUNS[run], RUNS[run + 1])
            want[mine] += wide(x)[mine] @ wide(a)[adapter].T
    return Launch(shrink, (5, splits), (x, a, RUNS, ADAPTERS, np.ones((75, r - 3), np.float32), tm, r, tk, splits), {4: want})


@program((np.float16, np.float32, 16, 16, 64), (bf16, bf16, 64, 64, 128), (np.float16, np.float16, 32, 8, 32),
         (bf16, np.float32, 128, 32, 64))
def adapters_expand(dtype, inner, tm, r, tn):
    n = 2 * tn - 8
    x, b = whole(75, r, dtype=inner, low=-2, high=2), whole(3, n, r, dtype=dtype, low=-2, high=2, seed=1)
    out = whole(75, n, dtype=dtype, low=-3, high=3, seed=2)
    want = wide(out)
    for run, adapter in enumerate(ADAPTERS):
        if adapter >= 0:
            mine = slice(RUNS[run], RUNS[run + 1])
            want[mine] += wide(x)[mine] @ wide(b)[adapter].T
    return Launch(expand, (5, 2), (x, b, RUNS, ADAPTERS, out, tm, r, tn), {4: want}, 2e-2)


@ct.kernel
def index_scores(q, k, scales, weights, starts, out, tq: Const, tk: Const, heads: Const, d: Const):
    """Scores of an indexer: heads' products, clipped below at zero, weighted and summed; only keys from a query's start up to
    itself count."""
    i, j = ct.bid(0), ct.bid(1)
    y = ct.load(k, (j, 0), (tk, d), padding_mode=ZERO)
    s = ct.load(scales, (j,), (tk,), padding_mode=ZERO)
    acc = ct.zeros((tq, tk), ct.float32)
    for h in range(heads):
        x = ct.load(q, (i, h, 0), (tq, 1, d), padding_mode=ZERO).reshape((tq, d))
        w = ct.load(weights, (i, h), (tq, 1), padding_mode=ZERO)
        acc = acc + ct.maximum(ct.mma(x, y.transpose(), ct.zeros((tq, tk), ct.float32)), 0.0) * w
    row = i * tq + ct.arange(tq, dtype=ct.int32)[:, None]
    column = j * tk + ct.arange(tk, dtype=ct.int32)[None, :]
    lo = ct.load(starts, (i,), (tq,), padding_mode=ZERO)
    ct.store(out, (i, j), ct.where((column >= lo[:, None]) & (column <= row), acc * s[None, :], -float("inf")))


@program((e4m3, 64, 64, 4, 128), (np.float16, 128, 64, 2, 64), (e4m3, 32, 128, 8, 32), (bf16, 64, 128, 3, 128), since=90)
def scores_of_an_indexer(dtype, tq, tk, heads, d):
    n = tq + 30
    q, k = whole(n, heads, d, dtype=dtype, low=-2, high=2), whole(n, d, dtype=dtype, low=-2, high=2, seed=1)
    weights = whole(n, heads, dtype=np.float32, low=-2, high=3) / np.float32(2)
    scales = 2.0 ** whole(n, dtype=np.float32, low=-2, high=2)
    starts = np.where(np.arange(n) < n // 2, 0, n // 2).astype(np.int32)
    score = (np.maximum(np.einsum("qhd,kd->qhk", wide(q), wide(k)), 0) * wide(weights)[..., None]).sum(1) * scales
    at = np.arange(n)
    want = np.where((at >= starts[:, None]) & (at <= at[:, None]), score, -np.inf)
    return Launch(index_scores, (blocks(n, tq), blocks(n, tk)), (q, k, scales.astype(np.float32), weights, starts,
                  np.zeros((n, n), np.float32), tq, tk, heads, d), {5: want}, 1e-5)


@ct.kernel
def pick(scores, out, values, k: int, t: Const):
    """The places of the `k` largest of a row, in order of place: eight bits of an ordered key a round by counts of digits, ties by
    place; places are scattered to their ranks, rest -1."""
    i = ct.bid(0)
    x = ct.load(scores, (i, 0), (1, t), padding_mode=ct.PaddingMode.NEG_INF).reshape((t,))
    bits = ct.bitcast(x, ct.uint32)
    key = ct.where((bits >> 31) != 0, ~bits, bits | 0x80000000)
    digits = ct.arange(256, dtype=ct.int32)
    prefix, known = ct.zeros((), ct.uint32), ct.zeros((), ct.uint32)
    left = ct.full((), k, ct.int32)
    for step in range(4):
        shift = ct.full((), 24 - 8 * step, ct.int32).astype(ct.uint32)
        mine = (key & known) == prefix
        digit = ((key >> shift) & 255).astype(ct.int32)
        count = ct.sum(((digit[:, None] == digits[None, :]) & mine[:, None]).astype(ct.int32), axis=0)
        above = ct.cumsum(count, axis=0, reverse=True)
        chosen = ct.max(ct.where(above >= left, digits, -1))
        left = left - ct.sum(ct.where(digits > chosen, count, 0))
        prefix = prefix | (chosen.astype(ct.uint32) << shift)
        known = known | (ct.full((), 255, ct.uint32) << shift)
    larger, same = key > prefix, (key == prefix).astype(ct.int32)
    taken = larger | ((same != 0) & (ct.cumsum(same, axis=0) <= left))
    rank = ct.cumsum(taken.astype(ct.int32), axis=0) - 1
    at = ct.arange(t, dtype=ct.int32)
    ct.scatter(out, (i, rank), at, mask=taken & (x > -float("inf")))
    ct.scatter(values, (i, rank), x, mask=taken & (x > -float("inf")))


@program((256, 32), (1024, 100), (64, 1), (128, 128))
def best_places_by_digits(t, k):
    rows, columns = 3, t - 9
    scores = whole(rows, columns, dtype=np.float32, low=-30, high=30) / np.float32(7)
    scores[1, k // 2:] = -np.inf
    scores[2, ::2] = -scores[2, ::2] * np.float32(1e20)
    places, values = np.full((rows, k), -1, np.int32), np.zeros((rows, k), np.float32)
    want, best = places.copy(), values.copy()
    for i in range(rows):
        mine = np.sort(np.argsort(-scores[i], kind="stable")[:min(k, columns)])
        mine = mine[scores[i, mine] > -np.inf]
        want[i, :len(mine)], best[i, :len(mine)] = mine, scores[i, mine]
    return Launch(pick, (rows,), (scores, places, values, k, t), {1: want, 2: best})
