"""What control flow says needlessly: branches on constants, results that every branch shares, carried values that stay.

    scf.if true { A } else { B }                           ->   A
    %r = scf.if %c { return } else { yield %x }; use %r    ->   scf.if ...; use %x
    %r = scf.for ... iter(%a = %x) { ...; yield %a }       ->   uses of %a and %r become uses of %x
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xdsl.ir import Block, Operation, SSAValue

from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.transforms.rules import int_constant


def inline_constant_if(op: Operation) -> Operation | None:
    """Replace an `scf.if` on a constant by the branch taken; gives the op to go on with, None if nothing was done.

    Branches that end in an early exit stay: what follows the `if` would be unreachable."""
    taken = int_constant(op.operands[0])
    if taken is None:
        return None
    region = op.regions[0 if taken else 1]
    block = op.parent
    assert block is not None
    first = op.next_op
    if region.blocks:
        body: Block = region.block
        last = body.last_op
        if not isinstance(last, arith.Yield):
            return None
        for result, value in zip(op.results, last.operands):
            result.replace_all_uses_with(value)
        last.detach()
        last.erase()
        moved = list(body.ops)
        for inner in moved:
            inner.detach()
            block.insert_op_before(inner, op)
        first = moved[0] if moved else first
    elif op.results:
        return None
    op.detach()
    op.erase()
    return first


def is_defined_in(value: SSAValue, block: Block) -> bool:
    """Whether a value that `block`'s terminator uses is defined in the block itself."""
    owner: Any = value.owner
    return owner is block or getattr(owner, "parent", None) is block


def forward_if_results(op: Operation) -> None:
    """A result for which every branch that comes back yields one and the same outer value is that value."""
    yields = [region.block.last_op for region in op.regions if region.blocks]
    yields = [y for y in yields if isinstance(y, arith.Yield)]
    if not yields:
        return
    for i, result in enumerate(op.results):
        values = {id(y.operands[i]): y.operands[i] for y in yields}
        if len(values) == 1 and result.first_use is not None:
            (value,) = values.values()
            if not any(is_defined_in(value, y.parent) for y in yields if y.parent is not None):
                result.replace_all_uses_with(value)


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


def forward_loop_invariants(loop: Operation) -> None:
    """A carried value that every iteration hands on as it was is the initial value, and so is a for's result."""
    is_for = isinstance(loop, arith.For)
    inits = loop.operands[3:] if is_for else loop.operands
    if not inits:
        return
    args = loop.regions[0].block.args[1:] if is_for else loop.regions[0].block.args
    ends = list(_next_values(loop))
    for i, (arg, init) in enumerate(zip(args, inits)):
        if all(end.operands[i] is arg or end.operands[i] is init for end in ends):
            arg.replace_all_uses_with(init)
            if is_for:
                loop.results[i].replace_all_uses_with(init)
