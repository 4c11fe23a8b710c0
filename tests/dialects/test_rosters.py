"""docs/rosters.md says where each name of the specification lives: each that it gives is looked up, and ours are all in it."""
from __future__ import annotations

import pathlib
import re
from fnmatch import fnmatchcase

import pytest

from tests.dialects import rosters
from tests.dialects.rosters import FOLDS, NO, OURS, ROSTERS, TEXTS, Roster, exists, lives, ops_of, types_of
from tileiras.codegen import gate, operand_rules

ROOT = pathlib.Path(__file__).resolve().parents[2]
TITLES = [f"{r.dialect or 'pipeline'}-{r.kind}" for r in ROSTERS]


@pytest.mark.parametrize("roster", ROSTERS, ids=TITLES)
def test_what_is_said_to_live_here_does(roster: Roster) -> None:
    said = {place for name, where in roster.names() for place in lives(roster, name, where)}
    assert not sorted(place for place in said if not exists(*place))


@pytest.mark.parametrize("roster", ROSTERS, ids=TITLES)
def test_no_name_stands_twice_or_without_a_place(roster: Roster) -> None:
    names = [name for name, _ in roster.names()]
    assert len(names) == len(set(names))
    assert all((where.startswith(NO) and len(where) > len(NO) + 10) or lives(roster, name, where) for name, where in roster.names())


def test_what_is_not_here_is_nowhere_here() -> None:
    """A reason for the absence of what is there would be wrong."""
    absent = [(roster.kind, f"{roster.dialect}.{name}") for roster in ROSTERS if roster.kind in ("op", "type") and
              roster.dialect not in ("nvgpu", "nvvm") for name, where in roster.names() if where.startswith(NO)]
    assert not [name for kind, name in absent if exists(kind, name)]


@pytest.mark.parametrize("dialect", ["nv_tileaa", "nv_tileas", "cute", "cute_nvgpu", "cutlass"])
def test_every_op_and_type_of_ours_is_accounted_for(dialect: str) -> None:
    """It is the specification's, stands for one of its names, is nv_tileaa's under the same name, or has a reason of its own."""
    known = {name for roster in ROSTERS for name, where in roster.names() for _, name in lives(roster, name, where)}
    ours = [pattern for names in OURS for pattern in names.split()]
    ours += [pattern.replace("nv_tileaa.", "nv_tileas.") for pattern in ours]
    known |= {f"nv_tileas.{name.partition('.')[2]}" for name in known if name.startswith("nv_tileaa.")}
    left = (ops_of(dialect) | types_of(dialect)) - known
    assert not sorted(name for name in left if not any(fnmatchcase(name, pattern) for pattern in ours))


def test_our_own_names_exist() -> None:
    """Each is an op or a type, or several."""
    found = {name for dialect in ("nv_tileaa", "nv_tileas") for name in ops_of(dialect) | types_of(dialect)}
    assert not [pattern for names in OURS for pattern in names.split() if not any(fnmatchcase(name, pattern) for name in found)]


def test_folds_and_their_tests_are_there() -> None:
    for _, fold, here, test in FOLDS:
        if here.startswith(NO):
            assert not test
            continue
        kind, _, name = here.partition(" ")
        assert exists(kind, name), fold
        path, _, function = test.partition("::")
        assert f"def {function}(" in (ROOT / path).read_text(), fold


def test_the_gate_has_the_texts_that_are_said_to_be_there() -> None:
    said = {text for _, text, why in TEXTS if not why}
    sources = "".join(re.sub(r'"\s*\n\s*f?"', "", pathlib.Path(str(m.__file__)).read_text()) for m in (gate, operand_rules))
    assert len({text for _, text, _ in TEXTS}) == len(TEXTS)
    assert not [text for text in said if text not in sources]
    assert not [text for _, text, why in TEXTS if why and text in sources]


def test_the_page_is_the_table() -> None:
    assert rosters.PAGE.read_text() == rosters.page()


@pytest.mark.parametrize("place", [("op", "nv_tileas.dott"), ("type", "cute.shape"), ("pass", "dead-pass"), ("row", "mma.bogus"),
                                   ("atom", "sm33.mma"), ("fn", "layout.cute.algebra.nothing")])
def test_what_does_not_exist_is_not_found(place: tuple[str, str]) -> None:
    assert not exists(*place)
