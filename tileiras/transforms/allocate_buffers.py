"""`allocate-buffers`: every buffer gets its offset in the block's shared memory, the function the size of the whole.

    %b = alloc_tensor       ->      %b = alloc_tensor {offset = 4096}

Accumulators get columns of tensor memory. Each agent that has some asks for as many as they need where it begins, without agents
the block behind its pipes, and gives them back at every way out.

    create_pipeline ...             create_pipeline ... ; tmem_alloc {columns = 128, offset = 32} ; tmem_base {offset = 32}
    %d = alloc_tensor : tmem        %d = alloc_tensor {offset = 0} : tmem
    return                          tmem_free {columns = 128} ; return

Tensor maps that the kernel builds are numbered: each has its own part of the memory that a block has for them.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntAttr, UnitAttr
from xdsl.ir import Block, Operation

from tileiras.analysis.agents import agent_of, switch_of
from tileiras.analysis.shared_memory import plan_shared_memory
from tileiras.analysis.tensor_dots import is_paired
from tileiras.analysis.tensor_memory import TensorPlan, plan_tensor_memory
from tileiras.dialects import nv_tileas
from tileiras.dialects.location_text import location_text
from tileiras.dialects.nv_tileas import TmemType
from tileiras.errors import CompileError

ALLOC, ALLOC_TENSOR = "nv_tileas.tmem_alloc", "nv_tileas.alloc_tensor"
RETURN = "nv_tileas.return"


def run(module: Operation, context: Any) -> None:
    """Write the offsets, in place. Raises CompileError if the target hasn't as much shared memory."""
    target = context.target
    for func in module.regions[0].block.ops:
        if func.name != "nv_tileas.func":
            continue
        _tensor_memory(func)
        _built_maps(func)
        plan = plan_shared_memory(func)
        if plan.size > target.most_static_smem:
            name: Any = func.properties["sym_name"]
            raise CompileError(f"entry '{name.data}' needs {plan.size} bytes of shared memory, {target.name} has "
                               f"{target.most_static_smem}", location_text(func))
        for op, offset in plan.offsets.items():
            op.properties["offset"] = IntAttr(offset)
            if op.name == ALLOC and op.next_op is not None:
                op.next_op.properties["offset"] = IntAttr(offset)       # what tells everybody
        if plan.size:
            func.properties["shared_bytes"] = IntAttr(plan.size)
            func.properties["shared_alignment"] = IntAttr(plan.alignment)


def _built_maps(func: Operation) -> None:
    """A place for each map that the function builds: agents may be about different ones at a time."""
    built = [op for op in func.walk() if op.name == "nv_tileas.build_tma_desc"]
    for number, op in enumerate(built):
        op.properties["number"] = IntAttr(number)
    if built:
        func.properties["built_maps"] = IntAttr(len(built))


def _tensor_memory(func: Operation) -> None:
    """Columns for the accumulators, and the ops that get and free the block's. Raises CompileError if they don't fit."""
    switch = switch_of(func)
    allocs = [op for op in func.walk() if op.name == ALLOC_TENSOR and isinstance(op.results[0].type, TmemType)]
    mine = {found[1] for op in allocs if (found := agent_of(op)) is not None}
    if switch is None or any(agent_of(op) is None for op in allocs):
        ends = [op for op in (func if switch is None else switch.regions[0]).walk() if op.name == RETURN]
        _columns(func, plan_tensor_memory(func), func.regions[0].block, ends)
    else:
        for number in sorted(mine):     # the other agents don't wait for it
            region = switch.regions[number]
            ends = [op for op in region.walk() if op.name == RETURN]
            _columns(func, plan_tensor_memory(region), region.block, ends, several=len(mine) > 1)


def _columns(func: Operation, plan: TensorPlan | None, block: Block, ends: list[Operation], several: bool = False) -> None:
    """Columns by a plan, got where a block begins and freed at its ends. `several`: other agents get some, too. Raises CompileError
    if they don't fit."""
    if plan is None:
        return
    if not plan.fits:
        name: Any = func.properties["sym_name"]
        raise CompileError(f"entry '{name.data}' needs {plan.columns} columns of tensor memory", location_text(func))
    for op, offset in plan.offsets.items():
        op.properties["offset"] = IntAttr(offset)
    given: dict[str, Any] = {"columns": IntAttr(plan.allocation), "pair": UnitAttr() if any(map(is_paired, func.walk())) else None}
    for end in ends:
        _insert(nv_tileas.TmemFree.make([], [], given), end)
    pipe = next((op for op in block.ops if op.name == "nv_tileas.create_pipeline"), None)
    before = block.first_op if pipe is None else pipe
    while before is not None and before.name == "nv_tileas.create_pipeline":
        before = before.next_op
    assert before is not None
    more = {"offset": IntAttr(0), "several": UnitAttr() if several else None}
    _insert(nv_tileas.TmemAlloc.make([], [], {**given, **more}), before)
    _insert(nv_tileas.TmemBase.make([], [], {"offset": IntAttr(0)}), before)


def _insert(new: Operation, before: Operation) -> None:
    new.location = before.location
    assert before.parent is not None
    before.parent.insert_op_before(new, before)
