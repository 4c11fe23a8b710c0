"""reduce: in each thread over its registers, over lanes by butterfly shuffles. (Over warps: see `split-reductions`.)

The layout says which register, lane and warp bits step along the reduced dimension. Each such bit halves the problem;
bits whose basis depends on those before only lead to copies and are skipped, so nothing is counted twice. The result
stays where the halves met: every lane and warp that stood for a part of the dimension holds the same value.

    %m = nv_tileas.reduce %x dim 1 : tensor<64x128xf32, reg (c1, c2, r32), lane (c4 .. c64), warp (r1, r2)>
    two steps in registers, five shuffles of a vector of kept registers each, no shared memory
"""
from __future__ import annotations

from dataclasses import replace

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.layout_rules import dim_of
from tileiras.conversion.tileas_to_llvm.builder import I32, width_of
from tileiras.conversion.tileas_to_llvm.collectives.body import Body
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, lowers
from tileiras.conversion.tileas_to_llvm.registers import FULL_MASK, from_plain, gather, shuffle_lanes, to_plain
from tileiras.layout.f2 import apply
from tileiras.layout.linear import LANE_BITS
from tileiras.layout.reduction import steps_of

_REDUX = {"arith.addi": "add", "arith.maxsi": "max", "arith.maxui": "umax", "arith.minsi": "min", "arith.minui": "umin",
          "arith.andi": "and", "arith.ori": "or", "arith.xori": "xor"}
"""Ops on 32-bit integers that `redux.sync` reduces over a whole warp by one instruction."""


@lowers("nv_tileas.reduce")
def reduce(low: Lowering, op: Operation) -> None:
    b = low.b
    body = Body(low, op)
    steps = steps_of(low.layout(op.operands[0]), dim_of(op))
    values = [low.vec(v) for v in op.operands]

    # registers: first half with second half, until one vector of kept registers remains
    order = [apply(steps.kept, k) ^ apply(steps.regs, j) for j in range(1 << len(steps.regs))
             for k in range(1 << len(steps.kept))]
    values = _halve(low, body, [gather(b, v, order) for v in values], len(steps.regs))
    # lanes
    redux = _REDUX.get(body.only_op) if low.target.has_redux else None
    if redux and len(steps.lanes) == LANE_BITS and width_of(values[0].type) == 32:
        mask = b.bits(FULL_MASK, I32)
        reduced = [b.nvvm(f"redux.sync.{redux}", [x, mask])[0] for x in b.unpack(values[0])]
        values = [b.pack(reduced)]
        steps = replace(steps, lanes=())
    swap = not body.is_commutative
    for lane in steps.lanes:
        others = [_from_lane(low, v, 1 << lane) for v in values]
        if swap:        # every lane must combine the two in one order, or copies may differ
            odd = b.icmp("ne", b.and_(low.lane, b.i32(1 << lane)), b.i32(0))
            values, others = ([b.select(odd, y, x) for x, y in zip(values, others)],
                              [b.select(odd, x, y) for x, y in zip(values, others)])
        values = body(values, others)
    for result, v in zip(op.results, values):
        low.set(result, v if isinstance(result.type, TensorType) else b.extract(v, 0))


def _halve(low: Lowering, body: Body, values: list[SSAValue], times: int) -> list[SSAValue]:
    b = low.b
    for _ in range(times):
        n = values[0].type.get_shape()[0] // 2  # type: ignore[attr-defined]
        values = body([b.slice(v, 0, n) for v in values], [b.slice(v, n, n) for v in values])
    return values


def _from_lane(low: Lowering, v: SSAValue, flip: int) -> SSAValue:
    t = v.type.element_type  # type: ignore[attr-defined]
    return from_plain(low.b, shuffle_lanes(low, to_plain(low.b, v), flip), t)
