"""`cse`: of pure ops that compute the same from the same, the first stands for all.

    %1 = arith.addi %a, %b;  %2 = arith.addi %a, %b;  use %2     ->   %1 = arith.addi %a, %b;  use %1

An op stands for later ones of its block and of the regions nested in it. Bodies of reductions and scans are worlds of
their own: nothing goes in or out. Ops with regions stay.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xdsl.ir import Operation

from tileiras.dialects.base import TileOp

ISOLATED = ("reduce", "scan", "func")
"""Ops, without their dialect, whose bodies share nothing with what is around them."""

Key = tuple[Any, ...]
Table = dict[Key, TileOp]


def key_of(op: TileOp) -> Key:
    """What makes two pure ops equal: class, operands, attributes, result types."""
    properties = op.properties
    attrs = tuple(sorted(properties.items())) if len(properties) > 1 else tuple(properties.items())
    return (type(op), tuple(op.operands), attrs, tuple(r.type for r in op.results))


def run(top: Operation, context: Any = None) -> None:
    """Remove repeated pure ops of a module or function in place."""
    frames: list[tuple[Iterator[Operation], list[Key], Table]] = []

    def enter(op: Operation, table: Table) -> None:
        if op.name.partition(".")[2] in ISOLATED:
            table = {}
        for region in reversed(op.regions):
            for block in reversed(region.blocks):
                frames.append((iter(tuple(block.ops)), [], table))

    enter(top, {})
    while frames:
        ops, added, table = frames[-1]
        for op in ops:
            if op.regions:
                enter(op, table)
                break
            if not isinstance(op, TileOp) or not op.PURE:
                continue
            key = key_of(op)
            first = table.setdefault(key, op)
            if first is op:
                added.append(key)
                continue
            for old, new in zip(op.results, first.results):
                old.replace_all_uses_with(new)
            op.detach()
            op.erase()
        else:
            frames.pop()
            for key in added:
                del table[key]
