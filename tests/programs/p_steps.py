"""Products whose steps along k are short, so that several are taken at once: counts that don't come out even, arrays that go on
behind the last step (with infinities there), paddings, tiles of more dimensions, chained and repeated products; and loops beside
them that must stay as they are."""
import cuda.tile as ct
import numpy as np

from tests.programs.p_loops_with_products import tiles_of_a_batch
from tests.programs.programs import Launch, bf16, draw, e4m3, program, wide

Const = ct.Constant[int]
ZERO = ct.PaddingMode.ZERO


def poison(array, first, axis):
    """Infinities behind a place of an axis."""
    index = [slice(None)] * array.ndim
    index[axis] = slice(first, None)
    array[tuple(index)] = np.inf
    return array


@ct.kernel
def narrow_of_type(a, b, out, tm: Const, tn: Const, tk: Const):
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((tm, tn), out.dtype)
    for k in range(ct.cdiv(a.shape[1], tk)):
        x, y = ct.load(a, (i, k), (tm, tk), padding_mode=ZERO), ct.load(b, (k, j), (tk, tn), padding_mode=ZERO)
        acc = ct.mma(x.astype(ct.tfloat32), y.astype(ct.tfloat32), acc) if a.dtype == ct.float32 else ct.mma(x, y, acc)
    ct.store(out, (i, j), acc)


@program((np.float16, 128, 128, 32, 328), (np.float16, 64, 64, 32, 96), (bf16, 64, 128, 16, 176), (np.float16, 128, 64, 32, 16),
         (np.float16, 32, 64, 32, 160), (np.float16, 64, 64, 16, 32), quick=True)
def narrow_steps_of_unequal_arrays(dtype, tm, tn, tk, k):
    """The second array has rows behind the first one's last step."""
    a, b = draw(tm + 8, k, dtype=dtype), poison(draw(k + 80, tn + 8, dtype=dtype, seed=4), -(-k // tk) * tk, 0)
    return Launch(narrow_of_type, (2, 2), (a, b, np.zeros((tm + 8, tn + 8), np.float32), tm, tn, tk),
                  {2: wide(a) @ wide(b[:k])}, 5e-3)


@program((np.int8, 64, 64, 64, 208), (np.int8, 128, 128, 32, 128), (np.float32, 64, 64, 16, 112), (np.float32, 128, 128, 8, 72),
         (np.float32, 64, 128, 32, 232), (np.float32, 128, 128, 32, 160), (np.float32, 128, 128, 64, 328))
def narrow_steps_of_types(dtype, tm, tn, tk, k):
    """Whole numbers: any order of the sums is exact."""
    a, b = draw(tm, k, dtype=np.int8, scale=30.0).astype(dtype), draw(k, tn + 16, dtype=np.int8, scale=30.0, seed=4).astype(dtype)
    out = np.zeros((tm, tn + 16), np.int32 if dtype is np.int8 else np.float32)
    return Launch(narrow_of_type, (1, 2), (a, b, out, tm, tn, tk), {2: a.astype(np.int64) @ b.astype(np.int64)})


@program((64, 128, 64, 208), (128, 64, 32, 96), since=90)
def narrow_steps_of_f8(tm, tn, tk, k):
    a, b = draw(tm, k, dtype=e4m3), draw(k, tn, dtype=e4m3, seed=4)
    return Launch(narrow_of_type, (1, 1), (a, b, np.zeros((tm, tn), np.float32), tm, tn, tk), {2: wide(a) @ wide(b)}, 1e-2)


@ct.kernel
def unpadded(a, b, out, steps, tm: Const, tn: Const, tk: Const):
    """As many steps as the launch asks for, of arrays that go on."""
    i, j = ct.bid(0), ct.bid(1)
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(steps):
        acc = ct.mma(ct.load(a, (i, k), (tm, tk)), ct.load(b, (j, k), (tn, tk)).permute((1, 0)), acc)
    ct.store(out, (i, j), acc)


@program((np.float16, 128, 128, 32, 5), (np.float16, 128, 128, 32, 0), (bf16, 64, 64, 16, 7), (bf16, 64, 64, 32, 1), quick=True)
def narrow_steps_of_a_count(dtype, tm, tn, tk, steps):
    k = steps * tk
    a, b = poison(draw(tm, k + 128, dtype=dtype), k, 1), poison(draw(tn, k + 64, dtype=dtype, seed=4), k, 1)
    return Launch(unpadded, (1, 1), (a, b, np.zeros((tm, tn), np.float32), steps, tm, tn, tk),
                  {2: wide(a[:, :k]) @ wide(b[:, :k]).T}, 5e-3)


@ct.kernel
def from_a_block_on(a, b, out, tm: Const, tn: Const, tk: Const, steps: Const):
    """A fixed number of steps, the first one not the array's first."""
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(2, steps):
        acc = ct.mma(ct.load(a, (0, k), (tm, tk), padding_mode=ZERO), ct.load(b, (k, 0), (tk, tn), padding_mode=ZERO), acc)
    ct.store(out, (0, 0), acc)


@program((np.float16, 128, 128, 32, 20, 640), (np.float16, 128, 128, 32, 20, 600), (np.float16, 64, 64, 32, 19, 700))
def narrow_steps_that_begin_late(dtype, tm, tn, tk, steps, k):
    a, b = draw(tm, k, dtype=dtype), draw(k, tn, dtype=dtype, seed=4)
    part = slice(2 * tk, min(steps * tk, k))
    return Launch(from_a_block_on, (1,), (a, b, np.zeros((tm, tn), np.float32), tm, tn, tk, steps),
                  {2: wide(a[:, part]) @ wide(b[part])}, 5e-3)


@ct.kernel
def batched_at_once(a, b, out, tz: Const, tm: Const, tn: Const, tk: Const):
    z, i, j = ct.bid(0), ct.bid(1), ct.bid(2)
    acc = ct.zeros((tz, tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[2], tk)):
        x, y = ct.load(a, (z, i, k), (tz, tm, tk), padding_mode=ZERO), ct.load(b, (z, k, j), (tz, tk, tn), padding_mode=ZERO)
        acc = ct.mma(x, y, acc)
    ct.store(out, (z, i, j), acc)


@program((np.float16, 0, 64, 64, 32, 104), (bf16, 0, 128, 64, 16, 200), (np.float16, 2, 64, 64, 32, 104), (bf16, 2, 32, 32, 16, 80))
def narrow_steps_of_batches(dtype, tz, tm, tn, tk, k):
    a, b = draw(4, tm, k, dtype=dtype), poison(draw(4, k + 80, tn, dtype=dtype, seed=4), -(-k // tk) * tk, 1)
    out, want = np.zeros((4, tm, tn), np.float32), wide(a) @ wide(b[:, :k])
    if not tz:
        return Launch(tiles_of_a_batch, (4, 1, 1), (a, b, out, tm, tn, tk), {2: want}, 5e-3)
    return Launch(batched_at_once, (2, 1, 1), (a, b, out, tz, tm, tn, tk), {2: want}, 5e-3)


@ct.kernel
def chained(a, b, c, d, out, other, tm: Const, tn: Const, tk: Const):
    """Two products on one sum, one of them with an operand of a third; and a second loop over the same arrays."""
    acc, beside = ct.zeros((tm, tn), ct.float32), ct.full((tm, tn), -1.0, ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        x = ct.load(a, (0, k), (tm, tk), padding_mode=ZERO)
        acc = ct.mma(x, ct.load(b, (k, 0), (tk, tn), padding_mode=ZERO), acc)
        acc = ct.mma(ct.load(c, (0, k), (tm, tk), padding_mode=ZERO), ct.load(d, (k, 0), (tk, tn), padding_mode=ZERO), acc)
        beside = ct.mma(x, ct.load(d, (k, 0), (tk, tn), padding_mode=ZERO), beside)
    ct.store(out, (0, 0), acc)
    for k in range(ct.cdiv(c.shape[1], tk)):
        beside = ct.mma(ct.load(c, (0, k), (tm, tk), padding_mode=ZERO), ct.load(b, (k, 0), (tk, tn), padding_mode=ZERO), beside)
    ct.store(other, (0, 0), beside)


@program((np.float16, 64, 64, 32, 136), (bf16, 128, 64, 32, 96))
def narrow_steps_of_several_products(dtype, tm, tn, tk, k):
    a, b, c, d = (draw(tm, k, dtype=dtype), draw(k, tn, dtype=dtype, seed=2), draw(tm, k, dtype=dtype, seed=3),
                  draw(k, tn, dtype=dtype, seed=4))
    out = np.zeros((tm, tn), np.float32)
    return Launch(chained, (1,), (a, b, c, d, out, out.copy(), tm, tn, tk),
                  {4: wide(a) @ wide(b) + wide(c) @ wide(d), 5: wide(a) @ wide(d) + wide(c) @ wide(b) - 1}, 1e-2)


@ct.kernel
def of_the_last_step(a, b, out, before, tm: Const, tn: Const, tk: Const):
    """What each step's product is is kept, not added; sums of two steps take turns."""
    last, x, y = ct.zeros((tm, tn), ct.float32), ct.zeros((tm, tn), ct.float32), ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        p, q = ct.load(a, (0, k), (tm, tk), padding_mode=ZERO), ct.load(b, (k, 0), (tk, tn), padding_mode=ZERO)
        last = ct.mma(p, q, ct.zeros((tm, tn), ct.float32))
    for k in range(ct.cdiv(a.shape[1], tk)):
        p, q = ct.load(a, (0, k), (tm, tk), padding_mode=ZERO), ct.load(b, (k, 0), (tk, tn), padding_mode=ZERO)
        x, y = y, ct.mma(p, q, x)
    ct.store(out, (0, 0), last)
    ct.store(before, (0, 0), x)


@program((np.float16, 64, 64, 32, 160), (np.float16, 256, 128, 128, 640), quick=True)
def steps_that_must_not_be_joined_or_split(dtype, tm, tn, tk, k):
    a, b = draw(tm, k, dtype=dtype), draw(k, tn, dtype=dtype, seed=4)
    steps = [wide(a[:, s:s + tk]) @ wide(b[s:s + tk]) for s in range(0, k, tk)]
    x = y = np.zeros((tm, tn))
    for step in steps:
        x, y = y, x + step
    out = np.zeros((tm, tn), np.float32)
    return Launch(of_the_last_step, (1,), (a, b, out, out.copy(), tm, tn, tk), {2: steps[-1], 3: x}, 5e-3)
