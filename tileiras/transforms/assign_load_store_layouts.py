"""`assign-load-store-layouts`: who holds which element of every tile, and conversions where ops need another layout.

    %x = nv_tileas.tiled_load %view[%i] {contiguous = 0, runs = [4]} : tensor<1024xf32>
->  %x = nv_tileas.tiled_load %view[%i] {contiguous = 0, runs = [4]} : tensor<1024xf32, #layout>

Values that must share a layout form a class (analysis/layout_classes.py). Classes are decided in this order:

1. accumulators and results of dots: the instruction's fragment (or the blocked layout of the multiply-add path);
2. tiles that are loaded or stored: coalesced along the memory's contiguous dimension, up to 16 bytes an access;
3. what shape ops and reductions imply from a decided neighbour;
4. the rest: the default blocked layout.

Where an op's layouts then break its rules (analysis/layout_rules.py), a `convert_layout` mends it.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, SSAValue

from tileiras.analysis.access import contiguous_of, runs_of
from tileiras.analysis.layout_classes import Classes, LayoutClass
from tileiras.analysis.layout_rules import (
    Link,
    Normal,
    Same,
    accessed,
    accumulator_layout,
    is_tensor,
    layout_or_none,
    relations,
    shape_of,
)
from tileiras.dialects import nv_tileas
from tileiras.dialects.element import element_bytes
from tileiras.dialects.nv_tileas import with_layout
from tileiras.layout.linear import LinearLayout
from tileiras.layout.placement import default_layout
from tileiras.transforms.leaves import clone_leaves

MAX_PER_THREAD_BYTES = 32
"""How many bytes side by side a thread may hold of the widest type of a class: more would scatter a warp's access."""
DOTS = frozenset({"nv_tileas.dot", "nv_tileas.dot_scaled"})
POINTER_ACCESSES = frozenset({"nv_tileas.load", "nv_tileas.store", "nv_tileas.atomic_rmw", "nv_tileas.atomic_cas"})


def run(module: Operation, context: Any) -> None:
    """Give every tensor of the module its layout, in place."""
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            _function(func)


def _function(func: Operation) -> None:
    num_warps: int = func.properties["num_warps"].data  # type: ignore[attr-defined]
    clone_leaves(func)
    classes = Classes(func)
    if not classes.of:
        return
    _decide(classes, num_warps)
    for v in classes.of:
        layout = classes.layout(v)
        assert layout is not None
        v._type = with_layout(v.type, layout)  # type: ignore[arg-type]
    _Mending(classes).run()


# --- decisions ---------------------------------------------------------------------------------------------------------

def _decide(classes: Classes, num_warps: int) -> None:
    accesses: dict[LayoutClass, list[tuple[Operation, SSAValue]]] = {}
    for op in classes.ops:
        if op.name in DOTS:
            c = classes.get(op.results[0])
            if c.layout is None:
                c.layout = accumulator_layout(op, num_warps)
        elif "runs" in op.properties:
            tile = op.operands[0] if op.name in POINTER_ACCESSES else accessed(op)
            if is_tensor(tile):
                accesses.setdefault(classes.get(tile), []).append((op, tile))
    for c, group in accesses.items():
        if c.layout is None:
            c.layout = coalesced(c.shape, group, num_warps)
    classes.spread(lambda shape: default_layout(shape, num_warps))


def coalesced(shape: tuple[int, ...], group: list[tuple[Operation, SSAValue]], num_warps: int) -> LinearLayout:
    """The blocked layout for a class with these accesses: the first access that has a contiguous dimension leads."""
    dim = next((d for op, _ in group if (d := contiguous_of(op)) is not None), None)
    if dim is None:
        return default_layout(shape, num_warps, 1)
    widest = max(_moved_bytes(tile) for _, tile in group)
    per_thread = max(runs_of(op)[dim] for op, _ in group if contiguous_of(op) == dim)
    per_thread = min(per_thread, max(1, MAX_PER_THREAD_BYTES // widest))
    order = (dim, *[d for d in range(len(shape) - 1, -1, -1) if d != dim])
    return default_layout(shape, num_warps, per_thread, order, _rows_beside(group, dim))


def _moved_bytes(tile: SSAValue) -> int:
    """Bytes of an element that an access of this tile (or through this tile of pointers) moves."""
    element: Any = tile.type.element_type  # type: ignore[attr-defined]
    return element_bytes(getattr(element, "pointee", element))


def _rows_beside(group: list[tuple[Operation, SSAValue]], dim: int) -> int:
    """Rows that a thread should load side by side: 4 of a dot's operand of bytes whose rows don't run along k, so that
    the thread holds whole words of four neighbours in k, as fragments have them; else 1."""
    for _, tile in group:
        for use in tile.uses:
            if _moved_bytes(tile) == 1 and use.operation.name in DOTS and use.index < 2:
                rank = len(shape_of(tile) or ())
                if dim != (rank - 1 if use.index == 0 else rank - 2):
                    return 4
    return 1


# --- conversions -------------------------------------------------------------------------------------------------------

class _Mending:
    """Conversions where an op's layouts break its rules: of operands before the op, of results behind it."""

    def __init__(self, classes: Classes) -> None:
        self.classes = classes
        self.converted: dict[tuple[SSAValue, LinearLayout], tuple[Block, SSAValue]] = {}

    def run(self) -> None:
        for op in self.classes.ops:
            if op in self.classes.relations:
                self._op(op, relations(op))     # asked anew: conversions of what came before have changed operands

    def _op(self, op: Operation, asked: list[Any]) -> None:
        wanted: dict[SSAValue, LinearLayout] = {}
        forms = {r.value: r.form for r in asked if isinstance(r, Normal)}
        for r in asked:
            if isinstance(r, Same):
                first = r.values[0]
                layout = _layout(first)
                if first in forms:
                    layout = forms[first](layout) or layout
                for v in r.values:
                    wanted[v] = layout
        for v, form in forms.items():
            if v not in wanted:
                layout = _layout(v)
                wanted[v] = form(layout) or layout
        for r in asked:
            if isinstance(r, Link):
                if r.to is not None:
                    layout = r.to(wanted.get(r.source) or _layout(r.source))
                    if layout is not None:
                        wanted[r.target] = layout
                elif r.back is not None:
                    layout = r.back(wanted.get(r.target) or _layout(r.target))
                    if layout is not None:
                        wanted[r.source] = layout
        for i, v in enumerate(op.operands):
            if v in wanted and _layout(v) != wanted[v]:
                op.operands[i] = self.to_layout(v, wanted[v], op)
        for v in op.results:
            if v in wanted and _layout(v) != wanted[v]:
                self._result(op, v, wanted[v])

    def _result(self, op: Operation, v: SSAValue, natural: LinearLayout) -> None:
        """The op gives `natural`; whoever uses the result gets the layout of its class."""
        layout = _layout(v)
        v._type = with_layout(v.type, natural)  # type: ignore[arg-type]
        block = op.parent
        assert block is not None
        convert = nv_tileas.ConvertLayout.make([v], [with_layout(v.type, layout)])  # type: ignore[arg-type]
        convert.location = op.location
        block.insert_op_after(convert, op)
        v.replace_uses_with_if(convert.results[0], lambda use: use.operation is not convert)
        self.converted[v, layout] = block, convert.results[0]

    def to_layout(self, v: SSAValue, layout: LinearLayout, before: Operation) -> SSAValue:
        """`v` in that layout; converted once a block."""
        known = self.converted.get((v, layout))
        block = before.parent
        assert block is not None
        if known is not None and known[0] is block:
            return known[1]
        convert = nv_tileas.ConvertLayout.make([v], [with_layout(v.type, layout)])  # type: ignore[arg-type]
        convert.location = before.location
        block.insert_op_before(convert, before)
        self.converted[v, layout] = block, convert.results[0]
        return convert.results[0]


def _layout(v: SSAValue) -> LinearLayout:
    found = layout_or_none(v)
    assert found is not None and isinstance(v.type, TensorType)
    return found
