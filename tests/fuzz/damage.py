"""Damaged files through the whole compiler: none may crash it, hang it, or get anything but a documented answer.

    python -m tests.fuzz.damage --count 10000 --seed 0 --keep build/damage

Files are those of the kernel suite and of random programs, with bytes changed (`tests.fuzz.bytecode`) or with ops changed
before they are written (`altered`), which gets further. Each goes through the command `tileiras` for one SM and level
after another. The exit code must be documented; 0 comes with an output file and anything else with a diagnostic; an
`internal error`, a traceback, running out of memory, and more than some seconds are failures.
"""
from __future__ import annotations

import argparse
import collections
import contextlib
import io
import pathlib
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, Operation

from tests.fuzz.bytecode import mutations
from tests.fuzz.generate import Limits, generate
from tileiras.bytecode import read, write
from tileiras.dialects.cuda_tile import attrs, types

DOCUMENTED = {0, 1, 2, 3, 4, 5}
"""0 compiled; 1 command line; 2 configuration; 3 bytecode; 4 files; 5 compilation (tileiras/errors.py)."""
SECONDS = 10
MEMORY = 12 << 30
SMS = ("sm_90", "sm_80", "sm_100", "sm_75", "sm_120", "sm_89")
LEVELS = (3, 0, 1, 2)
EXTRAS: tuple[tuple[str, ...], ...] = ((), ("--lineinfo",), (), ("--remarks=all",), (), ("--sanitize=memcheck",), ())
"""More options; `-g` goes with -O0."""
BATCH = 20
"""How many damaged copies of one file."""


class TooSlow(BaseException):
    """No part of the compiler may catch it."""


@dataclass
class Answers:
    """How the command answered, and what it should not have."""

    codes: collections.Counter[int] = field(default_factory=collections.Counter)
    trouble: list[str] = field(default_factory=list)
    count: int = 0

    def note(self, code: int, trouble: str, progress: bool, keep: pathlib.Path | None, name: str, damaged: bytes) -> None:
        """One more answer. What is in `trouble` (if anything is) is told, where there is `progress`, and kept by that name."""
        self.codes[code] += 1
        self.count += 1
        if not trouble:
            return
        self.trouble.append(trouble)
        if progress:
            print(trouble, flush=True)
        if keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            (keep / name).write_bytes(damaged)


def bounded(command: Callable[[], int], seconds: int, of_processor: bool = False) -> tuple[int, str, str]:
    """Run a command in this process: (exit code, what it said on standard error, what is wrong with how it ended).
    `of_processor`: other work on the machine doesn't count among the seconds."""
    said = io.StringIO()

    def expired(*_: object) -> None:
        raise TooSlow

    alarm, timer = (signal.SIGPROF, signal.ITIMER_PROF) if of_processor else (signal.SIGALRM, signal.ITIMER_REAL)
    before = signal.signal(alarm, expired)
    signal.setitimer(timer, seconds)
    try:
        with contextlib.redirect_stderr(said):
            code = command()
    except TooSlow:
        return -1, said.getvalue(), f"more than {seconds} s"
    except SystemExit as exit_:
        return -1, said.getvalue(), f"leaves by SystemExit({exit_.code})"
    except Exception as error:
        return -1, said.getvalue(), f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(timer, 0)
        signal.signal(alarm, before)
    return code, said.getvalue(), "" if code in DOCUMENTED else f"exit {code}"


def answer(data: bytes, folder: pathlib.Path, gpu: str, level: int, extra: Sequence[str] = (),
           seconds: int = SECONDS) -> tuple[int, str]:
    """(exit code, what is wrong with the answer) of one file."""
    from tileiras.driver.main import main
    source, out = folder / "damaged.tileirbc", folder / "out.cubin"
    source.write_bytes(data)
    out.unlink(missing_ok=True)
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO(), "utf-8")):
        code, text, wrong = bounded(lambda: main([str(source), "-o", str(out), f"--gpu-name={gpu}", f"-O{level}", *extra]), seconds)
    if wrong:
        return code, wrong
    for sign in ("internal error", "Traceback", "out of memory", "nested too deeply"):
        if sign in text:
            return code, text.strip().splitlines()[0][:300]
    if (code == 0) != out.exists():
        return code, f"exit {code}, but its output {'exists' if out.exists() else 'is missing'}"
    if code and "error: " not in text:
        return code, f"exit {code} without a diagnostic"
    return code, ""


# Ops changed before they are written.

def _other_enum(value: attrs.EnumAttr, rng: random.Random) -> Attribute:
    return type(value)(rng.choice(type(value).CASES))


def _other_type(type_: types.TileType, rng: random.Random) -> Attribute:
    shape = list(type_.shape)
    if shape and rng.random() < 0.6:
        shape[rng.randrange(len(shape))] = rng.choice((1, 2, 3, 4, 16, 64, 1024, 1 << 20))
    elif rng.random() < 0.5:
        shape = [rng.choice((1, 2, 8, 32)) for _ in range(rng.randrange(5))]
    else:
        from tests.interp.build import ELEMENTS
        return types.TileType(shape, rng.choice([*ELEMENTS.values(), types.Float8E5M3FNUType()]))
    return types.TileType(shape, type_.element_type)


def _change(op: Operation, every: Sequence[Operation], rng: random.Random) -> None:
    """One thing of an op: an operand, an attribute, a result's type; or the op goes, or moves."""
    kind = rng.choice(("operand", "operand", "attribute", "attribute", "type", "type", "drop", "swap"))
    if kind == "operand" and op.operands:
        other = rng.choice(every)
        if other.results:
            op.operands[rng.randrange(len(op.operands))] = rng.choice(other.results)
    elif kind == "attribute" and op.properties:
        name = rng.choice(sorted(op.properties))
        value = op.properties[name]
        if isinstance(value, attrs.EnumAttr):
            op.properties[name] = _other_enum(value, rng)
        elif isinstance(value, IntegerAttr):
            op.properties[name] = IntegerAttr(rng.choice((0, 1, 2, 7)), value.type)
        else:
            del op.properties[name]
    elif kind == "type" and op.results:
        result: Any = rng.choice(op.results)
        if isinstance(result.type, types.TileType):
            result._type = _other_type(result.type, rng)
    elif kind == "swap" and op.next_op is not None and op.parent is not None:
        following = op.next_op
        following.detach()
        op.parent.insert_op_before(following, op)
    elif kind == "drop" and op.parent is not None and not any(r.uses for r in op.results):
        op.parent.erase_op(op)


def altered(data: bytes, seed: int, count: int) -> Iterator[bytes]:
    """`count` copies of a file with one to three ops changed, where that can still be written."""
    rng = random.Random(seed)
    for _ in range(count):
        module = read(data)
        every = [op for op in module.walk() if op.name not in ("cuda_tile.module", "cuda_tile.entry")]
        try:
            for _ in range(rng.randint(1, 3)):
                _change(rng.choice(every), every, rng)
            yield write(module)
        except Exception:       # what can't be written is no file
            continue


def sources(seed: int) -> Iterator[tuple[str, bytes]]:
    """Files to damage without end: two of the suite, one random program, and so on."""
    from tests.kernels import runner
    rng = random.Random(seed)
    names = list(runner.cases())
    while True:
        rng.shuffle(names)
        for i, name in enumerate(names):
            version = rng.choice(runner.case_of(name).versions)
            yield f"{name}-{version}", runner.export_case(name, version)
            if i % 2:
                number = rng.randrange(1 << 20)
                yield f"random-{number}", write(generate(number, Limits(16, 256)).module, "13.4")


@contextlib.contextmanager
def bounded_memory() -> Iterator[None]:
    """No more than MEMORY bytes of address space, for this process and those that it starts."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def campaign(count: int, seed: int, keep: pathlib.Path | None = None, limit: float = 0.0,
             progress: bool = False) -> Answers:
    """Damage `count` files. `limit`: stop after so many seconds. Files that make trouble go to `keep`."""
    answers, start = Answers(), time.perf_counter()
    with bounded_memory(), tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for number, (origin, data) in enumerate(sources(seed)):
            way = altered if number % 2 else mutations
            for copy, damaged in enumerate(way(data, seed + number, BATCH)):
                if answers.count >= count or (limit and time.perf_counter() - start > limit):
                    return answers
                gpu, level = SMS[answers.count % len(SMS)], LEVELS[answers.count // len(SMS) % len(LEVELS)]
                extra = EXTRAS[answers.count % len(EXTRAS)] or (("-g",) if level == 0 and answers.count % 2 else ())
                code, wrong = answer(damaged, folder, gpu, level, extra)
                what = f"{origin} {way.__name__} seed {seed + number} copy {copy} {gpu} -O{level} {' '.join(extra)}: {wrong}"
                file = f"{seed + number}-{copy}-{gpu}-O{level}.tileirbc"
                answers.note(code, what if wrong else "", progress, keep, file, damaged)
                if progress and answers.count % 1000 == 0:
                    print(f"{answers.count} files, {len(answers.trouble)} in trouble", file=sys.stderr, flush=True)
    return answers


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.damage", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=0.0, metavar="MINUTES", help="stop after this long")
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for files that make trouble")
    a = parser.parse_args(argv)
    start = time.perf_counter()
    answers = campaign(a.count, a.seed, a.keep, a.limit * 60, progress=True)
    codes = ", ".join(f"{n} exit {c}" for c, n in sorted(answers.codes.items()))
    print(f"{answers.count} damaged files: {codes}; {len(answers.trouble)} in trouble; {time.perf_counter() - start:.0f} s")
    return bool(answers.trouble)


if __name__ == "__main__":
    sys.exit(main())
