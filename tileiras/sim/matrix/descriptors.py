"""Where a matrix descriptor's operand tile lies in shared memory: 64-bit descriptors of wgmma and tcgen05.

    d = decode(bits, "wgmma")                               # or "tcgen05"
    at = chunk_addresses(d, "k", 64, 16, 16)                # [64, 2]: K-major, 16-byte chunks of each row
    codes = unpack(shared16[at // 16], "k", 64, 16, 16)     # [64, 16] element codes

A tile is `mn` rows (M of A, N of B) by `k` columns of elements `width` bits wide. It consists of 16-byte chunks: along
K in a K-major tile, along M or N in an MN-major one. In units of chunks (PTX ISA, "Canonical Layouts"; W chunks in the
swizzle's span):

    K-major,  no swizzle    ((8,m), k):((1,SBO), LBO)            swizzled  ((8,m), k):((W,SBO), 1)
    MN-major, no swizzle    ((1,m),(8,k)):((0,SBO),(1,LBO))      swizzled  ((W,m),(8,k)):((1,LBO),(W,SBO))

Swizzling exchanges chunks by the address: 128B replaces address bits 4-6 by bits 4-6 xor 7-9, 64B bits 4-5 by 4-5 xor
7-8, 32B bit 4 by 4 xor 7; 128B with 32-byte atoms bits 5-6 by 5-6 xor 7-8, its pattern repeating every 4 rows of K.
Where the pattern doesn't start at a multiple of its length, the base offset says at which multiple of 128 bytes.
"""
from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tileiras.sim.errors import DescriptorError

CHUNK = 16                                  # bytes
_WGMMA_SWIZZLES = {0: (0, 16), 1: (128, 16), 2: (64, 16), 3: (32, 16)}
_TCGEN05_SWIZZLES = {0: (0, 16), 1: (128, 32), 2: (128, 16), 4: (64, 16), 6: (32, 16)}
_GAPS = 0b11 << 14 | 0b11 << 30             # unused bits that both forms have
_LONGER, _REACH = 1 << 14, 1 << 18          # the address's bit more, and how many bytes it reaches without
_WGMMA_RESERVED = _GAPS | 0b111 << 46 | 0x3FF << 52
_TCGEN05_RESERVED = _GAPS | 0xFF << 53


@dataclass(frozen=True)
class MatrixDescriptor:
    """A decoded descriptor; all distances in bytes.

    `start`: shared address; `leading`, `stride`: LBO and SBO; `base`: base offset, 0 to 7; `swizzle`: bytes of its span
    (0: none); `atom`: bytes that it keeps together; `absolute`: `leading` is the address of a second piece of each
    row."""
    start: int
    leading: int
    stride: int
    base: int = 0
    swizzle: int = 0
    atom: int = 16
    absolute: bool = False


def decode(bits: int, form: str, shared_size: int = 0) -> MatrixDescriptor:
    """A 64-bit descriptor of form "wgmma" (sm_90a) or "tcgen05" (sm_100 and later). `shared_size`: bytes of a block's shared
    memory; where that is more than 14 bits reach, which only sm_107 has, the address has one more. Raises DescriptorError for
    reserved bits and values that don't exist."""
    tcgen05 = form == "tcgen05"
    longer = _LONGER if tcgen05 and shared_size > _REACH else 0
    wrong = bits & (_TCGEN05_RESERVED if tcgen05 else _WGMMA_RESERVED) & ~longer
    if wrong:
        raise DescriptorError(f"matrix descriptor {bits:#018x}: reserved bits {wrong:#018x} must be 0")
    if tcgen05 and bits >> 46 & 7 != 1:
        raise DescriptorError(f"matrix descriptor {bits:#018x}: bits 46 to 48 must be 0b001")
    code = bits >> 61 if tcgen05 else bits >> 62
    found = (_TCGEN05_SWIZZLES if tcgen05 else _WGMMA_SWIZZLES).get(code)
    if found is None:
        raise DescriptorError(f"matrix descriptor {bits:#018x}: swizzling mode {code} doesn't exist")
    swizzle, atom = found
    base = bits >> 49 & 7
    absolute = tcgen05 and bool(bits >> 52 & 1)
    if base and not swizzle:
        raise DescriptorError(f"matrix descriptor {bits:#018x}: base offset {base} without swizzling")
    if absolute and (swizzle != 128 or atom != 16 or base):
        raise DescriptorError(f"matrix descriptor {bits:#018x}: an absolute leading address needs 128-byte swizzling "
                              "with 16-byte atoms and no base offset")
    return MatrixDescriptor((bits & (0x3FFF | longer)) << 4, (bits >> 16 & 0x3FFF) << 4, (bits >> 32 & 0x3FFF) << 4, base, swizzle,
                            atom, absolute)


def encode(d: MatrixDescriptor, form: str) -> int:
    """The 64 bits of a descriptor."""
    table = _TCGEN05_SWIZZLES if form == "tcgen05" else _WGMMA_SWIZZLES
    code = next(c for c, found in table.items() if found == (d.swizzle, d.atom))
    high = code << 61 | int(d.absolute) << 52 | 1 << 46 if form == "tcgen05" else code << 62
    return d.start >> 4 | d.leading >> 4 << 16 | d.stride >> 4 << 32 | d.base << 49 | high


def swizzled(address: np.ndarray, swizzle: int, atom: int = 16, base: int = 0) -> np.ndarray:
    """Byte addresses with a span's chunks exchanged as the hardware has them."""
    if not swizzle:
        return address
    keys = swizzle // atom
    low = atom.bit_length() - 1
    return address ^ (((address >> 7) - base) & (keys - 1)) << low


def chunk_addresses(d: MatrixDescriptor, major: str, mn: int, k: int, width: int) -> np.ndarray:
    """Shared addresses (int64) of the 16-byte chunks of an `mn` x `k` tile of elements `width` bits wide.

    K-major ("k"): [mn, k * width / 128]; MN-major ("mn"): [mn * width / 128, k]. Raises DescriptorError for a layout
    that the descriptor can't describe."""
    return _addresses(d.start % 1024, d.leading - d.start if d.absolute else d.leading, d.stride, d.base, d.swizzle, d.atom,
                      d.absolute, major, mn, k, width) + (d.start - d.start % 1024)


@lru_cache(maxsize=4096)
def _addresses(start: int, leading: int, stride: int, base: int, swizzle: int, atom: int, absolute: bool, major: str,
               mn: int, k: int, width: int) -> np.ndarray:
    span = swizzle // CHUNK
    if major == "k":
        count = -(-k * width // 128)
        row, chunk = np.arange(mn)[:, None], np.arange(count)[None, :]
        if atom == 32:
            raise DescriptorError("128-byte swizzling with 32-byte atoms is for MN-major matrices")
        if not swizzle:
            out = row % 8 * CHUNK + row // 8 * stride + chunk * leading
        else:
            past = np.zeros_like(chunk)
            if start % swizzle + count * CHUNK > swizzle:
                if not absolute:
                    raise DescriptorError(f"rows of {count * CHUNK} bytes from {start % swizzle} on don't fit the span "
                                          f"of {swizzle}-byte swizzling")
                first = (swizzle - start % swizzle) // CHUNK
                past = np.where(chunk >= first, leading - first * CHUNK, 0)
            out = row % 8 * span * CHUNK + row // 8 * stride + chunk * CHUNK + past
    else:
        if absolute:
            raise DescriptorError("an absolute leading address is for K-major matrices")
        if mn * width % 128:
            raise DescriptorError(f"an MN-major matrix of {mn} elements of {width} bits isn't a multiple of 16 bytes")
        chunk, column = np.arange(mn * width // 128)[:, None], np.arange(k)[None, :]
        if not swizzle:
            out = chunk * stride + column % 8 * CHUNK + column // 8 * leading
        else:
            rows = 4 if atom == 32 else 8
            out = (chunk % span * CHUNK + chunk // span * leading + column % rows * span * CHUNK + column // rows * stride)
    return swizzled(out + start, swizzle, atom, base)


def unpack(chunks: np.ndarray, major: str, mn: int, k: int, width: int) -> np.ndarray:
    """The contents of a tile's chunks, [..., chunks as `chunk_addresses` has them, 2] uint64, as codes [..., mn, k] in
    the smallest unsigned type; elements of 4 bits and 1 bit are spread to bytes."""
    data = np.ascontiguousarray(chunks)
    lead = data.shape[:-3]
    if width < 8:
        raw = data.view(np.uint8)[..., None] >> np.arange(0, 8, width, dtype=np.uint8) & np.uint8((1 << width) - 1)
    else:
        raw = data.view({8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[width])
    if major == "k":
        return raw.reshape(*lead, mn, -1)[..., :k]
    each = 128 // width
    raw = raw.reshape(*lead, mn // each, k, each)
    return np.ascontiguousarray(np.swapaxes(raw, -1, -2)).reshape(*lead, mn, k)
