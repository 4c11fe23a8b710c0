"""A float attribute from its type's bit pattern, and back."""
from __future__ import annotations

import struct
from functools import cache

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    ReducedPrecisionFloatType,
)
from xdsl.ir import Attribute

from tileiras.dialects.cuda_tile.dense import significant_bits


@cache
def float_from_bits(type_: Attribute, bits: int) -> FloatAttr:
    """The float attribute with that bit pattern."""
    if isinstance(type_, Float32Type):
        value = struct.unpack("<f", struct.pack("<I", bits))[0]
    elif isinstance(type_, Float64Type):
        value = struct.unpack("<d", struct.pack("<Q", bits))[0]
    elif isinstance(type_, Float16Type):
        value = struct.unpack("<e", struct.pack("<H", bits))[0]
    elif isinstance(type_, BFloat16Type):
        value = struct.unpack("<f", struct.pack("<I", bits << 16))[0]
    else:
        assert isinstance(type_, ReducedPrecisionFloatType)
        value = type_.unpack(bits.to_bytes(type_.size, "little"), 1)[0]
    return FloatAttr(value, type_)  # pyright: ignore[reportCallIssue, reportArgumentType]


def float_to_bits(attr: FloatAttr) -> int:
    """The bit pattern of a float attribute."""
    type_, value = attr.type, attr.value.data
    if isinstance(type_, BFloat16Type):
        return int.from_bytes(type_.pack((value,)), "little")
    return int.from_bytes(type_.pack((value,)), "little") & ((1 << significant_bits(type_)) - 1)
