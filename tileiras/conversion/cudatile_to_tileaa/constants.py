"""How constants lower: `arith.constant` with one scalar attribute for a splat, else with all bytes.

    cuda_tile.constant <i32: 7> : tile<4xi32>         ->   arith.constant 7 : i32          : tensor<4xi32>
    cuda_tile.constant <i32: [1, 2]> : tile<2xi32>    ->   arith.constant #nv_tileaa.dense : tensor<2xi32>

Integer attributes hold the signed value (i1: 0 or 1). What no FloatAttr can hold, a NaN with a payload or an f8E5M3FNU,
is an integer constant and a bitcast, so that every bit pattern arrives.
"""
from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from xdsl.dialects.builtin import FloatAttr, FloatTF32Type, IntegerAttr, IntegerType, StringAttr
from xdsl.ir import Attribute

from tileiras.conversion.cudatile_to_tileaa.converter import CudaTileConverter, lowers
from tileiras.conversion.cudatile_to_tileaa.types import convert_type, int_attr, tile_type
from tileiras.dialects import arith
from tileiras.dialects.cuda_tile.attrs import DenseElementsAttr
from tileiras.dialects.cuda_tile.dense import element_bytes, element_patterns, significant_bits
from tileiras.dialects.cuda_tile.types import element_bits
from tileiras.dialects.nv_tileaa import DenseTileAttr, Global

TF32_LOW_BITS = 13
"""Mantissa bits of f32 that tf32 lacks: in memory a tf32 is an f32 whose low bits are zero."""


@lru_cache(maxsize=1024)
def integer_attr(value: int, width: int) -> IntegerAttr:
    """The attribute of an integer given modulo 2^width; holds the signed value (i1: 0 or 1)."""
    value &= (1 << width) - 1
    if width > 1 and value >> width - 1:
        value -= 1 << width
    return IntegerAttr(value, IntegerType(width))


@lru_cache(maxsize=1024)
def scalar_attr(pattern: int, element_type: Attribute) -> IntegerAttr | FloatAttr | None:
    """The attribute of one element given by its bits, or None where no attribute holds exactly these bits."""
    if isinstance(element_type, IntegerType):
        return integer_attr(pattern, element_type.width.data)
    unpack: Any = getattr(element_type, "unpack", None)
    if unpack is None:
        return None
    raw = pattern.to_bytes(element_bytes(element_type), "little")
    value = unpack(raw, 1)[0]
    held = math.nan if value != value else value           # equal attributes: one NaN has to stand for all
    if element_type.pack((held,)) != raw:  # type: ignore[attr-defined]
        return None
    return FloatAttr(held, element_type)  # type: ignore[arg-type]


def dense_bytes(patterns: tuple[int, ...], element_type: Attribute) -> DenseTileAttr:
    """All elements as bytes, each in its size in registers: i1, i4 and f4 one byte, tf32 four."""
    width = max(element_bits(element_type), 8) // 8
    raw = b"".join(register_bits(p, element_type).to_bytes(width, "little") for p in patterns)
    return DenseTileAttr(StringAttr(raw.hex()), int_attr(width))


def register_bits(pattern: int, element_type: Attribute) -> int:
    """An element's bits as a register holds them: a tf32 has the place of an f32."""
    return pattern << TF32_LOW_BITS if isinstance(element_type, FloatTF32Type) else pattern


@lowers("constant")
def lower_constant(cv: CudaTileConverter, op: Any) -> None:
    value: DenseElementsAttr = op.value
    shape, element_type = value.type.shape, value.type.element_type
    result_type = convert_type(op.results[0].type)
    patterns = element_patterns(value)
    first = patterns[0]
    attr: Attribute | None = None
    if len(patterns) > 1 and patterns.count(first) != len(patterns):
        attr = dense_bytes(patterns, element_type)
    else:
        attr = scalar_attr(first, element_type)
    if attr is None:
        width = element_bits(element_type)
        bits = {"value": integer_attr(register_bits(first, element_type), width)}
        raw = cv.emit(arith.Constant, (), (tile_type(shape, IntegerType(width)),), bits)
        cv.bind(op.results[0], cv.emit(arith.Bitcast, raw.results, (result_type,)).results[0])
        return
    cv.bind(op.results[0], cv.emit(arith.Constant, (), (result_type,), {"value": attr}).results[0])


@lowers("global")
def lower_global(cv: CudaTileConverter, op: Any) -> None:
    """Two 4-bit elements share a byte in memory, the first in the low half: such a global becomes one of i8."""
    value: DenseElementsAttr = op.value
    patterns, element_type = element_patterns(value), value.type.element_type
    shape: tuple[int, ...] = value.type.shape
    if len(patterns) == 1:
        patterns = patterns * value.type.num_elements
    if significant_bits(element_type) == 4:
        patterns = tuple(lo | hi << 4 for lo, hi in zip(patterns[::2], (*patterns[1::2], 0)))
        shape, element_type = (len(patterns),), IntegerType(8)
    attrs: dict[str, Attribute] = {"sym_name": op.sym_name, "value": dense_bytes(patterns, element_type),
                                   "type": tile_type(shape, element_type)}
    if op.alignment is not None and op.alignment.value.data:
        attrs["alignment"] = op.alignment
    if "constant" in op.properties:
        attrs["constant"] = op.properties["constant"]
    cv.emit(Global, (), (), attrs)
