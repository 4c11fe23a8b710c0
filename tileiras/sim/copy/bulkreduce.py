"""The reductions of bulk and tensor copies: `reduce(target bytes, source bytes) -> new target bytes`.

Sums round to nearest even once; f32 flushes subnormal inputs and results to zeros of their sign, f16 and bf16 (with
`.noftz`) keep them. `inc` and `dec` take the source as the limit (PTX ISA, cp.reduce.async.bulk).
"""
from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tileiras.sim.errors import InvalidInstruction

_INTEGERS = {"u32": np.uint32, "s32": np.int32, "u64": np.uint64, "s64": np.int64, "b32": np.uint32, "b64": np.uint64}
_FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "bf16": np.uint16, "f32.ftz": np.float32}
_ALLOWED = {
    "global": {"add": ("u32", "s32", "u64", "f32", "f64", "f16", "bf16"),
               "min": ("u32", "s32", "u64", "s64", "f16", "bf16"), "max": ("u32", "s32", "u64", "s64", "f16", "bf16"),
               "inc": ("u32",), "dec": ("u32",), "and": ("b32", "b64"), "or": ("b32", "b64"), "xor": ("b32", "b64")},
    "shared": {"add": ("u32", "s32", "u64"), "min": ("u32", "s32"), "max": ("u32", "s32"), "inc": ("u32",),
               "dec": ("u32",), "and": ("b32",), "or": ("b32",), "xor": ("b32",)},
}


def reducer(ins) -> Callable:
    """The reduction that an instruction names by its last parts; InvalidInstruction for a combination the ISA lacks."""
    parts = ins.parts
    type_ = parts[-1]
    op = next((p for p in parts if p in _ALLOWED["global"]), "")
    space = "global" if "global" in parts else "shared"
    if type_ not in _ALLOWED[space].get(op, ()):
        raise InvalidInstruction(f"{ins.opcode}: .{op or '?'} of .{type_} in {space} memory")
    if ("noftz" in parts) != (op == "add" and type_ in ("f16", "bf16")):
        raise InvalidInstruction(f"{ins.opcode}: .noftz belongs to sums of .f16 and .bf16, and to no others")
    return lambda target, source: reduce(op, type_, target, source)


def reduce(op: str, type_: str, target: np.ndarray, source: np.ndarray) -> np.ndarray:
    """`target op source` elementwise, of bytes, as bytes."""
    target, source = np.ascontiguousarray(target), np.ascontiguousarray(source)
    if type_ in _FLOATS:
        return np.ascontiguousarray(_float(op, type_, target, source)).view(np.uint8)
    a, b = target.view(_INTEGERS[type_]), source.view(_INTEGERS[type_])
    one = a.dtype.type(1)
    with np.errstate(over="ignore"):
        out = {"add": lambda: a + b, "min": lambda: np.minimum(a, b), "max": lambda: np.maximum(a, b),
               "and": lambda: a & b, "or": lambda: a | b, "xor": lambda: a ^ b,
               "inc": lambda: np.where(a >= b, a.dtype.type(0), a + one),
               "dec": lambda: np.where((a == 0) | (a > b), b, a - one)}[op]()
    return np.ascontiguousarray(out.astype(a.dtype)).view(np.uint8)


def _float(op: str, type_: str, target: np.ndarray, source: np.ndarray) -> np.ndarray:
    if type_ == "bf16":
        a = (target.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        b = (source.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        return _to_bf16(a.astype(np.float64) + b if op == "add" else _extreme(op, a, b))
    a, b = target.view(_FLOATS[type_]), source.view(_FLOATS[type_])
    with np.errstate(all="ignore"):
        if op != "add":
            return _extreme(op, a, b)
        if type_ == "f16":
            return (a.astype(np.float32) + b.astype(np.float32)).astype(np.float16)
        if type_ == "f64":
            return a + b
        return _flushed(_flushed(a) + _flushed(b))


def _extreme(op: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The smaller or larger; a NaN loses, and -0 is below +0."""
    less = (a < b) | ((a == b) & np.signbit(a))
    out = np.where(less == (op == "min"), a, b)
    return np.where(np.isnan(a), b, np.where(np.isnan(b), a, out)).astype(a.dtype)


def _flushed(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < np.float32(2.0 ** -126), np.copysign(np.float32(0), x), x).astype(np.float32)


def _to_bf16(x: np.ndarray) -> np.ndarray:
    """float64 (or float32) to bf16 bits, rounded to nearest even once."""
    with np.errstate(all="ignore"):
        x = x.astype(np.float64)
        wide = x.astype(np.float32)
        # odd rounding: a double that lies between two floats takes the one with an odd last bit
        bits = wide.view(np.uint32)
        back = wide.astype(np.float64)
        beyond = np.abs(back) > np.abs(x)
        inexact = (back != x) & np.isfinite(back)
        bits = np.where(inexact & beyond, bits - np.uint32(1), bits)
        bits = np.where(inexact, bits | np.uint32(1), bits).astype(np.uint32)
        nan = np.isnan(x)
        rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(nan, 0x7FFF, rounded).astype(np.uint16)
