"""Lower transcendental functions: libdevice calls on f32 and f64, hardware approximations where the op allows them.

f16 and bf16 are computed in f32 and rounded to nearest once, as the language says. Errors are those of the CUDA maths
API (CUDA C++ Programming Guide, "Mathematical Functions"). exp2 and rsqrt of f32 are one instruction whose documented
error (2 ulp) is that of the library's own functions.
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from tileiras.conversion.tileas_to_llvm.builder import BF16, F16, F32, F64, I32, width_of
from tileiras.conversion.tileas_to_llvm.elementwise.common import each, text
from tileiras.conversion.tileas_to_llvm.elementwise.slow_paths import guarded
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, lowers

LOG2_E = 1.4426950408889634
LEAST_EXPONENT, RAISED = -126.0, 24.0
"""Of f32: that of its least normal number, and by how much those of all subnormal numbers have to be raised to be normal."""
NEAR_ZERO = 0.6
TANH_NEAR_ZERO = (-0.33332598, 0.13313116, -0.05221181, 0.01561263)
"""(tanh(x) / x - 1) / x^2 as a polynomial in x^2 for |x| < NEAR_ZERO, of least relative error of tanh (2^-23.5; a fit of ours)."""

_LIBRARY = {
    "math.exp": "exp", "math.exp2": "exp2", "math.log": "log", "math.log2": "log2", "math.rsqrt": "rsqrt",
    "math.sinh": "sinh", "math.cosh": "cosh",
    "math.tanh": "tanh", "math.powf": "pow", "math.atan2": "atan2"}
_FAST = {"math.exp2": "ex2.approx", "math.rsqrt": "rsqrt.approx"}


def library(low: Lowering, name: str, *args: SSAValue) -> SSAValue:
    """Call libdevice's function on f32 or f64 scalars."""
    t = args[0].type
    return low.b.call(f"__nv_{name}{'' if t == F64 else 'f'}", t, args)


@each(*_LIBRARY)
def function(low: Lowering, op: Any, *args: SSAValue) -> SSAValue:
    b = low.b
    t = args[0].type
    if t in (F16, BF16):
        args = tuple(b.cast("fpext", x, F32) for x in args)
    return b.cast("fptrunc", _function(low, op, args), t) if t in (F16, BF16) else _function(low, op, args)


def _function(low: Lowering, op: Any, args: tuple[SSAValue, ...]) -> SSAValue:
    b = low.b
    if args[0].type == F32:
        ftz = ".ftz" if "ftz" in op.properties else ""
        if op.name == "math.exp2" and "branchless" in op.properties and not ftz:
            return _branchless(low, args[0])
        if op.name in _FAST:
            return b.call(f"llvm.nvvm.{_FAST[op.name]}{ftz}.f{'32' if op.name == 'math.exp2' else ''}", F32, args)
        if text(op, "rounding") == "approx":
            if op.name == "math.tanh":
                return b.call("llvm.nvvm.tanh.approx.f32", F32, args)
            scaled = b.binary("fmul", args[0], b.const(LOG2_E, F32))
            return b.call(f"llvm.nvvm.ex2.approx{ftz}.f32", F32, [scaled])
        if op.name == "math.tanh":
            return _tanh(low, args[0])
    return library(low, _LIBRARY[op.name], *args)


def _branchless(low: Lowering, x: SSAValue) -> SSAValue:
    """2^x with its subnormal results: 2^(x + 24) there, which is normal where it isn't less than half of the least number, times
    2^-24; both are exact. ptxas does the same by predicates, of which it has few, and waits for one exponential after another."""
    b = low.b
    small = b.nvvm("set.lt.f32", [x, b.const(LEAST_EXPONENT, F32)])[0]      # 1 or 0
    power = b.call("llvm.nvvm.ex2.approx.ftz.f32", F32, [b.call("llvm.fma.f32", F32, [small, b.const(RAISED, F32), x])])
    return b.binary("fmul", power, b.call("llvm.fma.f32", F32, [small, b.const(2.0**-RAISED - 1, F32), b.const(1.0, F32)]))


def _tanh(low: Lowering, x: SSAValue) -> SSAValue:
    """1 - 2 / (e^2|x| + 1) with x's sign, which is 1 where the power is infinite, and x + x^3 p(x^2) near zero. libdevice's asks
    for large x besides, which costs two instructions of fifteen and a predicate."""
    b = low.b

    def fma(*of: SSAValue | float) -> SSAValue:
        return b.call("llvm.fma.f32", F32, [v if isinstance(v, SSAValue) else b.const(v, F32) for v in of])

    size = b.call("llvm.fabs.f32", F32, [x])
    power = b.call("llvm.nvvm.ex2.approx.ftz.f32", F32, [b.binary("fmul", size, b.const(2 * LOG2_E, F32))])
    inverse = b.call("llvm.nvvm.rcp.approx.ftz.f", F32, [b.binary("fadd", power, b.const(1.0, F32))])
    far = b.call("llvm.copysign.f32", F32, [fma(inverse, -2.0, 1.0), x])
    square = b.binary("fmul", x, x)
    *others, last = TANH_NEAR_ZERO
    p = b.const(last, F32)
    for coefficient in reversed(others):
        p = fma(p, square, coefficient)
    return b.select(b.fcmp("oge", size, b.const(NEAR_ZERO, F32)), far, fma(fma(p, square, 0.0), x, x))      # -0 stays -0


@lowers("math.sin", "math.cos", "math.tan")
def trigonometric(low: Lowering, op: Any) -> None:
    b = low.b
    regs = list(dict.fromkeys(low.regs(op.operands[0])))
    t = regs[0].type
    narrow = t in (F16, BF16)
    results = guarded(low, f"__nv_{op.name[5:]}{'' if t == F64 else 'f'}", [b.cast("fpext", x, F32) if narrow else x for x in regs])
    found = dict(zip(regs, (b.cast("fptrunc", y, t) if narrow else y for y in results)))
    low.set(op.results[0], [found[x] for x in low.regs(op.operands[0])])


@each("math.fpowi")
def integer_power(low: Lowering, op: Any, base: SSAValue, exponent: SSAValue) -> SSAValue:
    """A power with an integer exponent (signed, 32 bits at most)."""
    b = low.b
    t = base.type
    x = b.cast("fpext", base, F32) if t in (F16, BF16) else base
    if width_of(exponent.type) < 32:
        exponent = b.cast("sext", exponent, I32)
    elif width_of(exponent.type) > 32:
        exponent = b.cast("trunc", exponent, I32)
    out = b.call("__nv_powi" if x.type == F64 else "__nv_powif", x.type, [x, exponent])
    return out if t == x.type else b.cast("fptrunc", out, t)
