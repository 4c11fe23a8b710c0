"""Vectors of registers in the forms that shuffles and memory take.

An i1 is a byte there, a pointer a 64-bit integer; shuffles move 32-bit words, into which narrower elements are packed
two or four at a time.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, SSAValue

from tileiras.conversion.tileas_to_llvm.builder import I1, I8, I32, I64, Builder, element_type, width_of
from tileiras.conversion.tileas_to_llvm.lowering import Lowering
from tileiras.dialects.llvm import PtrType, integer, vec

FULL_MASK = 0xFFFFFFFF


def plain_type(t: Attribute) -> Attribute:
    """The type that elements of storage type `t` have in memory and shuffles: i1 takes a byte, pointers are 64-bit integers."""
    if t == I1:
        return I8
    return I64 if isinstance(t, PtrType) else t


def to_plain(b: Builder, v: SSAValue) -> SSAValue:
    """A vector (or scalar) of storage type as one of its plain type."""
    t = element_type(v.type)
    if t == I1:
        return b.cast("zext", v, I8)
    return b.cast("ptrtoint", v, I64) if isinstance(t, PtrType) else v


def from_plain(b: Builder, v: SSAValue, t: Attribute) -> SSAValue:
    """The inverse of `to_plain` for storage type `t`."""
    if t == I1:
        return b.cast("trunc", v, I1)
    return b.cast("inttoptr", v, t) if isinstance(t, PtrType) else v


def length(v: SSAValue) -> int:
    """Elements of a vector value."""
    assert isinstance(v.type, VectorType)
    return v.type.get_shape()[0]


def gather(b: Builder, v: SSAValue, registers: Sequence[int]) -> SSAValue:
    """The vector of those elements of `v`."""
    return b.shuffle(v, None, list(registers))


def to_words(b: Builder, v: SSAValue) -> list[SSAValue]:
    """A vector of a plain type as 32-bit words; fewer than 32 bits in all are extended."""
    n, width = length(v), width_of(v.type)
    bits = n * width
    if bits < 32:
        return [b.cast("zext", b.cast("bitcast", v, integer(bits)), I32)]
    if bits == 32:
        return [b.cast("bitcast", v, I32)]
    return b.unpack(b.cast("bitcast", v, vec(bits // 32, I32)))


def from_words(b: Builder, words: Sequence[SSAValue], t: VectorType) -> SSAValue:
    """The inverse of `to_words` for the vector type `t`."""
    bits = t.get_shape()[0] * width_of(t)
    if bits < 32:
        return b.cast("bitcast", b.cast("trunc", words[0], integer(bits)), t)
    if bits == 32:
        return b.cast("bitcast", words[0], t)
    return b.cast("bitcast", b.pack(words), t)


def shuffle_lanes(low: Lowering, v: SSAValue, lane: int | SSAValue) -> SSAValue:
    """Each lane's copy of vector `v` (plain type) from lane (own XOR `lane`), or from lane `lane` if it is a value."""
    b = low.b
    assert isinstance(v.type, VectorType)
    if isinstance(lane, int):
        if lane == 0:
            return v
        mode, operand = "bfly", b.i32(lane)
    else:
        mode, operand = "idx", lane
    args = [b.bits(FULL_MASK, I32)]
    words = [b.nvvm(f"shfl.sync.{mode}.i32", [*args, w, operand, b.i32(31)])[0] for w in to_words(b, v)]
    return from_words(b, words, v.type)


def lanes_before(low: Lowering, v: SSAValue, distance: int) -> SSAValue:
    """Each lane's copy of vector `v` (plain type) from the lane `distance` before it, behind it where that is negative; lanes that
    have none there get their own."""
    b = low.b
    mode, end = ("up", 0) if distance > 0 else ("down", 31)
    args = [b.bits(FULL_MASK, I32)]
    words = [b.nvvm(f"shfl.sync.{mode}.i32", [*args, w, b.i32(abs(distance)), b.i32(end)])[0] for w in to_words(b, v)]
    t: Any = v.type
    return from_words(b, words, t)


def rename(low: Lowering, v: SSAValue, result: SSAValue, mapping: Sequence[int]) -> None:
    """Set `result` to `v` with register r = source register mapping[r], in the form that `v` has."""
    if low.has_list(v):
        regs = low.regs(v)
        low.set(result, [regs[m] for m in mapping])
    else:
        low.set(result, gather(low.b, low.vec(v), mapping))
