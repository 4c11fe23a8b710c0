"""`unspecialized-pipeline`: the copies of a ring of S stages run S - 1 iterations ahead, by the threads that also compute.

    %pipe = create_pipeline                       %pipe = create_pipeline
    scf.for %i = %a to %b step %s {               S - 1 times: acquire ; copy of iteration k if %a + k * %s < %b ; commit
      acquire ; copy %v[%i] ; commit              scf.for %i = %a to %b step %s {
      wait {pending = 0} ; barrier        ->        wait {pending = S - 2} ; barrier
      compute                                       acquire ; copy %v[%i + (S - 1) * %s] if that is < %b
    }                                               compute ; commit
    barrier                                       }
                                                  wait {pending = 0} ; barrier

No compute is copied. The copies' instructions are spread over the body's first product, so that tensor cores don't wait for them;
in as few lots as that allows (`lots_of`): between reads of operands from shared memory and copies that follow ptxas has three
reads of nothing, of every warp (A100: 32x32x128 in lots of one copy a thread 66.6 us, in one lot 55.0; 128x128x64 in three lots
175.9, in two 152.4).
Every iteration commits a group, an empty one where nothing is copied any more: the number of groups that may be pending is always
the same, and trip counts down to zero need no version of their own. The slot that is filled was read in the iteration before,
which every thread has finished at the barrier. Carried values that addresses depend on get copies of their own that run ahead.
A loop inside another one starts its ring anew each time.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntAttr, IntegerType, i32
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.agents import WARP_THREADS
from tileiras.analysis.ahead import Slice, address_of, is_cheap_and_pure, slice_of
from tileiras.analysis.async_copies import chunks_of
from tileiras.analysis.layout_rules import dot_shape, instruction_k
from tileiras.analysis.tensor_dots import is_of_warps
from tileiras.dialects import arith, nv_tileas
from tileiras.dialects.base import OPERAND_SEGMENTS
from tileiras.dialects.nv_tileas import COPIES_BY_THREADS, PipeType
from tileiras.transforms.iterations import Iterations

LOT = 32
"""Copies' instructions of a block's warps that stand together: what they write doesn't keep shared memory from the product's reads
for longer than instructions that have begun keep the tensor cores busy."""
LOT_OF_ATTENTION = 16
"""The same behind scores that threads wait for (64 keys of 64 features, A100: 132.9 us by lots of 32, 124.9)."""


def run(module: Operation, context: Any = None) -> None:
    """Let the copies run ahead, in place."""
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            for op in [op for op in func.walk() if op.name == "nv_tileas.producer_commit"]:
                loop = op.parent_op()
                t: Any = op.operands[0].type
                if loop is not None and loop.name == "scf.for" and t.kind.data == "group" and t.stages.data > 1:
                    expansion = _Expansion(loop, op.operands[0])
                    if expansion.is_of_copies:
                        expansion.run()


class _Expansion(Iterations):
    """One loop. `section`: its ops from the acquire to the commit."""

    def __init__(self, loop: Any, pipe: SSAValue) -> None:
        super().__init__(loop)
        self.pipe = pipe
        t: Any = pipe.type
        assert isinstance(t, PipeType)
        self.ahead = t.stages.data - 1
        of_pipe = [use.operation for use in pipe.uses if use.operation.parent is self.body]
        self.acquire, self.commit, self.wait = (next(op for op in of_pipe if op.name == f"nv_tileas.{name}") for name in (
            "producer_acquire", "producer_commit", "consumer_wait"))
        self.section = [self.acquire]
        while self.section[-1] is not self.commit:
            following = self.section[-1].next_op
            assert following is not None
            self.section.append(following)

    @property
    def is_of_copies(self) -> bool:
        """Whether the section fills stages by nothing but copies."""
        return all(op.name in (*COPIES_BY_THREADS, "nv_tileas.extract_slice") for op in self.section[1:-1])

    def run(self) -> None:
        lower, upper, step = self.loop.operands[:3]
        self.copies = copies = [op for op in self.section if op.name in COPIES_BY_THREADS]
        addresses = slice_of(self.loop, [v for op in copies for v in address_of(op)], is_cheap_and_pure, len(copies))
        assert addresses.obstacle is None
        args = self.body.args
        carried = {n: self.loop.operands[3 + n] for n in addresses.carried}
        # the prologue
        self.before = self.loop
        some = self.some()
        left = self.widened(self.make(arith.Subi, [upper, lower], self.index_type))
        at = lower
        for k in range(self.ahead):
            guard = some if k == 0 else self.make(arith.Andi, [some, self.exceeds(left, self.distance(step, k))], IntegerType(1))
            carried = self.produce(addresses, at, carried, guard)
            at = self.make(arith.Addi, [at, step], self.index_type)
        # the body: its own section goes, one that runs ahead stands behind the barrier
        barrier = self.wait.next_op
        assert barrier is not None and barrier.name == "nv_tileas.barrier" and barrier.next_op is not None
        self.wait.properties["pending"] = IntAttr(self.ahead - 1)
        self.before = barrier.next_op
        arguments = {n: self.body.insert_arg(args[1 + n].type, len(self.body.args)) for n in addresses.carried}
        at, guard = self.following(self.ahead)
        product = self.first_product()
        following = self.produce(addresses, at, arguments, guard, product)
        for op in reversed(self.section):
            op.detach()
            op.erase()
        for op in reversed(addresses.updates):
            if all(r.first_use is None for r in op.results):
                op.detach()
                op.erase()
        self.finish(list(carried.values()), list(following.values()))

    def finish(self, inits: list[SSAValue], following: list[SSAValue]) -> None:
        """More carried values, and behind the loop the wait for what is still on its way."""
        loop = self.carry(inits, following)
        wait = nv_tileas.ConsumerWait.make([self.pipe], [i32], {"pending": IntAttr(0)})
        wait.location = loop.location
        assert loop.parent is not None
        loop.parent.insert_op_after(wait, loop)

    def first_product(self) -> Operation | None:
        """The first product of the body itself, whose instructions leave room for the copies' between them."""
        return next((op for op in self.body.ops if op.name == "nv_tileas.dot" and is_of_warps(op)), None)

    def produce(self, addresses: Slice, at: SSAValue, carried: dict[int, SSAValue], guard: SSAValue,
                product: Operation | None = None) -> dict[int, SSAValue]:
        """The section for the iteration whose counter is `at`, and the carried values of the one after it. The copies are spread
        over `product`, behind which they are committed, if there is one."""
        args = self.body.args
        lots = None if product is None else IntAttr(lots_of(self.copies, product))
        values: dict[SSAValue, SSAValue] = {args[0]: at, **{args[1 + n]: v for n, v in carried.items()}}
        for op in (*(addresses.updates if carried else addresses.roots), *self.section):
            copy = op.clone(values)
            if op.name in COPIES_BY_THREADS:
                set_guard(copy, guard)
                if lots is not None:
                    copy.properties["spread"] = lots
            if op is self.commit and product is not None:
                self.body.insert_op_after(copy, product)
            else:
                self.insert(copy)
        last: Any = self.body.last_op
        return {n: values.get(last.operands[n]) or last.operands[n] for n in carried}


def lots_of(copies: list[Operation], product: Operation) -> int:
    """In how many lots copies stand behind a product's steps of k, the last one without any."""
    instructions = sum(chunks_of(op) // WARP_THREADS for op in copies)
    steps = dot_shape(product)[-1] // instruction_k(product)
    lot = LOT_OF_ATTENTION if "chained" in product.properties else LOT
    return min(max(1, instructions // lot), max(1, steps - 1))


def set_guard(copy: Any, guard: SSAValue) -> None:
    """Let a copy be made only where the guard holds."""
    given = [copy.view, copy.coords] if isinstance(copy, nv_tileas.TiledCopy) else [copy.ptr, copy.mask]
    new = type(copy).make([*given, copy.buffer, copy.pipe, copy.index, guard, copy.token], [])
    copy.operands = list(new.operands)
    copy.properties[OPERAND_SEGMENTS] = new.properties[OPERAND_SEGMENTS]
    new.erase()
