"""`stage-slices`: extract and insert of what registers and shuffles can't reach go through a buffer of one slice.

    %s = extract %x[%i]      ->      %b = alloc_tensor
                                     store_shared %x, %b[number = %i]       only the slice is written
                                     %s = load_shared %b
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntAttr, IntegerAttr, TensorType, i32
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.analysis.slices import part_layout, static_number
from tileiras.dialects import arith, nv_tileas
from tileiras.dialects.element import element_bytes
from tileiras.dialects.nv_tileaa import int_array
from tileiras.dialects.nv_tileas import BufferType, SharedLayoutAttr, layout_of
from tileiras.layout.linear import log2
from tileiras.layout.slices import SliceBuffer, direct_slice, slice_buffer
from tileiras.transforms.materialize_convert_layout import SCRATCH_SHARE


def run(module: Operation, context: Any) -> None:
    """Replace them, in place."""
    budget = context.target.max_static_smem // SCRATCH_SHARE
    for func in module.regions[0].block.ops:
        if func.name != "nv_tileas.func":
            continue
        for op in list(func.walk()):
            if op.name == "nv_tileas.extract" and isinstance(op.operands[0].type, TensorType):
                _extract(op, budget)
            elif op.name == "nv_tileas.insert":
                _insert(op, budget)


class _Stage:
    """What replaces one op."""

    def __init__(self, op: Operation) -> None:
        self.op = op

    def add(self, new: Operation) -> Any:
        new.location = self.op.location
        assert self.op.parent is not None
        self.op.parent.insert_op_before(new, self.op)
        return new.results[0] if new.results else None

    def constant(self, value: int) -> SSAValue:
        return self.add(arith.Constant.make([], [i32], {"value": IntegerAttr(value, i32)}))

    def number(self, first: int, shape: tuple[int, ...], part: tuple[int, ...]) -> SSAValue:
        """The number of the slice as an i32, from the indices (operands from `first` on)."""
        number: SSAValue | None = None
        at = 0
        for d in range(len(shape) - 1, -1, -1):
            bits = log2(shape[d] // part[d])
            if bits:
                term = self.add(arith.Andi.make([self.op.operands[first + d], self.constant((1 << bits) - 1)], [i32]))
                if at:
                    term = self.add(arith.Shli.make([term, self.constant(at)], [i32]))
                number = term if number is None else self.add(arith.Ori.make([number, term], [i32]))
            at += bits
        assert number is not None
        return number

    def replace(self, value: SSAValue) -> None:
        self.op.results[0].replace_all_uses_with(value)
        self.op.detach()
        self.op.erase()


def _rounds(buffer: SliceBuffer, number: int) -> dict[str, Attribute]:
    return {"rounds": int_array(buffer.rounds), "round": IntAttr(number)}


def _extract(op: Operation, budget: int) -> None:
    source, result = op.operands[0], op.results[0]
    whole = layout_of(source)
    part = part_layout(result, whole)
    size = element_bytes(source.type.element_type)  # type: ignore[attr-defined]
    number = static_number(op, 1, whole.shape, part.shape)
    if direct_slice(whole, part, number, 8 * size) is not None:
        return
    plan = slice_buffer(whole, part, size, True, budget)
    stage = _Stage(op)
    asked = stage.number(1, whole.shape, part.shape) if number is None else None
    buffer = stage.add(_alloc(source, plan))
    out: SSAValue | None = None
    for i in range(plan.num_rounds):
        beside = i << plan.slices
        stage.add(nv_tileas.StoreShared.make([source, buffer, asked], [], _rounds(plan, (number or 0) | beside)))
        out = stage.add(nv_tileas.LoadShared.make([buffer, None, out], [result.type], _rounds(plan, beside)))
    assert out is not None
    stage.replace(out)


def _insert(op: Operation, budget: int) -> None:
    source, dest, result = op.operands[0], op.operands[1], op.results[0]
    whole, part = layout_of(result), layout_of(source)
    size = element_bytes(dest.type.element_type)  # type: ignore[attr-defined]
    number = static_number(op, 2, whole.shape, part.shape)
    plan = slice_buffer(whole, part, size, False, budget)
    stage = _Stage(op)
    asked = stage.number(2, whole.shape, part.shape) if number is None else None
    buffer = stage.add(_alloc(dest, plan))
    out = dest
    for i in range(plan.num_rounds):
        beside = i << plan.slices
        stage.add(nv_tileas.StoreShared.make([source, buffer, None], [], _rounds(plan, beside)))
        out = stage.add(nv_tileas.LoadShared.make([buffer, asked, out], [result.type], _rounds(plan, (number or 0) | beside)))
    stage.replace(out)


def _alloc(tile: SSAValue, plan: SliceBuffer) -> Operation:
    return nv_tileas.AllocTensor.make([], [BufferType(tile.type.element_type, SharedLayoutAttr(plan.shared))])  # type: ignore[attr-defined]
