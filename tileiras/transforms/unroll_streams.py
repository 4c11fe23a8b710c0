"""`unroll-streams`: a loop that streams small tiles to registers asks for those of several iterations at once.

    scf.for %i = %a to %b step %s (%c) {          %m = whole rounds of four
      %x = tiled_load %v[%i]                      scf.for %i = %a to %a + %m step 4 * %s (%c) {
      %c1 = compute %x, %c               ->         %x0 = tiled_load %v[%i] ... %x3 = tiled_load %v[%i + 3 * %s]
      yield %c1                                     %c1 = compute %x0, %c ... %c4 = compute %x3, %c3 ; yield %c4
    }                                             }
                                                  scf.if %a + %m < %b {                                the iterations left
                                                    %x0 = tiled_load ... %x2 = tiled_load %w2[...]       of %w2 if there is a third
                                                    %c1 = compute %x0, %c
                                                    scf.if %two_left { %c2 = compute %x1, %c1 ; scf.if %three_left { ... } }
                                                  }

Loads whose addresses follow from what others give (rows of a sparse matrix) come behind those of all iterations.

What whole rounds leave is asked for at once, too: a view's array is taken to have no elements where there isn't that iteration
(`%w2 = select %three_left, %extent, 0`), pointers' masks are false. Where neither can be, and for load agents, a loop remains.

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

from xdsl.dialects.builtin import TensorType, i32
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.access import access_width, contiguous_of
from tileiras.analysis.agents import agent_of, block_warps
from tileiras.analysis.ahead import runs_ahead, slice_of, tokens_before
from tileiras.analysis.apart import maker_of
from tileiras.analysis.layout_rules import DOTS
from tileiras.analysis.shared_memory import MOST_SMALL, buffer_bytes
from tileiras.dialects import arith, nv_tileas
from tileiras.dialects.element import REGISTER_BYTES, element_bytes, tile_bytes
from tileiras.dialects.nv_tileaa import DYNAMIC, MemTokenType, int_array, int_values
from tileiras.dialects.nv_tileas import BufferType, RingType, layout_of
from tileiras.schedule.constraints import FORCE_SERIAL
from tileiras.transforms.iterations import Iterations, gives_values
from tileiras.transforms.materialize_async import is_short_of_overflow
from tileiras.transforms.prefetch_to_registers import may_run_ahead, moves_with, tiles_loaded

MOST_ROUNDS = 8
"""Iterations at once, at most."""
BLOCKS = 2
"""Of an SM, that are counted with: how many a launch has isn't known, and small grids are what suffers."""
MOST_REGISTERS, MOST_SPREAD = 32, 144
"""Of a thread, for the tiles of a round; where these don't hold two iterations', and every number is held by so many threads that
it is no memory's bandwidth which the loop waits for, but one latency after another (steps of a state space, 128 x 16, B200: 76.5 us
by 128 blocks, 42.6 by four steps at once)."""
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
                      "nv_tileas.join_mem_token", "nv_tileas.create_mem_token", "scf.yield", "scf.if"})
"""What a loop may have besides pure ops."""
WITHIN = frozenset({"nv_tileas.alloc_tensor", "nv_tileas.store_shared", "nv_tileas.load_shared", "nv_tileas.scan"})
"""What threads exchange numbers by in an iteration: small buffers of its own."""


def run(module: Operation, context: Any) -> None:
    """Unroll such loops, in place."""
    if not context.uses("pipelines") or not context.prefetch or context.in_turn:
        return
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            for loop in [op for op in func.walk() if runs_ahead(op)]:
                loads = _streams(loop)
                rounds = _rounds(loop, loads, block_warps(func), context.target) if loads else 1
                if rounds > 1:
                    _Unrolled(loop, loads, rounds, all(map(_can_be_of_none, loads))).run()
                elif (loads := _fills(loop)) and (rounds := _at_once(loads)) >= LEAST_ROUNDS:
                    _Unrolled(loop, loads, rounds).run()


def _streams(loop: Operation) -> list[Operation]:
    """The loads of a loop that may be unrolled; none where it may not."""
    if agent_of(loop) is not None or any(op.name in DOTS for op in loop.regions[0].block.ops):
        return []
    return _loads_of(loop, ACCESSES | WITHIN, True)


def _fills(loop: Operation) -> list[Operation]:
    """The loads of a load agent's loop by which it fills rings itself; none where it isn't such a loop, or where pointers that are
    looked up would take several iterations' registers."""
    agent = agent_of(loop)
    if agent is None or not agent[1] or any(op.name == "nv_tileas.async_copy" for op in loop.regions[0].block.ops):
        return []
    return _loads_of(loop, ACCESSES | FILLS)


def _loads_of(loop: Operation, allowed: frozenset[str], lead: bool = False) -> list[Operation]:
    """The loads of tiles of a loop that has pure ops and these only, if all of them may run ahead; else none. `lead`: also those
    whose addresses follow from others."""
    ops = list(loop.regions[0].block.ops)
    loads = tiles_loaded(ops)
    if not loads or not is_short_of_overflow(loop) or any(
            FORCE_SERIAL in op.attributes or not _may_be_repeated(op, allowed) for op in ops):
        return []
    known: list[Operation] = []
    for op in loads:
        if not may_run_ahead(loop, op, known if lead else ()):
            return []
        known.append(op)
    return loads


def _may_be_repeated(op: Operation, allowed: frozenset[str]) -> bool:
    """Whether several iterations' ops of this kind may stand behind one another: branches of such, and no buffers but those of
    the iteration."""
    if op.name in WITHIN and op.name in allowed:
        if isinstance(op, nv_tileas.AllocTensor):
            return not isinstance(op.results[0].type, RingType) and buffer_bytes(op.results[0].type) <= MOST_SMALL
        return all(v.owner.parent is op.parent for v in op.operands if isinstance(v.type, BufferType))
    if op.name == "scf.if":
        return all(_may_be_repeated(inner, allowed) for region in op.regions for block in region.blocks for inner in block.ops)
    return op.name in allowed or gives_values(op)


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


def _rounds(loop: Operation, loads: list[Operation], warps: int, target: Any) -> int:
    """How many iterations of so many warps at once; 1 where the loop stays."""
    from tileiras.schedule.depth import registers_of  # few kernels need the machine's tables
    from tileiras.schedule.prefetch import is_spread, streaming_bytes

    nbytes = sum(tile_bytes(op.results[0].type) for op in loads)
    held = sum(max(registers_of(op.results[0]), _registers_loaded(op)) for op in loads)
    results = sum(registers_of(r) for op in loop.regions[0].block.ops for r in op.results)
    rounds, wanted = 1, streaming_bytes(target)
    most = MOST_SPREAD if 2 * held > MOST_REGISTERS and is_spread(held, warps, nbytes) else MOST_REGISTERS
    while rounds < MOST_ROUNDS and BLOCKS * rounds * nbytes < wanted and 2 * rounds * held <= most and \
            2 * rounds * results <= MOST_RESULTS:
        rounds *= 2
    return rounds


def _can_be_of_none(load: Operation) -> bool:
    """Whether a load can ask for nothing at no cost to those behind it."""
    return _extent(load) is not None or _is_masked(load) or layout_of(load.results[0]).num_regs == 1


def _extent(load: Any) -> tuple[Any, int, int] | None:
    """The memref of a view's tile, a dimension of the tile along which the memref's extent is an operand, and which: one that the
    load compares with anyway if there is any."""
    memref = maker_of(load.view) if isinstance(load, nv_tileas.TiledLoad) and "check" in load.properties else None
    if memref is None:
        return None
    array: Any = memref.results[0].type
    described: tuple[Any, ...] = load.properties["check"], load.view.type.dim_map, array.shape
    checked, dims, extents = map(int_values, described)
    dim = min((d for d, of in enumerate(dims) if extents[of] == DYNAMIC), key=lambda d: not checked[d], default=None)
    return None if dim is None else (memref, dim, 1 + sum(n == DYNAMIC for n in extents[:dims[dim]]))


def _is_masked(load: Any) -> bool:
    """Whether it is a load by pointers with a mask."""
    return not isinstance(load, nv_tileas.TiledLoad) and load.mask is not None and isinstance(load.mask.type, TensorType)


class _Unrolled(Iterations):
    """One loop, which is cut into whole rounds and what they leave: a loop, or a round whose iterations need not be."""

    def __init__(self, loop: Any, loads: list[Operation], rounds: int, rest_at_once: bool = False) -> None:
        super().__init__(loop)
        self.loads, self.rounds, self.rest_at_once = loads, rounds, rest_at_once
        addresses = slice_of(loop, [v for op in loads for v in op.operands], moves_with(loads), len(loads))
        self.first = self._levels({*addresses.updates, *loads})
        self.early = {op for ops in self.first for op in ops}
        self.carried = addresses.carried
        self.joined = self._joined(loads)
        self.tokens = {op: self._token(op) for op in loads if op.token is not None}      # type: ignore[attr-defined]

    def _levels(self, first: set[Operation]) -> list[list[Operation]]:
        """What is done before the iterations' own work: loads and their addresses, then loads whose addresses follow from what
        these give, and so on."""
        levels: list[list[Operation]] = []
        level: dict[Operation, int] = {}
        for op in self.body.ops:
            if op in first:
                level[op] = max((level[v.owner] + (v.owner in self.loads) for v in op.operands     # type: ignore[index]
                                 if v.owner in level and not isinstance(v.type, MemTokenType)), default=0)
                while len(levels) <= level[op]:
                    levels.append([])
                levels[level[op]].append(op)
        return levels

    def _joined(self, loads: list[Operation]) -> dict[Operation, int]:
        """The loads of which a whole round's iterations are asked for together, and of how many at a time."""
        if not any("stretch" in op.properties for op in loads):
            return {}
        from tileiras.transforms.following_tiles import joined_layout, tiles_at_once  # few kernels have such

        found = {op: min(self.rounds, tiles_at_once(self.loop, op)) for op in loads
                 if joined_layout(op, 1) is not None and not any(use.operation in self.early for use in op.results[0].uses)}
        return {op: times for op, times in found.items() if times > 1}

    def _token(self, load: Any) -> SSAValue:
        """What a load made earlier waits for: what stood before the loop."""
        tokens = tokens_before(self.loop, load.token) or []
        if len(tokens) == 1:
            return tokens[0]
        return self._insert_token(nv_tileas.JoinMemToken.make([tokens], [MemTokenType()])) if tokens else self._no_token()

    def run(self) -> None:
        """Cut it."""
        self.cut(self.rounds, lambda at, now: self._round(at, now, self.rounds, None))
        if self.rest_at_once:
            self._rest()

    def _rest(self) -> None:
        """What whole rounds left, in the loop's place."""
        loop = self.loop
        lower, upper, _, *carried = loop.operands
        self.before = loop
        left = self.widened(self.make(arith.Subi, [upper, lower], self.index_type))
        results = self.branch(self.some(), lambda: self._round(lower, carried, self.rounds - 1, left), carried)
        for old, new in zip(loop.results, results):
            old.replace_all_uses_with(new)
        loop.detach()
        loop.erase()

    def _round(self, at: SSAValue, now: list[SSAValue], times: int, left: SSAValue | None) -> list[SSAValue]:
        """Every iteration's loads and their addresses, then each iteration's own work; what is carried out of it. `left`: how far
        it is to the end, where not all iterations need be."""
        args, step = self.body.args, self.loop.operands[2]
        last: Any = self.body.last_op
        following = [at, *now]
        together: dict[Operation, Operation] | None = {} if left is None else None
        each: list[tuple[dict[SSAValue, SSAValue], SSAValue | None]] = []
        for n in range(times):
            at = self.make(arith.Addi, [following[0], step], self.index_type) if n else following[0]
            is_there = self.exceeds(left, self.distance(step, n)) if n and left is not None else None
            values: dict[SSAValue, SSAValue] = {args[0]: at, **{args[1 + k]: following[1 + k] for k in self.carried}}
            self._ask(self.first[0], n, values, is_there, together)
            following = [at, *(values.get(v, v) for v in last.operands)]
            each.append((values, is_there))
        for ops in self.first[1:]:
            for n, (values, is_there) in enumerate(each):
                self._ask(ops, n, values, is_there, together)
        return self._follow(each, now)

    def _ask(self, ops: list[Operation], n: int, values: dict[SSAValue, SSAValue], is_there: SSAValue | None,
             together: dict[Operation, Operation] | None) -> None:
        """The loads of the n-th iteration, and their addresses. `together`: what whole rounds' loads are asked for by."""
        in_branch: list[Operation] = []
        for op in ops:
            if together is not None and op in self.joined:
                self._join(op, n % self.joined[op], values, together)
            elif is_there is None or op not in self.loads:
                self._clone(op, values, self.tokens.get(op))
            elif not (self._load_of_none(op, values, is_there) or self._load_masked(op, values, is_there)):
                in_branch.append(op)
        if is_there is not None and in_branch:
            self._load(in_branch, values, is_there)

    def _follow(self, each: list[tuple[dict[SSAValue, SSAValue], SSAValue | None]], now: list[SSAValue]) -> list[SSAValue]:
        """One iteration's own work behind the other, those that needn't be inside the branch of the one before; what is carried
        out of them."""
        for n, (values, is_there) in enumerate(each):
            if n and is_there is not None:
                then = [(values, None), *each[n + 1:]]
                return self.branch(is_there, lambda then=then, now=now: self._follow(then, now), now)      # type: ignore[misc]
            values.update((arg, v) for arg, v in zip(self.body.args[1:], now) if arg not in values)
            now = self._work(values)
        return now

    def _join(self, load: Any, n: int, values: dict[SSAValue, SSAValue], together: dict[Operation, Operation]) -> None:
        """An iteration's load, the n-th of those that are asked for together. `together`: what they are asked for by."""
        if n == 0:
            from tileiras.transforms.following_tiles import joined_load

            ops = joined_load(load, values, self.joined[load], self.tokens.get(load))
            for op in ops:
                self.insert(op)
            together[load] = ops[-1]
        wide, tile = together[load], load.results[0]
        at = [self.constant(n if d == contiguous_of(load) else 0, i32) for d in range(len(tile.type.get_shape()))]
        values[tile] = self.make(nv_tileas.OPS["nv_tileas.extract"], [wide.results[0], *at], tile.type)
        values[load.results[1]] = wide.results[1]

    def _load_of_none(self, load: Any, values: dict[SSAValue, SSAValue], is_there: SSAValue) -> bool:
        """An iteration's load of a view's tile, all of which lies outside where there isn't that iteration: its array has no
        elements then. Behind branches ptxas waits for each iteration's numbers as it copies them to where both ways join."""
        found = _extent(load)
        if found is None:
            return False
        memref, dim, at = found
        view = load.view.owner
        operands = [values.get(v, v) for v in memref.operands]
        extent: Any = operands[at]
        operands[at] = self.make(arith.Select, [is_there, extent, self.constant(0, extent.type)], extent.type)
        array = memref.clone()
        array.operands = operands
        shrunk = view.clone({memref.results[0]: array.results[0]})
        for op in (array, shrunk):
            self.insert(op)
        self._clone(load, {**values, load.view: shrunk.results[0]}, self.tokens.get(load), values)
        last: Any = self.before.prev_op
        checked = int_values(load.properties["check"])
        last.properties["check"] = int_array(1 if d == dim else n for d, n in enumerate(checked))
        return True

    def _load_masked(self, load: Any, values: dict[SSAValue, SSAValue], is_there: SSAValue) -> bool:
        """The same by pointers that have a mask."""
        if not _is_masked(load):
            return False
        mask: Any = load.mask
        now: Any = values.get(mask, mask)
        both = self.make(arith.Andi, [now, self.make(nv_tileas.Splat, [is_there], now.type)], now.type)
        self._clone(load, {**values, mask: both}, self.tokens.get(load), values)
        return True

    def _load(self, loads: list[Operation], values: dict[SSAValue, SSAValue], is_there: SSAValue) -> None:
        """An iteration's loads, if there is that iteration."""
        def then() -> list[SSAValue]:
            for op in loads:
                self._clone(op, values, self.tokens.get(op))
            return [values[r] for r in results]
        results = [r for op in loads for r in op.results if r.first_use is not None]
        otherwise = [self._no_token() if isinstance(r.type, MemTokenType) else self.zeros(r.type) for r in results]
        values.update(zip(results, self.branch(is_there, then, otherwise)))

    def _no_token(self) -> SSAValue:
        """A token that stands for nothing."""
        return self._insert_token(nv_tileas.CreateMemToken.make([], [MemTokenType()]))

    def _insert_token(self, op: Operation) -> SSAValue:
        op.location = self.loop.location
        self.insert(op)
        return op.results[0]

    def _work(self, values: dict[SSAValue, SSAValue]) -> list[SSAValue]:
        """An iteration without what was loaded ahead; what it carries on."""
        last: Any = self.body.last_op
        carried: list[SSAValue] = list(last.operands)
        for op in self.body.ops:
            if op is not last and op not in self.early:
                self._clone(op, values, None)
        return [values[v] if v in values else v for v in carried]

    def _clone(self, op: Operation, values: dict[SSAValue, SSAValue], token: SSAValue | None,
               known: dict[SSAValue, SSAValue] | None = None) -> None:
        own = {**values, op.token: token} if token is not None else values      # type: ignore[attr-defined]
        again = op.clone(own)
        self.insert(again)
        (values if known is None else known).update(zip(op.results, again.results))
