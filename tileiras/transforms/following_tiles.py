"""Which iterations' tiles lie side by side in memory, so that one access a row brings several of them?

    %v = block_tile %m : partition, tile = [128, 4]         %w = block_tile %m : partition, tile = [128, 16]
    scf.for %i = 0 to %n step 1                             scf.for %i = 0 to %whole step 4
      %x = tiled_load %v[%j, %i] {stretch = 16}       ->      %y = tiled_load %w[%j, %i / 4]
                                                              %x0 = extract %y[0, 0] ... %x3 = extract %y[0, 3]

Rows of four bytes (scales of block-scaled products, say) take an access a row each iteration, in a line of its own, of which the
next iterations want what follows.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntegerAttr, TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.access import contiguous_of, runs_of
from tileiras.dialects import arith, nv_tileas
from tileiras.dialects.nv_tileaa import TiledViewType, int_array, int_values
from tileiras.dialects.nv_tileas import layout_of, with_layout
from tileiras.layout.linear import LinearLayout, dim_bits, log2
from tileiras.layout.shape_rules import embed
from tileiras.transforms.rules import int_constant
from tileiras.transforms.structure import is_defined_in


def tiles_at_once(loop: Operation, load: Any) -> int:
    """How many iterations' tiles one access a row may bring, from each iteration whose number is a multiple of that on; 1: none
    but its own."""
    stretch: Any = load.properties.get("stretch")
    dim = contiguous_of(load)
    if stretch is None or dim is None or not isinstance(load.view.owner, nv_tileas.OPS["nv_tileas.block_tile"]):
        return 1
    body = loop.regions[0].block
    times = stretch.data // int_values(load.view.type.tile_shape)[dim]
    fixed = [load.view, *(v for d, v in enumerate(load.coords) if d != dim)]
    if load.coords[dim] is not body.args[0] or any(is_defined_in(v, body) for v in fixed):
        return 1
    lower, step = int_constant(loop.operands[0]), int_constant(loop.operands[2])
    return times if lower is not None and lower % times == 0 and step == 1 else 1


def joined_load(load: Any, values: dict[SSAValue, SSAValue], times: int, token: SSAValue | None) -> list[Operation]:
    """The load of so many iterations' tiles from one on whose number is a multiple of that; first the ops that it needs. `values`:
    what those of the load are in that iteration. `token`: what it waits for."""
    dim, view, layout = contiguous_of(load), load.view, joined_layout(load, times)
    tile: Any = load.results[0].type
    assert dim is not None and layout is not None
    wide = view.owner.clone()
    wide.results[0]._type = joined_view(view.type, dim, times)
    number: Any = values.get(load.coords[dim], load.coords[dim])
    factor = arith.Constant.make([], [number.type], {"value": IntegerAttr(times, number.type)})
    at = arith.Divui.make([number, factor.results[0]], [number.type])
    known = {view: wide.results[0], load.coords[dim]: at.results[0]}
    again = load.clone({**values, **known, **({load.token: token} if token is not None else {})})
    again.results[0]._type = with_layout(TensorType(tile.element_type, layout.shape), layout)
    again.properties["runs"] = int_array(n * times if d == dim else n for d, n in enumerate(runs_of(load)))
    del again.properties["stretch"]
    ops = [wide, factor, at, again]
    for op in ops:
        op.location = load.location
    return ops


def joined_view(view: TiledViewType, dim: int, times: int) -> TiledViewType:
    """The view whose tiles are so many of these behind one another along a dimension."""
    shape = [n * times if d == dim else n for d, n in enumerate(int_values(view.tile_shape))]
    steps = [n * times if d == dim else n for d, n in enumerate(int_values(view.steps))]
    return TiledViewType(view.memref, view.kind, int_array(shape), view.dim_map, int_array(steps), view.padding, view.sparse_dim)


def joined_layout(load: Operation, times: int) -> LinearLayout | None:
    """The layout of so many tiles behind one another, in which each thread has the rows of all that it has of one; None where a
    row isn't one thread's, in registers that follow one another."""
    layout, dim = layout_of(load.results[0]), contiguous_of(load)
    assert dim is not None
    extent = layout.shape[dim]
    if layout.contiguous(dim) != extent:
        return None
    whole = embed(layout, [n * times if d == dim else n for d, n in enumerate(layout.shape)])
    low, first = dim_bits(whole.shape)[dim][0] + log2(extent), log2(extent)
    more = tuple(1 << low + i for i in range(log2(times)))
    return LinearLayout(whole.shape, (*whole.reg[:first], *more, *whole.reg[first:]), whole.lane, whole.warp)
