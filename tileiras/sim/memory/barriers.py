"""CTA barriers: `bar` and `barrier` with their identifiers, thread counts, arrivals and reductions.

Every barrier of a batch keeps, for each CTA, how many threads have arrived and which wait. Threads that have exited
aren't waited for unless the barrier names its count.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tileiras.sim.errors import BarrierError, InvalidInstruction
from tileiras.sim.memory.clusters import ClusterBarrier, decode_cluster_barrier

MAX_BARRIERS = 16


@dataclass
class Barrier:
    """A decoded barrier instruction."""
    mode: str                                   # sync, arrive, red
    aligned: bool
    ident: Callable
    count: Callable | None
    reduction: str = ""
    source: Callable | None = None
    put: Callable | None = None

    def arrive(self, st, mask: np.ndarray, resume: int) -> list[tuple[int, np.ndarray]]:
        """Threads of `mask` (the active ones) reach it; returns what runs on: [(block, mask)]."""
        return arrive(st, self, mask, resume)


@dataclass
class State:
    """One barrier identifier in all CTAs of a batch. `waiting`: [resume block, mask, Barrier, aligned]."""
    arrived: np.ndarray
    expected: np.ndarray                        # 0: all living threads
    waiting: list = field(default_factory=list)
    values: np.ndarray | None = None
    gathered: np.ndarray | None = None          # what arrived for `order`


def decode_barrier(decoder, ins) -> Barrier | ClusterBarrier | None:
    """The barrier of a `bar`/`barrier` instruction; None for `bar.warp.sync`."""
    parts = [p for p in ins.parts[1:] if p not in ("cta",)]
    if parts and parts[0] == "warp":
        return None
    if parts and parts[0] == "cluster":
        return decode_cluster_barrier(ins, parts)
    if not parts:
        raise InvalidInstruction("bar needs a mode")
    mode = parts[0]
    aligned = ins.parts[0] == "bar" or "aligned" in parts
    operands = list(ins.operands)
    if mode == "red":
        reduction = parts[1]
        put = decoder.target(operands[0], "u32" if reduction == "popc" else "pred")
        ident = decoder.source(operands[1], "u32")
        source = decoder.source(operands[-1], "pred")
        count = decoder.source(operands[2], "u32") if len(operands) == 4 else None
        return Barrier("red", aligned, ident, count, reduction, source, put)
    if mode not in ("sync", "arrive") or not operands:
        raise InvalidInstruction(f"{ins.opcode}")
    count = decoder.source(operands[1], "u32") if len(operands) > 1 else None
    if mode == "arrive" and count is None:
        raise InvalidInstruction("bar.arrive needs a thread count")
    return Barrier(mode, aligned, decoder.source(operands[0], "u32"), count)


def arrive(st, barrier: Barrier, mask: np.ndarray, resume: int) -> list[tuple[int, np.ndarray]]:
    """Threads of `mask` (the active ones) reach a barrier; returns what runs on: [(block, mask)]."""
    idents = barrier.ident(st)
    released: list = []
    first = int(idents[0])
    if idents.size == 1 or bool((st.gathered(idents) == first).all()):
        groups = [(first if idents.size == 1 else int(st.gathered(idents)[0]), mask)]
    else:
        spread = st.spread(idents)
        groups = [(int(v), mask & (spread == v)) for v in np.unique(st.gathered(idents))]
    counts = None if barrier.count is None else st.spread(barrier.count(st))
    values = None if barrier.source is None else st.spread(barrier.source(st))
    for ident, members in groups:
        if ident >= MAX_BARRIERS:
            raise BarrierError(f"barrier {ident} doesn't exist", thread=int(np.argmax(members)))
        released += _arrive_one(st, barrier, ident, members, resume, counts, values)
    return released


def _arrive_one(st, barrier, ident, mask, resume, counts, values) -> list:
    state = st.barriers.get(ident)
    if state is None:
        state = st.barriers[ident] = State(np.zeros(st.ctas, np.int64), np.zeros(st.ctas, np.int64))
    per_cta = mask.reshape(st.ctas, st.padded).sum(axis=1)
    here = per_cta > 0
    if counts is not None:
        wanted = np.where(mask, counts, 0).reshape(st.ctas, st.padded).max(axis=1).astype(np.int64)
        bad = here & ((wanted == 0) | (wanted % 32 != 0) | (wanted > st.padded))
        if bad.any():
            cta = int(np.argmax(bad))
            raise BarrierError(f"thread count {int(wanted[cta])} of barrier {ident} isn't a multiple of 32 within the CTA",
                               thread=cta * st.padded)
        fewest = np.where(mask, counts, 1 << 20).reshape(st.ctas, st.padded).min(axis=1).astype(np.int64)
        clash = here & ((state.arrived > 0) & (state.expected != wanted) | (fewest != wanted))
    else:
        wanted = np.zeros(st.ctas, np.int64)
        clash = here & (state.arrived > 0) & (state.expected != 0)
    if clash.any():
        raise BarrierError(f"barrier {ident} is used with different thread counts",
                           thread=int(np.argmax(clash)) * st.padded)
    state.expected[here] = wanted[here]
    state.arrived[here] += per_cta[here]
    if st.order is not None:
        state.gathered = st.order.gather(state.gathered, mask.reshape(-1, 32).any(axis=1), st.ctas)
    if st.tensor is not None:
        for cta in np.flatnonzero(here).tolist():
            st.tensor.release(_of_cta(st, mask, cta), ("bar", ident, cta))
    if values is not None:
        if state.values is None:
            state.values = np.zeros(st.size, bool)
        state.values[mask] = values[mask]
    out = []
    if barrier.mode == "arrive":
        out.append((resume, mask))
    else:
        state.waiting.append([resume, mask, barrier])
    return out + complete(st, ident, state)


def complete(st, ident: int, state: State) -> list[tuple[int, np.ndarray]]:
    """Release the CTAs whose barrier is full; returns [(block, mask)]."""
    living = st.live.reshape(st.ctas, st.padded).sum(axis=1)
    expected = np.where(state.expected > 0, state.expected, living)
    full = (state.arrived > 0) & (state.arrived >= expected)
    if not full.any():
        return []
    over = full & (state.arrived > expected) & (state.expected > 0)
    if over.any():
        cta = int(np.argmax(over))
        raise BarrierError(f"{int(state.arrived[cta])} threads arrived at barrier {ident} that expects "
                           f"{int(expected[cta])}", thread=cta * st.padded)
    threads = np.repeat(full, st.padded)
    out, kept, results = [], [], None
    seen = None
    for resume, mask, barrier in state.waiting:
        go = mask & threads
        if not go.any():
            kept.append([resume, mask, barrier])
            continue
        if barrier.aligned:
            warps = go.reshape(-1, 32).any(axis=1)
            if seen is not None and (seen & warps).any():
                clash = int(np.argmax(seen & warps)) * 32
                if any(r != resume for r, m, b in state.waiting if b.aligned and (m & threads)[clash:clash + 32].any()):
                    raise BarrierError(f"threads of one warp wait at different instructions for aligned barrier {ident}",
                                       thread=clash)
            seen = warps if seen is None else seen | warps
        if barrier.mode == "red":
            results = _reduce(st, state, barrier, full)
            saved = st.mask, st.index, st._lanes
            st.set_mask(go)
            assert barrier.put is not None
            barrier.put(st, results if st.index is None else results[st.index])
            st.mask, st.index, st._lanes = saved
        if st.order is not None and state.gathered is not None:
            st.order.hand_out(state.gathered, go.reshape(-1, 32).any(axis=1))
        if st.tensor is not None:
            for cta in np.flatnonzero(full).tolist():
                st.tensor.acquire(_of_cta(st, go, cta), ("bar", ident, cta))
        out.append((resume, go))
        rest = mask & ~threads
        if rest.any():
            kept.append([resume, rest, barrier])
    state.waiting = kept
    state.arrived[full] = 0
    if state.gathered is not None:
        state.gathered[full] = 0
    state.expected[full] = 0
    return out


def _of_cta(st, mask: np.ndarray, cta: int) -> np.ndarray:
    """The threads of a mask that belong to a CTA."""
    return cta * st.padded + np.flatnonzero(mask[cta * st.padded:(cta + 1) * st.padded])


def _reduce(st, state: State, barrier: Barrier, full: np.ndarray) -> np.ndarray:
    """The reduction's result for every thread of the batch."""
    assert state.values is not None
    joined = np.zeros(st.size, bool)
    for _, mask, b in state.waiting:
        if b.mode == "red":
            joined |= mask
    v = (state.values & joined).reshape(st.ctas, st.padded).sum(axis=1)
    n = joined.reshape(st.ctas, st.padded).sum(axis=1)
    if barrier.reduction == "popc":
        return np.repeat(v.astype(np.uint32), st.padded)
    return np.repeat(v == n if barrier.reduction == "and" else v > 0, st.padded)
