"""PTX types as NumPy types, and how a value of one type sits in a register of another width.

Registers are stored as unsigned integers of their width (bool for predicates, [n, 2] uint64 for 128 bits). bf16 and
the 8-bit and packed formats have no NumPy arithmetic; as operands they stay unsigned integers.
"""
from __future__ import annotations

from typing import Any

import numpy as np

STORAGE: dict[str, Any] = {"pred": np.bool_}
for _w, _dtype in ((8, np.uint8), (16, np.uint16), (32, np.uint32), (64, np.uint64)):
    for _k in "bus":
        STORAGE[f"{_k}{_w}"] = _dtype
STORAGE.update({"f16": np.uint16, "bf16": np.uint16, "f32": np.uint32, "f16x2": np.uint32, "bf16x2": np.uint32,
                "tf32": np.uint32, "f64": np.uint64, "f32x2": np.uint64, "e4m3": np.uint8, "e5m2": np.uint8,
                "e4m3x2": np.uint16, "e5m2x2": np.uint16, "e4m3x4": np.uint32, "e5m2x4": np.uint32,
                "e2m1x2": np.uint8, "e2m3x2": np.uint16, "e3m2x2": np.uint16, "ue8m0x2": np.uint16, "ue5m3x2": np.uint16,
                "e2m1x4": np.uint16, "e2m3x4": np.uint32, "e3m2x4": np.uint32, "s16x2": np.uint32, "u16x2": np.uint32,
                "u8x4": np.uint32, "s8x4": np.uint32})
VALUE: dict[str, Any] = dict(STORAGE)
VALUE.update({"s8": np.int8, "s16": np.int16, "s32": np.int32, "s64": np.int64, "f16": np.float16, "f32": np.float32,
              "f64": np.float64})
BITS: dict[str, int] = {t: 8 * np.dtype(d).itemsize for t, d in STORAGE.items()}
BITS["b128"] = 128
B128 = "b128"
SIGNED = {"s8", "s16", "s32", "s64"}
FLOAT = {"f16", "f32", "f64", "bf16", "f16x2", "bf16x2", "f32x2", "tf32"}


def reinterpret(value: np.ndarray, dtype) -> np.ndarray:
    """The same bits as another type of the same size."""
    return value if value.dtype == dtype else value.view(dtype)
