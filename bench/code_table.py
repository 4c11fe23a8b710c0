"""What the code of the kernel suite costs, kernel by kernel, and a comparison of two such tables.

    python -m bench.code_table --write bench/results/code-before.json           # all cases at -O3 on three SMs
    python -m bench.code_table --cross-section --against bench/results/code-before.json
    python -m bench.code_table --compare before.json after.json
    python -m bench.code_table --synchronous --part 3/96 --write bench/results/code-after.json    # a part; the other rows stay

A row is a case on an SM: barriers in the PTX; shared bytes, registers and spilled bytes from ptxas; SASS instructions;
and from the simulator, on the suite's own inputs, passes of shared memory, sectors of global memory and executed
instructions. What a run of a PTX text does is kept in a cache (build/code-table.jsonl), so that an interrupted run goes on where
it stopped, and code that a change of the compiler left alone isn't simulated again. `--synchronous` leaves out what trades shared
memory for time (rings, the copy engine, wgmma, tcgen05, agents), which the table before didn't have. [code.md](../docs/code.md)
is the comparison in full, with the reasons of what is worse.
"""
from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import math
import os
import pathlib
import re
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from bench import cubin, table
from bench.__main__ import ROOT, progress
from tests.kernels import runner
from tests.kernels.cross_section import CROSS_SECTION, THREE_KERNELS
from tests.ptx import body_of
from tileiras import CompiledModule

SMS = (80, 90, 120)
CACHE = ROOT / "build" / "code-table.jsonl"
COLUMNS = ("barriers", "shared", "registers", "spills", "sass", "passes", "sectors", "executed")
"""The columns of a table, as `STATIC` and `DYNAMIC` give them."""
STATIC = COLUMNS[:5]
DYNAMIC = COLUMNS[5:]
TARGETS = COLUMNS[:-1]
"""The columns that aren't to get worse; executed instructions tell how."""
WITHOUT, ASYNCHRONOUS = "TILEIRAS_WITHOUT", "pipelines,tma,wgmma,tcgen05,agents"
BARRIER = re.compile(r"^\s*(?:@\S+\s+)?(?:bar|barrier)(?:\.cta)?\.(?:sync|red|arrive)", re.MULTILINE)

Row = dict[str, Any]


class Cache:
    """Facts by key, one JSON line each, appended as they come."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.known: dict[str, Row] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                with contextlib.suppress(ValueError):
                    record = json.loads(line)
                    self.known[record.pop("key")] = record

    def get(self, key: str, make: Callable[[], Row]) -> Row:
        """The facts of a key, made now if they aren't known."""
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = make()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(self.path, "a") as f:
                f.write(json.dumps({"key": key, **found}) + "\n")
        return found


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def measure(case: str, sm: int, cache: Cache) -> Row:
    """One row of the table."""
    from tileiras.errors import TileirasError
    row: Row = {"case": case, "sm": sm}
    try:
        compiled = runner.compile_case(case, f"sm_{sm}")
    except TileirasError as error:
        return {**row, "refused": str(error).splitlines()[0]}
    row["ptx"] = digest(compiled.ptx)
    row |= static_facts(case, compiled)
    row |= cache.get(f"{case}/{digest(body_of(compiled.ptx))}/dynamic", lambda: dynamic_facts(case, compiled.ptx))
    return row


def static_facts(case: str, compiled: CompiledModule) -> Row:
    """What ptxas made of the code."""
    entry = next(e for e in compiled.entries if e.name == runner.case_of(case).name)
    facts = cubin.inspect(compiled.cubin)[entry.name]
    return {"barriers": len(BARRIER.findall(compiled.ptx)), "shared": entry.shared_bytes, "registers": entry.registers,
            "spills": entry.spill_bytes, "sass": facts.instructions}


def dynamic_facts(case: str, ptx: str) -> Row:
    """What a run of the case does."""
    from tileiras.sim import simulate
    c, launch = runner.case_of(case), runner.launch_of(case)
    with contextlib.redirect_stdout(open(os.devnull, "w")):      # kernels may print
        report = simulate(ptx, kernel=c.name, grid=c.grid, args=launch.flat)
    return {"passes": report.shared_passes, "sectors": report.global_sectors, "executed": report.instructions,
            "ok": not report.findings and runner.judge(c, launch).ok}


# --- comparison -------------------------------------------------------------------------------------------------------

def ratio(before: float, after: float) -> float:
    """After over before; one more on both sides, so that nothing to something is a finite worsening."""
    return (after + 1) / (before + 1)


def pairs_of(before: Iterable[Row], after: Iterable[Row]) -> list[tuple[Row, Row]]:
    """Rows of the same case and SM that both tables measured."""
    old = {(r["case"], r["sm"]): r for r in before if "refused" not in r}
    return [(old[key], r) for r in after if "refused" not in r and (key := (r["case"], r["sm"])) in old]


def summary(pairs: list[tuple[Row, Row]]) -> list[tuple[str, int, int, int, str, str]]:
    """For each column: how many rows are better, equal, worse; the share at most as before; the geometric mean."""
    lines = []
    for column in COLUMNS:
        ratios = [ratio(b[column], a[column]) for b, a in pairs]
        better, worse = sum(r < 1 for r in ratios), sum(r > 1 for r in ratios)
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else 1.0
        lines.append((column, better, len(ratios) - better - worse, worse,
                      f"{100 * (1 - worse / max(1, len(ratios))):.1f} %", f"{mean:.4f}"))
    return lines


def print_comparison(before: list[Row], after: list[Row], worst: int) -> None:
    pairs = pairs_of(before, after)
    same = sum(b["ptx"] == a["ptx"] for b, a in pairs)
    print(f"{len(pairs)} kernels on {len({a['sm'] for _, a in pairs})} SMs, {same} with the same PTX\n")
    print(table.render(("column", "better", "equal", "worse", "at most as before", "geometric mean"), summary(pairs)))
    for column in COLUMNS:
        ranked = sorted(pairs, key=lambda p, c=column: -ratio(p[0][c], p[1][c]))
        rows = [(a["case"], f"sm_{a['sm']}", b[column], a[column], f"{ratio(b[column], a[column]):.2f}")
                for b, a in ranked[:worst] if a[column] > b[column]]
        if rows:
            print(f"\nmost {column} more\n")
            print(table.render(("case", "SM", "before", "after", "ratio"), rows))
    for row in after:
        if row.get("ok") is False:
            print(f"  {row['case']} on sm_{row['sm']} computes something wrong")


def load(path: pathlib.Path) -> list[Row]:
    return json.loads(path.read_text())["rows"]


def keep(path: pathlib.Path, rows: list[Row]) -> None:
    """Put rows in a table, in place of those of the same case and SM that it has; in the suite's order."""
    known = {(r["case"], r["sm"]): r for r in (load(path) if path.exists() else [])}
    known.update({(r["case"], r["sm"]): r for r in rows})
    order = {name: n for n, name in enumerate(runner.cases())}
    ranked = sorted(known.values(), key=lambda r: (order.get(r["case"], len(order)), r["sm"]))
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(row) for row in ranked)
    runner.write_atomically(path, f'{{"rows": [\n{lines}\n]}}\n'.encode())


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.code_table", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--compare", nargs=2, type=pathlib.Path, metavar=("BEFORE", "AFTER"), help="print, measure nothing")
    parser.add_argument("--against", type=pathlib.Path, metavar="BEFORE", help="compare what is measured with this table")
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE", help="put the rows in this table")
    parser.add_argument("-k", "--cases", default="", metavar="REGEX", help="some cases of the suite only")
    parser.add_argument("--cross-section", action="store_true", help="the cases that guard a commit only")
    parser.add_argument("--synchronous", action="store_true", help="without asynchronous code")
    parser.add_argument("--sms", type=int, nargs="+", default=SMS)
    parser.add_argument("--part", default="0/1", metavar="I/N", help="every N-th case, beginning with number I")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop (and be called again) after this time")
    parser.add_argument("--cache", type=pathlib.Path, default=CACHE)
    parser.add_argument("--worst", type=int, default=10, metavar="N", help="how many rows to list a column")
    a = parser.parse_args(argv)
    if a.compare:
        print_comparison(load(a.compare[0]), load(a.compare[1]), a.worst)
        return 0
    if a.synchronous:
        os.environ[WITHOUT] = ASYNCHRONOUS
    cache, rows = Cache(a.cache), []
    names = [*CROSS_SECTION, *THREE_KERNELS] if a.cross_section else list(runner.cases())
    part, parts = map(int, a.part.split("/"))
    end = time.monotonic() + 60 * a.minutes
    for name in [n for n in names if re.search(a.cases, n)][part::parts]:
        if time.monotonic() > end:
            print("stopped: out of time")
            return 1
        progress(name)
        rows += [measure(name, sm, cache) for sm in a.sms]
    progress("")
    if a.write:
        keep(a.write, rows)
        print(f"wrote {a.write}")
    if a.against:
        print_comparison(load(a.against), rows, a.worst)
    return 0


if __name__ == "__main__":
    sys.exit(main())
