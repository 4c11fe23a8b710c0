"""Division of f32 to nearest of many numbers by few, as softmax and attention end: the quick part behind one test for several of
them.

A division is a reciprocal, its correction, a quotient and the quotient's correction, all fused multiply-adds, wherever nothing on
the way leaves the normal numbers. ptxas tests that for every division and branches, so that it orders nothing across, and computes
the reciprocal of a row's sum again for every number of the row.

    %q = arith.divf %x, %y   ->   r_i = corrected reciprocal of y_i            for each y_i that is another value
                                  for some x_i at a time:
                                      if all |x_i|, |y_i| are within bounds, or all but +0:
                                          q_i = quick x_i * r_i, corrected
                                      elif all |x_i| are small, and |y_i| within bounds:
                                          q_i = quick x_i * 2^72 * r_i, corrected, times 2^-72 and corrected again
                                      else:
                                          q_i = x_i / y_i by f64

Exponentials of numbers far apart are so small (softmax of scores that nobody scaled: most are below e^-53), and f64 is slow, on
some machines by much (softmax of a product, B200: 12.9 us by f64, 10.4 so; RTX 5090 50.4 and 34.8). What is rounded twice is wrong
where the first time ended in the middle between two of the subnormal numbers: there the rest says which way to go.

What ptxas makes of `div.rn.f32` takes the quick way's steps in the same order. It isn't called for the others: what a thread has
to keep meanwhile was spilled where 64 registers let two blocks of long rows share an SM.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xdsl.ir import Operation, OpResult, SSAValue

from tileiras.analysis.dot_chains import yielded
from tileiras.conversion.tileas_to_llvm.builder import F32, F64, I32, Builder, float_bits
from tileiras.conversion.tileas_to_llvm.elementwise.common import overloaded
from tileiras.dialects.llvm import vec

TOGETHER = 4
"""Divisions behind one test."""
EXPONENTIALS = ("math.exp", "math.exp2")
PRODUCTS = ("nv_tileas.dot", "nv_tileas.dot_wait", "nv_tileas.load_tmem")
SCALED = ("arith.mulf", "arith.convertf", "nv_tileas.convert_layout", "nv_tileas.view")
MOST_STEPS = 8
"""Ops from a quotient back to its numerators' product."""
FEWEST_EACH = 4
"""So many numbers at least share a denominator."""
NUMERATORS, DENOMINATORS = (2.0**-77, 2.0**77), (2.0**-48, 2.0**48)
"""Magnitudes whose quotients are normal, as are the reciprocal and the last place of the remainder."""
SMALL, SHIFT = 2.0**5, 2.0**72
"""Numerators up to SMALL are within NUMERATORS, if not zero, when they are multiplied by SHIFT."""
LEAST = 2.0**-149
"""Of f32's numbers."""
_STEPS = 2
"""Newton's, from the machine's reciprocal of f64 on, which is right to some 20 bits."""


def pays(numerators: SSAValue, ys: list[SSAValue]) -> bool:
    """Whether denominators are few enough, and numerators hardly ever zero: tests that let zeros pass take as long as what is saved
    (rows of zeros that were quantized took 1.6 times as long on an H100, by the timing model). What is left are exponentials, and
    what products give (attention's 128 quotients a thread, B200: 7,000 cycles one by one)."""
    if len(set(ys)) * FEWEST_EACH > len(ys):
        return False
    owner = numerators.owner
    return (isinstance(owner, Operation) and owner.name in EXPONENTIALS) or _is_of_products(numerators)


def _is_of_products(v: SSAValue) -> bool:
    """Whether numbers are sums of products, whose factors are hardly ever zero all."""
    for _ in range(MOST_STEPS):
        owner: Any = v.owner
        if not isinstance(owner, Operation):
            return False
        if owner.name in PRODUCTS:
            return True
        if owner.name in ("scf.for", "scf.if"):
            assert isinstance(v, OpResult)
            v, *_ = yielded(v)
        elif owner.name in SCALED:
            v = owner.operands[0]
        else:
            return False
    return False


def quotients(b: Builder, xs: list[SSAValue], ys: list[SSAValue]) -> SSAValue:
    """The vector of x / y of f32, each rounded to nearest."""
    reciprocals, usual = {}, {}
    for y in dict.fromkeys(ys):
        first = b.call("llvm.nvvm.rcp.approx.ftz.f", F32, [y])
        error = overloaded(b, "llvm.fma", [b.fneg(y), first, b.const(1.0, F32)])
        reciprocals[y] = overloaded(b, "llvm.fma", [first, error, first])
        usual[y] = _is_within(b, [y], DENOMINATORS)
    order = sorted(range(len(xs)), key=lambda i: list(reciprocals).index(ys[i]))
    parts = []
    for start in range(0, len(xs), TOGETHER):
        chosen = order[start:start + TOGETHER]
        within = b.true()
        for y in dict.fromkeys(ys[i] for i in chosen):
            within = b.and_(within, usual[y])
        parts += zip(chosen, b.unpack(_some(b, [xs[i] for i in chosen], [ys[i] for i in chosen],
                                            [reciprocals[ys[i]] for i in chosen], within)))
    found = dict(parts)
    return b.pack([found[i] for i in range(len(xs))])


def _some(b: Builder, xs: list[SSAValue], ys: list[SSAValue], reciprocals: list[SSAValue], within: SSAValue) -> SSAValue:
    """within: whether the denominators are within their bounds."""
    quick, look, far, small, slow = (b.new_block() for _ in range(5))
    join = b.new_block([vec(len(xs), F32)])
    b.cond_br(b.and_(within, _is_within(b, xs, NUMERATORS)), quick, look)
    b.at(look)
    strange = b.xor(within, b.true())
    for x in dict.fromkeys(xs):
        word = b.cast("bitcast", x, I32)        # not the magnitudes again, which would have to be kept for this
        least, most = (2 * float_bits(bound, F32) for bound in NUMERATORS)
        outside = b.icmp("ugt", b.sub(b.shl(word, 1), b.bits(least, I32)), b.bits(most - least, I32))
        strange = b.or_(strange, b.and_(outside, b.icmp("ne", word, b.i32(0))))
    b.cond_br(strange, far, quick)
    b.at(far)
    largest = _tree(b, "llvm.maximumnum", [b.call("llvm.fabs.f32", F32, [x]) for x in dict.fromkeys(xs)])
    b.cond_br(b.and_(within, b.fcmp("ole", largest, b.const(SMALL, F32))), small, slow)
    b.at(quick)
    b.br(join, [_quick(b, b.pack(xs), b.pack(ys), b.pack(reciprocals))[1]])
    b.at(small)
    b.br(join, [_small(b, b.pack(xs), b.pack(ys), b.pack(reciprocals))])
    b.at(slow)
    b.br(join, [b.pack([_exact(b, x, y) for x, y in zip(xs, ys)])])
    b.at(join)
    return join.args[0]


def _quick(b: Builder, x: SSAValue, y: SSAValue, r: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Vectors of the quotients before they are corrected, whose signs are right even of zeros, and of the quotients."""
    first = b.binary("fmul", x, r)
    return first, overloaded(b, "llvm.fma", [r, overloaded(b, "llvm.fma", [b.fneg(y), first, x]), first])


def _small(b: Builder, x: SSAValue, y: SSAValue, r: SSAValue) -> SSAValue:
    """The quotients of small numerators, of which some may be subnormal, or zero: twice rounded, and corrected by one place where
    the second rounding was from the middle (half a place, shifted) and the first one had been a rest of the same sign away."""
    t: Any = x.type
    words = vec(t.get_shape()[0], I32)

    def each(value: float) -> SSAValue:
        return b.const(value, t)

    def bits(v: SSAValue) -> SSAValue:
        return b.cast("bitcast", v, words)
    shifted = b.binary("fmul", x, each(SHIFT))
    first, quotient = _quick(b, shifted, y, r)
    rest = overloaded(b, "llvm.fma", [b.fneg(y), quotient, shifted])
    rounded = b.binary("fmul", quotient, each(1 / SHIFT))
    away = b.binary("fsub", quotient, b.binary("fmul", rounded, each(SHIFT)))
    middle = b.fcmp("oeq", overloaded(b, "llvm.fabs", [away]), each(SHIFT * LEAST / 2))
    same_way = b.icmp("sge", b.xor(b.xor(bits(away), bits(rest)), bits(y)), b.bits(0, words))
    wrong = b.and_(b.and_(middle, same_way), b.fcmp("one", rest, each(0.0)))
    step = overloaded(b, "llvm.copysign", [each(LEAST), away])
    found = b.select(wrong, b.binary("fadd", rounded, step), rounded)
    return overloaded(b, "llvm.copysign", [found, first])


def _exact(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
    """By f64, in whose range all of f32 is normal, and whose quotient lies on the right side of every middle between two numbers of
    f32: those of f32 that aren't one keep off it by 2^-49. Zeros, infinities and what is no number come of the plain product, which
    is one of these just where x or y is."""
    wide, by = b.cast("fpext", x, F64), b.cast("fpext", y, F64)
    reciprocal = b.call("llvm.nvvm.rcp.approx.ftz.d", F64, [by])
    special = b.binary("fmul", wide, reciprocal)
    for _ in range(_STEPS):
        error = overloaded(b, "llvm.fma", [b.fneg(by), reciprocal, b.const(1.0, F64)])
        reciprocal = overloaded(b, "llvm.fma", [reciprocal, error, reciprocal])
    quotient = b.binary("fmul", wide, reciprocal)
    rest = overloaded(b, "llvm.fma", [b.fneg(by), quotient, wide])
    quotient = overloaded(b, "llvm.fma", [rest, reciprocal, quotient])
    size = b.call("llvm.fabs.f64", F64, [special])
    usual = b.and_(b.fcmp("ogt", size, b.const(0.0, F64)), b.fcmp("olt", size, b.const(float("inf"), F64)))
    return b.cast("fptrunc", b.select(usual, quotient, special), F32)


def _is_within(b: Builder, xs: Iterable[SSAValue], bounds: tuple[float, float]) -> SSAValue:
    """Whether all magnitudes are; NaN counts where there is nothing else."""
    magnitudes = [b.call("llvm.fabs.f32", F32, [x]) for x in dict.fromkeys(xs)]
    smallest, largest = (_tree(b, f"llvm.{name}imumnum", magnitudes) for name in ("min", "max"))
    return b.and_(b.fcmp("oge", smallest, b.const(bounds[0], F32)), b.fcmp("ole", largest, b.const(bounds[1], F32)))


def _tree(b: Builder, name: str, values: list[SSAValue]) -> SSAValue:
    while len(values) > 1:
        pairs = [overloaded(b, name, values[i:i + 2]) for i in range(0, len(values) - 1, 2)]
        values = pairs + values[2 * len(pairs):]
    return values[0]
