"""Control flow around tiles: loops that run until all elements are done, early returns, functions as values, static loops,
recurrences over a tile's own parts, blocks that wait for one another."""
import dataclasses
import operator

import cuda.tile as ct
import numpy as np

from tests.programs.programs import Launch, bf16, bitonic_network, blocks, draw, program, whole, wide

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO
SQUARE, CLIP, ADD = range(3)


@ct.kernel
def collatz(x, steps, t: Const):
    """All elements step until the last has reached 1."""
    n = ct.load(x, (ct.bid(0),), (t,), padding_mode=ZERO)
    count = ct.zeros((t,), ct.int32)
    while ct.max(n) > 1:
        active = n > 1
        n = ct.where(active, ct.where((n & 1) == 0, n >> 1, 3 * n + 1), n)
        count = count + active.astype(ct.int32)
    ct.store(steps, (ct.bid(0),), count)


def collatz_steps(n):
    steps = 0
    while n > 1:
        n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
    return steps


@program((np.int32, 64), (np.int64, 128), quick=True)
def loop_until_all_are_done(dtype, t):
    x = whole(100, dtype=dtype, low=1, high=60)
    return Launch(collatz, (blocks(100, t),), (x, np.zeros(100, np.int32), t), {1: [collatz_steps(int(n)) for n in x]})


@ct.kernel
def mandelbrot(out, most: int, t: Const):
    i, j = ct.bid(0), ct.bid(1)
    y = -1.25 + (i * t + ct.arange(t, dtype=ct.int32)[:, None]).astype(ct.float64) * (2.5 / out.shape[0])
    x = -2.0 + (j * t + ct.arange(t, dtype=ct.int32)[None, :]).astype(ct.float64) * (2.5 / out.shape[1])
    re, im = ct.zeros((t, t), ct.float64), ct.zeros((t, t), ct.float64)
    count = ct.zeros((t, t), ct.int32)
    for _ in range(most):
        inside = re * re + im * im <= 4.0
        if ct.sum(inside.astype(ct.int32)) == 0:
            break
        re, im = ct.where(inside, re * re - im * im + x, re), ct.where(inside, 2 * re * im + y, im)
        count += inside.astype(ct.int32)
    ct.store(out, (i, j), count)


@program((16, 30), (32, 12))
def loop_with_break_on_a_sum(t, most):
    n = 2 * t - 3
    y, x = np.meshgrid(-1.25 + np.arange(n) * (2.5 / n), -2.0 + np.arange(n) * (2.5 / n), indexing="ij")
    re, im, count = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n), int)
    for _ in range(most):
        inside = re * re + im * im <= 4
        re, im = np.where(inside, re * re - im * im + x, re), np.where(inside, 2 * re * im + y, im)
        count += inside
    got = np.zeros((n, n), np.int32)
    return Launch(mandelbrot, (2, 2), (got, most, t), {0: count})


@ct.kernel
def bisect(x, k, out, t: Const):
    """The k-th smallest of a row by halving the range of values: a loop of reductions."""
    r = ct.bid(0)
    tile = ct.load(x, (r, 0), (1, t), padding_mode=ct.PaddingMode.POS_INF)
    rank = ct.load(k, (r,), (1,)).item()
    lo, hi = ct.float32(-16.0), ct.float32(16.0)
    for _ in range(40):
        mid = (lo + hi) * 0.5
        if ct.sum((tile <= mid).astype(ct.int32)) > rank:
            hi = mid
        else:
            lo = mid
    ct.store(out, (r,), hi)


@program((256,), (1024,))
def loop_bisecting(t):
    x, k = draw(5, t - 7, dtype=np.float32), np.array([0, 3, t // 2, t - 8, 10], np.int32)
    return Launch(bisect, (5,), (x, k, np.zeros(5, np.float32), t), {2: np.sort(x, 1)[np.arange(5), k]}, 1e-5)


@ct.kernel
def bitonic(x, out, n: Const, steps: ct.Constant[tuple]):
    """A bitonic sort of a row: partners stand in halves of a reshaped tile."""
    r = ct.bid(0)
    tile = ct.load(x, (r, 0), (1, n)).reshape((n,))
    for size, gap in ct.static_iter(steps):
        pairs = tile.reshape((n // (2 * gap), 2, gap))
        a = ct.extract(pairs, (0, 0, 0), (n // (2 * gap), 1, gap))
        b = ct.extract(pairs, (0, 1, 0), (n // (2 * gap), 1, gap))
        up = ((ct.arange(n // (2 * gap), dtype=ct.int32) * (2 * gap)) & size) == 0
        up = up.reshape((n // (2 * gap), 1, 1))
        low, high = ct.minimum(a, b), ct.maximum(a, b)
        tile = ct.cat((ct.where(up, low, high), ct.where(up, high, low)), 1).reshape((n,))
    ct.store(out, (r, 0), tile.reshape((1, n)))


@program((np.float32, 64), (np.int16, 128), (np.int64, 32), (np.float16, 256), quick=True)
def static_loop_sorting(dtype, n):
    x = whole(3, n, dtype=dtype, low=-100, high=100)
    return Launch(bitonic, (3,), (x, np.zeros_like(x), n, bitonic_network(n)), {1: np.sort(x, 1)})


@ct.kernel
def edit_distance(a, b, out, n: Const):
    """Edit distances of pairs of words: the row of the table is carried, neighbours come by a scan."""
    word = ct.load(b, (ct.bid(0), 0), (1, n)).reshape((n,))
    at = ct.arange(n, dtype=ct.int32)
    row = at + 1
    for i in range(a.shape[1]):
        letter = ct.load(a, (ct.bid(0), i), (1, 1)).item()
        diagonal = ct.where(at == 0, i, ct.sum(ct.where(at[:, None] - 1 == at[None, :], row[None, :], 0), axis=1))
        best = ct.minimum(diagonal + (word != letter).astype(ct.int32), row + 1)
        best = ct.where(at == 0, ct.minimum(best, i + 2), best)
        row = ct.scan(best - at, 0, lambda x, y: ct.minimum(x, y), 1 << 30) + at
    ct.store(out, (ct.bid(0),), ct.max(ct.where(at == n - 1, row, 0)))


def levenshtein(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a):
        row = _next_row(row, i, x, b)
    return row[-1]


def _next_row(row, i, x, b):
    out = [i + 1]
    for j, y in enumerate(b):
        out.append(min(row[j] + (x != y), row[j + 1] + 1, out[j] + 1))
    return out


@program((16,), (32,))
def loop_with_scan(n):
    a, b = whole(4, n - 3, dtype=np.int8, low=0, high=3), whole(4, n, dtype=np.int8, low=0, high=3, seed=1)
    return Launch(edit_distance, (4,), (a, b, np.zeros(4, np.int32), n), {2: [levenshtein(x, y) for x, y in zip(a, b)]})


@ct.kernel
def returning_early(x, lengths, out, t: Const):
    b, i = ct.bid(0), ct.bid(1)
    n = ct.load(lengths, (b,), ())
    if i * t >= n:
        return
    tile = ct.load(x, (b, i), (1, t), padding_mode=ZERO)
    if ct.max(tile) < 0:
        ct.store(out, (b, i), ct.full((1, t), -1, out.dtype))
        return
    s = ct.zeros((1, t), ct.int32)
    for k in range(i + 1):
        if k * t >= n:
            return
        s = s + ct.load(x, (b, k), (1, t), padding_mode=ZERO)
    ct.store(out, (b, i), s)


@program((32,), (256,))
def early_returns(t):
    x = whole(3, 4 * t)
    x[1, t:2 * t] = -np.abs(x[1, t:2 * t]) - 1
    lengths, out = np.array([4 * t, 2 * t + 1, 0], np.int32), np.full((3, 4 * t), 77, np.int32)
    want = np.full((3, 4 * t), 77)
    for b in range(3):
        for i in range(4):
            if i * t < lengths[b]:
                mine = x[b, i * t:(i + 1) * t]
                want[b, i * t:(i + 1) * t] = -1 if mine.max() < 0 else x[b].reshape(4, t)[:i + 1].sum(0)
    return Launch(returning_early, (3, 4), (x, lengths, out, t), {2: want})


def apply_twice(f, x, *rest, scale=1):
    return f(f(x, *rest), *rest) * scale


@dataclasses.dataclass(frozen=True)
class Affine:
    a: ct.Tile
    b: ct.Tile

    def __call__(self, x):
        return self.a * x + self.b

    def then(self, other):
        return Affine(other.a * self.a, other.a * self.b + other.b)


def ordered(a, b):
    return ct.minimum(a, b), ct.maximum(a, b)


@ct.kernel
def functional(x, out, t: Const, kinds: ct.Constant[tuple]):
    i = ct.bid(0)
    tile = ct.load(x, (i,), (t,), padding_mode=ZERO)

    def shifted(v, by):
        return v + by * i

    tile = apply_twice(shifted, tile, 3, scale=2)
    first, second = Affine(2, 1), Affine(-1, tile)
    tile = first.then(second)(tile)
    for kind in ct.static_iter(kinds):
        if kind == SQUARE:
            tile = (lambda v: v * v)(tile)
        elif kind == CLIP:
            low, high = ordered(tile, ct.full((t,), 5, tile.dtype))
            tile = high - low
        else:
            tile = operator.add(tile, len(kinds))
    ct.store(out, (i,), tile)


@program((np.int32, 64, (SQUARE, CLIP, ADD)), (np.float32, 128, (CLIP, CLIP)), (np.int64, 16, ()))
def functions_as_values(dtype, t, kinds):
    x = whole(2 * t - 3, dtype=dtype)
    v = (x.astype(np.int64) + 6 * (np.arange(len(x)) // t)) * 2
    v = -(2 * v + 1) + v
    for kind in kinds:
        v = v * v if kind == SQUARE else np.abs(v - 5) if kind == CLIP else v + len(kinds)
    return Launch(functional, (2,), (x, np.zeros_like(x), t, kinds), {1: v})


@ct.kernel
def ring_in_a_tile(x, out, window: Const, t: Const):
    """The last `window` rows stand in a tile that is written at a moving place: running medians of three by sums and extremes."""
    held = ct.zeros((window, t), ct.float32)
    for i in range(x.shape[0]):
        held = ct.insert(held, (i % window, 0), ct.load(x, (i, ct.bid(0)), (1, t), padding_mode=ZERO))
        ct.store(out, (i, ct.bid(0)), ct.sum(held, axis=0, keepdims=True) + ct.extract(held, ((i + 1) % window, 0), (1, t)))


@program((4, 32), (2, 128), (8, 16))
def tile_written_at_a_moving_place(window, t):
    x = whole(11, 2 * t - 1, dtype=np.float32)
    padded = np.concatenate([np.zeros((window - 1, x.shape[1])), x])
    want = np.stack([padded[i:i + window].sum(0) + padded[i] for i in range(11)])
    return Launch(ring_in_a_tile, (2,), (x, np.zeros_like(x), window, t), {1: want})


@ct.kernel
def looking_back(x, flags, sums, out, t: Const):
    """A prefix sum in one pass over blocks: each waits for the sum of the one before it (acquire), and gives its own (release)."""
    i = ct.bid(0)
    tile = ct.load(x, (i,), (t,), padding_mode=ZERO)
    before = ct.zeros((), ct.int64)
    if i > 0:
        while ct.load(flags, (i - 1,), (), memory_order=ct.MemoryOrder.ACQUIRE, memory_scope=ct.MemoryScope.DEVICE) == 0:
            pass
        before = ct.load(sums, (i - 1,), ())
    ct.store(sums, (i,), before + ct.sum(tile))
    ct.store(flags, (i,), 1, memory_order=ct.MemoryOrder.RELEASE, memory_scope=ct.MemoryScope.DEVICE)
    ct.store(out, (i,), ct.cumsum(tile) + before)


@program((64,), (512,), quick=True)
def blocks_that_look_back(t):
    x = whole(5 * t - 9, dtype=np.int64, low=-2**40, high=2**40)
    total = np.cumsum(x)
    return Launch(looking_back, (5,), (x, np.zeros(5, np.int32), np.zeros(5, np.int64), np.zeros_like(x), t),
                  {1: 1, 2: total[np.minimum(np.arange(1, 6) * t, len(x)) - 1], 3: total})


@ct.kernel
def alternating(log, turn, rounds: int):
    """Two blocks write in turns: `turn` goes from one to the other."""
    me = ct.bid(0)
    for r in range(rounds):
        while ct.atomic_cas(turn, 0, 2 * r + me, 2 * r + me, memory_order=ct.MemoryOrder.ACQUIRE) != 2 * r + me:
            pass
        n = ct.load(log, (0,), ())
        ct.store(log, (0,), n * 3 + me)
        ct.atomic_xchg(turn, 0, 2 * r + me + 1, memory_order=ct.MemoryOrder.RELEASE)


@program((4,))
def blocks_in_turns(rounds):
    n = 0
    for _ in range(rounds):
        n = (n * 3) * 3 + 1
    return Launch(alternating, (2,), (np.zeros(1, np.int64), np.zeros(1, np.int32), rounds), {0: n, 1: 2 * rounds})


@ct.kernel
def carried_kinds(x, out, state, n: ct.ScalarInt64, step: int, t: Const):
    """A loop over i64 with a step that isn't constant carries a bool, an i64, a float, a tile and a pair."""
    seen, total, scale = False, ct.int64(0), 1.0
    tile = ct.zeros((t,), ct.float32)
    low, high = 1 << 30, -1
    for i in range(n - n, n, step):
        v = ct.load(x, (i,), ())
        if v < 0:
            seen = True
            scale = scale * 0.5
        elif seen and v > 3:
            tile = tile + v * scale
        total = total + v * i
        low, high = min(low, v), max(high, v)
    ct.store(out, (0,), tile)
    ct.store(state, (0,), total)
    ct.store(state, (1,), low * 1000 + high)


@program((3,), (7,))
def loop_carrying_all_kinds(step):
    x = whole(50, low=-4, high=9)
    seen, total, scale, tile = False, 0, 1.0, 0.0
    used = x[::step]
    for i, v in zip(range(0, 50, step), used):
        if v < 0:
            seen, scale = True, scale * .5
        elif seen and v > 3:
            tile += v * scale
        total += int(v) * i
    return Launch(carried_kinds, (1,), (x, np.zeros(8, np.float32), np.zeros(2, np.int64), 50, step, 8),
                  {1: tile, 2: [total, int(used.min()) * 1000 + int(used.max())]}, 1e-6)


@ct.kernel
def horner(x, coefficients, out, t: Const):
    """A loop without loads that depend on it and trips that are loaded; the inner while hangs on the outer's tile."""
    tile = ct.load(x, (ct.bid(0),), (t,), padding_mode=ZERO)
    y = ct.zeros((t,), ct.float64)
    k = ct.load(coefficients, (0,), ()).astype(ct.int32)
    while k > 0:
        y = y * tile + ct.load(coefficients, (k,), ())
        while ct.max(ct.abs(y)) > 1000.0:
            y = y * 0.5
        k -= 1
    ct.store(out, (ct.bid(0),), y)


@program((32,), (128,))
def loop_in_while(t):
    x, c = draw(2 * t, dtype=np.float64, scale=2), np.array([6, 5, -3, 2, 7, 1, 4], np.float64)
    want = []
    for part in x.reshape(2, t):
        y = np.zeros(t)
        for k in range(6, 0, -1):
            y = y * part + c[k]
            while np.abs(y).max() > 1000:
                y = y * .5
        want.append(y)
    return Launch(horner, (2,), (x, c, np.zeros_like(x), t), {2: np.concatenate(want)}, 1e-12)


@ct.kernel
def knapsack(weights, values, best, n: Const):
    """Dynamic programming in global memory: each step gathers what the step before has scattered."""
    at = ct.arange(n, dtype=ct.int32)
    for i in range(weights.shape[0]):
        w, v = ct.load(weights, (i,), ()), ct.load(values, (i,), ())
        without = ct.gather(best, at)
        taken = ct.gather(best, at - w, padding_value=-(1 << 20)) + v
        ct.scatter(best, at, ct.maximum(without, taken))


@program((64,), (256,))
def loop_through_memory(n):
    weights, values = whole(6, low=1, high=20), whole(6, low=1, high=30, seed=4)
    best = np.zeros(n, np.int32)
    want = best.copy()
    for w, v in zip(weights, values):
        want[w:] = np.maximum(want[w:], want[:-w] + v)
    return Launch(knapsack, (1,), (weights, values, best, n), {2: want})


@ct.kernel
def floyd(d, t: Const):
    """All shortest paths, a tile in a loop: rows and columns are read from what the loop has written."""
    for k in range(d.shape[0]):
        row = ct.load(d, (k, 0), (1, t), padding_mode=ct.PaddingMode.POS_INF)
        column = ct.load(d, (0, k), (t, 1), padding_mode=ct.PaddingMode.POS_INF)
        ct.store(d, (0, 0), ct.minimum(ct.load(d, (0, 0), (t, t), padding_mode=ct.PaddingMode.POS_INF), row + column))


@program((16, 13), (32, 32))
def loop_through_a_view(t, n):
    d = whole(n, n, dtype=np.float32, low=1, high=40)
    np.fill_diagonal(d, 0)
    want = d.copy()
    for k in range(n):
        want = np.minimum(want, want[k:k + 1] + want[:, k:k + 1])
    return Launch(floyd, (1,), (d, t), {0: want})


@ct.kernel(occupancy=ct.ByTarget(sm_90=4, default=2), num_worker_warps=8)
def hinted(x, out, t: Const):
    ct.grid_dependency_control_wait()
    tile = ct.load(x, (ct.bid(0), 0), (1, t), padding_mode=ZERO)
    ct.grid_dependency_control_launch_dependents()
    ct.store(out, (ct.bid(0), 0), tile - ct.max(tile, axis=1, keepdims=True))


@program((np.float32, 1024), (bf16, 4096))
def hints_and_dependency(dtype, t):
    x = draw(3, t - 100, dtype=dtype)
    want = wide(x) - wide(x).max(1, keepdims=True).clip(0)
    return Launch(hinted, (3,), (x, np.zeros_like(x), t), {1: want}, 1e-2 if dtype is bf16 else 1e-6)
