"""Library functions whose rare slow path is long: the quick part for every register, then one loop for all that need more.

sin, cos and tan reduce a large argument with a table of the bits of 2/pi: some 150 instructions that libdevice has
beside the quick reduction, and that inlining repeats for each of a thread's registers.

    %y = math.sin %x      ->      y_i = quick sin(x_i)          for every register, without a branch
                                  if any |x_i| >= bound:        (a branch of the thread)
                                      words[i] = x_i            for every register
                                      loop: words[i] = sin(words[i])
                                      y_i = words[i]

The quick part is libdevice's own function with its guard answered (codegen/libdevice.py), so both ways give the same
bits below the bound.
"""
from __future__ import annotations

from xdsl.ir import SSAValue

from tileiras.codegen.guards import GUARDS
from tileiras.conversion.tileas_to_llvm.builder import F64, I32, I64
from tileiras.conversion.tileas_to_llvm.lowering import Lowering

FEWEST = 3
"""From this many registers on the slow path is shared."""


def guarded(low: Lowering, function: str, xs: list[SSAValue]) -> list[SSAValue]:
    """`function` ("__nv_sinf") of every x, all f32 or all f64."""
    b = low.b
    t = xs[0].type
    if len(xs) < FEWEST:
        return [b.call(function, t, [x]) for x in xs]
    guard = GUARDS[function]
    bound = b.const(guard.bound, t)
    magnitude = f"llvm.fabs.{'f64' if t == F64 else 'f32'}"
    large = b.false()
    for x in xs:
        large = b.or_(large, b.fcmp("oge", b.call(magnitude, t, [x]), bound))
    quick = [b.call(guard.quick, t, [x]) for x in xs]
    slow, loop, done, join = b.new_block(), b.new_block([I32]), b.new_block(), b.new_block([t] * len(xs))
    b.cond_br(large, slow, join, (), quick)
    size = 8 if t == F64 else 4
    words = b.local_words(len(xs))
    b.at(slow)
    places = [b.gep(words, size * i) for i in range(len(xs))]
    for place, x in zip(places, xs):
        b.store(x, place, size)
    b.br(loop, [b.i32(0)])
    b.at(loop)
    b.nvvm("pragma.nounroll")
    i = loop.args[0]
    place = b.gep(words, b.cast("zext", i, I64), t)
    b.store(b.call(function, t, [b.load(t, place, size)]), place, size)
    following = b.add(i, b.i32(1))
    b.cond_br(b.icmp("ult", following, b.i32(len(xs))), loop, done, [following])
    b.at(done)
    b.br(join, [b.load(t, place, size) for place in places])
    b.at(join)
    return list(join.args)
