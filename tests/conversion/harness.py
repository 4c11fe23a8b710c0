"""Kernels around single arith and math ops: built in Python, lowered, compiled, simulated.

    results = evaluate([Case("arith.addf", ("f32", "f32"), "f32", {"rounding": "zero"})], {...inputs...}, "sm_90")

Every thread reads `registers` consecutive elements of each operand, computes each case on them as one vector (or on
one scalar, with registers=0) and writes the results. Arrays hold elements as in memory: floats of 8 and 4 bits as
uint8, i1 as uint8 0 or 1, bf16 as ml_dtypes.bfloat16.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import (
    BFloat16Type,
    DictionaryAttr,
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatTF32Type,
    IntegerType,
    ModuleOp,
    StringAttr,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, Block, Operation, Region

from tileiras.codegen.llvm_text import print_module
from tileiras.conversion.tileas_to_llvm.builder import I1, I8, I32, I64, Builder
from tileiras.conversion.tileas_to_llvm.elementwise import casts, constants, float_ops, int_ops, math  # noqa: F401
from tileiras.conversion.tileas_to_llvm.lowering import HANDLERS, Lowering, storage_type
from tileiras.dialects import arith, llvm
from tileiras.dialects.element import element_bytes
from tileiras.dialects.nv_tileas import with_layout
from tileiras.layout.linear import LinearLayout
from tileiras.machine.targets import find_target

OPS = {op.name: op for op in arith.ARITH_OPS + arith.MATH_OPS}
TYPES: dict[str, Attribute] = {
    **{f"i{w}": IntegerType(w) for w in (1, 4, 8, 16, 32, 64)}, "f16": Float16Type(), "bf16": BFloat16Type(),
    "f32": Float32Type(), "tf32": FloatTF32Type(), "f64": Float64Type(), "e4m3": Float8E4M3FNType(),
    "e5m2": Float8E5M2Type(), "e8m0": Float8E8M0FNUType(), "e2m1": Float4E2M1FNType()}
NUMPY: dict[str, Any] = {
    "i1": np.uint8, "i4": np.int8, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "f16": np.float16,
    "bf16": ml_dtypes.bfloat16, "f32": np.float32, "tf32": np.float32, "f64": np.float64, "e4m3": np.uint8,
    "e5m2": np.uint8, "e8m0": np.uint8, "e2m1": np.uint8}


@dataclass(frozen=True)
class Case:
    """One op: operand type names, result type name, attributes (a string or an attribute; True: a unit attribute). `known`: a
    number that is its last operand, of the result's type, behind those named."""

    op: str
    operands: tuple[str, ...]
    result: str
    attrs: dict[str, Any] = field(default_factory=dict, hash=False)
    known: int | None = None

    def __str__(self) -> str:
        attrs = [f"{k}={v}" for k, v in self.attrs.items()]
        return " ".join([self.op, ",".join(self.operands), "->", self.result, *attrs])


def inputs_of(cases: list[Case]) -> list[tuple[str, int]]:
    """The operand arrays that the cases read: (type name, position), each once."""
    return sorted({(t, i) for c in cases for i, t in enumerate(c.operands)})


def build(cases: list[Case], gpu: str, registers: int = 4) -> str:
    """LLVM IR of a kernel `k` whose parameters are `inputs_of(cases)`, then one result array a case."""
    sources = inputs_of(cases)
    entry = Block(arg_types=[llvm.ptr(llvm.GLOBAL)] * (len(sources) + len(cases)))
    region = Region(entry)
    b = Builder(entry)
    low = Lowering(b, find_target(gpu), 1, "k")
    n = max(registers, 1)
    block = b.call("llvm.nvvm.read.ptx.sreg.ctaid.x", I32, [])
    start = b.cast("zext", b.mul(b.add(b.mul(block, b.i32(32)), low.lane), b.i32(n)), I64)
    in_thread, in_warp = tuple(1 << i for i in range(n.bit_length() - 1)), tuple(n << i for i in range(5))
    layout = LinearLayout((32 * n,), in_thread, in_warp, ())

    def value_type(name: str) -> Attribute:
        return with_layout(TensorType(TYPES[name], [32 * n]), layout) if registers else TYPES[name]

    values: dict[tuple[str, int], Any] = {}
    holder = Block(arg_types=[value_type(t) for t, _ in sources])
    for (name, position), pointer, arg in zip(sources, entry.args, holder.args):
        t = storage_type(TYPES[name])
        size = element_bytes(TYPES[name])
        p = b.gep(pointer, b.mul(start, b.i64(size)))
        loaded = []
        for i in range(n):
            x = b.load(I8 if t == I1 else t, b.gep(p, i * size), size)
            loaded.append(b.icmp("ne", x, b.bits(0, I8)) if t == I1 else x)
        low.set(arg, loaded)
        values[name, position] = arg
    for case, pointer in zip(cases, entry.args[len(sources):]):
        attrs = {k: UnitAttr() if v is True else StringAttr(v) if isinstance(v, str) else v
                 for k, v in case.attrs.items()}
        operands = [values[t, i] for i, t in enumerate(case.operands)]
        if case.known is not None:
            operands.append(holder.insert_arg(value_type(case.result), len(holder.args)))
            low.set(operands[-1], [b.bits(case.known, TYPES[case.result])] * n)
        op: Operation = OPS[case.op].make(operands, [value_type(case.result)], attrs)
        HANDLERS[case.op](low, op)
        size = element_bytes(TYPES[case.result])
        p = b.gep(pointer, b.mul(start, b.i64(size)))
        expected = storage_type(TYPES[case.result])
        for i, x in enumerate(low.regs(op.results[0])):
            assert x.type == expected, f"{case}: register of type {x.type}"
            b.store(b.cast("zext", x, I8) if x.type == I1 else x, b.gep(p, i * size), size)
    b.ret()
    launch = DictionaryAttr({"nvvm.reqntid": StringAttr("32")})
    func = llvm.Func.create(properties={"sym_name": StringAttr("k"), "kernel": UnitAttr(), "launch": launch},
                            regions=[region])
    return print_module(ModuleOp([*low.extra_globals, func]))


def evaluate(cases: list[Case], inputs: dict[tuple[str, int], np.ndarray], gpu: str,
             registers: int = 4, level: int = 3) -> list[np.ndarray]:
    """The result of every case for the operand arrays (all of one length, padded here to whole blocks)."""
    from tileiras import sim
    from tileiras.codegen import compile_llvm_to_ptx
    sources = inputs_of(cases)
    per_block = 32 * max(registers, 1)
    length = len(next(iter(inputs.values()))) if inputs else per_block
    blocks = -(-length // per_block)
    padded = [np.resize(np.ascontiguousarray(inputs[s]), blocks * per_block) for s in sources]
    outputs = [np.zeros(blocks * per_block, NUMPY[c.result]) for c in cases]
    ptx = compile_llvm_to_ptx(build(cases, gpu, registers), gpu, level)
    sim.simulate(ptx, kernel="k", grid=(blocks, 1, 1), args=[*padded, *outputs])
    return [out[:length] for out in outputs]
