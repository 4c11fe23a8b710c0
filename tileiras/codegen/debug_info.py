"""Source locations as LLVM debug metadata: what `.loc` lines and line tables come from.

    DI(full=False)                      one a module
    scope = di.kernel(name, location)   the `!dbg` of a function
    di.location(location, scope)        the `!dbg` of an instruction, or "" where nothing is known

A call site becomes an inlined location, so a debugger shows the helper and who called it. With `full` the module
asks for debug sections besides line directives (`--device-debug`).
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Attribute

from tileiras.dialects.cuda_tile.debug import (
    MAX_SCOPE_DEPTH,
    CallSiteLocAttr,
    DILocAttr,
    DISubprogramAttr,
    source_position,
)

PRODUCER = "tileiras"
_MAX_COLUMN = 65535
"""LLVM keeps columns in 16 bits; a larger one means "unknown"."""


def _quote(text: str) -> str:
    return '"' + "".join(c if c.isascii() and c.isprintable() and c not in '"\\' else "".join(
        f"\\{byte:02X}" for byte in c.encode()) for c in text) + '"'


def _subprogram_of(location: Attribute | None) -> DISubprogramAttr | None:
    """The function that a location lies in, or None."""
    scope = location.scope if isinstance(location, DILocAttr) else None
    for _ in range(MAX_SCOPE_DEPTH):
        if scope is None or isinstance(scope, DISubprogramAttr):
            return scope
        scope = getattr(scope, "scope", None)
    return None


class DebugInfo:
    """The metadata of one module, numbered from `first` on."""

    def __init__(self, *, full: bool = False, optimized: bool = True, first: int = 1) -> None:
        self._full, self._optimized = full, optimized
        self._lines: list[str] = []
        self._next = first
        self._files: dict[str, str] = {}
        self._subprograms: dict[tuple[str, str, int], str] = {}
        self._block_files: dict[tuple[str, str], str] = {}
        self._found: dict[tuple[int, str], str] = {}
        self._keep: list[Any] = []  # locations are known by identity while they live
        self._unit = ""
        self._type = ""

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
                f"!DIFile(filename: {_quote(name)}, directory: {_quote(folder if folder else slash)})")
        return found

    def _subprogram(self, key: tuple[str, str, int], name: str, linkage: str, path: str, line: int) -> str:
        found = self._subprograms.get(key)
        if found is None:
            file = self._file(path)
            if not self._unit:
                kind = "FullDebug" if self._full else "DebugDirectivesOnly"
                self._unit = self._node(
                    f"distinct !DICompileUnit(language: DW_LANG_C99, file: {file}, producer: {_quote(PRODUCER)}, "
                    f"isOptimized: {'true' if self._optimized else 'false'}, runtimeVersion: 0, emissionKind: {kind})")
                self._type = self._node("!DISubroutineType(types: null)")
            found = self._subprograms[key] = self._node(
                f"distinct !DISubprogram(name: {_quote(name)}, linkageName: {_quote(linkage)}, scope: {file}, "
                f"file: {file}, line: {line}, type: {self._type}, scopeLine: {line}, "
                f"spFlags: DISPFlagDefinition, unit: {self._unit})")
        return found

    def kernel(self, name: str, location: Attribute | None) -> str:
        """The function-level `!N` of a kernel, or "" if its location is unknown."""
        position = source_position(location)
        if position is None:
            return ""
        path, line, _ = position
        subprogram = _subprogram_of(location)
        shown = subprogram.subprogram_name if subprogram is not None else name
        return self._subprogram(("kernel", name, 0), shown, name, path, subprogram.line if subprogram else line)

    def location(self, location: Attribute | None, kernel: str, inlined_at: str = "", depth: int = 0) -> str:
        """The `!N` of an instruction in the function `kernel` (from `kernel()`), or "" if it is unknown."""
        if location is None or not kernel:
            return ""
        key = (id(location), kernel + inlined_at)
        found = self._found.get(key)
        if found is None:
            self._keep.append(location)
            found = self._found[key] = self._location(location, kernel, inlined_at, depth)
        return found

    def _location(self, location: Attribute, kernel: str, inlined_at: str, depth: int) -> str:
        if isinstance(location, CallSiteLocAttr) and depth < MAX_SCOPE_DEPTH:
            caller = self.location(location.caller, kernel, inlined_at, depth + 1)
            return self.location(location.callee, kernel, caller or inlined_at, depth + 1)
        position = source_position(location)
        if position is None:
            return ""
        path, line, column = position
        scope = kernel
        if inlined_at:
            subprogram = _subprogram_of(location)
            name, start = (subprogram.subprogram_name, subprogram.line) if subprogram is not None else ("", line)
            linkage = subprogram.linkage_name if subprogram is not None else ""
            scope = self._subprogram((path, linkage or name, start), name, linkage, path, start)
        else:
            scope = self._in_file(kernel, path)
        column = column if 0 <= column <= _MAX_COLUMN else 0
        tail = f", inlinedAt: {inlined_at}" if inlined_at else ""
        return self._node(f"!DILocation(line: {max(line, 0)}, column: {column}, scope: {scope}{tail})")

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
        return [*self._lines, f"!llvm.dbg.cu = !{{{self._unit}}}", f"!llvm.module.flags = !{{{version}}}"]
