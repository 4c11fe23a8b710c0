"""Do compiled random programs compute what the interpreter says? Campaigns, and what is left of a program that fails.

    python -m tests.fuzz.programs --count 300 --seed 1000
    python -m tests.fuzz.programs --seed 1234 --count 1 --show

Each program goes through the bytecode's writer and reader, is run by the interpreter, and is compiled for several SMs
at -O0 and -O3 and run in the simulator (in five orders where something is asynchronous); all arrays must agree, bit for
bit but for which NaN. A program that fails is cut down by `tests.fuzz.shrink` and, with --keep, written to a folder as
bytecode and text.
"""
from __future__ import annotations

import argparse
import contextlib
import pathlib
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import tileiras
from tests.fuzz.generate import Limits, Program, generate
from tests.fuzz.pipelines import pipelined
from tests.ptx import ORDERS, is_asynchronous
from tileiras import interp
from tileiras.bytecode import write
from tileiras.sim import simulate

Config = tuple[str, int]
CONFIGS: tuple[Config, ...] = (("sm_80", 0), ("sm_80", 3), ("sm_90", 0), ("sm_90", 3))
VERSION = "13.4"


class TimedOut(Exception):
    """A step took too long."""


@contextlib.contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise TimedOut in the main thread after this many seconds."""
    def expired(*_: Any) -> None:
        raise TimedOut(f"more than {seconds} s")
    before = signal.signal(signal.SIGALRM, expired)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def copies(arguments: Sequence[Any]) -> list[Any]:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]


def difference(got: Sequence[Any], want: Sequence[Any], loose: Mapping[int, float] | None = None) -> str:
    """The first array that differs, and where; empty if none does. `loose`: errors allowed, relative to max(1, value)."""
    for i, (a, b) in enumerate(zip(got, want)):
        if not isinstance(a, np.ndarray) or a.tobytes() == b.tobytes():
            continue
        same = a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}")
        if a.dtype.kind not in "biu":
            with np.errstate(all="ignore"):
                x, y = a.astype(np.float64), b.astype(np.float64)
                same |= np.isnan(x) & np.isnan(y)
                if loose and i in loose:
                    same |= np.abs(x - y) <= loose[i] * np.maximum(1.0, np.abs(y))
        if not same.all():
            at = int(np.argmin(same))
            return f"argument {i}: {int((~same).sum())} of {a.size} differ, first [{at}]: got {a[at]}, expected {b[at]}"
    return ""


def reference(bytecode: bytes, grid: Sequence[int], arguments: Sequence[Any]) -> list[Any]:
    """The arguments as the interpreter leaves them."""
    out = copies(arguments)
    with np.errstate(all="ignore"):
        interp.run(bytecode, "kernel", grid, out, max_iterations=5000)
    return out


def failure(bytecode: bytes, grid: Sequence[int], arguments: Sequence[Any], want: Sequence[Any], config: Config,
            seconds: int = 60, emit: str = "ptx", loose: Mapping[int, float] | None = None) -> str:
    """What is wrong with the compiled program, as `kind: detail`; empty if nothing is."""
    stage = "compile"
    try:
        with time_limit(seconds):
            compiled = tileiras.compile(bytecode, config[0], config[1], emit=emit)
            stage = "simulate"
            for order in ORDERS if is_asynchronous(compiled.ptx) else (0,):
                got = copies(arguments)
                with np.errstate(all="ignore"):
                    report = simulate(compiled.ptx, kernel="kernel", grid=grid, args=got, seed=order)
                if report.findings:
                    return f"finding: {report.findings[0]}".splitlines()[0]
                found = difference(got, want, loose)
                if found:
                    return f"mismatch: {found}"
    except KeyboardInterrupt:
        raise
    except Exception as error:          # whatever goes wrong is a finding
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        return f"{stage}: {text} ({pathlib.Path(where.filename).name}:{where.lineno})"
    return ""


def check(program: Program, configs: Sequence[Config] = CONFIGS, emit: str = "ptx") -> list[tuple[Config, str]]:
    """All failures of a program, by configuration; ("interpreter", 0) where there's no reference."""
    try:
        with time_limit(60):
            bytecode = write(program.module, VERSION)
            want = reference(bytecode, program.grid, program.arguments())
    except KeyboardInterrupt:
        raise
    except Exception as error:
        return [(("interpreter", 0), f"{type(error).__name__}: {error}")]
    found = []
    for config in configs:
        wrong = failure(bytecode, program.grid, program.arguments(), want, config, emit=emit, loose=program.loose)
        if wrong:
            found.append((config, wrong))
    return found


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.programs", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="the first program's seed")
    parser.add_argument("--count", type=int, default=100, help="how many seeds, one after another")
    parser.add_argument("--gpu", action="append", help="an SM (repeatable; default: sm_80 and sm_90)")
    parser.add_argument("--level", action="append", type=int, help="an optimization level (repeatable; default: 0, 3)")
    parser.add_argument("--loops", action="store_true", help="loops that want pipelines (tests/fuzz/pipelines.py)")
    parser.add_argument("--ops", type=int, default=Limits().ops, help="about how many ops a program has at its top")
    parser.add_argument("--elements", type=int, default=Limits().elements, help="elements that most tiles have at most")
    parser.add_argument("--cubin", action="store_true", help="run ptxas too")
    parser.add_argument("--no-shrink", action="store_true", help="report failures without cutting them down")
    parser.add_argument("--show", action="store_true", help="print each program")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for what is left of programs that fail")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    options = parse_arguments(argv)
    configs = [(gpu, level) for gpu in options.gpu or ("sm_80", "sm_90")
               for level in (options.level if options.level is not None else (0, 3))]
    limits, failures, start = Limits(options.ops, options.elements), 0, time.perf_counter()
    for seed in range(options.seed, options.seed + options.count):
        program = pipelined(seed) if options.loops else generate(seed, limits)
        if options.show:
            print(program.module)
        found = check(program, configs, "cubin" if options.cubin else "ptx")
        failures += bool(found)
        for config, wrong in found:
            print(f"seed {seed} {config[0]} -O{config[1]}: {wrong}", flush=True)
        if found and found[0][0][0] != "interpreter" and not options.no_shrink:
            from tests.fuzz.shrink import report
            print(report(program, found[0][0], found[0][1], options.keep), flush=True)
        if (seed + 1 - options.seed) % 50 == 0:
            print(f"{seed + 1 - options.seed} programs, {failures} failed", file=sys.stderr, flush=True)
    print(f"{options.count} programs, {failures} failed, {time.perf_counter() - start:.0f} s")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
