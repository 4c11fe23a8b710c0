"""Planted faults: small kernels that are right, and one-line plants that make each of them wrong.

Every module of this folder named `*_faults.py` adds to the tables below; `test_faults.py` imports them all. A kernel is
registered once, its faults after it:

    P = program("bulk ring", PTX, lambda: [x.copy(), np.zeros(64, np.float32)], check=lambda args: ..., grid=2)
    fault(P, "the wait is removed", ("@!%p2 bra WAIT;", ""), InFlight, DataRace)

- `args()` makes fresh launch arguments; `check(args)` raises when the results are wrong (the unplanted kernel's only).
- A plant is (old text, new text), or several of them; each old text must occur (once, unless a third item counts it).
- The kinds are the errors that count as found: the plant is found when `simulate` raises one of them or reports one
  as a finding. Name the kinds that tell the fault; a Deadlock that hides a wrong byte count is not enough.

The test runs every kernel unplanted under each seed of SEEDS: no error, no finding; and every fault under each of them.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tileiras.sim import SimulationError, simulate

SEEDS = (0, 1, 2, 3, 4)


@dataclass
class Program:
    """A kernel that is right."""
    name: str
    ptx: str
    args: Callable[[], list]
    check: Callable[[list], Any] | None = None
    options: dict = field(default_factory=dict)


@dataclass
class Fault:
    """A change that makes a program wrong, and the kinds of error that tell."""
    program: Program
    name: str
    plant: tuple
    kinds: tuple

    @property
    def title(self) -> str:
        """Program and fault, for test ids."""
        return f"{self.program.name}: {self.name}"


PROGRAMS: dict[str, Program] = {}
FAULTS: dict[str, Fault] = {}


def program(name: str, ptx: str, args: Callable[[], list], check: Callable[[list], Any] | None = None,
            **options: Any) -> Program:
    """Register a kernel; `options` go to `simulate` (grid, block, max_instructions, ...)."""
    assert name not in PROGRAMS, f"two programs are called {name}"
    found = PROGRAMS[name] = Program(name, ptx, args, check, {"max_instructions": 200_000, **options})
    return found


def fault(of: Program, name: str, plant: tuple, *kinds: type[SimulationError]) -> Fault:
    """Register a fault of a program."""
    found = Fault(of, name, plant, kinds)
    assert kinds, f"{found.title}: no kinds of error"
    assert found.title not in FAULTS, f"two faults are called {found.title}"
    FAULTS[found.title] = found
    planted(found)
    return found


def planted(f: Fault) -> str:
    """The program's text with the fault in it."""
    text = f.program.ptx
    plants = [f.plant] if isinstance(f.plant[0], str) else f.plant
    for plant in plants:
        old, new = plant[0], plant[1]
        count = plant[2] if len(plant) > 2 else 1
        assert text.count(old) == count, f"{f.title}: {old!r} occurs {text.count(old)} times"
        text = text.replace(old, new)
    return text


def run(of: Program, text: str, seed: int) -> tuple[list, list[SimulationError]]:
    """Simulate; returns the arguments afterwards and everything found, the error that ended it last."""
    args = of.args()
    try:
        report = simulate(text, args=args, seed=seed, **of.options)
    except SimulationError as error:
        return args, [*getattr(error, "findings", []), error]
    return args, list(report.findings)
