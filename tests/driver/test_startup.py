"""The command's fast start changes nothing but its speed."""
from __future__ import annotations

import abc
import dataclasses
import inspect
import marshal
import os
import pathlib
import re
import subprocess
import sys
import typing
from collections.abc import Callable

import pytest

from tests.driver.test_main import empty_module
from tileiras import kept
from tileiras.driver import startup

if sys.version_info >= (3, 11):
    from re import _compiler as regex_compiler  # type: ignore[attr-defined]
else:
    import sre_compile as regex_compiler

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def fresh(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Where the start keeps what it compiles; nothing of it outlives the test."""
    monkeypatch.setattr(kept, "path_of", lambda name: str(tmp_path / name))
    monkeypatch.setattr(startup, "_skip_dialect_loader", lambda: None)
    for table in ("_codes", "_patterns"):
        monkeypatch.setattr(startup, table, {})
    monkeypatch.setattr(startup, "_new_entries", 0)
    monkeypatch.setattr(startup, "_modules", None)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(dataclasses, "exec", exec, raising=False)
    monkeypatch.setattr(dataclasses, "inspect", inspect, raising=False)
    for module, names in ((dataclasses, ("_is_type", "_repr_fn", "_frozen_get_del_attr")), (abc, ("ABC",)),
                          (typing, ("_make_nmtuple",))):
        for name in names:
            if hasattr(module, name):
                monkeypatch.setattr(module, name, getattr(module, name))
    monkeypatch.setattr(regex_compiler, "compile", regex_compiler.compile)
    return tmp_path


def test_what_was_compiled_once_works(fresh: pathlib.Path) -> None:
    startup.prepare()

    def make() -> type:
        return dataclasses.make_dataclass("Point", ["x", ("y", int, 7)], frozen=True)

    def pattern() -> re.Pattern[str]:
        re.purge()
        return re.compile(r"(?P<word>[a-z]+)|(\d{2,})", re.MULTILINE | re.IGNORECASE)

    assert make()(1).y == 7 and pattern().match("ab")
    first = startup._new_entries
    assert first > 1
    startup.remember()
    startup._codes.clear()
    startup._patterns.clear()
    startup.prepare()
    point = make()
    word = pattern().match("AB1")
    assert word is not None and word["word"] == "AB" and word.group(2) is None
    assert pattern().groups == 2 and pattern().groupindex == {"word": 1} and pattern().flags & re.MULTILINE
    assert startup._new_entries == first  # all code came from the file
    assert point(1) == point(1, 7) and hash(point(1)) == hash(point(1)) and repr(point(2)) == "Point(x=2, y=7)"


def test_classes_made_faster_are_as_before(fresh: pathlib.Path) -> None:
    startup.prepare()

    @dataclasses.dataclass(frozen=True)
    class Node:
        shared: typing.ClassVar[int] = 3
        first: dataclasses.InitVar[int]
        _: dataclasses.KW_ONLY
        children: list[Node] = dataclasses.field(default_factory=list)

    node = Node(1)
    assert [f.name for f in dataclasses.fields(Node)] == ["children"] and Node.shared == 3
    node.children.append(Node(2))
    assert repr(node).endswith("Node(children=[" + repr(Node(2)) + "])")
    node.children.append(node)
    assert repr(node).endswith(", ...])")
    for change in (lambda: setattr(node, "children", []), lambda: setattr(node, "other", 1), lambda: delattr(node, "children")):
        with pytest.raises(dataclasses.FrozenInstanceError, match=r"cannot (assign to|delete) field"):
            change()

    class Wider(Node):
        pass
    wider = Wider(1)
    wider.other = 5         # type: ignore[attr-defined]
    with pytest.raises(dataclasses.FrozenInstanceError):
        wider.children = []     # type: ignore[misc]

    class Pair(typing.NamedTuple):
        left: int
        right: str | None = None
    assert Pair(1) == (1, None) and Pair._fields == ("left", "right") and Pair(1)._replace(right="x").right == "x"
    assert list(Pair.__annotations__) == ["left", "right"]


def test_abstract_classes_have_those_that_derive_from_them(fresh: pathlib.Path) -> None:
    startup.prepare()

    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self) -> int: ...

    class Square(Shape):
        def area(self) -> int:
            return 4

    class Sequence(Shape, list): ...    # type: ignore[type-arg]
    assert isinstance(Square(), Shape) and issubclass(Square, Shape) and not isinstance(3, Shape) and not issubclass(int, Shape)
    assert isinstance([], typing.Iterable) and not isinstance(Square(), typing.Iterable) and issubclass(Sequence, typing.Iterable)
    with pytest.raises(TypeError, match="abstract"):
        Shape()     # type: ignore[abstract]


@pytest.mark.parametrize("damage", [b"", b"junk", marshal.dumps((sys.version, None, 7)), marshal.dumps(("older", None, ({}, {})))])
def test_a_damaged_file_is_ignored(damage: bytes, fresh: pathlib.Path) -> None:
    (fresh / "startup").write_bytes(damage)
    startup.prepare()
    assert startup._codes == {} == startup._patterns


def test_modules_that_come_later_are_whole() -> None:
    """In a process of its own: which modules are loaded is the question."""
    script = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
for name in ("inspect", "ctypes", "dataclasses"):
    sys.modules.pop(name, None)
from tileiras.driver import startup
startup.prepare()
import ctypes, inspect
early = inspect
@__import__("dataclasses").dataclass
class Point:
    x: int
    y: "list[int]" = 3
assert inspect.isclass(Point) and inspect.get_annotations(Point, eval_str=True)["y"] == list[int]
assert "ast" not in sys.modules
assert str(inspect.signature(Point)) == "(x: int, y: 'list[int]' = 3) -> None"
assert inspect.getfullargspec(lambda a, *b: a).varargs == "b"
assert inspect.iscoroutinefunction(Point) is False and ctypes.sizeof(ctypes.c_int32) == 4
import inspect
assert inspect.Parameter is early.Parameter and inspect.__file__
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


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
              "'argparse', 'xdsl.utils.dialect_loader', 'subprocess', 'ast', '_ctypes'); "
              "print(code, [m for m in sys.modules if m in slow or m.startswith('xdsl.dialects.') and "
              "m != 'xdsl.dialects.builtin'])")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout == "0 []\n", done.stderr


@pytest.fixture
def elsewhere(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The package where the user may not write, and a folder of caches."""
    package = tmp_path / "site" / "tileiras"
    package.mkdir(parents=True)
    monkeypatch.setattr(kept, "__file__", str(package / "kept.py"))
    may = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).startswith(str(package)) and may(path, mode))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    return package


def test_an_installation_of_somebody_else_is_helped_from_the_users_folder(elsewhere: pathlib.Path,
                                                                           tmp_path: pathlib.Path) -> None:
    kept.save("numbers", [1, 2], "key")
    path = pathlib.Path(kept.path_of("numbers"))
    assert path.is_relative_to(tmp_path / "caches" / "tileiras") and path.exists()
    assert path.parent.stat().st_mode & 0o077 == 0
    assert kept.load("numbers", "key") == [1, 2] and kept.load("numbers", "other") is None
    assert not list(elsewhere.iterdir())


def test_a_folder_that_others_may_write_to_is_not_trusted(elsewhere: pathlib.Path) -> None:
    path = pathlib.Path(kept.path_of("numbers"))
    path.parent.chmod(0o777)
    assert pathlib.Path(kept.path_of("numbers")).parent == elsewhere / "__pycache__"


def test_two_installations_have_folders_of_their_own(elsewhere: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = kept.path_of("numbers")
    other = elsewhere.parent / "other" / "tileiras"
    other.mkdir(parents=True)
    monkeypatch.setattr(kept, "__file__", str(other / "kept.py"))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert kept.path_of("numbers") != first
