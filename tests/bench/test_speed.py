"""make speed: what it lists, how it compares, what the page says."""
from __future__ import annotations

import numpy as np
import pytest

from bench.speed import compare
from bench.speed.kernels import KERNELS, SHORT, by_name, case_of, launch
from bench.speed.page import page


def record(seconds: float, **changes) -> dict:
    found = {"cycles": seconds * 1.8e9, "seconds": seconds, "bound": "latency", "estimate": False, "reason": "",
             "shares": {"issue": 0.1, "DRAM": 0.4}, "resident_warps": 16, "stalls": {"global memory": 0.8, "barrier": 0.2},
             "counts": {"warp instructions": 1e6, "sectors": 1e5, "shared passes": 0, "spills": 0}}
    return found | changes


def test_every_kernel_is_of_the_suite_and_its_arguments_fit_it():
    assert len(by_name()) == len(KERNELS) >= 55
    families = "product attention norm softmax reduction elementwise gather atomic scan".split()
    assert {k.family for k in KERNELS} >= set(families)
    for kernel in KERNELS:
        case, bounds = case_of(kernel)
        assert [type(a) for a in case.args] == [type(a) for a in case_of_suite(kernel.case).args], kernel.name
        assert all(0 <= i < len(case.args) for i in bounds), kernel.name
    assert set(SHORT) <= set(by_name())


def case_of_suite(name: str):
    from tests.kernels import runner
    return runner.case_of(name)


def test_arrays_that_hold_places_hold_places_in_bounds():
    case, bounds = case_of(by_name()["embedding_lookup_bf16"])
    places = launch(case, bounds)[5]
    assert places.dtype == np.int64 and 0 <= places.min() and 16384 < places.max() < 32000


def test_a_ratio_is_the_originals_time_over_ours_and_says_why_the_slower_is_slower():
    slow = record(2e-5, stalls={"mbarrier": 0.9, "global memory": 0.1}, counts=record(1)["counts"] | {"sectors": 4e5})
    found = compare.pair("k", "norm", "H100", record(1e-5), slow)
    assert found.counts and found.ratio == pytest.approx(2)
    assert found.why.startswith("original waits longer for mbarrier") and "4.0x sectors" in found.why
    assert compare.pair("k", "norm", "H100", slow, record(1e-5)).ratio == pytest.approx(0.5)


def test_sides_that_were_not_joined_are_left_out():
    found = compare.pair("k", "norm", "H100", record(1e-5), record(1e-5, estimate=True, reason="no way"))
    assert not found.counts and "no way" in found.why
    assert not compare.pair("k", "norm", "H100", {"failed": "no"}, record(1e-5)).counts


def test_the_mean_is_geometric():
    assert compare.mean([0.5, 2.0]) == pytest.approx(1) and compare.mean([]) == 0


def test_the_page_shows_every_pair():
    kernel = KERNELS[0]
    good = compare.pair(kernel.name, kernel.family, "H100", record(1e-4), record(2e-4))
    left = compare.pair(KERNELS[1].name, kernel.family, "H100", {"failed": "refused"}, record(1e-4))
    text = page([good, left], by_name())
    assert f"| {kernel.name} | 100.0 | 200.0 | 2.00 |" in text and "refused" in text and "| H100 | 2 | 1 |" in text


def test_a_ladders_summary_counts_neighbours_in_order_and_the_mean_error():
    from bench.speed.ladders import summary
    rows = [{"published": 1.0, "tflops": 1.1}, {"published": 2.0, "tflops": 1.8}, {"published": 3.0, "tflops": 1.5},
            {"published": 4.0, "failed": "no"}]
    assert summary(rows) == "3 of 4 steps predicted, 1 of 2 in the published order, mean error 23%"
