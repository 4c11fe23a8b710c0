"""`fragments-ahead`: products by warps read their fragments from shared memory while those of the iteration before multiply.

    scf.for ... (%c) {                                 wait ; %a, %b = load_shared of the first stage ; release
      %i = consumer_wait %pipe                         scf.for ..., an iteration less (%c, %a, %b) {
      %s, %t = stage %i of both rings                    wait ; %a1, %b1 = load_shared of the next stage
      %d = dot %s, %t, %c                    ->          %d = dot %a, %b, %c
      consumer_release %pipe                             release
      yield %d                                           yield %d, %a1, %b1
    }                                                  }
                                                       dot %a, %b, %c

For loops that stand in a loop over tiles which strides by the number of blocks: such a kernel is launched with a block or two
an SM, whose few warps otherwise wait for a stage, and for what they read of it, with nothing else to do. Elsewhere other blocks
multiply meanwhile, and would lose the registers. Only where the copy engine fills the ring, and where two stages' fragments have
room beside the accumulators. Both parts stand twice, as behind `overlap-iterations`, which makes them.
"""
from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import TensorType, UnitAttr
from xdsl.ir import Operation, SSAValue

from tileiras.analysis.layout_rules import operand_fragments
from tileiras.analysis.program_slice import loop_around, strides_by_blocks
from tileiras.analysis.tensor_dots import is_of_warps
from tileiras.dialects import nv_tileas
from tileiras.dialects.nv_tileas import BufferType, layout_of, with_layout
from tileiras.remarks import PASSED, TENSOR_CORE, remark
from tileiras.transforms.overlap_iterations import KEPT_BACK, RELEASE, SLICE, WAIT, Expansion, threads_of

DOT = "nv_tileas.dot"
GRANULE = 8
"""Registers are given out in so many a thread."""


def run(module: Operation, context: Any) -> None:
    """Let loops read ahead, in place."""
    if not context.uses("pipelines"):
        return
    for func in module.regions[0].block.ops:
        if func.name == "nv_tileas.func":
            for loop in [op for op in func.walk() if op.name == "scf.for"]:
                _loop(func, loop, context)


def _loop(func: Operation, loop: Any, context: Any) -> None:
    if not strides_by_blocks(loop_around(loop)):
        return
    dots = _dots(loop)
    if not dots:
        return
    loads = [load for dot in dots for load in _fragments(dot)]
    body = loop.regions[0].block
    early = [op for op in body.ops if op.name in (WAIT, SLICE, RELEASE) or op in loads]
    late = [op for op in body.ops if op not in early and op is not body.last_op]
    release = next(op for op in early if op.name == RELEASE)
    expansion = Expansion(loop, early, late, [op for op in early if op is not release])
    threads = threads_of(func)
    most = min(context.target.max_registers_per_thread, context.target.registers_per_sm // threads // GRANULE * GRANULE)
    if expansion.registers() + KEPT_BACK > most:
        _take_back(dots, loads)
        return
    if context.remarks is not None:
        context.remarks.append(remark(func, loop, PASSED, TENSOR_CORE, "TensorCoreFragmentsAhead",
                                      "Products' fragments are read from shared memory an iteration ahead",
                                      {"Registers": expansion.registers()}))
    expansion.run()


def _dots(loop: Any) -> list[Operation]:
    """The products of a loop that does nothing but wait for a stage, multiply what is in it, and give it back; none if it does."""
    body = loop.regions[0].block
    ops = [op for op in body.ops if op is not body.last_op]
    waits, releases = ([op for op in ops if op.name == name] for name in (WAIT, RELEASE))
    if len(waits) != 1 or len(releases) != 1 or waits[0].operands[0] is not releases[0].operands[0]:
        return []
    pipe: Any = waits[0].operands[0].type
    if pipe.kind.data != "tma":
        return []
    dots = [op for op in ops if op.name == DOT]
    for op in ops:
        if op.name in (WAIT, RELEASE):
            continue
        if op.name == SLICE:
            if op.operands[1] is not waits[0].results[0] or any(use.operation not in dots or use.index > 1
                                                                for use in op.results[0].uses):
                return []
        elif not getattr(op, "PURE", False) or op.regions:
            return []
    if not all(is_of_warps(dot) and all(_is_stage(v, body) for v in dot.operands[:2]) for dot in dots):
        return []
    return dots


def _is_stage(v: SSAValue, body: Any) -> bool:
    return isinstance(v.owner, Operation) and v.owner.name == SLICE and v.owner.parent is body


def _fragments(dot: Any) -> list[Operation]:
    """Let a product take its operands from registers; the loads that bring them there."""
    loads = []
    for i, fragment in enumerate(operand_fragments(dot, layout_of(dot.results[0]).num_warps)):
        buffer = dot.operands[i]
        t = buffer.type
        assert isinstance(t, BufferType) and fragment is not None
        load = nv_tileas.LoadShared.make([buffer, None, None], [with_layout(TensorType(t.element_type, fragment.shape), fragment)],
                                         {"matrices": UnitAttr()})
        load.location = dot.location
        dot.parent.insert_op_before(load, dot)
        dot.operands[i] = load.results[0]
        loads.append(load)
    return loads


def _take_back(dots: list[Operation], loads: list[Operation]) -> None:
    for dot in dots:
        for i in (0, 1):
            load = dot.operands[i].owner
            if load in loads:
                assert isinstance(load, Operation)
                dot.operands[i] = load.operands[0]
    for load in loads:
        load.detach()
        load.erase()
