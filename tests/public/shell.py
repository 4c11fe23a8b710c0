"""Running the RUN lines of a public test in this process: pipes of a few commands, each a Python function.

    cuda-tile-opt %s | cuda-tile-opt | FileCheck %s        -> tileiras-opt, twice, and the `filecheck` package
    not cuda-tile-translate ... %s 2>&1 | FileCheck %s
    %round_trip_test %s %t                                 -> text to bytecode to text, against text to text
    diff %t.mlir %t.ref.mlir
"""
from __future__ import annotations

import io
import pathlib
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from filecheck.main import main as filecheck
from xdsl.ir import Operation

from tests.public import testing_passes
from tests.public.testing_ops import EXTRA_OPS
from tileiras.tools import tileiras_opt, tileiras_translate
from tileiras.tools.diagnostics import Settings


class Output(NamedTuple):
    """What a command gave: its exit code, standard output and error."""

    code: int
    out: bytes
    err: bytes


class _Redirected(NamedTuple):
    out: io.BytesIO
    err: io.BytesIO


@contextmanager
def _redirected(stdin: bytes, joined: bool) -> Iterator[_Redirected]:
    """Standard streams in memory; `joined` sends errors where the output goes, in order."""
    out = io.BytesIO()
    streams = _Redirected(out, out if joined else io.BytesIO())
    kept = sys.stdin, sys.stdout, sys.stderr
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), "utf-8")
    sys.stdout = io.TextIOWrapper(streams.out, "utf-8", write_through=True)
    sys.stderr = sys.stdout if joined else io.TextIOWrapper(streams.err, "utf-8", write_through=True)
    try:
        yield streams
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for stream in {id(s): s for s in (sys.stdin, sys.stdout, sys.stderr)}.values():
            stream.detach()
        sys.stdin, sys.stdout, sys.stderr = kept


def run_command(words: list[str], stdin: bytes = b"", joined: bool = False) -> Output:
    """Run one command of the tests by its public name."""
    negated = words[0] == "not"
    name, *arguments = words[negated:]
    command = COMMANDS.get(name)
    if command is None:
        return Output(127, b"", f"no such command: {name}".encode())
    with _redirected(stdin, joined) as streams:
        try:
            code = command(arguments)
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        except Exception as error:  # a crash fails the line, also under `not`
            sys.stderr.write(f"CRASH {type(error).__name__}: {error}\n")
            negated, code = False, 139
    if negated:
        code = int(code == 0)
    return Output(code, streams.out.getvalue(), b"" if joined else streams.err.getvalue())


def run_pipe(line: str) -> Output:
    """Run commands joined by `|`; the exit code is the first that isn't 0, as under lit."""
    code, data, errors = 0, b"", b""
    for part in line.split("|"):
        joined = "2>&1" in part
        output = run_command(shlex.split(part.replace("2>&1", "")), data, joined)
        code, data, errors = code or output.code, output.out, errors + output.err
    return Output(code, data, errors)


def _opt(arguments: list[str]) -> int:
    return tileiras_opt.main([*_known_passes(arguments), *DIALECT], EXTRA_OPS)


def _known_passes(arguments: list[str]) -> list[str]:
    """The arguments with passes named as this project's tool takes them: `--passes=NAME`."""
    out = []
    for argument in arguments:
        name, _, options = argument.lstrip("-").partition("=")
        if name == testing_passes.NAME:
            tileiras_opt.CUDA_TILE_PASSES[name] = testing_passes.update_symbol_name(options)
            argument = f"--passes={name}"
        elif name == "pass-pipeline":
            argument = f"--passes={options.rstrip(')').rpartition('(')[2]}"
        out.append(argument)
    return out


def _translate(arguments: list[str]) -> int:
    return tileiras_translate.main([*arguments, *DIALECT], EXTRA_OPS)


LANGUAGE = (13, 3)
DIALECT = (f"--language={LANGUAGE[0]}.{LANGUAGE[1]}",)
"""What every tool gets besides the RUN line's options: the public tests are the 13.3 definition's."""


def _filecheck(arguments: list[str]) -> int:
    filecheck(["filecheck", *arguments])
    return 0


def _round_trip(arguments: list[str]) -> int:
    """Bytecode's text is the text's own."""
    source, base, *flags = arguments
    bytecode, back, own = base + ".tilebc", base + ".back.mlir", base + ".own.mlir"
    for command in (
            ["cuda-tile-translate", "-mlir-to-cudatilebc", "-no-implicit-module", source, "-o", bytecode],
            ["cuda-tile-translate", "-cudatilebc-to-mlir", bytecode, "-o", back, *flags],
            ["cuda-tile-opt", source, "-no-implicit-module", "-o", own, *flags]):
        code = COMMANDS[command[0]](command[1:])
        if code:
            return code
    return _diff([own, back])


def _diff(arguments: list[str]) -> int:
    import difflib

    first, second = ([line for line in pathlib.Path(name).read_text().splitlines() if line.strip()] for name in arguments)
    difference = list(difflib.unified_diff(first, second, lineterm="", n=0))
    print("\n".join(difference))
    return int(bool(difference))


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "cuda-tile-opt": _opt, "cuda-tile-translate": _translate, "FileCheck": _filecheck,
    "%round_trip_test": _round_trip, "diff": _diff,
}


def run_lines(path: pathlib.Path) -> list[str]:
    """The commands after `// RUN:`, a backslash at a line's end joining the next."""
    lines = re.findall(r"^\s*(?://|#) ?RUN: *(.*)$", path.read_text(errors="replace"), re.MULTILINE)
    joined: list[str] = []
    for line in lines:
        if joined and joined[-1].endswith("\\"):
            joined[-1] = joined[-1][:-1] + line
        else:
            joined.append(line)
    return joined


def substituted(line: str, path: pathlib.Path, scratch: pathlib.Path) -> str:
    """A RUN line with its `%s` (the test), `%S` (its folder) and `%t` (a scratch file)."""
    values = {"s": str(path), "S": str(path.parent), "t": str(scratch)}
    return re.sub(r"%([sSt])(?![A-Za-z_])", lambda m: values[m[1]], line)


def settings_of(command: str, extra_ops: dict) -> Settings:
    """How a tool checks a text's announced errors under a RUN line's options."""
    words = shlex.split(command.split("|")[0])
    then: Callable[[list[Operation]], None] | None = None
    renaming = next((word.partition("=")[2] for word in words if testing_passes.NAME in word), None)
    if renaming is not None:
        rename = testing_passes.update_symbol_name(renaming)
        then = lambda ops: rename(ops[0])  # noqa: E731
    if "cuda-tile-translate" in words:
        version = next((word.partition("=")[2] for word in words if "bytecode-version" in word), None)
        then = tileiras_translate.writer(version)
    return Settings(extra_ops, "-Wunsupported-hints" in words, "-Werr-hints" in words, then)
