"""Reading modules of the levels below cuda_tile from MLIR's generic syntax: with every op's place, and verified.

An op without a location of its own gets the place where it stands in the text, as MLIR gives it, so that errors of the
verifier and of passes say where. xDSL's parser meets some malformed text with exceptions of its own making; here they are
syntax errors at the place reached.
"""
from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, FileLineColLoc, IntAttr, ModuleOp, StringAttr, UnknownLoc
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from tileiras.dialects.cuda_tile.verify_error import InvalidOp
from tileiras.dialects.location_text import location_text
from tileiras.dialects.verify import verify_module
from tileiras.errors import BytecodeError


class _Places:
    """Lines and columns of a text, both from 1."""

    def __init__(self, text: str, file_name: str) -> None:
        self.file_name = file_name
        self.starts = [0, *(i + 1 for i, c in enumerate(text) if c == "\n")]

    def of(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1] + 1

    def attribute(self, offset: int) -> FileLineColLoc:
        line, column = self.of(offset)
        return FileLineColLoc(StringAttr(self.file_name), IntAttr(line), IntAttr(column))

    def text(self, offset: int) -> str:
        line, column = self.of(offset)
        return f'"{self.file_name}":{line}:{column}'


class _PlacingParser(Parser):
    """xDSL's parser, giving ops their places."""

    def __init__(self, context: Context, text: str, file_name: str) -> None:
        super().__init__(context, text, file_name)
        self.places = _Places(text, file_name)

    def parse_operation(self) -> Operation:
        start = self._current_token.span.start
        op = super().parse_operation()
        if isinstance(op.location, UnknownLoc):
            op.location = self.places.attribute(start)
        return op

    def place(self) -> str:
        """Where it has got to."""
        return self.places.text(self._current_token.span.start)


_BEGIN = re.compile(r'"|//[^\n]*')
_STRING = re.compile(r'"(?:[^"\\\n\v\f]|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*"')


def _open_string(text: str) -> int | None:
    """Where a string begins that is malformed or has no end: xDSL's lexer takes exponential time to see that."""
    at = 0
    while (begin := _BEGIN.search(text, at)) is not None:
        literal = _STRING.match(text, begin.start())
        if literal is None and begin.group() == '"':
            return begin.start()
        at = begin.end() if literal is None else literal.end()
    return None


def parse_lower(text: str, file_name: str = "-") -> ModuleOp:
    """A verified module of nv_tileaa, nv_tileas or llvm ops. Raises BytecodeError with the place of what is wrong."""
    unended = _open_string(text)
    if unended is not None:
        raise BytecodeError("expected '\"' in string literal", _Places(text, file_name).text(unended))
    try:
        parser = _PlacingParser(_context(), text, file_name)
    except ParseError as error:
        raise BytecodeError(error.msg.strip(), _Places(text, file_name).text(error.span.start)) from error
    try:
        module = parser.parse_module()
    except ParseError as error:
        raise BytecodeError(error.msg.strip(), parser.places.text(error.span.start)) from error
    except VerifyException as error:
        raise BytecodeError(str(error).strip(), parser.place()) from error
    except (RecursionError, MemoryError):
        raise
    except Exception as error:
        raise BytecodeError("malformed text", parser.place()) from error
    try:
        verify_module(module)
    except InvalidOp as error:
        raise BytecodeError(error.message, location_text(error.op)) from error
    return module


def _context() -> Context:
    context = Context()
    context.load_dialect(Builtin)
    for ops, attributes in _registries():
        for op in ops:
            context.load_op(op)
        for attribute in attributes:
            context.load_attr_or_type(attribute)
    return context


def _registries() -> Iterator[Any]:
    """(ops, types and attributes) of every level below cuda_tile."""
    from tileiras.dialects import arith, cute, cute_nvgpu, cutlass, llvm, nv_tileaa, nv_tileas, nvvm

    yield (*arith.ARITH_OPS, *arith.MATH_OPS, *arith.SCF_OPS), ()
    for dialect in (nv_tileaa, nv_tileas, llvm, cute, cute_nvgpu, cutlass, nvvm):
        yield dialect.OPS.values(), (*getattr(dialect, "TYPES", ()), *getattr(dialect, "ATTRS", ()))
