"""What may be turned off by name, and the net below asynchronous code."""
from __future__ import annotations

from collections.abc import Callable

import pytest

import tileiras
from tileiras import compiler
from tileiras.driver.main import main
from tileiras.driver.options import SWITCHES, WITHOUT, CompileOptions
from tileiras.errors import CompileError, ConfigError
from tileiras.machine.targets import find_target


def test_what_the_environment_and_the_option_name_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(CompileOptions(find_target("sm_90")).uses(name) for name in SWITCHES)
    assert not any(CompileOptions(find_target("sm_90"), 0).uses(name) for name in SWITCHES)
    monkeypatch.setenv(WITHOUT, "tma,agents")
    options = CompileOptions(find_target("sm_90"))
    assert [name for name in SWITCHES if options.uses(name)] == ["pipelines", "wgmma", "tcgen05", "clusters", "pairs", "wide"]


def test_a_name_that_stands_for_nothing_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
                                                   kernel_file: Callable, tmp_path) -> None:
    monkeypatch.setenv(WITHOUT, "warp")
    with pytest.raises(ConfigError, match="nothing is called 'warp'"):
        CompileOptions(find_target("sm_90")).validate()
    monkeypatch.delenv(WITHOUT)
    out = tmp_path / "k.cubin"
    code = main([str(kernel_file("vector_add_float32")), "--gpu-name=sm_90", "--without=tma,threads", "-o", str(out)])
    assert code == ConfigError.exit_code and not out.exists()
    assert "nothing is called 'threads'" in capsys.readouterr().err


@pytest.mark.parametrize("failure", [CompileError("the ring has no room"), AssertionError("a pass is wrong")])
def test_where_asynchronous_code_fails_the_rest_stands(kernel_bytecode: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch,
                                                       failure: Exception) -> None:
    lower = compiler.lower

    def fails(data: bytes, options: CompileOptions) -> str:
        if options.uses("pipelines"):
            raise failure
        return lower(data, options)
    monkeypatch.setattr(compiler, "lower", fails)
    bytecode = kernel_bytecode("vector_add_float32")
    with pytest.raises(type(failure)):
        tileiras.compile(bytecode, "sm_90")
    monkeypatch.delenv("TILEIRAS_STRICT")
    module = tileiras.compile(bytecode, "sm_90")
    assert module.cubin and module.warnings[-1] == f"warning: compiled without asynchronous code: {failure}"
    with pytest.raises(type(failure)):
        tileiras.compile(bytecode, "sm_90", verify_each=True)
