"""How much may the launches of a program, or of one test, cost? And what did they do?

A `Ledger` is the account of what runs between its start and its end: launches, instructions, findings. It ends a launch
that goes over its instructions; time is ended from outside (a signal), since a compiler or a NumPy call can't be asked.
"""
from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tileiras.sim.errors import BudgetExceeded, LaunchError, SimulationError


class OverBudget(BaseException):
    """The time or the instructions are spent. No Exception: a test that expects one must not swallow it."""


@dataclass
class Ledger:
    """`instructions`: issued ones allowed in all, None for as many as a launch may have; `seconds` of the launches."""
    instructions: int | None = None
    launches: int = 0
    issued: int = 0
    seconds: float = 0.0
    kernels: list[str] = field(default_factory=list)
    findings: list[dict[str, Any]] = field(default_factory=list)
    refusal: str | None = None                  # a compiler's message, where it refused a kernel

    def limit(self) -> dict[str, int]:
        """The option of `simulate` that keeps the next launch within the budget."""
        if self.instructions is None:
            return {}
        left = self.instructions - self.issued
        if left <= 0:
            raise OverBudget(f"{self.instructions} instructions are spent")
        return {"max_instructions": left}

    @contextmanager
    def launch(self, kernel: str) -> Iterator[None]:
        """One launch: counted if a kernel ran, timed, and its end by the instruction budget told apart from other faults."""
        start = time.monotonic()
        try:
            yield
            self._ran(kernel)
        except BudgetExceeded as error:
            self._ran(kernel)
            self.found(error)
            if self.instructions is not None:
                raise OverBudget(str(error)) from error
            raise
        except LaunchError:                     # the program's mistake before anything ran
            raise
        except SimulationError as error:
            self._ran(kernel)
            self.found(error)
            raise
        finally:
            self.seconds += time.monotonic() - start

    def _ran(self, kernel: str) -> None:
        self.launches += 1
        if kernel not in self.kernels:
            self.kernels.append(kernel)

    def found(self, error: SimulationError) -> None:
        """Note a finding or fault, once for each place."""
        entry = {"kind": error.kind, "kernel": error.kernel, "source": error.source, "ptx_line": error.line,
                 "message": error.detail}
        if entry not in self.findings:
            self.findings.append(entry)


current = Ledger()
"""The account of what runs now; a program has one, and under pytest each test has its own."""


def begin(ledger: Ledger) -> Ledger:
    """Make `ledger` the account from now on; returns the one before."""
    global current
    before, current = current, ledger
    return before
