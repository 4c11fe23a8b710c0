"""Tiles larger than the scratch in shared memory: slices and prints go in rounds, and compute what the interpreter does."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import StringAttr

import tileiras
from tests.interp.build import ARRAYS, TOKEN, Kernel, pointer, tile
from tileiras.bytecode import write
from tileiras.dialects.cuda_tile import ops
from tileiras.driver.targets import find_target
from tileiras.sim import simulate

SLICES = [("f64", (128, 64), (64, 64)), ("f32", (256, 64), (256, 32)), ("i16", (256, 128), (128, 128)),
          ("i8", (2, 256, 128), (1, 256, 128))]


def extracting(element: str, whole: tuple[int, ...], part: tuple[int, ...]) -> Kernel:
    k = Kernel(pointer(element), pointer(element), pointer("i32"))
    index = k.load(k.args[2], "i32", ())
    zero = k.constant("i32", 0)
    indices = [index if n != m else zero for n, m in zip(whole, part)]
    k.store(k.args[1], k.add(ops.Extract.make([k.load(k.args[0], element, whole), indices], [tile(element, *part)])))
    return k


def inserting(element: str, whole: tuple[int, ...], part: tuple[int, ...]) -> Kernel:
    """The slice's place in the whole is taken by the negated first slice."""
    k = Kernel(pointer(element), pointer(element), pointer("i32"), pointer(element))
    index = k.load(k.args[2], "i32", ())
    zero = k.constant("i32", 0)
    indices = [index if n != m else zero for n, m in zip(whole, part)]
    old, new = k.load(k.args[0], element, whole), k.load(k.args[3], element, part)
    k.store(k.args[1], k.add(ops.Insert.make([new, old, indices], [tile(element, *whole)])))
    return k


def printing(element: str, shape: tuple[int, ...], text: str) -> Kernel:
    """A large tile, a number, and a small tile."""
    k = Kernel(pointer(element))
    x = k.load(k.args[0], element, shape)
    small = k.constant("i8", [[1, 2], [3, 4]])
    k.add(ops.PrintTko.make([[x, k.constant("i32", 7), small], None], [TOKEN], {"str": StringAttr(text)}))
    return k


def compiled(k: Kernel, gpu: str, opt_level: int) -> Any:
    module: Any = k.module()
    c = tileiras.compile(write(module, "13.4"), gpu_name=gpu, opt_level=opt_level)
    assert c.entries[0].shared_bytes <= find_target(gpu).max_static_smem
    return c


@pytest.mark.parametrize("opt_level", [0, 3])
@pytest.mark.parametrize("element, whole, part", SLICES)
def test_slices(element: str, whole: tuple[int, ...], part: tuple[int, ...], opt_level: int) -> None:
    """With a run-time index, on the SM with the least shared memory."""
    x = np.random.default_rng(1).integers(0, 100, whole).astype(ARRAYS[element])
    new = np.random.default_rng(2).integers(-100, 0, part).astype(ARRAYS[element])
    for index in (0, 1):
        where = tuple(slice(index * m, (index + 1) * m) if n != m else slice(None) for n, m in zip(whole, part))
        at = np.array([index], np.int32)
        out = np.zeros(part, ARRAYS[element])
        simulate(compiled(extracting(element, whole, part), "sm_75", opt_level).ptx, args=[x, out, at])
        assert np.array_equal(out, x[where])
        both = np.zeros(whole, ARRAYS[element])
        simulate(compiled(inserting(element, whole, part), "sm_75", opt_level).ptx, args=[x, both, at, new])
        expected = x.copy()
        expected[where] = new
        assert np.array_equal(both, expected)


def nested(x: Any, spelled: str) -> str:
    return "[" + ", ".join(nested(y, spelled) for y in x) + "]" if np.ndim(x) else spelled % x


@pytest.mark.parametrize("opt_level", [0, 3])
def test_prints(opt_level: int) -> None:
    """Whole and in order, though the large tile doesn't fit; the interpreter prints the same."""
    x = (np.arange(64 * 64) % 100).reshape(64, 64).astype(np.float64)
    text = "a %.1f b %i c %d\n"
    given: list[str] = []
    printing("f64", (64, 64), text).run(x, output=given.append)
    expected = f"a {nested(x.tolist(), '%.1f')} b 7 c [[1, 2], [3, 4]]\n"
    assert "".join(given) == expected
    assert simulate(compiled(printing("f64", (64, 64), text), "sm_80", opt_level).ptx, args=[x]).output == expected


@pytest.mark.parametrize("gpu", ["sm_75", "sm_90", "sm_100", "sm_120"])
def test_every_sm_has_room(gpu: str) -> None:
    for element, whole, part in (("f64", (256, 128), (128, 128)), ("f32", (256, 128), (256, 64))):
        assert compiled(extracting(element, whole, part), gpu, 3).cubin
        assert compiled(inserting(element, whole, part), gpu, 3).cubin
    assert compiled(printing("f64", (256, 128), "%f %i %d"), gpu, 3).cubin
