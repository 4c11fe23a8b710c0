"""cp.async: copies from global to shared memory that land as late as they may.

The source is read when the copy is issued; the bytes appear in shared memory only when the issuing thread waits for
the copy's group, or when the arrival of `cp.async.mbarrier.arrive` happens (an operation of `agents`). Until then the
destination counts as unwritten, so that a read without the wait is found, under every seed.
"""
from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tileiras.sim.check.agents import Operation
from tileiras.sim.core import memory as mem
from tileiras.sim.core.decode import operation
from tileiras.sim.errors import BarrierError, InvalidInstruction, UnsupportedInstruction
from tileiras.sim.memory import mbarrier
from tileiras.sim.memory.loadstore import address_source
from tileiras.sim.ptx import module as ptx


@dataclass
class Copy:
    """One issued cp.async: per thread where it goes, what it brings, and the group it will belong to."""
    lanes: np.ndarray
    group: np.ndarray
    off: np.ndarray
    data: np.ndarray
    size: int
    count: int
    number: int = 0


@dataclass
class Copies:
    """The copies of a batch under way, how many groups each thread has committed, and how many copies were issued."""
    committed: np.ndarray
    issued: int = 0
    pending: list[Copy] = field(default_factory=list)


def copies(st) -> Copies:
    """The batch's copies, made on first use."""
    if st.copies is None:
        st.copies = Copies(np.zeros(st.size, np.int64))
    return st.copies


def land(st, copy: Copy, chosen) -> None:
    """Write copied bytes to shared memory (`chosen`: index of the copy's threads, or a full slice)."""
    at = copy.off[chosen] // (copy.size * copy.count)
    view, data = st.views["shared"].of(copy.size, copy.count), copy.data[chosen]
    if st.shadow is None:
        view[at] = data
    else:
        def differs() -> np.ndarray:
            return (view[at] != data).reshape(len(at), -1).any(axis=1)

        def put() -> None:
            view[at] = data
        st.shadow.write("shared", copy.off[chosen], copy.size * copy.count, copy.lanes[chosen], differs, differs, store=put)
    st.written_views["shared"].of(copy.size, copy.count)[at] = mem.UNSIGNED[copy.size](mem._FULL[copy.size])


def settle(st, chosen) -> None:
    """Land the copies of the threads that `chosen(copy)` marks (a boolean array over the copy's threads)."""
    state = copies(st)
    left = []
    for copy in state.pending:
        done = chosen(copy)
        if done.all():
            land(st, copy, slice(None))
        elif done.any():
            land(st, copy, done)
            rest = ~done
            left.append(Copy(copy.lanes[rest], copy.group[rest], copy.off[rest], copy.data[rest], copy.size, copy.count,
                             copy.number))
        else:
            left.append(copy)
    state.pending = left


def wait(st, keep: int, everything: bool) -> None:
    """Land the copies of all but the newest `keep` groups of the active threads (`everything`: uncommitted ones too)."""
    state, active = copies(st), st.active
    if everything:
        settle(st, lambda copy: active[copy.lanes])
    else:
        settle(st, lambda copy: active[copy.lanes] & (copy.group < state.committed[copy.lanes] - keep))


def _arrive(decoder, ins):
    """cp.async.mbarrier.arrive: an arrival for each thread, once its earlier copies have landed."""
    locate = mbarrier.locator(decoder, ins.operands[0], ins.parts)
    counted = "noinc" not in ins.parts

    def run(st):
        off, lanes = locate(st), st.lanes
        number = copies(st).issued
        for o, picks in mbarrier.groups(off):
            b = mbarrier.table(st).get(st, o, int(lanes[picks[0]]))
            mbarrier.acquire_init(st, o, lanes[picks])
            if counted:
                b.pending += len(picks)
                if b.pending > mbarrier.MOST:
                    raise BarrierError("more arrivals pending than an mbarrier can count", thread=int(lanes[picks[0]]))
            warps = lanes[picks] // 32
            for w in np.unique(warps):
                st.agents.issue(Arrival(o, lanes[picks[warps == w]], number))
    return run


class Arrival(Operation):
    """The arrival of some threads of a warp at an mbarrier, behind their copies issued before `number`."""

    def __init__(self, off: int, lanes: np.ndarray, number: int) -> None:
        super().__init__("cp.async.mbarrier.arrive", int(lanes[0]))
        self.off, self.lanes, self.limit = off, lanes, number

    def perform(self, st) -> None:
        """Land the copies."""
        mine = np.zeros(st.size, bool)
        mine[self.lanes] = True
        settle(st, lambda copy: mine[copy.lanes] & (copy.number < self.limit))

    def complete(self, st) -> None:
        """Arrive."""
        b = mbarrier.table(st).get(st, self.off, self.lane)
        mbarrier.release(st, self.off, b.phase, self.lanes)
        mbarrier.arrive(st, self.off, len(self.lanes), self.lane)


@operation("cp")
def _cp(decoder, ins):
    parts = ins.parts
    if parts[1] != "async":
        raise UnsupportedInstruction(ins.opcode)
    if parts[2] == "commit_group":
        def commit(st):
            copies(st).committed[st.lanes] += 1
        return commit
    if parts[2] == "wait_all":
        return lambda st: wait(st, 0, True)
    if parts[2] == "wait_group":
        operand = ins.operands[0]
        if not isinstance(operand, ptx.Immediate):
            raise InvalidInstruction("cp.async.wait_group needs a constant")
        return lambda st: wait(st, operand.value, False)
    if parts[2] == "mbarrier":
        return _arrive(decoder, ins)
    return _copy(decoder, ins)


def _copy(decoder, ins):
    operands = ins.operands
    to, _ = address_source(decoder, operands[0], "shared")
    source, _ = address_source(decoder, operands[1], "global")
    if not isinstance(operands[2], ptx.Immediate) or operands[2].value not in (4, 8, 16):
        raise InvalidInstruction("cp.async copies 4, 8 or 16 bytes")
    total = operands[2].value
    decoder.granule = min(decoder.granule, total)
    size, count = (4, 1) if total == 4 else (8, total // 8)
    amount = ignore = None
    hinted = any("cache_hint" in p for p in ins.parts)
    extra = operands[3:len(operands) - hinted]
    if extra:
        operand = extra[0]
        if (isinstance(operand, ptx.Register) and decoder.types[decoder.slot(operand)] == "pred") or \
                isinstance(operand, ptx.Negated):
            ignore = decoder.source(operand, "pred")
        else:
            amount = decoder.source(operand, "u32")

    def run(st):
        lanes = st.lanes
        if not len(lanes):
            return
        a = st.gathered(to(st))
        g = st.gathered(source(st))
        off = mem.private_offsets(st, "shared", a, total, lanes)
        if amount is None and ignore is None:
            data = st.views["global"].of(size, count)[st.memory.offsets(g, total, lanes, False) // total]
        else:
            n = np.full(len(lanes), total)
            if amount is not None:
                n = np.minimum(st.gathered(amount(st)).astype(np.int64), total)
            elif ignore is not None:
                n = np.where(st.gathered(ignore(st)), 0, total)
            data = _partial(st, g, n, lanes, total, size, count)
        state = copies(st)
        state.pending.append(Copy(lanes, state.committed[lanes], off, data, size, count, state.issued))
        state.issued += 1
        st.written_views["shared"].of(size, count)[off // total] = 0
    return run


def _partial(st, address, amount, lanes, total: int, size: int, count: int) -> np.ndarray:
    """`amount` bytes from each address, the rest zero."""
    out = np.zeros((len(lanes), total), np.uint8)
    mem.check_aligned(address, total, lanes)
    for n in np.unique(amount):
        if n <= 0:
            continue
        pick = np.flatnonzero(amount == n)
        off = st.memory.offsets(address[pick], 1, lanes[pick], False)
        st.memory.offsets(address[pick] + np.uint64(n - 1), 1, lanes[pick], False)
        out[pick, :n] = st.memory.data[off[:, None] + np.arange(n)]
    data = out.view(mem.UNSIGNED[size])
    return data.reshape(-1) if count == 1 else data
