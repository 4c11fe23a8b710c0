"""What the documents name exists: files, links, modules, make's targets, options, passes, remarks; counts are those of today."""
from __future__ import annotations

import ast
import functools
import pathlib
import re
from collections.abc import Iterator

import pytest

from tileiras.machine.targets import TARGETS
from tileiras.pipeline import PIPELINE

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "tests" / "kernels" / "README.md", *(ROOT / "docs").glob("*.md")])
FOLDERS = ("tileiras", "tests", "bench", "docs")
OTHERS = ("public-tests.md", "deviations.md")
"""Pages that name others' files and options, too."""
FILES = r"`([\w./-]+?\.(?:py|md|txt|mlir|json|jsonl))`"
FOLDER = r"`((?:tileiras|tests|bench|docs)/[\w./-]+)`"
CATEGORIES = frozenset({"MEMORY", "TENSOR_CORE", "HINTS", "RESOURCES"})
PYTEST = frozenset({"--cupy"})


@functools.cache
def files() -> frozenset[str]:
    """Of the project, with their folders and without, each with all ends of its path."""
    whole = [p.relative_to(ROOT).parts for folder in FOLDERS for p in (ROOT / folder).rglob("*") if "__pycache__" not in p.parts]
    whole += [(p.name,) for p in ROOT.iterdir()]
    return frozenset("/".join(parts[i:]) for parts in whole for i in range(len(parts)))


@functools.cache
def sources() -> str:
    """The text of all programs, and of what make and pip read."""
    programs = [p for folder in FOLDERS[:3] for p in sorted((ROOT / folder).rglob("*.py")) if p != pathlib.Path(__file__)]
    return "\n".join(p.read_text(encoding="utf-8") for p in (*programs, ROOT / "Makefile", ROOT / "pyproject.toml"))


def named(pattern: str, *but: str) -> Iterator[tuple[str, str]]:
    """(page, word) of a pattern's first group in the pages."""
    for page in DOCUMENTS:
        if page.name not in but:
            yield from ((page.name, word) for word in dict.fromkeys(re.findall(pattern, page.read_text(encoding="utf-8"))))


def test_every_file_and_folder_is_there() -> None:
    words = [*named(FILES, *OTHERS), *named(FOLDER, *OTHERS)]
    assert len(words) > 100
    assert not [(page, word) for page, word in words if word.rstrip("/") not in files()]


def test_every_link_leads_somewhere() -> None:
    for page in DOCUMENTS:
        links = re.findall(r"\]\(([\w./-]+)\)", page.read_text(encoding="utf-8"))
        assert not [link for link in links if not (page.parent / link).exists()], page.name


def test_every_module_that_is_to_be_run_is_there() -> None:
    words = list(named(r"python -m ((?:tests|bench|tileiras)[\w.]*)"))
    assert len(words) > 10
    for page, word in words:
        path = ROOT / word.rstrip(".").replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), (page, word)


def test_every_target_of_make_is_one() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    words = [*named(r"`make ([a-z]+)"), *named(r"^    make ([a-z]+)")]
    assert len(words) > 5
    assert not [(page, word) for page, word in words if word not in targets]


def test_every_option_is_known() -> None:
    """To the sources, with its dashes or as the name of an entry in a table."""
    words = list(named(r"(?<![\w-])--([a-z][\w-]+)", *OTHERS))
    assert len(words) > 50
    assert not [(page, word) for page, word in words if not re.search(rf'["\'-]{word}\b', sources())]


def test_every_name_with_dashes_is_a_pass_or_stands_in_the_sources() -> None:
    passes = {entry.name for entry in PIPELINE}
    words = list(named(r"`([a-z]+(?:-[a-z0-9]+)+)`", *OTHERS))
    assert len(words) > 60
    assert not [(page, word) for page, word in words
                if word not in passes and not re.search(rf"(?<![\w-]){word}(?![\w-])", sources())]


def constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(name, text) of a file's `A = "a"` and `A, B = "a", "b"`."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                for name, value in zip(getattr(target, "elts", [target]), getattr(node.value, "elts", [node.value])):
                    if isinstance(name, ast.Name) and isinstance(value, ast.Constant):
                        yield name.id, str(value.value)


def remarks_made() -> dict[str, set[str]]:
    """The kinds of each remark that the sources make; "*" for a part of a name that is put in."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "tileiras").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        words = dict(constants(tree))
        for call in filter(lambda node: isinstance(node, ast.Call), ast.walk(tree)):
            assert isinstance(call, ast.Call)
            for kind, category, name in zip(call.args, call.args[1:], call.args[2:]):
                if isinstance(category, ast.Name) and category.id in CATEGORIES:
                    text = (name.value if isinstance(name, ast.Constant) else words[name.id] if isinstance(name, ast.Name) else
                            "".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in name.values)
                            if isinstance(name, ast.JoinedStr) else "")
                    if not text:
                        continue        # handed on
                    kinds = {n.id.lower() for n in ast.walk(kind) if isinstance(n, ast.Name) and n.id.isupper()}
                    found.setdefault(f"Remark{str(text).removeprefix('Remark')}", set()).update(kinds)
    return found


def test_every_remark_has_its_row_and_every_row_its_remark() -> None:
    text = (ROOT / "docs" / "remarks.md").read_text(encoding="utf-8")
    rows = [(name, kind) for names, kind in re.findall(r"^\| (Remark[^|]*) \| (\w+) \|", text, re.MULTILINE)
            for name in re.findall(r"Remark\w+", names)]
    made = remarks_made()
    assert len(made) > 25
    patterns = {name: re.compile(name.replace("*", r"\w+")) for name in made}
    assert not [name for name, pattern in patterns.items() if not any(pattern.fullmatch(row) for row, _ in rows)]
    for row, kind in rows:
        kinds = [made[name] for name, pattern in patterns.items() if pattern.fullmatch(row)]
        assert any(kind in of for of in kinds), (row, kind, kinds)


def test_what_is_for_o3_alone() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    said = re.search(r"is for -O3 alone: ([^.]*), and limits of registers", text)
    assert said is not None
    assert sorted(re.findall(r"`([\w-]+)`", said[1])) == sorted(entry.name for entry in PIPELINE if entry.min_opt == 3)


def test_the_readmes_targets_are_the_tables() -> None:
    said = re.search(r"Targets sm_75, ([\d, ]+) as", (ROOT / "README.md").read_text())
    assert said is not None
    assert ["75", *said[1].split(", ")] == [target.name.removeprefix("sm_") for target in TARGETS]


@pytest.mark.parametrize("pattern, count", [
    (r"some (\d+) kernels", lambda: __import__("tests.kernels.runner", fromlist=["cases"]).cases()),
    (r"some (\d+) lines with code", lambda: re.findall(r"^\$", (ROOT / "tests" / "driver" / "command_lines.txt").read_text(),
                                                       re.MULTILINE)),
], ids=["kernels", "command lines"])
def test_rounded_counts(pattern: str, count) -> None:  # type: ignore[no-untyped-def]
    """What the pages give to the nearest ten."""
    there = len(count())
    said = [(page, int(word)) for page, word in named(pattern, "speed.md", "tilegym.md", "public-tests.md")]
    assert said and not [(page, number) for page, number in said if abs(number - there) > 10], there
