"""A command that is killed while a tool works for it: no child and no file is left behind, and it ends by the signal."""
from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from tests.driver.test_main import empty_module

ROOT = pathlib.Path(__file__).resolve().parents[2]
_PATIENCE = 60.0
SLOW_PTXAS = """#!/bin/sh
: > "$TMPDIR/of-its-own"
echo $$ > "$PIDS"
exec sleep 1000
"""
"""It says that it is there when its file is: what it forked could write one behind its own end, as no ptxas does."""


def running(pid: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


AT_THE_START = """
import os
begin = os.posix_spawn
def killed_meanwhile(path, *arguments, **options):
    pid = begin(path, *arguments, **options)
    while path.endswith("ptxas"):
        if os.path.exists(os.environ["PIDS"]) and open(os.environ["PIDS"]).read().strip():
            os.kill(os.getpid(), {number})
            break
    return pid
os.posix_spawn = killed_meanwhile
"""


@pytest.mark.parametrize("at_the_start", [False, True], ids=["while it runs", "while it is started"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_nothing_is_left_behind(number: signal.Signals, at_the_start: bool, tmp_path: pathlib.Path) -> None:
    (tmp_path / "ok.bc").write_bytes(empty_module(1))
    temporary, pids = tmp_path / "tmp", tmp_path / "pids"
    temporary.mkdir()
    ptxas = tmp_path / "ptxas"
    ptxas.write_text(SLOW_PTXAS)
    ptxas.chmod(0o755)
    start = (f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tileiras.codegen import toolchain; "
             f"toolchain.find_tool = lambda name: {str(ptxas)!r}; from tileiras.driver.main import command\n"
             f"{AT_THE_START.format(number=int(number)) if at_the_start else ''}\n"
             "command()")
    process = subprocess.Popen([sys.executable, "-c", start, "ok.bc", "--gpu-name", "sm_90", "-o", "o"], cwd=tmp_path,
                               env={**os.environ, "TMPDIR": str(temporary), "PIDS": str(pids)},
                               preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))    # as a shell's child has it
    deadline = time.monotonic() + _PATIENCE
    while not (pids.exists() and pids.read_text().strip()):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    child = int(pids.read_text())
    if not at_the_start:
        assert os.listdir(temporary)
        process.send_signal(number)
    code = process.wait(_PATIENCE)
    assert code == (130 if number == signal.SIGINT else -number)
    while running(child):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert os.listdir(temporary) == [] and not (tmp_path / "o").exists()


def test_a_signal_that_the_caller_ignores_stays_ignored(tmp_path: pathlib.Path) -> None:
    (tmp_path / "ok.bc").write_bytes(empty_module(1))
    start = (f"import sys, os, signal; sys.path.insert(0, {str(ROOT)!r}); signal.signal(signal.SIGHUP, signal.SIG_IGN); "
             "from tileiras.driver import main; run = main.main\n"
             "def hang_up(*args):\n"
             "    os.kill(os.getpid(), signal.SIGHUP)\n"
             "    return run(*args)\n"
             "main.main = hang_up; main.command()")
    done = subprocess.run([sys.executable, "-c", start, "ok.bc", "--gpu-name", "sm_90", "-o", "o"], cwd=tmp_path, timeout=60)
    assert done.returncode == 0 and (tmp_path / "o").exists()
