"""The table of where a cold command's time goes."""
from __future__ import annotations

import pytest

from bench import cold


def test_every_step_is_counted_once() -> None:
    pytest.importorskip("cuda.tile")
    steps = cold.profile("reduce_softmax_ragged", "sm_90", 1)
    assert all(ms >= 0 for ms in steps.values())
    # An import of xDSL's builtin dialect, a pass pipeline, ptxas: none of them is for nothing on any machine.
    assert min(steps["imports: xDSL"], steps["passes, down to LLVM IR text"], steps["ptxas"]) > 1
    assert steps["reading and verifying"] < steps["passes, down to LLVM IR text"]


def test_the_table() -> None:
    assert cold.table({"a": 1.25, "b": 100.0}).splitlines() == [
        "| step | ms of processor time |", "|---|---:|", "| a | 1.2 |", "| b | 100.0 |"]
