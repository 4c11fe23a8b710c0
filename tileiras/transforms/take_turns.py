"""`take-turns`: the two chains of a block's rows compute exponentials by turns, not both at once.

                                                       for {                           # the first chain
                                                         producer_acquire %turn
    for {                    # each of two chains        %p = exp2 %x
      %p = exp2 %x                                       producer_commit %turn
    }                                            ->    }
                                                       for {                           # the second one
                                                         consumer_wait %turn
                                                         %p = exp2 %x
                                                         consumer_release %turn
                                                       }

Each iteration of attention's chains has a stretch in which a warp keeps the unit for exponentials busy alone, and one in which it
doesn't need it: it waits for scores, looks for maxima, converts and stores. Left alone, the warps of both chains come to the first
stretch at the same time and get half of the unit each, then leave it idle together; or those that the scheduler prefers run ahead,
as far as the ring of keys lets them, and the others are late and alone at the end. A pipe of one stage, that the first chain fills
and the second one empties, hands the unit over: then one chain's stretch lies beside the other's rest. B200, by the timing model,
256 rows by 128 keys: of 64 features 203 us -> 183, causal 127 -> 118; of 128 features 245 -> 235, causal 179 -> 167. With 64 keys
it's as often the slower: 315 -> 317, 189 -> 180, causal 221 -> 224, 150 -> 153.
"""
from __future__ import annotations

from math import prod
from typing import Any

from xdsl.dialects.builtin import IntAttr, StringAttr, i32
from xdsl.ir import Operation

from tileiras.analysis.agents import WARP_THREADS, agents_of, switch_of
from tileiras.analysis.axis_info import shape_of
from tileiras.analysis.chains import CHAINS, chains_of
from tileiras.dialects import nv_tileas
from tileiras.dialects.nv_tileas import PipeType
from tileiras.remarks import PASSED, TENSOR_CORE, remark
from tileiras.transforms.structure import first_pipe

KIND = "mbarrier"
EXP2 = "math.exp2"
LEAST_A_THREAD = 128
"""Exponentials of a thread that are worth handing the unit over."""


def run(module: Operation, context: Any) -> None:
    """Let chains take turns, in place."""
    if not context.turns:
        return
    for func in [op for op in module.regions[0].block.ops if op.name == "nv_tileas.func" and chains_of(op) == CHAINS]:
        switch = switch_of(func)
        if switch is None:
            continue
        agents = agents_of(switch)[:CHAINS]
        stretches = [[op for op in region.walk() if _is_long(op, agent.warps)]
                     for region, agent in zip(switch.regions, agents)]
        first, second = stretches
        if not first or len(first) != len(second):
            continue
        context.takes_turns = True
        top = func.regions[0].block
        turn = nv_tileas.CreatePipeline.make([], [PipeType(StringAttr(KIND), IntAttr(1))], {
            "producers": IntAttr(agents[0].warps), "consumers": IntAttr(agents[1].warps)})
        turn.location = func.location
        top.insert_op_before(turn, first_pipe(top, lambda op: op.name == EXP2))
        pipe = turn.results[0]
        for op in first:
            _between(op, nv_tileas.ProducerAcquire.make([pipe], [i32]), nv_tileas.ProducerCommit.make([pipe]))
        for op in second:
            _between(op, nv_tileas.ConsumerWait.make([pipe], [i32]), nv_tileas.ConsumerRelease.make([pipe]))
        if context.remarks is not None:
            context.remarks += [remark(func, op, PASSED, TENSOR_CORE, "ExponentialsByTurns",
                                       "Two agents compute exponentials by turns") for op in first]


def _is_long(op: Operation, warps: int) -> bool:
    """Whether an op keeps the unit busy in each iteration of a loop."""
    around = op.parent_op()
    return op.name == EXP2 and around is not None and around.name == "scf.for" and \
        prod(shape_of(op.results[0].type)) >= LEAST_A_THREAD * WARP_THREADS * warps


def _between(op: Operation, before: Operation, behind: Operation) -> None:
    block = op.parent
    assert block is not None
    before.location = behind.location = op.location
    block.insert_op_before(before, op)
    block.insert_op_after(behind, op)
