"""How the dialect's types are written: `tile<4xf32>`, `tensor_view<?xf32, strides=[1]>`, and read back.

Inside a module the types go without `!cuda_tile.`. Source: public `Types.cpp` (printCudaTileType).
"""
from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from xdsl.dialects.builtin import AnyFloat, IntegerType, Signedness
from xdsl.ir import Attribute

from tileiras.dialects.cuda_tile.types import (
    CudaTileType,
    GatherScatterViewType,
    PartitionViewType,
    PointerType,
    StridedViewType,
    TensorViewType,
    TileType,
    TileViewType,
)

PREFIX = "cuda_tile."


@cache
def type_text(type_: Attribute) -> str:
    """The type as it stands inside a module: the dialect's own without `!cuda_tile.`."""
    if isinstance(type_, IntegerType) and type_.signedness.data is Signedness.SIGNLESS:
        return f"i{type_.width.data}"
    if isinstance(type_, AnyFloat):
        return type_.name
    if not isinstance(type_, CudaTileType):
        return str(type_)  # imports xDSL's printer: nothing valid comes here
    return type_.name.removeprefix(PREFIX) + _parameters(type_)


def bare_type_text(type_: Attribute) -> str:
    """An element type as it stands outside a tile type, where the dialect's own have their prefix."""
    return type_text(type_) if isinstance(type_, (IntegerType, AnyFloat)) else str(type_)


@cache
def full_type_text(type_: Attribute) -> str:
    """The type as diagnostics show it, prefix included."""
    return f"!{PREFIX}{type_text(type_)}" if isinstance(type_, CudaTileType) else type_text(type_)


def _extents(values: Iterable[int | None], separator: str) -> str:
    return separator.join("?" if value is None else str(value) for value in values)


def _parameters(type_: CudaTileType) -> str:
    if isinstance(type_, TileType):
        return f"<{''.join(f'{extent}x' for extent in type_.shape)}{type_text(type_.element_type)}>"
    if isinstance(type_, PointerType):
        attribute = "" if type_.ptr_attr is None else f", <{type_.ptr_attr}>"
        return f"<{type_text(type_.pointee)}{attribute}>"
    if isinstance(type_, TensorViewType):
        shape = "".join("?x" if extent is None else f"{extent}x" for extent in type_.shape)
        strides = f", strides=[{_extents(type_.strides, ',')}]" if type_.shape else ""
        attribute = "" if type_.ptr_attr is None else f", #cuda_tile.ptr_attr<{type_.ptr_attr}>"
        return f"<{shape}{type_text(type_.element_type)}{strides}{attribute}>"
    if isinstance(type_, TileViewType):
        return f"<{_view_parameters(type_)}>"
    return ""


def _view_parameters(view: TileViewType) -> str:
    parts = [f"tile=({'x'.join(map(str, view.tile_shape))})"]
    if isinstance(view, StridedViewType):
        parts.append(f"traversal_strides=[{_extents(view.traversal_strides, ',')}]")
    if view.padding_value is not None:
        parts.append(f"padding_value = {view.padding_value.value}")
    parts.append(type_text(view.tensor_view))
    if isinstance(view, (PartitionViewType, StridedViewType)) and view.dim_map != tuple(range(len(view.dim_map))):
        parts.append(f"dim_map=[{_extents(view.dim_map, ', ')}]")
    if isinstance(view, GatherScatterViewType):
        parts.append(f"sparse_dim={view.sparse_dim}")
    return ", ".join(parts)
