"""Pipelines as text: which passes run, in which order.

    builtin.module(simplify, cse, dce)
    builtin.module(tileir{opt-level=2})
    cuda_tile.module(canonicalize), any(canonicalize)

`tileir` stands for the whole pipeline below the module's level. Anchors say what a pipeline is for and may nest; passes run
on the whole module in any case.
"""
from __future__ import annotations

import re
from dataclasses import dataclass, field

from tileiras.errors import UsageError
from tileiras.schedule.options import OPTIONS as SCHEDULE_OPTIONS

WHOLE_OPTIONS = ("num-warps", "num-ctas", "ftz", "approx", "emit-line-info", "host-triple", "dump-host", "v2-opt-level",
                 "index-bitwidth", "use-nvgpucomp-libnvvm", "enable-debug-logging")
"""What `pipeline_options.py` does."""
PATHS = ("schedule-trace-file", "dump-host")
"""Options whose values are files."""
ANCHORS = ("builtin.module", "cuda_tile.module", "nv_tileaa.func", "nv_tileas.func", "llvm.func", "any")
WHOLE_PIPELINE = "tileir"
SCHEDULED = ("dynamic-persistent", "generate-schedule", "materialize-async", "materialize-schedule", "unspecialized-pipeline")
"""Passes that take the options of schedules."""
PIPELINE_OPTIONS: dict[str, tuple[str, ...]] = {
    WHOLE_PIPELINE: ("opt-level", "compute-capability", *SCHEDULE_OPTIONS, *WHOLE_OPTIONS),
    **dict.fromkeys(SCHEDULED, SCHEDULE_OPTIONS)}
"""The options that a pass takes, by its name."""

MAX_DEPTH = 16
_PATH = re.compile(r"\s*([^\s,{}]+)")
_TOKEN = re.compile(r"\s*(?:([A-Za-z_][\w.-]*)|([(){}=,])|(\d+))")


@dataclass(frozen=True)
class Item:
    """A pass and its options, as text."""

    name: str
    options: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        given = ",".join(f"{key}={value}" for key, value in self.options.items())
        return f"{self.name}{{{given}}}" if given else self.name


def pipeline_text(items: list[Item]) -> str:
    """Passes as a text that `parse_pipeline` reads."""
    return f"builtin.module({','.join(map(str, items))})"


def parse_pipeline(text: str) -> list[Item]:
    """The passes of a pipeline's text, in order. Raises UsageError with the column of what is wrong."""
    return _Reader(text).pipeline()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def error(self, message: str) -> UsageError:
        return UsageError(f"pass pipeline, column {self.at + 1}: {message}")

    def peek(self) -> str:
        match = _TOKEN.match(self.text, self.at)
        return "" if match is None else match.group().strip()

    def take(self, *wanted: str) -> str:
        """The next token, which must be one of `wanted` if any are named."""
        token = self.peek()
        if (wanted and token not in wanted) or not token:
            raise self.error(f"expected {' or '.join(map(repr, wanted)) or 'a name'}")
        match = _TOKEN.match(self.text, self.at)
        assert match is not None
        self.at = match.end()
        return token

    def take_path(self) -> str:
        """A file's name: up to a space, a comma or a brace."""
        match = _PATH.match(self.text, self.at)
        if match is None:
            raise self.error("expected a file's name")
        self.at = match.end()
        return match.group(1)

    def pipeline(self) -> list[Item]:
        out: list[Item] = []
        while True:
            self.anchor(out, 0)
            if self.peek() != ",":
                break
            self.take(",")
        self.at += len(self.text[self.at:]) - len(self.text[self.at:].lstrip())
        if self.at < len(self.text):
            raise self.error("expected the end")
        return out

    def anchor(self, out: list[Item], depth: int) -> None:
        start = self.at
        name = self.take()
        if name not in ANCHORS:
            self.at = start
            raise self.error(f"expected one of {', '.join(ANCHORS)}")
        if depth > MAX_DEPTH:
            raise self.error("nested too deeply")
        self.take("(")
        if self.peek() != ")":
            self.item(out, depth)
            while self.peek() == ",":
                self.take(",")
                self.item(out, depth)
        self.take(")")

    def item(self, out: list[Item], depth: int) -> None:
        start = self.at
        name = self.take()
        if name in "(){}=,":
            self.at = start
            raise self.error("expected a pass")
        if self.peek() == "(":
            self.at = start
            self.anchor(out, depth + 1)
            return
        out.append(Item(name, self.options(name) if self.peek() == "{" else {}))

    def options(self, name: str) -> dict[str, str]:
        """`{key=value key=value}`."""
        self.take("{")
        found: dict[str, str] = {}
        while self.peek() != "}":
            start = self.at
            key = self.take()
            if key not in PIPELINE_OPTIONS.get(name, ()):
                self.at = start
                raise self.error(f"pass '{name}' has no option '{key}'")
            self.take("=")
            found[key] = self.take_path() if key in PATHS else self.take()
            if self.peek() == ",":
                self.take(",")
        self.take("}")
        return found
