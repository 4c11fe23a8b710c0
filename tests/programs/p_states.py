"""States carried along sequences as in models without attention: convolutions with the last inputs kept, selective scans, chunks
of state-space duality, chunks of the delta rule with their triangle inverted, gates by channel, states by slot."""
import cuda.tile as ct
import numpy as np

from tests.programs.programs import Launch, bf16, draw, program, whole, wide

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


def sigmoid(x):
    return 1.0 / (1.0 + ct.exp(-x))


@ct.kernel
def causal_convolution(x, w, bias, starts, slots, state, out, width: Const, t: Const, d: Const):
    """One block a sequence of a packed batch and `d` channels: inputs before the sequence's first come from its slot of the state,
    which then takes the last ones; slots below zero are skipped."""
    q, c = ct.bid(0), ct.bid(1)
    slot = ct.load(slots, (q,), ())
    if slot < 0:
        return
    lo, hi = ct.load(starts, (q,), ()), ct.load(starts, (q + 1,), ())
    channel = c * d + ct.arange(d, dtype=ct.int32)
    b = ct.gather(bias, channel)
    for i in range(ct.cdiv(hi - lo, t)):
        at = i * t + ct.arange(t, dtype=ct.int32)
        acc = ct.broadcast_to(b.astype(ct.float32)[None, :], (t, d))
        for k in ct.static_iter(range(width)):
            place = at - (width - 1 - k)
            new = ct.gather(x, (lo + place[:, None], channel[None, :]), mask=(place >= 0)[:, None])
            old = ct.gather(state, (slot, channel[None, :], place[:, None] + (width - 1)), mask=(place < 0)[:, None])
            acc = acc + ct.where((place >= 0)[:, None], new, old).astype(ct.float32) * ct.gather(w, (channel, k)).astype(
                ct.float32)[None, :]
        y = acc * sigmoid(acc)
        ct.scatter(out, (lo + at[:, None], channel[None, :]), y.astype(out.dtype), mask=(lo + at < hi)[:, None])
    last = hi - lo - (width - 1) + ct.arange(width, dtype=ct.int32)
    kept = ct.gather(state, (slot, channel[None, :], last[:, None] + (width - 1)), mask=(last < 0)[:, None])
    fresh = ct.gather(x, (lo + last[:, None], channel[None, :]), mask=(last >= 0)[:, None])
    there = ct.arange(width, dtype=ct.int32) < width - 1
    ct.scatter(state, (slot, channel[None, :], ct.arange(width, dtype=ct.int32)[:, None]),
               ct.where((last >= 0)[:, None], fresh, kept), mask=there[:, None])


@program((np.float32, 4, 16, 32), (bf16, 4, 64, 64), (np.float16, 2, 8, 128), (np.float32, 8, 4, 16))
def convolutions_with_states(dtype, width, t, d):
    lengths, slots = [2 * t + 3, 1, t, 0, 5], np.array([3, 0, -1, 4, 2], np.int32)
    starts = np.cumsum([0, *lengths]).astype(np.int32)
    channels = 2 * d - 3
    x, w = draw(int(starts[-1]), channels, dtype=dtype), draw(channels, width, dtype=dtype, seed=1)
    bias, state = draw(channels, dtype=dtype, seed=2), draw(6, channels, width - 1, dtype=dtype, seed=3)
    out = np.zeros_like(x)
    want, after = wide(out), state.copy()
    for q, slot in enumerate(slots):
        if slot >= 0:
            row = np.concatenate([state[slot].T, x[starts[q]:starts[q + 1]]])
            n = lengths[q]
            y = wide(bias) + sum(wide(row)[k:k + n] * wide(w)[:, k] for k in range(width))
            want[starts[q]:starts[q + 1]] = y / (1 + np.exp(-y))
            after[slot] = row[n:].T
    return Launch(causal_convolution, (5, 2), (x, w, bias, starts, slots, state, out, width, t, d), {5: after, 6: want},
                  2e-5 if dtype is np.float32 else 2e-2)


def affine(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@ct.kernel
def selective(u, delta, a, b, c, skip, gate, h0, out, t: Const, d: Const, n: Const):
    """The step is a softplus; the state of `d` channels of `n` numbers goes through a scan of maps along each piece of time."""
    s, k = ct.bid(0), ct.bid(1)
    rate = -ct.exp(ct.load(a, (k, 0), (d, n)))
    h = ct.load(h0, (s, k, 0), (1, d, n)).reshape((1, d, n))
    weight = ct.load(skip, (k,), (d,))
    for i in range(ct.cdiv(u.shape[1], t)):
        x = ct.load(u, (s, i, k), (1, t, d), padding_mode=ZERO).reshape((t, d)).astype(ct.float32)
        step = ct.load(delta, (s, i, k), (1, t, d), padding_mode=ct.PaddingMode.NEG_INF).reshape((t, d)).astype(ct.float32)
        step = ct.where(step > 20.0, step, ct.log(1.0 + ct.exp(step)))
        decay = ct.exp(step.reshape((t, d, 1)) * rate[None, :, :])
        into = ct.load(b, (s, i, 0), (1, t, n), padding_mode=ZERO).reshape((t, 1, n)).astype(ct.float32)
        outof = ct.load(c, (s, i, 0), (1, t, n), padding_mode=ZERO).reshape((t, 1, n)).astype(ct.float32)
        product, sums = ct.scan((decay, (step * x).reshape((t, d, 1)) * into), 0, affine, (1.0, 0.0))
        states = product * h + sums
        z = ct.load(gate, (s, i, k), (1, t, d), padding_mode=ZERO).reshape((t, d)).astype(ct.float32)
        y = (ct.sum(states * outof, axis=2) + x * weight[None, :]) * (z * sigmoid(z))
        ct.store(out, (s, i, k), y.astype(out.dtype).reshape((1, t, d)))
        h = ct.extract(states, (t - 1, 0, 0), (1, d, n))
    ct.store(h0, (s, k, 0), h.reshape((1, d, n)))


@program((np.float32, 8, 8, 16), (bf16, 16, 16, 8), (np.float16, 32, 4, 16), (np.float32, 4, 32, 4))
def states_scanned_selectively(dtype, t, d, n):
    rows, channels, length = 2, 2 * d, 3 * t - 2
    u, delta, gate = (draw(rows, length, channels, dtype=dtype, seed=s) for s in range(3))
    delta[0, 1] = 25
    b, c = draw(rows, length, n, dtype=dtype, seed=4), draw(rows, length, n, dtype=dtype, seed=5)
    a, skip = draw(channels, n, dtype=np.float32, scale=.3), draw(channels, dtype=np.float32)
    h0 = draw(rows, channels, n, dtype=np.float32)
    h, want = wide(h0), np.zeros(u.shape)
    for i in range(length):
        step = np.log1p(np.exp(wide(delta[:, i])))
        h = np.exp(step[..., None] * -np.exp(wide(a))) * h + (step * wide(u[:, i]))[..., None] * wide(b[:, i])[:, None]
        z = wide(gate[:, i])
        want[:, i] = ((h * wide(c[:, i])[:, None]).sum(2) + wide(u[:, i]) * wide(skip)) * z / (1 + np.exp(-z))
    return Launch(selective, (rows, 2), (u, delta, a, b, c, skip, gate, h0, np.zeros_like(u), t, d, n), {7: h, 8: want},
                  1e-4 if dtype is np.float32 else 2e-2)


@ct.kernel
def duality(x, dt, rate, b, c, state, out, t: Const, p: Const, n: Const, groups: Const):
    """A chunk at a time: what it adds by itself (a product masked by decays), what the state adds, and the state after it."""
    h = ct.bid(0)
    s = ct.load(state, (h, 0, 0), (1, n, p)).reshape((n, p))
    a = ct.load(rate, (h,), ())
    at = ct.arange(t, dtype=ct.int32)
    for i in range(ct.cdiv(x.shape[0], t)):
        step = ct.load(dt, (i, h), (t, 1), padding_mode=ZERO).reshape((t,))
        sums = ct.cumsum(step * a, axis=0)
        total = ct.sum(step * a)
        u = ct.load(x, (i, h, 0), (t, 1, p), padding_mode=ZERO).reshape((t, p))
        k = ct.load(b, (i, h // groups, 0), (t, 1, n), padding_mode=ZERO).reshape((t, n))
        q = ct.load(c, (i, h // groups, 0), (t, 1, n), padding_mode=ZERO).reshape((t, n))
        scores = ct.mma(q, k.transpose(), ct.zeros((t, t), ct.float32))
        decay = ct.where(at[:, None] >= at[None, :], ct.exp(sums[:, None] - sums[None, :]) * step[None, :], 0.0)
        y = ct.mma((q.astype(ct.float32) * ct.exp(sums)[:, None]).astype(x.dtype), s.astype(x.dtype), ct.zeros((t, p), ct.float32))
        y = ct.mma((scores * decay).astype(x.dtype), u, y)
        ct.store(out, (i, h, 0), y.astype(out.dtype).reshape((t, 1, p)))
        scaled = (k.astype(ct.float32) * (ct.exp(total - sums) * step)[:, None]).astype(x.dtype)
        s = ct.mma(scaled.transpose(), u, s * ct.exp(total))
    ct.store(state, (h, 0, 0), s.reshape((1, n, p)))


@program((np.float16, 64, 64, 64, 2), (bf16, 128, 64, 128, 1), (np.float32, 16, 32, 16, 4), (bf16, 64, 128, 64, 2), quick=True)
def chunks_of_state_space_duality(dtype, t, p, n, groups):
    heads, length = 4, 2 * t + t // 2
    x, b, c = draw(length, heads, p, dtype=dtype), *(draw(length, heads // groups, n, dtype=dtype, scale=n**-.5, seed=s)
                                                       for s in (1, 2))
    dt = np.random.default_rng(0).uniform(.01, .1, (length, heads)).astype(np.float32)
    rate = -np.random.default_rng(1).uniform(.5, 2, heads).astype(np.float32)
    state = draw(heads, n, p, dtype=np.float32)
    s, want = wide(state), np.zeros((length, heads, p))
    for i in range(length):
        k, q = (np.repeat(wide(m[i]), groups, 0) for m in (b, c))
        step = wide(dt[i])[:, None, None]
        s = np.exp(step * wide(rate)[:, None, None]) * s + step * k[:, :, None] * wide(x[i])[:, None]
        want[i] = (q[:, :, None] * s).sum(1)
    return Launch(duality, (heads,), (x, dt, rate, b, c, state, np.zeros(x.shape, np.float32), t, p, n, groups), {5: s, 6: want},
                  1e-4 if dtype is np.float32 else 4e-2)


@ct.kernel
def delta_chunks(q, k, v, g, beta, state, out, t: Const, d: Const, p: Const):
    """The gated delta rule by chunks: a triangle below the diagonal is inverted row by row, in registers, between products."""
    h = ct.bid(0)
    s = ct.load(state, (h, 0, 0), (1, d, p)).reshape((d, p))
    at = ct.arange(t, dtype=ct.int32)
    for i in range(ct.cdiv(q.shape[1], t)):
        x = ct.load(q, (h, i, 0), (1, t, d), padding_mode=ZERO).reshape((t, d))
        y = ct.load(k, (h, i, 0), (1, t, d), padding_mode=ZERO).reshape((t, d))
        z = ct.load(v, (h, i, 0), (1, t, p), padding_mode=ZERO).reshape((t, p))
        w = ct.load(beta, (h, i), (1, t), padding_mode=ZERO).reshape((t,))
        sums = ct.cumsum(ct.load(g, (h, i), (1, t), padding_mode=ZERO).reshape((t,)), axis=0)
        total = ct.extract(sums.reshape((t,)), (t - 1,), (1,)).reshape(())
        decay = ct.exp(ct.where(at[:, None] >= at[None, :], sums[:, None] - sums[None, :], 0.0))
        products = ct.mma(y, y.transpose(), ct.zeros((t, t), ct.float32)) * decay * w[:, None]
        below = ct.where(at[:, None] > at[None, :], -products, 0.0)
        inverse = below
        for r in range(1, t):
            row = ct.sum(ct.where((at == r)[:, None], inverse, 0.0), axis=0)
            row = row + ct.sum(row[:, None] * inverse, axis=0)
            inverse = ct.where((at == r)[:, None], ct.where((at < r)[None, :], row[None, :], 0.0), inverse)
        inverse = (inverse + ct.where(at[:, None] == at[None, :], 1.0, 0.0)).astype(q.dtype)
        keys = y.astype(ct.float32) * w[:, None]
        u = ct.mma(inverse, (z.astype(ct.float32) * w[:, None]).astype(q.dtype), ct.zeros((t, p), ct.float32))
        erase = ct.mma(inverse, (keys * ct.exp(sums)[:, None]).astype(q.dtype), ct.zeros((t, d), ct.float32))
        new = u - ct.mma(erase.astype(q.dtype), s.astype(q.dtype), ct.zeros((t, p), ct.float32))
        mine = ct.mma(x, y.transpose(), ct.zeros((t, t), ct.float32)) * ct.where(at[:, None] >= at[None, :], decay, 0.0)
        result = ct.mma((x.astype(ct.float32) * ct.exp(sums)[:, None]).astype(q.dtype), s.astype(q.dtype),
                        ct.zeros((t, p), ct.float32))
        result = ct.mma(mine.astype(q.dtype), new.astype(q.dtype), result)
        ct.store(out, (h, i, 0), result.reshape((1, t, p)))
        kept = (y.astype(ct.float32) * ct.exp(total - sums)[:, None]).astype(q.dtype)
        s = ct.mma(kept.transpose(), new.astype(q.dtype), s * ct.exp(total))
    ct.store(state, (h, 0, 0), s.reshape((1, d, p)))


@program((np.float32, 16, 16, 16), (np.float16, 64, 64, 64), (bf16, 32, 128, 128), (bf16, 64, 128, 64))
def chunks_of_the_delta_rule(dtype, t, d, p):
    heads, length = 2, 2 * t + t // 4
    q, k, v = (draw(heads, length, n, dtype=np.float32, seed=s) for s, n in enumerate((d, d, p)))
    q, k = (x / np.linalg.norm(x, axis=2, keepdims=True) for x in (q, k))
    q, k, v = (x.astype(dtype) for x in (q, k, v))
    rng = np.random.default_rng(3)
    g, beta = -rng.uniform(0, .2, (heads, length)).astype(np.float32), rng.uniform(0, 1, (heads, length)).astype(np.float32)
    state = draw(heads, d, p, dtype=np.float32, scale=.5)
    s, want = wide(state), np.zeros((heads, length, p))
    for i in range(length):
        key = wide(k[:, i])[:, :, None]
        s = np.exp(wide(g[:, i]))[:, None, None] * s
        s = s + key * (wide(beta[:, i])[:, None] * (wide(v[:, i]) - (key * s).sum(1)))[:, None]
        want[:, i] = (wide(q[:, i])[:, :, None] * s).sum(1)
    return Launch(delta_chunks, (heads,), (q, k, v, g, beta, state, np.zeros(want.shape, np.float32), t, d, p), {5: s, 6: want},
                  2e-4 if dtype is np.float32 else 1e-1 if dtype is bf16 else 2e-2)


def by_tf32(a, b):
    """A product of tf32 that is rounded to tf32."""
    sums = ct.mma(a.astype(ct.tfloat32), b.astype(ct.tfloat32), ct.zeros((a.shape[0], b.shape[1]), ct.float32))
    return sums.astype(ct.tfloat32).astype(ct.float32)


@ct.kernel
def corrected_chunks(q, k, u, w, sums, state, out, t: Const, d: Const, p: Const):
    """The gated delta rule's way from chunk to chunk, by products of tf32: what the keys erase (`w`) and the values in its place
    (`u`) were computed before. The state stays in f32; a product's columns of tensor memory are another's when threads have it."""
    h = ct.bid(0)
    s = ct.load(state, (h, 0, 0), (1, d, p)).reshape((d, p))
    at = ct.arange(t, dtype=ct.int32)
    seen = at[:, None] >= at[None, :]
    for i in range(q.shape[1] // t):
        erased = ct.load(w, (h, i, 0), (1, t, d), padding_mode=ZERO).reshape((t, d)).astype(ct.float32)
        new = ct.load(u, (h, i, 0), (1, t, p), padding_mode=ZERO).reshape((t, p)).astype(ct.float32) - by_tf32(erased, s)
        x = ct.load(q, (h, i, 0), (1, t, d), padding_mode=ZERO).reshape((t, d)).astype(ct.float32)
        g = ct.load(sums, (h, i), (1, t), padding_mode=ZERO).reshape((t,))
        before = by_tf32(x * ct.exp(g)[:, None], s)
        y = ct.load(k, (h, i, 0), (1, t, d), padding_mode=ZERO).reshape((t, d)).astype(ct.float32)
        mine = by_tf32(x, y.transpose()) * ct.where(seen, ct.exp(g[:, None] - g[None, :]), 0.0)
        result = before + by_tf32(ct.where(seen, mine, 0.0), new)
        ct.store(out, (h, i, 0), result.reshape((1, t, p)))
        last = ct.load(sums, (h, i * t + t - 1), ())
        kept = y * ct.exp(last - g)[:, None]
        s = s * ct.exp(last) + by_tf32(kept.transpose(), new)
    ct.store(state, (h, 0, 0), s.reshape((1, d, p)))


def gated_inputs(dtype, t, d, p, heads, chunks, most):
    """Queries, keys, values in place of what is erased, what is erased, and the gates' logarithms summed within each chunk, each of
    them `most` at most."""
    shape = heads, chunks * t
    q, k, w = (draw(*shape, d, dtype=dtype, scale=.1, seed=s) for s in range(3))
    u = draw(*shape, p, dtype=dtype, seed=3)
    g = -np.random.default_rng(4).uniform(0, most, (heads, chunks, t)).astype(np.float32)
    return q, k, u, w, np.cumsum(g, axis=2, dtype=np.float32).reshape(shape)


def gated_by_chunks(q, k, u, w, g, s, t):
    """The state behind all chunks of `t`, from `s` on, and the results."""
    want = np.zeros(u.shape)
    for first in range(0, q.shape[1], t):
        mine = slice(first, first + t)
        x, y, sums = wide(q[:, mine]), wide(k[:, mine]), wide(g[:, mine])[:, :, None]
        new = wide(u[:, mine]) - wide(w[:, mine]) @ s
        scores = np.tril(x @ y.transpose(0, 2, 1) * np.exp(np.minimum(sums - sums.transpose(0, 2, 1), 0)))
        want[:, mine] = (x * np.exp(sums)) @ s + scores @ new
        last = sums[:, -1:]
        s = s * np.exp(last) + (y * np.exp(last - sums)).transpose(0, 2, 1) @ new
    return s, want


@program((bf16, 64, 128, 128, 2, 2), (np.float16, 64, 64, 128, 3, 3), (np.float32, 32, 32, 64, 2, 2), since=80)
def states_from_corrected_chunks(dtype, t, d, p, heads, chunks):
    q, k, u, w, g = gated_inputs(dtype, t, d, p, heads, chunks, .05)
    state = draw(heads, d, p, dtype=np.float32, scale=.5)
    s, want = gated_by_chunks(q, k, u, w, g, wide(state), t)
    return Launch(corrected_chunks, (heads,), (q, k, u, w, g, state, np.zeros(want.shape, np.float32), t, d, p),
                  {5: s, 6: want}, 2e-2)


@ct.kernel
def gated_states(q, k, w, u, sums, out, t: Const, d: Const, p: Const):
    """The gated delta rule's way from chunk to chunk, the state multiplied as the operands' type: five products, the keys' tile
    read by one product and, much later, by threads."""
    h = ct.bid(0)
    s = ct.zeros((d, p), ct.float32)
    at = ct.arange(t, dtype=ct.int32)
    for i in range(q.shape[1] // t):
        x, y = ct.load(q, (h, i, 0), (1, t, d)).reshape((t, d)), ct.load(k, (h, i, 0), (1, t, d)).reshape((t, d))
        erase, z = ct.load(w, (h, i, 0), (1, t, d)).reshape((t, d)), ct.load(u, (h, i, 0), (1, t, p)).reshape((t, p))
        g = ct.load(sums, (h, i), (1, t)).reshape((t,))
        half = s.astype(q.dtype)
        new = z.astype(ct.float32) - ct.mma(erase, half, ct.zeros((t, p), ct.float32))
        mine = ct.mma(x, y.transpose(), ct.zeros((t, t), ct.float32)) * ct.exp(g[:, None] - g[None, :])
        mine = ct.where(at[:, None] >= at[None, :], mine, 0.0)
        result = ct.mma(x, half, ct.zeros((t, p), ct.float32)) * ct.exp(g)[:, None]
        result = ct.mma(mine.astype(q.dtype), new.astype(q.dtype), result)
        ct.store(out, (h, i, 0), result.astype(out.dtype).reshape((1, t, p)))
        last = ct.min(g)
        kept = (y.astype(ct.float32) * ct.exp(last - g)[:, None]).astype(q.dtype)
        s = ct.mma(kept.transpose(), new.astype(q.dtype), s * ct.exp(last))


@program((bf16, 64, 128, 64), (np.float16, 64, 128, 32), (np.float16, 32, 64, 64))
def chunks_of_gated_states(dtype, t, d, p):
    heads = 2
    q, k, u, w, g = gated_inputs(dtype, t, d, p, heads, 4, .02)
    _, want = gated_by_chunks(q, k, u, w, g, np.zeros((heads, d, p)), t)
    return Launch(gated_states, (heads,), (q, k, w, u, g, np.zeros(want.shape, np.float32), t, d, p), {5: want},
                  5e-2 if dtype is bf16 else 1e-2)


@ct.kernel
def gated_by_channel(q, k, v, g, out, t: Const, d: Const, p: Const):
    """Linear attention with a gate of each channel: queries and keys are scaled by sums of the gates from the chunk's start on."""
    h = ct.bid(0)
    s = ct.zeros((d, p), ct.float32)
    at = ct.arange(t, dtype=ct.int32)
    for i in range(q.shape[1] // t):
        x, y = ct.load(q, (h, i, 0), (1, t, d)).reshape((t, d)), ct.load(k, (h, i, 0), (1, t, d)).reshape((t, d))
        z = ct.load(v, (h, i, 0), (1, t, p)).reshape((t, p))
        sums = ct.cumsum(ct.load(g, (h, i, 0), (1, t, d)).reshape((t, d)), axis=0)
        total = ct.extract(sums, (t - 1, 0), (1, d))
        a, b = (x * ct.exp(sums)).astype(q.dtype), (y * ct.exp(-sums)).astype(q.dtype)
        mine = ct.where(at[:, None] >= at[None, :], ct.mma(a, b.transpose(), ct.zeros((t, t), ct.float32)), 0.0)
        result = ct.mma(mine.astype(q.dtype), z, ct.mma(a, s.astype(q.dtype), ct.zeros((t, p), ct.float32)))
        ct.store(out, (h, i, 0), result.reshape((1, t, p)))
        s = ct.mma((y * ct.exp(total - sums)).astype(q.dtype).transpose(), z, s * ct.exp(total).reshape((d, 1)))


@program((np.float32, 16, 16, 32), (np.float16, 32, 64, 64), (bf16, 64, 128, 64), (np.float16, 16, 32, 128))
def attention_gated_by_channel(dtype, t, d, p):
    heads, length = 2, 3 * t
    q, k, v = (draw(heads, length, n, dtype=dtype, scale=.5, seed=s) for s, n in enumerate((d, d, p)))
    g = -np.random.default_rng(3).uniform(0, .05, (heads, length, d)).astype(np.float32)
    s, want = np.zeros((heads, d, p)), np.zeros((heads, length, p))
    for i in range(length):
        s = np.exp(wide(g[:, i]))[:, :, None] * s + wide(k[:, i])[:, :, None] * wide(v[:, i])[:, None]
        want[:, i] = (wide(q[:, i])[:, :, None] * s).sum(1)
    return Launch(gated_by_channel, (heads,), (q, k, v, g, np.zeros(want.shape, np.float32), t, d, p), {4: want},
                  1e-4 if dtype is np.float32 else 1e-1 if dtype is bf16 else 2e-2)


@ct.kernel
def one_step(q, k, v, decay, slots, states, out, d: Const, p: Const):
    """One token a sequence; states in slots are updated in place; a slot of -1 gives zeros."""
    b, h = ct.bid(0), ct.bid(1)
    slot = ct.load(slots, (b,), ())
    if slot < 0:
        ct.store(out, (b, h, 0), ct.zeros((1, 1, p), out.dtype))
    else:
        s = ct.load(states, (slot, h, 0, 0), (1, 1, d, p), padding_mode=ZERO).reshape((d, p)).astype(ct.float32)
        y = ct.load(k, (b, h, 0), (1, 1, d), padding_mode=ZERO).reshape((d, 1)).astype(ct.float32)
        z = ct.load(v, (b, h, 0), (1, 1, p), padding_mode=ZERO).reshape((1, p)).astype(ct.float32)
        s = s * ct.exp(ct.load(decay, (b, h), ())) + y * z
        x = ct.load(q, (b, h, 0), (1, 1, d), padding_mode=ZERO).reshape((d, 1)).astype(ct.float32)
        ct.store(out, (b, h, 0), ct.sum(x * s, axis=0).reshape((1, 1, p)).astype(out.dtype))
        ct.store(states, (slot, h, 0, 0), s.reshape((1, 1, d, p)).astype(states.dtype))


@program((np.float32, np.float32, 64, 64), (bf16, np.float32, 128, 128), (np.float16, bf16, 32, 16), (bf16, bf16, 256, 64))
def states_of_one_step_by_slot(dtype, kept, d, p):
    n, heads, slots = 4, 3, np.array([5, -1, 0, 2], np.int32)
    q, k, v = (draw(n, heads, m - 3, dtype=dtype, seed=s) for s, m in enumerate((d, d, p)))
    decay = -np.abs(draw(n, heads, dtype=np.float32))
    states = draw(6, heads, d - 3, p - 3, dtype=kept)
    after, want = wide(states), np.zeros((n, heads, p - 3))
    for b, slot in enumerate(slots):
        if slot >= 0:
            s = after[slot] * np.exp(wide(decay[b]))[:, None, None] + wide(k[b])[:, :, None] * wide(v[b])[:, None]
            after[slot], want[b] = s, (wide(q[b])[:, :, None] * s).sum(1)
    return Launch(one_step, (n, heads), (q, k, v, decay, slots, states, np.zeros(v.shape, dtype), d, p), {5: after, 6: want},
                  1e-4 if dtype is np.float32 else 2e-2)


@ct.kernel
def mixed_with_the_last(x, last, mix, w, out, t: Const, d: Const, n: Const):
    """Each row is mixed with the one before (the first with a kept one), then multiplied; the kept row changes behind it."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((t, n), ct.float32)
    row = i * t + ct.arange(t, dtype=ct.int32)
    for c in range(ct.cdiv(x.shape[1], d)):
        column = c * d + ct.arange(d, dtype=ct.int32)
        here = ct.load(x, (i, c), (t, d), padding_mode=ZERO)
        before = ct.gather(x, (row[:, None] - 1, column[None, :]))
        before = ct.where((row == 0)[:, None], ct.load(last, (c,), (d,), padding_mode=ZERO)[None, :], before)
        m = ct.load(mix, (c,), (d,), padding_mode=ZERO)[None, :]
        acc = ct.mma(here * m + before * (1 - m), ct.load(w, (c, j), (d, n), padding_mode=ZERO), acc)
    ct.store(out, (i, j), acc.astype(out.dtype))


@program((np.float16, 64, 64, 64), (bf16, 128, 32, 128), (np.float32, 16, 16, 32), (np.float16, 16, 128, 64))
def rows_mixed_with_the_last(dtype, t, d, n):
    rows, inner, columns = 2 * t - 3, 3 * d - 8, 2 * n - 8
    x, last = 2 * whole(rows, inner, dtype=dtype, low=-3, high=3), 2 * whole(inner, dtype=dtype, low=-3, high=3)
    mix, w = whole(inner, dtype=dtype, low=0, high=2) / dtype(2), whole(inner, columns, dtype=dtype, low=-2, high=2)
    before = np.concatenate([last[None], x[:-1]])
    want = (wide(x) * wide(mix) + wide(before) * (1 - wide(mix))) @ wide(w)
    return Launch(mixed_with_the_last, (2, 2), (x, last, mix.astype(dtype), w, np.zeros((rows, columns), np.float32), t, d, n),
                  {4: want}, 1e-3)
