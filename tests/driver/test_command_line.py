"""Command lines: the values that come of them. What is said of wrong ones: the table in `command_lines.txt`."""
from __future__ import annotations

import pathlib

import pytest

from tileiras.driver import command_line
from tileiras.driver.command_line import parse
from tileiras.driver.help import help_text
from tileiras.driver.option_table import HELP, HELP_HIDDEN, HELP_LIST, OPTIONS
from tileiras.driver.options import SWITCHES

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
    ("ok --opt-level=0x2", {"opt-level": 2}),
    ("ok --opt-level=010", {"opt-level": 8}),
    ("ok --opt-level=0b11", {"opt-level": 3}),
    ("ok --opt-level=0o7", {"opt-level": 7}),
    ("ok --opt-level=-0x1", {"opt-level": -1}),
    ("ok -gO0", {"device-debug": True, "opt-level": 0}),
    ("ok -wgO2", {"w": True, "device-debug": True, "opt-level": 2}),
    ("ok -Osize -Om", {"Osize": True, "Om": True}),
    ("ok --maxreg 32", {"maxreg": 32}),
    ("ok --preview=simt,simt", {"preview": "simt,simt"}),
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


@pytest.mark.parametrize("spelling, action", [
    ("--help", "help"), ("-help", "help"), ("-h", "help"), ("-gh", "help"), ("--help-hidden", "help-hidden"),
    ("--help-list", "help-list"), ("--version", "version"), ("--list-versions", "list-versions"),
])
def test_what_acts_where_it_stands(spelling: str, action: str) -> None:
    read = parse(["ok", "--first", spelling, "--second"], "tileiras")
    assert read.action == action
    assert read.errors[0].startswith("tileiras: Unknown command line argument '--first'") and len(read.errors) == 2


def test_messages_show_the_program_as_it_was_called() -> None:
    read = parse(["--bogus"], "/opt/cuda/bin/tileiras")
    assert read.errors[0] == "tileiras: Unknown command line argument '--bogus'.  Try: '/opt/cuda/bin/tileiras --help'"


def test_help_names_every_option_and_gpu() -> None:
    text, short = help_text(HELP_HIDDEN), help_text(HELP)
    for option in OPTIONS:
        assert f"-{option.name}" in text and option.help in text
        assert (f"  --{option.name} " in short or f"  -{option.name} " in short or f"-{option.name}=<" in short
                or f"-{option.name} <" in short) == (not option.hidden)
    for sm in (75, 80, 86, 87, 88, 89, 90, 100, 103, 107, 110, 120, 121):
        assert f"=sm_{sm} " in short
    assert max(map(len, text.splitlines())) < 140
    [without] = [option.help for option in OPTIONS if option.name == "without"]
    assert without.split(": ")[1].split(", ") == list(SWITCHES)


def test_the_list_of_options_is_sorted() -> None:
    names = [line.split()[0].lstrip("-").split("=")[0] for line in help_text(HELP_LIST).splitlines() if line.startswith("  -")]
    assert names == sorted(names) and "maxreg" not in names and "gpu-name" in names


def test_a_dash_is_a_file_name() -> None:
    assert parse(["-"], "tileiras").input == "-"
    assert parse(["--", "-x"], "tileiras").input == "-x"


WORDS = [
    # what a response file holds, the words that it stands for
    ("a b\tc\r\nd", ["a", "b", "c", "d"]),
    ("'a b' \"c d\" e'f'\"g\"h", ["a b", "c d", "efgh"]),
    (r"a\ b \'c \\ 'd\'e' x\\", ["a b", "'c", "\\", "d'e", "x\\"]),
    ("'open to the end", ["open to the end"]),
    ("''", [""]),
    ("", []),
    ("\ufeffa", ["a"]),
    ("ä\udcff", ["ä\udcff"]),
]


@pytest.mark.parametrize("text, words", WORDS, ids=[repr(text) for text, _ in WORDS])
def test_words_of_a_response_file(text: str, words: list[str], tmp_path: pathlib.Path) -> None:
    file = tmp_path / "words"
    file.write_bytes(text.encode(errors="surrogateescape"))
    assert command_line._expanded(["-x", f"@{file}", "-y"]) == ["-x", *words, "-y"]


def test_response_files_that_grow_without_end_are_refused(tmp_path: pathlib.Path) -> None:
    for i in range(40):  # 2 to the 40th words
        (tmp_path / f"r{i}").write_text(f"@{tmp_path}/r{i + 1} @{tmp_path}/r{i + 1}")
    (tmp_path / "r40").write_text("-g")
    assert parse([f"@{tmp_path}/r0"], "tileiras").errors == ["response files name more than 1024 files"]
    (tmp_path / "long").write_text("-g " * 70_000)
    assert parse([f"@{tmp_path}/long"], "tileiras").errors == ["response files hold more than 65536 words"]


def test_a_response_file_may_be_named_twice_but_not_inside_itself(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").write_text(f"@{tmp_path}/b @{tmp_path}/b")
    (tmp_path / "b").write_text("-g")
    assert parse([f"@{tmp_path}/a"], "tileiras").errors == []
    (tmp_path / "b").write_text(f"@{tmp_path}/../{tmp_path.name}/a")
    [error] = parse([f"@{tmp_path}/a"], "tileiras").errors
    assert error.startswith("recursive expansion of: ")
