"""How ptxas is run: the folder it works in, what its cubins record, and what is said when there is no room."""
from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest

from tileiras.codegen import ptxas
from tileiras.codegen.ptx_fixup import empty_ptx
from tileiras.errors import CompileError
from tileiras.machine.targets import find_target

ROOT = pathlib.Path(__file__).resolve().parents[2]
FLAGS = ["-arch=sm_90a", "-O0", "-g"]


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_the_same_program_gives_the_same_debug_cubin(kernel_bytecode: Callable[..., bytes]) -> None:
    import tileiras
    data = kernel_bytecode("reduce_softmax_ragged")
    first, second = (tileiras.compile(data, "sm_90", 0, device_debug=True) for _ in range(2))
    assert first.cubin == second.cubin
    assert b"tile.ptx" in first.cubin and str(os.getpid()).encode() not in first.cubin.split(b"tile.ptx")[1][:200]


def test_nothing_is_left_in_the_temporary_folder(folder: pathlib.Path) -> None:
    assert ptxas.assemble(empty_ptx(find_target("sm_90")), FLAGS).cubin[:4] == b"\x7fELF"
    with pytest.raises(CompileError, match=r"tile\.ptx, line 1; fatal"):
        ptxas.assemble("no ptx\n", FLAGS)
    with pytest.raises(CompileError, match="did not finish within 0 seconds"):
        ptxas.assemble(empty_ptx(find_target("sm_90")), FLAGS, timeout=0)
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_used_is_passed_over(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(folder / "nowhere"))
    monkeypatch.setenv("TEMP", str(folder))
    monkeypatch.setattr(ptxas, "_FOLDERS", ())
    assert ptxas.assemble(empty_ptx(find_target("sm_90")), FLAGS).cubin
    monkeypatch.delenv("TEMP")
    with pytest.raises(CompileError, match=r"cannot write \d+ bytes for ptxas to a temporary folder "
                                           r"\('.*nowhere': No such file or directory\); TMPDIR names another one"):
        ptxas.assemble(empty_ptx(find_target("sm_90")), FLAGS)


LIMITED = """
import resource, sys
sys.path.insert(0, {root!r})
from tileiras.codegen import ptxas
from tileiras.codegen.ptx_fixup import empty_ptx
from tileiras.machine.targets import find_target
ptxas._FOLDERS = ()
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
try:
    ptxas.assemble(empty_ptx(find_target("sm_90")), {flags!r})
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize("limit, text", [
    (64, "CompileError cannot write {size} bytes for ptxas to a temporary folder ('{folder}': File too large); "
         "TMPDIR names another one"),
    (512, "CompileError ptxas ended with SIGXFSZ: the cubin is larger than files may be here (ulimit -f)"),
])
def test_no_room(limit: int, text: str, folder: pathlib.Path) -> None:
    done = subprocess.run([sys.executable, "-c", LIMITED.format(root=str(ROOT), limit=limit, flags=FLAGS)],
                          capture_output=True, text=True, timeout=60, env={**os.environ, "TEMP": "", "TMP": ""})
    assert done.stdout.splitlines()[0] == text.format(size=len(empty_ptx(find_target("sm_90"))), folder=folder), done.stderr
    assert list(folder.iterdir()) == []


def test_where_ptxas_was_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from tileiras.codegen import toolchain
    monkeypatch.setattr(toolchain, "find_tool", lambda _: None)
    monkeypatch.setenv("CUDA_ROOT", "/nonexistent")
    with pytest.raises(CompileError, match=r"cannot find ptxas; install .*\(CUDA_ROOT=/nonexistent holds none\)"):
        ptxas.assemble("", [])
