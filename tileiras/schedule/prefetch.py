"""Does it pay, and is there room, to load a loop's tiles an iteration ahead into registers?

What is on its way takes a thread's registers from its load to its use, beside what the loop carries, and second buffers take
shared memory. It must fit with that, and may not take away blocks, which hide the same latency and more: as many must fit an SM
as before beside products, nine of ten without. A loop that only streams has enough bytes on their way if what its blocks load in
an iteration keeps the SM's share of memory busy for twice a latency (Little; half the time they don't load). One that multiplies
loads ahead however many blocks there is room for: a small grid has fewer.
"""
from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Operation

from tileiras.analysis.shared_memory import blocks_of
from tileiras.dialects.element import REGISTER_BYTES
from tileiras.machine.latencies import latencies
from tileiras.machine.machines import machine_of
from tileiras.schedule.depth import BESIDE_CARRIED, LANES, registers_of
from tileiras.schedule.resources import model_of

FEW_BESIDE_RING = 4
"""Registers of a thread up to which loads run ahead where a loop's other tiles come by a pipe, stages ahead of their use: these few
are what an iteration waits for, and blocks may be few (rows' statistics beside 4x128 rows, B200: 106 us, 81 ahead)."""
STAGES = 2
"""One that is computed with and one on its way."""

BUSY = 2
COUNTED = 2
"""Blocks that a kernel is held to at most: one loads while the other multiplies. More of them, with fewer registers each, spill for
little (8-bit floats that threads widen, 64x128, A100: 1.51 ms by two blocks, 1.86 by four)."""
SPREAD = 8
"""Threads that hold a number of a loop's loads, from which on the loop doesn't stream."""
KEPT = 0.9
"""Of the blocks, where loads that run ahead without a product beside hide more than those that no longer fit."""


def streaming_bytes(target: Any) -> float:
    """Bytes in flight that keep an SM's share of memory busy (Little)."""
    machine = machine_of(target.cc)
    return machine.dram_per_cycle / machine.sms * latencies(machine.sm).loaded


@dataclass(frozen=True)
class Room:
    """`shared`: bytes of shared memory that a block needs as it stands. `more`: with second buffers. `warps`: of the block.
    `asked`: whether an option or a hint wants loads ahead, if there is room at all. `beside_ring`: whether the loop's other tiles
    come by a pipe."""

    shared: int
    more: int
    warps: int
    asked: bool = False
    beside_ring: bool = False


def why_not_ahead(loop: Operation, loads: Collection[Operation], nbytes: int, has_product: bool, room: Room,
                  target: Any) -> tuple[str, int]:
    """Why these loads, of so many bytes a block, stay in their iteration, "" if they shall run ahead; and how many blocks an SM has
    to hold for that to be true, where it is others that hide them (0: any)."""
    carried = sum(registers_of(v) for v in loop.results)
    needed = BESIDE_CARRIED + carried + carried // 4
    held = sum(registers_of(op.results[0]) for op in loads)
    ahead = needed + held
    if ahead > target.max_registers_per_thread:
        return f"it would take {ahead} registers a thread, {target.max_registers_per_thread} are there; use smaller tiles or " \
               "more warps", 0
    if room.asked or (room.beside_ring and held <= FEW_BESIDE_RING):
        return "", 0
    before = _blocks(needed, room.shared, room.warps, target)
    after = _blocks(ahead, room.more, room.warps, target)
    if after < before * (1 if has_product else KEPT) and \
            (has_product or not _have_work(loop, loads, nbytes, after, room.warps, target)):
        return f"{after} blocks would fit an SM instead of {before}, which hide as much", min(before, COUNTED)
    if has_product or before * nbytes < BUSY * streaming_bytes(target):
        return "", 0
    return "what blocks load in an iteration keeps memory busy", 0


def _have_work(loop: Operation, loads: Collection[Operation], nbytes: int, blocks: int, warps: int, target: Any) -> bool:
    """Whether so many blocks have enough to do besides loading, in one iteration, for another one's loads to come meanwhile: those
    that no longer fit aren't missed then, and where a launch has fewer, each has its loads when it needs them. In loops that stream
    they are (histograms, B200: 28.0 us, 29.4 ahead)."""
    if not is_spread(sum(registers_of(op.results[0]) for op in loads), warps, nbytes):
        return False
    model = model_of(target, warps)
    work = sum(model.footprint(op).cycles for op in loop.regions[0].block.ops if op not in loads)
    return blocks * work >= model.latencies.loaded


def is_spread(held: int, warps: int, nbytes: int) -> bool:
    """Whether each number of so many bytes of a loop's loads, for which each thread holds so many registers, is held by so many
    threads that it is no memory's bandwidth which the loop waits for, but one latency after another."""
    return held * warps * LANES * REGISTER_BYTES >= SPREAD * nbytes


def _blocks(registers: int, shared: int, warps: int, target: Any) -> int:
    """How many blocks an SM can hold."""
    return min(target.registers_per_sm // (registers * warps * LANES), blocks_of(shared, target),
               target.max_threads_per_sm // (warps * LANES))
