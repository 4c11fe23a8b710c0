"""Which small tiles can one warp of a load agent bring to a ring by way of registers, and in which layout?

    %x = tiled_load %v : tensor<4x128xf8E8M0FNU>          128 threads with 4 bytes each   ->   32 threads with 4 words each
    %y = permute %x
    store_shared %y, %slot

Layouts are chosen before there are agents, for all warps that compute; a load agent that repeats such a tile has as many, though
the copy engine does nearly all of its work. They take registers from the other agent, and the SM has room for fewer blocks. Where
tiles come from views and only get other names on their way, the warps that bring them may be any number.
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Operation, SSAValue

from tileiras.analysis import layout_cost
from tileiras.analysis.access import access_width, accesses, contiguous_of, is_checked, runs_of
from tileiras.analysis.async_copies import as_source, renames_of
from tileiras.analysis.layout_rules import is_tensor, permutation_of
from tileiras.analysis.program_slice import Slice
from tileiras.dialects.element import element_bytes, tile_bytes
from tileiras.dialects.nv_tileas import layout_of
from tileiras.layout.linear import LinearLayout
from tileiras.layout.placement import default_layout
from tileiras.layout.shared import SharedLayout, access

MOST_BYTES = 1024
"""Of all such tiles of a stage: eight registers of a thread of one warp."""
MOST_ACCESSES = 16
"""Instructions of one warp by which a tile of a stage is loaded, and stored: then it keeps up with the tensor core."""


def narrowed(loader: Slice, others: Slice) -> dict[SSAValue, LinearLayout] | None:
    """The layouts for one warp of all tensors that are spread over several; None where some can't be had so. `others`: what the
    other agent has of the function."""
    found: dict[SSAValue, LinearLayout] = {}
    nbytes = 0
    for op in loader.ops:
        if op.name == "nv_tileas.store_shared":
            chain = _narrow(op, others)
            if chain is None:
                return None
            found |= chain
            nbytes += tile_bytes(op.operands[0].type)
    tensors = {v for op in loader.ops for v in (*op.operands, *op.results) if is_tensor(v) and v in loader.values}
    if not found or nbytes > MOST_BYTES or any(v not in found and any(layout_of(v).warp) for v in tensors):
        return None
    return found


def of_warps(layout: LinearLayout, warps: int) -> LinearLayout:
    """A layout of more warps as one of so many: each thread has what those of the others had, in registers behind its own."""
    keep = warps.bit_length() - 1
    return LinearLayout(layout.shape, (*layout.reg, *layout.warp[keep:]), layout.lane, layout.warp[:keep]).compact_regs()


def _narrow(store: Operation, others: Slice) -> dict[SSAValue, LinearLayout] | None:
    """The layouts of a tile on its way from a view to a buffer."""
    if any(name in store.properties for name in ("slice", "rounds", "owners")):
        return None
    renames = renames_of(store.operands[0])
    tile = renames[-1].operands[0] if renames else store.operands[0]
    load = tile.owner
    buffer: Any = store.operands[1].type
    if not isinstance(load, Operation) or load.name != "nv_tileas.tiled_load" or "owners" in load.properties or \
            not tile.has_one_use() or load in others.ops or any(map(is_tensor, load.operands)):
        return None
    layout = _best(load, as_source(buffer.layout.data, renames))
    if layout is None:
        return None
    out = {tile: layout}
    for op in reversed(renames):
        t: Any = op.results[0].type
        layout = layout.permute(permutation_of(op)) if op.name == "nv_tileas.permute" else layout.reshape(t.get_shape())
        out[op.results[0]] = layout
    return out


def _best(load: Operation, shared: SharedLayout) -> LinearLayout | None:
    """The cheapest layout of one warp for a tile that goes from memory to a buffer."""
    shape, size = shared.shape, element_bytes(load.results[0].type.element_type)     # type: ignore[attr-defined]
    dim, runs = contiguous_of(load), runs_of(load)
    offered: list[LinearLayout] = []
    for d in range(len(shape)) if dim is None else (dim,):
        order = (d, *[o for o in range(len(shape) - 1, -1, -1) if o != d])
        widths = [1 << i for i in range(runs[d].bit_length())] if runs else [1]
        offered += [default_layout(shape, 1, width, order) for width in widths]

    def slots(layout: LinearLayout) -> float:
        width = access_width(load, layout)
        return layout_cost.global_access(layout, width, dim, size, False, is_checked(load)) + \
            layout_cost.shared_access(access(layout, shared, size), size)
    fit = [layout for layout in offered if accesses(load, layout) <= MOST_ACCESSES and
           len(access(layout, shared, size).groups) <= MOST_ACCESSES]
    return min(fit, key=slots, default=None)
