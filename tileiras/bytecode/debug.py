"""How source locations lie in the debug section: a function has a run of attribute indices, its own and its ops'.

    count of functions, u32 offsets into the indices, count of indices, u64 indices, table of attributes

An op's place in the run is its place in the function's body, parents before their regions. Index 0 is "unknown", the
others count the table from 1. Attributes refer to each other by such indices; one that reaches itself is refused, and
so is one that unfolds to more than a bounded number of attributes. Source: public `BytecodeReader.cpp`
(DebugInfoReader).
"""
from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import pairwise
from typing import TypeVar

from xdsl.dialects.builtin import UnknownLoc
from xdsl.ir import Attribute

from tileiras.bytecode.container import read_offsets
from tileiras.bytecode.wire import align, malformed, read_count, read_varint
from tileiras.dialects.cuda_tile.debug import (
    MAX_SCOPE_DEPTH,
    CallSiteLocAttr,
    DICompileUnitAttr,
    DIFileAttr,
    DILexicalBlockAttr,
    DILocAttr,
    DISubprogramAttr,
)
from tileiras.errors import BytecodeError

COMPILE_UNIT, FILE, LEXICAL_BLOCK, LOC, SUBPROGRAM, CALL_SITE = range(1, 7)
RESERVED = 1
"""Indices below this mean "unknown"."""
MAX_UNFOLDED = 1024
"""How many attributes one location may unfold to, shared parts counted each time."""

UNKNOWN = UnknownLoc()
_LOCAL_SCOPES = (DILexicalBlockAttr, DISubprogramAttr)
_LOCATIONS = (DILocAttr, CallSiteLocAttr, UnknownLoc)
_T = TypeVar("_T", bound=Attribute)


class DebugReader:
    """The debug section of one file; attributes are read when first asked for."""

    def __init__(self, payload: bytes, string: Callable[[int], str]) -> None:
        self._string = string
        self.starts: tuple[int, ...] = ()
        self.indices: tuple[int, ...] = ()
        self.raw: list[bytes] = []
        if payload:
            try:
                self._read_index(payload)
            except IndexError:
                raise BytecodeError("failed to parse debug section: unexpected end of data") from None
        self._items: list[Attribute | None] = [None] * len(self.raw)
        self.locations: list[Attribute | None] = [UNKNOWN, *[None] * len(self.raw)]
        self._unfolded = [0] * len(self.raw)
        self._open: set[int] = set()

    def _read_index(self, payload: bytes) -> None:
        count, pos = read_count(payload, 0, 4, "functions with debug info")
        pos = align(pos, 4)
        if len(payload) - pos < 4 * count:
            raise malformed(pos, "failed to skip debug info index offsets")
        self.starts = struct.unpack_from(f"<{count}I", payload, pos)
        count, pos = read_count(payload, pos + 4 * count, 8, "debug info indices")
        pos = align(pos, 8)
        if len(payload) - pos < 8 * count:
            raise malformed(pos, "failed to skip debug info indices")
        self.indices = struct.unpack_from(f"<{count}Q", payload, pos)
        offsets, start = read_offsets(payload, pos + 8 * count, 4, "debug info attributes")
        self.raw = [payload[start + a:start + b] for a, b in pairwise(offsets)]

    def start_of(self, function_index: int) -> int | None:
        """Where a function's run begins in `indices`, or None where it has none."""
        if function_index < RESERVED:
            return None
        if function_index - RESERVED >= len(self.starts):
            raise BytecodeError("failed to read operation location.")
        return self.starts[function_index - RESERVED]

    def location(self, index: int) -> Attribute:
        """The location of an attribute index; kept in `locations` for who looks there first."""
        found = self.get(index)
        if not isinstance(found, _LOCATIONS):
            raise BytecodeError("failed to read operation location.")
        self.locations[index] = found
        return found

    def get(self, index: int) -> Attribute:
        """The attribute of an index; 0 is the unknown location. Raises BytecodeError."""
        if index < RESERVED:
            return UNKNOWN
        index -= RESERVED
        if index >= len(self._items):
            raise BytecodeError(f"debug info index {index} out of bounds (size={len(self._items)})")
        found = self._items[index]
        if found is None:
            if index in self._open:
                raise BytecodeError(f"debug info attribute {index} refers to itself")
            if len(self._open) >= MAX_SCOPE_DEPTH:
                raise BytecodeError(f"debug info attributes nest deeper than {MAX_SCOPE_DEPTH}")
            self._open.add(index)
            try:
                found = self._parse(index, self.raw[index])
            except IndexError:
                raise BytecodeError(f"debug info attribute {index} is cut short") from None
            self._open.discard(index)
            self._items[index] = found
        return found

    def _parse(self, index: int, data: bytes) -> Attribute:
        tag, pos = read_varint(data, 0)
        self._unfolded[index] = 1
        fields = _FIELDS.get(tag)
        if fields is None:
            return UNKNOWN
        make, kinds = fields
        values: list = []
        for what, kind in kinds:
            number, pos = read_varint(data, pos)
            if kind is int:
                values.append(number)
            elif kind is str:
                values.append(self._string(number))
            else:
                found = self.get(number)
                if not isinstance(found, kind):
                    raise BytecodeError(f"failed to read {what} attribute when parsing {make.__name__}")
                if number >= RESERVED:
                    self._unfolded[index] += self._unfolded[number - RESERVED]
                values.append(found)
        if self._unfolded[index] > MAX_UNFOLDED:
            raise BytecodeError(f"debug info attribute {index} unfolds to more than {MAX_UNFOLDED} attributes")
        return make(*values)


def _make_loc(scope: Attribute, file_name: str, line: int, column: int) -> DILocAttr:
    return DILocAttr(file_name, line, column, scope)


_make_loc.__name__ = "DILocAttr"

_FIELDS: dict[int, tuple[Callable[..., Attribute], tuple[tuple[str, type | tuple[type, ...]], ...]]] = {
    COMPILE_UNIT: (DICompileUnitAttr, (("file", DIFileAttr),)),
    FILE: (DIFileAttr, (("file name", str), ("directory", str))),
    LEXICAL_BLOCK: (DILexicalBlockAttr, (("scope", _LOCAL_SCOPES), ("file", DIFileAttr), ("line", int),
                                         ("column", int))),
    LOC: (_make_loc, (("scope", _LOCAL_SCOPES), ("file name", str), ("line", int), ("column", int))),
    SUBPROGRAM: (DISubprogramAttr, (("file", DIFileAttr), ("line", int), ("name", str), ("linkage name", str),
                                    ("compile unit", DICompileUnitAttr), ("scope line", int))),
    CALL_SITE: (CallSiteLocAttr, (("callee", _LOCATIONS), ("caller", _LOCATIONS))),
}
"""Fields of each attribute in wire order: its name in diagnostics, and int, str (a string index) or attribute types."""
