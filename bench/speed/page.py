"""docs/speed.md: every pair, good or bad."""
from __future__ import annotations

from typing import Any

from bench.speed.compare import Pair, mean
from bench.speed.kernels import Kernel

INTRODUCTION = """# Speed, predicted
Each kernel is compiled by us and by the original from the same bytecode and predicted by the timing model
([timing.md](timing.md)) on the same machine, at sizes that fill it. Nothing here was measured. A ratio is the original's time over
ours: above 1, ours is faster. Pairs of which a side can't be joined to its machine code, or compiled, are named and left out of
the means. Made by `make speed`; figures are in `bench/results/speed.json`.
"""


def table(head: list[str], rows: list[list[Any]]) -> str:
    """In Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def figure(kernel: Kernel, seconds: float) -> str:
    if kernel.flops:
        return f"{kernel.flops / seconds / 1e12:.0f} TFLOP/s"
    if kernel.bytes:
        return f"{kernel.bytes / seconds / 1e9:.0f} GB/s"
    return ""


def micro(seconds: float) -> str:
    return f"{seconds * 1e6:.1f}" if seconds < 1e-3 else f"{seconds * 1e6:.0f}"


def page(pairs: list[Pair], kernels: dict[str, Kernel]) -> str:
    run = len({p.kernel for p in pairs})
    out = [INTRODUCTION, f"This run has {run} of the list's {len(kernels)} kernels; none begins after its minutes are over.", ""]
    machines = list(dict.fromkeys(p.machine for p in pairs))
    rows: list[list[Any]] = []
    for machine in machines:
        mine = [p for p in pairs if p.machine == machine]
        counted = [p.ratio for p in mine if p.counts]
        rows.append([machine, len(mine), len(counted), f"{mean(counted):.2f}", sum(r >= 1 for r in counted)])
    out += [table(["machine", "pairs", "compared", "mean ratio", "ours at least as fast"], rows), ""]
    for machine in machines:
        out += [f"## {machine}", ""]
        rows = []
        mine = [p for p in pairs if p.machine == machine]
        for p in mine:
            if not p.counts:
                continue
            k = kernels[p.kernel]
            ours, theirs = p.ours["seconds"], p.original["seconds"]
            rows.append([p.kernel, micro(ours), micro(theirs), f"{p.ratio:.2f}", figure(k, ours), figure(k, theirs), _bound(p.ours),
                         _bound(p.original), p.why])
        head = ["kernel", "ours us", "its us", "ratio", "ours", "original", "our bound", "its bound", "why the slower one is"]
        out += [table(head, rows), ""]
        left = [p for p in mine if not p.counts]
        if left:
            out += ["Left out:", ""] + [f"- `{p.kernel}`: {p.why[:200]}" for p in left] + [""]
    return "\n".join(out)


def _bound(record: dict[str, Any]) -> str:
    shares = record["shares"]
    unit = max(shares, key=lambda u: shares[u])
    return f"{record['bound']} ({unit} {shares[unit]:.0%})" if record["bound"] == "latency" else f"{unit} {shares[unit]:.0%}"
