"""Copies by the tensor copy engine: one thread of the team issues the boxes of a tile.

    tma_load %map[%r, %c] -> %slot, %pipe[%i]
->  the first thread: for each box of the tile, cp.async.bulk.tensor [slot + byte], [map, {c + ..., r + ...}], [full[i]]

    tma_store %slot, %map[%r, %c]
->  the first thread: the same boxes the other way, as one group, and a wait until they are read

Which boxes, and where in the buffer each starts, follows from the map's tile (layout/descriptors.py). The stage's bytes were
announced at its `producer_acquire`.
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Operation, SSAValue

from tileiras.conversion.tileas_to_llvm.builder import I64
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, lowers
from tileiras.conversion.tileas_to_llvm.shared.pipes import barrier_at, only_if, pipe_of
from tileiras.layout.descriptors import BoxCopy, Boxes, boxes


def _coordinates(low: Lowering, coords: list[SSAValue], plan: Boxes, copy: BoxCopy) -> list[SSAValue]:
    """A box's first element, in the order of the map's dimensions."""
    return [low.b.add(coords[d], low.b.i32(copy.at[d])) for d in plan.order]


@lowers("nv_tileas.tma_load")
def tma_load(low: Lowering, op: Any) -> None:
    b = low.b
    plan = boxes(op.map.type.tile)
    tensor_map, slot = low.scalar(op.map), low.scalar(op.slot)
    coords = [low.scalar(v) for v in op.coords]
    full = pipe_of(low, op.pipe).full
    assert full is not None
    barrier = barrier_at(low, full, low.scalar(op.index))
    name = f"cp.async.bulk.tensor.g2s.cta.tile.{len(plan.order)}d"

    def issue() -> None:
        for copy in plan.copies:
            b.nvvm(name, [b.gep(slot, copy.byte), barrier, tensor_map, *_coordinates(low, coords, plan, copy), b.bits(0, I64),
                          b.false()])
    only_if(low, low.first_thread(), issue)


@lowers("nv_tileas.tma_store")
def tma_store(low: Lowering, op: Any) -> None:
    """The thread waits until the engine has read the buffer: so has who meets it afterwards."""
    b = low.b
    plan = boxes(op.map.type.tile)
    tensor_map, slot = low.scalar(op.map), low.scalar(op.slot)
    coords = [low.scalar(v) for v in op.coords]
    name = f"cp.async.bulk.tensor.s2g.tile.{len(plan.order)}d"

    def issue() -> None:
        for copy in plan.copies:
            b.nvvm(name, [b.gep(slot, copy.byte), tensor_map, *_coordinates(low, coords, plan, copy), b.bits(0, I64), b.false()])
        b.nvvm("cp.async.bulk.commit.group")
        b.nvvm("cp.async.bulk.wait.group.read", [b.i32(0)])
    chosen = low.chosen(op)
    only_if(low, low.first_thread() if chosen is None else b.and_(chosen, low.first_thread()), issue)


@lowers("nv_tileas.prefetch_tma_desc")
def prefetch_tma_desc(low: Lowering, op: Operation) -> None:
    only_if(low, low.first_thread(), lambda: low.b.nvvm("prefetch.tensormap", [low.scalar(op.operands[0])]))
