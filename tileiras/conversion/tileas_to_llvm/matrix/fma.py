"""dot without tensor cores: multiply and add, each thread its own elements of the result.

    for k0 in 0 .. k step 4: read the thread's rows of A and columns of B, 4 k wide, from shared memory;
                             acc += a_k * b_k, one vector fma over all the thread's elements for each k

Products and sums are of the accumulator's type, f32 at least; an f16 accumulator is rounded once, at the end.
"""
from __future__ import annotations

from dataclasses import replace

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.conversion.tileas_to_llvm.builder import F32, F64, I32, width_of
from tileiras.conversion.tileas_to_llvm.elementwise.casts import convert_float
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, bits_of, storage_type
from tileiras.conversion.tileas_to_llvm.registers import gather
from tileiras.conversion.tileas_to_llvm.shared import accesses
from tileiras.dialects.nv_tileas import BufferType
from tileiras.errors import CompileError
from tileiras.layout.f2 import solve
from tileiras.layout.linear import LinearLayout, log2
from tileiras.layout.operands import multiply_add_reads, needed, unroll_of
from tileiras.layout.shared import access


def multiply_add(low: Lowering, op: Operation) -> None:
    """Lower a dot without an atom: operands in buffers, the accumulator in any layout."""
    b = low.b
    acc, result = op.operands[2], op.results[0]
    layout = low.layout(acc)
    for v in op.operands[:2]:
        if not isinstance(v.type, BufferType):
            raise CompileError("a multiply-add dot takes its operands from shared memory")
    k = op.operands[0].type.layout.data.shape[-1]  # type: ignore[attr-defined]
    size = max(bits_of(v.type.element_type) // 8 for v in op.operands[:2])  # type: ignore[attr-defined]
    unroll = unroll_of(k, size)
    compute = _compute_type(low, op)
    a = _Reader(low, op, 0, layout, unroll, compute)
    c = _Reader(low, op, 1, layout, unroll, compute)
    start = _to_compute(low, low.vec(acc), compute, low.element(acc))
    steps = k // unroll
    if steps == 1:
        total = _step(low, a, c, start, b.i32(0), layout.num_regs, unroll)
    else:
        body = b.new_block([I32, start.type])
        leave = b.new_block()
        b.br(body, [b.i32(0), start])
        b.at(body)
        low.enter()
        total = _step(low, a, c, body.args[1], body.args[0], layout.num_regs, unroll)
        low.leave()
        following = b.add(body.args[0], b.i32(1))
        b.cond_br(b.icmp("ult", following, b.i32(steps)), body, leave, [following, total], [])
        b.at(leave)
    t = storage_type(low.element(result))
    low.set(result, total if compute == t else b.cast("fptrunc", total, t))


def _compute_type(low: Lowering, op: Operation) -> Attribute:
    t = storage_type(low.element(op.results[0]))
    if isinstance(t, IntegerType):
        return t
    return F64 if t == F64 else F32


def _to_compute(low: Lowering, v: SSAValue, compute: Attribute, element: Attribute, signed: bool = True) -> SSAValue:
    """Registers of an nv_tileas element type in the type that products and sums have."""
    if isinstance(compute, IntegerType):
        return low.b.cast("sext" if signed else "zext", v, compute)
    return convert_float(low, v, element, compute)


class _Reader:
    """One operand: the thread's elements for `unroll` values of k at a time.

    Registers of the operand: k (lowest), then the rows (columns) that the thread's accumulators need."""

    def __init__(self, low: Lowering, op: Operation, side: int, acc: LinearLayout, unroll: int,
                 compute: Attribute) -> None:
        buffer = op.operands[side]
        assert isinstance(buffer.type, BufferType)
        self.low, self.compute = low, compute
        self.element = buffer.type.element_type
        self.t = storage_type(self.element)
        name = op.properties.get(("signedness_lhs", "signedness_rhs")[side])
        self.signed = name is None or getattr(name, "data", "signed") == "signed"
        shared = buffer.type.layout.data
        rank = len(shared.shape)
        warps = len(acc.warp)
        k_dim = rank - 1 if side == 0 else rank - 2
        layout = multiply_add_reads(shared.shape, k_dim, acc, unroll)
        inner = log2(unroll)
        size = max(1, width_of(self.t) // 8)
        plan = access(layout, shared, size)
        self.counter = plan.warp[warps:]
        self.plan = replace(plan, warp=plan.warp[:warps])
        self.base = low.scalar(buffer)
        # which register of the operand each accumulator multiplies with, for k = 0
        masks = solve(layout.reg[inner:], needed(shared.shape, k_dim, acc, acc.reg))
        picks = [0]
        for mask in masks:
            picks += [p ^ (mask or 0) << inner for p in picks]
        self.picks = picks

    def read(self, step: SSAValue) -> SSAValue:
        """The operand's registers for step number `step` of the loop, in the compute type."""
        v = accesses.read(self.low, self.t, self.plan, self.base, extra=(step, self.counter))
        return _to_compute(self.low, v, self.compute, self.element, self.signed)


def _step(low: Lowering, a: _Reader, c: _Reader, acc: SSAValue, step: SSAValue, registers: int,
          unroll: int) -> SSAValue:
    b = low.b
    left, right = a.read(step), c.read(step)
    t = acc.type
    for k in range(unroll):
        x = gather(b, left, [p ^ k for p in a.picks])
        y = gather(b, right, [p ^ k for p in c.picks])
        if isinstance(a.compute, IntegerType):
            acc = b.add(acc, b.mul(x, y))
        else:
            name = f"llvm.fma.v{registers}{'f64' if a.compute == F64 else 'f32'}"
            acc = b.call(name, t, [x, y, acc])
    return acc
