"""Atomics of every operation, type, scope and order, with masks, on views, raw memory and in loops."""
import cuda.tile as ct
import numpy as np

from tests.programs.programs import Launch, bf16, draw, program, whole, wide

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO
ORDERS = {"relaxed": ct.MemoryOrder.RELAXED, "acquire": ct.MemoryOrder.ACQUIRE, "release": ct.MemoryOrder.RELEASE,
          "both": ct.MemoryOrder.ACQ_REL}
SCOPES = {"block": ct.MemoryScope.BLOCK, "device": ct.MemoryScope.DEVICE, "system": ct.MemoryScope.SYS}


def ordered(order, scope):
    @ct.kernel
    def sums(x, keys, out, old, t: Const):
        i = ct.arange(t, dtype=ct.int32)
        k = ct.load(keys, (0,), (t,))
        before = ct.atomic_add(out, k, ct.load(x, (0,), (t,)), memory_order=order, memory_scope=scope)
        ct.atomic_min(old, i, before, memory_order=order, memory_scope=scope)
        ct.atomic_or(old, (ct.full((t,), 0, ct.int32),), 0, memory_order=order, memory_scope=scope)
    return sums


ORDERED = {(o, s): ordered(order, scope) for o, order in ORDERS.items() for s, scope in SCOPES.items()}


@program(*[(o, s) for o in ORDERS for s in SCOPES], since=90)
def atomics_of_order_and_scope(order, scope):
    """Keys are all different, so that what was there before is known."""
    x, keys = whole(64), np.random.default_rng(1).permutation(64).astype(np.int32)
    out, old = whole(64, seed=3), np.full(64, 3, np.int32)
    want = out.copy()
    want[keys] += x
    return Launch(ORDERED[order, scope], (1,), (x, keys, out, old, 64), {2: want, 3: np.minimum(3, out[keys])})


@ct.kernel
def on_views(low, high, bits_and, bits_or, bits_xor, total, x, t: Const, n: Const):
    """A loop of atomics on views, the tile broadcast where the view is narrower."""
    for j in range(ct.cdiv(x.shape[1], n)):
        tile = ct.load(x, (ct.bid(0), j), (t, n), padding_mode=ZERO)
        low.tiled_view((t, n)).atomic_store_min((0, j), tile)
        high.tiled_view((t, n)).atomic_store_max((0, j), tile)
        bits_and.tiled_view((t, n)).atomic_store_and((0, j), tile)
        bits_or.tiled_view((t, n)).atomic_store_or((0, j), tile)
        bits_xor.tiled_view((t, n)).atomic_store_xor((0, j), tile)
        total.tiled_view((t, n)).atomic_store_add((0, j), ct.sum(tile, axis=0, keepdims=True))


@program((np.int32, 4, 32), (np.int64, 8, 16), (np.uint32, 16, 64), (np.uint64, 2, 128), quick=True)
def atomics_on_views(dtype, t, n):
    low = 0 if np.dtype(dtype).kind == "u" else -1000
    x = whole(3 * t, 2 * n - 3, dtype=dtype, low=low, high=1000)
    starts = [whole(t - 1, 2 * n - 3, dtype=dtype, low=low, high=1000, seed=s) for s in range(6)]
    parts = x.reshape(3, t, -1)
    seen = parts[:, :t - 1]
    want = {0: np.minimum(starts[0], seen.min(0)), 1: np.maximum(starts[1], seen.max(0)),
            2: starts[2] & np.bitwise_and.reduce(seen), 3: starts[3] | np.bitwise_or.reduce(seen),
            4: starts[4] ^ np.bitwise_xor.reduce(seen), 5: starts[5] + parts.sum((0, 1), dtype=dtype)}
    return Launch(on_views, (3,), (*starts, x, t, n), want)


@ct.kernel
def floats_on_views(total, x, n: Const):
    tile = ct.load(x, (ct.bid(0), 0), (1, n), padding_mode=ZERO)
    total.tiled_view((1, n)).atomic_store_add((0, 0), tile)
    total.tiled_view((1, n), traversal_steps=(1, 4)).atomic_store_add((0, 1), tile * 2)


@program((bf16, 32), (bf16, 128), since=90)
def atomics_of_bf16_on_overlapping_views(dtype, n):
    return atomics_on_overlapping_views(dtype, n)


@program((np.float32, 64), (np.float16, 128), (np.float64, 16))
def atomics_on_overlapping_views(dtype, n):
    x = whole(4, n, dtype=dtype, low=-3, high=3)
    want = wide(x).sum(0)
    shifted = np.concatenate([np.zeros(4), 2 * want[:-4]])
    return Launch(floats_on_views, (4,), (np.zeros((1, n), dtype), x, n), {0: (want + shifted)[None]})


@ct.kernel
def raw_atomics(memory, old, t: Const):
    raw = memory.get_raw_memory()
    at = ct.arange(t, dtype=ct.int64) * 3 % t
    odd = (at & 1) == 1
    a = raw.atomic_add_offset(at, at, mask=odd)
    b = raw.atomic_xor_offset(at, ct.int64(5), mask=odd, memory_order=ct.MemoryOrder.RELAXED)
    c = raw.atomic_max_offset(at, 11, mask=odd)
    d = raw.atomic_cas_offset(at, 11, -1, mask=odd)
    e = raw.atomic_xchg_offset(t - 1, 99)
    ct.store(old, (0,), ct.where(odd, a + 1000 * b + 1000000 * c, 0))
    ct.store(old, (1,), ct.where(odd, d, e))


@program((np.int64, 16), (np.int64, 64))
def atomics_on_raw_memory(dtype, t):
    memory = whole(t, dtype=dtype, low=0, high=9)
    at = np.arange(t) * 3 % t
    after, first, second = memory.copy(), np.zeros(t, dtype), np.zeros(t, dtype)
    for i, p in enumerate(at):
        if p % 2:
            a = after[p]
            b = a + p
            c = b ^ 5
            d = max(c, 11)
            first[i], second[i] = a + 1000 * b + 1000000 * c, d
            after[p] = -1 if d == 11 else d
    second[at % 2 == 0] = after[t - 1]
    after[t - 1] = 99
    return Launch(raw_atomics, (1,), (memory, np.zeros(2 * t, dtype), t), {0: after, 1: np.concatenate([first, second])})


@ct.kernel
def exchanged(slots, out, rounds: int, t: Const):
    """Each round leaves a value and takes what the one before it left."""
    at = ct.arange(t, dtype=ct.int32)
    for i in range(rounds):
        got = ct.atomic_xchg(slots, at, (i + 1) * 100 + at)
        ct.atomic_add(out, at, got)
    ct.atomic_add(out, at, ct.atomic_xchg(slots, at, 0))


@program((32,), (200,))
def exchanges_lose_nothing(rounds):
    total = 100 * rounds * (rounds + 1) // 2 + rounds * np.arange(16)
    return Launch(exchanged, (1,), (np.zeros(16, np.int32), np.zeros(16, np.int32), rounds, 16), {0: 0, 1: total})


@ct.kernel
def multiplied(x, out, t: Const):
    """A product by compare-and-swap, an element at a time until all have got through."""
    tile = ct.load(x, (ct.bid(0),), (t,), padding_mode=ct.PaddingMode.ZERO)
    at = ct.arange(t, dtype=ct.int32) % out.shape[0]
    waiting = ct.bid(0) * t + ct.arange(t, dtype=ct.int32) < x.shape[0]
    while ct.max(waiting.astype(ct.int32)) > 0:
        now = ct.gather(out, at)
        seen = ct.atomic_cas(out, ct.where(waiting, at, -1), now, now * tile)
        waiting = waiting & (seen != now)


@program((np.int32, 16), (np.int64, 32), quick=True)
def compare_and_swap_until_all_are_through(dtype, t):
    x = whole(3 * t - 4, dtype=dtype, low=2, high=3)
    out = np.ones(4, dtype)
    want = out.copy()
    np.multiply.at(want, np.arange(len(x)) % t % 4, x)
    return Launch(multiplied, (3,), (x, out, t), {1: want})


@ct.kernel
def dot_of_blocks(x, y, partial, arrived, out, t: Const):
    """The last block to arrive adds what all have left."""
    i = ct.bid(0)
    ct.store(partial, (i,), ct.sum(ct.load(x, (i,), (t,), padding_mode=ZERO) * ct.load(y, (i,), (t,), padding_mode=ZERO)))
    if ct.atomic_add(arrived, 0, 1, memory_order=ct.MemoryOrder.ACQ_REL) == ct.num_blocks(0) - 1:
        ct.store(out, (0,), ct.sum(ct.load(partial, (0,), (16,), padding_mode=ZERO)))


@program((64,), (1024,))
def last_block_adds(t):
    x, y = draw(9 * t - 5, dtype=np.float64), draw(9 * t - 5, dtype=np.float64, seed=1)
    parts = np.concatenate([x * y, np.zeros(5)]).reshape(9, t).sum(1)
    return Launch(dot_of_blocks, (9,), (x, y, np.zeros(9), np.zeros(1, np.int32), np.zeros(1), t),
                  {2: parts, 3: 9, 4: parts.sum()}, 1e-10)


@ct.kernel
def scattered(keys, values, out, t: Const, n: Const):
    """Rows of a tile are added to rows that were loaded; some keys are out of bounds."""
    k = ct.load(keys, (ct.bid(0),), (t,), padding_mode=ct.PaddingMode.ZERO)
    valid = ct.bid(0) * t + ct.arange(t, dtype=ct.int32) < keys.shape[0]
    tile = ct.load(values, (ct.bid(0), 0), (t, n), padding_mode=ZERO)
    ct.atomic_add(out, (ct.where(valid, k, -1)[:, None], ct.arange(n, dtype=ct.int32)[None, :]), tile)


@program((bf16, 32, 16), (bf16, 8, 64), since=90)
def rows_of_bf16_added_by_key(dtype, t, n):
    return rows_added_by_key(dtype, t, n)


@program((np.float32, 16, 32), (np.float16, 8, 64), (np.float64, 16, 16), (np.int32, 64, 8), (np.uint64, 4, 128))
def rows_added_by_key(dtype, t, n):
    keys, values = whole(3 * t - 2, low=-2, high=11), whole(3 * t - 2, n - 3, dtype=dtype, low=0, high=4)
    out = np.zeros((10, n - 3), dtype)
    want = np.zeros((10, n - 3))
    inside = (keys >= 0) & (keys < 10)
    np.add.at(want, keys[inside], wide(values)[inside])
    return Launch(scattered, (3,), (keys, values, out, t, n), {2: want})
