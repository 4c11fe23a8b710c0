"""The table of numerics: op x type x rounding x flush-to-zero, each cell compiled, simulated and compared.

    python -m tests.tables                                  # every cell, every configuration
    python -m tests.tables --only 'ftof|itof' --count 512 --config sm_90:3
    python -m tests.tables --write docs/numerics.md
"""
from __future__ import annotations

import argparse
import pathlib
import re
import sys
import time
from collections.abc import Sequence

from tests.tables.cells import cells
from tests.tables.kernels import groups
from tests.tables.report import markdown
from tests.tables.run import CONFIGS, Outcome, run


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.tables", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="", metavar="REGEX", help="cells in whose text the expression is found")
    parser.add_argument("--count", type=int, default=2048, help="about how many values each cell is computed on")
    parser.add_argument("--config", action="append", metavar="SM:LEVEL", help="e.g. sm_90:3 (repeatable; default: all)")
    parser.add_argument("--no-ptxas", action="store_true", help="leave ptxas out")
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE", help="write the table there (docs/numerics.md)")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    a = parse_arguments(argv)
    configs = [(gpu, int(level)) for gpu, _, level in (c.partition(":") for c in a.config)] if a.config else list(CONFIGS)
    chosen = [c for c in cells() if re.search(a.only, str(c))]
    outcomes: list[Outcome] = []
    start = time.perf_counter()
    work = groups(chosen)
    for i, group in enumerate(work):
        for outcome in run(group, configs, a.count, "ptx" if a.no_ptxas else "cubin"):
            outcomes.append(outcome)
            for text in outcome.failures:
                print(f"{outcome.cell}: {text}", flush=True)
        if (i + 1) % 20 == 0:
            print(f"{i + 1} of {len(work)} kernels, {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    failed = sum(bool(o.failures) for o in outcomes)
    print(f"{len(outcomes)} cells on {len(configs)} configurations, {failed} failed, {time.perf_counter() - start:.0f} s")
    if a.write:
        order = {cell: i for i, cell in enumerate(cells())}
        outcomes.sort(key=lambda o: order[o.cell])
        a.write.write_text(markdown(outcomes, configs))
        print(f"wrote {a.write}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
