"""Memrefs and tiled views: descriptors known while compiling, nothing at run time but their scalars."""
from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation, SSAValue

from tileiras.conversion.tileas_to_llvm.builder import I32, I64, width_of
from tileiras.conversion.tileas_to_llvm.core import Lowering, lowers
from tileiras.dialects import nv_tileaa
from tileiras.dialects.nv_tileaa import DYNAMIC


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


def _ints(attr) -> tuple[int, ...]:
    return tuple(a.data for a in attr.data)


@lowers("nv_tileas.make_memref")
def make_memref(low: Lowering, op: Operation) -> None:
    t = op.results[0].type
    assert isinstance(t, nv_tileaa.MemRefType)
    sizes = iter([low.scalar(v) for v in op.sizes])  # type: ignore[attr-defined]
    strides = iter([low.scalar(v) for v in op.strides])  # type: ignore[attr-defined]
    low.views[op.results[0]] = MemRef(
        low.scalar(op.operands[0]),
        tuple(next(sizes) if n == DYNAMIC else n for n in _ints(t.shape)),
        tuple(next(strides) if n == DYNAMIC else n for n in _ints(t.strides)))


@lowers("nv_tileas.block_tile")
def block_tile(low: Lowering, op: Operation) -> None:
    t = op.results[0].type
    assert isinstance(t, nv_tileaa.TiledViewType)
    low.views[op.results[0]] = TiledView(low.views[op.operands[0]], t.kind.data, _ints(t.tile_shape), _ints(t.dim_map),
                                         _ints(t.steps), t.padding.data, t.sparse_dim.data, t)


def as_type(low: Lowering, x: int | SSAValue, t: IntegerType, signed: bool = True) -> SSAValue:
    """A scalar or a known number in the integer type `t`."""
    if isinstance(x, int):
        return low.b.bits(x, t)
    have, want = width_of(x.type), t.width.data
    if have == want:
        return x
    return low.b.cast("trunc" if have > want else "sext" if signed else "zext", x, t)


@lowers("nv_tileas.get_dim_sizes")
def get_dim_sizes(low: Lowering, op: Operation) -> None:
    memref: MemRef = low.views[op.operands[0]]
    for extent, result in zip(memref.extents, op.results):
        assert isinstance(result.type, IntegerType)
        low.set(result, as_type(low, extent, result.type))


@lowers("nv_tileas.get_index_space")
def get_index_space(low: Lowering, op: Operation) -> None:
    """Tiles along each tile dimension: ceil(extent / step); a gathered dimension counts its elements."""
    view: TiledView = low.views[op.operands[0]]
    b = low.b
    for i, result in enumerate(op.results):
        assert isinstance(result.type, IntegerType)
        extent = view.memref.extents[view.dim_map[i]]
        step = 1 if view.dim_map[i] == view.sparse_dim else view.steps[i]
        if isinstance(extent, int):
            low.set(result, b.bits(-(-extent // step), result.type))
            continue
        t = extent.type if width_of(extent.type) >= width_of(result.type) else result.type
        assert isinstance(t, IntegerType)
        x = as_type(low, extent, t)
        # (x - 1) / step + 1 for x > 0 avoids overflow near the type's end; extents are positive or zero
        whole = b.binary("udiv", b.add(x, b.bits(step - 1, t)), b.bits(step, t)) if step & (step - 1) else \
            b.lshr(b.add(x, b.bits(step - 1, t)), step.bit_length() - 1)
        low.set(result, as_type(low, whole, result.type))


def index_type(low: Lowering, values: list[int | SSAValue]) -> IntegerType:
    """i64 if any of these numbers or scalars takes more than 32 bits, else i32: the type to compute a coordinate in."""
    return I64 if any(v >= 1 << 31 if isinstance(v, int) else width_of(v.type) > 32 for v in values) else I32
