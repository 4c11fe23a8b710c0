"""Packed 16-bit integers: add, sub, min, max, neg of u16x2 and s16x2."""
from __future__ import annotations

import numpy as np

from tileiras.sim.errors import InvalidInstruction


def integers(decoder, ins, name: str, type_: str):
    """Decode an operation on pairs of 16-bit integers."""
    dtype = np.int16 if type_[0] == "s" else np.uint16
    f = {"add": np.add, "sub": np.subtract, "min": np.minimum, "max": np.maximum, "neg": np.negative}.get(name)
    if f is None or len(ins.operands) != (2 if name == "neg" else 3):
        raise InvalidInstruction(ins.opcode)
    relu = "relu" in ins.parts

    def g(*v):
        low = f(*[(x & np.uint32(0xFFFF)).astype(np.uint16).view(dtype) for x in v])
        high = f(*[(x >> np.uint32(16)).astype(np.uint16).view(dtype) for x in v])
        if relu:
            low, high = np.maximum(low, dtype(0)), np.maximum(high, dtype(0))
        return low.view(np.uint16).astype(np.uint32) | (high.view(np.uint16).astype(np.uint32) << np.uint32(16))
    return decoder.simple(ins, [type_] * (len(ins.operands) - 1), type_, g)
