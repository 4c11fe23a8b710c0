"""How element-wise lowerings meet their operands: on whole vectors, or register by register.

A lowering of an element-wise op is a function of LLVM values. `whole` gives it the operands as vectors (a scalar op
inside a reduction's body gives scalars) for whatever LLVM does on vectors; `each` gives it one register of each operand
at a time, for intrinsics, inline PTX and libdevice calls that exist on scalars only:

    @whole("arith.xori")
    def xor(low, op, x, y): return low.b.xor(x, y)

    @each("math.sin")
    def sine(low, op, x): return low.b.call("__nv_sinf", F32, [x])
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type, IntegerType, VectorType
from xdsl.ir import Attribute, SSAValue

from tileiras.conversion.tileas_to_llvm.builder import Builder, element_type
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, lowers
from tileiras.dialects.llvm import vec

_SUFFIXES: dict[type, str] = {Float16Type: "f16", BFloat16Type: "bf16", Float32Type: "f32", Float64Type: "f64"}


def whole(*names: str) -> Callable[[Callable[..., SSAValue]], Callable[..., SSAValue]]:
    """Register a lowering (low, op, *operands as vectors or scalars) -> result."""
    def register(f: Callable[..., SSAValue]) -> Callable[..., SSAValue]:
        @lowers(*names)
        def handler(low: Lowering, op: Any) -> None:
            low.set(op.results[0], f(low, op, *[low.vec(v) for v in op.operands]))
        return f
    return register


def each(*names: str) -> Callable[[Callable[..., SSAValue]], Callable[..., SSAValue]]:
    """Register a lowering (low, op, *operands as scalars) -> scalar, applied to every register."""
    def register(f: Callable[..., SSAValue]) -> Callable[..., SSAValue]:
        @lowers(*names)
        def handler(low: Lowering, op: Any) -> None:
            set_each(low, op, f)
        return f
    return register


def set_each(low: Lowering, op: Any, f: Callable[..., SSAValue]) -> None:
    """Set the op's result to f(low, op, *scalars) of every register."""
    columns = [low.regs(v) for v in op.operands]
    done: dict[tuple[SSAValue, ...], SSAValue] = {}
    out = []
    for row in zip(*columns):
        found = done.get(row)
        if found is None:
            found = done[row] = f(low, op, *row)
        out.append(found)
    low.set(op.results[0], out)


def map_registers(b: Builder, f: Callable[..., SSAValue], *values: SSAValue) -> SSAValue:
    """f on scalars; on vectors, the vector of f of their elements."""
    if not isinstance(values[0].type, VectorType):
        return f(*values)
    return b.pack([f(*row) for row in zip(*(b.unpack(v) for v in values))])


def like(x: SSAValue | Attribute, element: Attribute) -> Attribute:
    """`element`, or a vector of as many `element` as `x` (a value or a type) has elements."""
    t = x.type if isinstance(x, SSAValue) else x
    return vec(t.get_shape()[0], element) if isinstance(t, VectorType) else element


def suffix(t: Attribute) -> str:
    """How an overloaded intrinsic's name spells a type: i32, f16, v4f32."""
    if isinstance(t, VectorType):
        return f"v{t.get_shape()[0]}{suffix(t.element_type)}"
    if isinstance(t, IntegerType):
        return f"i{t.width.data}"
    return _SUFFIXES[type(t)]


def overloaded(b: Builder, name: str, args: Sequence[SSAValue]) -> SSAValue:
    """Call `name.<type>` (llvm.smax, llvm.fma, llvm.ceil, ...) on operands and result of one type."""
    t = args[0].type
    return b.call(f"{name}.{suffix(t)}", t, args)


def text(op: Any, name: str, default: str = "") -> str:
    """A string attribute's text."""
    attr = op.properties.get(name)
    return default if attr is None else attr.data


def is_type(x: SSAValue, t: Attribute) -> bool:
    """Whether `x` is of the element type `t`, as a scalar or a vector."""
    return element_type(x.type) == t
