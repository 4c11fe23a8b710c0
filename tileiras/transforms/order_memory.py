"""`order-memory`: a block barrier where a token orders accesses that different threads may make.

    %t = nv_tileas.tiled_store %x, %view[%i]                 %t = nv_tileas.tiled_store %x, %view[%i]
    %y = nv_tileas.tiled_load %other[%j] token %t      ->    nv_tileas.barrier
                                                             %y = nv_tileas.tiled_load %other[%j] token %t

Two accesses joined by a path of tokens must happen in order, at least one of them writing. Threads of a block hold
different elements in the two, so program order isn't enough; a barrier is (it makes writes visible to the block, and a
release after it carries them to the device). Accesses not joined by tokens stay unordered. A barrier serves every pair
that it separates: each token knows when its last reads and writes happened, and only those since the last barrier count.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from tileiras.dialects import nv_tileas
from tileiras.dialects.nv_tileaa import MemTokenType

READS = {"nv_tileas." + m for m in ("tiled_load", "load", "atomic_rmw", "atomic_cas", "tiled_atomic_rmw")}
WRITES = {"nv_tileas." + m for m in ("tiled_store", "store", "atomic_rmw", "atomic_cas", "tiled_atomic_rmw")}
NEVER = -1


@dataclass(frozen=True)
class Pending:
    """When (in program order) the last read and the last write that a token stands for happened."""

    read: int = NEVER
    write: int = NEVER

    def __or__(self, other: Pending) -> Pending:
        return Pending(max(self.read, other.read), max(self.write, other.write))


def run(module: ModuleOp, context: Any = None) -> None:
    """Insert the barriers, in place."""
    for func in module.body.block.ops:
        if func.name == "nv_tileas.func" and _has_both(func):
            _Ordering().block(func.regions[0].block)


def _has_both(func: Operation) -> bool:
    """Whether a function has two accesses that could need an order: any write beside another access."""
    writes = accesses = 0
    for op in func.walk():
        writes += op.name in WRITES
        accesses += op.name in WRITES or op.name in READS
    return writes > 0 and accesses > 1


class _Ordering:
    def __init__(self) -> None:
        self.now = 0
        self.last_barrier = 0
        self.tokens: dict[SSAValue, Pending] = {}

    def pending(self, v: SSAValue) -> Pending:
        return self.tokens.get(v, Pending())

    def block(self, block: Block) -> None:
        for op in list(block.ops):
            self.visit(op)

    def visit(self, op: Operation) -> None:
        tokens = [v for v in op.operands if isinstance(v.type, MemTokenType)]
        if op.name in ("scf.for", "nv_tileas.loop"):
            self.loop(op)
        elif op.name == "scf.if":
            self.branch(op)
        elif op.name in READS or op.name in WRITES:
            self.access(op, tokens)
        elif op.results:
            joined = Pending()
            for t in tokens:
                joined |= self.pending(t)
            for r in op.results:
                if isinstance(r.type, MemTokenType):
                    self.tokens[r] = joined

    def access(self, op: Operation, tokens: list[SSAValue]) -> None:
        before = Pending()
        for t in tokens:
            before |= self.pending(t)
        writes = op.name in WRITES
        if before.write > self.last_barrier or (writes and before.read > self.last_barrier):
            block = op.parent
            assert block is not None
            block.insert_op_before(nv_tileas.Barrier.create(location=op.location), op)
            self.now += 1
            self.last_barrier = self.now
        self.now += 1
        after = before | Pending(self.now if op.name in READS else NEVER, self.now if writes else NEVER)
        for r in op.results:
            if isinstance(r.type, MemTokenType):
                self.tokens[r] = after

    def loop(self, op: Operation) -> None:
        """Carried tokens may stand for any access of the iteration before, so they start as just made."""
        reads = any(inner.name in READS for inner in op.walk())
        writes = any(inner.name in WRITES for inner in op.walk())
        self.now += 1
        fresh = Pending(self.now if reads else NEVER, self.now if writes else NEVER)
        skip = 3 if op.name == "scf.for" else 0
        body = op.regions[0].block
        for arg, init in zip(body.args[1 if skip else 0:], op.operands[skip:]):
            if isinstance(arg.type, MemTokenType):
                self.tokens[arg] = self.pending(init) | fresh
        before = self.last_barrier
        self.block(body)
        self.last_barrier = before
        self.now += 1
        fresh = Pending(self.now if reads else NEVER, self.now if writes else NEVER)
        inits = Pending()
        for v in op.operands[skip:]:
            inits |= self.pending(v)
        for r in op.results:
            if isinstance(r.type, MemTokenType):
                self.tokens[r] = inits | fresh

    def branch(self, op: Operation) -> None:
        start, barriers = self.last_barrier, []
        for region in op.regions:
            self.last_barrier = start
            if region.blocks:
                self.block(region.block)
            barriers.append(self.last_barrier)
        self.last_barrier = min(barriers)
        for i, r in enumerate(op.results):
            if not isinstance(r.type, MemTokenType):
                continue
            joined = Pending()
            for region in op.regions:
                last = region.block.last_op if region.blocks else None
                if last is not None and last.name == "scf.yield":
                    joined |= self.pending(last.operands[i])
            self.tokens[r] = joined
