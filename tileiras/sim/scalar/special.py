"""Special registers, and the few instructions about a thread's place or the machine's state."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tileiras.sim.core.decode import operation, special_registers
from tileiras.sim.errors import Trap, UnsupportedInstruction

_CTA_MEMORY = "%perctamemoryoffset"
_DIMS = {"x": 0, "y": 1, "z": 2}


def _per_thread(st, name: str) -> np.ndarray:
    """A special register's value for every thread of the batch, kept for later reads."""
    found = st.special.get(name)
    if found is None:
        found = st.special[name] = np.ascontiguousarray(_compute(st, name).astype(np.uint64 if name == _CTA_MEMORY else np.uint32))
    return found if st.index is None or found.size == 1 else found[st.index]


def _compute(st, name: str) -> np.ndarray:
    launch = st.launch
    base, _, axis = name[1:].partition(".")
    thread = st.everyone % st.padded
    clusters = tuple(g // c for g, c in zip(launch.grid, launch.cluster))
    dims = {"ntid": launch.block, "nctaid": launch.grid, "nclusterid": clusters, "cluster_nctaid": launch.cluster}.get(base)
    if dims is not None:
        return np.array([dims[_DIMS[axis]]])
    position = st.first + st.cta_of
    if base == "ctaid":
        return launch.ctaid(position)[_DIMS[axis]]
    if base == "clusterid":
        return launch.unflatten(position // launch.cluster_size, clusters)[_DIMS[axis]]
    if base == "cluster_ctaid":
        return launch.unflatten(st.rank_of, launch.cluster)[_DIMS[axis]] if launch.cluster_size > 1 else np.array([0])
    if base == "cluster_ctarank":
        return st.rank_of if launch.cluster_size > 1 else np.array([0])
    if base == "tid":
        bx, by, _ = launch.block
        return (thread % bx, thread // bx % by, thread // (bx * by))[_DIMS[axis]]
    if base == "laneid":
        return thread % 32
    if base == "warpid":
        return thread // 32
    if base.startswith("lanemask_"):
        lane = (thread % 32).astype(np.uint64)
        one = np.uint64(1) << lane
        return {"eq": one, "lt": one - np.uint64(1), "le": (one << np.uint64(1)) - np.uint64(1),
                "gt": np.uint64(0xFFFFFFFF) & ~((one << np.uint64(1)) - np.uint64(1)),
                "ge": np.uint64(0xFFFFFFFF) & ~(one - np.uint64(1))}[base[9:]]
    if name == _CTA_MEMORY:
        return launch.memory_of_cta(position)
    if base == "smid":
        return position % launch.sms
    constants = {"nwarpid": st.padded // 32, "nsmid": launch.sms, "gridid": 1, "cluster_nctarank": launch.cluster_size,
                 "total_smem_size": st.program.shared_size,
                 "dynamic_smem_size": launch.dynamic_shared, "aggr_smem_size": st.program.shared_size,
                 "reserved_smem_offset_begin": 0, "reserved_smem_offset_end": 1024, "reserved_smem_offset_cap": 1024}
    if base in constants:
        return np.array([constants[base]])
    if base.startswith(("envreg", "pm")):
        return np.array([0])
    raise UnsupportedInstruction(f"special register {name}")


_KNOWN = ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "laneid", "warpid", "nwarpid", "smid", "nsmid",
          "gridid", "cluster_ctarank", "cluster_nctarank", "cluster_ctaid", "cluster_nctaid", "is_explicit_cluster",
          "total_smem_size", "dynamic_smem_size", "aggr_smem_size", "reserved_smem_offset_begin",
          "reserved_smem_offset_end", "reserved_smem_offset_cap", "lanemask_eq", "lanemask_lt", "lanemask_le",
          "lanemask_gt", "lanemask_ge", "perctamemoryoffset")


TIMER_STEP_NS = 1024
"""What `%globaltimer` goes on by each time it is read: nanoseconds, at the resolution that GPUs have by default."""


@special_registers
def special_register(name: str, decoder) -> tuple[Callable, int]:
    """A getter (unsigned, one element a thread or one for all) and the width in bits."""
    if name == "WARP_SZ":
        value = np.array([32], np.uint32)
        return (lambda st: value), 32
    base = name[1:].partition(".")[0]
    if base in ("clock", "clock64", "clock_hi", "globaltimer", "globaltimer_lo", "globaltimer_hi"):
        wide = base in ("clock64", "globaltimer")
        dtype = np.uint64 if wide else np.uint32
        high = base.endswith("_hi")
        step = TIMER_STEP_NS if base.startswith("globaltimer") else 1

        def tick(st):
            st.clock += 1
            return np.array([0 if high else st.clock * step & 0xFFFFFFFF], dtype)
        return tick, 64 if wide else 32
    if base == "is_explicit_cluster":
        flag = np.array([decoder.launch.explicit_cluster])
        return (lambda st: flag), 1
    if base in _KNOWN or base.startswith(("envreg", "pm")):
        return (lambda st: _per_thread(st, name)), 64 if name == _CTA_MEMORY else 32
    raise UnsupportedInstruction(f"special register {name}")


@operation("trap", "brkpt")
def _trap(decoder, ins):
    def run(st):
        if len(st.lanes):
            raise Trap("the kernel executed " + ins.parts[0], thread=int(st.lanes[0]))
    return run


@operation("nanosleep")
def _nanosleep(decoder, ins):
    def run(st):
        st.yielded = True
    return run
