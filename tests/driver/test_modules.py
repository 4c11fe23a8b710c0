"""Modules that come from one file are those that Python would have loaded."""
from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = f"""
import sys
sys.path[:0] = [{str(ROOT)!r}, sys.argv[1]]
from tileiras.driver.modules import KeptModules, _Loader
kept = KeptModules(sys.argv[2])
sys.meta_path.insert(0, kept)
import shapes.square as square, shapes.inner.deep as deep
kept.remember()
print(square.SIDES, deep.WHERE, square.__file__, deep.__package__, type(deep.__loader__) is _Loader,
      type(sys.modules["shapes.inner"].__loader__) is _Loader)
"""


@pytest.fixture
def package(tmp_path: pathlib.Path) -> pathlib.Path:
    root = tmp_path / "place" / "shapes"
    (root / "inner").mkdir(parents=True)
    (root / "__init__.py").write_text("")
    (root / "inner" / "__init__.py").write_text("HERE = 'inner'\n")
    (root / "inner" / "deep.py").write_text("from . import HERE as WHERE\n")
    (root / "square.py").write_text("SIDES = 4\n")
    return root


def imported(package: pathlib.Path, file: pathlib.Path, **variables: str) -> list[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | variables
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(package.parent), str(file)], capture_output=True, text=True,
                          timeout=60, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_the_second_process_takes_them_from_the_file(package: pathlib.Path, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "modules"
    as_python_says = ["4", "inner", str(package / "square.py"), "shapes.inner"]
    assert imported(package, file) == [*as_python_says, "False", "False"]
    assert imported(package, file) == [*as_python_says, "True", "True"]


def test_python_need_not_write_bytecode(package: pathlib.Path, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "modules"
    assert imported(package, file, PYTHONDONTWRITEBYTECODE="1")[-2:] == ["False", "False"]
    assert imported(package, file, PYTHONDONTWRITEBYTECODE="1")[-2:] == ["True", "True"]
    assert not list(package.rglob("*.pyc"))


def test_a_changed_source_is_read_again(package: pathlib.Path, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "modules"
    imported(package, file)
    (package / "square.py").write_text("SIDES = 'four'\n")
    assert imported(package, file)[0] == "four"
    assert imported(package, file)[0] == "four"
    (package / "inner" / "deep.py").unlink()
    (package / "inner" / "deep.py").write_text("WHERE = 'elsewhere'\n")
    assert imported(package, file)[1] == "elsewhere"


def test_another_copy_of_a_package_is_another_package(package: pathlib.Path, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "modules"
    imported(package, file)
    other = tmp_path / "other" / "shapes"
    (other / "inner").mkdir(parents=True)
    for name in ("__init__.py", "inner/__init__.py", "inner/deep.py"):
        (other / name).write_text("WHERE = 'other'\n")
    (other / "square.py").write_text("SIDES = 0\n")
    assert imported(other, file)[:2] == ["0", "other"]


@pytest.mark.parametrize("keep", [0, 3, 9, 60, -5])
def test_a_damaged_file_is_ignored(keep: int, package: pathlib.Path, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "modules"
    imported(package, file)
    file.write_bytes(file.read_bytes()[:keep])
    assert imported(package, file)[:2] == ["4", "inner"]


def test_a_place_that_cannot_be_written_is_no_error(package: pathlib.Path, tmp_path: pathlib.Path) -> None:
    assert imported(package, tmp_path / "nowhere" / "modules")[:2] == ["4", "inner"]
