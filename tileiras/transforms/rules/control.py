"""What control flow says needlessly: branches on constants, results that every branch shares, carried values that stay.

Selects and branches: `choice.py` has the rules, this file says how arith and scf spell things.

    scf.if true { A } else { B }                           ->   A
    %r = scf.for %i = 0 to 8 step 8 iter(%a = %x) { A }    ->   A, with 0 for %i and %x for %a
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

PRODUCTS = frozenset({"nv_tileaa.dot", "nv_tileaa.dot_scaled"})


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


def inline_short_for(loop: arith.For) -> Operation | None:
    """Replace a `for` that constants tell to run once, or never, by its body or by nothing; gives the op to go on with, None if
    nothing was done. A body that goes on to the next iteration from inside stays; so does one with products, which passes behind
    this one look for in loops."""
    times = _times(loop)
    if times is None or times > 1 or any(op.name in PRODUCTS for op in loop.walk()):
        return None
    body, block, before = loop.regions[0].block, loop.parent, loop.prev_op
    end = body.last_op
    assert block is not None and end is not None
    values = list(loop.carried_inits())
    if times:
        if not isinstance(end, arith.Yield) or any(one is not end for one in _next_values(loop)):
            return None
        for arg, value in zip(body.args, (loop.operands[0], *values)):
            arg.replace_all_uses_with(value)
        values = list(end.operands)
        for inner in list(body.ops):
            if inner is not end:
                inner.detach()
                block.insert_op_before(inner, loop)
    for result, value in zip(loop.results, values):
        result.replace_all_uses_with(value)
    loop.detach()
    loop.erase()
    return block.first_op if before is None else before.next_op


def _times(loop: arith.For) -> int | None:
    """How often a `for` runs that constants tell to run at most once (0 or 1); 2 where they tell it runs more often."""
    lower, upper, step = (int_constant(v) for v in loop.operands[:3])
    if lower is None or upper is None or step is None:
        return None
    if "unsigned_cmp" in loop.properties:
        lower, upper, step = (v % (1 << int_width(loop.operands[0].type)) for v in (lower, upper, step))
    return 0 if lower >= upper else 1 if step >= upper - lower else 2


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
