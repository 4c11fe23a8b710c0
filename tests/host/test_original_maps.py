"""Three ways to one map: the recipe in Python, our compiled host object, and what the original's own host object wrote.

The original's maps stand in `original_maps.txt` (`originals.py` made it); where the original is installed, it is asked anew.
"""
from __future__ import annotations

import pathlib
import struct
from collections import Counter
from functools import cache

import pytest

from tests.host import originals
from tests.host.hostcode import HostCode, made
from tests.host.views import ELEMENTS, views
from tests.sim import reference
from tileiras.codegen.resources import Entry, Parameter
from tileiras.host.callbacks import HostKernel
from tileiras.host.recipe import HostMap, Param, read_map

FILE = pathlib.Path(__file__).with_name("original_maps.txt")
WORDS = 16


@cache
def recorded() -> list[tuple[HostMap, list[int], list[int]]]:
    """Recipe, parameters, words, of each line."""
    rows = [line.split(" | ") for line in FILE.read_text().splitlines()]
    return [(read_map(recipe), [int(n, 16) for n in params.split()], [int(n, 16) for n in words.split()])
            for _, recipe, params, words in rows]


def test_the_record_has_views_of_all_kinds() -> None:
    made_ = [recipe for recipe, _, _ in recorded()]
    assert len(set(made_)) >= 270
    assert {m.element for m in made_} == {element for element, _ in ELEMENTS.values()}
    ranks = Counter(len(m.sizes) for m in set(made_))
    assert set(ranks) == {1, 2, 3, 4, 5} and min(ranks.values()) >= 20
    swizzles = Counter(m.swizzle for m in set(made_))
    assert swizzles[0] > 100 and swizzles[128] > 20
    assert sum("i32(" in str(m) for m in set(made_)) >= 10                  # slices
    assert sum(any(isinstance(s, Param) for s in m.sizes) for m in set(made_)) > 150
    assert any(n == 0xFFFFFFFF for _, _, words in recorded() for n in words[8:13])         # extents of 0


def test_recipes_evaluate_to_the_originals_maps() -> None:
    for recipe, params, words in recorded():
        data = recipe.encode(params)
        assert list(struct.unpack("<16I", data[:64])) == words and data[64:] == bytes(64), (str(recipe), params)


def _entry(count: int) -> Entry:
    """A kernel of two pointers, `count` 32-bit numbers and a map."""
    pointers, numbers = (Parameter(".u64", 8, True),) * 2, (Parameter(".u32", 4),) * count
    return Entry("k", (*pointers, *numbers), 128, param_base=0x210, hidden=(Parameter(".b8", 128, hidden=True, align=64),))


def test_compiled_host_code_writes_the_originals_maps() -> None:
    recipes = list(dict.fromkeys(recipe for recipe, _, _ in recorded()))
    counts = {recipe: len(params) - 2 for recipe, params, _ in recorded()}
    entries = {recipe: _entry(counts[recipe]) for recipe in recipes}
    code = HostCode(made(*(HostKernel(f"k{i}", entries[r].param_offsets, (r,)) for i, r in enumerate(recipes))))
    for recipe, params, words in recorded():
        entry = entries[recipe]
        before = originals.buffer(list(entry.param_offsets), entry.param_bytes, [p.bytes for p in entry.params], params)
        after = code.fill(f"k{recipes.index(recipe)}", before)
        at = entry.param_offsets[-1]
        assert list(struct.unpack_from("<16I", after, at)) == words, (str(recipe), params)
        assert after[:at] == before[:at] and after[at + 64:] == before[at + 64:]


@pytest.mark.skipif(reference.original() is None, reason="the original isn't installed")
@pytest.mark.parametrize("sm", ["sm_90", "sm_100"])
def test_the_original_writes_them_today(sm: str) -> None:
    """Other views than those on record, at six launches each."""
    seen = list(originals.observed(list(views(24, seed=77)), sm, 6, seed=77))
    assert len({recipe for recipe, _, _ in seen}) >= 20
    for recipe, params, data in seen:
        assert recipe.encode(params)[:64] == data, (str(recipe), params)
