"""Registers that agents give each other come out of those that a block is launched with."""
from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ArrayAttr, IntAttr
from xdsl.ir import Block, Operation, Region

from tileiras.analysis.agents import agents_of, launch_registers
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
