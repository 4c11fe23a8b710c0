"""What the ops mean that make tiles and move their elements; block indices, tokens and assumptions."""
from __future__ import annotations

from typing import Any

import numpy as np

from tileiras.dialects.cuda_tile.attrs import BoundedAttr, DivByAttr, SameElementsAttr
from tileiras.dialects.cuda_tile.dense import element_bytes, is_splat, significant_bits
from tileiras.dialects.cuda_tile.memory_ops import MakeTensorView
from tileiras.interp import integers
from tileiras.interp.convert import from_bits
from tileiras.interp.errors import InterpreterError
from tileiras.interp.formats import I32, format_of
from tileiras.interp.registry import (
    Run,
    first_operand_type,
    first_result_type,
    int_format,
    integer,
    meaning,
    tile_shape,
)


def dense_values(value: Any) -> Any:
    """The tile that a DenseElementsAttr stands for."""
    type_ = value.type
    fmt = format_of(type_.element_type)
    raw = np.frombuffer(value.raw, np.uint8)
    if significant_bits(type_.element_type) == 1:
        bits = raw[:1] & np.uint8(1) if is_splat(value) else np.unpackbits(raw, bitorder="little")[:type_.num_elements]
        elements = bits.astype(np.bool_)
    else:
        width = element_bytes(type_.element_type)
        if fmt.name == "tf32":                              # the upper 19 bits, in three bytes
            word = np.zeros((len(raw) // width, 4), np.uint8)
            word[:, :width] = raw.reshape(-1, width)
            elements = from_bits(word.view(np.uint32).reshape(-1) << np.uint32(13), fmt)
        else:
            unsigned = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[width]
            elements = from_bits(raw.view(unsigned), fmt)
    if elements.size == 1:
        return np.array(np.broadcast_to(elements.reshape(()), type_.shape))
    return elements.reshape(type_.shape)


@meaning("constant", elementwise=True)
def constant(op: Any) -> Run:
    value = dense_values(op.value)
    value.flags.writeable = False
    return lambda: value


@meaning("iota")
def iota(op: Any) -> Run:
    fmt = int_format(first_result_type(op))
    value = integers.wrap(np.arange(tile_shape(first_result_type(op))[0], dtype=np.int64), fmt)
    return lambda: value


@meaning("broadcast")
def broadcast(op: Any) -> Run:
    shape = tile_shape(first_result_type(op))
    return lambda x: np.broadcast_to(x, shape)


@meaning("reshape")
def reshape(op: Any) -> Run:
    shape = tile_shape(first_result_type(op))
    return lambda x: np.reshape(x, shape)


@meaning("permute")
def permute(op: Any) -> Run:
    order = tuple(op.permutation.get_values())
    return lambda x: np.transpose(x, order)


@meaning("cat")
def cat(op: Any) -> Run:
    axis = integer(op.dim)
    return lambda x, y: np.concatenate([x, y], axis)


def _slice(shape: tuple[int, ...], part: tuple[int, ...], indices: tuple[Any, ...]) -> tuple[slice, ...]:
    """The slice that `indices` (in units of `part`, unsigned) name."""
    at = [int(integers.unsigned(i, I32)) for i in indices]
    for i, n, m in zip(at, part, shape):
        if not 0 <= i < m // n:
            raise InterpreterError(f"slice {at} of a tile of {shape} by {part} doesn't exist")
    return tuple(slice(i * n, i * n + n) for i, n in zip(at, part))


@meaning("extract")
def extract(op: Any) -> Run:
    shape, part = tile_shape(first_operand_type(op)), tile_shape(first_result_type(op))
    return lambda x, indices: np.asarray(x)[_slice(shape, part, indices)]


@meaning("insert")
def insert(op: Any) -> Run:
    part, shape = tile_shape(op.operands[0].type), tile_shape(op.operands[1].type)

    def run(source: Any, destination: Any, indices: tuple[Any, ...]) -> Any:
        out = np.array(destination)
        out[_slice(shape, part, indices)] = source
        return out
    return run


@meaning("get_tile_block_id", block=True)
def get_tile_block_id(op: Any) -> Run:
    return lambda block: tuple(np.array(i, np.int32) for i in block.index)


@meaning("get_num_tile_blocks", block=True)
def get_num_tile_blocks(op: Any) -> Run:
    return lambda block: tuple(np.array(n, np.int32) for n in block.launch.grid)


@meaning("make_token")
def make_token(op: Any) -> Run:
    return lambda: None


@meaning("join_tokens")
def join_tokens(op: Any) -> Run:
    return lambda tokens: None


@meaning("assume", block=True, elementwise=True)
def assume(op: Any) -> Run:
    """The value itself. A false assumption makes the program undefined: it is an error here, but for the stride of a
    dimension of length 1, which no address depends on: frontends call a unit stride there divisible by 16 bytes."""
    predicate = op.predicate
    if _only_strides_of_length_one(op):
        return lambda block, value: value
    tile = hasattr(first_operand_type(op), "shape") and hasattr(first_operand_type(op), "element_type")

    def holds(value: Any) -> bool:
        if isinstance(predicate, BoundedAttr):
            fmt = int_format(first_operand_type(op))
            numbers = integers.signed(value, fmt)
            return bool((predicate.lb is None or (numbers >= predicate.lb).all())
                        and (predicate.ub is None or (numbers <= predicate.ub).all()))
        if isinstance(predicate, SameElementsAttr):
            return _same_elements(np.asarray(value), predicate.values)
        if isinstance(predicate, DivByAttr):
            numbers = np.asarray(getattr(value, "base", value) if not isinstance(value, np.ndarray) else value)
            every = predicate.every or 1
            if numbers.ndim and every > 1:
                numbers = np.take(numbers, range(0, numbers.shape[predicate.along or 0], every), predicate.along or 0)
            return not (numbers.astype(np.uint64) % np.uint64(predicate.divisor)).any()
        return True

    def run(block: Any, value: Any) -> Any:
        if block.launch.check_assumptions and (tile or isinstance(predicate, DivByAttr)) and not holds(value):
            raise InterpreterError(f"the assumption {predicate} is false")
        return value
    return run


def _only_strides_of_length_one(op: Any) -> bool:
    """Whether the result is used as nothing but strides of tensor views along dimensions that are 1 long."""
    uses = list(op.result.uses)
    return bool(uses) and all(isinstance(use.operation, MakeTensorView) and _length_along(use) == 1 for use in uses)


def _length_along(use: Any) -> int | None:
    """The static length of the dimension whose stride the use gives; None for other operands and unknown lengths."""
    view = use.operation
    at = use.index - (1 + len(view.dynamicShape))
    if at < 0:
        return None
    type_ = view.result.type
    dynamic = [d for d, stride in enumerate(type_.strides) if stride is None]
    return type_.shape[dynamic[at]]


def _same_elements(value: Any, groups: tuple[int, ...]) -> bool:
    for axis, size in enumerate(groups):
        if size > 1:
            first = np.arange(value.shape[axis]) // size * size
            if not np.array_equal(value, np.take(value, first, axis)):
                return False
    return True
