"""What may be asked of schedules, beyond what a program's hints ask: the pipeline's options of that name."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tileiras.errors import UsageError

if TYPE_CHECKING:
    from tileiras.schedule.schedule import Schedule

DEFAULT_ITERATIONS = 10
DEFAULT_THRESHOLD = 4096
STRATEGIES = {"none": frozenset({"pipelines", "agents"}), "unspecialize": frozenset({"agents"}), "warp-specialize": frozenset()}
"""`pipeline-strategy` -> what is turned off (driver/options.py: SWITCHES)."""
OPTIONS = ("num-stages", "unspecialized-pipeline-num-stages", "pipeline-strategy", "max-constraint-iterations",
           "rrt-size-threshold", "schedule-trace-file", "enable-random-delay", "dynamic-persistent")
MOST_STAGES_ASKED = 64
LARGEST_NUMBER = 1 << 20


@dataclass(frozen=True)
class ScheduleOptions:
    """`stages`: of every ring, as far as shared memory allows (0: as latency asks). `iterations`: rounds of refinement (0: the
    program's order). `threshold`: rows of a reservation table (0: any number). `trace_file`: gets the trace of all loops.
    `seed`: for random delays, which give other legal schedules and depths (None: no delays). `persistent`: blocks go on with tile
    blocks that haven't started (`dynamic-persistent`). `show`: is given each loop's schedule as text."""

    stages: int = 0
    iterations: int = DEFAULT_ITERATIONS
    threshold: int = DEFAULT_THRESHOLD
    trace_file: str = ""
    seed: int | None = None
    persistent: bool = False
    show: Callable[[str], object] | None = None
    traced: list[tuple[str, Schedule]] = field(default_factory=list)
    """The schedules so far, for the trace."""


def _number(name: str, text: str, most: int = LARGEST_NUMBER) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > len(str(most)) or int(text) > most:
        raise UsageError(f"option '{name}' takes a number from 0 to {most}, not '{text}'")
    return int(text)


def _flag(name: str, given: Mapping[str, str]) -> bool:
    text = given.get(name, "false")
    if text not in ("false", "true"):
        raise UsageError(f"option '{name}' is true or false, not '{text}'")
    return text == "true"


def parse_options(given: Mapping[str, str], show: Callable[[str], object] | None = None) -> tuple[ScheduleOptions, frozenset[str]]:
    """The options of a pipeline's text, and which switches they turn off. Raises UsageError."""
    stages = given.get("num-stages", given.get("unspecialized-pipeline-num-stages", "0"))
    strategy = given.get("pipeline-strategy", "warp-specialize")
    if strategy not in STRATEGIES:
        raise UsageError(f"unknown pipeline strategy '{strategy}'; known: {', '.join(STRATEGIES)}")
    random = given.get("enable-random-delay", "false")
    seed = {"false": None, "true": 0}[random] if random in ("false", "true") else _number("enable-random-delay", random)
    return ScheduleOptions(
        _number("num-stages", stages, MOST_STAGES_ASKED),
        _number("max-constraint-iterations", given.get("max-constraint-iterations", str(DEFAULT_ITERATIONS))),
        _number("rrt-size-threshold", given.get("rrt-size-threshold", str(DEFAULT_THRESHOLD))),
        given.get("schedule-trace-file", ""), seed, _flag("dynamic-persistent", given), show), STRATEGIES[strategy]
