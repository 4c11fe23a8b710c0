"""Who watches a run? An observer is told what is decoded and which blocks are executed; without one nothing is spent."""
from __future__ import annotations

from typing import Any, Protocol


class Observer(Protocol):
    """What `simulate(observer=...)` calls. `instruction`, `guarded` and `barrier` return what is to run in the closure's place."""

    def instruction(self, decoder: Any, ins: Any, run: Any) -> Any:
        """An instruction was decoded; its closure runs for the threads whose guard holds."""

    def guarded(self, decoder: Any, ins: Any, run: Any) -> Any:
        """The closure of an instruction with a guard; it runs for all active threads."""

    def barrier(self, decoder: Any, ins: Any, barrier: Any) -> Any:
        """A barrier of a CTA or cluster was decoded: what stands in its place, with its `arrive`."""

    def built(self, program: Any) -> None:
        """The kernel is decoded."""

    def visit(self, st: Any, at: int) -> None:
        """Block `at` is about to be executed by the active threads of a batch."""
