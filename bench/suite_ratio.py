"""`make bench-suite`: how long the whole kernel suite takes to compile, beside the original, file by file.

For each case's oldest bytecode: the whole command of ours and of the original, in turn. A file whose ratio is above
`--again` is measured three times more and its medians count, so that one busy moment of the machine doesn't judge it.
The goals: a median ratio of at most 4, no file slower than 10 times.
"""
from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import sys
from typing import Any

from bench import table
from bench.__main__ import ROOT, milliseconds, progress, reference_command, run, two
from tests.kernels import runner

MEDIAN_GOAL, WORST_GOAL = 4.0, 10.0


def measure(name: str, commands: dict[str, list[str]], again: float) -> dict[str, Any]:
    """Seconds of each command on one case (None where it made no cubin) and their ratio."""
    seconds: dict[str, list[float]] = {who: [] for who in commands}
    for turn in range(4):
        for who, command in commands.items():
            done = run(command)
            if done.cubin is None:
                return {"case": name, "failed": who, "message": done.message.replace(f"{ROOT}/", "")[:300]}
            seconds[who].append(done.seconds)
        if turn == 0 and seconds["ours"][0] <= again * seconds["original"][0]:
            break
    medians = {who: statistics.median(values) for who, values in seconds.items()}
    return {"case": name, **medians, "ratio": medians["ours"] / medians["original"]}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    ratios = sorted(row["ratio"] for row in rows if "ratio" in row)
    ours = [row["ours"] for row in rows if "ratio" in row]
    return {"files": len(ratios), "median": statistics.median(ratios), "p90": ratios[int(len(ratios) * 0.9)], "worst": ratios[-1],
            "above_goal": sum(r > WORST_GOAL for r in ratios), "median_seconds": statistics.median(ours),
            "slowest_seconds": max(ours)}


def print_rows(rows: list[dict[str, Any]], worst: int) -> None:
    measured = sorted((row for row in rows if "ratio" in row), key=lambda row: -row["ratio"])
    print(f"The {min(worst, len(measured))} files with the highest ratio (whole command)\n")
    print(table.render(("case", "ours ms", "original ms", "ratio"),
                       [(r["case"], milliseconds(r["ours"]), milliseconds(r["original"]), two(r["ratio"]))
                        for r in measured[:worst]]))
    s = summary(rows)
    print(f"\n  {s['files']} files: median ratio {s['median']:.2f} (goal: at most {MEDIAN_GOAL:g}), 90th {s['p90']:.2f}, "
          f"worst {s['worst']:.2f}; {s['above_goal']} above {WORST_GOAL:g} times")
    print(f"  ours: median {s['median_seconds'] * 1000:.0f} ms, slowest {s['slowest_seconds'] * 1000:.0f} ms")
    for row in rows:
        if "failed" in row:
            said = (row["message"] or "no cubin").splitlines()[0]
            print(f"  {'ours' if row['failed'] == 'ours' else 'the original'} failed on {row['case']}: {said[:160]}")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.suite_ratio", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--reference", type=pathlib.Path, required=True, metavar="PYTHON",
                        help="the Python of the environment that holds nvidia-cuda-tileiras")
    parser.add_argument("--gpu-name", default="sm_90", metavar="sm_XX")
    parser.add_argument("-k", "--cases", default="", metavar="REGEX", help="some cases of the suite only")
    parser.add_argument("-O", dest="level", type=int, default=3)
    parser.add_argument("--again", type=float, default=6.0, metavar="RATIO", help="measure files above this ratio again")
    parser.add_argument("--worst", type=int, default=20, metavar="N", help="how many files to list")
    parser.add_argument("--write", action="store_true", help="keep the figures in bench/results/")
    a = parser.parse_args(argv)
    ours = pathlib.Path(sys.executable).parent / "tileiras"
    if not ours.exists():
        raise SystemExit("the `tileiras` command isn't installed in this environment: pip install -e '.[bench]'")
    original = reference_command(a.reference)
    rows = []
    for name, case in runner.cases().items():
        if not re.search(a.cases, name):
            continue
        progress(name)
        options = [str(runner.bytecode_path(name, case.versions[0])), "--gpu-name", a.gpu_name, f"-O{a.level}"]
        rows.append(measure(name, {"ours": [str(ours), *options], "original": [original, *options]}, a.again))
    progress("")
    if not any("ratio" in row for row in rows):
        raise SystemExit("no case was compiled by both")
    print_rows(rows, a.worst)
    if a.write:
        stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d-%H%M%S")
        path = ROOT / "bench" / "results" / f"suite-{stamp}.json"
        path.parent.mkdir(exist_ok=True)
        facts = {"machine": platform.machine(), "cpus": os.cpu_count(), "python": platform.python_version()}
        path.write_text(json.dumps({"facts": facts, "target": a.gpu_name, "level": a.level, **summary(rows), "rows": rows},
                                   indent=1) + "\n")
        print(f"\nwrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
