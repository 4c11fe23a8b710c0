"""How locations are written behind ops: `loc(#loc3)`, with the aliases defined after the text.

MLIR's rules: an attribute that has an alias is named by its depth (what it is made of first), then by kind, then by
first use. Source: MLIR's `AsmPrinter.cpp`, the dialect's alias interface.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xdsl.dialects.builtin import FileLineColLoc, UnknownLoc
from xdsl.ir import Attribute, Operation

from tileiras.dialects.cuda_tile.asm_names import is_unwritten
from tileiras.dialects.cuda_tile.asm_values import quoted
from tileiras.dialects.cuda_tile.debug import (
    CallSiteLocAttr,
    DICompileUnitAttr,
    DIFileAttr,
    DILexicalBlockAttr,
    DILocAttr,
    DISubprogramAttr,
)
from tileiras.dialects.cuda_tile.debug_text import OtherLocAttr

UNKNOWN = ("loc", "unknown")
"""The key of every unknown location."""

_STEMS: dict[type[Attribute], str] = {
    DIFileAttr: "di_file", DICompileUnitAttr: "di_compile_unit", DISubprogramAttr: "di_subprogram",
    DILexicalBlockAttr: "di_lexical_block",
}


def _position(file_name: str, line: int, column: int) -> tuple[str, str]:
    return "loc", f"{quoted(file_name)}:{line}:{column}"


class LocationAliases:
    """The aliases of all locations under a root op, except the root's own."""

    def __init__(self, root: Operation) -> None:
        self._depth: dict[Any, int] = {}
        for op in _ops_below(root):
            self._visit(_key(op.location))
        ordered = sorted(self._depth, key=lambda key: (self._depth[key], _stem(key)))
        counts: dict[str, int] = {}
        self._alias: dict[Any, str] = {}
        for key in ordered:
            stem = _stem(key)
            number = counts.get(stem, 0)
            counts[stem] = number + 1
            self._alias[key] = f"#{stem}{number or ''}"

    def suffix(self, op: Operation) -> str:
        """` loc(#loc3)`."""
        alias = self._alias.get(_key(op.location))
        return "" if alias is None else f" loc({alias})"

    def definitions(self) -> str:
        """One line an alias."""
        return "".join(f"{alias} = {self._definition(key)}\n" for key, alias in self._alias.items())

    def _visit(self, key: Any) -> int:
        """Enter a key and what it is made of; its depth."""
        depth = self._depth.get(key)
        if depth is None:
            self._depth[key] = 0
            depth = self._depth[key] = max([self._visit(part) + 1 for part in _parts(key)], default=0)
        return depth

    def _definition(self, key: Any) -> str:
        if isinstance(key, tuple):
            return f"loc({key[1]})"
        return _spelled(key, [self._alias[part] for part in _parts(key)])


def _spelled(key: Any, parts: list[str]) -> str:
    """An attribute whose parts are spelled so."""
    if isinstance(key, DIFileAttr):
        return f"#cuda_tile.di_file<{quoted(key.file_name)} in {quoted(key.directory)}>"
    if isinstance(key, DICompileUnitAttr):
        return f"#cuda_tile.di_compile_unit<file = {parts[0]}>"
    if isinstance(key, DISubprogramAttr):
        scope = f", scopeLine = {key.scope_line}" if key.scope_line else ""
        return (f"#cuda_tile.di_subprogram<file = {parts[0]}, line = {key.line}, name = "
                f"{quoted(key.subprogram_name)}, linkageName = {quoted(key.linkage_name)}, "
                f"compileUnit = {parts[1]}{scope}>")
    if isinstance(key, DILexicalBlockAttr):
        column = f", column = {key.column}" if key.column else ""
        return f"#cuda_tile.di_lexical_block<scope = {parts[0]}, file = {parts[1]}, line = {key.line}{column}>"
    if isinstance(key, CallSiteLocAttr):
        return f"loc(callsite({parts[0]} at {parts[1]}))"
    return f"#cuda_tile.di_loc<{parts[0]} in {parts[1]}>"


def _ops_below(root: Operation) -> Iterator[Operation]:
    """All ops inside that are written, each before what is inside it."""
    for region in root.regions:
        for block in region.blocks:
            for op in block.ops:
                if is_unwritten(op):
                    continue
                yield op
                if op.regions:
                    yield from _ops_below(op)


def _key(location: Attribute | None) -> Any:
    while isinstance(location, OtherLocAttr):
        location = location.location
    if location is None or isinstance(location, UnknownLoc):
        return UNKNOWN
    if isinstance(location, FileLineColLoc):
        return _position(location.filename.data, location.line.data, location.column.data)
    return location


def _stem(key: Any) -> str:
    return _STEMS.get(type(key), "loc")


def _parts(key: Any) -> tuple[Any, ...]:
    """What a key is made of, in the order in which it is printed."""
    if isinstance(key, DILocAttr):
        return _position(key.file_name, key.line, key.column), key.scope
    if isinstance(key, CallSiteLocAttr):
        return _key(key.callee), _key(key.caller)
    if isinstance(key, DICompileUnitAttr):
        return (key.file,)
    if isinstance(key, DISubprogramAttr):
        return key.file, key.compile_unit
    if isinstance(key, DILexicalBlockAttr):
        return key.scope, key.file
    return ()


def full_location(location: Attribute) -> str:
    """A location or scope as diagnostics show it, without aliases."""
    key = _key(location)
    if isinstance(key, tuple):
        return f"loc({key[1]})"
    if isinstance(key, CallSiteLocAttr):
        return f"loc({_nested(key)})"
    return _spelled(key, [_part(part) for part in _parts(key)])


def _part(key: Any) -> str:
    """A parameter: files and units, whose kind is known where they stand, go without their name."""
    if isinstance(key, (tuple, CallSiteLocAttr)):
        return _nested(key)
    text = full_location(key)
    return text[text.index("<"):] if isinstance(key, (DIFileAttr, DICompileUnitAttr)) else text


def _nested(key: Any) -> str:
    """A location inside another one: without `loc(...)`."""
    if isinstance(key, tuple):
        return f"loc({key[1]})"
    if isinstance(key, CallSiteLocAttr):
        callee, caller = (_unwrapped(part) for part in _parts(key))
        return f"callsite({callee} at {caller})"
    return full_location(key)


def _unwrapped(key: Any) -> str:
    return key[1] if isinstance(key, tuple) else _nested(key)
