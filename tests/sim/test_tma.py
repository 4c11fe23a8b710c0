"""Tensor copies against their definition: plain gathers by element, and the swizzles' pattern tables."""
from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from tests.sim import tmakit
from tileiras.layout.tensormap import TensorMap, tiled
from tileiras.sim import simulate
from tileiras.sim.copy import box, tensormap
from tileiras.sim.errors import DescriptorError, Misaligned

DTYPES = {"u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "s32": np.int32, "u64": np.uint64, "s64": np.int64,
          "f16": np.float16, "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16}


def tensor(shape, element="u16"):
    n = int(np.prod(shape))
    return (np.arange(n) % 120 + 1).astype(DTYPES[element]).reshape(shape)


def by_functions(array, m: TensorMap, coords, start=0):
    """The same as `tmakit.load`, from the simulator's functions alone; returns the bytes behind `start`."""
    decoded = tensormap.decode(m.encode())
    rows = box.rows_of(decoded, "tile", coords)
    data = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
    memory = np.zeros(len(data) + 16, np.uint8)
    memory[:len(data)] = data
    block = box.read_rows(memory, 0, rows)
    box.fill(decoded, rows, block)
    where = box.places(start, len(rows.starts), rows.width, decoded.swizzle, decoded.atomicity)
    unit = 8 if decoded.atomicity == 2 else 16
    out = np.zeros(box.span(decoded, len(rows.starts), rows.width) + 1024, np.uint8)
    for r, row in enumerate(where):
        for u, at in enumerate(row):
            out[at - start:at - start + unit] = block[r, u * unit:(u + 1) * unit]
    return out


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_tile_loads_of_every_rank_at_every_corner(rank):
    shape = (2, 3, 2, 4, 24)[5 - rank:]
    array = tensor(shape)
    sizes = shape[::-1]
    bounds = (8, 2, 2, 2, 2)[:rank]
    m = tiled(0, "u16", sizes, bounds)
    ranges = [(-3, 0, 5, 20)] + [(-1, 0, n - 1) for n in sizes[1:]]
    for coords in itertools.product(*ranges[:rank]):
        expected = tmakit.placed(tmakit.by_definition(array, m, coords, b"\0\0"), 0, m, 4096)
        got = by_functions(array, m, coords)
        n = min(len(got), 4096)
        assert np.array_equal(got[:n], expected[:n]), coords


@pytest.mark.parametrize("steps", [(1, 2), (1, 3), (1, 8)])
def test_element_strides_skip_rows(steps):
    array = tensor((11, 16))
    m = tiled(0, "u16", (16, 11), (8, 7), steps=steps)
    for coords in [(0, 0), (8, 3), (4, -2), (12, 9)]:
        expected = tmakit.placed(tmakit.by_definition(array, m, coords, b"\0\0"), 0, m, 1024)
        got = by_functions(array, m, coords)
        assert np.array_equal(got[:1024], expected[:len(got)][:1024])
    assert m.box_bytes() == 16 * -(-7 // steps[1])


@pytest.mark.parametrize(("width", "atomicity"), [(0, "16B"), (32, "16B"), (64, "16B"), (96, "16B"), (128, "16B"),
                                                  (128, "32B"), (128, "32B+8B flip"), (128, "64B")])
def test_swizzles_follow_the_pattern_tables(width, atomicity):
    for inner in (16, 32, 64, 96, 128):
        if width and inner > width:
            continue
        array = np.arange(20 * 256).astype(np.uint8).reshape(20, 256)
        m = tiled(0, "u8", (256, 20), (inner, 20), swizzle=width, atomicity=atomicity)
        for start in (0, 128, 384, 896):
            elements = tmakit.by_definition(array, m, (0, 0), b"\0")
            expected = tmakit.placed(elements, start, m, 4096)
            got = by_functions(array, m, (0, 0), start)
            n = min(len(got), 4096)
            assert np.array_equal(got[:n], expected[:n]), (inner, start)


def test_the_pattern_of_128_bytes_is_the_table_of_the_isa():
    table = ["01234567", "10325476", "23016745", "32107654", "45670123", "54761032", "67452301", "76543210"]
    for line, row in enumerate(table):
        for piece, number in enumerate(row):
            assert int(box.swizzled(np.array([line * 128 + int(number) * 16]), 128)[0]) == line * 128 + piece * 16


@pytest.mark.parametrize("element", sorted(DTYPES))
def test_every_element_type_goes_through_a_kernel(element):
    array = tensor((9, 32), element)
    inner = 64 // array.dtype.itemsize
    m = tiled(0, element, (32, 9), (inner, 4), swizzle=64)
    expected = tmakit.placed(tmakit.by_definition(array, m, (16, 7), b"\0" * array.dtype.itemsize), 0, m, 256)
    assert np.array_equal(tmakit.load(array, m, (16, 7), 256), expected)


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("space", ["shared::cta", "shared::cluster"])
def test_loads_of_every_rank_through_a_kernel(rank, space):
    shape = (2, 3, 2, 4, 24)[5 - rank:]
    array = tensor(shape, "f32")
    m = tiled(0, "f32", shape[::-1], (8, 2, 2, 2, 2)[:rank])
    coords = (20, -1, 1, 2, 1)[:rank]
    size = m.box_bytes()
    expected = tmakit.placed(tmakit.by_definition(array, m, coords, b"\0" * 4), 0, m, size)
    for seed in (0, 1):
        assert np.array_equal(tmakit.load(array, m, coords, size, space=space, seed=seed), expected)


@pytest.mark.parametrize(("width", "atomicity"), [(128, "16B"), (128, "32B"), (128, "32B+8B flip"), (128, "64B"), (32, "16B")])
def test_swizzles_look_at_the_shared_address(width, atomicity):
    array = np.arange(16 * 128).astype(np.uint8).reshape(16, 128)
    m = tiled(0, "u8", (128, 16), (width, 8), swizzle=width, atomicity=atomicity)
    for at in (0, 128, 640):
        elements = tmakit.by_definition(array, m, (0, 3), b"\0")
        expected = tmakit.placed(elements, at, m, 8 * width)
        assert np.array_equal(tmakit.load(array, m, (0, 3), 8 * width, at=at), expected), at


def test_what_lies_outside_is_nan_where_the_map_says_so():
    array = tensor((4, 16), "f16")
    m = tiled(0, "f16", (16, 4), (16, 4), nan_fill=True)
    got = tmakit.load(array, m, (8, 2), 128).view(np.float16).reshape(4, 16)
    assert np.array_equal(got[:2, :8], array[2:, 8:])
    assert np.isnan(got[2:]).all() and np.isnan(got[:, 8:]).all()


@pytest.mark.parametrize("rank", [1, 2, 3, 5])
def test_stores_write_what_lies_inside(rank):
    shape = (2, 3, 3, 5, 24)[5 - rank:]
    array = np.zeros(shape, np.uint32)
    m = tiled(0, "u32", shape[::-1], (8, 2, 2, 2, 2)[:rank], swizzle=32)
    coords = (20, 4, 2, 1, 1)[:rank]
    counts = m.box
    data = np.arange(1, int(np.prod(counts)) + 1, dtype=np.uint32)
    expected = array.copy()
    shared = np.zeros(data.nbytes, np.uint8)
    for k, index in enumerate(itertools.product(*(range(c) for c in counts[::-1]))):
        at = tuple(c + i for c, i in zip(coords[::-1], index))
        if all(0 <= a < n for a, n in zip(at, shape)):
            expected[at] = data[k]
        for j, b in enumerate(data[k:k + 1].tobytes()):
            shared[tmakit.swizzle(4 * k + j, 32)] = b
    for seed in (0, 3):
        array[...] = 0
        tmakit.store(array, m, coords, shared, seed=seed)
        assert np.array_equal(array, expected)


@pytest.mark.parametrize(("op", "element"), [("add", "u32"), ("add", "s32"), ("add", "u64"), ("add", "f16"), ("add", "bf16"),
                                             ("add", "f32"), ("add", "f64"), ("min", "s32"), ("max", "u64"), ("min", "s64"),
                                             ("max", "f16"), ("min", "bf16"), ("inc", "u32"), ("dec", "u32"), ("and", "u32"),
                                             ("or", "u64"), ("xor", "s32")])
def test_reductions_into_a_tensor(op, element):
    dtype = DTYPES[element]
    rng = np.random.default_rng(7)
    old = rng.integers(0, 50, (6, 16)).astype(dtype)
    new = rng.integers(0, 50, (4, 16)).astype(dtype)
    array = old.copy()
    m = tiled(0, element, (16, 6), (16, 4))
    tmakit.store(array, m, (8, 3), new, op=op)
    a, b = old[3:, 8:], new[:3, :8]
    with np.errstate(over="ignore"):
        expected = {"add": lambda: a + b, "min": lambda: np.minimum(a, b), "max": lambda: np.maximum(a, b),
                    "and": lambda: a & b, "or": lambda: a | b, "xor": lambda: a ^ b,
                    "inc": lambda: np.where(a >= b, 0, a + 1), "dec": lambda: np.where((a == 0) | (a > b), b, a - 1)}[op]()
    assert np.array_equal(array[3:, 8:], expected.astype(dtype))
    array[3:, 8:] = old[3:, 8:]
    assert np.array_equal(array, old)


def test_gather_and_scatter_of_four_rows():
    array = tensor((10, 64), "u16")
    m = tiled(0, "u16", (64, 10), (32, 1), swizzle=64)
    got = tmakit.load(array, m, (16, 5, 0, 9, 12), 256, mode="tile::gather4", tx=256)
    rows = np.stack([array[5], array[0], array[9], np.zeros(64, np.uint16)])[:, 16:48]
    raw = np.ascontiguousarray(rows).view(np.uint8).reshape(-1)
    expected = np.zeros(256, np.uint8)
    for i, b in enumerate(raw):
        expected[tmakit.swizzle(i, 64)] = b
    assert np.array_equal(got, expected)
    target = np.zeros_like(array)
    tmakit.store(target, m, (16, 5, 0, 9, 12), expected, mode="tile::scatter4")
    wanted = np.zeros_like(array)
    wanted[[5, 0, 9], 16:48] = rows[:3]
    assert np.array_equal(target, wanted)


def im2col_by_definition(array, m, coords, offsets):
    """[pixels, channels] of an im2col load of an NHWC or NDHWC tensor: the filter base walks the bounding box."""
    sizes, n = m.sizes, m.rank - 2
    steps = m.steps or (1,) * m.rank
    positions = [range(low, size + high, step)
                 for low, high, size, step in zip(m.lower, m.upper, sizes[1:1 + n], steps[1:1 + n])]
    walk = [(image, *p) for image in range(sizes[-1] + 40) for p in itertools.product(*positions[::-1])]
    start = walk.index((coords[-1], *coords[1:1 + n][::-1]))
    out = np.zeros((m.pixels, m.channels), array.dtype)
    for k, (image, *base) in enumerate(walk[start:start + m.pixels]):
        at = [b + o for b, o in zip(base, offsets[::-1])]
        for c in range(m.channels):
            where = (image, *at, coords[0] + c)
            if all(0 <= x < s for x, s in zip(where, array.shape)):
                out[k, c] = array[where]
    return out


@pytest.mark.parametrize(("shape", "lower", "upper", "steps", "coords", "offsets"), [
    ((3, 9, 16), (-1,), (-1,), (1, 1, 1), (8, -1, 0), (0,)),
    ((3, 9, 16), (-1,), (-1,), (1, 1, 1), (0, 4, 1), (2,)),
    ((2, 7, 9, 16), (-1, -1), (-1, -1), (1, 1, 1, 1), (0, 7, 4, 0), (0, 0)),
    ((2, 7, 9, 16), (0, 0), (-2, -2), (1, 1, 1, 1), (8, 3, 4, 0), (2, 2)),
    ((2, 7, 9, 16), (-1, -1), (-1, -1), (1, 2, 2, 1), (0, 1, 1, 1), (1, 2)),
    ((2, 3, 4, 5, 16), (-1, 0, -1), (-1, -2, 0), (1, 1, 1, 1, 1), (0, 2, 1, 0, 0), (1, 0, 2)),
])
def test_im2col_loads(shape, lower, upper, steps, coords, offsets):
    array = tensor(shape, "u16")
    strides = tuple(int(s) for s in array.strides[-2::-1])
    m = TensorMap(0, "u16", shape[::-1], strides, steps=steps, mode="im2col", lower=lower, upper=upper, channels=8, pixels=32)
    rank = len(shape)
    extra = ", {" + ", ".join(f"%h{i}" for i in range(rank - 2)) + "}"
    moves = " ".join(f"mov.u16 %h{i}, {o};" for i, o in enumerate(offsets))
    text = tmakit.LOAD
    try:
        tmakit.LOAD = text.replace("INSTRUCTION", moves + " INSTRUCTION")
        got = tmakit.load(array, m, coords, 32 * 16, mode="im2col", extra=extra)
    finally:
        tmakit.LOAD = text
    expected = im2col_by_definition(array, m, coords, offsets)
    assert np.array_equal(got.view(np.uint16).reshape(32, 8), expected)


def test_im2col_stores():
    array = np.zeros((2, 7, 9, 16), np.uint16)
    strides = tuple(int(x) for x in array.strides[-2::-1])
    m = TensorMap(0, "u16", array.shape[::-1], strides, mode="im2col", lower=(0, 0), upper=(0, -1), channels=8, pixels=64)
    data = np.arange(1, 64 * 8 + 1, dtype=np.uint16)
    tmakit.store(array, m, (8, 4, 2, 0), data, mode="im2col_no_offs")
    expected = np.zeros_like(array)
    walk = [(n, h, w) for n in range(3) for h in range(6) for w in range(9)]
    walk = walk[walk.index((0, 2, 4)):][:64]
    for (n, h, w), values in zip(walk, data.reshape(64, 8)):
        if n < 2:
            expected[n, h, w, 8:] = values
    assert np.array_equal(array, expected)


def test_im2col_offsets_have_ranges():
    m = tensormap.decode(TensorMap(0, "u16", (16, 9, 7, 5, 2), (32, 288, 2016, 10080), mode="im2col", lower=(0, 0, 0),
                                   upper=(0, 0, 0), channels=8, pixels=4).encode())
    with pytest.raises(DescriptorError, match="below 32"):
        box.rows_of(m, "im2col", (0, 0, 0, 0, 0), (32, 0, 0))
    with pytest.raises(DescriptorError, match="outside the bounding box"):
        box.rows_of(m, "im2col", (0, 9, 0, 0, 0), (0, 0, 0))


def test_im2col_wide_walks_along_w_and_brings_its_halo():
    array = tensor((5, 4, 9, 16), "u16")
    strides = tuple(int(s) for s in array.strides[-2::-1])
    m = TensorMap(0, "u16", array.shape[::-1], strides, mode="im2col::w", lower=(0,), upper=(0,), channels=8, pixels=20)
    decoded = tensormap.decode(m.encode())
    rows = box.rows_of(decoded, "im2col::w", (0, 2, 3, 0), (2, 0))
    data = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
    got = box.read_rows(data, 0, rows).view(np.uint16)
    walk = [(n, w) for n in range(5) for w in range(9)]
    walk = walk[walk.index((0, 2)):][:20]
    walk += [(walk[-1][0], walk[-1][1] + 1), (walk[-1][0], walk[-1][1] + 2)]
    expected = [array[n, 3, w, :8] if w < 9 else np.zeros(8) for n, w in walk]
    assert np.array_equal(got, np.array(expected, np.uint16))
    rows = box.rows_of(decoded, "im2col::w::128", (0, 0, 1, 0), (1, 1))
    assert len(rows.starts) == 128 + 4


def test_interleaved_tensors_go_by_slices():
    array = np.arange(3 * 4 * 5 * 16).astype(np.uint8).reshape(3, 4, 5, 16)         # N or C/8, H, W, slices of 16 bytes
    m = TensorMap(0, "u16", (5, 4, 3), (80, 320), (4, 2, 2), steps=(2, 1, 1), interleave=16)
    decoded = tensormap.decode(m.encode())
    rows = box.rows_of(decoded, "tile", (2, 3, 0))
    got = box.read_rows(array.reshape(-1), 0, rows)
    expected = np.zeros((2, 2, 2, 16), np.uint8)
    expected[:, 0] = array[:2, 3, 2:5:2]
    assert np.array_equal(got, expected.reshape(8, 16))


def test_packed_types_get_and_lose_their_padding():
    array = np.arange(3 * 128).astype(np.uint8).reshape(3, 128)
    m = TensorMap(0, "b4x16_p64", (256, 3), (128,), (128, 2), swizzle=128)
    decoded = tensormap.decode(m.encode())
    rows = box.rows_of(decoded, "tile", (128, 1))
    block = box.pad(decoded, box.read_rows(array.reshape(-1), 0, rows))
    assert block.shape == (2, 128) and m.box_bytes() == 128
    assert np.array_equal(block.reshape(2, 8, 16)[:, :, :8], array[1:, 64:].reshape(2, 8, 8))
    six = TensorMap(0, "b6x16_p32", (128, 3), (96,), (128, 1))
    values = np.arange(128, dtype=np.uint8) % 64
    bits = np.unpackbits(values[:, None], axis=1, bitorder="little")[:, :6].reshape(-1)
    packed = box.unpad(tensormap.decode(six.encode()), (values | 0xC0).reshape(1, 128))
    assert np.array_equal(packed[0], np.packbits(bits, bitorder="little"))


def test_tf32_maps_round_what_they_load():
    array = np.array([[1.0 + 2.0**-11, 1.0 + 3 * 2.0**-11, 1.0 + 2.0**-12, -3.14159265, np.inf, 2.0 - 2.0**-23, 0, 0]], np.float32)
    got = tmakit.load(array, tiled(0, "tf32", (8, 1), (8, 1)), (0, 0), 32).view(np.float32)
    assert np.array_equal(got, np.array([1.0, 1.0 + 2.0**-9, 1.0, -3.140625, np.inf, 2.0, 0, 0], np.float32))


def test_cache_hints_and_prefetches_change_nothing():
    array = tensor((8, 64))
    m = tiled(0, "u16", (64, 8), (32, 2))
    text = tmakit.LOAD
    try:
        tmakit.LOAD = text.replace("INSTRUCTION", """createpolicy.fractional.L2::evict_last.b64 %rd7, 1.0;
 prefetch.tensormap [%rd1]; cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd1, {%r0, %r1}];
 INSTRUCTION""")
        got = tmakit.load(array, m, (16, 3), 128, extra=", %rd7", mode="tile", hint=".L2::cache_hint")
    finally:
        tmakit.LOAD = text
    assert np.array_equal(got.view(np.uint16).reshape(2, 32), array[3:5, 16:48])


def test_coordinates_of_packed_types():
    array = np.zeros((3, 128), np.uint8)
    m = TensorMap(0, "b4x16_p64", (256, 3), (128,), (128, 2))
    with pytest.raises(Misaligned, match="multiple of 128"):
        tmakit.load(array, m, (64, 1), 64)


@pytest.mark.parametrize("element, coordinate", [("u16", 12), ("u32", 110), ("u8", -8), ("f64", 1)])
def test_boxes_begin_at_multiples_of_16_bytes(element, coordinate):
    """An H100 ends a kernel that copies from another place: an illegal instruction."""
    array = tensor((4, 128), element)
    m = tiled(0, element, (128, 4), (16, 2))
    with pytest.raises(Misaligned, match="multiple of 16 bytes"):
        tmakit.load(array, m, (coordinate, 1), 32 * array.itemsize)


def test_maps_that_dont_fit_the_instruction():
    array = tensor((8, 64))
    m = tiled(0, "u16", (64, 8), (32, 1))
    with pytest.raises(DescriptorError, match="mode tile in a copy of mode im2col"):
        tmakit.load(np.zeros((2, 8, 64), np.uint16), tiled(0, "u16", (64, 8, 2), (32, 1, 1)), (0, 0, 0), 64, mode="im2col",
                    extra=", {0}")
    with pytest.raises(DescriptorError, match="boxes of one row"):
        tmakit.load(array, tiled(0, "u16", (64, 8), (32, 2)), (0, 0, 0, 0, 0), 128, mode="tile::gather4")
    assert m.box_bytes() == 64


@pytest.mark.parametrize(("coords", "inside"), [((0, 0), 4), ((0, 7), 2)])
def test_the_report_counts_the_bytes_of_every_row_inside(coords, inside):
    """A box of four rows of 32 bytes at the corner and over the edge of nine rows: rows outside are read from nowhere."""
    array = tensor((9, 32), "u16")
    m = tiled(0, "u16", (32, 9), (16, 4))
    ins = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r12], [%rd1, {%r0, %r1}], [bar];"
    text = tmakit.LOAD.replace("INSTRUCTION", ins).replace("BYTES", "2048")
    report = simulate(text, args=[tmakit.argument(array, m), np.zeros(128, np.uint8), np.uint32(32), np.uint32(m.box_bytes()),
                                  np.uint32(0), *(np.int32(c) for c in (*coords, 0, 0, 0))])
    assert report.bytes["global read"] == inside * 32
