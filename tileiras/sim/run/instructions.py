"""Every family of instructions that the simulator has (importing them registers their decoders), and which decodes what."""
from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from tileiras.sim.copy import asynccopy, bulk, tma
from tileiras.sim.core.decode import OPERATIONS
from tileiras.sim.matrix import matrixcopy, mma, wgmma, wmma
from tileiras.sim.memory import atomics, calls, clusters, hints, loadstore, mbarrier, warp
from tileiras.sim.run import launchcontrol
from tileiras.sim.scalar import bitwise, compare, convert, floating, integer, move, packed, special
from tileiras.sim.tcgen05 import instructions as tcgen05

FAMILIES = (integer, floating, bitwise, compare, convert, move, special, packed, loadstore, atomics, warp, mbarrier, hints,
            calls, clusters, mma, matrixcopy, wgmma, wmma, asynccopy, bulk, tma, tcgen05, launchcontrol)
MOST_WORDS = 5                    # of an operation's registered name


@lru_cache(maxsize=4096)
def decoder_of(parts: tuple[str, ...]) -> Callable | None:
    """The registered decoder of an instruction: the one with the longest name that it starts with."""
    for count in range(min(len(parts), MOST_WORDS), 0, -1):
        found = OPERATIONS.get(".".join(parts[:count]))
        if found is not None:
            return found
    return None
