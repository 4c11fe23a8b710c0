"""Loops whose late products run beside the next iteration: what is early and late follows the schedule, values stay right for
any number of iterations, and loops that can't or needn't be overlapped stay as they are."""
from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects.builtin import ArrayAttr, IntAttr, IntegerAttr, i32
from xdsl.ir import Operation

from tests.kernels import runner
from tileiras.analysis.pipes import RIGHT, check_pipes
from tileiras.compiler import read_module
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target
from tileiras.pipeline import PIPELINE, verify_after
from tileiras.schedule.names import STAGE, told
from tileiras.transforms import overlap_iterations
from tileiras.transforms.overlap_iterations import Expansion, split

ATTENTION = "attention_d64_f16"


def before_the_pass(case: str = ATTENTION) -> tuple[Any, CompileOptions]:
    """The module as the pass finds it."""
    options = CompileOptions(find_target("sm_90"))
    ir: Any = read_module(runner.export_case(case), options)
    for entry in PIPELINE:
        if entry.name == "overlap-iterations":
            break
        ir = entry.apply(ir, options)
    return ir, options


def scores_loop(module: Operation) -> Any:
    return next(op for op in module.walk() if op.name == "scf.for" and any(inner.name == "nv_tileas.dot" for inner in op.walk()))


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops are overlapped even where blocks share an SM."""
    monkeypatch.setattr(overlap_iterations.Expansion, "pays", lambda *_: True)


def dots(block: Any) -> list[str]:
    """The products of a block, by what A is: scores (from shared memory) or values (probabilities, from registers)."""
    return ["scores" if op.properties["atom"].data.endswith("ss") else "values" for op in block.ops if op.name == "nv_tileas.dot"]


@pytest.mark.usefixtures("always")
def test_scores_of_the_next_tile_start_before_the_values_of_this_one() -> None:
    module, options = before_the_pass()
    overlap_iterations.run(module, options)
    verify_after(module, "overlap-iterations")
    loop = scores_loop(module)
    outer = loop.parent
    assert loop.parent_op().name == "scf.if"
    assert dots(loop.regions[0].block) == ["scores", "values"]
    assert dots(outer) == ["scores", "values"]              # of the first iteration, of the last one
    names = [op.name for op in loop.regions[0].block.ops]
    assert names.index("math.exp2") > names.index("nv_tileas.dot")
    assert names[-2] == "nv_tileas.consumer_release"        # the values' stage, when their product has had all this time
    func = next(op for op in module.body.block.ops if op.name == "nv_tileas.func")
    assert check_pipes(func, placed=False).kind == RIGHT


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("case", [ATTENTION, ATTENTION + "_twin"])
def test_values_are_right_in_any_order_of_asynchronous_operations(case: str) -> None:
    compiled = runner.compile_case(case, "sm_90")
    assert "wgmma.wait_group.sync.aligned 1" in compiled.ptx
    assert runner.simulate_case(case, compiled).ok


def test_a_loop_whose_blocks_share_an_sm_stays_as_it_is() -> None:
    module, options = before_the_pass()
    assert isinstance(split(scores_loop(module)), tuple)
    options.remarks = []
    overlap_iterations.run(module, options)
    assert scores_loop(module).parent_op().name != "scf.if"
    [told] = options.remarks
    assert (told.kind, told.name) == ("missed", "RemarkTensorCoreIterationsApart")
    assert "blocks share an SM" in told.reasons[0]


def test_what_takes_too_many_registers_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap_iterations.Expansion, "registers", lambda _: 250)
    module, options = before_the_pass()
    options.remarks = []
    overlap_iterations.run(module, options)
    [told] = options.remarks
    assert told.reasons == ("it would take 290 registers a thread, 255 are there; use smaller tiles or more warps",)


def test_no_more_registers_are_there_than_the_agent_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap_iterations.Expansion, "registers", lambda _: 168)
    module, options = before_the_pass()
    switch = next(op for op in module.walk() if op.name == "nv_tileas.agent_switch")
    switch.properties["registers"] = ArrayAttr([IntAttr(168), IntAttr(88)])
    options.remarks = []
    overlap_iterations.run(module, options)
    [told] = options.remarks
    assert told.reasons == ("it would take 176 registers a thread, 168 are there; use smaller tiles or more warps",)


@pytest.mark.parametrize("case", ["attention_causal_d64_bf16", "attention_causal_d128_grouped_f16"])
def test_masks_made_in_a_branch_take_no_registers_behind_it(case: str) -> None:
    """Behind `skip-masks` the scores are masked in a branch: where most is alive, that is as without a mask."""
    module, _ = before_the_pass(case)
    loop = scores_loop(module)
    parts = split(loop)
    assert isinstance(parts, tuple)
    masked = Expansion(loop, *parts)
    before, ahead = masked.registers_before(), masked.registers()
    for branch in [op for op in loop.regions[0].block.ops if op.name == "scf.if"]:
        [seen] = branch.regions[0].block.last_op.operands
        branch.results[0].replace_all_uses_with(seen)
        branch.detach()
        branch.erase()
    parts = split(loop)
    assert isinstance(parts, tuple)
    plain = Expansion(loop, *parts)
    assert (plain.registers_before(), plain.registers()) == pytest.approx((before, ahead), abs=4)    # rows and columns


def test_a_stage_that_both_parts_read_is_told() -> None:
    """The scores' stage given to the values too: it would be read by both."""
    module, options = before_the_pass()
    loop = scores_loop(module)
    scores, values = [op for op in loop.walk() if op.name == "nv_tileas.dot"]
    values.operands[1].replace_all_uses_with(scores.operands[1])
    options.remarks = []
    overlap_iterations.run(module, options)
    [told] = options.remarks
    assert told.reasons == ("both parts read the same stage of a ring",)


def test_products_of_one_stage_stay_together() -> None:
    module, _ = before_the_pass()
    loop = scores_loop(module)
    for op in loop.walk():
        if told(op, STAGE) is not None:
            op.attributes[STAGE] = IntegerAttr(0, i32)
    assert isinstance(split(loop), str)


def test_what_the_next_iteration_needs_early_isnt_late() -> None:
    """With the softmax called late, the maximum that the next iteration's softmax needs would be: then all of it is, and what is
    left early is the scores."""
    module, _ = before_the_pass()
    loop = scores_loop(module)
    for op in loop.regions[0].block.ops:
        if op.name == "arith.maxf":
            op.attributes[STAGE] = IntegerAttr(1, i32)
    parts = split(loop)
    assert isinstance(parts, tuple)
    early, late = parts
    assert any(op.name == "arith.maxf" for op in late)
    results = {r for op in late for r in op.results}
    assert not any(v in results for op in early for v in op.operands)


def test_it_is_off_where_pipelines_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlap_iterations, "split", lambda loop: pytest.fail("looked at"))
    module, options = before_the_pass()
    options.without = frozenset({"pipelines"})
    overlap_iterations.run(module, options)
