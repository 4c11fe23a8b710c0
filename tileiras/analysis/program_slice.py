"""What of a function is needed so that some of its effects happen as before: a slice, and its copy.

    for %i = ... iter_args(%p, %acc) {                                for %i = ... iter_args(%p) {
      %q = addi %p, %n                     the slice of copy:           %q = addi %p, %n
      copy %view[%p] -> %slot                                           copy %view[%p] -> %slot
      %d = dot %slot, %acc         ->
      yield %q, %d                                                      yield %q
    }                                                                 }

Needed is: what the effects take; the control flow around them, with every early exit that decides how often they happen; who
wrote what they read of a buffer. Of what loops carry and branches give only the values needed are. Values are followed, not
tokens: who takes a slice says what becomes of order (`keep_tokens`).
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, TensorType
from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region, SSAValue

from tileiras.analysis.effects import effects_of
from tileiras.dialects import nv_tileas
from tileiras.dialects.arith import BOUNDS
from tileiras.dialects.base import OPERAND_SEGMENTS
from tileiras.dialects.element import tile_bytes
from tileiras.dialects.nv_tileaa import MemTokenType
from tileiras.dialects.nv_tileas import EXITS

FOR, IF, LOOP = "scf.for", "scf.if", "nv_tileas.loop"
CONTROL = (FOR, IF, LOOP)
YIELD, BREAK, CONTINUE, RETURN = "scf.yield", "nv_tileas.break", "nv_tileas.continue", "nv_tileas.return"
PROGRAMS = ("nv_tileaa.get_num_programs", "nv_tileas.get_num_programs")


def loop_around(op: Operation) -> Operation | None:
    """The loop that an op stands in."""
    parent = op.parent_op()
    while parent is not None and parent.name not in (FOR, LOOP):
        parent = parent.parent_op()
    return parent


def loaded_bytes(ops: Iterable[Operation], load: str) -> int:
    """Of the tiles that those of some ops load which have this name."""
    types: list[Any] = [op.results[0].type for op in ops if op.name == load]
    return sum(tile_bytes(t) for t in types if isinstance(t, TensorType))


def function_of(op: Operation) -> Operation:
    """The function that an op is in, or what is outermost."""
    while op.name != "nv_tileas.func" and (parent := op.parent_op()) is not None:
        op = parent
    return op


def strides_by_blocks(loop: Operation | None) -> bool:
    """Whether a loop goes through what all blocks share out, each with as many in between as there are blocks."""
    if loop is None or loop.name != FOR:
        return False
    step = loop.operands[2].owner
    return isinstance(step, Operation) and step.name in PROGRAMS


def is_made_in(v: SSAValue, loop: Operation) -> bool:
    """Whether a value is one of a loop's body: another each iteration, as far as is known."""
    block = v.owner.parent if isinstance(v.owner, Operation) else v.owner
    return block is not None and loop.is_ancestor(block)


def target_of(terminator: Operation) -> Operation | None:
    """The op whose carried values a terminator gives."""
    if terminator.name == RETURN:
        return None
    parent = terminator.parent_op()
    return parent if terminator.name == YIELD else loop_around(terminator)


class Slice:
    """The slice of `func` for the effects `roots`. `above`: ops that stay where they are and aren't copied. `ops`: the ops in
    the slice; `values`: the values that are needed."""

    def __init__(self, func: Operation, roots: Iterable[Operation], *, above: Iterable[Operation] = (),
                 keep_tokens: bool) -> None:
        self.func, self.keep_tokens, self.above = func, keep_tokens, frozenset(above)
        self.ops: set[Operation] = set()
        self.values: set[SSAValue] = set()
        self._givers: dict[Operation, list[Operation]] = {}
        self._writers: dict[SSAValue, list[Operation]] = {}
        self._work: list[Operation | SSAValue] = list(roots)
        for op in func.walk():
            if op.name == YIELD or op.name in EXITS:
                target = target_of(op)
                if target is not None:
                    self._givers.setdefault(target, []).append(op)
                elif op.parent_op() is not func:
                    self._work.append(op)       # a return on the way decides whether the rest happens
            else:
                for buffer in effects_of(op).writes:
                    self._writers.setdefault(buffer, []).append(op)
        while self._work:
            at = self._work.pop()
            if isinstance(at, Operation):
                self._op(at)
            else:
                self._value(at)

    def _op(self, op: Operation) -> None:
        if op in self.ops or op is self.func or op in self.above:
            return
        self.ops.add(op)
        parent = op.parent_op()
        if parent is not None:
            self._work.append(parent)
        if op.name in CONTROL:
            self._work += op.operands[:BOUNDS] if op.name == FOR else op.operands if op.name == IF else ()
            self._work += [giver for giver in self._givers.get(op, ()) if giver.name != YIELD]
            return
        if op.name == YIELD or op.name in EXITS:
            return
        for inner in op.walk():     # a reduction's body may use what stands above it
            self._work += inner.operands
        for buffer in effects_of(op).reads:
            self._work += self._writers.get(buffer, ())

    def _value(self, v: SSAValue) -> None:
        if v in self.values:
            return
        self.values.add(v)
        if isinstance(v.type, MemTokenType) and not self.keep_tokens:
            return
        owner = v.owner
        if isinstance(owner, Block):
            self._argument(v)
        elif owner.name not in CONTROL:
            if isinstance(v.type, MemTokenType) and owner not in self.ops:
                self._work += [o for o in owner.operands if isinstance(o.type, MemTokenType)]
            else:
                self._work.append(owner)
        else:
            self._work.append(owner)
            assert isinstance(v, OpResult)
            self._given(owner, v.index, after=True)

    def _argument(self, v: SSAValue) -> None:
        assert isinstance(v, BlockArgument)
        loop: Any = v.block.parent_op()
        if loop is None or loop.name not in CONTROL:
            return      # a parameter, or inside a reduction, which is taken whole
        self._work.append(loop)
        index = v.index - (loop.name == FOR)
        if index >= 0:
            self._work.append(loop.carried_inits()[index])
            self._given(loop, index, after=False)

    def _given(self, op: Any, index: int, *, after: bool) -> None:
        """What the terminators of `op` give for its carried value `index`: behind it, or in its next iteration."""
        for giver in self._givers.get(op, ()):
            leaves = giver.name == BREAK
            if op.name == LOOP and leaves != after:
                continue
            self._work.append(giver.operands[index])
        if op.name == FOR:      # what it gives is what it carried last
            self.values |= {op.results[index]}
            self._work.append(op.carried_args()[index])

    # --- the copy -----------------------------------------------------------------------------------------------------

    def copy(self) -> Region:
        """The slice as a region; what it takes from outside `func`'s body, or from its parameters, stays as it is."""
        block = Block()
        self._copy_block(self.func.regions[0].block, block, {})
        return Region(block)

    def _copy_block(self, old: Block, new: Block, mapped: dict[SSAValue, SSAValue]) -> None:
        fresh: list[SSAValue] = []
        for op in old.ops:
            if op is old.last_op:
                self._copy_terminator(op, new, mapped)
            elif op not in self.ops:
                self._pass_tokens(op, new, mapped)
            elif op.name in CONTROL:
                self._copy_control(op, new, mapped)
            else:
                fresh += self._tokens(op, new, mapped)
                new.add_op(op.clone(mapped))
        for v in fresh:     # what stands behind this block couldn't use them
            del mapped[v]

    def _kept(self, values: Iterable[SSAValue]) -> list[int]:
        """The positions of those values that are needed."""
        return [i for i, v in enumerate(values)
                if v in self.values and (self.keep_tokens or not isinstance(v.type, MemTokenType))]

    def _kept_of(self, op: Any) -> tuple[list[int], list[int]]:
        """Positions of what a loop or branch carries into its body, and gives behind it."""
        results = self._kept(op.results)
        if op.name == IF:
            return [], results
        carried = self._kept(op.carried_args())
        return (carried, carried) if op.name == FOR else (carried, results)

    def _copy_terminator(self, op: Operation, new: Block, mapped: dict[SSAValue, SSAValue]) -> None:
        operands: list[SSAValue] = []
        target = target_of(op)
        if target is not None:
            carried, results = self._kept_of(target)
            positions = results if op.name == BREAK or target.name == IF else carried
            operands = [self._mapped(op.operands[i], op, new, mapped) for i in positions]
        new.add_op(type(op).create(operands=operands, properties=dict(op.properties), location=op.location))

    def _copy_control(self, op: Any, new: Block, mapped: dict[SSAValue, SSAValue]) -> None:
        carried, results = self._kept_of(op)
        fixed = op.operands[:BOUNDS] if op.name == FOR else op.operands if op.name == IF else ()
        operands = [mapped.get(v, v) for v in fixed]
        if op.name != IF:
            operands += [self._mapped(op.carried_inits()[i], op, new, mapped) for i in carried]
        regions = []
        for region in op.regions:
            if not region.blocks:
                regions.append(Region())
                continue
            args = list(region.block.args)
            if op.name != IF:
                shift = int(op.name == FOR)
                args = args[:shift] + [args[shift + i] for i in carried]
            inner = Block(arg_types=[a.type for a in args])
            mapped.update(zip(args, inner.args))
            self._copy_block(region.block, inner, mapped)
            regions.append(Region(inner))
        properties = {k: v for k, v in op.properties.items() if not isinstance(v, DenseArrayBase) or k != OPERAND_SEGMENTS}
        made = type(op).create(operands=operands, result_types=[op.results[i].type for i in results], properties=properties,
                               regions=regions, location=op.location)
        new.add_op(made)
        for i, result in zip(results, made.results):
            mapped[op.results[i]] = result

    def _mapped(self, v: SSAValue, op: Operation, new: Block, mapped: dict[SSAValue, SSAValue]) -> SSAValue:
        """The copy of a value; a token that isn't kept becomes a fresh one."""
        if isinstance(v.type, MemTokenType) and v not in mapped and not isinstance(v.owner, Block):
            fresh = nv_tileas.CreateMemToken.create(result_types=[v.type], location=op.location)  # type: ignore[attr-defined]
            new.add_op(fresh)
            return fresh.results[0]
        return mapped.get(v, v)

    def _tokens(self, op: Operation, new: Block, mapped: dict[SSAValue, SSAValue]) -> list[SSAValue]:
        """Fresh tokens where the op waits for what isn't in the slice; which these are."""
        waited = [v for v in dict.fromkeys(op.operands) if isinstance(v.type, MemTokenType) and v not in mapped]
        for v in waited:
            fresh = nv_tileas.CreateMemToken.create(result_types=[v.type], location=op.location)  # type: ignore[attr-defined]
            new.add_op(fresh)
            mapped[v] = fresh.results[0]
        return waited

    def _pass_tokens(self, op: Operation, new: Block, mapped: dict[SSAValue, SSAValue]) -> None:
        """What waited for an op that isn't there waits for what that op waited for."""
        if not self.keep_tokens:
            return
        for r in op.results:
            if not isinstance(r.type, MemTokenType) or r not in self.values:
                continue
            before = [mapped[o] for o in op.operands if isinstance(o.type, MemTokenType) and o in mapped]
            if len(before) == 1:
                mapped[r] = before[0]
                continue
            kind = nv_tileas.JoinMemToken if before else nv_tileas.CreateMemToken  # type: ignore[attr-defined]
            joined = kind.create(operands=before, result_types=[r.type], location=op.location)
            new.add_op(joined)
            mapped[r] = joined.results[0]
