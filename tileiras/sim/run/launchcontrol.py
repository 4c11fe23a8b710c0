"""What a kernel does about its own launch: registers by setmaxnreg, grids that depend on another, clusters cancelled.

setmaxnreg: every CTA has a pool of registers, as many as it was launched with: `.maxnreg` for each thread, or what the
register file gives that many threads. A decrease gives registers back at once; an increase waits until the pool has
enough, and so deadlocks when the other warps don't decrease enough; warps that exit give nothing back.

clusterlaunchcontrol.try_cancel takes the next cluster that hasn't started. While the grid has such clusters it succeeds
(under a seed: mostly, as the hardware may refuse). The response is 16 bytes: a flag, then x, y, z of the first CTA.
"""
from __future__ import annotations

import numpy as np

from tileiras.sim.check.agents import Operation
from tileiras.sim.core import memory as mem
from tileiras.sim.core.decode import BLOCKING, SYNCHRONOUS, operation
from tileiras.sim.errors import BarrierError, InvalidInstruction
from tileiras.sim.memory import mbarrier
from tileiras.sim.memory.loadstore import address_source
from tileiras.sim.ptx.types import B128

REGISTER_FILE = 65536
MOST = 255
REFUSED = 0.25                      # chance under a seed that a cancellation is refused
BLOCKING["setmaxnreg"] = lambda ins: True
SYNCHRONOUS["setmaxnreg"] = lambda ins: True


class Registers:
    """The registers of each warp's threads, and what is free in each CTA's pool."""

    def __init__(self, st) -> None:
        given = st.program.entry.directives.get("maxnreg")
        each = int(given[0]) if given else min(REGISTER_FILE // st.padded, MOST) // 8 * 8
        self.have = np.full(st.size // 32, each, np.int64)
        self.free = np.zeros(st.ctas, np.int64)
        self.waiting: dict[int, tuple[int, int]] = {}           # warp -> (wanted, line)


def _registers(st) -> Registers:
    if st.registers is None:
        st.registers = Registers(st)
    return st.registers


@operation("setmaxnreg")
def _setmaxnreg(decoder, ins):
    change = ins.parts[1]
    wanted = getattr(ins.operands[0], "value", -1)
    if change not in ("inc", "dec") or not {"sync", "aligned"} <= set(ins.parts) or not (24 <= wanted <= 256 and wanted % 8 == 0):
        raise InvalidInstruction(f"{ins.opcode} {wanted}: a multiple of 8 from 24 to 256 is needed")
    line = ins.line

    def attempt(st):
        r = _registers(st)
        lanes = st.lanes
        warps = np.unique(lanes >> 5)
        through = np.ones(len(r.have), bool)
        for group in np.unique(warps // 4).tolist():
            members = warps[warps // 4 == group]
            cta = int(members[0]) * 32 // st.padded
            have = int(r.have[members[0]])
            if (have > wanted) if change == "inc" else (have < wanted):
                st.found(BarrierError(f"setmaxnreg.{change} to {wanted} by a warp that has {have} registers a thread",
                                      thread=int(members[0]) * 32))
                continue
            need = int((wanted - r.have[members]).sum()) * 32
            if need > r.free[cta]:
                through[members] = False
                for w in members.tolist():
                    r.waiting[w] = wanted, line
                continue
            r.free[cta] -= need
            st.moved = st.moved or need < 0
            r.have[members] = wanted
            for w in members.tolist():
                r.waiting.pop(w, None)
        done = through[lanes >> 5]
        if not done.all():
            st.yielded = st.yielded or "wait"
        return done
    return attempt


def describe(st) -> list[str]:
    """Who waits for registers, for the message of a deadlock."""
    r = st.registers
    out = []
    if r is None:
        return out
    for w, (wanted, line) in sorted(r.waiting.items()):
        cta = w * 32 // st.padded
        out.append(f"warp {w * 32 % st.padded // 32} waits for {wanted} registers a thread (line {line}): it has {int(r.have[w])}, "
                   f"{int(r.free[cta])} are free in its CTA")
    return out


@operation("griddepcontrol")
def _griddepcontrol(decoder, ins):
    """Grids run one after another here: nothing to wait for, nothing to start early."""
    if ins.parts[1:] not in (("wait",), ("launch_dependents",)) or ins.operands:
        raise InvalidInstruction(ins.opcode)
    return lambda st: None


# ---- clusters that haven't started

class Cancel(Operation):
    """A request to cancel a cluster; the response goes to `targets` (offsets), with bytes to the mbarriers `bars`."""

    def __init__(self, lane: int, targets: list[int], bars: list[int]) -> None:
        super().__init__("clusterlaunchcontrol.try_cancel", lane, writes=[("shared", t, 16) for t in targets])
        self.targets, self.bars = targets, bars

    def begin(self, st) -> None:
        """The response has no value yet."""
        for t in self.targets:
            st.shared_written[t:t + 16] = 0

    def perform(self, st) -> None:
        """Take the next cluster."""
        launch = st.launch
        words = np.zeros(4, np.uint32)
        chance = st.agents.random
        taken = launch.cancel(st.first) if chance is None or chance.random() >= REFUSED else None
        if taken is not None:
            words[:] = 1, *launch.ctaid(taken)
            launch.progress.blocks += launch.cluster_size
        for t in self.targets:
            st.shared[t:t + 16] = words.view(np.uint8)
            st.shared_written[t:t + 16] = mem.WRITTEN

    def complete(self, st) -> None:
        """Tell the mbarriers."""
        for bar in self.bars:
            mbarrier.engine_brings(st, bar, self, 16)


@operation("clusterlaunchcontrol")
def _control(decoder, ins):
    kind = ins.parts[1]
    if kind == "try_cancel":
        return _try_cancel(decoder, ins)
    if kind != "query_cancel" or ins.parts[-1] != "b128":
        raise InvalidInstruction(ins.opcode)
    what = ins.parts[2]
    response = decoder.source(ins.operands[1], B128)
    if what == "is_canceled":
        put = decoder.target(ins.operands[0], "pred")
        return lambda st: put(st, (response(st)[:, 0] & np.uint64(0xFFFFFFFF)) != 0)
    words = [lambda v: v[:, 0] >> np.uint64(32), lambda v: v[:, 1], lambda v: v[:, 1] >> np.uint64(32), lambda v: v[:, 0]]
    if what == "get_first_ctaid":
        puts = [decoder.target(o, "b32") for o in ins.operands[0].items]
        if len(puts) != 4:
            raise InvalidInstruction(f"{ins.opcode} writes 4 registers")
    else:
        axis = {"get_first_ctaid::x": 0, "get_first_ctaid::y": 1, "get_first_ctaid::z": 2}.get(what)
        if axis is None:
            raise InvalidInstruction(ins.opcode)
        puts, words = [decoder.target(ins.operands[0], "b32")], [words[axis]]

    def query(st):
        v = response(st)
        for put, word in zip(puts, words):
            put(st, (word(v) & np.uint64(0xFFFFFFFF)).astype(np.uint32))
    return query


def _try_cancel(decoder, ins):
    if "mbarrier::complete_tx::bytes" not in ins.parts or "async" not in ins.parts:
        raise InvalidInstruction(f"{ins.opcode} needs .async and .mbarrier::complete_tx::bytes")
    decoder.cancels = True
    get, space = address_source(decoder, ins.operands[0], "shared" if "shared::cta" in ins.parts else "")
    locate = mbarrier.locator(decoder, ins.operands[1], ("shared::cta",) if "shared::cta" in ins.parts else ())
    everyone = "multicast::cluster::all" in ins.parts

    def request(st):
        lanes = st.lanes
        address = st.gathered(get(st))
        places = mem.shared_places(st, address, 16, lanes, generic=not space)
        bars = locate(st)
        stride = max(st.shared_stride, 1)
        for i, lane in enumerate(lanes.tolist()):
            targets, signals = [int(places[i])], [int(bars[i])]
            if everyone:
                first = int(st.cta_of[lane]) // st.cluster_size * st.cluster_size
                targets, signals = ([(first + r) * stride + o % stride for r in range(st.cluster_size)]
                                    for o in (targets[0], signals[0]))
            for bar in signals:
                mbarrier.engine_uses(st, bar, lane)
            st.agents.issue(Cancel(lane, targets, signals))
    return request
