"""Tensor maps that a kernel builds: the first thread of the agent that copies by one writes it, and fences before it uses it.

    %map = build_tma_desc %base, %rows {recipe = "f16 p0 [64, u32(p1)] [128] box [64, 64]", number = 1}
->  the place: %perctamemoryoffset + 128, or where that is 0, in the memory that an older driver has given each SM
    the first thread: wait until copies have read the map that was there before; 8 words; a release; an acquire

Of maps that are built one behind the other the first waits for all, and the last releases and acquires all.

A copy that a barrier counts doesn't belong to a group, but committing and waiting for one drains the queue of the copy engine all
the same: CUTLASS's grouped products and the original change their maps so. What the words are follows from the recipe, as in the
host's code (host/callbacks.py).
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Operation, SSAValue

from tileiras.analysis.program_slice import loop_around
from tileiras.conversion.tileas_to_llvm.builder import I64, Builder
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, lowers
from tileiras.conversion.tileas_to_llvm.shared.pipes import only_if
from tileiras.dialects import llvm
from tileiras.dialects.llvm import ptr
from tileiras.dialects.nv_tileas import BuildTmaDesc
from tileiras.host.callbacks import MAP_WORDS, map_words
from tileiras.host.object import BYTES_AN_SM, MAP_BYTES
from tileiras.host.recipe import BITS, COMPARISONS, Apply, Choose, Const, Expr, Extend, Param, read_map


@lowers("nv_tileas.build_tma_desc")
def build_tma_desc(low: Lowering, op: Any) -> None:
    b = low.b
    place = _place(low, op.number.data)
    low.set(op.results[0], b.cast("inttoptr", place, ptr(0)))
    sources = [low.scalar(v) for v in op.sources]
    words = map_words(read_map(op.recipe.data))
    is_first, is_last = (not isinstance(beside, BuildTmaDesc) for beside in (op.prev_op, op.next_op))

    def build() -> None:
        if is_first and loop_around(op) is not None:
            b.nvvm("cp.async.bulk.commit.group")
            b.nvvm("cp.async.bulk.wait.group.read", [b.i32(0)])
        values = _Values(b, sources)
        memory = b.cast("inttoptr", place, ptr(llvm.GLOBAL))
        for n in range(MAP_WORDS):
            b.store(values.of(words[n]), b.gep(memory, 8 * n), 8 if n % 2 else 16)
        if is_last:
            b.nvvm("fence.proxy.tensormap_generic.release.gpu")
            for made in _together(op):
                b.nvvm("fence.proxy.tensormap_generic.acquire.gpu", [low.scalar(made.results[0]), b.i32(MAP_BYTES)])
    only_if(low, low.first_thread(), build)


def _together(last: Operation) -> list[Operation]:
    """The maps that are built one behind the other, up to this one."""
    found, op = [], last
    while isinstance(op, BuildTmaDesc):
        found.append(op)
        op = op.prev_op
    return found[::-1]


def _place(low: Lowering, number: int) -> SSAValue:
    """The address of this block's map `number`; what a thread gets is its own warp's where the memory is of SMs."""
    b = low.b
    assert low.map_memory is not None
    own = b.nvvm("mov.perctamemoryoffset")[0]
    older, join = b.new_block(), b.new_block([I64])
    b.cond_br(b.icmp("eq", own, b.i64(0)), older, join, else_args=[b.add(own, b.i64(MAP_BYTES * number))])
    b.at(older)
    sm, warp = (b.cast("zext", b.nvvm(f"read.ptx.sreg.{name}")[0], I64) for name in ("smid", "warpid"))
    if number:
        sms = b.cast("zext", b.nvvm("read.ptx.sreg.nsmid")[0], I64)
        sm = b.add(sm, b.mul(sms, b.i64(number)))
    at = b.add(b.mul(sm, b.i64(BYTES_AN_SM)), b.mul(warp, b.i64(MAP_BYTES)))
    b.br(join, [b.add(b.cast("ptrtoint", low.map_memory, I64), at)])
    b.at(join)
    return join.args[0]


class _Values:
    """Expressions of recipes over the values `sources`, each computed once."""

    def __init__(self, b: Builder, sources: Sequence[SSAValue]) -> None:
        self.b, self.sources = b, sources
        self.known: dict[Expr, SSAValue] = {}

    def of(self, expr: Expr) -> SSAValue:
        found = self.known.get(expr)
        if found is None:
            found = self.known[expr] = self._compute(expr)
        return found

    def _compute(self, expr: Expr) -> SSAValue:
        b = self.b
        if isinstance(expr, Const):
            return b.bits(expr.value, I64)
        if isinstance(expr, Param):
            source = self.sources[expr.index]
            if isinstance(source.type, llvm.PtrType):
                return b.cast("ptrtoint", source, I64)
            return self._extended(source, expr.bits, expr.signed)
        if isinstance(expr, Extend):
            return self._extended(self.of(expr.value), expr.bits, expr.signed)
        if isinstance(expr, Choose):
            return b.select(b.icmp("ne", self.of(expr.condition), b.i64(0)), self.of(expr.lhs), self.of(expr.rhs))
        return self._apply(expr, self.of(expr.lhs), self.of(expr.rhs))

    def _extended(self, value: SSAValue, bits: int, signed: bool) -> SSAValue:
        b, narrow = self.b, llvm.integer(bits)
        if value.type != narrow and bits < BITS:
            value = b.cast("trunc", value, narrow)
        return value if value.type == I64 else b.cast("sext" if signed else "zext", value, I64)

    def _apply(self, expr: Apply, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        b, operation = self.b, expr.operation
        if operation in COMPARISONS:
            return b.cast("zext", b.icmp(operation, lhs, rhs), I64)
        if operation[1:] in ("min", "max"):
            test = b.icmp(f"{operation[0]}{'lt' if operation[1:] == 'min' else 'gt'}", lhs, rhs)
            return b.select(test, lhs, rhs)
        if operation in ("shl", "lshr", "ashr") and not isinstance(expr.rhs, Const):
            far = b.icmp("ugt", rhs, b.i64(BITS - 1))
            shifted = b.binary(operation, lhs, b.select(far, b.i64(BITS - 1), rhs))
            return shifted if operation == "ashr" else b.select(far, b.i64(0), shifted)
        return b.binary(operation, lhs, rhs)
