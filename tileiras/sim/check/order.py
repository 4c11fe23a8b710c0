"""What happens before what: vector clocks of the warps and asynchronous operations of each cluster.

`know[HAPPENED, warp, agent]` is the time up to which a warp knows that an agent's accesses have happened. Agents of a
cluster are its warps, and `engines` slots that its asynchronous operations take in turn (operations of one pipeline share
one). `know[PROXY]` is the part that a proxy fence has made visible to asynchronous operations as well, in shared memory
(`PROXY_GLOBAL`: in global memory), `know[FENCED]` what the warp had at its last memory fence, which is what a relaxed
store or atomic releases (`FENCED_CTA`: fences of the block's scope too). Times are one count for the whole launch, which
every release advances: an access carries the time at which it was made, so a warp whose least known time is later knows
of it, whoever made it.

    order.release(lanes, key) / order.acquire(lanes, key)    through ("mbar", offset, phase) and the like
    order.complete(key, op)                                  an operation's completion, as the key will tell
    order.waited(lane, op)                                   a thread waited for the operation itself
    order.proxy_fence(lanes) / order.fence(lanes)
    order.through(lanes, space, offsets, ...)                releases and acquires through memory, also between clusters

Within a warp everything counts as ordered.
"""
from __future__ import annotations

import numpy as np

HAPPENED, PROXY, PROXY_GLOBAL, FENCED, FENCED_CTA = range(5)
LEVELS = 5
OWN = 2**31 - 1                     # what a warp knows of itself
MANY = 2048                         # releases through different addresses in one instruction: too many to follow
CLUSTERS = 4096                     # clusters whose mutual order is followed


def _tell(found: np.ndarray, known: np.ndarray, warps: int) -> None:
    """Add to [LEVELS, agents] what an operation's completion tells; engines' writes are visible to engines anyway."""
    np.maximum(found[HAPPENED], known, out=found[HAPPENED])
    for level in (PROXY, PROXY_GLOBAL):
        np.maximum(found[level, warps:], known[warps:], out=found[level, warps:])


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
        self.know = np.zeros((LEVELS, rows, self.agents), np.int32)
        self.know[HAPPENED, np.arange(rows), self.agent] = OWN
        self.keys: dict = {}
        self.later: dict[int, np.ndarray] = {}              # warp -> what its next fence acquires
        self.later_foreign: dict[int, list] = {}            # warp -> (cluster, what its next fence acquires of it)
        self.next_slot = np.zeros(max(rows // self.warps, 1), np.int64)
        self.last = np.zeros((len(self.next_slot), self.engines), np.int32)     # when each slot's last operation was issued
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
        """Every living warp knows of all that the agents of its cluster did up to this time."""
        if self._floor is None:
            known = self.know[HAPPENED]
            last = np.repeat(self.last, self.warps, axis=0)
            if not self.st.all_live:
                living = self.st.live.reshape(-1, 32).any(axis=1)
                known, last = known[living], last[living]
            self._floor = int(known[:, :self.warps].min()) if known.size else 0
            unknown = known[:, self.warps:][known[:, self.warps:] < last]       # operations some warp hasn't waited for
            if unknown.size:
                self._floor = min(self._floor, int(unknown.min()))
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
            known[HAPPENED] = known[FENCED_CTA]
        else:
            known[HAPPENED, np.arange(len(rows)), self.agent[rows]] = now
        return known

    # ---- keys
    def release(self, lanes: np.ndarray, key, fenced: bool = False) -> None:
        """The threads' warps make what they know available at a key (`fenced`: only what they had at their last fence)."""
        tensor = self.st.tensor
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
        tensor = self.st.tensor
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

    # ---- barriers of CTAs and clusters: `gathered` is [groups, LEVELS, agents]
    def gather(self, gathered: np.ndarray | None, warps: np.ndarray, groups: int, fenced: bool = False) -> np.ndarray:
        """What the warps of a mask over all warps bring to the barrier of their group (CTA or cluster); `fenced`: only what
        they had at their last fence."""
        now = self.tick()
        known = self.know.copy()
        if fenced:
            known[HAPPENED] = known[FENCED]
        else:
            known[HAPPENED, np.arange(self.rows), self.agent] = now
        known[:, ~warps] = 0
        brought = known.reshape(LEVELS, groups, -1, self.agents).max(axis=2).transpose(1, 0, 2)
        return brought if gathered is None else np.maximum(gathered, brought)

    def hand_out(self, gathered: np.ndarray, warps: np.ndarray) -> None:
        """The warps of a mask leave the barrier of their group."""
        self._floor = None
        groups = len(gathered)
        known = self.know.reshape(LEVELS, groups, -1, self.agents)
        chosen = warps.reshape(groups, -1)[None, :, :, None]
        np.maximum(known, gathered.transpose(1, 0, 2)[:, :, None], out=known, where=chosen)

    # ---- fences
    def fence(self, lanes: np.ndarray, scope: str = "gpu") -> None:
        """A memory fence: a later relaxed store releases what is known now, and relaxed loads before it acquire."""
        rows = self.rows_of(lanes)
        for row in rows.tolist() if self.later else ():
            found = self.later.pop(row, None)
            if found is not None:
                self._take(np.array([row]), found)
        for row in rows.tolist() if self.later_foreign and scope != "cta" else ():
            for other, known in self.later_foreign.pop(row, ()):
                self._learn(row, other, known)
        known = self._what(rows, self.tick())[HAPPENED]
        for level in (FENCED_CTA,) if scope == "cta" else (FENCED, FENCED_CTA):
            self.know[level, rows] = np.maximum(self.know[level, rows], known)

    def proxy_fence(self, lanes: np.ndarray, space: str = "") -> None:
        """fence.proxy.async: what the warps know counts for asynchronous operations too (`space`: shared, global, or both)."""
        rows = self.rows_of(lanes)
        known = self._what(rows, self.tick())[HAPPENED]
        for level, of in ((PROXY, "shared"), (PROXY_GLOBAL, "global")):
            if space in ("", of):
                self.know[level, rows] = np.maximum(self.know[level, rows], known)

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
        self.last[op.cluster, slot] = time
        known[self.warps + slot] = time
        op.clock = slot, time, known
        return slot, time

    def complete(self, key, op) -> None:
        """The completion of an operation is told by a key."""
        if op.clock is None:
            return
        found = self.keys.get(key)
        if found is None:
            found = self.keys[key] = np.zeros((LEVELS, self.agents), np.int32)
        _tell(found, op.clock[2], self.warps)

    def waited(self, lane: int, op) -> None:
        """A thread waited for an operation."""
        if op.clock is not None:
            self._floor = None
            _tell(self.know[:, lane >> 5], op.clock[2], self.warps)

    # ---- through memory
    def through(self, lanes: np.ndarray, space: str, offsets: np.ndarray, write: bool, read: bool, release: str,
                acquire: str) -> None:
        """Stores, loads or atomics at offsets of a space, one for each of `lanes`, in thread order.

        `release`, `acquire`: the scope ("cta", "gpu", ...) of what the access itself releases or acquires, or "" for a
        relaxed one, which releases what a fence before it covers and acquires at the next fence."""
        level = FENCED_CTA if self.know[FENCED_CTA].any() else FENCED
        idle = write and not release and not self.know[level, lanes >> 5].any()
        silent = not self.launch.messages if space == "global" else not self.keys
        if (idle and (not read or silent)) or (not write and silent):
            return
        now = self.tick() if write else 0
        for row, off in self._pairs(lanes, offsets):
            rows = np.array([row])
            if space != "global":
                found = self.keys.get((space, off))
                if read and found is not None:
                    self._take(rows, found, not acquire)
                if write:
                    given = self._what(rows, now, not release)[:, 0]
                    self.keys[space, off] = given if found is None else np.maximum(found, given)
                continue
            if read:
                self._observe(row, off, acquire)
            if write:
                self._publish(row, off, now, release)

    def _publish(self, row: int, off: int, now: int, release: str) -> None:
        cluster = self.first + row // self.warps
        near = self._what(np.array([row]), now, not release)[:, 0]
        far = near.copy()
        if not release:
            far[HAPPENED] = far[FENCED]
        elif release == "cta":
            far[HAPPENED] = 0
        message = self.launch.messages.setdefault(off, {})
        found = message.get(cluster)
        message[cluster] = (near, far) if found is None else (np.maximum(found[0], near), np.maximum(found[1], far))
        for other, (known, time, agent) in self.launch.foreign.get(cluster, {}).items():
            if far[HAPPENED, agent] >= time:
                found = message.get(other)
                message[other] = (known, known) if found is None else (found[0], np.maximum(found[1], known))

    def _observe(self, row: int, off: int, acquire: str) -> None:
        cluster = self.first + row // self.warps
        for other, (near, far) in self.launch.messages.get(off, {}).items():
            if other == cluster:
                self._take(np.array([row]), near, not acquire)
            elif not acquire:
                self.later_foreign.setdefault(row, []).append((other, far))
            elif acquire != "cta":
                self._learn(row, other, far)

    def _learn(self, row: int, other: int, known: np.ndarray) -> None:
        """A warp acquires what is known of another cluster."""
        mine = self.launch.foreign.setdefault(self.first + row // self.warps, {})
        before = mine.get(other)
        if before is not None:
            if (known[HAPPENED] <= before[0][HAPPENED]).all():
                return
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
