"""`count-loops`: a loop that goes on while a counter is less than what it doesn't change counts.

    loop iter(%i = %a, %x = %x0) {                         %r = scf.for %i = %a to %n step 1 iter(%x = %x0) {
      scf.if (%i < %n) { } else { break %i, %x }             A
      A                                              ->      yield %y
      continue %i + 1, %y                                  }
    }                                                      the counter behind it: max(%a, %n), by steps of one

What programs write as `while` gets rings, copies ahead and the rest of what counted loops have. Nothing else may end or repeat the
loop, and the counter may not wrap around: it can't by steps of one.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from tileiras.analysis.axis import AxisAnalysis
from tileiras.analysis.axis_info import limits, width_of
from tileiras.analysis.exits import ends_of
from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.transforms.rules import build, int_constant
from tileiras.transforms.structure import is_defined_in, is_movable, replace

GOES_ON = {("slt", 0): 0, ("sgt", 1): 0, ("sge", 0): 1, ("sle", 1): 1}
"""By a comparison and the counter's place in it: which region of the branch on it goes on."""


def run(module: Operation, context: Any = None) -> None:
    """Replace the loops of a module's functions, inner ones first, in place."""
    for func in [op for op in module.walk() if isinstance(op, aa.Func)]:
        loops = [op for op in func.walk() if isinstance(op, aa.Loop)]
        if loops:
            axis = AxisAnalysis(func)
            for loop in reversed(loops):
                found = _counted(loop, axis)
                if found is not None:
                    _replace(loop, found)


@dataclass(frozen=True)
class _Count:
    """The op that ends the loop, the number of the counter among what is carried, the limit, and the step."""

    leave: Any
    counter: int
    limit: SSAValue
    step: SSAValue


def _counted(loop: Any, axis: AxisAnalysis) -> _Count | None:
    body: Block = loop.regions[0].block
    end = body.last_op
    leaves = [op for op in ends_of(loop) if op is not end]
    if not isinstance(end, aa.Continue) or len(leaves) != 1 or not _leaves_at_once(leaves[0], body):
        return None
    leave: Any = leaves[0]
    branch = leave.parent_op()
    test = branch.operands[0].owner
    if not isinstance(test, arith.Cmpi):
        return None
    for place, v in enumerate(test.operands):
        if isinstance(v, BlockArgument) and v.owner is body and isinstance(v.type, IntegerType):
            on = GOES_ON.get((test.properties["predicate"].data, place))   # type: ignore[attr-defined]
            limit, step = test.operands[1 - place], _step(end.operands[v.index], v)
            if on is not None and leave.parent.parent is branch.regions[1 - on] and \
                    step is not None and not is_defined_in(limit, body) and not is_defined_in(step, body) and \
                    _never_wraps(limit, step, axis) and (int_constant(step) == 1 or not _is_told(loop, leave, v)):
                return _Count(leave, v.index, limit, step)
    return None


def _leaves_at_once(leave: Any, body: Block) -> bool:
    """Whether one way of a branch, in front of which nothing has an effect, leaves with what the iteration began with, and the
    other does nothing."""
    out, branch = leave.parent, leave.parent_op()
    if not isinstance(leave, aa.Break) or not isinstance(branch, arith.If) or branch.parent is not body or branch.results:
        return False
    op = branch.prev_op
    while op is not None:
        if not is_movable(op):
            return False
        op = op.prev_op
    other = [op for region in branch.regions if region is not out.parent for block in region.blocks for op in block.ops]
    return leave is out.first_op and all(isinstance(op, arith.Yield) for op in other) and all(
        (isinstance(v, BlockArgument) and v.owner is body) or not is_defined_in(v, body) for v in leave.operands)


def _step(following: SSAValue, counter: SSAValue) -> SSAValue | None:
    """What is added to the counter in each iteration."""
    op = following.owner
    if isinstance(op, arith.Addi) and counter in op.operands:
        return op.operands[1 - list(op.operands).index(counter)]
    return None


def _never_wraps(limit: SSAValue, step: SSAValue, axis: AxisAnalysis) -> bool:
    most = limits(width_of(limit.type))[1]
    (least_step, most_step), most_limit = axis.bounds(step), axis.bounds(limit)[1]
    return least_step is not None and least_step >= 1 and most_step is not None and \
        (most if most_limit is None else most_limit) - 1 + most_step <= most


def _is_told(loop: Any, leave: Any, counter: SSAValue) -> bool:
    """Whether somebody asks for the counter behind the loop."""
    return any(v is counter and result.first_use is not None for v, result in zip(leave.operands, loop.results))


def _replace(loop: Any, found: _Count) -> None:
    body: Block = loop.regions[0].block
    end = body.last_op
    assert end is not None
    first = loop.operands[found.counter]
    others = [n for n in range(len(body.args)) if n != found.counter]
    made = Block(arg_types=[first.type, *(body.args[n].type for n in others)])
    counted = arith.For.create(operands=[first, found.limit, found.step, *(loop.operands[n] for n in others)],
                               result_types=[body.args[n].type for n in others], regions=[Region(made)], location=loop.location)
    loop.parent.insert_op_before(counted, loop)
    values = []
    for v in found.leave.operands:
        if not isinstance(v, BlockArgument) or v.owner is not body:
            values.append(v)
        elif v.index == found.counter:
            values.append(build(loop, arith.Maxsi, (first, found.limit), first.type))
        else:
            values.append(counted.results[others.index(v.index)])
    following = [end.operands[n] for n in others]
    for op in (found.leave.parent_op(), end):
        op.detach()
        op.erase()
    for op in list(body.ops):
        op.detach()
        made.add_op(op)
    made.add_op(arith.Yield.create(operands=following, location=counted.location))
    for arg, now in zip([body.args[found.counter], *(body.args[n] for n in others)], made.args):
        arg.replace_all_uses_with(now)
    replace(loop, values)
