"""Scattered updates and lookups: histograms of one and two axes, largest of segments by floats' bits, tables filled by
compare-and-swap with sums of 64 bits, weights by group index, windows of images as products' operands."""
import cuda.tile as ct
import numpy as np

from tests.programs.programs import Launch, bf16, blocks, program, whole, wide

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def counted(x, y, weights, one, two, most, t: Const, bins: Const):
    """Counts by one key, weights by two, and the largest weight of a key: a float's bits in an order that integers have."""
    i = ct.bid(0)
    at = i * t + ct.arange(t, dtype=ct.int32)
    a, b = ct.gather(x, at, padding_value=-1), ct.gather(y, at, padding_value=-1)
    w = ct.gather(weights, at)
    ct.atomic_add(one, a, 1)
    ct.atomic_add(two, (ct.where(w > 0.0, a, -1), b), w)
    bits = ct.bitcast(w, ct.int32)
    ct.atomic_max(most, a, ct.where(bits < 0, bits ^ 0x7fffffff, bits))
    local = ct.sum((a[:, None] == ct.arange(bins, dtype=ct.int32)[None, :]).astype(ct.int32), axis=0)
    ct.atomic_add(one, bins + ct.arange(bins, dtype=ct.int32), local)


@program((64, 8), (256, 32), (1024, 16), quick=True)
def histograms_by_atomics(t, bins):
    n = 3 * t - 7
    x, y = whole(n, low=0, high=bins - 1), whole(n, low=-2, high=bins + 1, seed=1)
    w = whole(n, dtype=np.float32, low=-9, high=9) / np.float32(4)
    one, two, most = np.zeros(2 * bins, np.int64), np.zeros((bins, bins)), np.full(bins, -2**31, np.int64)
    inside = (y >= 0) & (y < bins) & (w > 0)
    np.add.at(two, (x[inside], y[inside]), wide(w)[inside])
    bits = w.view(np.int32)
    np.maximum.at(most, x, np.where(bits < 0, bits ^ 0x7fffffff, bits))
    one[:bins] = one[bins:] = np.bincount(x, minlength=bins)
    return Launch(counted, (3,), (x, y, w, np.zeros(2 * bins, np.int32), np.zeros((bins, bins), np.float32),
                                  np.full(bins, -2**31, np.int32), t, bins), {3: one, 4: two, 5: most})


@ct.kernel
def into_table(keys, values, slots, sums, t: Const, size: Const):
    """Keys find their slots by compare-and-swap, the next one where another key has it; values are added in 64 bits."""
    i = ct.bid(0)
    at = i * t + ct.arange(t, dtype=ct.int32)
    key = ct.gather(keys, at, padding_value=-1)
    slot = (key.astype(ct.uint32) * 2654435761 >> 7).astype(ct.int32) % size
    slot = ct.where(slot < 0, -slot, slot)
    going = key >= 0
    while ct.max(going.astype(ct.int32)) > 0:
        seen = ct.atomic_cas(slots, ct.where(going, slot, size), -1, key)
        found = going & ((seen == -1) | (seen == key))
        ct.atomic_add(sums, ct.where(found, slot, size), ct.gather(values, at))
        going = going & ~found
        slot = ct.where(going, (slot + 1) % size, slot)


@program((32, 64), (128, 512))
def table_filled_by_keys(t, size):
    """Where a key lies depends on the order: the sums of all that was added to are compared by what holds in any order, one key."""
    n = 2 * t - 3
    keys, values = np.full(n, 77, np.int32), whole(n, dtype=np.int64, low=-2**40, high=2**40)
    keys[::2] = 78
    slots, sums = np.full(size, -1, np.int32), np.zeros(size, np.int64)
    places = {}
    for key in (77, 78):
        place = (key * 2654435761 % 2**32 >> 7) % size
        places[key] = place
    assert places[77] != places[78]
    want, total = slots.copy(), sums.copy()
    for key, place in places.items():
        want[place], total[place] = key, values[keys == key].sum()
    return Launch(into_table, (2,), (keys, values, slots, sums, t, size), {2: want, 3: total})


@ct.kernel
def by_group_index(x, packed, zeros, scales, group, out, tm: Const, tn: Const, tk: Const):
    """4-bit weights whose rows have a group each, in any order: scales and zeros are gathered by row, the words by eighths."""
    i, j = ct.bid(0), ct.bid(1)
    column = j * tn + ct.arange(tn, dtype=ct.int32)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(x.shape[1], tk)):
        row = k * tk + ct.arange(tk, dtype=ct.int32)
        g = ct.gather(group, row, padding_value=-1)
        word = ct.gather(packed, (row[:, None] // 8, column[None, :]))
        number = (word >> ((row % 8) * 4)[:, None].astype(ct.uint32)) & 15
        zword = ct.gather(zeros, (g[:, None], column[None, :] // 8))
        zero = (zword >> ((column % 8) * 4)[None, :].astype(ct.uint32)) & 15
        scale = ct.gather(scales, (g[:, None], column[None, :]))
        w = (number.astype(ct.int32) - zero.astype(ct.int32)).astype(x.dtype) * scale
        acc = ct.mma(ct.load(x, (i, k), (tm, tk), padding_mode=ZERO), w, acc)
    ct.store(out, (i, j), acc.astype(out.dtype))


@program((np.float16, 16, 64, 64), (bf16, 64, 128, 32), (np.float32, 8, 16, 16), (np.float16, 128, 64, 128))
def weights_by_group_index(dtype, tm, tn, tk):
    m, n, k, groups = tm + 3, 2 * tn - 8, 3 * tk - 8, 5
    rng = np.random.default_rng(tk)
    x, scales = whole(m, k, dtype=dtype, low=-2, high=2), whole(groups, n, dtype=dtype, low=1, high=4)
    packed = rng.integers(0, 2**32, (k // 8, n), dtype=np.uint32)
    zeros, group = rng.integers(0, 2**32, (groups, n // 8), dtype=np.uint32), whole(k, low=0, high=groups - 1)
    four = np.arange(8, dtype=np.uint32) * np.uint32(4)
    number = (packed[:, None] >> four[:, None] & np.uint32(15)).reshape(k, n).astype(int)
    zero = (zeros[:, :, None] >> four & np.uint32(15)).reshape(groups, n).astype(int)
    want = wide(x) @ ((number - zero[group]) * wide(scales)[group])
    return Launch(by_group_index, (2, 2), (x, packed, zeros, scales, group, np.zeros((m, n), np.float32), tm, tn, tk),
                  {5: want}, 1e-4)


@ct.kernel
def image_windows(x, w, bias, out, p: Const, c: Const, n: Const, size: Const, stride: Const):
    """A row of pixels' windows as operands: rows of one array that overlap, at a distance, with zeros around, for each place in the
    window; what is left of the channels is masked."""
    b, y, q = ct.bid(0), ct.bid(1), ct.bid(2)
    acc = ct.zeros((p, n), ct.float32) + ct.load(bias, (0,), (n,), padding_mode=ZERO)[None, :]
    across = (q * p + ct.arange(p, dtype=ct.int32)) * stride - size // 2
    for dy in range(size):
        for dx in range(size):
            for k in range(ct.cdiv(x.shape[3], c)):
                channel = k * c + ct.arange(c, dtype=ct.int32)
                tile = ct.gather(x, (b, y * stride + dy - size // 2, (across + dx)[:, None], channel[None, :]))
                part = ct.load(w, (dy, dx, k, 0), (1, 1, c, n), padding_mode=ZERO).reshape((c, n))
                acc = ct.mma(tile, part, acc)
    ct.store(out, (b, y, q, 0), ct.maximum(acc, 0.0).astype(out.dtype).reshape((1, 1, p, n)))


@program((bf16, 64, 32, 64, 1, 2), (np.float16, 16, 16, 32, 3, 1), (np.float32, 8, 8, 16, 5, 2), quick=True)
def images_convolved_by_products(dtype, p, c, n, size, stride):
    height, width, channels = 5, (p + p // 2) * stride, c + c // 2
    x = whole(2, height, width, channels, dtype=dtype, low=-2, high=2)
    w = whole(size, size, channels, n - 3, dtype=dtype, low=-1, high=1)
    bias = whole(n - 3, dtype=np.float32)
    rows, columns, half = blocks(height, stride), blocks(width, stride), size // 2
    padded = np.pad(wide(x), ((0, 0), (half, half), (half, half), (0, 0)))
    want = np.zeros((2, rows, columns, n - 3)) + bias
    for dy, dx in np.ndindex(size, size):
        part = padded[:, dy:dy + (rows - 1) * stride + 1:stride, dx:dx + (columns - 1) * stride + 1:stride]
        want += part @ wide(w)[dy, dx]
    launch = (x, w, bias, np.zeros(want.shape, np.float32), p, c, n, size, stride)
    return Launch(image_windows, (2, rows, blocks(columns, p)), launch, {3: np.maximum(want, 0)}, 1e-4)
