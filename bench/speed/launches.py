"""Launches that a test suite of cuTile programs makes, noted without running them, and predicted beside the original's code.

    pytest -p tileiras.sim.pytest_plugin -p bench.speed.record --tile-gpu sm_90 --tile-sample 1 --launches FOLDER tests/
    python -m bench.speed.launches FOLDER [--machine H100] [--why] [--minutes M] [NAME ...]

While a suite runs so, no kernel does: what a test checks fails, and is not what one looks at. Of the launches of one specialization
(the frontend's bytecode) the one with the largest grid is kept. A tuned launch takes its first configuration. Arrays of up to 8 MB
are the test's own, larger ones zeros.
"""
from __future__ import annotations

import argparse
import pathlib
import pickle
import sys
import time
from typing import Any

import numpy as np

from bench.speed import compare, programs
from bench.speed.page import CLEARLY, EVEN
from tileiras.machine.machines import machine_of
from tileiras.sim.run.launch import PointerTable


def given(value: Any) -> Any:
    """What `kept` has kept, as a parameter again."""
    if isinstance(value, PointerTable):
        return PointerTable([given(w) for w in value.words])
    if isinstance(value, tuple):
        return np.zeros(value[2], value[1])
    return value


class Noted(programs.Row):
    """A noted launch."""

    def __init__(self, path: pathlib.Path, sm: str) -> None:
        record = pickle.loads(path.read_bytes())
        self.sm, self.symbol, self.bytecode, self.grid = sm, record["symbol"], record["bytecode"], record["grid"]
        self.flat = [given(p) for p in record["flat"]]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.speed.launches", description="noted launches, predicted")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", help="beginnings of launches' names; all without")
    parser.add_argument("--machine", default="H100", help="one whose SM they were noted for")
    parser.add_argument("--why", action="store_true", help="what both sides are bound by, wait for and do")
    parser.add_argument("--minutes", type=float, default=60, help="begin no launch after so long")
    options = parser.parse_intermixed_args(argv)
    try:
        machine = machine_of(options.machine)
    except LookupError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    paths = [p for p in sorted(options.folder.glob("*.pickle")) if not options.names or p.stem.startswith(tuple(options.names))]
    end, ratios = time.monotonic() + 60 * options.minutes, []
    for path in paths:
        if time.monotonic() > end:
            print(f"{options.minutes:g} minutes are over; run again to go on")
            break
        row = Noted(path, f"sm_{machine.sm}")
        one = compare.pair(path.stem, "", machine.name, row.predicted(machine, "ours"), row.predicted(machine, "original"))
        print(programs.line(one) + (f"\n{programs.explanation(one)}" if options.why else ""), flush=True)
        ratios += [one.ratio] if one.counts else []
    print(f"{len(ratios)} compared, mean {compare.mean(ratios):.3f}, {sum(r < EVEN for r in ratios)} below {EVEN:g}, "
          f"{sum(r < CLEARLY for r in ratios)} below {CLEARLY}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
