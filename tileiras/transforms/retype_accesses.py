"""`retype-accesses`: memory whose elements a program takes for others of the same width is accessed as these.

    %t, %k = tiled_load %v : memref<i16>             %q = ptr_to_ptr %p : ptr<bf16>
    %x = bitcast %t : bf16                    ->     %w = block_tile (make_memref %q) : memref<bf16>
                                                     %x, %k = tiled_load %w

Frontends without a type (NumPy has no bfloat16, no 8-bit floats) hand arrays over as integers, and kernels cast what they load and
what they store. With the cast in between no copy engine brings a tile to its product, and none takes it away. A cast behind ops
that only rename elements is moved in front of them. A load with a use that is no such cast stays, and so does one whose view pads
with a number that it may have as one type only.
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.transforms.rules import element_type, with_element
from tileiras.transforms.structure import insert_in_front, replace

Recast = dict[tuple[SSAValue, Attribute], SSAValue]
"""Of a view or pointers, and elements: the same memory as that of these elements."""
LOADS, STORES = (aa.TiledLoad, aa.Load), (aa.TiledStore, aa.Store)
RENAMES = frozenset({"nv_tileaa.permute", "nv_tileaa.view", "nv_tileaa.extract"})
PADDINGS = frozenset({"", "zero"})
"""All of whose bits are 0, as elements of any type."""
POINTING = (aa.Addptr, aa.Splat, aa.Broadcast, aa.View, aa.Permute, aa.Assume)
"""Ops that make pointers of pointers, their first operand, and mean the same for any elements of a width."""
DEEPEST = 32
"""Ops that made a pointer and are made again for others; of what is behind them, a pointer is cast."""


def run(module: Operation, context: Any) -> None:
    """Do it in place, for all functions."""
    for op in list(module.walk()):
        if isinstance(op, arith.Bitcast):
            _raise(op)
    recast: Recast = {}
    for op in list(module.walk()):
        if isinstance(op, LOADS):
            _retype_load(op, recast)
        elif isinstance(op, STORES):
            _retype_store(op, recast)


def _raise(cast: Operation) -> None:
    """Move a cast of loaded elements in front of what renames them, where nobody takes them under their new names otherwise."""
    element = element_type(cast.results[0].type)
    renames: list[Operation] = []
    origin: Any = cast.operands[0].owner
    while isinstance(origin, Operation) and origin.name in RENAMES and origin.results[0].has_one_use():
        renames.append(origin)
        origin = origin.operands[0].owner
    if not renames or not isinstance(origin, LOADS):
        return
    first = arith.Bitcast.create(operands=(origin.results[0],), location=cast.location,
                                 result_types=(with_element(origin.results[0].type, element),))
    insert_in_front(renames[-1], first)
    renamed = first.results[0]
    for rename in reversed(renames):
        renamed = _again(rename, renamed, with_element(rename.results[0].type, element))
    replace(cast, (renamed,))
    for rename in renames:
        replace(rename, ())


def _retype_load(load: Any, recast: Recast) -> None:
    """Let a weak load have the type that all its users cast it to."""
    users = [use.operation for use in load.results[0].uses]
    wanted = {user.results[0].type if isinstance(user, arith.Bitcast) else None for user in users}
    t = wanted.pop() if len(wanted) == 1 else None
    memory = None if t is None else _memory(load, load.operands[0], t, recast)
    if t is None or memory is None:
        return
    operands: list[SSAValue] = [memory, *load.operands[1:]]
    if isinstance(load, aa.Load) and load.other is not None:
        other = arith.Bitcast.create(operands=(load.other,), result_types=(t,), location=load.location)
        insert_in_front(load, other)
        operands[operands.index(load.other)] = other.results[0]
    new = type(load).create(operands=operands, result_types=(t, load.results[1].type), properties=load.properties,
                            location=load.location)
    insert_in_front(load, new)
    for user in users:
        replace(user, new.results[:1])
    replace(load, new.results)


def _retype_store(store: Any, recast: Recast) -> None:
    """Let a weak store have the type that its tile was cast from."""
    cast = store.source.owner
    if not isinstance(cast, arith.Bitcast):
        return
    place = 1 if isinstance(store, aa.TiledStore) else 0
    memory = _memory(store, store.operands[place], cast.operands[0].type, recast)
    if memory is not None:
        store.operands[place], store.operands[1 - place] = memory, cast.operands[0]
        if cast.results[0].first_use is None:
            replace(cast, ())


def _memory(access: Operation, old: SSAValue, tile: Attribute, recast: Recast) -> SSAValue | None:
    """The view or the pointers of an access, as to memory with a tile's elements; None where that isn't to be had."""
    if access.properties["mem_semantic"].data != "weak":       # type: ignore[attr-defined]
        return None
    element = element_type(tile)
    return _view(old, element, recast) if isinstance(old.type, aa.TiledViewType) else _pointers(old, element, recast, DEEPEST)


def _view(old: SSAValue, element: Attribute, recast: Recast) -> SSAValue | None:
    """A view's array as one of other elements, walked in the same tiles."""
    tiling, t = old.owner, old.type
    maker = tiling.operands[0].owner if isinstance(tiling, aa.BlockTile) else None
    assert isinstance(t, aa.TiledViewType)
    if not isinstance(tiling, aa.BlockTile) or not isinstance(maker, aa.MakeMemref) or t.padding.data not in PADDINGS:
        return None
    if (old, element) not in recast:
        memref = aa.MemRefType(element, t.memref.shape, t.memref.strides)
        array = maker.results[0]
        if (array, element) not in recast:
            base = _pointers(maker.operands[0], element, recast, DEEPEST)
            recast[array, element] = _again(maker, base, memref)
        view = aa.TiledViewType(memref, t.kind, t.tile_shape, t.dim_map, t.steps, t.padding, t.sparse_dim)
        recast[old, element] = _again(tiling, recast[array, element], view)
    return recast[old, element]


def _pointers(old: SSAValue, element: Attribute, recast: Recast, depth: int) -> SSAValue:
    """Pointers, of a tile or one, as such to other elements."""
    if (old, element) not in recast:
        owner, t = old.owner, with_element(old.type, aa.PtrType(element))
        if isinstance(owner, POINTING) and depth:
            recast[old, element] = _again(owner, _pointers(owner.operands[0], element, recast, depth - 1), t)
        else:
            cast = aa.PtrToPtr.create(operands=(old,), result_types=(t,))
            if isinstance(owner, Operation):
                assert owner.parent is not None
                owner.parent.insert_op_after(cast, owner)
            else:
                assert owner.first_op is not None
                insert_in_front(owner.first_op, cast)
            recast[old, element] = cast.results[0]
    return recast[old, element]


def _again(op: Operation, first: SSAValue, t: Attribute) -> SSAValue:
    """The result of an op's copy in front of it that has another first operand and another type."""
    new = type(op).create(operands=(first, *op.operands[1:]), result_types=(t,), properties=op.properties, location=op.location)
    insert_in_front(op, new)
    return new.results[0]
