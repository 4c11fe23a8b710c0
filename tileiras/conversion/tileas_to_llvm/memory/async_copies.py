"""Copies from global memory straight to a buffer in shared memory, by the threads: `cp.async`.

    tiled_copy %view[%i, %j] -> %slot, %pipe[%s] guard %g {atom = "cp.async.16", threads = #l}
->  for each chunk of 16 bytes of this thread:   @%g cp.async.cg.shared.global [slot + there], [view + here], 16, outside

What lies out of bounds is zero: an instruction whose last predicate holds touches no memory and writes zeros. Chunks of 16 bytes
go past the first-level cache, where nobody would read them again. The instructions of a copy that says `spread` come a few at a
time between those of the product behind it, none later than the pipe's commit.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.ir import Operation, SSAValue

from tileiras.analysis.async_copies import chunk_of
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, lowers
from tileiras.conversion.tileas_to_llvm.memory.loads_stores import masks_of, view_address
from tileiras.conversion.tileas_to_llvm.shared.accesses import Addresses
from tileiras.dialects.element import element_bytes
from tileiras.layout.shared import access

CACHES = {16: "cg", 8: "ca", 4: "ca"}
"""Which caches chunks of so many bytes go through: only those of 16 have a choice (PTX ISA, cp.async)."""


@lowers("nv_tileas.tiled_copy")
def tiled_copy(low: Lowering, op: Operation) -> None:
    buffer: SSAValue = op.buffer    # type: ignore[attr-defined]
    t: Any = buffer.type
    threads: Any = op.properties["threads"]
    size, chunk = element_bytes(t.element_type), chunk_of(op)
    address = view_address(low, op, threads.data)
    plan = access(threads.data, t.layout.data, size, (), chunk)
    where = Addresses(low, plan, low.scalar(buffer), size)
    executes = _executes(low, op)

    def copy(register: int, offset: int) -> Callable[[], None]:
        to, source, inside = where.at(offset), address.pointer(register), address.predicate(register)
        return lambda: chunk_copy(low, to, source, chunk, inside, executes)
    low.late += [copy(registers[0], offset) for registers, offset, _ in plan.groups]
    _place(low, op)


@lowers("nv_tileas.async_copy")
def copy_by_pointers(low: Lowering, op: Operation) -> None:
    buffer: SSAValue = op.buffer    # type: ignore[attr-defined]
    mask: SSAValue | None = op.mask     # type: ignore[attr-defined]
    t: Any = buffer.type
    threads: Any = op.properties["threads"]
    size, chunk = element_bytes(t.element_type), chunk_of(op)
    plan = access(threads.data, t.layout.data, size, (), chunk)
    where = Addresses(low, plan, low.scalar(buffer), size)
    executes = _executes(low, op)
    pointers = low.regs(op.ptr)     # type: ignore[attr-defined]
    masks = masks_of(low, mask, len(pointers), chunk // size)

    def copy(register: int, offset: int) -> Callable[[], None]:
        to, source, inside = where.at(offset), pointers[register], masks[register] if masks is not None else None
        return lambda: chunk_copy(low, to, source, chunk, inside, executes)
    low.late += [copy(registers[0], offset) for registers, offset, _ in plan.groups]
    _place(low, op)


def _place(low: Lowering, op: Operation) -> None:
    """Make the copies now, or let them wait for a product's steps."""
    lots: Any = op.properties.get("spread")
    if lots is None:
        low.catch_up()
    else:
        low.lots = lots.data


def _executes(low: Lowering, op: Operation) -> SSAValue | None:
    """In which threads, and when, the copy is made: where the guard holds, in the owners of elements. None: always."""
    guard: SSAValue | None = op.guard       # type: ignore[attr-defined]
    threads: Any = op.properties["threads"]
    given = [p for p in (low.owner_predicate(threads.data), None if guard is None else low.scalar(guard)) if p is not None]
    if not given:
        return None
    return given[0] if len(given) == 1 else low.b.and_(*given)


def chunk_copy(low: Lowering, to: SSAValue, source: SSAValue, chunk: int, inside: SSAValue | None,
               executes: SSAValue | None) -> None:
    """One chunk, where `executes` holds; zeros where `inside` doesn't."""
    b = low.b
    name = f"cp.async.{CACHES[chunk]}.shared.global.{chunk}"
    args = [to, source]
    known = b.known(inside) if inside is not None else 1
    if known != 1:
        assert inside is not None
        name += ".ignore"
        args.append(b.xor(inside, b.true()))
    known = b.known(executes) if executes is not None else 1
    if known == 0:
        return
    if known is None:
        assert executes is not None
        name += ".if"
        args.append(executes)
    b.nvvm(name, args)
