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
from tileiras.analysis.layout_rules import DOTS, instruction_k, multiply_add_reader, operand_fragments
from tileiras.analysis.tensor_dots import described_of
from tileiras.dialects import nv_tileas
from tileiras.dialects.element import element_bytes
from tileiras.dialects.nv_tileaa import int_array
from tileiras.dialects.nv_tileas import BufferType, SharedLayoutAttr, layout_of, with_layout
from tileiras.layout.linear import LinearLayout, dim_bits
from tileiras.layout.operands import described_buffer, multiply_add_buffer, operand_buffer


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
                _dot(op, context.target.has_ldmatrix_bytes)


def _dot(op: Operation, turns_bytes: bool) -> None:
    """`turns_bytes`: as of `ldmatrix_plan`."""
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
                given.append(_buffer(op, x, k_dim, part, slices, fragment, turns_bytes))
        if described is not None:
            op.properties["atom"] = StringAttr(described.with_a_in(not isinstance(given[0].type, TensorType)).intrinsic)
        if part + 1 == slices:
            if scales and described is not None:
                scales = [_scales(op, v, 1 - i, 0 if i else described.run) for i, v in enumerate(scales)]
            op.operands = [*given, acc, *scales]
        else:
            step = type(op).create(operands=[*given, acc], result_types=[op.results[0].type], properties=dict(op.properties))
            _insert(step, op)
            acc = step.results[0]


def _scales(op: Operation, v: SSAValue, of_a: int, run: int) -> SSAValue:
    """A new buffer with scale factors as the tensor core copies them: too few are there several times."""
    from tileiras.layout.atoms.tensor_scaled import scale_buffer, whole

    t = v.type
    assert isinstance(t, TensorType)
    k_dim = len(t.get_shape()) - 2 + of_a
    shape = whole(t.get_shape(), k_dim)
    alloc = nv_tileas.AllocTensor.make([], [BufferType(t.element_type, SharedLayoutAttr(scale_buffer(shape, k_dim, run)))])
    _insert(alloc, op)
    _insert(nv_tileas.StoreShared.make([_repeated(op, v, shape), alloc.results[0]], [], {"slice": None}), op)
    return alloc.results[0]


def _repeated(op: Operation, v: SSAValue, shape: tuple[int, ...]) -> SSAValue:
    """A tensor as often as makes this shape, each thread with what it has."""
    t, layout = v.type, layout_of(v)
    assert isinstance(t, TensorType)
    have = t.get_shape()
    if have == shape:
        return v
    if 0 in layout.reg:
        layout = layout.compact_regs()
        v = _made(op, nv_tileas.ConvertLayout.make([v], [with_layout(t, layout)]))
    times = [want // n for want, n in zip(shape, have)]
    apart = tuple(x for n in have for x in (1, n))
    wide = tuple(x for many, n in zip(times, have) for x in (many, n))
    layout = layout.reshape(apart)
    v = _made(op, nv_tileas.View.make([v], [with_layout(TensorType(t.element_type, apart), layout)]))

    def moved(basis: int) -> int:
        out = 0
        for extent, i in zip(wide, layout.coords(basis)):
            out = out * extent + i
        return out
    reg, lane, warp = (tuple(map(moved, bases)) for bases in (layout.reg, layout.lane, layout.warp))
    more = tuple(1 << low + i for d, (low, bits) in enumerate(dim_bits(wide)) if d % 2 == 0 for i in range(bits))
    layout = LinearLayout(wide, reg + more, lane, warp)
    v = _made(op, nv_tileas.Broadcast.make([v], [with_layout(TensorType(t.element_type, wide), layout)]))
    return _made(op, nv_tileas.View.make([v], [with_layout(TensorType(t.element_type, shape), layout.reshape(shape))]))


def _made(before: Operation, new: Operation) -> SSAValue:
    _insert(new, before)
    return new.results[0]


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


def _buffer(op: Operation, x: SSAValue, k_dim: int, part: int, slices: int, fragment: LinearLayout | None,
            turns_bytes: bool) -> SSAValue:
    """A new buffer that part number `part` of `x` along k is written to before the dot."""
    t = x.type
    assert isinstance(t, TensorType)
    shape = tuple(n // slices if d == k_dim else n for d, n in enumerate(t.get_shape()))
    size = element_bytes(t.element_type)
    described = described_of(op)
    if described is not None:
        of_a = k_dim + 1 == len(shape)
        run = described.run if of_a else 0
        layout = described_buffer(shape, size, k_dim, layout_of(x), described.contiguous(of_a), run).layout
    elif fragment is None:
        reader, steps = multiply_add_reader(op, shape, k_dim, layout_of(op.results[0]))
        layout = multiply_add_buffer(shape, size, k_dim, layout_of(x), reader, steps)
    else:
        layout = operand_buffer(shape, size, k_dim, layout_of(x), fragment, instruction_k(op), turns_bytes)
    alloc = nv_tileas.AllocTensor.make([], [BufferType(t.element_type, SharedLayoutAttr(layout))])
    _insert(alloc, op)
    numbers = ArrayAttr([IntAttr(k_dim), IntAttr(part), IntAttr(slices)]) if slices > 1 else None
    turned = None
    if described is not None and numbers is None and size == 1:
        from tileiras.layout.turned_bytes import turns  # few kernels have such

        way = turns(layout_of(x), layout, size, k_dim)
        turned = None if way is None else int_array((k_dim, *way))
    _insert(nv_tileas.StoreShared.make([x, alloc.results[0]], [], {"slice": numbers, "turned": turned}), op)
    return alloc.results[0]
