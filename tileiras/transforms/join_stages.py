"""`join-stages`: a compute agent that streams through rings takes several small stages at once.

    scf.for %i = %a to %b step %s (%c) {          scf.for %i = %a to %a + %m step 2 * %s (%c) {
      %n = consumer_wait %pipe                      %n = consumer_wait %pipe ; %x0 = load_shared ring[%n]
      %x = load_shared ring[%n]          ->         %m = consumer_wait %pipe ; %x1 = load_shared ring[%m]
      consumer_release %pipe                        consumer_release %pipe ; consumer_release %pipe
      %c1 = compute %x, %c                          %c1 = compute %x0, %c ; %c2 = compute %x1, %c1
      yield %c1                                     yield %c2
    }                                             }
                                                  scf.for ... { the iteration left }

To wait for a stage, to see that its reads are done before the copy engine may write there again, and to say so takes a warp some
250 cycles, one after the other, however few bytes there are. Where a launch has a block for each SM or more, memory isn't faster;
of fewer blocks each is as slow as that. (Columns of 4096x4096 summed by 32 blocks, tiles of 16x128, H100, predicted: f32 36.5 us by
one stage, 27.0 by two; f16 36.3, 18.4 by four.) What stays:

    loops that have anything but such reads and pure ops: products, stores, buffers of their own
    loops whose stages take an SM longer to load than this takes, or whose own work takes longer
    rings of less than four times as many stages, and tiles that would take many registers
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Operation, SSAValue

from tileiras.analysis.agents import agent_of, warps_of
from tileiras.analysis.ahead import runs_ahead
from tileiras.analysis.layout_rules import DOTS
from tileiras.dialects import arith
from tileiras.dialects.nv_tileas import RingType
from tileiras.schedule.constraints import FORCE_SERIAL
from tileiras.transforms.iterations import Iterations, gives_values

WAIT, RELEASE = "nv_tileas.consumer_wait", "nv_tileas.consumer_release"
SLICE, LOAD = "nv_tileas.extract_slice", "nv_tileas.load_shared"
READS = (WAIT, SLICE, LOAD)
MOST_AT_ONCE = 4
"""Stages of a ring, at most."""
RING = 4
"""How many times as many a ring must have: those behind are filled meanwhile."""
MOST_CYCLES = 512
"""In which an SM's share of L2 loads what is read at once, and of all these iterations' own work: more hides what a stage costs
besides."""
MOST_REGISTERS = 64
"""Of a thread for the tiles that are read at once."""


def run(module: Operation, context: Any) -> None:
    """Join the stages, in place."""
    if not context.uses("pipelines") or context.in_turn:
        return
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            for loop in [op for op in func.walk() if runs_ahead(op)]:
                times = _at_once(loop, context.target)
                if times > 1:
                    _Joined(loop, times).run()


def _at_once(loop: Any, target: Any) -> int:
    """How many stages a loop takes at once; 1 where it stays."""
    agent = agent_of(loop)
    ops = list(loop.regions[0].block.ops)[:-1]
    waits = [op for op in ops if op.name == WAIT]
    if agent is None or agent[1] or not waits or not all(map(_may_be_repeated, ops)):
        return 1
    from tileiras.schedule.depth import registers_of  # few kernels need the machine's tables
    from tileiras.schedule.resources import model_of

    pipes = [op.operands[0] for op in waits]
    if len(set(pipes)) < len(pipes) or set(pipes) != {op.operands[0] for op in ops if op.name == RELEASE}:
        return 1
    filled = [_stage_bytes(pipe) for pipe in pipes]
    if 0 in filled:
        return 1
    model = model_of(target, warps_of(loop))
    kinds: list[Any] = [pipe.type for pipe in pipes]
    stages = min(kind.stages.data for kind in kinds)
    held = sum(registers_of(op.results[0]) for op in ops if op.name == LOAD)
    work = sum(model.footprint(op).cycles for op in ops if op.name not in READS)
    loading = sum(filled) / model.ingress
    times = MOST_AT_ONCE
    while times > 1 and (RING * times > stages or times * held > MOST_REGISTERS or times * max(loading, work) > MOST_CYCLES):
        times //= 2
    return times


def _stage_bytes(pipe: SSAValue) -> int:
    """That fill a stage; 0 where its pipe doesn't say so."""
    nbytes: Any = pipe.owner.properties.get("bytes") if isinstance(pipe.owner, Operation) else None
    return 0 if nbytes is None else int(nbytes.data)


def _may_be_repeated(op: Operation) -> bool:
    """Whether ops of several iterations may stand behind one another, reads in front."""
    if FORCE_SERIAL in op.attributes or op.name in DOTS:
        return False
    if op.name in (WAIT, RELEASE):
        kind: Any = op.operands[0].type
        return kind.kind.data == "tma" and len(op.operands) == 1 and "by_dots" not in op.properties
    if op.name == SLICE:
        number = op.operands[1].owner
        return isinstance(op.operands[0].type, RingType) and isinstance(number, Operation) and number.name == WAIT
    if op.name == LOAD:
        return len(op.operands) == 1
    return gives_values(op)


class _Joined(Iterations):
    """One loop, of which so many iterations become one."""

    def __init__(self, loop: Any, times: int) -> None:
        super().__init__(loop)
        self.times = times

    def run(self) -> None:
        """Cut it."""
        self.cut(self.times, self._round)

    def _round(self, at: SSAValue, now: list[SSAValue]) -> Sequence[SSAValue]:
        """Every iteration's reads, then all stages given back, then each iteration's own work; what is carried out of it."""
        args, last = self.body.args, self.body.last_op
        reads = [op for op in self.body.ops if op.name in READS]
        releases = [op for op in self.body.ops if op.name == RELEASE]
        work = [op for op in self.body.ops if op is not last and op.name not in (*READS, RELEASE)]
        each: list[dict[SSAValue, SSAValue]] = []
        for n in range(self.times):
            at = self.make(arith.Addi, [at, self.loop.operands[2]], self.index_type) if n else at
            values = {args[0]: at}
            self._again(reads, values)
            each.append(values)
        for values in each:
            self._again(releases, values)
        for values in each:
            values.update(zip(args[1:], now))
            self._again(work, values)
            now = [values.get(v, v) for v in last.operands]     # type: ignore[union-attr]
        return now

    def _again(self, ops: list[Operation], values: dict[SSAValue, SSAValue]) -> None:
        for op in ops:
            self.insert(op.clone(values))
