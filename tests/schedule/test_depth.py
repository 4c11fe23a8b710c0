"""Depths of load rings: by the formula worked out by hand, by hints, by shared memory, by other blocks on the SM."""
from __future__ import annotations

import re
import time
from dataclasses import replace
from types import SimpleNamespace

import cuda.tile as ct
import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, f32

import tileiras
from tests.kernels import runner
from tileiras.compiler import compile_module
from tileiras.driver.options import CompileOptions
from tileiras.machine.targets import find_target
from tileiras.schedule.depth import FEW_ROWS, HANDOVER, MOST_STAGES, Depth, RingFacts, is_narrow, ring_depth, shared_budget
from tileiras.sim.cutile import export

H100, A100, RTX5090, T4 = (find_target(f"sm_{n}") for n in (90, 80, 120, 75))


def test_a_wgmma_product_of_128x128x64_has_five_stages() -> None:
    # 32 KiB at 9e12 / (0.92 * 1.98e9) / 132 = 37.4 B a cycle: 876 cycles behind 800 of latency; 512 cycles of product;
    # 1676 / 512 = 3.3 stages on their way, four, and one that is read
    assert ring_depth(RingFacts(32768, 512), H100) == Depth(5, 5, "latency", 1675, 512)


def test_a_longer_iteration_needs_fewer_stages() -> None:
    depths = [ring_depth(RingFacts(32768, work), H100).wanted for work in (128, 256, 512, 1024, 4096)]
    assert depths == [15, 8, 5, 3, 2]


def test_a_short_iteration_takes_as_long_as_a_stage_is_handed_over() -> None:
    facts = RingFacts(1024, 1)
    assert ring_depth(facts, H100).interval == HANDOVER
    assert ring_depth(facts, H100).stages == 10     # (800 + 27) / 100, and one


def test_a_loop_without_products_is_as_slow_as_its_loads() -> None:
    depth = ring_depth(RingFacts(16384, 40, has_product=False), H100)
    assert (depth.interval, depth.stages) == (438, 4)     # 16384 / 37.4; (800 + 438) / 438 = 2.8, and one


@pytest.mark.parametrize(("hint", "stages"), [(1, 5), (4, 5), (5, 6), (8, 6), (10, 6), (0, 5)])
def test_a_hint_of_latency_asks_for_one_stage_more(hint: int, stages: int) -> None:
    """Never for fewer than hide the latency, here five. 227 KiB hold six stages of 32 KiB beside 32 KiB of other buffers; a hint of
    0 says nothing."""
    assert ring_depth(RingFacts(32768, 512, other_bytes=30000, latency=hint), H100).stages == stages


@pytest.mark.parametrize(("hint", "stages"), [(1, 5), (4, 5), (5, 6)])
def test_a_block_alone_has_no_fewer_stages_by_a_hint(hint: int, stages: int) -> None:
    """Its shared memory is of use to nobody else; one and a half times the latency, 2513 cycles, are to be hidden."""
    facts = RingFacts(32768, 640, other_bytes=30000, alone=True)
    assert ring_depth(facts, H100).stages == 5 and ring_depth(replace(facts, alone=False), H100).stages == 4
    assert ring_depth(replace(facts, latency=hint), H100).stages == stages


def test_shared_memory_bounds_a_ring() -> None:
    assert ring_depth(RingFacts(65536, 512), H100) == Depth(3, 6, "shared memory", 2551, 512)
    assert ring_depth(RingFacts(65536, 512), RTX5090).stages == 1
    assert ring_depth(RingFacts(65536, 512, other_bytes=100000), H100).stages == 2
    assert ring_depth(RingFacts(1 << 30, 512), H100).stages == 1


def test_a_wanted_occupancy_divides_shared_memory() -> None:
    assert [ring_depth(RingFacts(32768, 512, occupancy=n), H100).stages for n in (1, 2, 3, 8)] == [5, 3, 2, 1]


def test_rings_leave_room_for_other_blocks_on_the_sm() -> None:
    depth = ring_depth(RingFacts(8192, 130, blocks=4), H100)
    assert (depth.stages, depth.bound) == (6, "other blocks on the SM")         # 56 KiB a block
    assert ring_depth(RingFacts(8192, 130, blocks=1), H100).stages == 9
    assert ring_depth(RingFacts(65536, 100, blocks=4), H100).stages == 3         # one block alone rather than a ring of one stage


def test_what_blocks_leave_that_have_no_room_is_for_those_that_have() -> None:
    # 40 KiB at 37.4 B a cycle: 1095 cycles behind 800. Two blocks would want ceil(1894 / 1024) + 1 = 3 stages each, and have two:
    # the one that there is has five, which it wants
    assert ring_depth(RingFacts(40960, 512, blocks=2), H100) == Depth(5, 5, "latency", 1894, 512)
    assert ring_depth(RingFacts(36864, 512, blocks=2), H100).stages == 3        # of these two blocks have three each


def test_what_waits_for_its_loads_has_a_deeper_ring_beside_two_blocks_than_what_computes_beside_three() -> None:
    # 8 KiB at 70 B a cycle: 117 cycles. 228 KiB by three, less 1,280 bytes, hold nine stages of 8 KiB; by four, six
    b200 = find_target("sm_100")
    assert ring_depth(RingFacts(8192, 80, has_product=False, blocks=4), b200).stages == 9
    assert ring_depth(RingFacts(8192, 177, has_product=False, blocks=4), b200).stages == 6
    assert ring_depth(RingFacts(8192, 80, has_product=False, blocks=2), b200).stages == 11      # as wanted
    assert ring_depth(RingFacts(8192, 80, has_product=False, blocks=4, occupancy=4), b200).stages == 6


def test_few_blocks_have_deep_rings_to_live_on() -> None:
    # 8 KiB at 37.4 B a cycle: 219 cycles; 2.5 times 1,019 are 11.6 of these; 228 KiB by two hold thirteen
    facts = RingFacts(8192, 80, has_product=False, blocks=4, few=True)
    assert ring_depth(facts, H100).stages == 13 and ring_depth(replace(facts, few=False), H100).stages == 6
    assert ring_depth(replace(facts, has_product=True), H100) == ring_depth(replace(facts, has_product=True, few=False), H100)
    assert ring_depth(replace(facts, occupancy=4), H100).stages == 6
    assert ring_depth(replace(facts, work=430), H100).stages == 7          # 11.6 of 219 cycles are 5.9 of 430
    assert ring_depth(replace(facts, work=445), H100) == ring_depth(replace(facts, work=445, few=False), H100)


def test_products_that_are_quicker_than_their_operands_have_four_stages_where_two_blocks_do() -> None:
    # 24 KiB at 37.4 B a cycle: 657 cycles, a stage is there after 1,457; by four blocks needed: two; 228 KiB by two hold four
    facts = RingFacts(24576, 448, blocks=4)
    assert ring_depth(facts, H100).stages == 2
    assert ring_depth(replace(facts, described=True), H100).stages == ring_depth(replace(facts, narrow=True), H100).stages == 4
    assert ring_depth(replace(facts, described=True, work=700), H100).stages == ring_depth(replace(facts, work=700), H100).stages
    assert ring_depth(replace(facts, described=True, stage_bytes=32768), H100).stages == 3      # no more by two
    assert ring_depth(replace(facts, described=True, occupancy=4), H100).stages == 2


def test_rings_beside_sums_of_the_tensor_core_are_as_long_for_half_as_much_work_more() -> None:
    # a stage's 24 KiB take 657 cycles on an H100's share of L2, and are there after 1,457; one of 900 is read meanwhile
    facts = RingFacts(24576, 900, blocks=4, described=True)
    assert ring_depth(facts, H100).stages == 2
    assert ring_depth(replace(facts, adds_up=True), H100).stages == 3
    assert ring_depth(replace(facts, adds_up=True, work=1000), H100).stages == 2


def test_products_of_few_rows_have_six_stages_beside_another_block_or_the_sm_to_themselves() -> None:
    # 16 KiB: 228 KiB by two, less 1,280 bytes, hold seven of them, by three four. 24 KiB by two: four
    facts = RingFacts(16384, 128, blocks=4, described=True)
    few = replace(facts, few_rows=64)
    assert ring_depth(facts, H100).stages == 4 and ring_depth(few, H100).stages == 7
    assert ring_depth(replace(few, stage_bytes=24576, work=256), H100) == Depth(7, 7, "latency", 1457, 256)
    assert ring_depth(replace(few, stage_bytes=24576, work=256, occupancy=2), H100).stages == 4     # two blocks were asked for
    assert ring_depth(replace(few, stage_bytes=24576, work=700), H100).stages == \
        ring_depth(replace(facts, stage_bytes=24576, work=700), H100).stages    # products take longer than loads


def test_products_of_few_rows_by_warps_have_as_many_stages_as_two_blocks() -> None:
    """However long they take; of the fewest rows one has the SM."""
    facts = RingFacts(24576, 700, blocks=4)
    assert ring_depth(facts, H100).stages == 2
    assert ring_depth(replace(facts, few_rows=32), H100).stages == 4
    assert ring_depth(replace(facts, few_rows=32, stage_bytes=36864), H100).stages == 3       # no more by two
    assert ring_depth(replace(facts, few_rows=16, stage_bytes=36864), H100) == Depth(4, 4, "latency", 1785, 700)


@pytest.mark.parametrize("shape, alone", [("64, 4096, 128, 64", True), ("128, 4096, 128, 64", False), ("32, 4096, 128, 64", False)])
def test_rings_of_few_rows_are_deep_in_kernels_that_only_multiply(shape: str, alone: bool) -> None:
    rows, size, columns, step = map(int, shape.split(","))

    def shared(scaled: bool) -> int:
        @ct.kernel
        def product(a, b, out):         # type: ignore[no-untyped-def]
            acc = ct.zeros((rows, columns), ct.float32)
            for k in range(ct.num_tiles(a, 1, (rows, step))):
                x = ct.load(a, (ct.bid(0), k), (rows, step))
                if scaled:
                    x = ct.sin(x)
                acc = ct.mma(x, ct.load(b, (k, ct.bid(1)), (step, columns)), acc)
            ct.store(out, (ct.bid(0), ct.bid(1)), acc.astype(ct.float16))

        arrays = [np.zeros(s, np.float16) for s in ((rows, size), (size, size), (rows, size))]
        return tileiras.compile(export(product, arrays, "sm_90").bytecode, gpu_name="sm_90").entries[0].shared_bytes
    assert (shared(False) > shared_budget(H100, 2)) is alone
    assert rows != FEW_ROWS or shared(True) <= shared_budget(H100, 2)


@pytest.mark.parametrize("shapes, narrow", [([(16, 64)], True), ([(16, 32)], False), ([(128, 32)], True), ([(64, 256)], False),
                                            ([(16, 64), (16, 128)], True), ([(16, 64), (64, 64)], False), ([], False)])
def test_narrow_products_have_few_rows_or_columns_and_many_of_the_other(shapes: list[tuple[int, int]], narrow: bool) -> None:
    results = [SimpleNamespace(results=[SimpleNamespace(type=TensorType(f32, shape))]) for shape in shapes]
    assert is_narrow(results) is narrow         # type: ignore[arg-type]


@pytest.mark.parametrize(("case", "deep"), [("layer_norm_backward_sum_parts_twin", True), ("kl_divergence_f32_ragged_twin", False)])
def test_loops_that_walk_down_rows_are_of_few_blocks(case: str, deep: bool) -> None:
    """Those along rows aren't: of theirs an SM holds four blocks."""
    ptx = tileiras.compile(runner.export_case(case), gpu_name="sm_90").ptx
    found = re.search(r"\.shared .*\[(\d+)\];", ptx)
    assert found is not None and (int(found[1]) > shared_budget(H100, 3)) is deep and int(found[1]) <= shared_budget(H100, 2)


def test_a_hint_of_occupancy_that_no_ring_meets_makes_none_shorter() -> None:
    """150 KiB beside the ring: two blocks have no room (absorbed latent attention, H100: 13.9 us by one stage, 7.0 by two)."""
    facts = RingFacts(16384, 5000, other_bytes=153856)
    assert ring_depth(replace(facts, occupancy=2), H100) == ring_depth(facts, H100) == Depth(2, 2, "latency", 1238, 5000)
    assert ring_depth(replace(facts, other_bytes=96000, occupancy=2), H100).stages == 1


def test_a_hint_of_occupancy_leaves_loads_that_a_loop_lives_on_a_ring() -> None:
    """A block of 99 KiB has three stages of 32 KiB, two blocks of 49 one each; loads of 32 KiB take 1371 cycles."""
    facts = RingFacts(32768, 1292, has_product=False, occupancy=2, blocks=4, warps=8, few=True)
    assert ring_depth(facts, RTX5090).stages == 3
    assert ring_depth(replace(facts, work=1500), RTX5090).stages == 1       # they fill each other's pauses
    assert ring_depth(replace(facts, has_product=True), RTX5090).stages == 1


def test_budgets_are_what_a_block_may_declare_and_its_share_of_the_sm() -> None:
    assert shared_budget(H100) == 227 * 1024 - 256
    assert shared_budget(H100, 2) == 113 * 1024 - 256
    assert shared_budget(A100) == 163 * 1024 - 256
    assert shared_budget(T4) == 64 * 1024 - 256


def test_no_ring_is_deeper_than_the_bound_or_emptier_than_one() -> None:
    for target in (T4, A100, H100, RTX5090):
        for stage in (0, 16, 4096, 1 << 22):
            for work in (0, 1, 1000, 1e9):
                for hint in (None, 1, 10**6):
                    assert 1 <= ring_depth(RingFacts(stage, work, latency=hint), target).stages <= MOST_STAGES


@pytest.mark.parametrize("case", ["attention_d64_f16", "gemm_f16_f16acc_64x64x32", "vector_add_float32"])
def test_scheduling_is_a_small_part_of_a_warm_compile(case: str) -> None:
    """A tenth at most; the best of three, since a machine may be busy."""
    shares = []
    for _ in range(3):
        options = CompileOptions(find_target("sm_90"), timing=[])
        start = time.perf_counter()
        compile_module(runner.export_case(case), options)
        assert options.timing is not None
        shares.append(sum(s for name, s in options.timing if name == "generate-schedule") / (time.perf_counter() - start))
    assert min(shares) < 0.1
