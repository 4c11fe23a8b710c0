"""agent_switch: the warps of the block part, each agent's to its own region.

    nv_tileas.agent_switch {warps = [4, 1], registers = [232, 24]} { ... } { ... }
->  warp = shfl(tid / 32, lane 0)               the same in all lanes, and known to be
    warp < 4:   setmaxnreg.inc 232; the first region, by a team of warps 0-3 that meets at named barrier 1
    otherwise:  setmaxnreg.dec 24;  warp 4: the second region, by a team of one warp

Agents that share a warpgroup change its registers together, before they part. A region is lowered as a function's body is, its
return included: layouts count the team's warps, and what is done by one thread, by the team's first. What stands above the switch
was done by all warps and is captured.

Where shared memory begins, a warp that loads, or begins products, by itself has in a register: it is as slow as a stage's few
instructions one behind the other (sums of 4096 rows' columns, tiles of 32x32, f16, B200: 6.7 us by the symbol in its loop, 5.6).
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

from xdsl.ir import Operation, Region, SSAValue

from tileiras.analysis.agents import WARP_THREADS, WARPGROUP, Agent, agents_of, launch_registers
from tileiras.analysis.shared_memory import MBARRIER_BYTES
from tileiras.conversion.tileas_to_llvm.lowering import Lowering, lowers
from tileiras.conversion.tileas_to_llvm.registers import FULL_MASK
from tileiras.conversion.tileas_to_llvm.shared.pipes import pipe_of
from tileiras.conversion.tileas_to_llvm.team import Team
from tileiras.dialects.nv_tileas import AllocTensor, CreatePipeline, PipeType, TmemType

WARP_CLAMP = 31


@lowers("nv_tileas.agent_switch")
def agent_switch(low: Lowering, op: Operation) -> None:
    b = low.b
    agents = agents_of(op)
    join = b.new_block()
    first = b.lshr(low.team.thread(b), WARP_THREADS.bit_length() - 1)
    warp = b.nvvm("shfl.sync.idx.i32", [b.i32(FULL_MASK), first, b.i32(0), b.i32(WARP_CLAMP)])[0]
    func = op.parent_op()
    launched = launch_registers(func) if func is not None else None
    block = agents[-1].first_warp + agents[-1].span

    def acts(number: int) -> None:
        agent = agents[number]
        if agent.span > agent.warps:
            works = b.new_block()
            b.cond_br(b.icmp("ult", warp, b.i32(agent.first_warp + agent.warps)), works, join)
            b.at(works)
        with low.acting_as(Team(agent.warps, agent.first_warp, agent.barrier, block)):
            region = op.regions[number]
            if low.shared_base is None or agent.warps > 1:
                low.lower_block(region.block)
                return
            with low.standing_for(*_reached_from(low, b.known_as_register(low.shared_base), region)):
                low.lower_block(region.block)

    def act(group: list[int]) -> None:
        _set_registers(low, agents[group[0]], launched)
        _part(low, warp, {n: agents[n].first_warp for n in group}, acts)
    groups: dict[int, list[int]] = {}
    for number, agent in enumerate(agents):
        groups.setdefault(agent.first_warp // WARPGROUP if launched is not None else number, []).append(number)
    _part(low, warp, {n: agents[group[0]].first_warp for n, group in groups.items()}, lambda n: act(groups[n]))
    b.at(join)


def _reached_from(low: Lowering, base: SSAValue, region: Region) -> tuple[dict[SSAValue, SSAValue], dict[SSAValue, Any]]:
    """The buffers and rings, and the pipes, that a region uses of those outside, each so far from `base`, where shared memory
    begins."""
    outside = dict.fromkeys(v for op in region.walk() for v in op.operands if isinstance(v.owner, (AllocTensor, CreatePipeline)) and
                            "offset" in v.owner.properties and not isinstance(v.type, TmemType) and not region.is_ancestor(v.owner))
    places: dict[SSAValue, SSAValue] = {}
    pipes: dict[SSAValue, Any] = {}
    for v in outside:
        offset: Any = v.owner.properties["offset"]      # type: ignore[union-attr]
        at = low.b.gep(base, offset.data)
        if isinstance(v.type, PipeType):
            if (pipe := pipe_of(low, v)).full is not None:
                pipes[v] = replace(pipe, full=at, empty=low.b.gep(at, pipe.stages * MBARRIER_BYTES))
        else:
            places[v] = at
    return places, pipes


def _part(low: Lowering, warp: SSAValue, firsts: dict[int, int], act: Callable[[int], None]) -> None:
    """Warps go their ways. `firsts`: the first warp of each way, in order; `act`: what is done on it."""
    b, ways = low.b, list(firsts)
    for way, following in pairwise(ways):
        mine, others = b.new_block(), b.new_block()
        b.cond_br(b.icmp("ult", warp, b.i32(firsts[following])), mine, others)
        b.at(mine)
        act(way)
        b.at(others)
    act(ways[-1])


def _set_registers(low: Lowering, agent: Agent, launched: int | None) -> None:
    """The agent's warps take or give back registers."""
    if launched is None or agent.registers == launched or not low.target.has_setmaxnreg:
        return
    change = "inc" if agent.registers > launched else "dec"
    low.b.nvvm(f"setmaxnreg.{change}.sync.aligned.u32", [low.b.i32(agent.registers)])
