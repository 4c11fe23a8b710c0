"""How long variable latencies are: memory, barriers, fences, asynchronous engines. Cycles of the SM's clock.

Fixed latencies need no table: ptxas writes them into the code. Sources as in `machines.py`; ranges are taken at their mean.
"""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Latencies:
    """Cycles until the result can be used, on an idle machine."""

    shared: int
    l1: int
    l2: int
    dram: int
    queue: int
    """Behind others' requests to L2 or to DRAM, where those keep it busy half of the time."""
    loaded: int
    """Until a load's bytes are there on a machine where all SMs load, from L2 mostly."""
    xu: int
    shuffle: int
    special_register: int
    constant: int
    matrix: int
    barrier: int
    """bar.sync: this, and `barrier_warp` for each warp that takes part."""
    barrier_warp: int
    mbarrier_arrive: int
    mbarrier_try: int
    """A try_wait on a phase that is already complete."""
    mbarrier_wake: int
    """From the last arrival to the waiter's next instruction, the arrival's own latency not counted."""
    fence_cta: int
    fence_view: int
    """fence.proxy.async."""
    fence_gpu: int
    cluster_barrier: int
    distributed_shared: int
    atomic_shared: int
    atomic_global: int
    register_change: int
    """setmaxnreg, where registers are free."""
    tma: int
    """Above a plain load of the same place."""
    tma_issue: int
    """Between two boxes that the engine takes."""
    tma_rate: int
    """Bytes a cycle of one bulk copy from DRAM, however idle the rest is."""
    bulk_store: int
    """From the last byte of a bulk store on its way to the end of a wait for it."""
    store_read: int
    """Until a store has read its registers."""
    cta_launch: int
    """From a CTA's end to the first instruction of the one that takes its place."""
    launch_control: int
    """Until the answer to clusterlaunchcontrol.try_cancel lies in shared memory."""


_ROWS: dict[str, tuple[str, dict[int, int]]] = {
    "shared": ("RRZE, LUO, QR, CC; 90: H100 2026-11-27", {75: 23, 80: 25, 86: 25, 89: 30, 90: 23, 100: 28, 103: 28, 120: 30}),
    "l1": ("RRZE, LUO, JA, QR", {75: 32, 80: 35, 86: 33, 89: 38, 90: 36, 100: 42, 103: 42, 120: 44}),
    "l2": ("RRZE, LUO, JM, CC; mean of near and far halves",
           {75: 236, 80: 290, 86: 235, 89: 274, 90: 280, 100: 345, 103: 345, 120: 354}),
    "dram": ("RRZE, JM, CC; 100: SA; 90: H100 2026-11-27",
             {75: 480, 80: 510, 86: 535, 89: 585, 90: 697, 100: 825, 103: 825, 120: 780}),
    "queue": ("90: H100 2026-11-27, 4 KiB loads take 1122 cycles at 64 % of DRAM's rate; 100: in `dram`, measured under load",
              {75: 0, 90: 200, 100: 0}),
    "loaded": ("estimated: between an idle L2 and DRAM under load (SA: 900 and more on 100)", {75: 600, 90: 800, 100: 1000}),
    "xu": ("HU, SD: 18 to 24", {75: 20, 120: 22}),
    "shuffle": ("QR, SD: 23 to 26", {75: 24}),
    "special_register": ("HU: 20 to 50", {75: 30}),
    "constant": ("SD; misses of the constant cache are not modelled", {75: 20}),
    "matrix": ("PX, where a scoreboard holds it", {75: 20, 100: 34, 103: 64, 120: 29}),
    "barrier": ("QR, exact fit; 90: H100 2026-11-27, of 4 to 32 warps", {75: 22, 90: 12, 100: 22}),
    "barrier_warp": ("QR, ZB", {75: 2}),
    "mbarrier_arrive": ("QR, FM", {80: 14}),
    "mbarrier_try": ("QR", {80: 35}),
    "mbarrier_wake": ("QR, FM: a round trip is 88 to 111, the arrival 14 of it; 90: H100 2026-11-27, 65",
                      {80: 86, 90: 51, 100: 86}),
    "fence_cta": ("QR; 90: H100 2026-11-27, 13 in loops that load, 30 behind stores", {75: 8, 90: 20, 100: 8}),
    "fence_view": ("QR; 90: H100 2026-11-27, 47 in loops that load, 80 behind stores", {75: 8, 90: 70, 100: 8}),
    "fence_gpu": ("QR, idle; 90: H100 2026-11-27, 950 to 1400 behind atomics, with DRAM 40 % busy", {75: 276, 90: 950, 100: 276}),
    "cluster_barrier": ("QR, LUO", {90: 365}),
    "distributed_shared": ("LUO, QR", {90: 200}),
    "atomic_shared": ("QR", {75: 44}),
    "atomic_global": ("QR: 165 ns", {75: 310}),
    "register_change": ("estimated", {90: 20}),
    "tma": ("SA on B200; 90: H100 2026-11-27, 476 and 628 cycles for 16 and 32 KiB; the barrier's hand-over taken off",
            {90: 0, 120: 80}),
    "tma_issue": ("QR", {90: 50}),
    "tma_rate": ("SA: 16 and 32 KiB alone take 1405 and 1757 cycles", {90: 36}),
    "cta_launch": ("estimated", {75: 200}),
    "launch_control": ("estimated: nothing is published; a trip across the chip and back, as an atomic in L2", {75: 310}),
    "bulk_store": ("H100 2026-11-27: 554 cycles for 16 KiB, 1066 for 32", {90: 42}),
    "store_read": ("SD: stores read late", {75: 12}),
}


def _of(sm: int) -> Latencies:
    values = {}
    for field, (_, row) in _ROWS.items():
        known = [n for n in row if n <= sm] or [min(row)]
        values[field] = row[max(known)]
    return Latencies(**values)


LATENCIES: dict[int, Latencies] = {sm: _of(sm) for sm in (75, 80, 86, 89, 90, 100, 103, 120)}

LAUNCH_SECONDS = 2.2e-6
"""From one kernel's end to the next one's first instruction, back to back (QR, SA: 2.1 to 2.5 us)."""

QUEUE_LSU, QUEUE_XU, QUEUE_WGMMA, QUEUE_TCGEN05 = 8, 2, 7, 6
"""Instructions that wait in front of a unit without stopping their warp, a sub-partition (SD)."""
QUEUE_PORT = 60
"""Requests in front of the shared-memory port, an SM: 8 of each sub-partition and 28 to 30 behind them (SD)."""


def latencies(sm: int) -> Latencies:
    """Of the newest generation that isn't newer."""
    return LATENCIES[max((n for n in LATENCIES if n <= sm), default=75)]
