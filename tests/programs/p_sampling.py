"""What follows a model's last product: penalties by bit masks, thresholds found by bisection instead of sorting, choices by noise,
drafts accepted or rejected, attention under masks of trees, of windows and of sinks, losses that overwrite logits."""
import cuda.tile as ct
import numpy as np

from tests.programs.programs import Launch, bf16, blocks, draw, program, whole, wide

Const = ct.Constant[int]
ZERO, LEAST = ct.PaddingMode.ZERO, ct.PaddingMode.NEG_INF


@ct.kernel
def penalize(logits, prompt, counts, allowed, repetition, frequency, presence, t: Const):
    """In place: what a prompt has (bits of words), what was said how often, and what a grammar allows (bits of words)."""
    i, j = ct.bid(0), ct.bid(1)
    at = j * t + ct.arange(t, dtype=ct.int32)
    x = ct.load(logits, (i, j), (1, t), padding_mode=ZERO).reshape((t,)).astype(ct.float32)
    n = ct.gather(counts, (i, at))
    seen = ((ct.gather(prompt, (i, at >> 5)) >> (at & 31).astype(ct.uint32)) & 1) != 0
    r = ct.load(repetition, (i,), ())
    x = ct.where(seen | (n > 0), ct.where(x > 0.0, x / r, x * r), x)
    x = x - ct.load(frequency, (i,), ()) * n.astype(ct.float32) - ct.where(n > 0, ct.load(presence, (i,), ()), 0.0)
    may = (ct.gather(allowed, (i, at // 32)) >> (at % 32)) & 1
    ct.store(logits, (i, j), ct.where(may != 0, x, -float("inf")).astype(logits.dtype).reshape((1, t)))


@program((np.float32, 128), (bf16, 1024), (np.float16, 32), quick=True)
def logits_penalized_in_place(dtype, t):
    rows, n = 3, 2 * t + t // 2 - 3
    rng = np.random.default_rng(t)
    logits = (whole(rows, n, low=-20, high=20) / 4).astype(dtype)
    words = blocks(n, 32)
    prompt = rng.integers(0, 2**32, (rows, words), dtype=np.uint32)
    allowed = rng.integers(-2**31, 2**31, (rows, words)).astype(np.int32)
    counts = np.maximum(whole(rows, n, low=-6, high=3), 0)
    r, f, p = np.array([1, 2, .5], np.float32), np.array([0, .25, 1], np.float32), np.array([.5, 0, 2], np.float32)
    at = np.arange(n)
    seen = (prompt[:, at // 32] >> (at % 32).astype(np.uint32) & np.uint32(1)) != 0
    x = wide(logits)
    x = np.where(seen | (counts > 0), np.where(x > 0, x / r[:, None], x * r[:, None]), x)
    x = x - f[:, None] * counts - np.where(counts > 0, p[:, None], 0)
    want = np.where((allowed[:, at // 32] >> (at % 32)) & 1, x, -np.inf)
    tolerance = 1e-6 if dtype is np.float32 else 1e-2
    return Launch(penalize, (rows, 3), (logits, prompt, counts, allowed, r, f, p, t), {0: want}, tolerance)


@ct.kernel
def bounded(logits, ks, ps, least, noise, out, kept, t: Const):
    """The k-th largest probability and the share p by bisections that end when nothing lies between; then a share of the largest;
    the choice is where probability over noise is largest."""
    i = ct.bid(0)
    x = ct.load(logits, (i, 0), (1, t), padding_mode=LEAST).reshape((t,)).astype(ct.float32)
    e = ct.exp(x - ct.max(x))
    k, p = ct.load(ks, (i,), ()), ct.load(ps, (i,), ())
    low, high = ct.zeros((), ct.float32), ct.full((), 2.0, ct.float32)
    going = True
    while going:
        middle = (low + high) * 0.5
        enough = ct.sum((e >= middle).astype(ct.int32)) >= k
        low, high = ct.where(enough, middle, low), ct.where(enough, high, middle)
        going = ct.sum(((e >= low) & (e < high)).astype(ct.int32)) > 0 and (low + high) * 0.5 > low and (low + high) * 0.5 < high
        if ct.max(ct.where((e >= low) & (e < high), e, 0.0)) == ct.min(ct.where((e >= low) & (e < high), e, 3.0)):
            break
    e = ct.where(e >= low, e, 0.0)
    share = ct.sum(e) * p
    low, high = ct.zeros((), ct.float32), ct.full((), 2.0, ct.float32)
    for _ in range(40):
        middle = (low + high) * 0.5
        enough = ct.sum(ct.where(e >= middle, e, 0.0)) >= share
        low, high = ct.where(enough, middle, low), ct.where(enough, high, middle)
    e = ct.where(e >= low, e, 0.0)
    e = ct.where(e >= ct.load(least, (i,), ()), e, 0.0)
    ct.store(kept, (i,), ct.sum((e > 0.0).astype(ct.int32)))
    q = ct.load(noise, (i, 0), (1, t), padding_mode=ZERO).reshape((t,))
    ct.store(out, (i,), ct.argmax(ct.where(e > 0.0, e / q, -1.0)))


@program((np.float32, 128), (bf16, 1024), (np.float16, 4096), quick=True)
def sampling_within_bounds(dtype, t):
    """The probabilities differ by a quarter of a power at least, or are the same: no sum is close to its bound."""
    n, rows = t - 3, 5
    rng = np.random.default_rng(t)
    logits = np.stack([rng.permutation(n) * -.25 for _ in range(rows)]).astype(dtype)
    logits[4] = 0
    ks, ps = np.array([5, n, 1, 20, 3], np.int32), np.array([1, .7, .9, .8, 1], np.float32)
    least = np.array([0, 0, 0, .3, 0], np.float32)
    noise = rng.exponential(1, (rows, n)).astype(np.float32) + np.float32(1e-3)
    kept, out = np.zeros(rows, np.int32), np.zeros(rows, np.int32)
    for i in range(rows):
        e = np.exp(wide(logits[i]) - wide(logits[i]).max())
        e = np.where(e >= np.sort(e)[-ks[i]], e, 0)
        order = np.argsort(-e, kind="stable")
        sums = np.cumsum(e[order])
        count = int(np.searchsorted(sums, ps[i] * sums[-1] * (1 - 1e-9))) + 1 if ps[i] < 1 else n
        e = np.where(e >= e[order[min(count, n) - 1]], e, 0)
        e = np.where(e >= least[i], e, 0)
        kept[i], out[i] = (e > 0).sum(), np.argmax(np.where(e > 0, e / noise[i], -1))
    return Launch(bounded, (rows,), (logits, ks, ps, least, noise, np.zeros(rows, np.int32), np.zeros(rows, np.int32), t),
                  {5: out, 6: kept})


@ct.kernel
def accept(drafts, target, draft, uniform, bonus, out, starts, v: Const, most: Const):
    """Drafts of a sequence one by one, until one is rejected: then the likeliest of what the target has more of; else the bonus."""
    b = ct.bid(0)
    lo, hi = ct.load(starts, (b,), ()), ct.load(starts, (b + 1,), ())
    row = ct.full((most,), -1, ct.int32)
    at = ct.arange(most, dtype=ct.int32)
    rejected = False
    n = 0
    for i in range(lo, hi):
        token = ct.load(drafts, (i,), ())
        p, q = ct.gather(target, (i, token)), ct.gather(draft, (i, token))
        if ct.load(uniform, (i,), ()) * q > p:
            rest = ct.load(target, (i, 0), (1, v), padding_mode=ZERO) - ct.load(draft, (i, 0), (1, v), padding_mode=ZERO)
            row = ct.where(at == n, ct.argmax(ct.maximum(rest, 0.0).reshape((v,))), row)
            rejected = True
            n = n + 1
            break
        row = ct.where(at == n, token, row)
        n = n + 1
    if not rejected:
        row = ct.where(at == n, ct.load(bonus, (b,), ()), row)
    ct.store(out, (b, 0), row.reshape((1, most)))


@program((128, 8), (1024, 4), (16, 16))
def drafts_accepted_or_rejected(v, most):
    lengths = [most - 1, 0, 2, 1, most - 1]
    starts = np.cumsum([0, *lengths]).astype(np.int32)
    n, rng = int(starts[-1]), np.random.default_rng(v)
    target, draft = (rng.dirichlet(np.ones(v - 3), n).astype(np.float32) for _ in range(2))
    drafts = rng.integers(0, v - 3, n).astype(np.int32)
    uniform = rng.uniform(0, 1, n).astype(np.float32)
    uniform[starts[4]:] = 0
    bonus, want = rng.integers(0, v - 3, 5).astype(np.int32), np.full((5, most), -1, np.int32)
    for b in range(5):
        at = 0
        for i in range(starts[b], starts[b + 1]):
            token = drafts[i]
            if uniform[i] * draft[i, token] > target[i, token]:
                want[b, at] = np.argmax(np.maximum(target[i] - draft[i], 0))
                break
            want[b, at] = token
            at += 1
        else:
            want[b, at] = bonus[b]
    return Launch(accept, (5,), (drafts, target, draft, uniform, bonus, np.zeros((5, most), np.int32), starts, v, most), {5: want})


@ct.kernel
def under_bits(q, k, v, masks, lengths, out, tm: Const, tk: Const, d: Const, dv: Const):
    """Drafts in a tree behind a cached context: a draft sees all of the context, and those of the tree whose bit is set."""
    b, h = ct.bid(0), ct.bid(1)
    context = ct.load(lengths, (b,), ())
    x = ct.load(q, (b, 0, h, 0), (1, tm, 1, d), padding_mode=ZERO).reshape((tm, d))
    word = ct.load(masks, (b, 0), (1, tm), padding_mode=ZERO).reshape((tm, 1))
    top, total = ct.full((tm, 1), -1e30, ct.float32), ct.zeros((tm, 1), ct.float32)
    acc = ct.zeros((tm, dv), ct.float32)
    for j in range(ct.cdiv(context + q.shape[1], tk)):
        y = ct.load(k, (b, j, h, 0), (1, tk, 1, d), padding_mode=ZERO).reshape((tk, d))
        s = ct.mma(x, y.transpose(), ct.zeros((tm, tk), ct.float32))
        at = (j * tk + ct.arange(tk, dtype=ct.int32))[None, :] - context
        bit = (word >> ct.minimum(ct.maximum(at, 0), 63).astype(ct.int64)) & 1
        s = ct.where((at < 0) | ((at < q.shape[1]) & (bit != 0)), s, -1e30)
        new = ct.maximum(top, ct.max(s, axis=1, keepdims=True))
        p, old = ct.exp(s - new), ct.exp(top - new)
        total = total * old + ct.sum(p, axis=1, keepdims=True)
        z = ct.load(v, (b, j, h, 0), (1, tk, 1, dv), padding_mode=ZERO).reshape((tk, dv))
        acc = ct.mma(p.astype(z.dtype), z, acc * old)
        top = new
    ct.store(out, (b, 0, h, 0), (acc / total).astype(out.dtype).reshape((1, tm, 1, dv)))


@program((np.float16, 16, 64, 64, 64, 11), (bf16, 64, 128, 128, 64, 60), (np.float32, 8, 16, 32, 16, 7),
         (bf16, 32, 32, 64, 128, 32))
def attention_under_masks_of_trees(dtype, tm, tk, d, dv, drafts):
    b, heads, lengths = 2, 2, np.array([3 * tk - 5, 2], np.int32)
    room = 3 * tk - 5 + drafts + 9
    q, k = draw(b, drafts, heads, d, dtype=dtype, scale=d**-.5), draw(b, room, heads, d, dtype=dtype)
    v = draw(b, room, heads, dv, dtype=dtype, seed=1)
    parents = [max(0, (i - 1) // 2) for i in range(drafts)]
    masks = np.zeros((b, drafts), np.int64)
    for i in range(drafts):
        masks[:, i] = (masks[:, parents[i]] if i else 0) | np.int64(1) << i
    want = np.zeros((b, drafts, heads, dv))
    for n in range(b):
        see = np.ones((drafts, lengths[n] + drafts), bool)
        see[:, lengths[n]:] = (masks[n][:, None] >> np.arange(drafts)) & 1
        s = np.einsum("qhd,khd->hqk", wide(q[n]), wide(k[n, :lengths[n] + drafts]))
        e = np.where(see, np.exp(s - s.max(2, keepdims=True)), 0)
        want[n] = np.einsum("hqk,khd->qhd", e / e.sum(2, keepdims=True), wide(v[n, :lengths[n] + drafts]))
    return Launch(under_bits, (b, heads), (q, k, v, masks, lengths, np.zeros(want.shape, dtype), tm, tk, d, dv), {5: want},
                  1e-4 if dtype is np.float32 else 2e-2)


@ct.kernel
def in_a_window(q, k, v, sinks, slopes, out, window: int, cap: float, tm: Const, tk: Const, d: Const, groups: Const):
    """Scores are capped and sloped, then only a window before each query counts, and a sink of its head; keys that no query sees
    aren't loaded, those that all see aren't masked."""
    i, h = ct.bid(0), ct.bid(1)
    x = ct.load(q, (h, i, 0), (1, tm, d), padding_mode=ZERO).reshape((tm, d))
    slope = ct.load(slopes, (h,), ())
    top = ct.full((tm, 1), ct.load(sinks, (h,), ()), ct.float32)
    total, acc = ct.ones((tm, 1), ct.float32), ct.zeros((tm, d), ct.float32)
    row = (i * tm + ct.arange(tm, dtype=ct.int32))[:, None]
    first = max(0, i * tm - window + 1) // tk
    for j in range(first, ct.cdiv(min((i + 1) * tm, q.shape[1]), tk)):
        y = ct.load(k, (h // groups, 0, j), (1, d, tk), order=(0, 2, 1), padding_mode=ZERO).reshape((d, tk))
        column = (j * tk + ct.arange(tk, dtype=ct.int32))[None, :]
        s = ct.mma(x, y, ct.zeros((tm, tk), ct.float32))
        s = ct.tanh(s / cap) * cap + slope * (column - row).astype(ct.float32)
        if j * tk + tk - 1 > i * tm or j * tk <= i * tm + tm - 1 - window:
            s = ct.where((column <= row) & (column > row - window), s, -1e30)
        new = ct.maximum(top, ct.max(s, axis=1, keepdims=True))
        p, old = ct.exp(s - new), ct.exp(top - new)
        total = total * old + ct.sum(p, axis=1, keepdims=True)
        z = ct.load(v, (h // groups, j, 0), (1, tk, d), padding_mode=ZERO).reshape((tk, d))
        acc = ct.mma(p.astype(z.dtype), z, acc * old)
        top = new
    ct.store(out, (h, i, 0), (acc / total).astype(out.dtype).reshape((1, tm, d)))


@program((np.float16, 64, 32, 64, 2, 50), (bf16, 128, 128, 64, 1, 200), (np.float32, 16, 16, 16, 4, 7), (bf16, 64, 128, 128, 2, 1))
def attention_in_windows_with_sinks(dtype, tm, tk, d, groups, window):
    heads, n = 4, 3 * max(tm, tk) - 5
    q = draw(heads, n, d, dtype=dtype, scale=2 * d**-.5)
    k, v = draw(heads // groups, n, d, dtype=dtype), draw(heads // groups, n, d, dtype=dtype, seed=1)
    sinks, slopes = draw(heads, dtype=np.float32), np.array([0, .5, .25, .0625], np.float32)
    at = np.arange(n)
    s = np.einsum("hqd,hkd->hqk", wide(q), np.repeat(wide(k), groups, 0))
    s = np.tanh(s / 5) * 5 + wide(slopes)[:, None, None] * (at - at[:, None])
    e = np.where((at <= at[:, None]) & (at > at[:, None] - window), np.exp(s), 0)
    want = np.einsum("hqk,hkd->hqd", e / (e.sum(2) + np.exp(wide(sinks))[:, None])[..., None], np.repeat(wide(v), groups, 0))
    return Launch(in_a_window, (blocks(n, tm), heads), (q, k, v, sinks, slopes, np.zeros(want.shape, dtype), window, 5.0, tm, tk, d,
                                                        groups), {5: want}, 1e-4 if dtype is np.float32 else 2e-2)


@ct.kernel
def divergence(student, teacher, labels, loss, beta: float, scale: float, ignored: int, t: Const):
    """A generalized divergence between two rows of log probabilities; the gradient takes the first one's place."""
    i = ct.bid(0)
    if ct.load(labels, (i,), ()) == ignored:
        for j in range(ct.cdiv(student.shape[1], t)):
            ct.store(student, (i, j), ct.zeros((1, t), student.dtype))
        ct.store(loss, (i,), 0.0)
    else:
        acc = ct.zeros((1, t), ct.float32)
        for j in range(ct.cdiv(student.shape[1], t)):
            x = ct.load(student, (i, j), (1, t), padding_mode=LEAST).astype(ct.float32)
            y = ct.load(teacher, (i, j), (1, t), padding_mode=LEAST).astype(ct.float32)
            q, p = ct.exp(x), ct.exp(y)
            m = beta * p + (1.0 - beta) * q
            logm = ct.where(m > 0.0, ct.log(m), 0.0)
            there = m > 0.0
            acc = acc + ct.where(there, beta * p * (ct.where(p > 0.0, y, 0.0) - logm) + (1.0 - beta) * q * (x - logm), 0.0)
            ct.store(student, (i, j), (ct.where(there, (1.0 - beta) * q * (x - logm), 0.0) * scale).astype(student.dtype))
        ct.store(loss, (i,), ct.sum(acc) * scale)


@program((np.float32, 256, 1000), (bf16, 1024, 3001), (np.float16, 128, 128), (np.float32, 4096, 5000))
def divergence_of_rows_and_its_gradient(dtype, t, n):
    rows, beta, scale = 4, .3, .25
    labels = np.array([1, -100, 3, 4], np.int32)

    def logs(seed):
        x = wide(draw(rows, n, dtype=np.float32, scale=2, seed=seed))
        return (x - np.log(np.exp(x).sum(1, keepdims=True))).astype(dtype)
    student, teacher = logs(0), logs(1)
    x, y = wide(student), wide(teacher)
    q, p = np.exp(x), np.exp(y)
    logm = np.log(beta * p + (1 - beta) * q)
    here = (labels != -100)[:, None]
    gradient = np.where(here, (1 - beta) * q * (x - logm) * scale, 0)
    loss = np.where(here, beta * p * (y - logm) + (1 - beta) * q * (x - logm), 0).sum(1) * scale
    return Launch(divergence, (rows,), (student, teacher, labels, np.zeros(rows, np.float32), beta, scale, -100, t),
                  {0: gradient, 3: loss}, 2e-4 if dtype is np.float32 else 1e-2)
