"""Floating-point arithmetic of f16, bf16, f32, f64 and packed pairs, with every rounding mode, .ftz and .sat."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tileiras.sim.core.decode import apply, operation
from tileiras.sim.errors import InvalidInstruction
from tileiras.sim.ptx.types import VALUE
from tileiras.sim.scalar import rounding as rnd

MODES = ("rn", "rz", "rm", "rp", "rna")
_EXP32, _SIGN32 = np.uint32(0x7F800000), np.uint32(0x80000000)


def flush(x: np.ndarray) -> np.ndarray:
    """float32 with subnormals replaced by zeros of their sign."""
    b = x.view(np.uint32)
    small = (b & _EXP32) == 0
    if not small.any():
        return x
    return np.where(small, b & _SIGN32, b).view(np.float32)


def canonical(x: np.ndarray) -> np.ndarray:
    """NaNs replaced by the canonical one."""
    bad = x != x
    if not bad.any():
        return x
    if x.dtype == np.float32:
        return np.where(bad, rnd.NAN32.view(np.float32), x)
    if x.dtype == np.float64:
        return np.where(bad, np.uint64(0x7FF8000000000000).view(np.float64), x)
    return np.where(bad, rnd.NAN16.view(np.float16), x)


def clamp01(x: np.ndarray) -> np.ndarray:
    """.sat: to [0, 1], NaN to +0."""
    return np.where(x > 0, np.minimum(x, x.dtype.type(1)), x.dtype.type(0))


def mode_of(parts) -> str:
    """The rounding mode written in an opcode; rn when there is none."""
    return next((p for p in parts if p in MODES), "rn")


def _wrap(f, ftz: bool, sat: bool, inputs: bool = True):
    """Add .ftz and .sat and canonical NaNs to a float32/float64 function."""
    if ftz:
        if sat:
            return lambda *v: clamp01(flush(f(*map(flush, v))))
        return lambda *v: canonical(flush(f(*map(flush, v))))
    if sat:
        return lambda *v: clamp01(f(*v))
    return lambda *v: canonical(f(*v))


def _d(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64)


def f32_function(name: str, mode: str) -> Callable:
    """The float32 function of an operation in a rounding mode, before .ftz and .sat."""
    if name == "fma":
        def fma(a, b, c):
            total = rnd.fma_odd(_d(a), _d(b), _d(c))
            return _fma_zero(rnd.to_f32(total, mode), total, a, b, c, mode)
        return fma
    if mode == "rn":
        return {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[name]
    if name == "add":
        return lambda a, b: _zero_sum(rnd.to_f32(rnd.add_odd(_d(a), _d(b)), mode), a, b, mode)
    if name == "sub":
        return lambda a, b: _zero_sum(rnd.to_f32(rnd.add_odd(_d(a), -_d(b)), mode), a, -b, mode)
    if name == "mul":
        return lambda a, b: rnd.to_f32(_d(a) * _d(b), mode)
    return lambda a, b: divide32(a, b, mode)


def _zero_sum(r, a, b, mode):
    if mode != "rm":
        return r
    return np.where((r == 0) & (np.signbit(a) | np.signbit(b)), r.dtype.type(-0.0), r)


def _fma_zero(r, total, a, b, c, mode):
    """Only an exact zero takes its sign from the mode, not a small number rounded to zero."""
    if mode != "rm":
        return r
    p = a * b
    return np.where((total == 0) & (np.signbit(p) | np.signbit(c)), r.dtype.type(-0.0), r)


def divide32(a: np.ndarray, b: np.ndarray, mode: str) -> np.ndarray:
    """a / b of float32 in a directed mode: the quotient's residual decides."""
    a, b = np.broadcast_arrays(a, b)
    q = _d(a) / _d(b)                       # 53 bits; the exact quotient never lies on a float32 boundary unless equal
    exact = rnd.fma_f64(q, _d(b), -_d(a))   # sign of q*b - a
    odd = np.where(np.isfinite(exact) & np.isfinite(q) & (b != 0), -np.sign(exact) * np.sign(_d(b)), 0.0)
    return rnd.to_f32(rnd.to_odd(q, odd), mode)


def sqrt32(a: np.ndarray, mode: str) -> np.ndarray:
    """The square root of float32."""
    if mode == "rn":
        return np.sqrt(a)
    x = _d(a)
    q = np.sqrt(x)
    exact = rnd.fma_f64(q, q, -x)
    return rnd.to_f32(rnd.to_odd(q, np.where(np.isfinite(exact), -np.sign(exact), 0.0)), mode)


def f64_function(name: str, mode: str):
    """The float64 function of an operation in a rounding mode."""
    if name == "fma":
        return lambda a, b, c: rnd.fma_f64(a, b, c, mode)
    return {"add": lambda a, b: rnd.add_f64(a, b, mode), "sub": lambda a, b: rnd.add_f64(a, -b, mode),
            "mul": lambda a, b: rnd.mul_f64(a, b, mode), "div": lambda a, b: rnd.div_f64(a, b, mode)}[name]


# ---- 16-bit formats: computed in wider arithmetic and rounded once

def flush16(x: np.ndarray) -> np.ndarray:
    """float16 with subnormals replaced by zeros."""
    b = x.view(np.uint16)
    return np.where((b & np.uint16(0x7C00)) == 0, b & np.uint16(0x8000), b).view(np.float16)


def f16_function(name: str, mode: str, ftz: bool, sat: bool, relu: bool):
    """An operation on float16 arrays."""
    if name == "fma":
        return _finish16(lambda a, b, c: rnd.to_f16(_d(a) * _d(b) + _d(c), mode), ftz, sat, relu, flush16, canonical)
    g = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[name]
    return _finish16(lambda a, b: g(a.astype(np.float32), b.astype(np.float32)).astype(np.float16), ftz, sat, relu,
                     flush16, canonical)


def _finish16(f, ftz, sat, relu, flusher, clean):
    def h(*v):
        if ftz:
            v = tuple(map(flusher, v))
        r = f(*v)
        if ftz:
            r = flusher(r)
        if sat:
            return clamp01(r)
        r = clean(r)
        return np.where(r < 0, r.dtype.type(0), r) if relu else r
    return h


def bf16_function(name: str, mode: str, relu: bool, sat: bool = False):
    """An operation on bf16 bits (uint16)."""
    def f(*v):
        x = [_d(rnd.bf16_to_f32(w)) for w in v]
        if name == "fma":
            r = rnd.fma_odd(*x)
        elif name == "mul":
            r = x[0] * x[1]
        else:
            r = rnd.add_odd(x[0], x[1] if name == "add" else -x[1])
        if sat:
            r = clamp01(r)
        if relu:
            r = np.where(r < 0, 0.0, r)
        return rnd.to_bf16(r, mode)
    return f


def arithmetic(name: str, type_: str, parts):
    """The function of add, sub, mul, fma, mad on one element type."""
    name = "fma" if name == "mad" else name
    mode, ftz, sat = mode_of(parts), "ftz" in parts, "sat" in parts
    if type_ == "f32":
        return _wrap(f32_function(name, mode), ftz, sat)
    if type_ == "f64":
        return _wrap(f64_function(name, mode), False, False)
    if type_ == "f16":
        return f16_function(name, mode, ftz, sat, "relu" in parts)
    return bf16_function(name, mode, "relu" in parts, sat)


# ---- minimum and maximum

def _bits(x: np.ndarray) -> np.ndarray:
    return x.view(np.dtype(f"u{x.dtype.itemsize}"))


def extreme2(a: np.ndarray, b: np.ndarray, largest: bool, nan: bool, magnitude: bool) -> np.ndarray:
    """min/max: -0 below +0; a NaN gives the other operand, or NaN with `nan`; `magnitude`: .xorsign.abs."""
    if magnitude:
        sign = (_bits(a) ^ _bits(b)) & _bits(np.array([-0.0], a.dtype))
        a, b = np.abs(a), np.abs(b)
    r = np.fmax(a, b) if largest else np.fmin(a, b)
    tie = a == b
    if tie.any():
        joined = (_bits(a) & _bits(b)) if largest else (_bits(a) | _bits(b))
        r = np.where(tie, joined.view(a.dtype), r)
    if nan:
        r = np.where((a != a) | (b != b), a.dtype.type(np.nan), r)
    r = canonical(r)
    if magnitude:
        r = np.where(r != r, r, (_bits(r) | sign).view(r.dtype))
    return r


def extreme(name: str, type_: str, parts, count: int):
    """The function of min/max on one element type, of `count` operands."""
    largest, nan, magnitude = name == "max", "NaN" in parts, "xorsign" in parts
    ftz = "ftz" in parts
    bf16 = type_ == "bf16"
    flusher = flush16 if type_ == "f16" else flush

    def f(*v):
        if bf16:
            v = tuple(map(rnd.bf16_to_f32, v))
        if ftz:
            v = tuple(map(flusher, v))
        r = v[0]
        for w in v[1:]:
            x, y = np.broadcast_arrays(r, w)
            r = extreme2(x, y, largest, nan, magnitude)
        return rnd.f32_to_bf16(r) if bf16 else r
    return f


# ---- sign operations

def sign_operation(name: str, type_: str, ftz: bool):
    """abs and neg on bits."""
    def f(a):
        if ftz:
            a = flush16(a) if type_ == "f16" else flush(a)
        if type_ == "bf16":
            return a & np.uint16(0x7FFF) if name == "abs" else a ^ np.uint16(0x8000)
        u = _bits(a)
        top = u.dtype.type(1 << (8 * u.dtype.itemsize - 1))
        return ((u & ~top) if name == "abs" else (u ^ top)).view(a.dtype)
    return f


def halves(f, element: str):
    """Apply a function of a 16-bit type to both halves of 32-bit registers."""
    dtype = VALUE[element]

    def g(*v):
        low = f(*[(x & np.uint32(0xFFFF)).astype(np.uint16).view(dtype) for x in v])
        high = f(*[(x >> np.uint32(16)).astype(np.uint16).view(dtype) for x in v])
        return low.view(np.uint16).astype(np.uint32) | (high.view(np.uint16).astype(np.uint32) << np.uint32(16))
    return g


def singles(f):
    """Apply a float32 function to both halves of 64-bit registers."""
    def g(*v):
        low = f(*[x.astype(np.uint32).view(np.float32) for x in v])
        high = f(*[(x >> np.uint64(32)).astype(np.uint32).view(np.float32) for x in v])
        return low.view(np.uint32).astype(np.uint64) | (high.view(np.uint32).astype(np.uint64) << np.uint64(32))
    return g


def lift(f, type_: str):
    """A function of the element type as a function of the packed type, if it is one."""
    if type_ in ("f16x2", "bf16x2"):
        return halves(f, type_[:-2])
    if type_ == "f32x2":
        return singles(f)
    return f


def element_of(type_: str) -> str:
    """The element type of a packed type."""
    return type_[:-2] if type_.endswith("x2") else type_


_OPERANDS = {"add": (2,), "sub": (2,), "mul": (2,), "mad": (3,), "div": (2,), "rem": (), "min": (2, 3), "max": (2, 3),
             "abs": (1,), "neg": (1,)}


def decode(decoder, ins, name: str, type_: str):
    """Decode add, sub, mul, mad, div, min, max, abs, neg of a floating type."""
    parts = ins.parts[1:]
    element = element_of(type_)
    count = len(ins.operands) - 1
    if count not in _OPERANDS[name]:
        raise InvalidInstruction(f"{ins.opcode} with {count} source operands")
    if name in ("add", "sub", "mul", "mad"):
        mixed = [p for p in parts if p in ("f16", "bf16", "f32")]
        if name in ("add", "sub") and len(mixed) == 2 and mixed[0] == "f32":      # add.f32.f16 (mixed precision)
            return _mixed(decoder, ins, name, mixed[1])
        f = lift(arithmetic(name, element, parts), type_)
    elif name == "div":
        f = _division(parts, element)
    elif name in ("min", "max"):
        f = lift(extreme(name, element, parts, count), type_)
    elif name in ("abs", "neg"):
        f = lift(sign_operation(name, element, "ftz" in parts), type_)
    else:
        raise InvalidInstruction(ins.opcode)
    return decoder.simple(ins, [type_] * count, type_, f)


def _division(parts, element: str):
    if element == "f64":
        return _wrap(f64_function("div", mode_of(parts)), False, False)
    if element != "f32":
        raise InvalidInstruction(f"div of .{element}")
    ftz = "ftz" in parts
    if "approx" in parts:
        def approximate(a, b):
            r = (_d(a) / _d(b)).astype(np.float32)
            return np.where((np.abs(b) > np.float32(2.0 ** 126)) & np.isfinite(a), (a * np.float32(0)) / b, r)
        return _wrap(approximate, ftz, False)
    mode = mode_of(parts)
    return _wrap(f32_function("div", mode), ftz, False)


def _mixed(decoder, ins, name: str, narrow: str):
    widen = (lambda a: rnd.bf16_to_f32(a)) if narrow == "bf16" else (lambda a: a.astype(np.float32))
    f = f32_function(name, mode_of(ins.parts))
    g = _wrap(lambda a, b: f(widen(a), b), False, "sat" in ins.parts)
    return decoder.simple(ins, [narrow, "f32"], "f32", g)


@operation("fma")
def _fma(decoder, ins):
    type_ = ins.parts[-1]
    element = element_of(type_)
    kinds = [p for p in ins.parts if p in ("f16", "bf16", "f32")]
    if len(kinds) == 2:                                  # fma.rn.f32.f16: products of narrow operands
        widen = rnd.bf16_to_f32 if kinds[1] == "bf16" else lambda a: a.astype(np.float32)
        f = f32_function("fma", mode_of(ins.parts))
        g = _wrap(lambda a, b, c: f(widen(a), widen(b), c), False, "sat" in ins.parts)
        return decoder.simple(ins, [kinds[1], kinds[1], "f32"], "f32", g)
    f = arithmetic("fma", element, ins.parts)
    if "oob" in ins.parts:
        f = _out_of_bounds_fma(f)
    return decoder.simple(ins, [type_] * 3, type_, lift(f, type_))


def _out_of_bounds_fma(f):
    """.oob: a product with an operand of the NaN 0xFFFF counts as zero."""
    def g(a, b, c):
        out = (_bits(a) == 0xFFFF) | (_bits(b) == 0xFFFF)
        zero = a.dtype.type(0)
        return f(np.where(out, zero, a), np.where(out, zero, b), c)
    return g


@operation("copysign")
def _copysign(decoder, ins):
    t = ins.parts[-1]
    return decoder.simple(ins, [t, t], t, lambda a, b: np.copysign(b, a))


@operation("testp")
def _testp(decoder, ins):
    t = ins.parts[-1]
    kind = ins.parts[1]
    least = np.finfo(VALUE[t]).tiny
    f = {"finite": np.isfinite, "infinite": np.isinf, "number": lambda a: a == a, "notanumber": lambda a: a != a,
         "normal": lambda a: np.isfinite(a) & (np.abs(a) >= least),
         "subnormal": lambda a: (a != 0) & (np.abs(a) < least)}.get(kind)
    if f is None:
        raise InvalidInstruction(ins.opcode)
    return decoder.simple(ins, [t], "pred", f)


# ---- functions of one operand

def _rcp(a):
    return 1.0 / a


def _rsqrt(a):
    return 1.0 / np.sqrt(a)


_APPROXIMATE = {"rcp": _rcp, "sqrt": np.sqrt, "rsqrt": _rsqrt, "ex2": np.exp2, "lg2": np.log2, "sin": np.sin,
                "cos": np.cos, "tanh": np.tanh}


def _f64_high(a: np.ndarray) -> np.ndarray:
    """float64 with the low 32 bits of its encoding cleared (the *.approx.ftz.f64 forms)."""
    return (a.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64)


def _bf16(exact):
    return lambda a: rnd.to_bf16(exact(_d(rnd.bf16_to_f32(a))))


def _approximate_f64(exact, ftz: bool):
    """The .ftz forms read and give only the upper halves; the others are refined in software to about one ulp."""
    if ftz:
        return lambda a: canonical(_f64_high(exact(_f64_high(a))))
    return lambda a: canonical(exact(a))


def _exact_f64(name: str, mode: str):
    """The correctly rounded float64 functions."""
    if name == "rcp":
        return lambda a: canonical(rnd.div_f64(np.ones(1), a, mode))
    if name == "sqrt":
        return lambda a: canonical(rnd.sqrt_f64(a, mode))
    raise InvalidInstruction(f"{name}.f64 without .approx")


def _function(name: str):
    exact = _APPROXIMATE[name]

    def decode_function(decoder, ins):
        parts, type_ = ins.parts, ins.parts[-1]
        element = element_of(type_)
        ftz = "ftz" in parts
        f: Callable
        if element == "f64":
            f = _approximate_f64(exact, ftz) if "approx" in parts else _exact_f64(name, mode_of(parts))
        elif element == "f32":
            mode = mode_of(parts)
            if name == "sqrt" and "approx" not in parts:
                f = _wrap(lambda a: sqrt32(a, mode), ftz, False)
            elif name == "rcp" and "approx" not in parts:
                one = np.ones(1, np.float32)
                divide = f32_function("div", mode)
                f = _wrap(lambda a: divide(one, a), ftz, False)
            else:
                f = _wrap(lambda a: exact(_d(a)).astype(np.float32), ftz, False)
        elif element == "f16":
            f = _finish16(lambda a: exact(_d(a)).astype(np.float16), ftz, False, False, flush16, canonical)
        else:
            f = _bf16(exact)
        return decoder.simple(ins, [type_], type_, lift(f, type_))
    return decode_function


for _name in _APPROXIMATE:
    operation(_name)(_function(_name))

__all__ = ["apply", "arithmetic", "decode", "extreme", "flush", "lift"]
