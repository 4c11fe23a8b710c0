"""Which loads read what nobody writes while the kernel runs, and which what nobody has written yet?

The language orders memory accesses by tokens only, and a compiler may take it that nobody else touches at the same time what a
weak access touches. So a weak load that no token joins, in either direction, to a write, an atomic or an ordered access reads
memory that nobody writes between the kernel's beginning and its end: a write by this tile block would come at any time, one by
another would have to be ordered before an acquire that the load is behind, or behind a release that is behind the load.

A weak load that no token puts behind a write, an atomic or an ordered access reads what is there when the kernel begins, though it
may be written later: rows that are changed where they lie.

Kernels that wait for what was launched before them, or change between addresses of one memory, have no such loads: there the
same place may be written, though not by the kernel, before the load.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from xdsl.ir import Operation, SSAValue

from tileiras.analysis.exits import LOOPS, handed_on
from tileiras.dialects.nv_tileaa import MemTokenType

LOADS = frozenset({"nv_tileaa.load", "nv_tileaa.tiled_load"})
NEUTRAL = frozenset({"nv_tileaa.create_mem_token", "nv_tileaa.join_mem_token"})
"""Ops that only hand tokens on."""
HANDING_ON = LOOPS | {"scf.if", "scf.yield", "nv_tileaa.break", "nv_tileaa.continue"}
OUTSIDE = frozenset({"nv_tileaa.gdc_wait", "nv_tileaa.fence_alias", "nv_tileaa.alloca"})
"""Ops that make memory change, or be another, while the kernel runs."""


class Loads(NamedTuple):
    """Loads of an nv_tileaa function: those whose memory nobody writes while the kernel runs, all that are behind no write, and all
    weak ones of a kernel in which only its own accesses change memory."""

    invariant: set[Operation]
    first: set[Operation]
    weak: set[Operation]


NO_LOADS = Loads(set(), set(), set())


def invariant_loads(func: Operation) -> set[Operation]:
    """The loads of an nv_tileaa function whose memory nobody writes while the kernel runs."""
    return loads_by_order(func).invariant


def loads_by_order(func: Operation) -> Loads:
    """All kinds of loads."""
    loads: list[Operation] = []
    writers: list[Operation] = []
    after: dict[SSAValue, list[SSAValue]] = {}      # token -> tokens that come of it
    before: dict[SSAValue, list[SSAValue]] = {}

    def lead(sources: Iterable[SSAValue], targets: Iterable[SSAValue]) -> None:
        for a, b in zip(sources, targets):
            if isinstance(a.type, MemTokenType):
                after.setdefault(a, []).append(b)
                before.setdefault(b, []).append(a)

    for op in func.walk():
        name = op.name
        if name in OUTSIDE:
            return NO_LOADS
        for sources, targets in handed_on(op):
            lead(sources, targets)
        if name not in HANDING_ON:
            consumed, made = _tokens(op.operands), _tokens(op.results)
            for result in made:
                lead(consumed, [result] * len(consumed))
            if name in LOADS and op.properties["mem_semantic"].data == "weak":  # type: ignore[attr-defined]
                loads.append(op)
            elif name not in NEUTRAL and (consumed or made):
                writers.append(op)
    written = _reached([t for op in writers for t in _tokens(op.results)], after)
    to_be_written = _reached([t for op in writers for t in _tokens(op.operands)], before)
    first = {op for op in loads if written.isdisjoint(op.operands)}
    return Loads({op for op in first if to_be_written.isdisjoint(op.results)}, first, set(loads))


def _tokens(values: Iterable[SSAValue]) -> list[SSAValue]:
    return [v for v in values if isinstance(v.type, MemTokenType)]


def _reached(sources: list[SSAValue], edges: dict[SSAValue, list[SSAValue]]) -> set[SSAValue]:
    """The sources, and all tokens that edges lead to from them."""
    found, pending = set(sources), list(sources)
    while pending:
        for v in edges.get(pending.pop(), ()):
            if v not in found:
                found.add(v)
                pending.append(v)
    return found
