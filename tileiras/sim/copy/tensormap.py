"""What the 128 bytes of a tensor map mean, and `tensormap.replace`, which writes them field by field.

The bits are those that `ptxas` 13.5 writes for `tensormap.replace`, and those of maps that launches get (see the table
below; `docs/simulator.md` says which are known only by guess). A map with an impossible field is a DescriptorError. Bit 85,
whether the tensor spans 128 KiB, changes nothing here, and nothing is read of bytes 64 to 127: maps that a kernel or a
launch's host code builds leave there what was there.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tileiras.sim.errors import DescriptorError

# field -> (first bit of the map, bits, added when read); with an ordinal: one for each dimension
FIELDS: dict[str, list[tuple[int, int, int]]] = {
    "global_address": [(0, 64, 0)],
    "rank": [(68, 3, 0)],
    "elemtype": [(71, 4, 0)],
    "interleave_layout": [(75, 2, 0)],
    "swizzle_mode": [(77, 2, 0)],
    "fill_mode": [(79, 1, 0)],
    "swizzle_atomicity": [(83, 2, 0)],
    "global_dim": [(256 + 32 * i, 32, 1) for i in range(5)],
    "element_stride": [(416 + 3 * i, 3, 1) for i in range(5)],
    "box_dim": [(440 + 8 * i, 8, 1) for i in range(5)],
}
_TF32, _PROMOTION, _SWIZZLE_96 = 80, 81, 86
_STRIDE_LOW, _STRIDE_HIGH = 96, 224             # 32 bits and 4 bits for each of four dimensions
_IM2COL, _VERSION = 64, (65, 3)
_WIDE = 511                                     # what marks im2col::w isn't known: this project's own choice
_RESERVED = ((87, 9), (240, 16), (431, 9), (480, 32))       # zero in tiled maps: (first bit, bits)
_TYPES = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32.ftz", "f64", "bf16", "b4x16", "b4x16_p64",
          "b6x16_p32")
_BITS = {"u8": 8, "u16": 16, "u32": 32, "s32": 32, "u64": 64, "s64": 64, "f16": 16, "f32": 32, "f32.ftz": 32, "f64": 64,
         "bf16": 16, "b4x16": 4, "b4x16_p64": 4, "b6x16_p32": 6}
_REPLACED_TYPES = {11: (7, 1), 12: (8, 1), 13: (11, 0), 14: (12, 0), 15: (13, 0)}      # code of the instruction -> bits
_MODES = ("tile", "im2col", "im2col::w")
_CORNER_BITS = {3: 16, 4: 8, 5: 5}
MAP_BYTES = 128
MAP_HALF = 64                                   # what has a meaning: maps that are built by kernels or hosts leave the rest
NEWEST = 1                                      # version of maps; those that tensormap.replace builds from nothing have 0


@dataclass(frozen=True)
class Map:
    """A decoded tensor map, dimension 0 innermost; sizes and boxes in elements, strides and spans in bytes."""
    address: int
    element: str
    bits: int
    tf32: bool
    rank: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]            # of dimensions 1 and up
    box: tuple[int, ...]
    steps: tuple[int, ...]
    interleave: int
    swizzle: int
    atomicity: int                      # 0 16B, 1 32B, 2 32B with 8B flip, 3 64B
    nan_fill: bool
    mode: str
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    channels: int
    pixels: int


@dataclass(frozen=True)
class MapArgument:
    """A launch argument that is a tensor map of `array`: `encode(address)` gives the 128 bytes once the launch knows where
    the array's memory begins."""
    array: np.ndarray
    encode: Callable[[int], bytes]


_ELEMENTS = {"uint8": "u8", "int8": "u8", "uint16": "u16", "int16": "u16", "uint32": "u32", "int32": "s32", "uint64": "u64",
             "int64": "s64", "float16": "f16", "float32": "f32", "float64": "f64", "bfloat16": "bf16", "bool": "u8"}


def tensor_map(array: np.ndarray, box: Sequence[int], *, element: str | None = None, **options) -> MapArgument:
    """A launch argument: the tiled tensor map of a NumPy array.

    `box`: elements in each dimension of a box, in the order of the array's axes (innermost last). `element`: the map's
    element type; by default that of the array's dtype (8-bit floats as u8). `options`: swizzle, interleave, steps
    (innermost first), nan_fill, ... of `tileiras.layout.tensormap.TensorMap`. Raises DescriptorError for what
    cuTensorMapEncodeTiled refuses."""
    from tileiras.layout.tensormap import TensorMap, TensorMapError
    name = array.dtype.name
    kind = element or _ELEMENTS.get(name) or ("u8" if array.itemsize == 1 else None)
    if kind is None:
        raise DescriptorError(f"tensor maps have no elements of type {name}")
    if array.ndim and array.size and array.strides[-1] != array.itemsize:
        raise DescriptorError("the array's last axis must be contiguous")
    strides = tuple(int(s) for s in array.strides[-2::-1])

    def encode(address: int) -> bytes:
        made = TensorMap(address, kind, tuple(array.shape[::-1]), strides, tuple(box)[::-1], **options)
        try:
            return made.encode()
        except TensorMapError as error:
            raise DescriptorError(str(error)) from error
    encode(0)
    return MapArgument(array, encode)


def _get(value: int, at: int, bits: int) -> int:
    return value >> at & (1 << bits) - 1


@lru_cache(maxsize=256)
def decode(data: bytes) -> Map:
    """Decode a tensor map. Raises DescriptorError where a field can't be."""
    value = int.from_bytes(data, "little")
    version = _get(value, *_VERSION)
    if version > NEWEST:
        raise DescriptorError(f"the tensor map has the unknown version {version}")
    mode = _get(value, _IM2COL, 1)
    if mode:
        mode += _get(value, _WIDE, 1)
    for at, bits in _RESERVED:
        if at == 480 and mode:
            continue
        if _get(value, at, bits):
            raise DescriptorError(f"reserved bits {at} to {at + bits - 1} of the tensor map aren't zero")
    rank = _get(value, 68, 3) + 1
    if rank > 5:
        raise DescriptorError(f"the tensor map has {rank} dimensions")
    code = _get(value, 71, 4)
    if code >= len(_TYPES):
        raise DescriptorError(f"the tensor map has the unknown element type {code}")
    element, tf32 = _TYPES[code], bool(_get(value, _TF32, 1))
    if tf32 and code not in (7, 8):
        raise DescriptorError(f"the tensor map rounds {element} to tf32")
    interleave = (0, 16, 32, -1)[_get(value, 75, 2)]
    if interleave < 0 or (interleave and rank < 3):
        raise DescriptorError("the tensor map's interleave is impossible")
    wide = _get(value, _SWIZZLE_96, 1)
    low = _get(value, 77, 2)
    if wide and low:
        raise DescriptorError("the tensor map has two swizzles")
    swizzle = 96 if wide else (0, 32, 64, 128)[low]
    atomicity = _get(value, 83, 2)
    if atomicity and swizzle != 128:
        raise DescriptorError(f"the tensor map's swizzle atomicity {atomicity} doesn't go with a swizzle of {swizzle} bytes")
    sizes = tuple(_get(value, at, bits) + more for at, bits, more in FIELDS["global_dim"][:rank])
    strides = tuple((_get(value, _STRIDE_LOW + 32 * i, 32) | _get(value, _STRIDE_HIGH + 4 * i, 4) << 32) << 4
                    for i in range(rank - 1))
    steps = tuple(_get(value, at, bits) + more for at, bits, more in FIELDS["element_stride"][:rank])
    address = _get(value, 0, 64)
    align = 32 if interleave == 32 or element in ("b4x16_p64", "b6x16_p32") else 16
    if address % align:
        raise DescriptorError(f"the tensor's address {address:#x} isn't a multiple of {align}")
    for i, s in enumerate(strides):
        if s % align:
            raise DescriptorError(f"stride {s} of dimension {i + 1} isn't a multiple of {align}")
    if not interleave and mode == 0 and steps[0] != 1:
        raise DescriptorError(f"the element stride of dimension 0 is {steps[0]}; without interleave it must be 1")
    box: tuple[int, ...] = ()
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()
    channels = pixels = 0
    if mode == 0:
        box = tuple(_get(value, at, bits) + more for at, bits, more in FIELDS["box_dim"][:rank])
        row = box[0] * _BITS[element]
    else:
        if rank < 3:
            raise DescriptorError(f"an im2col tensor map of {rank} dimensions")
        channels, pixels = _get(value, 440, 8) + 1, _get(value, 480, 10) + 1
        width = _CORNER_BITS[3 if mode == 2 else rank]
        count = 1 if mode == 2 else rank - 2
        lower = tuple(_signed(_get(value, 448 + width * i, width), width) for i in range(count))
        upper = tuple(_signed(_get(value, 464 + width * i, width), width) for i in range(count))
        row = channels * _BITS[element]
    if not interleave:
        if row % 128:
            raise DescriptorError(f"a row of the box has {row / 8:g} bytes, not a multiple of 16")
        if swizzle and row > 8 * swizzle:
            raise DescriptorError(f"a row of the box has {row // 8} bytes, more than its swizzle of {swizzle}")
    return Map(address, element, _BITS[element], tf32, rank, sizes, strides, box, steps, interleave, swizzle, atomicity,
               bool(_get(value, 79, 1)), _MODES[mode], lower, upper, channels, pixels)


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> bits - 1 else value


def replace(data: bytes, field: str, ordinal: int, new: int) -> bytes:
    """The map with one field replaced, as `tensormap.replace.tile` does it."""
    value = int.from_bytes(data, "little")

    def put(at: int, bits: int, what: int) -> None:
        nonlocal value
        value = value & ~((1 << bits) - 1 << at) | (what & (1 << bits) - 1) << at

    if field == "global_stride":
        put(_STRIDE_LOW + 32 * ordinal, 32, new >> 4)
        put(_STRIDE_HIGH + 4 * ordinal, 4, new >> 36)
        return value.to_bytes(MAP_BYTES, "little")
    at, bits, more = FIELDS[field][ordinal]
    if field == "elemtype":
        code, rounded = _REPLACED_TYPES.get(new, (new, -1))
        put(at, bits, code)
        if rounded == 1:                # the other types leave the bit as it is
            put(_TF32, 1, 1)
    elif field == "swizzle_mode":
        put(at, bits, new & 3)
        put(_SWIZZLE_96, 1, new >> 2)
    else:
        put(at, bits, new - more)
    return value.to_bytes(MAP_BYTES, "little")
