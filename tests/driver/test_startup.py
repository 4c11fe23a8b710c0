"""The command's fast start changes nothing but its speed."""
from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.driver.test_main import empty_module
from tileiras.driver import startup

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_cached_methods_work(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import dataclasses

    monkeypatch.setattr(startup, "_path", lambda: str(tmp_path / "cache"))
    monkeypatch.setattr(startup, "_skip_dialect_loader", lambda: None)
    monkeypatch.setattr(startup, "_cache", {})
    monkeypatch.setattr(startup, "_new_entries", 0)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(dataclasses, "exec", exec, raising=False)
    startup.prepare()

    def make() -> type:
        return dataclasses.make_dataclass("Point", ["x", ("y", int, 7)], frozen=True)

    assert make()(1).y == 7
    first = startup._new_entries
    assert first > 0
    startup.remember()
    startup._cache.clear()
    startup.prepare()
    point = make()
    assert startup._new_entries == first  # all code came from the file
    assert point(1) == point(1, 7) and hash(point(1)) == hash(point(1)) and repr(point(2)) == "Point(x=2, y=7)"


@pytest.mark.parametrize("damage", [b"", b"junk", None])
def test_a_damaged_cache_is_ignored(damage: bytes | None, tmp_path: pathlib.Path,
                                    monkeypatch: pytest.MonkeyPatch) -> None:
    import dataclasses

    path = tmp_path / "cache"
    path.write_bytes(startup._magic() + b"\xff\x00" if damage is None else damage)
    monkeypatch.setattr(startup, "_path", lambda: str(path))
    monkeypatch.setattr(startup, "_skip_dialect_loader", lambda: None)
    monkeypatch.setattr(startup, "_cache", {})
    monkeypatch.setattr(dataclasses, "exec", exec, raising=False)
    startup.prepare()
    assert startup._cache == {}


def test_the_command_itself(tmp_path: pathlib.Path) -> None:
    (tmp_path / "ok.bc").write_bytes(empty_module(4))
    script = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tileiras.driver.main import command; command()"

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=60,
                              cwd=tmp_path, env={**os.environ, "PYTHONPATH": ""})

    done = run("ok.bc", "--gpu-name", "sm_90", "-o", "o")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / "o").read_bytes()[:4] == b"\x7fELF"
    assert run("ok.bc", "--bogus").returncode == 1
    assert run("--version").returncode == 0


def test_compiling_loads_nothing_it_does_not_need(kernel_file: Callable[..., pathlib.Path]) -> None:
    """Each of these costs a frontend 5 to 60 ms a kernel."""
    path = kernel_file("reduce_softmax_ragged")
    script = (f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tileiras.driver import startup; startup.prepare(); "
              f"from tileiras.driver.main import main; code = main([{str(path)!r}, '--gpu-name', 'sm_90', '-o', "
              f"'/dev/null', '--lineinfo']); "
              "slow = ('numpy', 'llvmlite', 'xdsl.parser', 'xdsl.printer', 'xdsl.pattern_rewriter', 'tempfile', "
              "'argparse', 'xdsl.utils.dialect_loader'); "
              "print(code, [m for m in sys.modules if m in slow or m.startswith('xdsl.dialects.') and "
              "m != 'xdsl.dialects.builtin'])")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout == "0 []\n", done.stderr
