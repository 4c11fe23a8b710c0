"""The tcgen05 instructions: which decoder takes which; allocation, fences, waits and commits of tensor memory.

Products are in `tcgen05mma`, copies in `tcgen05copy`, the memory and its rules in `tensormemory`.
"""
from __future__ import annotations

import numpy as np

from tileiras.sim.check.agents import Operation
from tileiras.sim.check.inflight import registers
from tileiras.sim.core.decode import BLOCKING, SYNCHRONOUS, operation
from tileiras.sim.errors import InvalidInstruction, TensorMemoryError, UnsupportedInstruction
from tileiras.sim.matrix.fragments import warps_of
from tileiras.sim.memory import mbarrier
from tileiras.sim.memory.loadstore import address_source, deposit
from tileiras.sim.tcgen05.copy import decode_copy, decode_load, decode_shift, decode_store
from tileiras.sim.tcgen05.memory import AGENTS, ENGINE, LOAD, STORE, tensor_memory
from tileiras.sim.tcgen05.mma import decode_mma
from tileiras.sim.tcgen05.pipe import issued_before, members_of, require_target, tensor_address

SYNCHRONOUS["tcgen05"] = lambda ins: "sync" in ins.parts
BLOCKING["tcgen05"] = lambda ins: ins.parts[1:2] == ("alloc",)


@operation("tcgen05")
def _tcgen05(decoder, ins):
    kind = ins.parts[1]
    found = {"mma": decode_mma, "ld": decode_load, "st": decode_store, "cp": decode_copy, "shift": decode_shift,
             "alloc": _alloc, "dealloc": _dealloc, "relinquish_alloc_permit": _relinquish, "commit": _commit,
             "fence::before_thread_sync": _fence, "fence::after_thread_sync": _fence, "wait::ld": _wait,
             "wait::st": _wait}.get(kind)
    if found is None:
        raise UnsupportedInstruction(ins.opcode)
    return found(decoder, ins)


def _group(ins) -> int:
    return 2 if "cta_group::2" in ins.parts else 1


def _alloc(decoder, ins):
    """An attempt: returns for every active thread whether its warp has got its columns."""
    require_target(decoder, ins)
    space = "shared" if any(p.split("::")[0] == "shared" for p in ins.parts) else ""
    target, space = address_source(decoder, ins.operands[0], space)
    count = decoder.source(ins.operands[1], "b32")
    group, line = _group(ins), ins.line

    def attempt(st) -> np.ndarray:
        counts, = warps_of(st, [count])
        address = st.gathered(target(st))
        lanes = st.lanes.reshape(-1, 32)
        done = np.zeros(lanes.shape, bool)
        tensor = tensor_memory(st)
        for i, lane in enumerate(lanes[:, 0]):
            if (counts[i] != counts[i, 0]).any():
                raise TensorMemoryError("tcgen05.alloc: the threads of a warp ask for different counts", thread=int(lane))
            members_of(st, int(lane), group)
            start = tensor.request(int(st.cta_of[lane]), int(lane), int(counts[i, 0]), group, line)
            if start is None:
                st.yielded = st.yielded or "wait"
                continue
            done[i] = True
            where, what = address[32 * i:32 * i + 1], np.array([start], np.uint32)
            st.within(st.everyone == lane, lambda st, where=where, what=what: deposit(st, space, where, what, 4, 1))
            if st.shadow is not None and st.shadow.lanes is not None:
                st.shadow.lanes.meet(lanes[i, :1] >> 5)     # the warp wrote it together
        return done.reshape(-1)
    return attempt


def _dealloc(decoder, ins):
    require_target(decoder, ins)
    get, count = tensor_address(decoder, ins.operands[0]), decoder.source(ins.operands[1], "b32")
    group = _group(ins)

    def run(st):
        addresses, counts = warps_of(st, [get, count])
        for lane, address, n in zip(st.lanes.reshape(-1, 32)[:, 0], addresses[:, 0], counts[:, 0]):
            members_of(st, int(lane), group)
            tensor_memory(st).free(int(st.cta_of[lane]), int(lane), int(address), int(n))
    return run


def _relinquish(decoder, ins):
    require_target(decoder, ins)

    def run(st):
        tensor_memory(st).relinquished[st.cta_of[st.lanes]] = True
    return run


def _fence(decoder, ins):
    require_target(decoder, ins)
    before = "before" in ins.parts[1]
    return lambda st: tensor_memory(st).fence(st.lanes, before)


def _wait(decoder, ins):
    require_target(decoder, ins)
    loads = ins.parts[1] == "wait::ld"

    def run(st):
        tensor = tensor_memory(st)
        tensor.wait(st.lanes, LOAD if loads else STORE)
        if loads and tensor.strict:
            registers(st).end("tcgen05.wait::ld")
    return run


class Commit(Operation):
    """An arrival at mbarriers when a thread's operations so far are done."""

    def __init__(self, lane: int, places: list[int], after: list[Operation], count: int) -> None:
        super().__init__("tcgen05.commit", lane, after=after)
        self.places, self.count = places, count
        self.signals = places

    def complete(self, st) -> None:
        tensor = tensor_memory(st)
        cluster, warp = tensor.warp_of(self.lane)
        for off in self.places:
            phase = mbarrier.table(st).get(st, off, self.lane).phase
            tensor.complete(cluster, ("mbar", off, phase), AGENTS * warp + ENGINE, self.count)
            mbarrier.engine_releases(st, off, self)
            mbarrier.arrive(st, off, 1, self.lane)


def _commit(decoder, ins):
    require_target(decoder, ins)
    parts = ins.parts
    if "mbarrier::arrive::one" not in parts or parts[-1] != "b64":
        raise InvalidInstruction(ins.opcode)
    multicast = "multicast::cluster" in parts
    if len(ins.operands) != 1 + multicast:
        raise InvalidInstruction(f"{ins.opcode}: operands")
    locate = mbarrier.locator(decoder, ins.operands[0], parts, cluster=True)
    targets = decoder.source(ins.operands[1], "b16") if multicast else None

    def run(st):
        places = locate(st)
        masks = None if targets is None else np.broadcast_to(st.gathered(targets(st)), st.lanes.shape)
        for i, lane in enumerate(st.lanes):
            lane, off = int(lane), int(places[i])
            ops, count = issued_before(st, lane)
            offs = [off]
            if masks is not None:
                size = st.cluster_size
                cta = int(st.cta_of[lane])
                inside = off % st.shared_stride
                wanted = [r for r in range(16) if int(masks[i]) >> r & 1]
                if wanted and wanted[-1] >= size:       # none of a mask without bits: the original's kernels commit so
                    raise InvalidInstruction(f"tcgen05.commit to CTAs {wanted} of a cluster of {size}", thread=lane)
                offs = [(cta - cta % size + r) * st.shared_stride + inside for r in wanted]
            for o in offs:
                if o // st.shared_stride == st.cta_of[lane]:         # kernels do without fence.mbarrier_init for these
                    mbarrier.table(st).get(st, o, lane)             # raises where there is none
                    mbarrier.acquire_init(st, o, np.array([lane]))
                else:
                    mbarrier.engine_uses(st, o, lane)
            st.agents.issue(Commit(lane, offs, ops, count))
    return run


