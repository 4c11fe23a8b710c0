"""`stage-operands`: what a dot multiplies goes to buffers in shared memory, from where it reads its fragments.

    %d = dot %a, %b, %c {k_slices = 1}      ->      %0 = alloc_tensor ; store_shared %a, %0
                                                    %1 = alloc_tensor ; store_shared %b, %1
                                                    %d = dot %0, %1, %c

An operand that sits in registers already in (or one register permutation away from) the fragment's layout stays there:
the probabilities of an attention kernel, straight from the first product's accumulators. Dots without an instruction read
both operands from buffers. With `k_slices` > 1 the buffers hold a part of k at a time, one product after another.

wgmma and tcgen05 read B, and A unless it is in registers, from buffers that matrix descriptors name; the
atom's name then says where A is (`.ss`, `.rs`).
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr, TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.layout_choice import in_registers
from tileiras.analysis.layout_rules import DOTS, operand_fragments
from tileiras.analysis.tensor_dots import described_of
from tileiras.dialects import nv_tileas
from tileiras.dialects.element import element_bytes
from tileiras.dialects.nv_tileas import BufferType, SharedLayoutAttr, layout_of, with_layout
from tileiras.layout.atoms.names import atom_named
from tileiras.layout.linear import LinearLayout
from tileiras.layout.operands import described_buffer, operand_buffer


def run(module: Operation, context: Any) -> None:
    """Stage the operands of all dots, in place."""
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            if context.remarks is not None and not context.opt_level:      # else when it is known what the copy engine does
                from tileiras.transforms.hint_remarks import asked_of_tma, report_tma
                from tileiras.transforms.layout_remarks import report_accesses
                report_accesses(func, context.remarks)
                report_tma(func, asked_of_tma(func), {}, "-O0 leaves the copy engine alone", context.remarks)
            for op in [op for op in func.walk() if op.name in DOTS and "k_slices" in op.properties]:
                _dot(op)


def _dot(op: Operation) -> None:
    slices: int = op.properties.pop("k_slices").data  # type: ignore[attr-defined]
    fragments = operand_fragments(op, layout_of(op.results[0]).num_warps)
    described = described_of(op)
    lhs, rhs, acc, *scales = op.operands
    ranks = [len(v.type.get_shape()) for v in (lhs, rhs)]  # type: ignore[attr-defined]
    operands = [(lhs, fragments[0], ranks[0] - 1), (rhs, fragments[1], ranks[1] - 2)]
    for part in range(slices):
        given = []
        for x, fragment, k_dim in operands:
            if slices == 1 and fragment is not None and in_registers(layout_of(x), fragment):
                given.append(_as_fragment(x, fragment, op))
            else:
                given.append(_buffer(op, x, k_dim, part, slices, fragment))
        if described is not None:
            op.properties["atom"] = StringAttr(described.with_a_in(not isinstance(given[0].type, TensorType)).intrinsic)
        if part + 1 == slices:
            op.operands = [*given, acc, *scales]
        else:
            step = type(op).create(operands=[*given, acc], result_types=[op.results[0].type], properties=dict(op.properties))
            _insert(step, op)
            acc = step.results[0]


def _insert(new: Operation, before: Operation) -> None:
    new.location = before.location
    block = before.parent
    assert block is not None
    block.insert_op_before(new, before)


def _as_fragment(x: SSAValue, fragment: LinearLayout, op: Operation) -> SSAValue:
    if layout_of(x) == fragment:
        return x
    assert isinstance(x.type, TensorType)
    convert = nv_tileas.ConvertLayout.make([x], [with_layout(x.type, fragment)])
    _insert(convert, op)
    return convert.results[0]


def _buffer(op: Operation, x: SSAValue, k_dim: int, part: int, slices: int, fragment: LinearLayout | None) -> SSAValue:
    """A new buffer that part number `part` of `x` along k is written to before the dot."""
    t = x.type
    assert isinstance(t, TensorType)
    shape = tuple(n // slices if d == k_dim else n for d, n in enumerate(t.get_shape()))
    name: Any = op.properties.get("atom")
    atom_k = atom_named(name.data).k if name is not None else 0
    size = element_bytes(t.element_type)
    described = described_of(op)
    if described is not None:
        layout = described_buffer(shape, size, k_dim, layout_of(x), described.contiguous(k_dim + 1 == len(shape))).layout
    else:
        layout = operand_buffer(shape, size, k_dim, layout_of(x), fragment, atom_k)
    alloc = nv_tileas.AllocTensor.make([], [BufferType(t.element_type, SharedLayoutAttr(layout))])
    _insert(alloc, op)
    numbers = ArrayAttr([IntAttr(k_dim), IntAttr(part), IntAttr(slices)]) if slices > 1 else None
    _insert(nv_tileas.StoreShared.make([x, alloc.results[0]], [], {"slice": numbers}), op)
    return alloc.results[0]
