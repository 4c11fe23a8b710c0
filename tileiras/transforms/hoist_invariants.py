"""`hoist-invariants`: scalar, pointer and view ops whose operands don't change in a loop move before it.

    scf.for ... { %v = nv_tileaa.block_tile %m; use %v }   ->   %v = nv_tileaa.block_tile %m; scf.for ... { use %v }

Inner loops come first, so an op climbs as far as it can. Ops move only if running them when the loop wouldn't is
harmless: not a division whose divisor may be zero, not an assumption. Tensors stay, registers are dearer than the op: but for
what only products read, also in a branch of the loop (keys that are turned where an iteration counts): it is brought to where
they read it once then.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, Use

from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.base import TileOp
from tileiras.transforms.rules import int_constant
from tileiras.transforms.structure import is_defined_in

PRODUCTS, FACTORS = ("nv_tileaa.dot", "nv_tileaa.dot_scaled"), 2
"""Whose first operands are multiplied."""
MOST_OPS = 8
"""Between a tile and the product that reads it."""
DIVISIONS = (arith.Divsi, arith.Divui, arith.FloorDivsi, arith.CeilDivsi, arith.CeilDivui, arith.Remsi, arith.Remui)


def run(top: Operation, context: Any = None) -> None:
    """Move loop-invariant ops of a module or function out of its loops, in place."""
    loops = [op for op in top.walk() if isinstance(op, (arith.For, aa.Loop))]
    for loop in reversed(loops):
        hoist(loop)


def hoist(loop: Operation) -> None:
    """Move what a loop doesn't change in front of it, in place."""
    body = loop.regions[0].block
    outside = loop.parent
    assert outside is not None
    blocks = _blocks(body)
    for block in blocks:
        for op in tuple(block.ops):
            if isinstance(op, TileOp) and op.PURE and not op.regions and (block is body or _is_read_by_products(op)) and \
                    _movable(op) and not any(is_defined_in(v, inner) for v in op.operands for inner in blocks):
                op.detach()
                outside.insert_op_before(op, loop)


def _blocks(body: Block) -> list[Block]:
    """A loop's body and its branches'."""
    found = [body]
    for block in found:
        found += [region.block for op in block.ops if isinstance(op, arith.If) for region in op.regions if region.blocks]
    return found


def _movable(op: TileOp) -> bool:
    if isinstance(op, aa.Assume) or (any(isinstance(r.type, TensorType) for r in op.results) and not _is_read_by_products(op)):
        return False
    return not isinstance(op, DIVISIONS) or int_constant(op.operands[1]) not in (None, 0, -1)


def _is_read_by_products(op: Operation, depth: int = MOST_OPS) -> bool:
    """Whether a tile of a loop, or what is made of it there, is multiplied, and nothing else is done with it."""
    def is_such(use: Use) -> bool:
        user = use.operation
        if user.name in PRODUCTS:
            return use.index < FACTORS
        return depth > 1 and getattr(user, "PURE", False) and not user.regions and _is_read_by_products(user, depth - 1)
    uses = [use for r in op.results if isinstance(r.type, TensorType) for use in r.uses]
    return bool(uses) and all(map(is_such, uses))
