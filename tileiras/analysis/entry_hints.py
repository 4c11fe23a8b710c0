"""What an entry's optimization hints ask for, where they can act; a hint whose value means nothing is ignored.

    num_worker_warps_per_cta    warps of the block: a power of two, 32 at most (more asks for 32)
    occupancy                   how many blocks an SM is to hold: a limit of registers a thread, from 2 on
    num_cta_in_cga              CTAs that share one tile block, where it can be split (transforms/plan_cta.py)

Values are those of the public `OptimizationHintsAttr`; what doesn't fit has no effect there either.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import DictionaryAttr, IntAttr, IntegerAttr
from xdsl.ir import Operation

from tileiras.analysis.shared_memory import blocks_of
from tileiras.machine.targets import REGISTER_STEP, WARP_THREADS

MOST_WARPS = 32
MOST_CTAS = 16
"""Of a cluster; more than 8 run where the launcher allows what isn't portable."""
FEWEST_REGISTERS = 24
"""Less than this no kernel of tiles gets along with."""


def hint(func: Operation, name: str) -> int | None:
    """The value of an integer hint of a function, None where it has none."""
    hints: Any = func.properties.get("hints")
    found = hints.data.get(name) if hints is not None else None
    return found.value.data if isinstance(found, IntegerAttr) else None


def worker_warps(func: Operation) -> int | None:
    """Warps of the block as the hint asks, or None."""
    wanted = hint(func, "num_worker_warps_per_cta")
    if wanted is None or wanted < 1 or wanted & (wanted - 1):
        return None
    return min(wanted, MOST_WARPS)


def bound_occupancy(func: Operation, blocks: int, by: str, remarks: list[Any] | None) -> None:
    """Let the hint `occupancy` ask for no more blocks than an SM holds; where that is one, forget it. `by`: of what it has no
    more."""
    wanted = hint(func, "occupancy")
    if wanted is None or wanted <= max(1, blocks):
        return
    hints: Any = func.properties["hints"]
    kept = {name: value for name, value in hints.data.items() if name != "occupancy"}
    if blocks > 1:
        kept["occupancy"] = IntegerAttr(blocks, hints.data["occupancy"].type)
    func.properties["hints"] = DictionaryAttr(kept)
    if remarks is not None:
        from tileiras.remarks import HINTS, MISSED, remark
        held = "one block" if blocks <= 1 else f"{blocks} blocks"
        remarks.append(remark(func, func, MISSED, HINTS, "HintIgnored", f"Hint occupancy = {wanted} is more than an SM holds",
                              reasons=[f"its {by} holds {held}"]))


COUNTED = "counted_blocks"
ENOUGH = 128
"""Registers that hold a product's part of a thread and what it is made of."""


def count_on_blocks(func: Operation, blocks: int) -> None:
    """Hold a function to registers that leave an SM so many of its blocks, or fewer where less was counted on before."""
    counted: Any = func.properties.get(COUNTED)
    func.properties[COUNTED] = IntAttr(blocks if counted is None else min(blocks, counted.data))


def _wanted_blocks(func: Operation) -> int | None:
    """Blocks that an SM is to hold: by the hint, else those that a pass counted on."""
    counted: Any = func.properties.get(COUNTED)
    asked = hint(func, "occupancy")
    return counted.data if asked is None and counted is not None else asked


def register_limit(func: Operation, target: Any, threads: int) -> int | None:
    """Registers a thread may use so that as many blocks of `threads` threads fit an SM as the hint asks for, or a pass counted on;
    None: no limit.

    An SM holds `max_threads_per_sm` at most, so that more blocks than that are not to be had by giving up registers. Each of its
    four parts has a quarter of the registers for the warps that it gets: of two blocks of five warps one part holds three, 168
    registers each. Where that would be so few that they were spilled, the limit is what evenly shared registers allow. Nor are
    more to be had than shared memory holds, once it is known what a block has of it."""
    wanted = _wanted_blocks(func)
    if wanted is None or wanted < 2:
        return None
    blocks = min(wanted, max(target.max_threads_per_sm // threads, 1), blocks_by_shared_memory(func, target))
    if blocks < 2:
        return None
    share = target.registers_for(blocks * threads // WARP_THREADS)
    if share < ENOUGH:
        share = target.registers_per_sm // (blocks * threads) // REGISTER_STEP * REGISTER_STEP
    return max(FEWEST_REGISTERS, min(share, target.max_registers_per_thread))


def blocks_by_shared_memory(func: Operation, target: Any) -> int:
    """Blocks that an SM's shared memory holds, as far as a block's part of it is known."""
    taken: Any = func.properties.get("shared_bytes")
    return max(1, blocks_of(0 if taken is None else taken.data, target))
