"""Programs for measuring growth are what they are said to be, and a program of twice the size takes about twice the steps."""
from __future__ import annotations

import sys
from typing import Any

import pytest

from bench import growth
from tileiras.compiler import lower, read_module
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target
from tileiras.transforms import commit_dots

MOST_OF_TWICE = 2.3
"""Calls of a program twice as long, at most: an exponent of 1.2."""


@pytest.mark.parametrize("kind", growth.KINDS)
def test_programs_have_the_size_asked_for_and_compile(kind: str) -> None:
    least, most = (len(_ops(growth.program(ops, kind))) for ops in (100, 200))
    assert 80 <= most - least <= 160        # yields and continues come on top, a part of a group may be missing
    spent = growth.seconds(growth.program(60, kind), "sm_90", whole=False)
    assert {"assign-load-store-layouts", "convert-tileas-to-llvm"} <= spent.keys()


@pytest.mark.parametrize("kind", ["mixed", "transposes", "loops", "loops of products"])
def test_steps_grow_with_the_program(kind: str) -> None:
    calls = [_calls(growth.program(ops, kind)) for ops in (200, 200, 400)]
    assert calls[2] < MOST_OF_TWICE * calls[1]


def test_what_products_on_their_way_use_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, ask = [0], commit_dots.pipe_of

    def counted(buffer: Any) -> Any:
        calls[-1] += 1
        return ask(buffer)
    monkeypatch.setattr(commit_dots, "pipe_of", counted)
    for ops in (100, 200):
        calls.append(0)
        lower(growth.program(ops, "products into one sum"), CompileOptions(find_target("sm_100")))
    assert 0 < calls[2] < MOST_OF_TWICE * calls[1]


def _ops(data: bytes) -> list[str]:
    return [op.name for op in read_module(data, CompileOptions(find_target("sm_90"))).walk()]


def _calls(data: bytes) -> int:
    """Function calls of a compile to LLVM IR text, which don't depend on the machine."""
    count = 0

    def tell(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")
    options = CompileOptions(find_target("sm_90"))
    before = sys.getprofile()
    sys.setprofile(tell)
    try:
        lower(data, options)
    finally:
        sys.setprofile(before)
    return count
