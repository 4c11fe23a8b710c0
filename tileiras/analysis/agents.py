"""The agents of a function: which warps of the block each `agent_switch` gives to which region.

    agent_switch {warps = [4, 1], registers = [232, 24]}
->  warps 0-3: the first region; warps 4-7: the second, of which warp 4 works and the others only give registers back

Agents follow one another. Registers change hands by whole warpgroups of four warps (setmaxnreg), and so do matrix products
of four warps: an agent of four or more warps starts at a multiple of four, and where registers change hands every agent does,
but for small ones that get as many as the one before, whose warpgroup has warps left:

    agent_switch {warps = [4, 1, 1], registers = [232, 24, 24]}
->  warps 0-3: the first region; warps 4-7: warp 4 the second, warp 5 the third
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation

from tileiras.dialects.element import REGISTER_BYTES, tile_bytes

SWITCH = "nv_tileas.agent_switch"
WARPGROUP = 4
WARP_THREADS = 32
REGISTER_STEP = 8
FEWEST_REGISTERS, MOST_REGISTERS = 24, 256
"""What setmaxnreg takes: multiples of REGISTER_STEP between these."""


def words_of(tile: TensorType, warps: int) -> int:
    """Registers of each thread of some warps that hold a tile together."""
    return -(-tile_bytes(tile) // (REGISTER_BYTES * WARP_THREADS * warps))


@dataclass(frozen=True)
class Agent:
    """`warps` warps from `first_warp` on, of `span` up to the next agent's; `registers` a thread (0: as launched); the number of
    the named barrier at which they meet."""

    warps: int
    first_warp: int
    span: int
    registers: int
    barrier: int


def agents_of(switch: Operation) -> tuple[Agent, ...]:
    """The agents of an `agent_switch`, a region each."""
    return placed(*asked_of(switch))


def asked_of(switch: Operation) -> tuple[list[int], list[int]]:
    """Warps of each agent of an `agent_switch`, and registers a thread (0: none change hands)."""
    properties: dict[str, Any] = switch.properties
    warps = [w.data for w in properties["warps"].data]
    given = properties.get("registers")
    return warps, [r.data for r in given.data] if given is not None else [0] * len(warps)


def placed(warps: list[int], registers: list[int]) -> tuple[Agent, ...]:
    """Agents of so many warps, with so many registers a thread (0: none change hands)."""
    out: list[Agent] = []
    at = 0
    for number, (count, each) in enumerate(zip(warps, registers)):
        before = out[-1] if out else None
        if each and before is not None and before.registers == each and count <= before.span - before.warps:
            first, span = before.first_warp + before.warps, before.span - before.warps
        else:
            unit = WARPGROUP if each or count >= WARPGROUP else 1
            first, span = -(-at // unit) * unit, -(-count // unit) * unit
        if before is not None:
            out[-1] = replace(before, span=first - before.first_warp)
        out.append(Agent(count, first, span, each, number + 1))
        at = first + span
    return tuple(out)


def agent_of(op: Operation) -> tuple[Operation, int] | None:
    """The switch that an op stands in, and the number of its agent."""
    region = op.parent_region()
    while region is not None and region.parent is not None:
        outer = region.parent
        if outer.name == SWITCH:
            return outer, next(n for n, r in enumerate(outer.regions) if r is region)
        region = outer.parent_region()
    return None


def warps_of(op: Operation) -> int:
    """How many warps run an op: its agent's, or the function's."""
    found = agent_of(op)
    if found is not None:
        return agents_of(found[0])[found[1]].warps
    outer: Any = op
    while outer.name != "nv_tileas.func":
        outer = outer.parent_op()
    return outer.properties["num_warps"].data


def registers_given(op: Operation) -> int:
    """Of a thread, by the agent that runs an op; 0 where none change hands."""
    found = agent_of(op)
    return agents_of(found[0])[found[1]].registers if found is not None else 0


def switch_of(func: Operation) -> Operation | None:
    """The function's `agent_switch`, which stands in its body's block."""
    return next((op for op in func.regions[0].block.ops if op.name == SWITCH), None)


def block_warps(func: Operation) -> int:
    """All warps of the function's block."""
    switch = switch_of(func)
    if switch is None:
        properties: dict[str, Any] = func.properties
        return properties["num_warps"].data
    last = agents_of(switch)[-1]
    return last.first_warp + last.span


def launch_registers(func: Operation) -> int | None:
    """Registers a thread to launch with, so that the agents' shares come out of them; None where none change hands."""
    switch = switch_of(func)
    if switch is None or "registers" not in switch.properties:
        return None
    agents = agents_of(switch)
    whole = sum(a.span for a in agents)
    return -(-sum(a.registers * a.span for a in agents) // (whole * REGISTER_STEP)) * REGISTER_STEP
