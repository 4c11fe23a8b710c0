"""`hoist-invariants`: scalar, pointer and view ops whose operands don't change in a loop move before it.

    scf.for ... { %v = nv_tileaa.block_tile %m; use %v }   ->   %v = nv_tileaa.block_tile %m; scf.for ... { use %v }

Inner loops come first, so an op climbs as far as it can. Ops move only if running them when the loop wouldn't is
harmless: not a division whose divisor may be zero, not an assumption. Tensors stay: registers are dearer than the op.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation

from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.base import TileOp
from tileiras.transforms.rules import int_constant
from tileiras.transforms.structure import is_defined_in

DIVISIONS = (arith.Divsi, arith.Divui, arith.FloorDivsi, arith.CeilDivsi, arith.CeilDivui, arith.Remsi, arith.Remui)


def run(top: Operation, context: Any = None) -> None:
    """Move loop-invariant ops of a module or function out of its loops, in place."""
    loops = [op for op in top.walk() if isinstance(op, (arith.For, aa.Loop))]
    for loop in reversed(loops):
        _hoist(loop)


def _hoist(loop: Operation) -> None:
    body = loop.regions[0].block
    outside = loop.parent
    assert outside is not None
    for op in tuple(body.ops):
        if isinstance(op, TileOp) and op.PURE and not op.regions and _movable(op) and \
                not any(is_defined_in(v, body) for v in op.operands):
            op.detach()
            outside.insert_op_before(op, loop)


def _movable(op: TileOp) -> bool:
    if isinstance(op, aa.Assume) or any(isinstance(r.type, TensorType) for r in op.results):
        return False
    return not isinstance(op, DIVISIONS) or int_constant(op.operands[1]) not in (None, 0, -1)
