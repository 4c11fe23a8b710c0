"""What makes a type of the levels below cuda_tile valid: extents, elements, layouts, how views walk their memref.

Types are made by the thousand while compiling and don't check themselves; `check_type` does, once for each type.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

from xdsl.dialects.builtin import NoneAttr, TensorType
from xdsl.ir import Attribute

from tileiras.dialects.kinds import is_element
from tileiras.dialects.nv_tileaa import DYNAMIC, MemRefType, PtrType, TiledViewType, int_values
from tileiras.dialects.nv_tileas import PIPE_KINDS, BufferType, FlightType, LayoutAttr, PipeType, RingType, TensorMapType, TmemType
from tileiras.layout.atoms.umma import COLUMNS, LEAST_N
from tileiras.layout.f2 import independent
from tileiras.layout.tensormap import ELEMENTS, MAX_RANK

MAX_TILE_ELEMENTS = 1 << 24
"""Of the language."""

MAX_STAGES = 64
"""Of a ring: more than any kernel's shared memory has use for."""

VIEW_KINDS = ("partition", "strided", "gather_scatter")
PADDINGS = ("", "zero", "neg_zero", "nan", "pos_inf", "neg_inf")


@lru_cache(maxsize=8192)
def check_type(t: Attribute) -> str | None:
    """What is wrong with a type, or None."""
    rule = _RULES.get(type(t))
    return None if rule is None else rule(t)


def check_extents(shape: Sequence[int]) -> str | None:
    """What is wrong with a tile's extents: they are powers of two, not too many elements in all."""
    if any(n <= 0 or n & n - 1 for n in shape):
        return "extents must be powers of two"
    if prod(shape) > MAX_TILE_ELEMENTS:
        return f"a tile has at most {MAX_TILE_ELEMENTS} elements"
    return None


def _tensor(t: TensorType) -> str | None:
    shape = t.get_shape()
    if not shape:
        return "a tensor has a dimension at least"
    problem = check_extents(shape)
    if problem is not None:
        return problem
    if not is_element(t.element_type):
        return "elements must be numbers or pointers"
    if isinstance(t.element_type, PtrType) and (problem := check_type(t.element_type)) is not None:
        return problem
    if isinstance(t.encoding, NoneAttr):
        return None
    if not isinstance(t.encoding, LayoutAttr):
        return "the encoding must be a layout"
    layout = t.encoding.data
    if tuple(layout.shape) != tuple(shape):
        return "the layout is of another shape"
    if len(independent(layout.bases)) != prod(shape).bit_length() - 1:
        return "the layout doesn't hold every element"
    return None


def _pointer(t: PtrType) -> str | None:
    return None if is_element(t.pointee) else "the pointee must be a number or a pointer"


def _memref(t: MemRefType) -> str | None:
    if not is_element(t.element_type):
        return "elements must be numbers or pointers"
    shape, strides = int_values(t.shape), int_values(t.strides)
    if len(shape) != len(strides):
        return "there must be as many strides as extents"
    if any(n < 1 and n != DYNAMIC for n in shape):
        return "extents must be positive"
    if any(n < 0 and n != DYNAMIC for n in strides):
        return "strides must not be negative"
    return None


def _view(t: TiledViewType) -> str | None:
    memref: Any = t.memref
    if not isinstance(memref, MemRefType):
        return "a view is one of a memref"
    problem = check_type(memref)
    if problem is not None:
        return problem
    tile, steps, dim_map = int_values(t.tile_shape), int_values(t.steps), int_values(t.dim_map)
    if t.kind.data not in VIEW_KINDS:
        return f"the kind must be one of {', '.join(VIEW_KINDS)}"
    if t.padding.data not in PADDINGS:
        return f"unknown padding '{t.padding.data}'"
    if (problem := check_extents(tile)) is not None:
        return problem
    rank = len(memref.shape.data)
    if not len(tile) == len(steps) == len(dim_map) == rank:
        return f"tile, steps and dim_map must have {rank} entries, as the memref has dimensions"
    if sorted(dim_map) != list(range(rank)):
        return "dim_map must name each dimension once"
    if any(step < 1 for step in steps):
        return "steps must be positive"
    sparse = t.sparse_dim.data
    if t.kind.data == "gather_scatter":
        return None if 0 <= sparse < rank else "the sparse dimension must be one of the memref's"
    return None if sparse == DYNAMIC else "only a gather_scatter view has a sparse dimension"


def _buffer(t: BufferType) -> str | None:
    if not is_element(t.element_type):
        return "elements must be numbers or pointers"
    layout = t.layout.data
    problem = check_extents(layout.shape)
    if problem is not None:
        return problem
    if len(layout.bases) != prod(layout.shape).bit_length() - 1:
        return f"{prod(layout.shape)} elements have {len(layout.bases)} bits of index"
    return None


def _stages(count: Any) -> str | None:
    return None if 1 <= count.data <= MAX_STAGES else f"there are 1 to {MAX_STAGES} stages"


def _ring(t: RingType) -> str | None:
    if not isinstance(t.buffer, BufferType):
        return "a ring is one of buffers"
    return check_type(t.buffer) or _stages(t.stages)


def _pipe(t: PipeType) -> str | None:
    if t.kind.data not in PIPE_KINDS:
        return f"the kind must be one of {', '.join(PIPE_KINDS)}"
    return _stages(t.stages)


def _tensor_map(t: TensorMapType) -> str | None:
    if t.element.data not in ELEMENTS:
        return f"the element must be one of {', '.join(ELEMENTS)}"
    shape = int_values(t.shape)
    problem = check_extents(shape)
    if problem is not None:
        return problem
    if not 1 <= len(shape) <= MAX_RANK:
        return f"there are 1 to {MAX_RANK} dimensions"
    if not 0 <= t.major.data < len(shape):
        return f"the major dimension must be one of {len(shape)}"
    try:
        _ = t.tile
    except ValueError as error:
        return str(error)
    return None


def _flight(t: FlightType) -> str | None:
    if not isinstance(t.tensor, TensorType):
        return "what flies becomes a tensor"
    return check_type(t.tensor) or (None if t.parts.data > 0 else "at least one instruction's accumulators are in flight")


def _tmem(t: TmemType) -> str | None:
    shape = int_values(t.shape)
    problem = check_extents(shape)
    if problem is not None:
        return problem
    if t.rows.data not in LEAST_N or not 2 <= len(shape) <= 3 or shape[-2] % t.rows.data or shape[-1] < min(LEAST_N.values()):
        return f"rows of {t.rows.data} don't make an accumulator of {'x'.join(map(str, shape))}"
    if t.packed.data not in (1, 2) or shape[-1] % t.packed.data:
        return f"{t.packed.data} elements don't share a cell"
    return None if t.columns <= COLUMNS else f"tensor memory has {COLUMNS} columns, not {t.columns}"


_RULES: dict[type, Callable[[Any], str | None]] = {
    TensorType: _tensor, PtrType: _pointer, MemRefType: _memref, TiledViewType: _view, BufferType: _buffer,
    RingType: _ring, PipeType: _pipe, TensorMapType: _tensor_map, FlightType: _flight, TmemType: _tmem,
}
