"""`split-streams`: a tile block whose loops read larger tiles than can be read ahead is computed in parts, one after the other.

    for %i {                                               for %part = 0 to 2 {
      %x = tiled_load %v[%i, %j]   : 64x1024xf32             for %i {
      %next = %sum + %x                            ->          %x = tiled_load %w[%i, %j * 2 + %part] : 64x512xf32
    }                                                          %next = %sum + %x
    %s = reduce %sum over rows                               }
    tiled_store %s, %o[%j]         : 1024xf32                %s = reduce %sum over rows
                                                             tiled_store %s, %p[%j * 2 + %part]       : 512xf32
                                                           }

Neither shared memory holds three stages of such tiles nor registers one beside what the loop carries: each iteration would wait
for memory piece by piece, and sums would go there and back (two arrays by tiles of 32x1024, 256 rows, four blocks, B200: 93.0 us,
20.9 in two parts, original 37.7; H100 49.9, 18.2, 41.7; of 131,072 columns 65.6 and 39.0 for one array by 64x1024). For functions
without products that do nothing but load what they don't write, and store tiles of which each part has its own piece (`by_parts`
in split_tiles.py). Tiles are split along a dimension in which all that loops load is split, rows in memory last, and these are kept
long enough for whole lines of the cache.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation

from tileiras.analysis.program_slice import loaded_bytes
from tileiras.dialects.element import REGISTER_BYTES, element_bytes, tile_bytes
from tileiras.transforms.split_tiles import DOT, by_parts, compute_in_parts, may_be_split, ops_for_parts

STAGES = 3
"""That a ring is to have: one that is read, and two on their way."""
MOST_PARTS = 8
LEAST_ROW = 512
"""Bytes that a part's rows have at least in memory."""
LOAD = "nv_tileaa.tiled_load"


def run(module: Operation, context: Any) -> None:
    """Split the tile blocks, in place."""
    if not context.uses("pipelines"):
        return
    for func in module.regions[0].block.ops:
        if may_be_split(func) and any(_is_too_much(op, 1, context.target) for op in func.walk() if op.name == "scf.for"):
            _split(func, context)


def _is_too_much(loop: Any, parts: int, target: Any) -> bool:
    """Whether neither shared memory has room for a ring of what a part loads, nor registers for it and for what it carries."""
    loaded = loaded_bytes(loop.regions[0].block.ops, LOAD)
    carried = sum(tile_bytes(r.type) for r in loop.results if isinstance(r.type, TensorType))
    return STAGES * loaded > parts * target.most_static_smem and \
        loaded + carried > parts * target.registers_per_sm * REGISTER_BYTES


def _split(func: Operation, context: Any) -> None:
    ops = ops_for_parts(func)
    if ops is None or any(op.name == DOT for op in ops):
        return
    plan = _planned(func, ops, context.target)
    if plan is None:
        return
    if context.remarks is not None:
        from tileiras.remarks import MEMORY, PASSED, remark
        context.remarks.append(remark(func, func, PASSED, MEMORY, "StreamsInParts",
                                      "The tile block is computed in parts, whose tiles can be read ahead",
                                      {"Parts": plan.ctas, **plan.notes()}))
    compute_in_parts(func, plan)


def _planned(func: Operation, ops: list[Operation], target: Any) -> Any:
    """How to split a function, None where it can't be: all large tiles that loops read."""
    # only here: most functions have no such tile, and shouldn't pay for the imports
    from tileiras.analysis.access_facts import view_facts
    from tileiras.analysis.axis import AxisAnalysis
    from tileiras.analysis.cta_axes import Axes, extents
    from tileiras.analysis.cta_plan import Plan
    axes, axis = Axes(func), AxisAnalysis(func)
    free = set(axes.free())
    loops = [op for op in ops if op.name == "scf.for"]
    parts = 2
    while any(_is_too_much(op, parts, target) for op in loops):
        parts *= 2
    loads: list[Any] = [op for loop in loops for op in loop.regions[0].block.ops
                        if op.name == LOAD and isinstance(op.results[0].type, TensorType)]
    ranks = {len(extents(op.results[0])) for op in loads}
    if parts > MOST_PARTS or len(ranks) != 1:
        return None
    rows = {view_facts(op, op.view, axis).contiguous for op in loads}
    for dim in sorted(range(ranks.pop()), key=lambda d: d in rows):
        places = {axes.of(op.results[0], dim) for op in loads}
        if not places <= free or any(extents(op.results[0])[dim] < parts for op in loads) or \
                (dim in rows and any(_row(op, dim) < LEAST_ROW * parts for op in loads)):
            continue
        plan = Plan(axes, dict.fromkeys(places, parts - 1), parts)
        if all(by_parts(op, plan) for op in ops):
            return plan
    return None


def _row(load: Any, dim: int) -> int:
    """Bytes of a loaded tile along a dimension."""
    t: Any = load.results[0].type
    return element_bytes(t.element_type) * t.get_shape()[dim]
