"""`tighten-loops`: a loop whose iterations do nothing unless its counter lies in a range counts in that range alone.

    scf.for %i = %lo to %hi iter_args(%x = %x0) {          %lo' = min(max(%lo, -%a), %hi)
      %k = %a + %i                                         scf.for %i = %lo' to %hi iter_args(%x = %x0) {
      %y = scf.if (%k >= 0) { ... yield %z }        ->       %k = %a + %i
           else { yield %x }                                 ...
      yield %y                                               yield %z
    }                                                      }

Attention over a window leaves out key blocks in front of the first one so; what is loaded under a condition has no ring, and what
products read there is brought to shared memory in each iteration. A condition is a comparison, or several joined by `and`, of sums
of the counter, times a number, and of what the loop doesn't change. Sums must not wrap around in any iteration, as far as the axis
analysis knows; the range is computed in 64 bits.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Block, Operation, SSAValue

from tileiras.analysis.axis import AxisAnalysis
from tileiras.analysis.axis_info import limits, width_of
from tileiras.analysis.tile_extremes import OPPOSITE
from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.transforms.hoist_invariants import hoist
from tileiras.transforms.rules import build, int_constant
from tileiras.transforms.structure import is_defined_in, is_movable, move_in_front, replace

WIDEST = 32
"""Bits of a counter: sums of so wide ones don't wrap around in 64."""
MOST_TERMS, MOST_FACTOR = 8, 1 << 16
"""Of a sum that is looked at."""
EQUAL = "eq"


def run(module: Operation, context: Any = None) -> None:
    """Tighten the loops of a module's functions, inner ones first, in place."""
    for func in [op for op in module.walk() if isinstance(op, aa.Func)]:
        loops = [op for op in func.walk() if isinstance(op, arith.For) and _guarded(op) is not None]
        if loops:
            axis = AxisAnalysis(func)
            for loop in reversed(loops):
                _tighten(loop, axis)


@dataclass
class _Linear:
    """`factor` times the counter, and `terms` (values that the loop doesn't change, each times 1 or -1) and `number`. `lo`, `hi`:
    what it is at least and at most."""

    factor: int
    terms: list[tuple[SSAValue, int]]
    number: int
    lo: int
    hi: int


@dataclass(frozen=True)
class _Guard:
    """A branch that is all that a loop's iteration does. `region`: of the way that does something; `wanted`: what the condition is
    then."""

    branch: Any
    region: int
    wanted: bool


def _guarded(loop: Any) -> _Guard | None:
    """The branch that is all that an iteration does, None where there is none. The other way gives back what the loop carries."""
    body: Block = loop.regions[0].block
    end = body.last_op
    branches = [op for op in body.ops if op.regions]
    if "unsigned_cmp" in loop.properties or width_of(body.args[0].type) > WIDEST or end is None or end.name != "scf.yield" or \
            len(branches) != 1 or not isinstance(branches[0], arith.If) or \
            not all(op is end or op is branches[0] or is_movable(op) for op in body.ops):
        return None
    branch: Any = branches[0]
    for idle, wanted in ((1, True), (0, False)):
        if _is_idle(branch, idle, loop) and _ends_in_yield(branch.regions[1 - idle]):
            return _Guard(branch, 1 - idle, wanted)
    return None


def _ends_in_yield(region: Any) -> bool:
    return bool(region.blocks) and region.block.last_op is not None and region.block.last_op.name == "scf.yield"


def _is_idle(branch: Any, way: int, loop: Any) -> bool:
    """Whether an iteration that goes this way changes nothing that the loop carries."""
    region, carried = branch.regions[way], list(loop.carried_args())
    given: list[SSAValue] = []
    if region.blocks:
        if not _ends_in_yield(region) or not all(op is region.block.last_op or is_movable(op) for op in region.block.ops):
            return False
        given = list(region.block.last_op.operands)
    results = list(branch.results)
    for had, value in zip(carried, loop.regions[0].block.last_op.operands):
        place = next((n for n, r in enumerate(results) if r is value), None)
        if (given[place] if place is not None and place < len(given) else value) is not had:
            return False
    return True


def _tighten(loop: Any, axis: AxisAnalysis) -> None:
    guard = _guarded(loop)
    if guard is None:
        return
    rest, bounds = [], []
    for condition in _conjuncts(guard.branch.operands[0], guard.wanted):
        found = _bounds(condition, guard.wanted, loop, axis)
        if found is None:
            rest.append(condition)
        else:
            bounds += found
    if not bounds or (rest and not guard.wanted):
        return
    for lower, linear in bounds:
        _bound(loop, lower, linear)
    if rest:
        guard.branch.operands[0] = _all(rest, guard.branch)
        return
    block = guard.branch.regions[guard.region].block
    end = block.last_op
    assert end is not None
    move_in_front(guard.branch, block, end)
    replace(guard.branch, end.operands)
    hoist(loop)


def _conjuncts(condition: SSAValue, wanted: bool) -> Iterator[SSAValue]:
    """What is true where the condition is; the condition itself where it is to be false."""
    if wanted and isinstance(condition.owner, arith.Andi):
        for v in condition.owner.operands:
            yield from _conjuncts(v, wanted)
    else:
        yield condition


def _all(conditions: list[SSAValue], before: Operation) -> SSAValue:
    found, *others = conditions
    for other in others:
        found = build(before, arith.Andi, (found, other), found.type)
    return found


def _bounds(condition: SSAValue, wanted: bool, loop: Any, axis: AxisAnalysis) -> list[tuple[bool, _Linear]] | None:
    """Where a condition holds: sums that aren't negative there, and whether they grow with the counter, which they bound from below
    then. None where that isn't known."""
    op: Any = condition.owner
    if not isinstance(op, arith.Cmpi):
        return None
    attr: Any = op.properties["predicate"]
    predicate: str = attr.data if wanted else OPPOSITE.get(attr.data, "")
    if predicate not in OPPOSITE and predicate != EQUAL:
        return None
    a, b = (_linear(v, loop, axis) for v in op.operands)
    if a is None or b is None:
        return None
    found = []
    if predicate in ("slt", "sle", EQUAL):
        found.append(_difference(b, a, predicate == "slt"))
    if predicate in ("sgt", "sge", EQUAL):
        found.append(_difference(a, b, predicate == "sgt"))
    if any(not one.factor or abs(one.factor) > MOST_FACTOR or len(one.terms) > MOST_TERMS for one in found) or \
            (any(one.factor > 0 for one in found) and int_constant(loop.operands[2]) != 1):
        return None     # where a first iteration is left out the others stay what they were by steps of one only
    return [(one.factor > 0, one) for one in found]


def _difference(a: _Linear, b: _Linear, strict: bool) -> _Linear:
    return _Linear(a.factor - b.factor, [*a.terms, *((v, -n) for v, n in b.terms)], a.number - b.number - strict, 0, 0)


def _linear(v: SSAValue, loop: Any, axis: AxisAnalysis, depth: int = MOST_TERMS) -> _Linear | None:
    """A value as such a sum, None where it is none or may wrap around."""
    body: Block = loop.regions[0].block
    least, most = limits(width_of(v.type))
    lo, hi = axis.bounds(v)
    lo, hi = least if lo is None else lo, most if hi is None else hi
    if v is body.args[0]:
        return _Linear(1, [], 0, lo, hi)
    if (known := int_constant(v)) is not None:
        return _Linear(0, [], known, known, known) if least <= known <= most else None
    if not is_defined_in(v, body):
        return _Linear(0, [(v, 1)], 0, lo, hi)
    op: Any = v.owner
    if depth == 0 or not isinstance(op, (arith.Addi, arith.Subi, arith.Muli)):
        return None
    a, b = (_linear(x, loop, axis, depth - 1) for x in op.operands)
    if a is None or b is None:
        return None
    if isinstance(op, arith.Muli):
        a, b = (b, a) if not a.factor and not a.terms else (a, b)
        if b.factor or b.terms or a.terms:      # a number's multiple of the counter
            return None
        ends = a.lo * b.number, a.hi * b.number
        found = _Linear(a.factor * b.number, [], a.number * b.number, min(ends), max(ends))
    else:
        sign = 1 if isinstance(op, arith.Addi) else -1
        ends = (b.lo, b.hi) if sign > 0 else (-b.hi, -b.lo)
        found = _Linear(a.factor + sign * b.factor, [*a.terms, *((x, sign * n) for x, n in b.terms)], a.number + sign * b.number,
                        a.lo + ends[0], a.hi + ends[1])
    return found if least <= found.lo and found.hi <= most else None


def _bound(loop: Any, lower: bool, linear: _Linear) -> None:
    """Let the loop count where `linear` isn't negative: from the least such counter, or to the greatest."""
    def number(n: int) -> SSAValue:
        return build(loop, arith.Constant, (), i64, {"value": IntegerAttr(n, i64)})

    def wide(v: SSAValue) -> SSAValue:
        return v if v.type == i64 else build(loop, arith.Extsi, (v,), i64)

    rest = number(linear.number)        # factor * counter + rest >= 0
    for v, sign in linear.terms:
        rest = build(loop, arith.Addi if sign > 0 else arith.Subi, (rest, wide(v)), i64)
    lo, hi = (wide(v) for v in loop.operands[:2])
    if lower:
        first = build(loop, arith.CeilDivsi, (build(loop, arith.Subi, (number(0), rest), i64), number(linear.factor)), i64) \
            if linear.factor != 1 else build(loop, arith.Subi, (number(0), rest), i64)
        found = build(loop, arith.Minsi, (build(loop, arith.Maxsi, (lo, first), i64), hi), i64)
    else:
        last = build(loop, arith.FloorDivsi, (rest, number(-linear.factor)), i64) if linear.factor != -1 else rest
        behind = build(loop, arith.Addi, (last, number(1)), i64)
        found = build(loop, arith.Maxsi, (build(loop, arith.Minsi, (hi, behind), i64), lo), i64)
    t = loop.operands[0].type
    loop.operands[0 if lower else 1] = found if t == i64 else build(loop, arith.Trunci, (found,), t)
