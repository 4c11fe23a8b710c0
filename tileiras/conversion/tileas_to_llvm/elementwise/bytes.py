"""Bytes four at a time: integers of 8 bits to f16, bf16 and f32 without the unit for conversions, and shifts of words; words that
are known to hold small numbers to f16.

A byte below the exponent of a power of two is that power plus the byte. `prmt` puts it there, a subtraction takes the power away;
both are exact, and of f16 go in pairs:

    prmt   %w, 0x64646464, 0x4140      two of the word's bytes, each below 0x64: 1024 + x in f16
    sub.f16x2  ..., 1024               (signed bytes with their sign turned: 1152)

f16 has 10 bits for that, f32 (0x4B000000: 2^23) enough, of which bf16 is the upper half where nothing is in the lower. `cvt` takes
four cycles a warp where these take one or two, and the byte has to be taken out of its word before.
"""
from __future__ import annotations

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, SSAValue

from tileiras.conversion.tileas_to_llvm.builder import BF16, F16, F32, I32, Builder, width_of
from tileiras.conversion.tileas_to_llvm.elementwise.common import like
from tileiras.dialects.llvm import vec

BYTE, IN_WORD = 8, 4
EVERY = 0x01010101
SIGN = 0x80
HALF_EXPONENT, HALF_POWER = 0x64646464, 1024
HALF_PAIRS = (0x4140, 0x4342)
"""prmt's selectors: bytes 0 and 1, and 2 and 3, each below a byte of the second operand."""
SINGLE_EXPONENT, SINGLE_POWER = 0x4B000000, 1 << 23
SINGLE_FIRST = 0x7440
"""prmt's selector for byte 0 as the lowest of the second operand's."""
UPPER_HALVES, LOWER_HALVES = 0x7632, 0x5410


def in_words(t: Attribute) -> bool:
    """Whether a type is of bytes that fill words."""
    return isinstance(t, VectorType) and width_of(t) == BYTE and t.get_shape()[0] % IN_WORD == 0


def bytes_to_floats(b: Builder, x: SSAValue, signed: bool, to: Attribute) -> SSAValue:
    """A vector of whole words of bytes as f16, bf16 or f32."""
    words = b.unpack(b.cast("bitcast", x, vec(_count(x) // IN_WORD, I32)))
    if signed:
        words = [b.xor(w, b.i32(SIGN * EVERY)) for w in words]
    more = SIGN if signed else 0
    if to == F16:
        pairs = [b.nvvm("prmt", [w, b.i32(HALF_EXPONENT), b.i32(s)])[0] for w in words for s in HALF_PAIRS]
        halves = b.cast("bitcast", b.pack(pairs), like(x, F16))
        return b.binary("fsub", halves, b.const(float(HALF_POWER + more), halves.type))
    singles = [b.nvvm("prmt", [w, b.i32(SINGLE_EXPONENT), b.i32(SINGLE_FIRST + i)])[0] for w in words for i in range(IN_WORD)]
    power = b.const(float(SINGLE_POWER + more), F32)
    floats = [b.binary("fsub", b.cast("bitcast", w, F32), power) for w in singles]
    if to == F32:
        return b.pack(floats)
    exact = [b.cast("bitcast", x, I32) for x in floats]
    pairs = [b.nvvm("prmt", [low, high, b.i32(UPPER_HALVES)])[0] for low, high in zip(exact[::2], exact[1::2])]
    return b.cast("bitcast", b.pack(pairs), like(x, BF16))


def words_to_halves(b: Builder, x: SSAValue, least: int) -> SSAValue:
    """A vector of an even number of words as f16, of which none is below `least`, nor 1024 or more above it: in pairs, too. What is
    added to them an AND in front often takes along."""
    words = b.unpack(b.add(x, b.bits((HALF_EXPONENT & 0xFF00) - least, x.type)))
    pairs = [b.nvvm("prmt", [first, second, b.i32(LOWER_HALVES)])[0] for first, second in zip(words[::2], words[1::2])]
    halves = b.cast("bitcast", b.pack(pairs), like(x, F16))
    return b.binary("fsub", halves, b.const(float(HALF_POWER - least), halves.type))


def shifted(b: Builder, mnemonic: str, x: SSAValue, count: int) -> SSAValue:
    """A vector of whole words of bytes, each shifted by so many bits, fewer than it has: `shl` or `lshr`."""
    words = b.cast("bitcast", x, vec(_count(x) // IN_WORD, I32))
    kept = (0xFF << count) & 0xFF if mnemonic == "shl" else 0xFF >> count
    moved = b.binary(mnemonic, words, b.bits(count, words.type))
    return b.cast("bitcast", b.and_(moved, b.bits(kept * EVERY, words.type)), x.type)


def _count(x: SSAValue) -> int:
    t = x.type
    assert isinstance(t, VectorType)
    return t.get_shape()[0]
