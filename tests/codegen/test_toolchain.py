"""ptxas and libdevice are found where a user may have them, and ptxas' words reach the user."""
from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Iterator

import pytest

from tests.codegen import programs
from tileiras.codegen import compile_llvm, ptxas, toolchain
from tileiras.errors import CompileError
from tileiras.machine.targets import find_target

SM90 = find_target("sm_90")


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine without wheels, toolkits or a PATH."""
    monkeypatch.setattr(toolchain, "_site_folders", lambda: iter(()))
    monkeypatch.setattr(sys, "argv", ["/nowhere/bin/tileiras"])
    monkeypatch.setenv("PATH", "")
    for variable in ("CUDA_ROOT", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    toolchain._find_tool.cache_clear()
    yield
    toolchain._find_tool.cache_clear()


def executable(path: pathlib.Path, text: str = "#!/bin/sh\n") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def test_the_wheel_s_tools_are_found() -> None:
    assert os.path.basename(toolchain.find_tool("ptxas") or "") == "ptxas"
    assert os.path.basename(toolchain.find_libdevice() or "") == "libdevice.10.bc"


@pytest.mark.usefixtures("bare")
def test_without_any_the_error_says_what_to_install() -> None:
    assert toolchain.find_tool("ptxas") is None and toolchain.find_libdevice() is None
    with pytest.raises(CompileError, match="nvidia-cuda-nvcc"):
        ptxas.assemble("", [])


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("variable", ["CUDA_ROOT", "CUDA_HOME", "CUDA_PATH"])
def test_a_toolkit_named_by_a_variable(variable: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = executable(tmp_path / "bin" / "ptxas")
    library = tmp_path / "nvvm" / "libdevice" / "libdevice.10.bc"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"")
    monkeypatch.setenv(variable, str(tmp_path))
    assert toolchain.find_tool("ptxas") == found
    assert toolchain.find_libdevice() == str(library)


@pytest.mark.usefixtures("bare")
def test_path_comes_before_a_variable_and_after_wheels(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_variable = executable(tmp_path / "toolkit" / "bin" / "ptxas")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "toolkit"))
    assert toolchain.find_tool("ptxas") == by_variable
    on_path = executable(tmp_path / "path" / "ptxas")
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    assert toolchain.find_tool("ptxas") == on_path
    in_wheel = executable(tmp_path / "site" / "nvidia" / "cu13" / "bin" / "ptxas")
    monkeypatch.setattr(toolchain, "_site_folders", lambda: iter([str(tmp_path / "site")]))
    toolchain._find_tool.cache_clear()
    assert toolchain.find_tool("ptxas") == in_wheel


def test_ptxas_own_words_reach_the_user() -> None:
    with pytest.raises(CompileError) as caught:
        ptxas.assemble(".version 9.2\n.target sm_90a\n.address_size 64\nnonsense\n", ["-arch=sm_90a"])
    assert "line 4" in caught.value.message and "nonsense" in caught.value.message


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize("script, text", [
    ("echo 'ptxas fatal   : Unsupported .version 9.2; current version is 9.0' >&2; exit 255", "too old"),
    ("exit 0", "wrote no cubin"),
    ("kill -SEGV $$", "SIGSEGV"),
    ("sleep 5", "did not finish"),
])
def test_a_ptxas_that_misbehaves_is_a_diagnostic(script: str, text: str, tmp_path: pathlib.Path,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    executable(tmp_path / "ptxas", f"#!/bin/sh\n{script}\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with pytest.raises(CompileError, match=text):
        ptxas.assemble(".version 9.2", [], timeout=0.5)
    assert not list(tmp_path.glob("*.cubin"))


def test_temporary_files_need_a_place(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "missing"))
    assert compile_llvm(programs.vector_op(SM90), "sm_90").cubin  # /tmp serves

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(CompileError, match="No space left"):
        ptxas.assemble(".version 9.2", ["-arch=sm_90a"])
