"""Is code slower that costs more by some count? The timing model's cycles of both, for rows that `bench.code_table` finds worse.

    git worktree add /tmp/before 5615ab5
    python -m bench.code_cycles --checkout /tmp/before --sms 80 --minutes 9
    python -m bench.code_cycles --checkout /tmp/before --sms 80 --every 20      # every 20th case instead, better or worse

A case is compiled by the compiler of the checkout and by this one (without asynchronous code, as the tables are), and both run on
the suite's own inputs on a machine of the SM: a launch of a few blocks, so latencies weigh more than in use. Figures are kept in
bench/results/code-cycles.json, by case and SM, for [code.md](../docs/code.md).
"""
from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import Any

from bench import code_table
from bench.__main__ import ROOT
from tests.kernels import runner
from tileiras.errors import TileirasError
from tileiras.sim.timing import predict

RESULTS = ROOT / "bench" / "results"
KEPT = RESULTS / "code-cycles.json"
CACHE = ROOT / "build" / "code-cycles.jsonl"
MACHINES = {80: "A100", 90: "H100", 120: "RTX 5090"}
EMIT = """
import pathlib, sys, tileiras
from tests.kernels import runner
made = tileiras.compile(runner.export_case(sys.argv[1]), gpu_name=sys.argv[2], opt_level=3, lineinfo=True)
out = pathlib.Path(sys.argv[3])
out.joinpath("ptx").write_text(made.ptx)
out.joinpath("cubin").write_bytes(made.cubin)
"""
"""Compiles one case with the compiler of the folder that it runs in."""


def compiled_by(checkout: pathlib.Path, case: str, sm: int) -> tuple[str, bytes]:
    """PTX and cubin of a case by the compiler in a checkout."""
    with tempfile.TemporaryDirectory() as out:
        environment = {**os.environ, "PYTHONPATH": str(checkout), code_table.WITHOUT: code_table.ASYNCHRONOUS}
        subprocess.run([sys.executable, "-c", EMIT, case, f"sm_{sm}", out], cwd=checkout, env=environment, check=True,
                       capture_output=True)
        return pathlib.Path(out, "ptx").read_text(), pathlib.Path(out, "cubin").read_bytes()


def cycles_of(case: str, sm: int, ptx: str, cubin: bytes, cache: code_table.Cache) -> float | None:
    """Predicted cycles; None where there is no prediction."""
    def ask() -> dict[str, Any]:
        c = runner.case_of(case)
        try:
            found = predict(ptx, cubin, c.name, c.grid, runner.launch_of(case).flat, MACHINES[sm]).record()
        except (TileirasError, LookupError) as error:
            return {"failed": str(error).splitlines()[0]}
        return {"cycles": found["cycles"], "estimate": found["estimate"]}
    record = cache.get(hashlib.sha256(ptx.encode() + cubin).hexdigest()[:20], ask)
    return None if record.get("estimate") else record.get("cycles")


def worse_rows(before: list[code_table.Row], after: list[code_table.Row]) -> list[tuple[code_table.Row, code_table.Row]]:
    """The pairs that are worse in one of the columns that aren't to be."""
    return [(b, a) for b, a in code_table.pairs_of(before, after) if any(a[k] > b[k] for k in code_table.TARGETS)]


def load() -> dict[tuple[str, int], dict[str, Any]]:
    """What is kept: {(case, SM): {"before": cycles, "after": cycles, "ptx": digest of the code after, "drawn": whether
    it was looked at whatever its counts}}."""
    rows = json.loads(KEPT.read_text())["rows"] if KEPT.exists() else []
    return {(r["case"], r["sm"]): r for r in rows}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.code_cycles", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--checkout", type=pathlib.Path, required=True, help="the tree whose code the table before is of")
    parser.add_argument("--before", type=pathlib.Path, default=RESULTS / "code-before.json")
    parser.add_argument("--after", type=pathlib.Path, default=RESULTS / "code-after.json")
    parser.add_argument("--sms", type=int, nargs="+", default=list(MACHINES))
    parser.add_argument("--every", type=int, default=0, metavar="N", help="every N-th case of the suite, better or worse")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop (and be called again) after this time")
    a = parser.parse_args(argv)
    cache, kept = code_table.Cache(CACHE), load()
    end = time.monotonic() + 60 * a.minutes
    before, after = code_table.load(a.before), code_table.load(a.after)
    drawn = frozenset(list(runner.cases())[::a.every]) if a.every else frozenset()
    chosen = [p for p in code_table.pairs_of(before, after) if p[1]["case"] in drawn] if drawn else worse_rows(before, after)
    for _, row in chosen:
        case, sm = row["case"], row["sm"]
        known = kept.get((case, sm), {})
        if sm not in a.sms or (known.get("ptx") == row["ptx"] and known.get("drawn", False) >= (case in drawn)):
            continue
        if time.monotonic() > end:
            print("stopped: out of time")
            break
        both = [cycles_of(case, sm, *compiled_by(tree, case, sm), cache) for tree in (a.checkout, ROOT)]
        kept[case, sm] = {"case": case, "sm": sm, "ptx": row["ptx"], "before": both[0], "after": both[1],
                          "drawn": case in drawn or known.get("drawn", False)}
        print(f"{case} sm_{sm}: {both[0]} -> {both[1]} cycles", flush=True)
        lines = ",\n".join(json.dumps(r) for r in sorted(kept.values(), key=lambda r: (r["case"], r["sm"])))
        runner.write_atomically(KEPT, f'{{"rows": [\n{lines}\n]}}\n'.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
