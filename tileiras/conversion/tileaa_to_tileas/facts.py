"""What is known of a memory access: which tile dimension runs along memory, how wide an access may be, what must be checked."""
from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from xdsl.dialects.builtin import ArrayAttr, UnitAttr
from xdsl.ir import Operation, SSAValue

from tileiras.dialects import nv_tileaa
from tileiras.dialects.element import element_bytes
from tileiras.layout.linear import LinearLayout, dim_bits

MAX_ACCESS_BYTES = 16


@dataclass(frozen=True)
class ViewFacts:
    """contiguous: the tile dimension of stride 1, None if there is none. width: elements that may go in one access as
    far as alignment and bounds are concerned. check: for each tile dimension, whether bounds must be checked."""

    contiguous: int | None
    width: int
    check: tuple[bool, ...]


def ints(attr: ArrayAttr) -> tuple[int, ...]:
    return tuple(a.data for a in attr.data)


def view_facts(op: Operation, view: SSAValue, axis) -> ViewFacts:
    """The facts of a tiled access through `view`. `axis`: AxisAnalysis of the function, or None (nothing known)."""
    t = view.type
    assert isinstance(t, nv_tileaa.TiledViewType)
    shape, dim_map, steps = ints(t.tile_shape), ints(t.dim_map), ints(t.steps)
    extents, strides = ints(t.memref.shape), ints(t.memref.strides)
    kind, sparse = t.kind.data, t.sparse_dim.data
    size = element_bytes(t.memref.element_type)
    base, dyn_sizes, dyn_strides = _descriptor(view)
    extent_divisor = _divisors(extents, dyn_sizes, axis)
    stride_divisor = _divisors(strides, dyn_strides, axis)
    given = op.properties.get("inbounds")
    trusted = tuple(True for _ in shape) if isinstance(given, UnitAttr) else \
        tuple(bool(getattr(a, "data", getattr(getattr(a, "value", None), "data", 0))) for a in given.data) \
        if isinstance(given, ArrayAttr) else tuple(False for _ in shape)

    def needs_check(tile_dim: int) -> bool:
        if trusted[tile_dim]:
            return False
        whole = kind == "partition" or (kind == "strided" and steps[tile_dim] == shape[tile_dim])
        return not (whole and extent_divisor[dim_map[tile_dim]] % shape[tile_dim] == 0)

    check = tuple(needs_check(i) for i in range(len(shape)))
    contiguous = next((i for i, d in enumerate(dim_map) if strides[d] == 1 and shape[i] > 1 and d != sparse), None)
    width = 1
    if contiguous is not None:
        alignment = axis.divisor(base) if axis is not None and base is not None else size
        width = max(1, min(MAX_ACCESS_BYTES, alignment & -alignment if alignment else MAX_ACCESS_BYTES) // size)
        for i, d in enumerate(dim_map):
            if i != contiguous:
                width = gcd(width, stride_divisor[d])
        coord = op.coords[contiguous]  # type: ignore[attr-defined]
        width = gcd(width, steps[contiguous] * (axis.divisor(coord) if axis is not None else 1))
        if check[contiguous]:
            width = gcd(width, extent_divisor[dim_map[contiguous]])
    return ViewFacts(contiguous, width, check)


def _descriptor(view: SSAValue) -> tuple[SSAValue | None, list[SSAValue], list[SSAValue]]:
    """base, dynamic extents and dynamic strides of the memref behind a tiled view."""
    block_tile = view.owner
    if not isinstance(block_tile, Operation) or not block_tile.name.endswith(".block_tile"):
        return None, [], []
    make = block_tile.operands[0].owner
    if not isinstance(make, Operation) or not make.name.endswith(".make_memref"):
        return None, [], []
    return make.base, list(make.sizes), list(make.strides)  # type: ignore[attr-defined]


def _divisors(static: tuple[int, ...], dynamic: list[SSAValue], axis) -> list[int]:
    """For each entry, a number known to divide it (an extent or stride in elements)."""
    values = iter(dynamic)
    out = []
    for n in static:
        if n != nv_tileaa.DYNAMIC:
            out.append(n)
        else:
            v = next(values, None)
            out.append(max(1, axis.divisor(v)) if axis is not None and v is not None else 1)
    return out


def run_along(layout: LinearLayout, dim: int) -> int:
    """How many consecutive registers of a layout run along `dim` in unit steps."""
    low, bits = dim_bits(layout.shape)[dim]
    n = 0
    while n < len(layout.reg) and n < bits and layout.reg[n] == 1 << low + n:
        n += 1
    return 1 << n
