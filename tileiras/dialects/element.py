"""How many bytes a tile's element takes in memory, and the tile."""
from __future__ import annotations

from math import prod
from typing import Any

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatTF32Type,
    IntegerType,
    TensorType,
)
from xdsl.ir import Attribute

from tileiras.dialects.cuda_tile.types import Float8E5M3FNUType

REGISTER_BYTES = 4
"""Of a register of a thread."""

_BYTES: dict[type, int] = {
    Float16Type: 2, BFloat16Type: 2, Float32Type: 4, FloatTF32Type: 4, Float64Type: 8,
    Float8E4M3FNType: 1, Float8E5M2Type: 1, Float8E8M0FNUType: 1, Float4E2M1FNType: 1,
    Float8E5M3FNUType: 1}

NAMES: dict[type, str] = {
    Float16Type: "f16", BFloat16Type: "bf16", Float32Type: "f32", FloatTF32Type: "tf32", Float64Type: "f64",
    Float8E4M3FNType: "f8E4M3FN", Float8E5M2Type: "f8E5M2", Float8E8M0FNUType: "f8E8M0FNU", Float4E2M1FNType: "f4E2M1FN",
    Float8E5M3FNUType: "fnv8E5M3FNU"}


def element_bytes(t: Attribute) -> int:
    """Bytes of an element in memory and in shared-memory buffers: i1, i4 and f4 take one, pointers eight."""
    if isinstance(t, IntegerType):
        return max(1, t.width.data // 8)
    return _BYTES.get(type(t), 8)


def elements_in(t: Attribute) -> int:
    """How many elements a value of this type has: one that is no tile is one."""
    return prod(t.get_shape()) if isinstance(t, TensorType) else 1


def tile_bytes(t: Any) -> int:
    """Bytes of all elements of a tile, by its type; a number is a tile of one."""
    return prod(t.get_shape()) * element_bytes(t.element_type) if isinstance(t, TensorType) else element_bytes(t)


def element_name(t: Attribute) -> str:
    """The IR's short name of an element type: i8, f16, f8E4M3FN, ..."""
    return f"i{t.width.data}" if isinstance(t, IntegerType) else NAMES.get(type(t), "ptr")
