"""What the text tools share: reading and writing files, saying errors, command lines with LLVM's single dashes."""
from __future__ import annotations

import argparse
import os
import sys
from typing import NoReturn

from tileiras.errors import CompileError, InputError, TileirasError, UsageError

PROGRAM_ERRORS = (TileirasError, RecursionError, MemoryError, BrokenPipeError)
"""What a tool reports in a line instead of a traceback."""


class Arguments(argparse.ArgumentParser):
    """A parser that refuses abbreviations, and a malformed command line with exit code 1."""

    def __init__(self, **options: str) -> None:
        super().__init__(allow_abbrev=False, **options)  # pyright: ignore[reportArgumentType]

    def error(self, message: str) -> NoReturn:
        self.exit(UsageError.exit_code, f"{self.prog}: {message}.  Try: '{self.prog} --help'\n")


class ShowVersion(argparse.Action):
    """`--version`: the text that `tileiras --version` shows."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from tileiras.driver.version_text import version_text

        sys.stdout.write(version_text())
        parser.exit(0)


def add_language(parser: argparse.ArgumentParser) -> None:
    """`--language=13.3`: the edition of the language to hold a program to."""
    from tileiras.dialects.cuda_tile.edition import EDITIONS, NEWEST, Edition

    editions = {f"{major}.{minor}": (major, minor) for major, minor in EDITIONS}
    known = ", ".join(editions)

    def edition(text: str) -> Edition:
        if text not in editions:
            raise argparse.ArgumentTypeError(f"unknown edition '{text}'; known: {known}")
        return editions[text]

    parser.add_argument("--language", type=edition, default=NEWEST, metavar="V",
                        help=f"hold programs to an older edition of the language ({known})")


def read_bytes(path: str) -> bytes:
    """A file's content, standard input's for `-`. Raises InputError."""
    try:
        if path == "-":
            return sys.stdin.buffer.read()
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise InputError(f"unable to read input file '{path}': {error.strerror}") from error


def write_bytes(path: str, data: bytes) -> None:
    """Write a file, standard output for `-`. Raises InputError."""
    try:
        if path == "-":
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        else:
            with open(path, "wb") as file:
                file.write(data)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"unable to write output file '{path}': {error.strerror}") from error


def write_text(path: str, text: str) -> None:
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def report(error: BaseException) -> int:
    """Say what went wrong; the exit code."""
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return InputError.exit_code
    if isinstance(error, TileirasError):
        print(error.render(), file=sys.stderr)
        return error.exit_code
    what = "out of memory" if isinstance(error, MemoryError) else "the input is nested too deeply"
    print(f"error: {what}", file=sys.stderr)
    return CompileError.exit_code
