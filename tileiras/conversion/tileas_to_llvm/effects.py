"""Assertions, programmatic dependent launch, and the fence between aliases.

An assertion that fails in any element calls the driver's `__assertfail(message, file, line, function, char size)` in
the threads that hold it; the source location is the op's, where the bytecode has one.
"""
from __future__ import annotations

from functools import reduce

from xdsl.dialects.builtin import IntAttr, StringAttr, UnitAttr
from xdsl.ir import Operation, SSAValue

from tileiras.conversion.tileas_to_llvm.lowering import Lowering, lowers
from tileiras.dialects import llvm
from tileiras.dialects.cuda_tile.debug import source_position
from tileiras.dialects.llvm import ptr


def string_pointer(low: Lowering, text: str) -> SSAValue:
    """A generic pointer to a constant, NUL-terminated string."""
    symbol = f"__tile_string_{low.kernel}_{len(low.extra_globals)}"
    data = text.encode() + b"\0"
    low.extra_globals.append(llvm.Global.create(properties={
        "sym_name": StringAttr(symbol), "size": IntAttr(len(data)), "alignment": IntAttr(1), "space": IntAttr(llvm.GLOBAL),
        "init": StringAttr(data.hex()), "constant": UnitAttr(), "linkage": StringAttr("internal")}))
    return low.b.cast("addrspacecast", low.b.address_of(symbol, llvm.GLOBAL), ptr(llvm.GENERIC))


@lowers("nv_tileas.assert")
def lower_assert(low: Lowering, op: Operation) -> None:
    b = low.b
    condition = op.operands[0]
    holds = reduce(b.and_, low.regs(condition)) if low.is_tensor(condition) else low.scalar(condition)
    fail, go_on = b.new_block(), b.new_block()
    b.cond_br(holds, go_on, fail)
    b.at(fail)
    message = op.properties["message"].data  # type: ignore[attr-defined]
    file, line = source_line(op)
    b.call("__assertfail", llvm.VOID, [string_pointer(low, message), string_pointer(low, file), b.i32(line),
                                       string_pointer(low, low.kernel), b.i64(1)])
    b.br(go_on)
    b.at(go_on)


def source_line(op: Operation) -> tuple[str, int]:
    """(file, line) of an op, ("unknown", 0) where the bytecode gives none."""
    position = source_position(op.location)
    return ("unknown", 0) if position is None else position[:2]


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
