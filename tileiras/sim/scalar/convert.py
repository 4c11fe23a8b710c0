"""cvt: between all integer and floating types, with every rounding mode, saturation and packing; cvt.pack."""
from __future__ import annotations

import numpy as np

from tileiras.sim.core.decode import apply, operation
from tileiras.sim.errors import InvalidInstruction, UnsupportedInstruction
from tileiras.sim.ptx import module as ptx
from tileiras.sim.ptx.types import BITS, STORAGE, VALUE
from tileiras.sim.scalar import rounding as rnd
from tileiras.sim.scalar import smallfloat
from tileiras.sim.scalar.floating import canonical, clamp01, flush, flush16

_TYPES = set(VALUE) | {"e2m1x2", "e2m3x2", "e3m2x2", "ue8m0x2", "e4m3x2", "e5m2x2", "ue5m3x2"}
_INTEGRAL = {"rni": "rn", "rzi": "rz", "rmi": "rm", "rpi": "rp"}
_SMALL = tuple(smallfloat.BITS)


def _is_int(t: str) -> bool:
    return t[0] in "us" and t[1:].isdigit()


@operation("cvt")
def _cvt(decoder, ins):
    parts = list(ins.parts[1:])
    if parts and parts[0] == "pack":
        return _pack(decoder, ins)
    kinds = [p for p in parts if p in _TYPES]
    if len(kinds) < 2:
        raise InvalidInstruction(ins.opcode)
    to, given = kinds[0], kinds[1]
    flags = set(parts)
    if to.endswith(("x2", "x4")) or given.endswith(("x2", "x4")):
        return _packed(decoder, ins, to, given, flags)
    f = conversion(to, given, flags)
    return decoder.simple(ins, [given], to if to != "tf32" else "b32", f)


def conversion(to: str, given: str, flags: set):
    """The function of a scalar cvt, from VALUE[given] to VALUE[to]."""
    if _is_int(to) and _is_int(given):
        dtype = VALUE[to]
        if "sat" in flags:
            info = np.iinfo(dtype)

            def clamp(a):
                low = max(info.min, int(np.iinfo(a.dtype).min))
                high = min(info.max, int(np.iinfo(a.dtype).max))
                return np.clip(a, a.dtype.type(low), a.dtype.type(high)).astype(dtype)
            return clamp
        return lambda a: a.astype(dtype)
    if _is_int(to):
        return _to_integer(to, given, flags)
    if _is_int(given):
        return _from_integer(to, given, flags)
    return _between_floats(to, given, flags)


def _mode(flags: set) -> str:
    for p in ("rn", "rz", "rm", "rp", "rna"):
        if p in flags:
            return p
    return "rn"


def _to_integer(to: str, given: str, flags: set):
    mode = next((_INTEGRAL[p] for p in _INTEGRAL if p in flags), None) or _mode(flags)
    dtype = VALUE[to]
    info = np.iinfo(dtype)
    wide = given == "f64" or BITS[to] == 64
    nan = np.array(1 << (BITS[to] - 1), np.uint64).astype(STORAGE[to]).view(dtype) if wide else dtype(0)
    ftz = "ftz" in flags
    top = float(info.max) + 1.0 if BITS[to] == 64 else float(info.max)

    def f(a):
        if ftz:
            a = flush(a)
        x = rnd.bf16_to_f32(a).astype(np.float64) if given == "bf16" else a.astype(np.float64)
        x = rnd.integral(x, mode)
        if BITS[to] < 64:
            r = np.clip(np.where(x == x, x, 0.0), float(info.min), top).astype(np.int64).astype(dtype)
        else:
            inside = (x >= float(info.min)) & (x < top)
            r = np.where(inside, x, 0.0).astype(dtype)
            r = np.where(x >= top, dtype(info.max), np.where(x < float(info.min), dtype(info.min), r))
        return np.where(x == x, r, nan)
    return f


def integer_to_odd(a: np.ndarray) -> np.ndarray:
    """Integers as float64 rounded to odd (exact below 2**53)."""
    if a.dtype.itemsize < 8:
        return a.astype(np.float64)
    negative = a < 0
    m = np.where(negative, (~a.view(np.uint64)) + np.uint64(1), a.view(np.uint64)) if a.dtype.kind == "i" else a
    big = m >= np.uint64(1 << 53)
    sticky = ((m >> np.uint64(11)) | ((m & np.uint64(0x7FF)) != 0).astype(np.uint64)).astype(np.float64) * 2048.0
    x = np.where(big, sticky, m.astype(np.float64))
    return np.where(negative, -x, x) if a.dtype.kind == "i" else x


def _integer_to_f64(a: np.ndarray, mode: str) -> np.ndarray:
    x = a.astype(np.float64)
    if mode == "rn" or a.dtype.itemsize < 8:
        return x
    inside = x < (2.0 ** 63 if a.dtype.kind == "i" else 2.0 ** 64)
    back = np.where(inside, x, 0.0).astype(a.dtype)
    above = (back > a) | ~inside
    below = inside & (back < a)
    error = np.where(above, -1.0, np.where(below, 1.0, 0.0))
    return rnd.directed_f64(x, error, mode)


def _from_integer(to: str, given: str, flags: set):
    mode = _mode(flags)

    def f(a):
        if to == "f64":
            return _integer_to_f64(a, mode)
        x = integer_to_odd(a)
        if to == "f32":
            r = rnd.to_f32(x, mode)
        elif to == "f16":
            r = rnd.to_f16(x, mode)
        elif to == "bf16":
            return rnd.to_bf16(x, mode)
        else:
            raise UnsupportedInstruction(f"cvt to .{to}")
        return clamp01(r) if "sat" in flags else r
    return f


def _between_floats(to: str, given: str, flags: set):
    mode = _mode(flags)
    whole = next((_INTEGRAL[p] for p in _INTEGRAL if p in flags), None)
    ftz, sat, relu = "ftz" in flags, "sat" in flags, "relu" in flags
    finite = "satfinite" in flags

    def f(a):
        if given == "bf16":
            a = rnd.bf16_to_f32(a)
        elif ftz and given == "f32":
            a = flush(a)
        elif ftz and given == "f16" and to == "f16":
            a = flush16(a)
        if whole is not None:
            a = rnd.integral(a, whole)
        if given == to == "bf16":
            r = rnd.f32_to_bf16(a)
            return r
        if sat:
            a = clamp01(a)
        if relu:
            a = np.where(a < 0, a.dtype.type(0), a)
        if finite and to in ("f16", "bf16", "tf32"):
            limit = {"f16": rnd.F16, "bf16": rnd.BF16, "tf32": rnd.TF32}[to].greatest
            x = a.astype(np.float64)
            a = np.where(np.abs(x) > limit, np.copysign(limit, x), x)
        if to == "tf32":
            r = rnd.to_format(a.astype(np.float64), rnd.TF32, mode).astype(np.float32)
            return np.where(r == r, r, rnd.NAN32.view(np.float32)).view(np.uint32)
        if to == "bf16":
            if a.dtype == np.float32 and mode == "rn":
                return rnd.f32_to_bf16(a)
            return rnd.to_bf16(a.astype(np.float64), mode)
        if to == "f16":
            r = a.astype(np.float16) if mode == "rn" else rnd.to_f16(a.astype(np.float64), mode)
            return canonical(r)
        if to == "f32":
            r = a if a.dtype == np.float32 else (rnd.to_f32(a, mode) if a.dtype == np.float64 else a.astype(np.float32))
            return canonical(flush(r) if ftz else r)
        return canonical(a.astype(np.float64))
    return f


# ---- packed forms

def _widen16(v: np.ndarray, t: str) -> np.ndarray:
    """A 16-bit float's bits to float64."""
    if t == "bf16":
        return rnd.bf16_to_f32(v).astype(np.float64)
    return v.view(np.float16).astype(np.float64)


def _packed(decoder, ins, to: str, given: str, flags: set):
    mode = _mode(flags)
    relu, finite = "relu" in flags, "satfinite" in flags
    if "rs" in flags:
        return _stochastic(decoder, ins, to, given, flags)
    small = to[:-2] if to[:-2] in _SMALL else None
    if given == "f32":                                  # two scalars: operand 1 goes to the upper half
        gets = [decoder.source(o, "f32") for o in ins.operands[1:3]]
        if small:
            bits = _register_type(decoder, ins.operands[0], small)

            def encode(a, b):
                high = smallfloat.encode(a.astype(np.float64), small, mode, True, relu).astype(np.uint16)
                low = smallfloat.encode(b.astype(np.float64), small, mode, True, relu).astype(np.uint16)
                shift = 4 if small == "e2m1" else 8
                return ((high << np.uint16(shift)) | low).astype(STORAGE[bits])
            return apply(encode, gets, decoder.target(ins.operands[0], bits))
        f = _between_floats(to[:-2], "f32", flags)

        def join(a, b):
            high, low = f(a).view(np.uint16).astype(np.uint32), f(b).view(np.uint16).astype(np.uint32)
            return (high << np.uint32(16)) | low
        return apply(join, gets, decoder.target(ins.operands[0], "b32"))
    if small:                                           # from f16x2 or bf16x2
        half = given[:-2]
        bits = _register_type(decoder, ins.operands[0], small)

        def narrow(a):
            low, high = ((a >> np.uint32(s)).astype(np.uint16) for s in (0, 16))
            lo = smallfloat.encode(_widen16(low, half), small, mode, finite or small != "e5m2", relu).astype(np.uint16)
            hi = smallfloat.encode(_widen16(high, half), small, mode, finite or small != "e5m2", relu).astype(np.uint16)
            shift = 4 if small == "e2m1" else 8
            return ((hi << np.uint16(shift)) | lo).astype(STORAGE[bits])
        return apply(narrow, [decoder.source(ins.operands[1], "b32")], decoder.target(ins.operands[0], bits))
    source = given[:-2]
    if source not in _SMALL or to not in ("f16x2", "bf16x2"):
        raise UnsupportedInstruction(ins.opcode)
    bits = _register_type(decoder, ins.operands[1], source)
    shift = 4 if source == "e2m1" else 8

    def widen(a):
        a = a.astype(np.uint16)
        out = np.uint32(0)
        for k in (0, 1):
            x = smallfloat.decode(a >> np.uint16(shift * k), source)
            if relu:
                x = np.where(x < 0, 0.0, x)
            h = canonical(x.astype(np.float16)).view(np.uint16) if to == "f16x2" else rnd.to_bf16(x)
            out = out | (h.astype(np.uint32) << np.uint32(16 * k))
        return out
    return apply(widen, [decoder.source(ins.operands[1], bits)], decoder.target(ins.operands[0], "b32"))


def _register_type(decoder, operand, small: str) -> str:
    """e2m1x2 lives in 8 bits, the others in 16."""
    if small != "e2m1":
        return "b16"
    return "b8"


def _stochastic(decoder, ins, to: str, given: str, flags: set):
    """cvt.rs: random bits are added below the last kept bit before truncation."""
    relu = "relu" in flags
    if to not in ("f16x2", "bf16x2"):
        return _stochastic_four(decoder, ins, to, relu)
    kept = {"f16x2": 13, "bf16x2": 16}[to]
    name = to[:-2]
    gets = [decoder.source(o, "f32") for o in ins.operands[1:3]] + [decoder.source(ins.operands[3], "b32")]

    def one(a, random):
        if relu:
            a = np.where(a < 0, np.float32(0), a)
        mask = np.uint32((1 << kept) - 1)
        b = a.view(np.uint32) + (random & mask)
        x = np.where(np.isfinite(a), (b & ~mask).view(np.float32), a).astype(np.float64)
        return (rnd.to_f16(x, "rz").view(np.uint16) if name == "f16" else rnd.to_bf16(x, "rz")).astype(np.uint32)

    def f(a, b, random):
        return (one(a, random >> np.uint32(16)) << np.uint32(16)) | one(b, random & np.uint32(0xFFFF))
    return apply(f, gets, decoder.target(ins.operands[0], "b32"))


def _stochastic_four(decoder, ins, to: str, relu: bool):
    small = to[:-2]
    given = ins.operands[1]
    if small not in smallfloat.FORMATS or not isinstance(given, ptx.Vector):
        raise UnsupportedInstruction(ins.opcode)
    gets = [decoder.source(o, "f32") for o in given.items] + [decoder.source(ins.operands[2], "b32")]
    f = smallfloat.FORMATS[small]
    shift = 4 if small == "e2m1" else 8
    bits = "b16" if small == "e2m1" else "b32"

    def g(*v):
        random = v[-1]
        out = np.uint32(0)
        for k in range(4):
            x = v[3 - k].astype(np.float64)
            _, e = np.frexp(x)
            quantum = np.ldexp(1.0, np.maximum(e - 1, f.least) - (f.precision - 1))
            r = ((random >> np.uint32(8 * k)) & np.uint32(0xFF)).astype(np.float64) / 256.0
            code = smallfloat.encode(x + np.copysign(r * quantum, x), small, "rz", True, relu)
            out = out | (code.astype(np.uint32) << np.uint32(shift * k))
        return out.astype(STORAGE[bits])
    return apply(g, gets, decoder.target(ins.operands[0], bits))


def _pack(decoder, ins):
    """cvt.pack.sat.to.from{.b32}: two integers saturated and packed below the shifted third operand."""
    kinds = [p for p in ins.parts[1:] if p in VALUE]
    to, given = kinds[0], kinds[1]
    width = BITS[to] if not to.startswith(("u4", "s4", "u2", "s2")) else int(to[1:])
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if to[0] == "s" else (0, (1 << width) - 1)
    gets = [decoder.source(o, given) for o in ins.operands[1:3]]
    if len(ins.operands) == 4:
        gets.append(decoder.source(ins.operands[3], "b32"))

    def f(a, b, c=None):
        mask = (1 << width) - 1
        x = np.clip(a.astype(np.int64), low, high) & mask
        y = np.clip(b.astype(np.int64), low, high) & mask
        r = (x << width) | y
        if c is not None:
            r = r | (c.astype(np.int64) << (2 * width))
        return (r & 0xFFFFFFFF).astype(np.uint32)
    return apply(f, gets, decoder.target(ins.operands[0], "b32"))
