"""How a command line is read: LLVM's ways of writing options, from one table (`driver/option_table.py`).

`-name`, `--name`, `-name=value`, `--name value`, `-O3`, one-letter flags in a group (`-gO0`), a flag with `=true` or
`=false`, `@file` for the words of a file, `--` before a positional; the last of a repeated option wins. `--help`,
`--version` and `--list-versions` act where they stand: what is wrong before them is said, what comes after isn't read.
Otherwise every error of a command line is reported, then it is refused with exit code 1. Texts are those that LLVM's
command-line library prints, since build systems match them.
"""
from __future__ import annotations

import os
from dataclasses import dataclass, field

from tileiras.driver.option_table import ACTION, CHOICE, FEATURES, FLAG, INTEGER, NAMES, UINT, ULONG, VALUE, Option

_TRUE = ("", "true", "TRUE", "True", "1")
_FALSE = ("false", "FALSE", "False", "0")
_INTEGERS = {INTEGER: ("integer", -2**31, 2**31 - 1), UINT: ("uint", 0, 2**32 - 1), ULONG: ("ulong", 0, 2**64 - 1)}
"""A kind of number: what messages call it, its least and its greatest."""


@dataclass(eq=False, repr=False)
class CommandLine:
    """A command line as read: option values by name, the input, an action to do instead ("help"), and what is wrong
    with it, ready to print."""

    values: dict[str, str | int | bool] = field(default_factory=dict)
    input: str = ""
    action: str = ""
    errors: list[str] = field(default_factory=list)

    def text(self, name: str, default: str = "") -> str:
        value = self.values.get(name, default)
        return value if isinstance(value, str) else default

    def flag(self, name: str) -> bool:
        return self.values.get(name) is True

    def number(self, name: str, default: int) -> int:
        value = self.values.get(name, default)
        return value if isinstance(value, int) else default


def dashes(name: str) -> str:
    return "-" if len(name) == 1 else "--"


def parse(arguments: list[str], program: str) -> CommandLine:
    """Read a command line (without the program's name, which is `program`). Its `errors` say what is wrong with it."""
    reader = _Reader(program)
    try:
        words = _expanded(arguments) if any(a.startswith("@") for a in arguments) else arguments
    except _ResponseError as error:
        reader.line.errors.append(str(error))
        return reader.line
    reader.read(words)
    return reader.line


class _Reader:
    """One pass over the words of a command line."""

    def __init__(self, program: str) -> None:
        self.program, self.name = program, os.path.basename(program)
        self.line = CommandLine()
        self.words: list[str] = []
        self.index = 0

    def read(self, words: list[str]) -> None:
        self.words = words
        positional: list[str] = []
        only_positional = False
        while self.index < len(words) and not self.line.action:
            word = words[self.index]
            self.index += 1
            if only_positional or word == "-" or not word.startswith("-"):
                positional.append(word)
            elif word == "--":
                only_positional = True
            else:
                self._option(word)
        if self.line.action:
            return
        if len(positional) > 1:
            self.line.errors.append(f"{self.name}: Too many positional arguments specified!\n"
                                    f"Can specify at most 1 positional arguments: See: {self.program} --help")
        self.line.input = positional[0] if positional else ""

    def _error(self, name: str, text: str) -> None:
        self.line.errors.append(f"{self.name}: for the {dashes(name)}{name} option: {text}")

    def _option(self, word: str) -> None:
        rest = word[2:] if word.startswith("--") else word[1:]
        name, equals, value = rest.partition("=")
        option = NAMES.get(rest) or (NAMES.get(name) if equals else None)
        if option is not None and not (equals and option.prefix):
            self._provide(option, value if equals else None)
            return
        left = self._group(rest)
        if left and not self.line.action:
            self.line.errors += [f"{self.name}: Unknown command line argument '{word}'.  Try: '{self.program} --help'",
                                 f"{self.name}: Did you mean '{_nearest(left)}'?"]

    def _group(self, rest: str) -> str:
        """One-letter options behind one dash, the last with a value: what is left when nothing fits, else ""."""
        while len(rest) > 1 or rest in NAMES:
            length = next((n for n in range(len(rest), 0, -1) if (o := NAMES.get(rest[:n])) and (o.prefix or n == 1)), 0)
            if not length:
                break
            option, tail = NAMES[rest[:length]], rest[length:]
            if not tail or option.prefix or tail.startswith("="):
                self._provide(option, None if not tail else tail if option.prefix else tail[1:])
                return ""
            if option.kind not in (FLAG, ACTION):
                self._error(option.name, "may not occur within a group!")
                return rest[:length]
            self._provide(option, None)
            if self.line.action:
                return ""
            rest = tail
        return rest

    def _provide(self, option: Option, value: str | None) -> None:
        """An option with its attached value; without one, the next word where it needs any."""
        known = NAMES[option.alias] if option.alias else option
        if known.kind == ACTION:
            if value is not None:
                self._error(option.name, f"does not allow a value! '{value}' specified.")
            else:
                self.line.action = known.name
            return
        if value is None and known.kind != FLAG:
            if option.prefix or self.index == len(self.words):
                self._error(option.name, "requires a value!")
                return
            value = self.words[self.index]
            self.index += 1
        converted = self._convert(known, value or "")
        if converted is None:
            return
        if known.acts and converted is True:
            self.line.action = known.name
        self.line.values[known.name] = converted

    def _convert(self, option: Option, text: str) -> str | int | bool | None:
        """The value of an option's text, or None after noting what is wrong with it."""
        problem = ""
        if option.kind == FLAG:
            if text in _TRUE or text in _FALSE:
                return text in _TRUE
            problem = f"'{text}' is invalid value for boolean argument! Try 0 or 1"
        elif option.kind in _INTEGERS:
            word, least, greatest = _INTEGERS[option.kind]
            number = _integer(text)
            if number is not None and least <= number <= greatest:
                return number
            problem = f"'{text}' value invalid for {word} argument!"
        elif option.kind == CHOICE:
            if any(text == name for name, _ in option.choices):
                return text
            problem = f"Cannot find option named '{text}'!"
        elif option.kind == FEATURES:
            known = [name for name, _ in option.choices]
            unknown = [name for name in text.split(",") if name not in known]
            if not unknown:
                return text
            problem = f"unknown preview feature '{unknown[0]}'; supported features: {', '.join(known)}"
        else:
            assert option.kind == VALUE
            return text
        self._error(option.name, problem)
        return None


_RADIXES = (("0x", 16), ("0X", 16), ("0b", 2), ("0B", 2), ("0o", 8))
_LONGEST_NUMBER = 80


def _integer(text: str) -> int | None:
    """A number as LLVM reads it: decimal, or with a prefix 0x, 0b, 0o, or octal after a 0. None: it isn't one."""
    digits = text.removeprefix("-")
    radix = next((radix for prefix, radix in _RADIXES if digits.startswith(prefix)), 0)
    if radix:
        digits = digits[2:]
    elif len(digits) > 1 and digits[0] == "0":
        radix, digits = 8, digits[1:]
    if not digits or len(digits) > _LONGEST_NUMBER or not digits.isascii() or not digits.isalnum():
        return None
    try:
        number = int(digits, radix or 10)
    except ValueError:
        return None
    return -number if text.startswith("-") else number


def _distance(a: str, b: str) -> int:
    """Edits that turn `a` into `b`."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        previous, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (x != y))
    return row[-1]


_LONGEST_GUESSED = 64


def _nearest(rest: str) -> str:
    """The option that a misspelt one probably meant, with its dashes and the value it was given."""
    name, _, value = rest.partition("=")

    def distance(option: Option) -> int:
        return _distance((rest if option.kind == ACTION else name)[:_LONGEST_GUESSED], option.name)

    best = min((option for option in NAMES.values() if not option.silent), key=distance)
    shown = best.name + (f"={value}" if value and best.kind != ACTION else "")
    return dashes(shown) + shown


# --- response files -----------------------------------------------------------------------------------------------

MAX_WORDS = 1 << 16
MAX_FILES = 1 << 10
"""How many words response files may come to, and how many files may be read: files may name files, each many times."""
_MAX_RESPONSE_BYTES = 1 << 24
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class _ResponseError(Exception):
    """A response file that can't be used, in words for the user."""


def _expanded(arguments: list[str]) -> list[str]:
    """`arguments` with each `@file` replaced by the words of the file; what names no file stays as it is."""
    out: list[str] = []
    # What is still to read, last first; None ends the file on top of `inside`.
    todo: list[str | None] = list(reversed(arguments))
    inside: list[str] = []
    files = 0
    while todo:
        word = todo.pop()
        if word is None:
            inside.pop()
            continue
        path = os.path.join(os.getcwd(), word[1:]).removesuffix("/") if word.startswith("@") else ""
        if not path or not os.path.exists(path):
            out.append(word)
            if len(out) + len(todo) > MAX_WORDS:
                raise _ResponseError(f"response files hold more than {MAX_WORDS} words")
            continue
        if any(_same_file(path, other) for other in inside):
            raise _ResponseError(f"recursive expansion of: '{path}'")
        files += 1
        if files > MAX_FILES:
            raise _ResponseError(f"response files name more than {MAX_FILES} files")
        words = _words(path)
        inside.append(path)
        todo.append(None)
        todo += reversed(words)
        if len(out) + len(todo) > MAX_WORDS:
            raise _ResponseError(f"response files hold more than {MAX_WORDS} words")
    return out


def _same_file(a: str, b: str) -> bool:
    try:
        return os.path.samefile(a, b)
    except OSError:
        return False


def _words(path: str) -> list[str]:
    """The words of a response file: a quote holds words together, a backslash takes the next character as it is."""
    try:
        with open(path, "rb") as file:
            data = file.read(_MAX_RESPONSE_BYTES + 1)
    except OSError as error:
        raise _ResponseError(f"cannot not open file '{path}': {error.strerror}") from None
    if len(data) > _MAX_RESPONSE_BYTES:
        raise _ResponseError(f"response file '{path}' is larger than {_MAX_RESPONSE_BYTES} bytes")
    text = os.fsdecode(data.removeprefix(_BYTE_ORDER_MARK))
    words: list[str] = []
    word: list[str] | None = None
    quote = ""
    characters = iter(text)
    for c in characters:
        if not quote and c in " \t\r\n\0":
            if word is not None:
                words.append("".join(word))
            word = None
            continue
        word = [] if word is None else word
        if c == "\\":
            word.append(next(characters, c))
        elif c == quote:
            quote = ""
        elif not quote and c in "\"'":
            quote = c
        else:
            word.append(c)
    if word is not None:
        words.append("".join(word))
    return words
