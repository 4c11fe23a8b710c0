"""Pointers as values: to and from integers, selected, in vectors and as scalars."""
from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import DictionaryAttr, Float32Type, IntegerType, ModuleOp, StringAttr, TensorType
from xdsl.ir import Block, Region

from tests.conversion import harness
from tileiras import sim
from tileiras.codegen import compile_llvm_to_ptx
from tileiras.codegen.llvm_text import print_module
from tileiras.conversion.tileas_to_llvm.builder import I32, I64, Builder
from tileiras.conversion.tileas_to_llvm.lowering import HANDLERS, Lowering
from tileiras.dialects import arith, llvm
from tileiras.dialects.nv_tileaa import PtrType
from tileiras.dialects.nv_tileas import OPS, with_layout
from tileiras.layout.linear import LinearLayout
from tileiras.machine.targets import find_target

assert harness.HANDLERS is HANDLERS       # importing the harness registers the lowerings


@pytest.mark.parametrize("registers", (0, 1, 4))
def test_round_trip(registers: int) -> None:
    """x -> pointer -> pointer to another type -> selected among it and another -> integer."""
    n = max(registers, 1)
    in_thread, in_warp = tuple(1 << i for i in range(n.bit_length() - 1)), tuple(n << i for i in range(5))
    layout = LinearLayout((32 * n,), in_thread, in_warp, ())

    def t(element):
        return with_layout(TensorType(element, [32 * n]), layout) if registers else element

    entry = Block(arg_types=[llvm.ptr(llvm.GLOBAL)] * 2)
    region = Region(entry)
    b = Builder(entry)
    low = Lowering(b, find_target("sm_90"), 1, "k")
    start = b.cast("zext", b.mul(low.lane, b.i32(n)), I64)
    at = [b.gep(p, b.mul(start, b.i64(8))) for p in entry.args]
    i64, f32, i8 = IntegerType(64), PtrType(Float32Type()), PtrType(IntegerType(8))
    holder = Block(arg_types=[t(i64), t(i64), t(IntegerType(1))])
    x, y, c = holder.args
    loaded = [b.load(I64, b.gep(at[0], 8 * i), 8) for i in range(n)]
    low.set(x, loaded)
    low.set(y, [b.add(v, b.i64(1)) for v in loaded])
    low.set(c, [b.icmp("eq", b.and_(b.cast("trunc", v, I32), b.i32(1)), b.i32(0)) for v in loaded])

    def run(cls, operands, result):
        op = cls.make(operands, [result])
        HANDLERS[op.name](low, op)
        return op.results[0]

    p = run(OPS["nv_tileas.ptr_to_ptr"], [run(OPS["nv_tileas.int_to_ptr"], [x], t(f32))], t(i8))
    q = run(OPS["nv_tileas.int_to_ptr"], [y], t(i8))
    out = run(OPS["nv_tileas.ptr_to_int"], [run(arith.Select, [c, p, q], t(i8))], t(i64))
    for i, v in enumerate(low.regs(out)):
        b.store(v, b.gep(at[1], 8 * i), 8)
    b.ret()
    launch = DictionaryAttr({"nvvm.reqntid": StringAttr("32")})
    func = llvm.Func.create(properties={"sym_name": StringAttr("k"), "kernel": StringAttr(""), "launch": launch},
                            regions=[region])
    numbers = np.arange(32 * n, dtype=np.int64) * 1001 + (1 << 40)
    result = np.zeros_like(numbers)
    ptx = compile_llvm_to_ptx(print_module(ModuleOp([func])), "sm_90")
    sim.simulate(ptx, kernel="k", grid=(1, 1, 1), args=[numbers, result])
    assert np.array_equal(result, numbers + numbers % 2)
