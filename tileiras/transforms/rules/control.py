"""What control flow says needlessly: branches on constants, results that every branch shares, carried values that stay.

Selects and branches: `choice.py` has the rules, this file says how arith and scf spell things.

    scf.if true { A } else { B }                           ->   A
    %r = scf.if %c { return } else { yield %x }; use %r    ->   scf.if ...; use %x
    %r = scf.for ... iter(%a = %x) { ...; yield %a }       ->   uses of %a and %r become uses of %x
"""
from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation, SSAValue

from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.transforms.rules import int_constant, int_width, rule
from tileiras.transforms.rules.choice import Words, inline_branch, reduce_select, select_value


def _negated(value: SSAValue) -> SSAValue | None:
    owner = value.owner
    if isinstance(owner, arith.Xori) and int_width(value.type) == 1 and int_constant(owner.operands[1]) == 1:
        return owner.operands[0]
    return None


def _equality(value: SSAValue) -> tuple[bool, tuple[SSAValue, ...]] | None:
    owner = value.owner
    if not isinstance(owner, arith.Cmpi):
        return None
    predicate = owner.properties["predicate"].data  # type: ignore[attr-defined]
    return (predicate == "eq", tuple(owner.operands)) if predicate in ("eq", "ne") else None


def _boolean(value: SSAValue) -> bool | None:
    known = int_constant(value) if int_width(value.type) == 1 else None
    return None if known is None else bool(known)


WORDS = Words(_boolean, _negated, _equality, arith.Select, arith.Yield)


@rule("arith.select")
def fold_select(op: Operation) -> SSAValue | None:
    value = select_value(op, WORDS)
    while value is None and reduce_select(op, WORDS):
        value = select_value(op, WORDS)
    return value


def inline_constant_if(op: Operation) -> Operation | None:
    """Replace an `scf.if` on a constant by the branch taken; gives the op to go on with, None if nothing was done.

    Branches that end in an early exit stay: what follows the `if` would be unreachable."""
    taken = int_constant(op.operands[0])
    if taken is None:
        return None
    before, block = op.prev_op, op.parent
    assert block is not None
    if not inline_branch(op, 0 if taken else 1, WORDS, lambda end: False):
        return None
    return block.first_op if before is None else before.next_op


def _next_values(loop: Operation) -> Iterator[Operation]:
    """The terminators that hand a loop the next iteration's values."""
    stack = [loop.regions[0].block]
    while stack:
        block = stack.pop()
        last = block.last_op
        if isinstance(last, aa.Continue) or (isinstance(last, arith.Yield) and block.parent is loop.regions[0]):
            yield last
        for op in block.ops:
            if isinstance(op, arith.If):
                stack.extend(b for region in op.regions for b in region.blocks)


def forward_loop_invariants(loop: arith.For | aa.LoopOp) -> None:
    """A carried value that every iteration hands on as it was is the initial value, and so is a for's result."""
    inits = loop.carried_inits()
    if not inits:
        return
    ends = list(_next_values(loop))
    for i, (arg, init) in enumerate(zip(loop.carried_args(), inits)):
        if all(end.operands[i] is arg or end.operands[i] is init for end in ends):
            arg.replace_all_uses_with(init)
            if isinstance(loop, arith.For):
                loop.results[i].replace_all_uses_with(init)
