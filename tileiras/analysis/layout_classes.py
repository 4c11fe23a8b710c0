"""Which tensor values of a function must share a layout, and what leads from one such class to another.

Values joined by `Same` relations (layout_rules.py) form a class: one layout serves all, so nothing moves between them.
`Link` relations lead from class to class: through them a layout suggests others. With `cut`, a class also ends where a
change of layout may pay: behind loads and dots, before stores, where a loop begins and ends. Each such place is an `Edge`.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from tileiras.analysis.layout_rules import Link, Relation, Same, is_tensor, relations, shape_of
from tileiras.dialects import arith
from tileiras.dialects.nv_tileas import LOOPS
from tileiras.layout.linear import LinearLayout

CUT_BEHIND = frozenset("nv_tileas." + m for m in ("tiled_load", "load", "atomic_rmw", "atomic_cas", "dot",
                                                   "dot_scaled", "loop")) | {"scf.for"}
"""Ops whose results may change their layout before they are used."""
CUT_BEFORE = frozenset({"scf.yield"} | {"nv_tileas." + m for m in ("break", "continue", "reduce", "scan", "dot", "dot_scaled")})
"""Ops, besides the element-wise ones, in front of which those results may change it."""
STORES = frozenset("nv_tileas." + m for m in ("store", "atomic_rmw", "atomic_cas"))
"""Ops through pointers whose operands behind the pointers may change their layout first."""


@dataclass(eq=False)
class LayoutClass:
    """Values of one shape that share a layout; `layout` is None until decided."""

    shape: tuple[int, ...]
    layout: LinearLayout | None = None
    values: list[SSAValue] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    parent: LayoutClass | None = None

    def root(self) -> LayoutClass:
        node = self
        while node.parent is not None:
            node = node.parent
        while self.parent is not None and self.parent is not node:
            self.parent, self = node, self.parent
        return node


@dataclass(frozen=True)
class Edge:
    """`op` uses `value`, which has its own class's layout, where the layout of `target`'s class is needed."""

    op: Operation
    value: SSAValue
    target: SSAValue


class Relations:
    """A function's ops in program order, and what each wants of its tensors' layouts."""

    def __init__(self, func: Operation) -> None:
        self.ops: list[Operation] = list(func.walk())
        self.of: dict[Operation, list[Relation]] = {}
        for op in self.ops:
            found = relations(op)
            if found:
                self.of[op] = found


class Classes:
    """The classes of a function's tensors."""

    def __init__(self, found: Relations, cut: bool = False) -> None:
        self.of: dict[SSAValue, LayoutClass] = {}
        self.edges: list[Edge] = []
        for op in found.ops:
            for r in op.results:
                if is_tensor(r):
                    self.get(r)
        links: list[Link] = []
        for op, wanted in found.of.items():
            for relation in wanted:
                if isinstance(relation, Same):
                    self._same(op, relation.values, cut)
                elif isinstance(relation, Link):
                    links.append(relation)
        for link in links:
            for v in (link.source, link.target):
                self.get(v).links.append(link)

    def _same(self, op: Operation, values: tuple[SSAValue, ...], cut: bool) -> None:
        reference = next((v for v in values if not isinstance(v.owner, arith.Constant)), values[0])
        for v in values:
            if v is reference:
                continue
            if cut and _may_change(op, v):
                self.edges.append(Edge(op, v, reference))
            else:
                self.join(reference, v)

    def get(self, v: SSAValue) -> LayoutClass:
        found = self.of.get(v)
        if found is None:
            shape = shape_of(v)
            assert shape is not None
            found = self.of[v] = LayoutClass(shape, values=[v])
        return found.root()

    def join(self, first: SSAValue, v: SSAValue) -> None:
        """Put two tensors of one shape into one class."""
        a, b = self.get(first), self.get(v)
        if a is b or a.shape != b.shape:
            return
        if len(a.values) < len(b.values):
            a, b = b, a
        b.parent = a
        a.values += b.values

    def all(self) -> list[LayoutClass]:
        """Every class once, by its first value."""
        return list(dict.fromkeys(c.root() for c in self.of.values()))

    def layout(self, v: SSAValue) -> LinearLayout:
        """The layout decided for a value."""
        found = self.get(v).layout
        assert found is not None
        return found

    def spread(self, default: Callable[[tuple[int, ...]], LinearLayout]) -> None:
        """Carry decided layouts over links to classes without one; what no link reaches gets the default for its shape."""
        everything = self.all()
        queue = deque(c for c in everything if c.layout is not None)
        position = 0
        while True:
            while queue:
                self._carry(queue.popleft(), queue)
            while position < len(everything) and everything[position].layout is not None:
                position += 1
            if position == len(everything):
                return
            c = everything[position]
            c.layout = default(c.shape)
            queue.append(c)

    def _carry(self, c: LayoutClass, queue: deque[LayoutClass]) -> None:
        assert c.layout is not None
        for link, other, forward in self.across(c):
            if other.layout is None:
                other.layout = suggested(link, c.layout, forward)
                if other.layout is not None:
                    queue.append(other)

    def across(self, c: LayoutClass) -> Iterable[tuple[Link, LayoutClass, bool]]:
        """(link, class at its other end, whether it leads there forward) for each link of a class."""
        for link in c.links:
            a, b = self.get(link.source), self.get(link.target)
            if a is c:
                yield link, b, True
            if b is c:
                yield link, a, False


def _may_change(op: Operation, v: SSAValue) -> bool:
    """Whether `v` may have another layout than its op's other tensors, converted where the op uses it."""
    owner = v.owner
    if owner is op:
        return False
    if op.name in LOOPS:
        return any(v is init for init in op.operands)
    if op.name in STORES:
        return v is not op.operands[0] and v is not op.mask  # type: ignore[attr-defined]
    if not isinstance(owner, Operation) or owner.name not in CUT_BEHIND:
        return False
    return isinstance(op, arith.Elementwise) or op.name in CUT_BEFORE


def suggested(link: Link, layout: LinearLayout, forward: bool) -> LinearLayout | None:
    """The layout that a link proposes for its target (`forward`) or source when the other end has `layout`."""
    way = (link.to if forward else link.back) or link.hint
    return None if way is None else way(layout)
