"""The table of command lines (`command_lines.txt`): how a row is read, run and compared.

    $ ok.bc --gpu-name sm_75               the line, as a shell would split it; VARIABLE=value may stand before it
    exit 0, writes elf.o                   exit code, what kind of text standard output begins with, new files
    | error: ...                           standard error
    # sm_75 is ours                        why the original differs; then what it does
    original: exit 1
    | ...

WHERE stands for the folder that the command ran in. Texts were taken from runs of NVIDIA's tileiras 13.5.
"""
from __future__ import annotations

import pathlib
import re
import shlex
from dataclasses import dataclass, field

TABLE = pathlib.Path(__file__).with_name("command_lines.txt")
_RESULT = re.compile(r"(original: )?exit (\d+)(?:, prints (\w+))?(?:, writes (.*))?")
KINDS = {"help": b"OVERVIEW: tileiras: ", "version": b"tileiras: ", "versions": b"13.1\n13.2\n13.3\n13.4\n", "cubin": b"\x7fELF",
         "remarks": b"in function: ", "yaml": b"--- !", "ptx": b".version "}
"""What standard output begins with."""


@dataclass(frozen=True)
class Result:
    """What one run did: exit code, kind of text on standard output, names of new files, standard error."""

    code: int
    prints: str
    files: tuple[str, ...]
    errors: str

    @classmethod
    def of(cls, code: int, out: bytes, err: str, files: list[str], where: pathlib.Path) -> Result:
        kind = next((k for k, start in KINDS.items() if out.startswith(start)), out[:40].decode(errors="replace"))
        return cls(code, kind, tuple(sorted(files)), err.replace(str(where), "WHERE").rstrip("\n"))


@dataclass
class Row:
    """One command line, what it does here and what it does in the original."""

    line: str
    ours: Result
    original: Result
    why: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)


def _row(text: str) -> Row:
    line, *rest = text.split("\n")
    results: dict[bool, list[str]] = {}
    why, of_original = "", False
    for part in rest:
        if part.startswith("# "):
            why = part[2:]
        elif part.startswith("| ") or part == "|":
            results[of_original].append(part[2:])
        else:
            match = _RESULT.fullmatch(part)
            assert match is not None, f"{line}: {part}"
            of_original = match.group(1) is not None
            results[of_original] = [part]
    both = {original: _result(lines) for original, lines in results.items()}
    words = shlex.split(line)
    environment: dict[str, str] = {}
    while words and re.match(r"[A-Z_]+=", words[0]):
        name, _, value = words.pop(0).partition("=")
        environment[name] = value
    return Row(line, both[False], both.get(True, both[False]), why, environment, words)


def _result(lines: list[str]) -> Result:
    match = _RESULT.fullmatch(lines[0])
    assert match is not None
    return Result(int(match.group(2)), match.group(3) or "", tuple(sorted(shlex.split(match.group(4) or ""))), "\n".join(lines[1:]))


def rows() -> list[Row]:
    return [_row(block.removeprefix("$").strip(" ")) for block in TABLE.read_text().rstrip("\n").split("\n\n")]
