"""Integer arithmetic: add to remainder, wide products, carry chains, dot products."""
from __future__ import annotations

import numpy as np

from tileiras.sim.core.decode import apply, operation
from tileiras.sim.errors import InvalidInstruction
from tileiras.sim.ptx import module as ptx
from tileiras.sim.ptx.types import BITS, FLOAT, SIGNED, STORAGE, VALUE
from tileiras.sim.scalar import floating, packed

PACKED_INTEGERS = ("u16x2", "s16x2")


def _dispatch(name: str, integer):
    """An operation that floats and integers share; the type decides."""
    def decode(decoder, ins):
        type_ = ins.parts[-1]
        if type_ in FLOAT:
            return floating.decode(decoder, ins, name, type_)
        if type_ in PACKED_INTEGERS:
            return packed.integers(decoder, ins, name, type_)
        if type_ not in VALUE or type_ == "pred":
            raise InvalidInstruction(f"{ins.opcode}: no such type")
        return integer(decoder, ins, type_)
    operation(name)(decode)


def saturating(f, type_: str):
    """`f` of the operands in 64 bits, clamped to the type."""
    info = np.iinfo(VALUE[type_])
    return lambda a, b: np.clip(f(a.astype(np.int64), b.astype(np.int64)), info.min, info.max).astype(VALUE[type_])


def _add(decoder, ins, type_):
    if "cc" in ins.parts:
        return _carry(decoder, ins, type_, False, True)
    f = saturating(np.add, type_) if "sat" in ins.parts else np.add
    return decoder.simple(ins, [type_, type_], type_, f)


def _sub(decoder, ins, type_):
    if "cc" in ins.parts:
        return _borrow(decoder, ins, type_, False, True)
    f = saturating(np.subtract, type_) if "sat" in ins.parts else np.subtract
    return decoder.simple(ins, [type_, type_], type_, f)


def mulhi(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The upper half of the product, in the operands' type."""
    bits = a.dtype.itemsize * 8
    if bits < 64:
        wide = np.int64 if a.dtype.kind == "i" else np.uint64
        return (a.astype(wide) * b.astype(wide) >> wide(bits)).astype(a.dtype)
    x, y = a.view(np.uint64), b.view(np.uint64)
    low, s = np.uint64(0xFFFFFFFF), np.uint64(32)
    x0, x1, y0, y1 = x & low, x >> s, y & low, y >> s
    t = x1 * y0 + (x0 * y0 >> s)
    u = x0 * y1 + (t & low)
    high = x1 * y1 + (t >> s) + (u >> s)
    if a.dtype.kind == "i":
        high = high - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
        return high.view(np.int64)
    return high


def _widened(type_: str) -> str:
    return f"{type_[0]}{2 * BITS[type_]}"


def _mul(decoder, ins, type_):
    if "wide" in ins.parts:
        wide = _widened(type_)
        dtype = VALUE[wide]
        return decoder.simple(ins, [type_, type_], wide, lambda a, b: a.astype(dtype) * b.astype(dtype))
    if "hi" in ins.parts:
        return decoder.simple(ins, [type_, type_], type_, mulhi)
    return decoder.simple(ins, [type_, type_], type_, np.multiply)


def _mad(decoder, ins, type_):
    if "cc" in ins.parts:
        return _mad_carry(decoder, ins, type_, False)
    if "wide" in ins.parts:
        wide = _widened(type_)
        dtype = VALUE[wide]
        return decoder.simple(ins, [type_, type_, wide], wide, lambda a, b, c: a.astype(dtype) * b.astype(dtype) + c)
    if "hi" in ins.parts:
        f = saturating(np.add, type_) if "sat" in ins.parts else np.add
        return decoder.simple(ins, [type_, type_, type_], type_, lambda a, b, c: f(mulhi(a, b), c))
    return decoder.simple(ins, [type_, type_, type_], type_, lambda a, b, c: a * b + c)


def quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Truncated division; by zero all ones, as the hardware's routine gives."""
    if a.dtype.kind == "u":
        q = a // np.where(b == 0, a.dtype.type(1), b)
        return np.where(b == 0, a.dtype.type(np.iinfo(a.dtype).max), q)
    u = np.dtype(f"u{a.dtype.itemsize}")
    x, y = np.abs(a).view(u), np.abs(b).view(u)
    q = (x // np.where(y == 0, u.type(1), y)).view(a.dtype)
    q = np.where((a < 0) != (b < 0), -q, q)
    return np.where(b == 0, a.dtype.type(-1), q)


def remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The remainder of truncated division; of division by zero the dividend."""
    return np.where(b == 0, a, a - quotient(a, b) * b)


def _binary(f):
    return lambda decoder, ins, type_: decoder.simple(ins, [type_, type_], type_, f)


def _unary(f):
    return lambda decoder, ins, type_: decoder.simple(ins, [type_], type_, f)


def _extreme(f):
    def decode(decoder, ins, type_):
        n = len(ins.operands) - 1
        if n not in (2, 3):
            raise InvalidInstruction(f"{ins.opcode} with {n} source operands")
        relu = "relu" in ins.parts
        zero = VALUE[type_](0)

        def g(*values):
            r = values[0]
            for v in values[1:]:
                r = f(r, v)
            return np.maximum(r, zero) if relu else r
        return decoder.simple(ins, [type_] * n, type_, g)
    return decode


_dispatch("add", _add)
_dispatch("sub", _sub)
_dispatch("mul", _mul)
_dispatch("mad", _mad)
_dispatch("div", _binary(quotient))
_dispatch("rem", _binary(remainder))
_dispatch("min", _extreme(np.minimum))
_dispatch("max", _extreme(np.maximum))
_dispatch("abs", _unary(np.abs))
_dispatch("neg", _unary(np.negative))


# ---- carry chains: the condition code is a hidden register

def _cc(decoder):
    if not hasattr(decoder, "cc_slot"):
        decoder.cc_slot = decoder.new_slot("u32", "CC.CF")
        decoder.cc_register = ptx.Register("CC.CF")
    decoder.instance.slots.setdefault("CC.CF", decoder.cc_slot)
    return decoder.cc_register


def _carry(decoder, ins, type_, take: bool, give: bool):
    unsigned = f"u{BITS[type_]}"
    dtype = VALUE[unsigned]
    gets = [decoder.source(o, unsigned) for o in ins.operands[1:]]
    put = decoder.target(ins.operands[0], unsigned)
    cc = _cc(decoder)
    old, new = decoder.source(cc, "u32"), decoder.target(cc, "u32")
    x, y = gets

    def run(st):
        a, b = x(st), y(st)
        s = a + b
        over = s < a
        if take:
            t = s + old(st).astype(dtype)
            over = over | (t < s)
            s = t
        if give:
            new(st, over.astype(np.uint32))
        put(st, s)
    return run


def _borrow(decoder, ins, type_, take: bool, give: bool):
    unsigned = f"u{BITS[type_]}"
    dtype = VALUE[unsigned]
    gets = [decoder.source(o, unsigned) for o in ins.operands[1:]]
    put = decoder.target(ins.operands[0], unsigned)
    cc = _cc(decoder)
    old, new = decoder.source(cc, "u32"), decoder.target(cc, "u32")
    x, y = gets

    def run(st):
        a, b = x(st), y(st)
        s = a - b
        under = a < b
        if take:
            c = old(st).astype(dtype)
            under = under | (s < c)
            s = s - c
        if give:
            new(st, under.astype(np.uint32))
        put(st, s)
    return run


@operation("addc")
def _addc(decoder, ins):
    return _carry(decoder, ins, ins.parts[-1], True, "cc" in ins.parts)


@operation("subc")
def _subc(decoder, ins):
    return _borrow(decoder, ins, ins.parts[-1], True, "cc" in ins.parts)


@operation("madc")
def _madc(decoder, ins):
    return _mad_carry(decoder, ins, ins.parts[-1], True)


def _mad_carry(decoder, ins, type_, take: bool):
    dtype = VALUE[type_]
    unsigned = STORAGE[type_]
    x, y, z = (decoder.source(o, type_) for o in ins.operands[1:])
    put = decoder.target(ins.operands[0], type_)
    cc = _cc(decoder)
    old, new = decoder.source(cc, "u32"), decoder.target(cc, "u32")
    give, high = "cc" in ins.parts, "hi" in ins.parts

    def run(st):
        a, b = x(st), y(st)
        p = (mulhi(a, b) if high else a * b).view(unsigned)
        s = p + z(st).view(unsigned)
        over = s < p
        if take:
            t = s + old(st).astype(unsigned)
            over = over | (t < s)
            s = t
        if give:
            new(st, over.astype(np.uint32))
        put(st, s.view(dtype))
    return run


# ---- 24-bit products, sums of differences, dot products

def _low24(a: np.ndarray) -> np.ndarray:
    if a.dtype.kind == "i":
        return (a << np.int32(8) >> np.int32(8)).astype(np.int64)
    return (a & np.uint32(0xFFFFFF)).astype(np.uint64)


def _product24(a, b, high: bool):
    p = _low24(a) * _low24(b)
    return (p >> p.dtype.type(16 if high else 0)).astype(a.dtype)


@operation("mul24")
def _mul24(decoder, ins):
    high = "hi" in ins.parts
    t = ins.parts[-1]
    return decoder.simple(ins, [t, t], t, lambda a, b: _product24(a, b, high))


@operation("mad24")
def _mad24(decoder, ins):
    high = "hi" in ins.parts
    t = ins.parts[-1]
    f = saturating(np.add, t) if "sat" in ins.parts else np.add
    return decoder.simple(ins, [t, t, t], t, lambda a, b, c: f(_product24(a, b, high), c))


@operation("sad")
def _sad(decoder, ins):
    t = ins.parts[-1]
    return decoder.simple(ins, [t, t, t], t, lambda a, b, c: c + np.where(a < b, b - a, a - b))


def _bytes(a: np.ndarray, signed: bool) -> np.ndarray:
    parts = np.stack([(a >> np.uint32(8 * i)).astype(np.uint8) for i in range(4)], axis=-1)
    return (parts.view(np.int8) if signed else parts).astype(np.int64)


@operation("dp4a")
def _dp4a(decoder, ins):
    ta, tb = ins.parts[-2:]
    signed = ta in SIGNED or tb in SIGNED
    tc = "s32" if signed else "u32"
    dtype = VALUE[tc]
    gets = [decoder.source(ins.operands[1], "u32"), decoder.source(ins.operands[2], "u32"),
            decoder.source(ins.operands[3], tc)]

    def f(a, b, c):
        return ((_bytes(a, ta in SIGNED) * _bytes(b, tb in SIGNED)).sum(axis=-1) + c).astype(dtype)
    return apply(f, gets, decoder.target(ins.operands[0], tc))


@operation("dp2a")
def _dp2a(decoder, ins):
    ta, tb = ins.parts[-2:]
    signed = ta in SIGNED or tb in SIGNED
    tc = "s32" if signed else "u32"
    dtype = VALUE[tc]
    start = 2 if "hi" in ins.parts else 0
    gets = [decoder.source(ins.operands[1], "u32"), decoder.source(ins.operands[2], "u32"),
            decoder.source(ins.operands[3], tc)]

    def f(a, b, c):
        halves = np.stack([a.astype(np.uint16), (a >> np.uint32(16)).astype(np.uint16)], axis=-1)
        halves = (halves.view(np.int16) if ta in SIGNED else halves).astype(np.int64)
        return ((halves * _bytes(b, tb in SIGNED)[..., start:start + 2]).sum(axis=-1) + c).astype(dtype)
    return apply(f, gets, decoder.target(ins.operands[0], tc))
