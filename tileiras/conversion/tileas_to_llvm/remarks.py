"""Remarks on what moves between threads: tiles that go through shared memory, and how much of it the kernel needs."""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation

from tileiras.conversion.tileas_to_llvm.shared.convert_layout import plan_for
from tileiras.dialects.cuda_tile.debug import source_position
from tileiras.dialects.nv_tileas import layout_of
from tileiras.layout.convert import ThroughShared
from tileiras.remarks import ANALYSIS, MEMORY, Remark, tile_text


def report(func: Operation, target: Any, remarks: list[Remark]) -> None:
    """Append a remark for every change of layout of an nv_tileas.func that takes a trip through shared memory."""
    name = func.properties["sym_name"].data  # type: ignore[attr-defined]
    for op in func.walk():
        if op.name != "nv_tileas.convert_layout":
            continue
        t = op.results[0].type
        assert isinstance(t, TensorType)
        plan = plan_for(layout_of(op.operands[0]), layout_of(op.results[0]), t.element_type, target)
        if isinstance(plan, ThroughShared):
            remarks.append(Remark(
                ANALYSIS, MEMORY, "RemarkMemoryLayoutConversion", name,
                f"{tile_text(t)} goes through shared memory to other threads",
                source_position(op.location), (("SharedBytes", plan.bytes), ("Rounds", plan.num_rounds)),
                ("the ops before and after hold its elements in different threads",)))
