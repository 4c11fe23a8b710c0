"""Kernels at the edges of what may be asked: block-scaled products of any tile, arrays that are made of pointers, one array as two
arguments, extents of zero, tiles of one element and of very many, five axes, long chains of indices, optimizers' lists."""
import cuda.tile as ct
import ml_dtypes
import numpy as np

from tests.programs.programs import Launch, bf16, blocks, draw, e4m3, e5m2, e8m0, program, whole, wide

Const = ct.Constant[int]
ZERO, LEAST, NAN = ct.PaddingMode.ZERO, ct.PaddingMode.NEG_INF, ct.PaddingMode.NAN


@ct.kernel
def scaled(a, sa, b, sb, out, tm: Const, tn: Const, tk: Const, block: Const):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        x, y = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), ct.load(b, (k, j), (tk, tn), padding_mode=ZERO)
        u = ct.load(sa, (i, k), (tm, tk // block), padding_mode=ZERO)
        v = ct.load(sb, (k, j), (tk // block, tn), padding_mode=ZERO)
        acc = ct.mma_scaled(x, u, y, v, acc)
    ct.store(out, (i, j), acc)


@program((e4m3, e4m3, 16, 8, 32), (e5m2, e5m2, 8, 16, 64), (e4m3, e4m3, 32, 16, 256), (e4m3, e4m3, 64, 256, 32),
         (e5m2, e5m2, 128, 16, 128), (e4m3, e4m3, 256, 32, 64), (e4m3, e4m3, 16, 256, 64), (e4m3, e4m3, 1, 32, 32),
         (e4m3, e4m3, 128, 32, 512), since=100)
def scaled_products_of_any_tile(one, other, tm, tn, tk):
    m, n, k = 2 * tm - tm // 4, 2 * tn - tn // 2, 2 * tk + 32
    a, b = whole(m, k, dtype=one, low=-3, high=3), whole(k, n, dtype=other, low=-3, high=3, seed=1)
    sa, sb = ((2.0 ** whole(*s, low=-2, high=2)).astype(e8m0) for s in ((m, k // 32), (k // 32, n)))
    want = (wide(a) * np.repeat(wide(sa), 32, 1)) @ (wide(b) * np.repeat(wide(sb), 32, 0))
    return Launch(scaled, (blocks(m, tm), blocks(n, tn)), (a, sa, b, sb, np.zeros((m, n), np.float32), tm, tn, tk, 32),
                  {4: want}, 1e-4)


@ct.kernel
def scaled_nibbles(a, sa, b, sb, out, tm: Const, tn: Const, tk: Const, block: Const):
    """4-bit operands, the second one's bytes along k as well, turned after they are unpacked; a batch of one in front."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.full((1, tm, tn), 1.0, ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk // 2)):
        x = ct.unpack_from_bytes(ct.load(a, (i, k), (tm, tk // 2), padding_mode=ZERO).reshape((tm * tk // 2,)), ct.float4_e2m1fn)
        y = ct.unpack_from_bytes(ct.load(b, (j, k), (tn, tk // 2), padding_mode=ZERO).reshape((tn * tk // 2,)), ct.float4_e2m1fn)
        u = ct.load(sa, (i, k), (tm, tk // block), padding_mode=ZERO).reshape((1, tm, tk // block))
        v = ct.load(sb, (j, k), (tn, tk // block), padding_mode=ZERO)
        acc = ct.mma_scaled(x.reshape((1, tm, tk)), u, y.reshape((tn, tk)).transpose().reshape((1, tk, tn)),
                            v.transpose().reshape((1, tk // block, tn)), acc)
    ct.store(out, (i, j), acc.reshape((tm, tn)))


@program((e4m3, 16, 8, 64, 16), (e8m0, 16, 8, 64, 32), (e8m0, 64, 32, 128, 16), (e4m3, 128, 256, 64, 16), (e8m0, 8, 128, 256, 32),
         (e4m3, 32, 32, 32, 16), since=100)
def scaled_products_of_nibbles_of_any_tile(kind, tm, tn, tk, block):
    m, n, k = tm + tm // 2, tn + tn // 2, 2 * tk
    a, b = (whole(rows, k // 2, dtype=np.uint8, low=0, high=255) for rows in (m, n))
    sa, sb = ((2.0 ** whole(rows, k // block, low=-2, high=2)).astype(kind) for rows in (m, n))

    def values(packed):
        each = np.stack([packed & 15, packed >> 4], -1).astype(np.uint8).reshape(len(packed), -1)
        return wide(each.view(ml_dtypes.float4_e2m1fn))
    want = 1 + (values(a) * np.repeat(wide(sa), block, 1)) @ (values(b) * np.repeat(wide(sb), block, 1)).T
    return Launch(scaled_nibbles, (2, 2), (a, sa, b, sb, np.zeros((m, n), np.float32), tm, tn, tk, block), {4: want}, 1e-4)


@ct.kernel
def from_pointers(x, y, sizes, out, tm: Const, tn: Const, tk: Const):
    """Operands out of one buffer each: a turned one, and one of overlapping rows, whose extents and strides come from memory."""
    m, n, k = ct.load(sizes, (0,), ()), ct.load(sizes, (1,), ()), ct.load(sizes, (2,), ())
    step = ct.load(sizes, (3,), ())
    a = ct.Array.from_foreign(x.foreign_pointer, (k, m), (m, ct.int64(1)))
    b = ct.Array.from_foreign(y.foreign_pointer, (k, n), (step, ct.int64(1)))
    into = ct.Array.from_foreign(out.foreign_pointer, (m, n), (n, ct.int64(1)))
    acc = ct.zeros((tm, tn), ct.float32)
    for q in range(ct.cdiv(k, tk)):
        u = ct.load(a, (q, ct.bid(0)), (tk, tm), padding_mode=ZERO).transpose()
        acc = ct.mma(u, ct.load(b, (q, ct.bid(1)), (tk, tn), padding_mode=ZERO), acc)
    ct.store(into, (ct.bid(0), ct.bid(1)), acc.astype(out.dtype))


@program((np.float16, 64, 64, 32), (bf16, 128, 64, 64), (np.float32, 16, 16, 16))
def products_of_arrays_from_pointers(dtype, tm, tn, tk):
    m, n, k, step = 2 * tm - 3, 2 * tn - 5, 3 * tk - 1, tn + 8
    x, y = whole(m * k, dtype=dtype, low=-2, high=2), whole(step * (k - 1) + n, dtype=dtype, low=-2, high=2, seed=1)
    rows = np.lib.stride_tricks.as_strided(wide(y), (k, n), (step * 8, 8))
    want = wide(x).reshape(k, m).T @ rows
    return Launch(from_pointers, (2, 2), (x, y, np.array([m, n, k, step], np.int64), np.zeros(m * n, np.float32), tm, tn, tk),
                  {3: want.reshape(-1)})


@ct.kernel
def one_as_three(x, y, z, t: Const):
    """Two of three arguments are one array: nobody writes it."""
    for i in range(ct.bid(0), ct.cdiv(x.shape[0], t), ct.num_blocks(0)):
        a, b = ct.load(x, (i, 0), (t, t), padding_mode=ZERO), ct.load(y, (i, 0), (t, t), padding_mode=ZERO)
        ct.store(z, (i, 0), a * 2 - b.transpose())


@program((np.float32, 16, 1), (np.float16, 64, 2), (np.int32, 32, 3), (bf16, 128, 1))
def arguments_that_are_one_array(dtype, t, grid):
    x = whole(4 * t, t, dtype=dtype)
    want = wide(x).reshape(4, t, t)
    want = (want * 2 - want.transpose(0, 2, 1)).reshape(4 * t, t)
    return Launch(one_as_three, (grid,), (x, x, np.zeros_like(x), t), {2: want})


@ct.kernel
def nothing(x, at, y, out, count, t: Const):
    """Gathers, scatters, atomics and reductions where arrays have no elements, or loops no iteration."""
    i = ct.arange(t, dtype=ct.int32)
    a = ct.gather(x, (i[:, None], i[None, :]), padding_value=3)
    ct.scatter(x, (i[:, None], i[None, :]), a)
    ct.atomic_add(count, i, 1)
    b = ct.gather(at, i, padding_value=-7)
    best, place = ct.full((t,), -1.0, ct.float32), ct.full((t,), -1, ct.int32)
    for k in range(ct.cdiv(y.shape[1], t)):
        tile = ct.load(y, (0, k), (t, t), padding_mode=LEAST)
        best, place = ct.maximum(best, ct.max(tile, axis=1)), ct.argmax(tile, axis=1)
        ct.store(y, (0, k), tile * 2)
    acc = ct.zeros((t, t), ct.float32)
    for k in range(ct.num_tiles(x, 1, (t, t))):
        acc = ct.mma(ct.load(x, (0, k), (t, t), padding_mode=ZERO), ct.load(x, (0, k), (t, t), padding_mode=ZERO), acc)
    ct.store(out, (0, 0), acc + a.astype(ct.float32) + b[None, :] + best[:, None] + place[:, None])


@program((0, 0, 0, 16), (0, 5, 0, 32), (4, 0, 0, 64))
def arrays_without_elements(m, n, k, t):
    x, y = np.zeros((m, n), np.float16), np.zeros((t, k), np.float32)
    return Launch(nothing, (1,), (x, np.zeros(0, np.int32), y, np.zeros((t, t), np.float32), np.zeros(0, np.int32), t),
                  {3: np.full((t, t), 3 - 7 - 1 - 1)})


@ct.kernel
def of_five_axes(x, out, sums, largest, a: Const, b: Const, c: Const):
    """Reductions and scans along each axis, parts taken out and put back, products of what is folded."""
    tile = ct.load(x, (0, ct.bid(0), 0, 0, 0), (a, 1, b, 2, c), padding_mode=NAN)
    tile = ct.where(ct.isnan(tile), 1.0, tile)
    turned = tile.permute((4, 2, 0, 3, 1))
    part = ct.extract(turned, (0, 0, 0, 1, 0), (c, b, a, 1, 1))
    turned = ct.insert(turned, (0, 0, 0, 0, 0), part * 2)
    ct.store(out, (0, 0, 0, 0, ct.bid(0)), ct.cumsum(turned, axis=1))
    ct.store(sums, (ct.bid(0), 0, 0), ct.sum(ct.sum(tile, axis=3), axis=0).reshape((1, b, c)))
    folded = tile.permute((1, 3, 2, 0, 4)).reshape((2, b, a * c))
    ct.store(largest, (ct.bid(0), 0, 0), ct.max(folded, axis=0).reshape((1, b, a * c)))


@program((np.float32, 4, 8, 8), (np.float16, 2, 16, 16), (np.float64, 8, 2, 4), (bf16, 1, 4, 32))
def tiles_of_five_axes(dtype, a, b, c):
    x = whole(a, 2, b, 2, c - 1, dtype=dtype, low=-3, high=3)
    full = np.ones((a, 2, b, 2, c))
    full[..., :c - 1] = x
    turned = full.transpose(4, 2, 0, 3, 1).copy()
    turned[:, :, :, 0] = turned[:, :, :, 1] * 2
    sums = full.transpose(1, 0, 2, 3, 4).sum(3).sum(1)
    folded = full.transpose(1, 3, 2, 0, 4).reshape(2, 2, b, a * c).max(1)
    zeros = [np.zeros(s, dtype) for s in (turned.shape, sums.shape, folded.shape)]
    return Launch(of_five_axes, (2,), (x, *zeros, a, b, c), {1: turned.cumsum(1), 2: sums, 3: folded}, 1e-2)


@ct.kernel
def extremes(x, out, best, t: Const, one: Const):
    tile = ct.load(x, (ct.bid(0),), (t,), padding_mode=LEAST)
    ct.store(out, (ct.bid(0),), ct.exp(tile - ct.max(tile)) / ct.sum(ct.exp(tile - ct.max(tile))))
    ct.store(best, (ct.bid(0),), ct.argmax(tile))
    small = ct.load(x, (ct.bid(0),), (one,)).reshape((1, 1, 1, one, 1))
    ct.store(best, (2 + ct.bid(0),), ct.argmax(small, axis=3).reshape(()) + ct.argmin(small, axis=0).reshape(()))


@program((1, 1), (2, 1), (16384, 1))
def tiles_of_one_and_of_many(t, one):
    n = 2 * t - t // 4
    x = draw(n, dtype=np.float32, scale=3)
    want, best = np.zeros(n), []
    for i in range(2):
        part = wide(x)[i * t:(i + 1) * t]
        e = np.exp(part - part.max())
        want[i * t:(i + 1) * t] = e / e.sum()
        best.append(int(part.argmax()))
    return Launch(extremes, (2,), (x, np.zeros(n, np.float32), np.zeros(4, np.int32), t, one), {1: want, 2: [*best, 0, 0]}, 1e-5)


@ct.kernel
def through_chains(x, table, out, t: Const, depth: Const):
    """Loads whose places take a long way each: many of them in one iteration, all of the loop's counter."""
    acc = ct.zeros((t,), ct.float32)
    at = ct.arange(t, dtype=ct.int32)
    for i in range(x.shape[0] // t):
        total = ct.zeros((t,), ct.float32)
        for k in ct.static_iter(range(depth)):
            place = i * t + at
            for s in ct.static_iter(range(12)):
                place = (place ^ (place >> (s % 5 + 1))) + k * 7 + s
            place = ct.where(place < 0, -place, place) % x.shape[0]
            row = ct.gather(table, place)
            total = total + ct.gather(x, place) * row
        acc = acc + total
    ct.store(out, (0,), acc)


@program((32, 2), (128, 7), (256, 16))
def loads_by_long_ways(t, depth):
    n = 5 * t
    x, table = whole(n, dtype=np.float32), whole(n, dtype=np.float32, seed=1)
    want = np.zeros(t)
    for i in range(5):
        for k in range(depth):
            place = i * t + np.arange(t, dtype=np.int32)
            for s in range(12):
                place = (place ^ (place >> (s % 5 + 1))) + np.int32(k * 7 + s)
            place = np.abs(place) % n
            want += x[place] * table[place]
    return Launch(through_chains, (1,), (x, table, np.zeros(t, np.float32), t, depth), {2: want})


@ct.kernel
def step_of_all(weights, gradients, first, second, masters, rate: float, b1: float, b2: float, decay: float, c1: float, c2: float,
                largest: float, norm, t: Const):
    """One optimizer step for lists of arrays: a block takes pieces of all of them in turn; the gradients' norm bounds the step."""
    factor = ct.minimum(largest / ct.sqrt(ct.load(norm, (0,), ())), 1.0)
    piece = ct.bid(0)
    for n in range(len(weights)):
        w = weights[n]
        while piece < ct.cdiv(w.shape[0], t):
            g = ct.load(gradients[n], (piece,), (t,), padding_mode=ZERO).astype(ct.float32) * factor
            m = ct.load(first[n], (piece,), (t,), padding_mode=ZERO) * b1 + g * (1.0 - b1)
            v = ct.load(second[n], (piece,), (t,), padding_mode=ZERO) * b2 + g * g * (1.0 - b2)
            p = ct.load(masters[n], (piece,), (t,), padding_mode=ZERO)
            p = p - rate * (m / c1 / (ct.sqrt(v / c2) + 1e-8) + decay * p)
            ct.store(first[n], (piece,), m)
            ct.store(second[n], (piece,), v)
            ct.store(masters[n], (piece,), p)
            ct.store(w, (piece,), p.astype(w.dtype))
            piece = piece + ct.num_blocks(0)
        piece = piece - ct.cdiv(w.shape[0], t)


@program((bf16, 64, 2), (np.float16, 512, 3), quick=True)
def optimizer_step_of_lists(dtype, t, grid):
    sizes = (3 * t + 1, 1, t, 2 * t - 7)
    weights, gradients = [draw(n, dtype=dtype) for n in sizes], [draw(n, dtype=dtype, seed=1) for n in sizes]
    first, second = [draw(n, dtype=np.float32, seed=2) for n in sizes], [abs(draw(n, dtype=np.float32, seed=3)) for n in sizes]
    masters = [w.astype(np.float32) for w in weights]
    norm = np.array([sum((wide(g)**2).sum() for g in gradients)], np.float32)
    factor = min(1.0, 5 / np.sqrt(float(norm[0])))
    expected = {}
    for n in range(4):
        g = wide(gradients[n]) * factor
        m, v = wide(first[n]) * .9 + g * .1, wide(second[n]) * .99 + g * g * .01
        p = wide(masters[n])
        p = p - .01 * (m / .5 / (np.sqrt(v / .25) + 1e-8) + .1 * p)
        expected |= {(0, n): p, (2, n): m, (3, n): v, (4, n): p}
    numbers = .01, .9, .99, .1, .5, .25, 5.0
    return Launch(step_of_all, (grid,), (weights, gradients, first, second, masters, *numbers, norm, t), expected, 1e-2)


@ct.kernel
def over_one_another(x, out, t: Const, step: Const, count: Const):
    """Tiles that begin `step` rows apart are stored over one another, by other warps: the last one stays."""
    view = out.tiled_view((t, t), traversal_steps=(step, t))
    for i in range(count):
        view.store((i, 0), ct.load(x, (i, 0), (t, t)))


@ct.kernel
def over_one_another_by_rows(x, out, t: Const, step: Const, count: Const):
    """The same by columns that are named, and rows where they begin."""
    column = t - 1 - ct.arange(t, dtype=ct.int32)
    for i in range(count):
        ct.store_advanced_indexing(out, (ct.Slice(i * step, t), column), ct.load(x, (i, 0), (t, t)))


@ct.kernel
def over_one_another_by_strides(x, out, t: Const, step: Const, count: Const):
    """The same in an array whose tiles overlap."""
    for i in range(count):
        ct.store(out, (i, 0, 0), ct.load(x, (i, 0), (t, t)).reshape((1, t, t)))


OVERLAPS = ((np.float32, 32, 8, 3), (np.float16, 64, 16, 4), (np.int32, 16, 16, 2))


@program(*[(kernel, *size) for kernel in (over_one_another, over_one_another_by_rows)
           for size in (*OVERLAPS, (np.float16, 32, 4, 9))],
         *[(over_one_another_by_strides, *size) for size in (*OVERLAPS, (np.float32, 32, 8, 9), (bf16, 64, 8, 7))], quick=True)
def tiles_stored_over_one_another(kernel, dtype, t, step, count):
    x = whole(count * t, t, dtype=dtype)
    flat = np.zeros((step * (count - 1) + t, t), dtype)
    want = flat.copy()
    for i in range(count):
        tile = x[i * t:(i + 1) * t]
        want[i * step:i * step + t] = tile[:, ::-1] if kernel is over_one_another_by_rows else tile
    if kernel is over_one_another_by_strides:
        size = flat.itemsize
        windows = (count, t, t), (step * t * size, t * size, size)
        flat, want = (np.lib.stride_tricks.as_strided(a, *windows) for a in (flat, want))
    return Launch(kernel, (1,), (x, flat, t, step, count), {1: want})


@ct.kernel
def branch_after_branch(x, y, out, flags, t: Const):
    """Branches on one condition and on its opposite, one behind the other: the second ones use what the first ones give, store and
    add where these have; some end the kernel."""
    i = ct.bid(0)
    flag = ct.load(flags, (i,), ())
    odd = flag % 2 == 1
    tile = ct.load(x, (i, 0), (1, t))
    place = i
    if odd:
        ct.store(y, (i, 0), tile * 2)
        tile = tile + 1
    else:
        place = i + 1
    more = tile * 3
    if odd:
        tile = ct.load(y, (i, 0), (1, t)) + more
        ct.store(y, (i, 1), tile)
    if not odd:
        ct.store(y, (i, 1), ct.load(x, (place % 3, 0), (1, t)) - more)
        if flag == 4:
            ct.store(out, (i, 0), tile)
            return
    else:
        place = place + 5
    if odd:
        ct.atomic_add(flags, i, place)
    if not odd:
        tile = tile - ct.load(y, (i, 1), (1, t))
    if flag > 2:
        if odd:
            return
    else:
        tile = tile + ct.load(flags, (i,), ()).astype(tile.dtype)
    ct.store(out, (i, 0), tile)


@program((np.float32, 32), (np.int32, 256), (np.float16, 64), quick=True)
def branches_one_behind_the_other(dtype, t):
    flags = np.array([1, 2, 3, 4, 6], np.int32)
    x, y, out = whole(5, t, dtype=dtype), np.zeros((5, 2 * t), dtype), np.zeros((5, t), dtype)
    want_y, want, after = wide(y), wide(out), flags.copy()
    for i, flag in enumerate(flags):
        tile, odd = wide(x[i]), flag % 2
        if odd:
            want_y[i, :t] = tile * 2
            want_y[i, t:] = want_y[i, :t] + (tile + 1) * 3
            after[i] += i + 5
            if flag <= 2:
                want[i] = want_y[i, t:] + after[i]
            continue
        want_y[i, t:] = wide(x[(i + 1) % 3]) - tile * 3
        want[i] = tile
        if flag != 4:
            want[i] -= want_y[i, t:]
            if flag <= 2:
                want[i] += flag
    return Launch(branch_after_branch, (5,), (x, y, out, flags, t), {1: want_y, 2: want, 3: after})


@ct.kernel
def few_iterations(x, out, sums, first: Const, last: Const, step: Const, t: Const):
    """A few iterations, counted from anywhere: what they store is read by later ones, and added to by atomics; the last counter's
    tiles are carried out."""
    i = ct.bid(0)
    acc, before = ct.zeros((1, t), ct.float32), ct.load(x, (i, 0), (1, t)).astype(ct.float32)
    kept = -1
    for k in range(first, last, step):
        tile = ct.load(x, (i, k % 3), (1, t), padding_mode=ZERO).astype(ct.float32)
        ct.store(out, (i, k % 3), (tile + before).astype(out.dtype))
        acc = acc + ct.load(out, (i, (k + 1) % 3), (1, t)).astype(ct.float32) * ((k + 1) % 7)
        if k % 2 == 0:
            ct.atomic_add(sums, (i, ct.arange(t, dtype=ct.int32)), tile.reshape((t,)))
            kept = k % 5
        before = tile
    ct.store(out, (i, 3), (acc + kept).astype(out.dtype))


@program((np.float32, 0, 2, 1, 32), (np.float32, -3, 6, 3, 64), (np.float16, 5, 9, 1, 128), (np.float32, 1, 8, 2, 16),
         (np.float32, 2**31 - 4, 2**31 - 1, 1, 32), (np.float32, 3, 3, 1, 32))
def loops_of_few_iterations(dtype, first, last, step, t):
    x, out, sums = whole(2, 3 * t, dtype=dtype, low=-3, high=3), whole(2, 4 * t, dtype=dtype, low=-3, high=3, seed=1), np.zeros(
        (2, t), np.float32)
    want, added = wide(out).reshape(2, 4, t), wide(sums)
    acc, before, kept = np.zeros((2, t)), wide(x)[:, :t], -1
    for k in range(first, last, step):
        tile = wide(x).reshape(2, 3, t)[:, k % 3]
        want[:, k % 3] = tile + before
        acc = acc + want[:, (k + 1) % 3] * ((k + 1) % 7)
        if k % 2 == 0:
            added, kept = added + tile, k % 5
        before = tile
    want[:, 3] = acc + kept
    return Launch(few_iterations, (2,), (x, out, sums, first, last, step, t), {1: want.reshape(2, -1), 2: added}, 1e-6)
