"""Our cubins beside the original's: nothing differs that has no explanation, and the comparison sees what differs."""
from __future__ import annotations

import pytest

from bench import beside
from tests.sim import reference

pytestmark = pytest.mark.skipif(reference.original() is None, reason="the original isn't installed")
CASES = {"sm_90": ("matmul_float16_float32", "reduce_softmax_ragged"), "sm_80": ("atomic_add_float16",),
         "sm_120": ("attention_d64_f16",)}


@pytest.mark.parametrize("case,gpu", [(case, gpu) for gpu, cases in CASES.items() for case in cases])
def test_every_difference_has_an_explanation(case: str, gpu: str) -> None:
    pytest.importorskip("cuda.tile")
    found = beside.differences(case, gpu)
    assert [d for d in found if not d.reason] == []
    assert any(d.fact.startswith("info ") for d in found)       # code is never the same


def test_the_comparison_reads_what_a_driver_does() -> None:
    pytest.importorskip("cuda.tile")
    from tests.kernels import runner

    case = "matmul_float16_float32"
    ours = runner.compile_case(case, "sm_90", lineinfo=True)
    seen = beside.facts(ours.cubin, case, ours.ptx)
    [entry] = ours.entries
    assert seen["parameters"] == [(i, at, p.bytes) for i, (at, p) in enumerate(zip(entry.param_offsets, entry.params))]
    assert seen["hidden maps"] == len(entry.maps) > 0 and seen["info LANGUAGE"] == ("07000000",)
    assert seen["host vector"] == [2, 0, 0, 0, 64, "address", 1, 2, "address"]
    assert seen["directive language"] == "7" and seen["directive minnctapersm"] == "1" and seen["section .nv.host"]
    assert any(fact.startswith("kind cp.async.bulk.tensor") for fact in seen)
    other = beside.facts(ours.cubin, case, ours.ptx.replace(".language 7", ".language 3"))
    assert {key for key in seen if seen[key] != other[key]} == {"directive language"}
    assert not beside.Difference("directive language", "7", "3").reason
