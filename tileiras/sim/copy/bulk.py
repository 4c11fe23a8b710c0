"""cp.async.bulk and its relatives: copies and reductions of contiguous bytes, the groups that stores belong to, and
operations on another CTA's shared memory that complete on an mbarrier (st.async, red.async).

Loads are one operation each: all bytes land, then the mbarrier gets its transaction bytes. Stores are two, reading the
source and writing the destination, the second after the first; `cp.async.bulk.wait_group.read` waits for the first. A
thread's groups complete in the order in which they were committed.
"""
from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tileiras.sim.check.agents import Operation
from tileiras.sim.copy.bulkreduce import reducer
from tileiras.sim.core import memory as mem
from tileiras.sim.core.decode import operation
from tileiras.sim.errors import InvalidInstruction, Misaligned, OutOfBounds, UninitializedRead, UnsupportedInstruction, UseAfterExit
from tileiras.sim.memory import mbarrier
from tileiras.sim.memory.loadstore import address_source
from tileiras.sim.ptx import module as ptx
from tileiras.sim.ptx.types import BITS


class Groups:
    """The bulk groups of a batch's threads: operations not yet committed, and committed ones by group."""

    def __init__(self) -> None:
        self.open: dict[int, list[tuple[Operation, Operation]]] = {}             # thread -> (reading, writing)
        self.committed: dict[int, list[list[tuple[Operation, Operation]]]] = {}
        self.read: dict[int, int] = {}          # thread -> how many of its groups are known to have read their sources

    def add(self, lane: int, reading: Operation, writing: Operation) -> None:
        """A store of thread `lane` was issued."""
        self.open.setdefault(lane, []).append((reading, writing))

    def commit(self, lane: int) -> None:
        """Close a group; what it writes comes after what the groups before it write."""
        members = self.open.pop(lane, [])
        earlier = self.committed.setdefault(lane, [])
        if earlier:
            before = [w for _, w in earlier[-1] if not w.done]
            for _, writing in members:
                if not writing.done:
                    writing.after += before
        earlier.append(members)

    def wait(self, st, lane: int, keep: int, reading: bool) -> None:
        """Wait until all but the newest `keep` groups of a thread are complete, or have read their sources."""
        all_groups = self.committed.get(lane, [])
        done = all_groups[:len(all_groups) - keep] if keep else all_groups[:]
        count = len(done)
        if reading:
            done = done[self.read.get(lane, 0):]
        st.agents.finish([pair[0] if reading else pair[1] for group in done for pair in group])
        order = st.order
        for group in done:
            for first, second in group:
                if order is not None:
                    order.waited(lane, first if reading else second)
        self.read[lane] = max(self.read.get(lane, 0), count)
        if not reading:
            self.committed[lane] = all_groups[count:]
            self.read[lane] -= count

    def left(self, st) -> None:
        """Threads have exited: copies whose sources nobody knows to have been read may read after the block's end."""
        for lane in sorted({*self.open, *self.committed}):
            if st.live[lane]:
                continue
            members = [pair for group in self.committed.pop(lane, [])[self.read.pop(lane, 0):] for pair in group]
            for reading, _ in members + self.open.pop(lane, []):
                mbarrier.finding(st, UseAfterExit(f"the thread exits and {reading.name} may not have read its source yet: "
                                                  "a commit or wait_group is missing"), lane, reading.line)


def groups_of(st) -> Groups:
    """The batch's bulk groups, made on first use."""
    if st.bulk_groups is None:
        st.bulk_groups = Groups()
    return st.bulk_groups


@operation("cp.async.bulk", "cp.reduce.async.bulk")
def decode_bulk(decoder, ins) -> Callable:
    """cp.async.bulk..., cp.reduce.async.bulk...: all but the copies of tensors, which `tma` has."""
    parts = ins.parts
    if "commit_group" in parts:
        def commit(st):
            for lane in st.lanes:
                groups_of(st).commit(int(lane))
        return commit
    if "wait_group" in parts:
        operand = ins.operands[0]
        if not isinstance(operand, ptx.Immediate):
            raise InvalidInstruction("cp.async.bulk.wait_group needs a constant")
        keep, reading = operand.value, "read" in parts

        def wait(st):
            g = groups_of(st)
            for lane in st.lanes:
                if int(lane) in g.committed:
                    g.wait(st, int(lane), keep, reading)
        return wait
    if "prefetch" in parts:
        return _prefetch(decoder, ins)
    spaces = [p for p in parts if p.split("::")[0] in ("shared", "global")]
    if len(spaces) != 2 or "tensor" in parts:
        raise InvalidInstruction(f"{ins.opcode} needs a destination and a source space")
    if spaces[1] == "global":
        return _load(decoder, ins, spaces[0])
    if spaces == ["global", "shared::cta"]:
        return _store(decoder, ins)
    if spaces == ["shared::cluster", "shared::cta"]:
        return _across(decoder, ins)
    raise InvalidInstruction(f"{ins.opcode}: no such direction")


# ---- places

def shared_address(decoder, operand, cluster: bool) -> Callable:
    """A getter of byte offsets in the batch's shared memory, with the size and alignment that the copy needs."""
    get, _ = address_source(decoder, operand, "shared")

    def locate(st, sizes: np.ndarray, align: int = 16) -> np.ndarray:
        return shared_ranges(st, st.gathered(get(st)), sizes, align, cluster, st.lanes)
    return locate


def shared_ranges(st, address: np.ndarray, sizes: np.ndarray, align: int, cluster: bool, lanes: np.ndarray) -> np.ndarray:
    """Offsets of ranges of shared memory, one for each of `lanes`, bounds and alignment checked."""
    bad = (address & np.uint64(align - 1)) != 0
    if bad.any():
        i = int(np.argmax(bad))
        raise Misaligned(f"shared address {int(address[i]):#x} isn't a multiple of {align}", thread=int(lanes[i]))
    off = mem.shared_places(st, address, 1, lanes, cluster=cluster)
    last = np.maximum(sizes.astype(np.int64) - 1, 0).astype(np.uint64)
    end = mem.shared_places(st, address + last, 1, lanes, cluster=cluster)
    if ((end - off) != last.astype(np.int64)).any():
        raise OutOfBounds("a copy runs past the end of shared memory", thread=int(lanes[0]))
    return off


def global_range(st, address: int, size: int, lane: int, write: bool, align: int = 16) -> int:
    """The offset in global memory of a range, bounds and alignment checked."""
    if address % align:
        raise Misaligned(f"global address {address:#x} isn't a multiple of {align}", thread=lane)
    where = np.array([address], np.uint64)
    lanes = np.array([lane])
    start = int(st.memory.offsets(where, 1, lanes, write)[0])
    if size > 1:
        end = int(st.memory.offsets(where + np.uint64(size - 1), 1, lanes, write)[0])
        if st.memory.allocation(start) != st.memory.allocation(end):
            raise OutOfBounds(f"{size} bytes at {address:#x}{st.memory.nearest(end)}", thread=lane)
    return start


def check_source(st, start: int, size: int, lane: int) -> None:
    """Raise unless all bytes of a source in shared memory were written."""
    state = st.shared_written[start:start + size]
    if not state.all():
        missing = int(np.argmin(state != 0))
        raise UninitializedRead(f"byte {missing} of {size} copied from shared memory wasn't written", thread=lane)


def _sizes(st, get) -> np.ndarray:
    n = st.gathered(get(st)).astype(np.int64)
    bad = n % 16 != 0
    if bad.any():
        i = int(np.argmax(bad))
        raise Misaligned(f"cp.async.bulk of {int(n[i])} bytes, not a multiple of 16", thread=int(st.lanes[i]))
    return n


def peers(st, off: int, mask: int, lane: int) -> list[int]:
    """The offset of the same place in each CTA of a multicast mask, by ascending rank."""
    size, stride = st.cluster_size, max(st.shared_stride, 1)
    if mask >> size or not mask:
        raise OutOfBounds(f"multicast to CTAs {mask:#x} of a cluster of {size}", thread=lane)
    first = int(st.cta_of[lane]) // size * size
    return [(first + r) * stride + off % stride for r in range(size) if mask >> r & 1]


# ---- instructions

def _operands(ins, count: int) -> tuple[list, list]:
    """The fixed operands and the optional ones (multicast mask, byte mask), without the cache policy."""
    operands = list(ins.operands)
    rest = operands[count:]
    hinted = "L2::cache_hint" in ins.parts
    wanted = ("multicast::cluster" in ins.parts) + ("cp_mask" in ins.parts) + hinted
    if len(operands) < count or len(rest) != wanted:
        raise InvalidInstruction(f"{ins.opcode} with {len(operands)} operands")
    if hinted:
        rest.pop(0 if "cp_mask" in ins.parts else -1)
    return operands[:count], rest


def _require(ins, completion: str) -> None:
    if completion not in ins.parts:
        raise InvalidInstruction(f"{ins.opcode} needs .{completion}")


def _load(decoder, ins, space: str) -> Callable:
    """global -> shared::cta or shared::cluster."""
    _require(ins, "mbarrier::complete_tx::bytes")
    if "reduce" in ins.parts:
        raise InvalidInstruction(f"{ins.opcode}: reductions read shared memory")
    (to, source, size, bar), rest = _operands(ins, 4)
    cluster = space == "shared::cluster"
    place = shared_address(decoder, to, cluster)
    address, _ = address_source(decoder, source, "global")
    count = decoder.source(size, "u32")
    locate = mbarrier.locator(decoder, bar, ("shared",), cluster)
    mask = decoder.source(rest[0], "u16") if "multicast::cluster" in ins.parts else None

    def load(st):
        lanes, n = st.lanes, _sizes(st, count)
        off, where, bars = place(st, n), st.gathered(address(st)), locate(st)
        masks = None if mask is None else st.gathered(mask(st))
        for i in range(len(lanes)):
            lane, size = int(lanes[i]), int(n[i])
            start = global_range(st, int(where[i]), size, lane, False)
            if masks is None:
                pairs = [(int(off[i]), int(bars[i]))]
            else:
                pairs = list(zip(peers(st, int(off[i]), int(masks[i]), lane), peers(st, int(bars[i]), int(masks[i]), lane)))
            for target, b in pairs:
                mbarrier.engine_uses(st, b, lane)
                st.agents.issue(Load(lane, start, target, size, b))
    return load


class Load(Operation):
    """Bytes from global to shared memory, then transaction bytes to an mbarrier."""

    def __init__(self, lane: int, start: int, target: int, size: int, bar: int) -> None:
        super().__init__("cp.async.bulk", lane, reads=[("global", start, size)], writes=[("shared", target, size)])
        self.start, self.target, self.size, self.bar = start, target, size, bar

    def begin(self, st) -> None:
        """The destination has no value until the copy lands."""
        st.shared_written[self.target:self.target + self.size] = 0

    def perform(self, st) -> None:
        """Copy."""
        st.shared[self.target:self.target + self.size] = st.memory.data[self.start:self.start + self.size]
        st.shared_written[self.target:self.target + self.size] = mem.WRITTEN

    def complete(self, st) -> None:
        """Tell the mbarrier."""
        mbarrier.engine_brings(st, self.bar, self, self.size)


def _store(decoder, ins) -> Callable:
    """shared::cta -> global, copied or reduced."""
    _require(ins, "bulk_group")
    (to, source, size), rest = _operands(ins, 3)
    place = shared_address(decoder, source, False)
    address, _ = address_source(decoder, to, "global")
    count = decoder.source(size, "u32")
    mask = decoder.source(rest[0], "u16") if "cp_mask" in ins.parts else None
    reduce = reducer(ins) if "reduce" in ins.parts else None

    def store(st):
        lanes, n = st.lanes, _sizes(st, count)
        off, where = place(st, n), st.gathered(address(st))
        masks = None if mask is None else st.gathered(mask(st))
        for i in range(len(lanes)):
            lane, size, source = int(lanes[i]), int(n[i]), int(off[i])
            start = global_range(st, int(where[i]), size, lane, True)
            check_source(st, source, size, lane)
            chosen = None
            if masks is not None:
                chosen = np.tile(np.array([int(masks[i]) >> k & 1 for k in range(16)], bool), size // 16)
            bulk_store(st, lane, [("shared", source, size)], [("global", start, size)],
                       lambda st, source=source, size=size: st.shared[source:source + size].copy(),
                       lambda st, data, start=start, chosen=chosen: _put(st, start, data, chosen, reduce), reduce is not None)
    return store


def bulk_store(st, lane: int, reads: list, writes: list, take: Callable, give: Callable, atomic: bool = False) -> None:
    """Issue the two operations of a store: `take(st)` reads the source, `give(st, data)` writes it."""
    box: list = []
    reading = Operation("cp.async.bulk", lane, reads=reads, perform=lambda st: box.append(take(st)))
    st.agents.issue(reading)
    writing = Operation("cp.async.bulk", lane, writes=writes, after=[reading], perform=lambda st: give(st, box.pop()))
    writing.atomic = atomic
    st.agents.issue(writing)
    groups_of(st).add(lane, reading, writing)


def _put(st, start: int, data: np.ndarray, chosen, reduce) -> None:
    target = st.memory.data[start:start + len(data)]
    if reduce is not None:
        target[:] = reduce(target, data)
    elif chosen is None:
        target[:] = data
    else:
        target[chosen] = data[chosen]


def _across(decoder, ins) -> Callable:
    """shared::cta -> shared::cluster, copied or reduced."""
    _require(ins, "mbarrier::complete_tx::bytes")
    (to, source, size, bar), _ = _operands(ins, 4)
    place, origin = shared_address(decoder, to, True), shared_address(decoder, source, False)
    count = decoder.source(size, "u32")
    locate = mbarrier.locator(decoder, bar, ("shared",), True)
    reduce = reducer(ins) if "reduce" in ins.parts else None

    def copy(st):
        lanes, n = st.lanes, _sizes(st, count)
        to_off, from_off, bars = place(st, n), origin(st, n), locate(st)
        stride = max(st.shared_stride, 1)
        for i in range(len(lanes)):
            lane, size = int(lanes[i]), int(n[i])
            target, source, b = int(to_off[i]), int(from_off[i]), int(bars[i])
            if st.cluster_size > 1 and target // stride != b // stride:
                raise OutOfBounds("the mbarrier of a copy between CTAs must be in the destination's CTA", thread=lane)
            check_source(st, source, size, lane)
            if reduce is not None:
                check_source(st, target, size, lane)
            mbarrier.engine_uses(st, b, lane)
            st.agents.issue(Across(lane, source, target, size, b, reduce))
    return copy


class Across(Operation):
    """Bytes from shared memory to that of another CTA, then transaction bytes to its mbarrier."""

    def __init__(self, lane: int, source: int, target: int, size: int, bar: int, reduce) -> None:
        super().__init__("cp.async.bulk", lane, reads=[("shared", source, size)], writes=[("shared", target, size)])
        self.source, self.target, self.size, self.bar, self.reduce = source, target, size, bar, reduce
        self.atomic = reduce is not None

    def begin(self, st) -> None:
        """The destination of a copy has no value until it lands."""
        if self.reduce is None:
            st.shared_written[self.target:self.target + self.size] = 0

    def perform(self, st) -> None:
        """Copy or reduce."""
        target = st.shared[self.target:self.target + self.size]
        data = st.shared[self.source:self.source + self.size]
        target[:] = data if self.reduce is None else self.reduce(target, data)
        st.shared_written[self.target:self.target + self.size] = mem.WRITTEN

    def complete(self, st) -> None:
        """Tell the mbarrier."""
        mbarrier.engine_brings(st, self.bar, self, self.size)


def _prefetch(decoder, ins) -> Callable:
    """A hint: only its operands are checked."""
    (source, size), _ = _operands(ins, 2)
    address, _ = address_source(decoder, source, "global")
    count = decoder.source(size, "u32")

    def prefetch(st):
        n, where = _sizes(st, count), st.gathered(address(st))
        bad = (where & np.uint64(15)) != 0
        if bad.any():
            i = int(np.argmax(bad))
            raise Misaligned(f"global address {int(where[i]):#x} isn't a multiple of 16", thread=int(st.lanes[i]))
        return n
    return prefetch


# ---- st.async and red.async

@operation("st.async", "red.async")
def remote_async(decoder, ins) -> Callable:
    """st.async and red.async with an mbarrier: a word or vector to shared memory of the cluster, then transaction bytes."""
    parts = ins.parts
    if "mbarrier::complete_tx::bytes" not in parts:
        raise UnsupportedInstruction(ins.opcode)
    type_ = parts[-1]
    width = BITS[type_] // 8
    operands = ins.operands
    values = operands[1].items if isinstance(operands[1], ptx.Vector) else [operands[1]]
    gets = [decoder.source(v, f"b{8 * width}") for v in values]
    reduce = reducer(ins) if parts[0] == "red" else None
    target, _ = address_source(decoder, operands[0], "shared")
    locate = mbarrier.locator(decoder, operands[2], ("shared",), True)

    def send(st):
        lanes = st.lanes
        total = width * len(gets)
        off = mem.shared_places(st, st.gathered(target(st)), total, lanes, cluster=True)
        bars = locate(st)
        data = np.stack([st.gathered(g(st)) for g in gets], axis=-1).view(np.uint8).reshape(len(lanes), total)
        stride = max(st.shared_stride, 1)
        for i in range(len(lanes)):
            lane, b = int(lanes[i]), int(bars[i])
            if int(off[i]) // stride != b // stride:
                raise OutOfBounds("the mbarrier must be in the CTA of the destination", thread=lane)
            mbarrier.engine_uses(st, b, lane)
            st.agents.issue(Word(parts[0], lane, int(off[i]), data[i].copy(), b, reduce))
    return send


class Word(Operation):
    """A few bytes to shared memory of the cluster, then transaction bytes to an mbarrier."""

    def __init__(self, name: str, lane: int, target: int, data: np.ndarray, bar: int, reduce) -> None:
        super().__init__(f"{name}.async", lane, writes=[("shared", target, len(data))])
        self.target, self.data, self.bar, self.reduce = target, data, bar, reduce
        self.atomic, self.generic = reduce is not None, True

    def begin(self, st) -> None:
        """The destination of a store has no value until it lands."""
        if self.reduce is None:
            st.shared_written[self.target:self.target + len(self.data)] = 0

    def perform(self, st) -> None:
        """Store or reduce."""
        target = st.shared[self.target:self.target + len(self.data)]
        target[:] = self.data if self.reduce is None else self.reduce(target, self.data)
        st.shared_written[self.target:self.target + len(self.data)] = mem.WRITTEN

    def complete(self, st) -> None:
        """Tell the mbarrier."""
        mbarrier.engine_brings(st, self.bar, self, len(self.data))
