"""`prefetch-to-registers`: a loop's loads of the next iteration go to registers while this one computes.

    scf.for %i ... {                               %x0 = load %v[%a], converted, to %ring[0]
      %x = tiled_load %v[%i]                       scf.for %i ... (%p = 0) {
      %y = convertf %x                               barrier
      %b = alloc_tensor                              %x = scf.if %more { tiled_load %v[%i + %s] }
      store_shared %y, %b               ->           ... dot %ring[%p] ...
      ... dot %b ...                                 scf.if %more { store_shared (convertf %x), %ring[1 - %p] }
    }                                                yield 1 - %p
                                                   }
                                                   barrier

    scf.for %i ... {                               %x0 = load %v[%a]
      %x = tiled_load %v[%i]            ->         scf.for %i ... (%x = %x0) {
      ... %x ...                                     %next = scf.if %more { tiled_load %v[%i + %s] } else { 0 }
    }                                                ... %x ... ; yield %next }

Where neither the copy engine nor `cp.async` can move a tile (sm_75; tiles that are converted, dequantized or transposed on their
way, rows that aren't aligned). What only feeds a buffer is stored to the other one of two, one barrier an iteration; if two don't
fit, and for what is used from registers, the tile itself is carried. A hint or an option for depth 1 keeps a load in its iteration,
and so does a loop that asks for the program's order. Beside products that run by themselves (`wgmma`, `tcgen05`)
only tiles of few registers are carried: a row's statistics in attention's gradients, which a warp shares out by shuffles, steps of
a state space, times its rate, scales of blocks, of which one may be a number. They are used first of all where that can be, as they
are beside other products (factors of packed weights): ptxas has who uses them behind the next iteration's loads wait for those,
too, unless `settle-loads` sees to that (8-bit floats with scales of blocks of 128, H100: 19.8 us, 18.7 ahead; B200: 11.2 and 10.6).
`schedule/prefetch.py` says whether there is room.
"""
from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import AnyFloat, IntAttr, IntegerType, TensorType, UnitAttr, i32
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.access import accesses
from tileiras.analysis.agents import agent_of, block_warps
from tileiras.analysis.ahead import Slice, carries_tensors, is_cheap_and_pure, runs_ahead, slice_of, tokens_before
from tileiras.analysis.layout_choice import FEW_AHEAD
from tileiras.analysis.layout_rules import DOTS
from tileiras.analysis.shared_lives import SharedLives
from tileiras.analysis.shared_memory import stage_bytes
from tileiras.analysis.tensor_dots import is_of_warps
from tileiras.analysis.tma import is_unwritten
from tileiras.dialects import arith, nv_tileas
from tileiras.dialects.element import tile_bytes
from tileiras.dialects.nv_tileaa import MemTokenType, PtrType
from tileiras.dialects.nv_tileas import LOADS, RingType, layout_of
from tileiras.remarks import MEMORY, MISSED, PASSED, remark, tile_text
from tileiras.schedule.constraints import FORCE_SERIAL
from tileiras.schedule.names import DEPTH, told
from tileiras.transforms.iterations import Iterations
from tileiras.transforms.materialize_async import is_short_of_overflow
from tileiras.transforms.register_streams import is_streamed
from tileiras.transforms.structure import TOKENS

INSTRUCTION = "registers"
"""What remarks call the way."""
NOT_AHEAD = "RemarkLoopLoadNotAhead"
MOST_STREAMED = 32
"""Registers a thread of tiles that are stored to products' buffers in the next iteration."""
MOST_ACCESSES = 16
"""Their loads, each with its address and bounds, for the first iteration once more (scaled int8 of rows that aren't aligned, H100:
2.1 us, 2.7 with loads of single bytes ahead)."""
VIEW, PASS = "nv_tileas.view", "nv_tileas.convert_layout"
WIDENS = frozenset({"nv_tileas.broadcast", VIEW})
CONSTANTS = frozenset({"arith.constant", "nv_tileas.make_range"})


@dataclass
class Plan:
    """`stored`: stores to a buffer of tiles that come by way of registers; `held`: loads whose tile is carried. `loads`: all.
    `masked`: the next iteration's go by masks, not behind a branch. `first_uses`: what uses an iteration's tiles, where that goes
    to the body's head and the next one's loads behind it."""

    stored: list[Operation] = field(default_factory=list)
    held: list[Operation] = field(default_factory=list)
    loads: list[Operation] = field(default_factory=list)
    masked: bool = False
    first_uses: set[Operation] | None = None


def run(module: Operation, context: Any) -> None:
    """Let the loads run ahead, in place."""
    if not context.uses("pipelines") or not context.prefetch:
        return
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            lives = SharedLives(func)
            for loop in [op for op in func.walk() if runs_ahead(op) and not _is_of_loader(op)]:
                _loop(func, loop, context, lives)


def _is_of_loader(loop: Operation) -> bool:
    """Whether warps that load beside others run a loop: their ring is ahead as it is, and they have few registers. Not where they
    fill several stages behind one another themselves (`unroll-streams`): the ring has no more, and its readers would wait for each
    round."""
    found = agent_of(loop)
    if found is None or found[1] == 0:
        return False
    filled: list[Any] = [op.operands[0] for op in loop.regions[0].block.ops if op.name == "nv_tileas.producer_acquire"]
    return len(set(filled)) == len(filled) or any(pipe.type.kind.data != "mbarrier" for pipe in filled)


def _loop(func: Operation, loop: Operation, context: Any, lives: SharedLives) -> None:
    ops = list(loop.regions[0].block.ops)
    has_product = any(inner.name in DOTS for op in ops for inner in op.walk())
    loads = [op for op in ops if op.name in LOADS and (isinstance(op.results[0].type, TensorType) or (
        has_product and _is_factor(op)))]
    asked = context.schedule.stages if context.schedule is not None else 0
    if not loads or asked == 1 or not is_short_of_overflow(loop) or any(FORCE_SERIAL in op.attributes for op in ops):
        return
    from tileiras.analysis.entry_hints import count_on_blocks
    from tileiras.schedule.depth import latency_hint, shared_budget
    from tileiras.schedule.prefetch import STAGES, Room, why_not_ahead
    in_flight = any(map(runs_by_itself, ops))
    first_uses: set[Operation] | None = None
    if in_flight:
        few = are_few(loop, loads)
        first_uses = _first_uses(loop, loads) if few else None
        if first_uses is None:
            first_uses = stores_at_once(loop, loads)
        if first_uses is None and not few:
            loads = []
    else:
        loads = [op for op in loads if may_run_ahead(loop, op)]
    stores = [] if in_flight else [op for op in ops if is_streamed(loop, op)]
    plan = Plan(loads=loads, first_uses=first_uses)
    for store in stores:
        chain = _chain(loop, [store], loads)
        if chain is not None and not chain.carried_tensors:
            plan.stored.append(store)
    allocs: list[Any] = [store.operands[1].owner for store in plan.stored]
    each = sum(stage_bytes(_ring(alloc)) for alloc in allocs)
    if plan.stored and STAGES * each + lives.beside(loop, allocs) > shared_budget(context.target):
        plan.stored = []
    whole = _chain(loop, plan.stored, loads) if plan.stored else None
    if plan.stored and whole is None:
        plan.stored = []
    plan.held = [op for op in loads if whole is None or op not in whole.loads]
    if not loads:
        return
    if has_product and not in_flight and not plan.stored and set(loads).issuperset(op for op in ops if op.name in LOADS):
        plan.first_uses = uses_at_once(loop, loads)     # else what an iteration loads for itself would wait for the next one's
    plan.masked = not has_product and all(op.name == "nv_tileas.load" for op in loads)
    nbytes = sum(tile_bytes(op.results[0].type) for op in loads)
    shared = lives.size
    room = Room(shared, shared + (each if plan.stored else 0), block_warps(func),
                in_flight or asked > 1 or latency_hint(loads) is not None, any(op.name == "nv_tileas.consumer_wait" for op in ops))
    why, blocks = why_not_ahead(loop, loads, nbytes, has_product, room, context.target)
    if has_product and blocks > 1 and context.count_blocks and _has_room(loop, blocks * room.warps, context.target):
        count_on_blocks(func, blocks)
        context.counts_blocks = True
    if context.remarks is not None:
        _report(func, loop, plan, why, context.remarks)
    if not why:
        context.prefetched = True
        lives.update([*_Prefetch(loop, plan).run(), *allocs])


def _has_room(loop: Operation, warps: int, target: Any) -> bool:
    """Whether so many warps an SM leave a thread fewer registers than there are, and enough for a loop's tiles."""
    from tileiras.analysis.live_registers import most_alive
    from tileiras.schedule.depth import registers_of
    limit = target.registers_for(warps)
    return limit < target.max_registers_per_thread and most_alive(loop.regions[0], registers_of) <= limit


def _report(func: Operation, loop: Operation, plan: Plan, why: str, remarks: list[Any]) -> None:
    for load in plan.loads:
        tile: Any = load.results[0].type
        missed = remark(func, load, MISSED, MEMORY, NOT_AHEAD.removeprefix("Remark"),
                        f"Load of {tile_text(tile)} isn't made ahead of its iteration", reasons=[why])
        old = next((i for i, told_before in enumerate(remarks)
                    if (told_before.name, told_before.place, told_before.function) == missed_at(missed)), None)
        if old is not None and not why:
            del remarks[old]
        elif old is None and why:
            remarks.append(missed)
    if not why:
        notes: dict[str, str | int] = {"Loads": len(plan.loads), "Buffers": len(plan.stored), "Instruction": INSTRUCTION}
        remarks.append(remark(func, loop, PASSED, MEMORY, "LoopLoadsAhead", "Loads run 1 iteration ahead", notes))


def uses_at_once(loop: Operation, loads: list[Operation]) -> set[Operation] | None:
    """What an iteration does with tiles that were loaded for it in the one before, beside products that run by themselves, where
    that may stand at its begin; None where they can't all be loaded so."""
    return _first_uses(loop, loads) if are_few(loop, loads) else None


def are_few(loop: Operation, loads: list[Operation]) -> bool:
    """Whether all of a loop's loads give few registers each, and can be made in the iteration before: what an iteration loads for
    itself would wait for the next one's."""
    from tileiras.schedule.depth import registers_of
    return all(may_run_ahead(loop, op) and registers_of(op.results[0]) <= FEW_AHEAD for op in loads)


def stores_at_once(loop: Operation, loads: list[Operation]) -> set[Operation] | None:
    """All that an iteration does with tiles that go to buffers of its product by way of registers, where that may stand at its
    begin; None where loads serve something else, or their tiles take many registers or accesses. Of several products one runs
    beside what the next one waits for anyway (attention's gradient of queries of odd rows, B200: 4.4 us, 5.0 with these ahead);
    and what the kernel itself has written is near (two layers through memory, H100: 8.5 us, 10.0)."""
    from tileiras.schedule.depth import registers_of
    body = loop.regions[0].block
    if sum(op.name in DOTS for op in body.ops) > 1:
        return None
    if not all(may_run_ahead(loop, op) and is_unwritten(op) for op in loads) or \
            sum(registers_of(op.results[0]) for op in loads) > MOST_STREAMED or \
            sum(1 if _is_factor(op) else accesses(op, layout_of(op.results[0])) for op in loads) > MOST_ACCESSES:
        return None
    stores = [op for op in body.ops if is_streamed(loop, op)]
    chain = _chain(loop, stores, loads) if stores else None
    if chain is None or chain.carried_tensors or set(chain.loads) != set(loads):
        return None
    found = {*chain.behind, *stores, *(store.operands[1].owner for store in stores)}
    pending = list(found)
    while pending:
        for v in pending.pop().operands:        # type: ignore[union-attr]
            maker = v.owner
            if isinstance(maker, Operation) and maker.parent is body and maker not in found and maker not in loads:
                if not is_cheap_and_pure(maker):
                    return None
                found.add(maker)
                pending.append(maker)
    return found        # type: ignore[return-value]


def runs_by_itself(op: Operation) -> bool:
    """Whether an op is a product of a warpgroup, or into tensor memory."""
    return op.name in DOTS and not is_of_threads(op)


def _first_uses(loop: Operation, loads: list[Operation]) -> set[Operation] | None:
    """All that an iteration does with what these load, where that may stand at its begin and takes few registers from there on:
    threads of a warp give what they have to one another, or compute with what is known before the loop, or with other such tiles.
    Views and constants that this needs come along. None where there is more to it."""
    from tileiras.schedule.depth import registers_of
    body = loop.regions[0].block
    found: set[Operation] = set()
    carried, made = {op.results[0] for op in loads}, set[SSAValue]()
    for op in body.ops:
        if carried.isdisjoint(op.operands):
            if op.name in WIDENS and not made.isdisjoint(op.operands) and all(registers_of(r) <= FEW_AHEAD for r in op.results):
                found.add(op)       # one row's factor for all of few rows
                made.update(op.results)
            continue
        makers = [x.owner for x in op.operands if x not in carried and x not in made]
        constants = [maker for maker in makers if isinstance(maker, Operation) and maker.parent is body]
        known = body not in makers and all(maker.name in CONSTANTS for maker in constants)
        few = op.name == PASS or all(registers_of(r) <= FEW_AHEAD for r in op.results)
        if not is_cheap_and_pure(op) or not known or not few:
            return None
        found.update((*constants, op))
        (carried if op.name == VIEW else made).update(op.results)
    uses = [use.operation for v in carried for use in v.uses]
    return found if found.issuperset(uses) else None


def is_of_threads(dot: Operation) -> bool:
    """Whether the threads themselves multiply, and take part of what they multiply from registers."""
    return "atom" not in dot.properties or is_of_warps(dot)


def missed_at(told_now: Any) -> tuple[Any, ...]:
    """What tells a remark from others of its kind."""
    return told_now.name, told_now.place, told_now.function


def tiles_loaded(ops: list[Operation]) -> list[Operation]:
    """The loads of tiles among ops."""
    return [op for op in ops if op.name in LOADS and isinstance(op.results[0].type, TensorType)]


def _is_factor(load: Operation) -> bool:
    """Whether a load gives one number that isn't an index: a factor of a block."""
    return isinstance(load.results[0].type, AnyFloat)


def _ring(alloc: Any) -> RingType:
    from tileiras.schedule.prefetch import STAGES
    return RingType(alloc.results[0].type, IntAttr(STAGES))


def may_run_ahead(loop: Operation, load: Operation, behind: Collection[Operation] = ()) -> bool:
    """Whether a load can be made in the iteration before. `behind`: loads that its address may follow from, made there, too."""
    properties: dict[str, Any] = load.properties
    t: Any = load.results[0].type
    if load.parent is not loop.regions[0].block or "owners" in properties or properties["mem_semantic"].data != "weak" or \
            (isinstance(t, TensorType) and isinstance(t.element_type, PtrType)) or load.results[0].first_use is None:
        return False
    if told(load, DEPTH) == 1 and "latency" in properties:      # by its hint; else shared memory has no room for more
        return False
    if tokens_before(loop, load.token) is None:      # type: ignore[attr-defined]
        return False
    found = slice_of(loop, load.operands, moves_with(behind))
    if found.obstacle is not None or carries_tensors(loop, found):
        return False
    last: Any = loop.regions[0].block.last_op
    return not behind or slice_of(loop, [last.operands[n] for n in found.carried], is_cheap_and_pure).obstacle is None


def moves_with(loads: Collection[Operation]) -> Callable[[Operation], bool]:
    """Which ops may be run ahead, together with these loads."""
    return lambda op: is_cheap_and_pure(op) or op in loads


@dataclass
class Chain:
    """What leads to stores. `found`: all of it. `loads`: those in it. `behind`: ops that use what they load, in order."""

    found: Slice
    loads: list[Operation]
    behind: list[Operation]
    carried_tensors: bool


def _chain(loop: Operation, stores: list[Operation], loads: list[Operation]) -> Chain | None:
    """The chain that leads to these stores; None where it can't run ahead, or serves something else, too."""
    allowed = set(loads)
    found = slice_of(loop, [store.operands[0] for store in stores], lambda op: op in allowed or is_cheap_and_pure(op))
    if found.obstacle is not None:
        return None
    used = [op for op in found.roots if op in allowed]
    tainted: set[SSAValue] = set()
    behind = []
    for op in found.updates:
        if any(v in tainted for v in op.operands):
            if op in allowed or op not in found.roots:
                return None
            behind.append(op)
        if op in allowed:
            tainted.add(op.results[0])
        elif behind and behind[-1] is op:
            tainted.update(op.results)
    users = {*behind, *stores}
    if not used or any(use.operation not in users for v in tainted for use in v.uses):
        return None
    return Chain(found, used, behind, carries_tensors(loop, found))


class _Prefetch(Iterations):
    """One loop that its plan is carried out on."""

    def __init__(self, loop: Any, plan: Plan) -> None:
        super().__init__(loop)
        self.plan = plan
        operands = [v for op in plan.loads for v in op.operands]
        self.addresses = slice_of(loop, operands, is_cheap_and_pure, len(plan.loads))
        self.chain = _chain(loop, plan.stored, plan.loads) if plan.stored else None
        self.tokens = {op: self._token(op) for op in plan.loads if op.token is not None or op in plan.held}  # type: ignore[attr-defined]

    def _token(self, load: Any) -> SSAValue:
        """What a load made earlier waits for: what stood before the loop."""
        tokens = tokens_before(self.loop, load.token) or []
        if len(tokens) == 1:
            return tokens[0]
        op = nv_tileas.JoinMemToken.make([tokens], [MemTokenType()]) if tokens else \
            nv_tileas.CreateMemToken.make([], [MemTokenType()])
        op.location = self.loop.location
        self.insert(op)
        return op.results[0]

    def run(self) -> list[Any]:
        """Let the loads run ahead; the rings that were made for it."""
        lower, _, _ = self.loop.operands[:3]
        plan, args, body = self.plan, self.body.args, self.body
        allocs: list[Any] = [store.operands[1].owner for store in plan.stored]
        rings = [self.make(nv_tileas.AllocTensor, [], _ring(alloc)) for alloc in allocs]
        both = [self.addresses, *([self.chain.found] if self.chain is not None else [])]
        numbers = sorted({n for part in both for n in part.carried})
        updates = [op for op in body.ops if any(op in part.updates for part in both) and op not in self._behind() and
                   op not in plan.loads]
        # the first iteration's loads, before the loop
        values: dict[SSAValue, SSAValue] = {args[0]: lower, **{args[1 + n]: self.loop.operands[3 + n] for n in numbers}}
        some = self.some()
        self._clone(updates, values)
        none = [self.zeros(op.results[0].type) for op in plan.held]
        zero = self.constant(0, i32) if plan.stored else None
        first = self._load(plan.loads, values, some, dict(zip(plan.held, none)), lambda: self._store(values, rings, zero))
        inits = self._next(numbers, values)
        carried = [v for op in plan.held for v in first[op]]
        # the next iteration's, at the body's head or near it
        self.before = self._behind_loads(self._head()) if plan.first_uses is None else self._behind_uses(plan.first_uses)
        arguments = {n: body.insert_arg(args[1 + n].type, len(body.args)) for n in numbers}
        held = {op: (body.insert_arg(op.results[0].type, len(body.args)), body.insert_arg(MemTokenType(), len(body.args)))
                for op in plan.held}
        place = body.insert_arg(i32, len(body.args)) if rings else None
        at, more = self.following(1)
        values = {args[0]: at, **{args[1 + n]: arguments[n] for n in numbers}}
        self._clone(updates, values)
        rest = [op for op in plan.loads if op not in held]
        if plan.masked:
            loaded = self._load_masked(values, more)
        else:
            zeros = {op: self.zeros(op.results[0].type) for op in plan.loads}
            loaded = self._load(plan.loads, values, more, zeros, None)
        following = [*self._next(numbers, values), *(v for op in plan.held for v in loaded[op])]
        if place is not None:
            slots = [self.make(nv_tileas.ExtractSlice, [ring, place], alloc.results[0].type) for alloc, ring in zip(allocs, rings)]
            for store, alloc, slot in zip(plan.stored, allocs, slots):
                alloc.results[0].replace_uses_with_if(slot, lambda use, store=store: use.operation is not store)
            self.before = body.last_op      # type: ignore[assignment]
            other = self.make(arith.Subi, [self.constant(1, i32), place], i32)
            values.update({op.results[0]: loaded[op][0] for op in rest})
            self.branch(more, lambda: self._store(values, rings, other) or [], [])
            following.append(other)
            carried.append(zero)    # type: ignore[arg-type]
        self._drop(held, allocs, updates)
        loop = self.carry([*inits, *carried], following)
        if rings:
            assert loop.parent is not None
            barrier = nv_tileas.Barrier.make()
            barrier.location = loop.location
            loop.parent.insert_op_after(barrier, loop)
        return [ring.owner for ring in rings]

    def _behind(self) -> list[Operation]:
        return self.chain.behind if self.chain is not None else []

    def _head(self) -> Operation:
        """What the loads stand before: behind the barrier that the body begins with, which is made where buffers need one."""
        first: Any = self.body.first_op
        if first.name == "nv_tileas.consumer_wait" and first.next_op.name == "nv_tileas.barrier":
            return first.next_op.next_op
        if self.plan.stored:
            barrier = nv_tileas.Barrier.make()
            barrier.location = self.loop.location
            self.body.insert_op_before(barrier, first)
        return first

    def _behind_loads(self, head: Operation) -> Operation:
        """What stands behind the loads that the iteration itself begins with. ptxas counts arrivals: it lets the next iteration's
        loads wait for this one's, which are on their way since the last one, or in the first one since just now."""
        op, place, loaded = head, head, set[SSAValue]()
        while (op.name in LOADS or op.name in TOKENS or is_cheap_and_pure(op)) and loaded.isdisjoint(op.operands):
            following = op.next_op
            assert following is not None
            if op.name in LOADS:
                loaded.add(op.results[0])
                place = following if op not in self.plan.loads else place
            op = following
        return place

    def _behind_uses(self, uses: set[Operation]) -> Operation:
        """What stands behind the ops that use the tiles that are carried, which go to the body's head. They would wait for
        loads made in front of them, too: ptxas counts these together with the first iteration's, and waits for all."""
        moved = [op for op in self.body.ops if op in uses]
        behind = next(op for op in self.body.ops if op not in uses)
        for op in moved:
            op.detach()
            self.body.insert_op_before(op, behind)
        return behind

    def _clone(self, ops: list[Operation], values: dict[SSAValue, SSAValue]) -> None:
        for op in ops:
            self.insert(op.clone(values))

    def _next(self, numbers: list[int], values: dict[SSAValue, SSAValue]) -> list[SSAValue]:
        """The carried values of the iteration behind the one that `values` are of."""
        last: Any = self.body.last_op
        return [values.get(last.operands[n]) or last.operands[n] for n in numbers]

    def _load(self, loads: list[Operation], values: dict[SSAValue, SSAValue], guard: SSAValue, otherwise: dict[Operation, SSAValue],
              behind: Any) -> dict[Operation, tuple[SSAValue, SSAValue]]:
        """The loads where the guard holds, and what stands behind them; without `behind` all tiles come out, else those held."""
        given = loads if behind is None else self.plan.held
        tokens = {op: self.tokens.get(op) for op in loads}
        kept = [op for op in given if op in self.plan.held]

        def then() -> list[SSAValue]:
            for op in loads:
                mapped = dict(values)
                if op.token is not None:    # type: ignore[attr-defined]
                    mapped[op.token] = tokens[op]       # type: ignore
                again = op.clone(mapped)
                if _is_factor(op):
                    again.properties["by_thread"] = UnitAttr()     # else ptxas waits for it where it is loaded
                self.insert(again)
                values.update(zip(op.results, again.results))
            if behind is not None and self.plan.stored:
                behind()
            return [*(values[op.results[0]] for op in given), *(values[op.results[1]] for op in kept)]
        results = self.branch(guard, then, [*(otherwise[op] for op in given), *(tokens[op] for op in kept)])  # type: ignore[misc]
        count = len(given)
        after = dict(zip(kept, results[count:]))
        return {op: (results[i], after.get(op, results[i])) for i, op in enumerate(given)}

    def _load_masked(self, values: dict[SSAValue, SSAValue], guard: SSAValue) -> dict[Operation, tuple[SSAValue, SSAValue]]:
        """The loads by pointers where the guard holds, each under its mask: behind a branch the loop would wait for what it loads
        where ways join (counts of tokens an expert, B200: 6.7 us, 5.2). Beside products by warps that is slower (attention's
        gradients, 32 keys x 16 queries: 178 us, 195)."""
        out = {}
        for op in self.plan.loads:
            load: Any = op
            t = load.results[0].type
            ptr, mask, other = (values.get(v, v) for v in (load.ptr, load.mask, load.other))
            token = None if load.token is None else self.tokens[op]
            goes_on = self.make(nv_tileas.Splat, [guard], TensorType(IntegerType(1), t.get_shape(), t.encoding))
            mask = goes_on if mask is None else self.make(arith.Andi, [mask, goes_on], goes_on.type)
            masked = nv_tileas.Load.make([ptr, mask, other, token], [r.type for r in op.results], op.properties)
            masked.attributes.update(op.attributes)
            masked.location = op.location
            self.insert(masked)
            values.update(zip(op.results, masked.results))
            out[op] = masked.results[0], masked.results[1]
        return out

    def _store(self, values: dict[SSAValue, SSAValue], rings: list[SSAValue], place: SSAValue | None) -> None:
        """What is loaded, converted, to that stage of the rings."""
        assert place is not None
        self._clone(self._behind(), values)
        for store, ring in zip(self.plan.stored, rings):
            alloc: Any = store.operands[1].owner
            slot = self.make(nv_tileas.ExtractSlice, [ring, place], alloc.results[0].type)
            again = store.clone({**values, store.operands[1]: slot})
            self.insert(again)

    def _drop(self, held: dict[Operation, tuple[SSAValue, SSAValue]], allocs: list[Any], updates: list[Operation]) -> None:
        """What stands ahead now goes."""
        for store in self.plan.stored:
            store.detach()
            store.erase()
        for op in reversed(self._behind()):
            op.detach()
            op.erase()
        for load in self.plan.loads:
            tile, token = load.results[0], load.results[1]
            if load in held:
                tile.replace_all_uses_with(held[load][0])
                token.replace_all_uses_with(held[load][1])
            elif token.first_use is not None:
                token.replace_all_uses_with(self.tokens[load] if load in self.tokens else self._fresh(load))
            load.detach()
            load.erase()
        for op in (*allocs, *reversed(updates)):
            if all(r.first_use is None for r in op.results):
                op.detach()
                op.erase()

    def _fresh(self, load: Any) -> SSAValue:
        """A token where a load without one had given one."""
        op = nv_tileas.CreateMemToken.create(result_types=(MemTokenType(),), location=load.location)
        load.parent.insert_op_before(op, load)
        return op.results[0]
