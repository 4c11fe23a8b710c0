"""`split-tiles`: a tile block whose accumulators no block's registers hold is computed in parts, one after the other.

    for %k {                                               for %part = 0 to 2 {
      %a = tiled_load %va[%i, %k] : 256x64                   for %k {
      %b = tiled_load %vb[%k, %j] : 64x256                     %a = tiled_load %wa[%i * 2 + %part, %k] : 128x64
      %c = dot %a, %b, %acc       : 256x256f32      ->         %b = tiled_load %vb[%k, %j]             : 64x256
    }                                                          %c = dot %a, %b, %acc                   : 128x256f32
    tiled_store %c, %vc[%i, %j]                              }
                                                             tiled_store %c, %wc[%i * 2 + %part, %j]
                                                           }

Otherwise they'd go to memory and back in every iteration. What isn't split is loaded once more, mostly out of L2. Where tensor
memory holds accumulators there is no need. Only for functions that do nothing but load what they don't write, multiply, and
store tiles of which each part has its own piece, so that the parts needn't know of each other. Tiles are split as for the CTAs of
a cluster (cta_split.py): rows before columns; columns first where warpgroups multiply 8-bit floats that they may not sum fast,
since B has often to be turned, by way of registers that are short: each part then turns its own.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntegerAttr, TensorType, i32
from xdsl.ir import Block, Operation, Region

from tileiras.analysis.entry_hints import worker_warps
from tileiras.dialects import arith
from tileiras.dialects.element import REGISTER_BYTES, tile_bytes
from tileiras.transforms.steps import sums_apart

DOT = "nv_tileaa.dot"
LOADS, STORES = ("tiled_load", "load"), ("tiled_store", "store")
ALONE = frozenset({"alloca", "print", "assert", "atomic_rmw", "atomic_cas", "tiled_atomic_rmw", "loop", "gdc_wait",
                   "gdc_launch_dependents", "dot_scaled", "scan", "break", "continue"})
"""What isn't done twice, or not by parts."""
TOO_MANY_WORDS = 512 * 128
"""Registers of a block together that hold what a loop with products carries: two warpgroups would need 256 a thread, and of four
each thread has 128 in all."""
PARTS = 2


def run(module: Operation, context: Any) -> None:
    """Split the tile blocks, in place."""
    if (context.uses("tcgen05") and context.target.has_tcgen05) or not context.uses("pipelines"):
        return
    for func in module.regions[0].block.ops:
        if may_be_split(func) and \
                max((carried_words(op) for op in func.walk() if op.name == "scf.for"), default=0) >= TOO_MANY_WORDS:
            _split(func, context)


def may_be_split(func: Operation) -> bool:
    """Whether a function's tile blocks are nobody else's to split, nor their threads to count."""
    return func.name == "nv_tileaa.func" and "cluster" not in func.properties and worker_warps(func) is None


def carried_words(loop: Any) -> int:
    """Registers of all threads together that hold what a loop with products carries."""
    if not any(op.name == DOT for op in loop.regions[0].block.ops):
        return 0
    return sum(tile_bytes(r.type) // REGISTER_BYTES for r in loop.results if isinstance(r.type, TensorType))


def _split(func: Operation, context: Any) -> None:
    # only here: most functions have no such tile, and shouldn't pay for the imports
    from tileiras.analysis.cta_axes import Axes
    from tileiras.analysis.cta_plan import Plan
    ops = ops_for_parts(func)
    if ops is None:
        return
    dots = [op for op in ops if op.name == DOT]
    axes = Axes(func)
    for dim in (-1, -2) if context.target.has_wgmma and any(map(sums_apart, dots)) else (-2, -1):
        found = {axes.of(op.results[0], len(op.results[0].type.get_shape()) + dim) for op in dots}       # type: ignore[attr-defined]
        if len(found) == 1 and found <= set(axes.free()):
            plan = Plan(axes, {found.pop(): PARTS - 1}, PARTS)
            if all(by_parts(op, plan) for op in ops):
                break
    else:
        return
    if context.remarks is not None:
        from tileiras.remarks import PASSED, TENSOR_CORE, remark
        context.remarks.append(remark(func, func, PASSED, TENSOR_CORE, "TileInParts",
                                      "The tile block is computed in parts, since no block's registers hold its sums",
                                      {"Parts": PARTS, **plan.notes()}))
    compute_in_parts(func, plan)


def ops_for_parts(func: Operation) -> list[Operation] | None:
    """A function's ops, None where it does what can't be done by parts, or returns from inside of an op."""
    from tileiras.analysis.cta_axes import mnemonic
    ops = [op for op in func.walk() if op is not func]
    alone = any(mnemonic(op) in ALONE or (mnemonic(op) == "return" and op.parent_op() is not func) for op in ops)
    return None if alone else ops


def by_parts(op: Operation, plan: Any) -> bool:
    """Whether parts of what an op does, one after the other, are what it does."""
    from tileiras.analysis.cta_axes import mnemonic
    from tileiras.analysis.tma import is_unwritten
    name = mnemonic(op)
    if name in STORES:
        semantic: Any = op.properties["mem_semantic"]
        return semantic.data == "weak" and not plan.copies(op) and _may_come_in_parts(op)
    if name in LOADS:
        semantic = op.properties["mem_semantic"]
        return semantic.data == "weak" and is_unwritten(op) and op.results[1].first_use is None
    if name == "reduce":
        return not plan.splits_sums(op)
    return True


def _may_come_in_parts(store: Any) -> bool:
    """Whether nothing is ordered before or behind a store but what it stores itself, in other iterations, of tiles that don't
    overlap: a part of one iteration's then comes behind another part of a later one's."""
    from tileiras.analysis.tma import is_unwritten, orders_itself
    if is_unwritten(store) and all(r.first_use is None for r in store.results):
        return True
    return store.name == "nv_tileaa.tiled_store" and store.view.type.kind.data == "partition" and orders_itself(store)


def compute_in_parts(func: Operation, plan: Any) -> None:
    """Make a function's tile block the parts of a plan, one after the other."""
    from tileiras.transforms.cta_split import PartNumber, Split
    number = PartNumber()
    Split(func, plan, number).run()
    assert number.constant is not None
    _enclose(func, number.constant, plan.ctas)


def _enclose(func: Operation, constant: Operation, parts: int) -> None:
    """Make the number of the part the counter of a loop around what needs it, and around all that isn't the same for every part."""
    block = func.regions[0].block
    inside: list[Operation] = []
    for op in block.ops:
        shared = getattr(op, "PURE", False) and not op.regions and not any(isinstance(r.type, TensorType) for r in op.results)
        if op is not constant and op is not block.last_op and not (
                shared and not any(v.owner is constant or v.owner in inside for v in op.operands)):
            inside.append(op)
    body = Block(arg_types=[i32])
    bounds = [arith.Constant.make([], [i32], {"value": IntegerAttr(n, i32)}) for n in (0, parts, 1)]
    for op in inside:
        op.detach()
        body.add_op(op)
    end = arith.Yield.make([[]])
    body.add_op(end)
    constant.results[0].replace_all_uses_with(body.args[0])
    constant.detach()
    constant.erase()
    loop = arith.For.create(operands=[op.results[0] for op in bounds], regions=[Region(body)])
    for op in (end, loop, *bounds):
        op.location = func.location
    for op in (*bounds, loop):
        assert block.last_op is not None
        block.insert_op_before(op, block.last_op)
