"""What the ops on memory mean: pointers, views, loads, stores, globals, allocas."""
from __future__ import annotations

from typing import Any

import numpy as np

from tileiras.dialects.cuda_tile.types import (
    GatherScatterViewType,
    PartitionViewType,
    PointerType,
    StridedViewType,
    TensorViewType,
)
from tileiras.interp import integers
from tileiras.interp.errors import InterpreterError
from tileiras.interp.formats import Format, format_of
from tileiras.interp.registry import (
    Run,
    enum,
    first_result_type,
    int_format,
    integer,
    meaning,
    tile_format,
)
from tileiras.interp.views import Tensor, TileView


def waits(op: Any) -> bool:
    """Whether a load may be what a program spins on: another block's store is then what it waits for."""
    return enum(op.memory_ordering_semantics) != "weak"


def pointee_format(pointer_tile_type: Any) -> Format:
    """The format of what a tile of pointers points to."""
    element_type = pointer_tile_type.element_type
    if not isinstance(element_type, PointerType):
        raise InterpreterError(f"expected a tile of pointers, got {pointer_tile_type}")
    return addressable(format_of(element_type.pointee))


def addressable(fmt: Format) -> Format:
    """The format, unless its elements are smaller than a byte and have no address of their own."""
    if fmt.bits == 4:
        raise InterpreterError(f"elements of {fmt.name} have no address; load bytes and unpack them")
    return fmt


def unsigned_index(value: Any, type_: Any) -> Any:
    """An index operand: an integer, or an int64 array where it is a tile of indices."""
    numbers = integers.unsigned(value, int_format(type_))
    return int(numbers) if numbers.ndim == 0 else numbers.astype(np.int64)


@meaning("offset", elementwise=True)
def offset(op: Any) -> Run:
    size = pointee_format(first_result_type(op)).bytes
    fmt = int_format(op.operands[1].type)
    return lambda pointers, by: np.asarray(pointers) + (integers.signed(by, fmt).astype(np.int64)
                                                        * np.int64(size)).astype(np.uint64)


@meaning("load_ptr_tko", block=True, meets_others=waits)
def load_ptr_tko(op: Any) -> Run:
    fmt = tile_format(first_result_type(op))

    def run(block: Any, source: Any, mask: Any, padding: Any, token: Any) -> Any:
        loaded = block.launch.memory.load(source, fmt, mask)
        return loaded if mask is None or padding is None else np.where(mask, loaded, padding)
    return run


@meaning("store_ptr_tko", block=True)
def store_ptr_tko(op: Any) -> Run:
    fmt = tile_format(op.operands[1].type)
    return lambda block, destination, value, mask, token: block.launch.memory.store(destination, value, fmt, mask)


@meaning("make_tensor_view")
def make_tensor_view(op: Any) -> Run:
    type_ = first_result_type(op)
    assert isinstance(type_, TensorViewType)
    fmt = addressable(format_of(type_.element_type))
    kinds = [v.type for v in (*op.dynamicShape, *op.dynamicStrides)]

    def run(base: Any, shape: tuple[Any, ...], strides: tuple[Any, ...]) -> Tensor:
        numbers = iter([unsigned_index(v, t) for v, t in zip((*shape, *strides), kinds)])
        extents = tuple(next(numbers) if n is None else n for n in type_.shape)
        steps = tuple(next(numbers) if n is None else n for n in type_.strides)
        return Tensor(int(base), extents, steps, fmt)
    return run


@meaning("make_partition_view", "make_strided_view", "make_gather_scatter_view")
def make_tile_view(op: Any) -> Run:
    type_ = first_result_type(op)
    padding = type_.padding_value.value if type_.padding_value is not None else None      # type: ignore[attr-defined]
    if isinstance(type_, GatherScatterViewType):
        shape, sparse, identity = type_.tile_shape, type_.sparse_dim, tuple(range(len(type_.tile_shape)))
        return lambda tensor: TileView(tensor, shape, (1,) * len(shape), identity, padding, sparse)
    if isinstance(type_, StridedViewType):
        return lambda tensor: TileView(tensor, type_.tile_shape, type_.traversal_strides, type_.dim_map, padding)
    assert isinstance(type_, PartitionViewType)
    return lambda tensor: TileView(tensor, type_.tile_shape, type_.tile_shape, type_.dim_map, padding)


def _promises(op: Any) -> tuple[bool, ...]:
    inbounds = op.inbounds
    return () if inbounds is None else tuple(bool(v) for v in inbounds.get_values())


@meaning("load_view_tko", block=True, meets_others=waits)
def load_view_tko(op: Any) -> Run:
    kinds, inbounds = [v.type for v in op.index], _promises(op)

    def run(block: Any, view: TileView, index: tuple[Any, ...], token: Any) -> Any:
        return view.load(block.launch.memory, _indices(index, kinds), inbounds)
    return run


@meaning("store_view_tko", block=True)
def store_view_tko(op: Any) -> Run:
    kinds, inbounds = [v.type for v in op.index], _promises(op)

    def run(block: Any, tile: Any, view: TileView, index: tuple[Any, ...], token: Any) -> Any:
        view.store(block.launch.memory, _indices(index, kinds), tile, inbounds)
    return run


def _indices(index: tuple[Any, ...], kinds: list[Any]) -> tuple[Any, ...]:
    return tuple(unsigned_index(i, t) for i, t in zip(index, kinds))


def _sizes(op: Any, sizes: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(integers.wrap(np.array(n, np.int64), int_format(r.type)) for n, r in zip(sizes, op.results))


@meaning("get_index_space_shape")
def get_index_space_shape(op: Any) -> Run:
    return lambda view: _sizes(op, view.index_space())


@meaning("get_tensor_shape")
def get_tensor_shape(op: Any) -> Run:
    return lambda tensor: _sizes(op, tensor.shape)


@meaning("get_global", block=True)
def get_global(op: Any) -> Run:
    return lambda block: np.array(block.launch.address_of_global(op.symbol), np.uint64)


@meaning("alloca", block=True)
def alloca(op: Any) -> Run:
    count, alignment = integer(op.num_elem), integer(op.alignment)
    size = pointee_format(first_result_type(op)).bytes
    if alignment <= 0 or alignment & (alignment - 1):
        raise InterpreterError(f"alignment {alignment} is not a power of two")

    def run(block: Any) -> Any:
        made = block.launch.memory.allocate(count * size, "an alloca", alignment)
        block.allocations.append(made)
        return np.array(made.start, np.uint64)
    return run


@meaning("gdc_wait_tko", "gdc_launch_dependents_tko")
def grid_dependency(op: Any) -> Run:
    """Launches are whole here: what this one waits for has ended, and what waits for it hasn't begun."""
    return lambda token: None


@meaning("memory_fence_alias_tko")
def memory_fence_alias(op: Any) -> Run:
    return lambda token: None

