"""Run programs on several SMs and levels: python -m tests.programs [--gpus sm_80,sm_90] [--levels 0,3] [--no-sim] [NAME ...]

A name stands for all rows of its table. One line a run: how it ended, seconds of compiling, what is spilled."""
import argparse
import sys
import time
import traceback

from tests.programs.programs import load_all, run

SLOW = 20.0
"""Seconds of compiling that a program may take."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.programs", description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--gpus", default="sm_80,sm_90,sm_100,sm_120")
    parser.add_argument("--levels", default="3")
    parser.add_argument("--orders", type=int, default=5)
    parser.add_argument("--no-sim", action="store_true", help="does ptxas take it?")
    parser.add_argument("--quick", action="store_true", help="what is part of `make test`")
    parser.add_argument("-v", "--verbose", action="store_true", help="tracebacks")
    options = parser.parse_args()
    programs = load_all()
    names = [n for n, p in programs.items() if not options.names or n in options.names or p.draw.__name__ in options.names]
    bad = count = 0
    for gpu in options.gpus.split(","):
        for level in map(int, options.levels.split(",")):
            for name in names:
                if int(gpu.removeprefix("sm_").rstrip("af")) < programs[name].since or options.quick > programs[name].quick:
                    continue
                start = time.perf_counter()
                count += 1
                try:
                    got = run(name, gpu, level, range(options.orders), not options.no_sim)
                    told = "ok" if got.seconds < SLOW else "SLOW"
                    more = f"compiled in {got.seconds:.1f} s" + (f", SPILLS {got.spills}" if got.spills else "") \
                        + (", asynchronous" if got.asynchronous else "")
                except Exception as error:      # one program costs itself only
                    bad += 1
                    told, more = "FAIL", f"{type(error).__name__}: {error}"[:600]
                    if options.verbose:
                        traceback.print_exc()
                print(f"{gpu} -O{level} {name}: {told}, {time.perf_counter() - start:.1f} s, {more}", flush=True)
    print(f"{count} runs, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
