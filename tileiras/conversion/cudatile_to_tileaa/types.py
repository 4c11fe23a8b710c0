"""What a cuda_tile type becomes in nv_tileaa.

    tile<T>                      T                        a rank-0 tile is a bare scalar
    tile<2x4xT>                  tensor<2x4xT>
    ptr<T>                       !nv_tileaa.ptr<T>
    token                        !nv_tileaa.mem_token
    tensor_view<?x64xT, ...>     !nv_tileaa.memref<...>   -1 where dynamic
    partition/strided/gather_scatter view   !nv_tileaa.tiled_view<...>

Conversions are remembered for the life of the process: a kernel has a dozen types and thousands of values.
"""
from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from xdsl.dialects.builtin import ArrayAttr, IntAttr, IntegerType, StringAttr, TensorType
from xdsl.ir import Attribute

from tileiras.dialects.cuda_tile.types import (
    GatherScatterViewType,
    PartitionViewType,
    PointerType,
    StridedViewType,
    TensorViewType,
    TileType,
    TileViewType,
    TokenType,
    element_bits,
)
from tileiras.dialects.nv_tileaa import DYNAMIC, MemRefType, MemTokenType, PtrType, TiledViewType
from tileiras.errors import CompileError

MEM_TOKEN = MemTokenType()
ALIGNED_BITS = 128
"""Of which strides in a tensor map are multiples (`analysis/tma.py`)."""


@lru_cache(maxsize=1024)
def int_attr(value: int) -> IntAttr:
    return IntAttr(value)


def ints(values: Iterable[int]) -> ArrayAttr[IntAttr]:
    return _int_array(tuple(values))


@lru_cache(maxsize=1024)
def _int_array(values: tuple[int, ...]) -> ArrayAttr[IntAttr]:
    return ArrayAttr([int_attr(v) for v in values])


@lru_cache(maxsize=256)
def text(value: str) -> StringAttr:
    return StringAttr(value)


@lru_cache(maxsize=4096)
def tensor_type(shape: tuple[int, ...], element_type: Attribute) -> TensorType:
    """The tensor type without encoding, made once per shape and element type."""
    return TensorType(element_type, shape)


@lru_cache(maxsize=256)
def ptr_type(pointee: Attribute) -> PtrType:
    return PtrType(pointee)


@lru_cache(maxsize=4096)
def tile_type(shape: tuple[int, ...], element_type: Attribute) -> Attribute:
    """A scalar type for rank 0, a tensor type otherwise; `element_type` is already nv_tileaa's."""
    return tensor_type(shape, element_type) if shape else element_type


@lru_cache(maxsize=4096)
def convert_type(t: Attribute) -> Attribute:
    """The nv_tileaa type of values of cuda_tile type `t`. Raises CompileError for a type of no value."""
    if isinstance(t, TileType):
        return tile_type(t.shape, convert_type(t.element_type))
    if isinstance(t, PointerType):
        return ptr_type(t.pointee)
    if isinstance(t, TokenType):
        return MEM_TOKEN
    if isinstance(t, TensorViewType):
        return memref_type(t)
    if isinstance(t, TileViewType):
        return tiled_view_type(t)
    if isinstance(t, IntegerType) or _is_number(t):
        return t
    raise CompileError(f"type {t} has no value in a kernel")


def _is_number(t: Attribute) -> bool:
    try:
        return element_bits(t) > 0
    except KeyError:
        return False


def memref_type(t: TensorViewType) -> MemRefType:
    """The strides along dimensions of one element, which lead nowhere, become what a tensor map can have (`is_idle_stride`)."""
    aligned = ALIGNED_BITS // element_bits(t.element_type)
    strides = (aligned if is_idle_stride(t, d) else stride for d, stride in enumerate(t.strides))
    return MemRefType(t.element_type, ints(DYNAMIC if n is None else n for n in t.shape),
                      ints(DYNAMIC if n is None else n for n in strides))


def is_idle_stride(t: TensorViewType, dim: int) -> bool:
    """Whether no element lies at a multiple of that stride, and it isn't what says along which dimension memory is contiguous: a
    column (n, 1) has the strides [1, s], a column of a matrix [s, 1]."""
    contiguous = any(n != 1 and stride == 1 for n, stride in zip(t.shape, t.strides))
    return t.shape[dim] == 1 and (t.strides[dim] is None or contiguous)


def tiled_view_type(t: TileViewType) -> TiledViewType:
    """The tiled view with every property explicit: partitions step by their tile, gathers map dimensions in order."""
    memref = convert_type(t.tensor_view)
    assert isinstance(memref, MemRefType)
    shape, sparse = t.tile_shape, -1
    if isinstance(t, PartitionViewType):
        kind, dim_map, steps = "partition", t.dim_map, shape
    elif isinstance(t, StridedViewType):
        kind, dim_map, steps = "strided", t.dim_map, t.traversal_strides
    elif isinstance(t, GatherScatterViewType):
        kind, dim_map, steps, sparse = "gather_scatter", tuple(range(len(shape))), (1,) * len(shape), t.sparse_dim
    else:
        raise CompileError(f"type {t} is no view of tiles")
    padding = t.padding_value.value if t.padding_value is not None else ""
    return TiledViewType(memref, text(kind), ints(shape), ints(dim_map), ints(steps), text(padding), int_attr(sparse))
