"""What may stand in which agent: whose side of a pipe an op is on, what every agent may repeat for itself, and what the load agent
may not, because it would come before something that it has to wait for.
"""
from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import prod
from typing import Any, TypeAlias

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.effects import BY_TOKENS
from tileiras.analysis.exits import receivers
from tileiras.analysis.program_slice import CONTROL, YIELD, Slice
from tileiras.dialects.nv_tileaa import MemTokenType
from tileiras.dialects.nv_tileas import COPIES_BY_THREADS, EXITS, LOADS, PipeType, layout_of

CONSUMES = ("nv_tileas.consumer_wait", "nv_tileas.consumer_release")
"""What compute agents do with a pipe; all other ops on one are the load agent's."""
BOTH = ("nv_tileas.gdc_wait", "nv_tileas.is_valid_program_id")
"""What every agent does that touches memory."""
PLACES = ("nv_tileas.alloc_tensor", "nv_tileas.create_pipeline")
"""Shared memory's objects: they have no effect of their own."""
KINDS = ("tma", "cp_async", "mbarrier")
"""Pipes whose consumers learn from a barrier that a stage is full: who fills it may be somebody else."""
COSTLY = ("nv_tileas.dot", "nv_tileas.dot_scaled", "nv_tileas.scan", "nv_tileas.reduce")
"""What the load agent doesn't compute a second time."""
Met: TypeAlias = Sequence[tuple[SSAValue, Operation]]
"""Tokens that ops wait for, with these."""
MOST_ELEMENTS = 1024
"""Of a tile that the load agent may compute for an address."""


class Refusal(Exception):
    """Why a function stays in one agent, and at which op that shows."""

    def __init__(self, op: Operation, reason: str) -> None:
        super().__init__(reason)
        self.op, self.reason = op, reason


def kind_of(pipe: SSAValue) -> str:
    t: Any = pipe.type
    return t.kind.data


def beside(op: Operation, name: str) -> list[Operation]:
    """The ops of that name on an op's pipe, in the op's block, in no order."""
    return [use.operation for use in op.operands[0].uses if use.operation.name == name and use.operation.parent is op.parent]


def is_told_to_all(pipe: SSAValue) -> bool:
    """Whether all agents are told what it hands on: ids of further tile blocks, or a number that the compute agents have drawn."""
    return is_drawn(pipe) or any(use.operation.name == "nv_tileas.cancel_next_program_id" for use in pipe.uses)


def is_drawn(pipe: SSAValue) -> bool:
    """Whether it hands on a number that a thread of the compute agents has drawn for all (`tell-agents`)."""
    return isinstance(pipe.owner, Operation) and "told" in pipe.owner.properties


def pipe_at(op: Operation) -> SSAValue | None:
    """The pipe that an op works on, or whose stage it fills."""
    for v in op.operands:
        if isinstance(v.type, PipeType):
            return v
    if op.name == "nv_tileas.store_shared":
        slot = op.operands[1].owner
        index = slot.operands[1].owner if isinstance(slot, Operation) and slot.name == "nv_tileas.extract_slice" else None
        if isinstance(index, Operation) and index.name == "nv_tileas.producer_acquire":
            return index.operands[0]
    return None


def produces(op: Operation) -> bool:
    """Whether an op fills stages that others may read."""
    pipe = pipe_at(op)
    return op.name not in CONSUMES and op.name not in PLACES and pipe is not None and kind_of(pipe) in KINDS and not is_drawn(pipe)


def is_pure(op: Any) -> bool:
    """Ops that an agent has where it needs their results."""
    return bool(getattr(op, "PURE", False)) or op.parent_op().name in ("nv_tileas.reduce", "nv_tileas.scan")


def is_weak(op: Operation) -> bool:
    properties: dict[str, Any] = op.properties
    return properties["mem_semantic"].data == "weak"


def is_placed(op: Operation, part: Slice) -> bool:
    """Whether an op's values are spread over the warps of the compute agents: who repeats it must be as many. What each warp has
    for itself, lies in shared memory, or is copied there by one thread or by whichever, isn't."""
    return any(_is_spread(v) for v in (*op.operands, *op.results) if v in part.values) or stores_by_threads(op)


def _is_spread(v: SSAValue) -> bool:
    """Whether a tile's elements are in different warps."""
    return isinstance(v.type, TensorType) and any(layout_of(v).warp)


def stores_by_threads(op: Operation) -> bool:
    """Whether threads bring what goes to a stage by way of their registers."""
    pipe = pipe_at(op)
    return pipe is not None and op.name not in PLACES and kind_of(pipe) not in ("tma", "cp_async") and not is_drawn(pipe)


class Written:
    """Which tokens stand for a write of the kernel, or for one of another thread that a load has waited for; with `reads`, for any
    access."""

    def __init__(self, func: Operation, reads: bool = False) -> None:
        work: list[SSAValue] = []
        self.told: list[Operation] = []
        """The ops that draw a number which a pipe hands on to all agents (`tell-agents`)."""
        self.sources: dict[SSAValue, bool] = {}
        for op in func.walk():
            if "told" in op.properties and op.name not in PLACES:
                self.told.append(op)
            effects = BY_TOKENS.get(op.name)
            writes = effects is None or effects.token_write or reads or (op.name in LOADS and not is_weak(op))
            if writes and op.name not in CONTROL and not produces(op) and not getattr(op, "PURE", False):
                work += [r for r in op.results if isinstance(r.type, MemTokenType)]
        self._tokens = with_following(work)
        self._met = [(v, op) for op in self.told for v in _joined(op)]
        self._since_told = self._tokens
        if self.told:
            self._since_told = with_following((v for v in work if v.owner not in self.told), self.told, self._met)

    def waits_for_one(self, op: Operation) -> bool:
        """Whether an op comes behind a write, by its token."""
        return any(v in self._tokens for v in op.operands)

    def waits_for_untold(self, op: Operation) -> bool:
        """Whether it comes behind a write otherwise than by way of what agents are told (`tell-agents`)."""
        return any(v in self._since_told and not _is_met(v, op, self._met) for v in op.operands)


def with_following(tokens: Iterable[SSAValue], past: Collection[Operation] = (), met: Met = ()) -> set[SSAValue]:
    """Tokens and all that come behind them, but not by way of the ops `past`, or behind one of them that has waited for a token
    (`met`)."""
    found: set[SSAValue] = set()
    work = list(tokens)
    while work:
        v = work.pop()
        if v not in found:
            found.add(v)
            for use in v.uses:
                if use.operation not in past and not _is_met(v, use.operation, met):
                    work += _tokens_behind(use.operation, use.index)
    return found


def _joined(op: Operation) -> set[SSAValue]:
    """The tokens that an op waits for, and those that they join."""
    found: set[SSAValue] = set()
    pending = list(op.operands)
    while pending:
        v = pending.pop()
        if isinstance(v.type, MemTokenType) and v not in found:
            found.add(v)
            if isinstance(v.owner, Operation) and v.owner.name == "nv_tileas.join_mem_token":
                pending += v.owner.operands
    return found


def _is_met(v: SSAValue, op: Operation, met: Met) -> bool:
    """Whether an op stands behind another that has waited for a token."""
    if not met:
        return False
    from tileiras.analysis.equal_values import are_equal  # few kernels tell anything

    return any(_is_behind(op, earlier) and are_equal(v, one) for one, earlier in met)


def _is_behind(op: Operation, earlier: Operation) -> bool:
    """Whether an op stands behind an earlier one in its block, or in what does."""
    at: Operation | None = op
    while at is not None and at.parent is not earlier.parent:
        at = at.parent_op()
    return at is not None and earlier.is_before_in_block(at)


def _tokens_behind(op: Any, index: int) -> list[SSAValue]:
    """The tokens that come behind operand `index` of an op."""
    if op.name in CONTROL:
        if op.name == "scf.if":
            return []
        carried = index - (len(op.operands) - len(op.carried_inits()))
        found = [op.carried_args()[carried]]
        return [*found, op.results[carried]] if op.name == "scf.for" else found
    if op.name == YIELD or op.name in EXITS:
        return [ends[index] for ends in receivers(op)]
    return [r for r in op.results if isinstance(r.type, MemTokenType)]


def stored_by_loads(loads: list[Operation]) -> set[Operation]:
    """The ops that make what the load agent itself stores to a ring, or where its threads copy from."""
    pending = [op.operands[0] for op in loads if op.name == "nv_tileas.store_shared"]
    pending += [v for op in loads if op.name in COPIES_BY_THREADS for v in op.operands if isinstance(v.type, TensorType)]
    found: set[Operation] = set()
    while pending:
        owner = pending.pop().owner
        if isinstance(owner, Operation) and owner not in found and owner.name not in CONTROL:
            found.add(owner)
            pending += owner.operands
    return found


def check_load(op: Operation, loader: Slice, loads: list[Operation], written: Written, stored: set[Operation]) -> None:
    """Whether the load agent may have an op of its slice. Raises Refusal."""
    if op in loads:
        if produces(op) and written.waits_for_untold(op):
            raise Refusal(op, "the copy reads what the kernel has written")
        return
    if op.name in LOADS:
        if not is_weak(op):
            raise Refusal(op, "where a copy goes depends on a load that is ordered with other threads")
        if written.waits_for_one(op):
            raise Refusal(op, "where a copy goes depends on a load of what the kernel has written")
    elif op.name in COSTLY:
        raise Refusal(op, f"where a copy goes depends on '{op.name.removeprefix('nv_tileas.')}', which the compute agents do")
    elif not (getattr(op, "PURE", False) or op.name in CONTROL or op.name in EXITS or op.name == YIELD or op.name in PLACES
              or op.name in ("nv_tileas.store_shared", "nv_tileas.load_shared")):
        raise Refusal(op, f"where a copy goes depends on '{op.name.removeprefix('nv_tileas.')}'")
    for v in op.results if op not in stored else ():
        if v in loader.values and isinstance(v.type, TensorType) and op.name not in LOADS and \
                (count := prod(v.type.get_shape())) > MOST_ELEMENTS:
            raise Refusal(op, f"where a copy goes depends on a tile of {count} elements")
