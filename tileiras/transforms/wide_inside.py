"""`wide-inside`: accesses that take several elements at a time wherever all of these are in bounds.

    %v = block_tile %m : memref<?xf16, strides = [1]>, tile = [1024]      (nobody knows what divides %m's length)
    %x = nv_tileas.tiled_load %v[%i] {contiguous = 0, runs = [1], inside = 8}
->  %x = nv_tileas.tiled_load %v[%i] {contiguous = 0, runs = [8], narrow = 1}

All tiles but an array's last ones lie within it. A thread looks once whether all that it moves is in bounds, and goes one of three
ways: by wide accesses; by wide accesses each with its predicate, where the array's end cuts none; by narrow ones. So an array of
any length is read and written as fast as one whose length is known to be a multiple. Not small tiles beside larger ones that go by
single elements anyhow, since rows don't begin at multiples: they meet in one layout. Beside products the engine and rings bring
tiles, which have other ways to do without.
"""
from __future__ import annotations

from math import prod
from typing import Any

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Operation

from tileiras.analysis.access import contiguous_of, runs_of
from tileiras.analysis.access_facts import NARROW_BYTES
from tileiras.analysis.agents import WARP_THREADS
from tileiras.analysis.layout_choice import moved_bytes, tile_of
from tileiras.dialects.nv_tileaa import int_array

LEAST_ACCESSES = 4
"""Narrow accesses of a thread from which on looking at bounds first pays."""
DOTS = ("nv_tileas.dot", "nv_tileas.dot_scaled")


def run(module: Operation, context: Any) -> None:
    """Widen the accesses of each function without products, in place."""
    if not context.uses("wide"):
        return
    for func in module.regions[0].block.ops:
        if func.name != "nv_tileas.func":
            continue
        ops = list(func.walk())
        if any(op.name in DOTS for op in ops):
            continue
        threads: int = WARP_THREADS * func.properties["num_warps"].data   # type: ignore[attr-defined]
        known = [op for op in ops if contiguous_of(op) is not None]
        least = max((_elements(op) for op in known if _stays_narrow(op)), default=0)
        for op in known:
            inside: Any = op.properties.pop("inside", None)
            if inside is not None and _elements(op) > least:
                _widen(op, inside.data, threads)


def _widen(op: Operation, inside: int, threads: int) -> None:
    dim, runs = contiguous_of(op), runs_of(op)
    assert dim is not None
    if _elements(op) >= LEAST_ACCESSES * runs[dim] * threads:
        op.properties["narrow"] = IntAttr(runs[dim])
        op.properties["runs"] = int_array(inside if d == dim else run for d, run in enumerate(runs))


def _stays_narrow(op: Operation) -> bool:
    """Whether an access is narrow anyhow: tiles that meet its own had better lie as it does, by single elements."""
    dim, tile = contiguous_of(op), tile_of(op)
    return "inside" not in op.properties and dim is not None and runs_of(op)[dim] * moved_bytes(tile) <= NARROW_BYTES and \
        tile.type.get_shape()[dim] > runs_of(op)[dim]       # type: ignore[attr-defined]


def _elements(op: Operation) -> int:
    return prod(tile_of(op).type.get_shape())     # type: ignore[attr-defined]
