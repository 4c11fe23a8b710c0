"""Copies by the tensor copy engine: one thread of the team issues the boxes of a tile.

    tma_load %map[%r, %c] -> %slot, %pipe[%i]
->  the first thread: for each box of the tile, cp.async.bulk.tensor [slot + byte], [map, {c + ..., r + ...}], [full[i]]
    of a pair of CTAs that multiply together: told to the barrier of the one that begins the products (.cta_group::2)
    with `cta_copies`: for each box of this CTA's part of it, to all CTAs that load the same (.multicast::cluster)

    tma_store %slot, %map[%r, %c]
->  the first thread: the same boxes the other way, as one group, and a wait until they are read (none if `in_flight`); with a
    mode, reductions

    store_wait {pending = n}
->  the first thread: cp.async.bulk.wait_group.read n (without .read if `written`)

Which boxes, and where in the buffer each starts, follows from the map's tile (layout/descriptors.py). The stage's bytes were
announced at its `producer_acquire`.
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Operation, SSAValue

from tileiras.analysis.tma import REDUCTIONS
from tileiras.conversion.tileas_to_llvm.builder import I16, I64
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, lowers
from tileiras.conversion.tileas_to_llvm.shared.pipes import barrier_at, barrier_of_pair, only_first_where, only_if, pipe_of
from tileiras.dialects import llvm
from tileiras.dialects.llvm import ptr
from tileiras.layout.atoms.umma import PAIR
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
    pipe = pipe_of(low, op.pipe)
    assert pipe.full is not None
    barrier = barrier_at(low, pipe.full, low.scalar(op.index))
    if op.cta_copies is not None:
        told = barrier_of_pair(low, barrier) if pipe.pair else barrier
        only_if(low, low.first_thread(), lambda: _load_for_all(low, op, plan, tensor_map, slot, told, coords, pipe.pair))
        return
    rank = len(plan.order)

    def issue() -> None:
        if pipe.pair:
            told, place = barrier_of_pair(low, barrier), b.cast("addrspacecast", slot, ptr(llvm.CLUSTER))
            for copy in plan.copies:
                b.nvvm(f"cp.async.bulk.tensor.g2s.tile.{rank}d",
                       [b.gep(place, copy.byte), told, tensor_map, *_coordinates(low, coords, plan, copy), b.bits(0, I16),
                        b.bits(0, I64), b.false(), b.false(), b.i32(PAIR)])
            return
        name = f"cp.async.bulk.tensor.g2s.cta.tile.{rank}d"
        for copy in plan.copies:
            b.nvvm(name, [b.gep(slot, copy.byte), barrier, tensor_map, *_coordinates(low, coords, plan, copy), b.bits(0, I64),
                          b.false()])
    only_if(low, low.first_thread(), issue)


def _load_for_all(low: Lowering, op: Any, plan: Boxes, tensor_map: SSAValue, slot: SSAValue, barrier: SSAValue,
                  coords: list[SSAValue], pair: bool) -> None:
    """This CTA's part of a tile goes to the same place, and is told to the same barrier, in all CTAs that want it (of pairs to that
    of each one's leader)."""
    b = low.b
    copies = op.cta_copies.data
    tile = op.map.type.tile
    rank = b.nvvm("read.ptx.sreg.cluster.ctarank")[0]
    part = b.lshr(b.and_(rank, b.i32(copies)), (copies & -copies).bit_length() - 1)
    at, rest = list(coords), part
    for d in reversed(plan.order):      # rows are numbered fastest
        cuts = op.shared.data[d].data
        if cuts > 1:
            at[d] = b.add(at[d], b.mul(b.and_(rest, b.i32(cuts - 1)), b.i32(tile.shape[d])))
            rest = b.lshr(rest, cuts.bit_length() - 1)
    place = b.cast("addrspacecast", b.gep(slot, b.mul(part, b.i32(tile.num_bytes))), ptr(llvm.CLUSTER))
    wanting = sum(1 << n for n in range(copies + 1) if not n & ~copies)     # of the CTA in whose rank these bits are 0
    receivers = b.cast("trunc", b.shl(b.i32(wanting), b.and_(rank, b.i32(~copies))), I16)
    for copy in plan.copies:
        b.nvvm(f"cp.async.bulk.tensor.g2s.tile.{len(plan.order)}d",
               [b.gep(place, copy.byte), barrier, tensor_map, *_coordinates(low, at, plan, copy), receivers, b.bits(0, I64),
                b.true(), b.false(), b.i32(PAIR if pair else 0)])


@lowers("nv_tileas.tma_store")
def tma_store(low: Lowering, op: Any) -> None:
    """The thread waits until the engine has read the buffer, at once or at a `store_wait`: so has who meets it afterwards."""
    b = low.b
    plan = boxes(op.map.type.tile)
    tensor_map, slot = low.scalar(op.map), low.scalar(op.slot)
    coords = [low.scalar(v) for v in op.coords]
    mode = op.properties.get("rmw_mode")
    way = "s2g" if mode is None else f"reduce.{REDUCTIONS[mode.data][0]}"
    name = f"cp.async.bulk.tensor.{way}.tile.{len(plan.order)}d"

    def issue() -> None:
        for copy in plan.copies:
            b.nvvm(name, [b.gep(slot, copy.byte), tensor_map, *_coordinates(low, coords, plan, copy), b.bits(0, I64), b.false()])
        b.nvvm("cp.async.bulk.commit.group")
        if "in_flight" not in op.properties:
            b.nvvm("cp.async.bulk.wait.group.read", [b.i32(0)])
    only_first_where(low, low.chosen(op), issue)


@lowers("nv_tileas.store_wait")
def store_wait(low: Lowering, op: Any) -> None:
    name = "cp.async.bulk.wait.group" if "written" in op.properties else "cp.async.bulk.wait.group.read"
    only_if(low, low.first_thread(), lambda: low.b.nvvm(name, [low.b.i32(op.properties["pending"].data)]))


@lowers("nv_tileas.prefetch_tma_desc")
def prefetch_tma_desc(low: Lowering, op: Operation) -> None:
    only_if(low, low.first_thread(), lambda: low.b.nvvm("prefetch.tensormap", [low.scalar(op.operands[0])]))
