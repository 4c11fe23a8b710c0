"""Comparisons and selections: setp, set, selp, slct, predicates combined."""
from __future__ import annotations

import numpy as np

from tileiras.sim.core.decode import apply, operation
from tileiras.sim.errors import InvalidInstruction
from tileiras.sim.ptx import module as ptx
from tileiras.sim.ptx.types import FLOAT, VALUE
from tileiras.sim.scalar import rounding as rnd
from tileiras.sim.scalar.floating import element_of, flush, flush16

_ORDERED = {"eq": np.equal, "ne": lambda a, b: (a != b) & (a == a) & (b == b), "lt": np.less, "le": np.less_equal,
            "gt": np.greater, "ge": np.greater_equal,
            "equ": lambda a, b: (a == b) | (a != a) | (b != b), "neu": np.not_equal,
            "ltu": lambda a, b: ~(a >= b), "leu": lambda a, b: ~(a > b), "gtu": lambda a, b: ~(a <= b),
            "geu": lambda a, b: ~(a < b), "num": lambda a, b: (a == a) & (b == b),
            "nan": lambda a, b: (a != a) | (b != b)}
_INTEGER = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
            "ge": np.greater_equal, "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal}
_COMBINE = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def _comparison(ins, type_: str):
    element = element_of(type_)
    names = [p for p in ins.parts[1:-1] if p in _ORDERED or p in _INTEGER]
    if not names:
        raise InvalidInstruction(ins.opcode)
    name = names[0]
    if element in FLOAT:
        f = _ORDERED.get(name)
        if f is None:
            raise InvalidInstruction(f"{ins.opcode}: .{name} compares integers")
        g = f
        if element == "bf16":
            def g(a, b):
                return f(rnd.bf16_to_f32(a), rnd.bf16_to_f32(b))
        if "ftz" in ins.parts:
            clean = flush16 if element == "f16" else flush
            return lambda a, b: g(clean(a), clean(b))
        return g
    if name in ("lo", "ls", "hi", "hs") and element[0] != "u":
        element = "u" + element[1:]
    f = _INTEGER.get(name)
    if f is None:
        raise InvalidInstruction(f"{ins.opcode}: .{name} compares floats")
    return f


def _combiner(ins):
    return next((_COMBINE[p] for p in ins.parts[1:] if p in _COMBINE), None)


@operation("setp")
def _setp(decoder, ins):
    type_ = ins.parts[-1]
    if type_ in ("f16x2", "bf16x2"):
        return _setp_pair(decoder, ins, type_)
    if any(p in ("lo", "ls", "hi", "hs") for p in ins.parts):
        type_ = "u" + type_[1:]
    f, combine = _comparison(ins, type_), _combiner(ins)
    target = ins.operands[0]
    if combine is None and not isinstance(target, ptx.Pair):
        return decoder.simple(ins, [type_, type_], "pred", f)
    gets = [decoder.source(o, type_) for o in ins.operands[1:3]]
    first, second = (target.first, target.second) if isinstance(target, ptx.Pair) else (target, ptx.Sink())
    p, q = decoder.target(first, "pred"), decoder.target(second, "pred")
    extra = decoder.source(ins.operands[3], "pred") if len(ins.operands) > 3 else None
    a, b = gets

    def run(st):
        t = f(a(st), b(st))
        n = ~t
        if extra is not None and combine is not None:
            c = extra(st)
            t, n = combine(t, c), combine(n, c)
        p(st, t)
        q(st, n)
    return run


def _setp_pair(decoder, ins, type_: str):
    element = element_of(type_)
    dtype = VALUE[element]
    f, combine = _comparison(ins, type_), _combiner(ins)
    target = ins.operands[0]
    if not isinstance(target, ptx.Pair):
        raise InvalidInstruction("setp of a packed type needs two predicates")
    p, q = decoder.target(target.first, "pred"), decoder.target(target.second, "pred")
    a, b = (decoder.source(o, type_) for o in ins.operands[1:3])
    extra = decoder.source(ins.operands[3], "pred") if len(ins.operands) > 3 else None

    def half(v, shift):
        return (v >> np.uint32(shift)).astype(np.uint16).view(dtype)

    def run(st):
        x, y = a(st), b(st)
        low, high = f(half(x, 0), half(y, 0)), f(half(x, 16), half(y, 16))
        if extra is not None and combine is not None:
            c = extra(st)
            low, high = combine(low, c), combine(high, c)
        p(st, low)
        q(st, high)
    return run


@operation("set")
def _set(decoder, ins):
    to, type_ = ins.parts[-2:]
    if type_ in ("f16x2", "bf16x2"):
        return _set_pair(decoder, ins, to, type_)
    if any(p in ("lo", "ls", "hi", "hs") for p in ins.parts):
        type_ = "u" + type_[1:]
    f, combine = _comparison(ins, type_), _combiner(ins)
    gets = [decoder.source(o, type_) for o in ins.operands[1:3]]
    if combine is not None:
        gets.append(decoder.source(ins.operands[3], "pred"))
    true = {"f32": np.float32(1), "f16": np.float16(1), "bf16": np.uint16(0x3F80)}.get(to)
    dtype = VALUE[to]
    if true is None:
        true = np.array(-1).astype(dtype)[()]

    def g(a, b, c=None):
        t = f(a, b)
        if combine is not None:
            t = combine(t, c)
        return np.where(t, true, dtype(0)).astype(dtype)
    return apply(g, gets, decoder.target(ins.operands[0], to))


def _set_pair(decoder, ins, to: str, type_: str):
    element = element_of(type_)
    dtype = VALUE[element]
    f, combine = _comparison(ins, type_), _combiner(ins)
    gets = [decoder.source(o, type_) for o in ins.operands[1:3]]
    if combine is not None:
        gets.append(decoder.source(ins.operands[3], "pred"))
    true = np.uint32({"f16x2": 0x3C00, "bf16x2": 0x3F80}.get(to, 0xFFFF))

    def g(a, b, c=None):
        out = np.uint32(0)
        for shift in (0, 16):
            s = np.uint32(shift)
            t = f((a >> s).astype(np.uint16).view(dtype), (b >> s).astype(np.uint16).view(dtype))
            if combine is not None:
                t = combine(t, c)
            out = out | (np.where(t, true, np.uint32(0)) << s)
        return out
    return apply(g, gets, decoder.target(ins.operands[0], "b32"))


@operation("selp")
def _selp(decoder, ins):
    """Reads only the chosen operand, so the other may be uninitialised."""
    t = ins.parts[-1]
    t = {"f32": "b32", "f64": "b64", "s32": "b32", "s64": "b64", "s16": "b16", "f16": "b16"}.get(t, t)
    a, slot_a = decoder.raw_source(ins.operands[1], t)
    b, slot_b = decoder.raw_source(ins.operands[2], t)
    p = decoder.source(ins.operands[3], "pred")
    put = decoder.target(ins.operands[0], t)
    _, slot_d = decoder.widening(ins.operands[0], t)

    def run(st):
        take = p(st)
        put(st, np.where(take, a(st), b(st)))
        if (slot_a is not None and st.I[slot_a] is not True) or (slot_b is not None and st.I[slot_b] is not True):
            whole = st.spread(take)
            bad = np.zeros(st.size, bool)
            for slot, chosen in ((slot_a, whole), (slot_b, ~whole)):
                if slot is not None and st.I[slot] is not True:
                    bad |= chosen if st.I[slot] is None else chosen & ~st.I[slot]
            if slot_d is not None:
                st.unwrite(slot_d, bad & st.active)
    if slot_a is None and slot_b is None:
        return apply(lambda take, x, y: np.where(take, x, y), [p, a, b], put)
    return run


@operation("slct")
def _slct(decoder, ins):
    to, type_ = ins.parts[-2:]
    ftz = "ftz" in ins.parts
    return decoder.simple(ins, [to, to, type_], to,
                          lambda a, b, c: np.where((flush(c) if ftz else c) >= 0, a, b))
