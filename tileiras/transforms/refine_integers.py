"""`refine-integers`: integer ops become cheaper ones where the facts allow it.

    arith.floordivsi %pid, %n   (0 <= %pid, 0 < %n)     ->   arith.divui
    arith.floordivsi %x, 8                              ->   arith.shrsi %x, 3
    arith.remsi %i, 8           (0 <= %i)               ->   arith.andi %i, 7
    arith.cmpi slt %i, %n       (%i <= 99, 100 <= %n)   ->   true
    an op whose every element is known to be 5          ->   arith.constant 5

    arith.sitofp %x to f16 (-8 <= %x <= 7)              ->   the same with `bounds`: no conversion is needed

The facts are those of the axis analysis: what LLVM isn't told, that block ids and extents aren't negative and what the
program assumes.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import Float16Type, TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.axis import AxisAnalysis
from tileiras.analysis.axis_info import Info, limits
from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.base import TileOp
from tileiras.transforms.rules import build, int_splat, int_width

EXACT = 1024
"""So many whole numbers behind one another f16 has between 2^10 and 2^11."""
WORD = 32


def run(top: Operation, context: Any = None) -> None:
    """Refine the integer ops of a module's functions, or of one function, in place."""
    functions = [top] if isinstance(top, aa.Func) else [op for op in top.walk() if isinstance(op, aa.Func)]
    for func in functions:
        _refine_function(func)


def _refine_function(func: Operation) -> None:
    """Every op is looked at with its old operands, whose facts are known, and replaced afterwards."""
    axis = AxisAnalysis(func)
    stands_for: dict[SSAValue, SSAValue] = {}
    for op in list(func.walk()):
        if isinstance(op, TileOp) and op.PURE and len(op.results) == 1 and not isinstance(op, arith.Constant):
            if isinstance(op, (arith.Sitofp, arith.Uitofp)):
                _note_bounds(op, axis)
            value = refine(op, axis)
            if value is not None:
                stands_for[op.results[0]] = stands_for.get(value, value)
    for old, new in stands_for.items():
        old.replace_all_uses_with(new)
        op = old.owner
        assert isinstance(op, Operation)
        op.detach()
        op.erase()


def _note_bounds(op: TileOp, axis: AxisAnalysis) -> None:
    """Say of a tile of integers of 32 bits that becomes f16 where all of them lie, if that is close enough together and to zero."""
    x, t = op.operands[0], op.results[0].type
    if not isinstance(t, TensorType) or not isinstance(t.element_type, Float16Type) or int_width(x.type) != WORD:
        return
    lo, hi = axis.bounds(x)
    if lo is not None and hi is not None and -EXACT <= lo and hi < min(lo, EXACT) + EXACT and \
            (lo >= 0 or isinstance(op, arith.Sitofp)):
        op.properties["bounds"] = aa.int_array((lo, hi))


def refine(op: TileOp, axis: AxisAnalysis) -> SSAValue | None:
    """The cheaper value for an op's result, or None."""
    result = op.results[0]
    width = int_width(result.type)
    if not width:
        return None
    known = axis.const(result)
    if known is not None and not isinstance(op, aa.Assume):
        least, most = limits(width)
        return int_splat(op, result.type, known) if least <= known <= most else None
    rule = REFINEMENTS.get(type(op))
    return None if rule is None or width == 1 else rule(op, axis.info(op.operands[0]), axis.info(op.operands[1]))


def nonnegative(info: Info) -> bool:
    return info.lo is not None and info.lo >= 0


def exponent(n: int | None) -> int | None:
    """k where n = 2^k."""
    return n.bit_length() - 1 if n is not None and n > 0 and n & n - 1 == 0 else None


def like(op: TileOp, cls: type[TileOp], lhs: SSAValue, rhs: SSAValue | int) -> SSAValue:
    """A binary op of the same type in place of `op`."""
    t = op.results[0].type
    if isinstance(rhs, int):
        rhs = int_splat(op, t, rhs)
    return build(op, cls, (lhs, rhs), t)


def refine_quotient(op: TileOp, a: Info, b: Info) -> SSAValue | None:
    lhs, rhs = op.operands
    k = exponent(b.const)
    down = nonnegative(a) or isinstance(op, (arith.FloorDivsi, arith.Divui))
    if k is not None and down:
        unsigned = nonnegative(a) or isinstance(op, arith.Divui)
        return like(op, arith.Shrui if unsigned else arith.Shrsi, lhs, k)
    if not isinstance(op, arith.Divui) and nonnegative(a) and nonnegative(b):
        return like(op, arith.Divui, lhs, rhs)
    return None


def refine_ceiling(op: TileOp, a: Info, b: Info) -> SSAValue | None:
    """ceil(a / 2^k) = (a + 2^k - 1) >> k: both terms are below 2^(bits - 1), so that the unsigned sum doesn't wrap."""
    lhs, rhs = op.operands
    k = exponent(b.const)
    if not nonnegative(a):
        return None
    if k is not None:
        return like(op, arith.Shrui, like(op, arith.Addi, lhs, (1 << k) - 1), k)
    if isinstance(op, arith.CeilDivsi) and nonnegative(b):
        return like(op, arith.CeilDivui, lhs, rhs)
    return None


def refine_remainder(op: TileOp, a: Info, b: Info) -> SSAValue | None:
    lhs, rhs = op.operands
    k = exponent(b.const)
    if not (isinstance(op, arith.Remui) or nonnegative(a)):
        return None
    if nonnegative(a) and a.hi is not None and b.lo is not None and a.hi < b.lo:
        return lhs
    if k is not None:
        return like(op, arith.Andi, lhs, (1 << k) - 1)
    if isinstance(op, arith.Remsi) and nonnegative(b):
        return like(op, arith.Remui, lhs, rhs)
    return None


def refine_extreme(op: TileOp, a: Info, b: Info) -> SSAValue | None:
    """max and min whose operands' ranges don't overlap."""
    lhs, rhs = op.operands
    above = a.lo is not None and b.hi is not None and a.lo >= b.hi
    below = a.hi is not None and b.lo is not None and a.hi <= b.lo
    if not (above or below):
        return None
    if isinstance(op, (arith.Maxui, arith.Minui)) and not (nonnegative(a) and nonnegative(b)):
        return None
    return lhs if above == isinstance(op, (arith.Maxsi, arith.Maxui)) else rhs


REFINEMENTS: dict[type, Callable[[TileOp, Info, Info], SSAValue | None]] = {
    arith.Divsi: refine_quotient, arith.FloorDivsi: refine_quotient, arith.Divui: refine_quotient,
    arith.CeilDivsi: refine_ceiling, arith.CeilDivui: refine_ceiling,
    arith.Remsi: refine_remainder, arith.Remui: refine_remainder,
    arith.Maxsi: refine_extreme, arith.Minsi: refine_extreme, arith.Maxui: refine_extreme, arith.Minui: refine_extreme,
}
"""By op; every entry takes the op and its operands' facts."""


