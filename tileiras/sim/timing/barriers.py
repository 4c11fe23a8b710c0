"""When does a barrier let its waiters go? Named barriers, mbarriers and cluster barriers, exactly, on times.

Mbarriers keep their phases apart, since every operation says which phase it is of: an operation may be known before its
time has come (a copy that will arrive), and a phase is complete at the latest of its events' times.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class NamedBarrier:
    """A barrier of a CTA. Arrivals are threads; when `threads` have come, all that wait go on and the count starts anew."""

    arrived: int = 0
    latest: float = 0.0
    waiting: list[Any] = field(default_factory=list)

    def arrive(self, at: float, count: int, threads: int) -> bool:
        """True when that completes it."""
        self.arrived += count
        self.latest = max(self.latest, at)
        return self.arrived >= threads

    def reset(self) -> tuple[float, list[Any]]:
        """(when it was complete, who waits); the barrier is ready for its next use."""
        latest, waiting = self.latest, self.waiting
        self.arrived, self.latest, self.waiting = 0, 0.0, []
        return latest, waiting


@dataclass
class Phase:
    """What is known of one phase. `bytes`: expected less arrived."""

    arrivals: int = 0
    bytes: int = 0
    latest: float = 0.0


@dataclass
class Mbarrier:
    """`expected`: arrivals a phase. `complete`: phases completed in order; `ends`: when."""

    expected: int = 0
    complete: int = 0
    ends: list[float] = field(default_factory=list)
    phases: dict[int, Phase] = field(default_factory=dict)
    waiting: list[tuple[int, Any]] = field(default_factory=list)

    def event(self, at: float, phase: int, arrivals: int, added: int) -> list[tuple[float, Any]]:
        """Arrivals and bytes (expected: positive, arrived: negative) of a phase; gives (time, waiter) of those let go."""
        found = self.phases.get(phase)
        if found is None:
            found = self.phases[phase] = Phase()
        found.arrivals += arrivals
        found.bytes += added
        if at > found.latest:
            found.latest = at
        return self.advance()

    def advance(self) -> list[tuple[float, Any]]:
        """Complete what is complete, in order."""
        freed = []
        while self.expected:
            found = self.phases.get(self.complete)
            if found is None or found.arrivals < self.expected or found.bytes:
                break
            end = max(found.latest, self.ends[-1] if self.ends else 0.0)
            del self.phases[self.complete]
            self.ends.append(end)
            self.complete += 1
            if self.waiting:
                freed += [(end, w) for needed, w in self.waiting if needed <= self.complete]
                self.waiting = [(needed, w) for needed, w in self.waiting if needed > self.complete]
        return freed

    def done(self, phases: int) -> float | None:
        """When this many phases were complete; None: they aren't yet."""
        if phases <= 0:
            return 0.0
        return self.ends[phases - 1] if phases <= self.complete else None


@dataclass
class Groups:
    """Commit groups of a warp: cp.async, bulk copies, wgmma. A wait leaves at most n under way."""

    open: float = 0.0
    ends: list[float] = field(default_factory=list)

    def add(self, end: float) -> None:
        if end > self.open:
            self.open = end

    def commit(self) -> None:
        """Groups complete in order."""
        before = self.ends[-1] if self.ends else 0.0
        self.ends.append(max(self.open, before))
        self.open = 0.0

    def wait(self, left: int) -> float:
        """When at most `left` groups are under way."""
        index = len(self.ends) - left - 1
        return self.ends[index] if index >= 0 else 0.0

    def all(self) -> float:
        """When nothing is under way, committed or not: what `cp.async.mbarrier.arrive` waits for."""
        return max(self.open, self.wait(0))
