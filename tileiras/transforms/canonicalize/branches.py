"""Canonical forms of `if`.

A branch ends in `yield`, or leaves by `return`, `break` or `continue`. What follows an `if` both of whose branches
leave is never reached. A rule never leaves a body with an end that its op doesn't allow: a `for` ends in `continue`
alone, a `loop` in `continue` or `break`, an entry in `return`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.ir import Operation, Region, SSAValue

from tileiras.dialects.cuda_tile.ops import (
    AndI,
    Break,
    Broadcast,
    Continue,
    Entry,
    For,
    If,
    Loop,
    Reshape,
    Return,
    Select,
    Yield,
)
from tileiras.dialects.cuda_tile.types import TileType
from tileiras.transforms.canonicalize.rewriting import WORDS, boolean, erase, make, negate, negated
from tileiras.transforms.rules.choice import forward_if_results, inline_branch, merge_ifs
from tileiras.transforms.structure import is_defined_in, replace

_ENDS: dict[type[Operation], tuple[type[Operation], ...]] = {
    For: (Continue,), Loop: (Continue, Break), Entry: (Return,), If: (Yield, Return, Continue, Break),
}
"""How the body of an op may end."""


def _end(region: Region) -> Operation | None:
    """A branch's last op; None where there is no branch."""
    return region.block.last_op if region.blocks else None


def _leaves(region: Region) -> bool:
    return isinstance(_end(region), (Return, Break, Continue))


def _yielded(region: Region) -> tuple[SSAValue, ...]:
    end = _end(region)
    return tuple(end.operands) if isinstance(end, Yield) else ()


def _may_end_here(op: Operation, end: Operation) -> bool:
    """Whether the block that holds `op` may end with `end`."""
    parent = op.parent_op()
    allowed = next((ends for cls, ends in _ENDS.items() if isinstance(parent, cls)), ())
    return isinstance(end, allowed)


def _inline(op: Any, index: int) -> bool:
    return inline_branch(op, index, WORDS, lambda end: _may_end_here(op, end))


def _select(before: Operation, condition: SSAValue, yes: SSAValue, no: SSAValue) -> SSAValue:
    """A select of tiles by one condition, broadcast to their shape."""
    type_, scalar = yes.type, condition.type
    assert isinstance(type_, TileType) and isinstance(scalar, TileType)
    if type_.rank:
        ones = TileType((1,) * type_.rank, scalar.element_type)
        condition = make(before, Reshape, (condition,), (ones,)).results[0]
        condition = make(before, Broadcast, (condition,), (TileType(type_.shape, scalar.element_type),)).results[0]
    return make(before, Select, (condition, yes, no), (type_,)).results[0]


def _set_yield(region: Region, values: Sequence[SSAValue]) -> None:
    end = _end(region)
    if isinstance(end, Yield):
        end.operands = tuple(values)


def _rebuilt(op: Any, kept: Sequence[int]) -> Any:
    """The `if` with only some of its results, its branches moved there; the old one stays, empty."""
    new = make(op, If, (op.operands[0],), [op.results[i].type for i in kept], regions=[Region(), Region()])
    for old, region in zip(op.regions, new.regions):
        old.move_blocks(region)
    return new


# The rules, in the order in which they are tried.

def swap_negated(op: Any) -> bool:
    """if (not c) A else B -> if c B else A."""
    inner = negated(op.operands[0])
    if inner is None or not op.elseRegion.blocks:
        return False
    op.operands = (inner,)
    then, other = Region(), Region()
    op.thenRegion.move_blocks(then)
    op.elseRegion.move_blocks(other)
    other.move_blocks(op.thenRegion)
    then.move_blocks(op.elseRegion)
    return True


def drop_unused_results(op: Any) -> bool:
    used = [i for i, result in enumerate(op.results) if result.first_use is not None]
    if len(used) == len(op.results) or all(_leaves(region) for region in op.regions):
        return False
    for region in op.regions:
        values = _yielded(region)
        _set_yield(region, [values[i] for i in used] if values else ())
    new = _rebuilt(op, used)
    for i, result in zip(used, new.results):
        op.results[i].replace_all_uses_with(result)
    erase(op)
    return True


def forward_yielded(op: Any) -> bool:
    """A result that every branch yields alike, where it comes back, is that value (`rules/choice.py`)."""
    return forward_if_results(op, WORDS)


def booleans_to_condition(op: Any) -> bool:
    """A result of true and false is the condition, or its negation."""
    if not op.results or not all(isinstance(_end(region), Yield) for region in op.regions):
        return False
    changed = False
    for result, yes, no in zip(op.results, _yielded(op.thenRegion), _yielded(op.elseRegion)):
        sides = boolean(yes), boolean(no)
        if result.first_use is None or result.type != op.operands[0].type or sides not in ((True, False), (False, True)):
            continue
        result.replace_all_uses_with(op.operands[0] if sides[0] else negate(op, op.operands[0]))
        changed = True
    return changed


def take_known_branch(op: Any) -> bool:
    condition = boolean(op.operands[0])
    return condition is not None and _inline(op, 0 if condition else 1)


def results_to_selects(op: Any) -> bool:
    """Results that are known before the `if` become selects; where one branch leaves, they are what the other yields."""
    if not op.results or all(_leaves(region) for region in op.regions):
        return False
    if not all(isinstance(result.type, TileType) for result in op.results):
        return False
    then, other = op.regions
    yes = _yielded(other if _leaves(then) else then)
    no = _yielded(then if _leaves(other) else other)
    inside = [region.block for region in op.regions if region.blocks]
    kept = [i for i, sides in enumerate(zip(yes, no)) if any(is_defined_in(v, block) for v in sides for block in inside)]
    if len(kept) == len(op.results):
        return False
    for region in op.regions:
        values = _yielded(region)
        if values:
            _set_yield(region, [values[i] for i in kept])
    new = _rebuilt(op, kept)
    results = dict(zip(kept, new.results))
    for i, (a, b) in enumerate(zip(yes, no)):
        if i not in results:
            results[i] = a if a is b else _select(new, new.operands[0], a, b)
    replace(op, [results[i] for i in range(len(op.results))])
    return True


def drop_empty_else(op: Any) -> bool:
    other = op.elseRegion
    if op.results or not other.blocks or not isinstance(other.block.first_op, Yield):
        return False
    other.detach_block(other.block).erase()
    return True


def merge_with_previous(op: Any) -> bool:
    """Two `if`s in a row on one condition, or on it and its negation."""
    before = op.prev_op
    return isinstance(before, If) and merge_ifs(before, op, WORDS) is not None


def merge_nested(op: Any) -> bool:
    """if c { if d A else yield v } else yield v -> if (c and d) A else yield v."""
    body = op.thenRegion.block
    nested = body.first_op
    if not isinstance(nested, If) or not isinstance(nested.next_op, Yield):
        return False
    inner_then, inner_else = nested.regions
    for other in (op.elseRegion, inner_else):
        if other.blocks and not isinstance(other.block.first_op, Yield):
            return False
    if _leaves(inner_then) and (op.elseRegion.blocks or inner_else.blocks):
        return False
    yes, no = list(_yielded(op.thenRegion)), _yielded(op.elseRegion)
    upgraded = []
    for i, value in enumerate(yes):
        if value.owner is nested:
            index = list(nested.results).index(value)  # type: ignore[arg-type]
            if _yielded(inner_else)[index] is not no[i]:
                return False
            yes[i] = _yielded(inner_then)[index]
        elif not isinstance(value.type, TileType):
            return False
        else:
            upgraded.append(i)
    outer = op.operands[0]
    both = make(op, AndI, (outer, nested.operands[0]), (outer.type,)).results[0]
    new = make(op, If, (both,), [result.type for result in op.results], regions=[Region(), Region()])
    results = [_select(op, outer, yes[i], no[i]) if i in upgraded else new.results[i] for i in range(len(yes))]
    for source, target in zip((inner_then, op.elseRegion), new.regions):
        if source.blocks and (target is new.thenRegion or no):
            source.move_blocks(target)
    _set_yield(new.thenRegion, yes)
    replace(op, results)
    return True


def move_else_behind(op: Any) -> bool:
    """Where both branches leave, the second needs no branch, and nothing behind is reached."""
    if not op.elseRegion.blocks or not all(_leaves(region) for region in op.regions):
        return False
    end = _end(op.elseRegion)
    if end is None or not _may_end_here(op, end):
        return False
    new = make(op, If, (op.operands[0],), (), regions=[Region(), Region()])
    op.thenRegion.move_blocks(new.thenRegion)
    return _inline(op, 1)


BRANCH_RULES: tuple[Callable[[Any], bool], ...] = (
    swap_negated, drop_unused_results, forward_yielded, booleans_to_condition, take_known_branch, results_to_selects,
    drop_empty_else, merge_with_previous, merge_nested, move_else_behind,
)
