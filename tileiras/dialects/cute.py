"""cute: memory with a layout, and parts of it, by the algebra of layout/cute.

    !cute.memref<f16, smem, #cute.layout<"S<3,3,3> o 0 o (64,64):(64,1)">>

    %v = cute.make_view(%p)                        the memory at a pointer, as such a memref
    %t = cute.local_tile(%v, %i, %j) {tiler = [16, 32]}     the tile at (i, j) of the grid of tiles
    %r = cute.slice(%v, %i) {kept = [0, 1]}        the modes that `kept` marks, at %i of the others
    %x = cute.crd2idx(%i, %j) {layout = ...}       the index at a coordinate

The layout of every result follows from the operand's and is verified against it; where coordinates are known, `index_of`
gives the index. Layouts are static; only coordinates and pointers are values.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Data, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition, param_def

from tileiras.dialects.base import TileOp
from tileiras.layout.cute.swizzle import AnyLayout, parse_any
from tileiras.layout.cute.tuples import IntTuple, LayoutError

if TYPE_CHECKING:
    from xdsl.parser import AttrParser
    from xdsl.printer import Printer

SPACES = ("rmem", "smem", "gmem", "tmem")


@irdl_attr_definition
class LayoutAttr(Data[AnyLayout]):
    """A layout as CuTe prints it."""

    name = "cute.layout"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> AnyLayout:
        with parser.in_angle_brackets():
            text = parser.parse_str_literal()
        try:
            return parse_any(text)
        except LayoutError as error:
            parser.raise_error(str(error))

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f'<"{self.data}">')


@irdl_attr_definition
class MemRefType(ParametrizedAttribute, TypeAttribute):
    """Elements in a space, at the places that a layout says."""

    name = "cute.memref"
    element_type: Attribute = param_def()
    space: StringAttr = param_def()
    layout: LayoutAttr = param_def()


def memref(element: Attribute, space: str, layout: AnyLayout) -> MemRefType:
    return MemRefType(element, StringAttr(space), LayoutAttr(layout))


def index_of(layout: AnyLayout, coord: Sequence[IntTuple]) -> int:
    """The index at a known coordinate, one number or tree a mode."""
    return layout(tuple(coord))


def _op(mnemonic: str, operands: str, results: str = "result:memref", attrs: str = "", pure: bool = True) -> type[TileOp]:
    name = "".join(part.capitalize() for part in mnemonic.replace(".", "_").split("_"))
    return type(name, (TileOp,), {"name": f"cute.{mnemonic}", "OPERANDS": operands, "RESULTS": results, "ATTRS": attrs,
                                  "PURE": pure})


MakeView = _op("make_view", "iter:llvm.ptr", "result:cute.memref")
GetIter = _op("get_iter", "source:cute.memref", "result:llvm.ptr")
LocalTile = _op("local_tile", "source:cute.memref coords:llvm.int*", "result:cute.memref", "tiler:numbers")
Slice = _op("slice", "source:cute.memref coords:llvm.int*", "result:cute.memref", "kept:flags")
AddOffset = _op("add_offset", "source:cute.memref offset:llvm.int", "result:cute.memref", "divisible:positive")
Recast = _op("recast", "source:cute.memref", "result:cute.memref")
Crd2idx = _op("crd2idx", "coords:llvm.int*", "result:llvm.int", "layout:cute.layout")
MemrefLoad = _op("memref.load", "source:cute.memref coords:llvm.int*", "result:llvm.scalar", pure=False)
MemrefStore = _op("memref.store", "value:llvm.scalar target:cute.memref coords:llvm.int*", "", pure=False)

OPS: dict[str, type[TileOp]] = {c.name: c for c in (
    MakeView, GetIter, LocalTile, Slice, AddOffset, Recast, Crd2idx, MemrefLoad, MemrefStore)}
TYPES = (MemRefType,)
ATTRS = (LayoutAttr,)
