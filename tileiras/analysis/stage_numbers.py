"""Where the number of a ring's stage goes, and where it is from, through branches and loops that hand it on.

    %first = scf.if %some { %n = consumer_wait %pipe ; yield %n } else { yield 0 }
    scf.for ... (%now = %first) {
      %next = scf.if %more { %m = consumer_wait %pipe ; yield %m } else { yield 0 }
      ... extract_slice %ring, %now ...             of %n and %m
      yield %next
    }
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Block, Operation, SSAValue

YIELD, IF, FOR = "scf.yield", "scf.if", "scf.for"
SLICE, WAIT = "nv_tileas.extract_slice", "nv_tileas.consumer_wait"
BOUNDS = 3
"""Operands of a loop in front of what it carries."""


def handed_on(number: SSAValue) -> list[SSAValue]:
    """A number and all values that branches and loops make of it."""
    found = {number: None}
    pending = [number]
    while pending:
        for use in pending.pop().uses:
            for v in _becomes(use.operation, use.index):
                if v not in found:
                    found[v] = None
                    pending.append(v)
    return list(found)


def _becomes(user: Any, index: int) -> list[SSAValue]:
    if user.name == FOR and index >= BOUNDS:
        return [user.carried_args()[index - BOUNDS], user.results[index - BOUNDS]]
    holder: Any = user.parent_op() if user.name == YIELD else None
    if holder is None or holder.name not in (IF, FOR):
        return []
    return [holder.results[index], *([holder.carried_args()[index]] if holder.name == FOR else [])]


def maker_of_number(number: SSAValue) -> Operation | None:
    """The op that a number is from first of all: of a branch's results where its condition holds, of what a loop carries in
    front of it; None where that is no op's result."""
    while True:
        owner: Any = number.owner
        if isinstance(owner, Block):
            loop: Any = owner.parent_op()
            place = owner.args.index(number) - 1        # type: ignore[arg-type]
            if loop is None or loop.name != FOR or place < 0:
                return None
            number = loop.operands[BOUNDS + place]
        elif owner.name == IF:
            number = owner.regions[0].block.last_op.operands[owner.results.index(number)]
        elif owner.name == FOR:
            number = owner.operands[BOUNDS + owner.results.index(number)]
        else:
            return owner


def pipe_of(buffer: SSAValue) -> SSAValue | None:
    """The pipe that gave the number of a stage to be read, if a buffer is one."""
    slot = buffer.owner
    if not isinstance(slot, Operation) or slot.name != SLICE:
        return None
    maker = maker_of_number(slot.operands[1])
    return maker.operands[0] if maker is not None and maker.name == WAIT else None
