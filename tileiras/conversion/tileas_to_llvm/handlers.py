"""Which modules hold lowerings: importing them registers their ops."""
from __future__ import annotations

from importlib import import_module

MODULES = (
    "control", "memory", "atomics", "effects", "printing", "views", "shape", "convert", "reduce", "dot", "elementwise",
    "elementwise_int", "elementwise_float", "math", "casts", "constants")


def load() -> None:
    """Import every module of lowerings."""
    for name in MODULES:
        import_module(f"tileiras.conversion.tileas_to_llvm.{name}")
