"""`remove-dead-args`: loops stop carrying what nobody reads.

    %a, %b = for ... iter_args(%x = %p, %y = %q) {         %a = for ... iter_args(%x = %p) {
      %u = addf %x, %d                                       %u = addf %x, %d
      %v = addf %y, %d                               ->      yield %u
      yield %u, %v                                         }
    }                    nobody uses %b

A carried value is dead if the loop's result isn't used and, inside, only pure ops that lead to dead values take it. (`dce` removes
those ops behind.) Loops that are left early keep what they carry.
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Operation, SSAValue

from tileiras.dialects import arith
from tileiras.dialects.base import TileOp
from tileiras.transforms.structure import carry_no_longer

EXITS = frozenset({"nv_tileaa.break", "nv_tileaa.continue"})


def run(top: Operation, context: Any = None) -> None:
    """Remove dead carried values of counted loops, in place; inner loops first."""
    for op in reversed(list(top.walk())):
        if isinstance(op, arith.For) and op.results and not any(inner.name in EXITS for inner in op.walk()):
            dead = _dead(op)
            if dead:
                _rebuild(op, dead)


def _dead(loop: arith.For) -> set[int]:
    """The positions of what is carried for nothing."""
    dead = {i for i, r in enumerate(loop.results) if r.first_use is None}
    last = loop.regions[0].block.last_op
    args = loop.carried_args()
    while dead:
        alive = {i for i in dead if not _leads_nowhere(args[i], last, dead)}
        if not alive:
            break
        dead -= alive
    return dead


def _leads_nowhere(v: SSAValue, last: Operation | None, dead: set[int]) -> bool:
    """Whether a value is only taken by pure ops, and what they give only by the yield, in dead places."""
    seen: set[SSAValue] = set()
    work = [v]
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        for use in value.uses:
            op = use.operation
            if op is last:
                if use.index not in dead:
                    return False
            elif isinstance(op, TileOp) and op.PURE and not op.regions:
                work += op.results
            else:
                return False
    return True


def _rebuild(loop: arith.For, dead: set[int]) -> None:
    """The loop without these values."""
    inits, args = loop.carried_inits(), loop.carried_args()
    # who took a dead value takes where it began: what he makes of it leads nowhere, and `dce` removes it
    for i in dead:
        args[i].replace_all_uses_with(inits[i])
    carry_no_longer(loop, dead)
