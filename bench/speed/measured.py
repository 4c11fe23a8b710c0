"""`python -m bench.speed.measured [--machine H200] [KERNELS]`: what the timing model predicts beside what a GPU measured.

A record (`bench/results/h100.json`, `h200.json`) holds, a kernel of `make speed` and side: `cold`, microseconds of a launch whose
inputs aren't in L2 (a low quantile of 15 to 30, by events, which cost some 1.7 themselves), `in_turn`, of each of 20 launches in a
row, and, where Nsight Compute has looked at it with cold caches, its `cycles`, clock (`MHz`) and microseconds (`profiled`).
Predictions are seconds and the launch; the error is the geometric mean of the ratios, whichever side is larger.
"""
from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping
from math import exp, log
from typing import Any

from bench.speed import side
from bench.speed.kernels import by_name
from tileiras.machine.latencies import LAUNCH_SECONDS
from tileiras.machine.machines import machine_of

RECORDS = {machine: side.ROOT / "bench" / "results" / f"{machine.lower()}.json" for machine in ("H100", "H200")}
EVENTS = 1.7
"""Microseconds that a pair of events adds to a cold launch."""
WORST = 20
Row = tuple[str, str, float, float]
"""Kernel, side, microseconds measured, predicted."""


def record(machine: str = "H100") -> dict[str, Any]:
    """What was measured."""
    return json.loads(RECORDS[machine].read_text())


def measured(entry: Mapping[str, float]) -> float:
    """Microseconds of a cold launch, the launch itself included."""
    return entry["profiled"] if "profiled" in entry else entry["cold"] - EVENTS


def predicted(entry: Mapping[str, Any]) -> float:
    """The same of a prediction's record."""
    return (entry["seconds"] + LAUNCH_SECONDS) * 1e6


def error(rows: Iterable[Row]) -> float:
    """Geometric mean of measured over predicted, or the other way round where that is larger; 1 without rows."""
    found = [abs(log(m / p)) for _, _, m, p in rows]
    return exp(sum(found) / len(found)) if found else 1.0


def bias(rows: Iterable[Row]) -> float:
    """Geometric mean of measured over predicted."""
    found = [log(m / p) for _, _, m, p in rows]
    return exp(sum(found) / len(found)) if found else 1.0


def compare(names: Iterable[str], sides: tuple[str, ...] = ("ours", "original"), on: str = "H100") -> list[Row]:
    """Predict what was measured; sides that have no prediction are left out."""
    kernels, held, machine = by_name(), record(on)["kernels"], machine_of(on)
    rows = []
    for name in names:
        for who in sides:
            if who in held[name]:
                made = side.predicted(kernels[name], machine, who)
                if "seconds" in made:
                    rows.append((name, who, measured(held[name][who]), predicted(made)))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.speed.measured", description=str(__doc__).splitlines()[0])
    parser.add_argument("--side", choices=("ours", "original"), action="append", help="only this side")
    parser.add_argument("kernels", nargs="*", help="all that were measured by default")
    parser.add_argument("--machine", choices=RECORDS, default="H100")
    options = parser.parse_args()
    known = record(options.machine)["kernels"]
    if unknown := [name for name in options.kernels if name not in known]:
        print(f"not measured: {', '.join(unknown)}", file=sys.stderr)
        return 2
    names, sides = options.kernels or [k for k in known if k in by_name()], tuple(options.side or ("ours", "original"))
    rows = compare(names, sides, options.machine)
    print("| kernel | side | measured us | predicted us | measured / predicted |\n|---|---|---|---|---|")
    for name, who, m, p in sorted(rows, key=lambda row: -abs(log(row[2] / row[3])))[:None if options.kernels else WORST]:
        print(f"| {name} | {who} | {m:.1f} | {p:.1f} | {m / p:.2f} |")
    print(f"\n{len(rows)} on {options.machine}: off by {error(rows):.3f} in the geometric mean, "
          f"measured over predicted {bias(rows):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
