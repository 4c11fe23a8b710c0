"""The package as it is installed: its commands answer, its metadata says what it needs."""
from __future__ import annotations

import importlib
import pathlib
import subprocess
import sys

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
COMMANDS = sorted(PROJECT["scripts"].items())


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=60, cwd=ROOT)


@pytest.mark.parametrize("name, entry", COMMANDS)
def test_every_command_answers_help(name: str, entry: str) -> None:
    module, function = entry.split(":")
    assert callable(getattr(importlib.import_module(module), function))
    done = run("-m", module, "--help")
    assert done.returncode == 0, done.stderr
    assert name in done.stdout and "Traceback" not in done.stderr


def test_version_is_the_package_s() -> None:
    from tileiras.version import __version__
    done = run("-m", "tileiras.driver.main", "--version")
    assert done.returncode == 0
    assert __version__ in done.stdout


def test_the_compile_path_imports_nothing_slow() -> None:
    """A frontend waits for the import each time: NumPy and large dialects stay out of it."""
    probe = ("import sys, tileiras, tileiras.driver.main; "
             "slow = ['numpy', 'xdsl.dialects.arith', 'xdsl.dialects.scf', 'xdsl.dialects.math', 'xdsl.dialects.llvm', "
             "'xdsl.dialects.func', 'xdsl.dialects.cf', 'llvmlite']; "
             "print([m for m in slow if m in sys.modules])")
    done = run("-c", probe)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"
