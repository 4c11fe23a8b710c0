"""What does an execution of a PTX instruction touch? For each kind that matters to time, a watcher that says so.

A watcher `watch(st, run, log)` runs the instruction by `run(st)` and tells the log of the lanes' addresses (`log.touch`), or
of a payload of a warp (`log.fact`). What the text alone says (groups of asynchronous copies, shapes of wgmma) isn't noted:
`payloads.of_text` reads it there.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tileiras.sim.copy import bulk
from tileiras.sim.core.memory import GLOBAL_BASE, SHARED_WINDOW, WINDOW_SIZE
from tileiras.sim.memory import mbarrier
from tileiras.sim.memory.atomics import element_of
from tileiras.sim.memory.loadstore import address_source, space_of
from tileiras.sim.ptx import module as ptx
from tileiras.sim.ptx.types import BITS
from tileiras.sim.run.launchcontrol import Cancel
from tileiras.sim.tcgen05.descriptor import decode_instruction
from tileiras.sim.timing.stream import CLUSTER_BARRIER, SECTOR_BYTES, AsyncGroup, BarrierOp, BulkCopy, MbarrierOp, Mma

GLOBAL, SHARED, ELSEWHERE = 0, 1, 2
_VECTOR = {"v2": 2, "v4": 4, "v8": 8}
_MATRICES = {"x1": 1, "x2": 2, "x4": 4}
_ROW_LANES, _ROW_BYTES = 8, 16                  # of an 8x8 matrix: lanes that give row addresses, bytes of a row
ANSWER_BYTES = 16                               # of clusterlaunchcontrol.try_cancel
_MMA_BYTES = 32                                 # of K in one tcgen05.mma
_MMA_BITS = {"f16": 16, "tf32": 32, "i8": 8, "f8f6f4": 8, "mxf8f6f4": 8, "mxf4": 4, "mxf4nvf4": 4}


@dataclass(frozen=True, slots=True)
class Form:
    """What is the same for all executions of an access."""
    width: int                      # bytes a lane
    is_store: bool
    atomic: bool = False
    to_shared: bool = False         # the global side of cp.async; its shared side comes with `shared` addresses


Watch = Callable[..., None]


def watcher(decoder, ins) -> Watch | None:
    """The watcher of an instruction; None where there is nothing to watch."""
    parts = ins.parts
    name = parts[0]
    if name in ("ld", "ldu", "st", "atom", "red") and any(p.startswith(("param", "const")) for p in parts[1:]):
        return None
    soft, decoder.soft = decoder.soft, "ignore"         # it doesn't judge registers: the instruction itself does
    try:
        if "bulk" in parts and name == "cp":
            return None if "commit_group" in parts or "wait_group" in parts else _bulk
        if (name in ("st", "red") and "async" in parts) or (name == "clusterlaunchcontrol" and parts[1] == "try_cancel"):
            return _bulk
        if name in ("ld", "ldu", "st", "atom", "red"):
            return _access(decoder, ins, name)
        if name in ("ldmatrix", "stmatrix"):
            return _matrix(decoder, ins, name == "stmatrix")
        if name == "cp" and parts[1] == "async" and parts[2] in ("ca", "cg"):
            return _copy(decoder, ins)
        if name == "cp" and "mbarrier" in parts:
            return _copies_arrive(decoder, ins)
        if name == "mbarrier":
            return _mbarrier(decoder, ins)
        if name == "tcgen05" and parts[1] == "mma":
            return _tensor_product(decoder, ins)
        if name == "tcgen05" and parts[1] == "commit":
            return _tensor_commit(decoder, ins)
    finally:
        decoder.soft = soft
    return None


# ---- accesses by lanes

def _access(decoder, ins, name: str) -> Watch:
    count = next((_VECTOR[p] for p in ins.parts if p in _VECTOR), 1)
    form = Form(BITS[element_of(ins.parts)] // 8 * count, name in ("st", "red"), name in ("atom", "red"))
    operand = ins.operands[0] if name in ("st", "red") else ins.operands[1]
    address, space = address_source(decoder, operand, space_of(ins.parts))

    def watch(st, run, log) -> None:
        lanes = st.lanes
        if len(lanes):
            log.touch(lanes, *_placed(np.broadcast_to(st.gathered(address(st)), lanes.shape), space), form)
        run(st)
    return watch


def _placed(address: np.ndarray, space: str) -> tuple[int, np.ndarray]:
    """In which memory addresses lie, and where there. Those of one instruction lie in one."""
    if space == "global":
        return GLOBAL, address
    if space in ("shared", "cluster"):
        return SHARED, address
    if space == "local":
        return ELSEWHERE, address
    first = int(address[0])
    if first >= GLOBAL_BASE:
        return GLOBAL, address
    if SHARED_WINDOW <= first < SHARED_WINDOW + WINDOW_SIZE:
        return SHARED, address - np.uint64(SHARED_WINDOW)
    return ELSEWHERE, address


def _matrix(decoder, ins, is_store: bool) -> Watch:
    rows = _ROW_LANES * next((_MATRICES[p] for p in ins.parts if p in _MATRICES), 1)
    form = Form(_ROW_BYTES, is_store)
    named = any(p.split("::")[0] == "shared" for p in ins.parts)
    address, space = address_source(decoder, ins.operands[0] if is_store else ins.operands[1], "shared" if named else "")

    def watch(st, run, log) -> None:
        lanes = st.lanes
        where = np.broadcast_to(st.gathered(address(st)), lanes.shape)
        giving = lanes % 32 < rows
        if giving.any():
            log.touch(lanes[giving], *_placed(where[giving], space), form)
        run(st)
    return watch


def _copy(decoder, ins) -> Watch:
    to, _ = address_source(decoder, ins.operands[0], "shared")
    source, _ = address_source(decoder, ins.operands[1], "global")
    form = Form(ins.operands[2].value, False, to_shared=True)
    amount = ignored = None
    for operand in ins.operands[3:]:
        if _is_predicate(operand, decoder):
            ignored = decoder.source(operand, "pred")
        elif amount is None and _is_amount(operand, decoder):
            amount = decoder.source(operand, "u32")

    def watch(st, run, log) -> None:
        lanes = st.lanes
        if len(lanes):
            where = np.broadcast_to(st.gathered(source(st)), lanes.shape)
            target = np.broadcast_to(st.gathered(to(st)), lanes.shape)
            reads = None
            if ignored is not None:
                reads = ~np.broadcast_to(st.gathered(ignored(st)), lanes.shape).astype(bool)
            elif amount is not None:
                reads = np.broadcast_to(st.gathered(amount(st)), lanes.shape) != 0
            log.touch(lanes, GLOBAL, where, form, shared=target, reads=reads)
        run(st)
    return watch


def _is_predicate(operand, decoder) -> bool:
    """Whether an operand of cp.async is the predicate that says to bring nothing."""
    return isinstance(operand, ptx.Negated) or (isinstance(operand, ptx.Register) and
                                                decoder.types[decoder.slot(operand)] == "pred")


def _is_amount(operand, decoder) -> bool:
    """Whether the fourth operand of cp.async is a number of bytes (it may also be a predicate or a cache policy)."""
    if isinstance(operand, ptx.Immediate):
        return True
    return isinstance(operand, ptx.Register) and decoder.types[decoder.slot(operand)] != "pred" and \
        decoder.register_bits(operand) == 32


# ---- mbarriers

def _place(st, off: int) -> tuple[int, int]:
    """(offset in its CTA's shared memory, rank of that CTA) of an offset in the batch's."""
    stride = max(st.shared_stride, 1)
    return off % stride, off // stride % st.cluster_size


def _by_warp(off: np.ndarray, lanes: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """Positions of the lanes by (mbarrier, warp)."""
    key = off * (1 << 20) + lanes // 32
    return [(int(off[p[0]]), p) for value in np.unique(key) if len(p := np.flatnonzero(key == value))]


def _mbarrier(decoder, ins) -> Watch | None:
    kind = ins.parts[1]
    operands = list(ins.operands)
    if kind in ("arrive", "arrive_drop") and not isinstance(operands[0], ptx.Memory):
        operands.pop(0)
    if kind in ("test_wait", "try_wait"):
        return _wait(decoder, ins)
    if kind not in ("init", "inval", "arrive", "arrive_drop", "expect_tx", "complete_tx"):
        return None
    locate = mbarrier.locator(decoder, operands[0], ins.parts)
    amount = decoder.source(operands[1], "u32") if len(operands) > 1 else None
    expecting = "expect_tx" in ins.parts

    def watch(st, run, log) -> None:
        lanes = st.lanes
        if len(lanes):
            off = np.broadcast_to(locate(st), lanes.shape)
            n = None if amount is None else np.broadcast_to(st.gathered(amount(st)), lanes.shape)
            for o, picks in _by_warp(off, lanes):
                place, rank = _place(st, o)
                known = mbarrier.table(st).at.get(o)
                phase = 0 if known is None or kind == "init" else known.phase
                total = 0 if n is None else int(n[picks].astype(np.int64).sum())
                if kind == "init":
                    op = MbarrierOp("init", place, rank, 0, total)
                elif kind == "inval":
                    op = MbarrierOp("inval", place, rank, phase)
                elif kind in ("expect_tx", "complete_tx"):
                    op = MbarrierOp("expect", place, rank, phase, 0, total if kind == "expect_tx" else -total)
                else:
                    count = len(picks) if expecting or n is None else total
                    op = MbarrierOp("arrive", place, rank, phase, count, total if expecting else 0)
                log.fact(int(lanes[picks[0]]), op)
        run(st)
    return watch


def _wait(decoder, ins) -> Watch:
    operands = ins.operands
    locate = mbarrier.locator(decoder, operands[1], ins.parts)
    by_parity = "parity" in ins.parts
    given = decoder.source(operands[2], "u32" if by_parity else "b64")

    def watch(st, run, log) -> None:
        lanes = st.lanes
        if len(lanes):
            off = np.broadcast_to(locate(st), lanes.shape)
            wanted = np.broadcast_to(st.gathered(given(st)), lanes.shape)
            for o, picks in _by_warp(off, lanes):
                known = mbarrier.table(st).at.get(o)
                if known is None:
                    continue
                for i in picks.tolist():
                    value = int(wanted[i])
                    passed = value != known.phase & 1 if by_parity else value >> 20 < known.phase
                    if passed:
                        place, rank = _place(st, o)
                        log.fact(int(lanes[i]), MbarrierOp("wait", place, rank, known.phase if by_parity else (value >> 20) + 1))
                        break
        run(st)
    return watch


def _copies_arrive(decoder, ins) -> Watch:
    locate = mbarrier.locator(decoder, ins.operands[0], ins.parts)
    counted = "noinc" not in ins.parts

    def watch(st, run, log) -> None:
        lanes = st.lanes
        if len(lanes):
            off = np.broadcast_to(locate(st), lanes.shape)
            for o, picks in _by_warp(off, lanes):
                known = mbarrier.table(st).at.get(o)
                place, rank = _place(st, o)
                log.fact(int(lanes[picks[0]]), AsyncGroup("cp.async", "commit", 0 if counted else len(picks), offset=place,
                                                          phase=0 if known is None else known.phase, ctas=(rank,)))
        run(st)
    return watch


# ---- engines

def _sectors(places: list) -> tuple[tuple[int, ...], int]:
    """(sectors, bytes) of an operation's places in global memory."""
    found: list[np.ndarray] = []
    total = 0
    for place in places:
        if place[0] != "global":
            continue
        starts = np.atleast_1d(np.asarray(place[1], np.int64)) + GLOBAL_BASE
        size = int(place[2]) if len(place) > 2 else _ROW_BYTES
        total += size * len(starts)
        first, last = starts // SECTOR_BYTES, (starts + max(size, 1) - 1) // SECTOR_BYTES
        most = int((last - first).max()) + 1 if len(starts) else 0
        spread = first[:, None] + np.arange(most)
        found.append(spread[spread <= last[:, None]])
    if not found:
        return (), 0
    return tuple(np.unique(np.concatenate(found)).tolist()), total


def _shared_bytes(places: list) -> int:
    total = 0
    for place in places:
        if place[0] == "shared":
            starts = np.atleast_1d(np.asarray(place[1]))
            total += int(place[2]) if len(place) > 2 else _ROW_BYTES * len(starts)
    return total


def _bulk(st, run, log) -> None:
    """A bulk or tensor copy: what it gives to the engine says all."""
    issue = st.agents.issue
    issued: list = []

    def listen(op):
        issued.append((op, _phase(st, op)))
        return issue(op)
    before = st.lanes
    st.agents.issue = listen
    try:
        run(st)
    finally:
        st.agents.issue = issue
    by_warp: dict[int, list] = {}
    for op, phase in issued:
        by_warp.setdefault(op.lane // 32, []).append((op, phase))
    for ops in by_warp.values():
        payload = _bulk_payload(st, ops)
        if payload is not None:
            log.fact(ops[0][0].lane, payload)
    if not issued and len(before):
        log.fact(int(before[0]), BulkCopy("prefetch", 0))


def _phase(st, op) -> int:
    bar = op.bars[0] if isinstance(op, Cancel) else getattr(op, "bar", None)
    known = None if bar is None or st.mbarriers is None else st.mbarriers.at.get(bar)
    return 0 if known is None else known.phase


def _bulk_payload(st, ops: list) -> BulkCopy | None:
    first, phase = ops[0]
    if isinstance(first, Cancel):
        ctas = tuple(_place(st, bar)[1] for bar in first.bars)
        return BulkCopy("answer", ANSWER_BYTES, (), _place(st, first.bars[0])[0], phase, ctas)
    if hasattr(first, "bar"):
        lane = first.lane
        same = [op for op, _ in ops if op.lane == lane]
        ctas = tuple(dict.fromkeys(_place(st, op.bar)[1] for op in same))
        boxes = len({op.lane for op, _ in ops})
        offset = _place(st, first.bar)[0]
        if isinstance(first, bulk.Across) or not any(p[0] == "global" for p in first.reads):
            return BulkCopy("shared", _shared_bytes(first.writes) * len(same), (), offset, phase, ctas, boxes)
        sectors, _ = _sectors([p for op, _ in ops for p in op.reads])
        each = int(getattr(first, "tx", 0) or getattr(first, "size", 0))
        to = tuple(dict.fromkeys(_target(st, op) for op in same))
        return BulkCopy("load", each * boxes * max(len(same) // max(len(ctas), 1), 1), sectors, offset, phase, ctas, boxes,
                        () if set(to) <= set(ctas) else to)
    writes = [p for op, _ in ops for p in op.writes]
    if not any(p[0] == "global" for p in writes):
        return None
    sectors, total = _sectors(writes)
    atomic = any(getattr(op, "atomic", False) for op, _ in ops)
    return BulkCopy("reduce" if atomic else "store", total, sectors, boxes=len({op.lane for op, _ in ops}))


def _target(st, op) -> int:
    """The rank of the CTA into whose shared memory an operation writes."""
    starts = next(place[1] for place in op.writes if place[0] == "shared")
    return _place(st, int(np.atleast_1d(np.asarray(starts))[0]))[1]


def _tensor_product(decoder, ins) -> Watch:
    parts = ins.parts
    kind = next((p.split("::")[1] for p in parts if p.startswith("kind::")), "f16")
    group = 2 if "cta_group::2" in parts else 1
    ws, sparse = "ws" in parts, "sp" in parts
    vectors = next((p[11:] if p.startswith("scale_vec::") else p for p in parts
                    if p.startswith("scale_vec::") or p in ("block16", "block32")), "")
    in_tensor = isinstance(ins.operands[1], ptx.Memory)
    idesc = decoder.source(ins.operands[4 if sparse else 3], "b32")
    bits = _MMA_BITS[kind]

    def watch(st, run, log) -> None:
        lanes = st.lanes
        if len(lanes):
            words = np.broadcast_to(st.gathered(idesc(st)), lanes.shape)
            for w in np.unique(lanes // 32):
                i = int(np.argmax(lanes // 32 == w))
                p = decode_instruction(int(words[i]), kind, group=group, ws=ws, sparse=sparse, vectors=vectors)
                log.fact(int(lanes[i]), Mma("tcgen05", (p.m, p.n, _MMA_BYTES * 8 // bits * (2 if sparse else 1)), bits,
                                            "tensor" if in_tensor else "shared", "shared", group, sparse, kind))
        run(st)
    return watch


def _tensor_commit(decoder, ins) -> Watch:
    locate = mbarrier.locator(decoder, ins.operands[0], ("shared",), True)
    mask = decoder.source(ins.operands[1], "u16") if "multicast::cluster" in ins.parts else None

    def watch(st, run, log) -> None:
        lanes = st.lanes
        if len(lanes):
            off = np.broadcast_to(locate(st), lanes.shape)
            masks = None if mask is None else np.broadcast_to(st.gathered(mask(st)), lanes.shape)
            for o, picks in _by_warp(off, lanes):
                known = mbarrier.table(st).at.get(o)
                place, rank = _place(st, o)
                ranks = (rank,) if masks is None else tuple(r for r in range(16) if int(masks[picks[0]]) >> r & 1)
                log.fact(int(lanes[picks[0]]), AsyncGroup("tcgen05", "commit", len(picks), offset=place,
                                                          phase=0 if known is None else known.phase, ctas=ranks))
        run(st)
    return watch


class WatchedBarrier:
    """A barrier that ends a block, with a log behind it."""

    def __init__(self, inner, log_of: Callable, line: int) -> None:
        self.inner, self.log_of, self.line = inner, log_of, line

    def arrive(self, st, mask: np.ndarray, resume: int) -> list:
        """Threads of `mask` reach it."""
        log = self.log_of(st)
        if log is not None:
            inner, lanes = self.inner, np.flatnonzero(mask)
            if hasattr(inner, "ident"):
                ident = np.broadcast_to(st.gathered(inner.ident(st)), lanes.shape)
                count = None if inner.count is None else np.broadcast_to(st.gathered(inner.count(st)), lanes.shape)
                for w in np.unique(lanes // 32):
                    i = int(np.argmax(lanes // 32 == w))
                    threads = st.threads if count is None else int(count[i])
                    log.fact(int(lanes[i]), BarrierOp(int(ident[i]), threads, inner.mode == "arrive"), self.line)
            else:
                op = BarrierOp(CLUSTER_BARRIER, st.threads * st.cluster_size, inner.mode == "arrive", inner.mode != "arrive")
                for w in np.unique(lanes // 32):
                    log.fact(int(w) * 32, op, self.line)
        return self.inner.arrive(st, mask, resume)
