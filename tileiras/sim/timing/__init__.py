"""How long a kernel takes on a named machine, without that machine: its machine code, walked as the functional run went.

    prediction = predict(ptx, cubin, "kernel", (32, 32), args, machine="H100")
    print(prediction.text())
"""
from __future__ import annotations

from typing import Any

__all__ = ["predict"]


def predict(ptx: str, cubin: bytes, kernel: str, grid, args, machine: str | int = "", **options: Any):
    """See `tileiras.sim.timing.predictor.predict`."""
    from tileiras.sim.timing import predictor
    return predictor.predict(ptx, cubin, kernel, grid, args, machine, **options)
