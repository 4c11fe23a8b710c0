"""Would fewer registers a thread let enough warps onto an SM? A second run of ptxas for kernels that only move and reduce data.

Left alone, ptxas takes the registers that there are to bring every load of a straight line of code in front of the first use: a
streaming kernel then has two blocks an SM and waits at each barrier, each reduction, each beginning and end of a block. With a
limit it orders the loads otherwise, mostly without a spill. Products are left as they are: their accumulators need the registers,
and it is tensor cores that they wait for.
"""
from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from tileiras.codegen.ptxas import Assembled
from tileiras.codegen.resources import Entry, with_resources
from tileiras.machine.targets import Target

FROM_LEVEL = 3
"""The optimization level that pays for a second run of ptxas."""
ENOUGH_WARPS = 16
"""Warps an SM from which more gain nothing: four a scheduler."""
REGISTER_STEP = 8
RESERVED_SHARED = 1024
"""Bytes of shared memory that the system takes of each block."""
_PRODUCTS = re.compile(r"\b(?:w?mma|wgmma|tcgen05)\.")
_ENTRY = re.compile(r"\.entry\s+([\w$]+)")


def with_more_warps(ptx: str, entries: tuple[Entry, ...], target: Target, assemble: Callable[[str], Assembled],
                    first: Assembled) -> tuple[str, Assembled]:
    """The text with limits of registers where they let more warps reside and nothing spills, and its cubin; what was given
    where there are none. `first`: the cubin of `ptx`, whose resources `entries` are."""
    bodies = _bodies(ptx)
    wanted = {e.name: limits for e in entries if (limits := limits_of(e, target)) and not _PRODUCTS.search(bodies.get(e.name, ""))
              and ".maxnreg" not in bodies.get(e.name, "")}
    while wanted:
        text = _limited(ptx, {name: limits[0] for name, limits in wanted.items()})
        made = assemble(text)
        spilled = {e.name for e in with_resources([replace(e, registers=0) for e in entries], made.report)
                   if e.name in wanted and e.spill_stores + e.spill_loads > 0}
        if not spilled:
            return text, made
        wanted = {name: left for name, limits in wanted.items() if (left := limits[1:] if name in spilled else limits)}
    return ptx, first


def limits_of(entry: Entry, target: Target) -> list[int]:
    """Registers a thread to try, fewest first: for as many blocks as give enough warps, and for one block more than there are."""
    warps = max(1, entry.threads // 32)
    blocks = _blocks(entry.registers, entry.threads, target)
    most = max(1, target.smem_per_sm // (entry.shared_bytes + RESERVED_SHARED))
    enough = min(max(1, ENOUGH_WARPS // warps), most)
    if entry.registers == 0 or entry.spill_stores + entry.spill_loads > 0 or blocks >= enough:
        return []
    return sorted({target.registers_per_sm // (n * entry.threads) // REGISTER_STEP * REGISTER_STEP for n in (enough, blocks + 1)})


def _blocks(registers: int, threads: int, target: Target) -> int:
    """Blocks that an SM's registers hold."""
    rounded = -(-max(registers, 1) // REGISTER_STEP) * REGISTER_STEP
    return target.registers_per_sm // (rounded * threads)


def _bodies(ptx: str) -> dict[str, str]:
    """The text of each entry, from its name to the next entry's."""
    places = [(m[1], m.start()) for m in _ENTRY.finditer(ptx)]
    ends = [start for _, start in places[1:]] + [len(ptx)]
    return {name: ptx[start:end] for (name, start), end in zip(places, ends)}


def _limited(ptx: str, limits: dict[str, int]) -> str:
    """The text with a directive for each entry named."""
    out: list[str] = []
    name = ""
    for line in ptx.split("\n"):
        if match := _ENTRY.search(line):
            name = match[1]
        elif line.startswith("{") and name in limits:
            out.append(f".maxnreg {limits[name]}")
            name = ""
        out.append(line)
    return "\n".join(out)
