"""print: one thread of the block prints, by `vprintf`; tiles as nested brackets of elements in the format given.

    print "x = %5.2f", %x : tile<2x2xf32>      ->      x = [[ 1.00,  2.00], [ 3.00,  4.00]]

A tile's elements go through shared memory, in row-major order, to the printing thread, which loops over them. Values
are promoted as C's varargs are: floats to double, integers to the width that the conversion's length modifier names.
Output of different blocks may interleave.
"""
from __future__ import annotations

import re
from typing import Any

from xdsl.dialects.builtin import Float64Type, IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.conversion.tileas_to_llvm.builder import I1, I32, I64, width_of
from tileiras.conversion.tileas_to_llvm.casts import convert_float
from tileiras.conversion.tileas_to_llvm.core import Lowering, lowers, storage_type
from tileiras.conversion.tileas_to_llvm.effects import string_pointer
from tileiras.conversion.tileas_to_llvm.shared_memory import scratch
from tileiras.dialects.element import element_bytes
from tileiras.dialects.nv_tileaa import MemTokenType

CONVERSION = re.compile(r"%(?:%|[-+ #0]*\d*(?:\.\d*)?(hh|h|ll|l|j|z|t|L)?([diouxXcsfFeEgGaAp]))")


def _arguments(op: Operation) -> list[SSAValue]:
    return [v for v in op.operands if not isinstance(v.type, MemTokenType)]


def _slot(v: SSAValue) -> int:
    """Bytes that a tile takes in the scratch, a multiple of 16."""
    t: Any = v.type
    if not hasattr(t, "encoding"):
        return 0
    return -(-element_bytes(t.element_type) * t.encoding.data.size // 16) * 16


@scratch("nv_tileas.print")
def print_bytes(op: Operation, target: Any) -> int:
    """All tiles of one print side by side."""
    return sum(_slot(v) for v in _arguments(op))


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
    b = low.b
    arguments = _arguments(op)
    offsets: dict[SSAValue, int] = {}
    used = 0
    for v in arguments:
        if low.is_tensor(v) and v not in offsets:
            offsets[v] = used
            used += _slot(v)
    if used:
        low.before_shared_write()
        for v, offset in offsets.items():
            _stage(low, op, v, offset)
        low.before_shared_read()
    speak, done = b.new_block(), b.new_block()
    b.cond_br(b.icmp("eq", low.tid, b.i32(0)), speak, done)
    b.at(speak)
    remaining = iter(arguments)
    for literal, conversion in pieces(op.properties["format"].data):  # type: ignore[attr-defined]
        v = next(remaining, None) if conversion is not None else None
        if conversion is None or v is None:
            _say(low, literal)
        elif low.is_tensor(v):
            _say(low, literal)
            _print_tile(low, op, v, offsets[v], conversion)
        else:
            x = low.scalar(v)
            _say(low, literal + conversion.group(), _promoted(low, x, low.element(v), conversion))
    b.br(done)
    b.at(done)


def _stage(low: Lowering, op: Operation, v: SSAValue, offset: int) -> None:
    """Write a tile's elements to the scratch in row-major order (copies write the same value)."""
    b = low.b
    layout = low.layout(v)
    size = element_bytes(low.element(v))
    base, flat = low.shared_ptr(op, offset), low.flat_index(layout)
    for index, x in zip(layout.reg_indices, low.regs(v)):
        if x.type == I1:
            x = b.cast("zext", x, storage_type(IntegerType(8)))
        b.store(x, b.gep(base, b.mul(b.xor(flat, b.i32(index)), b.i32(size))), size)


def _print_tile(low: Lowering, op: Operation, v: SSAValue, offset: int, conversion: re.Match[str]) -> None:
    """A loop over the elements: brackets open and close where an index passes a row's start or end."""
    b = low.b
    layout = low.layout(v)
    element = low.element(v)
    size, total = element_bytes(element), layout.size
    spans = []
    span = total
    for extent in layout.shape:
        spans.append(span)
        span //= extent
    head = b.new_block([I32])
    b.br(head, [b.i32(0)])
    b.at(head)
    i = head.args[0]
    for span in spans:
        _when(low, b.icmp("eq", b.and_(i, b.i32(span - 1)), b.i32(0)), "[")
    t = storage_type(IntegerType(8)) if element == I1 else storage_type(element)
    x = b.load(t, b.gep(low.shared_ptr(op, offset), b.mul(i, b.i32(size))), size)
    if element == I1:
        x = b.cast("trunc", x, I1)
    _say(low, conversion.group(), _promoted(low, x, element, conversion))
    following = b.add(i, b.i32(1))
    for span in reversed(spans):
        _when(low, b.icmp("eq", b.and_(following, b.i32(span - 1)), b.i32(0)), "]")
    more = b.icmp("ult", following, b.i32(total))
    _when(low, more, ", ")
    out = b.new_block()
    b.cond_br(more, head, out, [following])
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
