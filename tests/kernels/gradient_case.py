"""Attention's gradient of queries, which the suite doesn't have: what the first of three products reads, the last one reads again
(`advance-dots` begins the next tile's first two before)."""
# pyright: reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import dataclasses

import cuda.tile as ct
import ml_dtypes
import numpy as np

from tests.kernels import runner
from tests.kernels.suite import Array, Case, Const
from tests.kernels.test_store_pieces import PERSISTENT

QUERIES, KEYS, FEATURES, TILES = 128, 64, 128, 6
SCALE = 1 / 64


@ct.kernel
def gradient(q, k, v, grad, dq, tm: ct.Constant[int], tn: ct.Constant[int], d: ct.Constant[int]):
    x, g = ct.load(q, (0, 0), (tm, d)), ct.load(grad, (0, 0), (tm, d))
    acc = ct.zeros((tm, d), ct.float32)
    for j in range(ct.cdiv(k.shape[0], tn)):
        y = ct.load(k, (j, 0), (tn, d), padding_mode=ct.PaddingMode.ZERO)
        p = ct.exp2(ct.mma(x, y.transpose(), ct.zeros((tm, tn), ct.float32)) * SCALE)
        z = ct.load(v, (j, 0), (tn, d), padding_mode=ct.PaddingMode.ZERO)
        dp = ct.mma(g, z.transpose(), ct.zeros((tm, tn), ct.float32))
        acc = ct.mma((p * dp).astype(q.dtype), y, acc)
    ct.store(dq, (0, 0), acc)


def of_queries() -> Case:
    """Six tiles of keys: a ring of three stages goes around twice."""
    n = TILES * KEYS
    args = [Array("bfloat16", (rows, FEATURES), True) for rows in (QUERIES, n, n, QUERIES)]
    args += [Array("float32", (QUERIES, FEATURES), True), Const(QUERIES), Const(KEYS), Const(FEATURES)]

    def inputs(rng: np.random.Generator) -> dict[int, np.ndarray]:
        return {i: rng.integers(-2, 3, (rows, FEATURES)) for i, rows in enumerate((QUERIES, n, n, QUERIES))}

    def expected(q: np.ndarray, k: np.ndarray, v: np.ndarray, grad: np.ndarray, *_: object) -> dict[int, np.ndarray]:
        x, y, z, g = (a.astype(np.float64) for a in (q, k, v, grad))
        w = (np.exp2(x @ y.T * SCALE) * (g @ z.T)).astype(ml_dtypes.bfloat16)
        return {4: (w.astype(np.float64) @ y).astype(np.float32)}
    return dataclasses.replace(runner.case_of(PERSISTENT), name="gradient_of_queries", kernel=gradient, args=args, grid=(1, 1, 1),
                               inputs=inputs, reference=expected, rtol=2 ** -7, atol=1)
