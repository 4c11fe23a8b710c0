"""Programs that nest deeply: where the stack for them comes from.

Reader, verifier, passes and printers call themselves for what is nested. A few dozen levels fit the stack and the limit
of calls that every Python has; a program of more is compiled in a thread with a stack of its own, for as many levels as
a file of its size can hold. So the file's size is the bound, and beyond `MOST_LEVELS` a program is refused.
"""
from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

from tileiras.errors import BytecodeError, CompileError

ORDINARY_LEVELS = 64
"""Levels that need no stack of their own."""
MOST_LEVELS = 1 << 14
_BYTES_PER_LEVEL = 6
"""A nested operation is at least its opcode, its results, its regions, their blocks, arguments and operations."""
_CALLS_PER_LEVEL = 30
_STACK_PER_LEVEL = 32 << 10
_ORDINARY_CALLS = 2000
_ORDINARY_STACK = 16 << 20
"""What one level takes, of calls and of bytes of stack, in the pass that takes most; and what is needed besides."""

T = TypeVar("T")
_here = threading.local()
_lock = threading.Lock()
_limits: list[int] = []
"""The limits of calls that deep threads asked for; the first is what was there before them."""


class NestedTooDeeply(BytecodeError):
    """A program that nests deeper than there is stack for where it is read."""


def levels() -> int:
    """How many levels may be read here."""
    return getattr(_here, "levels", ORDINARY_LEVELS)


def with_room(function: Callable[[], T], size: int) -> T:
    """`function()`, which reads a program of `size` bytes; again in a thread of its own where it runs out of levels.

    Raises what `function` raises; CompileError where even that thread has too little stack.
    """
    if hasattr(_here, "levels"):
        return function()
    try:
        return function()
    except (NestedTooDeeply, RecursionError):
        return _deep(function, min(size // _BYTES_PER_LEVEL + 1, MOST_LEVELS))


def _deep(function: Callable[[], T], allowed: int) -> T:
    results: list[T] = []
    problems: list[BaseException] = []

    def run() -> None:
        _here.levels = allowed
        try:
            results.append(function())
        except RecursionError:
            problems.append(CompileError("the program nests too deeply to be compiled here"))
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=run, name="tileiras-deep", daemon=True)
    limit = _ORDINARY_CALLS + allowed * _CALLS_PER_LEVEL
    with _lock:
        if not _limits:
            _limits.append(sys.getrecursionlimit())
        _limits.append(limit)
        sys.setrecursionlimit(max(_limits))
        before = threading.stack_size(_ORDINARY_STACK + allowed * _STACK_PER_LEVEL)
        try:
            thread.start()
        except RuntimeError:
            problems.append(CompileError("there is no memory for the stack that this program's nesting needs"))
        finally:
            threading.stack_size(before)
    try:
        if not problems:
            thread.join()
    finally:
        with _lock:
            _limits.remove(limit)
            sys.setrecursionlimit(max(_limits))
            if len(_limits) == 1:
                _limits.clear()
    if problems:
        raise problems[0]
    return results[0]
