"""Instructions without effect on values: prefetches, fences, cache policies, resource hints, launch dependencies."""
from __future__ import annotations

import numpy as np

from tileiras.sim.core.decode import operation
from tileiras.sim.memory import mbarrier


def _nothing(st) -> None:
    return None


@operation("prefetch", "prefetchu", "discard", "applypriority", "pmevent")
def _hint(decoder, ins):
    return _nothing


@operation("createpolicy")
def _policy(decoder, ins):
    put = decoder.target(ins.operands[0], "b64")
    value = np.array([1 << 60], np.uint64)
    return lambda st: put(st, value)


@operation("fence")
def _fence(decoder, ins):
    """Fences whose effect this simulator keeps track of: those for mbarriers' initialisation and for proxies."""
    parts = ins.parts
    if "mbarrier_init" in parts:
        return _init_fence
    if "proxy" in parts:
        return _proxy_fence(next((p.split("::")[0] for p in parts if p.startswith(("global", "shared"))), ""))
    return _memory_fence("cta" if "cta" in parts else "gpu")


def _init_fence(st) -> None:
    mbarrier.fenced(st, st.lanes)
    if st.shadow is not None:
        st.shadow.fence_inits(st.lanes)


@operation("membar")
def _membar(decoder, ins):
    return _proxy_fence("") if "proxy" in ins.parts else _memory_fence("cta" if "cta" in ins.parts else "gpu")


def _memory_fence(scope: str):
    def fence(st) -> None:
        if st.order is not None:
            st.order.fence(st.lanes, scope)
    return fence


def _proxy_fence(space: str):
    def fence(st) -> None:
        if space != "global":
            mbarrier.fenced(st, st.lanes)
        if st.order is not None:
            st.order.proxy_fence(st.lanes, space)
    return fence
