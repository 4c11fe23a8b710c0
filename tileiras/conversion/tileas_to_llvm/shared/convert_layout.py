"""convert_layout and the shared-memory ops: elements to other threads, by the plan that `layout/convert.py` makes.

    %y = nv_tileas.convert_layout %x      nothing | a register permutation | shuffles | shared memory:
                                          write, meet, read, as often as the scratch has rounds
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Operation, SSAValue

from tileiras.conversion.tileas_to_llvm.lowering import Lowering, bits_of, lowers, storage_type
from tileiras.conversion.tileas_to_llvm.registers import (
    from_plain,
    gather,
    plain_type,
    rename,
    shuffle_lanes,
    to_plain,
)
from tileiras.conversion.tileas_to_llvm.shared import shared_access
from tileiras.conversion.tileas_to_llvm.shared.shared_memory import scratch
from tileiras.dialects.nv_tileas import layout_of
from tileiras.layout.convert import Noop, Plan, RegisterPermute, ThroughShared, plan_conversion
from tileiras.layout.linear import LinearLayout, dim_bits, log2
from tileiras.layout.shared import SharedLayout, access
from tileiras.layout.shuffle import Stage, WarpShuffle

SCRATCH_SHARE = 3
"""A conversion may use this part (one n-th) of the block's shared memory; larger tiles go in several rounds."""


def plan_for(src: LinearLayout, dst: LinearLayout, element: Any, target: Any) -> Plan:
    """The plan for elements of an nv_tileas type, within the scratch that the target grants."""
    return plan_conversion(src, dst, max(8, bits_of(element)), target.max_static_smem // SCRATCH_SHARE)


def plan_bytes(plan: Plan) -> int:
    """Scratch that a plan needs."""
    return plan.bytes if isinstance(plan, ThroughShared) else 0


def emit_plan(low: Lowering, op: Operation, v: SSAValue, plan: Plan) -> SSAValue:
    """Carry out a plan on the vector of a thread's registers; `op` owns the scratch."""
    b = low.b
    if isinstance(plan, Noop):
        return v
    if isinstance(plan, RegisterPermute):
        return gather(b, v, plan.mapping)
    t = v.type.element_type  # type: ignore[attr-defined]
    plain = to_plain(b, v)
    if isinstance(plan, WarpShuffle):
        return from_plain(b, _shuffle(low, plain, plan), t)
    base = low.shared_ptr(op)
    out = None
    for number in range(plan.num_rounds):
        low.before_shared_write()
        shared_access.write(low, plain, plan.store, base, number)
        low.before_shared_read()
        out = shared_access.read(low, plain_type(t), plan.load, base, number, out)
    assert out is not None
    return from_plain(b, out, t)


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


def convert(low: Lowering, op: Operation, source: SSAValue, src: LinearLayout, dst: LinearLayout) -> SSAValue:
    """The registers of tensor `source`, seen as laid out by `src`, in layout `dst`; one vector."""
    plan = plan_for(src, dst, low.element(source), low.target)
    return emit_plan(low, op, low.vec(source), plan)


def relayout(low: Lowering, op: Operation, source: SSAValue, src: LinearLayout, result: SSAValue) -> None:
    """Set `result` to `source`, seen as laid out by `src`, in the result's layout."""
    plan = plan_for(src, low.layout(result), low.element(source), low.target)
    if isinstance(plan, Noop | RegisterPermute):
        mapping = plan.mapping if isinstance(plan, RegisterPermute) else range(src.num_regs)
        rename(low, source, result, list(mapping))
    else:
        low.set(result, emit_plan(low, op, low.vec(source), plan))


@lowers("nv_tileas.convert_layout")
def convert_layout(low: Lowering, op: Operation) -> None:
    relayout(low, op, op.operands[0], low.layout(op.operands[0]), op.results[0])


@scratch("nv_tileas.convert_layout")
def convert_scratch(op: Operation, target: Any) -> int:
    source, result = op.operands[0], op.results[0]
    return plan_bytes(plan_for(layout_of(source), layout_of(result), source.type.element_type, target))  # type: ignore[attr-defined]


@lowers("nv_tileas.alloc_tensor")
def alloc_tensor(low: Lowering, op: Operation) -> None:
    low.set(op.results[0], low.shared_ptr(op))


def _sliced(op: Operation, shape: tuple[int, ...], buffer: SharedLayout) -> tuple[SharedLayout, tuple[int, ...], int]:
    """For a store of one slice of a tile: the buffer's offsets over the whole tile's index, the index bits that number
    the slices, and the slice's number. `slice` = (dimension, number, count)."""
    attr = op.properties.get("slice")
    if attr is None:
        return buffer, (), 0
    dim, number, count = (x.data for x in attr.data)  # type: ignore[attr-defined]
    low, bits = dim_bits(shape)[dim]
    cut = log2(count)
    end = low + bits - cut
    bases = (*buffer.bases[:end], *[0] * cut, *buffer.bases[end:])
    return SharedLayout(shape, bases), tuple(1 << end + i for i in range(cut)), number


@lowers("nv_tileas.store_shared")
def store_shared(low: Lowering, op: Operation) -> None:
    source, buffer = op.operands
    layout = low.layout(source)
    shared, rounds, number = _sliced(op, layout.shape, buffer.type.layout.data)  # type: ignore[attr-defined]
    v = to_plain(low.b, low.vec(source))
    low.before_shared_write()
    plan = access(layout, shared, max(1, bits_of(low.element(source)) // 8), rounds)
    shared_access.write(low, v, plan, low.scalar(buffer), number)


@lowers("nv_tileas.load_shared")
def load_shared(low: Lowering, op: Operation) -> None:
    buffer, result = op.operands[0], op.results[0]
    element = low.element(result)
    t = storage_type(element)
    low.before_shared_read()
    plan = access(low.layout(result), buffer.type.layout.data, max(1, bits_of(element) // 8))  # type: ignore[attr-defined]
    low.set(result, from_plain(low.b, shared_access.read(low, plain_type(t), plan, low.scalar(buffer)), t))
