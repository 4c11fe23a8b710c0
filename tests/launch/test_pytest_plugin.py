"""`pytest -p tileiras.sim.pytest_plugin`: a suite of cuTile programs runs on the simulator, and its report says how each test
ended. The suites here are small files in a folder of their own, run by a pytest of their own."""
from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
from types import FrameType, TracebackType

import numpy as np
import pytest

from tileiras.sim import pytest_plugin as plugin

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 180

HEAD = """
import time
import cuda.tile as ct
import numpy as np
import pytest

@ct.kernel
def double(x, y, TILE: ct.Constant[int]):
    i = ct.bid(0)
    t = ct.load(x, (i,), (TILE,))
    ct.store(y, (i,), t + t)

@ct.kernel
def shift(x, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(x, (i + 1,), ct.load(x, (i,), (TILE,)))

def arrays(n=64):
    return np.arange(1, n + 1, dtype=np.float32), np.zeros(n, np.float32)
"""
SUITE = HEAD + """
@pytest.mark.parametrize("n", [64, 128, 192, 256, 320])
def test_double(n):
    x, y = arrays(n)
    ct.launch(0, (n // 64,), double, (x, y, 64))
    assert np.array_equal(y, 2 * x)

def test_capability():
    from cuda.tile._cext import get_compute_capability
    assert get_compute_capability() == (12, 0)

def test_refusal_is_expected():
    with pytest.raises(TypeError):
        ct.launch(0, (1,), double, (1, 2))

def test_wrong():
    x, y = arrays()
    ct.launch(0, (1,), double, (x, y, 64))
    assert np.array_equal(y, 3 * x)

def test_race():
    x, _ = arrays(192)
    ct.launch(0, (2,), shift, (x, 64))

def test_arguments():
    ct.launch(0, (1,), double, (1, 2))

def test_slow():
    while True:
        try:
            time.sleep(0.01)
        except Exception:
            pass

def test_many_instructions():
    x, y = arrays(64)
    for _ in range(100):
        ct.launch(0, (1,), double, (x, y, 64))

@pytest.mark.skip(reason="not today")
def test_skipped():
    pass
"""


def run(folder: pathlib.Path, source: str, *options: str, plugins: tuple[str, ...] = ("tileiras.sim.pytest_plugin",),
        ) -> tuple[subprocess.CompletedProcess[str], dict]:
    (folder / "test_suite.py").write_text(source)
    report = folder / "report.json"
    words = [w for p in plugins for w in ("-p", p)]
    done = subprocess.run([sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(folder), "-p", "no:cacheprovider",
                           *words, *options, *((f"--tile-report={report}",) if plugins else ()), "test_suite.py"],
                          capture_output=True, text=True, timeout=SECONDS, cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)})
    return done, json.loads(report.read_text()) if report.exists() else {}


def outcomes(report: dict) -> dict[str, str]:
    return {name.partition("::")[2]: test["outcome"] for name, test in report["tests"].items()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run(tmp_path_factory.mktemp("whole"), SUITE, "--tile-gpu=sm_120", "--tile-sample=3", "--tile-time=3",
               "--tile-instructions=1500")


def test_every_test_ends_as_what_it_is(whole):
    done, report = whole
    assert outcomes(report) == {
        "test_double[64]": "passed", "test_double[192]": "passed", "test_double[320]": "passed",     # 3 of 5, spread
        "test_capability": "no kernel", "test_refusal_is_expected": "no kernel",
        "test_wrong": "failed", "test_race": "finding", "test_arguments": "failed",
        "test_slow": "over budget", "test_many_instructions": "over budget", "test_skipped": "skipped"}
    assert done.returncode == 1 and report["gpu"] == "sm_120" and report["left_out"] == 2


def test_the_report_says_what_happened(whole):
    _, report = whole
    tests = {name.partition("::")[2]: test for name, test in report["tests"].items()}
    assert tests["test_double[64]"]["launches"] == 1 and tests["test_double[64]"]["kernels"] == ["double"]
    assert 0 < tests["test_double[64]"]["instructions"] < 1500
    found = tests["test_race"]["findings"]
    assert found[0]["kind"] == "data race" and re.search(r"test_suite.py:1[67]", found[0]["source"])
    assert "expects 3 arguments but 2 were given" in tests["test_arguments"]["reason"]
    assert "3 seconds" in tests["test_slow"]["reason"] and "instruction" in tests["test_many_instructions"]["reason"]
    assert tests["test_skipped"]["reason"] == "Skipped: not today"


def test_the_summary_counts_them(whole):
    out = whole[0].stdout
    assert "simulated for sm_120" in out and "left out by --tile-sample 3" in out
    for count, outcome in ((3, "passed"), (2, "no kernel"), (2, "failed"), (1, "finding"), (2, "over budget"), (1, "skipped")):
        assert re.search(rf"^ +{count}  {outcome} ", out, re.M), outcome
    assert "data race at" in out


def test_flipped_bytes_fail_the_tests_that_look(tmp_path):
    source = HEAD + """
def test_looks():
    x, y = arrays()
    ct.launch(0, (1,), double, (x, y, 64))
    assert np.allclose(y, 2 * x, rtol=0.1)

def test_does_not():
    x, y = arrays()
    ct.launch(0, (1,), double, (x, y, 64))
"""
    assert set(outcomes(run(tmp_path, source)[1]).values()) == {"passed"}
    assert outcomes(run(tmp_path, source, "--tile-mutate")[1]) == {"test_looks": "failed", "test_does_not": "passed"}


@pytest.mark.slow
def test_findings_may_be_kept(tmp_path):
    source = HEAD + "def test_race():\n    x, _ = arrays(192)\n    ct.launch(0, (2,), shift, (x, 64))\n"
    _, report = run(tmp_path, source, "--tile-findings=keep")
    [test] = report["tests"].values()
    assert test["outcome"] == "passed" and test["findings"][0]["kind"] == "data race"


def test_the_report_is_there_before_the_end(tmp_path, monkeypatch):
    class Options:
        tile_report, tile_sample, tile_seed, tile_mutate = str(tmp_path / "r.json"), None, 0, False

    class Config:
        option = Options
    made = plugin.Plugin(Config())                              # pyright: ignore[reportArgumentType]
    made.tests["a"] = {"outcome": "passed"}
    made.pytest_runtest_logfinish()
    assert not (tmp_path / "r.json").exists()
    monkeypatch.setattr(plugin, "WRITE_SECONDS", -1.0)
    made.pytest_runtest_logfinish()
    assert json.loads((tmp_path / "r.json").read_text())["counts"] == {"passed": 1}


@pytest.mark.slow
def test_reports_of_several_workers_come_together(tmp_path):
    source = HEAD + """
@pytest.mark.parametrize("n", [64, 128])
def test_double(n):
    x, y = arrays(n)
    ct.launch(0, (n // 64,), double, (x, y, 64))
    assert np.array_equal(y, 2 * x)
"""
    done, report = run(tmp_path, source, "-n2", plugins=("tileiras.sim.pytest_plugin", "xdist"))
    assert done.returncode == 0 and outcomes(report) == {"test_double[64]": "passed", "test_double[128]": "passed"}
    assert "2 launches" in done.stdout


def test_nothing_is_touched_without_being_asked(tmp_path):
    source = "import cuda.tile as ct\ndef test_it():\n    assert not hasattr(ct.launch, '__code__')      # it is C\n"
    assert run(tmp_path, source, plugins=())[0].returncode == 0
    assert run(tmp_path, source)[0].returncode == 1


def test_an_unknown_gpu_is_a_usage_error(tmp_path):
    done, _ = run(tmp_path, HEAD, "--tile-gpu=sm_7")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR and "unsupported GPU target 'sm_7'" in done.stderr + done.stdout


@pytest.mark.parametrize("n,chosen", [(1, [0]), (2, [0, 9]), (4, [0, 3, 6, 9]), (10, list(range(10))), (99, list(range(10)))])
def test_samples_are_spread(n, chosen):
    assert plugin.sample(list(range(10)), n, 0, "f") == chosen


def test_seeds_draw_other_samples():
    drawn = [plugin.sample(list(range(100)), 5, seed, "f") for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2] and all(d == sorted(set(d)) and len(d) == 5 for d in drawn)


@pytest.mark.parametrize("dtype", ["float32", "int16", "bool", "uint8"])
def test_one_element_that_was_written_is_damaged(dtype):
    first, second = np.zeros(4, dtype), np.zeros((3, 2), dtype)
    before = [a.tobytes() for a in (first, second)]
    second[1, 1] = 1
    want = second.copy()
    plugin.flip_a_byte([first, second], before)
    assert not first.any() and (second != want).sum() == 1 and second[1, 1] != want[1, 1]
    plugin.flip_a_byte([first, second], [a.tobytes() for a in (first, second)])      # nothing was written: the first one
    assert np.count_nonzero(first) == 1


def test_what_has_no_line_is_left_out_of_tracebacks() -> None:
    """An alarm may ring between two lines; pytest can't show such an entry."""
    def fails() -> None:
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ValueError("second") from error
    with pytest.raises(ValueError) as caught:
        fails()
    outer, inner = caught.value.__traceback__, caught.value.__traceback__.tb_next       # type: ignore[union-attr]
    without = code_without_lines(inner.tb_frame)        # type: ignore[union-attr]
    caught.value.__traceback__ = without
    plugin._with_lines_only(caught)
    assert caught.value.__traceback__ is None and len(caught.traceback) == 0
    caught.value.__traceback__ = outer
    plugin._with_lines_only(caught)
    assert caught.value.__traceback__ is outer


def code_without_lines(frame: FrameType) -> TracebackType:
    """A traceback of one entry at an instruction that has no line."""
    entry = TracebackType(None, frame, 0, 1)
    nowhere = next((i for i, _, line in frame.f_code.co_lines() if line is None), None)
    if nowhere is None:
        pytest.skip("this Python gives every instruction a line")
    found = TracebackType(None, entry.tb_frame, nowhere, -1)
    if found.tb_lineno is not None:
        pytest.skip("this Python finds a line all the same")
    return found
