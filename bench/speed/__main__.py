"""make speed: our code beside the original's, predicted on machines that aren't here.

    python -m bench.speed [KERNEL ...] [--machines A100,H100,B200,"RTX 5090"] [--short] [--minutes 30] [--jobs 2] [--write]

A prediction is kept by what it follows from, so that a later run goes on where one stopped and predicts only code that changed.
`--write` puts the pairs of this run into the results beside those of earlier ones.
"""
from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from bench.speed import compare, original, side
from bench.speed.kernels import KERNELS, SHORT, Kernel, by_name
from bench.speed.page import figure
from bench.speed.results import MACHINES, merge
from tileiras.machine.machines import Machine, machine_of


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.speed", description="our code beside the original's, predicted")
    parser.add_argument("kernels", nargs="*", help="names; all where none is given")
    names_of = ",".join(MACHINES)
    parser.add_argument("--machines", default=names_of, help=f"names with commas between ({names_of}; also B300 and "
                        "others of machine/machines.py)")
    parser.add_argument("--short", action="store_true", help="one or two kernels of each family")
    parser.add_argument("--minutes", type=float, default=30, help="begin no kernel after so long; a later run goes on from there")
    parser.add_argument("--jobs", type=int, default=1, help="pairs predicted at a time")
    parser.add_argument("--write", action="store_true", help="put the pairs into speed.json and speed.md beside older ones")
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
    pairs: list[compare.Pair] = []
    for kernel, found in _pairs(chosen, machines, options.minutes, options.jobs):
        pairs.append(found)
        print(_line(kernel, found), flush=True)
        if options.write:
            merge([found])
    if len(pairs) < len(chosen) * len(machines):
        print(f"{options.minutes:g} minutes are over; run again to go on")
    _summary(pairs)
    return 0


def _pairs(chosen: list[Kernel], machines: list[Machine], minutes: float, jobs: int) -> Iterator[tuple[Kernel, compare.Pair]]:
    """The pairs in order, those that begin in time."""
    end = time.monotonic() + 60 * minutes
    work = list(itertools.product(chosen, machines))
    if jobs <= 1:
        for kernel, machine in work:
            if time.monotonic() > end:
                return
            yield kernel, predicted_pair(kernel, machine)
        return
    with ProcessPoolExecutor(jobs) as pool:
        tasks = [(kernel, pool.submit(_in_time, kernel, machine, end)) for kernel, machine in work]
        for kernel, task in tasks:
            found = task.result()
            if found is not None:
                yield kernel, found


def _in_time(kernel: Kernel, machine: Machine, end: float) -> compare.Pair | None:
    return predicted_pair(kernel, machine) if time.monotonic() <= end else None


def predicted_pair(kernel: Kernel, machine: Machine) -> compare.Pair:
    """Both sides of a kernel on a machine."""
    return compare.pair(kernel.name, kernel.family, machine.name, side.predicted(kernel, machine, "ours"),
                        side.predicted(kernel, machine, "original"))


def _line(kernel: Kernel, p: compare.Pair) -> str:
    if not p.ratio:
        return f"{p.kernel:34} {p.machine:9} left out: {p.why[:140]}"
    ours, theirs = p.ours["seconds"], p.original["seconds"]
    mark = " (estimate)" if p.is_estimate else ""
    return (f"{p.kernel:34} {p.machine:9} {ours * 1e6:9.1f} us {theirs * 1e6:9.1f} us {p.ratio:5.2f}{mark}"
            f"  {figure(kernel, ours):>13} {figure(kernel, theirs):>13}  {p.why}")


def _summary(pairs: list[compare.Pair]) -> None:
    for machine in dict.fromkeys(p.machine for p in pairs):
        mine = [p for p in pairs if p.machine == machine]
        counted = [p.ratio for p in mine if p.counts]
        print(f"{machine}: {len(counted)} of {len(mine)} pairs compared, mean ratio {compare.mean(counted):.2f}")


if __name__ == "__main__":
    sys.exit(main())
