"""Logic, shifts, bit fields, permutes and counts."""
from __future__ import annotations

import numpy as np

from tileiras.sim.core.decode import apply, operation
from tileiras.sim.errors import InvalidInstruction
from tileiras.sim.ptx import module as ptx
from tileiras.sim.ptx.types import BITS, SIGNED, VALUE


def _logic(f):
    decisive = {np.bitwise_and: False, np.bitwise_or: True}.get(f)

    def decode(decoder, ins):
        t = ins.parts[-1]
        if t == "pred" and decisive is not None and decoder.launch.undefined == "propagate":
            return _decided(decoder, ins, f, decisive)
        return decoder.simple(ins, [t, t], t, f)
    return decode


def _decided(decoder, ins, f, decisive: bool):
    """and, or of predicates where one may have no value: the other decides when it is false, or true."""
    (a, slot_a), (b, slot_b) = (decoder.raw_source(o, "pred") for o in ins.operands[1:])
    put = decoder.target(ins.operands[0], "pred")
    _, out = decoder.widening(ins.operands[0], "pred")

    def missing(st, slot):
        if slot is None or st.I[slot] is True:
            return None
        return np.ones(st.size, bool) if st.I[slot] is None else ~st.I[slot]

    def run(st):
        x, y = a(st), b(st)
        lost_a, lost_b = missing(st, slot_a), missing(st, slot_b)
        if lost_a is None and lost_b is None:
            put(st, f(x, y))
            return
        wx, wy = st.spread(x), st.spread(y)
        none = np.zeros(st.size, bool)
        la, lb = none if lost_a is None else lost_a, none if lost_b is None else lost_b
        settled = (~la & (wx == decisive)) | (~lb & (wy == decisive))
        r = np.where(settled, decisive, f(wx, wy))
        put(st, r if st.index is None else r[st.index])
        if out is not None:
            st.unwrite(out, (la | lb) & ~settled & st.active)
    return run


operation("and")(_logic(np.bitwise_and))
operation("or")(_logic(np.bitwise_or))
operation("xor")(_logic(np.bitwise_xor))


@operation("not")
def _not(decoder, ins):
    t = ins.parts[-1]
    return decoder.simple(ins, [t], t, np.invert)


@operation("cnot")
def _cnot(decoder, ins):
    t = ins.parts[-1]
    return decoder.simple(ins, [t], t, lambda a: (a == 0).astype(a.dtype))


def _shift_amount(operand) -> int | None:
    """A constant shift count, or None."""
    return operand.value & 0xFFFFFFFF if isinstance(operand, ptx.Immediate) else None


@operation("shl")
def _shl(decoder, ins):
    t = "b" + ins.parts[-1][1:]
    bits, dtype = BITS[t], VALUE[t]
    constant = _shift_amount(ins.operands[2])
    if constant is not None:
        if constant >= bits:
            return decoder.simple(ins, [t, "u32"], t, lambda a, s: np.zeros_like(a))
        c = dtype(constant)
        return decoder.simple(ins, [t, "u32"], t, lambda a, s: a << c)

    def f(a, s):
        return np.where(s < bits, a << np.minimum(s, bits - 1).astype(dtype), dtype(0))
    return decoder.simple(ins, [t, "u32"], t, f)


@operation("shr")
def _shr(decoder, ins):
    t = ins.parts[-1]
    bits, dtype = BITS[t], VALUE[t]
    constant = _shift_amount(ins.operands[2])
    signed = t in SIGNED
    if constant is not None:
        if constant >= bits and not signed:
            return decoder.simple(ins, [t, "u32"], t, lambda a, s: np.zeros_like(a))
        c = dtype(min(constant, bits - 1))
        return decoder.simple(ins, [t, "u32"], t, lambda a, s: a >> c)

    def f(a, s):
        shifted = a >> np.minimum(s, bits - 1).astype(dtype)
        return shifted if signed else np.where(s < bits, shifted, dtype(0))
    return decoder.simple(ins, [t, "u32"], t, f)


@operation("shf")
def _shf(decoder, ins):
    left, wrap = "l" in ins.parts, "wrap" in ins.parts
    gets = [decoder.source(o, "u32") for o in ins.operands[1:]]

    def f(a, b, c):
        n = ((c & np.uint32(31)) if wrap else np.minimum(c, np.uint32(32))).astype(np.uint64)
        both = b.astype(np.uint64) << np.uint64(32) | a
        if left:
            out = (both << n) >> np.uint64(32)
            return np.where(n == 32, a, out.astype(np.uint32))
        return (both >> n).astype(np.uint32)
    return apply(f, gets, decoder.target(ins.operands[0], "b32"))


def count_ones(a: np.ndarray) -> np.ndarray:
    """Set bits of each element, as uint32."""
    return np.bitwise_count(a).astype(np.uint32)


def leading_zeros(a: np.ndarray) -> np.ndarray:
    """Zero bits above the highest set bit, as uint32."""
    bits = a.dtype.itemsize * 8
    a = a.copy()
    for s in (1, 2, 4, 8, 16, 32):
        if s < bits:
            a |= a >> a.dtype.type(s)
    return np.uint32(bits) - count_ones(a)


@operation("popc")
def _popc(decoder, ins):
    return decoder.simple(ins, [ins.parts[-1]], "u32", count_ones)


@operation("clz")
def _clz(decoder, ins):
    return decoder.simple(ins, [ins.parts[-1]], "u32", leading_zeros)


@operation("bfind")
def _bfind(decoder, ins):
    t = ins.parts[-1]
    bits = BITS[t]
    amount = "shiftamt" in ins.parts

    def f(a):
        u = np.where(a < 0, ~a, a) if a.dtype.kind == "i" else a
        u = u.astype(np.dtype(f"u{bits // 8}"))
        z = leading_zeros(u)
        found = z if amount else np.uint32(bits - 1) - z
        return np.where(u == 0, np.uint32(0xFFFFFFFF), found)
    return decoder.simple(ins, [t], "u32", f)


@operation("brev")
def _brev(decoder, ins):
    t = ins.parts[-1]

    def g(a):
        n = a.dtype.itemsize
        bits = np.unpackbits(np.ascontiguousarray(a).view(np.uint8).reshape(-1, n), axis=1, bitorder="little")
        return np.packbits(bits[:, ::-1], axis=1, bitorder="little").view(a.dtype).reshape(-1)
    return decoder.simple(ins, [t], t, g)


@operation("bfe")
def _bfe(decoder, ins):
    t = ins.parts[-1]
    bits, dtype = BITS[t], VALUE[t]
    signed = t in SIGNED
    unsigned = VALUE[f"u{bits}"]

    def f(a, pos, length):
        pos = (pos & np.uint32(0xFF)).astype(np.int64)
        length = (length & np.uint32(0xFF)).astype(np.int64)
        u = a.view(unsigned)
        top = np.minimum(pos + length - 1, bits - 1)
        shifted = np.where(pos < bits, u >> np.minimum(pos, bits - 1).astype(unsigned), unsigned(0))
        width = np.minimum(length, bits)
        mask = np.where(width >= bits, unsigned(np.iinfo(unsigned).max),
                        (unsigned(1) << np.minimum(width, bits - 1).astype(unsigned)) - unsigned(1))
        out = shifted & mask
        if signed:
            sign = (u >> np.maximum(top, 0).astype(unsigned)) & unsigned(1)
            # bits past the field, or past the register, repeat the sign
            have = np.minimum(width, np.maximum(bits - pos, 0))
            fill = np.where(have >= bits, unsigned(0), ~((unsigned(1) << np.minimum(have, bits - 1).astype(unsigned))
                                                          - unsigned(1)))
            out = np.where((sign == 1) & (length > 0), out | fill, out)
        return np.where(length == 0, unsigned(0), out).view(dtype)
    return decoder.simple(ins, [t, "u32", "u32"], t, f)


@operation("bfi")
def _bfi(decoder, ins):
    t = ins.parts[-1]
    bits, dtype = BITS[t], VALUE[t]

    def f(a, b, pos, length):
        pos = (pos & np.uint32(0xFF)).astype(np.int64)
        width = np.minimum((length & np.uint32(0xFF)).astype(np.int64), bits)
        ones = np.where(width >= bits, dtype(np.iinfo(dtype).max),
                        (dtype(1) << np.minimum(width, bits - 1).astype(dtype)) - dtype(1))
        s = np.minimum(pos, bits - 1).astype(dtype)
        mask = np.where(pos < bits, ones << s, dtype(0))
        return (b & ~mask) | ((a << s) & mask)
    return decoder.simple(ins, [t, t, "u32", "u32"], t, f, (0, 1))


@operation("bmsk")
def _bmsk(decoder, ins):
    wrap = "wrap" in ins.parts

    def f(a, b):
        a, b = a.astype(np.uint64), b.astype(np.uint64)
        if wrap:
            a, b = a & np.uint64(31), b & np.uint64(31)
        else:
            a, b = np.minimum(a, np.uint64(32)), np.minimum(b, np.uint64(32))
        return (((np.uint64(1) << b) - np.uint64(1)) << a).astype(np.uint32)
    return decoder.simple(ins, ["u32", "u32"], "b32", f)


@operation("szext")
def _szext(decoder, ins):
    t = ins.parts[-1]
    wrap, signed = "wrap" in ins.parts, t in SIGNED

    def f(a, b):
        n = (b & np.uint32(31)).astype(np.int64) if wrap else np.minimum(b, np.uint32(32)).astype(np.int64)
        v = a.view(np.uint32).astype(np.int64)
        low = v & ((np.int64(1) << n) - 1)
        if signed:
            negative = (n > 0) & ((v >> np.maximum(n - 1, 0)) & 1 == 1)
            low = np.where(negative, low - (np.int64(1) << n), low)
        return low.astype(np.uint32).view(a.dtype)
    return decoder.simple(ins, [t, "u32"], t, f)


_PRMT_MODES = {"f4e": [[3, 2, 1, 0], [4, 3, 2, 1], [5, 4, 3, 2], [6, 5, 4, 3]],
               "b4e": [[5, 6, 7, 0], [6, 7, 0, 1], [7, 0, 1, 2], [0, 1, 2, 3]],
               "rc8": [[0] * 4, [1] * 4, [2] * 4, [3] * 4],
               "ecl": [[3, 2, 1, 0], [3, 2, 1, 1], [3, 2, 2, 2], [3, 3, 3, 3]],
               "ecr": [[0, 0, 0, 0], [1, 1, 1, 0], [2, 2, 1, 0], [3, 2, 1, 0]],
               "rc16": [[1, 0, 1, 0], [3, 2, 3, 2], [1, 0, 1, 0], [3, 2, 3, 2]]}


@operation("prmt")
def _prmt(decoder, ins):
    mode = next((p for p in ins.parts[1:] if p in _PRMT_MODES), None)
    if mode is None and isinstance(ins.operands[3], ptx.Immediate):
        return _prmt_constant(decoder, ins, ins.operands[3].value & 0xFFFF)
    table = None if mode is None else np.array(_PRMT_MODES[mode], np.uint64)[:, ::-1]

    def f(a, b, c):
        both = b.astype(np.uint64) << np.uint64(32) | a
        out = np.uint32(0)
        for i in range(4):
            if table is None:
                sel = (c >> np.uint32(4 * i)).astype(np.uint64) & np.uint64(15)
            else:
                sel = table[c & np.uint32(3), i]
            byte = (both >> ((sel & np.uint64(7)) * np.uint64(8))) & np.uint64(0xFF)
            byte = np.where(sel & np.uint64(8), np.where(byte & np.uint64(0x80), np.uint64(0xFF), np.uint64(0)), byte)
            out = out | (byte << np.uint64(8 * i)).astype(np.uint32)
        return out
    return decoder.simple(ins, ["u32", "u32", "u32"], "b32", f, (0, 1))


def _prmt_constant(decoder, ins, selector: int):
    picks = [(selector >> 4 * i) & 15 for i in range(4)]
    # A register of which no byte is taken isn't read; where every byte comes from unwritten ones, so is the result.
    used = [any(p >> 2 & 1 == side for p in picks) for side in (0, 1)]
    sources = [ins.operands[1 if used[0] else 2], ins.operands[2 if used[1] else 1]]
    raw = [decoder.raw_source(o, "u32") for o in sources]
    gets = [get for get, _ in raw]
    slots = [slot for _, slot in raw if slot is not None]
    put = decoder.target(ins.operands[0], "b32")
    _, out = decoder.widening(ins.operands[0], "b32")

    def f(a, b):
        result = np.uint32(0)
        for i, p in enumerate(picks):
            word = b if p & 4 else a
            byte = (word >> np.uint32(8 * (p & 3))) & np.uint32(0xFF)
            if p & 8:
                byte = np.where(byte & np.uint32(0x80), np.uint32(0xFF), np.uint32(0))
            result = result | (byte << np.uint32(8 * i))
        return result

    def run(st):
        put(st, f(gets[0](st), gets[1](st)))
        if out is not None and len(slots) == 2 and all(st.I[s] is not True for s in slots):
            written = np.zeros(st.size, np.bool_)
            for s in slots:
                if st.I[s] is not None:
                    written = written | st.I[s]
            st.unwrite(out, st.active & ~written)
    return run


@operation("lop3")
def _lop3(decoder, ins):
    operands = ins.operands
    target, predicate = operands[0], None
    boolean = next((p for p in ins.parts if p in ("or", "and")), None)
    if isinstance(target, ptx.Pair):
        target, predicate = target.first, target.second
    gets = [decoder.source(o, "u32") for o in operands[1:4]]
    if not isinstance(operands[4], ptx.Immediate):
        raise InvalidInstruction("lop3 needs a constant table")
    table = operands[4].value & 0xFF
    put = decoder.target(target, "b32")

    def f(a, b, c):
        out = np.uint32(0)
        for k in range(8):
            if table >> k & 1:
                out = out | ((a if k & 4 else ~a) & (b if k & 2 else ~b) & (c if k & 1 else ~c))
        return out if isinstance(out, np.ndarray) else np.zeros(np.broadcast_shapes(a.shape, b.shape, c.shape),
                                                                np.uint32)
    if predicate is None:
        return apply(f, gets, put)
    putp = decoder.target(predicate, "pred")
    q = decoder.source(operands[5], "pred")

    def run(st):
        v = f(*[g(st) for g in gets])
        other = q(st)
        put(st, v)
        putp(st, (v != 0) | other if boolean == "or" else (v != 0) & other)
    return run


@operation("fns")
def _fns(decoder, ins):
    def f(mask, base, offset):
        mask, base, offset = np.broadcast_arrays(mask, base, offset)
        out = np.full(mask.shape, 0xFFFFFFFF, np.uint32)
        for i in range(mask.size):
            m, at, n = int(mask.flat[i]), int(base.flat[i]), int(offset.flat[i])
            if n == 0:
                if at < 32 and m >> at & 1:
                    out.flat[i] = at
                continue
            step = 1 if n > 0 else -1
            left, pos = abs(n) - 1, at
            while 0 <= pos < 32:
                if m >> pos & 1:
                    if left == 0:
                        out.flat[i] = pos
                        break
                    left -= 1
                pos += step
        return out
    return decoder.simple(ins, ["u32", "u32", "s32"], "b32", f)
