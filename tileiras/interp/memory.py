"""The flat 64-bit memory that a kernel sees: allocations at spaced addresses, loads and stores by address.

Every launch array becomes an allocation at an address divisible by 256 (arrays that overlap on the host keep their
distance and share one); unallocated gaps around it catch accesses that leave it. Bytes are the arrays' own, so stores
are seen by the caller at once.
"""
from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

import numpy as np

from tileiras.interp.errors import InterpreterError
from tileiras.interp.formats import I1, Format

_FIRST_ADDRESS = 0x7F00_0000_0000
_GUARD = 1 << 16
GARBAGE = 0xDB      # the byte of every value that the language leaves undefined: -1.2e17 in f32, -251 in f16
_UNSIGNED: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass
class Allocation:
    """A run of bytes. `start`: its address; `data`: uint8, writable unless read_only; `name`: for messages."""

    start: int
    data: np.ndarray[Any, Any]
    name: str
    read_only: bool = False

    @property
    def end(self) -> int:
        return self.start + len(self.data)


class _Bytes:
    """NumPy's view of memory that another array owns."""

    def __init__(self, owner: Any, low: int, count: int, writable: bool) -> None:
        self.owner = owner
        self.__array_interface__ = {"data": (low, not writable), "shape": (count,), "typestr": "|u1", "version": 3}


class Memory:
    """Allocations, and gathers and scatters over them. `writes` counts the stores that changed something."""

    def __init__(self) -> None:
        self._allocations: list[Allocation] = []
        self._starts: list[int] = []
        self._next = _FIRST_ADDRESS
        self.writes = 0

    def allocate(self, count: int, name: str, alignment: int = 256, data: Any = None,
                 read_only: bool = False) -> Allocation:
        """Place `count` bytes (undefined, or those of the uint8 array `data`) at a multiple of `alignment`."""
        alignment = max(alignment, 256)
        start = -(-self._next // alignment) * alignment
        if data is None:
            data = np.full(count, GARBAGE, np.uint8)
        block = Allocation(start, data, name, read_only)
        self._allocations.append(block)
        self._starts.append(start)
        self._next = block.end + _GUARD
        return block

    def release(self, block: Allocation) -> None:
        """Forget an allocation; its addresses are not given again."""
        at = self._allocations.index(block)
        del self._allocations[at], self._starts[at]

    def place_arrays(self, arrays: list[Any], names: list[str]) -> list[int]:
        """Allocate the memory of NumPy arrays; returns the address of each array's first element."""
        extents = []
        for array in arrays:
            low, high = _byte_bounds(array)
            extents.append((low, high, array.__array_interface__["data"][0]))
        addresses = [0] * len(arrays)
        order = sorted(range(len(arrays)), key=lambda i: extents[i][:2])
        groups: list[list[int]] = []
        reach = -1
        for i in order:
            if groups and extents[i][0] < reach:
                groups[-1].append(i)
            else:
                groups.append([i])
            reach = max(reach, extents[i][1])
        for group in sorted(groups, key=min):
            low = min(extents[i][0] for i in group)
            high = max(extents[i][1] for i in group)
            owners = [arrays[i] for i in group]
            data = np.asarray(_Bytes(owners, low, high - low, all(a.flags.writeable for a in owners)))
            block = self.allocate(high - low, " and ".join(names[i] for i in sorted(group)), data=data)
            for i in group:
                addresses[i] = block.start + (extents[i][2] - low)
        return addresses

    def find(self, low: int, high: int) -> Allocation | None:
        """The allocation that holds the bytes low .. high - 1."""
        at = bisect_right(self._starts, low) - 1
        if at >= 0 and high <= self._allocations[at].end:
            return self._allocations[at]
        return None

    def load(self, addresses: Any, fmt: Format, mask: Any = None) -> Any:
        """Gather elements. addresses: uint64, any shape; mask: bool of that shape or None. Where the mask is false
        stands garbage(fmt). Raises InterpreterError outside of allocations and when misaligned."""
        shape = np.shape(addresses)
        flat = np.asarray(addresses, np.uint64).reshape(-1)
        chosen = None if mask is None else np.asarray(mask).reshape(-1)
        if chosen is not None and not chosen.all():
            out = np.full(flat.shape, GARBAGE, np.uint8).repeat(fmt.bytes).view(_UNSIGNED[fmt.bytes])
            if chosen.any():
                out[chosen] = self._gather(flat[chosen], fmt.bytes)
        else:
            out = self._gather(flat, fmt.bytes)
        return decode(out, fmt).reshape(shape)

    def store(self, addresses: Any, values: Any, fmt: Format, mask: Any = None) -> None:
        """Scatter elements; of several to one address, one stands."""
        flat = np.asarray(addresses, np.uint64).reshape(-1)
        raw = encode(values, fmt).reshape(-1)
        if mask is not None:
            chosen = np.asarray(mask).reshape(-1)
            flat, raw = flat[chosen], raw[chosen]
        if flat.size:
            for part, typed, index in self._pieces(flat, fmt.bytes, True):
                typed[index] = raw[part]
            self.writes += 1

    def window(self, address: int, steps: tuple[int, ...], shape: tuple[int, ...], fmt: Format,
               write: bool) -> np.ndarray[Any, Any]:
        """A strided view of memory: `shape` elements (none of them 0), `steps` in bytes; raw unsigned integers."""
        reach = [(n - 1) * s for n, s in zip(shape, steps)]
        low = address + sum(r for r in reach if r < 0)
        high = address + sum(r for r in reach if r > 0) + fmt.bytes
        block = self._checked(low, high, write)
        if address % fmt.bytes or any(s % fmt.bytes for n, s in zip(shape, steps) if n > 1):
            raise InterpreterError(f"misaligned access to {fmt.name} at {address:#x} in {block.name}")
        return np.ndarray(shape, _UNSIGNED[fmt.bytes], buffer=block.data.data, offset=address - block.start,
                          strides=steps)

    def _gather(self, flat: Any, size: int) -> Any:
        out = np.empty(flat.shape, _UNSIGNED[size])
        for part, typed, index in self._pieces(flat, size, False):
            out[part] = typed[index]
        return out

    def _pieces(self, flat: Any, size: int, write: bool) -> Any:
        """(which of the addresses, elements of their allocation, index there), one for each allocation touched."""
        if not flat.size:
            return
        if (flat % np.uint64(size)).any():
            bad = flat[(flat % np.uint64(size)) != 0][0]
            raise InterpreterError(f"misaligned access of {size} bytes at {int(bad):#x}")
        low, high = int(flat.min()), int(flat.max()) + size
        block = self.find(low, high)
        if block is not None:
            yield slice(None), self._typed(block, size, write), ((flat - np.uint64(block.start)) // np.uint64(size))
            return
        starts = np.array(self._starts, np.uint64)
        owner = np.searchsorted(starts, flat, side="right").astype(np.int64) - 1
        for at in np.unique(owner):
            part = np.nonzero(owner == at)[0]
            here = flat[part]
            block = self._checked(int(here.min()) if at < 0 else int(here.max()), int(here.max()) + size, write)
            yield part, self._typed(block, size, write), ((here - np.uint64(block.start)) // np.uint64(size))

    def _typed(self, block: Allocation, size: int, write: bool) -> Any:
        if write:
            self._writable(block)
        return block.data[:len(block.data) // size * size].view(_UNSIGNED[size])

    def _checked(self, low: int, high: int, write: bool) -> Allocation:
        block = self.find(low, high)
        if block is None:
            raise InterpreterError(f"access to {low:#x}..{high:#x} leaves every allocation{self._nearest(low)}")
        if write:
            self._writable(block)
        return block

    def _writable(self, block: Allocation) -> None:
        if block.read_only or not block.data.flags.writeable:
            raise InterpreterError(f"store into read-only memory of {block.name}")

    def _nearest(self, address: int) -> str:
        at = bisect_right(self._starts, address) - 1
        if at < 0:
            return ""
        block = self._allocations[at]
        return f" ({address - block.start} bytes from the start of {block.name}, which has {len(block.data)} bytes)"


def garbage(shape: tuple[int, ...], fmt: Format) -> Any:
    """An undefined value, the same at every run and unlike anything useful."""
    count = int(np.prod(shape, dtype=np.int64))
    raw = np.full(count, GARBAGE, np.uint8).repeat(fmt.bytes).view(_UNSIGNED[fmt.bytes])
    return decode(raw, fmt).reshape(shape)


def decode(raw: Any, fmt: Format) -> Any:
    """Elements as they lie in memory (unsigned integers) to the representation of formats.py."""
    if fmt is I1:
        return raw != 0
    if fmt.bits == 4:
        raw = raw & np.uint8(15)
    if fmt.name == "i4":
        return (raw.astype(np.int8) ^ np.int8(8)) - np.int8(8)
    if fmt.name == "tf32":
        raw = raw & np.uint32(0xFFFFE000)
    return raw.view(fmt.dtype)


def encode(values: Any, fmt: Format) -> Any:
    """The inverse of decode."""
    return np.ascontiguousarray(np.asarray(values)).view(_UNSIGNED[fmt.bytes])


def _byte_bounds(array: Any) -> tuple[int, int]:
    low = high = array.__array_interface__["data"][0]
    if array.size == 0:
        return low, low
    for n, s in zip(array.shape, array.strides):
        if s < 0:
            low += (n - 1) * s
        else:
            high += (n - 1) * s
    return low, high + array.itemsize
