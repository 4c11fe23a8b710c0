"""make speed: what it lists, how it compares, what the page says."""
from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from bench.speed import compare, side
from bench.speed.kernels import KERNELS, SHORT, by_name, case_of, launch
from bench.speed.page import page
from tileiras.machine.machines import machine_of


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
    assert f"| {kernel.name} | 100.0 | 200.0 | 2.00 |" in text and "refused" in text
    assert f"| H100 | 2 of {len(KERNELS)} | 1 | 2.00 | 1 | 0 | 0 |" in text


def test_the_page_names_where_the_original_is_faster_and_how_clearly():
    names = [k.name for k in KERNELS[:3]]
    times = (0.9e-4, 0.97e-4, 1.2e-4)
    pairs = [compare.pair(name, "norm", "A100", record(1e-4), record(t)) for name, t in zip(names, times)]
    text = page(pairs, by_name())
    clearly, slightly = text.split("0.95 to 1:")
    assert f"- A100, `{names[0]}`: 0.900;" in clearly and f"- A100, `{names[1]}`: 0.970;" in slightly
    assert f"`{names[2]}`: 1.2" not in text
    assert "| A100 | 3 of" in text and "| 3 | 1.02 | 1 | 1 | 1 |" in text             # (0.9 * 0.97 * 1.2) ** (1 / 3) = 1.0155


def test_an_estimate_stands_in_brackets_and_in_no_mean():
    found = compare.pair(KERNELS[0].name, "norm", "H100", record(1e-4), record(2e-4, estimate=True, reason="no way"))
    text = page([found], by_name())
    assert "| (2.00) |" in text and "| 1 of" in text and "| 0 | 0.00 |" in text


def test_rows_of_an_earlier_model_are_marked():
    pairs = [compare.pair(k.name, "norm", "H100", record(1e-4, model=m), record(1e-4, model="new"))
             for k, m in zip(KERNELS, ("new", "old"))]
    text = page(pairs, by_name(), "new")
    assert f"| {KERNELS[0].name} | " in text and f"| {KERNELS[1].name} † | " in text


def test_runs_meet_in_one_table_where_the_later_one_replaces(tmp_path, monkeypatch):
    from bench.speed import results
    monkeypatch.setattr(results, "RESULTS", tmp_path / "speed.json")
    monkeypatch.setattr(results, "PAGE", tmp_path / "speed.md")
    one, two = KERNELS[0].name, KERNELS[1].name
    results.merge([compare.pair(two, "norm", "B200", record(1e-4), record(1e-4)), compare.pair(one, "norm", "B200", record(1e-4),
                                                                                            record(2e-4, estimate=True))])
    results.merge([compare.pair(two, "norm", "H100", record(1e-4), record(3e-4))])
    results.merge([compare.pair(two, "norm", "B200", record(1e-4), record(4e-4)), compare.pair("gone", "norm", "B200", record(1e-4),
                                                                                            record(1e-4))])
    assert [(p.kernel, p.machine, round(p.ratio), p.is_estimate) for p in results.read()] == [
        (two, "H100", 3, False), (one, "B200", 2, True), (two, "B200", 4, False)]
    assert (tmp_path / "speed.md").read_text().count(f"| {two} † |") == 2


def test_a_ladders_summary_counts_neighbours_in_order_and_the_mean_error():
    from bench.speed.ladders import summary
    rows = [{"published": 1.0, "tflops": 1.1}, {"published": 2.0, "tflops": 1.8}, {"published": 3.0, "tflops": 1.5},
            {"published": 4.0, "failed": "no"}]
    assert summary(rows) == "3 of 4 steps predicted, 1 of 2 in the published order, mean error 23%"


def test_points_that_were_published_are_counted_by_order_and_error():
    from bench.speed.steps import section, summary
    points = (("one", 100.0, 110.0, False), ("two", 200.0, 180.0, False), ("three", 300.0, 170.0, False),
              ("four", 400.0, 900.0, True))
    rows = [{"ladder": "a100", "step": name, "published": figure, "predicted": predicted, "estimate": estimate, "bound": "L2",
             "remark": ""} for name, figure, predicted, estimate in points]
    assert summary(rows) == "3 of 4 points predicted, 1 of 2 in the published order, mean error 21%"     # 10, 10 and 43.3 %
    text = section(rows)
    assert "| one | 100 | 110 | +10% | L2 |  |" in text and "(900, an estimate)" in text


def test_the_section_of_points_is_replaced_and_what_stands_around_it_stays(tmp_path):
    from bench.speed import steps
    page_ = tmp_path / "timing.md"
    page_.write_text(f"before\n\n{steps.END}after\n")
    row = {"ladder": "a100", "step": "one", "published": 1.0, "predicted": 1.0, "estimate": False, "bound": "L2", "remark": ""}
    steps.write([row], page_)
    steps.write([row | {"step": "two"}], page_)
    text = page_.read_text()
    assert text.startswith("before\n") and text.endswith(f"{steps.END}after\n") and text.count(steps.HEADING) == 1
    assert "| two |" in text and "| one |" not in text


def test_every_published_point_has_a_kernel_whose_work_is_known():
    from bench.speed.steps import LADDERS
    for ladder in LADDERS.values():
        for step in ladder.steps:
            case, _ = case_of(step.kernel)
            assert case.grid == step.kernel.grid and step.kernel.flops == 2 * 4096 ** 3, step.name


def suite_row(kernel: str, ratio: float, **sides) -> dict:
    side = {"us": 2.0, "bound": "latency", "joined": True, "reason": "", "residual": 0.0}
    return {"kernel": kernel, "family": "norm", "machine": "H100", "ratio": ratio, "estimate": False, "why": "because",
            "model": "m", "ours": side, "original": side} | sides


def test_the_suites_page_names_what_is_slow_what_is_not_joined_and_what_has_no_prediction():
    from bench.speed import suite
    lost = {"us": 1.0, "bound": "latency", "joined": False, "reason": "no way", "residual": 0.0}
    loose = {"us": 1.0, "bound": "latency", "joined": True, "reason": "", "residual": 3.0}
    text = suite.page([suite_row("slow", 0.5), suite_row("quick", 2.0), suite_row("lost", 4.0, original=lost, estimate=True),
                       suite_row("loose", 1.0, ours=loose), suite_row("none", 0.0, original={"failed": "isn't compiled"})])
    assert "| norm | 1.00 of 3; 0.50 slow |" in text                        # 0.5, 2 and 1; the estimate counts nowhere
    assert "- H100, `slow`: 0.500 (2.00 us against 2.00); because" in text and "`quick`" not in text
    assert "| H100 | ours | 5 | 4 | 80.0% |" in text and "| H100 | original | 4 | 3 | 75.0% |" in text
    assert "- H100, `lost`, original: no way" in text and "- H100, `loose`, ours: 3.0 anchors" in text
    assert "- H100, `none`, original: isn't compiled" in text


def test_the_suite_comes_in_strides_and_every_case_once():
    from bench.speed import suite
    from tests.kernels import runner
    strides = suite.names(twins=False)
    assert sorted(n for s in strides for n in s) == sorted(runner.cases()) and len(strides) == suite.STRIDE
    assert len({suite.family(n) for n in strides[0]}) > 15


def test_a_suites_prediction_stands_for_its_code_inputs_and_machine():
    first = (b"code", (1, 1, 1), [np.zeros(4, np.float32), np.int32(4)], machine_of("H100"))
    others = ((b"else", *first[1:]), (first[0], (2, 1, 1), *first[2:]),
              (*first[:2], [np.ones(4, np.float32), np.int32(4)], first[3]),
              (*first[:2], [np.zeros((2, 2), np.float32), np.int32(4)], first[3]), (*first[:3], machine_of("A100")))
    assert len({side.launch_key(*parts) for parts in (first, *others)}) == 6
    again = (b"code", (1, 1, 1), [np.zeros(4, np.float32), np.int32(4)], machine_of("H100"))
    assert side.launch_key(*first) == side.launch_key(*again)


def test_an_instances_entry_is_the_one_with_its_arguments():
    from bench.speed.ladders import entry_of
    ptx = ".visible .entry _Z1kILi256ELi64ELb1EEvPf(\n.visible .entry _Z1kILi256ELi64ELb0EEvPf("
    assert entry_of(ptx, "k<256, 64, false>") == "_Z1kILi256ELi64ELb0EEvPf"
    assert entry_of(ptx, "k<256, 64, true>") == "_Z1kILi256ELi64ELb1EEvPf"


def test_what_the_results_hold_by_its_key_is_not_predicted_again(tmp_path, monkeypatch):
    """Nothing is in the cache, and the model isn't asked."""
    kernel = KERNELS[0]
    monkeypatch.setattr(side, "CACHE", tmp_path)
    monkeypatch.setattr(side, "predict", None)
    monkeypatch.setattr(side, "bytecode_of", lambda k: b"")
    monkeypatch.setattr(side.tileiras, "compile", lambda *_, **__: SimpleNamespace(ptx="ptx", cubin=b"cubin"))
    machine = machine_of("A100")
    key = side.key_of("ptx", b"cubin", machine, kernel)
    monkeypatch.setattr(side, "published", lambda: {key: {"seconds": 1.5, "key": key}})
    assert side.predicted(kernel, machine, "ours") == {"seconds": 1.5, "key": key}
