"""`remove-dead-args`: loops stop carrying what nobody reads.

    %a, %b = for ... iter_args(%x = %p, %y = %q) {         %a = for ... iter_args(%x = %p) {
      %u = addf %x, %d                                       %u = addf %x, %d
      %v = addf %y, %d                               ->      yield %u
      yield %u, %v                                         }
    }                    nobody uses %b

A carried value is dead if nothing but other dead values comes of it: pure ops may take it, loops carry it and branches hand it on,
as C++'s tokens of loads go around two loops and join each other. (`dce` removes the ops behind.) Loops that are left early keep
what they carry.
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import BlockArgument, Operation, SSAValue

from tileiras.dialects import arith
from tileiras.dialects.base import TileOp
from tileiras.transforms.structure import carry_no_longer, ops_around

EXITS = frozenset({"nv_tileaa.break", "nv_tileaa.continue"})


def run(top: Operation, context: Any = None) -> None:
    """Remove dead carried values of counted loops, in place; inner loops first."""
    ops = list(top.walk())
    left_early = {loop for op in ops if op.name in EXITS for loop in ops_around(op)}
    loops = [op for op in ops if isinstance(op, arith.For) and op.results and op not in left_early]
    if not loops:
        return
    alive = _alive(ops, set(loops))
    for loop in reversed(loops):
        dead = {i for i, (r, arg) in enumerate(zip(loop.results, loop.carried_args())) if r not in alive and arg not in alive}
        if dead:
            _rebuild(loop, dead)


def _alive(ops: list[Operation], loops: set[arith.For]) -> set[SSAValue]:
    """The values of which something comes: what ops with effects take, and what those come of."""
    work: list[SSAValue] = []
    for op in ops:
        if op in loops:
            work += op.operands[:arith.BOUNDS]
        elif isinstance(op, arith.Yield) and (op.parent_op() in loops or isinstance(op.parent_op(), arith.If)):
            continue
        elif not isinstance(op, TileOp) or not op.PURE or op.regions:
            work += op.operands
    alive: set[SSAValue] = set()
    while work:
        v = work.pop()
        if v not in alive:
            alive.add(v)
            work += _comes_of(v, loops)
    return alive


def _comes_of(v: SSAValue, loops: set[arith.For]) -> list[SSAValue]:
    """The values that one is made of, as far as they aren't taken anyhow."""
    owner: Any = v.owner
    if isinstance(v, BlockArgument):
        loop: Any = owner.parent_op()
        return loop.carried_from(v.index - 1) if loop in loops and v.index > 0 else []
    if owner in loops:
        return owner.carried_from(v.index)       # type: ignore[attr-defined]
    if isinstance(owner, arith.If):
        return [region.block.last_op.operands[v.index] for region in owner.regions      # type: ignore[attr-defined]
                if region.blocks and isinstance(region.block.last_op, arith.Yield)]
    return list(owner.operands) if isinstance(owner, TileOp) and owner.PURE and not owner.regions else []


def _rebuild(loop: arith.For, dead: set[int]) -> None:
    """The loop without these values."""
    inits, args = loop.carried_inits(), loop.carried_args()
    # who took a dead value takes where it began: what he makes of it leads nowhere, and `dce` removes it
    for i in dead:
        args[i].replace_all_uses_with(inits[i])
        loop.results[i].replace_all_uses_with(inits[i])
    carry_no_longer(loop, dead)
