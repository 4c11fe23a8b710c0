"""Memrefs and tiled views: descriptors known while compiling, nothing at run time but their scalars."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation, SSAValue

from tileiras.conversion.tileas_to_llvm.builder import I32, I64, width_of
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, lowers
from tileiras.dialects import nv_tileaa
from tileiras.dialects.nv_tileaa import DYNAMIC, int_values


@dataclass(frozen=True)
class MemRef:
    """base: pointer; extents and strides (elements): an int where static, a scalar where dynamic."""

    base: SSAValue
    extents: tuple[int | SSAValue, ...]
    strides: tuple[int | SSAValue, ...]


@dataclass(frozen=True)
class TiledView:
    """A memref and how it is walked; `type` is the nv_tileaa.tiled_view type."""

    memref: MemRef
    kind: str
    tile_shape: tuple[int, ...]
    dim_map: tuple[int, ...]
    steps: tuple[int, ...]
    padding: str
    sparse_dim: int
    type: nv_tileaa.TiledViewType


@lowers("nv_tileas.make_memref")
def make_memref(low: Lowering, op: Operation) -> None:
    t = op.results[0].type
    assert isinstance(t, nv_tileaa.MemRefType)
    sizes = iter([low.scalar(v) for v in op.sizes])  # type: ignore[attr-defined]
    strides = iter([low.scalar(v) for v in op.strides])  # type: ignore[attr-defined]
    low.views[op.results[0]] = MemRef(
        low.scalar(op.operands[0]),
        tuple(next(sizes) if n == DYNAMIC else n for n in int_values(t.shape)),
        tuple(next(strides) if n == DYNAMIC else n for n in int_values(t.strides)))


@lowers("nv_tileas.block_tile")
def block_tile(low: Lowering, op: Operation) -> None:
    t = op.results[0].type
    assert isinstance(t, nv_tileaa.TiledViewType)
    low.views[op.results[0]] = TiledView(low.views[op.operands[0]], t.kind.data, int_values(t.tile_shape), int_values(t.dim_map),
                                         int_values(t.steps), t.padding.data, t.sparse_dim.data, t)


def as_type(low: Lowering, x: int | SSAValue, t: IntegerType, signed: bool = True) -> SSAValue:
    """A scalar or a known number in the integer type `t`."""
    if isinstance(x, int):
        return low.b.bits(x, t)
    have, want = width_of(x.type), t.width.data
    if have == want:
        return x
    return low.b.cast("trunc" if have > want else "sext" if signed else "zext", x, t)


def index_type(values: Iterable[int | SSAValue]) -> IntegerType:
    """i64 if any of these numbers or scalars takes more than 32 bits, else i32: the type to compute a coordinate in."""
    return I64 if any(v >= 1 << 31 if isinstance(v, int) else width_of(v.type) > 32 for v in values) else I32
