"""`order-memory`: a barrier where accesses by different threads must not overtake each other.

    store_shared %x, %b                         store_shared %x, %b
    %y = load_shared %b                  ->     barrier
                                                %y = load_shared %b

Two things ask for order. *Buffers*: an access must wait for those that touch the same bytes of shared memory, one of the two
writing (`allocate-buffers` has said which bytes; what a buffer's place held before counts too). *Tokens*: two accesses joined by a
path of tokens happen in order, at least one of them writing; accesses that no token joins stay unordered. Threads of a block hold
different elements in the two, so program order isn't enough; a barrier is (it makes writes visible to the block, and a release
after it carries them to the device). One barrier serves every pair that it separates. Where each warp touches bytes of its own in
both accesses (`analysis/warp_bytes.py`), its threads meet and nobody else's (`warp_barrier`). Where the CTAs of a cluster share a
tile block, tokens ask for a barrier of the cluster, buffers for one of their CTA's (but for products that two CTAs compute
together). What ops do is said in `analysis/effects.py`.

The stages of a ring are ordered by their pipe: accesses to the same ring don't wait for each other here, only for what else has
its place. Products into tensor memory are done in order, and every thread waits for them itself: behind the wait nobody else's
barrier is needed. An agent's barriers are its team's. Where the copy engine or the tensor cores themselves touch bytes that threads
write, or write bytes that threads read, these say `fence_async` behind it: before the next barrier, before they tell that a stage
is full or empty, or at the end of their block. (Without, an H100's copy engine fills a stage again that `ldmatrix` is still
reading, though its warp has given the stage back.) A wait for groups of copies counts as a write; behind one for copies of other
threads the fence stands at once, since who waits there may begin a product without meeting anybody.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, UnitAttr, i1, i64
from xdsl.ir import Block, Operation, Region, SSAValue

from tileiras.analysis.agents import SWITCH, agent_of, switch_of
from tileiras.analysis.apart import Amount, Below, clashes, maker_of
from tileiras.analysis.effects import Effects, effects_of
from tileiras.analysis.program_slice import loop_around
from tileiras.analysis.tensor_dots import is_paired, is_told_by_dots
from tileiras.analysis.touches import DOT, TENSOR_MEMORY, Meeting, Touch, touches
from tileiras.dialects import arith, nv_tileas
from tileiras.dialects.location_text import location_text
from tileiras.dialects.nv_tileaa import MemTokenType
from tileiras.dialects.nv_tileas import COPIES_BY_THREADS, LOOPS, PipeType, TmemType
from tileiras.errors import CompileError

NEVER = -1
FREE = "nv_tileas.tmem_free"
ACQUIRE, COMMIT, RELEASE = "nv_tileas.producer_acquire", "nv_tileas.producer_commit", "nv_tileas.consumer_release"
WAIT = "nv_tileas.consumer_wait"
LEAST_STAGES = 3
"""Of a ring whose stage is given back later than it could be: one is read, one is there, one is on its way."""
READ_BY_ENGINES = frozenset({*COPIES_BY_THREADS, "nv_tileas.dot_wait", "nv_tileas.store_wait"})
"""What threads do themselves and yet doesn't touch memory there: who waits for copies, or for an engine that has read."""


@dataclass(frozen=True)
class Pending:
    """When (in program order) the last read and the last write that a token stands for happened."""

    read: int = NEVER
    write: int = NEVER

    def __or__(self, other: Pending) -> Pending:
        return Pending(max(self.read, other.read), max(self.write, other.write))


State = frozenset[Touch]
"""The accesses to shared memory that may have happened since the last barrier."""
NOTHING: State = frozenset()
Placed = tuple[int, int]
"""How many barriers: of the block (or cluster), and of warps."""
NONE_PLACED: Placed = (0, 0)


@dataclass(frozen=True)
class Carried:
    """A loop hands on a token, by its place among what it carries, whose last read or write wasn't met behind."""

    index: int
    writes: bool


@dataclass
class Exits:
    """How control leaves a loop's body, to go on or to leave: with which states, and with which tokens."""

    again: list[State] = field(default_factory=list)
    left: list[State] = field(default_factory=list)
    carried: set[Carried] = field(default_factory=set)
    given: set[Carried] = field(default_factory=set)


MOST_NESTED = 2
"""Loops around more loops than so many, one in the other, are taken to begin with all pending that they touch: finding out more
walks the innermost body three times as often for each loop around it."""


def run(module: ModuleOp, context: Any = None) -> None:
    """Insert the barriers, in place."""
    for func in module.body.block.ops:
        if func.name == "nv_tileas.func":
            effects = {op: found for op in func.walk() if (found := effects_of(op)) != Effects()}
            if effects:
                _release_together(func, effects)
                _Ordering(effects, "cluster" in func.properties).block(func.regions[0].block)
            _keep_overlapping_stores_in_order(func)
            _stay(func)


def _release_together(func: Operation, effects: dict[Operation, Effects]) -> None:
    """A stage that threads read, and give back before they read one of another pipe, is given back with that one: the fence before
    is enough for both (int8 weights beside f16 on an H100: 234 us with two fences an iteration, 225 with one). The copy engine must
    have other stages to fill meanwhile."""
    for op in [op for op in func.walk() if op.name == RELEASE]:
        pipe: Any = op.operands[0].type
        if pipe.kind.data != "tma" or pipe.stages.data < LEAST_STAGES or not _reads(op, effects, lambda o: o.prev_op, WAIT):
            continue
        following = _reads(op, effects, lambda o: o.next_op, RELEASE)
        if following is not None and following.operands[0].type.kind.data == "tma":     # type: ignore[attr-defined]
            op.detach()
            following.parent.insert_op_before(op, following)    # type: ignore[union-attr]


def _reads(op: Operation, effects: dict[Operation, Effects], step: Callable[[Operation], Operation | None],
           end: str) -> Operation | None:
    """The next op of a name in a block, one way or the other, if threads read from shared memory on the way there, and nothing on
    it has regions or waits for an empty stage."""
    reads, at = False, step(op)
    while at is not None and not at.regions and at.name != ACQUIRE:
        if at.name == end:
            return at if reads else None
        found = effects.get(at)
        reads |= found is not None and bool(found.reads) and not found.engine
        at = step(at)
    return None


def _keep_overlapping_stores_in_order(func: Operation) -> None:
    """A loop's stores to an array of which only the launch knows whether tiles overlap: if so, the threads meet in front of each.
    (CTAs of a cluster don't: their agents couldn't.)"""
    meetings: dict[Operation, SSAValue] = {}
    for op in [op for op in func.walk() if op.name == "nv_tileas.tiled_store" and "unless_apart" in op.properties]:
        maker, block = maker_of(op.view), op.parent     # type: ignore[attr-defined]
        assert block is not None
        if "cluster" in func.properties or any(other.name == "nv_tileas.barrier" for other in block.ops):
            continue        # one in the block is between a store and the next
        meet = nv_tileas.Barrier.create(location=op.location)
        if maker is None:
            block.insert_op_before(meet, op)
            continue
        if maker not in meetings:
            meetings[maker] = _overlaps(maker)
        branch = arith.If.create(operands=[meetings[maker]], regions=[Region(Block([meet, arith.Yield.create()])), Region()],
                                 location=op.location)
        block.insert_op_before(branch, op)


def _overlaps(maker: Any) -> SSAValue:
    """Whether elements of an array share places, computed behind what makes it."""
    last: Operation = maker

    def put(op: Any) -> SSAValue:
        nonlocal last
        op.location = maker.location
        maker.parent.insert_op_after(op, last)
        last = op
        return op.results[0]

    def amount(v: Amount) -> SSAValue:
        if isinstance(v, int):
            return put(arith.Constant.make([], [i64], {"value": IntegerAttr(v, i64)}))
        return v if v.type == i64 else put(arith.Extsi.make([v], [i64]))

    def below(b: Below) -> SSAValue:
        least = put(arith.Muli.make([amount(b.inner), amount(b.extent)], [i64]))
        return put(arith.Cmpi.make([amount(b.stride), least], [i1], {"predicate": StringAttr("slt")}))

    ways = [functools.reduce(lambda x, y: put(arith.Andi.make([x, y], [i1])), map(below, way)) for way in clashes(maker)]
    return functools.reduce(lambda x, y: put(arith.Ori.make([x, y], [i1])), ways)


def _stay(func: Operation) -> None:
    """Where CTAs fill each other's stages or multiply together, none leaves (or gives tensor memory back) while another may still
    tell it that a stage is empty, or begins before all others' barriers are set up. What tensor cores tell comes when it will: who
    fills stages waits until all are given back.

    Of agents, those that fill stages wait until all CTAs have given them back: nobody tells this one anything behind that, and it
    may leave. Pairs give tensor memory back together: their agents say when they have done with all that they share, and wait for
    the other CTA's at their end; results are stored in between, and nobody waits until the whole device sees them (MEMBAR, B200:
    some 300 cycles). So it is, with an order, where stages are given back to nobody who waits for it."""
    joined = [op for op in func.walk() if _is_joined(op)]
    if "cluster" not in func.properties or not joined:
        return
    switch = switch_of(func)
    told = [op.results[0] for op in joined if "once" not in op.properties and _used(op, ACQUIRE) and _used(op, RELEASE)]
    filled = [v for v in told if v.type.kind.data != "umma" and (       # type: ignore[attr-defined]
        switch is not None or any(is_told_by_dots(use.operation) for use in v.uses))]
    waited_for = filled == told and not any("once" in op.properties for op in joined)
    relaxed = {"relaxed": UnitAttr()} if waited_for else {}
    alone = waited_for and not any("pair" in op.properties for op in joined)
    for op in list((func if switch is None else switch).walk()):
        if op.name == "nv_tileas.return":
            assert op.parent is not None
            before = op.prev_op if op.prev_op is not None and op.prev_op.name == FREE else op
            for pipe in filled:
                if any(use.operation.name == ACQUIRE and agent_of(use.operation) == agent_of(op) for use in pipe.uses):
                    op.parent.insert_op_before(nv_tileas.ProducerTail.create(operands=[pipe], location=op.location), before)
            if switch is None:
                op.parent.insert_op_before(nv_tileas.ClusterBarrier.create(location=op.location), before)
            if switch is None or alone:
                continue
            last = before.prev_op
            while last is not None and not _is_shared(last):
                last = last.prev_op
            arrive = nv_tileas.ClusterArrive.create(properties=relaxed, location=op.location)
            if last is None:
                op.parent.insert_op_before(arrive, op.parent.first_op or before)
            else:
                op.parent.insert_op_after(arrive, last)
            op.parent.insert_op_before(nv_tileas.ClusterWait.create(location=op.location), before)


def _used(pipe: Operation, name: str) -> bool:
    return any(use.operation.name == name for use in pipe.results[0].uses)


def _is_shared(op: Operation) -> bool:
    """Whether an op, or one inside of it, touches what CTAs share: pipes, tensor memory, another's shared memory, a barrier of
    theirs; or leaves."""
    return any(inner.name in ("nv_tileas.return", "nv_tileas.cluster_barrier") or "peer" in inner.properties or
               any(isinstance(v.type, (PipeType, TmemType)) for v in (*inner.operands, *inner.results)) or
               inner.name.startswith("nv_tileas.tmem_") for inner in op.walk())


def _is_joined(op: Operation) -> bool:
    """Whether other CTAs arrive at a pipe's barriers."""
    return op.name == "nv_tileas.create_pipeline" and not {"peers", "pair"}.isdisjoint(op.properties)


class _Ordering:
    """The walk in program order. `state`: what shared memory's accesses are pending, None where control doesn't get.
    `rehearsing`: what would be done is noted, and nothing is put into the program."""

    def __init__(self, effects: dict[Operation, Effects], cluster: bool = False) -> None:
        self.effects = effects
        self.known: dict[Operation, list[Touch]] = {}
        self.cluster = cluster
        self.now = 0
        self.last_barrier = 0
        self.last_meeting = 0       # of all who share the tile block: what tokens order is done
        self.tokens: dict[SSAValue, Pending] = {}
        self.state: State | None = NOTHING
        self.exits: list[Exits] = []
        self.rehearsing = False
        self.placed = NONE_PLACED
        self.engine = [t for op, found in effects.items() if found.engine for t in self.touches(op, found)
                       if t.start < TENSOR_MEMORY]
        self.fence_due = False
        self.stage_read = False     # whether a stage is to be given back behind a fence
        self.joined = False         # whether barriers that other CTAs arrive at are being set up

    def touches(self, op: Operation, found: Effects) -> list[Touch]:
        """What an op touches, found once for all walks over it."""
        if op not in self.known:
            self.known[op] = touches(op, found)
        return self.known[op]

    def pending(self, v: SSAValue) -> Pending:
        return self.tokens.get(v, Pending())

    def block(self, block: Block) -> None:
        for op in list(block.ops):
            if op.regions or op is block.last_op:
                self.fence_due |= self.stage_read
                self.fence(op)
            self.visit(op)

    def fence(self, before: Operation) -> None:
        if self.fence_due:
            self.fence_due = self.stage_read = False
            if not self.rehearsing:
                assert before.parent is not None
                before.parent.insert_op_before(nv_tileas.FenceAsync.create(location=before.location), before)

    def owe_fence(self, op: Operation, mine: list[Touch]) -> None:
        """A fence is due where the copy engine or the tensor cores touch what threads have written by this op, or write what it
        reads. What a copy brings is there at the wait for it, not here."""
        if op.name in READ_BY_ENGINES:
            return
        for t in mine:
            met = [e for e in self.engine if t.start < e.end and e.start < t.end and (t.writes or e.writes)]
            if met and not t.writes and t.ring is not None:
                self.stage_read = True
            elif met:
                self.fence_due = True

    def visit(self, op: Operation) -> None:
        if op.name == "nv_tileas.barrier":
            self.fence(op)
            self.met()
        elif op.name == "nv_tileas.warp_barrier":
            self.warps_met()
        elif op.name == "nv_tileas.cluster_barrier":
            self.fence(op)
            self.met(True)
        elif op.name == "nv_tileas.consumer_wait":
            pipe: Any = op.operands[0].type
            self.fence_due |= pipe.kind.data == "group" and any(t.ring is not None for t in self.engine)
            if pipe.kind.data == "cp_async" and any(t.ring is not None for t in self.engine):
                # who has waited for the threads' copies says so himself
                self.fence_due = True
                self.fence(op.next_op)      # type: ignore[arg-type]
            if pipe.kind.data == "umma":
                self.state = frozenset(t for t in self.state or NOTHING if t.op.name != DOT)
                self.access(op)
        elif op.name in LOOPS:
            self.loop(op)
        elif op.name == "scf.if":
            self.branch(op)
        elif op.name == SWITCH:
            if any(max(p.read, p.write) > self.last_meeting for p in self.tokens.values()):
                self.barrier(op, self.cluster)      # the last of the whole block: an agent's are its team's
            elif self.state:
                self.barrier(op)
            self.branch(op)
        else:
            if op.name in (COMMIT, RELEASE):
                self.fence_due |= op.name == RELEASE and self.stage_read
                self.fence(op)
            self.access(op)
            self.leave(op)

    def leave(self, op: Operation) -> None:
        """A terminator that doesn't fall through to what follows the region."""
        if op.name in ("nv_tileas.break", "nv_tileas.continue"):
            if self.state is not None and self.exits:
                exits = self.exits[-1]
                if op.name == "nv_tileas.break":
                    exits.left.append(self.state)
                    exits.given |= self.handed_on(op)
                else:
                    exits.again.append(self.state)
                    exits.carried |= self.handed_on(op)
            self.state = None
        elif op.name == "nv_tileas.return":
            self.state = None

    def handed_on(self, op: Operation) -> set[Carried]:
        """The tokens that a loop's body ends with of accesses that nobody has met behind."""
        out = set()
        for i, v in enumerate(op.operands):
            if isinstance(v.type, MemTokenType):
                p = self.pending(v)
                out |= {Carried(i, writes) for writes, at in ((False, p.read), (True, p.write)) if at > self.last_meeting}
        return out

    def access(self, op: Operation) -> None:
        found = self.effects.get(op)
        before = Pending()
        for v in op.operands:
            if isinstance(v.type, MemTokenType):
                before |= self.pending(v)
        after = before
        if found is not None:
            mine = self.touches(op, found)
            if ((found.token_read or found.token_write) and before.write > self.last_meeting) or (
                    found.token_write and before.read > self.last_meeting):
                self.barrier(op, self.cluster)
            else:
                meeting = Meeting.BLOCK if found.before or (found.engine and self.fence_due) else self.meeting(mine)
                if meeting == Meeting.BLOCK:
                    self.barrier(op, self.joins(op))
                elif meeting == Meeting.WARP:
                    self.warp_barrier(op)
            if self.engine and not found.engine:
                self.owe_fence(op, mine)
            if found.inside:
                self.met()
                mine = [t for t in mine if not t.writes]
            if found.behind:
                self.barrier_behind(op)
            elif mine:
                self.state = (self.state or NOTHING) | frozenset(mine)
            if found.token_read or found.token_write:
                self.now += 1
                after = before | Pending(self.now if found.token_read else NEVER, self.now if found.token_write else NEVER)
        for r in op.results:
            if isinstance(r.type, MemTokenType):
                self.tokens[r] = after

    def meeting(self, mine: list[Touch]) -> Meeting:
        """Who must meet in front of an op that touches this, for what is pending."""
        found = Meeting.NOBODY
        for touch in mine:
            for old in self.state or NOTHING:
                found = max(found, touch.clashes(old))
                if found == Meeting.BLOCK:
                    return found
        return found

    def joins(self, op: Operation) -> bool:
        """Whether an op reads and writes what threads of two CTAs touch: products of a pair. Raises CompileError where these don't
        meet."""
        paired = op.name == DOT and is_paired(op)
        if paired and agent_of(op) is not None:
            raise CompileError("agents of two CTAs would have to meet before their product", location_text(op))
        return paired

    def barrier(self, op: Operation, cluster: bool = False) -> None:
        self.fence(op)
        self.placed = self.placed[0] + 1, self.placed[1]
        if not self.rehearsing:
            assert op.parent is not None
            kind = nv_tileas.ClusterBarrier if cluster else nv_tileas.Barrier
            op.parent.insert_op_before(kind.create(location=op.location), op)
        self.met(cluster)

    def warp_barrier(self, op: Operation) -> None:
        """Each warp's threads meet: what they did is still to be ordered with other warps' accesses."""
        self.placed = self.placed[0], self.placed[1] + 1
        if not self.rehearsing:
            assert op.parent is not None
            op.parent.insert_op_before(nv_tileas.WarpBarrier.create(location=op.location), op)
        self.warps_met()

    def warps_met(self) -> None:
        if self.state is not None:
            self.state = frozenset(replace(t, met=True) for t in self.state)

    def barrier_behind(self, op: Operation) -> None:
        """One behind a run of such ops; of the cluster, where one of them is."""
        self.joined |= _is_joined(op)
        following = op.next_op
        if following is None or not self.effects.get(following, Effects()).behind:
            self.placed = self.placed[0] + 1, self.placed[1]
            if not self.rehearsing:
                assert op.parent is not None
                kind = nv_tileas.ClusterBarrier if self.joined else nv_tileas.Barrier
                made = kind.create(location=op.location)
                if self.joined and self.is_first(op):
                    made.properties["relaxed"] = UnitAttr()
                op.parent.insert_op_after(made, op)
            self.met(self.joined)
            self.joined = False

    def is_first(self, op: Operation) -> bool:
        """Whether nothing has been done yet but pipes set up. That has a fence of its own, so that threads needn't wait until all
        that they did is seen by the whole device (B200: some 300 cycles)."""
        before: Operation | None = op
        while before is not None and self.effects.get(before, Effects()).behind:
            if before.name != "nv_tileas.create_pipeline":
                return False
            before = before.prev_op
        return self.now == 0 and not self.state

    def met(self, cluster: bool = False) -> None:
        self.now += 1
        self.last_barrier = self.now
        if cluster or not self.cluster:
            self.last_meeting = self.now
        self.state = NOTHING

    def loop(self, op: Any) -> None:
        """What the body leaves pending is pending when it begins again. That depends on the barriers placed in it, and these on
        what is pending: the body begins with the least that is known to last, and else with all that it touches."""
        inside = [(inner, self.effects[inner]) for inner in op.walk() if inner in self.effects]
        reads = any(e.token_read for _, e in inside)
        writes = any(e.token_write for _, e in inside)
        touched = frozenset(t for inner, e in inside for t in self.touches(inner, e))
        carried = frozenset(Carried(i, w) for i, v in enumerate(op.carried_inits()) if isinstance(v.type, MemTokenType)
                            for w, does in ((False, reads), (True, writes)) if does)
        if (touched or carried) and _loops_within(op) <= MOST_NESTED:
            touched, carried = self.lasting(op, touched, carried)
        entry = self.state or NOTHING
        before, meeting = self.last_barrier, self.last_meeting
        exits = self.body(op, touched, carried)
        repeats = op.name == "scf.for"
        self.state = NOTHING.union(*exits.left, *([entry, *exits.again] if repeats else ()))
        self.last_barrier, self.last_meeting = before, meeting
        self.hand_on(op.results, op.carried_inits() if repeats else (), exits.carried if repeats else exits.given)

    def hand_on(self, values: Sequence[SSAValue], inits: Sequence[SSAValue], carried: AbstractSet[Carried]) -> None:
        """The tokens that a loop gives its body or its results: what it begins with, and what these stand for as if just made."""
        self.now += 1
        for i, v in enumerate(values):
            if isinstance(v.type, MemTokenType):
                read, write = (self.now if Carried(i, writes) in carried else NEVER for writes in (False, True))
                self.tokens[v] = Pending(read, write) | (self.pending(inits[i]) if inits else Pending())

    def lasting(self, op: Any, touched: State, carried: frozenset[Carried]) -> tuple[State, frozenset[Carried]]:
        """What of a body's own accesses is pending when it begins again. What a rehearsal that begins with all of them ends with is
        less; it is right if a rehearsal that begins with that ends with no more."""
        all_placed, state, tokens = self.rehearse(op, touched, carried)
        if all_placed == NONE_PLACED or (touched <= state and carried <= tokens):
            return touched, carried
        placed, state_again, tokens_again = self.rehearse(op, state, tokens)
        lasts = state_again <= state | (self.state or NOTHING) and tokens_again <= tokens
        return (state, tokens) if lasts and placed < all_placed else (touched, carried)

    def rehearse(self, op: Any, state: State, carried: frozenset[Carried]) -> tuple[Placed, State, frozenset[Carried]]:
        """(barriers placed, accesses, tokens) with which the body ends when it begins with these of an iteration before."""
        kept = (self.now, self.last_barrier, self.last_meeting, self.tokens, self.state, self.fence_due, self.stage_read,
                self.joined, self.placed, self.rehearsing)
        self.tokens, self.rehearsing, self.placed = dict(self.tokens), True, NONE_PLACED
        exits = self.body(op, state, carried)
        found = self.placed, NOTHING.union(*exits.again), frozenset(exits.carried)
        (self.now, self.last_barrier, self.last_meeting, self.tokens, self.state, self.fence_due, self.stage_read, self.joined,
         self.placed, self.rehearsing) = kept
        return found

    def body(self, op: Any, state: State, carried: frozenset[Carried]) -> Exits:
        """Walk a loop's body, in front of which these accesses of an iteration before are pending besides what is so already."""
        self.state = (self.state or NOTHING) | state
        self.hand_on(op.carried_args(), op.carried_inits(), carried)
        block = op.regions[0].block
        exits = Exits()
        self.exits.append(exits)
        self.block(block)
        self.exits.pop()
        if self.state is not None:
            exits.again.append(self.state)
            if block.last_op.name == "scf.yield":
                exits.carried |= self.handed_on(block.last_op)
        return exits

    def branch(self, op: Operation) -> None:
        start, meeting, state = self.last_barrier, self.last_meeting, self.state
        barriers, meetings, ends = [], [], []
        for region in op.regions:
            self.last_barrier, self.last_meeting, self.state = start, meeting, state
            if region.blocks:
                self.block(region.block)
            barriers.append(self.last_barrier)
            meetings.append(self.last_meeting)
            ends.append(self.state)
        self.last_barrier, self.last_meeting = min(barriers), min(meetings)
        reached = [end for end in ends if end is not None]
        self.state = NOTHING.union(*reached) if reached else None
        for i, r in enumerate(op.results):
            if not isinstance(r.type, MemTokenType):
                continue
            joined = Pending()
            for region in op.regions:
                last = region.block.last_op if region.blocks else None
                if last is not None and last.name == "scf.yield":
                    joined |= self.pending(last.operands[i])
            self.tokens[r] = joined


def _loops_within(op: Operation) -> int:
    """How many loops stand one in the other inside a loop."""
    within = {op: 0}
    for inner in op.walk():
        around = loop_around(inner) if inner is not op and inner.name in LOOPS else None
        if around is not None:
            within[inner] = within[around] + 1
    return max(within.values())
