"""Many programs at once: by processes, and by threads of one."""
from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import pytest

import tileiras
from tests.driver.test_main import empty_module
from tileiras.codegen import client


def test_results_are_those_of_single_compilations(kernel_bytecode: Callable[..., bytes]) -> None:
    program = kernel_bytecode("vector_add_float32")
    jobs = [{"bytecode": program, "gpu_name": "sm_90", "tag": "first"}, {"bytecode": program, "gpu_name": "sm_1"},
            {"bytecode": b"junk"}, {"bytecode": program, "gpu_name": "sm_80", "opt_level": 0}]
    results = {result.index: result for result in tileiras.compile_many(jobs, workers=2)}
    assert sorted(results) == [0, 1, 2, 3] and results[0].job["tag"] == "first"
    assert isinstance(results[1].error, tileiras.ConfigError) and isinstance(results[2].error, tileiras.BytecodeError)
    for index in (0, 3):
        wanted = {name: value for name, value in jobs[index].items() if name != "tag"}
        made, alone = results[index].module, tileiras.compile(**wanted)  # type: ignore[arg-type]
        assert made is not None and made.cubin == alone.cubin and made.entries == alone.entries
        assert made.ir("nv_tileas") == alone.ir("nv_tileas")


def test_nothing_to_do_and_nonsense() -> None:
    assert list(tileiras.compile_many([])) == []
    with pytest.raises(tileiras.ConfigError, match="job 0 has no bytecode"):
        tileiras.compile_many([{"gpu_name": "sm_90"}])
    with pytest.raises(tileiras.ConfigError, match="invalid number of workers: 0"):
        tileiras.compile_many([b""], workers=0)


def test_a_process_that_dies_fails_its_job_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from tileiras import many

    ask = many._Process._ask

    def killed(process: many._Process, job: dict[str, object]) -> object:
        if job.pop("dies", False):
            ask(process, {"bytecode": b"junk"})
            assert process._child is not None
            os.kill(process._child.pid, signal.SIGKILL)
            process._child.wait()
        return ask(process, job)

    monkeypatch.setattr(many._Process, "_ask", killed)
    jobs = [{"bytecode": empty_module(1), "dies": dies} for dies in (False, True, False)]
    outcomes = {r.index: r for r in tileiras.compile_many(jobs, workers=1)}
    assert [outcomes[i].module is not None for i in range(3)] == [True, False, True]
    assert "ended with exit status -9" in str(outcomes[1].error)


def test_a_bar_says_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    list(tileiras.compile_many([empty_module(1), b"junk"], workers=1, progress=True))
    said = capsys.readouterr().err
    assert "1/2" in said and said.endswith("2/2, 1 failed\n")


def test_threads_get_a_worker_each(kernel_bytecode: Callable[..., bytes]) -> None:
    program = kernel_bytecode("vector_add_float32")
    alone = tileiras.compile(program, "sm_90").cubin
    together = threading.Barrier(2)
    asked: list[int] = []
    made: list[bytes] = []
    ask = client._Worker.ask

    def both_at_once(worker: client._Worker, message: tuple[object, ...], timeout: float) -> tuple[object, ...]:
        if message[0] == "ptx":
            asked.append(worker.pid)
            together.wait(30)       # the other thread is in the middle of a request, too
        return ask(worker, message, timeout)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client._Worker, "ask", both_at_once)
        threads = [threading.Thread(target=lambda: made.append(tileiras.compile(program, "sm_90").cubin)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert made == [alone, alone] and len(set(asked)) == 2
