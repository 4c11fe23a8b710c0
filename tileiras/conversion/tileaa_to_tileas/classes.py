"""Which tensor values should share a layout, and which layout each group gets.

Values joined by element-wise ops, by control flow (loop-carried values, if results) or by scan form a class: one
layout serves all, so nothing moves between them. Classes are decided in this order:

1. accumulators and results of dots: the tensor-core fragment (or the blocked layout of the multiply-add path);
2. tiles that are loaded or stored: coalesced along the memory's contiguous dimension, up to 16 bytes an access;
3. what shape ops and reductions imply from a decided neighbour: a reduction's result is its source's layout
   without the dimension, a broadcast's operand its result's layout projected, view and permute carry bits along;
4. the rest: the default blocked layout.

Where an op still meets an operand in another layout, the conversion inserts `convert_layout`.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.dialects import arith
from tileiras.layout.linear import LinearLayout, blocked
from tileiras.layout.shape_rules import cat_layout, extract_layout


@dataclass
class LayoutClass:
    """Values of one shape that share a layout; `layout` is None until decided."""

    shape: tuple[int, ...]
    layout: LinearLayout | None = None
    values: list[SSAValue] = field(default_factory=list)
    parent: LayoutClass | None = None

    def root(self) -> LayoutClass:
        node = self
        while node.parent is not None:
            node = node.parent
        while self.parent is not None and self.parent is not node:
            self.parent, self = node, self.parent
        return node


def shape_of(v: SSAValue) -> tuple[int, ...] | None:
    """A tensor's shape, None for anything else."""
    return v.type.get_shape() if isinstance(v.type, TensorType) else None


class Classes:
    """Union-find over a function's tensor values."""

    def __init__(self) -> None:
        self.of: dict[SSAValue, LayoutClass] = {}

    def get(self, v: SSAValue) -> LayoutClass:
        found = self.of.get(v)
        if found is None:
            shape = shape_of(v)
            assert shape is not None
            found = self.of[v] = LayoutClass(shape, values=[v])
        return found.root()

    def join(self, *values: SSAValue) -> None:
        """Put the tensors among these values that have the same shape into one class."""
        tensors = [v for v in values if shape_of(v) is not None]
        for v in tensors[1:]:
            a, b = self.get(tensors[0]), self.get(v)
            if a is b or a.shape != b.shape:
                continue
            if len(a.values) < len(b.values):
                a, b = b, a
            b.parent = a
            a.values += b.values
            if a.layout is None:
                a.layout = b.layout

    def layout(self, v: SSAValue) -> LinearLayout | None:
        return self.get(v).layout

    def decide(self, v: SSAValue, layout: LinearLayout) -> bool:
        """Give v's class this layout unless it has one; whether it was taken."""
        c = self.get(v)
        if c.layout is not None:
            return False
        c.layout = layout
        return True


def collect(func: Operation) -> tuple[Classes, list[Operation]]:
    """The classes of a function's values, and all its ops in program order."""
    classes = Classes()
    ops: list[Operation] = []
    for op in func.walk():
        ops.append(op)
        for r in op.results:
            if shape_of(r) is not None:
                classes.get(r)
        if isinstance(op, arith.Elementwise):
            classes.join(op.results[0], *op.operands)
        elif op.name in JOINS:
            JOINS[op.name](classes, op)
    return classes, ops


def _join_for(classes: Classes, op: Operation) -> None:
    inits = op.operands[3:] if op.name == "scf.for" else op.operands
    block = op.regions[0].block
    args = block.args[1:] if op.name == "scf.for" else block.args
    for init, arg in zip(inits, args):
        classes.join(arg, init)
    if op.name == "scf.for":
        for arg, out in zip(args, op.results):
            classes.join(arg, out)


def _join_exit(classes: Classes, op: Operation) -> None:
    target = exit_target(op)
    if target is None:
        return
    if op.name == "nv_tileaa.break":
        ends: tuple[SSAValue, ...] = tuple(target.results)
    elif op.name == "nv_tileaa.continue" or target.name in ("scf.for", "nv_tileaa.loop"):
        block = target.regions[0].block
        ends = tuple(block.args[1:] if target.name == "scf.for" else block.args)
    else:
        ends = tuple(target.results)
    for value, end in zip(op.operands, ends):
        classes.join(end, value)


def exit_target(op: Operation) -> Operation | None:
    """The op a terminator gives its values to: yield its parent; break and continue the nearest loop."""
    parent = op.parent_op()
    if op.name == "scf.yield":
        return None if parent is None or parent.name.endswith((".reduce", ".scan")) else parent
    loops = ("nv_tileaa.loop",) if op.name == "nv_tileaa.break" else ("nv_tileaa.loop", "scf.for")
    while parent is not None and parent.name not in loops:
        parent = parent.parent_op()
    return parent


def _join_same(classes: Classes, op: Operation) -> None:
    half = len(op.results)
    for source, out in zip(op.operands[:half], op.results):
        classes.join(out, source)


JOINS: dict[str, Callable[[Classes, Operation], None]] = {
    "scf.for": _join_for, "nv_tileaa.loop": _join_for,
    "scf.yield": _join_exit, "nv_tileaa.break": _join_exit, "nv_tileaa.continue": _join_exit,
    "nv_tileaa.scan": _join_same, "nv_tileaa.assume": _join_same,
    "nv_tileaa.dot": lambda c, op: c.join(op.results[0], op.operands[2]),
    "nv_tileaa.addptr": lambda c, op: c.join(op.results[0], *op.operands),
    "nv_tileaa.int_to_ptr": _join_same, "nv_tileaa.ptr_to_int": _join_same, "nv_tileaa.ptr_to_ptr": _join_same,
    "nv_tileaa.load": lambda c, op: c.join(op.results[0], *op.operands),
    "nv_tileaa.store": lambda c, op: c.join(*op.operands),
    "nv_tileaa.atomic_rmw": lambda c, op: c.join(op.results[0], *op.operands),
    "nv_tileaa.atomic_cas": lambda c, op: c.join(op.results[0], *op.operands),
}


def propagate(classes: Classes, ops: list[Operation], num_warps: int) -> None:
    """Spread decided layouts through shape ops and reductions; give the default to what remains."""
    links = [op for op in ops if op.name in LINKS]
    pending = list(classes.of)
    position = 0
    while True:
        changed = True
        while changed:
            changed = False
            for op in links:
                changed |= LINKS[op.name](classes, op)
            for op in reversed(links):
                changed |= LINKS[op.name](classes, op)
        while position < len(pending) and classes.layout(pending[position]) is not None:
            position += 1
        if position == len(pending):
            return
        v = pending[position]
        shape = classes.get(v).shape
        classes.decide(v, default_layout(shape, num_warps))


def default_layout(shape: tuple[int, ...], num_warps: int, per_thread: int = 4,
                   order: tuple[int, ...] | None = None, rows: int = 1) -> LinearLayout:
    """Blocked, with at most `per_thread` elements side by side (and `rows` such runs along the next dimension, if there
    are that many) and no thread idle as long as there are elements."""
    size = 1
    for n in shape:
        size *= n
    share = max(1, size // (32 * num_warps))
    return blocked(shape, num_warps, min(per_thread, share), order, rows if per_thread * rows <= share else 1)


def _view(classes: Classes, op: Operation) -> bool:
    source, result = op.operands[0], op.results[0]
    if shape_of(source) is None or shape_of(result) is None:
        return False
    a, b = classes.layout(source), classes.layout(result)
    if a is not None and b is None:
        return classes.decide(result, a.reshape(result.type.get_shape()))  # type: ignore[attr-defined]
    if b is not None and a is None:
        return classes.decide(source, b.reshape(source.type.get_shape()))  # type: ignore[attr-defined]
    return False


def _permute(classes: Classes, op: Operation) -> bool:
    source, result = op.operands[0], op.results[0]
    a, b = classes.layout(source), classes.layout(result)
    permutation = [p.data for p in op.properties["permutation"].data]  # type: ignore[attr-defined]
    if a is not None and b is None:
        return classes.decide(result, a.permute(permutation))
    if b is not None and a is None:
        inverse = [permutation.index(i) for i in range(len(permutation))]
        return classes.decide(source, b.permute(inverse))
    return False


def _broadcast(classes: Classes, op: Operation) -> bool:
    source, result = op.operands[0], op.results[0]
    if shape_of(source) is None:
        return False
    b = classes.layout(result)
    if b is not None and classes.layout(source) is None:
        return classes.decide(source, b.project(source.type.get_shape()).compact_regs())  # type: ignore[attr-defined]
    return False


def _reduce(classes: Classes, op: Operation) -> bool:
    changed = False
    for source, out in zip(op.operands, op.results):
        a = classes.layout(source)
        if a is not None and shape_of(out) is not None and classes.layout(out) is None:
            changed |= classes.decide(out, a.drop(op.properties["dim"].value.data).compact_regs())  # type: ignore[attr-defined]
    if len(op.operands) > 1:
        decided = next((classes.layout(s) for s in op.operands if classes.layout(s) is not None), None)
        if decided is not None:
            for s in op.operands:
                changed |= classes.decide(s, decided)
    return changed


def _extract(classes: Classes, op: Operation) -> bool:
    a, shape = classes.layout(op.operands[0]) if shape_of(op.operands[0]) else None, shape_of(op.results[0])
    if a is None or shape is None or classes.layout(op.results[0]) is not None:
        return False
    found = extract_layout(a, shape)
    return found is not None and classes.decide(op.results[0], found)


def _cat(classes: Classes, op: Operation) -> bool:
    a = classes.layout(op.operands[0])
    if a is None:
        return False
    changed = classes.decide(op.operands[1], a)
    return classes.decide(op.results[0], cat_layout(a, op.properties["dim"].value.data)) or changed  # type: ignore[attr-defined]


LINKS: dict[str, Callable[[Classes, Operation], bool]] = {
    "nv_tileaa.view": _view, "nv_tileaa.permute": _permute, "nv_tileaa.broadcast": _broadcast, "nv_tileaa.reduce": _reduce,
    "nv_tileaa.extract": _extract, "nv_tileaa.cat": _cat}
