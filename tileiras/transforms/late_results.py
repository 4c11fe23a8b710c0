"""`late-results`: what is done with the last product of an iteration is done in the next one, beside that one's first products.

    for %i = %a to %b step %s {                      store_tmem zeros, %o
      tensor_dot %q, %k, %x                          %l = for %i = %a to %b step %s (%h = %a) {
      ...                                              tensor_dot %q, %k, %x
      tensor_dot %w, %v, %o                            %y = f(load_tmem %o)
      %y = f(load_tmem %o)                   ->        if %i is not the first { store %y at %h }
      store %y at %i                                   ...
    }                                                  tensor_dot %w, %v, %o
                                                       yield %i
                                                     }
                                                     if there was an iteration { %y = f(load_tmem %o) ; store %y at %l }

Threads that store an iteration's result (chunks of linear attention) wait for its last product with nothing else to do, and the
tensor core has nothing to do while they store. What stands behind the last product moves behind products that the next iteration
begins before it waits for anything; only stores are left out where there is no iteration before, so that threads meet in every
one. It may need the counter, what the loop doesn't change, and results of products whose columns nobody uses before that place;
`commit-dots` waits for these there.

Left alone where tensor memory has no columns left for that, or where another block on the SM would miss them.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import Block, Operation, SSAValue

from tileiras.analysis.agents import agent_of
from tileiras.analysis.tensor_dots import TENSOR_DOT, is_paired
from tileiras.dialects import arith, nv_tileas
from tileiras.dialects.nv_tileaa import MemTokenType
from tileiras.dialects.nv_tileas import EXITS, BufferType, TmemType
from tileiras.layout.atoms.umma import COLUMNS
from tileiras.remarks import PASSED, TENSOR_CORE, Remark, remark
from tileiras.transforms.advance_dots import asked_columns, change_on_trial, fits, shares_an_sm
from tileiras.transforms.commit_dots import RELEASE, WAIT, is_made_by_threads
from tileiras.transforms.iterations import Iterations
from tileiras.transforms.structure import holder_in, is_movable

LOAD = "nv_tileas.load_tmem"
TMA_STORE, STORE_WAIT = "nv_tileas.tma_store", "nv_tileas.store_wait"
STORES = frozenset({TMA_STORE, "nv_tileas.tiled_store"})
MOVES = frozenset({LOAD, "nv_tileas.alloc_tensor", "nv_tileas.store_shared", "nv_tileas.load_shared", STORE_WAIT, *STORES,
                   "nv_tileas.reduce"})
"""What may be late, besides ops that compute values."""
FEWEST = 2
"""Products of an iteration: a single one has nothing beside it but its own next one."""


def run(module: Operation, context: Any) -> None:
    """Let results be late, in place."""
    change_on_trial(module, context, _late, lambda func: _delay, has_room, _told_of)


def _told_of(func: Operation, loop: Operation) -> Remark:
    return remark(func, loop, PASSED, TENSOR_CORE, "TensorCoreResultsLate",
                  "An iteration's result is stored beside the next one's products")


@dataclass(frozen=True)
class _Late:
    """`ops`: in order, what is done with the last results, and scalars that it needs. `homes`: the places of these. `begun`: behind
    which product it stands in the next iteration."""

    ops: tuple[Operation, ...]
    homes: tuple[Operation, ...]
    begun: Operation


def _late(loop: Any) -> _Late | None:
    """What may be done an iteration later."""
    body = loop.regions[0].block
    if agent_of(loop) is None or any(op.name in EXITS for op in loop.walk()):
        return None
    ops = list(body.ops)[:-1]
    dots = [i for i, op in enumerate(ops) if op.name == TENSOR_DOT]
    if len(dots) < FEWEST or any(is_paired(ops[i]) for i in dots):
        return None
    tail = [op for op in ops[dots[-1] + 1:] if op.name != RELEASE]
    if not any(op.name in STORES for op in tail) or not any(op.name == LOAD for op in tail) or \
            any(not (is_movable(op) or op.name in MOVES) for op in tail):
        return None
    needed = _needed(body, tail)
    homes = {v.owner: None for op in tail for v in op.operands if isinstance(v.type, TmemType)}
    if needed is None or any(not isinstance(home, Operation) or home.parent is not body for home in homes):
        return None
    place = {op: i for i, op in enumerate(ops)}
    used = min(place[holder_in(body, use.operation)] for home in homes for use in home.results[0].uses)     # type: ignore[union-attr]
    begun: int | None = None        # the last product that is begun before anything is waited for
    for i, op in enumerate(ops[:min(used, dots[-1])]):
        if begun is not None and op.name == WAIT:
            break
        if op.name == TENSOR_DOT:
            begun = i
    if begun is None:
        return None
    return _Late(tuple(op for op in ops if op in needed or op in tail), tuple(homes), ops[begun])    # type: ignore[arg-type]


def _needed(body: Block, tail: list[Operation]) -> set[Operation] | None:
    """What the tail needs of its iteration besides the counter and places of results: scalars that follow from it. None where it
    needs more, or others need what it makes."""
    inside = set(tail)
    needed: set[Operation] = set()
    pending = list(tail)
    while pending:
        op = pending.pop()
        for inner in op.walk():
            for v in inner.operands:
                maker = v.owner
                if isinstance(maker, Block):
                    if maker is body and v is not body.args[0]:
                        return None
                    continue
                if maker in inside or maker in needed or maker.parent is not body or isinstance(v.type, TmemType):
                    continue
                if not is_movable(maker) or isinstance(v.type, (TensorType, BufferType)):
                    return None
                needed.add(maker)
                pending.append(maker)
        if any(holder_in(body, use.operation) not in inside for r in op.results for use in r.uses) and op in inside:
            return None
        for v in op.operands:
            if op in inside and isinstance(v.type, BufferType) and _is_used_beside(body, v, inside):
                return None
    return needed


def _is_used_beside(body: Block, buffer: SSAValue, tail: set[Operation]) -> bool:
    """Whether others of the body use a buffer."""
    return any(body.is_ancestor(use.operation) and holder_in(body, use.operation) not in tail for use in buffer.uses)


def _delay(loop: Any, late: _Late) -> Any:
    """Do it in the next iteration, and behind the loop; the loop."""
    body, outside = loop.regions[0].block, loop.parent
    iterations = Iterations(loop)
    for home in late.homes:
        home.detach()
        outside.insert_op_before(home, loop)
    for op in late.ops:
        if op.name == LOAD:     # the first iteration's come to nothing
            zeros = nv_tileas.StoreTmem.make([iterations.zeros(op.results[0].type), op.operands[0]], [], dict(op.properties))
            iterations.insert(zeros)
    before = body.insert_arg(body.args[0].type, len(body.args))
    iterations.before = late.begun.next_op      # type: ignore[assignment]
    others = iterations.make(arith.Cmpi, [body.args[0], loop.operands[0]], IntegerType(1), predicate="ne")
    _in_the_next(iterations, others, late, {body.args[0]: before})
    loop = iterations.carry([loop.operands[0]], [body.args[0]])
    assert loop.next_op is not None
    iterations.before = loop.next_op
    known: dict[SSAValue, SSAValue] = {body.args[0]: loop.results[-1]}
    iterations.branch(iterations.some(), lambda: [iterations.insert(op.clone(known)) for op in late.ops][:0], [])
    for op in reversed(late.ops):
        if not any(r.uses for r in op.results):
            op.detach()
            op.erase()
    return loop


def _in_the_next(iterations: Iterations, others: SSAValue, late: _Late, known: dict[SSAValue, SSAValue]) -> None:
    """What is late, with stores in branches. The first buffer's last copy is waited for before threads meet for a product, if they
    do."""
    stored = not is_made_by_threads(late.begun)
    for op in late.ops:
        if op.name in STORES:
            if op.name == TMA_STORE:
                iterations.insert(nv_tileas.Barrier.make())
            stored = True
            _where_there_was_one(iterations, others, op, known)
        elif op.name == STORE_WAIT and not stored:
            here, iterations.before = iterations.before, late.begun
            iterations.insert(op.clone(known))
            iterations.before = here
        else:
            iterations.insert(op.clone(known))


def _where_there_was_one(iterations: Iterations, others: SSAValue, store: Operation, known: dict[SSAValue, SSAValue]) -> None:
    """A store in a branch. Another one that waits for it goes, where there is none, by what this one waits for."""
    tokens = [r for r in store.results if r.first_use is not None]
    instead = [known.get(v, v) for v in store.operands if isinstance(v.type, MemTokenType)]
    if tokens and not instead:
        instead = [iterations.make(nv_tileas.CreateMemToken, [], tokens[0].type)]

    def then() -> list[SSAValue]:
        iterations.insert(store.clone(known))
        return [known[r] for r in tokens]
    known.update(zip(tokens, iterations.branch(others, then, instead[:1] * len(tokens))))


def has_room(before: Operation, after: Operation, target: Any) -> bool:
    """Whether results find columns of their own, without taking them from another block on the SM, and shared memory has room."""
    most = asked_columns(before) if shares_an_sm(before, target) else COLUMNS
    return fits(after, most, target)
