"""`provide-scratch`: what scans exchange between warps, and what one thread prints, gets its buffers.

    print "%f", %x                          %b = alloc_tensor ; store_shared %x, %b ; print "%f", %b
    %y = scan %x                     ->     %s = alloc_tensor ; %y = scan %x, %s
    %y = cta_exchange %x {peer}             %e = alloc_tensor ; store_shared %x, %e ; cluster_barrier ; %y = load_shared %e {peer} ;
                                            cluster_barrier

Tiles that are too large to be printed from buffers side by side fill a single one in turn, piece by piece.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntegerType, TensorType, UnitAttr
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.layout_rules import dim_of
from tileiras.dialects import nv_tileas
from tileiras.dialects.element import element_bytes
from tileiras.dialects.nv_tileas import BufferType, SharedLayoutAttr, layout_of
from tileiras.layout.convert import through_shared
from tileiras.layout.scanning import Exchange, steps_of
from tileiras.layout.shared import SharedLayout
from tileiras.transforms.materialize_convert_layout import SCRATCH_SHARE

EXCHANGE_SHARE = 4
"""A scan's totals may use this part (one n-th) of the block's shared memory; more go in several rounds."""


def run(module: Operation, context: Any) -> None:
    """Give the ops their buffers, in place."""
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            for op in [op for op in func.walk() if op.name in ("nv_tileas.scan", "nv_tileas.print")]:
                if not nv_tileas.scratch_of(op):
                    (_scan if op.name == "nv_tileas.scan" else _print)(op, context.target)
            for op in [op for op in func.walk() if op.name == "nv_tileas.cta_exchange"]:
                _exchange(op)


def _alloc(op: Operation, t: BufferType) -> SSAValue:
    alloc = nv_tileas.AllocTensor.make([], [t])
    alloc.location = op.location
    assert op.parent is not None
    op.parent.insert_op_before(alloc, op)
    return alloc.results[0]


def _exchange(op: Operation) -> None:
    """Each CTA puts its tile into a buffer of its own; the other reads it there, and all wait until that is done."""
    source, result = op.operands[0], op.results[0]
    t: Any = source.type
    tensor = isinstance(t, TensorType)
    buffer = _alloc(op, BufferType(t.element_type if tensor else t, SharedLayoutAttr(
        SharedLayout.row_major(t.get_shape() if tensor else ()))))
    store = nv_tileas.StoreShared.make([source, buffer, None], [], {"owners": UnitAttr()})
    load = nv_tileas.LoadShared.make([buffer, None, None], [t], {"peer": op.properties["peer"]})
    assert op.parent is not None
    for new in (store, nv_tileas.ClusterBarrier.make(), load, nv_tileas.ClusterBarrier.make()):
        new.location = op.location
        op.parent.insert_op_before(new, op)
    result.replace_all_uses_with(load.results[0])
    op.detach()
    op.erase()


def _bytes(count: int) -> BufferType:
    """A buffer of that many bytes, or the next power of two."""
    return BufferType(IntegerType(8), SharedLayoutAttr(SharedLayout.row_major((1 << (count - 1).bit_length(),))))


def _scan(op: Operation, target: Any) -> None:
    sources = list(op.operands)
    steps = steps_of(layout_of(sources[0]), dim_of(op))
    budget = target.max_static_smem // EXCHANGE_SHARE
    needed = [through_shared(step.parts, step.gathered, 8 * element_bytes(v.type.element_type), budget).bytes  # type: ignore[attr-defined]
              for v in sources for step in steps.walk if isinstance(step, Exchange)]
    if needed:
        op.operands = [*sources, _alloc(op, _bytes(max(needed)))]


def _print(op: Operation, target: Any) -> None:
    args: list[SSAValue] = list(op.args)  # type: ignore[attr-defined]
    tiles = {v: _tile_bytes(v.type) for v in args if isinstance(v.type, TensorType)}
    if not tiles:
        return
    granted = 1 << (target.max_static_smem // SCRATCH_SHARE).bit_length() - 1
    cls: Any = type(op)
    token = op.token  # type: ignore[attr-defined]
    types = [op.results[0].type if op.results else None]
    block = op.parent
    assert block is not None
    if sum(tiles.values()) > granted:
        scratch = _alloc(op, _bytes(min(granted, max(tiles.values()))))
        new = cls.make([[*args, scratch], token], types, {**_own(op), "in_turn": UnitAttr()})
    else:
        buffers: dict[SSAValue, SSAValue] = {}
        for v in tiles:
            t: Any = v.type
            buffers[v] = _alloc(op, BufferType(t.element_type, SharedLayoutAttr(SharedLayout.row_major(t.get_shape()))))
            store = nv_tileas.StoreShared.make([v, buffers[v], None])
            store.location = op.location
            block.insert_op_before(store, op)
        new = cls.make([[buffers.get(v, v) for v in args], token], types, _own(op))
    new.location = op.location
    block.insert_op_before(new, op)
    for old, fresh in zip(op.results, new.results):
        old.replace_all_uses_with(fresh)
    op.detach()
    op.erase()


def _tile_bytes(t: Any) -> int:
    return element_bytes(t.element_type) * t.encoding.data.size


def _own(op: Operation) -> dict[str, Any]:
    return {"format": op.properties["format"]}
