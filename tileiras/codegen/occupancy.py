"""Would fewer registers a thread let enough warps onto an SM? A second run of ptxas for kernels that only move and reduce data.

Left alone, ptxas takes the registers that there are to bring every load of a straight line of code in front of the first use: a
streaming kernel then has two blocks an SM and waits at each barrier, each reduction, each beginning and end of a block. With a
limit it orders the loads otherwise, mostly without a spill. Products are left as they are, since their accumulators need the
registers, unless a few registers less (by `mma.sync`, where sums lie in tensor memory, or where warpgroups store what they
multiply) make room for a block more: of two blocks of five warps, as kernels with a load agent have them, one part of an SM gets
three, 168 registers each.
"""
from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from tileiras.codegen.ptxas import Assembled
from tileiras.codegen.resources import Entry, with_resources
from tileiras.errors import CompileError
from tileiras.layout.atoms.umma import COLUMNS
from tileiras.machine.targets import REGISTER_STEP, SCHEDULERS, WARP_THREADS, Target

FROM_LEVEL = 3
"""The optimization level that pays for a second run of ptxas."""
ENOUGH_WARPS = 16
"""Warps an SM from which more gain nothing: four a scheduler."""
ENOUGH_IN_LINE = 24
"""The same of kernels without a loop or a barrier: a warp loads, computes and stores, once, and only others fill its pauses
(quantized rows, H100: 20.1 us with 20 warps, 18.0 with 24). With barriers it depends on the grid: the last blocks of 2,048 are more
of an SM's time where more run side by side (layer norm, B200: 8.4 us with 20 warps, 8.9 with 24)."""
ENOUGH_BLOCKS = 2
"""However many warps a block has: one of them alone loads first, then computes, then stores."""
RESERVED_SHARED = 1024
"""Bytes of shared memory that the system takes of each block."""
FEW = 8
"""So many registers ptxas finds in a product's code without a spill, mostly by another order of its addresses."""
FEW_BESIDE_SUMS = 48
"""The same where sums lie in tensor memory: what is stored of them waits in registers, in larger pieces than it has to. (B200: 193
become 168, attention of 64x64 tiles of 128 features, sums beside products, 61.7 us by one block, 44.7 by two; 194 become 163, e4m3
scaled by rows and columns that are gathered, 128x128x64, 1,024 blocks, 25.5 -> 21.1; 206 become 167, silu, 128x64x64, 32.7 -> 24.3.
Grids that have no second block for an SM lose a hundredth or two, the smallest more: an mxfp8 product of one launch in the suite
2.58 -> 3.06, a gradient of queries 4.46 -> 4.83.)"""
FEW_OF_FED = 24
"""The same of warpgroups that store what they multiply: while a block's threads load, turn and store, and wait for one another, the
tensor core multiplies for others (e4m3, 64x128x64, a measured H100: 324 us by 3 blocks of 115 registers, 258 by 4 of 96; u8,
64x64x64: 409 by 4 of 77, 368 by 6 of 64)."""
ENOUGH_FED = 32
"""Warps an SM from which more gain nothing there."""
ENOUGH_GATHERING = 27
"""The same where threads gather what products into tensor memory read: three blocks of four warps that compute, four that gather
and one that tells the copy engine (a convolution, 64x128x32, 392 blocks, B200: 9.4 us by two blocks of 74 registers, 7.4 by three
of 72)."""
CACHE_KEPT = 32 << 10
"""Bytes of an SM's shared memory that blocks of such may not take: what their threads ask for has to have a place in the cache
(tf32, 64x64x32, a measured H100: 156 us by 4 blocks, which leave 52 KiB of 228, 193 by 5, which leave 8)."""
_PRODUCTS = re.compile(r"\bw?mma\.")
_FIXED = re.compile(r"\.maxnreg|\bsetmaxnreg\.")
"""What settles the registers of its kernel otherwise."""
_WARPGROUPS, _PRODUCT, _STORED = "wgmma.", "wgmma.mma_async", "fence.proxy.async"
_GATHERED = "cp.async.mbarrier.arrive"
_IN_TENSOR_MEMORY = re.compile(r"\btcgen05\.")
_ALLOCATES = re.compile(r"\btcgen05\.alloc\.[^;]*, (%r\d+);")
_ENTRY = re.compile(r"\.entry\s+([\w$]+)")
_NAME = re.compile(r"[\w$]+")
_BARRIER = re.compile(r"\bbar(?:rier)?\.")
_LABEL_OR_BRANCH = re.compile(r"^(\$\w+):|\bbra(?:\.uni)?\s+(\$\w+);", re.MULTILINE)


def with_more_warps(ptx: str, entries: tuple[Entry, ...], target: Target, assemble: Callable[[str], Assembled],
                    first: Assembled) -> tuple[str, Assembled]:
    """The text with limits of registers where they let more warps reside, nothing spills and ptxas takes them, and its cubin; what
    was given where there are none. `first`: the cubin of `ptx`, whose resources `entries` are."""
    bodies = _bodies(ptx)
    wanted = {e.name: limits for e in entries if (limits := _tried(e, bodies.get(e.name, ""), target))}
    while wanted:
        text = _limited(ptx, {name: limits[0] for name, limits in wanted.items()})
        try:
            made = assemble(text)
        except CompileError as error:       # an instruction of wgmma needs more registers
            spilled = set(_NAME.findall(error.message)) & set(wanted) or set(wanted)
        else:
            spilled = {e.name for e in with_resources([replace(e, registers=0) for e in entries], made.report)
                       if e.name in wanted and e.spill_bytes > 0}
            if not spilled:
                return text, made
        wanted = {name: left for name, limits in wanted.items() if (left := limits[1:] if name in spilled else limits)}
    return ptx, first


def could_have_more(entry: Entry, target: Target) -> bool:
    """Whether some text of an entry would be assembled once more."""
    enough = ENOUGH_FED if target.has_wgmma else ENOUGH_GATHERING if target.has_tcgen05 else ENOUGH_IN_LINE
    return bool(limits_of(entry, target, enough_warps=enough))


def _tried(entry: Entry, body: str, target: Target) -> list[int]:
    """The limits that an entry with this text is to be assembled with."""
    if _FIXED.search(body):
        return []
    if _WARPGROUPS in body:
        if _STORED not in body[:max(0, body.rfind(_PRODUCT))]:
            return []
        beside = (target.smem_per_sm - CACHE_KEPT) // (entry.shared_bytes + RESERVED_SHARED)
        return [n for n in limits_of(entry, target, max(1, beside), ENOUGH_FED) if entry.registers - n <= FEW_OF_FED]
    if _IN_TENSOR_MEMORY.search(body):
        enough = ENOUGH_GATHERING if _GATHERED in body else ENOUGH_WARPS
        return [n for n in limits_of(entry, target, _beside_by_columns(body), enough) if entry.registers - n <= FEW_BESIDE_SUMS]
    if _PRODUCTS.search(body):
        return [n for n in limits_of(entry, target) if entry.registers - n <= FEW]
    if _is_one_line(body):
        return sorted({*limits_of(entry, target, enough_warps=ENOUGH_IN_LINE), *limits_of(entry, target)})
    return limits_of(entry, target)


def _is_one_line(body: str) -> bool:
    """Whether no warp waits for others in a text, and no branch leads back."""
    labels: set[str] = set()
    for label, goal in _LABEL_OR_BRANCH.findall(body):
        if label:
            labels.add(label)
        elif goal in labels:
            return False
    return _BARRIER.search(body) is None


def _beside_by_columns(body: str) -> int:
    """How many blocks with a text that takes columns of tensor memory fit an SM by these."""
    taken = _ALLOCATES.search(body)
    columns = re.search(rf"\bmov\.b32\s+{taken[1]}, (\d+);", body) if taken is not None else None
    return COLUMNS // int(columns[1]) if columns is not None else 1


def limits_of(entry: Entry, target: Target, beside: int | None = None, enough_warps: int = ENOUGH_WARPS) -> list[int]:
    """Registers a thread to try, fewest first: for as many blocks as give enough warps, and for one block more than there are.
    `beside`: blocks that other things let onto an SM, where there are such."""
    warps = max(1, entry.threads // WARP_THREADS)
    blocks = blocks_by_registers(entry, target)
    most = max(1, target.smem_per_sm // (entry.shared_bytes + RESERVED_SHARED))
    enough = min(max(ENOUGH_BLOCKS, enough_warps // warps), most, beside or most)
    if entry.registers == 0 or entry.spill_bytes > 0 or blocks >= enough:
        return []
    return sorted({target.registers_for(n * warps) for n in (enough, blocks + 1)})


def blocks_by_registers(entry: Entry, target: Target) -> int:
    """Blocks of a kernel that an SM's registers hold: each of its schedulers has a quarter of them for the warps that it gets."""
    rounded = -(-max(entry.registers, 1) // REGISTER_STEP) * REGISTER_STEP
    warps = target.registers_per_sm // SCHEDULERS // (WARP_THREADS * rounded) * SCHEDULERS
    return warps // max(1, entry.threads // WARP_THREADS)


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
