"""Which bytes of shared memory, or columns of tensor memory, an op touches, and who must meet between two such accesses.

Threads of a block hold different elements in two accesses to one place, so program order isn't enough where one of the two writes.
Where each warp touches bytes of its own in both (`warp_bytes.py`) its threads meet and nobody else's. The stages of a ring are
ordered by their pipe, products into tensor memory by the tensor core; who waits for products waits for them itself.
"""
from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from xdsl.ir import Operation, SSAValue

from tileiras.analysis.effects import Effects
from tileiras.analysis.shared_memory import buffer_bytes
from tileiras.analysis.warp_bytes import WarpBytes, warp_bytes
from tileiras.dialects.nv_tileas import RingType, TmemType, layout_of
from tileiras.errors import CompileError
from tileiras.layout.atoms.umma import COLUMNS, GROUP_WARPS

TENSOR_MEMORY = 1 << 32
"""Added to columns of tensor memory, which are places as bytes of shared memory are."""
DOT, COMMIT, STORE_WAIT = "nv_tileas.tensor_dot", "nv_tileas.producer_commit", "nv_tileas.store_wait"
MOVES = ("nv_tileas.load_tmem", "nv_tileas.store_tmem", "nv_tileas.scale_tmem", "nv_tileas.add_tmem")


class Meeting(IntEnum):
    """Who must meet between two accesses."""

    NOBODY = 0
    WARP = 1
    BLOCK = 2


@dataclass(frozen=True)
class Touch:
    """An access to bytes [start, end) of shared memory by `op` since the last barrier, of `ring` if they are a ring's; `engine`:
    not by the threads themselves; `own`: of tensor memory, each warp in lanes that no other one reaches; `form`: of tensor memory,
    how elements lie there and which thread has which, so that each touches the same places in two accesses of a form; `warps`:
    which of the bytes each warp touches, where that is known; `met`: the threads of each warp have met since."""

    start: int
    end: int
    writes: bool
    op: Operation
    ring: SSAValue | None = None
    engine: bool = False
    own: bool = False
    form: tuple[Any, ...] = ()
    warps: WarpBytes | None = None
    met: bool = False

    @property
    def places(self) -> tuple[int, int]:
        return self.start, self.end

    def clashes(self, other: Touch) -> Meeting:
        """Who must meet, so that the two don't overtake each other; `other` came first. Writes of one op are in order: the same
        thread writes the same place."""
        if not (self.start < other.end and other.start < self.end and (self.writes or other.writes)):
            return Meeting.NOBODY
        if self.ring is not None and self.ring is other.ring:
            return Meeting.NOBODY
        if self.op.name == other.op.name == DOT:
            return Meeting.NOBODY       # products are done in order
        if self.op.name == STORE_WAIT:
            return Meeting.NOBODY       # it touches nothing; who writes to the buffer behind it waits for it
        if other.op.name == COMMIT:
            return Meeting.NOBODY       # of products: who waits for it waits
        if self.start >= TENSOR_MEMORY and DOT not in (self.op.name, other.op.name) and (
                (self.places == other.places and self.form == other.form) or (self.own and other.own)):
            return Meeting.NOBODY       # a thread loads what it has stored
        if self.op is other.op and self.writes and other.writes:
            return Meeting.NOBODY
        if "part" in self.op.properties and "part" in other.op.properties and self.op.operands[1] is other.op.operands[1]:
            return Meeting.NOBODY       # different ones of a buffer, or the same one by the same threads
        if self.warps is None or other.warps is None or self.start != other.start or self.warps.crosses(other.warps):
            return Meeting.BLOCK
        return Meeting.NOBODY if other.met else Meeting.WARP


def touches(op: Operation, effects: Effects) -> list[Touch]:
    """The bytes that an op touches; of a buffer that it reads and writes, both."""
    out = [Touch(TENSOR_MEMORY, TENSOR_MEMORY + COLUMNS + 1, True, op)] if effects.accumulators else []
    for buffers, writes in ((effects.reads, False), (effects.writes, True)):
        for v in buffers:
            if isinstance(v.type, TmemType):
                out.append(_columns(v, writes, op, effects.engine))
                continue
            if not buffer_bytes(v.type):
                continue
            ring = v if isinstance(v.type, RingType) else None
            owner = v.owner
            if isinstance(owner, Operation) and owner.name == "nv_tileas.extract_slice":
                v = ring = owner.operands[0]
                owner = v.owner
            offset: Any = owner.properties.get("offset") if isinstance(owner, Operation) else None
            if offset is None:
                raise CompileError("a buffer has no place yet: order-memory runs behind allocate-buffers")
            warps = warp_bytes(op) if ring is None else None
            out.append(Touch(offset.data, offset.data + buffer_bytes(v.type), writes, op, ring, effects.engine, warps=warps))
    return out


def _columns(v: SSAValue, writes: bool, op: Operation, engine: bool) -> Touch:
    t: Any = v.type
    offset: Any = v.owner.properties.get("offset") if isinstance(v.owner, Operation) else None
    if offset is None:
        raise CompileError("an accumulator has no place yet: order-memory runs behind allocate-buffers")
    start = TENSOR_MEMORY + offset.data
    if op.name not in MOVES:
        return Touch(start, start + t.columns, writes, op, None, engine)
    warps = layout_of((*op.results, *op.operands)[0]).num_warps
    form = t.rows, t.shape, t.packed, warps, "quads" in op.properties
    return Touch(start, start + t.columns, writes, op, None, engine, warps == GROUP_WARPS, form)
