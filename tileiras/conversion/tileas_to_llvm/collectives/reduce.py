"""reduce: in each thread over its registers, over lanes by butterfly shuffles. (Over warps: see `split-reductions`.)

The layout says which register, lane and warp bits step along the reduced dimension. Each such bit halves the problem;
bits whose basis depends on those before only lead to copies and are skipped, so nothing is counted twice. The result
stays where the halves met: every lane and warp that stood for a part of the dimension holds the same value.

    %m = nv_tileas.reduce %x dim 1 : tensor<64x128xf32, reg (c1, c2, r32), lane (c4 .. c64), warp (r1, r2)>
    two steps in registers, five shuffles of a vector of kept registers each, no shared memory
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.layout_rules import dim_of
from tileiras.analysis.places import Places, places_of
from tileiras.conversion.tileas_to_llvm.builder import I32, width_of
from tileiras.conversion.tileas_to_llvm.collectives.body import Body
from tileiras.conversion.tileas_to_llvm.collectives.places import candidate_of, extreme_of, farthest, nearest_of
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, lowers
from tileiras.conversion.tileas_to_llvm.registers import FULL_MASK, from_plain, gather, length, shuffle_lanes, to_plain
from tileiras.layout.f2 import apply
from tileiras.layout.linear import LANE_BITS
from tileiras.layout.reduction import Steps, steps_of

_REDUX = {"arith.addi": "add", "arith.maxsi": "max", "arith.maxui": "umax", "arith.minsi": "min", "arith.minui": "umin",
          "arith.andi": "and", "arith.ori": "or", "arith.xori": "xor"}
"""Ops on 32-bit integers that `redux.sync` reduces over a whole warp by one instruction."""


@lowers("nv_tileas.reduce")
def reduce(low: Lowering, op: Operation) -> None:
    b = low.b
    steps = steps_of(low.layout(op.operands[0]), dim_of(op))
    values = [low.vec(v) for v in op.operands]

    # for each step in registers, one vector of those that are kept
    order = [apply(steps.kept, k) ^ apply(steps.regs, j) for j in range(1 << len(steps.regs))
             for k in range(1 << len(steps.kept))]
    values = [gather(b, v, order) for v in values]
    found = places_of(op)
    values = _meet(low, Body(low, op), steps, values) if found is None else _places(low, op, found, steps, values)
    for result, v in zip(op.results, values):
        low.set(result, v if isinstance(result.type, TensorType) else b.extract(v, 0))


def _meet(low: Lowering, body: Body, steps: Steps, values: list[SSAValue]) -> list[SSAValue]:
    """What registers and lanes hold, combined: in registers first half with second half, until one vector of kept ones is left."""
    b = low.b
    values = _halve(low, body, values, len(steps.regs))
    lanes = steps.lanes
    redux = _REDUX.get(body.only_op) if low.target.has_redux else None
    if redux and len(lanes) == LANE_BITS and width_of(values[0].type) == 32:
        mask = b.bits(FULL_MASK, I32)
        reduced = [b.nvvm(f"redux.sync.{redux}", [x, mask])[0] for x in b.unpack(values[0])]
        values = [b.pack(reduced)]
        lanes = ()
    swap = not body.is_commutative
    for lane in lanes:
        others = [_from_lane(low, v, 1 << lane) for v in values]
        if swap:        # every lane must combine the two in one order, or copies may differ
            odd = b.icmp("ne", b.and_(low.lane, b.i32(1 << lane)), b.i32(0))
            values, others = ([b.select(odd, y, x) for x, y in zip(values, others)],
                              [b.select(odd, x, y) for x, y in zip(values, others)])
        values = body(values, others)
    return values


def _places(low: Lowering, op: Operation, found: Places, steps: Steps, values: list[SSAValue]) -> list[SSAValue]:
    """The extreme of all values, then the place that counts of those that have it."""
    b = low.b
    value, place = values
    extreme, = _meet(low, Body(low, extreme_of(found, op)), steps, [value])
    everywhere = b.concat([extreme] * (1 << len(steps.regs)))
    t: Any = op.regions[0].block.args[2].type
    far = b.splat(b.bits(farthest(found, t), t), length(place))
    candidates = Body(low, candidate_of(found, op))([value, place], [everywhere, far])
    return [extreme, *_meet(low, Body(low, nearest_of(found, op)), steps, candidates)]


def _halve(low: Lowering, body: Body, values: list[SSAValue], times: int) -> list[SSAValue]:
    b = low.b
    for _ in range(times):
        n = values[0].type.get_shape()[0] // 2  # type: ignore[attr-defined]
        values = body([b.slice(v, 0, n) for v in values], [b.slice(v, n, n) for v in values])
    return values


def _from_lane(low: Lowering, v: SSAValue, flip: int) -> SSAValue:
    t = v.type.element_type  # type: ignore[attr-defined]
    return from_plain(low.b, shuffle_lanes(low, to_plain(low.b, v), flip), t)
