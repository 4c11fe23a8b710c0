"""The boundary from nv_tileaa to nv_tileas: one walk a function; globals are carried over."""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from tileiras.conversion.tileaa_to_tileas.placement import Placement, renamed


def run(module: ModuleOp, context: Any) -> ModuleOp:
    """A new module of nv_tileas functions, for `context.target`; remarks go to `context.remarks` where that is a list."""
    out: list[Operation] = []
    for op in module.body.block.ops:
        if op.name == "nv_tileaa.func":
            placement = Placement(op, context.target)
            out.append(placement.convert())
            if context.remarks is not None:
                from tileiras.conversion.tileaa_to_tileas.remarks import report
                report(placement, context.remarks)
        else:
            out.append(renamed(op, [], []))
    return ModuleOp(out)
