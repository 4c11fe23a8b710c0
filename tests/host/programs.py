"""A product in cuTile whose operands lie as tensor maps need it."""
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
