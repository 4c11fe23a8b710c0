"""Reductions over any dimension, from any layout, with bodies of one or several ops and operands."""
from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr, IntegerType, StringAttr, i1, i32
from xdsl.ir import Block, Operation, Region, SSAValue

from tests.conversion.test_moves import any_layout
from tests.conversion.tiles import TYPES, Tile, run, tensor
from tileiras.dialects import arith, nv_tileas
from tileiras.layout.linear import LinearLayout, blocked
from tileiras.layout.reduction import steps_of

Combine = Callable[[list[SSAValue]], tuple[list[Operation], list[SSAValue]]]


def reduce_op(sources: list[SSAValue], dim: int, combine: Combine, results: list[Any]) -> Operation:
    types = [t for s in sources for t in (s.type.element_type, s.type.element_type)]  # type: ignore[attr-defined]
    block = Block(arg_types=types)
    ops, out = combine(list(block.args))
    for op in ops:
        block.add_op(op)
    block.add_op(arith.Yield.make([out]))
    return nv_tileas.Reduce.make([sources], [results], {"dim": IntegerAttr(dim, i32)}, [Region(block)])


def one(cls: type) -> Combine:
    def combine(args: list[SSAValue]) -> tuple[list[Operation], list[SSAValue]]:
        op = cls.make([args[0], args[1]], [args[0].type])
        return [op], [op.results[0]]
    return combine


def arg_max(args: list[SSAValue]) -> tuple[list[Operation], list[SSAValue]]:
    """(value, index) pairs: the larger value's, the first seen on ties (which the language leaves open)."""
    greater = arith.Cmpi.make([args[0], args[1]], [i1], {"predicate": StringAttr("sgt")})
    value = arith.Select.make([greater.results[0], args[0], args[1]], [args[0].type])
    index = arith.Select.make([greater.results[0], args[2], args[3]], [args[2].type])
    return [greater, value, index], [value.results[0], index.results[0]]


CASES = [(shape, dim) for shape in [(256,), (16, 32), (4, 8, 16), (2, 2), (1, 8)] for dim in range(len(shape))]


@pytest.mark.parametrize("shape,dim", CASES)
@pytest.mark.parametrize("kind", ["blocked", "random", "copies"])
def test_sum_counts_every_element_once(shape: tuple[int, ...], dim: int, kind: str) -> None:
    rng = random.Random(str((shape, dim, kind)))
    for num_warps in (1, 4):
        layout = blocked(shape, num_warps, 2)
        if kind != "blocked":
            layout = any_layout(rng, shape, num_warps, 2 * (kind == "copies"))
        for dtype in (np.int32, np.float32, np.int8, np.float64):
            cls = arith.Addi if np.dtype(dtype).kind == "i" else arith.Addf
            x = (np.arange(np.prod(shape)) % 13 - 5).astype(dtype).reshape(shape)
            t = TYPES[np.dtype(dtype)]
            out = [t] if len(shape) == 1 else [tensor(layout.drop(dim).compact_regs(), t)]
            [y] = run([Tile(x, layout)], lambda v, cls=cls, out=out: [reduce_op(v, dim, one(cls), out)], num_warps,
                      [dtype])
            np.testing.assert_array_equal(x.sum(dim, dtype=dtype), y)


def test_a_row_inside_a_warp_needs_no_shared_memory() -> None:
    layout = blocked((16, 128), 4, 4)
    stats: dict[str, int] = {}
    x = np.random.default_rng(0).integers(-99, 99, (16, 128)).astype(np.int32)
    out = [tensor(layout.drop(1).compact_regs(), i32)]
    [y] = run([Tile(x, layout)], lambda v: [reduce_op(v, 1, one(arith.Maxsi), out)], 4, [np.int32], stats=stats)
    np.testing.assert_array_equal(x.max(1), y)
    assert stats["shared"] == 0
    assert stats["redux.sync.max"] == 4         # the four rows of a warp
    x = x.astype(np.float32)
    out = [tensor(layout.drop(1).compact_regs(), TYPES[np.dtype(np.float32)])]
    [y] = run([Tile(x, layout)], lambda v: [reduce_op(v, 1, one(arith.Addf), out)], 4, [np.float32], stats=stats)
    np.testing.assert_array_equal(x.sum(1), y)
    assert stats["shared"] == 0
    assert stats["shfl.sync.bfly.i32"] == 5 * 4     # five steps of the four rows


@pytest.mark.parametrize("name", ["Addi", "Maxsi", "Maxui", "Minsi", "Minui", "Andi", "Ori", "Xori"])
@pytest.mark.parametrize("gpu", ["sm_75", "sm_80"])
def test_integer_reductions_over_whole_warps(name: str, gpu: str) -> None:
    x = np.random.default_rng(7).integers(-2**31, 2**31, (2, 256)).astype(np.int32)
    layout = blocked((2, 256), 4, 2)
    f = {"Addi": np.add, "Maxsi": np.maximum, "Minsi": np.minimum, "Andi": np.bitwise_and, "Ori": np.bitwise_or,
         "Xori": np.bitwise_xor, "Maxui": np.maximum, "Minui": np.minimum}[name]
    source = x.view(np.uint32) if name in ("Maxui", "Minui") else x
    out = [tensor(layout.drop(1).compact_regs(), i32)]
    [y] = run([Tile(x, layout)], lambda v: [reduce_op(v, 1, one(getattr(arith, name)), out)], 4, [source.dtype], gpu=gpu)
    np.testing.assert_array_equal(f.reduce(source, axis=1, dtype=source.dtype), y)


@pytest.mark.parametrize("seed", range(6))
def test_every_copy_of_an_argument_of_the_maximum_agrees(seed: int) -> None:
    """Ties are frequent; the harness checks that all threads hold the same index."""
    rng = random.Random(seed)
    shape = rng.choice([(512,), (16, 64)])
    num_warps = rng.choice([1, 4])
    layout = any_layout(rng, shape, num_warps)
    x = np.random.default_rng(seed).integers(0, 4, shape).astype(np.int32)
    index = np.broadcast_to(np.arange(shape[-1], dtype=np.int64), shape).copy()
    rest = layout.drop(len(shape) - 1).compact_regs()
    out = [i32, IntegerType(64)] if len(shape) == 1 else [tensor(rest, i32), tensor(rest, IntegerType(64))]
    value, place = run([Tile(x, layout), Tile(index, layout)], lambda v: [reduce_op(v, len(shape) - 1, arg_max, out)],
                       num_warps, [np.int32, np.int64])
    np.testing.assert_array_equal(x.max(-1), value)
    np.testing.assert_array_equal(np.take_along_axis(x, np.asarray(place)[..., None], -1)[..., 0], value)


def test_the_body_may_use_constants_and_values_from_outside() -> None:
    layout = blocked((64, 8), 4, 2)
    x = np.random.default_rng(3).integers(0, 999, (64, 8)).astype(np.int32)

    def build(v: list[SSAValue]) -> list[Operation]:
        def combine(args: list[SSAValue]) -> tuple[list[Operation], list[SSAValue]]:
            mask = arith.Constant.make([], [i32], {"value": IntegerAttr(0xFF, i32)})
            masked = [arith.Andi.make([a, mask.results[0]], [i32]) for a in args]
            best = arith.Maxsi.make([masked[0].results[0], masked[1].results[0]], [i32])
            capped = arith.Minsi.make([best.results[0], v[1]], [i32])
            return [mask, *masked, best, capped], [capped.results[0]]
        return [reduce_op([v[0]], 0, combine, [tensor(layout.drop(0).compact_regs(), i32)])]
    [y] = run([Tile(x, layout), 200], build, 4, [np.int32])
    np.testing.assert_array_equal(np.minimum((x & 0xFF).max(0), 200), y)


def test_a_layout_that_mixes_dimensions_is_converted_first() -> None:
    layout = LinearLayout((8, 8), (9, 2), (1, 4, 8, 16, 0), (32,))
    assert steps_of(layout, 1).layout != layout
    x = np.arange(64, dtype=np.int32).reshape(8, 8)
    for dim in (0, 1):
        out = [tensor(blocked((8,), 2), i32)]
        [y] = run([Tile(x, layout)], lambda v, dim=dim, out=out: [reduce_op(v, dim, one(arith.Addi), out)], 2,
                  [np.int32])
        np.testing.assert_array_equal(x.sum(dim), y)


def test_large_partial_results_cross_warps_in_rounds() -> None:
    """Four warps, each with a row of 2048 f64: 64 KiB of partial results. A conversion may use a third of sm_80's 48 KiB."""
    layout = LinearLayout((4, 2048), tuple(32 << i for i in range(6)), (1, 2, 4, 8, 16), (2048, 4096))
    x = np.random.default_rng(5).integers(-99, 99, (4, 2048)).astype(np.float64)
    stats: dict[str, int] = {}
    out = [tensor(layout.drop(0).compact_regs(), TYPES[np.dtype(np.float64)])]
    [y] = run([Tile(x, layout)], lambda v: [reduce_op(v, 0, one(arith.Addf), out)], 4, [np.float64], stats=stats)
    np.testing.assert_array_equal(x.sum(0), y)
    assert stats["shared"] <= 16 * 1024
