"""Whether two values that loops carry or branches give are always the same one.

    %x, %y = for iter_args(%a = %t, %b = %t) {        %a and %b, %p and %q, %x and %y
      %p, %q = if %c { yield %s, %s } else { yield %a, %b }
      yield %p, %q
    }

So frontends carry tokens: of what was done to an array last, and of what was stored to it last.
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from tileiras.analysis.exits import COUNTED, LOOPS, exit_target

MOST_PAIRS = 64
"""That a comparison may lead to; more aren't followed."""


def are_equal(a: SSAValue, b: SSAValue) -> bool:
    """Whether they are: supposing that they are, all that they are given is equal, too."""
    assumed: set[tuple[SSAValue, SSAValue]] = set()
    pending = [(a, b)]
    while pending:
        pair = pending.pop()
        if pair[0] is pair[1] or pair in assumed:
            continue
        given = _given(*pair)
        if given is None or len(assumed) >= MOST_PAIRS:
            return False
        assumed.add(pair)
        pending += given
    return True


def _given(a: SSAValue, b: SSAValue) -> list[tuple[SSAValue, SSAValue]] | None:
    """What two values are, wherever control comes from, as pairs; None where they aren't the same kind of one op's."""
    if isinstance(a, BlockArgument) and isinstance(b, BlockArgument) and a.block is b.block:
        return _carried(a.block, a.index, b.index)
    if not isinstance(a, OpResult) or not isinstance(b, OpResult) or a.op is not b.op:
        return None
    op: Any = a.op
    if op.name == COUNTED:
        block = op.regions[0].block
        first = len(block.args) - len(op.results)
        return _carried(block, first + a.index, first + b.index)
    if op.name in LOOPS or op.name == "scf.if":
        return [(end.operands[a.index], end.operands[b.index]) for end in _ends(op) if not end.name.endswith(".continue")]
    return None


def _carried(block: Block, a: int, b: int) -> list[tuple[SSAValue, SSAValue]] | None:
    loop: Any = block.parent_op()
    if loop is None or loop.name not in LOOPS:
        return None
    inits = loop.carried_inits()
    first = len(block.args) - len(inits)
    if min(a, b) < first:
        return None
    again = [end for end in _ends(loop) if not end.name.endswith(".break")]
    return [(inits[a - first], inits[b - first]), *((end.operands[a - first], end.operands[b - first]) for end in again)]


def _ends(target: Operation) -> list[Operation]:
    """The terminators that give an op its values."""
    return [op for op in target.walk() if op.next_op is None and exit_target(op) is target]
