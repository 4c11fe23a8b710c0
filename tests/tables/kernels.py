"""Kernels that compute many cells at once on the same operands.

    groups(cells)                  cells that share operands, at most so many a kernel
    build(group, per_block)        the bytecode of kernel `kernel`: a pointer for each operand, then one for each cell
    arguments(group, columns)      fresh arrays for it
    results(group, arrays)         what the kernel wrote, one array a cell

A block reads `per_block` elements of each operand. Numbers of four bits lie two in a byte.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.ir import Attribute, SSAValue

from tests.interp.build import ARRAYS, TOKEN, WEAK, Kernel, pointer, tile
from tests.tables.cells import POINTER_CASTS, Cell, pointer_types
from tests.tables.inputs import DOMAINS, profile
from tileiras.bytecode import write
from tileiras.dialects.cuda_tile import attrs, ops

NIBBLES: dict[str, Any] = {"i4": ml_dtypes.int4, "f4E2M1FN": ml_dtypes.float4_e2m1fn}
LARGE_OPS = (*DOMAINS, "pow", "remf", "fpowi")
"""Ops that a whole function stands for."""
VERSION = "13.4"


def groups(cells: Sequence[Cell], most: int = 24) -> list[list[Cell]]:
    found: dict[tuple[str, tuple[str, ...], bool], list[list[Cell]]] = {}
    for cell in cells:
        large = cell.op in LARGE_OPS
        # Cells that need nothing else read what cells of the same operands read.
        mine = found.setdefault((profile(cell), cell.operands, large), [[]])
        if len(mine[-1]) >= (6 if large else most):
            mine.append([])
        mine[-1].append(cell)
    return [g for chunks in found.values() for g in chunks]


def per_block(group: Sequence[Cell]) -> int:
    """Four elements a thread, so that instructions for pairs and fours are used; one where code is long."""
    return 128 if group[0].op in LARGE_OPS else 512


def _memory(element: str) -> tuple[str, int]:
    """The element type in memory, and how many numbers one holds."""
    return ("i8", 2) if element in NIBBLES else (element, 1)


def _at(kernel: Kernel, base: SSAValue, block: SSAValue, element: str, count: int) -> SSAValue:
    moved = kernel.add(ops.MulI.make([block, kernel.constant("i32", count)], [tile("i32")],
                                     {"overflow": attrs.OverflowAttr("none")}))
    return kernel.add(ops.Offset.make([base, moved], [pointer(element)]))


def _apply(kernel: Kernel, cell: Cell, values: list[SSAValue], count: int) -> SSAValue:
    if cell.op not in POINTER_CASTS:
        return kernel.add(cell.operation().make(values, [tile(cell.result, count)], cell.properties()))
    first, *rest = pointer_types(cell)
    shaped = [tile(p.element_type, count) for p in (first, *rest)]      # type: ignore[attr-defined]
    value = kernel.add(ops.IntToPtr.make(values, [shaped[0]]))
    for kind in shaped[1:]:
        value = kernel.add(ops.PtrToPtr.make([value], [kind]))
    return kernel.add(ops.PtrToInt.make([value], [tile("i64", count)]))


def build(group: Sequence[Cell]) -> bytes:
    count = per_block(group)
    sources = group[0].operands
    kinds: list[Attribute] = [pointer(_memory(t)[0]) for t in (*sources, *(c.result for c in group))]
    kernel = Kernel(*kinds)
    block = kernel.add(ops.GetTileBlockId.make([], [tile("i32")] * 3))[0]
    bases = []
    for argument, element in zip(list(kernel.args), (*sources, *(c.result for c in group))):
        memory, several = _memory(element)
        bases.append(_at(kernel, argument, block, memory, count // several))
    values = []
    for base, element in zip(bases, sources):
        memory, several = _memory(element)
        x = kernel.load(base, memory, (count // several,))
        values.append(kernel.add(ops.Unpack.make([x], [tile(element, count)])) if several > 1 else x)
    for base, cell in zip(bases[len(sources):], group):
        y = _apply(kernel, cell, values, count)
        memory, several = _memory(cell.result)
        if several > 1:
            y = kernel.add(ops.Pack.make([y], [tile("i8", count // several)]))
        pointers = kernel.pointers(base, memory, count // several)
        kernel.add(ops.StorePtrTko.make([pointers, y, None, None], [TOKEN], {"memory_ordering_semantics": WEAK}))
    return write(kernel.module(), VERSION)                              # type: ignore[arg-type]


def to_memory(x: np.ndarray, element: str) -> np.ndarray:
    if element not in NIBBLES:
        return np.ascontiguousarray(x, ARRAYS[element])
    low = x.astype(np.int8).view(np.uint8) & 15 if element == "i4" else x.view(np.uint8) & 15
    return (low[0::2] | low[1::2] << 4).view(np.int8)


def from_memory(x: np.ndarray, element: str) -> np.ndarray:
    if element not in NIBBLES:
        return x
    halves = np.stack([x.view(np.uint8) & 15, x.view(np.uint8) >> 4], axis=1).reshape(-1)
    if element == "i4":
        return ((halves.astype(np.int8) ^ 8) - 8).astype(ml_dtypes.int4)
    return halves.view(NIBBLES[element])


def arguments(group: Sequence[Cell], columns: Sequence[np.ndarray]) -> list[np.ndarray]:
    length = len(columns[0])
    inputs = [to_memory(x, t) for x, t in zip(columns, group[0].operands)]
    outputs = []
    for cell in group:
        memory, several = _memory(cell.result)
        outputs.append(np.zeros(length // several, ARRAYS[memory]))
    return [*inputs, *outputs]


def results(group: Sequence[Cell], arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [from_memory(x, c.result) for c, x in zip(group, arrays[len(group[0].operands):])]
