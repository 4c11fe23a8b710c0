"""What the table of atoms says of an instruction.

A fragment is a CuTe layout (thread, value) -> element of the operand's tile, elements numbered first dimension fastest:
for the accumulator of m16n8, thread t's value v lies at row + 16 * column with

    ((4, 8), (2, 2)):((32, 1), (16, 8))     t % 4 steps two columns, t / 4 a row; v % 2 a column, v / 2 eight rows

Threads are those that issue the atom together: 32 of a warp, 128 of a warpgroup, or one.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tileiras.layout.cute.algebra import Layout
from tileiras.layout.cute.swizzle import AnyLayout

REGISTERS, SHARED, GLOBAL, TENSOR = "rmem", "smem", "gmem", "tmem"
"""Where an operand can live."""
KINDS = ("mma", "copy", "tma", "tmem")
"""mma: products. copy: between registers, shared and global memory, by threads. tma: by the copy engine. tmem: to or
from tensor memory."""


@dataclass(frozen=True)
class Operand:
    """One operand of an atom: `shape` of its tile, `element` (PTX's name, or b8, b16, ... for untyped copies), where it
    lives, and who holds what (`fragment`, in registers) or what names it (`described`: "wgmma" or "tcgen05" for a matrix
    descriptor, "tensormap", "" for an address)."""

    name: str
    residency: str
    element: str
    shape: tuple[int, ...] = ()
    fragment: AnyLayout | None = None
    described: str = ""


@dataclass(frozen=True)
class Cost:
    """What one issue takes, for the machine model: cycles are these divided by the SM's rates.

    issues: warp instructions (each a slot of a sub-partition). macs: multiply-adds, at the rate of `rate` (f16, tf32, int8,
    fp8, fp4, f64: machine/units.py). shared_bytes: through the port of shared memory. global_bytes: from or to L2.
    columns: of tensor memory, through a sub-partition's path."""

    issues: int = 1
    macs: int = 0
    rate: str = ""
    shared_bytes: int = 0
    global_bytes: int = 0
    columns: int = 0


@dataclass(frozen=True)
class Atom:
    """One row. `name`: as the IR has it. `threads`: that issue it together (1: any one thread, or an elected one).
    `feature`: the field of the target (machine/targets.py) that says whether the instruction is there ("": everywhere).
    `instruction`: the row of the nvvm dialect that emits it."""

    name: str
    kind: str
    operands: tuple[Operand, ...]
    threads: int
    feature: str
    instruction: str
    cost: Cost = field(default_factory=Cost)
    shape: tuple[int, int, int] | None = None
    """(m, n, k) of a product."""

    def operand(self, name: str) -> Operand:
        """The operand called so. Raises KeyError."""
        for o in self.operands:
            if o.name == name:
                return o
        raise KeyError(name)


def available(target: Any, atom: Atom) -> bool:
    """Whether a target has the instruction."""
    if not atom.feature:
        return True
    answer = getattr(target, atom.feature)
    return bool(answer) if not isinstance(answer, tuple) else atom.shape in answer


def rows_and_columns(m: int, e: int, halves: int = 1, groups: int = 1) -> Layout:
    """The fragment that every matrix instruction has for A and D: thread t % 4 holds `e` neighbouring columns, t / 4 is
    the row, the next value steps eight rows, then 4 * e columns (`halves` times), and warps step sixteen rows (`groups`)."""
    threads = ((4, 8), (e * m, 1)) if groups == 1 else ((4, 8, groups), (e * m, 1, 16))
    values = [(e, m), (2, 8), (halves, 4 * e * m)]
    kept = [(n, d) for n, d in values if n > 1]
    return Layout((threads[0], tuple(n for n, _ in kept)), (threads[1], tuple(d for _, d in kept)))
