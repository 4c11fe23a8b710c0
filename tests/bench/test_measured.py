"""Predictions beside what an H100 measured: a few kernels that different units bound."""
from __future__ import annotations

import pytest

from bench.speed import measured
from bench.speed.kernels import by_name

BOUND = {"layer_norm_f16": "DRAM", "memory_gather_f32": "requests to L2",
         "matmul_f16_4096_unaligned": "shared memory behind loads"}
"""Kernels whose code is what it was when it was measured."""


def test_the_record_is_of_kernels_of_make_speed() -> None:
    held = measured.record()["kernels"]
    assert set(held) <= set(by_name()) and sum(map(len, held.values())) == 135
    for sides in held.values():
        for entry in sides.values():
            assert measured.measured(entry) > 0 < entry["in_turn"]
            if "profiled" in entry:
                assert entry["cycles"] / entry["MHz"] == pytest.approx(entry["profiled"], rel=0.01)


def test_predictions_are_near_what_was_measured() -> None:
    rows = measured.compare(BOUND, ("ours",))
    assert len(rows) == len(BOUND)
    for name, _, found, said in rows:
        assert 0.75 < found / said < 1.25, (name, BOUND[name], found, said)
    assert measured.error(rows) < 1.15


def test_error_counts_both_ways_alike() -> None:
    rows = [("k", "ours", 2.0, 1.0), ("k", "original", 1.0, 2.0)]
    assert measured.error(rows) == pytest.approx(2) and measured.bias(rows) == pytest.approx(1)
