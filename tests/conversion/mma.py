"""mma.sync in NumPy: the fragments as the PTX ISA's formulas give them, written element by element.

For every shape, groupID = lane / 4 and threadID_in_group = lane % 4; element i of a fragment is the i-th value of the
registers in order, narrow types packed lowest first.
"""
from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np


def a_place(kind: str, m: int, k: int, lane: int, i: int) -> tuple[int, int]:
    """(row, column) of element i of A."""
    group, thread = lane // 4, lane % 4
    if kind in ("f16", "bf16"):
        row = group if m == 8 or i in (0, 1, 4, 5) else group + 8
        return row, thread * 2 + (i & 1) + (8 if i >= 4 else 0)
    if kind == "tf32":
        return (group if i in (0, 2) else group + 8), thread + (4 if i >= 2 else 0)
    if kind == "f64":
        return (group if m == 8 or i % 2 == 0 else group + 8), thread + 4 * (i // 2 if m == 16 else 0)
    # 8-bit types
    if m == 8:
        return group, thread * 4 + i
    row = group if i < 4 or 8 <= i < 12 else group + 8
    return row, thread * 4 + (i & 3) + (16 if i >= 8 else 0)


def b_place(kind: str, k: int, lane: int, i: int) -> tuple[int, int]:
    """(row, column) of element i of B."""
    group, thread = lane // 4, lane % 4
    if kind in ("f16", "bf16"):
        return thread * 2 + (i & 1) + (8 if i >= 2 else 0), group
    if kind in ("tf32", "f64"):
        return thread + 4 * i, group
    return thread * 4 + (i & 3) + (16 if i >= 4 else 0), group


def c_place(lane: int, i: int) -> tuple[int, int]:
    """(row, column) of element i of C and D."""
    return lane // 4 + (8 if i >= 2 else 0), lane % 4 * 2 + (i & 1)


KINDS: dict[str, Any] = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f64": np.float64,
                         "s8": np.int8, "u8": np.uint8, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}


def parse(name: str) -> tuple[int, int, int, str, str, str]:
    """(m, n, k, type of A, of B, of C and D) of an intrinsic's name."""
    m, n, k, rest = re.match(r"mma\.m(\d+)n(\d+)k(\d+)\.row\.col\.(.*)", name).groups()  # type: ignore[union-attr]
    types = rest.split(".")
    if len(types) == 4:
        a, b, acc = types[1], types[2], types[0]
    elif types[0] in ("s8", "u8"):
        a, b, acc = types[0], types[-1], "s32"
    elif types[0] in ("f16", "f32"):
        a, b, acc = "f16", "f16", types[0]
    else:
        a = b = types[0]
        acc = "f64" if a == "f64" else "f32"
    return int(m), int(n), int(k), a, b, acc


def elements(words: list[np.ndarray], kind: str) -> np.ndarray:
    """Registers as elements: (threads, elements)."""
    raw = [np.ascontiguousarray(w).reshape(len(w), -1).view(np.uint8) for w in words]
    return np.concatenate(raw, 1).view({**KINDS, "s32": np.int32, "f32": np.float32}[kind])


def multiply(name: str, args: list[np.ndarray], threads: int) -> list[np.ndarray]:
    """D of every warp, as a list of registers."""
    m, n, k, a_kind, b_kind, acc = parse(name)
    per = {1: 4, 2: 2}.get(np.dtype(KINDS[a_kind]).itemsize, 1)
    a_words, b_words = m * k // 32 // per, k * n // 32 // per
    a = elements(args[:a_words], a_kind)
    b = elements(args[a_words:a_words + b_words], b_kind)
    c_kind = {"f32": "f32", "f16": "f16", "f64": "f64", "s32": "s32"}[acc]
    c = elements(args[a_words + b_words:], c_kind)
    exact = np.int64 if acc == "s32" else np.float64
    d = np.zeros_like(c)
    for w in range(threads // 32):
        matrices = [np.zeros(s, exact) for s in ((m, k), (k, n), (m, n))]
        for lane in range(32):
            t = w * 32 + lane
            for i in range(a.shape[1]):
                matrices[0][a_place(a_kind, m, k, lane, i)] = exact(a[t, i])
            for i in range(b.shape[1]):
                matrices[1][b_place(b_kind, k, lane, i)] = exact(b[t, i])
            for i in range(c.shape[1]):
                matrices[2][c_place(lane, i)] = exact(c[t, i])
        out = matrices[0] @ matrices[1] + matrices[2]
        for lane in range(32):
            for i in range(c.shape[1]):
                d[w * 32 + lane, i] = out[c_place(lane, i)]
    if acc == "f16":
        return [d[:, i:i + 2] for i in range(0, d.shape[1], 2)]
    if acc == "s32":
        return [d[:, i].view(np.uint32) for i in range(d.shape[1])]
    return [d[:, i] for i in range(d.shape[1])]
