"""Threads widen weights of 8 and 4 bits for the tensor core: two warpgroups do where there is much to widen (`plan-agents`),
and where the product isn't turned (`turn-dots`): then one does it for less."""
# pyright: reportArgumentType=false, reportIndexIssue=false
from __future__ import annotations

from typing import Any

import cuda.tile as ct
import numpy as np
import pytest

import tileiras
from tests.ptx import ORDERS
from tileiras.sim import cutile, simulate

Const = ct.Constant[int]
STEPS = 5
TWO_WARPGROUPS_AND_A_LOADER = 288


@ct.kernel
def product_of_bytes(a, w, scale, out, tm: Const, tn: Const, tk: Const):
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        b = (ct.load(w, (0, k), (tn, tk)).astype(ct.float32) * ct.load(scale, (0,), (tn,))[:, None]).astype(a.dtype)
        acc = ct.mma(ct.load(a, (0, k), (tm, tk)), b.transpose(), acc)
    ct.store(out, (0, 0), acc)


@ct.kernel
def product_of_nibbles(a, w, scale, out, tm: Const, tn: Const, tk: Const):
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        packed = ct.load(w, (0, k), (tn, tk // 2)).astype(ct.int32)
        codes = ct.cat(((packed & 15)[:, :, None], (packed >> 4)[:, :, None]), 2).reshape((tn, tk))
        b = ((codes - 8).astype(ct.float32) * ct.load(scale, (0,), (tn,))[:, None]).astype(a.dtype)
        acc = ct.mma(ct.load(a, (0, k), (tm, tk)), b.transpose(), acc)
    ct.store(out, (0, 0), acc)


@ct.kernel
def product_of_a_table(a, w, table, out, tm: Const, tn: Const, tk: Const):
    acc = ct.zeros((tm, tn), ct.float32)
    for k in range(ct.cdiv(a.shape[1], tk)):
        b = ct.gather(table, ct.load(w, (k, 0), (tk, tn)).astype(ct.int32)).astype(a.dtype)
        acc = ct.mma(ct.load(a, (0, k), (tm, tk)), b, acc)
    ct.store(out, (0, 0), acc)


def arguments(kernel: Any, tm: int, tn: int, tk: int) -> tuple[list[Any], np.ndarray]:
    """Arguments, whole numbers that f16 holds, and what the product is."""
    draw, depth = np.random.default_rng(7), STEPS * tk
    a = draw.integers(-2, 3, (tm, depth)).astype(np.float16)
    factors = 2.0 ** draw.integers(-1, 2, tn if kernel is not product_of_a_table else 16).astype(np.float32)
    if kernel is product_of_bytes:
        w = draw.integers(-5, 6, (tn, depth)).astype(np.int8)
        b = (w * factors.astype(np.float64)[:, None]).T
    elif kernel is product_of_a_table:
        w = draw.integers(0, 16, (depth, tn)).astype(np.uint8)
        b = factors.astype(np.float64)[w]
    else:
        w = draw.integers(0, 256, (tn, depth // 2)).astype(np.uint8)
        codes = np.concatenate([np.stack([s & 15, s >> 4], -1).reshape(tn, tk) for s in np.split(w, STEPS, axis=1)], axis=1)
        b = ((codes - 8.0) * factors.astype(np.float64)[:, None]).T
    return [a, w, factors, np.zeros((tm, tn), np.float32), tm, tn, tk], a.astype(np.float64) @ b


@pytest.mark.parametrize(("kernel", "tile", "widely"), [
    (product_of_bytes, (128, 64, 128), True), (product_of_nibbles, (128, 64, 128), True),
    (product_of_nibbles, (64, 128, 128), False), (product_of_bytes, (128, 128, 64), False),
    (product_of_bytes, (64, 64, 64), False), (product_of_a_table, (128, 128, 64), False)])
def test_two_warpgroups_widen_much(kernel: Any, tile: tuple[int, int, int], widely: bool) -> None:
    args, expected = arguments(kernel, *tile)
    made = cutile.export(kernel, args, "sm_100")
    compiled = tileiras.compile(made.bytecode, "sm_100", 3)
    assert "tcgen05.mma" in compiled.ptx
    assert (compiled.entries[0].threads == TWO_WARPGROUPS_AND_A_LOADER) == widely
    for order in ORDERS:
        args[3][:] = 0
        report = simulate(compiled.ptx, kernel=made.symbol, grid=(1, 1, 1), args=made.flat, seed=order)
        assert not report.findings
        np.testing.assert_array_equal(args[3].astype(np.float64), expected)
