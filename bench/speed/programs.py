"""Ours against the original over whole programs that aren't in the suite, predicted.

    python -m bench.speed.programs [--machine B200] [--rows last|first|all] [--why] [--minutes M] [--write] [NAME ...]

A NAME is a function of `tests/programs` (its rows are chosen by `--rows`), one of its rows, or `suite:CASE`, a case of the
kernel suite at its own size; without names, all functions. `--why` prints what both sides are bound by, wait for and do.
A side is kept by its code, inputs and model, so that later runs predict only what changed. With `--write` the pairs go to
bench/results/program-speed.json, and docs/program-speed.md is written from it.
"""
from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import tileiras
from bench.speed import compare, original, side
from bench.speed.page import CLEARLY, EVEN, table
from tests.kernels import runner
from tests.programs import programs
from tileiras.errors import TileirasError
from tileiras.machine.machines import Machine, machine_of
from tileiras.sim import SimulationError
from tileiras.sim.cutile import export
from tileiras.sim.timing import predict

STORE = side.ROOT / "bench" / "results" / "program-speed.json"
PAGE = side.ROOT / "docs" / "program-speed.md"
MACHINES = ("H100", "A100", "B200", "RTX 5090")
SUITE = "suite:"
NONE = (TileirasError, SimulationError, original.NoOriginal, LookupError, AssertionError, RuntimeError, TypeError, ValueError)
"""What may keep a side from having a time: it becomes the pair's reason."""

INTRODUCTION = """# Programs, ours against the original, predicted
Written by `python -m bench.speed.programs --write`. A row of each function of tests/programs (kernels as users write them, that
aren't in the suite) compiled by us at -O3 and by the original, run on the same inputs and predicted by the timing model
([timing.md](timing.md)). Nothing was measured. A ratio is the original's time over ours: above 1, ours is faster. Most launches
are of one to a few blocks, so that a kernel's own latency is what counts; launch overhead isn't counted.
"""


def rows_of(names: Sequence[str], which: str) -> list[str]:
    """Rows that names stand for. Raises KeyError."""
    known = programs.load_all()
    by_function: dict[str, list[str]] = {}
    for name, one in known.items():
        by_function.setdefault(one.draw.__name__, []).append(name)
    chosen = {"last": slice(-1, None), "first": slice(0, 1), "all": slice(None)}[which]
    found: list[str] = []
    for name in names or list(by_function):
        if name in by_function:
            found += by_function[name][chosen]
        elif name in known:
            found.append(name)
        elif name.removeprefix(SUITE) in runner.cases():
            found.append(SUITE + name.removeprefix(SUITE))
        else:
            raise KeyError(name)
    return found


def since(name: str) -> int:
    """The first SM that a row's types are for."""
    return 75 if name.startswith(SUITE) else programs.PROGRAMS[name].since


class Row:
    """A row's launch for one SM: bytecode, the entry, grid and flat parameters."""

    def __init__(self, name: str, sm: str) -> None:
        self.sm = sm
        if name.startswith(SUITE):
            case = runner.case_of(name.removeprefix(SUITE))
            launch = runner.launch_of(case.name)
            self.symbol, self.grid, self.flat = case.name, tuple(case.grid), list(launch.flat)
            self.bytecode = runner.bytecode_path(case.name, case.versions[0]).read_bytes()
        else:
            drawn = programs.PROGRAMS[name].launch()
            made = export(drawn.kernel, drawn.args, sm)
            self.symbol, self.grid, self.flat, self.bytecode = made.symbol, (*drawn.grid, 1, 1)[:3], made.flat, made.bytecode

    def predicted(self, machine: Machine, who: str) -> dict[str, Any]:
        """A side's record; "failed" where there is none."""
        try:
            if who == "ours":
                module = tileiras.compile(self.bytecode, gpu_name=self.sm, opt_level=3, lineinfo=True)
                ptx, cubin = module.ptx, module.cubin
            else:
                ptx, cubin = original.compile_original(self.bytecode, self.sm)
            path = side.CACHE / "programs" / f"{who}-{side.launch_key(cubin, self.grid, self.flat, machine)}.json"
            if path.exists():
                return json.loads(path.read_text())
            flat = [a.copy() if isinstance(a, np.ndarray) else a for a in self.flat]
            if who == "original":
                flat = original.arguments(ptx, cubin, self.sm, flat)
            record: dict[str, Any] = predict(ptx, cubin, self.symbol, self.grid, flat, machine.name).record()
        except NONE as error:
            return side.failure(error)
        runner.write_atomically(path, json.dumps(record).encode())
        return record


def pair(name: str, machine: Machine) -> compare.Pair:
    """A row on a machine, both sides."""
    try:
        row = Row(name, f"sm_{machine.sm}")
    except NONE as error:
        failed = side.failure(error)
        return compare.pair(name, "", machine.name, failed, failed)
    return compare.pair(name, "", machine.name, row.predicted(machine, "ours"), row.predicted(machine, "original"))


def run(names: list[str], machine: Machine, minutes: float) -> Iterator[compare.Pair]:
    """Pairs, until the time is over."""
    end = time.monotonic() + 60 * minutes
    for name in names:
        if machine.sm < since(name):
            continue
        if time.monotonic() > end:
            print(f"{minutes:g} minutes are over; run again to go on")
            return
        yield pair(name, machine)


def line(one: compare.Pair) -> str:
    times = [f"{1e6 * r['seconds']:9.2f}" if "failed" not in r else f"{'-':>9}" for r in (one.ours, one.original)]
    mark = "?" if one.is_estimate else " "
    return f"{one.kernel:40} {one.machine:8} {' '.join(times)} us {one.ratio:6.2f}{mark} {one.why}"


def explanation(one: compare.Pair) -> str:
    """Both sides' figures, a line each kind."""
    out = []
    for who, record in (("ours", one.ours), ("original", one.original)):
        if "failed" in record:
            out.append(f"  {who}: {record['failed']}")
            continue
        top = {w: f"{c:.0f}" for w, c in sorted(compare.waiting(record).items(), key=lambda x: -x[1])[:6]}
        shares = {u: round(s, 2) for u, s in sorted(record["shares"].items(), key=lambda x: -x[1])[:5]}
        out += [f"  {who}: {record['cycles']} cycles, bound {record['bound']}, {record['resident_ctas']} blocks and "
                f"{record['resident_warps']} warps an SM (limit {record['limit']}), {record['waves']} waves",
                f"    shares {shares}", f"    cycles by what is waited for {top}", f"    counts {record['counts']}"]
    return "\n".join(out)


# ---- the page

def keep(found: list[compare.Pair]) -> list[dict[str, Any]]:
    """Put pairs beside the kept ones, and give all."""
    known: dict[str, dict[str, Any]] = json.loads(STORE.read_text()) if STORE.exists() else {}
    for one in found:
        told: list[Any] = [round(1e6 * r["seconds"], 3) if "failed" not in r else None for r in (one.ours, one.original)]
        known[f"{one.kernel} {one.machine}"] = {
            "program": one.kernel, "machine": one.machine, "ratio": round(one.ratio, 4), "counts": one.counts, "why": one.why,
            "ours": told[0], "original": told[1], "model": side.model_key()}
    runner.write_atomically(STORE, (json.dumps(known, indent=0, sort_keys=True) + "\n").encode())
    STORE.chmod(0o644)
    return list(known.values())


def page(rows: list[dict[str, Any]]) -> str:
    rows = [r for r in rows if r["model"] == side.model_key()]
    counted = [r for r in rows if r["counts"]]
    out = [INTRODUCTION, f"{len(rows)} pairs were looked at, {len(counted)} compared; the others have a side without a prediction "
           "that is joined to its machine code.", ""]
    lines = []
    for machine in MACHINES:
        ratios = [r["ratio"] for r in counted if r["machine"] == machine]
        even, below = sum(x >= EVEN for x in ratios), sum(x < CLEARLY for x in ratios)
        if ratios:
            lines.append([machine, len(ratios), f"{compare.mean(ratios):.2f}", even, len(ratios) - even - below, below])
    out.append(table(["machine", "compared", "geometric mean", "ours at least as fast", "0.95 to 1", f"below {CLEARLY}"], lines))
    out += ["", f"## Below {CLEARLY}", ""]
    slow = sorted((r for r in counted if r["ratio"] < CLEARLY), key=lambda r: r["ratio"])
    out += [f"- {r['machine']}, `{r['program']}`: {r['ratio']:.3f} ({r['ours']:.2f} us against {r['original']:.2f}); {r['why']}"
            for r in slow] or ["- none"]
    out += ["", "## Without a comparison", ""]
    out += [f"- {r['machine']}, `{r['program']}`: {r['why']}" for r in rows if not r["counts"]] or ["- none"]
    return "\n".join(out) + "\n"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.speed.programs", description="programs, ours against the original's")
    parser.add_argument("names", nargs="*", help="functions or rows of tests/programs, suite:CASE; all functions without")
    parser.add_argument("--machine", default="B200")
    parser.add_argument("--rows", choices=("last", "first", "all"), default="last", help="which rows of a function")
    parser.add_argument("--why", action="store_true", help="what both sides are bound by, wait for and do")
    parser.add_argument("--minutes", type=float, default=60, help="begin no pair after so long")
    parser.add_argument("--write", action="store_true", help=f"keep the pairs and write {PAGE.name}")
    options = parser.parse_args(argv)
    try:
        names, machine = rows_of(options.names, options.rows), machine_of(options.machine)
    except LookupError as error:
        print(f"error: nothing is called {error}", file=sys.stderr)
        return 1
    found: list[compare.Pair] = []
    for one in run(names, machine, options.minutes):
        found.append(one)
        print(line(one) + (f"\n{explanation(one)}" if options.why else ""), flush=True)
        if options.write:
            PAGE.write_text(page(keep([one])))
    ratios = [one.ratio for one in found if one.counts]
    print(f"{len(found)} pairs, {len(ratios)} compared, mean {compare.mean(ratios):.3f}, "
          f"{sum(r < EVEN for r in ratios)} below {EVEN:g}, {sum(r < CLEARLY for r in ratios)} below {CLEARLY}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
