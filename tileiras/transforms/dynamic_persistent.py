"""`dynamic-persistent`: a block that is done goes on with a tile block that hasn't started, until there is none.

                                            %ring = alloc_tensor : ring<4 x i32, 2> ; %pipe = create_pipeline : pipe<"tma", 2>
    %x, %y, %z = get_program_id             %x0, %y0, %z0 = get_program_id
    ...                                     loop (%x = %x0, %y = %y0, %z = %z0) {
    return                                    %i = producer_acquire %pipe ; %to = extract_slice %ring[%i]
                                              cancel_next_program_id %to, %pipe[%i] ; producer_commit %pipe
                                      ->      ...
                                              %j = consumer_wait %pipe ; %from = extract_slice %ring[%j]
                                              %u, %v, %w, %valid = is_valid_program_id %from
                                              consumer_release %pipe
                                              if %valid { continue %u, %v, %w }
                                              break %x, %y, %z
                                            }
                                            return

The next tile block is asked for before this one's work begins, so that its id is there at the end. Answers go through a ring of
two stages: agents that `materialize-schedule` makes are told alike, and the one that loads goes on to the next tile block while
the others still compute. The grid and the ids are the launch's own, so a program sees no difference: blocks are done in the order
in which they would have started.

Only on request (`dynamic-persistent=true`), and where blocks can be cancelled (sm_100 and newer). A kernel that never asks for its
id, or that returns from the middle, stays as it is.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntAttr, IntegerType, StringAttr, i32
from xdsl.ir import Block, Operation, Region, SSAValue

from tileiras.dialects import arith, nv_tileas
from tileiras.dialects.nv_tileas import BufferType, PipeType, RingType, SharedLayoutAttr
from tileiras.layout.shared import SharedLayout
from tileiras.remarks import MISSED, PASSED, RESOURCES, remark

STAGES = 2
"""Answers under way: the next tile block's, and for who is ahead the one's behind it."""
ANSWER_WORDS = 4
ANSWER_BYTES = 4 * ANSWER_WORDS
PROGRAM_ID, RETURN = "nv_tileas.get_program_id", "nv_tileas.return"
VALID = "nv_tileas.is_valid_program_id"


def run(module: Operation, context: Any) -> None:
    """Wrap the kernels that can be, in place."""
    asked = context.schedule is not None and context.schedule.persistent
    if not asked:
        return
    for func in [op for op in module.regions[0].block.ops if op.name == "nv_tileas.func"]:
        reason = _why_not(func, context.target)
        if not reason:
            _wrap(func)
        if context.remarks is not None:
            context.remarks.append(
                remark(func, func, MISSED, RESOURCES, "NotPersistent", "A block does one tile block", reasons=[reason])
                if reason else
                remark(func, func, PASSED, RESOURCES, "Persistent", "A block goes on with tile blocks that haven't started"))


def _why_not(func: Operation, target: Any) -> str:
    """Why a kernel stays as it is, or ""."""
    if not target.has_launch_control:
        return f"{target.name} can't take back blocks that haven't started"
    ops = list(func.walk())
    if any(op.name == VALID for op in ops):
        return "Kernel is already dynamic persistent"
    if "cluster" in func.properties:
        return "the CTAs of a cluster share its tile block, and only one would be told of the next"
    if not any(op.name == PROGRAM_ID for op in ops):
        return "it doesn't ask for its tile block's id"
    if any(op.name == RETURN and op.parent_op() is not func for op in ops):
        return "it returns from the middle"
    return ""


def _wrap(func: Operation) -> None:
    old = func.regions[0].block
    last = old.last_op
    assert last is not None
    body = Block(arg_types=[i32, i32, i32])
    for op in [op for op in old.ops if op is not last]:
        op.detach()
        body.add_op(op)
    for op in [op for op in func.walk() if op.name == PROGRAM_ID] + [op for op in body.walk() if op.name == PROGRAM_ID]:
        for result, arg in zip(op.results, body.args):
            result.replace_all_uses_with(arg)
        op.detach()
        op.erase()
    numbers: Any = func.properties["num_warps"]
    place = func.location

    def make(kind: Any, operands: list[SSAValue], results: list[Any], **properties: Any) -> Any:
        return kind.create(operands=operands, result_types=results, properties=properties, location=place)
    i1 = IntegerType(1)
    answer = BufferType(i32, SharedLayoutAttr(SharedLayout.row_major((ANSWER_WORDS,))))
    ring = make(nv_tileas.AllocTensor, [], [RingType(answer, IntAttr(STAGES))])
    pipe = make(nv_tileas.CreatePipeline, [], [PipeType(StringAttr("tma"), IntAttr(STAGES))], bytes=IntAttr(ANSWER_BYTES),
                consumers=IntAttr(numbers.data))
    first = make(nv_tileas.GetProgramId, [], [i32, i32, i32])  # type: ignore[attr-defined]
    # the question
    number = make(nv_tileas.ProducerAcquire, [pipe.results[0]], [i32])
    slot = make(nv_tileas.ExtractSlice, [ring.results[0], number.results[0]], [answer])
    ask = make(nv_tileas.CancelNextProgramId, [slot.results[0], pipe.results[0], number.results[0]], [])
    commit = make(nv_tileas.ProducerCommit, [pipe.results[0]], [])
    before = body.first_op
    for op in (number, slot, ask, commit):
        if before is None:
            body.add_op(op)
        else:
            body.insert_op_before(op, before)
    # the answer
    told = make(nv_tileas.ConsumerWait, [pipe.results[0]], [i32])
    held = make(nv_tileas.ExtractSlice, [ring.results[0], told.results[0]], [answer])
    said = make(nv_tileas.IsValidProgramId, [held.results[0]], [i32, i32, i32, i1])
    release = make(nv_tileas.ConsumerRelease, [pipe.results[0]], [])
    go_on = Block()
    go_on.add_op(make(nv_tileas.Continue, list(said.results[:3]), []))  # type: ignore[attr-defined]
    branch = arith.If.create(operands=[said.results[3]], regions=[Region(go_on), Region()], location=place)
    end = make(nv_tileas.Break, list(body.args), [])  # type: ignore[attr-defined]
    for op in (told, held, said, release, branch, end):
        body.add_op(op)
    loop = nv_tileas.Loop.create(operands=list(first.results), result_types=[i32, i32, i32],  # type: ignore[attr-defined]
                                 regions=[Region(body)], location=place)
    for op in (ring, pipe, first, loop):
        old.insert_op_before(op, last)
