"""Products as users write them: with norms, gates, residuals and scales around them, split along k, grouped, quantized, chained,
batched, sparse, and by two instructions on one accumulator."""
import cuda.tile as ct
import numpy as np

from tests.programs.programs import Launch, bf16, blocks, draw, e4m3, e8m0, program, whole, wide

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


def rough(dtype, fine, coarse):
    """A tolerance: bf16's is coarse."""
    return coarse if dtype is bf16 else fine


@ct.kernel
def normalized_linear(a, b, gain, out, tm: Const, tn: Const, tk: Const):
    i = ct.bid(0)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
        acc = ct.mma(x, ct.load(b, (k, 0), (tk, tn), padding_mode=ZERO), acc)
    scale = ct.rsqrt(ct.sum(acc * acc, axis=1, keepdims=True) / tn + 1e-5)
    ct.store(out, (i, 0), (acc * scale * ct.load(gain, (0,), (tn,)).reshape((1, tn))).astype(out.dtype))


@program((np.float16, 128, 128, 64, 300, 328), (bf16, 64, 256, 32, 130, 160), (np.float16, 128, 256, 64, 256, 256), quick=True)
def linear_normalized(dtype, tm, tn, tk, m, k):
    a, b, gain = draw(m, k, dtype=dtype), draw(k, tn, dtype=dtype, scale=.1), draw(tn, dtype=np.float32)
    y = wide(a) @ wide(b)
    y = y / np.sqrt((y * y).mean(1, keepdims=True) + 1e-5) * gain
    return Launch(normalized_linear, (blocks(m, tm),), (a, b, gain, np.zeros((m, tn), dtype), tm, tn, tk), {3: y},
                  rough(dtype, 4e-3, 2e-2))


@ct.kernel
def scaled_both_ways(a, b, sa, sb, out, tm: Const, tn: Const, tk: Const):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((tm, tn), ct.int32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        x, y = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), ct.load(b, (j, k), (tn, tk), padding_mode=ZERO)
        acc = ct.mma(x, y.transpose(), acc)
    y = acc.astype(ct.float32) * ct.load(sa, (i, 0), (tm, 1), padding_mode=ZERO) * ct.load(sb, (0, j), (1, tn), padding_mode=ZERO)
    ct.store(out, (i, j), y.astype(out.dtype))


@program((np.float16, 128, 128, 128), (bf16, 128, 128, 64), (np.float16, 128, 256, 64), (np.float32, 64, 128, 128), quick=True)
def bytes_scaled_by_rows_and_columns(dtype, tm, tn, tk):
    """Of 8 bits, tiles that hang over their arrays in all three directions."""
    m, n, k = 2 * tm - 16, 2 * tn - 24, 3 * tk - 32
    a, b = (draw(rows, k, dtype=np.int8, scale=40.0, seed=s) for s, rows in enumerate((m, n)))
    sa, sb = np.abs(draw(m, 1)) + 1e-3, np.abs(draw(1, n, seed=2)) * 1e-2
    want = (a.astype(np.int64) @ b.astype(np.int64).T) * sa * sb
    return Launch(scaled_both_ways, (2, 2), (a, b, sa.astype(np.float32), sb.astype(np.float32), np.zeros((m, n), dtype), tm, tn,
                                             tk),
                  {4: want}, rough(dtype, 2e-3, 1e-2))


@ct.kernel
def of_odd_rows(a, b, out, tm: Const, tn: Const, tk: Const):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((tm, tn), out.dtype)
    for k in range(ct.cdiv(a.shape[1], tk)):
        acc = ct.mma(ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), ct.load(b, (k, j), (tk, tn), padding_mode=ZERO), acc)
    ct.store(out, (i, j), acc)


@program((np.float16, 128, 128, 64), (bf16, 128, 256, 32), (np.int8, 128, 128, 64), (np.float16, 64, 128, 64), quick=True)
def products_of_odd_rows(dtype, tm, tn, tk):
    """None of the operands' rows is aligned: they go through registers."""
    m, n, k = 2 * tm - 7, tn + 9, 3 * tk + 5
    whole_numbers = dtype is np.int8
    scale = 30.0 if whole_numbers else 1.0
    a, b = draw(m, k, dtype=dtype, scale=scale), draw(k, n, dtype=dtype, scale=scale, seed=4)
    want = a.astype(np.int64) @ b.astype(np.int64) if whole_numbers else wide(a) @ wide(b)
    return Launch(of_odd_rows, (2, 2), (a, b, np.zeros((m, n), np.int32 if whole_numbers else np.float32), tm, tn, tk), {2: want},
                  0 if whole_numbers else 5e-3)


@ct.kernel
def gated_pair(a, b, c, out, tm: Const, tn: Const, tk: Const, group: Const):
    """Two products of one operand, blocks in groups of rows."""
    rows, columns = ct.cdiv(a.shape[0], tm), ct.cdiv(b.shape[0], tn)
    p = ct.bid(0)
    first = p // (group * columns) * group
    size = min(rows - first, group)
    i, j = first + p % (group * columns) % size, p % (group * columns) // size
    x, y = ct.zeros((tm, tn), ct.float32), ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        tile = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
        x = ct.mma(tile, ct.load(b, (j, k), (tn, tk), padding_mode=ZERO).permute((1, 0)), x)
        y = ct.mma(tile, ct.load(c, (j, k), (tn, tk), padding_mode=ZERO).permute((1, 0)), y)
    ct.store(out, (i, j), (x / (1 + ct.exp(-x)) * y).astype(out.dtype))


@program((np.float16, 128, 64, 64), (bf16, 128, 128, 32))
def products_gated(dtype, tm, tn, tk):
    m, n, k = 328, 264, 200
    a, b, c = (draw(m, k, dtype=dtype, scale=.3), draw(n, k, dtype=dtype, scale=.3), draw(n, k, dtype=dtype, scale=.3, seed=5))
    x, y = wide(a) @ wide(b).T, wide(a) @ wide(c).T
    return Launch(gated_pair, (blocks(m, tm) * blocks(n, tn),), (a, b, c, np.zeros((m, n), dtype), tm, tn, tk, 2),
                  {3: x / (1 + np.exp(-x)) * y}, rough(dtype, 5e-3, 3e-2))


@ct.kernel
def persistent(a, b, r, out, tm: Const, tn: Const, tk: Const):
    columns = ct.cdiv(b.shape[1], tn)
    for t in range(ct.bid(0), ct.cdiv(a.shape[0], tm) * columns, ct.num_blocks(0)):
        i, j = t // columns, t % columns
        acc = ct.zeros((tm, tn), ct.float32)
        for k in range(ct.cdiv(a.shape[1], tk)):
            x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
            acc = ct.mma(x, ct.load(b, (k, j), (tk, tn), padding_mode=ZERO), acc)
        acc = acc + ct.load(r, (i, j), (tm, tn), padding_mode=ZERO)
        ct.store(out, (i, j), ct.maximum(acc, 0).astype(out.dtype))


@program((np.float16, 128, 128, 64), (bf16, 64, 64, 64), (np.float16, 128, 256, 64))
def product_persistent_with_residual(dtype, tm, tn, tk):
    m, n, k = 392, 520, 192
    a, b, r = draw(m, k, dtype=dtype), draw(k, n, dtype=dtype, scale=.1), draw(m, n, dtype=np.float32)
    return Launch(persistent, (3,), (a, b, r, np.zeros((m, n), dtype), tm, tn, tk),
                  {3: np.maximum(wide(a) @ wide(b) + r, 0)}, rough(dtype, 5e-3, 3e-2))


@ct.kernel(occupancy=2)
def batch_with_masks(a, b, rows, out, tm: Const, tn: Const, tk: Const):
    """Tiles of a batch of products, those alone that begin in front of a batch's last row; two blocks share an SM."""
    high, wide_ = ct.cdiv(out.shape[1], tm), ct.cdiv(out.shape[2], tn)
    for t in range(ct.bid(0), out.shape[0] * high * wide_, ct.num_blocks(0)):
        q, i, j = t // (high * wide_), t // wide_ % high, t % wide_
        if i * tm < ct.load(rows, (q,), (1,)).item():
            acc = ct.zeros((tm, tn), ct.float32)
            for k in range(ct.cdiv(a.shape[2], tk)):
                x = ct.load(a, (q, i, k), (1, tm, tk), padding_mode=ZERO).reshape((tm, tk))
                acc = ct.mma(x, ct.load(b, (q, k, j), (1, tk, tn), padding_mode=ZERO).reshape((tk, tn)), acc)
            ct.store(out, (q, i, j), acc.astype(out.dtype).reshape((1, tm, tn)))


@program((np.float16, 128, 128, 64), (bf16, 128, 128, 128), (np.float16, 64, 128, 64), (np.float16, 128, 256, 64))
def product_batch_with_masks(dtype, tm, tn, tk):
    z, m, n, k = 3, 2 * tm + 8, 2 * tn - 8, 6 * tk - 8
    a, b = draw(z, m, k, dtype=dtype), draw(z, k, n, dtype=dtype)
    rows, want = np.array([tm + 1, 0, m], np.int32), np.zeros((z, m, n), dtype)
    for q, last in enumerate(rows):
        last = min(m, -(-last // tm) * tm)
        want[q, :last] = (wide(a[q, :last]) @ wide(b[q])).astype(dtype)
    return Launch(batch_with_masks, (2,), (a, b, rows, np.zeros((z, m, n), dtype), tm, tn, tk), {3: want},
                  3e-2 if dtype is bf16 else 5e-3)


@ct.kernel
def scaled_by_blocks(a, sa, b, sb, out, tm: Const, tn: Const, tk: Const):
    """f8 with a scale for each 128 elements of k: each step's product is scaled before it is added."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        y = ct.load(b, (j, k), (tn, tk), padding_mode=ZERO).permute((1, 0))
        part = ct.mma(ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), y, ct.zeros((tm, tn), ct.float32))
        acc = acc + part * ct.load(sa, (i, k), (tm, 1), padding_mode=ZERO) * ct.load(sb, (j, k), (1, 1))
    ct.store(out, (i, j), acc.astype(out.dtype))


@program((128, 128), (64, 128), since=90)
def product_of_f8_scaled_by_blocks(tm, tn):
    m, n, k = 200, 256, 512
    a, b = draw(m, k, dtype=e4m3), draw(n, k, dtype=e4m3)
    sa, sb = np.abs(draw(m, 4, dtype=np.float32)) + .1, np.abs(draw(n // tn, 4, dtype=np.float32)) + .1
    rows, columns = np.repeat(wide(sa), 128, 1), np.repeat(np.repeat(wide(sb), 128, 1), tn, 0)
    return Launch(scaled_by_blocks, (blocks(m, tm), n // tn), (a, sa, b, sb, np.zeros((m, n), bf16), tm, tn, 128),
                  {4: (wide(a) * rows) @ (wide(b) * columns).T}, 3e-2)


@ct.kernel
def promoted(a, sa, b, sb, out, tm: Const, tn: Const, tk: Const, inner: Const):
    """Sums in f16 over a few steps, scaled and added up in f32."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((tm, tn), ct.float32)
    for outer in range(ct.cdiv(a.shape[1], tk * inner)):
        part = ct.zeros((tm, tn), ct.float16)
        for step in range(inner):
            k = outer * inner + step
            x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
            part = ct.mma(x, ct.load(b, (k, j), (tk, tn), padding_mode=ZERO), part)
        scale = ct.load(sa, (i, outer), (tm, 1), padding_mode=ZERO) * ct.load(sb, (outer, j), (1, tn), padding_mode=ZERO)
        acc = acc + part.astype(ct.float32) * scale
    ct.store(out, (i, j), acc)


@program((np.float16, 128, 256, 64, 1), (np.float16, 64, 64, 32, 2), (e4m3, 128, 128, 64, 2), since=90)
def product_summed_in_two_types(dtype, tm, tn, tk, inner):
    step = tk * inner
    m, n, k = tm + 3, 2 * tn, 3 * step
    a, b = whole(m, k, dtype=dtype, low=-2, high=2), whole(k, n, dtype=dtype, low=-2, high=2)
    sa, sb = (np.random.default_rng(n).uniform(.5, 1, shape).astype(np.float32) for shape in ((m, 3), (3, n)))
    parts = (wide(a).reshape(m, 3, step).transpose(1, 0, 2) @ wide(b).reshape(3, step, n)) * sa.T[:, :, None] * sb[:, None]
    return Launch(promoted, (2, 2), (a, sa, b, sb, np.zeros((m, n), np.float32), tm, tn, tk, inner), {4: parts.sum(0)}, 1e-4)


@ct.kernel
def split_along_k(a, b, out, tm: Const, tn: Const, tk: Const):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.bid(2), ct.cdiv(a.shape[1], tk), ct.num_blocks(2)):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
        acc = ct.mma(x, ct.load(b, (k, j), (tk, tn), padding_mode=ZERO), acc)
    rows, columns = i * tm + ct.arange(tm, dtype=ct.int32), j * tn + ct.arange(tn, dtype=ct.int32)
    ct.atomic_add(out, (rows[:, None], columns[None, :]), acc)


@program((np.float16,), (bf16,), (np.float32,))
def product_split_along_k(dtype):
    m, n, k = 130, 136, 424
    a, b = draw(m, k, dtype=dtype), draw(k, n, dtype=dtype)
    return Launch(split_along_k, (2, 2, 3), (a, b, np.zeros((m, n), np.float32), 128, 128, 32), {2: wide(a) @ wide(b)},
                  2e-2 if dtype is np.float32 else 1e-3)


@ct.kernel
def grouped(x, w, offsets, out, tm: Const, tn: Const, tk: Const):
    """Groups of rows by gather and scatter, each with its weights."""
    e, j = ct.bid(0), ct.bid(1)
    lo, hi = ct.load(offsets, (e,), (1,)).item(), ct.load(offsets, (e + 1,), (1,)).item()
    for i in range(ct.cdiv(hi - lo, tm)):
        rows = lo + i * tm + ct.arange(tm, dtype=ct.int32)
        acc = ct.zeros((tm, tn), ct.float32)
        for k in range(ct.cdiv(x.shape[1], tk)):
            a = ct.gather(x, (rows[:, None], (k * tk + ct.arange(tk, dtype=ct.int32))[None, :]))
            acc = ct.mma(a, ct.load(w, (e, k, j), (1, tk, tn), padding_mode=ZERO).reshape((tk, tn)), acc)
        rows = ct.where(rows < hi, rows, out.shape[0])
        ct.scatter(out, (rows[:, None], (j * tn + ct.arange(tn, dtype=ct.int32))[None, :]), acc.astype(out.dtype))


@program((np.float16, 64, 64, 32), (bf16, 128, 128, 64), quick=True)
def product_grouped_by_gather(dtype, tm, tn, tk):
    offsets, k, n = np.array([0, 70, 70, 200, 333], np.int32), 96, 136
    x, w = draw(333, k, dtype=dtype), draw(4, k, n, dtype=dtype, scale=.2)
    want = np.concatenate([wide(x)[lo:hi] @ wide(w)[e] for e, (lo, hi) in enumerate(zip(offsets, offsets[1:]))])
    return Launch(grouped, (4, blocks(n, tn)), (x, w, offsets, np.zeros((333, n), dtype), tm, tn, tk), {3: want},
                  rough(dtype, 5e-3, 3e-2))


@ct.kernel
def dequantized(a, b, sa, sb, out, tm: Const, tn: Const, tk: Const):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((tm, tn), ct.int32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
        acc = ct.mma(x, ct.load(b, (k, j), (tk, tn), padding_mode=ZERO), acc)
    rows, columns = ct.load(sa, (i,), (tm,), padding_mode=ZERO)[:, None], ct.load(sb, (j,), (tn,), padding_mode=ZERO)[None, :]
    ct.store(out, (i, j), (acc.astype(ct.float32) * rows * columns).astype(out.dtype))


@program((128, 128, 64), (64, 128, 128))
def product_of_int8_scaled(tm, tn, tk):
    m, n, k = 200, 272, 208
    a, b = whole(m, k, dtype=np.int8, low=-128, high=127), whole(k, n, dtype=np.int8, low=-128, high=127)
    sa, sb = np.abs(draw(m, dtype=np.float32)) * np.float32(.01), np.abs(draw(n, dtype=np.float32)) * np.float32(.01)
    return Launch(dequantized, (blocks(m, tm), blocks(n, tn)), (a, b, sa, sb, np.zeros((m, n), np.float16), tm, tn, tk),
                  {4: (wide(a) @ wide(b)) * wide(sa)[:, None] * wide(sb)}, 2e-3)


@ct.kernel
def four_bit_weights(x, w, s, out, tm: Const, tn: Const, tk: Const):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(x.shape[1], tk)):
        packed = ct.load(w, (k, j), (tk // 2, tn), padding_mode=ZERO)
        low, high = (packed & 15).astype(ct.int8) - 8, (packed >> 4).astype(ct.int8) - 8
        q = ct.cat((low.reshape((tk // 2, 1, tn)), high.reshape((tk // 2, 1, tn))), 1).reshape((tk, tn))
        scale = ct.load(s, (k, j), (1, tn), padding_mode=ZERO).astype(x.dtype)
        acc = ct.mma(ct.load(x, (i, k), (tm, tk), padding_mode=ZERO), q.astype(x.dtype) * scale, acc)
    ct.store(out, (i, j), acc.astype(out.dtype))


@program((np.float16, 128, 128), (bf16, 64, 64), (np.float16, 16, 64))
def product_of_packed_weights(dtype, tm, tn):
    m, n, k, tk = 130, 264, 320, 64
    x, w = draw(m, k, dtype=dtype), whole(k // 2, n, dtype=np.uint8, low=0, high=255)
    s = (np.abs(draw(k // tk, n)) * .1).astype(dtype)
    q = np.stack([(w & 15).astype(int) - 8, (w >> 4).astype(int) - 8], 1).reshape(k, n)
    weights = wide((q * wide(np.repeat(s, tk, 0))).astype(dtype))
    return Launch(four_bit_weights, (blocks(m, tm), blocks(n, tn)), (x, w, s, np.zeros((m, n), np.float32), tm, tn, tk),
                  {3: wide(x) @ weights}, 1e-2)


@ct.kernel
def chain(a, b, c, out, tm: Const, tk: Const, n: Const, p: Const):
    i = ct.bid(0)
    acc = ct.zeros((tm, n), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
        acc = ct.mma(x, ct.load(b, (k, 0), (tk, n), padding_mode=ZERO), acc)
    hidden = ct.maximum(acc, 0.0).astype(a.dtype)
    ct.store(out, (i, 0), ct.mma(hidden, ct.load(c, (0, 0), (n, p)), ct.zeros((tm, p), ct.float32)).astype(out.dtype))


@program((np.float16, 128, 128, 64), (bf16, 64, 64, 128), (np.float16, 128, 64, 256))
def products_chained(dtype, tm, n, p):
    m, k = 264, 168
    a, b, c = draw(m, k, dtype=dtype), draw(k, n, dtype=dtype, scale=.1), draw(n, p, dtype=dtype, scale=.1)
    hidden = wide(np.maximum(wide(a) @ wide(b), 0).astype(dtype))
    return Launch(chain, (blocks(m, tm),), (a, b, c, np.zeros((m, p), np.float32), tm, 64, n, p), {3: hidden @ wide(c)},
                  rough(dtype, 1e-2, 5e-2))


@ct.kernel
def single(a, b, out, tm: Const, tn: Const, tk: Const, narrow: ct.Constant[bool]):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((tm, tn), out.dtype)
    for k in range(ct.cdiv(a.shape[1], tk)):
        x, y = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), ct.load(b, (k, j), (tk, tn), padding_mode=ZERO)
        if narrow:
            x, y = x.astype(ct.tfloat32), y.astype(ct.tfloat32)
        acc = ct.mma(x, y, acc)
    ct.store(out, (i, j), acc)


@program((np.float32, True, 128, 128, 32), (np.float32, True, 64, 64, 32), (np.float32, False, 64, 64, 16),
         (np.float64, False, 32, 32, 16), (np.float32, True, 128, 256, 32))
def product_of_wide_floats(dtype, narrow, tm, tn, tk):
    m, n, k = 136, 264, 100
    a, b = draw(m, k, dtype=dtype), draw(k, n, dtype=dtype)
    return Launch(single, (blocks(m, tm), blocks(n, tn)), (a, b, np.zeros((m, n), dtype), tm, tn, tk, narrow),
                  {2: wide(a) @ wide(b)}, 3e-2 if narrow else 1e-4)


@ct.kernel
def batched(a, b, out, z: Const, t: Const, tk: Const):
    n, i, j = ct.bid(2), ct.bid(0), ct.bid(1)
    acc = ct.zeros((z, t, t), ct.float32)
    for k in range(ct.cdiv(a.shape[2], tk)):
        x = ct.load(a, (n, i, k), (z, t, tk), padding_mode=ZERO)
        acc = ct.mma(x, ct.load(b, (n, k, j), (z, tk, t), padding_mode=ZERO), acc)
    ct.store(out, (n, i, j), acc)


@program((np.float16, 2, 64), (bf16, 4, 32), (np.float16, 2, 128))
def product_of_a_batch(dtype, z, t):
    a, b = draw(5, 136, 72, dtype=dtype), draw(5, 72, 136, dtype=dtype)
    return Launch(batched, (blocks(136, t), blocks(136, t), blocks(5, z)), (a, b, np.zeros((5, 136, 136), np.float32), z, t, 32),
                  {2: wide(a) @ wide(b)}, 1e-2)


@ct.kernel
def sparse(a, b, present, out, t: Const):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((t, t), ct.float32)
    for k in range(ct.cdiv(a.shape[1], t)):
        if ct.load(present, (i, k), (1, 1)).item() != 0:
            x = ct.load(a, (i, k), (t, t), padding_mode=ZERO)
            acc = ct.mma(x, ct.load(b, (k, j), (t, t), padding_mode=ZERO), acc)
    ct.store(out, (i, j), acc)


@program((np.float16, 64), (bf16, 128))
def product_of_sparse_blocks(dtype, t):
    n = 3 * t
    a, b, present = draw(n, n, dtype=dtype), draw(n, n, dtype=dtype), np.array([[1, 0, 1], [0, 0, 0], [0, 1, 1]], np.int32)
    return Launch(sparse, (3, 3), (a, b, present, np.zeros((n, n), np.float32), t),
                  {3: (wide(a) * np.kron(present, np.ones((t, t)))) @ wide(b)}, 1e-2)


@ct.kernel
def turned_left(a, b, out, tm: Const, tn: Const, tk: Const):
    """a' b for each of a batch, in an outer loop."""
    i = ct.bid(0)
    for z in range(a.shape[0]):
        acc = ct.zeros((tm, tn), ct.float32)
        for k in range(ct.cdiv(a.shape[1], tk)):
            x = ct.load(a, (z, k, i), (1, tk, tm), padding_mode=ZERO).reshape((tk, tm))
            acc = ct.mma(ct.transpose(x), ct.load(b, (z, k, 0), (1, tk, tn), padding_mode=ZERO).reshape((tk, tn)), acc)
        ct.store(out, (z, i, 0), acc.reshape((1, tm, tn)))


@program((np.float16, 128, 64, 64), (bf16, 64, 128, 32), (np.float32, 32, 32, 32), (np.float16, 128, 128, 64))
def product_of_a_turned_operand(dtype, tm, tn, tk):
    a, b = draw(3, 150, 136, dtype=dtype), draw(3, 150, tn, dtype=dtype)
    return Launch(turned_left, (blocks(136, tm),), (a, b, np.zeros((3, 136, tn), np.float32), tm, tn, tk),
                  {2: wide(a).transpose(0, 2, 1) @ wide(b)}, 2e-2)


@ct.kernel
def block_scaled(a, sa, b, sb, out, tm: Const, tn: Const, tk: Const):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        x, y = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), ct.load(b, (k, j), (tk, tn), padding_mode=ZERO)
        left = ct.load(sa, (i, k), (tm, tk // 32), padding_mode=ZERO)
        acc = ct.mma_scaled(x, left, y, ct.load(sb, (k, j), (tk // 32, tn), padding_mode=ZERO), acc)
    ct.store(out, (i, j), acc)


@program((128, 128, 128), (64, 64, 64), (128, 64, 128), since=100)
def product_block_scaled(tm, tn, tk):
    m, n, k = 256, 128, 256
    a, b = draw(m, k, dtype=e4m3), draw(k, n, dtype=e4m3)
    sa, sb = (2.0 ** whole(m, k // 32, low=-3, high=3)).astype(e8m0), (2.0 ** whole(k // 32, n, low=-3, high=3)).astype(e8m0)
    return Launch(block_scaled, (m // tm, n // tn), (a, sa, b, sb, np.zeros((m, n), np.float32), tm, tn, tk),
                  {4: (wide(a) * np.repeat(wide(sa), 32, 1)) @ (wide(b) * np.repeat(wide(sb), 32, 0))}, 1e-3)


@ct.kernel
def with_scales_of_blocks(a, sa, b, sb, out, tm: Const, tn: Const):
    """As `scaled_by_blocks`, but factors come by gathers: of rows, and one number a block of the right side's."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[1], 128)):
        x, y = ct.load(a, (i, k), (tm, 128), padding_mode=ZERO), ct.load(b, (j, k), (tn, 128), padding_mode=ZERO)
        left = ct.gather(sa, (i * tm + ct.arange(tm, dtype=ct.int32), k))
        factors = left * ct.gather(sb, (j * tn // 128, k))
        acc = acc + ct.mma(x, y.transpose(), ct.zeros((tm, tn), ct.float32)) * factors[:, None]
    ct.store(out, (i, j), acc.astype(out.dtype))


def scales_of_blocks(dtype, tm, tn, k):
    m, n = 200, 256
    a, b = whole(m, k, low=-3, high=3).astype(dtype), whole(n, k, low=-3, high=3).astype(dtype)
    sa, sb = (draw(r, k // 128, dtype=np.float32) + 2 for r in (m, n // 128))
    factors = np.repeat(sa, 128, 1), np.repeat(sb[np.arange(n) // tn * tn // 128], 128, 1)
    return Launch(with_scales_of_blocks, (blocks(m, tm), blocks(n, tn)), (a, sa, b, sb, np.zeros((m, n), np.float32), tm, tn),
                  {4: (wide(a) * factors[0]) @ (wide(b) * factors[1]).T}, 1e-3)


@program((128, 128, 640), (128, 64, 384), (64, 128, 256), (32, 32, 384), (128, 128, 128), (128, 256, 384),
         (256, 128, 256), since=89)
def product_with_scales_of_blocks(tm, tn, k):
    return scales_of_blocks(e4m3, tm, tn, k)


@program((np.float16, 64, 64, 384), (bf16, 128, 128, 256), (np.float16, 16, 32, 256), (bf16, 128, 256, 256))
def product_with_factors_of_blocks(dtype, tm, tn, k):
    return scales_of_blocks(dtype, tm, tn, k)


@ct.kernel
def hadamard(x, out, t: Const, n: Const):
    """A product with a matrix that is computed: signs by the parity of common bits."""
    r = ct.arange(n, dtype=ct.int32)
    bits = r[:, None] & r[None, :]
    for shift in ct.static_iter((4, 2, 1)):
        bits = bits ^ (bits >> shift)
    signs = ct.where((bits & 1) == 0, 1.0, -1.0).astype(x.dtype)
    tile = ct.load(x, (ct.bid(0), 0), (t, n), padding_mode=ZERO)
    ct.store(out, (ct.bid(0), 0), (ct.mma(tile, signs, ct.zeros((t, n), ct.float32)) * (n ** -0.5)).astype(out.dtype))


@program((np.float16, 64, 128), (bf16, 128, 128), (np.float16, 128, 32))
def product_with_signs(dtype, n, t):
    x, r = draw(200, n, dtype=dtype), np.arange(n)
    signs = np.array([[(-1) ** bin(a & b).count("1") for b in r] for a in r])
    return Launch(hadamard, (blocks(200, t),), (x, np.zeros_like(x), t, n), {1: wide(x) @ signs * n ** -.5},
                  rough(dtype, 4e-3, 2e-2))


@ct.kernel
def two_kinds(a, b, x, y, out, tm: Const, tn: Const, tk: Const, way: Const):
    """Two products of other types on one accumulator, in either order, or their weighted sum."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        p, q = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), ct.load(b, (k, j), (tk, tn), padding_mode=ZERO)
        r, s = ct.load(x, (i, k), (tm, tk), padding_mode=ZERO), ct.load(y, (k, j), (tk, tn), padding_mode=ZERO)
        if way == 0:
            acc = ct.mma(r, s, ct.mma(p, q, acc))
        elif way == 1:
            acc = ct.mma(p, q, ct.mma(r, s, acc))
        else:
            none = ct.zeros((tm, tn), ct.float32)
            acc = acc + ct.mma(r, s, none) * 0.5 + ct.mma(p, q, none) * 2.0
    ct.store(out, (i, j), acc)


@program(*[(way, *kinds, *tile) for way in range(3)
           for kinds in ((np.float16, np.float32), (np.float32, np.float16), (bf16, np.float16))
           for tile in ((64, 64), (128, 32), (32, 32))])
def products_of_two_kinds(way, first, second, tm, tn):
    m, n, k = 136, 72, 80
    a, b = draw(m, k, dtype=first), draw(k, n, dtype=first)
    x, y = draw(m, k, dtype=second, seed=1), draw(k, n, dtype=second, seed=1)
    s, t = (1, 1) if way < 2 else (2, .5)
    return Launch(two_kinds, (blocks(m, tm), blocks(n, tn)), (a, b, x, y, np.zeros((m, n), np.float32), tm, tn, 16, way),
                  {4: s * wide(a) @ wide(b) + t * wide(x) @ wide(y)}, 1e-2)


@ct.kernel
def rows_in_bytes(x, w, v, out, tm: Const, tk: Const, d: Const):
    """What a product of f8 makes becomes f8 and multiplies values; large sums begin with ones."""
    q = ct.load(x, (ct.bid(0), 0), (tm, tk))
    acc = ct.ones((tm, d), ct.float32)
    for j in range(ct.cdiv(w.shape[0], tk)):
        s = ct.mma(q, ct.load(w, (j, 0), (tk, tk)).permute((1, 0)), ct.zeros((tm, tk), ct.float32))
        acc = ct.mma((s * 0.25).astype(x.dtype), ct.load(v, (0, j), (d, tk)).permute((1, 0)), acc)
    ct.store(out, (ct.bid(0), 0), acc)


@program((128, 64, 256), (256, 64, 128), since=90)
def product_of_rows_in_bytes(tm, tk, d):
    n = 3 * tk
    x, w, v = whole(2 * tm, tk, low=-1, high=1), whole(n, tk, low=-1, high=1, seed=1), whole(d, n, low=-2, high=2, seed=2)
    x, w, v = (a.astype(e4m3) for a in (x, w, v))
    parts = ((wide(x) @ wide(w[j:j + tk]).T * .25).astype(e4m3) for j in range(0, n, tk))
    want = 1 + sum(wide(p) @ wide(v[:, j:j + tk]).T for p, j in zip(parts, range(0, n, tk)))
    return Launch(rows_in_bytes, (2,), (x, w, v, np.zeros((2 * tm, d), np.float32), tm, tk, d), {3: want})


@ct.kernel
def scaled_by_rows_and_columns(a, b, sa, sb, bias, out, tm: Const, tn: Const, tk: Const):
    """Sums times a factor of the row and one of the column, and a bias: rows of as many numbers as a thread has registers for."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((tm, tn), ct.int32 if a.dtype == ct.int8 else ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        y = ct.load(b, (j, k), (tn, tk), padding_mode=ZERO).transpose()
        acc = ct.mma(ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), y, acc)
    y = acc.astype(ct.float32) * ct.load(sa, (i,), (tm,))[:, None] * ct.load(sb, (j,), (tn,))[None, :]
    ct.store(out, (i, j), (y + ct.load(bias, (j,), (tn,)).astype(ct.float32)[None, :]).astype(out.dtype))


@program((np.int8, bf16, 128, 256, 64), (np.int8, np.float32, 128, 256, 64), (np.float16, np.float16, 128, 256, 32),
         (np.int8, bf16, 256, 128, 64), (np.float16, np.float32, 64, 256, 64), quick=True)
def products_scaled_by_rows_and_columns(dtype, kind, tm, tn, tk):
    m, n, k = 2 * tm, 2 * tn, 2 * tk + 16
    a, b = whole(m, k, dtype=dtype, low=-1, high=1), whole(n, k, dtype=dtype, low=-1, high=1, seed=1)
    sa, sb = np.exp2(np.arange(m) % 3).astype(np.float32), np.exp2(np.arange(n) % 2).astype(np.float32)
    bias = whole(n, dtype=np.float16, low=-4, high=4)
    want = (wide(a) @ wide(b).T) * wide(sa)[:, None] * wide(sb)[None, :] + wide(bias)[None, :]
    return Launch(scaled_by_rows_and_columns, (2, 2), (a, b, sa, sb, bias, np.zeros((m, n), kind), tm, tn, tk), {5: want},
                  1e-2 if kind is bf16 else 2e-3)


@ct.kernel
def beside_squares(a, b, out, squares, tm: Const, tn: Const, tk: Const):
    """A product of widened rows beside the sums of their squares."""
    i = ct.bid(0)
    acc, total = ct.zeros((tm, tn), ct.float32), ct.zeros((tm,), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
        y = ct.load(b, (k, 0), (tk, tn), padding_mode=ZERO)
        acc = ct.mma(x.astype(ct.tfloat32), y.astype(ct.tfloat32), acc)
        total = total + ct.sum(x.astype(ct.float32) * x.astype(ct.float32), axis=1)
    ct.store(out, (i, 0), acc)
    ct.store(squares, (i,), total)


@program((64, 32, 64, 72), (128, 64, 32, 64), (64, 64, 128, 128), (256, 32, 64, 80))
def product_beside_squares(tm, tn, tk, k):
    m = 2 * tm - 8
    a, b = draw(m, k, dtype=bf16), draw(k, tn, dtype=np.float32)
    return Launch(beside_squares, (2,), (a, b, np.zeros((m, tn), np.float32), np.zeros(m, np.float32), tm, tn, tk),
                  {2: wide(a) @ wide(b), 3: (wide(a) ** 2).sum(1)}, 3e-2)


@ct.kernel
def of_packed_weights(a, w, factors, out, tm: Const, tn: Const, tk: Const, along_k: Const, group: Const):
    """Weights of four bits, eight of them a word, side by side along k or along the columns; a factor for some of a column."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((tm, tn), ct.float32)
    shift = ct.arange(8, dtype=ct.int32) * 4
    for k in range(ct.cdiv(a.shape[1], tk)):
        if along_k:
            y = ct.load(w, (k, j), (tk // 8, tn), padding_mode=ZERO).reshape((tk // 8, 1, tn)) >> shift[None, :, None]
        else:
            y = ct.load(w, (k, j), (tk, tn // 8), padding_mode=ZERO).reshape((tk, tn // 8, 1)) >> shift[None, None, :]
        y = ((y & 15).reshape((tk, tn)) - 8).astype(a.dtype)
        y = y * ct.load(factors, (k * tk // group, j), (1, tn), padding_mode=ZERO)
        acc = ct.mma(ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), y, acc)
    ct.store(out, (i, j), acc)


@program((np.float16, 16, 128, 64, 1), (np.float16, 16, 128, 64, 0), (bf16, 32, 64, 32, 1), (np.float16, 64, 128, 64, 1),
         (np.float16, 128, 64, 64, 0))
def products_of_packed_weights(dtype, tm, tn, tk, along_k):
    m, n, k, group = tm + 8, tn + 16, 5 * tk, 2 * tk
    a, factors = whole(m, k, dtype=dtype, low=-2, high=2), (2.0 ** whole(3, n, low=-2, high=1)).astype(dtype)
    b = np.random.default_rng(2).integers(0, 16, (k, n))
    parts = b.reshape(k // 8, 8, n) if along_k else b.reshape(k, n // 8, 8)
    words = (parts.astype(np.uint32) << (4 * np.arange(8, dtype=np.uint32)).reshape((1, 8, 1) if along_k else (1, 1, 8))).sum(
        1 if along_k else 2, dtype=np.uint32).view(np.int32)
    want = wide(a) @ ((b - 8) * np.repeat(wide(factors), group, 0)[:k])
    return Launch(of_packed_weights, (2, 2), (a, words, factors, np.zeros((m, n), np.float32), tm, tn, tk, along_k, group),
                  {3: want})


@ct.kernel
def of_made_rows(a, b, factors, gain, out, tm: Const, tn: Const, tk: Const, way: Const):
    """Rows that are scaled, gated or dequantized on their way to a product."""
    i, j = ct.bid(0), ct.bid(1)
    acc, rows = ct.zeros((tm, tn), ct.float32), ct.load(factors, (i,), (tm,), padding_mode=ZERO)
    for k in range(ct.cdiv(a.shape[1], tk)):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO).astype(ct.float32)
        if way == 0:
            x = x * rows[:, None] * ct.load(gain, (k,), (tk,), padding_mode=ZERO).astype(ct.float32)[None, :]
        elif way == 1:
            x = ct.maximum(x, 0.0)
        y = ct.load(b, (k, j), (tk, tn), padding_mode=ZERO)
        x, y = (x.astype(ct.tfloat32), y.astype(ct.tfloat32)) if b.dtype == ct.float32 else (x.astype(b.dtype), y)
        acc = ct.mma(x, y, acc)
    ct.store(out, (i, j), acc * rows[:, None] if way == 2 else acc)


@program((np.float16, np.float16, 128, 128, 64, 0), (bf16, bf16, 64, 128, 64, 0), (np.float32, np.float32, 128, 64, 32, 0),
         (np.float16, np.float16, 256, 64, 32, 1), (np.float32, np.float32, 64, 32, 64, 1), (np.int8, np.float16, 128, 32, 128, 2),
         (np.int8, bf16, 64, 256, 64, 2), (np.float16, bf16, 128, 256, 64, 1), quick=True)
def product_of_made_rows(kind, dtype, tm, tn, tk, way):
    m, n, k = 2 * tm - 8, tn + 16, 5 * tk - 16
    a = whole(m, k, dtype=kind, low=-3, high=3)
    b, gain = whole(k, n, dtype=dtype, low=-2, high=2, seed=1), np.exp2(np.arange(k) % 2).astype(dtype)
    rows = np.exp2(np.arange(m) % 3 - 1).astype(np.float32)
    x = wide(a) * rows[:, None] * wide(gain) if way == 0 else np.maximum(wide(a), 0) if way == 1 else wide(a) * rows[:, None]
    return Launch(of_made_rows, (2, 2), (a, b, rows, gain, np.zeros((m, n), np.float32), tm, tn, tk, way), {4: x @ wide(b)})


@ct.kernel
def of_made_columns(a, w, factors, rows, out, tm: Const, tn: Const, tk: Const, along_k: Const, way: Const):
    """Rows times weights that threads widen, or scale by groups along k, on their way; a factor for each column behind it."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        if along_k:
            y = ct.load(w, (j, k), (tn, tk), padding_mode=ZERO).astype(a.dtype)
            if way == 1:
                y = y * ct.load(factors, (j, k), (tn, 1), padding_mode=ZERO).astype(a.dtype)
            y = ct.transpose(y)
        else:
            y = ct.load(w, (k, j), (tk, tn), padding_mode=ZERO).astype(a.dtype)
            if way == 1:
                y = y * ct.transpose(ct.load(factors, (j, k), (tn, 1), padding_mode=ZERO).astype(a.dtype))
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
        x, y = (x.astype(ct.tfloat32), y.astype(ct.tfloat32)) if a.dtype == ct.float32 else (x, y)
        acc = ct.mma(x, y, acc)
    if way == 0:
        acc = acc * ct.transpose(ct.load(factors, (j, 0), (tn, 1), padding_mode=ZERO))
    acc = acc + ct.load(rows, (i,), (tm,), padding_mode=ZERO)[:, None]
    ct.store(out, (i, j), acc.astype(out.dtype))


@program((np.int8, np.float16, np.float16, 16, 128, 128, 1, 0), (np.int8, np.float16, np.float32, 32, 64, 64, 1, 1),
         (np.int8, bf16, np.float32, 64, 128, 64, 0, 0), (e4m3, np.float16, np.float16, 128, 128, 64, 1, 1),
         (np.int8, np.float16, np.float32, 128, 256, 64, 1, 0), (np.int8, np.float32, np.float32, 128, 128, 32, 1, 1),
         (np.int8, bf16, np.float32, 8, 64, 64, 1, 1), (np.int8, np.float16, np.float16, 32, 128, 64, 0, 1), quick=True)
def product_of_made_columns(kind, dtype, stored, tm, tn, tk, along_k, way):
    m, n, k = 2 * tm - 3, tn + 24, 5 * tk - 16
    a, w = whole(m, k, dtype=dtype, low=-2, high=2), whole(n, k, dtype=kind, low=-2, high=2, seed=1)
    factors, rows = np.exp2(whole(n, 5, dtype=np.float32, low=-1, high=1, seed=2)), whole(m, dtype=np.float32, seed=3)
    each = wide(w) * (np.repeat(wide(factors), tk, 1)[:, :k] if way == 1 else wide(factors)[:, :1])
    weights = w if along_k else np.ascontiguousarray(w.T)
    return Launch(of_made_columns, (2, 2), (a, weights, factors, rows, np.zeros((m, n), stored), tm, tn, tk, along_k, way),
                  {4: (wide(a) @ each.T + wide(rows)[:, None]).astype(stored)})


@ct.kernel
def two_layers(x, a, b, starts, out, tm: Const, k: Const, m: Const, n: Const):
    """A block has none, one or several tiles of rows, each of which goes through two products and out."""
    i = ct.bid(0)
    first, second = ct.load(a, (0, 0), (k, m)), ct.load(b, (0, 0), (m, n))
    for r in range(ct.gather(starts, i), ct.gather(starts, i + 1)):
        rows = ct.load(x, (r, 0), (tm, k), padding_mode=ZERO)
        hidden = ct.maximum(ct.mma(rows, first, ct.zeros((tm, m), ct.float32)), 0.0)
        y = ct.mma(hidden.astype(b.dtype), second, ct.zeros((tm, n), ct.float32))
        ct.store(out, (r, 0), y.astype(out.dtype))


@program((np.float16, np.float32, 128, 64, 64, 64), (bf16, bf16, 64, 32, 128, 64), (np.float16, np.float16, 128, 128, 64, 128),
         quick=True)
def product_of_two_layers(dtype, kind, tm, k, m, n):
    starts = np.array([0, 3, 3, 4, 9], np.int32)
    x, a = draw(9 * tm - 5, k, dtype=dtype), draw(k, m, dtype=dtype, scale=k**-.5, seed=1)
    b = draw(m, n, dtype=dtype, scale=m**-.5, seed=2)
    hidden = np.maximum(wide(x) @ wide(a), 0).astype(dtype)
    return Launch(two_layers, (4,), (x, a, b, starts, np.zeros((len(x), n), kind), tm, k, m, n), {4: wide(hidden) @ wide(b)},
                  rough(dtype, 5e-3, 4e-2))


@program((16, 256, 32), (16, 128, 32), (32, 128, 32), (32, 64, 16), (16, 64, 64), quick=True)
def product_of_few_rows_by_tf32(tm, tn, tk):
    """B's rows don't run along k: the copy engine brings them as they lie."""
    a, b = draw(tm + 3, 4 * tk + 8, dtype=np.float32), draw(4 * tk + 8, 2 * tn - 4, dtype=np.float32)
    return Launch(single, (2, 2), (a, b, np.zeros((tm + 3, 2 * tn - 4), np.float32), tm, tn, tk, True), {2: a @ b}, 3e-2)


@ct.kernel
def resident(a, b, lengths, out, tm: Const, tn: Const, tk: Const, beside: Const):
    """A tile that is loaded once, times as many others as a list says, none of them, maybe. `beside`: threads add the products."""
    h = ct.bid(0)
    x = ct.load(a, (h, 0), (tm, tk))
    acc = ct.zeros((tm, tn), ct.float32)
    for j in range(ct.load(lengths, (h,), (1,)).item()):
        y = ct.load(b, (j, 0), (tn, tk)).transpose()
        if beside:
            acc = acc + ct.mma(x, y, ct.zeros((tm, tn), ct.float32)) * 0.5
        else:
            acc = ct.mma(x, y, acc)
    ct.store(out, (h, 0), acc)


@program((np.float16, 128, 64, 64, False), (np.float16, 128, 64, 64, True), (bf16, 128, 128, 128, True), (bf16, 256, 64, 64, True),
         (np.float16, 64, 128, 64, False), (np.float32, 64, 64, 32, True))
def product_of_a_resident_tile_by_length(dtype, tm, tn, tk, beside):
    lengths = np.array([0, 1, 3, 0], np.int32)
    a, b = draw(len(lengths) * tm, tk, dtype=dtype, scale=.5), draw(int(lengths.max()) * tn, tk, dtype=dtype, scale=.5, seed=1)
    out = np.zeros((len(lengths) * tm, tn))
    for h, length in enumerate(lengths):
        for j in range(length):
            out[h * tm:(h + 1) * tm] += (0.5 if beside else 1) * wide(a)[h * tm:(h + 1) * tm] @ wide(b)[j * tn:(j + 1) * tn].T
    return Launch(resident, (len(lengths),), (a, b, lengths, np.zeros(out.shape, np.float32), tm, tn, tk, beside), {3: out}, 1e-2)
