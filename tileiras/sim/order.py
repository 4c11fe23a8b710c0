"""What happens before what: vector clocks of the warps and asynchronous operations of each cluster.

`know[HAPPENED, warp, agent]` is the time up to which a warp knows that an agent's accesses have happened. Agents of a
cluster are its warps, and `engines` slots that its asynchronous operations take in turn (operations of one pipeline share
one). `know[PROXY]` is the part that a proxy fence has made visible to asynchronous operations as well, `know[FENCED]`
what the warp had at its last memory fence, which is what a relaxed store or atomic releases. Times are one count for
the whole launch, which every release advances: an access carries the time at which it was made, so a warp whose least
known time is later knows of it, whoever made it.

    order.release(lanes, key) / order.acquire(lanes, key)    through ("mbar", offset, phase) and the like
    order.complete(key, op)                                  an operation's completion, as the key will tell
    order.waited(lane, op)                                   a thread waited for the operation itself
    order.proxy_fence(lanes) / order.fence(lanes)
    order.publish(lanes, space, offsets, fenced) / order.observe(lanes, space, offsets, later)   releases and acquires
                                                             through memory, also between clusters

Within a warp everything counts as ordered.
"""
from __future__ import annotations

import numpy as np

HAPPENED, PROXY, FENCED = range(3)
OWN = 2**31 - 1                     # what a warp knows of itself
MANY = 2048                         # releases through different addresses in one instruction: too many to follow
CLUSTERS = 4096                     # clusters whose mutual order is followed


def _tell(found: np.ndarray, known: np.ndarray, warps: int) -> None:
    """Add to [3, agents] what an operation's completion tells; engines' writes are visible to engines anyway."""
    np.maximum(found[HAPPENED], known, out=found[HAPPENED])
    np.maximum(found[PROXY, warps:], known[warps:], out=found[PROXY, warps:])


class Order:
    """The clocks of one batch."""

    def __init__(self, st) -> None:
        launch = st.launch
        self.st, self.launch = st, launch
        self.each = st.padded // 32                         # warps of a CTA
        self.warps = self.each * st.cluster_size            # of a cluster
        self.engines = st.program.engines
        self.agents = self.warps + self.engines
        rows = st.ctas * self.each
        self.rows = rows
        self.agent = np.arange(rows) % self.warps           # of each warp of the batch
        self.know = np.zeros((3, rows, self.agents), np.int32)
        self.know[HAPPENED, np.arange(rows), self.agent] = OWN
        self.keys: dict = {}
        self.later: dict[int, np.ndarray] = {}              # warp -> what its next fence acquires
        self.next_slot = np.zeros(max(rows // self.warps, 1), np.int64)
        self._floor: int | None = None
        self.first = st.first // st.cluster_size            # number in the launch of the first cluster

    # ---- time
    @property
    def now(self) -> int:
        """The present time."""
        return self.launch.clock[0]

    def tick(self) -> int:
        """Advance the time; returns what it was."""
        now = self.launch.clock[0]
        self.launch.clock[0] = now + 1
        self._floor = None
        return now

    @property
    def floor(self) -> int:
        """Every living warp knows of all that warps of its cluster did up to this time."""
        if self._floor is None:
            known = self.know[HAPPENED, :, :self.warps]
            if not self.st.all_live:
                known = known[self.st.live.reshape(-1, 32).any(axis=1)]
            self._floor = int(known.min()) if known.size else 0
        return self._floor

    @staticmethod
    def rows_of(lanes: np.ndarray) -> np.ndarray:
        """The warps of some threads."""
        if len(lanes) == 1:
            return lanes >> 5
        return np.unique(lanes >> 5)

    def _what(self, rows: np.ndarray, now: int, fenced: bool = False) -> np.ndarray:
        known = self.know[:, rows]
        if fenced:
            known[HAPPENED] = known[FENCED]
        else:
            known[HAPPENED, np.arange(len(rows)), self.agent[rows]] = now
        return known

    # ---- keys
    def release(self, lanes: np.ndarray, key, fenced: bool = False) -> None:
        """The threads' warps make what they know available at a key (`fenced`: only what they had at their last fence)."""
        tensor = getattr(self.st, "tensor", None)
        if tensor is not None:
            tensor.release(lanes, key)
        rows = self.rows_of(lanes)
        given = self._what(rows, self.tick(), fenced).max(axis=1)
        found = self.keys.get(key)
        if found is None:
            self.keys[key] = given
            if key[0] == "mbar":
                self.keys.pop(("mbar", key[1], key[2] - 3), None)
        else:
            np.maximum(found, given, out=found)

    def acquire(self, lanes: np.ndarray, key, later: bool = False) -> None:
        """The threads' warps take over what was made available at a key (`later`: at their next fence)."""
        tensor = getattr(self.st, "tensor", None)
        if tensor is not None:
            tensor.acquire(lanes, key)
        found = self.keys.get(key)
        if found is not None:
            self._take(self.rows_of(lanes), found, later)

    def _take(self, rows: np.ndarray, found: np.ndarray, later: bool = False) -> None:
        if later:
            for row in rows.tolist():
                have = self.later.get(row)
                self.later[row] = found.copy() if have is None else np.maximum(have, found)
            return
        self._floor = None
        if len(rows) == 1:
            known = self.know[:, rows[0]]
            np.maximum(known, found, out=known)
        else:
            self.know[:, rows] = np.maximum(self.know[:, rows], found[:, None])

    # ---- barriers of CTAs and clusters: `gathered` is [groups, 3, agents]
    def gather(self, gathered: np.ndarray | None, warps: np.ndarray, groups: int, fenced: bool = True) -> np.ndarray:
        """What the warps of a mask over all warps bring to the barrier of their group (CTA or cluster)."""
        now = self.tick()
        known = self.know.copy()
        known[HAPPENED, np.arange(self.rows), self.agent] = now
        known[:, ~warps] = 0
        brought = known.reshape(3, groups, -1, self.agents).max(axis=2).transpose(1, 0, 2)
        return brought if gathered is None else np.maximum(gathered, brought)

    def hand_out(self, gathered: np.ndarray, warps: np.ndarray) -> None:
        """The warps of a mask leave the barrier of their group."""
        self._floor = None
        groups = len(gathered)
        known = self.know.reshape(3, groups, -1, self.agents)
        chosen = warps.reshape(groups, -1)[None, :, :, None]
        np.maximum(known, gathered.transpose(1, 0, 2)[:, :, None], out=known, where=chosen)

    # ---- fences
    def fence(self, lanes: np.ndarray) -> None:
        """A memory fence: a later relaxed store releases what is known now, and relaxed loads before it acquire."""
        rows = self.rows_of(lanes)
        for row in rows.tolist() if self.later else ():
            found = self.later.pop(row, None)
            if found is not None:
                self._take(np.array([row]), found)
        self.know[FENCED, rows] = np.maximum(self.know[FENCED, rows], self._what(rows, self.tick())[HAPPENED])

    def proxy_fence(self, lanes: np.ndarray) -> None:
        """fence.proxy.async: what the warps know counts for asynchronous operations too."""
        rows = self.rows_of(lanes)
        self.know[PROXY, rows] = np.maximum(self.know[PROXY, rows], self._what(rows, self.tick())[HAPPENED])

    # ---- asynchronous operations
    def begin(self, op) -> tuple[int, int]:
        """An operation is issued; returns (its slot, its time) and keeps in `op.clock` what its completion tells: itself,
        what it follows, and all that its thread knew."""
        row = op.lane >> 5
        known = self.know[HAPPENED, row].copy()
        known[self.agent[row]] = self.now
        slot = -1
        for earlier in op.follows:
            if earlier.clock is not None:
                np.maximum(known, earlier.clock[2], out=known)
                slot = earlier.clock[0]
        op.follows = ()
        if slot < 0:
            cluster = op.cluster
            slot = int(self.next_slot[cluster]) % self.engines
            self.next_slot[cluster] += 1
        time = self.tick()
        known[self.warps + slot] = time
        op.clock = slot, time, known
        return slot, time

    def complete(self, key, op) -> None:
        """The completion of an operation is told by a key."""
        if op.clock is None:
            return
        found = self.keys.get(key)
        if found is None:
            found = self.keys[key] = np.zeros((3, self.agents), np.int32)
        _tell(found, op.clock[2], self.warps)

    def waited(self, lane: int, op) -> None:
        """A thread waited for an operation."""
        if op.clock is not None:
            self._floor = None
            _tell(self.know[:, lane >> 5], op.clock[2], self.warps)

    # ---- through memory
    def publish(self, lanes: np.ndarray, space: str, offsets: np.ndarray, fenced: bool) -> None:
        """A releasing store or atomic to each offset (`fenced`: a relaxed one, which releases what a fence before it
        covers)."""
        if fenced and not self.know[FENCED, lanes >> 5].any():
            return
        now = self.tick()
        for row, off in self._pairs(lanes, offsets):
            given = self._what(np.array([row]), now, fenced)[:, 0]
            if space != "global":
                key = space, off
                found = self.keys.get(key)
                self.keys[key] = given if found is None else np.maximum(found, given)
                continue
            cluster = self.first + row // self.warps
            message = self.launch.messages.setdefault(off, {})
            found = message.get(cluster)
            message[cluster] = given if found is None else np.maximum(found, given)
            for other, (known, time, agent) in self.launch.foreign.get(cluster, {}).items():
                if given[HAPPENED, agent] >= time or self.agent[row] == agent:
                    found = message.get(other)
                    message[other] = known if found is None else np.maximum(found, known)

    def observe(self, lanes: np.ndarray, space: str, offsets: np.ndarray, later: bool) -> None:
        """An acquiring load or atomic of each offset (`later`: a relaxed one, which counts from the next fence on)."""
        if space != "global" and not self.keys or space == "global" and not self.launch.messages:
            return
        for row, off in self._pairs(lanes, offsets):
            rows = np.array([row])
            if space != "global":
                found = self.keys.get((space, off))
                if found is not None:
                    self._take(rows, found, later)
                continue
            cluster = self.first + row // self.warps
            for other, known in self.launch.messages.get(off, {}).items():
                if other == cluster:
                    self._take(rows, known, later)
                    continue
                mine = self.launch.foreign.setdefault(cluster, {})
                before = mine.get(other)
                if before is not None:
                    if (known <= before[0]).all():
                        continue
                    known = np.maximum(known, before[0])
                mine[other] = known, self.now, int(self.agent[row])

    def _pairs(self, lanes: np.ndarray, offsets: np.ndarray) -> list[tuple[int, int]]:
        """(warp, offset) of some threads, each once. Too many: what follows isn't accused any more."""
        both = np.unique(np.stack([lanes >> 5, np.broadcast_to(offsets, lanes.shape)], axis=1), axis=0)
        if len(both) > MANY or self.launch.ctas // self.st.cluster_size > CLUSTERS:
            self.launch.lenient = True
            return []
        return [(int(row), int(off)) for row, off in both]

    def foreign_knows(self, row: int, cluster: int, agent: int, time: int) -> bool:
        """Whether a warp knows of what an agent of another cluster did at a time."""
        if self.launch.lenient:
            return True
        found = self.launch.foreign.get(self.first + row // self.warps, {}).get(cluster)
        if found is None:
            return False
        known, since, by = found
        return bool(known[HAPPENED, agent] >= time and (self.know[HAPPENED, row, by] >= since or self.agent[row] == by))
