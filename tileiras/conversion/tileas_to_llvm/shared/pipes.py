"""Rings and pipes: which stage is next, and whether it is full or empty.

    %i = producer_acquire %pipe      ->      i = index; wait on empty[i] in phase; (tma: arrive on full[i], expecting bytes;
                                             where products empty stages: tcgen05.fence::after_thread_sync)
    producer_commit %pipe            ->      group: commit_group; cp_async, mbarrier: arrive on full[i]; index, phase move on
    producer_tail %pipe              ->      wait on empty[i] for all i, each in the phase of its last use
    %i = consumer_wait %pipe         ->      group: wait_group; else i = index; wait on full[i] in phase; index, phase move on
    consumer_release %pipe           ->      one lane a warp arrives on empty[index] (that of peers, too); index moves on

Where products are told of (`umma`, `by_dots`) the tensor core arrives, by tcgen05.commit, and the thread that begins the products
waits and commits alone.

Of a pair of CTAs, that multiply together, the thread of the lower one does so for both: its full barrier has the bytes of both
CTAs' copies, and what it commits arrives at the barriers of both. Those who have read their CTA's sums tell it so (`umma`).

Full barriers come first, then the empty ones, 8 bytes each. A cursor is an index and the parity of the phase it waits for: both
are variables of the thread's own, which LLVM makes registers of, so they go on through whatever loops stand around. What waits
for empty begins in parity 1: a barrier that was just set up counts as having been through that phase.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.ir import Operation, SSAValue

from tileiras.analysis.shared_memory import MBARRIER_BYTES, stage_bytes
from tileiras.analysis.tensor_dots import is_told_by_dots
from tileiras.conversion.tileas_to_llvm.builder import I16, I32
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, lowers
from tileiras.dialects.element import element_bytes
from tileiras.dialects.llvm import SHARED, ptr
from tileiras.layout.atoms.umma import PAIR

WORD = 4
"""Bytes of an index or a phase."""


@dataclass
class Cursor:
    """Pointers to its variables."""

    index: SSAValue
    phase: SSAValue


@dataclass
class Pipe:
    """What a pipe is in this function: where its barriers are (None for groups), its cursors; `peers`: whose stages what one CTA
    loads goes to, as what their ranks differ in; `once`: nobody waits for an empty stage; `pair`: two CTAs' products read it."""

    kind: str
    stages: int
    bytes: int
    full: SSAValue | None
    empty: SSAValue | None
    produce: Cursor
    wait: Cursor
    release: Cursor
    peers: tuple[int, ...] = (0,)
    once: bool = False
    pair: bool = False


def pipe_of(low: Lowering, v: SSAValue) -> Pipe:
    """What a pipe value stands for."""
    return low.views[v]


def barrier_at(low: Lowering, barriers: SSAValue, index: SSAValue) -> SSAValue:
    """The address of the barrier of a stage."""
    return low.b.gep(barriers, low.b.mul(index, low.b.i32(MBARRIER_BYTES)))


@lowers("nv_tileas.extract_slice")
def extract_slice(low: Lowering, op: Operation) -> None:
    ring, index = op.operands
    t: Any = ring.type
    b = low.b
    if t.stages.data == 1:
        low.set(op.results[0], low.scalar(ring))
    else:
        low.set(op.results[0], b.gep(low.scalar(ring), b.mul(low.scalar(index), b.i32(stage_bytes(t)))))


@lowers("nv_tileas.create_pipeline")
def create_pipeline(low: Lowering, op: Operation) -> None:
    b = low.b
    t: Any = op.results[0].type
    properties: dict[str, Any] = op.properties
    kind, stages = t.kind.data, t.stages.data
    full = empty = None
    pair = "pair" in properties
    peers = tuple(p.data for p in properties["peers"].data) if "peers" in properties else (0,)
    if pair:        # products of both CTAs are done at once
        peers = tuple(p for p in peers if not p & PAIR - 1)
    if kind != "group":
        full = low.shared_ptr(op)
        empty = b.gep(full, stages * MBARRIER_BYTES)
        producers = properties["producers"].data if "producers" in properties else 1
        consumers = properties["consumers"].data if "consumers" in properties else 1
        tellers = PAIR if kind == "umma" and pair else len(peers)
        _initialize(low, full, None if "once" in properties else empty, stages, producers, consumers * tellers)

    def cursor(phase: int) -> Cursor:
        return Cursor(b.variable(I32, b.i32(0)), b.variable(I32, b.i32(phase)))
    received = properties["bytes"].data if "bytes" in properties else 0
    low.views[op.results[0]] = Pipe(kind, stages, received * (PAIR if pair else 1), full, empty, cursor(1), cursor(0), cursor(0),
                                    peers, "once" in properties, pair)


def _initialize(low: Lowering, full: SSAValue, empty: SSAValue | None, stages: int, producers: int, consumers: int) -> None:
    """One thread sets the barriers up. `order-memory` has put a barrier of the block before their first use."""
    b = low.b
    then, join = b.new_block(), b.new_block()
    b.cond_br(low.first_thread(), then, join)
    b.at(then)
    for barriers, count in ((full, producers), (empty, consumers)):
        for i in range(stages if barriers is not None else 0):
            assert barriers is not None
            b.nvvm("mbarrier.init.shared", [b.gep(barriers, i * MBARRIER_BYTES), b.i32(count)])
    if low.target.has_clusters:
        b.nvvm("fence.mbarrier_init.release.cluster")
    b.br(join)
    b.at(join)


def _read(low: Lowering, cursor: Cursor) -> tuple[SSAValue, SSAValue]:
    return low.b.load(I32, cursor.index, WORD), low.b.load(I32, cursor.phase, WORD)


def _advance(low: Lowering, cursor: Cursor, stages: int) -> None:
    b = low.b
    index, phase = _read(low, cursor)
    following = b.add(index, b.i32(1))
    wraps = b.icmp("eq", following, b.i32(stages))
    b.store(b.select(wraps, b.i32(0), following), cursor.index, WORD)
    b.store(b.xor(phase, b.cast("zext", wraps, I32)), cursor.phase, WORD)


def _wait(low: Lowering, barrier: SSAValue, phase: SSAValue) -> None:
    low.b.nvvm("mbarrier.wait.parity" if low.target.has_clusters else "mbarrier.spin.parity", [barrier, phase])


def _behind(low: Lowering, phase: SSAValue, v: SSAValue, base: SSAValue) -> SSAValue:
    """The phase, by an instruction that takes a tensor's first register too, and a zero that neither LLVM nor the assembler knows:
    the highest bit of an address of tensor memory."""
    b = low.b
    first = b.cast("bitcast", b.slice(low.vec(v), 0, WORD // element_bytes(low.element(v))), I32)
    return b.or_(phase, b.and_(first, b.lshr(base, 31)))


def only_if(low: Lowering, condition: SSAValue, what: Any) -> None:
    b = low.b
    then, join = b.new_block(), b.new_block()
    b.cond_br(condition, then, join)
    b.at(then)
    what()
    b.br(join)
    b.at(join)


def only_first(low: Lowering, pair: bool, what: Any) -> None:
    """What the team's first thread does alone, of a pair's teams that of the lower CTA."""
    only_first_where(low, leads(low) if pair else None, what)


def only_first_where(low: Lowering, condition: SSAValue | None, what: Any) -> None:
    """What the team's first thread does alone, if a condition holds for its CTA. The thread's number has a branch of its own
    (`Team.is_first`): the empty assembly keeps LLVM from making one of both."""
    if condition is None:
        only_if(low, low.first_thread(), what)
        return

    def apart() -> None:
        low.b.asm("", "", [], [])
        only_first_where(low, None, what)
    only_if(low, condition, apart)


@lowers("nv_tileas.producer_acquire")
def producer_acquire(low: Lowering, op: Operation) -> None:
    b = low.b
    pipe = pipe_of(low, op.operands[0])
    index, phase = _read(low, pipe.produce)
    low.set(op.results[0], index)
    if pipe.full is None or pipe.empty is None:
        return
    full, empty = (barrier_at(low, barriers, index) for barriers in (pipe.full, pipe.empty))
    if pipe.once:
        only_first(low, pipe.pair,
                   lambda: b.nvvm("mbarrier.arrive.expect.tx.scope.cta.space.cta", [full, b.i32(pipe.bytes)]))
        return
    if pipe.kind != "tma":
        if len(op.operands) > 1 and low.tensor_base is not None:
            phase = _behind(low, phase, op.operands[1], low.tensor_base)
        if pipe.pair:       # only the leader's barrier is arrived at
            only_if(low, leads(low), lambda: _wait(low, empty, phase))
        else:
            _wait(low, empty, phase)
        if any(is_told_by_dots(use.operation) for use in op.operands[0].uses):      # products are done
            b.nvvm("tcgen05.fence.after.thread.sync")
        return

    def acquire() -> None:
        _wait(low, empty, phase)

        def announce() -> None:
            b.nvvm("mbarrier.arrive.expect.tx.scope.cta.space.cta", [full, b.i32(pipe.bytes)])
        if pipe.pair:
            only_if(low, leads(low), announce)
        else:
            announce()
    # a thread that comes late would find the barrier in a later phase, and wait for ever: nothing waits for it
    only_if(low, low.first_thread(), acquire)


@lowers("nv_tileas.producer_commit")
def producer_commit(low: Lowering, op: Operation) -> None:
    b = low.b
    pipe = pipe_of(low, op.operands[0])
    if pipe.kind == "group":
        b.nvvm("cp.async.commit.group")
    elif pipe.full is not None and pipe.kind != "tma":
        full = barrier_at(low, pipe.full, _read(low, pipe.produce)[0])
        if pipe.kind == "umma":
            _commit(low, full, pipe)
        elif pipe.kind == "cp_async":
            low.b.nvvm("bar.warp.sync", [low.b.i32(-1)])        # one instruction for all lanes, wherever some have been
            b.nvvm("cp.async.mbarrier.arrive.noinc.shared", [full])
        else:
            _arrive_once_a_warp(low, full)
    _advance(low, pipe.produce, pipe.stages)


@lowers("nv_tileas.producer_tail")
def producer_tail(low: Lowering, op: Operation) -> None:
    pipe = pipe_of(low, op.operands[0])
    assert pipe.empty is not None

    def wait() -> None:
        for _ in range(pipe.stages):
            index, phase = _read(low, pipe.produce)
            assert pipe.empty is not None
            _wait(low, barrier_at(low, pipe.empty, index), phase)
            _advance(low, pipe.produce, pipe.stages)
    only_if(low, low.first_thread(), wait)


@lowers("nv_tileas.consumer_wait")
def consumer_wait(low: Lowering, op: Operation) -> None:
    pipe = pipe_of(low, op.operands[0])
    index, phase = _read(low, pipe.wait)
    low.set(op.results[0], index)
    if pipe.full is None:
        properties: dict[str, Any] = op.properties
        low.b.nvvm("cp.async.wait.group", [low.b.i32(properties["pending"].data)])
    else:
        full = barrier_at(low, pipe.full, index)
        if "by_dots" in op.properties:
            def together() -> None:     # before one lane has products begin that empty the stage
                _wait(low, full, phase)
                low.b.nvvm("bar.warp.sync", [low.b.i32(-1)])
            only_if(low, low.b.and_(leads(low), low.first_warp()) if pipe.pair else low.first_warp(), together)
        else:
            _wait(low, full, phase)
        if pipe.kind == "umma":
            low.b.nvvm("tcgen05.fence.after.thread.sync")
    _advance(low, pipe.wait, pipe.stages)


@lowers("nv_tileas.consumer_release")
def consumer_release(low: Lowering, op: Operation) -> None:
    pipe = pipe_of(low, op.operands[0])
    if pipe.empty is not None and not pipe.once:
        empty = barrier_at(low, pipe.empty, _read(low, pipe.release)[0])
        if is_told_by_dots(op):
            _commit(low, empty, pipe)
        if "by_dots" not in op.properties:
            if pipe.kind == "umma" and pipe.pair:
                _arrive_at_leader(low, empty)
            else:
                _arrive_once_a_warp(low, empty, pipe.peers)
        _advance(low, pipe.release, pipe.stages)


def leads(low: Lowering) -> SSAValue:
    """Whether this CTA is the lower one of its pair, whose thread begins the products of both."""
    b = low.b
    return b.icmp("eq", b.and_(b.nvvm("read.ptx.sreg.cluster.ctarank")[0], b.i32(PAIR - 1)), b.i32(0))


def barrier_of_pair(low: Lowering, barrier: SSAValue) -> SSAValue:
    """The barrier at the same place in the CTA that leads the pair, as the copy engine is told of it."""
    b = low.b
    leader = b.and_(b.nvvm("read.ptx.sreg.cluster.ctarank")[0], b.i32(-PAIR))
    there = b.nvvm("mapa.shared.cluster", [barrier, leader])[0]
    return b.cast("inttoptr", b.cast("ptrtoint", there, I32), ptr(SHARED))


def _commit(low: Lowering, barrier: SSAValue, pipe: Pipe) -> None:
    """The barrier is arrived at when the products that the team has begun are done: those of peers and both of a pair, too."""
    b = low.b
    group, each = ("cg2", b.i32((1 << PAIR) - 1)) if pipe.pair else ("cg1", b.i32(1))

    def commit() -> None:
        if not pipe.pair and len(pipe.peers) == 1:
            b.nvvm("tcgen05.commit.shared.cg1", [barrier])
            return
        rank = b.nvvm("read.ptx.sreg.cluster.ctarank")[0]       # a pair's leader runs this
        told = b.shl(each, rank)
        for peer in pipe.peers[1:]:
            told = b.or_(told, b.shl(each, b.xor(rank, b.i32(peer))))
        b.nvvm(f"tcgen05.commit.mc.shared.{group}", [barrier, b.cast("trunc", told, I16)])
    only_first(low, pipe.pair, commit)


def _arrive_once_a_warp(low: Lowering, barrier: SSAValue, peers: tuple[int, ...] = (0,)) -> None:
    """What the warp's lanes did before is done: one lane tells so for all, to this CTA and its peers.

    What peers are told is that this CTA's own shared memory has been read, so that an order within the CTA does, as in its own
    arrival. A release to the cluster would be a fence of global memory for each peer (MEMBAR.GPU), at every stage."""
    b = low.b
    b.nvvm("bar.warp.sync", [b.i32(-1)])
    first = b.icmp("eq", low.lane, b.i32(0))
    b.nvvm("mbarrier.arrive.shared.if", [barrier, first])
    rank = b.nvvm("read.ptx.sreg.cluster.ctarank")[0] if len(peers) > 1 else None
    for peer in peers:
        if peer and rank is not None:
            there = b.nvvm("mapa.shared.cluster", [barrier, b.xor(rank, b.i32(peer))])[0]
            b.nvvm("mbarrier.arrive.scope.cta.space.cluster.if", [there, first])


def _arrive_at_leader(low: Lowering, barrier: SSAValue) -> None:
    """What the warp's lanes did before is done: one lane tells so to the CTA whose thread begins the products of the pair."""
    b = low.b
    b.nvvm("bar.warp.sync", [b.i32(-1)])
    leader = b.and_(b.nvvm("read.ptx.sreg.cluster.ctarank")[0], b.i32(-PAIR))
    there = b.nvvm("mapa.shared.cluster", [barrier, leader])[0]
    b.nvvm("mbarrier.arrive.scope.cta.space.cluster.if", [there, b.icmp("eq", low.lane, b.i32(0))])


@lowers("nv_tileas.fence_async")
def fence_async(low: Lowering, op: Operation) -> None:
    low.b.nvvm("fence.proxy.async.global" if "global" in op.properties else "fence.proxy.async.shared_cta")
