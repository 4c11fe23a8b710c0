"""Checking what a text makes the compiler complain about: `// expected-error @below {{text}}`, as MLIR's tools do.

    // expected-error@+2 {{op operand #0 must be}}
    // expected-error-re @below {{got {{[0-9]+}} operands}}

A text is cut at lines `// -----`; every part must give exactly the errors it expects, each at its line. Expected notes,
warnings and remarks are skipped: this project attaches none to errors.
"""
from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from xdsl.ir import Operation

from tileiras.dialects.cuda_tile.asm_parse import TextError, parse_ops
from tileiras.dialects.cuda_tile.debug import source_position
from tileiras.dialects.cuda_tile.op import CudaTileOp
from tileiras.dialects.cuda_tile.ops import Module
from tileiras.dialects.cuda_tile.verify import Verifier
from tileiras.dialects.cuda_tile.verify_error import InvalidOp

SEPARATOR = re.compile(r"^// -----.*$", re.MULTILINE)
_EXPECTED = re.compile(r"expected-error(-re)? *(?:@([+-]\d+|above|below|unknown))? *\{\{(.*?)\}\}(?!\}) *$")


class Complaint(NamedTuple):
    """An error at a line of the whole text (counted from 1; 0 where unknown)."""

    line: int
    message: str


class Expected(NamedTuple):
    """An expected error: its line (0 for any), its text, whether that is a pattern."""

    line: int
    text: str
    is_pattern: bool

    def matches(self, complaint: Complaint) -> bool:
        if self.line and self.line != complaint.line:
            return False
        if not self.is_pattern:
            return self.text in complaint.message
        parts = re.split(r"\{\{(.*?)\}\}", self.text)
        pattern = "".join(re.escape(part) if i % 2 == 0 else f"(?:{part})" for i, part in enumerate(parts))
        return re.search(pattern, complaint.message) is not None


def split(text: str) -> Iterator[tuple[int, str]]:
    """The parts of a text between lines `// -----`, each with the number of lines before it."""
    start = 0
    for match in SEPARATOR.finditer(text):
        yield text.count("\n", 0, start), text[start:match.start()]
        start = match.end()
    yield text.count("\n", 0, start), text[start:]


def expectations(text: str, before: int = 0) -> list[Expected]:
    """The errors that the comments of a text announce."""
    found = []
    lines = text.split("\n")
    for index, line in enumerate(lines):
        match = _EXPECTED.search(line.rstrip())
        if match is not None:
            found.append(Expected(_target(lines, index, match[2], before), match[3], match[1] is not None))
    return found


def _target(lines: list[str], index: int, where: str | None, before: int) -> int:
    """The line that a comment in lines[index] speaks of; above and below skip other such comments."""
    if where == "unknown":
        return 0
    if where in ("above", "below"):
        step = 1 if where == "below" else -1
        index += step
        while 0 <= index < len(lines) and "expected-" in lines[index]:
            index += step
    elif where is not None:
        index += int(where)
    return before + index + 1


def complaints(text: str, file_name: str = "-", before: int = 0,
               extra_ops: Mapping[str, type[CudaTileOp]] | None = None) -> list[Complaint]:
    """What reading and verifying a text complains about: one parse error, or one error an entry."""
    try:
        ops = parse_ops(text, file_name, extra_ops=extra_ops)
    except TextError as error:
        return [Complaint(before + error.line, message) for message in (error.message, *error.also)]
    return [Complaint(before + _line_of(error.op), message) for error in invalid_ops(ops)
            for message in (error.message, *error.also)]


def _line_of(op: Operation) -> int:
    position = source_position(op.location)
    return 0 if position is None else position[1]


def invalid_ops(ops: list[Operation]) -> Iterator[InvalidOp]:
    """The first error of every entry, and of each module as a whole."""
    verifier = Verifier()
    for op in ops:
        if op.name == "builtin.module":
            yield from invalid_ops(list(op.regions[0].block.ops))
            continue
        parts = list(op.body.block.ops) if isinstance(op, Module) and op.body.blocks else [op]
        valid = True
        for part in parts:
            try:
                if isinstance(part, CudaTileOp):
                    verifier.op(part)
            except InvalidOp as error:
                valid = False
                yield error
        if valid and isinstance(op, Module):
            try:
                verifier.module(op)
            except InvalidOp as error:
                yield error


def check(text: str, file_name: str = "-", extra_ops: Mapping[str, type[CudaTileOp]] | None = None) -> list[str]:
    """What is wrong with a text's diagnostics: errors missing and errors too many, one line each."""
    out = []
    for before, part in split(text):
        raised = complaints(part, file_name, before, extra_ops)
        for expected in expectations(part, before):
            match = next((complaint for complaint in raised if expected.matches(complaint)), None)
            if match is not None:
                raised.remove(match)
            else:
                out.append(f"{file_name}:{expected.line}: expected error \"{expected.text}\" was not produced")
        out += (f"{file_name}:{line}: unexpected error: {message}" for line, message in raised)
    return out
