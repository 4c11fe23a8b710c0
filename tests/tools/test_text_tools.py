"""The text tools as commands: what they write, what they refuse and with which exit code."""
from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest

from tileiras.pipeline import PIPELINE
from tileiras.tools import tileiras_opt, tileiras_translate, tileirdisasm
from tileiras.version import __version__

EVERY_OP = pathlib.Path(__file__).parents[1] / "dialects" / "every_op.mlir"
VALID = "cuda_tile.module @m {\n  entry @f(%arg0: tile<i64>) {\n    return\n  }\n}\n"
INVALID = VALID.replace("return", "%0 = exti %arg0 signed : tile<i64> -> tile<i32>\n    return")


@pytest.fixture
def text_file(tmp_path: pathlib.Path) -> Callable[[str], str]:
    def make(text: str) -> str:
        path = tmp_path / "in.mlir"
        path.write_text(text)
        return str(path)
    return make


def test_disassembly_has_no_module_around_it(kernel_file: Callable[..., pathlib.Path],
                                             capfd: pytest.CaptureFixture[str]) -> None:
    assert tileirdisasm.main([str(kernel_file("vector_add_float32"))]) == 0
    out = capfd.readouterr().out
    assert out.startswith("entry @vector_add_float32(%arg0: tile<ptr<f32>>")
    assert out.endswith("}\n") and "loc(" not in out
    assert tileirdisasm.main(["-g", str(kernel_file("vector_add_float32"))]) == 0
    assert "#cuda_tile.di_loc<#loc" in capfd.readouterr().out


@pytest.mark.parametrize("arguments, code, message", [
    (["no-such-file"], 2, "unable to read input file 'no-such-file'"), ([], 2, "no input file provided"),
    ([str(EVERY_OP)], 3, "input does not correspond to Tile IR bytecode"),
])
def test_disassembler_refuses(arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert tileirdisasm.main(arguments) == code
    assert message in capsys.readouterr().err


def test_unknown_options_are_refused_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    for tool in (tileirdisasm, tileiras_opt, tileiras_translate):
        with pytest.raises(SystemExit) as caught:
            tool.main(["--frobnicate"])
        assert caught.value.code == 1


def test_translation_both_ways(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    bytecode = tmp_path / "out.tileirbc"
    assert tileiras_translate.main(["--mlir-to-cudatilebc", str(EVERY_OP), "-o", str(bytecode)]) == 0
    assert tileiras_translate.main(["-cudatilebc-to-mlir", str(bytecode)]) == 0
    assert capfd.readouterr().out == EVERY_OP.read_text().replace("@every_op", "@kernels")
    assert tileiras_translate.main(["--test-cudatile-roundtrip", str(EVERY_OP)]) == 0
    assert capfd.readouterr().out == EVERY_OP.read_text().replace("@every_op", "@kernels")


def test_translation_to_a_version(text_file: Callable[[str], str], tmp_path: pathlib.Path,
                                  capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out")
    convert = ["--mlir-to-cudatilebc", "-o", out]
    assert tileiras_translate.main([*convert, "--bytecode-version=13.1", text_file(VALID)]) == 0
    assert pathlib.Path(out).read_bytes()[:10] == b"\x7fTileIR\x00\x0d\x01"
    assert tileiras_translate.main([*convert, "--bytecode-version=13.1", str(EVERY_OP)]) == 3
    assert "requires bytecode version 13." in capsys.readouterr().err
    assert tileiras_translate.main([*convert, "--bytecode-version=12.0", text_file(VALID)]) == 1


def test_invalid_text_is_refused_with_3(text_file: Callable[[str], str], capsys: pytest.CaptureFixture[str]) -> None:
    for main in (lambda path: tileiras_opt.main([path]),
                 lambda path: tileiras_translate.main(["--mlir-to-cudatilebc", path])):
        assert main(text_file(INVALID)) == 3
        assert "'cuda_tile.exti' op extending to smaller" in capsys.readouterr().err
        assert main(text_file(VALID.replace("return", "retrun"))) == 3
        assert ':3:5): error: custom op \'retrun\' is unknown' in capsys.readouterr().err


def test_the_pipeline_is_listed(capfd: pytest.CaptureFixture[str]) -> None:
    assert tileiras_opt.main(["--list-pipeline", "-O3"]) == 0
    names = [line.split()[0] for line in capfd.readouterr().out.splitlines()]
    assert names == [entry.name for entry in PIPELINE]
    assert tileiras_opt.main(["--list-pipeline", "-O0"]) == 0
    assert len(capfd.readouterr().out.splitlines()) < len(names)


def test_levels_print_and_parse(kernel_file: Callable[..., pathlib.Path], tmp_path: pathlib.Path,
                                capfd: pytest.CaptureFixture[str]) -> None:
    kernel = str(kernel_file("matmul_float16_float32"))
    for level in ("nv_tileaa", "nv_tileas"):
        path = str(tmp_path / level)
        assert tileiras_opt.main([kernel, f"--to={level}", "-o", path]) == 0
        assert tileiras_opt.main([path]) == 0
        assert capfd.readouterr().out == pathlib.Path(path).read_text()
    assert tileiras_opt.main([str(tmp_path / "nv_tileas"), "--passes=convert-tileas-to-llvm"]) == 0
    assert '"llvm.func"' in capfd.readouterr().out


@pytest.mark.parametrize("option", ["--passes=nonsense", "--to=nowhere"])
def test_unknown_passes_and_levels_are_refused(option: str, text_file: Callable[[str], str],
                                               capsys: pytest.CaptureFixture[str]) -> None:
    assert tileiras_opt.main([text_file(VALID), option]) == 1
    assert "known: " in capsys.readouterr().err


def test_split_input(text_file: Callable[[str], str], capfd: pytest.CaptureFixture[str]) -> None:
    assert tileiras_opt.main([text_file(f"{VALID}// -----\n{VALID}"), "--split-input-file"]) == 0
    assert capfd.readouterr().out == f"{VALID}// -----\n{VALID}"
    assert tileiras_opt.main([text_file(f"{INVALID}// -----\n{VALID}"), "--split-input-file"]) == 3


def test_verify_diagnostics(text_file: Callable[[str], str], capsys: pytest.CaptureFixture[str]) -> None:
    expected = INVALID.replace("    %0", "    // expected-error @below {{smaller or identical}}\n    %0")
    assert tileiras_opt.main([text_file(expected), "-verify-diagnostics"]) == 0
    assert tileiras_opt.main([text_file(INVALID), "-verify-diagnostics"]) == 1
    assert "unexpected error" in capsys.readouterr().err


HINTS = VALID.replace("{\n    return", "optimization_hints=<sm_100={num_cta_in_cga=7}, sm_1={}> {\n    return", 1)


@pytest.mark.parametrize("options, code, said", [
    ([], 0, []), (["-Wunsupported-hints"], 0, ["warning: expected power-of-two ≤ 16 for sm_100.num_cta_in_cga",
                                               "warning: unknown hint key sm_1"]),
    (["-Wunsupported-hints", "-Werr-hints"], 3, ["error: 'cuda_tile.entry' op Optimization hints verification failed"]),
])
def test_hints_without_effect_are_said_on_request(options: list[str], code: int, said: list[str],
                                                  text_file: Callable[[str], str], capsys: pytest.CaptureFixture[str]
                                                  ) -> None:
    path = text_file(HINTS)
    assert tileiras_opt.main([path, *options]) == code
    err = capsys.readouterr().err
    assert all(f'loc("{path}":2:3): {line}' in err for line in said)
    assert said or not err


def test_an_older_edition_has_fewer_types_and_other_names(text_file: Callable[[str], str],
                                                          capfd: pytest.CaptureFixture[str]) -> None:
    power = text_file(VALID.replace("return", "%1 = constant <f32: 2.0> : tile<f32>\n%2 = pow %1, %1 : tile<f32>\nreturn"))
    assert tileiras_opt.main([power]) == 0 and " fpowf " in capfd.readouterr().out
    assert tileiras_opt.main([power, "--language=13.3"]) == 0 and " pow " in capfd.readouterr().out
    assert tileiras_opt.main([power]) == 0 and " fpowf " in capfd.readouterr().out
    scale = text_file(VALID.replace("i64", "fnv8E5M3FNU"))
    assert tileiras_opt.main([scale]) == 0
    assert tileiras_opt.main([scale, "--language=13.3"]) == 3
    assert "f4E2M1FN or i1" in capfd.readouterr().err
    with pytest.raises(SystemExit):
        tileiras_opt.main([power, "--language=12.0"])


def test_versions_are_listed(capfd: pytest.CaptureFixture[str]) -> None:
    assert tileiras_translate.main(["--list-versions"]) == 0
    assert capfd.readouterr().out == "13.1\n13.2\n13.3\n13.4\n"


def test_several_programs_in_a_text(text_file: Callable[[str], str], capfd: pytest.CaptureFixture[str]) -> None:
    path = text_file(VALID + VALID.replace("@m", "@n"))
    assert tileiras_opt.main([path]) == 0
    out = capfd.readouterr().out
    assert out.startswith("module {\n  cuda_tile.module @m {\n") and "  cuda_tile.module @n {\n" in out
    again = text_file(out)
    assert tileiras_opt.main([again]) == 0 and capfd.readouterr().out == out
    assert tileiras_opt.main([again, "--to=nv_tileaa"]) != 0
    assert "Traceback" not in capfd.readouterr().err


def test_locations_that_bytecode_cannot_hold_are_named(text_file: Callable[[str], str],
                                                       capfd: pytest.CaptureFixture[str]) -> None:
    for written, kind in (('fused["a":1:1, "b":2:2]', "FusedLoc"), ('"name"("a":1:1)', "NameLoc")):
        path = text_file(VALID.replace("return", f"return loc({written})"))
        assert tileiras_translate.main(["--mlir-to-cudatilebc", path]) == 3
        assert f"unsupported location, got {kind}, expected DILocAttr or CallSiteLoc" in capfd.readouterr().err


def test_versions_are_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    for tool in (tileirdisasm, tileiras_opt, tileiras_translate):
        with pytest.raises(SystemExit) as left:
            tool.main(["--version"])
        assert left.value.code == 0 and __version__ in capsys.readouterr().out
