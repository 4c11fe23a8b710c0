"""What passes that let a part of a counted loop run ahead have in common: the counter some iterations on, whether there is such an
iteration, more carried values. And those that take several iterations at once: whole rounds, and a loop for what they leave.

    scf.for %i = %a to %b step %s        in iteration k + d: %i + d * %s, if %b - %i > d * %s

                                                m = n * s * (trips / n)
    scf.for %i = %a to %b step %s (%c)    ->    scf.for %i = %a to %a + %m step n * %s (%c) { n iterations }
                                                scf.for %i = %a + %m to %b step %s (...)
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, IntegerType, StringAttr, TensorType
from xdsl.ir import Block, Operation, Region, SSAValue

from tileiras.dialects import arith
from tileiras.dialects.base import TileOp
from tileiras.dialects.element import element_bytes
from tileiras.dialects.nv_tileas import BufferType
from tileiras.transforms.rules import int_constant

WIDE = 64
"""Bits in which distances are compared: those of 32-bit counters can't overflow there."""


def gives_values(op: Operation) -> bool:
    """Whether an op does nothing but compute values."""
    return isinstance(op, TileOp) and op.PURE and not any(isinstance(r.type, BufferType) for r in op.results)


class Iterations:
    """One loop (`scf.for`). New ops are put in front of `before`."""

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self.body = loop.regions[0].block
        self.index_type: Any = self.body.args[0].type
        self.before: Operation = loop

    def some(self) -> SSAValue:
        """Whether there is a first iteration."""
        lower, upper = self.loop.operands[:2]
        return self.make(arith.Cmpi, [lower, upper], IntegerType(1), predicate="ult" if self.unsigned else "slt")

    def following(self, iterations: int) -> tuple[SSAValue, SSAValue]:
        """The counter so many iterations on, in the body, and whether there is that iteration."""
        upper, step, now = self.loop.operands[1], self.loop.operands[2], self.body.args[0]
        far = self.distance(step, iterations)
        at = self.make(arith.Addi, [now, self.narrowed(far)], self.index_type)
        return at, self.exceeds(self.widened(self.make(arith.Subi, [upper, now], self.index_type)), far)

    def carry(self, inits: Sequence[SSAValue], following: Sequence[SSAValue]) -> Any:
        """The loop, with more carried values: the body's last arguments are theirs already."""
        loop, outside = self.loop, self.loop.parent
        if inits:
            last: Any = self.body.last_op
            last.operands = [*last.operands, *following]
            region = loop.detach_region(loop.regions[0])
            new = type(loop).create(operands=[*loop.operands, *inits], properties=dict(loop.properties), location=loop.location,
                                    result_types=[*(r.type for r in loop.results), *(v.type for v in inits)], regions=[region])
            new.attributes.update(loop.attributes)
            outside.insert_op_before(new, loop)
            for old, result in zip(loop.results, new.results):
                old.replace_all_uses_with(result)
            loop.detach()
            loop.erase()
            self.loop = new
        return self.loop

    def cut(self, times: int, one_round: Callable[[SSAValue, list[SSAValue]], Sequence[SSAValue]]) -> None:
        """Let whole rounds of so many iterations stand in front of the loop, to which what is left stays. `one_round` makes the ops
        of one in front of `before`, of the first iteration's counter and what the loop carries into it; what is carried on."""
        loop, t = self.loop, self.index_type
        lower, upper, step = loop.operands[:3]
        count, one = self.constant(times, t), self.constant(1, t)
        distance = self.make(arith.Subi, [self.make(arith.Subi, [upper, lower], t), one], t)
        trips = self.make(arith.Addi, [self.make(arith.Divui, [distance, step], t), one], t)
        left = self.make(arith.Remui, [trips, count], t)
        covered = self.make(arith.Muli, [self.make(arith.Subi, [trips, left], t), step], t)
        none_left = self.make(arith.Cmpi, [left, self.constant(0, t)], IntegerType(1), predicate="eq")
        whole = self.make(arith.Select, [none_left, upper, self.make(arith.Addi, [lower, covered], t)], t)
        end = self.make(arith.Select, [self.some(), whole, lower], t)
        block = Block(arg_types=[a.type for a in self.body.args], ops=())
        rounds = type(loop).create(operands=[lower, end, self.make(arith.Muli, [step, count], t), *loop.operands[3:]],
                                   result_types=[r.type for r in loop.results], properties=dict(loop.properties),
                                   attributes=dict(loop.attributes), regions=[Region(block)], location=loop.location)
        self.insert(rounds)
        last = self.body.last_op.clone(dict(zip(self.body.args, block.args)))
        block.add_op(last)
        self.before = last
        last.operands = one_round(block.args[0], list(block.args[1:]))
        self.before = loop
        loop.operands = [end, upper, step, *rounds.results]

    # --- making ops in front of `before` --------------------------------------------------------------------------------

    def insert(self, op: Operation) -> None:
        block = self.before.parent
        assert block is not None
        block.insert_op_before(op, self.before)

    def make(self, cls: Any, operands: Sequence[SSAValue], t: Any, **texts: str) -> SSAValue:
        op = cls.make(operands, [t], {name: StringAttr(text) for name, text in texts.items()})
        op.location = self.loop.location
        self.insert(op)
        return op.results[0]

    def constant(self, value: int, t: IntegerType) -> SSAValue:
        op = arith.Constant.make([], [t], {"value": IntegerAttr(value, t)})
        op.location = self.loop.location
        self.insert(op)
        return op.results[0]

    def branch(self, guard: SSAValue, then: Any, otherwise: list[SSAValue]) -> list[SSAValue]:
        """`then` makes ops where the guard holds and says what they give; `otherwise` instead."""
        where = self.before
        blocks = Block(), Block()
        ends = []
        for block in blocks:
            end = arith.Yield.make([[]])
            end.location = self.loop.location
            block.add_op(end)
            ends.append(end)
        self.before = ends[0]
        ends[0].operands = then()
        ends[1].operands = otherwise
        self.before = where
        branch = arith.If.make([guard], [[v.type for v in otherwise]], regions=[Region(block) for block in blocks])
        branch.location = self.loop.location
        self.insert(branch)
        return list(branch.results)

    def zeros(self, t: Any) -> SSAValue:
        """A tile of zeros, or a zero, for iterations that there are none of."""
        if not isinstance(t, TensorType):
            bits = IntegerType(8 * element_bytes(t))
            zero = self.constant(0, bits)
            return zero if t == bits else self.make(arith.Bitcast, [zero], t)
        width = 8 * element_bytes(t.element_type)
        if isinstance(t.element_type, IntegerType):
            width = t.element_type.width.data
        bits = IntegerType(width)
        zero = arith.Constant.make([], [TensorType(bits, t.get_shape(), t.encoding)], {"value": IntegerAttr(0, bits)})
        zero.location = self.loop.location
        self.insert(zero)
        return zero.results[0] if t.element_type == bits else self.make(arith.Bitcast, [zero.results[0]], t)

    @property
    def unsigned(self) -> bool:
        return "unsigned_cmp" in self.loop.properties

    def widened(self, x: SSAValue) -> SSAValue:
        """A distance or a step, which are not negative, in 64 bits."""
        return x if self.index_type.width.data == WIDE else self.make(arith.Extui, [x], IntegerType(WIDE))

    def narrowed(self, x: SSAValue) -> SSAValue:
        return x if self.index_type.width.data == WIDE else self.make(arith.Trunci, [x], self.index_type)

    def distance(self, step: SSAValue, iterations: int) -> SSAValue:
        """How far the counter moves in so many iterations."""
        wide = IntegerType(WIDE)
        known = int_constant(step)
        if known is not None:
            return self.constant(known * iterations, wide)
        return self.make(arith.Muli, [self.widened(step), self.constant(iterations, wide)], wide)

    def exceeds(self, left: SSAValue, distance: SSAValue) -> SSAValue:
        return self.make(arith.Cmpi, [left, distance], IntegerType(1), predicate="ugt")
