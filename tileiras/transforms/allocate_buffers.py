"""`allocate-buffers`: every buffer gets its offset in the block's shared memory, the function the size of the whole.

    %b = alloc_tensor       ->      %b = alloc_tensor {offset = 4096}

Accumulators get columns of tensor memory. An agent asks for as many as they need where it begins; without agents, and for several,
the block asks behind its pipes. Whose they are gives them back at every way out.

    create_pipeline ...             create_pipeline ... ; tmem_alloc {columns = 128, offset = 32} ; tmem_base {offset = 32}
    %d = alloc_tensor : tmem        %d = alloc_tensor {offset = 0} : tmem
    return                          tmem_free {columns = 128} ; return

A function whose blocks are to be few on an SM (`most_blocks`) gets as much as keeps others out.

Tensor maps that the kernel builds are numbered: each has its own part of the memory that a block has for them.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import IntAttr, UnitAttr
from xdsl.ir import Block, Operation

from tileiras.analysis.agents import agent_of, block_warps, switch_of
from tileiras.analysis.shared_memory import ALIGNMENT, blocks_of, plan_shared_memory
from tileiras.analysis.tensor_dots import is_paired
from tileiras.dialects import nv_tileas
from tileiras.dialects.location_text import location_text
from tileiras.dialects.nv_tileas import TmemType
from tileiras.errors import CompileError
from tileiras.machine.targets import WARP_THREADS
from tileiras.transforms.structure import first_pipe

if TYPE_CHECKING:
    from tileiras.analysis.tensor_memory import TensorPlan

ALLOC, ALLOC_TENSOR = "nv_tileas.tmem_alloc", "nv_tileas.alloc_tensor"
RETURN = "nv_tileas.return"


def run(module: Operation, context: Any) -> None:
    """Write the offsets, in place. Raises CompileError if the target hasn't as much shared memory."""
    target = context.target
    for func in module.regions[0].block.ops:
        if func.name != "nv_tileas.func":
            continue
        columns = _tensor_memory(func)
        _built_maps(func)
        plan = plan_shared_memory(func)
        if plan.size > target.most_static_smem:
            name: Any = func.properties["sym_name"]
            raise CompileError(f"entry '{name.data}' needs {plan.size} bytes of shared memory, {target.name} has "
                               f"{target.most_static_smem}", location_text(func))
        for op, offset in plan.offsets.items():
            op.properties["offset"] = IntAttr(offset)
            if op in columns:
                columns[op].properties["offset"] = IntAttr(offset)      # what tells everybody
        if plan.size:
            func.properties["shared_bytes"] = IntAttr(max(plan.size, _kept_from_others(func, target)))
            func.properties["shared_alignment"] = IntAttr(plan.alignment)


def _kept_from_others(func: Operation, target: Any) -> int:
    """Bytes of shared memory that a block has so that an SM holds no more of them than it is to."""
    most: Any = func.properties.get("most_blocks")
    if most is None or target.max_threads_per_sm // (WARP_THREADS * block_warps(func)) <= most.data:
        return 0
    share = target.smem_per_sm // (most.data + 1)
    return next(n for n in range(share // ALIGNMENT * ALIGNMENT, 0, -ALIGNMENT) if blocks_of(n - ALIGNMENT, target) > most.data)


def _built_maps(func: Operation) -> None:
    """A place for each map that the function builds: agents may be about different ones at a time."""
    built = [op for op in func.walk() if op.name == "nv_tileas.build_tma_desc"]
    for number, op in enumerate(built):
        op.properties["number"] = IntAttr(number)
    if built:
        func.properties["built_maps"] = IntAttr(len(built))


def _tensor_memory(func: Operation) -> dict[Operation, Operation]:
    """Columns for the accumulators, and the ops that get and free the block's; by each that gets some, the one that says where they
    are. Raises CompileError if they don't fit."""
    allocs = [op for op in func.walk() if op.name == ALLOC_TENSOR and isinstance(op.results[0].type, TmemType)]
    if not allocs:
        return {}
    from tileiras.analysis.tensor_memory import plan_tensor_memory  # few kernels have tensor memory
    switch = switch_of(func)
    top = func.regions[0].block
    if switch is None or any(agent_of(op) is None for op in allocs):
        return _columns(func, func if switch is None else switch.regions[0], plan_tensor_memory(func), top, top)
    agents = sorted({at[1] for op in allocs if (at := agent_of(op)) is not None})
    found = {}
    for number in agents:
        region = switch.regions[number]
        # the other agents don't wait for the only one; of several the last to ask gives up the block's right to
        asks = region.block if len(agents) == 1 else top
        found |= _columns(func, region, plan_tensor_memory(region), asks, region.block, number != agents[-1])
    return found


def _columns(func: Operation, users: Any, plan: TensorPlan | None, asks: Block, learns: Block,
             several: bool = False) -> dict[Operation, Operation]:
    """Columns by a plan, asked for where `asks` begins, known where `learns` does, freed at the ends of `users` (the function or an
    agent's region). `several`: more are asked for behind. Raises CompileError if they don't fit."""
    if plan is None:
        return {}
    if not plan.fits:
        name: Any = func.properties["sym_name"]
        raise CompileError(f"entry '{name.data}' needs {plan.columns} columns of tensor memory", location_text(func))
    for op, offset in plan.offsets.items():
        op.properties["offset"] = IntAttr(offset)
    given: dict[str, Any] = {"columns": IntAttr(plan.allocation), "pair": UnitAttr() if any(map(is_paired, func.walk())) else None}
    for end in [op for op in users.walk() if op.name == RETURN]:
        _insert(nv_tileas.TmemFree.make([], [], given), end)
    before: Operation | None = first_pipe(asks, lambda op: op in plan.offsets or op.name == RETURN)
    while before is not None and before.name in ("nv_tileas.create_pipeline", ALLOC):
        before = before.next_op
    assert before is not None
    more = {"offset": IntAttr(0), "several": UnitAttr() if several else None}
    asked, known = nv_tileas.TmemAlloc.make([], [], {**given, **more}), nv_tileas.TmemBase.make([], [], {"offset": IntAttr(0)})
    _insert(asked, before)
    _insert(known, before if learns is asks else learns.first_op)       # type: ignore[arg-type]
    return {asked: known}


def _insert(new: Operation, before: Operation) -> None:
    new.location = before.location
    assert before.parent is not None
    before.parent.insert_op_before(new, before)
