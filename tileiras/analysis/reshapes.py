"""Places in tiles. Does a reshape only leave out dimensions of one element, or add such? Then it keeps the others, in their order
(`kept`). Where does an index behind reshapes, permutes and broadcasts come from (`index_bits`)?"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Operation, SSAValue

from tileiras.analysis.layout_rules import permutation_of
from tileiras.layout.linear import dim_bits


def kept(op: object) -> list[tuple[int, int]] | None:
    """The dimensions of more than one element, in front of a reshape and behind it; None for any other op."""
    if not isinstance(op, Operation) or op.name.partition(".")[2] != "view":
        return None
    old, new = (_longer(v) for v in (op.operands[0], op.results[0]))
    if [extent for _, extent in old] != [extent for _, extent in new]:
        return None
    return [(d, e) for (d, _), (e, _) in zip(old, new)]


def _longer(v: SSAValue) -> list[tuple[int, int]]:
    t: Any = v.type
    return [(d, extent) for d, extent in enumerate(t.get_shape()) if extent > 1] if hasattr(t, "get_shape") else []


def index_bits(moves: list[Operation], count: int) -> list[int | None]:
    """For each bit of an element's index behind some moves (the last one first), `count` bits, which bit of its index before them
    it is: reshapes keep an index, permutes exchange its bits, a broadcast adds bits that make no difference (None)."""
    came_from: list[int | None] = list(range(count))
    for op in moves:
        if op.name.endswith(".broadcast"):
            came_from = [None if b is None else _unrepeated(op, b) for b in came_from]
        if op.name.endswith(".permute"):
            source: Any = op.operands[0].type
            result: Any = op.results[0].type
            to, fro = dim_bits(result.get_shape()), dim_bits(source.get_shape())
            bit = {to[i][0] + n: fro[p][0] + n for i, p in enumerate(permutation_of(op)) for n in range(to[i][1])}
            came_from = [None if b is None else bit[b] for b in came_from]
    return came_from


def _unrepeated(op: Operation, bit: int) -> int | None:
    """Which bit of an index into a broadcast's operand a bit of an index into its result is."""
    source: Any = op.operands[0].type
    result: Any = op.results[0].type
    for (to, bits), (fro, kept) in zip(dim_bits(result.get_shape()), dim_bits(source.get_shape())):
        if to <= bit < to + bits:
            return fro + bit - to if kept else None
    raise ValueError(f"a result of {result.get_shape()} has no bit {bit}")
