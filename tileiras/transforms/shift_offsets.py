"""`shift-offsets`: neighbouring accesses have one offset, and constants beside it.

    %s = %x + 2 ; load %p + extsi %s, if %s <u %n           %b = extsi (%x - 1)
    %t = %x - 1 ; load %p + extsi %t, if %t <u %n     ->    load %p + %b + 3, if %s <u %n
                                                            load %p + %b,     if %t <u %n

Filters, stencils and convolutions gather at an index and shifts of it. Sums of 32 bits wrap, so that no constant can be taken out
of what they are extended to, and each shift has an address of 64 bits of its own. Two things say that one doesn't wrap:

  the range of %x, where %x + c fits:      extsi (%x + c) = extsi %x + c
  the access's own check, 0 <= %x + c < %n, where %n isn't negative. From the lowest shift, b = %x + c0, all others go up, and where
  b + d (d >= 0) wraps it is negative, so that nothing is accessed. Else extsi (b + d) = extsi b + d, whether b itself wraps or not.

Where a check fails an address may be another than it was. Machine accesses take the constants. An index that is multiplied by what
isn't known stays as it is, for the sake of the product of 32 bits by 32.
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Operation, SSAValue

from tileiras.analysis.axis import AxisAnalysis
from tileiras.analysis.axis_info import limits, shape_of
from tileiras.analysis.axis_rules import full
from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.transforms.rules import build, int_splat, int_width

SPREADING = (aa.View, aa.Broadcast, aa.Splat)
"""Ops that give what they take in another shape."""
MOST_APART = 1 << 30
"""Between the lowest and the highest shift of 32 bits: sums with what isn't negative then wrap to what is negative only."""
WIDTH = 32
"""Bits of an index."""
ACCESSES = (aa.Load, aa.Store, aa.AtomicRmw, aa.AtomicCas)
Shapes = tuple[tuple[int, ...], ...]
"""Those that a value takes on its way: what is spread alike lies in the same places."""


def run(module: Operation, context: Any = None) -> None:
    """Take the constants out, in place."""
    for func in module.regions[0].block.ops:
        if isinstance(func, aa.Func) and any(isinstance(op, arith.Extsi) for op in func.walk()):
            _function(func)


def _function(func: Operation) -> None:
    axis = AxisAnalysis(func)
    fitting, checked = [], dict[tuple[SSAValue, Any], list[tuple[Operation, int]]]()
    for op in func.walk():
        if isinstance(op, arith.Extsi) and int_width(op.operands[0].type) == WIDTH and _is_added(op.results[0], axis):
            x, shift = _base(op.operands[0], axis)
            (lo, hi), (least, most) = full(axis.info(x), WIDTH), limits(WIDTH)
            if shift and least <= lo + shift and hi + shift <= most:
                fitting.append((op, x, shift))
            elif _is_checked(op.results[0], op.operands[0], (), axis):
                checked.setdefault((x, op.parent), []).append((op, shift))
    for op, x, shift in fitting:
        _replace(op, x, shift)
    for (x, _), taps in checked.items():
        first, lowest = taps[0][0], min(shift for _, shift in taps)
        if lowest < max(shift for _, shift in taps) <= lowest + MOST_APART:
            base = build(first, arith.Addi, (x, int_splat(first, x.type, lowest)), x.type)
            for op, shift in taps:
                _replace(op, base, shift - lowest)


def _replace(op: Operation, base: SSAValue, shift: int) -> None:
    """Give what an extension gives as what `base` is extended to and a constant."""
    t = op.results[0].type
    value = build(op, arith.Extsi, (base,), t)
    op.results[0].replace_all_uses_with(build(op, arith.Addi, (value, int_splat(op, t, shift)), t) if shift else value)
    op.detach()
    op.erase()


def _base(v: SSAValue, axis: AxisAnalysis) -> tuple[SSAValue, int]:
    """What a sum adds constants to, and these together, as a number of so many bits."""
    shift = 0
    while isinstance(v.owner, (arith.Addi, arith.Subi)):
        lhs, rhs = v.owner.operands
        left, right = axis.const(lhs), axis.const(rhs)
        if right is not None:
            v, shift = lhs, shift - right if isinstance(v.owner, arith.Subi) else shift + right
        elif left is not None and isinstance(v.owner, arith.Addi):
            v, shift = rhs, shift + left
        else:
            break
    least, _ = limits(WIDTH)
    return v, (shift - least) % (1 << WIDTH) + least


def _is_added(v: SSAValue, axis: AxisAnalysis) -> bool:
    """Whether all that a value is used for is sums and pointers, or multiples by constants in them."""
    for use in v.uses:
        user = use.operation
        if isinstance(user, SPREADING) or (isinstance(user, arith.Muli) and axis.const(user.operands[1 - use.index]) is not None):
            if not _is_added(user.results[0], axis):
                return False
        elif not isinstance(user, (arith.Addi, aa.Addptr)):
            return False
    return True


def _is_checked(v: SSAValue, index: SSAValue, shapes: Shapes, axis: AxisAnalysis) -> bool:
    """Whether all that a value is used for is addresses of accesses under a mask that says of `index`, spread alike, that it is
    at least zero and below something."""
    for use in v.uses:
        user: Any = use.operation
        if isinstance(user, SPREADING):
            if not _is_checked(user.results[0], index, (*shapes, shape_of(user.results[0].type)), axis):
                return False
        elif isinstance(user, (arith.Addi, arith.Muli, aa.Addptr)):
            if not _is_checked(user.results[0], index, shapes, axis):
                return False
        elif not isinstance(user, ACCESSES) or use.index != 0 or user.mask is None or \
                not _says(user.mask, index, shapes, axis):
            return False
    return True


def _says(mask: SSAValue, index: SSAValue, shapes: Shapes, axis: AxisAnalysis) -> bool:
    """Whether a mask is true only where `index`, which has come there by way of these shapes, is at least zero and below
    something."""
    op: Any = mask.owner
    if isinstance(op, arith.Andi):
        return any(_says(v, index, shapes, axis) for v in op.operands)
    if isinstance(op, SPREADING):
        return bool(shapes) and shape_of(mask.type) == shapes[-1] and _says(op.operands[0], index, shapes[:-1], axis)
    if not isinstance(op, arith.Cmpi) or op.predicate.data != "ult":
        return False
    compared, limit = op.operands
    least = axis.info(limit).lo
    while shapes and isinstance(compared.owner, SPREADING) and shape_of(compared.type) == shapes[-1]:
        compared, shapes = compared.owner.operands[0], shapes[:-1]
    return not shapes and compared is index and least is not None and least >= 0
