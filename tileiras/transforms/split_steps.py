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

from xdsl.ir import Operation, SSAValue

from tileiras.analysis.access_facts import promised
from tileiras.analysis.axis import AxisAnalysis
from tileiras.analysis.entry_hints import hint
from tileiras.dialects import arith
from tileiras.dialects.element import element_bytes
from tileiras.dialects.nv_tileaa import int_array
from tileiras.transforms.choose_atoms import SHARED_RESERVE, parts_of_k, warp_atom
from tileiras.transforms.rules import build, int_splat
from tileiras.transforms.steps import Steps, loops_of_steps, resize, set_extents

LEAST_BYTES = 64
"""Of a part along k: what memory and shared memory move at once."""


def run(module: Operation, context: Any) -> None:
    """Split the loops, in place."""
    for steps in loops_of_steps(module, context):
        least = max(parts_of_k(op, warp_atom(op, context.target), context) for op in steps.dots)
        for blocks in sorted({hint(steps.func, "occupancy") or 1, 1}, reverse=True):
            parts = max(least, _to_fit_twice(steps, blocks, context.target))
            if parts > 1 and _is_wide(steps.tiles, parts) and _counts_far(steps.func, steps.loop, parts):
                _split(steps, parts)
                break


def _to_fit_twice(steps: Steps, blocks: int, target: Any) -> int:
    """Parts of which the share of shared memory that a block has beside others holds two, 1 where none is so small: a ring of one
    stage brings nothing while products run (tf32 of 2048, 128x128x64, predicted for an RTX 5090: 301 us as they are, 236 in two
    parts; bf16 of 1536, 128x128x128 by two blocks, B200: 12.6 and 9.7)."""
    room = target.most_static_smem
    if blocks > 1:
        from tileiras.schedule.depth import shared_budget  # few kernels need the machine's tables
        room = shared_budget(target, blocks)
    size, parts = steps.bytes_loaded(), 1
    while 2 * size // parts > room - SHARED_RESERVE:
        parts *= 2
        if parts > size:
            return 1
    return parts


def _is_wide(tiles: dict[SSAValue, int], parts: int) -> bool:
    """Whether parts of the tiles are worth loading."""
    types: list[tuple[Any, int]] = [(v.type, dim) for v, dim in tiles.items()]
    return all(t.get_shape()[dim] % parts == 0 and t.get_shape()[dim] // parts * element_bytes(t.element_type) >= LEAST_BYTES
               for t, dim in types)


def _counts_far(func: Operation, loop: Any, parts: int) -> bool:
    """Whether the loop's counter can count that many times as far."""
    axis = AxisAnalysis(func)
    least, most = axis.bounds(loop.lower)[0], axis.bounds(loop.upper)[1]
    return least is not None and most is not None and least >= 0 and most * parts < 1 << loop.step.type.width.data - 1


def _split(steps: Steps, parts: int) -> None:
    loop = steps.loop
    for i in (0, 1):
        kind = loop.operands[i].type
        loop.operands[i] = build(loop, arith.Muli, (loop.operands[i], int_splat(loop, kind, parts)), kind)
    for load, dim in steps.loads:
        view: Any = load.view.type
        resize(load, dim, view.tile_shape.data[dim].data // parts, load.view.owner.operands[0], view.padding.data)
        _may_be_outside(load, dim)
    set_extents(steps.tiles, 1, parts)


def _may_be_outside(load: Any, dim: int) -> None:
    """A part may begin behind the end of an array in which the whole begins."""
    rank, before = len(load.view.type.tile_shape), load.properties.get("outside")
    if not promised(load, rank)[dim]:
        flags = [0] * rank if before is None else [flag.data for flag in before.data]
        flags[dim] = 1
        load.properties["outside"] = int_array(flags)
