"""Tensor maps: the 128 bytes that tell the tensor copy engine where a tensor lies and what a box of it looks like.

`TensorMap(...)` holds the values as `cuTensorMapEncodeTiled` and `cuTensorMapEncodeIm2col` take them, `check()` applies
those functions' documented rules, and `encode()` returns the bytes.

NVIDIA doesn't document the bits. The fields of a tiled map are known from the stores that `ptxas` 13.5 makes of
`tensormap.replace` for sm_90a, sm_100a, sm_103a and sm_120a (words of 32 bits, little endian):

    0-1    global address
    2      bits 4-6 rank - 1; 7-10 element type; 11-12 interleave; 13-14 swizzle; 15 fill; 16 round to tf32;
           19-20 swizzle atomicity; 22 the 96-byte swizzle
    3-6    strides of dimensions 1-4 in 16 bytes, low 32 bits; word 7: their bits 32-35, four bits each
    8-12   sizes of dimensions 0-4, each less 1
    13     bits 0-14 element strides less 1, three bits each; 24-31 box size of dimension 0 less 1
    14     box sizes of dimensions 1-4 less 1, a byte each

Maps that launches get have more in word 2: bit 0 im2col; bits 1-3 a version, 1; bits 17-18 the L2 promotion; bit 21
whether the tensor spans 128 KiB or more. That is what the original's host objects write for every SM. Driver 580's
cuTensorMapEncodeTiled on an H100 agrees in all other bits of words 0-15, leaves version and bit 21 at 0, and notes something
in words 16 and 18 (`driver_words`); host objects' maps copy right there all the same. On Blackwell bit 21 matters: CUTLASS
clears it of small tensors where a driver up to 13.1 has set it.

Unverified, since no instruction writes them and no map was seen: where im2col maps keep their corners (word 14: lower in
the low half, upper in the high half; 16, 8 or 5 bits a dimension), channels (where a box has dimension 0) and pixels
(word 15, less 1), and what tells im2col::w from im2col (here word 15 bit 31).
"""
from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

BYTES = 128
ALIGNMENT = 64
"""Of a tensor map in memory or among the parameters."""
MAX_RANK = 5

# Element types: name -> (bits in global memory, code in the map, whether values are rounded to tf32)
ELEMENTS = {
    "u8": (8, 0, 0), "u16": (16, 1, 0), "u32": (32, 2, 0), "s32": (32, 3, 0), "u64": (64, 4, 0), "s64": (64, 5, 0),
    "f16": (16, 6, 0), "f32": (32, 7, 0), "f32.ftz": (32, 8, 0), "f64": (64, 9, 0), "bf16": (16, 10, 0),
    "tf32": (32, 7, 1), "tf32.ftz": (32, 8, 1), "b4x16": (4, 11, 0), "b4x16_p64": (4, 12, 0), "b6x16_p32": (6, 13, 0),
}
DRIVER_TYPES = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16", "f32.ftz", "tf32", "tf32.ftz",
                "b4x16", "b4x16_p64", "b6x16_p32")
"""The element types in the order of CUtensorMapDataType, which differs from that of `tensormap.replace`."""
INTERLEAVES = {0: 0, 16: 1, 32: 2}
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3, 96: 4}
ATOMICITIES = ("16B", "32B", "32B+8B flip", "64B")
PROMOTIONS = (0, 64, 128, 256)
MODES = ("tile", "im2col", "im2col::w")
CORNER_BITS = {3: 16, 4: 8, 5: 5}
VERSION = 1
WORD, DOUBLE = (1 << 32) - 1, (1 << 64) - 1
ADDRESS_BITS = (1 << 57) - (1 << 4)  # of an address what a map keeps
LARGE_BIT = 21                      # of word 2
LARGE = 1 << 17                     # bytes that a tensor spans from which bit 21 of word 2 is set
SHARED = 227 * 1024                 # bytes of a box above which an H100's driver refuses a map: more than any SM's block has


class TensorMapError(ValueError):
    """A tensor map against the rules of its encoder."""


@dataclass(frozen=True)
class TensorMap:
    """A tensor map's values, dimension 0 innermost.

    `address`: of the tensor in global memory. `sizes`: elements in each dimension. `strides`: bytes from one element to
    the next in dimensions 1 and up (dimension 0 is contiguous). `box`: elements in each dimension of a box.
    `steps`: element strides of a box: of `box[i]` elements every `steps[i]`-th is copied. `interleave`: 0, 16 or 32
    bytes. `swizzle`: 0, 32, 64, 96 or 128 bytes, with `atomicity` one of ATOMICITIES.
    `promotion`: 0, 64, 128 or 256 bytes of L2. `nan_fill`: what lies outside is NaN.
    `mode`: "tile", or "im2col" and "im2col::w" with `lower` and `upper` corners (dimensions W, H, D in this order),
    `channels` and `pixels`."""
    address: int
    element: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...] = ()
    box: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    interleave: int = 0
    swizzle: int = 0
    atomicity: str = "16B"
    promotion: int = 0
    nan_fill: bool = False
    mode: str = "tile"
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()
    channels: int = 0
    pixels: int = 0

    @property
    def rank(self) -> int:
        """How many dimensions the tensor has."""
        return len(self.sizes)

    @property
    def bits(self) -> int:
        """Bits of an element in global memory."""
        return ELEMENTS[self.element][0]

    def box_bytes(self) -> int:
        """Bytes that one copy of a box reports to its mbarrier: all of the box, outside the tensor or not."""
        count = 1
        if self.mode == "tile":
            for n, step in zip(self.box, self.steps or (1,) * self.rank):
                count *= (n + step - 1) // step
        else:
            count = self.channels * self.pixels
        return count * (8 * self.interleave if self.interleave and self.mode == "tile" else self.bits) // 8

    def _noted_bytes(self) -> int:
        """Bytes of a tiled map's box as the driver counts them: steps round down, and elements are never slices."""
        count = 1
        for n, step in zip(self.box, self.steps or (1,) * self.rank):
            count *= n // step
        return count * self.bits // 8

    def check(self) -> None:
        """Raise TensorMapError where the documented rules of cuTensorMapEncode* are broken, or a box is larger than it takes."""
        for good, why in self._rules():
            if not good:
                raise TensorMapError(why)

    def _rules(self):
        rank, tiled = self.rank, self.mode == "tile"
        yield self.element in ELEMENTS, f"unknown element type {self.element!r}"
        yield self.mode in MODES, f"unknown mode {self.mode!r}"
        yield 1 <= rank <= MAX_RANK, f"a tensor has 1 to 5 dimensions, not {rank}"
        yield tiled or rank >= 3, "im2col needs 3 dimensions at least"
        yield self.interleave in INTERLEAVES, f"no interleave of {self.interleave} bytes"
        yield self.swizzle in SWIZZLES, f"no swizzle of {self.swizzle} bytes"
        yield self.atomicity in ATOMICITIES, f"no swizzle atomicity {self.atomicity!r}"
        yield self.atomicity == "16B" or self.swizzle == 128, "only the 128-byte swizzle has atomicities"
        yield self.promotion in PROMOTIONS, f"no L2 promotion of {self.promotion} bytes"
        yield not self.interleave or rank >= 3, "interleaved tensors have 3 dimensions at least"
        padded = self.element in ("b4x16_p64", "b6x16_p32")
        align = 32 if self.interleave == 32 or padded else 16
        yield 0 <= self.address < 1 << 64 and self.address % align == 0, f"the address isn't a multiple of {align}"
        yield len(self.strides) == rank - 1, f"{len(self.strides)} strides for {rank} dimensions"
        for s in self.sizes:
            yield 1 <= s <= 1 << 32, f"size {s} of a dimension isn't from 1 to 2**32"
        for s in self.strides:
            yield s % align == 0 and 0 <= s < 1 << 40, f"stride {s} isn't a multiple of {align} below 2**40"
        for s in self.steps:
            yield 1 <= s <= 8, f"element stride {s} isn't from 1 to 8"
        yield len(self.steps) in (0, rank), f"{len(self.steps)} element strides for {rank} dimensions"
        yield not (self.nan_fill and self.element[0] in "us"), "NaN fill needs a floating-point type"
        yield not (self.nan_fill and self.element[0] == "b" and self.element != "bf16"), "NaN fill needs whole elements"
        if tiled:
            yield len(self.box) == rank, f"{len(self.box)} box sizes for {rank} dimensions"
            for b in self.box:
                yield 1 <= b <= 256, f"box size {b} isn't from 1 to 256"
            size = self._noted_bytes()
            yield size <= SHARED, f"a box of {size} bytes: more than shared memory has"
            inner = self.box[0] * self.bits // 8
        else:
            yield not self.box, "im2col maps have channels and pixels, no box"
            yield 1 <= self.channels <= 256, f"{self.channels} channels aren't from 1 to 256"
            yield 1 <= self.pixels <= 1024, f"{self.pixels} pixels aren't from 1 to 1024"
            count = 1 if self.mode == "im2col::w" else rank - 2
            bits = CORNER_BITS[3 if self.mode == "im2col::w" else rank]
            yield len(self.lower) == count and len(self.upper) == count, f"{count} lower and upper corners are needed"
            for c in (*self.lower, *self.upper):
                yield -(1 << bits - 1) <= c < 1 << bits - 1, f"corner {c} needs more than {bits} bits"
            yield self.mode == "im2col" or not self.interleave, "im2col::w has no interleave"
            inner = self.channels * self.bits // 8
        if not self.interleave:
            yield inner % 16 == 0, f"{inner} bytes in a row of the box aren't a multiple of 16"
            yield not self.swizzle or inner <= self.swizzle, f"{inner} bytes in a row of the box, a swizzle of {self.swizzle}"
        else:
            yield self.interleave != 32 or self.swizzle == 32, "the 32-byte interleave needs the 32-byte swizzle"
        if padded:
            whole = 64 if self.element == "b4x16_p64" else 96
            yield inner == whole, f"rows of {self.element} boxes have {whole} bytes, not {inner}"
            yield self.sizes[0] % 128 == 0, f"rows of {self.element} are multiples of 128 elements"
            yield self.swizzle in (0, 128) and self.atomicity != "32B+8B flip", f"{self.element} with this swizzle"

    def span(self) -> int:
        """Bytes from the tensor's first element to its last one's end, as bit 21 counts them: in 64 bits, which wrap."""
        first = (self.sizes[0] * self.bits & DOUBLE) >> 3
        return first + sum((n - 1) * s for n, s in zip(self.sizes[1:], self.strides)) & DOUBLE

    def encode(self) -> bytes:
        """The 128 bytes. Raises TensorMapError for values that the encoder doesn't allow."""
        self.check()
        return self.unchecked()

    def unchecked(self) -> bytes:
        """The 128 bytes for any values, as code of a launch makes them: of each only the bits that its field has. A size of
        0 reads as 2**32."""
        return struct.pack(f"<{BYTES // 4}I", *self.words())

    def driver_words(self) -> list[int]:
        """The words of a tiled map as driver 580 writes them on an H100: version 0, bit 21 never set, and, where maps of host
        objects have zeros, word 16 the bytes of a box, word 18 how its place in shared memory is aligned (16, or eight rows
        of the swizzle). No copy depends on the last two."""
        words = self.words()
        words[2] &= ~(7 << 1 | 1 << LARGE_BIT)
        words[16], words[18] = self._noted_bytes(), 8 * self.swizzle or 16
        return words

    def words(self) -> list[int]:
        """`unchecked` as words of 32 bits."""
        words = [0] * (BYTES // 4)
        _, code, tf32 = ELEMENTS[self.element]
        swizzle = SWIZZLES[self.swizzle]
        address = self.address & ADDRESS_BITS
        words[0], words[1] = address & WORD, address >> 32
        words[2] = (int(self.mode != "tile") | VERSION << 1 | (self.rank - 1) << 4 | code << 7 | INTERLEAVES[self.interleave] << 11
                    | (swizzle & 3) << 13 | int(self.nan_fill) << 15 | tf32 << 16
                    | PROMOTIONS.index(self.promotion) << 17 | ATOMICITIES.index(self.atomicity) << 19
                    | (self.span() >= LARGE) << LARGE_BIT | (swizzle >> 2) << 22)
        for i, stride in enumerate(self.strides):
            words[3 + i] = stride >> 4 & WORD
            words[7] |= (stride >> 36 & 15) << 4 * i
        for i, size in enumerate(self.sizes):
            words[8 + i] = size - 1 & WORD
        for i, step in enumerate(self.steps or (1,) * self.rank):
            words[13] |= (step - 1) << 3 * i
        if self.mode == "tile":
            words[13] |= (self.box[0] - 1) << 24
            for i, size in enumerate(self.box[1:]):
                words[14] |= (size - 1) << 8 * i
        else:
            words[13] |= (self.channels - 1) << 24
            bits = CORNER_BITS[3 if self.mode == "im2col::w" else self.rank]
            for i, (low, high) in enumerate(zip(self.lower, self.upper)):
                words[14] |= (low & (1 << bits) - 1) << bits * i | (high & (1 << bits) - 1) << 16 + bits * i
            words[15] = self.pixels - 1 | (self.mode == "im2col::w") << 31
        return words


def tiled(address: int, element: str, sizes: Sequence[int], box: Sequence[int], strides: Sequence[int] | None = None,
          **options) -> TensorMap:
    """A tiled map, dimension 0 innermost; without `strides` the tensor is dense."""
    if strides is None:
        steps, step = [], sizes[0] * ELEMENTS[element][0] // 8
        for n in sizes[1:]:
            steps.append(step)
            step *= n
        strides = steps
    return TensorMap(address, element, tuple(sizes), tuple(strides), tuple(box), **options)
