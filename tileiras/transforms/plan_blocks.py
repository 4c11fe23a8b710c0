"""`plan-blocks`: kernels of attention with few rows are to share an SM in twos, where warps multiply and the copy engine loads.

Between a loop's products threads compute (the softmax of its scores), and a block alone leaves the tensor cores idle meanwhile;
another block's products fill the gap. Two blocks of four warps and a load agent have 168 registers a thread. Where tiles leave
enough of these and shared memory holds for each block what it multiplies all the time and a stage of what its loop loads, the
kernel gets the hint `occupancy = 2`, as if the program asked for it; a hint of the program's own stands. A kernel that shares out
its tiles over the blocks there are is launched with one an SM, and gets none.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, TensorType, i32
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.agents import WARPGROUP, words_of
from tileiras.analysis.dot_chains import SUMS, takes_rows
from tileiras.analysis.entry_hints import hint
from tileiras.analysis.layout_rules import RENAMES, unmoved
from tileiras.analysis.program_slice import loop_around, strides_by_blocks
from tileiras.dialects.element import tile_bytes
from tileiras.dialects.nv_tileas import LOADS
from tileiras.schedule.depth import shared_budget

DOT, FOR = "nv_tileas.dot", "scf.for"
BLOCKS = 2
"""On an SM."""
BESIDE_TILES = 36
"""Registers of a thread for addresses, fragments on their way and rows' maxima and sums (alibi attention, 64 x 64 of 128, RTX 5090:
132 for tiles, no spills with 168)."""


def run(module: Operation, context: Any) -> None:
    """Write the hint on the functions, in place."""
    target = context.target
    if not target.has_tma or target.has_wgmma or target.has_tcgen05 or not context.meet_occupancy or \
            not all(map(context.uses, ("agents", "tma", "pipelines"))):
        return
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func" and _has_room_for_two(func, target):
            hints: Any = func.properties.get("hints")
            given = dict(hints.data) if hints is not None else {}
            func.properties["hints"] = DictionaryAttr({**given, "occupancy": IntegerAttr(BLOCKS, i32)})


def _has_room_for_two(func: Operation, target: Any) -> bool:
    """Whether a function of four warps has a loop of chained products and two of its blocks fit an SM."""
    warps: Any = func.properties.get("num_warps")
    if warps is None or warps.data != WARPGROUP or "cluster" in func.properties or hint(func, "occupancy") is not None:
        return False
    loops: dict[Operation, list[Operation]] = {}
    for op in func.walk():
        if op.name == DOT and (loop := loop_around(op)) is not None:
            loops.setdefault(loop, []).append(op)
    if not any(takes_rows(op) for dots in loops.values() for op in dots) or \
            any(op.name == FOR and strides_by_blocks(op) for op in func.walk()):
        return False
    if any(_shared_bytes(loop, dots) > shared_budget(target, BLOCKS) for loop, dots in loops.items()):
        return False

    def held(value: SSAValue) -> int:
        return 0 if _loaded(value) is not None else words_of(value.type, WARPGROUP)     # type: ignore[arg-type]
    from tileiras.analysis.live_registers import most_alive
    alive = most_alive(func.regions[0], held, set(loops))
    return alive + BESIDE_TILES <= target.registers_for(BLOCKS * (WARPGROUP + 1))


def _shared_bytes(loop: Operation, dots: list[Operation]) -> int:
    """Of what a loop's products read that is loaded, in it (a stage) or before it."""
    tiles = {tile for dot in dots for v in dot.operands[:SUMS] if (tile := _loaded(v)) is not None}
    return sum(tile_bytes(tile.type) for tile in tiles)     # type: ignore[arg-type]


def _loaded(value: SSAValue) -> SSAValue | None:
    """The tile that a load gives, where it is only multiplied, as it is or in another shape; None else."""
    value = unmoved(value, RENAMES)
    is_tile = isinstance(value.owner, Operation) and value.owner.name in LOADS and isinstance(value.type, TensorType)
    return value if is_tile and _is_only_multiplied(value) else None


def _is_only_multiplied(value: SSAValue) -> bool:
    return all((use.operation.name == DOT and use.index < SUMS) or
               (use.operation.name in RENAMES and _is_only_multiplied(use.operation.results[0])) for use in value.uses)
