"""A campaign: random programs against the interpreter, then ten times as many damaged files through the compiler.

    python -m tests.fuzz --programs 1000 --damaged 10000 --seed 0

Half of the programs are loops that want pipelines. Every program is compiled at -O0 and -O3 for sm_80 or sm_90 and for
another SM in turn, every fifth at -O1 and -O2 too, and every fourth goes through ptxas. What fails is cut down and lies in
build/fuzz. The exit code is 1 if anything failed.
"""
from __future__ import annotations

import argparse
import collections
import pathlib
import sys
import time
from collections.abc import Sequence

from tests.fuzz import damage
from tests.fuzz.generate import Limits, generate
from tests.fuzz.pipelines import pipelined
from tests.fuzz.programs import Config, check

OTHERS = ("sm_75", "sm_100", "sm_89", "sm_120", "sm_86", "sm_103", "sm_110", "sm_121", "sm_107")
SIZES = (Limits(), Limits(12, 256), Limits(), Limits(40, 512))


def configs(seed: int) -> list[Config]:
    """On which SMs and levels the program of a seed is checked."""
    gpu, other = ("sm_80", "sm_90")[seed % 2], OTHERS[seed // 2 % len(OTHERS)]
    levels = (0, 1, 2, 3) if seed % 5 == 0 else (0, 3)
    return [*((gpu, level) for level in levels), (other, (3, 0)[seed // 16 % 2])]


def programs(count: int, seed: int, keep: pathlib.Path, limit: float, shrink: bool) -> tuple[int, int, int]:
    """(programs, runs of compiled code, programs that failed)."""
    start, runs, failed, kinds = time.perf_counter(), 0, 0, collections.Counter[str]()
    for done in range(count):
        if limit and time.perf_counter() - start > limit:
            return done, runs, failed
        number = seed + done
        # By pairs, since SMs and sizes go by the number too.
        program = pipelined(number) if number // 2 % 2 else generate(number, SIZES[number % len(SIZES)])
        chosen = configs(number)
        found = check(program, chosen, "cubin" if number % 4 == 0 else "ptx")
        runs += len(chosen)
        failed += bool(found)
        for config, wrong in found:
            kinds[wrong.split(":")[0]] += 1
            print(f"seed {number} {config[0]} -O{config[1]}: {wrong}", flush=True)
        if found and found[0][0][0] != "interpreter" and shrink:
            from tests.fuzz.shrink import report
            print(report(program, found[0][0], found[0][1], keep), flush=True)
        if (done + 1) % 100 == 0:
            print(f"{done + 1} programs, {failed} failed, {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    return count, runs, failed


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--damaged", type=int, default=-1, help="default: ten times as many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=0.0, metavar="MINUTES", help="stop each part after this long")
    parser.add_argument("--no-shrink", action="store_true", help="report failures without cutting them down")
    parser.add_argument("--keep", type=pathlib.Path, default=pathlib.Path("build/fuzz"), help="where what fails goes")
    a = parser.parse_args(argv)
    start = time.perf_counter()
    count, runs, failed = programs(a.programs, a.seed, a.keep, a.limit * 60, not a.no_shrink)
    print(f"{count} programs, {runs} compiled and run, {failed} failed, {time.perf_counter() - start:.0f} s", flush=True)
    wanted = 10 * a.programs if a.damaged < 0 else a.damaged
    trouble = 0
    if wanted:
        arguments = ["--count", str(wanted), "--seed", str(a.seed), "--keep", str(a.keep), "--limit", str(a.limit)]
        trouble = damage.main(arguments)
    return int(bool(failed or trouble))


if __name__ == "__main__":
    sys.exit(main())
