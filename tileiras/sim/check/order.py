"""What happens before what: vector clocks of the warps and asynchronous operations of each cluster.

`know[HAPPENED, warp, agent]` is the time up to which a warp knows that an agent's accesses have happened. Agents of a
cluster are its warps, and `engines` slots that its asynchronous operations take in turn (operations of one pipeline share
one). `know[PROXY]` is the part that a proxy fence has made visible to asynchronous operations as well, in shared memory
(`PROXY_GLOBAL`: in global memory), `know[FENCED]` what the warp had at its last memory fence, which is what a relaxed
store or atomic releases (`FENCED_CTA`: fences of the block's scope too). Times are one count for the whole launch, which
every release advances: an access carries the time at which it was made, so a warp whose least known time is later knows
of it, whoever made it.

Between clusters order goes through memory. An address holds a `Message`; a warp that acquires it keeps the message and
learns from it only when somebody asks or it releases something itself, since a block that waits for a lock reads the same
message, or the next, again and again.

    order.release(lanes, key) / order.acquire(lanes, key)    through ("mbar", offset, phase) and the like
    order.complete(key, op)                                  an operation's completion, as the key will tell
    order.waited(lane, op)                                   a thread waited for the operation itself
    order.proxy_fence(lanes) / order.fence(lanes)
    order.through(lanes, space, offsets, ...)                releases and acquires through memory, also between clusters

Within a warp everything counts as ordered here; `lanes` watches the threads of a warp. What makes warps know of each other makes
their own threads meet, too.
"""
from __future__ import annotations

import numpy as np

HAPPENED, PROXY, PROXY_GLOBAL, FENCED, FENCED_CTA = range(5)
LEVELS = 5
OWN = 2**31 - 1                     # what a warp knows of itself
MANY = 2048                         # releases through different addresses in one instruction: too many to follow
CLUSTERS = 4096                     # clusters whose mutual order is followed
KNOWN = 1 << 16                     # and their agents
NEWS, MOST_NEWS = 4, 32             # of other clusters, that a cluster's warps took one after another: before folding, after


class Heard:
    """What a cluster has learned of others, as arrays [clusters, agents] of the time up to which an agent's accesses are
    known: `base`, which all its warps know, and `news`, each with the time and the warp that took it."""

    __slots__ = ("base", "news")

    def __init__(self, clusters: int, agents: int) -> None:
        self.base = np.zeros((clusters, agents), np.int32)
        self.news: list[tuple[np.ndarray, int, int]] = []


class Message:
    """What was released through an address, for other clusters: up to when the accesses of each cluster's agents are
    known. It isn't changed any more; the next release makes another. `near`: by cluster, all levels of what its own warps
    released there, for themselves; this goes on from message to message."""

    __slots__ = ("far", "near")

    def __init__(self, near: dict[int, np.ndarray], far: np.ndarray) -> None:
        self.near, self.far = near, far


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
        clusters = max(rows // self.warps, 1)
        self.unread: list[dict] = [{} for _ in range(clusters)]     # (warp, offset) -> (message acquired, time, `releases`)
        self.unfenced: list[dict] = [{} for _ in range(clusters)]   # the same, which the warp's next fence acquires
        self.gone = np.zeros(clusters, bool)
        self.told = np.zeros(clusters, bool)                # whether warps of a cluster have released through memory
        self.news = np.ones(rows, bool)         # whether a warp did or learned anything since its last release to `last_off`
        self.last_off = np.full(rows, -1, np.int64)
        self.releases = np.zeros(clusters, np.int64)        # how often warps of each cluster have told others what they know
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
        """The warps of some threads, which are given in ascending order."""
        rows = lanes >> 5
        if len(rows) < 2:
            return rows
        return rows[np.concatenate([[True], rows[1:] != rows[:-1]])]

    def _what(self, rows: np.ndarray, now: int, fenced: bool = False) -> np.ndarray:
        known = self.know[:, rows]
        if fenced:
            known[HAPPENED] = known[FENCED_CTA]
        else:
            known[HAPPENED, np.arange(len(rows)), self.agent[rows]] = now
        return known

    def meet(self, rows: np.ndarray) -> None:
        """The threads of these warps have met."""
        shadow = self.st.shadow
        if shadow is not None and shadow.lanes is not None:
            shadow.lanes.meet(rows)

    # ---- keys
    def release(self, lanes: np.ndarray, key, fenced: bool = False) -> None:
        """The threads' warps make what they know available at a key (`fenced`: only what they had at their last fence)."""
        tensor = self.st.tensor
        if tensor is not None:
            tensor.release(lanes, key)
        rows = self.rows_of(lanes)
        self.releases[rows // self.warps] += 1
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
        self.news[rows] = True
        self.meet(rows)
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
        self.releases += warps.reshape(len(self.releases), -1).any(axis=1)
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
        self.news[warps] = True
        self.meet(warps)
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
        for row in rows.tolist() if self.launch.messages and scope != "cta" else ():
            waiting = self.unfenced[row // self.warps]
            for key in [key for key in waiting if key[0] == row]:
                self._learn(row, waiting.pop(key)[0].far, self.now)
        self.releases[rows // self.warps] += 1
        self.news[rows] = True
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
        self.news[row] = True
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
            self.news[lane >> 5] = True
            _tell(self.know[:, lane >> 5], op.clock[2], self.warps)

    # ---- through memory
    def through(self, lanes: np.ndarray, space: str, offsets: np.ndarray, write: bool, read: bool, release: str,
                acquire: str, wrote: np.ndarray | None = None) -> None:
        """Stores, loads or atomics at offsets of a space, one for each of `lanes`, in thread order.

        `release`, `acquire`: the scope ("cta", "gpu", ...) of what the access itself releases or acquires, or "" for a
        relaxed one, which releases what a fence before it covers and acquires at the next fence. `wrote`: which of the
        lanes wrote, where that isn't all (a compare-and-swap that fails only reads)."""
        if wrote is not None and not wrote.any():
            write = False
        level = FENCED_CTA if self.know[FENCED_CTA].any() else FENCED
        idle = write and not release and not self.know[level, lanes >> 5].any()
        silent = not self.launch.messages if space == "global" else not self.keys
        if (idle and (not read or silent)) or (not write and silent):
            return
        now = self.tick() if write else 0
        for row, off, writes in self._pairs(lanes, offsets, wrote):
            writes &= write
            if space != "global":
                rows = np.array([row])
                found = self.keys.get((space, off))
                if read and found is not None:
                    self._take(rows, found, not acquire)
                if writes:
                    given = self._what(rows, now, not release)[:, 0]
                    self.keys[space, off] = given if found is None else np.maximum(found, given)
                continue
            if read:
                self._observe(row, off, acquire)
            if writes:
                self._publish(row, off, now, release)

    def atomics(self, lanes: np.ndarray, offsets: np.ndarray) -> None:
        """Threads do atomics in global memory. Those that follow each other at one address, as of a block that waits for a
        lock, are no news to who hears of the release that each of them is."""
        rows = lanes >> 5
        self.news[rows[self.last_off[rows] != offsets]] = True
        self.last_off[rows] = offsets

    def _publish(self, row: int, off: int, now: int, release: str) -> None:
        cluster = row // self.warps
        if not self.news[row] and self.last_off[row] == off and all(at == off for _, at in self.unread[cluster]):
            return
        self.told[cluster] = True
        number = self.first + cluster
        near = self._what(np.array([row]), now, not release)[:, 0]
        known = near[HAPPENED] if release not in ("", "cta") else near[FENCED] if not release else np.zeros_like(near[0])
        found = self.launch.messages.get(off)
        self.releases[cluster] += 1
        self._settle(cluster)
        mine = self.launch.foreign.get(number)
        far = np.zeros((self._clusters(), self.agents), np.int32) if found is None else found.far.copy()
        if mine is not None:                    # what this warp knows that its cluster has learned
            for heard in [mine.base] + [news for news, since, by in mine.news if known[by] >= since]:
                np.maximum(far, heard, out=far)
        np.maximum(far[number], known, out=far[number])
        kept = {} if found is None else found.near
        kept[number] = np.maximum(near, kept[number]) if number in kept else near
        self.launch.messages[off] = Message(kept, far)
        self.news[row], self.last_off[row] = False, off

    def _observe(self, row: int, off: int, acquire: str) -> None:
        found = self.launch.messages.get(off)
        if found is None:
            return
        cluster = row // self.warps
        waiting = self.unread if acquire else self.unfenced
        before = waiting[cluster].get((row, off))
        if before is not None and before[0] is found:
            return
        near = found.near.get(self.first + cluster)
        if near is None and self.told[cluster]:                 # its own, come back by way of others
            near = np.zeros((LEVELS, self.agents), np.int32)
            near[HAPPENED] = found.far[self.first + cluster]
        fresh = near is not None and (before is None or before[3] is not near)
        if near is not None and fresh and (near > self.know[:, row]).any():
            self._take(np.array([row]), near, not acquire)
        if acquire == "cta":
            return
        if acquire and before is not None and before[2] != self.releases[cluster]:  # others may know of that, not of this
            self._learn(row, before[0].far, before[1])
        waiting[cluster][row, off] = found, self.now, int(self.releases[cluster]), near

    def _settle(self, cluster: int) -> None:
        """Learn what warps of a cluster have acquired and nobody has asked about until now."""
        if self.unread[cluster]:
            for (row, _), (found, since, *_) in self.unread[cluster].items():
                self._learn(row, found.far, since)
            self.unread[cluster].clear()

    def _learn(self, row: int, far: np.ndarray, since: int) -> None:
        """A warp acquired at a time what is known of other clusters."""
        cluster, agent = row // self.warps, int(self.agent[row])
        mine = self.launch.foreign.get(self.first + cluster)
        if mine is None:
            mine = self.launch.foreign[self.first + cluster] = Heard(self._clusters(), self.agents)
        if any(by == agent and (far <= news).all() for news, _, by in mine.news) or (far <= mine.base).all():
            return
        mine.news.append((far, since, agent))
        self.news[cluster * self.warps:][:self.warps] = True
        if len(mine.news) > NEWS:
            self._fold(cluster, mine)

    def _fold(self, cluster: int, mine: Heard) -> None:
        """News that all living warps of a cluster know needn't be told apart; of too many, neither need the oldest."""
        rows = np.arange(cluster * self.warps, (cluster + 1) * self.warps)
        rows = rows[self.st.live.reshape(-1, 32)[rows].any(axis=1)]
        kept = []
        for i, (far, since, by) in enumerate(mine.news):
            known = (self.know[HAPPENED, rows, by] >= since) | (self.agent[rows] == by)
            if known.all() or i < len(mine.news) - MOST_NEWS:
                np.maximum(mine.base, far, out=mine.base)
            else:
                kept.append((far, since, by))
        mine.news = kept

    def _clusters(self) -> int:
        return self.launch.ctas // self.st.cluster_size

    def left(self) -> None:
        """Threads have exited: what clusters had learned that are gone needn't be kept."""
        gone = ~self.st.live.reshape(len(self.gone), -1).any(axis=1)
        for cluster in np.flatnonzero(gone & ~self.gone).tolist():
            self.launch.foreign.pop(self.first + cluster, None)
            self.unread[cluster].clear()
            self.unfenced[cluster].clear()
        self.gone = gone

    def _pairs(self, lanes: np.ndarray, offsets: np.ndarray, wrote: np.ndarray | None) -> list[tuple[int, int, bool]]:
        """(warp, offset, whether it wrote) of some threads, each pair once. Too many: what follows isn't accused any
        more."""
        rows = lanes >> 5
        if len(lanes) > 1:
            span = int(offsets.max()) + 1
            both, back = np.unique(rows * span + offsets, return_inverse=True)
            rows, offsets = both // span, both % span
            if wrote is not None:
                any_wrote = np.zeros(len(both), bool)
                any_wrote[back[wrote]] = True
                wrote = any_wrote
        if len(rows) > MANY or self._clusters() > CLUSTERS or self._clusters() * self.agents > KNOWN:
            self.launch.lenient = True
            return []
        flags = [True] * len(rows) if wrote is None else wrote.tolist()
        return list(zip(rows.tolist(), np.broadcast_to(offsets, rows.shape).tolist(), flags))

    def foreign_knows(self, row: int, cluster: int, agent: int, time: int) -> bool:
        """Whether a warp knows of what an agent of another cluster did at a time."""
        if self.launch.lenient:
            return True
        self._settle(row // self.warps)
        found = self.launch.foreign.get(self.first + row // self.warps)
        if found is None:
            return False
        if found.base[cluster, agent] >= time:
            return True
        return any(far[cluster, agent] >= time and (self.know[HAPPENED, row, by] >= since or self.agent[row] == by)
                   for far, since, by in found.news)
