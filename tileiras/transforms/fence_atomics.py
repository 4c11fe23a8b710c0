"""`fence-atomics`: ordered atomics on tiles are relaxed ones between two fences.

    atomic_rmw %p, %x {acq_rel, device}      ->     fence {device}
                                                    atomic_rmw %p, %x {relaxed, device}
                                                    fence {device}

A thread makes many accesses for one op on a tile (by a scalar pointer it makes one), which have no order among themselves. With
the ordering on each of them the machine fences before and behind each; here it does so once. The fence in front releases what
came before, the one behind acquires for what comes after; each stands only where the op's tokens (or its old values) lead
somewhere. A reduction that acquires has no instruction of its own and would be a read-modify-write; relaxed, it is one.

It runs behind `order-memory`: the barrier that carries other threads' accesses to this one stands in front of the first fence,
the one that carries this one's to others behind the second.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from tileiras.analysis.access import access_width
from tileiras.dialects import nv_tileas
from tileiras.dialects.nv_tileaa import MemTokenType
from tileiras.dialects.nv_tileas import layout_of
from tileiras.layout.f2 import Span

ATOMICS = frozenset({"nv_tileas.atomic_rmw", "nv_tileas.atomic_cas", "nv_tileas.tiled_atomic_rmw"})
ORDERED = frozenset({"acquire", "release", "acq_rel"})


def run(module: Operation, context: Any = None) -> None:
    """Relax the atomics for which fences are cheaper, in place."""
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            for op in [op for op in func.walk() if op.name in ATOMICS]:
                _fence(op)


def _fence(op: Any) -> None:
    semantic = op.properties["mem_semantic"].data
    if semantic not in ORDERED or not hasattr(op.operands[0].type, "encoding"):
        return
    before = semantic != "acquire" and any(isinstance(v.type, MemTokenType) and not _is_new(v.owner) for v in op.operands)
    after = semantic != "release" and any(r.first_use is not None for r in op.results)
    if _accesses(op) == 1 and before + after > 0 and not _is_reduction(op):
        return
    op.properties["mem_semantic"] = StringAttr("relaxed")
    block = op.parent
    scope = {"mem_scope": op.properties["mem_scope"]}
    for wanted, insert in ((before, block.insert_op_before), (after, block.insert_op_after)):
        if wanted:
            fence = nv_tileas.Fence.make([], [], scope)
            fence.location = op.location
            insert(fence, op)


def _is_new(owner: Any) -> bool:
    """Whether a token stands for nothing that was done."""
    return isinstance(owner, Operation) and owner.name == "nv_tileas.create_mem_token"


def _is_reduction(op: Any) -> bool:
    """Whether this one on a tile is a read-modify-write for its ordering's sake alone: the old values aren't wanted."""
    return (op.name != "nv_tileas.atomic_cas"
            and op.properties["rmw_mode"].data != "xchg" and op.properties["mem_semantic"].data != "release"
            and all(r.first_use is None for r in op.results if not isinstance(r.type, MemTokenType)))


def _accesses(op: Any) -> int:
    """How many accesses one thread makes."""
    layout = layout_of(op.operands[0])
    return max(1, (1 << len(Span(layout.reg))) // access_width(op, layout))
