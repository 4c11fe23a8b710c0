"""Checking what a text makes the compiler complain about: `// expected-error @below {{text}}`, as MLIR's tools do.

    // expected-error@+2 {{op operand #0 must be}}
    // expected-error-re @below {{got {{[0-9]+}} operands}}
    // expected-warning @below {{unknown hint key}}

A text is cut at lines `// -----`; every part must give exactly the errors and warnings it expects, each at its line.
Expected notes and remarks are skipped: this project attaches none to errors.
"""
from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.ir import Operation

from tileiras.dialects.cuda_tile.asm_parse import TextError, parse_ops
from tileiras.dialects.cuda_tile.debug import source_position
from tileiras.dialects.cuda_tile.op import CudaTileOp
from tileiras.dialects.cuda_tile.ops import Module
from tileiras.dialects.cuda_tile.verify import Verifier
from tileiras.dialects.cuda_tile.verify_error import InvalidOp
from tileiras.dialects.cuda_tile.verify_hints import FAILED, hint_problems
from tileiras.errors import TileirasError, UsageError

SEPARATOR = re.compile(r"^// -----.*$", re.MULTILINE)
_EXPECTED = re.compile(r"expected-(error|warning)(-re)? *(?:@([+-]\d+|above|below|unknown))? *\{\{(.*?)\}\}(?!\}) *$")
_PLACE = re.compile(r":(\d+):\d+$")


class Complaint(NamedTuple):
    """An error or a warning at a line of the whole text (counted from 1; 0 where unknown)."""

    line: int
    message: str
    severity: str = "error"


class Expected(NamedTuple):
    """An expected complaint: its line (0 for any), its text, whether that is a pattern."""

    line: int
    text: str
    is_pattern: bool
    severity: str = "error"

    def matches(self, complaint: Complaint) -> bool:
        if self.severity != complaint.severity or (self.line and self.line != complaint.line):
            return False
        if not self.is_pattern:
            return self.text in complaint.message
        parts = re.split(r"\{\{(.*?)\}\}", self.text)
        pattern = "".join(re.escape(part) if i % 2 == 0 else f"(?:{part})" for i, part in enumerate(parts))
        return re.search(pattern, complaint.message) is not None


@dataclass(frozen=True)
class Settings:
    """How a text is checked: more ops than the dialect's, warnings of hints, what is done after verification (it may
    raise a TileirasError, at its location, or an InvalidOp)."""

    extra_ops: Mapping[str, type[CudaTileOp]] = field(default_factory=dict)
    warn_hints: bool = False
    error_hints: bool = False
    then: Callable[[list[Operation]], None] | None = None


def split(text: str) -> Iterator[tuple[int, str]]:
    """The parts of a text between lines `// -----`, each with the number of lines before it."""
    start = 0
    for match in SEPARATOR.finditer(text):
        yield text.count("\n", 0, start), text[start:match.start()]
        start = match.end()
    yield text.count("\n", 0, start), text[start:]


def expectations(text: str, before: int = 0) -> list[Expected]:
    """The errors and warnings that the comments of a text announce."""
    found = []
    lines = text.split("\n")
    for index, line in enumerate(lines):
        match = _EXPECTED.search(line.rstrip())
        if match is not None:
            found.append(Expected(_target(lines, index, match[3], before), match[4], match[2] is not None, match[1]))
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


def complaints(text: str, file_name: str = "-", before: int = 0, settings: Settings | None = None) -> list[Complaint]:
    """What reading and verifying a text complains about: one parse error, or one error an entry; then warnings."""
    settings = settings or Settings()
    try:
        ops = parse_ops(text, file_name, extra_ops=settings.extra_ops)
    except TextError as error:
        return [Complaint(before + error.line, message) for message in (error.message, *error.also)]
    found = [Complaint(before + line_of(error.op), message) for error in invalid_ops(ops)
             for message in (error.message, *error.also)]
    if settings.warn_hints:
        found += _hint_complaints(ops, before, settings.error_hints)
    if not found and settings.then is not None:
        try:
            settings.then(ops)
        except InvalidOp as error:
            found.append(Complaint(before + line_of(error.op), error.message))
        except TileirasError as error:
            place = _PLACE.search(error.loc or "")
            found.append(Complaint(before + int(place[1]) if place else 0, error.message))
    return found


def _hint_complaints(ops: list[Operation], before: int, is_error: bool) -> Iterator[Complaint]:
    for top in ops:
        for op in top.walk():
            problems = list(hint_problems(op))
            line = before + line_of(op)
            yield from (Complaint(line, problem, "warning") for problem in problems)
            if problems and is_error:
                yield Complaint(line, f"'{op.name}' op {FAILED}")


def line_of(op: Operation) -> int:
    """The line of an op's location, 0 where it is unknown."""
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


class Outcome(NamedTuple):
    """What became of one announced complaint: met by one at its line and of its text, or by one at its line only."""

    expected: Expected
    at_its_line: bool
    with_its_text: bool


def compare(text: str, file_name: str = "-", settings: Settings | None = None) -> tuple[list[Outcome], list[Complaint]]:
    """Every announced complaint with its outcome, and the complaints that none announced."""
    outcomes: list[Outcome] = []
    unannounced: list[Complaint] = []
    for before, part in split(text):
        raised = complaints(part, file_name, before, settings)
        missed = []
        for expected in expectations(part, before):
            match = next((complaint for complaint in raised if expected.matches(complaint)), None)
            if match is None:
                missed.append(expected)
            else:
                raised.remove(match)
                outcomes.append(Outcome(expected, True, True))
        for expected in missed:
            near = next((c for c in raised if c.severity == expected.severity and c.line == expected.line), None)
            outcomes.append(Outcome(expected, near is not None, False))
        unannounced += raised
    return outcomes, unannounced


def check(text: str, file_name: str = "-", settings: Settings | None = None) -> list[str]:
    """What is wrong with a text's diagnostics: those missing and those too many, one line each."""
    outcomes, unannounced = compare(text, file_name, settings)
    out = [f"{file_name}:{expected.line}: expected {expected.severity} \"{expected.text}\" was not produced"
           for expected, _, met in outcomes if not met]
    return out + [f"{file_name}:{c.line}: unexpected {c.severity}: {c.message}" for c in unannounced]


def say(text: str, file_name: str, settings: Settings) -> int:
    """Print what is wrong with a text's diagnostics (see `check`); a tool's exit code."""
    wrong = check(text, file_name, settings)
    for line in wrong:
        print(line, file=sys.stderr)
    return UsageError.exit_code if wrong else 0
