"""Recurrences in chunks, as linear attention and state spaces have them: states that are operands, decays by scans, triangular
inverses of products, cells with gates, dynamic programming whose choices are walked back."""
import cuda.tile as ct
import numpy as np

from tests.programs.programs import Launch, bf16, draw, program, whole, wide

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


def lower(c, strict=False):
    i = np.arange(c)
    return i[:, None] > i[None] if strict else i[:, None] >= i[None]


@ct.kernel
def state_space(x, dt, a, b, c, out, t: Const, n: Const, d: Const):
    """A state space's dual form (SSD): decays by a running sum, scores masked by its differences, a state that is carried."""
    h = ct.bid(0)
    at = ct.arange(t, dtype=ct.int32)
    state = ct.zeros((n, d), ct.float32)
    rate = ct.load(a, (h,), ())
    for k in range(ct.cdiv(x.shape[1], t)):
        step = ct.load(dt, (h, k), (1, t), padding_mode=ZERO).reshape((t,))
        s = ct.cumsum(step * rate, axis=0)
        total = ct.sum(step * rate)
        xs = ct.load(x, (h, k, 0), (1, t, d), padding_mode=ZERO).reshape((t, d)) * step[:, None].astype(x.dtype)
        bs = ct.load(b, (k, 0), (t, n), padding_mode=ZERO)
        cs = ct.load(c, (k, 0), (t, n), padding_mode=ZERO)
        scores = ct.mma(cs, bs.transpose(), ct.zeros((t, t), ct.float32))
        decay = ct.where(at[:, None] >= at[None, :], ct.exp(ct.minimum(s[:, None] - s[None, :], 0.0)), 0.0)
        y = ct.mma(cs, state.astype(x.dtype), ct.zeros((t, d), ct.float32)) * ct.exp(s)[:, None]
        y = ct.mma((scores * decay).astype(x.dtype), xs, y)
        late = (bs.astype(ct.float32) * ct.exp(total - s)[:, None]).astype(x.dtype)
        state = ct.mma(late.transpose(), xs, state * ct.exp(total))
        ct.store(out, (h, k, 0), y.reshape((1, t, d)))


@program((np.float16, 64, 64, 64), (bf16, 64, 128, 64), (np.float16, 32, 16, 32), (np.float16, 128, 64, 64))
def recurrence_of_a_state_space(dtype, t, n, d):
    length = 2 * t + 9
    x = draw(2, length, d, dtype=dtype)
    b, c = draw(length, n, dtype=dtype, scale=.3), draw(length, n, dtype=dtype, scale=.3, seed=1)
    dt, a = np.abs(draw(2, length, dtype=np.float32)) * np.float32(.3), np.array([-.5, -.1], np.float32)
    s = np.cumsum(wide(dt) * a[:, None], 1)
    decay = np.where(lower(length), np.exp(np.minimum(s[:, :, None] - s[:, None], 0)), 0)
    want = (wide(c) @ wide(b).T * decay) @ (wide(x) * dt[..., None])
    return Launch(state_space, (2,), (x, dt, a, b, c, np.zeros(x.shape, np.float32), t, n, d), {5: want},
                  8e-2 if dtype is bf16 else 1e-2)


@ct.kernel
def delta_rule(q, k, v, beta, out, t: Const, d: Const):
    """Chunks of the delta rule: (1 + tril(beta k k'))^-1 by substitution a row at a time, then products of products."""
    h = ct.bid(0)
    at = ct.arange(t, dtype=ct.int32)
    state = ct.zeros((d, d), ct.float32)
    for i in range(ct.cdiv(q.shape[1], t)):
        x = ct.load(q, (h, i, 0), (1, t, d), padding_mode=ZERO).reshape((t, d))
        y = ct.load(k, (h, i, 0), (1, t, d), padding_mode=ZERO).reshape((t, d))
        z = ct.load(v, (h, i, 0), (1, t, d), padding_mode=ZERO).reshape((t, d))
        w = ct.load(beta, (h, i), (1, t), padding_mode=ZERO).reshape((t, 1))
        low = ct.where(at[:, None] > at[None, :], ct.mma(y, y.transpose(), ct.zeros((t, t), ct.float32)) * w, 0.0)
        inverse = ct.where(at[:, None] == at[None, :], 1.0, 0.0).astype(ct.float32)
        for r in range(1, t):
            row = ct.sum(ct.where((at == r)[:, None], low, 0.0), axis=0)
            new = -ct.sum(row[:, None] * inverse, axis=0, keepdims=True)
            inverse = ct.where((at == r)[:, None], new + ct.where(at == r, 1.0, 0.0)[None, :], inverse)
        scaled = (inverse * w.reshape((1, t))).astype(q.dtype)
        u = ct.mma(scaled, z, ct.zeros((t, d), ct.float32))
        p = ct.mma(scaled, y, ct.zeros((t, d), ct.float32))
        u = u - ct.mma(p.astype(q.dtype), state.astype(q.dtype), ct.zeros((t, d), ct.float32))
        o = ct.mma(x, state.astype(q.dtype), ct.zeros((t, d), ct.float32))
        scores = ct.where(at[:, None] >= at[None, :], ct.mma(x, y.transpose(), ct.zeros((t, t), ct.float32)), 0.0)
        o = ct.mma(scores.astype(q.dtype), u.astype(q.dtype), o)
        state = ct.mma(y.transpose(), u.astype(q.dtype), state)
        ct.store(out, (h, i, 0), o.reshape((1, t, d)))


@program((np.float16, 16, 64), (np.float16, 64, 64), (bf16, 32, 32))
def recurrence_by_the_delta_rule(dtype, t, d):
    n = 3 * t - 5
    q, k, v = (draw(2, n, d, dtype=np.float32, scale=.5, seed=s) for s in range(3))
    k = (k / np.linalg.norm(k, axis=-1, keepdims=True)).astype(dtype)
    q, v = q.astype(dtype), v.astype(dtype)
    beta = 1 / (1 + np.exp(-draw(2, n, dtype=np.float32)))
    out = np.zeros((2, n, d))
    for h in range(2):
        s = np.zeros((d, d))
        for i in range(n):
            y = wide(k)[h, i]
            s = s + np.outer(y, beta[h, i] * (wide(v)[h, i] - y @ s))
            out[h, i] = wide(q)[h, i] @ s
    return Launch(delta_rule, (2,), (q, k, v, beta, np.zeros((2, n, d), np.float32), t, d), {4: out},
                  .1 if dtype is bf16 else 1e-2)


@ct.kernel
def wkv(r, k, v, w, u, out, d: Const):
    """RWKV's recurrence an element of time at a time: outer products, a state with a decay a row."""
    h = ct.bid(0)
    state = ct.zeros((d, d), ct.float32)
    bonus = ct.load(u, (h, 0), (1, d)).reshape((d, 1))
    for t in range(r.shape[1]):
        x = ct.load(r, (h, t, 0), (1, 1, d)).reshape((d, 1)).astype(ct.float32)
        y = ct.load(k, (h, t, 0), (1, 1, d)).reshape((d, 1)).astype(ct.float32)
        z = ct.load(v, (h, t, 0), (1, 1, d)).reshape((1, d)).astype(ct.float32)
        kv = y * z
        ct.store(out, (h, t, 0), ct.sum(x * (state + bonus * kv), axis=0).reshape((1, 1, d)).astype(out.dtype))
        state = state * ct.load(w, (h, t, 0), (1, 1, d)).reshape((d, 1)) + kv


@program((np.float16, 32), (bf16, 64), (np.float32, 64))
def recurrence_of_outer_products(dtype, d):
    n = 7
    r, k, v = (draw(2, n, d, dtype=dtype, seed=s) for s in range(3))
    w, u = np.exp(-np.exp(draw(2, n, d, dtype=np.float32))), draw(2, d, dtype=np.float32)
    out, state = np.zeros((2, n, d)), np.zeros((2, d, d))
    for t in range(n):
        kv = wide(k)[:, t, :, None] * wide(v)[:, t, None]
        out[:, t] = np.einsum("hd,hde->he", wide(r)[:, t], state + u[:, :, None] * kv)
        state = state * w[:, t, :, None] + kv
    return Launch(wkv, (2,), (r, k, v, w, u, np.zeros((2, n, d), np.float32), d), {5: out}, 1e-4)


@ct.kernel
def gated_cell(x, wx, wh, bias, out, last, b: Const, d: Const, e: Const):
    """An LSTM: the hidden tile is an operand of four products each step, of which the parts are cut."""
    h, c = ct.zeros((b, d), ct.float32), ct.zeros((b, d), ct.float32)
    recurrent = ct.load(wh, (0, 0), (d, 4 * d))
    shift = ct.load(bias, (0,), (4 * d,)).reshape((1, 4 * d))
    for t in range(x.shape[0]):
        g = ct.mma(ct.load(x, (t, ct.bid(0), 0), (1, b, e), padding_mode=ZERO).reshape((b, e)), ct.load(wx, (0, 0), (e, 4 * d)),
                   ct.broadcast_to(shift, (b, 4 * d)))
        g = ct.mma(h.astype(x.dtype), recurrent, g)
        i, f = ct.extract(g, (0, 0), (b, d)), ct.extract(g, (0, 1), (b, d))
        o, n = ct.extract(g, (0, 2), (b, d)), ct.extract(g, (0, 3), (b, d))
        c = c / (1 + ct.exp(-f)) + ct.tanh(n) / (1 + ct.exp(-i))
        h = ct.tanh(c) / (1 + ct.exp(-o))
        ct.store(out, (t, ct.bid(0), 0), h.reshape((1, b, d)).astype(out.dtype))
    ct.store(last, (ct.bid(0), 0), c)


@program((np.float16, 16, 32, 16), (bf16, 64, 32, 64), (np.float16, 64, 64, 32), (np.float32, 16, 16, 16))
def recurrence_of_a_gated_cell(dtype, b, d, e):
    steps, rows = 5, b + 3
    x, wx, wh = draw(steps, rows, e, dtype=dtype), draw(e, 4 * d, dtype=dtype, scale=.2), draw(d, 4 * d, dtype=dtype, scale=.2)
    bias = draw(4 * d, dtype=np.float32)
    h, c, out = np.zeros((rows, d)), np.zeros((rows, d)), np.zeros((steps, rows, d))
    for t in range(steps):
        g = wide(x)[t] @ wide(wx) + wide(h.astype(dtype)) @ wide(wh) + bias
        i, f, o, n = (g[:, q * d:(q + 1) * d] for q in range(4))
        c = c / (1 + np.exp(-f)) + np.tanh(n) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
        out[t] = h
    return Launch(gated_cell, (2,), (x, wx, wh, bias, np.zeros(out.shape, np.float32), np.zeros((rows, d), np.float32), b, d, e),
                  {4: out, 5: c}, 2e-2 if dtype is bf16 else 4e-3)


@ct.kernel
def viterbi(emission, change, pointers, path, score, n: Const):
    """Best paths: a loop of best predecessors that writes pointers, and one backwards through what it wrote."""
    b = ct.bid(0)
    steps = emission.shape[1]
    best = ct.load(emission, (b, 0, 0), (1, 1, n)).reshape((n,))
    table = ct.load(change, (0, 0), (n, n))
    for t in range(1, steps):
        all = best[:, None] + table
        best = ct.max(all, axis=0) + ct.load(emission, (b, t, 0), (1, 1, n)).reshape((n,))
        ct.store(pointers, (b, t, 0), ct.argmax(all, axis=0).reshape((1, 1, n)))
    at = ct.argmax(best)
    ct.store(score, (b,), ct.max(best))
    for q in range(steps):
        t = steps - 1 - q
        ct.store(path, (b, t), at)
        at = ct.gather(pointers, (b, t, at))


@program((16, 9), (64, 5), (32, 1), (128, 3))
def recurrence_walked_back(n, steps):
    """Small whole numbers, so that there are ties: the first of the best counts."""
    emission, change = whole(2, steps, n, dtype=np.float32, low=0, high=3), whole(n, n, dtype=np.float32, low=0, high=3)
    pointers, path, score = np.zeros((2, steps, n), np.int32), np.zeros((2, steps), np.int32), np.zeros(2, np.float32)
    seen, way, top = pointers.copy(), path.copy(), score.copy()
    for b in range(2):
        best = emission[b, 0]
        for t in range(1, steps):
            each = best[:, None] + change
            seen[b, t], best = each.argmax(0), each.max(0) + emission[b, t]
        at, top[b] = best.argmax(), best.max()
        for t in range(steps)[::-1]:
            way[b, t], at = at, seen[b, t, at]
    return Launch(viterbi, (2,), (emission, change, pointers, path, score, n), {2: seen, 3: way, 4: top})


@ct.kernel
def fibonacci_products(x, out, t: Const, steps: int):
    """Two tiles change places in a loop of products of both."""
    a = ct.load(x, (0, ct.bid(0), 0), (1, t, t)).reshape((t, t))
    b = ct.load(x, (1, ct.bid(0), 0), (1, t, t)).reshape((t, t))
    acc, sums = ct.zeros((t, t), ct.float32), ct.zeros((t, t), ct.float32)
    for _ in range(steps):
        acc, sums = ct.mma(a, b.transpose(), sums), acc
        a, b = b, (acc * 0.25 + a.astype(ct.float32)).astype(x.dtype)
    ct.store(out, (0, ct.bid(0), 0), acc.reshape((1, t, t)))
    ct.store(out, (1, ct.bid(0), 0), sums.reshape((1, t, t)))
    ct.store(out, (2, ct.bid(0), 0), b.astype(ct.float32).reshape((1, t, t)))


@program((np.float16, 64, 3), (bf16, 128, 2), (np.float16, 16, 4), (np.float32, 32, 3), (np.float16, 64, 0), (np.float16, 128, 1))
def recurrence_of_tiles_that_change_places(dtype, t, steps):
    x = draw(2, 2 * t, t, dtype=dtype, scale=t ** -.5)
    a, b = (wide(y).reshape(2, t, t) for y in x)
    acc = sums = np.zeros((2, t, t))
    for _ in range(steps):
        acc, sums = a @ b.transpose(0, 2, 1) + sums, acc
        a, b = b, wide((acc * .25 + a).astype(dtype))
    want = np.stack([y.reshape(2 * t, t) for y in (acc, sums, b)])
    return Launch(fibonacci_products, (2,), (x, np.zeros((3, 2 * t, t), np.float32), t, steps), {1: want},
                  3e-2 if dtype is bf16 else 6e-3)


@ct.kernel
def prefetched_by_hand(a, b, out, tm: Const, tn: Const, tk: Const):
    """The next step's tiles are loaded before this one's product: the loop carries operands."""
    i = ct.bid(0)
    acc = ct.zeros((tm, tn), ct.float32)
    x, y = ct.load(a, (i, 0), (tm, tk), padding_mode=ZERO), ct.load(b, (0, 0), (tk, tn), padding_mode=ZERO)
    for k in range(1, ct.cdiv(a.shape[1], tk) + 1):
        x2, y2 = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), ct.load(b, (k, 0), (tk, tn), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
        x, y = x2, y2
    ct.store(out, (i, 0), acc)


@program((np.float16, 128, 64, 32, 5), (bf16, 64, 128, 64, 1), (np.float32, 32, 32, 16, 3), (np.float16, 64, 64, 64, 2), quick=True)
def product_of_operands_carried(dtype, tm, tn, tk, steps):
    a, b = draw(tm + 7, steps * tk - 8, dtype=dtype), draw(steps * tk - 8, tn, dtype=dtype)
    return Launch(prefetched_by_hand, (2,), (a, b, np.zeros((tm + 7, tn), np.float32), tm, tn, tk), {2: wide(a) @ wide(b)}, 5e-3)


@ct.kernel
def prefetched_further(a, b, out, last, tm: Const, tn: Const, tk: Const):
    """`a` comes two steps ahead, `b` one: of `b` the tile behind the last product is wanted, too."""
    i = ct.bid(0)
    acc = ct.zeros((tm, tn), ct.float32)
    x, x1 = ct.load(a, (i, 0), (tm, tk), padding_mode=ZERO), ct.load(a, (i, 1), (tm, tk), padding_mode=ZERO)
    y = z = ct.load(b, (0, 0), (tk, tn), padding_mode=ZERO)
    for k in range(ct.cdiv(a.shape[1], tk)):
        x2, y2 = ct.load(a, (i, k + 2), (tm, tk), padding_mode=ZERO), ct.load(b, (k + 1, 0), (tk, tn), padding_mode=ZERO)
        z2 = ct.load(b, (k, 0), (tk, tn), padding_mode=ZERO)
        acc = ct.mma(x + x, y, acc)
        acc = ct.mma(x, z, acc)
        x, x1, y, z = x1, x2, y2, z2
    ct.store(out, (i, 0), acc)
    ct.store(last, (i, 0), y)


@program((np.float16, 64, 64, 32, 5), (bf16, 128, 64, 64, 1), (np.float32, 32, 32, 16, 3), (np.float16, 64, 128, 64, 0))
def product_of_operands_carried_further(dtype, tm, tn, tk, steps):
    """`z` begins with the first tile and is the one before `y` from then on: its loads are another step's, and stay."""
    a, b = draw(tm + 7, max(steps * tk - 8, 0), dtype=dtype), draw((steps + 1) * tk, tn, dtype=dtype)
    wa, wb = wide(np.pad(a, ((0, 0), (0, steps * tk - a.shape[1])))), wide(b)
    before = np.concatenate([wb[:tk], wb[:max(steps - 1, 0) * tk]])[:steps * tk]
    want = 2 * wa @ wb[:steps * tk] + wa @ before
    rows = np.concatenate([wb[steps * tk:], wb[steps * tk:]])
    return Launch(prefetched_further, (2,), (a, b, np.zeros((tm + 7, tn), np.float32), np.zeros((2 * tk, tn), dtype), tm, tn, tk),
                  {2: want, 3: rows}, 5e-3)


@ct.kernel
def squared(x, out, t: Const):
    """A power of a matrix by its binary digits: a product of a tile with itself, and one in a branch."""
    e = ct.bid(0) + 3
    p = ct.load(x, (0, 0), (t, t))
    r = ct.arange(t, dtype=ct.int32)
    acc = ct.where(r[:, None] == r[None, :], 1, 0).astype(x.dtype)
    while e > 0:
        if e & 1 == 1:
            acc = ct.mma(acc, p, ct.zeros((t, t), ct.float32)).astype(x.dtype)
        p = ct.mma(p, p, ct.zeros((t, t), ct.float32)).astype(x.dtype)
        e = e >> 1
    ct.store(out, (ct.bid(0), 0, 0), acc.reshape((1, t, t)))


@program((np.float16, 64), (bf16, 128), (np.float16, 16), (np.float32, 32))
def powers_by_binary_digits(dtype, t):
    """A permutation's matrix, some of whose signs are turned: all powers are exact."""
    order, signs = np.random.default_rng(t).permutation(t), np.where(np.arange(t) % 3, 1, -1)
    x = np.zeros((t, t), dtype)
    x[np.arange(t), order] = signs
    want = np.stack([np.linalg.matrix_power(wide(x), e) for e in (3, 4, 5, 6)])
    return Launch(squared, (4,), (x, np.zeros((4, t, t), dtype), t), {1: want})


@ct.kernel
def with_the_one_before(a, b, out, t: Const, tk: Const):
    """Behind the loop the accumulator is wanted, what it was an iteration before, and their difference in each iteration."""
    i = ct.bid(0)
    acc, before, most = ct.zeros((t, t), ct.float32), ct.full((t, t), 7, ct.float32), ct.zeros((t, t), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        old = acc
        acc = ct.mma(ct.load(a, (i, k), (t, tk), padding_mode=ZERO), ct.load(b, (k, 0), (tk, t), padding_mode=ZERO), acc)
        most, before = ct.maximum(most, ct.abs(acc - old)), old
    ct.store(out, (i, 0, 0), acc.reshape((1, t, t)))
    ct.store(out, (i, 1, 0), before.reshape((1, t, t)))
    ct.store(out, (i, 2, 0), most.reshape((1, t, t)))


@program((np.float16, 64, 32, 3), (bf16, 128, 64, 2), (np.float32, 32, 16, 3), (np.float16, 64, 64, 0), (np.float16, 128, 32, 1),
         quick=True)
def product_and_the_one_before(dtype, t, tk, steps):
    a, b = draw(2 * t, steps * tk, dtype=dtype), draw(steps * tk, t, dtype=dtype)
    parts = [wide(a)[:, k:k + tk] @ wide(b)[k:k + tk] for k in range(0, steps * tk, tk)]
    sums = np.cumsum([np.zeros((2 * t, t)), *parts], 0)
    last = np.full((2 * t, t), 7) if not steps else sums[-2]
    most = np.abs(parts).max(0) if steps else sums[0]
    want = np.stack([sums[-1].reshape(2, t, t), last.reshape(2, t, t), most.reshape(2, t, t)], 1).reshape(2, 3 * t, t)
    return Launch(with_the_one_before, (2,), (a, b, np.zeros((2, 3 * t, t), np.float32), t, tk), {2: want}, 5e-3)


@ct.kernel
def crossed_accumulators(a, b, out, t: Const, tk: Const):
    """Two accumulators change places each time, with a third that is one of them seen late."""
    p, q, r = ct.zeros((t, t), ct.float32), ct.full((t, t), 1, ct.float32), ct.zeros((t, t), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        x, y = ct.load(a, (0, k), (t, tk), padding_mode=ZERO), ct.load(b, (k, 0), (tk, t), padding_mode=ZERO)
        p, q, r = ct.mma(x, y, q), ct.mma(y.transpose(), x.transpose(), p), r * 0.5 + q
    ct.store(out, (0, 0), p)
    ct.store(out, (1, 0), q)
    ct.store(out, (2, 0), r)


@program((np.float16, 64, 32, 3), (bf16, 128, 64, 4), (np.float32, 32, 16, 3), (np.float16, 64, 64, 1), quick=True)
def product_of_crossed_accumulators(dtype, t, tk, steps):
    a, b = draw(t, steps * tk, dtype=dtype), draw(steps * tk, t, dtype=dtype)
    p, q, r = np.zeros((t, t)), np.ones((t, t)), np.zeros((t, t))
    for k in range(0, steps * tk, tk):
        z = wide(a)[:, k:k + tk] @ wide(b)[k:k + tk]
        p, q, r = z + q, z.T + p, r * .5 + q
    return Launch(crossed_accumulators, (1,), (a, b, np.zeros((3 * t, t), np.float32), t, tk), {2: np.concatenate([p, q, r])}, 5e-3)


@ct.kernel
def gated_delta_rule(q, k, w, u, gates, out, last, t: Const, d: Const, e: Const):
    """Chunks of the gated delta rule behind what is known within them: five products a step around one state."""
    b, j = ct.bid(0), ct.bid(1)
    s, i = ct.zeros((d, e), ct.float32), ct.arange(t, dtype=ct.int32)
    for c in range(ct.cdiv(q.shape[1], t)):
        x = ct.load(q, (b, c, 0), (1, t, d), padding_mode=ZERO).reshape((t, d))
        y = ct.load(k, (b, c, 0), (1, t, d), padding_mode=ZERO).reshape((t, d))
        z = ct.load(w, (b, c, 0), (1, t, d), padding_mode=ZERO).reshape((t, d))
        v = ct.load(u, (b, c, j), (1, t, e), padding_mode=ZERO).reshape((t, e))
        g = ct.load(gates, (b, c), (1, t), padding_mode=ZERO).reshape((t,))
        state = s.astype(q.dtype)
        new = (v.astype(ct.float32) - ct.mma(z, state, ct.zeros((t, e), ct.float32))).astype(q.dtype)
        a = ct.mma(x, y.transpose(), ct.zeros((t, t), ct.float32)) * ct.exp(g[:, None] - g[None, :])
        a = ct.where(i[:, None] >= i[None, :], a, 0.0)
        o = ct.mma(x, state, ct.zeros((t, e), ct.float32)) * ct.exp(g)[:, None]
        ct.store(out, (b, c, j), ct.mma(a.astype(q.dtype), new, o).reshape((1, t, e)))
        end = ct.min(g)
        y = (y.astype(ct.float32) * ct.exp(end - g)[:, None]).astype(q.dtype)
        s = ct.mma(y.transpose(), new, s * ct.exp(end))
    ct.store(last, (b, 0, j), s.reshape((1, d, e)))


@program((bf16, 64, 128, 64, 5), (np.float16, 64, 64, 64, 4), (np.float16, 128, 64, 32, 3), (bf16, 64, 64, 128, 1),
         (np.float16, 32, 32, 32, 4), quick=True)
def recurrence_by_the_gated_delta_rule(dtype, t, d, e, chunks):
    n = t * chunks
    q, k, w = (draw(2, n, d, dtype=dtype, scale=.8 / d ** .5, seed=seed) for seed in range(3))
    u = draw(2, n, 2 * e, dtype=dtype, seed=3)
    gates = -np.cumsum(np.abs(draw(2, chunks, t, dtype=np.float32, scale=.02, seed=4)), -1)
    out, last = np.zeros((2, n, 2 * e)), np.zeros((2, d, 2 * e))
    for b in range(2):
        for c in range(chunks):
            x, y, z, v = (wide(m[b, c * t:(c + 1) * t]) for m in (q, k, w, u))
            g = gates[b, c].astype(np.float64)
            new = v - z @ last[b]
            a = np.tril(x @ y.T * np.exp(np.minimum(g[:, None] - g, 0)))
            out[b, c * t:(c + 1) * t] = np.exp(g)[:, None] * (x @ last[b]) + a @ new
            last[b] = np.exp(g[-1]) * last[b] + (np.exp(g[-1] - g)[:, None] * y).T @ new
    made = np.zeros(out.shape, np.float32), np.zeros(last.shape, np.float32)
    return Launch(gated_delta_rule, (2, 2), (q, k, w, u, gates.reshape(2, n), *made, t, d, e), {5: out, 6: last},
                  .15 if dtype is bf16 else 3e-2)


@ct.kernel
def rank_one(q, k, v, out, last, scale, d: Const, e: Const):
    """Linear attention, a step a time: products of single columns and rows, and of a row that threads make with the state."""
    h = ct.bid(0)
    state = ct.zeros((d, e), ct.float32)
    for i in range(q.shape[1]):
        x = ct.load(q, (h, i, 0), (1, 1, d)).reshape((d,)).astype(ct.float32) * scale
        y = ct.load(k, (h, i, 0), (1, 1, d)).reshape((d, 1))
        z = ct.load(v, (h, i, 0), (1, 1, e)).reshape((1, e))
        state = state + ct.mma(y, z, ct.zeros((d, e), ct.float32))
        ct.store(out, (h, i, 0), ct.mma(x.reshape((1, d)), state, ct.zeros((1, e), ct.float32)).reshape((1, 1, e)))
    ct.store(last, (h, 0, 0), state.reshape((1, d, e)))


@program((bf16, 64, 64, 7), (np.float16, 64, 32, 1), (bf16, 32, 64, 0), (np.float16, 16, 16, 3), (np.float32, 64, 64, 5))
def recurrence_of_rank_one_updates(dtype, d, e, steps, heads=2):
    q, k = (draw(heads, steps, d, dtype=dtype, seed=s) for s in (0, 1))
    v = draw(heads, steps, e, dtype=dtype, seed=2)
    states = np.cumsum(wide(k)[:, :, :, None] * wide(v)[:, :, None, :], 1)
    out = np.einsum("htd,htde->hte", wide(q) * 0.125, states)
    last = states[:, -1] if steps else np.zeros((heads, d, e))
    empty = np.zeros((heads, steps, e), np.float32), np.zeros((heads, d, e), np.float32)
    return Launch(rank_one, (heads,), (q, k, v, *empty, 0.125, d, e), {3: out, 4: last}, 5e-3)
