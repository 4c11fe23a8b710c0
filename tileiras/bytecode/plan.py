"""The op table turned into what the reader's inner loop wants: one flat tuple for each opcode of one version."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from xdsl.ir import Attribute

from tileiras.bytecode.attributes import ENUMS, KIND_READERS, UNIT, default_of, enum_cases
from tileiras.bytecode.optable import OpRow, row_of
from tileiras.bytecode.version import Version
from tileiras.dialects.cuda_tile.op import CudaTileOp
from tileiras.dialects.cuda_tile.ops import Entry, Global, Module

COUNTED = -1
"""In place of a count of results or operands: the count stands in the file."""

_ABSENT = "-"
"""An operand group that the version doesn't have."""


class AttrStep(NamedTuple):
    """Read one attribute: an enumeration's cases, or a reader function; `flag` is its bit's mask, 0 if always there."""

    name: str
    cases: tuple[Attribute, ...] | None
    read: Callable[..., Any]
    flag: int


class Plan(NamedTuple):
    """How to decode one op."""

    op: type[CudaTileOp]
    results: int
    least_results: int
    most_results: int
    flags: int
    attrs: tuple[AttrStep, ...]
    units: tuple[tuple[str, int], ...]
    defaults: dict[str, Attribute]
    operands: int
    least_operands: int
    most_operands: int
    groups: tuple[tuple[str, int], ...]
    tail: bool
    regions: int


def _unread(*arguments: Any) -> Any:
    raise AssertionError("an enumeration is read by its cases")


UNLIMITED = 1 << 30


def _bounds(fields: tuple) -> tuple[int, int]:
    least = sum(1 for f in fields if not f.many)
    most = UNLIMITED if any(f.many == "*" for f in fields) else len(fields)
    return least, most


def plan_of(opcode: int, version: Version) -> Plan | None:
    """How to decode an opcode in a version; None where that version has no such op in a function's body."""
    row = row_of(opcode)
    if row is None or row.since > version or row.op in (Module, Entry, Global):
        return None
    return _plan(row, version)


def _plan(row: OpRow, version: Version) -> Plan:
    steps: list[AttrStep] = []
    units: list[tuple[str, int]] = []
    defaults: dict[str, Attribute] = {}
    for attr in row.attrs:
        mask = 0 if attr.flag is None else 1 << attr.flag
        if attr.since > version:
            if attr.default is not None:
                defaults[attr.name] = default_of(attr.kind, attr.default)
        elif attr.kind == "unit":
            units.append((attr.name, mask))
        elif attr.kind in ENUMS:
            steps.append(AttrStep(attr.name, enum_cases(attr.kind), _unread, mask))
        else:
            steps.append(AttrStep(attr.name, None, KIND_READERS[attr.kind], mask))
    results = tuple(f for f in row.results if f.since <= version)
    least_results, most_results = _bounds(results)
    least, most = _bounds(row.operands)
    groups: tuple[tuple[str, int], ...] = ()
    if row.segmented:
        groups = tuple((f.many if f.since <= version else _ABSENT, 0 if f.flag is None else 1 << f.flag)
                       for f in row.operands)
    count = COUNTED if row.counted_operands else 0 if row.segmented else len(row.operands)
    return Plan(row.op, COUNTED if row.counted_results else len(results), least_results, most_results,
                row.flags(version), tuple(steps), tuple(units), defaults, count, least, most, groups,
                bool(row.regions) or row.op.TERMINATOR, row.regions)


class PlanTable(dict):
    """Opcode -> Plan of one version, filled as opcodes come up."""

    def __init__(self, version: Version) -> None:
        super().__init__()
        self.version = version

    def __missing__(self, opcode: int) -> Plan | None:
        plan = self[opcode] = plan_of(opcode, self.version)
        return plan


_TABLES: dict[Version, PlanTable] = {}


def plans(version: Version) -> PlanTable:
    """The table of a version; one for the life of the process."""
    table = _TABLES.get(version)
    if table is None:
        table = _TABLES[version] = PlanTable(version)
    return table


__all__ = ["COUNTED", "UNIT", "Plan", "PlanTable", "plans"]
