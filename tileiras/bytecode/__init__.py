"""Tile IR bytecode: `read(data)` gives a cuda_tile module, `write(module, version)` gives bytes.

Both walk one table, `optable`: op, opcode, fields in wire order, the version each came with. Nothing loads until
used.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tileiras.bytecode.reader import check_arguments, read
    from tileiras.bytecode.version import SUPPORTED_VERSIONS
    from tileiras.bytecode.writer import write

__all__ = ["SUPPORTED_VERSIONS", "check_arguments", "read", "write"]

_HOME = {"read": "reader", "check_arguments": "reader", "write": "writer", "SUPPORTED_VERSIONS": "version"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
