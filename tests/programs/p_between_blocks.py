"""Blocks that wait for one another around products: what one block has stored, by the copy engine too, is another's operand; sums
under a lock, in order; a wavefront of tiles; a queue of work between blocks; barriers of the whole grid."""
import cuda.tile as ct
import numpy as np

from tests.programs.programs import Launch, bf16, program, whole, wide

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO
ACQUIRE, RELEASE, DEVICE = ct.MemoryOrder.ACQUIRE, ct.MemoryOrder.RELEASE, ct.MemoryScope.DEVICE


def signed_permutations(n, size, dtype, seed=0):
    """Matrices whose products are exact however many are multiplied."""
    rng = np.random.default_rng(seed + n + size)
    out = np.zeros((n, size, size), dtype)
    for one in out:
        one[np.arange(size), rng.permutation(size)] = rng.choice([-1, 1], size)
    return out


@ct.function
def multiply_on(x, w, i, t, tk):
    """Matrix i + 1 of `x` becomes its matrix i times that of the weights."""
    acc = ct.zeros((t, t), ct.float32)
    for k in range(t // tk):
        acc = ct.mma(ct.load(x, (i, 0, k), (1, t, tk)).reshape((t, tk)), ct.load(w, (i, k, 0), (1, tk, t)).reshape((tk, t)), acc)
    ct.store(x, (i + 1, 0, 0), acc.astype(x.dtype).reshape((1, t, t)))


def multiplied_on(n, t, dtype):
    """n weights, n + 1 matrices of which the first one is given, and what they become."""
    w = signed_permutations(n, t, dtype)
    x = np.zeros((n + 1, t, t), dtype)
    x[0] = whole(t, t, dtype=dtype)
    want = wide(x)
    for i in range(n):
        want[i + 1] = want[i] @ wide(w)[i]
    return w, x, want


@ct.kernel
def relay(x, w, flags, t: Const, tk: Const):
    """Block i multiplies what block i - 1 has left by weights of its own: its loads must come after the wait for it."""
    i = ct.bid(0)
    if i > 0:
        while ct.load(flags, (i - 1,), (), memory_order=ACQUIRE, memory_scope=DEVICE) == 0:
            pass
    multiply_on(x, w, i, t, tk)
    ct.store(flags, (i,), 1, memory_order=RELEASE, memory_scope=DEVICE)


@program((np.float16, 64, 32), (bf16, 128, 64), (np.float32, 32, 16), (np.float16, 128, 128), quick=True)
def products_from_block_to_block(dtype, t, tk):
    w, x, want = multiplied_on(3, t, dtype)
    return Launch(relay, (3,), (x, w, np.zeros(3, np.int32), t, tk), {0: want, 2: 1})


@ct.kernel
def in_order(a, b, out, turn, tm: Const, tn: Const, tk: Const):
    """Parts of k are added to the output in place, one block after the other, so that every rounding is known."""
    i, z = ct.bid(0), ct.bid(1)
    steps = ct.cdiv(a.shape[1], tk)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(z, steps, ct.num_blocks(1)):
        acc = ct.mma(ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), ct.load(b, (k, 0), (tk, tn), padding_mode=ZERO), acc)
    while ct.load(turn, (i,), (), memory_order=ACQUIRE, memory_scope=DEVICE) != z:
        pass
    ct.store(out, (i, 0), (ct.load(out, (i, 0), (tm, tn), padding_mode=ZERO).astype(ct.float32) * 0.5 + acc).astype(out.dtype))
    ct.atomic_add(turn, i, 1, memory_order=ct.MemoryOrder.ACQ_REL)


@program((np.float16, 64, 64, 32, 3), (bf16, 128, 128, 64, 2), (np.float32, 32, 16, 16, 4))
def product_added_in_turns(dtype, tm, tn, tk, parts):
    m, k = 2 * tm - 5, 5 * tk - 8
    a, b, out = whole(m, k, dtype=dtype, low=-2, high=2), whole(k, tn, dtype=dtype, low=-2, high=2), whole(m, tn, dtype=np.float32)
    want = wide(out)
    for z in range(parts):
        columns = np.concatenate([np.arange(q * tk, min((q + 1) * tk, k)) for q in range(z, 5, parts)])
        want = want * .5 + wide(a)[:, columns] @ wide(b)[columns]
    return Launch(in_order, (2, parts), (a, b, out, np.zeros(2, np.int32), tm, tn, tk), {2: want, 3: parts})


@ct.kernel
def wavefront(x, w, done, t: Const):
    """A tile is made of the one above and the one to its left, which other blocks make."""
    i, j = ct.bid(0), ct.bid(1)
    if i > 0:
        while ct.atomic_cas(done, (i - 1, j), 1, 1, memory_order=ACQUIRE) != 1:
            pass
    if j > 0:
        while ct.load(done, (i, j - 1), (), memory_order=ACQUIRE, memory_scope=DEVICE) != 1:
            pass
    above, left = ct.load(x, (i, j + 1), (t, t)), ct.load(x, (i + 1, j), (t, t))
    both = ct.mma(above, ct.load(w, (0, 0), (t, t)), ct.zeros((t, t), ct.float32))
    both = ct.mma(ct.load(w, (1, 0), (t, t)), left, both)
    ct.store(x, (i + 1, j + 1), both.astype(x.dtype))
    ct.store(done, (i, j), 1, memory_order=RELEASE, memory_scope=DEVICE)


@program((np.float16, 16), (bf16, 64), (np.float16, 128), (np.float32, 32))
def products_in_a_wavefront(dtype, t):
    n = 3
    w = signed_permutations(2, t, dtype).reshape(2 * t, t)
    x = np.zeros(((n + 1) * t, (n + 1) * t), dtype)
    x[:t], x[:, :t] = whole(t, (n + 1) * t, dtype=dtype, low=-1, high=1), whole((n + 1) * t, t, dtype=dtype, low=-1, high=1)
    want = wide(x)
    for i in range(n):
        for j in range(n):
            above, left = want[i * t:(i + 1) * t, (j + 1) * t:(j + 2) * t], want[(i + 1) * t:(i + 2) * t, j * t:(j + 1) * t]
            want[(i + 1) * t:(i + 2) * t, (j + 1) * t:(j + 2) * t] = above @ wide(w)[:t] + wide(w)[t:] @ left
    return Launch(wavefront, (n, n), (x, w, np.zeros((n, n), np.int32), t), {0: want, 2: 1})


@ct.kernel
def layered(x, w, arrived, layers: int, tm: Const, tn: Const, tk: Const):
    """Layers, a barrier of the whole grid between them: all blocks' tiles of one are operands of each tile of the next."""
    i = ct.bid(0)
    for s in range(layers):
        acc = ct.zeros((tm, tn), ct.float32)
        for k in range(x.shape[2] // tk):
            y = ct.load(w, (s, k, i), (1, tk, tn)).reshape((tk, tn))
            acc = ct.mma(ct.load(x, (s, 0, k), (1, tm, tk)).reshape((tm, tk)), y, acc)
        ct.store(x, (s + 1, 0, i), ct.maximum(ct.minimum(acc, 2.0), -2.0).astype(x.dtype).reshape((1, tm, tn)))
        ct.atomic_add(arrived, 0, 1, memory_order=ct.MemoryOrder.ACQ_REL)
        while ct.load(arrived, (0,), (), memory_order=ACQUIRE, memory_scope=DEVICE) < (s + 1) * ct.num_blocks(0):
            pass


@program((np.float16, 64, 64, 32, 3), (bf16, 128, 64, 64, 2), (np.float32, 16, 32, 16, 2), (np.float16, 16, 32, 16, 4), quick=True)
def layers_with_barriers_of_the_grid(dtype, tm, tn, tk, layers):
    d = 2 * tn
    x, w = np.zeros((layers + 1, tm, d), dtype), whole(layers, d, d, dtype=dtype, low=-1, high=1)
    x[0] = whole(tm, d, dtype=dtype, low=-2, high=2)
    want = wide(x)
    for s in range(layers):
        want[s + 1] = np.clip(want[s] @ wide(w)[s], -2, 2)
    return Launch(layered, (2,), (x, w, np.zeros(1, np.int32), layers, tm, tn, tk), {0: want, 2: 2 * layers})


@ct.kernel
def producer_and_consumer(x, w, ring, full, empty, out, n: int, t: Const, depth: Const):
    """One block fills slots of a ring in memory with products, the other multiplies and sums what is there; slots serve again."""
    if ct.bid(0) == 0:
        for s in range(n):
            slot = s % depth
            while ct.load(empty, (slot,), (), memory_order=ACQUIRE, memory_scope=DEVICE) < s // depth:
                pass
            y = ct.mma(ct.load(x, (s, 0), (t, t)), ct.load(w, (0, 0), (t, t)), ct.zeros((t, t), ct.float32))
            ct.store(ring, (slot, 0), y.astype(ring.dtype))
            ct.store(full, (slot,), s // depth + 1, memory_order=RELEASE, memory_scope=DEVICE)
    else:
        acc = ct.zeros((t, t), ct.float32)
        for s in range(n):
            slot = s % depth
            while ct.load(full, (slot,), (), memory_order=ACQUIRE, memory_scope=DEVICE) <= s // depth:
                pass
            acc = ct.mma(ct.load(w, (1, 0), (t, t)), ct.load(ring, (slot, 0), (t, t)), acc)
            ct.atomic_add(empty, slot, 1, memory_order=RELEASE)
        ct.store(out, (0, 0), acc)


@program((np.float16, 64, 5, 2), (bf16, 128, 3, 1), (np.float32, 16, 4, 3), (np.float16, 32, 0, 2))
def products_through_a_ring_between_blocks(dtype, t, n, depth):
    x, w = whole(max(n, 1) * t, t, dtype=dtype, low=-3, high=3), signed_permutations(2, t, dtype).reshape(2 * t, t)
    y = [wide(x)[s * t:(s + 1) * t] @ wide(w)[:t] for s in range(n)]
    ring = np.zeros((depth * t, t), dtype)
    want = wide(ring)
    for s, one in enumerate(y):
        want[s % depth * t:(s % depth + 1) * t] = one
    used = np.array([len(range(s, n, depth)) for s in range(depth)])
    return Launch(producer_and_consumer, (2,), (x, w, ring, np.zeros(depth, np.int32), np.zeros(depth, np.int32),
                                                np.zeros((t, t), np.float32), n, t, depth),
                  {2: want, 3: used, 4: used, 5: wide(w)[t:] @ sum(y, np.zeros((t, t)))})


@ct.kernel
def shared_queue(work, head, tail, pending, x, w, t: Const, most: Const):
    """Blocks take tiles from one queue, multiply them in place, and put tiles behind that come after them, until none is left."""
    while ct.load(pending, (0,), (), memory_order=ACQUIRE, memory_scope=DEVICE) > 0:
        at = ct.load(head, (0,), (), memory_order=ACQUIRE, memory_scope=DEVICE)
        if at < ct.load(tail, (0,), (), memory_order=ACQUIRE, memory_scope=DEVICE):
            item = ct.atomic_add(work, at, 0, memory_order=ACQUIRE)
            if item >= 0 and ct.atomic_cas(head, 0, at, at + 1, memory_order=ct.MemoryOrder.ACQ_REL) == at:
                ct.atomic_xchg(work, at, -1)
                y = ct.mma(ct.load(x, (item // 2, 0), (t, t)), ct.load(w, (0, 0), (t, t)), ct.load(x, (item, 0), (t, t))
                           .astype(ct.float32))
                ct.store(x, (item, 0), y.astype(x.dtype))
                if 2 * item + 1 < most:
                    place = ct.atomic_add(tail, 0, 2, memory_order=ct.MemoryOrder.ACQ_REL)
                    ct.atomic_xchg(work, place, 2 * item, memory_order=RELEASE)
                    ct.atomic_xchg(work, place + 1, 2 * item + 1, memory_order=RELEASE)
                    ct.atomic_add(pending, 0, 2, memory_order=ct.MemoryOrder.ACQ_REL)
                ct.atomic_add(pending, 0, -1, memory_order=ct.MemoryOrder.ACQ_REL)


@program((np.float16, 16, 8), (bf16, 64, 4), (np.float32, 32, 4), (np.float16, 128, 4))
def products_from_a_queue_of_all_blocks(dtype, t, most):
    x, w = whole(most * t, t, dtype=dtype, low=-1, high=1), signed_permutations(1, t, dtype)[0]
    want = wide(x)
    for item in range(1, most):
        want[item * t:(item + 1) * t] += want[item // 2 * t:(item // 2 + 1) * t] @ wide(w)
    work = np.full(16, -1, np.int32)
    work[0] = 1
    launch = (work, np.zeros(1, np.int32), np.ones(1, np.int32), np.ones(1, np.int32), x, w, t, most)
    return Launch(shared_queue, (3,), launch, {0: -1, 1: most - 1, 2: most - 1, 3: 0, 4: want})


def drawing(order):
    @ct.kernel
    def tickets(a, b, out, drawn, most: Const, tm: Const, tn: Const, tk: Const):
        """Blocks draw their tiles from a counter, until there are none."""
        columns = ct.cdiv(b.shape[1], tn)
        tiles = ct.cdiv(a.shape[0], tm) * columns
        for _ in range(most):
            t = ct.atomic_add(drawn, 0, 1, memory_order=order).reshape(())
            if t < tiles:
                acc = ct.zeros((tm, tn), ct.float32)
                for k in range(ct.cdiv(a.shape[1], tk)):
                    acc = ct.mma(ct.load(a, (t // columns, k), (tm, tk), padding_mode=ZERO),
                                 ct.load(b, (k, t % columns), (tk, tn), padding_mode=ZERO), acc)
                ct.store(out, (t // columns, t % columns), acc.astype(out.dtype))
    return tickets


@program((np.float16, ct.MemoryOrder.ACQ_REL, 128, 64, 64, 5), (bf16, ct.MemoryOrder.RELAXED, 128, 128, 64, 3),
         (np.float16, ACQUIRE, 64, 64, 32, 4), (np.float32, ct.MemoryOrder.ACQ_REL, 64, 32, 32, 4),
         (np.float16, ct.MemoryOrder.ACQ_REL, 256, 128, 64, 2), quick=True)
def products_of_drawn_tiles(dtype, order, tm, tn, tk, blocks):
    a, b = whole(3 * tm, 5 * tk, dtype=dtype), whole(5 * tk, 2 * tn, dtype=dtype, seed=1)
    out = np.zeros((3 * tm, 2 * tn), np.float32)
    return Launch(drawing(order), (blocks,), (a, b, out, np.zeros(1, np.int32), 6, tm, tn, tk),
                  {2: wide(a) @ wide(b), 3: 6 * blocks})


@ct.kernel
def drawn_chain(x, w, drawn, done, most: Const, t: Const, tk: Const):
    """Each drawn tile is multiplied from what another block, or this one, has stored for the ticket before."""
    for _ in range(most):
        i = ct.atomic_add(drawn, 0, 1).reshape(())
        if i < most:
            while ct.load(done, (i,), (), memory_order=ACQUIRE, memory_scope=DEVICE) == 0:
                pass
            multiply_on(x, w, i, t, tk)
            ct.store(done, (i + 1,), 1, memory_order=RELEASE, memory_scope=DEVICE)


@program((np.float16, 128, 64, 5, 2), (bf16, 64, 32, 4, 3), (np.float32, 64, 32, 3, 1), quick=True)
def products_of_drawn_tiles_one_after_the_other(dtype, t, tk, n, blocks):
    w, x, want = multiplied_on(n, t, dtype)
    done = np.zeros(n + 1, np.int32)
    done[0] = 1
    return Launch(drawn_chain, (blocks,), (x, w, np.zeros(1, np.int32), done, n, t, tk), {0: want, 2: n * blocks, 3: 1})
