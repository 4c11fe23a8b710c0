"""What a kernel's size and hints mean to the program's author, as far as they are known before any pass."""
from __future__ import annotations

from xdsl.ir import Operation

from tileiras.analysis.entry_hints import hint, worker_warps
from tileiras.remarks import ANALYSIS, HINTS, MISSED, RESOURCES, Remark, remark


def report(func: Operation, remarks: list[Remark]) -> None:
    """Append the remarks on one function: its warps, and what became of its hints."""
    def say(kind: str, category: str, name: str, text: str, notes: dict[str, str | int] | None = None,
            reason: str = "") -> None:
        remarks.append(remark(func, func, kind, category, name, text, notes, [reason]))
    warps: int = func.properties["num_warps"].data  # type: ignore[attr-defined]
    why = "the largest tile decides" if worker_warps(func) is None else "the hint num_worker_warps_per_cta"
    say(ANALYSIS, RESOURCES, "KernelWarps", f"{warps} warps run a tile block", {"Warps": warps}, why)
    clusters = hint(func, "num_cta_in_cga")
    if clusters is not None and clusters > 1:
        say(MISSED, HINTS, "HintIgnored", f"Hint num_cta_in_cga = {clusters} has no effect",
            reason="one CTA runs a tile block; clusters aren't used")
