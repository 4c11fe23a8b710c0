"""Does a `continue` end its counted loop, since all later iterations would change nothing?

Python's `for ... break` is a loop without a break here, that carries whether it is over:

    scf.for %i = %lo to %hi step %s iter_args(%x = %x0, %over = %false) {
      scf.if %over { nv_tileas.continue %x, %over }         // nothing happens any more
      ...

What such an iteration does depends on carried values and on values from outside alone, and it carries them on as they are: so does
the next one. Of the other ends of the body, those that carry a true %over are ends of the loop, too.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.exits import COUNTED, exit_target
from tileiras.analysis.program_slice import is_made_in
from tileiras.dialects.arith import Constant
from tileiras.dialects.base import TileOp
from tileiras.dialects.nv_tileaa import MemTokenType

CONTINUES = frozenset({"nv_tileaa.continue", "nv_tileas.continue"})


def ends_the_loop(op: Operation) -> bool:
    """Of an nv_tileas.continue, or an scf.yield at the end of a loop's body: whether no later iteration changes anything."""
    loop: Any = exit_target(op)
    return loop is not None and loop.name == COUNTED and (_is_idle(op, loop) or _says_so(op, loop))


def _is_idle(op: Operation, loop: Any) -> bool:
    """Whether an iteration that comes here has changed nothing, and the next one comes here again."""
    carried = list(loop.carried_args())
    if any(given is not had and not isinstance(had.type, MemTokenType) for given, had in zip(op.operands, carried)):
        return False
    here = op
    while here is not loop:
        if not _is_first(here):
            return False
        parent = here.parent_op()
        assert parent is not None, "a continue stands in its loop"
        if parent is not loop and not (parent.name == "scf.if" and _stays(parent.operands[0], loop, carried)):
            return False
        here = parent
    return True


def _says_so(op: Operation, loop: Any) -> bool:
    """Whether the carried value on which a loop's iterations are idle is true from here on."""
    for first in loop.regions[0].block.ops:
        if first.name == "scf.if":
            inner = first.regions[0].block.last_op
            if inner is None or inner.name not in CONTINUES or not _is_idle(inner, loop):
                return False
            carried = list(loop.carried_args())
            place = next((n for n, v in enumerate(carried) if v is first.operands[0]), None)
            return place is not None and _is_true(op.operands[place])
        if not _is_pure(first):
            return False
    return False


def _is_true(v: SSAValue) -> bool:
    owner: Any = v.owner
    return isinstance(owner, Constant) and isinstance(owner.value, IntegerAttr) and owner.value.value.data != 0


def _stays(condition: SSAValue, loop: Operation, carried: list[SSAValue]) -> bool:
    """Whether a value is carried, or made outside the loop."""
    return any(condition is v for v in carried) or not is_made_in(condition, loop)


def _is_pure(op: Operation) -> bool:
    return isinstance(op, TileOp) and op.PURE and not op.regions


def _is_first(op: Operation) -> bool:
    """Whether nothing before an op in its block has an effect."""
    before = op.prev_op
    while before is not None:
        if not _is_pure(before):
            return False
        before = before.prev_op
    return True
