"""May two agents have a tile block's rows between them, a chain of products each (`plan-chains`)?

Attention with tensor memory waits twice an iteration: threads for the first product, the tensor core for what they make of it. Two
chains of 128 rows each, of one block, wait for different things at a time, and share what the loop loads. A kernel has them where
every product is a loop's, of twice as many rows as an instruction has, all split together; where rows become rows of another
product; where the copy engine brings what the loop's products read, the same for both halves; and where nothing else is done in
common: every store is of a split tile, and nobody waits for it.
"""
from __future__ import annotations

from math import prod
from typing import Any

from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from tileiras.analysis.access_facts import view_facts
from tileiras.analysis.axis import AxisAnalysis
from tileiras.analysis.cta_axes import Axes, Place, extents, mnemonic, relation
from tileiras.analysis.cta_plan import Plan
from tileiras.analysis.dot_chains import rows_from, takes_rows
from tileiras.analysis.entry_hints import hint, worker_warps
from tileiras.analysis.tensor_memory import allocated
from tileiras.analysis.tma import MapFacts, is_unwritten, map_facts
from tileiras.dialects.arith import Addf, Fma
from tileiras.dialects.element import element_bytes, element_name
from tileiras.layout.atoms.mma_sync import TYPE_NAMES
from tileiras.layout.atoms.umma import COLUMNS, IN_CELLS, LANES

CHAINS = 2
CHAIN = "nv_tileas.get_chain"
SWITCHES = ("tcgen05", "tma", "pipelines", "agents")
MATRIX = 2
MOST_BLOCKS = 2
"""On an SM, of two chains each, that may be asked for (256x64 tiles of 64 features, a hint for two blocks, B200: 53.8 us by one
agent, 42.2 by chains)."""
FOR_BARRIERS = 1024
"""Bytes of pipes, and of what aligning the rest behind them costs."""
FEW_ELEMENTS = 1024
"""Of a tile that both chains may load for themselves."""
ALONE = ("alloca", "print", "assert", "atomic_rmw", "atomic_cas", "tiled_atomic_rmw", "loop", "gdc_wait",
         "gdc_launch_dependents", "dot_scaled")
"""What isn't done twice, or not by halves."""
LEAVES = ("break", "continue", "return")
STORES = ("tiled_store", "store")
LOADS = ("tiled_load", "load")


def chains_of(func: Operation) -> int:
    """How many chains a function is the program of one of."""
    properties: dict[str, Any] = func.properties
    return properties["chains"].data if "chains" in properties else 1


def planned(func: Operation, context: Any) -> Plan | None:
    """How to split a function, None where it isn't for two chains."""
    if not (context.target.has_tcgen05 and all(map(context.uses, SWITCHES))) or "cluster" in func.properties or \
            (hint(func, "occupancy") or 1) > MOST_BLOCKS or worker_warps(func) is not None:
        return None
    dots = [op for op in func.walk() if mnemonic(op) == "dot"]
    if not dots or not all(map(_is_for_chains, dots)) or not any(takes_rows(op, True) for op in dots) or \
            not _have_room(func, dots, context) or any(map(_leaves_sums_to_threads, dots)):
        return None
    ops = [op for op in func.walk() if op is not func]
    if any(mnemonic(op) in ALONE or (mnemonic(op) in LEAVES and op.parent_op() is not func) for op in ops):
        return None
    axes = Axes(func)
    rows = axes.of(dots[0].results[0], 0)
    if rows not in axes.free() or any(axes.of(op.results[0], 0) != rows for op in dots):
        return None
    plan = Plan(axes, {rows: CHAINS - 1}, CHAINS)
    return plan if all(_is_shared_well(op, plan, rows) for op in ops) and _are_brought(func, dots, plan) else None


def blocks_by_tensor_memory(func: Operation) -> int:
    """At most how many blocks an SM holds by the columns of tensor memory that loops' products need at once: those that go on from
    iteration to iteration, and the largest of the others, with those whose rows it takes. Only products of as many rows as an
    instruction has are counted, which are there for certain."""
    carried: dict[Operation, int] = {}
    others: dict[Operation, int] = {}
    for op in func.walk():
        loop: Any = op.parent_op()
        if mnemonic(op) != "dot" or loop is None or mnemonic(loop) != "for" or not _may_be_rows(op.operands[0]):
            continue
        columns = _columns(op)
        if not columns:
            continue
        if isinstance(op.operands[2], BlockArgument) or any(use.operation.name == "scf.yield" for use in op.results[0].uses):
            carried[loop] = carried.get(loop, 0) + columns
        else:
            taken = [_columns(maker) for maker in rows_from(op, True) if maker.parent_op() is loop]
            others[loop] = max(others.get(loop, 0), columns + max(taken, default=0))
    most = max((carried.get(loop, 0) + others.get(loop, 0) for loop in {*carried, *others}), default=0)
    return COLUMNS // allocated(most)


def _leaves_sums_to_threads(dot: Operation) -> bool:
    """Whether threads add a product of others' rows to sums, for which one agent's tensor memory has room beside it, and beside
    these rows in both widths (`place-sums`); two chains' hasn't, and in registers they keep others waiting (sums beside products,
    256x64 tiles of 64 features, B200: 50.2 us in chains, 44.1 without; of 128 features, which it hasn't room for, 56.8 and 119)."""
    rows = [_columns(maker) for maker in rows_from(dot, True)]
    is_added = any(isinstance(use.operation, (Addf, Fma)) and use.operation.results[0] in dot.parent.last_op.operands   # type: ignore
                   for use in dot.results[0].uses)
    return bool(rows) and is_added and max(rows) * 3 // 2 + 2 * _columns(dot) <= COLUMNS


def _columns(dot: Operation) -> int:
    """Of a product whose rows fill whole instructions; 0 of others."""
    *_, m, n = extents(dot.results[0])
    return m // LANES * n if m % LANES == 0 else 0


def _is_for_chains(dot: Operation) -> bool:
    """Whether a loop's product has the rows of two instructions."""
    shape = extents(dot.results[0])
    loop = dot.parent_op()
    while loop is not None and mnemonic(loop) != "for":
        loop = loop.parent_op()
    return len(shape) == MATRIX and shape[0] == CHAINS * LANES and loop is not None and _may_be_rows(dot.operands[0])


def _may_be_rows(v: SSAValue) -> bool:
    """Whether a first operand's type may be that of rows in tensor memory."""
    t: Any = v.type
    return TYPE_NAMES.get(element_name(t.element_type)) in IN_CELLS


def _have_room(func: Operation, dots: list[Any], context: Any) -> bool:
    """Whether tensor memory holds the products of both chains, and shared memory what they read and what is stored of them."""
    columns: dict[Operation | None, int] = {}
    brought: dict[Operation | None, int] = {}
    for op in dots:
        loop = op.parent_op()
        columns[loop] = columns.get(loop, 0) + extents(op.results[0])[1]
        brought[loop] = brought.get(loop, 0) + prod(extents(op.operands[1])) * element_bytes(op.operands[1].type.element_type)
    rows = {v for op in dots if isinstance((v := op.operands[0]), OpResult) and not takes_rows(op, True)}
    held = sum(prod(extents(v)) * element_bytes(v.type.element_type) for v in rows)      # type: ignore[attr-defined]
    stores = [op for op in func.walk() if mnemonic(op) == "tiled_store"]
    stored = sum(prod(extents(op.operands[0])) * element_bytes(op.operands[0].type.element_type) for op in stores)    # type: ignore
    # the first agent's queries have their place alone until its results take it; what the others have keeps its own
    shared = min(held, stored) // CHAINS if len(columns) == 1 and _are_by_engine(func, stores) else 0
    return CHAINS * max(columns.values()) <= COLUMNS and \
        held + stored - shared + max(brought.values()) + FOR_BARRIERS <= context.target.most_static_smem


def _are_by_engine(func: Operation, accesses: list[Operation]) -> bool:
    """Whether the copy engine can make these accesses: results then go in pieces, each of which finds a place for itself."""
    axis = AxisAnalysis(func)
    for op in accesses:
        along = view_facts(op, op.view, axis).contiguous        # type: ignore[attr-defined]
        if along is None or not isinstance(map_facts(op, axis, contiguous=along), MapFacts):
            return False
    return True


def _is_shared_well(op: Operation, plan: Plan, rows: Place) -> bool:
    """Whether halves of what an op does are what it does."""
    name = mnemonic(op)
    if name in STORES:
        return not plan.copies(op) and all(r.first_use is None for r in op.results)
    if name in LOADS:
        semantic: Any = op.properties["mem_semantic"]
        return semantic.data == "weak"
    if name == "reduce":
        return all(m.value in plan.axes.cheap or plan.axes.of(m.value, m.dim) != rows for m in relation(op).summed)
    return True


def _are_brought(func: Operation, dots: list[Any], plan: Plan) -> bool:
    """Whether the copy engine loads every tile that loops load, which both chains read."""
    brought: set[Operation] = set()
    for op in dots:
        made: Any = op.operands[1].owner
        while isinstance(made, Operation) and mnemonic(made) in ("view", "permute"):
            made = made.operands[0].owner
        if not isinstance(made, Operation) or mnemonic(made) != "tiled_load" or not plan.copies(made):
            return False
        brought.add(made)
    for load in [op for op in func.walk() if mnemonic(op) in LOADS]:
        within = mnemonic(load.parent_op()) != "func"       # type: ignore[arg-type]
        if load not in brought and within and prod(extents(load.results[0])) > FEW_ELEMENTS:
            return False
        if load in brought and not is_unwritten(load):
            return False
    return _are_by_engine(func, list(brought))
