"""Memory in ways that the suite doesn't go: overlapping and gapped views in loops, far strides, extents of zero, orders with
every padding, tiles of rank 5 and 6, raw memory, masks, gathers through gathers."""
import cuda.tile as ct
import numpy as np

from tests.programs.programs import Launch, bf16, blocks, program, whole, wide

Const = ct.Constant[int]
PADDINGS = {"zero": (ct.PaddingMode.ZERO, 0.0), "negative": (ct.PaddingMode.NEG_ZERO, -0.0), "nan": (ct.PaddingMode.NAN, np.nan),
            "infinite": (ct.PaddingMode.POS_INF, np.inf), "least": (ct.PaddingMode.NEG_INF, -np.inf)}
ZERO = ct.PaddingMode.ZERO


def streaming(padding):
    @ct.kernel
    def sums(x, out, t: Const, n: Const):
        i = ct.bid(0)
        acc = ct.zeros((t, n), ct.float32)
        for j in range(ct.cdiv(x.shape[1], n)):
            acc = acc + ct.load(x, (i, j), (t, n), padding_mode=padding).astype(ct.float32)
        ct.store(out, (i, 0), acc)
    return sums


STREAMING = {name: streaming(padding) for name, (padding, _) in PADDINGS.items()}


def padded(x, shape, value):
    out = np.full(shape, value)
    out[tuple(slice(n) for n in x.shape)] = wide(x)
    return out


@program(*[(name, dtype, 8, 256, rows, columns) for name in PADDINGS for dtype in (np.float32, np.float16)
           for rows, columns in ((13, 1000), (16, 1024 + 16))], quick=True)
def stream_with_padding(name, dtype, t, n, rows, columns):
    x, out = whole(rows, columns, dtype=dtype), np.zeros((16, n), np.float32)
    full = padded(x, (16, blocks(columns, n) * n), PADDINGS[name][1])
    with np.errstate(invalid="ignore"):
        return Launch(STREAMING[name], (2,), (x, out, t, n), {1: full.reshape(16, -1, n).sum(1)})


@ct.kernel
def moving_windows(x, out, t: Const, gap: Const):
    """Tiles that begin `gap` apart, of width t: overlapping where gap < t, with holes where gap > t."""
    i = ct.bid(0)
    view = x.tiled_view((4, t), traversal_steps=(4, gap), padding_mode=ZERO)
    into = out.tiled_view((4, t))
    for j in range(view.num_tiles(1)):
        into.store((i, j), view.load((i, j)) * 2)


@program((np.float32, 64, 16), (np.float16, 128, 128), (np.int32, 32, 64), (bf16, 64, 8))
def stream_of_windows(dtype, t, gap):
    n = 5 * gap + 3
    x = whole(8, n, dtype=dtype)
    count = blocks(n, gap)
    full = padded(x, (8, count * gap + t), 0)
    want = np.concatenate([full[:, j * gap:j * gap + t] for j in range(count)], 1) * 2
    return Launch(moving_windows, (2,), (x, np.zeros(want.shape, dtype), t, gap), {1: want})


@ct.kernel
def far_rows(x: ct.IndexedWithInt64, out, t: Const):
    tile = ct.load(x, (ct.bid(0), 0), (1, t), padding_mode=ZERO)
    ct.store(out, (ct.bid(0), 0), tile)
    ct.store(x, (ct.bid(0), 0), tile + 1)


@program()
def rows_more_than_2_31_elements_apart():
    """Two rows of a virtual array of 2 GiB of which only the pages that are touched exist."""
    pitch, t = 2**31 + 2**20 + 16, 64
    x = np.zeros(pitch + t, np.int8)
    rows = np.lib.stride_tricks.as_strided(x, (2, t - 3), (pitch, 1))
    rows[...] = whole(2, t - 3, dtype=np.int8)
    return Launch(far_rows, (2,), (rows, np.zeros((2, t), np.int8), t), {0: rows + 1, 1: padded(rows, (2, t), 0)})


@ct.kernel
def far_gather(x: ct.IndexedWithInt64, at, out, t: Const):
    i = ct.load(at, (0,), (t,))
    ct.store(out, (0,), ct.gather(x, (i, ct.arange(t, dtype=ct.int64) % 7)))
    ct.scatter(x, (i, ct.full((t,), 9, ct.int64)), i.astype(ct.int8))
    raw = x.get_raw_memory()
    ct.store(out, (1,), raw.load_offset(i * x.strides[0] + 1, mask=i < 1, padding_value=-3))


@program()
def gathers_more_than_2_31_elements_apart():
    pitch = 2**31 + 5
    x = np.zeros(pitch + 16, np.int8)
    rows = np.lib.stride_tricks.as_strided(x, (2, 10), (pitch, 1))
    rows[...] = whole(2, 10, dtype=np.int8)
    at = np.array([1, 0, 0, 1, 1, 1, 0, 1], np.int64)
    after = rows.copy()
    after[:, 9] = np.arange(2)
    first = rows[at, np.arange(8) % 7]
    return Launch(far_gather, (1,), (rows, at, np.zeros(16, np.int8), 8),
                  {0: after, 2: np.concatenate([first, np.where(at < 1, rows[at, 1], -3)])})


@ct.kernel
def nothing_there(x, y, out, t: Const):
    """Sums over axes that may be empty; the grid is there all the same."""
    acc = ct.zeros((t, t), ct.float32)
    for k in range(ct.cdiv(x.shape[1], t)):
        acc = acc + ct.load(x, (0, k), (t, t), padding_mode=ZERO)
    for k in range(y.shape[0]):
        acc = acc + ct.load(y, (k, 0, 0), (1, t, t), padding_mode=ZERO).reshape((t, t))
    ct.store(out, (0, 0), acc + 1)


@program((0, 0, 32), (0, 3, 16), (5, 0, 16), quick=True)
def empty_extents(columns, depth, t):
    x, y = whole(t, columns, dtype=np.float32), whole(depth, t, t, dtype=np.float32)
    want = padded(x, (t, t), 0) + wide(y).sum(0) + 1
    return Launch(nothing_there, (1,), (x, y, np.zeros((t, t), np.float32), t), {2: want})


@ct.kernel
def rank_six(x, out, order: ct.Constant[tuple], a: Const, b: Const):
    tile = ct.load(x, (ct.bid(0), 0, 0, 0, 0, ct.bid(1)), (1, 2, a, 2, b, 2), padding_mode=ZERO)
    ct.store(out, (ct.bid(0), 0, 0, ct.bid(1), 0, 0), tile.permute(order))


@program((np.float32, 4, 8), (np.int8, 8, 2), (np.float64, 1, 16))
def tiles_of_rank_six(dtype, a, b):
    x = whole(2, 2, a, 2, b - 1, 3, dtype=dtype)
    order = (0, 3, 4, 5, 2, 1)
    full = padded(x, (2, 2, a, 2, b, 4), 0).transpose(order)
    return Launch(rank_six, (2, 2), (x, np.zeros(full.shape, dtype), order, a, b), {1: full})


@ct.kernel
def ordered(x, out, a: Const, b: Const, c: Const, order: ct.Constant[tuple]):
    tile = ct.load(x, (0, ct.bid(0), 0), (a, b, c), order=order, padding_mode=ct.PaddingMode.NAN)
    ct.store(out, (0, ct.bid(0), 0), ct.where(ct.isnan(tile), 5.0, tile), order=order)


@program((np.float32, (2, 0, 1)), (np.float16, (1, 2, 0)), (bf16, (2, 1, 0)), (np.float64, (0, 2, 1)), (np.float32, (1, 0, 2)))
def views_of_any_order(dtype, order):
    a, b, c = 4, 8, 16
    logical = whole(3, 13, 16, dtype=dtype)
    back = np.argsort(order)
    x = np.ascontiguousarray(logical.transpose(back))
    full = padded(logical, (4, 16, 16), 5)
    out = np.zeros(full.transpose(back).shape, dtype)
    return Launch(ordered, (2,), (x, out, a, b, c, order), {1: full.transpose(back)})


@ct.kernel
def through_lists(heads, nexts, values, out, t: Const):
    """Linked lists, one an element: gathers whose indices were gathered, until all lists end."""
    at = ct.load(heads, (ct.bid(0),), (t,), padding_mode=ZERO)
    s = ct.zeros((t,), ct.float32)
    while ct.max(at) >= 0:
        s = s + ct.gather(values, at, mask=at >= 0, padding_value=0.0)
        at = ct.gather(nexts, at, padding_value=-1)
    ct.store(out, (ct.bid(0),), s)


@program((32,), (128,), quick=True)
def gathers_through_gathers(t):
    n = 200
    nexts = np.where(np.arange(n) % 9 == 8, -1, np.arange(n) + 1).astype(np.int32)
    nexts[-1] = -1
    heads, values = whole(2 * t, low=0, high=n - 1), whole(n, dtype=np.float32)

    def chase(at):
        s = 0.0
        while at >= 0:
            s, at = s + values[at], nexts[at]
        return s
    return Launch(through_lists, (2,), (heads, nexts, values, np.zeros(2 * t, np.float32), t), {3: [chase(h) for h in heads]})


@ct.kernel
def gather_in_three(x, i, j, out, a: Const, b: Const, c: Const):
    rows = ct.load(i, (0,), (a,)).reshape((a, 1, 1))
    columns = ct.load(j, (ct.bid(0), 0), (b, c)).reshape((1, b, c))
    tile = ct.gather(x, (rows, columns, columns // 2 - 1), padding_value=rows.astype(ct.float32) + 0.5)
    ct.store(out, (0, ct.bid(0), 0), tile)
    ct.scatter(x, (rows, columns, 0), 7, mask=(columns & 1) == 0)


@program((np.float32, 4, 8, 2), (np.float64, 8, 4, 16))
def gathers_of_rank_three(dtype, a, b, c):
    x = whole(6, 20, 5, dtype=dtype)
    i, j = whole(a, low=-1, high=6), whole(b, c, low=-2, high=21, seed=1)
    rows, columns = np.broadcast_arrays(i[:, None, None], j[None])
    last = columns // 2 - 1
    inside = (rows >= 0) & (rows < 6) & (columns >= 0) & (columns < 20) & (last >= 0) & (last < 5)
    want = np.where(inside, x[rows.clip(0, 5), columns.clip(0, 19), last.clip(0, 4)], rows + 0.5)
    after = x.copy()
    mask = (rows >= 0) & (rows < 6) & (columns >= 0) & (columns < 20) & (columns % 2 == 0)
    after[rows[mask], columns[mask], 0] = 7
    return Launch(gather_in_three, (1,), (x, i, j, np.zeros((a, b, c), dtype), a, b, c), {0: after, 3: want})


@ct.kernel
def raw(x, out, t: Const):
    memory, into = x.get_raw_memory(), out.get_raw_memory()
    at = ct.arange(t, dtype=ct.int32)[:, None] * x.strides[0] + ct.arange(t, dtype=ct.int32)[None, :]
    mask = (at % 3 != 0) & (ct.arange(t, dtype=ct.int32)[None, :] < x.shape[1])
    tile = memory.load_offset(at, mask=mask, padding_value=7, latency=3)
    turned = ct.arange(t, dtype=ct.int32)[None, :] * t + ct.arange(t, dtype=ct.int32)[:, None]
    into.store_offset(turned, tile, mask=tile != 2)


@program((np.float16, 16), (np.int64, 32), (np.uint8, 64))
def raw_memory_with_masks(dtype, t):
    x = whole(t, t + 3, dtype=dtype, low=0)[:, :t - 1]
    at = np.arange(t)[:, None] * (t + 3) + np.arange(t)
    tile = np.where((at % 3 != 0) & (np.arange(t) < t - 1), padded(x, (t, t), 0), 7)
    out = np.full((t, t), 9, dtype)
    return Launch(raw, (1,), (x, out, t), {1: np.where(tile != 2, tile, 9).T})


@ct.kernel
def copies_in_loops(x, out, t: Const, n: Const):
    """A copy, tile by tile, whose destination is the next iteration's source shifted by a tile."""
    for j in range(x.shape[1] // n):
        ct.store(out, (ct.bid(0), j), ct.load(x, (ct.bid(0), j), (t, n)) + ct.load(out, (ct.bid(0), ct.maximum(j - 1, 0)), (t, n)))


@program((np.float32, 16, 128), (np.float16, 8, 256), (np.int8, 32, 64), quick=True)
def stream_reads_what_it_wrote(dtype, t, n):
    x, out = whole(2 * t, 4 * n, dtype=dtype, low=-3, high=3), whole(2 * t, 4 * n, dtype=dtype, low=-3, high=3, seed=1)
    want = out.copy()
    for j in range(4):
        before = want[:, max(j - 1, 0) * n:(max(j - 1, 0) + 1) * n]
        want[:, j * n:(j + 1) * n] = x[:, j * n:(j + 1) * n] + before
    return Launch(copies_in_loops, (2,), (x, out, t, n), {1: want})


@ct.kernel
def in_place_turn(x, t: Const):
    """A square matrix is turned in place: two tiles change places."""
    i, j = ct.bid(0), ct.bid(1)
    if i > j:
        return
    a, b = ct.load(x, (i, j), (t, t), padding_mode=ZERO), ct.load(x, (j, i), (t, t), padding_mode=ZERO)
    ct.store(x, (j, i), a.transpose())
    ct.store(x, (i, j), b.transpose())


@program((np.float32, 16, 45), (np.float16, 64, 128), (np.int8, 32, 96), (np.float64, 32, 33))
def turned_in_place(dtype, t, n):
    x = whole(n, n, dtype=dtype, low=-100, high=100)
    return Launch(in_place_turn, (blocks(n, t), blocks(n, t)), (x, t), {0: x.T.copy()})


@ct.kernel
def many_arrays(groups: tuple, factors: tuple, out, t: Const):
    """A tuple of tuples of arrays, one a step of a static loop."""
    acc = ct.zeros((t,), ct.float32)
    for g in ct.static_iter(range(len(groups))):
        for a in ct.static_iter(groups[g]):
            acc = acc + ct.load(a, (ct.bid(0),), (t,), padding_mode=ZERO).astype(ct.float32) * factors[g]
    ct.store(out, (ct.bid(0),), acc)


@program((64, 3, 2), (256, 2, 9))
def tuples_of_arrays(t, groups, each):
    types = [np.float32, np.float16, np.int8, np.int64, bf16, np.uint16]
    arrays = tuple(tuple(whole(2 * t - 1 - g, dtype=types[(g + e) % 6], low=0, high=9, seed=e) for e in range(each))
                   for g in range(groups))
    factors = tuple(float(g + 1) for g in range(groups))
    want = sum(padded(a, (2 * t,), 0) * factors[g] for g, group in enumerate(arrays) for a in group)
    return Launch(many_arrays, (2,), (arrays, factors, np.zeros(2 * t, np.float32), t), {2: want})


@ct.kernel
def lists_in_loops(arrays, out, t: Const):
    """A list whose length only the launch knows, walked by a loop."""
    acc = ct.zeros((t,), ct.float32)
    for a in range(len(arrays)):
        one = arrays[a]
        for j in range(ct.cdiv(one.shape[0], t)):
            acc = acc + ct.load(one, (j,), (t,), padding_mode=ZERO)
        ct.store(one, (0,), acc)
    ct.store(out, (0,), acc)


@program((64,), (256,), quick=True)
def loop_over_a_list(t):
    arrays = [whole(n, dtype=np.float32) for n in (t, 3 * t - 1, 5, 2 * t)]
    acc, want = np.zeros(t), {}
    for number, a in enumerate(arrays):
        acc = acc + padded(a, (blocks(len(a), t) * t,), 0).reshape(-1, t).sum(0)
        after = a.copy()
        after[:t] = acc[:len(a)]
        want[0, number] = after
    return Launch(lists_in_loops, (1,), (arrays, np.zeros(t, np.float32), t), {**want, 1: acc})


@ct.kernel
def broadcast_arrays(x, y, z, out, t: Const):
    """Arrays of stride 0 along an axis, and one whose both strides are large."""
    i = ct.bid(0)
    a = ct.load(x, (i, 0), (t, t), padding_mode=ZERO)
    b = ct.load(y, (i, 0), (t, t), padding_mode=ZERO)
    c = ct.load(z, (i, 0), (t, t), padding_mode=ZERO)
    ct.store(out, (i, 0), a * b + c)


@program((np.float32, 32), (np.float16, 64), (np.int8, 16))
def strides_of_zero(dtype, t):
    row, column = whole(t, dtype=dtype), whole(2 * t, 1, dtype=dtype)
    big = whole(4 * t, 3 * t, dtype=dtype)
    x, y, z = np.broadcast_to(row, (2 * t, t)), np.broadcast_to(column, (2 * t, t)), big[::2, ::3]
    return Launch(broadcast_arrays, (2,), (x, y, z, np.zeros((2 * t, t), dtype), t),
                  {3: (x * y + z).astype(dtype)})


@ct.kernel
def long_rows(x, out, n: Const):
    tile = ct.load(x, (ct.bid(0), 0), (1, n), padding_mode=ZERO)
    s = ct.cumsum(tile, axis=1)
    ct.store(out, (ct.bid(0), 0), ct.where(tile > 0, s, tile))


@program((np.int32, 16384), (np.float32, 32768), (np.int16, 65536))
def rows_of_many_thousand(dtype, n):
    x = whole(2, n - 77, dtype=dtype, low=-2, high=2)
    return Launch(long_rows, (2,), (x, np.zeros_like(x), n), {1: np.where(x > 0, np.cumsum(x, 1, dtype=dtype), x)})
