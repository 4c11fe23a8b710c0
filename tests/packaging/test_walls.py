"""The package's own walls: no import circle, no import that runs against the flow of data."""
from __future__ import annotations

import ast
import pathlib
from collections.abc import Iterator

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "tileiras"
FACE = 40       # an __init__ of fewer lines only hands names on: who imports it means what stands behind
NEVER = {
    "analysis -> conversion": "an analysis knows the IR only",
    "analysis -> transforms": "an analysis knows the IR only",
    "codegen -> conversion": "data flows down",
    "codegen -> driver": "the driver calls and isn't called",
    "dialects -> bytecode": "bytecode knows dialects, not the other way round",
    "dialects -> conversion": "data flows down",
    "dialects -> transforms": "data flows down",
    "interp -> conversion": "an oracle knows no pass",
    "interp -> sim": "two oracles, not one",
    "interp -> transforms": "an oracle knows no pass",
    "layout -> conversion": "layouts are plain values",
    "layout -> dialects": "layouts are plain values",
    "machine -> dialects": "facts are plain values",
    "machine -> sim": "facts are plain values",
    "sim -> conversion": "an oracle knows no pass",
    "sim -> schedule": "an oracle knows no pass",
    "sim -> transforms": "an oracle knows no pass",
    "transforms -> conversion": "a pass inside a level asks nothing of a lowering",
}
SIMULATOR = ("ptx", "check", "core", "scalar", "memory", "matrix", "copy", "tcgen05", "run", "timing",
             "cutile")
"""The simulator's rooms: each may use those before it."""


def imported(tree: ast.AST, here: list[str]) -> Iterator[tuple[str, str]]:
    """(module, name or "") of every import that runs, also inside functions: all but those under `if TYPE_CHECKING`.

    `here`: the package that relative imports start from."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = [*here[:len(here) - node.level + 1], *filter(None, [node.module])] if node.level else [node.module or ""]
            yield from ((".".join(module), alias.name) for alias in node.names)
        waiting += ast.iter_child_nodes(node)


def graph(root: pathlib.Path) -> dict[str, set[str]]:
    """Which modules of a package import which, named without the package."""
    files: dict[str, pathlib.Path] = {}
    for path in sorted(root.rglob("*.py")):
        parts = (root.name, *path.relative_to(root).with_suffix("").parts)
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    faces = {name for name, path in files.items()
             if path.name == "__init__.py" and len(path.read_text().splitlines()) < FACE}
    edges = {}
    for name, path in files.items():
        here = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
        targets = set()
        for module, what in imported(ast.parse(path.read_text()), here):
            targets.add(f"{module}.{what}" if f"{module}.{what}" in files else module)
        edges[name.removeprefix(f"{root.name}.")] = {t.removeprefix(f"{root.name}.") for t in targets
                                                     if t in files and t not in faces and t != name}
    return edges


def reachable(edges: dict[str, set[str]]) -> dict[str, set[str]]:
    """Every module that each module imports, itself or through others."""
    out = {}
    for start in edges:
        seen: set[str] = set()
        waiting = list(edges[start])
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                waiting += edges.get(name, ())
        out[start] = seen
    return out


def circles(edges: dict[str, set[str]]) -> set[tuple[str, ...]]:
    """The largest groups of modules each of which imports, by some way, all others of the group."""
    reach = reachable(edges)
    return {tuple(sorted(n for n in reach[name] if name in reach[n])) for name in edges if name in reach[name]}


def crossings(edges: dict[str, set[str]]) -> set[tuple[str, str]]:
    """Imports that NEVER forbids."""
    rooms = [rule.split(" -> ") for rule in NEVER]
    return {(name, target) for name, targets in edges.items() for target in targets for low, high in rooms
            if name.split(".")[0] == low and target.split(".")[0] == high}


def test_the_package_has_no_import_circle() -> None:
    assert circles(graph(PACKAGE)) == set()


def test_no_import_runs_against_the_flow_of_data() -> None:
    assert crossings(graph(PACKAGE)) == set()


def test_rooms_of_the_simulator_use_only_those_below() -> None:
    wrong = []
    for name, targets in graph(PACKAGE / "sim").items():
        for target in targets:
            low, high = name.split(".")[0], target.split(".")[0]
            if low in SIMULATOR and high in SIMULATOR and SIMULATOR.index(low) < SIMULATOR.index(high):
                wrong.append(f"{name} imports {target}")
    assert not wrong


def test_every_room_of_the_simulator_has_its_place() -> None:
    assert {p.parent.name for p in (PACKAGE / "sim").glob("*/__init__.py")} == set(SIMULATOR)


def test_circles_and_arrows_are_found(tmp_path: pathlib.Path) -> None:
    """The finder itself, on a package with both."""
    sources = {
        "__init__": "",
        "a": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from thing import d\n"
             "def f():\n    from thing.b import g\n",
        "b": "import thing.c\n",
        "c": "from . import a\n",
        "d": "from thing import a\n",
        "dialects/__init__": "",
        "dialects/ops": "from ..conversion import lower\n",
        "conversion/__init__": "",
        "conversion/lower": "",
    }
    for name, text in sources.items():
        path = tmp_path / "thing" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    edges = graph(tmp_path / "thing")
    assert circles(edges) == {("a", "b", "c")}
    assert crossings(edges) == {("dialects.ops", "conversion.lower")}
