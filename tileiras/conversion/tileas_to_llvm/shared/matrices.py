"""Registers to a buffer by `stmatrix`: a warp's fragments of 16-bit elements as rows of 16 bytes, without bank conflicts. And a
product's fragments from a buffer by `ldmatrix`.

    %x in the accumulators' layout: each thread has two neighbours of each row
->  stmatrix.x4: lane 8 i + r gives the address of row r of matrix i; instead of 16 stores of 4 bytes each, 4 instructions
"""
from __future__ import annotations

from xdsl.ir import Attribute, SSAValue

from tileiras.conversion.tileas_to_llvm.builder import I32
from tileiras.conversion.tileas_to_llvm.lowering import Lowering
from tileiras.conversion.tileas_to_llvm.registers import gather
from tileiras.conversion.tileas_to_llvm.shared.accesses import Addresses
from tileiras.dialects.llvm import vec
from tileiras.layout.f2 import apply
from tileiras.layout.linear import LANE_BITS, LinearLayout
from tileiras.layout.operands import STMATRIX_BYTES, LdMatrix, stmatrix_plan
from tileiras.layout.shared import Access, SharedLayout

MOST_MATRICES_BITS = 2
"""log2 of how many matrices one instruction stores."""


def matrices_of(low: Lowering, layout: LinearLayout, buffer: SharedLayout, size: int) -> LdMatrix | None:
    """How `stmatrix` stores a layout to a buffer, where the target has it and it takes fewer wavefronts than other stores."""
    return stmatrix_plan(layout, buffer, size) if low.target.has_stmatrix else None


def store_matrices(low: Lowering, v: SSAValue, plan: LdMatrix, base: SSAValue) -> None:
    """Store the registers of vector `v`, all of them."""
    b = low.b
    words = [1 << i for i in range(plan.word_bits, len(plan.reg))]
    matrices, rest = words[:MOST_MATRICES_BITS], words[MOST_MATRICES_BITS:]
    lane = [*plan.rows, *(apply(plan.reg, m) for m in matrices)]
    lane += [0] * (LANE_BITS - len(lane))
    where = Addresses(low, Access(1, (), tuple(lane), plan.warp, ()), base, STMATRIX_BYTES)
    name = f"stmatrix.sync.aligned.m8n8.x{1 << len(matrices)}{'.trans' if plan.trans else ''}.b16"
    each = 1 << plan.word_bits
    for i in range(1 << len(rest)):
        first = apply(rest, i)
        registers = [first ^ apply(matrices, j) for j in range(1 << len(matrices))]
        held = [b.cast("bitcast", gather(b, v, range(r, r + each)), I32) for r in registers]
        b.nvvm(name, [where.at(apply(plan.reg, first)), *held])


def load_matrices(low: Lowering, plan: LdMatrix, base: SSAValue, size: int, t: Attribute) -> SSAValue:
    """All registers of a fragment, a vector of elements of type `t`, which have `size` bytes in the buffer."""
    from tileiras.conversion.tileas_to_llvm.matrix.dot import FromMatrices
    words = FromMatrices(low, base, plan, size, I32).words(0, [1 << i for i in range(plan.word_bits, len(plan.reg))])
    return low.b.cast("bitcast", low.b.pack(words), vec(1 << len(plan.reg), t))
