"""Arrays that say where they are by `__cuda_array_interface__` (version 2 or 3: CuPy's, Numba's, hand-made ones), as NumPy's.

The interface names an address, which a program on a GPU would have from the driver. Here it must be memory of this process: the
whole extent that shape and strides reach is looked up in the system's list of mappings, so that a wrong address is an error and
not a crash. The array that comes out shares that memory and keeps its owner alive.
"""
from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

import numpy as np

from tileiras.sim.cutile.errors import ArgumentTypeError, ArgumentValueError

INTERFACE = "__cuda_array_interface__"
MAPPINGS = "/proc/self/maps"
MOST_DIMENSIONS = 32
"""What every NumPy takes."""


class _Owner:
    """What NumPy takes the memory from, and with it the array that it belongs to."""

    def __init__(self, value: Any, interface: dict[str, Any]) -> None:
        self.value, self.__array_interface__ = value, interface


def has_interface(value: Any) -> bool:
    """Whether an array (not a class of arrays) has the interface, without asking what it says."""
    return not isinstance(value, type) and (hasattr(type(value), INTERFACE) or INTERFACE in getattr(value, "__dict__", ()))


def refuse_negative(strides: Iterable[int], where: str) -> None:
    """Raises ArgumentValueError for an array of such strides."""
    if any(n < 0 for n in strides):
        raise ArgumentValueError(f"{where} has a negative stride, which tile kernels don't have; pass a copy")


def of_interface(value: Any, where: str) -> np.ndarray:
    """A NumPy array that shares the memory of `value`. Raises ArgumentTypeError for an interface that isn't one, or that says what
    kernels don't have (a mask), ArgumentValueError for memory that isn't this process's, or negative strides."""
    try:
        told = getattr(value, INTERFACE)
    except Exception as error:
        raise ArgumentTypeError(f"{where}: {INTERFACE} of a {type(value).__name__} can't be read: {error}") from error

    def malformed(what: str) -> ArgumentTypeError:
        return ArgumentTypeError(f"{where}: {INTERFACE} of a {type(value).__name__} has {what}")
    if not isinstance(told, dict):
        raise malformed("no dictionary")
    if told.get("mask") is not None:
        raise malformed("a mask, which tile kernels don't have")
    shape: Any = told.get("shape")
    strides: Any = told.get("strides")
    data: Any = told.get("data")
    if not _is_integers(shape) or len(shape) > MOST_DIMENSIONS or any(n < 0 for n in shape):
        raise malformed(f"the shape {shape!r}")
    if strides is not None and (not _is_integers(strides) or len(strides) != len(shape)):
        raise malformed(f"the strides {strides!r} for the shape {shape!r}")
    if not isinstance(data, tuple) or len(data) != 2 or not _is_integers(data[:1]) or not 0 <= data[0] < 1 << 64:
        raise malformed(f"the data {data!r}, not (address, whether it may only be read)")
    dtype = _element_type(value, told.get("typestr"))
    if dtype is None:
        raise malformed(f"the type {told.get('typestr')!r}")
    if 0 in shape:
        try:
            return np.empty(shape, dtype)
        except ValueError as error:          # its other lengths are more than addresses
            raise malformed(f"the shape {shape!r}") from error
    refuse_negative(strides or (), where)
    address, read_only = data[0], bool(data[1])
    size = dtype.itemsize * prod(shape) if strides is None else \
        dtype.itemsize + sum((n - 1) * stride for n, stride in zip(shape, strides))
    if not _is_mapped(address, address + size, not read_only):
        raise ArgumentValueError(f"{where}: the {size} bytes at {address:#x} that {INTERFACE} names aren't memory of the CPU that "
                                 f"this process may {'read' if read_only else 'write'}")
    interface = {"version": 3, "shape": shape, "typestr": dtype.str, "data": (address, read_only), "strides": strides}
    try:
        return np.asarray(_Owner(value, interface)).view(dtype)
    except (OverflowError, ValueError) as error:        # of a length of 1 the stride may be anything
        raise malformed(f"the strides {strides!r}, which NumPy doesn't take") from error


def _is_integers(values: Any) -> bool:
    """Whether it is a tuple of integers of 64 bits, or of addresses."""
    return isinstance(values, tuple) and all(isinstance(n, int) and not isinstance(n, bool) and -(1 << 63) <= n < 1 << 64
                                             for n in values)


def _element_type(value: Any, typestr: Any) -> np.dtype | None:
    """The type of the elements; of those that NumPy doesn't know by itself (`<V2`) the array's own, where it is as large."""
    if not isinstance(typestr, str):
        return None
    try:
        dtype = np.dtype(typestr)
    except (TypeError, ValueError):
        return None
    own = getattr(value, "dtype", None)
    if dtype.kind == "V" and isinstance(own, np.dtype) and own.itemsize == dtype.itemsize:
        dtype = own
    return None if dtype.hasobject or not dtype.itemsize else dtype


def _is_mapped(first: int, end: int, writable: bool) -> bool:
    """Whether all bytes from `first` up to `end` are this process's to read, and to write."""
    try:
        with open(MAPPINGS) as file:
            lines = file.read().splitlines()
    except OSError:
        return False
    for line in lines:                       # in the order of addresses
        extent, rights = line.split(maxsplit=2)[:2]
        low, high = (int(n, 16) for n in extent.split("-"))
        if low <= first < high and "r" in rights and ("w" in rights or not writable):
            first = high
        if first >= end:
            return True
    return False
