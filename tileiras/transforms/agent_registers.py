"""Registers of agents: how many blocks share an SM's registers among their agents, and what a thread of each has.

Registers change hands by whole warpgroups (setmaxnreg): a load agent padded to one gives up most of what it was launched with.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, Region

from tileiras.analysis.agents import REGISTER_STEP, WARP_THREADS, WARPGROUP, words_of
from tileiras.analysis.entry_hints import hint
from tileiras.analysis.program_slice import YIELD, loop_around
from tileiras.analysis.shared_memory import plan_shared_memory
from tileiras.analysis.tensor_columns import columns_at_once
from tileiras.analysis.tensor_dots import umma_of
from tileiras.analysis.warpgroup_dots import wgmma_of
from tileiras.dialects.element import REGISTER_BYTES, element_bytes
from tileiras.layout.atoms.umma import COLUMNS, UmmaAtom
from tileiras.schedule.depth import SHARED_KEPT_BACK, registers_of, shared_budget

DOT = "nv_tileas.dot"
ENOUGH_REGISTERS = 168
"""Of a thread that computes: half for accumulators. What a block of 16 warps has for each of its threads is less."""
LOAD_REGISTERS = 88
"""Of a thread that loads by way of registers, where the others need more."""
SHORT_OF_REGISTERS = [2 * WARPGROUP, 1]
"""Warps of agents on the four parts of an SM: with the ninth one part holds three, which share its registers, 168 a thread. A load
agent padded to a warpgroup can give up most of its own."""
BESIDE_PRODUCTS = 48
"""Registers of a thread for addresses and operands, beside what a loop's products give."""
COPY_REGISTERS = 40
"""Of the thread that tells the copy engine what to load."""
FEW_COPY_REGISTERS, FEWEST = 32, 24
"""The same, where eight more for each thread that computes save spilling: with several blocks, and with one, or where a few threads
bring numbers of rows besides."""
BESIDE_ACCUMULATORS = 26
"""Registers that an instruction of a warpgroup takes beside those of its accumulators, as ptxas says where it refuses one."""
BESIDE_SUMS, MOST_BESIDE_SUMS = 32, 128
"""Registers of a thread besides one for each of its sums in tensor memory, and the most that are counted with (4-bit weights with
zero points, 128x64 a step, gathered by four warps: for 128 rows 127, two blocks of eight warps 53.3 us, one of nine 66.5; for 64
rows 95, 46.6 and 40.9)."""
MANY_REGISTERS = 96
"""Of an accumulator in registers: with fewer several blocks find room without being asked."""
MOST_BLOCKS = 2
"""On an SM, of a kernel whose threads have a product's rows between them."""


def blocks_in_agents(func: Operation, warps: list[int], target: Any) -> int:
    """How many blocks are to share an SM's registers among their agents; 0 where threads keep what they are launched with. Where
    threads work on a loop's products into tensor memory between one product and the next (attention), the tensor core waits for the
    threads and they for it: a second block's turn, if there is room for it. Two warpgroups have a block's rows between them, and
    would have too few registers for that if the load agent kept its own."""
    dots = [op for op in func.walk() if isinstance(umma_of(op), UmmaAtom)]
    between = any(loop_around(op) is not None and any(use.operation.name not in (YIELD, DOT) for use in op.results[0].uses)
                  for op in dots)
    most = most_registers(func)
    if hint(func, "occupancy") == MOST_BLOCKS:
        most = max(most, *(_carried(op) for op in func.walk() if op.name == "scf.for"), 0)
    if not between or most < MANY_REGISTERS:
        return 0
    if warps == SHORT_OF_REGISTERS:
        return 1
    if warps != [WARPGROUP, 1] or hint(func, "occupancy") not in (None, MOST_BLOCKS):
        return 0
    fits = columns_at_once(func) <= COLUMNS // MOST_BLOCKS and plan_shared_memory(func).size <= shared_budget(target, MOST_BLOCKS)
    return MOST_BLOCKS if fits else 0


def is_too_full_for_two(func: Operation, warps: int, target: Any) -> bool:
    """Whether a kernel that asks for two blocks an SM has them only if its load agent lends registers: of two times five warps one
    part of the SM holds three, 168 registers each, and a loop's products leave too few of these (attention by 128 rows)."""
    if not target.has_setmaxnreg or hint(func, "occupancy") != MOST_BLOCKS:
        return False
    held: dict[Operation, int] = {}
    for op in func.walk():
        if op.name == DOT and umma_of(op) is None and (loop := loop_around(op)) is not None:
            held[loop] = held.get(loop, BESIDE_PRODUCTS) + words_of(op.results[0].type, warps)       # type: ignore[arg-type]
    return max(held.values(), default=0) > target.registers_for(MOST_BLOCKS * (warps + 1)) and \
        plan_shared_memory(func).size <= shared_budget(target, MOST_BLOCKS) + SHARED_KEPT_BACK


def registers_in_agents(warps: list[int], blocks: int, regions: list[list[Region]], target: Any,
                        scarce: bool = False) -> tuple[int, int] | None:
    """Registers a thread of the compute agents and of the load agent, where the launch's are too few for the former; None where
    they aren't, or can't change hands, or where it is the load agent that has more tiles at once. `regions`: of either. `scarce`: a
    block's computing threads want all that there are."""
    compute, load = warps
    if blocks:          # the load agent is padded to a warpgroup, which gives up what it has
        each = target.registers_per_sm // (blocks * WARP_THREADS * (compute + WARPGROUP)) // REGISTER_STEP * REGISTER_STEP
        copies = FEWEST if scarce else COPY_REGISTERS
        if blocks > 1 and compute != WARPGROUP:
            copies = FEW_COPY_REGISTERS
        rest = each * (compute + WARPGROUP) - copies * WARPGROUP
        return rest // compute // REGISTER_STEP * REGISTER_STEP, copies
    each = target.registers_per_sm // (WARP_THREADS * (compute + load)) // REGISTER_STEP * REGISTER_STEP
    if not target.has_setmaxnreg or load % WARPGROUP or compute % WARPGROUP or each >= ENOUGH_REGISTERS or each <= LOAD_REGISTERS:
        return None
    from tileiras.analysis.live_registers import most_alive

    alive = [max(most_alive(region, registers_of) for region in part) for part in regions]
    if alive[1] > LOAD_REGISTERS and alive[0] + BESIDE_PRODUCTS <= each:
        return None
    rest = each * (compute + load) - LOAD_REGISTERS * load
    return rest // compute // REGISTER_STEP * REGISTER_STEP, LOAD_REGISTERS


def beside_sums(sums: int) -> int:
    """Registers that a thread wants which reads so many of a block's sums in tensor memory."""
    return min(MOST_BESIDE_SUMS, BESIDE_SUMS + sums)


def blocks_of_warps(warps: int, registers: int, most: int, target: Any) -> int:
    """How many blocks of so many warps, with so many registers a thread, an SM's registers hold; `most` at most."""
    return next((n for n in range(most, 0, -1) if target.registers_for(n * warps) >= registers), 0)


def most_registers(func: Operation) -> int:
    """Of a thread that holds what a product into tensor memory gives."""
    return max((registers_of(op.results[0]) for op in func.walk() if isinstance(umma_of(op), UmmaAtom)), default=0)


def _carried(loop: Any) -> int:
    """Of a thread, for what a loop with products carries from one to the next in registers."""
    return sum(registers_of(v) for v in loop.results if isinstance(v.type, TensorType)) if any(
        op.name == DOT for op in loop.walk()) else 0


def instruction_registers(dot: Operation) -> int:
    """Of a thread, for one instruction of a warpgroup's product: ptxas wants them from the launch on, whatever changes hands."""
    atom = wgmma_of(dot)
    assert atom is not None
    return atom.m * atom.n * element_bytes(dot.results[0].type.element_type) // (        # type: ignore[attr-defined]
        REGISTER_BYTES * WARPGROUP * WARP_THREADS) + BESIDE_ACCUMULATORS


def joined_registers(dot: Operation, warps: int) -> int:
    """Of a thread, for a product that is added to its sums in parts: the sums and a part."""
    return words_of(dot.results[0].type, warps) + instruction_registers(dot)       # type: ignore[arg-type]
