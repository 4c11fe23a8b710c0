"""What the ops of nv_tileas do to memory that several threads see: one table, from which `order-memory` places barriers.

Buffers in shared memory are objects that the IR names; global memory and memory of allocas is ordered by tokens.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.ir import Operation, SSAValue

from tileiras.analysis.shared_memory import buffer_bytes
from tileiras.analysis.tensor_dots import TMEM_STAGE, is_rows
from tileiras.analysis.warpgroup_dots import wgmma_of
from tileiras.dialects.nv_tileas import COPIES_BY_THREADS, BufferType, RingType, TmemType


@dataclass(frozen=True)
class Effects:
    """reads, writes: buffers. token_read, token_write: accesses that tokens order. before: the threads must have met before
    the op, whatever they did. inside: the op has barriers of its own, behind its first writes, so that nothing done before
    is pending behind it, and of its own accesses only the reads are. behind: the threads must meet behind it. engine: buffers
    are touched by the copy engine or the tensor cores themselves (the asynchronous proxy), which see what threads wrote only
    behind a fence. accumulators: those in tensor memory are there no longer."""

    reads: tuple[SSAValue, ...] = ()
    writes: tuple[SSAValue, ...] = ()
    token_read: bool = False
    token_write: bool = False
    before: bool = False
    inside: bool = False
    behind: bool = False
    engine: bool = False
    accumulators: bool = False


NONE = Effects()
_TOKENS = {
    "tiled_load": (True, False), "load": (True, False), "tiled_store": (False, True), "store": (False, True),
    "atomic_rmw": (True, True), "atomic_cas": (True, True), "tiled_atomic_rmw": (True, True)}
"""Op -> (reads, writes) what tokens order."""
BY_TOKENS = {f"nv_tileas.{m}": Effects(token_read=r, token_write=w) for m, (r, w) in _TOKENS.items()}


def is_by_threads(op: Operation) -> bool:
    """Whether a copy is made by the threads' own instructions."""
    atom: Any = op.properties["atom"]
    return atom.data.startswith("cp.async.") and "threads" in op.properties


def is_stage(v: SSAValue) -> bool:
    """Whether it is an accumulator that a pipe gives and takes back."""
    return isinstance(v.owner, Operation) and v.owner.name == TMEM_STAGE and not is_rows(v)


def _rows_as_one(v: SSAValue) -> SSAValue:
    """All places of rows that threads make for products in turn."""
    owner = v.owner
    return owner.operands[0] if isinstance(owner, Operation) and owner.name == TMEM_STAGE and is_rows(v) else v


def effects_of(op: Operation) -> Effects:
    """What the op itself does (not what ops in its regions do)."""
    name = op.name
    found = BY_TOKENS.get(name)
    if found is not None:
        return found
    if name == "nv_tileas.store_shared":
        return Effects(writes=(op.operands[1],))
    if name in COPIES_BY_THREADS:
        return Effects(writes=(op.buffer,), token_read=True, engine=not is_by_threads(op))  # type: ignore[attr-defined]
    if name == "nv_tileas.load_shared":
        return Effects(reads=(op.operands[0],))
    if name == "nv_tileas.async_dot":
        return Effects(tuple(v for v in op.operands if isinstance(v.type, BufferType)), engine=True)
    if name == "nv_tileas.dot_wait":
        # what it waits for has read them until now
        return Effects(tuple(v for v in op.operands if isinstance(v.type, (BufferType, RingType))))
    if name in ("nv_tileas.load_tmem", "nv_tileas.store_tmem", "nv_tileas.scale_tmem") and is_stage(op.operands[-1]):
        # the pipe orders it with products; the columns aren't to be given back before
        return Effects(reads=(op.operands[-1].owner.operands[0],))      # type: ignore[union-attr]
    if name == "nv_tileas.tensor_dot":
        memory = [_rows_as_one(v) for v in op.operands if isinstance(v.type, (BufferType, TmemType)) and not is_stage(v)]
        return Effects(tuple(v for v in memory if isinstance(v.type, BufferType)),
                       tuple(v for v in memory if isinstance(v.type, TmemType)), engine=True)
    if name == "nv_tileas.load_tmem":
        return Effects(reads=(op.operands[0],))
    if name == "nv_tileas.store_tmem":
        return Effects(writes=(_rows_as_one(op.operands[1]),))
    if name == "nv_tileas.scale_tmem":
        return Effects(reads=(op.operands[1],), writes=(op.operands[1],))
    if name == "nv_tileas.add_tmem":
        return Effects(reads=tuple(op.operands[1:]), writes=(op.operands[2],))
    if name in ("nv_tileas.producer_commit", "nv_tileas.consumer_wait") and op.operands[0].type.kind.data == "umma":  # type: ignore
        if "consumers" in getattr(op.operands[0].owner, "properties", {}):
            return NONE     # stages are given back before they are told of again
        # who waits late would find the barrier in a later phase
        pipe = (op.operands[0],)
        return Effects(writes=pipe) if name == "nv_tileas.producer_commit" else Effects(reads=pipe)
    if name == "nv_tileas.tmem_alloc":
        return Effects(behind=True)
    if name == "nv_tileas.tmem_free":
        return Effects(accumulators=True)
    if name in ("nv_tileas.dot", "nv_tileas.dot_scaled", "nv_tileas.print", "nv_tileas.scan"):
        buffers = tuple(v for v in op.operands if isinstance(v.type, BufferType))
        if name == "nv_tileas.scan" and buffers:
            return Effects(buffers, buffers, inside=True)
        if "in_turn" in op.properties:
            return Effects(buffers, buffers, inside=True)
        return Effects(buffers, engine=wgmma_of(op) is not None)
    if name == "nv_tileas.tma_store":
        return Effects(reads=(op.slot,), engine=True)  # type: ignore[attr-defined]
    if name == "nv_tileas.store_wait":
        return Effects(reads=tuple(op.operands))
    if name == "nv_tileas.tma_load":
        return Effects(writes=(op.slot,), engine=True)  # type: ignore[attr-defined]
    if name == "nv_tileas.cancel_next_program_id":
        return Effects(writes=(op.slot,), engine=True)  # type: ignore[attr-defined]
    if name == "nv_tileas.is_valid_program_id":
        return Effects(reads=(op.operands[0],))
    if name == "nv_tileas.create_pipeline":
        return Effects(writes=(op.results[0],), behind=True) if buffer_bytes(op.results[0].type) else NONE
    if name == "nv_tileas.dealloc":
        return Effects(before=True)
    if name == "nv_tileas.alloca" and "global" not in op.properties:
        # in a loop it is new in each iteration, and no token orders it behind the one before
        parent = op.parent_op()
        return Effects(before=parent is not None and parent.name != "nv_tileas.func")
    return NONE
