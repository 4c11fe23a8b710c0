"""Loops that do nothing but load tiles by their counter and multiply them, for passes that make their steps along k shorter
(`split-steps`) or longer (`join-steps`).

    scf.for %k = %a to %b (%acc) {
      %x = tiled_load %v[%i, %k]
      %y = tiled_load %u[%k, %j]
      yield dot %x, %y, %acc
    }
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tileiras.analysis.reshapes import kept
from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.element import element_bytes, tile_bytes
from tileiras.dialects.nv_tileaa import int_array
from tileiras.transforms.rules import int_constant
from tileiras.transforms.structure import erase_unused, is_movable

LOAD, DOT, PERMUTE, CONVERT, VIEW = ("nv_tileaa.tiled_load", "nv_tileaa.dot", "nv_tileaa.permute", "arith.convertf",
                                     "nv_tileaa.view")
WAYS = (PERMUTE, CONVERT, VIEW)
"""What tiles go through between a load and a product, element by element: zero stays zero."""


class Steps(NamedTuple):
    """A loop, its products, their operands on their way from their loads, and these loads, each with the dimension along k."""
    func: Operation
    loop: Any
    dots: list[Any]
    tiles: dict[SSAValue, int]
    loads: list[tuple[Any, int]]

    def bytes_loaded(self) -> int:
        """By one step."""
        return sum(tile_bytes(load.results[0].type) for load, _ in self.loads)


def loops_of_steps(module: Operation, context: Any) -> Iterator[Steps]:
    """Such loops, where rings are made of what loops load."""
    if not context.target.has_cp_async or not context.uses("pipelines"):
        return
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileaa.func":
            for loop in [op for op in func.walk() if isinstance(op, arith.For)]:
                dots = [op for op in loop.body.block.ops if op.name == DOT]     # type: ignore[attr-defined]
                tiles = _tiles_of(loop) if dots else None
                if tiles is not None:
                    owners: list[tuple[Any, int]] = [(v.owner, dim) for v, dim in tiles.items()]
                    yield Steps(func, loop, dots, tiles, [(op, dim) for op, dim in owners if op.name == LOAD])


def _tiles_of(loop: Any) -> dict[SSAValue, int] | None:
    """The operands of the loop's products on their way from their loads, each with the dimension along k; None where the loop does
    anything else with them, or anything else."""
    body = loop.body.block
    if int_constant(loop.step) != 1 or "unsigned_cmp" in loop.properties or body.last_op.name != "scf.yield":
        return None
    found: dict[SSAValue, int] = {}
    pending: list[tuple[SSAValue, int]] = []
    for op in body.ops:
        if op.name == DOT:
            if {"pair", "packed"} & op.properties.keys() or not _is_summed(op, body):
                return None
            rank = len(op.operands[0].type.get_shape())
            pending += [(op.operands[0], rank - 1), (op.operands[1], rank - 2)]
        elif op is not body.last_op and op.name not in (LOAD, *WAYS):
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
            if not _is_counted(op, dim, body.args[0]):
                return None
        elif (before := _before(op, dim)) is not None:
            pending.append((op.operands[0], before))
        else:
            return None
    for v in found:
        if any(use.operation.name != DOT and not any(r in found for r in use.operation.results) for use in v.uses):
            return None
    if any(op.name != DOT and op is not body.last_op and op.results[0] not in found for op in body.ops):
        return None
    return None if any(use.operation.name != LOAD for use in body.args[0].uses) else found


def resize(load: Any, dim: int, extent: int, array: SSAValue, padding: str) -> None:
    """Let a load read tiles of this extent, of an array that differs from its own in extents."""
    old: Any = load.view.type
    shape = [n.data for n in old.tile_shape]
    shape[dim] = extent
    extents = int_array(shape)
    memref: Any = array.type
    view = aa.TiledViewType(memref, old.kind, extents, old.dim_map, extents, type(old.padding)(padding), old.sparse_dim)
    tiling = load.view.owner
    new = aa.BlockTile.make([array], [view])
    new.location = tiling.location
    maker: Any = array.owner
    after = tiling if array is tiling.operands[0] else maker
    after.parent.insert_op_after(new, after)
    load.operands[0] = new.results[0]
    erase_unused([tiling], is_movable)


def set_extents(tiles: dict[SSAValue, int], times: int, parts: int = 1) -> None:
    """Let the tiles be as many times as long along k, or as many parts of that."""
    for v, dim in tiles.items():
        t: Any = v.type
        shape = list(t.get_shape())
        shape[dim] = shape[dim] * times // parts
        v._type = TensorType(t.element_type, shape, t.encoding)


def sums_apart(dot: Operation) -> bool:
    """Whether a product of bytes may not be summed where it is added, but takes registers of its own (`choose-atoms`)."""
    t: Any = dot.operands[1].type
    return element_bytes(t.element_type) == 1 and not isinstance(t.element_type, IntegerType) and "fast_acc" not in dot.properties


def _is_summed(dot: Any, body: Block) -> bool:
    """Whether a product, or the ones in front of it that it goes on from, adds to what the loop carries, and to nothing else."""
    total: Any = dot.operands[2]
    while isinstance(total.owner, Operation) and total.owner.name == DOT and total.owner.parent is body:
        if not total.has_one_use():
            return False
        total = total.owner.operands[2]
    if not isinstance(total, BlockArgument) or total.owner is not body or not total.has_one_use():
        return False
    use = next(iter(dot.results[0].uses)) if dot.results[0].has_one_use() else None
    if use is None:
        return False
    if use.operation.name == DOT:
        return use.index == 2
    return use.operation is body.last_op and use.index == total.index - 1


def _before(op: Any, dim: int) -> int | None:
    """Which dimension of what an op is made from becomes this one of its result."""
    if op.name == PERMUTE:
        return op.properties["permutation"].data[dim].data
    if op.name == CONVERT:
        return dim
    return next((old for old, new in kept(op) or () if new == dim), None)


def _is_counted(load: Any, dim: int, counter: SSAValue) -> bool:
    """Whether a load's tiles follow each other along a dimension as the loop counts, and stand still along others."""
    view: Any = load.view.type
    return (load.mem_semantic.data == "weak" and view.kind.data == "partition" and load.view.owner.name == "nv_tileaa.block_tile"
            and "cta_copies" not in load.properties and [i for i, c in enumerate(load.coords) if c is counter] == [dim]
            and load.results[1].first_use is None)
