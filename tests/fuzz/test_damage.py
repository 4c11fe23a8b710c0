"""A small fixed campaign of damaged files; `python -m tests.fuzz.damage` runs large ones, tests/kernels more of bytes."""
from __future__ import annotations

import pathlib

import pytest

from tests.fuzz.bytecode import HOSTILE
from tests.fuzz.damage import altered, answer, campaign
from tests.fuzz.generate import Limits, generate
from tileiras.bytecode import write
from tileiras.errors import BytecodeError


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files_get_a_documented_answer(seed: int) -> None:
    answers = campaign(120, 500 + 1000 * seed)
    assert answers.trouble == []
    assert sum(answers.codes.values()) == 120 and answers.codes[BytecodeError.exit_code] > 40


@pytest.mark.parametrize("name", list(HOSTILE))
def test_hostile_files_through_the_command(name: str, tmp_path: pathlib.Path) -> None:
    code, wrong = answer(HOSTILE[name](), tmp_path, "sm_90", 3)
    assert wrong == "" and code in (0, BytecodeError.exit_code)


def test_damage_is_the_same_every_time() -> None:
    data = write(generate(3, Limits(8, 64)).module, "13.4")
    assert list(altered(data, 5, 10)) == list(altered(data, 5, 10))


def test_an_undocumented_answer_is_seen(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tileiras.driver import main
    data = write(generate(3, Limits(8, 64)).module, "13.4")
    for answered, wrong in ((0, "output is missing"), (5, "without a diagnostic"), (7, "exit 7")):
        monkeypatch.setattr(main, "main", lambda arguments, answered=answered: answered)
        assert wrong in answer(data, tmp_path, "sm_90", 3)[1]

    def broken(arguments: list[str]) -> int:
        raise ValueError("a bug")
    monkeypatch.setattr(main, "main", broken)
    assert answer(data, tmp_path, "sm_90", 3)[1] == "ValueError: a bug"
