"""Which tiles only say where memory is accessed: offsets, pointers and masks of loads and stores through pointers.

    %o = muli %rows, %stride ; %p = addptr %base, %o ; %x = load %p, %m        %o, %p, %m do, %x doesn't

A thread computes them anew where it makes an access, of one access for several numbers, and a copy keeps a few: they never take
a register for each number, as tiles do that are computed with.
"""
from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue, Use

from tileiras.dialects import arith

ACCESSES = frozenset({"nv_tileaa.load", "nv_tileaa.store"})
LEADING = frozenset({"nv_tileaa.addptr", "nv_tileaa.splat", "nv_tileaa.broadcast", "nv_tileaa.view", "nv_tileaa.permute",
                     "nv_tileaa.make_range", "nv_tileaa.assume", "arith.constant"})
"""Ops besides elementwise ones that addresses are made by; what is loaded (an index of rows), reduced or carried from one
iteration to the next is a tile like others."""


def address_tiles(func: Operation) -> set[SSAValue]:
    """The tiles of an nv_tileaa function that lead nowhere but to pointers and masks of accesses."""
    found: set[SSAValue] = set()
    for op in reversed(list(func.walk())):      # what uses a value comes behind its op
        if (isinstance(op, arith.Elementwise) or op.name in LEADING) and len(op.results) == 1:
            result = op.results[0]
            if isinstance(result.type, TensorType) and all(_leads_to_access(use, found) for use in result.uses):
                found.add(result)
    return found


def _leads_to_access(use: Use, found: set[SSAValue]) -> bool:
    op: Operation = use.operation
    if op.name in ACCESSES:
        where = op.operands[use.index]
        return where is op.ptr or where is op.mask        # type: ignore[attr-defined]
    return len(op.results) == 1 and op.results[0] in found
