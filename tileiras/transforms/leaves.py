"""Give every use of a cheap tensor its own copy, so that one constant doesn't tie the layouts of its users together.

A leaf is a constant, a splat or a range, or a view, broadcast or permutation of a leaf: it costs nothing to make in
whatever layout its user wants.

    %c = splat 0.0 ; %a = addf %x, %c ; %b = mulf %y, %c   ->   one splat for %a, one for %b
"""
from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation

_SOURCES = ("arith.constant", "nv_tileas.splat", "nv_tileas.make_range")
_SHAPES = ("nv_tileas.view", "nv_tileas.broadcast", "nv_tileas.permute")
MAX_COPIES = 64
"""A leaf used more often than this keeps one copy for the remaining uses."""


def is_leaf(op: object) -> bool:
    """Whether `op` is a cheap producer of a tensor."""
    if not isinstance(op, Operation) or len(op.results) != 1 or not isinstance(op.results[0].type, TensorType):
        return False
    if op.name in _SOURCES:
        return True
    return op.name in _SHAPES and (not isinstance(op.operands[0].type, TensorType) or is_leaf(op.operands[0].owner))


def clone_leaves(func: Operation) -> None:
    """Clone leaves in place; users come before what they use, so whole chains are copied."""
    for op in reversed([op for op in func.walk() if is_leaf(op)]):
        uses = list(op.results[0].uses)
        for use in uses[1:MAX_COPIES]:
            user = use.operation
            copy = op.clone()
            block = user.parent
            assert block is not None
            block.insert_op_before(copy, user)
            user.operands[use.index] = copy.results[0]
