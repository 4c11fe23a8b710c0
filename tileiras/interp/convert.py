"""Conversions between element types: values preserved as far as the target can, rounded once.

Between floats and from integers: rounding.py. To integers: towards zero; beyond the range (undefined unless the
op says saturating) the nearest end stands, and zero for NaN.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from tileiras.interp import exact, integers
from tileiras.interp.formats import F64, I1, FloatFormat, Format, IntFormat
from tileiras.interp.rounding import round_to


def float_to_float(x: Any, to: FloatFormat, mode: str, source: FloatFormat = F64) -> Any:
    return round_to(source.numbers(x), to, mode)


def int_to_float(x: Any, source: IntFormat, signedness: str, to: FloatFormat, mode: str) -> Any:
    numbers = integers.valued(x, source, signedness)
    if source.bits < 64:
        return round_to(numbers.astype(np.float64), to, mode)
    low_bits = numbers.dtype.type(0xFFFFFFFF)
    high, low = numbers & ~low_bits, numbers & low_bits          # each of at most 32 significant bits
    nearest, error = exact.add(high.astype(np.float64), low.astype(np.float64))
    return round_to(nearest, to, mode, error)


def float_to_int(x: Any, to: IntFormat, signedness: str, source: FloatFormat = F64) -> Any:
    values = np.trunc(source.numbers(x))
    if to is I1:
        return np.asarray(source.numbers(x) != 0)
    if signedness == "signed":
        low, high = -(2 ** (to.bits - 1)), 2 ** (to.bits - 1) - 1
    else:
        low, high = 0, 2 ** to.bits - 1
    work = np.int64 if signedness == "signed" else np.uint64
    above, below, nan = values > high, values < low, np.isnan(values)
    if to.bits == 64:
        above = values >= float(high)                           # float(high) rounds up to the next power of two
    inside = np.where(above | below | nan, 0.0, values).astype(work)
    return integers.wrap(np.where(above, work(high), np.where(below, work(low), inside)), to)


def int_to_int(x: Any, source: IntFormat, signedness: str, to: IntFormat) -> Any:
    """Widen (by the signedness) or narrow (dropping the upper bits)."""
    numbers = integers.valued(x, source, signedness)
    return integers.wrap(numbers.astype(np.int64), to)


def bits_of(x: Any, fmt: Format) -> Any:
    """The bits of each element as unsigned NumPy integers; i1 as 0 or 1, i4 and f4 in the low four bits."""
    x = np.asarray(x)
    if isinstance(fmt, IntFormat):
        return integers.unsigned(x, fmt)
    unsigned = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[fmt.dtype.itemsize]
    return np.ascontiguousarray(x).view(unsigned).reshape(x.shape)


def from_bits(bits: Any, fmt: Format) -> Any:
    """The inverse of bits_of."""
    if isinstance(fmt, IntFormat):
        return integers.wrap(bits, fmt)
    unsigned = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[fmt.dtype.itemsize]
    return np.ascontiguousarray(bits.astype(unsigned)).view(fmt.dtype).reshape(bits.shape)


def bitcast(x: Any, source: Format, to: Format) -> Any:
    """The same bits read as another type of the same width."""
    return from_bits(bits_of(x, source), to)


def pack(x: Any, source: Format) -> Any:
    """The elements' bits as a byte array, little-endian, the first element lowest."""
    bits = bits_of(x, source)
    if source.bits >= 8:
        return np.ascontiguousarray(bits).view(np.uint8).view(np.int8)
    each = 8 // source.bits
    groups = bits.astype(np.uint8).reshape(-1, each) << (np.arange(each, dtype=np.uint8) * np.uint8(source.bits))
    return np.bitwise_or.reduce(groups, axis=1).view(np.int8)


def unpack(data: Any, to: Format) -> Any:
    """The inverse of pack."""
    data = np.ascontiguousarray(data).view(np.uint8)
    if to.bits >= 8:
        unsigned = {2: np.uint16, 4: np.uint32, 8: np.uint64, 1: np.uint8}[to.bits // 8]
        return from_bits(data.view(unsigned), to)
    each = 8 // to.bits
    shifts = np.arange(each, dtype=np.uint8) * np.uint8(to.bits)
    return from_bits(((data[:, None] >> shifts) & np.uint8(2 ** to.bits - 1)).reshape(-1), to)

