"""Rules of ops on memory: orderings and scopes, atomics, views and their indices, allocation, printing.

Source: the op verifiers of public `CudaTile.cpp`, `SharedVerifiers.h`, `Types.cpp` (verifyIndices).
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, IntegerType

from tileiras.dialects.cuda_tile.asm_types import type_text
from tileiras.dialects.cuda_tile.types import GatherScatterViewType, TileType, TileViewType, element_bits
from tileiras.dialects.cuda_tile.verify_error import InvalidOp, listed, shown

_INT_ATOMICS = ("and", "or", "xor", "add", "max", "min", "umax", "umin")
_ATOMIC_FLOATS = ("f16", "bf16", "f32", "f64")
_WIDE = (32, 64)
_CONVERSION_ENDS = "diuoxXeEfFgGaAcsSpn%"
"""The characters that end a printf conversion; S is CUDA's wide string."""


def _ordering(op: Any, kind: str, last: str) -> None:
    ordering, scope = op.memory_ordering_semantics.value, op.memory_scope
    if ordering not in ("weak", "relaxed", last):
        raise InvalidOp(op, f"expect one of: weak, relaxed, or {last}, but got: {ordering}")
    if ordering == "weak":
        if scope is not None:
            raise InvalidOp(op, f"weak {kind} must not have memory scope")
    elif scope is None:
        raise InvalidOp(op, f"memory scope is required for {ordering} {kind}")


def _load_ptr(op: Any) -> None:
    _ordering(op, "load", "acquire")


def _store_ptr(op: Any) -> None:
    _ordering(op, "store", "release")


def _view_access(op: Any) -> None:
    view: TileViewType = op.view.type
    index_types = [value.type for value in op.index]
    if len(index_types) != view.index_rank:
        raise InvalidOp(op, f"expected {view.index_rank} index operands (based on view type), got {len(index_types)}")
    if op.tile.type != view.tile_type:
        raise InvalidOp(op, f"expected tile type to be {shown(view.tile_type)} (based on view type), got "
                            f"{shown(op.tile.type)}")
    if isinstance(view, GatherScatterViewType):
        _gather_indices(op, view, index_types)
    else:
        _scalar_indices(op, index_types)


def _scalar_indices(op: Any, types: Sequence[TileType]) -> None:
    for type_ in types:
        if type_.rank:
            raise InvalidOp(op, f"expected index type to be a scalar tile, got {shown(type_)}")
    for i, type_ in enumerate(types):
        if type_ != types[0]:
            raise InvalidOp(op, f"expected index type {i} to be the same as other index types ({shown(types[0])}), got "
                                f"{shown(type_)}")


def _gather_indices(op: Any, view: GatherScatterViewType, types: Sequence[TileType]) -> None:
    sparse = view.sparse_dim
    if types[sparse].rank != 1:
        raise InvalidOp(op, f"expected index at sparse_dim position {sparse} to be a 1D tensor for GatherScatterView, "
                            f"got rank {types[sparse].rank}")
    if types[sparse].shape[0] != view.tile_shape[sparse]:
        raise InvalidOp(op, f"expected gather/scatter index size ({types[sparse].shape[0]}) to match tile shape at "
                            f"gather/scatter dimension {sparse} ({view.tile_shape[sparse]})")
    scalars = [(i, type_) for i, type_ in enumerate(types) if i != sparse]
    for i, type_ in scalars:
        if type_.rank:
            raise InvalidOp(op, f"expected index {i} to be a scalar tile for GatherScatterView")
        if type_ != scalars[0][1]:
            raise InvalidOp(op, f"expected scalar index {i} to have the same type as other scalar indices "
                                f"({shown(scalars[0][1])}), got {shown(type_)}")


def _load_view(op: Any) -> None:
    _view_access(op)
    _ordering(op, "load", "acquire")


def _store_view(op: Any) -> None:
    _view_access(op)
    _ordering(op, "store", "release")


# Atomics.

def _atomic_mode(op: Any, mode: str, element: Any) -> None:
    text = type_text(element)
    if mode in _INT_ATOMICS:
        if text not in ("i32", "i64"):
            raise InvalidOp(op, f"'{mode}' works only with integers i32 and i64")
    elif mode == "addf":
        if text not in _ATOMIC_FLOATS:
            raise InvalidOp(op, "'addf' works only with floats f16, bf16, f32, and f64")
    elif _width(element) not in _WIDE:
        raise InvalidOp(op, f"'{mode}' works only with integers or float of 32 or 64 bitwidth")


def _width(element: Any) -> int:
    """Bits of a number; 0 for a pointer, 19 for tf32."""
    text = type_text(element)
    return 0 if text.startswith("ptr") else 19 if text == "tf32" else element_bits(element)


def _atomic_ordering(op: Any) -> None:
    if op.memory_ordering_semantics.value == "weak":
        raise InvalidOp(op, "memory ordering semantics must be one of: relaxed, acquire, release, acq_rel")


def _pointee(op: Any, name: str) -> Any:
    """The element type of the value operand `name`, checked against the pointers."""
    pointee, element = op.pointers.type.element_type.pointee, getattr(op, name).type.element_type
    if pointee != element:
        raise InvalidOp(op, f"expected pointee type ({shown(pointee)}) to match element type of '{name}' "
                            f"({shown(element)})")
    return element


def _atomic_rmw(op: Any) -> None:
    element = _pointee(op, "arg")
    if op.mask is not None and op.mask.type.shape != op.arg.type.shape:
        raise InvalidOp(op, "failed to verify that all of {pointers, arg, mask} have same shape")
    _atomic_mode(op, op.mode.value, element)
    _atomic_ordering(op)


def _atomic_cas(op: Any) -> None:
    element = _pointee(op, "val")
    if _width(element) not in _WIDE:
        raise InvalidOp(op, "expect only float or integer types with 32 or 64 bit")
    if op.mask is not None and op.mask.type.shape != op.val.type.shape:
        raise InvalidOp(op, "failed to verify that all of {pointers, val, cmp and mask} have same shape")
    _atomic_ordering(op)


def _atomic_red_view(op: Any) -> None:
    view, value = op.view.type, op.value.type
    if isinstance(view, GatherScatterViewType):
        raise InvalidOp(op, "gather_scatter_view is not supported; use partition_view instead")
    if view.padding_value is not None:
        raise InvalidOp(op, "views with padding_value are not supported for atomic reductions")
    tile = view.tile_type
    if tile.element_type != value.element_type:
        raise InvalidOp(op, f"view element type ({shown(tile.element_type)}) must match value element type "
                            f"({shown(value.element_type)})")
    if tile.shape != value.shape:
        raise InvalidOp(op, f"view tile shape {listed(tile.shape)} must match value shape {listed(value.shape)} for "
                            "element-wise atomic operations")
    if op.mode.value == "xchg":
        raise InvalidOp(op, "atomic_red_view_tko op cannot use xchg operation")
    _atomic_mode(op, op.mode.value, value.element_type)
    if op.memory_ordering_semantics.value != "relaxed":
        raise InvalidOp(op, "only 'relaxed' memory ordering is supported for view-based atomic reductions")
    if op.memory_scope.value == "sys":
        raise InvalidOp(op, "memory scope 'sys' is not supported for view-based atomic reductions; use 'tl_blk' or "
                            "'device' for TMA compatibility")
    _atomic_indices(op, tile.rank)


def _multimem(op: Any) -> None:
    """No view has the pointers that these ops ask for: how they are written isn't public (docs/deviations.md)."""
    raise InvalidOp(op, "expected a multicast pointer, but got none")


def _atomic_indices(op: Any, rank: int) -> None:
    if len(op.index) != rank:
        raise InvalidOp(op, f"expected {rank} index operand(s) for view with tile rank {rank}, got {len(op.index)}")
    for i, index in enumerate(op.index):
        if index.type.rank:
            raise InvalidOp(op, f"index operand {i} must be a scalar tile (rank 0), got shape "
                                f"{listed(index.type.shape)}")


# Views.

def _index_space(op: Any) -> None:
    rank = op.src.type.index_rank
    if len(op.results) != rank:
        raise InvalidOp(op, f"expected {rank} results due to view index space rank, but got {len(op.results)}")


def _tensor_shape(op: Any) -> None:
    rank = op.src.type.rank
    if len(op.results) != rank:
        raise InvalidOp(op, f"expected {rank} results due to tensor rank, but got {len(op.results)}")


def _tensor_view(op: Any) -> None:
    view, pointee = op.result.type, op.base.type.element_type.pointee
    if view.element_type != pointee:
        raise InvalidOp(op, f"expected pointer to {shown(view.element_type)} to build tensor_view of this type, got "
                            f"{shown(pointee)}")
    groups = (("shape", view.num_dynamic_shape, op.dynamicShape), ("stride", view.num_dynamic_strides,
                                                                   op.dynamicStrides))
    for what, expected, values in groups:
        if len(values) != expected:
            raise InvalidOp(op, f"expected {expected} dynamic {what} operands, got {len(values)}")
    first = None
    for what, _, values in groups:
        for i, value in enumerate(values):
            first = first or value.type
            if value.type != first:
                raise InvalidOp(op, f"expected dynamic {what} index {i} to be of the same type as the other dynamic "
                                    f"values ({shown(first)}), got {shown(value.type)}")


def _tile_view(op: Any) -> None:
    given, expected = op.tensor_view.type, op.result.type.tensor_view
    if given is not expected and given != expected:
        raise InvalidOp(op, f"expected the type of the provided tensor_view value ({shown(given)}) to be the same as "
                            f"the view's tensor_view type ({shown(expected)})")


# The rest.

def _nonnegative(op: Any) -> None:
    for name in ("num_elem", "alignment"):
        value = op.properties[name]
        if not isinstance(value, IntegerAttr) or value.value.data < 0:
            raise InvalidOp(op, f"attribute '{name}' failed to satisfy constraint: 64-bit signless integer attribute "
                                "whose minimum value is 0")


def _alloca(op: Any) -> None:
    alignment = op.alignment.value.data
    if alignment <= 0 or alignment & (alignment - 1):
        raise InvalidOp(op, "'alignment' must be power of two")
    pointee = op.result.type.element_type.pointee
    size = 1 if isinstance(pointee, IntegerType) and pointee.width.data == 1 else _width(pointee) // 8
    if alignment < size:
        raise InvalidOp(op, f"'alignment' ({alignment}) must be at least the natural size ({size} bytes) for element "
                            f"type {shown(pointee)}")


def _join_tokens(op: Any) -> None:
    if len(op.operands) < 2:
        raise InvalidOp(op, "expect two or more tokens")


def _print(op: Any) -> None:
    expected = count_conversions(op.str.data)
    if expected is None:
        raise InvalidOp(op, "found unterminated format expression")
    if expected != len(op.args):
        raise InvalidOp(op, f"incorrect number of operands: expected {expected}, found {len(op.args)}")


def count_conversions(text: str) -> int | None:
    """How many values a printf format takes; None if a conversion doesn't end."""
    count = pos = 0
    while (pos := text.find("%", pos)) >= 0:
        end = next((i for i in range(pos + 1, len(text)) if text[i] in _CONVERSION_ENDS), None)
        if end is None:
            return None
        if end == pos + 1 and text[end] == "%":
            pos += 2
        else:
            count += 1
            pos += 1
    return count


Rule = Callable[[Any], None]

ATTRIBUTE_RULES: dict[str, Rule] = {"alloca": _nonnegative}

OP_RULES: dict[str, Rule] = {
    "load_ptr_tko": _load_ptr, "store_ptr_tko": _store_ptr, "load_view_tko": _load_view, "store_view_tko": _store_view,
    "atomic_rmw_tko": _atomic_rmw, "atomic_cas_tko": _atomic_cas, "atomic_red_view_tko": _atomic_red_view,
    "multimem_load_reduce_view_tko": _multimem, "multimem_reduce_view_tko": _multimem, "multimem_store_view_tko": _multimem,
    "get_index_space_shape": _index_space, "get_tensor_shape": _tensor_shape, "make_tensor_view": _tensor_view,
    "make_partition_view": _tile_view, "make_strided_view": _tile_view, "make_gather_scatter_view": _tile_view,
    "alloca": _alloca, "join_tokens": _join_tokens, "print_tko": _print,
}
