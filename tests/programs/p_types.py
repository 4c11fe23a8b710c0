"""Element types where they are rare: i1, i16, f8, e8m0 and 4-bit tiles through loads, reductions, scans, casts and joins; f64 and
64-bit integers in everything; scalars of each kind."""
import cuda.tile as ct
import ml_dtypes
import numpy as np

from tests.programs.programs import Launch, bf16, draw, e4m3, e5m2, e8m0, program, whole, wide

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def logic(x, y, out, rows, t: Const):
    a, b = ct.load(x, (ct.bid(0), 0), (t, t), padding_mode=ZERO), ct.load(y, (ct.bid(0), 0), (t, t), padding_mode=ZERO)
    c = (a & ~b) ^ (a | b.transpose())
    ct.store(out, (ct.bid(0), 0), ct.where(c, a, b))
    both = ct.reduce((a, b), 1, lambda p, q, r, s: (p & r, q ^ s), (True, False))
    ct.store(rows, (ct.bid(0),), both[0] | both[1])


@program((16,), (64,), (128,), quick=True)
def booleans(t):
    x, y = whole(2 * t, t, low=0, high=5) > 0, whole(2 * t, t, low=0, high=1, seed=1) > 0
    turned = np.concatenate([y[:t].T, y[t:].T])
    c = (x & ~y) ^ (x | turned)
    return Launch(logic, (2,), (x, y, np.zeros_like(x), np.zeros(2 * t, bool), t),
                  {2: np.where(c, x, y), 3: x.all(1) | np.logical_xor.reduce(y, 1)})


@ct.kernel
def shorts(x, y, out, rows, scanned, t: Const):
    a, b = ct.load(x, (ct.bid(0), 0), (t, t)), ct.load(y, (ct.bid(0), 0), (t, t))
    c = (a * b + (a >> 2)) ^ (b << 1)
    c = ct.where(b != 0, c + a // ct.where(b == 0, 1, b) - a % ct.where(b == 0, 1, b), c)
    ct.store(out, (ct.bid(0), 0), c)
    ct.store(rows, (ct.bid(0),), ct.reduce(c, 0, lambda p, q: p ^ q, 0))
    ct.store(scanned, (ct.bid(0), 0), ct.scan(c, 1, lambda p, q: ct.maximum(p, q), ct.static_eval(-32768)))


@program((np.int16, 32), (np.int16, 128))
def halfwords(dtype, t):
    x, y = whole(2 * t, t, dtype=dtype, low=-3000, high=3000), whole(2 * t, t, dtype=dtype, low=-50, high=50, seed=1)
    with np.errstate(over="ignore"):
        c = (x * y + (x >> 2)) ^ (y << 1)
        safe = np.where(y == 0, dtype(1), y)
        c = np.where(y != 0, c + x // safe - x % safe, c)
    return Launch(shorts, (2,), (x, y, np.zeros_like(x), np.zeros(2 * t, dtype), np.zeros_like(x), t),
                  {2: c, 3: np.concatenate([np.bitwise_xor.reduce(c[:t]), np.bitwise_xor.reduce(c[t:])]),
                   4: np.maximum.accumulate(c, 1)})


@ct.kernel
def bytes_of_f8(x, out, joined, t: Const, n: Const):
    tile = ct.load(x, (ct.bid(0), 0), (t, n), padding_mode=ZERO)
    turned = tile.transpose()
    ct.store(out, (ct.bid(0), 0, 0), ct.cat((turned, turned), 0).reshape((1, 2 * n, t)))
    big = ct.where(tile.astype(ct.float32) > 0, tile, ct.zeros((t, n), x.dtype))
    ct.store(joined, (ct.bid(0), 0), ct.sum(big.astype(ct.float16), axis=1, keepdims=True).astype(x.dtype))


@program((e4m3, 16, 32), (e5m2, 64, 16), (e4m3, 1, 128), since=90)
def f8_moved_about(dtype, t, n):
    x = whole(2 * t, n - 3, dtype=dtype, low=-2, high=2)
    full = np.zeros((2 * t, n), dtype)
    full[:, :n - 3] = x
    turned = full.reshape(2, t, n).transpose(0, 2, 1)
    sums = np.where(wide(x) > 0, wide(x), 0).sum(1, keepdims=True).astype(dtype)
    return Launch(bytes_of_f8, (2,), (x, np.zeros((2, 2 * n, t), dtype), np.zeros((2 * t, 1), dtype), t, n),
                  {1: np.concatenate([turned, turned], 1), 2: sums})


@ct.kernel
def powers_of_two(x, scales, out, back, t: Const):
    """A block of 32 elements is scaled by a power of two, kept as e8m0."""
    tile = ct.load(x, (ct.bid(0), 0, 0), (t, 4, 32)).astype(ct.float32)
    top = ct.max(ct.abs(tile), axis=2, keepdims=True)
    scale = ct.exp2(ct.ceil(ct.log2(ct.maximum(top, 1e-20) / 448.0))).astype(ct.float8_e8m0fnu, rounding_mode=ct.RoundingMode.RP)
    small = (tile / scale.astype(ct.float32)).astype(ct.float8_e4m3fn)
    ct.store(scales, (ct.bid(0), 0, 0), scale)
    ct.store(out, (ct.bid(0), 0, 0), small)
    ct.store(back, (ct.bid(0), 0, 0), small.astype(ct.float32) * scale.astype(ct.float32))


@program((np.float32, 4), (bf16, 16), since=100)
def blocks_scaled_by_powers_of_two(dtype, t):
    x = draw(2 * t, 4, 32, dtype=dtype, scale=30)
    scale = 2.0 ** np.ceil(np.log2(np.abs(wide(x)).max(2, keepdims=True) / 448))
    small = (wide(x) / scale).astype(np.float32).astype(e4m3)
    out, back = np.zeros(x.shape, e4m3), np.zeros(x.shape, np.float32)
    return Launch(powers_of_two, (2,), (x, np.zeros((2 * t, 4, 1), e8m0), out, back, t),
                  {1: scale, 2: small, 3: wide(small) * scale})


@ct.kernel
def nibbles(packed, out, again, t: Const):
    """4-bit floats unpacked, computed with, and packed again."""
    tile = ct.unpack_from_bytes(ct.load(packed, (ct.bid(0),), (t,)), ct.float4_e2m1fn)
    wide_tile = tile.astype(ct.float32)
    ct.store(out, (ct.bid(0),), wide_tile)
    ct.store(again, (ct.bid(0),), ct.pack_to_bytes((-wide_tile * 0.5).astype(ct.float4_e2m1fn)))


@program((64,), (512,), since=100)
def floats_of_four_bits(t):
    packed = whole(2 * t, dtype=np.uint8, low=0, high=255)
    each = np.stack([packed & 15, packed >> 4], 1).ravel().astype(np.uint8)
    values = wide(each.view(ml_dtypes.float4_e2m1fn))
    half = (-values * .5).astype(np.float32).astype(ml_dtypes.float4_e2m1fn).view(np.uint8).reshape(-1, 2)
    return Launch(nibbles, (2,), (packed, np.zeros(4 * t, np.float32), np.zeros_like(packed), t),
                  {1: values, 2: (half[:, 0] & 15) | (half[:, 1] << 4)})


@ct.kernel
def words_of_64(x, y, out, rows, places, t: Const, n: Const):
    a, b = ct.load(x, (ct.bid(0), 0), (t, n)), ct.load(y, (ct.bid(0), 0), (t, n))
    c = a * b ^ (a >> 5)
    ct.store(out, (ct.bid(0), 0), ct.cumsum(c, axis=0) + ct.cumprod(b, axis=1, reverse=True))
    ct.store(rows, (ct.bid(0),), ct.max(c, axis=1) - ct.min(c, axis=1))
    ct.store(places, (ct.bid(0),), ct.argmax(c, axis=1) * 1000 + ct.argmin(c, axis=1))


@program((np.int64, 8, 32), (np.uint64, 32, 8), (np.int64, 1, 256), quick=True)
def words_of_64_bits(dtype, t, n):
    low = 0 if dtype is np.uint64 else -2**62
    x, y = whole(2 * t, n, dtype=dtype, low=low, high=2**62), whole(2 * t, n, dtype=dtype, low=max(low, -5), high=2**40, seed=1)
    with np.errstate(over="ignore"):
        c = x * y ^ (x >> dtype(5))
        sums = c.reshape(2, t, n).cumsum(1, dtype=dtype).reshape(2 * t, n)
        want = sums + y[:, ::-1].cumprod(1, dtype=dtype)[:, ::-1]
    return Launch(words_of_64, (2,), (x, y, np.zeros_like(x), np.zeros(2 * t, dtype), np.zeros(2 * t, np.int32), t, n),
                  {2: want, 3: c.max(1) - c.min(1), 4: c.argmax(1) * 1000 + c.argmin(1)})


@ct.kernel
def doubles(x, w, out, rows, t: Const, n: Const):
    """Softmax and a product in double precision, streamed."""
    m, s = ct.full((t, 1), -1e300, ct.float64), ct.zeros((t, 1), ct.float64)
    acc = ct.zeros((t, n), ct.float64)
    for j in range(ct.cdiv(x.shape[1], n)):
        tile = ct.load(x, (ct.bid(0), j), (t, n), padding_mode=ct.PaddingMode.NEG_INF)
        top = ct.maximum(m, ct.max(tile, axis=1, keepdims=True))
        p, r = ct.exp(tile - top), ct.exp(m - top)
        acc = ct.mma(p, ct.load(w, (j, 0), (n, n), padding_mode=ZERO), acc * r)
        s, m = s * r + ct.sum(p, axis=1, keepdims=True), top
    ct.store(out, (ct.bid(0), 0), acc / s)
    ct.store(rows, (ct.bid(0),), (ct.log(s) + m).reshape((t,)))


@program((16, 16), (32, 8))
def doubles_streamed(t, n):
    x, w = draw(2 * t, 3 * n - 1, dtype=np.float64, scale=5), draw(3 * n - 1, n, dtype=np.float64)
    p = np.exp(x - x.max(1, keepdims=True))
    return Launch(doubles, (2,), (x, w, np.zeros((2 * t, n)), np.zeros(2 * t), t, n),
                  {2: p @ w / p.sum(1, keepdims=True), 3: np.log(p.sum(1)) + x.max(1)}, 1e-12)


@ct.kernel
def scalars(out, a: int, b: float, c: bool, d: ct.ScalarInt64, e: Const, f: ct.Constant[float], g: ct.Constant[bool], t: Const):
    i = ct.arange(t, dtype=ct.int64)
    tile = (i * d + a).astype(ct.float64) * b + f
    if c:
        tile = tile + e
    if g:
        tile = -tile
    ct.store(out, (0,), tile + (a // 7) + (a % 7) * 0.125 + ct.cdiv(a, 3) + min(a, e) + max(b, f))


@program((-13, 0.25, True, 2**33, 5, 1.5, False), (40, -2.0, False, -7, -3, -0.75, True))
def scalars_of_each_kind(a, b, c, d, e, f, g):
    tile = (np.arange(16) * d + a) * b + f
    tile = tile + e if c else tile
    tile = -tile if g else tile
    want = tile + a // 7 + a % 7 * .125 + -(-a // 3) + min(a, e) + max(b, f)
    return Launch(scalars, (1,), (np.zeros(16), a, b, c, d, e, f, g, 16), {0: want}, 1e-12)


def through(*kinds):
    """A kernel that takes whole numbers through types that hold them, and back."""
    @ct.kernel
    def casts(x, out, t: Const):
        tile = ct.load(x, (ct.bid(0),), (t,), padding_mode=ZERO)
        for kind in ct.static_iter(kinds):
            tile = tile.astype(kind)
        ct.store(out, (ct.bid(0),), tile.astype(out.dtype))
    return casts


CASTS = (through(ct.float16, ct.int8, ct.float64, ct.uint16, ct.bfloat16, ct.int64),
         through(ct.uint8, ct.float32, ct.tfloat32, ct.float32, ct.int16, ct.float16),
         through(ct.int64, ct.float32, ct.uint64, ct.float64, ct.uint32, ct.bfloat16))


@program((np.int32, 0), (np.float64, 1), (np.uint8, 2), quick=True)
def casts_all_around(dtype, number):
    x = whole(200, dtype=dtype, low=0, high=100)
    return Launch(CASTS[number], (2,), (x, np.zeros(200, np.float32), 128), {1: x})


@ct.kernel
def bits_of_floats(x, out, t: Const):
    """The exponent and fraction of a float by its bits; the float again from them."""
    tile = ct.load(x, (ct.bid(0),), (t,))
    bits = ct.bitcast(tile, ct.uint32)
    exponent = ((bits >> 23) & 255).astype(ct.int32) - 127
    fraction = ct.bitcast((bits & 0x807fffff) | 0x3f800000, ct.float32)
    halves = ct.bitcast(tile, ct.int32) >> 16
    again = fraction * ct.exp2(exponent.astype(ct.float32))
    ct.store(out, (ct.bid(0), 0), ct.cat((again.reshape((t, 1)), halves.astype(ct.float32).reshape((t, 1))), 1))


@program((64,), (256,))
def floats_by_their_bits(t):
    x = draw(2 * t, dtype=np.float32, scale=100)
    return Launch(bits_of_floats, (2,), (x, np.zeros((2 * t, 2), np.float32), t),
                  {1: np.stack([x, (x.view(np.int32) >> 16).astype(np.float32)], 1)}, 1e-6)


@ct.kernel
def widths(x, out, t: Const):
    """A tile seen as bytes, summed by place, and seen as words again."""
    tile = ct.load(x, (ct.bid(0),), (t,))
    seen = ct.pack_to_bytes(tile).reshape((t, 4))
    swapped = ct.cat((ct.extract(seen, (0, 1), (t, 2)), ct.extract(seen, (0, 0), (t, 2))), 1)
    ct.store(out, (ct.bid(0),), ct.unpack_from_bytes(swapped.reshape((4 * t,)), ct.uint32))


@program((np.uint32, 32), (np.float32, 128), (np.int32, 4))
def halves_swapped_as_bytes(dtype, t):
    x = whole(2 * t, dtype=dtype, low=0, high=10**6)
    bits = x.view(np.uint32)
    return Launch(widths, (2,), (x, np.zeros(2 * t, np.uint32), t), {1: (bits >> 16) | (bits << 16)})
