"""Counts of whole suites: reports of several files come together by suite and SM, failures by reason."""
from __future__ import annotations

import json

import pytest

from tests.public import suites


def report(path, gpu, left_out=0, sample=None, **tests):
    entries = {name: {"outcome": outcome, "reason": reason, "launches": 1, "findings": [
        {"kind": "data race", "kernel": "k", "source": "/home/x/prog.py:7", "message": "m", "ptx_line": 1}]}
        for name, (outcome, reason) in tests.items()}
    path.write_text(json.dumps({"gpu": gpu, "sample": sample, "left_out": left_out, "tests": entries}))
    return str(path)


def test_a_table_a_row_for_each_suite_and_sm(tmp_path, capsys):
    a = report(tmp_path / "a", "sm_90", 3, a=("passed", ""), b=("failed", "OSError: libcuda.so.1"), c=("finding", "DataRace"))
    b = report(tmp_path / "b", "sm_90", 4, d=("passed", ""), e=("failed", "AssertionError: assert 1 == 2"))
    c = report(tmp_path / "c", "sm_80", 0, a=("skipped", ""))
    m = report(tmp_path / "m", "sm_90", 0, a=("failed", "AssertionError"), b=("failed", "x"), d=("passed", ""))
    assert suites.main([f"One={a},{b}", f"One={c}", "--mutated", f"One={m}"]) == 0
    out = capsys.readouterr().out
    assert "| One | sm_90 | 2 | 0 | 2 | 1 | 0 | 0 | 0 | 7 |" in out and "| One | sm_80 | 0 | 0 | 0 | 0 | 0 | 0 | 1 | 0 |" in out
    assert "| calls the CUDA driver itself | 1 | 0 |" in out and f"| {suites.OWN} | 1 | 0 |" in out
    assert "data race at prog.py:7 (1)" in out and "1 of 2 tests of One that pass on sm_90 fail (50 %)" in out


@pytest.mark.parametrize("text,reason", [
    ("RuntimeError: CUDA graphs aren't recorded where", "records CUDA graphs"),
    ('NotImplementedError: "abs_cpu" not implemented for \'Bool\'', "its reference is an operation that PyTorch has on GPUs only"),
    ("AssertionError: Regex pattern did not match.", "is written for another version of cuTile or Python"),
    ("AssertionError: assert 3 == 4", suites.OWN), ("", suites.OWN)])
def test_reasons(text, reason):
    assert suites.reason_of({"reason": text}) == reason


def test_a_reason_may_be_one_test_s_own():
    test = {"reason": "CalledProcessError: Command 'x' returned non-zero exit status 1."}
    assert suites.reason_of(test, "test/test_debug.py::test_x").startswith("puts a compiler that fails")
    assert suites.reason_of(test, "test/test_mma.py::test_x") == "starts a program of its own that fails"


@pytest.mark.parametrize("apart,explained", [
    ("1.2e-07 at index (3,)", True), ("4.7e-07 (up to 0 allowed)", True), ("4.9e-07", False), ("inf at index (0,)", False),
    ("nan at index (0,)", False)])
def test_results_apart_are_explained_by_rounding_only_where_they_are_close(apart, explained):
    test = {"reason": "AssertionError: Tensor-likes are not equal!",
            "message": f"Tensor-likes are not equal!\n\nGreatest relative difference: {apart}"}
    assert suites.reason_of(test) == (suites.ROUNDS_OTHERWISE if explained else suites.OWN)
    assert suites.reason_of({"reason": test["reason"]}) == suites.OWN


def test_the_page_keeps_what_the_other_tool_writes(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# Other\n\ntext\n\n{suites.MARKER}\n\nhow\n\n{suites.BEGIN}\nold\n{suites.END}\n\nwhy\n")
    assert suites.main([f"One={report(tmp_path / 'a', 'sm_90', a=('passed', ''))}", "--write", str(page)]) == 0
    text = page.read_text()
    assert text.startswith("# Other\n\ntext") and text.endswith("why\n") and "old" not in text and "| One | sm_90 | 1 |" in text
    assert suites.kept(page).startswith(f"\n{suites.MARKER}") and suites.kept(tmp_path / "none") == ""
    page.write_text("# Other\n")
    with pytest.raises(SystemExit):
        suites.main([f"One={tmp_path / 'a'}", "--write", str(page)])
