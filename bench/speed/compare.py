"""Two predictions of one kernel side by side: how much faster one is, and why."""
from __future__ import annotations

from dataclasses import dataclass
from math import exp, log
from typing import Any


@dataclass(frozen=True)
class Pair:
    """`ratio`: the original's time over ours (above 1: ours is faster); 0 where a side isn't predicted. `why`: what the slower
    side waits for longer. `is_estimate`: a side couldn't be joined to its machine code, so that its time is a lower bound."""

    kernel: str
    family: str
    machine: str
    ours: dict[str, Any]
    original: dict[str, Any]
    ratio: float
    why: str

    @property
    def is_estimate(self) -> bool:
        return bool(self.ours.get("estimate") or self.original.get("estimate"))

    @property
    def counts(self) -> bool:
        """Both sides were joined to their machine code."""
        return self.ratio > 0 and not self.is_estimate


def pair(kernel: str, family: str, machine: str, ours: dict[str, Any], original: dict[str, Any]) -> Pair:
    if "failed" in ours or "failed" in original:
        side, record = ("ours", ours) if "failed" in ours else ("original", original)
        return Pair(kernel, family, machine, ours, original, 0.0, f"{side}: {record['failed']}")
    ratio = original["seconds"] / max(ours["seconds"], 1e-12)
    if ours["estimate"] or original["estimate"]:
        side, record = ("ours", ours) if ours["estimate"] else ("original", original)
        return Pair(kernel, family, machine, ours, original, ratio, f"{side} not joined: {record['reason']}")
    return Pair(kernel, family, machine, ours, original, ratio, reason(ours, original))


def waiting(record: dict[str, Any]) -> dict[str, float]:
    """Cycles that resident warps spend in each kind of waiting, and in issuing."""
    issued = record["shares"].get("issue", 0.0) * record["cycles"]
    warps = max(record["resident_warps"], 1)
    idle = max(record["cycles"] - issued * 4 / warps, 0.0)
    return {**{why: share * idle for why, share in record["stalls"].items()}, "issue": issued}


def reason(ours: dict[str, Any], original: dict[str, Any]) -> str:
    """The kind of waiting that differs most, in the slower side's direction, and the counts that stand behind it."""
    slow, fast, name = (ours, original, "ours") if ours["seconds"] >= original["seconds"] else (original, ours, "original")
    a, b = waiting(slow), waiting(fast)
    worst = max(sorted(set(a) | set(b)), key=lambda why: a.get(why, 0.0) - b.get(why, 0.0))
    parts = [f"{name} waits longer for {worst}" if worst != "issue" else f"{name} issues more"]
    for count in ("warp instructions", "sectors", "shared passes", "spills"):
        x, y = slow["counts"].get(count, 0), fast["counts"].get(count, 0)
        if x > 1.3 * y and x > 1000:
            parts.append(f"{x / y:.1f}x {count}" if y else f"{count}")
    if fast["resident_warps"] > 1.3 * slow["resident_warps"]:
        parts.append(f"{slow['resident_warps']} warps an SM against {fast['resident_warps']}")
    return "; ".join(parts)


def mean(ratios: list[float]) -> float:
    """The geometric mean; 0 of none."""
    return exp(sum(log(r) for r in ratios) / len(ratios)) if ratios else 0.0
