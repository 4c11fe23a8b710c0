"""Structured control to a control-flow graph: for, if, loop and early exits; carried tiles are block arguments, one vector each.

    scf.for %i = %lo to %hi step %s iter_args(%x = %x0) { ... scf.yield %y }
->  cond_br %lo < %hi, body(%lo, %x0), exit(%x0)
    body(%i, %x): ... cond_br %hi - %i >u %s, body(%i + %s, %y), exit(%y)
    exit: (results are its arguments)

A tile that is `as_loaded` goes over branches as the words of the accesses that load it (memory/words.py).

A `continue` behind which no iteration changes anything (`analysis/idle_iterations.py`) leaves the loop.

Conditions are uniform over the block, so every block of the graph is entered by all threads or none, and barriers may
stand anywhere. Tokens carry nothing and are dropped from carried values.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Block, Operation, SSAValue

from tileiras.analysis.effects import effects_of
from tileiras.analysis.idle_iterations import ends_the_loop
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, lowers, piece_type
from tileiras.conversion.tileas_to_llvm.memory.words import set_tile, word_types, words_of_tile
from tileiras.dialects import nv_tileaa
from tileiras.dialects.nv_tileaa import int_values
from tileiras.dialects.nv_tileas import FlightType

MOST_BLOCKS = 65535
"""Of a grid along z, which ptxas doesn't know."""


@dataclass
class LoopTargets:
    """Where `continue` and `break` of an enclosing loop go: `head`, with the carried values, and `exit`. `only_stores`:
    LLVM shouldn't unroll it; `as_loaded`: how it carries its values. For a `for`, `induction` is (index, upper, step, unsigned),
    from which continue makes the next index and decides between the two."""

    head: Block
    exit: Block
    only_stores: bool
    induction: tuple[SSAValue, SSAValue, SSAValue, bool] | None
    as_loaded: Sequence[int] = ()


def carried(values: Sequence[SSAValue]) -> list[SSAValue]:
    """The values that exist at run time: tokens don't."""
    return [v for v in values if not isinstance(v.type, nv_tileaa.MemTokenType)]


def _as_loaded(op: Operation) -> list[int]:
    """For each result that exists at run time the bytes of the accesses that load it, 0: a vector carries it. Empty: of all."""
    found: Any = op.properties.get("as_loaded")
    return [n for n, v in zip(int_values(found), op.results) if carried([v])] if found is not None else []


def _types(low: Lowering, values: Sequence[SSAValue], as_loaded: Sequence[int]) -> list:
    out = []
    for v, nbytes in zip(values, as_loaded or [0] * len(values)):
        if isinstance(v.type, FlightType):
            out += [piece_type(v.type.tensor, v.type.parts.data)] * v.type.parts.data
        elif nbytes:
            out += word_types(low, v, nbytes)
        else:
            out.append(low.lowered_type(v.type))
    return out


def _given(low: Lowering, values: Sequence[SSAValue], as_loaded: Sequence[int]) -> list[SSAValue]:
    """What a branch hands over for these."""
    values = carried(values)
    return [piece for v, nbytes in zip(values, as_loaded or [0] * len(values))
            for piece in (words_of_tile(low, v, nbytes) if nbytes else low.pieces(v))]


def _bind(low: Lowering, values: Sequence[SSAValue], given: Sequence[SSAValue], as_loaded: Sequence[int]) -> None:
    """What these are where a branch has led."""
    at = 0
    for v, nbytes in zip(values, as_loaded or [0] * len(values)):
        if isinstance(v.type, FlightType):
            low.set_pieces(v, given[at:at + v.type.parts.data])
            at += v.type.parts.data
        elif nbytes:
            count = len(word_types(low, v, nbytes))
            set_tile(low, v, given[at:at + count], nbytes)
            at += count
        else:
            low.set(v, given[at])
            at += 1


@lowers("scf.for")
def lower_for(low: Lowering, op: Operation) -> None:
    b = low.b
    lower, upper, step = (low.scalar(v) for v in op.operands[:3])
    unsigned = "unsigned_cmp" in op.properties
    as_loaded = _as_loaded(op)
    inits = _given(low, op.operands[3:], as_loaded)
    body = op.regions[0].block
    args = carried(body.args[1:])
    types = _types(low, args, as_loaded)
    head, leave = b.new_block([lower.type, *types]), b.new_block(types)
    b.cond_br(b.icmp("ult" if unsigned else "slt", lower, upper), head, leave, [lower, *inits], inits)
    b.at(head)
    low.enter()
    low.set(body.args[0], head.args[0])
    _bind(low, args, head.args[1:], as_loaded)
    low.loops.append(LoopTargets(head, leave, _only_stores(op), (head.args[0], upper, step, unsigned), as_loaded))
    low.lower_block(body)
    low.loops.pop()
    low.leave()
    b.at(leave)
    _bind(low, carried(op.results), leave.args, as_loaded)


def _only_stores(loop: Operation) -> bool:
    """Whether a loop stores tiles and reads nothing: it waits for nobody, and several iterations at once only take registers."""
    stores = False
    for op in loop.walk():
        effects = effects_of(op)
        if effects.token_read or effects.reads:
            return False
        stores |= effects.token_write
    return stores


@lowers("nv_tileas.loop")
def lower_loop(low: Lowering, op: Operation) -> None:
    b = low.b
    inits = _given(low, op.operands, ())
    body = op.regions[0].block
    args = carried(body.args)
    head = b.new_block(_types(low, args, ()))
    results = carried(op.results)
    leave = b.new_block(_types(low, results, ()))
    b.br(head, inits)
    b.at(head)
    low.enter()
    _bind(low, args, head.args, ())
    low.loops.append(LoopTargets(head, leave, False, None))
    low.lower_block(body)
    low.loops.pop()
    low.leave()
    b.at(leave)
    _bind(low, results, leave.args, ())


@lowers("scf.if")
def lower_if(low: Lowering, op: Operation) -> None:
    b = low.b
    results, as_loaded = carried(op.results), _as_loaded(op)
    then, other = b.new_block(), b.new_block()
    join = b.new_block(_types(low, results, as_loaded))
    b.cond_br(low.scalar(op.operands[0]), then, other)
    low.joins.append(join)
    for target, region in zip((then, other), op.regions):
        b.at(target)
        low.enter()
        if region.blocks:
            if "apart" in op.properties and region.block.first_op is not region.block.last_op:
                b.asm("", "", [], [])       # no instruction, but an effect, which LLVM leaves where it is
            low.lower_block(region.block)
        else:
            b.br(join)
        low.leave()
    low.joins.pop()
    b.at(join)
    _bind(low, results, join.args, as_loaded)


@lowers("scf.yield")
def lower_yield(low: Lowering, op: Operation) -> None:
    parent = op.parent_op()
    assert parent is not None
    if parent.name == "scf.if":
        low.b.br(low.joins[-1], _given(low, op.operands, _as_loaded(parent)))
    else:
        _end_iteration(low, op)


def _end_iteration(low: Lowering, op: Operation) -> None:
    target = low.loops[-1]
    values = _given(low, op.operands, target.as_loaded)
    if ends_the_loop(op):
        low.b.br(target.exit, values)
    else:
        _next_iteration(low, values)


def _next_iteration(low: Lowering, values: list[SSAValue]) -> None:
    b = low.b
    target = low.loops[-1]
    if target.induction is None:
        b.br(target.head, values)
        return
    i, upper, step, unsigned = target.induction
    following = b.add(i, step)
    if b.known(step) == 1:      # i < upper, so i + 1 stays in range; another step might not, but upper - i does
        more = b.icmp("ult" if unsigned else "slt", following, upper)
    else:
        more = b.icmp("ugt", b.sub(upper, i), step)
    b.cond_br(more, target.head, target.exit, [following, *values], values, target.only_stores)


@lowers("nv_tileas.continue")
def lower_continue(low: Lowering, op: Operation) -> None:
    _end_iteration(low, op)


@lowers("nv_tileas.break")
def lower_break(low: Lowering, op: Operation) -> None:
    target = low.loops[-1]
    low.b.br(target.exit, _given(low, op.operands, target.as_loaded))


def end_block(low: Lowering) -> None:
    """Begin another block of machine code, by a way out that nobody takes: of a grid with more blocks along z than there can be."""
    b = low.b
    blocks: Any = b.nvvm("look.b32", b.nvvm("read.ptx.sreg.nctaid.z"))[0]
    never, behind = b.new_block(), b.new_block()
    b.cond_br(b.icmp("ugt", blocks, b.i32(MOST_BLOCKS)), never, behind)
    b.at(never)
    b.ret()
    b.at(behind)


@lowers("nv_tileas.return")
def lower_return(low: Lowering, op: Operation) -> None:
    low.b.ret()
