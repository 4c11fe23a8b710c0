"""Loops whose loads run ahead through rings: right for every trip count, start and step, for carried addresses and inside other
loops; and a protocol that is broken on purpose is found."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tileiras import pipeline
from tileiras.codegen import compile_llvm_to_ptx
from tileiras.codegen.llvm_text import print_module
from tileiras.compiler import read_module
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.driver.options import CompileOptions
from tileiras.errors import CompileError
from tileiras.machine.targets import find_target
from tileiras.pipeline import verify_after
from tileiras.schedule.options import ScheduleOptions
from tileiras.sim import SimulationError, simulate

K = 512
LEFT, RIGHT = (f"partition_view<tile=({m}x{n}), tensor_view<{rows}x{columns}xf16, strides=[{columns},1]>>"
               for m, n, rows, columns in ((32, 32, 32, K), (32, 32, K, 32)))
OUT = "partition_view<tile=(32x32), tensor_view<64x32xf32, strides=[32,1]>>"
HEAD = """cuda_tile.module @m {
  entry @product(%pa: tile<ptr<f16>>, %pb: tile<ptr<f16>>, %pc: tile<ptr<f32>>, %from: tile<i32>, %to: tile<i32>, %by: tile<i32>) {
    %t = make_token : token
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %two = constant <i32: 2> : tile<i32>
    %start = constant <f32: 0.0> : tile<32x32xf32>
    %qa = assume div_by<16>, %pa : tile<ptr<f16>>
    %qb = assume div_by<16>, %pb : tile<ptr<f16>>
"""
VIEWS = f"""
    %wa = make_tensor_view %qa, shape = [32, {K}], strides = [{K}, 1] : tensor_view<32x{K}xf16, strides=[{K},1]>
    %wb = make_tensor_view %qb, shape = [{K}, 32], strides = [32, 1] : tensor_view<{K}x32xf16, strides=[32,1]>
    %wc = make_tensor_view %pc, shape = [64, 32], strides = [32, 1] : tensor_view<64x32xf32, strides=[32,1]>
    %va = make_partition_view %wa : {LEFT}
    %vb = make_partition_view %wb : {RIGHT}
    %vc = make_partition_view %wc : {OUT}
"""


def loads(a: str, b: str) -> str:
    """Both operands at these tile numbers along k, and their product."""
    return f"""
      %a, %ta = load_view_tko weak %va[%zero, {a}] token = %t : {LEFT}, tile<i32> -> tile<32x32xf16>, token
      %b, %tb = load_view_tko weak %vb[{b}, %zero] token = %t : {RIGHT}, tile<i32> -> tile<32x32xf16>, token
      %more = mmaf %a, %b, %acc : tile<32x32xf16>, tile<32x32xf16>, tile<32x32xf32>
"""


def store(value: str, row: str) -> str:
    types = f"tile<32x32xf32>, {OUT}, tile<i32> -> token"
    return f"%e_{value[1:]} = store_view_tko weak {value}, %vc[{row}, %zero] token = %t : {types}\n"


COUNTED = f"""{HEAD}{VIEWS}
    %sum = for %k in (%from to %to, step %by) : tile<i32> iter_values(%acc = %start) -> (tile<32x32xf32>) {{
{loads("%k", "%k")}
      continue %more : tile<32x32xf32>
    }}
    {store("%sum", "%zero")}
    return
  }}
}}
"""
CARRIED = f"""{HEAD}{VIEWS}
    %sum, %last = for %k in (%from to %to, step %by) : tile<i32> iter_values(%acc = %start, %at = %zero) \
        -> (tile<32x32xf32>, tile<i32>) {{
{loads("%k", "%at")}
      %step = addi %at, %two : tile<i32>
      %next = remi %step, %to signed : tile<i32>
      continue %more, %next : tile<32x32xf32>, tile<i32>
    }}
    {store("%sum", "%zero")}
    return
  }}
}}
"""
"""The right operand's place is carried: 0, 2, 4, ... modulo the end."""
NESTED = f"""{HEAD}{VIEWS}
    for %row in (%zero to %two, step %one) : tile<i32> {{
      %sum = for %k in (%from to %to, step %by) : tile<i32> iter_values(%acc = %start) -> (tile<32x32xf32>) {{
{loads("%k", "%k")}
        continue %more : tile<32x32xf32>
      }}
      {store("%sum", "%row")}
      continue
    }}
    return
  }}
}}
"""


def counted_in_64_bits(step: str) -> str:
    """COUNTED with a counter of 64 bits, which moves by `step`."""
    return f"""{HEAD}{VIEWS}
    %from64 = exti %from signed : tile<i32> -> tile<i64>
    %to64 = exti %to signed : tile<i32> -> tile<i64>
    %by64 = exti %by signed : tile<i32> -> tile<i64>
    %one64 = constant <i64: 1> : tile<i64>
    %square = muli %by64, %by64 : tile<i64>
    %sum = for %wide in (%from64 to %to64, step {step}) : tile<i64> iter_values(%acc = %start) -> (tile<32x32xf32>) {{
      %k = trunci %wide : tile<i64> -> tile<i32>
{loads("%k", "%k")}
      continue %more : tile<32x32xf32>
    }}
    {store("%sum", "%zero")}
    return
  }}
}}
"""


def ptx_of(program: str, stages: int, gpu: str, change: Any = None) -> str:
    """The PTX with rings of so many stages; `change` spoils the module behind `unspecialized-pipeline`."""
    options = CompileOptions(find_target(gpu), without=frozenset({"tma"}), schedule=ScheduleOptions(stages=stages))
    ir: Any = parse_module(program)
    for entry in pipeline.selected(3, "cuda_tile", "llvm"):
        ir = entry.apply(ir, options)
        if change is None:
            verify_after(ir, entry.name)
        if entry.name == "unspecialized-pipeline":
            assert any(op.name == "nv_tileas.tiled_copy" for op in ir.walk())
            if change is not None:
                change(ir)
                with pytest.raises(CompileError, match="pipes that go wrong"):
                    verify_after(ir, entry.name)
    return compile_llvm_to_ptx(print_module(ir), options.target, 3)


def operands() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    return (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((32, K), (K, 32)))  # type: ignore[return-value]


def run(ptx: str, start: int, stop: int, step: int, seed: int) -> np.ndarray:
    """The output of a launch; a finding is raised."""
    a, b = operands()
    out = np.full((64, 32), np.nan, np.float32)
    report = simulate(ptx, "product", (1, 1, 1), [a, b, out, np.int32(start), np.int32(stop), np.int32(step)], seed=seed)
    if report.findings:
        raise report.findings[0]
    return out


def product(pairs: list[tuple[int, int]]) -> np.ndarray:
    """The sum of the products of tiles of A and B at these places along k."""
    a, b = (x.astype(np.float64) for x in operands())
    total = np.zeros((32, 32))
    for i, j in pairs:
        total += a[:, 32 * i:32 * i + 32] @ b[32 * j:32 * j + 32]
    return total


@pytest.mark.parametrize("gpu, stages", [("sm_80", 2), ("sm_80", 3), ("sm_89", 4), ("sm_120", 5)])
def test_every_trip_count(gpu: str, stages: int) -> None:
    ptx = ptx_of(COUNTED, stages, gpu)
    for trips in range(2 * stages + 3):
        out = run(ptx, 0, trips, 1, seed=trips % 5)
        assert np.array_equal(out[:32], product([(k, k) for k in range(trips)])), trips
        assert np.isnan(out[32:]).all()


@pytest.mark.parametrize("start, stop, step", [
    (3, 14, 2), (5, 5, 1), (9, 2, 3), (-4, -4, 5), (0, 16, 2**30), (15, 2**31 - 1, 2**31 - 2), (1, 16, 7)])
def test_starts_and_steps_up_to_the_counters_limits(start: int, stop: int, step: int) -> None:
    ptx = ptx_of(COUNTED, 4, "sm_80")
    places = [(k, k) for k in range(start, stop, step)]
    assert np.array_equal(run(ptx, start, stop, step, seed=1)[:32], product(places))


def test_a_counter_of_64_bits_runs_ahead_by_steps_that_are_known() -> None:
    """And by those that were narrower: three steps that only the launch knows might not fit 64 bits, such a loop stays as it is."""
    for step, size in (("%one64", 1), ("%by64", 1), ("%by64", 3)):
        ptx = ptx_of(counted_in_64_bits(step), 4, "sm_80")
        for trips in (0, 1, 6):
            places = [(k, k) for k in range(0, trips, size)]
            assert np.array_equal(run(ptx, 0, trips, size, seed=trips)[:32], product(places)), (step, size, trips)
    with pytest.raises(AssertionError):
        ptx_of(counted_in_64_bits("%square"), 4, "sm_80")


@pytest.mark.parametrize("stages", [2, 4])
def test_addresses_that_are_carried_run_ahead_by_themselves(stages: int) -> None:
    ptx = ptx_of(CARRIED, stages, "sm_80")
    for trips in range(1, 8):
        places = [(k, 2 * k % trips) for k in range(trips)]
        assert np.array_equal(run(ptx, 0, trips, 1, seed=trips % 5)[:32], product(places)), trips


def test_a_ring_starts_anew_in_each_iteration_of_an_outer_loop() -> None:
    ptx = ptx_of(NESTED, 3, "sm_80")
    for trips in range(6):
        wanted = product([(k, k) for k in range(trips)])
        for seed in range(5):
            assert np.array_equal(run(ptx, 0, trips, 1, seed), np.concatenate([wanted, wanted])), (trips, seed)


def _later(module: Any) -> None:
    """Let one more group be on its way when a stage is read."""
    from xdsl.dialects.builtin import IntAttr
    for op in module.walk():
        if op.name == "nv_tileas.consumer_wait" and op.properties["pending"].data:
            op.properties["pending"] = IntAttr(op.properties["pending"].data + 1)


def _without(name: str) -> Any:
    def change(module: Any) -> None:
        for op in [op for op in module.walk() if op.name == name and op.parent_op().name == "scf.for"]:
            op.detach()
            op.erase()
    return change


@pytest.mark.parametrize("change", [_later, _without("nv_tileas.barrier"), _without("nv_tileas.producer_commit")],
                         ids=["a group too many pending", "no barrier", "no commit"])
def test_a_broken_protocol_is_found(change: Any) -> None:
    ptx = ptx_of(COUNTED, 3, "sm_80", change)

    def survives(seed: int) -> bool:
        try:
            return np.array_equal(run(ptx, 0, 9, 1, seed)[:32], product([(k, k) for k in range(9)]))
        except SimulationError:
            return False
    assert not all(survives(seed) for seed in range(5))


def test_no_pipeline_where_it_is_turned_off() -> None:
    ir: Any = parse_module(COUNTED)
    options = CompileOptions(find_target("sm_80"), without=frozenset({"pipelines"}))
    ir = pipeline.run(ir, options, stop_at="nv_tileas")
    assert not any(op.name == "nv_tileas.tiled_copy" for op in ir.walk())


def remarks_of(program: str) -> list[Any]:
    options = CompileOptions(find_target("sm_80"), remarks=[])
    pipeline.run(parse_module(program), options, stop_at="nv_tileas")
    assert options.remarks is not None
    return options.remarks


def test_a_loop_says_how_far_its_loads_run_ahead_and_a_hint_changes_that() -> None:
    found = [r for r in remarks_of(COUNTED) if r.name == "RemarkLoopLoadsAhead"]
    assert [dict(r.notes)["Loads"] for r in found] == [2]
    view = "partition_view<tile=(32x32), tensor_view<32x512"
    hint = "optimization_hints = <sm_80 = {latency = 9}>"
    hinted = remarks_of(COUNTED.replace(f"token = %t : {view}", f"token = %t {hint} : {view}"))
    assert [dict(r.notes)["Stages"] for r in hinted if r.name == "RemarkLoopLoadsAhead"] == [10]


def test_what_no_copy_can_move_runs_ahead_through_registers() -> None:
    """4 bytes side by side aren't known to be aligned."""
    found = remarks_of(COUNTED.replace("assume div_by<16>, %pa", "assume div_by<2>, %pa"))
    assert "registers" in [dict(r.notes)["Instruction"] for r in found if r.name == "RemarkLoopLoadsAhead"]
    assert not [r for r in found if r.name == "RemarkLoopLoadNotAhead"]


@pytest.mark.parametrize("program, reason", [
    (COUNTED.replace("weak %va[%zero, %k] token", "relaxed device %va[%zero, %k] token"), "it is ordered"),
])
def test_a_load_that_stays_says_why(program: str, reason: str) -> None:
    found = [r for r in remarks_of(program) if r.name == "RemarkLoopLoadNotAhead"]
    assert len(found) == 1 and reason in found[0].reasons[0]


def test_the_few_numbers_beside_a_ring_run_ahead() -> None:
    """However few blocks fit an SM with them: an iteration would wait for them alone."""
    from tests.programs import programs
    from tileiras.sim.cutile import export
    launch = programs.load_all()["rows_gradients_beside_a_ring_0"].launch()
    options = CompileOptions(find_target("sm_100"), remarks=[])
    ir = read_module(export(launch.kernel, launch.args, "sm_100").bytecode, options)
    pipeline.run(ir, options, stop_at="nv_tileas")
    found = {r.name: dict(r.notes) for r in options.remarks or ()}
    assert "RemarkAgentsChosen" in found and "RemarkLoopLoadNotAhead" not in found
    assert found["RemarkLoopLoadsAhead"]["Loads"] == 2
