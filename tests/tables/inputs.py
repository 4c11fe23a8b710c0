"""On which values each cell is computed: special values against each other, random bits, and ordinary numbers.

    operands(cell, count)       one array for each operand, in the element type's form in memory, `count` long

f4E2M1FN is one number a byte here, and i4 one a byte too. What the language leaves undefined stays out of the arrays
where a compiler may treat it as never happening: division by zero, shifts by the width or more.
"""
from __future__ import annotations

import functools
import zlib
from typing import Any

import ml_dtypes
import numpy as np

from tests.conversion import reference as ref
from tests.interp.build import ARRAYS
from tests.tables.cells import INTS, Cell

KINDS = {"f8E4M3FN": "e4m3", "f8E5M2": "e5m2", "f8E8M0FNU": "e8m0", "f4E2M1FN": "e2m1"}
"""The names that `tests.conversion.reference` has for types."""
BITS = {"i1": 1, "i4": 4, "i8": 8, "i16": 16, "i32": 32, "i64": 64}
DTYPES: dict[str, Any] = ARRAYS | {"i4": np.dtype(ml_dtypes.int4)}

DOMAINS: dict[str, tuple[tuple[float, float], ...]] = {
    "exp": ((-20, 20), (-110, 90)), "exp2": ((-20, 20), (-150, 130)), "log": ((0.5, 2), (1e-6, 100)),
    "log2": ((0.5, 2), (1e-6, 100)), "rsqrt": ((0.01, 50),), "sin": ((-7, 7), (-1e5, 1e5)), "cos": ((-7, 7), (-1e5, 1e5)),
    "tan": ((-7, 7), (-1e5, 1e5)), "sinh": ((-2, 2), (-90, 90)), "cosh": ((-2, 2), (-90, 90)), "tanh": ((-0.6, 0.6), (-10, 10)),
    "atan2": ((-3, 3),)}
"""Where functions are sampled densely."""


def kind_of(element: str) -> str:
    return KINDS.get(element, element)


def of_kind(x: np.ndarray, element: str) -> np.ndarray:
    """Arrays of `reference` (bytes for short floats) in the form of memory."""
    return x.astype(np.uint8).view(ARRAYS[element]) if element in KINDS else x


@functools.cache
def special(element: str) -> np.ndarray:
    if element not in INTS:
        return of_kind(ref.special_values(kind_of(element)), element)
    if element == "i1":
        return np.array([False, True])
    low, high = -(1 << (BITS[element] - 1)), (1 << (BITS[element] - 1)) - 1
    if BITS[element] <= 4:
        return np.arange(low, high + 1).astype(DTYPES[element])
    near = [0, 1, -1, 2, 3, 5, 7, -2, -3, -7, 100, -100, low, low + 1, high, high - 1, low // 2, high // 2, high // 2 + 1]
    powers = [s * (1 << e) + d for e in range(BITS[element] - 1) for s, d in ((1, 0), (1, -1), (-1, 0), (1, 1))]
    ends = [v for f in (11, 24, 53) for v in ((1 << f) + 1, (1 << f) + 3, -(1 << f) - 1) if low <= v <= high]
    return np.array(sorted({*near, *ends, *(p for p in powers if low <= p <= high)}), DTYPES[element])


def random_of(element: str, count: int, rng: np.random.Generator) -> np.ndarray:
    if element not in INTS:
        return of_kind(ref.random_bits(kind_of(element), count, rng), element)
    if BITS[element] < 8:
        return rng.choice(special(element), count)
    info = np.iinfo(DTYPES[element])
    shift = rng.integers(0, BITS[element], count).astype(DTYPES[element])
    return rng.integers(info.min, info.max, count, DTYPES[element], endpoint=True) >> shift


def ordinary(element: str, count: int, rng: np.random.Generator) -> np.ndarray:
    with np.errstate(all="ignore"):
        if element in INTS:
            return random_of(element, count, rng)
        if element == "f8E8M0FNU":
            return (2.0 ** rng.integers(-9, 9, count)).astype(ARRAYS[element])
        values = np.where(rng.random(count) < 0.3, rng.integers(-40, 40, count) / 16.0, rng.standard_normal(count) * 8)
        return quantized(values, element)


def quantized(values: np.ndarray, element: str) -> np.ndarray:
    with np.errstate(over="ignore"):
        x = values.astype(ARRAYS[element])
    return (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) if element == "tf32" else x


def profile(cell: Cell) -> str:
    """Which way of drawing operands a cell needs: cells of one profile and the same types share a kernel."""
    if cell.op in ("divi", "remi"):
        return "divide " + cell.get("signedness")
    if cell.op in ("shli", "shri"):
        return "shift"
    if cell.op in (*DOMAINS, "pow", "fpowi"):
        return cell.op
    return ""


def operands(cell: Cell, count: int) -> list[np.ndarray]:
    """The operands' values, the same for all cells of a profile and types."""
    how = profile(cell)
    rng = np.random.default_rng(zlib.crc32(f"{how}{cell.operands}".encode()))
    columns = _crossed(cell.operands, count, rng)
    if how in DOMAINS:
        columns = _sampled(columns, how, cell.operands, rng)
    elif how == "pow":
        columns[0][1::3] = quantized(rng.uniform(0.05, 5, count), cell.operands[0])[1::3]
        columns[1][1::3] = quantized(rng.uniform(-9, 9, count), cell.operands[1])[1::3]
        columns[1][2::3] = quantized(rng.integers(-9, 9, count).astype(float), cell.operands[1])[2::3]
    elif how == "fpowi":
        small = rng.integers(-12, 13, count).astype(DTYPES[cell.operands[1]])
        columns[1][1::2] = small[1::2]
        columns[0][1::2] = quantized(rng.uniform(-3, 3, count), cell.operands[0])[1::2]
    elif how == "shift":
        width = BITS[cell.operands[1]]
        columns[1] = rng.integers(0, width, count).astype(DTYPES[cell.operands[1]])
        if width > 1:
            columns[1][:2 * width] = np.arange(2 * width) % width
    elif how.startswith("divide"):
        _divisible(columns, cell)
    return columns


def _crossed(types: tuple[str, ...], count: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Half of it special values against each other, a quarter random bits, a quarter ordinary numbers."""
    half, quarter = count // 2, count // 4
    columns = []
    for position, element in enumerate(types):
        values = special(element)
        # Every value of a column at least once; against values of the others by chance, or all pairs where they fit.
        if position == 0:
            first = np.resize(values, half)
        elif len(special(types[0])) * len(values) <= half:
            first = np.resize(np.repeat(values, len(special(types[0]))), half)
        else:
            first = rng.choice(values, half)
        parts = [first, random_of(element, quarter, rng), ordinary(element, count - half - quarter, rng)]
        columns.append(np.concatenate([p.astype(DTYPES[element]) for p in parts]))
    return columns


def _sampled(columns: list[np.ndarray], function: str, types: tuple[str, ...], rng: np.random.Generator) -> list[np.ndarray]:
    for column, element in zip(columns, types):
        for i, (low, high) in enumerate(DOMAINS[function]):
            part = column[len(column) // 2 + i::3]
            part[:] = quantized(rng.uniform(low, high, len(part)), element)
    return columns


def _divisible(columns: list[np.ndarray], cell: Cell) -> None:
    """No zero divisors, and no least number divided by -1."""
    a, b = columns
    element = cell.operands[0]
    if element == "i1":
        b[:] = True
        a[:] &= cell.get("signedness") != "signed"
        return
    b[b == 0] = 3
    a[(b == -1) & (a == np.iinfo(a.dtype).min)] = 5
