"""`materialize-convert-layout`: a conversion that registers and shuffles can't do goes through a buffer, in rounds if need be.

    %y = convert_layout %x     ->      %b = alloc_tensor
                                       store_shared %x, %b
                                       %y = load_shared %b

Conversions that stand side by side write their buffers before any of them reads, so that the threads meet once.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Block, Operation, SSAValue

from tileiras.analysis.shared_memory import idle_bytes
from tileiras.dialects import nv_tileas
from tileiras.dialects.cuda_tile.debug import source_position
from tileiras.dialects.element import element_bytes
from tileiras.dialects.nv_tileaa import int_array
from tileiras.dialects.nv_tileas import BufferType, SharedLayoutAttr, layout_of
from tileiras.layout.convert import Plan, ThroughShared, plan_conversion

SCRATCH_SHARE = 3
"""A conversion may use this part (one n-th) of the block's shared memory; larger tiles go in several rounds. Where no other
buffer lives (an epilogue behind the products), it may use all that the function has anyway."""


def run(module: Operation, context: Any) -> None:
    """Replace what goes through shared memory, in place. Remarks tell of it."""
    for func in module.regions[0].block.ops:
        if func.name != "nv_tileas.func":
            continue
        converts: list[Operation] = [op for op in func.walk() if isinstance(op, nv_tileas.ConvertLayout)]
        if converts:
            granted = _granted(func, converts, context.target.max_static_smem)
            for block in dict.fromkeys(op.parent for op in converts):
                assert block is not None
                _block(func, block, granted, context)


def _granted(func: Operation, converts: list[Operation], available: int) -> dict[Operation, int]:
    """Bytes of shared memory that each conversion may use."""
    return {op: max(available // SCRATCH_SHARE, min(idle, available)) for op, idle in idle_bytes(func, converts).items()}


def _block(func: Operation, block: Block, granted: dict[Operation, int], context: Any) -> None:
    beside: list[tuple[Operation, ThroughShared]] = []
    for op in list(block.ops):
        plan: Plan | None = None
        if isinstance(op, nv_tileas.ConvertLayout):
            source, result = op.operands[0], op.results[0]
            plan = plan_conversion(layout_of(source), layout_of(result), 8 * element_bytes(source.type.element_type),  # type: ignore[attr-defined]
                                   granted[op])
        if not isinstance(plan, ThroughShared):
            _convert(beside)
            beside = []
            continue
        if context.remarks is not None:
            _remark(func, op, plan, context.remarks)
        together = sum(p.bytes for _, p in beside) + plan.bytes <= granted[op]
        if plan.num_rounds > 1 or not together or any(op.operands[0] is b.results[0] for b, _ in beside):
            _convert(beside)
            beside = []
        beside.append((op, plan))
        if plan.num_rounds > 1:
            _convert(beside)
            beside = []
    _convert(beside)


def _convert(group: list[tuple[Operation, ThroughShared]]) -> None:
    """Conversions that stand side by side: all are written before the last, then all are read."""
    if not group:
        return
    last = group[-1][0]
    block = last.parent
    assert block is not None
    buffers: list[SSAValue] = []

    def add(new: Operation, op: Operation) -> Any:
        new.location = op.location
        block.insert_op_before(new, last)
        return new.results[0] if new.results else None
    for op, plan in group:
        element = op.operands[0].type.element_type  # type: ignore[attr-defined]
        buffers.append(add(nv_tileas.AllocTensor.make([], [BufferType(element, SharedLayoutAttr(plan.shared))]), op))
        if plan.num_rounds == 1:
            add(nv_tileas.StoreShared.make([op.operands[0], buffers[-1], None]), op)
    for (op, plan), buffer in zip(group, buffers):
        value: SSAValue | None = None
        if plan.num_rounds == 1:
            value = add(nv_tileas.LoadShared.make([buffer, None, None], [op.results[0].type]), op)
        else:
            masks = int_array(plan.rounds)
            for number in range(plan.num_rounds):
                which = {"rounds": masks, "round": IntAttr(number)}
                add(nv_tileas.StoreShared.make([op.operands[0], buffer, None], [], which), op)
                value = add(nv_tileas.LoadShared.make([buffer, None, value], [op.results[0].type], which), op)
        assert value is not None
        op.results[0].replace_all_uses_with(value)
    for op, _ in group:
        op.detach()
        op.erase()


def _remark(func: Operation, op: Operation, plan: ThroughShared, remarks: list[Any]) -> None:
    from tileiras.remarks import ANALYSIS, MEMORY, Remark, tile_text

    name: Any = func.properties["sym_name"]
    t: Any = op.results[0].type
    remarks.append(Remark(
        ANALYSIS, MEMORY, "RemarkMemoryLayoutConversion", name.data, f"{tile_text(t)} goes through shared memory to other threads",
        source_position(op.location), (("SharedBytes", plan.bytes), ("Rounds", plan.num_rounds)),
        ("the ops before and after hold its elements in different threads",)))
