"""Blocks, loops and functions, for passes that change them: which op of a block holds another, which values are a block's own,
where its pipes begin, what an op needs of those in front of it, a body or values in the place of the op that has them, a loop that
carries fewer values, a function in another's place, who writes a buffer."""
from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import Any

from xdsl.ir import Block, Operation, SSAValue

from tileiras.dialects.base import TileOp

TOKENS = frozenset({"nv_tileas.create_mem_token", "nv_tileas.join_mem_token"})


def ops_around(op: Operation) -> list[Operation]:
    """What an op stands in, innermost first."""
    out = []
    parent = op.parent_op()
    while parent is not None:
        out.append(parent)
        parent = parent.parent_op()
    return out


def holder_in(block: Block, op: Operation) -> Operation:
    """The op of `block` that is or holds `op`, which is somewhere in it."""
    while op.parent is not block:
        outer = op.parent_op()
        assert outer is not None
        op = outer
    return op


def ends_in(block: Block, ops: Iterable[Operation]) -> tuple[Operation, Operation]:
    """Which of the ops of `block` that are or hold these stand first and last."""
    found = list(dict.fromkeys(holder_in(block, op) for op in ops))
    if len(found) > 1:      # a place takes a walk
        found.sort(key=block.get_operation_index)
    return found[0], found[-1]


def is_defined_in(value: SSAValue, block: Block) -> bool:
    """Whether a value is the block's own: an argument of it, or a result of one of its ops."""
    owner = value.owner
    return owner is block or (isinstance(owner, Operation) and owner.parent is block)


def is_movable(op: Operation) -> bool:
    """Whether an op may stand wherever its operands are there: it computes values, or hands tokens on."""
    return op.name in TOKENS or (isinstance(op, TileOp) and op.PURE and not op.regions)


def insert_in_front(op: Operation, new: Operation) -> None:
    """Put a new op, or one that is detached, in front of `op`."""
    assert op.parent is not None
    op.parent.insert_op_before(new, op)


def move_in_front(op: Operation, block: Block, end: Operation | None) -> None:
    """Move the ops of a block in front of `op`, in their order, but for `end`."""
    for inner in list(block.ops):
        if inner is not end:
            inner.detach()
            insert_in_front(op, inner)


def replace(op: Operation, values: Sequence[SSAValue]) -> None:
    """Let values stand for an op's results, and remove it with what is left in it."""
    for result, value in zip(op.results, values):
        result.replace_all_uses_with(value)
    op.detach()
    op.erase()


def erase_unused(ops: Iterable[Operation], may_go: Callable[[Operation], bool]) -> None:
    """Remove those ops that may go and nobody uses, and what only they used."""
    pending = list(ops)
    while pending:
        op = pending.pop()      # one that its user had twice is gone when it comes again
        if op.parent is None or any(r.first_use is not None for r in op.results) or not may_go(op):
            continue
        pending += [v.owner for v in op.operands if isinstance(v.owner, Operation)]
        op.detach()
        op.erase()


def needed_of(op: Operation, between: Container[Operation], moves: Callable[[Operation], bool]) -> set[Operation] | None:
    """Of the ops between, those that an op's operands follow from; None if one of them doesn't move."""
    pending: list[SSAValue] = list(op.operands)
    needed: set[Operation] = set()
    while pending:
        owner = pending.pop().owner
        if not isinstance(owner, Operation) or owner not in between or owner in needed:
            continue
        if not moves(owner):
            return None
        needed.add(owner)
        pending += owner.operands
    return needed


def move_up(op: Operation, needed: Collection[Operation], place: Mapping[Operation, int], front: Operation) -> list[Operation]:
    """Put an op, behind what it needs (`needed_of`) in the order of its `place`, in front of an earlier op. What moved."""
    moved = [*sorted(needed, key=place.__getitem__), op]
    for one in moved:
        one.detach()
        insert_in_front(front, one)
    return moved


def first_pipe(block: Block, uses: Callable[[Operation], bool]) -> Operation:
    """Where a block's pipes begin; its first op where it has none, or where an op that `uses` one stands in front of all."""
    found = next((op for op in block.ops if op.name == "nv_tileas.create_pipeline" or any(map(uses, op.walk()))), None)
    first = found if found is not None and found.name == "nv_tileas.create_pipeline" else block.first_op
    assert first is not None
    return first


def put_in_place(trial: Operation, func: Operation) -> Operation:
    """The function that is kept, where a pass worked on a copy of it, or on the function itself."""
    if trial is not func:
        assert func.parent is not None
        func.parent.insert_op_before(trial, func)
        func.detach()
        func.erase(safe_erase=False)
    return trial


def carry_no_longer(loop: Any, numbers: Collection[int]) -> Any:
    """The counted loop anew, without the values that it carries under these numbers: nothing uses them in its body or behind it."""
    block = loop.regions[0].block
    last = block.last_op
    kept = [i for i in range(len(loop.results)) if i not in numbers]
    last.operands = [last.operands[i] for i in kept]
    for number in sorted(numbers, reverse=True):
        block.erase_arg(block.args[1 + number])     # behind the induction variable
    inits = loop.carried_inits()
    new = type(loop).create(operands=[*loop.operands[:3], *(inits[i] for i in kept)],
                            result_types=[loop.results[i].type for i in kept], properties=dict(loop.properties),
                            attributes=dict(loop.attributes), regions=[loop.detach_region(loop.regions[0])], location=loop.location)
    loop.parent.insert_op_before(new, loop)
    for i, result in zip(kept, new.results):
        loop.results[i].replace_all_uses_with(result)
    loop.detach()
    loop.erase()
    return new


def only_store(alloc: Operation) -> Operation | None:
    """The one op that writes a buffer, if it is one."""
    stores = [use.operation for use in alloc.results[0].uses if use.operation.name == "nv_tileas.store_shared"]
    return stores[0] if len(stores) == 1 else None
