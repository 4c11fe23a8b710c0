"""One array by several ways at once: views of other tiles and orders, slices of it, gathers and atomics beside loads, two buffers
in one array that change places, rows that are written by a loop and are operands of its next iteration."""
import cuda.tile as ct
import numpy as np

from tests.programs.programs import Launch, bf16, blocks, draw, program, whole, wide

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def heat(x, steps: int, t: Const):
    """Two layers of one array change places: each step reads one by overlapping windows and writes the other."""
    view = x.tiled_view((1, t), traversal_steps=(1, t // 2), padding_mode=ZERO)
    n = x.shape[1]
    at = ct.arange(t, dtype=ct.int32)
    for s in range(steps):
        source, target = s % 2, (s + 1) % 2
        for j in range(ct.cdiv(n, t // 2)):
            tile = view.load((source, j)).reshape((t,))
            left = ct.gather(x, (source, j * (t // 2) + at - 1), padding_value=0)
            right = ct.gather(x, (source, j * (t // 2) + at + 1), padding_value=0)
            new = tile * 2 + left - right
            ct.scatter(x, (target, ct.where(at < t // 2, j * (t // 2) + at, -1)), new)


@program((np.int32, 64, 5), (np.float32, 256, 4), (np.int64, 32, 1), (np.int8, 128, 0), quick=True)
def layers_that_change_places(dtype, t, steps):
    x = whole(2, 3 * t - 7, dtype=dtype, low=-2, high=2)
    want = x.copy()
    for s in range(steps):
        old = np.concatenate([[0], want[s % 2], [0]])
        want[(s + 1) % 2] = old[1:-1] * 2 + old[:-2] - old[2:]
    return Launch(heat, (1,), (x, steps, t), {0: want})


@ct.kernel
def elimination(a, t: Const):
    """Blocks of a symmetric matrix are eliminated in place by products of what earlier steps have left there (without pivots)."""
    n = a.shape[0] // t
    at = ct.arange(t, dtype=ct.int32)
    for k in range(n):
        # The inverse of the diagonal's tile, by Gauss and Jordan.
        d = ct.load(a, (k, k), (t, t)).astype(ct.float32)
        inverse = ct.where(at[:, None] == at[None, :], 1.0, 0.0).astype(ct.float32)
        for r in range(t):
            mine, column = (at == r)[:, None], (at == r)[None, :]
            p = ct.sum(ct.where(mine & column, d, 0.0))
            row = ct.sum(ct.where(mine, d, 0.0), axis=0, keepdims=True) / p
            other = ct.sum(ct.where(mine, inverse, 0.0), axis=0, keepdims=True) / p
            factor = ct.where(mine, 0.0, ct.sum(ct.where(column, d, 0.0), axis=1, keepdims=True))
            d, inverse = ct.where(mine, row, d - factor * row), ct.where(mine, other, inverse - factor * other)
        small = inverse.astype(a.dtype)
        for i in range(k + 1, n):
            left = ct.mma(ct.load(a, (i, k), (t, t)), small, ct.zeros((t, t), ct.float32)).astype(a.dtype)
            for j in range(k + 1, n):
                old = ct.load(a, (i, j), (t, t)).astype(ct.float32)
                ct.store(a, (i, j), ct.mma(-left, ct.load(a, (k, j), (t, t)), old).astype(a.dtype))
            ct.store(a, (i, k), left)


@program((np.float16, 16, 3), (np.float32, 16, 3), (np.float16, 64, 2), (bf16, 32, 3))
def elimination_in_place(dtype, t, n):
    size = t * n
    a = wide(draw(size, size, scale=.3 * size ** -.5))
    a = ((a + a.T) / 2 + 2 * np.eye(size)).astype(dtype)
    want = wide(a).copy()
    cut = [slice(i * t, (i + 1) * t) for i in range(n)]

    def narrow(x):
        return wide(np.asarray(x).astype(dtype))
    for k in range(n):
        inverse = narrow(np.linalg.inv(want[cut[k], cut[k]]))
        for i in range(k + 1, n):
            left = narrow(want[cut[i], cut[k]] @ inverse)
            for j in range(k + 1, n):
                want[cut[i], cut[j]] = narrow(want[cut[i], cut[j]] - left @ want[cut[k], cut[j]])
            want[cut[i], cut[k]] = left
    return Launch(elimination, (1,), (a, t), {0: want}, {np.float16: 3e-3, bf16: 2e-2, np.float32: 2e-3}[dtype])


@ct.kernel
def rows_to_columns(x, w, t: Const, steps: int):
    """Each step multiplies rows that the step before has scattered in another order; one view turns the array, one doesn't."""
    at = ct.arange(t, dtype=ct.int32)
    for s in range(steps):
        y = ct.mma(ct.load(x, (0, 0), (t, t)), ct.load(w, (s, 0, 0), (1, t, t)).reshape((t, t)), ct.zeros((t, t), ct.float32))
        ct.scatter(x, ((at[:, None] * 3 + s) % t, at[None, :]), y.astype(x.dtype))
        z = ct.load(x, (0, 0), (t, t), order=(1, 0))
        ct.store(x, (0, 0), z + 1)


@program((np.float16, 16, 3), (bf16, 64, 2), (np.float32, 32, 3), (np.float16, 128, 2), quick=True)
def rows_scattered_and_multiplied(dtype, t, steps):
    """Permutation matrices with signs: everything is exact (t has no factor 3)."""
    rng = np.random.default_rng(t)
    w = np.zeros((steps, t, t), dtype)
    for s in range(steps):
        w[s, np.arange(t), rng.permutation(t)] = rng.choice([-1, 1], t)
    x = whole(t, t, dtype=dtype)
    want = wide(x)
    for s in range(steps):
        y = want @ wide(w[s])
        want = want.copy()
        want[(np.arange(t) * 3 + s) % t] = y
        want = want.T + 1
    return Launch(rows_to_columns, (1,), (x, w, t, steps), {0: want})


@ct.kernel
def halves_of_one(x, n: int, t: Const):
    """Slices of one array whose bounds only the launch knows: what one writes the other reads, an element further."""
    low, high = x.slice(0, 0, n), x.slice(0, 1, n + 1)
    for j in range(ct.cdiv(n, t)):
        tile = ct.load(low, (j,), (t,), padding_mode=ZERO)
        ct.store(high, (j,), tile + 1)
        again = ct.load(low, (j,), (t,), padding_mode=ZERO)
        ct.store(low, (j,), again * 2)


@program((np.int32, 32, 100), (np.float64, 64, 64), (np.int16, 128, 1), (np.int8, 16, 40), quick=True)
def slices_that_overlap(dtype, t, n):
    x = whole(n + 5, dtype=dtype, low=-1, high=1)
    want = x.copy()
    for j in range(blocks(n, t)):
        lo, hi = j * t, min((j + 1) * t, n)
        want[lo + 1:hi + 1] = want[lo:hi] + 1
        want[lo:hi] = want[lo:hi] * 2
    return Launch(halves_of_one, (1,), (x, n, t), {0: want})


@ct.kernel
def added_and_read(x, w, out, t: Const, tk: Const, steps: int):
    """What atomics have added to is the next product's operand."""
    at = ct.arange(t, dtype=ct.int32)
    for s in range(steps):
        acc = ct.zeros((t, t), ct.float32)
        for k in range(t // tk):
            acc = ct.mma(ct.load(x, (0, k), (t, tk)), ct.load(w, (k, 0), (tk, t)), acc)
        ct.store(out, (s, 0, 0), acc.reshape((1, t, t)))
        ct.atomic_add(x, (at[:, None], (at[None, :] + s) % t), ct.where(acc > 0, 1, -1).astype(x.dtype))
        x.tiled_view((t, 8)).atomic_store_add((0, s), ct.ones((t, 8), x.dtype))


@program((np.float16, 64, 32, 3), (np.float16, 128, 64, 2), (np.float32, 32, 16, 4), (np.float16, 64, 64, 2))
def operands_added_to_by_atomics(dtype, t, tk, steps):
    x, w = whole(t, t, dtype=dtype, low=-3, high=3), whole(t, t, dtype=dtype, low=-1, high=1, seed=2)
    after, outs = wide(x), []
    for s in range(steps):
        acc = after @ wide(w)
        outs.append(acc)
        after = after.copy()
        after[:, (np.arange(t) + s) % t] += np.where(acc > 0, 1, -1)
        after[:, 8 * s:8 * s + 8] += 1
    return Launch(added_and_read, (1,), (x, w, np.zeros((steps, t, t), np.float32), t, tk, steps), {0: after, 2: np.stack(outs)})


@ct.kernel
def prefix_products(x, t: Const):
    """Every tile of a row is multiplied by what the tile before it has become: loads and stores of one array in its loop."""
    i = ct.bid(0)
    for k in range(1, x.shape[1] // t):
        before = ct.load(x, (i, k - 1), (t, t))
        tile = ct.load(x, (i, k), (t, t))
        ct.store(x, (i, k), ct.mma(before, tile, ct.zeros((t, t), ct.float32)).astype(x.dtype))


@program((np.float16, 16, 5), (bf16, 64, 3), (np.float16, 128, 3), (np.float32, 32, 2), quick=True)
def prefix_of_products(dtype, t, n):
    rng = np.random.default_rng(t + n)
    x = np.zeros((2 * t, n * t), dtype)
    for i in range(2):
        for k in range(n):
            x[i * t + np.arange(t), k * t + rng.permutation(t)] = rng.choice([-1, 1], t)
    want = wide(x)
    for k in range(1, n):
        for i in range(2):
            rows = slice(i * t, (i + 1) * t)
            want[rows, k * t:(k + 1) * t] = want[rows, (k - 1) * t:k * t] @ want[rows, k * t:(k + 1) * t]
    return Launch(prefix_products, (2,), (x, t), {0: want})


@ct.kernel
def queue(work, count, x, out, t: Const):
    """A queue in memory that the loop itself fills: what it loads says whether further work is put behind."""
    head = 0
    tail = ct.load(count, (0,), ())
    while head < tail:
        item = ct.load(work, (head,), ())
        tile = ct.load(x, (item, 0), (1, t))
        ct.store(out, (item, 0), ct.load(out, (item, 0), (1, t)) + tile)
        if 2 * item + 2 < x.shape[0]:
            ct.store(work, (tail,), 2 * item + 1)
            ct.store(work, (tail + 1,), 2 * item + 2)
            tail += 2
        head += 1
    ct.store(count, (0,), tail)


@program((32, 13), (256, 6))
def queue_that_fills_itself(t, n):
    x, work = whole(n, t, dtype=np.float32), np.zeros(64, np.int32)
    items, head = [0, 0], 0
    work[:2] = items
    while head < len(items):
        if 2 * items[head] + 2 < n:
            items += [2 * items[head] + 1, 2 * items[head] + 2]
        head += 1
    want = work.copy()
    want[:len(items)] = items
    counts = np.bincount(items, minlength=n)
    return Launch(queue, (1,), (work, np.array([2], np.int32), x, np.zeros((n, t), np.float32), t),
                  {0: want, 1: len(items), 3: x * counts[:, None]})


@ct.kernel
def tails_and_tiles(x, y, out, t: Const):
    """One array by the copy engine and by pointers in one loop; the other one's tiles are stored a step later."""
    held = ct.zeros((t, t), ct.float32)
    at = ct.arange(t, dtype=ct.int32)
    for k in range(ct.cdiv(x.shape[1], t)):
        tile = ct.load(x, (ct.bid(0), k), (t, t), padding_mode=ZERO)
        turned = ct.gather(x, ((ct.bid(0) * t + at)[None, :], (k * t + at)[:, None]), padding_value=0)
        new = ct.mma(tile, turned, held)
        ct.store(out, (ct.bid(0), k), held)
        ct.store(y, (ct.bid(0), k), tile.astype(ct.float32) + ct.load(y, (ct.bid(0), k), (t, t), padding_mode=ZERO))
        held = new


@program((np.float16, 64, 3), (bf16, 32, 2), (np.float16, 128, 2), (np.float32, 16, 4))
def array_by_views_and_pointers(dtype, t, n):
    columns = n * t - 8
    x, y = whole(2 * t, columns, dtype=dtype, low=-3, high=3), whole(2 * t, columns, dtype=np.float32)
    want, held = np.zeros((2 * t, columns)), [np.zeros((t, t)), np.zeros((t, t))]
    for k in range(n):
        for i in range(2):
            tile = wide(x)[i * t:(i + 1) * t, k * t:(k + 1) * t]
            want[i * t:(i + 1) * t, k * t:(k + 1) * t] = held[i][:, :tile.shape[1]]
            held[i] = held[i] + tile @ tile.T
    return Launch(tails_and_tiles, (2,), (x, y, np.ones((2 * t, columns), np.float32), t), {1: wide(y) + wide(x), 2: want})
