"""make speed: our code beside the original's, predicted on machines that aren't here.

    python -m bench.speed [KERNEL ...] [--machines A100,H100,B200,"RTX 5090"] [--short] [--minutes 30]
"""
from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from bench.speed import compare, original, side
from bench.speed.kernels import KERNELS, SHORT, Kernel, by_name
from bench.speed.page import figure, page
from tileiras.machine.machines import machine_of

RESULTS = side.ROOT / "bench" / "results" / "speed.json"
PAGE = side.ROOT / "docs" / "speed.md"
MACHINES = "H100,A100,B200,RTX 5090"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.speed", description="our code beside the original's, predicted")
    parser.add_argument("kernels", nargs="*", help="names; all where none is given")
    parser.add_argument("--machines", default=MACHINES, help=f"names with commas between ({MACHINES})")
    parser.add_argument("--short", action="store_true", help="one or two kernels of each family")
    parser.add_argument("--minutes", type=float, default=30, help="begin no kernel after so long; a later run goes on from there")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name} and {PAGE.name}")
    options = parser.parse_args(argv)
    known = by_name()
    names = options.kernels or (SHORT if options.short else [k.name for k in KERNELS])
    try:
        chosen = [known[name] for name in names]
        machines = [machine_of(name.strip()) for name in options.machines.split(",")]
    except KeyError as error:
        print(f"error: no kernel {error}; there are {', '.join(known)}", file=sys.stderr)
        return 1
    except LookupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if not original.available():
        print("error: the original isn't installed: make original", file=sys.stderr)
        return 1
    start = time.monotonic()
    pairs: list[compare.Pair] = []
    for kernel in chosen:
        for machine in machines:
            if time.monotonic() - start > 60 * options.minutes:
                print(f"{options.minutes:g} minutes are over; run again to go on")
                break
            found = compare.pair(kernel.name, kernel.family, machine.name, side.predicted(kernel, machine, "ours"),
                                 side.predicted(kernel, machine, "original"))
            pairs.append(found)
            print(_line(kernel, found), flush=True)
            if options.write:
                _write(pairs, known)
    _summary(pairs)
    return 0


def _write(pairs: list[compare.Pair], known: dict[str, Kernel]) -> None:
    """After every pair: a run that is cut off leaves what it has."""
    machines = list(dict.fromkeys(p.machine for p in pairs))
    ordered = sorted(pairs, key=lambda p: machines.index(p.machine))
    RESULTS.write_text(json.dumps([_record(p) for p in ordered], indent=1) + "\n")
    PAGE.write_text(page(ordered, known))


def _line(kernel: Kernel, p: compare.Pair) -> str:
    if not p.counts:
        return f"{p.kernel:34} {p.machine:9} left out: {p.why[:140]}"
    ours, theirs = p.ours["seconds"], p.original["seconds"]
    return (f"{p.kernel:34} {p.machine:9} {ours * 1e6:9.1f} us {theirs * 1e6:9.1f} us {p.ratio:5.2f}  {figure(kernel, ours):>13}"
            f" {figure(kernel, theirs):>13}  {p.why}")


def _summary(pairs: list[compare.Pair]) -> None:
    for machine in dict.fromkeys(p.machine for p in pairs):
        mine = [p for p in pairs if p.machine == machine]
        counted = [p.ratio for p in mine if p.counts]
        print(f"{machine}: {len(counted)} of {len(mine)} pairs compared, mean ratio {compare.mean(counted):.2f}")


def _record(p: compare.Pair) -> dict[str, Any]:
    return {"kernel": p.kernel, "family": p.family, "machine": p.machine, "ratio": round(p.ratio, 4), "why": p.why,
            "ours": p.ours, "original": p.original}


if __name__ == "__main__":
    sys.exit(main())
