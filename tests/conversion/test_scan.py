"""Scans: prefixes in the index's order, from any layout, both ways, with bodies that don't commute."""
from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr, StringAttr, i1, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from tests.conversion.test_moves import any_layout
from tests.conversion.test_reduce import Combine, one
from tests.conversion.tiles import Tile, run
from tileiras.conversion.tileas_to_llvm.collectives import scan
from tileiras.dialects import arith, nv_tileas
from tileiras.layout.linear import LinearLayout, blocked


def scan_op(sources: list[SSAValue], dim: int, reverse: bool, combine: Combine) -> Operation:
    types: list[Attribute] = [t for s in sources for t in (s.type.element_type,) * 2]  # type: ignore[attr-defined]
    block = Block(arg_types=types)
    ops, out = combine(list(block.args))
    for op in ops:
        block.add_op(op)
    block.add_op(arith.Yield.make([out]))
    return nv_tileas.Scan.make([sources], [[s.type for s in sources]],
                               {"dim": IntegerAttr(dim, i32), "reverse": IntegerAttr(int(reverse), i1)},
                               [Region(block)])


def last_set(args: list[SSAValue]) -> tuple[list[Operation], list[SSAValue]]:
    """The current value unless it is 0, else the accumulated one: associative, and its order shows."""
    zero = arith.Constant.make([], [i32], {"value": IntegerAttr(0, i32)})
    is_zero = arith.Cmpi.make([args[1], zero.results[0]], [i1], {"predicate": StringAttr("eq")})
    pick = arith.Select.make([is_zero.results[0], args[0], args[1]], [i32])
    return [zero, is_zero, pick], [pick.results[0]]


def expected_last_set(x: np.ndarray, axis: int, reverse: bool) -> np.ndarray:
    x = np.flip(x, axis) if reverse else x
    moved = np.moveaxis(x, axis, 0)
    out = np.zeros_like(moved)
    carried = np.zeros_like(moved[0])
    for i, row in enumerate(moved):
        carried = np.where(row == 0, carried, row)
        out[i] = carried
    out = np.moveaxis(out, 0, axis)
    return np.flip(out, axis) if reverse else out


CASES = [((512,), 0), ((16, 32), 0), ((16, 32), 1), ((4, 16, 8), 1), ((2, 2), 1), ((1,), 0), ((8, 1), 1)]


@pytest.mark.parametrize("shape,dim", CASES)
@pytest.mark.parametrize("kind", ["blocked", "random", "copies"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("running", [False, True])
def test_prefixes(shape: tuple[int, ...], dim: int, kind: str, reverse: bool, running: bool,
                  monkeypatch: pytest.MonkeyPatch) -> None:
    """Totals of lanes in pairs, or as they run."""
    monkeypatch.setattr(scan, "_runs", lambda low, body: running)
    rng = random.Random(str((shape, dim, kind)))
    x = np.random.default_rng(len(shape)).integers(-9, 9, shape).astype(np.int32)
    x[np.abs(x) > 5] = 0
    for num_warps in (1, 2, 4):
        for _ in range(1 if kind == "blocked" else 3):
            layout = blocked(shape, num_warps, 4) if kind == "blocked" else any_layout(rng, shape, num_warps,
                                                                                      2 * (kind == "copies"))
            [y] = run([Tile(x, layout)], lambda v: [scan_op(v, dim, reverse, last_set)], num_warps, [np.int32])
            np.testing.assert_array_equal(expected_last_set(x, dim, reverse), y)
            flipped = np.flip(x, dim) if reverse else x
            total = np.cumsum(flipped, dim, dtype=np.int32)
            [z] = run([Tile(x, layout)], lambda v: [scan_op(v, dim, reverse, one(arith.Addi))], num_warps, [np.int32])
            np.testing.assert_array_equal(np.flip(total, dim) if reverse else total, z)


def test_narrow_and_wide_elements() -> None:
    cases = ((np.float16, arith.Addf), (np.float64, arith.Addf), (np.int8, arith.Addi), (np.int64, arith.Muli))
    for dtype, cls in cases:
        x: Any = (np.arange(256) % 3).astype(dtype) if cls is not arith.Muli else np.full(256, -1, dtype)
        [y] = run([Tile(x, blocked((256,), 4, 2))], lambda v, cls=cls: [scan_op(v, 0, False, one(cls))], 4, [dtype])
        np.testing.assert_array_equal(np.cumprod(x) if cls is arith.Muli else np.cumsum(x, dtype=dtype), y)


def test_a_layout_without_an_order_of_its_own_is_converted_first() -> None:
    x = np.arange(1, 65, dtype=np.int32)
    layout = LinearLayout((64,), (3, 32), (1, 4, 8, 16, 4), ())
    [y] = run([Tile(x, layout)], lambda v: [scan_op(v, 0, False, one(arith.Addi))], 1, [np.int32])
    np.testing.assert_array_equal(np.cumsum(x), y)


def test_large_totals_cross_warps_in_rounds() -> None:
    layout = LinearLayout((4, 2048), tuple(32 << i for i in range(6)), (1, 2, 4, 8, 16), (2048, 4096))
    x = np.random.default_rng(5).integers(-99, 99, (4, 2048)).astype(np.int64)
    stats: dict[str, int] = {}
    [y] = run([Tile(x, layout)], lambda v: [scan_op(v, 0, True, one(arith.Addi))], 4, [np.int64], stats=stats)
    np.testing.assert_array_equal(np.flip(np.cumsum(np.flip(x, 0), 0), 0), y)
    assert stats["shared"] <= 12 * 1024
