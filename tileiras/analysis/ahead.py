"""What a loop must compute to know the operands of an op iterations ahead: the slice of its body that leads there.

    %i induction, %p carried, yield %q          roots (%x):   ops   %x, %q      carried   %p
      %x = muli %p, %n                          In iteration i + d the operand is %x of the slice run on %i + d * step and on
      %q = addi %p, %i                          what %p is d iterations on, which needs %q at every step.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, SSAValue

from tileiras.dialects.base import TileOp
from tileiras.dialects.nv_tileaa import MemTokenType
from tileiras.dialects.nv_tileas import EXITS, LOOPS

NOT_TWICE = ("nv_tileas.dot", "nv_tileas.dot_scaled", "nv_tileas.async_dot", "nv_tileas.reduce", "nv_tileas.scan")
"""Pure ops that are the work of a loop, not of its addresses."""
MAX_SLICE = 256
"""Ops of one op's slice, at most: addresses are short."""


@dataclass(frozen=True)
class Slice:
    """`roots`: the ops that lead to the values wanted, in the body's order. `updates`: those that lead from one iteration's
    carried values to the next one's, the former among them. `carried`: the numbers of the carried values that take part.
    `obstacle`: an op of the body that can't be run ahead, None where all can."""

    roots: tuple[Operation, ...] = ()
    updates: tuple[Operation, ...] = ()
    carried: tuple[int, ...] = ()
    obstacle: Operation | None = None


def runs_ahead(loop: Operation) -> bool:
    """Whether iterations of a loop may overlap: it is counted, without loops inside and without other ways out."""
    return loop.name == "scf.for" and not any(op is not loop and (op.name in LOOPS or op.name in EXITS) for op in loop.walk())


def slice_of(loop: Operation, values: Iterable[SSAValue], moves: Callable[[Operation], bool] | None = None,
             of: int = 1) -> Slice:
    """The slice of a `scf.for`'s body that leads to `values`; tokens are left out. `moves`: which ops may be run ahead; without,
    those that cost next to nothing to run twice. `of`: how many ops' operands `values` are: where each one's slice is short
    enough, that of all of them is."""
    moves = moves or is_scalar_and_pure
    body = loop.regions[0].block
    last: Any = body.last_op
    carried: dict[int, None] = {}
    found: set[Operation] = set()
    roots: set[Operation] | None = None
    pending = list(values)
    while True:
        while pending:
            v = pending.pop()
            if isinstance(v.type, MemTokenType):
                continue
            owner = v.owner
            if isinstance(owner, Block):
                if owner is body and v.index and v.index - 1 not in carried:    # type: ignore[attr-defined]
                    carried[v.index - 1] = None     # type: ignore[attr-defined]
            elif owner.parent is body and owner not in found:
                if not moves(owner) or len(found) >= of * MAX_SLICE:
                    return Slice(obstacle=owner)
                found.add(owner)
                pending += owner.operands
        if roots is None:
            roots, done = set(found), 0
        following = list(carried)[done:]
        if not following:
            break
        done += len(following)
        pending += [last.operands[n] for n in following]
    ordered = [op for op in body.ops if op in found]
    return Slice(tuple(op for op in ordered if op in roots), tuple(ordered), tuple(sorted(carried)))


def is_scalar_and_pure(op: Operation) -> bool:
    """Whether an op may be run in an iteration ahead, once more: pure, and of scalars and views only."""
    return isinstance(op, TileOp) and op.PURE and not op.regions and \
        not any(isinstance(v.type, TensorType) for v in (*op.operands, *op.results))


def is_cheap_and_pure(op: Operation) -> bool:
    """Whether an op may be run in an iteration ahead instead of in its own: addresses that are tiles come of such."""
    return is_scalar_and_pure(op) or (isinstance(op, TileOp) and op.PURE and not op.regions and op.name not in NOT_TWICE)


def address_of(load: Operation) -> list[SSAValue]:
    """What the addresses of a load, or of a copy, come from."""
    if hasattr(load, "view"):
        return [load.view, *load.coords]     # type: ignore[attr-defined]
    mask = load.mask    # type: ignore[attr-defined]
    return [load.ptr, *([mask] if mask is not None else [])]     # type: ignore[attr-defined]


def places_are_tiles(load: Operation) -> bool:
    """Whether each element, or each row, has a place of its own: pointers, or a tile of indices."""
    return any(isinstance(v.type, TensorType) for v in address_of(load))


def carries_tensors(loop: Operation, found: Slice) -> bool:
    """Whether a slice takes tiles from iteration to iteration."""
    args = loop.regions[0].block.args
    return any(isinstance(args[1 + n].type, TensorType) for n in found.carried)


def tokens_before(loop: Operation, token: SSAValue | None) -> list[SSAValue] | None:
    """The tokens from before the loop that a token of its body stands for; None if it also stands for a write that the body
    makes, in this iteration or an earlier one."""
    body = loop.regions[0].block
    last: Any = body.last_op
    pending = [token] if token is not None else []
    seen: set[SSAValue] = set(pending)
    outside: list[SSAValue] = []
    while pending:
        v = pending.pop()
        owner = v.owner
        more: list[SSAValue] = []
        if owner is body:
            n = v.index     # type: ignore[attr-defined]
            more = [last.operands[n - 1], loop.operands[2 + n]]
        elif isinstance(owner, Block) or not _is_inside(owner, body):
            outside.append(v)
        elif owner.regions or owner.name.rpartition(".")[2] not in _READ_ONLY:
            return None
        else:
            more = [x for x in owner.operands if isinstance(x.type, MemTokenType)]
        for x in more:
            if x not in seen:
                seen.add(x)
                pending.append(x)
    return outside


_READ_ONLY = frozenset({"tiled_load", "load", "join_mem_token", "create_mem_token"})
"""Ops whose token stands for no write of their own."""


def _is_inside(op: Operation, body: Block) -> bool:
    parent = op.parent
    while parent is not None and parent is not body:
        above = parent.parent_op()
        parent = above.parent if above is not None else None
    return parent is body
