"""The simulated address spaces: one flat 64-bit global space, windows for shared and local memory.

Global memory is one byte buffer; every array, module variable and the kernel's parameters are an allocation in it,
aligned to 256 bytes with a gap of at least 256 bytes behind. A generic address is a global address, or lies in the
shared or local window. Accesses are arrays of addresses, one for each active thread; bounds and alignment are checked
for every one of them.
"""
from __future__ import annotations

import bisect

import numpy as np

from tileiras.sim.errors import Misaligned, OutOfBounds, UninitializedRead, UseAfterExit

GLOBAL_BASE = 0x7F00_0000_0000
SHARED_WINDOW = 0x0100_0000_0000        # + cta rank << 24 within a cluster
LOCAL_WINDOW = 0x0200_0000_0000
WINDOW_SIZE = 1 << 32
SHARED_START = 1024                     # shared and local addresses below these stay unmapped: null faults
LOCAL_START = 1024
ALIGN = 256
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class Views:
    """A byte buffer seen as unsigned elements of each size and vector length."""

    def __init__(self, data: np.ndarray) -> None:
        self.data = data
        self._views: dict = {}

    def of(self, size: int, count: int = 1) -> np.ndarray:
        """The buffer as [elements] (count 1) or [vectors, count] of `size`-byte unsigned integers."""
        found = self._views.get((size, count))
        if found is None:
            found = self.data.view(UNSIGNED[size])
            if count > 1:
                found = found.reshape(-1, count)
            self._views[size, count] = found
        return found


def check_aligned(address: np.ndarray, size: int, lanes: np.ndarray) -> None:
    """Raise Misaligned unless every address is a multiple of `size` (a power of two)."""
    if size > 1 and address.size and int(np.bitwise_or.reduce(address)) & (size - 1):
        bad = int(np.argmax((address & address.dtype.type(size - 1)) != 0))
        raise Misaligned(f"address {int(address[bad]):#x} isn't a multiple of {size}", thread=_lane(lanes, bad))


def _lane(lanes: np.ndarray, i: int) -> int:
    return int(lanes[i]) if i < len(lanes) else int(lanes[0])


class GlobalMemory:
    """Allocations in the flat global space. `add` all of them, then `seal`, then access."""

    def __init__(self) -> None:
        self.size = 0
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.names: list[str] = []
        self.readonly: list[bool] = []
        self.contents: list = []

    def add(self, name: str, data, readonly: bool = False) -> int:
        """Allocate and return the address. `data`: a flat uint8 array, bytes, or a size."""
        if isinstance(data, int):
            data = np.zeros(data, np.uint8)
        elif not isinstance(data, np.ndarray):
            data = np.frombuffer(bytes(data), np.uint8)
        start = self.size
        self.starts.append(start)
        self.ends.append(start + len(data))
        self.names.append(name)
        self.readonly.append(readonly)
        self.contents.append(data)
        self.size = (start + len(data) + ALIGN - 1) // ALIGN * ALIGN + ALIGN
        return GLOBAL_BASE + start

    def seal(self) -> None:
        """Build the buffer. No allocation can be added afterwards."""
        raw = np.zeros(self.size + 2 * ALIGN, np.uint8)
        shift = -raw.ctypes.data % ALIGN
        self.data = raw[shift:shift + self.size + ALIGN]
        for start, end, data in zip(self.starts, self.ends, self.contents):
            self.data[start:end] = data
        self.contents = []
        self.views = Views(self.data)
        self._starts = np.array(self.starts, np.int64)
        self._ends = np.array(self.ends, np.int64)

    def read(self, address: int, size: int) -> np.ndarray:
        """A copy of the bytes at an address."""
        start = address - GLOBAL_BASE
        return self.data[start:start + size].copy()

    def bytes_at(self, address: int, size: int) -> np.ndarray:
        """The bytes at an address, as a writable view; raises OutOfBounds."""
        start = address - GLOBAL_BASE
        k = bisect.bisect_right(self.starts, start) - 1
        if k < 0 or start + size > self.ends[k]:
            raise OutOfBounds(f"{size} bytes at {address:#x} are outside every allocation")
        return self.data[start:start + size]

    def offsets(self, address: np.ndarray, size: int, lanes: np.ndarray, write: bool) -> np.ndarray:
        """Byte offsets into the buffer for addresses (uint64), each `size` bytes wide and checked."""
        off = (address - np.uint64(GLOBAL_BASE)).view(np.int64)
        low, high = int(off.min()), int(off.max())
        k = bisect.bisect_right(self.starts, low) - 1
        if k < 0 or high + size > self.ends[k] or low < 0:
            self._check_each(off, size, lanes, write)
        elif write and self.readonly[k]:
            raise OutOfBounds(f"write to read-only {self.names[k]}", thread=_lane(lanes, 0))
        if size > 1 and int(np.bitwise_or.reduce(off)) & (size - 1):
            check_aligned(np.broadcast_to(address, off.shape), size, lanes)
        return off

    def _check_each(self, off: np.ndarray, size: int, lanes: np.ndarray, write: bool) -> None:
        if not self.starts:
            raise OutOfBounds(f"{size} bytes at {int(off[0]) + GLOBAL_BASE:#x}: nothing is allocated",
                              thread=_lane(lanes, 0))
        k = np.searchsorted(self._starts, off, "right") - 1
        bad = (k < 0) | (off + size > self._ends[k])
        if bad.any():
            i = int(np.argmax(bad))
            address = (int(off[i]) + GLOBAL_BASE) & (1 << 64) - 1
            raise OutOfBounds(f"{'write' if write else 'read'} of {size} bytes at {address:#x}{self.nearest(int(off[i]))}",
                              thread=_lane(lanes, i))
        if write:
            frozen = np.array(self.readonly)[k]
            if frozen.any():
                i = int(np.argmax(frozen))
                raise OutOfBounds(f"write to read-only {self.names[int(k[i])]}", thread=_lane(lanes, i))

    def allocation(self, off: int) -> int:
        """Which allocation an offset of the buffer lies in."""
        return bisect.bisect_right(self.starts, off) - 1

    def nearest(self, off: int) -> str:
        """Words that place an offset relative to the allocation below or above it."""
        k = bisect.bisect_right(self.starts, off) - 1
        if off < 0 or off > self.size or k < 0:
            return ", far from every allocation"
        past = off - self.ends[k]
        name, size = self.names[k], self.ends[k] - self.starts[k]
        if past >= 0:
            return f", {past} bytes past the end of {name} ({size} bytes)"
        return f", across the end of {name} ({size} bytes)"


def private_offsets(batch, space: str, address: np.ndarray, size: int, lanes: np.ndarray) -> np.ndarray:
    """Byte offsets into the batch's shared or local buffer for addresses in that space's own window.

    A shared address is of the executing CTA: in a cluster it carries that CTA's rank, as `shared_places` says."""
    program = batch.program
    if space == "shared":
        start, total, base = SHARED_START, program.shared_size, batch.shared_base
        if batch.cluster_size > 1:
            return shared_places(batch, address, size, lanes)
    else:
        start, total, base = LOCAL_START, program.local_size, batch.local_base
    off = address.astype(np.int64)
    _check_private(space, off, address, size, lanes, start, total)
    return off + base[lanes]


def _check_private(space: str, off: np.ndarray, address: np.ndarray, size: int, lanes: np.ndarray, start: int,
                   total: int) -> None:
    if size > 1 and int(np.bitwise_or.reduce(off)) & (size - 1):
        check_aligned(np.broadcast_to(address, off.shape), size, lanes)
    low, high = int(off.min()), int(off.max())
    if low < start or high + size > total:
        bad = (off < start) | (off + size > total)
        i = int(np.argmax(bad))
        raise OutOfBounds(f"{size} bytes at {space} address {int(address[i]):#x}; the {space} variables take "
                          f"{start:#x} to {total:#x}", thread=_lane(lanes, i))


def shared_places(batch, address: np.ndarray, size: int, lanes: np.ndarray, cluster: bool = False,
                  generic: bool = False) -> np.ndarray:
    """Byte offsets in the batch's shared memory of `size` bytes at each address (uint64), one for each of `lanes`.

    Bits 24 to 31 of a shared address are the rank of its CTA in the cluster; addresses of variables carry the executing
    CTA's rank, as the hardware's do, so that masking the lowest rank bit gives the even CTA of a pair. Without `cluster`
    the address must be in the executing CTA. `generic` addresses are those plus SHARED_WINDOW. Raises OutOfBounds,
    Misaligned, and UseAfterExit when the CTA has exited."""
    if generic:
        outside = (address < np.uint64(SHARED_WINDOW)) | (address >= np.uint64(SHARED_WINDOW + WINDOW_SIZE))
        if outside.any():
            i = int(np.argmax(outside))
            raise OutOfBounds(f"generic address {int(address[i]):#x} isn't in shared memory", thread=_lane(lanes, i))
        address = address - np.uint64(SHARED_WINDOW)
    program, count = batch.program, batch.cluster_size
    if count == 1:
        off = address.astype(np.int64)
        _check_private("shared", off, address, size, lanes, SHARED_START, program.shared_size)
        return off + batch.shared_base[lanes]
    address = np.broadcast_to(address, lanes.shape)
    own = batch.cta_of[lanes]
    rank = (address >> np.uint64(24)).astype(np.int64)
    other = rank != own % count
    bad = (rank >= count) | other if not cluster else rank >= count
    if bad.any():
        i = int(np.argmax(bad))
        raise OutOfBounds(f"shared address {int(address[i]):#x} is in CTA {int(rank[i])} of the cluster; "
                          + (f"the cluster has {count}" if cluster or rank[i] >= count else
                             "the instruction reaches its own CTA only"), thread=_lane(lanes, i))
    off = (address & np.uint64(0xFFFFFF)).astype(np.int64)
    _check_private("shared", off, address, size, lanes, SHARED_START, program.shared_size)
    target = own - own % count + rank
    if cluster and other.any() and batch.exited.any():
        gone = batch.exited[target] & other
        if gone.any():
            i = int(np.argmax(gone))
            raise UseAfterExit(f"shared memory of CTA {int(rank[i])} of the cluster, which has exited",
                               thread=_lane(lanes, i))
    return off + (target * batch.shared_stride - SHARED_START)


WRITTEN, UNDEFINED = 0xFF, 0x0F
_FULL = {1: 0xFF, 2: 0xFFFF, 4: 0xFFFFFFFF, 8: 0xFFFFFFFFFFFFFFFF}


def check_written(views: Views, off: np.ndarray, size: int, count: int, space: str, lanes: np.ndarray,
                  undefined: bool = False) -> np.ndarray | None:
    """Raise UninitializedRead unless every byte of the accesses was written.

    `views` hold WRITTEN for a written byte, UNDEFINED for one written from a register that had no value, 0 for one
    never written. With `undefined`, undefined bytes don't raise: returns which elements have nothing else, or None."""
    state = views.of(size, count)[off // (size * count)]
    bad = state != _FULL[size]
    if not bad.any():
        return None
    if undefined:
        split = np.ascontiguousarray(state).view(np.uint8).reshape(*state.shape, size)
        if (split != 0).all():
            lost = (split == UNDEFINED).all(axis=-1)        # a part with a value may be all that is used
            return lost if lost.any() else None
        bad = (split == 0).any(axis=-1)
    i = int(np.argmax(bad.any(axis=1) if count > 1 else bad))
    raise UninitializedRead(f"{space} memory is read before it is written (byte offset {int(off[i])} of the batch)",
                            thread=_lane(lanes, i))
