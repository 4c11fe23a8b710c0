"""`unroll-streams`: a loop that streams small tiles to registers asks for those of several iterations at once.

    scf.for %i = %a to %b step %s (%c) {          %m = (%b - %a) / %s / 4 * 4 * %s                        whole rounds of four
      %x = tiled_load %v[%i]                      scf.for %i = %a to %a + %m step 4 * %s (%c) {
      %c1 = compute %x, %c               ->         %x0 = tiled_load %v[%i] ... %x3 = tiled_load %v[%i + 3 * %s]
      yield %c1                                     %c1 = compute %x0, %c ... %c4 = compute %x3, %c3 ; yield %c4
    }                                             }
                                                  scf.for %i = %a + %m to %b step %s (%c) { the body as it was }

A tile of a kilobyte takes a whole latency of memory and then some cycles of arithmetic: an SM with few blocks has a fraction of the
bytes on their way that keep memory busy, even where loads run an iteration ahead (`prefetch-to-registers`, which then holds a
round). For loops whose tiles stay in registers: rings (`stage-streams`) are as deep as they must be. And for load agents that put
small tiles of some loads to rings themselves (scales of block-scaled products, say), while the copy engine brings the others: each
would hold the agent up for a latency. What stays:

    loops with products, barriers or other loops, or that ask for the program's order (a load's depth of 1 too)
    loops with pipes that aren't a load agent's, or whose loads fill more than a few registers
    loops with a load that must stay in its iteration
    loops whose tiles two blocks of an SM have enough of on their way, and those that would get too long
"""
from __future__ import annotations

from typing import Any

from xdsl.ir import Block, Operation, Region, SSAValue

from tileiras.analysis.access import access_width
from tileiras.analysis.agents import agent_of
from tileiras.analysis.ahead import is_cheap_and_pure, runs_ahead, slice_of, tokens_before
from tileiras.analysis.layout_rules import DOTS
from tileiras.dialects import arith, nv_tileas
from tileiras.dialects.base import TileOp
from tileiras.dialects.element import REGISTER_BYTES, element_bytes, tile_bytes
from tileiras.dialects.nv_tileaa import MemTokenType
from tileiras.dialects.nv_tileas import BufferType, layout_of
from tileiras.schedule.constraints import FORCE_SERIAL
from tileiras.transforms.iterations import Iterations
from tileiras.transforms.materialize_async import is_short_of_overflow
from tileiras.transforms.prefetch_to_registers import may_run_ahead, tiles_loaded

MOST_ROUNDS = 8
"""Iterations at once, at most."""
BLOCKS = 2
"""Of an SM, that are counted with: how many a launch has isn't known, and small grids are what suffers."""
MOST_REGISTERS = 32
"""Of a thread, for the tiles of a round."""
MOST_RESULTS = 2048
"""Registers' worth of results in a round's body, at most: code that is fetched, and compiled."""
SMALL_BYTES = 1024
"""Tiles of an iteration that a load agent only passes on. Of larger ones it takes so long to turn and store the elements that
several iterations' code costs more than waiting (u8 products with tiles of 4 KiB, H100: 440.6 us against 232.0)."""
LEAST_ROUNDS = 4
"""Iterations at once of a load agent's loop, at least: fewer aren't worth its length."""
FILLS = frozenset({"nv_tileas.producer_acquire", "nv_tileas.producer_commit", "nv_tileas.extract_slice", "nv_tileas.tma_load",
                   "nv_tileas.tiled_copy", "nv_tileas.async_copy", "nv_tileas.store_shared"})
"""What a load agent's loop may have, too."""
ACCESSES = frozenset({"nv_tileas.tiled_load", "nv_tileas.load", "nv_tileas.tiled_store", "nv_tileas.store",
                      "nv_tileas.join_mem_token", "nv_tileas.create_mem_token", "scf.yield"})
"""What a loop may have besides pure ops."""


def run(module: Operation, context: Any) -> None:
    """Unroll such loops, in place."""
    if not context.uses("pipelines") or not context.prefetch or (context.schedule is not None and context.schedule.stages == 1):
        return
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            for loop in [op for op in func.walk() if runs_ahead(op)]:
                loads = _streams(loop)
                rounds = _rounds(loop, loads, context.target) if loads else 1
                if rounds > 1:
                    _Unrolled(loop, loads, rounds).run()
                elif (loads := _fills(loop)) and (rounds := _at_once(loads)) >= LEAST_ROUNDS:
                    _Unrolled(loop, loads, rounds).run()


def _streams(loop: Operation) -> list[Operation]:
    """The loads of a loop that may be unrolled; none where it may not."""
    if agent_of(loop) is not None or any(op.name in DOTS for op in loop.regions[0].block.ops):
        return []
    return _loads_of(loop, ACCESSES)


def _fills(loop: Operation) -> list[Operation]:
    """The loads of a load agent's loop by which it fills rings itself; none where it isn't such a loop, or where pointers that are
    looked up would take several iterations' registers."""
    agent = agent_of(loop)
    if agent is None or not agent[1] or any(op.name == "nv_tileas.async_copy" for op in loop.regions[0].block.ops):
        return []
    return _loads_of(loop, ACCESSES | FILLS)


def _loads_of(loop: Operation, allowed: frozenset[str]) -> list[Operation]:
    """The loads of tiles of a loop that has pure ops and these only, if all of them may run ahead; else none."""
    ops = list(loop.regions[0].block.ops)
    loads = tiles_loaded(ops)
    if not loads or not is_short_of_overflow(loop) or any(
            FORCE_SERIAL in op.attributes or not (op.name in allowed or _is_pure(op)) for op in ops):
        return []
    return loads if all(may_run_ahead(loop, op) for op in loads) else []


def _at_once(loads: list[Operation]) -> int:
    """How many iterations of a load agent's loop registers allow."""
    is_small = sum(tile_bytes(op.results[0].type) for op in loads) <= SMALL_BYTES
    held = sum(max(_registers_loaded(op), 0 if is_small else layout_of(op.results[0]).num_regs) for op in loads)
    rounds = MOST_ROUNDS
    while rounds > 1 and rounds * held > MOST_REGISTERS:
        rounds //= 2
    return rounds


def _registers_loaded(load: Operation) -> int:
    """Registers of a thread that hold what a load gives: each access has its own."""
    layout, t = layout_of(load.results[0]), load.results[0].type
    width = access_width(load, layout)
    return layout.num_regs // width * max(1, width * element_bytes(t.element_type) // REGISTER_BYTES)    # type: ignore[attr-defined]


def _is_pure(op: Operation) -> bool:
    return isinstance(op, TileOp) and op.PURE and not any(isinstance(r.type, BufferType) for r in op.results)


def _rounds(loop: Operation, loads: list[Operation], target: Any) -> int:
    """How many iterations at once; 1 where the loop stays."""
    from tileiras.schedule.depth import registers_of  # few kernels need the machine's tables
    from tileiras.schedule.prefetch import streaming_bytes

    nbytes = sum(tile_bytes(op.results[0].type) for op in loads)
    held = sum(registers_of(op.results[0]) for op in loads)
    results = sum(registers_of(r) for op in loop.regions[0].block.ops for r in op.results)
    rounds, wanted = 1, streaming_bytes(target)
    while rounds < MOST_ROUNDS and BLOCKS * rounds * nbytes < wanted and 2 * rounds * held <= MOST_REGISTERS and \
            2 * rounds * results <= MOST_RESULTS:
        rounds *= 2
    return rounds


class _Unrolled(Iterations):
    """One loop, which is cut into rounds and what they leave."""

    def __init__(self, loop: Any, loads: list[Operation], rounds: int) -> None:
        super().__init__(loop)
        self.loads, self.rounds = loads, rounds
        addresses = slice_of(loop, [v for op in loads for v in op.operands], is_cheap_and_pure, len(loads))
        first = {*addresses.updates, *loads}
        self.first = [op for op in self.body.ops if op in first]
        self.carried = addresses.carried

    def run(self) -> None:
        loop, t = self.loop, self.index_type
        lower, upper, step = loop.operands[:3]
        count = self.constant(self.rounds, t)
        whole = self.make(arith.Divui, [self.make(arith.Subi, [upper, lower], t), step], t)
        in_rounds = self.make(arith.Subi, [whole, self.make(arith.Remui, [whole, count], t)], t)
        covered = self.make(arith.Select, [self.some(), self.make(arith.Muli, [in_rounds, step], t), self.constant(0, t)], t)
        end = self.make(arith.Addi, [lower, covered], t)
        tokens = {op: self._token(op) for op in self.loads if op.token is not None}      # type: ignore[attr-defined]
        block = Block(arg_types=[a.type for a in self.body.args], ops=())
        rounds = type(loop).create(operands=[lower, end, self.make(arith.Muli, [step, count], t), *loop.operands[3:]],
                                   result_types=[r.type for r in loop.results], properties=dict(loop.properties),
                                   attributes=dict(loop.attributes), regions=[Region(block)], location=loop.location)
        self.insert(rounds)
        self._fill(block, tokens)
        loop.operands = [end, upper, step, *rounds.results]

    def _token(self, load: Any) -> SSAValue:
        """What a load made earlier waits for: what stood before the loop."""
        tokens = tokens_before(self.loop, load.token) or []
        if len(tokens) == 1:
            return tokens[0]
        op: Any = nv_tileas.JoinMemToken.make([tokens], [MemTokenType()]) if tokens else \
            nv_tileas.CreateMemToken.make([], [MemTokenType()])
        op.location = self.loop.location
        self.insert(op)
        return op.results[0]

    def _fill(self, block: Block, tokens: dict[Operation, SSAValue]) -> None:
        """A round: every iteration's loads and their addresses, then each iteration's own work."""
        args, step = self.body.args, self.loop.operands[2]
        last: Any = self.body.last_op
        end = last.clone(dict(zip(args, block.args)))
        block.add_op(end)
        self.before = end
        following = list(block.args)
        each: list[dict[SSAValue, SSAValue]] = []
        for n in range(self.rounds):
            at = self.make(arith.Addi, [following[0], step], self.index_type) if n else following[0]
            values: dict[SSAValue, SSAValue] = {args[0]: at, **{args[1 + k]: following[1 + k] for k in self.carried}}
            for op in self.first:
                self._clone(op, values, tokens.get(op))
            following = [at, *(values.get(v, v) for v in last.operands)]
            each.append(values)
        now: list[SSAValue] = list(block.args[1:])
        for values in each:
            values.update((arg, v) for arg, v in zip(args[1:], now) if arg not in values)
            for op in self.body.ops:
                if op is not last and op not in self.first:
                    self._clone(op, values, None)
            now = [values[v] if v in values else v for v in last.operands]
        end.operands = now

    def _clone(self, op: Operation, values: dict[SSAValue, SSAValue], token: SSAValue | None) -> None:
        own = {**values, op.token: token} if token is not None else values      # type: ignore[attr-defined]
        again = op.clone(own)
        self.insert(again)
        values.update(zip(op.results, again.results))
