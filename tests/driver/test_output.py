"""What becomes of the files that a result goes to, and of standard output."""
from __future__ import annotations

import os
import pathlib
import stat
import subprocess
import sys

import pytest

from tests.driver.test_main import empty_module
from tileiras.driver import main as driver
from tileiras.driver import output
from tileiras.errors import InputError

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINE = ["ok.bc", "--gpu-name", "sm_90"]
ELF = b"\x7fELF"


@pytest.fixture(autouse=True)
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    pathlib.Path("ok.bc").write_bytes(empty_module(1))
    return tmp_path


def shell(script: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a script of bash in which $T is the command, as its console script calls it."""
    start = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tileiras.driver.main import command; command()"
    return subprocess.run(["bash", "-c", script.replace("$T", f'"{sys.executable}" -c "{start}"')], capture_output=True,
                          text=True, timeout=timeout, errors="replace")


# --- closed and full standard files -----------------------------------------------------------------------------------

CLOSED = [
    # redirections of a good compile
    ">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-", ">&- --remarks=all", "2>&- -O0 -g",
]


@pytest.mark.parametrize("how", CLOSED)
def test_a_good_compile_needs_no_standard_files(how: str) -> None:
    done = shell(f"$T ok.bc --gpu-name sm_90 -o o {how}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert pathlib.Path("o").read_bytes()[:4] == ELF


TEXTS = ["--help", "--help-hidden", "--version", "--list-versions", ""]


@pytest.mark.parametrize("line", TEXTS, ids=lambda line: line or "nothing")
@pytest.mark.parametrize("where, reason", [(">&-", "Bad file descriptor"), (">/dev/full", "No space left on device")])
def test_a_text_that_nothing_takes_is_exit_1(line: str, where: str, reason: str) -> None:
    done = shell(f"$T {line} {where}")
    assert done.returncode == 1
    assert done.stderr.endswith(f"error: unable to write to standard output: {reason}\n") and "internal" not in done.stderr


def test_a_cubin_for_a_closed_standard_output_goes_nowhere() -> None:
    assert shell("$T ok.bc --gpu-name sm_90 -o - >&-").returncode == 0
    assert shell("$T ok.bc --gpu-name sm_90 -o - >&- 2>&-").returncode == 0


def test_a_full_standard_output_is_exit_4() -> None:
    done = shell("$T ok.bc --gpu-name sm_90 -o - >/dev/full")
    assert (done.returncode, done.stderr) == (4, "error: unable to write output file '-': No space left on device\n")


def test_errors_nobody_hears_keep_their_codes() -> None:
    pathlib.Path("bad.bc").write_bytes(b"hello")
    codes = {"bad.bc --gpu-name sm_90": 3, "--bogus": 1, "ok.bc": 2, "none.bc": 4}
    assert {line: shell(f"$T {line} 2>&-").returncode for line in codes} == codes
    assert shell("$T bad.bc --gpu-name sm_90 2>/dev/full").returncode == 3


def test_a_reader_that_goes_away() -> None:
    done = shell("trap '' PIPE; $T --help-hidden | sleep 0; echo ${PIPESTATUS[0]}")
    assert done.stdout.strip() in ("0", "141") and "error" not in done.stderr


# --- output files -----------------------------------------------------------------------------------------------------


def test_a_file_keeps_its_mode_and_its_other_names() -> None:
    old = pathlib.Path("old")
    old.write_bytes(b"x" * 100_000)
    old.chmod(0o640)
    os.link(old, "other")
    inode = old.stat().st_ino
    assert driver.main([*LINE, "-o", "old"]) == 0
    assert stat.S_IMODE(old.stat().st_mode) == 0o640 and old.stat().st_ino == inode
    assert pathlib.Path("other").read_bytes() == old.read_bytes() and old.read_bytes()[:4] == ELF
    assert old.stat().st_size < 100_000


def test_a_new_file_has_the_mode_that_the_umask_leaves() -> None:
    before = os.umask(0o027)
    try:
        assert driver.main([*LINE, "-o", "new"]) == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat("new").st_mode) == 0o640


@pytest.mark.parametrize("length", [250, 255])
def test_a_long_name(length: int) -> None:
    assert driver.main([*LINE, "-o", "n" * length]) == 0
    assert driver.main([*LINE, "-o", "n" * length]) == 0


def test_links_are_followed() -> None:
    pathlib.Path("old").write_bytes(b"old")
    os.symlink("old", "link")
    os.symlink("not-yet", "ahead")
    assert driver.main([*LINE, "-o", "link"]) == driver.main([*LINE, "-o", "ahead"]) == 0
    assert os.path.islink("link") and os.path.islink("ahead")
    assert pathlib.Path("old").read_bytes()[:4] == pathlib.Path("not-yet").read_bytes()[:4] == ELF


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_writable_file_in_a_folder_that_is_not() -> None:
    pathlib.Path("sub").mkdir()
    pathlib.Path("sub/o").write_bytes(b"old")
    os.chmod("sub", 0o555)
    try:
        assert driver.main([*LINE, "-o", "sub/o"]) == 0
    finally:
        os.chmod("sub", 0o755)
    assert pathlib.Path("sub/o").read_bytes()[:4] == ELF


def test_writing_makes_no_other_name_in_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails over a bind-mounted file, or in a folder that can't be written: a second name, and a rename."""
    pathlib.Path("o").write_bytes(b"old")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(16, "Device or resource busy")

    for name in ("replace", "rename", "unlink", "link"):
        monkeypatch.setattr(os, name, refuse)
    output.write_output("o", b"new contents")
    assert pathlib.Path("o").read_bytes() == b"new contents"


def test_the_input_may_be_the_output() -> None:
    assert driver.main([*LINE, "-o", "ok.bc"]) == 0
    assert pathlib.Path("ok.bc").read_bytes()[:4] == ELF


REDIRECTED = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "-"]


@pytest.mark.parametrize("name", REDIRECTED)
@pytest.mark.parametrize("into", [">", ">>"])
def test_what_a_shell_wrote_before_and_after_stays(name: str, into: str) -> None:
    done = shell(f"(echo before; $T ok.bc --gpu-name sm_90 -o {name}; echo after) {into} all")
    assert done.returncode == 0
    data = pathlib.Path("all").read_bytes()
    assert data.startswith(b"before\n" + ELF) and data.endswith(b"after\n")


def test_a_pipe_and_a_device() -> None:
    done = shell("mkfifo p; timeout 30 cat p > all & $T ok.bc --gpu-name sm_90 -o p; wait")
    assert pathlib.Path("all").read_bytes()[:4] == ELF, done.stderr
    assert driver.main([*LINE, "-o", "/dev/null"]) == 0
    assert driver.main([*LINE, "-o", "/dev/full"]) == 4


# --- failures -----------------------------------------------------------------------------------------------------------


def failing_write(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Let writing fail once `after` bytes are written: first in pieces of 4 bytes, then not at all."""
    real, left = os.write, [after]

    def write(fd: int, data: bytes) -> int:
        if left[0] <= 0:
            monkeypatch.undo()
            raise OSError(28, "No space left on device")
        written = real(fd, data[:4])
        left[0] -= written
        return written

    monkeypatch.setattr(output.os, "write", write)
    monkeypatch.setattr(output.os, "posix_fallocate", lambda *_: None)


@pytest.mark.parametrize("old", [b"", b"old", b"an old file, longer than the new one"])
def test_a_failure_gives_the_old_contents_back(old: bytes, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "o"
    file.write_bytes(old)
    failing_write(monkeypatch, 8)
    with pytest.raises(InputError, match=r"unable to write output file '.*': No space left on device"):
        output.write_output(str(file), b"new contents, sixteen")
    assert file.read_bytes() == old


def test_a_failure_leaves_no_new_file(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing_write(monkeypatch, 8)
    with pytest.raises(InputError):
        output.write_output(str(tmp_path / "new"), b"new contents, sixteen")
    assert not (tmp_path / "new").exists()


def test_a_file_larger_than_files_may_be() -> None:
    """`ulimit -f`: a new file goes again, an old one stays as it was."""
    script = (f"import sys, resource; sys.path.insert(0, {str(ROOT)!r}); from tileiras.driver import output\n"
              "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
              "for name in ('new', 'old'):\n"
              "    try: output.write_output(name, bytes(10000))\n"
              "    except Exception as error: print(error)\n")
    pathlib.Path("old").write_bytes(b"old contents")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout == ("unable to write output file 'new': File too large\n"
                           "unable to write output file 'old': File too large\n"), done.stderr
    assert not pathlib.Path("new").exists() and pathlib.Path("old").read_bytes() == b"old contents"


# --- remarks ------------------------------------------------------------------------------------------------------------

YAML = ["--remarks=all", "--remark-format=yaml"]


def test_a_remarks_file_that_cannot_be_written_is_found_before_compiling(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import tileiras.compiler
    monkeypatch.setattr(tileiras.compiler, "compile_module", lambda *_: pytest.fail("compiled"))
    assert driver.main([*LINE, "-o", "o", *YAML, "--remarks-output-file=nowhere/r"]) == 4
    assert capsys.readouterr().err == ("Error opening remark output file 'nowhere/r': No such file or directory\n"
                                       "error: failed to enable optimization remarks\n")
    assert sorted(os.listdir()) == ["ok.bc"]


def test_a_remarks_file_that_fills_up_leaves_no_cubin(capsys: pytest.CaptureFixture[str]) -> None:
    os.symlink("/dev/full", "r")
    kernel_without_remarks = driver.main([*LINE, "-o", "o", *YAML, "--remarks-output-file=r"])
    assert kernel_without_remarks == 0  # nothing to write fits everywhere
    with pytest.raises(InputError):
        output.write_output("r", b"x")


def test_a_failed_compile_leaves_the_old_remarks(monkeypatch: pytest.MonkeyPatch) -> None:
    import tileiras.compiler
    from tileiras.errors import CompileError

    def fail(*_: object) -> None:
        raise CompileError("no way")

    monkeypatch.setattr(tileiras.compiler, "compile_module", fail)
    pathlib.Path("old").write_bytes(b"old")
    for name in ("old", "new"):
        assert driver.main([*LINE, "-o", "o", *YAML, f"--remarks-output-file={name}"]) == 5
    assert pathlib.Path("old").read_bytes() == b"old" and sorted(os.listdir()) == ["ok.bc", "old"]
