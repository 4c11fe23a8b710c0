"""`split-steps`: a loop goes in parts through tiles that shared memory doesn't hold twice, in as many times as many iterations.

    scf.for %k = %a to %b {                                  scf.for %k = %a * 2 to %b * 2 {
      %x = tiled_load %v[%i, %k] : 256x128                     %x = tiled_load %w[%i, %k] : 256x64
      %y = tiled_load %u[%k, %j] : 128x128           ->        %y = tiled_load %t[%k, %j] : 64x128
      %d = dot %x, %y, %acc                                    %d = dot %x, %y, %acc
    }                                                        }

Products would take the parts through shared memory anyway, one after the other (`k_slices`), but out of registers, with nothing
on its way meanwhile; of tiles that fit twice there are rings. Only loops are split that do nothing but load such tiles by their
counter, turn and convert them, and multiply; the sums are as before but for the order that products have inside of an instruction.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.axis import AxisAnalysis
from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.element import element_bytes
from tileiras.dialects.nv_tileaa import int_array
from tileiras.transforms.choose_atoms import parts_of_k, warp_atom
from tileiras.transforms.rules import build, int_constant

LOAD, DOT, PERMUTE, CONVERT = "nv_tileaa.tiled_load", "nv_tileaa.dot", "nv_tileaa.permute", "arith.convertf"
LEAST_BYTES = 64
"""Of a part along k: what memory and shared memory move at once."""


def run(module: Operation, context: Any) -> None:
    """Split the loops, in place."""
    if not context.target.has_cp_async or not context.uses("pipelines"):
        return
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileaa.func":
            for loop in [op for op in func.walk() if isinstance(op, arith.For)]:
                parts = max((parts_of_k(op, warp_atom(op, context.target), context) for op in loop.body.block.ops
                             if op.name == DOT), default=1)
                if parts > 1 and (tiles := _tiles(loop)) is not None and _is_wide(tiles, parts) and _counts_far(func, loop, parts):
                    _split(loop, tiles, parts)


def _tiles(loop: Any) -> dict[SSAValue, int] | None:
    """The operands of the loop's products on their way from their loads, each with the dimension along k; None where the loop
    does anything else with them, or anything else."""
    body = loop.body.block
    counter = body.args[0]
    found: dict[SSAValue, int] = {}
    pending: list[tuple[SSAValue, int]] = []
    for op in body.ops:
        if op.name == DOT:
            if len(op.operands[0].type.get_shape()) != 2 or {"pair", "packed"} & op.properties.keys():
                return None
            pending += [(op.operands[0], 1), (op.operands[1], 0)]
        elif op is not body.last_op and op.name not in (LOAD, PERMUTE, CONVERT):
            return None
    while pending:
        v, dim = pending.pop()
        if v in found:
            if found[v] != dim:
                return None
            continue
        found[v] = dim
        op: Any = v.owner
        if not isinstance(op, Operation) or op.parent is not body:
            return None
        if op.name == LOAD:
            if not _is_counted(op, dim, counter):
                return None
        elif op.name in (PERMUTE, CONVERT):
            properties: dict[str, Any] = op.properties
            pending.append((op.operands[0], properties["permutation"].data[dim].data if op.name == PERMUTE else dim))
        else:
            return None
    for v in found:
        if any(use.operation.name != DOT and not any(r in found for r in use.operation.results) for use in v.uses):
            return None
    if any(op.name != DOT and op is not body.last_op and op.results[0] not in found for op in body.ops):
        return None
    return None if any(use.operation.name != LOAD for use in counter.uses) else found


def _is_counted(load: Any, dim: int, counter: SSAValue) -> bool:
    """Whether a load's tiles follow each other along a dimension as the loop counts, and stand still along others."""
    view: Any = load.view.type
    return (load.mem_semantic.data == "weak" and view.kind.data == "partition" and load.view.owner.name == "nv_tileaa.block_tile"
            and "cta_copies" not in load.properties and [i for i, c in enumerate(load.coords) if c is counter] == [dim]
            and load.results[1].first_use is None)


def _is_wide(tiles: dict[SSAValue, int], parts: int) -> bool:
    """Whether parts of the tiles are worth loading."""
    types: list[tuple[Any, int]] = [(v.type, dim) for v, dim in tiles.items()]
    return all(t.get_shape()[dim] % parts == 0 and t.get_shape()[dim] // parts * element_bytes(t.element_type) >= LEAST_BYTES
               for t, dim in types)


def _counts_far(func: Operation, loop: Any, parts: int) -> bool:
    """Whether the loop counts by one, and its counter can count that many times as far."""
    if int_constant(loop.step) != 1 or "unsigned_cmp" in loop.properties:
        return False
    axis = AxisAnalysis(func)
    least, most = axis.bounds(loop.lower)[0], axis.bounds(loop.upper)[1]
    return least is not None and most is not None and least >= 0 and most * parts < 1 << loop.step.type.width.data - 1


def _split(loop: Any, tiles: dict[SSAValue, int], parts: int) -> None:
    for i in (0, 1):
        kind = loop.operands[i].type
        times = build(loop, arith.Constant, (), kind, {"value": IntegerAttr(parts, kind)})
        loop.operands[i] = build(loop, arith.Muli, (loop.operands[i], times), kind)
    for v, dim in tiles.items():
        t: Any = v.type
        shape = list(t.get_shape())
        shape[dim] //= parts
        v._type = TensorType(t.element_type, shape, t.encoding)
        op: Any = v.owner
        if op.name == LOAD:
            _load_part(op, dim, shape)


def _load_part(load: Any, dim: int, shape: list[int]) -> None:
    """Let a load read tiles of this shape. A part may begin behind the end of an array in which the whole begins."""
    old: Any = load.view.type
    extents = int_array(shape)
    view = aa.TiledViewType(old.memref, old.kind, extents, old.dim_map, extents, old.padding, old.sparse_dim)
    block = load.view.owner
    new = aa.BlockTile.make([block.operands[0]], [view])
    new.location = block.location
    block.parent.insert_op_after(new, block)
    load.operands[0] = new.results[0]
    known, before = load.properties.get("inbounds"), load.properties.get("outside")
    if known is None or (isinstance(known, ArrayAttr) and not known.data[dim].data):
        flags = [0] * len(shape) if before is None else [flag.data for flag in before.data]
        flags[dim] = 1
        load.properties["outside"] = int_array(flags)
