"""What the conversion ops mean, and select."""
from __future__ import annotations

from typing import Any

import numpy as np

from tileiras.interp import convert
from tileiras.interp.registry import (
    Run,
    enum,
    first_operand_type,
    first_result_type,
    float_format,
    int_format,
    meaning,
    tile_format,
)


@meaning("exti", "trunci", elementwise=True)
def int_to_int(op: Any) -> Run:
    source, to = int_format(first_operand_type(op)), int_format(first_result_type(op))
    signedness = enum(op.signedness) if op.name == "cuda_tile.exti" else "unsigned"
    return lambda x: convert.int_to_int(x, source, signedness, to)


@meaning("ftof", elementwise=True)
def ftof(op: Any) -> Run:
    source, to = float_format(first_operand_type(op)), float_format(first_result_type(op))
    mode = enum(op.rounding_mode, "nearest_even")
    return lambda x: convert.float_to_float(x, to, mode, source)


@meaning("itof", elementwise=True)
def itof(op: Any) -> Run:
    source, to = int_format(first_operand_type(op)), float_format(first_result_type(op))
    signedness, mode = enum(op.signedness), enum(op.rounding_mode, "nearest_even")
    return lambda x: convert.int_to_float(x, source, signedness, to, mode)


@meaning("ftoi", elementwise=True)
def ftoi(op: Any) -> Run:
    """Saturating or not: the values that saturation changes are undefined without it."""
    source, to = float_format(first_operand_type(op)), int_format(first_result_type(op))
    signedness = enum(op.signedness)
    return lambda x: convert.float_to_int(x, to, signedness, source)


@meaning("bitcast", elementwise=True)
def bitcast(op: Any) -> Run:
    source, to = tile_format(first_operand_type(op)), tile_format(first_result_type(op))
    return lambda x: convert.bitcast(x, source, to)


@meaning("int_to_ptr", elementwise=True)
def int_to_ptr(op: Any) -> Run:
    return lambda x: np.asarray(x).view(np.uint64)


@meaning("ptr_to_int", elementwise=True)
def ptr_to_int(op: Any) -> Run:
    return lambda x: np.asarray(x).view(np.int64)


@meaning("ptr_to_ptr", elementwise=True)
def ptr_to_ptr(op: Any) -> Run:
    return lambda x: x


@meaning("select", elementwise=True)
def select(op: Any) -> Run:
    return lambda cond, yes, no: np.where(cond, yes, no)


@meaning("pack")
def pack(op: Any) -> Run:
    source = tile_format(first_operand_type(op))
    return lambda x: convert.pack(x, source)


@meaning("unpack")
def unpack(op: Any) -> Run:
    to = tile_format(first_result_type(op))
    return lambda x: convert.unpack(x, to)
