"""Which part of what a CTA reads comes from DRAM, and which from L2 because other CTAs read it too?

An estimate from the sampled CTAs: what all CTAs ask for together, against the memory of the arrays that they read. Where all of the
launch's memory fits in L2, every byte comes from DRAM once. Where it doesn't, CTAs that run at the same time still share: in a
product each reads a panel of a row and one of a column, and a wave of W CTAs, square as rasters make it, reads 1 / sqrt(W) of what
it asks for.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import sqrt

import numpy as np

from tileiras.machine.machines import Machine
from tileiras.sim.timing.memory import L2_USABLE, Sharing
from tileiras.sim.timing.stream import SECTOR_BYTES, BulkCopy, CtaStreams, GlobalAccess

KIB_SECTORS = 32
ANY_PLACES = 1e9
RASTER = 1.2
"""How much worse than square the CTAs of a wave lie."""
REUSED = 1.5
"""From so many reads of each byte on, CTAs are taken to share panels."""


def read_sectors(cta: CtaStreams) -> set[int]:
    """The sectors of global memory that a CTA reads, or that L2 does for its atomics and reductions, with a result or without."""
    found: set[int] = set()
    for warp in cta.warps:
        for _, payload in warp.steps:
            kind = type(payload)
            if kind is GlobalAccess:
                if payload.atomic or not payload.is_store:      # type: ignore[union-attr]
                    found.update(payload.sectors)            # type: ignore[union-attr]
            elif kind is BulkCopy and payload.direction in ("load", "prefetch", "reduce"):     # type: ignore[union-attr]
                found.update(payload.sectors)                # type: ignore[union-attr]
    return found


def atomic_places(ctas: Sequence[CtaStreams], total: int) -> float:
    """Different kibibytes that all CTAs' atomics go to: each lies in one slice of L2."""
    found: list[set[int]] = []
    for cta in ctas:
        found.append(places := set())
        for warp in cta.warps:
            for _, payload in warp.steps:
                if type(payload) is GlobalAccess and payload.atomic:            # type: ignore[union-attr]
                    places.update(s // KIB_SECTORS for s in payload.sectors)    # type: ignore[union-attr]
    union, each = len(set().union(*found)), sum(map(len, found))
    if not union:
        return ANY_PLACES
    return union if each > union * REUSED or len(ctas) == 1 else union * max(total / len(ctas), 1.0)


def read_bytes(read: Sequence[set[int]], arrays: Sequence[tuple[int, int]]) -> int:
    """Bytes of the arrays (address, bytes) that CTAs read some sectors of."""
    sectors = np.array(sorted(set().union(*read)), np.int64)
    total = 0
    for address, size in arrays:
        first = np.searchsorted(sectors, address // SECTOR_BYTES)
        if size and first < len(sectors) and sectors[first] <= (address + size - 1) // SECTOR_BYTES:
            total += size
    return total


def argument_bytes(args: Iterable) -> int:
    """Bytes of the launch's arrays."""
    return sum(a.nbytes for a in args if isinstance(a, np.ndarray))


def sharing(machine: Machine, ctas: Sequence[CtaStreams], total: int, active: int, resident: int, memory: int,
            warm: bool = False, arrays: Sequence[tuple[int, int]] = ()) -> Sharing:
    """How `total` CTAs share the chip, `active` SMs at a time with `resident` CTAs each, from samples; `memory`: bytes that the
    launch can touch, in `arrays` (address, bytes), where they are known. `warm`: it lies in L2 from the launch before, as far as
    it fits."""
    places = atomic_places(ctas, total)
    weight = sum(c.count for c in ctas)
    read = [read_sectors(c) for c in ctas]
    mean = sum(len(sectors) / c.tiles * c.count for c, sectors in zip(ctas, read)) / max(weight, 1) * SECTOR_BYTES
    asked = mean * total
    whole = min(float(memory), asked) if memory else asked
    warm = warm and whole <= L2_USABLE * machine.l2
    if asked <= 0:
        return Sharing(active, 1.0, False, places)
    if readable := read_bytes(read, arrays):        # a norm's rows are read once, and its weights by all: results don't count
        whole = min(whole, float(readable))
    once = whole / asked
    if whole <= L2_USABLE * machine.l2 or asked / whole < REUSED:
        return Sharing(active, once, warm, places)
    wave = max(active * resident, 1)
    return Sharing(active, min(1.0, max(once, RASTER / sqrt(wave))), False, places)
