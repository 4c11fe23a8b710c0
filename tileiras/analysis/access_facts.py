"""What is known of a memory access: which tile dimension runs along memory, how wide an access may be, what must be checked."""
from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ArrayAttr, BFloat16Type, Float16Type, Float32Type, IntAttr, TensorType, UnitAttr, i1
from xdsl.ir import Attribute, Operation, SSAValue

from tileiras.analysis.access import MAX_ACCESS_BYTES
from tileiras.analysis.axis import AxisAnalysis
from tileiras.analysis.axis_info import longest
from tileiras.analysis.layout_cost import LINE_BYTES, SECTOR_BYTES
from tileiras.dialects import nv_tileaa
from tileiras.dialects.element import element_bytes
from tileiras.dialects.nv_tileaa import PLACING, int_array, int_values

if TYPE_CHECKING:
    from tileiras.machine.targets import Target


NARROW_BYTES = 4
"""A lane's part of an access up to which one of several elements saves more than it takes to look at bounds first: of 8 bytes,
kernels of the suite took 1.02 to 1.06 of the time, of 4 and less 0.72 to 1.03 (predicted, H100)."""


@dataclass(frozen=True)
class ViewFacts:
    """contiguous: the tile dimension of stride 1, None if there is none. width: elements that may go in one access as
    far as alignment and bounds are concerned. check: for each tile dimension, whether bounds must be checked.
    stretch: elements that may go in one access from any multiple of that on, 0 where tiles don't follow one another.
    inside: elements that may where all of them are in bounds. neighbours, apart: where no dimension is contiguous, the nearest,
    and how many elements its neighbours lie from one another (analysis/access.py)."""

    contiguous: int | None
    width: int
    check: tuple[bool, ...]
    stretch: int = 0
    inside: int = 1
    neighbours: int | None = None
    apart: int = 1


def view_facts(op: Operation, view: SSAValue, axis: AxisAnalysis) -> ViewFacts:
    """The facts of a tiled access through `view`."""
    t = view.type
    assert isinstance(t, nv_tileaa.TiledViewType)
    shape, dim_map, steps = int_values(t.tile_shape), int_values(t.dim_map), int_values(t.steps)
    kind, sparse = t.kind.data, t.sparse_dim.data
    memref = axis.memref(view)
    size = element_bytes(t.memref.element_type)
    within = promised(op, len(shape))
    outside: Any = op.properties.get("outside")

    def needs_check(tile_dim: int) -> bool:
        if within[tile_dim]:
            return False
        if outside is not None and outside.data[tile_dim].data:
            return True
        whole = kind != "gather_scatter" and steps[tile_dim] == shape[tile_dim]
        return not (whole and memref.extent_divisors[dim_map[tile_dim]] % shape[tile_dim] == 0)

    check = tuple(needs_check(i) for i in range(len(shape)))
    many = [i for i, d in enumerate(dim_map) if shape[i] > 1 and d != sparse]
    contiguous = next((i for i in many if memref.strides[dim_map[i]] == 1), None)
    picked = next((i for i, d in enumerate(dim_map) if shape[i] > 1 and d == sparse and memref.strides[d] == 1), None)
    neighbours, apart = (None, 1)
    if contiguous is None and picked is not None:
        neighbours, apart = picked, _likely_apart(size)     # a row's elements, here and there
    elif contiguous is None:
        neighbours, apart = _nearest(many, [memref.strides[d] for d in dim_map], dim_map, size)
    width, stretch, inside = 1, 0, 1
    if contiguous is not None:
        width = max(1, min(MAX_ACCESS_BYTES, memref.base_alignment) // size)
        for i, d in enumerate(dim_map):
            if i != contiguous:
                width = gcd(width, memref.stride_divisors[d])
        begins = steps[contiguous] * axis.divisor(op.coords[contiguous])  # type: ignore[attr-defined]
        inside = gcd(width, begins, shape[contiguous])
        if check[contiguous]:
            width = gcd(width, memref.extent_divisors[dim_map[contiguous]])
        if kind == "partition" and steps[contiguous] == shape[contiguous]:
            stretch = width
        width = gcd(width, begins)
    return ViewFacts(contiguous, width, check, stretch, inside, neighbours, apart)


def _nearest(dims: list[int], strides: list[int | None], dim_map: tuple[int, ...], size: int) -> tuple[int | None, int]:
    """Of a tile's dimensions, none of them contiguous: along which its elements of so many bytes lie nearest to one another, and
    how many apart (a power of two; those of a sector each count alike). Where strides aren't known, an array's last dimensions are
    likely to be its innermost."""
    known = {i: abs(stride) for i in dims if (stride := strides[i]) is not None}
    nearest = min(known, key=known.__getitem__, default=None)
    if nearest is not None and known[nearest] * size < LINE_BYTES:
        return nearest, min(1 << max(0, known[nearest] - 1).bit_length(), max(1, SECTOR_BYTES // size))
    return max((i for i in dims if i not in known), key=lambda i: dim_map[i], default=None), _likely_apart(size)


def _likely_apart(size: int) -> int:
    return max(1, LIKELY_APART // size)


def promised(op: Operation, rank: int) -> tuple[bool, ...]:
    """For each tile dimension, whether the program promises that it stays in bounds."""
    given = op.properties.get("inbounds")
    if isinstance(given, UnitAttr):
        return (True,) * rank
    if isinstance(given, ArrayAttr):
        return tuple(bool(a.data) for a in given.data)  # type: ignore[attr-defined]
    return (False,) * rank


def pointer_width(op: Operation, dim: int, axis: AxisAnalysis, masked: bool = True) -> int:
    """Elements that one access through these pointers may take along `dim`, as far as the analysis knows; not `masked`: where all
    of them are wanted."""
    p = op.operands[0]
    size = element_bytes(p.type.element_type.pointee)  # type: ignore[attr-defined]
    aligned = axis.divisibility(p)[dim]
    width = min(MAX_ACCESS_BYTES // size, max(1, aligned // size), axis.contiguity(p)[dim])
    mask = op.mask  # type: ignore[attr-defined]
    if masked and mask is not None and isinstance(mask.type, TensorType):
        width = min(width, axis.constancy(mask)[dim])
    return max(1, width)


def ends_somewhere(mask: SSAValue, axis: AxisAnalysis) -> bool:
    """Whether a mask looks like a bound: numbers side by side, compared with one."""
    owner = mask.owner
    if not isinstance(owner, Operation):
        return False
    if owner.name in ("arith.andi", *PLACING):
        return any(ends_somewhere(v, axis) for v in owner.operands)
    if owner.name != "arith.cmpi" or not isinstance(mask.type, TensorType):
        return False
    pairs = [(axis.contiguity(v), axis.constancy(v)) for v in owner.operands]
    return any(run[d] > 1 and others[d] > 1 for (run, _), (_, others) in (pairs, pairs[::-1]) for d in range(len(run)))


def widest_atomic(op: Any, target: Target) -> int:
    """Elements that one atomic access of this op may take on this target: only reductions by floating-point addition take
    several."""
    old: list[SSAValue] = [r for r in op.results if not isinstance(r.type, nv_tileaa.MemTokenType)]
    mode = op.properties.get("rmw_mode")
    if mode is None or mode.data != "addf" or any(r.first_use is not None for r in old):
        return 1
    element = op.source.type.element_type if isinstance(op.source.type, TensorType) else op.source.type
    if isinstance(element, Float32Type):
        return 4 if target.has_atom_vector_f32 else 1
    if isinstance(element, Float16Type):
        return 8 if target.has_atom_vector_f32 else 2
    if isinstance(element, BFloat16Type):
        return 8 if target.has_atom_vector_f32 else 1
    return 1


def access_facts(op: Operation, axis: AxisAnalysis, target: Target) -> dict[str, Attribute] | None:
    """The attributes of an access that say what is known of it (analysis/access.py); None for other ops."""
    name = op.name
    most = widest_atomic(op, target) if "atomic" in name else MAX_ACCESS_BYTES
    if name in VIEW_ACCESSES:
        view: SSAValue = op.view  # type: ignore[attr-defined]
        facts = view_facts(op, view, axis)
        runs = [min(most, facts.width) if d == facts.contiguous else 1 for d in range(len(facts.check))]
        known = {"check": int_array(facts.check), **_attributes(facts.contiguous, runs)}
        if facts.neighbours is not None:
            known |= {"neighbours": IntAttr(facts.neighbours), "apart": IntAttr(facts.apart)}
        if facts.width < facts.inside and _is_narrow(op, facts.width, view.type.memref.element_type):   # type: ignore[attr-defined]
            known["inside"] = IntAttr(facts.inside)
        if name == "nv_tileaa.tiled_load" and facts.contiguous is not None:
            extent = int_values(view.type.tile_shape)[facts.contiguous]      # type: ignore[attr-defined]
            if extent == facts.width < facts.stretch:
                known["stretch"] = IntAttr(facts.stretch)
        return known
    if name in POINTER_ACCESSES and isinstance(op.operands[0].type, TensorType):
        contiguity = axis.contiguity(op.operands[0])
        best = longest(contiguity)
        if best is None:
            from tileiras.analysis.likely import likely_line
            unknown = _attributes(None, [1] * len(contiguity))
            along = likely_line(op.operands[0], axis)
            if along is not None:
                return unknown | {"neighbours": IntAttr(along)}
            along = max((d for d, n in enumerate(op.operands[0].type.get_shape()) if n > 1), default=None)
            if along is None or name not in PLAIN_ACCESSES:
                return unknown
            nbytes = element_bytes(op.operands[0].type.element_type.pointee)    # type: ignore[attr-defined]
            return unknown | {"neighbours": IntAttr(along), "apart": IntAttr(_likely_apart(nbytes))}
        known = _attributes(best, [1 if n <= 1 else min(most, pointer_width(op, d, axis)) for d, n in enumerate(contiguity)])
        mask: SSAValue | None = op.mask     # type: ignore[attr-defined]
        narrow = int_values(known["runs"])[best]    # type: ignore[arg-type]
        pointee = op.operands[0].type.element_type.pointee  # type: ignore[attr-defined]
        if mask is not None and _is_narrow(op, narrow, pointee) and ends_somewhere(mask, axis):
            inside = pointer_width(op, best, axis, masked=False)
            if inside > narrow:
                known["inside"] = IntAttr(inside)
        return known
    return None


def _is_narrow(op: Any, width: int, element: Attribute) -> bool:
    """Whether accesses of so many elements are narrow, and may be of one width here and of another there: a load or store that
    nobody is told of."""
    return "atomic" not in op.name and op.properties["mem_semantic"].data == "weak" and element != i1 and \
        width * element_bytes(element) <= NARROW_BYTES


def _attributes(contiguous: int | None, runs: list[int]) -> dict[str, Attribute]:
    out: dict[str, Attribute] = {"runs": int_array(runs)}
    if contiguous is not None:
        out["contiguous"] = IntAttr(contiguous)
    return out


VIEW_ACCESSES = frozenset({"nv_tileaa.tiled_load", "nv_tileaa.tiled_store", "nv_tileaa.tiled_atomic_rmw"})
PLAIN_ACCESSES = frozenset({"nv_tileaa.load", "nv_tileaa.store"})
POINTER_ACCESSES = PLAIN_ACCESSES | {"nv_tileaa.atomic_rmw", "nv_tileaa.atomic_cas"}
LIKELY_APART = 16
"""Bytes between neighbours along the last dimension, of which nothing is known: a warp that takes its lanes' elements one behind
another touches fewer lines then, and no more where they lie anywhere (every fourth number of a signal, B200: 127 us, 35)."""
