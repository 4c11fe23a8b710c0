"""`order-memory`: a block barrier where accesses by different threads must not overtake each other.

    store_shared %x, %b                         store_shared %x, %b
    %y = load_shared %b                  ->     barrier
                                                %y = load_shared %b

Two things ask for order. *Buffers*: an access must wait for those that touch the same bytes of shared memory, one of the two
writing (`allocate-buffers` has said which bytes; what a buffer's place held before counts too). *Tokens*: two accesses joined by a
path of tokens happen in order, at least one of them writing; accesses that no token joins stay unordered. Threads of a block hold
different elements in the two, so program order isn't enough; a barrier is (it makes writes visible to the block, and a release
after it carries them to the device). One barrier serves every pair that it separates. Where the CTAs of a cluster share a tile
block, tokens ask for a barrier of the cluster, buffers for one of their CTA's (but for products that two CTAs compute together).
What ops do is said in `analysis/effects.py`.

The stages of a ring are ordered by their pipe: accesses to the same ring don't wait for each other here, only for what else has
its place. Products into tensor memory are done in order, and every thread waits for them itself: behind the wait nobody else's
barrier is needed. An agent's barriers are its team's. Where the copy engine or the tensor cores themselves touch bytes that threads
write, the writers say `fence_async` behind their writes: before the next barrier, before they tell that a stage is full, or at
the end of their block. A wait for groups of copies counts as a write; behind one for copies of other threads the fence stands at
once, since who waits there may begin a product without meeting anybody.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from tileiras.analysis.agents import SWITCH, agent_of, switch_of
from tileiras.analysis.effects import Effects, effects_of
from tileiras.analysis.shared_memory import buffer_bytes
from tileiras.analysis.tensor_dots import is_paired
from tileiras.dialects import nv_tileas
from tileiras.dialects.location_text import location_text
from tileiras.dialects.nv_tileaa import MemTokenType
from tileiras.dialects.nv_tileas import COPIES_BY_THREADS, LOOPS, RingType, TmemType, layout_of
from tileiras.errors import CompileError
from tileiras.layout.atoms.umma import COLUMNS, GROUP_WARPS

NEVER = -1
TENSOR_MEMORY = 1 << 32
"""Added to columns of tensor memory, which are places as bytes of shared memory are."""
DOT, COMMIT, FREE = "nv_tileas.tensor_dot", "nv_tileas.producer_commit", "nv_tileas.tmem_free"
ACQUIRE, RELEASE = "nv_tileas.producer_acquire", "nv_tileas.consumer_release"
MOVES = ("nv_tileas.load_tmem", "nv_tileas.store_tmem", "nv_tileas.scale_tmem")


@dataclass(frozen=True)
class Pending:
    """When (in program order) the last read and the last write that a token stands for happened."""

    read: int = NEVER
    write: int = NEVER

    def __or__(self, other: Pending) -> Pending:
        return Pending(max(self.read, other.read), max(self.write, other.write))


@dataclass(frozen=True)
class Touch:
    """An access to bytes [start, end) of shared memory by `op` since the last barrier, of `ring` if they are a ring's; `engine`:
    not by the threads themselves; `own`: of tensor memory, each warp in lanes that no other one reaches."""

    start: int
    end: int
    writes: bool
    op: Operation
    ring: SSAValue | None = None
    engine: bool = False
    own: bool = False

    @property
    def places(self) -> tuple[int, int]:
        return self.start, self.end

    def clashes(self, other: Touch) -> bool:
        """Whether the two must not overtake each other. Writes of one op are in order: the same thread writes the same place."""
        if not (self.start < other.end and other.start < self.end and (self.writes or other.writes)):
            return False
        if self.ring is not None and self.ring is other.ring:
            return False
        if self.op.name == other.op.name == DOT:
            return False        # products are done in order
        if other.op.name == COMMIT:
            return False        # of products: who waits for it waits
        if self.start >= TENSOR_MEMORY and DOT not in (self.op.name, other.op.name) and (
                self.places == other.places or (self.own and other.own)):
            return False        # a thread loads what it has stored
        return not (self.op is other.op and self.writes and other.writes)


State = frozenset[Touch]
"""The accesses to shared memory that may have happened since the last barrier."""
NOTHING: State = frozenset()


def run(module: ModuleOp, context: Any = None) -> None:
    """Insert the barriers, in place."""
    for func in module.body.block.ops:
        if func.name == "nv_tileas.func":
            effects = {op: found for op in func.walk() if (found := effects_of(op)) != Effects()}
            if effects:
                _Ordering(effects, "cluster" in func.properties).block(func.regions[0].block)
            _stay(func)


def _stay(func: Operation) -> None:
    """Where CTAs fill each other's stages or multiply together, none leaves (or gives tensor memory back) while another may still
    tell it that a stage is empty, or begins before all others' barriers are set up. What tensor cores tell comes when it will: who
    fills stages waits until all are given back."""
    if "cluster" not in func.properties or not any(map(_is_joined, func.walk())):
        return
    switch = switch_of(func)
    filled = [op.results[0] for op in func.walk() if _is_joined(op) and "once" not in op.properties and any(
        use.operation.name == RELEASE and "by_dots" in use.operation.properties for use in op.results[0].uses)]
    for op in list((func if switch is None else switch).walk()):
        if op.name == "nv_tileas.return":
            assert op.parent is not None
            before = op.prev_op if op.prev_op is not None and op.prev_op.name == FREE else op
            for pipe in filled:
                if any(use.operation.name == ACQUIRE and agent_of(use.operation) == agent_of(op) for use in pipe.uses):
                    op.parent.insert_op_before(nv_tileas.ProducerTail.create(operands=[pipe], location=op.location), before)
            op.parent.insert_op_before(nv_tileas.ClusterBarrier.create(location=op.location), before)


def _is_joined(op: Operation) -> bool:
    """Whether other CTAs arrive at a pipe's barriers."""
    return op.name == "nv_tileas.create_pipeline" and not {"peers", "pair"}.isdisjoint(op.properties)


def touches(op: Operation, effects: Effects) -> list[Touch]:
    """The bytes that an op touches; of a buffer that it reads and writes, both."""
    out = [Touch(TENSOR_MEMORY, TENSOR_MEMORY + COLUMNS + 1, True, op)] if effects.accumulators else []
    for buffers, writes in ((effects.reads, False), (effects.writes, True)):
        for v in buffers:
            if isinstance(v.type, TmemType):
                out.append(_columns(v, writes, op, effects.engine))
                continue
            if not buffer_bytes(v.type):
                continue
            ring = v if isinstance(v.type, RingType) else None
            owner = v.owner
            if isinstance(owner, Operation) and owner.name == "nv_tileas.extract_slice":
                v = ring = owner.operands[0]
                owner = v.owner
            offset: Any = owner.properties.get("offset") if isinstance(owner, Operation) else None
            if offset is None:
                raise CompileError("a buffer has no place yet: order-memory runs behind allocate-buffers")
            out.append(Touch(offset.data, offset.data + buffer_bytes(v.type), writes, op, ring, effects.engine))
    return out


def _columns(v: SSAValue, writes: bool, op: Operation, engine: bool) -> Touch:
    t: Any = v.type
    offset: Any = v.owner.properties.get("offset") if isinstance(v.owner, Operation) else None
    if offset is None:
        raise CompileError("an accumulator has no place yet: order-memory runs behind allocate-buffers")
    start = TENSOR_MEMORY + offset.data
    own = op.name in MOVES and layout_of((*op.results, *op.operands)[0]).num_warps == GROUP_WARPS
    return Touch(start, start + t.columns, writes, op, None, engine, own)


class _Ordering:
    """The walk in program order. `state`: what shared memory's accesses are pending, None where control doesn't get.
    `exits`: for each enclosing loop, the states with which control left its body (to go on, to leave)."""

    def __init__(self, effects: dict[Operation, Effects], cluster: bool = False) -> None:
        self.effects = effects
        self.cluster = cluster
        self.now = 0
        self.last_barrier = 0
        self.last_meeting = 0       # of all who share the tile block: what tokens order is done
        self.tokens: dict[SSAValue, Pending] = {}
        self.state: State | None = NOTHING
        self.exits: list[tuple[list[State], list[State]]] = []
        self.engine = [t for op, found in effects.items() if found.engine for t in touches(op, found)
                       if t.start < TENSOR_MEMORY]
        self.fence_due = False
        self.joined = False         # whether barriers that other CTAs arrive at are being set up

    def pending(self, v: SSAValue) -> Pending:
        return self.tokens.get(v, Pending())

    def block(self, block: Block) -> None:
        for op in list(block.ops):
            if op.regions or op is block.last_op:
                self.fence(op)
            self.visit(op)

    def fence(self, before: Operation) -> None:
        if self.fence_due:
            assert before.parent is not None
            before.parent.insert_op_before(nv_tileas.FenceAsync.create(location=before.location), before)
            self.fence_due = False

    def needs_fence(self, op: Operation, mine: list[Touch], engine: bool) -> bool:
        """Whether the copy engine or the tensor cores touch what threads have written by this op. What a copy brings is there at
        the wait for it, not here."""
        return not engine and op.name not in COPIES_BY_THREADS and any(
            t.writes and t.start < e.end and e.start < t.end for t in mine for e in self.engine)

    def visit(self, op: Operation) -> None:
        if op.name == "nv_tileas.barrier":
            self.fence(op)
            self.met()
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
            if op.name == "nv_tileas.producer_commit":
                self.fence(op)
            self.access(op)
            self.leave(op)

    def leave(self, op: Operation) -> None:
        """A terminator that doesn't fall through to what follows the region."""
        if op.name in ("nv_tileas.break", "nv_tileas.continue"):
            if self.state is not None and self.exits:
                self.exits[-1][op.name == "nv_tileas.break"].append(self.state)
            self.state = None
        elif op.name == "nv_tileas.return":
            self.state = None

    def access(self, op: Operation) -> None:
        found = self.effects.get(op)
        before = Pending()
        for v in op.operands:
            if isinstance(v.type, MemTokenType):
                before |= self.pending(v)
        after = before
        if found is not None:
            mine = touches(op, found)
            state = self.state or NOTHING
            if ((found.token_read or found.token_write) and before.write > self.last_meeting) or (
                    found.token_write and before.read > self.last_meeting):
                self.barrier(op, self.cluster)
            elif found.before or (found.engine and self.fence_due) or any(t.clashes(old) for t in mine for old in state):
                self.barrier(op, self.joins(op))
            if found.inside:
                self.met()
                mine = [t for t in mine if not t.writes]
            if self.engine and self.needs_fence(op, mine, found.engine):
                self.fence_due = True
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

    def joins(self, op: Operation) -> bool:
        """Whether an op reads and writes what threads of two CTAs touch: products of a pair. Raises CompileError where these don't
        meet."""
        paired = op.name == DOT and is_paired(op)
        if paired and agent_of(op) is not None:
            raise CompileError("agents of two CTAs would have to meet before their product", location_text(op))
        return paired

    def barrier(self, op: Operation, cluster: bool = False) -> None:
        assert op.parent is not None
        self.fence(op)
        kind = nv_tileas.ClusterBarrier if cluster else nv_tileas.Barrier
        op.parent.insert_op_before(kind.create(location=op.location), op)
        self.met(cluster)

    def barrier_behind(self, op: Operation) -> None:
        """One behind a run of such ops; of the cluster, where one of them is."""
        self.joined |= _is_joined(op)
        following = op.next_op
        if following is None or not self.effects.get(following, Effects()).behind:
            assert op.parent is not None
            kind = nv_tileas.ClusterBarrier if self.joined else nv_tileas.Barrier
            op.parent.insert_op_after(kind.create(location=op.location), op)
            self.met(self.joined)
            self.joined = False

    def met(self, cluster: bool = False) -> None:
        self.now += 1
        self.last_barrier = self.now
        if cluster or not self.cluster:
            self.last_meeting = self.now
        self.state = NOTHING

    def loop(self, op: Any) -> None:
        """What the body touches may be pending when it begins again. Carried tokens may stand for any access of the
        iteration before, so they start as just made."""
        inside = [(inner, self.effects[inner]) for inner in op.walk() if inner in self.effects]
        reads = any(e.token_read for _, e in inside)
        writes = any(e.token_write for _, e in inside)
        entry = self.state or NOTHING
        self.now += 1
        fresh = Pending(self.now if reads else NEVER, self.now if writes else NEVER)
        for arg, init in zip(op.carried_args(), op.carried_inits()):
            if isinstance(arg.type, MemTokenType):
                self.tokens[arg] = self.pending(init) | fresh
        before, meeting = self.last_barrier, self.last_meeting
        self.state = entry | frozenset(t for inner, e in inside for t in touches(inner, e))
        self.exits.append(([], []))
        self.block(op.regions[0].block)
        again, left = self.exits.pop()
        if self.state is not None:
            again.append(self.state)
        if op.name == "scf.for":
            left = [entry, *again, *left]
        self.state = NOTHING.union(*left)
        self.last_barrier, self.last_meeting = before, meeting
        self.now += 1
        fresh = Pending(self.now if reads else NEVER, self.now if writes else NEVER)
        inits = Pending()
        for v in op.carried_inits():
            inits |= self.pending(v)
        for r in op.results:
            if isinstance(r.type, MemTokenType):
                self.tokens[r] = inits | fresh

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
