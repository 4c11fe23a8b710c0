"""`load-where-used`: a tile that a loop loads for its next iteration's product is loaded in the iteration that multiplies it.

    %a0 = tiled_load %v[0]                                     scf.for %k = 1 to %n (%acc) {
    scf.for %k = 1 to %n (%acc, %a = %a0) {                      %j = subi %k, 1
      %next = tiled_load %v[%k]                         ->       %a = tiled_load %v[%j]
      %sum = dot %a, %b, %acc                                    %sum = dot %a, %b, %acc
      yield %sum, %next                                          yield %sum
    }                                                          }

Programs prefetch by hand what compilers don't. A carried tile is in registers, from where products by way of shared memory have to
write it there; a load in its own iteration is one of which the passes behind make a ring, as deep as shared memory allows, and
nothing is loaded for an iteration that never comes. Tiles that come some iterations ahead are carried several times, and lose one
of them after the other. What no product multiplies stays with its program's plan, as does what is read behind the loop, what
somebody may write in the meantime, and everything where no copy engine fills rings: there registers hold a tile ahead as well.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.invariant_loads import invariant_loads
from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.base import TileOp
from tileiras.transforms.remove_dead_args import EXITS
from tileiras.transforms.rules import int_constant, int_width
from tileiras.transforms.structure import insert_in_front, is_defined_in

MULTIPLIED = {"nv_tileaa.dot": frozenset({0, 1}), "nv_tileaa.dot_scaled": frozenset({0, 1, 2, 3})}
"""Products, and which of their operands are multiplied."""


def run(module: Operation, context: Any) -> None:
    """Load such tiles where they are multiplied, in place; outer loops first."""
    if not (context.uses("tma") and context.target.has_tma):
        return
    for func in module.walk():
        if func.name == "nv_tileaa.func":
            loops = [op for op in func.walk() if isinstance(op, arith.For) and not any(o.name in EXITS for o in op.walk())]
            if any(_carried_ahead(loop) for loop in loops):
                safe = invariant_loads(func)
                for loop in loops:
                    _load_in_time(loop, safe)


def _load_in_time(loop: arith.For, safe: set[Operation]) -> None:
    """Do it for a loop, until it carries no such tile; each change takes one carried load away."""
    while found := next((i for i in _carried_ahead(loop) if _is_safe(loop, i, safe)), None):
        _move(loop, found - 1, safe)


def _carried_ahead(loop: arith.For) -> list[int]:
    """The numbers, from 1 on, of carried tiles that are multiplied, and begin and go on with a load of one view."""
    last = loop.regions[0].block.last_op
    assert last is not None
    return [i + 1 for i, (arg, start, ahead) in enumerate(zip(loop.carried_args(), loop.operands[3:], last.operands))
            if isinstance(start.owner, aa.TiledLoad) and isinstance(ahead.owner, aa.TiledLoad)
            and start is start.owner.results[0] and ahead is ahead.owner.results[0]
            and ahead.owner.parent is last.parent and start.type == ahead.type and _is_multiplied(arg)]


def _is_safe(loop: arith.For, number: int, safe: set[Operation]) -> bool:
    """Whether a carried tile's loads read what nobody writes, and the loop's own one iteration ahead, for nobody else."""
    i, body = number - 1, loop.regions[0].block
    assert body.last_op is not None
    start, ahead = loop.operands[3 + i].owner, body.last_op.operands[i].owner
    assert isinstance(start, aa.TiledLoad) and isinstance(ahead, aa.TiledLoad)
    return {start, ahead} <= safe and start.view is ahead.view and start.properties == ahead.properties and \
        loop.results[i].first_use is None and ahead.results[1].first_use is None and len(list(ahead.results[0].uses)) == 1 and \
        not any(is_defined_in(v, body) for v in ahead.operands if v not in ahead.coords) and \
        all(_is_ahead(loop, a, b) for a, b in zip(start.coords, ahead.coords))


def _is_ahead(loop: arith.For, first: SSAValue, later: SSAValue) -> bool:
    """Whether an index in a load before the loop is what `later` would be an iteration before the first one."""
    body = loop.regions[0].block
    if (offset := _behind(loop, later)) is None:
        return later is first and not is_defined_in(later, body)
    begin, step = loop.operands[0], int_constant(loop.operands[2])
    assert step is not None
    known, begins = int_constant(first), int_constant(begin)
    if known is None or begins is None:
        return offset == step and first is begin
    return (begins + offset - step - known) % (1 << int_width(first.type)) == 0


def _behind(loop: arith.For, index: SSAValue) -> int | None:
    """By how much an index is the counter of a loop with a constant step and more; None where it isn't."""
    counter, owner = loop.regions[0].block.args[0], index.owner
    if int_constant(loop.operands[2]) is None:
        return None
    if index is counter:
        return 0
    if isinstance(owner, arith.Addi) and counter in owner.operands:
        return int_constant(owner.operands[1] if owner.operands[0] is counter else owner.operands[0])
    if isinstance(owner, arith.Subi) and owner.operands[0] is counter and (less := int_constant(owner.operands[1])) is not None:
        return -less
    return None


def _move(loop: arith.For, i: int, safe: set[Operation]) -> None:
    """Load carried tile `i` at the beginning of the iteration that it is for, and no longer for the next one."""
    body = loop.regions[0].block
    arg, first, last = loop.carried_args()[i], body.first_op, body.last_op
    assert first is not None and last is not None
    ahead, step = last.operands[i].owner, int_constant(loop.operands[2])
    assert isinstance(ahead, aa.TiledLoad) and step is not None
    counter, half = body.args[0], 1 << int_width(body.args[0].type) - 1
    moved = {v: _plus(first, counter, (offset - step + half) % (2 * half) - half)
             for v in ahead.coords if (offset := _behind(loop, v)) is not None}
    load = ahead.clone(moved)
    insert_in_front(first, load)
    arg.replace_all_uses_with(load.results[0])
    last.operands[i] = arg
    ahead.detach()
    ahead.erase()
    safe.add(load)


def _plus(before: Operation, counter: SSAValue, offset: int) -> SSAValue:
    """A counter and more, as ops in front of `before`."""
    if offset == 0:
        return counter
    t: Any = counter.type
    constant = arith.Constant.create(result_types=(t,), location=before.location, properties={"value": IntegerAttr(abs(offset), t)})
    op = (arith.Addi if offset > 0 else arith.Subi).create(operands=(counter, constant.results[0]), result_types=(t,),
                                                           location=before.location)
    insert_in_front(before, constant)
    insert_in_front(before, op)
    return op.results[0]


def _is_multiplied(tile: SSAValue) -> bool:
    """Whether a product multiplies a tile, or what pure ops make of it; or whether it is only handed on, to be multiplied later."""
    pending, seen = [tile], {tile}
    while pending:
        for use in pending.pop().uses:
            op = use.operation
            if use.index in MULTIPLIED.get(op.name, ()):
                return True
            if op.name == "scf.yield" and isinstance(loop := op.parent_op(), arith.For):
                values = [loop.carried_args()[use.index]]
            elif isinstance(op, TileOp) and op.PURE and not op.regions and op.name not in MULTIPLIED:
                values = list(op.results)
            else:
                continue
            new = [v for v in values if v not in seen]
            pending += new
            seen.update(new)
    return False
