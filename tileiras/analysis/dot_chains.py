"""Which products follow one another: does what one computes become the rows of another, by element-wise ops alone?

    %s = dot %q, %k ; %p = math.exp %s ; dot %p, %v        %p's product takes rows, %s' product feeds them

On the way there may be branches that yield (attention's masks under a condition), and where `around` says so a loop that carries
the value to its next iteration (the state of a recurrent layer).
"""
from __future__ import annotations

from collections.abc import Collection, Iterator

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, SSAValue

from tileiras.analysis.layout_rules import DOTS, RENAMES
from tileiras.analysis.program_slice import loop_around
from tileiras.dialects import arith
from tileiras.dialects.element import elements_in

MOST_LOOKED_AT = 256
"""Values between one product and the next."""
DOT, VIEW = "dot", "view"
SUMS = 2
"""The operand of a product that it adds to."""
FOLDS = frozenset({"reduce", "scan"})
FUNCTIONS = frozenset({"exp", "exp2", "log", "log2", "tanh", "sin", "cos", "tan", "sinh", "cosh", "powf", "atan2", "fpowi"})
SPREAD = frozenset({VIEW, "permute", "broadcast", "splat", "make_range", "constant"})
LESS = 8
"""How many times fewer elements a tile has of which one is computed, at least: each thread then has those that it needs, wherever
the elements of the latter lie."""


def is_chained(dot: Operation, around: bool = False) -> bool:
    """Whether a product takes another one's rows, or feeds them: the scores of an attention kernel and the product that they
    weigh."""
    return feeds_rows(dot, around) or takes_rows(dot, around=around)


def only_multiplies(body: Block, besides: Collection[Operation] = ()) -> bool:
    """Whether all that threads compute with tiles in a loop's body are products that add to the sums it carries. `besides`: ops
    that aren't looked at, as loads aren't that the engine may do. In an agent's loop tiles are in shared memory by then."""
    last = body.last_op
    return last is not None and all(
        op in besides or op.name in RENAMES or not any(isinstance(r.type, TensorType) for r in op.results) or
        (op.name in DOTS and len(op.operands) > SUMS and isinstance(op.operands[SUMS], BlockArgument) and
         op.results[0] in last.operands) for op in body.ops)


def feeds_rows(dot: Operation, around: bool = False) -> bool:
    """Whether a product's result leads to another one's first operand, or in a loop to the sums of one that feeds or takes rows
    (scores of two products: of heads and of positions). Sums that change their layout once cost less than operands that every
    warp reads (a scan's chunks of 64, A100: 200.6 us, 236.9 as a chain)."""
    repeated = loop_around(dot) is not None
    pending: list[SSAValue] = [dot.results[0]]
    seen: set[SSAValue] = set(pending)
    while pending and len(seen) < MOST_LOOKED_AT:
        for use in pending.pop().uses:
            user, found = use.operation, None
            is_sum = repeated and _mnemonic(user) == DOT and use.index == SUMS
            if (_mnemonic(user) == DOT and use.index == 0) or (is_sum and takes_rows(user, around=around)):
                return True
            if is_sum:
                found = user.results[0]
            elif isinstance(user, arith.Elementwise):
                found = user.results[0]
            elif isinstance(user, arith.Yield):
                owner = user.parent_op()
                if isinstance(owner, arith.If):
                    found = owner.results[use.index]
                elif around and isinstance(owner, arith.For):
                    found = owner.carried_args()[use.index]
            if found is not None and found not in seen:
                seen.add(found)
                pending.append(found)
    return False


def goes_to_functions(dot: Operation) -> bool:
    """Whether a product's sums go to functions of each (an activation), by element-wise ops alone, and to nobody who needs all of a
    row, or to another product's sums, first."""
    return become_functions(dot.results[0])


def become_functions(sums: SSAValue) -> bool:
    """The same of sums as they are where they are made: a product's, or a loop's."""
    pending = [sums]
    seen, found, block = set(pending), False, sums.owner.parent     # type: ignore[union-attr]
    while pending and len(seen) < MOST_LOOKED_AT:
        for use in pending.pop().uses:
            user = use.operation
            if _mnemonic(user) in FOLDS or (_mnemonic(user) == DOT and use.index == SUMS):
                return False
            if isinstance(user, arith.Elementwise) and user.parent is block and (v := user.results[0]) not in seen:
                found |= _mnemonic(user) in FUNCTIONS
                seen.add(v)
                pending.append(v)
    return found


def is_computed(dot: Operation, number: int) -> bool:
    """Whether threads compute an operand in front of the product, from nothing as large: signs, ones below a diagonal, which labels
    are equal, weights of four bits that words hold. What is spread out or constant may stand before the loop around."""
    v = dot.operands[number]
    if not isinstance(v.owner, arith.Elementwise):
        return False
    size = elements_in(v.type)
    pending, seen = [v], {v}
    while pending and len(seen) < MOST_LOOKED_AT:
        maker = pending.pop().owner
        if not isinstance(maker, Operation):
            return False
        if _mnemonic(maker) not in SPREAD and (maker.parent is not dot.parent or not isinstance(maker, arith.Elementwise)):
            return False
        for x in maker.operands:
            if x not in seen and elements_in(x.type) * LESS > size:
                seen.add(x)
                pending.append(x)
    return not pending


def is_made(dot: Operation, operand: SSAValue) -> bool:
    """Whether threads make an operand of a loop's product of what the loop loads."""
    maker = operand.owner
    if not isinstance(maker, arith.Elementwise) or loop_around(dot) is None:
        return False
    from tileiras.analysis.tma import rounded_by  # few kernels have such products
    return not rounded_by(maker) or isinstance(maker.operands[0].owner, arith.Elementwise)


def takes_rows(dot: Operation, views: bool = False, around: bool = False) -> bool:
    """Whether another product's result leads to a product's first operand; `views`: also where a tile is seen in another shape."""
    return next(rows_from(dot, views, around), None) is not None


def rows_from(dot: Operation, views: bool = False, around: bool = False) -> Iterator[Operation]:
    """The products whose results lead to a product's first operand, the nearest first."""
    pending: list[SSAValue] = [dot.operands[0]]
    seen: set[SSAValue] = set(pending)
    while pending and len(seen) < MOST_LOOKED_AT:
        v = pending.pop(0)
        makers: list[SSAValue] = []
        if isinstance(v, BlockArgument):
            loop = v.owner.parent_op()
            if around and isinstance(loop, arith.For) and v.index:      # behind the induction variable
                makers = loop.carried_from(v.index - 1)[1:]
        elif not isinstance(v, OpResult):
            continue
        elif _mnemonic(v.owner) == DOT:
            yield v.owner
        elif isinstance(v.owner, arith.Elementwise) or (views and _mnemonic(v.owner) == VIEW):
            makers = list(v.owner.operands)
        elif isinstance(v.owner, arith.If):
            makers = yielded(v)
        for maker in makers:
            if isinstance(maker.type, TensorType) and maker not in seen:
                seen.add(maker)
                pending.append(maker)


def yielded(v: OpResult) -> list[SSAValue]:
    """What a branch gives a value, of each way that comes out of it."""
    return [last.operands[v.index] for region in v.owner.regions for block in region.blocks
            if isinstance(last := block.last_op, arith.Yield)]


def is_row(t: Attribute) -> bool:
    """Whether a type is that of a tile of one row."""
    if not isinstance(t, TensorType):
        return False
    *before, columns = (1, *t.get_shape())
    return columns > 1 == max(before, default=1)


def _mnemonic(op: Operation) -> str:
    return op.name.partition(".")[2]
