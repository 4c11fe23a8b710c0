"""The model checker of pipes: what is right passes, and each mistake in the protocol is told, at its op."""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from xdsl.dialects.builtin import IntAttr, IntegerAttr, StringAttr, i32
from xdsl.ir import Operation

from tests.analysis.pipe_mutants import Mutant, mutants_of
from tests.analysis.pipe_programs import function_of, through_a_ring
from tests.kernels import runner
from tileiras.analysis.pipe_paths import MOST_TRIPS_KNOWN, Way
from tileiras.analysis.pipes import NOT_DECIDED, QUICK_ORDERS, QUICK_WAYS, RIGHT, WRONG, check_pipes
from tileiras.compiler import read_module
from tileiras.dialects import arith, nv_tileas
from tileiras.driver.options import CompileOptions
from tileiras.errors import CompileError
from tileiras.machine.targets import find_target
from tileiras.pipeline import run, verify_after

KINDS = ("group", "mbarrier", "cp_async")


@pytest.mark.parametrize("agents", [False, True])
@pytest.mark.parametrize("stages", [1, 2, 3, 7])
@pytest.mark.parametrize("kind", KINDS)
def test_what_goes_through_a_ring_in_order_is_right(kind: str, stages: int, agents: bool) -> None:
    module = through_a_ring(kind, stages, agents)
    assert any(op.name == "nv_tileas.agent_switch" for op in module.walk()) == (agents and kind != "group")
    verdict = check_pipes(function_of(module))
    assert (verdict.kind, verdict.message) == (RIGHT, "")


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_120"])
@pytest.mark.parametrize("case", ["gemm_f16_f16acc_64x64x32", "gemm_gated_pair_f16", "attention_ragged_f16"])
def test_what_the_compiler_makes_of_kernels_is_right(case: str, gpu: str) -> None:
    options = CompileOptions(find_target(gpu))
    module: Any = run(read_module(runner.export_case(case), options), options, stop_at="nv_tileas")
    assert check_pipes(function_of(module)).kind == RIGHT


def test_a_function_without_pipes_is_right() -> None:
    options = CompileOptions(find_target("sm_90"))
    module: Any = run(read_module(runner.export_case("vector_add_float32"), options), options, stop_at="nv_tileas")
    assert check_pipes(function_of(module)).ways == 0


MISTAKES = [
    # kind, stages, agents, mutant, what is said
    ("mbarrier", 2, True, "drop wait 0", "nothing says|something else|on their way"),
    ("mbarrier", 2, True, "drop release 0", "given back"),
    ("mbarrier", 2, True, "double release 0", "nobody waited for"),
    ("mbarrier", 2, True, "early release 0", "after it was given back"),
    ("mbarrier", 2, True, "drop acquire 0", "something else|overwritten, and nothing says that it has been read"),
    ("mbarrier", 2, True, "drop commit 0", "waits at 'nv_tileas.consumer_wait' for what never comes"),
    ("mbarrier", 2, True, "double commit 0", "something else than what was waited for|nobody waits for"),
    ("mbarrier", 3, True, "smaller ring 0", "stage 2 of a ring that has 2"),
    ("mbarrier", 3, True, "larger pipe 0", "stage 3 of a ring that has 3"),
    ("mbarrier", 2, True, "consumers +1 of pipe 0", "for what never comes"),
    ("mbarrier", 2, True, "consumers -1 of pipe 0", "more arrivals at a barrier than it counts"),
    ("mbarrier", 2, True, "producers +1 of pipe 0", "waits at 'nv_tileas.consumer_wait' for what never comes"),
    ("cp_async", 2, True, "producers -1 of pipe 0", "more arrivals at a barrier than it counts"),
    ("mbarrier", 2, False, "drop release 0", "given back|never comes"),
    ("group", 1, False, "drop barrier 0", "nothing says"),
    ("group", 2, False, "drop barrier 0", "nothing says"),
]


def mutated(module: Operation, name: str) -> Operation:
    found: dict[str, Mutant] = {m.name: m for m in mutants_of(module)}
    copy = module.clone()
    found[name].apply(copy)
    return copy


@pytest.mark.parametrize("kind, stages, agents, name, message", MISTAKES)
def test_a_mistake_is_told(kind: str, stages: int, agents: bool, name: str, message: str) -> None:
    module = through_a_ring(kind, stages, agents)
    verdict = check_pipes(function_of(mutated(module, name)))
    assert verdict.kind == WRONG
    assert re.search(message, verdict.message), verdict.message
    assert verdict.op is not None
    quick = check_pipes(function_of(mutated(module, name)), QUICK_WAYS, QUICK_ORDERS)
    assert quick.kind == WRONG


def test_a_barrier_behind_the_making_of_a_pipe_is_missed() -> None:
    """Where `order-memory` hasn't run yet it isn't."""
    module = through_a_ring("mbarrier", 2, True)
    broken = mutated(module, "drop barrier 0")
    verdict = check_pipes(function_of(broken))
    assert (verdict.kind, verdict.message) == (WRONG, "a pipe's barriers are used, and nothing says that they are set up")
    assert check_pipes(function_of(broken), placed=False).kind == RIGHT


def test_passes_are_verified_by_it() -> None:
    module = mutated(through_a_ring("mbarrier", 2, True), "drop commit 0")
    with pytest.raises(CompileError, match="the pass 'order-memory' left pipes that go wrong: nobody goes on"):
        verify_after(module, "order-memory")
    verify_after(module, "cse")


@pytest.mark.parametrize("change", [lambda loop: _bounds(loop, MOST_TRIPS_KNOWN + 5), lambda loop: _bounds(loop, 1 << 30)])
def test_a_loop_that_runs_too_often_is_not_decided(change: Callable[[Any], None]) -> None:
    module = through_a_ring("mbarrier", 2, False)
    change(next(op for op in module.walk() if op.name == "scf.for"))
    assert check_pipes(function_of(module)).kind == NOT_DECIDED


def _bounds(loop: Any, trips: int) -> None:
    for operand, number in ((0, 0), (1, trips), (2, 1)):
        constant = arith.Constant.make([], [i32], {"value": IntegerAttr(number, i32)})
        loop.parent.insert_op_before(constant, loop)
        loop.operands[operand] = constant.results[0]


def test_a_chosen_trip_count_is_carried_back_to_what_it_comes_from() -> None:
    """The tiles of K are (K + 63) >> 6; K is chosen so that there are as many as wanted, and a guard that asks K agrees."""
    way = Way(lambda kind, below: 0, 8)
    k = way.term("argument", 0, (), 32)
    tiles = way.term("arith.shrui", None, (way.term("arith.addi", None, (k, 63), 32), 6), 32)
    assert way.number(tiles, 3) == 3
    assert way.known(k) == 3 * 64 - 63
    assert way.known(way.term("arith.cmpi", ("slt", 32), (k, 130), 1)) == 1
    assert way.known(way.term("arith.cmpi", ("ugt", 32), (way.term("arith.subi", None, (tiles, 1), 32), 1), 1)) == 1


def test_the_same_expression_is_the_same_choice() -> None:
    way = Way(lambda kind, below: 1, 8)
    a, b = (way.term("nv_tileas.load", "p", (way.term("argument", 0, (), 32),), 32) for _ in range(2))
    assert a is b
    assert way.number(a, 5) == way.number(b, 9) == 5


@pytest.mark.parametrize("received, kind", [(64, RIGHT), (48, WRONG), (80, WRONG)])
def test_bytes_that_come_must_be_those_expected(received: int, kind: str) -> None:
    """A loop of one agent whose ring is filled by the copy engine: 16 elements of 4 bytes a stage."""
    module: Any = through_a_ring("mbarrier", 2, False)
    _by_the_engine(module, 2048 * received // 64)
    assert check_pipes(function_of(module)).kind == kind


def _by_the_engine(module: Operation, received: int) -> None:
    """Let the copy engine fill the ring of 512 f32: the store becomes a copy of the tile's view."""
    create: Any = next(op for op in module.walk() if op.name == "nv_tileas.create_pipeline")
    pipe = create.results[0]
    pipe._type = nv_tileas.PipeType(StringAttr("tma"), pipe.type.stages)
    create.properties["bytes"] = IntAttr(received)
    create.properties.pop("producers")
    store: Any = next(op for op in module.walk() if op.name == "nv_tileas.store_shared")
    load: Any = store.operands[0].owner
    acquire = next(op for op in module.walk() if op.name == "nv_tileas.producer_acquire")
    copy = nv_tileas.TiledCopy.make([load.view, load.coords, store.operands[1], pipe, acquire.results[0], None, None], [],
                                    {"atom": StringAttr("tma")})
    store.parent.insert_op_before(copy, store)
    store.detach()
    store.erase()
