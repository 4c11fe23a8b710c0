"""Tiles larger than the scratch in shared memory: slices and prints go in rounds, and compute what the interpreter does."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import SSAValue

import tileiras
from tests.interp.build import ARRAYS, TOKEN, WEAK, Kernel, pointer, tile
from tileiras.bytecode import write
from tileiras.dialects.cuda_tile import ops
from tileiras.machine.targets import find_target
from tileiras.sim import simulate

WEAKLY = {"memory_ordering_semantics": WEAK}
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


@pytest.mark.parametrize("gpu", ["sm_75", "sm_80", "sm_86", "sm_90"])
def test_memory_of_the_block_beyond_48_kilobytes(gpu: str) -> None:
    """60 KiB go in at an allocated place and come out in reverse."""
    n = 60 * 1024 // 8
    k = Kernel(pointer("i64"), pointer("i64"))
    space = k.add(ops.Alloca.make([], [pointer("i64")], {"num_elem": IntegerAttr(n, 64), "alignment": IntegerAttr(16, 64)}))
    for part in range(0, n, 512):       # 7680 = 15 * 512
        def places(base: SSAValue, first: int) -> SSAValue:
            start = k.add(ops.Offset.make([base, k.constant("i32", first)], [pointer("i64")]))
            return k.pointers(start, "i64", 512)
        x = k.add(ops.LoadPtrTko.make([places(k.args[0], part), None, None, None], [tile("i64", 512), TOKEN], WEAKLY))[0]
        token = k.add(ops.StorePtrTko.make([places(space, part), x, None, None], [TOKEN], WEAKLY))
        y = k.add(ops.LoadPtrTko.make([places(space, part), None, None, token], [tile("i64", 512), TOKEN], WEAKLY))[0]
        k.add(ops.StorePtrTko.make([places(k.args[1], n - 512 - part), y, None, None], [TOKEN], WEAKLY))
    module: Any = k.module()
    c = tileiras.compile(write(module, "13.4"), gpu_name=gpu)
    assert c.entries[0].shared_bytes >= 60 * 1024
    given, out = np.arange(n, dtype=np.int64), np.zeros(n, np.int64)
    simulate(c.ptx, args=[given, out])
    assert np.array_equal(out.reshape(-1, 512)[::-1].reshape(-1), given)
