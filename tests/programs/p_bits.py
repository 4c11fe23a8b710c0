"""Arrays of integers that hold floats' bits, as NumPy's bf16 comes from users: cast behind loads and in front of stores."""
import cuda.tile as ct
import numpy as np

from tests.programs.programs import Launch, bf16, blocks, draw, e4m3, e5m2, program, whole, wide

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


def bits(x):
    """An array's elements as unsigned integers."""
    return x.view(np.dtype(f"uint{8 * x.itemsize}"))


@ct.kernel
def product(a, b, out, factor, result, tm: Const, tn: Const, tk: Const):
    """`factor` and `result` only say what the elements are."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        x = ct.bitcast(ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), factor.dtype)
        y = ct.bitcast(ct.transpose(ct.load(b, (j, k), (tn, tk), padding_mode=ZERO)), factor.dtype)
        acc = ct.mma(x, y, acc)
    ct.store(out, (i, j), ct.bitcast(acc.astype(result.dtype), out.dtype))


@program((bf16, bf16, 128, 128, 64, 300, 200, 264), (np.float16, np.float32, 64, 64, 32, 128, 128, 256),
         (bf16, np.float32, 128, 256, 64, 256, 256, 192), quick=True)
def product_of_bits(dtype, to, tm, tn, tk, m, n, k):
    a, b = whole(m, k, dtype=dtype, low=-3, high=4), whole(n, k, dtype=dtype, low=-3, high=4, seed=3)
    out, of = bits(np.zeros((m, n), to)), (np.zeros(16, dtype), np.zeros(16, to))
    return Launch(product, (blocks(m, tm), blocks(n, tn)), (bits(a), bits(b), out, *of, tm, tn, tk),
                  {2: bits((wide(a) @ wide(b).T).astype(np.float32).astype(to))})


@program((e4m3, bf16, 128, 128, 128, 256, 144, 272), (e5m2, np.float16, 64, 64, 64, 128, 128, 128), since=90, quick=True)
def product_of_bytes_as_floats(dtype, to, tm, tn, tk, m, n, k):
    return product_of_bits(dtype, to, tm, tn, tk, m, n, k)


@ct.kernel
def listed(rows, a, b, out, tm: Const, tn: Const, tk: Const):
    at = ct.gather(rows, ct.bid(0) * tm + ct.arange(tm, dtype=ct.int32), padding_value=-1)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        x = ct.gather(a, (at[:, None], (k * tk + ct.arange(tk, dtype=ct.int32))[None, :]), padding_value=0)
        y = ct.load(b, (k, 0), (tk, tn), padding_mode=ZERO)
        acc = ct.mma(ct.bitcast(x, ct.bfloat16), ct.bitcast(y, ct.bfloat16), acc)
    columns = ct.arange(tn, dtype=ct.int32)
    ct.scatter(out, (at[:, None], columns[None, :]), ct.bitcast(acc.astype(ct.bfloat16), ct.uint16))


@program((64, 64, 64, 100, 192), (128, 128, 32, 256, 100))
def rows_of_bits_listed(tm, tn, tk, m, k):
    a, b = whole(m, k, dtype=bf16, low=-3, high=4), whole(k, tn, dtype=bf16, low=-3, high=4, seed=3)
    rows = np.random.default_rng(1).permutation(m).astype(np.int32)
    return Launch(listed, (blocks(m, tm),), (rows, bits(a), bits(b), np.zeros((m, tn), np.uint16), tm, tn, tk),
                  {3: bits((wide(a) @ wide(b)).astype(np.float32).astype(bf16))})


@ct.kernel
def both(x, signs, halves, out, t: Const):
    """Used as what it is, and as what it stands for; the second array is read and written as two types."""
    i = ct.bid(0)
    word = ct.load(x, (i,), (t,), padding_mode=ZERO)
    value = ct.bitcast(word, ct.float32)
    ct.store(signs, (i,), (word >> 31).astype(signs.dtype))
    known = ct.bitcast(ct.load(halves, (i,), (t,), padding_mode=ZERO), ct.float16)
    ct.store(halves, (i,), ct.bitcast((known * known).astype(ct.float16), ct.uint16))
    again = ct.load(halves, (i,), (t,), padding_mode=ZERO)
    ct.store(out, (i,), ct.where((again & 1) == 1, value, -value))


@program((256, 1000), (64, 64), quick=True)
def bits_as_both(t, n):
    x, y = draw(n, dtype=np.float32), draw(n, dtype=np.float16, seed=2)
    square = (y * y).astype(np.float16)
    return Launch(both, (blocks(n, t),), (bits(x), np.zeros(n, np.int32), bits(y.copy()), np.zeros(n, np.float32), t),
                  {1: (bits(x) >> 31).astype(np.int32), 2: bits(square), 3: np.where(bits(square) & 1 == 1, x, -x)})


@ct.kernel
def padded(x, out, t: Const):
    """Beyond the end one of the type that is there, and of no other."""
    tile = ct.load(x, (ct.bid(0),), (t,), padding_mode=ct.PaddingMode.NEG_INF)
    ct.store(out, (ct.bid(0),), ct.bitcast(tile, out.dtype))


@program((np.float16, 64), (np.float32, 128))
def padding_as_bits(dtype, t):
    x = draw(t - 5, dtype=dtype)
    word = bits(x).dtype
    return Launch(padded, (1,), (x, np.zeros(t, word), t), {1: bits(np.append(x, np.full(5, -np.inf, dtype)))})


@ct.kernel
def unpacked(x, out, low, high, n: Const):
    b = ct.load(x, (ct.bid(0),), (n,))
    ct.store(out, (ct.bid(0),), b.astype(out.dtype))
    ct.store(low, (ct.bid(0),), (b & 15).astype(low.dtype))
    ct.store(high, (ct.bid(0),), ((b >> 4) ^ (b << 3)).astype(high.dtype))


@program(*[(kind, to, n) for kind in (np.int8, np.uint8) for to in (np.float16, bf16, np.float32) for n in (64, 512)], quick=True)
def bytes_as_floats(kind, to, n):
    """Every byte, and its halves, by fours and by ones."""
    x = np.arange(512).astype(np.uint8).view(kind)
    out, low, high = (np.zeros(512, to) for _ in range(3))
    with np.errstate(over="ignore"):
        turned = (x >> 4) ^ (x << 3).astype(kind)
    return Launch(unpacked, (512 // n,), (x, out, low, high, n), {1: wide(x), 2: wide(x & 15), 3: wide(turned.astype(kind))})
