"""How many warps gather what products of warps and warpgroups read, and how many blocks of so many warps share an SM.

    %p = addptr %base, %o : tensor<128x32x!ptr>     8 warps, two chunks a thread    ->    2 warps, eight chunks a thread
    async_copy %p, %m -> %slot

Places that are tiles lie as layouts were chosen, for all warps that compute, and a load agent that computes them for itself has as
many, or fewer, each thread with what several would have had. Fewer leave registers for another block, which loads while this one
multiplies; and less of shared memory's port goes by, where each lane's arrival takes a pass of its own (a convolution along one
dimension, 128 x 128 by 32 in f16, H100: 34.5 us by eight warps, 27.3 by two, of which two blocks fit). Where no other block is to
be had (rows with many indices each, which a thread keeps for all of its rows: 11.1 us by eight, 12.3 by two), as many warps as
compute hide more of each other's latency. For products by warps, which take longer, as few gather as keep up, without more tiles in
registers than those that compute (the convolution above, RTX 5090: 83.7 us by the warps that compute, 70.8 by one that also tells
the copy engine; 128 x 64 by 32 in two dimensions 36.7, by one of too many registers 42.5, by two 34.3).
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Operation, SSAValue

from tileiras.analysis.agent_parts import is_placed, kind_of, pipe_at, stores_by_threads
from tileiras.analysis.agents import WARP_THREADS, words_of
from tileiras.analysis.async_copies import chunks_of
from tileiras.analysis.few_loaders import of_warps
from tileiras.analysis.layout_rules import DOTS, layout_or_none
from tileiras.analysis.live_registers import most_alive
from tileiras.analysis.program_slice import CONTROL, YIELD, Slice, loop_around
from tileiras.analysis.tensor_dots import umma_of
from tileiras.analysis.warpgroup_dots import wgmma_of
from tileiras.dialects import arith
from tileiras.dialects.element import REGISTER_BYTES, element_bytes
from tileiras.dialects.nv_tileas import COPIES_BY_THREADS, LOADS
from tileiras.schedule.depth import registers_wanted
from tileiras.schedule.resources import model_of
from tileiras.transforms.agent_registers import BESIDE_ACCUMULATORS, beside_sums, blocks_of_warps, most_registers

CYCLES_AN_INSTRUCTION = 3
"""Of a warp that gathers, beside others on its part of the SM: the convolution above takes 33.1 us by one warp, whose instructions
for a stage take longer than its products; 64 x 64 by 64, whose products take half as long, 41.3 by two warps, 40.3 by four."""
MOST_CHUNKS = 8
"""Of a thread for a stage, beside products into tensor memory, which run by themselves: more, and it takes several warps (a row's
sums and deltas in attention's gradients, two tiles of 64 numbers)."""
MOST_INSTRUCTIONS = 160
"""The same of a warp's instructions for a stage: a few to a chunk say where rows of a list are, and one warp keeps up (64x64x32,
2,048 blocks, B200: 47.8 us by one, 51.3 by four); many, where pixels around others are (a convolution of 64x64x32, 49 blocks:
7.1 us by one, 4.9 by four; 392 blocks 7.8 and 7.3)."""
MOST_BLOCKS = 4
"""Blocks on an SM that are worth leaving room for."""
ENOUGH_BLOCKS, ENOUGH_BLOCKS_BY_WARPS = 2, 3
"""Blocks that an agent of its own for the copy engine must leave: beside the tensor core, and where warps multiply (128x128x64 by
two blocks of 8 warps, one of 9, B200: 784 blocks 67.6 us and 75.4; H100 1,024 blocks 116 and 157; 64x128x32 by three blocks or two,
RTX 5090, 392 blocks: 28.5 and 30.3; but 64x64x32 by four blocks or three, H100: 7.6 and 6.6)."""
SPARE = 24
"""Registers that a loop of warps' products does without where there are fewer: 64x128x32 by four warps takes 120."""
FREE = frozenset({
    "arith.constant", "nv_tileas.splat", "nv_tileas.broadcast", "nv_tileas.view", "nv_tileas.permute", "nv_tileas.make_range",
    "nv_tileas.assume", "nv_tileas.ptr_to_ptr", *CONTROL, YIELD})
"""Ops on tiles that no instruction of their own stands for."""
PLACED_ANYHOW = FREE | {"nv_tileas.addptr", *LOADS, *COPIES_BY_THREADS}
"""Ops besides elementwise ones of which a thread may do what several would have done, whatever they are."""


def gathering_warps(func: Operation, loader: Slice, warps: int, target: Any) -> int:
    """How many warps a load agent has that gathers beside so many that compute: beside warpgroups the most with which an SM holds
    as many blocks as with the fewest that keep up with the products, else these fewest."""
    cycles = _cycles_of_products(func, warps, target)
    if not all(_may_be_anywhere(op, loader) for op in loader.ops):
        return warps
    if not cycles:
        few = warps_for_chunks(loader, warps, MOST_CHUNKS) == 1 and _instructions(loader, 1) <= MOST_INSTRUCTIONS
        return 1 if few else warps
    by_warpgroups = _sums(func, warps) > 0
    most = 0 if by_warpgroups else max(registers_wanted(loop) for loop in _loops_with_products(func))
    found = 1
    while found < warps and (CYCLES_AN_INSTRUCTION * _instructions(loader, found) > cycles or
                             (not by_warpgroups and _alive(func, loader, found) > most)):
        found *= 2
    if not by_warpgroups:
        return found
    held = blocks_held(func, loader, warps, found, target)
    while found < warps and blocks_held(func, loader, warps, 2 * found, target) >= held:
        found *= 2
    return found


def blocks_held(func: Operation, loader: Slice, warps: int, load_warps: int, target: Any) -> int:
    """How many blocks an SM's registers hold of so many warps that compute by warpgroups' instructions, and that load; MOST_BLOCKS
    at most, 0 where warpgroups don't multiply."""
    sums = _sums(func, warps)
    if not sums:
        return 0
    wanted = max(sums + BESIDE_ACCUMULATORS, _alive(func, loader, load_warps))
    return max(1, blocks_of_warps(warps + load_warps, wanted, MOST_BLOCKS, target))


def leaves_blocks(func: Operation, loader: Slice, warps: int, load_warps: int, more: int, target: Any) -> bool:
    """Whether with some warps more a thread still has the registers that it wants, and an SM's registers hold as many blocks, or so
    many that another one matters less than what these warps do."""
    sums = _sums(func, warps)
    by_warps = 0 if sums else max((registers_wanted(loop) - SPARE for loop in _loops_with_products(func)), default=0)
    own = by_warps or (sums + BESIDE_ACCUMULATORS if sums else beside_sums(most_registers(func)))
    wanted = max(own, _alive(func, loader, load_warps))
    now, then = (blocks_of_warps(warps + n, wanted, MOST_BLOCKS, target) for n in (load_warps, load_warps + more))
    return then >= min(max(1, now), ENOUGH_BLOCKS_BY_WARPS if by_warps else ENOUGH_BLOCKS)


def warps_for_chunks(loader: Slice, warps: int, most: int) -> int:
    """The fewest warps, up to `warps`, of which no thread copies more than so many chunks for a stage."""
    chunks: dict[SSAValue, int] = {}
    for op in loader.ops:
        if op.name in COPIES_BY_THREADS and (pipe := pipe_at(op)) is not None and kind_of(pipe) != "tma":
            chunks[pipe] = chunks.get(pipe, 0) + chunks_of(op)
    count = 1
    while count < warps and max(chunks.values(), default=0) > count * WARP_THREADS * most:
        count *= 2
    return count


def _alive(func: Operation, loader: Slice, load_warps: int) -> int:
    """Registers of a thread of so many warps for the tiles of a load agent that are alive at once."""
    def held(value: SSAValue) -> int:
        return _steps(value, load_warps) if value in loader.values and layout_or_none(value) is not None else 0
    return most_alive(func.regions[0], held)


def _may_be_anywhere(op: Operation, loader: Slice) -> bool:
    """Whether fewer warps may do what an op of the load agent does."""
    if stores_by_threads(op) or "owners" in op.properties:
        return False
    return not is_placed(op, loader) or isinstance(op, arith.Elementwise) or op.name in PLACED_ANYHOW


def _sums(func: Operation, warps: int) -> int:
    """Registers of a thread for what all products of a loop give; 0 where warpgroups don't multiply in a loop."""
    return max((sum(words_of(op.results[0].type, warps) for op in dots if wgmma_of(op) is not None)     # type: ignore[arg-type]
                for dots in _loops_with_products(func).values()), default=0)


def _cycles_of_products(func: Operation, warps: int, target: Any) -> float:
    """Of an iteration of the loop with the fewest for its products, by warps or warpgroups; 0 where there is none."""
    model = model_of(target, warps)
    return min((sum(model.footprint(op).cycles for op in dots) for dots in _loops_with_products(func).values()), default=0)


def _loops_with_products(func: Operation) -> dict[Operation, list[Operation]]:
    """The loops in which warps or warpgroups multiply, and their products."""
    found: dict[Operation, list[Operation]] = {}
    for op in func.walk():
        if op.name in DOTS and umma_of(op) is None and (loop := loop_around(op)) is not None:
            found.setdefault(loop, []).append(op)
    return found


def _instructions(loader: Slice, warps: int) -> int:
    """Of a thread of so many warps, for a stage: what is done with tiles in the loops that copy."""
    loops = {loop_around(op) for op in loader.ops if op.name in COPIES_BY_THREADS}
    total = 0
    for op in loader.ops:
        if op.name not in FREE and loop_around(op) in loops:
            tile = next((v for v in (*op.results, *op.operands) if layout_or_none(v) is not None), None)
            total += 0 if tile is None else _steps(tile, warps)
    return total


def _steps(tile: SSAValue, warps: int) -> int:
    """Registers of a thread of so many warps for a tile of places or masks: elements side by side are a constant apart, or alike;
    and as many instructions that make it."""
    t: Any = tile.type
    layout = of_warps(t.encoding.data, warps)
    unit = 0
    while unit < len(layout.reg) and layout.reg[unit] == 1 << unit:
        unit += 1
    return max(1, element_bytes(t.element_type) // REGISTER_BYTES) * (layout.num_regs >> unit)
