"""Conversions by table: every pattern of 8 bits and of 16 through every small type, wider floats around every boundary; what is
rounded by chance; bits packed, counted, mixed and multiplied as kernels of quantization and of random numbers do."""
import cuda.tile as ct
import ml_dtypes
import numpy as np

from tests.programs.programs import Launch, bf16, draw, e4m3, e5m2, e8m0, program, whole, wide

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO
e2m1 = ml_dtypes.float4_e2m1fn
EVERY_BYTE = np.arange(256, dtype=np.uint8)
LARGEST = {e4m3: 448.0, e5m2: 57344.0, e2m1: 6.0}


def rounded(x, dtype):
    """To the nearest of a small type's numbers, ties to even, as this language has it: beyond the ends the largest number."""
    x = wide(x)
    clipped = np.where(np.isnan(x), x, np.clip(x, -LARGEST[dtype], LARGEST[dtype]))
    if dtype is e2m1:
        clipped = np.where(np.isnan(x), LARGEST[dtype], clipped)
    with np.errstate(invalid="ignore"):
        return clipped.astype(np.float32).astype(dtype)


@ct.kernel
def widened(x, halves, floats, doubles, t: Const):
    tile = ct.load(x, (ct.bid(0),), (t,))
    ct.store(halves, (ct.bid(0),), tile.astype(halves.dtype))
    ct.store(floats, (ct.bid(0),), tile.astype(ct.float32))
    ct.store(doubles, (ct.bid(0),), tile.astype(ct.float64))


@program((e4m3, np.float16, 256), (e5m2, np.float16, 64), (e4m3, bf16, 128), (e5m2, bf16, 256), since=90, quick=True)
def bytes_widened(dtype, half, t):
    x = EVERY_BYTE.view(dtype)
    return Launch(widened, (256 // t,), (x, np.zeros(256, half), np.zeros(256, np.float32), np.zeros(256), t),
                  {1: wide(x), 2: wide(x), 3: wide(x)})


@program((bf16, 256), (bf16, 32), since=100)
def powers_widened(half, t):
    x = EVERY_BYTE.view(e8m0)
    return Launch(widened, (256 // t,), (x, np.zeros(256, half), np.zeros(256, np.float32), np.zeros(256), t),
                  {1: wide(x), 2: wide(x), 3: wide(x)})


@ct.kernel
def small(x, out, t: Const):
    ct.store(out, (ct.bid(0),), ct.load(x, (ct.bid(0),), (t,)).astype(out.dtype))


@program(*[(source, dtype) for source in (np.float16, bf16) for dtype in (e4m3, e5m2)], since=90, quick=True)
def halves_narrowed(source, dtype):
    """All 65,536 patterns."""
    x = np.arange(65536, dtype=np.uint16).view(source)
    return Launch(small, (16,), (x, np.zeros(65536, dtype), 4096), {1: rounded(x, dtype)})


def around(numbers, dtype):
    """All of a type's numbers, the middles between neighbours, and what lies one step above and below each."""
    numbers = np.unique(wide(numbers)[np.isfinite(wide(numbers))])
    top = abs(numbers[-1])
    points = np.concatenate([numbers, (numbers[1:] + numbers[:-1]) / 2, [top * 1.03, top * 1.0625, top * 1.2, 1e30, -1e30]])
    points = points.astype(dtype)
    inf = dtype(np.inf)
    points = np.concatenate([points, np.nextafter(points, inf), np.nextafter(points, -inf), [inf, -inf, np.nan, 0.0, -0.0]])
    return np.resize(points, -(-len(points) // 256) * 256).astype(dtype)


@program(*[(source, dtype) for source in (np.float32, np.float64) for dtype in (e4m3, e5m2)], since=90)
def floats_narrowed(source, dtype):
    x = around(EVERY_BYTE.view(dtype), source)
    if source is np.float64:        # one rounding, not two
        want = rounded_once(x, dtype)
    else:
        want = rounded(x, dtype)
    return Launch(small, (len(x) // 256,), (x, np.zeros(len(x), dtype), 256), {1: want})


def rounded_once(x, dtype):
    """The nearest by a search among all numbers of the type."""
    numbers = np.unique(wide(EVERY_BYTE.view(dtype))[np.isfinite(wide(EVERY_BYTE.view(dtype)))])
    inside = np.clip(x, numbers[0], numbers[-1])
    above = np.searchsorted(numbers, inside).clip(1, len(numbers) - 1)
    low, high = numbers[above - 1], numbers[above]
    even = (low.astype(dtype).view(np.uint8) & 1) == 0
    with np.errstate(invalid="ignore"):
        best = np.where(inside - low < high - inside, low, np.where(inside - low > high - inside, high, np.where(even, low, high)))
    return np.where(np.isnan(x), np.nan, best).astype(dtype)


@ct.kernel
def small_bits(x, out, t: Const):
    """Four bits an element, packed by pairs."""
    ct.store(out, (ct.bid(0),), ct.pack_to_bytes(ct.load(x, (ct.bid(0),), (t,)).astype(ct.float4_e2m1fn)))


@program((np.float32,), (np.float16,), (bf16,), since=100)
def floats_narrowed_to_four_bits(source):
    x = around(np.arange(16, dtype=np.uint8).view(e2m1), np.float32)
    with np.errstate(over="ignore"):
        x = np.where(np.isnan(x), np.float32(1), x).astype(source)
    bits = rounded(x, e2m1).view(np.uint8).reshape(-1, 2)
    return Launch(small_bits, (len(x) // 256,), (x, np.zeros(len(x) // 2, np.uint8), 256), {1: bits[:, 0] & 15 | bits[:, 1] << 4})


@ct.kernel
def powers_up(x, up, down, t: Const):
    tile = ct.load(x, (ct.bid(0),), (t,))
    ct.store(up, (ct.bid(0),), tile.astype(ct.float8_e8m0fnu, rounding_mode=ct.RoundingMode.RP))
    ct.store(down, (ct.bid(0),), tile.astype(ct.float8_e8m0fnu, rounding_mode=ct.RoundingMode.RZ))


@program((np.float32,), (bf16,), since=100)
def floats_narrowed_to_powers(source):
    """Positive numbers, each power and what is beside it, from the least to the largest power that there is."""
    exponents = np.arange(-126, 128)
    x = np.concatenate([np.ldexp(1.0, exponents), np.ldexp(1.5, exponents), np.ldexp(1 + 2.0**-7, exponents),
                        np.ldexp(2 - 2.0**-7, exponents)])
    x = np.resize(x, 1024).astype(source)
    lower = np.floor(np.log2(wide(x)))
    upper = np.ceil(np.log2(wide(x))).clip(None, 127)
    return Launch(powers_up, (4,), (x, np.zeros(1024, e8m0), np.zeros(1024, e8m0), 256), {1: 2.0**upper, 2: 2.0**lower})


@ct.kernel
def by_chance(x, bits, out, again, t: Const):
    """f32 to bf16 by adding random bits below what is kept; whole numbers by comparing the fraction with random bits."""
    i = ct.bid(0)
    tile, chance = ct.load(x, (i,), (t,), padding_mode=ZERO), ct.load(bits, (i,), (t,), padding_mode=ZERO)
    word = ct.bitcast(tile, ct.uint32)
    special = ((word >> 23) & 255) == 255
    word = ct.where(special, word, word + (chance & 0xffff))
    ct.store(out, (i,), (word >> 16).astype(ct.uint16))
    low = ct.floor(tile)
    up = (tile - low) * 65536.0 > (chance >> 16).astype(ct.float32)
    ct.store(again, (i,), ct.minimum(ct.maximum(low + ct.where(up, 1.0, 0.0), -128.0), 127.0).astype(ct.int8))


@program((64,), (1024,), (32,))
def rounding_by_chance(t):
    n = 3 * t - 7
    x, bits = draw(n, dtype=np.float32, scale=50), np.random.default_rng(t).integers(0, 2**32, n, dtype=np.uint32)
    word = x.view(np.uint32) + (bits & 0xffff)
    low = np.floor(x)
    up = (x - low) * np.float32(65536) > (bits >> 16).astype(np.float32)
    return Launch(by_chance, (3,), (x, bits, np.zeros(n, np.uint16), np.zeros(n, np.int8), t),
                  {2: word >> 16, 3: np.clip(low + up, -128, 127).astype(np.int8)})


@ct.kernel
def weights_unpacked(packed, zeros, scales, out, t: Const, n: Const, bits: Const):
    """Words of 32 bits, each of 32 / bits numbers of one column's next rows (GPTQ), groups of rows with a zero and a scale."""
    i, j = ct.bid(0), ct.bid(1)
    each = 32 // bits
    word = ct.load(packed, (i, j), (t, n), padding_mode=ZERO).reshape((t, 1, n))
    shift = ct.arange(each, dtype=ct.int32).astype(ct.uint32)[None, :, None] * bits
    number = ((word >> shift) & (2**bits - 1)).reshape((t * each, n)).astype(ct.int32)
    zero_word = ct.gather(zeros, (i, (j * n + ct.arange(n, dtype=ct.int32)) // each))
    zero = (zero_word >> ((ct.arange(n, dtype=ct.int32) % each).astype(ct.uint32) * bits)) & (2**bits - 1)
    scale = ct.load(scales, (i, j), (1, n), padding_mode=ZERO)
    ct.store(out, (i, j), ((number - zero.astype(ct.int32)[None, :] - 1).astype(scale.dtype) * scale).astype(out.dtype))


@program((np.float16, 4, 64, 4), (bf16, 8, 32, 2), (np.float32, 16, 16, 8), (np.float16, 2, 128, 1))
def words_of_small_integers(dtype, t, n, bits):
    each, groups, columns = 32 // bits, 2, 2 * n - 3
    rng = np.random.default_rng(bits)
    packed = rng.integers(0, 2**32, (groups * t, columns), dtype=np.uint32)
    zeros = rng.integers(0, 2**32, (groups, -(-2 * n // each)), dtype=np.uint32)
    scales = whole(groups, columns, dtype=dtype, low=1, high=7)
    shift = np.arange(each, dtype=np.uint32) * np.uint32(bits)
    number = (packed[:, None] >> shift[:, None] & np.uint32(2**bits - 1)).reshape(groups * t * each, columns).astype(int)
    zero = (zeros[:, :, None] >> shift & np.uint32(2**bits - 1)).reshape(groups, -1)[:, :columns].astype(int)
    want = (number - np.repeat(zero, t * each, 0) - 1) * np.repeat(wide(scales), t * each, 0)
    return Launch(weights_unpacked, (groups, 2), (packed, zeros, scales, np.zeros(want.shape, dtype), t, n, bits), {3: want}, 4e-3)


@ct.kernel
def packed_by_sums(x, out, scales, t: Const, n: Const, bits: Const):
    """Rows quantized to few bits, as many of them in a byte as fit: packed by shifts and a sum along the axis of a reshape."""
    i = ct.bid(0)
    each = 8 // bits
    tile = ct.load(x, (i, 0), (t, n), padding_mode=ZERO).astype(ct.float32)
    low, high = ct.min(tile, axis=1, keepdims=True), ct.max(tile, axis=1, keepdims=True)
    scale = (high - low) / (2**bits - 1)
    scale = ct.where(scale == 0.0, 1.0, scale)
    q = ct.floor((tile - low) / scale + 0.5).astype(ct.uint8).reshape((t, n // each, each))
    shifts = ct.arange(each, dtype=ct.int32).astype(ct.uint8)[None, None, :] * bits
    ct.store(out, (i, 0), ct.reduce(q << shifts, 2, lambda a, b: a | b, 0))
    ct.store(scales, (i, 0), ct.cat((low, scale), 1))


@program((np.float32, 8, 64, 4), (np.float16, 4, 256, 2), (bf16, 16, 32, 1), (np.float32, 1, 1024, 8))
def rows_packed_to_few_bits(dtype, t, n, bits):
    each = 8 // bits
    x = draw(2 * t - t // 2, n, dtype=dtype)
    f = x.astype(np.float32)
    low, high = f.min(1, keepdims=True), f.max(1, keepdims=True)
    scale = (high - low) / np.float32(2**bits - 1)
    q = np.floor((f - low) / scale + np.float32(.5)).astype(np.uint8).reshape(len(x), n // each, each)
    want = np.bitwise_or.reduce(q << (np.arange(each, dtype=np.uint8) * np.uint8(bits)), 2)
    return Launch(packed_by_sums, (2,), (x, np.zeros(want.shape, np.uint8), np.zeros((len(x), 2), np.float32), t, n, bits),
                  {1: want, 2: np.concatenate([low, scale], 1)})


def high_product(a, b):
    return ((a.astype(ct.uint64) * b.astype(ct.uint64)) >> 32).astype(ct.uint32)


@ct.kernel
def four_words(out, normals, seed: ct.ScalarInt64, offset: ct.ScalarInt64, t: Const):
    """Philox of four words and ten rounds, keys of a 64-bit seed, counters beyond 32 bits; pairs become normal numbers."""
    i = ct.bid(0)
    place = offset + (i * t + ct.arange(t, dtype=ct.int32)).astype(ct.int64)
    c0, c1 = (place & 0xffffffff).astype(ct.uint32), (place >> 32).astype(ct.uint32)
    c2, c3 = ct.zeros((t,), ct.uint32), ct.zeros((t,), ct.uint32)
    k0 = ct.full((t,), seed & 0xffffffff, ct.int64).astype(ct.uint32)
    k1 = ct.full((t,), seed >> 32, ct.int64).astype(ct.uint32)
    for _ in range(10):
        h0, l0 = high_product(c0, ct.full((t,), 0xD2511F53, ct.uint32)), c0 * 0xD2511F53
        h1, l1 = high_product(c2, ct.full((t,), 0xCD9E8D57, ct.uint32)), c2 * 0xCD9E8D57
        c0, c1, c2, c3 = h1 ^ c1 ^ k0, l1, h0 ^ c3 ^ k1, l0
        k0, k1 = k0 + 0x9E3779B9, k1 + 0xBB67AE85
    words = ct.cat((ct.cat((c0.reshape((t, 1)), c1.reshape((t, 1))), 1), ct.cat((c2.reshape((t, 1)), c3.reshape((t, 1))), 1)), 1)
    ct.store(out, (i, 0), words)
    u = ((c0 >> 8).astype(ct.float32) + 0.5) * (1.0 / 16777216.0)
    v = (c1 >> 8).astype(ct.float32) * (1.0 / 16777216.0)
    ct.store(normals, (i,), ct.sqrt(-2.0 * ct.log(u)) * ct.cos(6.283185307179586 * v))


@program((64, 7, 0), (256, 2**40 + 12345, 2**33 - 100), (32, -3, 2**32 - 40))
def random_words_by_counters(t, seed, offset):
    n, mask = 2 * t, 2**32 - 1
    words = np.zeros((n, 4), np.uint64)
    for place in range(n):
        c = [(offset + place) & mask, (offset + place) >> 32, 0, 0]
        k = [seed & mask, (seed >> 32) & mask]
        for _ in range(10):
            p, q = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
            c = [q >> 32 ^ c[1] ^ k[0], q & mask, p >> 32 ^ c[3] ^ k[1], p & mask]
            k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
        words[place] = c
    u, v = ((words[:, 0] >> 8) + .5) / 2**24, (words[:, 1] >> 8) / 2**24
    return Launch(four_words, (2,), (np.zeros((n, 4), np.uint32), np.zeros(n, np.float32), seed, offset, t),
                  {0: words.astype(np.uint32), 1: np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v)}, 2e-5)


@ct.kernel
def bit_tricks(x, ones, turned, leading, t: Const, width: Const):
    """Ones counted, bits turned around and leading zeros found by shifts, as no op of the language does."""
    word = ct.load(x, (ct.bid(0),), (t,), padding_mode=ZERO)
    count, back, lead = ct.zeros((t,), word.dtype), ct.zeros((t,), word.dtype), ct.full((t,), width, ct.int32)
    for b in range(width):
        shift = ct.full((t,), b, ct.int32).astype(word.dtype)
        bit = (word >> shift) & 1
        count = count + bit
        back = back | (bit << (width - 1 - shift))
        lead = ct.where(bit != 0, width - 1 - b, lead)
    ct.store(ones, (ct.bid(0),), count)
    ct.store(turned, (ct.bid(0),), back)
    ct.store(leading, (ct.bid(0),), lead)


@program((np.uint8, 64), (np.uint16, 128), (np.uint32, 32), (np.uint64, 16))
def bits_counted_and_turned(dtype, t):
    width, n = 8 * np.dtype(dtype).itemsize, 2 * t - 5
    x = np.random.default_rng(t).integers(0, 2**width - 1, n, dtype=np.uint64, endpoint=True).astype(dtype)
    x[:3] = 0, 1, 2**width - 1
    texts = [f"{int(v):0{width}b}" for v in x]
    return Launch(bit_tricks, (2,), (x, np.zeros_like(x), np.zeros_like(x), np.zeros(n, np.int32), t, width),
                  {1: [s.count("1") for s in texts], 2: np.array([int(s[::-1], 2) for s in texts], dtype),
                   3: [width - len(s.lstrip("0")) for s in texts]})


MODES = {"zero": ct.RoundingMode.RZ, "down": ct.RoundingMode.RM, "up": ct.RoundingMode.RP, "even": ct.RoundingMode.RN}


def rounding(mode):
    @ct.kernel
    def computed(x, y, sums, products, quotients, roots, t: Const):
        a, b = ct.load(x, (ct.bid(0),), (t,)), ct.load(y, (ct.bid(0),), (t,))
        ct.store(sums, (ct.bid(0),), ct.add(a, b, rounding_mode=mode))
        ct.store(products, (ct.bid(0),), ct.mul(a, b, rounding_mode=mode))
        ct.store(quotients, (ct.bid(0),), ct.truediv(a, b, rounding_mode=mode))
        ct.store(roots, (ct.bid(0),), ct.sqrt(ct.abs(a), rounding_mode=mode))
    return computed


ROUNDING = {name: rounding(mode) for name, mode in MODES.items()}


def directed(exact, mode):
    """f32 numbers from longer ones, by the direction."""
    near = exact.astype(np.float32)
    off = near.astype(exact.dtype) - exact
    up, down = np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))
    low, high = np.where(off > 0, down, near), np.where(off < 0, up, near)
    return {"even": near, "down": low, "up": high, "zero": np.where(exact > 0, low, high)}[mode]


@program(*[(mode,) for mode in MODES], quick=True)
def arithmetic_rounded_by_mode(mode):
    """f32 sums and products of near exponents are exact in f64; quotients and roots are never close enough to a number of f32 to
    round otherwise from f64, unless they are one."""
    x, y = draw(512, dtype=np.float32), draw(512, dtype=np.float32, seed=1)
    x[:4], y[:4] = (1, -1, 0.25, 3), (3, 3, 0.5, -1)
    a, b = wide(x), wide(y)
    zeros = [np.zeros(512, np.float32) for _ in range(4)]
    want = {2: a + b, 3: a * b, 4: a / b, 5: np.sqrt(abs(a))}
    return Launch(ROUNDING[mode], (2,), (x, y, *zeros, 256), {at: directed(exact, mode) for at, exact in want.items()})
