"""Running passes one by one in sight: IR before and after them, what changed, what failed, how long each took.

A failing pass leaves, where that is asked for, the IR as it found it, and a file that runs it again: the IR with the command
line in its first line. Whatever a pass raises comes out as a CompileError that names it.
"""
from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tileiras.dialects.cuda_tile.verify_error import InvalidOp
from tileiras.dialects.location_text import location_text
from tileiras.dialects.module_text import module_text
from tileiras.errors import CompileError, TileirasError, UsageError
from tileiras.pipeline import verify_after
from tileiras.tools.pass_pipeline import Item, pipeline_text
from tileiras.tools.pass_statistics import PassCount, count_ops


@dataclass(frozen=True)
class Step:
    """A pass: `takes` is the level of IR that it works on, `gives` that of what it leaves, `run` gives the module afterwards."""

    name: str
    takes: str
    gives: str
    run: Callable[[Any], Any]


@dataclass
class Timed:
    """What took how long, with what it consists of."""

    name: str
    seconds: float = 0.0
    parts: list[Timed] = field(default_factory=list)

    @contextmanager
    def part(self, name: str) -> Iterator[Timed]:
        """Measure a part. It counts also where it fails."""
        inner = Timed(name)
        self.parts.append(inner)
        start = time.perf_counter()
        try:
            yield inner
        finally:
            inner.seconds = time.perf_counter() - start

    def tree(self, depth: int = 0, whole: float = 0.0) -> str:
        """One line a part, indented, with its share of the whole."""
        whole = whole or self.seconds
        share = 100 * self.seconds / whole if whole else 0.0
        line = f"{self.seconds:10.6f} s {share:5.1f} %  {'  ' * depth}{self.name}\n"
        return line + "".join(part.tree(depth + 1, whole) for part in self.parts)

    def as_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {"name": self.name, "seconds": self.seconds}
        if self.parts:
            out["parts"] = [part.as_dict() for part in self.parts]
        return out

    def report(self, form: str) -> str:
        """As text; `form` is "tree" or "json"."""
        return self.tree() if form == "tree" else json.dumps(self.as_dict(), indent=2) + "\n"


@dataclass
class Watch:
    """What to show. `before` and `after`: names of passes; `change`: after those that change the module; `failure`: what a
    failing pass found. `reproducer`: a file for it. `command`: options that a reproducer repeats. `counts`: gets what each pass did
    to the number of ops."""

    before: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    before_all: bool = False
    after_all: bool = False
    change: bool = False
    failure: bool = False
    verify: bool = False
    reproducer: str | None = None
    command: str = ""
    say: Callable[[str], object] = sys.stderr.write
    counts: list[PassCount] | None = None

    @property
    def needs_text(self) -> bool:
        """Whether the module is printed before every pass, to compare or to keep."""
        return self.change or self.failure or self.reproducer is not None


def level_of(module: Any) -> str:
    """The level of a module's IR; "" for one without ops."""
    if module.name != "builtin.module":
        return module.name.partition(".")[0]
    first = module.body.block.first_op if module.body.blocks else None
    return "" if first is None else first.name.partition(".")[0]


def run_steps(module: Any, steps: Sequence[Step], watch: Watch, timing: Timed) -> Any:
    """The module after these passes. Raises UsageError for a pass of another level, CompileError for one that fails."""
    for number, step in enumerate(steps):
        level = level_of(module)
        if level not in ("", step.takes):
            raise UsageError(f"pass '{step.name}' takes {step.takes}, but the module is {level}")
        text = module_text(module) if watch.needs_text else ""
        if watch.before_all or step.name in watch.before:
            _dump(watch, "before", step.name, text or module_text(module))
        before = count_ops(module) if watch.counts is not None else None
        try:
            module = _run_one(module, step, watch, timing)
        except (TileirasError, RecursionError, MemoryError):
            _keep(watch, steps[number:], text)
            raise
        if watch.counts is not None and before is not None:
            watch.counts.append(PassCount(step.name, before, count_ops(module)))
        if watch.after_all or step.name in watch.after:
            _dump(watch, "after", step.name, module_text(module))
        elif watch.change and (changed := module_text(module)) != text:
            _dump(watch, "after", step.name, changed)
    return module


def _run_one(module: Any, step: Step, watch: Watch, timing: Timed) -> Any:
    with timing.part(step.name) as inner:
        try:
            module = step.run(module)
        except InvalidOp as error:
            raise CompileError(error.message, location_text(error.op)) from error
        except (TileirasError, RecursionError, MemoryError):
            raise
        except Exception as error:
            raise CompileError(f"internal error: pass '{step.name}': {type(error).__name__}: {error}".rstrip(": ")) from error
        if watch.verify:
            with inner.part("verify"):
                verify_after(module, step.name)
    return module


def _dump(watch: Watch, when: str, name: str, text: str) -> None:
    watch.say(f"// *** IR dump {when} {name} ***\n{text}")


def _keep(watch: Watch, steps: Sequence[Step], text: str) -> None:
    if watch.failure:
        _dump(watch, "before failure of", steps[0].name, text)
    if watch.reproducer is not None:
        from tileiras.tools.support import write_text

        pipeline = pipeline_text([Item(step.name) for step in steps])
        write_text(watch.reproducer, f"// tileiras-opt {watch.reproducer} --pass-pipeline='{pipeline}' {watch.command}\n{text}")
        watch.say(f"note: a reproducer is in '{watch.reproducer}'\n")
