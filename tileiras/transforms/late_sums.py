"""`late-sums`: what an iteration's last product gives is added to the sums that threads hold an iteration later.

    for %i (%sum = 0) {                                store_tmem 0, %o
      %x = load_tmem (scores) ...                      %s, %l = for %i (%sum = 0, %r' = 1) {
      store_tmem %w, %p                                  %x = load_tmem (scores) ...
      tensor_dot %p, %v, %o                    ->        %y = load_tmem %o
      %y = load_tmem %o                                  %next = %sum * %r' + %y
      %next = %sum * %r + %y                             store_tmem %w, %p
      yield %next                                        tensor_dot %p, %v, %o
    }                                                    yield %next, %r
                                                       }
                                                       %s * %l + load_tmem %o

Attention whose author keeps the sums beside the products (`acc * r + mma(p, v, zeros)`) has them in registers. Threads would wait
in each iteration for a product that they have only just begun; so it has as long as the next iteration's weights take. The first
iteration adds a product of zeros to sums of zeros. The same is computed. Exponentials have their branches again (`advance-dots`
took them): with less to wait for instructions are dearer (64x64 tiles of 128 features, B200: 20.2 us, 18.4 late, 17.9 so).
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import Block, Operation, SSAValue

from tileiras.analysis.agents import agent_of
from tileiras.analysis.tensor_dots import TENSOR_DOT, is_paired
from tileiras.analysis.warpgroup_dots import is_zero
from tileiras.dialects import arith, nv_tileas
from tileiras.dialects.nv_tileas import EXITS, TmemType
from tileiras.remarks import PASSED, TENSOR_CORE, Remark, remark
from tileiras.transforms.advance_dots import change_on_trial
from tileiras.transforms.commit_dots import RELEASE
from tileiras.transforms.iterations import Iterations
from tileiras.transforms.late_results import LOAD, has_room
from tileiras.transforms.rules import attr_splat, element_type
from tileiras.transforms.structure import is_movable

STORE, BROADCAST = "nv_tileas.store_tmem", "nv_tileas.broadcast"
SUMS = (arith.Fma, arith.Mulf, arith.Addf)
"""What may be done with the sums: of zeros, ones and zeros it makes zeros."""


def run(module: Operation, context: Any) -> None:
    """Let sums be late, in place."""
    change_on_trial(module, context, _late, lambda func: _delay, has_room, _told_of)


def _told_of(func: Operation, loop: Operation) -> Remark:
    return remark(func, loop, PASSED, TENSOR_CORE, "TensorCoreSumsLate",
                  "What an iteration's last product gives is added in the next one")


@dataclass(frozen=True)
class LateSums:
    """`load`: of the product's results; `ops`: in order, what makes the next sums of these, which are carried as number `place`;
    `factors`: what they take besides, and what that is broadcast from; `before`, `stored`: what stores the weights' first part, and
    their last one: in front of the one, or behind the other it may stand."""

    load: Any
    ops: tuple[Operation, ...]
    place: int
    factors: dict[SSAValue, SSAValue]
    before: Operation
    stored: Operation


def _late(loop: Any) -> LateSums | None:
    """Such sums that begin with zeros, so that a product of zeros may be added to them first."""
    late = late_sums(loop)
    return late if late is not None and is_zero(loop.carried_inits()[late.place]) else None


def late_sums(loop: Any) -> LateSums | None:
    """What may be added an iteration later."""
    body: Block = loop.regions[0].block
    if agent_of(loop) is None or any(op.name in EXITS for op in loop.walk()):
        return None
    dots: list[Any] = [op for op in body.ops if op.name == TENSOR_DOT]
    if not dots or is_paired(dots[-1]) or not isinstance(dots[-1].lhs.type, TmemType):
        return None
    home, weights = dots[-1].acc, dots[-1].lhs
    users = [use.operation for use in home.uses]
    load = next((op for op in users if op.name == LOAD), None)
    stores = [op for use in weights.uses if (op := use.operation).name == STORE]
    if load is None or len(users) != 2 or not isinstance(home.owner, nv_tileas.AllocTensor) or \
            not all(op.parent is body for op in (home.owner, load, *stores)) or not stores or \
            _is_accumulated(dots[-1]) or not dots[-1].is_before_in_block(load):
        return None
    stores.sort(key=body.get_operation_index)
    return _sums_of(loop, load, stores[0], stores[-1])


def _is_accumulated(dot: Any) -> bool:
    """Whether a product may be added to what its columns hold."""
    owner = dot.operands[3].owner
    return not isinstance(owner, arith.Constant) or bool(owner.properties["value"].value.data)      # type: ignore[attr-defined]


def _sums_of(loop: Any, load: Operation, before: Operation, stored: Operation) -> LateSums | None:
    """The ops that add what is loaded to carried sums, if they do nothing else."""
    body: Block = loop.regions[0].block
    end: Any = body.last_op
    given = {load.results[0]}
    ops: list[Operation] = []
    op = load.next_op
    while op is not None and op is not end:
        if any(v in given for v in op.operands):
            if not isinstance(op, SUMS):
                return None
            ops.append(op)
            given.update(op.results)
        elif op.name != RELEASE and not is_movable(op):
            return None
        op = op.next_op
    places = [n for n, v in enumerate(end.operands) if v in given]
    if not ops or len(places) != 1 or end.operands[places[0]] is not ops[-1].results[0]:
        return None
    sums = list(loop.carried_args())[places[0]]
    scaled = [use.operation for use in sums.uses]
    if len(scaled) != 1 or not isinstance(scaled[0], SUMS) or scaled[0].parent is not body:
        return None
    if scaled[0] not in ops:        # sums times a factor, which needn't wait for what is loaded
        ops.insert(0, scaled[0])
        given.update(scaled[0].results)
    given.add(sums)
    if any(use.operation not in (*ops, end) for v in given for use in v.uses):
        return None
    factors: dict[SSAValue, SSAValue] = {}
    for op in ops:
        for v in op.operands:
            if v not in given:
                owner = v.owner
                if not isinstance(owner, Operation) or owner.name != BROADCAST or owner.parent is not body or \
                        isinstance(op, arith.Addf):
                    return None
                factors[v] = owner.operands[0]
    return LateSums(load, tuple(ops), places[0], factors, before, stored)


def _delay(loop: Any, late: LateSums) -> Any:
    """Add it in the next iteration, and behind the loop; the loop."""
    body = loop.regions[0].block
    iterations = Iterations(loop)
    home = late.load.operands[0].owner
    home.detach()
    loop.parent.insert_op_before(home, loop)
    iterations.insert(nv_tileas.StoreTmem.make([iterations.zeros(late.load.results[0].type), home.results[0]], [],
                                               dict(late.load.properties)))
    narrow = list(dict.fromkeys(late.factors.values()))
    ones = [attr_splat(loop, v.type, FloatAttr(1.0, element_type(v.type))) for v in narrow]     # type: ignore[arg-type]
    before = {v: body.insert_arg(v.type, len(body.args)) for v in narrow}
    sums = body.args[1 + late.place]
    iterations.before = late.before
    made = _add(iterations, late, sums, before)
    end = body.last_op
    end.operands = [made if n == late.place else v for n, v in enumerate(end.operands)]
    for op in body.ops:
        if isinstance(op, arith.Exp2):
            op.properties.pop("branchless", None)
    loop = iterations.carry(ones, narrow)
    users = list(loop.results[late.place].uses)
    iterations.before = loop.next_op
    result = _add(iterations, late, loop.results[late.place], dict(zip(narrow, loop.results[-len(narrow):] if narrow else ())))
    for use in users:
        use.operation.operands[use.index] = result
    for op in reversed((late.load, *late.ops)):
        op.detach()
        op.erase()
    return loop


def _add(iterations: Iterations, late: LateSums, sums: SSAValue, narrow: dict[SSAValue, SSAValue]) -> SSAValue:
    """The next sums, of these and what the narrow factors are then."""
    body: Block = late.load.parent
    known: dict[SSAValue, SSAValue] = {body.args[1 + late.place]: sums}
    for wide, source in late.factors.items():
        known[wide] = iterations.make(nv_tileas.Broadcast, [narrow[source]], wide.type)
    for op in (late.load, *late.ops):
        iterations.insert(op.clone(known))
    return known[late.ops[-1].results[0]]
