"""The command `tileiras-sim`: arguments, results, exit codes; and that no text makes it fail with a traceback."""
from __future__ import annotations

import random
import re

import numpy as np
import pytest

from tests.sim.ptxkit import kernel
from tileiras import sim
from tileiras.tools.tileiras_sim import main

DOUBLE = kernel("add.f32 %y0, %x0, %x0;", ["f32"], ["f32"])


@pytest.fixture
def files(tmp_path):
    (tmp_path / "k.ptx").write_text(DOUBLE)
    np.save(tmp_path / "x.npy", np.arange(64, dtype=np.float32))
    return tmp_path


def test_runs_a_kernel_on_files(files, capsys):
    code = main([str(files / "k.ptx"), "--grid", "2", "--arg", str(files / "x.npy"), "--arg", "out:f32:8x8", "--save",
                 f"1={files / 'y.npy'}", "--counts"])
    assert code == 0
    assert np.load(files / "y.npy").reshape(-1).tolist() == [2.0 * i for i in range(64)]
    said = capsys.readouterr().out
    assert "argument 1: float32[8, 8] = 0.0 2.0" in said and "thread-instructions" in said and " add\n" in said


@pytest.mark.parametrize("arguments,code,words", [
    (["--grid", "2,x"], 1, "isn't a list of dimensions"), (["--arg", "f33:1"], 1, "is no argument"),
    (["--arg", "none.npy"], 4, "unable to read"), ([], 5, "takes 2 parameters, 0 were given"),
    (["--arg", "out:f32:4", "--arg", "out:f32:32"], 5, "out of bounds: read of 4 bytes")])
def test_mistakes_end_with_a_line_and_a_code(files, capsys, arguments, code, words):
    assert main([str(files / "k.ptx"), *arguments]) == code
    assert words in capsys.readouterr().err


def test_bytecode_is_compiled_first(files, capsys):
    import cuda.tile as ct

    from tileiras.sim import cutile

    @ct.kernel
    def twice(x, y):
        ct.store(y, (0,), ct.load(x, (0,), (64,)) + ct.load(x, (0,), (64,)))

    x = np.arange(64, dtype=np.float32)
    made = cutile.export(twice, (x, np.zeros_like(x)), "sm_80")
    (files / "k.tileirbc").write_bytes(made.bytecode)
    flat = ["--arg", str(files / "x.npy"), "--arg", "i32:64", "--arg", "i32:1", "--arg", "out:f32:64", "--arg", "i32:64", "--arg",
            "i32:1"]
    assert main([str(files / "k.tileirbc"), "--gpu-name", "sm_80", "-O", "0", *flat]) == 0
    assert "argument 3: float32[64] = 0.0 2.0 4.0" in capsys.readouterr().out
    assert main([str(files / "k.tileirbc"), "--gpu-name", "sm_1", *flat]) == 2
    assert main([str(files / "x.npy")]) == 4


def test_a_long_run_shows_how_far_it_is(files, capsys, monkeypatch):
    from tileiras.tools import tileiras_sim

    monkeypatch.setattr(tileiras_sim, "FIRST_SHOWN", 0.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    progress = sim.Progress()
    progress.total, progress.blocks, progress.budget = 10, 5, [900, 1000]
    with tileiras_sim._bar(progress, True):
        import time
        time.sleep(0.1)
    assert "[###############...............] 5 of 10 blocks, 100 instructions issued" in capsys.readouterr().err


def test_damaged_text_is_refused_or_runs():
    random_ = random.Random(7)
    word = re.compile(r"[\w.%$:]+|[^\w\s]")
    for _ in range(150):
        tokens = list(word.finditer(DOUBLE))
        a, b = random_.choice(tokens), random_.choice(tokens)
        text = DOUBLE[:a.start()] + random_.choice(["", b.group(), a.group() * 2]) + DOUBLE[a.end():]
        x = np.ones(64, np.float32)
        try:
            sim.simulate(text, grid=2, args=[x, x.copy()], max_instructions=1000)
        except sim.SimulationError as error:
            assert "can't carry this out" not in str(error), text
