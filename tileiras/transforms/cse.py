"""`cse`: of pure ops that compute the same from the same, the first stands for all.

    %1 = arith.addi %a, %b;  %2 = arith.addi %a, %b;  use %2     ->   %1 = arith.addi %a, %b;  use %1

An op stands for later ones of its block and of the regions nested in it. Bodies of reductions and scans are worlds of
their own: nothing goes in or out. Ops with regions stay.

A load of what nobody writes while the kernel runs (analysis/invariant_loads.py) stands for the same load later in its block, if
the tile is small enough to be kept: rows that are read for a mean, and again to be scaled, are read once. So does any weak load
for one that waits for the same token: nothing orders a write between them, though there may be one behind both (rows that are
replaced by their softmax).
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation

from tileiras.analysis.invariant_loads import loads_by_order
from tileiras.dialects.base import TileOp
from tileiras.dialects.element import tile_bytes
from tileiras.dialects.nv_tileaa import MemTokenType

ISOLATED = ("reduce", "scan", "func")
"""Ops, without their dialect, whose bodies share nothing with what is around them."""

KEPT_BYTES = 16384
"""What a loaded tile may have at most to be kept for later: 32 registers a thread of four warps."""
KEPT_ALONE = 4 * KEPT_BYTES
"""The same in kernels that multiply nothing: 64 registers of eight warps, which no accumulators want."""

Key = tuple[Any, ...]
Table = dict[Key, TileOp]


def key_of(op: TileOp) -> Key:
    """What makes two pure ops equal: class, operands, attributes, result types."""
    properties = op.properties
    attrs = tuple(sorted(properties.items())) if len(properties) > 1 else tuple(properties.items())
    return (type(op), tuple(op.operands), attrs, tuple(r.type for r in op.results))


def load_key(op: TileOp, invariant: bool) -> Key:
    """What makes two weak loads equal in one block: all, but their tokens where their memory isn't written."""
    return (op.parent, type(op), tuple(v for v in op.operands if not (invariant and isinstance(v.type, MemTokenType))),
            tuple(sorted(op.properties.items())), op.results[0].type)


def _kept(func: Operation, loads: Iterable[Operation]) -> Iterator[Operation]:
    """The loads whose tiles may be kept."""
    most = 0
    for load in loads:
        tile = load.results[0].type
        if isinstance(tile, TensorType) and tile_bytes(tile) > KEPT_BYTES:
            most = most or (KEPT_BYTES if any(op.name.endswith((".dot", ".dot_scaled")) for op in func.walk()) else KEPT_ALONE)
            if tile_bytes(tile) > most:
                continue
        yield load


def run(top: Operation, context: Any = None) -> None:
    """Remove repeated pure ops, and loads of what stays, of a module or function in place."""
    funcs = [op for op in (top, *top.regions[0].block.ops) if op.name == "nv_tileaa.func"]
    found = [loads_by_order(func) for func in funcs]
    invariant = set[Operation]().union(*(f.invariant for f in found))
    loads = {load for func, f in zip(funcs, found) for load in _kept(func, f.weak)}
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
            if not isinstance(op, TileOp) or not (op.PURE or op in loads):
                continue
            key = key_of(op) if op.PURE else load_key(op, op in invariant)
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
