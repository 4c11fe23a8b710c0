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

from tileiras.analysis.exits import COUNTED, handed_on

IF = "scf.if"
SLICE, WAIT = "nv_tileas.extract_slice", "nv_tileas.consumer_wait"


def becomes(v: SSAValue, user: Operation) -> list[SSAValue]:
    """What a user of a value makes of it that is the same number: a branch's results, what a loop carries; none where it takes the
    number itself."""
    return [there for given, taken in handed_on(user) for here, there in zip(given, taken) if here is v]


def numbers_of(number: SSAValue) -> list[SSAValue]:
    """A number and all values that branches and loops make of it."""
    found = {number: None}
    pending = [number]
    while pending:
        v = pending.pop()
        new = [other for use in v.uses for other in becomes(v, use.operation) if other not in found]
        found.update(dict.fromkeys(new))
        pending += new
    return list(found)


def maker_of_number(number: SSAValue) -> Operation | None:
    """The op that a number is from first of all: of a branch's results where its condition holds, of what a loop carries in
    front of it; None where that is no op's result."""
    while True:
        owner: Any = number.owner
        if isinstance(owner, Block):
            loop: Any = owner.parent_op()
            if loop is None or loop.name != COUNTED or number is owner.args[0]:
                return None
            number = loop.carried_inits()[loop.carried_args().index(number)]
        elif owner.name == IF:
            number = owner.regions[0].block.last_op.operands[owner.results.index(number)]
        elif owner.name == COUNTED:
            number = owner.carried_inits()[owner.results.index(number)]
        else:
            return owner


def pipe_of(buffer: SSAValue) -> SSAValue | None:
    """The pipe that gave the number of a stage to be read, if a buffer is one."""
    slot = buffer.owner
    if not isinstance(slot, Operation) or slot.name != SLICE:
        return None
    maker = maker_of_number(slot.operands[1])
    return maker.operands[0] if maker is not None and maker.name == WAIT else None
