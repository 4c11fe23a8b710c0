"""A functional PTX simulator in NumPy: what generated code computes, and what it does wrong, without a GPU."""
from __future__ import annotations

from tileiras.sim.errors import (
    BarrierError,
    BudgetExceeded,
    DataRace,
    Deadlock,
    InvalidInstruction,
    LaunchError,
    Misaligned,
    OutOfBounds,
    PtxSyntaxError,
    SimulationError,
    Trap,
    UninitializedRead,
    UnsupportedInstruction,
)
from tileiras.sim.launch import PointerTable, Progress, Report, simulate

__all__ = [
    "BarrierError",
    "BudgetExceeded",
    "DataRace",
    "Deadlock",
    "InvalidInstruction",
    "LaunchError",
    "Misaligned",
    "OutOfBounds",
    "PointerTable",
    "Progress",
    "PtxSyntaxError",
    "Report",
    "SimulationError",
    "Trap",
    "UninitializedRead",
    "UnsupportedInstruction",
    "simulate",
]
