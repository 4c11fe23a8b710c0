"""Runs the tests of a checkout of the public Tile IR definition (NVIDIA/cuda-tile) with this project's tools.

    make public PUBLIC=/path/to/cuda-tile
    python -m tests.public.run_public /path/to/cuda-tile [-v] [-k NAME] [--write docs/public-tests.md]

Every `.mlir` file under `test` runs by its own RUN lines: `cuda-tile-opt` is `tileiras-opt`, `cuda-tile-translate` is
`tileiras-translate`, FileCheck the `filecheck` package. Errors and warnings that a file announces are counted beside:
raised at their line, and with equal text. Nothing of the checkout is kept here. Exit code 1 if something fails that
`KNOWN` doesn't name.
"""
from __future__ import annotations

import argparse
import pathlib
import re
import sys
import tempfile
from typing import NamedTuple

from tests.public import shell, suites
from tests.public.known import KNOWN
from tests.public.testing_ops import EXTRA_OPS, installed
from tileiras.dialects.cuda_tile import edition
from tileiras.tools.diagnostics import compare


class Line(NamedTuple):
    """A RUN line and why it failed (empty if it passed)."""

    command: str
    failure: str


class FileResult(NamedTuple):
    """A test: its RUN lines; how many errors and warnings it announces, how many came at their line and with equal
    text; those that didn't."""

    name: str
    lines: list[Line]
    announced: int
    at_line: int
    equal: int
    missed: list[str]


def run_file(path: pathlib.Path, root: pathlib.Path, scratch: pathlib.Path) -> FileResult:
    name = str(path.relative_to(root))
    lines = []
    for command in shell.run_lines(path):
        output = shell.run_pipe(shell.substituted(command, path, scratch / path.stem))
        failure = "" if output.code == 0 else (output.err + output.out).decode(errors="replace").strip() or "failed"
        lines.append(Line(command, failure))
    announced, at_line, equal, missed = announced_errors(path, name, [line.command for line in lines])
    return FileResult(name, lines, announced, at_line, equal, missed)


def announced_errors(path: pathlib.Path, name: str, commands: list[str]) -> tuple[int, int, int, list[str]]:
    """(announced, raised at their line, with equal text, those not equal), for the RUN line that verifies them."""
    command = next((c for c in commands if re.search(r"-verify-diagnostics", c)), None)
    if command is None:
        return 0, 0, 0, []
    settings = shell.settings_of(command, EXTRA_OPS)
    try:
        with edition.speaking(shell.LANGUAGE):
            outcomes, _ = compare(path.read_text(), name, settings)
    except Exception as error:  # a crash is a failure to report, not to stop at
        return 0, 0, 0, [f"{name}: CRASH {type(error).__name__}: {error}"]
    missed = [f"{name}:{o.expected.line}: {o.expected.text}" for o in outcomes if not o.with_its_text]
    return len(outcomes), sum(o.at_its_line for o in outcomes), sum(o.with_its_text for o in outcomes), missed


def run(checkout: pathlib.Path, only: str = "") -> list[FileResult]:
    """Every test of the checkout whose path contains `only`."""
    root = checkout / "test"
    if not root.is_dir():
        raise FileNotFoundError(f"{root} is no folder")
    with tempfile.TemporaryDirectory(prefix="tileiras-public-") as scratch, installed():
        return [run_file(path, root, pathlib.Path(scratch)) for path in sorted(root.rglob("*.mlir"))
                if only in str(path) and shell.run_lines(path)]


def totals(results: list[FileResult]) -> str:
    lines = [line for result in results for line in result.lines]
    announced = sum(r.announced for r in results)
    return (f"{len(results)} files, {sum(not line.failure for line in lines)} of {len(lines)} RUN lines pass; of "
            f"{announced} announced errors and warnings {sum(r.at_line for r in results)} come at their line, "
            f"{sum(r.equal for r in results)} with equal text")


def unexpected(results: list[FileResult]) -> list[str]:
    """What fails without being known, and what is known and passes."""
    out = []
    for result in results:
        failing = any(line.failure for line in result.lines) or bool(result.missed)
        if failing != (result.name in KNOWN):
            out.append(f"{result.name} {'fails' if failing else 'passes, though tests/public/known.py names it'}")
    return out


def as_markdown(results: list[FileResult]) -> str:
    """The page `docs/public-tests.md`."""
    out = ["# The public definition's own tests",
           "Written by `make public PUBLIC=/path/to/cuda-tile` from a checkout of NVIDIA/cuda-tile, of which nothing is kept "
           "here. Every `.mlir` file under `test` runs by its own RUN lines: `cuda-tile-opt` is `tileiras-opt`, "
           "`cuda-tile-translate` is `tileiras-translate`, FileCheck the `filecheck` package. Both tools run with "
           f"`--language={shell.LANGUAGE[0]}.{shell.LANGUAGE[1]}`, the edition that the tests were written for: the newest "
           "one has more types to name in its diagnostics, more roundings, and calls `pow` `fpowf`.",
           f"**{totals(results)}.**",
           "| file | RUN lines passed | errors and warnings announced | at their line | with equal text |\n"
           "|---|---|---|---|---|\n" + "\n".join(
               f"| {r.name} | {sum(not line.failure for line in r.lines)} of {len(r.lines)} | {r.announced or ''} | "
               f"{r.at_line if r.announced else ''} | {r.equal if r.announced else ''} |" for r in results),
           "## What doesn't pass, and why",
           "\n".join(f"- `{r.name}`, {sum(bool(line.failure) for line in r.lines)} of {len(r.lines)} lines: "
                     f"{KNOWN.get(r.name, 'not looked at yet')}." for r in results if any(line.failure for line in r.lines)),
           "Notes and remarks that the tests announce beside errors aren't compared: this project's errors have none. "
           "Python and C tests of the checkout are about bindings and don't apply."]
    return "\n\n".join(out) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="the public Tile IR tests, run with this project's tools")
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("-v", "--verbose", action="store_true", help="say why lines fail")
    parser.add_argument("-k", dest="only", default="", help="only files whose path contains this")
    parser.add_argument("--write", type=pathlib.Path, metavar="FILE", help="write the page about it")
    given = parser.parse_args(arguments)
    try:
        results = run(given.checkout, given.only)
    except FileNotFoundError as error:
        parser.error(str(error))
    for result in results:
        passed = sum(not line.failure for line in result.lines)
        print(f"{result.name:62} RUN {passed}/{len(result.lines)}  announced {result.announced:3}, at their line "
              f"{result.at_line:3}, equal {result.equal:3}")
        for line in result.lines if given.verbose else ():
            if line.failure:
                print(f"    {line.command}\n        " + line.failure[:1500].replace("\n", "\n        "))
        for missed in result.missed if given.verbose else ():
            print(f"    missed: {missed}")
    print(totals(results))
    if given.write is not None:
        given.write.write_text(as_markdown(results) + suites.kept(given.write))
    wrong = unexpected(results)
    print("".join(f"unexpected: {text}\n" for text in wrong), end="")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
