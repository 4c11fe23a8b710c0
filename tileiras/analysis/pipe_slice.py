"""Which ops of a function a way through it (`analysis/pipe_paths.py`) executes: those that touch pipes, rings and buffers, those
that control which of these run and how often, and the scalars that either computes with. What threads do with elements, and where
they find them, which is most of a loop's body, says nothing about pipes (a convolution by patches, 74 passes verified: 7.7 s with
it, 5.3 without).
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tileiras.analysis.pipe_paths import ANSWER, BARRIERS, DOT_WAIT, SWITCH
from tileiras.dialects.nv_tileaa import MemTokenType
from tileiras.dialects.nv_tileas import EXITS, LOOPS, BufferType, PipeType, RingType

PLACES = (BufferType, RingType, PipeType)
BOUNDS = {"scf.for": 3, "scf.if": 1}
"""Operands by which an op controls its regions."""
CONTROL = frozenset({"scf.for", "scf.if", "scf.yield", "nv_tileas.loop", SWITCH, *BARRIERS, DOT_WAIT, *EXITS})
ENDS = frozenset({"scf.yield", "nv_tileas.break", "nv_tileas.continue"})


def executed(func: Operation) -> dict[Block, list[Operation]]:
    """The ops of each block that are executed, in order."""
    needed = _Needed(func)
    return {block: [op for op in block.ops if op in needed.ops]
            for outer in func.walk() for region in outer.regions for block in region.blocks}


class _Needed:
    """`ops`: those that are executed. `values`: those that something which is executed computes with."""

    def __init__(self, func: Operation) -> None:
        self.ops: set[Operation] = set()
        self.values: set[SSAValue] = set()
        self.pending: list[SSAValue] = []
        self.ends: dict[Operation, list[Operation]] = {}        # loop or branch -> what ends its blocks
        for op in func.walk():
            if op.name in ENDS:
                self._end(op)
        for op in func.walk():
            if op.name in CONTROL:
                self.ops.add(op)
                self._ask(op.operands[:BOUNDS.get(op.name, 0)])
            if op.name == ANSWER or _touches(op):
                self.ops.add(op)
                self._ask(v for v in op.operands if not isinstance(v.type, TensorType))
        while self.pending:
            self._follow(self.pending.pop())

    def _end(self, op: Operation) -> None:
        holder = op.parent_op()
        while holder is not None and op.name != "scf.yield" and holder.name not in LOOPS:
            holder = holder.parent_op()
        if holder is not None:
            self.ends.setdefault(holder, []).append(op)

    def _ask(self, values: Any) -> None:
        for v in values:
            if v not in self.values and not isinstance(v.type, MemTokenType):
                self.values.add(v)
                self.pending.append(v)

    def _follow(self, v: SSAValue) -> None:
        """Ask for what a value comes from."""
        if isinstance(v, BlockArgument):
            holder: Any = v.block.parent_op()
            if holder is None or holder.name not in LOOPS:
                return
            args = list(holder.carried_args())
            if v in args:
                self._carried(holder, args.index(v))
            return
        op: Any = v.owner
        if op.name in LOOPS:
            self._carried(op, list(op.results).index(v))
        elif op.name == "scf.if":
            self._ended(op, list(op.results).index(v))
        else:
            self.ops.add(op)
            self._ask(op.operands)

    def _carried(self, loop: Any, place: int) -> None:
        """What a loop carries in one place."""
        inits, args = list(loop.carried_inits()), list(loop.carried_args())
        self._ask([*inits[place:place + 1], *args[place:place + 1]])
        self._ended(loop, place)

    def _ended(self, holder: Operation, place: int) -> None:
        for end in self.ends.get(holder, ()):
            self._ask(end.operands[place:place + 1])


def _touches(op: Operation) -> bool:
    """Whether an op makes, reads, writes or hands on a place; not one in tensor memory, whose events are its readers'."""
    return any(isinstance(v.type, PLACES) for v in (*op.operands, *op.results))
