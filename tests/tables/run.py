"""Runs cells: interpreter and simulator against the oracle, and each other.

    outcome = run(group, [("sm_80", 3), ("sm_90", 3)], count=2048)

Code that differs from code which was simulated already in nothing but the name of its target isn't simulated again.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

import tileiras
from tests.ptx import body_of
from tests.tables.cells import INTS, Cell
from tests.tables.inputs import operands
from tests.tables.kernels import arguments, build, per_block, results
from tests.tables.oracle import BITWISE, Expected, error_in_ulp, expected, raw, wrong
from tileiras import interp
from tileiras.sim import simulate

Config = tuple[str, int]
CONFIGS: tuple[Config, ...] = (("sm_80", 3), ("sm_80", 0), ("sm_90", 3), ("sm_90", 0), ("sm_75", 3), ("sm_89", 3), ("sm_100", 3),
                               ("sm_120", 3))
INTERPRETER = "interpreter"
USUAL = 34


@dataclass
class Outcome:
    """What one cell gave: how many values counted, the largest error in ulp by who computed it, and what went wrong."""

    cell: Cell
    values: int = 0
    ulps: dict[str, float] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    source: str = ""
    bound: float = 0.0


def run(group: Sequence[Cell], configs: Sequence[Config], count: int, emit: str = "ptx") -> list[Outcome]:
    """The outcomes of cells that share a kernel. `emit="cubin"` lets ptxas see every program."""
    count = -(-count // per_block(group)) * per_block(group)
    columns = operands(group[0], count)
    outcomes = [Outcome(cell) for cell in group]
    wants = [expected(cell, columns) for cell in group]
    for outcome, want in zip(outcomes, wants):
        outcome.values = int(want.counts.sum())
        if want.ulps is not None:
            outcome.source, outcome.bound = want.source, float(want.ulps.max())
    bytecode = build(group)
    grid = (count // per_block(group),)
    reference = arguments(group, columns)
    interp.run(bytecode, "kernel", grid, reference)
    said = results(group, reference)
    for outcome, want, got in zip(outcomes, wants, said):
        _judge(outcome, INTERPRETER, columns, got, want, None)
    seen: dict[str, list[np.ndarray]] = {}
    for gpu, level in configs:
        who = f"{gpu} -O{level}"
        try:
            ptx = tileiras.compile(bytecode, gpu_name=gpu, opt_level=level, emit=emit).ptx
            body = body_of(ptx)
            if body not in seen:
                arrays = arguments(group, columns)
                simulate(ptx, kernel="kernel", grid=(*grid, 1, 1), args=arrays)
                seen[body] = results(group, arrays)
        except Exception as error:      # whatever goes wrong is a finding, of each cell in the kernel
            for outcome in outcomes:
                outcome.failures.append(f"{who}: {type(error).__name__}: {str(error)[:300]}")
            continue
        for outcome, want, got, other in zip(outcomes, wants, seen[body], said):
            _judge(outcome, who, columns, got, want, other)
    return outcomes


def _judge(outcome: Outcome, who: str, columns: Sequence[np.ndarray], got: np.ndarray, want: Expected,
           other: np.ndarray | None) -> None:
    """Against the oracle, and where results are exact against the interpreter."""
    cell = outcome.cell
    bad = wrong(cell, got, want)
    if want.ulps is not None:
        # Of errors that may grow with the operand, the usual operands' are worth printing.
        error = error_in_ulp(got, want, cell.result)[want.ulps <= max(USUAL, want.ulps.min())]
        outcome.ulps[who] = max(outcome.ulps.get(who, 0.0), float(error.max(initial=0.0)))
    if bad.any():
        at = int(np.argmax(bad))
        outcome.failures.append(f"{who}: {int(bad.sum())} of {bad.size} wrong, first {_shown(columns, at)}: got "
                                f"{got[at]}, expected {want.values[at]}")
    if other is not None and want.ulps is None and not bad.any():
        differ = want.counts & ~_agree(cell, got, other)
        if differ.any():
            at = int(np.argmax(differ))
            outcome.failures.append(f"{who}: the interpreter differs at {_shown(columns, at)}: {got[at]} and {other[at]}")


def _agree(cell: Cell, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    same = raw(a, cell.result) == raw(b, cell.result)
    if cell.result in INTS or cell.op in BITWISE:
        return same
    with np.errstate(invalid="ignore"):
        return same | (np.isnan(a.astype(float)) & np.isnan(b.astype(float)))


def _shown(columns: Sequence[np.ndarray], at: int) -> str:
    return "(" + ", ".join(str(x[at]) for x in columns) + ")"
