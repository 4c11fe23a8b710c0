"""Conversions and shape ops: every element arrives where the result's layout says, through any plan."""
from __future__ import annotations

import random

import numpy as np
import pytest
from xdsl.dialects.builtin import ArrayAttr, IntAttr, IntegerAttr, IntegerType, i32

from tests.conversion.tiles import TYPES, Tile, run, tensor
from tileiras.dialects import arith, nv_tileas
from tileiras.layout.linear import LinearLayout, blocked, log2


def any_layout(rng: random.Random, shape: tuple[int, ...], num_warps: int, copies: int = 0) -> LinearLayout:
    """The tile's index bits dealt out at random to registers, lanes and warps."""
    bits = [1 << i for i in range(sum(log2(n) for n in shape))]
    slots = 5 + log2(num_warps)
    places = bits + [0] * (max(0, slots - len(bits)) + copies)
    rng.shuffle(places)
    return LinearLayout(shape, tuple(places[slots:]), tuple(places[:5]), tuple(places[5:slots]))


def values(shape: tuple[int, ...], dtype: object) -> np.ndarray:
    n = int(np.prod(shape))
    if dtype is np.bool_:
        return (np.arange(n) * 7 % 11 < 5).reshape(shape)
    return (np.arange(n) * 37 % 251).astype(dtype).reshape(shape)  # type: ignore[call-overload]


@pytest.mark.parametrize("seed", range(24))
def test_convert_layout_moves_every_element(seed: int) -> None:
    rng = random.Random(seed)
    shape = rng.choice([(64,), (512,), (8, 16), (32, 32), (4, 8, 16), (1,), (64, 64)])
    num_warps = rng.choice([1, 2, 4])
    dtype = rng.choice([np.float16, np.float32, np.float64, np.int8, np.bool_, np.int64])
    src, dst = (any_layout(rng, shape, num_warps, rng.randint(0, 2)) for _ in range(2))
    if rng.random() < 0.5:      # stay inside warps
        inside = [*src.reg, *src.lane]
        rng.shuffle(inside)
        dst = LinearLayout(shape, tuple(inside[5:]), tuple(inside[:5]), src.warp)
    x = values(shape, dtype)
    tile = Tile(x, src)
    [y] = run([tile], lambda v: [nv_tileas.ConvertLayout.make([v[0]], [tensor(dst, tile.type.element_type)])],
              num_warps, [dtype])
    np.testing.assert_array_equal(x, y)


def test_a_large_conversion_goes_in_rounds_that_fit() -> None:
    """128 x 64 f64 is 64 KiB; sm_80 has 48 KiB of static shared memory."""
    shape = (128, 64)
    x = values(shape, np.float64)
    src, dst = blocked(shape, 4, 2), blocked(shape, 4, 2, (0, 1))
    stats: dict[str, int] = {}
    tile = Tile(x, src)
    [y] = run([tile], lambda v: [nv_tileas.ConvertLayout.make([v[0]], [tensor(dst, tile.type.element_type)])], 4,
              [np.float64], stats=stats)
    np.testing.assert_array_equal(x, y)
    assert stats["shared"] <= 16 * 1024


@pytest.mark.parametrize("seed", range(12))
def test_extract_takes_the_numbered_slice(seed: int) -> None:
    rng = random.Random(seed)
    whole, part = rng.choice([((16, 32), (4, 8)), ((64,), (16,)), ((8, 8), (8, 4)), ((8, 8), (1, 8)),
                              ((64, 4), (64, 4))])
    num_warps = rng.choice([1, 4])
    src, dst = any_layout(rng, whole, num_warps), any_layout(rng, part, num_warps)
    x = values(whole, np.float32)
    index = [rng.randrange(w // p) for w, p in zip(whole, part)]
    static = seed % 2 == 0
    tile = Tile(x, src)

    def build(v):
        constants = []
        indices = list(v[1:])
        if static:
            constants = [arith.Constant.make([], [i32], {"value": IntegerAttr(i, i32)}) for i in index]
            indices = [c.results[0] for c in constants]
        return [*constants, nv_tileas.Extract.make([v[0], indices], [tensor(dst, tile.type.element_type)])]
    [y] = run([tile, *([] if static else index)], build, num_warps, [np.float32])
    where = tuple(slice(i * p, (i + 1) * p) for i, p in zip(index, part))
    np.testing.assert_array_equal(x[where], y)


@pytest.mark.parametrize("seed", range(6))
def test_insert_replaces_the_numbered_slice(seed: int) -> None:
    rng = random.Random(seed)
    whole, part = rng.choice([((16, 32), (4, 8)), ((64,), (16,)), ((8, 8), (1, 8))])
    num_warps = rng.choice([1, 4])
    layouts = [any_layout(rng, s, num_warps) for s in (part, whole, whole)]
    small, big = values(part, np.float16) + 1000, values(whole, np.float16)
    index = [rng.randrange(w // p) for w, p in zip(whole, part)]
    [y] = run([Tile(small, layouts[0]), Tile(big, layouts[1]), *index],
              lambda v: [nv_tileas.Insert.make([v[0], v[1], v[2:]], [tensor(layouts[2], TYPES[big.dtype])])],
              num_warps, [np.float16])
    expected = big.copy()
    expected[tuple(slice(i * p, (i + 1) * p) for i, p in zip(index, part))] = small
    np.testing.assert_array_equal(expected, y)


@pytest.mark.parametrize("seed", range(12))
def test_cat_joins_along_a_dimension(seed: int) -> None:
    rng = random.Random(seed)
    shape = rng.choice([(16, 8), (64,), (4, 4, 8)])
    dim = rng.randrange(len(shape))
    whole = tuple(2 * n if d == dim else n for d, n in enumerate(shape))
    num_warps = rng.choice([1, 4])
    a, b = values(shape, np.float16), values(shape, np.float16) + 300
    la, lb, out = (any_layout(rng, s, num_warps) for s in (shape, shape, whole))
    [y] = run([Tile(a, la), Tile(b, lb)],
              lambda v: [nv_tileas.Cat.make([v[0], v[1]], [tensor(out, TYPES[a.dtype])],
                                            {"dim": IntegerAttr(dim, i32)})], num_warps, [np.float16])
    np.testing.assert_array_equal(np.concatenate([a, b], dim), y)


@pytest.mark.parametrize("seed", range(8))
def test_view_permute_and_broadcast(seed: int) -> None:
    rng = random.Random(seed)
    num_warps = rng.choice([1, 4])
    x = values((8, 1, 16), np.float32)
    src = any_layout(rng, (8, 1, 16), num_warps)
    tile = Tile(x, src)
    t = tile.type.element_type
    out = any_layout(rng, (16, 8), num_warps)
    natural = src.reshape((16, 8))
    for layout in (natural, out):
        [y] = run([tile], lambda v, layout=layout: [nv_tileas.View.make([v[0]], [tensor(layout, t)])], num_warps,
                  [np.float32])
        np.testing.assert_array_equal(x.reshape(16, 8), y)
    permutation = [2, 0, 1]
    for layout in (src.permute(permutation), any_layout(rng, (16, 8, 1), num_warps)):
        [y] = run([tile], lambda v, layout=layout: [nv_tileas.Permute.make(
            [v[0]], [tensor(layout, t)], {"permutation": ArrayAttr([IntAttr(p) for p in permutation])})], num_warps,
            [np.float32])
        np.testing.assert_array_equal(x.transpose(permutation), y)
    big = any_layout(rng, (8, 4, 16), num_warps)
    for operand in (tile, Tile(x, big.project((8, 1, 16)).compact_regs())):
        [y] = run([operand], lambda v: [nv_tileas.Broadcast.make([v[0]], [tensor(big, t)])], num_warps, [np.float32])
        np.testing.assert_array_equal(np.broadcast_to(x, (8, 4, 16)), y)


def test_range_splat_and_scalars() -> None:
    rng = random.Random(5)
    layout = any_layout(rng, (256,), 4)
    for width, dtype in ((32, np.int32), (64, np.int64), (16, np.int16)):
        t = tensor(layout, IntegerType(width))
        [y] = run([], lambda v, t=t: [nv_tileas.MakeRange.make([], [t])], 4, [dtype])
        np.testing.assert_array_equal(np.arange(256), y)
    [y] = run([7], lambda v: [nv_tileas.Splat.make([v[0]], [tensor(layout, i32)])], 4, [np.int32])
    np.testing.assert_array_equal(np.full(256, 7), y)
    one = LinearLayout((1, 1), (), (0,) * 5, (0, 0))
    [y] = run([Tile(np.array([[9]], np.int32), one)], lambda v: [nv_tileas.View.make([v[0]], [i32])], 4, [np.int32])
    assert y == 9


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("seed", range(4))
def test_pack_and_unpack_reinterpret_bytes(dtype: type, seed: int) -> None:
    rng = random.Random(seed)
    n, size = 128, np.dtype(dtype).itemsize
    x = values((n,), dtype)
    num_warps = rng.choice([1, 4])
    wide = any_layout(rng, (n,), num_warps) if seed % 2 else blocked((n,), num_warps, 1)
    narrow = any_layout(rng, (n * size,), num_warps) if seed % 2 else blocked((n * size,), num_warps, 8)
    tile = Tile(x, wide)
    [y] = run([tile], lambda v: [nv_tileas.Pack.make([v[0]], [tensor(narrow, IntegerType(8))])], num_warps, [np.uint8])
    np.testing.assert_array_equal(x.view(np.uint8), y)
    [z] = run([Tile(y, narrow)], lambda v: [nv_tileas.Unpack.make([v[0]], [tensor(wide, tile.type.element_type)])],
              num_warps, [dtype])
    np.testing.assert_array_equal(x, z)


def test_shared_memory_stores_of_one_slice() -> None:
    """A tile written to a buffer half by half along its last dimension."""
    from tileiras.dialects.nv_tileas import AllocTensor, BufferType, LoadShared, SharedLayoutAttr, StoreShared
    from tileiras.layout.shared import SharedLayout
    x = values((32, 64), np.float16)
    tile = Tile(x, blocked((32, 64), 4, 8))
    t = tile.type.element_type
    buffer = BufferType(t, SharedLayoutAttr(SharedLayout.swizzled((32, 32), 2)))
    half = blocked((32, 32), 4, 4)
    for number in range(2):
        def build(v, number=number):
            alloc = AllocTensor.make([], [buffer])
            store = StoreShared.make([v[0], alloc.results[0]], [], {
                "slice": ArrayAttr([IntAttr(1), IntAttr(number), IntAttr(2)])})
            return [alloc, store, LoadShared.make([alloc.results[0]], [tensor(half, t)])]
        [y] = run([tile], build, 4, [np.float16])
        np.testing.assert_array_equal(x[:, 32 * number:][:, :32], y)
