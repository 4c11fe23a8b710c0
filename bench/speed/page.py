"""docs/speed.md: every pair, good or bad."""
from __future__ import annotations

import pathlib
from typing import Any

from bench.speed.compare import Pair, mean
from bench.speed.kernels import Kernel

INTRODUCTION = """# Speed, predicted
Each kernel is compiled by us and by the original from the same bytecode and predicted by the timing model
([timing.md](timing.md)) on the same machine, at sizes that fill it. Nothing here was measured; what an H100 measured of these
kernels is in [hardware.md](hardware.md). A ratio is the original's time over
ours: above 1, ours is faster. A ratio in brackets is an *estimate*: a side couldn't be joined to its machine code, and its time is
a lower bound from its work. Rows marked † are older: predicted by an earlier state of the model, and of our code. Neither counts in
a mean. Made by `make speed`; figures, and the key of what each follows from, are in `bench/results/speed.json`.
"""
CLEARLY = 0.95
"""Below it a ratio is more than what such a model's figures differ by."""
EVEN = 0.995
"""From it on a ratio is shown as 1.00."""


def table(head: list[str], rows: list[list[Any]]) -> str:
    """In Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def put_section(page: pathlib.Path, heading: str, end: str, text: str) -> None:
    """Put a page's section, which begins with `heading`, in the place of the old one, in front of the heading `end`."""
    before, found, after = page.read_text().partition(end)
    page.write_text(before.split(heading)[0].rstrip() + "\n\n" + heading + "\n" + text + found + after)


def figure(kernel: Kernel, seconds: float) -> str:
    if kernel.flops:
        return f"{kernel.flops / seconds / 1e12:.0f} TFLOP/s"
    if kernel.bytes:
        return f"{kernel.bytes / seconds / 1e9:.0f} GB/s"
    return ""


def micro(seconds: float) -> str:
    return f"{seconds * 1e6:.1f}" if seconds < 1e-3 else f"{seconds * 1e6:.0f}"


def page(pairs: list[Pair], kernels: dict[str, Kernel], model: str = "") -> str:
    """All rows. `model`: the key of the model as it stands."""
    out = [INTRODUCTION]
    machines = list(dict.fromkeys(p.machine for p in pairs))
    rows: list[list[Any]] = []
    for machine in machines:
        mine = [p for p in pairs if p.machine == machine]
        counted = [p.ratio for p in mine if p.counts and not _is_older(p, model)]
        even = sum(r >= EVEN for r in counted)
        below = sum(r < CLEARLY for r in counted)
        rows.append([machine, f"{len(mine)} of {len(kernels)}", len(counted), f"{mean(counted):.2f}", even,
                     len(counted) - even - below, below])
    head = ["machine", "kernels", "compared", "geometric mean", "ours at least as fast", f"{CLEARLY} to 1", f"below {CLEARLY}"]
    out += [table(head, rows), ""]
    out += ["## Where the original is faster", ""]
    slower = sorted((p for p in pairs if p.counts and not _is_older(p, model) and p.ratio < EVEN), key=lambda p: p.ratio)
    for low, high, words in ((0.0, CLEARLY, f"Below {CLEARLY}:"), (CLEARLY, EVEN, f"{CLEARLY} to 1:")):
        mine = [p for p in slower if low <= p.ratio < high]
        out += [words, "", *([f"- {p.machine}, `{p.kernel}`: {p.ratio:.3f}; {p.why}" for p in mine] or ["- none"]), ""]
    for machine in machines:
        out += [f"## {machine}", ""]
        mine = [p for p in pairs if p.machine == machine]
        head = ["kernel", "ours us", "its us", "ratio", "ours", "original", "our bound", "its bound", "why the slower one is"]
        out += [table(head, [_row(p, kernels[p.kernel], model) for p in mine if p.ratio]), ""]
        left = [p for p in mine if not p.ratio]
        if left:
            out += ["Left out:", ""] + [f"- `{p.kernel}`: {p.why[:200]}" for p in left] + [""]
    return "\n".join(out)


def _is_older(p: Pair, model: str) -> bool:
    """Whether it was predicted by an earlier state of the model."""
    return bool(model) and not p.ours.get("model") == p.original.get("model") == model


def _row(p: Pair, kernel: Kernel, model: str) -> list[Any]:
    ours, theirs = p.ours["seconds"], p.original["seconds"]
    older = _is_older(p, model)
    ratio = f"({p.ratio:.2f})" if p.is_estimate else f"{p.ratio:.2f}"
    return [p.kernel + " †" * older, micro(ours), micro(theirs), ratio, figure(kernel, ours), figure(kernel, theirs),
            _bound(p.ours), _bound(p.original), p.why]


def _bound(record: dict[str, Any]) -> str:
    shares = record["shares"]
    unit = max(shares, key=lambda u: shares[u])
    return f"{record['bound']} ({unit} {shares[unit]:.0%})" if record["bound"] == "latency" else f"{unit} {shares[unit]:.0%}"
