"""One canonical tile, four readers: boxes, matrix descriptors and ordinary accesses name the same byte for each element."""
from __future__ import annotations

import itertools

import numpy as np
import pytest

from tileiras.layout.cute import ComposedLayout, Swizzle, parse_layout
from tileiras.layout.cute.f2 import from_shared
from tileiras.layout.descriptors import address_field, boxes, byte_offset, instruction_descriptor, matrix_descriptor
from tileiras.layout.linear import LinearLayout
from tileiras.layout.operands import ldmatrix_plan
from tileiras.layout.shared import SWIZZLES, WIDE_ATOMS, CanonicalTile, SharedLayout, canonical, canonical_of
from tileiras.sim.copy.box import places
from tileiras.sim.matrix.descriptors import chunk_addresses, decode
from tileiras.sim.tcgen05.descriptor import decode_instruction

TILES = [canonical(shape, bits, major, swizzle)
         for shape in ((64, 64), (128, 64), (64, 256), (8, 128)) for bits in (8, 16, 32) for major in (0, 1)
         for swizzle in SWIZZLES if shape[major] * bits // 8 >= (swizzle or 16)]
WIDE = [canonical(shape, 32, major, WIDE_ATOMS) for shape in ((64, 64), (8, 128), (64, 32), (128, 8)) for major in (0, 1)
        if shape[major] >= 32]
ATOMICITIES = {16: 0, 32: 1}


def name(tile: CanonicalTile) -> str:
    return f"{tile.shape}-{tile.bits}-{tile.major}-{tile.swizzle}"


def element_bytes(tile: CanonicalTile) -> np.ndarray:
    """The byte of each element, by the layout for ordinary accesses."""
    n = int(np.prod(tile.shape))
    return (np.array([tile.layout.offset(i) for i in range(n)]) * tile.bits // 8).reshape(tile.shape)


@pytest.mark.parametrize("tile", TILES + WIDE, ids=name)
def test_every_byte_is_used_once(tile: CanonicalTile) -> None:
    found = sorted(element_bytes(tile).ravel())
    assert found == list(range(0, tile.num_bytes, tile.bits // 8))


@pytest.mark.parametrize("tile", TILES + WIDE, ids=name)
def test_tensor_copies_put_each_element_where_accesses_look(tile: CanonicalTile) -> None:
    where = element_bytes(tile)
    plan = boxes(tile)
    assert plan.order == ((0, 1) if tile.major == 0 else (1, 0))
    assert plan.box[0] * tile.bits // 8 <= 128 and max(plan.box) <= 256
    seen = np.zeros(tile.shape, bool)
    for copy in plan.copies:
        # the box's 16-byte chunks in the order of the tensor map, each where the simulated copy engine puts it
        chunks = places(copy.byte, plan.box[1], plan.box[0] * tile.bits // 8, plan.swizzle, ATOMICITIES[plan.atom])
        chunks = chunks.reshape(plan.box[1], -1)
        each = 128 // tile.bits
        for row in range(plan.box[1]):
            for column in range(plan.box[0]):
                at = list(copy.at)
                at[plan.order[0]] += column
                at[plan.order[1]] += row
                assert where[tuple(at)] == chunks[row, column // each] + column % each * tile.bits // 8
                seen[tuple(at)] = True
    assert seen.all()
    assert len(plan.copies) * plan.box_bytes == tile.num_bytes


@pytest.mark.parametrize("form", ["wgmma", "tcgen05"])
@pytest.mark.parametrize("k_dim", [0, 1])
@pytest.mark.parametrize("tile", TILES + WIDE, ids=name)
def test_matrix_descriptors_read_each_element_where_accesses_look(tile: CanonicalTile, k_dim: int, form: str) -> None:
    where = element_bytes(tile)
    major = "k" if tile.major == k_dim else "mn"
    matrix = where.T if k_dim == 0 else where           # [mn, k]
    each, k = 128 // tile.bits, 256 // tile.bits        # elements a chunk; K of one instruction, 32 bytes
    if tile in WIDE and (form == "wgmma" or major == "k"):
        with pytest.raises(ValueError, match="only tcgen05 takes tiles of which 32 bytes stay together"):
            matrix_descriptor(tile, k_dim, form)
        return
    if matrix.shape[1] < k or (major == "k" and tile.swizzle == 0 and tile.panels < 2):
        return
    mn = min(64, matrix.shape[0])
    start = 4096
    for m0, k0 in itertools.product(range(0, matrix.shape[0], mn), range(0, matrix.shape[1], k)):
        at = (k0, m0) if k_dim == 0 else (m0, k0)
        bits = matrix_descriptor(tile, k_dim, form) + address_field(start + byte_offset(tile, at))
        chunks = chunk_addresses(decode(bits, form), major, mn, k, tile.bits) - start
        part = matrix[m0:m0 + mn, k0:k0 + k]
        expected = part[:, ::each] if major == "k" else part[::each, :]
        assert np.array_equal(chunks, expected)


@pytest.mark.parametrize(("tile", "k_dim", "form", "bits"), [
    # what the original emits for an f16 product of 128 x 128 x 64
    (canonical((128, 64), 16, 1, 128), 1, "wgmma", 0x4000004000010000),
    (canonical((64, 128), 16, 1, 128), 0, "wgmma", 0x4000004002000000),
    (canonical((128, 64), 16, 1, 128), 1, "tcgen05", 0x4000404000010000),
    (canonical((64, 128), 16, 1, 128), 0, "tcgen05", 0x4000404002000000)])
def test_descriptors_of_the_original(tile: CanonicalTile, k_dim: int, form: str, bits: int) -> None:
    assert matrix_descriptor(tile, k_dim, form) == bits


def test_steps_of_the_original() -> None:
    # 16 of K: two chunks inside a row of A, sixteen rows of 128 bytes of B
    assert byte_offset(canonical((128, 64), 16, 1, 128), (0, 16)) >> 4 == 2
    assert byte_offset(canonical((64, 128), 16, 1, 128), (16, 0)) >> 4 == 128


def test_the_swizzle_is_the_documented_xor() -> None:
    tile = canonical((64, 64), 16, 1, 128)
    where = element_bytes(tile)
    for row, column in itertools.product(range(64), range(0, 64, 8)):
        address = row * 128 + column * 2
        assert where[row, column] == address ^ (address >> 3 & 112)
    assert from_shared(tile.layout) == ComposedLayout(Swizzle(3, 3, 3), 0, parse_layout("(64,64):(64,1)"))


@pytest.mark.parametrize("swizzle", [32, 64, 128])
@pytest.mark.parametrize("major", [0, 1])
def test_matrices_of_eight_rows_are_loaded_from_it(swizzle: int, major: int) -> None:
    # the fragment of A of an m16n8k16 product of f16, one warp
    fragment = LinearLayout((16, 64), (1, 8 * 64, 8, 16, 32), (2, 4, 64, 128, 256), ())
    plan = ldmatrix_plan(fragment, canonical((16, 64), 16, major, min(swizzle, 32) if major == 0 else swizzle).layout, 2)
    assert plan is not None and plan.trans == (major == 0)


def test_atoms_of_32_bytes_lie_as_the_layouts_of_the_ptx_isa_say() -> None:
    # 64 of N contiguous, 8 of K, 32 bits each: rows of 32 elements, of which 8 each change places by the row's number modulo 4;
    # the next 32 of N lie behind all 8 rows; a descriptor steps over 1024 bytes to these, over 512 to the next four rows
    tile = canonical((8, 64), 32, 1, WIDE_ATOMS)
    where = element_bytes(tile)
    for k, n in itertools.product(range(8), range(64)):
        assert where[k, n] == n // 32 * 1024 + k * 128 + (n % 32 // 8 ^ k % 4) * 32 + n % 8 * 4
    assert matrix_descriptor(tile, 0, "tcgen05") == 1 << 61 | 1 << 46 | 512 // 16 << 32 | 1024 // 16 << 16


def test_the_widest_swizzle_is_taken() -> None:
    assert [canonical((64, n), 16, 1).swizzle for n in (8, 16, 32, 64, 128)] == [0, 32, 64, 128, 128]
    assert [canonical((64, 64), 16, 1, s).alignment for s in SWIZZLES] == [128, 256, 512, 1024]


@pytest.mark.parametrize(("shape", "swizzle", "why"), [
    ((64, 16), 64, "don't fill the 64 bytes"), ((64, 4), 0, "don't fill the 16 bytes"), ((64, 64), 48, "no swizzle spans 48")])
def test_tiles_that_are_not_canonical(shape: tuple[int, int], swizzle: int, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        canonical(shape, 16, 1, swizzle)


def test_a_tile_of_few_rows_has_no_matrix_descriptor() -> None:
    with pytest.raises(ValueError, match="the tile has 4"):
        matrix_descriptor(canonical((4, 64), 16, 1, 128), 1, "wgmma")
    with pytest.raises(ValueError, match="can't step over"):
        matrix_descriptor(canonical((1 << 15, 16), 16, 1, 0), 1, "wgmma")


def test_a_batch_of_matrices() -> None:
    tile = canonical((2, 64, 128), 16, 2, 128)
    where = element_bytes(tile)
    for z in range(2):
        bits = matrix_descriptor(tile, 1, "wgmma") + address_field(byte_offset(tile, (z, 0, 0)))
        chunks = chunk_addresses(decode(bits, "wgmma"), "mn", 128, 16, 16)
        assert np.array_equal(chunks, where[z, :16, ::8].T)
    plan = boxes(tile)
    assert plan.order == (2, 1, 0) and plan.box == (64, 64, 2)
    assert [c.byte for c in plan.copies] == [0, 2 * 64 * 128]


def test_rows_beyond_one_box_take_several_copies() -> None:
    plan = boxes(canonical((512, 64), 16, 1, 128))
    assert plan.box == (64, 256) and [(c.at, c.byte) for c in plan.copies] == [((0, 0), 0), ((256, 0), 256 * 128)]


@pytest.mark.parametrize("shape", [(4, 512, 8), (2, 512, 2, 64), (512, 2, 64), (2, 2, 1024, 8)])
def test_rows_of_a_box_lie_one_behind_the_other(shape: tuple[int, ...]) -> None:
    tile = canonical(shape, 16, len(shape) - 1)
    plan, where = boxes(tile), np.array([byte_offset(tile, at) for at in np.ndindex(shape)]).reshape(shape)
    assert len(plan.copies) * plan.box_bytes == tile.num_bytes and max(plan.box) <= 256
    for copy in plan.copies:
        box = where[tuple(slice(i, i + n) for i, n in zip(copy.at, reversed(plan.box)))]
        assert np.array_equal(box.ravel(), copy.byte + np.arange(0, plan.box_bytes, 2))


def test_the_instruction_descriptor_of_the_original() -> None:
    assert instruction_descriptor("f16", 128, 128, "f16", "f16", "f32", b_mn_major=True) == 0x08210010


@pytest.mark.parametrize(("kind", "a", "b", "d"), [
    ("f16", "bf16", "bf16", "f32"), ("f16", "f16", "f16", "f16"), ("tf32", "tf32", "tf32", "f32"),
    ("f8f6f4", "e4m3", "e2m1", "f16"), ("f8f6f4", "e5m2", "e3m2", "f32"), ("i8", "s8", "u8", "s32")])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True)])
def test_instruction_descriptors_say_what_they_were_made_of(kind: str, a: str, b: str, d: str,
                                                            transposed: tuple[bool, bool]) -> None:
    if transposed[1] and b in ("e2m1", "e3m2"):
        return
    word = instruction_descriptor(kind, 128, 96, a, b, d, a_mn_major=transposed[0], b_mn_major=transposed[1])
    found = decode_instruction(word, kind)
    assert (found.m, found.n, found.a, found.b, found.d) == (128, 96, a, b, d)
    assert (found.transpose_a, found.transpose_b) == transposed


@pytest.mark.parametrize(("kind", "vectors", "scale", "a", "b", "place"), [
    ("mxf8f6f4", "1X", "ue8m0", "e4m3", "e2m1", (3, 1)), ("mxf4", "2X", "ue8m0", "e2m1", "e2m1", (2, 0)),
    ("mxf4nvf4", "4X", "ue4m3", "e2m1", "e2m1", (0, 0)), ("mxf4nvf4", "block16", "ue5m3", "e2m1", "e2m1", (0, 0))])
def test_block_scaled_instruction_descriptors(kind: str, vectors: str, scale: str, a: str, b: str,
                                              place: tuple[int, int]) -> None:
    word = instruction_descriptor(kind, 128, 64, a, b, "f32", scale=scale, scale_a=place[0], scale_b=place[1])
    found = decode_instruction(word, kind, vectors=vectors)
    assert (found.m, found.n, found.a, found.b, found.scale) == (128, 64, a, b, scale)
    assert (found.scale_a, found.scale_b) == place


def test_products_that_a_kind_does_not_have() -> None:
    with pytest.raises(ValueError, match="kind::f16 has no product of e4m3 and e4m3"):
        instruction_descriptor("f16", 128, 128, "e4m3", "e4m3", "f32")
    with pytest.raises(ValueError, match="takes scales"):
        instruction_descriptor("mxf4", 128, 128, "e2m1", "e2m1", "f32")


@pytest.mark.parametrize("tile", [t for t in TILES if t.shape == (64, 64)], ids=name)
def test_canonical_forms_are_recognized(tile: CanonicalTile) -> None:
    found = canonical_of(tile.layout, tile.bits)
    assert found is not None and found.layout == tile.layout
    assert canonical_of(SharedLayout(tile.shape, tile.layout.bases[::-1]), tile.bits) is None or tile.swizzle == 0
    for_all = canonical_of(SharedLayout((4, *tile.shape), (*tile.layout.bases, 0, 0)), tile.bits)
    assert for_all is not None and for_all.shape == (1, *tile.shape) and for_all.layout.bases == tile.layout.bases
