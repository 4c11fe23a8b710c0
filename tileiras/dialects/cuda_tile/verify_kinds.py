"""Which types an operand or result of each kind may have, and how the public dialect names the kind in a diagnostic.

Source: the type constraints of public `Types.td` and `Ops.td`.
"""
from __future__ import annotations

from xdsl.ir import Attribute

from tileiras.dialects.cuda_tile import edition
from tileiras.dialects.cuda_tile.asm_types import type_text
from tileiras.dialects.cuda_tile.types import (
    CudaTileType,
    GatherScatterViewType,
    PartitionViewType,
    PointerType,
    StridedViewType,
    TensorViewType,
    TileType,
    TileViewType,
    TokenType,
)

_INT = ("i1", "i8", "i16", "i32", "i64")
_BASE_FLOAT = ("f16", "bf16", "f32", "f64")
_LOW_FLOAT = ("tf32", "f8E4M3FN", "f8E5M2", "f8E8M0FNU", "f4E2M1FN", "fnv8E5M3FNU")
_FLOAT = _BASE_FLOAT + _LOW_FLOAT
_NUMBER = _INT + _FLOAT
POINTER = "Pointer type"
NUMBER_NAMES = ("f16", "bf16", "f32", "tf32", "f64", *_LOW_FLOAT[1:], *_INT)
"""Every number type, in the order in which the type definitions name them."""


class Kind:
    """One kind: how diagnostics call it, and whether a type is of it."""

    __slots__ = ("bit", "classes", "elements", "scalar", "what")

    def __init__(self, summary: str, elements: tuple[str, ...] = (), scalar: bool = False,
                 classes: tuple[type[Attribute], ...] = (TileType,)) -> None:
        self.what = summary
        self.elements = elements
        self.scalar = scalar
        self.classes = classes
        self.bit = 0

    @property
    def summary(self) -> str:
        """How diagnostics call the kind."""
        names = filter(edition.has_type, self.elements)
        return f"{self.what} of {' or '.join(names)} values" if self.elements else self.what

    def accepts(self, type_: Attribute) -> bool:
        if not isinstance(type_, self.classes):
            return False
        if not isinstance(type_, TileType) or not self.elements:
            return True
        if self.scalar and type_.shape:
            return False
        element = type_.element_type
        if isinstance(element, PointerType):
            return POINTER in self.elements
        return type_text(element) in self.elements


def _tile(elements: tuple[str, ...], summary: str = "tile") -> Kind:
    return Kind(summary, elements)


def _scalar(elements: tuple[str, ...]) -> Kind:
    return Kind("0D tile", elements, scalar=True)


KINDS: dict[str, Kind] = {
    "int": _tile(_INT), "int32": _tile(_INT[:-1]), "int4": _tile((*_INT, "i4")), "i1": _tile(("i1",)), "i8": _tile(("i8",)),
    "i32": _tile(("i32",)), "i64": _tile(("i64",)),
    "float": _tile(_BASE_FLOAT), "anyfloat": _tile(_FLOAT), "number": _tile(_NUMBER),
    "number4": _tile((*_NUMBER, "i4")),
    "ptr": _tile((POINTER,)), "int0": _scalar(_INT), "i1_0": _scalar(("i1",)), "i32_0": _scalar(("i32",)),
    "ptr0": _scalar((POINTER,)),
    "mmaf_in": _tile((*_BASE_FLOAT, "tf32", "f8E4M3FN", "f8E5M2"), "mmaf operand tile type"),
    "mmaf_out": _tile(("f16", "f32", "f64"), "mmaf acc/result tile type"),
    "scaled_in": _tile(("f8E4M3FN", "f8E5M2", "f4E2M1FN"), "mmaf_scaled operand tile type"),
    "scaled_scale": _tile(("f8E4M3FN", "f8E8M0FNU", "fnv8E5M3FNU"), "mmaf_scaled scale tile type"),
    "scaled_out": _tile(("f32",), "mmaf_scaled result tile type"),
    "mmai_in": _tile(("i8",), "mmai operand tile type"), "mmai_acc": _tile(("i32",), "mmai acc tile type"),
    "mmai_out": _tile(("i32",), "mmai result tile type"),
    "tile": Kind("Tile type"), "token": Kind("cuda tile token type", classes=(TokenType,)),
    "tview": Kind("tensor view type", classes=(TensorViewType,)),
    "view": Kind("TileView instance", classes=(TileViewType,)),
    "pview": Kind("partition view type", classes=(PartitionViewType,)),
    "sview": Kind("strided view type", classes=(StridedViewType,)),
    "gsview": Kind("gather/scatter view type", classes=(GatherScatterViewType,)),
    "any": Kind("any type of the dialect", classes=(CudaTileType,)),
}
for _index, _kind in enumerate(KINDS.values()):
    _kind.bit = 1 << _index
