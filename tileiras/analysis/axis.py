"""What is known of a function's integers and pointers: divisibility, bounds, contiguity, constancy.

The facts come from assumptions, constants, arithmetic, ranges, loop bounds and grid limits (axis_rules.py).
Loop-carried values start as what enters the loop and are weakened by what comes around until nothing changes; bounds
that move are dropped at once, and after MAX_SWEEPS whatever still changes is unknown. Every sweep is one linear walk.

    axis = AxisAnalysis(func)
    axis.divisor(%ptr)       16: bytes for a pointer, elements for an integer; a power of two
    axis.const(%n)           the value, or None
    axis.bounds(%i)          (0, None)
    axis.contiguity(%ptrs)   (1, 64)
    axis.memref(%m)          MemRefFacts: base alignment, divisors of extents and strides
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.ir import Block, Operation, SSAValue

from tileiras.analysis.axis_info import Info, is_tracked, join, limits, shape_of, unknown, width_of
from tileiras.analysis.axis_rules import MAX_GRID, RULES, assume
from tileiras.analysis.entry_hints import MOST_CTAS
from tileiras.analysis.exits import receivers
from tileiras.dialects.nv_tileaa import DYNAMIC, MemRefType

MAX_SWEEPS = 6
"""Walks after which a loop-carried value that still changes is taken as unknown."""


@dataclass(frozen=True)
class MemRefFacts:
    """base_alignment: bytes. extents, strides: static values, or None. extent_divisors, stride_divisors: numbers
    (elements) that divide them; a static one is divided by itself."""

    base_alignment: int
    extents: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    extent_divisors: tuple[int, ...]
    stride_divisors: tuple[int, ...]


class AxisAnalysis:
    """The facts of one function (nv_tileaa.func, or any op with a body), computed when it is made."""

    def __init__(self, func: Operation) -> None:
        self._facts: dict[SSAValue, Info] = {}
        self._carried: dict[SSAValue, Info] = {}
        self._changed = False
        self._give_up = False
        sweep = 0
        while True:
            self._changed = False
            self._give_up = sweep >= MAX_SWEEPS
            for region in func.regions:
                for block in region.blocks:
                    self._sweep(block)
            if not self._changed:
                break
            sweep += 1

    # --- questions ---------------------------------------------------------------------------------------------

    def info(self, value: SSAValue) -> Info:
        """All facts of a value; nothing is known of values that are neither integers nor pointers."""
        found = self._facts.get(value)
        return unknown(shape_of(value.type)) if found is None else found

    def divisor(self, value: SSAValue) -> int:
        """A power of two that divides every element: bytes for pointers. Zero gives a very large one."""
        found = self._facts.get(value)
        return 1 if found is None else found.divisor

    def const(self, value: SSAValue) -> int | None:
        """The value that all elements have, as a signed integer."""
        found = self._facts.get(value)
        return None if found is None else found.const

    def bounds(self, value: SSAValue) -> tuple[int | None, int | None]:
        """Inclusive bounds of every element as a signed integer."""
        found = self._facts.get(value)
        return (None, None) if found is None else (found.lo, found.hi)

    def contiguity(self, value: SSAValue) -> tuple[int, ...]:
        """Per dimension, the size of the groups in which elements follow one another."""
        return self.info(value).contiguity

    def divisibility(self, value: SSAValue) -> tuple[int, ...]:
        """Per dimension, what divides the first element of each contiguous group (bytes for pointers)."""
        return self.info(value).start

    def constancy(self, value: SSAValue) -> tuple[int, ...]:
        """Per dimension, the size of the groups in which elements are equal."""
        return self.info(value).constancy

    def memref(self, value: SSAValue) -> MemRefFacts:
        """The facts of a memref, or of the memref behind a tiled view."""
        maker: Any = value.owner
        if getattr(maker, "name", "").endswith(".block_tile"):
            value = maker.operands[0]
            maker = value.owner
        t = value.type
        assert isinstance(t, MemRefType)
        made = getattr(maker, "name", "").endswith(".make_memref")
        base = self.divisor(maker.base) if made else 1
        extents, extent_divisors = self._descriptor(t.shape, maker.sizes if made else ())
        strides, stride_divisors = self._descriptor(t.strides, maker.strides if made else ())
        return MemRefFacts(base, extents, strides, extent_divisors, stride_divisors)

    def _descriptor(self, static: Any, dynamic: Any) -> tuple[tuple[int | None, ...], tuple[int, ...]]:
        values, divisors = [], []
        rest = iter(dynamic)
        for entry in static:
            n: int | None = entry.data
            if n == DYNAMIC:
                operand = next(rest, None)
                n = None if operand is None else self.const(operand)
                divisors.append(1 if operand is None else self.divisor(operand))
            else:
                divisors.append(n)
            values.append(n)
        return tuple(values), tuple(divisors)

    # --- the walk ----------------------------------------------------------------------------------------------

    def _sweep(self, top: Block) -> None:
        """Walk a block's ops, nested ones where they stand, without recursion."""
        facts = self._facts
        frames: list[tuple[Any, Operation | None]] = [(iter(top.ops), None)]
        while frames:
            ops, _ = frames[-1]
            for op in ops:
                if op.regions:
                    self._enter(op)
                    frames.extend((iter(block.ops), op) for region in reversed(op.regions)
                                  for block in reversed(region.blocks))
                    break
                mnemonic = op.name.partition(".")[2]
                rule = RULES.get(mnemonic)
                results = op.results
                if rule is not None:
                    if is_tracked(results[0].type):
                        infos = [facts.get(v) for v in op._operands]
                        if None in infos and rule is not assume:
                            infos = [unknown(shape_of(v.type)) if i is None else i
                                     for v, i in zip(op._operands, infos)]
                        facts[results[0]] = rule(op, infos)
                elif mnemonic in EXITS:
                    self._leave(op, mnemonic)
                elif mnemonic in ("get_cta_rank", "get_chain"):
                    facts[results[0]] = Info(1, (), (), (), 0, MOST_CTAS - 1)
                elif mnemonic in ("get_program_id", "get_num_programs"):
                    ids = mnemonic == "get_program_id"
                    for result, most in zip(results, MAX_GRID):
                        facts[result] = Info(1, (), (), (), 0, most - 1) if ids else Info(1, (), (), (), 1, most)
            else:
                frames.pop()

    def _enter(self, op: Operation) -> None:
        """The facts of a region op's block arguments and results before its body is walked."""
        name = op.name.partition(".")[2]
        if name == "for":
            lower, upper, step = op.operands[:3]
            block = op.regions[0].block
            self._facts[block.args[0]] = self._induction(lower, upper, step, "unsigned_cmp" in op.properties)
            for argument, result, init in zip(block.args[1:], op.results, op.operands[3:]):
                self._merge(argument, self._facts.get(init))
                self._merge(result, self._facts.get(init))
        elif name == "loop":
            for argument, init in zip(op.regions[0].block.args, op.operands):
                self._merge(argument, self._facts.get(init))

    def _induction(self, lower: SSAValue, upper: SSAValue, step: SSAValue, unsigned: bool) -> Info:
        a, b, s = self.info(lower), self.info(upper), self.info(step)
        lo = a.lo
        hi = None if b.hi is None else b.hi - 1
        if unsigned and not (a.lo is not None and a.lo >= 0 and b.lo is not None and b.lo >= 0):
            lo = hi = None
        if hi is None and lo is not None:
            hi = limits(width_of(lower.type))[1] - 1
        if lo is not None and hi is not None and hi < lo:
            hi = lo
        if lo is not None and lo == a.hi and s.lo is not None and hi is not None and lo + s.lo > hi:
            hi = lo
        divisor = min(a.divisor, s.divisor)
        return Info(divisor, (), (), (), lo, hi)

    def _leave(self, op: Operation, mnemonic: str) -> None:
        """A terminator hands its operands to the loop or branch that it ends."""
        for ends in receivers(op):
            for end, value in zip(ends, op.operands):
                self._merge(end, self._facts.get(value))

    def _merge(self, receiver: SSAValue, info: Info | None) -> None:
        """Weaken a joined value's facts by what one of its sources may be."""
        if not is_tracked(receiver.type):
            return
        if info is None:
            info = unknown(shape_of(receiver.type))
        old = self._facts.get(receiver)
        if old is None:
            self._facts[receiver] = info
            self._changed = True
            return
        new = join(old, info)
        if new == old:
            return
        if receiver in self._carried:              # moved before: bounds won't settle by themselves
            new = new._replace(lo=old.lo if new.lo == old.lo else None, hi=old.hi if new.hi == old.hi else None)
        self._carried[receiver] = new
        if self._give_up:
            new = unknown(shape_of(receiver.type))
        self._facts[receiver] = new
        self._changed = True


EXITS = frozenset({"yield", "continue", "break"})
