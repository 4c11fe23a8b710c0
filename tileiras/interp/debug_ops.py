"""What print and assert do: formatted text to the launch's output, and an error for a false element."""
from __future__ import annotations

import re
from typing import Any

import numpy as np

from tileiras.interp import integers
from tileiras.interp.errors import AssertionFailed, InterpreterError
from tileiras.interp.formats import IntFormat
from tileiras.interp.registry import Run, meaning, tile_format

_CONVERSION = re.compile(r"%(?P<flags>[-+ #0]*\d*(?:\.\d+)?)(?:hh|h|ll|l|L|j|z|t)?(?P<kind>[a-zA-Z%])")
_UNSIGNED = "ouxX"


@meaning("print_tko", block=True)
def print_tko(op: Any) -> Run:
    """C's printf; a tile of more than one element prints as a bracketed list (the language doesn't say how)."""
    pieces = _parse(op.str.data)
    formats = [tile_format(v.type) for v in op.args]
    if sum(isinstance(p, tuple) for p in pieces) != len(formats):
        raise InterpreterError(f"{len(formats)} values for the format {op.str.data!r}")

    def run(block: Any, args: tuple[Any, ...], token: Any) -> Any:
        values = iter(zip(args, formats))
        block.launch.output("".join(p if isinstance(p, str) else _shown(*next(values), *p) for p in pieces))
    return run


def _parse(text: str) -> list[str | tuple[str, str]]:
    """Text and (flags, kind) conversions in turn."""
    pieces: list[str | tuple[str, str]] = []
    at = 0
    for found in _CONVERSION.finditer(text):
        pieces.append(text[at:found.start()])
        pieces.append("%" if found["kind"] == "%" else (found["flags"], found["kind"]))
        at = found.end()
    return [*pieces, text[at:]]


def _shown(value: Any, fmt: Any, flags: str, kind: str) -> str:
    if isinstance(fmt, IntFormat):
        numbers = integers.valued(value, fmt, "unsigned" if kind in _UNSIGNED else "signed").tolist()
    else:
        numbers = np.asarray(value).astype(np.uint64 if fmt.name == "ptr" else np.float64).tolist()

    def one(number: Any) -> str:
        if isinstance(number, list):
            return "[" + ", ".join(one(n) for n in number) + "]"
        if kind in "aA":
            return float(number).hex() if kind == "a" else float(number).hex().upper()
        if kind in "di" + _UNSIGNED + "c":
            return f"%{flags}{kind.replace('u', 'd')}" % int(number) if number == number else "nan"
        if kind in "eEfFgG":
            return f"%{flags}{kind}" % number
        return f"{int(number):#x}" if kind == "p" else str(number)
    return one(numbers)


@meaning("assert", block=True)
def assert_(op: Any) -> Run:
    message = op.message.data

    def run(block: Any, condition: Any) -> Any:
        condition = np.asarray(condition)
        if not condition.all():
            where = [tuple(int(i) for i in at) for at in np.argwhere(~condition)[:4]]
            places = f" at {', '.join(map(str, where))}" if condition.ndim else ""
            raise AssertionFailed(f"assertion failed in block {block.index}{places}: {message}")
    return run
