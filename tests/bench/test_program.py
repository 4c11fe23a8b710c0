"""bench.speed.program: a launch becomes a line, a tuned one a line for each configuration, and the program ends."""
from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bench.speed import program
from tileiras.machine.machines import machine_of


class Record(dict):
    def record(self) -> dict:
        return self


@pytest.fixture
def predictions(monkeypatch: pytest.MonkeyPatch) -> program.Predictions:
    """Ours takes a microsecond for each block, the original two; what isn't joined has no time."""
    made = SimpleNamespace(bytecode=b"", symbol="k", flat=[])
    monkeypatch.setattr(program, "export", lambda *_: made)
    monkeypatch.setattr(program.tileiras, "compile", lambda *_, **__: SimpleNamespace(ptx="ours", cubin=b""))
    monkeypatch.setattr(program.original, "compile_original", lambda *_: ("theirs", b""))
    monkeypatch.setattr(program.original, "arguments", lambda *_: [])

    def predict(ptx: str, cubin: bytes, name: str, grid: tuple[int, ...], *_: Any) -> Record:
        return Record(seconds=1e-6 * grid[0] * (2 if ptx == "theirs" else 1), estimate=grid[0] > 100, reason="no way through it")
    monkeypatch.setattr(program, "predict", predict)
    return program.Predictions(machine_of("B200"), [0, 2])


def kernel() -> Any:
    return SimpleNamespace(_pyfunc=kernel, replace_hints=lambda **hints: kernel())


def test_a_launch_is_a_line(predictions: program.Predictions, capsys: pytest.CaptureFixture) -> None:
    predictions.launch(kernel(), (3,), ())
    assert capsys.readouterr().out == "kernel (3,): 3.0 us, original 6.0 us: 2.00\n"


def test_what_is_not_joined_has_no_ratio(predictions: program.Predictions, capsys: pytest.CaptureFixture) -> None:
    predictions.launch(kernel(), (101,), ())
    assert capsys.readouterr().out == "kernel (101,): none (no way through it), original none (no way through it)\n"


def test_configurations_that_are_asked_for_are_lines_and_end_the_program(predictions: program.Predictions,
                                                                         capsys: pytest.CaptureFixture) -> None:
    configurations = [SimpleNamespace(tile=n, ctas=1) for n in (4, 8, 16)]
    with pytest.raises(program.Tuned):
        predictions.search(configurations, None, lambda c: (c.tile,), kernel(), lambda c: (), lambda c: {"num_ctas": c.ctas})
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == ["kernel 4 1 (4,)", "kernel 16 1 (16,)"]
