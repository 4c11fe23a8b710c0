"""The tables a writer fills while it encodes: strings, types, constants, debug attributes, each item once.

A table may start from the items of the file that a module was read from, in that file's order, so that a module that
nobody changed is written back byte for byte. Types and debug attributes refer to others by index: those are entered
first.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from xdsl.dialects.builtin import FileLineColLoc, FunctionType, UnknownLoc
from xdsl.ir import Attribute

from tileiras.bytecode import debug, types
from tileiras.bytecode.debug import DebugReader
from tileiras.bytecode.types import DYNAMIC, TAG_OF_SIMPLE, TypeReader
from tileiras.bytecode.version import V13_1, V13_3, V13_4, Version
from tileiras.bytecode.wire import append_int_list, append_varint
from tileiras.dialects.cuda_tile.attrs import PTR_ATTR_CASES, PaddingValueAttr
from tileiras.dialects.cuda_tile.debug import (
    CallSiteLocAttr,
    DICompileUnitAttr,
    DIFileAttr,
    DILexicalBlockAttr,
    DILocAttr,
    DISubprogramAttr,
)
from tileiras.dialects.cuda_tile.types import (
    GatherScatterViewType,
    PartitionViewType,
    PointerType,
    StridedViewType,
    TensorViewType,
    TileType,
)
from tileiras.errors import BytecodeError

_T = TypeVar("_T")


def _index_of_first(keys: Iterable[_T]) -> dict[_T, int]:
    found: dict[_T, int] = {}
    for i, key in enumerate(keys):
        found.setdefault(key, i)
    return found


class BytesTable:
    """Byte strings by index: strings, and constants with their length in front."""

    def __init__(self, items: Iterable[bytes] = ()) -> None:
        self.items = list(items)
        self._index = _index_of_first(self.items)

    def add(self, item: bytes) -> int:
        found = self._index.get(item)
        if found is None:
            found = self._index[item] = len(self.items)
            self.items.append(item)
        return found

    def add_text(self, text: str) -> int:
        return self.add(text.encode())

    def add_constant(self, raw: bytes) -> int:
        out = bytearray()
        append_varint(out, len(raw))
        return self.add(bytes(out + raw))


PREDEFINED_TYPES = tuple(types.SIMPLE[tag][0] for tag in (0, 3))
"""i1 and i32: the first two types of every file that the public frontend writes."""


class TypeTable:
    """Types by index."""

    def __init__(self, version: Version, original: TypeReader | None = None) -> None:
        self.version = version
        self.items: list[bytes] = []
        self._index: dict[Attribute, int] = {}
        if original is None:
            for type_ in PREDEFINED_TYPES:
                self.add(type_)
            return
        self.items = list(original.raw)
        for i in range(len(self.items)):
            try:
                self._index.setdefault(original.get(i), i)
            except BytecodeError:
                continue

    def add(self, type_: Attribute) -> int:
        found = self._index.get(type_)
        if found is None:
            item = bytes(self._encode(type_))
            found = self._index[type_] = len(self.items)
            self.items.append(item)
        return found

    def _require(self, since: Version, what: str) -> None:
        if self.version < since:
            raise BytecodeError(f"{what} requires bytecode version {since}+, targeting {self.version}")

    def _encode(self, type_: Attribute) -> bytearray:
        out = bytearray()
        tag = TAG_OF_SIMPLE.get(type_)
        if tag is not None:
            self._require(types.SIMPLE[tag][1], f"type '{types.name_of_simple(type_)}'")
            append_varint(out, tag)
        elif isinstance(type_, PointerType):
            self._optional_head(out, types.POINTER, type_.ptr_attr is not None, V13_4)
            append_varint(out, self.add(type_.pointee))
            self._ptr_attr(out, type_.ptr_attr)
        elif isinstance(type_, TileType):
            out.append(types.TILE)
            append_varint(out, self.add(type_.element_type))
            append_int_list(out, type_.shape, 8)
        elif isinstance(type_, TensorViewType):
            self._optional_head(out, types.TENSOR_VIEW, type_.ptr_attr is not None, V13_4)
            append_varint(out, self.add(type_.element_type))
            for extents in (type_.shape, type_.strides):
                append_int_list(out, (DYNAMIC if extent is None else extent for extent in extents), 8)
            self._ptr_attr(out, type_.ptr_attr)
        elif isinstance(type_, PartitionViewType):
            padded = type_.padding_value is not None
            self._optional_head(out, types.PARTITION_VIEW, padded, V13_3)
            append_int_list(out, type_.tile_shape, 4)
            append_varint(out, self.add(type_.tensor_view))
            append_int_list(out, type_.dim_map, 4)
            if self.version < V13_3:
                out.append(padded)
            self._padding(out, type_.padding_value)
        elif isinstance(type_, GatherScatterViewType):
            self._require(V13_3, f"type '{type_}'")
            self._optional_head(out, types.GATHER_SCATTER_VIEW, type_.padding_value is not None, V13_1)
            append_int_list(out, type_.tile_shape, 4)
            append_varint(out, self.add(type_.tensor_view))
            append_varint(out, type_.sparse_dim)
            self._padding(out, type_.padding_value)
        elif isinstance(type_, StridedViewType):
            self._require(V13_3, f"type '{type_}'")
            self._optional_head(out, types.STRIDED_VIEW, type_.padding_value is not None, V13_1)
            append_int_list(out, type_.tile_shape, 4)
            append_int_list(out, type_.traversal_strides, 4)
            append_varint(out, self.add(type_.tensor_view))
            append_int_list(out, type_.dim_map, 4)
            self._padding(out, type_.padding_value)
        elif isinstance(type_, FunctionType):
            out.append(types.FUNCTION)
            for group in (type_.inputs.data, type_.outputs.data):
                append_varint(out, len(group))
                for item in group:
                    append_varint(out, self.add(item))
        else:
            raise BytecodeError(f"unsupported type in bytecode writer: '{type_}'")
        return out

    def _optional_head(self, out: bytearray, tag: int, present: bool, since: Version) -> None:
        out.append(tag)
        if self.version >= since:
            append_varint(out, int(present))

    def _ptr_attr(self, out: bytearray, ptr_attr: str | None) -> None:
        if ptr_attr is not None:
            self._require(V13_4, "a pointer attribute")
            out.append(PTR_ATTR_CASES.index(ptr_attr))

    def _padding(self, out: bytearray, padding: PaddingValueAttr | None) -> None:
        if padding is not None:
            out.append(padding.number)


class DebugTable:
    """Debug attributes by index; 0 is the unknown location. `subprogram_flags`: subprograms end in a word of flags, since 13.5
    and zero so far."""

    def __init__(self, strings: BytesTable, original: DebugReader | None = None, subprogram_flags: bool = False) -> None:
        self._strings = strings
        self._subprogram_end = (0,) if subprogram_flags else ()
        self.items: list[bytes] = []
        self._index: dict[Attribute, int] = {}
        self._seen: dict[int, tuple[Attribute, int]] = {}
        if original is None:
            return
        self.items = list(original.raw)
        for i in range(len(self.items)):
            try:
                self._index.setdefault(original.get(i + debug.RESERVED), i + debug.RESERVED)
            except BytecodeError:
                continue

    def add(self, attr: Attribute) -> int:
        if isinstance(attr, (UnknownLoc, FileLineColLoc)):  # bytecode has places within a scope only
            return 0
        seen = self._seen.get(id(attr))
        if seen is not None:
            return seen[1]
        found = self._index.get(attr)
        if found is None:
            item = bytes(self._encode(attr))
            found = self._index[attr] = len(self.items) + debug.RESERVED
            self.items.append(item)
        self._seen[id(attr)] = (attr, found)
        return found

    def _encode(self, attr: Attribute) -> bytearray:
        if isinstance(attr, DIFileAttr):
            return self._record(debug.FILE, attr.file_name, attr.directory)
        if isinstance(attr, DICompileUnitAttr):
            return self._record(debug.COMPILE_UNIT, attr.file)
        if isinstance(attr, DISubprogramAttr):
            return self._record(debug.SUBPROGRAM, *attr.data, *self._subprogram_end)
        if isinstance(attr, DILexicalBlockAttr):
            return self._record(debug.LEXICAL_BLOCK, *attr.data)
        if isinstance(attr, DILocAttr):
            return self._record(debug.LOC, attr.scope, attr.file_name, attr.line, attr.column)
        if isinstance(attr, CallSiteLocAttr):
            return self._record(debug.CALL_SITE, attr.callee, attr.caller)
        name = getattr(type(attr), "LOCATION_NAME", str(attr))
        raise BytecodeError(f"unsupported location, got {name}, expected DILocAttr or CallSiteLoc")

    def _record(self, tag: int, *fields: Attribute | str | int) -> bytearray:
        out = bytearray([tag])
        for field in fields:
            if isinstance(field, str):
                append_varint(out, self._strings.add_text(field))
            else:
                append_varint(out, field if isinstance(field, int) else self.add(field))
        return out
