"""`separate-products`: attention's products are begun by a warp of their own, so that each begins as soon as it can.

    agent_switch {warps = [4, 1]} {                    %s, %p, %o = alloc_tensor ; %scores : pipe<"umma", 1>
      %o = alloc_tensor                                %weights : pipe<"mbarrier", 1> {producers = 4}
      store_tmem %zero, %o                             agent_switch {warps = [4, 1, 1]} {
      for %i {                                           store_tmem %zero, %o
        %j = consumer_wait %keys                         for %i {
        %s = alloc_tensor                                  consumer_wait %scores
        tensor_dot %q, %k[%j], %s                          %x = load_tmem %s ; consumer_release %scores
        consumer_release %keys                             producer_acquire %weights
        %x = load_tmem %s                                  store_tmem (softmax %x), %p
        scale_tmem %f, %o                        ->        scale_tmem %f, %o
        %p = alloc_tensor                                  producer_commit %weights
        store_tmem (softmax %x), %p                      }
        %l = consumer_wait %values                       producer_acquire %weights
        tensor_dot %p, %v[%l], %o                        ... load_tmem %o
        consumer_release %values                       }, { loads }, {
      }                                                  if there is an iteration { (scores) }
      ... load_tmem %o                                   for %i {
    }, { loads }                                           if there is one behind {
                                                             consumer_wait %keys ; producer_acquire %scores      (scores)
                                                             tensor_dot %q, %k, %s ; producer_commit %scores ; ...
                                                           }
                                                           consumer_wait %weights ; consumer_wait %values
                                                           tensor_dot %p, %v, %o ; consumer_release %weights ; ...
                                                         }
                                                       }

Threads hold the scores in registers as soon as they have loaded them: from then on the tensor core may write the next ones, if
their keys are there, which a warp by itself can wait for. Nor do threads meet: each warp says of its rows that their weights are
stored. What has the weights' place empty again, the second product's end, also tells that its sums may be rescaled, or read, or
added to others (`place-sums`).

For kernels whose agents that compute have products in loops only, of such pairs, one a loop. Scores, weights and sums then have
columns of their own; where blocks share an SM they must still. Left alone where many blocks do, of threads with so many
exponentials that the unit for those is busy anyway (`MUCH`).
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntAttr, StringAttr, UnitAttr, i32
from xdsl.ir import Block, Operation, Region, SSAValue

from tileiras.analysis import agent_parts as agents
from tileiras.analysis.agents import REGISTER_STEP, WARPGROUP, asked_of, placed, switch_of
from tileiras.analysis.program_slice import RETURN
from tileiras.analysis.shared_memory import plan_shared_memory
from tileiras.analysis.stage_numbers import pipe_of
from tileiras.analysis.tensor_dots import TENSOR_DOT, is_paired
from tileiras.analysis.tensor_memory import allocated, plan_tensor_memory
from tileiras.dialects import nv_tileas
from tileiras.dialects.nv_tileaa import int_values
from tileiras.dialects.nv_tileas import EXITS, PipeType, TmemType
from tileiras.layout.atoms.umma import COLUMNS
from tileiras.remarks import PASSED, TENSOR_CORE, remark
from tileiras.schedule.depth import registers_of, shared_budget
from tileiras.transforms.advance_dots import LOAD, OPERANDS, SHARED, blocks_of_an_sm
from tileiras.transforms.agent_registers import COPY_REGISTERS, registers_in_agents
from tileiras.transforms.commit_dots import COUNTED, RELEASE, SLICE, UMMA, WAIT
from tileiras.transforms.iterations import Iterations
from tileiras.transforms.overlap_epilogues import MOST_BLOCK_WARPS, WARPS, cut_apart, replace_switch
from tileiras.transforms.places import keep_places
from tileiras.transforms.structure import put_in_place
from tileiras.transforms.tma_common import after, before

STORE, SCALE, ADD = "nv_tileas.store_tmem", "nv_tileas.scale_tmem", "nv_tileas.add_tmem"
BY_THREADS_IN_PLACE = frozenset({LOAD, STORE, SCALE, ADD})
BY_THREADS = "mbarrier"
"""A pipe that each warp tells when it has done its part."""
MOST_BLOCKS, MUCH = 4, 256
"""Blocks on an SM that are looked for; a thread's exponentials in an iteration, of all blocks of an SM, from which more than two
blocks are left alone (32 features, 128x64 tiles, full B200: four blocks 42.5 us, 46.8 so; but 64 features, 128x32: 90.8, 73.3)."""


LEAST_OF_CHAINS = 128
"""Of a thread of two chains: with those of two blocks an SM none are left for the warps that begin products."""


def run(module: Any, context: Any) -> None:
    """Give the products of such kernels agents, in place."""
    give_agents(module, context, _Kernel.of, lambda made: remark(
        made.func, made.switch, PASSED, TENSOR_CORE, "TensorCoreByOwnWarps",
        "Warps of their own begin both products, each as soon as it can", {"Warps": made.more_warps}))


def give_agents(module: Any, context: Any, kernel_of: Any, told: Any) -> None:
    """Give the products of functions agents of their own, in place, where `kernel_of` understands them and there is room; what
    `told` makes of such a kernel is the remark that says so."""
    if not (context.uses("tcgen05") and context.uses("agents") and context.uses("pipelines")):
        return
    for func in [op for op in module.regions[0].block.ops if op.name == "nv_tileas.func"]:
        found = kernel_of(func, context.target)
        if found is None or not found.has_room():
            continue
        trial = kernel_of(func.clone(), context.target)
        most = shared_budget(trial.target, trial.blocks) if trial.blocks > 1 else trial.target.most_static_smem
        if trial.separate() and plan_shared_memory(trial.func).size <= most:
            put_in_place(trial.func, func)
            keep_places(trial.func)
            if context.remarks is not None:
                context.remarks.append(told(trial))


def pipe_before(switch: Any, kind: str, stages: int, **counts: int) -> SSAValue:
    """A pipe that the agents of a switch tell each other by."""
    made = nv_tileas.CreatePipeline.make([], [PipeType(StringAttr(kind), IntAttr(stages))],
                                         {name: IntAttr(count) for name, count in counts.items()})
    return before(switch, made, switch).results[0]


class _Chain:
    """An agent's products. `pairs`: those of each loop; `scores`, `weights`, `sums`: what the first ones give, and what the second
    ones read and add to; `placed`: what threads add the latter to, if they do; `pipes`: that tell of stages which
    only products read, of first ones and of second ones."""

    def __init__(self, region: Region, warps: int) -> None:
        self.region, self.warps = region, warps
        dots: list[Any] = [op for op in region.walk() if op.name == TENSOR_DOT]
        second = [dot for dot in dots if isinstance(dot.lhs.type, TmemType)]
        first = [dot for dot in dots if not isinstance(dot.lhs.type, TmemType)]
        self.pairs: list[tuple[Any, Any]] = list(zip(first, second))
        self.paired = len(first) == len(second) > 0 and not any(is_paired(dot) or len(dot.operands) != OPERANDS for dot in dots)
        self.scores: list[SSAValue] = list(dict.fromkeys(dot.acc for dot in first))
        self.weights: list[SSAValue] = list(dict.fromkeys(dot.lhs for dot in second))
        self.sums: list[SSAValue] = list(dict.fromkeys(dot.acc for dot in second))
        self.placed: list[SSAValue] = list(dict.fromkeys(
            use.operation.operands[2] for v in self.sums for use in v.uses if use.operation.name == ADD))
        self.pipes: tuple[dict[SSAValue, None], dict[SSAValue, None]] = {}, {}

    def is_understood(self) -> bool:
        """Whether each loop's iteration is: scores, by one product; what threads do with them; the weights' product."""
        bodies = {one.parent for one, _ in self.pairs}
        if not self.paired or len(self.sums) != 1 or len(bodies) != len(self.pairs) or not all(map(self._is_pair, self.pairs)):
            return False
        for use in self.sums[0].uses:
            op = use.operation
            if op.name not in ((SCALE, ADD, TENSOR_DOT) if op.parent in bodies else (LOAD, STORE, ADD)):
                return False
        if any(use.operation.name not in (LOAD, STORE, ADD) for v in self.placed for use in v.uses):
            return False
        return self._reads_stages()

    def _is_pair(self, pair: tuple[Any, Any]) -> bool:
        one, two = pair
        body: Block = one.parent
        loop: Any = body.parent_op()
        if two.parent is not body or loop.name != "scf.for" or any(op.name in EXITS for op in loop.walk()) or \
                not all(isinstance(v.owner, nv_tileas.AllocTensor) for v in (one.acc, two.lhs, two.acc)):
            return False
        if any(op.regions or any(v.owner is body for v in op.operands) for op in _needed(one)):
            return False        # it can't run ahead of what it needs of its own iteration
        loads, stores, scales = self.around(pair)
        at = body.get_operation_index
        return len(loads) == sum(1 for _ in one.acc.uses) - 1 > 0 and len(stores) == sum(1 for _ in two.lhs.uses) - 1 > 0 and \
            at(one) < at(loads[0]) and at(loads[-1]) < at(stores[0]) and max(map(at, [*stores, *scales])) < at(two)

    def around(self, pair: tuple[Any, Any]) -> tuple[list[Operation], list[Operation], list[Operation]]:
        """In order, the ops that load an iteration's scores, those that store its weights, and what rescales the sums in it."""
        one, two = pair
        body: Block = one.parent

        def those(v: SSAValue, name: str) -> list[Operation]:
            return sorted((op for use in v.uses if (op := use.operation).name == name and op.parent is body),
                          key=body.get_operation_index)
        return those(one.acc, LOAD), those(two.lhs, STORE), those(two.acc, ADD if self.placed else SCALE)

    def _reads_stages(self) -> bool:
        """Whether what products read in shared memory are stages that the load agent fills, and nobody else of the agent reads;
        and those of first products others than those of second ones."""
        for which, pipes in enumerate(self.pipes):
            dots = [pair[which] for pair in self.pairs]
            for v in (v for dot in dots for v in (dot.lhs, dot.rhs) if not isinstance(v.type, TmemType)):
                pipe = pipe_of(v)
                if pipe is None or agents.kind_of(pipe) not in COUNTED:
                    return False
                pipes[pipe] = None
            for pipe in pipes:
                for op in self._on(pipe, WAIT):
                    users = [use.operation for use in op.results[0].uses]
                    if any(user.name != SLICE or any(use.operation not in dots for use in user.results[0].uses) for user in users):
                        return False
        return not self.pipes[0].keys() & self.pipes[1].keys()

    def _on(self, pipe: SSAValue, *names: str) -> list[Operation]:
        """The ops of these names on a pipe, of the agent."""
        return [use.operation for use in pipe.uses if use.operation.name in names and self.region.is_ancestor(use.operation)]

    def tell(self, scores: SSAValue, weights: SSAValue) -> list[Operation]:
        """Both sides tell each other by pipes, still in one agent: the ops of the products'."""
        mine: list[Operation] = []
        for one, two in self.pairs:
            body: Block = one.parent
            loads, stores, scales = self.around((one, two))
            mine += [before(one, nv_tileas.ProducerAcquire.make([scores], [i32]), one), one,
                     before(after(one), nv_tileas.ProducerCommit.make([scores]), one)]
            before(loads[0], nv_tileas.ConsumerWait.make([scores, [one.acc]], [i32]), loads[0])
            before(after(loads[-1]), nv_tileas.ConsumerRelease.make([scores]), loads[-1])
            before(stores[0], nv_tileas.ProducerAcquire.make([weights, stores[0].operands[0]], [i32]), stores[0])
            for scale in reversed(scales):
                if scale.is_before_in_block(stores[-1]):    # behind the weights, which then take half as many registers
                    scale.detach()
                    body.insert_op_after(scale, stores[-1])
            last = max([stores[-1], *scales], key=body.get_operation_index)
            before(after(last), nv_tileas.ProducerCommit.make([weights]), last)
            by_dots = {"by_dots": UnitAttr()}
            given_back = [op for pipe in self.pipes[1] for op in self._on(pipe, RELEASE) if op.parent is body]
            last = max([two, *given_back], key=body.get_operation_index)    # when threads go on nobody is told of anything later
            mine += [before(two, nv_tileas.ConsumerWait.make([weights, []], [i32], dict(by_dots)), two), two,
                     before(after(last), nv_tileas.ConsumerRelease.make([weights], [], dict(by_dots)), two)]
            for dot in (one, two):
                dot.properties["told"] = UnitAttr()
        for op in [use.operation for use in self.sums[0].uses if use.operation.name in (LOAD, STORE, ADD) and
                   not any(use.operation.parent is one.parent for one, _ in self.pairs)]:
            before(op, nv_tileas.ProducerAcquire.make([weights], [i32]), op)    # once the last product is done
        for op in [use.operation for use in self.sums[0].uses if use.operation.name == ADD]:
            op.properties["wide"] = UnitAttr()
        for op in (op for pipes in self.pipes for pipe in pipes for op in self._on(pipe, WAIT, RELEASE)):
            op.properties["by_dots"] = UnitAttr()
            mine.append(op)
        for op in [op for op in mine if op.name == RELEASE and _is_filled_once(op.operands[0])]:
            # where no iteration has told threads that it has come, they may write where it lies
            before(op, nv_tileas.ConsumerWait.make([op.operands[0], []], [i32]), op)
            before(op, nv_tileas.ConsumerRelease.make([op.operands[0]]), op)
        return mine


class _Kernel:
    """`switch`: of agents that compute, and of one that loads; `blocks`: that share an SM as the kernel is."""

    def __init__(self, func: Operation, switch: Any, chains: list[_Chain], target: Any) -> None:
        self.func, self.switch, self.chains, self.target = func, switch, chains, target
        plans = [plan for chain in chains if (plan := plan_tensor_memory(chain.region)) is not None]
        self.blocks = blocks_of_an_sm(func, target, sum(plan.allocation for plan in plans), MOST_BLOCKS)
        self.more_warps = WARPS * len(chains)

    @staticmethod
    def of(func: Operation, target: Any) -> _Kernel | None:
        """The kernel as the pass understands it, None where it isn't such a one."""
        switch: Any = switch_of(func)
        if switch is None or "cluster" in func.properties:
            return None
        chains = [_Chain(region, warps) for region, warps in zip(switch.regions[:-1], int_values(switch.properties["warps"]))]
        known = {v for chain in chains for v in (*chain.scores, *chain.weights, *chain.sums, *chain.placed)}
        places = {op.results[0] for op in func.walk() if isinstance(op, nv_tileas.AllocTensor)}
        if not chains or {v for v in places if isinstance(v.type, TmemType)} != known:
            return None
        if any(op.name == TENSOR_DOT for op in switch.regions[-1].walk()) or not all(chain.is_understood() for chain in chains):
            return None
        return _Kernel(func, switch, chains, target)

    def has_room(self) -> bool:
        """Whether the block has warps for the agents, and tensor memory columns for everything at once; for the blocks that share
        an SM now, too."""
        each = max(sum(registers_of(op.results[0]) for op in chain.around(pair)[0])
                   for chain in self.chains for pair in chain.pairs)
        if self.blocks > SHARED and self.blocks * each >= MUCH:
            return False
        warps, registers = self._agents()
        if len(self.chains) > 1 and 0 < registers[0] < LEAST_OF_CHAINS:
            return False
        last = placed(warps, registers)[-1]
        columns = allocated(sum(v[0].type.columns for chain in self.chains              # type: ignore[attr-defined]
                                for v in (chain.scores, chain.weights, chain.sums, chain.placed) if v))
        return last.first_warp + last.span <= MOST_BLOCK_WARPS and columns <= COLUMNS // self.blocks

    def _agents(self) -> tuple[list[int], list[int]]:
        """Warps and registers of the agents with the new ones, which have as many registers a thread as the one that loads, enough
        for descriptors. With more warps blocks share an SM's registers if threads that need few lend theirs."""
        warps, registers = asked_of(self.switch)
        threads = sum(warps[:-1])
        if any(registers) and registers[-1] < COPY_REGISTERS:
            spare = (COPY_REGISTERS - registers[-1]) * WARPGROUP
            registers = [*(r - -(-spare // threads // REGISTER_STEP) * REGISTER_STEP for r in registers[:-1]), COPY_REGISTERS]
        elif self.blocks > 1 and not any(registers):
            lent = registers_in_agents([threads, warps[-1]], self.blocks, [], self.target)
            assert lent is not None     # of several blocks the load agent always lends some
            registers = [*[lent[0]] * len(self.chains), lent[1]]
        return [*warps, *[WARPS] * len(self.chains)], [*registers, *[registers[-1]] * len(self.chains)]

    def separate(self) -> bool:
        """Cut the products out; whether that can be. If it can't, the function is left in a state that nobody should use."""
        warps, registers = self._agents()
        for chain in self.chains:
            self._one_place_each(chain)
        parts = [chain.tell(pipe_before(self.switch, UMMA, 1, consumers=chain.warps),
                            pipe_before(self.switch, BY_THREADS, 1, producers=chain.warps, consumers=WARPS))
                 for chain in self.chains]
        for pipe in {pipe for chain in self.chains for pipes in chain.pipes for pipe in pipes}:
            readers = [chain for chain in self.chains if any(pipe in pipes for pipes in chain.pipes)]
            pipe.owner.properties["consumers"] = IntAttr(       # type: ignore[union-attr]
                sum(WARPS + (chain.warps if _is_filled_once(pipe) else 0) for chain in readers))
        written = agents.Written(self.func)
        self._end_together()
        *_, loads = [self.switch.detach_region(region) for region in list(self.switch.regions)]
        threads, products = [], []
        for chain, mine in zip(self.chains, parts):
            self.switch.add_region(chain.region)
            theirs = [op for op in chain.region.walk() if op.name in BY_THREADS_IN_PLACE]
            cut = cut_apart(self.switch, mine, written, theirs)
            self.switch.detach_region(chain.region)
            if cut is None:
                return False
            threads.append(cut[0])
            products.append(cut[1])
        for chain in self.chains:
            self.switch.add_region(chain.region)        # what goes with the switch uses nothing any more
        self.switch = replace_switch(self.switch, [*threads, loads, *products], warps, registers, self.more_warps)
        for region in products:
            for dot in [op for op in region.walk() if op.name == TENSOR_DOT and not isinstance(op.operands[0].type, TmemType)]:
                _advance(dot)
        return True

    def _end_together(self) -> None:
        """The first agent, which gives the columns back, waits for the others to have read theirs."""
        first, *others = (list(filter(lambda op: op.name == RETURN, chain.region.walk())) for chain in self.chains)
        for chain, ends in zip(self.chains[1:], others):
            done = pipe_before(self.switch, BY_THREADS, 1, producers=chain.warps, consumers=self.chains[0].warps)
            for end in ends:
                before(end, nv_tileas.ProducerCommit.make([done]), end)
            for end in first:
                before(end, nv_tileas.ConsumerWait.make([done, []], [i32]), end)
                before(end, nv_tileas.ConsumerRelease.make([done]), end)

    def _one_place_each(self, chain: _Chain) -> None:
        """Scores, weights and sums of all loops have one place each, which all agents know."""
        for home, *others in filter(None, (chain.scores, chain.weights, chain.sums, chain.placed)):
            for v in (home, *others):
                v.owner.detach()        # type: ignore[union-attr]
            self.func.regions[0].block.insert_op_before(home.owner, self.switch)    # type: ignore[arg-type]
            for v in others:
                v.replace_all_uses_with(home)
                v.owner.erase()         # type: ignore[union-attr]


def _is_filled_once(pipe: SSAValue) -> bool:
    return "once" in pipe.owner.properties      # type: ignore[union-attr]


def _needed(dot: Operation) -> set[Operation]:
    """A product and the ops of its block that lead to it."""
    found: set[Operation] = set()
    pending = [dot]
    while pending:
        op = pending.pop()
        if op not in found:
            found.add(op)
            pending += [maker for v in op.operands if isinstance(maker := v.owner, Operation) and maker.parent is dot.parent]
    return found


def _advance(dot: Operation) -> None:
    """Begin a loop's first product in front of it, and each following one in front of what is behind the one before."""
    body = dot.parent
    assert body is not None
    loop: Any = body.parent_op()
    wanted = _needed(dot)
    pipes = {op.operands[0] for op in wanted if op.name == WAIT}        # what tells that a stage is empty goes along,
    pipes.update(op.operands[0] for use in dot.operands[2].uses if (op := use.operation).name == WAIT)     # and that one is filled
    wanted.update(use.operation for pipe in pipes for use in pipe.uses)
    ops = [op for op in body.ops if op in wanted]
    ahead = Iterations(loop)

    def again() -> list[SSAValue]:
        known: dict[SSAValue, SSAValue] = {}
        for op in ops:
            ahead.insert(op.clone(known))
        return []
    ahead.branch(ahead.some(), again, [])
    assert body.first_op is not None
    ahead.before = body.first_op
    ahead.branch(ahead.following(1)[1], again, [])
    for op in reversed(ops):
        op.detach()
        op.erase()
