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

Several such products go ahead together where a thread has registers for what they all give (attention's gradients: scores, and what
the gradient of the result makes of the values). What a later product of the iteration reads of their stages keeps its number, which
the loop carries, and is given back by that product: a ring of three stages at least (`materialize-schedule` sees to that). The
gradient of queries by 128x64 tiles of 128, B200: 29.6 us, 15.1 ahead; where blocks fill the machine 68.1 by two an SM, 60.5 ahead.
Not of fewer rows than there are lanes, whose products are done soon (of keys, 32x64 tiles of 128: 154.4 us, 162.4 ahead). A warp
then has a scheduler to itself, and exponentials that may be subnormal take arithmetic instead of predicates, of which there are so
few that ptxas has one wait for another (5.4 and 21.9 us of the former two).

For loops of a compute agent whose products are all of such a kind; keys must have a ring of at least two stages, so that the
next ones are there. Left alone where several blocks share an SM, unless products take long (`MUCH`), or several agents a block's
rows: their products run beside each other's threads, and one more barrier an iteration costs more than this gains (B200: two chains
of 128x128 tiles of 64 76.2 us, 90.8 ahead; but 128x128 of 192 and 128, causal, 59.8 us, 46.1 ahead).
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

from xdsl.dialects.builtin import IntAttr, StringAttr, UnitAttr, i32
from xdsl.ir import Block, Operation, SSAValue

from tileiras.analysis.agents import WARP_THREADS, agent_of, block_warps, launch_registers, switch_of
from tileiras.analysis.shared_memory import plan_shared_memory
from tileiras.analysis.tensor_dots import TENSOR_DOT, is_paired, umma_of
from tileiras.analysis.tensor_memory import plan_tensor_memory
from tileiras.dialects import arith, nv_tileas
from tileiras.dialects.nv_tileaa import int_values
from tileiras.dialects.nv_tileas import EXITS, BufferType, PipeType, TmemType
from tileiras.layout.atoms.umma import COLUMNS, LANES
from tileiras.remarks import PASSED, TENSOR_CORE, Remark, remark
from tileiras.schedule.depth import registers_of, shared_budget
from tileiras.schedule.names import LEAST_LENT
from tileiras.transforms.commit_dots import COUNTED, RELEASE, SLICE, UMMA, WAIT
from tileiras.transforms.iterations import Iterations
from tileiras.transforms.places import keep_places
from tileiras.transforms.structure import first_pipe, put_in_place

LOAD = "nv_tileas.load_tmem"
FEWEST_STAGES = 2
MOST_LOADED = 128
"""Registers of a thread that hold several products' rows at once."""
OPERANDS = 4
"""Of a product that isn't block-scaled."""
SHARED = 2
"""Blocks on an SM, that do as much for each other."""
MUCH, LONG = 1 << 20, 128
"""Numbers that a product multiplies, and how many each of its sums has, from which it runs ahead beside another block, too (128
rows, 64 keys and 128 columns, B200, 32 heads of 2048 84.1 us, 80.9 ahead, two heads 39.6, 32.5; but 128 keys and 64 columns, 16
heads 31.5, 46.9 ahead, four 24.2, 21.4; 64 keys and columns, 32 heads 67.9, 77.0 ahead)."""


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
    """Products that may run ahead. `homes`: where they go; `ops`: what they need of their iteration, in order, with what gives back
    stages that only they read; `loads`: who reads them; `lent`: the waits for stages that later products of the iteration read."""

    homes: tuple[Operation, ...]
    ops: tuple[Operation, ...]
    loads: tuple[Operation, ...]
    lent: tuple[Operation, ...]


def _first_product(loop: Any) -> _First | None:
    """The products of a loop's body whose rows become others' first operands, if all other products are of that kind."""
    body = loop.regions[0].block
    if agent_of(loop) is None or any(op.name in EXITS for op in loop.walk()):
        return None
    dots = [op for op in loop.walk() if op.name == TENSOR_DOT]
    if any(op.parent is not body or is_paired(op) or len(op.operands) != OPERANDS for op in dots):
        return None
    late = [op for op in dots if isinstance(op.operands[0].type, TmemType)]
    homes = dict.fromkeys(op.operands[2] for op in dots if op not in late)
    if not late or not homes or any(op.operands[2] in homes for op in late):
        return None
    return _found(body, list(homes), [op for op in dots if op not in late])


def _found(body: Block, homes: list[SSAValue], dots: list[Operation]) -> _First | None:
    allocs, loads = [], []
    for home in homes:
        users = [use.operation for use in home.uses]
        own = [op for op in users if op.name == LOAD and op.parent is body]
        into = {op for op in dots if op.operands[2] is home}
        if not isinstance(home.owner, Operation) or home.owner.parent is not body or not own or {*into, *own} != set(users) or \
                max(map(body.get_operation_index, into)) > min(map(body.get_operation_index, own)):
            return None
        allocs.append(home.owner)
        loads += own
    if len(homes) > 1 and sum(registers_of(op.results[0]) for op in loads) > MOST_LOADED:
        return None
    needed = _needed(body, allocs, dots)
    if needed is None:
        return None
    lent = _lent(body, needed)
    if lent is None or ((lent or len(homes) > 1) and any(_rows(dot) < LANES for dot in dots)):
        return None
    pipes = {op.operands[0] for op in needed if op.name == WAIT}
    for pipe in pipes:
        inside = {use.operation for use in pipe.uses if body.is_ancestor(use.operation)}
        given_back = [op for op in inside if op.name == RELEASE and op.parent is body]
        if len(given_back) != 1 or inside != {*given_back, *(op for op in needed if op.operands and op.operands[0] is pipe)}:
            return None
        if not any(op.operands[0] is pipe for op in lent):
            needed |= set(given_back)
    ordered = tuple(op for op in body.ops if op in needed and op not in allocs)
    return _First(tuple(allocs), ordered, tuple(loads), lent)


def _rows(dot: Operation) -> int:
    """Of a product's instruction."""
    atom = umma_of(dot)
    assert atom is not None
    return atom.m


def _needed(body: Block, allocs: list[Operation], dots: list[Operation]) -> set[Operation] | None:
    """The ops of the body that products need, None where they need more than stages."""
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
            if maker.parent is body and maker not in allocs:
                pending.append(maker)
    for op in needed - set(dots):
        if op.name == WAIT:
            t: Any = op.operands[0].type
            if t.kind.data not in COUNTED or t.stages.data < FEWEST_STAGES:
                return None
        elif op.name != SLICE and not isinstance(op, arith.Constant):
            return None
    return needed


def _lent(body: Block, needed: set[Operation]) -> tuple[Operation, ...] | None:
    """The waits among these ops for stages that others read, too; None where those aren't products of the body, or the ring is too
    short: one stage is being read, one has been asked for behind it, and the next one must come meanwhile."""
    lent: dict[Operation, None] = {}
    for op in body.ops:
        if op not in needed or op.name not in (WAIT, SLICE):
            continue
        others = [use.operation for r in op.results for use in r.uses if use.operation not in needed]
        if not others:
            continue
        wait: Any = op if op.name == WAIT else op.operands[1].owner
        readers = others if op.name == SLICE else [use.operation for other in others for r in other.results for use in r.uses]
        if any(other.name not in (SLICE, TENSOR_DOT) for other in others) or wait not in needed or \
                any(reader.name != TENSOR_DOT or reader.parent is not body for reader in readers) or \
                wait.operands[0].type.stages.data < LEAST_LENT:
            return None
        lent[wait] = None
    return tuple(lent)


def _advancing(func: Operation) -> Callable[[Any, _First], Any]:
    """What advances the products of a function's loops, which are told of one loop after another."""
    return partial(_advance, pipe=_told(func))


def _advance(loop: Any, first: _First, pipe: SSAValue) -> Any:
    """Begin the first products in front of the loop, and each following ones behind the loads of those before; the loop."""
    body, outside = loop.regions[0].block, loop.parent
    for home in first.homes:
        home.detach()
        outside.insert_op_before(home, loop)
    ahead = Iterations(loop)
    inits = _only_if(ahead, ahead.some(), first, pipe)
    head, *others = sorted(first.loads, key=body.get_operation_index)
    behind = others[-1] if others else head
    if len(first.homes) > 1:
        for load in reversed(others):
            load.detach()
            body.insert_op_after(load, head)
    assert behind.next_op is not None
    ahead.before = behind.next_op
    following = _only_if(ahead, ahead.following(1)[1], first, pipe)
    stored = [op.operands[0] for op in first.ops if op.name == SLICE]
    held = [v for op in first.ops if op.name == TENSOR_DOT for v in op.operands[:2] if isinstance(v.type, BufferType)]
    places = dict.fromkeys([*stored, *(_place(v) for v in held if v.owner not in first.ops),
                            *(home.results[0] for home in first.homes)])
    wait = nv_tileas.ConsumerWait.make([pipe, list(places)], [i32])
    wait.location = head.location
    body.insert_op_before(wait, head)
    _hand_on(body, first)
    for op in body.ops:
        if isinstance(op, arith.Exp2) and "ftz" not in op.properties:
            op.properties["branchless"] = UnitAttr()
    for op in reversed(first.ops):
        op.detach()
        op.erase()
    return ahead.carry(inits, following)


def _hand_on(body: Block, first: _First) -> None:
    """Later products read the stages whose numbers the iteration before has handed on."""
    for wait in first.lent:
        number = body.insert_arg(i32, len(body.args))
        for op in [use.operation for use in wait.results[0].uses]:
            if op not in first.ops:
                op.operands[1] = number
            elif any(use.operation not in first.ops for use in op.results[0].uses):
                again = op.clone()
                again.operands[1] = number
                assert body.first_op is not None
                body.insert_op_before(again, body.first_op)
                op.results[0].replace_uses_with_if(again.results[0], lambda use: use.operation not in first.ops)


def _place(v: SSAValue) -> SSAValue:
    owner = v.owner
    return owner.operands[0] if isinstance(owner, Operation) and owner.name == SLICE else v


def _only_if(ahead: Iterations, condition: SSAValue, first: _First, pipe: SSAValue) -> list[SSAValue]:
    """The products once more, in a branch of their own; the numbers of the stages that they lend."""
    known: dict[SSAValue, SSAValue] = {}

    def again() -> list[SSAValue]:
        for op in (*(op.clone(known) for op in first.ops), nv_tileas.ProducerCommit.make([pipe])):
            ahead.insert(op)
        return [known[wait.results[0]] for wait in first.lent]
    return ahead.branch(condition, again, [ahead.constant(0, i32) for _ in first.lent])


def _told(func: Operation) -> SSAValue:
    """A pipe that says when such a product is done, of one loop after another."""
    top = func.regions[0].block
    made = nv_tileas.CreatePipeline.make([], [PipeType(StringAttr(UMMA), IntAttr(1))])
    made.location = func.location
    top.insert_op_before(made, first_pipe(top, lambda op: op.name == TENSOR_DOT))
    return made.results[0]


def _has_room(before: Operation, after: Operation, target: Any) -> bool:
    """Whether shared memory or registers leave an SM one block anyway, and that finds room; or still several do, and products take
    long."""
    if shares_an_sm(before, target):
        return shares_an_sm(after, target) and _take_long(before)
    return fits(after, COLUMNS, target)


def _take_long(func: Operation) -> bool:
    """Whether each product whose operands lie in shared memory multiplies so much that threads would wait for it."""
    dots: list[Any] = [op for op in func.walk() if op.name == TENSOR_DOT and isinstance(op.operands[0].type, BufferType)]
    return all((k := op.operands[0].type.layout.data.shape[-1]) >= LONG and prod(int_values(op.operands[2].type.shape)) * k >= MUCH
               for op in dots)


def fits(func: Operation, columns: int, target: Any) -> bool:
    """Whether so many columns hold what a block asks for, and shared memory the rest."""
    return asked_columns(func) <= columns and plan_shared_memory(func).size <= target.most_static_smem


def shares_an_sm(func: Operation, target: Any) -> bool:
    """Whether shared memory, registers and tensor memory leave an SM several blocks."""
    return blocks_of_an_sm(func, target, asked_columns(func), SHARED) == SHARED


def blocks_of_an_sm(func: Operation, target: Any, columns: int, most: int) -> int:
    """For how many blocks, which ask for so many columns of tensor memory each, an SM has room, and shared memory and registers; at
    most so many."""
    size = plan_shared_memory(func).size
    registers = (launch_registers(func) or 0) * block_warps(func) * WARP_THREADS
    return next((n for n in range(most, 1, -1) if size <= shared_budget(target, n) and n * registers <= target.registers_per_sm
                 and n * columns <= COLUMNS), 1)


def asked_columns(func: Operation) -> int:
    """That a block asks for, by one agent; more than there are where several do."""
    switch = switch_of(func)
    assert switch is not None
    plans = [plan for region in switch.regions if (plan := plan_tensor_memory(region)) is not None]
    return plans[0].allocation if len(plans) == 1 and plans[0].fits else COLUMNS + 1
