"""Commands that a server answers, which an earlier command left behind, do what they would do themselves."""
from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

import pytest

from tests.driver.test_main import empty_module
from tileiras.driver import linger

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENT = f"import os, sys; sys.path.insert(0, {str(ROOT)!r}); from tileiras.driver import linger; "\
          "linger.PATIENCE = float(os.environ['PATIENCE']); "
"""What this begins with gives a server the time that it needs on a busy machine."""
COMMAND = f"{PATIENT}sys.argv[0] = 'tileiras'; from tileiras.driver.main import command; command()"
_PATIENCE = 60.0

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a socket's peers are asked for as on Linux")


class Place:
    """A folder for commands and for their server."""

    def __init__(self, folder: pathlib.Path, runtime: pathlib.Path) -> None:
        self.folder, self.runtime = folder, runtime

    def environment(self, setting: str = "always", **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in (linger.CI, "XDG_RUNTIME_DIR")}
        return {**kept, linger.VARIABLE: setting, "XDG_RUNTIME_DIR": str(self.runtime), "PATIENCE": str(_PATIENCE), **more}

    def start(self, *arguments: str, setting: str = "always", **more: object) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                **{"cwd": self.folder, "env": self.environment(setting), **more})  # type: ignore[call-overload]

    def run(self, *arguments: str, setting: str = "always", **more: object) -> tuple[int, bytes, bytes]:
        process = self.start(*arguments, setting=setting, **more)
        out, err = process.communicate(timeout=_PATIENCE)
        return process.returncode, out, err

    def servers(self) -> list[int]:
        """The processes that stayed behind here."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and f"XDG_RUNTIME_DIR={self.runtime}\0" in (entry / "environ").read_bytes().decode(
                        errors="replace") and b"command()" in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                pass
        return found

    def sockets(self) -> list[pathlib.Path]:
        return list(self.runtime.glob("tileiras/*.socket"))

    def wait_for_server(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not self.sockets():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def end(self) -> None:
        for pid in self.servers():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass


@pytest.fixture
def place(tmp_path: pathlib.Path) -> Iterator[Place]:
    runtime = pathlib.Path(tempfile.mkdtemp(prefix="run"))     # a socket's path is short
    (tmp_path / "ok.bc").write_bytes(empty_module(4))
    found = Place(tmp_path, runtime)
    try:
        yield found
    finally:
        found.end()
        shutil.rmtree(runtime, ignore_errors=True)


def was_answered(place: Place, *arguments: str) -> bool:
    """Whether a server answers these arguments."""
    script = (f"{PATIENT}os._exit(70 if linger.ask(['tileiras', *sys.argv[1:]]) is not None else 71)")
    return subprocess.run([sys.executable, "-c", script, *arguments], cwd=place.folder, env=place.environment(),
                          capture_output=True, timeout=_PATIENCE).returncode == 70


KERNEL = ("ok.bc", "--gpu-name", "sm_90", "-o")


def test_answers_are_those_of_the_command_itself(place: Place, kernel_file: Callable[..., pathlib.Path]) -> None:
    kernel = str(kernel_file("softmax_16x256_f16"))
    lines = [(kernel, "--gpu-name", "sm_90", "-o", "out"), (kernel, "--gpu-name", "sm_90", "--emit=ptx"),
             (kernel, "--gpu-name", "sm_80", "-O0", "-g", "-o", "out"), ("missing", "--gpu-name", "sm_90"),
             ("ok.bc", "--gpu-name", "sm_7"), ("--bogus",), ("--version",), (), ("junk", "--gpu-name", "sm_90"),
             (kernel, "--gpu-name", "sm_90", "--remarks=all", "-o", "out"), ("-", "--gpu-name", "sm_90", "-o", "out")]
    (place.folder / "junk").write_bytes(b"junk")

    def outcome(line: tuple[str, ...], setting: str) -> tuple[object, ...]:
        (place.folder / "out").unlink(missing_ok=True)
        with open(kernel, "rb") as given:
            done = place.run(*line, setting=setting, stdin=given)
        return (*done, (place.folder / "out").read_bytes() if (place.folder / "out").exists() else None)

    alone = [outcome(line, "0") for line in lines]
    assert not place.sockets()
    place.run(*KERNEL, "o")
    place.wait_for_server()
    assert [outcome(line, "always") for line in lines] == alone
    assert len(place.sockets()) == 1


def test_the_second_of_two_stays_and_leaves_in_time(place: Place) -> None:
    place.run(*KERNEL, "o", setting="1")
    assert not place.sockets()
    place.run(*KERNEL, "o", setting="1")
    place.wait_for_server()
    deadline = time.monotonic() + _PATIENCE
    while place.servers() or os.listdir(place.runtime):
        assert time.monotonic() < deadline, "nothing is left when its time is up"
        time.sleep(0.1)


@pytest.mark.parametrize("environment", [{linger.VARIABLE: "0"}, {linger.CI: "true"}, {linger.VARIABLE: "soon"}])
def test_where_nothing_may_stay_nothing_does(environment: dict[str, str], place: Place) -> None:
    for _ in range(2):
        assert place.run(*KERNEL, "o", env={**place.environment(), **environment})[0] == 0
    assert not os.listdir(place.runtime)


def test_working_folder_and_environment_are_the_commands(place: Place, kernel_file: Callable[..., pathlib.Path]) -> None:
    place.run(*KERNEL, "o")
    place.wait_for_server()
    other = place.folder / "other"
    other.mkdir()
    shutil.copy(kernel_file("vector_add_float32"), other / "here.bc")
    os.umask(mask := os.umask(0o22))
    code, _, err = place.run("here.bc", "--gpu-name", "sm_90", "-o", "there", cwd=other,
                             env=place.environment(PATH="/nowhere", TMPDIR=str(other)))
    assert (code, err) == (0, b"") and sorted(os.listdir(other)) == ["here.bc", "there"]
    assert (other / "there").stat().st_mode & 0o777 == 0o666 & ~mask


def test_a_killed_or_stopped_server_costs_nothing_but_time(place: Place) -> None:
    place.run(*KERNEL, "o")
    place.wait_for_server()
    server = place.servers()
    assert was_answered(place, *KERNEL, "o")
    for pid in server:
        os.kill(pid, signal.SIGSTOP)
    assert place.run(*KERNEL, "o", env=place.environment(PATIENCE="0.25")) == (0, b"", b"")
    for pid in server:
        os.kill(pid, signal.SIGKILL)
    assert place.run(*KERNEL, "o") == (0, b"", b"")     # its socket still lies there
    place.wait_for_server()


def test_another_setting_is_not_served(place: Place) -> None:
    place.run(*KERNEL, "o")
    place.wait_for_server()
    assert was_answered(place, *KERNEL, "o")
    script = f"{PATIENT}print(linger.ask(sys.argv))"
    asked = [subprocess.run([sys.executable, *flags, "-c", script, *KERNEL, "o"], cwd=place.folder, capture_output=True, text=True,
                            env=place.environment(**more), timeout=_PATIENCE).stdout.strip()
             for flags, more in (((), {}), (("-O",), {}), ((), {"TILEIRAS_WITHOUT": "tma"}), ((), {"LC_ALL": "C"}))]
    assert asked == ["0", "None", "None", "None"]


def test_a_folder_that_others_may_enter_is_not_trusted(place: Place) -> None:
    place.run(*KERNEL, "o")
    place.wait_for_server()
    (place.runtime / "tileiras").chmod(0o755)
    assert not was_answered(place, *KERNEL, "o")
    assert place.run(*KERNEL, "o")[0] == 0


def test_several_at_once(place: Place, kernel_file: Callable[..., pathlib.Path]) -> None:
    kernel = str(kernel_file("vector_add_float32"))
    place.run(kernel, "--gpu-name", "sm_90", "-o", "alone")
    place.wait_for_server()
    started = [place.start(kernel, "--gpu-name", "sm_90", "-o", f"out{i}") for i in range(4)]
    assert [process.communicate(timeout=_PATIENCE) and process.returncode for process in started] == [0] * 4
    assert len({(place.folder / name).read_bytes() for name in ("alone", "out0", "out1", "out2", "out3")}) == 1


SLOW_PTXAS = """#!/bin/sh
echo $$ > "$PIDS"
exec sleep 1000
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_killed_command_ends_its_work(number: signal.Signals, place: Place) -> None:
    tools, pids, temporary = place.folder / "tools", place.folder / "pids", place.folder / "tmp"
    tools.mkdir()
    temporary.mkdir()
    (tools / "ptxas").write_text(SLOW_PTXAS)
    (tools / "ptxas").chmod(0o755)
    command = COMMAND.replace("from tileiras.driver.main", "from tileiras.codegen import toolchain; import os; "
                              "toolchain.toolkit_roots = lambda: iter(()); from tileiras.driver.main")

    def start(**more: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", command, *KERNEL, "o"], cwd=place.folder, stdin=subprocess.DEVNULL,
                                env=place.environment(TMPDIR=str(temporary), PIDS=str(pids), **more),
                                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))

    first = start()
    assert first.wait(_PATIENCE) == 0 or first.returncode == 5      # without ptxas on PATH nothing is assembled
    place.wait_for_server()
    process = start(PATH=f"{tools}:{os.environ['PATH']}")
    deadline = time.monotonic() + _PATIENCE
    while not (pids.exists() and pids.read_text().strip()):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)
    assert process.wait(_PATIENCE) == (130 if number == signal.SIGINT else -number)
    tool = int(pids.read_text())
    while os.listdir(temporary) or pathlib.Path(f"/proc/{tool}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
