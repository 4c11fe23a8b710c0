"""Along which dimension pointers are likely to be neighbours: as far as known, and if no sum of offsets wraps around.

    %t = splat(%i * 1024) + make_range          contiguity 1024, start 1024: no group of these wraps inside
    %s = %t - splat(%k)                         contiguity 1: a group might, where its numbers pass the greatest of 32 bits
    addptr splat(%p), extsi(%s)                 likely along dimension 0
    (%t + splat(1)) % 1024                      contiguity 1, as it begins anew inside a group; likely 1024

What accesses may do rests on what is known (axis.py). How much they cost rests on this: in programs that gather at an index and a
shift (filters, stencils, convolutions) the threads of a warp touch neighbours, though nothing says that these sums don't wrap.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Operation, SSAValue

from tileiras.analysis.axis import AxisAnalysis
from tileiras.analysis.axis_info import Info, is_tracked, longest, shape_of
from tileiras.analysis.axis_rules import RULES, difference_info, sum_info

ALIKE = frozenset({"extui", "trunci"})
"""What keeps neighbours unless something wraps."""
REMAINDERS = frozenset({"remsi", "remui", "andi"})
"""What keeps neighbours but where it begins anew: columns of a torus are neighbours but for the last and the first."""
LONG = 1 << 16
"""A period that isn't known."""
MOST_OPS = 256
"""That lead to a pointer and are looked at."""


def likely_line(pointers: SSAValue, axis: AxisAnalysis) -> int | None:
    """The dimension along which these pointers are likely to be neighbours in the longest groups, None if along none. `axis`: of
    their function."""
    return longest(_info(pointers, axis).contiguity)


def _info(value: SSAValue, axis: AxisAnalysis) -> Info:
    infos: dict[SSAValue, Info] = {}
    pending = [value]
    while pending:
        v = pending[-1]
        if v in infos:
            pending.pop()
            continue
        op: Any = v.owner
        mnemonic = op.name.partition(".")[2] if isinstance(op, Operation) else ""
        if mnemonic not in RULES or not op.operands or not is_tracked(v.type) or len(infos) >= MOST_OPS:
            infos[v] = axis.info(v)
        elif missing := [x for x in op.operands if x not in infos]:
            pending.extend(missing)
        else:
            infos[v] = _by_rule(op, mnemonic, [infos[x] for x in op.operands])
    return infos[value]


def _by_rule(op: Any, mnemonic: str, infos: Sequence[Info]) -> Info:
    if mnemonic in ("addi", "subi"):
        sums = sum_info if mnemonic == "addi" else difference_info
        return sums(op, infos[0], infos[1], (None, None), False)
    if mnemonic in ALIKE and shape_of(op.operands[0].type):
        return infos[0]
    found = RULES[mnemonic](op, infos)
    period = _period(mnemonic, infos[1]) if mnemonic in REMAINDERS else None
    if period is None:
        return found
    most = 1 << period.bit_length() - 1
    return found._replace(contiguity=tuple(max(known, min(run, most)) for known, run in zip(found.contiguity, infos[0].contiguity)))


def _period(mnemonic: str, divisor: Info) -> int | None:
    """After how many numbers a remainder, or what a mask of low bits leaves of them, begins anew; None for other masks."""
    n = divisor.const
    if mnemonic == "andi":
        return n + 1 if n is not None and n >= 0 and n & n + 1 == 0 else None
    return LONG if n is None else abs(n) or None
