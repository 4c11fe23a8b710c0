"""`analyse-tma`: which accesses through views may go by the tensor copy engine, and of the others, why not.

An access may if a launch can make a tensor map of its view: the base and all strides but the innermost, which is 1, are known
multiples of 16 bytes, address, sizes and strides are functions of the kernel's parameters (host_values.py), a tile's row has
at least 16 bytes, the engine has elements of this width and this padding, and nothing orders the access but program and
tokens. Facts only: whether the engine *is* used is decided where the tile goes (transforms/lower_tma_load_store_to_async.py).
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float8E4M3FNType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatTF32Type,
    IntegerType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.analysis.access import contiguous_of
from tileiras.analysis.axis import AxisAnalysis
from tileiras.analysis.host_values import host_value
from tileiras.dialects.cuda_tile.types import Float8E5M3FNUType
from tileiras.dialects.element import element_bytes, element_name
from tileiras.dialects.nv_tileaa import DYNAMIC, TiledViewType, int_values
from tileiras.layout.descriptors import boxes
from tileiras.layout.shared import CHUNK_BYTES, CanonicalTile, canonical
from tileiras.layout.tensormap import MAX_RANK

ALIGNMENT = 16
"""Bytes that address and strides of a tensor map are multiples of (cuTensorMapEncodeTiled)."""
SHARED_ALIGNMENT = 128
"""Bytes that a box's place in shared memory is a multiple of (PTX ISA, cp.async.bulk.tensor)."""
MOST_COPIES = 32
"""Boxes a tile: one thread issues them one after the other."""
COORDINATE_BITS = 32
MAX_SIZE = 1 << 31
"""Elements a dimension that coordinates of 32 bits reach."""
ELEMENTS: dict[type, str] = {
    Float16Type: "f16", BFloat16Type: "bf16", Float32Type: "f32", FloatTF32Type: "f32", Float64Type: "f64", Float8E4M3FNType: "u8",
    Float8E5M2Type: "u8", Float8E8M0FNUType: "u8", Float8E5M3FNUType: "u8"}
"""Element type -> what the map calls it; integers by their width."""
WHOLE_BITS = (8, 16, 32, 64)


@dataclass(frozen=True)
class Refusal:
    """Why a view has no map. `value`: the one that `reason` speaks of where it says {name}; `needs`: what it isn't known to be a
    multiple of."""

    reason: str
    value: SSAValue | None = None
    needs: int = 0


FORBIDDEN = "the hint allow_tma = false"
"""A refusal that the program asked for."""


@dataclass(frozen=True)
class MapFacts:
    """What the map of a view is made of besides its memref. `element`: a name of layout.tensormap.ELEMENTS; `tile`: how the view's
    tile lies in shared memory, the widest swizzle that it fills; `nan`: what lies outside reads as NaN, not zero."""

    element: str
    tile: CanonicalTile
    nan: bool = False


def map_element(t: Attribute) -> str | None:
    """What a tensor map calls elements of this type; None for those that it doesn't have."""
    if isinstance(t, IntegerType):
        return f"u{t.width.data}" if t.width.data in WHOLE_BITS else None
    return ELEMENTS.get(type(t))


def map_facts(op: Operation, axis: AxisAnalysis) -> MapFacts | list[Refusal]:
    """The facts of an access through a view (tiled_load, tiled_store, tiled_atomic_rmw), or all that stands against a map."""
    view: SSAValue = op.view  # type: ignore[attr-defined]
    t = view.type
    assert isinstance(t, TiledViewType)
    out = [*_access(op, t), *_memref(op, view, t, axis)]
    element, major = map_element(t.memref.element_type), contiguous_of(op)
    if element is None:
        out.append(Refusal(f"the copy engine has no elements of type {element_name(t.memref.element_type)}"))
    elif major is not None:
        row = int_values(t.tile_shape)[major] * element_bytes(t.memref.element_type)
        if row < CHUNK_BYTES:
            out.append(Refusal(f"a row of the tile has {row} bytes, copies have {CHUNK_BYTES} at least; use a wider tile"))
    if out or element is None or major is None:
        return out
    tile = tile_of(t, major)
    if not is_copied(tile):
        return [Refusal(f"boxes begin at multiples of {SHARED_ALIGNMENT} bytes, a tile has {MOST_COPIES} at most; use more rows")]
    return MapFacts(element, tile, t.padding.data == "nan")


def is_copied(tile: CanonicalTile) -> bool:
    """Whether boxes that lie in shared memory like this, not too many, are the whole tile."""
    if tile.num_bytes < SHARED_ALIGNMENT or (tile.panels > 1 and tile.panel_bytes % SHARED_ALIGNMENT):
        return False
    return len(boxes(tile).copies) <= MOST_COPIES


def tile_of(t: TiledViewType, major: int, swizzle: int | None = None) -> CanonicalTile:
    """How a view's tile lies in shared memory, contiguous along its dimension `major`."""
    return canonical(int_values(t.tile_shape), 8 * element_bytes(t.memref.element_type), major, swizzle)


def _access(op: Operation, t: TiledViewType) -> list[Refusal]:
    """What the access itself says against it."""
    out = []
    semantic: Any = op.properties.get("mem_semantic")
    if op.name.endswith(("tiled_load", "tiled_store")) and semantic is not None and semantic.data != "weak":
        out.append(Refusal(f"the copy engine knows no {semantic.data} accesses"))
    allow: Any = op.properties.get("allow_tma")
    if allow is not None and not allow.value.data:
        out.append(Refusal(FORBIDDEN))
    if t.kind.data == "gather_scatter":
        out.append(Refusal("rows that are gathered have no box"))
    rank = len(t.memref.shape.data)
    if not 1 <= rank <= MAX_RANK or len(t.tile_shape.data) != rank:
        out.append(Refusal(f"tensor maps have 1 to {MAX_RANK} dimensions"))
    if op.name.endswith("tiled_load"):
        padding, floating = t.padding.data, not isinstance(t.memref.element_type, IntegerType)
        filled = padding == "nan" and floating and element_bytes(t.memref.element_type) > 1
        if padding not in ("", "zero") and not filled:
            out.append(Refusal(f"the copy engine pads with zero, not with {padding}; select behind the load"))
    return out


def _memref(op: Any, view: SSAValue, t: TiledViewType, axis: AxisAnalysis) -> list[Refusal]:
    """What base, sizes, strides and coordinates say against it."""
    tiling: Any = view.owner
    maker: Any = tiling.operands[0].owner if isinstance(tiling, Operation) else tiling
    if not getattr(maker, "name", "").endswith(".make_memref"):
        return [Refusal("its view is chosen at run time")]
    size = element_bytes(t.memref.element_type)
    facts = axis.memref(view)
    major = contiguous_of(op)
    out = []
    if major is None:
        out.append(Refusal("no dimension of the tile is known to have stride 1"))
    if facts.base_alignment % ALIGNMENT:
        out.append(Refusal(f"the base {{name}} isn't known to be aligned to {ALIGNMENT} bytes", maker.base, ALIGNMENT))
    inner = int_values(t.dim_map)[major] if major is not None else -1
    dynamic = iter(maker.strides)
    for d, n in enumerate(int_values(t.memref.strides)):
        value = next(dynamic) if n == DYNAMIC else None
        if major is not None and d != inner and facts.stride_divisors[d] * size % ALIGNMENT:
            needs = ALIGNMENT // size
            what = f"a multiple of {needs} elements ({ALIGNMENT} bytes)"
            if value is None:
                out.append(Refusal(f"stride {n} of dimension {d} isn't {what}"))
            else:
                out.append(Refusal(f"stride {{name}} of dimension {d} isn't known to be {what}", value, needs))
    for v in (maker.base, *maker.sizes, *maker.strides):
        if host_value(v) is None:
            out.append(Refusal("address, sizes or strides are computed in the kernel, not functions of its parameters"))
            break
    wide = [v for v in (*maker.sizes, *op.coords) if isinstance(v.type, IntegerType) and v.type.width.data > COORDINATE_BITS]
    if wide or any(n > MAX_SIZE for n in int_values(t.memref.shape)):
        out.append(Refusal(f"sizes or indices have more than {COORDINATE_BITS} bits"))
    return out


