"""What a prediction says, as data, as text, and as a timeline in the Chrome trace format."""
from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tileiras.sim.timing.occupancy import Occupancy
from tileiras.sim.timing.replay import Event

UNITS = ("issue", "FMA", "ALU", "FP16", "XU", "FP64", "LSU", "shared port", "tensor", "SM ingress", "L2", "DRAM")
BOUND_SHARE = 0.6
"""A unit that is busy for this share of the time is what limits; below it, latency does."""


@dataclass(frozen=True)
class Stall:
    """Warps waited `cycles` (of all warps of the replay together) for `reason`, at a line, and that is `share` of all waiting."""

    ptx_line: int
    source: str
    loop: int
    opcode: str
    reason: str
    cycles: float
    share: float


@dataclass
class Prediction:
    """How long a kernel takes. `cycles` of the sustained clock, from the first CTA's first instruction to the last byte;
    `seconds` of those, `launch_seconds` come on top of each launch. `shares`: how busy each unit is. `bound`: the unit that
    limits, or "latency". `is_estimate`: the kernel wasn't joined to its machine code; cycles are a lower bound from its
    work alone."""

    kernel: str
    machine: str
    grid: tuple[int, int, int]
    cycles: float
    seconds: float
    launch_seconds: float
    shares: dict[str, float]
    bound: str
    is_estimate: bool
    reason: str = ""
    occupancy: Occupancy | None = None
    waves: float = 0.0
    tail: float = 0.0
    """Share of the time in which SMs have nothing to do, because the last wave doesn't fill the machine."""
    stalls: list[Stall] = field(default_factory=list)
    counts: dict[str, float] = field(default_factory=dict)
    """Of the whole grid: warp instructions, sectors, DRAM bytes, shared passes, spills (local accesses)."""
    replayed: str = ""
    """What was replayed, and what was extrapolated from it."""
    residual: float = 0.0
    share_searched: float = 0.0
    notes: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    clock: float = 1e9

    def by(self, key: str) -> dict[Any, float]:
        """Waiting by "reason", "source", "ptx_line" or "loop", the most first."""
        found: dict[Any, float] = {}
        for stall in self.stalls:
            name = getattr(stall, key)
            found[name] = found.get(name, 0.0) + stall.share
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def text(self, rows: int = 8) -> str:
        """For a terminal."""
        out = [f"{self.kernel} on {self.machine}, grid {'x'.join(map(str, self.grid))}: {_time(self.seconds)}"
               f" ({self.cycles:,.0f} cycles at {self.clock / 1e9:.2f} GHz), bound by {self.bound}"]
        if self.is_estimate:
            out.append(f"  an estimate from the work alone, a lower bound: {self.reason}")
        out.append("  busy: " + ", ".join(f"{unit} {share:.0%}" for unit, share in sorted(
            self.shares.items(), key=lambda item: -item[1]) if share >= 0.01))
        if self.occupancy is not None:
            o = self.occupancy
            out.append(f"  {o.ctas} CTAs ({o.warps} warps) an SM, limited by {o.limit}; {self.waves:.2f} waves, {self.tail:.0%} of "
                       "the time idle in the last")
        if self.stalls:
            out.append("  warps wait for: " + ", ".join(f"{why} {share:.0%}" for why, share in list(self.by("reason").items())[:6]))
            for stall in self.stalls[:rows]:
                where = f"PTX line {stall.ptx_line}" + (f", {stall.source}" if stall.source else "")
                where += f", loop at {stall.loop}" if stall.loop else ""
                out.append(f"    {stall.share:5.1%}  {stall.reason} at {stall.opcode} ({where})")
        if self.replayed:
            out.append(f"  {self.replayed}; anchors missed {self.residual:g}, path searched {self.share_searched:.1%}")
        out += [f"  note: {note}" for note in self.notes]
        return "\n".join(out)

    def record(self) -> dict[str, Any]:
        """For JSON: all figures, without the timeline."""
        o = self.occupancy
        return {
            "kernel": self.kernel, "machine": self.machine, "grid": list(self.grid), "cycles": round(self.cycles),
            "seconds": self.seconds, "bound": self.bound, "estimate": self.is_estimate, "reason": self.reason,
            "shares": {unit: round(share, 4) for unit, share in self.shares.items()}, "waves": round(self.waves, 3),
            "tail": round(self.tail, 4), "resident_ctas": o.ctas if o else 0, "resident_warps": o.warps if o else 0,
            "limit": o.limit if o else "", "counts": {name: round(n) for name, n in self.counts.items()},
            "stalls": {why: round(share, 4) for why, share in self.by("reason").items()}, "residual": self.residual,
            "searched": round(self.share_searched, 5), "replayed": self.replayed, "notes": self.notes}

    def timeline(self) -> str:
        """What was replayed, in the Chrome trace format (chrome://tracing, ui.perfetto.dev)."""
        tracks = {name: i + 1 for i, name in enumerate(sorted({e.track for e in self.events}))}
        scale = 1e6 / self.clock
        rows: list[dict[str, Any]] = [{"name": "thread_name", "ph": "M", "pid": 1, "tid": i, "args": {"name": name}}
                                      for name, i in tracks.items()]
        rows += [{"name": e.name, "ph": "X", "pid": 1, "tid": tracks[e.track], "ts": round(e.start * scale, 4),
                  "dur": round((e.end - e.start) * scale, 4), "args": {"cycles": round(e.end - e.start)}} for e in self.events]
        about = {"kernel": self.kernel, "machine": self.machine}
        return json.dumps({"traceEvents": rows, "displayTimeUnit": "ns", "otherData": about})


def _time(seconds: float) -> str:
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
