"""Which tensor values of a function must share a layout, and what links the groups.

Values joined by `Same` relations (layout_rules.py) form a class: one layout serves all, so nothing moves between them.
`Link` relations lead from class to class: through them a decided layout suggests others.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from tileiras.analysis.layout_rules import Link, Relation, Same, is_tensor, relations, shape_of
from tileiras.layout.linear import LinearLayout


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


class Classes:
    """The classes of a function's tensors. `ops` are its ops in program order, `relations` what each of them wants."""

    def __init__(self, func: Operation) -> None:
        self.of: dict[SSAValue, LayoutClass] = {}
        self.ops: list[Operation] = []
        self.relations: dict[Operation, list[Relation]] = {}
        for op in func.walk():
            self.ops.append(op)
            for r in op.results:
                if is_tensor(r):
                    self.get(r)
            found = relations(op)
            if found:
                self.relations[op] = found
        links: list[Link] = []
        for found in self.relations.values():
            for relation in found:
                if isinstance(relation, Same):
                    self.join(relation.values)
                elif isinstance(relation, Link):
                    links.append(relation)
        for link in links:
            for v in (link.source, link.target):
                self.get(v).links.append(link)

    def get(self, v: SSAValue) -> LayoutClass:
        found = self.of.get(v)
        if found is None:
            shape = shape_of(v)
            assert shape is not None
            found = self.of[v] = LayoutClass(shape, values=[v])
        return found.root()

    def join(self, values: Iterable[SSAValue]) -> None:
        """Put tensors of one shape into one class."""
        first, *rest = values
        for v in rest:
            a, b = self.get(first), self.get(v)
            if a is b or a.shape != b.shape:
                continue
            if len(a.values) < len(b.values):
                a, b = b, a
            b.parent = a
            a.values += b.values

    def all(self) -> list[LayoutClass]:
        """Every class once, by its first value."""
        return list(dict.fromkeys(c.root() for c in self.of.values()))

    def layout(self, v: SSAValue) -> LinearLayout | None:
        return self.get(v).layout

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
        for link in c.links:
            a, b = self.get(link.source), self.get(link.target)
            if a is c and b.layout is None:
                found = suggested(link, c.layout, forward=True)
                if found is not None:
                    b.layout = found
                    queue.append(b)
            if b is c and a.layout is None:
                found = suggested(link, c.layout, forward=False)
                if found is not None:
                    a.layout = found
                    queue.append(a)


def suggested(link: Link, layout: LinearLayout | None, forward: bool) -> LinearLayout | None:
    """The layout that a link proposes for its target (`forward`) or source when the other end has `layout`."""
    if layout is None:
        return None
    if forward:
        way = link.to or link.hint
    else:
        way = link.back or link.hint
    return None if way is None else way(layout)
