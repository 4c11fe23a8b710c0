"""How types lie in the type section: a tag, then the type's parameters, other types by their index.

Simple types are one tag. Shapes and strides are lists of 8-byte integers with INT64_MIN for a dynamic extent, tile
shapes and dimension maps of 4-byte ones. From 13.3 on a bitfield in front says which optional parameters follow;
before that the partition view's padding has a presence byte of its own. Types are read when first asked for, and may
not contain themselves. Source: cuTile Python `_bytecode/type.py`; public `BytecodeTypeOpcodes.td`.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

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
    FunctionType,
    IntegerType,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from tileiras.bytecode.container import read_table
from tileiras.bytecode.version import V13_1, V13_2, V13_3, V13_4, Version
from tileiras.bytecode.wire import (
    malformed,
    read_count,
    read_int_list,
    read_varint,
)
from tileiras.dialects.cuda_tile.attrs import PTR_ATTR_CASES, PaddingValueAttr
from tileiras.dialects.cuda_tile.types import (
    CudaTileType,
    Float8E5M3FNUType,
    GatherScatterViewType,
    PartitionViewType,
    PointerType,
    StridedViewType,
    TensorViewType,
    TileType,
    TokenType,
)
from tileiras.errors import BytecodeError

DYNAMIC = -(1 << 63)

SIMPLE: dict[int, tuple[Attribute, Version]] = {
    0: (IntegerType(1), V13_1), 1: (IntegerType(8), V13_1), 2: (IntegerType(16), V13_1), 3: (IntegerType(32), V13_1),
    4: (IntegerType(64), V13_1), 5: (Float16Type(), V13_1), 6: (BFloat16Type(), V13_1), 7: (Float32Type(), V13_1),
    8: (FloatTF32Type(), V13_1), 9: (Float64Type(), V13_1), 10: (Float8E4M3FNType(), V13_1),
    11: (Float8E5M2Type(), V13_1), 17: (TokenType(), V13_1), 18: (Float8E8M0FNUType(), V13_2),
    19: (Float4E2M1FNType(), V13_3), 22: (IntegerType(4), V13_3), 130: (Float8E5M3FNUType(), V13_4),
}
TAG_OF_SIMPLE: dict[Attribute, int] = {type_: tag for tag, (type_, _) in SIMPLE.items()}


def name_of_simple(type_: Attribute) -> str:
    """A number type as the public reader and writer call it: `Float8E8M0FNU`, `i4`."""
    return str(type_) if isinstance(type_, IntegerType) else type(type_).__name__.removesuffix("Type")


POINTER, TILE, TENSOR_VIEW, PARTITION_VIEW, FUNCTION, GATHER_SCATTER_VIEW, STRIDED_VIEW = 12, 13, 14, 15, 16, 20, 21
_SINCE = {GATHER_SCATTER_VIEW: V13_3, STRIDED_VIEW: V13_3}

_OPTIONAL = 1
"""The bit of a type's one optional parameter."""

_PADDINGS = tuple(PaddingValueAttr(case) for case in PaddingValueAttr.CASES)
_T = TypeVar("_T")


def _case(cases: tuple[_T, ...], number: int, pos: int) -> _T:
    if number >= len(cases):
        raise malformed(pos, f"invalid integer value for enum type: {number}")
    return cases[number]


def _is_number(type_: Attribute) -> bool:
    return isinstance(type_, Float8E5M3FNUType) or not isinstance(type_, (CudaTileType, FunctionType))


def _extents(values: tuple[int, ...]) -> tuple[int | None, ...]:
    return tuple(None if value == DYNAMIC else value for value in values)


class TypeReader:
    """The type table of one file. `items` holds what was read so far, None elsewhere."""

    def __init__(self, payload: bytes, version: Version) -> None:
        self.raw = read_table(payload, 4, "types") if payload else []
        self.items: list[Attribute | None] = [None] * len(self.raw)
        self.version = version
        self._open: set[int] = set()

    def get(self, index: int) -> Attribute:
        """The type of that index. Raises BytecodeError."""
        if index >= len(self.items):
            raise BytecodeError(f"type index {index} out of bounds (size={len(self.items)})")
        found = self.items[index]
        if found is None:
            if index in self._open:
                raise BytecodeError(f"type {index} contains itself")
            self._open.add(index)
            try:
                found = self._parse(self.raw[index])
            except IndexError:
                raise BytecodeError(f"type {index} is cut short") from None
            except VerifyException as error:
                raise BytecodeError(str(error)) from None
            self._open.discard(index)
            self.items[index] = found
        return found

    def _parse(self, data: bytes) -> Attribute:
        tag, pos = read_varint(data, 0)
        simple = SIMPLE.get(tag)
        if simple is not None:
            type_, since = simple
            if since > self.version:
                raise BytecodeError(f"type '{name_of_simple(type_)}' requires bytecode version {since}+, file version is "
                                    f"{self.version}")
            return type_
        parse = _PARSERS.get(tag)
        if parse is None:
            raise BytecodeError(f"unknown type tag: {tag}")
        if _SINCE.get(tag, V13_1) > self.version:
            raise BytecodeError(f"type tag {tag} is not available in bytecode version {self.version}")
        return parse(self, data, pos)

    def _flags(self, data: bytes, pos: int, since: Version) -> tuple[int, int]:
        if self.version < since:
            return 0, pos
        flags, pos = read_varint(data, pos)
        if flags & ~_OPTIONAL:
            raise malformed(pos, "unused bits set in optional parameter flags")
        return flags, pos

    def _number_type(self, data: bytes, pos: int, what: str) -> tuple[Attribute, int]:
        index, pos = read_varint(data, pos)
        found = self.get(index)
        if not _is_number(found):
            raise malformed(pos, f"expected {what} to be a number type, got {found}")
        return found, pos

    def _tensor_view(self, data: bytes, pos: int) -> tuple[TensorViewType, int]:
        index, pos = read_varint(data, pos)
        found = self.get(index)
        if not isinstance(found, TensorViewType):
            raise malformed(pos, f"expected a tensor_view type, got {found}")
        return found, pos

    def _ptr_attr(self, data: bytes, pos: int, flags: int) -> str | None:
        return _case(PTR_ATTR_CASES, read_varint(data, pos)[0], pos) if flags & _OPTIONAL else None

    def _padding(self, data: bytes, pos: int, present: int) -> PaddingValueAttr | None:
        return _case(_PADDINGS, read_varint(data, pos)[0], pos) if present & _OPTIONAL else None

    def _pointer(self, data: bytes, pos: int) -> Attribute:
        flags, pos = self._flags(data, pos, V13_4)
        pointee, pos = self._number_type(data, pos, "pointee")
        return PointerType(pointee, self._ptr_attr(data, pos, flags))

    def _tile(self, data: bytes, pos: int) -> Attribute:
        index, pos = read_varint(data, pos)
        element = self.get(index)
        if not isinstance(element, PointerType) and not _is_number(element):
            raise malformed(pos, f"expected a number or pointer as element type of a tile, got {element}")
        shape, pos = read_int_list(data, pos, 8)
        return TileType(shape, element)

    def _view_of_tensor(self, data: bytes, pos: int) -> Attribute:
        flags, pos = self._flags(data, pos, V13_4)
        element, pos = self._number_type(data, pos, "element type")
        shape, pos = read_int_list(data, pos, 8)
        strides, pos = read_int_list(data, pos, 8)
        return TensorViewType(element, _extents(shape), _extents(strides), self._ptr_attr(data, pos, flags))

    def _partition_view(self, data: bytes, pos: int) -> Attribute:
        flags, pos = self._flags(data, pos, V13_3)
        tile_shape, pos = read_int_list(data, pos, 4)
        tensor_view, pos = self._tensor_view(data, pos)
        dim_map, pos = read_int_list(data, pos, 4)
        if self.version < V13_3:
            flags = data[pos]
            pos += 1
            if flags & ~_OPTIONAL:
                raise malformed(pos, f"invalid presence byte for optional attribute: {flags}")
        return PartitionViewType(tile_shape, tensor_view, dim_map, self._padding(data, pos, flags))

    def _gather_scatter_view(self, data: bytes, pos: int) -> Attribute:
        flags, pos = self._flags(data, pos, V13_3)
        tile_shape, pos = read_int_list(data, pos, 4)
        tensor_view, pos = self._tensor_view(data, pos)
        sparse_dim, pos = read_varint(data, pos)
        return GatherScatterViewType(tile_shape, tensor_view, sparse_dim, self._padding(data, pos, flags))

    def _strided_view(self, data: bytes, pos: int) -> Attribute:
        flags, pos = self._flags(data, pos, V13_3)
        tile_shape, pos = read_int_list(data, pos, 4)
        strides, pos = read_int_list(data, pos, 4)
        tensor_view, pos = self._tensor_view(data, pos)
        dim_map, pos = read_int_list(data, pos, 4)
        return StridedViewType(tile_shape, strides, tensor_view, dim_map, self._padding(data, pos, flags))

    def _function(self, data: bytes, pos: int) -> Attribute:
        groups: list[list[Attribute]] = []
        for what in ("parameters", "results"):
            count, pos = read_count(data, pos, 1, what)
            group = []
            for _ in range(count):
                index, pos = read_varint(data, pos)
                found = self.get(index)
                if isinstance(found, FunctionType):
                    raise malformed(pos, f"a function type can't stand among the {what} of another")
                group.append(found)
            groups.append(group)
        return FunctionType.from_lists(*groups)


_PARSERS: dict[int, Callable[[TypeReader, bytes, int], Attribute]] = {
    POINTER: TypeReader._pointer, TILE: TypeReader._tile, TENSOR_VIEW: TypeReader._view_of_tensor,
    PARTITION_VIEW: TypeReader._partition_view, FUNCTION: TypeReader._function,
    GATHER_SCATTER_VIEW: TypeReader._gather_scatter_view, STRIDED_VIEW: TypeReader._strided_view,
}
