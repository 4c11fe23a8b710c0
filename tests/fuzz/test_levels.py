"""Campaigns of damaged text of every level: a small fixed one, and one of 5,000 a level among the slow tests."""
from __future__ import annotations

import pathlib

import pytest

from tests.fuzz.generate import Limits, generate
from tests.fuzz.levels import DIALECTS, answer, campaign, lowered, mutants
from tileiras.errors import BytecodeError
from tileiras.pipeline import LEVELS
from tileiras.tools import tileiras_opt

COUNT = 30
MANY = 5000
PARTS = 10
"""Of MANY, each a test, so that several processes share them."""


@pytest.mark.parametrize("level", (*LEVELS, *DIALECTS))
def test_damaged_text_gets_a_documented_answer_with_a_place(level: str) -> None:
    answers = campaign(COUNT, 7000 + 100 * (*LEVELS, *DIALECTS).index(level), levels=(level,))
    assert answers.trouble == []
    assert sum(answers.codes.values()) == COUNT and answers.codes[BytecodeError.exit_code] > COUNT // 2


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("level", (*LEVELS, *DIALECTS))
def test_thousands_of_damaged_texts(level: str, part: int) -> None:
    answers = campaign(MANY // PARTS, 20_000 + 1000 * part, levels=(level,))
    assert answers.trouble == []
    assert sum(answers.codes.values()) == MANY // PARTS


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_printed_is_read_back(level: str, tmp_path: pathlib.Path) -> None:
    text = lowered(generate(11, Limits(8, 64)).module, level, "sm_90", 3)
    assert answer(text, tmp_path, ()) == (0, "")
    assert (tmp_path / "out.mlir").read_text() == text


def test_damage_is_the_same_every_time() -> None:
    text = lowered(generate(3, Limits(8, 64)).module, "nv_tileaa", "sm_90", 0)
    assert list(mutants(text, 5, 10)) == list(mutants(text, 5, 10))


@pytest.mark.parametrize(("text", "place", "message"), [
    ('"builtin.module"() ({\n  "nv_tileaa.nothing"() : () -> ()\n}) : () -> ()', "2:22", "nv_tileaa.nothing is not registered"),
    ('"nv_tileaa.func"() <{sym_name = "k}> ({\n}) : () -> ()', "1:33", "expected '\"' in string literal"),
    ('"nv_tileaa.func"() <{sym_name = "a"}> ({\n^bb0:\n^bb1:\n}) : () -> ()', "1:1", "must have one block, but has 2"),
    ('"nv_tileaa.splat"(%x) : (i32) -> tensor<4xi32>', "1:47", "values used but not defined: [%x]"),
    ('"builtin.module"() ({\n^bb0(%a: i32):\n  "nv_tileaa.func"', "3:19", "'(' expected"),
])
def test_malformed_text_is_answered_at_its_place(text: str, place: str, message: str, tmp_path: pathlib.Path,
                                                 capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "bad.mlir"
    source.write_text(text)
    assert tileiras_opt.main([str(source), "-o", str(tmp_path / "out")]) == BytecodeError.exit_code
    said = capsys.readouterr().err
    assert said.startswith(f'loc("{source}":{place}): error: ') and message in said


def test_an_undocumented_answer_is_seen(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tileiras_opt, "main", lambda arguments: 7)
    assert answer("", tmp_path, ()) == (7, "exit 7")
    monkeypatch.setattr(tileiras_opt, "main", lambda arguments: 3)
    assert answer("", tmp_path, ())[1] == "exit 3 without a diagnostic"

    def broken(arguments: list[str]) -> int:
        raise ValueError("a bug")
    monkeypatch.setattr(tileiras_opt, "main", broken)
    assert answer("", tmp_path, ())[1] == "ValueError: a bug"
