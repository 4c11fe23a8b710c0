"""The command from end to end: order of checks, texts, exit codes, and what becomes of the output file."""
from __future__ import annotations

import os
import pathlib
import struct
import subprocess
import sys

import pytest

from tileiras.driver import main as driver
from tileiras.errors import CompileError, ConfigError

EM_CUDA = 190


def empty_module(minor: int) -> bytes:
    """What a frontend probes versions with: a module of no functions, as cuTile's writer lays it out."""
    tail = (b"\x82\x01\x08\xcb\x00" b"\x84\x08\x08" + b"\xcb" * 4 + b"\x00" + b"\xcb" * 7 +
            b"\x83\x11\x08" + b"\xcb" * 5 + b"\x00" + b"\xcb" * 3 + b"\x00" + b"\xcb" * 3 + b"\x01" + b"\xcb" * 3 +
            b"\x00" * 5 + b"\x85\x0e\x04\x02" + b"\xcb" * 3 + b"\x00" * 4 + b"\x01" + b"\x00" * 4 + b"\x03" +
            b"\x81\x04\x04" + b"\xcb" * 3 + b"\x00" + b"\xcb" * 3 + b"\x00")
    return b"\x7fTileIR\x00" + struct.pack("<BBH", 13, minor, 0) + tail


@pytest.fixture(autouse=True)
def files(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pathlib.Path("ok.bc").write_bytes(empty_module(1))


@pytest.mark.parametrize("minor", [1, 2, 3, 4])
def test_version_probes_succeed(minor: int) -> None:
    pathlib.Path("probe.bc").write_bytes(empty_module(minor))
    assert driver.main(["probe.bc", "-o", "probe.cubin", "--gpu-name", "sm_120"]) == 0
    assert struct.unpack_from("<H", pathlib.Path("probe.cubin").read_bytes(), 18)[0] == EM_CUDA


def test_the_default_output_is_elf_o(capsys: pytest.CaptureFixture[str]) -> None:
    assert driver.main(["ok.bc", "--gpu-name", "sm_90"]) == 0
    assert pathlib.Path("elf.o").read_bytes()[:4] == b"\x7fELF"
    assert capsys.readouterr().err == ""


def test_a_frontend_s_command_line_works() -> None:
    assert driver.main(["ok.bc", "-o", "o", "--gpu-name", "sm_90", "-O3", "--lineinfo", "--remark-format=yaml",
                        "--remarks=all", "--remarks-output-file=r.yaml"]) == 0
    assert pathlib.Path("o").exists() and pathlib.Path("r.yaml").exists()
    assert driver.main(["ok.bc", "-o", "o", "--gpu-name", "sm_90", "-O0", "--device-debug"]) == 0


def test_text_goes_to_standard_output(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert driver.main(["ok.bc", "--gpu-name", "sm_90", "--emit=ptx"]) == 0
    assert b".target sm_90a" in capfdbinary.readouterr().out
    assert driver.main(["ok.bc", "--gpu-name", "sm_90", "--emit=cuda_tile", "-o", "t.mlir"]) == 0
    assert "cuda_tile" in pathlib.Path("t.mlir").read_text()


def test_a_dash_sends_the_cubin_to_standard_output(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert driver.main(["ok.bc", "--gpu-name", "sm_90", "-o", "-"]) == 0
    assert capfdbinary.readouterr().out[:4] == b"\x7fELF"


def test_timing_names_every_phase(capsys: pytest.CaptureFixture[str]) -> None:
    assert driver.main(["ok.bc", "--gpu-name", "sm_90", "--pass-timing"]) == 0
    err = capsys.readouterr().err
    assert "read-bytecode" in err and "ptxas" in err and err.splitlines()[-1].startswith("total")


def test_printing_after_a_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert driver.main(["ok.bc", "--gpu-name", "sm_90", "--print-ir-after=read-bytecode", "-o", "o"]) == 0
    assert capsys.readouterr().err.startswith("// *** IR dump after read-bytecode ***\ncuda_tile.module")


def test_a_pass_to_print_after_must_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert driver.main(["ok.bc", "--gpu-name", "sm_90", "--print-ir-after=cse,bogus", "-o", "o"]) == ConfigError.exit_code
    assert "error: unknown pass 'bogus'; known: read-bytecode, convert-cudatile-to-tileaa, " in capsys.readouterr().err


def test_output_replaces_a_file_and_keeps_a_device() -> None:
    pathlib.Path("o").write_bytes(b"old")
    assert driver.main(["ok.bc", "--gpu-name", "sm_90", "-o", "o"]) == 0
    assert pathlib.Path("o").read_bytes()[:4] == b"\x7fELF"
    assert driver.main(["ok.bc", "--gpu-name", "sm_90", "-o", "/dev/null"]) == 0
    assert not pathlib.Path("/dev/null").is_file()


def test_failure_leaves_the_old_output(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import tileiras.compiler

    def fail(*_: object) -> None:
        raise CompileError("no way", loc='"kernel.py":3:7')

    monkeypatch.setattr(tileiras.compiler, "compile_module", fail)
    pathlib.Path("o").write_bytes(b"old")
    assert driver.main(["ok.bc", "--gpu-name", "sm_90", "-o", "o"]) == 5
    assert capsys.readouterr().err == ('loc("kernel.py":3:7): error: no way\n'
                                       "error: failed to compile Tile IR program\n")
    assert pathlib.Path("o").read_bytes() == b"old"


def test_an_input_without_an_end_is_refused_by_its_beginning(capsys: pytest.CaptureFixture[str]) -> None:
    assert driver.main(["/dev/zero", "--gpu-name", "sm_90"]) == 3
    assert capsys.readouterr().err == "error: input does not correspond to Tile IR bytecode\n"


def test_a_bug_is_one_line_not_a_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import tileiras.compiler

    def fail(*_: object) -> None:
        raise KeyError("surprise")

    monkeypatch.setattr(tileiras.compiler, "compile_module", fail)
    assert driver.main(["ok.bc", "--gpu-name", "sm_90"]) == 5
    err = capsys.readouterr().err
    assert err.startswith("error: internal error: KeyError: 'surprise'\n") and "Traceback" not in err
    assert err.endswith("error: failed to compile Tile IR program\n")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    root = pathlib.Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    return subprocess.run([sys.executable, "-m", "tileiras.driver.main", *arguments], capture_output=True, text=True,
                          timeout=60, env=environment)


def test_versions_as_a_process() -> None:
    assert run("--list-versions").stdout == "13.1\n13.2\n13.3\n13.4\n"
    version = run("--version", "missing.bc")
    assert version.returncode == 0 and "release 13.4" in version.stdout
    assert version.stdout == run("-version").stdout


def test_without_cuda_variables_and_with_an_empty_path() -> None:
    root = pathlib.Path(__file__).resolve().parents[2]
    environment = {"PYTHONPATH": str(root), "PATH": ""}
    done = subprocess.run([sys.executable, "-m", "tileiras.driver.main", "ok.bc", "--gpu-name", "sm_90", "-o", "o"],
                          capture_output=True, text=True, timeout=60, env=environment)
    assert (done.returncode, done.stderr) == (0, "")


IN_LOCALE_C = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
PRINTS = 'cuda_tile.module @m { entry @größe(%n: tile<i32>) { %t = print_tko "größe %d", %n : tile<i32> -> token return } }'


def test_texts_that_are_not_ascii_in_locale_c() -> None:
    """File names, what a kernel prints, and messages are bytes, whatever the locale can show."""
    from tileiras.bytecode.writer import write
    from tileiras.dialects.cuda_tile.asm_parse import parse_module

    root = pathlib.Path(__file__).resolve().parents[2]
    pathlib.Path("größe.bc").write_bytes(write(parse_module(PRINTS.replace("@größe", "@k"))))

    def inside(*arguments: str) -> tuple[int, str]:
        done = subprocess.run([sys.executable, "-m", "tileiras.driver.main", "--gpu-name", "sm_90", *arguments],
                              capture_output=True, timeout=60, env={**os.environ, **IN_LOCALE_C, "PYTHONPATH": str(root)})
        return done.returncode, done.stderr.decode() + done.stdout.decode()

    assert inside("größe.bc", "-o", "größe.o") == (0, "") and pathlib.Path("größe.o").exists()
    assert inside("größt.bc") == (4, "error: unable to read input file 'größt.bc': No such file or directory\n")
    code, text = inside("größe.bc", "--emit=ptx")
    assert code == 0 and "195, 182, 195, 159" in text  # the bytes of the letters o umlaut and sharp s
    pathlib.Path("bad.bc").write_bytes(write(parse_module(PRINTS)))
    code, text = inside("bad.bc")
    assert code == 5 and "größe" in text and "internal error" not in text
