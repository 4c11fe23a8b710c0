"""How did whole suites of cuTile programs do on the simulator? From the plugin's JSON reports to a section of the docs.

    pytest -p tileiras.sim.pytest_plugin --tile-gpu sm_90 --tile-report a.json tests/        # in the suite's checkout
    python -m tests.public.suites --write docs/public-tests.md "cuTile Python=a.json" "TileGym=b.json" [--mutated "...=c.json"]

Several reports of one suite and SM are one row. Tests that failed are counted by reason: RULES says which words mean what.
"""
from __future__ import annotations

import argparse
import json
import pathlib
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

MARKER = "# Suites of cuTile programs"
OWN = "not explained"
ROUNDS_OTHERWISE = "its reference, computed by PyTorch on the CPU, rounds otherwise (by at most 4 units of f32's last place)"
LAST_PLACES = 4 * 2.0**-23
"""How far results may lie apart, relative to their size, to be called the same but for rounding."""
RULES: tuple[tuple[str, str], ...] = (
    (r"test_debug.*CalledProcessError", "puts a compiler that fails in place of the frontend's, which no simulated launch calls"),
    ("CUDA graphs aren't recorded", "records CUDA graphs"),
    (r"libcuda|libcudart|nvidia-smi|No CUDA|cuda\.bindings", "calls the CUDA driver itself"),
    (r"not implemented for|NotImplementedError|No viable backend|not supported on CPU|Could not run 'aten|"
     r"unsupported operation|expected scalar type|_scaled_mm|scaled_mm",
     "its reference is an operation that PyTorch has on GPUs only"),
    (r"No module named|ModuleNotFoundError|ImportError", "needs a package that isn't installed"),
    (r"No valid config found in search space|"
     r"has no attribute|missing \d+ required|unexpected keyword|takes \d+ positional|Regex pattern|TypeCheckingError|"
     r"UnsupportedSyntaxError|InvalidValueError|DID NOT RAISE|UnsupportedFeatureError",
     "is written for another version of cuTile or Python"),
    (r"MemoryError|out of memory|can't allocate|bad_alloc", "needs more memory than this machine has"),
    (r"subprocess|CalledProcessError|return code", "starts a program of its own that fails"),
)
COLUMNS = ("passed", "no kernel", "failed", "finding", "refused", "over budget", "skipped")


@dataclass
class Row:
    """A suite on an SM. `failures`: by reason; `findings`: by place."""
    suite: str
    gpu: str
    tests: dict[str, dict[str, Any]] = field(default_factory=dict)
    left_out: int = 0
    sample: int | None = None

    @property
    def counts(self) -> Counter[str]:
        return Counter(t["outcome"] for t in self.tests.values() if t["outcome"])

    @property
    def failures(self) -> Counter[str]:
        return Counter(reason_of(t, name) for name, t in self.tests.items() if t["outcome"] == "failed")

    @property
    def findings(self) -> Counter[str]:
        return Counter(f"{f['kind']} at {pathlib.Path(f['source']).name if f['source'] else f['kernel']}"
                       for t in self.tests.values() if t["outcome"] == "finding" for f in t["findings"][:1])


def reason_of(test: dict[str, Any], name: str = "") -> str:
    """Why a test failed, by the first rule that its name and reason match; results that should be equal, by how far apart they
    are."""
    text = f"{name}: {test.get('reason', '')}"
    found = next((meaning for words, meaning in RULES if re.search(words, text)), None)
    if found is None and (apart := re.search(r"Greatest relative difference: (\S+)", test.get("message", ""))):
        found = ROUNDS_OTHERWISE if float(apart[1]) <= LAST_PLACES else None
    return found or OWN


def rows_of(named: list[str]) -> list[Row]:
    """Reports, given as NAME=FILE[,FILE...], by suite and SM in the order given."""
    rows: dict[tuple[str, str], Row] = {}
    for item in named:
        name, _, files = item.partition("=")
        for file in files.split(","):
            report = json.loads(pathlib.Path(file).read_text())
            row = rows.setdefault((name, report["gpu"]), Row(name, report["gpu"]))
            row.tests.update(report["tests"])
            row.left_out += report["left_out"]
            row.sample = report["sample"]
    return list(rows.values())


def caught(plain: list[Row], mutated: list[Row]) -> dict[tuple[str, str], tuple[int, int]]:
    """By suite and SM: of the tests that pass with a kernel, how many were run with a flipped byte, and how many failed."""
    out = {}
    for row in mutated:
        passing = {n for r in plain if (r.suite, r.gpu) == (row.suite, row.gpu)
                   for n, t in r.tests.items() if t["outcome"] == "passed"}
        tried = [t for n, t in row.tests.items() if n in passing and t["outcome"] and t.get("launches")]
        out[row.suite, row.gpu] = len(tried), sum(t["outcome"] != "passed" for t in tried)
    return out


def section(plain: list[Row], mutated: list[Row]) -> str:
    """The section of the page."""
    head = "| suite | SM | " + " | ".join(COLUMNS) + " | left out |\n|---|---|" + "---|" * (len(COLUMNS) + 1) + "\n"
    table = head + "\n".join(
        f"| {r.suite} | {r.gpu} | " + " | ".join(str(r.counts[c]) for c in COLUMNS) + f" | {r.left_out} |" for r in plain)
    reasons = []
    for suite in dict.fromkeys(r.suite for r in plain):
        mine = [r for r in plain if r.suite == suite]
        every = list(dict.fromkeys(reason for r in mine for reason, _ in r.failures.most_common()))
        if every:
            reasons.append(f"| {suite}: a test that failed | " + " | ".join(r.gpu for r in mine) + " |\n|---|" + "---|" * len(mine)
                           + "\n" + "\n".join(f"| {reason} | " + " | ".join(str(r.failures[reason]) for r in mine) + " |"
                                              for reason in every))
        found = Counter[str]()
        for r in mine:
            found += r.findings
        if found:
            reasons.append(f"What ended tests of {suite} as findings: " + "; ".join(f"{p} ({n})" for p, n in found.most_common())
                           + ".")
    mutation = [f"With one byte flipped after each launch (`--tile-mutate`), {failed} of {tried} tests of {suite} that pass on "
                f"{gpu} fail ({100 * failed / tried:.0f} %)." for (suite, gpu), (tried, failed) in caught(plain, mutated).items()
                if tried]
    return "\n\n".join([table, *reasons, *mutation]) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="reports of the pytest plugin as a section of the docs")
    parser.add_argument("reports", nargs="+", metavar="NAME=FILE[,FILE...]")
    parser.add_argument("--mutated", nargs="*", default=[], metavar="NAME=FILE", help="the same under --tile-mutate")
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE", help="put it between the section's marks of a page")
    parser.add_argument("--show", metavar="REASON", help="name the tests that failed for a reason")
    given = parser.parse_args(arguments)
    plain, mutated = rows_of(given.reports), rows_of(given.mutated)
    text = section(plain, mutated)
    if given.show is not None:
        for row in plain:
            for name, test in row.tests.items():
                if test["outcome"] in ("failed", "refused", "finding") and given.show in (reason_of(test, name), test["outcome"]):
                    print(row.gpu, name, test.get("reason", "")[:200])
        return 0
    if given.write is None:
        print(text, end="")
        return 0
    page = given.write.read_text()
    before, mark, after = page.partition(BEGIN)
    if not mark or END not in after:
        parser.error(f"{given.write} has no lines {BEGIN} and {END}")
    given.write.write_text(before + BEGIN + "\n" + text + END + after.partition(END)[2])
    return 0


BEGIN, END = "<!-- counts: begin -->", "<!-- counts: end -->"


def kept(page: pathlib.Path) -> str:
    """The section that `run_public --write` leaves as it is, with its heading; nothing where there is none."""
    if not page.exists():
        return ""
    text = page.read_text()
    at = text.find(MARKER)
    return "" if at < 0 else "\n" + text[at:]


if __name__ == "__main__":
    sys.exit(main())
