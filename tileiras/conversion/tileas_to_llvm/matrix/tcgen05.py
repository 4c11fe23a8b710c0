"""Tensor memory: the block's columns, accumulators in registers and back, products by one thread.

    tmem_alloc {columns}             warp 0: tcgen05.alloc ; relinquish_alloc_permit       (its address goes to shared memory)
    tmem_base                        ld.shared
    tmem_stage %d[%i]                its first column: %i accumulators further
    tensor_dot %a, %b, %d, %add      one thread: fence::after_thread_sync ; for each step of k, rows, columns: tcgen05.mma
                                     (%a by its matrix descriptor, or in tensor memory)
    load_tmem %d                     tcgen05.ld ... ; wait::ld, through which all registers go ; fence::before_thread_sync
                                     (`first`: from a column on)
    store_tmem %t, %d                tcgen05.st ... ; wait::st ; fence::before_thread_sync
    scale_tmem %f, %d                if a factor of the warp isn't one (vote): tcgen05.ld, wait::ld, multiply, tcgen05.st ; wait::st
    add_tmem %f, %e, %d              tcgen05.ld of both, wait::ld, multiply, add, tcgen05.st ; wait::st
    tmem_free {columns}              warp 0: tcgen05.dealloc

A product of a pair of CTAs (`.cg2`) is begun by a thread of the lower one, for the matrices and accumulators at the same places in
both; each has its rows of A and of the accumulator and half of B's columns. Of 64 rows each, the accumulator lies folded
(layout/atoms/umma.py).

An address is 32 bits: lane in the upper half, column in the lower. Warp w of four reaches lanes 32 w and up. The fences make what
threads do in tensor memory, and the tensor core for them, one order with the barriers between. A product's step moves on in the
matrix descriptors, which are sums of a form and an address (layout/descriptors.py).
"""
from __future__ import annotations

from itertools import product
from typing import Any

from xdsl.ir import Operation, SSAValue

from tileiras.analysis.agents import registers_given
from tileiras.analysis.tensor_dots import umma_of
from tileiras.conversion.tileas_to_llvm.builder import F16, I16, I32, Builder, element_type
from tileiras.conversion.tileas_to_llvm.elementwise.common import overloaded
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, lowers, storage_type
from tileiras.conversion.tileas_to_llvm.matrix.tensor_places import DISCARD, ONE_CTA, address
from tileiras.conversion.tileas_to_llvm.matrix.wgmma import Described
from tileiras.conversion.tileas_to_llvm.shared.pipes import only_first, only_if
from tileiras.dialects.llvm import vec
from tileiras.dialects.nv_tileaa import int_values
from tileiras.dialects.nv_tileas import TmemType, layout_of
from tileiras.errors import CompileError
from tileiras.layout.atoms.umma import GROUP_WARPS, HALF_ROWS, LANES, PAIR, UmmaAtom, shape_at, units
from tileiras.layout.descriptors import instruction_descriptor
from tileiras.layout.linear import LinearLayout, log2

KINDS = {"f16": 0, "tf32": 1, "f8f6f4": 2, "i8": 3}
"""As LLVM's intrinsic numbers them."""
WARP_LANES_SHIFT = 21
"""A warp's number shifted by this is its first lane's address."""
SHAPES = {LANES: "32x32b", HALF_ROWS: "16x32bx2"}
"""Rows of an accumulator's instruction -> how threads load and store it: a row or half a row a thread, a register a cell."""
QUADS = {1: ("16x256b", 4), 2: ("16x128b", 2)}
"""Elements of a cell -> how threads load and store 64 rows in quads, and registers for eight columns of elements."""
MOST_REGISTERS = 32
"""Of one load or store: longer ones would want as many registers side by side."""
MOST_SCALED, FEW_SCALED, FEW_REGISTERS = 64, 16, 128
"""Registers of an accumulator that are loaded at once to be rescaled; where a thread was given so few that beside a row's weights
there is no room for more (256x64 tiles of 64 features, two blocks, B200: causal 204 us, 143 so, else 253, 203; by 32 181, 246)."""
MOST_TIED = 128
"""Registers that go through one wait."""
WORD_BYTES = 4


@lowers("nv_tileas.tmem_alloc")
def tmem_alloc(low: Lowering, op: Operation) -> None:
    b = low.b
    columns: Any = op.properties["columns"]
    slot = low.shared_ptr(op)

    group = _group(op)

    def allocate() -> None:
        b.nvvm(f"tcgen05.alloc.shared.{group}", [slot, b.i32(columns.data)])
        if "several" not in op.properties:
            b.nvvm(f"tcgen05.relinq.alloc.permit.{group}")
    only_if(low, b.icmp("eq", low.warp, b.i32(0)), allocate)


@lowers("nv_tileas.tmem_base")
def tmem_base(low: Lowering, op: Operation) -> None:
    low.tensor_base = low.b.load(I32, low.shared_ptr(op), WORD_BYTES)


@lowers("nv_tileas.tmem_free")
def tmem_free(low: Lowering, op: Operation) -> None:
    b = low.b
    columns: Any = op.properties["columns"]
    base = low.tensor_base
    assert base is not None
    only_if(low, b.icmp("eq", low.warp, b.i32(0)),
            lambda: b.nvvm(f"tcgen05.dealloc.{_group(op)}", [address(b, base), b.i32(columns.data)]))


def _group(op: Operation) -> str:
    """As instructions name the CTAs that have tensor memory together."""
    return f"cg{PAIR if 'pair' in op.properties else ONE_CTA}"


def accumulator(low: Lowering, op: Operation) -> SSAValue:
    """Where an accumulator that `op` makes begins (i32)."""
    offset: Any = op.properties.get("offset")
    if low.tensor_base is None or offset is None:
        raise CompileError("an accumulator has no place in tensor memory: allocate-buffers hasn't run")
    return low.b.add(low.tensor_base, low.b.i32(offset.data))


@lowers("nv_tileas.tmem_stage")
def tmem_stage(low: Lowering, op: Operation) -> None:
    buffer, index = op.operands
    t: Any = op.results[0].type
    low.set(op.results[0], low.b.add(low.scalar(buffer), low.b.mul(low.scalar(index), low.b.i32(t.columns))))


# --- registers --------------------------------------------------------------------------------------------------------------


class _Window:
    """The part of an accumulator that a thread's warp reaches: `parts` are (first register, registers, address). `split`: columns
    from what a warp's first half holds to what the second one does, where rows are in halves. `each`: registers of the shortest
    load or store, `most`: of the longest."""

    def __init__(self, low: Lowering, buffer: SSAValue, registers: int, quads: bool = False, most: int = MOST_REGISTERS) -> None:
        b = low.b
        t: Any = buffer.type
        assert isinstance(t, TmemType)
        self.shape, self.each = SHAPES[t.rows.data], 1
        row = int_values(t.shape)[-1] // t.packed.data
        self.split: SSAValue | None = None
        columns = [1 << i for i in range(log2(t.columns))]      # of each bit of a register's number
        if quads:
            self.shape, self.each = QUADS[t.packed.data]
            within = log2(self.each)
            columns = [0] * within + columns[columns.index(8 // t.packed.data):]
        elif t.rows.data == HALF_ROWS:
            self.split = b.i64(row // 2)
            columns.remove(row // 2)
        at = b.add(low.scalar(buffer), b.shl(b.and_(low.warp, b.i32(GROUP_WARPS - 1)), WARP_LANES_SHIFT))
        self.start, self.tile = at, int_values(t.shape)
        for i in range(log2(GROUP_WARPS), log2(low.num_warps)):
            if len(columns) <= log2(registers):
                break       # all of it is every further warp's
            at = b.add(at, b.mul(b.and_(b.lshr(low.warp, i), b.i32(1)), b.i32(columns.pop())))
        count = min(registers, most, row if t.rows.data == LANES else row // 2)
        self.parts = [(r, count, address(b, b.add(at, b.i32(sum(c for i, c in enumerate(columns) if r >> i & 1)))))
                      for r in range(0, registers, count)]

    def load(self, b: Builder, count: int, at: SSAValue) -> SSAValue:
        loaded, = b.nvvm(f"tcgen05.ld.{self.shape}.x{count // self.each}", [at, *self._split(), b.false()])
        return loaded

    def store(self, b: Builder, count: int, at: SSAValue, words: SSAValue) -> None:
        b.nvvm(f"tcgen05.st.{self.shape}.x{count // self.each}", [at, *self._split(), words, b.false()])

    def _split(self) -> list[SSAValue]:
        return [] if self.split is None else [self.split]

    def narrow(self, low: Lowering, first: int, layout: LinearLayout, packed: int = 1) -> None:
        """Only some columns, of an accumulator of which a thread has whole rows: `LANES` rows lie beside the ones before them, and
        are the next warpgroup's, as far as there are some. `packed`: elements of a cell."""
        b, at, columns, all_columns = low.b, self.start, layout.shape[-1] // packed, self.tile[-1] // packed
        blocks = self.tile[-2] // LANES
        for i in range(log2(GROUP_WARPS), log2(low.num_warps)):
            if blocks > 1:
                blocks //= 2
                at = b.add(at, b.mul(b.and_(b.lshr(low.warp, i), b.i32(1)), b.i32(blocks * all_columns)))
        if blocks * columns * packed != layout.num_regs:
            raise CompileError("columns of an accumulator aren't held as its rows are")
        width = min(columns, MOST_REGISTERS)
        self.parts = [(i * columns + c, width, address(b, b.add(at, b.i32(i * all_columns + first // packed + c))))
                      for i in range(blocks) for c in range(0, columns, width)]


@lowers("nv_tileas.load_tmem")
def load_tmem(low: Lowering, op: Operation) -> None:
    b = low.b
    result = op.results[0]
    window = _Window(low, op.operands[0], layout_of(result).num_regs, "quads" in op.properties)
    first: Any = op.properties.get("first")
    if first is not None:
        window.narrow(low, first.data, layout_of(result))
    flying = []
    for _, count, at in window.parts:
        flying.append(window.load(b, count, at))
    there = []
    at_once = max(1, MOST_TIED // window.parts[0][1])
    for i in range(0, len(flying), at_once):
        there += b.nvvm("tcgen05.wait.ld", flying[i:i + at_once])
    b.nvvm("tcgen05.fence.before.thread.sync")
    low.set(result, b.concat([_from_words(b, words, storage_type(low.element(result))) for words in there]))


@lowers("nv_tileas.store_tmem")
def store_tmem(low: Lowering, op: Operation) -> None:
    b = low.b
    source, buffer = op.operands
    t: Any = buffer.type
    packed: int = t.packed.data
    window = _Window(low, buffer, layout_of(source).num_regs // packed, "quads" in op.properties)
    first_column: Any = op.properties.get("first")
    if first_column is not None:
        window.narrow(low, first_column.data, layout_of(source), packed)
    whole = low.vec(source)
    if layout_of(source).num_warps > GROUP_WARPS:
        b.nvvm("tcgen05.fence.after.thread.sync")       # another warp may have read other columns of these lanes
    for first, count, at in window.parts:
        part = whole if len(window.parts) == 1 else b.slice(whole, first * packed, count * packed)
        words = _to_words(b, part, count) if packed == 1 else b.cast("bitcast", part, vec(count, I32))
        window.store(b, count, at, words)
    b.nvvm("tcgen05.wait.st")
    b.nvvm("tcgen05.fence.before.thread.sync")


@lowers("nv_tileas.scale_tmem")
def scale_tmem(low: Lowering, op: Operation) -> None:
    b = low.b
    factor, buffer = op.operands
    layout = layout_of(factor)
    most = _most_at_once(op)
    window = _Window(low, buffer, layout.num_regs, most=min(most, MOST_REGISTERS))
    factors = low.vec(factor)
    t = element_type(factors.type)
    made: Any = factor.owner
    one_a_row = made.name == "nv_tileas.broadcast" and made.operands[0].type.get_shape()[-1] == 1
    different = {layout.index(r) // (layout.shape[-1] if one_a_row else 1): r for r in range(layout.num_regs)}
    changes = b.false()
    for r in different.values():
        changes = b.or_(changes, b.fcmp("une", b.extract(factors, r), b.const(1.0, t)))
    together = max(1, most // window.parts[0][1])

    def scale() -> None:
        if layout.num_warps > GROUP_WARPS:
            b.nvvm("tcgen05.fence.after.thread.sync")
        for i in range(0, len(window.parts), together):
            parts = window.parts[i:i + together]
            flying = [window.load(b, count, at) for _, count, at in parts]
            for (first, count, at), words in zip(parts, b.nvvm("tcgen05.wait.ld", flying)):
                factor = factors if len(window.parts) == 1 else b.slice(factors, first, count)
                scaled = b.binary("fmul", _from_words(b, words, t), factor)
                window.store(b, count, at, _to_words(b, scaled, count))
        b.nvvm("tcgen05.wait.st")
        b.nvvm("tcgen05.fence.before.thread.sync")
    somebody, = b.nvvm("vote.any.sync", [b.i32(-1), changes])
    only_if(low, somebody, scale)


@lowers("nv_tileas.add_tmem")
def add_tmem(low: Lowering, op: Operation) -> None:
    b = low.b
    factor, added, buffer = op.operands
    layout = layout_of(factor)
    most = _most_at_once(op) // (1 if "wide" in op.properties else 2)
    here, there = (_Window(low, v, layout.num_regs, most=min(most, MOST_REGISTERS)) for v in (buffer, added))
    factors = low.vec(factor)
    t = element_type(factors.type)
    together = max(1, most // here.parts[0][1])
    if layout.num_warps > GROUP_WARPS:
        b.nvvm("tcgen05.fence.after.thread.sync")
    pairs = list(zip(here.parts, there.parts))
    for i in range(0, len(pairs), together):
        flying = [window.load(b, count, at) for pair in pairs[i:i + together]
                  for window, (_, count, at) in zip((here, there), pair)]
        words = [_from_words(b, part, t) for part in b.nvvm("tcgen05.wait.ld", flying)]
        for ((first, count, at), _), sums, more in zip(pairs[i:i + together], words[::2], words[1::2]):
            times = factors if len(pairs) == 1 else b.slice(factors, first, count)
            made = overloaded(b, "llvm.fma", [sums, times, more]) if "fused" in op.properties else \
                b.binary("fadd", b.binary("fmul", sums, times), more)
            here.store(b, count, at, _to_words(b, made, count))
    b.nvvm("tcgen05.wait.st")
    b.nvvm("tcgen05.fence.before.thread.sync")


def _most_at_once(op: Operation) -> int:
    """Registers of an accumulator that are loaded at once to be changed."""
    return FEW_SCALED if 0 < registers_given(op) < FEW_REGISTERS else MOST_SCALED


def _from_words(b: Builder, words: SSAValue, t: Any) -> SSAValue:
    """Cells as elements; narrow ones are in the lower half."""
    count = words.type.get_shape()[0] if words.type != I32 else 1  # type: ignore[attr-defined]
    if t == F16:
        return b.cast("bitcast", b.cast("trunc", words, vec(count, I16)), vec(count, F16))
    return b.cast("bitcast", words, vec(count, t))


def _to_words(b: Builder, elements: SSAValue, count: int) -> SSAValue:
    if element_type(elements.type) == F16:
        return b.cast("zext", b.cast("bitcast", elements, vec(count, I16)), vec(count, I32))
    return b.cast("bitcast", elements, vec(count, I32))


# --- products ---------------------------------------------------------------------------------------------------------------


@lowers("nv_tileas.tensor_dot")
def tensor_dot(low: Lowering, op: Any) -> None:
    atom = umma_of(op)
    if isinstance(atom, UmmaAtom):
        only_first(low, atom.ctas == PAIR, lambda: _issue(low, op, atom))
    else:
        assert atom is not None
        from tileiras.conversion.tileas_to_llvm.matrix import tcgen05_scaled
        tcgen05_scaled.multiply(low, op, atom)


def _issue(low: Lowering, op: Any, atom: UmmaAtom) -> None:
    """One thread's part."""
    b = low.b
    t: Any = op.acc.type
    *batch, m, n = shape_at(atom, int_values(t.shape))
    rhs = Described(low, op.rhs, 0, "tcgen05")
    lhs = Described(low, op.lhs, 1, "tcgen05") if atom.a_in_shared else None
    k = op.rhs.type.layout.data.shape[-2]
    word = instruction_descriptor(atom.kind, atom.m, atom.n, atom.a, atom.b, atom.acc,
                                  a_mn_major=lhs is not None and lhs.transposed, b_mn_major=rhs.transposed,
                                  negated="negated" in op.properties)
    start, none = low.scalar(op.acc), b.i32(0)
    b.nvvm("tcgen05.fence.after.thread.sync")
    over = units(atom, m, n, batch[0] if batch else 0)
    for step in range(k // atom.k):
        for z, i, j in product(*map(range, over)):
            column = (z * over[1] + i) * n + j * atom.n
            if lhs is not None:
                a, form = lhs.at(z, i * atom.rows, step * atom.k, none), "shared"
            else:
                cells = op.lhs.type.packed.data
                a = address(b, b.add(low.scalar(op.lhs), b.i32(((z * over[1] + i) * k + step * atom.k) // cells)))
                form = "tensor"
            b.nvvm(f"tcgen05.mma.{form}", [
                address(b, b.add(start, b.i32(column))), a,
                rhs.at(z, j * atom.n, step * atom.k, none), b.i32(word), low.scalar(op.add) if step == 0 else b.true(),
                b.i32(KINDS[atom.kind]), b.i32(atom.ctas), b.i32(DISCARD)])
