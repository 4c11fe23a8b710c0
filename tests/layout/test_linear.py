"""Linear layouts and the algebra under them, against counting it out."""
from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from tileiras.layout.f2 import annihilator, apply, complement, coordinates, intersection, kernel, parity, solve
from tileiras.layout.linear import LinearLayout, blocked, dim_bits


def span(vectors: list[int]) -> set[int]:
    return {apply(vectors, i) for i in range(1 << len(vectors))}


@pytest.mark.parametrize("seed", range(20))
def test_subspaces(seed: int) -> None:
    rng = random.Random(seed)
    a, b = ([rng.randrange(32) for _ in range(rng.randrange(5))] for _ in range(2))
    assert span(intersection(a, b)) == span(a) & span(b)
    assert {m for m in range(1 << len(a)) if apply(a, m) == 0} == span(kernel(a))
    assert span(annihilator(a, 5)) == {m for m in range(32) if all(parity(v & m) == 0 for v in a)}
    full = span([*a, *complement(a, 5)])
    assert len(full) == 32 and len(complement(a, 5)) == 5 - (len(span(a)).bit_length() - 1)
    for target, mask in zip(range(32), solve(a, list(range(32)))):
        assert (mask is None) == (target not in span(a))
        assert mask is None or apply(a, mask) == target


def test_coordinates_invert_a_basis() -> None:
    basis = [3, 6, 4, 8 | 1]
    inverse = coordinates(basis, 4)
    assert [apply(basis, apply(inverse, x)) for x in range(16)] == list(range(16))
    with pytest.raises(ValueError, match="not a basis"):
        coordinates([1, 2, 3], 3)


def test_blocked_runs_along_the_last_dimension_first() -> None:
    layout = blocked((8, 64), num_warps=2, per_thread=4)
    assert [layout.coords(layout.index(r, 0, 0)) for r in range(4)] == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert layout.coords(layout.index(0, 1, 0)) == (0, 4)
    assert layout.coords(layout.index(0, 16, 0)) == (1, 0)
    assert layout.coords(layout.index(0, 0, 1)) == (2, 0)
    assert layout.is_exclusive and layout.is_complete
    assert layout.contiguous() == 4


def test_a_small_tile_is_held_in_copies() -> None:
    layout = blocked((16,), num_warps=4)
    assert layout.is_complete and not layout.is_exclusive
    assert len(layout.copies) == 3
    holders = [p for p in itertools.product(range(32), range(4)) if layout.index(0, *p) == 5]
    assert len(holders) == 8


def test_shape_changes_carry_elements_along() -> None:
    layout = blocked((4, 8, 16), 4, 2)
    tile = np.arange(512).reshape(4, 8, 16)
    moved = layout.permute([2, 0, 1])
    target = tile.transpose(2, 0, 1).reshape(-1)
    dropped = layout.drop(1)
    for place in itertools.product(range(layout.num_regs), range(32), range(4)):
        element = tile.reshape(-1)[layout.index(*place)]
        assert target[moved.index(*place)] == element
        a, _, c = layout.coords(layout.index(*place))
        assert dropped.coords(dropped.index(*place)) == (a, c)
    assert layout.project((4, 1, 16)).coords(layout.project((4, 1, 16)).index(1, 9, 3))[1] == 0
    assert layout.reshape((512,)).index(3, 5, 1) == layout.index(3, 5, 1)


def test_find_names_a_holder() -> None:
    layout = blocked((16, 16), 2, 4, (0, 1))
    for flat in range(256):
        place = layout.find(flat)
        assert place is not None and layout.index(*place) == flat
    assert LinearLayout((4,), (1,), (0,) * 5, ()).find(2) is None


def test_bit_fields_of_the_flat_index() -> None:
    assert dim_bits((4, 8, 2)) == ((4, 2), (1, 3), (0, 1))
    with pytest.raises(ValueError, match="power of two"):
        dim_bits((3,))


def test_layouts_round_trip_through_text() -> None:
    from xdsl.context import Context
    from xdsl.dialects.builtin import Builtin
    from xdsl.parser import Parser

    from tileiras.layout.shared import SharedLayout
    from tileiras.layout.text import parse_linear, parse_shared
    context = Context()
    context.load_dialect(Builtin)
    for layout in (blocked((4, 8), 4, 2), blocked((), 1), blocked((128,), 2, 4),
                   LinearLayout((4, 4), (5, 0), (1, 2, 4, 8, 0), ())):
        text = f"<shape = [{'x'.join(map(str, layout.shape))}], {layout}>"
        parser = Parser(context, text)
        assert parse_linear(parser) == layout  # type: ignore[arg-type]
    for shared in (SharedLayout.row_major((4, 8)), SharedLayout.swizzled((64, 64), 2)):
        assert parse_shared(Parser(context, f"<{shared}>")) == shared  # type: ignore[arg-type]


@pytest.mark.parametrize("text", [
    "<shape = [3], reg = [], lane = [[0], [0], [0], [0], [0]], warp = []>",
    "<shape = [4], reg = [[4]], lane = [[0], [0], [0], [0], [0]], warp = []>",
    "<shape = [4], reg = [[1, 1]], lane = [[0], [0], [0], [0], [0]], warp = []>",
    "<shape = [4], reg = [], lane = [[0]], warp = []>",
    "<shape = [1099511627776x1099511627776], reg = [], lane = [], warp = []>", "<shape = [4]>"])
def test_malformed_layouts_are_parse_errors(text: str) -> None:
    from xdsl.context import Context
    from xdsl.parser import Parser
    from xdsl.utils.exceptions import ParseError

    from tileiras.layout.text import parse_linear
    with pytest.raises(ParseError):
        parse_linear(Parser(Context(), text))  # type: ignore[arg-type]
