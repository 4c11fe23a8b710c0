"""Failures of the back half name the place in the user's source, as those of the front half do."""
from __future__ import annotations

import pathlib

import pytest

import tileiras
from tileiras.bytecode.writer import write
from tileiras.codegen import client, ptxas
from tileiras.codegen.places import kernel_named, place_in_ptx
from tileiras.dialects.cuda_tile.asm_parse import parse_module
from tileiras.driver import main as driver
from tileiras.errors import CompileError
from tileiras.transforms import synthesize_debug_info_scopes

KERNELS = """cuda_tile.module @m {
  entry @first(%n: tile<i32>) { return }
  entry @NAME(PARAMETERS) {
    return
  }
  entry @last(%n: tile<i32>) { return }
}
"""
SECOND = '"k.mlir":3:3'


def module(name: str = "second", parameters: str = "%n: tile<i32>") -> bytes:
    return placed(KERNELS.replace("NAME", name).replace("PARAMETERS", parameters))


def placed(text: str) -> bytes:
    """Bytecode whose places are those of the text."""
    parsed = parse_module(text, "k.mlir")
    synthesize_debug_info_scopes.run(parsed)
    return write(parsed)


def failure(data: bytes, **options: object) -> CompileError:
    with pytest.raises(CompileError) as caught:
        tileiras.compile(data, "sm_90", **options)  # type: ignore[arg-type]
    return caught.value


def test_parameter_space() -> None:
    data = module(parameters=", ".join(f"%p{i}: tile<i64>" for i in range(4096)))
    error = failure(data)
    assert error.loc == SECOND and "(32768 bytes required" in error.message
    assert error.render().startswith(f"loc({SECOND}): error: Formal parameter space overflowed")


def test_the_gate() -> None:
    error = failure(module("größe"))
    assert error.loc == SECOND and "a kernel called 'größe'" in error.message


def test_on_the_command_line(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    pathlib.Path("k.bc").write_bytes(module("größe"))
    assert driver.main(["k.bc", "--gpu-name", "sm_90"]) == 5
    assert capsys.readouterr().err.startswith(f"loc({SECOND}): error: not available on sm_90: a kernel called 'größe'")


@pytest.mark.parametrize("words, loc", [
    ("LLVM can't compile this module: Cannot select: t1: f32 = t2\nIn function: second", SECOND),
    ("LLVM can't compile this module: Cannot select: t1: f32 = t2\nIn function: last", '"k.mlir":6:3'),
    ("the code generator ended with signal SIGSEGV", None),  # three kernels: it may be any of them
])
def test_llvm(words: str, loc: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise CompileError(words)

    monkeypatch.setattr(client, "emit_ptx", fail)
    assert failure(module()).loc == loc


def test_a_module_of_one_kernel_leaves_no_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise CompileError("the code generator ended with signal SIGSEGV")

    monkeypatch.setattr(client, "emit_ptx", fail)
    assert failure(placed("cuda_tile.module @m {\n\n  entry @k() { return } }")).loc == '"k.mlir":3:3'


@pytest.mark.parametrize("words, loc", [
    ("ptxas failed\nptxas error   : Entry function 'second' uses too much shared data (0x40000 bytes, 0x38c00 max)", SECOND),
    ("ptxas failed\nptxas tile.ptx, line {line}; error   : Unexpected instruction types", SECOND),
    ("ptxas failed\nptxas fatal   : Memory allocation failure", None),
])
def test_ptxas(words: str, loc: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(ptx: str, *_: object, **__: object) -> None:
        line = next(i for i, text in enumerate(ptx.split("\n"), 1) if ".entry second" in text)
        raise CompileError(words.format(line=line + 3))

    monkeypatch.setattr(ptxas, "assemble", fail)
    assert failure(module()).loc == loc


PTX = """.version 9.2
.file 1 "a dir/k.py"
.visible .entry k(
)
{
    .loc    1 12 4
    add.s32 %r1, %r2, %r3;
    .loc 7 1 1
    ret;
}
"""


@pytest.mark.parametrize("line, place", [
    (7, ('"a dir/k.py":12:4', "k")), (9, (None, "k")), (4, (None, "k")), (1, (None, None)), (99, (None, "k")),
])
def test_a_line_of_ptx(line: int, place: tuple[str | None, str | None]) -> None:
    assert place_in_ptx(f"ptxas tile.ptx, line {line}; error   : no", PTX) == place


def test_words_without_a_place() -> None:
    assert place_in_ptx("ptxas fatal : no", PTX) == (None, None)
    assert kernel_named("In function: other", "define ptx_kernel void @a()\ndefine ptx_kernel void @b()\n") is None
