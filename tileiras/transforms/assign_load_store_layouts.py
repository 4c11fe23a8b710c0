"""`assign-load-store-layouts`: who holds which element of every tile, and conversions where ops need another layout.

    %x = nv_tileas.tiled_load %view[%i] {contiguous = 0, runs = [4]} : tensor<1024xf32>
->  %x = nv_tileas.tiled_load %view[%i] {contiguous = 0, runs = [4]} : tensor<1024xf32, #layout>

The layouts are the cheapest of those that analysis/layout_choice.py finds; without optimization, what priorities give.
Where an op's layouts then break its rules (analysis/layout_rules.py), a `convert_layout` mends it: of its operand in front
of it, or of its result behind it.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import TensorType, UnitAttr
from xdsl.ir import Block, Operation, SSAValue

from tileiras.analysis.layout_choice import LEAVES, Choice, choose
from tileiras.analysis.layout_classes import Relations
from tileiras.analysis.layout_rules import Link, Normal, Relation, Same, layout_or_none, relations
from tileiras.dialects import nv_tileas
from tileiras.dialects.nv_tileas import EXITS, LOOPS, with_layout
from tileiras.layout.linear import LinearLayout
from tileiras.transforms.leaves import clone_leaves

HAND_ON = frozenset({*LOOPS, *EXITS, "scf.yield"})
"""Ops with a relation for each value that they hand on, in the order of their operands."""


def run(module: Operation, context: Any) -> None:
    """Give every tensor of the module its layout, in place."""
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            _function(func, context)


def _function(func: Operation, context: Any) -> None:
    num_warps: int = func.properties["num_warps"].data  # type: ignore[attr-defined]
    clone_leaves(func)
    found = Relations(func)
    search = context.opt_level > 0 and context.search_layouts
    movable = {}
    if search and context.target.has_tma and context.uses("tma"):
        from tileiras.analysis.tma_choice import movable_in
        movable = movable_in(func, context.target.most_static_smem)
    choice = choose(found, num_warps, search, movable, context.target.has_ldmatrix_bytes)
    for op in choice.engine:
        op.properties["engine"] = UnitAttr()
    for v in choice.classes.of:
        v._type = with_layout(v.type, choice.classes.layout(v))  # type: ignore[arg-type]
    _Mending(found, choice).run()
    if context.remarks is not None and choice.slots:
        from tileiras.transforms.layout_remarks import report_engine_by_cost
        report_engine_by_cost(func, choice.slots, choice.engine, context.remarks)
    if context.remarks is not None and choice.cost < choice.before:
        from tileiras.remarks import ANALYSIS, MEMORY, remark
        context.remarks.append(remark(
            func, func, ANALYSIS, MEMORY, "MemoryLayoutsByCost",
            f"Layouts of tiles were chosen to save {choice.before - choice.cost:.0f} of {choice.before:.0f} issue slots a warp",
            {"Slots": round(choice.cost), "RunnerUpSlots": round(choice.before)},
            ["the runner-up gives every tile the layout that its accesses and products prefer, wherever it goes from there"]))


# --- conversions -------------------------------------------------------------------------------------------------------

class _Mending:
    """Conversions where an op's layouts break its rules: of operands before the op, of results behind it."""

    def __init__(self, found: Relations, choice: Choice) -> None:
        self.found, self.choice = found, choice
        self.converted: dict[tuple[SSAValue, LinearLayout], tuple[Block, SSAValue]] = {}

    def run(self) -> None:
        for op in self.found.ops:
            if op in self.found.of or op in self.choice.stores:
                self._op(op, relations(op))     # asked anew: what came before has changed operands

    def _op(self, op: Operation, found: list[Relation]) -> None:
        wanted: dict[SSAValue, LinearLayout] = {}
        by_number: dict[int, LinearLayout] = {}     # of operands: loops and their ends hand a value on under several numbers
        if op in self.choice.stores:
            wanted[op.operands[0]] = self.choice.stores[op]
        forms = {r.value: r.form for r in found if isinstance(r, Normal)}
        for r in found:
            if isinstance(r, Same):
                leader = next((v for v in r.values if v in forms), r.values[0])
                layout = _layout(leader)
                if leader in forms:
                    layout = forms[leader](layout) or layout
                for v in r.values:
                    wanted[v] = layout
                number = next((i for i, v in enumerate(op.operands) if v in r.values and i not in by_number), None)
                if number is not None and op.name in HAND_ON:
                    by_number[number] = layout
        for v, form in forms.items():
            if v not in wanted:
                layout = _layout(v)
                wanted[v] = form(layout) or layout
        for r in found:
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
            layout = by_number[i] if i in by_number else wanted.get(v)
            if layout is not None and _layout(v) != layout:
                op.operands[i] = self.to_layout(v, layout, op)
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
        owner = v.owner
        if isinstance(owner, Operation) and owner.name in LEAVES:
            return self._again(owner, layout, before)
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


    def _again(self, leaf: Operation, layout: LinearLayout, before: Operation) -> SSAValue:
        """A leaf made once more, in this layout; the one that nobody uses any more goes."""
        copy = leaf.clone()
        v = copy.results[0]
        v._type = with_layout(v.type, layout)  # type: ignore[arg-type]
        block = before.parent
        assert block is not None
        block.insert_op_before(copy, before)
        return v


def _layout(v: SSAValue) -> LinearLayout:
    found = layout_or_none(v)
    assert found is not None and isinstance(v.type, TensorType)
    return found
