"""What a source location in cuda_tile is: debug scopes, `di_loc`, call sites, and their `"file":line:col` form.

Locations stand in `Operation.location`. They are `Data` attributes, since a file has one for nearly every op.
Source: public `AttrDefs.td` (DebugInfo).
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import Attribute
from xdsl.irdl import irdl_attr_definition

from tileiras.dialects.cuda_tile.attrs import CudaTileAttr

if TYPE_CHECKING:
    from xdsl.printer import Printer

MAX_SCOPE_DEPTH = 160
"""How many nested scopes or call sites are followed, and how deep the reader lets them nest."""


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class DebugAttr(CudaTileAttr):
    """The base of the debug attributes: a struct that prints as `<key = value, ...>`."""

    def _fields(self) -> tuple[tuple[str, Any], ...]:
        return ()

    def print_parameter(self, printer: Printer) -> None:
        def entry(field: tuple[str, Any]) -> None:
            printer.print_string(f"{field[0]} = ")
            if isinstance(field[1], Attribute):
                printer.print_attribute(field[1])
            else:
                printer.print_string(_quoted(field[1]) if isinstance(field[1], str) else str(field[1]))

        printer.print_string("<")
        printer.print_list(self._fields(), entry)
        printer.print_string(">")


@irdl_attr_definition
class DIFileAttr(DebugAttr):
    """A source file: data is (name, directory)."""

    name = "cuda_tile.di_file"

    def __init__(self, file_name: str, directory: str) -> None:
        super().__init__((file_name, directory))

    @property
    def file_name(self) -> str:
        return self.data[0]

    @property
    def directory(self) -> str:
        return self.data[1]

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{_quoted(self.data[0])} in {_quoted(self.data[1])}>")


@irdl_attr_definition
class DICompileUnitAttr(DebugAttr):
    """A compilation unit: data is its file."""

    name = "cuda_tile.di_compile_unit"

    def __init__(self, file: DIFileAttr) -> None:
        super().__init__(file)

    @property
    def file(self) -> DIFileAttr:
        return self.data

    def _fields(self) -> tuple[tuple[str, Any], ...]:
        return (("file", self.data),)


@irdl_attr_definition
class DISubprogramAttr(DebugAttr):
    """A function of the source: data is (file, line, name, linkage name, compile unit, scope line)."""

    name = "cuda_tile.di_subprogram"

    def __init__(self, file: DIFileAttr, line: int, subprogram_name: str, linkage_name: str,
                 compile_unit: DICompileUnitAttr, scope_line: int = 0) -> None:
        super().__init__((file, line, subprogram_name, linkage_name, compile_unit, scope_line))

    @property
    def file(self) -> DIFileAttr:
        return self.data[0]

    @property
    def line(self) -> int:
        return self.data[1]

    @property
    def subprogram_name(self) -> str:
        return self.data[2]

    @property
    def linkage_name(self) -> str:
        return self.data[3]

    @property
    def compile_unit(self) -> DICompileUnitAttr:
        return self.data[4]

    @property
    def scope_line(self) -> int:
        return self.data[5]

    def _fields(self) -> tuple[tuple[str, Any], ...]:
        fields = tuple(zip(("file", "line", "name", "linkageName", "compileUnit", "scopeLine"), self.data))
        return fields if self.scope_line else fields[:-1]


@irdl_attr_definition
class DILexicalBlockAttr(DebugAttr):
    """A block within a subprogram: data is (scope, file, line, column)."""

    name = "cuda_tile.di_lexical_block"

    def __init__(self, scope: Attribute, file: DIFileAttr, line: int, column: int = 0) -> None:
        super().__init__((scope, file, line, column))

    @property
    def scope(self) -> Attribute:
        return self.data[0]

    @property
    def file(self) -> DIFileAttr:
        return self.data[1]

    @property
    def line(self) -> int:
        return self.data[2]

    @property
    def column(self) -> int:
        return self.data[3]

    def _fields(self) -> tuple[tuple[str, Any], ...]:
        fields = tuple(zip(("scope", "file", "line", "column"), self.data))
        return fields if self.column else fields[:-1]


@irdl_attr_definition
class DILocAttr(DebugAttr):
    """A line and column of a file, within a scope: data is (file name, line, column, scope)."""

    name = "cuda_tile.di_loc"

    def __init__(self, file_name: str, line: int, column: int, scope: Attribute) -> None:
        super().__init__((file_name, line, column, scope))

    @property
    def file_name(self) -> str:
        return self.data[0]

    @property
    def line(self) -> int:
        return self.data[1]

    @property
    def column(self) -> int:
        return self.data[2]

    @property
    def scope(self) -> Attribute:
        """A DISubprogramAttr or DILexicalBlockAttr."""
        return self.data[3]

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<loc({_quoted(self.data[0])}:{self.data[1]}:{self.data[2]}) in ")
        printer.print_attribute(self.data[3])
        printer.print_string(">")


@irdl_attr_definition
class CallSiteLocAttr(DebugAttr):
    """An inlined call: data is (callee location, caller location)."""

    name = "cuda_tile.call_site"

    def __init__(self, callee: Attribute, caller: Attribute) -> None:
        super().__init__((callee, caller))

    @property
    def callee(self) -> Attribute:
        return self.data[0]

    @property
    def caller(self) -> Attribute:
        return self.data[1]

    def _fields(self) -> tuple[tuple[str, Any], ...]:
        return (("callee", self.data[0]), ("caller", self.data[1]))


class TextLocAttr(DebugAttr):
    """A location with the op's place in the program's text: data is (location, line, column), both from 1."""

    name = "cuda_tile.text_loc"

    def __init__(self, location: Attribute, line: int, column: int) -> None:
        super().__init__((location, line, column))

    def _fields(self) -> tuple[tuple[str, Any], ...]:
        return tuple(zip(("location", "line", "column"), self.data))


def source_position(location: Attribute | None) -> tuple[str, int, int] | None:
    """(file, line, column) of a location, of the innermost callee for a call site; None where it is unknown."""
    for _ in range(MAX_SCOPE_DEPTH):
        if isinstance(location, TextLocAttr):
            location = location.data[0]
        elif isinstance(location, CallSiteLocAttr):
            location = location.callee
        elif isinstance(location, DILocAttr):
            return location.data[:3]
        elif isinstance(location, FileLineColLoc):
            return location.filename.data, location.line.data, location.column.data
        else:
            break
    return None


def render_location(location: Attribute | None) -> str | None:
    """`"file":line:col`, as diagnostics show it inside `loc(...)`; None where the location is unknown."""
    position = source_position(location)
    return None if position is None else f"{_quoted(position[0])}:{position[1]}:{position[2]}"


DEBUG_ATTRS: tuple[type[DebugAttr], ...] = (
    DIFileAttr, DICompileUnitAttr, DISubprogramAttr, DILexicalBlockAttr, DILocAttr, CallSiteLocAttr,
)
