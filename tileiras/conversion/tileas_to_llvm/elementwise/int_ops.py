"""Lower integer arithmetic, comparison and selection.

Where LLVM leaves a result undefined that the GPU defines harmlessly, it is defined here: a shift by the width or more
gives what PTX gives (zero, or the sign), and a division by zero gives some number. The language leaves both undefined,
but a tile's lanes outside an array may hold anything, and LLVM would be free to drop the code around them.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import TensorType, VectorType
from xdsl.ir import Operation, SSAValue

from tileiras.conversion.tileas_to_llvm.builder import width_of
from tileiras.conversion.tileas_to_llvm.elementwise.common import like, overloaded, suffix, text, whole
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, lowers
from tileiras.dialects.llvm import integer

WIDE = 64
_FLAGS = {"nsw": "nsw", "nuw": "nuw", "nsw_nuw": "nuw nsw"}
_BINARY = {"arith.addi": "add", "arith.subi": "sub", "arith.muli": "mul", "arith.andi": "and", "arith.ori": "or",
           "arith.xori": "xor"}
_MINMAX = {"arith.maxsi": "llvm.smax", "arith.maxui": "llvm.umax", "arith.minsi": "llvm.smin",
           "arith.minui": "llvm.umin"}


@whole(*_BINARY)
def binary(low: Lowering, op: Any, x: SSAValue, y: SSAValue) -> SSAValue:
    mnemonic, flags = _BINARY[op.name], _FLAGS.get(text(op, "overflow"), "")
    if op.name == "arith.muli" and isinstance(x.type, VectorType) and _is_wide_product(op):
        xs, ys = low.b.unpack(x), low.b.unpack(y)
        return low.b.pack([low.b.binary(mnemonic, v, w, flags) for v, w in zip(xs, ys)])
    return low.b.binary(mnemonic, x, y, flags)


def _is_wide_product(op: Any) -> bool:
    """Whether a tile of 64-bit products is one of 32-bit numbers. Of single numbers LLVM makes `mul.wide`; of vectors, whose upper
    and lower halves are taken, a product for each half."""
    return _bits(op.results[0]) == WIDE and any(
        v.owner.name in ("arith.extui", "arith.extsi") and _bits(v.owner.operands[0]) <= WIDE // 2
        for v in op.operands if isinstance(v.owner, Operation))


def _bits(v: SSAValue) -> int:
    """Bits of an integer, or of a tile's elements."""
    t: Any = v.type
    return (t.element_type if isinstance(t, TensorType) else t).width.data


@whole(*_MINMAX)
def minmax(low: Lowering, op: Any, x: SSAValue, y: SSAValue) -> SSAValue:
    return overloaded(low.b, _MINMAX[op.name], [x, y])


@whole("arith.negi")
def negate(low: Lowering, op: Any, x: SSAValue) -> SSAValue:
    return low.b.binary("sub", low.b.bits(0, x.type), x, _FLAGS.get(text(op, "overflow"), ""))


@whole("math.absi")
def absolute(low: Lowering, op: Any, x: SSAValue) -> SSAValue:
    return low.b.call(f"llvm.abs.{suffix(x.type)}", x.type, [x, low.b.false()])


@whole("arith.cmpi")
def compare(low: Lowering, op: Any, x: SSAValue, y: SSAValue) -> SSAValue:
    return low.b.icmp(text(op, "predicate"), x, y)


@lowers("arith.select")
def select(low: Lowering, op: Any) -> None:
    bits = low.bits.get(op.operands[0])
    if bits is not None:
        from tileiras.conversion.tileas_to_llvm.elementwise.masks import choose
        choose(low, op, bits)
        return
    c, x, y = (low.vec(v) for v in op.operands)
    low.set(op.results[0], low.b.select(c, x, y))


@whole("arith.mulhiui")
def multiply_high(low: Lowering, op: Any, x: SSAValue, y: SSAValue) -> SSAValue:
    b = low.b
    w = width_of(x.type)
    if w == 1:
        return b.bits(0, x.type)
    wide = like(x, integer(2 * w))
    product = b.binary("mul", b.cast("zext", x, wide), b.cast("zext", y, wide), "nuw")
    return b.cast("trunc", b.lshr(product, w), like(x, integer(w)))


# ---------------------------------------------------------------------------------------------------------------------
# Shifts


def _shift(low: Lowering, mnemonic: str, x: SSAValue, y: SSAValue, flags: str = "") -> SSAValue:
    b = low.b
    w = width_of(x.type)
    known = b.known(y)
    if known is not None and known < w:
        if w == 8 and mnemonic != "ashr" and known:
            from tileiras.conversion.tileas_to_llvm.elementwise.bytes import in_words, shifted
            if in_words(x.type):
                return shifted(b, mnemonic, x, known)
        return b.binary(mnemonic, x, y, flags)
    if mnemonic == "ashr":
        last = b.bits(w - 1, y.type)
        return b.binary(mnemonic, x, last if known is not None else overloaded(b, "llvm.umin", [y, last]))
    zero = b.bits(0, x.type)
    if known is not None:
        return zero
    if w == 64:     # PTX shifts by 32 bits: LLVM would drop the upper half together with the comparison
        y = overloaded(b, "llvm.umin", [y, b.bits(w, y.type)])
    inside = b.icmp("ult", y, b.bits(w, y.type)) if w > 1 else b.icmp("eq", y, zero)
    return b.select(inside, b.binary(mnemonic, x, y, flags), zero)


@whole("arith.shli")
def shift_left(low: Lowering, op: Any, x: SSAValue, y: SSAValue) -> SSAValue:
    return _shift(low, "shl", x, y, _FLAGS.get(text(op, "overflow"), ""))


@whole("arith.shrui")
def shift_right_unsigned(low: Lowering, op: Any, x: SSAValue, y: SSAValue) -> SSAValue:
    return _shift(low, "lshr", x, y)


@whole("arith.shrsi")
def shift_right_signed(low: Lowering, op: Any, x: SSAValue, y: SSAValue) -> SSAValue:
    return _shift(low, "ashr", x, y)


# ---------------------------------------------------------------------------------------------------------------------
# Division


def _divisor(low: Lowering, y: SSAValue) -> SSAValue:
    """The divisor, with 1 in place of 0."""
    b = low.b
    if b.known(y):
        return y
    one = b.bits(1, y.type)
    return b.select(b.icmp("eq", y, b.bits(0, y.type)), one, y)


def _unsigned_divisor(low: Lowering, y: SSAValue) -> SSAValue:
    b = low.b
    return y if b.known(y) else overloaded(b, "llvm.umax", [y, b.bits(1, y.type)])


def _adjust(low: Lowering, quotient: SSAValue, condition: SSAValue, mnemonic: str) -> SSAValue:
    """The quotient plus or minus one where the condition holds."""
    b = low.b
    return b.binary(mnemonic, quotient, b.cast("zext", condition, quotient.type))


@whole("arith.divui")
def divide_unsigned(low: Lowering, op: Any, x: SSAValue, y: SSAValue) -> SSAValue:
    if width_of(x.type) == 1:
        return x
    return low.b.binary("udiv", x, _unsigned_divisor(low, y))


@whole("arith.divsi")
def divide_signed(low: Lowering, op: Any, x: SSAValue, y: SSAValue) -> SSAValue:
    if width_of(x.type) == 1:
        return x
    return low.b.binary("sdiv", x, _divisor(low, y))


@whole("arith.remui")
def remainder_unsigned(low: Lowering, op: Any, x: SSAValue, y: SSAValue) -> SSAValue:
    if width_of(x.type) == 1:
        return low.b.bits(0, x.type)
    return low.b.binary("urem", x, _unsigned_divisor(low, y))


@whole("arith.remsi")
def remainder_signed(low: Lowering, op: Any, x: SSAValue, y: SSAValue) -> SSAValue:
    if width_of(x.type) == 1:
        return low.b.bits(0, x.type)
    return low.b.binary("srem", x, _divisor(low, y))


@whole("arith.ceildivui")
def divide_unsigned_up(low: Lowering, op: Any, x: SSAValue, y: SSAValue) -> SSAValue:
    b = low.b
    if width_of(x.type) == 1:
        return x
    y = _unsigned_divisor(low, y)
    quotient = b.binary("udiv", x, y)
    return _adjust(low, quotient, b.icmp("ne", b.mul(quotient, y), x), "add")


def _positive(low: Lowering, y: SSAValue) -> int:
    """The divisor where it is known and positive, else 0."""
    known = low.b.known(y) or 0
    return 0 if known >> width_of(y.type) - 1 else known


def _divide_rounded(low: Lowering, x: SSAValue, y: SSAValue, up: bool) -> SSAValue:
    """The quotient towards zero, plus or minus one where that was the other direction and there is a rest."""
    b = low.b
    if width_of(x.type) == 1:
        return x
    zero = b.bits(0, x.type)
    positive = _positive(low, y)
    y = _divisor(low, y)
    quotient = b.binary("sdiv", x, y)
    rest = b.sub(x, b.mul(quotient, y))
    if positive:
        wrong = b.icmp("sgt" if up else "slt", rest, zero)
    else:
        wrong = b.and_(b.icmp("sge" if up else "slt", b.xor(rest, y), zero), b.icmp("ne", rest, zero))
    return _adjust(low, quotient, wrong, "add" if up else "sub")


@whole("arith.floordivsi")
def divide_signed_down(low: Lowering, op: Any, x: SSAValue, y: SSAValue) -> SSAValue:
    b = low.b
    known = _positive(low, y)
    if known and known & (known - 1) == 0:
        return b.ashr(x, known.bit_length() - 1)
    return _divide_rounded(low, x, y, up=False)


@whole("arith.ceildivsi")
def divide_signed_up(low: Lowering, op: Any, x: SSAValue, y: SSAValue) -> SSAValue:
    b = low.b
    known = _positive(low, y)
    if known and known & (known - 1) == 0:
        rest = b.and_(x, b.bits(known - 1, x.type))
        return _adjust(low, b.ashr(x, known.bit_length() - 1), b.icmp("ne", rest, b.bits(0, x.type)), "add")
    return _divide_rounded(low, x, y, up=True)
