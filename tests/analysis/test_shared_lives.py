"""What SharedLives says while passes change a function is what a plan made anew says."""
from __future__ import annotations

from typing import Any

import pytest

from bench import growth
from tileiras.analysis import shared_lives
from tileiras.analysis.shared_memory import plan_shared_memory
from tileiras.compiler import lower
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target

KINDS = ("mixed in shared memory", "products", "loops", "loops of products", "transposes")


@pytest.mark.parametrize("gpu_name", ["sm_75", "sm_80", "sm_90", "sm_100"])
def test_sizes_are_those_of_a_plan_made_anew(gpu_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    kept = shared_lives.SharedLives.size.fget
    assert kept is not None

    def size(lives: Any) -> int:
        nonlocal asked
        asked += 1
        found = kept(lives)
        assert found == plan_shared_memory(lives.func).size
        return found

    beside = shared_lives.SharedLives.beside

    def checked(lives: Any, loop: Any, without: Any) -> int:
        found = beside(lives, loop, without)
        assert found == beside(shared_lives.SharedLives(lives.func), loop, without)
        assert found <= kept(lives)
        return found
    monkeypatch.setattr(shared_lives.SharedLives, "size", property(size))
    monkeypatch.setattr(shared_lives.SharedLives, "beside", checked)
    for kind in KINDS:
        lower(growth.program(60, kind), CompileOptions(find_target(gpu_name)))
    assert asked


def test_questions_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where much was asked, what only saves memory is left."""
    monkeypatch.setattr(shared_lives, "MOST_PLACED", 0)
    assert lower(growth.program(60, "products"), CompileOptions(find_target("sm_90")))
