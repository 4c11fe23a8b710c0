"""What makes a type of the dialect valid, each rule with the public dialect's words.

Every type checks itself when it is made. The functions raise VerifyException. Source: public `Types.cpp`,
`SharedVerifiers.h`.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import Float4E2M1FNType, IntegerType
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

MAX_TILE_ELEMENTS = 1 << 24
_FLOAT_PADDINGS = ("neg_zero", "nan", "pos_inf", "neg_inf")


def _listed(values: Iterable[int | None]) -> str:
    return ", ".join("?" if value is None else str(value) for value in values)


def check_tile(shape: Sequence[int], element_type: Attribute) -> None:
    """Positive powers of two, at most MAX_TILE_ELEMENTS in all; f4 in pairs."""
    if shape and type(element_type).__name__ == "PointerType" and isinstance(
            element_type.pointee, Float4E2M1FNType):  # type: ignore[attr-defined]
        raise VerifyException("tiles of ptr<f4E2M1FN> must have rank 0; use an f4 tile view for memory accesses")
    if isinstance(element_type, Float4E2M1FNType) and all(extent % 2 for extent in shape):
        raise VerifyException("F4E2M1FN tiles must have an even number of elements")
    count = 1
    for extent in shape:
        if extent <= 0:
            raise VerifyException(f"all dimensions must be positive constants, got {_listed(shape)}")
        if extent & (extent - 1):
            raise VerifyException(f"all dimensions must be powers of two, got {_listed(shape)}")
        count *= extent
        if count > MAX_TILE_ELEMENTS:
            raise VerifyException(f"tile would exceed the maximum of {MAX_TILE_ELEMENTS} elements")


def check_tensor_view(shape: Sequence[int | None], strides: Sequence[int | None]) -> None:
    """Shape and strides of one rank, each positive or dynamic (None)."""
    if len(shape) != len(strides):
        raise VerifyException("expected shape and stride to be of same rank but got shape of rank "
                              f"{len(shape)} and stride of rank {len(strides)}")
    for what, values in (("sizes", shape), ("strides", strides)):
        if any(value is not None and value <= 0 for value in values):
            raise VerifyException(f"dimensions must have strictly positive constant {what} but got [{_listed(values)}]")


def check_view_tile(tile_shape: Sequence[int], view_rank: int) -> None:
    """A tile of the tensor view's rank, of positive powers of two."""
    if not tile_shape:
        raise VerifyException("0-dimension tile shape is not supported")
    if len(tile_shape) != view_rank:
        raise VerifyException(f"expected tensor_view rank and tile rank to match, got tensor_view of rank {view_rank} "
                              f"and tiles of rank {len(tile_shape)}")
    if any(extent <= 0 for extent in tile_shape):
        raise VerifyException(f"tile shape dimensions must have positive length but got [{_listed(tile_shape)}]")
    if any(extent & (extent - 1) for extent in tile_shape):
        raise VerifyException(f"tile shape dimensions must have power of two length but got [{_listed(tile_shape)}]")


def check_dim_map(dim_map: Sequence[int], tile_rank: int, view_rank: int) -> None:
    """Every tile dimension to a tensor dimension of its own."""
    if len(dim_map) != tile_rank:
        raise VerifyException(f"expected dim_map to map exactly all {tile_rank} dimensions of the tile, got "
                              f"{len(dim_map)} mappings")
    used: dict[int, int] = {}
    for tile_dim, target in enumerate(dim_map):
        if target < 0:
            raise VerifyException(f"target dimension must not be negative, got {target}")
        if target >= view_rank:
            raise VerifyException("target dimension is outside of tensor view dimensions, expected strictly less than "
                                  f"{view_rank}, got {target}")
        if target in used:
            raise VerifyException(f"target dimension {target} mapped at least twice (for tile dimensions "
                                  f"{used[target]} and {tile_dim})")
        used[target] = tile_dim


def check_traversal_strides(strides: Sequence[int], tile_rank: int) -> None:
    """One positive stride for each tile dimension."""
    if len(strides) != tile_rank:
        raise VerifyException(f"expected {tile_rank} traversal strides, got {len(strides)}")
    if any(stride <= 0 for stride in strides):
        raise VerifyException(f"traversal strides must be strictly positive but got [{_listed(strides)}]")


def check_sparse_dim(sparse_dim: int, view_rank: int) -> None:
    """A dimension of the tensor view."""
    if sparse_dim >= view_rank:
        raise VerifyException("gather dimension is outside of tensor view dimensions, expected strictly less than "
                              f"{view_rank}, got {sparse_dim}")


def check_padding(padding: str | None, element_type: Attribute) -> None:
    """The special float values only for float elements."""
    if padding in _FLOAT_PADDINGS and isinstance(element_type, IntegerType):
        raise VerifyException(f"padding_value {padding} can only be used with floating point element types, got "
                              f"{element_type}")
