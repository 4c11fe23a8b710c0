"""`overlap-epilogues`: the products of the next tile run while this one's sums are read, by a warp of their own.

    agent_switch {warps = [4, 1]} {                        %d = alloc_tensor : tmem<f32, [2, 128, 128]> ; %done : pipe<"umma", 2>
      for %tile {                                          agent_switch {warps = [4, 1, 1]} {
        %d = alloc_tensor : tmem<f32, [128, 128]>            for %tile {
        for %k { tensor_dot ..., %d }                          %i = consumer_wait %done
        producer_commit %done                                  %sum = load_tmem (tmem_stage %d[%i])
        consumer_wait %done                                    consumer_release %done
        %sum = load_tmem %d                       ->           tiled_store %sum
        tiled_store %sum                                     }
      }                                                    }, { loads }, {
    }, { loads }                                             for %tile {
                                                               %j = producer_acquire %done
                                                               for %k { tensor_dot ..., (tmem_stage %d[%j]) }
                                                               producer_commit %done
                                                             }
                                                           }

For kernels whose load agent runs ahead over several tiles, and that do nothing with a tile before its products are done but begin
them. Tensor memory must have room for every accumulator twice. What decides where products are the warp computes a second time.

Of pairs of CTAs the lower one's warp begins the products of both, when the threads of both have given the accumulator back: they
have such a warp with one accumulator, too.
"""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xdsl.dialects.builtin import IntAttr, i32
from xdsl.ir import Attribute, Operation, Region, SSAValue

from tileiras.analysis import agent_parts as agents
from tileiras.analysis.agents import SWITCH, agent_of, asked_of, placed, switch_of
from tileiras.analysis.program_slice import CONTROL, YIELD, Slice, loop_around
from tileiras.analysis.stage_numbers import pipe_of
from tileiras.analysis.tensor_dots import TENSOR_DOT, is_paired
from tileiras.dialects import nv_tileas
from tileiras.dialects.location_text import location_text
from tileiras.dialects.nv_tileaa import int_values
from tileiras.dialects.nv_tileaa_asm import int_array
from tileiras.dialects.nv_tileas import EXITS, LOADS, PipeType, TmemType
from tileiras.errors import CompileError
from tileiras.layout.atoms.umma import COLUMNS
from tileiras.remarks import PASSED, TENSOR_CORE, remark
from tileiras.transforms.commit_dots import COMMIT, RELEASE, UMMA, WAIT
from tileiras.transforms.places import keep_places
from tileiras.transforms.structure import holder_in, put_in_place
from tileiras.transforms.tma_common import after, before

ACCUMULATORS = 2
"""One that is read, one that products add to."""
WARPS = 1
CLUSTER_BARRIER = "nv_tileas.cluster_barrier"
BARRIERS = ("nv_tileas.barrier", CLUSTER_BARRIER)
MOST_BLOCK_WARPS = 16


def run(module: Any, context: Any) -> None:
    """Give the products of such kernels an agent, in place."""
    if not (context.uses("tcgen05") and context.uses("agents") and context.uses("pipelines")):
        return
    for func in [op for op in module.regions[0].block.ops if op.name == "nv_tileas.func"]:
        made = _separated(func)
        if made is not None:
            put_in_place(made.func, func)
            keep_places(made.func)
            if context.remarks is not None:
                context.remarks.append(remark(
                    made.func, made.loop, PASSED, TENSOR_CORE, "TensorCoreEpiloguesOverlap",
                    "The next tile's products run beside what is done with this one's sums",
                    {"Accumulators": made.accumulators, "Warps": WARPS}))
        elif (meeting := next(filter(_is_agents_own, func.walk()), None)) is not None:
            raise CompileError("agents of two CTAs would have to meet before their product", location_text(meeting))


def _separated(func: Operation) -> _Kernel | None:
    """The function once more with such an agent, None where that can't be."""
    if (found := _Kernel.of(func)) is None or not found.stages:
        return None
    trial = _Kernel.of(func.clone())
    assert trial is not None
    return trial if trial.separate() else None


def _is_agents_own(op: Operation) -> bool:
    """Whether all threads of the cluster are to meet where only an agent's are."""
    return op.name == CLUSTER_BARRIER and agent_of(op) is not None


class _Kernel:
    """`switch`: of the two agents. `commit`: what tells that a tile's products are done, `wait`: who waits for it, both in the
    block of a loop over tiles. `dots`: the products, all before that. `mine`: what goes to the new agent; `late`: what of it stands
    behind the commit, stages that the tensor core gives back. `sums`, `factors`: accumulators, and columns for scale factors."""

    def __init__(self, func: Operation, switch: Any, commit: Operation, wait: Operation) -> None:
        self.func, self.switch, self.commit, self.wait = func, switch, commit, wait
        self.region = switch.regions[0]
        self.loop: Any = commit.parent_op()
        self.dots: list[Any] = [op for op in self.region.walk() if op.name == TENSOR_DOT]
        self.mine = [op for op in self.region.walk() if op.name == TENSOR_DOT or "by_dots" in op.properties]
        self.late = [op for op in self.mine if op.name == RELEASE and op.parent is commit.parent and commit.is_before_in_block(op)]
        self.sums: list[SSAValue] = list(dict.fromkeys(dot.acc for dot in self.dots))
        self.factors: list[SSAValue] = list(dict.fromkeys(dot.factors for dot in self.dots if dot.factors is not None))

    @staticmethod
    def of(func: Operation) -> _Kernel | None:
        """The kernel as the pass understands it, None where it isn't such a one."""
        switch: Any = switch_of(func)
        if switch is None or len(switch.regions) != 2:
            return None
        commits = [op for op in switch.regions[0].walk() if op.name == COMMIT and agents.kind_of(op.operands[0]) == UMMA]
        if len(commits) != 1:
            return None
        wait, outer = commits[0].next_op, commits[0].parent_op()
        if wait is None or wait.name != WAIT or wait.operands[0] is not commits[0].operands[0] or outer is None or \
                loop_around(commits[0]) is not outer:
            return None
        found = _Kernel(func, switch, commits[0], wait)
        return found if found._is_understood() else None

    def _is_understood(self) -> bool:
        """Whether products, and what leads to them, stand before the commit, and everything else behind the wait."""
        body = self.commit.parent
        assert body is not None
        end = body.get_operation_index(self.commit)

        def comes_before(op: Operation) -> bool:
            return _is_in(op, body) and body.get_operation_index(holder_in(body, op)) < end
        if not self.dots or not all(comes_before(op) for op in self.mine if op not in self.late):
            return False
        for dot in self.dots:
            if not isinstance(dot.acc.owner, nv_tileas.AllocTensor) or isinstance(dot.lhs.type, TmemType):
                return False
            for v in (dot.lhs, dot.rhs, dot.lhs_scale, dot.rhs_scale):
                if v is not None and ((pipe := pipe_of(v)) is None or not any(
                        use.operation in self.mine for use in pipe.uses if use.operation.name == WAIT)):
                    return False
        for v in self.sums:
            for use in v.uses:
                if use.operation not in self.dots and use.operation is not self.wait and (
                        comes_before(use.operation) or not _is_in(use.operation, body)):
                    return False
        return all(use.operation in self.dots or use.operation is self.wait for v in self.factors for use in v.uses)

    @property
    def stages(self) -> int:
        """How many accumulators tensor memory has room for in the place of each; 0 where there is none for a second one, or none in
        the block for the agent. Pairs of CTAs have the agent with one, too: their threads can't meet where products begin."""
        places = [op.results[0] for op in self.func.walk() if isinstance(op, nv_tileas.AllocTensor)]
        columns = {v: v.type.columns for v in places if isinstance(v.type, TmemType)}
        last = placed(*self._warps())[-1]
        if columns.keys() != {*self.sums, *self.factors} or last.first_warp + last.span > MOST_BLOCK_WARPS:
            return 0
        if sum(n * (ACCUMULATORS if v in self.sums else 1) for v, n in columns.items()) <= COLUMNS:
            return ACCUMULATORS
        return int(any(map(is_paired, self.dots)))

    def _warps(self) -> tuple[list[int], list[int]]:
        """Warps and registers of the agents with the new one, which has as many registers a thread as the one that loads."""
        warps, registers = asked_of(self.switch)
        return [*warps, WARPS], [*registers, registers[-1]]

    def separate(self) -> bool:
        """Cut the products out; whether that can be. If it can't, the function is left in a state that nobody should use."""
        self._to_stages()
        loads = self.switch.detach_region(self.switch.regions[1])
        cut = cut_apart(self.switch, [*self.mine, self.commit, self.acquire], agents.Written(self.func))
        if cut is None:
            return False
        rest, products = cut
        replace_switch(self.switch, [rest, loads, products], *self._warps(), WARPS)
        return True

    def _to_stages(self) -> None:
        """Two accumulators for each, taken and given back by the pipe that tells of products."""
        for release in self.late:       # behind the wait, where a loop's iteration is a tile of one product
            release.detach()
            self.commit.parent.insert_op_before(release, self.commit)   # type: ignore[union-attr]
        stages = self.stages
        self.accumulators = stages * len(self.sums)
        body, warps = self.commit.parent, int_values(self.switch.properties["warps"])[0]
        assert body is not None
        done: Any = self.commit.operands[0]
        done._type = PipeType(done.type.kind, IntAttr(stages))
        done.owner.properties["consumers"] = IntAttr(warps)
        head = min((holder_in(body, op) for op in self.mine), key=body.get_operation_index)
        while (barrier := head.prev_op) is not None and barrier.name in BARRIERS:
            barrier.detach()        # before products begin all had to have read the last ones' sums
            barrier.erase()
        self.acquire = before(head, nv_tileas.ProducerAcquire.make([done], [i32]), self.commit)
        wait = before(self.wait, nv_tileas.ConsumerWait.make([done, []], [i32]), self.wait)
        last = wait
        self.wait.results[0].replace_all_uses_with(wait.results[0])
        self.wait.detach()
        self.wait.erase()
        for old in self.sums:
            t: Any = old.type
            both = before(self.switch, nv_tileas.AllocTensor.make([], [t.several(stages)]), self.commit)
            written = before(head, nv_tileas.TmemStage.make([both.results[0], self.acquire.results[0]], [t]), self.commit)
            read = before(after(wait), nv_tileas.TmemStage.make([both.results[0], wait.results[0]], [t]), wait)
            for use in list(old.uses):
                if use.operation in self.dots:
                    use.operation.operands[use.index] = written.results[0]
                else:
                    use.operation.operands[use.index] = read.results[0]
                    last = max(last, holder_in(body, use.operation), key=body.get_operation_index)
            old.owner.detach()      # type: ignore[union-attr]
            old.owner.erase()       # type: ignore[union-attr]
            last = max(last, read, key=body.get_operation_index)
        for v in self.factors:
            v.owner.detach()        # type: ignore[union-attr]
            self.func.regions[0].block.insert_op_before(v.owner, self.switch)   # type: ignore[arg-type]
        before(after(last), nv_tileas.ConsumerRelease.make([done]), last)


def _is_in(op: Operation, block: Any) -> bool:
    """Whether an op is in a block, or in one of its ops."""
    at: Operation | None = op
    while at is not None and at.parent is not block:
        at = at.parent_op()
    return at is not None


def cut_apart(switch: Any, mine: list[Operation], written: agents.Written,
              theirs: Iterable[Operation] = ()) -> tuple[Region, Region] | None:
    """Of a switch's only region: what threads do, and what a warp does that has the ops `mine`, each with what it needs; None where
    that warp can't have this. `theirs`: ops of the threads by whose effects it needs nothing, since pipes tell of them."""
    region = switch.regions[0]
    func = switch.parent_op()
    above = [func, *(op for op in func.regions[0].block.ops if op is not switch)]
    roots = [*mine, *filter(_is_told, region.walk())]
    products = Slice(switch, roots, above=[*above, *theirs], keep_tokens=False)
    others = products.ops.difference(roots)
    try:
        for op in others:
            agents.check_load(op, products, roots, written, set())
    except agents.Refusal:
        return None
    if any(agents.is_placed(op, products) for op in others):
        return None
    left = {*above, *mine}
    effects = [op for op in region.walk() if op not in left and _has_effect(op)]
    rest = Slice(switch, effects, above=left, keep_tokens=True)
    return rest.copy(), products.copy()


def replace_switch(old: Any, regions: list[Region], warps: list[int], registers: list[int], more: int) -> Any:
    """A switch of these agents in the place of one, which goes, and its agents' regions with it; `more` warps are told of further
    tile blocks."""
    properties: dict[str, Attribute] = {"warps": int_array(warps)}
    if any(registers):
        properties["registers"] = int_array(registers)
    for pipe in {op.operands[0].owner for op in old.regions[0].walk() if _is_told(op) and op.name == RELEASE}:
        pipe.properties["consumers"] = IntAttr(pipe.properties["consumers"].data + more)
    made = nv_tileas.AgentSwitch.create(regions=regions, properties=properties, location=old.location)
    old.parent.insert_op_before(made, old)
    old.detach()
    old.erase(safe_erase=False)
    return made


def _is_told(op: Operation) -> bool:
    """Whether an op takes what every agent is told, such as a further tile block's id."""
    return op.name in agents.BOTH or (op.name in agents.CONSUMES and agents.is_told_to_all(op.operands[0]))


def _has_effect(op: Operation) -> bool:
    """Whether the agents that compute do something by an op, not only for another one."""
    if op.name in CONTROL or op.name in EXITS or op.name == YIELD or op.name in agents.PLACES or op.name == SWITCH:
        return False
    return not agents.is_pure(op) and not (op.name in LOADS and agents.is_weak(op))
