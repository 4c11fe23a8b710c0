"""Every row of the table of command lines, run here and, where it is installed, by the original."""
from __future__ import annotations

import os
import pathlib
import subprocess
from collections.abc import Callable

import pytest

from tests.driver.command_lines import Result, Row, rows
from tests.driver.test_main import empty_module
from tests.sim.reference import original
from tileiras.driver import main as driver

ROWS = rows()
ORIGINAL = original()
KERNEL = "reduce_softmax_ragged"
RESPONSES = {
    "resp": "ok.bc --gpu-name sm_90 -o o\n", "resp2": '"ok.bc" --gpu-name=sm_90\n-o \'o\'\n# comment\n', "nest": "@resp",
    "loop": "@loop", "respbad": "--bogus", "respesc": "ok.bc --gpu-name sm\\_90 -o o\\ b", "respempty": "",
}


def with_version(major: int, minor: int, tag: int = 0) -> bytes:
    module = empty_module(1)
    return module[:8] + bytes((major, minor)) + tag.to_bytes(2, "little") + module[12:]


FILES = {
    "ok.bc": empty_module(1), "v0.bc": empty_module(0), "v9.bc": empty_module(9), "v99.bc": empty_module(99),
    "v14.bc": with_version(14, 1), "v12.bc": with_version(12, 1), "tag.bc": with_version(13, 1, 5),
    "bad.bc": b"hello", "mlir.bc": b"ML\xefRabc", "empty.bc": b"", "magic.bc": empty_module(1)[:8],
    "half.bc": empty_module(1)[:40], **{name: text.encode() for name, text in RESPONSES.items()},
}


HALF = 556
"""Bytes of the kernel that are left of it: inside its functions, before the strings, whose length depends on where the project
lies."""


@pytest.fixture
def where(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def prepare(row: Row, where: pathlib.Path, kernel_bytecode: Callable[..., bytes] | None) -> list[str]:
    """Put the row's kernel where it looks for it; the files before the run."""
    if kernel_bytecode is not None:
        data = kernel_bytecode(KERNEL)
        (where / "k.bc").write_bytes(data)
        (where / "khalf.bc").write_bytes(data[:HALF])
    return os.listdir(where)


def needs_kernel(row: Row) -> bool:
    return any(word in ("k.bc", "khalf.bc") for word in row.words)


@pytest.fixture
def bytecode(request: pytest.FixtureRequest, row: Row) -> Callable[..., bytes] | None:
    return request.getfixturevalue("kernel_bytecode") if needs_kernel(row) else None


@pytest.mark.parametrize("row", ROWS, ids=[row.line or "nothing" for row in ROWS])
def test_here(row: Row, where: pathlib.Path, bytecode: Callable[..., bytes] | None, monkeypatch: pytest.MonkeyPatch,
              capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    before = prepare(row, where, bytecode)
    for name, value in row.environment.items():
        monkeypatch.setenv(name, value)
    code = driver.main(row.words)
    out, err = capfdbinary.readouterr()
    assert Result.of(code, out, err.decode(), [n for n in os.listdir() if n not in before], where) == row.ours


@pytest.mark.skipif(ORIGINAL is None, reason="the original isn't installed")
@pytest.mark.parametrize("row", ROWS, ids=[row.line or "nothing" for row in ROWS])
def test_in_the_original(row: Row, where: pathlib.Path, bytecode: Callable[..., bytes] | None,
                         tmp_path_factory: pytest.TempPathFactory) -> None:
    before = prepare(row, where, bytecode)
    command = tmp_path_factory.getbasetemp() / "tileiras"  # messages hold the program's name as it was called
    if not command.exists():
        assert ORIGINAL is not None
        command.symlink_to(pathlib.Path(ORIGINAL).resolve())
    done = subprocess.run([command, *row.words], capture_output=True, timeout=120, stdin=subprocess.DEVNULL,
                          env={**os.environ, **row.environment})
    new = [name for name in os.listdir() if name not in before]
    err = done.stderr.decode(errors="replace").replace(str(command), "tileiras")
    assert Result.of(done.returncode, done.stdout, err, new, where) == row.original


def test_the_table_is_no_small_one() -> None:
    assert len(ROWS) >= 150 and len({row.line for row in ROWS}) == len(ROWS)
    assert all(row.why for row in ROWS if row.ours != row.original)
    assert not any(row.why for row in ROWS if row.ours == row.original)
