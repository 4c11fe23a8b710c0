"""`keep-branches`: a branch that makes a tile stays a branch.

    scf.if %diagonal { yield select %below, %s, %low }              scf.if %diagonal { ... }
                else { yield %s }                          ->                   else { ... } {apart}

LLVM may compute what is in a branch whichever way is taken, and choose. It knows of elements only, each of which costs next to
nothing; of a tile (scores that attention masks on its diagonal alone) that is much in all other iterations, and the truth values
are held in registers for it (64x64 tiles of 128 features, B200: 21.9 us, 14.2 so). `apart` keeps it from that.

Where there is no copy engine the warps that multiply copy, too: a branch would part what they do.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import TensorType, UnitAttr
from xdsl.ir import Block, Operation, SSAValue

from tileiras.dialects.nv_tileas import layout_of

LEAST = 16
"""Elements a thread that a branch makes."""


def run(module: Operation, context: Any) -> None:
    """Mark branches, in place."""
    if not context.target.has_tma:
        return
    for op in module.walk():
        if op.name == "scf.if" and any(_may_be_flattened(region.block) for region in op.regions if region.blocks):
            op.properties["apart"] = UnitAttr()


def _may_be_flattened(block: Block) -> bool:
    """Whether a branch makes a large tile and has no effects that would keep LLVM from computing it ahead."""
    end = block.last_op
    return end is not None and any(map(_is_made_large, [v for v in end.operands if v.owner.parent is block])) and \
        all(getattr(op, "PURE", False) and not op.regions for op in block.ops if op is not end)


def _is_made_large(v: SSAValue) -> bool:
    return isinstance(v.type, TensorType) and layout_of(v).num_regs >= LEAST
