"""What is known of a memory access: which tile dimension runs along memory, how wide an access may be, what must be checked."""
from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from xdsl.dialects.builtin import ArrayAttr, UnitAttr
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.axis import AxisAnalysis
from tileiras.dialects import nv_tileaa
from tileiras.dialects.element import element_bytes
from tileiras.dialects.nv_tileaa import int_values
from tileiras.layout.linear import LinearLayout, dim_bits

MAX_ACCESS_BYTES = 16


@dataclass(frozen=True)
class ViewFacts:
    """contiguous: the tile dimension of stride 1, None if there is none. width: elements that may go in one access as
    far as alignment and bounds are concerned. check: for each tile dimension, whether bounds must be checked."""

    contiguous: int | None
    width: int
    check: tuple[bool, ...]


def view_facts(op: Operation, view: SSAValue, axis: AxisAnalysis) -> ViewFacts:
    """The facts of a tiled access through `view`."""
    t = view.type
    assert isinstance(t, nv_tileaa.TiledViewType)
    shape, dim_map, steps = int_values(t.tile_shape), int_values(t.dim_map), int_values(t.steps)
    kind, sparse = t.kind.data, t.sparse_dim.data
    memref = axis.memref(view)
    size = element_bytes(t.memref.element_type)
    promised = _promised(op, len(shape))

    def needs_check(tile_dim: int) -> bool:
        if promised[tile_dim]:
            return False
        whole = kind != "gather_scatter" and steps[tile_dim] == shape[tile_dim]
        return not (whole and memref.extent_divisors[dim_map[tile_dim]] % shape[tile_dim] == 0)

    check = tuple(needs_check(i) for i in range(len(shape)))
    contiguous = next((i for i, d in enumerate(dim_map) if memref.strides[d] == 1 and shape[i] > 1 and d != sparse), None)
    width = 1
    if contiguous is not None:
        width = max(1, min(MAX_ACCESS_BYTES, memref.base_alignment) // size)
        for i, d in enumerate(dim_map):
            if i != contiguous:
                width = gcd(width, memref.stride_divisors[d])
        width = gcd(width, steps[contiguous] * axis.divisor(op.coords[contiguous]))  # type: ignore[attr-defined]
        if check[contiguous]:
            width = gcd(width, memref.extent_divisors[dim_map[contiguous]])
    return ViewFacts(contiguous, width, check)


def _promised(op: Operation, rank: int) -> tuple[bool, ...]:
    """For each tile dimension, whether the program promises that it stays in bounds."""
    given = op.properties.get("inbounds")
    if isinstance(given, UnitAttr):
        return (True,) * rank
    if isinstance(given, ArrayAttr):
        return tuple(bool(a.data) for a in given.data)  # type: ignore[attr-defined]
    return (False,) * rank


def run_along(layout: LinearLayout, dim: int) -> int:
    """How many consecutive registers of a layout run along `dim` in unit steps."""
    low, bits = dim_bits(layout.shape)[dim]
    n = 0
    while n < len(layout.reg) and n < bits and layout.reg[n] == 1 << low + n:
        n += 1
    return 1 << n
