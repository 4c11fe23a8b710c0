"""Command lines: what is accepted, what is said, and the exit code.

The table's texts and acceptance are those of NVIDIA's tileiras 13.5, tried one by one; where this program
differs on purpose, the row says so.
"""
from __future__ import annotations

import pathlib

import pytest

from tileiras.driver.command_line import OPTIONS, help_text, parse

UNKNOWN = "Unknown command line argument '{0}'.  Try: 'tileiras --help'"
BAD_CHOICE = "for the --{0} option: Cannot find option named '{1}'!"
TOO_MANY = "Too many positional arguments specified!\nCan specify at most 1 positional arguments: See: tileiras --help"

ACCEPTED: list[tuple[str, dict[str, object]]] = [
    ("ok --gpu-name sm_90 -o out", {"gpu-name": "sm_90", "output-file": "out"}),
    ("ok -gpu-name sm_90 -o=out", {"gpu-name": "sm_90", "output-file": "out"}),
    ("ok --arch sm_90 --output-file out", {"gpu-name": "sm_90", "output-file": "out"}),
    ("ok --arch=sm_90 --output-file=out -O3", {"gpu-name": "sm_90", "output-file": "out", "opt-level": 3}),
    ("ok --opt-level 2", {"opt-level": 2}),
    ("ok --opt-level=0", {"opt-level": 0}),
    ("ok -opt-level=1", {"opt-level": 1}),
    ("ok -O7", {"opt-level": 7}),  # refused later, with exit code 2
    ("ok -O-1", {"opt-level": -1}),
    ("ok -O 2", {"opt-level": 2}),  # the original wants -O2
    ("ok -O1 -O2", {"opt-level": 2}),
    ("ok -o a -o b", {"output-file": "b"}),
    ("ok --gpu-name sm_90 --gpu-name sm_80", {"gpu-name": "sm_80"}),
    ("ok -g", {"device-debug": True}),
    ("ok --device-debug=true", {"device-debug": True}),
    ("ok --lineinfo", {"lineinfo": True}),
    ("ok --lineinfo=false", {"lineinfo": False}),
    ("ok --lineinfo --lineinfo", {"lineinfo": True}),
    ("ok --gpu-name sm_75", {"gpu-name": "sm_75"}),  # the original begins at sm_80
    ("ok --host-arch x86_64 --host-os linux", {"host-arch": "x86_64", "host-os": "linux"}),
    ("ok --host-arch=aarch64 --host-os=windows", {"host-arch": "aarch64", "host-os": "windows"}),
    ("ok --host-arch=arm64ec", {"host-arch": "arm64ec"}),  # 13.1 took it
    ("ok --sanitize=memcheck", {"sanitize": "memcheck"}),
    ("ok --sanitize memcheck", {"sanitize": "memcheck"}),
    ("ok --remarks=all --remark-format=yaml --remarks-output-file=r.yaml",
     {"remarks": "all", "remark-format": "yaml", "remarks-output-file": "r.yaml"}),
    ("ok --remarks-passed=memory", {"remarks-passed": "memory"}),
    ("--gpu-name sm_90 -- ok", {"gpu-name": "sm_90"}),
    ("ok --emit=ptx --verify-each --pass-timing --print-ir-after-all",
     {"emit": "ptx", "verify-each": True, "pass-timing": True, "print-ir-after-all": True}),
    ("ok --print-ir-after=cse,dce", {"print-ir-after": "cse,dce"}),
]


@pytest.mark.parametrize("line, values", ACCEPTED, ids=[line for line, _ in ACCEPTED])
def test_accepted(line: str, values: dict[str, object]) -> None:
    read = parse(line.split(), "tileiras")
    assert (read.errors, read.input, read.values) == ([], "ok", values)


REFUSED: list[tuple[str, list[str]]] = [
    ("ok -oo", ["for the -o option: may not occur within a group!", UNKNOWN.format("-oo"), "Did you mean '-o'?"]),
    ("ok -og", ["for the -o option: may not occur within a group!", UNKNOWN.format("-og"), "Did you mean '-o'?"]),
    ("ok -z", [UNKNOWN.format("-z"), "Did you mean '-O'?"]),  # the original guesses -l, which isn't here
    ("ok --lineinf", [UNKNOWN.format("--lineinf"), "Did you mean '--lineinfo'?"]),
    ("ok -O=2", ["for the --opt-level option: '=2' value invalid for integer argument!"]),
    ("ok -Ox", ["for the --opt-level option: 'x' value invalid for integer argument!"]),
    ("ok -O", ["for the -O option: requires a value!"]),
    ("ok -O -o out", ["for the -O option: requires a value!"]),
    ("ok --lineinfo=maybe", ["for the --lineinfo option: 'maybe' is invalid value for boolean argument! Try 0 or 1"]),
    ("ok --gpu-name sm_90a", [BAD_CHOICE.format("gpu-name", "sm_90a")]),
    ("ok --gpu-name sm_999", [BAD_CHOICE.format("gpu-name", "sm_999")]),
    ("ok --gpu-name=", [BAD_CHOICE.format("gpu-name", "")]),
    ("ok --gpu-name", ["for the --gpu-name option: requires a value!"]),
    ("ok --gpu-name -o out", [BAD_CHOICE.format("gpu-name", "-o"), TOO_MANY]),
    ("ok --host-arch=mips", [BAD_CHOICE.format("host-arch", "mips")]),
    ("ok --host-os=macos", [BAD_CHOICE.format("host-os", "macos")]),
    ("ok --sanitize=racecheck", [BAD_CHOICE.format("sanitize", "racecheck")]),
    ("ok --remarks=bogus", [BAD_CHOICE.format("remarks", "bogus")]),
    ("ok other", [TOO_MANY]),
]


@pytest.mark.parametrize("line, errors", REFUSED, ids=[line for line, _ in REFUSED])
def test_refused(line: str, errors: list[str]) -> None:
    assert parse(line.split(" "), "tileiras").errors == errors


@pytest.mark.parametrize("spelling", ["--help", "-help", "-h", "--help-hidden", "--help-list"])
def test_help_wins(spelling: str) -> None:
    assert parse(["ok", spelling, "--bogus"], "tileiras").flag("help")


def test_help_names_every_option_and_gpu() -> None:
    text = help_text()
    for option in OPTIONS:
        assert option.name in text and option.help in text
    for sm in (75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121):
        assert f"=sm_{sm} " in text
    assert max(map(len, text.splitlines())) < 140


def test_a_dash_is_a_file_name(tmp_path: pathlib.Path) -> None:
    assert parse(["-"], "tileiras").input == "-"
    assert parse(["--", "-x"], "tileiras").input == "-x"
