"""What did each execution do? An observer of the simulator that notes blocks executed and what instructions touched."""
from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tileiras.sim.timing import payloads
from tileiras.sim.timing.errors import NotTimed
from tileiras.sim.timing.stream import Payload, Skipped
from tileiras.sim.timing.touches import Form, WatchedBarrier, watcher
from tileiras.sim.timing.trace import PtxCode, Visits, WarpTrace, ptx_code, warp_traces

SKIPPED = Skipped()
MOST_NOTED, NOTE = 2 << 30, 512
"""Bytes of a record, and of a note beside its threads' numbers. Only blocks that ask one another for something get there: each time
that they ask is noted."""


class Room:
    """How many bytes a record may still take."""

    def __init__(self) -> None:
        self.left = MOST_NOTED

    def take(self, size: int) -> None:
        """Room for a note of so many bytes. Raises NotTimed where they are more than are left."""
        self.left -= size + NOTE
        if self.left < 0:
            raise NotTimed("what the kernel's threads do is too much to be recorded: perhaps blocks wait for what others store")


class Touch(NamedTuple):
    """One execution of an access by watched threads (numbers among the watched)."""
    visit: int
    threads: np.ndarray
    space: int
    address: np.ndarray
    form: Form
    shared: np.ndarray | None
    reads: np.ndarray | None


class Record(NamedTuple):
    """What a warp's execution of a line did, in the visit of that number."""
    visit: int
    payload: Payload


@dataclass(frozen=True, slots=True, eq=False)
class CtaRecord:
    """One CTA that ran: its warps' traces, and by warp and PTX line what each execution did, in order."""
    traces: list[WarpTrace]
    records: dict[int, dict[int, list[Record]]]


class BatchLog:
    """What is noted of one batch. `watched`: numbers of its CTAs within the batch."""

    def __init__(self, st, watched: list[int], room: Room) -> None:
        self.room = room
        padded = st.padded
        self.first, self.watched, self.padded, self.threads = st.first, watched, padded, st.threads
        self.visits = Visits()
        self.whole = len(watched) == st.ctas
        self.pick = np.concatenate([np.arange(c * padded, (c + 1) * padded) for c in watched])
        self.number = np.full(st.size, -1, np.int64)        # of each thread of the batch among the watched
        self.number[self.pick] = np.arange(len(self.pick))
        self.ranks = np.array([c % st.cluster_size for c in watched])
        self.touches: dict[int, list[Touch]] = defaultdict(list)
        self.facts: dict[int, list[tuple[int, int, Payload]]] = defaultdict(list)       # (visit, warp, payload)
        self.line = 0
        self.noted: list[np.ndarray] = []

    def touch(self, lanes: np.ndarray, space: int, address: np.ndarray, form: Form, shared: np.ndarray | None = None,
              reads: np.ndarray | None = None) -> None:
        """Threads `lanes` of the batch access their addresses."""
        threads = self.number[lanes]
        if not self.whole:
            mine = threads >= 0
            if not mine.all():
                threads, address = threads[mine], address[mine]
                shared = None if shared is None else shared[mine]
                reads = None if reads is None else reads[mine]
        if len(threads):
            self.room.take(threads.nbytes + address.nbytes)
            self.noted.append(threads)
            self.touches[self.line].append(Touch(len(self.visits.blocks) - 1, threads, space, address, form, shared, reads))

    def fact(self, lane: int, payload: Payload, line: int = 0) -> None:
        """The warp of a thread does something."""
        thread = int(self.number[lane])
        if thread >= 0:
            self.noted.append(np.array([thread]))
            self.facts[line or self.line].append((len(self.visits.blocks) - 1, thread // 32, payload))

    def skipped(self, active: np.ndarray, line: int) -> None:
        """Warps of the active threads that did nothing since the last call stood under a false guard."""
        threads = self.number[active]
        warps = np.unique(threads[threads >= 0] // 32)
        if self.noted:
            warps = np.setdiff1d(warps, np.concatenate(self.noted) // 32)
        visit = len(self.visits.blocks) - 1
        self.facts[line] += [(visit, w, SKIPPED) for w in warps.tolist()]

    def records(self) -> dict[int, dict[int, list[Record]]]:
        """By watched warp and line, in the order of execution."""
        out: dict[int, dict[int, list[Record]]] = defaultdict(dict)
        for line, found in self.facts.items():
            for visit, warp, payload in found:
                out[warp].setdefault(line, []).append(Record(visit, payload))
        for line, touches in self.touches.items():
            for visit, warp, payload in self._touched(touches):
                out[warp].setdefault(line, []).append(Record(visit, payload))
            if line in self.facts:
                for mine in out.values():
                    if line in mine:
                        mine[line].sort(key=lambda r: r.visit)
        return out

    def _touched(self, touches: list[Touch]) -> list[tuple[int, int, Payload]]:
        by_kind: dict[tuple, list[Touch]] = defaultdict(list)
        for t in touches:
            by_kind[t.space, t.form, t.reads is None].append(t)
        out = []
        for (space, form, plain), mine in by_kind.items():
            threads = np.concatenate([t.threads for t in mine])
            turn = np.repeat(np.arange(len(mine)), [len(t.threads) for t in mine])
            warps = threads // 32
            starts = np.flatnonzero(np.concatenate([[True], (turn[1:] != turn[:-1]) | (warps[1:] != warps[:-1])]))
            number = np.repeat(np.arange(len(starts)), [b - a for a, b in pairwise([*starts.tolist(), len(threads)])])
            shared = None if mine[0].shared is None else np.concatenate([t.shared for t in mine if t.shared is not None])
            reads = None if plain else np.concatenate([t.reads for t in mine if t.reads is not None])
            which = warps[starts]
            found = payloads.accesses(space, form, number, threads % 32, np.concatenate([t.address for t in mine]), shared,
                                      reads, self.ranks[which * 32 // self.padded])
            visits = [mine[k].visit for k in turn[starts].tolist()]
            out += zip(visits, which.tolist(), found)
        return out


class Recorder:
    """Watches CTAs (their numbers in the grid; None: all) of one launch. Without `payloads` only their ways are noted."""

    def __init__(self, ctas: set[int] | None = None, payloads: bool = True) -> None:
        self.ctas, self.payloads = ctas, payloads
        self.room = Room()
        self.code: PtxCode | None = None
        self.launch = None                                  # the simulator's, once something ran
        self.logs: dict[int, BatchLog | None] = {}          # by the batch's first CTA

    # ---- called by the simulator
    def built(self, program) -> None:
        """The kernel is decoded."""
        self.code = ptx_code(program)

    def log(self, st) -> BatchLog | None:
        """The log of a batch; None where nothing of it is watched."""
        if st.first in self.logs:
            return self.logs[st.first]
        self.launch = st.launch
        watched = [c for c in range(st.ctas) if self.ctas is None or st.first + c in self.ctas]
        log = self.logs[st.first] = BatchLog(st, watched, self.room) if watched else None
        return log

    def visit(self, st, at: int) -> None:
        """A block is about to be executed by the active threads."""
        log = self.log(st)
        if log is not None:
            mask = st.live if st.mask is None else st.mask
            log.visits.blocks.append(at)
            kept = mask.copy() if log.whole else mask[log.pick]
            self.room.take(kept.nbytes)
            log.visits.masks.append(kept)
            log.noted.clear()

    def instruction(self, decoder, ins, run):
        """An instruction was decoded: what is to run in its place."""
        watch = watcher(decoder, ins) if self.payloads else None
        if watch is None:
            return run
        line = ins.line

        def watched(st):
            log = self.log(st)
            if log is None:
                return run(st)
            kept = None

            def through(st):
                nonlocal kept
                kept = run(st)
            log.line = line
            watch(st, through, log)
            return kept
        return watched

    def guarded(self, decoder, ins, run):
        """The same for an instruction with its guard."""
        soft, decoder.soft = decoder.soft, "ignore"
        known = watcher(decoder, ins) if self.payloads else None
        decoder.soft = soft
        if known is None:
            return run
        line = ins.line

        def conditional(st):
            log = self.log(st)
            if log is None:
                run(st)
                return
            log.noted = []
            active = st.lanes
            run(st)
            log.skipped(active, line)
        return conditional

    def barrier(self, decoder, ins, barrier):
        """A barrier, watched."""
        return WatchedBarrier(barrier, self.log, ins.line) if self.payloads else barrier

    # ---- afterwards
    def alike(self, least: int) -> bool:
        """Whether the watched CTAs, each in a batch of its own, executed the same blocks with the same threads, `least` or more."""
        found = [log.visits for log in self.logs.values() if log is not None]
        first = found[0] if found else None
        if first is None or len(first.blocks) < least or any(v.blocks != first.blocks for v in found):
            return False
        return all(np.array_equal(a, b) for v in found[1:] for a, b in zip(v.masks, first.masks))

    def ctas_recorded(self) -> dict[int, CtaRecord]:
        """What the watched CTAs did, by their numbers in the grid."""
        assert self.code is not None
        out = {}
        for log in self.logs.values():
            if log is None:
                continue
            records = log.records()
            warps = log.padded // 32
            for k, cta in enumerate(log.watched):
                threads = slice(k * log.padded, (k + 1) * log.padded)
                traces = warp_traces(self.code, log.visits, threads, (log.threads + 31) // 32)
                mine = {w: records.get(k * warps + w, {}) for w in range(warps)}
                out[log.first + cta] = CtaRecord(traces, mine)
        return out
