"""Source locations as LLVM debug metadata: what `.loc` lines and line tables come from.

    di = DebugInfo(full=False, program=text)    one a module; the program as text, which goes into the cubin
    scope = di.kernel(name, location)           the `!dbg` of a function
    di.location(location, scope)                the `!dbg` of an instruction, or "" where nothing is known

A call site becomes an inlined location, so a debugger shows the helper and who called it. With `full` the module
asks for debug sections besides line directives (`--device-debug`).

LLVM's line directives hold a file, a line and a column. What else a location knows (who called, the place in the
program's text) travels beside LLVM: an instruction's column is a key, unique in its line, into a table that stands
in comments behind the module (`codegen/location_table.py`), from which the directives are completed. A key of 0,
which LLVM gives to instructions that it merged, leaves file and line.
"""
from __future__ import annotations

from itertools import pairwise
from typing import Any

from xdsl.ir import Attribute

from tileiras.codegen.location_table import Frame, Place, quote, table_lines
from tileiras.dialects.cuda_tile.debug import (
    MAX_SCOPE_DEPTH,
    CallSiteLocAttr,
    DILocAttr,
    DISubprogramAttr,
    TextLocAttr,
    source_position,
)

PRODUCER = "tileiras"
_MAX_COLUMN = 65535
"""LLVM keeps columns in 16 bits; a larger one means "unknown"."""
_FLOATS = {"half": ("f16", 16, "DW_ATE_float"), "bfloat": ("bf16", 16, "DW_ATE_float"),
           "float": ("f32", 32, "DW_ATE_float"), "double": ("f64", 64, "DW_ATE_float")}
_MAX_LINE = 0x7FFFFFFF
_MAX_FRAMES = 4 * MAX_SCOPE_DEPTH
"""How many calls a location may nest; what lies outside of them is left out."""


def _line(line: int) -> int:
    return line if 0 <= line <= _MAX_LINE else 0


def _subprogram_of(location: Attribute | None) -> DISubprogramAttr | None:
    """The function that a location lies in, or None."""
    if isinstance(location, TextLocAttr):
        location = location.data[0]
    scope = location.scope if isinstance(location, DILocAttr) else None
    for _ in range(MAX_SCOPE_DEPTH):
        if scope is None or isinstance(scope, DISubprogramAttr):
            return scope
        scope = getattr(scope, "scope", None)
    return None


def _frames(location: Attribute) -> list[Attribute]:
    """The places of a location's calls, the innermost first; those without a position are left out."""
    found: list[Attribute] = []
    waiting = [location]
    while waiting and len(found) < _MAX_FRAMES:
        place = waiting.pop()
        if isinstance(place, CallSiteLocAttr):
            waiting += (place.caller, place.callee)
        elif source_position(place) is not None:
            found.append(place)
    return found


class DebugInfo:
    """The metadata of one module, numbered from 1 on."""

    def __init__(self, *, full: bool = False, optimized: bool = True, program: str = "") -> None:
        self._full, self._optimized, self._program = full, optimized, program
        self._lines: list[str] = []
        self._next = 1
        self._files: dict[str, str] = {}
        self._subprograms: dict[tuple[str, str, int], str] = {}
        self._block_files: dict[tuple[str, str], str] = {}
        self._found: dict[tuple[int, str], str] = {}
        self._callers: dict[tuple[tuple[int, ...], str], str] = {}
        self._keys: dict[int, int] = {}
        self._places: dict[Place, int] = {}
        self._keep: list[Any] = []  # locations are known by identity while they live
        self._types: dict[str, str] = {}
        self._unit = ""
        self._type = ""
        self._variables = ""

    def _node(self, text: str) -> str:
        name = f"!{self._next}"
        self._next += 1
        self._lines.append(f"{name} = {text}")
        return name

    def _file(self, path: str) -> str:
        found = self._files.get(path)
        if found is None:
            folder, slash, name = path.rpartition("/")
            found = self._files[path] = self._node(
                f"!DIFile(filename: {quote(name)}, directory: {quote(folder if folder else slash)})")
        return found

    def _subprogram(self, key: tuple[str, str, int], name: str, linkage: str, path: str, line: int,
                    variables: str = "") -> str:
        found = self._subprograms.get(key)
        if found is None:
            file = self._file(path)
            if not self._unit:
                kind = "FullDebug" if self._full else "DebugDirectivesOnly"
                self._unit = self._node(
                    f"distinct !DICompileUnit(language: DW_LANG_C99, file: {file}, producer: {quote(PRODUCER)}, "
                    f"isOptimized: {'true' if self._optimized else 'false'}, runtimeVersion: 0, emissionKind: {kind})")
                self._type = self._node("!DISubroutineType(types: null)")
            found = self._subprograms[key] = self._node(
                f"distinct !DISubprogram(name: {quote(name)}, linkageName: {quote(linkage)}, scope: {file}, "
                f"file: {file}, line: {line}, type: {self._type}, scopeLine: {line}, "
                f"spFlags: DISPFlagDefinition, unit: {self._unit}{variables})")
        return found

    def kernel(self, name: str, location: Attribute | None) -> str:
        """The function-level `!N` of a kernel, or "" if its location is unknown."""
        if location is None or source_position(location) is None:
            return ""
        path, line, _ = self._position(location)
        subprogram = _subprogram_of(location)
        shown = subprogram.subprogram_name.replace("\0", "?") if subprogram is not None else name
        variables = ""
        if self._full:
            self._variables, self._next = f"!{self._next}", self._next + 1
            variables = f", retainedNodes: {self._variables}"
        return self._subprogram(("kernel", name, 0), shown, name, path, _line(subprogram.line) if subprogram else line, variables)

    def parameters(self, kernel: str, location: Attribute | None, values: list[tuple[str, str]]) -> list[str]:
        """What makes the parameters of the kernel just opened visible to a debugger, as lines of its entry block.

        `values`: type and name of each in LLVM IR. Bytecode has no names for them; they get those of the program's text.
        """
        if not self._full or not kernel or location is None:
            return []
        path, line, _ = self._position(location)
        at = self._node(f"!DILocation(line: {line}, column: 0, scope: {kernel})")
        lines, nodes = [], []
        for i, (type_, value) in enumerate(values):
            nodes.append(self._node(f"!DILocalVariable(name: {quote(f'arg{i}')}, arg: {i + 1}, scope: {kernel}, "
                                    f"file: {self._file(path)}, line: {line}, type: {self._basic_type(type_)})"))
            lines.append(f"  #dbg_value({type_} {value}, {nodes[-1]}, !DIExpression(), {at})")
        self._lines.append(f"{self._variables} = !{{{', '.join(nodes)}}}")
        return lines

    def _basic_type(self, type_: str) -> str:
        found = self._types.get(type_)
        if found is None:
            if type_.startswith("ptr"):
                text = '!DIDerivedType(tag: DW_TAG_pointer_type, name: "ptr", baseType: null, size: 64)'
            else:
                name, bits, encoding = _FLOATS.get(type_) or (type_, int(type_[1:]), "DW_ATE_signed")
                text = f"!DIBasicType(name: {quote(name)}, size: {max(bits, 8)}, encoding: {encoding})"
            found = self._types[type_] = self._node(text)
        return found

    def location(self, location: Attribute | None, kernel: str) -> str:
        """The `!N` of an instruction in the function `kernel` (from `kernel()`), or "" if it is unknown."""
        if location is None or not kernel:
            return ""
        key = (id(location), kernel)
        found = self._found.get(key)
        if found is None:
            self._keep.append(location)
            found = self._found[key] = self._location(location, kernel)
        return found

    def _location(self, location: Attribute, kernel: str) -> str:
        text_line = text_column = 0
        if isinstance(location, TextLocAttr):
            location, text_line, text_column = location.data
        frames = _frames(location)
        if not frames:
            return ""
        at = self._caller(tuple(frames[1:]), kernel)
        path, line, column = self._position(frames[0])
        place = Place(path, line, column, text_line, text_column, self._chain(frames))
        key = self._places.get(place)
        if key is None:
            key = self._keys[line] = self._keys.get(line, 0) + 1
            if key <= _MAX_COLUMN:
                self._places[place] = key
            else:
                key = 0
        return self._place(f"line: {line}, column: {key}", frames[0], kernel, at)

    def _caller(self, frames: tuple[Attribute, ...], kernel: str) -> str:
        """The `!N` of a call's place; "" if nothing was called."""
        at = ""
        for depth in range(len(frames) - 1, -1, -1):
            key = (tuple(map(id, frames[depth:])), kernel)
            found = self._callers.get(key)
            if found is None:
                self._keep.append(frames)
                _, line, column = self._position(frames[depth])
                found = self._callers[key] = self._place(f"line: {line}, column: {column}", frames[depth], kernel, at)
            at = found
        return at

    def _place(self, position: str, frame: Attribute, kernel: str, at: str) -> str:
        path, line, _ = self._position(frame)
        scope = self._callee(frame, path, line) if at else self._in_file(kernel, path)
        tail = f", inlinedAt: {at}" if at else ""
        return self._node(f"!DILocation({position}, scope: {scope}{tail})")

    def _callee(self, frame: Attribute, path: str, line: int) -> str:
        subprogram = _subprogram_of(frame)
        if subprogram is None:
            return self._subprogram((path, "", line), "", "", path, line)
        name, linkage = subprogram.subprogram_name.replace("\0", "?"), subprogram.linkage_name.replace("\0", "?")
        start = _line(subprogram.line)
        return self._subprogram((path, linkage or name, start), name, linkage, path, start)

    def _chain(self, frames: list[Attribute]) -> tuple[Frame, ...]:
        """The calls around a location's innermost place: each callee's name, and where it was called."""
        chain = []
        for inner, outer in pairwise(frames):
            subprogram = _subprogram_of(inner)
            chain.append(Frame(subprogram.subprogram_name if subprogram is not None else "", *self._position(outer)))
        return tuple(chain)

    @staticmethod
    def _position(frame: Attribute) -> tuple[str, int, int]:
        """(file, line, column), as line tables can hold them."""
        position = source_position(frame)
        assert position is not None
        path, line, column = position
        path = path.replace("\0", "?").rstrip("/") or "<unknown>"
        return path, _line(line), column if 0 <= column <= _MAX_COLUMN else 0

    def _in_file(self, kernel: str, path: str) -> str:
        """The kernel's scope as seen from a file: itself in its own."""
        key = (kernel, path)
        found = self._block_files.get(key)
        if found is None:
            file = self._file(path)
            own = any(line.startswith(f"{kernel} = ") and f"file: {file}," in line for line in self._lines)
            found = self._block_files[key] = kernel if own else self._node(
                f"!DILexicalBlockFile(scope: {kernel}, file: {file}, discriminator: 0)")
        return found

    def lines(self) -> list[str]:
        """The metadata as LLVM IR lines; none if no location was ever known."""
        if not self._unit:
            return []
        version = self._node('!{i32 2, !"Debug Info Version", i32 3}')
        return [*self._lines, f"!llvm.dbg.cu = !{{{self._unit}}}", f"!llvm.module.flags = !{{{version}}}",
                *table_lines(self._places.items(), self._program, callers=not self._full)]
