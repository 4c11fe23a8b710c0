"""`list-schedule`: ops around products that follow from one another stand in the order in which their results are wanted.

    %a = dot %w, %s                            %b = dot %q, %k
    %x = subf %u, %a                           %y = exp %g
    %b = dot %q, %k                   ->       %a = dot %w, %s
    %y = exp %g                                %z = mulf %b, %y
    %z = mulf %b, %y                           %x = subf %u, %a
    %n = dot %x, %z, %s                        %n = dot %x, %z, %s

Products into tensor memory run while threads do something else, if there is something else in front of the first op that waits.
Where a step has several of them, some fed by others' results (delta rules, gradients of attention), the order of the program leaves
the tensor core idle while threads compute what is wanted later, and threads idle while it multiplies. A list scheduler
(schedule/in_order.py) finds an order; it is taken where its simulation is clearly shorter than that of the program's, and where
threads needn't hold more than they have registers for. Ops that compute values move, and those that touch memory keep their order,
but for loads of tiles, which stand in front of who reads them first.

Where shared memory holds what products multiply for one iteration only, the copy engine fetches the next one's tiles as soon as
nobody reads these any more: who reads them stands early. That matters to products by warps, too (delta rule of 64 rows and columns
and a state of 128 x 64, RTX 5090: 420 us in the program's order, 303 so).
"""
from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import ceil
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from tileiras.analysis.agents import warps_of, words_of
from tileiras.analysis.ahead import runs_ahead
from tileiras.analysis.dot_chains import SUMS
from tileiras.analysis.entry_hints import hint
from tileiras.analysis.layout_rules import MOVES, unmoved
from tileiras.analysis.tensor_dots import is_of_warps, umma_of
from tileiras.dialects.element import tile_bytes
from tileiras.dialects.nv_tileas import LOADS, TiledLoad
from tileiras.schedule.names import LEAST_STAGES
from tileiras.transforms.early_dots import BLOCKS, DOT, takes_columns_from_blocks
from tileiras.transforms.structure import is_movable

FEWEST = 3
"""Products in a step: of two, one behind the other, other passes have the order."""
MOST = 400
"""Ops in a block that is looked at."""
SHORTER = 0.95
"""Of the interval in the program's order."""
HANDED = 80
"""Cycles for a fence and a barrier in front of a product that reads what threads have made."""
FETCHED = 50
"""Until threads have a product's result from tensor memory, behind the wait for it."""
REDUCED = 100
"""More than the instructions of a reduction over warps: they meet twice."""
PURE_REGIONS = frozenset({"nv_tileas.reduce", "nv_tileas.scan"})
"""Ops with regions that compute values."""
FREE = frozenset({*MOVES, "nv_tileas.broadcast"})
"""Ops that only rename what others have computed."""
MOST_DISTANCE = 2
"""Iterations back that needs are followed."""
REGISTERS = 128
"""Of a thread that tiles may take at one place."""


def run(module: Operation, context: Any) -> None:
    """Put ops in order, in place."""
    if not (context.target.has_tma and context.uses("tma") and context.uses("agents") and context.uses("pipelines")):
        return
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            for loop in [op for op in func.walk() if runs_ahead(op)]:
                _body(func, loop.regions[0].block, context.target)


def _body(func: Operation, block: Block, target: Any) -> None:
    ops = [op for op in block.ops if op is not block.last_op]
    dots = {op for op in ops if op.name == DOT}
    if not FEWEST <= len(dots) or len(ops) > MOST or \
            any(op.name == DOT for outer in ops if outer not in dots for op in outer.walk()):
        return
    by_themselves = all(umma_of(op) is not None for op in dots)
    copied = _copied(ops)
    if not _are_alone(func, ops, copied, target):
        copied = []
    asked = hint(func, "occupancy") == BLOCKS
    if takes_columns_from_blocks(dots, target, asked) if by_themselves else not (copied and all(map(is_of_warps, dots))):
        return
    from tileiras.schedule.in_order import best_order, simulated
    from tileiras.schedule.resources import model_of
    warps = warps_of(ops[0])
    made = _Steps(block, ops, model_of(target, warps), copied)
    found = best_order(made.steps, made.copies)
    if found.interval > SHORTER * simulated(made.steps, range(len(made.steps)), made.copies).interval:
        return
    ordered = made.ops_in(found.order)
    if _held(ordered, warps) > max(REGISTERS, _held(ops, warps)):
        return
    end = block.last_op
    assert end is not None
    for op in ordered:
        op.detach()
        block.insert_op_before(op, end)


class _Steps:
    """What ops of a block take, as steps: those that cost nothing stand in front of who needs them."""

    def __init__(self, block: Block, ops: list[Operation], model: Any, copied: Sequence[Operation]) -> None:
        from tileiras.schedule.in_order import Copy, Need, Step
        self.ops, self.model, self.copied = ops, model, copied
        share = model.machine.dram_per_cycle / model.machine.sms
        self.copies = [Copy(ceil(tile_bytes(load.results[0].type) / share), model.latencies.loaded) for load in copied]
        self.number = {op: i for i, op in enumerate(ops)}
        last: Any = block.last_op
        self.carried = dict(zip(block.args[1:], last.operands))
        self.readers: dict[SSAValue, list[Operation]] = {}     # products of tiles that threads make for them
        for op in ops:
            for v in _made_for(op):
                self.readers.setdefault(v, []).append(op)
        self.needs: list[dict[tuple[int, int], bool]] = []      # (op, distance) -> whether it waits for that
        pinned: Operation | None = None
        for op in ops:
            self.needs.append(self.needed(op, pinned))
            pinned = pinned if self.moves(op) else op
        times = [self.times(op) for op in ops]
        self.costly = [i for i, found in enumerate(times) if any(found)]
        step_of = {i: n for n, i in enumerate(self.costly)}
        self.steps = [Step(times[i][0], tuple(Need(step_of[j], distance, waits) for (j, distance), waits in
                                              self.through(i, step_of).items()), *times[i][1:], self.reads(ops[i]))
                      for i in self.costly]

    def needed(self, op: Operation, pinned: Operation | None) -> dict[tuple[int, int], bool]:
        found: dict[tuple[int, int], bool] = {}

        def need(v: SSAValue, waits: bool) -> None:
            distance = 0
            while isinstance(v, BlockArgument) and v in self.carried and distance <= len(self.carried):
                v, distance = self.carried[v], distance + 1
            maker = self.number.get(v.owner) if isinstance(v.owner, Operation) else None
            if maker is not None:
                found[maker, distance] = found.get((maker, distance), False) or waits
        for inner in op.walk():
            for operand, v in enumerate(inner.operands):
                need(v, not (op.name == DOT and operand == SUMS and _goes_on(v)))
        if op.name == DOT:
            for use in op.operands[SUMS].uses:       # who else reads what it changes
                reader = self.number.get(use.operation)
                if reader is not None and reader < self.number[op]:
                    found.setdefault((reader, 0), False)
            for v in _made_for(op):                         # its place is written again
                for reader in self.readers[v]:
                    found.setdefault((self.number[reader], 1), True)
        if not self.moves(op) and pinned is not None:
            found.setdefault((self.number[pinned], 0), False)
        return found

    def through(self, i: int, step_of: dict[int, int]) -> dict[tuple[int, int], bool]:
        """The needs of an op that are steps, its own and those of free ones that it needs."""
        out: dict[tuple[int, int], bool] = {}
        pending = [(i, 0, True)]
        seen = {(i, 0, True)}
        while pending:
            at, so_far, waits_so_far = pending.pop()
            for (j, distance), waits in self.needs[at].items():
                one = (j, so_far + distance, waits and waits_so_far)
                if j in step_of:
                    out[one[:2]] = out.get(one[:2], False) or one[2]
                elif one not in seen and one[1] <= MOST_DISTANCE:
                    seen.add(one)
                    pending.append(one)
        return out

    def moves(self, op: Operation) -> bool:
        """Whether an op computes values, or loads tiles as tokens allow: others that touch memory, and what others may see, keep
        their order."""
        return is_movable(op) or op.name in PURE_REGIONS or op.name == DOT or op in self.copied

    def reads(self, op: Operation) -> tuple[int, ...]:
        """The copies that an op reads."""
        loads = {unmoved(v).owner for inner in op.walk() for v in inner.operands}
        return tuple(c for c, load in enumerate(self.copied) if load in loads)

    def times(self, op: Operation) -> tuple[int, int, int]:
        """Cycles of the threads, of the tensor core, and until its result is there."""
        footprint = self.model.footprint(op)
        fetched = FETCHED * any(isinstance(v.owner, Operation) and v.owner.name == DOT for v in op.operands)
        if op.name != DOT:
            cost = 0 if op.name in LOADS else ceil(footprint.of("stream")) + fetched * (op.name not in FREE)
            return cost + REDUCED * (op.name in PURE_REGIONS), 0, 0
        made = [v for v in _made_for(op) if self.readers[v][0] is op]
        handed = HANDED + sum(tile_bytes(v.type) for v in made) // self.model.generation.smem_bytes if made else 0
        if is_of_warps(op):
            return handed + ceil(footprint.of("stream")), 0, 0
        tensor = ceil(footprint.of("tensor"))
        return handed + ceil(footprint.of("issue")), tensor, max(0, ceil(footprint.latency) - tensor)

    def ops_in(self, order: Sequence[int]) -> list[Operation]:
        """All ops, the steps among them in this order."""
        out: list[Operation] = []
        placed: set[int] = set()

        def place(i: int) -> None:
            pending = [i]
            while pending:
                at = pending[-1]
                left = [j for j, distance in self.needs[at] if not distance and j not in placed]
                if left:
                    pending += sorted(left, reverse=True)
                else:
                    pending.pop()
                    if at not in placed:
                        placed.add(at)
                        out.append(self.ops[at])
        for n in order:
            place(self.costly[n])
        for i in range(len(self.ops)):
            place(i)
        return out


def _copied(ops: Sequence[Operation]) -> list[Operation]:
    """The loads of views whose tiles products multiply."""
    read = {unmoved(v).owner for op in ops if op.name == DOT for v in op.operands[:SUMS]}
    return [op for op in ops if isinstance(op, TiledLoad) and op.mem_semantic.data == "weak" and op in read]


def _are_alone(func: Operation, ops: Sequence[Operation], copied: Sequence[Operation], target: Any) -> bool:
    """Whether shared memory holds tiles for one iteration, beside what threads make for products, and not for two."""
    from tileiras.schedule.depth import shared_budget
    change = [0] * (len(ops) + 1)
    lives: dict[SSAValue, list[int]] = {}       # from the first product that multiplies a tile to the last one
    for i, op in enumerate(ops):
        for v in _made_for(op):
            lives.setdefault(v, [i, i])[1] = i
    for v, (first, last) in lives.items():
        change[first] += tile_bytes(v.type)
        change[last + 1] -= tile_bytes(v.type)
    made = max(accumulate(change), default=0)
    stage = sum(tile_bytes(load.results[0].type) for load in copied)
    return made + LEAST_STAGES * stage > shared_budget(target, hint(func, "occupancy") or 1)


def _goes_on(v: SSAValue) -> bool:
    """Whether a product's accumulator is another's result as it is: products are done in order."""
    return isinstance(v, BlockArgument) or (isinstance(v.owner, Operation) and v.owner.name == DOT)


def _made_for(op: Operation) -> list[SSAValue]:
    """The tiles that threads have to make for a product."""
    if op.name != DOT:
        return []
    found = []
    for v in map(unmoved, op.operands[:SUMS]):
        if not (isinstance(v.owner, Operation) and v.owner.name in LOADS) and v not in found:
            found.append(v)
    return found


def _held(ops: list[Operation], warps: int) -> int:
    """Registers of a thread for tiles that ops in this order hold at once; accumulators lie in tensor memory, and what comes from
    there or from shared memory is read where it is wanted."""
    place = {op: i for i, op in enumerate(ops)}
    until: dict[SSAValue, int] = {}
    for i, op in enumerate(ops):
        for inner in op.walk():
            for v in inner.operands:
                root = _root(v)
                until[root] = max(until.get(root, 0), i)
    change = [0] * (len(ops) + 1)
    for v, end in until.items():
        owner = v.owner
        if not isinstance(owner, Operation) or owner not in place or owner.name in LOADS or not isinstance(v.type, TensorType):
            continue
        words = words_of(v.type, warps)
        start = place[owner]
        if owner.name == DOT and umma_of(owner) is not None:
            start = min((place[use.operation] for use in v.uses if use.operation in place), default=end)
        change[start] += words
        change[end] -= words
    most = now = 0
    for n in change:
        now += n
        most = max(most, now)
    return most


def _root(v: SSAValue) -> SSAValue:
    """What a value is another view of."""
    while isinstance(v.owner, Operation) and len(v.owner.operands) == 1 and v.owner.name in FREE:
        v = v.owner.operands[0]
    return v
