"""Streams written by hand: instructions with control fields, payloads, and how long the engine takes over them."""
from __future__ import annotations

from collections.abc import Iterable

from tileiras.machine.machines import machine_of
from tileiras.sim.timing.memory import Sharing
from tileiras.sim.timing.replay import Replay, Replayed, instruction_from
from tileiras.sim.timing.stream import CtaStreams, Payload, Step, WarpStream

MOST_STEPS = 2_000_000


def step(opcode: str, payload: Payload = None, *, stall: int = 1, write: int | None = None, read: int | None = None, wait: int = 0,
         operands: tuple[str, ...] = ()) -> Step:
    return Step(instruction_from(opcode, operands, stall, write, read, wait), payload)


def cta(warps: Iterable[list[Step]], *, shared: int = 0, registers: int = 32) -> CtaStreams:
    streams = tuple(WarpStream(i, steps) for i, steps in enumerate(warps))
    return CtaStreams((0, 0, 0), 1, streams, 32 * len(streams), registers, shared)


def replay(machine: str, ctas: list[CtaStreams], *, resident: int = 1, sharing: Sharing | None = None,
           timeline: bool = False) -> Replayed:
    engine = Replay(machine_of(machine), sharing or Sharing(1), resident, timeline=timeline, most_steps=MOST_STEPS)
    return engine.run(ctas)


def cycles(machine: str, steps: list[Step], warps: int = 4, **options) -> float:
    """One CTA whose warps all have the same stream."""
    return replay(machine, [cta([steps] * warps)], **options).cycles


def rate(machine: str, body: list[Step], warps: int = 4, few: int = 20, many: int = 120, **options) -> float:
    """Cycles that one more repetition of `body` takes."""
    return (cycles(machine, body * many, warps, **options) - cycles(machine, body * few, warps, **options)) / (many - few)
