"""How views lower: a tensor view is a memref value, a view of tiles a `block_tile` of it with everything in its type.

    make_tensor_view %p, shape = [%n, 64]      ->   nv_tileaa.make_memref(%p, %n) : memref<?x64xf16, ...>
    make_partition_view %v                     ->   nv_tileaa.block_tile(%m) : tiled_view<...>
    load_view_tko %pv[%i, %j]                  ->   nv_tileaa.tiled_load(%view, %i, %j)

Shapes that a program asks for become arithmetic on the memref's operands: no op of shape queries is left.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import ArrayAttr, IntegerType
from xdsl.ir import Attribute, SSAValue

from tileiras.conversion.cudatile_to_tileaa.constants import integer_attr
from tileiras.conversion.cudatile_to_tileaa.converter import UNIT, CudaTileConverter, lowers
from tileiras.conversion.cudatile_to_tileaa.memory import hints, ordering, widened
from tileiras.conversion.cudatile_to_tileaa.types import MEM_TOKEN, convert_type, int_attr, is_idle_stride, text
from tileiras.dialects import arith
from tileiras.dialects import nv_tileaa as aa
from tileiras.dialects.cuda_tile.types import PartitionViewType

MIN_INDEX_WIDTH = 32
"""Index arithmetic is done in at least this many bits."""


@lowers("make_tensor_view")
def lower_make_tensor_view(cv: CudaTileConverter, op: Any) -> None:
    t: Any = op.results[0].type
    dynamic = [d for d, stride in enumerate(t.strides) if stride is None]
    strides = [v for d, v in zip(dynamic, op.dynamicStrides) if not is_idle_stride(t, d)]
    new = cv.emit_groups(aa.MakeMemref, (cv.get(op.base), cv.get_all(op.dynamicShape), cv.get_all(strides)), (convert_type(t),))
    cv.bind_results(op, new)


@lowers("make_partition_view", "make_strided_view", "make_gather_scatter_view")
def lower_make_view(cv: CudaTileConverter, op: Any) -> None:
    cv.replace(op, aa.BlockTile, cv.get_all(op.operands))


def inbounds(op: Any) -> Attribute | None:
    """The 13.4 flags: absent when no dimension is known to be in bounds, a unit when all are. A promise that a view's own length
    contradicts (its last tile reaches past the end) isn't believed: programs make it where the original's engine, which looks at
    bounds whatever it is told, lets them."""
    flags = op.properties.get("inbounds")
    if flags is None:
        return None
    values = [int(bool(v) and not late) for v, late in zip(flags.get_values(), _reaching_past(op.view.type))]
    if not any(values):
        return None
    return UNIT if all(values) else ArrayAttr([int_attr(v) for v in values])


def _reaching_past(view: Any) -> list[bool]:
    """For each dimension of a view's tiles: whether the last of them surely reaches past the tensor's end."""
    if not isinstance(view, PartitionViewType):
        return [False] * len(view.tile_shape)
    lengths = [view.tensor_view.shape[d] for d in view.dim_map]
    return [n is not None and n % tile != 0 for n, tile in zip(lengths, view.tile_shape)]


@lowers("load_view_tko")
def lower_load_view(cv: CudaTileConverter, op: Any) -> None:
    new = cv.emit_groups(aa.TiledLoad, (cv.get(op.view), cv.get_all(op.index), cv.opt(op.token)),
                         (convert_type(op.results[0].type), MEM_TOKEN),
                         {**ordering(op), "inbounds": inbounds(op), **hints(cv, op, "latency", "allow_tma")})
    cv.bind_results(op, new)


@lowers("store_view_tko")
def lower_store_view(cv: CudaTileConverter, op: Any) -> None:
    new = cv.emit_groups(aa.TiledStore, (cv.get(op.tile), cv.get(op.view), cv.get_all(op.index), cv.opt(op.token)),
                         (MEM_TOKEN,),
                         {**ordering(op), "inbounds": inbounds(op), **hints(cv, op, "latency", "allow_tma")})
    cv.bind_results(op, new)


@lowers("atomic_red_view_tko")
def lower_atomic_red_view(cv: CudaTileConverter, op: Any) -> None:
    new = cv.emit_groups(aa.TiledAtomicRmw,
                         (cv.get(op.value), cv.get(op.view), cv.get_all(op.index), cv.opt(op.token)), (MEM_TOKEN,),
                         {"rmw_mode": text(op.mode.value), **ordering(op), "inbounds": inbounds(op)})
    cv.bind_results(op, new)


def extent(cv: CudaTileConverter, memref: SSAValue, dim: int, width: int) -> SSAValue:
    """Extent `dim` of a memref as an integer of `width` bits: a constant, or an operand of its `make_memref`."""
    memref_type, maker = memref.type, memref.owner
    assert isinstance(memref_type, aa.MemRefType) and isinstance(maker, aa.MakeMemref)
    shape = [n.data for n in memref_type.shape]
    if shape[dim] != aa.DYNAMIC:
        return constant(cv, shape[dim], width)
    return widened(cv, maker.operands[1 + shape[:dim].count(aa.DYNAMIC)], width)


def constant(cv: CudaTileConverter, value: int, width: int) -> SSAValue:
    return cv.emit(arith.Constant, (), (IntegerType(width),), {"value": integer_attr(value, width)}).results[0]


@lowers("get_tensor_shape")
def lower_get_tensor_shape(cv: CudaTileConverter, op: Any) -> None:
    memref = cv.get(op.operands[0])
    for dim, result in enumerate(op.results):
        cv.bind(result, extent(cv, memref, dim, result.type.element_type.width.data))


@lowers("get_index_space_shape")
def lower_get_index_space_shape(cv: CudaTileConverter, op: Any) -> None:
    """Tiles along each tile dimension: ceil(extent / step)."""
    view = cv.get(op.operands[0])
    maker, view_type = view.owner, view.type
    assert isinstance(maker, aa.BlockTile) and isinstance(view_type, aa.TiledViewType)
    memref = maker.operands[0]
    memref_type = memref.type
    assert isinstance(memref_type, aa.MemRefType)
    for result, dim_attr, step_attr in zip(op.results, view_type.dim_map, view_type.steps):
        width, dim, step = result.type.element_type.width.data, dim_attr.data, step_attr.data
        static = memref_type.shape.data[dim].data
        if static != aa.DYNAMIC:
            cv.bind(result, constant(cv, -(-static // step), width))
        else:
            cv.bind(result, tiles(cv, memref, dim, step, width))


def tiles(cv: CudaTileConverter, memref: SSAValue, dim: int, step: int, width: int) -> SSAValue:
    """ceil(extent / step) of a dynamic extent; extents are in [0, 2^(bits - 1)), so the sum can't wrap."""
    maker = memref.owner
    assert isinstance(maker, aa.MakeMemref)
    shape = [n.data for n in memref.type.shape]  # type: ignore[attr-defined]
    operand = maker.operands[1 + shape[:dim].count(aa.DYNAMIC)]
    work = max(operand.type.width.data, MIN_INDEX_WIDTH)  # type: ignore[attr-defined]
    value, work_type = widened(cv, operand, work), IntegerType(work)
    if step > 1:
        rounded = cv.emit(arith.Addi, (value, constant(cv, step - 1, work)), (work_type,)).results[0]
        if step & step - 1:
            value = cv.emit(arith.Divui, (rounded, constant(cv, step, work)), (work_type,)).results[0]
        else:
            shift = constant(cv, step.bit_length() - 1, work)
            value = cv.emit(arith.Shrui, (rounded, shift), (work_type,)).results[0]
    return widened(cv, value, width)
