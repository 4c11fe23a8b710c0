"""Which types cuda_tile has, what they hold, and how they are written.

`!cuda_tile.tile<64x64xf16>`, `!cuda_tile.ptr<f32>`, `!cuda_tile.tensor_view<?x64xf16, strides=[?,1]>` and the views
over a tensor view. They are xDSL `Data` attributes holding plain Python values: eight times cheaper to declare than
parametrized ones, and cheap to create. A dynamic extent is `None` in the accessors. Element types are xDSL's builtin
ones, except f8E5M3FNU, which builtin lacks. Source: public `Types.td`, `Types.cpp`.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

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
)
from xdsl.ir import Attribute, Data, TypeAttribute
from xdsl.irdl import irdl_attr_definition

from tileiras.dialects.cuda_tile import type_rules
from tileiras.dialects.cuda_tile.attrs import PaddingValueAttr

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer

Extents = tuple[int | None, ...]

_ELEMENT_BITS: dict[type[Attribute], int] = {
    Float16Type: 16, BFloat16Type: 16, Float32Type: 32, Float64Type: 64, FloatTF32Type: 32,
    Float8E4M3FNType: 8, Float8E5M2Type: 8, Float8E8M0FNUType: 8, Float4E2M1FNType: 4,
}


def element_bits(element_type: Attribute) -> int:
    """Bits that one element takes in memory: 8 for i1, 32 for tf32, 64 for a pointer, 4 for i4 and f4E2M1FN."""
    if isinstance(element_type, IntegerType):
        width = element_type.width.data
        return 8 if width == 1 else width
    if isinstance(element_type, (PointerType, Float8E5M3FNUType)):
        return 64 if isinstance(element_type, PointerType) else 8
    return _ELEMENT_BITS[type(element_type)]


def print_nested(printer: Printer, type_: Attribute) -> None:
    """Print a type inside a cuda_tile construct, where the dialect's own types go without `!cuda_tile.`."""
    if isinstance(type_, CudaTileType):
        printer.print_string(type_.name.removeprefix("cuda_tile."))
        type_.print_parameter(printer)
    else:
        printer.print_attribute(type_)


class CudaTileType(Data[Any], TypeAttribute):
    """The base of the dialect's types."""

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Any:
        parser.raise_error("types of cuda_tile are read with cuda_tile text, by its own parser")

    def print_parameter(self, printer: Printer) -> None:
        """Types without parameters print as their name alone."""


@irdl_attr_definition
class Float8E5M3FNUType(CudaTileType):
    """Unsigned 8-bit float: five exponent and three mantissa bits, no infinities (13.4)."""

    name = "cuda_tile.fnv8E5M3FNU"

    def __init__(self) -> None:
        super().__init__(())


@irdl_attr_definition
class TokenType(CudaTileType):
    """`!cuda_tile.token`: an edge of memory order."""

    name = "cuda_tile.token"

    def __init__(self) -> None:
        super().__init__(())


@irdl_attr_definition
class PointerType(CudaTileType):
    """`!cuda_tile.ptr<f32>`: data is (pointee, pointer attribute mnemonic or None)."""

    name = "cuda_tile.ptr"

    def __init__(self, pointee: Attribute, ptr_attr: str | None = None) -> None:
        super().__init__((pointee, ptr_attr))

    @property
    def pointee(self) -> Attribute:
        return self.data[0]

    @property
    def ptr_attr(self) -> str | None:
        """The 13.4 pointer attribute (`none`), or None where the type has no such attribute."""
        return self.data[1]

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string("<")
        print_nested(printer, self.data[0])
        if self.data[1] is not None:
            printer.print_string(f", <{self.data[1]}>")
        printer.print_string(">")


@irdl_attr_definition
class TileType(CudaTileType):
    """`!cuda_tile.tile<2x4xf32>`: data is (shape in elements, element type)."""

    name = "cuda_tile.tile"

    def __init__(self, shape: Iterable[int], element_type: Attribute) -> None:
        super().__init__((tuple(shape), element_type))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data[0]

    @property
    def element_type(self) -> Attribute:
        return self.data[1]

    def verify(self) -> None:
        type_rules.check_tile(*self.data)

    @property
    def rank(self) -> int:
        return len(self.data[0])

    @property
    def num_elements(self) -> int:
        return prod(self.data[0])

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string("<" + "".join(f"{extent}x" for extent in self.data[0]))
        print_nested(printer, self.data[1])
        printer.print_string(">")


def _extent(value: int | None) -> str:
    return "?" if value is None else str(value)


@irdl_attr_definition
class TensorViewType(CudaTileType):
    """`!cuda_tile.tensor_view<?x64xf16, strides=[?,1]>`: data is (element type, shape, strides, pointer attribute).

    Shape and strides are in elements; None is dynamic.
    """

    name = "cuda_tile.tensor_view"

    def __init__(self, element_type: Attribute, shape: Iterable[int | None], strides: Iterable[int | None],
                 ptr_attr: str | None = None) -> None:
        super().__init__((element_type, tuple(shape), tuple(strides), ptr_attr))

    def verify(self) -> None:
        type_rules.check_tensor_view(self.shape, self.strides)

    @property
    def element_type(self) -> Attribute:
        return self.data[0]

    @property
    def shape(self) -> Extents:
        return self.data[1]

    @property
    def strides(self) -> Extents:
        return self.data[2]

    @property
    def ptr_attr(self) -> str | None:
        return self.data[3]

    @property
    def rank(self) -> int:
        return len(self.data[1])

    @property
    def num_dynamic_shape(self) -> int:
        return sum(1 for extent in self.data[1] if extent is None)

    @property
    def num_dynamic_strides(self) -> int:
        return sum(1 for stride in self.data[2] if stride is None)

    def print_parameter(self, printer: Printer) -> None:
        element_type, shape, strides, ptr_attr = self.data
        printer.print_string("<" + "".join(f"{_extent(extent)}x" for extent in shape))
        print_nested(printer, element_type)
        if shape:
            printer.print_string(", strides=[" + ",".join(map(_extent, strides)) + "]")
        if ptr_attr is not None:
            printer.print_string(f", #cuda_tile.ptr_attr<{ptr_attr}>")
        printer.print_string(">")


class TileViewType(CudaTileType):
    """The base of the views whose elements are tiles of one tensor view."""

    def verify(self) -> None:
        type_rules.check_view_tile(self.tile_shape, self.tensor_view.rank)
        self._verify_mapping()
        type_rules.check_tile(self.tile_shape, self.tensor_view.element_type)
        type_rules.check_padding(self.padding_value and self.padding_value.value, self.tensor_view.element_type)

    def _verify_mapping(self) -> None:
        """How the tile's dimensions lie in the tensor's."""

    @property
    def tile_shape(self) -> tuple[int, ...]:
        return self.data[0]

    @property
    def tensor_view(self) -> TensorViewType:
        return self.data[1]

    @property
    def padding_value(self) -> PaddingValueAttr | None:
        """What a load gives outside the tensor, or None where that is undefined."""
        return self.data[2]

    @property
    def tile_type(self) -> TileType:
        """The type of the tile that a load from this view gives."""
        return TileType(self.tile_shape, self.tensor_view.element_type)

    @property
    def index_rank(self) -> int:
        """How many indices a load or store takes."""
        return len(self.tile_shape)

    def _print_head(self, printer: Printer) -> None:
        printer.print_string("<tile=(" + "x".join(map(str, self.tile_shape)) + "), ")

    def _print_padding_and_view(self, printer: Printer) -> None:
        if self.padding_value is not None:
            printer.print_string(f"padding_value = {self.padding_value.value}, ")
        print_nested(printer, self.tensor_view)


def _print_dim_map(printer: Printer, dim_map: Sequence[int]) -> None:
    if tuple(dim_map) != tuple(range(len(dim_map))):
        printer.print_string(", dim_map=[" + ", ".join(map(str, dim_map)) + "]")


@irdl_attr_definition
class PartitionViewType(TileViewType):
    """Tiles that cut a tensor view without overlap: data is (tile shape, tensor view, padding, dim_map).

    `dim_map[i]` is the tensor dimension that tile dimension `i` runs along.
    """

    name = "cuda_tile.partition_view"

    def __init__(self, tile_shape: Iterable[int], tensor_view: TensorViewType, dim_map: Iterable[int] | None = None,
                 padding_value: PaddingValueAttr | None = None) -> None:
        shape = tuple(tile_shape)
        mapping = tuple(range(len(shape))) if dim_map is None else tuple(dim_map)
        super().__init__((shape, tensor_view, padding_value, mapping))

    def _verify_mapping(self) -> None:
        type_rules.check_dim_map(self.dim_map, len(self.tile_shape), self.tensor_view.rank)

    @property
    def dim_map(self) -> tuple[int, ...]:
        return self.data[3]

    def print_parameter(self, printer: Printer) -> None:
        self._print_head(printer)
        self._print_padding_and_view(printer)
        _print_dim_map(printer, self.dim_map)
        printer.print_string(">")


@irdl_attr_definition
class StridedViewType(TileViewType):
    """Tiles at any regular distance: data is (tile shape, tensor view, padding, dim_map, traversal strides) (13.3)."""

    name = "cuda_tile.strided_view"

    def __init__(self, tile_shape: Iterable[int], traversal_strides: Iterable[int], tensor_view: TensorViewType,
                 dim_map: Iterable[int] | None = None, padding_value: PaddingValueAttr | None = None) -> None:
        shape = tuple(tile_shape)
        mapping = tuple(range(len(shape))) if dim_map is None else tuple(dim_map)
        super().__init__((shape, tensor_view, padding_value, mapping, tuple(traversal_strides)))

    def _verify_mapping(self) -> None:
        type_rules.check_dim_map(self.dim_map, len(self.tile_shape), self.tensor_view.rank)
        type_rules.check_traversal_strides(self.traversal_strides, len(self.tile_shape))

    @property
    def dim_map(self) -> tuple[int, ...]:
        return self.data[3]

    @property
    def traversal_strides(self) -> tuple[int, ...]:
        """Distance between neighbouring tiles, in elements of the tensor view, per tile dimension."""
        return self.data[4]

    def print_parameter(self, printer: Printer) -> None:
        self._print_head(printer)
        printer.print_string("traversal_strides=[" + ",".join(map(str, self.traversal_strides)) + "], ")
        self._print_padding_and_view(printer)
        _print_dim_map(printer, self.dim_map)
        printer.print_string(">")


@irdl_attr_definition
class GatherScatterViewType(TileViewType):
    """Tiles whose `sparse_dim` a tile of indices addresses: data is (tile shape, tensor view, padding, dim) (13.3)."""

    name = "cuda_tile.gather_scatter_view"

    def __init__(self, tile_shape: Iterable[int], tensor_view: TensorViewType, sparse_dim: int,
                 padding_value: PaddingValueAttr | None = None) -> None:
        super().__init__((tuple(tile_shape), tensor_view, padding_value, sparse_dim))

    def _verify_mapping(self) -> None:
        type_rules.check_sparse_dim(self.sparse_dim, self.tensor_view.rank)

    @property
    def sparse_dim(self) -> int:
        return self.data[3]

    def print_parameter(self, printer: Printer) -> None:
        self._print_head(printer)
        self._print_padding_and_view(printer)
        printer.print_string(f", sparse_dim={self.sparse_dim}>")


TYPES: tuple[type[CudaTileType], ...] = (
    TileType, PointerType, TensorViewType, PartitionViewType, StridedViewType, GatherScatterViewType, TokenType,
    Float8E5M3FNUType,
)
