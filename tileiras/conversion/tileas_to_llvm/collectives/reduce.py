"""reduce: in each thread over its registers, over lanes by butterfly shuffles, over warps through shared memory.

The layout says which register, lane and warp bits step along the reduced dimension. Each such bit halves the problem;
bits whose basis depends on those before only lead to copies and are skipped, so nothing is counted twice. The result
stays where the halves met: every lane and warp that stood for a part of the dimension holds the same value.

    %m = nv_tileas.reduce %x dim 1 : tensor<64x128xf32, reg (c1, c2, r32), lane (c4 .. c64), warp (r1, r2)>
    two steps in registers, five shuffles of a vector of kept registers each, no shared memory
"""
from __future__ import annotations

from dataclasses import replace
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.conversion.tileas_to_llvm.builder import I32, width_of
from tileiras.conversion.tileas_to_llvm.collectives.body import Body
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, bits_of, dim_of, lowers
from tileiras.conversion.tileas_to_llvm.registers import FULL_MASK, from_plain, gather, plain_type, shuffle_lanes, to_plain
from tileiras.conversion.tileas_to_llvm.shared import shared_access
from tileiras.conversion.tileas_to_llvm.shared.convert_layout import emit_plan, plan_bytes, plan_for
from tileiras.conversion.tileas_to_llvm.shared.shared_memory import scratch
from tileiras.dialects.nv_tileas import layout_of
from tileiras.layout.convert import ThroughShared, through_shared
from tileiras.layout.f2 import apply
from tileiras.layout.linear import LANE_BITS
from tileiras.layout.reduction import Steps, steps_of

_REDUX = {"arith.addi": "add", "arith.maxsi": "max", "arith.maxui": "umax", "arith.minsi": "min", "arith.minui": "umin",
          "arith.andi": "and", "arith.ori": "or", "arith.xori": "xor"}
"""Ops on 32-bit integers that `redux.sync` reduces over a whole warp by one instruction."""
WORD = 16
"""Scratch of several operands starts at multiples of this many bytes."""


def _warp_plans(op: Operation, steps: Steps, target: Any) -> tuple[list[ThroughShared], bool]:
    """For each operand how partial results cross warps, and whether all fit side by side."""
    elements = [max(8, bits_of(v.type.element_type)) for v in op.operands]  # type: ignore[attr-defined]
    budget = target.max_static_smem // 4
    plans = [through_shared(steps.parts, steps.gathered, e, budget) for e in elements]
    together = all(p.num_rounds == 1 for p in plans) and sum(_round_up(p.bytes) for p in plans) <= budget
    return plans, together


def _round_up(n: int) -> int:
    return (n + WORD - 1) // WORD * WORD


@lowers("nv_tileas.reduce")
def reduce(low: Lowering, op: Operation) -> None:
    b = low.b
    body = Body(low, op)
    steps = steps_of(low.layout(op.operands[0]), dim_of(op))
    values = []
    for v in op.operands:
        plan = plan_for(low.layout(v), steps.layout, low.element(v), low.target)
        values.append(emit_plan(low, op, low.vec(v), plan))

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
    # warps
    if steps.warps:
        plans, together = _warp_plans(op, steps, low.target)
        if together:
            values = _gather_parts(low, op, values, plans)
        else:
            values = [emit_plan(low, op, v, plan) for v, plan in zip(values, plans)]
        values = _halve(low, body, values, len(steps.warps))

    for result, v in zip(op.results, values):
        if isinstance(result.type, TensorType):
            plan = plan_for(steps.result, low.layout(result), low.element(result), low.target)
            low.set(result, emit_plan(low, op, v, plan))
        else:
            low.set(result, b.extract(v, 0))


def _halve(low: Lowering, body: Body, values: list[SSAValue], times: int) -> list[SSAValue]:
    b = low.b
    for _ in range(times):
        n = values[0].type.get_shape()[0] // 2  # type: ignore[attr-defined]
        values = body([b.slice(v, 0, n) for v in values], [b.slice(v, n, n) for v in values])
    return values


def _from_lane(low: Lowering, v: SSAValue, flip: int) -> SSAValue:
    t = v.type.element_type  # type: ignore[attr-defined]
    return from_plain(low.b, shuffle_lanes(low, to_plain(low.b, v), flip), t)


def _gather_parts(low: Lowering, op: Operation, values: list[SSAValue], plans: list[ThroughShared]) -> list[SSAValue]:
    """All operands' partial results through shared memory with one meeting of the warps."""
    b = low.b
    low.before_shared_write()
    starts, at = [], 0
    for v, plan in zip(values, plans):
        starts.append(low.shared_ptr(op, at))
        at += _round_up(plan.bytes)
        shared_access.write(low, to_plain(b, v), plan.store, starts[-1])
    low.before_shared_read()
    out = []
    for v, plan, base in zip(values, plans, starts):
        t = v.type.element_type  # type: ignore[attr-defined]
        out.append(from_plain(b, shared_access.read(low, plain_type(t), plan.load, base), t))
    return out


@scratch("nv_tileas.reduce")
def reduce_scratch(op: Operation, target: Any) -> int:
    layout = layout_of(op.operands[0])
    steps = steps_of(layout, dim_of(op))
    most = 0
    for v in op.operands:
        most = max(most, plan_bytes(plan_for(layout_of(v), steps.layout, v.type.element_type, target)))  # type: ignore[attr-defined]
    for r in op.results:
        if isinstance(r.type, TensorType):
            most = max(most, plan_bytes(plan_for(steps.result, layout_of(r), r.type.element_type, target)))
    if steps.warps:
        plans, together = _warp_plans(op, steps, target)
        sizes = [_round_up(p.bytes) for p in plans]
        most = max(most, sum(sizes) if together else max(sizes))
    return most


