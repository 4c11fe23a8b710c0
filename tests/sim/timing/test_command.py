"""`tileiras-sim --time` and `tileiras.launch(time=...)` predict, and say what is wrong with a code."""
from __future__ import annotations

import json

import numpy as np
import pytest

import tileiras
from tests.kernels import runner
from tests.sim.timing.kernels import LOOP, assembled, needs_disassembler
from tileiras.errors import ConfigError
from tileiras.tools.tileiras_sim import main

pytestmark = needs_disassembler
ARGUMENTS = ["--arg", "out:f32:320", "--arg", "out:f32:64", "--arg", "u32:5", "--arg", "u32:4"]


@pytest.fixture
def files(tmp_path):
    (tmp_path / "k.ptx").write_text(LOOP)
    (tmp_path / "k.cubin").write_bytes(assembled(LOOP))
    (tmp_path / "bare.cubin").write_bytes(assembled(LOOP, lineinfo=False))
    return tmp_path


def said(capsys, *arguments) -> str:
    assert main([*map(str, arguments), *ARGUMENTS]) == 0
    return capsys.readouterr().out


def test_a_time_and_a_timeline_come_of_ptx(files, capsys):
    out = said(capsys, files / "k.ptx", "--time", "--machine", "H100", "--timeline", files / "t.json")
    assert "k on H100" in out and "cycles" in out and "anchors missed 0" in out
    events = json.loads((files / "t.json").read_text())["traceEvents"]
    assert any(e["ph"] == "X" for e in events)


def test_cubins_that_somebody_else_made_give_the_same(files, capsys):
    alone = said(capsys, files / "k.cubin", "--time")
    beside = said(capsys, files / "k.ptx", "--cubin", files / "k.cubin", "--time")
    ours = said(capsys, files / "k.ptx", "--time")
    assert alone == beside == ours


@pytest.mark.parametrize(("arguments", "code", "words"), [
    (["k.ptx", "--time", "--machine", "Z9"], 2, "Z9"),
    (["k.ptx", "--time", "--machine", "A100"], 2, "doesn't run on A100"),
    (["k.ptx", "--cubin", "bare.cubin", "--time"], 5, "--lineinfo"),
    (["bare.cubin", "--time"], 4, "--lineinfo"),
    (["k.ptx", "--cubin", "k.ptx", "--time"], 5, "not a cubin"),
    (["k.ptx", "--machine", "H100"], 1, "go with --time"),
    (["k.ptx", "--time", "--kernel", "q"], 5, "no kernel q"),
    (["k.ptx", "--time", "--timeline", "no/such/folder/t.json"], 4, "unable to write"),
])
def test_mistakes_end_with_a_line_and_a_code(files, capsys, monkeypatch, arguments, code, words):
    monkeypatch.chdir(files)
    assert main([*arguments, *ARGUMENTS]) == code
    assert words in capsys.readouterr().err


def test_a_launch_says_how_long_it_takes_and_computes():
    launch = runner.launch_of("vector_add_ragged")
    case = runner.case_of("vector_add_ragged")
    report = tileiras.launch(runner.export_case(case), case.grid, launch.flat, time="H100")
    assert runner.judge(case, launch).ok
    assert report.prediction.machine == "H100" and not report.prediction.is_estimate
    assert 1e-7 < report.prediction.seconds < 1e-3


def test_a_launch_refuses_machines_of_another_generation():
    launch = runner.launch_of("vector_add_ragged")
    case = runner.case_of("vector_add_ragged")
    before = [a.copy() for a in launch.flat if isinstance(a, np.ndarray)]
    with pytest.raises(ConfigError, match="A100"):
        tileiras.launch(runner.export_case(case), case.grid, launch.flat, time="A100")
    assert all((a.view(np.uint8) == b.view(np.uint8)).all() for a, b in zip((a for a in launch.flat if isinstance(a, np.ndarray)),
                                                                            before))
