"""`advance-dots`: the next iteration's first product runs while threads work on this one's, where tensor memory holds both.

    for %i = %a to %b step %s {                      if %a < %b { tensor_dot %q, %k[next], %s ; producer_commit %early }
      tensor_dot %q, %k[next], %s                    for %i = %a to %b step %s {
      %x = load_tmem %s                                consumer_wait %early
      %p = softmax(%x)                       ->        %x = load_tmem %s
      store_tmem %p, %w                                if there is an iteration behind { tensor_dot %q, %k[next], %s ; ... }
      tensor_dot %w, %v[next], %o                      %p = softmax(%x)
    }                                                  store_tmem %p, %w
                                                       tensor_dot %w, %v[next], %o
                                                     }

Attention's threads hold the scores in registers as soon as they have loaded them: from then on the tensor core may write the next
ones to the same columns; the weights get columns of their own. `commit-dots` then has the threads wait for an iteration's second
product where they want its operand's place again, which is behind the next softmax.

For loops of a compute agent whose products are all of such a kind; keys must have a ring of at least two stages, so that the
next ones are there. Left alone where several blocks share an SM, or several agents a block's rows: their products run beside each
other's threads, and one more barrier an iteration costs more than this gains (B200: 128x64 tiles of 128, two blocks an SM, 45.2 us,
47.5 ahead; two chains of 128x128 tiles of 64 76.2 us, 90.8 ahead; but 128x128 of 192 and 128, causal, 59.8 us, 46.1 ahead).
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from xdsl.dialects.builtin import IntAttr, StringAttr, i32
from xdsl.ir import Block, Operation, Region, SSAValue

from tileiras.analysis.agents import WARP_THREADS, agent_of, block_warps, launch_registers, switch_of
from tileiras.analysis.shared_memory import plan_shared_memory
from tileiras.analysis.tensor_dots import TENSOR_DOT, is_paired
from tileiras.analysis.tensor_memory import plan_tensor_memory
from tileiras.dialects import arith, nv_tileas
from tileiras.dialects.nv_tileas import EXITS, BufferType, PipeType, TmemType
from tileiras.layout.atoms.umma import COLUMNS
from tileiras.remarks import PASSED, TENSOR_CORE, Remark, remark
from tileiras.schedule.depth import shared_budget
from tileiras.transforms.commit_dots import COUNTED, RELEASE, SLICE, UMMA, WAIT
from tileiras.transforms.iterations import Iterations
from tileiras.transforms.places import keep_places
from tileiras.transforms.structure import first_pipe, put_in_place

LOAD = "nv_tileas.load_tmem"
FEWEST_STAGES = 2
OPERANDS = 4
"""Of a product that isn't block-scaled."""
SHARED = 2
"""Blocks on an SM, that do as much for each other."""


def run(module: Operation, context: Any) -> None:
    """Let products run ahead, in place."""
    change_on_trial(module, context, _first_product, _advancing, _has_room, _told_of)


def _told_of(func: Operation, loop: Operation) -> Remark:
    return remark(func, loop, PASSED, TENSOR_CORE, "TensorCoreRunsAhead",
                  "The next iteration's product runs beside what is done with this one's")


def change_on_trial(module: Operation, context: Any, found: Callable[[Any], Any],
                    changing: Callable[[Operation], Callable[[Any, Any], Any]],
                    has_room: Callable[[Operation, Operation, Any], bool], told: Callable[[Operation, Operation], Remark]) -> None:
    """Change loops of functions with products into tensor memory, on a copy of each function that stands for it where it finds
    room. `found`: what a loop offers, None: nothing. `changing`: of a function, what changes one of its loops by that, and gives
    the loop that it becomes. `has_room`: of a function before and after, on a target. `told`: the remark on a function's loop."""
    if not (context.uses("tcgen05") and context.uses("pipelines")):
        return
    for func in list(module.regions[0].block.ops):
        if func.name != "nv_tileas.func" or "cluster" in func.properties or not any(map(found, _loops(func))):
            continue
        trial = func.clone()
        change = changing(trial)
        loops = [change(loop, offered) for loop in _loops(trial) if (offered := found(loop)) is not None]
        if not has_room(func, trial, context.target):
            continue
        put_in_place(trial, func)
        keep_places(trial)
        if context.remarks is not None:
            context.remarks += [told(trial, loop) for loop in loops]


def _loops(func: Operation) -> list[Any]:
    return [op for op in func.walk() if op.name == "scf.for"]


@dataclass(frozen=True)
class _First:
    """A product that may run ahead. `home`: where it goes; `ops`: what it needs of its iteration, in order, with what gives stages
    back; `loads`: who reads it."""

    home: Operation
    ops: tuple[Operation, ...]
    loads: tuple[Operation, ...]


def _first_product(loop: Any) -> _First | None:
    """The product of a loop's body whose rows become another one's first operand, if all other products are of that kind."""
    body = loop.regions[0].block
    if agent_of(loop) is None or any(op.name in EXITS for op in loop.walk()):
        return None
    dots = [op for op in loop.walk() if op.name == TENSOR_DOT]
    if any(op.parent is not body or is_paired(op) or len(op.operands) != OPERANDS for op in dots):
        return None
    late = [op for op in dots if isinstance(op.operands[0].type, TmemType)]
    homes = {op.operands[2] for op in dots if op not in late}
    if not late or len(homes) != 1:
        return None
    home = homes.pop()
    return _found(body, home, [op for op in dots if op not in late]) if not any(op.operands[2] is home for op in late) else None


def _found(body: Block, home: SSAValue, dots: list[Operation]) -> _First | None:
    alloc = home.owner
    users = [use.operation for use in home.uses]
    loads = [op for op in users if op.name == LOAD and op.parent is body]
    if not isinstance(alloc, Operation) or alloc.parent is not body or not loads or {*dots, *loads} != set(users):
        return None
    if max(map(body.get_operation_index, dots)) > min(map(body.get_operation_index, loads)):
        return None
    needed = _needed(body, alloc, dots)
    if needed is None:
        return None
    pipes = {op.operands[0] for op in needed if op.name == WAIT}
    for pipe in pipes:
        inside = {use.operation for use in pipe.uses if body.is_ancestor(use.operation)}
        given_back = [op for op in inside if op.name == RELEASE and op.parent is body]
        if len(given_back) != 1 or inside != {*given_back, *(op for op in needed if op.operands and op.operands[0] is pipe)}:
            return None
        needed |= set(given_back)
    ordered = tuple(op for op in body.ops if op in needed and op is not alloc)
    return _First(alloc, ordered, tuple(loads))


def _needed(body: Block, alloc: Operation, dots: list[Operation]) -> set[Operation] | None:
    """The ops of the body that products need, None where they need more than stages that nobody else reads."""
    needed: set[Operation] = set()
    pending: list[Operation] = list(dots)
    while pending:
        op = pending.pop()
        if op in needed:
            continue
        needed.add(op)
        for v in op.operands:
            maker = v.owner
            if not isinstance(maker, Operation):
                if maker is body:
                    return None     # the iteration's own number, or what it carries
                continue
            if maker.parent is body and maker is not alloc:
                pending.append(maker)
    for op in needed - set(dots):
        if op.name == WAIT:
            t: Any = op.operands[0].type
            if t.kind.data not in COUNTED or t.stages.data < FEWEST_STAGES:
                return None
        elif op.name != SLICE and not isinstance(op, arith.Constant):
            return None
        if op.name != "arith.constant" and any(use.operation not in needed for r in op.results for use in r.uses):
            return None
    return needed


def _advancing(func: Operation) -> Callable[[Any, _First], Any]:
    """What advances the products of a function's loops, which are told of one loop after another."""
    return partial(_advance, pipe=_told(func))


def _advance(loop: Any, first: _First, pipe: SSAValue) -> Any:
    """Begin the first product in front of the loop, and each following one behind the loads of the one before; the loop."""
    body, outside = loop.regions[0].block, loop.parent
    first.home.detach()
    outside.insert_op_before(first.home, loop)
    ahead = Iterations(loop)
    _only_if(ahead, ahead.some(), first, pipe)
    behind = max(first.loads, key=body.get_operation_index).next_op
    assert behind is not None
    ahead.before = behind
    _only_if(ahead, ahead.following(1)[1], first, pipe)
    stored = [op.operands[0] for op in first.ops if op.name == SLICE]
    held = [v for op in first.ops if op.name == TENSOR_DOT for v in op.operands[:2] if isinstance(v.type, BufferType)]
    places = dict.fromkeys([*stored, *(_place(v) for v in held if v.owner not in first.ops), first.home.results[0]])
    wait = nv_tileas.ConsumerWait.make([pipe, list(places)], [i32])
    wait.location = first.loads[0].location
    body.insert_op_before(wait, min(first.loads, key=body.get_operation_index))
    for op in reversed(first.ops):
        op.detach()
        op.erase()
    return loop


def _place(v: SSAValue) -> SSAValue:
    owner = v.owner
    return owner.operands[0] if isinstance(owner, Operation) and owner.name == SLICE else v


def _only_if(ahead: Iterations, condition: SSAValue, first: _First, pipe: SSAValue) -> None:
    """The product once more, in a branch of its own."""
    then, other = Block(), Block()
    known: dict[SSAValue, SSAValue] = {}
    for op in first.ops:
        then.add_op(op.clone(known))
    then.add_op(nv_tileas.ProducerCommit.make([pipe]))
    for block in (then, other):
        block.add_op(arith.Yield.make([[]]))
    branch = arith.If.make([condition], [[]], regions=[Region(then), Region(other)])
    branch.location = ahead.loop.location
    ahead.insert(branch)


def _told(func: Operation) -> SSAValue:
    """A pipe that says when such a product is done, of one loop after another."""
    top = func.regions[0].block
    made = nv_tileas.CreatePipeline.make([], [PipeType(StringAttr(UMMA), IntAttr(1))])
    made.location = func.location
    top.insert_op_before(made, first_pipe(top, lambda op: op.name == TENSOR_DOT))
    return made.results[0]


def _has_room(before: Operation, after: Operation, target: Any) -> bool:
    """Whether shared memory or registers leave an SM one block anyway, and that finds room."""
    return not shares_an_sm(before, target) and fits(after, COLUMNS, target)


def fits(func: Operation, columns: int, target: Any) -> bool:
    """Whether so many columns hold what a block asks for, and shared memory the rest."""
    return asked_columns(func) <= columns and plan_shared_memory(func).size <= target.most_static_smem


def shares_an_sm(func: Operation, target: Any) -> bool:
    """Whether shared memory, registers and tensor memory leave an SM several blocks."""
    size = plan_shared_memory(func).size
    registers = (launch_registers(func) or 0) * block_warps(func) * WARP_THREADS
    return size <= shared_budget(target, SHARED) and SHARED * registers <= target.registers_per_sm and \
        SHARED * asked_columns(func) <= COLUMNS


def asked_columns(func: Operation) -> int:
    """That a block asks for, by one agent; more than there are where several do."""
    switch = switch_of(func)
    assert switch is not None
    plans = [plan for region in switch.regions if (plan := plan_tensor_memory(region)) is not None]
    return plans[0].allocation if len(plans) == 1 and plans[0].fits else COLUMNS + 1
