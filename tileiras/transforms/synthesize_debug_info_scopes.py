"""`synthesize-debug-info-scopes` on cuda_tile: places in files become places within a subprogram, which bytecode keeps.

    entry @k() { ... loc("k.py":12:4) } loc("k.py":10:1)

gets a subprogram `k` of k.py, line 10, in a compile unit of the module's file; ops without a place take the entry's.
Entries that have a scope stay as they are. So text without debug information keeps its lines through
`tileiras-translate`. Source: the public pass of that name.
"""
from __future__ import annotations

import posixpath
from typing import Any

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import Attribute, Operation

from tileiras.dialects.cuda_tile.debug import (
    CallSiteLocAttr,
    DICompileUnitAttr,
    DIFileAttr,
    DILocAttr,
    DISubprogramAttr,
    TextLocAttr,
)
from tileiras.dialects.cuda_tile.ops import Entry

UNKNOWN_FILE = DIFileAttr("<unknown>", "")
Place = tuple[str, int, int]


def run(top: Operation, context: Any = None) -> None:
    """Give every entry under `top` without a scope one, in place."""
    for entry in [op for op in top.walk() if isinstance(op, Entry)]:
        if not isinstance(entry.location, DILocAttr):
            module = entry.parent_op()
            _give_scope(entry, _file_of(place_of(module.location if module is not None else None)))


def place_of(location: Attribute | None) -> Place | None:
    """(file, line, column) of a location in a file, of the outermost caller for a call site."""
    while isinstance(location, (CallSiteLocAttr, TextLocAttr)):
        location = location.caller if isinstance(location, CallSiteLocAttr) else location.data[0]
    if isinstance(location, FileLineColLoc):
        return location.filename.data, location.line.data, location.column.data
    return None


def _file_of(place: Place | None) -> DIFileAttr:
    if place is None:
        return UNKNOWN_FILE
    directory, name = posixpath.split(place[0])
    return DIFileAttr(name, directory)


def _give_scope(entry: Any, unit_file: DIFileAttr) -> None:
    found = place_of(entry.location)
    file = unit_file if found is None else _file_of(found)
    own: Place = found or (file.file_name, 1, 1)
    name = entry.sym_name.data
    scope = DISubprogramAttr(file, own[1], name, name, DICompileUnitAttr(unit_file), own[1])
    for op in entry.walk():
        file_name, line, column = place_of(op.location) or own
        op.location = DILocAttr(file_name, line, column, scope)
