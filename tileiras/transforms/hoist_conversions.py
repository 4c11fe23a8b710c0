"""`hoist-conversions`: a loop-invariant value that a loop would convert anew in each iteration is converted once before it.

    scf.for ... {                                      %y = nv_tileas.convert_layout %x
      %y = nv_tileas.convert_layout %x          ->     scf.for ... {
      ... }                                              ... }
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Operation

from tileiras.dialects import arith, nv_tileas
from tileiras.transforms.structure import is_defined_in


def run(module: Operation, context: Any = None) -> None:
    """Move them, in place."""
    for func in module.regions[0].block.ops:
        if func.name != "nv_tileas.func":
            continue
        for loop in reversed(loops_of(func)):
            body, outside = loop.regions[0].block, loop.parent
            assert outside is not None
            for op in tuple(body.ops):
                if isinstance(op, nv_tileas.ConvertLayout) and not is_defined_in(op.operands[0], body):
                    op.detach()
                    outside.insert_op_before(op, loop)


def loops_of(func: Operation) -> list[Operation]:
    """A function's loops, outer ones before those they hold."""
    return [op for op in func.walk() if isinstance(op, arith.For) or op.name == "nv_tileas.loop"]
