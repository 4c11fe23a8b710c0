"""Compiled modules on disk: kept where TILEIRAS_CACHE_DIR says, under all that they depend on, harmless when damaged."""
from __future__ import annotations

import os
import pathlib
import threading

import pytest

import tileiras
from tests.driver.test_main import empty_module
from tileiras import compiler


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setenv("TILEIRAS_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The targets that were compiled for, and not found."""
    attempts: list[str] = []
    attempt = compiler._attempt
    monkeypatch.setattr(compiler, "_attempt",
                        lambda bytecode, options: (attempts.append(options.target.name), attempt(bytecode, options))[1])
    return attempts


def files(folder: pathlib.Path) -> list[pathlib.Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_the_second_time_it_is_there(folder: pathlib.Path, made: list[str]) -> None:
    first = tileiras.compile(empty_module(2), "sm_90")
    again = tileiras.compile(empty_module(2), "sm_90")
    assert made == ["sm_90"] and len(files(folder)) == 1
    assert (again.cubin, again.ptx, again.llvm, again.entries) == (first.cubin, first.ptx, first.llvm, first.entries)
    assert again.ir("ptx") == first.ptx and again.gpu_name == "sm_90"


@pytest.mark.parametrize("other", [{"gpu_name": "sm_80"}, {"opt_level": 1}, {"lineinfo": True}, {"sanitize": "memcheck"},
                                   {"emit": "ptx"}, {"bytecode": empty_module(3)}, {"hints": {"occupancy": 2}}])
def test_everything_that_matters_is_in_the_key(other: dict[str, object], folder: pathlib.Path, made: list[str]) -> None:
    plain = {"bytecode": empty_module(2), "gpu_name": "sm_90"}
    tileiras.compile(**plain)  # type: ignore[arg-type]
    tileiras.compile(**{**plain, **other})  # type: ignore[arg-type]
    assert len(made) == 2


def test_sources_and_tools_are_in_the_key(folder: pathlib.Path, made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from tileiras import cache

    tileiras.compile(empty_module(2), "sm_90")
    with monkeypatch.context() as patch:
        patch.setattr(cache, "_program", lambda: "another version")
        tileiras.compile(empty_module(2), "sm_90")
    with monkeypatch.context() as patch:
        patch.setattr(cache, "_tools", lambda: [("another ptxas", 1, 2)])
        tileiras.compile(empty_module(2), "sm_90")
    tileiras.compile(empty_module(2), "sm_90")
    assert len(made) == 3


@pytest.mark.parametrize("damage", [b"", b"junk", None])
def test_what_is_damaged_is_made_anew(damage: bytes | None, folder: pathlib.Path, made: list[str]) -> None:
    first = tileiras.compile(empty_module(2), "sm_90")
    [file] = files(folder)
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]) if damage is None else damage)
    assert tileiras.compile(empty_module(2), "sm_90").cubin == first.cubin
    assert len(made) == 2 and file.read_bytes() == data


def test_a_place_that_takes_nothing_is_no_error(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TILEIRAS_CACHE_DIR", str(tmp_path / "file" / "below"))
    assert tileiras.compile(empty_module(2), "sm_90").cubin[:4] == b"\x7fELF"


def test_a_full_disk_is_no_error(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "replace", full)
    assert tileiras.compile(empty_module(2), "sm_90").cubin[:4] == b"\x7fELF"
    assert not files(folder)


def test_several_write_at_once(folder: pathlib.Path) -> None:
    made: list[bytes] = []
    threads = [threading.Thread(target=lambda: made.append(tileiras.compile(empty_module(2), "sm_90").cubin)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 1 and len(made) == 4 and len(files(folder)) == 1
