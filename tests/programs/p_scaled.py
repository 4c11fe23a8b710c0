"""Block-scaled products in unusual places: in while loops and branches, of mixed and 4-bit types, batched, turned, over clusters,
with scales that are computed, and chained."""
import cuda.tile as ct
import ml_dtypes
import numpy as np

from tests.programs.programs import Launch, draw, e4m3, e5m2, e8m0, program, whole, wide

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


def powers(*shape, seed=0):
    return (2.0 ** whole(*shape, low=-3, high=3, seed=seed)).astype(e8m0)


def spread(scales, block, axis):
    return np.repeat(wide(scales), block, axis)


def nibbles(packed):
    """The 4-bit floats of bytes along the last axis, the low half first."""
    each = np.stack([packed & 15, packed >> 4], -1).astype(np.uint8).reshape(*packed.shape[:-1], -1)
    return wide(each.view(ml_dtypes.float4_e2m1fn))


@ct.kernel
def until_marked(a, sa, b, sb, stop, out, tm: Const, tn: Const, tk: Const):
    """A while loop that ends where a flag says, begun with ones; every other step's product is halved."""
    i = ct.bid(0)
    acc = ct.ones((tm, tn), ct.float32)
    k = 0
    while k < ct.cdiv(a.shape[1], tk):
        if ct.load(stop, (k,), ()) != 0:
            break
        x, y = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), ct.load(b, (0, k), (tn, tk), padding_mode=ZERO)
        u, v = ct.load(sa, (i, k), (tm, tk // 32)), ct.load(sb, (0, k), (tn, tk // 32))
        if k % 2 == 0:
            acc = ct.mma_scaled(x, u, y.transpose(), v.transpose(), acc)
        else:
            acc = acc + 0.5 * ct.mma_scaled(x, u, y.transpose(), v.transpose(), ct.zeros((tm, tn), ct.float32))
        k += 1
    ct.store(out, (i, 0), acc)


@program((e4m3, 128, 64, 128), (e5m2, 64, 128, 64), (e5m2, 32, 32, 64), since=100)
def scaled_product_in_while(dtype, tm, tn, tk):
    m, k = 2 * tm, 5 * tk
    a, b = draw(m, k, dtype=dtype), draw(tn, k, dtype=dtype)
    sa, sb, stop = powers(m, k // 32), powers(tn, k // 32, seed=1), np.array([0, 0, 0, 1, 0], np.int32)
    factor = np.repeat([1, .5, 1, 0, 0], tk)
    want = 1 + (wide(a) * spread(sa, 32, 1) * factor) @ (wide(b) * spread(sb, 32, 1)).T
    return Launch(until_marked, (2,), (a, sa, b, sb, stop, np.zeros((m, tn), np.float32), tm, tn, tk), {5: want}, 2e-3)


def four_bits(a, sa, b, sb, out, tm: Const, tn: Const, tk: Const, block: Const):
    """4-bit operands from bytes; rows that aren't there are padded with zeros."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk // 2)):
        x = ct.load(a, (i, k), (tm, tk // 2), padding_mode=ZERO).reshape((tm * tk // 2,))
        y = ct.load(b, (j, k), (tn, tk // 2), padding_mode=ZERO).reshape((tn * tk // 2,))
        x = ct.unpack_from_bytes(x, ct.float4_e2m1fn).reshape((tm, tk))
        y = ct.unpack_from_bytes(y, ct.float4_e2m1fn).reshape((tn, tk))
        u = ct.load(sa, (i, k), (tm, tk // block), padding_mode=ZERO)
        v = ct.load(sb, (j, k), (tn, tk // block), padding_mode=ZERO)
        acc = ct.mma_scaled(x, u, y.transpose(), v.transpose(), acc)
    ct.store(out, (i, j), acc)


FOUR_BITS = {n: ct.kernel(four_bits, num_ctas=n) for n in (1, 2)}


@program((1, e4m3, 128, 128, 128, 16), (1, e8m0, 128, 64, 256, 32), (2, e4m3, 256, 128, 128, 16), (1, e8m0, 32, 64, 64, 16),
         since=100)
def scaled_product_of_four_bits(ctas, kind, tm, tn, tk, block):
    m, n, k = tm + 24, tn + 8, 3 * tk
    a, b = whole(m, k // 2, dtype=np.uint8, low=0, high=255), whole(n, k // 2, dtype=np.uint8, low=0, high=255, seed=1)
    if kind is e8m0:
        sa, sb = powers(m, k // block), powers(n, k // block, seed=2)
    else:
        sa, sb = (np.abs(draw(rows, k // block, dtype=np.float32, seed=3)).astype(e4m3) for rows in (m, n))
    want = (nibbles(a) * spread(sa, block, 1)) @ (nibbles(b) * spread(sb, block, 1)).T
    return Launch(FOUR_BITS[ctas], (2, 2), (a, sa, b, sb, np.zeros((m, n), np.float32), tm, tn, tk, block), {4: want}, 2e-3)


def by_rows(scales, rows: Const, factors: Const):
    """A tile of `pieces`, as its rows."""
    return scales.reshape((rows // 128, factors // 4, 32, 4, 4)).permute((0, 3, 2, 1, 4)).reshape((rows, factors))


def in_pieces(a, sa, b, sb, out, tm: Const, tn: Const, tk: Const, turned: Const):
    """Scales lie in memory in pieces of 128 rows and four factors, as the tensor core copies them."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
        if turned:
            y = ct.load(b, (j, k), (tn, tk), padding_mode=ZERO).transpose()
        else:
            y = ct.load(b, (k, j), (tk, tn), padding_mode=ZERO)
        u = ct.load(sa, (i, k, 0, 0), (tm // 128, tk // 128, 32, 16), padding_mode=ZERO)
        v = ct.load(sb, (j, k, 0, 0), (tn // 128, tk // 128, 32, 16), padding_mode=ZERO)
        u = by_rows(u, tm, tk // 32)
        v = by_rows(v, tn, tk // 32)
        acc = ct.mma_scaled(x, u, y, v.transpose(), acc)
    ct.store(out, (i, j), acc)


IN_PIECES = {n: ct.kernel(in_pieces, num_ctas=n) for n in (1, 2, 4)}


def pieces(scales):
    """Rows in pieces of 128, four factors of each side by side, those of rows 32 apart behind one another."""
    rows, factors = scales.shape
    return np.ascontiguousarray(scales.reshape(rows // 128, 4, 32, factors // 4, 4).transpose(0, 3, 2, 1, 4).reshape(
        rows // 128, factors // 4, 32, 16))


@program((2, e4m3, 256, 256, 128, 1), (4, e5m2, 256, 256, 128, 1), (2, e4m3, 256, 128, 256, 0), (4, e4m3, 512, 128, 128, 1),
         (1, e5m2, 128, 128, 128, 0), since=100)
def scaled_product_of_pieces(ctas, dtype, tm, tn, tk, turned):
    """Of two and four CTAs pairs multiply together."""
    m, n, k = 2 * tm, tn, 5 * tk
    a, b = draw(m, k, dtype=dtype), draw(n, k, dtype=dtype, seed=1)
    sa, sb = powers(m, k // 32), powers(n, k // 32, seed=2)
    want = (wide(a) * spread(sa, 32, 1)) @ (wide(b) * spread(sb, 32, 1)).T
    given = b if turned else np.ascontiguousarray(b.T)
    return Launch(IN_PIECES[ctas], (2, 1), (a, pieces(sa), given, pieces(sb), np.zeros((m, n), np.float32), tm, tn, tk, turned),
                  {4: want}, 2e-3)


def in_pieces_by_few(a, sa, b, sb, out, tm: Const, tn: Const, tk: Const):
    """The same, blocks going on to other rows."""
    for i in range(ct.bid(0), ct.cdiv(a.shape[0], tm), ct.num_blocks(0)):
        acc = ct.zeros((tm, tn), ct.float32)
        for k in range(ct.cdiv(a.shape[1], tk)):
            x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
            y = ct.load(b, (0, k), (tn, tk), padding_mode=ZERO).transpose()
            u = ct.load(sa, (i, k, 0, 0), (tm // 128, tk // 128, 32, 16), padding_mode=ZERO)
            v = ct.load(sb, (0, k, 0, 0), (tn // 128, tk // 128, 32, 16), padding_mode=ZERO)
            u = by_rows(u, tm, tk // 32)
            v = by_rows(v, tn, tk // 32)
            acc = ct.mma_scaled(x, u, y, v.transpose(), acc)
        ct.store(out, (i, 0), acc.astype(out.dtype))


IN_PIECES_BY_FEW = {n: ct.kernel(in_pieces_by_few, num_ctas=n) for n in (2, 4)}


@program((2, np.float32, 256, 128, 128), (2, np.float16, 256, 256, 128), (4, np.float32, 512, 128, 128), since=100)
def scaled_product_of_pieces_by_few(ctas, dtype, tm, tn, tk):
    m, k = 5 * tm, 4 * tk
    a, b = draw(m, k, dtype=e4m3), draw(tn, k, dtype=e4m3, seed=1)
    sa, sb = powers(m, k // 32), powers(tn, k // 32, seed=2)
    want = (wide(a) * spread(sa, 32, 1)) @ (wide(b) * spread(sb, 32, 1)).T
    return Launch(IN_PIECES_BY_FEW[ctas], (2, 1), (a, pieces(sa), b, pieces(sb), np.zeros((m, tn), dtype), tm, tn, tk),
                  {4: want}, 4e-3)


@ct.kernel
def batch(a, sa, b, sb, out, z: Const, t: Const, tk: Const):
    acc = ct.zeros((z, t, t), ct.float32)
    for k in range(ct.cdiv(a.shape[2], tk)):
        x = ct.load(a, (ct.bid(0), 0, k), (z, t, tk), padding_mode=ZERO)
        y = ct.load(b, (ct.bid(0), k, 0), (z, tk, t), padding_mode=ZERO)
        u, v = ct.load(sa, (ct.bid(0), 0, k), (z, t, tk // 32)), ct.load(sb, (ct.bid(0), k, 0), (z, tk // 32, t))
        acc = ct.mma_scaled(x, u, y, v, acc)
    ct.store(out, (ct.bid(0), 0, 0), acc)


@program((2, 64, 64), (1, 128, 128), (4, 16, 32), since=100)
def scaled_product_of_a_batch(z, t, tk):
    a, b = draw(2 * z, t, 3 * tk, dtype=e5m2), draw(2 * z, 3 * tk, t, dtype=e5m2)
    sa, sb = powers(2 * z, t, 3 * tk // 32), powers(2 * z, 3 * tk // 32, t, seed=1)
    return Launch(batch, (2,), (a, sa, b, sb, np.zeros((2 * z, t, t), np.float32), z, t, tk),
                  {4: (wide(a) * spread(sa, 32, 2)) @ (wide(b) * spread(sb, 32, 1))}, 2e-3)


@ct.kernel
def quantized_on_the_way(x, b, sb, out, t: Const, n: Const, tk: Const):
    """The left operand is quantized in the loop, its scales are computed."""
    i = ct.bid(0)
    acc = ct.zeros((t, n), ct.float32)
    for k in range(ct.cdiv(x.shape[1], tk)):
        tile = ct.load(x, (i, k), (t, tk), padding_mode=ZERO).astype(ct.float32).reshape((t, tk // 32, 32))
        top = ct.maximum(ct.max(ct.abs(tile), axis=2, keepdims=True), 1e-10) / 448.0
        scale = ct.exp2(ct.ceil(ct.log2(top)))
        small = (tile / scale).astype(ct.float8_e4m3fn).reshape((t, tk))
        u = scale.reshape((t, tk // 32)).astype(ct.float8_e8m0fnu, rounding_mode=ct.RoundingMode.RP)
        acc = ct.mma_scaled(small, u, ct.load(b, (k, 0), (tk, n), padding_mode=ZERO), ct.load(sb, (k, 0), (tk // 32, n)), acc)
    ct.store(out, (i, 0), acc)


@program((np.float16, 128, 64, 128), (np.float32, 64, 64, 64), since=100)
def scaled_product_quantized_on_the_way(dtype, t, n, tk):
    x, b, sb = draw(2 * t, 3 * tk, dtype=dtype, scale=7), draw(3 * tk, n, dtype=e4m3), powers(3 * tk // 32, n)
    parts = wide(x).reshape(2 * t, -1, 32)
    scale = 2.0 ** np.ceil(np.log2(np.abs(parts).max(2, keepdims=True) / 448))
    small = wide((parts / scale).astype(np.float32).astype(e4m3)) * scale
    return Launch(quantized_on_the_way, (2,), (x, b, sb, np.zeros((2 * t, n), np.float32), t, n, tk),
                  {3: small.reshape(x.shape) @ (wide(b) * spread(sb, 32, 0))}, 5e-3)


@ct.kernel
def after_another(a, b, c, sc, out, t: Const, n: Const, tk: Const):
    """An ordinary f8 product's result, narrowed, is an operand of a scaled one by unit scales."""
    i = ct.bid(0)
    acc = ct.zeros((t, n), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        x = ct.load(a, (i, k), (t, tk), padding_mode=ZERO)
        acc = ct.mma(x, ct.load(b, (k, 0), (tk, n), padding_mode=ZERO), acc)
    one = ct.full((t, n // 32), 1.0, ct.float8_e8m0fnu)
    small = (acc * 0.125).astype(ct.float8_e4m3fn)
    ct.store(out, (i, 0), ct.mma_scaled(small, one, ct.load(c, (0, 0), (n, n)), ct.load(sc, (0, 0), (n // 32, n)), acc))


@program((128, 64, 64), (64, 128, 32), since=100)
def scaled_product_after_another(t, n, tk):
    a, b = whole(2 * t, 2 * tk, dtype=e4m3, low=-1, high=1), whole(2 * tk, n, dtype=e4m3, low=-1, high=1)
    c, sc = whole(n, n, dtype=e4m3, low=-3, high=3), powers(n // 32, n)
    first = wide(a) @ wide(b)
    small = wide((first * .125).astype(np.float32).astype(e4m3))
    return Launch(after_another, (2,), (a, b, c, sc, np.zeros((2 * t, n), np.float32), t, n, tk),
                  {4: small @ (wide(c) * spread(sc, 32, 0)) + first}, 2e-3)


def of_some_steps(a, sa, b, sb, out, steps, first: Const, tm: Const, tn: Const, tk: Const, turned: Const):
    """Rows of scales lie side by side for several steps, of which a whole number needn't be there."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(first, steps):
        x = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO)
        u = ct.load(sa, (i, k), (tm, tk // 32), padding_mode=ZERO)
        if turned:
            y = ct.load(b, (j, k), (tn, tk), padding_mode=ZERO).transpose()
            v = ct.load(sb, (j, k), (tn, tk // 32), padding_mode=ZERO).transpose()
        else:
            y = ct.load(b, (k, j), (tk, tn), padding_mode=ZERO)
            v = ct.load(sb, (k, j), (tk // 32, tn), padding_mode=ZERO)
        acc = ct.mma_scaled(x, u, y, v, acc)
    ct.store(out, (i, j), acc)


SOME_STEPS = ct.kernel(of_some_steps)


@program((e4m3, 128, 128, 128, 7, 0, 1), (e4m3, 128, 128, 128, 9, 0, 0), (e5m2, 64, 128, 64, 13, 0, 1),
         (e4m3, 128, 64, 128, 4, 0, 1), (e4m3, 128, 128, 128, 0, 0, 1), (e4m3, 128, 128, 128, 11, 4, 1),
         (e4m3, 128, 128, 128, 11, 2, 1), (e5m2, 128, 128, 256, 6, 0, 1), since=100)
def scaled_product_of_some_steps(dtype, tm, tn, tk, steps, first, turned):
    m, n, k = tm + 16, tn + 32, 16 * tk
    a, b = draw(m, k, dtype=dtype), draw(n, k, dtype=dtype, seed=1)
    sa, sb = powers(m, k // 32), powers(n, k // 32, seed=2)
    some = (np.arange(k) // tk >= first) & (np.arange(k) // tk < steps)
    want = (wide(a) * spread(sa, 32, 1) * some) @ (wide(b) * spread(sb, 32, 1)).T
    given = (b, sb) if turned else (np.ascontiguousarray(b.T), np.ascontiguousarray(sb.T))
    return Launch(SOME_STEPS, (2, 2), (a, sa, *given, np.zeros((m, n), np.float32), steps, first, tm, tn, tk, turned),
                  {4: want}, 2e-3)
