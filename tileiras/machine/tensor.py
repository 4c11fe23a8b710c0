"""How long an asynchronous matrix product takes: wgmma and tcgen05, by formulas that fit the published tables.

Operands have K = 32 bytes (wgmma, tcgen05); rates of all element types follow from that, but for tf32 emulation and sm_103's
int8. Sources: LUO and SD for wgmma, SA and SD for tcgen05 (error under 2 %).
"""
from __future__ import annotations

from math import ceil

DEPTH_F16 = 16
"""K of f16: the 32 bytes along K that a wgmma or tcgen05.mma of any type has, and takes equally long for."""
SMEM_PORT = 128
"""Bytes a cycle."""
WGMMA_LATENCY_EXTRA = 40
"""Commit and wait: one m64n16k16 with both takes 60 (LUO), its fetch 20 of them."""
COMMIT = 30
"""From the product's end to the arrival that a commit makes."""


def wgmma_fetch(n: int, a_in_shared: bool) -> float:
    """Cycles of the shared-memory port that the operands of one wgmma m64nNk32B take, before those of other accesses."""
    return ((2048 if a_in_shared else 0) + 32 * n) / SMEM_PORT


def wgmma_interval(n: int, a_in_shared: bool, sparse: bool = False) -> float:
    """Cycles between two wgmma of a warpgroup."""
    least = n / 2 if a_in_shared else max(n / 2, 12)
    return max(least, wgmma_fetch(n, a_in_shared) + (n / SMEM_PORT * 16 if sparse else 0))


def wgmma_latency(n: int) -> float:
    """Cycles from start to finish in a chain."""
    return n / 2


def tcgen05_fetch(m: int, n: int, a_in_shared: bool, ctas: int = 1) -> float:
    """Cycles of one SM's shared-memory port."""
    if ctas == 2:
        return ((4096 if m == 256 else 2048) * a_in_shared + 16 * n) / SMEM_PORT
    return (4096 * a_in_shared + 32 * n) / SMEM_PORT if m >= 128 else (2048 * a_in_shared + 32 * n) / SMEM_PORT


def tcgen05_interval(m: int, n: int, a_in_shared: bool, ctas: int = 1) -> float:
    """Cycles between two tcgen05.mma of K = 32 bytes."""
    if ctas == 2:
        least, extra = (n / 2, 4) if m == 256 else (n / 4, 1)
        return max(least, tcgen05_fetch(m, n, a_in_shared, 2) + extra)
    if not a_in_shared:
        return n / 2
    return max(n / 2, tcgen05_fetch(m, n, True) if m >= 128 else 0)


def tcgen05_latency(m: int, n: int, a_in_shared: bool, ctas: int = 1) -> float:
    """Cycles from issue to the end of commit and wait of one product on an idle engine."""
    if ctas == 2:
        return n / 2 + (170 if a_in_shared else 138)
    return n / 2 + (104 if not a_in_shared else 120 if m < 128 else 136)


def tensor_move_cycles(columns: int, store: bool = False) -> int:
    """Cycles that tcgen05.ld or .st of this many 32-bit columns keeps the path of a sub-partition: 256 B a cycle."""
    if store:
        return max(1, ceil(columns * 0.62))
    return max(1, ceil(columns / 2))


TENSOR_LOAD_LATENCY = 25
TENSOR_COPY_BYTES = 32
"""tcgen05.cp, bytes a cycle of one issuer (SD: 4 KiB in 128 cycles)."""
