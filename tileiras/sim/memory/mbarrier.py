"""mbarrier objects in shared memory: arrivals, transaction bytes, phases, and what is wrong with their use.

An mbarrier is a Python object at its place in the batch's shared memory (`Table.at`); the eight bytes there hold nothing
that can be read, so ordinary loads of them fault, and stores over a live one are findings. A phase completes when no
arrivals and no transaction bytes are outstanding. The opaque state that `arrive` returns is the pending count in bits
0-19 and the number of the phase above.

Findings: an operation on memory without a live mbarrier (raised, but for `inval`, which machines take); `init` over a
live one; more arrivals than pending (raised); an arrival in a phase before anyone saw the last one complete; a state older
than two phases; use by another CTA or an asynchronous engine without a fence after `init`; bytes left over, or arrivals
missing, at the kernel's end.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tileiras.sim.core import memory as mem
from tileiras.sim.core.decode import operation
from tileiras.sim.errors import (
    BarrierError,
    InvalidInstruction,
    MissingProxyFence,
    SimulationError,
    TransactionMismatch,
    UnsupportedInstruction,
    UseAfterExit,
)
from tileiras.sim.memory.clusters import visit
from tileiras.sim.memory.loadstore import address_source
from tileiras.sim.ptx import module as ptx

MOST = (1 << 20) - 1               # largest count of arrivals or transactions
_PENDING = np.uint64(MOST)


@dataclass
class Barrier:
    """One mbarrier. `phase` counts completed phases; `announced` and `brought`: bytes expected and arrived in this phase;
    `fenced`: whether its initialisation was made visible to engines and other CTAs; `seen`: whether a wait returned true
    since the last phase completed."""
    pending: int
    count: int
    init_warp: int
    tx: int = 0
    phase: int = 0
    announced: int = 0
    brought: int = 0
    fenced: bool = False
    seen: bool = True
    line: int = 0
    carried: int = 0                # bytes that the last completed phase brought


class Table:
    """The mbarriers of a batch, by byte offset in its shared memory."""

    def __init__(self, st) -> None:
        self.at: dict[int, Barrier] = {}
        self.dead: set[int] = set()
        self.words = np.zeros(len(st.shared) // 8 + 1, bool)         # which eight bytes are a live mbarrier
        self.waits: dict[int, tuple[int, int, int]] = {}            # failed waits: offset -> (thread, line, parity)

    def get(self, st, off: int, lane: int | None = None) -> Barrier:
        """The mbarrier at an offset; raises BarrierError when there is none."""
        found = self.at.get(off)
        if found is None:
            raise BarrierError(f"the mbarrier at {name(st, off)} {self.why_not(off)}", thread=lane)
        return found

    def why_not(self, off: int) -> str:
        """Why there is none at an offset."""
        return "was invalidated" if off in self.dead else "wasn't initialized"

    def fenced(self, lanes: np.ndarray) -> None:
        """Threads made their initialisations visible: fence.mbarrier_init, fence.proxy.async, a cluster barrier."""
        warps = set((lanes // 32).tolist())
        for b in self.at.values():
            if not b.fenced and b.init_warp in warps:
                b.fenced = True

    def touched(self, st, off: np.ndarray, size: int, lanes: np.ndarray, verb: str) -> None:
        """Ordinary accesses of `size` bytes of shared memory: one over a live mbarrier is a finding."""
        hit = self.words[off // 8]
        if size > 8:
            hit = hit | self.words[(off + size - 1) // 8]
        if hit.any():
            i = int(np.argmax(hit))
            finding(st, BarrierError(f"an ordinary access {verb} the live mbarrier at {name(st, int(off[i]) // 8 * 8)}"),
                    int(lanes[i]))

    def overwritten(self, st, op) -> None:
        """An asynchronous operation is issued: one that writes over a live mbarrier is a finding."""
        for place in op.writes:
            if place[0] != "shared":
                continue
            if len(place) == 3:
                hit = self.words[place[1] // 8:(place[1] + place[2] + 7) // 8]
                first = place[1] // 8 + int(np.argmax(hit)) if hit.any() else -1
            else:
                at = np.asarray(place[1]).reshape(-1) // 8
                hit = np.concatenate([at, at + 1])
                hit = hit[self.words[hit]]
                first = int(hit[0]) if len(hit) else -1
            if first >= 0:
                finding(st, BarrierError(f"{op.name} writes over the live mbarrier at {name(st, first * 8)}"), op.lane, op.line)


def table(st) -> Table:
    """The batch's mbarriers, made on first use."""
    if st.mbarriers is None:
        st.mbarriers = Table(st)
    return st.mbarriers


def name(st, off: int) -> str:
    """Where an mbarrier is, for messages: its address in the shared memory of its block."""
    stride = max(st.shared_stride, 1)
    text = f"shared address {off % stride + mem.SHARED_START:#x}"
    size = st.cluster_size
    return text if size == 1 else f"{text} of CTA {off // stride % size} of the cluster"


def finding(st, error: SimulationError, lane: int | None = None, line: int = 0) -> None:
    """Keep a finding of this kind, once for a PTX line, and go on."""
    error.thread = lane if error.thread is None else error.thread
    st.found(error, line)


# ---- changes

def complete_if_done(st, off: int, b: Barrier) -> None:
    """Turn to the next phase when nothing is outstanding."""
    if b.pending or b.tx:
        return
    b.phase += 1
    st.moved = True
    b.carried = b.brought
    b.pending, b.announced, b.brought, b.seen = b.count, 0, 0, False


def expect(st, off: int, amount: int, lane: int | None) -> None:
    """expect-tx: `amount` bytes more are to come in this phase."""
    b = table(st).get(st, off, lane)
    b.tx += amount
    b.announced += amount
    _range(st, off, b, lane)
    complete_if_done(st, off, b)


def arrive_bytes(st, off: int, amount: int, lane: int | None = None) -> None:
    """complete-tx: `amount` bytes have come."""
    b = table(st).get(st, off, lane)
    b.tx -= amount
    b.brought += amount
    _range(st, off, b, lane)
    complete_if_done(st, off, b)


def _range(st, off: int, b: Barrier, lane: int | None) -> None:
    if not -MOST <= b.tx <= MOST:
        raise TransactionMismatch(f"the transaction count of the mbarrier at {name(st, off)} leaves its range: "
                                  f"{b.announced} bytes expected, {b.brought} arrived in this phase", thread=lane)


def arrive(st, off: int, count: int, lane: int | None = None, drop: bool = False) -> None:
    """`count` arrivals of one thread or engine. Raises BarrierError when that is more than are pending."""
    b = table(st).get(st, off, lane)
    if drop:
        if count > b.count:
            raise BarrierError(f"{count} arrivals dropped from the mbarrier at {name(st, off)} that expects {b.count}",
                               thread=lane)
        b.count -= count
    if count > b.pending:
        raise BarrierError(f"{count} arrivals at the mbarrier at {name(st, off)} that expects {b.pending} more in this "
                           "phase", thread=lane)
    if not b.seen and b.phase:
        finding(st, BarrierError(f"an arrival in phase {b.phase} of the mbarrier at {name(st, off)} before any wait saw "
                                 f"phase {b.phase - 1} complete: too many arrivals, or a wait is missing"), lane)
        b.seen = True
    b.pending -= count
    complete_if_done(st, off, b)


def used_from_outside(st, off: int, b: Barrier, lane: int, who: str) -> None:
    """An engine or another CTA signals an mbarrier: its initialisation must have been fenced."""
    if not b.fenced:
        b.fenced = True
        finding(st, MissingProxyFence(f"{who} uses the mbarrier at {name(st, off)}, initialized without "
                                      "fence.mbarrier_init, fence.proxy.async or a cluster barrier since"), lane)


def engine_uses(st, off: int, lane: int) -> Barrier:
    """An asynchronous operation that will signal the mbarrier at `off` is issued by thread `lane`."""
    b = table(st).get(st, off, lane)
    used_from_outside(st, off, b, lane, "an asynchronous operation")
    acquire_init(st, off, np.array([lane]))
    return b


def fenced(st, lanes: np.ndarray) -> None:
    """Threads made their initialisations visible."""
    if st.mbarriers is not None:
        st.mbarriers.fenced(lanes)


def acquire_init(st, off: int, lanes: np.ndarray) -> None:
    """Threads use an mbarrier: its initialisation by another warp must have happened before."""
    shadow = st.shadow
    if shadow is not None:
        shadow.check_barrier(off, lanes)


# ---- order of memory

def _key(off: int, phase: int) -> tuple:
    return "mbar", off, phase


def release(st, off: int, phase: int, lanes: np.ndarray) -> None:
    """Threads release what they did into a phase."""
    order = st.order
    if order is not None:
        order.release(lanes, _key(off, phase))


def acquire(st, off: int, phase: int, lanes: np.ndarray) -> None:
    """Threads saw a phase complete."""
    order = st.order
    if order is not None:
        order.acquire(lanes, _key(off, phase))


def engine_releases(st, off: int, op) -> None:
    """An engine's operation is done, as the phase of the mbarrier will tell."""
    order = st.order
    if order is not None:
        order.complete(_key(off, table(st).get(st, off, op.lane).phase), op)


def engine_brings(st, off: int, op, amount: int) -> None:
    """An engine's operation is done and has brought `amount` bytes."""
    engine_releases(st, off, op)
    arrive_bytes(st, off, amount, op.lane)


# ---- instructions

def locator(decoder, operand, parts, cluster: bool = False) -> Callable:
    """A getter of byte offsets in the batch's shared memory for the mbarrier of each active lane."""
    spaces = [p for p in parts if p.split("::")[0] == "shared"]
    get, _ = address_source(decoder, operand, "shared" if spaces else "")
    remote = cluster or "shared::cluster" in spaces
    generic = not spaces

    def locate(st):
        return mem.shared_places(st, st.gathered(get(st)), 8, st.lanes, cluster=remote or generic, generic=generic)
    return locate


def groups(off: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """Offsets that occur, with the positions of each."""
    if len(off) == 1:
        return [(int(off[0]), np.zeros(1, np.int64))]
    cuts = np.flatnonzero(off[1:] != off[:-1]) + 1
    if 4 * len(cuts) > len(off):
        return [(int(o), np.flatnonzero(off == o)) for o in np.unique(off)]
    ends = [0, *cuts.tolist(), len(off)]                # mostly the threads of a CTA use one mbarrier
    return [(int(off[a]), np.arange(a, b)) for a, b in pairwise(ends) if b > a]


def _own(st, off: np.ndarray, lanes: np.ndarray) -> np.ndarray:
    return off // max(st.shared_stride, 1) == st.cta_of[lanes]


@operation("mbarrier")
def _mbarrier(decoder, ins):
    kind = ins.parts[1]
    operands = list(ins.operands)
    if kind == "init":
        return _init(decoder, ins)
    if kind == "inval":
        locate = locator(decoder, operands[0], ins.parts)

        def invalidate(st):
            t = table(st)
            for off, picks in groups(locate(st)):
                if off not in t.at:             # undefined by the ISA, harmless on machines
                    finding(st, BarrierError(f"nothing to invalidate: the mbarrier at {name(st, off)} {t.why_not(off)}"),
                            int(st.lanes[picks[0]]))
                    continue
                del t.at[off]
                t.dead.add(off)
                t.words[off // 8] = False
        return invalidate
    if kind in ("arrive", "arrive_drop"):
        return _arrive(decoder, ins, kind == "arrive_drop")
    if kind in ("expect_tx", "complete_tx"):
        return _transactions(decoder, ins, expect if kind == "expect_tx" else arrive_bytes)
    if kind in ("test_wait", "try_wait"):
        return _wait(decoder, ins)
    if kind == "pending_count":
        return decoder.simple(ins, ["b64"], "u32", lambda a: (a & _PENDING).astype(np.uint32))
    raise UnsupportedInstruction(ins.opcode)


def _init(decoder, ins):
    locate = locator(decoder, ins.operands[0], ins.parts)
    count = decoder.source(ins.operands[1], "u32")
    line = ins.line

    def init(st):
        n = st.gathered(count(st))
        lanes, t = st.lanes, table(st)
        off = locate(st)
        for i in range(len(lanes)):
            o, c, lane = int(off[i]), int(n[i]), int(lanes[i])
            if not 0 < c <= MOST:
                error = BarrierError("an mbarrier's count must be from 1 to 2**20 - 1", thread=lane)
                if c:
                    raise error
                finding(st, error, lane)    # one that nobody uses (upper CTAs of pairs have some): it would never complete a phase
                c = MOST
            if o in t.at:
                finding(st, BarrierError(f"mbarrier.init over the live mbarrier at {name(st, o)}; invalidate it first"),
                        lane)
            t.at[o] = Barrier(c, c, lane // 32, line=line)
            t.dead.discard(o)
            t.words[o // 8] = True
            st.written_views["shared"].of(8)[o // 8] = 0
        shadow = st.shadow
        if shadow is not None:
            shadow.init_barrier(off, lanes)
    return init


def _transactions(decoder, ins, change):
    locate = locator(decoder, ins.operands[0], ins.parts)
    amount = decoder.source(ins.operands[1], "u32")

    def transactions(st):
        off, n, lanes = locate(st), st.gathered(amount(st)), st.lanes
        _check_use(st, off, lanes)
        for i in range(len(off)):
            change(st, int(off[i]), int(n[i]), int(lanes[i]))
    return transactions


def _check_use(st, off: np.ndarray, lanes: np.ndarray) -> None:
    """Threads are about to act on mbarriers: remote ones need their fence, all need the init before."""
    own = _own(st, off, lanes)
    t = table(st)
    for o, picks in groups(off):
        b = t.get(st, o, int(lanes[picks[0]]))
        if not own[picks].all():
            visit(st, off[picks], lanes[picks])
            used_from_outside(st, o, b, int(lanes[picks[0]]), "another CTA")
        acquire_init(st, o, lanes[picks])


def _semantics(ins, default: str) -> str:
    given = [p for p in ins.parts if p in ("release", "acquire", "relaxed")]
    scopes = [p for p in ins.parts if p in ("cta", "cluster")]
    if bool(given) != bool(scopes) and ins.parts[1] not in ("expect_tx", "complete_tx"):
        raise InvalidInstruction(f"{ins.opcode}: .sem and .scope are given together")
    return given[0] if given else default


def _arrive(decoder, ins, drop: bool):
    operands = list(ins.operands)
    target = None
    if not isinstance(operands[0], ptx.Memory):
        target = operands.pop(0)
    locate = locator(decoder, operands[0], ins.parts)
    expecting, silent = "expect_tx" in ins.parts, "noComplete" in ins.parts
    releasing = _semantics(ins, "release") == "release"
    amount = decoder.source(operands[1], "u32") if len(operands) > 1 else None
    if (expecting or silent) and amount is None:
        raise InvalidInstruction(f"{ins.opcode} needs a count")
    sink = target is None or isinstance(target, ptx.Sink)
    if "shared::cluster" in ins.parts and not sink:
        raise InvalidInstruction("an arrival at an mbarrier of another CTA returns no state; use the sink `_`")
    put = None if sink else decoder.scatter_target(target, "b64")

    def run(st):
        off, lanes = locate(st), st.lanes
        n = None if amount is None else st.gathered(amount(st))
        _check_use(st, off, lanes)
        states = np.zeros(len(off), np.uint64) if put is not None else None
        t = table(st)
        if states is not None and not _own(st, off, lanes).all():
            raise BarrierError("an arrival at an mbarrier of another CTA can't return a state",
                               thread=int(lanes[np.argmin(_own(st, off, lanes))]))
        for o, picks in groups(off):
            b = t.at[o]
            if releasing:
                release(st, o, b.phase, lanes[picks])
            if n is None and states is None and not drop and len(picks) <= b.pending and b.seen:
                arrive(st, o, len(picks), int(lanes[picks[0]]))         # all at once
                continue
            for i in picks.tolist():
                lane, before = int(lanes[i]), b.phase
                if states is not None:
                    states[i] = b.pending | b.phase << 20
                if expecting and n is not None:
                    expect(st, o, int(n[i]), lane)
                if releasing:
                    release(st, o, b.phase, lanes[i:i + 1])
                arrive(st, o, 1 if expecting or n is None else int(n[i]), lane, drop)
                if silent and b.phase != before:
                    raise BarrierError(f"an arrival with .noComplete completes the phase of the mbarrier at {name(st, o)}",
                                       thread=lane)
        if put is not None:
            put(st, states)
    return run


def _wait(decoder, ins):
    operands = ins.operands
    locate = locator(decoder, operands[1], ins.parts)
    if "shared::cluster" in ins.parts:
        raise InvalidInstruction("a wait on an mbarrier of another CTA")
    put = decoder.scatter_target(operands[0], "pred")
    by_parity = "parity" in ins.parts
    given = decoder.source(operands[2], "u32" if by_parity else "b64")
    acquiring = _semantics(ins, "acquire") == "acquire"
    if len(operands) > 3:
        decoder.source(operands[3], "u32")
        if ins.parts[1] == "test_wait":
            raise InvalidInstruction("mbarrier.test_wait has no time limit")
    line = ins.line

    def test(st):
        off, lanes = locate(st), st.lanes
        wanted = st.gathered(given(st)).astype(np.uint64)
        done = np.zeros(len(off), bool)
        t = table(st)
        if not _own(st, off, lanes).all():
            raise BarrierError("a wait on an mbarrier of another CTA", thread=int(lanes[np.argmin(_own(st, off, lanes))]))
        for o, picks in groups(off):
            b = t.get(st, o, int(lanes[picks[0]]))
            acquire_init(st, o, lanes[picks])
            if by_parity:
                if (wanted[picks] > 1).any():
                    raise BarrierError(f"phase parity {int(wanted[picks].max())}", thread=int(lanes[picks[0]]))
                passed = wanted[picks] != b.phase & 1
            else:
                phases = wanted[picks] >> np.uint64(20)
                passed = phases < b.phase
                old = phases + np.uint64(1) < b.phase
                if old.any():
                    i = int(picks[np.argmax(old)])
                    finding(st, BarrierError(f"a wait for phase {int(phases.min())} of the mbarrier at {name(st, o)}, which "
                                             f"is in phase {b.phase}: only the last one can be waited for"), int(lanes[i]))
            done[picks] = passed
            if passed.any():
                if not by_parity or b.phase:
                    b.seen = True
                t.waits.pop(o, None)
                if acquiring and b.phase:
                    acquire(st, o, b.phase - 1, lanes[picks[passed]])
            if not passed.all():
                i = int(picks[np.argmin(passed)])
                t.waits[o] = (int(lanes[i]), line, b.phase)
        if not done.all():
            st.yielded = st.yielded or "wait"
        put(st, done)
    return test


# ---- what is wrong at the end

def blame(st) -> SimulationError | None:
    """Threads poll mbarriers and nothing can complete them any more: the error that says which, and why."""
    t = st.mbarriers
    if t is None:
        return None
    for off, (lane, line, _) in sorted(t.waits.items()):
        b = t.at.get(off)
        if b is not None and not b.pending and b.tx:
            error = TransactionMismatch(f"a wait on the mbarrier at {name(st, off)} can't end: {b.announced} bytes were "
                                        f"expected in phase {b.phase}, {b.brought} arrived", thread=lane)
            error.line = line
            return error
    return None


def describe_waits(st) -> list[str]:
    """Who waits on which mbarrier for what, for the message of a deadlock."""
    t = st.mbarriers
    out = []
    if t is not None:
        for off, (lane, line, phase) in sorted(t.waits.items()):
            b = t.at.get(off)
            if b is None or b.phase != phase:
                continue
            missing = [f"{b.pending} of {b.count} arrivals"] if b.pending else []
            if b.tx:
                missing.append(f"{b.tx} of {b.announced} bytes")
            out.append(f"warp {lane % st.padded // 32} waits for phase {b.phase} of the mbarrier at {name(st, off)} "
                       f"(line {line}): {' and '.join(missing) or 'nothing'} outstanding")
    return out


def first_wait(st) -> tuple[int, int] | None:
    """Thread and line of a failed wait."""
    t = st.mbarriers
    if t is None or not t.waits:
        return None
    lane, line, _ = t.waits[min(t.waits)]
    return lane, line


def leftovers(st) -> None:
    """The kernel is over: mbarriers with bytes outstanding were told wrong byte counts; ones in mid-phase wrong counts."""
    t = st.mbarriers
    if t is None:
        return
    for off, b in sorted(t.at.items()):
        lane = off // max(st.shared_stride, 1) * st.padded
        if b.tx:
            finding(st, TransactionMismatch(f"at the kernel's end {b.announced} bytes were expected in phase {b.phase} of the "
                                            f"mbarrier at {name(st, off)}, {b.brought} arrived"), lane, b.line)
        elif b.pending != b.count:
            finding(st, BarrierError(f"at the kernel's end {b.count - b.pending} of {b.count} arrivals have come in phase "
                                     f"{b.phase} of the mbarrier at {name(st, off)}"), lane, b.line)
        elif b.carried and not b.seen:
            finding(st, UseAfterExit(f"nobody waited for phase {b.phase - 1} of the mbarrier at {name(st, off)}, in which "
                                     f"{b.carried} bytes arrive: the copy may land after the block's end"), lane, b.line)
