"""`separate-made-rows`: products whose rows threads make are begun by a warp of their own, while threads make the next ones.

    agent_switch {warps = [4, 1]} {                %r = alloc_tensor : tmem<f16, [2, 64, 64]> ; %d = alloc_tensor
      %d = alloc_tensor                            %made : pipe<"mbarrier", 2> {producers = 4} ; %done : pipe<"umma", 1>
      for %i {                                     agent_switch {warps = [4, 1, 1]} {
        %j = consumer_wait %rows                     for %i {
        %x = load_shared ...[%j]                       %j = consumer_wait %rows
        %r = alloc_tensor                              %x = load_shared ...[%j]
        store_tmem (mulf %x, %g), %r                   %n = producer_acquire %made
        consumer_release %rows                ->       store_tmem (mulf %x, %g), (tmem_stage %r[%n])
        %l = consumer_wait %columns                    producer_commit %made
        tensor_dot %r, %c[%l], %d                      consumer_release %rows
        consumer_release %columns                    }
      }                                              consumer_wait %done
      ... load_tmem %d                               ... load_tmem %d
    }, { loads }                                   }, { loads }, {
                                                     for %i {
                                                       %n = consumer_wait %made ; %l = consumer_wait %columns
                                                       tensor_dot (tmem_stage %r[%n]), %c[%l], %d
                                                       consumer_release %columns ; consumer_release %made
                                                     }
                                                     producer_commit %done
                                                   }

Threads then neither meet for a product nor wait for one, but for that of two iterations before, whose place they take (columns
scaled, 64x128x64 of 64x4096 by 2048, B200: 10.9 us before, 8.6 so; 2048 rows 56.3 and 54.2; 128x128x64 34.9 and 32.8).

For kernels whose only products are those of one loop, which runs once, and whose other operands are stages that the load agent
fills for them alone.
"""
from __future__ import annotations

from math import prod
from typing import Any

from xdsl.dialects.builtin import IntAttr, UnitAttr, i32
from xdsl.ir import Block, Operation, SSAValue

from tileiras.analysis import agent_parts as agents
from tileiras.analysis.agents import WARP_THREADS, asked_of, placed, switch_of
from tileiras.analysis.program_slice import loop_around
from tileiras.analysis.stage_numbers import pipe_of
from tileiras.analysis.tensor_dots import TENSOR_DOT, is_paired
from tileiras.analysis.tensor_memory import allocated
from tileiras.dialects import nv_tileas
from tileiras.dialects.nv_tileaa import int_values
from tileiras.dialects.nv_tileas import EXITS, TmemType
from tileiras.layout.atoms.umma import COLUMNS
from tileiras.remarks import PASSED, TENSOR_CORE, remark
from tileiras.transforms.advance_dots import LOAD, OPERANDS, blocks_of_an_sm
from tileiras.transforms.agent_registers import beside_sums, blocks_of_warps
from tileiras.transforms.commit_dots import COUNTED, RELEASE, SLICE, UMMA, WAIT
from tileiras.transforms.overlap_epilogues import MOST_BLOCK_WARPS, WARPS, cut_apart, replace_switch
from tileiras.transforms.separate_products import BY_THREADS, MOST_BLOCKS, SCALE, STORE, give_agents, pipe_before
from tileiras.transforms.tma_common import after, before

TURNS = 2
"""Places of the rows: one that threads write, one that products read."""


def run(module: Any, context: Any) -> None:
    """Give the products of such kernels an agent, in place."""
    give_agents(module, context, _Kernel.of, lambda made: remark(
        made.func, made.switch, PASSED, TENSOR_CORE, "TensorCoreRowsByOwnWarp",
        "A warp of its own begins products while threads make the next ones' rows", {"Warps": made.more_warps}))


class _Kernel:
    """`switch`: of an agent that computes, and of one that loads; `dots`: the products, all in `loop`; `rows`: what threads make
    for them, `sums`: what they add to; `stores`: of the rows; `pipes`: of the stages that products read; `blocks`: that share an
    SM."""

    def __init__(self, func: Operation, switch: Any, dots: list[Any], target: Any) -> None:
        self.func, self.switch, self.dots, self.target = func, switch, dots, target
        self.region = switch.regions[0]
        self.body: Block = dots[0].parent
        self.loop: Any = self.body.parent_op()
        self.rows: list[SSAValue] = list(dict.fromkeys(dot.lhs for dot in dots))
        self.sums: list[SSAValue] = list(dict.fromkeys(dot.acc for dot in dots))
        self.stores = sorted((use.operation for v in self.rows for use in v.uses if use.operation.name == STORE),
                             key=lambda op: self.body.get_operation_index(op) if op.parent is self.body else -1)
        self.pipes: dict[SSAValue, None] = {}
        self.more_warps = WARPS
        self.warps: int = int_values(switch.properties["warps"])[0]
        self.blocks = blocks_of_an_sm(func, target, allocated(self._columns(1)), MOST_BLOCKS)

    @staticmethod
    def of(func: Operation, target: Any) -> _Kernel | None:
        """The kernel as the pass understands it, None where it isn't such a one."""
        switch: Any = switch_of(func)
        if switch is None or len(switch.regions) != 2 or "cluster" in func.properties:
            return None
        dots: list[Any] = [op for op in func.walk() if op.name == TENSOR_DOT]
        if not dots or any(dot.parent is not dots[0].parent or not isinstance(dot.lhs.type, TmemType) or is_paired(dot) or
                           len(dot.operands) != OPERANDS for dot in dots) or not switch.regions[0].is_ancestor(dots[0]):
            return None
        found = _Kernel(func, switch, dots, target)
        return found if found._is_understood() else None

    def _is_understood(self) -> bool:
        """Whether a loop's iteration is: rows, by threads; their products, into sums that are only read behind the loop."""
        if self.loop.name != "scf.for" or loop_around(self.loop) is not None or any(op.name in EXITS for op in self.loop.walk()):
            return False
        places = {op.results[0] for op in self.func.walk() if isinstance(op, nv_tileas.AllocTensor)}
        if {v for v in places if isinstance(v.type, TmemType)} != {*self.rows, *self.sums}:
            return False
        if not self.stores or any(op.parent is not self.body or not op.is_before_in_block(self.dots[0]) for op in self.stores):
            return False
        if any(use.operation not in self.dots and use.operation not in self.stores for v in self.rows for use in v.uses):
            return False
        if any(use.operation not in self.dots and self.loop.is_ancestor(use.operation) for v in self.sums for use in v.uses):
            return False
        for dot in self.dots:
            pipe = pipe_of(dot.rhs)
            if pipe is None or agents.kind_of(pipe) not in COUNTED:
                return False
            self.pipes[pipe] = None
        return all(user.name == SLICE and all(use.operation in self.dots for use in user.results[0].uses)
                   for pipe in self.pipes for op in self._on(pipe, WAIT) for user in (use.operation for use in op.results[0].uses))

    def _on(self, pipe: SSAValue, *names: str) -> list[Operation]:
        """The ops of these names on a pipe, of the agent that computes."""
        return [use.operation for use in pipe.uses if use.operation.name in names and self.region.is_ancestor(use.operation)]

    def _columns(self, turns: int) -> int:
        return sum(turns * v.type.columns for v in self.rows) + sum(v.type.columns for v in self.sums)  # type: ignore[attr-defined]

    def has_room(self) -> bool:
        """Whether the block has a warp for the agent, and tensor memory two places for the rows; for the blocks that share an SM
        now, too, whose threads still have registers enough."""
        warps, registers = self._agents()
        last = placed(warps, registers)[-1]
        columns = self._columns(TURNS)
        if not self._have_registers(sum(warps) - WARPS, sum(warps)):
            return False
        return last.first_warp + last.span <= MOST_BLOCK_WARPS and columns <= COLUMNS and \
            allocated(columns) <= COLUMNS // self.blocks

    def _have_registers(self, now: int, then: int) -> bool:
        """Whether an SM still holds as many blocks of so many warps."""
        sums = max(prod(int_values(v.type.shape)) for v in self.sums)       # type: ignore[attr-defined]
        wanted = beside_sums(sums // (self.warps * WARP_THREADS))
        blocks = max(1, blocks_of_warps(now, wanted, self.blocks, self.target))
        return blocks == 1 or blocks_of_warps(then, wanted, self.blocks, self.target) >= blocks

    def _agents(self) -> tuple[list[int], list[int]]:
        """Warps and registers of the agents with the new one, which has as many registers a thread as the one that loads."""
        warps, registers = asked_of(self.switch)
        return [*warps, WARPS], [*registers, registers[-1]]

    def separate(self) -> bool:
        """Cut the products out; whether that can be. If it can't, the function is left in a state that nobody should use."""
        warps, registers = self._agents()
        made = pipe_before(self.switch, BY_THREADS, TURNS, producers=self.warps, consumers=WARPS)
        done = pipe_before(self.switch, UMMA, 1, consumers=self.warps)
        mine = self._tell(made, done)
        written = agents.Written(self.func)
        loads = self.switch.detach_region(self.switch.regions[1])
        theirs = [op for op in self.region.walk() if op.name in (LOAD, STORE, SCALE)]
        cut = cut_apart(self.switch, mine, written, theirs)
        if cut is None:
            return False
        self.switch = replace_switch(self.switch, [cut[0], loads, cut[1]], warps, registers, self.more_warps)
        return True

    def _tell(self, made: SSAValue, done: SSAValue) -> list[Operation]:
        """Both sides tell each other by pipes, still in one agent: the ops of the products'."""
        by_dots = {"by_dots": UnitAttr()}
        first, last = self.stores[0], self.stores[-1]
        taken = before(first, nv_tileas.ProducerAcquire.make([made], [i32]), first)
        before(after(last), nv_tileas.ProducerCommit.make([made]), last)
        given = [op for pipe in self.pipes for op in self._on(pipe, RELEASE) if op.parent is self.body]
        end = max([self.dots[-1], *given], key=self.body.get_operation_index)
        wait = before(self.dots[0], nv_tileas.ConsumerWait.make([made, []], [i32], dict(by_dots)), self.dots[0])
        mine: list[Operation] = [*self.dots, wait, before(
            after(end), nv_tileas.ConsumerRelease.make([made], [], dict(by_dots)), end)]
        for v in self.rows:
            t: Any = v.type
            places = before(self.switch, nv_tileas.AllocTensor.make([], [t.several(TURNS)]), self.switch).results[0]
            stored = before(first, nv_tileas.TmemStage.make([places, taken.results[0]], [t]), first)
            read = before(self.dots[0], nv_tileas.TmemStage.make([places, wait.results[0]], [t]), self.dots[0])
            for use in list(v.uses):
                use.operation.operands[use.index] = (read if use.operation in self.dots else stored).results[0]
            v.owner.detach()        # type: ignore[union-attr]
            v.owner.erase()         # type: ignore[union-attr]
        for v in self.sums:
            v.owner.detach()        # type: ignore[union-attr]
            self.func.regions[0].block.insert_op_before(v.owner, self.switch)   # type: ignore[arg-type]
        following = after(self.loop)
        mine.append(before(following, nv_tileas.ProducerCommit.make([done]), self.loop))
        before(following, nv_tileas.ConsumerWait.make([done, self.sums], [i32]), self.loop)
        before(following, nv_tileas.ConsumerRelease.make([done]), self.loop)
        for pipe in self.pipes:
            pipe.owner.properties["consumers"] = IntAttr(1)     # type: ignore[union-attr]
            for op in self._on(pipe, WAIT, RELEASE):
                op.properties["by_dots"] = UnitAttr()
                mine.append(op)
        for dot in self.dots:
            dot.properties["told"] = UnitAttr()
        return mine
