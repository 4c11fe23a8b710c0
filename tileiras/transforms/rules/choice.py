"""Selects and branches, at whichever level they stand: what chooses between equals, or is decided already.

    select %c, %a, %a                       ->  %a
    select true, %a, %b                     ->  %a
    select %c, true, false                  ->  %c
    select (%a == %b), %a, %b               ->  %b          integers only: 0.0 equals -0.0
    select (not %c), %a, %b                 ->  select %c, %b, %a
    select %c, (select %c, %a, %b), %d      ->  select %c, %a, %d
    if ... { yield %x } else { yield %x }   ->  %x          also where the other branch leaves
    if %c { A } ; if %c { B }               ->  if %c { A; B }

`simplify` (arith and scf) and `canonicalize` (cuda_tile) both use these; `Words` says how a level spells things.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from xdsl.ir import Operation, Region, SSAValue

from tileiras.transforms.structure import insert_in_front, is_defined_in, move_in_front, replace


class Words(NamedTuple):
    """How a level says what the rules ask: whether a value is constantly true or false (else None); %x where it is
    `not %x`; for an integer comparison whether it asks for equality or for its contrary, and of what."""

    boolean: Callable[[SSAValue], bool | None]
    negated: Callable[[SSAValue], SSAValue | None]
    equality: Callable[[SSAValue], tuple[bool, tuple[SSAValue, ...]] | None]
    select: type[Operation]
    end: type[Operation]


def select_value(op: Operation, words: Words) -> SSAValue | None:
    """The value that a select is, if it is one of its operands."""
    condition, yes, no = op.operands
    if yes is no:
        return yes
    known = words.boolean(condition)
    if known is not None:
        return yes if known else no
    if condition.type == op.results[0].type and words.boolean(yes) is True and words.boolean(no) is False:
        return condition
    compared = words.equality(condition)
    if compared is not None and {*compared[1]} == {yes, no}:
        return no if compared[0] else yes
    return None


def reduce_select(op: Operation, words: Words) -> bool:
    """Let a select ask without a negation, and take nothing that a select on the same condition chose already."""
    condition, yes, no = op.operands
    inner = words.negated(condition)
    if inner is not None:
        op.operands = (inner, no, yes)
        return True
    for i, side in ((1, yes), (2, no)):
        if isinstance(side.owner, words.select) and side.owner.operands[0] is condition:
            op.operands = tuple(side.owner.operands[i] if j == i else v for j, v in enumerate(op.operands))
            return True
    return False


def forward_if_results(op: Operation, words: Words) -> bool:
    """A result for which every branch that comes back yields one and the same outer value is that value."""
    ends = [region.block.last_op for region in op.regions if region.blocks]
    yields = [end for end in ends if isinstance(end, words.end)]
    changed = False
    if not yields:
        return False
    for i, result in enumerate(op.results):
        value = yields[0].operands[i]
        if result.first_use is None or any(end.operands[i] is not value for end in yields):
            continue
        if not any(is_defined_in(value, end.parent) for end in yields if end.parent is not None):
            result.replace_all_uses_with(value)
            changed = True
    return changed


def inline_branch(op: Operation, index: int, words: Words, may_leave: Callable[[Operation], bool]) -> bool:
    """Put branch `index` in the place of its `if`. Where it leaves instead of coming back, what follows is dropped, if
    the block may end so (`may_leave`); else nothing is done."""
    region = op.regions[index]
    end: Operation | None = None
    if not region.blocks:
        if op.results:
            return False
    else:
        end = region.block.last_op
        if end is None or not (isinstance(end, words.end) or may_leave(end)):
            return False
        move_in_front(op, region.block, end if isinstance(end, words.end) else None)
        if not isinstance(end, words.end):
            erase_from(op)
            return True
    replace(op, end.operands if end is not None else ())
    return True


def merge_ifs(before: Operation, op: Operation, words: Words) -> Operation | None:
    """One `if` for two, between which nothing stands, on one condition, or on it and its negation; None where they aren't."""
    first, second = _matched(before, op, words)
    if first is None and second is None:
        return None
    new = type(op).create(operands=[before.operands[0]], result_types=[r.type for r in (*before.results, *op.results)],
                          regions=[Region(), Region()], location=op.location)
    insert_in_front(op, new)
    for old, region, follower in zip(before.regions, new.regions, (first, second)):
        old.move_blocks(region)
        if follower is not None:
            _append(region, follower, before.results, words)
    count = len(before.results)
    replace(op, new.results[count:])
    replace(before, new.results[:count])
    return new


def _matched(before: Operation, op: Operation, words: Words) -> tuple[Region | None, Region | None]:
    """The branches of an `if` taken where the one before it takes its first, and where it takes its second."""
    condition, previous = op.operands[0], before.operands[0]
    yes, no = op.regions
    if condition is previous:
        pair = yes, no
    elif words.negated(condition) is previous or words.negated(previous) is condition:
        pair = no, yes
    else:
        return None, None
    first, second = (None if not region.blocks or leaves(old, words) else region for old, region in zip(before.regions, pair))
    return first, second


def leaves(region: Region, words: Words) -> bool:
    """Whether a branch ends by leaving, and not by coming back."""
    return bool(region.blocks) and not isinstance(region.block.last_op, words.end)


def _append(region: Region, other: Region, results: Sequence[SSAValue], words: Words) -> None:
    """Put the ops of a branch behind those of another, whose yielded values stand for `results` there."""
    if not region.blocks:
        other.move_blocks(region)
        return
    end = region.block.last_op
    assert isinstance(end, words.end)
    values = tuple(end.operands)
    for result, value in zip(results, values):
        for use in list(result.uses):
            if other.is_ancestor(use.operation):
                use.operation.operands[use.index] = value
    end.detach()
    end.erase()
    for inner in list(other.block.ops):
        inner.detach()
        region.block.add_op(inner)
    last = region.block.last_op
    if isinstance(last, words.end):
        last.operands = (*values, *last.operands)


def erase_from(op: Operation) -> None:
    """Remove an op and everything after it in its block: code that is never reached."""
    rest: list[Operation] = []
    following: Operation | None = op
    while following is not None:
        rest.append(following)
        following = following.next_op
    for dead in reversed(rest):
        dead.detach()
        dead.erase(safe_erase=False)
