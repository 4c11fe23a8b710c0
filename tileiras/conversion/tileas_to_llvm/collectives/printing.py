"""print: one thread of the block prints, by `vprintf`; tiles as nested brackets of elements in the format given.

    print "x = %5.2f", %x : tile<2x2xf32>      ->      x = [[ 1.00,  2.00], [ 3.00,  4.00]]

A tile's elements reach the printing thread, which loops over them, in row-major order through shared memory: in a buffer
each where all tiles of a print fit (`provide-scratch`), else one after the other, as many elements at a time as fit. Values are
promoted as C's varargs are: floats to double, integers to the width that the conversion's length modifier names.
Prints of different blocks don't interleave: one of a few scalars is one call, one with tiles or with more than a call takes holds a
lock in global memory, as the original's do (without, an H100 prints "tile[0tile[1]:]:[[08, , 19, ").
"""
from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from xdsl.dialects.builtin import Float64Type, IntegerType, StringAttr, TensorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tileiras.conversion.tileas_to_llvm.builder import I1, I32, I64, width_of
from tileiras.conversion.tileas_to_llvm.effects import string_pointer
from tileiras.conversion.tileas_to_llvm.elementwise.casts import convert_float
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, lowers, storage_type
from tileiras.conversion.tileas_to_llvm.shared import accesses
from tileiras.dialects import llvm
from tileiras.dialects.element import element_bytes
from tileiras.dialects.llvm import PtrType
from tileiras.dialects.nv_tileas import BufferType, scratch_of

LOCK = """{
 .reg .pred taken;
 .reg .b32 was;
TAKE:
 atom.global.acquire.gpu.exch.b32 was, [$0], 1;
 setp.ne.b32 taken, was, 0;
 @taken nanosleep.u32 200;
 @taken bra TAKE;
}"""
UNLOCK = "st.release.gpu.global.b32 [$0], 0;"
LOCK_BYTES = 4
MOST_OF_A_CALL = 32
"""Arguments that `vprintf` takes beside the format; conversions of others it prints as they are (CUDA's programming guide)."""
CONVERSION = re.compile(r"%(?:%|[-+ #0]*\d*(?:\.\d*)?(hh|h|ll|l|j|z|t|L)?([diouxXcsfFeEgGaAp]))")


def _arguments(op: Operation) -> list[SSAValue]:
    """What is printed: scalars, and tiles as buffers, or as tensors that fill the scratch in turn."""
    args: tuple[SSAValue, ...] = op.args  # type: ignore[attr-defined]
    return list(args[:-1] if "in_turn" in op.properties else args)


def pieces(text: str) -> list[tuple[str, re.Match[str] | None]]:
    """The format cut at its conversions: (literal text before, conversion), the last with None."""
    out: list[tuple[str, re.Match[str] | None]] = []
    literal, at = "", 0
    for match in CONVERSION.finditer(text):
        literal += text[at:match.start()]
        at = match.end()
        if match.group() == "%%":
            literal += "%%"
            continue
        out.append((literal, match))
        literal = ""
    out.append((literal + text[at:], None))
    return out


def _pieces_with_values(op: Operation) -> Iterator[tuple[str, re.Match[str] | None, SSAValue | None]]:
    """The pieces of a print's format, each with what its conversion prints."""
    remaining = iter(_arguments(op))
    for literal, conversion in pieces(op.properties["format"].data):  # type: ignore[attr-defined]
        yield literal, conversion, next(remaining, None) if conversion is not None else None


def _promoted(low: Lowering, x: SSAValue, element: Attribute, conversion: re.Match[str]) -> SSAValue:
    """A value as `vprintf` takes it for this conversion."""
    b = low.b
    if not isinstance(element, IntegerType):
        if width_of(x.type) == 64 and not isinstance(element, Float64Type):
            return b.cast("ptrtoint", x, I64)
        return convert_float(low, x, element, Float64Type())
    wide = conversion.group(1) in ("ll", "l", "j", "z", "t")
    to = I64 if wide else I32
    if width_of(x.type) >= width_of(to):
        return b.cast("trunc", x, to) if width_of(x.type) > width_of(to) else x
    unsigned = conversion.group(2) in "ouxXp" or x.type == I1
    return b.cast("zext" if unsigned else "sext", x, to)


def _say(low: Lowering, text: str, *args: SSAValue) -> None:
    if text:
        low.b.call("vprintf", I32, [string_pointer(low, text), *args])


@lowers("nv_tileas.print")
def lower_print(low: Lowering, op: Operation) -> None:
    together = "in_turn" not in op.properties
    args = _arguments(op)
    if len(args) <= MOST_OF_A_CALL and not any(isinstance(v.type, TensorType | BufferType) for v in args):
        _print_scalars(low, op)
        return
    go_on = _first_thread(low)
    lock = low.b.address_of(_lock(low), llvm.GLOBAL)
    low.b.asm(LOCK, "l,~{memory}", [], [lock])
    if not together:
        _all_threads(low, go_on)
    for literal, conversion, v in _pieces_with_values(op):
        tile = v is not None and isinstance(v.type, TensorType | BufferType)
        inside = go_on if together else _first_thread(low)
        if conversion is None or v is None or tile:
            _say(low, literal)
        else:
            _say(low, literal + conversion.group(), _promoted(low, low.scalar(v), low.element(v), conversion))
        if tile and together:
            assert v is not None and conversion is not None
            t: Any = v.type
            shape = t.layout.data.shape
            _print_elements(low, low.scalar(v), t.element_type, shape, conversion, low.b.i32(0), prod(shape))
        if not together:
            _all_threads(low, inside)
            if tile:
                assert v is not None and conversion is not None
                _print_in_rounds(low, v, scratch_of(op)[0], conversion)
    if not together:
        go_on = _first_thread(low)
    low.b.asm(UNLOCK, "l,~{memory}", [], [lock])
    _all_threads(low, go_on)


def _print_scalars(low: Lowering, op: Operation) -> None:
    """A print of a few scalars: one call."""
    go_on = _first_thread(low)
    text, values = "", []
    for literal, conversion, v in _pieces_with_values(op):
        text += literal
        if conversion is not None and v is not None:
            text += conversion.group()
            values.append(_promoted(low, low.scalar(v), low.element(v), conversion))
    _say(low, text, *values)
    _all_threads(low, go_on)


def _lock(low: Lowering) -> str:
    """The name of the kernel's lock."""
    symbol = f"__tile_print_lock_{low.kernel}"
    if not any(g.properties["sym_name"] == StringAttr(symbol) for g in low.extra_globals):
        low.add_global(symbol, bytes(LOCK_BYTES), LOCK_BYTES)
    return symbol


def _first_thread(low: Lowering) -> Block:
    """Go on in the printing thread only; the block to give to `_all_threads`."""
    speak, done = low.b.new_block(), low.b.new_block()
    low.b.cond_br(low.first_thread(), speak, done)
    low.b.at(speak)
    return done


def _all_threads(low: Lowering, done: Block) -> None:
    low.b.br(done)
    low.b.at(done)


def _print_in_rounds(low: Lowering, v: SSAValue, scratch: SSAValue, conversion: re.Match[str]) -> None:
    """A tile larger than the scratch: its elements in order, a scratch full at a time."""
    b = low.b
    total = low.layout(v).size
    granted: Any = scratch.type
    count = min(granted.layout.data.extent // element_bytes(low.element(v)), total)
    base = low.scalar(scratch)
    head, out = b.new_block([I32]), b.new_block()
    b.br(head, [b.i32(0)])
    b.at(head)
    low.enter()
    first = head.args[0]
    low.barrier()
    _stage(low, base, v, first, count)
    low.barrier()
    done = _first_thread(low)
    _print_elements(low, base, low.element(v), low.layout(v).shape, conversion, first, count)
    _all_threads(low, done)
    low.leave()
    following = b.add(first, b.i32(count))
    b.cond_br(b.icmp("ult", following, b.i32(total)), head, out, [following])
    b.at(out)


def _stage(low: Lowering, base: SSAValue, v: SSAValue, first: SSAValue, count: int) -> None:
    """Write those of a tile's elements to the scratch, in row-major order, that are among the `count` from `first` on; count
    is a power of two and first a multiple of it."""
    b = low.b
    layout = low.layout(v)
    size = element_bytes(low.element(v))
    flat = low.flat_index(layout)
    for index, x in zip(layout.reg_indices, low.regs(v)):
        if x.type == I1:
            x = b.cast("zext", x, storage_type(IntegerType(8)))
        where = b.xor(flat, b.i32(index))
        inside = b.icmp("eq", b.and_(where, b.i32(-count)), first)
        x = b.cast("ptrtoint", x, I64) if isinstance(x.type, PtrType) else x
        accesses.store_if(low, inside, x, b.gep(base, b.mul(b.and_(where, b.i32(count - 1)), b.i32(size))))


def _print_elements(low: Lowering, base: SSAValue, element: Attribute, shape: Sequence[int], conversion: re.Match[str],
                    first: SSAValue, count: int) -> None:
    """A loop over the `count` elements from `first` on, which lie in the buffer from `base` on: brackets open and close where
    an index passes a row's start or end."""
    b = low.b
    size, total = element_bytes(element), prod(shape)
    spans = []
    span = total
    for extent in shape:
        spans.append(span)
        span //= extent
    head = b.new_block([I32])
    b.br(head, [first])
    b.at(head)
    i = head.args[0]
    for span in spans:
        _when(low, b.icmp("eq", b.and_(i, b.i32(span - 1)), b.i32(0)), "[")
    t = storage_type(IntegerType(8)) if element == I1 else storage_type(element)
    x = b.load(t, b.gep(base, b.mul(b.and_(i, b.i32(count - 1)), b.i32(size))), size)
    if element == I1:
        x = b.cast("trunc", x, I1)
    _say(low, conversion.group(), _promoted(low, x, element, conversion))
    following = b.add(i, b.i32(1))
    for span in reversed(spans):
        _when(low, b.icmp("eq", b.and_(following, b.i32(span - 1)), b.i32(0)), "]")
    _when(low, b.icmp("ult", following, b.i32(total)), ", ")
    out = b.new_block()
    b.cond_br(b.icmp("ult", following, b.add(first, b.i32(count))), head, out, [following])
    b.at(out)


def _when(low: Lowering, condition: SSAValue, text: str) -> None:
    """Print a text if the condition holds."""
    b = low.b
    yes, on = b.new_block(), b.new_block()
    b.cond_br(condition, yes, on)
    b.at(yes)
    _say(low, text)
    b.br(on)
    b.at(on)
