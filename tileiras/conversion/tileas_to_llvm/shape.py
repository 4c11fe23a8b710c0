"""Shape ops on placed tiles: most only rename registers.

view keeps bits where they are, permute and broadcast move bit fields of the layout, so the result's natural layout
is the source's carried along and nothing moves. Where the result has another layout, the natural one is converted.
extract, insert and cat see the smaller tile as part of the larger tile's index space: its layout, `embedded`, has the
same bases with gaps; the slice's number is the rest of the index.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.conversion.tileas_to_llvm.builder import element_type, width_of
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, bits_of, dim_of, lowers, storage_type
from tileiras.conversion.tileas_to_llvm.registers import from_plain, gather, plain_type, to_plain
from tileiras.conversion.tileas_to_llvm.shared import shared_access
from tileiras.conversion.tileas_to_llvm.shared.convert_layout import (
    SCRATCH_SHARE,
    convert,
    emit_plan,
    plan_bytes,
    plan_for,
    relayout,
)
from tileiras.conversion.tileas_to_llvm.shared.shared_memory import scratch
from tileiras.dialects import arith
from tileiras.dialects.llvm import vec
from tileiras.dialects.nv_tileas import layout_of
from tileiras.layout.convert import Plan, ThroughShared
from tileiras.layout.f2 import solve
from tileiras.layout.linear import LinearLayout, dim_bits, log2
from tileiras.layout.shape_rules import bytes_of, elements_of, embed, slice_bits, without_bit
from tileiras.layout.shared import Access, access, between


def _element_bytes(v: SSAValue) -> int:
    return max(1, bits_of(v.type.element_type) // 8)  # type: ignore[attr-defined]


# --- one value, one index ---------------------------------------------------------------------------------------------

@lowers("nv_tileas.splat")
def splat(low: Lowering, op: Operation) -> None:
    result = op.results[0]
    low.set(result, low.b.splat(low.scalar(op.operands[0]), low.layout(result).num_regs))


@lowers("nv_tileas.make_range")
def make_range(low: Lowering, op: Operation) -> None:
    """0, 1, 2, ...: an element's value is its index."""
    b = low.b
    result = op.results[0]
    layout = low.layout(result)
    element = low.element(result)
    assert isinstance(element, IntegerType)
    thread = low.flat_index(layout)
    touched = 0
    for basis in (*layout.lane, *layout.warp):
        touched |= basis
    kind = storage_type(element)
    narrow = width_of(kind) < 32
    out = []
    for index in layout.reg_indices:
        value = b.add(b.xor(thread, b.i32(index & touched)), b.i32(index & ~touched))
        out.append(b.cast("trunc" if narrow else "zext", value, kind))
    low.set(result, out)


# --- the same elements ------------------------------------------------------------------------------------------------

@lowers("nv_tileas.view")
def view(low: Lowering, op: Operation) -> None:
    source, result = op.operands[0], op.results[0]
    if not isinstance(result.type, TensorType):
        low.set(result, low.regs(source)[0])
    elif not isinstance(source.type, TensorType):
        low.set(result, low.b.splat(low.scalar(source), low.layout(result).num_regs))
    else:
        relayout(low, op, source, _natural(op), result)


@lowers("nv_tileas.permute", "nv_tileas.broadcast")
def carried_along(low: Lowering, op: Operation) -> None:
    source, result = op.operands[0], op.results[0]
    if not isinstance(source.type, TensorType):
        low.set(result, low.b.splat(low.scalar(source), low.layout(result).num_regs))
        return
    if op.name == "nv_tileas.broadcast":
        # the operand in the layout that has, register by register, what the result needs
        wanted = low.layout(result).project(low.layout(source).shape)
        low.set(result, convert(low, op, source, low.layout(source), wanted))
        return
    relayout(low, op, source, _natural(op), result)


def _natural(op: Operation) -> LinearLayout:
    """The layout of a view's or permute's result when nothing moves."""
    layout = layout_of(op.operands[0])
    if op.name == "nv_tileas.view":
        return layout.reshape(op.results[0].type.get_shape())  # type: ignore[attr-defined]
    return layout.permute([p.data for p in op.properties["permutation"].data])  # type: ignore[attr-defined]


@scratch("nv_tileas.view", "nv_tileas.permute", "nv_tileas.broadcast")
def carried_scratch(op: Operation, target: Any) -> int:
    source, result = op.operands[0], op.results[0]
    if not isinstance(source.type, TensorType) or not isinstance(result.type, TensorType):
        return 0
    if op.name == "nv_tileas.broadcast":
        src, dst = layout_of(source), layout_of(result).project(layout_of(source).shape)
    else:
        src, dst = _natural(op), layout_of(result)
    return plan_bytes(plan_for(src, dst, source.type.element_type, target))


# --- parts of a tile --------------------------------------------------------------------------------------------------

def _static_number(op: Operation, first: int, shape: tuple[int, ...], part: tuple[int, ...]) -> int | None:
    """The number of the slice, if all indices (operands from `first` on) are constants."""
    number, at = 0, 0
    for d in range(len(shape) - 1, -1, -1):
        owner = op.operands[first + d].owner
        bits = log2(shape[d] // part[d])
        if bits:
            if not isinstance(owner, arith.Constant):
                return None
            number |= (owner.properties["value"].value.data & (1 << bits) - 1) << at  # type: ignore[attr-defined]
        at += bits
    return number


def _run_time_number(low: Lowering, op: Operation, first: int, shape: tuple[int, ...],
                     part: tuple[int, ...]) -> SSAValue:
    """The number of the slice as an i32."""
    b = low.b
    number, at = b.i32(0), 0
    for d in range(len(shape) - 1, -1, -1):
        bits = log2(shape[d] // part[d])
        if bits:
            index = low.scalar(op.operands[first + d])
            number = b.or_(number, b.shl(b.and_(index, b.i32((1 << bits) - 1)), at))
        at += bits
    return number


def _slice_plan(whole: LinearLayout, part: LinearLayout, number: int | None, element: Any,
                target: Any) -> tuple[int, Plan] | None:
    """How a slice gets out without shared memory: (registers to XOR, plan of the rest); None if it can't."""
    if number is None:
        return None
    flat = sum(bit for i, bit in enumerate(slice_bits(whole.shape, part.shape)) if number >> i & 1)
    start = solve(whole.reg, [flat])[0]
    if start is None:
        return None
    plan = plan_for(whole, embed(part, whole.shape), element, target)
    return None if isinstance(plan, ThroughShared) else (start, plan)


@dataclass(frozen=True)
class SliceBuffer:
    """How a slice passes through shared memory: `numbering` has the index bits that number the slices, then those that number
    the rounds in which a slice goes that is too large for the scratch; `write` and `read` list the accesses."""

    slices: int
    num_rounds: int
    bytes: int
    write: Access
    read: Access

    def number(self, low: Lowering, wanted: int | SSAValue, round_number: int) -> int | SSAValue:
        """Which accesses of the whole tile's side take part: slice `wanted`, in that round."""
        beside = round_number << self.slices
        return wanted | beside if isinstance(wanted, int) else low.b.or_(wanted, low.b.i32(beside))


def _slice_buffer(whole: LinearLayout, part: LinearLayout, elem_bytes: int, writer_is_whole: bool, target: Any) -> SliceBuffer:
    inner = embed(part, whole.shape)
    slices = slice_bits(whole.shape, part.shape)
    inside = [1 << low + i for (low, _), (_, bits) in zip(dim_bits(whole.shape), dim_bits(part.shape))
              for i in reversed(range(bits))]
    halvings = 0
    while part.size * elem_bytes >> halvings > target.max_static_smem // SCRATCH_SHARE:
        halvings += 1
    numbering = (*slices, *inside[:halvings])
    writer, reader = (whole, inner) if writer_is_whole else (inner, whole)
    shared = between(writer, reader, elem_bytes, numbering)
    return SliceBuffer(len(slices), 1 << halvings, shared.extent * elem_bytes, access(writer, shared, elem_bytes, numbering),
                       access(reader, shared, elem_bytes, numbering))


@lowers("nv_tileas.extract")
def extract(low: Lowering, op: Operation) -> None:
    b = low.b
    source, result = op.operands[0], op.results[0]
    if not isinstance(source.type, TensorType):
        low.set(result, low.scalar(source))
        return
    t = low.element(source)
    whole = low.layout(source)
    part = _part_layout(result, whole)
    number = _static_number(op, 1, whole.shape, part.shape)
    direct = _slice_plan(whole, part, number, t, low.target)
    v = low.vec(source)
    if direct is not None:
        start, plan = direct
        v = emit_plan(low, op, gather(b, v, [r ^ start for r in range(whole.num_regs)]), plan)
    else:
        buffer = _slice_buffer(whole, part, _element_bytes(source), True, low.target)
        wanted = number if number is not None else _run_time_number(low, op, 1, whole.shape, part.shape)
        base, kind, plain = low.shared_ptr(op), storage_type(t), to_plain(b, v)
        out = None
        for i in range(buffer.num_rounds):
            low.before_shared_write()
            shared_access.write(low, plain, buffer.write, base, buffer.number(low, wanted, i))
            low.before_shared_read()
            out = shared_access.read(low, plain_type(kind), buffer.read, base, buffer.number(low, 0, i), out)
        assert out is not None
        v = from_plain(b, out, kind)
    low.set(result, v if isinstance(result.type, TensorType) else b.extract(v, 0))


def _part_layout(v: SSAValue, whole: LinearLayout) -> LinearLayout:
    """The layout of a slice; one element, held by all, for a scalar."""
    if isinstance(v.type, TensorType):
        return layout_of(v)
    return LinearLayout((1,) * len(whole.shape), (), (0,) * 5, (0,) * len(whole.warp))


@scratch("nv_tileas.extract")
def extract_scratch(op: Operation, target: Any) -> int:
    source, result = op.operands[0], op.results[0]
    if not isinstance(source.type, TensorType):
        return 0
    whole = layout_of(source)
    part = _part_layout(result, whole)
    number = _static_number(op, 1, whole.shape, part.shape)
    if _slice_plan(whole, part, number, source.type.element_type, target) is not None:
        return 0
    return _slice_buffer(whole, part, _element_bytes(source), True, target).bytes


@lowers("nv_tileas.insert")
def insert(low: Lowering, op: Operation) -> None:
    """`dest` with slice number `indices` replaced by `source`."""
    b = low.b
    source, dest, result = op.operands[0], op.operands[1], op.results[0]
    whole = low.layout(result)
    part = low.layout(source)
    t = storage_type(low.element(dest))
    out = to_plain(b, convert(low, op, dest, low.layout(dest), whole))
    buffer = _slice_buffer(whole, part, _element_bytes(dest), False, low.target)
    number: int | SSAValue | None = _static_number(op, 2, whole.shape, part.shape)
    if number is None:
        number = _run_time_number(low, op, 2, whole.shape, part.shape)
    base, plain = low.shared_ptr(op), to_plain(b, low.vec(source))
    for i in range(buffer.num_rounds):
        low.before_shared_write()
        shared_access.write(low, plain, buffer.write, base, buffer.number(low, 0, i))
        low.before_shared_read()
        out = shared_access.read(low, plain_type(t), buffer.read, base, buffer.number(low, number, i), out)
    low.set(result, from_plain(b, out, t))


@scratch("nv_tileas.insert")
def insert_scratch(op: Operation, target: Any) -> int:
    source, dest, result = op.operands[0], op.operands[1], op.results[0]
    slice_bytes = _slice_buffer(layout_of(result), layout_of(source), _element_bytes(dest), False, target).bytes
    return max(slice_bytes, plan_bytes(plan_for(layout_of(dest), layout_of(result), dest.type.element_type, target)))  # type: ignore[attr-defined]


@lowers("nv_tileas.cat")
def cat(low: Lowering, op: Operation) -> None:
    """The top bit of `dim` tells which operand an element comes from: both in the result's layout without that bit,
    then register by register, or thread by thread, one of the two."""
    b = low.b
    result = op.results[0]
    dim = dim_of(op)
    layout = low.layout(result)
    field, bits = dim_bits(layout.shape)[dim]
    bit = field + bits - 1
    half = without_bit(layout, dim)
    lhs, rhs = (convert(low, op, v, low.layout(v), half) for v in op.operands)
    second = [index >> bit & 1 for index in layout.reg_indices]
    n = layout.num_regs
    thread = low.place(tuple(x >> bit & 1 for x in layout.lane), tuple(x >> bit & 1 for x in layout.warp))
    known = b.known(thread)
    mask = [r + n if s else r for r, s in enumerate(second)]
    if known is not None:
        low.set(result, b.shuffle(lhs, rhs, [(m + n * known) % (2 * n) for m in mask]))
        return
    odd = b.icmp("ne", thread, b.i32(0))
    here = b.shuffle(lhs, rhs, mask)
    there = b.shuffle(lhs, rhs, [(m + n) % (2 * n) for m in mask])
    low.set(result, b.select(odd, there, here))


@scratch("nv_tileas.cat")
def cat_scratch(op: Operation, target: Any) -> int:
    half = without_bit(layout_of(op.results[0]), dim_of(op))
    return max(plan_bytes(plan_for(layout_of(v), half, v.type.element_type, target)) for v in op.operands)  # type: ignore[attr-defined]


# --- bytes ------------------------------------------------------------------------------------------------------------

def _bytes_plan(op: Operation, target: Any) -> tuple[LinearLayout, Plan, Plan]:
    """(layout of the wider tile next to the reinterpretation, plan to get there, plan from there). See `pack`."""
    source, result = op.operands[0], op.results[0]
    src, dst = layout_of(source), layout_of(result)
    wide, narrow = (source, result) if op.name.endswith(".pack") else (result, source)
    bits = _unit_bits(wide)
    if bits < 8:
        wide, narrow, bits = narrow, wide, 8
    factor = layout_of(narrow).size // layout_of(wide).size
    source_is_wide = wide is source
    if source_is_wide:
        inner = elements_of(dst, factor)
        if inner is None:
            inner = src
        return (inner, plan_for(src, inner, source.type.element_type, target),  # type: ignore[attr-defined]
                plan_for(bytes_of(inner, factor), dst, result.type.element_type, target))  # type: ignore[attr-defined]
    inner = elements_of(src, factor)
    if inner is None:
        inner = dst
    return (inner, plan_for(src, bytes_of(inner, factor), source.type.element_type, target),  # type: ignore[attr-defined]
            plan_for(inner, dst, result.type.element_type, target))  # type: ignore[attr-defined]


def _unit_bits(v: SSAValue) -> int:
    """Bits of an element as the language counts them: 4 for f4 and i4, which registers hold one a byte."""
    from xdsl.dialects.builtin import Float4E2M1FNType
    t = v.type.element_type  # type: ignore[attr-defined]
    if isinstance(t, Float4E2M1FNType) or (isinstance(t, IntegerType) and t.width.data == 4):
        return 4
    return bits_of(t)


@lowers("nv_tileas.pack", "nv_tileas.unpack")
def reinterpret(low: Lowering, op: Operation) -> None:
    """Elements as bytes, and back: with a thread holding an element's bytes in consecutive registers, a bitcast.

    The element index of a byte is its own index without the lowest bits. f4 and i4 have two elements a byte."""
    b = low.b
    source, result = op.operands[0], op.results[0]
    _, before, after = _bytes_plan(op, low.target)
    v = emit_plan(low, op, low.vec(source), before)
    t = storage_type(low.element(result))
    nibbles = 4 in (_unit_bits(source), _unit_bits(result))
    n = v.type.get_shape()[0]  # type: ignore[attr-defined]
    if not nibbles:
        v = b.cast("bitcast", v, vec(n * width_of(element_type(v.type)) // width_of(t), t))
    elif op.name.endswith(".pack"):
        even, odd = gather(b, v, range(0, n, 2)), gather(b, v, range(1, n, 2))
        v = b.or_(b.and_(even, b.bits(15, even.type)), b.shl(odd, 4))
    else:
        low_half, high_half = b.and_(v, b.bits(15, v.type)), b.lshr(v, 4)
        v = b.shuffle(low_half, high_half, [i // 2 + n * (i % 2) for i in range(2 * n)])
    low.set(result, emit_plan(low, op, v, after))


@scratch("nv_tileas.pack", "nv_tileas.unpack")
def reinterpret_scratch(op: Operation, target: Any) -> int:
    _, before, after = _bytes_plan(op, target)
    return max(plan_bytes(before), plan_bytes(after))
