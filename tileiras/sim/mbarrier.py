"""mbarrier objects in shared memory, and the copies that complete on them.

An mbarrier's 64 bits hold, here: bits 0-19 arrivals still pending in this phase, 20-39 arrivals expected in a phase,
40-61 the transaction count still outstanding (biased), 63 the phase's parity.
"""
from __future__ import annotations

import numpy as np

from tileiras.sim import memory as mem
from tileiras.sim import parser as ptx
from tileiras.sim.decode import operation
from tileiras.sim.errors import BarrierError, InvalidInstruction, UnsupportedInstruction
from tileiras.sim.loadstore import address_source

_COUNT = 0xFFFFF
_BIAS = 1 << 21
_TX_MASK = (1 << 22) - 1


def _location(decoder, operand, parts):
    """A getter of byte offsets in the batch's shared buffer for the mbarrier of each active lane."""
    named = any(p.split("::")[0] == "shared" for p in parts)
    get, space = address_source(decoder, operand, "shared" if named else "")
    generic = space == ""

    def locate(st):
        a = st.gathered(get(st))
        if generic:
            a = a - np.uint64(mem.SHARED_WINDOW)
        return mem.private_offsets(st, "shared", a, 8, st.lanes)
    return locate


def _words(st, off: np.ndarray) -> np.ndarray:
    """The mbarriers' words as Python-sized integers (int64 patterns as uint64)."""
    mem.check_written(st.written_views["shared"], off, 8, 1, "shared", st.lanes)
    return st.views["shared"].of(8)[off // 8]


def update(st, off: np.ndarray, arrivals: np.ndarray, transactions: np.ndarray) -> np.ndarray:
    """Apply arrivals and transaction-count changes, in lane order; returns the word before each."""
    words = st.views["shared"].of(8)
    before = np.zeros(len(off), np.uint64)
    unique, inverse = np.unique(off, return_inverse=True)
    for k, where in enumerate(unique):
        picks = np.flatnonzero(inverse == k)
        word = int(words[where // 8])
        for i in picks:
            before[i] = word
            word = step(word, int(arrivals[i]), int(transactions[i]))
        words[where // 8] = word
    return before


def step(word: int, arrivals: int, transactions: int) -> int:
    """One arrival and/or transaction change on an mbarrier word; completes the phase when both reach zero."""
    pending, expected = word & _COUNT, word >> 20 & _COUNT
    tx = (word >> 40 & _TX_MASK) - _BIAS
    phase = word >> 63
    if arrivals > pending:
        raise BarrierError(f"{arrivals} arrivals at an mbarrier that expects {pending} more in this phase")
    pending -= arrivals
    tx += transactions
    if not -_BIAS < tx < _BIAS:
        raise BarrierError("the transaction count of an mbarrier leaves its range")
    if pending == 0 and tx == 0:
        pending, phase = expected, phase ^ 1
    return pending | expected << 20 | (tx + _BIAS) << 40 | phase << 63


@operation("mbarrier")
def _mbarrier(decoder, ins):
    kind = ins.parts[1]
    operands = list(ins.operands)
    decoder.watched = False
    if kind in ("init", "inval"):
        locate = _location(decoder, operands[0], ins.parts)
        if kind == "inval":
            def invalidate(st):
                off = locate(st)
                st.written_views["shared"].of(8)[off // 8] = 0
            return invalidate
        count = decoder.source(operands[1], "u32")

        def init(st):
            n = st.gathered(count(st)).astype(np.uint64)
            off = locate(st)
            if ((n == 0) | (n > _COUNT)).any():
                raise BarrierError("an mbarrier's count must be from 1 to 2**20 - 1")
            st.views["shared"].of(8)[off // 8] = n | n << np.uint64(20) | np.uint64(_BIAS << 40)
            st.written_views["shared"].of(8)[off // 8] = np.uint64(mem._FULL[8])
        return init
    if kind in ("arrive", "arrive_drop"):
        return _arrive(decoder, ins, kind == "arrive_drop")
    if kind in ("expect_tx", "complete_tx"):
        locate = _location(decoder, operands[0], ins.parts)
        amount = decoder.source(operands[1], "u32")
        sign = 1 if kind == "expect_tx" else -1

        def transactions(st):
            off = locate(st)
            _words(st, off)
            update(st, off, np.zeros(len(off), np.int64), sign * st.gathered(amount(st)).astype(np.int64))
        return transactions
    if kind in ("test_wait", "try_wait"):
        locate = _location(decoder, operands[1], ins.parts)
        put = decoder.scatter_target(operands[0], "pred")
        by_parity = "parity" in ins.parts
        given = decoder.source(operands[2], "u32" if by_parity else "b64")

        def test(st):
            st.yielded = True
            off = locate(st)
            phase = _words(st, off) >> np.uint64(63)
            wanted = st.gathered(given(st)).astype(np.uint64)
            if not by_parity:
                wanted = wanted >> np.uint64(63)
            put(st, phase != (wanted & np.uint64(1)))
        return test
    if kind == "pending_count":
        return decoder.simple(ins, ["b64"], "u32", lambda a: (a & np.uint64(_COUNT)).astype(np.uint32))
    raise UnsupportedInstruction(ins.opcode)


def _arrive(decoder, ins, drop: bool):
    operands = list(ins.operands)
    target = None
    if not isinstance(operands[0], ptx.Memory):
        target = operands.pop(0)
    locate = _location(decoder, operands[0], ins.parts)
    expect = "expect_tx" in ins.parts
    amount = decoder.source(operands[1], "u32") if len(operands) > 1 else None
    put = decoder.scatter_target(target, "b64") if target is not None and not isinstance(target, ptx.Sink) else None

    def run(st):
        off = locate(st)
        _words(st, off)
        n = np.ones(len(off), np.int64) if amount is None else st.gathered(amount(st)).astype(np.int64)
        zero = np.zeros(len(off), np.int64)
        if expect:
            update(st, off, zero, n)
            before = update(st, off, np.ones(len(off), np.int64), zero)
        else:
            before = update(st, off, n, zero)
        if drop:
            words = st.views["shared"].of(8)
            for k in off // 8:
                words[k] -= np.uint64(1 << 20)
        if put is not None:
            put(st, before)
    return run


def copy_arrive(decoder, ins):
    """cp.async.mbarrier.arrive: the thread's earlier copies land, then it arrives (at the latest moment: now)."""
    from tileiras.sim.asynccopy import wait
    locate = _location(decoder, ins.operands[0], ins.parts)
    noinc = "noinc" in ins.parts

    def run(st):
        off = locate(st)
        _words(st, off)
        wait(st, 0, True)
        if not noinc:                      # the pending count is raised first, so the net effect is none
            return
        update(st, off, np.ones(len(off), np.int64), np.zeros(len(off), np.int64))
    return run


def bulk(decoder, ins):
    """cp.async.bulk between global and shared memory; group commits and waits."""
    parts = ins.parts
    if "commit_group" in parts or "wait_group" in parts:
        return lambda st: None
    if "tensor" in parts or "prefetch" in parts or "reduce" in parts:
        raise UnsupportedInstruction(ins.opcode)
    spaces = [p.split("::")[0] for p in parts if p.split("::")[0] in ("shared", "global")]
    if spaces[:2] == ["shared", "global"]:
        to, _ = address_source(decoder, ins.operands[0], "shared")
        source, _ = address_source(decoder, ins.operands[1], "global")
        size = decoder.source(ins.operands[2], "u32")
        locate = _location(decoder, ins.operands[3], parts)

        def load(st):
            lanes = st.lanes
            a, g, n = st.gathered(to(st)), st.gathered(source(st)), st.gathered(size(st)).astype(np.int64)
            bar = locate(st)
            _words(st, bar)
            for i in range(len(lanes)):
                count = _bulk_size(n[i])
                data = st.memory.bytes_at(int(g[i]), count)
                start = _bulk_shared(st, a[i:i + 1], count, lanes[i:i + 1])
                st.shared[start:start + count] = data
                st.shared_written[start:start + count] = 0xFF
            update(st, bar, np.zeros(len(bar), np.int64), -n)
        return load
    if spaces[:2] == ["global", "shared"]:
        to, _ = address_source(decoder, ins.operands[0], "global")
        source, _ = address_source(decoder, ins.operands[1], "shared")
        size = decoder.source(ins.operands[2], "u32")

        def store(st):
            lanes = st.lanes
            g, a, n = st.gathered(to(st)), st.gathered(source(st)), st.gathered(size(st)).astype(np.int64)
            for i in range(len(lanes)):
                count = _bulk_size(n[i])
                start = _bulk_shared(st, a[i:i + 1], count, lanes[i:i + 1])
                mem.check_written(mem.Views(st.shared_written), np.arange(start, start + count), 1, 1, "shared",
                                  lanes[i:i + 1])
                st.memory.bytes_at(int(g[i]), count)[:] = st.shared[start:start + count]
        return store
    raise UnsupportedInstruction(ins.opcode)


def _bulk_size(n) -> int:
    if n % 16:
        raise InvalidInstruction(f"cp.async.bulk of {int(n)} bytes, not a multiple of 16")
    return int(n)


def _bulk_shared(st, address: np.ndarray, count: int, lanes: np.ndarray) -> int:
    start = int(mem.private_offsets(st, "shared", address, 16, lanes)[0])
    if count > 16:
        mem.private_offsets(st, "shared", address + np.uint64(count - 16), 16, lanes)
    return start


def red_async(decoder, ins):
    """red.async: only between CTAs of a cluster."""
    raise UnsupportedInstruction(ins.opcode)
