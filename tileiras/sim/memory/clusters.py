"""Clusters of CTAs: the cluster barrier, addresses in other CTAs' shared memory, and CTAs that exit while others use theirs."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tileiras.sim.check.order import HAPPENED
from tileiras.sim.core import memory as mem
from tileiras.sim.core.decode import operation
from tileiras.sim.errors import BarrierError, InvalidInstruction, OutOfBounds, UseAfterExit

RANK_BITS = 24
_OFFSET = (1 << RANK_BITS) - 1


class ClusterState:
    """The cluster barrier of every cluster of a batch. `mine`: the phase a thread arrived in and hasn't waited for, or -1."""

    def __init__(self, st) -> None:
        self.groups = st.ctas // st.cluster_size
        self.of = st.cta_of // st.cluster_size                  # cluster of each thread
        self.phase = np.zeros(self.groups, np.int64)
        self.arrived = np.zeros(st.size, bool)                  # in the present phase
        self.mine = np.full(st.size, -1, np.int64)
        self.gathered: np.ndarray | None = None                 # for `order`, of the present phase
        self.handed: np.ndarray | None = None                   # and of the last one
        self.told: dict[int, list[set]] = {}                    # initialisations fenced before arriving: see Shadow
        self.heard: dict[int, list[set]] = {}                   # and those of the last phase, by cluster
        self.waiting: list = []                                 # [resume block, mask, acquires]


def state(st) -> ClusterState:
    """The batch's cluster barriers, made on first use."""
    if st.cluster_barrier is None:
        st.cluster_barrier = ClusterState(st)
    return st.cluster_barrier


@dataclass
class ClusterBarrier:
    """A decoded barrier.cluster.arrive or barrier.cluster.wait. `ordered`: it releases, or acquires; a relaxed arrival
    releases what the thread's last fence covers, as any relaxed operation behind a fence does."""
    mode: str
    ordered: bool

    def arrive(self, st, mask: np.ndarray, resume: int) -> list[tuple[int, np.ndarray]]:
        """Threads of `mask` execute it; returns what runs on: [(block, mask)]."""
        s = state(st)
        if self.mode == "arrive":
            twice = mask & (s.mine >= 0)
            if twice.any():
                raise BarrierError("barrier.cluster.arrive again before barrier.cluster.wait", thread=int(np.argmax(twice)))
            s.mine[mask] = s.phase[s.of[mask]]
            s.arrived |= mask
            if st.order is not None:
                warps = mask.reshape(-1, 32).any(axis=1)
                s.gathered = st.order.gather(s.gathered, warps, s.groups, not self.ordered)
                st.shadow.hand_inits(warps, s.told, s.groups)
            if self.ordered:
                if st.mbarriers is not None:
                    st.mbarriers.fenced(np.flatnonzero(mask))
                tensor = st.tensor
                if tensor is not None:
                    tensor.release(np.flatnonzero(mask), ("cluster",))
            return [*complete(st), (resume, mask)]
        alone = mask & (s.mine < 0)
        if alone.any():
            raise BarrierError("barrier.cluster.wait without barrier.cluster.arrive before", thread=int(np.argmax(alone)))
        passed = mask & (s.phase[s.of] > s.mine)
        out = []
        if passed.any():
            _leave_barrier(st, s, passed, self.ordered)
            out.append((resume, passed))
        if (mask & ~passed).any():
            s.waiting.append([resume, mask & ~passed, self.ordered])
        return out


def _leave_barrier(st, s: ClusterState, mask: np.ndarray, ordered: bool) -> None:
    s.mine[mask] = -1
    if ordered:
        if st.order is not None and s.handed is not None:
            warps = mask.reshape(-1, 32).any(axis=1)
            st.order.hand_out(s.handed, warps)
            for row in np.flatnonzero(warps).tolist() if s.heard else ():
                for known in s.heard.get(int(s.of[row * 32]), ()):
                    known.add(row)
        tensor = st.tensor
        if tensor is not None:
            tensor.acquire(np.flatnonzero(mask), ("cluster",))


def complete(st) -> list[tuple[int, np.ndarray]]:
    """End the phase of clusters all of whose living threads have arrived; returns the threads that go on: [(block, mask)]."""
    s = st.cluster_barrier
    if s is None or not s.arrived.any():
        return []
    missing = np.bincount(s.of, st.live & ~s.arrived, s.groups)
    done = (missing == 0) & (np.bincount(s.of, s.arrived, s.groups) > 0)
    if not done.any():
        return []
    s.phase[done] += 1
    s.arrived &= ~done[s.of]
    if s.gathered is not None:
        if s.handed is None:
            s.handed = np.zeros_like(s.gathered)
        s.handed[done] = s.gathered[done]
        s.gathered[done] = 0
    for cluster in np.flatnonzero(done).tolist():
        s.heard.pop(cluster, None)
        if cluster in s.told:
            s.heard[cluster] = s.told.pop(cluster)
    out, kept = [], []
    for resume, mask, ordered in s.waiting:
        go = mask & done[s.of]
        if go.any():
            _leave_barrier(st, s, go, ordered)
            out.append((resume, go))
        if (mask & ~go).any():
            kept.append([resume, mask & ~go, ordered])
    s.waiting = kept
    return out


def describe(st) -> list[tuple[str, int, int]]:
    """Who waits at cluster barriers, for the message of a deadlock: [(words, a thread, the block after the wait)]."""
    s = st.cluster_barrier
    out = []
    if s is None:
        return out
    for resume, mask, _ in s.waiting:
        thread = int(np.argmax(mask))
        cluster = int(s.of[thread])
        absent = st.live & ~s.arrived & (s.of == cluster)
        where = sorted({int(r) for r in st.rank_of[absent]})
        out.append((f"{int(mask.sum())} threads wait at barrier.cluster.wait, {int(absent.sum())} threads of their cluster "
                    f"(CTA {', '.join(map(str, where))}) haven't arrived", thread, resume))
    return out


def decode_cluster_barrier(ins, parts: list[str]) -> ClusterBarrier:
    """barrier.cluster.arrive{.release, .relaxed}, barrier.cluster.wait{.acquire}; `parts` start at "cluster"."""
    mode = parts[1] if len(parts) > 1 else ""
    rest = set(parts[2:]) - {"aligned"}
    allowed = {"arrive": {"release", "relaxed"}, "wait": {"acquire"}}.get(mode)
    if allowed is None or not rest <= allowed or len(rest) > 1 or ins.operands:
        raise InvalidInstruction(f"{ins.opcode}")
    return ClusterBarrier(mode, "relaxed" not in rest)


# ---- other CTAs' shared memory

def visit(st, off: np.ndarray, lanes: np.ndarray) -> None:
    """Threads use shared memory at offsets of the batch's buffer now: where it is another CTA's, that one mustn't exit
    before."""
    if st.order is None:
        return
    cta = off // st.shared_stride
    other = cta != st.cta_of[lanes]
    if other.any():
        st.visits[cta[other], st.order.agent[lanes[other] >> 5]] = st.order.now


def leave(st, mask: np.ndarray, line: int) -> None:
    """Threads are about to exit: whoever used the shared memory of a CTA that ends now must have done so before."""
    if st.cluster_size == 1 or st.order is None:
        return
    alive = st.live.reshape(st.ctas, -1)
    ending = alive.any(axis=1) & ~(alive & ~mask.reshape(st.ctas, -1)).any(axis=1)
    each = st.order.each
    for cta in np.flatnonzero(ending & st.visits.any(axis=1)).tolist():
        known = st.order.know[HAPPENED, cta * each:(cta + 1) * each].max(axis=0)
        late = st.visits[cta] > known
        if late.any():
            thread = cta * st.padded + int(np.argmax(mask.reshape(st.ctas, -1)[cta]))
            who = st.shadow.who(int(np.argmax(late)), thread)
            st.found(UseAfterExit(f"CTA {cta % st.cluster_size} of the cluster exits while {who} may still use its shared "
                                  "memory: nothing orders the two", thread=thread), line)


@operation("mapa")
def _mapa(decoder, ins):
    """The address of the same place in another CTA of the cluster: its rank in the bits from 24 on."""
    t = ins.parts[-1]
    if t not in ("u32", "u64"):
        raise InvalidInstruction(ins.opcode)
    generic = not any(p.split("::")[0] == "shared" for p in ins.parts)
    if generic and t == "u32":
        raise InvalidInstruction(f"{ins.opcode}: a generic address has 64 bits")
    get_a, get_rank = decoder.source(ins.operands[1], t), decoder.source(ins.operands[2], "u32")
    put = decoder.target(ins.operands[0], t)
    base = mem.SHARED_WINDOW if generic else 0

    def run(st):
        a, rank = get_a(st), get_rank(st)
        over = st.gathered(rank) >= st.cluster_size
        if over.any():
            i = int(np.argmax(over))
            raise OutOfBounds(f"mapa to CTA {int(st.gathered(rank)[i])} of a cluster of {st.cluster_size}",
                              thread=int(st.lanes[i]))
        inside = a.astype(np.uint64) - np.uint64(base) & np.uint64(_OFFSET)
        put(st, (inside + (rank.astype(np.uint64) << np.uint64(RANK_BITS)) + np.uint64(base)).astype(a.dtype))
    return run


@operation("getctarank")
def _getctarank(decoder, ins):
    t = ins.parts[-1]
    if t not in ("u32", "u64"):
        raise InvalidInstruction(ins.opcode)
    generic = not any(p.split("::")[0] == "shared" for p in ins.parts)
    base = np.uint64(mem.SHARED_WINDOW if generic else 0)
    return decoder.simple(ins, [t], "u32", lambda a: ((a.astype(np.uint64) - base) >> np.uint64(RANK_BITS)).astype(np.uint32))


@operation("isspacep")
def _isspacep(decoder, ins):
    """shared and shared::cluster: any CTA of the cluster; shared::cta: the executing one."""
    space = ins.parts[1]
    windows = {"shared": mem.SHARED_WINDOW, "local": mem.LOCAL_WINDOW}
    family = space.split("::")[0]
    if family not in ("global", "const", "param", *windows):
        raise InvalidInstruction(ins.opcode)
    get = decoder.source(ins.operands[1], "u64")
    put = decoder.target(ins.operands[0], "pred")
    base = np.uint64(windows.get(family, 0))

    def run(st):
        a = get(st)
        if family == "global":
            result = a >= np.uint64(mem.GLOBAL_BASE)
        elif family in ("const", "param"):
            result = np.zeros(a.shape, bool)
        else:
            span = st.cluster_size << RANK_BITS if family == "shared" else mem.WINDOW_SIZE
            result = (a >= base) & (a < base + np.uint64(span))
            if space == "shared::cta" and st.cluster_size > 1:
                rank = st.rank_of if st.index is None else st.rank_of[st.index]
                result = result & ((a - base) >> np.uint64(RANK_BITS) == rank.astype(np.uint64))
        put(st, result)
    return run
