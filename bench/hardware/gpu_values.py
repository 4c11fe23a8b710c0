"""Values of arrays on a GPU machine: random ones, and how two outputs differ. NumPy alone; of small floats ml_dtypes as well."""
from __future__ import annotations

import functools

import numpy as np

WIDTHS = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "int32": 4, "int64": 8, "int8": 1, "uint8": 1, "uint32": 4,
          "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e8m0fnu": 1, "int16": 2, "uint16": 2, "uint64": 8, "bool": 1}


@functools.cache
def random_bytes(kind: str, bound: int) -> bytes:
    """16 Mi values: normal ones of floats, scales of 1/4 to 4, integers below the bound or of any bits."""
    rng, count = np.random.default_rng(0), 1 << 24
    if kind.startswith(("int", "uint")):
        return rng.integers(0, bound, count).astype(kind).tobytes() if bound else rng.bytes(count * WIDTHS[kind])
    if kind == "float8_e8m0fnu":
        return rng.integers(125, 130, count).astype(np.uint8).tobytes()
    values = rng.standard_normal(count, dtype=np.float32)
    if kind == "bfloat16":
        return (values.view(np.uint32) >> 16).astype(np.uint16).tobytes()
    if kind == "float8_e5m2":
        return (values.astype(np.float16).view(np.uint16) >> 8).astype(np.uint8).tobytes()
    if kind == "float8_e4m3fn":
        # 4 bits of exponent from 2**-6 on, 3 of mantissa, cut: normal values up to 7 have room.
        bits = np.where(np.abs(values) < 2.0**-6, 2.0**-6, values).astype(np.float32).view(np.uint32)
        return ((bits >> 24 & 0x80) | ((bits >> 20 & 0x7FF) - (120 << 3))).astype(np.uint8).tobytes()
    return values.astype(kind).tobytes()


def numbers(data: bytes, kind: str) -> np.ndarray:
    """Values of any of the kinds, as float64."""
    if kind == "bfloat16":
        return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return np.frombuffer(data, kind if not kind.startswith("float8") else np.uint8).astype(np.float64)


def different(one: bytes, other: bytes, width: int) -> int:
    """Elements of `width` bytes that differ."""
    if one == other:
        return 0
    a, b = (np.frombuffer(data, np.uint8).reshape(-1, width) for data in (one, other))
    return int((a != b).any(1).sum())


def largest(one: bytes, other: bytes, kind: str) -> float:
    """Largest difference over the largest value; of NaNs only that both are there."""
    a, b = numbers(one, kind), numbers(other, kind)
    with np.errstate(all="ignore"):
        error = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return float(np.nan_to_num(error, nan=1e300, posinf=1e300).max(initial=0.0) / max(np.nanmax(np.abs(b), initial=0.0), 1e-300))


def distance(got: bytes, want: bytes, name: str, rtol: float, atol: float) -> float:
    """Worst |got - want| / (atol + rtol |want|); infinite for integers that differ."""
    try:
        kind = np.dtype(name)
    except TypeError:
        import ml_dtypes
        kind = np.dtype(getattr(ml_dtypes, name))
    if kind.kind in "biu":
        return 1e300
    g, w = (np.frombuffer(data, kind).astype(np.float64) for data in (got, want))
    with np.errstate(all="ignore"):
        error = np.abs(g - w) / (atol + rtol * np.abs(w))
    error = np.where((g == w) | (np.isnan(g) & np.isnan(w)), 0.0, error)
    return min(float(np.nan_to_num(error, nan=1e300, posinf=1e300).max(initial=0.0)), 1e300)
