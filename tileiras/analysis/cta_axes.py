"""Which dimensions of a function's tiles are split together when CTAs share a tile block, and which have to stay whole.

    %s = reduce %x {dim = 1}  : tensor<128x64xf32>         %s and rows of %x: one axis; the columns of %x stay whole
    %d = dot %a, %b, %c                                    rows of %a, %c, %d; columns of %b, %c, %d; k stays whole

An op relates dimensions: part i of its result needs part i of an operand along them. Dimensions that ops relate, loops carry and
branches join are one *axis*. What an op needs whole along a dimension keeps that dimension's axis whole. Tiles that follow from
constants, ranges and scalars alone are *cheap*: they are made again for whoever wants some part of them, and tie nothing.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.exits import receivers
from tileiras.dialects import arith
from tileiras.dialects.nv_tileaa import DenseTileAttr, int_values
from tileiras.remarks import tile_text

RESULT = -1
"""In place of an operand's number: a result or an argument."""


class Member(NamedTuple):
    """A dimension of a value, as an operand of some number or as what an op makes."""

    value: SSAValue
    dim: int
    operand: int = RESULT


@dataclass
class Relation:
    """What an op says of dimensions: `groups` are split together; `whole` isn't split, and why; `summed`, a group too, may be split
    where CTAs exchange what they have got."""

    groups: list[list[Member]] = field(default_factory=list)
    whole: list[tuple[Member, str]] = field(default_factory=list)
    summed: list[Member] = field(default_factory=list)


def extents(value: SSAValue) -> tuple[int, ...]:
    """Of a tensor; none for anything else."""
    return tuple(value.type.get_shape()) if isinstance(value.type, TensorType) else ()


def mnemonic(op: Operation) -> str:
    return op.name.partition(".")[2]


# --- what ops say of dimensions ----------------------------------------------------------------------------------------

def relation(op: Operation) -> Relation:
    """What an op says of the dimensions of its operands and results. Ops with regions and terminators: of what they hand on."""
    rule = RULES.get(mnemonic(op))
    return Relation() if not any(map(_is_tensor, (*op.operands, *op.results))) else (rule or _alike)(op)


def _is_tensor(value: SSAValue) -> bool:
    return isinstance(value.type, TensorType)


def _members(op: Operation) -> Iterator[tuple[SSAValue, int]]:
    for i, v in enumerate(op.operands):
        if _is_tensor(v):
            yield v, i
    for v in op.results:
        if _is_tensor(v):
            yield v, RESULT


def _alike(op: Operation) -> Relation:
    """Element by element."""
    groups: dict[int, list[Member]] = {}
    for v, i in _members(op):
        for d in range(len(extents(v))):
            groups.setdefault(d, []).append(Member(v, d, i))
    return Relation(list(groups.values()))


def _whole(op: Operation, reason: str) -> Relation:
    return Relation([], [(Member(v, d, i), reason) for v, i in _members(op) for d in range(len(extents(v)))])


def _constant(op: Any) -> Relation:
    return _whole(op, "a constant's elements differ") if isinstance(op.properties["value"], DenseTileAttr) else _alike(op)


def _broadcast(op: Any) -> Relation:
    out = Relation()
    for d, (n, m) in enumerate(zip(extents(op.operands[0]), extents(op.results[0]))):
        out.groups.append([Member(op.results[0], d), *([Member(op.operands[0], d, 0)] if n == m else [])])
    return out


def _permute(op: Any) -> Relation:
    order = int_values(op.properties["permutation"])
    return Relation([[Member(op.results[0], i), Member(op.operands[0], d, 0)] for i, d in enumerate(order)])


def _view(op: Any) -> Relation:
    """The leading dimensions of what has as many elements on both sides; row-major order keeps parts of those together."""
    source, result = op.operands[0], op.results[0]
    a, b = extents(source), extents(result)
    out = Relation()
    i = j = 0
    while i < len(a) or j < len(b):
        left, right = [i] if i < len(a) else [], [j] if j < len(b) else []
        n, m = a[i] if left else 1, b[j] if right else 1
        i, j = i + 1, j + 1
        while n != m:
            if n < m:
                left.append(i)
                n, i = n * a[i], i + 1
            else:
                right.append(j)
                m, j = m * b[j], j + 1
        first = [next((Member(v, d, at) for d in dims if extents(v)[d] > 1), None)
                 for v, dims, at in ((source, left, 0), (result, right, RESULT))]
        together = [member for member in first if member is not None]
        if together:
            out.groups.append(together)
        out.whole += [(Member(v, d, at), "a reshape takes it apart") for v, dims, at in ((source, left, 0), (result, right, RESULT))
                      for d in dims if Member(v, d, at) not in together]
    return out


def _slice(op: Any) -> Relation:
    """extract, insert: the dimensions along which all of the tile is meant."""
    out = Relation()
    tiles = list(_members(op))
    for d in range(len(extents(op.results[0]))):
        members = [Member(v, d, i) for v, i in tiles]
        if len({extents(m.value)[d] for m in members}) == 1:
            out.groups.append(members)
        else:
            out.whole += [(m, "a part of it is taken or replaced") for m in members]
    return out


def _cat(op: Any) -> Relation:
    return _along(op, op.properties["dim"].value.data, "two tiles are joined along it")


def _scan(op: Any) -> Relation:
    return _along(op, op.properties["dim"].value.data, "a scan runs along it")


def _along(op: Operation, dim: int, reason: str) -> Relation:
    """Alike but for one dimension, which stays whole."""
    out = _alike(op)
    out.whole = [(m, reason) for group in out.groups for m in group if m.dim == dim]
    out.groups = [group for group in out.groups if group[0].dim != dim]
    return out


def _reduce(op: Any) -> Relation:
    dim = op.properties["dim"].value.data
    out = Relation()
    groups: dict[int, list[Member]] = {}
    for v, i in _members(op):
        for d in range(len(extents(v))):
            if i != RESULT and d == dim:
                out.summed.append(Member(v, d, i))
            else:
                groups.setdefault(d - (i != RESULT and d > dim), []).append(Member(v, d, i))
    out.groups = list(groups.values())
    if all(isinstance(inner, arith.Elementwise | arith.Constant) for inner in list(op.regions[0].block.ops)[:-1]):
        out.groups.append(out.summed)
    else:
        out.whole = [(member, "a reduction runs along it") for member in out.summed]
    return out


def _dot(op: Any) -> Relation:
    """Operands may lead with a batch; scales have a row or column a row or column of their operand."""
    lhs, rhs, acc, *scales = op.operands
    batch = len(extents(lhs)) - 2
    result = op.results[0]
    out = Relation()
    for d in range(batch):
        out.groups.append([Member(v, d, i) for v, i in _members(op)])
    m, n = batch, batch + 1
    rows = [Member(lhs, m, 0), Member(acc, m, 2), Member(result, m)]
    columns = [Member(acc, n, 2), Member(result, n)]
    if "pair" in op.properties:
        out.groups.append([Member(rhs, n, 1)])      # each CTA of a pair has half of them, and multiplies all
    else:
        columns.append(Member(rhs, n, 1))
    if scales:
        rows.append(Member(scales[0], m, 3))
        columns.append(Member(scales[1], n, 4))
    out.groups += [rows, columns]
    inner = [Member(lhs, n, 0), Member(rhs, m, 1), *([Member(scales[0], n, 3), Member(scales[1], m, 4)] if scales else [])]
    out.whole = [(member, "a product sums along it") for member in inner]
    return out


def _tiled(op: Any) -> Relation:
    """A tile of a view; the indices of a gathered dimension are a tile themselves."""
    if not isinstance(op.view.owner, Operation) or mnemonic(op.view.owner) != "block_tile":
        return _whole(op, "its view comes from elsewhere")
    load = mnemonic(op) == "tiled_load"
    tile = op.results[0] if load else op.operands[0]
    at = RESULT if load else 0
    first = list(op.operands).index(op.view) + 1
    out = Relation()
    for d in range(len(extents(tile))):
        index = op.operands[first + d]
        out.groups.append([Member(tile, d, at), *([Member(index, 0, first + d)] if _is_tensor(index) else [])])
    return out


def _print(op: Any) -> Relation:
    return _whole(op, "it is printed")


def _assert(op: Any) -> Relation:
    return _whole(op, "an assertion says where in the tile it fails")


def _carried(op: Operation) -> Relation:
    """What a loop begins with, carries and leaves behind."""
    inits: Sequence[SSAValue] = op.carried_inits()      # type: ignore[attr-defined]
    arguments: Sequence[SSAValue] = op.carried_args()   # type: ignore[attr-defined]
    results = op.results if mnemonic(op) == "for" else ()
    first = len(op.operands) - len(inits)
    out = Relation()
    for i, (init, argument) in enumerate(zip(inits, arguments)):
        for d in range(len(extents(init))):
            out.groups.append([Member(init, d, first + i), Member(argument, d), *(Member(r, d) for r in results[i:i + 1])])
    return out


def _handed_on(op: Operation) -> Relation:
    """A terminator."""
    out = Relation()
    ends = receivers(op)
    for i, v in enumerate(op.operands if ends else ()):
        for d in range(len(extents(v))):
            out.groups.append([Member(v, d, i), *(Member(end[i], d) for end in ends)])
    return out


def _pack(op: Any) -> Relation:
    """Bytes in row-major order: parts of the leading dimension are parts of the bytes."""
    first = [next((Member(v, d, i) for d, n in enumerate(extents(v)) if n > 1), None) for v, i in _members(op)]
    together = [member for member in first if member is not None]
    rest = [Member(v, d, i) for v, i in _members(op) for d in range(len(extents(v))) if Member(v, d, i) not in together]
    return Relation([together] if together else [], [(member, "it is taken for bytes") for member in rest])


LOOPS = ("for", "loop")
RULES = {
    "constant": _constant, "broadcast": _broadcast, "permute": _permute, "view": _view, "extract": _slice, "insert": _slice,
    "cat": _cat, "scan": _scan, "reduce": _reduce, "dot": _dot, "dot_scaled": _dot, "tiled_load": _tiled, "tiled_store": _tiled,
    "tiled_atomic_rmw": _tiled, "print": _print, "assert": _assert, "for": _carried, "loop": _carried, "yield": _handed_on,
    "continue": _handed_on, "break": _handed_on, "pack": _pack, "unpack": _pack, "if": lambda op: Relation()}
WRITES = ("tiled_store", "store", "tiled_atomic_rmw")
DEAR = frozenset({"dot", "dot_scaled", "reduce", "scan", "extract", "insert", "cat", "pack", "unpack"})
"""What isn't made again for every part wanted."""


def cheap_values(func: Operation) -> set[SSAValue]:
    """The tensors that follow from constants, ranges and scalars alone."""
    out: set[SSAValue] = set()
    for op in func.walk():
        if not getattr(op, "PURE", False) or op.regions or mnemonic(op) in DEAR or \
                isinstance(op.properties.get("value"), DenseTileAttr):
            continue
        if all(v in out for v in op.operands if _is_tensor(v)):
            out.update(r for r in op.results if _is_tensor(r))
    for op in func.walk():
        if mnemonic(op) in WRITES and all(v in out for v in op.operands if _is_tensor(v)):
            out.difference_update(op.operands)      # what is written decides how, where nothing else does
    return out


# --- axes --------------------------------------------------------------------------------------------------------------

Place = tuple[SSAValue, int]
"""A dimension of a value."""


class Axes:
    """The axes of a function. An axis is known by one of its places; `most`: how many parts it has at most; `kept_whole`: why it
    can't be split. `sums`: what products sum along is an axis, too: parts are summed one after the other."""

    def __init__(self, func: Operation, sums: bool = False) -> None:
        self.cheap = cheap_values(func)
        self._parent: dict[Place, Place] = {}
        self._reasons: list[tuple[Place, str]] = []
        multiplies = any(mnemonic(op) in ("dot", "dot_scaled") for op in func.walk())    # its agents never meet
        for op in func.walk():
            said = relation(op)
            if sums and mnemonic(op) == "dot":
                said = Relation([*said.groups, [m for m, _ in said.whole]])
            for group in said.groups:
                self._join((m.value, m.dim) for m in group if m.value not in self.cheap)
            whole = [*said.whole, *((m, "a reduction runs along it") for m in said.summed if multiplies)]
            self._reasons += [((m.value, m.dim), reason) for m, reason in whole if m.value not in self.cheap]
        self.most: dict[Place, int] = {}
        self.kept_whole: dict[Place, str] = {}
        seen: set[tuple[SSAValue, Place]] = set()
        for place in list(self._parent):
            value, dim = place
            axis = self.of(value, dim)
            self.most[axis] = min(self.most.get(axis, extents(value)[dim]), extents(value)[dim])
            if (value, axis) in seen:
                self._keep(axis, value, dim, "it runs along two dimensions of a tile")
            seen.add((value, axis))
        for (value, dim), reason in self._reasons:
            self._keep(self.of(value, dim), value, dim, reason)

    def _keep(self, axis: Place, value: SSAValue, dim: int, reason: str) -> None:
        kind: Any = value.type
        self.kept_whole.setdefault(axis, f"dimension {dim} of {tile_text(kind)} stays whole: {reason}")

    def _join(self, places: Iterable[Place]) -> None:
        first: Place | None = None
        for place in places:
            root = self._find(place)
            if first is None:
                first = root
            elif root != first:
                self._parent[root] = first

    def _find(self, place: Place) -> Place:
        parent = self._parent.setdefault(place, place)
        while parent != place:
            up = self._parent[parent]
            self._parent[place] = up
            place, parent = parent, up
        return place

    def of(self, value: SSAValue, dim: int) -> Place:
        """The axis of a dimension of a tensor that isn't cheap."""
        return self._find((value, dim))

    def free(self) -> list[Place]:
        """The axes that can be split, in the order of the program."""
        return [axis for axis, most in self.most.items() if most > 1 and axis not in self.kept_whole]
