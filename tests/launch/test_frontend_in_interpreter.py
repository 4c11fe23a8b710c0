"""The interpreter runs what the frontend writes for a launch: arrays with an extent of 1, lists of arrays."""
from __future__ import annotations

import cuda.tile as ct
import numpy as np
import pytest

from tileiras import interp
from tileiras.interp.errors import InterpreterError
from tileiras.sim import PointerTable, cutile


@ct.kernel
def add_one(x, y, T0: ct.Constant[int], T1: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    ct.store(y, (i, j), ct.load(x, (i, j), (T0, T1)) + 1)


@ct.kernel
def total(xs, n: int, out, T: ct.Constant[int]):
    acc = ct.zeros((T,), ct.float32)
    for k in range(n):
        acc = acc + ct.load(xs[k], (0,), (T,), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, (0,), acc)


def interpret(kernel, grid, *args):
    made = cutile.export(kernel, args, "sm_90")
    interp.run(made.bytecode, made.symbol, grid, made.flat)


@pytest.mark.parametrize("shape,tile", [((16, 1), (16, 1)), ((1, 16), (1, 16)), ((1, 1), (1, 1)), ((5, 1), (8, 1))])
def test_arrays_with_an_extent_of_one(shape, tile):
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    y = np.zeros_like(x)
    interpret(add_one, (1, 1, 1), x, y, *tile)
    assert np.array_equal(y, x + 1)


def test_the_stride_of_a_longer_dimension_is_still_checked():
    """What was compiled for strides that 16 bytes divide is wrong for one of 5 elements."""
    x, y = np.zeros((16, 16), np.float32), np.zeros((16, 16), np.float32)
    made = cutile.export(add_one, (x, y, 16, 16), "sm_90")
    assert made.flat[3] == 16
    made.flat[3] = np.int32(5)
    with pytest.raises(InterpreterError, match="assumption"):
        interp.run(made.bytecode, made.symbol, (1, 1, 1), made.flat)


@pytest.mark.parametrize("lengths", [(16, 16, 16), (16, 3, 1)])
def test_lists_of_arrays(lengths):
    xs = [np.arange(1, n + 1, dtype=np.float32) * (k + 1) for k, n in enumerate(lengths)]
    out = np.full(16, -1, np.float32)
    interpret(total, (1, 1, 1), xs, 2, out, 16)
    assert np.array_equal(out, sum(np.pad(x, (0, 16 - len(x))) for x in xs[:2]))


def test_a_list_of_views_of_one_array():
    """Tables hold addresses inside an array that is an argument, too, and what is stored there is seen there."""
    base = np.arange(64, dtype=np.float32)
    interpret(total, (1, 1, 1), [base[16:32], base[32:48]], 2, base[:16], 16)
    assert np.array_equal(base[:16], base[16:32] + base[32:48])


@pytest.mark.parametrize("value", [[1, 2], "text", 1.5])
def test_what_is_no_pointer(value):
    made = cutile.export(total, ([np.zeros(16, np.float32)], 1, np.zeros(16, np.float32), 16), "sm_90")
    assert isinstance(made.flat[0], PointerTable)
    with pytest.raises(InterpreterError, match=f"parameter 0 is a pointer, not a {type(value).__name__}"):
        interp.run(made.bytecode, made.symbol, (1, 1, 1), [value, *made.flat[1:]])
