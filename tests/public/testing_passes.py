"""A pass that the public tests use and no product needs: renaming a symbol together with its debug scopes.

    test-debuginfo-update-symbol-name=symbol-to-rename=kernels::f new-name=g scope=kernels::h update-uses=true
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation

from tileiras.dialects.cuda_tile import debug
from tileiras.dialects.cuda_tile.verify_error import InvalidOp

NAME = "test-debuginfo-update-symbol-name"


def update_symbol_name(options: str) -> Callable[[Operation], None]:
    """The pass with these options: `key=value` words."""
    values = dict(word.split("=", 1) for word in options.split())

    def run(top: Operation) -> None:
        symbol = find(top, values["symbol-to-rename"])
        scope = find(top, values["scope"]) if "scope" in values else top
        if not is_within(symbol, scope):
            raise InvalidOp(symbol, "attempted to update symbol names in a scope that did not enclose the symbol itself",
                            named=False)
        before, after = symbol.properties["sym_name"].data, values["new-name"]  # type: ignore[attr-defined]
        symbol.properties["sym_name"] = StringAttr(after)
        for op in symbol.walk():
            op.location = renamed(op.location, before, after)

    return run


def find(top: Operation, path: str) -> Operation:
    """The op that a path of symbols names, the module's name first."""
    name = path.split("::")[-1]
    return next(op for op in top.walk() if getattr(op.properties.get("sym_name"), "data", None) == name)


def is_within(op: Operation, scope: Operation) -> bool:
    parent: Operation | None = op.parent_op()
    while parent is not None and parent is not scope:
        parent = parent.parent_op()
    return parent is scope


def renamed(attribute: Any, before: str, after: str) -> Any:
    """A location or scope whose subprograms of one linkage name have another."""
    if isinstance(attribute, debug.DISubprogramAttr) and attribute.linkage_name == before:
        file, line, name, _, unit, scope_line = attribute.data
        return debug.DISubprogramAttr(file, line, name, after, unit, scope_line)
    if not isinstance(attribute, debug.DebugAttr):
        return attribute
    parts = tuple(renamed(part, before, after) if isinstance(part, Attribute) else part for part in attribute.data)
    return attribute if parts == attribute.data else type(attribute)(*parts)
