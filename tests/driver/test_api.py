"""`tileiras.compile` and what it gives."""
from __future__ import annotations

from collections.abc import Callable

import pytest

import tileiras
from tests.driver.test_main import empty_module

CASE = "reduce_softmax_ragged"


@pytest.fixture(scope="module")
def softmax(kernel_bytecode: Callable[..., bytes]) -> bytes:
    return kernel_bytecode(CASE)


def test_a_compiled_module(softmax: bytes) -> None:
    module = tileiras.compile(softmax, "sm_90")
    assert module.gpu_name == "sm_90" and module.cubin[:4] == b"\x7fELF"
    [entry] = module.entries
    assert entry.name == CASE and entry.threads % 32 == 0 and entry.spill_stores == entry.spill_loads == 0
    # two arrays of rank two: pointer, two extents, two strides each
    assert [p.bytes for p in entry.params] == [8, 4, 4, 4, 4] * 2
    assert f".entry {CASE}(" in module.ptx and f"@{CASE}(" in module.llvm


def test_every_stage_prints(softmax: bytes) -> None:
    module = tileiras.compile(softmax, "sm_80", 0)
    assert module.ir("cuda_tile") != module.ir("nv_tileaa") != module.ir("nv_tileas")
    assert "nv_tileaa." in module.ir("nv_tileaa") and "nv_tileas." in module.ir("nv_tileas")
    assert "define ptx_kernel" in module.ir("llvm") and "define ptx_kernel" in module.ir("llvm-optimized")
    assert ".target sm_80" in module.ir("ptx")
    with pytest.raises(tileiras.ConfigError, match="unknown stage"):
        module.ir("sass")


def test_stopping_early_makes_no_more_than_asked(softmax: bytes) -> None:
    ptx = tileiras.compile(softmax, "sm_90", emit="ptx")
    assert ptx.cubin == b"" and ptx.entries[0].registers == 0 and ".language" in ptx.ptx
    llvm = tileiras.compile(softmax, "sm_90", emit="llvm")
    assert llvm.ptx == "" and llvm.ir("ptx") == ptx.ptx


def test_lines_of_the_source_reach_the_machine_code(softmax: bytes) -> None:
    plain, lines = tileiras.compile(softmax, "sm_90"), tileiras.compile(softmax, "sm_90", lineinfo=True)
    assert ".loc" not in plain.ptx and "k_reduce.py" in lines.ptx and lines.ptx.count(".loc") > 3
    assert b".debug_line" in lines.cubin
    debug = tileiras.compile(softmax, "sm_90", 0, device_debug=True)
    assert ".target sm_90a, debug" in debug.ptx and b".debug_info" in debug.cubin


def test_the_same_input_gives_the_same_bytes(softmax: bytes) -> None:
    assert tileiras.compile(softmax, "sm_90", lineinfo=True).cubin == tileiras.compile(
        softmax, "sm_90", lineinfo=True).cubin


def test_any_bytes_object_will_do() -> None:
    assert tileiras.compile(bytearray(empty_module(2)), "sm_75").cubin == tileiras.compile(
        memoryview(empty_module(2)), "sm_75").cubin


@pytest.mark.parametrize("options, error, text", [
    ({"gpu_name": "sm_90a"}, tileiras.ConfigError, "unsupported GPU target 'sm_90a'"),
    ({"opt_level": 4}, tileiras.ConfigError, "invalid optimization level: 4"),
    ({"opt_level": 3.0}, tileiras.ConfigError, "invalid optimization level: 3.0"),
    ({"opt_level": True}, tileiras.ConfigError, "invalid optimization level: True"),
    ({"opt_level": "3"}, tileiras.ConfigError, "invalid optimization level: 3"),
    ({"device_debug": True}, tileiras.ConfigError, "optimized debugging"),
    ({"sanitize": "racecheck"}, tileiras.ConfigError, "unknown sanitizer"),
    ({"emit": "sass"}, tileiras.ConfigError, "unknown output kind"),
    ({"emit": "nv_tileaa"}, tileiras.ConfigError, "no compiled module"),
])
def test_misuse_is_explained(options: dict[str, object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        tileiras.compile(empty_module(1), **options)  # type: ignore[arg-type]


def test_what_is_no_bytecode_is_refused() -> None:
    with pytest.raises(tileiras.BytecodeError):
        tileiras.compile(b"hello", "sm_90")
