"""Kernels whose tiles nearly fill shared memory, or more than fill it, have asynchronous code and compute what NumPy says."""
from __future__ import annotations

import math

import cuda.tile as ct
import numpy as np
import pytest

import tileiras
from tests.ptx import ORDERS, is_asynchronous
from tileiras.sim import cutile, simulate

ConstInt = ct.Constant[int]
LOG2E = math.log2(math.e)
SCALE = 0.125


@ct.kernel
def product(A, B, C, m: ConstInt, n: ConstInt, k: ConstInt, step: ConstInt):
    """Both operands of an iteration together don't fit shared memory, or not twice. With a `step` some tiles are left out."""
    total = ct.zeros((m, n), ct.float32)
    kind = ct.tfloat32 if A.dtype == ct.float32 else A.dtype
    for i in range(0, ct.cdiv(A.shape[1], k), step):    # type: ignore[arg-type]
        a = ct.load(A, index=(0, i), shape=(m, k), padding_mode=ct.PaddingMode.ZERO)
        b = ct.load(B, index=(i, 0), shape=(k, n), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(ct.astype(a, kind), ct.astype(b, kind), total)
    ct.store(C, index=(0, 0), tile=total)


@ct.kernel
def prefill(Q, QP, K, KP, V, Out, m: ConstInt, n: ConstInt, d: ConstInt, p: ConstInt):
    """Scores in two parts, of features and of positions; a condition parts the loop in two."""
    i = ct.bid(0)
    rows = (i * m + ct.arange(m, dtype=ct.int32))[:, None]
    columns = ct.arange(n, dtype=ct.int32)[None, :]
    top = ct.full((m, 1), -math.inf, ct.float32)
    weights = ct.zeros((m, 1), ct.float32)
    total = ct.zeros((m, d), ct.float32)
    q, qp = ct.load(Q, index=(i, 0), shape=(m, d)), ct.load(QP, index=(i, 0), shape=(m, p))
    for j in range(ct.cdiv((i + 1) * m, n)):    # type: ignore[arg-type]
        s = ct.mma(q, ct.load(K, index=(0, j), shape=(d, n), order=(1, 0)), ct.zeros((m, n), ct.float32))
        s = ct.mma(qp, ct.load(KP, index=(0, j), shape=(p, n), order=(1, 0)), s)
        if j >= i * m // n:
            s = ct.where(rows >= j * n + columns, s, -1e6)
        higher = ct.maximum(top, ct.max(s, axis=1, keepdims=True) * (SCALE * LOG2E))
        w, shrink = ct.exp2(s * (SCALE * LOG2E) - higher), ct.exp2(top - higher)
        weights = weights * shrink + ct.sum(w, axis=1, keepdims=True)
        total = ct.mma(ct.astype(w, Q.dtype), ct.load(V, index=(j, 0), shape=(n, d)), total * shrink)
        top = higher
    ct.store(Out, index=(i, 0), tile=ct.astype(total / weights, Out.dtype))


@ct.kernel
def decode(Q, QP, K, KP, Out, h: ConstInt, n: ConstInt, d: ConstInt, p: ConstInt):
    """One position of `h` heads; keys are values, too."""
    top = ct.full((1, h), -math.inf, ct.float32)
    weights = ct.zeros((1, h), ct.float32)
    total = ct.zeros((d, h), ct.float32)
    q, qp = ct.load(Q, index=(0, 0), shape=(d, h), order=(1, 0)), ct.load(QP, index=(0, 0), shape=(p, h), order=(1, 0))
    for j in range(ct.cdiv(K.shape[0], n)):    # type: ignore[arg-type]
        s = ct.mma(ct.load(K, index=(j, 0), shape=(n, d)), q, ct.zeros((n, h), ct.float32))
        s = ct.mma(ct.load(KP, index=(j, 0), shape=(n, p)), qp, s)
        higher = ct.maximum(top, ct.max(s, axis=0, keepdims=True) * (SCALE * LOG2E))
        w, shrink = ct.exp2(s * (SCALE * LOG2E) - higher), ct.exp2(top - higher)
        weights = weights * shrink + ct.sum(w, axis=0, keepdims=True)
        v = ct.transpose(ct.load(K, index=(j, 0), shape=(n, d)))
        total = ct.mma(v, ct.astype(w, Q.dtype), total * shrink)
        top = higher
    ct.store(Out, index=(0, 0), tile=ct.transpose(ct.astype(total / weights, Out.dtype)))


def drawn(*shapes: tuple[int, int], dtype: type = np.float16) -> list[np.ndarray]:
    """Small whole numbers and quarters: exact in every type, so that only the weights round."""
    rng = np.random.default_rng(0)
    return [(rng.integers(-4, 5, shape) / 4).astype(dtype) for shape in shapes]


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, seen: np.ndarray) -> np.ndarray:
    s = np.where(seen, q.astype(np.float64) @ k.astype(np.float64).T * SCALE, -np.inf)
    w = np.exp(s - s.max(1, keepdims=True))
    return w @ v.astype(np.float64) / w.sum(1, keepdims=True)


def arguments(name: str) -> tuple[list, np.ndarray]:
    """Of a launch of one block, and what its last array must hold."""
    if name == "halves":        # the second tile's second half begins behind the end
        a, b = drawn((256, 184), (184, 128))
        return [a, b, np.zeros((256, 128), np.float32), 256, 128, 128, 1], a.astype(np.float64) @ b.astype(np.float64)
    if name == "product":
        a, b = drawn((256, 184), (184, 256), dtype=np.float32)
        return [a, b, np.zeros((256, 256), np.float32), 256, 256, 128, 1], a.astype(np.float64) @ b
    if name == "every_other":
        a, b = drawn((256, 304), (304, 256), dtype=np.float32)
        read = [*range(128), *range(256, 304)]
        return [a, b, np.zeros((256, 256), np.float32), 256, 256, 128, 2], a[:, read].astype(np.float64) @ b[read]
    if name == "prefill":
        q, qp, k, kp, v = drawn((128, 256), (128, 64), (128, 256), (128, 64), (128, 256))
        seen = np.arange(128)[:, None] >= np.arange(128)
        return [q, qp, k, kp, v, np.zeros((128, 256), np.float16), 128, 128, 256, 64], attention(
            np.hstack([q, qp]), np.hstack([k, kp]), v, seen)
    q, qp, k, kp = drawn((16, 512), (16, 64), (256, 512), (256, 64))
    return [q, qp, k, kp, np.zeros((16, 512), np.float16), 16, 128, 512, 64], attention(
        np.hstack([q, qp]), np.hstack([k, kp]), k, np.ones((16, 256), bool))


KERNELS = {"product": product, "halves": product, "every_other": product, "prefill": prefill, "decode": decode}


@pytest.mark.parametrize("name, gpu_name", [("halves", "sm_80"), ("halves", "sm_120"), *(
    (name, sm) for name in KERNELS if name != "halves" for sm in ("sm_90", "sm_100"))])
def test_large_tiles(name: str, gpu_name: str) -> None:
    args, expected = arguments(name)
    made = cutile.export(KERNELS[name], args, gpu_name)
    compiled = tileiras.compile(made.bytecode, gpu_name, 3)
    assert is_asynchronous(compiled.ptx)
    out = next(a for a in reversed(args) if isinstance(a, np.ndarray))
    for order in ORDERS[::4]:
        out[:] = 0
        report = simulate(compiled.ptx, kernel=made.symbol, grid=(1, 1, 1), args=made.flat, seed=order)
        assert not report.findings
        np.testing.assert_allclose(out.astype(np.float64), expected, rtol=2e-3, atol=2e-3)
