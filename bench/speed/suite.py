"""Ours against the original over the kernel suite at its own sizes, predicted; and how much of it is joined to its machine code.

    python -m bench.speed.suite [--machines H100,A100] [--twins] [--minutes M] [--write]

The suite's cases are small and mostly unaligned on purpose: what counts here is that nothing is slow, not how fast it gets (that is
`bench.speed`). Pairs are kept in bench/results/suite-speed.json by kernel and machine, so that a run goes on where the last one
stopped; kernels come in strides, so that a part of a run is a sample of all families. With `--again` all pairs are looked at once
more, and predicted where their code, its inputs or the model changed.
"""
from __future__ import annotations

import argparse
import fcntl
import itertools
import json
import pathlib
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from bench.speed import compare, side
from bench.speed.page import CLEARLY, EVEN, table
from tests.kernels import runner
from tests.sim import reference
from tileiras.errors import TileirasError
from tileiras.machine.machines import Machine, machine_of
from tileiras.sim import SimulationError
from tileiras.sim.timing import predict
from tileiras.sim.timing.cubin import Cubin

STORE = side.ROOT / "bench" / "results" / "suite-speed.json"
PAGE = side.ROOT / "docs" / "suite-speed.md"
MACHINES = ("H100", "A100", "B200", "RTX 5090", "T4")
STRIDE = 8
WITHOUT_ORIGINAL = (75,)
"""SMs that the original doesn't compile for."""
TOLERATED = 1.2
"""Anchors that a way through the machine code may leave unexplained."""

INTRODUCTION = """# The suite, ours against the original, predicted
Written by `python -m bench.speed.suite --write`. Cases of the kernel suite at their own sizes (small, mostly unaligned), compiled
by us at -O3 and by the original, run on the same inputs and predicted by the timing model ([timing.md](timing.md)). Nothing was
measured. A ratio is the original's time over ours: above 1, ours is faster. At such sizes a kernel is mostly latency; launch
overhead isn't counted. Pairs with a side that couldn't be joined to its machine code are left out of ratios, and named below.
"""


def family(name: str) -> str:
    """The part of the suite that a case belongs to, by the file that defines its kernel."""
    kernel = runner.case_of(name).kernel
    function = getattr(kernel, "_pyfunc", kernel)
    module = getattr(function, "__module__", "") or ""
    return module.rpartition(".")[2].removeprefix("k_") or "other"


def names(twins: bool) -> list[list[str]]:
    """In strides."""
    found = list(runner.cases())
    if twins:
        from tests.kernels.twins import SUFFIX
        found = [n + SUFFIX for n in found]
    return [found[first::STRIDE] for first in range(STRIDE)]


def predicted(name: str, machine: Machine, who: str) -> dict[str, Any]:
    """A side's record, cut to what the comparison needs; "failed" where there is none."""
    sm = f"sm_{machine.sm}"
    try:
        case, launch = runner.case_of(name), runner.launch_of(name)
        if who == "ours":
            cubin = runner.compile_case(name, sm, 3, lineinfo=True).cubin
        else:
            cubin = reference.original_cubin(name, sm)
        path = side.CACHE / "suite" / f"{who}-{side.launch_key(cubin, case.grid, launch.flat, machine)}.json"
        if path.exists():
            return json.loads(path.read_text())
        args = launch.flat if who == "ours" else reference.arguments(name, sm, launch.flat)
        record = predict(Cubin(cubin).ptx, cubin, case.name, case.grid, args, machine.name).record()
    except subprocess.SubprocessError:
        return {"failed": "isn't compiled"}
    except (TileirasError, SimulationError, LookupError, AssertionError, RuntimeError) as error:
        return side.failure(error)
    kept = ("seconds", "cycles", "bound", "estimate", "reason", "shares", "stalls", "counts", "resident_warps", "residual",
            "share_searched")
    record = {k: record[k] for k in kept if k in record}
    runner.write_atomically(path, json.dumps(record).encode())
    return record


def pair(name: str, machine: Machine) -> dict[str, Any]:
    ours = predicted(name, machine, "ours")
    theirs = {"failed": "there is none"} if machine.sm in WITHOUT_ORIGINAL else predicted(name, machine, "original")
    found = compare.pair(name, family(name), machine.name, ours, theirs)
    return {"kernel": name, "family": found.family, "machine": machine.name, "ratio": round(found.ratio, 4),
            "estimate": found.is_estimate, "why": found.why, "model": side.model_key(), "ours": _brief(ours),
            "original": _brief(theirs)}


def _brief(record: dict[str, Any]) -> dict[str, Any]:
    if "failed" in record:
        return record
    return {"us": round(record["seconds"] * 1e6, 3), "bound": record["bound"], "joined": not record["estimate"],
            "reason": record["reason"], "residual": round(record.get("residual", 0.0), 3)}


def run(strides: list[list[str]], machines: list[Machine], known: dict[str, dict], end: float) -> Iterator[dict]:
    """Pairs that aren't known yet, until a time: a stride on all machines, then the next."""
    for stride, machine in itertools.product(strides, machines):
        for name in stride:
            key = f"{name} {machine.name}"
            if key in known:
                continue
            if time.monotonic() > end:
                return
            known[key] = pair(name, machine)
            yield known[key]


def keep(store: pathlib.Path, found: dict[str, dict]) -> None:
    """Put pairs beside those that other runs have written."""
    side.CACHE.mkdir(parents=True, exist_ok=True)
    with open(side.CACHE / "suite.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        both = (json.loads(store.read_text()) if store.exists() else {}) | found
        runner.write_atomically(store, (json.dumps(both, indent=0, sort_keys=True) + "\n").encode())


# ---- the page

def joined(rows: list[dict]) -> list[list[Any]]:
    """By machine and side: kernels with code, how many are joined within the tolerance, and the share."""
    out = []
    for machine in dict.fromkeys(r["machine"] for r in rows):
        for who in ("ours", "original"):
            mine = [r[who] for r in rows if r["machine"] == machine and "failed" not in r[who]]
            good = sum(s["joined"] and s["residual"] <= TOLERATED for s in mine)
            if mine:
                out.append([machine, who, len(mine), good, f"{good / len(mine):.1%}"])
    return out


def _older(rows: list[dict]) -> str:
    old = sum(r["model"] != side.model_key() for r in rows)
    return f" {old} of them are by an earlier state of the model, and of the code as it was then." if old else ""


def page(rows: list[dict]) -> str:
    rows = sorted(rows, key=lambda r: (MACHINES.index(r["machine"]), r["family"], r["kernel"]))
    counted = [r for r in rows if r["ratio"] > 0 and not r["estimate"]]
    machines = list(dict.fromkeys(r["machine"] for r in counted))
    looked_at = ", ".join(f"{sum(r['machine'] == m for r in rows)} on {m}" for m in dict.fromkeys(r["machine"] for r in rows))
    out = [INTRODUCTION, f"{len(rows)} pairs were looked at, {len(counted)} compared; of the suite's {len(runner.cases())} cases "
           f"{looked_at}.{_older(rows)}", ""]
    out += ["| machine | compared | geometric mean | ours at least as fast | 0.95 to 1 | below 0.95 |", "|---|---|---|---|---|---|"]
    for m in machines:
        ratios = [r["ratio"] for r in counted if r["machine"] == m]
        even, below = sum(x >= EVEN for x in ratios), sum(x < CLEARLY for x in ratios)
        out.append(f"| {m} | {len(ratios)} | {compare.mean(ratios):.2f} | {even} | {len(ratios) - even - below} | {below} |")
    out += ["", "## By family", "", "Geometric mean, and the lowest ratio with its kernel.", ""]
    cells: dict[str, dict[str, str]] = defaultdict(dict)
    for f in sorted({r["family"] for r in counted}):
        for m in machines:
            mine = [r for r in counted if r["family"] == f and r["machine"] == m]
            if mine:
                worst = min(mine, key=lambda r: r["ratio"])
                mean = compare.mean([r["ratio"] for r in mine])
                cells[f][m] = f"{mean:.2f} of {len(mine)}; {worst['ratio']:.2f} {worst['kernel']}"
    out.append(table(["family", *machines], [[f, *(cells[f].get(m, "") for m in machines)] for f in cells]))
    out += ["", f"## Below {CLEARLY}", ""]
    slow = sorted((r for r in counted if r["ratio"] < CLEARLY), key=lambda r: r["ratio"])
    out += [f"- {r['machine']}, `{r['kernel']}`: {r['ratio']:.3f} ({r['ours']['us']:.2f} us against {r['original']['us']:.2f}); "
            f"{r['why']}" for r in slow] or ["- none"]
    out += ["", "## The join", "", f"At most {TOLERATED} anchors of a kernel's worst trace unexplained:", ""]
    out.append(table(["machine", "", "kernels", "joined", "share"], joined(rows)))
    out += ["", "Not joined, or with more:", ""]
    left = [f"- {r['machine']}, `{r['kernel']}`, {who}: {r[who]['reason'] or str(r[who]['residual']) + ' anchors'}" for r in rows
            for who in ("ours", "original") if "failed" not in r[who] and
            not (r[who]["joined"] and r[who]["residual"] <= TOLERATED)]
    out += left or ["- none"]
    out += ["", "Without a prediction:", ""]
    failed = [f"- {r['machine']}, `{r['kernel']}`, {who}: {r[who]['failed']}" for r in rows for who in ("ours", "original")
              if r[who].get("failed", "there is none") != "there is none"]
    return "\n".join(out + (failed or ["- none"])) + "\n"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.speed.suite", description="the suite, ours against the original")
    parser.add_argument("--machines", default=",".join(MACHINES))
    parser.add_argument("--twins", action="store_true", help="the aligned twins instead of the cases")
    parser.add_argument("--minutes", type=float, default=9, help="begin no pair after so long")
    parser.add_argument("--again", action="store_true", help="look at known pairs, too")
    parser.add_argument("--store", type=pathlib.Path, default=STORE)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    options = parser.parse_args(argv)
    known: dict[str, dict] = json.loads(options.store.read_text()) if options.store.exists() and not options.again else {}
    machines = [machine_of(n.strip()) for n in options.machines.split(",")]
    end = time.monotonic() + 60 * options.minutes
    for row in run(names(options.twins), machines, known, end):
        mark = "(estimate)" if row["estimate"] else ""
        print(f"{row['kernel']:44} {row['machine']:8} {row['ratio']:6.2f} {mark} {row['why'][:100]}", flush=True)
        keep(options.store, {f"{row['kernel']} {row['machine']}": row})
    if options.write:
        PAGE.write_text(page(list(json.loads(options.store.read_text()).values())))
        options.store.chmod(0o644)
    return 0


if __name__ == "__main__":
    sys.exit(main())
