"""Constant scalars, splats and tables, in layouts where the thread matters and where it doesn't."""
from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import FloatAttr, IntAttr, IntegerAttr, IntegerType, StringAttr

from tests.conversion.harness import NUMPY, TYPES, Case, build, evaluate
from tileiras.dialects.nv_tileaa import DenseTileAttr


def dense(values: np.ndarray) -> DenseTileAttr:
    return DenseTileAttr(StringAttr(values.tobytes().hex()), IntAttr(values.dtype.itemsize))


@pytest.mark.parametrize("registers", (0, 1, 4))
@pytest.mark.parametrize(("kind", "value", "bits"), [
    ("i1", 1, 1), ("i8", -3, 0xFD), ("i64", -(1 << 63), 1 << 63), ("f16", 1.5, 0x3E00), ("bf16", -2.0, 0xC000),
    ("f32", 0.1, 0x3DCCCCCD), ("tf32", 1.0, 0x3F800000), ("f64", -0.0, 1 << 63), ("e4m3", 448.0, 0x7E),
    ("e5m2", 1.0, 0x3C), ("e8m0", 2.0, 0x80), ("e2m1", -6.0, 0xF), ("f32", float("inf"), 0x7F800000)])
def test_splat(kind: str, value: float, bits: int, registers: int) -> None:
    t = TYPES[kind]
    attr = IntegerAttr(int(value), t) if isinstance(t, IntegerType) else FloatAttr(value, t)  # type: ignore[arg-type]
    (got,) = evaluate([Case("arith.constant", (), kind, {"value": attr})], {}, "sm_90", registers)
    raw = bits.to_bytes(got.dtype.itemsize, "little")
    assert got.tobytes() == raw * len(got)


@pytest.mark.parametrize("kind", ("i1", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "e5m2"))
def test_table(kind: str) -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(0, 2 if kind == "i1" else 100, 128).astype(NUMPY[kind])
    (got,) = evaluate([Case("arith.constant", (), kind, {"value": dense(values)})], {}, "sm_90", 4)
    assert np.array_equal(got, values)


def test_table_of_registers_needs_no_memory() -> None:
    values = np.tile(np.array([5, 6, 7, 8], np.int32), 32)
    case = Case("arith.constant", (), "i32", {"value": dense(values)})
    assert "@constant" not in build([case], "sm_90", 4)
    (got,) = evaluate([case], {}, "sm_90", 4)
    assert np.array_equal(got, values)
