"""Bytes that a thread holds of four rows of memory, to words along k, which it stores (layout/turned_bytes.py).

    a0 a1 a2 a3      lo = a0 b0 a1 b1        a0 b0 c0 d0        of a word's four columns, by eight `prmt`; whose selectors
    b0 b1 b2 b3  ->  hi = a2 b2 a3 b3   ->   a1 b1 c1 d1        exchange lo and hi, and the words of each, depend on the lane
    c0 c1 c2 c3      lo' = c0 d0 c1 d1       a2 b2 c2 d2
    d0 d1 d2 d3      hi' = c2 d2 c3 d3       a3 b3 c3 d3
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Operation, SSAValue

from tileiras.conversion.tileas_to_llvm.builder import I32
from tileiras.conversion.tileas_to_llvm.lowering import Lowering
from tileiras.conversion.tileas_to_llvm.registers import length, to_plain
from tileiras.conversion.tileas_to_llvm.shared import accesses
from tileiras.dialects.llvm import vec
from tileiras.layout.linear import LANE_BITS
from tileiras.layout.shared import access
from tileiras.layout.turned_bytes import NO_LANE, WORD_BYTES, stored

BYTES, PAIRS = 0x5140, 0x5410
"""prmt's selectors: the lower two bytes of both operands, by turns; the lower halves."""
UPPER = 0x2222
"""Exchanges both with those of the upper ones."""


def store_turned(low: Lowering, op: Operation) -> None:
    """A `store_shared` whose bytes are turned."""
    source, buffer = op.operands[:2]
    properties: dict[str, Any] = op.properties
    k_dim, *way = (x.data for x in properties["turned"].data)
    layout = low.layout(source)
    out = stored(layout, k_dim, tuple(way))
    b, v = low.b, to_plain(low.b, low.vec(source))
    words = b.unpack(b.cast("bitcast", v, vec(length(v) // WORD_BYTES, I32)))
    rows = [layout.reg.index(basis) - 2 for basis in out.reg[:2]]      # which bits of a word's number count rows
    second, first = (_selectors(low, kind, bit) for kind, bit in zip((PAIRS, BYTES), way))
    made: list[SSAValue] = []
    for n in range(len(words)):
        if not any(n >> row & 1 for row in rows):
            four = [words[n + sum(1 << row for i, row in enumerate(rows) if part >> i & 1)] for part in range(1 << len(rows))]
            halves = [[_prmt(low, x, y, s) for s in first] for x, y in (four[:2], four[2:])]
            made += [_prmt(low, x, y, s) for x, y in zip(*halves) for s in second]
    plan = access(out, buffer.type.layout.data, 1)  # type: ignore[attr-defined]
    turned = b.cast("bitcast", b.pack(made), v.type)
    accesses.write(low, turned, plan, low.scalar(buffer))


def _selectors(low: Lowering, kind: int, bit: int) -> list[SSAValue]:
    """Of lower and upper, exchanged where the lane's bit is set."""
    b = low.b
    if bit == NO_LANE:
        return [b.i32(kind), b.i32(kind ^ UPPER)]
    lane = low.place([UPPER if i == bit else 0 for i in range(LANE_BITS)], ())
    return [b.xor(lane, b.i32(kind)), b.xor(lane, b.i32(kind ^ UPPER))]


def _prmt(low: Lowering, x: SSAValue, y: SSAValue, selector: SSAValue) -> SSAValue:
    return low.b.nvvm("prmt", [x, y, selector])[0]
