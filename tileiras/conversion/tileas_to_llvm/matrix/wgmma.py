"""dot by wgmma: four warps together multiply tiles that lie in shared memory, A's registers instead where they hold it.

    %d = nv_tileas.dot %a, %b, %c {atom = "sm90.mma.m64n128k16.f32.f16.f16.ss"}
->  fence the registers; for each step of k and each 64 rows, 256 columns: wgmma.mma_async; commit; wait for the group

A matrix descriptor is the buffer's form (layout/descriptors.py) and, in its low bits, the address where a step's part begins:
one addition a step. A product whose accumulator is a constant zero doesn't read it: its first step is told not to add. What is
in flight passes through the wait.
"""
from __future__ import annotations

from xdsl.dialects.builtin import TensorType, VectorType
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.layout_rules import dot_shape
from tileiras.analysis.warpgroup_dots import is_zero, tile_of
from tileiras.conversion.tileas_to_llvm.builder import F16, I32, I64, Builder
from tileiras.conversion.tileas_to_llvm.lowering import Lowering
from tileiras.conversion.tileas_to_llvm.registers import gather
from tileiras.dialects.llvm import vec
from tileiras.layout.atoms.warpgroup import GROUP_WARPS, M, WgmmaAtom, split
from tileiras.layout.descriptors import address_field, byte_offset, matrix_descriptor
from tileiras.layout.linear import log2

A_REGISTERS = 4
"""Registers of A a thread gives to one instruction."""
_ADDRESS_MASK = 0x3FFFF
"""The bits of a shared address that a descriptor has room for; it counts 16 bytes."""


class Described:
    """An operand in shared memory."""

    def __init__(self, low: Lowering, v: SSAValue, k_dim: int) -> None:
        self.low, self.tile = low, tile_of(v)
        self.rank = len(self.tile.shape)
        self.k_dim = self.rank - 2 + k_dim
        self.transposed = self.tile.major != self.k_dim
        b = low.b
        address = b.and_(b.cast("ptrtoint", low.scalar(v), I32), b.i32(_ADDRESS_MASK))
        form = matrix_descriptor(self.tile, self.k_dim, "wgmma")
        self.first = b.or_(b.cast("zext", b.lshr(address, 4), I64), b.i64(form))

    def at(self, batch: int, outer: int, k: int, group: SSAValue) -> SSAValue:
        """The descriptor of the part that begins at these coordinates, `group` (i64, in 16 bytes) further on."""
        at = [0] * self.rank
        at[self.k_dim], at[2 * self.rank - 3 - self.k_dim] = k, outer
        if self.rank > 2:
            at[0] = batch
        b = self.low.b
        return b.add(b.add(self.first, group), b.i64(address_field(byte_offset(self.tile, at))))

    def step(self, rows: int) -> int:
        """16 bytes from one row (or column) to the one that is `rows` further."""
        at = [0] * self.rank
        at[2 * self.rank - 3 - self.k_dim] = rows
        return address_field(byte_offset(self.tile, at))


class Registers:
    """A in registers: words of two 16-bit, four 8-bit or one 32-bit element."""

    def __init__(self, low: Lowering, v: SSAValue, parts: int) -> None:
        b = low.b
        whole = low.vec(v)
        assert isinstance(whole.type, VectorType)
        each = whole.type.get_shape()[0] // parts
        self.values = [b.cast("bitcast", gather(b, whole, range(i * each, (i + 1) * each)), vec(A_REGISTERS, I32))
                       for i in range(parts)]


def dot(low: Lowering, op: Operation, atom: WgmmaAtom) -> None:
    """Lower a dot by this instruction, and wait for it."""
    b = low.b
    batch, m, n, k = dot_shape(op)
    pieces, taken = issue(low, op, atom, max(batch, 1), m, n, k)
    done = b.nvvm("wgmma.wait_group.0", [*pieces, *taken])
    finish(b, low, op, atom, done[:len(pieces)])


def finish(b: Builder, low: Lowering, op: Operation, atom: WgmmaAtom, pieces: list[SSAValue]) -> None:
    """The instructions' accumulators are the op's result."""
    count = atom.n // 2
    if atom.acc == "f16":
        pieces = [b.cast("bitcast", p, vec(count, F16)) for p in pieces]
    low.set(op.results[0], b.concat(pieces))


def issue(low: Lowering, op: Operation, atom: WgmmaAtom, batch: int, m: int, n: int,
          k: int) -> tuple[list[SSAValue], list[SSAValue]]:
    """Start a dot's products as one group: its accumulators in flight, and the registers of A that it may still read."""
    b = low.b
    row_groups, column_groups = split(m, low.num_warps)
    rows, columns, steps = m // M // row_groups, n // atom.n // column_groups, k // atom.k
    units = [(z, i, j) for z in range(batch) for i in range(rows) for j in range(columns)]
    rhs = Described(low, op.operands[1], 0)
    lhs: Described | None = None
    held: list[SSAValue] = []
    if isinstance(op.operands[0].type, TensorType):
        held = Registers(low, op.operands[0], batch * rows * steps).values
    else:
        lhs = Described(low, op.operands[0], 1)
    fresh = is_zero(op.operands[2])
    acc = _accumulators(low, op, atom, len(units), fresh)
    fenced = b.nvvm("wgmma.fence", [*([] if fresh else acc), *held])
    if not fresh:
        acc = fenced[:len(acc)]
    held = fenced[len(fenced) - len(held):]
    name = atom.instruction(lhs is not None and lhs.transposed, rhs.transposed)
    row_group = column_group = b.i64(0)
    if row_groups * column_groups > 1:
        number = uniform(b, b.lshr(low.warp, log2(GROUP_WARPS)))
        if lhs is not None:
            row_group = b.mul(b.cast("zext", b.and_(number, b.i32(row_groups - 1)), I64), b.i64(lhs.step(M)))
        column_group = b.mul(b.cast("zext", b.lshr(number, log2(row_groups)), I64), b.i64(rhs.step(atom.n)))
    for step in range(steps):
        for unit, (z, i, j) in enumerate(units):
            if lhs is None:
                a = held[(z * rows + i) * steps + step]
            else:
                a = lhs.at(z, i * row_groups * M, step * atom.k, row_group)
            add = b.false() if fresh and step == 0 else b.true()
            right = rhs.at(z, j * column_groups * atom.n, step * atom.k, column_group)
            acc[unit], = b.nvvm(name, [acc[unit], a, right, add])
    b.nvvm("wgmma.commit_group.sync.aligned")
    return acc, held


def uniform(b: Builder, x: SSAValue) -> SSAValue:
    """A value that all lanes of a warp have, where the assembler can see that."""
    return b.nvvm("shfl.sync.idx.i32", [b.i32(-1), x, b.i32(0), b.i32(31)])[0]


def _accumulators(low: Lowering, op: Operation, atom: WgmmaAtom, units: int, fresh: bool) -> list[SSAValue]:
    """The accumulator of each instruction, as it takes it: f16 in pairs."""
    b = low.b
    count = atom.n // 2
    packed = vec(count // 2, I32)
    if fresh:
        t = packed if atom.acc == "f16" else low.lowered_type(op.results[0].type)
        if atom.acc != "f16":
            assert isinstance(t, VectorType)
            t = vec(count, t.element_type)
        return [b.poison(t)] * units
    v = low.vec(op.operands[2])
    parts = [v] if units == 1 else [b.slice(v, i * count, count) for i in range(units)]
    return [b.cast("bitcast", p, packed) for p in parts] if atom.acc == "f16" else parts
