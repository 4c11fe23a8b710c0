"""Products in cuTile whose operands lie as tensor maps need it."""
# The frontend's own types for numbers in kernels are wider than what it takes them for.
# pyright: reportArgumentType=false
import cuda.tile as ct

M, N, K = 128, 128, 64


@ct.kernel
def product(a, b, c):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.full((M, N), 0, ct.float32)
    for k in range(ct.num_tiles(a, 1, (M, K))):
        left = ct.load(a, (i, k), (M, K), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, (k, j), (K, N), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left, right, total)
    ct.store(c, (i, j), total)


@ct.kernel
def products_of_lists(a, b, c, programs: ct.Constant[int]):
    """Products of arrays of different sizes, in turn: blocks share out the tiles of each."""
    for g in range(len(a)):
        left, right, out = a[g], b[g], c[g]
        columns = ct.cdiv(right.shape[1], K)
        for tile in range(ct.bid(0), ct.cdiv(left.shape[0], K) * columns, programs):
            i, j = tile // columns, tile % columns
            total = ct.full((K, K), 0, ct.float32)
            for k in range(ct.cdiv(left.shape[1], K)):
                x = ct.load(left, (i, k), (K, K), padding_mode=ct.PaddingMode.ZERO)
                y = ct.load(right, (k, j), (K, K), padding_mode=ct.PaddingMode.ZERO)
                total = ct.mma(x, y, total)
            ct.store(out, (i, j), total)


@ct.kernel
def product_of_rows(a, bounds, b, c):
    """Rows bounds[g] to bounds[g + 1] of an array, times a matrix of their own."""
    g = ct.bid(0)
    start = ct.load(bounds, (g,), ()).item()
    stop = ct.load(bounds, (g + 1,), ()).item()
    rows = a.slice(axis=0, start=start, stop=stop)
    out = c.slice(axis=0, start=start, stop=stop)
    total = ct.full((K, K), 0, ct.float32)
    for k in range(ct.cdiv(a.shape[1], K)):
        x = ct.load(rows, (0, k), (K, K), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, (g, k, 0), (1, K, K), padding_mode=ct.PaddingMode.ZERO).reshape((K, K))
        total = ct.mma(x, y, total)
    ct.store(out, (0, 0), total)
