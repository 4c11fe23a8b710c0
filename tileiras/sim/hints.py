"""Instructions without effect on values: prefetches, fences, cache policies, resource hints, launch dependencies."""
from __future__ import annotations

import numpy as np

from tileiras.sim.decode import operation


def _nothing(st) -> None:
    return None


@operation("prefetch", "prefetchu", "discard", "applypriority", "membar", "fence", "griddepcontrol", "setmaxnreg",
           "pmevent")
def _hint(decoder, ins):
    return _nothing


@operation("createpolicy")
def _policy(decoder, ins):
    put = decoder.target(ins.operands[0], "b64")
    value = np.array([1 << 60], np.uint64)
    return lambda st: put(st, value)
