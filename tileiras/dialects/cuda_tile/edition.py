"""Which edition of the language texts and diagnostics speak: the newest, unless a tool is told otherwise.

`tileiras-opt --language=13.3` holds a program to the public definition of that version: types that came later aren't
taken or named, conversions have its roundings, ops its names. The compiler itself always speaks the newest.
"""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

Edition = tuple[int, int]

NEWEST: Edition = (13, 4)
EDITIONS: tuple[Edition, ...] = ((13, 1), (13, 2), (13, 3), (13, 4))

TYPES_SINCE: dict[str, Edition] = {"fnv8E5M3FNU": (13, 4), "f8E8M0FNU": (13, 2), "f4E2M1FN": (13, 3), "i4": (13, 3)}
"""Element types that weren't there from the first."""

SPELLINGS: dict[str, tuple[str, Edition]] = {"pow": ("fpowf", (13, 4))}
"""Ops that got another name, and the edition that has it; the parser takes both."""

_current: Edition = NEWEST


def current() -> Edition:
    return _current


def is_before(edition: Edition) -> bool:
    """Whether the edition in force is older than that one."""
    return _current < edition


def has_type(name: str) -> bool:
    """Whether the edition in force has an element type."""
    return TYPES_SINCE.get(name, EDITIONS[0]) <= _current


def spelling(name: str) -> str:
    """An op's name, without its prefix, as the edition in force writes it."""
    found = SPELLINGS.get(name)
    return name if found is None or is_before(found[1]) else found[0]


@contextmanager
def speaking(edition: Edition) -> Iterator[None]:
    """Put an edition in force."""
    global _current
    before, _current = _current, edition
    try:
        yield
    finally:
        _current = before
