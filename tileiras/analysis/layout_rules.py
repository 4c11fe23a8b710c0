"""How layouts pass through the ops of nv_tileas: one table, which layout assignment, the removal of conversions and the
verifiers ask.

An op says what it wants of its tensors' layouts as a list of relations:

    Same(a, b, ...)          one layout: element-wise ops, accesses through pointers, what a loop or branch carries
    Link(a, b, to, back)     b's layout is to(a's): view, permute, reductions, slices; or a's is back(b's): broadcast, cat
    Normal(a, form)          a's layout is form(a's): what a reduction or scan can walk

`relations(op)` lists them, `check(op)` says what breaks one. What an op doesn't name may have any layout: tiled accesses,
splat, constants, print. Operands of a dot may while the dot isn't staged (`k_slices`); then they are fragments of its
atom, or buffers.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import Float4E2M1FNType, IntegerAttr, IntegerType, TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.exits import receivers
from tileiras.analysis.tensor_dots import umma_of
from tileiras.analysis.warpgroup_dots import wgmma_of
from tileiras.dialects import arith
from tileiras.dialects.element import element_bytes
from tileiras.dialects.nv_tileas import FlightType, LayoutAttr
from tileiras.layout.atoms import COLUMNS, ROWS, dot_layouts, umma, warpgroup
from tileiras.layout.atoms.names import atom_named
from tileiras.layout.linear import LinearLayout
from tileiras.layout.operands import multiply_add_reads, unroll_of
from tileiras.layout.placement import fma_layout
from tileiras.layout.shape_rules import bytes_of, cat_layout, elements_of, extract_layout, without_bit

DOTS = frozenset({"nv_tileas.dot", "nv_tileas.dot_scaled"})
RENAMES = ("nv_tileas.view", "nv_tileas.permute")
"""Ops that give elements other names only."""
MOVES = (*RENAMES, "nv_tileas.convert_layout")
"""The same elements under another shape or in other threads."""


def unmoved(v: SSAValue, moves: tuple[str, ...] = MOVES) -> SSAValue:
    """The tile whose elements a value has, behind `moves`."""
    while isinstance(v.owner, Operation) and v.owner.name in moves:
        v = v.owner.operands[0]
    return v


def constant_of(v: SSAValue, moves: tuple[str, ...] = MOVES) -> int | None:
    """The integer that a constant is, behind `moves`; None for what is none."""
    owner = unmoved(v, moves).owner
    attr = owner.properties["value"] if isinstance(owner, arith.Constant) else None
    return attr.value.data if isinstance(attr, IntegerAttr) else None


Map = Callable[[LinearLayout], "LinearLayout | None"]


@dataclass(frozen=True)
class Same:
    """These tensors have one layout."""

    values: tuple[SSAValue, ...]

    def broken(self) -> str | None:
        layouts = [layout_or_none(v) for v in self.values]
        if all(layout == layouts[0] for layout in layouts[1:]):
            return None
        return "needs one layout for its tensors"


@dataclass(frozen=True)
class Link:
    """`target`'s layout follows from `source`'s by `to`; where that is None, `source`'s from `target`'s by `back`.

    Where both are given either direction may be used to carry a layout over, and `to` is what must hold. `to` may
    give None for a layout: nothing is then asked."""

    source: SSAValue
    target: SSAValue
    to: Map | None = None
    back: Map | None = None
    hint: Map | None = None
    """Carries a layout against the direction that must hold, as a suggestion."""

    def broken(self) -> str | None:
        a, b = layout_or_none(self.source), layout_or_none(self.target)
        if a is None or b is None:
            return None
        if self.to is not None:
            wanted = self.to(a)
            return None if wanted is None or wanted == b else f"needs the layout <{wanted}> for its result"
        assert self.back is not None
        wanted = self.back(b)
        return None if wanted is None or wanted == a else f"needs the layout <{wanted}> for its operand"


@dataclass(frozen=True)
class Normal:
    """`value`'s layout must be what `form` makes of it."""

    value: SSAValue
    form: Map

    def broken(self) -> str | None:
        layout = layout_or_none(self.value)
        if layout is None or self.form(layout) == layout:
            return None
        return "needs a layout whose dimension it can walk"


Relation = Same | Link | Normal


def shape_of(v: SSAValue) -> tuple[int, ...] | None:
    """A tensor's shape, None for anything else."""
    return v.type.get_shape() if isinstance(v.type, TensorType) else None


def layout_or_none(v: SSAValue) -> LinearLayout | None:
    """A tensor's layout, None where there is none (yet)."""
    t = v.type
    return t.encoding.data if isinstance(t, TensorType) and isinstance(t.encoding, LayoutAttr) else None


def is_tensor(v: SSAValue) -> bool:
    return isinstance(v.type, TensorType)


def relations(op: Operation) -> list[Relation]:
    """What an op wants of the layouts of its operands and results."""
    if isinstance(op, arith.Elementwise):
        return _same(*op.results, *op.operands)
    found = RULES.get(op.name)
    return found(op) if found is not None else []


def check(op: Operation) -> str | None:
    """What the op's layouts break, or None."""
    for relation in relations(op):
        message = relation.broken()
        if message is not None:
            return message
    return None


def _same(*values: SSAValue | None) -> list[Relation]:
    tensors = tuple(v for v in values if v is not None and is_tensor(v))
    return [Same(tensors)] if len(tensors) > 1 else []


# --- control flow ------------------------------------------------------------------------------------------------------

def _loop(op: Operation) -> list[Relation]:
    inits, args = op.carried_inits(), op.carried_args()  # type: ignore[attr-defined]
    out: list[Relation] = []
    for i, (init, arg) in enumerate(zip(inits, args)):
        out += _same(arg, init, op.results[i] if op.name == "scf.for" else None)
    return out


def _exit(op: Operation) -> list[Relation]:
    ends = receivers(op)[:1]        # what a counted loop carries is tied to its results already
    return [r for given in ends for value, end in zip(op.operands, given) for r in _same(end, value)]


# --- shapes ------------------------------------------------------------------------------------------------------------

def _view(op: Operation) -> list[Relation]:
    source, result = op.operands[0], op.results[0]
    a, b = shape_of(source), shape_of(result)
    if a is None or b is None:
        return []
    return [Link(source, result, lambda layout: layout.reshape(b), lambda layout: layout.reshape(a))]


def permutation_of(op: Operation) -> list[int]:
    """A permute's permutation: result dimension i is source dimension p[i]."""
    return [p.data for p in op.properties["permutation"].data]  # type: ignore[attr-defined]


def _permute(op: Operation) -> list[Relation]:
    permutation = permutation_of(op)
    inverse = [permutation.index(i) for i in range(len(permutation))]
    return [Link(op.operands[0], op.results[0], lambda layout: layout.permute(permutation),
                 lambda layout: layout.permute(inverse))]


def _broadcast(op: Operation) -> list[Relation]:
    shape = shape_of(op.operands[0])
    if shape is None:
        return []
    return [Link(op.operands[0], op.results[0], None, lambda layout: layout.project(shape).compact_regs())]


def _extract(op: Operation) -> list[Relation]:
    a, b = shape_of(op.operands[0]), shape_of(op.results[0])
    if a is None or b is None or not has_static_indices(op, 1):
        return []
    return [Link(op.operands[0], op.results[0], lambda layout: extract_layout(layout, b))]


def has_static_indices(op: Operation, first: int) -> bool:
    """Whether a slice's indices (operands from `first` on) are constants wherever there is more than one slice."""
    source = op.operands[0] if op.name.endswith(".extract") else op.operands[1]
    part = op.results[0] if op.name.endswith(".extract") else op.operands[0]
    whole, inner = shape_of(source), shape_of(part)
    if whole is None or inner is None:
        return False
    return all(n == k or isinstance(index.owner, arith.Constant) for n, k, index in zip(whole, inner, op.operands[first:]))


def dim_of(op: Operation) -> int:
    """The dimension that a reduce, scan or cat works along."""
    attr: Any = op.properties["dim"]
    return attr.value.data if hasattr(attr, "value") else attr.data


def _cat(op: Operation) -> list[Relation]:
    dim = dim_of(op)
    return [Link(v, op.results[0], None, lambda layout: without_bit(layout, dim), lambda layout: cat_layout(layout, dim))
            for v in op.operands]


def unit_bits(t: TensorType) -> int:
    """Bits of an element as the language counts them: 4 for f4 and i4, which registers hold one a byte."""
    e = t.element_type
    if isinstance(e, Float4E2M1FNType) or (isinstance(e, IntegerType) and e.width.data == 4):
        return 4
    return 8 * element_bytes(e)


def _reinterpret(op: Operation) -> list[Relation]:
    """pack and unpack: a thread holds the units of an element in consecutive registers."""
    source, result = op.operands[0], op.results[0]
    assert isinstance(source.type, TensorType) and isinstance(result.type, TensorType)
    a, b = unit_bits(source.type), unit_bits(result.type)
    if a > b:
        return [Link(source, result, lambda layout: bytes_of(layout, a // b), lambda layout: elements_of(layout, a // b))]
    if a < b:
        return [Link(source, result, None, lambda layout: bytes_of(layout, b // a), lambda layout: elements_of(layout, b // a))]
    return _same(source, result)


# --- collectives -------------------------------------------------------------------------------------------------------

def _reduce(op: Operation) -> list[Relation]:
    from tileiras.layout.reduction import steps_of
    dim = dim_of(op)
    out = _same(*op.operands)
    if is_tensor(op.operands[0]):
        out.append(Normal(op.operands[0], lambda layout: steps_of(layout, dim).layout))
        if "parts" in op.properties:
            shape = shape_of(op.results[0]) or ()
            return [*out, *(Link(s, r, lambda layout: steps_of(layout, dim).parts.reshape(shape))
                            for s, r in zip(op.operands, op.results))]
        out += [Link(source, result, lambda layout: steps_of(layout, dim).result)
                for source, result in zip(op.operands, op.results) if is_tensor(result)]
    return out


def _scan(op: Operation) -> list[Relation]:
    from tileiras.layout.scanning import steps_of
    dim = dim_of(op)
    return [*_same(*op.operands, *op.results), Normal(op.operands[0], lambda layout: steps_of(layout, dim).layout)]


def _dot(op: Operation) -> list[Relation]:
    out = _same(op.operands[2], op.results[0])
    acc = layout_or_none(op.results[0])
    if acc is None:
        return out
    warps = acc.num_warps
    out.append(Normal(op.results[0], lambda layout: accumulator_layout(op, warps)))
    if "k_slices" not in op.properties:
        out += [Normal(v, lambda layout, f=fragment: f) for v, fragment in zip(op.operands, operand_fragments(op, warps))
                if is_tensor(v) and fragment is not None]
    return out


def _async_dot(op: Operation) -> list[Relation]:
    """A in registers is in the instruction's layout."""
    lhs, result = op.operands[0], _result(op)
    if not is_tensor(lhs) or not isinstance(result.encoding, LayoutAttr):
        return []
    fragment = operand_fragments(op, result.encoding.data.num_warps)[0]
    return [Normal(lhs, lambda layout: fragment)]


def _accumulator(op: Operation) -> list[Relation]:
    """What goes to tensor memory or comes from there, all or some of its columns, is as its loads and stores have it."""
    v: Any = op.results[0] if op.results else op.operands[0]
    buffer: Any = op.operands[-1].type

    def form(layout: LinearLayout) -> LinearLayout:
        return umma.fragment(tuple(v.type.get_shape()), buffer.rows.data, layout.num_warps, "quads" in op.properties)
    return [Normal(v, form)]


def _dot_scaled(op: Operation) -> list[Relation]:
    out = _dot(op)
    acc = layout_or_none(op.results[0])
    if acc is None:
        return out
    return out + [Normal(v, lambda layout, f=fragment: f) for v, fragment in scale_fragments(op, acc.num_warps)]


def scale_fragments(op: Operation, num_warps: int) -> list[tuple[SSAValue, LinearLayout]]:
    """The scales of a block-scaled product that its instruction takes from registers, each with the layout for that."""
    if umma_of(op) is not None:
        return []
    from tileiras.layout.atoms.block_scaled import scale_layouts
    batch, m, n, k = dot_shape(op)
    name: Any = op.properties["atom"]
    atom: Any = atom_named(name.data)
    return list(zip(op.operands[3:], scale_layouts(atom, m, n, k // atom.elements, num_warps, batch)))


def _result(op: Operation) -> TensorType:
    """The type of what a dot computes, when it is there."""
    t: Any = op.results[0].type
    return t.tensor if isinstance(t, FlightType) else t


def dot_shape(op: Operation) -> tuple[int, int, int, int]:
    """(batch or 0, m, n, k) of a dot. Operands are tensors or buffers."""
    *batch, m, n = _result(op).get_shape()
    lhs: Any = op.operands[0].type
    shape = lhs.get_shape() if isinstance(lhs, TensorType) else lhs.layout.data.shape
    packed = 2 if "packed" in op.properties else 1
    return (batch[0] if batch else 0), m, n, packed * shape[-1]


def _dot_layouts(op: Operation, num_warps: int) -> tuple[LinearLayout | None, LinearLayout | None, LinearLayout] | None:
    name: Any = op.properties.get("atom")
    if name is None:
        return None
    batch, m, n, k = dot_shape(op)
    atom = wgmma_of(op)
    if atom is not None:
        lhs, acc = warpgroup.layouts(atom, m, n, k, num_warps, batch)
        return lhs, None, acc
    into_tensor = umma_of(op)
    if into_tensor is not None:
        lhs = None if into_tensor.a_in_shared else \
            umma.fragment((batch, m, k) if batch else (m, k), into_tensor.rows, num_warps, "quad_rows" in op.properties)
        return lhs, None, umma.fragment_of(into_tensor, _result(op).get_shape(), num_warps, "quads" in op.properties)
    by_warps: Any = atom_named(name.data)
    return dot_layouts(by_warps, m, n, k // by_warps.elements, num_warps, batch, along_of(op), next_elements_of(op))


def along_of(op: Operation) -> str:
    """Which dimension a dot's warps go over first, as `dot_layouts` has it."""
    return ROWS if "chained" in op.properties else COLUMNS if "by_columns" in op.properties else ""


def next_elements_of(op: Operation) -> int:
    """For which product as its A a dot's columns are shared out, as `dot_layouts` has it."""
    found: Any = op.properties.get("next_elements")
    return 0 if found is None else found.data


def instruction_k(op: Operation) -> int:
    """How far along k a dot's instruction goes, 0 without one."""
    name: Any = op.properties.get("atom")
    return atom_named(name.data).k if name is not None else 0


def accumulator_layout(op: Operation, num_warps: int) -> LinearLayout:
    """The layout that a dot's accumulator and result have."""
    shape = _result(op).get_shape()
    found = _dot_layouts(op, num_warps)
    return fma_layout(shape, num_warps) if found is None else found[2].reshape(shape)


def operand_fragments(op: Operation, num_warps: int) -> tuple[LinearLayout | None, LinearLayout | None]:
    """The layouts of A and B as the dot's instruction takes them from registers; None where it doesn't: without an
    instruction, B of wgmma, and both of tcgen05."""
    found = _dot_layouts(op, num_warps)
    return (None, None) if found is None else found[:2]


def multiply_add_reader(op: Operation, shape: tuple[int, ...], k_dim: int, acc: LinearLayout) -> tuple[LinearLayout, int]:
    """How the threads of a dot without an instruction, with sums in the layout `acc`, read (a part of) an operand, and in how many
    steps along k."""
    size = max(element_bytes(v.type.element_type) for v in op.operands[:2])  # type: ignore[attr-defined]
    unroll = unroll_of(shape[k_dim], size)
    return multiply_add_reads(shape, k_dim, acc, unroll), shape[k_dim] // unroll


# --- memory ------------------------------------------------------------------------------------------------------------

def gather_index(op: Operation) -> tuple[SSAValue, int] | None:
    """A tiled access's tensor of indices and the tile dimension that it gathers along, or None."""
    coords: Sequence[SSAValue] = op.coords  # type: ignore[attr-defined]
    return next(((v, i) for i, v in enumerate(coords) if is_tensor(v)), None)


def accessed(op: Operation) -> SSAValue:
    """The tile that an access moves."""
    return op.results[0] if op.name in ("nv_tileas.tiled_load", "nv_tileas.load") else op.source  # type: ignore[attr-defined]


def _tiled(op: Operation) -> list[Relation]:
    """A gather's index tile has the tile's layout with the other dimensions dropped: each thread has its indices."""
    found, tile = gather_index(op), accessed(op)
    shape = shape_of(tile)
    if found is None or shape is None:
        return []
    index, dim = found
    return [Link(index, tile, None, lambda layout: index_layout(layout, dim))]


def index_layout(layout: LinearLayout, dim: int) -> LinearLayout:
    """The layout of a gather's index tile along `dim` for a tile in `layout`."""
    ones = tuple(n if d == dim else 1 for d, n in enumerate(layout.shape))
    return layout.project(ones).reshape((layout.shape[dim],)).compact_regs()


def _all(op: Operation) -> list[Relation]:
    return _same(*op.results, *op.operands)


RULES: dict[str, Callable[[Operation], list[Relation]]] = {
    "scf.for": _loop, "nv_tileas.loop": _loop, "scf.yield": _exit, "nv_tileas.break": _exit, "nv_tileas.continue": _exit,
    "nv_tileas.view": _view, "nv_tileas.permute": _permute, "nv_tileas.broadcast": _broadcast,
    "nv_tileas.extract": _extract, "nv_tileas.insert": lambda op: _same(op.operands[1], op.results[0]),
    "nv_tileas.cat": _cat, "nv_tileas.pack": _reinterpret, "nv_tileas.unpack": _reinterpret,
    "nv_tileas.reduce": _reduce, "nv_tileas.scan": _scan, "nv_tileas.dot": _dot, "nv_tileas.async_dot": _async_dot,
    "nv_tileas.dot_scaled": _dot_scaled, "nv_tileas.load_tmem": _accumulator, "nv_tileas.store_tmem": _accumulator,
    "nv_tileas.scale_tmem": _accumulator, "nv_tileas.add_tmem": _accumulator,
    "nv_tileas.cta_exchange": _all, "nv_tileas.assume": _all, "nv_tileas.addptr": _all,
    "nv_tileas.int_to_ptr": _all, "nv_tileas.ptr_to_int": _all,
    "nv_tileas.ptr_to_ptr": _all, "nv_tileas.load": _all, "nv_tileas.store": _all, "nv_tileas.atomic_rmw": _all,
    "nv_tileas.atomic_cas": _all,
    "nv_tileas.tiled_load": _tiled, "nv_tileas.tiled_store": _tiled, "nv_tileas.tiled_atomic_rmw": _tiled}
"""By op name; element-wise ops have one layout for all their tensors."""
