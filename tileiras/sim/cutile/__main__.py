"""Run a cuTile program on the simulator: `python -m tileiras.sim.cutile [OPTION ...] program.py [ARGUMENT ...]`."""
from __future__ import annotations

import argparse
import json
import os
import runpy
import signal
import sys
import traceback
from itertools import pairwise
from types import FrameType

from tileiras.errors import ConfigError, TileirasError
from tileiras.sim.cutile import budget, standin

EXIT_TIME = 124                   # as timeout(1) ends


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tileiras.sim.cutile", description="Run a cuTile program without a GPU: its launches go to the "
        "simulator, its 'cuda' tensors live on the CPU.", epilog="Exit codes: the program's own; 2 without cuTile Python or "
        "for an unknown GPU, 4 for a file that can't be read, 5 for a fault or finding in a kernel, "
        f"{EXIT_TIME} when the time or the instructions are spent.")
    parser.add_argument("--gpu", metavar="NAME", help="the SM to compile for (default: TILEIRAS_SIM_GPU, or sm_90)")
    parser.add_argument("--level", type=int, choices=range(4), help="the optimization level (default: each kernel's own)")
    parser.add_argument("--time", type=float, metavar="SECONDS", help="end the program after so long")
    parser.add_argument("--instructions", type=int, metavar="N", help="end the program after so many issued instructions")
    parser.add_argument("--findings", choices=("raise", "keep"), default="raise",
                        help="races and the like end the program, or go into the report")
    parser.add_argument("--cupy", action="store_true", help="`import cupy` finds a stand-in on NumPy if CuPy isn't installed")
    parser.add_argument("--children", action="store_true", help="Python programs that the program starts get the same")
    parser.add_argument("--report", metavar="FILE", help="write what the launches did as JSON")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run a program with the launcher in place; exit code 5 for a fault or finding in a kernel."""
    given = parse(list(sys.argv[1:] if arguments is None else arguments))
    if not os.path.isfile(given.program):
        print(f"error: unable to read input file '{given.program}'", file=sys.stderr)
        return 4
    options = {"findings": given.findings} | ({} if given.level is None else {"opt_level": given.level})
    try:
        standin.install(given.gpu, cupy=given.cupy, children=given.children, **options)
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "cuda":
            raise
        print("error: cuTile Python isn't installed: pip install cuda-tile", file=sys.stderr)
        return 2
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    before = budget.begin(budget.Ledger(given.instructions))
    try:
        return _run(given)
    finally:
        ledger = budget.begin(before)
        standin.uninstall()
        if given.report:
            with open(given.report, "w") as file:
                json.dump({"program": given.program, "gpu": standin.gpu_name(), "launches": ledger.launches,
                           "instructions": ledger.issued, "seconds": round(ledger.seconds, 3), "kernels": ledger.kernels,
                           "findings": ledger.findings}, file, indent=1)


def _run(given: argparse.Namespace) -> int:
    sys.argv = [given.program, *given.arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(given.program)))
    if given.time:
        signal.signal(signal.SIGALRM, _out_of_time)
        signal.setitimer(signal.ITIMER_REAL, given.time)
    try:
        runpy.run_path(given.program, run_name="__main__")
    except TileirasError as error:
        print(f"error: {error}{_launched_at(error)}", file=sys.stderr)
        return error.exit_code
    except budget.OverBudget as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_TIME
    except Exception as error:
        if isinstance(error.__cause__, TileirasError):      # a refusal, as the frontend words it
            print(f"error: {error.__cause__}{_launched_at(error)}", file=sys.stderr)
            return error.__cause__.exit_code
        raise
    finally:
        if given.time:
            signal.setitimer(signal.ITIMER_REAL, 0)
    return 0


def _out_of_time(number: int, frame: FrameType | None) -> None:
    raise budget.OverBudget("the time is up")


def _launched_at(error: BaseException) -> str:
    """Where the program called what ended in `error`: the last of its lines before this package's."""
    ours = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith("<")]
    for before, frame in reversed(list(pairwise(frames))):
        if frame.filename.startswith(ours) and not before.filename.startswith(ours):
            return f"\n  launched at {before.filename}:{before.lineno}"
    return ""


if __name__ == "__main__":
    sys.exit(main())
