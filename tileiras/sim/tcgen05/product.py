"""The arithmetic of tcgen05.mma on arrays: bytes to elements, sparse rows spread, blocks scaled, products accumulated.

Everything is computed in float64 (integers in int64) and rounded once to the accumulator's type; the order in which the
hardware adds isn't specified.
"""
from __future__ import annotations

import numpy as np

from tileiras.sim.errors import TensorMemoryError
from tileiras.sim.matrix.fragments import accumulate, value_of
from tileiras.sim.scalar import smallfloat
from tileiras.sim.tcgen05.descriptor import SCALED, Product

CONTAINER = {"f16": 2, "tf32": 4}        # bytes that an element of a kind takes in memory, 1 for the others
_PACKED = ("mxf4", "mxf4nvf4")           # kinds with two elements a byte
_INDICES = {4: (0, 1), 8: (0, 2), 12: (0, 3), 9: (1, 2), 13: (1, 3), 6: (2, 1), 14: (2, 3)}


def row_bytes(p: Product, of_a: bool) -> int:
    """Bytes along K of one row of A, or one column of B, in memory."""
    k = p.k // 2 if of_a and p.sparse else p.k
    return k // 2 if p.kind in _PACKED else k * CONTAINER.get(p.kind, 1)


def used_bytes(p: Product, type_: str, count: int) -> np.ndarray:
    """[count] bool: which bytes of a row hold elements (6- and 4-bit elements leave part of every 16 bytes empty)."""
    if p.kind not in _PACKED and type_ in ("e2m1", "e2m3", "e3m2"):
        return np.arange(count) % 16 < (8 if type_ == "e2m1" else 12)
    return np.ones(count, bool)


def spread_packed(data: np.ndarray, width: int) -> np.ndarray:
    """Groups of 16 bytes that start with 16 packed 4- or 6-bit elements, to 16 bytes with one element each."""
    groups = np.ascontiguousarray(data).reshape(-1, 16)
    if width == 4:
        low = groups[:, :8]
        out = np.stack([low & np.uint8(15), low >> np.uint8(4)], axis=-1).reshape(-1, 16)
    else:
        bits = np.unpackbits(np.ascontiguousarray(groups[:, :12]), axis=1, bitorder="little").reshape(-1, 16, 6)
        out = (bits << np.arange(6, dtype=np.uint8)).sum(axis=-1).astype(np.uint8)
    return out.reshape(data.shape)


def values(data: np.ndarray, p: Product, type_: str, from_tensor: bool = False) -> np.ndarray:
    """Rows of bytes along K, [rows, bytes], to float64 elements [rows, k].

    In shared memory 6- and 4-bit elements are packed at the start of each 16 bytes; in tensor memory each has a byte,
    6-bit ones in its low bits, 4-bit ones in bits 2 to 5."""
    data = np.ascontiguousarray(data)
    if p.kind in _PACKED:
        codes = np.stack([data & np.uint8(15), data >> np.uint8(4)], axis=-1).reshape(len(data), -1)
        return smallfloat.decode(codes, "e2m1")
    if type_ in ("e2m1", "e2m3", "e3m2"):
        if not from_tensor:
            data = spread_packed(data, 4 if type_ == "e2m1" else 6)
        elif type_ == "e2m1":
            data = data >> np.uint8(2)
        return smallfloat.decode(data, type_)
    if p.kind == "f16":
        return value_of(data.view(np.uint16), type_)
    if p.kind == "tf32":
        return value_of(data.view(np.uint32), "tf32")
    return value_of(data, type_)


def spread_sparse(stored: np.ndarray, chunks: np.ndarray, kind: str) -> np.ndarray:
    """A sparse A's stored elements [rows, k / 2] to [rows, k], by its metadata's 4-bit chunks [rows, chunks]."""
    rows, count = chunks.shape
    if kind == "tf32":                       # one of two elements: each index pair names halves of it
        bad = (chunks != 4) & (chunks != 14)
        places = (chunks == 14).astype(np.int64)[..., None]
        group, wide = 2, 1
    else:
        table = np.full((16, 2), -1, np.int64)
        for code, pair in _INDICES.items():
            table[code] = pair
        places = table[chunks]
        bad = (places < 0).any(axis=-1)
        group, wide = 4, 2 if kind in _PACKED else 1
    if bad.any():
        raise TensorMemoryError(f"sparsity metadata {int(chunks[bad][0]):#06b} has no meaning for kind::{kind}")
    out = np.zeros((rows, count, group, wide))
    given = stored.reshape(rows, count, -1, wide)
    r, c = np.arange(rows)[:, None, None], np.arange(count)[None, :, None]
    out[r, c, places] = given
    return out.reshape(rows, -1)


def scales(words: np.ndarray, p: Product, first: int) -> np.ndarray:
    """Words that hold scale factors, [rows, words], to one factor for each element along K, [rows, k]."""
    codes = np.ascontiguousarray(words).view(np.uint8).reshape(len(words), -1)[:, first:first + p.vectors]
    name = "e4m3" if p.scale == "ue4m3" else p.scale
    if name == "e4m3":
        codes = codes & np.uint8(0x7F)
    return np.repeat(smallfloat.decode(codes, name), p.k // p.vectors, axis=1)


def multiply(p: Product, a: np.ndarray, b: np.ndarray, d: np.ndarray | None, scale_d: int = 0) -> np.ndarray:
    """[rows, k] times [k, columns] plus the cells of D ([rows, columns] uint32, or None), as cells of D."""
    product = np.matmul(a, b)
    if p.negate_a != p.negate_b:
        product = -product
    type_ = "f32" if p.kind in SCALED else p.d
    c = np.zeros(1)
    if d is not None:
        if type_ == "f16":
            c = (d & np.uint32(0xFFFF)).astype(np.uint16).view(np.float16).astype(np.float64)
        elif type_ == "s32":
            c = d.view(np.int32).astype(np.int64)
        else:
            c = d.view(np.float32).astype(np.float64)
        if scale_d:
            c = c * 2.0 ** -scale_d
    total = accumulate(product, c, type_, type_ == "s32", p.saturate)
    if type_ == "f16":
        return total.view(np.uint16).astype(np.uint32)
    return np.ascontiguousarray(total).view(np.uint32)
