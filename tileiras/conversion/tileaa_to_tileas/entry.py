"""`convert-tileaa-to-tileas`: one walk a function renames it and notes the facts of its accesses; globals are carried over."""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tileiras.conversion.tileaa_to_tileas.rename import renamed, renamed_function


def run(module: ModuleOp, context: Any) -> ModuleOp:
    """A new module of nv_tileas functions; remarks go to `context.remarks` where that is a list."""
    out: list[Operation] = []
    for op in module.body.block.ops:
        if op.name == "nv_tileaa.func":
            func = renamed_function(op, context)
            out.append(func)
            if context.remarks is not None:
                from tileiras.conversion.tileaa_to_tileas.remarks import report
                report(func, context.remarks)
        else:
            out.append(renamed(op, [], []))
    return ModuleOp(out)
