"""Assertions, programmatic dependent launch, and the fence between aliases.

An assertion prints a line for each element that fails, by `vprintf`, and stops the grid:

    k.py:12: tile block: [0, 1, 0], position: [3, 5]: the message

The source location is the op's, where the bytecode has one. What is said, and that the threads wait a little before they
trap, so that others can say it too, is as in the original.
"""
from __future__ import annotations

from functools import reduce

from xdsl.ir import Operation, SSAValue

from tileiras.conversion.tileas_to_llvm.builder import I32, I64
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, lowers
from tileiras.dialects import llvm
from tileiras.dialects.cuda_tile.debug import source_position
from tileiras.dialects.llvm import ptr
from tileiras.layout.linear import dim_bits

WORD_BYTES = 4
WAIT = """{
 .reg .pred early;
 .reg .b64 now, end;
 mov.u64 now, %globaltimer;
 add.s64 end, now, 500000;
BUSY:
 mov.u64 now, %globaltimer;
 setp.lt.s64 early, now, end;
 @early bra BUSY;
 }"""
"""Half a millisecond (the timer counts nanoseconds). Names are local to the braces."""


def string_pointer(low: Lowering, text: str) -> SSAValue:
    """A generic pointer to a constant, NUL-terminated string."""
    symbol = f"__tile_string_{low.kernel}_{len(low.extra_globals)}"
    data = text.encode() + b"\0"
    low.add_global(symbol, data, 1, constant=True)
    return low.b.cast("addrspacecast", low.b.address_of(symbol, llvm.GLOBAL), ptr(llvm.GENERIC))


@lowers("nv_tileas.assert")
def lower_assert(low: Lowering, op: Operation) -> None:
    b = low.b
    condition = op.operands[0]
    holds = reduce(b.and_, low.regs(condition)) if low.is_tensor(condition) else low.scalar(condition)
    fail, go_on = b.new_block(), b.new_block()
    b.cond_br(holds, go_on, fail)
    b.at(fail)
    low.enter()
    if low.is_tensor(condition):
        _say_elements(low, op, condition)
    else:
        _say_where(low, op, low.first_thread(), [])
    b.asm(WAIT, "~{memory}", [], [])
    b.nvvm("trap")
    low.leave()
    b.br(go_on)
    b.at(go_on)


def _say_elements(low: Lowering, op: Operation, condition: SSAValue) -> None:
    """A line for each element that fails, in the thread that owns it: a loop over the registers, which wait in local memory."""
    b = low.b
    layout = low.layout(condition)
    owned = set(low.owned_regs(layout))
    words = b.local_words(layout.num_regs)
    for r, x in enumerate(low.regs(condition)):
        b.store(b.cast("zext", x, I32) if r in owned else b.i32(1), b.gep(words, WORD_BYTES * r), WORD_BYTES)
    owner = low.owner_predicate(layout)
    head, out = b.new_block([I32]), b.new_block()
    b.br(head, [b.i32(0)])
    b.at(head)
    i = head.args[0]
    fails = b.icmp("eq", b.load(I32, b.gep(words, b.cast("zext", b.mul(i, b.i32(WORD_BYTES)), I64)), WORD_BYTES), b.i32(0))
    flat = b.xor(low.flat_index(layout), low.linear(i, layout.reg))
    position = [b.and_(b.lshr(flat, at), b.i32((1 << bits) - 1)) for at, bits in dim_bits(layout.shape)]
    _say_where(low, op, fails if owner is None else b.and_(fails, owner), position)
    following = b.add(i, b.i32(1))
    b.cond_br(b.icmp("ult", following, b.i32(layout.num_regs)), head, out, [following])
    b.at(out)


def _say_where(low: Lowering, op: Operation, condition: SSAValue, position: list[SSAValue]) -> None:
    """The line of one element, where the condition holds."""
    b = low.b
    say, on = b.new_block(), b.new_block()
    b.cond_br(condition, say, on)
    b.at(say)
    block = [b.nvvm(f"read.ptx.sreg.{low.tile_block_sreg}.{axis}")[0] for axis in "xyz"]
    message = op.properties["message"].data.replace("%", "%%")  # type: ignore[attr-defined]
    file, line = source_line(op)
    places = ", ".join(["%d"] * len(position))
    text = f"{file.replace('%', '%%')}:{line}: tile block: [%d, %d, %d], position: [{places}]: {message}\n"
    b.call("vprintf", I32, [string_pointer(low, text), *block, *position])
    b.br(on)
    b.at(on)


def source_line(op: Operation) -> tuple[str, int]:
    """(file, line) of an op, ("(unknown)", 0) where the bytecode gives none."""
    position = source_position(op.location)
    return ("(unknown)", 0) if position is None else position[:2]


@lowers("nv_tileas.gdc_wait")
def gdc_wait(low: Lowering, op: Operation) -> None:
    """Wait for the grids this one depends on; below sm_90 launches are ordered anyway."""
    if low.target.has_griddepcontrol:
        low.b.nvvm("griddepcontrol.wait")


@lowers("nv_tileas.gdc_launch_dependents")
def gdc_launch_dependents(low: Lowering, op: Operation) -> None:
    """Let dependent grids start."""
    if low.target.has_griddepcontrol:
        low.b.nvvm("griddepcontrol.launch_dependents")


@lowers("nv_tileas.fence_alias")
def fence_alias(low: Lowering, op: Operation) -> None:
    """Order accesses to one memory through different virtual addresses (PTX ISA, "membar / fence": `.proxy.alias`). Each thread
    fences what it did; the barrier that the token asks for stands between threads."""
    low.b.nvvm("fence.proxy.alias")
