"""dot by wgmma: four warps together multiply tiles that lie in shared memory, A's registers instead where they hold it.

    %d = nv_tileas.dot %a, %b, %c {atom = "sm90.mma.m64n128k16.f32.f16.f16.ss"}
->  fence the registers; for each step of k and each 64 rows, 256 columns: wgmma.mma_async; commit; wait for the group

A matrix descriptor is the buffer's form (layout/descriptors.py) and, in its low bits, the address where a step's part begins:
one addition a step. A product whose accumulator is a constant zero doesn't read it: its first step is told not to add. What is
in flight passes through the wait. What is `joined` to its accumulator part by part is waited for before the next part begins.
"""
from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.layout_rules import dot_shape
from tileiras.analysis.shared_memory import stage_bytes
from tileiras.analysis.warpgroup_dots import is_zero, tile_of, wgmma_of
from tileiras.conversion.tileas_to_llvm.builder import F16, I32, I64, Builder
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, lowers, piece_type
from tileiras.conversion.tileas_to_llvm.registers import gather
from tileiras.dialects import nv_tileas
from tileiras.dialects.llvm import vec
from tileiras.dialects.nv_tileas import FlightType, layout_of
from tileiras.layout.atoms.warpgroup import GROUP_WARPS, M, WgmmaAtom, split, units
from tileiras.layout.descriptors import address_field, byte_offset, matrix_descriptor
from tileiras.layout.linear import log2
from tileiras.layout.shared import CHUNK_BYTES

A_REGISTERS = 4
"""Registers of A a thread gives to one instruction."""
LOW_HALF = 0xFFFFFFFF
"""Of a descriptor: the address field, and how far it is to what comes next."""


def address_word(low: Lowering, v: SSAValue) -> SSAValue:
    """Where a buffer begins, as descriptors name it (i32, in 16 bytes). A ring's slot is so far from where the ring begins, which
    loops don't compute again: whoever waits for the slot to be full goes on to the product by one instruction."""
    b = low.b
    if isinstance(v.owner, nv_tileas.ExtractSlice):
        ring, index = v.owner.operands
        t: Any = ring.type
        if t.stages.data > 1:
            return b.add(address_word(low, ring), b.mul(low.scalar(index), b.i32(stage_bytes(t) // CHUNK_BYTES)))
    return b.lshr(b.and_(b.cast("ptrtoint", low.scalar(v), I32), b.i32(low.target.described_smem - 1)), log2(CHUNK_BYTES))


def first_word(low: Lowering, v: SSAValue, form: int) -> SSAValue:
    """The low half (i32) of the descriptor of where a buffer of a form begins."""
    return low.b.add(address_word(low, v), low.b.i32(form & LOW_HALF))


def descriptor(b: Builder, word: SSAValue, form: int) -> SSAValue:
    """The descriptor (i64) whose low half is a word, its high half that of a form. The word is by 32-bit arithmetic: of an address
    field nothing carries."""
    return b.or_(b.cast("zext", word, I64), b.i64(form & ~LOW_HALF))


class Described:
    """An operand in shared memory."""

    def __init__(self, low: Lowering, v: SSAValue, k_dim: int, form: str = "wgmma") -> None:
        self.low, self.tile = low, tile_of(v)
        self.rank = len(self.tile.shape)
        self.k_dim = self.rank - 2 + k_dim
        self.transposed = self.tile.major != self.k_dim
        self.form = matrix_descriptor(self.tile, self.k_dim, form)
        self.first = first_word(low, v, self.form)

    def at(self, batch: int, outer: int, k: int, group: SSAValue) -> SSAValue:
        """The descriptor of the part that begins at these coordinates, `group` (i32, in 16 bytes) further on."""
        at = [0] * self.rank
        at[self.k_dim], at[2 * self.rank - 3 - self.k_dim] = k, outer
        if self.rank > 2:
            at[0] = batch % self.tile.shape[0]      # one matrix may be each product's
        b = self.low.b
        return descriptor(b, b.add(b.add(self.first, group), b.i32(address_field(byte_offset(self.tile, at)))), self.form)

    def step(self, rows: int) -> int:
        """16 bytes from one row (or column) to the one that is `rows` further."""
        at = [0] * self.rank
        at[2 * self.rank - 3 - self.k_dim] = rows
        return address_field(byte_offset(self.tile, at))


def _registers_of_a(low: Lowering, v: SSAValue, parts: int) -> list[SSAValue]:
    """A tensor as instructions take A from registers: words of two 16-bit, four 8-bit or one 32-bit element."""
    b = low.b
    whole = low.vec(v)
    each = layout_of(v).num_regs // parts
    return [b.cast("bitcast", gather(b, whole, range(i * each, (i + 1) * each)), vec(A_REGISTERS, I32)) for i in range(parts)]


def dot(low: Lowering, op: Operation, atom: WgmmaAtom) -> None:
    """Lower a dot by this instruction, and wait for it."""
    if "joined" in op.properties:
        _joined(low, op, atom)
        return
    b = low.b
    acc = op.operands[2]
    pieces, taken = _issue(low, op, atom, None if is_zero(acc) else _apart(low, acc, atom.n // 2))
    done = b.nvvm("wgmma.wait_group.0", [*pieces, *taken])
    _together(low, op.results[0], done[:len(pieces)])


@lowers("nv_tileas.begin_flight")
def begin_flight(low: Lowering, op: Operation) -> None:
    source, flight = op.operands[0], op.results[0]
    t: Any = flight.type
    low.set_pieces(flight, _apart(low, source, layout_of(source).num_regs // t.parts.data))


@lowers("nv_tileas.async_dot")
def async_dot(low: Lowering, op: Any) -> None:
    atom = wgmma_of(op)
    assert atom is not None
    pieces, taken = _issue(low, op, atom, None if op.acc is None else low.pieces(op.acc))
    low.set_pieces(op.flight, pieces)
    if taken:
        low.read_registers.setdefault(op.lhs, []).extend(taken)


@lowers("nv_tileas.dot_wait")
def dot_wait(low: Lowering, op: Any) -> None:
    """The registers of products and of A pass through the wait, so that nothing uses them before it."""
    pending = 0 if op.pending is None else op.pending.data
    flights = [low.pieces(v) for v in op.flights]
    taken = [word for v in op.registers for word in low.read_registers.pop(v, [])]
    done = low.b.nvvm(f"wgmma.wait_group.{pending}", [*(p for pieces in flights for p in pieces), *taken])
    at = 0
    for pieces, result in zip(flights, op.outs):
        _together(low, result, done[at:at + len(pieces)])
        at += len(pieces)


def _apart(low: Lowering, v: SSAValue, count: int) -> list[SSAValue]:
    """A tensor as accumulators of `count` elements, as instructions take them: f16 in pairs."""
    b = low.b
    whole = low.vec(v)
    parts = layout_of(v).num_regs // count
    pieces = [whole] if parts == 1 else [b.slice(whole, i * count, count) for i in range(parts)]
    return [b.cast("bitcast", p, vec(count // 2, I32)) for p in pieces] if low.element(v) == F16 else pieces


def _together(low: Lowering, v: SSAValue, pieces: list[SSAValue]) -> None:
    """The instructions' accumulators are this tensor."""
    b = low.b
    if low.element(v) == F16:
        pieces = [b.cast("bitcast", p, vec(layout_of(v).num_regs // len(pieces), F16)) for p in pieces]
    low.set(v, b.concat(pieces))


class _Operands:
    """What a dot's instructions multiply: A and B of each, over `over` batches, rows and columns and `steps` steps of k. `held`:
    the registers that A is in."""

    def __init__(self, low: Lowering, op: Operation, atom: WgmmaAtom) -> None:
        self.b = low.b
        batch, m, n, k = dot_shape(op)
        self.atom = atom
        self.row_groups, self.column_groups = split(m, low.num_warps)
        self.over = units(atom, m, n, low.num_warps, batch)
        self.steps = k // atom.k
        self.rhs = Described(low, op.operands[1], 0)
        self.lhs: Described | None = None
        self.held: list[SSAValue] = []
        if isinstance(op.operands[0].type, TensorType):
            self.held = _registers_of_a(low, op.operands[0], self.over[0] * self.over[1] * self.steps)
        else:
            self.lhs = Described(low, op.operands[0], 1)
        self.name = atom.instruction(self.lhs is not None and self.lhs.transposed, self.rhs.transposed,
                                     "negated" in op.properties)

    def find_parts(self, low: Lowering) -> None:
        """Say where the warpgroup's own rows and columns begin."""
        b = self.b
        self.row_group = self.column_group = b.i32(0)
        if self.row_groups * self.column_groups > 1:
            number = uniform(b, b.lshr(low.warp, log2(GROUP_WARPS)))
            if self.lhs is not None:
                self.row_group = b.mul(b.and_(number, b.i32(self.row_groups - 1)), b.i32(self.lhs.step(M)))
            self.column_group = b.mul(b.lshr(number, log2(self.row_groups)), b.i32(self.rhs.step(self.atom.n)))

    def multiply(self, piece: SSAValue, at: tuple[int, ...], step: int, adds: bool) -> SSAValue:
        """One instruction: its batch, rows and columns, its step of k."""
        z, i, j = at
        if self.lhs is None:
            a = self.held[(z * self.over[1] + i) * self.steps + step]
        else:
            a = self.lhs.at(z, i * self.row_groups * M, step * self.atom.k, self.row_group)
        right = self.rhs.at(z, j * self.column_groups * self.atom.n, step * self.atom.k, self.column_group)
        return self.b.nvvm(self.name, [piece, a, right, self.b.true() if adds else self.b.false()])[0]


def _issue(low: Lowering, op: Operation, atom: WgmmaAtom,
           acc: list[SSAValue] | None) -> tuple[list[SSAValue], list[SSAValue]]:
    """Start a dot's products as one group: its accumulators in flight, and the registers of A that it may still read. `acc`:
    what it goes on from (None: it starts at zero)."""
    b = low.b
    operands = _Operands(low, op, atom)
    count = prod(operands.over)
    fenced = b.nvvm("wgmma.fence", [*(acc or []), *operands.held])
    if acc is not None:
        pieces = fenced[:len(acc)]
        operands.held = fenced[len(acc):]
    else:
        operands.held = fenced
        t: Any = op.results[0].type
        pieces = [b.poison(piece_type(t.tensor if isinstance(t, FlightType) else t, count))] * count
    operands.find_parts(low)
    for step in range(operands.steps):
        for unit, at in enumerate(product(*map(range, operands.over))):
            pieces[unit] = operands.multiply(pieces[unit], at, step, acc is not None or step > 0)
    b.nvvm("wgmma.commit_group.sync.aligned")
    return pieces, operands.held


def _joined(low: Lowering, op: Operation, atom: WgmmaAtom) -> None:
    """Each instruction's columns by themselves: start at zero, wait, add what was there."""
    b = low.b
    result = op.results[0]
    kind: Any = result.type
    operands = _Operands(low, op, atom)
    operands.find_parts(low)
    whole = low.vec(op.operands[2])
    each = layout_of(result).num_regs // prod(operands.over)
    fresh = b.poison(piece_type(kind, prod(operands.over)))
    sums: list[SSAValue] = []
    for unit, at in enumerate(product(*map(range, operands.over))):
        operands.held = b.nvvm("wgmma.fence", operands.held)
        piece = fresh
        for step in range(operands.steps):
            piece = operands.multiply(piece, at, step, step > 0)
        b.nvvm("wgmma.commit_group.sync.aligned")
        piece, *operands.held = b.nvvm("wgmma.wait_group.0", [piece, *operands.held])
        if low.element(result) == F16:
            piece = b.cast("bitcast", piece, vec(each, F16))
        sums.append(b.binary("fadd", b.slice(whole, unit * each, each), piece))
    low.set(result, b.concat(sums))


def uniform(b: Builder, x: SSAValue) -> SSAValue:
    """A value that all lanes of a warp have, where the assembler can see that."""
    return b.nvvm("shfl.sync.idx.i32", [b.i32(-1), x, b.i32(0), b.i32(31)])[0]
