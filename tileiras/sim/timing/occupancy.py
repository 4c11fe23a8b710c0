"""How many CTAs of a kernel does an SM hold, and what limits that?"""
from __future__ import annotations

from dataclasses import dataclass

from tileiras.machine.machines import Machine
from tileiras.machine.targets import REGISTERS_PER_SM
from tileiras.machine.units import PARTITIONS
from tileiras.sim.tcgen05.layout import COLUMNS

WARP = 32
REGISTER_GRANULE = 256
"""Registers are given to a warp by so many."""
SHARED_GRANULE = {75: 256, 80: 128}
NAMED_LIMITS = ("warps", "CTAs", "registers", "shared memory", "tensor memory", "grid")


@dataclass(frozen=True)
class Occupancy:
    """`ctas` resident on an SM; `limit`: by what, one of NAMED_LIMITS; `share`: of the warps it could hold."""

    ctas: int
    warps: int
    limit: str
    share: float
    by: dict[str, int]


def occupancy(machine: Machine, threads: int, registers: int, shared: int, ctas_for_sm: int, columns: int = 0) -> Occupancy:
    """`registers` a thread; `shared` bytes a CTA, the system's own included; `ctas_for_sm`: that the grid has for one SM; `columns`
    of tensor memory that a CTA allocates: one that finds too few waits in tcgen05.alloc until another one is done."""
    warps = -(-threads // WARP)
    per_warp = -(-registers * WARP // REGISTER_GRANULE) * REGISTER_GRANULE
    by_registers = REGISTERS_PER_SM // PARTITIONS // max(per_warp, 1) * PARTITIONS // max(warps, 1) if per_warp else machine.ctas
    granule = SHARED_GRANULE[max(n for n in SHARED_GRANULE if n <= max(machine.sm, 75))]
    padded = -(-shared // granule) * granule
    by = {"registers": by_registers, "shared memory": machine.smem_per_sm // padded if padded else machine.ctas,
          "tensor memory": COLUMNS // columns if columns else machine.ctas,
          "warps": machine.warps // max(warps, 1), "CTAs": machine.ctas, "grid": max(ctas_for_sm, 1)}
    limit = min(by, key=lambda name: (by[name], NAMED_LIMITS.index(name)))
    held = max(by[limit], 1)
    return Occupancy(held, held * warps, limit, held * warps / machine.warps, by)
