"""Masks of products' tiles by comparing columns with rows, in every form that windows, diagonals and ends are written in, at
offsets that wrap around, too."""
import cuda.tile as ct
import numpy as np

from tests.programs.programs import Launch, bf16, program, whole, wide

Const = ct.Constant[int]
TOP = 2**31
BASES = (0, 5, -7, 40, TOP - 40, TOP - 1, -TOP, 3 - TOP, TOP - 64, 100)
ROWS = (0, -20, 33, -TOP + 5, TOP - 30, TOP - 50)
WIDTHS = (7, 1, TOP - 1, 0, 50, -9, -TOP)
FORMS = 8


def masked(form, cols, rows, base, row, width):
    """The mask, by cuTile's functions or by NumPy's: `cols` and `rows` are ranges as rows and columns of a tile, 32 bits."""
    c, r = cols + base, rows + row
    if form == 0:
        return (c <= r) & (c > r - width) & (c < width)
    if form == 1:
        return (r - c < width) & (r >= c)
    if form == 2:
        return (width > c) & (rows < 11) & (c >= row)
    if form == 3:
        return (c - r >= width) & (c - width < r)
    if form == 4:
        return (cols < width) & (rows <= cols)
    if form == 5:
        return (r > c) & (c != 3)
    if form == 6:
        return (base - cols <= rows) & (c <= base + 9)
    return ((c < r) | (c > row)) & (c >= width - row)


@ct.kernel
def select_by_masks(a, b, numbers, out, form: Const, tm: Const, tn: Const, tk: Const):
    acc = ct.mma(ct.load(a, (0, 0), (tm, tk)), ct.load(b, (0, 0), (tk, tn)), ct.zeros((tm, tn), ct.float32))
    base, row = ct.load(numbers, (ct.bid(0), 0), (1, 1)).item(), ct.load(numbers, (ct.bid(0), 1), (1, 1)).item()
    width = ct.load(numbers, (ct.bid(0), 2), (1, 1)).item()
    cols, rows = ct.arange(tn, dtype=ct.int32)[None, :], ct.arange(tm, dtype=ct.int32)[:, None]
    mask = masked(form, cols, rows, base, row, width)
    kept = acc + ct.where(mask, 0.0, -1000.0) if form % 2 else ct.where(mask, acc, -1000.0)
    if form == 3:
        kept = acc + (ct.where(mask, 0.0, -1000.0) + ct.where(cols <= rows, 0.0, -500.0))
    ct.store(out, (ct.bid(0), 0, 0), kept.reshape((1, tm, tn)))


SIZES = ((np.float16, 64, 128, 32), (bf16, 128, 256, 64), (np.float32, 16, 64, 16))


def _launch(form, dtype, tm, tn, tk):
    numbers = np.array([(b, r, w) for b in BASES for r in ROWS for w in WIDTHS][form::FORMS], np.int64).astype(np.int32)
    a, b = whole(tm, tk, dtype=dtype, low=-2, high=2), whole(tk, tn, dtype=dtype, low=-2, high=2)
    cols, rows = np.arange(tn, dtype=np.int32)[None, :], np.arange(tm, dtype=np.int32)[:, None]
    with np.errstate(over="ignore"):
        acc = wide(a) @ wide(b)
        more = np.where(cols <= rows, 0.0, -500.0) if form == 3 else 0.0
        want = [np.where(masked(form, cols, rows, *line), acc, (acc if form % 2 else 0) - 1000.0) + more for line in numbers]
    out = np.zeros((len(numbers), tm, tn), np.float32)
    return Launch(select_by_masks, (len(numbers),), (a, b, numbers, out, form, tm, tn, tk), {3: np.array(want)})


@program(*((form, *sizes) for form in range(0, FORMS, 2) for sizes in SIZES), quick=True)
def products_under_masks(form, dtype, tm, tn, tk):
    return _launch(form, dtype, tm, tn, tk)


@program(*((form, *sizes) for form in (3, 1, 5, 7) for sizes in SIZES), quick=True)
def products_and_added_masks(form, dtype, tm, tn, tk):
    return _launch(form, dtype, tm, tn, tk)
