"""`allocate-buffers`: every buffer gets its offset in the block's shared memory, the function the size of the whole.

    %b = alloc_tensor       ->      %b = alloc_tensor {offset = 4096}
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Operation

from tileiras.analysis.shared_memory import plan_shared_memory
from tileiras.dialects.location_text import location_text
from tileiras.errors import CompileError


def run(module: Operation, context: Any) -> None:
    """Write the offsets, in place. Raises CompileError if the target hasn't as much shared memory."""
    target = context.target
    for func in module.regions[0].block.ops:
        if func.name != "nv_tileas.func":
            continue
        plan = plan_shared_memory(func)
        if plan.size > target.most_static_smem:
            name: Any = func.properties["sym_name"]
            raise CompileError(f"entry '{name.data}' needs {plan.size} bytes of shared memory, {target.name} has "
                               f"{target.most_static_smem}", location_text(func))
        for op, offset in plan.offsets.items():
            op.properties["offset"] = IntAttr(offset)
        if plan.size:
            func.properties["shared_bytes"] = IntAttr(plan.size)
            func.properties["shared_alignment"] = IntAttr(plan.alignment)
