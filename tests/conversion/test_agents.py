"""Two agents from ops to results: what a load agent puts into a ring comes out of the compute agents, in order, for any number of
iterations, stages and loops around; registers change hands; who can't be cut stays whole, and says why."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ArrayAttr, IntAttr

from tests.conversion.test_pipes import COPY, TILE, insert_ring
from tileiras.codegen import compile_llvm_to_ptx
from tileiras.codegen.compile import compile_llvm
from tileiras.codegen.llvm_text import print_module
from tileiras.dialects import nv_tileas
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target
from tileiras.pipeline import PIPELINE, verify_after
from tileiras.sim import simulate
from tileiras.tools.lower_text import parse_lower

AGAIN = COPY.replace("for %i in", "for %j in (%zero to %n, step %one) : tile<i32> {\n for %i in", 1).replace(
    "      continue\n", "      continue\n    }\n    continue\n")
"""The copy as often as it has tiles: the ring goes on from one time to the next."""
PRINTING = COPY.replace("for %i", "%yes = constant <i1: true> : tile<i1>\n for %i", 1).replace("      continue", """
      %said = print_tko "%d", %i : tile<i32> -> token
      assert %yes, "small" : tile<i1>
      continue""")


def lowered(program: str, kind: str, stages: int, options: CompileOptions, change: Callable[[Any], None] = lambda ir: None) -> str:
    """The LLVM IR of a program whose load goes through a ring; `change` is made to what `materialize-schedule` leaves."""
    ir: Any = parse_module(program)
    for entry in PIPELINE:
        if entry.name == "materialize-schedule":
            insert_ring(ir, kind, stages)
        ir = entry.apply(ir, options)
        if entry.name == "materialize-schedule":
            change(ir)
        verify_after(ir, entry.name)
    return print_module(ir)


def in_agents(program: str, kind: str, stages: int, gpu: str) -> str:
    options = CompileOptions(find_target(gpu))
    return compile_llvm_to_ptx(lowered(program, kind, stages, options, assert_cut), options.target, 3)


def assert_cut(ir: Any) -> None:
    assert [op.name for op in ir.walk()].count("nv_tileas.agent_switch") == 1


@pytest.mark.parametrize("gpu, kind", [("sm_80", "mbarrier"), ("sm_80", "cp_async"), ("sm_90", "mbarrier"), ("sm_90", "cp_async"),
                                       ("sm_100", "mbarrier"), ("sm_120", "cp_async")])
@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("program", [COPY, AGAIN, PRINTING], ids=["copy", "again", "printing"])
def test_what_the_load_agent_fills_comes_out(program: str, gpu: str, kind: str, stages: int) -> None:
    ptx = in_agents(program, kind, stages, gpu)
    assert ".reqntid 256" in ptx
    for trips, seed in ((0, 0), (1, 1), (2, 2), (stages + 4, 3), (5, 4)):
        source = np.arange(4096, dtype=np.float32) + 1
        target = np.zeros(4096, np.float32)
        report = simulate(ptx, "copy", (1, 1, 1), [source, target, np.int32(trips)], seed=seed)
        assert not report.findings
        assert np.array_equal(target, np.where(np.arange(4096) < trips * TILE, source, 0)), (trips, seed)


@pytest.mark.parametrize("latency, stages", [(1, 10), (4, 10), (12, 13)])
def test_a_ring_of_one_stage_gets_as_many_as_the_hint_asks_for(latency: int, stages: int) -> None:
    """n loads on their way besides the one that is read, if these are more than the ten that hide a load's latency."""
    def check(ir: Any) -> None:
        pipe, ring = (next(op for op in ir.walk() if op.name == name)
                      for name in ("nv_tileas.create_pipeline", "nv_tileas.alloc_tensor"))
        assert pipe.results[0].type.stages.data == ring.results[0].type.stages.data == stages
        switch = next(op for op in ir.walk() if op.name == "nv_tileas.agent_switch")
        assert not any(isinstance(r.type, nv_tileas.RingType) for op in switch.walk() for r in op.results)
    hinted = COPY.replace("%v[%i] token = %t", f"%v[%i] token = %t optimization_hints = <sm_90 = {{latency = {latency}}}>")
    lowered(hinted, "mbarrier", 1, CompileOptions(find_target("sm_90")), check)


def test_the_compute_agent_takes_the_place_of_a_ring_that_is_done_with() -> None:
    """What it allocates behind the loop lies where the ring was, while the load agent still has its own."""
    from tileiras.analysis.shared_memory import plan_shared_memory

    def check(ir: Any) -> None:
        func = ir.body.block.first_op
        switch = next(op for op in func.walk() if op.name == "nv_tileas.agent_switch")
        ring = next(op for op in func.walk() if op.name == "nv_tileas.alloc_tensor")
        t = ring.results[0].type.buffer
        made = [nv_tileas.AllocTensor.make([], [t]) for _ in switch.regions]
        for region, op in zip(switch.regions, made):
            region.block.insert_op_before(op, region.block.last_op)
        offsets = plan_shared_memory(func).offsets
        start = offsets[ring]
        assert start - 4 * TILE < offsets[made[0]] < start + 8 * TILE
        assert not start - 4 * TILE < offsets[made[1]] < start + 8 * TILE
        for op in made:
            op.detach()
    lowered(COPY, "mbarrier", 2, CompileOptions(find_target("sm_90")), check)


def share_registers(ir: Any) -> None:
    switch = next(op for op in ir.walk() if op.name == "nv_tileas.agent_switch")
    switch.properties["registers"] = ArrayAttr([IntAttr(232), IntAttr(24)])


def test_registers_go_from_the_load_agent_to_the_others() -> None:
    """128 for each of 256 threads are 232 for one half and 24 for the other; ptxas takes it without a word."""
    options = CompileOptions(find_target("sm_90"))
    made = compile_llvm(lowered(COPY, "mbarrier", 2, options, share_registers), options.target, 3)
    assert ".maxnreg 128" in made.ptx
    assert made.ptx.count("setmaxnreg.inc.sync.aligned.u32 \t232;") == made.ptx.count("setmaxnreg.dec.sync.aligned.u32 \t24;") == 1
    assert not made.warnings
    target = np.zeros(4096, np.float32)
    simulate(made.ptx, "copy", (1, 1, 1), [np.arange(4096, dtype=np.float32), target, np.int32(8)], seed=1)
    assert np.array_equal(target, np.arange(4096))


SMALL = """builtin.module {
  "nv_tileas.func"() <{sym_name = "small", num_warps = #builtin.int<4>}> ({
  ^bb0(%p: !nv_tileaa.ptr<f32>, %q: !nv_tileaa.ptr<f32>, %x: f32):
    "nv_tileas.agent_switch"() <{warps = [#builtin.int<4>, #builtin.int<1>], registers = [#builtin.int<232>, #builtin.int<24>]}> ({
      %t = "nv_tileas.store"(%p, %x) <{mem_semantic = "weak", operandSegmentSizes = array<i32: 1, 1, 0, 0>}>
        : (!nv_tileaa.ptr<f32>, f32) -> !nv_tileaa.mem_token
      "nv_tileas.return"() : () -> ()
    }, {
      %t = "nv_tileas.store"(%q, %x) <{mem_semantic = "weak", operandSegmentSizes = array<i32: 1, 1, 0, 0>}>
        : (!nv_tileaa.ptr<f32>, f32) -> !nv_tileaa.mem_token
      "nv_tileas.return"() : () -> ()
    }) : () -> ()
    "nv_tileas.return"() : () -> ()
  }) : () -> ()
}
"""


def test_an_agent_of_one_warp_takes_a_warpgroup_where_registers_change_hands() -> None:
    """The warps beside it give their registers back and leave. What is done once is done by an agent's first thread."""
    options = CompileOptions(find_target("sm_90"))
    ir: Any = parse_lower(SMALL, "small.mlir")
    ir = next(entry for entry in PIPELINE if entry.name == "convert-tileas-to-llvm").apply(ir, options)
    made = compile_llvm(print_module(ir), options.target, 3)
    assert ".reqntid 256" in made.ptx and not made.warnings
    first, second = np.zeros(1, np.float32), np.zeros(1, np.float32)
    assert not simulate(made.ptx, "small", (1, 1, 1), [first, second, np.float32(2)], seed=1).findings
    assert first[0] == second[0] == 2


WRITTEN = COPY.replace("token = %t : " + "partition", "token = %e0 : partition").replace(
    "for %i", "%e0 = store_ptr_tko weak %from, %x : tile<ptr<f32>>, tile<f32> -> token\n for %i", 1).replace(
    "%zero =", "%x = constant <f32: 1.0> : tile<f32>\n %zero =", 1)
BY_ATOMIC = COPY.replace("%v[%i]", "%v[%k]").replace(
    "%d, %l", "%k, %kt = atomic_rmw_tko relaxed device %count, add, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token\n %d, %l",
    1).replace("%n: tile", "%count: tile<ptr<i32>>, %n: tile")


@pytest.mark.parametrize("program, reason", [(WRITTEN, "the kernel has written"), (BY_ATOMIC, "'atomic_rmw'")])
def test_what_cannot_be_cut_stays_and_says_why(program: str, reason: str) -> None:
    def assert_whole(ir: Any) -> None:
        assert "nv_tileas.agent_switch" not in [op.name for op in ir.walk()]
    options = CompileOptions(find_target("sm_90"), remarks=[])
    lowered(program, "mbarrier", 2, options, assert_whole)
    assert any(reason in r for found in options.remarks or () for r in found.reasons)


def test_agents_keep_their_own_buffers() -> None:
    """Two agents run at the same time: what one has in shared memory never lies where another's is."""
    from tileiras.analysis.shared_memory import plan_shared_memory

    def check(ir: Any) -> None:
        func = ir.body.block.first_op
        switch = next(op for op in func.walk() if op.name == "nv_tileas.agent_switch")
        t = next(op for op in func.walk() if op.name == "nv_tileas.alloc_tensor").results[0].type.buffer
        made = [nv_tileas.AllocTensor.make([], [t]) for _ in switch.regions]
        for region, op in zip(switch.regions, made):
            region.block.insert_op_before(op, region.block.first_op)
        offsets = plan_shared_memory(func).offsets
        assert abs(offsets[made[0]] - offsets[made[1]]) >= 4 * TILE
        for op in made:
            op.detach()
    lowered(COPY, "mbarrier", 2, CompileOptions(find_target("sm_90")), check)
