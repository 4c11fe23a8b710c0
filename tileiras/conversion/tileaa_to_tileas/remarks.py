"""What a kernel's size means to the program's author, as far as it is known before any pass."""
from __future__ import annotations

from xdsl.ir import Operation

from tileiras.analysis.entry_hints import worker_warps
from tileiras.remarks import ANALYSIS, RESOURCES, Remark, remark


def report(func: Operation, remarks: list[Remark]) -> None:
    """Append the remark on one function's warps."""
    warps: int = func.properties["num_warps"].data  # type: ignore[attr-defined]
    why = "the largest tile decides" if worker_warps(func) is None else "the hint num_worker_warps_per_cta"
    what = "a CTA's part of a tile block" if "cluster" in func.properties else "a tile block"
    remarks.append(remark(func, func, ANALYSIS, RESOURCES, "KernelWarps", f"{warps} warps run {what}", {"Warps": warps}, [why]))
