"""Asynchronous engines: operations that were issued and happen later, at a moment and in an order the kernel can't rely on.

Copies of the bulk engine, tensor copies, matrix products of tensor cores and the like are `Operation`s. `Agents.issue`
takes one; nothing of it has happened then. It happens when something waits for it (`finish`), when nobody else can go
on (`progress`, one operation for each cluster), or, under a seed, at any moment.

    op = Operation("cp.async.bulk", lane, line, reads=[("global", start, size)], writes=[("shared", start, size)],
                   after=[earlier], perform=move, complete=signal)
    st.agents.issue(op)

- `perform(st)` moves the data, `complete(st)` tells who waits (an mbarrier, a group). Everything that can fault
  (bounds, alignment, descriptors) belongs before `issue`, where the engine knows line and thread.
- `after` are the operations that the ISA orders before this one. Two steps of one instruction with different moments
  (a bulk store has read its source long before its result is visible) are two operations, the second `after` the first.
- Under a seed an operation may already have happened when `issue` returns: look at `op.done`. A place is in flight for
  the program until it waits, however early the engine was; `st.shadow` and `st.order` see to that (`begin`, when it is
  issued), and an operation without places (`reads`, `writes` empty) must see to its own.

Seed 0: everything at the last moment, newest first where order is free. Other seeds: random moments and orders. `prompt`: as soon
as it is issued, for runs that only ask what a right program does; nobody then polls for long.
"""
from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from tileiras.sim.errors import UseAfterExit

EARLY = 0.2         # chance under a seed that an operation happens as soon as it is issued
OFTEN = 0.3         # chance under a seed that something happens when the engine changes to another fragment


class Operation:
    """One thing that an asynchronous engine does.

    `name` is what messages call it; `lane` the thread of the batch that issued it; `line` the PTX line. `reads` and
    `writes`: places, each (space, start, size) or (space, array of the byte offsets of 16 bytes each), in global memory
    also (space, array of starts, size of each), with offsets as the batch's buffers count ("shared", "tensor") or as
    `GlobalMemory.data` does ("global"). Subclasses may override `perform` and `complete` instead of passing them."""

    def __init__(self, name: str, lane: int, line: int = 0, *, reads: Iterable = (), writes: Iterable = (),
                 after: Iterable[Operation] = (), perform: Callable | None = None,
                 complete: Callable | None = None) -> None:
        self.name, self.lane, self.line = name, lane, line
        self.reads, self.writes = list(reads), list(writes)
        self.follows = tuple(after)     # what st.order takes over from; emptied by it
        self.after = [op for op in self.follows if not op.done]
        self.atomic = False             # whether it adds to what it writes, so that others may write there too
        self.generic = False            # whether it works in the generic proxy, so that no proxy fence is needed
        self.signals: list[int] = []    # mbarriers that are told when it is done, as offsets of shared memory
        self.done = False
        self.number = -1                # order of issue within the batch
        self.cluster = 0
        self.clock = None               # st.shadow and st.order keep theirs here
        if perform is not None:
            self.perform = perform
        if complete is not None:
            self.complete = complete

    def begin(self, st) -> None:
        """Issued: what changes at once."""

    def perform(self, st) -> None:
        """Move the data."""

    def complete(self, st) -> None:
        """Signal completion."""


class Agents:
    """The operations of one batch that were issued and haven't happened yet."""

    def __init__(self, st, seed: int = 0, prompt: bool = False) -> None:
        self.st, self.seed, self.prompt = st, seed, prompt
        self.pending: dict[int, list[Operation]] = {}       # by cluster, in order of issue
        self.issued = 0
        self.random = random.Random(seed * 1_000_003 + st.first) if seed else None

    def __bool__(self) -> bool:
        return bool(self.pending)

    def issue(self, op: Operation) -> Operation:
        """Take an operation; it happens later (under a seed perhaps at once)."""
        st = self.st
        if not op.line:
            op.line = st.where()
        op.cluster = int(st.cta_of[op.lane]) // st.cluster_size
        op.number = self.issued
        self.issued += 1
        shadow = st.shadow
        if shadow is not None:
            shadow.begin(op)
        op.begin(st)
        if st.mbarriers is not None and op.writes:
            st.mbarriers.overwritten(st, op)
        self.pending.setdefault(op.cluster, []).append(op)
        if self.prompt or (self.random is not None and self.random.random() < EARLY):
            self.finish([op])
        return op

    def finish(self, ops: Iterable[Operation]) -> None:
        """Let these operations, and all that must come before them, happen now."""
        stack = [op for op in ops if not op.done][::-1]
        while stack:
            op = stack[-1]
            if op.done:
                stack.pop()
                continue
            needed = [before for before in op.after if not before.done]
            if needed:
                stack += needed[::-1]
                continue
            stack.pop()
            self._happen(op)

    def progress(self) -> bool:
        """Let one operation of every cluster happen; whether there was any. The engine calls it when all threads of
        the batch wait or poll."""
        some = False
        for cluster in list(self.pending):
            op = self._choose(cluster)
            if op is not None:
                self._happen(op)
                some = True
        return some

    def sometimes(self) -> None:
        """The engine changes to another fragment: under a seed something may happen."""
        if self.random is not None and self.pending and self.random.random() < OFTEN:
            cluster = self.random.choice(list(self.pending))
            op = self._choose(cluster)
            if op is not None:
                self._happen(op)

    def of(self, chosen: Callable[[Operation], bool]) -> list[Operation]:
        """The operations under way that satisfy a condition, oldest first."""
        found = [op for ops in self.pending.values() for op in ops if chosen(op)]
        return sorted(found, key=lambda op: op.number)

    def left(self, gone) -> None:
        """CTAs have exited (`gone`: a boolean for each of the batch): what still uses their shared memory is a finding."""
        st = self.st
        stride = max(st.shared_stride, 1)
        for op in self.of(lambda op: True):
            for verb, places in (("reads", op.reads), ("writes", op.writes)):
                for space, start, *_ in places:
                    first = int(start if isinstance(start, int) else start[0] if len(start) else -1)
                    if space == "shared" and first >= 0 and gone[first // stride]:
                        error = UseAfterExit(f"{op.name} still {verb} shared memory of a block that has exited", thread=op.lane)
                        st.found(error, op.line)
            if any(gone[off // stride] and off // stride != st.cta_of[op.lane] for off in op.signals):
                error = UseAfterExit(f"{op.name} still arrives at an mbarrier of a block that has exited", thread=op.lane)
                st.found(error, op.line)

    def drain(self) -> None:
        """The kernel is over: everything left happens."""
        while self.pending:
            self.progress()

    def _choose(self, cluster: int) -> Operation | None:
        ops = self.pending.get(cluster, ())
        ready = [op for op in ops if all(before.done for before in op.after)]
        if not ready:
            return None
        return ready[-1] if self.random is None else self.random.choice(ready)

    def _happen(self, op: Operation) -> None:
        st = self.st
        ops = self.pending.get(op.cluster)
        if ops is not None and op in ops:
            ops.remove(op)
            if not ops:
                del self.pending[op.cluster]
        op.done = True
        st.launch.statistics.operation(op)
        op.perform(st)
        op.complete(st)
        op.after = []
