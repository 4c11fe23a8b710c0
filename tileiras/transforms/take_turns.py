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
from xdsl.ir import Operation, Region, SSAValue

from tileiras.analysis.agent_parts import kind_of
from tileiras.analysis.agents import WARP_THREADS, agents_of, switch_of
from tileiras.analysis.axis_info import shape_of
from tileiras.analysis.chains import CHAINS, chains_of
from tileiras.dialects import arith, nv_tileas
from tileiras.dialects.nv_tileas import PipeType
from tileiras.remarks import PASSED, TENSOR_CORE, remark
from tileiras.transforms.commit_dots import UMMA
from tileiras.transforms.structure import first_pipe

KIND, WAIT = "mbarrier", "nv_tileas.consumer_wait"
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
        shared = set.intersection(*map(_waited_for, switch.regions[:CHAINS])) or _scores(switch.regions[:CHAINS])
        (each, first), (others, second) = (_stretches(region, shared, agent.warps) for region, agent in zip(switch.regions, agents))
        if not each or each != others:
            continue
        context.takes_turns = True
        top = func.regions[0].block
        turn = nv_tileas.CreatePipeline.make([], [PipeType(StringAttr(KIND), IntAttr(1))], {
            "producers": IntAttr(agents[0].warps), "consumers": IntAttr(agents[1].warps)})
        turn.location = func.location
        top.insert_op_before(turn, first_pipe(top, lambda op: isinstance(op, arith.Exp2)))
        pipe = turn.results[0]
        for op in first:
            _between(op, nv_tileas.ProducerAcquire.make([pipe], [i32]), nv_tileas.ProducerCommit.make([pipe]))
        for op in second:
            _between(op, nv_tileas.ConsumerWait.make([pipe], [i32]), nv_tileas.ConsumerRelease.make([pipe]))
        if context.remarks is not None:
            context.remarks += [remark(func, op, PASSED, TENSOR_CORE, "ExponentialsByTurns",
                                       "Two agents compute exponentials by turns") for op in first]


def _waited_for(region: Region) -> set[SSAValue]:
    return {op.operands[0] for op in region.walk() if op.name == WAIT}


def _scores(regions: Any) -> set[SSAValue]:
    """What products of agents of their own tell chains, one for each tile of what both read (`separate-products`)."""
    return {pipe for region in regions for pipe in _waited_for(region) if kind_of(pipe) == UMMA}


def _stretches(region: Region, shared: set[SSAValue], warps: int) -> tuple[int, list[Operation]]:
    """(how many ops keep the unit busy in an iteration of every loop that waits for what both chains read, these ops): both chains
    go through such loops equally often in all, but not through each (they may have different tiles to mask). 0: it differs, or
    there are such ops elsewhere."""
    found: list[Operation] = [op for op in region.walk() if isinstance(op, arith.Exp2) and
             prod(shape_of(op.results[0].type)) >= LEAST_A_THREAD * WARP_THREADS * warps]
    loops = {op.parent_op() for op in region.walk() if op.name == WAIT and op.operands[0] in shared}
    loops = {loop for loop in loops if loop is not None and loop.name == "scf.for"}
    each = {sum(op.parent_op() is loop for op in found) for loop in loops}
    return (each.pop(), found) if len(each) == 1 and all(op.parent_op() in loops for op in found) else (0, [])


def _between(op: Operation, before: Operation, behind: Operation) -> None:
    block = op.parent
    assert block is not None
    before.location = behind.location = op.location
    block.insert_op_before(before, op)
    block.insert_op_after(behind, op)
