"""What the README promises holds in the environment that it tells to make."""
from __future__ import annotations

import ast
import os
import pathlib
import re
import subprocess
import sys
import textwrap
import venv

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
GIVEN_BY_THE_USER = {"cuda", "torch", "cupy", "jax", "pytest", "_pytest"}     # whose programs we run
SECONDS = 600

PROGRAM = """
import cuda.tile as ct
import numpy

@ct.kernel
def add(a, b, c, TILE: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(c, (i,), ct.load(a, (i,), (TILE,)) + ct.load(b, (i,), (TILE,)))
"""
BYTECODE = """
from tileiras.sim import cutile
a, b, c = (numpy.ones(512, "float32") for _ in range(3))
made = cutile.export(add, (a, b, c, 128), "sm_90")
bytecode, names, rest = made.bytecode, made.symbol, [x for x in made.flat if not isinstance(x, numpy.ndarray)]
"""


def blocks(language_line: str) -> str:
    """The indented block of the README that holds a line."""
    found = [b for b in re.findall(r"(?:^(?:    .*|)\n)+", README, re.M) if language_line in b]
    assert len(found) == 1, f"{len(found)} blocks with {language_line!r}"
    return textwrap.dedent(found[0])


def imported(path: pathlib.Path) -> set[str]:
    out = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            out |= {a.name.partition(".")[0] for a in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            out.add((node.module or "").partition(".")[0])
    return out


def test_every_import_is_a_dependency() -> None:
    """A library that only the tests' environment has would be missing in a user's."""
    declared = {re.split(r"[<>=\[; ]", d)[0].replace("-", "_").lower() for d in PROJECT["dependencies"]}
    every = set().union(*(imported(p) for p in (ROOT / "tileiras").rglob("*.py")))
    foreign = every - set(sys.stdlib_module_names) - {"tileiras", "__future__"} - GIVEN_BY_THE_USER
    assert {"xdsl", "numpy", "llvmlite", "ml_dtypes"} <= foreign
    assert foreign <= declared, foreign - declared


def test_types_that_numpy_has_need_no_other_library(tmp_path: pathlib.Path) -> None:
    """The simulator computes with NumPy's own types where ml_dtypes can't be imported (an interpreter for which it has no
    wheel yet), and the compiler never asks for it."""
    block = ("import sys\nclass Block:\n    def find_spec(self, name, path=None, target=None):\n"
             "        if name.partition('.')[0] == 'ml_dtypes':\n            raise ImportError(name)\n"
             "sys.meta_path.insert(0, Block())\n")
    (tmp_path / "program.py").write_text(block + PROGRAM + "import tileiras\n"
                                         "a, b, c = (numpy.ones(512, 'float32') for _ in range(3))\n"
                                         "tileiras.launch(add, 4, (a, b, c, 128))\nassert (c == 2).all(), c\n")
    done = subprocess.run([sys.executable, tmp_path / "program.py"], capture_output=True, text=True, timeout=120,
                          env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_readmes_commands_in_an_environment_of_its_own(tmp_path: pathlib.Path) -> None:
    """`pip install . cuda-tile` and nothing else; then each Python block of the README runs as it stands."""
    home = tmp_path / "env"
    venv.create(home, with_pip=True)
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    clean["PATH"] = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"

    def run(*command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd=tmp_path, env=clean)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        return done.stdout

    source = tmp_path / "source"
    source.mkdir()
    for name in ("tileiras", "pyproject.toml", "README.md", "LICENSE"):
        (source / name).symlink_to(ROOT / name)
    install = blocks("pip install").strip().removeprefix("pip install ").split()
    run("python", "-m", "pip", "install", "-q", *[str(source) if word == "." else word for word in install])

    (tmp_path / "library.py").write_text(PROGRAM + BYTECODE)
    use = blocks("from tileiras import interp")
    use = use.replace('"add"', "names").replace("[a, b, c, ...]", "[*made.flat]")
    assert use.count("[*made.flat]") == 2
    (tmp_path / "use.py").write_text("from library import *\n" + use + "\nassert (c == 2).all(), c\n")
    assert "add" in run("python", "use.py")

    launch = blocks("report = tileiras.launch")
    (tmp_path / "launch.py").write_text("import numpy, tileiras\nfrom library import add\n" + launch
                                        + "\nassert (c == 2).all(), c\n")
    run("python", "launch.py")

    (tmp_path / "program.py").write_text(PROGRAM + "x = numpy.ones(512, 'float32'); y = numpy.zeros_like(x)\n"
                                         "ct.launch(None, (4,), add, (x, x, y, 128))\nprint('sum', y.sum())\n")
    assert "sum 1024.0" in run("python", "-m", "tileiras.sim.cutile", "program.py")
