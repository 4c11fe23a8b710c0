"""Where values go that leave a block with its last op: the results of the branch or loop that it ends, or what a loop carries;
and all that an op hands on.

    scf.yield in scf.if           its results                     break       the loop's results
    scf.yield, continue in for    what it carries, its results    continue    what the loop carries

Of nv_tileaa and of nv_tileas alike.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from xdsl.ir import Operation, SSAValue

COUNTED = "scf.for"
LOOPS = frozenset({COUNTED, "nv_tileaa.loop", "nv_tileas.loop"})
_ENDLESS = LOOPS - {COUNTED}
_TARGETS = LOOPS | {"scf.if"}


def exit_target(op: Operation) -> Operation | None:
    """The op that a terminator gives its values to: yield its parent; break the loop without a count that it stands in, continue
    the nearest loop. None for what ends the body of a reduction, a scan or a function."""
    parent = op.parent_op()
    if op.name == "scf.yield":
        return parent if parent is not None and parent.name in _TARGETS else None
    mnemonic = op.name.partition(".")[2]
    if mnemonic not in ("break", "continue"):
        return None
    wanted = _ENDLESS if mnemonic == "break" else LOOPS
    while parent is not None and parent.name not in wanted:
        parent = parent.parent_op()
    return parent


def ends_of(loop: Operation) -> list[Operation]:
    """The ops that end an iteration of a loop, or the loop."""
    return [op for op in loop.walk() if op is not loop and exit_target(op) is loop]


def receivers(op: Operation) -> list[Sequence[SSAValue]]:
    """The values that stand for a terminator's operands, in their order: one list, or two."""
    target: Any = exit_target(op)
    if target is None:
        return []
    if target.name == "scf.if" or op.name.endswith(".break"):
        return [target.results]
    return [target.carried_args(), target.results] if target.name == COUNTED else [target.carried_args()]


def handed_on(op: Operation) -> Iterator[tuple[Sequence[SSAValue], Sequence[SSAValue]]]:
    """Values and those that stand for them, in the same order: what a loop begins with, for what it carries and, where it may run
    no iteration, gives; what a terminator gives, for its receivers."""
    if op.name in LOOPS:
        loop: Any = op
        yield loop.carried_inits(), loop.carried_args()
        if op.name == COUNTED:
            yield loop.carried_inits(), loop.results
    for ends in receivers(op):
        yield op.operands, ends
