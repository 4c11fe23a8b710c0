"""`overlap-dots`: products by wgmma run while their threads do something else.

    scf.for ... iter_args(%acc) {                  scf.for ... iter_args(%acc in flight) {
      %i = consumer_wait %pipe                       %i = consumer_wait %pipe
      %d = dot %ring[%i], %acc                       %d = async_dot %ring[%i], %acc
      consumer_release %pipe                ->       dot_wait {pending = 1} %ring       the iteration before is done
      yield %d                                       if not the first: consumer_release %pipe
    }                                                yield %d
                                                   } ; %r = dot_wait {pending = 0} %d ; consumer_release %pipe

A product is waited for in front of the first op that uses it or writes what it reads: as many younger ones may stay on their
way as began behind it. A product into the accumulator of one that is on its way needs no wait where both have the same shape: the
hardware does them in order. What only goes on in its own accumulator from iteration to iteration is waited for behind the loop;
buffers of its own are written again in the next iteration, behind a wait there, and stages of a ring are given back one
iteration later; at once those of a short ring beside another block, whose products go on meanwhile. Copies that fill a stage by
the threads' own instructions go behind the product that doesn't need them.
A product that is joined to its accumulator part by part isn't left on its way: it waits for each part itself.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

from xdsl.dialects.builtin import IntAttr, IntegerType, StringAttr, TensorType
from xdsl.ir import Block, Operation, Region, SSAValue

from tileiras.analysis.agent_parts import beside
from tileiras.analysis.dot_chains import only_multiplies
from tileiras.analysis.layout_rules import dot_shape
from tileiras.analysis.shared_lives import SharedLives
from tileiras.analysis.shared_memory import blocks_of, bytes_unshared, plan_shared_memory
from tileiras.analysis.warpgroup_dots import is_synchronous, is_zero, wgmma_of
from tileiras.dialects import arith, nv_tileas
from tileiras.dialects.nv_tileas import EXITS, BufferType, FlightType, PipeType, layout_of
from tileiras.layout.atoms.warpgroup import units
from tileiras.transforms.places import keep_places
from tileiras.transforms.structure import put_in_place

MAX_PENDING = 7
"""Groups that a wait may leave on their way (the rows `wgmma.wait_group.N` of the nvvm dialect)."""
LEAST_STAGES = 2
"""Of a ring whose stages are given back an iteration later: the next one must be there meanwhile."""
SHORT_RING = 4
"""Stages of a ring that are given back at once where an SM has room for another block, and all that a loop's products do is add to
sums: of three, one is multiplied, and another that isn't given back leaves one to be on its way (128x128x64 along 8192, 64 blocks,
H100: 43.9 us given back an iteration later, 41.4 at once; 64x64x64 along 4096, four stages, 64 blocks: 16.1 and 14.5; where
launches fill the machine, 0 to 3 % less)."""
WAIT, RELEASE, SLICE = "nv_tileas.consumer_wait", "nv_tileas.consumer_release", "nv_tileas.extract_slice"
READERS = frozenset({"nv_tileas.dot", "nv_tileas.async_dot", "nv_tileas.dot_scaled", "nv_tileas.load_shared", "nv_tileas.dot_wait"})
"""What takes a buffer and doesn't write it."""


@dataclass(eq=False)
class Product:
    """A product on its way. `buffers`: what it reads, where that has a place of its own; `rings`: whose stages it reads, `pipes`:
    that hand those on, by `waits`; `registers`: A, if that is in them. `carried`: it goes on in its accumulator in the next
    iteration."""

    op: Any
    buffers: list[SSAValue] = field(default_factory=list)
    rings: list[SSAValue] = field(default_factory=list)
    pipes: list[SSAValue] = field(default_factory=list)
    waits: list[Operation] = field(default_factory=list)
    registers: list[SSAValue] = field(default_factory=list)
    carried: bool = False
    dot: Operation | None = None
    """What it was made of, whose result somebody uses."""

    @property
    def wanted(self) -> SSAValue | None:
        """The tensor that a wait is to give."""
        return None if self.dot is None else self.dot.results[0]

    def hand_over(self) -> SSAValue:
        """The product in flight, for the next one into the same accumulator: it is no longer to be had itself."""
        self.dot = None
        return self.op.results[0]

    @property
    def storage(self) -> list[SSAValue]:
        return [*self.buffers, *self.rings]


def run(module: Operation, context: Any) -> None:
    """Let products overlap, in place."""
    if not (context.uses("wgmma") and context.uses("pipelines")):
        return
    for func in list(module.regions[0].block.ops):
        if func.name == "nv_tileas.func" and any(is_synchronous(op) for op in func.walk()):
            trial = func if bytes_unshared(func) <= context.target.most_static_smem else func.clone()
            _release_behind_next(trial)
            _Overlap(trial, context.target).block(trial.regions[0].block)
            if trial is not func and plan_shared_memory(trial).size > context.target.most_static_smem:
                continue        # each is waited for at once: what it reads has no place of its own
            keep_places(put_in_place(trial, func))


def _release_behind_next(func: Operation) -> None:
    """Where products stand close together that read stages of one ring, each gives its stage back when the next one has begun: it
    isn't waited for with nothing on its way."""
    for op in [op for op in func.walk() if op.name == RELEASE and _wait_of(op) is not None]:
        t: Any = op.operands[0].type
        begun, following = False, op.next_op
        while following is not None and not begun and (following.name in (WAIT, SLICE) or is_synchronous(following)):
            begun = is_synchronous(following)
            following = following.next_op
        if begun and t.stages.data >= LEAST_STAGES and following is not None and following.name == RELEASE and \
                following.operands[0] is op.operands[0]:
            assert op.parent is not None
            op.detach()
            following.parent.insert_op_before(op, following)      # type: ignore[union-attr]


def _wait_of(release: Operation) -> Operation | None:
    """The wait whose stage is given back, where several stages of the pipe are read one after the other in a block; None where one
    is."""
    block, waits, releases = release.parent, beside(release, WAIT), beside(release, RELEASE)
    if block is None or len(waits) < 2 or len(waits) != len(releases):
        return None
    place = block.get_operation_index
    return sorted(waits, key=place)[sorted(releases, key=place).index(release)]


class _Overlap:
    """`begun`: products in flight, by the ops that they stand for. `shares_sm`: an SM's shared memory holds another block."""

    def __init__(self, func: Operation, target: Any) -> None:
        self.target, self.lives = target, SharedLives(func)
        self.shares_sm = blocks_of(self.lives.size, target) > 1
        self.begun: dict[Operation, Operation] = {}

    def block(self, block: Block, carried: dict[Operation, int] | None = None) -> list[Product]:
        """A block's products: begun where their dots stood, waited for where that is needed. Those whose accumulators the
        loop around carries (`carried`) may be on their way at the end: they are returned."""
        flying: list[Product] = []
        for op in list(block.ops):
            if op.parent is not block:
                continue
            last = op is block.last_op
            needed = [i for i, p in enumerate(flying) if self.needs(op, p) or (last and not p.carried)]
            if needed:
                self.wait(flying, max(needed), op)
            if is_synchronous(op):
                flying.append(self.begin(op, carried is not None and op in carried, flying))
            elif op.regions:
                if flying and any(is_synchronous(inner) or inner.name == "nv_tileas.async_dot" for inner in op.walk()):
                    self.wait(flying, len(flying) - 1, op)
                self.inside(op)
        return flying

    def inside(self, op: Any) -> None:
        if op.name == "scf.for" and (carried := carried_products(op)):
            _Loop(self, op, carried).run()
            return
        for region in op.regions:
            for block in region.blocks:
                self.block(block)

    def begin(self, op: Any, carried: bool, flying: list[Product]) -> Product:
        """The dot in flight; what its users get is made by the wait."""
        atom = wgmma_of(op)
        assert atom is not None
        result = op.results[0]
        batch, m, n, _ = dot_shape(op)
        parts = prod(units(atom, m, n, layout_of(result).num_warps, batch))
        flight = FlightType(result.type, IntAttr(parts))
        acc = op.acc
        before = next((p for p in flying if p.wanted is acc), None)
        if before is not None:
            acc = before.hand_over()
        elif isinstance(acc.type, TensorType):
            acc = None if is_zero(acc) else self.insert(nv_tileas.BeginFlight.make([acc], [flight]), op)
        new = nv_tileas.AsyncDot.make([op.lhs, op.rhs, acc], [flight], nv_tileas.instruction_of(op))
        self.insert(new, op)
        self.begun[op] = new
        p = Product(new, carried=carried)
        for v in op.operands[:2]:
            self.note(p, v)
        op.detach()
        op.operands = []
        if carried:
            result.replace_all_uses_with(new.results[0])    # the next product's, or the loop's own yield
        else:
            p.dot = op
        return p

    def note(self, p: Product, v: SSAValue) -> None:
        """One of the product's operands."""
        if isinstance(v.type, TensorType):
            p.registers.append(v)
            return
        owner: Any = v.owner
        if owner.name != SLICE:
            p.buffers.append(v)
            return
        p.rings.append(owner.ring)
        index = owner.index.owner
        if isinstance(index, Operation) and index.name == WAIT:
            p.pipes.append(index.operands[0])
            p.waits.append(index)

    def needs(self, op: Operation, p: Product) -> bool:
        """Whether a product must be done before an op (or before what is inside of it)."""
        for inner in op.walk():
            if inner.name in EXITS:
                return True
            for v in inner.operands:
                if v is p.wanted and not (inner is op and is_synchronous(op) and v is op.operands[2] and v.has_one_use() and
                                          _shape(op) == _shape(p.op)):
                    return True
                if isinstance(v.type, BufferType) and v in p.buffers and inner.name not in READERS:
                    return True
            if inner.name == RELEASE and inner.operands[0] in p.pipes and not _is_group(inner.operands[0]):
                given_back = _wait_of(inner)
                if given_back is None or given_back in p.waits:
                    return True
            if inner.name == WAIT and inner.operands[0] in p.pipes and _is_group(inner.operands[0]):
                return True     # behind it stands the barrier after which stages are filled again
        return False

    def wait(self, flying: list[Product], index: int, before: Operation) -> None:
        """Wait for the products up to this one, which are in flight no longer."""
        done = flying[:index + 1]
        pending = len(flying) - len(done)
        wanted = [p for p in done if p.wanted is not None and p.wanted.first_use is not None]
        registers, storage = (_once(v for p in done for v in values(p)) for values in (lambda p: p.registers, lambda p: p.storage))
        types = [p.wanted.type for p in wanted if p.wanted is not None]
        new = nv_tileas.DotWait.make([[p.op.results[0] for p in wanted], registers, storage], [types],
                                     {"pending": IntAttr(min(pending, MAX_PENDING))})
        self.insert(new, before)
        for p, out in zip(wanted, new.results):
            assert p.wanted is not None
            p.wanted.replace_all_uses_with(out)
            p.dot = None
        del flying[:index + 1]

    def insert(self, new: Any, before: Operation) -> Any:
        new.location = before.location
        block = before.parent
        assert block is not None
        block.insert_op_before(new, before)
        return new.results[0] if new.results else None


def _once(values: Any) -> list[SSAValue]:
    return list(dict.fromkeys(values))


def _is_group(pipe: SSAValue) -> bool:
    t: Any = pipe.type
    return t.kind.data == "group"


def _shape(op: Operation) -> tuple[int, int]:
    """Of a product's instruction. The hardware orders products into one accumulator, without a wait between them, where their
    shapes are the same (PTX ISA, wgmma.fence)."""
    atom = wgmma_of(op)
    assert atom is not None
    return atom.n, atom.k


def carried_products(loop: Any) -> dict[Operation, int]:
    """The products of a loop's body that only go on in an accumulator which it carries, with the number of the carried value:
    chains of products of one shape from the carried argument to the yield, nothing else using what is between. None of them may
    have A in registers, which the next iteration needs."""
    body = loop.regions[0].block
    out: dict[Operation, int] = {}
    for number, arg in enumerate(body.args[1:]):
        v: SSAValue = arg
        chain: list[Operation] = []
        while v.has_one_use():
            use = v.first_use
            assert use is not None
            op = use.operation
            if op is body.last_op:
                if use.index == number and chain:
                    out.update(dict.fromkeys(chain, number))
                break
            if op.parent is not body or not is_synchronous(op) or use.index != 2 or isinstance(op.operands[0].type, TensorType) or \
                    (chain and _shape(op) != _shape(chain[0])):
                break
            chain.append(op)
            v = op.results[0]
    return out


class _Loop:
    """A loop that carries products in flight from one iteration to the next."""

    def __init__(self, overlap: _Overlap, loop: Any, carried: dict[Operation, int]) -> None:
        self.overlap, self.loop, self.carried = overlap, loop, carried
        self.body: Block = loop.regions[0].block
        self.late: list[Operation] = []

    def run(self) -> None:
        self.hoist()
        if not self.carried:
            self.overlap.block(self.body)
            return
        last = [op for op in self.body.ops if op in self.carried][-1]
        self.late = [op for op in self.body.ops if self.is_late(op)]
        sections = self.sections(last)
        marker = last.next_op
        assert marker is not None
        for op in self.late:
            if op is marker:
                marker = op.next_op
            op.detach()
        assert marker is not None
        for op in sections:
            op.detach()
            self.body.insert_op_before(op, marker)
        marker = sections[0] if sections else marker
        self.retype()
        left = self.overlap.block(self.body, self.carried)
        if marker.parent is not self.body:      # a product or a loop, which another op stands for now
            marker = self.overlap.begun[last].next_op
            assert marker is not None
        self.next_iteration(left, marker)
        self.behind(left)

    def hoist(self) -> None:
        """Buffers that products read in the next iteration too live as long as the loop. Without room for that, their products
        aren't carried."""
        lives, outside = self.overlap.lives, self.loop.parent
        for dot, number in list(self.carried.items()):
            for v in dot.operands[:2]:
                alloc = v.owner
                if not isinstance(alloc, nv_tileas.AllocTensor) or alloc.parent is not self.body:
                    continue
                following = alloc.next_op
                alloc.detach()
                outside.insert_op_before(alloc, self.loop)
                lives.update((alloc,), moved=(alloc,))
                if lives.size > self.overlap.target.max_static_smem:
                    alloc.detach()
                    self.body.insert_op_before(alloc, following)    # type: ignore[arg-type]
                    lives.update((alloc,), moved=(alloc,))
                    self.carried = {op: n for op, n in self.carried.items() if n != number}

    def is_late(self, op: Any) -> bool:
        """Whether a stage is given back an iteration later: a carried product reads it."""
        if op.name != RELEASE:
            return False
        pipe = op.operands[0]
        t: Any = pipe.type
        assert isinstance(t, PipeType)
        if t.kind.data == "group" or t.stages.data < LEAST_STAGES or _wait_of(op) is not None:
            return False
        if t.kind.data == "tma" and t.stages.data <= SHORT_RING and self.overlap.shares_sm and only_multiplies(self.body):
            return False
        return any(_reads(dot, pipe) for dot in self.carried)

    def sections(self, last: Operation) -> list[Operation]:
        """Copies in front of the last carried product that fill a stage of a ring which it reads another stage of."""
        out: list[Operation] = []
        for op in self.body.ops:
            if op is last:
                break
            if op.name == "nv_tileas.producer_acquire" and _is_group(op.operands[0]) and \
                    any(_reads(dot, op.operands[0]) for dot in self.carried):
                section = [op]
                while section[-1].name != "nv_tileas.producer_commit" and section[-1].next_op not in (None, last):
                    section.append(section[-1].next_op)     # type: ignore[arg-type]
                if section[-1].name == "nv_tileas.producer_commit":
                    out += section
        inside = set(out)
        return out if all(use.operation in inside for op in out for r in op.results for use in r.uses) else []

    def retype(self) -> None:
        """The accumulators are in flight where the loop begins, in its body, and where it ends."""
        loop, old = self.loop, self.loop
        flights: dict[int, FlightType] = {}
        inits = list(loop.operands)
        for dot, number in self.carried.items():
            if number not in flights:
                atom = wgmma_of(dot)
                assert atom is not None
                batch, m, n, _ = dot_shape(dot)
                t: Any = dot.results[0].type
                flights[number] = FlightType(t, IntAttr(prod(units(atom, m, n, layout_of(dot.results[0]).num_warps, batch))))
        guard = self.guarded()
        for number, t in flights.items():
            begin = nv_tileas.BeginFlight.make([inits[3 + number]], [t])
            inits[3 + number] = self.overlap.insert(begin, loop if guard is None else guard)
            self.body.args[1 + number]._type = t
        region = loop.detach_region(loop.regions[0])
        types = [flights.get(i, r.type) for i, r in enumerate(loop.results)]
        self.loop = loop = type(loop).create(operands=inits, properties=dict(loop.properties), result_types=types, regions=[region])
        loop.location = old.location
        where = old if guard is None else guard
        self.overlap.insert(loop, where)
        self.done = nv_tileas.DotWait.make([[loop.results[n] for n in flights], [], []], [[t.tensor for t in flights.values()]],
                                           {"pending": IntAttr(0)})
        self.overlap.insert(self.done, where)
        tensors = dict(zip(flights, self.done.results))
        results = [tensors.get(i, r) for i, r in enumerate(loop.results)]
        if guard is not None:
            guard.operands = results
            results = list(guard.parent_op().results)
        for r, new in zip(old.results, results):
            r.replace_all_uses_with(new)
        old.detach()
        old.erase()

    def guarded(self) -> Any:
        """Where the loop may have no iteration: a branch around it, so that what it was given and what its products give meet
        behind the wait, not before; the branch's yield, in front of which the loop goes. None where an iteration is sure."""
        loop = self.loop
        lower, upper = map(number_of, loop.operands[:2])
        unsigned = "unsigned_cmp" in loop.properties
        if lower is not None and upper is not None and lower < upper and (lower >= 0 or not unsigned):
            return None
        some = self.overlap.insert(arith.Cmpi.make(list(loop.operands[:2]), [IntegerType(1)],
                                                   {"predicate": StringAttr("ult" if unsigned else "slt")}), loop)
        then, other = Block(), Block()
        then.add_op(arith.Yield.make([[]]))
        other.add_op(arith.Yield.make([list(loop.operands[3:])]))
        self.overlap.insert(arith.If.make([some], [[r.type for r in loop.results]], regions=[Region(then), Region(other)]), loop)
        return then.last_op

    def next_iteration(self, left: list[Product], marker: Operation) -> None:
        """Waits for what the iteration before has begun, and the stages that it read given back."""
        before = list(left)
        begun = 0
        for op in list(self.body.ops):
            if op is marker and self.late:
                if before:
                    self.wait(before, begun, op)
                    before = []
                first = self.overlap.insert(arith.Cmpi.make([self.body.args[0], self.loop.operands[0]], [IntegerType(1)],
                                                            {"predicate": StringAttr("ne")}), op)
                self.release(first, op)
            if before and (needed := [i for i, p in enumerate(before) if self.overlap.needs(op, p)]):
                last = max(needed)
                self.wait(before[:last + 1], len(before) - last - 1 + begun, op)
                del before[:last + 1]
            if op.name == "nv_tileas.async_dot":
                begun += 1
            elif op.name == "nv_tileas.dot_wait":
                pending: int = op.properties["pending"].data    # type: ignore[attr-defined]
                done = max(len(before) - max(pending - begun, 0), 0)
                if done:
                    self.waits_for(op, before[:done])
                del before[:done]
                begun = min(begun, pending)
            elif op.regions and any(inner.name in ("nv_tileas.dot_wait", "nv_tileas.async_dot") for inner in op.walk()):
                if before:
                    self.wait(before, begun, op)
                before, begun = [], 0

    def wait(self, done: list[Product], pending: int, before: Operation) -> None:
        """For products of the iteration before, whose accumulators have gone on."""
        self.overlap.insert(nv_tileas.DotWait.make([[], [], _once(v for p in done for v in p.storage)], [[]],
                                                   {"pending": IntAttr(min(pending, MAX_PENDING))}), before)

    def waits_for(self, wait: Any, done: list[Product]) -> None:
        """A wait in the body is for products of the iteration before, too: what they read, they have read until then."""
        new = nv_tileas.DotWait.make([list(wait.flights), list(wait.registers),
                                      _once([*wait.storage, *(v for p in done for v in p.storage)])],
                                     [[r.type for r in wait.results]], {"pending": wait.properties["pending"]})
        self.overlap.insert(new, wait)
        for old, result in zip(wait.results, new.results):
            old.replace_all_uses_with(result)
        wait.detach()
        wait.erase()

    def behind(self, left: list[Product]) -> None:
        """Behind the loop: the wait knows what was read until then; the last iteration's stages are given back."""
        storage = _once(v for p in left for v in p.storage)
        flights = list(self.done.flights)   # type: ignore[attr-defined]
        done = nv_tileas.DotWait.make([flights, [], storage], [[v.type for v in self.done.results]], {"pending": IntAttr(0)})
        self.overlap.insert(done, self.done)
        for old, new in zip(self.done.results, done.results):
            old.replace_all_uses_with(new)
        for op in self.late:
            self.overlap.insert(op.clone(), self.done)
        self.done.detach()
        self.done.erase()

    def release(self, condition: SSAValue, before: Operation) -> None:
        then, other = Block(), Block()
        for op in self.late:
            then.add_op(op.clone())
        for block in (then, other):
            block.add_op(arith.Yield.make([[]]))
        self.overlap.insert(arith.If.make([condition], [[]], regions=[Region(then), Region(other)]), before)


def number_of(v: SSAValue) -> int | None:
    """The number that a constant is."""
    value: Any = v.owner.properties["value"] if isinstance(v.owner, arith.Constant) else None
    return None if value is None else value.value.data


def _reads(dot: Operation, pipe: SSAValue) -> bool:
    """Whether a dot reads the stage that the pipe gave to its iteration."""
    for v in dot.operands[:2]:
        owner: Any = v.owner
        if isinstance(owner, Operation) and owner.name == SLICE:
            index = owner.index.owner   # type: ignore[attr-defined]
            if isinstance(index, Operation) and index.name == WAIT and index.operands[0] is pipe:
                return True
    return False
