"""`overlap-iterations`: a loop's late products run beside what the next iteration computes first, as its schedule says.

    for %i = %a to %b step %s (%m, %o) {            if %a < %b {
      %x = dot %q, %k[%i]                             early(%a)
      %p, %m1 = softmax(%x, %m)             ->        for %i = %a to %b - %s step %s {
      %o1 = dot %p, %v[%i], rescaled %o                 dot %q, %k[%i + %s]          its product starts
    }                                                   %o1 = dot %p, %v[%i], rescaled %o      the late part of this iteration
                                                        softmax                      of the next one, beside the late product
                                                      }
                                                      late(last)
                                                    }

What `generate-schedule` put in the last stage (nv_tile.aws.stage) is late, all before is early; early values that the late part
uses are carried. A loop stays as it is unless both parts have products by wgmma, or by warps one of which takes rows of the other;
or where the late part can't wait: buffers, barriers or effects that both parts share, values that the early part of the next
iteration needs of it, a stage that both read; or where several blocks share an SM, which overlap each other's work.
Both parts stand twice; nothing is guarded within the loop. Where products by wgmma may be on their way, `overlap-dots` decides.

Products of warps stand among the ops that don't need them, and ptxas orders their instructions. A warp that is alone on its
scheduler has something to do that way while it waits (64x64 tiles of 64, one block an SM, RTX 5090: f16 38.7 us, 31.8 overlapped,
e5m2 24.8 and 20.0); blocks that share an SM gain little (2 to 5 %), so it must not cost one of them, nor rings of one stage a wait.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type, IntegerType, StringAttr, TensorType
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from tileiras.analysis.agents import SWITCH, WARP_THREADS, agent_of, agents_of, warps_of
from tileiras.analysis.effects import NONE, effects_of
from tileiras.analysis.entry_hints import hint
from tileiras.analysis.live_registers import from_outside, most_alive
from tileiras.analysis.program_slice import function_of
from tileiras.analysis.warpgroup_dots import is_synchronous
from tileiras.dialects import arith
from tileiras.dialects.nv_tileaa import MemTokenType
from tileiras.dialects.nv_tileas import BufferType
from tileiras.remarks import MISSED, PASSED, TENSOR_CORE, remark, tile_text
from tileiras.schedule.depth import registers_of
from tileiras.schedule.names import LEAST_STAGES, STAGE, told
from tileiras.schedule.resources import goes_on_beside
from tileiras.transforms.agent_registers import registers_in_agents
from tileiras.transforms.structure import holder_in

WAIT, RELEASE, SLICE = "nv_tileas.consumer_wait", "nv_tileas.consumer_release", "nv_tileas.extract_slice"
STAY = frozenset({"nv_tileas.barrier", "nv_tileas.print", "nv_tileas.assert", "nv_tileas.producer_acquire",
                  "nv_tileas.producer_commit", "nv_tileas.break", "nv_tileas.continue", "nv_tileas.return", "nv_tileas.loop",
                  "nv_tileas.create_pipeline", "nv_tileas.agent_switch", "scf.for"})
"""A loop with one of these stays as it is."""
FLOATS = (Float16Type, BFloat16Type, Float32Type, Float64Type)
VIEWS = frozenset({"nv_tileas.view", "nv_tileas.broadcast", "nv_tileas.permute", "nv_tileas.splat", "arith.constant"})
"""Ops whose results take no registers besides their operands'."""
CHEAP = frozenset({"arith.constant", "nv_tileas.splat", "nv_tileas.make_range"})
KEPT_BACK = 40
"""Of a thread's registers, for addresses, the loop's counters, fragments on their way."""
KEPT_BACK_AT_LEAST = 8
"""The same of an agent's share: 196 of 232 fit without a spill (attention of computed keys); what doesn't quite fit (202 of 216,
windowed attention) is compiled again by more warps, and was quicker so than with its products apart: 5.86 us, not 6.44."""
STEP = 8
"""Registers are given out in so many a thread."""


def run(module: Operation, context: Any) -> None:
    """Overlap the loops that can be, in place."""
    if not context.uses("pipelines"):
        return
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            for loop in [op for op in func.walk() if op.name == "scf.for"]:
                parts = split(loop)
                why = ""
                if isinstance(parts, str):
                    why = parts
                else:
                    expansion = Expansion(loop, *parts)
                    threads = threads_of(func)
                    if expansion.pays(context.target, threads):
                        if context.remarks is not None:
                            _passed(func, expansion, context.remarks)
                        expansion.run()
                    else:
                        why = expansion.cost(context.target, threads)
                if why and context.remarks is not None:
                    context.remarks.append(remark(func, loop, MISSED, TENSOR_CORE, "TensorCoreIterationsApart",
                                                  "The loop's late products don't run beside the next iteration", reasons=[why]))


def may_overlap(op: Operation) -> bool:
    """Whether a product may run beside what other ops compute: by a warpgroup, or by warps that issue others meanwhile."""
    return is_synchronous(op) or goes_on_beside(op)


def _passed(func: Operation, expansion: Expansion, remarks: list[Any]) -> None:
    """What runs beside what."""
    def products(ops: list[Operation]) -> str:
        found: list[Any] = [op.results[0].type for op in ops if may_overlap(op)]
        return ", ".join(map(tile_text, found))
    notes: dict[str, str | int] = {"ThisIteration": products(expansion.late), "NextIteration": products(expansion.early),
                                   "Registers": expansion.registers()}
    remarks.append(remark(func, expansion.loop, PASSED, TENSOR_CORE, "TensorCoreIterationsOverlap",
                          "The loop's late products run beside what the next iteration computes first", notes))


def threads_of(func: Operation) -> int:
    """Of a block, all agents together."""
    warps: Any = func.properties["num_warps"]
    switches = [op for op in func.walk() if op.name == SWITCH]
    ends = [agent.first_warp + agent.span for switch in switches for agent in agents_of(switch)]
    return WARP_THREADS * max([warps.data, *ends])


def split(loop: Any) -> tuple[list[Operation], list[Operation]] | str:
    """The same, or why the loop stays as it is; "" where its schedule doesn't ask for two parts."""
    body = loop.regions[0].block
    ops = [op for op in body.ops if op is not body.last_op]
    stages = {n for op in ops if may_overlap(op) and (n := told(op, STAGE)) is not None}
    if len(stages) < 2:
        return ""
    if any(inner.name in STAY for op in ops for inner in op.walk()):
        return "the loop fills rings itself, or has a barrier, a print, a loop inside or another way out"
    last = max(stages)
    late = {op for op in ops if (told(op, STAGE) or 0) >= last}
    obstacle = _close(body, ops, late)
    if obstacle:
        return obstacle
    _narrow(ops, late)
    early = [op for op in ops if op not in late]
    if not any(map(may_overlap, early)) or not any(map(may_overlap, late)):
        return "the next iteration's first product needs what this iteration's last one computes"
    if not _independent(ops, late):
        return "both parts write, or one writes what the other reads"
    if not _carriable(body, early, late):
        return "the late part needs something of the early one that no loop can carry"
    return early, [op for op in body.ops if op in late]


def _carriable(body: Block, early: list[Operation], late: set[Operation]) -> bool:
    """Let the late part have ops of its own for what loops don't carry: a stage's buffer (from its number), a view. False where
    such a thing can't be made twice."""
    made = {r for op in early for r in op.results}
    todo = [op for op in body.ops if op in late]
    while todo:
        op = todo.pop()
        for v in dict.fromkeys(_operands(op)):
            if v not in made or isinstance(v.type, (TensorType, IntegerType, *FLOATS, MemTokenType)):
                continue
            owner = v.owner
            assert isinstance(owner, Operation)
            if not getattr(owner, "PURE", False) or owner.regions:
                return False
            again = owner.clone()
            body.insert_op_after(again, owner)
            index = list(owner.results).index(v)        # type: ignore[arg-type]
            v.replace_uses_with_if(again.results[index], lambda use: holder_in(body, use.operation) in late)
            late.add(again)
            todo.append(again)
    return True


def _narrow(ops: list[Operation], late: set[Operation]) -> None:
    """Make the late users of an early value early, where that takes fewer registers from one iteration to the next: rounding to
    16 bits, sums of rows."""
    for op in ops:
        if op in late:
            continue
        for v in op.results:
            users = {use.operation for use in v.uses if use.operation in late}
            if not users or not isinstance(v.type, TensorType) or any(
                    isinstance(w, BlockArgument) or (isinstance(w.owner, Operation) and w.owner in late)
                    for user in users for w in _operands(user) if isinstance(w.type, TensorType) and w.owner not in _blocks(user)):
                continue
            if sum(registers_of(r) for user in users for r in user.results) < registers_of(v):
                late -= users


def _blocks(op: Operation) -> list[Block]:
    """The blocks in an op's regions."""
    return [block for region in op.regions for block in region.blocks]


def _operands(op: Operation) -> Iterable[SSAValue]:
    return (v for inner in op.walk() for v in inner.operands)


def _close(body: Block, ops: list[Operation], late: set[Operation]) -> str:
    """Make the late part whole: what isn't scheduled goes with what it serves, and nothing early needs anything late, in its
    iteration or of the one before. Why that can't be, "" if it can."""
    yielded = body.last_op
    assert yielded is not None
    follows = dict(zip(body.args[1:], yielded.operands))
    if any(isinstance(v, BlockArgument) and v.owner is body and v is not arg for arg, v in follows.items()):
        return "the loop hands a value on unchanged under another name"
    known = set(ops)

    def is_late(v: SSAValue) -> bool:
        v = follows.get(v, v)       # type: ignore[call-overload]
        return isinstance(v.owner, Operation) and v.owner in late
    for op in reversed(ops):        # waits, slices, and whatever only late ops use
        if told(op, STAGE) is None and op.results and op.name != RELEASE:
            users = {holder_in(body, use.operation) for r in op.results for use in r.uses}
            if users and users <= late | {yielded} and users & late:
                late.add(op)
    grown = True
    while grown:
        grown = False
        for op in ops:
            if op not in late and op.name != RELEASE and any(is_late(v) for v in _operands(op)):
                late.add(op)
                grown = True
    for op in ops:                  # a stage is given back by the part that reads it last
        if op.name == RELEASE:
            late.discard(op)
            if any(reader in late for reader in _readers(op.operands[0], body) if reader in known):
                late.add(op)
    waits: dict[SSAValue, list[Operation]] = {}
    for op in ops:
        if op.name in (WAIT, RELEASE):
            waits.setdefault(op.operands[0], []).append(op)
    for pipe, found in waits.items():
        t: Any = pipe.type
        # a stage that both parts read isn't carried: what reads it must be seen to, where it is given back
        names = sorted(op.name for op in found)
        if t.kind.data == "group":
            return "its tiles come by cp.async, by the threads that compute"
        if names != sorted((WAIT, RELEASE)):
            return "a ring is waited for more than once an iteration"
        if t.stages.data < LEAST_STAGES and any(map(goes_on_beside, ops)):
            return "a ring has one stage, which is filled again only when it isn't needed any more"
        wait, release = sorted(found, key=lambda op: op.name == RELEASE)
        if (wait in late) != (release in late):
            return "both parts read the same stage of a ring"
    return ""


def _readers(pipe: SSAValue, body: Block) -> list[Operation]:
    """What reads the stages of a pipe that this body waits for."""
    numbers = [use.operation.results[0] for use in pipe.uses if use.operation.name == WAIT and use.operation.parent is body]
    slices = [use.operation.results[0] for n in numbers for use in n.uses if use.operation.name == SLICE]
    return [holder_in(body, use.operation) for v in slices for use in v.uses]


def _independent(ops: list[Operation], late: set[Operation]) -> bool:
    """Whether the parts share no buffer but by pipes, and not both do what others see."""
    sides: dict[SSAValue, set[bool]] = {}
    effects: set[bool] = set()
    for op in ops:
        for inner in op.walk():
            for v in (*inner.operands, *inner.results):
                if isinstance(v.type, BufferType) and not (isinstance(v.owner, Operation) and v.owner.name == SLICE):
                    sides.setdefault(v, set()).add(op in late)
            if inner.name in (WAIT, RELEASE):
                continue
            found = effects_of(inner)
            if found.token_write or found.before or any(isinstance(v.type, MemTokenType) for v in inner.results):
                effects.add(op in late)
            elif found != NONE and found.inside:
                effects.add(op in late)
    outside = {v for v in sides if not isinstance(v.owner, Operation) or v.owner not in set(ops)}
    return len(effects) < 2 and all(len(parts) == 1 for v, parts in sides.items() if v not in outside or _written(v, ops))


def _written(v: SSAValue, ops: list[Operation]) -> bool:
    return any(_writes(op, v) for op in ops)


def _writes(op: Operation, v: SSAValue) -> bool:
    return any(v in effects_of(inner).writes for inner in op.walk())


def _uses_of_buffers(ops: list[Operation]) -> dict[SSAValue, list[Operation]]:
    """The ops with each buffer among their operands."""
    uses: dict[SSAValue, list[Operation]] = {}
    for op in ops:
        for v in dict.fromkeys(v for v in _operands(op) if isinstance(v.type, BufferType)):
            uses.setdefault(v, []).append(op)
    return uses


def _registers_there(loop: Operation, target: Any) -> int:
    """The most that a thread of those that run a loop may have: what its agent is given, or would be if a load agent of one warp
    lent it registers, or as the block's threads share an SM's."""
    found = agent_of(loop)
    if found is None:
        return min(target.max_registers_per_thread, target.registers_for(warps_of(loop)))
    agents = agents_of(found[0])
    given, warps = agents[found[1]].registers, [agent.warps for agent in agents]
    if not given and target.has_setmaxnreg and len(warps) == 2 and warps[1] == 1 and (
            lent := registers_in_agents(warps, 1, [], target)) is not None:
        given = lent[0]
    return min(target.max_registers_per_thread, given or target.registers_for(sum(warps)))


def _inside(op: Operation) -> int:
    """Registers for what an op's regions make for themselves. A branch that goes element by element takes few: those of one
    element at a time (a mask of scores, and the indices that it is of)."""
    made = {r for region in op.regions for inner in region.walk() for r in inner.results}
    if all(isinstance(v.owner, arith.Elementwise) or v.owner.name in VIEWS for v in made):     # type: ignore[union-attr]
        return 0
    return max(most_alive(region, lambda v: registers_of(v) if v in made else 0) for region in op.regions)


def _is_cheap(v: SSAValue) -> bool:
    return isinstance(v.owner, Operation) and v.owner.name in CHEAP


def _root(v: SSAValue) -> SSAValue:
    """The value whose registers hold another one."""
    while isinstance(v.owner, Operation) and v.owner.name in VIEWS and v.owner.operands:
        v = v.owner.operands[0]
    return v


class Expansion:
    """One loop. `ahead`: the early ops that stand before the late part; without them what its first product needs."""

    def __init__(self, loop: Any, early: list[Operation], late: list[Operation], ahead: list[Operation] | None = None) -> None:
        self.loop, self.early, self.late = loop, early, late
        self.body: Block = loop.regions[0].block
        self.yielded = list(self.body.last_op.operands)        # type: ignore[union-attr]
        late_set = set(late)
        self.is_late = [isinstance(v.owner, Operation) and v.owner in late_set for v in self.yielded]
        made: set[SSAValue] = {r for op in early for r in op.results}
        made.update(arg for arg, later in zip(self.body.args[1:], self.is_late) if not later)
        made.add(self.body.args[0])
        used = dict.fromkeys(v for op in late for v in _operands(op))
        self.crossing = [v for v in used if v in made]
        self.ahead = ahead if ahead is not None else self._slice_of(next(op for op in early if may_overlap(op)))
        self.rest = [op for op in early if op not in set(self.ahead)]
        self.given_back = [op for op in late if op.name == RELEASE]

    def _slice_of(self, product: Operation) -> list[Operation]:
        """What an early product needs of the early part: what computes its operands, and what is done before with buffers that it
        reads (threads may have computed a tile that lies there)."""
        members = set(self.early)
        place = {op: i for i, op in enumerate(self.early)}
        uses = _uses_of_buffers(self.early)
        found: set[Operation] = set()
        todo = [product]
        while todo:
            op = todo.pop()
            if op in found:
                continue
            found.add(op)
            todo += [v.owner for v in _operands(op) if isinstance(v.owner, Operation) and v.owner in members]
            todo += [other for v in _operands(op) if isinstance(v.type, BufferType)
                     for other in uses.get(v, ()) if place[other] < place[op] and (_writes(other, v) or _writes(op, v))]
        return [op for op in self.early if op in found]

    def pays(self, target: Any, threads: int) -> bool:
        """Whether the block has the SM to itself, as far as registers say: blocks that share one overlap each other's work, and
        what is carried would make them fewer."""
        return not self.cost(target, threads)

    def cost(self, target: Any, threads: int) -> str:
        """Why it doesn't pay, "" if it does."""
        held = self.registers()
        for kept, there in ((KEPT_BACK, target.max_registers_per_thread),
                            (KEPT_BACK_AT_LEAST, _registers_there(self.loop, target))):
            if held + kept > there:
                return f"it would take {held + kept} registers a thread, {there} are there; use smaller tiles or more warps"
        before, after = (target.registers_per_sm // (threads * (-(-(values + KEPT_BACK) // STEP) * STEP))
                         for values in (self.registers_before(), held))
        if not all(map(goes_on_beside, filter(may_overlap, self.late))):
            return f"{before} blocks share an SM and overlap each other's work" if before > 1 else ""
        asked = hint(function_of(self.loop), "occupancy") or before
        return f"{after} blocks would share an SM instead of {before}" if after < max(1, min(before, asked)) else ""

    def registers(self) -> int:
        """What values take of a thread's registers where most are alive, in the order that the loop's body will have."""
        order = [*((op, True) for op in self.ahead), *((op, False) for op in self.late if op not in self.given_back),
                 *((op, True) for op in self.rest)]
        carried = [(v, not late) for v, late in zip(self.yielded, self.is_late)]
        return self._peak(order, [*((v, True) for v in self.crossing), *carried])

    def registers_before(self) -> int:
        """The same as the loop stands."""
        return self._peak([(op, False) for op in self.body.ops if op is not self.body.last_op], [(v, False) for v in self.yielded])

    def _peak(self, order: list[tuple[Operation, bool]], end: list[tuple[SSAValue, bool]]) -> int:
        """`order`: ops, and whether they are of the next iteration; `end`: values alive behind them. Elementwise ops write where
        they read; what is as quickly made again as kept takes nothing. What regions make for themselves is gone behind them."""
        follows = dict(zip(self.body.args[1:], self.yielded))
        alive = {(_root(v), following) for v, following in end}
        most = 0
        for op, following in reversed(order):
            alive -= {(r, following) for r in op.results}
            if op.name not in VIEWS:
                for v in (*op.operands, *from_outside(op)):
                    root, side = _root(v), following
                    if isinstance(root, BlockArgument) and following:       # made by this iteration's early part
                        root, side = _root(follows.get(root, root)), False
                    alive.add((root, side))
            most = max(most, _inside(op) + sum(registers_of(v) for v, _ in alive
                                               if isinstance(v.type, TensorType) and not _is_cheap(v)))
        return most

    # --- making it

    def run(self) -> None:
        loop, body = self.loop, self.body
        lower, upper, step = loop.operands[:3]
        inits = list(loop.operands[3:])
        t: Any = lower.type
        unsigned = "unsigned_cmp" in loop.properties
        outside: Block = loop.parent
        then, other = Block(), Block()

        def put(block: Block, op: Any) -> Any:
            op.location = loop.location
            block.add_op(op)
            return op.results[0] if op.results else None
        some = arith.Cmpi.make([lower, upper], [IntegerType(1)], {"predicate": StringAttr("ult" if unsigned else "slt")})
        some.location = loop.location
        outside.insert_op_before(some, loop)
        # the first iteration's early part, and how far the loop goes
        values: dict[SSAValue, SSAValue] = {body.args[0]: lower, **dict(zip(body.args[1:], inits))}
        self._clone([*self.ahead, *self.rest], values, then)
        left = put(then, arith.Subi.make([upper, lower], [t]))
        more = put(then, arith.Cmpi.make([left, step], [IntegerType(1)], {"predicate": StringAttr("ugt")}))
        end = put(then, arith.Select.make([more, put(then, arith.Subi.make([upper, step], [t])), lower], [t]))
        start = [init if later else values.get(v, v) for v, init, later in zip(self.yielded, inits, self.is_late)]
        crossed = [values.get(v, v) for v in self.crossing]
        inner = Block(arg_types=[t, *(v.type for v in start), *(v.type for v in crossed)])
        self._steady(inner, step)
        made = type(loop).create(operands=[lower, end, step, *start, *crossed], properties=dict(loop.properties),
                                 result_types=[v.type for v in (*start, *crossed)], regions=[Region(inner)])
        put(then, made)
        # the last iteration's late part
        count = len(start)
        values = {**dict(zip(body.args[1:], made.results[:count])), **dict(zip(self.crossing, made.results[count:]))}
        self._clone(self.late, values, then)
        results = [values.get(v, v) if later else made.results[i] for i, (v, later) in enumerate(zip(self.yielded, self.is_late))]
        put(then, arith.Yield.make([results]))
        put(other, arith.Yield.make([inits]))
        branch = arith.If.make([some.results[0]], [[r.type for r in loop.results]], regions=[Region(then), Region(other)])
        branch.location = loop.location
        outside.insert_op_before(branch, loop)
        for old, new in zip(loop.results, branch.results):
            old.replace_all_uses_with(new)
        loop.detach()
        loop.erase()

    def _steady(self, inner: Block, step: SSAValue) -> None:
        """The early product of the next iteration, this one's late part, the rest of the next one's early part."""
        body = self.body
        count = len(self.yielded)
        carried, crossed = inner.args[1:1 + count], inner.args[1 + count:]
        late: dict[SSAValue, SSAValue] = {**dict(zip(body.args[1:], carried)), **dict(zip(self.crossing, crossed))}
        at = arith.Addi.make([inner.args[0], step], [inner.args[0].type])
        at.location = self.loop.location
        inner.add_op(at)
        following: dict[SSAValue, SSAValue] = {body.args[0]: at.results[0], **dict(zip(body.args[1:], carried))}
        self._clone(self.ahead, following, inner)
        self._clone([op for op in self.late if op not in self.given_back], late, inner)
        self._clone(self.rest, following, inner)
        self._clone(self.given_back, late, inner)
        after = [late.get(v, v) if later else following.get(v, v) for v, later in zip(self.yielded, self.is_late)]
        end = arith.Yield.make([[*after, *(following.get(v, v) for v in self.crossing)]])
        end.location = self.loop.location
        inner.add_op(end)

    def _clone(self, ops: list[Operation], values: dict[SSAValue, SSAValue], block: Block) -> None:
        for op in ops:
            block.add_op(op.clone(values))
