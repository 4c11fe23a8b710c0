"""Can a tile be copied from memory straight to its buffer by `cp.async`, and which thread then copies which chunk?

A chunk is 16, 8 or 4 bytes that lie side by side both in memory and in the buffer. Memory's side says how long runs are known
to be (`runs`), the buffer's side where they go; the assignment of chunks to threads is the one with the fewest passes through
shared memory and the longest stretches of memory a warp.
"""
from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.dialects.builtin import Float4E2M1FNType, IntegerType, TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.analysis.access import apart_of, contiguous_of, line_of, sure_runs_of
from tileiras.analysis.ahead import places_are_tiles
from tileiras.analysis.layout_rules import RENAMES
from tileiras.analysis.warpgroup_dots import is_zero
from tileiras.dialects.element import element_bytes
from tileiras.dialects.nv_tileaa import PtrType, int_values
from tileiras.dialects.nv_tileas import layout_of
from tileiras.layout.linear import LinearLayout, blocked, dim_bits
from tileiras.layout.placement import default_layout
from tileiras.layout.shared import SharedLayout, access

READERS = frozenset({"nv_tileas.dot", "nv_tileas.dot_scaled", "nv_tileas.load_shared"})
"""What reads a buffer and nothing else."""
THREADS_ATOM = "cp.async."
CHUNKS = (16, 8, 4)
"""Bytes that cp.async copies (PTX ISA)."""
LEAST_BITS = 8
"""Elements narrower than a byte lie otherwise in buffers than in memory."""


@dataclass(frozen=True)
class ThreadCopy:
    """`chunk`: bytes at once. `threads`: who copies which elements."""

    chunk: int
    threads: LinearLayout

    @property
    def atom(self) -> str:
        return f"{THREADS_ATOM}{self.chunk}"


def chunk_of(copy: Operation) -> int:
    """Bytes that one instruction of a copy by threads moves."""
    atom: Any = copy.properties["atom"]
    return int(atom.data.removeprefix(THREADS_ATOM))


def copied_bytes(copy: Any) -> int:
    """Of a copy by threads, all of them together."""
    t = copy.buffer.type
    return prod(t.layout.data.shape) * element_bytes(t.element_type)


def chunks_of(copy: Operation) -> int:
    """Instructions of a copy by threads, over all of them."""
    return copied_bytes(copy) // chunk_of(copy)


def has_plain_bytes(t: Attribute) -> bool:
    """Whether elements of a type are in buffers what they are in memory, byte for byte."""
    if isinstance(t, IntegerType):
        return t.width.data >= LEAST_BITS
    return not isinstance(t, (PtrType, Float4E2M1FNType))


def copies_chunks(layout: LinearLayout, buffer: SharedLayout, size: int, chunk: int, dim: int) -> bool:
    """Whether threads in this layout hold chunks of so many bytes along `dim` whose elements lie side by side in the buffer, in
    the same order. `size`: bytes of an element."""
    width = chunk // size
    if width < 1 or layout.contiguous(dim) < width:
        return False
    plan = access(layout, buffer, size, (), chunk)
    return plan.vec == width and all(r == tuple(range(r[0], r[0] + width)) for r, _, _ in plan.groups)


def renames_of(value: SSAValue) -> list[Operation]:
    """The ops, last first, that lead to a tensor from the one that it has the elements of, each used for this only."""
    found: list[Operation] = []
    while isinstance(value.owner, Operation) and value.owner.name in RENAMES and value.has_one_use() and \
            isinstance(value.owner.operands[0].type, TensorType):
        found.append(value.owner)
        value = value.owner.operands[0]
    return found


def as_source(shared: SharedLayout, renames: list[Operation]) -> SharedLayout:
    """Where the elements of a buffer lie by the names that they have before these ops (last first)."""
    for op in renames:
        source: Any = op.operands[0].type
        shape = tuple(source.get_shape())
        bases = shared.bases
        if op.name == "nv_tileas.permute":
            order: Any = op.properties["permutation"]
            old, new = dim_bits(shared.shape), dim_bits(shape)
            moved = list(bases)
            for i, d in enumerate(int_values(order)):
                moved[new[d][0]:new[d][0] + new[d][1]] = bases[old[i][0]:old[i][0] + old[i][1]]
            bases = tuple(moved)
        shared = SharedLayout(shape, bases)
    return shared


def thread_copy(load: Operation, buffer: Any, num_warps: int, filled: bool = False, few: bool = False) -> ThreadCopy | None:
    """How threads copy what a load gives to a buffer of this type; None where cp.async can't. `filled`: whoever reads the buffer
    sees to what lies outside of the array. `few`: there may be fewer chunks than threads."""
    tile: Any = load.results[0].type
    if not isinstance(tile, TensorType):
        return None
    shape, shared, runs = tile.get_shape(), buffer.layout.data, sure_runs_of(load)
    size = element_bytes(tile.element_type)
    # of one row, elements of a chunk's size needn't be neighbours
    by_elements = size == CHUNKS[-1] and sum(extent > 1 for extent in shape) <= 1
    dim = line_of(load) if by_elements and apart_of(load) == 1 else contiguous_of(load)
    if dim is None or not has_plain_bytes(tile.element_type) or not (filled or fills_with_zeros(load)):
        return None
    run = (runs[dim] if runs else 1) * size
    for chunk in CHUNKS:
        if chunk < size or chunk > run:
            continue
        order = (dim, *[d for d in range(len(shape) - 1, -1, -1) if d != dim])
        offered: list[LinearLayout] = [layout_of(load.results[0])]
        if not places_are_tiles(load):      # else places lie in the tile's own layout
            offered.insert(0, (blocked if few else default_layout)(shape, num_warps, chunk // size, order))
        fit = [layout for layout in offered if copies_chunks(layout, shared, size, chunk, dim)]
        if fit:
            return ThreadCopy(chunk, min(fit, key=lambda layout: access(layout, shared, size, (), chunk).passes(size)))
    return None


def why_not(load: Operation) -> str:
    """What stands against copying a tile by `cp.async`, and what would help."""
    tile: Any = load.results[0].type
    dim, size = contiguous_of(load), element_bytes(tile.element_type)
    if not has_plain_bytes(tile.element_type):
        return "its elements lie otherwise in shared memory than in the array"
    if not fills_with_zeros(load):
        return "only zeros can be filled in behind the array's end; use PaddingMode.ZERO"
    if dim is None:
        return "no dimension of the tile has stride 1 in memory"
    if sure_runs_of(load)[dim] * size < CHUNKS[-1]:
        return f"{CHUNKS[-1]} bytes side by side aren't known to be aligned: add an assume_div_by to base, strides and extents"
    return "its elements lie in another order in shared memory than in the array, which the product asks for"


def fills_with_zeros(load: Operation) -> bool:
    """Whether what lies out of bounds is zero or may be anything, or nothing does."""
    if load.name == "nv_tileas.load":
        other = load.other      # type: ignore[attr-defined]
        return other is None or load.mask is None or is_zero(other)     # type: ignore[attr-defined]
    check: Any = load.properties.get("check")
    padding: str = load.view.type.padding.data      # type: ignore[attr-defined]
    return padding in ("", "zero") or "filled" in load.properties or (check is not None and not any(int_values(check)))
