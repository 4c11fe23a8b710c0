"""Rows that loops read several times: some of the loops run backwards, and where memory is slow an SM holds few blocks."""
import cuda.tile as ct
import numpy as np

from tests.programs.programs import Launch, bf16, program, whole, wide

Const = ct.Constant[int]
ZERO, LEAST = ct.PaddingMode.ZERO, ct.PaddingMode.NEG_INF


@ct.kernel
def three_times(x, out, tn: Const):
    """A row's maximum, the sum of what it is above it, and what both make of the row; `out` may be `x`."""
    r, tiles = ct.bid(0), ct.num_tiles(x, axis=1, shape=(1, tn))
    top, total = ct.full((1, tn), -1e9, ct.float32), ct.zeros((1, tn), ct.float32)
    for j in range(tiles):
        top = ct.maximum(top, ct.load(x, (r, j), (1, tn), padding_mode=LEAST).astype(ct.float32))
    most = ct.max(top)
    for j in range(tiles):
        total = total + ct.maximum(ct.load(x, (r, j), (1, tn), padding_mode=LEAST).astype(ct.float32) - most, -20)
    total = ct.sum(total)
    for j in range(tiles):
        t = ct.load(x, (r, j), (1, tn), padding_mode=ZERO).astype(ct.float32)
        ct.store(out, (r, j), (2 * t - most + total).astype(out.dtype))


def _rows(dtype, rows, columns):
    x = whole(rows, columns, dtype=dtype, low=-9, high=9)
    return x, wide(x)


@program((np.float32, 1024, 5000, False), (np.float32, 256, 1024, True), (np.float16, 512, 1500, False), (bf16, 2048, 6144, True),
         (np.float32, 512, 300, False), quick=True)
def rows_read_three_times(dtype, tn, columns, in_place):
    x, rows = _rows(dtype, 3, columns)
    beyond = -(-columns // tn) * tn - columns
    most = rows.max(1, keepdims=True)
    total = (rows - most).sum(1, keepdims=True) - 20 * beyond
    if dtype is not np.float32:             # numbers that the type holds
        return Launch(three_times, (3,), (x, np.zeros((3, columns), np.float32), tn), {1: 2 * rows - most + total})
    want = 2 * rows - most + total
    return Launch(three_times, (3,), (x, x, tn), {0: want, 1: want}) if in_place else \
        Launch(three_times, (3,), (x, np.zeros_like(x), tn), {1: want})


@ct.kernel
def by_indices(x, out, columns: int, tn: Const, form: Const):
    """Sum and result by gathers, counted by a tile's elements; whole tiles only, or with what the row ends in."""
    r = ct.bid(0)
    total = ct.zeros((tn,), ct.float32)
    for j in range(0, columns, tn):
        total = total + ct.gather(x, (r, j + ct.arange(tn, dtype=ct.int32)), padding_value=0).astype(ct.float32)
    total = ct.sum(total)
    for j in range(0, columns, tn):
        at = j + ct.arange(tn, dtype=ct.int32)
        if form == 0 or j % (2 * tn) == 0:
            ct.scatter(out, (r, at), ct.gather(x, (r, at), padding_value=0).astype(ct.float32) + total)


@program((np.float32, 256, 0, 0), (np.float32, 256, 255, 0), (np.float32, 256, 1024, 1), (np.float16, 512, 2049, 1),
         (np.float32, 1024, 1025, 0), quick=True)
def rows_read_twice_by_indices(dtype, tn, columns, form):
    x, rows = _rows(dtype, 2, max(1, columns))
    want = np.full(x.shape, -7.0)
    j = np.arange(columns)
    taken = j[(j // tn % 2 == 0) | (form == 0)]
    want[:, taken] = (rows + rows[:, :columns].sum(1, keepdims=True))[:, taken]
    return Launch(by_indices, (2,), (x, np.full(x.shape, -7, np.float32), columns, tn, form), {1: want})


@ct.kernel
def in_turns(x, w, out, rows: int, tn: Const):
    """Blocks that share out the rows, each of which is read twice by sums of integers, then by numbers with weights."""
    tiles = ct.num_tiles(x, axis=1, shape=(1, tn))
    for r in range(ct.bid(0), rows, ct.num_blocks(0)):
        most, total = ct.full((1, tn), -100, ct.int32), ct.zeros((1, tn), ct.int32)
        for j in range(tiles):
            most = ct.maximum(most, ct.load(x, (r, j), (1, tn), padding_mode=ZERO))
        top = ct.max(most)
        for j in range(tiles):
            total = total + (top - ct.load(x, (r, j), (1, tn), padding_mode=ZERO))
        total = ct.sum(total)
        for j in range(tiles):
            weight = ct.load(w, (0, j), (1, tn), padding_mode=ZERO)
            ct.store(out, (r, j), ct.load(x, (r, j), (1, tn), padding_mode=ZERO) * weight + total)


@program((256, 1000, 2), (512, 2048, 3), (1024, 1024, 1), quick=True)
def rows_that_blocks_share_out(tn, columns, blocks):
    rng = np.random.default_rng(tn)
    x, w = rng.integers(-40, 40, (5, columns)).astype(np.int32), rng.integers(-3, 3, (1, columns)).astype(np.int32)
    beyond = -(-columns // tn) * tn - columns
    top = np.maximum(x.max(1, keepdims=True), 0 if beyond else -100)
    total = (top - x).sum(1, keepdims=True) + beyond * top
    return Launch(in_turns, (blocks,), (x, w, np.zeros_like(x), 5, tn), {2: x * w + total})
