"""Reading MLIR text piece by piece: punctuation, keywords, numbers, strings, names, each with MLIR's complaint.

A `Scanner` holds the text and a position and knows no grammar. A complaint is a ParseError at a position of the text.
"""
from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property

_SPACE = re.compile(r"(?:\s|//[^\n]*)*")
_KEYWORD = re.compile(r"[A-Za-z_][\w$.]*")
_INTEGER = re.compile(r"-?(?:0x[0-9A-Fa-f]+|\d+)")
_FLOAT = re.compile(r"-?(?:\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)")
_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_VALUE = re.compile(r"%([\w$.-]+)(?:#(\d+))?")
_SYMBOL = re.compile(r"@([A-Za-z_][\w$.]*)")
_ALIAS = re.compile(r"([#!])([A-Za-z_][\w$]*(?:\.[\w$]+)*)")
_EXTENT = re.compile(r"(\d+|\?)x")
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2}|.)")
_ESCAPES = {b"n": b"\n", b"t": b"\t", b'"': b'"', b"\\": b"\\"}


MAX_DIGITS = 1000
"""How long a number may be; none that means anything comes near."""


class ParseError(Exception):
    """What is wrong with a text, and where (an offset into it); `also` are further messages for the same place."""

    def __init__(self, message: str, position: int, also: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.also = also
        self.message = message
        self.position = position


class Scanner:
    """A text and a position in it; every method skips white space and comments first."""

    def __init__(self, text: str, position: int = 0) -> None:
        self.text = text
        self.pos = position
        self._before_space = self._after_space = -1

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer("\n", self.text))]

    def line_and_column(self, position: int) -> tuple[int, int]:
        """Both counted from 1."""
        line = bisect_right(self._line_starts, position)
        return line, position - self._line_starts[line - 1] + 1

    def here(self) -> int:
        """The position of what comes next."""
        match = _SPACE.match(self.text, self.pos)
        assert match is not None
        if match.end() != self.pos:
            self._before_space = self.pos
            self.pos = match.end()
            self._after_space = self.pos
        return self.pos

    def missing(self) -> int:
        """Where to say that something is missing: at what comes next, or behind what came last if a line ends between."""
        position = self.here()
        if position == self._after_space and "\n" in self.text[self._before_space:position]:
            return max(self._before_space - 1, 0)
        return position

    def at_end(self) -> bool:
        return self.here() >= len(self.text)

    def error(self, message: str, position: int | None = None) -> ParseError:
        return ParseError(message, self.here() if position is None else position)

    def peek(self, text: str) -> bool:
        return self.text.startswith(text, self.here())

    def accept(self, text: str) -> bool:
        """Take punctuation if it comes next."""
        if not self.text.startswith(text, self.here()):
            return False
        if text == ":" and self.text.startswith("::", self.pos):
            return False
        self.pos += len(text)
        return True

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.error(f"expected '{text}'", self.missing())

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.text, self.here())
        if match is not None:
            self.pos = match.end()
        return match

    def peek_keyword(self) -> str | None:
        match = _KEYWORD.match(self.text, self.here())
        return None if match is None else match[0]

    def optional_keyword(self) -> str | None:
        match = self._take(_KEYWORD)
        return None if match is None else match[0]

    def keyword(self) -> str:
        match = self._take(_KEYWORD)
        if match is None:
            raise self.error("expected valid keyword", self.missing())
        return match[0]

    def accept_word(self, word: str) -> bool:
        if self.peek_keyword() != word:
            return False
        self.pos += len(word)
        return True

    def expect_word(self, word: str) -> None:
        if not self.accept_word(word):
            raise self.error(f"expected '{word}'", self.missing())

    def expect_token(self, text: str) -> None:
        """Punctuation or a word."""
        if text[0].isalpha():
            self.expect_word(text)
        else:
            self.expect(text)

    def optional_integer(self) -> int | None:
        match = self._take(_INTEGER)
        return None if match is None else self._integer(match[0])

    def _integer(self, text: str) -> int:
        if len(text) > MAX_DIGITS:
            raise self.error("integer value too large", self.pos - len(text))
        return int(text, 16) if "x" in text else int(text)

    def integer(self, low: int = -(1 << 63), high: int = (1 << 63) - 1) -> int:
        """An integer within bounds, by default what 64 bits hold."""
        start = self.here()
        value = self.optional_integer()
        if value is None:
            raise self.error("expected integer value")
        if not low <= value <= high:
            raise self.error("integer value too large" if value > high else "integer value too small", start)
        return value

    def integer32(self) -> int:
        return self.integer(-(1 << 31), (1 << 31) - 1)

    def optional_float(self) -> str | None:
        """The text of a decimal float literal."""
        match = self._take(_FLOAT)
        if match is not None and len(match[0]) > MAX_DIGITS:
            raise self.error("floating point literal too long", match.start())
        return None if match is None else match[0]

    def optional_string(self) -> str | None:
        match = self._take(_STRING)
        return None if match is None else unescape(match[1])

    def string(self) -> str:
        value = self.optional_string()
        if value is None:
            raise self.error("expected string")
        return value

    def optional_value(self) -> tuple[str, int, int] | None:
        """`%name` or `%name#2`: its name with `%`, the result number, its position."""
        start = self.here()
        match = self._take(_VALUE)
        return None if match is None else (f"%{match[1]}", self._integer(match[2] or "0"), start)

    def value(self) -> tuple[str, int, int]:
        found = self.optional_value()
        if found is None:
            raise self.error("expected SSA operand", self.missing())
        return found

    def optional_symbol(self) -> str | None:
        """`@name` or `@"any name"`."""
        match = self._take(_SYMBOL)
        if match is not None:
            return match[1]
        if self.peek('@"'):
            self.pos += 1
            return self.string()
        return None

    def symbol(self) -> str:
        name = self.optional_symbol()
        if name is None:
            raise self.error("expected valid '@'-identifier for symbol name")
        return name

    def optional_alias(self, sigil: str) -> str | None:
        """`#name` or `!dialect.name`, without the sigil."""
        match = _ALIAS.match(self.text, self.here())
        if match is None or match[1] != sigil:
            return None
        self.pos = match.end()
        return match[2]

    def extents(self) -> list[int | None]:
        """`4x?x` before an element type: None where dynamic."""
        out: list[int | None] = []
        while (match := self._take(_EXTENT)) is not None:
            extent = None if match[1] == "?" else self._integer(match[1])
            if extent is not None and extent >> 63:
                raise self.error("invalid dimension", match.start())
            out.append(extent)
        return out


def unescape(text: str) -> str:
    """A string literal's value: `\\0A` is a newline; what is no UTF-8 stays escaped."""
    def value(match: re.Match[bytes]) -> bytes:
        return _ESCAPES[match[1]] if match[1] in _ESCAPES else bytes.fromhex(match[1].decode()) \
            if len(match[1]) == 2 else match[1]

    return _ESCAPE.sub(value, text.encode()).decode("utf-8", "backslashreplace")
