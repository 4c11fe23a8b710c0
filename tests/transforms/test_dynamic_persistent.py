"""Blocks that go on with tile blocks that haven't started: each tile block is done once, in whatever order the hardware gives and
refuses them; agents are told alike; a protocol that is broken on purpose is found."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import IntAttr

from tests.kernels import runner
from tileiras import pipeline
from tileiras.analysis.pipes import RIGHT, WRONG, check_pipes
from tileiras.bytecode import read, write
from tileiras.compiler import CompiledModule, compile_module
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target
from tileiras.schedule.options import ScheduleOptions
from tileiras.sim import simulate

SEEDS = range(5)
GRID = (5, 3, 2)
VIEW = "partition_view<tile=(64), tensor_view<1920xf32, strides=[1]>>"
BODY = f"""
    %x, %y, %z = get_tile_block_id : tile<i32>
    %three = constant <i32: 3> : tile<i32>
    %five = constant <i32: 5> : tile<i32>
    %zy = muli %z, %three : tile<i32>
    %row = addi %zy, %y : tile<i32>
    %rows = muli %row, %five : tile<i32>
    %at = addi %rows, %x : tile<i32>
    %va = make_tensor_view %a, shape = [1920], strides = [1] : tensor_view<1920xf32, strides=[1]>
    %vb = make_tensor_view %b, shape = [1920], strides = [1] : tensor_view<1920xf32, strides=[1]>
    %pa = make_partition_view %va : {VIEW}
    %pb = make_partition_view %vb : {VIEW}
    %t, %t0 = load_view_tko weak %pa[%at] : {VIEW}, tile<i32> -> tile<64xf32>, token
    %u = addf %t, %t rounding<nearest_even> : tile<64xf32>
    %t1 = store_view_tko weak %u, %pb[%at] : tile<64xf32>, {VIEW}, tile<i32> -> token
    %count = offset %c, %at : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
    %one = constant <i32: 1> : tile<i32>
    %old, %t2 = atomic_rmw_tko relaxed device %count, add, %one : tile<ptr<i32>>, tile<i32> -> tile<i32>, token
"""


def program(body: str = BODY, end: str = "", hints: str = "") -> bytes:
    text = f"""cuda_tile.module @m {{
  entry @k(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, %c: tile<ptr<i32>>) {hints} {{
{body}{end}
    return
  }}
}}
"""
    return write(parse_module(text), "13.2")


def made(bytecode: bytes, gpu: str, level: int = 3, asked: bool = True, remarks: list[Any] | None = None) -> CompiledModule:
    schedule = ScheduleOptions(persistent=True) if asked else None
    return compile_module(bytecode, CompileOptions(find_target(gpu), level, schedule=schedule, verify_each=True, remarks=remarks))


@pytest.mark.parametrize("gpu", ["sm_100", "sm_107", "sm_120"])
def test_every_tile_block_is_done_once(gpu: str) -> None:
    code = made(program(), gpu)
    assert code.ptx.count("clusterlaunchcontrol.try_cancel.") == 1
    for seed in SEEDS:
        a = np.arange(1920, dtype=np.float32)
        b, c = np.full(1920, np.nan, np.float32), np.zeros(30, np.int32)
        report = simulate(code.ptx, "k", GRID, [a, b, c], seed=seed)
        assert not report.findings, str(report.findings[0])
        assert np.array_equal(b, 2 * a) and (c == 1).all()


@pytest.mark.parametrize("gpu, level, asked", [("sm_100", 3, False), ("sm_100", 0, True), ("sm_90", 3, True)])
def test_others_stay_as_they_are(gpu: str, level: int, asked: bool) -> None:
    assert made(program(), gpu, level, asked).ptx == made(program(), gpu, level, asked=False).ptx
    assert "clusterlaunchcontrol" not in made(program(), gpu, level, asked).ptx


@pytest.mark.parametrize("bytecode, gpu, reason", [
    (program(), "sm_90", "sm_90 can't take back blocks that haven't started"),
    (program("    %one = constant <i32: 1> : tile<i32>\n"), "sm_100", "it doesn't ask for its tile block's id"),
    (program(BODY.split("    %count")[0], hints="optimization_hints=<sm_100 = {num_cta_in_cga = 2}>"), "sm_100",
     "the CTAs of a cluster share its tile block, and only one would be told of the next"),
    (program(end="    %no = cmpi equal %at, %one, signed : tile<i32> -> tile<i1>\n    if %no {\n      return\n    }\n"
                 "    print_tko \"more\" -> token"), "sm_100", "it returns from the middle")])
def test_what_can_not_be_persistent_says_so(bytecode: bytes, gpu: str, reason: str) -> None:
    remarks: list[Any] = []
    made(bytecode, gpu, remarks=remarks)
    assert [r.reasons for r in remarks if r.name == "RemarkNotPersistent"] == [(reason,)]


@pytest.mark.parametrize("name, gpu", [("matmul_float16_float16_twin", "sm_100"), ("matmul_float16_float16_twin", "sm_120"),
                                       ("softmax_16x256_f16_twin", "sm_120"), ("gemm_split_k_atomics", "sm_100"),
                                       ("reduce_sum_float16", "sm_103"), ("attention_d64_f16", "sm_120")])
def test_kernels_of_the_suite(name: str, gpu: str) -> None:
    code = made(runner.export_case(name), gpu)
    assert "clusterlaunchcontrol.try_cancel" in code.ptx
    verdict = runner.simulate_case(name, code, orders=SEEDS)
    assert verdict.ok, verdict.detail


def in_agents() -> Any:
    """A product's function, two agents of which are told the next tile block's id."""
    options = CompileOptions(find_target("sm_120"), schedule=ScheduleOptions(persistent=True), without=frozenset())
    ir: Any = read(runner.export_case("matmul_float16_float16_twin"))
    for entry in pipeline.selected(3, "cuda_tile", "nv_tileas"):
        ir = entry.apply(ir, options)
    return next(op for op in ir.walk() if op.name == "nv_tileas.func")


def answers(func: Any, name: str) -> list[Any]:
    """The ops of that name on the pipe of the ids, an agent's each."""
    ask = next(op for op in func.walk() if op.name == "nv_tileas.cancel_next_program_id")
    return [use.operation for use in ask.pipe.uses if use.operation.name == f"nv_tileas.{name}"]


def test_agents_are_told_alike() -> None:
    func = in_agents()
    assert len(answers(func, "consumer_wait")) == len(answers(func, "consumer_release")) == 2
    assert len(answers(func, "cancel_next_program_id")) == len(answers(func, "producer_acquire")) == 1
    assert check_pipes(func).kind == RIGHT


@pytest.mark.parametrize("name, agent", [("consumer_release", 0), ("consumer_release", 1), ("producer_commit", 0),
                                         ("cancel_next_program_id", 0)])
def test_an_agent_that_leaves_something_out_is_found(name: str, agent: int) -> None:
    func = in_agents()
    op = answers(func, name)[agent]
    op.detach()
    op.erase()
    assert check_pipes(func).kind == WRONG


def test_too_few_consumers_are_found() -> None:
    func = in_agents()
    pipe = answers(func, "consumer_wait")[0].operands[0].owner
    pipe.properties["consumers"] = IntAttr(pipe.properties["consumers"].data - 1)
    assert check_pipes(func).kind == WRONG
