"""Shape ops on placed tiles: most only rename registers.

view keeps bits where they are, permute and broadcast move bit fields of the layout, so the result's natural layout
is the source's carried along and nothing moves. Where the result has another layout, the natural one is converted.
extract, insert and cat see the smaller tile as part of the larger tile's index space: its layout, `embedded`, has the
same bases with gaps; the slice's number is the rest of the index.
"""
from __future__ import annotations

from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import Operation

from tileiras.analysis.layout_rules import dim_of, unit_bits
from tileiras.analysis.slices import part_layout, static_number
from tileiras.conversion.tileas_to_llvm.builder import element_type, width_of
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, lowers, storage_type
from tileiras.conversion.tileas_to_llvm.registers import gather, rename
from tileiras.conversion.tileas_to_llvm.shared.convert_layout import emit_plan
from tileiras.dialects.element import element_bytes
from tileiras.dialects.llvm import vec
from tileiras.dialects.location_text import location_text
from tileiras.errors import CompileError
from tileiras.layout.convert import RegisterPermute, register_permutation
from tileiras.layout.linear import dim_bits
from tileiras.layout.shuffle import WarpShuffle
from tileiras.layout.slices import direct_slice

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
        rename(low, source, result, range(low.layout(result).num_regs))


@lowers("nv_tileas.permute", "nv_tileas.broadcast")
def carried_along(low: Lowering, op: Operation) -> None:
    source, result = op.operands[0], op.results[0]
    if not isinstance(source.type, TensorType):
        low.set(result, low.b.splat(low.scalar(source), low.layout(result).num_regs))
        return
    if op.name == "nv_tileas.broadcast":
        # the operand has one register for each different element that the result's registers need
        wanted = low.layout(result).project(low.layout(source).shape)
        mapping = register_permutation(low.layout(source), wanted)
        assert mapping is not None
        rename(low, source, result, mapping)
        return
    rename(low, source, result, range(low.layout(result).num_regs))


# --- parts of a tile --------------------------------------------------------------------------------------------------

@lowers("nv_tileas.extract")
def extract(low: Lowering, op: Operation) -> None:
    """A slice that registers and shuffles reach; `stage-slices` has sent the others through a buffer."""
    b = low.b
    source, result = op.operands[0], op.results[0]
    if not isinstance(source.type, TensorType):
        low.set(result, low.scalar(source))
        return
    whole = low.layout(source)
    part = part_layout(result, whole)
    direct = direct_slice(whole, part, static_number(op, 1, whole.shape, part.shape), 8 * element_bytes(low.element(source)))
    if direct is None:
        raise CompileError("a slice isn't within reach: stage-slices hasn't run", location_text(op))
    start, plan = direct
    regs = low.listed(source)
    if regs is not None and isinstance(result.type, TensorType) and not isinstance(plan, WarpShuffle):
        places = plan.mapping if isinstance(plan, RegisterPermute) else range(len(regs))
        low.set(result, [regs[place ^ start] for place in places])
        return
    v = emit_plan(low, gather(b, low.vec(source), [r ^ start for r in range(whole.num_regs)]), plan)
    low.set(result, v if isinstance(result.type, TensorType) else b.extract(v, 0))


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
    lhs, rhs = (low.vec(v) for v in op.operands)
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


# --- bytes ------------------------------------------------------------------------------------------------------------

@lowers("nv_tileas.pack", "nv_tileas.unpack")
def reinterpret(low: Lowering, op: Operation) -> None:
    """Elements as bytes, and back: with a thread holding an element's bytes in consecutive registers, a bitcast.

    The element index of a byte is its own index without the lowest bits. f4 and i4 have two elements a byte."""
    b = low.b
    source, result = op.operands[0], op.results[0]
    v = low.vec(source)
    t = storage_type(low.element(result))
    nibbles = 4 in (unit_bits(source.type), unit_bits(result.type))  # type: ignore[arg-type]
    n = v.type.get_shape()[0]  # type: ignore[attr-defined]
    if not nibbles:
        v = b.cast("bitcast", v, vec(n * width_of(element_type(v.type)) // width_of(t), t))
    elif op.name.endswith(".pack"):
        even, odd = gather(b, v, range(0, n, 2)), gather(b, v, range(1, n, 2))
        v = b.or_(b.and_(even, b.bits(15, even.type)), b.shl(odd, 4))
    else:
        low_half, high_half = b.and_(v, b.bits(15, v.type)), b.lshr(v, 4)
        v = b.shuffle(low_half, high_half, [i // 2 + n * (i % 2) for i in range(2 * n)])
    low.set(result, v)
