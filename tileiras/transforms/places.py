"""Where ops that a pass added come from: from what they stand before, or else from what they stand in."""
from __future__ import annotations

from xdsl.dialects.builtin import UnknownLoc
from xdsl.ir import Block, Operation


def keep_places(func: Operation) -> None:
    """Give ops of a function that say nothing of their place that of the next op in their block that does, or else the place of
    the op around them."""
    for region in func.regions:
        for block in region.blocks:
            _block(block, func)


def _block(block: Block, around: Operation) -> None:
    location = around.location
    for op in reversed(list(block.ops)):
        if isinstance(op.location, UnknownLoc):
            op.location = location
        else:
            location = op.location
    for op in block.ops:
        if op.regions:
            keep_places(op)
