"""A function's tiles become their parts, by a plan, and what has to do with a part is written once for each, side by side.

The function is first made the program of one part, as of one CTA of a cluster (cta_split.py); what depends on the part's number, by
its operands or by what a loop carries, is then copied. Products that sum along what is split go on from one part's sum to the
next's; accesses that give a token wait for each other. Bounds and conditions don't depend on the number.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Block, Operation, SSAValue

from tileiras.analysis.cta_plan import Plan
from tileiras.dialects import arith
from tileiras.dialects.nv_tileaa import MemTokenType
from tileiras.transforms.cta_split import PartNumber, Split

LOOP, BRANCH, YIELD, DOT = "scf.for", "scf.if", "scf.yield", "nv_tileaa.dot"
SUM = 2
"""The operand that a product adds to."""


def write_parts(func: Operation, plan: Plan) -> None:
    """Do it, in place. The plan's axis is one that `Plan.used` ops may be copied along."""
    sums = {op for op in func.walk() if op.name == DOT and _sums_along(op, plan)}
    number = PartNumber()
    Split(func, plan, number).run()
    assert number.constant is not None
    _SideBySide(func, number.constant, plan.ctas, sums).run()


def _sums_along(dot: Operation, plan: Plan) -> bool:
    lhs = dot.operands[0]
    return lhs not in plan.axes.cheap and bool(plan.of(lhs)[-1])


class _SideBySide:
    """`spread`: values that are another one for each part; `parts`: these."""

    def __init__(self, func: Operation, rank: Operation, count: int, sums: set[Operation]) -> None:
        self.func, self.rank, self.count, self.sums = func, rank, count, sums
        self.spread: set[SSAValue] = {rank.results[0]}
        self.parts: dict[SSAValue, list[SSAValue]] = {}
        self.dead: list[Operation] = []

    def run(self) -> None:
        found = 0
        while found != len(self.spread):
            found = len(self.spread)
            for op in self.func.walk():
                self.follow(op)
        block = self.rank.parent
        assert block is not None
        numbers = [arith.Constant.make([], [i32], {"value": IntegerAttr(n, i32)}) for n in range(self.count)]
        for op in numbers:
            op.location = self.rank.location
            block.insert_op_before(op, self.rank)
        self.parts[self.rank.results[0]] = [op.results[0] for op in numbers]
        self.dead.append(self.rank)
        self.block(self.func.regions[0].block)
        for op in reversed(self.dead):
            op.detach()
            op.erase()

    # --- what is another one for each part ---

    def follow(self, op: Any) -> None:
        if op.name == LOOP:
            last = op.body.block.last_op
            for arg, init, end, result in zip(op.carried_args(), op.carried_inits(), last.operands, op.results):
                if not self.spread.isdisjoint((arg, init, end)):
                    self.spread.update((arg, result))
        elif op.name == BRANCH:
            for i, result in enumerate(op.results):
                if any(region.block.last_op.operands[i] in self.spread for region in op.regions if _yields(region.block)):
                    self.spread.add(result)
        elif op.name != YIELD and op is not self.rank and self.is_copied(op) and op not in self.sums:
            self.spread.update(r for r in op.results if not isinstance(r.type, MemTokenType))

    def is_copied(self, op: Operation) -> bool:
        return not self.spread.isdisjoint(op.operands)

    # --- the copies ---

    def block(self, block: Block) -> None:
        for op in list(block.ops):
            if op is self.rank:
                continue
            if op.name in (LOOP, BRANCH):
                self.holder(op)
            elif op.name != YIELD and self.is_copied(op):
                self.copy(op)
            else:
                for region in op.regions:
                    self.block(region.block)

    def copy(self, op: Operation) -> None:
        """An op once for each part. Where one comes behind the other, by a token or a sum, it takes what the one before gave."""
        assert op.parent is not None
        chained = [(r, self.taken(op, r)) for r in op.results if r not in self.spread]
        given: dict[SSAValue, SSAValue] = {}
        found: list[Operation] = []
        for n in range(self.count):
            known = {v: self.parts[v][n] for v in op.operands if v in self.spread}
            new = op.clone({**known, **given})
            op.parent.insert_op_before(new, op)
            found.append(new)
            given = {taken: new.results[r.index] for r, taken in chained if taken is not None}
        for r in op.results:
            if r in self.spread:
                self.parts[r] = [new.results[r.index] for new in found]
        for r, _ in chained:
            r.replace_all_uses_with(found[-1].results[r.index])
        self.dead.append(op)

    def taken(self, op: Operation, result: SSAValue) -> SSAValue | None:
        """The operand in whose place a copy takes what the one before it gave."""
        if op in self.sums:
            return op.operands[SUM]
        if result.first_use is None:
            return None
        return next((v for v in op.operands if isinstance(v.type, MemTokenType)), None)

    def holder(self, op: Any) -> None:
        """A loop or a branch that hands on the parts of what it handed on."""
        carried: Sequence[SSAValue] = op.carried_args() if op.name == LOOP else ()
        if self.spread.isdisjoint((*carried, *op.results)):
            for region in op.regions:
                if region.blocks:
                    self.block(region.block)
            return
        flags = [r in self.spread for r in op.results]
        operands = list(op.operands)
        if op.name == LOOP:
            first = len(operands) - len(flags)
            operands[first:] = self.each(operands[first:], flags)
            body = op.body.block
            for arg in reversed(list(carried)):
                if arg in self.spread:
                    more = [body.insert_arg(arg.type, arg.index + 1) for _ in range(self.count - 1)]      # type: ignore[attr-defined]
                    self.parts[arg] = [arg, *reversed(more)]
        for region in op.regions:
            if region.blocks:
                self.block(region.block)
                if _yields(region.block):
                    region.block.last_op.operands = self.each(region.block.last_op.operands, flags)
        types = [t for r, flag in zip(op.results, flags) for t in [r.type] * (self.count if flag else 1)]
        regions = [op.detach_region(region) for region in list(op.regions)]
        new = type(op).create(operands=operands, result_types=types, properties=dict(op.properties),
                              attributes=dict(op.attributes), regions=regions, location=op.location)
        op.parent.insert_op_before(new, op)
        results = iter(new.results)
        for r, flag in zip(op.results, flags):
            if flag:
                self.parts[r] = [next(results) for _ in range(self.count)]
            else:
                r.replace_all_uses_with(next(results))
        self.dead.append(op)

    def each(self, values: Sequence[SSAValue], flags: Sequence[bool]) -> list[SSAValue]:
        """What is handed on: the parts, where there are some, or the same for all parts."""
        return [part for v, flag in zip(values, flags) for part in (self.parts.get(v, [v] * self.count) if flag else [v])]


def _yields(block: Block) -> bool:
    return block.last_op is not None and block.last_op.name == YIELD
