"""What control flow says needlessly: branches on constants, results that every branch shares, carried values that stay.

Selects and branches: `choice.py` has the rules, this file says how arith and scf spell things.

    scf.if true { A } else { B }                           ->   A
    %r = scf.for %i = 0 to 8 step 8 iter(%a = %x) { A }    ->   A, with 0 for %i and %x for %a
    loop { A ; break %x }                                  ->   A, with %x for its result
    scf.if %c { A } ; scf.if %c { B }                      ->   scf.if %c { A ; B }
    %r = scf.if %c { return } else { yield %x }; use %r    ->   scf.if ...; use %x
    %r = scf.for ... iter(%a = %x) { ...; yield %a }       ->   uses of %a and %r become uses of %x
"""
from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Any

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.exits import ends_of
from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.transforms.rules import build, int_constant, int_width, rule
from tileiras.transforms.rules.choice import Words, inline_branch, leaves, merge_ifs, reduce_select, select_value
from tileiras.transforms.structure import insert_in_front, is_movable, move_in_front, replace

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


def merge_with_earlier_if(op: arith.If) -> Operation | None:
    """One `scf.if` for two with one condition, between which only values are computed, and not from what the first gives; None if
    nothing was done. Behind one that may leave nothing is computed in front of it."""
    between: list[Operation] = []
    before = op.prev_op
    while before is not None and is_movable(before):
        between.append(before)
        before = before.prev_op
    if not isinstance(before, arith.If) or (between and any(leaves(region, WORDS) for region in before.regions)) or \
            any(v.owner is before for one in between for v in one.operands):
        return None
    return merge_ifs(before, op, WORDS)


def inline_short_for(loop: arith.For) -> Operation | None:
    """Replace a `for` that constants tell to run once, or never, by its body or by nothing; gives the op to go on with, None if
    nothing was done. A body with products stays: passes behind this one look for them in loops."""
    times = trips(loop)
    if times is None or times > 1 or any(op.name in PRODUCTS for op in loop.walk()):
        return None
    block, before = loop.parent, loop.prev_op
    assert block is not None
    unroll(loop, times)
    return block.first_op if before is None else before.next_op


def inline_single_pass(loop: aa.LoopOp) -> Operation | None:
    """Replace a `loop` that breaks at the end of its first pass and nowhere else, as frontends write functions that return in the
    middle; gives the op to go on with, None if nothing was done."""
    body, block, before = loop.regions[0].block, loop.parent, loop.prev_op
    end = body.last_op
    if not isinstance(end, aa.Break) or ends_of(loop) != [end]:
        return None
    assert block is not None
    for arg, value in zip(body.args, loop.operands):
        arg.replace_all_uses_with(value)
    move_in_front(loop, body, end)
    replace(loop, list(end.operands))
    return block.first_op if before is None else before.next_op


def trips(loop: arith.For) -> int | None:
    """How often a `for` runs, where constants tell; None for one whose iterations end in several places, or whose step, which the
    language wants positive, isn't."""
    return trips_between(loop, *(int_constant(v) for v in loop.operands[:3]))


def trips_between(loop: arith.For, lower: int | None, upper: int | None, step: int | None) -> int | None:
    """How often it runs if these are its bounds and its step; None where one isn't known."""
    if lower is None or upper is None or step is None:
        return None
    if "unsigned_cmp" in loop.properties:
        lower, upper, step = (v % (1 << int_width(loop.operands[0].type)) for v in (lower, upper, step))
    end = loop.regions[0].block.last_op
    if lower >= upper:
        return 0
    if step < 1 or not isinstance(end, arith.Yield) or any(one is not end for one in _next_values(loop)):
        return None
    return -((lower - upper) // step)


def unroll(loop: arith.For, times: int, apart: AbstractSet[int] = frozenset()) -> None:
    """Put `times` copies of a loop's body in its place: as many as it has iterations. Tokens that it carries under the numbers
    `apart` aren't handed on from one to the next: each begins with what was before the loop, and behind it stands for all."""
    body, t = loop.regions[0].block, loop.operands[0].type
    end = body.last_op
    assert end is not None
    first = values = list(loop.carried_inits())
    ends: list[list[SSAValue]] = []
    for n in range(times):
        now: dict[SSAValue, SSAValue] = {body.args[0]: _counter(loop, n, t)}
        now |= {arg: first[i] if i in apart else values[i] for i, arg in enumerate(loop.carried_args())}
        if n == times - 1:
            for arg, value in now.items():
                arg.replace_all_uses_with(value)
            move_in_front(loop, body, end)
        else:
            for op in body.ops:
                if op is not end:
                    copy = op.clone(now)
                    insert_in_front(loop, copy)
                    now.update(zip(op.results, copy.results))
        values = [now.get(v, v) for v in end.operands]
        ends.append(values)
    replace(loop, [_join(loop, [at_end[i] for at_end in ends]) if i in apart else v for i, v in enumerate(values)])


def _counter(loop: arith.For, n: int, t: Any) -> SSAValue:
    """The counter in iteration `n` of a loop between constants."""
    lower, _, step = (int_constant(v) for v in loop.operands[:3])
    if n == 0 or lower is None or step is None:
        return loop.operands[0]
    half = 1 << (int_width(t) - 1)
    return build(loop, arith.Constant, (), t, {"value": IntegerAttr((lower + n * step + half) % (2 * half) - half, t)})


def _join(loop: arith.For, tokens: list[SSAValue]) -> SSAValue:
    return build(loop, aa.JoinMemToken, tokens, tokens[0].type)


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
