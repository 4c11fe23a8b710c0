"""`simplify`: identities and constant folding, in one walk in program order.

    %1 = arith.muli %0, 1            ->  %0
    %2 = nv_tileaa.broadcast(splat)  ->  nv_tileaa.splat
    scf.if true { A } else { B }     ->  A
    scf.if %c { A }; scf.if %c { B } ->  scf.if %c { A; B }
    scf.for 0 to 1 { A }             ->  A

Operands are simplified before their users, so one walk reaches what repeated rewriting would. Rules: `rules/`.
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Operation

from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.transforms import rules
from tileiras.transforms.rules import (  # noqa: F401  (each fills the table)
    effects,
    floats,
    integers,
    shapes,
)
from tileiras.transforms.rules.choice import forward_if_results
from tileiras.transforms.rules.control import (
    WORDS,
    forward_loop_invariants,
    inline_constant_if,
    inline_short_for,
    inline_single_pass,
    merge_with_earlier_if,
)

shapes.install()


def run(top: Operation, context: Any = None) -> None:
    """Simplify every op of a module or function in place."""
    stack = [op for region in reversed(top.regions) for block in reversed(region.blocks)
             for op in (block.first_op,) if op is not None]
    while stack:
        op: Operation | None = stack.pop()
        while op is not None:
            following = op.next_op
            if isinstance(op, arith.If):
                changed = inline_constant_if(op) or merge_with_earlier_if(op)
                if changed is not None:
                    op = changed
                    continue
                forward_if_results(op, WORDS)
            elif isinstance(op, (arith.For, aa.LoopOp)):
                changed = inline_short_for(op) if isinstance(op, arith.For) else inline_single_pass(op)
                if changed is not None:
                    op = changed
                    continue
                forward_loop_invariants(op)
            if op.regions:
                if following is not None:
                    stack.append(following)
                stack.extend(block.first_op for region in reversed(op.regions) for block in reversed(region.blocks)
                             if block.first_op is not None)
                break
            found = rules.RULES.get(op.name)
            if found is not None:
                value = found(op)
                if value is not None and value is not op.results[0]:
                    op.results[0].replace_all_uses_with(value)
                    if all(r.first_use is None for r in op.results):
                        op.detach()
                        op.erase()
            op = following
