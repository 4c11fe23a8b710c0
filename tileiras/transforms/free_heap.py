"""`free-heap`: memory of `alloca ... global` is given back at every way out of the region that holds the alloca.

    scf.if %c {                                    scf.if %c {
      %p = alloca {global}                           %p = alloca {global}
      ...                                   ->       ...
      scf.yield }                                    dealloc %p
                                                     scf.yield }

Such memory lives as long as the region's run. A break or continue also gives back what the regions it leaves allocated.
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Block, Operation, SSAValue

from tileiras.dialects import arith, nv_tileas


def run(module: Operation, context: Any = None) -> None:
    """Insert the deallocs, in place."""
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func" and any(op.name == "nv_tileas.alloca" and "global" in op.properties for op in func.walk()):
            _Regions().block(func.regions[0].block, func)


class _Regions:
    """The walk: `heap` has the pointers of the open regions, outermost first; `loops` and `joins` how many of them the
    enclosing loops and ifs found."""

    def __init__(self) -> None:
        self.heap: list[SSAValue] = []
        self.loops: list[int] = []

    def block(self, block: Block, parent: Operation) -> None:
        start = len(self.heap)
        is_loop = isinstance(parent, arith.For) or parent.name == "nv_tileas.loop"
        if is_loop:
            self.loops.append(start)
        for op in list(block.ops):
            if op.name == "nv_tileas.alloca" and "global" in op.properties:
                self.heap.append(op.results[0])
            for region in op.regions:
                for inner in region.blocks:
                    self.block(inner, op)
            if op.name == "scf.yield":
                self.give_back(op, start)
            elif op.name in ("nv_tileas.break", "nv_tileas.continue"):
                self.give_back(op, self.loops[-1])
            elif op.name == "nv_tileas.return":
                self.give_back(op, 0)
        if is_loop:
            self.loops.pop()
        del self.heap[start:]

    def give_back(self, op: Operation, depth: int) -> None:
        if len(self.heap) > depth:
            dealloc = nv_tileas.Dealloc.make([self.heap[depth:]])
            dealloc.location = op.location
            assert op.parent is not None
            op.parent.insert_op_before(dealloc, op)
