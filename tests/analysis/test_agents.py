"""Registers that agents give each other come out of those that a block is launched with."""
from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ArrayAttr, IntAttr
from xdsl.ir import Block, Operation, Region

from tileiras.analysis.agents import agents_of, launch_registers, placed
from tileiras.dialects import nv_tileas


def function(warps: list[int], registers: list[int]) -> Operation:
    switch = nv_tileas.AgentSwitch.create(regions=[Region(Block()) for _ in warps], properties={
        "warps": ArrayAttr([IntAttr(n) for n in warps]), "registers": ArrayAttr([IntAttr(n) for n in registers])})
    return nv_tileas.Func.create(regions=[Region(Block([switch]))])


@pytest.mark.parametrize("warps, registers", [([4, 1], [232, 24]), ([8, 4], [208, 88]), ([16, 4], [96, 88]), ([8, 1], [152, 40])])
def test_a_launch_has_as_many_registers_as_its_agents_ask_for(warps: list[int], registers: list[int]) -> None:
    func = function(warps, registers)
    switch = func.regions[0].block.first_op
    assert switch is not None
    agents = agents_of(switch)
    asked = sum(a.registers * a.span for a in agents)
    launched = launch_registers(func)
    assert launched is not None and launched % 8 == 0
    assert asked <= launched * sum(a.span for a in agents) < asked + 8 * sum(a.span for a in agents)


@pytest.mark.parametrize("warps, registers, places", [
    ([4, 1, 1], [0, 0, 0], [(0, 4), (4, 1), (5, 1)]),
    ([4, 1], [232, 24], [(0, 4), (4, 4)]),
    ([4, 1, 1], [232, 24, 24], [(0, 4), (4, 1), (5, 3)]),           # one warpgroup gives registers back, two of its warps work
    ([4, 1, 1], [232, 24, 32], [(0, 4), (4, 4), (8, 4)]),
    ([4, 2, 2, 1], [232, 24, 24, 24], [(0, 4), (4, 2), (6, 2), (8, 4)]),
    ([4, 1, 4], [208, 24, 24], [(0, 4), (4, 4), (8, 4)]),
    ([1, 4], [0, 0], [(0, 4), (4, 4)])])                            # three warps of the first warpgroup have nothing to do
def test_small_agents_share_a_warpgroup(warps: list[int], registers: list[int], places: list[tuple[int, int]]) -> None:
    assert [(a.first_warp, a.span) for a in placed(warps, registers)] == places
