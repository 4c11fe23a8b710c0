"""What loops load, used in more ways than one: by products of both orders, sums and stores at once, inside inner loops and behind
them, in branches, an iteration late, by indices that the loop itself loads or carries; arrays that end where the last load does;
loops over tiles whose sums live longer than one tile."""
import cuda.tile as ct
import numpy as np

from tests.programs.programs import Launch, bf16, blocks, program, whole, wide

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def exact_pointers(a, b, out, n: int, tm: Const, tn: Const, tk: Const):
    """Operands by pointers without bounds: nothing may be loaded behind the last iteration's."""
    left, right = a.get_raw_memory(), b.get_raw_memory()
    rows, columns, k = ct.arange(tm, dtype=ct.int32), ct.arange(tn, dtype=ct.int32), ct.arange(tk, dtype=ct.int32)
    acc = ct.zeros((tm, tn), out.dtype)
    for q in range(n):
        x = left.load_offset(q * (tm * tk) + rows[:, None] * tk + k[None, :])
        y = right.load_offset(q * (tn * tk) + k[:, None] * tn + columns[None, :])
        acc = ct.mma(x, y, acc)
    ct.store(out, (0, 0), acc)


@program((np.float16, 64, 64, 32, 3), (bf16, 128, 64, 64, 1), (np.float32, 16, 32, 16, 2), (np.int8, 64, 64, 64, 2),
         (np.float16, 64, 64, 64, 0), quick=True)
def operands_that_end_where_the_array_ends(dtype, tm, tn, tk, n):
    a, b = (whole(n * each * tk + (n == 0), dtype=dtype, low=-3, high=3, seed=s) for s, each in enumerate((tm, tn)))
    x, y = wide(a)[:n * tm * tk].reshape(n, tm, tk), wide(b)[:n * tn * tk].reshape(n, tk, tn)
    out = np.ones((tm, tn), np.int32 if dtype is np.int8 else np.float32)
    return Launch(exact_pointers, (1,), (a, b, out, n, tm, tn, tk), {2: (x @ y).sum(0)})


@ct.kernel
def by_carried_index(a, b, following, out, n: int, start: int, t: Const):
    """The next iteration's place is loaded by this one; the loop counts all the same."""
    at, acc = start, ct.zeros((t, t), ct.float32)
    sums = ct.zeros((t,), ct.float32)
    for _ in range(n):
        x = ct.load(a, (at, 0), (t, t))
        acc = ct.mma(x, ct.load(b, (0, at), (t, t)), acc)
        sums = sums + ct.sum(x.astype(ct.float32), axis=1)
        at = ct.load(following, (at,), ())
    ct.store(out, (0, 0), acc)
    ct.store(out, (1, 0), ct.broadcast_to(sums[:, None], (t, t)))


@program((np.float16, 64, 4), (bf16, 128, 2), (np.float32, 16, 6), (np.float16, 32, 0), quick=True)
def places_carried_by_a_counted_loop(dtype, t, n):
    """The last place that is loaded is of no tile: nobody may use it."""
    following = np.array([3, 10**6, 1, 4, 2, 0], np.int32)
    order = [5, 0, 3, 4, 2, 1][:n]
    a, b = whole(6 * t, t, dtype=dtype, low=-3, high=3), whole(t, 6 * t, dtype=dtype, low=-3, high=3)
    x, y = wide(a).reshape(6, t, t), wide(b).reshape(t, 6, t).transpose(1, 0, 2)
    acc = sum((x[i] @ y[i] for i in order), np.zeros((t, t)))
    sums = sum((x[i].sum(1) for i in order), np.zeros(t))
    want = np.concatenate([acc, np.broadcast_to(sums[:, None], (t, t))])
    return Launch(by_carried_index, (1,), (a, b, following, np.zeros((2 * t, t), np.float32), n, 5, t), {3: want})


@ct.kernel
def used_in_all_ways(x, y, gram, both, sums, copy, t: Const, tk: Const):
    """One load: a product with itself turned, one with another, row sums, a maximum, a copy."""
    i = ct.bid(0)
    g, p, s = ct.zeros((t, t), ct.float32), ct.zeros((t, t), ct.float32), ct.zeros((t, 1), ct.float32)
    most = ct.full((1, tk), -100.0, ct.float32)
    for k in range(ct.cdiv(x.shape[1], tk)):
        a = ct.load(x, (i, k), (t, tk), padding_mode=ZERO)
        g = ct.mma(a, a.transpose(), g)
        p = ct.mma(a, ct.load(y, (k, 0), (tk, t), padding_mode=ZERO), p)
        f = a.astype(ct.float32)
        s = s + ct.sum(f, axis=1, keepdims=True)
        most = ct.maximum(most, ct.max(f, axis=0, keepdims=True))
        ct.store(copy, (i, k), a)
    ct.store(gram, (i, 0), g)
    ct.store(both, (i, 0), p - s + ct.max(most))
    ct.store(sums, (i, 0), s)


@program((np.float16, 64, 64, 3), (bf16, 128, 32, 2), (np.float32, 32, 16, 3), (np.float16, 128, 64, 1))
def loads_used_in_all_ways(dtype, t, tk, steps):
    n = steps * tk - 8
    x, y = whole(2 * t, n, dtype=dtype, low=-3, high=3), whole(n, t, dtype=dtype, low=-3, high=3)
    rows = wide(x).reshape(2, t, n)
    s = wide(x).sum(1, keepdims=True)
    most = np.repeat(rows.max((1, 2)), t)[:, None]
    out = [np.zeros((2 * t, t), np.float32) for _ in range(2)]
    return Launch(used_in_all_ways, (2,), (x, y, *out, np.zeros((2 * t, 1), np.float32), np.zeros_like(x), t, tk),
                  {2: (rows @ rows.transpose(0, 2, 1)).reshape(2 * t, t), 3: wide(x) @ wide(y) - s + np.maximum(most, 0),
                   4: s, 5: x})


@ct.kernel
def outer_and_inner(a, b, c, out, t: Const, tk: Const):
    """A tile loaded by the outer loop is an operand of the inner one, and of a product behind it."""
    acc, last = ct.zeros((t, t), ct.float32), ct.zeros((t, t), ct.float32)
    for i in range(a.shape[0] // t):
        x = ct.load(a, (i, 0), (t, tk))
        inner = ct.zeros((t, t), ct.float32)
        for j in range(i % 3):
            inner = ct.mma(x, ct.load(b, (j, 0), (t, tk)).transpose(), inner)
        acc = ct.mma(x, ct.load(c, (i, 0), (t, tk)).transpose(), acc) + inner
        last = ct.maximum(last, inner)
    ct.store(out, (0, 0), acc)
    ct.store(out, (1, 0), last)


@program((np.float16, 64, 64, 4), (bf16, 128, 64, 3), (np.float32, 16, 32, 5), (np.float16, 64, 32, 1))
def loads_of_an_outer_loop(dtype, t, tk, n):
    a, b, c = (whole(r * t, tk, dtype=dtype, low=-3, high=3, seed=s) for s, r in enumerate((n, 2, n)))
    acc, last = np.zeros((t, t)), np.zeros((t, t))
    for i in range(n):
        x = wide(a)[i * t:(i + 1) * t]
        inner = sum((x @ wide(b)[j * t:(j + 1) * t].T for j in range(i % 3)), np.zeros((t, t)))
        acc, last = acc + x @ wide(c)[i * t:(i + 1) * t].T + inner, np.maximum(last, inner)
    return Launch(outer_and_inner, (1,), (a, b, c, np.zeros((2 * t, t), np.float32), t, tk), {3: np.concatenate([acc, last])})


@ct.kernel
def in_branches(a, b, kind, out, t: Const, tk: Const):
    """What is loaded is multiplied in one branch, summed in another, and not used in a third; some is loaded in branches."""
    acc, sums = ct.zeros((t, t), ct.float32), ct.zeros((t, 1), ct.float32)
    for k in range(kind.shape[0]):
        x = ct.load(a, (0, k), (t, tk))
        what = ct.load(kind, (k,), ())
        if what == 0:
            y = ct.load(b, (k, 0), (tk, t))
            acc = ct.mma(x, y, acc)
            if k > 1:
                acc = ct.mma(x * 2, y, acc)
        elif what == 1:
            sums = sums + ct.sum(x.astype(ct.float32), axis=1, keepdims=True)
            acc = acc - sums
        else:
            acc = ct.maximum(acc, 0.0)
    ct.store(out, (0, 0), acc)
    ct.store(out, (1, 0), ct.broadcast_to(sums, (t, t)))


@program((np.float16, 64, 32), (bf16, 128, 64), (np.float32, 32, 16), quick=True)
def loads_in_branches(dtype, t, tk):
    kind = np.array([0, 1, 0, 2, 2, 1, 0], np.int8)
    a, b = whole(t, 7 * tk, dtype=dtype, low=-3, high=3), whole(7 * tk, t, dtype=dtype, low=-3, high=3)
    acc, sums = np.zeros((t, t)), np.zeros((t, 1))
    for k, what in enumerate(kind):
        x = wide(a)[:, k * tk:(k + 1) * tk]
        if what == 0:
            acc = acc + (3 if k > 1 else 1) * x @ wide(b)[k * tk:(k + 1) * tk]
        elif what == 1:
            sums = sums + x.sum(1, keepdims=True)
            acc = acc - sums
        else:
            acc = np.maximum(acc, 0)
    want = np.concatenate([acc, np.broadcast_to(sums, (t, t))])
    return Launch(in_branches, (1,), (a, b, kind, np.zeros((2 * t, t), np.float32), t, tk), {3: want})


@ct.kernel
def three_machines(a, b, c, out, small, thin, t: Const, tk: Const):
    """Products that different instructions compute, in one loop, of shared operands: a large one, one of 16 rows, one of f32."""
    p, q = ct.zeros((t, t), ct.float32), ct.zeros((16, t), ct.float32)
    r = ct.zeros((16, 16), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        x, y = ct.load(a, (0, k), (t, tk), padding_mode=ZERO), ct.load(b, (k, 0), (tk, t), padding_mode=ZERO)
        z = ct.load(c, (0, k), (16, tk), padding_mode=ZERO)
        p = ct.mma(x, y, p)
        q = ct.mma(z.astype(a.dtype), y, q)
        r = ct.mma(z, z.transpose(), r)
    ct.store(out, (0, 0), p)
    ct.store(small, (0, 0), q)
    ct.store(thin, (0, 0), r)


@program((np.float16, 64, 64, 3), (bf16, 128, 32, 2), (np.float16, 128, 64, 1))
def products_by_different_instructions(dtype, t, tk, steps):
    n = steps * tk - 8
    a, b, c = whole(t, n, dtype=dtype, low=-3, high=3), whole(n, t, dtype=dtype, low=-3, high=3), whole(16, n, dtype=np.float32)
    return Launch(three_machines, (1,), (a, b, c, np.zeros((t, t), np.float32), np.zeros((16, t), np.float32),
                                         np.zeros((16, 16), np.float32), t, tk),
                  {3: wide(a) @ wide(b), 4: wide(c) @ wide(b), 5: wide(c) @ wide(c).T})


def tiles_in_order(**hints):
    """A kernel whose blocks take tiles in the order that memory says, add to what the output holds, and sum all they saw."""
    @ct.kernel(**hints)
    def in_order(order, a, b, out, seen, tm: Const, tn: Const, tk: Const):
        columns = ct.cdiv(b.shape[1], tn)
        total, most = ct.zeros((1, tn), ct.float32), ct.full((tm, 1), -1e9, ct.float32)
        for q in range(ct.bid(0), order.shape[0], ct.num_blocks(0)):
            p = ct.load(order, (q,), ())
            if p < 0:
                continue
            i, j = p // columns, p % columns
            acc = ct.zeros((tm, tn), ct.float32)
            for k in range(ct.cdiv(a.shape[1], tk) * (p % 3 > 0)):
                acc = ct.mma(ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), ct.load(b, (k, j), (tk, tn), padding_mode=ZERO), acc)
            total = total + ct.sum(acc, axis=0, keepdims=True)
            most = ct.maximum(most, ct.max(acc, axis=1, keepdims=True))
            acc = acc + ct.load(out, (i, j), (tm, tn), padding_mode=ZERO)
            ct.store(out, (i, j), acc)
        ct.store(seen, (ct.bid(0), 0), total + ct.max(most))
    return in_order


ORDERED = {"plain": tiles_in_order(), "pair": tiles_in_order(num_ctas=2), "many": tiles_in_order(occupancy=2, num_worker_warps=8)}


@program(("plain", np.float16, 64, 64, 32), ("plain", bf16, 128, 128, 64), ("pair", np.float16, 128, 128, 64),
         ("many", np.float16, 128, 64, 32), ("plain", np.float32, 32, 32, 16), quick=True)
def tiles_in_an_order_from_memory(hints, dtype, tm, tn, tk):
    m, n, k = 2 * tm, 3 * tn, 2 * tk + 8
    a, b = whole(m, k, dtype=dtype, low=-3, high=3), whole(k, n, dtype=dtype, low=-3, high=3)
    order = np.array([4, -1, 2, 1, 5, 3, -1, 0], np.int32)
    out = whole(m, n, dtype=np.float32)
    want, seen = wide(out), np.zeros((2, tn))
    for block in range(2):
        most = np.full((tm, 1), -1e9)
        for p in order[block::2]:
            if p >= 0:
                i, j = p // 3, p % 3
                rows, columns = slice(i * tm, (i + 1) * tm), slice(j * tn, (j + 1) * tn)
                acc = wide(a)[rows] @ wide(b)[:, columns] * (p % 3 > 0)
                seen[block] += acc.sum(0)
                most = np.maximum(most, acc.max(1, keepdims=True))
                want[rows, columns] += acc
        seen[block] += most.max()
    return Launch(ORDERED[hints], (2,), (order, a, b, out, np.zeros((2, tn), np.float32), tm, tn, tk), {3: want, 4: seen})


@ct.kernel
def bytes_to_halves(x, w, scale, zero, out, tm: Const, tn: Const, tk: Const):
    """8-bit weights, scaled and shifted by groups along k, made operands on their way; the activations by the copy engine."""
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(x.shape[1], tk)):
        q = ct.load(w, (ct.bid(1), k), (tn, tk), padding_mode=ZERO).astype(ct.int32)
        q = q - ct.load(zero, (ct.bid(1), k // 2), (tn, 1), padding_mode=ZERO).astype(ct.int32)
        y = q.astype(x.dtype) * ct.load(scale, (ct.bid(1), k // 2), (tn, 1), padding_mode=ZERO)
        acc = ct.mma(ct.load(x, (ct.bid(0), k), (tm, tk), padding_mode=ZERO), y.transpose(), acc)
    ct.store(out, (ct.bid(0), ct.bid(1)), acc)


@program((np.float16, 64, 64, 32), (bf16, 128, 128, 64), (np.float16, 16, 32, 64))
def product_of_bytes_by_groups(dtype, tm, tn, tk):
    m, n, k = tm + 3, 2 * tn - 5, 3 * tk
    x, w = whole(m, k, dtype=dtype, low=-3, high=3), whole(n, k, dtype=np.uint8, low=0, high=15)
    scale, zero = (2.0 ** whole(n, 2, low=-2, high=1)).astype(dtype), whole(n, 2, dtype=np.uint8, low=0, high=15)
    y = (w.astype(int) - np.repeat(zero, 2 * tk, 1)[:, :k].astype(int)) * np.repeat(wide(scale), 2 * tk, 1)[:, :k]
    return Launch(bytes_to_halves, (2, 2), (x, w, scale, zero, np.zeros((m, n), np.float32), tm, tn, tk), {4: wide(x) @ y.T})


@ct.kernel
def streams_of_all_kinds(x, y, index, table, out, stop, t: Const, n: Const):
    """Streams of several types, one by indices that are streamed themselves, a break, a branch, a store and an atomic; twice."""
    acc = ct.zeros((t, n), ct.float32)
    before = ct.zeros((t, n), x.dtype)
    for k in range(ct.cdiv(x.shape[1], n)):
        a, b = ct.load(x, (0, k), (t, n), padding_mode=ZERO), ct.load(y, (k, 0), (t, n), padding_mode=ZERO)
        at = ct.load(index, (k, 0), (1, n), padding_mode=ZERO)
        if ct.load(stop, (k,), ()) > 0:
            break
        c = ct.gather(table, at, padding_value=-1)
        acc = acc + a.astype(ct.float32) * b.astype(ct.float32) + c.astype(ct.float32) + before.astype(ct.float32)
        if k % 2 == 1:
            before = a
        ct.store(out, (k, 0), acc)
    for k in range(ct.cdiv(x.shape[1], n)):
        at = ct.load(index, (k, 0), (1, n), padding_mode=ZERO)
        ct.atomic_add(table, ct.where(at % 2 == 0, at, -1), 1)
        acc = acc - ct.load(out, (k, 0), (t, n))
    ct.store(out, (0, 0), acc)


@program((np.float16, np.int8, 4, 128, 5), (np.float32, np.float16, 1, 256, 3), (np.int8, bf16, 16, 64, 1),
         (bf16, np.float32, 8, 32, 2), quick=True)
def streams_of_several_kinds(first, second, t, n, steps):
    x, y = whole(t, steps * n - 3, dtype=first), whole(steps * t, n, dtype=second)
    index, table = whole(steps, n, low=-2, high=42), whole(41, low=0, high=9)
    stop = np.zeros(steps, np.int32)
    stop[steps // 2 + 1:] = 1
    full = np.zeros((t, steps * n))
    full[:, :-3] = wide(x)
    out, acc, before = np.zeros((steps * t, n), np.float32), np.zeros((t, n)), np.zeros((t, n))
    want, counts = wide(out), table.copy()
    for k in range(steps):
        if stop[k]:
            break
        a, at = full[:, k * n:(k + 1) * n], index[k:k + 1]
        c = np.where((at >= 0) & (at < 41), table[at.clip(0, 40)], -1)
        acc = acc + a * wide(y)[k * t:(k + 1) * t] + c + before
        before = a if k % 2 == 1 else before
        want[k * t:(k + 1) * t] = acc
    for k in range(steps):
        at = index[k]
        np.add.at(counts, at[(at >= 0) & (at < 41) & (at % 2 == 0)], 1)
        acc = acc - want[k * t:(k + 1) * t]
    want[:t] = acc
    return Launch(streams_of_all_kinds, (1,), (x, y, index, table, out, stop, t, n), {3: counts, 4: want})


@ct.kernel
def times_columns(a, column, row, wider, out, tk: Const, tn: Const):
    """Arrays of one column and of one row beside a ring: their tiles are as wide as the array, or wider."""
    j = ct.bid(0)
    acc, other = ct.zeros((tn,), ct.float32), ct.zeros((tn,), ct.float32)
    for k in range(ct.cdiv(a.shape[0], tk)):
        x = ct.load(a, (k, j), (tk, tn), padding_mode=ZERO).astype(ct.float32)
        by_column = ct.load(column, (k, 0), (tk, 1), padding_mode=ZERO).astype(ct.float32)
        by_row = ct.load(row, (0, k), (1, tk), padding_mode=ZERO).astype(ct.float32)
        four = ct.load(wider, (k, 0), (tk, 4), padding_mode=ZERO).astype(ct.float32)
        acc = acc + ct.sum(x * by_column, axis=0)
        other = other + ct.sum(x * (ct.transpose(by_row) + ct.sum(four, axis=1, keepdims=True)), axis=0)
    ct.store(out, (0, j), acc.reshape((1, tn)))
    ct.store(out, (1, j), other.reshape((1, tn)))


@program((np.float16, 64, 64, 4), (bf16, 128, 32, 3), (np.float32, 32, 128, 5), (np.int8, 64, 64, 2), quick=True)
def columns_beside_a_ring(dtype, tk, tn, n):
    """The last tiles reach past the end, and those of four columns past the side; a column of a matrix has another row's stride."""
    size = n * tk - 16
    a, column, row = (whole(*shape, dtype=dtype, low=-3, high=3, seed=s)
                      for s, shape in enumerate([(size, 2 * tn), (size, 1), (1, size)]))
    matrix = whole(size, 32, dtype=dtype, low=-3, high=3, seed=3)
    wider, out = matrix[:, 16:17], np.ones((2, 2 * tn), np.float32)
    x, second = wide(a), wide(row).T + wide(wider)
    want = np.stack([(x * wide(column)).sum(0), (x * second).sum(0)])
    return Launch(times_columns, (2,), (a, column, row, wider, out, tk, tn), {4: want})


@ct.kernel
def gradients_of_weights(dw, db, out_w, out_b, tm: Const, tn: Const):
    """Two arrays' rows are summed by tiles of which shared memory holds no ring."""
    j = ct.bid(0)
    sums_w, sums_b = ct.zeros((tm, tn), ct.float32), ct.zeros((tm, tn), ct.float32)
    for i in range(ct.num_tiles(dw, axis=0, shape=(tm, tn))):
        sums_w += ct.load(dw, (i, j), (tm, tn), padding_mode=ZERO)
        sums_b += ct.load(db, (i, j), (tm, tn), padding_mode=ZERO)
    ct.store(out_w, (j,), ct.sum(sums_w, axis=0))
    ct.store(out_b, (j,), ct.sum(sums_b, axis=0))


@program((32, 1024, 70, 1500), (64, 512, 130, 512), (16, 1024, 33, 1028), (64, 1024, 65, 1024))
def streams_of_large_tiles(tm, tn, rows, columns):
    dw, db = whole(rows, columns, dtype=np.float32), whole(rows, columns, dtype=np.float32)
    return Launch(gradients_of_weights, (blocks(columns, tn),),
                  (dw, db, np.zeros(columns, np.float32), np.zeros(columns, np.float32), tm, tn), {2: dw.sum(0), 3: db.sum(0)})


@ct.kernel
def rows_in_turn(x, y, least, most, tm: Const, tn: Const):
    """A block goes from tile to tile; each is stored as a whole, and a number of each row."""
    for i in range(ct.bid(0), ct.num_tiles(x, axis=0, shape=(tm, tn)), ct.num_blocks(0)):
        tile = ct.load(x, (i, 0), (tm, tn), padding_mode=ZERO)
        top = ct.max(tile, axis=1, keepdims=True)
        ct.store(most, (i,), top.reshape((tm,)))
        ct.store(least, (i,), ct.min(tile, axis=1))
        ct.store(y, (i, 0), tile - top)


@program((128, 1024, 300, 1000))
def streams_of_large_tiles_stored(tm, tn, rows, columns):
    x = whole(rows, columns, dtype=np.float32)
    padded = np.pad(x, ((0, 0), (0, tn - columns)))
    top = padded.max(1)
    return Launch(rows_in_turn, (2,), (x, np.zeros_like(x), np.zeros(rows, np.float32), np.zeros(rows, np.float32), tm, tn),
                  {1: x - top[:, None], 2: padded.min(1), 3: top})
