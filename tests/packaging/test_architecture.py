"""docs/architecture.md's table of passes is the pipeline: every pass, in order, with its level and from which -O on it runs."""
from __future__ import annotations

import pathlib
import re

from tileiras.pipeline import PIPELINE

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_every_pass_has_its_place_in_the_table() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = text.split("| level | pass | from | what it does |", 1)[1].split("\n\n", 1)[0]
    rows = []
    for level, names, since in re.findall(r"^\| (nv_\w+|llvm) \| ([^|]+) \| ([^|]+) \|", table, re.MULTILINE):
        always = since.strip() == "always"
        for name in re.findall(r"`([\w-]+)`", names):
            rows.append((name, level, 0 if always or f"`{name}` always" in since else int(since.removeprefix("-O")[0])))
    assert rows == [(entry.name, entry.level, entry.min_opt) for entry in PIPELINE if not entry.name.startswith("convert-")]
