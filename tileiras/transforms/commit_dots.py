"""`commit-dots`: products into tensor memory run while their threads do something else, and tell when they are done.

    scf.for ... {                                  %done = create_pipeline : pipe<"umma", 1>
      %i = consumer_wait %pipe                     scf.for ... {
      tensor_dot %ring[%i], %d                       %i = consumer_wait %pipe {by_dots}
      consumer_release %pipe                ->       tensor_dot %ring[%i], %d
    }                                                consumer_release %pipe {by_dots}
    %sum = load_tmem %d                            }
                                                   producer_commit %done ; consumer_wait %done, %ring, %d
                                                   %sum = load_tmem %d

A product is waited for in front of the first op that uses its accumulator or writes what it reads, by all threads at once, and with
it those begun before it; what was begun behind it goes on. Where a loop's products meet no such op in its body, and none when it
begins again, they go on over the iterations and are waited for behind it. Where a product runs ahead (`advance-dots`), which has a
pipe of its own, or where threads load what they then write for the product, a loop's last products are waited for in the next
iteration. A ring's stage that only products read is given back by the tensor core itself, and only the thread that begins the
products waits for it to be full: no other thread has any part in the loop. One that threads read, too, is given back by both: by
each warp as soon as it has read it, by the tensor core when its products are done (`with_dots`; rows of 64x64 whose squares are
summed while they are multiplied by 64x128, B200: 8.1 us, 17.1 where products are waited for). Where that can't be, since a pair of
CTAs shares the stage, it is given back behind the wait for the products, or in front of a wait for another stage.
"""
from __future__ import annotations

from bisect import bisect_left
from typing import Any

from xdsl.dialects.builtin import IntAttr, StringAttr, UnitAttr, i32
from xdsl.ir import Block, Operation, SSAValue

from tileiras.analysis.agents import SWITCH, agent_of
from tileiras.analysis.effects import effects_of
from tileiras.analysis.shared_memory import bytes_unshared, number_ops, plan_shared_memory
from tileiras.analysis.stage_numbers import becomes, numbers_of, pipe_of
from tileiras.analysis.tensor_dots import TENSOR_DOT, is_paired, is_rows, is_told_by_dots, umma_of
from tileiras.analysis.tensor_memory import STORES as TO_TENSOR_MEMORY
from tileiras.dialects import nv_tileas
from tileiras.dialects.nv_tileas import EXITS, LOOPS, BufferType, PipeType, TmemType
from tileiras.transforms.places import keep_places
from tileiras.transforms.structure import first_pipe, holder_in, ops_around, put_in_place

COMMIT = "nv_tileas.producer_commit"
WAIT, RELEASE, SLICE = "nv_tileas.consumer_wait", "nv_tileas.consumer_release", "nv_tileas.extract_slice"
STORES = frozenset({"nv_tileas.store_shared", *TO_TENSOR_MEMORY})
COUNTED = ("tma", "cp_async", "mbarrier")
"""Pipes whose stages are given back by arrivals."""
UMMA = "umma"
FOR_BARRIERS = 2048
"""Bytes that the pass's own pipe may take, with what aligning the rest behind it costs."""


def run(module: Operation, context: Any) -> None:
    """Put commits and waits into the functions, in place."""
    if not context.uses("tcgen05"):
        return
    most = context.target.most_static_smem
    for func in list(module.regions[0].block.ops):
        if func.name == "nv_tileas.func" and any(op.name == TENSOR_DOT for op in func.walk()):
            trial = func if bytes_unshared(func) <= most - FOR_BARRIERS else func.clone()
            _Commits(trial, context).run()
            if trial is not func:
                if not _fits(trial, most):
                    trial = func
                    _Commits(func, context, one_by_one=True).run()
                else:
                    put_in_place(trial, func)
            keep_places(trial)


def _fits(func: Operation, most: int) -> bool:
    """Whether shared memory of so many bytes holds a function's buffers, if need be of each no longer than it is used."""
    if plan_shared_memory(func).size <= most:
        return True
    _begin_late(func)
    return plan_shared_memory(func).size <= most


def _begin_late(func: Operation) -> None:
    """Let shared buffers live from where they are used first: what is written of products may have the place of what these read,
    once they have been waited for."""
    number, _ = number_ops(func)
    for op in [op for op in number if isinstance(op, nv_tileas.AllocTensor)]:
        block: Any = op.parent
        users = [holder_in(block, use.operation) for use in op.results[0].uses]
        if isinstance(op.results[0].type, BufferType) and users:
            op.detach()
            block.insert_op_before(op, min(users, key=number.__getitem__))


class _Used:
    """What products on their way use; their list may grow."""

    def __init__(self, of: list[Operation]) -> None:
        self.of, self.known = of, 0
        self.buffers: set[SSAValue] = set()
        self.pipes: set[SSAValue] = set()
        self.shapes: dict[SSAValue, set[tuple[int, int, int]]] = {}     # of the products that add to an accumulator

    def now(self) -> _Used:
        for dot in self.of[self.known:]:
            self.buffers.update(dot.operands)
            self.pipes.update(pipe for v in dot.operands if (pipe := pipe_of(v)) is not None)
            self.shapes.setdefault(dot.operands[2], set()).add(_shape(dot))
        self.known = len(self.of)
        return self


class _Commits:
    """`flying`: products begun that nobody has waited for. `one_by_one`: they are waited for at once, since what they read has no
    place of its own."""

    def __init__(self, func: Operation, context: Any, one_by_one: bool = False) -> None:
        self.context = context
        self.func, self.target, self.overlap = func, context.target, context.uses("pipelines") and not one_by_one
        self.one_by_one = one_by_one
        body = func.regions[0].block
        self.paired = any(map(is_paired, func.walk()))
        self.given = {"pair": UnitAttr() if self.paired else None}
        self.ahead = {v for op in func.walk() if op.name == WAIT and _kind(op.operands[0]) == UMMA for v in op.operands[1:]
                      if isinstance(v.type, TmemType)}
        self.first = first_pipe(body, lambda op: op.name == TENSOR_DOT)
        self.pipe = self.told()
        self.partly: dict[SSAValue, Operation] = {}     # pipe -> in front of which op it was waited for last
        self.used = _Used([])

    def told(self) -> SSAValue:
        """A pipe that says when products are done."""
        made = nv_tileas.CreatePipeline.make([], [PipeType(StringAttr(UMMA), IntAttr(1))], dict(self.given))
        made.location = self.func.location
        assert self.first.parent is not None
        self.first.parent.insert_op_before(made, self.first)
        return made.results[0]

    def run(self) -> None:
        if self.overlap or self.ahead:
            for op in [op for op in self.func.walk() if op.name == "nv_tileas.create_pipeline"]:
                if op.results[0] is self.pipe or _kind(op.results[0]) not in COUNTED:
                    continue
                if _is_read_by_dots(op.results[0]):
                    _hand_to_dots(op)
                elif not self.paired and _is_given_back_behind_dots(op.results[0]):
                    _hand_to_both(op)
        self.block(self.func.regions[0].block)

    def block(self, block: Block, carries: bool = False) -> list[Operation]:
        """Waits where a block's ops need them; what is on its way at the end, if that may be (`carries`), else there is a wait."""
        flying: list[Operation] = []
        held: list[Operation] = []      # releases of stages that products on their way read
        for op in list(block.ops):
            last = op is block.last_op
            if flying and self.overlap and not last and self.may_be_held(op) and self.needs(op, flying):
                held.append(op)
                continue
            if held and (last or (op.name == WAIT and _kind(op.operands[0]) in COUNTED)):
                flying = self.wait(flying, op)      # no stage is held while another one is waited for
            elif flying and (self.one_by_one or (last and not carries)):
                flying = self.wait(flying, op)
            elif flying and self.needs(op, flying):
                flying = self.wait_for_first(flying, op)
            held = self.given_back(held, flying, op)
            if self.counts(op):
                flying.append(op)
            elif op.name == SWITCH:
                multiply = [region for region in op.regions if any(inner.name == TENSOR_DOT for inner in region.walk())]
                for region in op.regions:
                    if region in multiply[1:]:
                        self.pipe = self.told()     # each agent waits for its own
                    self.block(region.block)
            elif op.regions and any(map(self.counts, op.walk())):
                if flying:
                    flying = self.wait(flying, op)
                    held = self.given_back(held, flying, op)
                flying = self.inside(op)
        return flying

    def may_be_held(self, op: Operation) -> bool:
        """Whether giving a stage back may wait until products are waited for anyway."""
        return op.name == RELEASE and not is_told_by_dots(op) and _kind(op.operands[0]) in COUNTED

    def given_back(self, held: list[Operation], flying: list[Operation], before: Operation) -> list[Operation]:
        """Give back, in front of an op, the stages that no product on its way reads any more; the other releases."""
        left = []
        for op in held:
            if self.needs(op, flying):
                left.append(op)
                continue
            op.detach()
            assert before.parent is not None
            before.parent.insert_op_before(op, before)
        return left

    def inside(self, op: Operation) -> list[Operation]:
        """The products of an op's regions; those that are on their way behind it."""
        if op.name == "scf.for" and self.overlap and not any(inner.name in EXITS for inner in op.walk()):
            body = op.regions[0].block
            left = self.block(body, carries=True)
            if left and self.goes_on(body, left) and self.outlives(op, left):
                if any(outer.name in LOOPS for outer in ops_around(op)):
                    # all have done what they do between two runs of the loop, in the other CTA of a pair, too
                    self.insert((nv_tileas.ClusterBarrier if self.paired else nv_tileas.Barrier).make(), op)
                return left
            if left and not self.waits_late(op, left):
                assert body.last_op is not None
                self.wait(left, body.last_op)
            return []
        for region in op.regions:
            for block in region.blocks:
                self.block(block)
        return []

    def goes_on(self, body: Block, left: list[Operation]) -> bool:
        """Whether nothing in a loop's body, run again, needs what its last run has left on its way. A wait inside of an op isn't
        sure to come."""
        for op in body.ops:
            if self.is_wait(op):        # also for what the last run has left: the commit in front of it tells of all products
                return True
            if self.needs(op, left):
                return False
        return True

    def waits_late(self, loop: Operation, left: list[Operation]) -> bool:
        """Where another product runs ahead, or threads load, or begin products, before they need a loop's last products to be done:
        let the next iteration wait for these, in front of what needs them. The first iteration waits for nothing, which is told of
        in front of the loop."""
        body = loop.regions[0].block
        early = [op for op in body.ops if op.name == WAIT and self.ahead.intersection(op.operands[1:])]
        first = next((op for op in body.ops if self.needs(op, left)), None)
        waits = early or [op for op in body.ops if self.context.late_waits and
                          (op.name == TENSOR_DOT or (op.name == WAIT and "by_dots" not in op.properties))]
        if not waits or first is None or body.get_operation_index(first) < body.get_operation_index(waits[0]) or \
                not self.outlives(loop, left):
            return False
        assert body.last_op is not None and loop.next_op is not None
        self.context.waits_late = self.context.waits_late or not early
        places = first, loop.next_op
        count = self.first_of(left, first)
        second = self.later(body, first, left[count:])
        if second is not None:      # the others go on meanwhile
            following = holder_in(body, left[count - 1]).next_op
            assert following is not None
            self.tell_late(loop, self.told(), following, left[:count], places)
            left, places = left[count:], (second, places[1])
        told = any(self.is_commit(inner) for op in body.ops if op.is_before_in_block(places[0]) for inner in op.walk())
        self.tell_late(loop, self.told() if told else self.pipe, body.last_op, left, places)
        return True

    def tell_late(self, loop: Operation, pipe: SSAValue, done: Operation, dots: list[Operation],
                  waits: tuple[Operation, Operation]) -> None:
        """A commit of products in front of `done`, and in front of the loop one of none; waits for them."""
        for before in (loop, done):
            self.insert(nv_tileas.ProducerCommit.make([pipe]), before)
        for before in waits:
            self.insert(nv_tileas.ConsumerWait.make([pipe, self.storage(dots, before)], [i32]), before)

    def later(self, body: Block, first: Operation, dots: list[Operation]) -> Operation | None:
        """What needs products that an op in front doesn't; None where all are to be waited for there."""
        if not dots or self.paired or any(dot.parent is not body for dot in dots):
            return None
        return next((op for op in body.ops if first.is_before_in_block(op) and self.needs(op, dots)), None)

    def counts(self, op: Operation) -> bool:
        """Whether an op is a product that is to be waited for: of one that runs ahead (`advance-dots`), or has an agent of its own
        (`separate-products`), that is done."""
        return op.name == TENSOR_DOT and "told" not in op.properties and op.operands[2] not in self.ahead

    def outlives(self, loop: Operation, left: list[Operation]) -> bool:
        """Let what a loop's last products use live as long as the loop; whether shared memory has room for that."""
        body, outside = loop.regions[0].block, loop.parent
        assert outside is not None
        inside = {v.owner: None for dot in left for v in dot.operands
                  if isinstance(v.owner, nv_tileas.AllocTensor) and v.owner.parent is body and not is_rows(v)}
        places = [(op, op.next_op) for op in reversed(inside)]
        for op, _ in places:
            op.detach()
            outside.insert_op_before(op, loop)
        if not places or plan_shared_memory(self.func).size <= self.target.most_static_smem:
            return True
        for op, following in places:
            op.detach()
            assert following is not None
            body.insert_op_before(op, following)
        return False

    def is_commit(self, op: Operation) -> bool:
        return op.name == COMMIT and op.operands[0] is self.pipe

    def is_wait(self, op: Operation) -> bool:
        return op.name == WAIT and (op.operands[0] is self.pipe or op.operands[0] in self.partly)

    def used_by(self, flying: list[Operation]) -> _Used:
        """What products use: of the list that was asked for last only those that it has gained since are looked at."""
        if self.used.of is not flying:
            self.used = _Used(flying)
        return self.used.now()

    def needs(self, op: Operation, flying: list[Operation]) -> bool:
        """Whether products must be done before an op, or before what is inside of it."""
        used = self.used_by(flying)
        buffers, pipes = used.buffers, used.pipes
        for inner in op.walk():
            if inner.name in EXITS:
                return True
            if inner.name == TENSOR_DOT:
                if used.shapes.get(inner.operands[2], set()) - {_shape(inner)}:
                    return True
                continue        # those are done in order
            if inner.name == RELEASE and inner.operands[0] in pipes and not is_told_by_dots(inner) and \
                    _kind(inner.operands[0]) in COUNTED:
                return True
            if inner.name == WAIT and inner.operands[0] in pipes and _kind(inner.operands[0]) == "group":
                return True     # behind it stands the barrier after which stages are filled again
            if any(isinstance(v.type, TmemType) and v in buffers for v in inner.operands):
                return True
            if any(isinstance(v.type, BufferType) and v in buffers for v in effects_of(inner).writes):
                return True
        return False

    def wait(self, flying: list[Operation], before: Operation) -> list[Operation]:
        storage = self.storage(flying, before)
        self.insert(nv_tileas.ProducerCommit.make([self.pipe]), self.place_of_commit(flying[-1], before))
        self.insert(nv_tileas.ConsumerWait.make([self.pipe, storage], [i32]), before)
        return []

    def place_of_commit(self, last: Operation, before: Operation) -> Operation:
        """In front of what products are told of that are waited for in front of an op: as soon as the last one has begun, where
        nobody waits for earlier ones meanwhile, and threads have met in front of it who have waited for those before."""
        following = last.next_op
        if last.parent is not before.parent or following is None or not is_made_by_threads(last):
            return before
        return before if self.was_waited_for(last, before) else following

    def wait_for_first(self, flying: list[Operation], before: Operation) -> list[Operation]:
        """Wait for those products that an op needs, which a commit of their own tells of where others were begun behind them in the
        same block, or where threads have waited for earlier ones since they were begun; those others."""
        count = self.first_of(flying, before)
        last = flying[count - 1]
        if self.paired or any(dot.parent is not before.parent for dot in flying) or \
                (count == len(flying) and not self.was_waited_for(last, before)):
            return self.wait(flying, before)
        following = last.next_op
        assert following is not None
        pipe = self.idle(following)
        self.partly[pipe] = before
        self.insert(nv_tileas.ProducerCommit.make([pipe]), following)
        self.insert(nv_tileas.ConsumerWait.make([pipe, self.storage(flying[:count], before)], [i32]), before)
        return flying[count:]

    def was_waited_for(self, last: Operation, before: Operation) -> bool:
        """Whether threads wait for other products between one and an op behind it."""
        op = last.next_op
        while op is not None and op is not before:
            if any(self.is_wait(inner) for inner in op.walk()):
                return True
            op = op.next_op
        return False

    def first_of(self, flying: list[Operation], before: Operation) -> int:
        """How many products must be done before an op, which needs one of them."""
        return 1 + bisect_left(range(1, len(flying)), True, key=lambda n: not self.needs(before, flying[n:]))

    def idle(self, before: Operation) -> SSAValue:
        """A pipe that tells of some products, and of which nobody waits for anything at this place: all threads have met since, for
        a product that they make something for, and meet again before the next iteration."""
        for pipe, waiter in self.partly.items():
            if waiter.parent is before.parent and (waiter is before or waiter.is_before_in_block(before)) and \
                    meet_between(waiter, before) and meet_between(before, None):
                return pipe
        return self.told()

    def storage(self, flying: list[Operation], before: Operation) -> list[SSAValue]:
        """What products read and write, as far as it is there in front of an op."""
        known = {before.parent, *(outer.parent for outer in ops_around(before))}
        return list(dict.fromkeys(place for dot in flying for v in dot.operands if isinstance(v.type, (BufferType, TmemType))
                                  for place in _places(v) if not is_rows(v) or _is_there(place.owner, before, known)))

    def insert(self, new: Any, before: Operation) -> None:
        new.location = before.location
        assert before.parent is not None
        before.parent.insert_op_before(new, before)


def _is_there(op: Any, before: Operation, blocks: set[Block | None]) -> bool:
    """Whether what an op makes is known in front of another one, which stands in these blocks."""
    return op.parent in blocks and (op.parent is not before.parent or op.is_before_in_block(before))


def _shape(dot: Operation) -> tuple[int, int, int]:
    """Of a product's instruction. Only those of one shape go into one accumulator in order without a wait (PTX ISA, pipelined
    tcgen05 instructions)."""
    atom = umma_of(dot)
    assert atom is not None
    return atom.m, atom.n, atom.k


def _kind(pipe: SSAValue) -> str:
    t: Any = pipe.type
    return t.kind.data


def is_made_by_threads(dot: Operation) -> bool:
    """Whether threads store what a product reads, or adds to."""
    return any(use.operation.name in STORES for v in dot.operands[:3] for use in v.uses)


def meet_between(first: Operation, end: Operation | None) -> bool:
    """Whether a product of a block, from an op on up to another one, or to the block's end, reads what threads make: they meet in
    front of it."""
    op: Operation | None = first
    while op is not None and op is not end:
        if op.name == TENSOR_DOT and is_made_by_threads(op):
            return True
        op = op.next_op
    return False


def _places(v: SSAValue) -> list[SSAValue]:
    """What has a place of its own: a buffer, an accumulator, the ring that a buffer is a stage of."""
    owner = v.owner
    return [owner.operands[0] if isinstance(owner, Operation) and owner.name == SLICE else v]


def _is_read_by_dots(pipe: SSAValue) -> bool:
    """Whether products into tensor memory, and nothing else, read the stages of a pipe, each stage in the block where it was waited
    for, or in the loop that has carried its number there."""
    found = False
    for use in pipe.uses:
        if use.operation.name != WAIT:
            continue
        for number in numbers_of(use.operation.results[0]):
            home = number.owner if isinstance(number.owner, Block) else number.owner.parent
            for user in [use.operation for use in number.uses]:
                if becomes(number, user):
                    continue
                if user.name != SLICE or any(reader.operation.name != TENSOR_DOT or reader.operation.parent is not home
                                             for reader in user.results[0].uses):
                    return False
                found = True
    return found


def _is_given_back_behind_dots(pipe: SSAValue) -> bool:
    """Whether products into tensor memory read stages of a pipe that threads read, too, each in front of where these give them
    back."""
    ends = [use.operation for use in pipe.uses if use.operation.name == RELEASE]
    slices = [user for use in pipe.uses if use.operation.name == WAIT for number in numbers_of(use.operation.results[0])
              for user in [use.operation for use in number.uses] if user.name == SLICE]
    dots = [use.operation for user in slices for use in user.results[0].uses if use.operation.name == TENSOR_DOT]
    return bool(dots) and all(any(end.parent is dot.parent and dot.is_before_in_block(end) for end in ends) for dot in dots) and \
        all(any(end.parent is dot.parent for dot in dots) for end in ends)


def _hand_to_both(op: Operation) -> None:
    """Threads and the tensor core give the stages of a pipe back, the latter once for each agent."""
    ends = [use.operation for use in op.results[0].uses if use.operation.name == RELEASE]
    consumers: Any = op.properties["consumers"]
    op.properties["consumers"] = IntAttr(consumers.data + len({agent_of(end) for end in ends}))
    for end in ends:
        end.properties["with_dots"] = UnitAttr()


def _hand_to_dots(op: Operation) -> None:
    """The tensor core gives the stages of a pipe back, once for each agent."""
    op.properties["consumers"] = IntAttr(len({agent_of(use.operation) for use in op.results[0].uses if use.operation.name == WAIT}))
    for use in op.results[0].uses:
        if use.operation.name in (WAIT, RELEASE):
            use.operation.properties["by_dots"] = UnitAttr()
