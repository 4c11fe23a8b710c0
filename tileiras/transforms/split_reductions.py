"""`split-reductions`: a reduction over several warps becomes one inside warps, an exchange, and one in registers.

    %m = reduce %x dim 1                 %p = reduce %x dim 1 {parts}        : 2x16, the warps' parts first
         : 16x64, warps along dim 1  ->  %g = convert_layout %p              : all parts in each thread
                                         %m = reduce %g dim 0
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntegerAttr, TensorType, UnitAttr, i64
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.layout_rules import dim_of
from tileiras.analysis.places import PLACE_ONLY
from tileiras.dialects import nv_tileas
from tileiras.dialects.nv_tileas import LayoutAttr, layout_of
from tileiras.layout.linear import LinearLayout
from tileiras.layout.reduction import steps_of


def run(module: Operation, context: Any = None) -> None:
    """Split them, in place."""
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            for op in [op for op in func.walk() if op.name == "nv_tileas.reduce" and "parts" not in op.properties]:
                _split(op)


def _split(op: Operation) -> None:
    steps = steps_of(layout_of(op.operands[0]), dim_of(op))
    block = op.parent
    if not steps.warps or block is None:
        return
    shape = (steps.parts.shape[0], *steps.result.shape)
    before, after = steps.parts.reshape(shape), steps.gathered.reshape(shape)
    elements = [v.type.element_type for v in op.operands]  # type: ignore[attr-defined]
    cls: Any = type(op)
    parts = cls.make([list(op.operands)], [[_tensor(e, before) for e in elements]], {**op.properties, "parts": UnitAttr()},
                     [op.regions[0].clone()])
    gathered = [nv_tileas.ConvertLayout.make([v], [_tensor(e, after)]) for v, e in zip(parts.results, elements)]
    outs: list[SSAValue] = [c.results[0] for c in gathered]
    final = cls.make([outs], [[r.type for r in op.results]], {**op.properties, "dim": IntegerAttr(0, i64)},
                     [op.detach_region(op.regions[0])])
    if op.results[0].first_use is None:
        parts.attributes[PLACE_ONLY] = UnitAttr()
    for new in (parts, *gathered, final):
        new.location = op.location
        block.insert_op_before(new, op)
    for old, new in zip(op.results, final.results):
        old.replace_all_uses_with(new)
    op.detach()
    op.erase()


def _tensor(element: Any, layout: LinearLayout) -> TensorType:
    return TensorType(element, layout.shape, LayoutAttr.of(layout))  # type: ignore[arg-type]
