"""How a tile constant's raw bytes are laid out, and its elements' bit patterns.

Source: MLIR's DenseElementsAttr raw buffers, as public Tile IR readers take them: every element in its width rounded
up to whole bytes, little-endian (tf32 takes three). A buffer of one element fills the tile. i1 is packed by the bit,
low bit first, except that a single byte of 0x00 or 0xFF fills the tile.
"""
from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float4E2M1FNType,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatTF32Type,
    IntegerType,
)
from xdsl.ir import Attribute

from tileiras.dialects.cuda_tile.attrs import DenseElementsAttr
from tileiras.dialects.cuda_tile.types import TileType

TF32_BITS = 19

_FLOAT_BITS: dict[type[Attribute], int] = {
    Float16Type: 16, BFloat16Type: 16, Float32Type: 32, Float64Type: 64, FloatTF32Type: TF32_BITS, Float4E2M1FNType: 4,
}

_SPLAT_BITS = (b"\x00", b"\xff")


def significant_bits(element_type: Attribute) -> int:
    """Bits that carry an element's value: 1 for i1, 19 for tf32, 8 for every 8-bit float."""
    if isinstance(element_type, IntegerType):
        return element_type.width.data
    return _FLOAT_BITS.get(type(element_type), 8)


def element_bytes(element_type: Attribute) -> int:
    """Bytes that an element takes in the constant pool."""
    return (significant_bits(element_type) + 7) // 8


def is_valid_buffer(shape: tuple[int, ...], element_type: Attribute, raw: bytes) -> bool:
    """Whether `raw` holds one element, or all elements of the shape."""
    count = prod(shape)
    if significant_bits(element_type) == 1:
        return raw in _SPLAT_BITS or len(raw) == (count + 7) // 8
    width = element_bytes(element_type)
    return len(raw) == width or len(raw) == width * count


def is_splat(constant: DenseElementsAttr) -> bool:
    """Whether one stored element fills the tile (also when the tile has just one)."""
    if constant.type.num_elements == 1:
        return True
    if significant_bits(constant.type.element_type) == 1:
        return constant.raw in _SPLAT_BITS
    return len(constant.raw) == element_bytes(constant.type.element_type)


def element_patterns(constant: DenseElementsAttr) -> tuple[int, ...]:
    """The stored elements as unsigned integers, row-major: one where a single element fills the tile."""
    element_type = constant.type.element_type
    raw = constant.raw
    if significant_bits(element_type) == 1:
        if is_splat(constant):
            return (raw[0] & 1,)
        return tuple(raw[i >> 3] >> (i & 7) & 1 for i in range(constant.type.num_elements))
    width = element_bytes(element_type)
    mask = (1 << significant_bits(element_type)) - 1
    return tuple(int.from_bytes(raw[i:i + width], "little") & mask for i in range(0, len(raw), width))


def packed(patterns: Sequence[int], type_: TileType) -> DenseElementsAttr:
    """The constant with these elements in row-major order (or one for all), each as its bit pattern."""
    if significant_bits(type_.element_type) == 1:
        if len(set(patterns)) == 1:
            return DenseElementsAttr(type_, b"\xff" if patterns[0] else b"\x00")
        bits = bytearray((len(patterns) + 7) // 8)
        for i, bit in enumerate(patterns):
            bits[i >> 3] |= bit << (i & 7)
        return DenseElementsAttr(type_, bytes(bits))
    if len(set(patterns)) == 1:
        patterns = patterns[:1]
    width = element_bytes(type_.element_type)
    return DenseElementsAttr(type_, b"".join(pattern.to_bytes(width, "little") for pattern in patterns))
