"""Runs a batch of CTAs: which threads execute which basic block next.

Threads that stand at the same block form a fragment, and run together. The fragment whose block comes first in the program's
order (see precedence.py) goes first, so threads that left a branch early wait where the others rejoin them. A fragment that
keeps polling (atomics, volatile loads, waits) steps back for the others, so a spinning thread never starves the thread it waits
for; when nobody in the batch can do more than poll, the batch itself yields to other batches. Its warp's other threads
run ahead meanwhile, as a GPU may let them; in a `prompt` run they wait, as machine code mostly has them do, while others can go on.
"""
from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileiras.sim.core.decode import predicate_of
from tileiras.sim.core.state import Batch
from tileiras.sim.errors import BudgetExceeded, Deadlock, SimulationError
from tileiras.sim.matrix import warpgroups
from tileiras.sim.memory import barriers, clusters, mbarrier
from tileiras.sim.run import launchcontrol
from tileiras.sim.run.program import Block

POLLS = 4                  # polling rounds of a loop before another fragment runs
HOLDS = 3                  # rounds in which nobody did more than poll before threads no longer wait for their warp's others
LONG_LOOP = 100_000        # rounds of any loop before another fragment runs
UNANSWERED = 4_000         # polls of global memory where other blocks aren't run before that is one of them's to store
HOPELESS = 200             # rounds one behind the other in which everybody waited on mbarriers in vain before that is a deadlock
ROUNDS_BEFORE_YIELD = 16   # times that every fragment polled before another batch runs


class Engine:
    """Executes one batch. `run()` is a generator that yields whenever the batch can only poll."""

    def __init__(self, st: Batch, counters, budget) -> None:
        self.st = st
        self.blocks: list[Block] = st.program.blocks
        self.rank: list[int] = st.program.rank
        self.counters, self.budget = counters, budget
        st.remark = self.remark
        st.found, st.where = self.found, self.where
        self.block, self.at = self.blocks[0], -1        # what is being executed
        self.ready: dict[int, np.ndarray] = {0: st.live.copy()}
        self.deferred: dict[int, np.ndarray] = {}
        self.parked: dict[int, np.ndarray] = {}
        self.live_count = int(np.count_nonzero(st.live))
        self.polls: dict[int, int] = {}         # polling rounds by loop header
        self.loops: dict[int, int] = {}
        self.stepped, self.vain = False, 0      # whether the last fragment stepped back; how many rounds all have
        self.hopeless, self.outside = 0, False  # the last rounds in which all only waited in vain; whether one polled elsewhere

    def run(self) -> Iterator[None]:
        st = self.st
        rounds, only_polls = 0, True
        while self.live_count:
            if not self.ready:
                self.vain, only_polls = self.vain + 1 if only_polls else 0, True
                if st.agents.progress():
                    self.hopeless = 0
                    if not self.deferred:
                        continue
                elif not self.deferred:
                    self.stuck()
                else:
                    self.hopeless = 0 if self.outside or st.moved else self.hopeless + 1
                    if self.hopeless > HOPELESS:
                        self.stuck()
                self.outside = st.moved = False
                self.ready, self.deferred = self.deferred, {}
                rounds += 1
                if rounds >= ROUNDS_BEFORE_YIELD:
                    rounds = 0
                    yield
            st.agents.sometimes()
            at = min(self.ready, key=self.rank.__getitem__)
            mask = self.ready.pop(at)
            waiting = self.parked.pop(at, None)
            if waiting is not None:
                mask = mask | waiting
            count = int(np.count_nonzero(mask))
            st.set_mask(None if count == self.live_count else mask)
            self.stepped = False
            self.fragment(at, count)
            only_polls = only_polls and self.stepped
        if st.wgmma is not None:
            warpgroups.leftovers(st)
        st.agents.drain()
        mbarrier.leftovers(st)
        if st.tensor is not None:
            st.tensor.at_exit()
        st.launch.progress.blocks += st.ctas
        if st.launch.observer is None:
            st.forget()

    def merge(self, block: int, mask: np.ndarray) -> None:
        """Make threads ready to run `block`."""
        have = self.ready.get(block)
        self.ready[block] = mask if have is None else have | mask

    def current(self) -> np.ndarray:
        """The active threads as a mask of its own."""
        return self.st.live.copy() if self.st.mask is None else self.st.mask

    def fragment(self, at: int, count: int) -> None:
        """Run the active threads from block `at` until they split, wait, end, or another fragment is due."""
        st, blocks, ready, rank = self.st, self.blocks, self.ready, self.rank
        hits, budget, observer = self.counters, self.budget, st.launch.observer
        lowest = min(rank[b] for b in ready) if ready else -1
        while True:
            block = blocks[at]
            if block.sync is not None and st.mask is not None:
                outcome = self.converge(at, block)
                if outcome == 0:
                    return
                if outcome > 0:
                    count = outcome
            self.block, self.at = block, -1
            if observer is not None:
                observer.visit(st, at)
            try:
                for self.at, run in enumerate(block.run):
                    run(st)
            except SimulationError as error:
                self.report(error, block.lines[self.at])
                raise
            except (ArithmeticError, LookupError, TypeError, ValueError) as cause:
                error = SimulationError(f"the simulator can't carry this out: {cause}")
                self.report(error, block.lines[self.at])
                raise error from cause
            hits[at] += count
            budget[0] -= len(block.run) + 1
            if budget[0] < 0:
                self.report(error := BudgetExceeded(f"more than {budget[1]} instructions were issued"),
                            block.lines[-1] if block.lines else block.end_line)
                raise error
            end = block.end
            kind = end[0]
            if kind == "fall":
                to = at + 1
            elif kind == "bra":
                if end[2] is None:
                    to = end[1]
                else:
                    taken = self.predicate(block, end[2], end[3])
                    if taken is True:
                        to = end[1]
                    elif taken is None:
                        to = at + 1
                    else:
                        self.merge(at + 1, st.active & ~taken)
                        if rank[end[1]] > rank[at] or not self.step_back(end[1], taken):
                            self.merge(end[1], taken)
                        return
            else:
                to = self.special_end(at, block, end)
                if to < 0:
                    return
            if rank[to] <= rank[at] and self.step_back(to, None):
                return
            if ready and rank[to] >= lowest:
                self.merge(to, self.current())
                return
            if to in self.parked:
                self.merge(to, self.current())
                return
            at = to

    def step_back(self, to: int, mask: np.ndarray | None) -> bool:
        """A branch back to `to` by `mask` (None: the active threads); true when they step behind other fragments."""
        if self.st.yielded:
            self.outside |= self.st.yielded is True
            self.st.yielded = False
            n = self.polls[to] = self.polls.get(to, 0) + 1
            if n > UNANSWERED and self.st.launch.is_part and self.outside:
                error = SimulationError("waits for what blocks store that aren't run")
                self.report(error, self.block.end_line)
                raise error
            if n % POLLS and not self.st.agents.prompt:
                return False
        else:
            n = self.loops[to] = self.loops.get(to, 0) + 1
            if n % LONG_LOOP:
                return False
            self.outside = True
        mask = self.current() if mask is None else mask
        self.stepped = True
        self.defer(to, mask)
        if self.st.agents.prompt and self.vain < HOLDS:
            warps = np.repeat(mask.reshape(-1, 32).any(axis=1), 32)
            for at, ready in list(self.ready.items()):
                if (mates := ready & warps).any():
                    self.defer(at, mates)
                    if (others := ready & ~warps).any():
                        self.ready[at] = others
                    else:
                        del self.ready[at]
        return True

    def defer(self, block: int, mask: np.ndarray) -> None:
        """Let threads go on at `block` when no others are ready."""
        have = self.deferred.get(block)
        self.deferred[block] = mask if have is None else have | mask

    def predicate(self, block: Block, slot: int, negated: bool):
        st = self.st
        try:
            if st.I[slot] is True or st.launch.undefined == "raise" or block.end[0] != "bra":
                return predicate_of(st, slot, negated)
            self.remark(block.end_line, slot)
            return predicate_of(st, slot, negated, "ignore")
        except SimulationError as error:
            self.report(error, block.end_line)
            raise

    def remark(self, line: int, slot: int) -> None:
        """Keep a finding, once a line, when a branch or a load's address depends on a register without a value.

        Compilers leave such code for threads whose results nobody uses, so it isn't a fault yet."""
        findings = self.st.launch.findings
        if line not in findings:
            try:
                self.st.check(slot)
            except SimulationError as error:
                self.report(error, line)
                findings[line] = error

    def where(self) -> int:
        """The PTX line being executed."""
        lines = self.block.lines
        return lines[self.at] if 0 <= self.at < len(lines) else self.block.end_line

    def found(self, error: SimulationError, line: int = 0) -> None:
        """Keep a finding, once a line (`line` 0: the one being executed; `error.thread`: who)."""
        line = line or self.where()
        if line not in self.st.launch.findings:
            self.report(error, line)
            self.st.launch.findings[line] = error

    def special_end(self, at: int, block: Block, end: tuple) -> int:
        """Ends other than plain branches; returns the next block, or -1 when the fragment is over."""
        st = self.st
        kind, slot, negated = end[0], end[-2], end[-1]
        mask, rest = self.current(), None
        if slot is not None:
            taken = self.predicate(block, slot, negated)
            if taken is None:
                return at + 1
            if taken is not True:
                rest = mask & ~taken
                mask = taken
        if rest is not None:
            st.set_mask(mask)
        try:
            if kind == "exit":
                self.leave(mask)
            elif kind == "brx":
                self.jump(end[1], end[2], mask)
            else:
                whole = st.mask is None
                out = end[1].arrive(st, mask, at + 1)
                if whole and rest is None and len(out) == 1 and not self.ready and st.mask is None and \
                        out[0][0] == at + 1 and np.count_nonzero(out[0][1]) == self.live_count:
                    return at + 1
                for to, go in out:
                    self.merge(to, go)
        except SimulationError as error:
            self.report(error, block.end_line)
            raise
        if rest is not None:
            self.merge(at + 1, rest)
        return -1

    def jump(self, get, targets: list[int], mask: np.ndarray) -> None:
        """brx.idx: every thread goes to the target of its index."""
        st = self.st
        index = st.spread(get(st))
        for value in np.unique(index[mask]):
            if value >= len(targets):
                bad = int(np.argmax(mask & (index == value)))
                raise SimulationError(f"branch index {int(value)} is outside the table", thread=bad)
            self.merge(targets[int(value)], mask & (index == value))

    def leave(self, mask: np.ndarray) -> None:
        """Threads exit. Whoever waited only for them goes on."""
        st = self.st
        clusters.leave(st, mask, self.block.end_line)
        st.live &= ~mask
        st.all_live = False
        st.exited = np.logical_not(st.live.reshape(st.ctas, -1).any(axis=1))
        self.live_count = int(np.count_nonzero(st.live))
        if st.order is not None:
            st.order.left()
        if st.bulk_groups is not None:
            st.bulk_groups.left(st)
        if st.agents:
            st.agents.left(~st.live.reshape(st.ctas, -1).any(axis=1))
        for ident, state in st.barriers.items():
            if state.waiting:
                for to, go in barriers.complete(st, ident, state):
                    self.merge(to, go)
        for to, go in clusters.complete(st):
            self.merge(to, go)
        for at, waiting in list(self.parked.items()):
            self.merge(at, waiting)
        self.parked.clear()

    def converge(self, at: int, block: Block) -> int:
        """Park the threads whose warp isn't complete at a warp-synchronous instruction.

        Returns -1 when all may go on, else the number of threads that do."""
        st = self.st
        assert block.sync is not None
        members, slot, negated = block.sync
        active = st.active
        if slot is not None:
            taken = self.predicate(block, slot, negated)
            if taken is None:
                return -1
            if taken is not True:
                active = taken
        here = active.reshape(-1, 32)
        if members is None:
            need = st.live.reshape(-1, 32)
        elif members == "warpgroup":
            # four warps are there when every living thread of them is: else all of them count as missing
            group = st.cta_of * (-(-st.padded // 128)) + st.everyone % st.padded // 128
            away = np.bincount(group, st.live & ~active) > 0
            need, here = away[group].reshape(-1, 32), active.reshape(-1, 32)
            if not (need & here).any():
                return -1
            late = (need & here).reshape(-1)
            return self.park(at, late)
        else:
            saved = st.mask, st.index, st._lanes
            if active is not st.mask:
                st.set_mask(active)
            try:
                value = np.where(active, st.spread(members(st)), 0).astype(np.uint32).reshape(-1, 32)
            except SimulationError as error:
                self.report(error, block.lines[0] if block.lines else block.end_line)
                raise
            st.mask, st.index, st._lanes = saved
            bits = np.bitwise_or.reduce(value, axis=1)
            need = ((bits[:, None] >> np.arange(32, dtype=np.uint32)) & 1).astype(bool) & st.live.reshape(-1, 32)
        missing = (need & ~here).any(axis=1) & here.any(axis=1)
        if not missing.any():
            return -1
        return self.park(at, np.repeat(missing, 32) & st.active)

    def park(self, at: int, late: np.ndarray) -> int:
        """Let the active threads of `late` wait at block `at`; returns how many threads go on."""
        st = self.st
        go = st.active & ~late
        have = self.parked.get(at)
        self.parked[at] = late if have is None else have | late
        count = int(np.count_nonzero(go))
        if count:
            st.set_mask(go)
        return count

    def stuck(self) -> None:
        """Raise Deadlock, saying who waits for what."""
        st = self.st
        words = []
        thread, line = None, 0
        for ident, state in sorted(st.barriers.items()):
            for resume, mask, _ in state.waiting:
                cta = int(np.argmax(mask)) // st.padded
                thread = int(np.argmax(mask))
                line = self.blocks[resume - 1].end_line
                words.append(f"{int(mask.reshape(st.ctas, st.padded)[cta].sum())} threads wait at barrier {ident} "
                             f"(line {line}), {int(state.arrived[cta])} of "
                             f"{int(state.expected[cta]) or int(st.live.reshape(st.ctas, -1)[cta].sum())} arrived")
        for said, who, resume in clusters.describe(st):
            thread = who
            line = self.blocks[resume - 1].end_line
            words.append(f"{said} (line {line})")
        for at, mask in sorted(self.parked.items()):
            thread = int(np.argmax(mask))
            line = (self.blocks[at].lines or [self.blocks[at].end_line])[0]
            sync = self.blocks[at].sync
            group = "warpgroup" if sync is not None and sync[0] == "warpgroup" else "warp"
            words.append(f"{int(mask.sum())} threads wait for their {group} at line {line}")
        words += launchcontrol.describe(st)
        words += mbarrier.describe_waits(st)
        if st.tensor is not None:
            words += st.tensor.describe_waits()
        error = mbarrier.blame(st)
        if error is None:
            error = Deadlock("; ".join(words) or "no thread can go on", thread=thread)
            waits = mbarrier.first_wait(st)
            if waits is not None:
                error.thread, line = waits
        else:
            line = error.line or line
        self.report(error, line)
        raise error

    def report(self, error: SimulationError, line: int) -> None:
        """Say where an error happened."""
        st = self.st
        module = st.program.module
        ctaid = tid = warp = lane = None
        thread = error.thread
        if thread is None and st.active.any():
            thread = int(np.argmax(st.active))
        if thread is not None and thread < st.size:
            launch = st.launch
            ctaid = launch.ctaid(st.first + thread // st.padded)
            tid = launch.unflatten(thread % st.padded, launch.block)
            warp, lane = divmod(thread % st.padded, 32)
        text = module.lines[line - 1].strip() if 0 < line <= len(module.lines) else ""
        error.locate(kernel=st.program.entry.name, ctaid=ctaid, tid=tid, warp=warp, lane=lane, line=line,
                     text=text, source=module.source_of(line))
