"""`generate-schedule`: hints and constraints act on what it writes, and remarks say so."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import UnitAttr

from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target
from tileiras.pipeline import PIPELINE
from tileiras.remarks import Remark
from tileiras.schedule.constraints import FORCE_SERIAL
from tileiras.schedule.names import DEPTH, ORDER, STAGE, told
from tileiras.transforms import generate_schedule

PROGRAM = (Path(__file__).parents[1] / "filecheck" / "passes" / "generate-schedule.mlir").read_text()
"""A product of 64 x 32 by 32 x 64 tiles in a loop."""


def scheduled(text: str = PROGRAM, gpu: str = "sm_80", force_serial: bool = False) -> tuple[Any, list[Remark]]:
    """The module behind the pass, and what was remarked."""
    options = CompileOptions(find_target(gpu), remarks=[])
    ir: Any = parse_module(text)
    for entry in PIPELINE:
        if entry.name == "generate-schedule" and force_serial:
            next(op for op in ir.walk() if op.name == "nv_tileas.dot").attributes[FORCE_SERIAL] = UnitAttr()
        ir = entry.apply(ir, options)
        if entry.name == "generate-schedule":
            break
    assert options.remarks is not None
    return ir, options.remarks


def with_hint(latency: int) -> str:
    """The same with a hint on the first load."""
    hint = f"optimization_hints = <sm_80 = {{latency = {latency}}}>"
    return PROGRAM.replace("%ap[%c0, %i] :", f"%ap[%c0, %i] {hint} :", 1)


def depths(module: Any) -> list[int | None]:
    return [told(op, DEPTH) for op in module.walk() if op.name == "nv_tileas.tiled_load"]


@pytest.mark.parametrize("latency, stages", [(1, 4), (2, 4), (5, 6)])
def test_a_hint_of_latency_makes_the_ring_one_stage_deeper(latency: int, stages: int) -> None:
    """If that is deeper than the four stages that it has without."""
    module, remarks = scheduled(with_hint(latency))
    assert depths(module) == [stages, stages]
    [applied] = [r for r in remarks if r.name == "RemarkHintApplied"]
    assert applied.text == f"Hint latency = {latency} asks for a ring of {latency + 1} stages"
    assert dict(applied.notes) == {"Stages": stages}
    assert not [r for r in remarks if r.name == "RemarkHintIgnored"]


def test_the_remark_tells_interval_and_depth() -> None:
    """64 x 32 and 32 x 64 halves a stage: 8 KiB at 36.5 B a cycle are 226 cycles, 128 those of the product."""
    _, remarks = scheduled()
    [found] = [r for r in remarks if r.name == "RemarkSchedule"]
    notes = dict(found.notes)
    assert (notes["interval"], notes["bound"]) == (226, "ingress")
    assert notes["ring"] == 4


def test_an_op_that_asks_for_the_programs_order_gets_it() -> None:
    module, remarks = scheduled(force_serial=True)
    ops = [op for op in module.walk() if told(op, STAGE) is not None]
    assert {told(op, STAGE) for op in ops} == {0}
    assert [told(op, ORDER) for op in ops] == list(range(len(ops)))
    [found] = [r for r in remarks if r.name == "RemarkSchedule"]
    assert "the program's order is kept: forced" in found.reasons


@pytest.mark.parametrize("gpu", ["sm_75", "sm_80"])
def test_only_loops_that_load_for_buffers_are_scheduled(gpu: str) -> None:
    module, _ = scheduled(gpu=gpu)
    loops = [op for op in module.walk() if op.name == "scf.for"]
    marked = [any(told(op, STAGE) is not None for op in loop.walk()) for loop in loops]
    assert marked == [gpu == "sm_80", False]


def test_a_loop_that_is_left_early_cant_run_ahead() -> None:
    module, _ = scheduled()
    loop = next(op for op in module.walk() if op.name == "scf.for")
    assert generate_schedule.runs_ahead(loop)
    assert not generate_schedule.runs_ahead(next(op for op in module.walk() if op.name == "nv_tileas.dot"))
