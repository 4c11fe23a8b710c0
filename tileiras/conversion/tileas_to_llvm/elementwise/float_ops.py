"""Lower floating-point arithmetic: + - * / sqrt fma with every rounding, remainder, min and max, comparison, sign.

Rounding to nearest without flush-to-zero is LLVM's own arithmetic, on vectors (it prints `add.rn.f32`, which ptxas
never fuses); other modes are NVVM intrinsics, a register at a time. What f16 and bf16 lack goes
through f32 (floats.py).
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import SSAValue

from tileiras.conversion.tileas_to_llvm.builder import BF16, F16, F32, F64, element_type
from tileiras.conversion.tileas_to_llvm.elementwise.common import is_type, map_registers, overloaded, text, whole
from tileiras.conversion.tileas_to_llvm.elementwise.division import pays, quotients
from tileiras.conversion.tileas_to_llvm.elementwise.floats import (
    PTX_ROUNDING,
    from_bits,
    letter,
    narrow,
    narrow_exact,
    nvvm,
    odd_of,
    to_bits,
    widen,
)
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, lowers

_ARITHMETIC = {"arith.addf": "add", "arith.subf": "sub", "arith.mulf": "mul"}


def _ftz(op: Any, x: SSAValue) -> str:
    """The suffix of a flush-to-zero op; the modifier has a meaning on f32 only."""
    return ".ftz" if "ftz" in op.properties and is_type(x, F32) else ""


@lowers(*_ARITHMETIC)
def arithmetic(low: Lowering, op: Any) -> None:
    if any(v in low.late_choices for v in op.operands):
        from tileiras.conversion.tileas_to_llvm.elementwise.masks import add_chosen
        add_chosen(low, op)
    else:
        low.set(op.results[0], _arithmetic(low, op, *(low.vec(v) for v in op.operands)))


def _arithmetic(low: Lowering, op: Any, x: SSAValue, y: SSAValue) -> SSAValue:
    b = low.b
    name, mode, ftz = _ARITHMETIC[op.name], PTX_ROUNDING[text(op, "rounding")], _ftz(op, x)
    if mode == "rn" and not ftz:
        return b.binary("f" + name, x, y)
    t = element_type(x.type)
    x, y = widen(b, x), widen(b, y)
    if name == "sub":
        name, y = "add", b.fneg(y)
    return narrow(low, nvvm(b, f"{name}.{mode}{ftz}.{letter(x)}", x, y), t, mode)


@whole("arith.divf")
def divide(low: Lowering, op: Any, x: SSAValue, y: SSAValue) -> SSAValue:
    b = low.b
    rounding, ftz = text(op, "rounding"), _ftz(op, x)
    t = element_type(x.type)
    x, y = widen(b, x), widen(b, y)
    if rounding == "approx" and is_type(x, F32):
        return narrow(low, nvvm(b, f"div.approx{ftz}.f", x, y), t)
    if rounding == "full" and is_type(x, F32):
        return narrow(low, nvvm(b, f"div.full{ftz}", x, y), t)
    mode = PTX_ROUNDING.get(rounding, "rn")
    if mode == "rn" and not ftz:
        if low.is_optimized and t == F32 and low.is_tensor(op.operands[0]) and \
                pays(op.operands[0], ys := low.regs(op.operands[1])):
            return quotients(b, low.regs(op.operands[0]), ys)
        return narrow(low, b.binary("fdiv", x, y), t)
    return narrow(low, nvvm(b, f"div.{mode}{ftz}.{letter(x)}", x, y), t, mode)


@whole("math.sqrt")
def square_root(low: Lowering, op: Any, x: SSAValue) -> SSAValue:
    b = low.b
    rounding, ftz = text(op, "rounding"), _ftz(op, x)
    t = element_type(x.type)
    x = widen(b, x)
    if rounding == "approx" and is_type(x, F32):
        return narrow(low, nvvm(b, f"sqrt.approx{ftz}.f", x), t)
    mode = PTX_ROUNDING.get(rounding, "rn")
    return narrow(low, nvvm(b, f"sqrt.{mode}{ftz}.{letter(x)}", x), t, mode)


@whole("math.fma")
def fused_multiply_add(low: Lowering, op: Any, x: SSAValue, y: SSAValue, z: SSAValue) -> SSAValue:
    b = low.b
    mode, ftz = PTX_ROUNDING[text(op, "rounding")], _ftz(op, x)
    t = element_type(x.type)
    if mode == "rn" and not ftz and (t != BF16 or low.target.has_bf16_fma):
        return overloaded(b, "llvm.fma", [x, y, z])
    x, y, z = widen(b, x), widen(b, y), widen(b, z)
    if mode == "rn" and t == BF16:
        down, up = (nvvm(b, f"fma.{m}.f", x, y, z) for m in ("rm", "rp"))
        return narrow(low, odd_of(b, down, up), t)
    return narrow(low, nvvm(b, f"fma.{mode}{ftz}.{letter(x)}", x, y, z), t, mode)


@whole("arith.remf")
def remainder(low: Lowering, op: Any, x: SSAValue, y: SSAValue) -> SSAValue:
    b = low.b
    t = element_type(x.type)
    x, y = widen(b, x), widen(b, y)
    wide = element_type(x.type)
    name = "__nv_fmod" if wide == F64 else "__nv_fmodf"
    return narrow_exact(low, map_registers(b, lambda u, v: b.call(name, wide, [u, v]), x, y), t)


@whole("arith.maxf", "arith.minf")
def minmax(low: Lowering, op: Any, x: SSAValue, y: SSAValue) -> SSAValue:
    """IEEE 754-2019 maximumNumber and minimumNumber, or with `nan` maximum and minimum; +0 is greater than -0."""
    b = low.b
    kind = op.name[6:9]
    nan, ftz = "nan" in op.properties, _ftz(op, x)
    t = element_type(x.type)
    if t in (F16, BF16) and not low.target.has_f16_minmax:
        x, y = widen(b, x), widen(b, y)
    native_nan = nan and t != F64 and low.target.has_f16_minmax
    if ftz:
        out = nvvm(b, f"f{kind}.ftz{'.nan' if native_nan else ''}.f", x, y)
    elif native_nan:
        return overloaded(b, f"llvm.{kind}imum", [x, y])
    else:
        out = overloaded(b, f"llvm.{kind}imumnum", [x, y])
    if nan and not native_nan:
        bits = to_bits(b, out)
        quiet = {F32: 0x7FC00000, F64: 0x7FF8 << 48}[element_type(x.type)]
        out = b.select(b.fcmp("uno", x, y), from_bits(b, b.bits(quiet, bits.type), element_type(x.type)), out)
    return narrow_exact(low, out, t)


@whole("arith.cmpf")
def compare(low: Lowering, op: Any, x: SSAValue, y: SSAValue) -> SSAValue:
    return low.b.fcmp(text(op, "predicate"), x, y)


@whole("arith.negf")
def negate(low: Lowering, op: Any, x: SSAValue) -> SSAValue:
    b = low.b
    if is_type(x, BF16) and not low.target.has_bf16_fma:
        bits = to_bits(b, x)
        return from_bits(b, b.xor(bits, b.bits(0x8000, bits.type)), BF16)
    return b.fneg(x)


@whole("math.absf")
def absolute(low: Lowering, op: Any, x: SSAValue) -> SSAValue:
    b = low.b
    if is_type(x, BF16) and not low.target.has_bf16_fma:
        bits = to_bits(b, x)
        return from_bits(b, b.and_(bits, b.bits(0x7FFF, bits.type)), BF16)
    return overloaded(b, "llvm.fabs", [x])


@whole("math.ceil", "math.floor")
def integral(low: Lowering, op: Any, x: SSAValue) -> SSAValue:
    t = element_type(x.type)
    if t == BF16:
        x = widen(low.b, x)
    return narrow_exact(low, overloaded(low.b, f"llvm.{op.name[5:]}", [x]), t)

