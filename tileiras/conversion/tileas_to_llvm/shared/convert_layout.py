"""convert_layout inside warps: the registers as they are, in another order, or other lanes' by shuffles.

What changes warps, `materialize-convert-layout` has sent through a buffer.
"""
from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from tileiras.conversion.tileas_to_llvm.builder import width_of
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, location_text, lowers
from tileiras.conversion.tileas_to_llvm.registers import from_plain, gather, length, rename, shuffle_lanes, to_plain
from tileiras.dialects.element import element_bytes
from tileiras.dialects.llvm import integer, vec
from tileiras.errors import CompileError
from tileiras.layout.convert import Noop, Plan, RegisterPermute, plan_in_warps
from tileiras.layout.linear import log2
from tileiras.layout.shuffle import Stage, WarpShuffle, in_words


def emit_plan(low: Lowering, v: SSAValue, plan: Plan) -> SSAValue:
    """Carry out a plan on the vector of a thread's registers."""
    b = low.b
    if isinstance(plan, Noop):
        return v
    if isinstance(plan, RegisterPermute):
        return gather(b, v, plan.mapping)
    assert isinstance(plan, WarpShuffle)
    return from_plain(b, _shuffle(low, to_plain(b, v), plan), v.type.element_type)  # type: ignore[attr-defined]


def _flip(low: Lowering, v: SSAValue, stages: tuple[Stage, ...]) -> SSAValue:
    """Registers permuted by x -> x ^ flip in the threads that each stage names."""
    b = low.b
    for stage in stages:
        lane = tuple(stage.lane_mask >> i & 1 for i in range(5))
        warp = tuple(stage.warp_mask >> i & 1 for i in range(log2(low.num_warps)))
        odd = b.icmp("ne", low.place(lane, warp), b.i32(0))
        n = v.type.get_shape()[0]  # type: ignore[attr-defined]
        v = b.select(odd, gather(b, v, [i ^ stage.flip for i in range(n)]), v)
    return v


def _shuffle(low: Lowering, v: SSAValue, plan: WarpShuffle) -> SSAValue:
    b = low.b
    count, t = length(v), v.type.element_type  # type: ignore[attr-defined]
    packed = in_words(plan, count)
    if packed is not None:
        word = integer(width_of(t) * packed.size)
        words = b.cast("bitcast", gather(b, v, packed.gathered), vec(count // packed.size, word))
        out = _shuffle(low, words, packed.plan)
        return gather(b, b.cast("bitcast", out, vec(length(out) * packed.size, t)), packed.spread)
    v = _flip(low, v, plan.before)
    parts = []
    order: list[int] = []
    asked = None if plan.is_butterfly else low.place(plan.lane, plan.warp)
    for step in plan.steps:
        lane = step.lane if asked is None else b.xor(asked, b.i32(step.lane))
        parts.append(shuffle_lanes(low, gather(b, v, step.given), lane))
        order += step.taken
    where = [0] * plan.num_taken
    for i, register in enumerate(order):
        where[register] = i
    taken = gather(b, b.concat(parts), where)
    return gather(b, _flip(low, taken, plan.after), plan.result)


@lowers("nv_tileas.convert_layout")
def convert_layout(low: Lowering, op: Operation) -> None:
    source, result = op.operands[0], op.results[0]
    src, dst = low.layout(source), low.layout(result)
    plan = plan_in_warps(src, dst, 8 * element_bytes(low.element(source)))
    if plan is None:
        raise CompileError("a conversion between warps is left: materialize-convert-layout hasn't run", location_text(op))
    if isinstance(plan, WarpShuffle):
        low.set(result, emit_plan(low, low.vec(source), plan))
    else:
        rename(low, source, result, plan.mapping if isinstance(plan, RegisterPermute) else list(range(src.num_regs)))
